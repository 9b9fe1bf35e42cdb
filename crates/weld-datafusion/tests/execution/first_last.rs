//! `first_value` and `last_value`: the row that comes first in an order, which compiled groups hold.

use datafusion::physical_plan::displayable;

use crate::common::{Engines, config};

const ROWS: usize = 1500;

async fn tables(engines: &Engines, rows: usize) {
    let sql = format!(
        "SELECT v % 7 AS k, v, v % 500 AS m,
                CASE WHEN v % 5 = 0 THEN NULL ELSE concat('text ', CAST(v % 23 AS VARCHAR), repeat('x', CAST(v % 29 AS BIGINT))) END AS s,
                CASE WHEN v % 11 = 0 THEN NULL ELSE (v * 37 % 64) / 4.0 - 8 END AS x,
                CASE v % 9 WHEN 0 THEN CAST('NaN' AS DOUBLE) WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 WHEN 3 THEN NULL
                           WHEN 4 THEN CAST('-Infinity' AS DOUBLE) WHEN 5 THEN CAST('Infinity' AS DOUBLE) ELSE CAST(v AS DOUBLE) END AS z,
                CASE WHEN v % 3 = 0 THEN NULL ELSE v % 5 < 2 END AS b,
                CASE WHEN v % 7 = 6 THEN NULL ELSE v * 7919 % 1009 END AS n,
                CAST(v % 97 AS DECIMAL(12, 2)) AS d, DATE '1999-12-31' + CAST(v % 17 AS INT) AS day,
                CASE WHEN v % 2 = 0 THEN to_timestamp(v * 1000 % 7777) END AS ts, arrow_cast(v % 200, 'UInt8') AS u,
                named_struct('a', v % 4, 'b', concat('s', CAST(v % 3 AS VARCHAR))) AS st,
                arrow_cast(concat('entry ', CAST(v % 6 AS VARCHAR)), 'Dictionary(Int32, Utf8)') AS e
         FROM generate_series(1, {rows}) AS g(v) ORDER BY v * 7907 % 1511, v"
    );
    engines.table_from("t", &sql, 90).await;
    engines.table_from("none", "SELECT * FROM t WHERE FALSE", 10).await;
    let names = "SELECT v AS k, concat('name ', CAST(v AS VARCHAR)) AS name FROM generate_series(0, 4) AS g(v)";
    engines.table_from("names", names, 2).await;
}

async fn engines(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    tables(&engines, ROWS).await;
    engines
}

/// As stock; no aggregate and no call of one is left to DataFusion.
async fn compiled(engines: &Engines, sql: &str) {
    let run = engines.check(sql, 1).await;
    let declined = &run.summary.declined;
    assert!(declined.iter().all(|declined| declined.operator != "AggregateExec"), "{sql}\n{declined:?}");
    let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    let plan = displayable(plan.as_ref()).indent(true).to_string();
    assert!(!plan.contains("accumulated by DataFusion"), "{sql}\n{plan}");
}

/// Calls whose orders leave no ties.
const CALLS: [&str; 14] = [
    "first_value(s ORDER BY v), last_value(x ORDER BY v DESC), count(*)",
    "first_value(v ORDER BY n, v), last_value(v ORDER BY n NULLS FIRST, v), first_value(v ORDER BY n DESC, v DESC)",
    "last_value(s ORDER BY n DESC NULLS LAST, v), first_value(n ORDER BY n DESC NULLS FIRST, v), sum(v)",
    "first_value(v ORDER BY z, v), last_value(v ORDER BY z, v), last_value(z ORDER BY z DESC NULLS LAST, v), first_value(z ORDER BY v)",
    "first_value(v ORDER BY s, v), last_value(v ORDER BY s, v DESC), first_value(s ORDER BY s DESC NULLS LAST, v)",
    "last_value(v ORDER BY e DESC, s DESC, v), first_value(e ORDER BY v), last_value(e ORDER BY e, v)",
    "first_value(n ORDER BY v) IGNORE NULLS, last_value(s ORDER BY x, v) IGNORE NULLS, first_value(n ORDER BY v), first_value(s ORDER BY v)",
    "first_value(n ORDER BY v) FILTER (WHERE b), last_value(n ORDER BY v) FILTER (WHERE v > 100000), first_value(x ORDER BY v)",
    "first_value(s ORDER BY v) FILTER (WHERE n > 900) IGNORE NULLS, last_value(v ORDER BY v) FILTER (WHERE s IS NULL)",
    "first_value(k ORDER BY k, v), first_value(v ORDER BY k, v DESC), last_value(k ORDER BY v), first_value(k ORDER BY k)",
    "first_value(b ORDER BY b, v), last_value(d ORDER BY d, v), first_value(day ORDER BY day DESC, v), last_value(ts ORDER BY ts, v)",
    "first_value(u ORDER BY u DESC, v), last_value(v ORDER BY u, b DESC, ts, v), first_value(v ORDER BY d DESC, v), min(s), avg(x)",
    "first_value(v ORDER BY x, v), first_value(s ORDER BY x, v), first_value(x ORDER BY x, v), first_value(s ORDER BY x, v) FILTER (WHERE b)",
    "first_value(upper(s) ORDER BY v % 10 DESC, v + 1), last_value(n * 2 ORDER BY -v), first_value(7 ORDER BY v)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_groups() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for calls in CALLS {
            for sql in [
                format!("SELECT k, {calls} FROM t GROUP BY k"),
                format!("SELECT m, {calls} FROM t WHERE v % 4 <> 1 GROUP BY m, k"),
                format!("SELECT v, {calls} FROM t GROUP BY v"),
                format!("SELECT s, z, {calls} FROM t GROUP BY s, z"),
                format!("SELECT e, b, {calls} FROM t GROUP BY e, b"),
                format!(
                    "SELECT name, {calls} FROM (SELECT t.*, name FROM t JOIN names ON t.k = names.k WHERE n > 100) GROUP BY name"
                ),
                format!("SELECT k, {calls} FROM t WHERE v < 0 GROUP BY k"),
                format!("SELECT k, {calls} FROM none GROUP BY k"),
            ] {
                compiled(&engines, &sql).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_groups() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for calls in CALLS {
            for from in ["t", "t WHERE n > 100 AND x < 5", "t WHERE v < 0", "none"] {
                compiled(&engines, &format!("SELECT {calls} FROM {from}")).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_grouping_sets() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for calls in CALLS {
            for sets in ["ROLLUP (k, b)", "GROUPING SETS ((e), (k, s), ())", "CUBE (z)"] {
                compiled(&engines, &format!("SELECT {calls} FROM t GROUP BY {sets}")).await;
                compiled(&engines, &format!("SELECT {calls} FROM none GROUP BY {sets}")).await;
            }
        }
        // In the order of rows, which groups of groups do not have.
        engines.check("SELECT k, first_value(day), last_value(day) FROM (SELECT k, b, DATE '2000-01-01' AS day FROM t) GROUP BY ROLLUP (k, b)", 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_on() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for sql in [
            "SELECT DISTINCT ON (k) k, v, s FROM t ORDER BY k, v DESC",
            "SELECT DISTINCT ON (s, k) v, x, s FROM t ORDER BY s, k DESC, n NULLS FIRST, v",
            "SELECT DISTINCT ON (e) * FROM (SELECT e, v, n, x, s, b, d FROM t) ORDER BY e, x DESC, v",
            "SELECT DISTINCT ON (z) z, v FROM t ORDER BY z, v",
            "SELECT DISTINCT ON (k % 2) s FROM none ORDER BY k % 2, v",
        ] {
            compiled(&engines, sql).await;
        }
    }
}

/// With one partition, of rows with the same keys the one that comes first in the input, as DataFusion's groups have
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ties_of_one_partition() {
    let engines = engines(1).await;
    for calls in [
        "first_value(v), last_value(v), last_value(s)",
        "first_value(n) IGNORE NULLS, last_value(s) IGNORE NULLS, last_value(x) FILTER (WHERE b), first_value(s)",
        "first_value(v ORDER BY m % 3), last_value(v ORDER BY m % 3), last_value(v ORDER BY x DESC)",
        "first_value(v ORDER BY s), last_value(v ORDER BY s), first_value(v ORDER BY s DESC), last_value(v ORDER BY s DESC)",
        "first_value(v ORDER BY k), last_value(v ORDER BY k DESC), first_value(v ORDER BY b, e DESC)",
    ] {
        for by in ["k", "m, b", "e", "s"] {
            compiled(&engines, &format!("SELECT {by}, {calls} FROM t GROUP BY {by}")).await;
            compiled(&engines, &format!("SELECT {by}, {calls} FROM t WHERE v % 3 <> 1 GROUP BY {by}")).await;
        }
    }
    for calls in ["first_value(v), last_value(v), last_value(n) IGNORE NULLS", "first_value(v ORDER BY s, b)"] {
        compiled(&engines, &format!("SELECT {calls} FROM t")).await;
        compiled(&engines, &format!("SELECT {calls} FROM t WHERE x > 1")).await;
    }
}

/// More groups than a partial aggregate's table holds, rows that are groups of their own, and little memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups() {
    for (partitions, limit) in [(1, usize::MAX), (2, usize::MAX), (2, 64 << 20)] {
        let engines = match limit {
            usize::MAX => Engines::new(config(partitions)),
            limit => Engines::limited(config(partitions), limit),
        };
        tables(&engines, 60_000).await;
        for sql in [
            "SELECT v, first_value(x ORDER BY n), last_value(s ORDER BY s), count(*) FROM t GROUP BY v",
            "SELECT v % 30000, first_value(s ORDER BY v), last_value(x ORDER BY v) FILTER (WHERE b) FROM t GROUP BY v % 30000",
            "SELECT DISTINCT ON (s, m) s, m, v, z FROM t ORDER BY s, m, v DESC",
        ] {
            let stock = engines.stock_rows(sql).await;
            match (stock, engines.run(sql).await) {
                (Ok(stock), Ok(run)) => assert_eq!(run.rows, stock, "{sql}"),
                (Ok(stock), Err(error)) => {
                    assert!(engines.comes_through_as_stock(sql, &stock).await, "{sql} with {limit}: {error}");
                }
                (Err(error), _) => assert!(limit < usize::MAX, "{sql}: {error}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        let sql = "SELECT v % 11 AS k, concat('g', CAST(v % 13 AS VARCHAR)) AS g, concat('entry ', CAST(v % 17 AS VARCHAR)) AS s,
                          CASE WHEN v % 3 = 0 THEN NULL ELSE v END AS n, v * 7919 % 20011 AS o FROM generate_series(1, 20000) AS t(v)";
        engines.parquet_from(&format!("f{partitions}"), sql, folder.path()).await;
        for by in ["k", "g", "g, s", "s, k"] {
            for calls in ["first_value(s ORDER BY o), last_value(n ORDER BY o)", "last_value(g ORDER BY s, o), sum(n)"]
            {
                compiled(&engines, &format!("SELECT {by}, {calls} FROM f{partitions} GROUP BY {by}")).await;
                compiled(&engines, &format!("SELECT {calls} FROM f{partitions} WHERE n > 700 GROUP BY {by}")).await;
            }
        }
    }
}

/// What has no lowering is accumulated, or its aggregate is DataFusion's; errors are the rows'.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for (calls, compiled) in [
            ("first_value(st ORDER BY v), sum(n)", 1),
            ("first_value(v ORDER BY s, e DESC, v), last_value(n ORDER BY v)", 1),
            ("first_value(reverse(s) ORDER BY length(reverse(s)), v), last_value(n ORDER BY v)", 1),
            ("first_value(s ORDER BY v), median(x), approx_distinct(n), min(s)", 1),
            ("first_value(DISTINCT k ORDER BY k)", 0),
        ] {
            engines.check(&format!("SELECT k, {calls} FROM t GROUP BY k"), compiled).await;
            engines.check(&format!("SELECT {calls} FROM t"), 0).await;
        }
        engines
            .check_error("SELECT k, first_value(10 / (v - 700) ORDER BY v) FROM t GROUP BY k", "ivide by zero")
            .await;
        engines.check_error("SELECT last_value(v ORDER BY 10 / (v - 700)) FROM t", "ivide by zero").await;
    }
}
