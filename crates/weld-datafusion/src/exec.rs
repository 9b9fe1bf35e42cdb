//! `WeldExec`: one compiled pipeline in a physical plan.
//!
//! Its first child is the streamed input, the others are the build sides of its joins, each a `WeldExec` whose sink is
//! a table. It keeps the operators that it replaced: they run when the pipeline does not compile or is refused memory,
//! they say what holds of the output when the children change, and they give the rows of a node that builds a table.

use std::any::Any;
use std::fmt;
use std::iter::{once, repeat};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, replace_children_if_necessary, reset_plan_states,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements, Partitioning,
    PlanProperties, apply_expression_roots, displayable,
};
use tokio::sync::OnceCell;
use weld_codegen::CodeFolder;
use weld_plans::{
    CompactViewsExec, KeyFilter, Ranges, is_same_partitioning, with_compact_views, with_key_sets,
    without_common_subplans, without_key_filters,
};
use weld_sort::{KeySortExec, WindowGroupLimitExec};
use weld_window::WindowExec;

use crate::code_cache::{Code, CodeCache, Settings};
use crate::deferred_gate::{Tried, counts_items};
use crate::dynamic_filter::TableKeys;
use crate::explain::DeclinedExec;
use crate::gate::{self, Gate};
use crate::lower::Arg;
use crate::lower::pipeline::{ByCode, LoweredPipeline, Output};
use crate::nulls;
use crate::pipeline::{self, Handover, Inputs, Table};
use crate::rule::foreign::EvaluateExec;
use crate::scan::{self, is_dictionary_of_text};
use crate::stoppable::{StoppableExec, stoppable};

/// One compiled pipeline: filters, projections and join probes over a stream, and what becomes of the rows.
#[derive(Clone)]
pub struct WeldExec {
    pub(crate) inner: Arc<Inner>,
}

/// What the pipeline is; shared by its plans when their children are replaced.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) lowered: LoweredPipeline,
    /// The operators that it consists of, in the order of execution.
    pub(crate) fused: Vec<Fused>,
    /// All expressions of the replaced operators.
    pub(crate) exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// At most so many rows a partition.
    pub(crate) fetch: Option<usize>,
    pub(crate) partitions: Partitions,
    pub(crate) filters: Filters,
    /// Whether the source must give all rows, whatever is known of those that joins will drop: see [`scan::Request`].
    pub(crate) keeps_rows: bool,
    /// Whether a Parquet source is read by the project's own scan.
    pub(crate) scan: bool,
    pub(crate) compilation: Compilation,
}

/// How a pipeline's rows are divided into partitions.
#[derive(Debug)]
pub(crate) struct Partitions {
    /// How the streamed input has to be partitioned, for the operators or for those that they replaced.
    pub(crate) distribution: Distribution,
    /// Whether a hash exchange below the operators was taken out.
    pub(crate) dropped_exchange: bool,
    /// Whether rows come out in other partitions than those of the replaced operators would.
    pub(crate) moves_rows: bool,
    /// Whether any partition may process any row, as far as the operators and those above are concerned: see
    /// `pipeline::stealing`.
    pub(crate) steals: bool,
    /// For a build pipeline: whether each of its partitions makes a table for the probe side's partition of the same
    /// number.
    pub(crate) per_partition: bool,
}

/// What joins tell others of their keys.
#[derive(Debug)]
pub(crate) struct Filters {
    /// The dynamic filter that the table feeds.
    pub(crate) feeds: Option<DynamicFilter>,
    /// Those who drop rows by the keys of the table.
    pub(crate) keys: Option<TableKeys>,
    /// Filters that the source drops rows by, once their keys are there.
    pub(crate) awaited: Vec<KeyFilter>,
}

/// How code is made.
#[derive(Debug)]
pub(crate) struct Compilation {
    pub(crate) settings: Settings,
    pub(crate) cache: Arc<CodeCache>,
    /// Where code is kept on disk, if it is.
    pub(crate) folder: Option<Arc<CodeFolder>>,
    /// Over fewer rows there is none; see `gate`.
    pub(crate) rows_min: usize,
    /// The number of the plan that the pipeline was made for.
    pub(crate) plan: u64,
    /// What the session has read of tables.
    pub(crate) ranges: Arc<Ranges>,
}

impl Compilation {
    /// The code of a program, and whether it was made just now.
    pub(crate) fn code(&self, lowered: &LoweredPipeline) -> Result<(Arc<Code>, bool), String> {
        self.cache.code(lowered, &self.settings, self.plan, self.folder.as_ref())
    }
}

/// An operator inside a pipeline.
#[derive(Clone, Debug)]
pub struct Fused {
    /// DataFusion's name of it, such as `FilterExec`.
    pub operator: String,
    pub(crate) plan: Arc<dyn ExecutionPlan>,
}

impl Fused {
    pub(crate) fn new(plan: &Arc<dyn ExecutionPlan>) -> Fused {
        Fused { operator: plan.name().to_owned(), plan: Arc::clone(plan) }
    }

    /// As DataFusion's EXPLAIN shows it.
    pub fn display(&self) -> String {
        displayable(self.plan.as_ref()).one_line().to_string().trim_end().to_owned()
    }
}

/// The filter that a join hands to the scan of its probe side.
#[derive(Clone, Debug)]
pub(crate) struct DynamicFilter {
    pub(crate) filter: Arc<dyn PhysicalExpr>,
    pub(crate) probe_keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) probe_schema: SchemaRef,
    /// Whether the join has to see rows with null keys, which the filter would drop.
    pub(crate) passes_nulls: bool,
}

/// The operators that a pipeline replaced, as they were.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// Their inputs, in the order of the pipeline's children.
    pub(crate) inputs: Vec<Arc<dyn ExecutionPlan>>,
}

pub(crate) struct Inner {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) children: Vec<Arc<dyn ExecutionPlan>>,
    pub(crate) replaced: Replaced,
    pub(crate) properties: Arc<PlanProperties>,
    pub(crate) metrics: ExecutionPlanMetricsSet,
    decided: Decided,
    pub(crate) codes: Codes,
    pub(crate) tried: Tried,
    /// For a build pipeline: its table.
    pub(crate) table: Mutex<Table>,
    pub(crate) reading: Reading,
    /// What runs instead when there is no code.
    fallback: OnceLock<Arc<dyn ExecutionPlan>>,
    /// What runs instead once the pool has refused memory.
    pub(crate) handover: Handover,
    /// Whether this is a copy for another run of the plan. The consumers of its dynamic filter are shared with the
    /// other runs, so it must not be fed, as DataFusion's joins do not feed theirs.
    pub(crate) reset: bool,
}

/// What is found out once for a run of the plan, when it is first asked for.
#[derive(Default)]
struct Decided {
    /// Whether it is compiled.
    gate: OnceLock<Gate>,
    rows_expected: OnceLock<Option<u64>>,
    /// The source's columns that are read as codes.
    coded: OnceCell<Vec<usize>>,
    nulls: OnceLock<Vec<bool>>,
    has_nulls: OnceLock<bool>,
}

/// The code of a run of the plan, or why there is none.
#[derive(Default)]
pub(crate) struct Codes {
    pub(crate) code: OnceCell<Result<Arc<Code>, String>>,
    /// Of the program of a partial aggregate that makes a group of every row.
    pub(crate) ungrouped: OnceCell<Result<Arc<Code>, String>>,
    /// How many rows it has seen.
    rows_seen: AtomicU64,
}

/// What partitions share as they read the source.
#[derive(Default)]
pub(crate) struct Reading {
    /// Columns that the project's scan left to arrow-rs.
    pub(crate) declined_columns: Arc<scan::DeclinedColumns>,
    /// The files, where the pipeline gives rows: who builds a table has its own.
    sharing: scan::Sharing,
    /// The rows, where partitions may take batches from each other.
    pub(crate) inputs: Arc<Inputs>,
}

impl WeldExec {
    pub(crate) fn new(
        pipeline: Pipeline,
        children: Vec<Arc<dyn ExecutionPlan>>,
        replaced: Replaced,
    ) -> Result<WeldExec> {
        let is_same = are_same_properties(children[0].properties(), replaced.inputs[0].properties());
        let properties = if is_same && !pipeline.partitions.moves_rows {
            Arc::clone(replaced.plan.properties())
        } else {
            properties(&pipeline, &children, &replaced)?
        };
        Ok(WeldExec::of(Arc::new(pipeline), children, replaced, properties, false))
    }

    fn of(
        pipeline: Arc<Pipeline>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        replaced: Replaced,
        properties: Arc<PlanProperties>,
        reset: bool,
    ) -> WeldExec {
        WeldExec {
            inner: Arc::new(Inner {
                pipeline,
                children,
                replaced,
                properties,
                metrics: ExecutionPlanMetricsSet::new(),
                decided: Decided::default(),
                codes: Codes::default(),
                tried: Tried::default(),
                table: Mutex::default(),
                reading: Reading::default(),
                fallback: OnceLock::new(),
                handover: Handover::default(),
                reset,
            }),
        }
    }

    /// The operators that were fused, in the order of execution.
    pub fn fused(&self) -> &[Fused] {
        &self.inner.pipeline.fused
    }

    /// The Weld program before optimisation. Constants of the query are its last parameters.
    pub fn program(&self) -> &weld_core::ir::Program {
        &self.inner.pipeline.lowered.program
    }

    /// The Weld program after optimisation.
    pub fn optimized_program(&self) -> weld_core::ir::Program {
        self.inner.pipeline.compilation.settings.optimize(self.program())
    }

    /// How the loops of the optimised program run over the layouts that the input is expected to have: see
    /// [`weld_codegen::loop_plans`]. Which columns come as dictionary codes is known once the pipeline has begun to
    /// run.
    pub fn loop_plans(&self) -> Result<String, String> {
        let layouts = crate::pipeline::layouts(&self.inner, &self.inner.pipeline.lowered);
        let disabled = self.inner.pipeline.compilation.settings.disabled_paths();
        let options = weld_codegen::Options { disabled, ..weld_codegen::Options::default() };
        weld_codegen::loop_plans(&self.optimized_program(), &options, layouts.as_deref())
            .map_err(|error| error.to_string())
    }

    /// What the program's last parameters stand for.
    pub fn constants(&self) -> Vec<&weld_core::opt::Constant> {
        let args = self.inner.pipeline.lowered.args.iter();
        args.filter_map(|arg| if let Arg::Constant(constant) = arg { Some(constant) } else { None }).collect()
    }

    /// The native code, compiled now if it was not yet.
    pub fn compiled(&self) -> Result<Arc<weld_codegen::Compiled>, String> {
        let pipeline = &self.inner.pipeline;
        let (code, _) = pipeline.compilation.code(&pipeline.lowered)?;
        Ok(Arc::clone(&code.compiled))
    }

    /// Spent on this pipeline in the optimizer and in LLVM so far.
    pub fn compile_time(&self) -> std::time::Duration {
        self.codes().iter().map(|code| code.compile_time()).sum()
    }

    pub(crate) fn codes(&self) -> Vec<Arc<Code>> {
        [&self.inner.codes.code, &self.inner.codes.ungrouped]
            .into_iter()
            .filter_map(OnceCell::get)
            .flatten()
            .cloned()
            .collect()
    }

    /// Why this pipeline ran on the operators that it replaced, if it did: its own code or that of a build side failed.
    pub fn compile_error(&self) -> Option<&str> {
        let own = self.inner.codes.code.get().and_then(|code| code.as_ref().err()).map(String::as_str);
        own.or_else(|| self.inner.builds().find_map(WeldExec::compile_error))
    }

    /// For how few rows this pipeline ran on the operators that it replaced, if it did: compiling would not have paid.
    pub fn few_rows(&self) -> Option<usize> {
        self.inner.few_rows()
    }

    /// Whether this pipeline ran on the operators that it replaced because its code had been slower.
    pub fn was_slower(&self) -> bool {
        matches!(self.inner.decided.gate.get(), Some(Gate::Slower))
    }

    /// Whether its result is the table of a join rather than rows.
    pub fn builds_table(&self) -> bool {
        self.inner.builds_table()
    }
}

/// The plan with DataFusion's operators in the place of those of this crate: for engines that send plans elsewhere,
/// such as with `datafusion-proto`, and optimise them there. The plan given is not to be executed any more. An
/// `UnorderedExec` stays: without it DataFusion takes a key for constant that is none.
pub fn uncompiled(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let restored = Arc::clone(plan).transform_down(|node| {
        let mut found = without_notes(&node);
        if let Some(stoppable) = found.downcast_ref::<StoppableExec>() {
            found = Arc::clone(stoppable.input());
        }
        if let Some(compact) = found.downcast_ref::<CompactViewsExec>() {
            found = Arc::clone(compact.input());
        }
        while let Some(exec) = found.downcast_ref::<WeldExec>() {
            found = without_notes(&exec.inner.restore()?);
        }
        if let Some(evaluate) = (found.as_ref() as &dyn Any).downcast_ref::<EvaluateExec>() {
            found = Arc::clone(evaluate.projection());
        }
        if let Some(window) = found.downcast_ref::<WindowExec>() {
            found = Arc::clone(window.stock());
        }
        if let Some(sort) = found.downcast_ref::<KeySortExec>() {
            found = Arc::clone(sort.stock());
        }
        if let Some(limit) = found.downcast_ref::<WindowGroupLimitExec>() {
            found = Arc::clone(limit.input());
        }
        if let Some(scan) = found.downcast_ref::<scan::ScanExec>() {
            found = Arc::clone(scan.source());
        }
        Ok(if Arc::ptr_eq(&found, &node) { Transformed::no(node) } else { Transformed::yes(found) })
    });
    without_key_filters(without_common_subplans(restored.data()?)?)
}

/// The plan below the notes of what was declined.
pub(crate) fn without_notes(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match (plan.as_ref() as &dyn Any).downcast_ref::<DeclinedExec>() {
        Some(declined) => Arc::clone(declined.input()),
        None => Arc::clone(plan),
    }
}

impl Inner {
    pub(crate) fn builds_table(&self) -> bool {
        matches!(self.pipeline.lowered.output, Output::Table(_))
    }

    /// How many rows of the source are still to come after these, where that is known: whether better code repays its
    /// making depends on it.
    pub(crate) fn rows_left(&self, rows: usize) -> Option<u64> {
        let is_known = |rows: &gate::Rows| rows.is_exact && !rows.is_filtered;
        let count = || gate::rows_of(self.source()).filter(is_known).map(|rows| rows.count as u64);
        let seen = self.codes.rows_seen.fetch_add(rows as u64, Ordering::Relaxed) + rows as u64;
        Some(self.decided.rows_expected.get_or_init(count).as_ref()?.saturating_sub(seen))
    }

    /// Code takes the rows after these.
    pub(crate) fn go_on_after(&self, rows: usize) {
        self.codes.rows_seen.fetch_add(rows as u64, Ordering::Relaxed);
        self.tried.goes_on.store(true, Ordering::Relaxed);
    }

    /// Whether this pipeline is compiled in this run.
    pub(crate) fn gate(&self) -> Gate {
        *self.decided.gate.get_or_init(|| gate::decide(self))
    }

    /// Notes what the operators took that ran because compiling would not have paid.
    pub(crate) fn note_spent(&self) {
        let spent = match (self.decided.gate.get(), self.fallback.get()) {
            (Some(Gate::Replaced { .. }), Some(plan)) => gate::spent(plan),
            (Some(Gate::Try(_)), _) => self.tried.spent(),
            _ => return,
        };
        let Pipeline { lowered, compilation: Compilation { cache, settings, plan, .. }, .. } = &*self.pipeline;
        cache.note_spent(lowered, settings, *plan, spent);
        self.note_operators();
    }

    /// Notes what a row took the operators that began, if that was measured, and rows are what code counts.
    pub(crate) fn note_operators(&self) {
        let Pipeline { lowered, compilation: Compilation { cache, settings, .. }, .. } = &*self.pipeline;
        if let Some(of_row) = self.tried.of_row().filter(|_| !counts_items(&lowered.output)) {
            cache.note_operators(lowered, settings, of_row);
        }
    }

    fn few_rows(&self) -> Option<usize> {
        match self.decided.gate.get()? {
            Gate::Replaced { rows, .. } => Some(*rows),
            Gate::Wait { .. } | Gate::Try(_) => self
                .metrics
                .clone_inner()
                .sum_by_name(gate::FEW_ROWS)
                .filter(|_| self.codes.code.get().is_none() || self.is_replaced_in_trial())
                .map(|count| count.as_usize()),
            Gate::Compile | Gate::Slower => None,
        }
    }

    /// Whether the operators were done before there was code.
    fn is_replaced_in_trial(&self) -> bool {
        matches!(self.decided.gate.get(), Some(Gate::Try(_))) && !self.tried.goes_on.load(Ordering::Relaxed)
    }

    pub(crate) fn source(&self) -> &Arc<dyn ExecutionPlan> {
        &self.children[0]
    }

    /// The rows of a partition of the source.
    pub(crate) fn read(&self, partition: usize, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.read_from(self.source(), partition, context, &self.reading.sharing)
    }

    /// The same of `source`, which is the source or made of it, where the partitions have something else to share.
    pub(crate) fn read_from(
        &self,
        source: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: &Arc<TaskContext>,
        sharing: &scan::Sharing,
    ) -> Result<SendableRecordBatchStream> {
        let context = Arc::clone(context);
        let keeps_rows = self.pipeline.keeps_rows;
        let request =
            scan::Request { coded: &self.read_as_codes(), declined: &self.reading.declined_columns, keeps_rows };
        let stream = scan::execute(source, partition, context, self.pipeline.scan, sharing, request)?;
        Ok(nulls::checked(stream, &self.pipeline.lowered.schema))
    }

    /// Whether none of the source's columns can be read as codes.
    pub(crate) fn reads_no_codes(&self) -> bool {
        self.pipeline.lowered.by_code.is_empty() || !self.pipeline.scan
    }

    /// Decides which of the source's columns are read as codes, before the code for them is made: the keys of groups,
    /// if the first file has few values for all of them, and each text that is looked for alone if it has few of that.
    pub(crate) async fn choose_codes(&self, context: &TaskContext) {
        let choose = || async {
            if self.reads_no_codes() {
                return Vec::new();
            }
            let ByCode { groups, alone, interned } = &self.pipeline.lowered.by_code;
            let keys: Vec<&[usize]> = once(&groups[..]).chain(alone.chunks(1)).collect();
            let few = scan::have_few_values(self.source().as_ref(), &keys, context).await;
            let names = once("keys_by_code").chain(repeat("texts_by_code"));
            // Without codes a text would be interned for each row.
            let mut coded = interned.clone();
            for ((keys, _), name) in keys.iter().zip(few).zip(names).filter(|((_, few), _)| *few) {
                MetricBuilder::new(&self.metrics).counter(name, 0).add(keys.len());
                coded.extend_from_slice(keys);
            }
            coded.sort_unstable();
            coded.dedup();
            coded
        };
        self.decided.coded.get_or_init(choose).await;
    }

    /// The columns that are read as codes, since something is found by them.
    pub(crate) fn coded(&self) -> &[usize] {
        self.decided.coded.get().map_or(&[], Vec::as_slice)
    }

    /// The columns that are read as codes of views: those by which something is found, and the dictionaries of text
    /// whose values are looked at.
    pub(crate) fn read_as_codes(&self) -> Vec<usize> {
        let LoweredPipeline { schema, inputs, moved, .. } = &self.pipeline.lowered;
        let is_looked_at = |column: &&usize| {
            is_dictionary_of_text(schema.field(**column).data_type()) && !moved.contains(&Some(**column))
        };
        let mut columns = self.coded().to_vec();
        columns.extend(inputs.iter().filter(is_looked_at).filter(|column| !self.coded().contains(column)));
        columns
    }

    /// Which of the source's columns are expected to have nulls in about every batch, for each of the first columns: as
    /// its statistics tell; where they tell nothing, all of them if tables below have such columns.
    pub(crate) fn nulls(&self) -> &[bool] {
        self.decided.nulls.get_or_init(|| {
            let columns = self.source().schema().fields().len();
            nulls::expected(self.source()).unwrap_or_else(|| vec![nulls::may_come(self.source()); columns])
        })
    }

    /// Whether tables that the pipeline reads, directly or not, have columns with nulls in about every batch.
    pub(crate) fn has_nulls(&self) -> bool {
        *self.decided.has_nulls.get_or_init(|| self.children.iter().any(nulls::may_come))
    }

    /// The build pipelines, in the order of the program's parameters.
    pub(crate) fn builds(&self) -> impl Iterator<Item = &WeldExec> {
        self.children[1..].iter().filter_map(|child| child.downcast_ref::<WeldExec>())
    }

    /// The dynamic filter that the table feeds in this run.
    pub(crate) fn feeds(&self) -> Option<&DynamicFilter> {
        self.pipeline.filters.feeds.as_ref().filter(|_| !self.reset)
    }

    /// DataFusion's operators over this pipeline's present inputs.
    pub(crate) fn fallback(&self) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(plan) = self.fallback.get() {
            return Ok(Arc::clone(plan));
        }
        let plan = if self.reset { self.restart()? } else { restore(&self.children, &self.replaced, with_key_sets)? };
        let plan = if self.pipeline.scan { scan::with_scans(plan)? } else { plan };
        let plan = stoppable(with_compact_views(plan)?)?;
        Ok(Arc::clone(self.fallback.get_or_init(|| plan)))
    }

    /// The same as if nothing had been executed yet, the inputs included.
    pub(crate) fn restart(&self) -> Result<Arc<dyn ExecutionPlan>> {
        stoppable(with_compact_views(reset_plan_states(self.restore()?)?)?)
    }

    /// DataFusion's operators over another source and the present build sides.
    pub(crate) fn restore_over(&self, source: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let children: Vec<_> = std::iter::once(source).chain(self.children[1..].iter().cloned()).collect();
        stoppable(with_compact_views(restore(&children, &self.replaced, unchanged)?)?)
    }

    fn restore(&self) -> Result<Arc<dyn ExecutionPlan>> {
        restore(&self.children, &self.replaced, unchanged)
    }
}

/// Another operator in the place of one of the replaced, if there is one.
type Change = fn(&Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>>;

fn unchanged(_: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    Ok(None)
}

/// The replaced operators over `children`, each with its `change`; the operators of the children's tables are put back
/// too.
fn restore(children: &[Arc<dyn ExecutionPlan>], replaced: &Replaced, change: Change) -> Result<Arc<dyn ExecutionPlan>> {
    let mut inputs = Vec::with_capacity(children.len());
    for child in children {
        let build = child.downcast_ref::<WeldExec>().filter(|exec| exec.builds_table());
        inputs.push(match build {
            Some(build) => restore(&build.inner.children, &build.inner.replaced, change)?,
            None => Arc::clone(child),
        });
    }
    put_over(&inputs, replaced, change)
}

/// The replaced operators over these inputs, each with its `change`.
fn put_over(inputs: &[Arc<dyn ExecutionPlan>], replaced: &Replaced, change: Change) -> Result<Arc<dyn ExecutionPlan>> {
    let position = |plans: &[Arc<dyn ExecutionPlan>], node: &Arc<dyn ExecutionPlan>| {
        plans.iter().position(|plan| Arc::ptr_eq(plan, node))
    };
    let plan = Arc::clone(&replaced.plan);
    plan.transform_down_up(
        |node| {
            Ok(match position(&replaced.inputs, &node) {
                Some(index) => Transformed::new(Arc::clone(&inputs[index]), true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        },
        |node| {
            let changed = if position(inputs, &node).is_some() { None } else { change(&node)? };
            Ok(changed.map_or_else(|| Transformed::no(node), Transformed::yes))
        },
    )
    .data()
}

/// Whether the same holds of two plans' output.
pub(crate) fn are_same_properties(a: &Arc<PlanProperties>, b: &Arc<PlanProperties>) -> bool {
    let (known, other) = (&a.eq_properties, &b.eq_properties);
    Arc::ptr_eq(a, b)
        || a.emission_type == b.emission_type
            && a.boundedness == b.boundedness
            && a.evaluation_type == b.evaluation_type
            && a.scheduling_type == b.scheduling_type
            && is_same_partitioning(&a.partitioning, &b.partitioning)
            && a.output_ordering() == b.output_ordering()
            && known.schema() == other.schema()
            && known.constraints() == other.constraints()
            && known.oeq_class() == other.oeq_class()
            && known.eq_group().iter().eq(other.eq_group().iter())
}

/// The operator over other inputs; what holds of its output is found anew only where something else holds of these.
pub(crate) fn with_inputs(
    plan: Arc<dyn ExecutionPlan>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let known = plan.children();
    if inputs.iter().zip(&known).all(|(input, known)| Arc::ptr_eq(input, known)) {
        return Ok(plan);
    }
    let mut both = inputs.iter().zip(&known);
    match both.all(|(input, known)| are_same_properties(input.properties(), known.properties())) {
        true => plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep)),
        false => replace_children_if_necessary(plan, inputs),
    }
}

/// What holds of the output: what would hold of the replaced operators' over these children, except for the
/// partitioning where rows come out in other partitions.
fn properties(
    pipeline: &Pipeline,
    children: &[Arc<dyn ExecutionPlan>],
    replaced: &Replaced,
) -> Result<Arc<PlanProperties>> {
    // What builds a table promises what the operators do that it replaces.
    let restored = put_over(children, replaced, unchanged)?;
    let properties = restored.properties();
    let partitions = children[0].output_partitioning().partition_count();
    if pipeline.partitions.moves_rows && !matches!(pipeline.lowered.output, Output::Table(_)) {
        let properties = PlanProperties::clone(properties);
        return Ok(Arc::new(properties.with_partitioning(Partitioning::UnknownPartitioning(partitions))));
    }
    Ok(Arc::clone(properties))
}

impl fmt::Debug for WeldExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeldExec")
            .field("fused", &self.inner.pipeline.fused)
            .field("children", &self.inner.children)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for WeldExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::explain::display(self, t, f)
    }
}

impl ExecutionPlan for WeldExec {
    fn name(&self) -> &str {
        "WeldExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.inner.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inner.children.iter().collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let mut required = vec![Distribution::UnspecifiedDistribution; self.inner.children.len()];
        required[0] = self.inner.pipeline.partitions.distribution.clone();
        InputDistributionRequirements::new(required)
    }

    /// Optimizer rules take it that columns stay where they are in a node that maintains the order: filters alone say
    /// so.
    fn maintains_input_order(&self) -> Vec<bool> {
        let filters = self.inner.pipeline.fused.iter().all(|fused| fused.operator == "FilterExec");
        let streams = matches!(self.inner.pipeline.lowered.output, Output::Rows(_));
        let mut maintains = vec![false; self.inner.children.len()];
        maintains[0] = filters && streams && self.schema() == self.inner.source().schema();
        maintains
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inner.children.len()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let produced = self.inner.pipeline.filters.feeds.iter().map(|feeds| &feeds.filter);
        apply_expression_roots(self.inner.pipeline.exprs.iter().chain(produced), f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.pipeline.filters.feeds.iter().map(|feeds| Arc::clone(&feeds.filter)).collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.inner.children.len() {
            return internal_err!("WeldExec has {} children", self.inner.children.len());
        }
        let inner = &self.inner;
        if children[1..].iter().any(|child| !child.downcast_ref::<WeldExec>().is_some_and(WeldExec::builds_table)) {
            // Somebody has put a node above a table: rows come from there.
            return restore(&children, &inner.replaced, unchanged);
        }
        let properties = match options.children_properties {
            ChildrenPropertiesMode::Keep => Arc::clone(&inner.properties),
            ChildrenPropertiesMode::Recompute => properties(&inner.pipeline, &children, &inner.replaced)?,
        };
        let (pipeline, replaced) = (Arc::clone(&inner.pipeline), inner.replaced.clone());
        Ok(Arc::new(WeldExec::of(pipeline, children, replaced, properties, inner.reset)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let Inner { pipeline, children, replaced, properties, .. } = &*self.inner;
        let (pipeline, properties) = (Arc::clone(pipeline), Arc::clone(properties));
        Ok(Arc::new(WeldExec::of(pipeline, children.clone(), replaced.clone(), properties, true)))
    }

    weld_plans::new_children!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.builds_table() {
            // The pipeline above takes the table; whoever asks for rows gets those that the table would be made of.
            return self.inner.fallback()?.execute(partition, context);
        }
        Ok(pipeline::stream(Arc::clone(&self.inner), partition, context))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.inner.metrics.clone_inner())
    }
}
