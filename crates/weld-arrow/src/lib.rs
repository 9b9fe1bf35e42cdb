//! Arrow at the edge of Weld: types, arrays and values of one as those of the other, without DataFusion.
//!
//! ```
//! use arrow::array::{ArrayRef, AsArray, Int64Array};
//! use arrow::datatypes::Int64Type;
//! use weld_arrow::{from_arrow, to_arrow};
//!
//! let value = from_arrow(&Int64Array::from(vec![1, 2, 3]))?;
//! assert_eq!(value.ty().to_string(), "vec[i64]");
//! let back: ArrayRef = to_arrow(&value)?;
//! assert_eq!(back.as_primitive::<Int64Type>().values(), &[1, 2, 3]);
//! # Ok::<(), weld_arrow::ArrayError>(())
//! ```
//!
//! | | types | in | out |
//! |---|---|---|---|
//! | whole vectors without nulls, for programs | [`vectors`] | [`from_arrow`] | [`to_arrow`] |
//! | columns of rows, for queries | [`types`] | [`BatchColumns`] | [`RowsReader`], [`Gather`], [`Results`] |
//! | one value | [`types`] | [`literal`](literal()) | |
//!
//! Both read Arrow's buffers in place ([`input`], [`lists`]) and hand out the memory of vectors where the layouts are
//! the same (`memory`). Text is `vec[u8]` in rows, and `vec[i8]` as a vector of its own, which is what a program's
//! string literals are.
//!
//! Errors are Arrow's; [`Defect`] inside one says that not the data is wrong but Weld.

#![warn(missing_docs)]

pub mod check;
mod gather;
pub mod input;
pub mod lists;
mod literal;
mod memory;
pub mod moved;
pub mod output;
mod results;
pub mod types;
pub mod vectors;

use std::fmt;

use arrow::error::ArrowError;

pub use gather::Gather;
pub use input::{BatchColumns, DictionaryNumbers, expected_layout};
pub use lists::{constant_list, whole_layout};
pub use literal::literal;
pub use moved::Numbered;
pub use output::{RowsReader, Slot, null_array, string_buffers_of};
pub use results::Results;
pub use types::{List, list, plain_type, value_type};
pub use vectors::{ArrayError, from_arrow, from_columns, to_arrow};

type Result<T, E = ArrowError> = std::result::Result<T, E>;

/// What only a mistake of Weld's brings about, such as a vector of another type than its schema says.
#[derive(Clone, Debug)]
pub struct Defect(String);

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "internal error: {}", self.0)
    }
}

impl std::error::Error for Defect {}

fn defect(what: impl fmt::Display) -> ArrowError {
    ArrowError::ExternalError(Box::new(Defect(what.to_string())))
}
