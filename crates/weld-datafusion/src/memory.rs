//! A query's memory pool behind the runtime's: every table and vector of a pipeline is one reservation of the query.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool as Pool, MemoryReservation};
use weld_core::diag::{Diagnostic, ErrorKind, line_column};
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_frontend::Source;
use weld_runtime::MemoryPool;

use crate::lower::raise::query_error;

/// What a run does when the pool refuses it memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pressure {
    /// It fails, as DataFusion's joins do.
    Fails,
    /// It gives its groups out or lets operators go on that spill: a fair pool gives it a share, as those.
    Yields,
}

/// A reservation that grows and shrinks with the run's allocations; the rest is given back on drop.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    reservation: MemoryReservation,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether what is still allocated belongs to batches that were handed out, which DataFusion does not count.
    is_released: bool,
    /// Bytes that the run has though the pool refused them.
    excess: usize,
    excess_max: usize,
}

impl QueryMemory {
    pub(crate) fn new(name: impl Into<String>, context: &TaskContext, pressure: Pressure) -> Arc<QueryMemory> {
        QueryMemory::of(context.memory_pool(), name, pressure)
    }

    pub(crate) fn of(pool: &Arc<dyn Pool>, name: impl Into<String>, pressure: Pressure) -> Arc<QueryMemory> {
        let consumer = MemoryConsumer::new(name).with_can_spill(pressure == Pressure::Yields);
        let reservation = consumer.register(pool);
        Arc::new(QueryMemory { reservation, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that the pool has granted.
    pub(crate) fn used(&self) -> usize {
        self.reservation.size()
    }

    /// How much the run may have beyond what the pool grants. DataFusion's operators ask for memory when a batch is
    /// processed and the memory taken; compiled code asks before and cannot stop within a batch without losing it.
    pub(crate) fn allow_excess(&self, bytes: usize) {
        self.state().excess_max = bytes;
    }

    /// Bytes that the run has though the pool refused them.
    pub(crate) fn excess(&self) -> usize {
        self.state().excess
    }

    /// Gives everything back to the pool: the rows of a finished run have been handed out.
    pub(crate) fn release(&self) {
        self.state().is_released = true;
        self.reservation.free();
    }
}

impl MemoryPool for QueryMemory {
    fn try_grow(&self, bytes: usize) -> bool {
        if self.reservation.try_grow(bytes).is_ok() {
            return true;
        }
        let mut state = self.state();
        match state.excess.checked_add(bytes) {
            Some(excess) if excess <= state.excess_max => {
                state.excess = excess;
                true
            }
            _ => false,
        }
    }

    fn shrink(&self, bytes: usize) {
        let mut state = self.state();
        if !state.is_released {
            let excess = bytes.min(state.excess);
            state.excess -= excess;
            // Never more than was taken: the runtime gives back what it got.
            self.reservation.shrink(bytes - excess);
        }
    }
}

/// [`query_error`] of a program with functions: an error of a function's text says where it is.
pub(crate) fn located(error: RuntimeError, source: &Source) -> DataFusionError {
    if matches!(error.kind, RuntimeErrorKind::OutOfMemory | RuntimeErrorKind::Internal | RuntimeErrorKind::Cancelled) {
        return query_error(error);
    }
    let bare = Diagnostic::new(ErrorKind::Runtime, error.span, error.message.as_str());
    let (text, found) = source.located(bare);
    match text.name.is_empty() {
        true => query_error(error),
        // The definition is said already, where the language knows it.
        false if found.message != error.message => DataFusionError::Execution(found.message),
        false => {
            let (line, _) = line_column(&text.text, found.span.start);
            DataFusionError::Execution(format!("{}, line {line}: {}", text.name, error.message))
        }
    }
}
