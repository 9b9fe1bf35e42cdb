//! GROUPING SETS, ROLLUP and CUBE are compiled: groups are grouped once more for each set.

use crate::common::{Engines, config};

async fn engines(partitions: usize, rows: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    let sql = format!(
        "SELECT v % 5 AS a, CASE WHEN v % 7 = 0 THEN NULL ELSE concat('group ', CAST(v % 11 AS VARCHAR)) END AS b,
                v % 2 = 0 AS c, CASE WHEN v % 3 = 0 THEN NULL ELSE v END AS n, CAST(v AS DECIMAL(12, 2)) AS d,
                arrow_cast(v % 4, 'UInt8') AS u
         FROM generate_series(1, {rows}) AS g(v)"
    );
    engines.table_from("t", &sql, 100).await;
    engines.table_from("none", "SELECT 1 AS a, 'x' AS b, 2 AS n WHERE FALSE", 10).await;
    engines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_of_every_kind() {
    for partitions in [1, 3] {
        let engines = engines(partitions, 1000).await;
        for sets in [
            "ROLLUP (a, b)",
            "CUBE (a, b, c)",
            "GROUPING SETS ((a), (b), ())",
            "GROUPING SETS ((a, c), (a, c), (c), ())",
            "GROUPING SETS ((a, b), (a))",
            "GROUPING SETS ((u, c), (c, b), (b), (b))",
            "a, ROLLUP (b, c)",
            "ROLLUP (a + 1, b), CUBE (c)",
            "ROLLUP (a)",
        ] {
            let calls = "count(*), count(n), sum(n), min(d), max(n), avg(d), min(u)";
            engines.check(&format!("SELECT {calls} FROM t GROUP BY {sets}"), 1).await;
            engines.check(&format!("SELECT sum(n) FILTER (WHERE a > 2) FROM t WHERE n < 500 GROUP BY {sets}"), 1).await;
            engines.check(&format!("SELECT count(*) FROM t WHERE n < 0 GROUP BY {sets}"), 1).await;
        }
        engines
            .check("SELECT a, b, grouping(a), grouping(b), grouping(a, b), sum(d) FROM t GROUP BY CUBE (a, b)", 1)
            .await;
        engines.check("SELECT a, b FROM t GROUP BY ROLLUP (a, b)", 1).await;
        engines.check("SELECT a, count(DISTINCT b) FROM t GROUP BY ROLLUP (a)", 0).await;
        engines
            .check("SELECT sum(s) FROM (SELECT a, sum(n) AS s FROM t GROUP BY ROLLUP (a, c)) WHERE a IS NULL", 1)
            .await;
        engines
            .check("SELECT t.a, o.b, sum(o.d) FROM t JOIN t o ON t.n = o.n WHERE t.c GROUP BY ROLLUP (t.a, o.b)", 2)
            .await;
    }
}

/// A set without keys has a group where there are no rows; the others have none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_rows_have_a_total() {
    for partitions in [1, 3] {
        let engines = engines(partitions, 10).await;
        for sets in ["ROLLUP (a, b)", "GROUPING SETS ((a), (b))", "GROUPING SETS ((a), (), ())", "CUBE (b)"] {
            for calls in
                ["count(*), count(n), sum(n), min(n), avg(n), max(b)", "min(DATE '1970-01-01'), sum(1), max(2), avg(3)"]
            {
                engines.check(&format!("SELECT {calls} FROM none GROUP BY {sets}"), 0).await;
                engines.check(&format!("SELECT {calls} FROM t WHERE n < 0 GROUP BY {sets}"), 1).await;
            }
        }
    }
}

/// More groups than a partial aggregate holds at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups() {
    let engines = engines(2, 150_000).await;
    engines.check("SELECT d, b, count(*), sum(n) FROM t GROUP BY ROLLUP (d, b)", 2).await;
    engines
        .check(
            "SELECT concat('a long name of a group: ', CAST(d AS VARCHAR)) AS s, sum(n) FROM t GROUP BY CUBE (s, a)",
            1,
        )
        .await;
}

/// A key that is constant below is none above the partial aggregate, which fills it with NULL: the final one is not to give
/// groups out whenever it changes. Stock DataFusion does.
#[tokio::test]
async fn keys_that_sets_fill_are_no_constants_of_the_final_aggregate() {
    for (partitions, repartition) in [(1, true), (2, false), (3, true)] {
        let engines = engines(partitions, 600).await;
        let set = format!("SET datafusion.optimizer.repartition_aggregations = {repartition}");
        engines.weld.sql(&set).await.expect("an option");
        engines.weld.sql("SET datafusion.execution.batch_size = 4").await.expect("an option");
        for (sql, expected) in [
            ("SELECT k, a, count(*) AS c FROM (SELECT 2 AS k, a FROM t) GROUP BY CUBE (k, a)", 12),
            ("SELECT a, k, count(*) AS c FROM (SELECT 2 AS k, a FROM t) GROUP BY ROLLUP (a, k)", 11),
        ] {
            let groups = Engines::run_on(&engines.weld, sql).await.expect("it runs").rows;
            assert_eq!(groups.len(), expected, "{partitions} {sql}: {groups:?}");
        }
    }
}
