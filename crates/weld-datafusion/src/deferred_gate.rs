//! Pipelines whose rows nobody could count before the run, or may be too cheap to compile for: DataFusion's operators
//! take the first of them.
//!
//! ```text
//! rows, partial groups   operators over the first rows ──► compiled code over the rest, if there is a rest
//! groups                 the first rows are held back  ──► compiled code over all, or operators if those were all
//! ```
//! How many are the first is a number of rows, or shows as they are processed: by what the operators take for a row
//! ([`Trial`]). Then code is made beside them, and they go on until it is there.
//!
//! No row is read twice. Pipelines with joins are never here: their partitions share tables.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::common::Result;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt, future, stream};
use weld_plans::HeldExec;

use crate::exec::Inner;
use crate::gate::{CheapRow, Trial, cheap_row};
use crate::lower::pipeline::Output;
use crate::pace;
use crate::scan::in_declared_types;

/// No more is held back, however few rows it is.
const HELD_BYTES_MAX: usize = 8 << 20;

/// Whether the operators' rows and those of compiled code can follow each other: nothing is put together at the end, or
/// states are that a final aggregate merges, however many there are.
pub(crate) fn changes_over(inner: &Inner) -> bool {
    let is_partial = |aggregate: &AggregateExec| *aggregate.mode() == AggregateMode::Partial;
    let aggregates = || inner.pipeline.fused.iter().filter(|fused| fused.operator == "AggregateExec").count();
    match inner.pipeline.lowered.output {
        Output::Rows(_) | Output::Groups { partial: true, .. } => true,
        // Without groups. Those of an aggregate below would have to be whole.
        Output::Groups { .. } => inner.replaced.plan.downcast_ref().is_some_and(is_partial) && aggregates() == 1,
        Output::Table(_) => false,
    }
}

/// Rows for compiled code in the place of its partition's of the source: some were read before it was there, or may be
/// read by other partitions.
pub(crate) struct Early {
    pub(crate) rows: SendableRecordBatchStream,
    /// Whether rows before them have been given.
    pub(crate) gives: bool,
}

/// What the operators did that began, in all partitions of a run.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    rows: AtomicUsize,
    nanoseconds: AtomicU64,
    /// The same of the first rows, which are not like the others.
    first_rows: AtomicUsize,
    first_nanoseconds: AtomicU64,
    /// How many rows came out.
    pub(crate) out: AtomicUsize,
    compiles: AtomicBool,
    /// What a row is expected to take in code.
    row: OnceLock<CheapRow>,
    /// Whether a partition has gone on with code.
    pub(crate) goes_on: AtomicBool,
}

impl Tried {
    /// Whether the caller is to have code made, after the operators took `spent` for more rows.
    pub(crate) fn repays(&self, trial: &Trial, row: CheapRow, rows: usize, spent: Duration) -> bool {
        let spent = spent.as_nanos() as u64;
        if self.first_rows.load(Ordering::Relaxed) < row.first_rows {
            self.first_rows.fetch_add(rows, Ordering::Relaxed);
            self.first_nanoseconds.fetch_add(spent, Ordering::Relaxed);
            return false;
        }
        let all_rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        let all_spent = Duration::from_nanos(self.nanoseconds.fetch_add(spent, Ordering::Relaxed) + spent);
        let row = row.of(all_rows + self.first_rows.load(Ordering::Relaxed), self.out.load(Ordering::Relaxed));
        trial.repays(row, all_spent, all_rows) && !self.compiles.swap(true, Ordering::Relaxed)
    }

    /// Nanoseconds of a row in the operators, if they took enough.
    pub(crate) fn of_row(&self) -> Option<f64> {
        let spent = Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed));
        pace::of_row(self.rows.load(Ordering::Relaxed), spent)
    }

    /// What the operators took for all rows.
    pub(crate) fn spent(&self) -> Duration {
        let first = self.first_nanoseconds.load(Ordering::Relaxed);
        Duration::from_nanos(first + self.nanoseconds.load(Ordering::Relaxed))
    }
}

/// The input of a partition, of which two readers take their parts one after the other.
#[derive(Clone)]
pub(crate) struct Input(Arc<Mutex<Shared>>);

struct Shared {
    rows: SendableRecordBatchStream,
    taken: usize,
    /// Since when the operators work, while they do.
    works_since: Option<Instant>,
    /// For how long they have worked since it was last asked for.
    spent: Duration,
    ended: bool,
    /// Whether the items of lists count: states that are merged.
    counts_items: bool,
}

impl Shared {
    fn pause(&mut self) {
        self.spent += self.works_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }
}

/// Whether the rows of a pipeline are counted by the items of lists in them: states that are merged.
pub(crate) fn counts_items(output: &Output) -> bool {
    matches!(output, Output::Groups { accumulated: Some(of), .. } if of.merges)
}

/// How many rows a batch has to do with.
fn rows_of(batch: &RecordBatch, counts_items: bool) -> usize {
    let items = |column: &ArrayRef| column.as_list_opt::<i32>().map_or(0, |lists| lists.values().len());
    let items = batch.columns().iter().filter(|_| counts_items).map(items);
    items.max().unwrap_or(0).max(batch.num_rows())
}

impl Input {
    pub(crate) fn new(rows: SendableRecordBatchStream, output: &Output) -> Input {
        let counts_items = counts_items(output);
        Input(Arc::new(Mutex::new(Shared {
            rows,
            taken: 0,
            works_since: None,
            spent: Duration::ZERO,
            ended: false,
            counts_items,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many rows were read, or as how many they count.
    pub(crate) fn taken(&self) -> usize {
        self.lock().taken
    }

    /// Whether there are no more rows.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let mut shared = self.lock();
        let next = shared.rows.poll_next_unpin(context);
        match &next {
            Poll::Ready(Some(Ok(batch))) => shared.taken += rows_of(batch, shared.counts_items),
            Poll::Ready(None) => shared.ended = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        next
    }

    /// The rows until `rows` were read in all.
    pub(crate) fn first(&self, rows: usize) -> SendableRecordBatchStream {
        let input = self.clone();
        self.stream(stream::poll_fn(move |context| match input.taken() >= rows {
            true => Poll::Ready(None),
            false => input.poll(context),
        }))
    }

    /// The rows until there is code, which `compile` has made as soon as that is expected to pay.
    pub(crate) fn first_tried(
        &self,
        trial: Trial,
        inner: &Arc<Inner>,
        compile: impl Fn() + Send + 'static,
    ) -> SendableRecordBatchStream {
        let (input, inner, mut known) = (self.clone(), Arc::clone(inner), 0);
        let row = *inner.tried.row.get_or_init(|| cheap_row(&inner));
        self.stream(stream::poll_fn(move |context| {
            let (taken, spent) = input.stop();
            if inner.tried.repays(&trial, row, taken - known, spent) {
                compile();
            }
            known = taken;
            if matches!(inner.codes.code.get(), Some(Ok(_))) {
                return Poll::Ready(None);
            }
            let next = input.poll(context);
            input.resume();
            next
        }))
    }

    /// The next rows of operators over this input, whose time counts.
    pub(crate) async fn work(&self, rows: &mut SendableRecordBatchStream) -> Option<Result<RecordBatch>> {
        let next = |context: &mut Context<'_>| {
            self.resume();
            let next = rows.poll_next_unpin(context);
            self.lock().pause();
            next
        };
        future::poll_fn(next).await
    }

    fn resume(&self) {
        self.lock().works_since = Some(Instant::now());
    }

    /// How many rows were read, and for how long the operators have worked since this was asked last.
    fn stop(&self) -> (usize, Duration) {
        let mut shared = self.lock();
        shared.pause();
        (shared.taken, std::mem::take(&mut shared.spent))
    }

    /// The rows that are left.
    pub(crate) fn rest(&self) -> SendableRecordBatchStream {
        let input = self.clone();
        self.stream(stream::poll_fn(move |context| input.poll(context)))
    }

    /// A batch that was read, and the rows that are left.
    pub(crate) fn rest_after(&self, batch: RecordBatch) -> SendableRecordBatchStream {
        self.stream(stream::iter([Ok(batch)]).chain(self.rest()))
    }

    fn stream(&self, rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static) -> SendableRecordBatchStream {
        let schema = self.lock().rows.schema();
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    /// Waits for so many rows, or a few megabytes; gives back all rows from the first on.
    pub(crate) async fn hold(&self, rows: usize) -> Result<SendableRecordBatchStream> {
        // Batches of one build side share the buffers of its texts: the counter takes each buffer once.
        let (mut first, mut held, mut memory) = (self.first(rows), Vec::new(), RecordBatchMemoryCounter::new());
        while memory.memory_usage() < HELD_BYTES_MAX
            && let Some(batch) = first.next().await.transpose()?
        {
            memory.count_batch(&batch);
            held.push(Ok(batch));
        }
        // The end shows when it is asked for.
        if !self.has_ended()
            && memory.memory_usage() < HELD_BYTES_MAX
            && let Some(batch) = self.rest().next().await
        {
            held.push(batch);
        }
        Ok(self.stream(stream::iter(held).chain(self.rest())))
    }
}

/// DataFusion's operators over these rows of the input.
pub(crate) fn replaced_over(
    inner: &Inner,
    partition: usize,
    context: Arc<TaskContext>,
    rows: SendableRecordBatchStream,
) -> Result<SendableRecordBatchStream> {
    let rows = in_declared_types(inner.source(), rows);
    inner.restore_over(Arc::new(HeldExec::new(inner.source(), partition, rows)))?.execute(partition, context)
}
