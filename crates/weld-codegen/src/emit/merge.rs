//! `merge(builder, value)`: emits the value and hands it to the kind of builder.

use std::rc::Rc;

use inkwell::values::PointerValue;
use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind};
use weld_core::op::MergeOp;
use weld_core::ty::{BuilderType, Type};
use weld_runtime::DictOffsets;

use super::{Emitter, Handle, Res, Val};
use crate::layout;

impl<'c> Emitter<'c, '_> {
    /// Merges into a builder; gives it back. The value of a key is computed when the key's row is known, so that few
    /// registers are taken while the key is looked for.
    pub(super) fn emit_merge(&mut self, builder: &Expr, value: &Expr, span: Span) -> Res<Val<'c>> {
        let target = self.emit(builder)?;
        let handle: Rc<Handle<'c>> = target.builder()?.clone();
        match (&handle.ty, &value.kind) {
            (BuilderType::DictMerger { key, value: ty, op }, ExprKind::Struct(entry)) if entry.len() == 2 => {
                if let Some(buffer) = self.buffer.filter(|buffer| buffer.state == handle.state) {
                    self.merge_later(buffer, (key, ty, op), (&entry[0], &entry[1]))?;
                    return Ok(target);
                }
                let key_value = self.emit(&entry[0])?;
                let known = self.known_hash(&entry[0]);
                let at = self.value_of_key(&handle, (key, ty, op), (&key_value, known), span)?;
                self.merge_expr_at(ty, op, at, &entry[1], span)?;
            }
            (BuilderType::Numberer { key, value: ty, op, .. }, ExprKind::Struct(entry)) if entry.len() == 3 => {
                let key_value = self.emit(&entry[0])?;
                let known = self.known_hash(&entry[0]);
                let number = self.row_of_key(&handle, (key, ty, op), (&key_value, known), span)?;
                let table = self.load_ptr(handle.state)?;
                let rows = self.load_ptr(self.offset(table, DictOffsets::ROWS as u64)?)?;
                let at = self.merged_value_ptr(rows, key, ty, number)?;
                self.merge_expr_at(ty, op, (at, table), &entry[1], span)?;
                let row = self.emit(&entry[2])?;
                self.append_numbered(&handle, number, &row, span)?;
            }
            _ => {
                let value = self.emit(value)?;
                self.merge(&handle, &value, span)?;
            }
        }
        Ok(target)
    }

    /// Merges an expression into a value in row form, in a row of the table, field by field.
    pub(crate) fn merge_expr_at(
        &mut self,
        ty: &Type,
        op: &MergeOp,
        (at, table): (PointerValue<'c>, PointerValue<'c>),
        value: &Expr,
        span: Span,
    ) -> Res<()> {
        match (ty, op, &value.kind) {
            (Type::Struct(fields), MergeOp::All(_) | MergeOp::Fields(_), ExprKind::Struct(parts)) => {
                for (i, (field, offset)) in fields.iter().zip(layout::field_offsets(fields)).enumerate() {
                    self.merge_expr_at(field, &op.field(i), (self.offset(at, offset)?, table), &parts[i], span)?;
                }
                Ok(())
            }
            _ => {
                let value = self.emit(value)?;
                self.merge_at(ty, op, (at, Some(table)), &value, span)
            }
        }
    }
}
