//! Filters by the keys of build sides beside compiled pipelines, and beside DataFusion's operators.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use weld_datafusion::uncompiled;

use crate::common::{Engines, config, sorted_rows};

/// 20,000 items of 1,000 orders, 5 of which are dear.
async fn engines(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    let orders = "SELECT CASE WHEN v % 50 = 0 THEN NULL ELSE v END AS o_key, v % 7 AS o_line, v % 200 AS o_price
                  FROM generate_series(1, 1000) AS g(v)";
    let items = "SELECT CASE WHEN v % 90 = 0 THEN NULL ELSE v * 7 % 1000 END AS i_order, v % 7 AS i_line, v AS i_key,
                 concat('item ', v % 50) AS i_tag FROM generate_series(1, 20000) AS g(v)";
    engines.table_from("orders", orders, 100).await;
    engines.table_from("items", items, 1000).await;
    engines
}

/// The sum of a metric over the key filters of a plan.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().filter(|_| plan.name() == "KeyFilterExec").map_or(0, |metrics| match name {
        "output_rows" => metrics.output_rows().unwrap_or(0),
        _ => metrics.sum_by_name(name).map_or(0, |value| value.as_usize()),
    });
    own + plan.children().into_iter().map(|child| metric(child, name)).sum::<usize>()
}

async fn plan(engines: &Engines, sql: &str) -> Arc<dyn ExecutionPlan> {
    engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan")
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

const QUERIES: [&str; 10] = [
    "SELECT sum(i_key) FROM orders JOIN items ON o_key = i_order WHERE o_price = 3
     AND i_key < (SELECT 1.2 * avg(i_key) FROM items AS i WHERE i.i_order = o_key)",
    "SELECT o_key, n FROM orders JOIN (SELECT i_order, count(*) AS n FROM items GROUP BY i_order) i ON o_key = i_order
     WHERE o_price = 3",
    "SELECT o_key, n FROM orders LEFT JOIN (SELECT i_order, count(*) AS n FROM items GROUP BY i_order) i
     ON o_key = i_order WHERE o_price = 3",
    "SELECT o_key, o_line, n FROM orders JOIN (SELECT i_order, i_line, sum(i_key) AS n FROM items GROUP BY i_order, i_line) i
     ON o_key = i_order AND o_line = i_line WHERE o_price = 3",
    "SELECT o_key FROM orders WHERE o_price = 3 AND EXISTS (SELECT i_order FROM items WHERE i_order = o_key
     GROUP BY i_order HAVING sum(i_key) > 100)",
    "SELECT o_key FROM orders WHERE o_price = 3 AND NOT EXISTS (SELECT i_order FROM items WHERE i_order = o_key
     GROUP BY i_order HAVING sum(i_key) > 200000)",
    "SELECT o_key, i_key, s FROM orders JOIN (SELECT i_order, i_key, sum(i_key) OVER (PARTITION BY i_order) AS s FROM items) i
     ON o_key = i_order WHERE o_price = 3",
    "SELECT o_key, n FROM orders JOIN (SELECT i_order, max(i_key) AS n FROM items GROUP BY i_order
     UNION ALL SELECT i_order, i_key FROM items WHERE i_key < 500) i ON o_key = i_order WHERE o_price = 3",
    "SELECT o_key, a.n, i_key FROM orders JOIN items ON o_key = items.i_order
     JOIN (SELECT i_order, count(*) AS n FROM items GROUP BY i_order) a ON a.i_order = items.i_order
     WHERE o_price = 3 AND i_key % 3 = 0",
    "SELECT o_key, part, count(*) FROM orders JOIN (SELECT i_order, unnest(make_array(i_tag, 'all', NULL)) AS part FROM items) i
     ON o_key = i_order WHERE o_price = 3 GROUP BY o_key, part",
];

const THRESHOLD: &str = "datafusion.optimizer.hash_join_single_partition_threshold";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_rows_with_each_rule_off() {
    for settings in [
        vec!["weld.key_filters = false".to_owned()],
        vec!["weld.plans = false".to_owned()],
        vec!["weld.join_order = false".to_owned()],
        vec!["weld.join = false".to_owned()],
        vec!["weld.compile_min_rows = 1000000000".to_owned()],
        vec!["weld.join_order = false".to_owned(), format!("{THRESHOLD} = 0"), format!("{THRESHOLD}_rows = 0")],
    ] {
        let engines = engines(3).await;
        for setting in &settings {
            engines.weld.sql(&format!("SET {setting}")).await.expect("a setting");
        }
        let is_off = ["weld.key_filters = false", "weld.plans = false"].contains(&settings[0].as_str());
        for sql in QUERIES {
            let run = engines.run(sql).await.unwrap_or_else(|error| panic!("{settings:?} {sql}\n{error}"));
            assert_eq!(run.rows, engines.stock_rows(sql).await.expect("it runs"), "{settings:?} {sql}");
            let text = shown(&plan(&engines, sql).await);
            assert!(!is_off || !text.contains("KeyFilterExec"), "{settings:?} {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_sees_the_groups_that_are_joined() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for sql in QUERIES {
            let compiled = plan(&engines, sql).await;
            assert!(shown(&compiled).contains("KeyFilterExec"), "{sql}\n{}", shown(&compiled));
            assert!(!shown(&uncompiled(&compiled).expect("a plan")).contains("Key"), "{sql}");
            let rows = collect(Arc::clone(&compiled), engines.weld.task_ctx()).await.expect("it runs");
            assert_eq!(sorted_rows(&rows), engines.stock_rows(sql).await.expect("it runs"), "{sql}");
            // Five of a thousand orders, some of which have no key, twice where two filters are.
            let (read, passed) = (metric(&compiled, "input_rows"), metric(&compiled, "output_rows"));
            assert!(read >= 20_000 && passed <= read / 50, "{passed} of {read}\n{}", shown(&compiled));
            assert!(shown(&compiled).contains("(bitmap of "), "{sql}\n{}", shown(&compiled));
        }
    }
}

/// The rows that the scan of a file has given.
fn scanned(plan: &Arc<dyn ExecutionPlan>, column: &str) -> usize {
    let is_scan = plan.name() == "DataSourceExec" && plan.schema().column_with_name(column).is_some();
    let own = plan.metrics().filter(|_| is_scan).and_then(|metrics| metrics.output_rows()).unwrap_or(0);
    own + plan.children().into_iter().map(|child| scanned(child, column)).sum::<usize>()
}

/// Joins that DataFusion's operators run tell scans the sets of their keys as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_are_not_compiled_feed_sets_of_keys() {
    let orders = "SELECT v * 3 AS o_key, CAST(v AS DECIMAL(9, 2)) AS o_digits, CAST(v % 50 AS INT) AS o_line, v % 200 AS o_price,
                  CASE WHEN v % 50 = 0 THEN NULL ELSE v END AS o_null, concat('k', v) AS o_text FROM generate_series(1, 1000) AS g(v)";
    let items = "SELECT v * 7 % 3000 AS i_order, CAST(v % 1000 AS DECIMAL(9, 2)) AS i_digits, CAST(v * 7 % 3000 / 3 % 50 AS INT) AS i_line,
                 CASE WHEN v % 90 = 0 THEN NULL ELSE v % 1000 END AS i_null, concat('k', v % 1000) AS i_text, v AS i_key
                 FROM generate_series(1, 20000) AS g(v)";
    let ways =
        ["FROM orders JOIN items ON", "FROM orders LEFT SEMI JOIN items ON", "FROM items LEFT SEMI JOIN orders ON"];
    let keys = [
        ("o_key = i_order", Some(200)),
        ("o_digits = i_digits", Some(200)),
        ("o_key = i_order AND o_line = i_line", Some(200)),
        ("o_null = i_null", Some(200)),
        ("o_null IS NOT DISTINCT FROM i_null", None),
        ("o_key + 1 = i_order - 1", None),
        ("o_text = i_text", None),
        ("o_key = i_order AND o_text = i_text", None),
    ];
    for partitions in [1, 3] {
        for threshold in ["0", "1000000"] {
            let (engines, folder) = (Engines::new(config(partitions)), tempfile::tempdir().expect("a folder"));
            engines.parquet_from("orders", orders, folder.path()).await;
            engines.parquet_from("items", items, folder.path()).await;
            for context in [&engines.stock, &engines.weld] {
                for setting in [THRESHOLD.to_owned(), format!("{THRESHOLD}_rows")] {
                    context.sql(&format!("SET {setting} = {threshold}")).await.expect("a setting");
                }
            }
            engines.weld.sql("SET weld.compile_min_rows = 1000000000").await.expect("a setting");
            for (way, (key, read_max)) in ways.iter().flat_map(|way| keys.iter().map(move |key| (way, key))) {
                // A join that gives columns of one side has no others to filter by.
                let filter = if way.starts_with("FROM items") { "i_key % 2 = 0" } else { "o_price = 3" };
                let side = if way.starts_with("FROM items") { "i_key" } else { "o_key" };
                let sql = format!("SELECT count(*), sum({side}) {way} {key} WHERE {filter}");
                let run = engines.run(&sql).await.expect("it runs");
                assert_eq!(run.rows, engines.stock_rows(&sql).await.expect("it runs"), "{sql}");
                assert_eq!(run.summary.operators_compiled, 0, "{sql}");
                let Some(read_max) = read_max.filter(|_| side == "o_key") else { continue };
                let plan = plan(&engines, &sql).await;
                collect(Arc::clone(&plan), engines.weld.task_ctx()).await.expect("it runs");
                let read = scanned(&plan, "i_order").max(scanned(&plan, "i_digits")).max(scanned(&plan, "i_null"));
                assert!((1..=read_max).contains(&read), "{partitions} {threshold} {sql}: {read}\n{}", shown(&plan));
            }
        }
    }
}

/// Keys of types that have no sets: a scan that evaluates filters is not asked to look one up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_without_sets_under_filters_of_a_scan() {
    let rows = |rows: i64| {
        format!(
            "SELECT v, arrow_cast(concat('a key of text ', v % 37), 'Binary') AS b, arrow_cast(v % 37, 'Time64(Microsecond)') AS t,
                    v % 2 = 0 AS c, v % 37 / 4.0 AS f FROM generate_series(1, {rows}) AS g(v)"
        )
    };
    for partitions in [1, 2] {
        let config = config(partitions).set_bool("datafusion.execution.parquet.pushdown_filters", true);
        let (engines, folder) = (Engines::new(config), tempfile::tempdir().expect("a folder"));
        engines.parquet_from("l", &rows(20), folder.path()).await;
        engines.parquet_from("r", &rows(500), folder.path()).await;
        for key in ["l.b = r.b", "l.t = r.t", "l.c = r.c", "l.f = r.f", "l.f = r.f AND l.t = r.t AND l.v = r.v"] {
            for filter in ["l.v < 7", "l.v < 0"] {
                let sql = format!("SELECT count(*), sum(l.v), sum(r.v) FROM l JOIN r ON {key} WHERE {filter}");
                engines.check(&sql, 1).await;
            }
        }
    }
}

/// A join without build rows ends its pipeline before the tables of other joins are built, whose keys its source drops rows
/// by: nobody waits for those.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_tables_that_are_not_built_are_not_waited_for() {
    let sql = "SELECT count(*) FROM c t0 JOIN e t1 ON t0.id = t1.id AND t1.flag JOIN b t2 ON t1.id = t2.k
               LEFT JOIN m t3 ON t2.id = t3.k JOIN b t4 ON t2.id = t4.k RIGHT JOIN e t5 ON t4.k = t5.k";
    for partitions in [1, 3] {
        let (engines, folder) = (Engines::new(config(partitions)), tempfile::tempdir().expect("a folder"));
        for (name, query) in [
            ("c", "SELECT v AS id FROM generate_series(0, 2) AS g(v)"),
            ("e", "SELECT v AS id, v AS k, v > 1 AS flag FROM generate_series(1, 0) AS g(v)"),
            ("b", "SELECT v AS id, v % 11 AS k FROM generate_series(0, 44) AS g(v)"),
            ("m", "SELECT v AS id, v % 6 AS k FROM generate_series(0, 24) AS g(v)"),
        ] {
            engines.parquet_from(name, query, folder.path()).await;
        }
        let rows = tokio::time::timeout(std::time::Duration::from_secs(60), engines.run(sql)).await;
        let rows = rows.expect("it ends").expect("it runs").rows;
        assert_eq!(rows, engines.stock_rows(sql).await.expect("it runs"));
    }
}
