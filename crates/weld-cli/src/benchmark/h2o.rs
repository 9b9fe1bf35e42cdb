//! The tables of H2O.ai's db-benchmark as Parquet files, and its questions: ten on grouping, five on joins.
//!
//! `x` has ten million rows at scale factor 1 and the cardinalities of `K = 100`: groups of two, of a hundred, of as
//! many as rows. `lhs` has as many rows and is joined with `small`, `medium` and `big`, a millionth, a thousandth and
//! all of that; a tenth of the keys of either side is not in the other. Numbers are drawn by this project's own
//! generator, not by R's.

use std::iter;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::error::ArrowError;
use indicatif::ProgressBar;
use parquet::errors::{ParquetError, Result};

use super::generated::{Generated, texts};
use super::random::{Permutation, Sequence};
use super::{files, row_groups};

pub(crate) const SUITE: Generated =
    Generated { title: "H2O", name: "h2o", tables: &TABLES, queries: &QUERIES, steps, write };

const TABLES: [&str; 5] = ["x", "lhs", "small", "medium", "big"];

const QUERIES: [&str; 15] = texts!("h2o" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);

/// How many groups the columns with few of them have.
const GROUPS: u64 = 100;

/// Above it keys leave 32 bits.
const SCALE_FACTOR_MAX: f64 = 100.0;

fn rows(scale_factor: f64) -> u64 {
    (1e7 * scale_factor).round().max(1.0) as u64
}

/// The rows of a table where `x` has so many.
fn rows_of(table: &str, rows: u64) -> u64 {
    match table {
        "small" => (rows / 1_000_000).max(1),
        "medium" => (rows / 1_000).max(1),
        _ => rows,
    }
}

fn steps(scale_factor: f64) -> u64 {
    TABLES.iter().map(|table| row_groups::count(rows_of(table, rows(scale_factor)))).sum()
}

fn write(folder: &Path, scale_factor: f64, progress: &ProgressBar) -> Result<()> {
    if scale_factor > SCALE_FACTOR_MAX {
        return Err(ParquetError::General(format!("keys have 32 bits, scale factors are at most {SCALE_FACTOR_MAX}")));
    }
    let rows = rows(scale_factor);
    for table in TABLES {
        progress.set_message(table);
        let count = rows_of(table, rows);
        let make = |number: usize| {
            let start = number as u64 * row_groups::ROWS;
            iter::once(batch(table, rows, start..count.min(start + row_groups::ROWS)))
        };
        let schema = batch(table, rows, 0..0)?.schema();
        row_groups::write(&files::file(folder, table), &schema, row_groups::count(count) as usize, make, progress)?;
    }
    Ok(())
}

/// Rows of a table, where `x` has `rows` of them.
fn batch(table: &str, rows: u64, range: Range<u64>) -> std::result::Result<RecordBatch, ArrowError> {
    let columns = match table {
        "x" => grouped(rows, range),
        "small" => joined(table, 1, rows, range),
        "medium" => joined(table, 2, rows, range),
        _ => joined(table, 3, rows, range),
    };
    // Whoever reads the benchmark's CSV files gets columns that may be null.
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
}

type Columns = Vec<(&'static str, ArrayRef)>;

fn grouped(rows: u64, range: Range<u64>) -> Columns {
    let many = (rows / GROUPS).max(1);
    let number = |name: &str, count: u64| {
        let sequence = Sequence::new(&format!("x.{name}"));
        range.clone().map(move |row| sequence.below(row, count) + 1)
    };
    let text = |name: &str, count: u64, digits: usize| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(number(name, count).map(|id| format!("id{id:0digits$}"))))
    };
    vec![
        ("id1", text("id1", GROUPS, 3)),
        ("id2", text("id2", GROUPS, 3)),
        ("id3", text("id3", many, 10)),
        ("id4", integers(number("id4", GROUPS))),
        ("id5", integers(number("id5", GROUPS))),
        ("id6", integers(number("id6", many))),
        ("v1", integers(number("v1", 5))),
        ("v2", integers(number("v2", 15))),
        ("v3", values("x.v3", range)),
    ]
}

/// A table with the first `levels` of three keys, each as a number and as a text. The last is different in every row.
fn joined(table: &str, levels: usize, rows: u64, range: Range<u64>) -> Columns {
    let names = [("id1", "id4", "small"), ("id2", "id5", "medium"), ("id3", "id6", "big")];
    let (mut numbers, mut texts) = (Columns::new(), Columns::new());
    for (level, (name, text_name, of)) in names.into_iter().enumerate().take(levels) {
        let keys = Keys::new(name, rows_of(of, rows));
        let column = format!("{table}.{name}");
        let (sequence, order) = (Sequence::new(&column), Permutation::new(&column, keys.count));
        let key = |row: u64| {
            let index = if level + 1 == levels { order.at(row) } else { sequence.below(row, keys.count) };
            if table == "lhs" { keys.left(index) } else { keys.right(index) }
        };
        numbers.push((name, integers(range.clone().map(key))));
        let text = range.clone().map(|row| format!("id{}", key(row)));
        texts.push((text_name, Arc::new(StringArray::from_iter_values(text))));
    }
    let value = if table == "lhs" { "v1" } else { "v2" };
    let value = (value, values(&format!("{table}.{value}"), range));
    numbers.into_iter().chain(texts).chain([value]).collect()
}

/// The keys of both sides of a join: `count` each, of which a tenth is not in the other.
struct Keys {
    all: Permutation,
    count: u64,
    alone: u64,
}

impl Keys {
    fn new(name: &str, count: u64) -> Keys {
        let alone = count / 10;
        Keys { all: Permutation::new(name, count + alone), count, alone }
    }

    fn left(&self, index: u64) -> u64 {
        self.all.at(index) + 1
    }

    fn right(&self, index: u64) -> u64 {
        let is_common = index < self.count - self.alone;
        self.left(if is_common { index } else { index + self.alone })
    }
}

fn integers(numbers: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(numbers.map(|number| number as i32)))
}

/// Uniform below 100, with six decimals.
fn values(name: &str, range: Range<u64>) -> ArrayRef {
    let sequence = Sequence::new(name);
    Arc::new(Float64Array::from_iter_values(range.map(|row| sequence.below(row, 100_000_000) as f64 / 1e6)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int32Type;
    use std::collections::HashSet;

    fn numbers(table: &str, column: &str, rows: u64) -> Vec<i32> {
        let batch = batch(table, rows, 0..rows_of(table, rows)).unwrap();
        batch.column_by_name(column).unwrap().as_primitive::<Int32Type>().values().to_vec()
    }

    #[test]
    fn nine_of_ten_keys_are_on_both_sides() {
        for (column, table, own) in [("id2", "medium", 100), ("id3", "big", 100_000)] {
            let left: HashSet<i32> = numbers("lhs", column, 100_000).into_iter().collect();
            let right: HashSet<i32> = numbers(table, column, 100_000).into_iter().collect();
            assert_eq!((left.len(), right.len()), (own, own), "{column}");
            assert_eq!(left.intersection(&right).count(), own / 10 * 9, "{column}");
        }
    }

    #[test]
    fn rows_do_not_depend_on_where_row_groups_begin() {
        for table in TABLES {
            let end = rows_of(table, 10_000);
            let whole = batch(table, 10_000, 0..end).unwrap();
            assert_eq!(whole.slice(end as usize / 2, 1), batch(table, 10_000, end / 2..end / 2 + 1).unwrap());
        }
    }

    #[test]
    fn groups_have_the_benchmark_s_cardinalities() {
        for (column, count) in [("id4", 100), ("id5", 100), ("id6", 1000), ("v1", 5), ("v2", 15)] {
            let found: HashSet<i32> = numbers("x", column, 100_000).into_iter().collect();
            assert_eq!((found.len(), found.iter().min(), found.iter().max()), (count, Some(&1), Some(&(count as i32))));
        }
    }
}
