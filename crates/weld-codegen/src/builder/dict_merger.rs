//! Dictmergers: a hash table whose values are combined in place.
//!
//! State: the address of the table. Finding a key's row is inlined; a new key takes a call, which enters it into the
//! directory and gives a row to fill.

use inkwell::values::{FunctionValue, IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::op::MergeOp;
use weld_core::ty::Type;
use weld_runtime::{DictOffsets, RowLayout};

use super::{Builders, DictVal, Handle, Res, Val};
use crate::block::Flow;
use crate::layout;
use crate::tables::dict::row_layout;
use crate::tables::hash::{KeyMemory, KnownHash, equal_function, helper, pointer_param};

impl<'c> Builders<'c, '_> {
    pub(crate) fn start_dict_merger(
        &mut self,
        handle: &Handle<'c>,
        key: &Type,
        value: &Type,
        _op: &MergeOp,
        span: Span,
    ) -> Res<()> {
        let RowLayout { value_offset, row_bytes } = row_layout(key, value);
        let i32 = self.unit.ll.i32_type();
        let number = |value: u32| i32.const_int(value.into(), false);
        let args = [self.run.into(), handle.region.into(), number(value_offset).into(), number(row_bytes).into()];
        let table = self.call_value("weld_dict_new", &args)?.into_pointer_value();
        self.trap_noted_if(self.b.build_is_null(table, "")?, span)?;
        self.store(handle.state, table)?;
        Ok(())
    }

    pub(crate) fn merge_dict_merger(
        &mut self,
        handle: &Handle<'c>,
        key_ty: &Type,
        ty: &Type,
        op: &MergeOp,
        value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        let (key, value) = (value.field(0)?, value.field(1)?);
        let (at, table) = self.value_of_key(handle, (key_ty, ty, op), (&key, None), span)?;
        self.merge_at(ty, op, (at, Some(table)), &value, span)
    }

    /// Where the value of a key's row lies, and the table. A new key has its row made.
    pub(crate) fn value_of_key(
        &mut self,
        handle: &Handle<'c>,
        (key_ty, ty, op): (&Type, &Type, &MergeOp),
        key: (&Val<'c>, Option<KnownHash<'c>>),
        span: Span,
    ) -> Res<(PointerValue<'c>, PointerValue<'c>)> {
        let number = self.row_of_key(handle, (key_ty, ty, op), key, span)?;
        let table = self.load_ptr(handle.state)?;
        let rows = self.load_ptr(self.offset(table, DictOffsets::ROWS as u64)?)?;
        Ok((self.merged_value_ptr(rows, key_ty, ty, number)?, table))
    }

    /// The number of a key's row in the table of the builder. A new key has its row made. With the key
    /// comes its hash, if that may be known.
    pub(crate) fn row_of_key(
        &mut self,
        handle: &Handle<'c>,
        types: (&Type, &Type, &MergeOp),
        (key, known): (&Val<'c>, Option<KnownHash<'c>>),
        span: Span,
    ) -> Res<IntValue<'c>> {
        let key = self.canonical_key(types.0, key)?;
        let hash = self.hash_unless_known(types.0, &key, known)?;
        let table = self.load_ptr(handle.state)?;
        let memory = KeyMemory { function: "weld_dict_alloc", object: table, copies_bytes: handle.copies_bytes };
        self.entry_number(&memory, types, &key, hash, span)
    }

    /// Merges a value into one in row form, in a row of `table`. Without a table it takes byte vectors as they are:
    /// those of another table, whose memory this one takes over.
    pub(crate) fn merge_at(
        &mut self,
        ty: &Type,
        op: &MergeOp,
        (at, table): (PointerValue<'c>, Option<PointerValue<'c>>),
        value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        if let (Type::Struct(fields), MergeOp::Struct(op)) = (ty, op)
            && let Some(choice) = op.choice()
        {
            return self.merge_choice_at(choice, fields, (at, table), value, span);
        }
        match (ty, op, table) {
            (Type::Struct(fields), MergeOp::Struct(op), Some(table)) if fields.iter().any(Type::is_bytes) => {
                self.merge_extreme_at(*op, ty, (at, table), value, span)
            }
            (Type::Struct(fields), MergeOp::Fields(ops), Some(_)) if layout::has_bytes(ty) => {
                for (i, (field, offset)) in fields.iter().zip(layout::field_offsets(fields)).enumerate() {
                    self.merge_at(field, &ops[i], (self.offset(at, offset)?, table), &value.field(i)?, span)?;
                }
                Ok(())
            }
            _ => {
                let now = self.load_row(ty, at, false)?;
                let merged = self.reduce(ty, op, &now, value)?;
                self.store_row(ty, at, &merged)
            }
        }
    }

    pub(crate) fn result_dict_merger(
        &mut self,
        handle: &Handle<'c>,
        _key: &Type,
        _value: &Type,
        _op: &MergeOp,
        _span: Span,
    ) -> Res<Val<'c>> {
        let table = self.load_ptr(handle.state)?;
        let address = self.call_value("weld_dict_finish", &[table.into()])?.into_pointer_value();
        Ok(Val::Dict(self.new_dict(address, handle.region, &handle.ty.result_type())))
    }

    pub(crate) fn combine_dict_merger(
        &mut self,
        handle: &Handle<'c>,
        key_ty: &Type,
        ty: &Type,
        op: &MergeOp,
        other: PointerValue<'c>,
        span: Span,
    ) -> Res<()> {
        let (table, other) = (self.load_ptr(handle.state)?, self.load_ptr(other)?);
        let equal = equal_function(self, key_ty)?.as_global_value().as_pointer_value();
        let merge = merge_function(self, ty, op)?.as_global_value().as_pointer_value();
        let args = [self.run.into(), table.into(), other.into(), equal.into(), merge.into()];
        let combined = self.call_value("weld_dict_combine", &args)?.into_int_value();
        self.trap_noted_if(self.b.build_not(combined, "")?, span)
    }

    /// The number of the row of a canonical key of this hash, which is made if there is none.
    pub(crate) fn entry_number(
        &mut self,
        memory: &KeyMemory<'c>,
        (key_ty, ty, op): (&Type, &Type, &MergeOp),
        key: &Val<'c>,
        hash: IntValue<'c>,
        span: Span,
    ) -> Res<IntValue<'c>> {
        let table = memory.object;
        let unfinished = DictVal { address: table, lasting: false };
        let (found, number) = self.find_row(unfinished, key_ty, ty, key, hash)?;
        let (new, done) = (self.new_block("new"), self.new_block("row"));
        let from = self.current_block()?;
        self.branch_if(found, done, new)?;

        self.at(new);
        let args = [self.run.into(), table.into(), hash.into()];
        let row = self.call_seldom("weld_dict_insert", &args)?.into_pointer_value();
        self.trap_noted_if(self.b.build_is_null(row, "")?, span)?;
        let owned = self.own_key(key_ty, key, memory, span)?;
        self.store_row(key_ty, row, &owned)?;
        let identity = self.identity_of(ty, op)?;
        self.store_row(ty, self.offset(row, row_layout(key_ty, ty).value_offset.into())?, &identity)?;
        // Rows are numbered from one on.
        let last = self.load_i64(self.offset(table, DictOffsets::LEN as u64)?)?;
        let new_end = self.current_block()?;
        self.branch(done)?;

        self.at(done);
        let phi = self.b.build_phi(self.unit.i64_type(), "row")?;
        phi.add_incoming(&[(&number, from), (&last, new_end)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// The address of the value of a row.
    pub(crate) fn merged_value_ptr(
        &self,
        rows: PointerValue<'c>,
        key_ty: &Type,
        ty: &Type,
        number: IntValue<'c>,
    ) -> Res<PointerValue<'c>> {
        let row = self.row_ptr(rows, key_ty, ty, number)?;
        self.offset(row, row_layout(key_ty, ty).value_offset.into())
    }
}

/// `weld_runtime::MergeValues` for the values of a dictmerger.
fn merge_function<'c>(from: &Builders<'c, '_>, ty: &Type, op: &MergeOp) -> Res<FunctionValue<'c>> {
    let ptr = from.unit.ptr_type();
    helper(from.unit, &from.unit.fresh_name("weld.merge"), &[ptr.into(), ptr.into()], |tables, function| {
        let mut e = Builders::over(tables);
        let value = e.load_row(ty, pointer_param(function, 1)?, false)?;
        e.merge_at(ty, op, (pointer_param(function, 0)?, None), &value, Span::NONE)?;
        let zero = e.i32(0);
        e.finish_with(zero)
    })
}
