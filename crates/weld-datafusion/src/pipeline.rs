//! Runs pipelines: feeds a partition's batches to compiled code, builds tables on the way in, hands rows out.
//!
//! A table is built once: every partition of the build side fills its own in a task, they are combined, and all
//! partitions of the probe side share the result. Dropping a stream raises the cancellation flag of its run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, MetricBuilder, RecordOutput, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::future::{BoxFuture, FutureExt, Shared, WeakShared, join_all, join3, try_join_all};
use futures::{StreamExt, TryStreamExt, stream};
use weld_codegen::{Stream, Value};
use weld_runtime::{Context, Threads};

use crate::arrow::input::{BatchColumns, expected_layout, scalar};
use crate::arrow::output::{RowsReader, string_buffers_of};
use crate::code::Code;
use crate::exec::{Inner, WeldExec};
use crate::lower::pipeline::{Kernel, Output};
use crate::lower::{Arg, Slot};
use crate::memory::{QueryMemory, checked};
use crate::scan::{self, ParquetScan};

/// Rows are handed out once so many input batches went through: fewer, fuller output batches.
const BATCHES_HELD_MAX: usize = 8;

/// A partial aggregate hands its groups out when they take so much memory, which bounds its table. A smaller bound (2 MiB,
/// to stay in the cache) measured slower: where groups are many and spread out it sends nearly every row on. TPC-H Q17 at
/// SF1, 200,000 groups in 6 million rows: 5.4 million partial rows in 329 ms then, 0.4 million in 257 ms now.
const PARTIAL_BYTES_MAX: usize = 32 << 20;

/// When the table of a partial aggregate has become so large, it is time to ask whether grouping pays: more than a core's
/// cache holds is slow to update, and at some ten thousand groups the ratio of groups to rows means something.
const PROBED_BYTES_MIN: usize = 1 << 20;

type TableFuture = Shared<BoxFuture<'static, Result<Arc<Value>, Arc<DataFusionError>>>>;

/// A build pipeline's table. While it is built, those who wait for it own the work: when they go, it stops.
#[derive(Debug, Default)]
pub(crate) enum Table {
    #[default]
    None,
    Building(WeakShared<BoxFuture<'static, Result<Arc<Value>, Arc<DataFusionError>>>>),
    Built(Arc<Value>),
}

/// One partition of a pipeline that gives rows.
pub(crate) fn stream(inner: Arc<Inner>, partition: usize, context: Arc<TaskContext>) -> SendableRecordBatchStream {
    let schema = Arc::clone(inner.properties.eq_properties.schema());
    let started = stream::once(start(inner, partition, context)).try_flatten();
    Box::pin(RecordBatchStreamAdapter::new(schema, started))
}

/// Compiles, waits for the tables, and gives the rows; DataFusion's operators do if there is no code.
async fn start(inner: Arc<Inner>, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
    let code = match code(Arc::clone(&inner), Arc::clone(&context)).await {
        Ok(code) => code,
        Err(reason) => {
            MetricBuilder::new(&inner.metrics).counter("fallbacks", partition).add(1);
            log::warn!("a pipeline runs on DataFusion's operators: {reason}");
            return inner.fallback()?.execute(partition, context);
        }
    };
    let schema = Arc::clone(inner.properties.eq_properties.schema());
    let run = Run::start(&inner, &code, partition, &context).await?;
    let rows = stream::try_unfold(run, |mut run| async move { Ok(run.next().await?.map(|batch| (batch, run))) });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// The code of this pipeline, provided that its build sides have theirs: a join is compiled whole or not at all.
///
/// Everything below is compiled at the same time, pipelines whose rows come here through DataFusion's operators included:
/// none of this pipeline's rows arrive before those have their code.
fn code(inner: Arc<Inner>, context: Arc<TaskContext>) -> BoxFuture<'static, Result<Arc<Code>, String>> {
    async move {
        let builds = inner.builds().map(|build| code(Arc::clone(&build.inner), Arc::clone(&context)));
        let mut sources = Vec::new();
        pipelines_below(inner.source(), &mut sources);
        let sources = sources.into_iter().map(|source| code(source, Arc::clone(&context)));
        let own = inner.code.get_or_init(|| async {
            inner.choose_codes(&context).await;
            let pipeline = &inner.pipeline;
            // Nothing to do on another thread, which would have to wait for a processor.
            if let Some(code) = pipeline.cache.find(&pipeline.kernel.program, &pipeline.settings) {
                return prepare(&inner, &pipeline.kernel, code, false);
            }
            // More at a time than there are processors would only wait for each other.
            let _slot = inner.pipeline.cache.slot().await;
            let task = {
                let inner = Arc::clone(&inner);
                SpawnedTask::spawn_blocking(move || compile(&inner, &inner.pipeline.kernel))
            };
            task.join().await.unwrap_or_else(|error| Err(format!("the compiler's task failed: {error}")))
        });
        let (own, builds, _) = join3(own, join_all(builds), join_all(sources)).await;
        builds.into_iter().collect::<Result<Vec<_>, _>>()?;
        own.clone()
    }
    .boxed()
}

/// The first pipelines on every path down the plan.
fn pipelines_below(plan: &Arc<dyn ExecutionPlan>, found: &mut Vec<Arc<Inner>>) {
    match plan.downcast_ref::<WeldExec>() {
        Some(exec) => found.push(Arc::clone(&exec.inner)),
        None => plan.children().into_iter().for_each(|child| pipelines_below(child, found)),
    }
}

/// The code of a partial aggregate that makes a group of every row.
async fn ungrouped(inner: Arc<Inner>) -> Result<Arc<Code>, String> {
    let compile = || async {
        let inner = Arc::clone(&inner);
        let task = SpawnedTask::spawn_blocking(move || match &inner.pipeline.kernel.ungrouped {
            Some(kernel) => compile(&inner, kernel),
            None => Err("it has no groups".to_owned()),
        });
        task.join().await.unwrap_or_else(|error| Err(format!("the compiler's task failed: {error}")))
    };
    inner.ungrouped.get_or_init(compile).await.clone()
}

fn compile(inner: &Inner, kernel: &Kernel) -> Result<Arc<Code>, String> {
    let pipeline = &inner.pipeline;
    let (code, new) = pipeline.cache.code(&kernel.program, &pipeline.settings)?;
    prepare(inner, kernel, code, new)
}

/// Compiles for the layouts that the input is expected to have, and notes the time that it took.
fn prepare(inner: &Inner, kernel: &Kernel, code: Arc<Code>, new: bool) -> Result<Arc<Code>, String> {
    let pipeline = &inner.pipeline;
    let before = code.compile_time();
    // Failures show here, before anything runs; other layouts (with nulls, dictionaries) are compiled as they come.
    let schema = inner.source().schema();
    let narrow = pipeline.scan && ParquetScan::of(inner.source().as_ref()).is_ok();
    let expected = |index: &usize| match schema.field(*index).data_type() {
        data_type if inner.coded().contains(index) => expected_layout(&scan::coded(data_type)),
        data_type if narrow => expected_layout(&scan::narrow(data_type)),
        data_type => expected_layout(data_type),
    };
    let layouts: Option<Vec<_>> = kernel.inputs.iter().map(expected).collect();
    if let Some(layouts) = layouts {
        code.compiled.prepare(&layouts).map_err(|error| error.to_string())?;
    }
    let spent = code.compile_time() - if new { std::time::Duration::ZERO } else { before };
    MetricBuilder::new(&inner.metrics).subset_time("compile_time", 0).add_duration(spent);
    Ok(code)
}

/// What a run's parameters are given: tables, once they are built, and the values of scalar subqueries.
fn args<'a>(inner: &'a Arc<Inner>, context: &'a Arc<TaskContext>) -> BoxFuture<'a, Result<Vec<Value>>> {
    async move {
        let builds: Vec<Arc<Inner>> = inner.builds().map(|build| Arc::clone(&build.inner)).collect();
        // All tables are built at once: while one is being finished, the partitions of the others go on.
        let tables = try_join_all(builds.iter().map(|build| table(build, context))).await?;
        let mut tables = tables.into_iter();
        let mut args = Vec::new();
        for arg in &inner.pipeline.kernel.args {
            args.push(match arg {
                Arg::Table => {
                    let Some(table) = tables.next() else { return internal_err!("a probe without its build side") };
                    Value::clone(&*table)
                }
                Arg::Scalar { expr, nullable } => scalar(expr, *nullable)?,
            });
        }
        Ok(args)
    }
    .boxed()
}

/// The cancellation flag of a run, raised when the run is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One partition's run.
struct Run {
    input: SendableRecordBatchStream,
    columns: Vec<usize>,
    code: Arc<Code>,
    args: Vec<Value>,
    name: String,
    context: Arc<TaskContext>,
    /// Absent once finished.
    stream: Option<Stream>,
    memory: Arc<QueryMemory>,
    /// Rows to hand out.
    reader: Option<RowsReader>,
    /// Batches whose strings unread rows may point into.
    held: Vec<BatchColumns>,
    output: Output,
    schema: SchemaRef,
    batch_rows_max: usize,
    rows_left: usize,
    grouping: Grouping,
    /// Of groups to rows: above it, grouping does not pay.
    ratio_max: f64,
    inner: Arc<Inner>,
    metrics: RunMetrics,
    cancel: CancelOnDrop,
}

/// What a run of a partial aggregate knows about whether grouping pays.
///
/// A table that outgrows its first bound is handed out, which tells the number of groups. How many rows made them is not
/// counted (filters and joins stand before the aggregate): the next batch is passed on ungrouped, and the rows that come
/// out of it give the ratio.
enum Grouping {
    /// Not asked yet: how many rows have been read.
    Unknown { input_rows: usize },
    /// So many groups came of so many rows of the input.
    Probing { groups: usize, input_rows: usize },
    /// Every row is passed on as a group of its own.
    Off,
    /// It pays, or cannot be left out.
    On,
}

struct RunMetrics {
    baseline: BaselineMetrics,
    input_rows: Count,
    input_batches: Count,
}

impl Run {
    async fn start(inner: &Arc<Inner>, code: &Arc<Code>, partition: usize, context: &Arc<TaskContext>) -> Result<Run> {
        let args = args(inner, context).await?;
        let cancel = CancelOnDrop(Arc::new(AtomicBool::new(false)));
        let name = format!("WeldExec[{partition}]");
        let (stream, memory) = open(code, &args, &name, context, &cancel)?;
        let metrics = RunMetrics {
            baseline: BaselineMetrics::new(&inner.metrics, partition),
            input_rows: MetricBuilder::new(&inner.metrics).counter("input_rows", partition),
            input_batches: MetricBuilder::new(&inner.metrics).counter("input_batches", partition),
        };
        Ok(Run {
            input: inner.read(partition, context)?,
            columns: inner.pipeline.kernel.inputs.clone(),
            code: Arc::clone(code),
            args,
            name,
            context: Arc::clone(context),
            stream: Some(stream),
            memory,
            reader: None,
            held: Vec::new(),
            output: inner.pipeline.kernel.output.clone(),
            schema: Arc::clone(inner.properties.eq_properties.schema()),
            batch_rows_max: context.session_config().batch_size(),
            rows_left: inner.pipeline.fetch.unwrap_or(usize::MAX),
            grouping: match &inner.pipeline.kernel.ungrouped {
                Some(_) => Grouping::Unknown { input_rows: 0 },
                None => Grouping::On,
            },
            ratio_max: context.session_config().options().execution.skip_partial_aggregation_probe_ratio_threshold,
            inner: Arc::clone(inner),
            metrics,
            cancel,
        })
    }

    /// The next batch of rows.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.rows_left == 0 {
                return Ok(None);
            }
            let compute = self.metrics.baseline.elapsed_compute().clone();
            if let Some(reader) = &mut self.reader {
                let _timer = compute.timer();
                if let Some(batch) = reader.next_batch(self.batch_rows_max.min(self.rows_left))? {
                    self.rows_left -= batch.num_rows();
                    return Ok(Some(batch.record_output(&self.metrics.baseline)));
                }
                self.reader = None;
                self.held.clear();
            }
            if self.stream.is_none() {
                return Ok(None);
            }
            let batch = self.input.next().await.transpose()?;
            let _timer = compute.timer();
            match batch {
                Some(batch) => {
                    self.process(&batch)?;
                    drop(_timer);
                    self.adapt(batch.num_rows()).await?;
                }
                None => self.finish()?,
            }
        }
    }

    /// Leaves grouping out, or takes it up again, by what the last batch has shown.
    async fn adapt(&mut self, batch_rows: usize) -> Result<()> {
        match self.grouping {
            Grouping::On | Grouping::Off => {}
            Grouping::Unknown { input_rows } => {
                let input_rows = input_rows + batch_rows;
                self.grouping = Grouping::Unknown { input_rows };
                let (Some(kernel), Some(_)) = (&self.inner.pipeline.kernel.ungrouped, &self.stream) else {
                    return Ok(());
                };
                if self.memory.used() < PROBED_BYTES_MIN {
                    return Ok(());
                }
                let output = kernel.output.clone();
                let Ok(code) = ungrouped(Arc::clone(&self.inner)).await else {
                    self.grouping = Grouping::On;
                    return Ok(());
                };
                self.finish()?;
                let groups = self.reader.as_ref().map_or(0, RowsReader::len);
                self.grouping = Grouping::Probing { groups, input_rows };
                self.open(code, output)?;
            }
            Grouping::Probing { groups, input_rows } => {
                let (Some(stream), Output::Rows(slots)) = (&mut self.stream, &self.output) else { return Ok(()) };
                let rows = self.reader.insert(take_rows(stream, &self.held, &self.schema, slots)?).len();
                if rows == 0 {
                    return Ok(());
                }
                let share = rows as f64 / batch_rows as f64;
                if groups as f64 > self.ratio_max * share * input_rows as f64 {
                    self.grouping = Grouping::Off;
                    MetricBuilder::new(&self.inner.metrics).counter("ungrouped_partitions", 0).add(1);
                    return Ok(());
                }
                self.grouping = Grouping::On;
                let (code, output) = (Arc::clone(&self.code), self.inner.pipeline.kernel.output.clone());
                self.open(code, output)?;
            }
        }
        Ok(())
    }

    /// Goes on with other code, or the same from the start.
    fn open(&mut self, code: Arc<Code>, output: Output) -> Result<()> {
        let (stream, memory) = open(&code, &self.args, &self.name, &self.context, &self.cancel)?;
        (self.stream, self.memory, self.output) = (Some(stream), memory, output);
        Ok(())
    }

    fn process(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(stream) = &mut self.stream else { return internal_err!("a finished run was given a batch") };
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.metrics.input_rows.add(batch.num_rows());
        self.metrics.input_batches.add(1);
        let columns = BatchColumns::new(batch, &self.columns)?;
        checked(stream.process(&columns.chunk()?))?;
        match &self.output {
            Output::Rows(slots) => {
                self.held.push(columns);
                if self.held.len() >= BATCHES_HELD_MAX {
                    self.reader = Some(take_rows(stream, &self.held, &self.schema, slots)?);
                }
            }
            Output::Groups { partial: true, .. } if self.memory.used() > PARTIAL_BYTES_MAX => {
                self.finish()?;
                let (stream, memory) = open(&self.code, &self.args, &self.name, &self.context, &self.cancel)?;
                (self.stream, self.memory) = (Some(stream), memory);
            }
            Output::Groups { .. } | Output::Table(_) => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let Some(mut stream) = self.stream.take() else { return Ok(()) };
        self.reader = Some(match &self.output {
            Output::Rows(slots) => take_rows(&mut stream, &self.held, &self.schema, slots)?,
            Output::Groups { slots, .. } => {
                let rows = checked(stream.finish())?;
                RowsReader::new(rows, Arc::clone(&self.schema), slots, Vec::new())?
            }
            Output::Table(_) => return internal_err!("a table is no vector of rows"),
        });
        Ok(())
    }
}

/// A fresh run of the code, with a reservation of its own.
fn open(
    code: &Arc<Code>,
    args: &[Value],
    name: &str,
    context: &TaskContext,
    cancel: &CancelOnDrop,
) -> Result<(Stream, Arc<QueryMemory>)> {
    let memory = QueryMemory::new(name, context);
    let run_context = Arc::new(Context::new(memory.clone(), Arc::clone(&cancel.0)));
    Ok((checked(code.compiled.stream(run_context, args.to_vec()))?, memory))
}

/// The rows appended so far; their long strings may point into the batches held.
fn take_rows(stream: &mut Stream, held: &[BatchColumns], schema: &SchemaRef, slots: &[Slot]) -> Result<RowsReader> {
    let rows = stream.rows().ok_or_else(|| internal_datafusion_err!("a row pipeline gives no rows"))?;
    let mut strings: Vec<Buffer> = Vec::new();
    for columns in held {
        string_buffers_of(columns.arrays(), &mut strings);
    }
    RowsReader::new(rows.value().clone(), Arc::clone(schema), slots, strings)
}

/// The table of a build pipeline: started by the first who asks, shared by all.
async fn table(inner: &Arc<Inner>, context: &Arc<TaskContext>) -> Result<Arc<Value>> {
    let slot = || inner.table.lock().unwrap_or_else(PoisonError::into_inner);
    let building = {
        let mut table = slot();
        let known = match &*table {
            Table::Built(value) => return Ok(Arc::clone(value)),
            Table::Building(others) => others.upgrade(),
            Table::None => None,
        };
        let again = !matches!(&*table, Table::None);
        known.unwrap_or_else(|| {
            let (inner, context) = (Arc::clone(inner), Arc::clone(context));
            let built = async move { build(inner, context, again).await.map(Arc::new).map_err(Arc::new) };
            let building: TableFuture = built.boxed().shared();
            *table = building.downgrade().map_or(Table::None, Table::Building);
            building
        })
    };
    let value = building.await.map_err(DataFusionError::Shared)?;
    *slot() = Table::Built(Arc::clone(&value));
    Ok(value)
}

/// Builds a table from all partitions of the build side, and feeds the join's dynamic filter. `again` if that was begun
/// before and given up: what was read then has to be read from the start.
async fn build(inner: Arc<Inner>, context: Arc<TaskContext>, again: bool) -> Result<Value> {
    let code = code(Arc::clone(&inner), Arc::clone(&context)).await;
    let code = code.map_err(|reason| internal_datafusion_err!("{reason}"))?;
    let args = args(&inner, &context).await?;
    let cancel = Arc::new(AtomicBool::new(false));
    let _cancel = CancelOnDrop(Arc::clone(&cancel));
    let memory = QueryMemory::new("WeldExec[table]", &context);
    let run_context = Arc::new(Context::new(memory.clone(), cancel));
    let source = match again {
        true => reset_plan_states(Arc::clone(inner.source()))?,
        false => Arc::clone(inner.source()),
    };
    let sharing = scan::Sharing::default();
    let mut parts = Vec::new();
    let partitions = inner.source().output_partitioning().partition_count();
    // When the partitions are done, so are the threads that worked on them.
    let threads = Threads::shared(partitions);
    for partition in 0..partitions {
        let mut stream = checked(code.compiled.stream(Arc::clone(&run_context), args.clone()))?;
        stream.set_threads(Arc::clone(&threads));
        let input = inner.read_from(&source, partition, &context, &sharing)?;
        let rows = MetricBuilder::new(&inner.metrics).counter("build_rows", partition);
        let compute = MetricBuilder::new(&inner.metrics).elapsed_compute(partition);
        let columns = inner.pipeline.kernel.inputs.clone();
        parts.push(SpawnedTask::spawn(build_part(stream, input, columns, rows, compute)));
    }
    let combine_time = MetricBuilder::new(&inner.metrics).subset_time("combine_time", 0);
    let mut whole: Option<Stream> = None;
    for part in parts {
        let part = part.join().await.map_err(|error| internal_datafusion_err!("a build task failed: {error}"))??;
        let _timer = combine_time.timer();
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => checked(whole.combine(part))?,
        }
    }
    let whole = whole.ok_or_else(|| internal_datafusion_err!("a build side has no partitions"))?;
    let result = {
        let _timer = combine_time.timer();
        checked(whole.finish())?
    };
    MetricBuilder::new(&inner.metrics).gauge("table_bytes", 0).set(memory.used());
    let Output::Table(layout) = &inner.pipeline.kernel.output else {
        return internal_err!("a build pipeline makes a table");
    };
    let (table, bounds) = if layout.bounds { (result.field(0), result.field(1)) } else { (Some(result), None) };
    if let Some(feeds) = &inner.pipeline.feeds {
        crate::dynamic_filter::feed(feeds, bounds.as_ref())?;
    }
    table.ok_or_else(|| internal_datafusion_err!("a build pipeline's result has no table"))
}

async fn build_part(
    mut stream: Stream,
    mut input: SendableRecordBatchStream,
    columns: Vec<usize>,
    rows: Count,
    compute: Time,
) -> Result<Stream> {
    while let Some(batch) = input.next().await.transpose()? {
        if batch.num_rows() == 0 {
            continue;
        }
        let _timer = compute.timer();
        rows.add(batch.num_rows());
        checked(stream.process(&BatchColumns::new(&batch, &columns)?.chunk()?))?;
    }
    Ok(stream)
}
