//! Merges that are collected, see [`crate::analysis::loop_plan::Buffered`].
//!
//! ```text
//! merge(b, {key, value})     entries[count] = {key, value}; hashes[count] = hash(key); prefetch its slot; count += 1
//!                            if count == STRIP { merge_entries(..); count = 0 }
//! after the loop             merge_entries(..)
//! merge_entries              prefetch the row that each slot names, if the table is large
//!                            for each entry: find its group or make it, merge the value
//! ```

use inkwell::IntPredicate;
use inkwell::attributes::AttributeLoc;
use inkwell::values::{FunctionValue, IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ir::Expr;
use weld_core::op::MergeOp;
use weld_core::ty::{BuilderType, Type};
use weld_runtime::DictOffsets;

use super::{Emitter, Handle, Res, internal};
use crate::analysis::loop_plan::{Buffered, SLOT_BYTES};
use crate::block::Flow;
use crate::tables::dict::row_layout;
use crate::tables::hash::KeyMemory;
use crate::values::{DictVal, Ranges};

/// Where the merges into a dictionary are collected.
#[derive(Clone, Copy)]
pub(super) struct Buffer<'c> {
    /// The state of the builder.
    pub(super) state: PointerValue<'c>,
    table: PointerValue<'c>,
    /// Rows as the table has them.
    entries: PointerValue<'c>,
    hashes: PointerValue<'c>,
    /// Holds how many there are.
    count: PointerValue<'c>,
    strip: u32,
    /// Merges them.
    merge: FunctionValue<'c>,
}

/// The types of a dictmerger's keys and values, and how values are merged.
type Parts<'t> = (&'t Type, &'t Type, &'t MergeOp);

impl<'c> Emitter<'c, '_> {
    /// An empty buffer for what is merged into this builder.
    pub(super) fn start_buffer(&mut self, plan: Buffered, handle: &Handle<'c>, span: Span) -> Res<Buffer<'c>> {
        let BuilderType::DictMerger { key, value, op } = &handle.ty else {
            return Err(internal("a buffer for what is no dictmerger"));
        };
        let strip = u64::from(plan.strip);
        let row_bytes = u64::from(row_layout(key, value).row_bytes);
        let buffer = Buffer {
            state: handle.state,
            table: self.load_ptr(handle.state)?,
            entries: self.alloca(strip * row_bytes, "entries")?,
            hashes: self.alloca(strip * 4, "hashes")?,
            count: self.alloca(8, "entries_count")?,
            strip: plan.strip,
            merge: self.merge_entries(plan, (key, value, op), span)?,
        };
        self.store(buffer.count, self.i64(0))?;
        Ok(buffer)
    }

    /// Collects `{key, value}`.
    pub(super) fn merge_later(
        &mut self,
        buffer: Buffer<'c>,
        (key_ty, ty, _): Parts<'_>,
        (key, value): (&Expr, &Expr),
    ) -> Res<()> {
        let key = self.emit(key)?;
        let key = self.canonical_key(key_ty, &key)?;
        let hash = self.hash_key(key_ty, &key)?;
        let value = self.emit(value)?;
        let count = self.load_i64(buffer.count)?;
        let layout = row_layout(key_ty, ty);
        let entry = self.row_ptr(buffer.entries, key_ty, ty, count)?;
        self.store_row(key_ty, entry, &key)?;
        self.store_row(ty, self.offset(entry, layout.value_offset.into())?, &value)?;
        self.store(self.element_ptr(self.unit.ll.i32_type().into(), buffer.hashes, count)?, hash)?;
        let slot = self.slot_of_hash(DictVal { address: buffer.table, lasting: false }, hash)?;
        self.prefetch(slot)?;
        let count = self.add_nw(count, self.i64(1))?;
        self.store(buffer.count, count)?;
        let is_full = self.cmp(IntPredicate::EQ, count, self.i64(buffer.strip.into()))?;
        let (full, done) = (self.new_block("full"), self.new_block("collected"));
        self.branch_if(is_full, full, done)?;
        self.at(full);
        self.merge_collected(buffer)?;
        self.branch(done)?;
        self.at(done);
        Ok(())
    }

    /// Merges what is in the buffer.
    pub(super) fn merge_collected(&mut self, buffer: Buffer<'c>) -> Res<()> {
        let Buffer { table, entries, hashes, count, merge, .. } = buffer;
        let collected = self.load_i64(count)?;
        let args = [self.run.into(), self.region.into(), table.into(), entries.into(), hashes.into(), collected.into()];
        let status = self.b.build_call(merge, &args, "")?.try_as_basic_value().basic();
        let status = status.ok_or_else(|| internal("a merge without a status"))?.into_int_value();
        self.pass_on(status)?;
        self.store(count, self.i64(0))?;
        Ok(())
    }

    /// The function `(run, region, table, entries, hashes, count) -> status` that merges entries into a table.
    fn merge_entries(&mut self, plan: Buffered, parts: Parts<'_>, span: Span) -> Res<FunctionValue<'c>> {
        let (ptr, i64) = (self.unit.ptr_type().into(), self.unit.i64_type().into());
        let mut e = self.outlined("merge", &[ptr, ptr, ptr, ptr, i64])?;
        let function = e.function;
        e.unit.attribute(function, AttributeLoc::Function, "noinline", 0);
        let (table, entries, hashes) = (e.pointer_param(2)?, e.pointer_param(3)?, e.pointer_param(4)?);
        let count = function.get_nth_param(5).ok_or_else(|| internal("a merge without a count"))?.into_int_value();
        let hash_of = |e: &Self, k: IntValue<'c>| -> Res<IntValue<'c>> {
            let i32 = e.unit.ll.i32_type();
            Ok(e.load(i32, e.element_ptr(i32.into(), hashes, k)?)?.into_int_value())
        };
        let (key_ty, ty, op) = parts;
        let layout = row_layout(key_ty, ty);
        let rows = e.load_i64(e.offset(table, DictOffsets::LEN as u64)?)?;
        let rows_min = e.i64((plan.table_bytes_min / (layout.row_bytes + SLOT_BYTES)).into());
        let is_large = e.cmp(IntPredicate::UGE, rows, rows_min)?;
        let (ahead, merging) = (e.new_block("ahead"), e.new_block("merging"));
        e.branch_if(is_large, ahead, merging)?;
        e.at(ahead);
        let table_rows = e.load_ptr(e.offset(table, DictOffsets::ROWS as u64)?)?;
        e.gather_loop(count, |e, k| {
            let hash = hash_of(e, k)?;
            let slot = e.slot_of_hash(DictVal { address: table, lasting: false }, hash)?;
            let number = e.and(e.load_i64(slot)?, e.i64(u32::MAX.into()))?;
            e.prefetch(e.row_ptr(table_rows, key_ty, ty, number)?)
        })?;
        e.branch(merging)?;
        e.at(merging);
        let memory = KeyMemory { function: "weld_dict_alloc", object: table, copies_bytes: false };
        e.gather_loop(count, |e, k| {
            let entry = e.row_ptr(entries, key_ty, ty, k)?;
            let key = e.load_row(key_ty, entry, false)?;
            let hash = hash_of(e, k)?;
            let number = e.entry_number(&memory, parts, &key, hash, span)?;
            let table_rows = e.load_ptr(e.offset(table, DictOffsets::ROWS as u64)?)?;
            let at = e.merged_value_ptr(table_rows, key_ty, ty, number)?;
            let value = e.load_row(ty, e.offset(entry, layout.value_offset.into())?, false)?;
            e.merge_at(ty, op, (at, Some(table)), &value, span)
        })?;
        e.finish()?;
        Ok(function)
    }
}
