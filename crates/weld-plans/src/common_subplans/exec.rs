//! `CommonSubplansExec` stands above a plan and the subplans that parts of it read more than once.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::UnKnownColumn;
use datafusion::physical_expr::{Distribution, OrderingRequirements, Partitioning};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions, reset_plan_states};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements, PlanProperties,
};
use futures::StreamExt;

use super::run::{Run, lock};
use super::scan::{CommonSubplanScanExec, Subplan};

/// Passes the rows of its first child through, parts of which read the other children.
#[derive(Debug)]
pub struct CommonSubplansExec {
    /// The plan, and then the subplans.
    children: Vec<Arc<dyn ExecutionPlan>>,
    subplans: Vec<Arc<Subplan>>,
    executions: Arc<Mutex<Vec<Execution>>>,
    metrics: ExecutionPlanMetricsSet,
}

/// One execution of the plan, which holds those of its subplans.
#[derive(Debug)]
struct Execution {
    runs: Vec<Arc<Run>>,
    /// Partitions of the plan that have not begun.
    to_come: HashSet<usize>,
    /// Those that have not ended.
    partitions: HashSet<usize>,
}

impl Execution {
    fn is_of(&self, context: &Arc<TaskContext>) -> bool {
        self.runs.iter().all(|run| run.is_of(context))
    }
}

impl CommonSubplansExec {
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, subplans: Vec<Arc<Subplan>>) -> CommonSubplansExec {
        let children = std::iter::once(plan).chain(subplans.iter().map(|subplan| Arc::clone(&subplan.plan))).collect();
        CommonSubplansExec::of(children, subplans)
    }

    fn of(children: Vec<Arc<dyn ExecutionPlan>>, subplans: Vec<Arc<Subplan>>) -> CommonSubplansExec {
        CommonSubplansExec { children, subplans, executions: Arc::default(), metrics: ExecutionPlanMetricsSet::new() }
    }

    /// A subplan as it is now, if this has it.
    fn subplan_of(&self, scan: &CommonSubplanScanExec) -> Option<&Arc<dyn ExecutionPlan>> {
        let number = self.subplans.iter().position(|subplan| scan.reads(subplan))?;
        self.children.get(number + 1)
    }

    /// Begins the execution that a partition belongs to, or goes on with it: the one of its context, else one that this
    /// partition is missing from. Who executes the partitions may give each a context of its own.
    fn hold(&self, partition: usize, context: &Arc<TaskContext>) -> Held {
        let mut executions = lock(&self.executions);
        let known = executions.iter().position(|execution| execution.is_of(context));
        let known = known.or_else(|| executions.iter().position(|execution| execution.to_come.contains(&partition)));
        let number = known.unwrap_or_else(|| {
            executions.push(self.execution(context));
            executions.len() - 1
        });
        executions[number].to_come.remove(&partition);
        executions[number].runs.iter().for_each(|run| run.add(context));
        Held { executions: Arc::clone(&self.executions), context: Arc::clone(context), partition }
    }

    fn execution(&self, context: &Arc<TaskContext>) -> Execution {
        let subplans = self.subplans.iter().zip(&self.children[1..]);
        let runs = subplans.map(|(subplan, plan)| subplan.run(plan, context, &self.metrics)).collect();
        let partitions: HashSet<usize> = (0..self.children[0].output_partitioning().partition_count()).collect();
        Execution { runs, to_come: partitions.clone(), partitions }
    }

    fn with_first<T: Clone>(&self, first: T, others: T) -> Vec<T> {
        std::iter::once(first).chain(std::iter::repeat_n(others, self.subplans.len())).collect()
    }
}

/// Rows of subplans are kept until all partitions of the plan have ended: they may be executed one after the other.
struct Held {
    executions: Arc<Mutex<Vec<Execution>>>,
    context: Arc<TaskContext>,
    partition: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut executions = lock(&self.executions);
        if let Some(number) = executions.iter().position(|execution| execution.is_of(&self.context)) {
            executions[number].partitions.remove(&self.partition);
            if executions[number].partitions.is_empty() {
                let ended = executions.swap_remove(number);
                drop((executions, ended));
            }
        }
    }
}

/// The plan with its common subplans in the place of those who read them.
pub fn without_common_subplans(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut found: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
    plan.transform_down(|node| {
        if node.is::<CommonSubplansExec>() {
            let input = Arc::clone(node.children()[0]);
            found.push(node);
            return Ok(Transformed::yes(input));
        }
        let Some(scan) = node.downcast_ref::<CommonSubplanScanExec>() else { return Ok(Transformed::no(node)) };
        let owners = found.iter().filter_map(|found| found.downcast_ref::<CommonSubplansExec>());
        let subplan = owners.into_iter().find_map(|owner| owner.subplan_of(scan)).unwrap_or(scan.subplan());
        // Each place has operators of its own.
        Ok(Transformed::yes(reset_plan_states(Arc::clone(subplan))?))
    })
    .data()
}

impl DisplayAs for CommonSubplansExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subplan = |subplan: &Arc<Subplan>| {
            let Subplan { number, readers, rows_saved, .. } = subplan.as_ref();
            match *rows_saved > 0.0 {
                true => format!("#{number} read {readers} times (saves {rows_saved:.0} rows)"),
                false => format!("#{number} read {readers} times"),
            }
        };
        let subplans: Vec<String> = self.subplans.iter().map(subplan).collect();
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "{}", subplans.join(", ")),
            _ => write!(f, "CommonSubplansExec: {}", subplans.join(", ")),
        }
    }
}

impl ExecutionPlan for CommonSubplansExec {
    fn name(&self) -> &str {
        "CommonSubplansExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.children[0].properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    /// Readers promise the partitions and the order that their subplan had.
    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let required = |subplan: &Arc<Subplan>| match subplan.plan.output_partitioning() {
            // No reader can rely on columns that are gone.
            Partitioning::Hash(keys, _) if !keys.iter().any(|key| key.is::<UnKnownColumn>()) => {
                Distribution::KeyPartitioned(keys.clone())
            }
            partitioning if partitioning.partition_count() == 1 => Distribution::SinglePartition,
            _ => Distribution::UnspecifiedDistribution,
        };
        let first = std::iter::once(Distribution::UnspecifiedDistribution);
        InputDistributionRequirements::new(first.chain(self.subplans.iter().map(required)).collect())
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let required = |subplan: &Arc<Subplan>| subplan.plan.output_ordering().cloned().map(OrderingRequirements::from);
        std::iter::once(None).chain(self.subplans.iter().map(required)).collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.with_first(true, false)
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.with_first(false, false)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    crate::no_expressions!();

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.children.len() {
            return internal_err!("{} has {} children", self.name(), self.children.len());
        }
        for (child, subplan) in children[1..].iter().zip(&self.subplans) {
            let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.output_partitioning().partition_count();
            if child.schema() != subplan.plan.schema() || partitions(child) != partitions(&subplan.plan) {
                return internal_err!("the readers of a subplan rely on its columns and partitions");
            }
        }
        Ok(Arc::new(CommonSubplansExec::of(children, self.subplans.clone())))
    }

    crate::new_children!();

    /// All readers start again, so they read the same rows again.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let subplans: Vec<_> = self.subplans.iter().map(|subplan| Arc::new(subplan.unused())).collect();
        let reader = |node: Arc<dyn ExecutionPlan>| {
            let Some(scan) = node.downcast_ref::<CommonSubplanScanExec>() else { return Ok(Transformed::no(node)) };
            let Some(number) = self.subplans.iter().position(|subplan| scan.reads(subplan)) else {
                return Ok(Transformed::no(node));
            };
            let subplan = &subplans[number];
            let scan = CommonSubplanScanExec::new(Arc::clone(subplan), scan.reader(), subplan.plan.properties());
            Ok(Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>))
        };
        let children = self.children.iter().map(|child| Arc::clone(child).transform_up(reader).data());
        let children = children.collect::<Result<_>>()?;
        Ok(Arc::new(CommonSubplansExec::of(children, subplans)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let held = self.hold(partition, &context);
        let rows = self.children[0].execute(partition, context)?;
        let schema = rows.schema();
        let rows = rows.inspect(move |_| {
            let _ = &held;
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.with_first(ChildStats::At(partition), ChildStats::Skip)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}
