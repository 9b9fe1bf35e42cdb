//! A query's memory pool behind the runtime's: every table and vector of a pipeline is one reservation of the query.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_runtime::MemoryPool;

/// A reservation that grows and shrinks with the run's allocations; the rest is given back on drop.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    reservation: MemoryReservation,
}

impl QueryMemory {
    pub(crate) fn new(name: impl Into<String>, context: &TaskContext) -> Arc<QueryMemory> {
        let reservation = MemoryConsumer::new(name).register(context.memory_pool());
        Arc::new(QueryMemory { reservation })
    }

    pub(crate) fn used(&self) -> usize {
        self.reservation.size()
    }
}

impl MemoryPool for QueryMemory {
    fn try_grow(&self, bytes: usize) -> bool {
        self.reservation.try_grow(bytes).is_ok()
    }

    fn shrink(&self, bytes: usize) {
        // Never more than was taken: the runtime gives back what it got.
        self.reservation.shrink(bytes);
    }
}

/// The query's error for a runtime error of its code: the kind that DataFusion's own operators raise.
pub(crate) fn query_error(error: RuntimeError) -> DataFusionError {
    use arrow::error::ArrowError;
    match error.kind {
        RuntimeErrorKind::DivisionByZero => ArrowError::DivideByZero.into(),
        RuntimeErrorKind::Overflow => ArrowError::ArithmeticOverflow(error.message).into(),
        RuntimeErrorKind::OutOfMemory => DataFusionError::ResourcesExhausted(error.message),
        RuntimeErrorKind::Internal => DataFusionError::Internal(error.message),
        _ => DataFusionError::Execution(error.message),
    }
}

/// The value, or the query's error.
pub(crate) fn checked<T>(result: Result<T, RuntimeError>) -> Result<T> {
    result.map_err(query_error)
}
