//! The plan node.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots};
use futures::{StreamExt, stream};

use super::Limit;
use super::rows::Kept;

/// Drops rows of which so many others of the same group come first in an order. Those that are left have the order that
/// they had, and are dropped in each partition apart. It gives all rows from where limiting does not pay, or memory is
/// refused.
#[derive(Debug)]
pub struct WindowGroupLimitExec {
    input: Arc<dyn ExecutionPlan>,
    groups: Vec<Arc<dyn PhysicalExpr>>,
    order: Vec<PhysicalSortExpr>,
    limit: Limit,
    /// As many rows of the input are expected, where statistics tell.
    expected: Option<f64>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl WindowGroupLimitExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        groups: Vec<Arc<dyn PhysicalExpr>>,
        order: Vec<PhysicalSortExpr>,
        limit: Limit,
        expected: Option<f64>,
    ) -> WindowGroupLimitExec {
        let properties = PlanProperties::clone(input.properties()).with_emission_type(EmissionType::Final);
        let metrics = ExecutionPlanMetricsSet::new();
        WindowGroupLimitExec { input, groups, order, limit, expected, properties: Arc::new(properties), metrics }
    }

    /// The rows that it limits.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl DisplayAs for WindowGroupLimitExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |exprs: Vec<String>| exprs.join(", ");
        let groups = list(self.groups.iter().map(ToString::to_string).collect());
        let order = list(self.order.iter().map(ToString::to_string).collect());
        let ties = if self.limit.counts_ties_once { ", ties count once" } else { "" };
        let first = self.limit.first;
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "first {first} by {order}"),
            _ => write!(f, "WindowGroupLimitExec: first={first}{ties}, groups=[{groups}], order=[{order}]"),
        }
    }
}

impl ExecutionPlan for WindowGroupLimitExec {
    fn name(&self) -> &str {
        "WindowGroupLimitExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    weld_plans::rows_in_order!();

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.groups.iter().chain(self.order.iter().map(|key| &key.expr)), f)
    }

    weld_plans::one_input!(input, |node, input| {
        let (groups, order) = (node.groups.clone(), node.order.clone());
        WindowGroupLimitExec::new(input, groups, order, node.limit, node.expected)
    });

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let batch_rows = context.session_config().batch_size().max(1);
        let partitions = self.properties.partitioning.partition_count().max(1);
        let expected = self.expected.map(|rows| rows / partitions as f64);
        let kept = Kept::new(&schema, &self.groups, &self.order, self.limit, expected, batch_rows)?;
        let consumer = MemoryConsumer::new(format!("WindowGroupLimitExec[{partition}]"));
        let rows = Rows {
            input: Some(self.input.execute(partition, Arc::clone(&context))?),
            kept: Some(kept),
            ready: VecDeque::new(),
            reservation: consumer.register(context.memory_pool()),
            dropped: MetricBuilder::new(&self.metrics).counter("dropped_rows", partition),
            left: MetricBuilder::new(&self.metrics).counter("not_limited", partition),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        };
        let rows =
            stream::try_unfold(rows, |mut rows| async move { Ok(rows.next().await?.map(|batch| (batch, rows))) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One partition.
struct Rows {
    /// Absent once it has ended.
    input: Option<SendableRecordBatchStream>,
    /// Absent once rows are given as they come.
    kept: Option<Kept>,
    ready: VecDeque<RecordBatch>,
    reservation: MemoryReservation,
    dropped: Count,
    /// Whether limiting was left.
    left: Count,
    baseline: BaselineMetrics,
}

impl Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch.record_output(&self.baseline)));
            }
            if self.kept.is_none() {
                self.reservation.free();
            }
            let Some(input) = &mut self.input else { return Ok(None) };
            let batch = input.next().await.transpose()?;
            let compute = self.baseline.elapsed_compute().clone();
            let _timer = compute.timer();
            match (batch, &mut self.kept) {
                (Some(batch), Some(_)) => self.add(batch)?,
                (Some(batch), None) => self.ready.push_back(batch),
                (None, _) => self.end()?,
            }
        }
    }

    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        let pays = kept.add(batch)?;
        if pays && self.reservation.try_resize(kept.bytes()).is_ok() {
            return Ok(());
        }
        self.left.add(1);
        self.ready.extend(kept.give_up()?);
        self.dropped.add(kept.dropped());
        self.kept = None;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.input = None;
        if let Some(mut kept) = self.kept.take() {
            self.ready.extend(kept.end()?);
            self.dropped.add(kept.dropped());
        }
        Ok(())
    }
}
