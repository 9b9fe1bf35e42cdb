//! Finding a key in a table.
//!
//! The layout is that of `weld_runtime::Dict`. Probing is inlined for the type of the key; which kind of table it is,
//! is looked at before each probe, where it costs a branch that always goes the same way:
//!
//! ```text
//! hashed:  at = hash >> shift; loop { slot = directory[at]; if slot.hash == hash and row.key == key: found;
//!                                     if slot is free: row 0; at = at + 1 & mask }
//! dense:   d = key - min; word = directory[d / 32]; found if bit d % 32; group = word.rank + bits below it
//! ```

use inkwell::IntPredicate;
use inkwell::types::BasicType;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};
use weld_core::ty::{ScalarKind, Type, may_be_dense};
use weld_runtime::{DictOffsets, FILTER_BIT_SHIFTS, FILTER_BITS_FACTOR};

use super::dict::entry_types;
use super::{DictVal, Res, Tables, Val};

/// What a probe has found: `place` is a row number (hashed) or the first value's number (groups).
pub(super) struct Found<'c> {
    pub(super) found: IntValue<'c>,
    /// The row, or the number of the group's first value.
    pub(super) place: IntValue<'c>,
    /// The number of the group's values.
    pub(super) count: IntValue<'c>,
}

impl<'c> Tables<'c, '_> {
    /// Finds a key of a finished table.
    pub(super) fn probe(&mut self, table: DictVal<'c>, dict: &Type, key: &Val<'c>) -> Res<Found<'c>> {
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
    pub(super) fn by_kind<const N: usize>(
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
        let row = self.row_of_probe(table, (key_ty, value_ty), key, None)?;
        let found = self.cmp(IntPredicate::NE, row, self.i64(0))?;
        if value_ty.element().is_none() {
            return Ok(Found { found, place: row, count: self.i64(0) });
        }
        // Row 0 begins at value 0, and so does row 1: an empty group.
        let rows = self.header_ptr(table, DictOffsets::ROWS)?;
        let row = self.row_ptr(rows, key_ty, value_ty, row)?;
        let (place, count) = self.group_of_row(table, row, key_ty, value_ty)?;
        Ok(Found { found, place, count })
    }

    /// Walks the slots from the key's home on. The row is 0 if there is none. A table that is not finished is not
    /// `lasting`.
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
    pub(super) fn dense_bit(
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
    pub(super) fn dense_word(
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
    pub(super) fn group_of_bit(&self, word: IntValue<'c>, bit: IntValue<'c>) -> Res<IntValue<'c>> {
        let i32 = self.unit.ll.i32_type();
        let bits = self.b.build_int_truncate(word, i32, "")?;
        let ones = self.b.build_left_shift(i32.const_all_ones(), self.b.build_int_truncate(bit, i32, "")?, "")?;
        let below = self.and(bits, self.b.build_not(ones, "")?)?;
        let below = self.intrinsic("llvm.ctpop", &[i32.into()], &[below.into()])?.into_int_value();
        let rank = self.b.build_right_shift(word, self.i64(32), false, "")?;
        self.add_nw(rank, self.to_i64(below)?)
    }

    pub(super) fn hashed_may_contain(&mut self, table: DictVal<'c>, key_ty: &Type, key: &Val<'c>) -> Res<IntValue<'c>> {
        let i64 = self.unit.i64_type();
        let hash = self.hash_of_probe(table, key_ty, key)?;
        let hash = self.to_i64(hash)?;
        let filter = self.header_ptr(table, DictOffsets::FILTER)?;
        let none = self.b.build_is_null(filter, "")?;
        let (filtered, walk, done) = (self.new_block("filter"), self.new_block("slots"), self.new_block("asked"));
        self.branch_if(none, walk, filtered)?;

        self.at(filtered);
        let present = self.ask_filter(table, filter, hash)?;
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

    /// What a table's filter says of a hash.
    pub(super) fn ask_filter(
        &self,
        table: DictVal<'c>,
        filter: PointerValue<'c>,
        hash: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        let i64 = self.unit.i64_type();
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
        self.cmp(IntPredicate::EQ, self.and(word.into_int_value(), wanted)?, wanted)
    }
}
