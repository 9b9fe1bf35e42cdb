//! Arrow's types as Weld's: `Decimal128(15, 2)` is `i128`, `Date32` is `i32`, text and binary are byte vectors, a
//! dictionary is its entries, a list of numbers a vector.
//!
//! A new Arrow type begins here. One whose array is a buffer of scalars needs a line in [`fixed_kind`] and nothing
//! else: its columns, literals and results follow. Scales, precisions and time units are for the caller to know.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use weld_core::ty::{ScalarKind, Type};

/// The scalar that an array of the type has for each row, in one buffer. Bits of booleans are none.
pub fn fixed_kind(data_type: &DataType) -> Option<ScalarKind> {
    Some(match data_type {
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
        _ => return None,
    })
}

/// The Arrow type of a vector of scalars of which nothing else is known.
pub fn plain_type(kind: ScalarKind) -> DataType {
    match kind {
        ScalarKind::Bool => DataType::Boolean,
        ScalarKind::I8 => DataType::Int8,
        ScalarKind::I16 => DataType::Int16,
        ScalarKind::I32 => DataType::Int32,
        ScalarKind::I64 => DataType::Int64,
        ScalarKind::I128 => DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0),
        ScalarKind::U8 => DataType::UInt8,
        ScalarKind::U16 => DataType::UInt16,
        ScalarKind::U32 => DataType::UInt32,
        ScalarKind::U64 => DataType::UInt64,
        ScalarKind::F32 => DataType::Float32,
        ScalarKind::F64 => DataType::Float64,
    }
}

/// The Weld type of a value that is there, or why there is none.
pub fn value_type(data_type: &DataType) -> Result<Type, &'static str> {
    match data_type {
        DataType::Boolean => Ok(Type::BOOL),
        DataType::FixedSizeBinary(width) if *width > 0 => Ok(Type::vec(Type::U8)),
        DataType::Dictionary(..) => match entry_type(data_type) {
            Some(entries) => value_type(entries),
            None => Err("of its entries or codes there is no lowering"),
        },
        bytes if is_string(bytes) || is_binary(bytes) => Ok(Type::vec(Type::U8)),
        fixed => fixed_kind(fixed).map(Type::Scalar).ok_or("no Weld type stands for it"),
    }
}

/// Whether a type has no Weld value of its own: [`value_type`] has none.
pub fn is_nested(data_type: &DataType) -> bool {
    value_type(data_type).is_err()
}

/// Whether a column of the type is taken from the input's arrays where it only passes through. Of a dictionary's values
/// a dictionary would have to be made again, which took three times as long as the rest of a filter.
pub fn is_taken(data_type: &DataType) -> bool {
    is_nested(data_type) || matches!(data_type, DataType::Dictionary(..))
}

/// Precision and scale of a decimal that an integer of ours holds.
pub fn decimal_of(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => Some((*p, *s)),
        _ => None,
    }
}

/// Whether it is text.
pub fn is_string(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether it is binary of any width.
pub fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Whether a type is text or binary, or a dictionary of such, the values of which are byte vectors.
pub(crate) fn is_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, entries) => is_bytes(entries),
        DataType::FixedSizeBinary(_) => true,
        other => is_string(other) || is_binary(other),
    }
}

/// The type of a dictionary's entries, which stand for its values: text or binary. Values become a dictionary again
/// where they leave.
pub fn entry_type(data_type: &DataType) -> Option<&DataType> {
    let DataType::Dictionary(_, entries) = data_type else { return None };
    (is_string(entries) || is_binary(entries)).then_some(entries)
}

/// Whether it is a dictionary with codes of 8 bits. Arrow puts dictionaries together with some values twice, for which
/// these may be too few. So batches should share one, as those of DataFusion's operators do.
pub fn has_few_codes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(codes, _) if codes.primitive_width() == Some(1))
}

/// The scalars of a list.
#[derive(Clone, Debug)]
pub struct List {
    /// The scalar that stands for an item.
    pub kind: ScalarKind,
    /// The Arrow type of the items.
    pub items: DataType,
    /// How many scalars make an element: more than one where elements are lists of fixed sizes.
    pub unit: u64,
    /// How many elements there are, where the type says so.
    pub size: Option<u64>,
}

impl List {
    /// The vector of its scalars.
    pub fn ty(&self) -> Type {
        Type::vec(Type::Scalar(self.kind))
    }
}

/// A list of scalars, or of lists of fixed sizes (of lists ..); `None` for any other type.
pub fn list(data_type: &DataType) -> Option<List> {
    let (mut item, size) = match data_type {
        DataType::List(item) | DataType::LargeList(item) => (item, None),
        DataType::FixedSizeList(item, size) => (item, Some(u64::try_from(*size).ok()?)),
        _ => return None,
    };
    let mut unit = 1u64;
    while let DataType::FixedSizeList(inner, size) = item.data_type() {
        unit = unit.checked_mul(u64::try_from(*size).ok()?)?;
        item = inner;
    }
    let kind = value_type(item.data_type()).ok()?.as_scalar()?;
    // Bits have to be unpacked, and bytes would be strings.
    let is_plain = kind != ScalarKind::Bool && kind.bytes() > 1;
    is_plain.then(|| List { kind, items: item.data_type().clone(), unit, size })
}

/// The size of each level of nested lists, where the type says it.
pub fn sizes(data_type: &DataType) -> Vec<Option<u64>> {
    let mut sizes = Vec::new();
    let mut data_type = data_type;
    loop {
        data_type = match data_type {
            DataType::List(item) | DataType::LargeList(item) => {
                sizes.push(None);
                item.data_type()
            }
            DataType::FixedSizeList(item, size) => {
                sizes.push(u64::try_from(*size).ok());
                item.data_type()
            }
            _ => return sizes,
        };
    }
}

/// The type of what a stream carries of a column; `None` if it carries nothing.
pub fn streamed_type(data_type: &DataType) -> Option<Type> {
    value_type(data_type).ok().or_else(|| list(data_type).map(|list| list.ty()))
}

/// The types of the columns that follow a stream's own, one for each of those that are lists: null where NULL is
/// inside.
pub fn whole_types<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Vec<Type> {
    let whole = |_| Type::structure([Type::BOOL, Type::BOOL]);
    types.into_iter().filter(|data_type| list(data_type).is_some()).map(whole).collect()
}
