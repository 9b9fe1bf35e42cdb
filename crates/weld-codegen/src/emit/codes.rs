//! Groups of codes: where a key is made of dictionary-encoded columns of few entries alone, its group is looked for once for
//! each combination of codes that a chunk has:
//!
//! ```text
//! merge(b, {{x.$0, x.$1}, ..})        x.$0 and x.$1 are codes c0 of n0 entries, c1 of n1 entries
//! =>
//! number = numbers[c0 * n1 + c1]; if number == 0 { number = the row of the key; numbers[..] = number }
//! ```
//!
//! A chunk's dictionaries are its own: the numbers are forgotten when `process` returns.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::ir::{Expr, ExprKind, Sym};

use super::analysis::any;
use super::stream::StreamColumn;
use super::{Demand, Emitter, Res, demands};

/// Combinations of codes whose groups are kept.
const CODES_MAX: u64 = 1024;
/// Columns that a key is made of.
const COLUMNS_MAX: usize = 4;
/// More entries than this, four times multiplied, fit 64 bits.
const ENTRIES_MAX: i64 = 1 << 15;

/// The columns of a key that is made of codes.
pub(super) struct Codes<'c> {
    columns: Vec<StreamColumn<'c>>,
    /// A number for each combination, and one that is not read.
    numbers: PointerValue<'c>,
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
    /// The codes that a key over the field of `row` is made of, where `columns` have them.
    pub(super) fn key_codes(&self, key: &Expr, row: Sym, columns: &[StreamColumn<'c>]) -> Res<Option<Codes<'c>>> {
        let Some(used) = key_columns(key, row, columns.len()) else { return Ok(None) };
        let columns: Option<Vec<StreamColumn<'c>>> =
            used.iter().map(|index| columns.get(*index).filter(|column| column.entries().is_some()).cloned()).collect();
        let Some(columns) = columns else { return Ok(None) };
        let i32 = self.unit.ll.i32_type();
        let bytes = 4 * (CODES_MAX + 1);
        let numbers = self.alloca(bytes, "numbers")?;
        let (zero, bytes) = (self.unit.ll.i8_type().const_zero(), self.i64(bytes as i64));
        self.in_entry(|b| Ok(b.build_memset(numbers, i32.get_bit_width() / 8, zero, bytes)?))?;
        let mut combinations = self.i64(1);
        let mut are_few = self.bool(true);
        for column in &columns {
            let places = self.places(column)?;
            // An unknown number is zero.
            let entries = column.entries().unwrap_or(places);
            are_few = self.and(are_few, self.cmp(IntPredicate::NE, entries, self.i64(0))?)?;
            combinations = self.mul(combinations, self.umin(places, self.i64(ENTRIES_MAX))?)?;
        }
        let fit = self.cmp(IntPredicate::ULE, combinations, self.i64(CODES_MAX as i64))?;
        Ok(Some(Codes { columns, numbers, are_few: self.and(are_few, fit)? }))
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
        let unread = self.element_ptr(i32.into(), codes.numbers, self.i64(CODES_MAX as i64))?;
        let keep = self.choose(codes.are_few, kept, unread)?.into_pointer_value();
        self.store(keep, number)?;
        let found = self.current_block()?;
        self.branch(done)?;

        self.at(done);
        let phi = self.b.build_phi(i32, "")?;
        phi.add_incoming(&[(&known, from), (&number, found)]);
        Ok(phi.as_basic_value().into_int_value())
    }
}
