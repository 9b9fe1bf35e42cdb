//! Rows that are none of the first of their window partition are dropped before they are sorted.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};

use crate::common::{Engines, config, executed};
use crate::faults::all_is_given_back;

async fn table(engines: &Engines) {
    let sql = "SELECT v, v % 7 AS g, CASE WHEN v % 11 = 0 THEN NULL ELSE concat('group ', CAST(v % 13 AS VARCHAR)) END AS s,
                      CASE WHEN v % 5 = 0 THEN NULL ELSE v * 37 % 101 END AS x,
                      CASE v % 9 WHEN 0 THEN CAST('NaN' AS DOUBLE) WHEN 1 THEN -0.0 WHEN 2 THEN 0.0 ELSE CAST(v * 7 % 83 AS DOUBLE) END AS f,
                      concat('the same first bytes of every text ', CAST(v * 31 % 97 AS VARCHAR)) AS t,
                      CAST(v * 17 % 59 AS DECIMAL(30, 2)) AS d, v % 2 = 0 AS b,
                      DATE '1999-12-31' + CAST(v % 17 AS INT) AS day
               FROM generate_series(1, 3000) AS t(v)";
    engines.table_from("t", sql, 100).await;
}

/// How many sorts have a limit below them, and the sum of a metric of these.
async fn limits(engines: &Engines, sql: &str, metric: &str) -> (usize, usize) {
    // It may be refused memory.
    let (plan, _) = executed(&engines.weld, sql).await.expect("a plan");
    let (mut count, mut sum) = (0, 0);
    let visited = plan.apply(|node| {
        if node.name() == "WindowGroupLimitExec" {
            let metrics = node.metrics().expect("metrics");
            count += 1;
            sum += metrics.sum_by_name(metric).map_or(0, |value| value.as_usize());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.expect("a visit");
    (count, sum)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_of_window_partitions_are_those_of_all_rows() {
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        table(&engines).await;
        for (number, over, bound) in [
            ("row_number()", "PARTITION BY g ORDER BY v DESC", "n = 1"),
            ("row_number()", "PARTITION BY s ORDER BY x, v", "n <= 3"),
            ("row_number()", "PARTITION BY s, b ORDER BY x DESC NULLS LAST, v", "2 >= n AND v > 10"),
            ("row_number()", "PARTITION BY s, b ORDER BY x DESC NULLS LAST, v", "n BETWEEN 1 AND 2 AND s IS NOT NULL"),
            ("row_number()", "ORDER BY x, v", "n < 20"),
            ("rank()", "PARTITION BY g ORDER BY x NULLS FIRST", "n <= 4"),
            ("rank()", "PARTITION BY g ORDER BY f", "n < 30"),
            ("rank()", "PARTITION BY g ORDER BY f DESC", "n = 2"),
            ("rank()", "PARTITION BY day ORDER BY t", "n <= 3"),
            ("rank()", "PARTITION BY d ORDER BY b, t DESC", "n <= 3"),
            ("rank()", "PARTITION BY g % 3 ORDER BY x + 1", "n <= 3"),
            ("rank()", "ORDER BY d DESC", "n <= 60"),
            ("dense_rank()", "PARTITION BY g ORDER BY x", "n <= 4"),
            ("dense_rank()", "PARTITION BY s ORDER BY f DESC", "n < 3"),
            ("dense_rank()", "PARTITION BY b ORDER BY t", "n = 5"),
        ] {
            let sql = format!("SELECT * FROM (SELECT *, {number} OVER ({over}) AS n FROM t) WHERE {bound}");
            engines.check(&sql, 0).await;
            let (count, dropped) = limits(&engines, &sql, "dropped_rows").await;
            assert_eq!(count, 1, "{sql}");
            // Texts whose first bytes are the same tie.
            assert!(dropped > 500 || over.ends_with("BY t"), "{sql}: {dropped}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_something_else_counts_are_kept() {
    let engines = Engines::new(config(2));
    table(&engines).await;
    for sql in [
        // Other functions of the same rows, numbers that say nothing of rows, no order, no bound.
        "SELECT * FROM (SELECT v, row_number() OVER w AS n, sum(x) OVER w AS m FROM t WINDOW w AS (PARTITION BY g ORDER BY v)) WHERE n = 1",
        "SELECT * FROM (SELECT v, ntile(5) OVER (PARTITION BY g ORDER BY v) AS n FROM t) WHERE n = 1",
        "SELECT g, n FROM (SELECT g, row_number() OVER (PARTITION BY g) AS n FROM t) WHERE n = 1",
        "SELECT * FROM (SELECT v, row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t) WHERE n >= 400",
        "SELECT * FROM (SELECT v, row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t) WHERE n = 1 OR v = 7",
        "SELECT * FROM (SELECT v, row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t) WHERE n <= 100000",
        // Groups of floats: zeros of both signs are one window partition or two, as they are written.
        "SELECT * FROM (SELECT v, row_number() OVER (PARTITION BY f ORDER BY v) AS n FROM t) WHERE n = 1",
    ] {
        engines.check(sql, 0).await;
        assert_eq!(limits(&engines, sql, "dropped_rows").await.0, 0, "{sql}");
    }
    // Numbers in another order see what is left of all rows only where they come after.
    let sql = "SELECT * FROM (SELECT v, row_number() OVER (PARTITION BY g ORDER BY v) AS n,
               rank() OVER (PARTITION BY g ORDER BY x DESC) AS m FROM t)";
    for bound in ["n = 1", "m <= 2", "n <= 20 AND m <= 20"] {
        engines.check(&format!("{sql} WHERE {bound}"), 0).await;
    }
    // What fails for a row fails though the row is none of the first.
    let sql = "SELECT v, n FROM (SELECT v, n, 10 / (v - 3000) AS q FROM
               (SELECT v, row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t)) WHERE q < 5 AND n = 1";
    engines.check_error(sql, "Divide by zero").await;
    let sql = "SELECT * FROM (SELECT v, row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t) WHERE n = 1";
    for setting in ["weld.enabled", "weld.plans", "weld.window_group_limits"] {
        engines.weld.sql(&format!("SET {setting} = false")).await.expect("a setting");
        assert_eq!(limits(&engines, sql, "dropped_rows").await.0, 0, "{setting}");
        engines.weld.sql(&format!("SET {setting} = true")).await.expect("a setting");
    }
}

/// Rows are given as they come from where memory is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_memory_all_rows_go_on() {
    let sql = "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY v / 2 ORDER BY x, v) AS n FROM t) WHERE n = 1";
    let (mut refused, mut answered) = (0, 0);
    for bytes in [1 << 16, 1 << 20, 1 << 22, 6 << 20, 1 << 24, 1 << 28] {
        let mut config = config(2).with_batch_size(64);
        config.options_mut().execution.sort_spill_reservation_bytes = 10_000;
        let engines = Engines::limited(config, bytes);
        table(&engines).await;
        if let Ok(expected) = engines.stock_rows(sql).await {
            assert!(engines.comes_through_as_stock(sql, &expected).await, "{bytes}");
            answered += 1;
        }
        refused += limits(&engines, sql, "not_limited").await.1;
        all_is_given_back(&engines.weld, &format!("{bytes} bytes")).await;
    }

    assert!(refused > 0 && answered > 0, "{refused} {answered}");
}
