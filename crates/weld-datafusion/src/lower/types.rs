//! SQL types as Weld types: `Decimal128(15, 2)` is `i128`, `Date32` is `i32`, text and binary are `vec[u8]`.
//!
//! Scales, precisions and time units are known to the lowering only.

use arrow::datatypes::{DataType, Field};
use weld_core::ty::Type;

use super::{Result, Unsupported, lists};
use crate::arrow::input::fixed_kind;

/// The Weld type of a value that is there.
pub(crate) fn value_type(data_type: &DataType) -> Result<Type> {
    match data_type {
        DataType::Boolean => Ok(Type::BOOL),
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => Ok(Type::vec(Type::U8)),
        DataType::FixedSizeBinary(width) if *width > 0 => Ok(Type::vec(Type::U8)),
        DataType::Dictionary(..) => match entry_type(data_type) {
            Some(entries) => value_type(entries),
            None => Err(Unsupported::new(data_type, "of its entries or codes there is no lowering")),
        },
        fixed => {
            let kind = fixed_kind(fixed).ok_or_else(|| Unsupported::new(fixed, "no Weld type stands for it"))?;
            Ok(Type::Scalar(kind))
        }
    }
}

/// The Weld type of a column of rows: `{T,bool}` when it may be null. See [`lists`] for those without a Weld value.
pub(crate) fn field_type(field: &Field) -> Type {
    let value = value_type(field.data_type()).unwrap_or_else(|_| lists::column_type(field.data_type()));
    if field.is_nullable() { Type::structure([value, Type::BOOL]) } else { value }
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

/// The type of a dictionary's entries, which stand for its values. Values become a dictionary again where they leave: of the
/// codes there must be one for every row of a batch, and entries are text or binary.
pub(crate) fn entry_type(data_type: &DataType) -> Option<&DataType> {
    let DataType::Dictionary(codes, entries) = data_type else { return None };
    let has_codes = matches!(**codes, DataType::Int32 | DataType::Int64 | DataType::UInt32 | DataType::UInt64);
    (has_codes && (is_string(entries) || is_binary(entries))).then_some(entries)
}

/// Whether it is binary of any width.
pub(crate) fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// `10^n` for a power that fits 128 bits.
pub(crate) fn power_of_ten(n: u32) -> Result<i128> {
    10i128.checked_pow(n).ok_or_else(|| Unsupported::new("decimal scale", "its power of ten exceeds 128 bits"))
}
