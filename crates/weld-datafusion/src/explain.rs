//! What EXPLAIN and `weld` show: the operators in each pipeline, its Weld program, and why the others were left.
//!
//! ```text
//! WeldExec: rows of FilterExec -> ProjectionExec
//! ```

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use weld_plans::{CommonSubplansExec, CompactViewsExec, JoinKeysExec, KeyFilterExec, UnorderedExec};
use weld_sort::{KeySortExec, WindowGroupLimitExec};
use weld_window::WindowExec;

use crate::code_cache::Code;
use crate::exec::{Fused, WeldExec};
use crate::gate::{FEW_ROWS_REASON, SLOWER_REASON};
use crate::lower::accumulated::{Accumulating, Means};
use crate::lower::pipeline::{LoweredPipeline, Output};
use crate::rule::foreign::EvaluateExec;
use crate::scan::ScanExec;
use crate::verify::VerifyExec;

/// An operator that was left to DataFusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    /// DataFusion's name of it.
    pub operator: String,
    pub reason: String,
}

/// What became of a plan's operators. Sources and exchanges are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub operators_total: usize,
    pub operators_compiled: usize,
    /// Those that the project runs in its own way without compiling them: windows and sorts.
    pub operators_native: usize,
    pub declined: Vec<Declined>,
    /// The expressions that DataFusion evaluates for compiled operators.
    pub evaluated: Vec<String>,
    /// The aggregates that DataFusion's accumulators compute, of rows whose groups compiled operators have found.
    pub accumulated: Vec<String>,
    /// Spent on the plan's programs in the optimizer and in LLVM, whether for this query or an earlier one. Several
    /// pipelines may be of one program.
    pub compile_time: Duration,
}

/// Counts a final plan's operators. After a run, those of pipelines that did not compile are among the declined.
pub fn summary(plan: &Arc<dyn ExecutionPlan>) -> Summary {
    let mut summary = Summary::default();
    summary.add(plan.as_ref(), None);
    let mut codes: Vec<Arc<Code>> = pipelines(plan).iter().flat_map(WeldExec::codes).collect();
    codes.sort_by_key(Arc::as_ptr);
    codes.dedup_by_key(|code| Arc::as_ptr(code));
    summary.compile_time = codes.iter().map(|code| code.compile_time()).sum();
    summary
}

/// The compiled pipelines of a plan, from the top down.
pub fn pipelines(plan: &Arc<dyn ExecutionPlan>) -> Vec<WeldExec> {
    let mut found = Vec::new();
    collect(plan.as_ref(), &mut found);
    found
}

fn collect(plan: &dyn ExecutionPlan, found: &mut Vec<WeldExec>) {
    found.extend(as_weld(plan).cloned());
    plan.children().into_iter().for_each(|child| collect(child.as_ref(), found));
}

/// The node itself, not what it stands for: [`DeclinedExec`] passes for its child.
fn as_weld(plan: &dyn ExecutionPlan) -> Option<&WeldExec> {
    if plan.name() == DeclinedExec::NAME { None } else { plan.downcast_ref() }
}

/// The aggregates of a pipeline that are not compiled, but accumulated in this way.
fn accumulated(exec: &WeldExec, means: Means) -> impl Iterator<Item = &str> {
    let accumulated = match &exec.inner.pipeline.lowered.output {
        Output::Groups { accumulated, .. } => accumulated.as_ref(),
        Output::Rows(_) | Output::Table(_) => None,
    };
    let calls = accumulated.into_iter().flat_map(|accumulated| &accumulated.calls);
    calls.filter(move |call| call.means() == means).map(Accumulating::name)
}

/// The node that evaluates expressions, if this is one: it passes for a projection.
fn evaluated(plan: &dyn ExecutionPlan) -> Option<&EvaluateExec> {
    (plan as &dyn Any).downcast_ref()
}

impl Summary {
    /// `failed` is why the pipeline above did not compile: it does not use the tables that were meant for it.
    fn add(&mut self, plan: &dyn ExecutionPlan, failed: Option<&str>) {
        let mut failed = failed.map(str::to_owned);
        if let Some(exec) = as_weld(plan) {
            let own = exec.compile_error().map(|reason| format!("its pipeline does not compile: {reason}"));
            let few = |_| FEW_ROWS_REASON.to_owned();
            let slower = || exec.was_slower().then(|| SLOWER_REASON.to_owned());
            failed =
                own.or_else(|| exec.few_rows().map(few)).or_else(slower).or(failed.filter(|_| exec.builds_table()));
            self.operators_total += exec.fused().len();
            match &failed {
                None => {
                    self.operators_compiled += exec.fused().len();
                    self.accumulated.extend(accumulated(exec, Means::DataFusion).map(str::to_owned));
                }
                Some(reason) => self.declined.extend(
                    exec.fused()
                        .iter()
                        .map(|fused| Declined { operator: fused.operator.clone(), reason: reason.clone() }),
                ),
            }
        } else if let Some(declined) = (plan as &dyn Any).downcast_ref::<DeclinedExec>() {
            self.declined.extend(declined.declined.iter().cloned());
        } else if let Some(evaluated) = evaluated(plan) {
            self.evaluated.extend(evaluated.exprs());
        } else if is_operator(plan) {
            self.operators_total += 1;
            self.operators_native += usize::from(plan.is::<WindowExec>() || plan.is::<KeySortExec>());
        }
        plan.children().into_iter().for_each(|child| self.add(child.as_ref(), failed.as_deref()));
    }
}

/// Whether a plan node works on rows, rather than making or moving them.
pub(crate) fn is_operator(plan: &dyn ExecutionPlan) -> bool {
    !plan.children().is_empty()
        && evaluated(plan).is_none()
        && !plan.is::<RepartitionExec>()
        && !plan.is::<CoalescePartitionsExec>()
        && !plan.is::<SortPreservingMergeExec>()
        && !plan.is::<CooperativeExec>()
        && !plan.is::<VerifyExec>()
        && !plan.is::<ScanExec>()
        && !plan.is::<CommonSubplansExec>()
        && !plan.is::<JoinKeysExec>()
        && !plan.is::<KeyFilterExec>()
        && !plan.is::<CompactViewsExec>()
        && !plan.is::<UnorderedExec>()
        && !plan.is::<WindowGroupLimitExec>()
}

/// How a `WeldExec` shows itself.
pub(crate) fn display(exec: &WeldExec, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let pipeline = &exec.inner.pipeline;
    let result = match pipeline.lowered.output {
        Output::Rows(_) => "rows",
        Output::Groups { .. } => "groups",
        Output::Table(_) => "table",
    };
    let operators: Vec<&str> = pipeline.fused.iter().map(|fused| fused.operator.as_str()).collect();
    let operators = if operators.is_empty() { "input".to_owned() } else { operators.join(" -> ") };
    if matches!(format, DisplayFormatType::TreeRender) {
        return writeln!(f, "{result} of {operators}");
    }
    write!(f, "WeldExec: {result} of {operators}")?;
    if pipeline.partitions.dropped_exchange {
        f.write_str(", without exchange")?;
    }
    if let Some(scan) =
        crate::scan::describe(exec.inner.source().as_ref(), pipeline.scan, &exec.inner.reading.declined_columns)
    {
        write!(f, ", scan={scan}")?;
    }
    let labels =
        [("in sets", Means::Sets), ("in order", Means::Order), ("accumulated by DataFusion", Means::DataFusion)];
    for (label, means) in labels {
        let accumulated: Vec<&str> = accumulated(exec, means).collect();
        if !accumulated.is_empty() {
            write!(f, ", {label}: {}", accumulated.join(", "))?;
        }
    }
    if let Some(fetch) = pipeline.fetch {
        write!(f, ", fetch={fetch}")?;
    }
    let interned: Vec<String> = match &pipeline.lowered.output {
        Output::Table(table) => {
            let schema = exec.inner.replaced.plan.schema();
            table.interned().map(|column| schema.field(column).name().clone()).collect()
        }
        _ => {
            let LoweredPipeline { schema, by_code, .. } = &pipeline.lowered;
            by_code.interned.iter().map(|column| schema.field(*column).name().clone()).collect()
        }
    };
    if !interned.is_empty() {
        write!(f, ", interns=[{}]", interned.join(", "))?;
    }
    if let Some(feeds) = &pipeline.filters.feeds {
        write!(f, ", feeds={}", feeds.filter)?;
    }
    for filter in &pipeline.filters.awaited {
        write!(f, ", {filter}")?;
    }
    if let Some(table) = &pipeline.filters.keys {
        write!(f, ", keys={}", table.keys)?;
    }
    if matches!(format, DisplayFormatType::Verbose) {
        for fused in &pipeline.fused {
            write!(f, "; {}", fused.display())?;
        }
        write!(f, "; weld:\n{}", exec.optimized_program())?;
        for constant in exec.constants() {
            write!(f, "\n# with {constant}")?;
        }
        let loops = exec.loop_plans().unwrap_or_else(|reason| reason);
        write!(f, "\nloops:\n{}", loops.trim_end())?;
    } else {
        let details: Vec<String> = pipeline.fused.iter().map(Fused::display).collect();
        write!(f, "{}{}", if details.is_empty() { "" } else { "; " }, details.join("; "))?;
    }
    Ok(())
}

/// Stands at the top of a plan and says which operators were left to DataFusion, and why. Otherwise it is its child.
#[derive(Debug)]
pub struct DeclinedExec {
    input: Arc<dyn ExecutionPlan>,
    declined: Vec<Declined>,
}

impl DeclinedExec {
    const NAME: &str = "WeldDeclined";

    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, declined: Vec<Declined>) -> DeclinedExec {
        DeclinedExec { input, declined }
    }

    /// The operators that were left to DataFusion, each with the reason.
    pub fn declined(&self) -> &[Declined] {
        &self.declined
    }

    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl DisplayAs for DeclinedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: left to DataFusion: ", Self::NAME)?;
        for (index, declined) in self.declined.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{} ({})", declined.operator, declined.reason)?;
        }
        Ok(())
    }
}

impl ExecutionPlan for DeclinedExec {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.input.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    weld_plans::rows_in_order!();

    weld_plans::no_expressions!();

    weld_plans::one_input!(input, |node, input| DeclinedExec { input, declined: node.declined.clone() });

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
