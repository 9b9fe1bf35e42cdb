//! A query's memory pool behind the runtime's: every table and vector of a pipeline is one reservation of the query.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use weld_core::diag::{Diagnostic, ErrorKind, line_column};
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_frontend::Source;
use weld_runtime::MemoryPool;

use crate::lower::raise::query_error;

/// A reservation that grows and shrinks with the run's allocations; the rest is given back on drop.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    reservation: MemoryReservation,
    /// Whether what is still allocated belongs to batches that were handed out, which DataFusion does not count.
    is_released: Mutex<bool>,
}

impl QueryMemory {
    pub(crate) fn new(name: impl Into<String>, context: &TaskContext) -> Arc<QueryMemory> {
        let reservation = MemoryConsumer::new(name).register(context.memory_pool());
        Arc::new(QueryMemory { reservation, is_released: Mutex::new(false) })
    }

    pub(crate) fn used(&self) -> usize {
        self.reservation.size()
    }

    /// Gives everything back to the pool: the rows of a finished run have been handed out.
    pub(crate) fn release(&self) {
        let mut is_released = self.is_released.lock().unwrap_or_else(PoisonError::into_inner);
        *is_released = true;
        self.reservation.free();
    }
}

impl MemoryPool for QueryMemory {
    fn try_grow(&self, bytes: usize) -> bool {
        self.reservation.try_grow(bytes).is_ok()
    }

    fn shrink(&self, bytes: usize) {
        let is_released = self.is_released.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_released {
            // Never more than was taken: the runtime gives back what it got.
            self.reservation.shrink(bytes);
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
