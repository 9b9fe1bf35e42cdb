//! The first rows of an order beside those of DataFusion.

mod common;

use std::any::Any;
use std::slice::from_ref;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, DictionaryArray, Int64Array, RecordBatch, StringArray, StringViewArray, UInt16Array, UInt32Array,
};
use arrow::compute::{SortOptions, cast, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use common::data::{Numbers, batches, columns, integers, numbered};
use common::{OPTIONS, assert_same, check_top, context, merged, ours, rows, stock};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, col, lit};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::StreamExt;
use weld_sort::KeySortExec;

/// Values of the types that are not nested.
fn flat_columns() -> Vec<ArrayRef> {
    columns().into_iter().filter(|column| !column.data_type().is_nested()).collect()
}

#[tokio::test]
async fn every_type_in_every_order() {
    for (number, values) in flat_columns().iter().enumerate() {
        for options in OPTIONS {
            for (rows, batch_rows, limit) in [(0, 8192, 3), (1, 8192, 1), (300, 8192, 5), (300, 7, 40), (300, 50, 400)]
            {
                let batches = batches(from_ref(values), rows, number as u64);
                check_top(&[batches], &[("k0", options)], batch_rows, limit).await;
            }
        }
    }
}

#[tokio::test]
async fn several_keys_of_any_type() {
    let all = flat_columns();
    let mut numbers = Numbers(7);
    for seed in 0..80 {
        let picked: Vec<ArrayRef> = (0..4).map(|_| all[numbers.below(all.len())].clone()).collect();
        let names = ["k0", "k1", "k2", "k3"].map(|name| (name, OPTIONS[numbers.below(4)]));
        let batches = batches(&picked, 500, seed);
        let limit = [1, 2, 17, 100, 499][numbers.below(5)];
        check_top(from_ref(&batches), &names, 64, limit).await;
        check_top(from_ref(&batches), &names[..2], 8192, limit).await;
        check_top(&[batches.clone(), batches[..1].to_vec(), batches], &names[..2], 100, limit).await;
    }
}

/// So many that candidates are selected again and again, and held rows put together.
#[tokio::test]
async fn many_rows() {
    for distinct in [1_i64, 2, 1000, i64::MAX] {
        let all = numbered(40_000, distinct);
        let batches: Vec<_> = (0..40_000).step_by(100).map(|at| all.slice(at, 100)).collect();
        for options in OPTIONS {
            for limit in [1, 10, 250, 5000] {
                check_top(from_ref(&batches), &[("k0", options)], 100, limit).await;
                let keys = [("k0", options), ("row", OPTIONS[2])];
                check_top(&[batches.clone(), batches.clone()], &keys, 100, limit).await;
                // Every row is better than all before it, or none is.
                check_top(from_ref(&batches), &[("row", options)], 100, limit).await;
            }
        }
    }
}

/// More of the same than fits a key.
#[tokio::test]
async fn long_strings_that_share_much() {
    let mut numbers = Numbers(3);
    let words =
        ["", "x", "a prefix of more than sixteen bytes ", "another prefix of about the same length ", "zzzzzzzz"];
    let texts: Vec<Option<String>> = (0..200)
        .map(|_| (numbers.below(20) > 0).then(|| (0..4).map(|_| words[numbers.below(words.len())]).collect()))
        .collect();
    let dictionary = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::LargeUtf8));
    for data_type in [DataType::Utf8, DataType::Utf8View, dictionary] {
        let values = cast(&(Arc::new(StringArray::from(texts.clone())) as ArrayRef), &data_type).expect("text");
        let other = integers::<Int64Type>([i64::MIN, 0, i64::MAX], &DataType::Int64);
        let batches = batches(&[values.clone(), other, values], 3000, 5);
        for options in OPTIONS {
            for limit in [3, 100, 1000] {
                check_top(from_ref(&batches), &[("k0", options)], 1000, limit).await;
                check_top(from_ref(&batches), &[("k0", options), ("k1", options), ("k2", OPTIONS[0])], 64, limit).await;
                check_top(from_ref(&batches), &[("k1", OPTIONS[1]), ("k2", options), ("k0", OPTIONS[2])], 64, limit)
                    .await;
            }
        }
    }
}

/// All rows of such a dictionary are null.
#[tokio::test]
async fn dictionaries_without_entries() {
    let texts = StringArray::from_iter_values((0..100).map(|number| format!("text {}", number % 7)));
    let dictionary = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
    let values = cast(&(Arc::new(texts) as ArrayRef), &dictionary).expect("text");
    let full = batches(&[values], 100, 3);
    let empty = |batch: &RecordBatch| {
        let keys = UInt16Array::new_null(batch.num_rows());
        let nulls = DictionaryArray::new(keys, Arc::new(StringArray::from_iter_values([""; 0])));
        let mut columns = batch.columns().to_vec();
        columns[0] = Arc::new(nulls);
        RecordBatch::try_new(batch.schema(), columns).expect("of the same type")
    };
    let all: Vec<RecordBatch> = full.iter().cloned().chain(full.iter().map(empty)).chain(full.clone()).collect();
    for options in OPTIONS {
        for limit in [1, 5, 150] {
            check_top(from_ref(&all), &[("k0", options)], 8192, limit).await;
        }
    }
}

/// Strings around the length that fits a key, one the beginning of the next.
#[tokio::test]
async fn strings_that_end_in_zeros() {
    let texts: Vec<String> = (0..40).map(|length| "\0".repeat(length)).collect();
    let values: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
    let batches = batches(&[values], 400, 5);
    for options in OPTIONS {
        for limit in [1, 20, 150, 250] {
            check_top(from_ref(&batches), &[("k0", options)], 64, limit).await;
        }
    }
}

#[tokio::test]
async fn what_stays_with_datafusion() {
    let batches = batches(&columns(), 10, 1);
    let names: Vec<String> = (0..columns().len()).map(|number| format!("k{number}")).collect();
    for (name, column) in names.iter().zip(columns()) {
        let keys = [("k3", OPTIONS[0]), (name.as_str(), OPTIONS[0])];
        let of = |limit| KeySortExec::of(&stock(from_ref(&batches), &keys, limit)).expect("a sort");
        assert!(of(Some(3)).is_ok(), "{}", column.data_type());
        assert!(of(Some(0)).is_err());
        assert!(of(None).is_ok());
    }
}

/// DataFusion's operator drops rows by comparisons, for which nulls within lists are least wherever the order puts
/// them. Ours gives what a sort of all rows begins with.
#[tokio::test]
async fn nested_values_come_in_the_order_of_a_sort() {
    let flat = flat_columns();
    for (number, column) in columns().into_iter().filter(|column| column.data_type().is_nested()).enumerate() {
        let batches = batches(&[column, flat[number].clone()], 300, number as u64);
        for options in OPTIONS {
            for keys in
                [&[("k0", options)][..], &[("k1", OPTIONS[1]), ("k0", options)], &[("k0", options), ("k1", options)]]
            {
                for (batch_rows, limit) in [(7, 5), (50, 40), (8192, 200)] {
                    let context = context(batch_rows, None);
                    for partitions in [&[batches.clone()][..], &[batches.clone(), batches.clone()]] {
                        let expected = rows(&stock(partitions, keys, None), keys, &context).await.expect("it sorts");
                        let plan = ours(&merged(&stock(partitions, keys, Some(limit)), keys));
                        let found = collect(Arc::clone(&plan), Arc::clone(&context)).await.expect("it sorts");
                        let found = concat_batches(&plan.schema(), &found).expect("one schema");
                        assert_same(&found, &expected.slice(0, limit), keys, true);
                    }
                }
            }
        }
    }
}

/// The rows of each partition behind a column that is constant in it, as the branches of a union have it.
fn with_constants(partitions: &[(i64, Vec<RecordBatch>)]) -> Arc<dyn ExecutionPlan> {
    let branch = |(number, batches): &(i64, Vec<RecordBatch>)| -> Arc<dyn ExecutionPlan> {
        let schema = batches[0].schema();
        let source =
            MemorySourceConfig::try_new_exec(from_ref(batches), Arc::clone(&schema), None).expect("one schema");
        let key = col("k0", &schema).expect("a column");
        let exprs = [(lit(*number), "number".to_owned()), (key, "k0".to_owned())];
        Arc::new(ProjectionExec::try_new(exprs, source).expect("columns"))
    };
    UnionExec::try_new(partitions.iter().map(branch).collect()).expect("one schema")
}

/// Which rows come first of all is for who merges them to say: by keys that are constant in a partition, too.
#[tokio::test]
async fn partitions_with_constants_of_their_own_have_each_their_first() {
    let values = |low: i64| -> Vec<RecordBatch> {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values((0..100).map(|row| low + row * 37 % 100)));
        let batch = RecordBatch::try_from_iter([("k0", column)]).expect("one column");
        (0..100).step_by(10).map(|at| batch.slice(at, 10)).collect()
    };
    let context = context(10, None);
    let union = with_constants(&[(1, values(0)), (0, values(1000)), (2, values(-1000))]);
    let keys = [("number", OPTIONS[0]), ("k0", OPTIONS[0])];
    // As DataFusion makes it of both keys: no partition need be sorted by its constant.
    let order = [PhysicalSortExpr { expr: col("k0", &union.schema()).expect("a column"), options: OPTIONS[0] }];
    let order = LexOrdering::new(order).expect("a key");
    let plan = SortExec::new(order, union).with_fetch(Some(7)).with_preserve_partitioning(true);
    let plan = ours(&(Arc::new(plan) as Arc<dyn ExecutionPlan>));
    for (partition, low) in [(2, -1000), (0, 0), (1, 1000)] {
        let rows = plan.execute(partition, Arc::clone(&context)).expect("it runs").collect::<Vec<_>>().await;
        let batches: Vec<RecordBatch> = rows.into_iter().map(|batch| batch.expect("it sorts")).collect();
        let first = concat_batches(&plan.schema(), &batches).expect("one schema");
        let expected: Vec<i64> = (low..low + 7).collect();
        assert_eq!(first.column(1).as_primitive::<Int64Type>().values(), &expected[..]);
    }
    let first = rows(&plan, &keys, &context).await.expect("it sorts");
    assert_eq!(first.column(1).as_primitive::<Int64Type>().values(), &(1000..1007).collect::<Vec<i64>>()[..]);
}

/// Where nothing differs by partition all share a bound, which the scan is told, though a merge stands further above.
#[tokio::test]
async fn partitions_share_a_bound() {
    let batch = |low: i64| -> Vec<RecordBatch> {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(low..low + 100));
        vec![RecordBatch::try_from_iter([("k0", column)]).expect("one column")]
    };
    let plan = ours(&stock(&[batch(0), batch(1000)], &[("k0", OPTIONS[0])], Some(7)));
    let filter = filter_of(&plan);
    let context = context(10, None);
    for (partition, count) in [(0, 7), (1, 0)] {
        let rows = plan.execute(partition, Arc::clone(&context)).expect("it runs").collect::<Vec<_>>().await;
        assert_eq!(rows.into_iter().map(|batch| batch.expect("it sorts").num_rows()).sum::<usize>(), count);
    }
    assert!(filter.current().expect("an expression").to_string().contains("< 6"));
}

fn filter_of(plan: &Arc<dyn ExecutionPlan>) -> Arc<DynamicFilterPhysicalExpr> {
    let filter = plan.dynamic_expressions_produced().pop().expect("a filter");
    (filter as Arc<dyn Any + Send + Sync>).downcast().expect("a dynamic filter")
}

/// The scan below is told as much as DataFusion's operator tells it.
#[tokio::test]
async fn the_scan_is_told() {
    let all = flat_columns();
    let context = context(100, None);
    for (number, column) in all.iter().enumerate() {
        let batches = batches(&[column.clone(), all[3].clone()], 300, number as u64);
        for options in OPTIONS {
            for keys in [&[("k0", options)][..], &[("k0", options), ("k1", OPTIONS[1])]] {
                let plans = [stock(from_ref(&batches), keys, Some(7)), ours(&stock(from_ref(&batches), keys, Some(7)))];
                let mut told = Vec::new();
                for plan in plans {
                    let filter = filter_of(&plan);
                    collect(plan, Arc::clone(&context)).await.expect("it sorts");
                    filter.wait_complete().await;
                    told.push(filter.current().expect("an expression"));
                }
                // Some of the values cannot be displayed.
                assert!(told[0].eq(&told[1]), "{} {options:?}", column.data_type());
            }
        }
    }
}

#[tokio::test]
async fn a_scan_of_parquet_drops_rows_behind_the_bound() {
    let mut config = SessionConfig::new().with_target_partitions(1).with_batch_size(100);
    let options = &mut config.options_mut().execution.parquet;
    (options.pushdown_filters, options.max_row_group_size) = (true, 100);
    let context = SessionContext::new_with_config(config);
    let path = std::env::temp_dir().join(format!("weld-sort-{}.parquet", std::process::id()));
    let write = format!("COPY (SELECT value * 7 % 5003 AS k0 FROM generate_series(1, 5000)) TO '{}'", path.display());
    context.sql(&write).await.expect("valid SQL").collect().await.expect("it is written");
    let read = ParquetReadOptions::default();
    context.register_parquet("f", path.to_string_lossy(), read).await.expect("a file");
    let sort = context.sql("SELECT k0 FROM f ORDER BY k0 LIMIT 10").await.expect("valid SQL");
    let sort = sort.create_physical_plan().await.expect("a plan");
    let sort = ours(&sort);
    let found = collect(Arc::clone(&sort), context.task_ctx()).await.expect("it sorts");
    let found = concat_batches(&sort.schema(), &found).expect("one schema");
    assert_eq!(found.column(0).as_primitive::<Int64Type>().values()[..], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let mut scan = Arc::clone(&sort);
    while let [child] = scan.children()[..] {
        scan = Arc::clone(child);
    }
    let rows = scan.metrics().and_then(|metrics| metrics.output_rows());
    assert!(rows.is_some_and(|rows| rows < 1000), "{rows:?}");
    std::fs::remove_file(path).expect("a file");
}

/// -0.0 comes before 0.0, to which it is equal for a filter.
#[tokio::test]
async fn the_scan_keeps_both_zeros() {
    let mut config = SessionConfig::new().with_target_partitions(1).with_batch_size(100);
    let options = &mut config.options_mut().execution.parquet;
    (options.pushdown_filters, options.max_row_group_size) = (true, 100);
    let context = SessionContext::new_with_config(config);
    let path = std::env::temp_dir().join(format!("weld-sort-zeros-{}.parquet", std::process::id()));
    for (first, last, order) in [("0.0", "-0.0", "k0"), ("-0.0", "0.0", "k0 DESC"), ("0.0", "-0.0", "k0, k1 DESC")] {
        let sign = if order == "k0 DESC" { "-" } else { "" };
        let write = format!(
            "COPY (SELECT CASE value WHEN 4900 THEN {last} WHEN 5 THEN {first} ELSE {sign}1.0 END AS k0, -value AS k1
             FROM generate_series(1, 5000)) TO '{}'",
            path.display()
        );
        context.sql(&write).await.expect("valid SQL").collect().await.expect("it is written");
        context.deregister_table("f").expect("a table or none");
        let read = ParquetReadOptions::default();
        context.register_parquet("f", path.to_string_lossy(), read).await.expect("a file");
        let sort = context.sql(&format!("SELECT k0, k1 FROM f ORDER BY {order} LIMIT 1")).await.expect("valid SQL");
        let sort = sort.create_physical_plan().await.expect("a plan");
        let found = collect(ours(&sort), context.task_ctx()).await.expect("it sorts");
        let found = found[0].column(0).as_primitive::<Float64Type>().value(0);
        assert_eq!(found.is_sign_negative(), last.starts_with('-'), "{order}");
        std::fs::remove_file(&path).expect("a file");
    }
}

#[tokio::test]
async fn a_plan_runs_again_and_twice_at_once() {
    let batches = batches(&columns()[3..4], 300, 1);
    let keys = [("k0", OPTIONS[0])];
    let new = || stock(&[batches.clone(), batches[1..].to_vec()], &keys, Some(100));
    let context = context(100, None);
    let expected = rows(&new(), &keys, &context).await.expect("it sorts");
    for plan in [ours(&new()), ours(&merged(&ours(&new()), &keys))] {
        for _ in 0..2 {
            let (one, other) = tokio::join!(rows(&plan, &keys, &context), rows(&plan, &keys, &context));
            assert_same(&one.expect("it sorts"), &expected, &keys, true);
            assert_same(&other.expect("it sorts"), &expected, &keys, true);
        }
        let again = datafusion::physical_plan::execution_plan::reset_plan_states(plan).expect("it is reset");
        let found = rows(&again, &keys, &context).await.expect("it sorts");
        assert_same(&found, &expected, &keys, true);
    }
}

#[tokio::test]
async fn who_is_refused_memory_gives_way_to_stock() {
    let batches = batches(&[columns()[3].clone(), columns()[27].clone()], 20_000, 1);
    // Slices of one batch would each be counted as all of it.
    let own = |batch: &RecordBatch| {
        let rows = UInt32Array::from_iter_values(0..batch.num_rows() as u32);
        take_record_batch(batch, &rows).expect("its rows")
    };
    let batches: Vec<RecordBatch> = batches.iter().map(own).collect();
    let keys = [("k0", OPTIONS[0]), ("k1", OPTIONS[2])];
    let new = || stock(from_ref(&batches), &keys, Some(3000));
    let expected = rows(&new(), &keys, &context(512, None)).await.expect("it sorts");
    let (mut handed_over, mut failed) = (0, 0);
    for kilobytes in [1, 100, 300, 500, 700, 1000, 2000, 4000, 8000, 64_000] {
        let context = context(512, Some(kilobytes << 10));
        let sort = ours(&new());
        match rows(&sort, &keys, &context).await {
            Ok(found) => assert_same(&found, &expected, &keys, true),
            Err(error) => {
                assert!(error.strip_backtrace().contains("Resources exhausted"), "{error}");
                failed += 1;
            }
        }
        let metrics = sort.metrics().and_then(|metrics| metrics.sum_by_name("handovers"));
        handed_over += metrics.map_or(0, |value| value.as_usize());
        assert_eq!(context.memory_pool().reserved(), 0);
    }
    assert!(failed > 0 && failed < 9 && handed_over > 0, "{failed} {handed_over}");
}

#[tokio::test]
async fn little_is_held() {
    let numbers = Int64Array::from_iter_values((0..200_000).rev());
    let texts =
        StringViewArray::from_iter_values((0..200_000).map(|row| format!("a long text that has the number {row}")));
    let all = RecordBatch::try_from_iter([("k0", Arc::new(numbers) as ArrayRef), ("text", Arc::new(texts) as _)]);
    let all = all.expect("columns of one length");
    let batches: Vec<_> = (0..200_000)
        .step_by(1000)
        .map(|at| {
            let rows = UInt32Array::from_iter_values(at..at + 1000);
            let batch = take_record_batch(&all, &rows).expect("its rows");
            let text = batch.column(1).as_any().downcast_ref::<StringViewArray>().expect("text").gc();
            RecordBatch::try_new(batch.schema(), vec![batch.column(0).clone(), Arc::new(text)]).expect("two columns")
        })
        .collect();
    let keys = [("k0", OPTIONS[0])];
    let context = context(1000, Some(1 << 20));
    let found = rows(&ours(&stock(&[batches], &keys, Some(10))), &keys, &context).await.expect("it fits");
    assert_eq!(found.num_rows(), 10);
    assert_eq!(context.memory_pool().reserved(), 0);
}

#[tokio::test]
async fn a_dropped_stream_frees_its_memory() {
    let batches = batches(&columns()[..3], 3000, 1);
    let plan = ours(&stock(&[batches], &[("k1", OPTIONS[0])], Some(1000)));
    let context = context(100, Some(1 << 30));
    let mut stream = plan.execute(0, context.clone()).expect("it starts");
    let first = stream.next().await.expect("there are rows").expect("it sorts");
    assert_eq!(first.num_rows(), 100);
    assert!(context.memory_pool().reserved() > 0);
    drop(stream);
    assert_eq!(context.memory_pool().reserved(), 0);
}

#[tokio::test]
async fn metrics_are_those_of_stock() {
    let options: SortOptions = OPTIONS[0];
    let batches = batches(&columns()[3..4], 300, 1);
    let plan = ours(&stock(&[batches], &[("k0", options)], Some(10)));
    let context = context(100, None);
    let found = collect(Arc::clone(&plan), context).await.expect("it sorts");
    assert_eq!(concat_batches(&plan.schema(), &found).expect("one schema").num_rows(), 10);
    let metrics = plan.metrics().expect("metrics");
    assert_eq!(metrics.output_rows(), Some(10));
    assert!(metrics.sum_by_name("row_replacements").is_some_and(|rows| rows.as_usize() >= 10));
}
