//! Makes columns of sorted rows: of their keys where these hold the whole value, else of the batches that were read.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BooleanArray, StringViewArray, UInt64Array, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::{concat, interleave, take};
use arrow::datatypes::{ArrowNativeType, DataType, i256};
use datafusion::common::Result;

use crate::column::float_bits;
use crate::normalised_key::{Key, Whole};
use crate::place::Place;

/// Every batch that is made refers to all buffers of text where these are no more; else to those of its own rows. An
/// operator that puts the batches together would have a list of them for each.
const TEXT_BUFFERS_MAX: usize = 64;

/// Where the values of a column are.
pub(crate) enum Source {
    Key(DataType, Whole),
    Batches(DataType, Fixed, Vec<Option<NullBuffer>>),
    Arrays(Vec<ArrayRef>),
    /// One array, and where the rows of each batch begin in it.
    Array(ArrayRef, Vec<usize>),
}

/// Values of one width. What they mean does not matter to who moves them.
pub(crate) enum Fixed {
    Bits8(Vec<ScalarBuffer<u8>>),
    Bits16(Vec<ScalarBuffer<u16>>),
    Bits32(Vec<ScalarBuffer<u32>>),
    Bits64(Vec<ScalarBuffer<u64>>),
    Bits128(Vec<ScalarBuffer<i128>>),
    Bits256(Vec<ScalarBuffer<i256>>),
}

impl Source {
    /// The values of a column in all batches.
    pub(crate) fn of(arrays: Vec<ArrayRef>, data_type: &DataType) -> Result<Source> {
        if matches!(data_type, DataType::Utf8View | DataType::BinaryView)
            && arrays.iter().map(text_buffers).sum::<usize>() <= TEXT_BUFFERS_MAX
        {
            // Their text stays where it is.
            let starts = arrays.iter().scan(0, |next, array| Some(std::mem::replace(next, *next + array.len())));
            let starts = starts.collect();
            let references: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            return Ok(Source::Array(concat(&references)?, starts));
        }
        let Some(width) = data_type.primitive_width() else { return Ok(Source::Arrays(arrays)) };
        let fixed = match width {
            1 => Fixed::Bits8(buffers(&arrays)),
            2 => Fixed::Bits16(buffers(&arrays)),
            4 => Fixed::Bits32(buffers(&arrays)),
            8 => Fixed::Bits64(buffers(&arrays)),
            16 if is_aligned(data_type) => Fixed::Bits128(buffers(&arrays)),
            32 => Fixed::Bits256(buffers(&arrays)),
            _ => return Ok(Source::Arrays(arrays)),
        };
        let nulls = |array: &ArrayRef| array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let mut nulls: Vec<_> = arrays.iter().map(nulls).collect();
        if nulls.iter().all(Option::is_none) {
            nulls.clear();
        }
        Ok(Source::Batches(data_type.clone(), fixed, nulls))
    }

    /// The values of these rows, whose places are also there in pairs of indices.
    pub(crate) fn take<K: Key>(&self, keys: &[K], places: &[Place], indices: &[(usize, usize)]) -> Result<ArrayRef> {
        match self {
            Source::Key(data_type, whole) => decode(data_type, whole, keys),
            Source::Batches(data_type, fixed, nulls) => {
                let nulls = (!nulls.is_empty()).then(|| {
                    let valid = |number: usize| {
                        let place: Place = places[number];
                        nulls[place.batch].as_ref().is_none_or(|nulls| nulls.is_valid(place.row))
                    };
                    NullBuffer::new(BooleanBuffer::collect_bool(places.len(), valid))
                });
                primitive(data_type, places.len(), fixed.take(places), nulls)
            }
            Source::Array(array, starts) => {
                let rows = places.iter().map(|place| (starts[place.batch] + place.row) as u64);
                Ok(take(array, &UInt64Array::from_iter_values(rows), None)?)
            }
            Source::Arrays(arrays) => {
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                Ok(interleave(&arrays, indices)?)
            }
        }
    }
}

/// How many buffers hold the text of an array of views.
fn text_buffers(array: &ArrayRef) -> usize {
    let views = |array: &StringViewArray| array.data_buffers().len();
    array
        .as_string_view_opt()
        .map(views)
        .or_else(|| Some(array.as_binary_view_opt()?.data_buffers().len()))
        .unwrap_or(0)
}

/// Whether values have the alignment of 128-bit integers.
fn is_aligned(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..))
}

fn buffers<T: ArrowNativeType>(arrays: &[ArrayRef]) -> Vec<ScalarBuffer<T>> {
    let values = |array: &ArrayRef| {
        let data = array.to_data();
        ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
    };
    arrays.iter().map(values).collect()
}

impl Fixed {
    fn take(&self, places: &[Place]) -> Buffer {
        fn values<T: ArrowNativeType>(values: &[ScalarBuffer<T>], places: &[Place]) -> Buffer {
            Buffer::from_vec(places.iter().map(|place| values[place.batch][place.row]).collect::<Vec<T>>())
        }
        match self {
            Fixed::Bits8(buffers) => values(buffers, places),
            Fixed::Bits16(buffers) => values(buffers, places),
            Fixed::Bits32(buffers) => values(buffers, places),
            Fixed::Bits64(buffers) => values(buffers, places),
            Fixed::Bits128(buffers) => values(buffers, places),
            Fixed::Bits256(buffers) => values(buffers, places),
        }
    }
}

fn primitive(data_type: &DataType, rows: usize, values: Buffer, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).nulls(nulls);
    Ok(make_array(data.build()?))
}

/// Whether values of a type can be made of their ordinals.
pub(crate) fn is_decoded(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Boolean | DataType::Decimal128(..))
        || (data_type.is_primitive() && data_type.primitive_width().is_some_and(|width| width <= 8))
            && !matches!(data_type, DataType::Interval(unit) if *unit != arrow::datatypes::IntervalUnit::YearMonth)
}

fn decode<K: Key>(data_type: &DataType, whole: &Whole, keys: &[K]) -> Result<ArrayRef> {
    let nulls = whole
        .may_be_null()
        .then(|| NullBuffer::new(BooleanBuffer::collect_bool(keys.len(), |row| whole.is_valid(keys[row]))));
    fn made<K: Key, T: ArrowNativeType>(keys: &[K], whole: &Whole, value: impl Fn(u64) -> T) -> Buffer {
        Buffer::from_vec(keys.iter().map(|key| value(whole.ordinal(*key))).collect::<Vec<T>>())
    }
    let signed = |ordinal: u64| (ordinal ^ (1 << 63)) as i64;
    let values = match data_type {
        DataType::Boolean => {
            let values = BooleanBuffer::collect_bool(keys.len(), |row| whole.ordinal(keys[row]) != 0);
            return Ok(Arc::new(BooleanArray::new(values, nulls)));
        }
        DataType::UInt8 => made(keys, whole, |ordinal| ordinal as u8),
        DataType::UInt16 => made(keys, whole, |ordinal| ordinal as u16),
        DataType::UInt32 => made(keys, whole, |ordinal| ordinal as u32),
        DataType::UInt64 => made(keys, whole, |ordinal| ordinal),
        DataType::Float16 => made(keys, whole, |ordinal| float_bits(ordinal, 16) as u16),
        DataType::Float32 => made(keys, whole, |ordinal| float_bits(ordinal, 32) as u32),
        DataType::Float64 => made(keys, whole, |ordinal| float_bits(ordinal, 64)),
        DataType::Decimal128(..) => made(keys, whole, |ordinal| i128::from(signed(ordinal))),
        other => match other.primitive_width() {
            Some(1) => made(keys, whole, |ordinal| signed(ordinal) as i8),
            Some(2) => made(keys, whole, |ordinal| signed(ordinal) as i16),
            Some(4) => made(keys, whole, |ordinal| signed(ordinal) as i32),
            _ => made(keys, whole, signed),
        },
    };
    primitive(data_type, keys.len(), values, nulls)
}
