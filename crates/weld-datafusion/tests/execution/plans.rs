//! Plans that are executed twice, in part, in another order, on other runtimes, or optimised again.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect, displayable};
use futures::StreamExt;
use weld_datafusion::{WeldExec, pipelines, uncompiled};

use crate::common::{Engines, config, sorted_rows};

const QUERIES: [&str; 8] = [
    "SELECT k, s FROM t WHERE k > 10",
    "SELECT g, count(*), sum(k) FROM t GROUP BY g",
    "SELECT count(*), max(s) FROM t WHERE g < 5",
    "SELECT t.k, u.s FROM t JOIN u ON t.k = u.k WHERE u.g = 2",
    "SELECT u.g, count(*) FROM t JOIN u ON t.g = u.g GROUP BY u.g",
    "SELECT u.s, n FROM u JOIN (SELECT k, count(*) AS n FROM t GROUP BY k) a ON u.k = a.k WHERE u.g = 2 AND u.k < 30",
    "SELECT k FROM t WHERE k IN (SELECT k FROM u WHERE g = 1) ORDER BY k DESC LIMIT 5",
    "SELECT k, row_number() OVER (PARTITION BY g ORDER BY k) FROM t WHERE k % 3 = 1",
];

async fn engines(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    for name in ["t", "u"] {
        let sql = format!(
            "SELECT v AS k, v % 7 AS g, concat('{name} has ', CAST(v AS VARCHAR)) AS s FROM generate_series(1, 90) AS x(v)"
        );
        engines.table_from(name, &sql, 20).await;
    }
    engines
}

async fn plan(engines: &Engines, sql: &str) -> Arc<dyn ExecutionPlan> {
    engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan")
}

async fn partition(engines: &Engines, plan: &Arc<dyn ExecutionPlan>, index: usize) -> Vec<RecordBatch> {
    let stream = plan.execute(index, engines.weld.task_ctx()).expect("a stream");
    stream.map(|batch| batch.expect("a batch")).collect().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_run_twice() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for sql in QUERIES {
            let plan = plan(&engines, sql).await;
            let expected = engines.stock_rows(sql).await.expect("it runs");
            for _ in 0..2 {
                // DataFusion's exchanges cannot be executed twice without it.
                let plan = reset_plan_states(Arc::clone(&plan)).expect("a plan");
                let batches = collect(plan, engines.weld.task_ctx()).await.expect("it runs");
                assert_eq!(sorted_rows(&batches), expected, "{sql}");
            }
            // Nor can its TopK.
            if partitions == 1 && !sql.contains("LIMIT") {
                for _ in 0..2 {
                    let batches = collect(Arc::clone(&plan), engines.weld.task_ctx()).await.expect("it runs");
                    assert_eq!(sorted_rows(&batches), expected, "{sql}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_run_alone_and_in_any_order() {
    let engines = engines(3).await;
    for sql in QUERIES {
        let expected = engines.stock_rows(sql).await.expect("it runs");
        let plan = plan(&engines, sql).await;
        let mut batches = Vec::new();
        for index in (0..plan.output_partitioning().partition_count()).rev() {
            batches.extend(partition(&engines, &plan, index).await);
        }
        assert_eq!(sorted_rows(&batches), expected, "{sql}");
    }
}

/// Each partition on a runtime of its own, which ends with it.
#[test]
fn partitions_run_on_different_runtimes() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    let planner = runtime();
    let engines = planner.block_on(engines(3));
    for sql in &QUERIES[3..5] {
        let expected = planner.block_on(engines.stock_rows(sql)).expect("it runs");
        let plan = planner.block_on(plan(&engines, sql));
        let partitions = plan.output_partitioning().partition_count();
        let threads: Vec<_> = (0..partitions)
            .map(|index| {
                let (plan, context, runtime) = (Arc::clone(&plan), engines.weld.task_ctx(), runtime());
                std::thread::spawn(move || {
                    runtime.block_on(async move {
                        let stream = plan.execute(index, context).expect("a stream");
                        stream.map(|batch| batch.expect("a batch")).collect::<Vec<_>>().await
                    })
                })
            })
            .collect();
        let batches: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        assert_eq!(sorted_rows(&batches), expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_are_optimised_again() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for sql in QUERIES {
            let expected = engines.stock_rows(sql).await.expect("it runs");
            let mut plan = plan(&engines, sql).await;
            let compiled = pipelines(&plan).len();
            let state = engines.weld.state();
            for rule in state.physical_optimizers() {
                plan = rule
                    .optimize(plan, state.config_options())
                    .unwrap_or_else(|error| panic!("{}: {sql}\n{error}", rule.name()));
            }
            assert!(pipelines(&plan).len() >= compiled, "{sql}");
            let batches = collect(plan, engines.weld.task_ctx()).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
            assert_eq!(sorted_rows(&batches), expected, "{sql}");
        }
    }
}

/// A node that builds a table gives the rows that the table would be made of.
#[tokio::test]
async fn every_node_gives_rows() {
    let engines = engines(2).await;
    let plan = plan(&engines, "SELECT t.k, u.s FROM t JOIN u ON t.k = u.k WHERE t.g = 2").await;
    let tables: Vec<WeldExec> = pipelines(&plan).into_iter().filter(WeldExec::builds_table).collect();
    assert_eq!(tables.len(), 1);
    let table: Arc<dyn ExecutionPlan> = Arc::new(tables[0].clone());
    let rows = collect(table, engines.weld.task_ctx()).await.expect("it runs");
    let expected = engines.stock_rows("SELECT k FROM t WHERE g = 2").await.expect("it runs");
    assert_eq!(sorted_rows(&rows).len(), expected.len());
}

/// For engines that send plans elsewhere.
#[tokio::test]
async fn plans_are_put_back_as_they_were() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        // What is put back are operators, not the order of joins.
        engines.weld.sql("SET weld.join_order = false").await.expect("a setting");
        for sql in QUERIES {
            let stock = engines.stock.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
            let restored = uncompiled(&plan(&engines, sql).await).expect("a plan");
            let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
            assert_eq!(text(&restored), text(&stock), "{sql}");
            let batches = collect(restored, engines.weld.task_ctx()).await.expect("it runs");
            assert_eq!(sorted_rows(&batches), engines.stock_rows(sql).await.expect("it runs"), "{sql}");
        }
    }
}

/// Where joins are DataFusion's, texts of a build side that is a join are copied out of many buffers.
#[tokio::test]
async fn joined_build_sides_of_datafusion_are_compact() {
    let engines = engines(1).await;
    for setting in ["SET weld.join = false", "SET weld.join_order = false"] {
        engines.weld.sql(setting).await.expect("a setting");
    }
    let sql = "SELECT a.s, b.g FROM (SELECT t.k, arrow_cast(u.s, 'Utf8View') AS s FROM t JOIN u ON t.k = u.k) a
               JOIN t b ON a.k = b.k";
    let plan = plan(&engines, sql).await;
    let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
    assert!(text(&plan).contains("CompactViewsExec"), "{}", text(&plan));
    let restored = uncompiled(&plan).expect("a plan");
    assert!(!text(&restored).contains("CompactViewsExec"), "{}", text(&restored));
    for plan in [plan, restored] {
        let batches = collect(plan, engines.weld.task_ctx()).await.expect("it runs");
        assert_eq!(sorted_rows(&batches), engines.stock_rows(sql).await.expect("it runs"));
    }
}

/// `weld.verify` runs two plans that share their sources, and with these what a run has told them of its values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verified_plans_read_files_twice() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = Engines::new(config(2));
    let rows = "SELECT v AS a, v % 7 AS b FROM generate_series(0, 99) AS x(v)";
    engines.parquet_from("f", rows, folder.path()).await;
    engines.weld.sql("SET weld.verify = true").await.expect("a setting");
    for (sql, expected) in [
        ("SELECT max(a) FROM f WHERE b < 5", 1),
        ("SELECT min(a), max(b), count(*) FROM f WHERE b > 2", 1),
        ("SELECT a FROM f WHERE b = (SELECT max(b) FROM f WHERE a < 50)", 14),
        ("SELECT a FROM f WHERE b > 1 ORDER BY a LIMIT 5", 5),
        ("SELECT max(l.a) FROM f l JOIN f r ON l.a = r.b WHERE r.a > 10", 1),
    ] {
        let plan = plan(&engines, sql).await;
        for _ in 0..2 {
            let again = reset_plan_states(Arc::clone(&plan)).expect("a plan");
            let rows = collect(again, engines.weld.task_ctx()).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(sorted_rows(&rows).len(), expected, "{sql}");
        }
    }
}

/// Not everybody who executes a plan has a runtime of tokio's: what DataFusion can do without is done.
#[test]
fn without_a_runtime() {
    let engines = Engines::new(config(1));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let rows = "SELECT v AS k, v % 7 AS g, concat('text ', v % 11) AS s FROM generate_series(1, 90) AS x(v)";
        engines.table_from("t", rows, 20).await;
        engines.parquet_from("f", rows, folder.path()).await;
        // Three partitions.
        for context in [&engines.stock, &engines.weld] {
            let rows = context.sql("SELECT * FROM t").await.expect("valid SQL").collect().await.expect("it runs");
            let parts = rows.chunks(2).map(<[RecordBatch]>::to_vec).collect();
            let table = MemTable::try_new(rows[0].schema(), parts).expect("one schema");
            context.register_table("u", Arc::new(table)).expect("a new name");
        }
    });
    drop(runtime);
    for compile_min_rows in [0, 10_000_000] {
        let setting = format!("SET weld.compile_min_rows = {compile_min_rows}");
        futures::executor::block_on(engines.weld.sql(&setting)).expect("a setting");
        for sql in [
            "SELECT k + 1, s FROM t WHERE k > 10",
            "SELECT g, count(*), sum(k), max(s) FROM t GROUP BY g",
            "SELECT count(*), count(DISTINCT s), sum(g) FROM t WHERE g < 5",
            "SELECT a.k, b.s FROM t a JOIN t b ON a.k = b.g WHERE b.k > 8",
            "SELECT a.g, sum(b.k) FROM f a LEFT JOIN t b ON a.k = b.g GROUP BY a.g",
            "SELECT k, s FROM u WHERE k % 3 = 1 ORDER BY s, k",
            "SELECT k, s FROM u ORDER BY s DESC, k LIMIT 5",
            "SELECT k, sum(k) OVER (PARTITION BY g ORDER BY k) FROM u",
            "SELECT g, s, count(*) FROM f WHERE k > 4 GROUP BY g, s",
            "SELECT * FROM f WHERE s = 'text 3'",
            "WITH c AS (SELECT g, sum(k) AS n FROM f GROUP BY g) SELECT a.n, b.n FROM c a JOIN c b ON a.g = b.g + 1",
        ] {
            let expected = futures::executor::block_on(engines.stock_rows(sql)).expect("it runs");
            let run = futures::executor::block_on(engines.run(sql)).unwrap_or_else(|error| panic!("{sql}\n{error}"));
            assert_eq!(run.rows, expected, "{sql}");
        }
    }
}
