//! Aggregates that DataFusion's accumulators compute beside compiled groups.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, Volatility, create_udaf};
use datafusion::physical_plan::displayable;

use crate::common::{Engines, config};

const ROWS: usize = 1500;

async fn tables(engines: &Engines, rows: usize) {
    let sql = format!(
        "SELECT v % 7 AS k, v, v % 500 AS m,
                CASE WHEN v % 5 = 0 THEN NULL ELSE concat('text ', CAST(v % 23 AS VARCHAR), repeat('x', CAST(v % 29 AS BIGINT))) END AS s,
                CASE WHEN v % 11 = 0 THEN NULL ELSE (v * 37 % 64) / 4.0 - 8 END AS x,
                CASE WHEN v % 13 = 0 THEN NULL ELSE CAST(v % 32 AS DOUBLE) END AS y,
                CASE WHEN v % 3 = 0 THEN NULL ELSE v % 5 < 2 END AS b,
                CASE WHEN v % 7 = 6 THEN NULL ELSE v * 7919 % 1009 END AS n,
                CAST(v % 97 AS DECIMAL(12, 2)) AS d, DATE '1999-12-31' + CAST(v % 17 AS INT) AS day,
                l, named_struct('a', v % 4, 'b', concat('s', CAST(v % 3 AS VARCHAR))) AS st,
                arrow_cast(concat('entry ', CAST(v % 6 AS VARCHAR)), 'Dictionary(Int32, Utf8)') AS e
         FROM generate_series(1, {rows}) AS g(v)
              LEFT JOIN (SELECT i % 8 AS j, array_agg(i) AS l FROM generate_series(1, 20) AS h(i) GROUP BY i % 8) ON v % 9 = j"
    );
    engines.table_from("t", &sql, 90).await;
    engines.table_from("none", "SELECT * FROM t WHERE FALSE", 10).await;
    engines
        .table_from(
            "names",
            "SELECT v AS k, concat('name ', CAST(v AS VARCHAR)) AS name FROM generate_series(0, 4) AS g(v)",
            2,
        )
        .await;
}

async fn engines(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    tables(&engines, ROWS).await;
    engines
}

/// As stock, and no aggregate is left to it.
async fn compiled(engines: &Engines, sql: &str) {
    let run = engines.check(sql, 1).await;
    let declined = &run.summary.declined;
    assert!(declined.iter().all(|declined| declined.operator != "AggregateExec"), "{sql}\n{declined:?}");
}

/// Calls whose results do not depend on the order of rows.
const CALLS: [&str; 10] = [
    "median(x), sum(v)",
    "median(n), median(d), count(*), median(n) FILTER (WHERE v % 2 = 0), min(s)",
    "approx_distinct(s), approx_distinct(n), avg(x)",
    "percentile_cont(0.25) WITHIN GROUP (ORDER BY x), max(day)",
    "corr(x, y), stddev(x)",
    "regr_slope(y, x), regr_r2(x, y), regr_count(y, x), covar_pop(x, y)",
    "count(DISTINCT s), sum(DISTINCT n), count(DISTINCT s) FILTER (WHERE n > 500), count(*)",
    "median(DISTINCT n), avg(d), sum(d)",
    "min(l), max(st), bit_xor(n)",
    "median(length(reverse(s))), max(length(reverse(s))), count(DISTINCT upper(s)), approx_distinct(l)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_compiled_aggregates() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for calls in CALLS {
            for sql in [
                format!("SELECT k, {calls} FROM t GROUP BY k"),
                format!("SELECT m, {calls} FROM t WHERE v % 4 <> 1 GROUP BY m"),
                format!("SELECT v, {calls} FROM t GROUP BY v"),
                format!("SELECT substr(s, 1, 6), x, {calls} FROM t GROUP BY substr(s, 1, 6), x"),
                format!("SELECT e, b, {calls} FROM t GROUP BY e, b"),
                format!("SELECT name, {calls} FROM t JOIN names ON t.k = names.k WHERE n > 100 GROUP BY name"),
                format!("SELECT k, {calls} FROM t WHERE v < 0 GROUP BY k"),
                format!("SELECT k, {calls} FROM none GROUP BY k"),
            ] {
                compiled(&engines, &sql).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_a_group() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for call in [
            "array_agg(n)",
            "array_agg(DISTINCT s)",
            "array_agg(n + 1) FILTER (WHERE b)",
            "array_agg(st)",
            "array_agg(e)",
            "array_agg(substr(s, 3, 40))",
            "array_agg(length(reverse(s)))",
        ] {
            for (by, filter) in [("k", "v > 0"), ("s, k", "n > 400"), ("e", "x IS NULL OR b"), ("m", "v < 0")] {
                let sql =
                    format!("SELECT {by}, {call} AS a, count(*) AS c, sum(v) AS d FROM t WHERE {filter} GROUP BY {by}");
                compiled(&engines, &format!("SELECT {by}, unnest(a) AS u, c, d FROM ({sql})")).await;
            }
        }
    }
}

/// Rows of a group come in the order of the input, where there is one partition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_order_of_rows() {
    let engines = engines(1).await;
    for calls in [
        "array_agg(v), array_agg(s), first_value(s), last_value(n)",
        "string_agg(s, ', '), string_agg(DISTINCT s, ''), nth_value(n, 2)",
        "array_agg(l), array_agg(st), array_agg(e), first_value(e), first_value(l)",
        "array_agg(x) FILTER (WHERE b), first_value(v) FILTER (WHERE v > 900), count(*)",
        "array_agg(upper(s)), array_agg(substr(s, 3, 20)), first_value(v + 1)",
        "first_value(n) IGNORE NULLS, last_value(s) IGNORE NULLS, sum(n)",
    ] {
        for sql in [
            format!("SELECT k, {calls} FROM t GROUP BY k"),
            format!("SELECT m, s, {calls} FROM t WHERE v % 3 <> 1 GROUP BY m, s"),
            format!("SELECT e, {calls} FROM t WHERE n > 10 GROUP BY e"),
            format!("SELECT e, k, {calls} FROM none GROUP BY e, k"),
        ] {
            compiled(&engines, &sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordered_inside() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for calls in [
            "first_value(s ORDER BY v), last_value(x ORDER BY v DESC), count(*)",
            "first_value(v ORDER BY n, v), first_value(n ORDER BY s DESC NULLS LAST, v), sum(v)",
        ] {
            compiled(&engines, &format!("SELECT k, {calls} FROM t GROUP BY k")).await;
            compiled(&engines, &format!("SELECT m, {calls} FROM t WHERE x > 0 GROUP BY m")).await;
        }
        // Sorted input is asked for.
        for calls in
            ["array_agg(v ORDER BY v DESC)", "string_agg(s, ',' ORDER BY v), count(*)", "nth_value(v, 3 ORDER BY v)"]
        {
            compiled(&engines, &format!("SELECT k, {calls} FROM t WHERE x > 0 GROUP BY k")).await;
            let joined = "SELECT t.k, v, s, name FROM t JOIN names ON t.k = names.k";
            compiled(&engines, &format!("SELECT name, {calls} FROM ({joined}) GROUP BY name")).await;
        }
        engines
            .check("SELECT k, array_agg(v) FROM (SELECT * FROM t ORDER BY v LIMIT 500) GROUP BY k ORDER BY k", 0)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_in_order() {
    let calls = [
        "array_agg(s ORDER BY v), count(*)",
        "array_agg(n ORDER BY x DESC NULLS LAST, v DESC), array_agg(v ORDER BY s NULLS FIRST, v)",
        "array_agg(v ORDER BY d, day DESC, b NULLS FIRST, v), sum(n)",
        "array_agg(st ORDER BY v), array_agg(l ORDER BY v DESC), array_agg(d ORDER BY -v)",
        "string_agg(s, ', ' ORDER BY v), string_agg(s, NULL ORDER BY v)",
        "string_agg(s, '-' ORDER BY n DESC, v)",
        "array_agg(x ORDER BY v) FILTER (WHERE b), string_agg(s, ' und ' ORDER BY v DESC) FILTER (WHERE n > 900)",
        "array_agg(n ORDER BY v) IGNORE NULLS, array_agg(s ORDER BY v) FILTER (WHERE n > 990) IGNORE NULLS",
        "array_agg(v ORDER BY v + 1), median(x), count(DISTINCT s)",
        "array_agg(DISTINCT s ORDER BY s), count(*)",
        "array_agg(DISTINCT n ORDER BY n DESC NULLS LAST), sum(DISTINCT n)",
        "string_agg(DISTINCT s, ', ' ORDER BY s DESC), string_agg(DISTINCT s, NULL ORDER BY s DESC) FILTER (WHERE n > 900)",
        "array_agg(DISTINCT x ORDER BY x) FILTER (WHERE b) IGNORE NULLS, string_agg(s, ' ' ORDER BY x, v)",
        "array_agg(DISTINCT v % 3 ORDER BY v % 3)",
        "array_agg(DISTINCT -x ORDER BY -x DESC NULLS LAST), median(x)",
        "array_agg(DISTINCT d ORDER BY d), array_agg(DISTINCT d ORDER BY d) FILTER (WHERE b)",
    ];
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for calls in calls {
            for sql in [
                format!("SELECT k, {calls} FROM t GROUP BY k"),
                format!("SELECT m, {calls} FROM t WHERE v % 4 <> 1 GROUP BY m"),
                format!("SELECT v % 700 AS g, {calls} FROM t GROUP BY v % 700"),
                format!("SELECT e, b, {calls} FROM t GROUP BY e, b"),
                format!("SELECT name, {calls} FROM t JOIN names ON t.k = names.k WHERE n > 100 GROUP BY name"),
                format!("SELECT k, {calls} FROM t WHERE v < 0 GROUP BY k"),
                format!("SELECT k, {calls} FROM none GROUP BY k"),
            ] {
                compiled(&engines, &sql).await;
            }
        }
        let sql = "EXPLAIN SELECT k, array_agg(s ORDER BY v) FROM t GROUP BY k";
        let plan = engines.weld.sql(sql).await.expect("valid SQL").collect().await.expect("a plan");
        let plan = pretty_format_batches(&plan).expect("text").to_string();
        assert!(plan.contains("in order: array_agg") && !plan.contains("accumulated by DataFusion"), "{plan}");
    }
}

/// Values that come again are left out while rows still come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_values_of_many_rows() {
    for partitions in [1, 2] {
        let engines = Engines::new(config(partitions));
        let text = "concat('a text of so many bytes ', CAST(v % 5 AS VARCHAR)) AS s";
        let sql = format!("SELECT v % 3 AS k, v % 7 AS n, {text} FROM generate_series(1, 400000) AS g(v)");
        engines.table_from("t", &sql, 8192).await;
        for calls in [
            "array_agg(DISTINCT n ORDER BY n DESC)",
            "string_agg(DISTINCT s, '; ' ORDER BY s), array_agg(DISTINCT n ORDER BY n)",
        ] {
            compiled(&engines, &format!("SELECT k, {calls} FROM t GROUP BY k")).await;
            compiled(&engines, &format!("SELECT n, {calls} FROM t WHERE k > 0 GROUP BY n")).await;
        }
    }
}

/// Without groups DataFusion evaluates an argument for the rows that its call's filter passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_of_rows_that_a_filter_leaves_out() {
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        engines.table_from("t", "SELECT v AS a, v % 3 AS b FROM generate_series(1, 200) AS g(v)", 30).await;
        for calls in [
            "count(DISTINCT a % b) FILTER (WHERE b <> 0), count(*)",
            "count(DISTINCT a % b) FILTER (WHERE b = 2), sum(DISTINCT a / b) FILTER (WHERE b > 0), max(a)",
            "count(DISTINCT a / b) FILTER (WHERE b > 0 AND a > 3), count(DISTINCT a) FILTER (WHERE b = 0), min(a)",
            "count(DISTINCT a % b) FILTER (WHERE NULL), sum(a)",
        ] {
            compiled(&engines, &format!("SELECT {calls} FROM t")).await;
        }
        for calls in [
            "count(DISTINCT a % b) FILTER (WHERE b <> 1), count(*)",
            "count(DISTINCT a % b), count(*) FILTER (WHERE b > 0)",
        ] {
            let error = engines.run(&format!("SELECT {calls} FROM t")).await.err().expect("a division by zero");
            assert!(error.to_string().contains("Divide by zero"), "{error}");
        }
    }
}

/// Sketches of quantiles depend on how rows come in batches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sketches_are_close() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        let calls = "abs(approx_median(v) - median(v)) < 30, abs(approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY v)
                     - percentile_cont(0.9) WITHIN GROUP (ORDER BY CAST(v AS DOUBLE))) < 30, sum(n)";
        compiled(&engines, &format!("SELECT k, {calls} FROM t GROUP BY k")).await;
        compiled(&engines, &format!("SELECT e, {calls} FROM t WHERE n > 10 GROUP BY e")).await;
    }
}

/// Many groups: DataFusion's own operator fails over them, since it would have each row be a group of its own and gives
/// the accumulator the values of the order as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn percentiles_of_many_groups() {
    let engines = Engines::new(config(2));
    engines.table_from("g", "SELECT v AS k, v % 10 AS x FROM generate_series(1, 300000) AS t(v)", 8192).await;
    let calls = "percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS m, count(*) AS n";
    let sql = format!("SELECT count(*), sum(m), sum(n) FROM (SELECT k, {calls} FROM g GROUP BY k)");
    let run = engines.run(&sql).await.expect("it runs");
    assert_eq!(run.rows, ["300000|1.350000000e6|300000"]);
}

/// What stays with DataFusion: no groups, grouping sets.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn left_to_operators() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        engines.check("SELECT median(x), count(*), sum(v) FROM t WHERE n > 3", 1).await;
        engines.check("SELECT approx_distinct(s) FROM none", 0).await;
        engines.check("SELECT k, b, median(x), count(*) FROM t GROUP BY CUBE (k, b)", 0).await;
        let run = engines.check("SELECT median(x) FROM t WHERE n > 3", 1).await;
        assert!(run.summary.declined.iter().any(|declined| declined.reason.contains("no lowering for this aggregate")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_above_and_below() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for sql in [
            "SELECT k, median(x) AS q FROM t GROUP BY k HAVING median(x) > -3 AND count(*) > 2",
            "SELECT median(q), max(c) FROM (SELECT m, median(x) AS q, count(*) AS c FROM t GROUP BY m)",
            "SELECT c, median(q) FROM (SELECT m, avg(x) AS q, count(*) AS c FROM t GROUP BY m) GROUP BY c",
            "SELECT k, q, name FROM (SELECT k, median(x) AS q FROM t GROUP BY k) JOIN names USING (k)",
            "SELECT k, count(q) FROM (SELECT k, m, median(x) AS q FROM t GROUP BY k, m) GROUP BY k",
            "SELECT k, median(x), count(DISTINCT m), count(DISTINCT s) FROM t GROUP BY k",
            "SELECT t.k, median(o.x), sum(o.v) FROM t JOIN t o ON t.v = o.m GROUP BY t.k",
            "SELECT k, median(c) FROM (SELECT k, 1 AS c FROM t UNION ALL SELECT k, v FROM t) GROUP BY k",
            "SELECT DISTINCT median(x) FROM t GROUP BY m",
        ] {
            engines.check(sql, if partitions == 1 { 1 } else { 2 }).await;
        }
    }
}

/// Errors are those of the rows and of the results.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors() {
    let engines = engines(2).await;
    engines.check_error("SELECT k, median(10 / (v - 700)) FROM t GROUP BY k", "ivide by zero").await;
    engines.check_error("SELECT k, array_agg(CAST(s AS BIGINT)) FROM t GROUP BY k", "annot cast string").await;
    engines.check_error("SELECT 10 / (v - 700), median(x) FROM t GROUP BY 10 / (v - 700)", "ivide by zero").await;
}

/// More groups than a partial aggregate's table holds, and rows that are groups of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups() {
    for (partitions, limit) in [(1, usize::MAX), (2, usize::MAX), (2, 64 << 20)] {
        let engines = match limit {
            usize::MAX => Engines::new(config(partitions)),
            limit => Engines::limited(config(partitions), limit),
        };
        tables(&engines, 60_000).await;
        for sql in [
            "SELECT v, median(x), count(*), sum(n) FROM t GROUP BY v",
            "SELECT v % 30000, median(x), min(s) FROM t WHERE n > 9 GROUP BY v % 30000",
            "SELECT concat('a long name of a group: ', CAST(v AS VARCHAR)) AS g, array_agg(n), max(x) FROM t GROUP BY g",
            "SELECT m, median(v), approx_distinct(s), count(*) FROM t GROUP BY m",
            "SELECT v, array_agg(l), first_value(st), first_value(e) FROM t GROUP BY v",
            "SELECT v, array_agg(n ORDER BY s), array_agg(x ORDER BY n) FILTER (WHERE b) FROM t WHERE v <= 40000 GROUP BY v",
        ] {
            // So little DataFusion's own lists of lists cannot do with.
            if limit == usize::MAX || !sql.contains("array_agg(l)") {
                compiled(&engines, sql).await;
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
                          CASE WHEN v % 3 = 0 THEN NULL ELSE v END AS n, v % 100 / 8.0 AS x FROM generate_series(1, 20000) AS t(v)";
        engines.parquet_from(&format!("f{partitions}"), sql, folder.path()).await;
        for calls in
            ["median(x), count(*), sum(n)", "approx_distinct(s), min(s)", "count(DISTINCT s), corr(x, n), avg(n)"]
        {
            for by in ["k", "g", "g, s", "s, k"] {
                compiled(&engines, &format!("SELECT {by}, {calls} FROM f{partitions} GROUP BY {by}")).await;
                compiled(&engines, &format!("SELECT {by}, {calls} FROM f{partitions} WHERE n > 700 GROUP BY {by}"))
                    .await;
            }
        }
    }
}

/// A user's function without an accumulator of groups: the product of what lies between.
#[derive(Debug, Default)]
struct Span {
    least: Option<i64>,
    greatest: Option<i64>,
}

impl Span {
    fn add(&mut self, values: &ArrayRef) {
        for value in values.as_primitive::<Int64Type>().iter().flatten() {
            self.least = Some(self.least.map_or(value, |least| least.min(value)));
            self.greatest = Some(self.greatest.map_or(value, |greatest| greatest.max(value)));
        }
    }
}

impl Accumulator for Span {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0]);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states.iter().for_each(|state| self.add(state));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Int64(self.least), ScalarValue::Int64(self.greatest)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let span = self.least.zip(self.greatest).map(|(least, greatest)| greatest - least);
        Ok(ScalarValue::Int64(span))
    }

    fn size(&self) -> usize {
        size_of::<Span>()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_of_users() {
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        let span = create_udaf(
            "span",
            vec![DataType::Int64],
            Arc::new(DataType::Int64),
            Volatility::Immutable,
            Arc::new(|_| Ok(Box::new(Span::default()))),
            Arc::new(vec![DataType::Int64, DataType::Int64]),
        );
        engines.stock.register_udaf(span.clone());
        engines.weld.register_udaf(span);
        for sql in [
            "SELECT k, span(n), sum(n), span(v) FILTER (WHERE b) FROM t GROUP BY k",
            "SELECT s, span(v * 2), count(*) FROM t WHERE x > 0 GROUP BY s",
            "SELECT v, span(n) FROM t GROUP BY v",
            "SELECT k, span(n) FROM none GROUP BY k",
        ] {
            compiled(&engines, sql).await;
        }
    }
}

/// The operators below are in one pipeline with the groups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pipeline_below_is_fused() {
    let engines = engines(2).await;
    let sql = "SELECT name, median(x + 1), sum(v) FROM t JOIN names ON t.k = names.k WHERE n > 100 GROUP BY name";
    let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    let plan = displayable(plan.as_ref()).indent(false).to_string();
    let partial = plan.lines().find(|line| line.contains("mode=Partial")).unwrap_or_default();
    assert!(partial.contains("WeldExec: groups of") && partial.contains("HashJoinExec"), "{plan}");
    assert!(partial.contains("-> AggregateExec"), "{plan}");
    assert!(plan.contains("mode=FinalPartitioned") && !plan.contains("left to DataFusion: AggregateExec"), "{plan}");
}

/// DataFusion turns such calls round over rows in the opposite order, and not what they give.
#[tokio::test]
async fn distinct_values_in_the_opposite_order_of_the_rows() {
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        engines
            .table_from("t", "SELECT v % 5 AS n, CAST(v % 4 AS VARCHAR) AS s FROM generate_series(1, 40) AS g(v)", 7)
            .await;
        for (call, expected) in [
            ("array_agg(DISTINCT n ORDER BY n)", "[0, 1, 2, 3, 4]"),
            ("string_agg(DISTINCT s, ',' ORDER BY s)", "0,1,2,3"),
            ("array_agg(DISTINCT n ORDER BY n DESC)", "[4, 3, 2, 1, 0]"),
        ] {
            for order in ["n DESC", "n", "s DESC", "s"] {
                let sql = format!("SELECT {call} AS l FROM (SELECT * FROM t ORDER BY {order} LIMIT 100)");
                assert_eq!(engines.run(&sql).await.expect("it runs").rows, [expected], "{sql}");
            }
        }
    }
}
