//! Where engines differ: nulls, empty inputs, overflow, division by zero, wrapping, limits, memory, cancellation.

mod common;

use std::sync::Arc;

use common::{Engines, config, session};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use weld_datafusion::WeldSessionExt;

/// Every type, every third row null.
const NULLS: &str = "
    SELECT CASE WHEN v % 3 = 0 THEN NULL ELSE v END AS i,
           CASE WHEN v % 3 = 1 THEN NULL ELSE v * 10 END AS j,
           CASE WHEN v % 4 = 0 THEN NULL ELSE CAST(v AS DECIMAL(15, 2)) / 4 END AS d,
           CASE WHEN v % 5 = 0 THEN NULL ELSE v % 2 = 0 END AS b,
           CASE WHEN v % 4 = 1 THEN NULL ELSE concat('a string of some length ', CAST(v % 7 AS VARCHAR)) END AS s,
           CASE WHEN v % 6 = 0 THEN NULL ELSE CAST(v AS DOUBLE) / 3 END AS f,
           CASE WHEN v % 3 = 2 THEN NULL ELSE arrow_cast(v, 'Date32') END AS t,
           v AS k
    FROM generate_series(1, 100) AS g(v)";

async fn nulls(batch_rows: usize, partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    engines.table_from("n", NULLS, batch_rows).await;
    engines.table_from("none", &format!("{NULLS} WHERE v < 0"), batch_rows).await;
    engines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_everywhere() {
    for (batch_rows, partitions) in [(100, 1), (7, 2), (1, 1)] {
        let engines = nulls(batch_rows, partitions).await;
        for sql in [
            "SELECT i + j, i * 2, i - k FROM n WHERE i > 5 OR j < 300",
            "SELECT i, s FROM n WHERE NOT (i > 20 AND b)",
            "SELECT i FROM n WHERE b OR i IS NULL",
            "SELECT k, b AND i > 10, b OR i > 10, NOT b FROM n WHERE k > 0",
            "SELECT k, i IS NULL, j IS NOT NULL, i IS DISTINCT FROM j, i IS NOT DISTINCT FROM NULL FROM n WHERE k > 1",
            "SELECT k, CASE WHEN i > 50 THEN i WHEN b THEN j ELSE NULL END FROM n WHERE k < 90",
            "SELECT k, CASE i WHEN 4 THEN 'four' WHEN 5 THEN 'five' END FROM n WHERE k > 2",
            "SELECT k FROM n WHERE i IN (1, 2, 4, NULL) OR s IN ('a string of some length 3')",
            "SELECT k, i IN (1, 4, 7), i NOT IN (1, NULL) FROM n WHERE k > 2",
            "SELECT k, d + 1, d * d, d / 3, d - 0.5 FROM n WHERE d BETWEEN 1 AND 20",
            "SELECT f * 2, f / 0, -f FROM n WHERE f > 3.0",
            "SELECT s, k FROM n WHERE s LIKE '%length 3' OR s LIKE 'a str%' AND k < 10",
            "SELECT s NOT LIKE '%of%4', k FROM n WHERE k > 7",
            "SELECT t, k, date_part('year', t), date_part('month', t) FROM n WHERE t > DATE '1970-01-20'",
            "SELECT s, k FROM n WHERE s > 'a string of some length 2'",
            "SELECT count(*), count(i), sum(i), min(i), max(i), avg(d), sum(d), min(d), max(t) FROM n WHERE k > 3",
            "SELECT b, count(*), count(i), sum(i), avg(d), avg(f), min(j), max(j) FROM n GROUP BY b",
            "SELECT s, b, sum(k), min(t) FROM n GROUP BY s, b",
            "SELECT i % 4, sum(i) FILTER (WHERE b), count(*) FILTER (WHERE j > 100) FROM n GROUP BY i % 4",
            "SELECT DISTINCT s FROM n",
            "SELECT DISTINCT i % 5, b FROM n WHERE k > 0",
            "SELECT a.k, b.s FROM n a JOIN n b ON a.i = b.j",
            "SELECT a.k, b.k, a.s FROM n a JOIN n b ON a.s = b.s AND a.i = b.i WHERE a.k + b.k > 20",
            "SELECT a.k, b.k FROM n a JOIN n b ON a.i = b.i AND a.k < b.j",
            "SELECT a.k, b.k FROM n a JOIN n b ON a.i IS NOT DISTINCT FROM b.j",
            "SELECT b.b, sum(a.d * b.k) FROM n a JOIN n b ON a.i = b.j GROUP BY b.b",
        ] {
            engines.check(sql, 1).await;
        }
    }
}

/// Aggregates of aggregates, and what follows an aggregate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_groups() {
    for (batch_rows, partitions) in [(100, 1), (7, 2)] {
        let engines = nulls(batch_rows, partitions).await;
        for sql in [
            "SELECT s, count(DISTINCT i * j) FROM n GROUP BY s",
            "SELECT count(DISTINCT s) FROM n",
            "SELECT b, count(DISTINCT s) FROM n WHERE k > 3 GROUP BY b HAVING count(DISTINCT s) > 2",
            "SELECT c, count(*) FROM (SELECT s, count(*) AS c FROM n GROUP BY s) AS t GROUP BY c",
            "SELECT s, sum(i) + 1 AS x FROM n GROUP BY s HAVING sum(i) > 100 OR s IS NULL",
            "SELECT max(c), min(s) FROM (SELECT s, sum(k) AS c FROM n GROUP BY s HAVING sum(k) > 3) AS t",
            "SELECT s FROM n GROUP BY s HAVING sum(k) > 100000",
            "SELECT t.s, n.k FROM (SELECT s, max(i) AS m FROM n GROUP BY s) AS t JOIN n ON t.m = n.i",
            "SELECT n.k, t.m FROM n JOIN (SELECT i % 10 AS m, count(*) AS c FROM n GROUP BY i % 10) AS t ON t.c = n.i",
            "SELECT s, b, count(*) FROM (SELECT DISTINCT s, b, i FROM n) AS t GROUP BY s, b",
        ] {
            engines.check(sql, 2).await;
        }
    }
}

/// Rows of one side with a match on the other or without one; a null key has none, unless null equals null.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semi_and_anti_joins() {
    for (batch_rows, partitions) in [(100, 1), (7, 2)] {
        let engines = nulls(batch_rows, partitions).await;
        for kind in ["RIGHT SEMI", "RIGHT ANTI"] {
            for (sql, pipelines) in [
                ("SELECT b.k, b.s FROM n a JOIN n b ON a.i = b.j", 1),
                ("SELECT b.k, b.j FROM (SELECT * FROM n WHERE k % 2 = 0) a JOIN n b ON a.s = b.s AND a.i = b.i", 1),
                ("SELECT b.k FROM n a JOIN n b ON a.i = b.i AND a.k < b.j", 1),
                ("SELECT b.k, b.d FROM n a JOIN n b ON a.s = b.s AND a.k <> b.k AND a.i > b.i", 1),
                ("SELECT b.k FROM n a JOIN n b ON a.i IS NOT DISTINCT FROM b.j", 1),
                ("SELECT b.k FROM none a JOIN n b ON a.i = b.j", 1),
                ("SELECT b.k FROM n a JOIN none b ON a.i = b.j", 0),
                ("SELECT b.b, count(*), sum(b.d) FROM n a JOIN n b ON a.i = b.j GROUP BY b.b", 2),
            ] {
                engines.check(&sql.replace(" JOIN", &format!(" {kind} JOIN")), pipelines).await;
            }
        }
        for sql in [
            "SELECT k FROM n WHERE i IN (SELECT j FROM n)",
            "SELECT k FROM n WHERE i NOT IN (SELECT j FROM n)",
            "SELECT k FROM n WHERE i NOT IN (SELECT j FROM n WHERE j IS NOT NULL)",
            "SELECT k FROM n WHERE i NOT IN (SELECT j FROM none)",
            "SELECT k FROM n WHERE k NOT IN (SELECT k FROM n WHERE k > 10 AND b)",
            "SELECT k FROM n a WHERE EXISTS (SELECT 1 FROM n b WHERE a.i = b.j AND a.k <> b.k)",
            "SELECT k FROM n a WHERE NOT EXISTS (SELECT 1 FROM n b WHERE a.s = b.s AND a.i < b.i)",
            "SELECT count(*) FROM n a WHERE k > 3 AND NOT EXISTS (SELECT 1 FROM n b WHERE a.i = b.i AND b.b)",
        ] {
            engines.check(sql, 0).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_input() {
    let engines = nulls(100, 2).await;
    for sql in [
        "SELECT i + 1 FROM none WHERE i > 2",
        "SELECT count(*), sum(i), min(d), avg(d), count(s) FROM none WHERE k > 0",
        "SELECT b, count(*), sum(i) FROM none GROUP BY b",
        "SELECT a.k, b.s FROM none a JOIN n b ON a.i = b.j",
        "SELECT a.k, b.s FROM n a JOIN none b ON a.i = b.j",
        "SELECT sum(a.k) FROM n a JOIN none b ON a.i = b.j",
        "SELECT i FROM n WHERE k > 1000",
    ] {
        engines.check(sql, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_are_datafusions() {
    let engines = nulls(10, 1).await;
    engines.check_error("SELECT k / (k - 50) FROM n WHERE k > 10", "Divide by zero").await;
    engines.check_error("SELECT k % (k - 50) FROM n WHERE k > 10", "Divide by zero").await;
    engines.check_error("SELECT d / (d - d) FROM n WHERE k > 10", "Divide by zero").await;
    engines.table_from("big", "SELECT CAST('9' || repeat('9', 37) AS DECIMAL(38, 0)) AS d, 1 AS k", 10).await;
    engines.check_error("SELECT d * d FROM big WHERE k > 0", "verflow").await;
    engines.check_error("SELECT d + d + d FROM big WHERE k > 0", "verflow").await;
    engines.check_error("SELECT arrow_cast(k * 1000, 'Int8') FROM n WHERE k > 0", "cast").await;
    // The operand that would fail is not evaluated.
    engines.check("SELECT k FROM n WHERE k > 95 AND 100 / (k - 50) >= 2", 1).await;
    engines.check("SELECT CASE WHEN k = 50 THEN 0 ELSE k / (k - 50) END FROM n WHERE k > 10", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn integers_wrap_and_decimals_do_not() {
    let engines = Engines::new(config(1));
    engines
        .table_from(
            "w",
            "SELECT arrow_cast(v, 'Int8') AS a, arrow_cast(v, 'UInt8') AS u, CAST(9223372036854775800 + v AS BIGINT) AS x,
                    CAST(v AS DECIMAL(38, 0)) * 10000000000000000000000000000000000 AS d
             FROM generate_series(1, 7) AS g(v)",
            3,
        )
        .await;
    engines.check("SELECT a + a, a * arrow_cast(100, 'Int8'), x + x, -x FROM w WHERE a > 0", 1).await;
    engines.check("SELECT sum(x), sum(a), sum(u) FROM w WHERE a > 0", 1).await;
    engines
        .check("SELECT a % arrow_cast(2, 'Int8'), sum(x), max(x), min(a) FROM w GROUP BY a % arrow_cast(2, 'Int8')", 1)
        .await;
    engines.check("SELECT sum(d), max(d) FROM w WHERE a > 0", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floats_order_as_datafusions() {
    let engines = Engines::new(config(1));
    engines
        .table_from(
            "f",
            "SELECT x, x * 0 AS z FROM (VALUES (0.0::double), (-0.0::double), (1.5::double), ('NaN'::double), ('Infinity'::double), (NULL)) AS f(x)",
            2,
        )
        .await;
    for sql in [
        "SELECT x FROM f WHERE x = 0",
        "SELECT x FROM f WHERE x > 1",
        "SELECT x, x = x, x < 'NaN'::double, z <> z, x >= 'Infinity'::double FROM f WHERE x IS NULL OR x IS NOT NULL",
    ] {
        engines.check(sql, 1).await;
    }
    engines.check("SELECT x, count(*) FROM f GROUP BY x", 1).await;
    engines.check("SELECT x, z, count(*) FROM f GROUP BY x, z", 1).await;
    engines.check("SELECT 1 / x, count(*) FROM (SELECT DISTINCT x FROM f) GROUP BY x", 1).await;
    // Keys of floats stay with DataFusion: the answers must agree all the same.
    engines.check("SELECT min(x), max(x) FROM f", 0).await;
    engines.check("SELECT a.x, b.x FROM f a JOIN f b ON a.x = b.x", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_stop() {
    let engines = nulls(10, 1).await;
    for (sql, rows) in [
        ("SELECT k FROM n WHERE k > 10 LIMIT 7", 7),
        ("SELECT k FROM n WHERE k > 95 LIMIT 7", 5),
        ("SELECT k + 1 FROM n WHERE k > 10 LIMIT 3 OFFSET 2", 3),
    ] {
        assert_eq!(engines.run(sql).await.expect("it runs").rows.len(), rows, "{sql}");
    }
    engines.check("SELECT k FROM n WHERE k > 10 ORDER BY k DESC LIMIT 5", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_is_kept() {
    let engines = nulls(7, 2).await;
    let sql = "SELECT k, k * 2 FROM (SELECT * FROM n ORDER BY k LIMIT 60) WHERE k % 3 = 1";
    let frame = engines.weld.sql(sql).await.expect("valid SQL");
    let batches = frame.collect().await.expect("it runs");
    let keys: Vec<String> = batches
        .iter()
        .flat_map(|batch| common::sorted_rows(std::slice::from_ref(batch)).into_iter().map(|_| String::new()))
        .collect();
    assert_eq!(keys.len(), 20);
    let column: Vec<i64> = batches
        .iter()
        .flat_map(|batch| {
            let column = batch.column(0).as_any().downcast_ref::<arrow::array::Int64Array>().expect("BIGINT");
            column.values().to_vec()
        })
        .collect();
    assert!(column.is_sorted(), "{column:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dictionary_columns_are_read_in_place() {
    let engines = Engines::new(config(1));
    let sql = "SELECT arrow_cast('key ' || CAST(v % 5 AS VARCHAR), 'Dictionary(Int32, Utf8)') AS s, v
               FROM generate_series(1, 50) AS g(v)";
    engines.table_from("d", sql, 9).await;
    engines.check("SELECT v FROM d WHERE v > 3", 1).await;
    engines.check("SELECT sum(v), count(*) FROM d WHERE v > 3", 1).await;
}

/// Kernels of Arrow panic over dictionaries without an entry, such as those of a side of an outer join that has no rows:
/// stock DataFusion fails with most of these.
#[tokio::test]
async fn dictionaries_of_nulls_have_an_entry() {
    let engines = Engines::new(config(1));
    let tags = "SELECT v, arrow_cast(CAST(v AS VARCHAR), 'Dictionary(Int32, Utf8)') AS tag
                FROM generate_series(1, 9) AS g(v)";
    engines.table_from("tags", tags, 4).await;
    for join in
        ["LEFT JOIN none AS b ON a.v = b.v", "FULL JOIN none AS b ON a.v = b.v", "LEFT JOIN none AS b ON a.v < b.v"]
    {
        let sql = format!(
            "WITH none AS (SELECT * FROM tags WHERE v > 90)
             SELECT a.v, b.tag FROM tags AS a {join} WHERE b.tag LIKE b.tag OR a.v < 5"
        );
        let run = engines.run(&sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_eq!(run.rows.len(), 4, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_limits_are_errors() {
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(200_000, 1.0).build_arc().expect("a valid limit");
    let builder = SessionStateBuilder::new().with_config(config(1)).with_runtime_env(runtime).with_default_features();
    let context = SessionContext::new_with_state(builder.with_weld().build());
    let sql = "SELECT k, count(*) FROM (SELECT v % 90000 AS k FROM generate_series(1, 200000) AS g(v)) GROUP BY k";
    let frame = context.sql(sql).await.expect("valid SQL");
    let error = frame.collect().await.expect_err("more groups than memory").to_string();
    assert!(error.contains("Resources exhausted"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_stream_stops() {
    let context = session(config(2), true);
    let sql = "SELECT v * 2 AS w FROM generate_series(1, 100000000000) AS g(v) WHERE v % 3 = 0";
    let mut stream = context.sql(sql).await.expect("valid SQL").execute_stream().await.expect("it starts");
    let first = stream.next().await.expect("rows").expect("rows");
    assert!(first.num_rows() > 0);
    drop(stream);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn switches_leave_operators_to_datafusion() {
    let engines = nulls(10, 1).await;
    let sql = "SELECT b, sum(i) FROM n WHERE k > 3 GROUP BY b";
    assert!(engines.check(sql, 2).await.summary.declined.is_empty());
    for (setting, operator) in [("weld.filter", "FilterExec"), ("weld.aggregate", "AggregateExec")] {
        engines.weld.sql(&format!("SET {setting} = false")).await.expect("a setting");
        let run = engines.check(sql, 0).await;
        let reason = format!("{setting} is off");
        let noted = |declined: &weld_datafusion::Declined| declined.operator == operator && declined.reason == reason;
        assert!(run.summary.declined.iter().any(noted), "{:?}", run.summary.declined);
        engines.weld.sql(&format!("SET {setting} = true")).await.expect("a setting");
    }
    engines.weld.sql("SET weld.enabled = false").await.expect("a setting");
    assert_eq!(engines.check(sql, 0).await.summary.operators_compiled, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_can_run_again() {
    let engines = nulls(10, 2).await;
    let frame = engines.weld.sql("SELECT a.k, b.s FROM n a JOIN n b ON a.i = b.j").await.expect("valid SQL");
    let plan = frame.create_physical_plan().await.expect("a plan");
    let context = engines.weld.task_ctx();
    let first = datafusion::physical_plan::collect(Arc::clone(&plan), Arc::clone(&context)).await.expect("it runs");
    let plan = datafusion::physical_plan::execution_plan::reset_plan_states(plan).expect("a fresh plan");
    let second = datafusion::physical_plan::collect(plan, context).await.expect("it runs again");
    assert_eq!(common::sorted_rows(&first), common::sorted_rows(&second));
}

/// Nearly as many groups as rows: partial aggregates pass rows on ungrouped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grouping_that_does_not_pay_is_left_out() {
    let engines = Engines::new(config(2));
    let sql = "SELECT v AS k, concat('the string of row number ', CAST(v AS VARCHAR)) AS s,
                      CASE WHEN v % 7 = 0 THEN NULL ELSE v END AS n, CAST(v AS DECIMAL(12, 2)) AS d
               FROM generate_series(1, 120000) AS g(v)";
    engines.table_from("u", sql, 8192).await;
    engines.check("SELECT k, count(*), count(n), sum(n), min(n), avg(d) FROM u GROUP BY k", 2).await;
    engines.check("SELECT s, n, max(d), sum(k) FROM u WHERE k % 3 <> 0 GROUP BY s, n", 2).await;
    engines.check("SELECT count(DISTINCT s) FROM u WHERE k > 10", 2).await;
    engines
        .check("SELECT a.k, b.s, sum(b.d) FROM u a JOIN u b ON a.k = b.n WHERE a.k % 2 = 0 GROUP BY a.k, b.s", 2)
        .await;

    assert!(metrics(&engines, "SELECT s, sum(k) FROM u GROUP BY s").await.contains("ungrouped_partitions=2"));
}

/// While a table is small most keys are new, though in the end ten rows share each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grouping_that_pays_in_the_end_is_kept() {
    let engines = Engines::new(config(2));
    let sql = "SELECT v, (v * v * v * 7 + v * v * 5 + v) % 40009 AS k FROM generate_series(1, 400000) AS g(v)";
    engines.table_from("w", sql, 8192).await;
    let query = "SELECT k, sum(v), min(v), max(v), count(*) FROM w GROUP BY k";
    engines.check(query, 2).await;
    let shown = metrics(&engines, query).await;
    assert!(shown.contains("mode=Partial") && !shown.contains("ungrouped_partitions"), "{shown}");
}

/// Ten keys of eleven rows, neighbours: that few come twice looks as if many would. A full table shows that they do
/// not, also beside accumulators.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grouping_that_disappoints_is_left_out() {
    for (limit, aggregates) in
        [(64 << 20, "sum(v) AS s, min(v), max(v)"), (usize::MAX, "sum(v) AS s, count(DISTINCT v % 100), max(v)")]
    {
        let engines = Engines::limited(config(2), limit);
        engines.table_from("n", "SELECT v, v * 10 / 11 AS k FROM generate_series(1, 1200000) AS g(v)", 8192).await;
        let query = format!("SELECT count(*), sum(s) FROM (SELECT k, {aggregates} FROM n GROUP BY k)");
        engines.check(&query, 2).await;
        let shown = metrics(&engines, &query).await;
        assert!(shown.contains("ungrouped_partitions=2"), "{shown}");
    }
}

/// The rows that a join makes of one batch fill the table before anything is known of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grouping_is_left_out_where_a_batch_fills_the_table() {
    let engines = Engines::new(config(2));
    engines.table_from("m", "SELECT v AS k, v * 7 % 30000 AS n FROM generate_series(1, 600000) AS g(v)", 8192).await;
    engines.table_from("p", "SELECT v - 1 AS n FROM generate_series(1, 30000) AS g(v)", 8192).await;
    for aggregates in ["count(*), min(m.k)", "count(*), count(DISTINCT m.n)"] {
        let query = format!(
            "SELECT p.n, m.k, m.k + 1 AS a, m.k + 2 AS b, m.k + 3 AS c, {aggregates}
             FROM p JOIN m ON p.n = m.n GROUP BY p.n, m.k, a, b, c"
        );
        engines.check(&query, 1).await;
        let shown = metrics(&engines, &query).await;
        assert!(shown.contains("ungrouped_partitions="), "{shown}");
    }
}

/// The plan of a query with the metrics of a run.
async fn metrics(engines: &Engines, sql: &str) -> String {
    let frame = engines.weld.sql(sql).await.expect("valid SQL");
    let plan = frame.create_physical_plan().await.expect("a plan");
    datafusion::physical_plan::collect(Arc::clone(&plan), engines.weld.task_ctx()).await.expect("it runs");
    let shown = datafusion::physical_plan::display::DisplayableExecutionPlan::with_metrics(plan.as_ref());
    shown.indent(false).to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_are_handed_out_in_parts() {
    let engines = Engines::new(config(2));
    let sql = "SELECT v % 70000 AS k, v, concat('group number ', CAST(v % 50000 AS VARCHAR)) AS s
               FROM generate_series(1, 150000) AS g(v)";
    engines.table_from("m", sql, 8192).await;
    engines.check("SELECT k, count(*), sum(v), avg(v), max(v) FROM m GROUP BY k", 2).await;
    engines.check("SELECT s, k % 3, sum(v) FROM m GROUP BY s, k % 3", 2).await;
    engines.check("SELECT count(*) FROM (SELECT DISTINCT s FROM m)", 2).await;
    engines.check("SELECT a.s, b.v FROM m a JOIN m b ON a.v = b.v AND a.s = b.s WHERE a.k < 20000", 2).await;
}

/// DataFusion compares by IEEE 754's total order, with -0 folded: a NaN with its sign set is the smallest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nans_have_signs() {
    let engines = Engines::new(config(1));
    let sql = "SELECT x FROM (VALUES (0.0::double), (-0.0::double), ('NaN'::double), (- 'NaN'::double), (1.0::double)) AS f(x)";
    engines.table_from("f", sql, 2).await;
    engines.check("SELECT x, x < 0.5, x > 0.5, x = 'NaN'::double, x % 0 < 1, x % 0 > 1 FROM f WHERE x < 1", 1).await;
    engines.check("SELECT x FROM f WHERE x % 0 < 1", 1).await;
    let sql = "SELECT x FROM (VALUES ('Infinity'::double), ('-Infinity'::double), ('NaN'::double), (- 'NaN'::double), \
               (5.5::double), (-0.0::double), (-7::double)) AS g(x)";
    engines.table_from("g", sql, 2).await;
    let of = "x, x % 2 < 9, x % -0.5 < 9, x % 3 < 9, x % 'Infinity'::double < 9, x::real % 4::real < 9, 8 % x < 9";
    engines.check(&format!("SELECT {of} FROM g WHERE x IS NOT NULL"), 1).await;
    // IN and CASE go by the bits, = does not.
    for sql in [
        "SELECT x, x IN (0.0, 2, 3, 4, 5), x NOT IN (-0.0, 1, 3, 4, 5, 6, 7, 8, 9), x IN (0.0) FROM f WHERE x <> 7",
        "SELECT x FROM f WHERE x IN ('NaN'::double, -0.0, 3, 4, 5)",
        "SELECT x FROM f WHERE CASE x WHEN -0.0 THEN true WHEN 'NaN'::double THEN true ELSE false END",
        "SELECT CASE x WHEN 0.0 THEN 'zero' WHEN -x THEN 'minus' END FROM f WHERE x <> 7",
        "SELECT arrow_cast(x, 'Float32') IN (0.0::real, 2, 3, 4, 5) FROM f WHERE x <> 7",
    ] {
        engines.check(sql, 1).await;
    }
}

/// The source of one row has columns of other types than its schema says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_from_nowhere() {
    let engines = nulls(10, 1).await;
    engines.check("SELECT sum(i), count(k) + 1 FROM n WHERE FALSE HAVING count(k) = 0", 0).await;
    engines.check("SELECT n.k FROM n JOIN (SELECT count(k) AS c FROM n WHERE FALSE) m ON n.k = m.c + 4", 0).await;
}

/// On a large stack: DataFusion's planner, in a debug build, takes up to 25 kB a level.
#[test]
fn long_expressions() {
    let runtime = tokio::runtime::Builder::new_multi_thread().thread_stack_size(256 << 20).enable_all().build();
    let run = async {
        let engines = nulls(10, 1).await;
        for length in [99, 120] {
            let sum = vec!["i"; length].join(" + ");
            engines.check(&format!("SELECT {sum}, s FROM n WHERE k > 3"), 2).await;
            engines.check(&format!("SELECT s, sum({sum}) FROM n WHERE k > 3 GROUP BY s"), 1).await;
            let either: Vec<String> = (0..length).map(|at| format!("i * {at} = j")).collect();
            engines.check(&format!("SELECT k FROM n WHERE {}", either.join(" OR ")), 1).await;
        }
    };
    let runtime = runtime.expect("threads can be made");
    runtime.block_on(runtime.spawn(run)).expect("the checks pass");
}

/// Functions give other types than a query was planned for: `round` of a decimal has a scale of its own.
#[tokio::test]
async fn branches_of_other_types() {
    let engines = Engines::new(config(1));
    let sql = "SELECT CAST(v AS DECIMAL(15, 2)) / 4 AS d, arrow_cast(v, 'Decimal128(15,2)') AS e, v % 3 AS k
               FROM generate_series(-20, 40) AS g(v)";
    engines.table_from("t", sql, 10).await;
    for value in [
        "CASE NULL WHEN 2.25 THEN e WHEN 0 THEN e ELSE round(e, 0) END",
        "CASE k WHEN 1 THEN e ELSE round(e, 0) END",
        "CASE k WHEN 1 THEN e ELSE round(e, -1) END",
        "CASE WHEN k = 1 THEN round(e, 0) WHEN k = 0 THEN round(e, 0) + 1 END",
        "CASE WHEN k = 1 THEN round(e, 0) ELSE e END",
        "CASE k WHEN 1 THEN e END",
        "coalesce(round(e, 0), e)",
        "nullif(round(e, 0), e)",
        "greatest(round(e, 0), e)",
        "least(e, round(e, 1))",
        "round(e, 0) = e",
        "e IN (round(e, 0), 3)",
        "e BETWEEN round(e, 1) AND round(d, 0)",
        "round(e, 0) + e",
        "round(e, 0) IS DISTINCT FROM e",
    ] {
        let stock = engines.stock_rows(&format!("SELECT {value} FROM t")).await;
        let Ok(expected) = stock else { continue };
        let found = engines.run(&format!("SELECT {value} FROM t")).await.map(|run| run.rows);
        assert_eq!(found.as_ref(), Ok(&expected), "{value}");
    }
    for call in ["max(CASE k WHEN 1 THEN e ELSE round(e, 0) END)", "sum(round(e, 0))", "min(round(e, 1))"] {
        engines.check(&format!("SELECT k, {call} FROM t GROUP BY k"), 0).await;
    }
}
