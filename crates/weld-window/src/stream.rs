//! Reads sorted batches, cuts them into chunks of whole units, and evaluates these.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, RecordOutput};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use weld_plans::HeldExec;

use crate::chunk::{Chunk, KeyValues, Keys, Unit};
use crate::function::Function;

/// One partition of the plan.
pub(crate) struct Windows {
    /// Absent once it has ended.
    pub(crate) input: Option<SendableRecordBatchStream>,
    pub(crate) keys: Keys,
    pub(crate) functions: Vec<Box<dyn Function>>,
    pub(crate) unit: Unit,
    pub(crate) schema: SchemaRef,
    pub(crate) batch_rows: usize,
    pub(crate) pending: Pending,
    /// The keys of the last row that was evaluated.
    pub(crate) last: Option<KeyValues>,
    /// Rows to give.
    pub(crate) ready: VecDeque<RecordBatch>,
    /// DataFusion's operator, and then its rows, if memory was refused.
    pub(crate) stock: Arc<dyn ExecutionPlan>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) partition: usize,
    pub(crate) handed_over: Option<SendableRecordBatchStream>,
    pub(crate) handovers: Count,
    pub(crate) baseline: BaselineMetrics,
}

/// The rows of a unit whose end has not been seen.
pub(crate) struct Pending {
    pub(crate) batches: Vec<RecordBatch>,
    /// The keys of the last of these rows.
    pub(crate) last: Option<KeyValues>,
    /// Counts buffers that batches share once: those of slices of one batch, and of a build side's texts.
    pub(crate) memory: RecordBatchMemoryCounter,
    pub(crate) reservation: MemoryReservation,
}

impl Pending {
    fn take(&mut self) -> Vec<RecordBatch> {
        self.last = None;
        self.memory = RecordBatchMemoryCounter::new();
        std::mem::take(&mut self.batches)
    }
}

impl Windows {
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch.record_output(&self.baseline)));
            }
            if let Some(stock) = &mut self.handed_over {
                return stock.next().await.transpose();
            }
            let Some(input) = &mut self.input else { return Ok(None) };
            let batch = input.next().await.transpose()?;
            let compute = self.baseline.elapsed_compute().clone();
            let _timer = compute.timer();
            match batch {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => self.add(batch)?,
                None => {
                    self.input = None;
                    let rest = self.pending.take();
                    self.evaluate(rest)?;
                    self.pending.reservation.free();
                }
            }
        }
    }

    /// Evaluates what `batch` makes whole, and keeps the rest.
    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        if self.unit == Unit::Row {
            return self.evaluate(vec![batch]);
        }
        let rows = batch.num_rows();
        let values = self.keys.values(&batch)?;
        let last = values.slice(rows - 1, 1);
        let begin = values.last_unit(self.unit)?;
        let goes_on = match &self.pending.last {
            Some(before) => before.then(&values.slice(0, 1))?.last_unit(self.unit)? == 0,
            None => false,
        };
        if begin > 0 || !goes_on {
            let mut whole = self.pending.take();
            if begin > 0 {
                whole.push(batch.slice(0, begin));
            }
            self.evaluate(whole)?;
            self.pending.reservation.free();
        }
        self.keep(batch.slice(begin, rows - begin), last)
    }

    /// Keeps rows until their unit ends. They will be copied once, into one batch.
    fn keep(&mut self, batch: RecordBatch, last: KeyValues) -> Result<()> {
        let bytes = 2 * self.pending.memory.count_batch(&batch);
        self.pending.batches.push(batch);
        self.pending.last = Some(last);
        // Of peers, the functions know the rows before: DataFusion's operator, which keeps these as well, cannot go on.
        if !self.is_granted(bytes) && self.unit == Unit::Partition {
            self.hand_over()?;
        }
        Ok(())
    }

    /// Asks for memory that leaves half of the pool to others: DataFusion's operators ask for none, so a sort below
    /// them is not refused what it needs to go on.
    fn is_granted(&self, bytes: usize) -> bool {
        let pool = self.context.memory_pool();
        let leaves_half = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => pool.reserved() + bytes <= limit / 2,
            MemoryLimit::Infinite | MemoryLimit::Unknown => true,
        };
        leaves_half && self.pending.reservation.try_grow(bytes).is_ok()
    }

    /// The rest of the rows goes through DataFusion's operator, which asks for no memory. Nothing has been computed of
    /// the pending window partition.
    fn hand_over(&mut self) -> Result<()> {
        let Some(input) = self.input.take() else { return Ok(()) };
        log::debug!("a window partition was refused memory, DataFusion's operator goes on");
        self.handovers.add(1);
        let schema = input.schema();
        let pending = stream::iter(self.pending.take().into_iter().map(Ok)).chain(input);
        self.pending.reservation.free();
        let [child] = self.stock.children()[..] else { return Ok(()) };
        let rest = Box::pin(RecordBatchStreamAdapter::new(schema, pending));
        let rest: Arc<dyn ExecutionPlan> = Arc::new(HeldExec::new(child, self.partition, rest));
        let stock = replace_children_if_necessary(Arc::clone(&self.stock), vec![rest])?;
        self.handed_over = Some(stock.execute(self.partition, Arc::clone(&self.context))?);
        Ok(())
    }

    fn evaluate(&mut self, batches: Vec<RecordBatch>) -> Result<()> {
        let batch = match batches.as_slice() {
            [] => return Ok(()),
            [batch] => batch.clone(),
            [first, ..] => concat_batches(&first.schema(), &batches)?,
        };
        drop(batches);
        let chunk = self.chunk(batch)?;
        let mut columns = chunk.batch.columns().to_vec();
        for function in &mut self.functions {
            columns.push(function.evaluate(&chunk)?);
        }
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let starts = (0..rows.num_rows()).step_by(self.batch_rows);
        self.ready.extend(starts.map(|start| rows.slice(start, self.batch_rows.min(rows.num_rows() - start))));
        Ok(())
    }

    fn chunk(&mut self, batch: RecordBatch) -> Result<Chunk> {
        let values = self.keys.values(&batch)?;
        let first = values.slice(0, 1);
        let goes_on = |unit| -> Result<bool> {
            let Some(last) = &self.last else { return Ok(false) };
            Ok(last.then(&first)?.last_unit(unit)? == 0)
        };
        let (continues_partition, continues_peers) = match self.unit {
            Unit::Partition => (false, false),
            _ => (goes_on(Unit::Partition)?, goes_on(Unit::Peers)?),
        };
        let needs_peers = self.functions.iter().any(|function| function.needs_peers());
        let peers = if needs_peers { values.peers()? } else { Vec::new() };
        let chunk = Chunk { partitions: values.partitions()?, peers, continues_partition, continues_peers, batch };
        self.last = Some(values.slice(chunk.rows() - 1, 1));
        Ok(chunk)
    }
}
