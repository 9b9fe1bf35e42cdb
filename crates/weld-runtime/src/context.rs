//! What the host gives to every run: where memory comes from, and the flag that stops the work; and what its runs
//! share.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::intern::Interner;
use crate::memory::{Limit, MemoryPool};

/// Shared by the runs of one query or program.
#[derive(Clone)]
pub struct Context {
    memory: Arc<dyn MemoryPool>,
    cancel: Arc<AtomicBool>,
    interner: Arc<OnceLock<Interner>>,
    expected_rows: u64,
}

impl Context {
    /// Runs ask `memory` for what they take, and end with the error Cancelled once `cancel` is set.
    pub fn new(memory: Arc<dyn MemoryPool>, cancel: Arc<AtomicBool>) -> Context {
        Context { memory, cancel, interner: Arc::default(), expected_rows: 0 }
    }

    /// The first dictionary of each run makes room for so many rows at once, if it gets the memory.
    pub fn expecting(self, rows: u64) -> Context {
        Context { expected_rows: rows, ..self }
    }

    pub(crate) fn expected_rows(&self) -> u64 {
        self.expected_rows
    }

    /// No limit, never cancelled from outside.
    pub fn unlimited() -> Context {
        Context::new(Arc::new(Limit::none()), Arc::new(AtomicBool::new(false)))
    }

    pub fn memory(&self) -> &Arc<dyn MemoryPool> {
        &self.memory
    }

    pub fn cancel_flag(&self) -> &Arc<AtomicBool> {
        &self.cancel
    }

    /// The byte strings that the runs have interned.
    pub(crate) fn interner(&self) -> &Interner {
        self.interner.get_or_init(|| Interner::new(&self.memory))
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}
