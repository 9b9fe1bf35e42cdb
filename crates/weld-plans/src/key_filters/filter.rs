//! `KeyFilterExec` drops rows whose columns are among no keys of the joins that they are on their way to.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{BatchCoalescer, and};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots};
use futures::{StreamExt, stream};

use super::keys::JoinKeys;
use crate::key_set::KeySet;

/// A filter that passes more of the rows than this is paused.
pub(crate) const PASSED_MAX: f64 = 0.5;

/// After so many rows it is known how many pass.
const ROWS_OBSERVED: usize = 1 << 15;

/// `column IN keys`.
#[derive(Clone, Debug)]
pub struct KeyFilter {
    pub(super) column: Arc<dyn PhysicalExpr>,
    pub(super) keys: Arc<JoinKeys>,
    /// Which of the keys.
    pub(super) part: usize,
    /// Whether null is a key like others.
    pub(super) passes_nulls: bool,
    /// How many values the column may have: among more than half of them, nothing is dropped.
    pub(super) domain: f64,
    /// Whether some rows of a key may be dropped and others passed. Groups and window partitions on the way to the join
    /// must be whole, also those that the join will drop: what is computed of them may fail.
    pub(super) may_pause: bool,
    /// Whether the source below has the filter among its predicates: who reads the source in a way of his own that
    /// drops rows by them need not do so again.
    pub(super) is_in_source: bool,
    /// What the first partition has found, for all of them and for the other branches of a union.
    pub(super) decision: Arc<OnceLock<Option<Arc<KeySet>>>>,
}

impl KeyFilter {
    /// The keys of the build side, which the filter waits for.
    pub fn keys(&self) -> &Arc<JoinKeys> {
        &self.keys
    }

    /// Whether the source below has the filter, too.
    pub fn is_in_source(&self) -> bool {
        self.is_in_source
    }

    /// Waits for the keys where they are sure to come.
    pub async fn settled(&self) {
        self.keys.settled().await;
    }

    /// The set by which this execution drops rows, if it does.
    async fn set(&self) -> Option<Arc<KeySet>> {
        self.keys.settled().await;
        if !self.keys.is_wanted() {
            return None;
        }
        let set = || self.keys.sets()?.get(self.part)?.clone().filter(|set| self.pays(set));
        self.decision.get_or_init(set).clone()
    }

    fn pays(&self, set: &KeySet) -> bool {
        set.keys() as f64 <= PASSED_MAX * self.domain
    }
}

impl fmt::Display for KeyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyFilter { column, keys, part, .. } = self;
        write!(f, "{column} IN #{}.{}", keys.number(), keys.exprs()[*part])?;
        match self.decision.get() {
            Some(Some(set)) => write!(f, " ({set})"),
            Some(None) => f.write_str(" (not used)"),
            None => Ok(()),
        }
    }
}

/// Drops rows of its input that no join above will match.
#[derive(Debug)]
pub struct KeyFilterExec {
    input: Arc<dyn ExecutionPlan>,
    filters: Vec<KeyFilter>,
    metrics: ExecutionPlanMetricsSet,
}

impl KeyFilterExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>, filters: Vec<KeyFilter>) -> KeyFilterExec {
        KeyFilterExec { input, filters, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// `outer` and `inner`, its new input, in one node, if both are filters.
    pub(super) fn merged(outer: &Arc<dyn ExecutionPlan>, inner: &Arc<dyn ExecutionPlan>) -> Option<KeyFilterExec> {
        let (outer, inner) = (outer.downcast_ref::<KeyFilterExec>()?, inner.downcast_ref::<KeyFilterExec>()?);
        let filters = outer.filters.iter().chain(&inner.filters).cloned().collect();
        Some(KeyFilterExec::new(Arc::clone(&inner.input), filters))
    }

    /// The rows that it filters.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// The filters, all of which a row has to pass.
    pub fn filters(&self) -> &[KeyFilter] {
        &self.filters
    }

    /// Drops rows of `input`, which are those of a partition of its own input, with integers of any width in the
    /// columns that the filters look at.
    pub fn filtered(
        &self,
        input: SendableRecordBatchStream,
        partition: usize,
        context: &TaskContext,
    ) -> SendableRecordBatchStream {
        let schema = input.schema();
        let batch_rows = context.session_config().batch_size();
        // What is as good as full is not copied.
        let coalescer =
            BatchCoalescer::new(Arc::clone(&schema), batch_rows).with_biggest_coalesce_batch_size(Some(batch_rows / 2));
        let rows = Rows {
            input: Some(input),
            coalescer,
            filters: self.filters.clone(),
            active: None,
            input_rows: MetricBuilder::new(&self.metrics).counter("input_rows", partition),
            paused: MetricBuilder::new(&self.metrics).counter("paused", partition),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        };
        let rows =
            stream::try_unfold(rows, |mut rows| async move { Ok(rows.next().await?.map(|batch| (batch, rows))) });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

impl DisplayAs for KeyFilterExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filters: Vec<String> = self.filters.iter().map(ToString::to_string).collect();
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "{}", filters.join(" AND ")),
            _ => write!(f, "KeyFilterExec: {}", filters.join(" AND ")),
        }
    }
}

impl ExecutionPlan for KeyFilterExec {
    fn name(&self) -> &str {
        "KeyFilterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    crate::rows_in_order!();

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.filters.iter().map(|filter| &filter.column), f)
    }

    crate::one_input!(input, |node, input| KeyFilterExec::new(input, node.filters.clone()));

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let unused = |filter: &KeyFilter| KeyFilter {
            keys: Arc::new(filter.keys.unused()),
            decision: Arc::default(),
            ..filter.clone()
        };
        let filters = self.filters.iter().map(unused).collect();
        Ok(Arc::new(KeyFilterExec::new(Arc::clone(&self.input), filters)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        Ok(self.filtered(input, partition, &context))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A filter in use.
struct Active {
    column: usize,
    set: Arc<KeySet>,
    passes_nulls: bool,
    may_pause: bool,
    seen: usize,
    passed: usize,
}

/// One partition.
struct Rows {
    /// Absent once it has ended.
    input: Option<SendableRecordBatchStream>,
    coalescer: BatchCoalescer,
    filters: Vec<KeyFilter>,
    /// Absent before the first row.
    active: Option<Vec<Active>>,
    input_rows: Count,
    paused: Count,
    baseline: BaselineMetrics,
}

impl Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let mut active = match self.active.take() {
            Some(active) => active,
            None => start(&self.filters).await?,
        };
        let batch = self.next_of(&mut active).await;
        self.active = Some(active);
        Ok(batch?.map(|batch| batch.record_output(&self.baseline)))
    }

    async fn next_of(&mut self, active: &mut Vec<Active>) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.coalescer.next_completed_batch() {
                return Ok(Some(batch));
            }
            let Some(input) = &mut self.input else { return Ok(None) };
            let Some(batch) = input.next().await.transpose()? else {
                self.input = None;
                self.coalescer.finish_buffered_batch()?;
                continue;
            };
            self.input_rows.add(batch.num_rows());
            if active.is_empty() && self.coalescer.is_empty() {
                return Ok(Some(batch));
            }
            let compute = self.baseline.elapsed_compute().clone();
            let _timer = compute.timer();
            match passed(active, &batch)? {
                Some(passed) if passed.true_count() == 0 => {}
                Some(passed) => self.coalescer.push_batch_with_filter(batch, &passed)?,
                None => self.coalescer.push_batch(batch)?,
            }
            if active.is_empty() {
                self.coalescer.finish_buffered_batch()?;
            }
            let before = active.len();
            active.retain(|filter| !filter.is_paused());
            self.paused.add(before - active.len());
        }
    }
}

/// The filters that drop rows in this execution.
async fn start(filters: &[KeyFilter]) -> Result<Vec<Active>> {
    let mut active = Vec::new();
    for filter in filters {
        let Some(set) = filter.set().await else { continue };
        let column = filter.column.downcast_ref::<Column>();
        let column = column.ok_or_else(|| internal_datafusion_err!("keys are compared with columns"))?.index();
        let KeyFilter { passes_nulls, may_pause, .. } = *filter;
        active.push(Active { column, set, passes_nulls, may_pause, seen: 0, passed: 0 });
    }
    Ok(active)
}

impl Active {
    fn is_paused(&self) -> bool {
        self.may_pause && self.seen >= ROWS_OBSERVED && self.passed as f64 > PASSED_MAX * self.seen as f64
    }

    fn test(&self, values: &dyn Array) -> Result<BooleanArray> {
        let Some(passed) = self.set.test(values) else {
            return internal_err!("a set of keys was asked for values of the type {}", values.data_type());
        };
        match values.nulls().filter(|_| self.passes_nulls) {
            Some(nulls) => Ok(BooleanArray::new(passed.values() | &not(nulls.inner()), None)),
            None => Ok(passed),
        }
    }
}

fn not(buffer: &BooleanBuffer) -> BooleanBuffer {
    !buffer
}

/// The rows that all filters pass; `None` if there are no filters.
fn passed(active: &mut [Active], batch: &RecordBatch) -> Result<Option<BooleanArray>> {
    let mut all: Option<BooleanArray> = None;
    for filter in active {
        let passed = filter.test(batch.column(filter.column).as_ref())?;
        filter.seen += passed.len();
        filter.passed += passed.true_count();
        all = Some(match all {
            Some(others) => and(&others, &passed)?,
            None => passed,
        });
    }
    Ok(all)
}
