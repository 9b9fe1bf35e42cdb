//! Window functions over sorted rows.
//!
//! DataFusion evaluates a window a row at a time, with a `ScalarValue` for every result and every bound of a frame.
//! Here it is evaluated for all window partitions of a chunk at once, with arrays in and arrays out:
//!
//! ```text
//! sorted batches ─► chunks of whole units ─► partitions, peer groups ─► one array a function ─► rows
//! ```
//! A unit is what the functions of the operator need at once: a row (`row_number`, running sums of rows), the peers of
//! a row (the default frame of an `ORDER BY`), or its window partition. No more than one unit is kept, so memory and
//! the rows that a limit reads are those of DataFusion's operators. What is not evaluated here stays theirs:
//! [`WindowExec::of`] says why.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accumulated;
mod aggregate;
mod chunk;
mod distance;
mod distribution;
mod exec;
mod fold;
mod frame;
mod function;
mod numbers;
mod rank;
mod shift;
mod stream;
mod text;
mod value;

pub use exec::WindowExec;
