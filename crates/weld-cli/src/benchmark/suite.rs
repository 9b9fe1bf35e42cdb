//! What is measured: tables and queries. Benchmarks and folders become one of these.

use std::ffi::OsString;
use std::sync::Arc;

use crate::tables::Table;

/// Tables whose files are there, and the queries that were asked for.
pub(super) struct Suite {
    /// What the report is of.
    pub(super) title: String,
    pub(super) tables: Vec<Table>,
    /// In the order in which they run.
    pub(super) queries: Vec<Query>,
    /// What a generator made the tables with.
    pub(super) scale_factor: Option<f64>,
    /// The arguments of `weld` for the same tables; `-q=NAME` picks a query, options follow.
    pub(super) command: Vec<OsString>,
}

/// A query of a suite.
#[derive(Clone)]
pub(super) struct Query {
    /// `q6`, or the name of the file without its extension.
    pub(super) name: String,
    /// Its number, where they have numbers.
    pub(super) number: Option<usize>,
    /// The statement, or why there is none.
    pub(super) text: Result<Arc<str>, String>,
}
