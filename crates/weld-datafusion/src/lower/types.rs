//! SQL types as Weld types: `Decimal128(15, 2)` is `i128`, `Date32` is `i32`, text and binary are `vec[u8]`.
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
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) => ScalarKind::I32,
        DataType::Int64
        | DataType::Date64
        | DataType::Timestamp(..)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Decimal64(..) => ScalarKind::I64,
        DataType::UInt8 => ScalarKind::U8,
        DataType::UInt16 => ScalarKind::U16,
        DataType::UInt32 => ScalarKind::U32,
        DataType::UInt64 => ScalarKind::U64,
        DataType::Float32 => ScalarKind::F32,
        DataType::Float64 => ScalarKind::F64,
        DataType::Decimal128(..) => ScalarKind::I128,
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => return Ok(Type::vec(Type::U8)),
        other => return Err(Unsupported::new(other, "no Weld type stands for it")),
    }))
}

/// The Weld type of a column's values: `{T,bool}` when it may be null.
pub(crate) fn field_type(field: &Field) -> Result<Type> {
    let value = value_type(field.data_type())?;
    Ok(if field.is_nullable() { Type::structure([value, Type::BOOL]) } else { value })
}

/// Precision and scale of a decimal that an integer of ours holds.
pub(crate) fn decimal_of(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => Some((*p, *s)),
        _ => None,
    }
}

pub(crate) fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// `10^n` for a power that fits 128 bits.
pub(crate) fn power_of_ten(n: u32) -> Result<i128> {
    10i128.checked_pow(n).ok_or_else(|| Unsupported::new("decimal scale", "its power of ten exceeds 128 bits"))
}
