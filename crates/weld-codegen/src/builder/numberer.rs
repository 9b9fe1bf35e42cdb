//! Numberers: a dictmerger that also appends a row for each merge, with the number of its key.
//!
//! State: that of the dictmerger, then that of the appender. A key's number is the place of its row in the table, which
//! is its place in `tovec`: rows are made in the order in which their keys come, and stay where they are.

use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::op::MergeOp;
use weld_core::ty::{BuilderType, Type};
use weld_runtime::DictOffsets;

use super::{Builders, Handle, Res, Val, internal};
use crate::block::Flow;
use crate::layout;
use crate::tables::dict::row_layout;

/// The builders that a numberer is.
struct Parts<'c> {
    table: Handle<'c>,
    rows: Handle<'c>,
}

impl<'c> Parts<'c> {
    fn key(&self) -> Res<(&Type, &Type, &MergeOp)> {
        match &self.table.ty {
            BuilderType::DictMerger { key, value, op } => Ok((key, value, op)),
            _ => Err(internal("a numberer without a table")),
        }
    }

    fn element(&self) -> Res<&Type> {
        match &self.rows.ty {
            BuilderType::Appender(element) => Ok(element),
            _ => Err(internal("a numberer without rows")),
        }
    }
}

impl<'c> Builders<'c, '_> {
    fn parts(&self, handle: &Handle<'c>) -> Res<Parts<'c>> {
        let (table, rows) = handle.ty.parts().ok_or_else(|| internal("no numberer"))?;
        let table = Handle { copies_bytes: handle.copies_bytes, ..Handle::new(table, handle.state, handle.region) };
        let at = self.offset(handle.state, layout::NUMBERED_ROWS)?;
        let rows = Handle { copies_bytes: handle.copies_rows, ..Handle::new(rows, at, handle.region) };
        Ok(Parts { table, rows })
    }

    pub(crate) fn start_numberer(&mut self, handle: &Handle<'c>, span: Span) -> Res<()> {
        let Parts { table, rows } = self.parts(handle)?;
        self.start(&table, None, false, span)?;
        self.start(&rows, None, false, span)
    }

    pub(crate) fn merge_numberer(&mut self, handle: &Handle<'c>, value: &Val<'c>, span: Span) -> Res<()> {
        let parts = self.parts(handle)?;
        let number = self.merge_of_key(&parts, (&value.field(0)?, &value.field(1)?), span)?;
        self.append_numbered(handle, number, &value.field(2)?, span)
    }

    /// Merges a value into that of its key; the number of the key's row.
    fn merge_of_key(&mut self, parts: &Parts<'c>, (key, value): (&Val<'c>, &Val<'c>), span: Span) -> Res<IntValue<'c>> {
        let (key_ty, ty, op) = parts.key()?;
        let number = self.row_of_key(&parts.table, (key_ty, ty, op), (key, None), span)?;
        let table = self.load_ptr(parts.table.state)?;
        let rows = self.load_ptr(self.offset(table, DictOffsets::ROWS as u64)?)?;
        let at = self.merged_value_ptr(rows, key_ty, ty, number)?;
        self.merge_at(ty, op, (at, Some(table)), value, span)?;
        Ok(number)
    }

    /// Appends a row whose key has the row `number` in the table, where rows are numbered from one on.
    pub(crate) fn append_numbered(
        &mut self,
        handle: &Handle<'c>,
        number: IntValue<'c>,
        row: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        let Parts { rows, .. } = self.parts(handle)?;
        let number = self.sub(number, self.i64(1))?;
        self.merge(&rows, &Val::structure(vec![Val::int(number), row.clone()]), span)
    }

    pub(crate) fn result_numberer(&mut self, handle: &Handle<'c>, span: Span) -> Res<Val<'c>> {
        let Parts { table, rows } = self.parts(handle)?;
        let parts = [table, rows].map(|part| Val::Builder(part.into()));
        self.result(&Val::structure(parts.to_vec()), span)
    }

    /// The keys of the other table get the numbers that they have in this one.
    pub(crate) fn combine_numberer(&mut self, handle: &Handle<'c>, other: PointerValue<'c>, span: Span) -> Res<()> {
        let i64 = self.unit.i64_type();
        let parts = self.parts(handle)?;
        let (key_ty, ty, _) = parts.key()?;
        let table = self.load_ptr(other)?;
        let entries = self.load_i64(self.offset(table, DictOffsets::LEN as u64)?)?;
        let entry_rows = self.load_ptr(self.offset(table, DictOffsets::ROWS as u64)?)?;
        let bytes = self.mul(self.add(entries, self.i64(1))?, self.i64(8))?;
        let numbers = self.allocate(self.region, bytes, span)?;
        self.gather_loop(entries, |e, entry| {
            let row = e.row_ptr(entry_rows, key_ty, ty, e.add_nw(entry, e.i64(1))?)?;
            let key = e.load_row(key_ty, row, false)?;
            let value = e.offset(row, row_layout(key_ty, ty).value_offset.into())?;
            let value = e.load_row(ty, value, false)?;
            let number = e.merge_of_key(&parts, (&key, &value), span)?;
            e.store(e.element_ptr(i64.into(), numbers, entry)?, e.sub(number, e.i64(1))?)?;
            Ok(())
        })?;
        let first = self.load_i64(parts.rows.state)?;
        self.combine(&parts.rows, self.offset(other, layout::NUMBERED_ROWS)?, span)?;
        let added = self.sub(self.load_i64(parts.rows.state)?, first)?;
        let column = self.first_column(&parts.rows, parts.element()?)?;
        self.gather_loop(added, |e, row| {
            let at = e.element_ptr(i64.into(), column, e.add_nw(first, row)?)?;
            let number = e.element_ptr(i64.into(), numbers, e.load_i64(at)?)?;
            e.store(at, e.load_i64(number)?)?;
            Ok(())
        })
    }

    /// The column of the numbers.
    fn first_column(&self, rows: &Handle<'c>, element: &Type) -> Res<PointerValue<'c>> {
        let column = self.appender_columns(rows.state, element)?.first().copied();
        column.ok_or_else(|| internal("numbered rows without numbers"))
    }
}
