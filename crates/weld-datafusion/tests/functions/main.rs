//! Functions of the languages in SQL: in compiled pipelines and outside, with Weld on and off.

#[path = "../common/mod.rs"]
mod common;

mod aggregates;
mod structs;

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type};
use common::{config, session, sorted_rows};
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use weld_datafusion::{WeldSessionExt, pipelines, summary};

const SIGMOID: &str =
    "CREATE FUNCTION sigmoid(x DOUBLE) RETURNS DOUBLE LANGUAGE weld AS '|x: f64| 1.0 / (1.0 + exp(-x))'";

const TIER: &str = "CREATE FUNCTION Tier(q INT) RETURNS INT LANGUAGE ttl AS $$
function int Tier(int q) {
  var int r = q;
  if (q > 1) { r = 100 / (q - 2); }
  return r;
} $$";

const UPPER: &str = "CREATE FUNCTION raised(s VARCHAR) RETURNS VARCHAR LANGUAGE weld AS
    '|s: vec[u8]| result(for(s, appender[u8], |b, i, c| merge(b, c - u8(32))))'";

/// A session with a table `t` of three partitions, and these functions.
async fn session_with(functions: &[&str]) -> SessionContext {
    let context = session(config(3), true);
    let rows = "SELECT * FROM (VALUES (1, 0.5, 'a'), (2, NULL, 'bb'), (3, -2.0, NULL), (4, 1.0, 'a')) AS v(k, x, s)";
    run(&context, &format!("CREATE TABLE t AS {rows}")).await.expect("valid SQL");
    run(&context, "CREATE TABLE none AS SELECT * FROM t WHERE k > 9").await.expect("valid SQL");
    for function in functions {
        run(&context, function).await.unwrap_or_else(|error| panic!("{function}\n{error}"));
    }
    context
}

async fn run(context: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = context.sql(sql).await.map_err(|error| error.to_string())?;
    let rows = sorted_rows(&frame.collect().await.map_err(|error| error.to_string())?);
    Ok(rows.iter().map(|row| row.split('|').map(plain).collect::<Vec<_>>().join("|")).collect())
}

/// A cell as a person writes it.
fn plain(cell: &str) -> String {
    match cell.parse::<f64>() {
        Ok(number) if cell.contains('e') => number.to_string(),
        _ if cell == "null" => "NULL".to_owned(),
        _ => cell.to_owned(),
    }
}

/// The rows, which are the same with Weld off.
async fn rows(context: &SessionContext, sql: &str) -> Vec<String> {
    let on = run(context, sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    run(context, "SET weld.enabled = false").await.expect("a setting");
    let off = run(context, sql).await.unwrap_or_else(|error| panic!("{sql}, Weld off\n{error}"));
    run(context, "SET weld.enabled = true").await.expect("a setting");
    assert_eq!(on, off, "{sql}");
    on
}

/// The error, which is the same with Weld off.
async fn error(context: &SessionContext, sql: &str) -> String {
    let on = run(context, sql).await.expect_err(sql);
    run(context, "SET weld.enabled = false").await.expect("a setting");
    let off = run(context, sql).await.expect_err(sql);
    run(context, "SET weld.enabled = true").await.expect("a setting");
    let last = |text: &str| text.rsplit("error: ").next().unwrap_or_default().to_owned();
    assert_eq!(last(&on), last(&off), "{sql}");
    on
}

async fn compiled(context: &SessionContext, sql: &str) -> usize {
    let plan = context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    collect(plan.clone(), context.task_ctx()).await.expect("it runs");
    summary(&plan).operators_compiled
}

#[tokio::test]
async fn functions_are_part_of_the_pipeline() {
    let context = session_with(&[SIGMOID]).await;
    for sql in [
        "SELECT k, sigmoid(x) FROM t WHERE sigmoid(x) > 0.2",
        "SELECT k, sum(sigmoid(x)), count(sigmoid(x)) FROM t GROUP BY k",
        "SELECT a.k FROM t a JOIN t b ON sigmoid(a.x) = sigmoid(b.x)",
        "SELECT CASE WHEN k > 1 THEN sigmoid(x + 1) ELSE sigmoid(sigmoid(x)) END FROM t WHERE k < 4",
    ] {
        rows(&context, sql).await;
        assert!(compiled(&context, sql).await > 0, "{sql}");
    }
    assert_eq!(rows(&context, "SELECT sigmoid(x) FROM t WHERE k = 2").await, ["NULL"]);
    assert_eq!(rows(&context, "SELECT count(*) FROM none WHERE sigmoid(x) > 0.5").await, ["0"]);
    assert!(rows(&context, "SELECT sigmoid(x) FROM none").await.is_empty());
}

/// DataFusion pushes projections into sources of files, which would call the functions by themselves.
#[tokio::test]
async fn functions_of_columns_of_files_are_part_of_the_pipeline() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sum = "CREATE FUNCTION total(v DOUBLE[]) RETURNS DOUBLE LANGUAGE weld AS
        '|v: vec[f64]| result(for(v, merger[f64,+], |m, i, x| merge(m, x)))'";
    let three =
        "CREATE FUNCTION three(x DOUBLE, k DOUBLE) RETURNS DOUBLE[] LANGUAGE weld AS '|x: f64, k: f64| [x, 1.0, k]'";
    let context = session_with(&[SIGMOID, TIER, sum, three]).await;
    let path = folder.path().join("p.parquet");
    let path = path.to_str().expect("a plain name");
    let write =
        format!("COPY (SELECT k, x, s, three(x, NULLIF(k, 4)) AS v FROM t WHERE k <> 2) TO '{path}' STORED AS PARQUET");
    run(&context, &write).await.expect("it writes");
    run(&context, &format!("CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION '{path}'")).await.expect("it reads");
    for (sql, programs) in [
        ("SELECT k, sigmoid(x), k AS x, 1 FROM p", 1),
        ("SELECT reverse(s), sigmoid(x), s, k + 1 FROM p", 1),
        ("SELECT sum(y) FROM (SELECT sigmoid(x) AS y FROM p)", 1),
        ("SELECT sigmoid(x) AS y FROM p UNION ALL SELECT sigmoid(-x) FROM p", 2),
        ("SELECT k, sigmoid(x) AS y FROM p ORDER BY y DESC, k LIMIT 2", 1),
        ("SELECT sigmoid(x) + 1, sigmoid(x) * 2 FROM p", 1),
        ("SELECT a.k, y FROM t AS a JOIN (SELECT k, sigmoid(x) AS y FROM p) AS b ON a.k = b.k WHERE a.x > 0.7", 2),
        ("SELECT total(v), k FROM p", 1),
        ("SELECT k, total(v) FROM p ORDER BY total(v) LIMIT 1", 1),
        ("SELECT tier(CAST(k AS INT) + 2) FROM p", 1),
    ] {
        rows(&context, sql).await;
        let plan = context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        let calls = |line: &str| ["sigmoid(", "tier(", "total("].iter().any(|call| line.contains(call));
        let by_source = shown.lines().find(|line| line.contains("DataSourceExec: file_groups") && calls(line));
        assert_eq!(by_source, None, "{sql}\n{shown}");
        assert_eq!(pipelines(&plan).len(), programs, "{sql}\n{shown}");
    }
    for sql in [
        "SELECT tier(CAST(k AS INT) - 1) FROM p",
        "SELECT y FROM (VALUES (1)) AS a (k) JOIN (SELECT k, tier(CAST(k AS INT) - 1) AS y FROM p) AS b ON a.k = b.k",
    ] {
        assert!(error(&context, sql).await.contains("Tier, line 4: "), "{sql}");
    }
    // What only moves or casts stays where it was, unless another operator is compiled with it.
    for (sql, programs) in [
        ("SELECT CAST(k AS VARCHAR), x AS y, 5 FROM p", 0),
        ("SELECT max(y), count(y + 1), min(y + 1) FROM (SELECT CAST(k AS SMALLINT) AS y FROM p)", 1),
    ] {
        rows(&context, sql).await;
        let plan = context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        assert_eq!(pipelines(&plan).len(), programs, "{sql}\n{shown}");
        let casts = shown.lines().any(|line| line.contains("DataSourceExec") && line.contains("CAST"));
        assert_eq!(casts, programs == 0, "{sql}\n{shown}");
    }
}

/// The same of files that DataFusion reads, which are read as their options say.
#[tokio::test]
async fn functions_of_columns_of_files_of_other_formats_are_part_of_the_pipeline() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let three =
        "CREATE FUNCTION three(x DOUBLE, k DOUBLE) RETURNS DOUBLE[] LANGUAGE weld AS '|x: f64, k: f64| [x, 1.0, k]'";
    let sum = "CREATE FUNCTION total(v DOUBLE[]) RETURNS DOUBLE LANGUAGE weld AS
        '|v: vec[f64]| result(for(v, merger[f64,+], |m, i, x| merge(m, x)))'";
    let context = session_with(&[SIGMOID, sum, three]).await;
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain name").to_owned();
    let written = [
        ("a.csv", "CSV OPTIONS ('format.delimiter' ';', 'format.has_header' 'false')", "k, x, s"),
        ("b.json", "JSON", "k, x, s, three(x, NULLIF(k, 4)) AS v"),
        ("c.arrow", "ARROW", "k, x, s, three(x, NULLIF(k, 4)) AS v"),
    ];
    for (name, format, columns) in written {
        let write = format!("COPY (SELECT {columns} FROM t WHERE k <> 2) TO '{}' STORED AS {format}", path(name));
        run(&context, &write).await.unwrap_or_else(|error| panic!("{write}\n{error}"));
    }
    let lines = std::fs::read_to_string(path("b.json")).expect("the file just written");
    let array = format!("[{}]", lines.lines().collect::<Vec<_>>().join(",\n"));
    std::fs::write(path("d.json"), array).expect("a writable folder");
    let csv = "(k BIGINT, x DOUBLE, s VARCHAR) STORED AS CSV";
    for (table, file, format) in [
        (
            "csv",
            "a.csv",
            format!("{csv} LOCATION '{{}}' OPTIONS ('format.delimiter' ';', 'format.has_header' 'false')"),
        ),
        ("json", "b.json", "STORED AS JSON LOCATION '{}'".to_owned()),
        ("arrow", "c.arrow", "STORED AS ARROW LOCATION '{}'".to_owned()),
        ("array", "d.json", "STORED AS JSON LOCATION '{}' OPTIONS ('format.newline_delimited' 'false')".to_owned()),
    ] {
        let create = format!("CREATE EXTERNAL TABLE {table} {}", format.replace("{}", &path(file)));
        run(&context, &create).await.unwrap_or_else(|error| panic!("{create}\n{error}"));
        let of_lists = ["SELECT total(v), k FROM {}", "SELECT s, total(v) FROM {} ORDER BY total(v) LIMIT 1"];
        let of_numbers = [
            "SELECT k, sigmoid(x), k AS x, 1 FROM {}",
            "SELECT reverse(s), sigmoid(x), s, k + 1 FROM {}",
            "SELECT sum(y) FROM (SELECT sigmoid(x) AS y FROM {})",
        ];
        let lists = of_lists.iter().filter(|_| table != "csv");
        for sql in of_numbers.iter().chain(lists) {
            let sql = sql.replace("{}", table);
            assert!(!rows(&context, &sql).await.is_empty());
            let plan = context.sql(&sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            let calls = |line: &str| line.contains("sigmoid(") || line.contains("total(");
            let by_source = shown.lines().find(|line| line.contains("DataSourceExec: file_groups") && calls(line));
            assert_eq!(by_source, None, "{sql}\n{shown}");
            assert!(!pipelines(&plan).is_empty(), "{sql}\n{shown}");
        }
    }
}

#[tokio::test]
async fn functions_work_outside_pipelines() {
    let context = session_with(&[SIGMOID, TIER]).await;
    assert_eq!(rows(&context, "SELECT tier(3), Tier(0), sigmoid(0), sigmoid(NULL)").await, ["100|0|0.5|NULL"]);
    rows(&context, "SELECT k FROM t ORDER BY sigmoid(x), k").await;
    rows(&context, "SELECT k, sum(k) OVER (ORDER BY sigmoid(x)) FROM t").await;
    rows(&context, "SELECT k, sigmoid(x), row_number() OVER (PARTITION BY tier(CAST(k AS INT) - 9)) FROM t").await;
}

#[tokio::test]
async fn what_a_function_allocates_is_asked_of_the_pool() {
    let pool = Arc::new(GreedyMemoryPool::new(16 << 20));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool) as _).build_arc().expect("a runtime");
    let builder = SessionStateBuilder::new().with_config(config(1)).with_runtime_env(runtime).with_default_features();
    let context = SessionContext::new_with_state(builder.with_weld().build());
    for sql in [
        "CREATE FUNCTION many(n BIGINT) RETURNS DOUBLE[] LANGUAGE weld AS
            '|n: i64| result(for(rangeiter(0L, n, 1L), appender[f64], |b, i, x| merge(b, f64(x))))'",
        "CREATE FUNCTION total(v DOUBLE[]) RETURNS DOUBLE LANGUAGE weld AS
            '|v: vec[f64]| result(for(v, merger[f64,+], |m, i, x| merge(m, x)))'",
        "CREATE TABLE few AS VALUES (1000), (NULL), (2000)",
        "CREATE TABLE lots AS VALUES (1000), (10000000)",
    ] {
        run(&context, sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    }
    let (before, context) = (pool.reserved(), &context);
    let refused = |sql: &'static str| async move {
        let error = run(context, sql).await.expect_err(sql);
        assert!(error.contains("Resources exhausted"), "{sql}\n{error}");
    };
    assert!(run(context, "SELECT column1 FROM few ORDER BY total(many(column1)), column1").await.is_ok());
    refused("SELECT column1 FROM lots ORDER BY total(many(column1)), column1").await;
    refused("SELECT many(10000000)").await;
    for enabled in [true, false] {
        run(context, &format!("SET weld.enabled = {enabled}")).await.expect("a setting");
        refused("SELECT many(column1) FROM lots").await;
        assert!(run(context, "SELECT many(column1) FROM few").await.is_ok());
        assert_eq!(pool.reserved(), before);
    }
}

#[tokio::test]
async fn errors_name_the_function_and_its_line() {
    let context = session_with(&[TIER]).await;
    let message = error(&context, "SELECT tier(CAST(k AS INT)) FROM t").await;
    assert!(message.contains("Tier, line 4: ") && message.contains("zero"), "{message}");
    // Not where it is not called: for NULL, and in branches that are not taken.
    assert_eq!(rows(&context, "SELECT tier(NULL) FROM t WHERE k = 1").await, ["NULL"]);
    let guarded = "SELECT CASE WHEN k = 2 THEN 0 ELSE tier(CAST(k AS INT)) END FROM t";
    assert_eq!(rows(&context, guarded).await, ["0", "1", "100", "50"]);
}

#[tokio::test]
async fn strings_go_in_and_come_out_as_utf8() {
    let context = session_with(&[UPPER]).await;
    assert_eq!(rows(&context, "SELECT raised(s) FROM t").await, ["A", "A", "BB", "NULL"]);
    let long = "SELECT raised(s || 'abcdefghijklmnopqrstuvwxyz') FROM t WHERE k = 1";
    assert_eq!(rows(&context, long).await, ["AABCDEFGHIJKLMNOPQRSTUVWXYZ"]);
    let message = error(&context, "SELECT raised(s || 'é') FROM t").await;
    assert!(message.contains("raised: the result is no UTF-8"), "{message}");
}

#[tokio::test]
async fn a_users_function_is_never_taken_for_a_built_in() {
    let text = "'|x: i64| x + 1L'";
    let context = session_with(&[]).await;
    for name in ["sum", "count", "date_part", "abs"] {
        let create = format!("FUNCTION {name}(x BIGINT) RETURNS BIGINT LANGUAGE weld AS {text}");
        let refused = run(&context, &format!("CREATE {create}")).await.expect_err("the name is taken");
        assert!(refused.contains("OR REPLACE"), "{refused}");
        run(&context, &format!("CREATE OR REPLACE {create}")).await.expect("replaced");
        assert_eq!(rows(&context, &format!("SELECT {name}(k) FROM t")).await, ["2", "3", "4", "5"], "{name}");
    }
}

#[tokio::test]
async fn functions_call_functions_of_the_session() {
    let twice = "CREATE FUNCTION quarter(q INT) RETURNS INT LANGUAGE ttl AS
        'function int quarter(int q) { return q / 4; }'";
    let context = session_with(&[TIER, twice]).await;
    assert_eq!(rows(&context, "SELECT quarter(tier(4)), tier(quarter(CAST(k AS INT))) FROM t").await.len(), 4);
    let message = error(&context, "SELECT tier(quarter(8))").await;
    assert!(message.contains("Tier, line 4"), "{message}");
}

#[tokio::test]
async fn functions_are_replaced_and_dropped() {
    let context = session_with(&[SIGMOID, TIER]).await;
    let again = run(&context, SIGMOID).await.expect_err("it exists");
    assert!(again.contains("sigmoid") && again.contains("OR REPLACE"), "{again}");
    let other = "CREATE OR REPLACE FUNCTION sigmoid(x DOUBLE) RETURNS DOUBLE LANGUAGE weld AS '|x: f64| x'";
    run(&context, other).await.expect("replaced");
    assert_eq!(rows(&context, "SELECT sigmoid(x) FROM t WHERE k = 3").await, ["-2"]);
    run(&context, "DROP FUNCTION Tier").await.expect("dropped");
    assert!(run(&context, "SELECT tier(1)").await.is_err());
    run(&context, TIER).await.expect("the name is free");
    run(&context, "DROP FUNCTION tier").await.expect("dropped");
    run(&context, TIER).await.expect("the name is free");
}

#[tokio::test]
async fn wrong_statements_are_refused_with_a_reason() {
    let context = session_with(&[]).await;
    for (sql, reason) in [
        ("CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE LANGUAGE weld AS '|x: f64| x +'", "f:1:"),
        ("CREATE FUNCTION f(x INT) RETURNS DOUBLE LANGUAGE weld AS '|x: f64| x'", "INT is declared"),
        ("CREATE FUNCTION f(x DOUBLE) RETURNS INT LANGUAGE weld AS '|x: f64| x'", "INT is declared"),
        ("CREATE FUNCTION f() RETURNS DOUBLE LANGUAGE weld AS '|x: f64| x'", "expected 1 argument"),
        ("CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE LANGUAGE cobol AS 'x'", "no language is called cobol"),
        ("CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE AS 'x'", "LANGUAGE is missing"),
        ("CREATE FUNCTION f(x DOUBLE) LANGUAGE weld AS 'x'", "RETURNS is missing"),
        ("CREATE FUNCTION f(x DATE) RETURNS INT LANGUAGE ttl AS 'function int f(int x) { return x; }'", "Date32"),
    ] {
        let error = run(&context, sql).await.expect_err(sql);
        assert!(error.contains(reason), "{sql}\n{error}");
    }
    run(&context, SIGMOID).await.expect("valid");
    let wrong = run(&context, "SELECT sigmoid('a') FROM t").await.expect_err("a string");
    assert!(wrong.contains("sigmoid"), "{wrong}");
    assert!(run(&context, "SELECT sigmoid(x, x) FROM t").await.is_err());
}

#[tokio::test]
async fn an_endless_function_of_constants_does_not_hold_up_the_planner() {
    let endless =
        "CREATE FUNCTION endless(x BIGINT) RETURNS BIGINT LANGUAGE weld AS '|x: i64| iterate(x, |y| {y, true})'";
    let context = session_with(&[endless]).await;
    let message = run(&context, "SELECT endless(1)").await.expect_err("it is stopped");
    assert!(message.contains("endless") && message.contains("stopped"), "{message}");
}

/// Each language's loops; OCANNL has none without an end.
#[tokio::test]
async fn loops_without_end_do_not_hold_up_the_planner_in_any_language() {
    let nested = "CREATE FUNCTION nested(x INT) RETURNS INT LANGUAGE ttl AS $$
function int nested(int x) {
  var int i; var int j; var int s;
  for (i in 0...2147483647 by 1) for (j in 0...2147483647 by 1) { s = s + 1; if (s > 1000) s = x; }
  return s;
} $$";
    let stays = "CREATE FUNCTION stays(a DOUBLE[]) RETURNS DOUBLE[] LANGUAGE gtscript AS '@stencil
def stays(a: Field[K, float64]):
    with computation(FORWARD), interval(...):
        while a > 0:
            a = a + 0
'";
    let one = "CREATE FUNCTION one(x DOUBLE) RETURNS DOUBLE[] LANGUAGE weld AS '|x: f64| [x]'";
    let context = session_with(&[nested, stays, one]).await;
    for enabled in [true, false] {
        run(&context, &format!("SET weld.enabled = {enabled}")).await.expect("a setting");
        let message = run(&context, "SELECT nested(1)").await.expect_err("it is stopped");
        assert!(message.contains("nested") && message.contains("stopped"), "{message}");
        let message = run(&context, "SELECT stays([1.0, 2.0])").await.expect_err("it is stopped");
        assert!(message.contains("stays"), "{message}");
        assert!(message.contains("stopped") || message.contains("more than 10000000 passes"), "{message}");
        let message = run(&context, "SELECT stays(one(x)) FROM t WHERE x = 1").await.expect_err("it is stopped");
        assert!(message.contains("more than 10000000 passes"), "{message}");
    }
}

/// A condition that stands before another one keeps rows from it in a pipeline. DataFusion may evaluate the second for
/// all rows of a batch, depending on how many pass the first; it puts conditions in order, too. Weld fails where it
/// does only.
#[tokio::test]
async fn conditions_keep_rows_from_failing_functions() {
    let context = session_with(&[TIER]).await;
    for (sql, is_spared) in [
        ("SELECT k FROM t WHERE k <> 2 AND tier(CAST(k AS INT)) >= 0", true),
        ("SELECT k FROM t WHERE k = 2 OR tier(CAST(k AS INT)) >= 0", true),
        ("SELECT k FROM t WHERE CASE WHEN k <> 2 THEN tier(CAST(k AS INT)) >= 0 END", true),
        ("SELECT k FROM t WHERE tier(CAST(k AS INT)) >= 0 AND k <> 2", false),
        ("SELECT k FROM t WHERE tier(CAST(k AS INT)) >= 0 OR k = 2", false),
    ] {
        run(&context, "SET weld.enabled = true").await.expect("a setting");
        let on = run(&context, sql).await;
        run(&context, "SET weld.enabled = false").await.expect("a setting");
        let off = run(&context, sql).await;
        let is_its_own = |error: &String| error.contains("Tier, line 4: ") && error.contains("zero");
        assert!(on.is_ok() || !is_spared, "{sql}: {on:?}");
        match (&on, &off) {
            (Ok(on), Ok(off)) => assert_eq!(on, off, "{sql}"),
            (_, Err(off)) => assert!(is_its_own(off), "{sql}: {off}"),
            (Err(_), Ok(_)) => panic!("{sql}: it fails with Weld alone: {on:?}"),
        }
        assert!(on.as_ref().err().is_none_or(is_its_own), "{sql}: {on:?}");
    }
}

#[tokio::test]
async fn dates_are_integers_to_welds_own_language() {
    let next = "CREATE FUNCTION tomorrow(d DATE) RETURNS DATE LANGUAGE weld AS '|d: i32| d + 1'";
    let context = session_with(&[next]).await;
    assert_eq!(rows(&context, "SELECT tomorrow(DATE '2024-02-28')").await, ["2024-02-29"]);
}

/// The examples of docs/functions.md: the last statement of each gives the rows in the comments below it.
#[tokio::test]
async fn the_examples_of_the_document() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/functions.md");
    let text = std::fs::read_to_string(path).expect("docs/functions.md is there");
    let examples: Vec<&str> = text.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() > 1);
    for example in examples {
        let context = session(config(2), true);
        let wanted: Vec<&str> = example.lines().filter_map(|line| line.strip_prefix("-- ")).collect();
        let statements: String =
            example.lines().filter(|line| !line.starts_with("-- ")).map(|line| format!("{line}\n")).collect();
        let statements: Vec<&str> = statements.split(";\n").filter(|text| !text.trim().is_empty()).collect();
        let mut last = Vec::new();
        for statement in joined(&statements) {
            last = run(&context, &statement).await.unwrap_or_else(|error| panic!("{statement}\n{error}"));
        }
        assert_eq!(last, wanted, "{example}");
    }
}

/// Statements that were cut inside of `$$ .. $$` are put together again.
fn joined(parts: &[&str]) -> Vec<String> {
    let mut whole: Vec<String> = Vec::new();
    let mut open = false;
    for part in parts {
        match whole.last_mut().filter(|_| open) {
            Some(last) => last.push_str(&format!(";\n{part}")),
            None => whole.push(part.to_string()),
        }
        open ^= part.matches("$$").count() % 2 == 1;
    }
    whole
}

#[tokio::test]
async fn lists_go_in_and_come_out() {
    let dot = "CREATE FUNCTION dot(a FLOAT[3], b FLOAT[]) RETURNS FLOAT LANGUAGE weld AS
        '|a: vec[f32], b: vec[f32]| result(for(zip(a, b), merger[f32,+], |m, i, e| merge(m, e.$0 * e.$1)))'";
    let twice =
        "CREATE FUNCTION twice(v DOUBLE[]) RETURNS DOUBLE[] LANGUAGE weld AS '|v: vec[f64]| map(v, |x| x * 2.0)'";
    let first = "CREATE FUNCTION head(v FLOAT[2][]) RETURNS FLOAT[2] LANGUAGE ttl AS
        'function matrix<float>[2] head(matrix<float>[?, 2] v) { var matrix<float>[2] t; t[0] = v{0, 0}; t[1] = v{0, 1}; return t; }'";
    let context = session_with(&[dot, twice, first]).await;
    // In slices, so that nothing begins at the start of its buffers.
    let item = |ty: DataType| Arc::new(Field::new_list_field(ty, true));
    let fixed =
        |values: Vec<Option<Vec<Option<f32>>>>| FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(values, 3);
    let three = |x: f32| Some(vec![Some(x), Some(2.0), Some(3.0)]);
    let a: ArrayRef = Arc::new(fixed(vec![three(9.0), three(1.0), None, three(-1.0)]));
    let some = |values: &[f64]| Some(values.iter().copied().map(Some).collect::<Vec<_>>());
    let v: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(vec![
        some(&[9.0]),
        some(&[]),
        some(&[1.0, 2.5]),
        None,
    ]));
    let pairs = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(
        (0..5).map(|i| Some(vec![Some(i as f32), Some(10.0)])),
        2,
    );
    let offsets = OffsetBuffer::from_lengths([1, 2, 1, 1]);
    let inner = item(DataType::FixedSizeList(item(DataType::Float32), 2));
    let w: ArrayRef = Arc::new(ListArray::try_new(inner, offsets, Arc::new(pairs), None).expect("lists of pairs"));
    let batch = RecordBatch::try_from_iter_with_nullable([("a", a, true), ("v", v, true), ("w", w, true)]);
    let batch = batch.expect("one length").slice(1, 3);
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).expect("one schema");
    context.register_table("l", Arc::new(table)).expect("a new name");
    assert_eq!(rows(&context, "SELECT dot(a, a) FROM l").await, ["14", "14", "NULL"]);
    assert_eq!(rows(&context, "SELECT count(*) FROM l WHERE dot(a, a) > 1").await, ["2"]);
    assert_eq!(rows(&context, "SELECT twice(v) FROM l").await, ["[2.0, 5.0]", "[]", "NULL"]);
    assert_eq!(rows(&context, "SELECT twice(twice(v)) FROM l").await, ["[4.0, 10.0]", "[]", "NULL"]);
    assert_eq!(rows(&context, "SELECT head(w) FROM l").await, ["[1.0, 10.0]", "[3.0, 10.0]", "[4.0, 10.0]"]);
    let message = error(&context, "SELECT dot(a, twice(v)) FROM l").await;
    assert!(message.contains("dot"), "{message}");
}
