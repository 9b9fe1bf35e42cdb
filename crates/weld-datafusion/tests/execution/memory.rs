//! Memory limits: what DataFusion can run by spilling mostly still runs, and errors are of its class.

use crate::common::{Engines, config};

/// Every limit from far too little to plenty: the answer or the lack of memory, and no lack where there is plenty.
async fn sweep(partitions: usize, sql: &str, limits: &[usize]) {
    let mut spilled = 0;
    for limit in limits {
        let engines = Engines::limited(config(partitions), limit << 10);
        engines
            .table_from("t", "SELECT v AS k, v % 1000 AS g, concat('a rather long text ', CAST(v AS VARCHAR)) AS s FROM generate_series(1, 60000) AS x(v)", 4096)
            .await;
        let stock = engines.stock_rows(sql).await;
        match (stock, engines.run(sql).await) {
            (Ok(stock), Ok(weld)) => {
                spilled += weld.handovers;
                assert_eq!(weld.rows, stock, "{sql} with {limit} KiB");
            }
            (Err(_), Ok(_)) => {}
            // With so little DataFusion's own operators come through or not by who is first; and a partial aggregate that has
            // given rows out cannot hand over any more (README, Limits).
            (Ok(_), Err(error)) if *limit < 60_000 => assert!(error.contains("Resources exhausted"), "{sql}: {error}"),
            (Ok(_), Err(error)) => panic!("{sql} with {limit} KiB: {error}"),
            (Err(_), Err(error)) => {
                assert!(
                    error.contains("Resources exhausted") || error.contains("memory"),
                    "{sql} with {limit} KiB: {error}"
                );
            }
        }
    }
    println!("{sql}: {spilled} handovers");
}

const LIMITS: [usize; 9] = [64, 400, 1000, 2000, 4000, 6000, 10_000, 20_000, 60_000];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_go_on_where_stock_spills() {
    for partitions in [1, 2] {
        sweep(partitions, "SELECT k, count(*), sum(g) FROM t GROUP BY k", &LIMITS).await;
        sweep(partitions, "SELECT s, max(k) FROM t GROUP BY s", &LIMITS).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_groups_need_little() {
    sweep(2, "SELECT g, count(*), min(s) FROM t GROUP BY g", &LIMITS).await;
    sweep(2, "SELECT g, count(DISTINCT s) FROM t GROUP BY g", &LIMITS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_fail_as_stock_does() {
    sweep(2, "SELECT count(*), sum(a.g) FROM t a JOIN t b ON a.k = b.k", &LIMITS).await;
    sweep(1, "SELECT a.s, b.g FROM t a JOIN t b ON a.k = b.k WHERE a.g < 10", &LIMITS).await;
}
