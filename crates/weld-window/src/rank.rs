//! `row_number`, `rank` and `dense_rank`: a number a row, known as soon as the row is.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use datafusion::common::Result;

use crate::chunk::{Chunk, Unit};
use crate::function::Function;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbering {
    /// Each row has its own number.
    Rows,
    /// A row's number is one more than the rows before its peers.
    Rank,
    /// A row's number is one more than the peer groups before its own.
    DenseRank,
}

/// Where a window partition has got to.
#[derive(Debug)]
pub(crate) struct Numbers {
    numbering: Numbering,
    rows: u64,
    /// The number of the last peer group.
    number: u64,
}

impl Numbers {
    pub(crate) fn new(numbering: Numbering) -> Numbers {
        Numbers { numbering, rows: 0, number: 0 }
    }

    fn rows(&mut self, chunk: &Chunk) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(chunk.rows());
        for rows in &chunk.partitions {
            if rows.start > 0 || !chunk.continues_partition {
                self.rows = 0;
            }
            let first = self.rows + 1;
            self.rows += rows.len() as u64;
            numbers.extend(first..=self.rows);
        }
        numbers
    }

    fn peers(&mut self, chunk: &Chunk) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(chunk.rows());
        for (peers, is_first) in chunk.peers_of_partitions() {
            if is_first && (peers.start > 0 || !chunk.continues_partition) {
                (self.rows, self.number) = (0, 0);
            }
            if peers.start > 0 || !chunk.continues_peers {
                self.number = if self.numbering == Numbering::Rank { self.rows } else { self.number } + 1;
            }
            self.rows += peers.len() as u64;
            numbers.extend(std::iter::repeat_n(self.number, peers.len()));
        }
        numbers
    }
}

impl Function for Numbers {
    fn unit(&self) -> Unit {
        Unit::Row
    }

    fn needs_peers(&self) -> bool {
        self.numbering != Numbering::Rows
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let numbers = if self.needs_peers() { self.peers(chunk) } else { self.rows(chunk) };
        Ok(Arc::new(UInt64Array::from(numbers)))
    }
}
