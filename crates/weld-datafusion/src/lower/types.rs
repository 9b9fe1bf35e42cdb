//! SQL types as Weld types: the mapping of [`weld_arrow::types`], whose errors are [`Unsupported`] here.
//!
//! Scales, precisions and time units are known to the lowering only.

use arrow::datatypes::{DataType, Field};
use weld_core::ty::Type;

use super::{Result, Unsupported, lists};

pub(crate) use weld_arrow::types::{decimal_of, entry_type, has_few_codes, is_binary, is_string};

/// The Weld type of a value that is there.
pub(crate) fn value_type(data_type: &DataType) -> Result<Type> {
    weld_arrow::value_type(data_type).map_err(|why| Unsupported::new(data_type, why))
}

/// The Weld type of a column of rows: `{T,bool}` when it may be null. See [`lists`] for those without a Weld value.
pub(crate) fn field_type(field: &Field) -> Type {
    let value = value_type(field.data_type()).unwrap_or_else(|_| lists::column_type(field.data_type()));
    if field.is_nullable() { Type::structure([value, Type::BOOL]) } else { value }
}

/// `10^n` for a power that fits 128 bits.
pub(crate) fn power_of_ten(n: u32) -> Result<i128> {
    10i128.checked_pow(n).ok_or_else(|| Unsupported::new("decimal scale", "its power of ten exceeds 128 bits"))
}
