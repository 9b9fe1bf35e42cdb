//! The plan node, which stands in the place of DataFusion's sort.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_datafusion_err, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr,
    PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, ReplaceChildrenOptions, replace_children_if_necessary,
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
use weld_plans::FirstKeyFilter;

use crate::best::Best;
use crate::bound::{Filter, Shared};
use crate::rows::Unsorted;
use crate::stream::{Input, Sort, State, Stop};

/// A sort by normalised keys, of all rows or with a limit. It promises and requires what the operators do that it
/// stands for: a sort, or a sort of each partition and their merge.
#[derive(Debug)]
pub struct KeySortExec {
    /// The merge, if there is one.
    stock: Arc<dyn ExecutionPlan>,
    sort: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    /// Filters of sources by the first key.
    first: Vec<FirstKeyFilter>,
    /// Of the execution that began last, if there is a limit: one for all partitions, or one each where they are not
    /// merged by these keys alone.
    shared: Vec<Mutex<Arc<Shared>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl KeySortExec {
    /// Stands for `plan`; `None` if it is no sort of DataFusion's and no merge of sorted partitions, a reason if it is
    /// a sort that is left to DataFusion.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Result<KeySortExec, String>> {
        KeySortExec::narrowing(plan, &[])
    }

    /// The same, which narrows filters that are in sources of the sort's input.
    pub fn narrowing(plan: &Arc<dyn ExecutionPlan>, first: &[FirstKeyFilter]) -> Option<Result<KeySortExec, String>> {
        if let Some(sort) = plan.downcast_ref::<SortExec>() {
            return Some(KeySortExec::over(plan, plan, sort, first));
        }
        let merge = plan.downcast_ref::<SortPreservingMergeExec>()?;
        let (below, first) = match merge.input().downcast_ref::<KeySortExec>() {
            Some(exec) => (exec.stock(), &exec.first[..]),
            None => (merge.input(), first),
        };
        let sort = below.downcast_ref::<SortExec>()?;
        if sort.expr() != merge.expr() || sort.fetch() != merge.fetch() {
            return None;
        }
        let stock = replace_children_if_necessary(Arc::clone(plan), vec![Arc::clone(below)]).ok()?;
        Some(Ok(KeySortExec::over(&stock, below, sort, first).ok()?))
    }

    /// DataFusion's operators.
    pub fn stock(&self) -> &Arc<dyn ExecutionPlan> {
        &self.stock
    }

    fn over(
        stock: &Arc<dyn ExecutionPlan>,
        plan: &Arc<dyn ExecutionPlan>,
        sort: &SortExec,
        first: &[FirstKeyFilter],
    ) -> Result<KeySortExec, String> {
        if plan.boundedness().is_unbounded() {
            return Err("its input does not end".to_owned());
        }
        let input = sort.input().equivalence_properties();
        let sorted = input.extract_common_sort_prefix(sort.expr().clone());
        let (sorted_by, is_sorted) = sorted.map_err(|error| error.to_string())?;
        if is_sorted {
            return Err("its input is sorted".to_owned());
        }
        if sort.fetch().is_some() && !sorted_by.is_empty() {
            return Err("its input is sorted by the first of the keys, and need not be read to its end".to_owned());
        }
        if sort.fetch() == Some(0) {
            return Err("it keeps no rows".to_owned());
        }
        Unsorted::new(sort.schema(), sort.expr(), 1)?;
        let partitions = plan.output_partitioning().partition_count();
        let shared = match partitions == 1 || !Arc::ptr_eq(stock, plan) || !differs_by_partition(input) {
            true => vec![Shared::new(filters_of(sort, first), partitions)],
            false => (0..partitions).map(|_| Shared::new(Vec::new(), partitions)).collect(),
        };
        Ok(KeySortExec {
            stock: Arc::clone(stock),
            sort: Arc::clone(plan),
            order: sort.expr().clone(),
            first: first.to_vec(),
            shared: shared.into_iter().map(Mutex::new).collect(),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    fn merges(&self) -> bool {
        !Arc::ptr_eq(&self.stock, &self.sort)
    }

    /// The same over other operators of DataFusion's, or these if they are not sorted here.
    fn again(&self, sort: Arc<dyn ExecutionPlan>, first: &[FirstKeyFilter]) -> Result<Arc<dyn ExecutionPlan>> {
        let stock =
            if self.merges() { replace_children_if_necessary(Arc::clone(&self.stock), vec![sort])? } else { sort };
        match KeySortExec::narrowing(&stock, first) {
            Some(Ok(exec)) => Ok(Arc::new(exec)),
            _ => Ok(stock),
        }
    }
}

/// The filters that tell scans of the rows so far.
fn filters_of(sort: &SortExec, first: &[FirstKeyFilter]) -> Vec<Filter> {
    if has_nested_keys(sort) {
        return Vec::new();
    }
    let own = sort.dynamic_expressions_produced().pop();
    let own = own.and_then(|filter| (filter as Arc<dyn Any + Send + Sync>).downcast().ok());
    let own = own.map(|filter| Filter::of_all(filter, sort.expr()));
    own.into_iter().chain(first.iter().map(|first| Filter::of_first(first, sort.expr()))).collect()
}

/// Whether rows are sorted by lists, structs or maps. A comparison takes nulls within them for least, wherever the sort
/// puts them: as a filter it would drop rows that are among the first.
fn has_nested_keys(sort: &SortExec) -> bool {
    let is_nested = |key: &PhysicalSortExpr| key.expr.data_type(&sort.schema()).is_ok_and(|key| key.is_nested());
    sort.expr().iter().any(is_nested)
}

/// Whether something may be constant in each partition without being the same in all. Whoever merges them may do so by
/// that, too, though no partition is sorted by it: a row that is behind all of another partition's is among the first,
/// then. A union takes constants of unknown values for the same.
fn differs_by_partition(input: &EquivalenceProperties) -> bool {
    let is_same = |constant: &ConstExpr| matches!(constant.across_partitions, AcrossPartitions::Uniform(Some(_)));
    !input.constants().iter().all(is_same)
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

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.sort.dynamic_expressions_produced()
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
        self.again(Arc::clone(&self.sort).replace_children(children, options)?, &self.first)
    }

    weld_plans::new_children!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // What the first rows of a step of a recursive query are says nothing of the next step's. DataFusion's sort takes a
        // new filter, which no source has.
        self.again(Arc::clone(&self.sort).reset_state()?, &[])
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
        let limit = self.fetch();
        let mut inputs = Vec::new();
        for partition in if self.merges() { 0..count } else { partition..partition + 1 } {
            let known = |_| internal_datafusion_err!("its keys were looked at");
            let rows = Unsorted::new(Arc::clone(&schema), &self.order, batch_rows).map_err(known)?;
            let best = match limit {
                Some(limit) => {
                    let shared = self.shared.get(partition).unwrap_or(&self.shared[0]);
                    let shared = Shared::begin(shared, partition)?;
                    let replacements = MetricBuilder::new(&self.metrics).counter("row_replacements", partition);
                    Some(Best::new(&schema, &self.order, limit, batch_rows, shared, replacements).map_err(known)?)
                }
                None => None,
            };
            let stream = Some(input.execute(partition, Arc::clone(&context))?);
            inputs.push(Input { partition, stream, rows, best, reservation: reserve(partition), is_refused: false });
        }
        let sort = Sort {
            schema: Arc::clone(&schema),
            order: self.order.clone(),
            batch_rows,
            limit,
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
