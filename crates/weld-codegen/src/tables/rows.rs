//! Rows of tables by number: `hash_key`, `may_contain_hashed`, `find_row`, `row_value`. The tables find keys by hash:
//! their types allow of no dense ones. Row zero stands for a key that is not there.

use inkwell::values::IntValue;
use weld_core::ty::Type;
use weld_runtime::DictOffsets;

use super::dict::entry_types;
use super::probe::Found;
use super::{Demand, DictVal, Res, Tables, Val};

impl<'c> Tables<'c, '_> {
    /// The hash by which a table looks for a key.
    pub(crate) fn dict_hash_key(&mut self, table: DictVal<'c>, dict: &Type, key: &Val<'c>) -> Res<IntValue<'c>> {
        let (key_ty, _) = entry_types(dict)?;
        let key = self.canonical_key(key_ty, key)?;
        self.hash_of_probe(table, key_ty, &key)
    }

    /// Asks the filter of a large table; a small one finds a row as fast.
    pub(crate) fn dict_may_contain_hashed(&mut self, table: DictVal<'c>, hash: IntValue<'c>) -> Res<IntValue<'c>> {
        let filter = self.header_ptr(table, DictOffsets::FILTER)?;
        let none = self.b.build_is_null(filter, "")?;
        let (ask, done) = (self.new_block("filter"), self.new_block("asked"));
        let from = self.current_block()?;
        self.branch_if(none, done, ask)?;
        self.at(ask);
        let hash = self.to_i64(hash)?;
        let present = self.ask_filter(table, filter, hash)?;
        let asked = self.current_block()?;
        self.branch(done)?;
        self.at(done);
        let phi = self.b.build_phi(self.unit.ll.bool_type(), "")?;
        phi.add_incoming(&[(&self.bool(true), from), (&present, asked)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// Whether [`Tables::dict_may_contain_hashed`] is true of any hash.
    pub(crate) fn may_contain_any(&self, table: DictVal<'c>) -> Res<IntValue<'c>> {
        Ok(self.b.build_is_null(self.header_ptr(table, DictOffsets::FILTER)?, "")?)
    }

    /// The number of a key's row.
    pub(crate) fn dict_find_row(
        &mut self,
        table: DictVal<'c>,
        dict: &Type,
        hash: IntValue<'c>,
        key: &Val<'c>,
    ) -> Res<IntValue<'c>> {
        let (key_ty, value_ty) = entry_types(dict)?;
        let key = self.canonical_key(key_ty, key)?;
        let row = self.row_of_probe(table, (key_ty, value_ty), &key, Some(hash))?;
        Ok(self.b.build_int_truncate(row, self.unit.ll.i32_type(), "")?)
    }

    /// The demanded parts of the value in a row that was found.
    pub(crate) fn dict_row_value(
        &mut self,
        table: DictVal<'c>,
        dict: &Type,
        row: IntValue<'c>,
        demand: &Demand,
    ) -> Res<Val<'c>> {
        let (key_ty, value_ty) = entry_types(dict)?;
        let (place, count) = match value_ty.element() {
            Some(_) => self.group_of_found_row(table, (key_ty, value_ty), row)?,
            None => (self.to_i64(row)?, self.i64(0)),
        };
        self.found_value(table, dict, &Found { found: self.bool(true), place, count }, demand)
    }

    /// The number of the first value of a row's group, and how many there are.
    pub(super) fn group_of_found_row(
        &self,
        table: DictVal<'c>,
        (key_ty, value_ty): (&Type, &Type),
        row: IntValue<'c>,
    ) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let rows = self.header_ptr(table, DictOffsets::ROWS)?;
        let row = self.row_ptr(rows, key_ty, value_ty, self.to_i64(row)?)?;
        self.group_of_row(table, row, key_ty, value_ty)
    }
}
