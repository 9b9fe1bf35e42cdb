//! The tables of joins: built once, by all partitions of the build side, shared by all partitions of the probe side.
//!
//! As in DataFusion, a probe side runs when the build sides above it have rows: joins are asked from the top down, and
//! the first without rows ends the question. All tables are built at the same time nevertheless.

use std::sync::{Arc, PoisonError};

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::{Count, MetricBuilder, Time};
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt, Shared, WeakShared};
use futures::stream::FuturesOrdered;
use weld_arrow::BatchColumns;
use weld_codegen::{Stream, Value};
use weld_frontend::Source;
use weld_runtime::{Context, Threads};

use super::compile::code;
use super::constants::{constant, scalar};
use super::failure::{Failure, guard, run};
use super::preserve::Marks;
use super::slices::Slices;
use super::{Inputs, stealing};
use crate::code_cache::Code;
use crate::dynamic_filter::{Keys, Told, feed};
use crate::exec::Inner;
use crate::lower::Arg;
use crate::lower::pipeline::Output;
use crate::memory::{Pressure, QueryMemory};
use crate::stoppable::{CancelOnDrop, may_run_long, on_thread};

type Outcome = Result<Arc<BuildSide>, Failure>;
type TableFuture = Shared<BoxFuture<'static, Outcome>>;

/// A build pipeline's table. While it is built, those who wait for it own the work: when they go, it stops.
#[derive(Debug, Default)]
pub(crate) enum Table {
    #[default]
    None,
    Building(WeakShared<BoxFuture<'static, Outcome>>),
    Built(Arc<BuildSide>),
    /// It was there and is not needed any more.
    Gone,
}

/// What a build pipeline has made.
#[derive(Debug)]
pub(crate) struct BuildSide {
    /// One for all partitions of the probe side, or one for each.
    tables: Vec<Arc<BuildTable>>,
}

/// A table and what else its join needs of the build side.
#[derive(Debug)]
pub(crate) struct BuildTable {
    pub(super) table: Value,
    /// Rows whose keys are null, where the join gives them.
    pub(super) unkeyed: Option<Value>,
    /// The rows that have a match, where the join gives rows of the build side for themselves.
    pub(super) marks: Option<Marks>,
}

impl BuildSide {
    fn of(&self, partition: usize) -> Arc<BuildTable> {
        Arc::clone(if self.tables.len() == 1 { &self.tables[0] } else { &self.tables[partition] })
    }
}

impl BuildTable {
    fn has_no_rows(&self) -> bool {
        self.table.as_dict().is_some_and(|table| table.is_empty()) && self.unkeyed.as_ref().is_none_or(Value::is_empty)
    }

    /// Whether no key has several rows.
    fn is_unique(&self) -> bool {
        self.table.as_dict().is_some_and(|table| table.values() <= table.len())
    }
}

impl Table {
    /// Lets go of the table of a build pipeline and of those that it was built with.
    pub(super) fn clear(inner: &Inner) {
        let mut table = inner.table.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*table, Table::None) {
            *table = Table::Gone;
        }
        drop(table);
        inner.builds().for_each(|build| Table::clear(&build.inner));
    }
}

/// What a run's parameters are given: tables, once they are built, and the values of scalar subqueries.
pub(super) struct Args {
    pub(super) values: Vec<Value>,
    /// Whether a build side has no rows, and so the pipeline's input is not asked for any.
    pub(super) no_rows: bool,
    /// Whether a row of the input can become several.
    pub(super) multiplies: bool,
    /// The build side of the join that ends the pipeline.
    pub(super) last: Option<Arc<BuildTable>>,
}

/// For a run of this partition. Once they are there, so are the keys that the source drops rows by; a run without rows does
/// not wait for those, which may be of a table that is not built for it.
pub(super) fn args<'a>(
    inner: &'a Arc<Inner>,
    partition: usize,
    context: &'a Arc<TaskContext>,
) -> BoxFuture<'a, Result<Args, Failure>> {
    async move {
        let needs_rows = &inner.pipeline.lowered.needs_build_rows;
        let builds: Vec<Arc<Inner>> = inner.builds().map(|build| Arc::clone(&build.inner)).collect();
        // The last probe of the pipeline is the topmost join.
        let mut building: FuturesOrdered<_> = builds.iter().rev().map(|build| table(build, context)).collect();
        let mut tables: Vec<Arc<BuildTable>> = Vec::new();
        let mut no_rows = false;
        while let Some(side) = building.next().await {
            let table = side?.of(partition);
            no_rows = needs_rows[builds.len() - 1 - tables.len()] && table.has_no_rows();
            tables.push(table);
            if no_rows {
                break;
            }
        }
        drop(building);
        for build in builds.iter().rev().skip(tables.len()) {
            tables.push(Arc::new(empty_table(Arc::clone(build), Arc::clone(context)).await?));
        }
        if !no_rows {
            inner.keys_settled().await;
        }
        let multiplies = tables.iter().any(|table| !table.is_unique());
        let last = tables.first().cloned();
        let mut tables = tables.into_iter().rev();
        let mut values = Vec::new();
        for arg in &inner.pipeline.lowered.args {
            values.push(match arg {
                Arg::Table => {
                    let table = tables.next();
                    let table = table.ok_or_else(|| internal_datafusion_err!("a probe without its build side"))?;
                    table.table.clone()
                }
                Arg::Scalar { expr, nullable } => scalar(expr, *nullable)?,
                Arg::Constant(value) => constant(value),
            });
        }
        Ok(Args { values, no_rows, multiplies, last })
    }
    .boxed()
}

/// The table of a build pipeline: started by the first who asks, shared by all.
async fn table(inner: &Arc<Inner>, context: &Arc<TaskContext>) -> Outcome {
    loop {
        let slot = || inner.table.lock().unwrap_or_else(PoisonError::into_inner);
        let building = {
            let mut table = slot();
            let known = match &*table {
                Table::Built(value) => return Ok(Arc::clone(value)),
                Table::Building(others) => others.upgrade(),
                Table::None | Table::Gone => None,
            };
            let again = !matches!(&*table, Table::None);
            known.unwrap_or_else(|| {
                let (inner, context) = (Arc::clone(inner), Arc::clone(context));
                let built = build(inner, context, again).map(|built| built.map(Arc::new));
                let building: TableFuture = built.boxed().shared();
                *table = building.downgrade().map_or(Table::None, Table::Building);
                building
            })
        };
        // Whoever asks before the table is noted finds this, and does not build another.
        let _building = building.clone();
        match building.await {
            Ok(value) => {
                *slot() = Table::Built(Arc::clone(&value));
                return Ok(value);
            }
            // Its runtime has ended, this one has not.
            Err(Failure::Abandoned) => *slot() = Table::Gone,
            Err(failure) => return Err(failure),
        }
    }
}

/// A table without rows, for a pipeline that will not look into it.
fn empty_table(inner: Arc<Inner>, context: Arc<TaskContext>) -> BoxFuture<'static, Result<BuildTable, Failure>> {
    async move {
        let code = code(Arc::clone(&inner), Arc::clone(&context)).await;
        let code = code.map_err(|reason| internal_datafusion_err!("{reason}"))?;
        let mut values = Vec::new();
        let mut builds = inner.builds();
        for arg in &inner.pipeline.lowered.args {
            values.push(match (arg, matches!(arg, Arg::Table).then(|| builds.next()).flatten()) {
                (Arg::Scalar { expr, nullable }, _) => scalar(expr, *nullable)?,
                (Arg::Constant(value), _) => constant(value),
                (Arg::Table, Some(build)) => empty_table(Arc::clone(&build.inner), Arc::clone(&context)).await?.table,
                (Arg::Table, None) => return Err(internal_datafusion_err!("a probe without its build side").into()),
            });
        }
        let memory = QueryMemory::new("WeldExec[table]", &context, Pressure::Fails);
        let run_context = Arc::new(Context::new(memory, Arc::default()));
        let result = run(&inner.pipeline.lowered.source, || code.compiled.stream(run_context, values)?.finish())?;
        Ok(split(&inner, result, &context)?.0)
    }
    .boxed()
}

/// A build program's result: the table, and the least and greatest keys if it has them.
fn split(inner: &Inner, result: Value, context: &TaskContext) -> Result<(BuildTable, Option<Value>), Failure> {
    let Output::Table(layout) = &inner.pipeline.lowered.output else {
        return Err(internal_datafusion_err!("a build pipeline makes a table").into());
    };
    let mut fields = match layout.bounds || layout.unkeyed {
        true => (0..).map_while(|index| result.field(index)).collect::<Vec<_>>().into_iter(),
        false => vec![result].into_iter(),
    };
    let table = fields.next();
    let table = table.ok_or_else(|| internal_datafusion_err!("a build pipeline's result has no table"))?;
    let bounds = if layout.bounds { fields.next() } else { None };
    let rows = table.as_dict().map_or(0, |table| table.values());
    let marks = if layout.marks { Some(Marks::new(rows, context)?) } else { None };
    Ok((BuildTable { table, unkeyed: fields.next(), marks }, bounds))
}

/// Builds a table from all partitions of the build side, or one from each, and feeds the join's dynamic filter. `again`
/// if that was begun before and given up: what was read then has to be read from the start.
async fn build(inner: Arc<Inner>, context: Arc<TaskContext>, again: bool) -> Result<BuildSide, Failure> {
    let code = code(Arc::clone(&inner), Arc::clone(&context)).await;
    let code = code.map_err(|reason| internal_datafusion_err!("{reason}"))?;
    let args = args(&inner, 0, &context).await?;
    let cancel = CancelOnDrop::default();
    let memory = QueryMemory::new("WeldExec[table]", &context, Pressure::Fails);
    let run_context = Arc::new(Context::new(memory.clone(), Arc::clone(&cancel.0)));
    let source = match again {
        true => reset_plan_states(Arc::clone(inner.source()))?,
        false => Arc::clone(inner.source()),
    };
    let partitions = source.output_partitioning().partition_count();
    let (sharing, inputs) = (Arc::new(crate::scan::Sharing::default()), Arc::new(Inputs::default()));
    let open = {
        let (inner, context) = (Arc::clone(&inner), Arc::clone(&context));
        move |partition| inner.read_from(&source, partition, &context, &sharing)
    };
    let mut parts = Vec::new();
    let may_run_long = may_run_long(&inner.pipeline.lowered.program.body);
    let told = inner.keys().and_then(|keys| Told::begin(keys, partitions));
    let read = if args.no_rows { 0 } else { partitions };
    // When the partitions are done, so are the threads that worked on them.
    let threads = Threads::shared(read.max(1));
    let stream = || {
        let mut stream = run(&inner.pipeline.lowered.source, || {
            code.compiled.stream(Arc::clone(&run_context), args.values.clone())
        })?;
        stream.set_threads(Arc::clone(&threads));
        Ok::<_, Failure>(stream)
    };
    for partition in 0..read {
        let part = Part {
            stream: stream()?,
            source: Arc::clone(&inner.pipeline.lowered.source),
            code: Arc::clone(&code),
            inner: Arc::clone(&inner),
            slices: Slices::new(args.multiplies),
            rows: MetricBuilder::new(&inner.metrics).counter("build_rows", partition),
            compute: MetricBuilder::new(&inner.metrics).elapsed_compute(partition),
        };
        let input = match stealing::begin_opened_by(&inner, &inputs, partition, &context, open.clone()) {
            Some(shared) => shared,
            None => open(partition)?,
        };
        let flag = Arc::clone(&cancel.0);
        parts.push(match may_run_long {
            true => SpawnedTask::spawn(async move { on_thread(flag, part.fill(input)).await? }),
            false => SpawnedTask::spawn(part.fill(input)),
        });
    }
    let combine_time = MetricBuilder::new(&inner.metrics).subset_time("combine_time", 0);
    let mut wholes: Vec<Stream> = Vec::new();
    for part in parts {
        let part = part.join().await.map_err(|error| match error.is_cancelled() {
            true => Failure::Abandoned,
            false => internal_datafusion_err!("a build task failed: {error}").into(),
        })??;
        let _timer = combine_time.timer();
        match wholes.last_mut().filter(|_| !inner.pipeline.partitions.per_partition) {
            None => wholes.push(part),
            Some(whole) => run(&inner.pipeline.lowered.source, || whole.combine(part))?,
        }
    }
    let wanted = if inner.pipeline.partitions.per_partition { partitions } else { 1 };
    while wholes.len() < wanted {
        wholes.push(stream()?);
    }
    let mut tables = Vec::new();
    for whole in wholes {
        let _timer = combine_time.timer();
        let result = run(&inner.pipeline.lowered.source, || whole.finish())?;
        tables.push(split(&inner, result, &context)?);
    }
    MetricBuilder::new(&inner.metrics).gauge("table_bytes", 0).set(memory.used());
    if let Some(feeds) = inner.feeds() {
        let keys = tables.iter().map(|(side, bounds)| Keys { table: &side.table, bounds: bounds.as_ref() });
        feed(feeds, &keys.collect::<Vec<_>>(), &context)?;
    }
    if let Some(told) = told {
        told.tell(&tables.iter().map(|(side, _)| &side.table).collect::<Vec<_>>(), &context);
    }
    Ok(BuildSide { tables: tables.into_iter().map(|(table, _)| Arc::new(table)).collect() })
}

/// One partition of a build side.
struct Part {
    stream: Stream,
    /// The texts of functions that errors may be in.
    source: Arc<Source>,
    code: Arc<Code>,
    inner: Arc<Inner>,
    slices: Slices,
    rows: Count,
    compute: Time,
}

impl Part {
    async fn fill(mut self, mut input: SendableRecordBatchStream) -> Result<Stream, Failure> {
        while let Some(batch) = input.next().await.transpose()? {
            self.rows.add(batch.num_rows());
            let mut rest = Some(batch).filter(|batch| batch.num_rows() > 0);
            while let Some(batch) = rest {
                let timer = self.compute.timer();
                let (slice, more) = self.slices.cut(batch);
                let started = std::time::Instant::now();
                guard(|| {
                    let columns = BatchColumns::new(&slice, &self.inner.pipeline.lowered.inputs)?;
                    let chunk = columns.chunk()?;
                    run(&self.source, || self.stream.process(&chunk))
                })?;
                self.slices.note(slice.num_rows(), 0, started);
                self.code.improve_if_due(self.inner.rows_left(slice.num_rows()));
                rest = more;
                drop(timer);
                if rest.is_some() {
                    self.slices.pause().await;
                }
            }
        }
        Ok(self.stream)
    }
}
