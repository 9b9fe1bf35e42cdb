//! Equal subplans executed once, beside compiled pipelines and beside DataFusion's operators.

use std::sync::Arc;

use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use weld_datafusion::uncompiled;

use crate::common::{Engines, config, sorted_rows};

async fn with_items(engines: &Engines) {
    let items = "SELECT CASE WHEN v % 90 = 0 THEN NULL ELSE v * 7 % 1000 END AS i_order, v % 7 AS i_line, v AS i_key,
                 concat('item ', v % 50) AS i_tag FROM generate_series(1, 20000) AS g(v)";
    engines.table_from("items", items, 1000).await;
}

async fn plan(engines: &Engines, sql: &str) -> Arc<dyn ExecutionPlan> {
    engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan")
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

const WITH: &str = "WITH c AS (SELECT i_order, sum(i_key) AS n, max(i_tag) AS t FROM items GROUP BY i_order)";

const QUERIES: [&str; 7] = [
    "SELECT a.i_order, a.n, a.t, b.n, b.t FROM c a JOIN c b ON a.i_order = b.i_order + 1",
    "SELECT a.i_order, a.n, a.t, b.n, b.t FROM c a LEFT JOIN c b ON a.n = b.n AND a.t < b.t",
    "SELECT i_order, n, t FROM c WHERE n > (SELECT avg(n) FROM c WHERE t IS NOT NULL)",
    "SELECT i_order, n, t FROM c UNION ALL SELECT i_order, n + 1, t FROM c",
    "SELECT t, n, count(*) FROM (SELECT n, t FROM c UNION ALL SELECT n, t FROM c) GROUP BY t, n",
    "SELECT n, t FROM c WHERE n IN (SELECT n + 20 FROM c WHERE t > '')",
    "SELECT i_order, n, t, (SELECT max(n) FROM c), (SELECT min(t) FROM c) FROM c",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_rows_whoever_runs_the_operators() {
    for settings in [
        vec![],
        vec!["weld.common_subplans = false"],
        vec!["weld.plans = false"],
        vec!["weld.aggregate = false"],
        vec!["weld.join = false", "weld.key_filters = false"],
        vec!["weld.compile_min_rows = 1000000000"],
        vec!["weld.drop_exchanges = false"],
        vec!["weld.verify = true"],
    ] {
        for partitions in [1, 3] {
            let engines = Engines::new(config(partitions));
            with_items(&engines).await;
            for setting in &settings {
                engines.weld.sql(&format!("SET {setting}")).await.expect("a setting");
            }
            let is_off = settings.iter().any(|setting| setting.contains("plans = false"));
            let mut found = 0;
            for sql in QUERIES.map(|sql| format!("{WITH} {sql}")) {
                let run = engines.run(&sql).await.unwrap_or_else(|error| panic!("{settings:?} {sql}\n{error}"));
                assert_eq!(run.rows, engines.stock_rows(&sql).await.expect("it runs"), "{settings:?} {sql}");
                found += usize::from(shown(&plan(&engines, &sql).await).contains("CommonSubplanScanExec"));
            }
            assert_eq!(found == 0, is_off, "{settings:?}");
        }
    }
}

/// Columns that DataFusion makes up get other names, also where an operator that does not look at one hands it on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn common_expressions_of_common_expressions() {
    let engines = Engines::new(config(2));
    with_items(&engines).await;
    let few = "FILTER (WHERE sqrt(i_key) < sqrt(i_key) * 2.0 - i_line)";
    let sql = format!(
        "SELECT i_line, sum(2.5) OVER (PARTITION BY i_line ORDER BY DATE '1970-01-01'
                                      RANGE BETWEEN INTERVAL '1 month' PRECEDING AND CURRENT ROW) AS a,
                sum(i_key) {few} OVER (PARTITION BY i_line ORDER BY i_key) AS b,
                count(*) {few} OVER (PARTITION BY i_line) AS c FROM items WHERE i_key < 300"
    );
    engines.check(&sql, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_that_start_again_or_are_sent_elsewhere() {
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        with_items(&engines).await;
        for sql in &QUERIES[..3] {
            let sql = format!("{WITH} {sql}");
            let expected = engines.stock_rows(&sql).await.expect("it runs");
            let compiled = plan(&engines, &sql).await;
            let stock = uncompiled(&compiled).expect("a plan");
            assert!(!shown(&stock).contains("CommonSubplan"), "{}", shown(&stock));
            for plan in [Arc::clone(&compiled), compiled, stock] {
                // Results of scalar subqueries belong to the plan, and go when it starts again.
                let plan = reset_plan_states(plan).expect("a plan");
                let rows = collect(Arc::clone(&plan), engines.weld.task_ctx()).await.expect("it runs");
                assert_eq!(sorted_rows(&rows), expected, "{}", shown(&plan));
            }
        }
    }
}

/// A pool that lets queries through now and then: they fail, or give the right rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn little_memory() {
    for kilobytes in [200, 600, 1200, 2500, 5000] {
        let engines = Engines::limited(config(2), kilobytes << 10);
        with_items(&engines).await;
        let whole = Engines::new(config(2));
        with_items(&whole).await;
        for sql in QUERIES.map(|sql| format!("{WITH} {sql}")) {
            match engines.run(&sql).await {
                Ok(run) => assert_eq!(run.rows, whole.stock_rows(&sql).await.expect("it runs"), "{sql}"),
                Err(error) => assert!(error.contains("Resources exhausted"), "{sql}\n{error}"),
            }
        }
    }
}
