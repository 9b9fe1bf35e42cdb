//! Threads for the parallel loops of programs: the one that runs the program, and a rayon pool of others, started when
//! the first loop asks for it.
//!
//! ```
//! use std::sync::Arc;
//! use weld_runtime::Threads;
//!
//! let threads = Threads::shared(4);
//! assert_eq!(threads.count(), 4);
//! assert!(Arc::ptr_eq(&threads, &Threads::shared(4)));
//! ```

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::memory::MemoryPool;

/// More are of no use, and starting them takes long.
const COUNT_MAX: usize = 256;
/// As much as a main thread has: compiled code keeps its temporaries there.
const STACK_BYTES: usize = 8 << 20;
/// How long a thread looks whether the others are done before it goes to sleep.
const PATIENCE: Duration = Duration::from_micros(50);

/// A number of threads, which live as long as somebody holds this.
pub struct Threads {
    count: usize,
    /// `None` inside if the system gave no threads: loops then run where they are.
    pool: OnceLock<Option<ThreadPool>>,
}

impl Threads {
    /// That many threads, made anew if nobody has them.
    pub fn shared(count: usize) -> Arc<Threads> {
        static SHARED: Mutex<Vec<Weak<Threads>>> = Mutex::new(Vec::new());
        let count = count.clamp(1, COUNT_MAX);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|threads| threads.strong_count() > 0);
        if let Some(threads) = shared.iter().filter_map(Weak::upgrade).find(|threads| threads.count == count) {
            return threads;
        }
        let threads = Arc::new(Threads { count, pool: OnceLock::new() });
        shared.push(Arc::downgrade(&threads));
        threads
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// All but the one that asks.
    pub(crate) fn pool(&self) -> Option<&ThreadPool> {
        let start = || {
            let name = |index| format!("weld-{index}");
            ThreadPoolBuilder::new().num_threads(self.count).stack_size(STACK_BYTES).thread_name(name).build().ok()
        };
        self.pool.get_or_init(start).as_ref()
    }
}

/// Calls a function on some threads and waits for them.
pub(crate) type WorkOn<'a> = &'a (dyn Fn(&(dyn Fn() + Sync)) + Sync);
/// On this thread alone.
pub(crate) const ALONE: WorkOn<'static> = &|work| work();

/// Gives these threads to a function: how many they are, and who calls something on them.
pub(crate) fn with<T>(threads: Option<Arc<Threads>>, f: impl FnOnce(u64, WorkOn<'_>) -> T) -> T {
    match threads.as_ref().and_then(|threads| Some((threads.count() as u64, threads.pool()?))) {
        Some((count, pool)) if count > 1 => f(count, &|work| work_on(pool, count, work)),
        _ => f(1, ALONE),
    }
}

/// Threads that share what the runtime has to do, and where they get memory.
#[derive(Clone, Copy)]
pub(crate) struct Workers<'a> {
    pub(crate) count: u64,
    pub(crate) work_on: WorkOn<'a>,
    pub(crate) pool: &'a Arc<dyn MemoryPool>,
}

impl Workers<'_> {
    /// Calls `work` for each number below `count`.
    pub(crate) fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        if self.count < 2 || count < 2 {
            return (0..count).for_each(work);
        }
        let next = AtomicUsize::new(0);
        (self.work_on)(&|| {
            while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < count) {
                work(index);
            }
        });
    }

    /// What `work` gives for each number below `count`.
    pub(crate) fn map<T: Send>(&self, count: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
        let results: Vec<Mutex<Option<T>>> = (0..count).map(|_| Mutex::new(None)).collect();
        self.each(count, &|index| {
            let result = work(index);
            *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
    }
}

/// Calls a function on this thread and on others of the pool, `count` in all, and waits for them.
pub(crate) fn work_on(pool: &ThreadPool, count: u64, work: &(dyn Fn() + Sync)) {
    let working = AtomicU64::new(count);
    let work = || {
        work();
        working.fetch_sub(1, Ordering::Relaxed);
    };
    pool.in_place_scope(|scope| {
        (1..count).for_each(|_| scope.spawn(|_| work()));
        work();
        // The others are done soon, and going to sleep and being woken takes longer.
        let begun = Instant::now();
        while working.load(Ordering::Relaxed) > 0 && begun.elapsed() < PATIENCE {
            std::hint::spin_loop();
        }
    });
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("count", &self.count).finish_non_exhaustive()
    }
}
