//! `CommonSubplanScanExec` gives the rows of a common subplan to one of its readers.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll, ready};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, Statistics, internal_datafusion_err, internal_err};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{ReplaceChildrenOptions, SchedulingType, reset_plan_states};
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{Stream, StreamExt};

use super::run::{Begun, Given, Kept, Run, lock};

/// A subplan that is read more than once.
pub(super) struct Subplan {
    /// Tells the subplans of a plan apart, for EXPLAIN.
    pub(super) number: usize,
    pub(super) readers: usize,
    /// How many rows operators are expected to be spared.
    pub(super) rows_saved: f64,
    /// As it was when it was found. What is executed is a child of `CommonSubplansExec`.
    pub(super) plan: Arc<dyn ExecutionPlan>,
    runs: Mutex<Vec<Weak<Run>>>,
}

impl Subplan {
    pub(super) fn new(number: usize, readers: usize, rows_saved: f64, plan: Arc<dyn ExecutionPlan>) -> Subplan {
        Subplan { number, readers, rows_saved, plan, runs: Mutex::default() }
    }

    /// The same for a plan that starts again.
    pub(super) fn unused(&self) -> Subplan {
        Subplan::new(self.number, self.readers, self.rows_saved, Arc::clone(&self.plan))
    }

    /// The execution that belongs to a query, if it goes on.
    fn running(&self, context: &Arc<TaskContext>) -> Option<Arc<Run>> {
        let runs = lock(&self.runs);
        runs.iter().filter_map(Weak::upgrade).find(|run| run.is_of(context))
    }

    /// The execution that belongs to a query, as long as somebody holds it.
    pub(super) fn run(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Arc<Run> {
        let mut runs = lock(&self.runs);
        if let Some(run) = runs.iter().filter_map(Weak::upgrade).find(|run| run.is_of(context)) {
            return run;
        }
        runs.retain(|run| run.strong_count() > 0);
        let name = format!("CommonSubplan#{}", self.number);
        let run = Arc::new(Run::new(&name, plan, self.readers, context, metrics));
        runs.push(Arc::downgrade(&run));
        run
    }
}

impl fmt::Debug for Subplan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subplan").field("number", &self.number).field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// Reads a common subplan.
#[derive(Debug)]
pub struct CommonSubplanScanExec {
    subplan: Arc<Subplan>,
    reader: usize,
    /// Whether it executes a copy of the subplan: a part of a plan that starts again may read other rows than the rest.
    is_alone: bool,
    copy: OnceLock<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl CommonSubplanScanExec {
    /// In the place of a plan with these properties.
    pub(super) fn new(subplan: Arc<Subplan>, reader: usize, properties: &PlanProperties) -> CommonSubplanScanExec {
        let properties = properties.clone().with_scheduling_type(SchedulingType::Cooperative);
        CommonSubplanScanExec {
            subplan,
            reader,
            is_alone: false,
            copy: OnceLock::new(),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// What it gives the rows of.
    pub fn subplan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.subplan.plan
    }

    pub(super) fn reader(&self) -> usize {
        self.reader
    }

    pub(super) fn reads(&self, subplan: &Arc<Subplan>) -> bool {
        Arc::ptr_eq(&self.subplan, subplan)
    }

    fn copy(&self) -> Result<&Arc<dyn ExecutionPlan>> {
        if self.copy.get().is_none() {
            // Another partition may have been faster.
            let _ = self.copy.set(reset_plan_states(Arc::clone(&self.subplan.plan))?);
        }
        self.copy.get().ok_or_else(|| internal_datafusion_err!("a copy of a subplan is gone"))
    }
}

impl DisplayAs for CommonSubplanScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.subplan.number;
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "subplan=#{number}"),
            _ => write!(f, "CommonSubplanScanExec: subplan=#{number}"),
        }
    }
}

impl ExecutionPlan for CommonSubplanScanExec {
    fn name(&self) -> &str {
        "CommonSubplanScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    crate::no_expressions!();

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("{} has no children", self.name()) }
    }

    crate::new_children!();

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let alone = CommonSubplanScanExec::new(Arc::clone(&self.subplan), self.reader, &self.properties);
        Ok(Arc::new(CommonSubplanScanExec { is_alone: true, ..alone }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let running = self.subplan.running(&context).filter(|_| !self.is_alone);
        let Some(run) = running else {
            return self.copy()?.execute(partition, context);
        };
        Ok(Box::pin(cooperative(Reading {
            run,
            reader: self.reader,
            partition,
            context,
            schema: self.schema(),
            rows: Rows::NotBegun,
            kept_rows: MetricBuilder::new(&self.metrics).counter("kept_rows", partition),
            baseline: BaselineMetrics::new(&self.metrics, partition),
        })))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        StatisticsContext::new().compute(self.subplan.plan.as_ref(), args)
    }
}

/// One partition.
struct Reading {
    run: Arc<Run>,
    reader: usize,
    partition: usize,
    context: Arc<TaskContext>,
    schema: SchemaRef,
    rows: Rows,
    /// Rows that were there already.
    kept_rows: Count,
    baseline: BaselineMetrics,
}

enum Rows {
    NotBegun,
    Shared(Option<File>),
    Own(SendableRecordBatchStream),
    Ended,
}

/// A file that is being read.
struct File {
    file: Arc<dyn SpillFile>,
    rows: SendableRecordBatchStream,
    /// The batch that comes next.
    next: usize,
    /// The batch that is wanted, if it has not come yet.
    wanted: Option<usize>,
}

impl Reading {
    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            let file = match &mut self.rows {
                Rows::NotBegun => {
                    self.rows = match self.run.begin(self.reader, self.partition)? {
                        Begun::Shared => Rows::Shared(None),
                        Begun::Own(plan) => Rows::Own(plan.execute(self.partition, Arc::clone(&self.context))?),
                    };
                    continue;
                }
                Rows::Own(rows) => return rows.poll_next_unpin(context),
                Rows::Ended => return Poll::Ready(None),
                Rows::Shared(file) => file,
            };
            if let Some(open) = file
                && open.wanted.is_some()
            {
                return open.poll_wanted(context).map(Some);
            }
            match ready!(self.run.poll(self.reader, self.partition, context)).transpose()? {
                None => return Poll::Ready(None),
                Some(Given::Computed(batch)) => return Poll::Ready(Some(Ok(batch))),
                Some(Given::Kept(Kept::Memory(batch, _))) => {
                    self.kept_rows.add(batch.num_rows());
                    return Poll::Ready(Some(Ok(batch)));
                }
                Some(Given::Kept(Kept::File(wanted_file, wanted))) => {
                    let is_open = |open: &File| Arc::ptr_eq(&open.file, &wanted_file) && open.next <= wanted;
                    if !file.as_ref().is_some_and(is_open) {
                        let rows = self.run.spill().read_spill_as_stream(Arc::clone(&wanted_file), None)?;
                        *file = Some(File { file: wanted_file, rows, next: 0, wanted: None });
                    }
                    if let Some(open) = file {
                        open.wanted = Some(wanted);
                    }
                }
            }
        }
    }
}

impl File {
    /// The wanted batch.
    fn poll_wanted(&mut self, context: &mut Context<'_>) -> Poll<Result<RecordBatch>> {
        loop {
            let Some(batch) = ready!(self.rows.poll_next_unpin(context)).transpose()? else {
                return Poll::Ready(internal_err!("a file ends before a batch that was spilled to it"));
            };
            let number = self.next;
            self.next += 1;
            if Some(number) == self.wanted {
                self.wanted = None;
                return Poll::Ready(Ok(batch));
            }
        }
    }
}

impl Stream for Reading {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.poll_batch(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.end();
        }
        self.baseline.record_poll(polled)
    }
}

impl Reading {
    fn end(&mut self) {
        if matches!(std::mem::replace(&mut self.rows, Rows::Ended), Rows::Shared(_)) {
            self.run.end(self.reader, self.partition);
        }
    }
}

impl RecordBatchStream for Reading {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Who stops before the end needs nothing more. Who has not begun may still do so in another stream.
impl Drop for Reading {
    fn drop(&mut self) {
        self.end();
    }
}
