//! The plan node, which stands in the place of DataFusion's window operators.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{Distribution, OrderingRequirements, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    InputOrderMode, PlanProperties,
};
use futures::stream;

use crate::chunk::{Keys, Unit};
use crate::function::{Function, function};
use crate::stream::{Pending, Windows};

/// Window functions over sorted rows. It promises and requires what the operator does that it stands for.
#[derive(Debug)]
pub struct WindowExec {
    stock: Arc<dyn ExecutionPlan>,
    windows: Vec<Arc<dyn WindowExpr>>,
    keys: Keys,
    unit: Unit,
    metrics: ExecutionPlanMetricsSet,
}

impl WindowExec {
    /// Stands for `plan`; `None` if it is no window operator of DataFusion's, a reason if its windows are not evaluated
    /// here.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Result<WindowExec, String>> {
        let windows = if let Some(exec) = plan.downcast_ref::<WindowAggExec>() {
            exec.window_expr()
        } else if let Some(exec) = plan.downcast_ref::<BoundedWindowAggExec>() {
            if exec.input_order_mode != InputOrderMode::Sorted {
                return Some(Err("its input is not sorted by the window partitions".to_owned()));
            }
            if exec.state_observer().is_some() {
                return Some(Err("somebody observes its states".to_owned()));
            }
            exec.window_expr()
        } else {
            return None;
        };
        Some(WindowExec::over(plan, windows.to_vec()))
    }

    /// DataFusion's operator.
    pub fn stock(&self) -> &Arc<dyn ExecutionPlan> {
        &self.stock
    }

    fn over(plan: &Arc<dyn ExecutionPlan>, windows: Vec<Arc<dyn WindowExpr>>) -> Result<WindowExec, String> {
        let Some(first) = windows.first() else { return Err("it has no windows".to_owned()) };
        let keys = Keys::of(first.as_ref());
        if !windows.iter().all(|window| keys.are_those_of(window.as_ref())) {
            return Err("its windows have different partitions or orders".to_owned());
        }
        let input = plan.children().first().map_or_else(|| plan.schema(), |input| input.schema());
        let functions: Vec<Box<dyn Function>> =
            windows.iter().map(|window| function(window, &input)).collect::<Result<_, _>>()?;
        let unit = functions.iter().map(|function| function.unit()).max().unwrap_or(Unit::Row);
        let streams = plan.is::<BoundedWindowAggExec>() && !plan.children().into_iter().all(reads_all_first);
        if streams && unit == Unit::Partition && !keys.has_partitions() {
            return Err("all rows are one window partition, and come one after the other".to_owned());
        }
        if plan.boundedness().is_unbounded() {
            return Err("its input does not end".to_owned());
        }
        Ok(WindowExec { stock: Arc::clone(plan), windows, keys, unit, metrics: ExecutionPlanMetricsSet::new() })
    }
}

/// Whether no row comes before the last of the inputs has been read, so that a limit above saves nothing.
fn reads_all_first(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.pipeline_behavior() == EmissionType::Final
}

impl DisplayAs for WindowExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => self.stock.fmt_as(format, f),
            _ => {
                f.write_str("WindowExec: ")?;
                self.stock.fmt_as(format, f)
            }
        }
    }
}

impl ExecutionPlan for WindowExec {
    fn name(&self) -> &str {
        "WindowExec"
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

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stock = Arc::clone(&self.stock).replace_children(children, options)?;
        match WindowExec::of(&stock) {
            Some(Ok(exec)) => Ok(Arc::new(exec)),
            _ => Ok(stock),
        }
    }

    weld_plans::new_children!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let [input] = self.children()[..] else { return internal_err!("a window has one input") };
        let input = input.execute(partition, Arc::clone(&context))?;
        let functions = self.windows.iter().map(|window| function(window, &input.schema()));
        let Ok(functions) = functions.collect::<Result<Vec<_>, _>>() else {
            return internal_err!("its functions were made once");
        };
        let schema = self.schema();
        let reservation = MemoryConsumer::new(format!("WindowExec[{partition}]")).register(context.memory_pool());
        let windows = Windows {
            input: Some(input),
            keys: self.keys.clone(),
            functions,
            unit: self.unit,
            schema: Arc::clone(&schema),
            batch_rows: context.session_config().batch_size().max(1),
            pending: Pending { batches: Vec::new(), last: None, memory: Default::default(), reservation },
            last: None,
            ready: VecDeque::new(),
            stock: Arc::clone(&self.stock),
            context,
            partition,
            handed_over: None,
            handovers: MetricBuilder::new(&self.metrics).counter("handovers", partition),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        };
        let rows = stream::try_unfold(windows, |mut windows| async move {
            Ok(windows.next().await?.map(|batch| (batch, windows)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
