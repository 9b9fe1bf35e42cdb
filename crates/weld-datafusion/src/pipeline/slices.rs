//! How many rows of an input batch go through compiled code at a time.
//!
//! A join gives a row for every pair: 8,192 rows that match 10,000 rows each would be 80 million rows at once. Batches
//! are cut so that about [`ROWS_MAX`] rows come out, going by what came out of the last rows, and so that nothing keeps
//! a thread for long. Where a row cannot become many, whole batches go through.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;

use crate::give_way::Turn;

/// As many rows may come of a slice.
const ROWS_MAX: usize = 1 << 15;
/// Slices that take longer are made shorter.
const TIME_MAX: Duration = Duration::from_millis(20);
/// The first slice where rows become many.
const FIRST: usize = 256;

/// How many rows to take next.
#[derive(Debug)]
pub(super) struct Slices {
    rows: usize,
    /// Never more, once memory was refused to so many.
    rows_max: usize,
    turn: Turn,
}

impl Slices {
    /// `multiplies` if a row can become many.
    pub(super) fn new(multiplies: bool) -> Slices {
        let rows = if multiplies { FIRST } else { usize::MAX };
        Slices { rows, rows_max: usize::MAX, turn: Turn::start() }
    }

    /// Whether a row can become many.
    pub(super) fn multiplies(&self) -> bool {
        self.rows != usize::MAX
    }

    /// The next rows of a batch, and what remains of it.
    pub(super) fn cut(&self, batch: RecordBatch) -> (RecordBatch, Option<RecordBatch>) {
        let rows = self.rows.min(self.rows_max);
        if batch.num_rows() <= rows {
            return (batch, None);
        }
        let rest = batch.slice(rows, batch.num_rows() - rows);
        (batch.slice(0, rows), Some(rest))
    }

    /// Takes note of what became of a slice.
    pub(super) fn note(&mut self, rows: usize, output_rows: usize, started: Instant) {
        if self.rows == usize::MAX {
            return;
        }
        let wanted = match output_rows {
            _ if started.elapsed() > TIME_MAX => rows / 2,
            0 => rows * 4,
            output => (rows * ROWS_MAX / output).min(rows * 4),
        };
        // A short end of a batch says little.
        self.rows = wanted.clamp(1, 1 << 20).max(if output_rows < ROWS_MAX { self.rows / 2 } else { 1 });
    }

    /// Between two slices of a batch: the query may be dropped here, and others get their turn.
    pub(super) async fn pause(&mut self) {
        self.turn.pause().await;
    }

    /// Memory was refused for so many rows; whether fewer may be tried.
    pub(super) fn refused(&mut self, rows: usize) -> bool {
        self.rows_max = (rows / 2).max(1);
        rows > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int32Array};

    fn batch(rows: i32) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows));
        RecordBatch::try_from_iter([("a", column)]).expect("one column")
    }

    #[test]
    fn batches_stay_whole_where_rows_do_not_multiply() {
        let mut slices = Slices::new(false);
        slices.note(8192, 8192, Instant::now());
        assert!(slices.cut(batch(100_000)).1.is_none());
    }

    #[test]
    fn slices_follow_what_comes_out() {
        let mut slices = Slices::new(true);
        let (first, rest) = slices.cut(batch(8192));
        assert_eq!((first.num_rows(), rest.map(|rest| rest.num_rows())), (FIRST, Some(8192 - FIRST)));
        slices.note(FIRST, FIRST * 10_000, Instant::now());
        assert_eq!(slices.cut(batch(100)).0.num_rows(), 3);
        for _ in 0..10 {
            slices.note(slices.rows, 0, Instant::now());
        }
        assert!(slices.cut(batch(8192)).1.is_none());
    }

    #[test]
    fn refused_memory_makes_shorter_slices_down_to_one_row() {
        let mut slices = Slices::new(false);
        assert!(slices.refused(100));
        assert_eq!(slices.cut(batch(100)).0.num_rows(), 50);
        assert!(!slices.refused(1));
        assert_eq!(slices.cut(batch(100)).0.num_rows(), 1);
    }
}
