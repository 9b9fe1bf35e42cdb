//! Joins that give rows of the build side for themselves: left outer, full, left semi, left anti and left mark.
//!
//! The probe's rows carry the number of the build row that they have met, as their last column:
//! ```weld
//! # left semi, left anti, left mark: numbers alone        # left outer: pairs with numbers
//! let m = optlookup(table, r.$0);                         if(m.$0, for(m.$1, b, |b, j, v|
//! if(m.$0, merge(b, {u32(first_row(table, m.$1))}), b)      merge(b, {r.$1, v.$0, u32(first_row(table, m.$1) + j)})), b)
//! ```
//! Whoever runs the probe marks those rows, and gives the others, or the marked ones, when all has been seen. Without a
//! join filter all rows of a key match or none does: one number stands for them.

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_plan::joins::utils::ColumnIndex;
use weld_core::ir::{Expr, build as ir};

use super::super::{Lowering, Result, Rows, Slot, Sql, for_each, row_struct};
use super::probe::{Found, row_number};
use super::{Join, Table};

/// The row number of a row without a partner.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// The number that says that a key was null, where a join is null-aware.
pub(crate) const NULL_KEY: u32 = NO_ROW - 1;

/// What follows the probe's rows.
#[derive(Clone, Debug)]
pub(crate) struct AtEnd {
    pub(crate) gives: BuildRows,
    /// Whether the probe's rows are given too, or are numbers alone.
    pub(crate) gives_pairs: bool,
    /// Whether a number stands for all rows with its key.
    pub(crate) whole_groups: bool,
    pub(crate) null_aware: bool,
    /// The output's columns.
    pub(crate) columns: Vec<EndColumn>,
}

/// Which rows of the build side are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BuildRows {
    Matched,
    Unmatched,
    All,
}

/// What a column of the output is in a row of the build side alone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndColumn {
    /// A column of the table's rows.
    Build(Slot),
    /// One of the probe side.
    Null,
    /// Whether the row has a match.
    Mark,
}

impl Join {
    /// What follows the probe's rows, for a join that preserves rows of its build side.
    pub(crate) fn at_end(&self, table: &Table) -> AtEnd {
        let column = |column: ColumnIndex| match column.side {
            JoinSide::Left => EndColumn::Build(table.columns[column.index].expect("all output columns are kept")),
            JoinSide::Right => EndColumn::Null,
            JoinSide::None => EndColumn::Mark,
        };
        AtEnd {
            gives: match self.join_type {
                JoinType::LeftSemi => BuildRows::Matched,
                JoinType::LeftMark => BuildRows::All,
                _ => BuildRows::Unmatched,
            },
            gives_pairs: self.gives_pairs(),
            whole_groups: !self.gives_pairs() && self.filter.is_none(),
            null_aware: self.null_aware,
            columns: self.outputs().into_iter().map(column).collect(),
        }
    }

    /// Whether rows of the build side come out that have no match.
    pub(super) fn gives_rows_without_match(&self) -> bool {
        self.preserves_build() && self.join_type != JoinType::LeftSemi
    }

    /// The probe loop of such a join. Its rows end with the number.
    pub(crate) fn lower_preserving(&self, lowering: &mut Lowering, input: &Rows, table: &Table) -> Result<Rows> {
        match self.gives_pairs() {
            true => self.lower_probe(lowering, input, table, &vec![true; self.outputs().len()]),
            false => self.lower_numbers(lowering, input, table),
        }
    }

    /// The numbers of the rows that have a match.
    fn lower_numbers(&self, lowering: &mut Lowering, input: &Rows, table: &Table) -> Result<Rows> {
        let param = lowering.table(table.ty.clone());
        let mut output = Vec::new();
        let filled = for_each(&mut lowering.env, input.data.clone(), "r", |block, r| {
            let probe = input.columns_of(&r);
            let (parts, matchable) = self.key(block, &self.right, &probe, &self.right_keys)?;
            let found = Found::new(block, &param, parts);
            let mut number_row = |number: Expr| {
                let (row, slots) = row_struct(vec![Some(Sql::required(number))]);
                output = slots;
                row
            };
            // Whether there was any row at all matters where null keys come out if there was none.
            let missed = (self.null_aware && table.unkeyed).then(|| number_row(row_number(NO_ROW)));
            let null = self.null_aware.then(|| number_row(row_number(NULL_KEY)));
            let pairs = match &self.filter {
                None => Err(number_row(found.number(&param, &ir::i64(0)))),
                Some(_) => {
                    let pair = self.pair(block, table, &found, &probe)?;
                    let row = number_row(found.number(&param, &pair.index));
                    let appender = ir::appender(row.ty.clone());
                    Ok(pair.closed(block, &appender, row))
                }
            };
            let appender = ir::appender(number_row(row_number(0)).ty);
            Ok((appender, move |b: Expr| {
                let or_row = |row: Option<Expr>| row.map_or(b.clone(), |row| ir::merge(b.clone(), row));
                let hits = match pairs {
                    Err(row) => ir::merge(b.clone(), row),
                    Ok(func) => ir::for_func(ir::over(found.group()), b.clone(), func),
                };
                let matched = found.bound(ir::if_(found.hit(), hits, or_row(missed)));
                let null = or_row(null);
                matchable.into_iter().fold(matched, |matched, matchable| ir::if_(matchable, matched, null.clone()))
            }))
        })?;
        let data = lowering.bind("met", ir::result(filled));
        Ok(Rows { data, columns: output })
    }
}
