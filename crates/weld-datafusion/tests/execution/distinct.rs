//! Distinct values counted beside other aggregates.

use crate::common::{Engines, config};

async fn table(engines: &Engines) {
    let sql = "SELECT v % 5 AS g, CASE WHEN v % 4 = 0 THEN NULL ELSE v * 37 % 23 END AS x,
                      CASE WHEN v % 3 = 0 THEN NULL ELSE concat('value ', CAST(v % 19 AS VARCHAR)) END AS s,
                      CASE WHEN v % 7 < 2 THEN NULL ELSE v END AS y, CAST(v AS DOUBLE) / 8 AS f,
                      CAST(v % 31 AS DECIMAL(12, 2)) AS d, DATE '1999-12-31' + CAST(v % 17 AS INT) AS day
               FROM generate_series(1, 1000) AS t(v)";
    engines.table_from("t", sql, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_values_are_counted_beside_other_aggregates() {
    for partitions in [1, 3] {
        let engines = Engines::new(config(partitions));
        table(&engines).await;
        for (sql, is_rewritten) in [
            (
                "SELECT g, count(DISTINCT s), sum(y), count(*), count(y), avg(f), min(s), max(day) FROM t GROUP BY g",
                true,
            ),
            ("SELECT count(DISTINCT s), count(*), sum(d), avg(y) FROM t", true),
            ("SELECT count(DISTINCT s), count(*), sum(y), avg(f), min(s) FROM t WHERE y < 0", true),
            ("SELECT g, count(DISTINCT s), count(*) FROM t WHERE y < 0 GROUP BY g", true),
            ("SELECT s, g + 1 AS h, count(DISTINCT day), count(x) FILTER (WHERE y > 500) FROM t GROUP BY s, h", true),
            ("SELECT g, count(DISTINCT upper(s)), avg(y) FILTER (WHERE s IS NULL), sum(d) FROM t GROUP BY g", true),
            ("SELECT g, count(DISTINCT s) AS n, count(*) AS m FROM t GROUP BY g HAVING count(DISTINCT s) > 10", true),
            ("SELECT s, count(DISTINCT s), count(*) FROM t GROUP BY s", true),
            ("SELECT g, count(DISTINCT d), count(y), min(d) FROM t GROUP BY g", true),
            (
                "SELECT day, n FROM (SELECT day, count(DISTINCT s) AS n, count(*) AS m FROM t GROUP BY day) WHERE m > 3",
                true,
            ),
            ("SELECT g, count(DISTINCT s) + count(*) FROM t GROUP BY g", true),
            // Constant keys, whose group there is only if there are rows; one set of numbers, one set of integers for all groups, what DataFusion's own rule takes once the count is pruned, another value of an average's type, a function that is not made of values of parts, more than one argument,
            // a condition, values that are equal though their bits differ, one column of several sets.
            ("SELECT NULL, count(DISTINCT s), count(s) FROM t GROUP BY NULL", false),
            ("SELECT 1, 'b', count(DISTINCT s), count(s) FROM t WHERE g > 7 GROUP BY 1, 2", false),
            ("SELECT count(DISTINCT x), count(*) FROM t", false),
            ("SELECT g, count(DISTINCT x), count(*) FROM t GROUP BY g", false),
            (
                "SELECT g, n, total FROM (SELECT g, count(DISTINCT s) AS n, sum(d) AS total, count(*) FROM t GROUP BY g)",
                false,
            ),
            ("SELECT g, count(DISTINCT s), avg(d) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT s), stddev(f) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT x), count(DISTINCT s), count(*) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT s) FILTER (WHERE y > 3), count(*) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT f), count(*) FROM t GROUP BY g", false),
            ("SELECT g, count(DISTINCT s), count(*) FROM t GROUP BY ROLLUP(g)", false),
            ("SELECT g, count(DISTINCT s), min(DISTINCT s), count(*) FROM t GROUP BY g", false),
        ] {
            engines.check(sql, if is_rewritten { 2 } else { 0 }).await;
            let frame = engines.weld.sql(sql).await.expect("valid SQL");
            let stock = engines.stock.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
            let weld = frame.clone().create_physical_plan().await.expect("a plan");
            assert_eq!(weld.schema(), stock.schema(), "{sql}");
            let plan = frame.into_optimized_plan().expect("a plan").display_indent().to_string();
            assert_eq!(plan.contains("distinct_value"), is_rewritten, "{sql}\n{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_stay_as_they_are_where_rewrites_are_off() {
    let engines = Engines::new(config(2));
    table(&engines).await;
    let sql = "SELECT g, count(DISTINCT x), count(*) FROM t GROUP BY g";
    for setting in ["weld.enabled", "weld.plans", "weld.distinct_aggregates"] {
        engines.weld.sql(&format!("SET {setting} = false")).await.expect("a setting");
        let plan = engines.weld.sql(sql).await.expect("valid SQL").into_optimized_plan().expect("a plan");
        assert!(!plan.display_indent().to_string().contains("distinct_value"), "{setting}");
        engines.check(sql, 0).await;
        engines.weld.sql(&format!("SET {setting} = true")).await.expect("a setting");
    }
}
