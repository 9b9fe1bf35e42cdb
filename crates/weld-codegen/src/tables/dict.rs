//! Reading dictionaries: `lookup`, `optlookup`, `keyexists`, `may_contain`, `first_row`, `tovec`.
//!
//! A finished table does not change. If it is no temporary of an iteration, everything is loaded as invariant: LLVM
//! takes the table's header out of loops.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ty::{Type, may_be_dense};
use weld_runtime::{DictKind, DictOffsets, GroupLayout, KeyKind, RowLayout, Status};

use super::probe::Found;
use super::{Columns, Demand, DictVal, Res, Tables, Val, VecVal, internal};
use crate::block::Flow;
use crate::layout;
use crate::values::Ranges;

/// Key and value type of a dictionary.
pub(crate) fn entry_types(dict: &Type) -> Res<(&Type, &Type)> {
    match dict {
        Type::Dict(key, value) => Ok((key, value)),
        _ => Err(internal("a dictionary type was expected")),
    }
}

/// How a groupbuilder of these types keeps its rows.
pub(crate) fn group_layout(key: &Type, value: &Type) -> GroupLayout {
    let row = layout::row(key);
    let kind = match key {
        Type::Scalar(kind) if may_be_dense(key, &Type::vec(value.clone())) => {
            KeyKind::Integer { bytes: kind.bytes() as u8, signed: kind.is_signed() }
        }
        _ => KeyKind::Other,
    };
    GroupLayout {
        key: kind,
        key_bytes: row.size as u32,
        key_align: row.align as u32,
        column_bytes: layout::columns(value).iter().map(|column| layout::row(column).size as u32).collect(),
    }
}

/// The rows of a `dict[K,V]`; those of groups if `V` is a vector.
pub(crate) fn row_layout(key: &Type, value: &Type) -> RowLayout {
    if let Some(element) = value.element() {
        return group_layout(key, element).row_layout();
    }
    let (key, value) = (layout::row(key), layout::row(value));
    let value_offset = key.size.next_multiple_of(value.align);
    let row_bytes = (value_offset + value.size).next_multiple_of(key.align.max(value.align));
    RowLayout { value_offset: value_offset as u32, row_bytes: row_bytes.max(1) as u32 }
}

impl<'c> Tables<'c, '_> {
    /// The value of a key; traps if it is missing. `demand` says which parts of the value are read.
    pub(crate) fn dict_lookup(
        &mut self,
        table: DictVal<'c>,
        dict: &Type,
        key: &Val<'c>,
        demand: &Demand,
        span: Span,
    ) -> Res<Val<'c>> {
        let found = self.probe(table, dict, key)?;
        let missing = self.b.build_not(found.found, "")?;
        self.trap_if(missing, Status::KeyNotFound, span, &[])?;
        self.found_value(table, dict, &found, demand)
    }

    /// `{found, value}`; zero if there is none. `demand` is that of the value.
    pub(crate) fn dict_opt_lookup(
        &mut self,
        table: DictVal<'c>,
        dict: &Type,
        key: &Val<'c>,
        demand: &Demand,
        span: Span,
    ) -> Res<Val<'c>> {
        let found = self.probe(table, dict, key)?;
        let value = self.found_value(table, dict, &found, demand)?;
        let (_, value_ty) = entry_types(dict)?;
        let value = self.with_empty_dicts(value, value_ty, span)?;
        Ok(Val::structure(vec![Val::int(found.found), value]))
    }

    /// The value of a missed lookup, which is all zeros, with empty tables in the place of null.
    fn with_empty_dicts(&mut self, value: Val<'c>, ty: &Type, span: Span) -> Res<Val<'c>> {
        match (ty, value) {
            (Type::Dict(key, of), Val::Dict(table)) => {
                let region = self.region_for(ty);
                let RowLayout { value_offset, row_bytes } = row_layout(key, of);
                let columns = of.element().map_or(0, |element| layout::columns(element).len());
                let number = |value: u32| self.unit.ll.i32_type().const_int(value.into(), false);
                let (offset, bytes, columns) = (number(value_offset), number(row_bytes), self.i64(columns as i64));
                let args =
                    [self.run.into(), region.into(), table.address.into(), offset.into(), bytes.into(), columns.into()];
                let address = self.call_value("weld_dict_or_empty", &args)?.into_pointer_value();
                self.trap_noted_if(self.b.build_is_null(address, "")?, span)?;
                let lasting = table.lasting && region == self.region;
                Ok(Val::Dict(DictVal { address, lasting }))
            }
            (Type::Struct(types), Val::Struct(fields)) => {
                let parts = types.iter().zip(fields.iter());
                let parts: Res<Vec<_>> =
                    parts.map(|(ty, field)| self.with_empty_dicts(field.clone(), ty, span)).collect();
                Ok(Val::structure(parts?))
            }
            (_, value) => Ok(value),
        }
    }

    pub(crate) fn dict_key_exists(
        &mut self,
        table: DictVal<'c>,
        dict: &Type,
        key: &Val<'c>,
        _span: Span,
    ) -> Res<IntValue<'c>> {
        Ok(self.probe(table, dict, key)?.found)
    }

    /// Asks the bitmap of a dense table, the filter of a large hashed one, or whether any slot has the hash.
    pub(crate) fn dict_may_contain(&mut self, table: DictVal<'c>, dict: &Type, key: &Val<'c>) -> Res<IntValue<'c>> {
        let (key_ty, value_ty) = entry_types(dict)?;
        let key = self.canonical_key(key_ty, key)?;
        if !may_be_dense(key_ty, value_ty) {
            return self.hashed_may_contain(table, key_ty, &key);
        }
        let [answer] = self.by_kind(
            table,
            |e| Ok([e.dense_bit(table, key_ty, &key)?.0.into()]),
            |e| Ok([e.hashed_may_contain(table, key_ty, &key)?.into()]),
        )?;
        Ok(answer.into_int_value())
    }

    /// Where a group begins among the values of all groups: the distance of its first column from the table's.
    pub(crate) fn dict_first_row(&mut self, table: DictVal<'c>, dict: &Type, group: &Val<'c>) -> Res<IntValue<'c>> {
        let (_, value_ty) = entry_types(dict)?;
        let element = value_ty.element().ok_or_else(|| internal("groups of no vector"))?;
        let group = self.as_vec(group)?;
        let (Columns::Dense(columns), [first, ..]) = (&group.columns, &layout::columns(element)[..]) else {
            return Err(internal("a group that does not lie in its table"));
        };
        let pointers = self.header_ptr(table, DictOffsets::COLUMNS)?;
        let empty = self.cmp(IntPredicate::EQ, group.len, self.i64(0))?;
        let i64 = self.unit.i64_type();
        // A table without values may have no columns to look at.
        let (look, done) = (self.new_block("first"), self.new_block("numbered"));
        let from = self.current_block()?;
        self.branch_if(empty, done, look)?;
        self.at(look);
        let base = self.load(self.unit.ptr_type(), pointers)?;
        self.mark_load(base, table.lasting)?;
        let begin = self.b.build_ptr_to_int(columns[0], i64, "")?;
        let base = self.b.build_ptr_to_int(base.into_pointer_value(), i64, "")?;
        let bytes = self.i64(layout::row(first).size as i64);
        let number = self.b.build_int_unsigned_div(self.sub(begin, base)?, bytes, "")?;
        let looked = self.current_block()?;
        self.branch(done)?;
        self.at(done);
        let phi = self.b.build_phi(i64, "first")?;
        phi.add_incoming(&[(&number, looked), (&self.i64(0), from)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    /// The entries as a `vec[{K,V}]`.
    pub(crate) fn dict_to_vec(&mut self, table: DictVal<'c>, dict: &Type, span: Span) -> Res<Val<'c>> {
        let (key_ty, value_ty) = entry_types(dict)?;
        let entry = Type::structure([key_ty.clone(), value_ty.clone()]);
        let region = self.region_for(&Type::vec(entry.clone()));
        let rows = self.call_value("weld_dict_rows", &[self.run.into(), table.address.into()])?.into_pointer_value();
        self.trap_noted_if(self.b.build_is_null(rows, "")?, span)?;
        let len = self.header_word(table, DictOffsets::LEN)?;
        let vec = self.allocate_vec(&entry, len, region, span)?;
        let Columns::Dense(columns) = &vec.columns else { return Err(internal("a new vector in a chunk")) };
        self.in_ranges(
            len,
            |map| {
                let columns = columns.iter().map(|column| map.pointer(*column)).collect::<Res<Vec<_>>>()?;
                Ok((columns, table.map_registers(map)?, map.pointer(rows)?))
            },
            |e, (columns, table, rows), first, count| {
                e.gather_loop(count, |e, i| {
                    let i = e.add_nw(first, i)?;
                    let row = e.row_ptr(rows, key_ty, value_ty, e.add_nw(i, e.i64(1))?)?;
                    let key = e.load_row(key_ty, row, table.lasting)?;
                    let value = match value_ty.element() {
                        Some(_) => {
                            let (first, count) = e.group_of_row(table, row, key_ty, value_ty)?;
                            e.group_values(table, value_ty, first, count)?
                        }
                        None => {
                            let offset = row_layout(key_ty, value_ty).value_offset.into();
                            e.load_row(value_ty, e.offset(row, offset)?, table.lasting)?
                        }
                    };
                    e.store_element(&entry, &mut columns.iter().copied(), i, &Val::structure(vec![key, value]))
                })
            },
        )?;
        Ok(Val::Vec(vec))
    }

    // ---- values ----

    pub(super) fn found_value(
        &mut self,
        table: DictVal<'c>,
        dict: &Type,
        found: &Found<'c>,
        demand: &Demand,
    ) -> Res<Val<'c>> {
        let (key_ty, value_ty) = entry_types(dict)?;
        if value_ty.element().is_some() {
            return self.group_values(table, value_ty, found.place, found.count);
        }
        // Row 0 is the zero value.
        let rows = self.header_ptr(table, DictOffsets::ROWS)?;
        let row = self.row_ptr(rows, key_ty, value_ty, found.place)?;
        let value = self.offset(row, row_layout(key_ty, value_ty).value_offset.into())?;
        self.load_row_parts(value_ty, value, table.lasting, demand)
    }

    /// Values `first .. first + count` of a grouped table.
    pub(super) fn group_values(
        &mut self,
        table: DictVal<'c>,
        value_ty: &Type,
        first: IntValue<'c>,
        count: IntValue<'c>,
    ) -> Res<Val<'c>> {
        let element = value_ty.element().ok_or_else(|| internal("groups of no vector"))?;
        let pointers = self.header_ptr(table, DictOffsets::COLUMNS)?;
        let columns = layout::columns(element)
            .iter()
            .enumerate()
            .map(|(i, ty)| {
                let column = self.load(self.unit.ptr_type(), self.offset(pointers, 8 * i as u64)?)?;
                self.mark_load(column, table.lasting)?;
                self.column_ptr(ty, column.into_pointer_value(), first)
            })
            .collect::<Res<_>>()?;
        self.vec_value(value_ty, VecVal { len: count, columns: Columns::Dense(columns), input: table.lasting })
    }

    /// The number of the first value of a row's group, and how many there are.
    pub(super) fn group_of_row(
        &self,
        table: DictVal<'c>,
        row: PointerValue<'c>,
        key_ty: &Type,
        value_ty: &Type,
    ) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let RowLayout { value_offset, row_bytes } = row_layout(key_ty, value_ty);
        let number = |offset: u32| -> Res<IntValue<'c>> {
            let value = self.load(self.unit.ll.i32_type(), self.offset(row, offset.into())?)?;
            self.mark_load(value, table.lasting)?;
            self.to_i64(value.into_int_value())
        };
        let first = number(value_offset)?;
        Ok((first, self.sub(number(value_offset + row_bytes)?, first)?))
    }

    /// The address of a row.
    pub(crate) fn row_ptr(
        &self,
        rows: PointerValue<'c>,
        key_ty: &Type,
        value_ty: &Type,
        number: IntValue<'c>,
    ) -> Res<PointerValue<'c>> {
        let row = self.unit.ll.i8_type().array_type(row_layout(key_ty, value_ty).row_bytes);
        self.element_ptr(row.into(), rows, number)
    }

    // ---- the header of a finished table ----

    /// A finished table of this type that was made in this region. It is lasting if all that lies in it is: a table
    /// that cannot leave an iteration may have been kept for the sake of its groups alone.
    pub(crate) fn new_dict(&self, address: PointerValue<'c>, region: PointerValue<'c>, ty: &Type) -> DictVal<'c> {
        DictVal { address, lasting: region == self.region && self.leaves_all(ty) }
    }

    pub(crate) fn is_dense(&self, table: DictVal<'c>) -> Res<IntValue<'c>> {
        let kind = self.load(self.unit.ll.i32_type(), self.offset(table.address, DictOffsets::KIND as u64)?)?;
        self.mark_load(kind, table.lasting)?;
        self.cmp(IntPredicate::EQ, kind.into_int_value(), self.i32(DictKind::Dense as i32))
    }

    pub(super) fn header_word(&self, table: DictVal<'c>, offset: usize) -> Res<IntValue<'c>> {
        let word = self.load(self.unit.i64_type(), self.offset(table.address, offset as u64)?)?;
        self.mark_load(word, table.lasting)?;
        Ok(word.into_int_value())
    }

    pub(super) fn header_ptr(&self, table: DictVal<'c>, offset: usize) -> Res<PointerValue<'c>> {
        let pointer = self.load(self.unit.ptr_type(), self.offset(table.address, offset as u64)?)?;
        self.mark_load(pointer, table.lasting)?;
        Ok(pointer.into_pointer_value())
    }
}
