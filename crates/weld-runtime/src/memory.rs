//! Who may have how much memory: every table, vector and arena asks a [`MemoryPool`] before it grows.
//!
//! A query engine puts its own accounting behind the trait; [`Limit`] serves programs that run outside of one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Grants memory. Shared by all threads of a run.
pub trait MemoryPool: Send + Sync {
    /// Takes `bytes` more from the pool; false if it has not so many left, and then nothing is taken.
    fn try_grow(&self, bytes: usize) -> bool;
    /// Gives back what [`MemoryPool::try_grow`] took.
    fn shrink(&self, bytes: usize);
}

/// The pool refused. Becomes the runtime error `OutOfMemory`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// A pool of a fixed number of bytes.
#[derive(Debug)]
pub struct Limit {
    bytes: usize,
    used: AtomicUsize,
}

impl Limit {
    /// A pool that refuses what would make more than so many bytes.
    pub fn new(bytes: usize) -> Limit {
        Limit { bytes, used: AtomicUsize::new(0) }
    }

    /// As much as the machine gives.
    pub fn none() -> Limit {
        Limit::new(usize::MAX)
    }

    /// Bytes taken and not given back.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl MemoryPool for Limit {
    fn try_grow(&self, bytes: usize) -> bool {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|total| *total <= self.bytes)
            })
            .is_ok()
    }

    fn shrink(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_refuses_what_it_has_not() {
        let pool = Limit::new(100);
        assert!(pool.try_grow(60));
        assert!(!pool.try_grow(60));
        assert!(!pool.try_grow(usize::MAX));
        assert!(pool.try_grow(40));
        pool.shrink(100);
        assert_eq!(pool.used(), 0);
    }
}
