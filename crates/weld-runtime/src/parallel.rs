//! Loops of compiled code on several threads.
//!
//! A loop's iterations are cut into ranges of at least a grain. The first range fills the loop's own builders, every
//! other one fills builders of its own in a run of its own; when all are done, these are merged into the loop's
//! builders in the order of the ranges:
//!
//! ```text
//! 0 .. 250    body(run, state)
//! 250 .. 500  start(run 1, state 1); body(run 1, state 1)     \
//! 500 .. 750  start(run 2, state 2); body(run 2, state 2)      | combine(run, state, state k), k = 1, 2, 3
//! 750 .. 1000 start(run 3, state 3); body(run 3, state 3)     /
//! ```
//!
//! Where the cuts are depends on the number of iterations and of threads alone, never on which thread was faster. So a
//! program gives the same result each time, floats included. When several ranges fail, the first one's error counts,
//! which is the one that a single thread would have come to; the ranges behind it are stopped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::concat::{self, Appender};
use crate::run::{Region, Run};
use crate::threads;

/// Runs the iterations `first .. end` on the builders in `state`.
pub type Body = unsafe extern "C" fn(
    run: *mut Run,
    region: *mut Region,
    env: *const u8,
    state: *mut u8,
    first: u64,
    end: u64,
) -> u32;
/// Makes builders in `state` for the iterations from `first` on; `origin` is the state of the loop's own.
pub type Start = unsafe extern "C" fn(
    run: *mut Run,
    region: *mut Region,
    env: *const u8,
    origin: *const u8,
    state: *mut u8,
    first: u64,
) -> u32;
/// Merges the builders of the next range, which are used no more, into those of the ranges before.
pub type Combine =
    unsafe extern "C" fn(run: *mut Run, region: *mut Region, env: *const u8, state: *mut u8, other: *mut u8) -> u32;

/// A loop as compiled code describes it. The functions return a status; 0 is success.
#[repr(C)]
#[derive(Debug)]
pub struct Loop {
    pub body: Body,
    /// None where there are no builders: each iteration writes to a place of its own.
    pub start: Option<Start>,
    /// None where there are none but appenders.
    pub combine: Option<Combine>,
    /// Values that the functions use, the same for all ranges.
    pub env: *const u8,
    /// The builders, and how many bytes they take.
    pub state: *mut u8,
    pub state_bytes: u64,
    /// Where memory that the builders keep comes from.
    pub region: *mut Region,
    pub count: u64,
    /// The fewest iterations that are worth a range.
    pub grain: u64,
    /// How many ranges there may be for each thread.
    pub per_thread: u64,
    /// Builders that are put together here, not by `combine`.
    pub appenders: *const Appender,
    pub appender_count: u64,
    /// What the loop fails with if parts take more memory than there is. Zero if one thread may run their ranges again,
    /// which it may not where they have changed elements of a vecmerger in place.
    pub out_of_memory: u64,
}

const _: () = assert!(size_of::<Loop>() == 8 * Loop::WORDS);

impl Loop {
    /// All fields are words, in the order above.
    pub const WORDS: usize = 13;

    /// # Safety
    /// They are described right.
    unsafe fn appenders(&self) -> &[Appender] {
        match self.appender_count {
            0 => &[],
            // SAFETY: by the caller's promise.
            count => unsafe { std::slice::from_raw_parts(self.appenders, count as usize) },
        }
    }

    /// Runs all ranges but the first on this thread.
    ///
    /// # Safety
    /// The run is the loop's, whose builders hold what the first of so many ranges has merged. Ranges may run again.
    unsafe fn go_on_alone(&self, run: *mut Run, ranges: u64) -> u32 {
        let (next, _) = self.range(1, ranges);
        // SAFETY: by the caller's promise.
        unsafe { (self.body)(run, self.region, self.env, self.state, next, self.count) }
    }

    /// Range `index` of `ranges`; their lengths differ by one at most.
    fn range(&self, index: u64, ranges: u64) -> (u64, u64) {
        let (each, rest) = (self.count / ranges, self.count % ranges);
        let first = |index: u64| index * each + index.min(rest);
        (first(index), first(index + 1))
    }
}

/// What a range other than the first has built, or why not.
struct Part {
    run: Box<Run>,
    state: Vec<u128>,
    status: u32,
}

/// What the threads that work on a loop share.
struct Shared<'a> {
    task: &'a Loop,
    run: *mut Run,
    /// The state of the loop's builders before the first range changes them.
    origin: Vec<u128>,
    ranges: u64,
    next: AtomicUsize,
    /// One for each range: it is not needed any more, for one before it has failed.
    stops: Vec<AtomicBool>,
    parts: Vec<Mutex<Option<Part>>>,
    first_status: AtomicUsize,
}

// SAFETY: `run` and the state are those of the first range, which one thread takes; what `env` points to is only read.
unsafe impl Sync for Shared<'_> {}

/// Runs a loop and gives its status.
///
/// # Safety
/// `run` is valid and owns the loop's region; the functions are right for `env` and `state`, write to nothing but their
/// run and their state, and may run at the same time.
pub unsafe extern "C" fn parallel_for(run: *mut Run, task: *const Loop) -> u32 {
    // SAFETY: by the caller's promise.
    let (threads, task) = unsafe { ((*run).threads().cloned(), &*task) };
    let count = threads.as_ref().map_or(1, |threads| threads.count() as u64);
    let ranges = (task.count / task.grain.max(1)).min(count.saturating_mul(task.per_thread));
    let pool = if ranges < 2 { None } else { threads.as_ref().and_then(|threads| threads.pool()) };
    let Some(pool) = pool else {
        // SAFETY: by the caller's promise.
        return unsafe { (task.body)(run, task.region, task.env, task.state, 0, task.count) };
    };
    let work_on = &|work: &(dyn Fn() + Sync)| threads::work_on(pool, count.min(ranges), work);
    // SAFETY: by the caller's promise.
    unsafe { run_ranges(run, task, ranges, work_on) }
}

/// Runs a loop in that many ranges. `work_on` calls a function on some threads and waits for them.
///
/// # Safety
/// As for [`parallel_for`].
unsafe fn run_ranges(run: *mut Run, task: &Loop, ranges: u64, work_on: &dyn Fn(&(dyn Fn() + Sync))) -> u32 {
    // SAFETY: the state is valid for its bytes.
    let origin = unsafe { words(task.state, task.state_bytes) };
    let shared = Shared {
        task,
        run,
        origin,
        ranges,
        next: AtomicUsize::new(0),
        stops: (0..ranges).map(|_| AtomicBool::new(false)).collect(),
        parts: (0..ranges).map(|_| Mutex::new(None)).collect(),
        first_status: AtomicUsize::new(0),
    };
    work_on(&|| shared.work());
    // SAFETY: all ranges are done, so this thread alone has the run again.
    unsafe { shared.finish(work_on) }
}

impl Shared<'_> {
    /// Takes one range after the other.
    fn work(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(stop) = self.stops.get(index) else { return };
            if stop.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: each index is taken once.
            if unsafe { self.run_range(index, stop) } != 0 {
                self.stops[index + 1..].iter().for_each(|stop| stop.store(true, Ordering::Relaxed));
            }
        }
    }

    /// # Safety
    /// Nobody else runs this range.
    unsafe fn run_range(&self, index: usize, stop: &AtomicBool) -> u32 {
        let Loop { body, start, env, .. } = *self.task;
        let (first, end) = self.task.range(index as u64, self.ranges);
        if index == 0 {
            // SAFETY: the run and the builders of the loop are the first range's.
            let status = unsafe { body(self.run, self.task.region, env, self.task.state, first, end) };
            self.first_status.store(status as usize, Ordering::Relaxed);
            return status;
        }
        // SAFETY: the context of the run is only read, by all threads.
        let context = unsafe { (*self.run).context().clone() };
        let mut run = Run::part(context, stop);
        let region = run.region(0);
        let mut state = vec![0u128; self.origin.len()];
        let to: *mut u8 = state.as_mut_ptr().cast();
        // SAFETY: the run is this range's own, the state has the size of the original.
        let status = unsafe {
            match start.map_or(0, |start| start(&mut *run, region, env, self.origin.as_ptr().cast(), to, first)) {
                0 => body(&mut *run, region, env, to, first, end),
                failed => failed,
            }
        };
        *self.parts[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(Part { run, state, status });
        status
    }

    /// Puts the parts together.
    ///
    /// # Safety
    /// No range is running.
    unsafe fn finish(self, work_on: &dyn Fn(&(dyn Fn() + Sync))) -> u32 {
        let Loop { combine, env, region, state, .. } = *self.task;
        // SAFETY: by the caller's promise the run is not shared any more.
        let run = unsafe { &mut *self.run };
        let first = self.first_status.into_inner() as u32;
        if first != 0 {
            return first;
        }
        let parts =
            self.parts.into_iter().skip(1).map(|part| part.into_inner().unwrap_or_else(PoisonError::into_inner));
        let mut parts: Vec<Part> = parts.map_while(|part| part).collect();
        if let Some(at) = parts.iter().position(|part| part.status != 0) {
            if !parts[at].run.is_out_of_memory() {
                run.fail_like(&mut parts[at].run);
                return parts[at].status;
            }
            if self.task.out_of_memory != 0 {
                run.fail_like(&mut parts[at].run);
                return parts[at].status;
            }
            // Parts take more memory than one thread would.
            drop(parts);
            // SAFETY: the builders hold what the first range has merged.
            return unsafe { self.task.go_on_alone(run, self.ranges) };
        }
        let states: Vec<*mut u8> = parts.iter_mut().map(|part| part.state.as_mut_ptr().cast()).collect();
        // SAFETY: the loop's appenders are described right; their states are valid.
        let enough =
            unsafe { self.task.appenders().iter().all(|appender| appender.reserve(run, region, state, &states)) };
        if !enough {
            if self.task.out_of_memory != 0 {
                return self.task.out_of_memory as u32;
            }
            drop(parts);
            run.take_failure();
            // SAFETY: as above.
            return unsafe { self.task.go_on_alone(run, self.ranges) };
        }
        let mut kept = Vec::with_capacity(parts.len());
        for part in parts {
            // SAFETY: what the parts have built lives in the loop's region from now on. Both runs' memory is the
            // context's, so this takes no more of it.
            unsafe { run.adopt_into(region, part.run) };
            kept.push(part.state);
        }
        // SAFETY: there is room for all that the appenders hold.
        unsafe { concat::append_all(run, self.task.appenders(), state, &states, work_on) };
        let Some(combine) = combine else { return 0 };
        for other in states {
            // SAFETY: each state is used once.
            let status = unsafe { combine(run, region, env, state, other) };
            if status != 0 {
                return status;
            }
        }
        0
    }
}

/// A copy of some bytes, aligned as builders' states are.
///
/// # Safety
/// `from` is valid for reads of `bytes` bytes.
unsafe fn words(from: *const u8, bytes: u64) -> Vec<u128> {
    let mut copy = vec![0u128; (bytes as usize).div_ceil(16)];
    // SAFETY: by the caller's promise; the copy is large enough.
    unsafe { std::ptr::copy_nonoverlapping(from, copy.as_mut_ptr().cast(), bytes as usize) };
    copy
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::sync::Arc;

    use super::*;
    use crate::context::Context;
    use crate::memory::Limit;
    use crate::status::Status;
    use crate::threads::Threads;

    /// An appender of numbers, as builders lie in memory.
    #[repr(C)]
    struct State {
        len: u64,
        capacity: u64,
        numbers: *mut u64,
    }

    /// What the loop reads: its iterations, of which one and those after it may fail.
    struct Env {
        numbers: Vec<u64>,
        fails_at: u64,
        fails_with: Status,
    }

    /// # Safety
    /// The state is valid, and its numbers are a block of the run.
    unsafe fn append(run: *mut Run, region: *mut Region, state: *mut State, number: u64) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            let State { len, capacity, .. } = *state;
            if len == capacity {
                let mut columns = [(*state).numbers.cast::<u8>()];
                (*state).capacity =
                    crate::vector::grow(run, region, columns.as_mut_ptr(), [8].as_ptr(), 1, capacity, len + 1);
                (*state).numbers = columns[0].cast();
                if (*state).capacity == 0 {
                    return false;
                }
            }
            (*state).numbers.add(len as usize).write(number);
            (*state).len += 1;
        }
        true
    }

    /// Appends the square of each number.
    unsafe extern "C" fn body(
        run: *mut Run,
        region: *mut Region,
        env: *const u8,
        state: *mut u8,
        first: u64,
        end: u64,
    ) -> u32 {
        // SAFETY: the tests pass an `Env` and a `State`.
        unsafe {
            let env = &*env.cast::<Env>();
            for i in first..end {
                if i >= env.fails_at {
                    (*run).detail[0] = i;
                    (*run).fail(env.fails_with, "as asked");
                    return 7;
                }
                let number = env.numbers[i as usize];
                if !append(run, region, state.cast(), number * number) {
                    return 8;
                }
            }
        }
        0
    }

    unsafe extern "C" fn start(
        _run: *mut Run,
        _region: *mut Region,
        _env: *const u8,
        _origin: *const u8,
        state: *mut u8,
        _first: u64,
    ) -> u32 {
        // SAFETY: the tests pass a `State`.
        unsafe { state.cast::<State>().write(State { len: 0, capacity: 0, numbers: ptr::null_mut() }) };
        0
    }

    unsafe extern "C" fn combine(
        run: *mut Run,
        region: *mut Region,
        _env: *const u8,
        state: *mut u8,
        other: *mut u8,
    ) -> u32 {
        // SAFETY: the tests pass two `State`s.
        unsafe {
            let other = &*other.cast::<State>();
            for i in 0..other.len {
                if !append(run, region, state.cast(), other.numbers.add(i as usize).read()) {
                    return 9;
                }
            }
            (*run).free(other.numbers.cast());
        }
        0
    }

    /// Who runs the ranges: the pool of that many threads, or new threads. Of those ThreadSanitizer sees that they end,
    /// which it does not of a pool's without a standard library made for it.
    #[derive(Clone, Copy)]
    enum On {
        Pool(usize),
        NewThreads(usize),
    }

    /// The status of a loop over `0 .. count`, what it appends behind a first -1, and its run: once put together by
    /// `combine`, and once as what it is.
    fn run_loop(on: On, count: u64, fails: (u64, Status), memory: usize) -> [(u32, Vec<u64>, Box<Run>); 2] {
        [false, true].map(|described| run_loop_of(on, count, fails, memory, described))
    }

    fn run_loop_of(
        on: On,
        count: u64,
        (fails_at, fails_with): (u64, Status),
        memory: usize,
        described: bool,
    ) -> (u32, Vec<u64>, Box<Run>) {
        let env = Env { numbers: (0..count).collect(), fails_at, fails_with };
        let mut run = Run::new(Arc::new(Context::new(Arc::new(Limit::new(memory)), Arc::default())));
        let mut state = State { len: 0, capacity: 0, numbers: ptr::null_mut() };
        let region = run.region(0);
        // SAFETY: the functions are those for `Env` and `State`; the numbers are alive as long as the run.
        unsafe {
            // Room for the first range: where memory is short, it is refused to the others.
            let mut columns = [ptr::null_mut()];
            state.capacity = crate::vector::grow(&mut *run, region, columns.as_mut_ptr(), [8].as_ptr(), 1, 0, 512);
            state.numbers = columns[0].cast();
            assert!(append(&mut *run, region, &mut state, u64::MAX));
            let appender = Appender { offset: 0, columns: 1, sizes: [8].as_ptr() };
            let task = Loop {
                body,
                start: Some(start),
                combine: (!described).then_some(combine as Combine),
                env: (&raw const env).cast(),
                state: (&raw mut state).cast(),
                state_bytes: size_of::<State>() as u64,
                region,
                count,
                grain: 10,
                per_thread: 8,
                appenders: &raw const appender,
                appender_count: described.into(),
                out_of_memory: 0,
            };
            let status = match on {
                On::Pool(threads) => {
                    run.set_threads(Some(Threads::shared(threads)));
                    parallel_for(&mut *run, &task)
                }
                On::NewThreads(threads) => run_ranges(&mut *run, &task, (count / 10).clamp(1, 32), &|work| {
                    std::thread::scope(|scope| {
                        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                        threads.into_iter().for_each(|thread| thread.join().expect("nothing panics"));
                    });
                }),
            };
            (status, std::slice::from_raw_parts(state.numbers, state.len as usize).to_vec(), run)
        }
    }

    const NEVER: (u64, Status) = (u64::MAX, Status::Ok);

    fn parts_come_together_in_order(on: On) {
        for count in [0, 1, 19, 20, 333, 10_000, 300_000] {
            for (status, numbers, _run) in run_loop(on, count, NEVER, usize::MAX) {
                assert_eq!(status, 0);
                assert!(numbers.into_iter().eq([u64::MAX].into_iter().chain((0..count).map(|i| i * i))));
            }
        }
    }

    fn the_first_failure_counts(on: On) {
        for _ in 0..50 {
            for (status, _, mut run) in run_loop(on, 10_000, (4321, Status::Overflow), usize::MAX) {
                assert_eq!((status, run.detail[0]), (7, 4321));
                assert_eq!(run.take_failure().map(|failure| failure.status), Some(Status::Overflow));
            }
        }
        for (status, _, run) in run_loop(on, 10_000, (3, Status::Overflow), usize::MAX) {
            assert_eq!((status, run.detail[0]), (7, 3));
        }
    }

    fn one_thread_goes_on_where_memory_is_short(on: On) {
        // The numbers take 131,136 bytes, all parts together two thousand more.
        for (status, numbers, run) in run_loop(on, 10_000, NEVER, 133_000) {
            assert_eq!((status, numbers.len()), (0, 10_001));
            assert!(!run.has_failed());
        }
        for (status, ..) in run_loop(on, 10_000, NEVER, 50_000) {
            assert_ne!(status, 0);
        }
    }

    #[test]
    fn on_pools() {
        [1, 2, 4].into_iter().for_each(|threads| parts_come_together_in_order(On::Pool(threads)));
        the_first_failure_counts(On::Pool(4));
        one_thread_goes_on_where_memory_is_short(On::Pool(4));
    }

    #[test]
    fn on_new_threads() {
        [1, 2, 4].into_iter().for_each(|threads| parts_come_together_in_order(On::NewThreads(threads)));
        the_first_failure_counts(On::NewThreads(4));
        one_thread_goes_on_where_memory_is_short(On::NewThreads(4));
    }

    #[test]
    fn ranges_meet() {
        let task = |count| Loop {
            body,
            start: None,
            combine: None,
            env: ptr::null(),
            state: ptr::null_mut(),
            state_bytes: 0,
            region: ptr::null_mut(),
            count,
            grain: 1,
            per_thread: 1,
            appenders: ptr::null(),
            appender_count: 0,
            out_of_memory: 0,
        };
        for (count, ranges) in [(10, 3), (12, 4), (u64::MAX, 7)] {
            let task = task(count);
            assert_eq!((task.range(0, ranges).0, task.range(ranges - 1, ranges).1), (0, count));
            for index in 1..ranges {
                assert_eq!(task.range(index - 1, ranges).1, task.range(index, ranges).0);
            }
        }
    }
}
