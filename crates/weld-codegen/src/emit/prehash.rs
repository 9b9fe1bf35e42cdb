//! Hashing ahead: a loop that merges into a large table hashes the keys of many iterations first and asks for what each
//! will need. Then the processor waits for all of them at once, not for one after the other.
//!
//! ```text
//! for(v, dictmerger, |b,i,x| merge(b, {x.$0, ..}))     before each strip of 128 iterations, if the table is large:
//!                                                        hashes[k] = hash(key of iteration k); prefetch its slot
//!                                                        prefetch the row that the slot of hashes[k] names
//!                                                      then the strip, which takes its hashes from there
//! ```
//!
//! Only for a merge that every iteration does, under a key that follows from the element by operations that cannot fail.
//! A small table stays in the cache: its keys are hashed when they are merged.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::ir::{Expr, ExprKind, Func, Sym};
use weld_core::ty::{BuilderType, Type};
use weld_runtime::DictOffsets;

use super::prefetch::{Ahead, needed};
use super::{Emitter, Res, Val};
use crate::block::Flow;
use crate::tables::dict::row_layout;
use crate::tables::hash::KnownHash;
use crate::values::source::Source;

/// Iterations hashed at a time: the lines of their slots and rows fit into the first-level cache.
pub(super) const STRIP: i64 = 128;
/// Tables of fewer bytes stay in the second-level cache.
const TABLE_BYTES_MIN: u64 = 512 << 10;
/// What a row takes of the directory, about.
const SLOTS_BYTES: u64 = 16;

/// The merge of a loop's body whose keys are hashed ahead.
pub(super) struct MergeAhead<'c, 'e> {
    ahead: Ahead<'e>,
    /// Holds the table's address.
    state: PointerValue<'c>,
    key_ty: Type,
    value_ty: Type,
    hashes: PointerValue<'c>,
}

/// The hash of the key of the merge that is being emitted, if its loop hashes ahead.
#[derive(Clone, Copy)]
pub(crate) struct Hashed<'c> {
    /// The key's expression in the body.
    key: *const Expr,
    hash: KnownHash<'c>,
}

impl<'c> Emitter<'c, '_> {
    /// The merge of this body that is worth hashing ahead, if it has one.
    pub(super) fn merge_ahead<'e>(&mut self, builders: &Val<'c>, func: &'e Func) -> Res<Option<MergeAhead<'c, 'e>>> {
        let [(b_sym, _), (i_sym, _), (x_sym, _)] = &func.params[..] else { return Ok(None) };
        let mut bindings = Vec::new();
        let mut body = &*func.body;
        while let ExprKind::Let { bindings: these, body: inner } = &body.kind {
            bindings.extend(these);
            body = inner;
        }
        let Some((path, key)) = merged_key(body, *b_sym) else { return Ok(None) };
        let mut target = builders.clone();
        for index in path.iter().rev() {
            target = target.field(*index)?;
        }
        let handle = target.builder()?.clone();
        let BuilderType::DictMerger { key: key_ty, value: value_ty, .. } = &handle.ty else { return Ok(None) };
        let Some(bindings) = needed(key, &bindings) else { return Ok(None) };
        let ahead = Ahead { key, bindings };
        if ahead.uses(*i_sym) || !ahead.uses(*x_sym) || ahead.uses(*b_sym) {
            return Ok(None);
        }
        Ok(Some(MergeAhead {
            ahead,
            state: handle.state,
            key_ty: (**key_ty).clone(),
            value_ty: (**value_ty).clone(),
            hashes: self.alloca(4 * STRIP as u64, "hashes")?,
        }))
    }

    /// Hashes the keys of iterations `start .. end` if the table is large, and says whether it did.
    pub(super) fn hash_ahead(
        &mut self,
        merge: &MergeAhead<'c, '_>,
        source: &Source<'c>,
        x_sym: Sym,
        start: IntValue<'c>,
        end: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        let table = self.load_ptr(merge.state)?;
        let row_bytes = u64::from(row_layout(&merge.key_ty, &merge.value_ty).row_bytes);
        let rows = self.load_i64(self.offset(table, DictOffsets::LEN as u64)?)?;
        let rows_min = self.i64((TABLE_BYTES_MIN / (row_bytes + SLOTS_BYTES)) as i64);
        let large = self.cmp(IntPredicate::UGE, rows, rows_min)?;
        let (ahead, done) = (self.new_block("ahead"), self.new_block("strip"));
        self.branch_if(large, ahead, done)?;
        self.at(ahead);
        let i64 = self.unit.i64_type();
        let i32 = self.unit.ll.i32_type();
        let shift = self.load(i32, self.offset(table, DictOffsets::SHIFT as u64)?)?.into_int_value();
        let shift = self.to_i64(shift)?;
        let directory = self.load_ptr(self.offset(table, DictOffsets::DIRECTORY as u64)?)?;
        let table_rows = self.load_ptr(self.offset(table, DictOffsets::ROWS as u64)?)?;
        let slot_of = |e: &Self, hash: IntValue<'c>| -> Res<PointerValue<'c>> {
            let home = e.b.build_right_shift(e.to_i64(hash)?, shift, false, "")?;
            e.element_ptr(i64.into(), directory, home)
        };
        let count = self.sub(end, start)?;
        self.count_loop(count, |e, k| {
            let key = e.key_ahead(&merge.ahead, source, x_sym, e.add_nw(start, k)?)?;
            let key = e.canonical_key(&merge.key_ty, &key)?;
            let hash = e.hash_key(&merge.key_ty, &key)?;
            e.store(e.element_ptr(i32.into(), merge.hashes, k)?, hash)?;
            e.prefetch(slot_of(e, hash)?)
        })?;
        self.count_loop(count, |e, k| {
            let hash = e.load(i32, e.element_ptr(i32.into(), merge.hashes, k)?)?.into_int_value();
            let slot = e.load_i64(slot_of(e, hash)?)?;
            let number = e.and(slot, e.i64(u32::MAX.into()))?;
            e.prefetch(e.row_ptr(table_rows, &merge.key_ty, &merge.value_ty, number)?)
        })?;
        self.branch(done)?;
        self.at(done);
        Ok(large)
    }

    /// What the merge of iteration `index` of a strip from `start` on finds of [`Emitter::hash_ahead`].
    pub(super) fn hashed(
        &self,
        merge: &MergeAhead<'c, '_>,
        done: IntValue<'c>,
        start: IntValue<'c>,
        index: IntValue<'c>,
    ) -> Res<Hashed<'c>> {
        let at = self.element_ptr(self.unit.ll.i32_type().into(), merge.hashes, self.sub(index, start)?)?;
        Ok(Hashed { key: merge.ahead.key, hash: KnownHash { done, at } })
    }

    /// The hash of the key that stands in the body as `expr`, if its loop hashes that ahead.
    pub(super) fn known_hash(&self, expr: &Expr) -> Option<KnownHash<'c>> {
        self.hashed.filter(|hashed| std::ptr::eq(expr, hashed.key)).map(|hashed| hashed.hash)
    }
}

/// The key of the first merge that a body without conditions does, and where its builder is in `b`, from the inside out.
fn merged_key(body: &Expr, b: Sym) -> Option<(Vec<usize>, &Expr)> {
    match &body.kind {
        ExprKind::Merge { builder, value } => {
            let ExprKind::Struct(entry) = &value.kind else { return None };
            let Type::Builder(BuilderType::DictMerger { .. }) = &builder.ty else { return None };
            let mut path = Vec::new();
            let mut at = &**builder;
            while let ExprKind::Field(of, index) = &at.kind {
                path.push(*index as usize);
                at = of;
            }
            let is_b = matches!(&at.kind, ExprKind::Var(sym) if *sym == b);
            (is_b && entry.len() == 2).then(|| (path, &entry[0]))
        }
        ExprKind::Struct(fields) => fields.iter().find_map(|field| merged_key(field, b)),
        _ => None,
    }
}
