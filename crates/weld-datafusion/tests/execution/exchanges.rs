//! Exchanges are taken out only where nobody relies on them.

use std::sync::Arc;

use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::ExecutionPlanProperties;
use futures::{StreamExt, TryStreamExt};

use crate::common::{Engines, Run, config};

/// Joins are partitioned, whatever the sizes.
async fn engines(partitions: usize) -> Engines {
    let config = config(partitions)
        .set_u64("datafusion.optimizer.hash_join_single_partition_threshold", 0)
        .set_u64("datafusion.optimizer.hash_join_single_partition_threshold_rows", 0);
    let engines = Engines::new(config);
    for name in ["a", "b", "c", "d"] {
        let sql = format!("SELECT v % 500 AS k, v AS {name}v, v % 7 AS g FROM generate_series(1, 3000) AS s(v)");
        engines.table_from(name, &sql, 100).await;
    }
    engines
}

const QUERIES: [&str; 12] = [
    // An InterleaveExec keeps the partitioning of both.
    "SELECT a.k, av FROM a JOIN b ON a.k = b.k WHERE bv < 600
     UNION ALL SELECT c.k, cv FROM c JOIN d ON c.k = d.k WHERE dv < 700",
    "SELECT k, count(*) FROM (SELECT a.k FROM a JOIN b ON a.k = b.k
     UNION ALL SELECT c.k FROM c JOIN d ON c.k = d.k) GROUP BY k",
    "SELECT a.k, count(*) FROM a JOIN b ON a.k = b.k GROUP BY a.k",
    "SELECT a.k, count(*) FROM a JOIN b ON a.k = b.k JOIN c ON b.k = c.k WHERE cv < 100 GROUP BY a.k",
    "SELECT x.k, n, av FROM (SELECT k, count(*) AS n FROM b GROUP BY k) x JOIN a ON x.k = a.k",
    "SELECT av, row_number() OVER (PARTITION BY a.k ORDER BY av, bv) FROM a JOIN b ON a.k = b.k WHERE bv < 100",
    "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND bv < 10 JOIN c ON a.k = c.k WHERE cv < 100",
    "SELECT * FROM (SELECT a.k, av FROM a JOIN b ON a.k = b.k WHERE bv < 50) x FULL JOIN (SELECT * FROM c WHERE cv < 50) y ON x.k = y.k",
    "SELECT a.k, av FROM a WHERE k IN (SELECT b.k FROM b JOIN c ON b.k = c.k WHERE cv < 40)
     UNION SELECT d.k, dv FROM d JOIN b ON d.k = b.k",
    "SELECT a.k, x.s FROM a JOIN (SELECT k, sum(av) OVER (PARTITION BY k) AS s FROM (SELECT b.k, av FROM a JOIN b ON a.k = b.k WHERE bv < 90)) x ON a.k = x.k WHERE av < 100",
    "SELECT count(*) FROM (SELECT k FROM a INTERSECT SELECT k FROM b) x JOIN c ON x.k = c.k",
    "SELECT av, bv FROM a JOIN b ON a.k = b.k WHERE bv < 20 ORDER BY av, bv",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_relies_on_an_exchange_keeps_it() {
    for partitions in [2, 3] {
        let engines = engines(partitions).await;
        for sql in QUERIES {
            let Run { rows, .. } = engines.check(sql, 1).await;
            assert!(!rows.is_empty(), "{sql}");
        }
    }
}

#[tokio::test]
async fn every_node_gets_what_it_requires() {
    let engines = engines(3).await;
    for sql in QUERIES {
        let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
        let state = engines.weld.state();
        SanityCheckPlan::new().optimize(plan, state.config_options()).unwrap_or_else(|error| panic!("{sql}\n{error}"));
    }
}

/// How many rows partition 0 of a query gives: after partition 1 has given its first rows, or alone.
async fn rows_of_first(engines: &Engines, sql: &str, is_alone: bool) -> usize {
    let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    assert_eq!(plan.output_partitioning().partition_count(), 2, "{sql}");
    let context = engines.weld.task_ctx();
    let mut other = plan.execute(1, Arc::clone(&context)).expect("a stream");
    if !is_alone {
        other.next().await.expect("rows").expect("it runs");
    }
    let batches: Vec<_> = plan.execute(0, context).expect("a stream").try_collect().await.expect("it runs");
    batches.iter().map(|batch| batch.num_rows()).sum()
}

#[tokio::test]
async fn a_partition_takes_rows_of_another_that_is_read() {
    if std::env::var_os("WELD_TEST_ENCODED").is_some() {
        // Partitions of such tables share blocks: each gives all rows when it is read alone.
        return;
    }
    let engines = engines(2).await;
    let sql = "SELECT av, bv FROM a JOIN b ON a.k = b.k WHERE bv < 20";
    assert!(rows_of_first(&engines, sql, false).await > rows_of_first(&engines, sql, true).await);
}
