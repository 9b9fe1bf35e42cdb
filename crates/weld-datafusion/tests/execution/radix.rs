//! Groups of many keys, made range by range of their hashes.

use weld_datafusion::WeldOptions;

use crate::common::{Engines, config, counted};

/// Sessions that make ranges of so many groups.
fn engines(partitions: usize, groups: usize, pool: Option<usize>) -> Engines {
    let mut config = config(partitions);
    let options = config.options_mut().extensions.get_mut::<WeldOptions>().expect("Weld's settings");
    options.radix_min_groups = groups;
    match pool {
        Some(bytes) => Engines::limited(config, bytes),
        None => Engines::new(config),
    }
}

const QUERIES: [&str; 9] = [
    "SELECT k, count(*), sum(v), min(v), avg(d) FROM t GROUP BY k",
    "SELECT k, n, s, count(*), max(s) FROM t GROUP BY k, n, s",
    "SELECT n, b, d, count(v), sum(d) FROM t GROUP BY n, b, d",
    "SELECT at, s, count(*) FROM t GROUP BY at, s",
    "SELECT s, count(long), min(long) FROM t GROUP BY s",
    "SELECT k, d FROM t GROUP BY k, d HAVING count(*) > 1 AND k % 3 <> 0",
    "SELECT count(*), sum(c), max(n) FROM (SELECT k, n, count(*) AS c FROM t GROUP BY k, n)",
    "SELECT n, count(*), sum(c) FROM (SELECT k, n, count(*) AS c FROM t GROUP BY k, n) GROUP BY n",
    "SELECT x.k, x.c, y.v FROM (SELECT k, count(*) AS c FROM t GROUP BY k) x JOIN t y ON x.k = y.v",
];

async fn table(engines: &Engines, rows: usize) {
    let sql = format!(
        "SELECT v, v * 7919 % 1009 AS k, CASE WHEN v % 7 = 0 THEN NULL ELSE v * 31 % 211 END AS n,
                CASE WHEN v % 11 = 0 THEN NULL ELSE concat('s', CAST(v % 97 AS VARCHAR)) END AS s,
                CASE WHEN v > {rows} - 100 THEN concat('a long string, number ', CAST(v % 97 AS VARCHAR))
                     ELSE CAST(v % 97 AS VARCHAR) END AS long,
                CASE WHEN v % 13 = 0 THEN NULL ELSE v % 2 = 0 END AS b,
                CAST(v * 17 % 499 AS DECIMAL(20, 2)) AS d,
                arrow_cast(v % 501, 'Timestamp(Microsecond, Some(\"+00:00\"))') AS at
         FROM generate_series(1, {rows}) AS g(v)"
    );
    engines.table_from("t", &sql, 512).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_have_the_groups_of_one_table() {
    for partitions in [1, 3] {
        for groups in [1, 100, 0] {
            let engines = engines(partitions, groups, None);
            table(&engines, 20_000).await;
            for query in QUERIES {
                engines.check(query, 1).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_ranges_where_there_are_many_groups() {
    let engines = engines(1, 500, None);
    table(&engines, 20_000).await;
    let sql = "SELECT concat('a string of row number ', CAST(v % 1009 AS VARCHAR)) AS s FROM generate_series(1, 20000) AS g(v)";
    engines.table_from("long_strings", sql, 512).await;
    for (query, partitions) in [
        ("SELECT v % 5000, count(*) FROM t GROUP BY 1", 0),
        ("SELECT k, d, count(*) FROM t WHERE d < 10 GROUP BY k, d", 0),
        ("SELECT k, count(*) FROM t GROUP BY k", 64),
        ("SELECT k, max(v), count(b), min(d) FROM t GROUP BY k", 64),
        ("SELECT n, count(*) FROM t GROUP BY n", 0),
        // As many groups as rows.
        ("SELECT v, count(*) FROM t GROUP BY v", 64),
        // Those of the partial aggregate's sets, whose numbers are keys.
        ("SELECT k, b, count(*) FROM t GROUP BY ROLLUP(k, b)", 64),
        // Groups of groups are made of all of them.
        ("SELECT b, count(*) FROM (SELECT k, b, count(*) FROM t GROUP BY k, b) GROUP BY b", 0),
        // Read out of order, strings outside of their rows cost as much as the table.
        ("SELECT s, count(*) FROM long_strings GROUP BY s", 0),
    ] {
        engines.check(query, 1).await;
        let plan = engines.weld.sql(query).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
        datafusion::physical_plan::collect(plan.clone(), engines.weld.task_ctx()).await.expect("it runs");
        assert_eq!(counted(&plan, "radix_partitions"), partitions, "{query}");
    }
}

/// More rows than are kept before they are processed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_ranges_take_rows_several_times() {
    let engines = engines(16, 100, None);
    let sql = "SELECT v % 100003 AS k, v, v + 1 AS w, v + 2 AS x, v + 3 AS y FROM generate_series(1, 1500000) AS g(v)";
    engines.table_from("t", sql, 8192).await;
    let query = "SELECT k % 2 AS g, count(*), sum(s), sum(t), sum(u) FROM
                 (SELECT k, v % 3 AS m, sum(w) AS s, max(x) AS t, min(y) AS u FROM t GROUP BY k, m) GROUP BY g";
    engines.weld.sql("SET datafusion.execution.target_partitions = 1").await.expect("a setting");
    engines.check(query, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_is_refused_loses_no_groups() {
    for megabytes in [1, 2, 3, 4, 6, 8, 16, 64] {
        let engines = engines(2, 50, Some(megabytes << 20));
        let sql = "SELECT v % 30011 AS k, v, concat('s', CAST(v % 97 AS VARCHAR)) AS s FROM generate_series(1, 150000) AS g(v)";
        engines.table_from("t", sql, 1024).await;
        for query in [
            "SELECT k, count(*), sum(v), min(s) FROM t GROUP BY k",
            "SELECT v, s, count(*) FROM t GROUP BY v, s",
            "SELECT count(*), sum(c) FROM (SELECT v, k, count(*) AS c FROM t GROUP BY v, k)",
        ] {
            let Ok(expected) = engines.stock_rows(query).await else { continue };
            match engines.run(query).await {
                Ok(run) => assert_eq!(run.rows, expected, "{query} in {megabytes} MB"),
                Err(error) => {
                    let is_like_stock = engines.comes_through_as_stock(query, &expected).await;
                    assert!(is_like_stock, "{query} in {megabytes} MB: {error}");
                }
            }
        }
    }
}
