//! Distinct values counted beside other aggregates.

use datafusion::physical_plan::displayable;
use weld_datafusion::summary;

use crate::common::{Engines, config};

async fn table(engines: &Engines) {
    let sql = "SELECT v % 5 AS g, CASE WHEN v % 4 = 0 THEN NULL ELSE v * 37 % 23 END AS x,
                      CASE WHEN v % 3 = 0 THEN NULL ELSE concat('value ', CAST(v % 19 AS VARCHAR)) END AS s,
                      CASE WHEN v % 7 < 2 THEN NULL ELSE v END AS y, CAST(v AS DOUBLE) / 8 AS f,
                      CAST(v % 31 AS DECIMAL(12, 2)) AS d, DATE '1999-12-31' + CAST(v % 17 AS INT) AS day
               FROM generate_series(1, 1000) AS t(v)";
    engines.table_from("t", sql, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_values_are_counted_beside_other_aggregates() {
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        table(&engines).await;
        for (sql, is_rewritten) in [
            ("SELECT g, count(DISTINCT s), sum(y), count(*), count(y), avg(f), max(day) FROM t GROUP BY g", true),
            ("SELECT count(DISTINCT s), count(*), sum(d), avg(y) FROM t", true),
            ("SELECT count(DISTINCT s), count(*), sum(y), avg(f), min(y) FROM t WHERE y < 0", true),
            ("SELECT g, count(DISTINCT s), count(*) FROM t WHERE y < 0 GROUP BY g", true),
            ("SELECT s, g + 1 AS h, count(DISTINCT day), count(x) FILTER (WHERE y > 500) FROM t GROUP BY s, h", true),
            ("SELECT g, count(DISTINCT upper(s)), avg(y) FILTER (WHERE s IS NULL), sum(d) FROM t GROUP BY g", true),
            ("SELECT g, count(DISTINCT s) AS n, count(*) AS m FROM t GROUP BY g HAVING count(DISTINCT s) > 10", true),
            ("SELECT s, count(DISTINCT s), count(*) FROM t GROUP BY s", true),
            ("SELECT g, count(DISTINCT d), count(y), min(d) FROM t GROUP BY g", true),
            (
                "SELECT day, n FROM (SELECT day, count(DISTINCT s) AS n, count(*) AS m FROM t GROUP BY day) WHERE m > 3",
                true,
            ),
            ("SELECT g, count(DISTINCT s) + count(*) FROM t GROUP BY g", true),
            // Constant keys, whose group there is only if there are rows; one set of numbers, one set of integers for
            // all groups, what DataFusion's own rule takes once the count is pruned, another value of an average's
            // type, a function that is not made of values of parts, more than one argument, a condition, values that
            // are equal though their bits differ, one column of several sets, texts to keep for each pair.
            ("SELECT NULL, count(DISTINCT s), count(s) FROM t GROUP BY NULL", false),
            ("SELECT 1, 'b', count(DISTINCT s), count(s) FROM t WHERE g > 7 GROUP BY 1, 2", false),
            ("SELECT count(DISTINCT x), count(*) FROM t", false),
            ("SELECT g, count(DISTINCT x), count(*) FROM t GROUP BY g", false),
            (
                "SELECT g, n, total FROM (SELECT g, count(DISTINCT s) AS n, sum(d) AS total, count(*) FROM t GROUP BY g)",
                false,
            ),
            ("SELECT g, count(DISTINCT s), avg(d) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT s), stddev(f) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT x), count(DISTINCT s), count(*) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT NULL), count(*) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT 'a'), count(s) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT s) FILTER (WHERE y > 3), count(*) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT f), count(*) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT s), count(*) FROM t GROUP BY ROLLUP(g)", false),
            ("SELECT g, count(DISTINCT s), min(DISTINCT s), count(*) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT s), count(*), max(upper(s)) FROM t GROUP BY g", false),
            ("SELECT count(DISTINCT s), count(*), min(s) FROM t WHERE y < 0", false),
        ] {
            engines.check(sql, if is_rewritten { 2 } else { 0 }).await;
            let frame = engines.weld.sql(sql).await.expect("valid SQL");
            let stock = engines.stock.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
            let weld = frame.clone().create_physical_plan().await.expect("a plan");
            assert_eq!(weld.schema(), stock.schema(), "{sql}");
            let plan = frame.into_optimized_plan().expect("a plan").display_indent().to_string();
            assert_eq!(plan.contains("distinct_value"), is_rewritten, "{sql}\n{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_stay_as_they_are_where_rewrites_are_off() {
    let engines = Engines::new(config(2));
    table(&engines).await;
    let sql = "SELECT g, count(DISTINCT x), count(*) FROM t GROUP BY g";
    for setting in ["weld.enabled", "weld.plans", "weld.distinct_aggregates"] {
        engines.weld.sql(&format!("SET {setting} = false")).await.expect("a setting");
        let plan = engines.weld.sql(sql).await.expect("valid SQL").into_optimized_plan().expect("a plan");
        assert!(!plan.display_indent().to_string().contains("distinct_value"), "{setting}");
        engines.check(sql, 0).await;
        engines.weld.sql(&format!("SET {setting} = true")).await.expect("a setting");
    }
}

/// Columns of all types of which there are sets, with NULLs, extremes, values far apart and texts longer than a view.
async fn all_types(engines: &Engines, rows: usize) {
    let x = "CASE WHEN v % 6 = 5 THEN NULL ELSE v * 7919 % 307 END";
    let sql = format!(
        "SELECT CASE WHEN v % 11 = 9 THEN NULL ELSE v % 5 END AS k, v, {x} AS x,
                arrow_cast(({x}) % 100 - 50, 'Int8') AS i8, arrow_cast(({x}) - 150, 'Int16') AS i16,
                arrow_cast(({x}) * 6000000 - 900000000, 'Int32') AS i32,
                CASE WHEN v % 19 = 0 THEN -9223372036854775808 WHEN v % 23 = 0 THEN 9223372036854775807 ELSE {x} END AS i64,
                arrow_cast(({x}) % 100, 'UInt8') AS u8, arrow_cast({x}, 'UInt16') AS u16, arrow_cast({x}, 'UInt32') AS u32,
                CASE WHEN v % 19 = 0 THEN arrow_cast('18446744073709551615', 'UInt64') ELSE arrow_cast({x}, 'UInt64') END AS u64,
                arrow_cast(({x}) / 8.0, 'Float32') AS f32,
                CASE WHEN v % 17 = 0 THEN 'NaN'::DOUBLE WHEN v % 13 = 0 THEN -0.0 WHEN v % 14 = 0 THEN 0.0
                     ELSE ({x}) / 8.0 END AS f64,
                CAST({x} AS DECIMAL(12, 2)) AS d, CAST({x} AS DECIMAL(7, 1)) AS small, CAST({x} AS DECIMAL(60, 2)) AS large,
                DATE '1969-12-01' + CAST({x} AS INT) AS day,
                arrow_cast(DATE '1969-12-01' + CAST({x} AS INT), 'Timestamp(Microsecond, Some(\"+02:00\"))') AS at,
                date_trunc('hour', to_timestamp(({x}) * 1000)) AS hour, arrow_cast({x}, 'Time64(Nanosecond)') AS time,
                v % 3 = 0 AS b,
                arrow_cast(concat('s', CAST({x} AS VARCHAR)), 'Utf8') AS s,
                CASE WHEN v % 6 = 1 THEN NULL
                     ELSE arrow_cast(concat('a text that is long: ', CAST({x} AS VARCHAR)), 'Utf8View') END AS sv,
                arrow_cast(repeat('ab', v % 20), 'LargeUtf8') AS ls,
                arrow_cast(repeat('ab', v % 20), 'Binary') AS bin, arrow_cast(repeat('ab', v % 20), 'BinaryView') AS bv,
                arrow_cast(concat('entry ', CAST(v % 6 AS VARCHAR)), 'Dictionary(Int32, Utf8)') AS e
         FROM generate_series(1, {rows}) AS t(v)"
    );
    engines.table_from("a", &sql, 90).await;
}

/// Calls, and how many of them are left to DataFusion.
const SETS: [(&str, usize); 10] = [
    ("count(DISTINCT i8), count(DISTINCT i16), count(DISTINCT i32), count(DISTINCT i64), count(*)", 0),
    ("count(DISTINCT u8), count(DISTINCT u16), count(DISTINCT u32), count(DISTINCT u64)", 0),
    ("count(DISTINCT f32), count(DISTINCT f64), count(DISTINCT d), avg(f64)", 0),
    ("count(DISTINCT day), count(DISTINCT at), count(DISTINCT hour), count(DISTINCT time)", 0),
    ("count(DISTINCT s), count(DISTINCT sv), count(DISTINCT ls), count(DISTINCT bin), count(DISTINCT bv)", 0),
    ("sum(DISTINCT i8), sum(DISTINCT i64), sum(DISTINCT u64), sum(DISTINCT d), sum(DISTINCT small), sum(d)", 0),
    ("sum(DISTINCT f32), avg(DISTINCT x), avg(DISTINCT f32), sum(DISTINCT x + 1)", 0),
    (
        "count(DISTINCT x) FILTER (WHERE b), count(DISTINCT sv) FILTER (WHERE v < 0), sum(DISTINCT d) FILTER (WHERE x > 90)",
        0,
    ),
    ("count(DISTINCT x % 10), count(DISTINCT upper(s)), count(DISTINCT v), count(DISTINCT NULL::BIGINT)", 0),
    ("count(DISTINCT b), count(DISTINCT e), count(DISTINCT large), avg(DISTINCT d), count(DISTINCT x)", 3),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_of_all_types() {
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        all_types(&engines, 1500).await;
        for (calls, foreign) in SETS {
            for sql in [
                format!("SELECT k, {calls} FROM a GROUP BY k"),
                format!("SELECT v % 500 AS m, sv, {calls} FROM a WHERE v % 4 <> 1 GROUP BY m, sv"),
                format!("SELECT v, {calls} FROM a GROUP BY v"),
                format!("SELECT k, {calls} FROM a WHERE x IS NULL GROUP BY k"),
                format!("SELECT k, {calls} FROM a WHERE v < 0 GROUP BY k"),
            ] {
                engines.check(&sql, 1).await;
            }
            // Without groups, of some rows and of none.
            for filter in ["v > 0", "x IS NULL", "v < 0"] {
                engines.check(&format!("SELECT {calls} FROM a WHERE {filter}"), usize::from(foreign == 0)).await;
            }
            let sql = format!("SELECT k, {calls} FROM a GROUP BY k");
            let plan = engines.weld.sql(&sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            assert!(shown.contains("in sets: "), "{shown}");
            let stages = if partitions == 1 { 1 } else { 2 };
            assert_eq!(summary(&plan).accumulated.len(), foreign * stages, "{shown}");
        }
    }
}

/// More groups than a partial aggregate's table holds, rows that are groups of their own, little memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_of_many_groups() {
    for (partitions, limit) in [(1, usize::MAX), (2, usize::MAX), (2, 64 << 20)] {
        let engines = match limit {
            usize::MAX => Engines::new(config(partitions)),
            limit => Engines::limited(config(partitions), limit),
        };
        all_types(&engines, 60_000).await;
        for sql in [
            "SELECT v, count(DISTINCT i64), count(*), sum(DISTINCT d), count(DISTINCT sv) FROM a GROUP BY v",
            "SELECT v % 30000 AS g, count(DISTINCT f64), count(DISTINCT s) FILTER (WHERE b), min(s) FROM a GROUP BY g",
            "SELECT concat('a long name of a group: ', CAST(v AS VARCHAR)) AS g, count(DISTINCT d), max(x) FROM a GROUP BY g",
            "SELECT k, count(DISTINCT v), count(DISTINCT concat('a long text: ', CAST(v AS VARCHAR))), sum(DISTINCT v * 1000003) FROM a GROUP BY k",
        ] {
            // So little DataFusion's own sets of many groups cannot do with.
            if limit == usize::MAX || sql.starts_with("SELECT k") {
                engines.check(sql, 1).await;
            }
        }
    }
}
