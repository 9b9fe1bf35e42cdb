//! Reads rows, sorts them, and gives them in batches.
//!
//! One partition is sorted by the task that asks for its rows, which lets others have a turn now and then. Several,
//! which become one, are read by a task each; as many threads sort, and as many tasks make the batches of the result.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, RecordOutput, Time};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use tokio::runtime::Handle;
use weld_plans::HeldExec;

use crate::best::Best;
use crate::normalised_key::{Key, Layout};
use crate::parallel;
use crate::radix;
use crate::rows::{Sorted, Unsorted};
use crate::ties;

/// After so many keys others get a turn, and it is seen whether anybody waits for the rows.
const KEYS_AT_ONCE: usize = 1 << 20;

/// So few rows are sorted by one thread.
const FEW: usize = 1 << 16;

/// What is sorted: one partition of the plan, or all of them.
pub(crate) struct Sort {
    pub(crate) schema: SchemaRef,
    pub(crate) order: LexOrdering,
    pub(crate) batch_rows: usize,
    /// So many rows are given, if there is a limit.
    pub(crate) limit: Option<usize>,
    /// Memory for keys of 128 bits, and what the partitions have.
    pub(crate) reservation: MemoryReservation,
    pub(crate) partitions: Vec<MemoryReservation>,
    pub(crate) state: State,
    /// DataFusion's sort, which goes on if memory is refused.
    pub(crate) stock: Arc<dyn ExecutionPlan>,
    pub(crate) context: Arc<TaskContext>,
    pub(crate) handovers: Count,
    pub(crate) baseline: BaselineMetrics,
    pub(crate) stop: Stop,
}

pub(crate) enum State {
    Reading(Vec<Input>),
    Narrow(Giving<u64>),
    Wide(Giving<u128>),
    Stock(SendableRecordBatchStream),
    Done,
}

/// A partition, as it is read.
pub(crate) struct Input {
    pub(crate) partition: usize,
    pub(crate) stream: Option<SendableRecordBatchStream>,
    pub(crate) rows: Unsorted,
    /// What drops rows before they are sorted, if there is a limit.
    pub(crate) best: Option<Best>,
    pub(crate) reservation: MemoryReservation,
    pub(crate) is_refused: bool,
}

/// Tells threads that nobody waits for them.
#[derive(Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Input {
    async fn read(mut self, compute: Time) -> Result<Input> {
        while let Some(stream) = &mut self.stream {
            let Some(batch) = stream.next().await.transpose()? else {
                self.stream = None;
                break;
            };
            let _timer = compute.timer();
            if batch.num_rows() > 0 {
                self.add(batch)?;
            }
            if self.is_refused {
                return Ok(self);
            }
        }
        let _timer = compute.timer();
        if let Some(mut best) = self.best.take() {
            best.finish();
            let rows = best.end()?;
            self.reservation.free();
            for batch in rows {
                self.add(batch)?;
            }
        }
        let bytes = self.rows.end()?;
        self.is_refused |= self.reservation.try_grow(bytes).is_err();
        Ok(self)
    }

    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        let reserved = match &mut self.best {
            Some(best) => {
                let bytes = best.add(batch)?;
                self.reservation.try_resize(bytes)
            }
            None => {
                let bytes = self.rows.add(batch)?;
                self.reservation.try_grow(bytes)
            }
        };
        self.is_refused |= reserved.is_err();
        Ok(())
    }

    /// All rows that are held.
    fn into_batches(self) -> Vec<RecordBatch> {
        let best = self.best.map(|mut best| {
            best.finish();
            best.take_batches()
        });
        best.into_iter().flatten().chain(self.rows.into_batches()).collect()
    }
}

impl Sort {
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if matches!(self.state, State::Reading(..)) {
            self.state = self.read().await?;
        }
        let compute = self.baseline.elapsed_compute().clone();
        let batch = match &mut self.state {
            State::Stock(stock) => return stock.next().await.transpose(),
            State::Narrow(giving) => giving.next(&compute).await?,
            State::Wide(giving) => giving.next(&compute).await?,
            State::Reading(..) | State::Done => None,
        };
        if batch.is_none() {
            self.state = State::Done;
            self.reservation.free();
            self.partitions.clear();
        }
        Ok(batch.map(|batch| batch.record_output(&self.baseline)))
    }

    async fn read(&mut self) -> Result<State> {
        let State::Reading(inputs) = std::mem::replace(&mut self.state, State::Done) else {
            return internal_err!("rows are read once");
        };
        let compute = self.baseline.elapsed_compute().clone();
        // Without a runtime of tokio's there are no tasks.
        let mut threads = if Handle::try_current().is_ok() { inputs.len() } else { 1 };
        let mut read = Vec::new();
        if threads == 1 {
            for input in inputs {
                read.push(input.read(compute.clone()).await?);
            }
        } else {
            let spawn = |input: Input| SpawnedTask::spawn(input.read(compute.clone()));
            let tasks: Vec<_> = inputs.into_iter().map(spawn).collect();
            for task in tasks {
                read.push(task.join_unwind().await.map_err(ended)??);
            }
        }
        let rows: usize = read.iter().map(|input| input.rows.rows()).sum();
        if read.iter().any(|input| input.is_refused) {
            return self.hand_over(read);
        }
        if rows == 0 {
            return Ok(State::Done);
        }
        // Keys of 64 bits are paid for.
        if self.reservation.try_grow(rows * (size_of::<u128>() - size_of::<u64>())).is_err() {
            return self.hand_over(read);
        }
        let mut inputs = read.into_iter();
        let Some(mut all) = inputs.next() else { return Ok(State::Done) };
        for input in inputs {
            all.rows.append(input.rows);
            self.partitions.push(input.reservation);
        }
        self.partitions.push(all.reservation);
        if rows <= FEW {
            threads = 1;
        }
        self.sorted(all.rows, threads, compute).await
    }

    async fn sorted(&mut self, rows: Unsorted, threads: usize, compute: Time) -> Result<State> {
        let count = rows.rows();
        let stop = Arc::clone(&self.stop.0);
        let limit = self.limit;
        let sorts = async move {
            let layout = timed(&compute, || rows.layout(threads));
            turn().await;
            Ok(if layout.bits() <= u64::BITS {
                State::Narrow(Giving::of(sort(rows, layout, threads, &compute, &stop).await?, limit))
            } else {
                State::Wide(Giving::of(sort(rows, layout, threads, &compute, &stop).await?, limit))
            })
        };
        let state =
            if threads == 1 { sorts.await } else { SpawnedTask::spawn(sorts).join_unwind().await.map_err(ended)? };
        if matches!(state, Ok(State::Narrow(_))) {
            self.reservation.shrink(count * (size_of::<u128>() - size_of::<u64>()));
        }
        state
    }

    /// DataFusion's operator, over the rows that are there and those to come.
    fn hand_over(&mut self, inputs: Vec<Input>) -> Result<State> {
        log::debug!("a sort was refused memory, DataFusion's operator goes on");
        self.handovers.add(1);
        self.reservation.free();
        let [child] = self.stock.children()[..] else { return internal_err!("a sort has one input") };
        let mut streams = Vec::new();
        for mut input in inputs {
            input.reservation.free();
            let (partition, rest) = (input.partition, input.stream.take());
            let held = stream::iter(input.into_batches().into_iter().map(Ok));
            let rest = held.chain(stream::iter(rest).flatten());
            let rest = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rest));
            let rest: Arc<dyn ExecutionPlan> = Arc::new(HeldExec::new(child, partition, rest));
            let mut stock = replace_children_if_necessary(Arc::clone(&self.stock), vec![rest])?;
            if let Some(sort) = stock.downcast_ref::<SortExec>().filter(|_| self.limit.is_some()) {
                // With a filter of its own: the other one drops rows that are as good as the last of the best here.
                stock = Arc::new(sort.with_fetch(None).with_fetch(self.limit));
            }
            streams.push(stock.execute(partition, Arc::clone(&self.context))?);
        }
        if streams.len() == 1 {
            return Ok(streams.pop().map_or(State::Done, State::Stock));
        }
        let merged = StreamingMergeBuilder::new()
            .with_streams(streams)
            .with_schema(Arc::clone(&self.schema))
            .with_expressions(&self.order)
            .with_metrics(self.baseline.clone())
            .with_batch_size(self.batch_rows)
            .with_fetch(self.limit)
            .with_reservation(self.reservation.new_empty());
        Ok(State::Stock(merged.build()?))
    }
}

async fn sort<K: Key>(
    rows: Unsorted,
    layout: Layout,
    threads: usize,
    time: &Time,
    stop: &AtomicBool,
) -> Result<Sorted<K>> {
    let (mut keys, lengths): (Vec<K>, _) = timed(time, || rows.keys(&layout, threads));
    turn().await;
    let ranges = parallel::cut(&mut keys, lengths);
    if threads > 1 {
        let work = parallel::shares(ranges, threads);
        timed(time, || {
            parallel::each(work, |ranges| {
                let mut aside = Vec::new();
                let wanted = ranges.into_iter().take_while(|_| !stop.load(Ordering::Relaxed));
                wanted.for_each(|range| radix::sort(range, &mut aside));
            })
        });
    } else {
        let (mut aside, mut done) = (Vec::new(), 0);
        for range in ranges {
            done += range.len();
            timed(time, || radix::sort(range, &mut aside));
            if done > KEYS_AT_ONCE {
                turn().await;
                done = 0;
            }
        }
    }
    timed(time, || ties::resolve(&mut keys, &layout, rows.columns()));
    let sources = timed(time, || rows.sources(&layout))?;
    Ok(Sorted { schema: rows.schema(), sources, places: layout.places(), keys, batch_rows: rows.batch_rows(), threads })
}

fn timed<R>(time: &Time, work: impl FnOnce() -> R) -> R {
    let _timer = time.timer();
    work()
}

/// Sorted rows, and how many of them were given.
pub(crate) struct Giving<K> {
    sorted: Arc<Sorted<K>>,
    given: usize,
    wanted: usize,
    /// Batches that are being made, in the order of the result.
    ahead: VecDeque<SpawnedTask<Result<RecordBatch>>>,
}

impl<K: Key> Giving<K> {
    fn of(sorted: Sorted<K>, limit: Option<usize>) -> Giving<K> {
        let wanted = limit.map_or(sorted.keys.len(), |limit| limit.min(sorted.keys.len()));
        Giving { sorted: Arc::new(sorted), given: 0, wanted, ahead: VecDeque::new() }
    }

    async fn next(&mut self, compute: &Time) -> Result<Option<RecordBatch>> {
        let threads = self.sorted.threads;
        if threads == 1 {
            let rows = self.rows();
            return timed(compute, || if rows.is_empty() { Ok(None) } else { self.sorted.batch(rows).map(Some) });
        }
        while self.ahead.len() < 2 * threads {
            let rows = self.rows();
            if rows.is_empty() {
                break;
            }
            let (sorted, compute) = (Arc::clone(&self.sorted), compute.clone());
            self.ahead.push_back(SpawnedTask::spawn(async move { timed(&compute, || sorted.batch(rows)) }));
        }
        match self.ahead.pop_front() {
            Some(task) => task.join_unwind().await.map_err(ended)?.map(Some),
            None => Ok(None),
        }
    }

    fn rows(&mut self) -> std::ops::Range<usize> {
        let start = self.given;
        self.given = (start + self.sorted.batch_rows).min(self.wanted);
        start..self.given
    }
}

fn ended(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
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
