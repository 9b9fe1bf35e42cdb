//! The rows of a partition, as they are stored or in the declared types.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;

use crate::queue::{Queue, Rows};
use crate::snapshot::Snapshot;

/// What a partition gives.
pub(crate) struct Scan {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) columns: Vec<usize>,
    pub(crate) queue: Arc<Queue>,
    /// Of what it gives.
    pub(crate) schema: SchemaRef,
    /// Whether it gives the declared types.
    pub(crate) is_declared: bool,
    pub(crate) batch_rows: usize,
    pub(crate) rows_left: usize,
    pub(crate) pruned: Count,
    pub(crate) baseline: BaselineMetrics,
    /// What is left of the rows that were taken from the queue.
    pub(crate) current: Option<Rows>,
}

impl Scan {
    pub(crate) fn stream(mut self) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let batches = stream::iter(std::iter::from_fn(move || self.next().transpose()));
        make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let elapsed = self.baseline.elapsed_compute().clone();
        let _timer = elapsed.timer();
        if self.rows_left == 0 {
            return Ok(None);
        }
        let Some(rows) = self.current.take().or_else(|| self.queue.next(&self.pruned)) else { return Ok(None) };
        let count = rows.count.min(self.batch_rows.max(1)).min(self.rows_left);
        if count < rows.count {
            self.current = Some(Rows { start: rows.start + count, count: rows.count - count, ..rows });
        }
        self.rows_left -= count;
        let batch = self.snapshot.blocks[rows.block].project(&self.columns)?.slice(rows.start, count);
        self.baseline.record_output(count);
        match self.is_declared {
            true => Ok(Some(self.snapshot.declared(&self.columns, &self.schema, &batch)?)),
            false => Ok(Some(batch)),
        }
    }
}
