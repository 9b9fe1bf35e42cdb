//! Subplans that differ in the columns that they keep, executed once: the same rows as when each is executed.

mod common;

use std::sync::Arc;

use common::{Both, plan_of, readers, shown, sorted_rows};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use weld_plans::{PlanOptions, without_common_subplans};

fn both(partitions: usize) -> Both {
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(64);
    Both::new(config, |_| PlanOptions {
        distinct_aggregates: false,
        distinct_sets: false,
        outer_joins: false,
        join_order: false,
        semi_joins: false,
        common_subplans: Some(2000),
        similar_subplans: false,
        key_filters: true,
        careful_pushdown: true,
        doubtful_orders: true,
    })
}

/// 6,000 rows of 300 keys with nulls and duplicates.
async fn tables(both: &Both) {
    let rows = "SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE v % 300 END AS k, v % 4 AS g, v, v % 7 = 0 AS odd,
                concat('row ', v % 50) AS s, v AS id FROM generate_series(1, 6000) AS x(v)";
    both.table("r", rows).await;
    let dim = "SELECT v AS k, CASE WHEN v % 5 = 0 THEN NULL ELSE v * 2 END AS w, concat('dim ', v) AS name
               FROM generate_series(1, 250) AS x(v)";
    both.table("dim", dim).await;
}

/// A table expression that each reader sees pruned to other columns, with a condition of which nothing is known.
const JOINED: &str =
    "WITH j AS (SELECT r.k, g, v, odd, s, w, name FROM r JOIN dim ON r.k = dim.k WHERE abs(v) % 3 > 0)";

const QUERIES: [(&str, usize); 12] = [
    (
        "SELECT k, sum(v) FROM j GROUP BY k UNION ALL SELECT g, sum(v) FROM j GROUP BY g
         UNION ALL SELECT 0, sum(v) FROM j",
        3,
    ),
    ("SELECT s, sum(v), sum(w) FROM j GROUP BY s UNION ALL SELECT name, sum(g), count(w) FROM j GROUP BY name", 2),
    ("SELECT s, count(*) FROM j GROUP BY s UNION ALL SELECT NULL, count(*) FROM j", 2),
    ("SELECT max(v), NULL FROM j UNION ALL SELECT min(w), max(name) FROM j", 2),
    ("SELECT g, sum(v) FROM j GROUP BY g HAVING sum(v) > (SELECT avg(w) FROM j)", 2),
    (
        "SELECT a.g, b.name, a.n FROM (SELECT g, sum(v) AS n FROM j GROUP BY g) a
         LEFT JOIN (SELECT g, max(name) AS name FROM j GROUP BY g) b ON a.g = b.g + 1",
        2,
    ),
    // Constants belong to the reader; the third joins by another filter, over the same input.
    (
        "SELECT t, sum(v) FROM (SELECT 1 AS t, v FROM j UNION ALL SELECT 2, g FROM j
         UNION ALL SELECT 3, w FROM j WHERE s < name) GROUP BY t",
        4,
    ),
    // An outer join makes nulls of columns that only one reader keeps.
    (
        "SELECT g, count(name) FROM (SELECT g, name FROM r LEFT JOIN dim ON r.k = dim.k WHERE v % 2 = 0) GROUP BY g
         UNION ALL SELECT g, sum(w) FROM (SELECT g, w FROM r LEFT JOIN dim ON r.k = dim.k WHERE v % 2 = 0) GROUP BY g",
        2,
    ),
    // A join's filter, over columns that the readers do not keep.
    (
        "SELECT g, sum(v) FROM r JOIN dim ON r.k = dim.k AND v > w GROUP BY g UNION ALL
         SELECT k, sum(id) FROM (SELECT r.k, id FROM r JOIN dim ON r.k = dim.k AND v > w) GROUP BY k",
        2,
    ),
    (
        "SELECT g, sum(v) FROM r WHERE EXISTS (SELECT 1 FROM dim WHERE dim.k = r.k AND name <> s) GROUP BY g UNION ALL
         SELECT k, sum(id) FROM r WHERE EXISTS (SELECT 1 FROM dim WHERE dim.k = r.k AND name <> s) GROUP BY k",
        2,
    ),
    // Inside of what is read twice, and beside it.
    (
        ", a AS (SELECT k, sum(v) AS n FROM j GROUP BY k) SELECT x.n, y.n, z.m FROM a x JOIN a y ON x.k = y.k + 1
         JOIN (SELECT g, max(s) AS m FROM j GROUP BY g) z ON z.g = x.k",
        4,
    ),
    ("SELECT v FROM (SELECT v, s FROM r WHERE odd ORDER BY s, v LIMIT 5) UNION ALL SELECT sum(v) FROM r WHERE odd", 2),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_only_some_readers_keep() {
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        for (sql, expected) in QUERIES {
            let text = both.check(&format!("{JOINED} {sql}")).await;
            assert_eq!(readers(&text), expected, "{sql}\n{text}");
            both.check(&format!("{JOINED} {sql}").replace(" dim ", " (SELECT * FROM dim WHERE w < 0) dim ")).await;
        }
    }
}

/// Little changes, each of which gives other rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_gives_other_rows_is_not_shared() {
    let one = "SELECT g, sum(v) FROM r JOIN dim ON r.k = dim.k WHERE v > 10 GROUP BY g";
    let others = [
        "SELECT s, sum(w) FROM r JOIN dim ON r.k = dim.k WHERE v > 11 GROUP BY s",
        "SELECT s, sum(w) FROM r JOIN dim ON r.k = dim.k WHERE id > 10 GROUP BY s",
        "SELECT s, sum(w) FROM r JOIN dim ON r.k = dim.w WHERE v > 10 GROUP BY s",
        "SELECT s, sum(w) FROM r JOIN dim ON r.g = dim.k WHERE v > 10 GROUP BY s",
        "SELECT s, sum(w) FROM r LEFT JOIN dim ON r.k = dim.k WHERE v > 10 GROUP BY s",
        "SELECT s, sum(w) FROM r JOIN dim ON r.k = dim.k AND s < name WHERE v > 10 GROUP BY s",
        "SELECT s, sum(w) FROM r JOIN dim ON r.k = dim.k AND r.g = dim.w WHERE v > 10 GROUP BY s",
        "SELECT s, sum(k) FROM r WHERE EXISTS (SELECT 1 FROM dim WHERE r.k = dim.k) AND v > 10 GROUP BY s",
        "SELECT s, sum(w) FROM (SELECT * FROM r ORDER BY id LIMIT 5000) r JOIN dim ON r.k = dim.k WHERE v > 10 GROUP BY s",
        "SELECT s, sum(w) FROM r JOIN dim ON r.k = dim.k WHERE v > 10 AND random() < 2 GROUP BY s",
    ];
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        let same = "SELECT s, sum(w) FROM r JOIN dim ON r.k = dim.k WHERE v > 10 GROUP BY s";
        let union =
            |other: &str| format!("SELECT x, n FROM ({one}) a(x, n) UNION ALL SELECT 0, n FROM ({other}) b(x, n)");
        assert_eq!(readers(&both.check(&union(same)).await), 2);
        let by_w = "SELECT g, sum(v) FROM r JOIN dim ON r.k = dim.w GROUP BY g UNION ALL
                    SELECT id, 0 FROM (SELECT id FROM r JOIN dim ON r.k = dim.w)";
        assert_eq!(readers(&both.check(by_w).await), 2);
        let nulls_match = by_w.replacen("r.k = dim.w", "r.k IS NOT DISTINCT FROM dim.w", 1);
        assert_eq!(readers(&both.check(&nulls_match).await), 0);
        for other in others {
            let text = both.check(&union(other)).await;
            assert_eq!(readers(&text), 0, "{other}\n{text}");
        }
    }
}

/// What may fail is evaluated by whom, and for which rows, as it was written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_those_of_the_readers() {
    let fails = |sql: &str| sql.contains("!");
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        let queries = [
            // Above the join, for rows that it keeps.
            "SELECT sum(v) FROM j UNION ALL SELECT sum(10 / (v - 3000)) FROM j",
            "SELECT sum(v) FROM j UNION ALL SELECT /*!*/ sum(10 / (v - 3001)) FROM j",
            "SELECT /*!*/ sum(10 / (v - 3001)) FROM j UNION ALL SELECT sum(10 / (g - 7)) FROM j",
            // Nobody reads it.
            "SELECT sum(v) FROM (SELECT v, 10 / (v - 3001) AS x FROM j) UNION ALL SELECT sum(g) FROM j",
            "SELECT sum(v) FROM j UNION ALL SELECT sum(x) FROM (SELECT 10 / (v - 3001) AS x, v FROM j) WHERE v > 3001",
        ];
        for sql in queries {
            let sql = format!("{JOINED} {sql}");
            let plan = plan_of(&both.ours, &sql).await;
            let found = collect(Arc::clone(&plan), both.ours.task_ctx()).await;
            let stock = both.stock.sql(&sql).await.expect("valid SQL").collect().await;
            assert_eq!(found.is_err(), fails(&sql), "{sql}\n{}", shown(&plan));
            match (found, stock) {
                (Ok(found), Ok(stock)) => assert_eq!(sorted_rows(&found), sorted_rows(&stock), "{sql}"),
                (Err(found), Err(_)) => assert!(found.to_string().to_lowercase().contains("divide by zero"), "{found}"),
                (found, stock) => panic!("{sql}\n{found:?}\n{stock:?}"),
            }
        }
    }
}

const UNION: &str = "SELECT k, sum(v) FROM j GROUP BY k UNION ALL SELECT g, sum(w) FROM j GROUP BY g";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_that_run_again_and_under_limits_of_memory() {
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        let sql = format!("{JOINED} {UNION}");
        let expected = sorted_rows(&both.stock.sql(&sql).await.expect("valid SQL").collect().await.expect("it runs"));
        let plan = plan_of(&both.ours, &sql).await;
        assert_eq!(readers(&shown(&plan)), 2, "{}", shown(&plan));
        let run = async |plan: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>| {
            sorted_rows(&collect(Arc::clone(plan), context).await.expect("it runs"))
        };
        assert_eq!(run(&plan, both.ours.task_ctx()).await, expected);
        let again = reset_plan_states(Arc::clone(&plan)).expect("a plan");
        assert_eq!(run(&again, both.ours.task_ctx()).await, expected);
        let apart = without_common_subplans(Arc::clone(&plan)).expect("a plan");
        assert_eq!(readers(&shown(&apart)), 0);
        assert_eq!(run(&apart, both.ours.task_ctx()).await, expected);
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(4 << 20));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool)).build_arc().expect("a runtime");
        let limited = reset_plan_states(plan).expect("a plan");
        assert_eq!(run(&limited, Arc::new(TaskContext::default().with_runtime(runtime))).await, expected);
        drop(limited);
        assert_eq!(pool.reserved(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_give_the_columns_of_all_readers() {
    let folder = std::env::temp_dir().join(format!("weld-plans-columns-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("r.parquet").display().to_string();
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        let copy = format!("COPY (SELECT * FROM r) TO '{file}'");
        both.stock.sql(&copy).await.expect("valid SQL").collect().await.expect("it is written");
        for context in [&both.stock, &both.ours] {
            let sql = format!("CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION '{file}'");
            context.sql(&sql).await.expect("valid SQL").collect().await.expect("a table");
        }
        for (sql, expected) in QUERIES {
            let sql = format!("{JOINED} {sql}").replace("FROM r ", "FROM p AS r ");
            let text = both.check(&sql).await;
            assert_eq!(readers(&text), expected, "{sql}\n{text}");
        }
    }
    std::fs::remove_dir_all(&folder).expect("it was there");
}
