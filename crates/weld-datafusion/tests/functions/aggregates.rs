//! Aggregate functions of Python: compiled as builders have them, left to accumulators of groups, and without Weld.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use datafusion::physical_plan::{collect, displayable};
use weld_datafusion::summary;

use super::{error, rows, run, session_with};

/// Every field is merged by `+`.
const GEO: &str = "CREATE FUNCTION geo(x DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$
@aggregate
class geo(object):
    layout = Struct([('logs', 'Float'), ('n', 'Int')])
    def __init__(self):
        self.logs = 0.0
        self.n = 0
    def step(self, x):
        if x <= 0:
            raise ValueError('no logarithm')
        self.logs += log(x)
        self.n += 1
    def merge(self, other):
        self.logs += other.logs
        self.n += other.n
    def result(self):
        return exp(self.logs / self.n)
$$";

/// Sums of integers and extremes.
const SPAN: &str = "CREATE FUNCTION spread(x BIGINT) RETURNS BIGINT LANGUAGE python AS $$
@aggregate
class spread(object):
    layout = Struct([('most', 'Int'), ('total', 'Int'), ('odd', 'Int')])
    def __init__(self):
        self.most = -9223372036854775808
        self.total = 0
        self.odd = 0
    def step(self, x):
        self.most = max(self.most, x)
        self.total += x
        if x % 2 == 1:
            self.odd += 1
    def merge(self, other):
        self.most = max(self.most, other.most)
        self.total += other.total
        self.odd += other.odd
    def result(self):
        return self.total + self.most * 1000 + self.odd
$$";

/// The order of rows matters to no result, but the state is no sum: the least and the second one.
const SECOND: &str = "CREATE FUNCTION second(x DOUBLE, y DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$
@aggregate
class second(object):
    layout = Struct([('least', 'Float'), ('next', 'Float'), ('n', 'Int')])
    def __init__(self):
        self.least = 1e300
        self.next = 1e300
        self.n = 0
    def add(self, x):
        if x < self.least:
            self.next = self.least
            self.least = x
        elif x < self.next:
            self.next = x
    def step(self, x, y):
        self.add(x * y)
        self.n += 1
    def merge(self, other):
        self.add(other.least)
        self.add(other.next)
        self.n += other.n
    def result(self):
        return self.next + self.n
$$";

/// A state of lists and text.
const KEPT: &str = "CREATE FUNCTION kept(s VARCHAR, x DOUBLE) RETURNS DOUBLE LANGUAGE python AS $$
@aggregate
class kept(object):
    layout = Struct([('all', '[Float]'), ('last', 'String')])
    def __init__(self):
        self.all = []
        self.last = ''
    def step(self, s, x):
        self.all.append(x)
        if s > self.last:
            self.last = s
    def merge(self, other):
        self.all.extend(other.all)
        if other.last > self.last:
            self.last = other.last
    def result(self):
        return sum(self.all) * len(self.all) + len(self.last)
$$";

async fn shown(context: &datafusion::prelude::SessionContext, sql: &str) -> (usize, String) {
    let plan = context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    collect(plan.clone(), context.task_ctx()).await.expect("it runs");
    (summary(&plan).operators_compiled, displayable(plan.as_ref()).indent(true).to_string())
}

async fn with_numbers(functions: &[&str]) -> datafusion::prelude::SessionContext {
    let context = session_with(functions).await;
    let numbers = "CREATE TABLE n AS SELECT v % 7 AS k, CAST(v AS BIGINT) AS v,
        CASE WHEN v % 5 = 0 OR v % 7 = 3 THEN NULL ELSE CAST(v % 11 + 1 AS DOUBLE) END AS x,
        CASE WHEN v % 13 = 0 THEN NULL ELSE concat('text ', CAST(v % 23 AS VARCHAR)) END AS s
        FROM generate_series(1, 3000) AS g(v)";
    run(&context, numbers).await.expect("valid SQL");
    context
}

/// Calls and what gives the same.
const FORMULAS: [(&str, &str); 7] = [
    ("round(geo(x), 9)", "round(exp(avg(ln(x))), 9)"),
    ("round(geo(x) FILTER (WHERE v % 3 = 0), 9)", "round(exp(avg(ln(x)) FILTER (WHERE v % 3 = 0)), 9)"),
    ("round(geo(DISTINCT x), 9)", "round(exp(avg(DISTINCT ln(x))), 9)"),
    ("spread(v)", "sum(v) + max(v) * 1000 + sum(v % 2)"),
    (
        "spread(v) FILTER (WHERE x > 3)",
        "sum(v) FILTER (WHERE x > 3) + max(v) FILTER (WHERE x > 3) * 1000 + sum(v % 2) FILTER (WHERE x > 3)",
    ),
    ("second(v, -2.0)", "CAST(-2 * (max(v) - 7) + count(*) AS DOUBLE)"),
    (
        "kept(s, x)",
        "sum(x) FILTER (WHERE s IS NOT NULL) * count(x) FILTER (WHERE s IS NOT NULL)
            + length(max(s) FILTER (WHERE x IS NOT NULL))",
    ),
];

#[tokio::test]
async fn aggregates_are_as_their_formulas() {
    let context = with_numbers(&[GEO, SPAN, SECOND, KEPT]).await;
    for (call, formula) in FORMULAS {
        for sql in ["SELECT k, CALL FROM n GROUP BY k", "SELECT CALL FROM n WHERE k = 2"] {
            let found = rows(&context, &sql.replace("CALL", call)).await;
            assert_eq!(found, rows(&context, &sql.replace("CALL", formula)).await, "{call}");
        }
        assert_eq!(rows(&context, &format!("SELECT {call} FROM n WHERE k > 8")).await, ["NULL"], "{call}");
    }
    // Rows of which an argument is NULL are left out, and groups without rows are NULL.
    assert_eq!(rows(&context, "SELECT k, geo(x), second(x, x) FROM n WHERE k = 3 GROUP BY k").await, ["3|NULL|NULL"]);
    assert!(rows(&context, "SELECT k, geo(x) FROM none GROUP BY k").await.is_empty());
    assert_eq!(rows(&context, "SELECT geo(x), kept(s, x) FROM none").await, ["NULL|NULL"]);
    assert_eq!(rows(&context, "SELECT geo(NULL), kept('a', NULL), second(1, 2) FROM t").await, ["NULL|NULL|6"]);
    rows(&context, "SELECT k, round(geo(x), 9), count(*) FROM n GROUP BY ROLLUP (k)").await;
    rows(&context, "SELECT k, v % 2, second(v, x), kept(s, x) FROM n GROUP BY GROUPING SETS ((k), (v % 2), ())").await;
    rows(&context, "SELECT round(geo(x), 9), second(x, v), kept(s, x) FROM n").await;
    rows(&context, "SELECT v % 1000 AS g, second(v, x), kept(s, x), max(x), round(geo(x), 9) FROM n GROUP BY g").await;
    rows(&context, "SELECT s, second(v, x), spread(v) FROM n GROUP BY s HAVING spread(v) > 7 ORDER BY spread(v)").await;
}

/// Batches of any size, in any number of partitions, with and without states of rows that were never put together.
#[tokio::test]
async fn batches_and_partitions_do_not_matter() {
    let context = with_numbers(&[GEO, SPAN, SECOND, KEPT]).await;
    run(&context, "CREATE TABLE few AS SELECT * FROM n WHERE v < 300").await.expect("valid SQL");
    let calls: Vec<&str> = FORMULAS.iter().map(|(call, _)| *call).filter(|call| !call.contains("DISTINCT")).collect();
    let calls = calls.join(", ");
    let queries = [
        format!("SELECT k, {calls} FROM few GROUP BY k"),
        format!("SELECT v, {calls} FROM few GROUP BY v"),
        format!("SELECT {calls} FROM few"),
    ];
    let mut wanted = Vec::new();
    for sql in &queries {
        wanted.push(rows(&context, sql).await);
    }
    for (partitions, batch, threshold) in [(1, 1, 100_000), (4, 1, 1), (4, 8192, 1), (1, 8192, 100_000), (3, 7, 1)] {
        for (name, value) in [
            ("target_partitions", partitions),
            ("batch_size", batch),
            ("skip_partial_aggregation_probe_rows_threshold", threshold),
        ] {
            run(&context, &format!("SET datafusion.execution.{name} = {value}")).await.expect("a setting");
        }
        for (sql, wanted) in queries.iter().zip(&wanted) {
            assert_eq!(&rows(&context, sql).await, wanted, "{partitions} partitions, batches of {batch}: {sql}");
        }
    }
}

/// Lists are passed outside of pipelines; a list of another size, or with NULL in it, is an error.
#[tokio::test]
async fn lists_are_arguments() {
    let ends = "CREATE FUNCTION ends(xs DOUBLE[]) RETURNS DOUBLE LANGUAGE python AS $$
@aggregate
class ends(object):
    layout = Struct([('s', 'Float')])
    def __init__(self):
        self.s = 0.0
    def step(self, xs):
        self.s += xs[0] + xs[-1]
    def merge(self, other):
        self.s += other.s
    def result(self):
        return self.s
$$";
    let pairs = ends.replace("FUNCTION ends(xs DOUBLE[])", "FUNCTION pairs(xs DOUBLE[2])");
    let context = session_with(&[ends, &pairs]).await;
    let xs = [Some(vec![Some(0.5), Some(2.5)]), Some(vec![None, Some(2.5)]), None, Some(vec![Some(1.0), Some(2.5)])];
    let three = [1, 2, 3, 4].map(|k| Some(vec![Some(k), Some(k), Some(1)]));
    let columns: [(&str, ArrayRef); 3] = [
        ("k", Arc::new(Int64Array::from(vec![1, 2, 3, 4]))),
        ("xs", Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(xs))),
        ("three", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(three))),
    ];
    context.register_batch("l", RecordBatch::try_from_iter(columns).expect("a batch")).expect("a table");
    assert_eq!(rows(&context, "SELECT ends(xs), pairs(xs) FROM l WHERE k <> 2").await, ["6.5|6.5"]);
    let found = rows(&context, "SELECT k, ends(xs), pairs(xs), ends(three) FROM l WHERE k <> 2 GROUP BY k").await;
    assert_eq!(found, ["1|3|3|2", "3|NULL|NULL|4", "4|3.5|3.5|5"]);
    for sql in ["SELECT k, ends(xs) FROM l GROUP BY k", "SELECT ends(xs) FROM l"] {
        assert!(error(&context, sql).await.contains("with NULL in it is passed to ends"), "{sql}");
    }
    assert!(error(&context, "SELECT pairs(three) FROM l").await.contains("3 elements, not 2"));
}

#[tokio::test]
async fn sums_are_compiled_and_others_are_accumulated() {
    let context = with_numbers(&[GEO, SPAN, SECOND, KEPT]).await;
    for call in ["geo(x)", "spread(v)", "geo(x), geo(x + 1), sum(x), spread(v) FILTER (WHERE v > 7)"] {
        for sql in [format!("SELECT k, {call} FROM n GROUP BY k"), format!("SELECT {call} FROM n")] {
            let (compiled, plan) = shown(&context, &sql).await;
            assert!(compiled >= 2 && !plan.contains("accumulated"), "{sql}\n{plan}");
        }
    }
    let (compiled, plan) = shown(&context, "SELECT k, second(x, v), kept(s, x), sum(x) FROM n GROUP BY k").await;
    assert!(compiled >= 2 && plan.contains("second("), "{plan}");
}

#[tokio::test]
async fn integers_that_do_not_fit_are_errors_of_the_total() {
    let context = session_with(&[SPAN]).await;
    let values = "(VALUES (9223372036854775807), (9223372036854775807), (-9223372036854775807), (-9223372036854775807), (-6)) AS v(x)";
    assert_eq!(rows(&context, &format!("SELECT spread(x) FROM {values} WHERE x < 0 AND x > -9")).await, ["-6006"]);
    let message = error(&context, &format!("SELECT spread(x) FROM {values} WHERE x > 0")).await;
    assert!(message.contains("spread, line 11: Overflow: integer overflow"), "{message}");
}

#[tokio::test]
async fn errors_name_the_function_and_the_line() {
    let context = with_numbers(&[GEO, SECOND, KEPT]).await;
    for sql in ["SELECT k, geo(-x) FROM n GROUP BY k", "SELECT geo(x - 1) FROM n"] {
        let message = error(&context, sql).await;
        assert!(message.contains("geo, line 10: ValueError: no logarithm"), "{message}");
    }
    let divides = "CREATE FUNCTION divides(x BIGINT) RETURNS BIGINT LANGUAGE python AS $$
@aggregate
class divides(object):
    layout = Struct([('n', 'Int')])
    def __init__(self):
        self.n = 1
    def step(self, x):
        self.n = 12 // (self.n + x)
    def merge(self, other):
        self.n += other.n
    def result(self):
        return self.n
$$";
    run(&context, divides).await.expect("valid");
    for sql in ["SELECT k, divides(0 - v) FROM n GROUP BY k", "SELECT divides(0 - v) FROM n"] {
        let message = error(&context, sql).await;
        assert!(message.contains("divides, line 8: ZeroDivisionError"), "{message}");
    }
    let order = error(&context, "SELECT kept(s, x ORDER BY v) FROM n").await;
    assert!(order.contains("kept: ORDER BY in a call"), "{order}");
    let distinct = error(&context, "SELECT kept(DISTINCT s, x), kept(s, x) FROM n").await;
    assert!(distinct.contains("kept: DISTINCT beside other aggregates"), "{distinct}");
    let count = error(&context, "SELECT geo(x, x) FROM n").await;
    assert!(count.contains("geo takes 1 arguments, not 2"), "{count}");
    let text = error(&context, "SELECT geo(s) FROM n").await;
    assert!(text.contains("geo: argument 1 is Float64, not Utf8"), "{text}");
    // Rows in an order are the same rows.
    let ordered = rows(&context, "SELECT k, round(geo(x ORDER BY s), 9) FROM n GROUP BY k").await;
    assert_eq!(ordered, rows(&context, "SELECT k, round(geo(x), 9) FROM n GROUP BY k").await);
}

#[tokio::test]
async fn windows() {
    let context = with_numbers(&[GEO, SECOND]).await;
    for sql in [
        "SELECT v, round(geo(x) OVER (PARTITION BY k), 9) FROM n WHERE v < 200",
        "SELECT v, second(v, x) OVER (PARTITION BY k ORDER BY v) FROM n WHERE v < 100",
    ] {
        rows(&context, sql).await;
    }
    let found = rows(&context, "SELECT v, round(geo(x) OVER (PARTITION BY k), 9) FROM n WHERE v < 200").await;
    let wanted = "SELECT v, round(exp(avg(ln(x)) OVER (PARTITION BY k)), 9) FROM n WHERE v < 200";
    assert_eq!(found, rows(&context, wanted).await);
    let sql = "SELECT geo(x) OVER (ORDER BY v ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) FROM n";
    assert!(error(&context, sql).await.contains("retract_batch"), "{sql}");
}

#[tokio::test]
async fn they_are_replaced_and_dropped() {
    let context = session_with(&[GEO]).await;
    let error = run(&context, GEO).await.expect_err("it exists");
    assert!(error.contains("a function geo exists"), "{error}");
    let double = GEO.replace("CREATE", "CREATE OR REPLACE").replace("exp(self", "2.0 * exp(self");
    assert_eq!(rows(&context, "SELECT round(geo(x), 9) FROM t WHERE x > 0").await, ["0.707106781"]);
    run(&context, &double).await.expect("it is replaced");
    assert_eq!(rows(&context, "SELECT round(geo(x), 9) FROM t WHERE x > 0").await, ["1.414213562"]);
    run(&context, "DROP FUNCTION geo").await.expect("it is dropped");
    run(&context, "SELECT geo(x) FROM t").await.expect_err("it is gone");
    // Built-in functions are not shadowed by accident.
    let sum = GEO.replace("FUNCTION geo", "FUNCTION sum");
    assert!(run(&context, &sum).await.expect_err("it exists").contains("a function sum exists"));
    let abs = GEO.replace("CREATE FUNCTION geo", "CREATE OR REPLACE FUNCTION abs");
    assert!(run(&context, &abs).await.expect_err("it would not be reached").contains("abs is called for each row"));
    run(&context, &sum.replace("CREATE", "CREATE OR REPLACE")).await.expect("it is replaced");
    assert_eq!(rows(&context, "SELECT round(sum(x), 9) FROM t WHERE x > 0").await, ["0.707106781"]);
}

#[tokio::test]
async fn what_they_may_be_is_checked_when_they_are_made() {
    let context = session_with(&[]).await;
    for (from, to, message) in [
        ("RETURNS DOUBLE", "RETURNS VARCHAR", "the result"),
        ("def merge", "def other", "no method `merge`"),
        ("geo(x DOUBLE)", "geo()", "argument"),
        ("geo(x DOUBLE)", "geo(x DOUBLE, y DOUBLE)", "parameter"),
        ("geo(x DOUBLE)", "geo(x VARCHAR)", "type"),
        ("self.n += other.n", "self.m += other.n", "no attribute `m`"),
    ] {
        let error = run(&context, &GEO.replace(from, to)).await.expect_err(to);
        assert!(error.contains(message), "{to}: {error}");
    }
}
