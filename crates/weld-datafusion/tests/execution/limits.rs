//! LIMIT where an operator stands above or below it, and how much of a source is read for it.

use std::sync::atomic::Ordering;

use datafusion::physical_plan::displayable;

use crate::common::{Engines, config};
use crate::sources::{End, numbers, register};

async fn engines(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions));
    engines.table_from("t", "SELECT v AS k, v % 2 AS m FROM generate_series(1, 7) AS g(v)", 3).await;
    engines.table_from("u", "SELECT v AS k, v * 2 AS w FROM generate_series(1, 20000) AS g(v)", 5000).await;
    engines
}

/// Which rows a limit takes is not said, how many it takes is: the queries count.
const QUERIES: [&str; 14] = [
    "SELECT count(*) FROM (SELECT k FROM t WHERE m = 1 LIMIT 3) s JOIN u ON s.k = u.k",
    "SELECT count(*) FROM (SELECT k + 1 AS k FROM t WHERE m = 1 LIMIT 3) s JOIN u ON s.k = u.k",
    "SELECT count(*) FROM u WHERE k IN (SELECT k FROM t WHERE m = 1 LIMIT 2)",
    "SELECT count(*) FROM u WHERE k NOT IN (SELECT k FROM t WHERE m = 1 AND k IS NOT NULL LIMIT 2)",
    "SELECT count(*) FROM u WHERE NOT EXISTS (SELECT 1 FROM (SELECT k FROM t WHERE m = 1 LIMIT 2) s WHERE s.k = u.k)",
    "SELECT count(*) FROM (SELECT k FROM t WHERE m = 1 LIMIT 3 OFFSET 2) s JOIN u ON s.k = u.k",
    "SELECT count(*) FROM (SELECT k FROM t WHERE m = 1 OFFSET 1) s JOIN u ON s.k = u.k",
    "SELECT count(*) FROM t JOIN (SELECT k FROM u WHERE w > 4 LIMIT 3) s ON s.k + t.k > 0 OR s.k = t.k",
    "SELECT count(*), sum(c) FROM (SELECT count(*) AS c FROM t JOIN u ON t.k = u.k GROUP BY t.k LIMIT 4)",
    "SELECT count(*) FROM (SELECT w FROM t JOIN u ON t.k = u.k LIMIT 4) s",
    "SELECT count(*) FROM (SELECT k * 2 FROM (SELECT k FROM u WHERE w > 100 LIMIT 30))",
    "SELECT count(*) FROM (SELECT k FROM (SELECT k FROM u WHERE w > 100 LIMIT 30) WHERE k > 0 LIMIT 20)",
    "SELECT count(*) FROM (SELECT DISTINCT m FROM (SELECT m FROM t WHERE k > 0 LIMIT 1) UNION ALL SELECT w FROM u LIMIT 9)",
    "SELECT count(*), max(n) FROM (SELECT k, count(*) AS n FROM (SELECT k FROM u WHERE w > 4 LIMIT 10) GROUP BY k)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_count() {
    for partitions in [1, 3] {
        for sql in QUERIES {
            engines(partitions).await.check(sql, 0).await;
        }
    }
}

#[tokio::test]
async fn a_limit_below_a_projection_is_compiled() {
    let engines = engines(1).await;
    let run = engines.check("SELECT k * 3 AS x FROM u WHERE w > 100 LIMIT 5", 2).await;
    assert_eq!(run.rows.len(), 5);
    let plan = engines.weld.sql("SELECT k * 3 AS x FROM u WHERE w > 100 LIMIT 5").await.expect("valid SQL");
    let plan = plan.create_physical_plan().await.expect("a plan");
    let shown = displayable(plan.as_ref()).indent(false).to_string();
    assert!(shown.contains("fetch=5"), "{shown}");
}

/// A limit asks the source for no more batches than without the rule, so what fails behind them is not met.
#[tokio::test]
async fn a_limit_reads_no_further_than_stock() {
    let queries = [
        "SELECT k FROM s WHERE k >= 0 LIMIT 5",
        "SELECT k + 1 FROM s LIMIT 5",
        "SELECT k + 1 FROM s WHERE k >= 0 LIMIT 150",
        "SELECT k + 1 FROM s OFFSET 20 LIMIT 10",
        "SELECT x.k, y.k FROM (VALUES (0), (1), (2)) AS x(k) JOIN s AS y ON x.k = y.k LIMIT 2",
    ];
    for sql in queries {
        let engines = Engines::new(config(1).with_batch_size(100));
        let batches: Vec<_> = (0..4).map(|index| numbers(100 * index, 100)).collect();
        let stock = register(&engines.stock, "s", batches.clone(), End::Fails, false);
        let weld = register(&engines.weld, "s", batches, End::Fails, false);
        let expected = engines.stock_rows(sql).await;
        let run = engines.run(sql).await.map(|run| run.rows);
        assert_eq!(run, expected, "{sql}");
        let (stock, weld) = (stock.load(Ordering::Relaxed), weld.load(Ordering::Relaxed));
        assert!(weld <= stock, "{sql}: {weld} batches read, stock {stock}");
    }
}
