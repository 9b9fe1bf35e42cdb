//! What a run does when the pool refuses it memory, before its partition is handed over.
//!
//! ```text
//! rows              ► the batches again, one by one and in parts, and at last beyond what the pool grants
//! partial groups    ► the batch to its end beyond what the pool grants, then out with all groups
//! groups, tables    ► no more: see `handover`
//! ```
//! DataFusion's operators do the same: filters and projections ask for no memory, a partial aggregate asks after each
//! batch and gives its groups out if it gets none.

use arrow::array::RecordBatch;

use super::failure::Failure;
use super::run::Run;
use crate::lower::pipeline::Output;
use crate::memory::Pressure;

/// What a slice may take beyond what the pool grants, beside twice its own size. A table that doubles takes so much at
/// most.
const EXCESS_MAX: usize = 32 << 20;

/// Where rows multiply, so many are not cut before they may take what the pool does not grant.
const FEW_ROWS: usize = 64;

/// What a run of this output does when it is refused memory.
pub(super) fn pressure(output: &Output) -> Pressure {
    match output {
        Output::Groups { .. } => Pressure::Yields,
        Output::Rows(_) | Output::Table(_) => Pressure::Fails,
    }
}

/// What may be taken beyond what the pool grants while a slice is processed.
pub(super) fn excess_max(output: &Output, exceeds: bool, slice: &RecordBatch) -> usize {
    match output {
        Output::Groups { partial: true, .. } => EXCESS_MAX + 2 * slice.get_array_memory_size(),
        Output::Rows(_) if exceeds => EXCESS_MAX + 2 * slice.get_array_memory_size(),
        _ => 0,
    }
}

/// The same when a run begins or, with so many bytes in its groups, ends.
pub(super) fn excess_at_ends(output: &Output, used: usize) -> usize {
    match output {
        Output::Groups { partial: true, .. } | Output::Rows(_) => 2 * EXCESS_MAX + 2 * used,
        Output::Groups { .. } | Output::Table(_) => 0,
    }
}

/// The same at the end of one of the tables of a run that has given groups out.
pub(super) fn excess_of_range(used: usize) -> usize {
    EXCESS_MAX + 2 * used
}

impl Run {
    /// Goes on after the pool has refused memory to the code for `slice`, if nothing is lost.
    pub(super) async fn recover(&mut self, slice: RecordBatch, failure: Failure) -> Result<(), Failure> {
        match &self.execution.output {
            // Since rows were taken last, nothing has left this run: the same in smaller parts.
            Output::Rows(_) if self.out.reader.is_none() => {
                let mut redo: Vec<RecordBatch> = self.held.drain().collect();
                redo.push(slice);
                let rows = redo.iter().map(RecordBatch::num_rows).max().unwrap_or(1);
                if redo.len() == 1 {
                    if !self.execution.exceeds && (rows <= FEW_ROWS || !self.input.slices.multiplies()) {
                        self.execution.exceeds = true;
                    } else if !self.input.slices.refused(rows) {
                        return Err(failure);
                    }
                }
                self.held.hold_one();
                redo.into_iter().rev().for_each(|batch| self.input.queue.push_front(batch));
                self.execution.stream = None;
                self.open_again()
            }
            // A table that does not hold a single batch: every row is passed on.
            Output::Groups { partial: true, .. } if self.execution.is_fresh => {
                self.execution.stream = None;
                if !self.stop_grouping().await? {
                    return Err(failure);
                }
                self.input.queue.push_front(slice);
                Ok(())
            }
            _ => Err(failure),
        }
    }
}
