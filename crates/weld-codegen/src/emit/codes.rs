//! Groups of codes: where a key is made of dictionary-encoded columns alone, its group is looked for once for each combination
//! of codes, if there are few enough of them (see `weld_runtime`'s `dict_codes.rs`):
//!
//! ```text
//! merge(b, {{x.$0, x.$1}, ..})        x.$0 and x.$1 are codes c0 of n0 entries, c1 of n1 entries
//! =>
//! number = numbers[c0 * n1 + c1]; if number == 0 { number = the row of the key; numbers[..] = number }
//! ```

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::ir::{Expr, ExprKind, Sym};

use super::stream::StreamColumn;
use super::{Demand, Emitter, Res, demands};
use crate::analysis::any;

/// Columns that a key is made of.
const COLUMNS_MAX: usize = 4;
/// More combinations are never kept, and the product of two such numbers fits 64 bits.
const COMBINATIONS_MAX: i64 = 1 << 31;

/// The columns of a key that is made of codes.
pub(super) struct Codes<'c> {
    columns: Vec<StreamColumn<'c>>,
    /// A number for each combination, or a zero.
    numbers: PointerValue<'c>,
    /// One that is not read.
    unread: PointerValue<'c>,
    /// Whether there are few enough combinations.
    are_few: IntValue<'c>,
}

/// The columns that `key` is made of, if it is made of nothing but the fields of `row`.
fn key_columns(key: &Expr, row: Sym, columns: usize) -> Option<Vec<usize>> {
    let is_pure = !any(key, &mut |e| matches!(e.kind, ExprKind::CUdf { .. }));
    if !is_pure || key.free_vars().iter().any(|sym| *sym != row) {
        return None;
    }
    let used: Vec<usize> = match demands(key).remove(&row)? {
        Demand::Fields(fields) => (0..fields.len()).filter(|field| fields[*field] != Demand::None).collect(),
        Demand::All => (0..columns).collect(),
        Demand::None => return None,
    };
    (!used.is_empty() && used.len() <= COLUMNS_MAX).then_some(used)
}

impl<'c> Emitter<'c, '_> {
    /// The codes that a key over the fields of `row` is made of, where `columns` have them: that of `table` is kept for chunks of
    /// `rows` rows.
    pub(super) fn key_codes(
        &mut self,
        key: &Expr,
        row: Sym,
        columns: &[StreamColumn<'c>],
        (table, rows): (PointerValue<'c>, IntValue<'c>),
    ) -> Res<Option<Codes<'c>>> {
        let Some(used) = key_columns(key, row, columns.len()) else { return Ok(None) };
        let columns: Option<Vec<StreamColumn<'c>>> =
            used.iter().map(|index| columns.get(*index).filter(|column| column.entries().is_some()).cloned()).collect();
        let Some(columns) = columns else { return Ok(None) };
        let i64 = self.unit.i64_type();
        let dictionaries = self.alloca(8 * (columns.len() as u64 + 1), "dictionaries")?;
        let mut combinations = self.i64(1);
        for (i, column) in columns.iter().enumerate() {
            let places = self.places(column)?;
            // An unknown number is zero.
            let entries = column.entries().unwrap_or(places);
            let unknown = self.cmp(IntPredicate::EQ, entries, self.i64(0))?;
            let places = self.umin(places, self.i64(COMBINATIONS_MAX))?;
            let places = self.choose_int(unknown, self.i64(0), places)?;
            combinations = self.umin(self.mul(combinations, places)?, self.i64(COMBINATIONS_MAX))?;
            let number = column.dictionary_number().unwrap_or_else(|| self.i64(0));
            // Nulls move the codes by one.
            let factor = self.i64(if column.is_nullable() { -1 } else { 1 });
            let number = self.mul(number, factor)?;
            self.store(self.element_ptr(i64.into(), dictionaries, self.i64(i as i64))?, number)?;
        }
        // And another loop may have another key.
        let end = self.element_ptr(i64.into(), dictionaries, self.i64(columns.len() as i64))?;
        self.store(end, self.i64(i64::from(row.0) + 1))?;
        let count = self.i64(columns.len() as i64 + 1);
        let args = [table.into(), dictionaries.into(), count.into(), combinations.into(), rows.into()];
        let kept = self.call_value("weld_dict_rows_of_codes", &args)?.into_pointer_value();
        let none = self.b.build_is_null(kept, "")?;
        // The first number stays zero, so that each row's group is looked for.
        let unkept = self.alloca(8, "unkept")?;
        self.store(unkept, self.i64(0))?;
        let numbers = self.choose(none, unkept, kept)?.into_pointer_value();
        Ok(Some(Codes { columns, numbers, unread: self.offset(unkept, 4)?, are_few: self.b.build_not(none, "")? }))
    }

    /// How many values a column's code can have, null among them.
    fn places(&self, column: &StreamColumn<'c>) -> Res<IntValue<'c>> {
        let entries = column.entries().unwrap_or_else(|| self.i64(0));
        if column.is_nullable() { self.add(entries, self.i64(1)) } else { Ok(entries) }
    }

    /// The number of the group of the key in a row of the chunk; `find` looks for it.
    pub(super) fn group_of_codes(
        &mut self,
        codes: &Codes<'c>,
        row: IntValue<'c>,
        find: impl FnOnce(&mut Self) -> Res<IntValue<'c>>,
    ) -> Res<IntValue<'c>> {
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
        let number = find(self)?;
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
