//! Groups of codes: where a key is made of dictionary-encoded columns alone, its group is looked for once for each
//! combination of codes, if there are few enough of them (see `weld_runtime`'s `dict_codes.rs`):
//!
//! ```text
//! merge(b, {{x.$0, x.$1}, ..})        x.$0 and x.$1 are codes c0 of n0 entries, c1 of n1 entries
//! =>
//! number = numbers[c0 * n1 + c1]; if number == 0 { number = the row of the key; numbers[..] = number }
//! ```

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{IntValue, PointerValue};

use super::{Res, Tables};
use crate::values::stream::StreamColumn;

/// More combinations are never kept, and the product of two such numbers fits 64 bits.
const COMBINATIONS_MAX: i64 = 1 << 31;

/// The columns of a key that is made of codes.
pub(crate) struct Codes<'c> {
    columns: Vec<StreamColumn<'c>>,
    /// A number for each combination, or a zero.
    numbers: PointerValue<'c>,
    /// One that is not read.
    unread: PointerValue<'c>,
    /// Whether there are few enough combinations.
    are_few: IntValue<'c>,
}

/// A group that was asked for.
pub(crate) struct AskedGroup<'c> {
    /// Where its number is kept.
    kept: PointerValue<'c>,
    /// The number, or zero.
    known: IntValue<'c>,
    from: BasicBlock<'c>,
    done: BasicBlock<'c>,
}

impl<'c> Tables<'c, '_> {
    /// The codes that a key is made of; its columns all have them. What `table` knows of them is kept for chunks of
    /// `rows` rows; `key` is a number that no other key of the program has.
    pub(crate) fn key_codes(
        &mut self,
        columns: Vec<StreamColumn<'c>>,
        key: u32,
        (table, rows): (PointerValue<'c>, IntValue<'c>),
    ) -> Res<Codes<'c>> {
        let i64 = self.unit.i64_type();
        let dictionaries = self.alloca(8 * (columns.len() as u64 + 1), "dictionaries")?;
        let mut combinations = self.i64(1);
        for (i, column) in columns.iter().enumerate() {
            // An unknown number is zero.
            let places = self.umin(self.places(column)?, self.i64(COMBINATIONS_MAX))?;
            combinations = self.umin(self.mul(combinations, places)?, self.i64(COMBINATIONS_MAX))?;
            let number = column.dictionary_number().unwrap_or_else(|| self.i64(0));
            // Nulls move the codes by one.
            let factor = self.i64(if column.is_nullable() { -1 } else { 1 });
            let number = self.mul(number, factor)?;
            self.store(self.element_ptr(i64.into(), dictionaries, self.i64(i as i64))?, number)?;
        }
        // And another loop may have another key.
        let end = self.element_ptr(i64.into(), dictionaries, self.i64(columns.len() as i64))?;
        self.store(end, self.i64(i64::from(key) + 1))?;
        let count = self.i64(columns.len() as i64 + 1);
        let args = [table.into(), dictionaries.into(), count.into(), combinations.into(), rows.into()];
        let kept = self.call_value("weld_dict_rows_of_codes", &args)?.into_pointer_value();
        let none = self.b.build_is_null(kept, "")?;
        // The first number stays zero, so that each row's group is looked for.
        let unkept = self.alloca(8, "unkept")?;
        self.store(unkept, self.i64(0))?;
        let numbers = self.choose(none, unkept, kept)?.into_pointer_value();
        Ok(Codes { columns, numbers, unread: self.offset(unkept, 4)?, are_few: self.b.build_not(none, "")? })
    }

    /// Asks for the group of the key in a row of the chunk. What follows looks for a group that is not known yet and
    /// ends with [`Tables::keep_group`].
    pub(crate) fn ask_group(&mut self, codes: &Codes<'c>, row: IntValue<'c>) -> Res<AskedGroup<'c>> {
        let i32 = self.unit.ll.i32_type();
        let mut combination = self.i64(0);
        for column in &codes.columns {
            let code = self.load_code(column, row)?;
            combination = self.add(self.mul(combination, self.places(column)?)?, code)?;
        }
        let combination = self.choose_int(codes.are_few, combination, self.i64(0))?;
        let kept = self.element_ptr(i32.into(), codes.numbers, combination)?;
        let known = self.load(i32, kept)?.into_int_value();
        let (new, done) = (self.new_block("combination"), self.new_block("group"));
        let from = self.current_block()?;
        let is_new = self.cmp(IntPredicate::EQ, known, i32.const_zero())?;
        self.branch_if(is_new, new, done)?;
        self.at(new);
        Ok(AskedGroup { kept, known, from, done })
    }

    /// Keeps the number of the group that was asked for; the number, whether it was known or not.
    pub(crate) fn keep_group(
        &mut self,
        codes: &Codes<'c>,
        asked: AskedGroup<'c>,
        number: IntValue<'c>,
    ) -> Res<IntValue<'c>> {
        let AskedGroup { kept, known, from, done } = asked;
        let i32 = self.unit.ll.i32_type();
        let number = self.b.build_int_truncate(number, i32, "")?;
        let keep = self.choose(codes.are_few, kept, codes.unread)?.into_pointer_value();
        self.store(keep, number)?;
        let found = self.current_block()?;
        self.branch(done)?;

        self.at(done);
        let phi = self.b.build_phi(i32, "")?;
        phi.add_incoming(&[(&known, from), (&number, found)]);
        Ok(phi.as_basic_value().into_int_value())
    }
}
