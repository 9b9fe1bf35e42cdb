//! What is under a null is never seen: not by groups, joins, DISTINCT and set operations.

use crate::common::{Engines, config};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nulls_are_one_value() {
    for (batch_rows, partitions) in [(100, 1), (7, 2)] {
        let engines = Engines::new(config(partitions));
        let rows = "
            SELECT v AS k, v % 3 = 0 AS b, CASE WHEN v % 4 = 0 THEN NULL ELSE v % 5 END AS n,
                   CASE WHEN v % 2 = 0 THEN NULL ELSE concat('a string of some length ', CAST(v % 3 AS VARCHAR)) END AS s,
                   CASE WHEN v % 7 = 0 THEN NULL ELSE CAST(v % 4 AS DECIMAL(10, 2)) END AS d,
                   CASE WHEN v % 3 = 1 THEN NULL ELSE arrow_cast(v % 6, 'Date32') END AS t
            FROM generate_series(1, 60) AS g(v)";
        engines.table_from("t", rows, batch_rows).await;
        engines.table_from("few", "SELECT 3 AS k, CAST(NULL AS BIGINT) AS n UNION ALL SELECT 4, 2", 1).await;
        for sql in [
            "SELECT CASE WHEN b THEN n + k END AS x, count(*) FROM t GROUP BY 1",
            "SELECT CASE WHEN b THEN n + k ELSE d END AS x, count(*) FROM t GROUP BY 1",
            "SELECT CASE WHEN b THEN s WHEN k > 30 THEN 'x' END AS x, count(*) FROM t GROUP BY 1",
            "SELECT CASE WHEN b THEN s END AS x, CASE WHEN k > 5 THEN n + 1 END AS y, sum(k) FROM t GROUP BY 1, 2",
            "SELECT DISTINCT CASE WHEN k > 10 THEN n - k % 3 END, d * 2 FROM t",
            "SELECT DISTINCT n + k % 2, t FROM t WHERE k > 1",
            "SELECT coalesce(n + k, n * 2), count(*) FROM t GROUP BY 1",
            "SELECT n + k % 2 FROM t INTERSECT SELECT n FROM t WHERE k > 3",
            "SELECT CASE WHEN b THEN n END FROM t EXCEPT SELECT n * 2 FROM t WHERE k > 3",
            "SELECT a.k, b.k FROM t a JOIN few b ON a.n + a.k IS NOT DISTINCT FROM b.n",
            "SELECT a.k, b.k FROM (SELECT k, CASE WHEN b THEN n * k END AS x FROM t) a
             JOIN (SELECT k, n + k AS x FROM t) b ON a.x IS NOT DISTINCT FROM b.x",
            "SELECT n / 2 IS NOT DISTINCT FROM d, count(*) FROM t GROUP BY 1",
            "SELECT -n, n % 2, count(*) FROM t GROUP BY 1, 2",
            "SELECT date_part('year', t), count(*) FROM t GROUP BY 1",
            "SELECT CAST(n AS DECIMAL(20, 3)) + d, count(*) FROM t GROUP BY 1",
            "SELECT b AND n > 2, b OR n > 2, NOT (n > 2), count(*) FROM t GROUP BY 1, 2, 3",
            "SELECT m, count(*) FROM (SELECT k % 8 AS g, min(n) AS m FROM t GROUP BY 1) GROUP BY m",
            "SELECT m, count(*) FROM (SELECT k % 12 AS g, min(n) FILTER (WHERE b) AS m FROM t GROUP BY 1) GROUP BY m",
            "SELECT a.g, b.k FROM (SELECT k % 12 AS g, max(n) FILTER (WHERE k < 3) AS m FROM t GROUP BY 1) a
             JOIN t b ON a.m IS NOT DISTINCT FROM b.n",
            "SELECT m, count(*) FROM (SELECT k % 12 AS g, sum(n) FILTER (WHERE k < 3) AS m FROM t GROUP BY 1) GROUP BY m",
        ] {
            engines.check(sql, 1).await;
        }
    }
}

/// Columns that may have nulls and have none, beside some that do; as they are, and behind operators that make nulls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_that_have_no_nulls_though_they_might() {
    for (batch_rows, partitions) in [(1000, 1), (70, 3)] {
        let engines = Engines::new(config(partitions));
        let rows = "
            SELECT CASE WHEN v > 0 THEN v % 97 END AS k, CASE WHEN v % 4 <> 0 THEN v % 5 END AS n,
                   CASE WHEN v > 0 THEN concat('a string of some length ', CAST(v % 7 AS VARCHAR)) END AS s,
                   CASE WHEN v > 0 THEN v / 4.0 END AS x, CASE WHEN v > 0 THEN v END AS u
            FROM generate_series(1, 900) AS g(v)";
        engines.table_from("t", rows, batch_rows).await;
        engines.table_from("o", &format!("SELECT k * 2 AS k, n, s, x FROM ({rows}) WHERE k < 40"), batch_rows).await;
        for (sql, compiled) in [
            ("SELECT k, n, count(*), sum(x), min(s), max(u) FROM t GROUP BY k, n", 2),
            ("SELECT c, count(*) FROM (SELECT k, n, count(n) AS c FROM t GROUP BY k, n) GROUP BY c", 3),
            ("SELECT k, m, count(*) FROM (SELECT k, s, max(n) AS m FROM t GROUP BY k, s) GROUP BY k, m", 3),
            ("SELECT u, count(*) FROM t GROUP BY u", 2),
            ("SELECT DISTINCT s, n FROM t WHERE k > 3", 2),
            ("SELECT k, s, sum(u), count(n) FROM t GROUP BY CUBE (k, s)", 1),
            ("SELECT a.u, b.x, b.n FROM t a JOIN o b ON a.k = b.k AND a.s = b.s", 1),
            ("SELECT a.u, b.x, b.n, b.s FROM t a LEFT JOIN o b ON a.k = b.k AND a.n = b.n", 1),
            ("SELECT a.s, b.k, count(*) FROM t a FULL JOIN o b ON a.u = b.k GROUP BY a.s, b.k", 1),
            ("SELECT b.k, count(*), sum(b.x) FROM t a LEFT JOIN o b ON a.u = b.k GROUP BY b.k", 1),
            ("SELECT n, count(*) FROM t WHERE k NOT IN (SELECT k FROM o) GROUP BY n", 1),
            ("SELECT count(*) FROM t WHERE n NOT IN (SELECT n FROM o WHERE n IS NOT NULL)", 1),
            ("SELECT a.n, b.k, sum(b.x) FROM t a JOIN o b ON a.k = b.k WHERE a.u < 500 GROUP BY a.n, b.k", 2),
            (
                "SELECT k, n, count(*) FROM (SELECT k, n FROM t UNION ALL SELECT NULL AS k, k AS n FROM o) GROUP BY k, n",
                1,
            ),
            ("SELECT k IS NULL, coalesce(k, n), nullif(k, n), count(*) FROM t GROUP BY 1, 2, 3", 1),
        ] {
            engines.check(sql, compiled).await;
        }
    }
}
