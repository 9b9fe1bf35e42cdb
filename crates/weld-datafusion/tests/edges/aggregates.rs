//! Extremes of text and floats, and statistics, beside stock: groups and none, nulls, filters, sets, several
//! partitions.

use crate::common::{Engines, config};

const ROWS: usize = 1500;

/// Text of many lengths, which gets less and greater from row to row; floats whose sums do not depend on their order.
async fn engines(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    let sql = format!(
        "SELECT v % 7 AS k, v,
                CASE WHEN v % 5 = 0 THEN NULL
                     ELSE concat(CAST({ROWS} - v AS VARCHAR), repeat(chr(CAST(97 + v % 3 AS BIGINT)), CAST(v % 41 AS BIGINT)))
                END AS s,
                CASE WHEN v % 11 = 0 THEN NULL ELSE (v % 64) / 4.0 - 8 END AS x,
                CASE WHEN v % 13 = 0 THEN NULL ELSE arrow_cast((v % 32) / 8.0 + 1000, 'Float32') END AS y,
                CASE WHEN v % 3 = 0 THEN NULL ELSE v % 5 < 2 END AS b,
                CASE WHEN v % 7 = 6 THEN NULL ELSE v END AS n,
                arrow_cast(v % 100, 'Decimal32(7, 2)') AS d
         FROM generate_series(1, {ROWS}) AS g(v)"
    );
    engines.table_from("t", &sql, 90).await;
    engines
        .table_from("none", "SELECT 1 AS k, 2 AS v, 'x' AS s, 1.5 AS x, 2.5 AS y, true AS b, 1 AS n WHERE FALSE", 10)
        .await;
    engines
}

/// As stock, and no aggregate is left to it.
async fn compiled(engines: &Engines, sql: &str) {
    let run = engines.check(sql, 1).await;
    let declined = &run.summary.declined;
    assert!(declined.iter().all(|declined| declined.operator != "AggregateExec"), "{sql}\n{declined:?}");
}

async fn check(calls: &str) {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for sql in [
            format!("SELECT {calls} FROM t"),
            format!("SELECT {calls} FROM t WHERE v > 3"),
            format!("SELECT {calls} FROM t WHERE v < 0"),
            format!("SELECT {calls} FROM t WHERE v = 5"),
            format!("SELECT {calls} FROM none"),
            format!("SELECT k, {calls} FROM t GROUP BY k"),
            format!("SELECT v % 500, {calls}, count(*) FROM t WHERE v % 4 <> 1 GROUP BY v % 500"),
            format!("SELECT v, {calls} FROM t GROUP BY v"),
            format!("SELECT substr(s, 1, 2), {calls}, count(*) FROM t GROUP BY substr(s, 1, 2)"),
            format!("SELECT k, {calls} FROM none GROUP BY k"),
            format!("SELECT k, b, {calls} FROM t GROUP BY CUBE (k, b)"),
            format!("SELECT k, {calls} FROM t WHERE v < 0 GROUP BY ROLLUP (k)"),
        ] {
            compiled(&engines, &sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_of_text_bytes_and_truth() {
    for of in ["'Utf8'", "'LargeUtf8'", "'Utf8View'", "'Binary'", "'BinaryView'"] {
        check(&format!("min(arrow_cast(s, {of})), max(arrow_cast(s, {of})) FILTER (WHERE n % 3 = 1)")).await;
    }
    check("min(b), max(b), max(b) FILTER (WHERE n < 9), min(s), count(s), max(n)").await;
}

/// Each row's text takes the place of the last one, ten megabytes in all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_replaced_takes_no_memory() {
    let engines = Engines::limited(config(1), 3 << 20);
    let sql = "SELECT v % 2 AS k, concat(CAST(1000000 - v AS VARCHAR), repeat('x', CAST(60 + v % 90 AS BIGINT))) AS s
               FROM generate_series(1, 100000) AS g(v)";
    engines.table_from("t", sql, 8192).await;
    for sql in ["SELECT min(s), count(*) FROM t", "SELECT k, min(s), max(s) FROM t GROUP BY k"] {
        let run = engines.check(sql, 1).await;
        assert_eq!(run.handovers, 0, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extremes_of_floats() {
    check("min(x), max(x), min(y), max(y) FILTER (WHERE n % 2 = 0), sum(x)").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn integers_of_other_kinds() {
    check("bit_xor(n), bit_xor(v) FILTER (WHERE b)").await;
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        compiled(&engines, "SELECT sum(d), min(d) FROM t").await;
        compiled(&engines, "SELECT k, sum(d), sum(d) FILTER (WHERE b) FROM t GROUP BY k").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_moved_by_constants() {
    check("sum(n), sum(n + 1), sum(2 + n - 7), count(n), sum(3 - n), sum(x), sum(x + 1)").await;
    check("sum(n - 3) FILTER (WHERE b), sum(1 + n) FILTER (WHERE b), sum(n + 1) FILTER (WHERE v % 2 = 0), avg(n)")
        .await;
    // They wrap around.
    check("sum(v + 9223372036854775807), sum(v - 9223372036854775807 - 9223372036854775807), sum(n - 1), sum(n + 1)")
        .await;
    check("sum(arrow_cast(n, 'Int32') + 1), sum(arrow_cast(n, 'Int32') + 2), sum(y + 1), sum(y + 2)").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics() {
    check("stddev(x), stddev_pop(y), var_samp(x), var_pop(n), var_pop(x) FILTER (WHERE b)").await;
    check("covar_samp(x, y), covar_pop(y, n) FILTER (WHERE v % 2 = 0), avg(x)").await;
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for filter in ["v > 0", "v < 0", "v = 4", "v < 6", "b"] {
            compiled(&engines, &format!("SELECT corr(x, v), corr(n, y) FROM t WHERE {filter}")).await;
        }
        engines.check("SELECT k, corr(x, v) FROM t GROUP BY k", 0).await;
    }
}

/// The order of NaNs and zeros decides in groups, so there is one partition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floats_that_are_no_numbers() {
    let engines = Engines::new(config(1));
    let values = ["'NaN'", "'-Infinity'", "'Infinity'", "'-0.0'", "'0.0'", "'2.5'", "NULL"];
    let mut rows = Vec::new();
    for (k, [a, b]) in values.iter().flat_map(|a| values.map(|b| [*a, b])).enumerate() {
        rows.extend([format!("({k}, {a}::double, {k}::double)"), format!("({k}, {b}::double, {a}::double)")]);
    }
    let sql = format!("SELECT k, x, y, arrow_cast(x, 'Float32') AS z FROM (VALUES {}) AS f(k, x, y)", rows.join(", "));
    engines.table_from("f", &sql, 9).await;
    for calls in [
        "min(x), max(x), min(z), max(z)",
        "stddev(x), var_pop(x), var_samp(z), stddev_pop(z)",
        "covar_samp(x, y), covar_pop(x, y)",
    ] {
        compiled(&engines, &format!("SELECT k, {calls} FROM f GROUP BY k")).await;
        compiled(&engines, &format!("SELECT {calls} FROM f")).await;
        for k in 0..values.len() * values.len() {
            compiled(&engines, &format!("SELECT {calls} FROM f WHERE k = {k}")).await;
        }
    }
    for k in 0..values.len() * values.len() {
        compiled(&engines, &format!("SELECT corr(x, y) FROM f WHERE k = {k}")).await;
    }
}

/// Far from zero, sums of squares would have no digit right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_do_not_cancel() {
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        let sql = "SELECT v % 3 AS k, 1e9 + v % 10 AS x, 3e9 - v % 10 AS y FROM generate_series(1, 3000) AS g(v)";
        engines.table_from("far", sql, 100).await;
        let calls = "round(var_pop(x) * 1e6), round(stddev(y) * 1e6), round(covar_pop(x, y) * 1e6)";
        compiled(&engines, &format!("SELECT {calls}, round(corr(x, y) * 1e6) FROM far")).await;
        compiled(&engines, &format!("SELECT k, {calls} FROM far GROUP BY k")).await;
        let run =
            engines.run("SELECT round(var_pop(x) * 1e6), round(corr(x, y) * 1e6) FROM far").await.expect("it runs");
        assert_eq!(run.rows, ["8.250000000e6|-1.000000000e6"]);
    }
}

/// Of nulls, of arguments that fail, and of more than two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn greatest_and_least() {
    let engines = engines(1).await;
    for expr in [
        "greatest(n, v % 10, 4), least(n, NULL, v % 10), greatest(b, v > 7), least(b, NULL)",
        "greatest(s, 'm', NULL), least(s, repeat('0', 20)), greatest(n + 1), least(NULL, NULL)",
        "coalesce(n, v), coalesce(s, 'none'), coalesce(n, v / (v % 7)), coalesce(NULL, x, 1.5)",
        "greatest(x, y), least(x, 0.0)",
    ] {
        engines.check(&format!("SELECT k, {expr} FROM t WHERE v % 7 > 0"), 1).await;
    }
    engines.check_error("SELECT greatest(n, v / (v % 7)) FROM t WHERE v > 1", "ivide by zero").await;
}
