//! Pipelines whose rows nobody could count before the run: DataFusion's operators take the first of them.
//!
//! ```text
//! rows, partial groups   operators over the first rows ──► compiled code over the rest, if there is a rest
//! groups                 the first rows are held back  ──► compiled code over all, or operators if those were all
//! ```
//! No row is read twice. Pipelines with joins are never here: their partitions share tables.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt, stream};

use crate::exec::Inner;
use crate::lower::pipeline::Output;

/// No more is held back, however few rows it is.
const HELD_BYTES_MAX: usize = 8 << 20;

/// Whether the operators' rows and those of compiled code can follow each other: nothing is put together at the end.
pub(crate) fn changes_over(inner: &Inner) -> bool {
    matches!(inner.pipeline.kernel.output, Output::Rows(_) | Output::Groups { partial: true, .. })
}

/// Rows for compiled code that were read, or are being read, before it was there.
pub(crate) struct Early {
    pub(crate) rows: SendableRecordBatchStream,
    /// Whether rows before them have been given.
    pub(crate) gives: bool,
}

/// The input of a partition, of which two readers take their parts one after the other.
#[derive(Clone)]
pub(crate) struct Input(Arc<Mutex<Shared>>);

struct Shared {
    rows: SendableRecordBatchStream,
    taken: usize,
    ended: bool,
}

impl Input {
    pub(crate) fn new(rows: SendableRecordBatchStream) -> Input {
        Input(Arc::new(Mutex::new(Shared { rows, taken: 0, ended: false })))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many rows were read.
    pub(crate) fn taken(&self) -> usize {
        self.lock().taken
    }

    /// Whether there are no more rows.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let mut shared = self.lock();
        let next = shared.rows.poll_next_unpin(context);
        match &next {
            Poll::Ready(Some(Ok(batch))) => shared.taken += batch.num_rows(),
            Poll::Ready(None) => shared.ended = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        next
    }

    /// The rows until `rows` were read in all.
    pub(crate) fn first(&self, rows: usize) -> SendableRecordBatchStream {
        let input = self.clone();
        self.stream(stream::poll_fn(move |context| match input.taken() >= rows {
            true => Poll::Ready(None),
            false => input.poll(context),
        }))
    }

    /// The rows that are left.
    pub(crate) fn rest(&self) -> SendableRecordBatchStream {
        let input = self.clone();
        self.stream(stream::poll_fn(move |context| input.poll(context)))
    }

    /// A batch that was read, and the rows that are left.
    pub(crate) fn rest_after(&self, batch: RecordBatch) -> SendableRecordBatchStream {
        self.stream(stream::iter([Ok(batch)]).chain(self.rest()))
    }

    fn stream(&self, rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static) -> SendableRecordBatchStream {
        let schema = self.lock().rows.schema();
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    /// Waits for so many rows, or a few megabytes; gives back all rows from the first on.
    pub(crate) async fn hold(&self, rows: usize) -> Result<SendableRecordBatchStream> {
        let (mut first, mut held, mut bytes) = (self.first(rows), Vec::new(), 0);
        while bytes < HELD_BYTES_MAX
            && let Some(batch) = first.next().await.transpose()?
        {
            bytes += batch.get_array_memory_size();
            held.push(Ok(batch));
        }
        // The end shows when it is asked for.
        if !self.has_ended()
            && bytes < HELD_BYTES_MAX
            && let Some(batch) = self.rest().next().await
        {
            held.push(batch);
        }
        Ok(self.stream(stream::iter(held).chain(self.rest())))
    }
}

/// DataFusion's operators over these rows of the input.
pub(crate) fn replaced_over(
    inner: &Inner,
    partition: usize,
    context: Arc<TaskContext>,
    rows: SendableRecordBatchStream,
) -> Result<SendableRecordBatchStream> {
    let properties = Arc::clone(inner.source().properties());
    let source = Arc::new(HeldExec { properties, partition, rows: Mutex::new(Some(rows)) });
    inner.restore_over(source)?.execute(partition, context)
}

/// Stands for a pipeline's source: some rows of one partition.
struct HeldExec {
    properties: Arc<PlanProperties>,
    partition: usize,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for HeldExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldExec").field("partition", &self.partition).finish_non_exhaustive()
    }
}

impl DisplayAs for HeldExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldExec: partition={}", self.partition)
    }
}

impl ExecutionPlan for HeldExec {
    fn name(&self) -> &str {
        "HeldExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("HeldExec has no children") }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        match rows.filter(|_| partition == self.partition) {
            Some(rows) => Ok(rows),
            None => internal_err!("HeldExec is read once, in one partition"),
        }
    }
}
