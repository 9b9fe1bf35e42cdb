//! What a record came to, and whether two outcomes are the same.

use datafusion::common::Result;
use weld_datafusion::compare::{self, Answer, ErrorClass};

/// What a record came to on one engine.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Rows(Answer),
    /// Rows that tell of the run: times, counts of bytes.
    Ran,
    Failed {
        class: ErrorClass,
        message: String,
    },
    /// It panicked or did not end.
    Broke(String),
}

/// A record that ran.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) sql: String,
    /// File and line.
    pub(crate) place: String,
    pub(crate) outcome: Outcome,
    pub(crate) compiled: Compiled,
    /// What the file expects and did not get.
    pub(crate) unexpected: Option<String>,
}

/// How much of a record Weld ran.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Compiled {
    pub(crate) operators: usize,
    /// Pipelines that ran on the operators that they replaced.
    pub(crate) fallbacks: usize,
}

/// How Weld's outcome differs from stock's; nothing if it does not.
pub(crate) fn difference(stock: &Outcome, weld: &Outcome) -> Option<String> {
    use Outcome::{Broke, Failed, Ran, Rows};
    match (stock, weld) {
        (Rows(stock), Rows(weld)) => rows_difference(compare::difference(stock, weld)),
        (Ran, Ran) | (Broke(_), Broke(_)) => None,
        (Failed { class, .. }, Failed { class: other, .. }) if class == other => None,
        (Failed { class, message }, Failed { class: other, message: found }) => {
            Some(format!("{class:?} expected, {other:?} found\nstock: {message}\nweld: {found}"))
        }
        (_, Broke(message)) => Some(format!("weld: {message}")),
        (Rows(_) | Ran, Failed { message, .. }) => Some(format!("stock gives rows, weld fails: {message}")),
        (Failed { message, .. } | Broke(message), _) => Some(format!("weld gives rows, stock fails: {message}")),
        (Rows(_), Ran) | (Ran, Rows(_)) => Some("one gives rows, the other none".to_owned()),
    }
}

fn rows_difference(compared: Result<Option<String>>) -> Option<String> {
    compared.unwrap_or_else(|error| Some(format!("cannot be compared: {error}")))
}
