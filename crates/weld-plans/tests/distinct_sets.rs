//! Two aggregates that become one with DISTINCT: the same rows, names and types.

mod common;

use common::Both;
use datafusion::prelude::SessionConfig;
use weld_plans::PlanOptions;

async fn tables(partitions: usize) -> Both {
    let both = Both::new(SessionConfig::new().with_target_partitions(partitions), |_| PlanOptions {
        distinct_aggregates: false,
        distinct_sets: true,
        outer_joins: false,
        join_order: false,
        semi_joins: false,
        common_subplans: None,
        similar_subplans: false,
        key_filters: false,
        careful_pushdown: true,
        doubtful_orders: true,
    });
    let rows = "SELECT v % 7 AS g, CASE WHEN v % 5 = 0 THEN NULL ELSE concat('h', v % 3) END AS h,
                       CASE WHEN v % 11 = 0 THEN NULL ELSE v * 37 % 300 - 100 END AS near, v * 1000003 AS far,
                       CASE WHEN v % 3 = 0 THEN NULL ELSE v END AS n, CAST(v AS DECIMAL(12, 2)) AS d,
                       CAST(v % 90 AS DOUBLE) AS f, CAST(v % 50 AS SMALLINT) AS small
                FROM generate_series(0, 1999) AS t(v)";
    both.table("t", rows).await;
    both.table("none", "SELECT v AS g, v AS near FROM generate_series(0, 5) AS t(v) WHERE v > 5").await;
    both
}

/// Each is one aggregate, or two if it is not `merged`.
async fn check(merged: bool, queries: &[&str]) {
    for partitions in [1, 3] {
        let both = tables(partitions).await;
        for sql in queries {
            let plan = both.check(sql).await;
            let aggregates = plan.matches("AggregateExec: mode=Final").count() + plan.matches("mode=Single").count();
            assert_eq!(aggregates == 1, merged, "{sql}\n{plan}");
        }
    }
}

#[tokio::test]
async fn integers_that_are_close_together_are_in_sets() {
    let queries = [
        "SELECT g, count(DISTINCT near) FROM t GROUP BY g",
        "SELECT count(DISTINCT near), sum(n) FROM t",
        "SELECT g, h, count(DISTINCT near), sum(n), min(far), max(h), sum(f) FROM t GROUP BY g, h",
        "SELECT g, count(DISTINCT near), sum(d) FROM t GROUP BY g",
        "SELECT sum(DISTINCT near), h, count(DISTINCT near) FROM t WHERE n > 7 GROUP BY h HAVING count(DISTINCT near) > 2",
        "SELECT g + 1, concat(h, 'x'), count(DISTINCT small) FROM t GROUP BY g + 1, concat(h, 'x')",
        // As people write it themselves.
        "SELECT h, count(near) FROM (SELECT DISTINCT near, g, h FROM t) GROUP BY h, g",
    ];
    check(true, &queries).await;
}

#[tokio::test]
async fn others_are_grouped_by_as_before() {
    let queries = [
        // Nothing is known of where values lie, or they lie far apart.
        "SELECT g, count(DISTINCT far) FROM t GROUP BY g",
        "SELECT g, count(DISTINCT near + g) FROM t GROUP BY g",
        "SELECT g, count(DISTINCT h) FROM t GROUP BY g",
        "SELECT g, count(DISTINCT f), sum(n) FROM t GROUP BY g",
        "SELECT g, count(DISTINCT near) FROM none GROUP BY g",
        // Two columns would have one name.
        "SELECT a.g, count(DISTINCT a.near), sum(a.n), sum(b.n) FROM t a JOIN t b ON a.n = b.n GROUP BY a.g",
        // What is above needs more than the sets.
        "SELECT g, count(near), count(*) FROM (SELECT DISTINCT g, near FROM t) GROUP BY g",
        "SELECT g, avg(near) FROM (SELECT DISTINCT g, near FROM t) GROUP BY g",
        "SELECT g, count(near) FROM (SELECT DISTINCT g, h, near FROM t) GROUP BY g",
        "SELECT g, count(near) FILTER (WHERE near > 7) FROM (SELECT DISTINCT g, near FROM t) GROUP BY g",
        "SELECT g, sum(s) FROM (SELECT g, near, max(n) AS s FROM t GROUP BY g, near) GROUP BY g",
        "SELECT g, count(s) FROM (SELECT g, near, count(n) AS s FROM t GROUP BY g, near) GROUP BY g",
        "SELECT g, count(near) FROM (SELECT g, near FROM t GROUP BY ROLLUP (g, near)) GROUP BY g",
    ];
    check(false, &queries).await;
}
