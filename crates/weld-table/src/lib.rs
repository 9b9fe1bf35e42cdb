//! Tables in memory that keep their columns encoded, for DataFusion.
//!
//! ```text
//! declared            stored                 why
//! Int64, Date32, ..   Int8, Int16, Int32     the narrowest width that holds the column's least and greatest value
//! Decimal128(15, 2)   Int32                  the same: a decimal is its digits
//! Utf8, Utf8View      Dictionary(UInt8, ..)  few distinct texts; else Utf8View
//! Float64, List, ..   as declared
//! ```
//!
//! A [`WeldTable`] is a table provider like `MemTable`: its plan gives the declared types to whoever executes it. Who
//! can read the stored types asks its [`TableSource`] for them and spares the decoding. All blocks of a column have one
//! stored type, and texts share one dictionary, so code compiled for one block is code for all of them.
//!
//! Every few thousand rows are a zone, of which the least and the greatest value of each column are known. Filters
//! leave out zones, those that joins make while they run among them; what they leave in has to be filtered still.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod column;
mod integers;
mod provider;
mod prunable;
mod queue;
mod sketch;
mod snapshot;
mod source;
mod stream;
mod texts;
mod zones;

pub use provider::{WeldTable, create_table, register_table};
pub use prunable::{keeps_order, prunable};
pub use source::{Shared, TableSource, have_bounds};
