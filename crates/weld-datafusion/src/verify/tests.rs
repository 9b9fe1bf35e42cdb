//! A difference is found, and what is no difference is not.

use arrow::array::Int64Array;
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::col;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::*;
use crate::WeldSessionExt;

fn session(verify: bool) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2).with_information_schema(true);
    let state = SessionStateBuilder::new().with_config(config).with_default_features().with_weld().build();
    let context = SessionContext::new_with_state(state);
    let values: Vec<i64> = (0..100).collect();
    for (name, values) in [("t", values.clone()), ("other", values.iter().map(|value| value + value / 99).collect())] {
        let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values)) as _)]).unwrap();
        context.register_batch(name, batch).unwrap();
    }
    for (setting, value) in [("weld.compile_min_rows", "0".to_owned()), ("weld.verify", verify.to_string())] {
        context.state_ref().write().config_mut().options_mut().set(setting, &value).unwrap();
    }
    context
}

async fn plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

async fn counted(context: &SessionContext, sql: &str, metric: &str) -> usize {
    let plan = plan(context, sql).await;
    collect_partitioned(Arc::clone(&plan), context.task_ctx()).await.unwrap_or_default();
    let mut count = 0;
    visit(&plan, &mut |node| {
        if node.name() == VerifyExec::NAME {
            count += node.metrics().and_then(|m| m.sum_by_name(metric)).map_or(0, |value| value.as_usize());
        }
    });
    count
}

fn visit(plan: &Arc<dyn ExecutionPlan>, f: &mut impl FnMut(&Arc<dyn ExecutionPlan>)) {
    f(plan);
    plan.children().into_iter().for_each(|child| visit(child, f));
}

#[tokio::test]
async fn equal_results_are_counted() {
    let context = session(true);
    assert_eq!(counted(&context, "select a + 1 from t where a > 9", "verified_rows").await, 90);
    assert_eq!(counted(&context, "select a % 7, count(*) from t group by 1", "verified_rows").await, 7);
    let subquery = "select a from t where a > (select avg(a) from t where a > 5)";
    assert_eq!(counted(&context, subquery, "verified_rows").await, 47);
    let join = "select l.a from t l join other r on l.a = r.a where r.a > 90";
    assert_eq!(counted(&context, join, "verified_rows").await, 8);
    assert_eq!(counted(&session(false), "select a + 1 from t where a > 9", "verified_rows").await, 0);
}

#[tokio::test]
async fn a_plan_is_run_again() {
    let context = session(true);
    let plan = plan(&context, "select l.a from t l join other r on l.a = r.a where r.a > 90").await;
    for _ in 0..2 {
        let rows = collect_partitioned(Arc::clone(&plan), context.task_ctx()).await.unwrap();
        assert_eq!(rows.iter().flatten().map(RecordBatch::num_rows).sum::<usize>(), 8);
    }
}

/// A source that drops rows by the filter of a join reads them all when it runs apart from the join.
#[tokio::test]
async fn stock_may_fail_in_rows_that_a_filter_drops() {
    let context = session(true);
    let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from_iter(0..100)) as _)]).unwrap();
    let table = crate::WeldTable::with_zone_rows(batch.schema(), vec![batch], 10).unwrap();
    context.register_table("zones", Arc::new(table)).unwrap();
    let sql =
        "select z.v from (select a, 10 / (a - 5) as v from zones) z join (select a from t where a = 50) d on z.a = d.a";
    assert_eq!(counted(&context, sql, "unverified").await, 1);
    let rows = context.sql(sql).await.unwrap().collect().await.unwrap();
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    // No filter keeps this row from either.
    assert!(context.sql("select 10 / (a - 5) from zones").await.unwrap().collect().await.is_err());
}

/// The rows of one plan against those of another.
async fn against(weld: &str, stock: &str) -> Result<(), String> {
    let context = session(false);
    context.state_ref().write().config_mut().options_mut().set("weld.enabled", "false").unwrap();
    let (weld, stock) = (plan(&context, weld).await, plan(&context, stock).await);
    let verified = beside(weld, &stock).unwrap();
    let rows = collect_partitioned(verified, context.task_ctx()).await;
    rows.map(drop).map_err(|error| error.strip_backtrace())
}

#[tokio::test]
async fn differences_fail() {
    let error = against("select a from other", "select a from t").await.unwrap_err();
    assert!(
        error.contains("weld.verify: Weld's result is not stock DataFusion's: (99) expected, (100) found"),
        "{error}"
    );
    let error = against("select a from t where a <> 50", "select a from t").await.unwrap_err();
    assert!(error.contains("100 rows expected, 99 found"), "{error}");
    let error = against("select a from t order by a desc", "select a from t order by a").await.unwrap_err();
    assert!(error.contains("out of the declared order"), "{error}");
    let error = against("select 1 / (a - 50) as x from t", "select 1 / (a + 50) as x from t").await.unwrap_err();
    assert!(error.contains("Weld fails where stock DataFusion does not: Arrow error: Divide by zero"), "{error}");
    let error = against("select 1 / (a + 50) as x from t", "select 1 / (a - 50) as x from t").await.unwrap_err();
    assert!(error.contains("stock DataFusion fails where Weld does not"), "{error}");
    let error = against("select a from t order by a limit 4", "select a + 1 as a from t order by a limit 4").await;
    assert!(error.unwrap_err().contains("row 0 has the key"), "keys below a limit are no choice");
}

/// DataFusion takes the groups of a ROLLUP over sorted rows for sorted.
#[tokio::test]
async fn an_order_that_stock_does_not_keep_is_not_asked_for() {
    let context = session(true);
    let (values, order) = (vec![3, 2, 1], vec![vec![col("a").sort(false, true)]]);
    let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(values)) as _)]).unwrap();
    let sorted = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap().with_sort_order(order);
    context.register_table("sorted", Arc::new(sorted)).unwrap();
    context.state_ref().write().config_mut().options_mut().set("datafusion.execution.target_partitions", "1").unwrap();
    let sql = "select a, a % 2, count(*) from sorted where a > 0 group by rollup (a, a % 2)";
    assert_eq!(counted(&context, sql, "differences").await, 0);
    assert_eq!(counted(&context, sql, "verified_rows").await, 7);
}

#[tokio::test]
async fn what_the_query_leaves_open_may_differ() {
    against("select a from t where a > 5 limit 3", "select a from t limit 3").await.unwrap();
    against("select a, a % 2 from t order by 2 limit 3", "select a + 2 as a, a % 2 from t order by 2 limit 3")
        .await
        .unwrap();
    let context = session(true);
    assert_eq!(
        counted(&context, "select a % 2, count(*) from t group by 1 having random() < 2", "unverified").await,
        2
    );
}

/// A window function beside one that gives something else, over 100 rows: what is found of it.
async fn windows(weld: &str, stock: &str) -> Result<(), String> {
    against(&format!("select a, {weld} as w from t"), &format!("select a, {stock} as w from t")).await
}

#[tokio::test]
async fn windows_are_compared_where_their_rows_are_in_order() {
    for (weld, stock) in [
        ("row_number() over (order by a)", "row_number() over (order by -a)"),
        ("lag(a) over (partition by a % 7 order by a)", "lag(a, 2) over (partition by a % 7 order by a)"),
        ("sum(a) over (order by a)", "sum(a) over (order by a) + a / 99"),
        ("sum(a) over (partition by a % 7)", "sum(a) over (partition by a % 7) + a / 99"),
        ("rank() over (order by a % 7)", "dense_rank() over (order by a % 7)"),
        ("count(*) over (order by a % 7)", "rank() over (order by a % 7)::bigint"),
        ("avg(a) over (order by a rows 2 preceding)", "avg(a) over (order by a rows 3 preceding)"),
        ("array_agg(a) over (order by a rows 1 preceding)", "array_agg(a) over (order by a desc rows 1 preceding)"),
    ] {
        let error = windows(weld, stock).await.expect_err(weld);
        assert!(error.contains("weld.verify: Weld's result is not stock DataFusion's"), "{error}");
    }
    let numbered = |by: &str, keep: &str| {
        format!(
            "select a from (select a, row_number() over (partition by a % 7 order by {by}) n from t) where n {keep}"
        )
    };
    let error = against(&numbered("a", "= 1"), &numbered("a", "= 2")).await.unwrap_err();
    assert!(error.contains("15 rows expected") || error.contains("expected, ("), "{error}");
    let (weld, stock) = ("select sum(n) from (", "select sum(n * n) from (");
    let rows = "select row_number() over (order by a) n from t)";
    against(&format!("{weld}{rows}"), &format!("{stock}{rows}").replace("n * n", "n + 1")).await.unwrap_err();
}

#[tokio::test]
async fn ties_of_windows_may_differ() {
    for (weld, stock) in [
        ("row_number() over (order by a % 7)", "row_number() over (order by a % 7, a desc)"),
        ("lag(a) over (order by a % 7)", "lag(a) over (order by a % 7, -a)"),
        ("sum(a) over (order by a % 7 rows 2 preceding)", "sum(a) over (order by a % 7, -a rows 2 preceding)"),
        ("first_value(a) over (partition by a % 7)", "first_value(a) over (partition by a % 7 order by -a)"),
    ] {
        // The plan that is taken for stock DataFusion's leaves the choice.
        windows(stock, weld).await.expect(weld);
    }
    // The columns beside them are compared.
    let select = |shown: &str| format!("select {shown}, row_number() over (order by a % 7) as n from t");
    let error = against(&select("a / 50 as x"), &select("a / 51 as x")).await.unwrap_err();
    assert!(error.contains("Weld's result is not stock DataFusion's"), "{error}");
    let error = against(&select("sum(a) over (order by -a) as x"), &select("sum(a) over (order by a) as x")).await;
    assert!(error.unwrap_err().contains("Weld's result is not stock DataFusion's"));
    // Equal rows may change places.
    let twice = "select a / 2 as b, row_number() over (order by a / 2) as n from t";
    let error = against(&twice.replace("as n", "+ 1 as n"), twice).await.unwrap_err();
    assert!(error.contains("Weld's result is not stock DataFusion's"), "{error}");
}

#[tokio::test]
async fn aggregates_in_an_order_are_compared() {
    let by = |key: &str| format!("select a % 7 as k, array_agg(a order by {key}) as l from t group by 1");
    against(&by("a"), &by("a")).await.unwrap();
    let error = against(&by("a desc"), &by("a")).await.unwrap_err();
    assert!(error.contains("Weld's result is not stock DataFusion's"), "{error}");
    against(&by("a % 7"), &by("a % 7, 1")).await.unwrap();
}

#[tokio::test]
async fn digests_and_correlations_may_differ_but_not_what_is_beside_them() {
    for call in ["approx_median({x})", "corr({x}, a % 11)", "regr_slope({x}, a % 11)"] {
        let of = |x: &str, sum: &str| {
            format!("select a % 7 as k, {} as m, sum({sum}) as s from t group by 1", call.replace("{x}", x))
        };
        let (one, other) = ("a % 5", "a % 5 * 2 + a % 3");
        against(&of(one, "a"), &of(other, "a")).await.unwrap();
        let error = against(&of(one, "a"), &of(one, "a + 1")).await.unwrap_err();
        assert!(error.contains("Weld's result is not stock DataFusion's"), "{error}");
    }
}

#[tokio::test]
async fn writing_happens_once() {
    let context = session(true);
    plan(&context, "create table copy as select a from t where a < 3").await;
    let insert = "insert into copy select a from t where a > 95";
    assert_eq!(counted(&context, insert, "verified_rows").await, 4);
    let rows = context.sql("select * from copy").await.unwrap().count().await.unwrap();
    assert_eq!(rows, 7);
}

#[tokio::test]
async fn explain_shows_it() {
    let context = session(true);
    let batches = context.sql("explain select a + 1 from t").await.unwrap().collect().await.unwrap();
    let text = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    assert!(text.contains("WeldVerify: compares with stock DataFusion"), "{text}");
}
