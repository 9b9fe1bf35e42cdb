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
//! A small table stays in the cache: its keys are hashed when they are merged.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::ir::Expr;
use weld_runtime::DictOffsets;

use super::loops::LoopSite;
use super::{Emitter, Res, Val};
use crate::analysis::loop_plan::{HashAhead, SLOT_BYTES};
use crate::block::Flow;
use crate::tables::dict::row_layout;
use crate::tables::hash::KnownHash;

/// The keys of a loop that are hashed ahead, and where.
pub(super) struct Hashes<'c, 'e> {
    plan: &'e HashAhead<'e>,
    /// Holds the table's address.
    state: PointerValue<'c>,
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
    /// Room for the hashes of a strip of keys of one of these builders.
    pub(super) fn hashes<'e>(&mut self, plan: &'e HashAhead<'e>, builders: &Val<'c>) -> Res<Hashes<'c, 'e>> {
        let mut builder = builders.clone();
        for field in &plan.builder {
            builder = builder.field(*field)?;
        }
        let state = builder.builder()?.state;
        Ok(Hashes { plan, state, hashes: self.alloca(4 * u64::from(plan.strip), "hashes")? })
    }

    /// Hashes the keys of iterations `start .. end` if the table is large, and says whether it did.
    pub(super) fn hash_ahead(
        &mut self,
        hashes: &Hashes<'c, '_>,
        site: &LoopSite<'_, 'c>,
        (start, end): (IntValue<'c>, IntValue<'c>),
    ) -> Res<IntValue<'c>> {
        let HashAhead { key, key_ty, value_ty, table_bytes_min, .. } = hashes.plan;
        let table = self.load_ptr(hashes.state)?;
        let row_bytes = row_layout(key_ty, value_ty).row_bytes;
        let rows = self.load_i64(self.offset(table, DictOffsets::LEN as u64)?)?;
        let rows_min = self.i64((table_bytes_min / (row_bytes + SLOT_BYTES)).into());
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
            let key = e.early_key(key, site.source, site.params.element, e.add_nw(start, k)?)?;
            let key = e.canonical_key(key_ty, &key)?;
            let hash = e.hash_key(key_ty, &key)?;
            e.store(e.element_ptr(i32.into(), hashes.hashes, k)?, hash)?;
            e.prefetch(slot_of(e, hash)?)
        })?;
        self.count_loop(count, |e, k| {
            let hash = e.load(i32, e.element_ptr(i32.into(), hashes.hashes, k)?)?.into_int_value();
            let slot = e.load_i64(slot_of(e, hash)?)?;
            let number = e.and(slot, e.i64(u32::MAX.into()))?;
            e.prefetch(e.row_ptr(table_rows, key_ty, value_ty, number)?)
        })?;
        self.branch(done)?;
        self.at(done);
        Ok(large)
    }

    /// What the merge of iteration `index` of a strip from `start` on finds of [`Emitter::hash_ahead`].
    pub(super) fn hashed(
        &self,
        hashes: &Hashes<'c, '_>,
        done: IntValue<'c>,
        start: IntValue<'c>,
        index: IntValue<'c>,
    ) -> Res<Hashed<'c>> {
        let at = self.element_ptr(self.unit.ll.i32_type().into(), hashes.hashes, self.sub(index, start)?)?;
        Ok(Hashed { key: hashes.plan.key.key, hash: KnownHash { done, at } })
    }

    /// The hash of the key that stands in the body as `expr`, if its loop hashes that ahead.
    pub(super) fn known_hash(&self, expr: &Expr) -> Option<KnownHash<'c>> {
        self.hashed.filter(|hashed| std::ptr::eq(expr, hashed.key)).map(|hashed| hashed.hash)
    }
}
