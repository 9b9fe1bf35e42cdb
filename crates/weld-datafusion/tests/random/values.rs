//! Random arrays of every type: nulls or none (with garbage or zeros under them), few distinct values or extreme ones,
//! whole or sliced.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray, Decimal32Array, Decimal64Array,
    Decimal128Array, Decimal256Array, FixedSizeBinaryArray, FixedSizeListArray, Float16Array, Float32Array,
    Float64Array, Int32Array, LargeBinaryArray, LargeListArray, LargeStringArray, ListArray, MapArray, PrimitiveArray,
    RunArray, StringArray, StringViewArray, StructArray, make_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Date64Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, Field, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTime,
    IntervalDayTimeType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type, i256,
};
use weld_test::generate::rng::Rng;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// Keys: few distinct values.
    Few,
    /// Anything that the type holds.
    Extreme,
}

/// Those before [`FEW_TEXTS`] join well.
const TEXTS: [&str; 34] = [
    "",
    "a",
    "ab",
    "abc",
    "weld",
    "Weld",
    "twelve bytes",
    "thirteen byte",
    "a string that is longer than twelve bytes",
    "a string that is longer than twelve too",
    "größe ∞",
    "100%_\\",
    " padded ",
    "\tand\nlines\n",
    "WELD and weld and WeLd again",
    "the other, with, commas",
    // Letters whose other case is ASCII's, or has another length: the signs of Kelvin and of long s, dotless i.
    "weld at 300 \u{212a}",
    "\u{17f}tring",
    "ISTANBUL \u{130}\u{131}",
    "Straße STRASSE",
    // Of four bytes, and combined ones.
    "😀 emoji 👩‍👩‍👧",
    "e\u{301} is two characters",
    // Numbers, dates and truth, for casts.
    "12",
    "-7",
    " 3",
    "4.50",
    "1e3",
    "NaN",
    "2020-02-29",
    "2020-02-30",
    "2021-03-04T05:06:07.125",
    "12:30:00",
    "true",
    "/index.html?q=a%20b&lang=en",
];

const FEW_TEXTS: usize = 5;

/// An array of this many rows.
pub(crate) fn column(rng: &mut Rng, data_type: &DataType, style: Style, rows: usize, nulls: bool) -> ArrayRef {
    // A slice has an offset and, by luck, bitmaps that begin within a byte. Arrow's comparisons of an empty slice of
    // runs ask for more memory than there is, which ends the process.
    let is_run = matches!(data_type, DataType::RunEndEncoded(..));
    let (before, after) = match rng.one_in(3) {
        true if rows == 0 && is_run => (0, 0),
        true => (rng.below(20), rng.below(3)),
        false => (0, 0),
    };
    let total = before + rows + after;
    let null_odds = 2 + rng.below(6);
    let here: Vec<bool> = (0..total).map(|_| !(nulls && rng.one_in(null_odds))).collect();
    // Dictionaries and runs have nulls among their entries as well.
    let is_encoded = matches!(data_type, DataType::Dictionary(..) | DataType::RunEndEncoded(..));
    let garbage = nulls && !is_encoded && !rng.one_in(4);
    let whole = if garbage {
        let present = values(rng, data_type, style, &vec![true; total]);
        let under_nulls = present.to_data().into_builder().nulls(Some(NullBuffer::from(here)));
        make_array(under_nulls.build().expect("as many bits as rows"))
    } else {
        values(rng, data_type, style, &here)
    };
    whole.slice(before, rows)
}

fn values(rng: &mut Rng, data_type: &DataType, style: Style, here: &[bool]) -> ArrayRef {
    match data_type {
        DataType::Boolean => Arc::new(here.iter().map(|here| here.then(|| rng.one_in(2))).collect::<BooleanArray>()),
        data_type if data_type.is_integer() => of_integers(rng, data_type, style, here),
        data_type if data_type.is_floating() => floats(rng, data_type, style, here),
        data_type if data_type.is_decimal() => of_decimals(rng, data_type, style, here),
        data_type if data_type.is_temporal() => times(rng, data_type, style, here),
        DataType::Utf8 => Arc::new(texts(rng, style, here).into_iter().collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(texts(rng, style, here).into_iter().collect::<LargeStringArray>()),
        DataType::Utf8View => Arc::new(texts(rng, style, here).into_iter().collect::<StringViewArray>()),
        DataType::Binary => Arc::new(bytes(rng, style, here).into_iter().collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(bytes(rng, style, here).into_iter().collect::<LargeBinaryArray>()),
        DataType::BinaryView => Arc::new(bytes(rng, style, here).into_iter().collect::<BinaryViewArray>()),
        DataType::FixedSizeBinary(size) => {
            let fixed = |rng: &mut Rng| (0..*size).map(|_| rng.pick(&[0, 97, 98, 255])).collect::<Vec<u8>>();
            let values: Vec<Option<Vec<u8>>> = here.iter().map(|here| here.then(|| fixed(rng))).collect();
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), *size).expect("so many"))
        }
        DataType::Dictionary(key, value) => dictionary(rng, key, value, style, here),
        DataType::RunEndEncoded(_, value) => runs(rng, value.data_type(), style, here),
        DataType::List(item) => {
            let (offsets, items) = items(rng, item, style, here);
            let offsets = OffsetBuffer::from_lengths(offsets);
            Arc::new(ListArray::new(Arc::clone(item), offsets, items, nulls_of(here)))
        }
        DataType::LargeList(item) => {
            let (offsets, items) = items(rng, item, style, here);
            let offsets = OffsetBuffer::from_lengths(offsets);
            Arc::new(LargeListArray::new(Arc::clone(item), offsets, items, nulls_of(here)))
        }
        DataType::FixedSizeList(item, size) => {
            let total = here.len() * *size as usize;
            let items = column(rng, item.data_type(), style, total, item.is_nullable());
            Arc::new(FixedSizeListArray::new(Arc::clone(item), *size, items, nulls_of(here)))
        }
        DataType::Struct(fields) => {
            let of = |field: &Arc<Field>| column(rng, field.data_type(), style, here.len(), field.is_nullable());
            let columns = fields.iter().map(of).collect();
            Arc::new(StructArray::new(fields.clone(), columns, nulls_of(here)))
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else { panic!("entries of maps are structs") };
            // Keys are told apart.
            let lengths: Vec<usize> = here.iter().map(|here| if *here { rng.below(3) } else { 0 }).collect();
            let keys: StringArray =
                lengths.iter().flat_map(|length| ["a", "b"].into_iter().take(*length)).map(Some).collect();
            let values = column(rng, fields[1].data_type(), style, keys.len(), fields[1].is_nullable());
            let pairs = StructArray::new(fields.clone(), vec![Arc::new(keys), values], None);
            Arc::new(MapArray::new(
                Arc::clone(entries),
                OffsetBuffer::from_lengths(lengths),
                pairs,
                nulls_of(here),
                false,
            ))
        }
        other => panic!("{other} is not among the types"),
    }
}

fn nulls_of(here: &[bool]) -> Option<NullBuffer> {
    here.contains(&false).then(|| NullBuffer::from(here))
}

/// How many items each list has, and these.
fn items(rng: &mut Rng, item: &Field, style: Style, here: &[bool]) -> (Vec<usize>, ArrayRef) {
    let lengths: Vec<usize> = here.iter().map(|here| if *here { rng.below(4) } else { 0 }).collect();
    let items = column(rng, item.data_type(), style, lengths.iter().sum(), item.is_nullable());
    (lengths, items)
}

/// Entries that nobody refers to, twice the same, or null.
fn dictionary(rng: &mut Rng, key: &DataType, value: &DataType, style: Style, here: &[bool]) -> ArrayRef {
    let entries = if value == &DataType::Utf8 {
        Arc::new(StringArray::from(vec![Some("a"), Some("weld"), None, Some("abc"), Some("a"), Some("")]))
    } else {
        values(rng, value, style, &[true, true, false, true, true, true])
    };
    // Of text a null entry is used by nobody: arrow casts it to the view of its bytes, which is not null.
    let is_bytes = value.is_string() || value.is_binary();
    let null_entry = !is_bytes && here.iter().any(|here| !here);
    let mut code = || loop {
        let code = rng.below(entries.len());
        if code != 2 || null_entry {
            return code as i32;
        }
    };
    let codes: Int32Array = here.iter().map(|here| here.then(&mut code)).collect();
    let codes = cast(&codes, key).expect("few entries").to_data();
    let data_type = DataType::Dictionary(Box::new(key.clone()), Box::new(value.clone()));
    let data = codes.into_builder().data_type(data_type).add_child_data(entries.to_data());
    make_array(data.build().expect("codes of entries"))
}

fn runs(rng: &mut Rng, value: &DataType, style: Style, here: &[bool]) -> ArrayRef {
    let mut ends: Vec<i32> = Vec::new();
    let mut present = Vec::new();
    for (row, here) in here.iter().enumerate() {
        if present.last() == Some(here) && rng.one_in(2) {
            ends.pop();
            present.pop();
        }
        ends.push(row as i32 + 1);
        present.push(*here);
    }
    let values = values(rng, value, style, &present);
    Arc::new(RunArray::<Int32Type>::try_new(&Int32Array::from(ends), values.as_ref()).expect("ends that rise"))
}

fn of_integers(rng: &mut Rng, data_type: &DataType, style: Style, here: &[bool]) -> ArrayRef {
    let (i64_min, i64_max) = (i128::from(i64::MIN), i128::from(i64::MAX));
    match data_type {
        DataType::Int8 => integers::<Int8Type>(rng, style, here, i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => integers::<Int16Type>(rng, style, here, i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => integers::<Int32Type>(rng, style, here, i32::MIN.into(), i32::MAX.into()),
        DataType::UInt8 => integers::<UInt8Type>(rng, style, here, 0, u8::MAX.into()),
        DataType::UInt16 => integers::<UInt16Type>(rng, style, here, 0, u16::MAX.into()),
        DataType::UInt32 => integers::<UInt32Type>(rng, style, here, 0, u32::MAX.into()),
        DataType::UInt64 => integers::<UInt64Type>(rng, style, here, 0, u64::MAX.into()),
        _ => integers::<Int64Type>(rng, style, here, i64_min, i64_max),
    }
}

fn floats(rng: &mut Rng, data_type: &DataType, style: Style, here: &[bool]) -> ArrayRef {
    let values: Float64Array = here.iter().map(|here| here.then(|| float(rng, style))).collect();
    match data_type {
        DataType::Float16 => Arc::new(
            cast(&values, data_type).expect("a float").as_any().downcast_ref::<Float16Array>().expect("halves").clone(),
        ),
        DataType::Float32 => {
            Arc::new(values.iter().map(|value| value.map(|value| value as f32)).collect::<Float32Array>())
        }
        _ => Arc::new(values),
    }
}

fn of_decimals(rng: &mut Rng, data_type: &DataType, style: Style, here: &[bool]) -> ArrayRef {
    match data_type {
        DataType::Decimal32(p, s) => {
            let values = decimals(rng, style, here, *p).into_iter().map(|v| v.map(|v| v as i32));
            Arc::new(values.collect::<Decimal32Array>().with_precision_and_scale(*p, *s).expect("a valid type"))
        }
        DataType::Decimal64(p, s) => {
            let values = decimals(rng, style, here, *p).into_iter().map(|v| v.map(|v| v as i64));
            Arc::new(values.collect::<Decimal64Array>().with_precision_and_scale(*p, *s).expect("a valid type"))
        }
        DataType::Decimal128(p, s) => {
            let values = decimals(rng, style, here, *p).into_iter();
            Arc::new(values.collect::<Decimal128Array>().with_precision_and_scale(*p, *s).expect("a valid type"))
        }
        DataType::Decimal256(p, s) => {
            let values = decimals(rng, style, here, 38).into_iter().map(|v| v.map(i256::from_i128));
            Arc::new(values.collect::<Decimal256Array>().with_precision_and_scale(*p, *s).expect("a valid type"))
        }
        other => panic!("{other} is no decimal"),
    }
}

fn times(rng: &mut Rng, data_type: &DataType, style: Style, here: &[bool]) -> ArrayRef {
    match data_type {
        DataType::Date32 => integers::<Date32Type>(rng, style, here, -30_000, 60_000),
        DataType::Date64 => {
            let days = |rng: &mut Rng| (integer(rng, style, -30_000, 60_000) * 86_400_000) as i64;
            let values = here.iter().map(|here| here.then(|| days(rng)));
            Arc::new(values.collect::<PrimitiveArray<Date64Type>>())
        }
        DataType::Timestamp(unit, zone) => {
            let values = fractions(rng, style, here, *unit, (-2_000_000_000, 4_000_000_000));
            match unit {
                TimeUnit::Second => {
                    Arc::new(PrimitiveArray::<TimestampSecondType>::from(values).with_timezone_opt(zone.clone()))
                }
                TimeUnit::Millisecond => {
                    Arc::new(PrimitiveArray::<TimestampMillisecondType>::from(values).with_timezone_opt(zone.clone()))
                }
                TimeUnit::Microsecond => {
                    Arc::new(PrimitiveArray::<TimestampMicrosecondType>::from(values).with_timezone_opt(zone.clone()))
                }
                TimeUnit::Nanosecond => {
                    Arc::new(PrimitiveArray::<TimestampNanosecondType>::from(values).with_timezone_opt(zone.clone()))
                }
            }
        }
        DataType::Duration(unit) => {
            let values = fractions(rng, style, here, *unit, (-2_000_000_000, 4_000_000_000));
            match unit {
                TimeUnit::Second => Arc::new(PrimitiveArray::<DurationSecondType>::from(values)),
                TimeUnit::Millisecond => Arc::new(PrimitiveArray::<DurationMillisecondType>::from(values)),
                TimeUnit::Microsecond => Arc::new(PrimitiveArray::<DurationMicrosecondType>::from(values)),
                TimeUnit::Nanosecond => Arc::new(PrimitiveArray::<DurationNanosecondType>::from(values)),
            }
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let values = fractions(rng, style, here, *unit, (0, 86_399));
            let narrow = || values.iter().map(|value| value.map(|value| value as i32)).collect::<Vec<_>>();
            match unit {
                TimeUnit::Second => Arc::new(PrimitiveArray::<Time32SecondType>::from(narrow())),
                TimeUnit::Millisecond => Arc::new(PrimitiveArray::<Time32MillisecondType>::from(narrow())),
                TimeUnit::Microsecond => Arc::new(PrimitiveArray::<Time64MicrosecondType>::from(values)),
                TimeUnit::Nanosecond => Arc::new(PrimitiveArray::<Time64NanosecondType>::from(values)),
            }
        }
        DataType::Interval(unit) => intervals(rng, *unit, here),
        other => panic!("{other} is no time"),
    }
}

fn intervals(rng: &mut Rng, unit: IntervalUnit, here: &[bool]) -> ArrayRef {
    let small = |rng: &mut Rng| rng.below(30) as i32 - 10;
    match unit {
        IntervalUnit::YearMonth => {
            let values = here.iter().map(|here| here.then(|| small(rng)));
            Arc::new(values.collect::<PrimitiveArray<IntervalYearMonthType>>())
        }
        IntervalUnit::DayTime => {
            let values = here.iter().map(|here| here.then(|| IntervalDayTime::new(small(rng), 1000 * small(rng))));
            Arc::new(values.collect::<PrimitiveArray<IntervalDayTimeType>>())
        }
        IntervalUnit::MonthDayNano => {
            let value = |rng: &mut Rng| {
                IntervalMonthDayNano::new(small(rng), small(rng), 1_000_000_000 * i64::from(small(rng)))
            };
            let values = here.iter().map(|here| here.then(|| value(rng)));
            Arc::new(values.collect::<PrimitiveArray<IntervalMonthDayNanoType>>())
        }
    }
}

/// Seconds between two bounds, and quarters of them, in a unit.
fn fractions(rng: &mut Rng, style: Style, here: &[bool], unit: TimeUnit, bounds: (i128, i128)) -> Vec<Option<i64>> {
    let per_second = match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    };
    let time = |rng: &mut Rng| {
        let seconds = integer(rng, style, bounds.0, bounds.1).clamp(bounds.0, bounds.1);
        (seconds * per_second + if rng.one_in(2) { 0 } else { per_second / 4 }) as i64
    };
    here.iter().map(|here| here.then(|| time(rng))).collect()
}

fn integers<T: ArrowPrimitiveType>(rng: &mut Rng, style: Style, here: &[bool], min: i128, max: i128) -> ArrayRef {
    let value = |rng: &mut Rng| T::Native::from_wide(integer(rng, style, min, max));
    Arc::new(here.iter().map(|here| here.then(|| value(rng))).collect::<PrimitiveArray<T>>())
}

trait FromWide {
    fn from_wide(value: i128) -> Self;
}

impl<N: ArrowNativeType> FromWide for N {
    fn from_wide(value: i128) -> N {
        // `usize_as` keeps the low bits.
        N::usize_as(value as usize)
    }
}

fn integer(rng: &mut Rng, style: Style, min: i128, max: i128) -> i128 {
    if style == Style::Few || rng.one_in(2) {
        return (rng.below(7) as i128 - 2).max(min);
    }
    match rng.below(5) {
        0 => min,
        1 => max,
        2 => min + 1,
        3 => max - 1,
        _ => min / 3 + (max / 3 - min / 3) / 1000 * rng.below(1000) as i128,
    }
}

/// Quarters, so that sums do not depend on their order.
fn float(rng: &mut Rng, style: Style) -> f64 {
    if style == Style::Extreme && rng.one_in(3) {
        return rng.pick(&[f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0]);
    }
    let range = if style == Style::Few { 5 } else { 4000 };
    (rng.below(range) as f64 - (range / 3) as f64) / 4.0
}

fn decimals(rng: &mut Rng, style: Style, here: &[bool], precision: u8) -> Vec<Option<i128>> {
    let max = 10i128.pow(u32::from(precision)) - 1;
    let value = |rng: &mut Rng| {
        if style == Style::Few { integer(rng, style, -max, max) * 50 } else { integer(rng, style, -max, max) }
    };
    here.iter().map(|here| here.then(|| value(rng).clamp(-max, max))).collect()
}

fn texts(rng: &mut Rng, style: Style, here: &[bool]) -> Vec<Option<&'static str>> {
    let among = if style == Style::Few { FEW_TEXTS } else { TEXTS.len() };
    here.iter().map(|here| here.then(|| TEXTS[rng.below(among)])).collect()
}

fn bytes(rng: &mut Rng, style: Style, here: &[bool]) -> Vec<Option<&'static [u8]>> {
    const NO_TEXT: &[u8] = &[0xff, 0, 0x80, b'a', 0xc3, 0x28, 0, 0, 1, 2, 3, 4, 5];
    let texts = texts(rng, style, here).into_iter();
    let mut odd = |text: &'static str| if style == Style::Extreme && rng.one_in(4) { NO_TEXT } else { text.as_bytes() };
    texts.map(|text| text.map(&mut odd)).collect()
}
