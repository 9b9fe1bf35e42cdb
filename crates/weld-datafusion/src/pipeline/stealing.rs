//! Work stealing: a partition that has read all of its input takes batches of other partitions' inputs.
//!
//! ```text
//! partition 0:  input 0 ▮▮▮▮▮▮▮▮▮▮
//! partition 1:  input 1 ▮, then input 0, a batch at a time while partition 0 processes another
//! ```
//! Scans share their row groups, but a filter may leave the rows of one of them, and an exchange that would spread
//! these over the partitions may have been taken out of the plan. No batch is copied or queued: whoever has nothing to
//! do polls the input of another partition.
//!
//! Batches are only taken where nobody relies on the order or on the partitioning of the rows, and only from partitions
//! that somebody reads: who executes one partition alone gets its rows and no others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{Count, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlanProperties, Partitioning};
use futures::{StreamExt, stream};

use super::handover::gives_the_same;
use crate::exec::Inner;

/// The inputs of all partitions of a pipeline.
#[derive(Default)]
pub(crate) struct Inputs {
    state: Mutex<State>,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct State {
    /// Of the query that reads them.
    context: Weak<TaskContext>,
    inputs: Vec<Input>,
}

#[derive(Default)]
enum Input {
    /// Its partition was not asked for rows: these belong to nobody else.
    #[default]
    NotBegun,
    /// Nothing was read of it.
    Unopened,
    Waits(SendableRecordBatchStream),
    IsPolled,
    Ended,
    /// It panicked when it was polled.
    Lost,
}

/// The partitions that wait for a batch, each with its waker.
#[derive(Default)]
struct Waiting(Mutex<Vec<Option<Waker>>>);

impl Waiting {
    fn add(&self, partition: usize, waker: &Waker) {
        let mut wakers = lock(&self.0);
        if wakers.len() <= partition {
            wakers.resize(partition + 1, None);
        }
        wakers[partition] = Some(waker.clone());
    }

    fn remove(&self, partition: usize) {
        if let Some(waker) = lock(&self.0).get_mut(partition) {
            *waker = None;
        }
    }

    /// Whether there were any.
    fn wake_all(&self) -> bool {
        let wakers: Vec<Waker> = lock(&self.0).iter_mut().filter_map(Option::take).collect();
        let any = !wakers.is_empty();
        wakers.into_iter().for_each(Waker::wake);
        any
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The input of a partition and, after it, what other partitions have still to read. `None` where batches must stay in
/// their partitions.
pub(super) fn begin(
    inner: &Arc<Inner>,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Option<SendableRecordBatchStream> {
    let (opens, of) = (Arc::clone(inner), Arc::clone(context));
    begin_opened_by(inner, &inner.reading.inputs, partition, context, move |partition| opens.read(partition, &of))
}

/// The same of a run of the source whose inputs these are, which `open` opens.
pub(super) fn begin_opened_by(
    inner: &Arc<Inner>,
    inputs: &Arc<Inputs>,
    partition: usize,
    context: &Arc<TaskContext>,
    open: impl FnMut(usize) -> Result<SendableRecordBatchStream> + Send + 'static,
) -> Option<SendableRecordBatchStream> {
    if !may_steal(inner, context) || !inputs.begin(partition, partitions(inner), context) {
        return None;
    }
    let (metrics, mut stolen) = (inner.metrics.clone(), None::<Count>);
    let mut reader = Reader {
        inputs: Arc::clone(inputs),
        partition,
        open,
        stole: move || {
            stolen.get_or_insert_with(|| MetricBuilder::new(&metrics).counter("stolen_batches", partition)).add(1)
        },
        next: None,
    };
    let batches = stream::poll_fn(move |context| reader.poll(context));
    Some(Box::pin(RecordBatchStreamAdapter::new(inner.source().schema(), batches)))
}

fn partitions(inner: &Inner) -> usize {
    inner.source().output_partitioning().partition_count()
}

/// Whether a row may be processed in another partition than its own.
fn may_steal(inner: &Inner, context: &TaskContext) -> bool {
    let source = inner.source();
    let is_keyed = matches!(source.output_partitioning(), Partitioning::Hash(..) | Partitioning::Range(_));
    if !inner.pipeline.partitions.steals || partitions(inner) == 1 || is_keyed || source.output_ordering().is_some() {
        return false;
    }
    // A partition that starts again because the pool refused memory must have the rows that it had.
    let is_limited = !matches!(context.memory_pool().memory_limit(), MemoryLimit::Infinite);
    !is_limited || !gives_the_same(source)
}

/// One partition's reader.
struct Reader<Open, Stole> {
    inputs: Arc<Inputs>,
    partition: usize,
    /// Opens the input of a partition.
    open: Open,
    /// Told of each batch of another partition.
    stole: Stole,
    /// A batch that was read before this partition paused.
    next: Option<RecordBatch>,
}

impl<Open, Stole> Reader<Open, Stole>
where
    Open: FnMut(usize) -> Result<SendableRecordBatchStream>,
    Stole: FnMut(),
{
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if let Some(batch) = self.next.take() {
            return Poll::Ready(Some(Ok(batch)));
        }
        // Before it looks at the inputs: one of them may be put back meanwhile.
        self.inputs.waiting.add(self.partition, context.waker());
        let polled = self.poll_inputs();
        if polled.is_pending() {
            return Poll::Pending;
        }
        self.inputs.waiting.remove(self.partition);
        let Poll::Ready(Some(Ok(batch))) = polled else {
            self.inputs.waiting.wake_all();
            return polled;
        };
        if !self.inputs.waiting.wake_all() {
            return Poll::Ready(Some(Ok(batch)));
        }
        // Those that waited for this input are in slots of this thread, which no other takes them from: see `give_way`.
        self.next = Some(batch);
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// The next batch of its own input or, once that has ended, of any other.
    fn poll_inputs(&mut self) -> Poll<Option<Result<RecordBatch>>> {
        let partitions = lock(&self.inputs.state).inputs.len();
        let mut has_ended = true;
        for distance in 0..partitions {
            match self.poll_input((self.partition + distance) % partitions) {
                Poll::Ready(None) => {}
                Poll::Pending if distance == 0 => return Poll::Pending,
                Poll::Pending => has_ended = false,
                Poll::Ready(Some(batch)) => {
                    if distance > 0 && batch.is_ok() {
                        (self.stole)();
                    }
                    return Poll::Ready(Some(batch));
                }
            }
        }
        if has_ended { Poll::Ready(None) } else { Poll::Pending }
    }

    fn poll_input(&mut self, partition: usize) -> Poll<Option<Result<RecordBatch>>> {
        let stream = match self.inputs.take(partition) {
            Ok(stream) => stream,
            Err(polled) => return polled,
        };
        let polling = Polling { inputs: &self.inputs, partition };
        let waker = Waker::from(Arc::clone(&self.inputs.waiting));
        let (polled, after) = match stream.map_or_else(|| (self.open)(partition), Ok) {
            Err(error) => (Poll::Ready(Some(Err(error))), Input::Ended),
            Ok(mut stream) => match stream.poll_next_unpin(&mut Context::from_waker(&waker)) {
                Poll::Ready(None) => (Poll::Ready(None), Input::Ended),
                polled => (polled, Input::Waits(stream)),
            },
        };
        std::mem::forget(polling);
        self.inputs.put_back(partition, after);
        polled
    }
}

impl<Open, Stole> Drop for Reader<Open, Stole> {
    /// Nobody wants the rows of this partition any more.
    fn drop(&mut self) {
        let dropped = std::mem::replace(&mut lock(&self.inputs.state).inputs[self.partition], Input::Ended);
        self.inputs.waiting.remove(self.partition);
        self.inputs.waiting.wake_all();
        drop(dropped);
    }
}

impl Inputs {
    /// Notes that a partition is asked for rows. Whether its input may be shared: not if it is read twice, or by two
    /// queries.
    fn begin(&self, partition: usize, partitions: usize, context: &Arc<TaskContext>) -> bool {
        let mut state = lock(&self.state);
        if state.inputs.is_empty() {
            state.context = Arc::downgrade(context);
            state.inputs.resize_with(partitions, Input::default);
        }
        let is_of_query = std::ptr::eq(state.context.as_ptr(), Arc::as_ptr(context));
        match state.inputs.get_mut(partition) {
            Some(input @ Input::NotBegun) if is_of_query => {
                *input = Input::Unopened;
                true
            }
            _ => false,
        }
    }

    /// An input to poll, if it was opened; or what polling it would give.
    fn take(&self, partition: usize) -> Result<Option<SendableRecordBatchStream>, Poll<Option<Result<RecordBatch>>>> {
        let input = &mut lock(&self.state).inputs[partition];
        match input {
            Input::NotBegun | Input::Ended => return Err(Poll::Ready(None)),
            // Whoever polls it wakes those that wait.
            Input::IsPolled => return Err(Poll::Pending),
            Input::Lost => return Err(Poll::Ready(Some(internal_err!("the input of another partition has panicked")))),
            Input::Unopened | Input::Waits(_) => {}
        }
        match std::mem::replace(input, Input::IsPolled) {
            Input::Waits(stream) => Ok(Some(stream)),
            _ => Ok(None),
        }
    }

    /// Puts back an input that was polled, unless its partition has gone meanwhile. Its end is told to whoever waits:
    /// others may have found it polled, and this partition may go on to wait for what they poll.
    fn put_back(&self, partition: usize, input: Input) {
        let is_over = !matches!(input, Input::Waits(_));
        let mut state = lock(&self.state);
        if matches!(state.inputs[partition], Input::IsPolled) {
            state.inputs[partition] = input;
        } else {
            drop(state);
            drop(input);
            return;
        }
        drop(state);
        if is_over {
            self.waiting.wake_all();
        }
    }
}

/// An input that panics is lost: others must not wait for it.
struct Polling<'a> {
    inputs: &'a Inputs,
    partition: usize,
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        self.inputs.put_back(self.partition, Input::Lost);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Waker;

    use arrow::array::{ArrayRef, AsArray, Int32Array};
    use arrow::datatypes::{Int32Type, Schema};

    use super::*;

    fn batch(value: i32) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![value]));
        RecordBatch::try_from_iter([("a", column)]).expect("one column")
    }

    fn stream_of(polls: Vec<Poll<Result<RecordBatch>>>) -> SendableRecordBatchStream {
        let mut polls = VecDeque::from(polls);
        let batches = stream::poll_fn(move |_| polls.pop_front().map_or(Poll::Ready(None), |poll| poll.map(Some)));
        Box::pin(RecordBatchStreamAdapter::new(Arc::new(Schema::empty()), batches))
    }

    /// Batches of these values.
    fn values(values: impl IntoIterator<Item = i32>) -> SendableRecordBatchStream {
        stream_of(values.into_iter().map(|value| Poll::Ready(Ok(batch(value)))).collect())
    }

    type Sources = Arc<Mutex<Vec<Option<SendableRecordBatchStream>>>>;
    type BoxedReader =
        Reader<Box<dyn FnMut(usize) -> Result<SendableRecordBatchStream> + Send>, Box<dyn FnMut() + Send>>;

    fn opened(sources: &Sources, partition: usize) -> Result<SendableRecordBatchStream> {
        Ok(lock(sources)[partition].take().expect("it is opened once"))
    }

    struct Pipeline {
        inputs: Arc<Inputs>,
        sources: Sources,
        stolen: Arc<Mutex<usize>>,
        context: Arc<TaskContext>,
    }

    impl Pipeline {
        fn over(sources: Vec<SendableRecordBatchStream>) -> Pipeline {
            let sources: Sources = Arc::new(Mutex::new(sources.into_iter().map(Some).collect()));
            Pipeline { inputs: Arc::default(), sources, stolen: Arc::default(), context: Arc::default() }
        }

        fn begin(&self, partition: usize) -> Option<BoxedReader> {
            let partitions = lock(&self.sources).len();
            let (sources, stolen) = (Arc::clone(&self.sources), Arc::clone(&self.stolen));
            self.inputs.begin(partition, partitions, &self.context).then(|| Reader {
                inputs: Arc::clone(&self.inputs),
                partition,
                open: Box::new(move |partition| opened(&sources, partition)) as Box<_>,
                stole: Box::new(move || *lock(&stolen) += 1) as Box<_>,
                next: None,
            })
        }
    }

    /// What comes next: nothing at the end, `Pending` as it is.
    fn next(reader: &mut BoxedReader) -> Poll<Option<i32>> {
        reader
            .poll(&mut Context::from_waker(Waker::noop()))
            .map(|batch| batch.map(|batch| batch.expect("no error").column(0).as_primitive::<Int32Type>().value(0)))
    }

    #[test]
    fn a_partition_without_rows_takes_those_of_another() {
        let pipeline = Pipeline::over(vec![values([]), values([1, 2, 3])]);
        let (mut first, mut second) = (pipeline.begin(0).expect("begins"), pipeline.begin(1).expect("begins"));
        assert_eq!(next(&mut second), Poll::Ready(Some(1)));
        assert_eq!(next(&mut first), Poll::Ready(Some(2)));
        assert_eq!(next(&mut second), Poll::Ready(Some(3)));
        assert_eq!((next(&mut first), next(&mut second)), (Poll::Ready(None), Poll::Ready(None)));
        assert_eq!(*lock(&pipeline.stolen), 1);
    }

    #[test]
    fn inputs_that_nobody_has_opened_are_opened() {
        let pipeline = Pipeline::over(vec![values([]), values([1])]);
        let (mut first, _second) = (pipeline.begin(0).expect("begins"), pipeline.begin(1).expect("begins"));
        assert_eq!((next(&mut first), next(&mut first)), (Poll::Ready(Some(1)), Poll::Ready(None)));
    }

    #[test]
    fn who_reads_one_partition_gets_its_rows_alone() {
        let pipeline = Pipeline::over(vec![values([1]), values([2])]);
        let mut first = pipeline.begin(0).expect("begins");
        assert_eq!((next(&mut first), next(&mut first)), (Poll::Ready(Some(1)), Poll::Ready(None)));
        let mut second = pipeline.begin(1).expect("begins");
        assert_eq!((next(&mut second), next(&mut second)), (Poll::Ready(Some(2)), Poll::Ready(None)));
        assert!(pipeline.begin(1).is_none(), "read twice, it is not shared");
        assert!(!pipeline.inputs.begin(0, 2, &Arc::default()), "nor with another query");
    }

    #[test]
    fn rows_of_a_partition_that_is_gone_are_left() {
        let pipeline = Pipeline::over(vec![values([1]), values([2, 3])]);
        let (mut first, mut second) = (pipeline.begin(0).expect("begins"), pipeline.begin(1).expect("begins"));
        assert_eq!(next(&mut second), Poll::Ready(Some(2)));
        drop(second);
        assert_eq!((next(&mut first), next(&mut first)), (Poll::Ready(Some(1)), Poll::Ready(None)));
    }

    #[test]
    fn a_partition_waits_for_its_own_rows() {
        let pipeline = Pipeline::over(vec![stream_of(vec![Poll::Pending, Poll::Ready(Ok(batch(1)))]), values([2])]);
        let (mut first, _second) = (pipeline.begin(0).expect("begins"), pipeline.begin(1).expect("begins"));
        assert_eq!((next(&mut first), next(&mut first)), (Poll::Pending, Poll::Ready(Some(1))));
        assert_eq!((next(&mut first), next(&mut first)), (Poll::Ready(Some(2)), Poll::Ready(None)));
    }

    #[test]
    fn who_wakes_others_pauses_once() {
        let pipeline = Pipeline::over(vec![values([]), values([1, 2])]);
        let (mut first, mut second) = (pipeline.begin(0).expect("begins"), pipeline.begin(1).expect("begins"));
        let busy = pipeline.inputs.take(1).unwrap_or_default().unwrap_or_else(|| (second.open)(1).expect("opens"));
        // The end of its own input wakes it, too.
        let polled = [next(&mut first), next(&mut first)];
        assert_eq!(polled, [Poll::Pending, Poll::Pending], "its own has no rows, the other one is polled");
        pipeline.inputs.put_back(1, Input::Waits(busy));
        assert_eq!((next(&mut second), next(&mut second)), (Poll::Pending, Poll::Ready(Some(1))));
        assert_eq!(next(&mut first), Poll::Ready(Some(2)));
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// Each of the two finds the input that the other one polls, and both inputs end.
    #[test]
    fn whoever_waits_for_an_input_hears_of_its_end() {
        let woken: [Arc<Woken>; 2] = Default::default();
        let wakers = woken.clone().map(Waker::from);
        let second_reader: Arc<Mutex<Option<BoxedReader>>> = Arc::default();
        let during_poll: Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>> = Arc::default();
        let on_poll = Arc::clone(&during_poll);
        let third = stream::poll_fn(move |_| {
            if let Some(meanwhile) = lock(&on_poll).take() {
                meanwhile();
            }
            Poll::Ready(None)
        });
        let third = Box::pin(RecordBatchStreamAdapter::new(Arc::new(Schema::empty()), third));
        let pipeline = Pipeline::over(vec![values([]), values([]), third]);
        let mut first = pipeline.begin(0).expect("begins");
        *lock(&second_reader) = pipeline.begin(1);
        let _third = pipeline.begin(2).expect("begins");

        // The second partition polls its own input, the first one finds it so and polls that of the third.
        assert!(pipeline.inputs.take(1).is_ok());
        let (inputs, second, waker) = (Arc::clone(&pipeline.inputs), Arc::clone(&second_reader), wakers[1].clone());
        *lock(&during_poll) = Some(Box::new(move || {
            inputs.put_back(1, Input::Ended);
            let polled = lock(&second).as_mut().expect("a reader").poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending(), "the third input is polled");
        }));
        assert!(first.poll(&mut Context::from_waker(&wakers[0])).is_pending(), "the second input was polled");
        assert!(woken.iter().all(|woken| woken.0.load(Ordering::Relaxed)), "nobody else would wake them");
        assert_eq!(next(&mut first), Poll::Ready(None));
        assert_eq!(next(lock(&second_reader).as_mut().expect("a reader")), Poll::Ready(None));
    }

    #[test]
    fn an_input_that_panics_is_an_error_for_all() {
        let batches = stream::poll_fn(|_| -> Poll<Option<Result<RecordBatch>>> { panic!("a source that is broken") });
        let broken = Box::pin(RecordBatchStreamAdapter::new(Arc::new(Schema::empty()), batches));
        let pipeline = Pipeline::over(vec![values([]), broken]);
        let (mut first, mut second) = (pipeline.begin(0).expect("begins"), pipeline.begin(1).expect("begins"));
        let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| next(&mut second)));
        assert!(polled.is_err());
        let error = first.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(error, Poll::Ready(Some(Err(_)))));
    }
}
