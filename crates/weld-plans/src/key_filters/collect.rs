//! `JoinKeysExec` passes the rows of a build side through and collects their keys.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, apply_expression_roots,
};
use futures::{Stream, StreamExt};

use super::keys::{Collected, JoinKeys};
use crate::key_set::each_key;

/// A partition with more rows gives its keys up: a set of so many would hardly drop rows, and takes memory.
const ROWS_MAX: usize = 1 << 23;

/// Collects the keys of a join's build side.
#[derive(Debug)]
pub struct JoinKeysExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Arc<JoinKeys>,
    metrics: ExecutionPlanMetricsSet,
}

impl JoinKeysExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, keys: Arc<JoinKeys>) -> JoinKeysExec {
        JoinKeysExec { input, keys, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// The rows that it takes the keys of, and passes on.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// For whoever collects the keys in another way.
    pub fn keys(&self) -> &Arc<JoinKeys> {
        &self.keys
    }
}

impl DisplayAs for JoinKeysExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "keys={}", self.keys),
            _ => write!(f, "JoinKeysExec: keys={}", self.keys),
        }
    }
}

impl ExecutionPlan for JoinKeysExec {
    fn name(&self) -> &str {
        "JoinKeysExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    crate::rows_in_order!();

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.keys.exprs(), f)
    }

    crate::one_input!(input, |node, input| JoinKeysExec::new(input, Arc::clone(&node.keys)));

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(JoinKeysExec::new(Arc::clone(&self.input), Arc::new(self.keys.unused()))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let is_wanted = self.keys.begin(partition);
        let input = match self.input.execute(partition, Arc::clone(&context)) {
            Ok(input) => input,
            Err(error) => {
                self.keys.close();
                return Err(error);
            }
        };
        if !is_wanted {
            return Ok(input);
        }
        let memory = MemoryConsumer::new(format!("JoinKeysExec[{partition}]")).register(context.memory_pool());
        let keys = vec![Vec::new(); self.keys.exprs().len()];
        Ok(Box::pin(Collecting {
            input,
            partitions: self.input.output_partitioning().partition_count(),
            collected: Some(Collected { keys, memory }),
            keys: Arc::clone(&self.keys),
            context,
            rows: MetricBuilder::new(&self.metrics).counter("keys_collected", partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One partition.
struct Collecting {
    input: SendableRecordBatchStream,
    partitions: usize,
    /// Absent once it has ended or was given up.
    collected: Option<Collected>,
    keys: Arc<JoinKeys>,
    context: Arc<TaskContext>,
    rows: Count,
}

impl Collecting {
    fn note(&mut self, batch: &RecordBatch) {
        let Some(collected) = self.collected.as_mut().filter(|_| self.keys.is_wanted()) else { return };
        if add(collected, batch, self.keys.exprs()).is_none() {
            self.give_up();
        } else {
            self.rows.add(batch.num_rows());
        }
    }

    fn give_up(&mut self) {
        if self.collected.take().is_some() {
            self.keys.close();
        }
    }
}

/// Adds the keys of a batch; `None` if they are too many or not of a kind that is collected.
fn add(collected: &mut Collected, batch: &RecordBatch, exprs: &[Arc<dyn PhysicalExpr>]) -> Option<()> {
    let rows = collected.keys.first().map_or(0, Vec::len) + batch.num_rows();
    if rows > ROWS_MAX {
        return None;
    }
    collected.memory.try_grow(batch.num_rows() * exprs.len() * size_of::<i64>()).ok()?;
    for (expr, keys) in exprs.iter().zip(&mut collected.keys) {
        // An error shows where the join evaluates the key.
        let values = expr.evaluate(batch).and_then(|value| value.into_array(batch.num_rows())).ok()?;
        keys.reserve(batch.num_rows());
        each_key(values.as_ref(), |key| keys.push(key))?;
    }
    Some(())
}

impl Stream for Collecting {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.input.poll_next_unpin(context);
        match &next {
            Poll::Ready(Some(Ok(batch))) => self.note(batch),
            Poll::Ready(Some(Err(_))) => self.give_up(),
            Poll::Ready(None) => {
                if let Some(collected) = self.collected.take() {
                    self.keys.end(collected, self.partitions, &self.context);
                }
            }
            Poll::Pending => {}
        }
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.input.size_hint()
    }
}

impl RecordBatchStream for Collecting {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// Who stops before the end has not seen all keys.
impl Drop for Collecting {
    fn drop(&mut self) {
        self.give_up();
    }
}
