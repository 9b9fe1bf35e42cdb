//! Pipelines that do not compile run on the operators that they replaced, whichever of a plan's they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use weld_datafusion::{WeldOptions, WeldRule};

use crate::common::{Engines, config};

const QUERIES: [&str; 9] = [
    "SELECT k, s FROM t WHERE k > 10",
    "SELECT k * 2 AS x FROM t WHERE g > 2 LIMIT 1000",
    "SELECT g, count(*), sum(k) FROM t GROUP BY g",
    "SELECT count(*), sum(k) FROM t WHERE g < 5",
    "SELECT t.k, u.s FROM t JOIN u ON t.k = u.k",
    "SELECT t.k FROM t WHERE t.k IN (SELECT k FROM u WHERE g = 1) AND t.k NOT IN (SELECT k FROM v WHERE k IS NOT NULL)",
    "SELECT t.g, count(*) FROM t JOIN u ON t.k = u.k JOIN v ON u.g = v.g WHERE v.k < 20 GROUP BY t.g",
    "SELECT x.n, u.s FROM (SELECT g, count(*) AS n FROM t GROUP BY g) x JOIN u ON x.g = u.g JOIN v ON v.k = u.k",
    "SELECT g, count(DISTINCT k) FROM t WHERE k > (SELECT min(k) FROM u) GROUP BY g HAVING count(DISTINCT k) > 2
     UNION ALL SELECT u.g, v.k FROM u JOIN v ON u.k = v.k",
];

/// A session over the same tables whose compiler refuses the `refused`-th program that it has not seen.
async fn refusing(engines: &Engines, refused: usize) -> (SessionContext, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let rule = WeldRule::refusing(move |_| counter.fetch_add(1, Ordering::Relaxed) == refused);
    (session(engines, rule).await, asked)
}

async fn session(engines: &Engines, rule: WeldRule) -> SessionContext {
    let mut config = engines.stock.copied_config();
    let mut options = WeldOptions::default();
    options.compile_min_rows = 0;
    config.options_mut().extensions.insert(options);
    let state = SessionStateBuilder::new().with_config(config).with_default_features();
    let context = SessionContext::new_with_state(state.with_physical_optimizer_rule(Arc::new(rule)).build());
    for name in ["t", "u", "v"] {
        let table = engines.stock.table_provider(name).await.expect("a known table");
        context.register_table(name, table).expect("a new name");
    }
    context
}

/// A panic of the compiler is a failure to compile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_of_the_compiler_costs_no_query() {
    let engines = Engines::new(config(2));
    for name in ["t", "u", "v"] {
        let sql = "SELECT v AS k, v % 7 AS g, CAST(v AS VARCHAR) AS s FROM generate_series(1, 90) AS x(v)";
        engines.table_from(name, sql, 20).await;
    }
    for sql in QUERIES {
        let context = session(&engines, WeldRule::refusing(|_| panic!("the compiler panics"))).await;
        let run = Engines::run_on(&context, sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        assert_eq!(run.rows, engines.stock_rows(sql).await.expect("it runs"), "{sql}");
        assert!(run.fallbacks > 0, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_pipeline_can_fail_to_compile() {
    let mut fallbacks = 0;
    for (partitions, partitioned) in [(1, false), (3, false), (3, true)] {
        let threshold = if partitioned { 0 } else { 1_000_000 };
        let config = config(partitions)
            .set_u64("datafusion.optimizer.hash_join_single_partition_threshold", threshold)
            .set_u64("datafusion.optimizer.hash_join_single_partition_threshold_rows", threshold);
        let engines = Engines::new(config);
        for name in ["t", "u", "v"] {
            let sql = format!(
                "SELECT v AS k, v % 7 AS g, concat('{name} has ', CAST(v AS VARCHAR)) AS s FROM generate_series(1, 90) AS x(v)"
            );
            engines.table_from(name, &sql, 20).await;
        }
        for sql in QUERIES {
            let expected = engines.stock_rows(sql).await.expect("it runs");
            for refused in 0.. {
                let (context, asked) = refusing(&engines, refused).await;
                let run =
                    Engines::run_on(&context, sql).await.unwrap_or_else(|error| panic!("{refused}: {sql}\n{error}"));
                assert_eq!(run.rows, expected, "without program {refused}: {sql}");
                fallbacks += run.fallbacks;
                if asked.load(Ordering::Relaxed) <= refused {
                    break;
                }
                assert!(run.fallbacks > 0, "program {refused}: {sql}");
            }
        }
    }
    assert!(fallbacks > 50, "{fallbacks} fallbacks");
}
