//! Rows to sort.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{cast, take};
use arrow::datatypes::DataType;

/// Numbers without a pattern.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// So many rows of a column's values, at random.
    pub(crate) fn pick(&mut self, values: &ArrayRef, rows: usize) -> ArrayRef {
        let indices = UInt32Array::from_iter_values((0..rows).map(|_| self.below(values.len()) as u32));
        take(values, &indices, None).expect("indices in range")
    }
}

pub(crate) fn integers<T: ArrowPrimitiveType>(
    values: impl IntoIterator<Item = T::Native>,
    data_type: &DataType,
) -> ArrayRef {
    let array: PrimitiveArray<T> = values.into_iter().map(Some).chain([None]).collect();
    Arc::new(array.with_data_type(data_type.clone()))
}

pub(crate) fn texts() -> Vec<Option<&'static str>> {
    let mut texts: Vec<_> =
        ["", "a", "b", "ab", "a\0", "a\0\0", "\0", "abcdefgh", "abcdefghi", "abcdefghij", "zz"].map(Some).into();
    texts.extend(["a common prefix of a few words", "a common prefix of a few worde", "a common prefix"].map(Some));
    texts.extend(
        ["a common prefix of a few words, and then some", "\u{10ffff}", "twelve bytes", "twelve bytesX"].map(Some),
    );
    texts.push(None);
    texts
}

/// Values of every kind of type, extremes and nulls among them.
pub(crate) fn columns() -> Vec<ArrayRef> {
    use arrow::datatypes::*;
    let second = DataType::Timestamp(TimeUnit::Second, None);
    let zoned = DataType::Timestamp(TimeUnit::Nanosecond, Some("+01:00".into()));
    let floats = [0.0, -0.0, 1.5, -1.5, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE];
    let floats: ArrayRef = Arc::new(floats.into_iter().map(Some).chain([None]).collect::<Float64Array>());
    let wide = [i128::MIN, i128::MAX, 0, -1, 1, i64::MAX.into(), i64::MIN.into(), 1 << 64, -1 << 64];
    let longs = [i64::MIN, i64::MAX, 0, -1, 1, 4711, -4711];
    let text =
        |data_type| cast(&(Arc::new(StringArray::from(texts())) as ArrayRef), data_type).expect("a cast of text");
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), None]),
        Some(vec![]),
        None,
        Some(vec![Some(1), Some(-1)]),
        Some(vec![None]),
    ]));
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]));
    let pairs: ArrayRef = Arc::new(StructArray::from(vec![
        (Arc::new(Field::new("a", DataType::Boolean, true)), flags.clone()),
        (
            Arc::new(Field::new("b", DataType::Int8, true)),
            Arc::new(Int8Array::from(vec![Some(1), None, Some(-1)])) as _,
        ),
    ]));
    let fixed = [Some(*b"abc"), Some([0; 3]), None, Some([255; 3])].map(|value| value.map(|value| value.to_vec()));
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed.into_iter(), 3).expect("three bytes each");
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    // Entries that are null, equal to others, or nobody's.
    let entries = StringArray::from(vec![
        Some("b"),
        None,
        Some(""),
        Some("b"),
        Some("a text of more than twelve bytes"),
        Some("c"),
    ]);
    let repeating = UInt16Array::from(vec![Some(0), Some(1), None, Some(2), Some(3), Some(4)]);
    let repeating = DictionaryArray::new(repeating, Arc::new(entries));
    let days =
        IntervalDayTimeArray::from(vec![Some(IntervalDayTime::new(1, 2)), None, Some(IntervalDayTime::new(-1, 2))]);
    vec![
        integers::<Int8Type>([i8::MIN, i8::MAX, 0, -1, 1], &DataType::Int8),
        integers::<Int16Type>([i16::MIN, i16::MAX, 0, -1, 1], &DataType::Int16),
        integers::<Int32Type>([i32::MIN, i32::MAX, 0, -1, 1], &DataType::Int32),
        integers::<Int64Type>(longs, &DataType::Int64),
        integers::<UInt8Type>([u8::MAX, 0, 1], &DataType::UInt8),
        integers::<UInt16Type>([u16::MAX, 0, 1], &DataType::UInt16),
        integers::<UInt32Type>([u32::MAX, 0, 1], &DataType::UInt32),
        integers::<UInt64Type>([u64::MAX, 0, 1], &DataType::UInt64),
        integers::<Date32Type>([i32::MIN, i32::MAX, 0, 18000], &DataType::Date32),
        integers::<Date64Type>(longs, &DataType::Date64),
        integers::<Time32SecondType>([0, 1, 86399], &DataType::Time32(TimeUnit::Second)),
        integers::<Time64NanosecondType>([0, 1, 86399], &DataType::Time64(TimeUnit::Nanosecond)),
        integers::<TimestampSecondType>(longs, &second),
        integers::<TimestampNanosecondType>(longs, &zoned),
        integers::<DurationSecondType>(longs, &DataType::Duration(TimeUnit::Second)),
        integers::<IntervalYearMonthType>([-1, 0, 1], &DataType::Interval(IntervalUnit::YearMonth)),
        integers::<Decimal32Type>([-9, 0, 9_999_999], &DataType::Decimal32(7, 2)),
        integers::<Decimal64Type>([-9, 0, 99_999_999], &DataType::Decimal64(15, 2)),
        integers::<Decimal128Type>([-9, 0, 99_999_999, 5], &DataType::Decimal128(15, 2)),
        integers::<Decimal128Type>(wide, &DataType::Decimal128(38, 2)),
        integers::<Decimal256Type>(wide.map(i256::from_i128), &DataType::Decimal256(50, 2)),
        cast(&floats, &DataType::Float16).expect("a cast of floats"),
        cast(&floats, &DataType::Float32).expect("a cast of floats"),
        floats,
        flags,
        text(&DataType::Utf8),
        text(&DataType::LargeUtf8),
        text(&DataType::Utf8View),
        text(&DataType::Binary),
        text(&DataType::LargeBinary),
        text(&DataType::BinaryView),
        text(&dictionary),
        Arc::new(repeating),
        Arc::new(fixed),
        lists,
        pairs,
        Arc::new(days),
        new_null_array(&DataType::Null, 3),
        new_null_array(&DataType::Int32, 3),
    ]
}

/// Batches of many lengths, some of them slices, one of them empty, of these columns and the number of the row.
pub(crate) fn batches(columns: &[ArrayRef], rows: usize, seed: u64) -> Vec<RecordBatch> {
    let mut numbers = Numbers(seed);
    let mut named: Vec<(String, ArrayRef, bool)> = columns
        .iter()
        .enumerate()
        .map(|(number, values)| (format!("k{number}"), numbers.pick(values, rows), true))
        .collect();
    named.push(("row".to_owned(), Arc::new(Int64Array::from_iter_values(0..rows as i64)), false));
    let all = RecordBatch::try_from_iter_with_nullable(named).expect("columns of one length");
    let mut batches = vec![all.slice(0, 0)];
    let mut start = 0;
    while start < rows {
        let length = (1 + numbers.below(40)).min(rows - start);
        batches.push(all.slice(start, length));
        start += length;
    }
    batches
}

/// Rows of an integer `k0`, one of about so many, and their number `row`.
pub(crate) fn numbered(rows: usize, distinct: i64) -> RecordBatch {
    let mut numbers = Numbers(11);
    let mut value = || (numbers.below(1 << 31) as i64) << 31 | numbers.below(1 << 31) as i64;
    let values = Int64Array::from_iter_values((0..rows).map(|_| value() % distinct));
    let numbers = Int64Array::from_iter_values(0..rows as i64);
    RecordBatch::try_from_iter([("k0", Arc::new(values) as ArrayRef), ("row", Arc::new(numbers) as _)])
        .expect("columns of one length")
}
