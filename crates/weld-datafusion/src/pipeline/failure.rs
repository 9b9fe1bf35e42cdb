//! Why a run ends early, and the one place where compiled code is called: a panic there is an error of its query.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_frontend::Source;

use crate::lower::raise::query_error;
use crate::memory::located;

/// Why a run ends early.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The pool has refused memory to compiled code: the operators that were replaced may still run.
    Refused(Arc<DataFusionError>),
    /// The query fails.
    Failed(Arc<DataFusionError>),
    /// Other partitions run on the operators that were replaced, and so must this one.
    Superseded,
    /// A task is gone with the runtime that it was on; another may do the work.
    Abandoned,
}

impl Failure {
    /// As the query's error.
    pub(crate) fn into_error(self) -> DataFusionError {
        match self {
            Failure::Refused(error) | Failure::Failed(error) => match Arc::try_unwrap(error) {
                Ok(error) => error,
                Err(shared) => DataFusionError::Shared(shared),
            },
            Failure::Superseded => internal_datafusion_err!("a partition was left behind by the others"),
            Failure::Abandoned => internal_datafusion_err!("the runtime of a task has ended"),
        }
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Failure {
        Failure::Failed(Arc::new(error))
    }
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Failure {
        DataFusionError::from(error).into()
    }
}

/// Calls compiled code or the runtime. `source` are the texts that errors may be in.
pub(super) fn run<T>(source: &Source, call: impl FnOnce() -> Result<T, RuntimeError>) -> Result<T, Failure> {
    guard(|| {
        call().map_err(|error| match error.kind {
            RuntimeErrorKind::OutOfMemory => Failure::Refused(Arc::new(query_error(error))),
            _ => located(error, source).into(),
        })
    })
}

/// What `call` gives; an error if it panics. What it was changing is not used after an error.
pub(super) fn guard<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(internal_datafusion_err!("a compiled pipeline panicked: {text}").into())
    })
}
