//! Groupbuilders: rows of keys and values, grouped when all are there.
//!
//! State: the address of a `weld_runtime::GroupBuilder`. A merge writes key and value behind the last ones; the result
//! is a call, which hashes and compares keys through functions made for their type.

use inkwell::IntPredicate;
use inkwell::values::PointerValue;
use weld_core::diag::Span;
use weld_core::ty::Type;
use weld_runtime::{GroupOffsets, KeyKind};

use super::{Builders, Handle, Res, Val};
use crate::layout;
use crate::tables::dict::group_layout;
use crate::tables::hash::{KeyMemory, equal_function, hash_function};

impl<'c> Builders<'c, '_> {
    pub(crate) fn start_group_builder(&mut self, handle: &Handle<'c>, key: &Type, value: &Type, span: Span) -> Res<()> {
        let layout = group_layout(key, value);
        let integer = match layout.key {
            KeyKind::Integer { bytes, signed: true } => -i32::from(bytes),
            KeyKind::Integer { bytes, signed: false } => bytes.into(),
            KeyKind::Other => 0,
        };
        let sizes: Vec<u8> = layout.column_bytes.iter().flat_map(|bytes| bytes.to_le_bytes()).collect();
        let sizes = self.unit.constant_bytes(&sizes);
        let args = [
            self.run.into(),
            handle.region.into(),
            self.i32(integer).into(),
            self.i32(layout.key_bytes as i32).into(),
            self.i32(layout.key_align as i32).into(),
            self.i64(layout.column_bytes.len() as i64).into(),
            sizes.into(),
        ];
        let builder = self.call_value("weld_group_new", &args)?.into_pointer_value();
        self.trap_noted_if(self.b.build_is_null(builder, "")?, span)?;
        self.store(handle.state, builder)?;
        Ok(())
    }

    pub(crate) fn merge_group_builder(
        &mut self,
        handle: &Handle<'c>,
        key_ty: &Type,
        ty: &Type,
        value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        let builder = self.load_ptr(handle.state)?;
        let memory = KeyMemory { function: "weld_group_alloc", object: builder, copies_bytes: handle.copies_bytes };
        let key = self.canonical_key(key_ty, &value.field(0)?)?;
        let key = self.own_key(key_ty, &key, &memory, span)?;
        let value = self.own_value(ty, &value.field(1)?, &memory, span)?;

        let count_at = self.offset(builder, GroupOffsets::COUNT as u64)?;
        let count = self.load_i64(count_at)?;
        let capacity = self.load_i64(self.offset(builder, GroupOffsets::CAPACITY as u64)?)?;
        let full = self.cmp(IntPredicate::EQ, count, capacity)?;
        let (grow, room) = (self.new_block("grow"), self.new_block("room"));
        let from = self.current_block()?;
        self.branch_if_rare(full, grow, room)?;
        self.at(grow);
        let done = self.call_value("weld_group_grow", &[self.run.into(), builder.into()])?.into_int_value();
        self.trap_noted_if(self.b.build_not(done, "")?, span)?;
        let grown = self.current_block()?;
        self.branch(room)?;
        self.at(room);
        let index = self.b.build_phi(self.unit.i64_type(), "row")?;
        index.add_incoming(&[(&count, from), (&self.i64(0), grown)]);
        let index = index.as_basic_value().into_int_value();

        let keys = self.load_ptr(self.offset(builder, GroupOffsets::KEYS as u64)?)?;
        self.store_row(key_ty, self.column_ptr(key_ty, keys, index)?, &key)?;
        let pointers = self.load_ptr(self.offset(builder, GroupOffsets::COLUMNS as u64)?)?;
        let columns: Vec<PointerValue<'c>> = (0..layout::columns(ty).len())
            .map(|i| self.load_ptr(self.offset(pointers, 8 * i as u64)?))
            .collect::<Res<_>>()?;
        self.store_element(ty, &mut columns.into_iter(), index, &value)?;
        self.store(count_at, self.add_nw(index, self.i64(1))?)?;
        Ok(())
    }

    pub(crate) fn result_group_builder(
        &mut self,
        handle: &Handle<'c>,
        key: &Type,
        _value: &Type,
        span: Span,
    ) -> Res<Val<'c>> {
        let builder = self.load_ptr(handle.state)?;
        let hash = hash_function(self, key)?.as_global_value().as_pointer_value();
        let equal = equal_function(self, key)?.as_global_value().as_pointer_value();
        let args = [self.run.into(), handle.region.into(), builder.into(), hash.into(), equal.into()];
        let table = self.call_value("weld_group_finish", &args)?.into_pointer_value();
        self.trap_noted_if(self.b.build_is_null(table, "")?, span)?;
        Ok(Val::Dict(self.new_dict(table, handle.region, &handle.ty.result_type())))
    }

    pub(crate) fn combine_group_builder(
        &mut self,
        handle: &Handle<'c>,
        _key: &Type,
        _value: &Type,
        other: PointerValue<'c>,
        _span: Span,
    ) -> Res<()> {
        let (builder, other) = (self.load_ptr(handle.state)?, self.load_ptr(other)?);
        self.call("weld_group_combine", &[builder.into(), other.into()])?;
        Ok(())
    }
}
