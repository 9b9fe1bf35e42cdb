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
//! vectors have no nulls: an array with some is an error. Vectors of dictionaries have no Arrow type here; `tovec` makes
//! vectors of dictionaries.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::*;
use weld_codegen::{ColumnView, Native, Value};
use weld_core::ty;
use weld_runtime::StringView;

/// Why an array is no vector, or a value no array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayError(String);

/// An array as a vector that shares its memory.
pub fn from_arrow(array: &dyn Array) -> Result<Value, ArrayError> {
    if array.logical_null_count() > 0 {
        return Err(ArrayError("the array has nulls, Weld's vectors have none".into()));
    }
    Ok(match array.data_type() {
        DataType::Boolean => {
            let values: Vec<bool> = array.as_boolean().values().iter().collect();
            Value::vector(values)
        }
        DataType::Int8 => shared::<Int8Type>(array),
        DataType::Int16 => shared::<Int16Type>(array),
        DataType::Int32 => shared::<Int32Type>(array),
        DataType::Int64 => shared::<Int64Type>(array),
        DataType::UInt8 => shared::<UInt8Type>(array),
        DataType::UInt16 => shared::<UInt16Type>(array),
        DataType::UInt32 => shared::<UInt32Type>(array),
        DataType::UInt64 => shared::<UInt64Type>(array),
        DataType::Float32 => shared::<Float32Type>(array),
        DataType::Float64 => shared::<Float64Type>(array),
        DataType::Decimal32(..) => shared::<Decimal32Type>(array),
        DataType::Decimal64(..) => shared::<Decimal64Type>(array),
        DataType::Decimal128(..) => shared::<Decimal128Type>(array),
        DataType::Date32 => shared::<Date32Type>(array),
        DataType::Date64 => shared::<Date64Type>(array),
        DataType::Time32(TimeUnit::Second) => shared::<Time32SecondType>(array),
        DataType::Time32(_) => shared::<Time32MillisecondType>(array),
        DataType::Time64(TimeUnit::Microsecond) => shared::<Time64MicrosecondType>(array),
        DataType::Time64(_) => shared::<Time64NanosecondType>(array),
        DataType::Timestamp(TimeUnit::Second, _) => shared::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => shared::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => shared::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => shared::<TimestampNanosecondType>(array),
        DataType::Duration(TimeUnit::Second) => shared::<DurationSecondType>(array),
        DataType::Duration(TimeUnit::Millisecond) => shared::<DurationMillisecondType>(array),
        DataType::Duration(TimeUnit::Microsecond) => shared::<DurationMicrosecondType>(array),
        DataType::Duration(TimeUnit::Nanosecond) => shared::<DurationNanosecondType>(array),
        DataType::Utf8 => bytes(array, array.as_string::<i32>())?,
        DataType::LargeUtf8 => bytes(array, array.as_string::<i64>())?,
        DataType::Utf8View => bytes(array, array.as_string_view())?,
        DataType::Binary => bytes(array, array.as_binary::<i32>())?,
        DataType::LargeBinary => bytes(array, array.as_binary::<i64>())?,
        DataType::BinaryView => bytes(array, array.as_binary_view())?,
        DataType::FixedSizeBinary(_) => bytes(array, array.as_fixed_size_binary())?,
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            vectors(lists.values(), lists.offsets().windows(2).map(|ends| ends[0] as usize..ends[1] as usize))?
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            vectors(lists.values(), lists.offsets().windows(2).map(|ends| ends[0] as usize..ends[1] as usize))?
        }
        DataType::FixedSizeList(_, length) => {
            let (lists, length) = (array.as_fixed_size_list(), *length as usize);
            let first = lists.value_offset(0) as usize;
            vectors(lists.values(), (0..lists.len()).map(|i| first + i * length..first + (i + 1) * length))?
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = arrow::compute::take(dictionary.values(), dictionary.keys(), None);
            from_arrow(&values.map_err(|error| ArrayError(error.to_string()))?)?
        }
        DataType::Struct(_) => {
            let columns: Result<Vec<Value>, _> =
                array.as_struct().columns().iter().map(|column| from_arrow(column)).collect();
            Value::rows(columns?).ok_or_else(|| ArrayError("a struct array without fields".into()))?
        }
        other => return Err(ArrayError(format!("arrays of {other} have no Weld type here"))),
    })
}

fn shared<T: ArrowPrimitiveType<Native: Native>>(array: &dyn Array) -> Value {
    let values: ScalarBuffer<T::Native> = array.as_primitive::<T>().values().clone();
    Value::vector(values)
}

fn bytes<'a, A: ArrayAccessor>(array: &dyn Array, values: A) -> Result<Value, ArrayError>
where
    A::Item: AsRef<[u8]> + 'a,
{
    let views: Option<Vec<StringView>> = (0..values.len()).map(|i| StringView::new(values.value(i).as_ref())).collect();
    let views = views.ok_or_else(|| ArrayError("a string of more than 4 GiB".into()))?;
    let words = vec![views.len() as u64, views.as_ptr() as u64];
    let owner: Arc<dyn Any + Send + Sync> = Arc::new((views, make_array(array.to_data())));
    let ty = ty::Type::vec(ty::Type::vec(ty::Type::Scalar(ty::ScalarKind::I8)));
    // SAFETY: a vector of byte vectors is its length and its views, which the owner has on the heap; these point into the
    // buffers of the array, which the owner shares.
    Ok(unsafe { Value::from_flat(ty, words, [owner]) })
}

/// Lists as the ranges of their elements, which follow each other.
fn vectors(elements: &ArrayRef, ranges: impl Iterator<Item = Range<usize>> + Clone) -> Result<Value, ArrayError> {
    // What lies outside of the lists may have nulls.
    let start = ranges.clone().next().map_or(0, |range| range.start);
    let end = ranges.clone().last().map_or(0, |range| range.end);
    let elements = from_arrow(&elements.slice(start, end - start))?;
    Value::vectors(&elements, ranges.map(|range| range.start - start..range.end - start))
        .ok_or_else(|| ArrayError("a list of more than 4 GiB".into()))
}

/// A vector as an array, which shares its memory where the layouts are the same.
pub fn to_arrow(value: &Value) -> Result<ArrayRef, ArrayError> {
    let Some(element) = value.ty().element() else {
        return Err(ArrayError(format!("a {} is no vector", value.ty())));
    };
    let columns = value.columns();
    assembled(element, &mut 0, &|index| match columns[index].ty().as_scalar() {
        Some(ty::ScalarKind::Bool) | None => gathered(&columns[index..=index]),
        Some(kind) => Ok(numbers(kind, Source::Shared(value, index))),
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
        return Ok(numbers(kind, Source::Copied(parts)));
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

/// Where the values of an array of scalars are.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// In a column of a vector, which the array shares where it can.
    Shared(&'a Value, usize),
    Copied(&'a [ColumnView<'a>]),
}

fn numbers(kind: ty::ScalarKind, source: Source<'_>) -> ArrayRef {
    use ty::ScalarKind::*;
    match kind {
        Bool => Arc::new(BooleanArray::from(copied::<bool>(source))),
        I8 => Arc::new(primitive::<Int8Type>(source)),
        I16 => Arc::new(primitive::<Int16Type>(source)),
        I32 => Arc::new(primitive::<Int32Type>(source)),
        I64 => Arc::new(primitive::<Int64Type>(source)),
        U8 => Arc::new(primitive::<UInt8Type>(source)),
        U16 => Arc::new(primitive::<UInt16Type>(source)),
        U32 => Arc::new(primitive::<UInt32Type>(source)),
        U64 => Arc::new(primitive::<UInt64Type>(source)),
        F32 => Arc::new(primitive::<Float32Type>(source)),
        F64 => Arc::new(primitive::<Float64Type>(source)),
        I128 => Arc::new(
            primitive::<Decimal128Type>(source).with_data_type(DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0)),
        ),
    }
}

fn copied<T: Native>(source: Source<'_>) -> Vec<T> {
    match source {
        Source::Shared(value, column) => value.columns()[column].as_slice().unwrap_or(&[]).to_vec(),
        Source::Copied(parts) => parts.iter().flat_map(|part| part.as_slice().unwrap_or(&[])).copied().collect(),
    }
}

fn primitive<T: ArrowPrimitiveType<Native: Native>>(source: Source<'_>) -> PrimitiveArray<T> {
    if let Source::Shared(value, column) = source {
        let view = &value.columns()[column];
        // Arrow wants `i128` aligned to sixteen bytes, Weld's is aligned to eight.
        if (view.data() as usize).is_multiple_of(align_of::<T::Native>()) && view.rows() > 0 {
            let owner = Column::<T> { value: value.clone(), column, kind: Default::default() };
            let buffer = Buffer::from(bytes::Bytes::from_owner(owner));
            return PrimitiveArray::new(ScalarBuffer::new(buffer, 0, view.rows()), None);
        }
    }
    PrimitiveArray::new(copied::<T::Native>(source).into(), None)
}

/// A column as the owner of a buffer.
struct Column<T> {
    value: Value,
    column: usize,
    kind: std::marker::PhantomData<fn() -> T>,
}

impl<T: ArrowPrimitiveType<Native: Native>> AsRef<[u8]> for Column<T> {
    fn as_ref(&self) -> &[u8] {
        let values: Option<&[T::Native]> = self.value.columns()[self.column].as_slice();
        values.unwrap_or(&[]).to_byte_slice()
    }
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ArrayError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Program};

    /// Through the program that gives back its argument.
    fn round_trip(array: ArrayRef, ty: &str) -> ArrayRef {
        let value = from_arrow(&array).unwrap();
        assert_eq!(value.ty().to_string(), ty);
        let program = Program::parse(&format!("|x: {ty}| x")).unwrap().compile(&Options::default()).unwrap();
        to_arrow(&program.run(&[value]).unwrap()).unwrap()
    }

    #[test]
    fn arrays_come_back() {
        let arrays: [(ArrayRef, &str); 12] = [
            (Arc::new(Int8Array::from(vec![-1, 2])), "vec[i8]"),
            (Arc::new(Int16Array::from(vec![-1, 2])), "vec[i16]"),
            (Arc::new(Int32Array::from(vec![-1, 2])), "vec[i32]"),
            (Arc::new(Int64Array::from(vec![i64::MIN])), "vec[i64]"),
            (Arc::new(UInt8Array::from(vec![255])), "vec[u8]"),
            (Arc::new(UInt16Array::from(vec![1; 1000])), "vec[u16]"),
            (Arc::new(UInt32Array::from(Vec::<u32>::new())), "vec[u32]"),
            (Arc::new(UInt64Array::from(vec![u64::MAX])), "vec[u64]"),
            (Arc::new(Float32Array::from(vec![0.5])), "vec[f32]"),
            (Arc::new(Float64Array::from(vec![0.5, -0.0])), "vec[f64]"),
            (Arc::new(BooleanArray::from(vec![true, false, true])), "vec[bool]"),
            (Arc::new(BinaryArray::from_vec(vec![b"", b"short", b"longer than twelve"])), "vec[vec[i8]]"),
        ];
        for (array, ty) in arrays {
            assert_eq!(&round_trip(array.clone(), ty), &array);
            if array.len() > 1 {
                let rest = array.slice(1, array.len() - 1);
                assert_eq!(&round_trip(rest.clone(), ty), &rest, "sliced");
            }
        }
    }

    #[test]
    fn numbers_are_not_copied() {
        let array = Int64Array::from(vec![1, 2, 3]);
        let back = to_arrow(&from_arrow(&array).unwrap()).unwrap();
        assert_eq!(back.as_primitive::<Int64Type>().values().as_ptr(), array.values().as_ptr());
    }

    #[test]
    fn structs_are_columns() {
        let inner: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let inner =
            StructArray::try_from(vec![("s", inner), ("b", Arc::new(BooleanArray::from(vec![true, false])) as _)]);
        let decimals = Decimal128Array::from(vec![1, -1]).with_precision_and_scale(20, 2).unwrap();
        let rows = StructArray::try_from(vec![
            ("inner", Arc::new(inner.unwrap()) as ArrayRef),
            ("d", Arc::new(decimals) as _),
        ]);
        let back = round_trip(Arc::new(rows.unwrap()), "vec[{{vec[i8],bool},i128}]");
        let back = back.as_struct();
        assert_eq!(back.column_names(), ["$0", "$1"]);
        assert_eq!(back.column(0).as_struct().column(0).as_binary::<i32>().value(1), b"b");
        assert_eq!(back.column(1).as_primitive::<Decimal128Type>().values(), &[1, -1]);
    }

    fn list(values: ArrayRef, lengths: &[usize]) -> ArrayRef {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), false));
        Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths.iter().copied()), values, None))
    }

    #[test]
    fn lists_are_vectors_of_vectors() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4, 5]));
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true, true, false]));
        let names: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"a", b"", b"longer than twelve", b"b", b"c"]));
        let fields = [&numbers, &flags, &names].into_iter().enumerate();
        let rows: StructArray = fields
            .map(|(i, column)| {
                (Arc::new(Field::new(format!("${i}"), column.data_type().clone(), false)), column.clone())
            })
            .collect::<Vec<_>>()
            .into();
        for (values, ty) in [
            (numbers.clone(), "vec[vec[i64]]"),
            (flags, "vec[vec[bool]]"),
            (names, "vec[vec[vec[i8]]]"),
            (Arc::new(rows), "vec[vec[{i64,bool,vec[i8]}]]"),
            (list(numbers, &[1, 0, 2, 1, 1]), "vec[vec[vec[i64]]]"),
        ] {
            let lists = list(values, &[2, 0, 3]);
            assert_eq!(&round_trip(lists.clone(), ty), &lists);
            for (start, length) in [(0, 0), (1, 0), (1, 1), (2, 1), (1, 2), (3, 0)] {
                let part = lists.slice(start, length);
                assert_eq!(&round_trip(part.clone(), ty), &part, "{start}, {length}");
            }
        }
        let bytes = list(Arc::new(UInt8Array::from(vec![7; 20])), &[1, 0, 19]);
        let back = round_trip(bytes, "vec[vec[u8]]");
        assert_eq!(back.as_binary::<i32>().value(2), [7; 19]);
    }

    #[test]
    fn other_lists_and_strings_come_in() {
        let fixed = FixedSizeListArray::new(
            Arc::new(Field::new_list_field(DataType::Int32, true)),
            2,
            Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4), Some(5), Some(6)])),
            None,
        );
        // Only what the lists hold counts.
        let pairs = round_trip(Arc::new(fixed.slice(1, 2)), "vec[vec[i32]]");
        assert_eq!(pairs.as_list::<i32>().value(1).as_primitive::<Int32Type>().values(), &[5, 6]);
        assert!(from_arrow(&fixed).is_err());
        let texts = ["short", "", "longer than twelve bytes"];
        let dictionary: DictionaryArray<Int8Type> = ["x", "y", "x", "x"].into_iter().collect();
        for (array, wanted) in [
            (Arc::new(StringViewArray::from_iter_values(texts)) as ArrayRef, &texts[..]),
            (Arc::new(BinaryViewArray::from_iter_values(texts)), &texts),
            (Arc::new(LargeStringArray::from_iter_values(texts)), &texts),
            (Arc::new(FixedSizeBinaryArray::try_from_iter([b"ab", b"cd"].into_iter()).unwrap()), &["ab", "cd"]),
            (Arc::new(dictionary), &["x", "y", "x", "x"]),
        ] {
            for start in 0..array.len() {
                let back = round_trip(array.slice(start, array.len() - start), "vec[vec[i8]]");
                let found: Vec<&[u8]> = back.as_binary::<i32>().iter().flatten().collect();
                assert_eq!(found, wanted[start..].iter().map(|text| text.as_bytes()).collect::<Vec<_>>());
            }
        }
        let missing: DictionaryArray<Int8Type> = [Some("x"), None].into_iter().collect();
        assert!(from_arrow(&missing).is_err());
    }

    #[test]
    fn bits_may_begin_anywhere() {
        let bits: Vec<bool> = (0..100).map(|i| i % 3 == 0).collect();
        let array = BooleanArray::from(bits.clone());
        for start in [0, 1, 7, 8, 9, 64, 99, 100] {
            let back = round_trip(Arc::new(array.slice(start, 100 - start)), "vec[bool]");
            assert_eq!(back.as_boolean().iter().flatten().collect::<Vec<_>>(), bits[start..]);
        }
    }

    #[test]
    fn arrays_outlive_what_they_come_from() {
        let program =
            Program::parse("|v: vec[i64], s: vec[vec[i8]]| {map(v, |x| x + 1L), v, s, [\"a constant of the code\"]}");
        let compiled = program.unwrap().compile(&Options::default()).unwrap();
        let texts = StringArray::from(vec!["longer than twelve bytes"]);
        let result = compiled.run(&[Value::vector(vec![1i64, 2]), from_arrow(&texts).unwrap()]).unwrap();
        drop((compiled, texts));
        let arrays: Vec<ArrayRef> = (0..4).map(|i| to_arrow(&result.field(i).unwrap()).unwrap()).collect();
        drop(result);
        assert_eq!(arrays[0].as_primitive::<Int64Type>().values(), &[2, 3]);
        assert_eq!(arrays[1].as_primitive::<Int64Type>().values(), &[1, 2]);
        assert_eq!(arrays[2].as_binary::<i32>().value(0), b"longer than twelve bytes");
        assert_eq!(arrays[3].as_binary::<i32>().value(0), b"a constant of the code");
    }

    #[test]
    fn what_has_no_counterpart_is_an_error() {
        assert!(from_arrow(&Int64Array::from(vec![Some(1), None])).is_err());
        assert!(from_arrow(&NullArray::new(3)).is_err());
        assert!(to_arrow(&Value::i64(1)).is_err());
        let dicts = Program::parse("[result(dictmerger[i64,i64,+])]").unwrap().compile(&Options::default()).unwrap();
        let error = to_arrow(&dicts.run(&[]).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "vectors of dict[i64,i64] have no Arrow type here");
    }
}
