//! Pipelines over few rows: they run on DataFusion's operators, are counted as such, and give the same rows. And with
//! every choice of tiers.

mod common;

use std::sync::Arc;

use common::{Engines, Run, config, counted, executed, sorted_rows};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{CsvReadOptions, JsonReadOptions};
use weld_datafusion::{Summary, pipelines, summary};

const ITEMS: &str = "SELECT v AS i_key, v * 7 % 500 AS i_order, concat('tag ', CAST(v % 3 AS VARCHAR)) AS i_tag
                     FROM generate_series(1, 20000) AS g(v)";

async fn engines(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    let orders = "SELECT v AS o_key, CAST(v AS DECIMAL(10, 2)) AS o_price FROM generate_series(1, 500) AS g(v)";
    engines.table_from("orders", orders, 100).await;
    engines.table_from("items", ITEMS, 1000).await;
    engines
}

async fn set(engines: &Engines, setting: &str, value: impl std::fmt::Display) {
    engines.weld.sql(&format!("SET weld.{setting} = '{value}'")).await.expect("a setting");
}

async fn run(engines: &Engines, sql: &str) -> (Arc<dyn ExecutionPlan>, Summary) {
    let frame = engines.weld.sql(sql).await.expect("valid SQL");
    let plan = frame.create_physical_plan().await.expect("a plan");
    collect(Arc::clone(&plan), engines.weld.task_ctx()).await.expect("it runs");
    let summary = summary(&plan);
    (plan, summary)
}

const QUERIES: [&str; 7] = [
    "SELECT i_key * 2 FROM items WHERE i_order > 300",
    "SELECT i_tag, count(*), sum(i_key) FROM items GROUP BY i_tag",
    "SELECT i_order, count(*), max(i_key) FROM items GROUP BY i_order",
    "SELECT i_tag, sum(o_price) FROM items JOIN orders ON o_key = i_order WHERE o_price > 5 GROUP BY i_tag",
    "SELECT w + 1, c FROM (SELECT i_order * 2 AS w, count(*) AS c FROM items GROUP BY i_order) WHERE c > 3 AND w % 3 = 0",
    "SELECT v % 7 AS k, count(*), sum(v) FROM generate_series(1, 30000) AS g(v) WHERE v % 2 = 0 GROUP BY k",
    "SELECT v + 1 FROM generate_series(1, 30000) AS g(v) WHERE v % 5 = 0",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_are_not_compiled_and_not_counted() {
    let engines = engines(2).await;
    set(&engines, "compile_min_rows", 1_000_000_000).await;
    for sql in QUERIES {
        let Run { summary, rows, .. } = engines.run(sql).await.expect("it runs");
        assert_eq!(rows, engines.stock_rows(sql).await.expect("it runs"), "{sql}");
        assert_eq!(summary.operators_compiled, 0, "{sql}: {summary:?}");
        let reason = |declined: &weld_datafusion::Declined| declined.reason.starts_with("compiling does not pay for");
        assert!(summary.declined.iter().any(reason), "{sql}: {summary:?}");
        assert!(summary.compile_time.is_zero(), "{sql}: {summary:?}");
    }
    let (plan, _) = run(&engines, QUERIES[0]).await;
    assert_eq!(counted(&plan, "few_rows"), 20_000);
    assert_eq!(counted(&plan, "fallbacks"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bound_and_every_tier_gives_the_same() {
    for partitions in [1, 3] {
        for bound in [0, 1, 700, 20_000, 60_000] {
            for tiers in ["auto", "optimised", "alternate"] {
                // Fresh sessions: code that is known always runs.
                let engines = engines(partitions).await;
                set(&engines, "compile_min_rows", bound).await;
                set(&engines, "tiers", tiers).await;
                for sql in QUERIES {
                    let run = engines.check(sql, 0).await;
                    let compiled = run.summary.operators_compiled > 0;
                    assert!(compiled || bound > 0, "{sql}: {:?}", run.summary);
                }
            }
        }
    }
}

/// Joins have no trial: it would compile them in their first run.
fn joined(filter: &str) -> String {
    format!("SELECT i_key * 2, o_price FROM items JOIN orders ON o_key = i_order WHERE {filter}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_again_is_compiled_beside_its_run() {
    let engines = engines(2).await;
    set(&engines, "compile_min_rows", 60_000).await;
    let mut compiled = Vec::new();
    for _ in 0..500 {
        let (_, summary) = run(&engines, &joined("i_key > 300")).await;
        compiled.push(summary.operators_compiled > 0);
        if compiled.ends_with(&[true]) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(!compiled[0] && !compiled[1] && compiled.ends_with(&[true]), "{compiled:?}");
}

/// Few rows were expected to come out of the join, and its operators took long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_took_long_is_compiled_when_it_comes_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let engines = Engines::new(config(2));
    let days = "SELECT v AS d_key, v / 100 AS d_part FROM generate_series(1, 100000) AS g(v)";
    let items = "SELECT v % 100 + 1 AS i_day, v % 1000 AS i_group, v AS i_key FROM generate_series(1, 200000) AS g(v)";
    engines.parquet_from("days", days, folder.path()).await;
    engines.parquet_from("items", items, folder.path()).await;
    // A thousandth of the days, which are all that there are items of.
    let sql = "SELECT i_group, sum(i_key) FROM items JOIN days ON i_day = d_key WHERE d_part = 0 GROUP BY i_group";
    set(&engines, "compile_min_rows", 4_000_000).await;
    let mut compiled = Vec::new();
    for _ in 0..200 {
        let Run { summary, rows, .. } = engines.run(sql).await.expect("it runs");
        assert_eq!(rows, engines.stock_rows(sql).await.expect("it runs"));
        compiled.push(summary.operators_compiled > 0);
        if compiled.ends_with(&[true]) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(!compiled[0] && compiled.ends_with(&[true]), "{compiled:?}");
}

/// Rows that a scan drops are not worth compiling for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_count_that_pass_filters_and_joins() {
    let folder = tempfile::tempdir().expect("a folder");
    for (filter, is_compiled) in [("o_price = 3", false), ("o_price > 3", true), ("i_key < 50", false)] {
        // Fresh sessions: code that is known always runs.
        let engines = Engines::new(config(2));
        let orders = "SELECT v AS o_key, v % 200 AS o_price FROM generate_series(1, 1000) AS g(v)";
        let items = "SELECT v AS i_key, v * 7 % 1000 + 1 AS i_order FROM generate_series(1, 20000) AS g(v)";
        engines.parquet_from("orders", orders, folder.path()).await;
        engines.parquet_from("items", items, folder.path()).await;
        set(&engines, "compile_min_rows", 20_000).await;
        let sql = format!(
            "SELECT o_price, sum(i_key) FROM items JOIN orders ON o_key = i_order WHERE {filter} GROUP BY o_price"
        );
        let Run { summary, rows, .. } = engines.run(&sql).await.expect("it runs");
        assert_eq!(rows, engines.stock_rows(&sql).await.expect("it runs"), "{sql}");
        assert_eq!(summary.operators_compiled > 0, is_compiled, "{sql}: {summary:?}");
    }
}

/// Compiled code is given narrower types than files' tables have; operators that take the first rows are given these.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_take_rows_of_the_declared_types() {
    let folder = tempfile::tempdir().expect("a folder");
    let items =
        "SELECT v AS i_key, CAST(v AS DECIMAL(10, 2)) AS i_price, arrow_cast(concat('tag ', v % 3), 'Utf8') AS i_tag
                 FROM generate_series(1, 20000) AS g(v)";
    for bound in [1_000, 1_000_000_000] {
        let config = config(1).set_bool("datafusion.execution.collect_statistics", false);
        let config = config.set_bool("datafusion.execution.parquet.schema_force_view_types", false);
        let engines = Engines::new(config);
        engines.parquet_from("items", items, folder.path()).await;
        set(&engines, "compile_min_rows", bound).await;
        for sql in [
            "SELECT min(i_price), max(i_tag), count(*) FROM items",
            "SELECT i_tag, sum(i_price), min(i_tag) FROM items GROUP BY i_tag",
            "SELECT i_tag, i_price * 2 FROM items WHERE i_key < 300 OR i_key > 19700",
        ] {
            engines.check(sql, 0).await;
        }
    }
}

/// A program that stands twice in a plan has not come again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_programs_of_one_plan_come_once() {
    let engines = engines(2).await;
    set(&engines, "compile_min_rows", 60_000).await;
    set(&engines, "common_subplans", false).await;
    let one = joined("i_key > 300");
    run(&engines, &format!("{one} UNION ALL {}", joined("i_key > 301"))).await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let (_, summary) = run(&engines, &one).await;
    assert_eq!(summary.operators_compiled, 0, "{summary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_whoever_runs() {
    let engines = engines(1).await;
    for bound in [0, 1, 700, 60_000] {
        set(&engines, "compile_min_rows", bound).await;
        let sql = "SELECT v + 1 FROM generate_series(1, 30000) AS g(v) WHERE v % 5 = 0 LIMIT 10";
        assert_eq!(engines.run(sql).await.expect("it runs").rows.len(), 10);
    }
}

/// The states of a compiled partial aggregate are read by DataFusion's final one where groups are few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn states_of_compiled_aggregates_are_those_of_the_operators() {
    let values = "SELECT v, v % 5 AS k, CASE WHEN v % 5 > 1 THEN v END AS i, CASE WHEN v % 5 > 1 THEN CAST(v AS DECIMAL(9, 2)) END AS d,
                  CASE WHEN v % 5 > 1 THEN CAST(v AS DOUBLE) END AS f FROM generate_series(1, 30000) AS g(v)";
    let folder = tempfile::tempdir().expect("a folder");
    for function in ["avg", "sum", "min", "max", "count"] {
        // Fresh sessions: what is known of other queries would have the final aggregate compiled too.
        let engines = Engines::new(config(3));
        engines.parquet_from("t", values, folder.path()).await;
        set(&engines, "compile_min_rows", 2_000).await;
        for filter in ["", " FILTER (WHERE v % 3 = 0)", " FILTER (WHERE v < 0)"] {
            let floats = if matches!(function, "min" | "max") { "" } else { &format!(", {function}(f){filter}") };
            let sql = format!("SELECT k, {function}(i){filter}, {function}(d){filter}{floats} FROM t GROUP BY k");
            let summary = engines.check(&sql, 0).await.summary;
            let is_mixed = (1..summary.operators_total).contains(&summary.operators_compiled);
            assert!(is_mixed || !filter.is_empty(), "{sql}: {summary:?}");
        }
    }
}

const MIXED_ROWS: usize = 200_000;

fn mixed_rows() -> String {
    format!(
        "SELECT v, v % 5 AS k, concat('t', v % 7) AS t, CAST(v AS DECIMAL(9, 2)) AS d
         FROM generate_series(1, {MIXED_ROWS}) AS g(v)"
    )
}

const OVER_MIXED_ROWS: [&str; 3] = [
    "SELECT k, t, v % 3 AS m, sum(d * 2), min(t), count(v), count(DISTINCT v % 9) FROM t GROUP BY k, t, m",
    "SELECT sum(d * d), avg(v), max(t), count(DISTINCT t), sum(CASE WHEN v % 3 = 0 THEN v * 2 ELSE k END) FROM t",
    "SELECT d * v, concat(t, k), CASE WHEN v % 11 = 0 THEN k ELSE v END FROM t WHERE v % 3 > 0 AND t <> 't1' AND d * 2 > 9",
];

/// Whether operators took the first rows of a query and code some that followed; `engines` are as stock.
async fn goes_on(engines: &Engines, sql: &str) -> bool {
    let (plan, batches) = executed(&engines.weld, sql).await.expect("a plan");
    let rows = sorted_rows(&batches.expect("it runs"));
    assert_eq!(rows, engines.stock_rows(sql).await.expect("it runs"), "{sql}");
    let (first, seen) = (counted(&plan, "first_rows"), counted(&plan, "input_rows"));
    // There are few groups above.
    assert!(first + seen + counted(&plan, "few_rows") >= MIXED_ROWS, "{sql}: {first} and {seen}");
    first > 0 && seen > MIXED_ROWS / 100
}

/// Operators begin over rows that nobody decodes, and code goes on once it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_begin_and_code_goes_on() {
    for sql in OVER_MIXED_ROWS {
        let mut has_gone_on = false;
        for _ in 0..10 {
            // Fresh sessions: code that is known is there at once.
            let engines = Engines::new(config(2));
            engines.table_from("t", &mixed_rows(), 500).await;
            set(&engines, "compile_min_rows", 1_000).await;
            has_gone_on |= goes_on(&engines, sql).await;
            if has_gone_on {
                break;
            }
        }
        assert!(has_gone_on, "{sql}");
    }
}

/// The same over a file that code reads encoded, if it is not sure that compiling pays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_begin_over_files_where_compiling_may_pay() {
    let folder = tempfile::tempdir().expect("a folder");
    for sql in OVER_MIXED_ROWS {
        let mut has_gone_on = false;
        // Each is worth another number of rows.
        for bound in [1, 2, 4, 8, 16, 32, 64, 128].into_iter().cycle().take(24) {
            let engines = Engines::new(config(2));
            engines.weld.sql("SET datafusion.execution.batch_size = 500").await.expect("a setting");
            engines.parquet_from("t", &mixed_rows(), folder.path()).await;
            set(&engines, "compile_min_rows", bound * 250_000).await;
            has_gone_on |= goes_on(&engines, sql).await;
            if has_gone_on {
                break;
            }
        }
        assert!(has_gone_on, "{sql}");
    }
}

/// Queries over tables of few rows are not even lowered; what was declined is said all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_tables_are_left_to_datafusion() {
    let engines = engines(2).await;
    set(&engines, "compile_min_rows", 1_000_000_000).await;
    let sql = QUERIES[3];
    for (bound, is_lowered) in [(0, true), (20_500, true), (20_501, false)] {
        set(&engines, "plan_min_rows", bound).await;
        let (plan, summary) = run(&engines, sql).await;
        assert_eq!(!pipelines(&plan).is_empty(), is_lowered, "{bound}");
        let operators = |name: &str| summary.declined.iter().filter(|declined| declined.operator == name).count();
        assert!(operators("AggregateExec") > 0 && operators("HashJoinExec") == 1, "{bound}: {summary:?}");
        assert_eq!(summary.operators_compiled, 0);
        let Run { rows, .. } = engines.run(sql).await.expect("it runs");
        assert_eq!(rows, engines.stock_rows(sql).await.expect("it runs"), "{bound}");
    }
    // A source whose rows nobody can count is not small, nor is one where everything is to be compiled.
    let (plan, _) = run(&engines, QUERIES[5]).await;
    assert!(!pipelines(&plan).is_empty());
    set(&engines, "compile_min_rows", 0).await;
    let (plan, summary) = run(&engines, sql).await;
    assert!(!pipelines(&plan).is_empty() && summary.operators_compiled > 0);
}

/// Few rows may take long: in windows, put in order, and as pairs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_tables_are_lowered_for_what_takes_long() {
    let engines = engines(2).await;
    set(&engines, "compile_min_rows", 5_000_000).await;
    set(&engines, "plan_min_rows", 100_000).await;
    let by_key = "GROUP BY i_key HAVING count(*) > 0";
    let of_few = "SELECT i_order, array_agg(DISTINCT i_order ORDER BY i_order) FROM items GROUP BY i_order";
    for (sql, is_lowered) in [
        ("SELECT i_key, row_number() OVER (PARTITION BY i_key ORDER BY i_tag) FROM items".to_owned(), true),
        ("SELECT o_key, row_number() OVER (PARTITION BY o_key ORDER BY o_price) FROM orders".to_owned(), false),
        (format!("SELECT i_key, string_agg(i_tag, ',' ORDER BY i_tag) FROM items {by_key}"), true),
        (format!("SELECT i_key, string_agg(DISTINCT i_tag, ',' ORDER BY i_tag) FROM items {by_key}"), true),
        // Nothing is known of keys of tables in memory before a plan has asked for it, as joins do.
        (of_few.to_owned(), true),
        (format!("SELECT i_key, string_agg(i_tag, ',') FROM items {by_key}"), false),
        (
            "SELECT count(*) FROM items a JOIN items b ON a.i_tag = b.i_tag AND a.i_key < b.i_key - 19990".to_owned(),
            true,
        ),
        ("SELECT count(*) FROM items JOIN orders ON i_order = o_key AND i_key < o_price".to_owned(), false),
        (of_few.to_owned(), false),
        ("SELECT count(*) FROM items JOIN orders ON i_order < o_key".to_owned(), true),
        ("SELECT count(*) FROM orders a JOIN orders b ON a.o_key < b.o_key".to_owned(), false),
    ] {
        let (plan, summary) = run(&engines, &sql).await;
        let has_own = !pipelines(&plan).is_empty() || summary.operators_native > 0;
        assert_eq!(has_own, is_lowered, "{sql}: {summary:?}");
        engines.check(&sql, 0).await;
    }
}

/// A pair that a filter is asked of counts for more: of 800,000 pairs, 3.1 million rows instead of 2.3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_count_by_what_they_take() {
    let engines = engines(2).await;
    set(&engines, "plan_min_rows", 100_000).await;
    let join = "SELECT count(*) FROM items a JOIN items b ON a.i_order = b.i_order";
    let filtered = format!("{join} AND a.i_key + 5 < b.i_key");
    for (bound, sql, is_lowered) in [
        (2_000_000, join, true),
        (2_700_000, join, false),
        (2_700_000, &filtered, true),
        (4_000_000, &filtered, false),
        (10_000_000, "SELECT count(*) FROM items a JOIN items b ON a.i_order < b.i_order - 490", true),
        (400_000_000, "SELECT count(*) FROM items a JOIN items b ON a.i_order < b.i_order - 490", false),
    ] {
        set(&engines, "compile_min_rows", bound).await;
        let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
        assert_eq!(!pipelines(&plan).is_empty(), is_lowered, "{bound}: {sql}");
    }
}

/// Pairs of rows are worth compiling for, which nothing is known of until the tables were read for a plan.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_of_a_join_count() {
    let engines = engines(2).await;
    for (join, is_compiled) in [
        ("items a JOIN items b ON a.i_tag = b.i_tag AND a.i_key < b.i_key - 19990", true),
        ("items a JOIN items b ON a.i_key = b.i_key AND a.i_order <= b.i_order", false),
    ] {
        set(&engines, "compile_min_rows", 1_000_000).await;
        let sql = format!("SELECT count(*), sum(a.i_key) FROM {join}");
        let Run { summary, .. } = engines.check(&sql, 0).await;
        assert_eq!(summary.operators_compiled > 0, is_compiled, "{sql}: {summary:?}");
    }
}

/// How many rows a series has follows from its ends and its step, which statistics do not say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_series_count() {
    let series = [
        ("generate_series(1, 20)", true),
        ("generate_series(20, 1, -1)", true),
        ("generate_series(1, 100, 0 + 5)", true),
        ("range(DATE '2000-01-01', DATE '2001-01-01', INTERVAL '1' MONTH)", true),
        ("generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2000-01-02', INTERVAL '1' MINUTE)", true),
        ("generate_series(1, 20000000, 20)", false),
        ("generate_series(1, 1)", true),
    ];
    for (series, is_small) in series {
        let engines = engines(2).await;
        set(&engines, "compile_min_rows", 100_000).await;
        let sql = format!(
            "SELECT count(*), sum(i_key) FROM (SELECT date_part('second', CAST(v AS TIMESTAMP)) AS s FROM {series} AS g(v))
             LEFT JOIN items ON i_order = s"
        );
        let (_, summary) = run(&engines, &sql).await;
        let is_left = summary.declined.iter().any(|declined| declined.operator == "HashJoinExec");
        assert_eq!(is_left, is_small, "{sql}: {summary:?}");
        engines.check(&sql, 0).await;
    }
}

/// Of text files no more is known than their size, which bounds their rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_text_files_are_left_to_datafusion() {
    let folder = tempfile::tempdir().expect("a folder");
    let engines = engines(2).await;
    set(&engines, "plan_min_rows", 20_000).await;
    set(&engines, "compile_min_rows", 1_000_000_000).await;
    for (rows, is_lowered) in [(1_000, false), (20_000, true)] {
        let csv = folder.path().join(format!("csv{rows}.csv"));
        let json = folder.path().join(format!("json{rows}.json"));
        let lines = |line: fn(usize) -> String| (0..rows).map(line).collect::<String>();
        std::fs::write(&csv, format!("k,v\n{}", lines(|row| format!("{row},{}\n", row % 7)))).expect("a file");
        std::fs::write(&json, lines(|row| format!("{{\"k\":{row},\"v\":{}}}\n", row % 7))).expect("a file");
        for context in [&engines.stock, &engines.weld] {
            let (csv, json) = (csv.to_str().expect("UTF-8"), json.to_str().expect("UTF-8"));
            context.register_csv(format!("csv{rows}"), csv, CsvReadOptions::new()).await.expect("a table");
            context.register_json(format!("json{rows}"), json, JsonReadOptions::default()).await.expect("a table");
        }
        for table in ["csv", "json"] {
            let sql = format!("SELECT v, count(*), sum(k) FROM {table}{rows} WHERE k > 10 GROUP BY v");
            let (plan, _) = run(&engines, &sql).await;
            assert_eq!(!pipelines(&plan).is_empty(), is_lowered, "{sql}");
            let Run { rows, .. } = engines.run(&sql).await.expect("it runs");
            assert_eq!(rows, engines.stock_rows(&sql).await.expect("it runs"), "{sql}");
        }
    }
}

/// The project's scan gives compiled code other types than the file's table declares; operators that take the first
/// rows, or all, must not see them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_take_rows_of_files_that_nobody_has_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    for bound in [100, 20_000, 1_000_000_000] {
        // More partitions would have an exchange above the file.
        let engines = Engines::new(config(1).set_bool("datafusion.execution.collect_statistics", false));
        let sql =
            "SELECT v AS k, CAST(v % 100 AS DECIMAL(10, 2)) AS price, concat('tag ', CAST(v % 3 AS VARCHAR)) AS tag
                   FROM generate_series(1, 20000) AS g(v)";
        let name = format!("t{bound}");
        engines.parquet_from(&name, sql, folder.path()).await;
        set(&engines, "compile_min_rows", bound).await;
        for sql in [
            "SELECT tag, count(*), sum(price) FROM {t} WHERE k > 5 GROUP BY tag",
            "SELECT price, count(*) FROM {t} GROUP BY price",
            "SELECT k, price * 2, tag FROM {t} WHERE k % 3 = 0",
            "SELECT count(*), min(tag), max(price) FROM {t} WHERE k > 7",
        ] {
            engines.check(&sql.replace("{t}", &name), 0).await;
        }
    }
}

/// The rows are the same; DataFusion takes longer for each the more keys and grouping sets there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_and_grouping_sets_count() {
    let folder = tempfile::tempdir().expect("a folder");
    // Without joins what operators take decides; what is put in order is compiled in any case.
    let (files, engines) = (Engines::new(config(2)), engines(2).await);
    // A file in order of a key would give groups in order.
    let items = format!("SELECT i_key * 7919 % 20011 AS i_key, i_order, i_tag FROM ({ITEMS})");
    files.parquet_from("items", &items, folder.path()).await;
    files.parquet_from("kinds", "SELECT 0 AS kind UNION ALL SELECT 1", folder.path()).await;
    // Enough for the grouping sets of three keys, and for nothing else.
    set(&files, "compile_min_rows", 1_000_000).await;
    set(&engines, "compile_min_rows", 1_000_000).await;
    let grouped = |by: &str| format!("SELECT count(*) FROM items GROUP BY {by}");
    let joined =
        |by: &str| format!("SELECT max(kind), count(*) FROM items JOIN kinds ON kind = i_key % 2 GROUP BY {by}");
    let (plan, _) = run(&engines, &grouped("i_order")).await;
    assert!(counted(&plan, "few_rows") > 0);
    let (plan, _) = run(&files, &joined("i_order")).await;
    assert!(counted(&plan, "few_rows") > 0);
    let by_sets = joined("CUBE (i_order, i_tag, i_key)");
    let (plan, summary) = run(&files, &by_sets).await;
    assert!(summary.operators_compiled > 0 && counted(&plan, "few_rows") == 0, "{summary:?}");
    files.check(&by_sets, 1).await;
    // DataFusion makes scalars of values that are put in order.
    let in_order = "SELECT i_order, array_agg(i_key ORDER BY i_tag, i_key) AS keys FROM items GROUP BY i_order";
    let (plan, summary) = run(&engines, in_order).await;
    assert!(summary.operators_compiled > 0 && counted(&plan, "few_rows") == 0, "{summary:?}");
    // Texts that nobody has interned are no faster for being compiled.
    let by_texts = grouped("CUBE (CAST(i_order AS VARCHAR), i_tag, CAST(i_key AS VARCHAR))");
    let (plan, _) = run(&engines, &by_texts).await;
    assert!(counted(&plan, "few_rows") > 0);
}

/// DataFusion takes longer for each row the more groups there are, in the partial and in the final aggregate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_count() {
    let folder = tempfile::tempdir().expect("a folder");
    for (keys, pays) in [(100, false), (60_000, true)] {
        let engines = Engines::new(config(2));
        let items = format!("SELECT v % {keys} AS i_group, v AS i_key FROM generate_series(1, 100000) AS g(v)");
        engines.parquet_from("items", &items, folder.path()).await;
        engines.parquet_from("kinds", "SELECT 0 AS kind UNION ALL SELECT 1", folder.path()).await;
        set(&engines, "compile_min_rows", 1_000_000).await;
        let sql = "SELECT max(n) FROM (SELECT i_group, count(*) + max(kind) AS n
                                       FROM items JOIN kinds ON kind = i_key % 2 GROUP BY i_group)";
        let Run { summary, rows, .. } = engines.run(sql).await.expect("it runs");
        assert_eq!(rows, engines.stock_rows(sql).await.expect("it runs"), "{keys} keys");
        assert_eq!(summary.operators_compiled > 1, pays, "{keys} keys: {summary:?}");
        // By a text alone nothing is gained.
        let by_text = "SELECT max(n) FROM (SELECT concat('t', i_group), count(*) AS n FROM items GROUP BY 1)";
        assert!(engines.check(by_text, 0).await.summary.operators_compiled <= 1, "{keys} keys");
    }
}

/// Texts and accumulators of DataFusion's gain nothing by code that only gives them rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accumulators_without_groups_are_datafusions() {
    let engines = engines(2).await;
    set(&engines, "compile_min_rows", 1).await;
    let queries = [
        (
            "SELECT count(DISTINCT i_tag), count(DISTINCT concat(i_tag, i_order)), count(*) FROM items WHERE i_key > 9",
            false,
        ),
        ("SELECT count(DISTINCT i_tag), count(DISTINCT i_key), count(*) FROM items", true),
        ("SELECT count(DISTINCT i_tag), sum(DISTINCT i_key), count(*), sum(i_key * 2), max(i_order) FROM items", true),
        ("SELECT i_order, count(DISTINCT i_tag), count(DISTINCT concat(i_tag, 1)) FROM items GROUP BY i_order", true),
    ];
    for (sql, gains) in queries {
        let summary = engines.check(sql, 0).await.summary;
        let reason = "accumulators that are given rows without groups gain nothing";
        assert_eq!(summary.declined.iter().all(|declined| declined.reason != reason), gains, "{sql}: {summary:?}");
    }
}

/// Groups of several texts are left to DataFusion, unless they are few, or the texts those of a build side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_of_several_texts_are_not_compiled() {
    let folder = tempfile::tempdir().expect("a folder");
    let engines = Engines::new(config(2));
    let people = "SELECT v * 7919 % 60000 AS id, concat('first name ', v % 5000) AS first, concat('last name ', v % 3000) AS last,
                  concat('city ', v % 5) AS city, concat('street ', v % 3) AS street,
                  concat(repeat('note ', 20), v) AS note FROM generate_series(1, 60000) AS g(v)";
    engines.parquet_from("people", people, folder.path()).await;
    set(&engines, "compile_min_rows", 1).await;
    let several = "DataFusion's groups by several texts are as fast";
    for (sql, is_left) in [
        ("SELECT first, last, id, count(*) FROM people GROUP BY first, last, id", true),
        ("SELECT count(*) FROM (SELECT DISTINCT first, last, id FROM people WHERE id > 7)", true),
        ("SELECT first, id, count(*) FROM people GROUP BY first, id", false),
        ("SELECT first, last, id, string_agg(city, ',' ORDER BY city) FROM people GROUP BY first, last, id", false),
        ("SELECT city, street, count(*), sum(id) FROM people GROUP BY city, street", false),
        // Nothing is known of so many texts.
        ("SELECT city, street, note, first, count(*) FROM people GROUP BY city, street, note, first", true),
    ] {
        let run = engines.check(sql, 0).await;
        let left = run.summary.declined.iter().any(|declined| declined.reason == several);
        assert_eq!(left, is_left, "{sql}: {:?}", run.summary);
    }
    set(&engines, "compile_min_rows", 0).await;
    let run = engines.check("SELECT first, last, id, count(*) FROM people GROUP BY first, last, id", 2).await;
    assert!(run.summary.declined.iter().all(|declined| declined.reason != several), "{:?}", run.summary);
}

/// Groups are few, however many rows they are made of: a join of them is not worth code.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_count_that_other_operators_are_expected_to_give() {
    let folder = tempfile::tempdir().expect("a folder");
    for (keys, is_left) in [(10, true), (20_000, false)] {
        let engines = Engines::new(config(2));
        let items = format!("SELECT v AS i_key, v % {keys} AS i_group FROM generate_series(1, 20000) AS g(v)");
        engines.parquet_from("items", &items, folder.path()).await;
        set(&engines, "compile_min_rows", 15_000).await;
        set(&engines, "common_subplans", false).await;
        let sql = "SELECT a.n + b.n FROM (SELECT i_group, sum(i_key) AS n FROM items GROUP BY i_group) a
                   JOIN (SELECT i_group, min(i_key) AS n FROM items GROUP BY i_group) b ON a.i_group = b.i_group";
        let Run { summary, rows, .. } = engines.run(sql).await.expect("it runs");
        assert_eq!(rows, engines.stock_rows(sql).await.expect("it runs"), "{sql}");
        let joins = summary.declined.iter().filter(|declined| declined.operator == "HashJoinExec").count();
        assert_eq!(joins > 0, is_left, "{keys} keys: {summary:?}");
    }
}

/// A text is hashed and compared by both, where it lies: code gains nothing in a table that does not stay in the cache.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_are_looked_for_in_large_tables_by_operators() {
    for (keys, key, is_compiled) in [(5000, "name", false), (1000, "name", true), (5000, "id", true)] {
        let engines = Engines::new(config(2));
        let names =
            format!("SELECT v AS id, concat('name ', v) AS name, v % 9 AS n FROM generate_series(1, {keys}) AS g(v)");
        let items = "SELECT v AS i_key, v % 1000 AS id, concat('name ', v % 1000) AS name FROM generate_series(1, 20000) AS g(v)";
        engines.table_from("names", &names, 1000).await;
        engines.table_from("items", items, 1000).await;
        // More than the rows of the build side are worth.
        set(&engines, "compile_min_rows", 6_000).await;
        let sql = format!("SELECT i_key, n FROM items JOIN names ON items.{key} = names.{key}");
        let Run { summary, rows, .. } = engines.run(&sql).await.expect("it runs");
        assert_eq!(rows, engines.stock_rows(&sql).await.expect("it runs"), "{sql}");
        assert_eq!(summary.operators_compiled > 0, is_compiled, "{keys} keys, {sql}: {summary:?}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let engines = Engines::new(config(2));
    let people = "SELECT v * 7919 % 60000 AS id, concat('name ', v % 5000) AS name, v % 5000 AS n FROM generate_series(1, 60000) AS g(v)";
    engines.parquet_from("people", people, folder.path()).await;
    set(&engines, "compile_min_rows", 1).await;
    for (key, is_compiled) in [("name", false), ("n", true)] {
        let (plan, summary) =
            run(&engines, &format!("SELECT {key}, id, count(*) FROM people GROUP BY {key}, id")).await;
        assert_eq!(counted(&plan, "few_rows") == 0, is_compiled, "by {key}: {summary:?}");
    }
}

/// DataFusion's filters take no longer than compiled ones for rows that go no further.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_count_that_filters_leave_for_a_join() {
    // The rows that are left are built of, or probe with few orders.
    let (built, probing) = ("i_key = 7 AND i_tag = 'tag 1'", "i_tag = 'tag 1' AND i_tag LIKE 'tag%1' AND o_price = 5");
    for (filter, is_compiled) in [("o_price > 0", true), (built, false), (probing, false)] {
        let engines = engines(2).await;
        set(&engines, "key_filters", false).await;
        set(&engines, "compile_min_rows", 4_000).await;
        let sql = joined(filter);
        let Run { summary, rows, .. } = engines.run(&sql).await.expect("it runs");
        assert_eq!(rows, engines.stock_rows(&sql).await.expect("it runs"), "{sql}");
        assert_eq!(summary.operators_compiled > 0, is_compiled, "{sql}: {summary:?}");
    }
}
