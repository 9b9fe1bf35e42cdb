//! Runs the queries on the engines in turn, in one process, over the same tables.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use datafusion::execution::context::SQLOptions;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use datafusion::prelude::SessionContext;
use weld_datafusion::WeldTable;
use weld_datafusion::compare::Answer;
use weld_datafusion::{Verdict, verdict};

use super::report::{Measured, Report, Side};
use super::suite::{Query, Suite};
use super::{Options, Storage};
use crate::engine::{self, Engine};
use crate::failure::{Doing, Failure, Result};
use crate::tables::{self, Table};

pub(super) fn run(suite: &Suite, options: &Options) -> Result<()> {
    let runtime = engine::runtime(options.partitions()).map_err(Failure::new)?;
    runtime.block_on(async {
        let sessions = sessions(suite, options).await?;
        let mut report = Report::new(suite, options)?;
        for query in &suite.queries {
            let iterations = if options.once { 0 } else { options.iterations };
            report.add(measure(query, &sessions, iterations).await)?;
        }
        report.finish()
    })
}

struct Session {
    engine: Engine,
    context: SessionContext,
}

/// A session for each engine, with the tables.
async fn sessions(suite: &Suite, options: &Options) -> Result<Vec<Session>> {
    let partitions = options.partitions();
    let session = |&engine| {
        let context = engine::session_with(engine, partitions, &options.settings)?;
        Ok(Session { engine, context })
    };
    let sessions = options.engine.list().iter().map(session).collect::<Result<Vec<_>>>()?;
    for table in &suite.tables {
        match options.storage {
            Storage::Parquet => {
                warm(&table.path)?;
                for session in &sessions {
                    table.register(&session.context).await?;
                }
            }
            Storage::Memory | Storage::Weld => {
                let loaded = load(table).await?;
                for session in &sessions {
                    let is_encoded = options.storage == Storage::Weld && session.engine == Engine::Weld;
                    let loaded = if is_encoded { loaded.encoded() } else { loaded.in_memory(partitions) };
                    session.context.register_table(TableReference::bare(&*table.name), loaded?)?;
                }
            }
        }
    }
    for table in &suite.tables {
        for session in &sessions {
            table.register_lower_case(&session.context).await?;
        }
    }
    Ok(sessions)
}

/// Reads the files once, so that the engine that runs first does not pay for the disk.
fn warm(path: &Path) -> Result<()> {
    if path.is_dir() {
        return tables::list(path)?.iter().try_for_each(|path| warm(path));
    }
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
    read.doing(format_args!("cannot read {}", path.display())).map(drop)
}

/// A table as record batches, as DataFusion decodes them.
struct Loaded {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

async fn load(table: &Table) -> Result<Loaded> {
    // One partition keeps the order of the file.
    let reader = engine::session(Engine::Datafusion, 1)?;
    table.register(&reader).await?;
    let frame = reader.table(TableReference::bare(&*table.name)).await?;
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await.doing(format_args!("cannot read {}", table.path.display()))?;
    Ok(Loaded { schema, batches })
}

impl Loaded {
    /// As they are, in as many equal partitions as will run.
    fn in_memory(&self, partitions: usize) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(MemTable::try_new(Arc::clone(&self.schema), split(&self.batches, partitions))?))
    }

    fn encoded(&self) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(WeldTable::try_new(Arc::clone(&self.schema), self.batches.iter().cloned())?))
    }
}

/// Cuts the rows into `count` runs whose lengths differ by at most one.
fn split(batches: &[RecordBatch], count: usize) -> Vec<Vec<RecordBatch>> {
    let total: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut partitions = vec![Vec::new(); count];
    let mut seen = 0;
    for batch in batches {
        let mut start = 0;
        while start < batch.num_rows() {
            let partition = (0..count).rfind(|&index| index * total / count <= seen).unwrap_or(0);
            let end_of_partition = (partition + 1) * total / count;
            let rows = (batch.num_rows() - start).min(end_of_partition - seen);
            partitions[partition].push(batch.slice(start, rows));
            start += rows;
            seen += rows;
        }
    }
    partitions
}

/// One query: a first run on each engine, then `iterations` on each in turn; every answer compared.
async fn measure(query: &Query, sessions: &[Session], iterations: u16) -> Measured {
    let mut measured = Measured::new(query);
    let sql = match &query.text {
        Ok(sql) => sql,
        Err(error) => {
            measured.error = Some(error.clone());
            return measured;
        }
    };
    for round in 0..=iterations {
        let mut runs = Vec::new();
        for session in sessions {
            let (context, sql) = (session.context.clone(), Arc::clone(sql));
            // A task of its own: should an engine panic, that is an error of this query.
            let task = tokio::spawn(async move { run_once(&context, &sql).await });
            match task.await.map_err(Failure::new).and_then(|run| run) {
                Ok(run) => runs.push((session.engine, run)),
                Err(failure) => {
                    measured.error = Some(format!("{}: {}", session.engine.name(), failure.message()));
                    return measured;
                }
            }
        }
        for (engine, run) in &runs {
            measured.side(*engine).record(round == 0, run.ms);
            if *engine == Engine::Weld {
                measured.summary = Some(weld_datafusion::summary(&run.plan));
            }
        }
        measured.rows = runs.first().map(|(_, run)| run.answer.rows());
        if let [(_, expected), (_, found)] = &runs[..] {
            match verdict(&expected.plan, &expected.answer, &found.answer) {
                Ok(Verdict::Same) => measured.verified = Some(true),
                Ok(Verdict::Open) => {}
                Ok(Verdict::Differs(difference)) => {
                    measured.verified = Some(false);
                    measured.error = Some(difference);
                    return measured;
                }
                Err(error) => {
                    measured.error = Some(format!("the answers cannot be compared: {error}"));
                    return measured;
                }
            }
        }
    }
    measured
}

struct Run {
    answer: Answer,
    plan: Arc<dyn ExecutionPlan>,
    ms: f64,
}

/// From SQL text to the last row: planning, compiling and running.
async fn run_once(context: &SessionContext, sql: &str) -> Result<Run> {
    // A statement that changes tables or the session would change what the queries after it run on.
    let read_only = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let start = Instant::now();
    let plan = context.sql_with_options(sql, read_only).await?.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    // Of several partitions each has the order by itself; what `collect` makes of them has none.
    let is_ordered = plan.output_partitioning().partition_count() == 1;
    let ordering = plan.output_ordering().filter(|_| is_ordered).cloned();
    let answer = Answer { schema: plan.schema(), batches, ordering };
    Ok(Run { answer, plan, ms })
}

impl Side {
    fn record(&mut self, first: bool, ms: f64) {
        if first {
            self.first_ms = Some(ms);
        } else {
            self.ms.push(ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{ArrayRef, Int32Array};

    #[test]
    fn tables_split_evenly_and_in_order() {
        let batch = |values: std::ops::Range<i32>| {
            let column: ArrayRef = Arc::new(Int32Array::from_iter_values(values));
            RecordBatch::try_from_iter([("a", column)]).unwrap()
        };
        let parts = split(&[batch(0..5), batch(5..7)], 3);
        let lengths: Vec<usize> = parts.iter().map(|part| part.iter().map(RecordBatch::num_rows).sum()).collect();
        assert_eq!(lengths, [2, 2, 3]);
        // More partitions than rows leaves some of them empty.
        assert_eq!(split(&[batch(0..1)], 4).concat().len(), 1);
        assert_eq!(split(&[], 2).len(), 2);
    }
}
