//! SQL types as Weld types: `Decimal128(15, 2)` is `i128`, `Date32` is `i32`, strings are `vec[u8]`.
//!
//! Scales, precisions and time units are known to the lowering only.

use arrow::datatypes::{DataType, Field};
use weld_core::ty::{ScalarKind, Type};

use super::{Result, Unsupported};

/// The Weld type of a value that is there.
pub(crate) fn value_type(data_type: &DataType) -> Result<Type> {
    Ok(Type::Scalar(match data_type {
        DataType::Boolean => ScalarKind::Bool,
        DataType::Int8 => ScalarKind::I8,
        DataType::Int16 => ScalarKind::I16,
        DataType::Int32 | DataType::Date32 => ScalarKind::I32,
        DataType::Int64 | DataType::Date64 | DataType::Timestamp(..) => ScalarKind::I64,
        DataType::UInt8 => ScalarKind::U8,
        DataType::UInt16 => ScalarKind::U16,
        DataType::UInt32 => ScalarKind::U32,
        DataType::UInt64 => ScalarKind::U64,
        DataType::Float32 => ScalarKind::F32,
        DataType::Float64 => ScalarKind::F64,
        DataType::Decimal128(..) => ScalarKind::I128,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => return Ok(Type::vec(Type::U8)),
        other => return Err(Unsupported::new(other, "no Weld type stands for it")),
    }))
}

/// The Weld type of a column's values: `{T,bool}` when it may be null.
pub(crate) fn field_type(field: &Field) -> Result<Type> {
    let value = value_type(field.data_type())?;
    Ok(if field.is_nullable() { Type::structure([value, Type::BOOL]) } else { value })
}

pub(crate) fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// `10^n` for a power that fits 128 bits.
pub(crate) fn power_of_ten(n: u32) -> Result<i128> {
    10i128.checked_pow(n).ok_or_else(|| Unsupported::new("decimal scale", "its power of ten exceeds 128 bits"))
}
