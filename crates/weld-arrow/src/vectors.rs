//! Arrow arrays as Weld vectors, and Weld vectors as Arrow arrays.
//!
//! | Arrow | Weld |
//! |---|---|
//! | `Int8` .. `UInt64`, `Float32`, `Float64` | `vec[i8]` .. `vec[u64]`, `vec[f32]`, `vec[f64]` |
//! | `Date32`, `Time32`, `Decimal32`; `Date64`, `Time64`, `Timestamp`, `Duration`, `Decimal64` | `vec[i32]`; `vec[i64]` (inwards only) |
//! | `Decimal128` | `vec[i128]`; outwards of precision 38 and scale 0 |
//! | `Boolean` | `vec[bool]` (copied: Weld's have a byte each) |
//! | `Utf8`, `Binary`, their large kinds and views, `FixedSizeBinary` | `vec[vec[i8]]` (the bytes are shared); outwards `Binary` (copied) |
//! | `List`, `LargeList`, `FixedSizeList` | `vec[vec[..]]` (the elements are shared); outwards `List` (copied) |
//! | `Struct` | `vec[{..}]`; outwards with the fields `$0`, `$1`, .. |
//! | `Dictionary` | as its values (copied; inwards only) |
//!
//! Outwards, what is longer than 2 GiB becomes `LargeBinary`, and lists of more than 2^31 elements `LargeList`. Weld's
//! vectors have no nulls: an array with some is an error. Vectors of dictionaries have no Arrow type here; `tovec`
//! makes vectors of dictionaries.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{Buffer, MutableBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;
use weld_codegen::{ColumnView, Value};
use weld_core::ty;
use weld_runtime::StringView;

use crate::input::{scalars, with_bytes};
use crate::memory::{Owned, bytes_of, fixed_array, shared};
use crate::types::{fixed_kind, plain_type};

/// Why an array is no vector, or a value no array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayError(String);

/// An array as a vector that shares its memory.
pub fn from_arrow(array: &dyn Array) -> Result<Value, ArrayError> {
    read(array, ty::ScalarKind::I8)
}

/// The same with text and binary as `vec[vec[u8]]`, as columns of rows have it.
pub fn from_columns(array: &dyn Array) -> Result<Value, ArrayError> {
    read(array, ty::ScalarKind::U8)
}

fn read(array: &dyn Array, byte: ty::ScalarKind) -> Result<Value, ArrayError> {
    if array.logical_null_count() > 0 {
        return Err(ArrayError("the array has nulls, Weld's vectors have none".into()));
    }
    let fixed = fixed_kind(array.data_type()).zip(scalars(array));
    if let Some(value) = fixed.and_then(|(kind, values)| vector(kind, values, array.len())) {
        return Ok(value);
    }
    Ok(match array.data_type() {
        DataType::Boolean => {
            let values: Vec<bool> = array.as_boolean().values().iter().collect();
            Value::vector(values)
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            vectors(lists.values(), lists.offsets().windows(2).map(|ends| ends[0] as usize..ends[1] as usize), byte)?
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            vectors(lists.values(), lists.offsets().windows(2).map(|ends| ends[0] as usize..ends[1] as usize), byte)?
        }
        DataType::FixedSizeList(_, length) => {
            let (lists, length) = (array.as_fixed_size_list(), *length as usize);
            let first = lists.value_offset(0) as usize;
            vectors(lists.values(), (0..lists.len()).map(|i| first + i * length..first + (i + 1) * length), byte)?
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            read(&arrow::compute::take(dictionary.values(), dictionary.keys(), None)?, byte)?
        }
        DataType::Struct(_) => {
            let columns: Result<Vec<Value>, _> =
                array.as_struct().columns().iter().map(|column| read(column, byte)).collect();
            Value::rows(columns?).ok_or_else(|| ArrayError("a struct array without fields".into()))?
        }
        other => with_bytes!(
            array,
            values => bytes(array, values, byte)?,
            _ => return Err(ArrayError(format!("arrays of {other} have no Weld type here")))
        ),
    })
}

/// The vector of the first scalars of a buffer, which it shares; `None` for booleans, of which Arrow has bits.
pub(crate) fn vector(kind: ty::ScalarKind, values: &Buffer, len: usize) -> Option<Value> {
    macro_rules! of {
        ($type:ty) => {
            Value::vector(ScalarBuffer::<$type>::new(values.clone(), 0, len))
        };
    }
    Some(match kind {
        ty::ScalarKind::Bool => return None,
        ty::ScalarKind::I8 => of!(i8),
        ty::ScalarKind::I16 => of!(i16),
        ty::ScalarKind::I32 => of!(i32),
        ty::ScalarKind::I64 => of!(i64),
        ty::ScalarKind::I128 => of!(i128),
        ty::ScalarKind::U8 => of!(u8),
        ty::ScalarKind::U16 => of!(u16),
        ty::ScalarKind::U32 => of!(u32),
        ty::ScalarKind::U64 => of!(u64),
        ty::ScalarKind::F32 => of!(f32),
        ty::ScalarKind::F64 => of!(f64),
    })
}

fn bytes<'a, A: ArrayAccessor>(array: &dyn Array, values: A, byte: ty::ScalarKind) -> Result<Value, ArrayError>
where
    A::Item: AsRef<[u8]> + 'a,
{
    let views: Option<Vec<StringView>> = (0..values.len()).map(|i| StringView::new(values.value(i).as_ref())).collect();
    let views = views.ok_or_else(|| ArrayError("a string of more than 4 GiB".into()))?;
    let words = vec![views.len() as u64, views.as_ptr() as u64];
    let owner: Arc<dyn Any + Send + Sync> = Arc::new((views, make_array(array.to_data())));
    let ty = ty::Type::vec(ty::Type::vec(ty::Type::Scalar(byte)));
    // SAFETY: a vector of byte vectors is its length and its views, which the owner has on the heap; these point into
    // the buffers of the array, which the owner shares.
    Ok(unsafe { Value::from_flat(ty, words, [owner]) })
}

/// Lists as the ranges of their elements, which follow each other.
fn vectors(
    elements: &ArrayRef,
    ranges: impl Iterator<Item = Range<usize>> + Clone,
    byte: ty::ScalarKind,
) -> Result<Value, ArrayError> {
    // What lies outside of the lists may have nulls.
    let start = ranges.clone().next().map_or(0, |range| range.start);
    let end = ranges.clone().last().map_or(0, |range| range.end);
    let elements = read(&elements.slice(start, end - start), byte)?;
    Value::vectors(&elements, ranges.map(|range| range.start - start..range.end - start))
        .ok_or_else(|| ArrayError("a list of more than 4 GiB".into()))
}

/// A vector as an array, which shares its memory where the layouts are the same.
pub fn to_arrow(value: &Value) -> Result<ArrayRef, ArrayError> {
    let Some(element) = value.ty().element() else {
        return Err(ArrayError(format!("a {} is no vector", value.ty())));
    };
    let (columns, owner) = (value.columns(), Owned::new(value.clone()));
    assembled(element, &mut 0, &|index| match columns[index].ty().as_scalar() {
        Some(ty::ScalarKind::Bool) | None => gathered(&columns[index..=index]),
        Some(kind) => {
            let rows = columns[index].rows();
            // SAFETY: the columns are the value's.
            let values = unsafe { shared(&owner, &columns[index], 0..rows) };
            Ok(fixed_array(&plain_type(kind), rows, values.unwrap_or_default(), None)?)
        }
    })
}

/// The array of elements of a type, whose columns from `next` on are made by `column`.
fn assembled(
    element: &ty::Type,
    next: &mut usize,
    column: &dyn Fn(usize) -> Result<ArrayRef, ArrayError>,
) -> Result<ArrayRef, ArrayError> {
    let Some(fields) = element.fields() else {
        *next += 1;
        return column(*next - 1);
    };
    let mut columns = Vec::with_capacity(fields.len());
    for (i, field) in fields.iter().enumerate() {
        let array = assembled(field, next, column)?;
        columns.push((Arc::new(Field::new(format!("${i}"), array.data_type().clone(), false)), array));
    }
    Ok(Arc::new(StructArray::from(columns)))
}

/// The rows of these columns of one type, one after the other, copied.
fn gathered(parts: &[ColumnView<'_>]) -> Result<ArrayRef, ArrayError> {
    let Some(ty) = parts.first().map(ColumnView::ty) else {
        return Err(ArrayError("no column at all".into()));
    };
    if let Some(kind) = ty.as_scalar() {
        return numbers(kind, parts);
    }
    if ty.is_bytes() {
        let views = parts.iter().flat_map(|part| part.as_views().unwrap_or(&[]));
        // SAFETY: long views point to memory that the value keeps alive.
        let bytes: Vec<&[u8]> = views.map(|view| unsafe { view.as_slice() }).collect();
        let is_large = i32::try_from(bytes.iter().map(|bytes| bytes.len()).sum::<usize>()).is_err();
        return Ok(match is_large {
            true => Arc::new(LargeBinaryArray::from_iter_values(bytes)),
            false => Arc::new(BinaryArray::from_iter_values(bytes)),
        });
    }
    lists(ty, parts)
}

fn lists(ty: &ty::Type, parts: &[ColumnView<'_>]) -> Result<ArrayRef, ArrayError> {
    let no_type = || ArrayError(format!("vectors of {ty} have no Arrow type here"));
    let element = ty.element().ok_or_else(no_type)?;
    let mut lengths = Vec::new();
    // Without a row to have columns there is still a type.
    let none = Value::none(element);
    let mut columns: Vec<Vec<ColumnView<'_>>> = none.columns().into_iter().map(|column| vec![column]).collect();
    for row in parts.iter().filter_map(ColumnView::as_vectors).flatten() {
        lengths.push(row[0].rows());
        row.into_iter().zip(&mut columns).for_each(|(part, column)| column.push(part));
    }
    let elements = assembled(element, &mut 0, &|index| gathered(&columns[index]))?;
    let field = Arc::new(Field::new_list_field(elements.data_type().clone(), false));
    Ok(match i32::try_from(elements.len()) {
        Ok(_) => Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths), elements, None)),
        Err(_) => Arc::new(LargeListArray::new(field, OffsetBuffer::from_lengths(lengths), elements, None)),
    })
}

/// The scalars of these columns.
fn numbers(kind: ty::ScalarKind, parts: &[ColumnView<'_>]) -> Result<ArrayRef, ArrayError> {
    if kind == ty::ScalarKind::Bool {
        let values = parts.iter().flat_map(|part| part.as_slice::<bool>().unwrap_or(&[]));
        return Ok(Arc::new(values.map(|value| Some(*value)).collect::<BooleanArray>()));
    }
    let rows = parts.iter().map(ColumnView::rows).sum();
    let mut values = MutableBuffer::with_capacity(rows * kind.bytes());
    for part in parts {
        values.extend_from_slice(bytes_of(part).unwrap_or(&[]));
    }
    Ok(fixed_array(&plain_type(kind), rows, values.into(), None)?)
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ArrayError {}

impl From<ArrowError> for ArrayError {
    fn from(error: ArrowError) -> ArrayError {
        ArrayError(error.to_string())
    }
}
