//! Sorts beside those of DataFusion.

mod common;

use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{cast, take, take_record_batch};
use arrow::datatypes::DataType;
use common::{OPTIONS, assert_same, check, context, merged, ours, rows, stock};

/// Numbers without a pattern.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// So many rows of a column's values, at random.
    fn pick(&mut self, values: &ArrayRef, rows: usize) -> ArrayRef {
        let indices = UInt32Array::from_iter_values((0..rows).map(|_| self.below(values.len()) as u32));
        take(values, &indices, None).expect("indices in range")
    }
}

fn integers<T: ArrowPrimitiveType>(values: impl IntoIterator<Item = T::Native>, data_type: &DataType) -> ArrayRef {
    let array: PrimitiveArray<T> = values.into_iter().map(Some).chain([None]).collect();
    Arc::new(array.with_data_type(data_type.clone()))
}

fn texts() -> Vec<Option<&'static str>> {
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
fn columns() -> Vec<ArrayRef> {
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
fn batches(columns: &[ArrayRef], rows: usize, seed: u64) -> Vec<RecordBatch> {
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

#[tokio::test]
async fn every_type_in_every_order() {
    for (number, values) in columns().iter().enumerate() {
        for options in OPTIONS {
            for (rows, batch_rows) in [(0, 8192), (1, 8192), (300, 8192), (300, 7)] {
                let batches = batches(std::slice::from_ref(values), rows, number as u64);
                check(&[batches], &[("k0", options)], batch_rows).await;
            }
        }
    }
}

#[tokio::test]
async fn several_keys_of_any_type() {
    let all = columns();
    let mut numbers = Numbers(7);
    for seed in 0..60 {
        let picked: Vec<ArrayRef> = (0..4).map(|_| all[numbers.below(all.len())].clone()).collect();
        let names = ["k0", "k1", "k2", "k3"].map(|name| (name, OPTIONS[numbers.below(4)]));
        let batches = batches(&picked, 500, seed);
        check(from_ref(&batches), &names, 64).await;
        check(from_ref(&batches), &names[..2], 8192).await;
        check(&[batches.clone(), batches[..1].to_vec(), batches], &names[..2], 100).await;
    }
}

/// More of the same than is compared row by row, and more than what fits a key.
#[tokio::test]
async fn long_strings_that_share_much() {
    let mut numbers = Numbers(3);
    let words =
        ["", "x", "a prefix of more than sixteen bytes ", "another prefix of about the same length ", "zzzzzzzz"];
    let texts: Vec<Option<String>> = (0..200)
        .map(|_| (numbers.below(20) > 0).then(|| (0..4).map(|_| words[numbers.below(words.len())]).collect()))
        .collect();
    for data_type in [DataType::Utf8, DataType::Utf8View] {
        let values = cast(&(Arc::new(StringArray::from(texts.clone())) as ArrayRef), &data_type).expect("text");
        let other = integers::<arrow::datatypes::Int64Type>([i64::MIN, 0, i64::MAX], &DataType::Int64);
        let batches = batches(&[values.clone(), other, values], 3000, 5);
        for options in OPTIONS {
            check(from_ref(&batches), &[("k0", options)], 1000).await;
            check(from_ref(&batches), &[("k0", options), ("k1", options), ("k2", OPTIONS[0])], 8192).await;
            check(from_ref(&batches), &[("k1", OPTIONS[1]), ("k2", options), ("k0", OPTIONS[2])], 8192).await;
        }
    }
}

#[tokio::test]
async fn many_rows() {
    for distinct in [1_i64, 2, 1000, i64::MAX] {
        let mut numbers = Numbers(11);
        let mut value = || (numbers.below(1 << 31) as i64) << 31 | numbers.below(1 << 31) as i64;
        let values = Int64Array::from_iter_values((0..6_000).map(|_| value() % distinct));
        let rows = Int64Array::from_iter_values(0..6_000);
        let all = RecordBatch::try_from_iter([("k0", Arc::new(values) as ArrayRef), ("row", Arc::new(rows) as _)]);
        let all = all.expect("columns of one length");
        let batches: Vec<_> = (0..6_000).step_by(8192).map(|at| all.slice(at, 8192.min(6_000 - at))).collect();
        for options in OPTIONS {
            check(from_ref(&batches), &[("k0", options)], 8192).await;
            check(&[batches.clone(), batches.clone()], &[("k0", options), ("row", OPTIONS[2])], 8192).await;
        }
        check(&[vec![all]], &[("k0", OPTIONS[3])], 8192).await;
    }
}

/// Enough for several threads, of several digits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_sorted_by_threads() {
    let mut numbers = Numbers(11);
    let rows = 40_000;
    let mut column = |values| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..rows).map(|_| (numbers.below(values) * 1009) as i64)))
    };
    let named = [("k0", column(7)), ("k1", column(1 << 30)), ("row", column(1 << 30))];
    let all = RecordBatch::try_from_iter(named).expect("columns of one length");
    let batches: Vec<_> = (0..rows).step_by(8192).map(|at| all.slice(at, 8192.min(rows - at))).collect();
    for options in OPTIONS {
        check(&[batches.clone(), batches.clone()], &[("k0", options), ("k1", OPTIONS[0])], 8192).await;
    }
}

#[tokio::test]
async fn partitions_run_alone_and_twice() {
    let batches = batches(&columns()[..3], 300, 1);
    let keys = [("k1", OPTIONS[0]), ("row", OPTIONS[2])];
    let plan = ours(&stock(&[batches.clone(), batches[1..].to_vec()], &keys, None));
    let context = context(100, None);
    let mut before = None;
    for partition in [1, 0, 1, 0] {
        let stream = plan.execute(partition, context.clone()).expect("it starts");
        let found = datafusion::physical_plan::common::collect(stream).await.expect("it sorts");
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 300);
        assert!(before.as_ref().is_none_or(|before| *before == found));
        before = Some(found);
    }
}

#[tokio::test]
async fn who_is_refused_memory_gives_way_to_stock() {
    let batches = batches(&[columns()[3].clone(), columns()[27].clone()], 20_000, 1);
    let keys = [("k0", OPTIONS[0]), ("k1", OPTIONS[2])];
    let plan = stock(&[batches], &keys, None);
    let expected = rows(&plan, &keys, &context(512, None)).await.expect("it sorts");
    let (mut spilled, mut in_memory) = (0, 0);
    for kilobytes in [1, 100, 500, 1000, 2000, 4000, 8000, 64_000, 1_000_000] {
        let context = context(512, Some(kilobytes << 10));
        let sort = ours(&plan);
        match rows(&sort, &keys, &context).await {
            Ok(found) => {
                assert_same(&found, &expected, &keys, false);
                let handed_over = sort.metrics().and_then(|metrics| metrics.sum_by_name("handovers"));
                let handed_over = handed_over.map_or(0, |value| value.as_usize());
                (spilled, in_memory) = (spilled + handed_over, in_memory + 1 - handed_over);
            }
            // Where DataFusion's operator fails, too.
            Err(error) => {
                let stock = rows(&plan, &keys, &context).await.expect_err("ours failed");
                assert!(error.strip_backtrace().contains("Resources exhausted"), "{error}");
                assert!(stock.strip_backtrace().contains("Resources exhausted"), "{stock}");
            }
        }
        assert_eq!(context.memory_pool().reserved(), 0);
    }
    assert!(spilled > 0 && in_memory > 0, "{spilled} {in_memory}");
}

#[tokio::test]
async fn a_merge_that_is_refused_memory_gives_way_to_stock() {
    let slices = batches(&[columns()[3].clone(), columns()[27].clone()], 10_000, 1);
    let copy = |slice: &RecordBatch| {
        take_record_batch(slice, &UInt32Array::from_iter_values(0..slice.num_rows() as u32)).expect("its rows")
    };
    let batches: Vec<_> = slices.iter().map(copy).collect();
    let keys = [("k0", OPTIONS[0]), ("k1", OPTIONS[2])];
    let plan = stock(&[batches.clone(), batches[..20].to_vec(), batches], &keys, None);
    let expected = rows(&plan, &keys, &context(32, None)).await.expect("it sorts");
    let mut spilled = 0;
    for kilobytes in [700, 1300, 1500, 1_000_000] {
        let context = context(32, Some(kilobytes << 10));
        let sort = ours(&merged(&plan, &keys));
        if let Ok(found) = datafusion::physical_plan::collect(sort.clone(), context.clone()).await {
            let found = arrow::compute::concat_batches(&sort.schema(), &found).expect("one schema");
            assert_same(&found, &expected, &keys, false);
            let handed_over = sort.metrics().and_then(|metrics| metrics.sum_by_name("handovers"));
            spilled += handed_over.map_or(0, |value| value.as_usize());
        } else {
            // With so little it depends on who asks first, with DataFusion's operators alone, too.
            let error =
                datafusion::physical_plan::collect(sort, context.clone()).await.err().map(|error| error.to_string());
            assert!(error.is_none_or(|error| error.contains("Resources exhausted")));
        }
        assert_eq!(context.memory_pool().reserved(), 0);
    }
    assert!(spilled > 0);
}

#[tokio::test]
async fn a_dropped_stream_frees_its_memory() {
    use futures::StreamExt;
    let batches = batches(&columns()[..3], 3000, 1);
    let plan = ours(&stock(&[batches], &[("k1", OPTIONS[0])], None));
    let context = context(100, Some(1 << 30));
    let mut stream = plan.execute(0, context.clone()).expect("it starts");
    let first = stream.next().await.expect("there are rows").expect("it sorts");
    assert_eq!(first.num_rows(), 100);
    assert!(context.memory_pool().reserved() > 0);
    drop(stream);
    assert_eq!(context.memory_pool().reserved(), 0);
}
