//! Scans drop rows behind the first ones of a sort by the first of its keys, where the others are of another table.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::collect;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::metrics::MetricValue;

use crate::common::{Engines, config, executed, sorted_rows};

const ROWS: usize = 20_000;

/// `fact` has all types of keys, in an order that is none of theirs; `dim` has 100 names.
async fn engines_of(partitions: usize) -> (Engines, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut config = config(partitions).with_batch_size(256);
    config.options_mut().execution.parquet.max_row_group_size = 5_000;
    let engines = Engines::new(config);
    let fact = format!(
        "SELECT v % 120 AS k, v * 7919 % 20011 AS i, CASE WHEN v % 3 = 0 THEN NULL ELSE v * 7919 % 20011 / 4 END AS n,
                CAST(v * 7919 % 20011 AS DECIMAL(15, 2)) / 8 AS d, concat('text ', CAST(v * 7919 % 20011 AS VARCHAR)) AS s,
                CASE v % 4 WHEN 0 THEN -0.0 WHEN 1 THEN 0.0 WHEN 2 THEN CAST('NaN' AS DOUBLE) ELSE CAST(v % 50 AS DOUBLE) END AS f,
                DATE '1990-01-01' + CAST(v * 7919 % 20011 AS INT) AS day, v % 2 = 0 AS b, [v % 5] AS l
         FROM generate_series(1, {ROWS}) AS g(v)"
    );
    engines.parquet_from("fact", &fact, folder.path()).await;
    let dim = "SELECT v AS k, concat('name ', CAST(v % 17 AS VARCHAR)) AS name FROM generate_series(1, 100) AS g(v)";
    engines.parquet_from("dim", dim, folder.path()).await;
    (engines, folder)
}

/// How many rows the scan of the larger table gives.
async fn scanned(engines: &Engines, sql: &str) -> usize {
    let (plan, _) = executed(&engines.weld, sql).await.expect("it runs");
    let mut most = 0;
    let visited = plan.apply(|node| {
        if node.children().is_empty() {
            let rows =
                node.metrics().expect("metrics").sum(|metric| matches!(metric.value(), MetricValue::OutputRows(_)));
            most = most.max(rows.map_or(0, |rows| rows.as_usize()));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.expect("a visit");
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_are_those_of_all_rows() {
    for partitions in [1, 3] {
        let (engines, _folder) = engines_of(partitions).await;
        for keys in [
            "i, name",
            "i DESC, name, fact.k",
            "n DESC NULLS LAST, name, i",
            "n NULLS FIRST, name, i",
            "d, name",
            "s DESC, name",
            "day, name",
            "f DESC, name, i",
            "f, name, i",
            "b, name, i",
        ] {
            for join in ["JOIN", "LEFT JOIN", "FULL JOIN"] {
                let sql =
                    format!("SELECT fact.*, name FROM fact {join} dim ON fact.k = dim.k ORDER BY {keys} LIMIT 30");
                engines.check(&sql, 0).await;
                let rows = scanned(&engines, &sql).await;
                // The first 30 rows by the others are a large part of all, and more rows come out of a FULL JOIN.
                if join != "FULL JOIN" && !["n NULLS", "f", "b,"].iter().any(|few| keys.starts_with(few)) {
                    assert!(rows < ROWS * 3 / 4, "{sql}: {rows}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_at_any_distance_are_told() {
    let (engines, _folder) = engines_of(1).await;
    let joined = "JOIN dim a ON fact.k = a.k JOIN dim b ON fact.k = b.k + 1";
    for sql in [
        format!("SELECT i, a.name, b.name AS other FROM fact {joined} ORDER BY i, a.name, b.name LIMIT 20"),
        format!("SELECT j, a.name FROM (SELECT k, i AS j FROM fact) AS fact {joined} ORDER BY j DESC, a.name LIMIT 20"),
        format!(
            "SELECT i, a.name FROM (SELECT * FROM fact UNION ALL SELECT * FROM fact) AS fact {joined} ORDER BY i, a.name LIMIT 20"
        ),
        "SELECT i, name FROM fact CROSS JOIN (SELECT * FROM dim LIMIT 3) ORDER BY i, name LIMIT 20".to_owned(),
        "SELECT i, name FROM fact JOIN dim ON fact.k < dim.k ORDER BY i DESC, name LIMIT 20".to_owned(),
    ] {
        engines.check(&sql, 0).await;
        let rows = scanned(&engines, &sql).await;
        assert!(rows < ROWS * 3 / 4, "{sql}: {rows}");
        engines.weld.sql("SET weld.first_key_filters = false").await.expect("a setting");
        let rows = scanned(&engines, &sql).await;
        assert!(rows > ROWS * 3 / 4, "{sql}: {rows}");
        engines.weld.sql("SET weld.first_key_filters = true").await.expect("a setting");
    }
}

/// Where rows are counted, numbered or limited before they are sorted, and where a comparison has another order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_needed_are_kept() {
    let (engines, _folder) = engines_of(2).await;
    for sql in [
        "SELECT i, c, name FROM (SELECT i % 50 AS i, k, count(*) AS c FROM fact GROUP BY 1, 2) x JOIN dim ON x.k = dim.k ORDER BY i, name, c LIMIT 20",
        "SELECT i, c, name FROM (SELECT i, k, count(*) OVER (PARTITION BY i % 9) AS c FROM fact) x JOIN dim ON x.k = dim.k ORDER BY i, name, c LIMIT 20",
        "SELECT i, name FROM (SELECT i, k FROM fact WHERE i > 5 ORDER BY i DESC LIMIT 5000) x JOIN dim ON x.k = dim.k ORDER BY i, name LIMIT 20",
        "SELECT l, i, name FROM fact JOIN dim ON fact.k = dim.k ORDER BY l, name, i LIMIT 20",
        "SELECT i, name FROM dim LEFT JOIN fact ON fact.k = dim.k ORDER BY i NULLS FIRST, name LIMIT 20",
        "SELECT i, name FROM fact JOIN dim ON fact.k = dim.k ORDER BY i, name LIMIT 20 OFFSET 400",
    ] {
        engines.check(sql, 0).await;
    }
    // The same plan a second time.
    let sql = "SELECT i, name FROM fact JOIN dim ON fact.k = dim.k ORDER BY i, name LIMIT 20";
    let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    let expected = engines.stock_rows(sql).await.expect("it runs");
    for _ in 0..2 {
        let plan = reset_plan_states(Arc::clone(&plan)).expect("a plan");
        let rows = collect(plan, engines.weld.task_ctx()).await.expect("it runs");
        assert_eq!(sorted_rows(&rows), expected);
    }
}
