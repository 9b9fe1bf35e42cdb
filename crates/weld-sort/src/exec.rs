//! The plan node, which stands in the place of DataFusion's sort.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements, PlanProperties,
};
use futures::stream;

use crate::rows::Unsorted;
use crate::stream::{Sort, State};

/// A sort by normalised keys. It promises and requires what the operator does that it stands for.
#[derive(Debug)]
pub struct KeySortExec {
    stock: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    metrics: ExecutionPlanMetricsSet,
}

impl KeySortExec {
    /// Stands for `plan`; `None` if it is no sort of DataFusion's, a reason if it is not sorted here.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Result<KeySortExec, String>> {
        let sort = plan.downcast_ref::<SortExec>()?;
        Some(KeySortExec::over(plan, sort))
    }

    /// DataFusion's operator.
    pub fn stock(&self) -> &Arc<dyn ExecutionPlan> {
        &self.stock
    }

    fn over(plan: &Arc<dyn ExecutionPlan>, sort: &SortExec) -> Result<KeySortExec, String> {
        if sort.fetch().is_some() {
            return Err("it keeps the first rows only".to_owned());
        }
        if plan.boundedness().is_unbounded() {
            return Err("its input does not end".to_owned());
        }
        let input = sort.input().equivalence_properties();
        if input.ordering_satisfy(sort.expr().clone()).unwrap_or(true) {
            return Err("its input is sorted".to_owned());
        }
        Unsorted::new(sort.schema(), sort.expr(), 1)?;
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(KeySortExec { stock: Arc::clone(plan), order: sort.expr().clone(), metrics })
    }
}

impl DisplayAs for KeySortExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => self.stock.fmt_as(format, f),
            _ => {
                f.write_str("KeySortExec: ")?;
                self.stock.fmt_as(format, f)
            }
        }
    }
}

impl ExecutionPlan for KeySortExec {
    fn name(&self) -> &str {
        "KeySortExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stock.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.stock.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.stock.input_distribution_requirements()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.stock.input_distribution_requirements().into_per_child()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.stock.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.stock.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.stock.benefits_from_input_partitioning()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.stock.cardinality_effect()
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.stock.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.stock.statistics_from_inputs(inputs, args)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.stock.apply_expressions(f)
    }

    fn fetch(&self) -> Option<usize> {
        self.stock.fetch()
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        self.stock.with_fetch(limit)
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.stock.gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = Arc::clone(&self.stock).replace_children(children, options)?;
        match KeySortExec::of(&stock) {
            Some(Ok(exec)) => Ok(Arc::new(exec)),
            _ => Ok(stock),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = Arc::clone(&self.stock).reset_state()?;
        match KeySortExec::of(&stock) {
            Some(Ok(exec)) => Ok(Arc::new(exec)),
            _ => Ok(stock),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let [input] = self.children()[..] else { return internal_err!("a sort has one input") };
        let input = input.execute(partition, Arc::clone(&context))?;
        let schema = self.schema();
        let batch_rows = context.session_config().batch_size().max(1);
        let Ok(rows) = Unsorted::new(Arc::clone(&schema), &self.order, batch_rows) else {
            return internal_err!("its keys were looked at");
        };
        let consumer = MemoryConsumer::new(format!("KeySortExec[{partition}]")).with_can_spill(true);
        let sort = Sort {
            schema: Arc::clone(&schema),
            batch_rows,
            reservation: consumer.register(context.memory_pool()),
            state: State::Reading(input, rows),
            stock: Arc::clone(&self.stock),
            context,
            partition,
            handovers: MetricBuilder::new(&self.metrics).counter("handovers", partition),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        };
        let rows =
            stream::try_unfold(sort, |mut sort| async move { Ok(sort.next().await?.map(|batch| (batch, sort))) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// Those of DataFusion's operator are there if it went on with a sort.
    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        let stock = self.stock.metrics().unwrap_or_default();
        stock.iter().for_each(|metric| metrics.push(Arc::clone(metric)));
        Some(metrics)
    }
}
