//! Joins above joins: texts of build sides are in few buffers.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewBuilder};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::JoinType;
use datafusion::datasource::MemTable;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::{HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use weld_plans::{CompactViewsExec, with_compact_views};

const KEYS: i64 = 1000;

/// Keys, each with a text too long for a view or NULL, four texts a buffer.
async fn table(context: &SessionContext) -> Arc<dyn ExecutionPlan> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("text", DataType::Utf8View, true),
    ]));
    let mut texts = StringViewBuilder::new().with_fixed_block_size(100);
    (0..KEYS).for_each(|key| texts.append_option((key % 7 != 0).then(|| format!("the text of the key {key}"))));
    let columns: [ArrayRef; 2] = [Arc::new(Int64Array::from_iter_values(0..KEYS)), Arc::new(texts.finish())];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).expect("a batch");
    let table = MemTable::try_new(schema, vec![vec![batch]]).expect("a table");
    let frame = context.read_table(Arc::new(table)).expect("a table");
    frame.create_physical_plan().await.expect("a plan")
}

/// `build` joined with another table, of which no column is kept.
fn joined(build: Arc<dyn ExecutionPlan>, probe: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let key = || Arc::new(Column::new("key", 0)) as _;
    HashJoinExecBuilder::new(build, probe, vec![(key(), key())], JoinType::Inner)
        .with_partition_mode(PartitionMode::CollectLeft)
        .with_projection(Some(vec![0, 1]))
        .build_exec()
        .expect("a join")
}

fn buffers(batches: &[RecordBatch]) -> usize {
    batches.iter().map(|batch| batch.column(1).as_string_view().data_buffers().len()).max().unwrap_or(0)
}

#[tokio::test]
async fn texts_of_a_joined_build_side_are_copied_out_of_many_buffers() {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let one = joined(table(&context).await, table(&context).await);
    // A table's own texts are never copied.
    assert!(Arc::ptr_eq(&with_compact_views(Arc::clone(&one)).expect("a plan"), &one));

    let two = joined(one, table(&context).await);
    let compact = with_compact_views(Arc::clone(&two)).expect("a plan");
    let again = with_compact_views(Arc::clone(&compact)).expect("a plan");
    assert!(Arc::ptr_eq(&again, &compact));
    let build = Arc::clone(compact.children()[0]);
    let inner = build.downcast_ref::<CompactViewsExec>().expect("it is compact").input();
    let run = async |plan: &Arc<dyn ExecutionPlan>| {
        let batches = collect(Arc::clone(plan), context.task_ctx()).await.expect("rows");
        (buffers(&batches), concat_batches(&plan.schema(), &batches).expect("one schema"))
    };
    let ((before, rows), (after, same)) = (run(inner).await, run(&build).await);
    assert_eq!((before > 200, after), (true, 1), "{before} buffers");
    assert_eq!((rows.num_rows(), &rows), (KEYS as usize, &same));
    assert_eq!(run(&compact).await.1, run(&two).await.1);
}
