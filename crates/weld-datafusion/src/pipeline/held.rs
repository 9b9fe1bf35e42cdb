//! Batches that went through compiled code and whose rows have not been taken yet.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{Field, SchemaRef};
use weld_arrow::{BatchColumns, Numbered, string_buffers_of};

use crate::lower::lists::is_taken;

/// What was processed since rows were taken: their strings may point into it, and columns that only pass through are
/// taken from it by the numbers of rows.
pub(super) struct Held {
    batches: Vec<(RecordBatch, BatchColumns)>,
    /// How many rows the stream has processed, and had when they were taken last.
    rows: u64,
    rows_before: u64,
    /// Rows are taken once so many batches are held.
    batches_max: usize,
}

impl Held {
    pub(super) fn new(batches_max: usize) -> Held {
        Held { batches: Vec::new(), rows: 0, rows_before: 0, batches_max }
    }

    /// Takes note of rows that the stream has processed.
    pub(super) fn count(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    pub(super) fn push(&mut self, batch: RecordBatch, columns: BatchColumns) {
        self.batches.push((batch, columns));
    }

    pub(super) fn is_full(&self) -> bool {
        self.batches.len() >= self.batches_max
    }

    /// Rows are taken after each batch from now on.
    pub(super) fn hold_one(&mut self) {
        self.batches_max = 1;
    }

    /// Gives the batches back, to be processed again.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = RecordBatch> + '_ {
        self.batches.drain(..).map(|(batch, _)| batch)
    }

    /// The rows are taken.
    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.rows_before = self.rows;
    }

    /// The stream is another one, whose rows are numbered from zero.
    pub(super) fn restart(&mut self) {
        (self.rows, self.rows_before) = (0, 0);
    }

    /// The batches by the numbers of their rows; nothing where no column of `schema` is moved.
    pub(super) fn numbered(&self, schema: &SchemaRef, moved: &[Option<usize>]) -> Numbered {
        let is_moved = |(field, moved): (&Arc<Field>, &Option<usize>)| moved.is_some() && is_taken(field.data_type());
        if !schema.fields().iter().zip(moved).any(is_moved) {
            return Vec::new();
        }
        let mut next = self.rows_before;
        let numbered = self.batches.iter().map(|(batch, _)| {
            let first = next;
            next += batch.num_rows() as u64;
            (first, batch.clone())
        });
        numbered.collect()
    }

    /// The buffers that long strings of rows made of these batches may point into.
    pub(super) fn string_buffers(&self) -> Vec<Buffer> {
        let mut strings: Vec<Buffer> = Vec::new();
        for (_, columns) in &self.batches {
            string_buffers_of(columns.arrays(), &mut strings);
        }
        strings.sort_by_key(|buffer| (buffer.as_ptr() as usize, std::cmp::Reverse(buffer.len())));
        strings.dedup_by_key(|buffer| buffer.as_ptr());
        strings
    }
}
