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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

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
