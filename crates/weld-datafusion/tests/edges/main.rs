//! Where a value changes its type or is not there: files against declared tables, casts, nulls, excluded rows, errors
//! and what batches look like. Everything beside stock DataFusion.

#[path = "../common/mod.rs"]
mod common;

mod aggregates;
mod arrays;
mod documented;
mod encoded;
mod entries;
mod errors;
mod evaluated;
mod files;
mod functions;
mod hostile;
mod intervals;
mod nested;
mod nulls;
mod operators;
mod variants;

use std::panic::AssertUnwindSafe;

use common::Engines;
use futures::FutureExt;

/// What an error says without the context that DataFusion's layers add to it.
fn plain(error: &str) -> &str {
    let mut text = error;
    for prefix in ["External error: ", "Arrow error: ", "Parquet error: ", "Shared error: "] {
        while let Some(rest) = text.strip_prefix(prefix) {
            text = rest;
        }
    }
    // Arrow's words for a decimal that overflows have its operands, the code's have not.
    let overflow = "Arithmetic overflow: ";
    if text.starts_with(overflow) {
        return overflow;
    }
    text.lines().next().unwrap_or_default()
}

/// What stock says where its kernels overflow: they panic in debug builds and wrap in others.
const PANIC: &str = "a panic";

async fn caught(run: impl Future<Output = Result<Vec<String>, String>>) -> Result<Vec<String>, String> {
    AssertUnwindSafe(run).catch_unwind().await.unwrap_or_else(|_| Err(PANIC.to_owned()))
}

/// Both give the same rows or fail alike.
async fn outcome(engines: &Engines, sql: &str) -> Result<(), String> {
    let stock = caught(engines.stock_rows(sql)).await;
    let weld = caught(async { Ok(engines.run(sql).await?.rows) }).await;
    match (&stock, &weld) {
        (Ok(a), Ok(b)) if a == b => Ok(()),
        // There is nothing to compare with: kernels overflow under nulls, too.
        (Err(a), _) if a == PANIC => Ok(()),
        (Err(a), Err(b)) if plain(a) == plain(b) => Ok(()),
        _ => Err(format!("{sql}\nstock {stock:?}\nweld  {weld:?}")),
    }
}
