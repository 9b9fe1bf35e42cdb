//! Reads a partition's rows, sorts them, and gives them in batches.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, RecordOutput, Time};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use weld_plans::HeldExec;

use crate::code::{Key, Layout};

use crate::radix;
use crate::rows::{Sorted, Unsorted};
use crate::ties;

/// After so many keys others get a turn, and it is seen whether anybody waits for the rows.
const KEYS_AT_ONCE: usize = 1 << 20;

/// One partition of the plan.
pub(crate) struct Sort {
    pub(crate) schema: SchemaRef,
    pub(crate) batch_rows: usize,
    pub(crate) reservation: MemoryReservation,
    pub(crate) state: State,
    /// DataFusion's operator, which goes on if memory is refused.
    pub(crate) stock: Arc<dyn ExecutionPlan>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) partition: usize,
    pub(crate) handovers: Count,
    pub(crate) baseline: BaselineMetrics,
}

pub(crate) enum State {
    Reading(SendableRecordBatchStream, Unsorted),
    Narrow(Sorted<u64>, usize),
    Wide(Sorted<u128>, usize),
    Stock(SendableRecordBatchStream),
    Done,
}

impl Sort {
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if matches!(self.state, State::Reading(..)) {
            self.state = self.read().await?;
        }
        let compute = self.baseline.elapsed_compute().clone();
        let batch = match &mut self.state {
            State::Stock(stock) => return stock.next().await.transpose(),
            State::Narrow(sorted, given) => {
                let _timer = compute.timer();
                give(sorted, given, self.batch_rows)?
            }
            State::Wide(sorted, given) => {
                let _timer = compute.timer();
                give(sorted, given, self.batch_rows)?
            }
            State::Reading(..) | State::Done => None,
        };
        if batch.is_none() {
            self.state = State::Done;
            self.reservation.free();
        }
        Ok(batch.map(|batch| batch.record_output(&self.baseline)))
    }

    async fn read(&mut self) -> Result<State> {
        let State::Reading(mut input, mut rows) = std::mem::replace(&mut self.state, State::Done) else {
            return internal_err!("rows are read once");
        };
        let compute = self.baseline.elapsed_compute().clone();
        while let Some(batch) = input.next().await.transpose()? {
            let _timer = compute.timer();
            if batch.num_rows() == 0 {
                continue;
            }
            let bytes = rows.add(batch)?;
            if self.reservation.try_grow(bytes).is_err() {
                return self.hand_over(rows, Some(input));
            }
        }
        drop(input);
        let bytes = rows.end()?;
        if self.reservation.try_grow(bytes).is_err() {
            return self.hand_over(rows, None);
        }
        if rows.rows() == 0 {
            return Ok(State::Done);
        }
        let layout = {
            let _timer = compute.timer();
            rows.layout()
        };
        turn().await;
        if layout.bits() <= u64::BITS {
            return Ok(State::Narrow(sort(rows, layout, &compute).await, 0));
        }
        // Room for keys of 64 bits is there.
        if self.reservation.try_grow(rows.rows() * (size_of::<u128>() - size_of::<u64>())).is_err() {
            return self.hand_over(rows, None);
        }
        Ok(State::Wide(sort(rows, layout, &compute).await, 0))
    }

    /// DataFusion's operator, over the rows that are there and those to come.
    fn hand_over(&mut self, rows: Unsorted, input: Option<SendableRecordBatchStream>) -> Result<State> {
        log::debug!("a sort was refused memory, DataFusion's operator goes on");
        self.handovers.add(1);
        let schema = Arc::clone(&self.schema);
        let held = stream::iter(rows.into_batches().into_iter().map(Ok));
        let rest = held.chain(stream::iter(input).flatten());
        self.reservation.free();
        let [child] = self.stock.children()[..] else { return internal_err!("a sort has one input") };
        let rest = Box::pin(RecordBatchStreamAdapter::new(schema, rest));
        let rest: Arc<dyn ExecutionPlan> = Arc::new(HeldExec::new(child, self.partition, rest));
        let stock = replace_children_if_necessary(Arc::clone(&self.stock), vec![rest])?;
        Ok(State::Stock(stock.execute(self.partition, Arc::clone(&self.context))?))
    }
}

async fn sort<K: Key>(rows: Unsorted, layout: Layout, compute: &Time) -> Sorted<K> {
    let mut timer = compute.timer();
    let mut keys: Vec<K> = rows.keys(&layout);
    timer.done();
    turn().await;
    timer = compute.timer();
    let mut done = 0;
    for part in radix::split(&mut keys) {
        if part.end - done > KEYS_AT_ONCE {
            timer.done();
            turn().await;
            timer = compute.timer();
            done = part.start;
        }
        radix::sort(&mut keys[part]);
    }
    ties::resolve(&mut keys, &layout, rows.columns());
    timer.done();
    let sources = rows.sources(&layout);
    Sorted { schema: rows.schema(), sources, places: layout.places(), keys }
}

fn give<K: Key>(sorted: &Sorted<K>, given: &mut usize, batch_rows: usize) -> Result<Option<RecordBatch>> {
    let start = *given;
    *given = (start + batch_rows).min(sorted.keys.len());
    if start == *given { Ok(None) } else { sorted.batch(start..*given).map(Some) }
}

/// Lets others have a turn.
async fn turn() {
    let mut had = false;
    poll_fn(|context| {
        if std::mem::replace(&mut had, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
