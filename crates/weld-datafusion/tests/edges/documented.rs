//! `docs/compiled.md` says what compiles. It is made here, of plans; `WELD_BLESS=1` writes it.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, new_empty_array};
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use weld_datafusion::summary;

use crate::common::{Engines, config};
use crate::functions::calls;

const HEAD: &str = "# What compiles

A test of `weld-datafusion` writes this file (`weld-datafusion/tests/edges/documented.rs`). What is not here stays with DataFusion,
but sorts and window functions over sorted rows, which have operators of the project's own that are not compiled (`weld-sort`,
`weld-window`).
An expression without a lowering of its own does not keep an operator from being compiled: DataFusion evaluates it below the
operator (`EvaluateExec` in EXPLAIN), if its result has a type that compiles. An aggregate function without a lowering does not keep
groups from being compiled: DataFusion's accumulators are given its arguments and the group of each row; that is `groups` below.
`weld.*` settings switch kinds of operators off.
";

fn types() -> Vec<DataType> {
    use DataType::*;
    let text = || Box::new(Utf8);
    let item = Arc::new(Field::new("item", Int64, true));
    let mut types = vec![Boolean, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
    types.extend([Float16, Float32, Float64]);
    types.extend([Decimal32(7, 2), Decimal64(16, 3), Decimal128(20, 4), Decimal256(45, 3)]);
    types.extend([Date32, Date64, Time32(TimeUnit::Second), Time64(TimeUnit::Microsecond)]);
    types.extend([Timestamp(TimeUnit::Microsecond, None), Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()))]);
    types.extend([Duration(TimeUnit::Second), Interval(IntervalUnit::MonthDayNano)]);
    types.extend([Utf8, LargeUtf8, Utf8View, Binary, LargeBinary, BinaryView, FixedSizeBinary(4)]);
    types.extend([Dictionary(Box::new(Int32), text()), List(item.clone()), Struct(vec![item].into())]);
    types
}

fn engines(data_type: &DataType) -> Engines {
    let engines = Engines::new(config(1));
    let field = |name: &str| Field::new(name, data_type.clone(), true);
    let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, true), field("a"), field("b")]));
    let k: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    let columns = vec![k, new_empty_array(data_type), new_empty_array(data_type)];
    engines.table("t", vec![RecordBatch::try_new(schema, columns).expect("no rows")]);
    engines
}

/// Whether everything of a query is compiled; `None` if DataFusion does not take it.
async fn compiles(engines: &Engines, sql: &str) -> Option<bool> {
    let plan = engines.weld.sql(sql).await.ok()?.create_physical_plan().await.ok()?;
    let summary = summary(&plan);
    let others = summary.operators_native > 0 || !summary.declined.is_empty() || !summary.evaluated.is_empty();
    Some(!others && summary.operators_compiled > 0)
}

/// Whether a query's aggregates are left to DataFusion's accumulators.
async fn accumulates(engines: &Engines, sql: &str) -> bool {
    let Ok(frame) = engines.weld.sql(sql).await else { return false };
    frame.create_physical_plan().await.is_ok_and(|plan| !summary(&plan).accumulated.is_empty())
}

async fn mark(engines: &Engines, sql: &str) -> &'static str {
    match compiles(engines, sql).await {
        Some(true) if accumulates(engines, sql).await => "groups",
        Some(true) => "yes",
        Some(false) => "",
        None => "n/a",
    }
}

async fn operators(text: &mut String) {
    text.push_str("\n## Operators\n\n| query | compiled |\n|---|---|\n");
    let engines = engines(&DataType::Int64);
    for (what, sql) in [
        ("filter", "SELECT a FROM t WHERE b > 1"),
        ("projection", "SELECT a + b FROM t"),
        ("inner join", "SELECT x.a FROM t x JOIN t y ON x.a = y.b"),
        ("left, right and full join", "SELECT x.a, y.b FROM t x FULL JOIN t y ON x.a = y.b"),
        ("left semi join (IN, EXISTS)", "SELECT a FROM t WHERE a IN (SELECT b FROM t)"),
        ("left anti join (NOT EXISTS)", "SELECT a FROM t x WHERE NOT EXISTS (SELECT 1 FROM t y WHERE x.a = y.b)"),
        ("join with a condition on both sides", "SELECT x.a FROM t x JOIN t y ON x.a = y.b AND x.k < y.k"),
        ("join without keys", "SELECT x.a FROM t x JOIN t y ON x.a < y.b"),
        ("aggregate with groups", "SELECT a, sum(b) FROM t GROUP BY a"),
        ("aggregate without groups", "SELECT sum(b) FROM t"),
        ("DISTINCT", "SELECT DISTINCT a FROM t"),
        ("HAVING", "SELECT a FROM t GROUP BY a HAVING sum(b) > 3"),
        ("grouping sets", "SELECT a, b, count(*) FROM t GROUP BY ROLLUP (a, b)"),
        ("ORDER BY", "SELECT a FROM t WHERE b > 1 ORDER BY a"),
        ("ORDER BY with LIMIT", "SELECT a FROM t WHERE b > 1 ORDER BY a LIMIT 3"),
        ("LIMIT", "SELECT a FROM t WHERE b > 1 LIMIT 3"),
        ("UNION ALL", "SELECT a FROM t UNION ALL SELECT b FROM t"),
        ("window function", "SELECT a, row_number() OVER (ORDER BY b) FROM t"),
    ] {
        let mark = mark(&engines, sql).await;
        writeln!(text, "| {what} | {mark} |").expect("memory");
    }
}

async fn of_types(text: &mut String) {
    text.push_str("\n## Types\n\n| type | moved | compared | group | join key | min, max | sum | avg |\n");
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    for data_type in types() {
        let engines = engines(&data_type);
        write!(text, "| `{data_type}` |").expect("memory");
        for sql in [
            "SELECT a FROM t WHERE k > 1",
            "SELECT k FROM t WHERE a = b AND a > b",
            "SELECT a, count(*) FROM t GROUP BY a",
            "SELECT x.k FROM t x JOIN t y ON x.a = y.b",
            "SELECT k, min(a), max(b) FROM t GROUP BY k",
            "SELECT k, sum(a) FROM t GROUP BY k",
            "SELECT k, avg(a) FROM t GROUP BY k",
        ] {
            write!(text, " {} |", mark(&engines, sql).await).expect("memory");
        }
        text.push('\n');
    }
}

async fn aggregates(text: &mut String) {
    text.push_str("\n## Aggregate functions of `Float64` and `Int64`\n\n| call | compiled |\n|---|---|\n");
    let (floats, integers) = (engines(&DataType::Float64), engines(&DataType::Int64));
    for call in [
        "count(*)",
        "count(a)",
        "count(DISTINCT a)",
        "sum(a)",
        "sum(a) FILTER (WHERE b > 0)",
        "sum(DISTINCT a)",
        "avg(a)",
        "min(a)",
        "max(a)",
        "stddev(a)",
        "var_pop(a)",
        "corr(a, b)",
        "regr_slope(a, b)",
        "median(a)",
        "percentile_cont(a, 0.5)",
        "approx_percentile_cont(a, 0.5)",
        "first_value(a)",
        "first_value(a ORDER BY b)",
        "last_value(a ORDER BY b DESC)",
        "nth_value(a, 2)",
        "array_agg(a)",
        "array_agg(a ORDER BY b)",
        "bool_and(a > b)",
        "bool_or(a > b)",
        "bit_and(a)",
        "bit_or(a)",
        "bit_xor(a)",
        "approx_distinct(a)",
    ] {
        let sql = format!("SELECT k, {call} FROM t GROUP BY k");
        let (of_floats, of_integers) = (mark(&floats, &sql).await, mark(&integers, &sql).await);
        let both = match (of_floats, of_integers) {
            (a, b) if a == b => a.to_owned(),
            ("yes", _) => "of floats".to_owned(),
            (_, "yes") => "of integers".to_owned(),
            _ => String::new(),
        };
        writeln!(text, "| `{call}` | {both} |").expect("memory");
    }
}

async fn functions(text: &mut String) {
    text.push_str("\n## Scalar functions\n\nBy the type of their argument `a`.\n\n| type | calls |\n|---|---|\n");
    for (data_type, calls) in calls() {
        let engines = engines(&data_type);
        let mut compiled = Vec::new();
        for call in calls {
            if compiles(&engines, &format!("SELECT k, {call} FROM t WHERE k >= 0")).await == Some(true) {
                compiled.push(format!("`{call}`"));
            }
        }
        writeln!(text, "| `{data_type}` | {} |", compiled.join(", ")).expect("memory");
    }
}

async fn expressions(text: &mut String) {
    text.push_str(
        "\n## Other expressions of `Int64` (`a`, `b`) and text (`s`)\n\n| expression | compiled |\n|---|---|\n",
    );
    let engines = Engines::new(config(1));
    engines
        .table_from("t", "SELECT CASE WHEN v >= 0 THEN v END AS a, v AS b, CAST(v AS VARCHAR) AS s FROM generate_series(0, 3) AS g(v)", 4)
        .await;
    for expr in [
        "a + b, a - b, a * b, a / b, a % b, -a",
        "a & b, a | b",
        "a << 3, a >> 3",
        "a << b",
        "a = b, a <> b, a < b, a >= b",
        "a IS NULL, a IS NOT NULL, a IS DISTINCT FROM b",
        "a > b IS TRUE, a > b IS NOT FALSE, a > b IS UNKNOWN",
        "a BETWEEN b AND 7",
        "a > 1 AND (b > 1 OR NOT a > b)",
        "CASE WHEN a > b THEN a ELSE b END, CASE a WHEN 1 THEN 2 END",
        "coalesce(a, b)",
        "nullif(a, b)",
        "greatest(a, b), least(a, b)",
        "a IN (1, 2, 3), s NOT IN ('a', 'b')",
        "a IN (b, 3)",
        "s LIKE 'a%', s LIKE '%a', s NOT LIKE '%a_b%'",
        "s ILIKE 'a%'",
        "s ~ '^a'",
        "s || 'a'",
        "upper(s)",
        "CAST(s AS BIGINT)",
        "CAST(a AS VARCHAR)",
    ] {
        let mark = mark(&engines, &format!("SELECT {expr} FROM t")).await;
        writeln!(text, "| `{}` | {mark} |", expr.replace('|', "\\|")).expect("memory");
    }
}

async fn casts(text: &mut String) {
    text.push_str("\n## Casts\n\nCAST and TRY_CAST, from each type to those beside it.\n\n| from | to |\n|---|---|\n");
    let types = types();
    for from in &types {
        let engines = engines(from);
        let mut targets = Vec::new();
        for to in types.iter().filter(|to| *to != from) {
            let sql = format!("SELECT k, arrow_cast(a, '{to}'), arrow_try_cast(a, '{to}') FROM t WHERE k >= 0");
            if compiles(&engines, &sql).await == Some(true) {
                targets.push(format!("`{to}`"));
            }
        }
        if !targets.is_empty() {
            writeln!(text, "| `{from}` | {} |", targets.join(", ")).expect("memory");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_compiles() {
    let mut text = HEAD.to_owned();
    operators(&mut text).await;
    of_types(&mut text).await;
    aggregates(&mut text).await;
    expressions(&mut text).await;
    functions(&mut text).await;
    casts(&mut text).await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compiled.md");
    if std::env::var_os("WELD_BLESS").is_some() {
        std::fs::write(path, &text).expect("docs are writable");
    }
    let known = std::fs::read_to_string(path).unwrap_or_default();
    let differs = known.lines().zip(text.lines()).find(|(known, now)| known != now);
    assert!(known == text, "docs/compiled.md is out of date (WELD_BLESS=1 writes it): {differs:?}");
}
