//! `WeldExec`: one compiled pipeline in a physical plan.
//!
//! Its first child is the streamed input, the others are the build sides of its joins, each a `WeldExec` whose sink is
//! a table. It keeps the operators that it replaced, to fall back on when the pipeline does not compile.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    apply_expression_roots,
};
use tokio::sync::OnceCell;

use crate::code::{Code, CodeCache, Settings};
use crate::lower::pipeline::{Kernel, Output};
use crate::pipeline::{self, Table};
use crate::scan;

/// One compiled pipeline: filters, projections and join probes over a stream, and what becomes of the rows.
#[derive(Clone)]
pub struct WeldExec {
    pub(crate) inner: Arc<Inner>,
}

/// What the pipeline is; shared by its plans when their children are replaced.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) kernel: Kernel,
    /// The operators that it consists of, in the order of execution.
    pub(crate) fused: Vec<Fused>,
    /// Whether a hash exchange below the operators was taken out.
    pub(crate) dropped_exchange: bool,
    /// At most so many rows a partition.
    pub(crate) fetch: Option<usize>,
    /// The dynamic filter that the table feeds.
    pub(crate) feeds: Option<DynamicFilter>,
    /// All expressions of the replaced operators.
    pub(crate) exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Whether a Parquet source is read by the project's own scan.
    pub(crate) scan: bool,
    pub(crate) settings: Settings,
    pub(crate) cache: Arc<CodeCache>,
}

/// An operator inside a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fused {
    /// DataFusion's name of it, such as `FilterExec`.
    pub operator: String,
    /// As DataFusion's EXPLAIN shows it.
    pub display: String,
}

/// The filter that a join hands to the scan of its probe side.
#[derive(Clone, Debug)]
pub(crate) struct DynamicFilter {
    pub(crate) filter: Arc<dyn PhysicalExpr>,
    pub(crate) probe_keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) probe_schema: SchemaRef,
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
    /// The code of this run of the plan, or why there is none.
    pub(crate) code: OnceCell<Result<Arc<Code>, String>>,
    /// The same for the program of a partial aggregate that makes a group of every row.
    pub(crate) ungrouped: OnceCell<Result<Arc<Code>, String>>,
    /// For a build pipeline: its table.
    pub(crate) table: Mutex<Table>,
    /// Columns that the project's scan left to arrow-rs.
    pub(crate) declined_columns: Arc<scan::DeclinedColumns>,
    /// The source's columns that are read as codes, once that is decided.
    coded: OnceCell<Vec<usize>>,
    /// What its partitions share of the files that they read, where it gives rows: who builds a table has its own.
    sharing: scan::Sharing,
    /// What runs instead when there is no code.
    fallback: OnceLock<Arc<dyn ExecutionPlan>>,
}

impl WeldExec {
    pub(crate) fn new(pipeline: Pipeline, children: Vec<Arc<dyn ExecutionPlan>>, replaced: Replaced) -> WeldExec {
        let properties = properties(&pipeline, &children, replaced.plan.properties());
        WeldExec::of(Arc::new(pipeline), children, replaced, properties)
    }

    fn of(
        pipeline: Arc<Pipeline>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        replaced: Replaced,
        properties: Arc<PlanProperties>,
    ) -> WeldExec {
        WeldExec {
            inner: Arc::new(Inner {
                pipeline,
                children,
                replaced,
                properties,
                metrics: ExecutionPlanMetricsSet::new(),
                code: OnceCell::new(),
                ungrouped: OnceCell::new(),
                table: Mutex::default(),
                declined_columns: Arc::default(),
                coded: OnceCell::new(),
                sharing: scan::Sharing::default(),
                fallback: OnceLock::new(),
            }),
        }
    }

    /// The operators that were fused, in the order of execution.
    pub fn fused(&self) -> &[Fused] {
        &self.inner.pipeline.fused
    }

    /// The Weld program before optimisation.
    pub fn program(&self) -> &weld_core::ir::Program {
        &self.inner.pipeline.kernel.program
    }

    /// The Weld program after optimisation.
    pub fn optimized_program(&self) -> weld_core::ir::Program {
        self.inner.pipeline.settings.optimize(self.program())
    }

    /// The native code, compiled now if it was not yet.
    pub fn compiled(&self) -> Result<Arc<weld_codegen::Compiled>, String> {
        let pipeline = &self.inner.pipeline;
        let (code, _) = pipeline.cache.code(&pipeline.kernel.program, &pipeline.settings)?;
        Ok(Arc::clone(&code.compiled))
    }

    /// Spent on this pipeline in the optimizer and in LLVM so far.
    pub fn compile_time(&self) -> std::time::Duration {
        let codes = [&self.inner.code, &self.inner.ungrouped].into_iter().filter_map(OnceCell::get).flatten();
        codes.map(|code| code.compile_time()).sum()
    }

    /// Why this pipeline ran on the operators that it replaced, if it did: its own code or that of a build side failed.
    pub fn compile_error(&self) -> Option<&str> {
        let own = self.inner.code.get().and_then(|code| code.as_ref().err()).map(String::as_str);
        own.or_else(|| self.inner.builds().find_map(WeldExec::compile_error))
    }

    /// Whether its result is the table of a join rather than rows.
    pub fn builds_table(&self) -> bool {
        self.inner.builds_table()
    }
}

impl Inner {
    pub(crate) fn builds_table(&self) -> bool {
        matches!(self.pipeline.kernel.output, Output::Table(_))
    }

    pub(crate) fn source(&self) -> &Arc<dyn ExecutionPlan> {
        &self.children[0]
    }

    /// The rows of a partition of the source.
    pub(crate) fn read(&self, partition: usize, context: &Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.read_from(self.source(), partition, context, &self.sharing)
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
        let request = scan::Request { coded: self.coded(), declined: &self.declined_columns };
        scan::execute(source, partition, context, self.pipeline.scan, sharing, request)
    }

    /// Decides which of the source's columns are read as codes, before the code for them is made: the keys of groups, if
    /// the first file has few values for all of them.
    pub(crate) async fn choose_codes(&self, context: &TaskContext) {
        let choose = || async {
            let keys = &self.pipeline.kernel.keys;
            let source = self.source().as_ref();
            if keys.is_empty() || !self.pipeline.scan || !scan::has_few_values(source, keys, context).await {
                return Vec::new();
            }
            MetricBuilder::new(&self.metrics).counter("keys_by_code", 0).add(keys.len());
            keys.clone()
        };
        self.coded.get_or_init(choose).await;
    }

    /// The columns that are read as codes.
    pub(crate) fn coded(&self) -> &[usize] {
        self.coded.get().map_or(&[], Vec::as_slice)
    }

    /// The build pipelines, in the order of the program's parameters.
    pub(crate) fn builds(&self) -> impl Iterator<Item = &WeldExec> {
        self.children[1..].iter().filter_map(|child| child.downcast_ref::<WeldExec>())
    }

    /// DataFusion's operators over this pipeline's present inputs.
    pub(crate) fn fallback(&self) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(plan) = self.fallback.get() {
            return Ok(Arc::clone(plan));
        }
        let plan = self.restore()?;
        Ok(Arc::clone(self.fallback.get_or_init(|| plan)))
    }

    fn restore(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let mut inputs = Vec::with_capacity(self.children.len());
        for child in &self.children {
            let build = child.downcast_ref::<WeldExec>().filter(|exec| exec.builds_table());
            inputs.push(match build {
                Some(build) => build.inner.restore()?,
                None => Arc::clone(child),
            });
        }
        let replaced = Arc::clone(&self.replaced.plan);
        replaced
            .transform_down(|node| {
                let known = self.replaced.inputs.iter().position(|input| Arc::ptr_eq(input, &node));
                Ok(match known {
                    Some(index) => Transformed::new(Arc::clone(&inputs[index]), true, TreeNodeRecursion::Jump),
                    None => Transformed::no(node),
                })
            })
            .data()
    }
}

/// What holds of the output: what held of the replaced operators', except for the partitioning when an exchange was
/// taken out below.
fn properties(
    pipeline: &Pipeline,
    children: &[Arc<dyn ExecutionPlan>],
    replaced: &Arc<PlanProperties>,
) -> Arc<PlanProperties> {
    let properties = PlanProperties::clone(replaced);
    if matches!(pipeline.kernel.output, Output::Table(_)) {
        let schema = Arc::clone(replaced.eq_properties.schema());
        let properties = properties.with_eq_properties(EquivalenceProperties::new(schema));
        let properties = properties.with_partitioning(Partitioning::UnknownPartitioning(1));
        return Arc::new(properties.with_emission_type(EmissionType::Final));
    }
    let partitions = children[0].output_partitioning().partition_count();
    if pipeline.dropped_exchange || properties.partitioning.partition_count() != partitions {
        return Arc::new(properties.with_partitioning(Partitioning::UnknownPartitioning(partitions)));
    }
    Arc::new(properties)
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

    fn maintains_input_order(&self) -> Vec<bool> {
        let streams = matches!(self.inner.pipeline.kernel.output, Output::Rows(_));
        let mut maintains = vec![false; self.inner.children.len()];
        maintains[0] = streams;
        maintains
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.inner.children.len()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let produced = self.inner.pipeline.feeds.iter().map(|feeds| &feeds.filter);
        apply_expression_roots(self.inner.pipeline.exprs.iter().chain(produced), f)
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.pipeline.feeds.iter().map(|feeds| Arc::clone(&feeds.filter)).collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.inner.children.len() {
            return internal_err!("WeldExec has {} children", self.inner.children.len());
        }
        if children[1..].iter().any(|child| !child.is::<WeldExec>()) {
            return internal_err!("the build side of a WeldExec is a WeldExec");
        }
        let inner = &self.inner;
        let properties = match options.children_properties {
            ChildrenPropertiesMode::Keep => Arc::clone(&inner.properties),
            ChildrenPropertiesMode::Recompute => properties(&inner.pipeline, &children, &inner.properties),
        };
        Ok(Arc::new(WeldExec::of(Arc::clone(&inner.pipeline), children, inner.replaced.clone(), properties)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.builds_table() {
            return internal_err!("a WeldExec that builds a table gives no rows");
        }
        Ok(pipeline::stream(Arc::clone(&self.inner), partition, context))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.inner.metrics.clone_inner())
    }
}
