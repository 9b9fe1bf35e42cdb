//! Pools of buffers, which a scan leaves to the next one.
//!
//! What a scan of a few megabytes takes from the allocator is mapped and cleared by the system first, which is a tenth
//! of such a query's processor time. These are idle bytes of the process, as those that an allocator keeps: a query's
//! memory pool counts what is in use.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weld_parquet::BufferPool;

/// What waits for reuse in a scan's partition: the columns, pages, dictionaries and batches of a pair of row groups,
/// and of one that is fetched ahead.
const POOL_BYTES_MAX: usize = 32 << 20;

/// What waits in all pools that no scan has.
const IDLE_BYTES_MAX: usize = 64 << 20;

static IDLE: Mutex<Vec<Arc<BufferPool>>> = Mutex::new(Vec::new());

/// A pool that others do not take from meanwhile.
#[derive(Debug)]
pub(super) struct LeasedPool(Arc<BufferPool>);

impl LeasedPool {
    /// One that a scan has left, or a new one.
    pub(super) fn lease() -> LeasedPool {
        let pool = idle().pop().unwrap_or_else(|| BufferPool::new(0));
        pool.keep(POOL_BYTES_MAX);
        LeasedPool(pool)
    }
}

impl Deref for LeasedPool {
    type Target = Arc<BufferPool>;

    fn deref(&self) -> &Arc<BufferPool> {
        &self.0
    }
}

impl Drop for LeasedPool {
    fn drop(&mut self) {
        let mut idle = idle();
        // What is still in use is not waited for.
        self.keep(0);
        let waiting: usize = idle.iter().map(|pool| pool.held()).sum();
        if self.held() > 0 && waiting + self.held() <= IDLE_BYTES_MAX {
            idle.push(Arc::clone(&self.0));
        }
    }
}

fn idle() -> MutexGuard<'static, Vec<Arc<BufferPool>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Other tests of this process lease pools as well.
    #[test]
    fn a_scan_finds_the_buffers_of_another() {
        let (first, second) = (LeasedPool::lease(), LeasedPool::lease());
        assert!(!Arc::ptr_eq(&first, &second));
        let (in_time, late) = (first.take(1 << 20), first.take(1 << 20));
        let held = first.held();
        drop(in_time);
        assert!(first.held() > held);
        let pool = Arc::clone(&first);
        drop(first);
        let held = pool.held();
        drop(late);
        assert!(pool.held() <= held, "what comes back to an idle pool is freed");
    }

    #[test]
    fn idle_pools_are_bounded() {
        let leased: Vec<_> = (0..5).map(|_| LeasedPool::lease()).collect();
        for pool in &leased {
            drop(pool.take(POOL_BYTES_MAX / 5 * 4));
        }
        drop(leased);
        let waiting: usize = idle().iter().map(|pool| pool.held()).sum();
        assert!(waiting <= IDLE_BYTES_MAX, "{waiting}");
    }
}
