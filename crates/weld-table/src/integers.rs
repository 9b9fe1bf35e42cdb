//! Integers in other widths: in the narrowest that holds a column's values, and back.
//!
//! ```text
//! Decimal128(15, 2)   1.00, 25.50    Int16   100, 2550
//! Date32              2020-01-01     Int16   18262
//! ```
//! The values of dates, times, timestamps and decimals are their integers: what they stand for is for the declared type
//! to say.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, Decimal128Array, make_array};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::common::{Result, internal_err};

/// `$body` with `$native` the integer of which an array of the type has a buffer; `$other` if it has none.
macro_rules! with_native {
    ($data_type:expr, $native:ident => $body:expr, _ => $other:expr) => {
        match $data_type {
            DataType::Int8 => with_native!(@ $native = i8, $body),
            DataType::Int16 => with_native!(@ $native = i16, $body),
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) => {
                with_native!(@ $native = i32, $body)
            }
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_)
            | DataType::Decimal64(..) => with_native!(@ $native = i64, $body),
            DataType::Decimal128(..) => with_native!(@ $native = i128, $body),
            DataType::UInt8 => with_native!(@ $native = u8, $body),
            DataType::UInt16 => with_native!(@ $native = u16, $body),
            DataType::UInt32 => with_native!(@ $native = u32, $body),
            DataType::UInt64 => with_native!(@ $native = u64, $body),
            _ => $other,
        }
    };
    (@ $native:ident = $ty:ty, $body:expr) => {{
        type $native = $ty;
        $body
    }};
}

const SIGNED: [DataType; 4] = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64];
const UNSIGNED: [DataType; 3] = [DataType::UInt8, DataType::UInt16, DataType::UInt32];

/// The bytes of an integer, if arrays of the type are a buffer of integers.
pub(crate) fn width(data_type: &DataType) -> Option<usize> {
    with_native!(data_type, Native => Some(size_of::<Native>()), _ => None)
}

/// The least and the greatest value that is there.
pub(crate) fn bounds(array: &ArrayRef) -> Option<(i128, i128)> {
    with_native!(array.data_type(), Native => bounds_of(&values::<Native>(array), array.nulls()), _ => None)
}

fn bounds_of<N: Copy + Ord + Into<i128>>(values: &[N], nulls: Option<&NullBuffer>) -> Option<(i128, i128)> {
    let of = |values: &[N]| {
        let first = *values.first()?;
        Some(values.iter().fold((first, first), |(min, max), value| (min.min(*value), max.max(*value))))
    };
    let hull = |(a, b): (N, N), (c, d): (N, N)| (a.min(c), b.max(d));
    let bounds = match nulls {
        None => of(values),
        Some(nulls) => nulls.valid_slices().filter_map(|(start, end)| of(&values[start..end])).reduce(hull),
    };
    bounds.map(|(min, max)| (min.into(), max.into()))
}

/// The narrowest type of integers that holds all values between the bounds: `declared` itself if none is narrower.
pub(crate) fn narrowest(declared: &DataType, bounds: Option<(i128, i128)>) -> DataType {
    let (min, max) = bounds.unwrap_or((0, 0));
    let candidates: &[DataType] = if declared.is_unsigned_integer() { &UNSIGNED } else { &SIGNED };
    let holds = |candidate: &&DataType| {
        let (least, greatest) = with_native!(candidate, Native => wide([Native::MIN, Native::MAX]), _ => return false);
        least <= min && max <= greatest
    };
    let is_narrower = |candidate: &&DataType| width(candidate) < width(declared);
    candidates.iter().filter(is_narrower).find(holds).unwrap_or(declared).clone()
}

/// The same integers as an array of another type, which holds them; nulls stay nulls, whatever is below them.
pub(crate) fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let no_integers = || internal_err!("integers of the type {} as {to}", array.data_type());
    let buffer = with_native!(array.data_type(), Stored => {
        let from = values::<Stored>(array);
        with_native!(to, Wanted => {
            Buffer::from_vec(from.iter().map(|value| *value as Wanted).collect::<Vec<Wanted>>())
        }, _ => return no_integers())
    }, _ => return no_integers());
    let data = ArrayData::builder(to.clone()).len(array.len()).nulls(array.nulls().cloned()).add_buffer(buffer);
    Ok(make_array(data.build()?))
}

/// An array of the type with these values.
pub(crate) fn array_of(values: Vec<Option<i128>>, data_type: &DataType) -> Result<ArrayRef> {
    let wide: ArrayRef = Arc::new(Decimal128Array::from(values));
    convert(&wide, data_type)
}

/// Calls `each` with 64 bits of every value that is there.
pub(crate) fn each(array: &ArrayRef, mut each: impl FnMut(u64)) {
    with_native!(array.data_type(), Native => {
        let values = values::<Native>(array);
        // A value wider than 64 bits has bits beyond them mixed in.
        let bits = |value: Native| {
            let (wide, _) = wide([value, value]);
            wide as u64 ^ (wide >> 64) as u64
        };
        match array.nulls() {
            None => values.iter().for_each(|value| each(bits(*value))),
            Some(nulls) => nulls.valid_indices().for_each(|index| each(bits(values[index]))),
        }
    }, _ => {});
}

fn wide<N: Into<i128>>([a, b]: [N; 2]) -> (i128, i128) {
    (a.into(), b.into())
}

fn values<N: ArrowNativeType>(array: &ArrayRef) -> ScalarBuffer<N> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Int64Array, UInt64Array};

    use super::*;

    #[test]
    fn values_come_back_from_the_narrowest_width() {
        let decimal = DataType::Decimal128(38, 2);
        let widths = [
            (i8::MAX.into(), DataType::Int8),
            (i16::MAX.into(), DataType::Int16),
            (i32::MAX.into(), DataType::Int32),
            (i64::MAX.into(), DataType::Int64),
            (i128::MAX, decimal.clone()),
        ];
        for (max, expected) in widths {
            for values in [vec![Some(max), None, Some(-max - 1)], vec![Some(max)], vec![Some(-max - 1), Some(0)]] {
                let wide = array_of(values, &decimal).expect("decimals");
                let stored = narrowest(&decimal, bounds(&wide));
                assert_eq!(stored, expected, "{wide:?}");
                let narrow = convert(&wide, &stored).expect("it holds them");
                assert_eq!(&convert(&narrow, &decimal).expect("they were of the type"), &wide);
            }
        }
    }

    #[test]
    fn types_keep_their_signs() {
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![0, 255]));
        assert_eq!(narrowest(&DataType::UInt64, bounds(&unsigned)), DataType::UInt8);
        let large: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        assert_eq!(narrowest(&DataType::UInt64, bounds(&large)), DataType::UInt64);
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![18_262, -30_000]));
        assert_eq!(narrowest(&DataType::Date32, bounds(&dates)), DataType::Int16);
    }

    #[test]
    fn slices_and_nulls_have_bounds_of_their_own() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1 << 40), Some(3), None, Some(-7), Some(1 << 50)]));
        assert_eq!(bounds(&values.slice(1, 3)), Some((-7, 3)));
        let narrow = convert(&values.slice(1, 3), &DataType::Int8).expect("they fit");
        assert_eq!(&convert(&narrow, &DataType::Int64).expect("they were"), &values.slice(1, 3));
        assert_eq!(bounds(&values.slice(2, 1)), None);
        assert_eq!(bounds(&values.slice(2, 0)), None);
        assert_eq!(narrowest(&DataType::Int64, None), DataType::Int8);
    }
}
