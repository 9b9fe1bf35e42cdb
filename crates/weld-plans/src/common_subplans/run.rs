//! One execution of a common subplan: its rows on their way to all readers.
//!
//! ```text
//! subplan, partition p ──► kept batches ──► reader 0 at batch 7, reader 1 not begun, ..
//! ```
//! Whoever needs the next batch asks the subplan for it; nobody waits for another reader to read. What a reader has
//! still to read is kept in memory that the query's pool has granted. When the pool refuses: readers that have not
//! begun execute a copy of the subplan, so nothing is kept for them; what is left to keep, for readers that have begun
//! and are behind, goes to disk.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use arrow::array::RecordBatch;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, SpillMetrics};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, SpillManager};
use futures::StreamExt;

/// Of a limited pool, one part in so many is kept at most: other operators of the query need memory, too.
const POOL_SHARE: usize = 4;

/// One execution, of all partitions.
pub(super) struct Run {
    /// What the subplan is executed with.
    context: Arc<TaskContext>,
    /// Those of other partitions of the plan, if each is executed with one of its own.
    others: Mutex<Vec<Arc<TaskContext>>>,
    plan: Arc<dyn ExecutionPlan>,
    partitions: Vec<Partition>,
    readers: Mutex<Vec<Reader>>,
    /// Where readers that are on their own get their rows.
    copies: Vec<OnceLock<Arc<dyn ExecutionPlan>>>,
    /// No more is kept in memory by a partition.
    bytes_max: usize,
    spill: SpillManager,
    refused: Count,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    NotBegun,
    /// It reads what this execution gives, in every partition.
    Attached,
    /// It executes a copy of the subplan.
    OnItsOwn,
}

struct Partition {
    state: Mutex<State>,
    waiting: Arc<Waiting>,
}

struct State {
    input: Input,
    /// The number of the first kept batch.
    first: usize,
    kept: VecDeque<Kept>,
    /// What each reader reads next; nothing once it has ended.
    positions: Vec<Option<usize>>,
    begun: Vec<bool>,
    /// Who came while the input was being polled.
    came_meanwhile: Vec<Waker>,
    counter: RecordBatchMemoryCounter,
    memory: MemoryReservation,
}

enum Input {
    NotBegun,
    Waits(SendableRecordBatchStream),
    /// A reader polls it.
    IsPolled,
    /// With the error that ended it.
    Ended(Option<Arc<DataFusionError>>),
}

/// A batch that is kept.
#[derive(Clone)]
pub(super) enum Kept {
    Memory(RecordBatch, usize),
    /// The batch of this number in a file.
    File(Arc<dyn SpillFile>, usize),
}

/// What a reader gets.
pub(super) enum Given {
    /// It was computed for this reader.
    Computed(RecordBatch),
    /// It was there.
    Kept(Kept),
}

/// How a reader gets its rows.
pub(super) enum Begun {
    Shared,
    Own(Arc<dyn ExecutionPlan>),
}

/// Readers that wait for the next batch.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    fn add(&self, waker: &Waker) {
        let mut wakers = lock(&self.0);
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    fn wake_all(&self) {
        let wakers = std::mem::take(&mut *lock(&self.0));
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("partitions", &self.partitions.len()).finish_non_exhaustive()
    }
}

impl Run {
    pub(super) fn new(
        name: &str,
        plan: &Arc<dyn ExecutionPlan>,
        readers: usize,
        context: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Run {
        let partitions = plan.output_partitioning().partition_count();
        let pool = context.memory_pool();
        let bytes_max = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / POOL_SHARE / partitions.max(1),
            _ => usize::MAX,
        };
        let partition = |index| {
            let memory = MemoryConsumer::new(format!("{name}[{index}]")).with_can_spill(true).register(pool);
            let state = State {
                input: Input::NotBegun,
                first: 0,
                kept: VecDeque::new(),
                positions: vec![Some(0); readers],
                begun: vec![false; readers],
                came_meanwhile: Vec::new(),
                counter: RecordBatchMemoryCounter::new(),
                memory,
            };
            Partition { state: Mutex::new(state), waiting: Arc::default() }
        };
        Run {
            context: Arc::clone(context),
            others: Mutex::default(),
            plan: Arc::clone(plan),
            partitions: (0..partitions).map(partition).collect(),
            readers: Mutex::new(vec![Reader::NotBegun; readers]),
            copies: (0..readers).map(|_| OnceLock::new()).collect(),
            bytes_max,
            spill: SpillManager::new(context.runtime_env(), SpillMetrics::new(metrics, 0), plan.schema()),
            refused: MetricBuilder::new(metrics).global_counter("readers_on_their_own"),
        }
    }

    pub(super) fn is_of(&self, context: &Arc<TaskContext>) -> bool {
        Arc::ptr_eq(&self.context, context) || lock(&self.others).iter().any(|other| Arc::ptr_eq(other, context))
    }

    /// A partition of the plan with another context belongs to this execution, too.
    pub(super) fn add(&self, context: &Arc<TaskContext>) {
        if !self.is_of(context) {
            lock(&self.others).push(Arc::clone(context));
        }
    }

    pub(super) fn spill(&self) -> &SpillManager {
        &self.spill
    }

    /// A reader begins a partition: the first that it begins decides for all.
    pub(super) fn begin(&self, reader: usize, partition: usize) -> Result<Begun> {
        let mut readers = lock(&self.readers);
        if readers[reader] == Reader::OnItsOwn {
            drop(readers);
            return Ok(Begun::Own(self.copy(reader)?));
        }
        readers[reader] = Reader::Attached;
        drop(readers);
        let has_begun = std::mem::replace(&mut lock(&self.partitions[partition].state).begun[reader], true);
        // The same partition once more, in the same query: that is between whoever does this and the subplan.
        Ok(if has_begun { Begun::Own(Arc::clone(&self.plan)) } else { Begun::Shared })
    }

    fn copy(&self, reader: usize) -> Result<Arc<dyn ExecutionPlan>> {
        let copy = &self.copies[reader];
        if copy.get().is_none() {
            // Another partition of the reader may have been faster.
            let _ = copy.set(reset_plan_states(Arc::clone(&self.plan))?);
        }
        copy.get().cloned().ok_or_else(|| internal_datafusion_err!("a copy of a subplan is gone"))
    }

    /// The next batch of a reader.
    pub(super) fn poll(&self, reader: usize, index: usize, context: &mut Context<'_>) -> Poll<Option<Result<Given>>> {
        let partition = &self.partitions[index];
        loop {
            let mut state = lock(&partition.state);
            let Some(position) = state.positions[reader] else { return Poll::Ready(None) };
            if let Some(kept) = state.kept.get(position - state.first).cloned() {
                state.positions[reader] = Some(position + 1);
                state.trim(&lock(&self.readers));
                return Poll::Ready(Some(Ok(Given::Kept(kept))));
            }
            let input = match std::mem::replace(&mut state.input, Input::IsPolled) {
                Input::Ended(error) => {
                    state.input = Input::Ended(error.clone());
                    state.positions[reader] = None;
                    return Poll::Ready(error.map(|error| Err(DataFusionError::Shared(error))));
                }
                Input::IsPolled => {
                    state.came_meanwhile.push(context.waker().clone());
                    return Poll::Pending;
                }
                Input::NotBegun => None,
                Input::Waits(input) => Some(input),
            };
            drop(state);
            partition.waiting.add(context.waker());
            let polling = Polling { partition };
            let input = input.map_or_else(|| self.plan.execute(index, Arc::clone(&self.context)), Ok);
            let mut input = match input {
                Ok(input) => input,
                Err(error) => {
                    std::mem::forget(polling);
                    partition.put_back(Input::Ended(Some(Arc::new(error))));
                    partition.waiting.wake_all();
                    continue;
                }
            };
            let waker = Waker::from(Arc::clone(&partition.waiting));
            let polled = input.poll_next_unpin(&mut Context::from_waker(&waker));
            std::mem::forget(polling);
            let Poll::Ready(next) = polled else {
                partition.put_back(Input::Waits(input));
                return Poll::Pending;
            };
            let given = self.take(reader, index, input, next);
            partition.waiting.wake_all();
            if let Some(batch) = given {
                return Poll::Ready(Some(Ok(Given::Computed(batch))));
            }
        }
    }

    /// What the input has given: the batch for the reader that has asked for it, after it was kept for the others.
    fn take(
        &self,
        reader: usize,
        index: usize,
        input: SendableRecordBatchStream,
        next: Option<Result<RecordBatch>>,
    ) -> Option<RecordBatch> {
        let partition = &self.partitions[index];
        let next = match next {
            None => Input::Ended(None),
            Some(Err(error)) => Input::Ended(Some(Arc::new(error))),
            Some(Ok(batch)) if batch.num_rows() == 0 => Input::Waits(input),
            Some(Ok(batch)) => match self.keep(reader, index, &batch) {
                Ok(()) => {
                    partition.put_back(Input::Waits(input));
                    return Some(batch);
                }
                Err(error) => Input::Ended(Some(Arc::new(error))),
            },
        };
        partition.put_back(next);
        None
    }

    /// Keeps a batch that `reader` gets now, for the others.
    fn keep(&self, reader: usize, index: usize, batch: &RecordBatch) -> Result<()> {
        let mut state = lock(&self.partitions[index].state);
        let position = state.first + state.kept.len();
        state.positions[reader] = Some(position + 1);
        if !state.is_awaited(position, &lock(&self.readers)) {
            state.first = position + 1;
            return Ok(());
        }
        let bytes = state.counter.count_batch(batch);
        let is_granted = |state: &State| {
            state.memory.size().saturating_add(bytes) <= self.bytes_max && state.memory.try_grow(bytes).is_ok()
        };
        if is_granted(&state) {
            state.kept.push_back(Kept::Memory(batch.clone(), bytes));
            return Ok(());
        }
        let readers = self.detach();
        state.trim(&readers);
        for other in &self.partitions {
            if let Ok(mut other) = other.state.try_lock() {
                other.trim(&readers);
            }
        }
        if !state.is_awaited(position, &readers) {
            state.first = position + 1;
            return Ok(());
        }
        drop(readers);
        if is_granted(&state) {
            state.kept.push_back(Kept::Memory(batch.clone(), bytes));
            return Ok(());
        }
        state.spill(batch, &self.spill)
    }

    /// Readers that have not begun are on their own from now on.
    fn detach(&self) -> MutexGuard<'_, Vec<Reader>> {
        let mut readers = lock(&self.readers);
        for reader in readers.iter_mut().filter(|reader| **reader == Reader::NotBegun) {
            *reader = Reader::OnItsOwn;
            self.refused.add(1);
        }
        readers
    }

    /// A reader needs nothing more of a partition.
    pub(super) fn end(&self, reader: usize, partition: usize) {
        let mut state = lock(&self.partitions[partition].state);
        state.positions[reader] = None;
        state.trim(&lock(&self.readers));
        let is_over = state.positions.iter().all(Option::is_none);
        if is_over && let Input::Waits(input) = std::mem::replace(&mut state.input, Input::Ended(None)) {
            drop(state);
            drop(input);
        }
    }
}

impl Partition {
    fn put_back(&self, input: Input) {
        let mut state = lock(&self.state);
        state.input = input;
        let came = std::mem::take(&mut state.came_meanwhile);
        drop(state);
        came.into_iter().for_each(Waker::wake);
    }
}

/// The input is lost when it panics: other readers must not wait for it.
struct Polling<'a> {
    partition: &'a Partition,
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        let error = internal_datafusion_err!("a subplan that is read more than once has panicked");
        self.partition.put_back(Input::Ended(Some(Arc::new(error))));
        self.partition.waiting.wake_all();
    }
}

impl State {
    /// Whether a reader has still to read the batch.
    fn is_awaited(&self, batch: usize, readers: &[Reader]) -> bool {
        self.still_to_read(readers).any(|position| position <= batch)
    }

    fn still_to_read(&self, readers: &[Reader]) -> impl Iterator<Item = usize> {
        let attached = readers.iter().map(|reader| *reader != Reader::OnItsOwn);
        self.positions.iter().zip(attached).filter_map(|(position, is_attached)| position.filter(|_| is_attached))
    }

    /// Forgets what all have read.
    fn trim(&mut self, readers: &[Reader]) {
        let needed = self.still_to_read(readers).min().unwrap_or(usize::MAX);
        while self.first < needed
            && let Some(kept) = self.kept.pop_front()
        {
            self.first += 1;
            if let Kept::Memory(_, bytes) = kept {
                self.memory.shrink(bytes);
            }
        }
        if self.kept.is_empty() {
            self.counter = RecordBatchMemoryCounter::new();
        }
    }

    /// Writes what is kept in memory, and `batch` after it, to a file.
    fn spill(&mut self, batch: &RecordBatch, spill: &SpillManager) -> Result<()> {
        let is_in_memory = |kept: &Kept| matches!(kept, Kept::Memory(..));
        let start = self.kept.iter().position(is_in_memory).unwrap_or(self.kept.len());
        let mut file = spill.create_in_progress_file("keeping rows of a common subplan")?;
        for kept in self.kept.range(start..) {
            if let Kept::Memory(batch, _) = kept {
                file.append_batch(batch)?;
            }
        }
        file.append_batch(batch)?;
        let file = file.finish()?.ok_or_else(|| internal_datafusion_err!("a spilled batch has no file"))?;
        let batches = self.kept.len() - start + 1;
        self.kept.truncate(start);
        self.kept.extend((0..batches).map(|number| Kept::File(Arc::clone(&file), number)));
        self.memory.free();
        self.counter = RecordBatchMemoryCounter::new();
        Ok(())
    }
}
