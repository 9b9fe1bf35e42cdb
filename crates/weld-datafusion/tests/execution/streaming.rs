//! When rows come: as soon as they are there, from sources that wait or never end.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use futures::{StreamExt, poll};

use crate::common::{Engines, config};
use crate::sources::{End, numbers, register};

/// The source gives three batches and then nothing: what they make comes out.
#[tokio::test]
async fn rows_do_not_wait_for_more_input() {
    for infinite in [false, true] {
        let engines = Engines::new(config(1));
        engines.table_from("t", "SELECT v AS k, v * 2 AS w FROM generate_series(0, 9) AS g(v)", 10).await;
        let batches = (0..3).map(|index| numbers(index * 10, 10)).collect();
        register(&engines.weld, "s", batches, End::Waits, infinite);
        let queries = [
            ("SELECT k + 1 FROM s", 30),
            ("SELECT k FROM s WHERE k % 2 = 0", 15),
            ("SELECT s.k, t.w FROM t JOIN s ON t.k = s.k", 10),
            ("SELECT s.k FROM t RIGHT SEMI JOIN s ON t.k = s.k", 10),
        ];
        for (sql, rows) in queries {
            let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
            let mut stream = execute_stream(plan, engines.weld.task_ctx()).expect("a stream");
            let mut seen = 0;
            while seen < rows {
                let batch = tokio::time::timeout(Duration::from_secs(60), stream.next()).await;
                let batch = batch.unwrap_or_else(|_| panic!("{sql}: {seen} of {rows} rows have come"));
                seen += batch.expect("more rows").expect("a batch").num_rows();
            }
            assert_eq!(seen, rows, "{sql}");
        }
    }
}

/// Plans that cannot end are refused as stock refuses them.
#[tokio::test]
async fn endless_inputs_of_breakers_are_refused() {
    let engines = Engines::new(config(1));
    for context in [&engines.stock, &engines.weld] {
        register(context, "s", vec![numbers(0, 10)], End::Waits, true);
        register(context, "r", vec![numbers(0, 10)], End::Waits, true);
    }
    for sql in ["SELECT count(*) FROM s", "SELECT k, count(*) FROM s GROUP BY k", "SELECT * FROM s ORDER BY k"] {
        let stock = engines.stock.sql(sql).await.expect("valid SQL").create_physical_plan().await;
        let weld = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await;
        assert_eq!(weld.map(|_| ()).map_err(|e| e.to_string()), stock.map(|_| ()).map_err(|e| e.to_string()), "{sql}");
    }
}

const COMPILED_ROWS: &str = "SELECT k * 3 + w AS x FROM t WHERE w % 7 = 3";

/// A plan of [`COMPILED_ROWS`], which was not run before.
async fn compiled_rows(partitions: usize) -> (Engines, Arc<dyn ExecutionPlan>) {
    let engines = Engines::new(config(partitions));
    engines.table_from("t", "SELECT v AS k, v * 2 AS w FROM generate_series(0, 9999) AS g(v)", 1000).await;
    let frame = engines.weld.sql(COMPILED_ROWS).await.expect("valid SQL");
    let plan = frame.create_physical_plan().await.expect("a plan");
    assert_eq!(plan.output_partitioning().partition_count(), partitions);
    (engines, plan)
}

/// Whoever polls a stream and then leaves it, without dropping it, holds up neither other queries nor its other
/// partitions.
#[tokio::test]
async fn streams_that_are_left_hold_nobody_up() {
    let (engines, plan) = compiled_rows(2).await;
    let context = engines.weld.task_ctx();
    let mut left = plan.execute(0, Arc::clone(&context)).expect("a stream");
    assert!(poll!(left.next()).is_pending(), "its code is being made");
    let others = async {
        engines.check(COMPILED_ROWS, 2).await;
        let rows: Vec<_> = plan.execute(1, context).expect("a stream").collect().await;
        assert!(rows.into_iter().all(|batch| batch.is_ok()));
    };
    tokio::time::timeout(Duration::from_secs(60), others).await.expect("they do not wait for the first");
    drop(left);
}

/// The same for one that waits for the code that another makes, which is then dropped.
#[tokio::test]
async fn streams_that_are_left_in_a_queue_hold_nobody_up() {
    let (engines, plan) = compiled_rows(3).await;
    let context = engines.weld.task_ctx();
    let mut streams = (0..2).map(|partition| plan.execute(partition, Arc::clone(&context)).expect("a stream"));
    let (mut makes, mut left) = (streams.next().expect("the first"), streams.next().expect("the second"));
    assert!(poll!(makes.next()).is_pending(), "its code is being made");
    tokio::task::yield_now().await;
    assert!(poll!(left.next()).is_pending(), "the same code");
    drop(makes);
    let rows = plan.execute(2, context).expect("a stream").collect::<Vec<_>>();
    let rows = tokio::time::timeout(Duration::from_secs(60), rows).await.expect("it does not wait for the second");
    assert!(rows.into_iter().all(|batch| batch.is_ok()));
    drop(left);
}
