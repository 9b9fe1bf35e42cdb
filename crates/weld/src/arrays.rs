//! Arrow arrays as Weld vectors, and Weld vectors as Arrow arrays.
//!
//! | Arrow | Weld |
//! |---|---|
//! | `Int8` .. `UInt64`, `Float32`, `Float64` | `vec[i8]` .. `vec[u64]`, `vec[f32]`, `vec[f64]` |
//! | `Date32`, `Date64`, `Timestamp` | `vec[i32]`, `vec[i64]` (inwards only) |
//! | `Decimal128` | `vec[i128]`; outwards of precision 38 and scale 0 |
//! | `Boolean` | `vec[bool]` (copied: Weld's have a byte each) |
//! | `Utf8`, `LargeUtf8`, `Binary`, `LargeBinary` | `vec[vec[i8]]`; outwards `Binary` (copied) |
//! | `Struct` | `vec[{..}]`; outwards with the fields `$0`, `$1`, .. |
//!
//! Weld's vectors have no nulls: an array with some is an error.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::*;
use weld_codegen::{Native, Value};
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
        DataType::Decimal128(..) => shared::<Decimal128Type>(array),
        DataType::Date32 => shared::<Date32Type>(array),
        DataType::Date64 => shared::<Date64Type>(array),
        DataType::Timestamp(TimeUnit::Second, _) => shared::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => shared::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => shared::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => shared::<TimestampNanosecondType>(array),
        DataType::Utf8 => bytes(array.as_string::<i32>())?,
        DataType::LargeUtf8 => bytes(array.as_string::<i64>())?,
        DataType::Binary => bytes(array.as_binary::<i32>())?,
        DataType::LargeBinary => bytes(array.as_binary::<i64>())?,
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

fn bytes<T: ByteArrayType>(array: &GenericByteArray<T>) -> Result<Value, ArrayError> {
    let view = |i| StringView::new(array.value(i).as_ref());
    let views: Option<Box<[StringView]>> = (0..array.len()).map(view).collect();
    let views = views.ok_or_else(|| ArrayError("a string of more than 4 GiB".into()))?;
    let words = vec![views.len() as u64, views.as_ptr() as u64];
    let owner: Arc<dyn Any + Send + Sync> = Arc::new((views, array.clone()));
    let ty = ty::Type::vec(ty::Type::vec(ty::Type::Scalar(ty::ScalarKind::I8)));
    // SAFETY: a vector of byte vectors is its length and its views, boxed in the owner; these point into the buffers of
    // the array, which the owner keeps too.
    Ok(unsafe { Value::from_flat(ty, words, [owner]) })
}

/// A vector as an array, which shares its memory where the layouts are the same.
pub fn to_arrow(value: &Value) -> Result<ArrayRef, ArrayError> {
    let Some(element) = value.ty().element() else {
        return Err(ArrayError(format!("a {} is no vector", value.ty())));
    };
    array(value, element, &mut 0)
}

/// The columns from `next` on that hold elements of a type.
fn array(value: &Value, element: &ty::Type, next: &mut usize) -> Result<ArrayRef, ArrayError> {
    if let Some(fields) = element.fields() {
        let mut columns = Vec::with_capacity(fields.len());
        for (i, field) in fields.iter().enumerate() {
            let column = array(value, field, next)?;
            columns.push((Arc::new(Field::new(format!("${i}"), column.data_type().clone(), false)), column));
        }
        return Ok(Arc::new(StructArray::from(columns)));
    }
    let column = *next;
    *next += 1;
    use ty::ScalarKind::*;
    Ok(match element.as_scalar() {
        Some(Bool) => {
            let view = &value.columns()[column];
            Arc::new(BooleanArray::from(view.as_slice::<bool>().unwrap_or(&[]).to_vec()))
        }
        Some(I8) => primitive::<Int8Type>(value, column),
        Some(I16) => primitive::<Int16Type>(value, column),
        Some(I32) => primitive::<Int32Type>(value, column),
        Some(I64) => primitive::<Int64Type>(value, column),
        Some(U8) => primitive::<UInt8Type>(value, column),
        Some(U16) => primitive::<UInt16Type>(value, column),
        Some(U32) => primitive::<UInt32Type>(value, column),
        Some(U64) => primitive::<UInt64Type>(value, column),
        Some(F32) => primitive::<Float32Type>(value, column),
        Some(F64) => primitive::<Float64Type>(value, column),
        Some(I128) => {
            let values: Arc<Decimal128Array> = Arc::new(numbers::<Decimal128Type>(value, column));
            let whole = (*values).clone().with_precision_and_scale(DECIMAL128_MAX_PRECISION, 0);
            Arc::new(whole.map_err(|error| ArrayError(error.to_string()))?)
        }
        None => match value.columns()[column].as_views() {
            // SAFETY: long views point to memory that the value keeps alive.
            Some(views) => Arc::new(BinaryArray::from_iter_values(views.iter().map(|view| unsafe { view.as_slice() }))),
            None => return Err(ArrayError(format!("vectors of {element} have no Arrow type here"))),
        },
    })
}

fn primitive<T: ArrowPrimitiveType<Native: Native>>(value: &Value, column: usize) -> ArrayRef {
    Arc::new(numbers::<T>(value, column))
}

fn numbers<T: ArrowPrimitiveType<Native: Native>>(value: &Value, column: usize) -> PrimitiveArray<T> {
    let view = &value.columns()[column];
    let values: &[T::Native] = view.as_slice().unwrap_or(&[]);
    // Arrow wants `i128` aligned to sixteen bytes, Weld's is aligned to eight.
    let aligned = (view.data as usize).is_multiple_of(align_of::<T::Native>());
    let buffer = match aligned && !values.is_empty() {
        true => Buffer::from(bytes::Bytes::from_owner(Column::<T> {
            value: value.clone(),
            column,
            kind: Default::default(),
        })),
        false => Buffer::from_slice_ref(values),
    };
    PrimitiveArray::new(ScalarBuffer::new(buffer, 0, values.len()), None)
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

    #[test]
    fn what_has_no_counterpart_is_an_error() {
        assert!(from_arrow(&Int64Array::from(vec![Some(1), None])).is_err());
        assert!(from_arrow(&NullArray::new(3)).is_err());
        assert!(to_arrow(&Value::i64(1)).is_err());
        let nested = Program::parse("[[1L], [2L]]").unwrap().compile(&Options::default()).unwrap();
        assert!(to_arrow(&nested.run(&[]).unwrap()).is_err());
    }
}
