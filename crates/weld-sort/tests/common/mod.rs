//! DataFusion's sort beside `KeySortExec`, over the same batches.
#![allow(dead_code, reason = "each file of tests uses a part")]

pub(crate) mod data;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{SortOptions, concat_batches};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use weld_sort::KeySortExec;

pub(crate) const OPTIONS: [SortOptions; 4] = [
    SortOptions { descending: false, nulls_first: false },
    SortOptions { descending: false, nulls_first: true },
    SortOptions { descending: true, nulls_first: false },
    SortOptions { descending: true, nulls_first: true },
];

/// A context with so much memory, if there is a limit.
pub(crate) fn context(batch_rows: usize, memory: Option<usize>) -> Arc<TaskContext> {
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(bytes) = memory {
        runtime = runtime.with_memory_limit(bytes, 1.0);
    }
    let mut config = SessionConfig::new().with_batch_size(batch_rows);
    config.options_mut().execution.sort_spill_reservation_bytes = 10_000;
    let context = SessionContext::new_with_config_rt(config, runtime.build_arc().expect("a runtime"));
    let state: SessionState = context.state();
    state.task_ctx()
}

/// DataFusion's sort of these partitions by these columns.
pub(crate) fn stock(
    partitions: &[Vec<RecordBatch>],
    keys: &[(&str, SortOptions)],
    fetch: Option<usize>,
) -> Arc<dyn ExecutionPlan> {
    let schema = partitions[0][0].schema();
    let source = MemorySourceConfig::try_new_exec(partitions, Arc::clone(&schema), None).expect("one schema");
    let key = |(name, options): &(&str, SortOptions)| PhysicalSortExpr {
        expr: col(name, &schema).expect("a column"),
        options: *options,
    };
    let order = LexOrdering::new(keys.iter().map(key)).expect("keys");
    Arc::new(SortExec::new(order, source).with_fetch(fetch).with_preserve_partitioning(partitions.len() > 1))
}

/// Ours in the place of DataFusion's sort.
pub(crate) fn ours(stock: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match KeySortExec::of(stock) {
        Some(Ok(exec)) => Arc::new(exec),
        other => panic!("it is not sorted here: {other:?}"),
    }
}

/// The rows of all partitions, merged.
pub(crate) async fn rows(
    sort: &Arc<dyn ExecutionPlan>,
    keys: &[(&str, SortOptions)],
    context: &Arc<TaskContext>,
) -> Result<RecordBatch> {
    let batches = collect(merged(sort, keys), Arc::clone(context)).await?;
    Ok(concat_batches(&sort.schema(), &batches)?)
}

/// DataFusion's merge of sorted partitions.
pub(crate) fn merged(sort: &Arc<dyn ExecutionPlan>, keys: &[(&str, SortOptions)]) -> Arc<dyn ExecutionPlan> {
    let schema = sort.schema();
    let key = |(name, options): &(&str, SortOptions)| PhysicalSortExpr {
        expr: col(name, &schema).expect("a column"),
        options: *options,
    };
    let order = LexOrdering::new(keys.iter().map(key)).expect("keys");
    Arc::new(SortPreservingMergeExec::new(order, Arc::clone(sort)).with_fetch(sort.fetch()))
}

/// Fails unless the keys come in the same order and all rows are there. Which of equal rows comes first is open, and so
/// is which of them are kept if there is a limit.
pub(crate) fn assert_same(ours: &RecordBatch, stock: &RecordBatch, keys: &[(&str, SortOptions)], limited: bool) {
    let columns = |batch: &RecordBatch| -> Vec<ArrayRef> {
        keys.iter().map(|(name, _)| Arc::clone(batch.column_by_name(name).expect("a column"))).collect()
    };
    assert_eq!(texts(&columns(ours)), texts(&columns(stock)), "{keys:?}");
    if !limited {
        let all = |batch: &RecordBatch| {
            let mut rows = texts(batch.columns());
            rows.sort();
            rows
        };
        assert_eq!(all(ours), all(stock), "{keys:?}");
    }
}

/// Rows as bytes, which are the same for the same values only.
fn texts(columns: &[ArrayRef]) -> Vec<Vec<u8>> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let rows = RowConverter::new(fields).expect("types with an order").convert_columns(columns).expect("rows");
    rows.iter().map(|row| row.as_ref().to_vec()).collect()
}

/// Sorts by both and compares.
pub(crate) async fn check(partitions: &[Vec<RecordBatch>], keys: &[(&str, SortOptions)], batch_rows: usize) {
    let context = context(batch_rows, None);
    let plan = stock(partitions, keys, None);
    let expected = rows(&plan, keys, &context).await.expect("it sorts");
    let plan = ours(&plan);
    let found = rows(&plan, keys, &context).await.expect("it sorts");
    assert_same(&found, &expected, keys, false);
    if partitions.len() > 1 {
        // One operator for the sorts and the merge.
        let plan = ours(&merged(&plan, keys));
        assert_eq!(plan.children().len(), 1);
        assert!(plan.children()[0].children().is_empty(), "the sort is part of it");
        let found = collect(Arc::clone(&plan), Arc::clone(&context)).await.expect("it sorts");
        let found = concat_batches(&plan.schema(), &found).expect("one schema");
        assert_same(&found, &expected, keys, false);
    }
}

/// Takes the first rows by both and compares.
pub(crate) async fn check_top(
    partitions: &[Vec<RecordBatch>],
    keys: &[(&str, SortOptions)],
    batch_rows: usize,
    limit: usize,
) {
    let context = context(batch_rows, None);
    let new = || stock(partitions, keys, Some(limit));
    let expected = rows(&new(), keys, &context).await.expect("it sorts");
    let plan = ours(&new());
    let found = rows(&plan, keys, &context).await.expect("it sorts");
    assert_same(&found, &expected, keys, true);
    assert_rows_are_there(&found, partitions);
    if partitions.len() > 1 {
        let plan = ours(&merged(&new(), keys));
        assert!(plan.children()[0].children().is_empty(), "the sort is part of it");
        let found = collect(Arc::clone(&plan), Arc::clone(&context)).await.expect("it sorts");
        let found = concat_batches(&plan.schema(), &found).expect("one schema");
        assert_same(&found, &expected, keys, true);
        assert_rows_are_there(&found, partitions);
    }
}

/// Fails unless every row is one of the input's, as often at most.
fn assert_rows_are_there(found: &RecordBatch, partitions: &[Vec<RecordBatch>]) {
    let mut all: Vec<_> = partitions.iter().flatten().flat_map(|batch| texts(batch.columns())).collect();
    all.sort();
    let mut found = texts(found.columns());
    found.sort();
    let mut all = all.into_iter();
    for row in found {
        assert!(all.any(|other| other == row), "a row that nobody gave");
    }
}
