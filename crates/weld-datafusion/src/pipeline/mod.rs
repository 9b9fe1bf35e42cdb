//! Runs pipelines: feeds a partition's batches to compiled code, builds tables on the way in, hands rows out.
//!
//! ```text
//! gate ──► compile ──► table ──► run ──► rows      the first rows may come from the operators (`early`)
//!    │        │ no code            │ refused memory
//!    └──► fallback        └──► handover: the operators that the pipeline replaced
//! ```
//! Dropping a stream raises the cancellation flag of its run, which matters where that runs on a thread of its own:
//! where a function may run long, and while a table is built.

mod accumulators;
mod compile;
mod constants;
mod failure;
mod grouping;
mod handover;
mod held;
mod preserve;
mod pressure;
mod radix;
mod run;
mod slices;
mod stealing;
mod table;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::metrics::MetricBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use tokio::runtime::Handle;

pub(crate) use self::compile::layouts;
pub(crate) use self::handover::Handover;
pub(crate) use self::stealing::Inputs;
pub(crate) use self::table::Table;
use crate::deferred_gate::{self, Early, Input};
use crate::exec::Inner;
use crate::gate::{FEW_ROWS, Gate};
use crate::give_way::give_way;
use crate::stoppable;

use self::compile::{code, compile_beside, compile_during_trial};
use self::failure::Failure;
use self::handover::{hand_over, may_lose_groups};
use self::run::Run;

/// One partition of a pipeline that gives rows.
pub(crate) fn stream(inner: Arc<Inner>, partition: usize, context: Arc<TaskContext>) -> SendableRecordBatchStream {
    let schema = Arc::clone(inner.properties.eq_properties.schema());
    let may_run_long = stoppable::may_run_long(&inner.pipeline.lowered.program.body);
    let rows = Rows { state: State::Start, inner, partition, context };
    let rows = stream::try_unfold(rows, |mut rows| async move { Ok(rows.next().await?.map(|batch| (batch, rows))) });
    let rows: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
    if may_run_long { stoppable::stream(rows) } else { rows }
}

/// Decides that a pipeline has no code, for all of its partitions, unless it has some: compiling, building tables and
/// reading files are tasks of tokio's, and who executes the plan has no runtime. DataFusion's operators may do without.
fn without_code(inner: &Inner) -> bool {
    // Another partition may have been faster.
    let _ = inner.codes.code.set(Err("there is no runtime of tokio's".to_owned()));
    matches!(inner.codes.code.get(), Some(Err(_)))
}

/// Where a partition's rows come from.
enum State {
    Start,
    /// DataFusion's operators over the first rows of the input; compiled code follows if there are more.
    First(SendableRecordBatchStream, Input),
    Compiled(Box<Run>),
    /// DataFusion's operators.
    Replaced(SendableRecordBatchStream),
}

/// The rows of a partition.
struct Rows {
    state: State,
    inner: Arc<Inner>,
    partition: usize,
    context: Arc<TaskContext>,
}

impl Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let (failure, may_hand_over) = match &mut self.state {
                State::Start => match self.start().await {
                    Ok(state) => {
                        self.state = state;
                        continue;
                    }
                    Err(failure) => (failure, true),
                },
                State::Compiled(run) => match run.next().await {
                    Ok(batch) => return Ok(batch),
                    Err(failure) => (failure, run.may_hand_over()),
                },
                State::First(rows, input) => {
                    if let Some(batch) = input.work(rows).await.transpose()? {
                        self.inner.tried.out.fetch_add(batch.num_rows(), Ordering::Relaxed);
                        return Ok(Some(batch));
                    }
                    let input = input.clone();
                    self.state = match self.after_first(input).await {
                        Ok(state) => state,
                        // The first rows are out: nobody may start again.
                        Err(failure) => return Err(failure.into_error()),
                    };
                    continue;
                }
                State::Replaced(rows) => {
                    let batch = rows.next().await.transpose()?;
                    if batch.is_none() {
                        self.inner.note_spent();
                    }
                    return Ok(batch);
                }
            };
            // Its memory is what the others need.
            self.state = State::Start;
            if !may_hand_over || !matches!(failure, Failure::Refused(_) | Failure::Superseded) {
                return Err(failure.into_error());
            }
            match hand_over(&self.inner, self.partition, &self.context)? {
                Some(rows) => self.state = State::Replaced(rows),
                None => return Err(failure.into_error()),
            }
        }
    }

    /// Compiled code, or DataFusion's operators where compiling does not pay.
    async fn start(&mut self) -> Result<State, Failure> {
        let (inner, partition, context) = (&self.inner, self.partition, &self.context);
        if Handle::try_current().is_err() && without_code(inner) {
            MetricBuilder::new(&inner.metrics).counter("fallbacks", partition).add(1);
            return Ok(State::Replaced(inner.fallback()?.execute(partition, Arc::clone(context))?));
        }
        if may_lose_groups(inner, context) {
            MetricBuilder::new(&inner.metrics).counter("spills_instead", partition).add(1);
            return Ok(State::Replaced(inner.fallback()?.execute(partition, Arc::clone(context))?));
        }
        match inner.gate() {
            Gate::Compile => self.compiled(None).await,
            Gate::Replaced { rows, compile } => {
                if partition == 0 {
                    self.note_few_rows(rows);
                    if compile {
                        compile_beside(inner);
                    }
                }
                Ok(State::Replaced(inner.fallback()?.execute(partition, Arc::clone(context))?))
            }
            Gate::Slower => {
                if partition == 0 {
                    MetricBuilder::new(&inner.metrics).counter("slower_code", partition).add(1);
                }
                Ok(State::Replaced(inner.fallback()?.execute(partition, Arc::clone(context))?))
            }
            Gate::Try(trial) => {
                self.give()?;
                // The code that goes on reads what the operators read.
                inner.choose_codes(context).await;
                let rows = match stealing::begin(inner, partition, context) {
                    Some(shared) => shared,
                    None => inner.read(partition, context)?,
                };
                let input = Input::new(rows, &inner.pipeline.lowered.output);
                let tried = Arc::clone(inner);
                let first = input.first_tried(trial, inner, move || compile_during_trial(&tried));
                Ok(State::First(deferred_gate::replaced_over(inner, partition, Arc::clone(context), first)?, input))
            }
            Gate::Wait { rows_min } if deferred_gate::changes_over(inner) => {
                self.give()?;
                let input = Input::new(inner.read(partition, context)?, &inner.pipeline.lowered.output);
                let first = input.first(rows_min);
                Ok(State::First(deferred_gate::replaced_over(inner, partition, Arc::clone(context), first)?, input))
            }
            Gate::Wait { rows_min } => {
                let input = Input::new(inner.read(partition, context)?, &inner.pipeline.lowered.output);
                let rows = input.hold(rows_min).await?;
                if !input.has_ended() || input.taken() >= rows_min {
                    return self.compiled(Some(Early { rows, gives: false })).await;
                }
                self.give()?;
                self.note_few_rows(input.taken());
                Ok(State::Replaced(deferred_gate::replaced_over(inner, partition, Arc::clone(context), rows)?))
            }
        }
    }

    /// What comes after the rows that DataFusion's operators took.
    async fn after_first(&mut self, input: Input) -> Result<State, Failure> {
        // Whether there is more shows when it is asked for.
        let more = if input.has_ended() { None } else { input.rest().next().await.transpose()? };
        let Some(batch) = more else {
            self.note_few_rows(input.taken());
            let schema = Arc::clone(self.inner.properties.eq_properties.schema());
            return Ok(State::Replaced(Box::pin(EmptyRecordBatchStream::new(schema))));
        };
        let first = input.taken() - batch.num_rows();
        MetricBuilder::new(&self.inner.metrics).counter("first_rows", self.partition).add(first);
        self.inner.go_on_after(first);
        self.compiled(Some(Early { rows: input.rest_after(batch), gives: true })).await
    }

    /// The rows of this partition come from here, not from a plan that starts again.
    fn give(&self) -> Result<(), Failure> {
        if self.inner.handover.may_give(self.partition) { Ok(()) } else { Err(Failure::Superseded) }
    }

    fn note_few_rows(&self, rows: usize) {
        MetricBuilder::new(&self.inner.metrics).counter(FEW_ROWS, self.partition).add(rows);
    }

    /// Compiles and waits for the tables; DataFusion's operators give the rows if there is no code.
    async fn compiled(&mut self, early: Option<Early>) -> Result<State, Failure> {
        let (inner, partition, context) = (&self.inner, self.partition, &self.context);
        // Before it waits for code and tables, so that a partition that has no rows finds those that have.
        let shared = if early.is_none() { stealing::begin(inner, partition, context) } else { None };
        match code(Arc::clone(inner), Arc::clone(context)).await {
            Ok(code) => {
                inner.note_operators();
                let early = early.or(shared.map(|rows| Early { rows, gives: false }));
                let run = Run::start(inner, &code, partition, context, early).await?;
                // Other partitions have waited for the same code and tables.
                give_way().await;
                Ok(State::Compiled(Box::new(run)))
            }
            Err(reason) => {
                MetricBuilder::new(&inner.metrics).counter("fallbacks", partition).add(1);
                log::warn!("a pipeline runs on DataFusion's operators: {reason}");
                Ok(State::Replaced(match early {
                    Some(early) => deferred_gate::replaced_over(inner, partition, Arc::clone(context), early.rows)?,
                    None => inner.fallback()?.execute(partition, Arc::clone(context))?,
                }))
            }
        }
    }
}
