//! Runs that are disturbed: memory that is refused, or a flag that stops the run, at some allocation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use weld_runtime::MemoryPool;

/// More is refused in any case.
const BYTES_MAX: usize = 1 << 30;

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Memory is refused, once.
    Refuse,
    /// The run is cancelled.
    Cancel,
}

/// A pool that lets a fault happen at one of the times that it is asked.
#[derive(Debug)]
pub struct FaultyPool {
    fault: Fault,
    cancel: Arc<AtomicBool>,
    /// How often it may be asked before.
    left: AtomicU64,
    used: AtomicUsize,
}

impl FaultyPool {
    /// The fault happens when the pool has been asked for memory `after` times. `cancel` is the flag of the run.
    pub fn new(fault: Fault, after: u64, cancel: Arc<AtomicBool>) -> FaultyPool {
        FaultyPool { fault, cancel, left: AtomicU64::new(after), used: AtomicUsize::new(0) }
    }

    /// Bytes taken and not given back.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl MemoryPool for FaultyPool {
    fn try_grow(&self, bytes: usize) -> bool {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            match self.fault {
                Fault::Refuse => return false,
                Fault::Cancel => self.cancel.store(true, Ordering::Relaxed),
            }
        }
        let grown = |used: usize| used.checked_add(bytes).filter(|total| *total <= BYTES_MAX);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }

    fn shrink(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}
