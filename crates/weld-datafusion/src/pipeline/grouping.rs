//! Whether a partial aggregate groups its rows or passes them on.
//!
//! A table that outgrows its first bound is handed out, which tells the number of groups. How many rows made them is not
//! counted (filters and joins stand before the aggregate): the next batch is passed on ungrouped, and the rows that come
//! out of it give the ratio.

use std::sync::Arc;

use datafusion::physical_plan::metrics::MetricBuilder;

use super::compile::ungrouped;
use super::failure::Failure;
use super::run::Run;
use crate::arrow::output::RowsReader;
use crate::code::Code;
use crate::lower::pipeline::{Kernel, Output};

/// When the table of a partial aggregate has become so large, it is time to ask whether grouping pays: more than a core's
/// cache holds is slow to update, and at some ten thousand groups the ratio of groups to rows means something.
const PROBED_BYTES_MIN: usize = 1 << 20;

/// What a run of a partial aggregate knows about whether grouping pays.
pub(super) enum Grouping {
    /// Not asked yet: how many rows have been read.
    Unknown { input_rows: usize },
    /// So many groups came of so many rows of the input. A row of the next batch is a group each.
    Probing { groups: usize, input_rows: usize, code: Arc<Code> },
    /// Every row is passed on as a group of its own.
    Off { code: Arc<Code> },
    /// It pays, or cannot be left out.
    On,
}

impl Grouping {
    pub(super) fn new(kernel: &Kernel) -> Grouping {
        match kernel.ungrouped {
            Some(_) => Grouping::Unknown { input_rows: 0 },
            None => Grouping::On,
        }
    }
}

impl Run {
    /// The code that the stream is a run of.
    pub(super) fn current_code(&self) -> Arc<Code> {
        match &self.grouping {
            Grouping::Probing { code, .. } | Grouping::Off { code } => Arc::clone(code),
            Grouping::Unknown { .. } | Grouping::On => Arc::clone(&self.code),
        }
    }

    /// Leaves grouping out, or takes it up again, by what the last rows have shown.
    pub(super) async fn adapt(&mut self, batch_rows: usize) -> Result<(), Failure> {
        match &mut self.grouping {
            Grouping::On | Grouping::Off { .. } => Ok(()),
            Grouping::Unknown { input_rows } => {
                *input_rows += batch_rows;
                let input_rows = *input_rows;
                let Some(kernel) = &self.inner.pipeline.kernel.ungrouped else { return Ok(()) };
                if self.memory.used() < PROBED_BYTES_MIN {
                    return Ok(());
                }
                let output = kernel.output.clone();
                let Ok(code) = ungrouped(Arc::clone(&self.inner)).await else {
                    self.grouping = Grouping::On;
                    return Ok(());
                };
                self.finish()?;
                let groups = self.reader.as_ref().map_or(0, RowsReader::len);
                self.grouping = Grouping::Probing { groups, input_rows, code: Arc::clone(&code) };
                self.open(&code, output)
            }
            Grouping::Probing { groups, input_rows, code } => {
                let (groups, input_rows, code) = (*groups, *input_rows, Arc::clone(code));
                if batch_rows == 0 {
                    return Ok(());
                }
                if self.reader.is_none() {
                    self.take_rows()?;
                }
                let rows = self.reader.as_ref().map_or(0, RowsReader::len);
                if rows == 0 {
                    return Ok(());
                }
                let share = rows as f64 / batch_rows as f64;
                if groups as f64 > self.ratio_max * share * input_rows as f64 {
                    self.grouping = Grouping::Off { code };
                    MetricBuilder::new(&self.inner.metrics).counter("ungrouped_partitions", 0).add(1);
                    return Ok(());
                }
                self.grouping = Grouping::On;
                let (code, output) = (Arc::clone(&self.code), self.inner.pipeline.kernel.output.clone());
                self.open(&code, output)
            }
        }
    }

    /// Passes every row on from now on; whether that is possible.
    pub(super) async fn stop_grouping(&mut self) -> Result<bool, Failure> {
        let Some(kernel) = &self.inner.pipeline.kernel.ungrouped else { return Ok(false) };
        let output = kernel.output.clone();
        let Ok(code) = ungrouped(Arc::clone(&self.inner)).await else { return Ok(false) };
        self.grouping = Grouping::Off { code: Arc::clone(&code) };
        if matches!(output, Output::Rows(_)) {
            self.open(&code, output)?;
            return Ok(true);
        }
        Ok(false)
    }
}
