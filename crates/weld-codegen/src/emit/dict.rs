//! Reading dictionaries: `lookup`, `optlookup`, `keyexists`, `may_contain`, `first_row`, `tovec`.
//!
//! The layout is that of `weld_runtime::Dict`. Probing is inlined for the type of the key; which kind of table it is, is
//! looked at before each probe, where it costs a branch that always goes the same way:
//!
//! ```text
//! hashed:  at = hash >> shift; loop { slot = directory[at]; if slot.hash == hash and row.key == key: found;
//!                                     if slot is free: row 0; at = at + 1 & mask }
//! dense:   d = key - min; word = directory[d / 32]; found if bit d % 32; group = word.rank + bits below it
//! ```
//!
//! A finished table does not change. If it is no temporary of an iteration, everything is loaded as invariant: LLVM takes
//! the table's header out of loops.

use inkwell::IntPredicate;
use inkwell::types::BasicType;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ty::{ScalarKind, Type};
use weld_runtime::{
    DictKind, DictOffsets, FILTER_BIT_SHIFTS, FILTER_BITS_FACTOR, GroupLayout, KeyKind, RowLayout, Status,
};

use super::{Columns, Demand, DictVal, Emitter, Res, Val, VecVal, internal};
use crate::layout;

/// The most columns of values that are fetched ahead.
const PREFETCHED_COLUMNS_MAX: usize = 3;

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
        Type::Scalar(kind) if kind.is_integer() && *kind != ScalarKind::I128 => {
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

/// Whether tables of this type may be dense.
fn may_be_dense(key: &Type, value: &Type) -> bool {
    value.element().is_some_and(|element| group_layout(key, element).key != KeyKind::Other)
}

/// What a probe has found: `place` is a row number (hashed) or the first value's number (groups).
struct Found<'c> {
    found: IntValue<'c>,
    /// The row, or the number of the group's first value.
    place: IntValue<'c>,
    /// The number of the group's values.
    count: IntValue<'c>,
}

impl<'c> Emitter<'c, '_> {
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
    pub(crate) fn dict_may_contain(
        &mut self,
        table: DictVal<'c>,
        dict: &Type,
        key: &Val<'c>,
        _span: Span,
    ) -> Res<IntValue<'c>> {
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

    // ---- probing ----

    /// Finds a key of a finished table.
    fn probe(&mut self, table: DictVal<'c>, dict: &Type, key: &Val<'c>) -> Res<Found<'c>> {
        let (key_ty, value_ty) = entry_types(dict)?;
        let key = self.canonical_key(key_ty, key)?;
        if !may_be_dense(key_ty, value_ty) {
            return self.probe_hashed(table, key_ty, value_ty, &key);
        }
        let parts = |found: Found<'c>| [found.found.into(), found.place.into(), found.count.into()];
        let [found, place, count] = self.by_kind(
            table,
            |e| Ok(parts(e.probe_dense(table, key_ty, &key)?)),
            |e| Ok(parts(e.probe_hashed(table, key_ty, value_ty, &key)?)),
        )?;
        let [found, place, count] = [found, place, count].map(BasicValueEnum::into_int_value);
        Ok(Found { found, place, count })
    }

    /// What `dense` or `hashed` gives, by the kind of the table.
    fn by_kind<const N: usize>(
        &mut self,
        table: DictVal<'c>,
        dense: impl FnOnce(&mut Self) -> Res<[BasicValueEnum<'c>; N]>,
        hashed: impl FnOnce(&mut Self) -> Res<[BasicValueEnum<'c>; N]>,
    ) -> Res<[BasicValueEnum<'c>; N]> {
        let (at_dense, at_hashed, done) = (self.new_block("dense"), self.new_block("hashed"), self.new_block("known"));
        let is_dense = self.is_dense(table)?;
        self.branch_if(is_dense, at_dense, at_hashed)?;
        self.at(at_dense);
        let mut values = dense(self)?;
        let dense_end = self.current_block()?;
        self.branch(done)?;
        self.at(at_hashed);
        let others = hashed(self)?;
        let hashed_end = self.current_block()?;
        self.branch(done)?;
        self.at(done);
        for (value, other) in values.iter_mut().zip(others) {
            let phi = self.b.build_phi(value.get_type(), "")?;
            phi.add_incoming(&[(&*value, dense_end), (&other, hashed_end)]);
            *value = phi.as_basic_value();
        }
        Ok(values)
    }

    fn probe_hashed(&mut self, table: DictVal<'c>, key_ty: &Type, value_ty: &Type, key: &Val<'c>) -> Res<Found<'c>> {
        let hash = self.hash_key(key_ty, key)?;
        let (found, row) = self.find_row(table, key_ty, value_ty, key, hash)?;
        if value_ty.element().is_none() {
            return Ok(Found { found, place: row, count: self.i64(0) });
        }
        // Row 0 begins at value 0, and so does row 1: an empty group.
        let rows = self.header_ptr(table, DictOffsets::ROWS)?;
        let row = self.row_ptr(rows, key_ty, value_ty, row)?;
        let (place, count) = self.group_of_row(table, row, key_ty, value_ty)?;
        Ok(Found { found, place, count })
    }

    /// Walks the slots from the key's home on. The row is 0 if there is none. A table that is not finished is not `lasting`.
    pub(crate) fn find_row(
        &mut self,
        table: DictVal<'c>,
        key_ty: &Type,
        value_ty: &Type,
        key: &Val<'c>,
        hash: IntValue<'c>,
    ) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let (i64, i32) = (self.unit.i64_type(), self.unit.ll.i32_type());
        let load = |ty: inkwell::types::BasicTypeEnum<'c>, ptr| -> Res<BasicValueEnum<'c>> {
            let value = self.load(ty, ptr)?;
            if table.lasting {
                self.mark_input_load(value)?;
            }
            Ok(value)
        };
        let at = |offset: usize| self.offset(table.address, offset as u64);
        let ptr_type = self.unit.ptr_type().as_basic_type_enum();
        let directory = load(ptr_type, at(DictOffsets::DIRECTORY)?)?.into_pointer_value();
        let rows = load(ptr_type, at(DictOffsets::ROWS)?)?.into_pointer_value();
        let mask = load(i64.into(), at(DictOffsets::MASK)?)?.into_int_value();
        let shift = load(i32.into(), at(DictOffsets::SHIFT)?)?.into_int_value();
        let tag = self.to_i64(hash)?;
        let home = self.b.build_right_shift(tag, self.to_i64(shift)?, false, "")?;

        let (walk, check) = (self.new_block("walk"), self.new_block("check"));
        let (next, on, done) = (self.new_block("other"), self.new_block("on"), self.new_block("walked"));
        let from = self.current_block()?;
        self.branch(walk)?;
        self.at(walk);
        let position = self.b.build_phi(i64, "slot")?;
        let at_slot = position.as_basic_value().into_int_value();
        let slot = load(i64.into(), self.element_ptr(i64.into(), directory, at_slot)?)?.into_int_value();
        let slot_tag = self.b.build_right_shift(slot, self.i64(32), false, "")?;
        let same = self.cmp(IntPredicate::EQ, slot_tag, tag)?;
        self.branch_if(same, check, next)?;

        self.at(check);
        let number = self.and(slot, self.i64(u32::MAX.into()))?;
        let row = self.row_ptr(rows, key_ty, value_ty, number)?;
        let row_key = self.load_row(key_ty, row, table.lasting)?;
        let equal = self.keys_equal(key_ty, key, &row_key)?;
        let check_end = self.current_block()?;
        self.branch_if(equal, done, on)?;

        self.at(next);
        let free = self.cmp(IntPredicate::EQ, slot, self.i64(0))?;
        self.branch_if(free, done, on)?;
        self.at(on);
        let following = self.and(self.add_nw(at_slot, self.i64(1))?, mask)?;
        position.add_incoming(&[(&home, from), (&following, on)]);
        self.branch(walk)?;

        self.at(done);
        let found = self.b.build_phi(self.unit.ll.bool_type(), "found")?;
        found.add_incoming(&[(&self.bool(true), check_end), (&self.bool(false), next)]);
        let row = self.b.build_phi(i64, "row")?;
        row.add_incoming(&[(&number, check_end), (&self.i64(0), next)]);
        Ok((found.as_basic_value().into_int_value(), row.as_basic_value().into_int_value()))
    }

    fn probe_dense(&mut self, table: DictVal<'c>, key_ty: &Type, key: &Val<'c>) -> Res<Found<'c>> {
        let (found, word, bit) = self.dense_bit(table, key_ty, key)?;
        let i32 = self.unit.ll.i32_type();
        let (read, many, done) = (self.new_block("rank"), self.new_block("many"), self.new_block("ranked"));
        let from = self.current_block()?;
        let zero = self.i64(0);
        self.branch_if(found, read, done)?;

        self.at(read);
        let group = self.group_of_bit(word, bit)?;
        let starts = self.header_ptr(table, DictOffsets::STARTS)?;
        let single = self.b.build_is_null(starts, "")?;
        let read_end = self.current_block()?;
        self.branch_if(single, done, many)?;

        self.at(many);
        let start = |index: IntValue<'c>| -> Res<IntValue<'c>> {
            let value = self.load(i32, self.element_ptr(i32.into(), starts, index)?)?;
            self.mark_load(value, table.lasting)?;
            self.to_i64(value.into_int_value())
        };
        let first = start(group)?;
        let count = self.sub(start(self.add_nw(group, self.i64(1))?)?, first)?;
        self.branch(done)?;

        self.at(done);
        let place = self.b.build_phi(self.unit.i64_type(), "first")?;
        place.add_incoming(&[(&zero, from), (&group, read_end), (&first, many)]);
        let counts = self.b.build_phi(self.unit.i64_type(), "count")?;
        counts.add_incoming(&[(&zero, from), (&self.i64(1), read_end), (&count, many)]);
        let (place, count) = (place.as_basic_value().into_int_value(), counts.as_basic_value().into_int_value());
        Ok(Found { found, place, count })
    }

    /// Whether a dense table has the key, the word of its bit, and the bit's number.
    fn dense_bit(
        &self,
        table: DictVal<'c>,
        key_ty: &Type,
        key: &Val<'c>,
    ) -> Res<(IntValue<'c>, IntValue<'c>, IntValue<'c>)> {
        let (address, bit, inside) = self.dense_word(table, key_ty, key)?;
        let word = self.load(self.unit.i64_type(), address)?;
        self.mark_load(word, table.lasting)?;
        let word = word.into_int_value();
        let shifted = self.b.build_right_shift(word, bit, false, "")?;
        let set = self.b.build_int_truncate(shifted, self.unit.ll.bool_type(), "")?;
        Ok((self.and(inside, set)?, word, bit))
    }

    /// The address of the word of a key's bit, the bit's number, and whether the key lies between smallest and largest:
    /// others are sent to the first word, so that there is no branch.
    fn dense_word(
        &self,
        table: DictVal<'c>,
        key_ty: &Type,
        key: &Val<'c>,
    ) -> Res<(PointerValue<'c>, IntValue<'c>, IntValue<'c>)> {
        let i64 = self.unit.i64_type();
        let signed = key_ty.as_scalar().is_some_and(ScalarKind::is_signed);
        let key = self.b.build_int_cast_sign_flag(key.clone().into_int()?, i64, signed, "")?;
        let distance = self.sub(key, self.header_word(table, DictOffsets::MIN)?)?;
        let inside = self.cmp(IntPredicate::ULE, distance, self.header_word(table, DictOffsets::MASK)?)?;
        let safe = self.choose_int(inside, distance, self.i64(0))?;
        let directory = self.header_ptr(table, DictOffsets::DIRECTORY)?;
        let index = self.b.build_right_shift(safe, self.i64(5), false, "")?;
        Ok((self.element_ptr(i64.into(), directory, index)?, self.and(safe, self.i64(31))?, inside))
    }

    /// The number of the group of a bit of this word: the word's rank and the bits below.
    fn group_of_bit(&self, word: IntValue<'c>, bit: IntValue<'c>) -> Res<IntValue<'c>> {
        let i32 = self.unit.ll.i32_type();
        let bits = self.b.build_int_truncate(word, i32, "")?;
        let ones = self.b.build_left_shift(i32.const_all_ones(), self.b.build_int_truncate(bit, i32, "")?, "")?;
        let below = self.and(bits, self.b.build_not(ones, "")?)?;
        let below = self.intrinsic("llvm.ctpop", &[i32.into()], &[below.into()])?.into_int_value();
        let rank = self.b.build_right_shift(word, self.i64(32), false, "")?;
        self.add_nw(rank, self.to_i64(below)?)
    }

    fn hashed_may_contain(&mut self, table: DictVal<'c>, key_ty: &Type, key: &Val<'c>) -> Res<IntValue<'c>> {
        let i64 = self.unit.i64_type();
        let hash = self.hash_key(key_ty, key)?;
        let hash = self.to_i64(hash)?;
        let filter = self.header_ptr(table, DictOffsets::FILTER)?;
        let none = self.b.build_is_null(filter, "")?;
        let (filtered, walk, done) = (self.new_block("filter"), self.new_block("slots"), self.new_block("asked"));
        self.branch_if(none, walk, filtered)?;

        self.at(filtered);
        let index = self.b.build_right_shift(hash, self.header_word(table, DictOffsets::FILTER_SHIFT)?, false, "")?;
        let word = self.load(i64, self.element_ptr(i64.into(), filter, index)?)?;
        self.mark_load(word, table.lasting)?;
        let product = self.mul(hash, self.i64(FILTER_BITS_FACTOR as i64))?;
        let mut wanted = self.i64(0);
        for shift in FILTER_BIT_SHIFTS {
            let number = self.b.build_right_shift(product, self.i64(shift.into()), false, "")?;
            let bit = self.b.build_left_shift(self.i64(1), self.and(number, self.i64(63))?, "")?;
            wanted = self.or(wanted, bit)?;
        }
        let present = self.cmp(IntPredicate::EQ, self.and(word.into_int_value(), wanted)?, wanted)?;
        self.branch(done)?;

        // A small table: any slot of this hash will do.
        self.at(walk);
        let (step, next) = (self.new_block("slot"), self.new_block("other"));
        let directory = self.header_ptr(table, DictOffsets::DIRECTORY)?;
        let mask = self.header_word(table, DictOffsets::MASK)?;
        let shift = self.load(self.unit.ll.i32_type(), self.offset(table.address, DictOffsets::SHIFT as u64)?)?;
        self.mark_load(shift, table.lasting)?;
        let home = self.b.build_right_shift(hash, self.to_i64(shift.into_int_value())?, false, "")?;
        self.branch(step)?;
        self.at(step);
        let position = self.b.build_phi(i64, "slot")?;
        let at = position.as_basic_value().into_int_value();
        let slot = self.load(i64, self.element_ptr(i64.into(), directory, at)?)?;
        self.mark_load(slot, table.lasting)?;
        let slot = slot.into_int_value();
        let tag = self.b.build_right_shift(slot, self.i64(32), false, "")?;
        let same = self.cmp(IntPredicate::EQ, tag, hash)?;
        let free = self.cmp(IntPredicate::EQ, slot, self.i64(0))?;
        let stop = self.or(same, free)?;
        self.branch_if(stop, done, next)?;
        self.at(next);
        let following = self.and(self.add_nw(at, self.i64(1))?, mask)?;
        position.add_incoming(&[(&home, walk), (&following, next)]);
        self.branch(step)?;

        self.at(done);
        let phi = self.b.build_phi(self.unit.ll.bool_type(), "")?;
        phi.add_incoming(&[(&present, filtered), (&same, step)]);
        Ok(phi.as_basic_value().into_int_value())
    }

    // ---- fetching ahead ----

    /// Asks for the memory that a probe looks at first.
    pub(super) fn prefetch_slot(
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
    pub(super) fn prefetch_row(
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
            let element = value_ty.element().ok_or_else(|| internal("groups of no vector"))?;
            let pointers = self.header_ptr(table, DictOffsets::COLUMNS)?;
            for (i, ty) in layout::columns(element).iter().enumerate().take(PREFETCHED_COLUMNS_MAX) {
                let column = self.load(self.unit.ptr_type(), self.offset(pointers, 8 * i as u64)?)?;
                self.mark_load(column, table.lasting)?;
                // One group beyond the last at most, which is not read.
                let address = self.column_ptr(ty, column.into_pointer_value(), group)?;
                self.prefetch(address)?;
            }
            self.branch(done)?;
            self.at(hashed);
        }
        let home = self.home_slot(table, key_ty, &key)?;
        let slot = self.load(self.unit.i64_type(), home)?;
        self.mark_load(slot, table.lasting)?;
        let number = self.and(slot.into_int_value(), self.i64(u32::MAX.into()))?;
        let rows = self.header_ptr(table, DictOffsets::ROWS)?;
        self.prefetch(self.row_ptr(rows, key_ty, value_ty, number)?)?;
        self.branch(done)?;
        self.at(done);
        Ok(())
    }

    fn home_slot(&mut self, table: DictVal<'c>, key_ty: &Type, key: &Val<'c>) -> Res<PointerValue<'c>> {
        let hash = self.hash_key(key_ty, key)?;
        let shift = self.load(self.unit.ll.i32_type(), self.offset(table.address, DictOffsets::SHIFT as u64)?)?;
        self.mark_load(shift, table.lasting)?;
        let shift = self.to_i64(shift.into_int_value())?;
        let home = self.b.build_right_shift(self.to_i64(hash)?, shift, false, "")?;
        let directory = self.header_ptr(table, DictOffsets::DIRECTORY)?;
        self.element_ptr(self.unit.i64_type().into(), directory, home)
    }

    // ---- values ----

    fn found_value(&mut self, table: DictVal<'c>, dict: &Type, found: &Found<'c>, demand: &Demand) -> Res<Val<'c>> {
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
    fn group_values(
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
    fn group_of_row(
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

    /// A finished table of this type that was made in this region. It is lasting if all that lies in it is: a table that
    /// cannot leave an iteration may have been kept for the sake of its groups alone.
    pub(crate) fn new_dict(&self, address: PointerValue<'c>, region: PointerValue<'c>, ty: &Type) -> DictVal<'c> {
        DictVal { address, lasting: region == self.region && self.leaves_all(ty) }
    }

    fn is_dense(&self, table: DictVal<'c>) -> Res<IntValue<'c>> {
        let kind = self.load(self.unit.ll.i32_type(), self.offset(table.address, DictOffsets::KIND as u64)?)?;
        self.mark_load(kind, table.lasting)?;
        self.cmp(IntPredicate::EQ, kind.into_int_value(), self.i32(DictKind::Dense as i32))
    }

    fn header_word(&self, table: DictVal<'c>, offset: usize) -> Res<IntValue<'c>> {
        let word = self.load(self.unit.i64_type(), self.offset(table.address, offset as u64)?)?;
        self.mark_load(word, table.lasting)?;
        Ok(word.into_int_value())
    }

    fn header_ptr(&self, table: DictVal<'c>, offset: usize) -> Res<PointerValue<'c>> {
        let pointer = self.load(self.unit.ptr_type(), self.offset(table.address, offset as u64)?)?;
        self.mark_load(pointer, table.lasting)?;
        Ok(pointer.into_pointer_value())
    }
}
