//! Sorts by normalised keys.
//!
//! DataFusion compares rows, column by column, and merges many short sorted runs. Here each row has one integer that
//! compares like its sort keys and holds its place ([`code`]); the integers are sorted by radix ([`radix`]), and rows
//! are made of them in the order of the result, a batch at a time, as the consumer asks:
//!
//! ```text
//! batches ─► ordinals of each key ─► ranges ─► keys of 64 or 128 bits ─► sorted ─► batches
//! ```
//! What does not fit into the integer is compared where it matters ([`ties`]). A sort that is refused memory goes on in
//! DataFusion's operator, which spills. What is not sorted here stays DataFusion's: [`KeySortExec::of`] says why. Below
//! a sort for a window of whose partitions the first rows are wanted, [`limit_window_groups`] has the others dropped.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod best;
mod bound;
mod column;
mod exec;
mod gather;
mod group_limit;
mod keys;
mod normalised_key;
mod parallel;
mod place;
mod prefix;
mod radix;
mod ranks;
mod rows;
mod stream;
mod ties;

pub use exec::KeySortExec;
pub use group_limit::{WindowGroupLimitExec, limit_window_groups};
