//! Loops of compiled code on several threads.
//!
//! A loop's iterations are cut into ranges of at least a grain. The first range fills the loop's own builders, every
//! other one fills builders of its own in a run of its own; when all are done, these are merged into the loop's builders
//! in the order of the ranges:
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

use crate::run::{Region, Run};

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
    pub start: Start,
    pub combine: Combine,
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
}

const _: () = assert!(size_of::<Loop>() == 8 * Loop::WORDS);

impl Loop {
    /// All fields are words, in the order above.
    pub const WORDS: usize = 10;

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
    pool.scope(|scope| {
        for _ in 0..count.min(ranges) {
            scope.spawn(|_| shared.work());
        }
    });
    // SAFETY: all ranges are done, so this thread alone has the run again.
    unsafe { shared.finish() }
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
            match start(&mut *run, region, env, self.origin.as_ptr().cast(), to, first) {
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
    unsafe fn finish(self) -> u32 {
        let Loop { body, combine, env, region, state, count, .. } = *self.task;
        // SAFETY: by the caller's promise the run is not shared any more.
        let run = unsafe { &mut *self.run };
        let first = self.first_status.into_inner() as u32;
        if first != 0 {
            return first;
        }
        let parts =
            self.parts.into_iter().skip(1).map(|part| part.into_inner().unwrap_or_else(PoisonError::into_inner));
        let mut parts: Vec<Part> = parts.map_while(|part| part).collect();
        let failed = parts.iter().position(|part| part.status != 0);
        if let Some(at) = failed {
            if !parts[at].run.is_out_of_memory() {
                run.fail_like(&mut parts[at].run);
                return parts[at].status;
            }
            // Builders of their own take more memory than one thread would: it goes on from there with what is free.
            parts.truncate(at);
        }
        for mut part in parts {
            // SAFETY: what the part has built lives in the loop's region from now on; its state is used once.
            let status = unsafe {
                // Both runs' memory is the context's, so this takes no more of it.
                run.adopt_into(region, part.run);
                combine(run, region, env, state, part.state.as_mut_ptr().cast())
            };
            if status != 0 {
                return status;
            }
        }
        let Some(at) = failed else { return 0 };
        let (next, _) = self.task.range(at as u64 + 1, self.ranges);
        // SAFETY: the builders hold what the iterations before have merged.
        unsafe { body(run, region, env, state, next, count) }
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
