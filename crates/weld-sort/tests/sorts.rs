//! Sorts beside those of DataFusion.

mod common;

use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::DataType;
use common::data::{Numbers, batches, columns, integers, numbered};
use common::{OPTIONS, assert_same, check, context, merged, ours, rows, stock};

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
        let all = numbered(6_000, distinct);
        let batches: Vec<_> = (0..6_000).step_by(8192).map(|at| all.slice(at, 8192.min(6_000 - at))).collect();
        for options in OPTIONS {
            check(from_ref(&batches), &[("k0", options)], 8192).await;
            check(&[batches.clone(), batches.clone()], &[("k0", options), ("row", OPTIONS[2])], 8192).await;
        }
        check(&[vec![all]], &[("k0", OPTIONS[3])], 8192).await;
    }
}

/// Text of many buffers: a batch has those of its rows, not all of them, which the next sort would have once for each
/// batch.
#[tokio::test]
async fn batches_have_the_text_of_their_rows() {
    let text = |row: usize| format!("a text of more than twelve bytes, number {}", row * 7919 % 300);
    let batch = |row: usize| -> RecordBatch {
        let texts = StringViewArray::from_iter_values((row..row + 2).map(text));
        let bytes = BinaryViewArray::from_iter_values((row..row + 2).map(text));
        let named: [(&str, ArrayRef); 2] = [("k0", Arc::new(texts)), ("k1", Arc::new(bytes))];
        RecordBatch::try_from_iter(named).expect("columns of one length")
    };
    let batches: Vec<RecordBatch> = (0..300).step_by(2).map(batch).collect();
    check(from_ref(&batches), &[("k0", OPTIONS[0]), ("k1", OPTIONS[2])], 10).await;
    let sorted = ours(&stock(&[batches], &[("k0", OPTIONS[0])], None));
    for batch in datafusion::physical_plan::collect(sorted, context(10, None)).await.expect("it sorts") {
        let (texts, bytes) = (batch.column(0).as_string_view(), batch.column(1).as_binary_view());
        assert!(texts.data_buffers().len() <= 10 && bytes.data_buffers().len() <= 10);
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
