//! Runs pipelines: feeds a partition's batches to compiled code, builds tables on the way in, hands rows out.
//!
//! ```text
//! compile ──► table ──► run ──► rows
//!    │ no code            │ refused memory
//!    └──► fallback        └──► handover: the operators that the pipeline replaced
//! ```
//! Dropping a stream raises the cancellation flag of its run.

mod compile;
mod failure;
mod grouping;
mod handover;
mod run;
mod slices;
mod table;

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

pub(crate) use self::handover::Handover;
pub(crate) use self::table::Table;
use crate::exec::Inner;

use self::compile::code;
use self::failure::Failure;
use self::handover::hand_over;
use self::run::Run;

/// One partition of a pipeline that gives rows.
pub(crate) fn stream(inner: Arc<Inner>, partition: usize, context: Arc<TaskContext>) -> SendableRecordBatchStream {
    let schema = Arc::clone(inner.properties.eq_properties.schema());
    let rows = Rows { state: State::Start, inner, partition, context };
    let rows = stream::try_unfold(rows, |mut rows| async move { Ok(rows.next().await?.map(|batch| (batch, rows))) });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// Where a partition's rows come from.
enum State {
    Start,
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
                State::Replaced(rows) => return rows.next().await.transpose(),
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

    /// Compiles and waits for the tables; DataFusion's operators give the rows if there is no code.
    async fn start(&mut self) -> Result<State, Failure> {
        let (inner, partition, context) = (&self.inner, &self.partition, &self.context);
        match code(Arc::clone(inner), Arc::clone(context)).await {
            Ok(code) => Ok(State::Compiled(Box::new(Run::start(inner, &code, *partition, context).await?))),
            Err(reason) => {
                MetricBuilder::new(&inner.metrics).counter("fallbacks", *partition).add(1);
                log::warn!("a pipeline runs on DataFusion's operators: {reason}");
                Ok(State::Replaced(inner.fallback()?.execute(*partition, Arc::clone(context))?))
            }
        }
    }
}
