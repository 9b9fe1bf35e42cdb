//! The plan node, which stands in the place of DataFusion's sort.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, LexOrdering, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ChildrenPropertiesMode, ReplaceChildrenOptions, replace_children_if_necessary,
};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements, PlanProperties,
};
use futures::stream;

use crate::rows::Unsorted;
use crate::stream::{Input, Sort, State, Stop};

/// A sort by normalised keys. It promises and requires what the operators do that it stands for: a sort, or a sort of each
/// partition and their merge.
#[derive(Debug)]
pub struct KeySortExec {
    /// The merge, if there is one.
    stock: Arc<dyn ExecutionPlan>,
    sort: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    metrics: ExecutionPlanMetricsSet,
}

impl KeySortExec {
    /// Stands for `plan`; `None` if it is no sort of DataFusion's and no merge of sorted partitions, a reason if it is a sort
    /// that is left to DataFusion.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Result<KeySortExec, String>> {
        if let Some(sort) = plan.downcast_ref::<SortExec>() {
            return Some(KeySortExec::over(plan, plan, sort));
        }
        let merge = plan.downcast_ref::<SortPreservingMergeExec>().filter(|merge| merge.fetch().is_none())?;
        let below = match merge.input().downcast_ref::<KeySortExec>() {
            Some(exec) => exec.stock(),
            None => merge.input(),
        };
        let sort = below.downcast_ref::<SortExec>().filter(|sort| sort.expr() == merge.expr())?;
        let stock = replace_children_if_necessary(Arc::clone(plan), vec![Arc::clone(below)]).ok()?;
        Some(Ok(KeySortExec::over(&stock, below, sort).ok()?))
    }

    /// DataFusion's operators.
    pub fn stock(&self) -> &Arc<dyn ExecutionPlan> {
        &self.stock
    }

    fn over(
        stock: &Arc<dyn ExecutionPlan>,
        plan: &Arc<dyn ExecutionPlan>,
        sort: &SortExec,
    ) -> Result<KeySortExec, String> {
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
        Ok(KeySortExec { stock: Arc::clone(stock), sort: Arc::clone(plan), order: sort.expr().clone(), metrics })
    }

    fn merges(&self) -> bool {
        !Arc::ptr_eq(&self.stock, &self.sort)
    }

    /// The same over other operators of DataFusion's, or these if they are not sorted here.
    fn again(&self, sort: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let stock =
            if self.merges() { replace_children_if_necessary(Arc::clone(&self.stock), vec![sort])? } else { sort };
        match KeySortExec::of(&stock) {
            Some(Ok(exec)) => Ok(Arc::new(exec)),
            _ => Ok(stock),
        }
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
        self.sort.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.sort.input_distribution_requirements()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.sort.input_distribution_requirements().into_per_child()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.sort.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.sort.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.sort.benefits_from_input_partitioning()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.sort.cardinality_effect()
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.sort.child_stats_requests(if self.merges() { None } else { partition })
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.sort.statistics_from_inputs(inputs, args)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.sort.apply_expressions(f)
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
        self.sort.gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.again(Arc::clone(&self.sort).replace_children(children, options)?)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.again(Arc::clone(&self.sort).reset_state()?)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let [input] = self.children()[..] else { return internal_err!("a sort has one input") };
        let schema = self.schema();
        let batch_rows = context.session_config().batch_size().max(1);
        let reserve = |partition: usize| {
            let consumer = MemoryConsumer::new(format!("KeySortExec[{partition}]")).with_can_spill(true);
            consumer.register(context.memory_pool())
        };
        let count = input.output_partitioning().partition_count();
        let mut inputs = Vec::new();
        for partition in if self.merges() { 0..count } else { partition..partition + 1 } {
            let Ok(rows) = Unsorted::new(Arc::clone(&schema), &self.order, batch_rows) else {
                return internal_err!("its keys were looked at");
            };
            let stream = Some(input.execute(partition, Arc::clone(&context))?);
            inputs.push(Input { partition, stream, rows, reservation: reserve(partition), is_refused: false });
        }
        let sort = Sort {
            schema: Arc::clone(&schema),
            order: self.order.clone(),
            batch_rows,
            reservation: reserve(partition),
            partitions: Vec::new(),
            state: State::Reading(inputs),
            stock: Arc::clone(&self.sort),
            context,
            handovers: MetricBuilder::new(&self.metrics).counter("handovers", partition),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            stop: Stop::default(),
        };
        let rows =
            stream::try_unfold(sort, |mut sort| async move { Ok(sort.next().await?.map(|batch| (batch, sort))) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// Those of DataFusion's operator are there if it went on with a sort.
    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        let stock = self.sort.metrics().unwrap_or_default();
        stock.iter().for_each(|metric| metrics.push(Arc::clone(metric)));
        Some(metrics)
    }
}
