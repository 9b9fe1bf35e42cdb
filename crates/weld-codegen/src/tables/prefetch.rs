//! Fetching ahead: asking for the memory that a probe of a key will need.

use inkwell::values::{IntValue, PointerValue};
use weld_core::ty::{Type, may_be_dense};
use weld_runtime::DictOffsets;

use super::{Demand, DictVal, Res, Tables, Val, internal};
use crate::layout;

/// The most columns of values that are fetched ahead.
const PREFETCHED_COLUMNS_MAX: usize = 3;

impl<'c> Tables<'c, '_> {
    /// Asks for the memory that a probe looks at first.
    pub(crate) fn prefetch_slot(
        &mut self,
        table: DictVal<'c>,
        key_ty: &Type,
        value_ty: &Type,
        key: &Val<'c>,
    ) -> Res<()> {
        let key = self.canonical_key(key_ty, key)?;
        let address = if may_be_dense(key_ty, value_ty) {
            let [address] = self.by_kind(
                table,
                |e| Ok([e.dense_word(table, key_ty, &key)?.0.into()]),
                |e| Ok([e.home_slot(table, key_ty, &key)?.into()]),
            )?;
            address.into_pointer_value()
        } else {
            self.home_slot(table, key_ty, &key)?
        };
        self.prefetch(address)
    }

    /// Asks for what the first slot leads to: the row, or the values of the group.
    pub(crate) fn prefetch_row(
        &mut self,
        table: DictVal<'c>,
        key_ty: &Type,
        value_ty: &Type,
        key: &Val<'c>,
    ) -> Res<()> {
        let key = self.canonical_key(key_ty, key)?;
        let done = self.new_block("fetched");
        if may_be_dense(key_ty, value_ty) {
            let (dense, single, hashed) = (self.new_block("dense"), self.new_block("single"), self.new_block("hashed"));
            let is_dense = self.is_dense(table)?;
            self.branch_if(is_dense, dense, hashed)?;
            self.at(dense);
            let (word, bit, _) = {
                let (address, bit, inside) = self.dense_word(table, key_ty, &key)?;
                let word = self.load(self.unit.i64_type(), address)?;
                self.mark_load(word, table.lasting)?;
                (word.into_int_value(), bit, inside)
            };
            let group = self.group_of_bit(word, bit)?;
            let starts = self.header_ptr(table, DictOffsets::STARTS)?;
            let is_single = self.b.build_is_null(starts, "")?;
            let many = self.new_block("many");
            self.branch_if(is_single, single, many)?;
            self.at(many);
            self.prefetch(self.element_ptr(self.unit.ll.i32_type().into(), starts, group)?)?;
            self.branch(done)?;
            self.at(single);
            self.prefetch_columns(table, value_ty, group, &Demand::All)?;
            self.branch(done)?;
            self.at(hashed);
        }
        let hash = self.hash_of_probe(table, key_ty, &key)?;
        self.prefetch_row_of_hash(table, (key_ty, value_ty), hash)?;
        self.branch(done)?;
        self.at(done);
        Ok(())
    }

    /// Asks for the row that the first slot of a hash leads to.
    pub(crate) fn prefetch_row_of_hash(
        &mut self,
        table: DictVal<'c>,
        (key_ty, value_ty): (&Type, &Type),
        hash: IntValue<'c>,
    ) -> Res<()> {
        self.prefetch(self.first_row_of_hash(table, (key_ty, value_ty), hash)?)
    }

    /// Asks for the texts in the key of the row that a key's first slot leads to.
    pub(crate) fn prefetch_texts(
        &mut self,
        table: DictVal<'c>,
        key_ty: &Type,
        value_ty: &Type,
        key: &Val<'c>,
    ) -> Res<()> {
        let key = self.canonical_key(key_ty, key)?;
        let hash = self.hash_of_probe(table, key_ty, &key)?;
        self.prefetch_texts_of_hash(table, (key_ty, value_ty), hash)
    }

    /// The same of a hash's first slot: the bytes that are not in views.
    pub(crate) fn prefetch_texts_of_hash(
        &mut self,
        table: DictVal<'c>,
        (key_ty, value_ty): (&Type, &Type),
        hash: IntValue<'c>,
    ) -> Res<()> {
        let row = self.first_row_of_hash(table, (key_ty, value_ty), hash)?;
        let key = self.load_row(key_ty, row, table.lasting)?;
        self.prefetch_bytes(&key)
    }

    fn prefetch_bytes(&self, key: &Val<'c>) -> Res<()> {
        match key {
            Val::Struct(fields) => fields.iter().try_for_each(|field| self.prefetch_bytes(field)),
            Val::Bytes(text) => {
                let (_, address) = self.bytes_view(text)?;
                self.prefetch(self.b.build_int_to_ptr(address, self.unit.ptr_type(), "")?)
            }
            _ => Ok(()),
        }
    }

    /// The row that the first slot of a hash leads to.
    fn first_row_of_hash(
        &self,
        table: DictVal<'c>,
        (key_ty, value_ty): (&Type, &Type),
        hash: IntValue<'c>,
    ) -> Res<PointerValue<'c>> {
        let slot = self.load(self.unit.i64_type(), self.slot_of_hash(table, hash)?)?;
        self.mark_load(slot, table.lasting)?;
        let number = self.and(slot.into_int_value(), self.i64(u32::MAX.into()))?;
        let rows = self.header_ptr(table, DictOffsets::ROWS)?;
        self.row_ptr(rows, key_ty, value_ty, number)
    }

    /// Asks for the values of the group in a row that was found.
    pub(crate) fn prefetch_values(
        &mut self,
        table: DictVal<'c>,
        (key_ty, value_ty): (&Type, &Type),
        row: IntValue<'c>,
        demand: &Demand,
    ) -> Res<()> {
        let (value, _) = self.group_of_found_row(table, (key_ty, value_ty), row)?;
        self.prefetch_columns(table, value_ty, value, demand)
    }

    /// Asks for what is demanded of a value of a grouped table. One beyond the last at most, which is not read.
    fn prefetch_columns(
        &mut self,
        table: DictVal<'c>,
        value_ty: &Type,
        value: IntValue<'c>,
        demand: &Demand,
    ) -> Res<()> {
        let element = value_ty.element().ok_or_else(|| internal("groups of no vector"))?;
        let pointers = self.header_ptr(table, DictOffsets::COLUMNS)?;
        let mut demanded = Vec::new();
        demanded_columns(element, demand, &mut demanded);
        let columns = layout::columns(element).into_iter().zip(demanded).enumerate();
        for (i, (ty, _)) in columns.filter(|(_, (_, demanded))| *demanded).take(PREFETCHED_COLUMNS_MAX) {
            let column = self.load(self.unit.ptr_type(), self.offset(pointers, 8 * i as u64)?)?;
            self.mark_load(column, table.lasting)?;
            let address = self.column_ptr(&ty, column.into_pointer_value(), value)?;
            self.prefetch(address)?;
        }
        Ok(())
    }

    fn home_slot(&mut self, table: DictVal<'c>, key_ty: &Type, key: &Val<'c>) -> Res<PointerValue<'c>> {
        let hash = self.hash_of_probe(table, key_ty, key)?;
        self.slot_of_hash(table, hash)
    }

    /// Where the search for a hash begins.
    pub(crate) fn slot_of_hash(&self, table: DictVal<'c>, hash: IntValue<'c>) -> Res<PointerValue<'c>> {
        let shift = self.load(self.unit.ll.i32_type(), self.offset(table.address, DictOffsets::SHIFT as u64)?)?;
        self.mark_load(shift, table.lasting)?;
        let shift = self.to_i64(shift.into_int_value())?;
        let home = self.b.build_right_shift(self.to_i64(hash)?, shift, false, "")?;
        let directory = self.header_ptr(table, DictOffsets::DIRECTORY)?;
        self.element_ptr(self.unit.i64_type().into(), directory, home)
    }
}

/// Which of the columns of a type are demanded, in their order.
fn demanded_columns(ty: &Type, demand: &Demand, columns: &mut Vec<bool>) {
    match ty {
        Type::Struct(fields) => {
            fields.iter().enumerate().for_each(|(i, field)| demanded_columns(field, &demand.field(i), columns))
        }
        _ => columns.push(*demand != Demand::None),
    }
}
