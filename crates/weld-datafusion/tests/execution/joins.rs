//! Joins: build sides without rows, rows that match many, rows in the order that the plan declares.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringViewArray};
use arrow::buffer::NullBuffer;
use datafusion::datasource::MemTable;
use weld_datafusion::execute_statement;

use crate::common::{Engines, config, counted, executed, sorted_rows};
use crate::sources::{End, numbers, register};

/// As in DataFusion, a probe side is not read when the build side has no rows, so it cannot fail; but that of a
/// nested-loop join is.
#[tokio::test]
async fn an_empty_build_side_keeps_the_probe_side_from_running() {
    let queries = [
        "SELECT s.k FROM e JOIN s ON e.k = s.k",
        "SELECT count(*) FROM e JOIN s ON e.k = s.k",
        "SELECT s.k, count(*) FROM e JOIN s ON e.k = s.k GROUP BY s.k",
        "SELECT s.k FROM s WHERE s.k IN (SELECT k FROM e WHERE k > 10)",
        "SELECT s.k FROM e JOIN (SELECT t.k FROM t JOIN s ON t.k = s.k) s ON e.k = s.k",
        "SELECT s.k FROM t JOIN (SELECT e.k FROM e JOIN s ON e.k = s.k) s ON t.k = s.k",
        "SELECT 1 / (s.k - s.k) FROM e JOIN s ON e.k = s.k",
        "SELECT s.k FROM e CROSS JOIN s",
        "SELECT s.k FROM e JOIN s ON e.k < s.k",
        "SELECT e.k FROM e WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k < e.k)",
        "SELECT e.k, EXISTS (SELECT 1 FROM s WHERE s.k < e.k) FROM e",
        "SELECT e.k FROM e JOIN (SELECT t.k FROM t JOIN s ON t.k = s.k) s ON e.k < s.k",
        "SELECT e.k FROM e JOIN (SELECT s.k FROM e JOIN s ON e.k = s.k) s ON e.k < s.k",
    ];
    for sql in queries {
        // The statistics of the source are unknown, so the empty table is the build side.
        let engines = Engines::new(config(1));
        engines.table_from("e", "SELECT v AS k FROM generate_series(1, 3) AS g(v) WHERE v > 3", 10).await;
        engines.table_from("t", "SELECT v AS k FROM generate_series(1, 3) AS g(v)", 10).await;
        let stock = register(&engines.stock, "s", vec![numbers(0, 10)], End::Fails, false);
        let weld = register(&engines.weld, "s", vec![numbers(0, 10)], End::Fails, false);
        let expected = engines.stock_rows(sql).await.map_err(|_| ());
        let run = engines.run(sql).await.map(|run| run.rows).map_err(|_| ());
        assert_eq!(run, expected, "{sql}");
        let (stock, weld) = (stock.load(Ordering::Relaxed), weld.load(Ordering::Relaxed));
        assert!(weld <= stock, "{sql}: {weld} batches read, stock {stock}");
    }
}

/// The partition that has least of a build side takes batches of the other, where a join's exchange would have spread them.
#[tokio::test]
async fn build_sides_share_their_rows() {
    let engines = Engines::new(config(2));
    engines.table_from("probe", "SELECT v % 5000 AS k, v FROM generate_series(1, 20000) AS g(v)", 4096).await;
    engines.table_from("filtered", "SELECT 2 * v AS k FROM generate_series(0, 1000) AS g(v)", 4096).await;
    let partitions = vec![vec![numbers(0, 10)], (1..50).map(|batch| numbers(100 * batch, 100)).collect()];
    for context in [&engines.stock, &engines.weld] {
        let table = MemTable::try_new(partitions[0][0].schema(), partitions.clone()).expect("a table");
        context.register_table("build", Arc::new(table)).expect("a new name");
        context.sql("SET datafusion.optimizer.hash_join_single_partition_threshold = 0").await.expect("a setting");
    }
    let sql = "SELECT count(*), sum(p.v), min(b.k) FROM
        (SELECT b.k FROM filtered f JOIN build b ON f.k = b.k) b JOIN probe p ON p.k = b.k";
    engines.check(sql, 3).await;
    let (plan, rows) = executed(&engines.weld, sql).await.expect("it plans");
    assert_eq!(sorted_rows(&rows.expect("it runs")), engines.stock_rows(sql).await.expect("it runs"));
    assert!(counted(&plan, "stolen_batches") >= 49);
}

/// 6,250,000 pairs under 30 MB: they come in batches.
#[tokio::test]
async fn pairs_of_a_batch_are_not_held_all_at_once() {
    let engines = Engines::limited(config(1), 30 << 20);
    let rows = "SELECT 1 AS k, v FROM generate_series(1, 2500) AS g(v)";
    engines.table_from("a", rows, 8192).await;
    engines.table_from("b", rows, 8192).await;
    for sql in
        ["SELECT a.v, b.v AS w FROM a JOIN b ON a.k = b.k", "SELECT a.v FROM a JOIN b ON a.k = b.k AND a.v > b.v"]
    {
        let expected: usize = rows_of(&engines, sql, false).await;
        assert_eq!(rows_of(&engines, sql, true).await, expected);
    }
    let sql = "SELECT a.v % 10, count(*), sum(b.v) FROM a JOIN b ON a.k = b.k GROUP BY a.v % 10";
    engines.check(sql, 2).await;
}

async fn rows_of(engines: &Engines, sql: &str, weld: bool) -> usize {
    let context = if weld { &engines.weld } else { &engines.stock };
    let batches =
        context.sql(sql).await.expect("valid SQL").collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert!(batches.iter().all(|batch| batch.num_rows() <= 8192));
    batches.iter().map(|batch| batch.num_rows()).sum()
}

#[tokio::test]
async fn counting_pairs_is_compiled() {
    let engines = Engines::new(config(2));
    engines.table_from("a", "SELECT v % 10 AS k, v FROM generate_series(1, 100) AS g(v)", 30).await;
    engines.table_from("b", "SELECT v % 20 AS k, v FROM generate_series(1, 200) AS g(v)", 30).await;
    for sql in
        ["SELECT count(*) FROM a JOIN b ON a.k = b.k", "SELECT count(*) FROM a JOIN b ON a.k = b.k AND a.v < b.v"]
    {
        let run = engines.check(sql, 2).await;
        let left = run.summary.declined.iter().filter(|declined| declined.operator != "ProjectionExec");
        assert_eq!(left.count(), 0, "{sql}: {:?}", run.summary.declined);
    }
}

/// DataFusion declares the order of the probe side, and of the build side within it.
#[tokio::test]
async fn pairs_come_in_the_order_that_the_plan_declares() {
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        engines.table_from("a", "SELECT v % 10 AS k, v FROM generate_series(1, 300) AS g(v)", 30).await;
        engines.table_from("b", "SELECT v % 20 AS k, v AS w FROM generate_series(1, 600) AS g(v)", 50).await;
        let sql = "SELECT v, w FROM (SELECT * FROM a ORDER BY v LIMIT 200) a JOIN (SELECT * FROM b ORDER BY w LIMIT 400) b ON a.k = b.k ORDER BY w, v";
        let collect = async |weld: bool| {
            let context = if weld { &engines.weld } else { &engines.stock };
            context.sql(sql).await.expect("valid SQL").collect().await.expect("it runs")
        };
        let (stock, weld) = (collect(false).await, collect(true).await);
        let text = |batches: &[arrow::array::RecordBatch]| {
            arrow::util::pretty::pretty_format_batches(batches).expect("printable").to_string()
        };
        assert!(!sorted_rows(&stock).is_empty());
        assert_eq!(text(&weld), text(&stock));
    }
}

/// Forty billion pairs, of which none comes out: whoever drops the query has his thread back.
#[tokio::test]
async fn a_join_of_many_pairs_can_be_dropped() {
    let engines = Engines::new(config(1));
    let rows = "SELECT 1 AS k, v, v % 2 AS g FROM generate_series(1, 200000) AS g(v)";
    engines.table_from("a", rows, 8192).await;
    engines.table_from("b", rows, 8192).await;
    for sql in [
        "SELECT a.v FROM a JOIN b ON a.k = b.k AND a.v + b.v < 0",
        "SELECT a.g, sum(b.v) FROM a JOIN b ON a.k = b.k GROUP BY a.g",
    ] {
        let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
        let running = datafusion::physical_plan::collect(plan, engines.weld.task_ctx());
        let ended = tokio::time::timeout(std::time::Duration::from_secs(3), running).await;
        assert!(ended.is_err(), "{sql}: there is more to do than in three seconds");
    }
}

/// A constant of the side that may be null is none above the join, though DataFusion takes it for one: window
/// partitions by it are neighbours only where a join gives the rows without a match at the end, as DataFusion's does of
/// one batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constants_of_outer_joins() {
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        engines.table_from("a", "SELECT v AS k, v * 7 % 11 AS x FROM generate_series(1, 50) AS t(v)", 8192).await;
        engines.table_from("b", "SELECT v * 3 AS k, v AS y FROM generate_series(1, 9) AS t(v)", 8192).await;
        for join in [
            "a LEFT JOIN (SELECT k, 'vip' AS kind FROM b) b ON a.k = b.k",
            "(SELECT k, 'vip' AS kind FROM b) b RIGHT JOIN a ON a.k = b.k",
            "a LEFT JOIN (SELECT k, 'vip' AS kind FROM b WHERE y IS NOT NULL LIMIT 1) b ON a.k % 4 >= b.k % 5",
            "a FULL JOIN (SELECT k, 'vip' AS kind FROM b) b ON a.k = b.k AND a.x > 3",
        ] {
            for (window, expected) in [
                ("count(a.k) OVER (PARTITION BY kind)", "count(a.k) FILTER (WHERE kind IS NOT NULL) OVER ()"),
                ("sum(x) OVER (PARTITION BY kind)", "sum(x) FILTER (WHERE kind IS NOT NULL) OVER ()"),
            ] {
                // What is not partitioned tells what is expected.
                let sql = format!(
                    "SELECT count(*) AS n, count(DISTINCT w) AS one, min(w) = min(e) AS same
                     FROM (SELECT kind, {window} AS w, {expected} AS e FROM {join}) WHERE kind IS NOT NULL"
                );
                let run = engines.run(&sql).await.expect("it runs");
                assert!(run.rows[0].ends_with("|1|true"), "{partitions} {sql}: {:?}", run.rows);
            }
            // Of a full join DataFusion gives the rows without a match on the left apart.
            if partitions == 1 && !join.contains("FULL") {
                engines
                    .check(&format!("SELECT kind, count(*) OVER (PARTITION BY kind) AS n, a.k FROM {join}"), 0)
                    .await;
            }
        }
    }
}

/// Engines of which Weld compiles pipelines over so many rows.
fn engines_compiling(partitions: usize, min_rows: usize) -> Engines {
    let mut config = config(partitions);
    config.options_mut().set("weld.compile_min_rows", &min_rows.to_string()).expect("a setting");
    Engines::new(config)
}

/// Sorts, groups and their order by such constants: stock DataFusion is asked with expressions in their place that it does
/// not take for constants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorts_and_groups_by_constants_of_outer_joins() {
    for (partitions, min_rows) in [(1, 0), (1, 1_000_000_000), (2, 0)] {
        let engines = engines_compiling(partitions, min_rows);
        engines.table_from("l", "SELECT v AS t, v % 7 AS x FROM generate_series(1, 30000) AS g(v)", 1000).await;
        engines.table_from("r", "SELECT v * 2 AS t, v % 3 AS s FROM generate_series(1, 9000) AS g(v)", 1000).await;
        for (flagged, disguised) in [
            ("(SELECT t, 2 AS c FROM r)", "(SELECT t, CASE WHEN t > 0 THEN 2 END AS c FROM r)"),
            ("(SELECT DISTINCT t, 2 AS c FROM r)", "(SELECT DISTINCT t, CASE WHEN t > 0 THEN 2 END AS c FROM r)"),
            ("(SELECT t, s AS c FROM r WHERE s = 1)", "(SELECT t, s AS c FROM r WHERE abs(s) = 1)"),
        ] {
            for join in [
                "l a LEFT JOIN {} b ON a.t = b.t",
                "{} b RIGHT JOIN l a ON a.t = b.t",
                "l a FULL JOIN {} b ON a.t = b.t",
                "{} b FULL JOIN l a ON a.t = b.t",
                "l a LEFT JOIN {} b ON a.t = b.t AND a.x > b.c",
            ] {
                for select in [
                    "SELECT b.c, count(*) AS n FROM {} GROUP BY 1 ORDER BY 1",
                    "SELECT coalesce(b.c, 0) AS c, sum(a.x) AS n FROM {} GROUP BY 1 ORDER BY 1 DESC",
                    "SELECT a.x, b.c, count(*) AS n FROM {} GROUP BY 1, 2 ORDER BY 2, 1",
                    "SELECT b.c, a.t FROM {} ORDER BY 1, 2 DESC LIMIT 4",
                    "SELECT b.c, a.t FROM {} ORDER BY 1 NULLS FIRST, 2 DESC LIMIT 4",
                    "SELECT b.c, a.t FROM {} ORDER BY 1, 2",
                    "SELECT count(*) AS n FROM (SELECT DISTINCT c FROM {})",
                    "SELECT array_agg(c ORDER BY c, t) AS l FROM (SELECT b.c, a.t FROM {} WHERE a.t < 40)",
                    "SELECT c, n FROM (SELECT b.c, row_number() OVER (PARTITION BY b.c ORDER BY a.t) AS n FROM {}) ORDER BY n, c LIMIT 9",
                ] {
                    let sql = |side: &str| select.replace("{}", &join.replace("{}", side));
                    let expected = Engines::run_on(&engines.stock, &sql(disguised)).await.expect("it runs").rows;
                    let found = Engines::run_on(&engines.weld, &sql(flagged)).await.expect("it runs").rows;
                    assert_eq!(found, expected, "{partitions} {min_rows} {}", sql(flagged));
                }
            }
        }
    }
}

/// Keys of which stock DataFusion takes an order for granted that they do not have, or equal values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_of_grouping_sets_running_extremes_and_times_of_day() {
    for (partitions, min_rows) in [(1, 0), (1, 1_000_000_000), (3, 0)] {
        let engines = engines_compiling(partitions, min_rows);
        engines
            .table_from("t", "SELECT v % 5 AS a, v % 3 AS b, v AS id FROM generate_series(1, 3000) AS g(v)", 500)
            .await;
        engines.table_from("k", "SELECT v % 3 AS k FROM generate_series(1, 10) AS g(v)", 4).await;
        engines
            .table_from(
                "x",
                "SELECT v AS id, CASE WHEN v > 1 THEN v * 2 END AS c FROM generate_series(1, 3) AS g(v)",
                2,
            )
            .await;
        engines
            .table_from(
                "s",
                "SELECT to_timestamp_seconds(v * 25200) AS ts, v AS id FROM generate_series(1, 1000) AS g(v)",
                300,
            )
            .await;
        let sets = "(SELECT a, b, (array_agg(b ORDER BY b))[2] AS z, count(*) AS c FROM t GROUP BY GROUPING SETS ((a), (a, b), ()))";
        for (sql, expected) in [
            (format!("SELECT b, sum(c) AS s, count(*) AS n FROM {sets} GROUP BY b ORDER BY b"), "0|1000|5 1|1000|5 2|1000|5 null|6000|6"),
            (format!("SELECT b, z, c FROM {sets} ORDER BY b LIMIT 4"), "0|0|200 0|0|200 0|0|200 0|0|200"),
            (format!("SELECT DISTINCT b, n FROM (SELECT b, count(*) OVER (PARTITION BY b) AS n FROM {sets}) ORDER BY b"), "0|5 1|5 2|5 null|6"),
            ("SELECT l.k AS x, r.k AS y, count(*) AS c FROM k l JOIN k r ON l.k = r.k GROUP BY CUBE(l.k, r.k) ORDER BY y, x LIMIT 4".to_owned(), "0|0|9 null|0|9 1|1|16 null|1|16"),
            ("SELECT x, y, count(*) AS c FROM (SELECT k AS x, k AS y FROM k) GROUP BY CUBE(x, y) ORDER BY x, y NULLS FIRST LIMIT 3".to_owned(), "0|null|3 0|0|3 1|null|4"),
            ("SELECT id, max(c) OVER (ORDER BY id) AS w FROM x ORDER BY w LIMIT 1".to_owned(), "2|4"),
            ("SELECT id, min(c) OVER (ORDER BY id) AS w FROM x ORDER BY w DESC NULLS LAST, id LIMIT 1".to_owned(), "2|4"),
            ("SELECT id, rank() OVER (ORDER BY w) AS r FROM (SELECT id, max(c) OVER (ORDER BY id) AS w FROM x) ORDER BY id".to_owned(), "1|3 2|1 3|2"),
            ("SELECT CAST(tm AS VARCHAR) AS tm, id FROM (SELECT CAST(ts AS TIME) AS tm, id FROM (SELECT *, lag(id) OVER (ORDER BY ts) AS p FROM s) WHERE p > 0 OR p IS NULL) ORDER BY tm, id LIMIT 2".to_owned(), "00:00:00|24 00:00:00|48"),
        ] {
            let rows = Engines::run_on(&engines.weld, &sql).await.expect("it runs").rows;
            let mut expected: Vec<&str> = expected.split(' ').collect();
            expected.sort_unstable();
            assert_eq!(rows, expected, "{partitions} {min_rows} {sql}");
        }
        // Dates of another place, which begin again when clocks are set back.
        engines
            .table_from(
                "z",
                "SELECT arrow_cast(v * 600, 'Timestamp(Second, Some(\"America/Havana\"))') AS ts, v AS id
            FROM generate_series(2843000, 2843200) AS g(v)",
                50,
            )
            .await;
        let sql = |day: &str| {
            format!(
                "SELECT day, n FROM (SELECT {day} AS day, count(*) AS n FROM (SELECT *, lag(id) OVER (ORDER BY ts) AS p FROM z) GROUP BY 1)"
            )
        };
        let expected = Engines::run_on(&engines.stock, &sql("CAST(CAST(CAST(ts AS DATE) AS VARCHAR) AS DATE)")).await;
        let found = Engines::run_on(&engines.weld, &sql("CAST(ts AS DATE)")).await;
        assert_eq!(found.expect("it runs").rows, expected.expect("it runs").rows);
        // Subplans below are still made once.
        let shared = "WITH s AS (SELECT a, b, count(*) AS n FROM t GROUP BY ROLLUP(a, b)), r AS (SELECT b, sum(n) AS n FROM s GROUP BY b)
            SELECT l.b, l.n + r.n AS n FROM r l JOIN r ON l.b = r.b AND l.n = r.n";
        engines.weld.sql("SET weld.common_subplans_min_rows = 0").await.expect("a setting");
        let plan =
            Engines::run_on(&engines.weld, &format!("EXPLAIN {shared}")).await.expect("it is planned").rows.join("");
        let aggregates = plan.matches("aggr=[sum(s.n)]").count();
        assert_eq!(aggregates, if partitions == 1 { 1 } else { 2 }, "{plan}");
        engines.check(shared, 0).await;
    }
}

#[tokio::test]
async fn windows_by_constants_that_outer_joins_leave_alone_are_not_sorted() {
    let engines = Engines::new(config(2));
    engines.table_from("a", "SELECT v AS k, v % 2 AS y FROM generate_series(1, 50) AS t(v)", 8192).await;
    engines.table_from("b", "SELECT v * 3 AS k, v AS x FROM generate_series(1, 9) AS t(v)", 8192).await;
    for (from, is_filled) in [
        ("(SELECT k, y AS kind FROM a WHERE y = 1) a LEFT JOIN b ON a.k = b.k", false),
        ("b RIGHT JOIN (SELECT k, y AS kind FROM a WHERE y = 1) a ON a.k = b.k", false),
        ("(SELECT a.k, 7 AS kind, x FROM a LEFT JOIN b ON a.k = b.k)", false),
        ("b LEFT JOIN (SELECT k, y AS kind FROM a WHERE y = 1) a ON a.k = b.k", true),
        ("(SELECT max(x) AS x, kind FROM b LEFT JOIN (SELECT k, 7 AS kind FROM a) a ON a.k = b.k GROUP BY kind)", true),
    ] {
        let sql = format!("SELECT kind, x, count(*) OVER (PARTITION BY kind) AS n FROM {from}");
        let rows = Engines::run_on(&engines.weld, &format!("EXPLAIN {sql}")).await.expect("it is planned").rows;
        let plan = rows.join("\n");
        assert_eq!(plan.contains("KeySortExec"), is_filled, "{from}: {plan}");
        engines.check(&sql, 0).await;
    }
}

/// Joins in another order, of which a rule of DataFusion's forgets that a column is constant: its check at the end
/// refuses the plan.
#[tokio::test]
async fn a_rewritten_plan_that_is_refused_is_made_again() {
    let engines = Engines::new(config(2));
    engines.table_from("b", "SELECT 7 AS k WHERE FALSE", 8192).await;
    engines.table_from("c", "SELECT v AS n FROM generate_series(1, 3) AS t(v)", 8192).await;
    let sql = "SELECT string_agg(DISTINCT x.l, ',' ORDER BY x.l) AS l
        FROM b RIGHT JOIN (SELECT 2 AS n, 'weld' AS l FROM b) x ON b.k = x.n JOIN c ON x.n = c.n";
    engines.check(sql, 0).await;
    let explained = Engines::run_on(&engines.weld, &format!("EXPLAIN {sql}")).await.expect("it is planned");
    assert!(!explained.rows.join("").contains("does not satisfy"), "{:?}", explained.rows);
    // What DataFusion refuses is refused as before.
    engines.check_error("SELECT no_such_column FROM c", "no_such_column").await;
    engines
        .check_error("SELECT count(*) OVER (ORDER BY n RANGE BETWEEN 'x' PRECEDING AND CURRENT ROW) FROM c", "")
        .await;
}

/// Two keys of one input that equal one column of another: to compare them with each other, before the join, is to compute
/// them of rows that an inner join drops.
#[tokio::test]
async fn keys_that_may_fail_are_not_compared_below_joins() {
    let engines = Engines::new(config(2));
    let tables = [
        ("m", "SELECT * FROM (VALUES (1, 1.0e0), (1, 2.0e0), (2, 3.0e0), (9, CAST('NaN' AS DOUBLE))) AS t(g, x)"),
        ("h", "SELECT * FROM (VALUES (1), (2)) AS t(g)"),
        ("d", "SELECT * FROM (VALUES (1, 1.0e0), (2, 2.0e0), (3, 3.0e0), (4, 3.0e0)) AS t(t, k)"),
    ];
    for (name, rows) in tables {
        engines.table_from(name, rows, 10).await;
    }
    let sql = "SELECT max(j.g) FROM (SELECT m.x, h.g FROM m JOIN h ON m.g = h.g WHERE m.g + 0 > 0) j
        JOIN (SELECT t, CAST(avg(k) AS DECIMAL(10, 2)) AS k FROM d GROUP BY t) d
        ON CAST(j.x AS DECIMAL(10, 2)) = d.k AND CAST(abs(j.x) AS DECIMAL(10, 2)) = d.k";
    engines.check(sql, 0).await;
}

/// Of some types DataFusion finds no bounds of the keys that are built, or wrong ones.
#[tokio::test]
async fn keys_without_bounds() {
    let engines = Engines::new(config(2));
    let rows =
        "SELECT v AS id, arrow_cast(v % 3, 'Dictionary(Int32, Int64)') AS d, map([concat('k', v % 4)], [v]) AS m,
        named_struct('l', [v % 2]) AS s, NULL AS n FROM generate_series(1, 6) AS t(v)";
    engines.table_from("t", rows, 3).await;
    engines.weld.sql("SET weld.encode_tables = true").await.expect("a setting");
    for context in [&engines.stock, &engines.weld] {
        let plan = context.state().create_logical_plan("CREATE TABLE e AS SELECT * FROM t").await.expect("valid SQL");
        execute_statement(context, plan).await.expect("a table").collect().await.expect("it runs");
    }
    for (table, keys) in [("t", "dmsn"), ("e", "n")] {
        for key in keys.chars() {
            for sql in [
                format!(
                    "SELECT a.id FROM {table} a WHERE a.{key} IN (SELECT {key} FROM {table} WHERE id < 3) ORDER BY 1"
                ),
                format!("SELECT count(*) FROM {table} a JOIN {table} b ON a.{key} IS NOT DISTINCT FROM b.{key}"),
                format!("SELECT {key} FROM {table} INTERSECT SELECT {key} FROM {table} WHERE id < 2"),
                format!("SELECT {key} FROM {table} EXCEPT SELECT {key} FROM {table} WHERE id < 2"),
            ] {
                engines.check(&sql, 0).await;
            }
        }
    }
}

/// Keys of a large table are read some rows ahead, but not what lies under nulls: codes and views that lead nowhere.
#[tokio::test]
async fn nothing_is_read_under_nulls_of_outer_joins() {
    let engines = Engines::new(config(2));
    let text = "concat('a text of some length ', v)";
    engines.table_from("built", &format!("SELECT {text} AS s, v FROM generate_series(1, 100000) AS t(v)"), 8192).await;
    let rows = 20_000;
    let valid = NullBuffer::from_iter((0..rows).map(|row| row % 5 > 0));
    let texts: StringViewArray = (0..rows).map(|row| Some(format!("a text of some length {}", row + 1))).collect();
    let (views, blocks, _) = texts.clone().into_parts();
    let astray = 100 | 7_u128 << 64 | 1 << 126;
    let views = views.iter().enumerate().map(|(row, view)| if valid.is_valid(row) { *view } else { astray });
    // SAFETY: what lies under a null is read by nobody.
    let views = unsafe { StringViewArray::new_unchecked(views.collect(), blocks, Some(valid.clone())) };
    let codes = (0..rows).map(|row| if valid.is_valid(row as usize) { row } else { i32::MAX });
    let codes = Int32Array::new(codes.collect(), Some(valid.clone()));
    // SAFETY: as above.
    let codes = unsafe { DictionaryArray::new_unchecked(codes, Arc::new(texts)) };
    let columns = [("views", Arc::new(views) as ArrayRef), ("codes", Arc::new(codes))];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    engines.table("probing", vec![batch]);
    for key in ["views", "codes"] {
        let sql = format!("SELECT count(*), count(v), sum(v) FROM probing LEFT JOIN built ON probing.{key} = built.s");
        let run = Engines::run_on(&engines.weld, &sql).await.expect("it runs");
        assert_eq!(run.rows, ["20000|16000|160016000"], "{key}");
    }
}
