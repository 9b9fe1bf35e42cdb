//! Filters that joins, sorts and aggregates make while they run, and conditions of queries, over columns of which two
//! have one name.

use crate::common::{Engines, config};

/// A self-join, whose columns are called as those of its sides, below an exchange.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_one_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for partitions in [1, 2] {
        let engines = Engines::new(config(partitions));
        let rows = "SELECT value AS id, value % 9 AS k, value % 41 - 20 AS x FROM generate_series(1, 400)";
        engines.parquet_from("t", rows, folder.path()).await;
        engines.parquet_from("u", "SELECT value * 3 AS w FROM generate_series(1, 9)", folder.path()).await;
        // Compiled, on DataFusion's operators, and as a query over small tables.
        for (compile, plan) in [(0, 0), (4_000_000, 0), (4_000_000, 200_000)] {
            for (name, rows) in [("compile", compile), ("plan", plan)] {
                engines.run(&format!("SET weld.{name}_min_rows = {rows}")).await.expect("a known setting");
            }
            for sql in [
                "SELECT count(*), sum(a.id) FROM t a JOIN t b ON a.k = b.k JOIN u ON b.x + a.x = u.w",
                "SELECT a.id, b.id FROM t a JOIN t b ON a.k = b.k LEFT SEMI JOIN u ON b.x = u.w WHERE a.id < 30",
                "SELECT b.x, a.x FROM t a JOIN t b ON a.k = b.k AND a.id < b.id ORDER BY b.x - a.x DESC, b.x, a.x LIMIT 7",
                "SELECT x FROM (SELECT b.x, a.x AS y FROM t a JOIN t b ON a.k = b.k) ORDER BY x DESC LIMIT 40",
                "SELECT min(b.x), max(a.x) FROM t a JOIN t b ON a.k = b.k AND a.x > 3 AND b.x < 12 AND a.id <> b.id",
                // Joins in another order, with a condition that is left above them.
                "SELECT a.id, b.id, c.id FROM t a RIGHT JOIN t b ON a.k = b.k \
                 JOIN (SELECT * FROM t WHERE k IN (1, 2, 3)) c ON b.id = c.id + 20 AND c.x + b.x > 3",
                "SELECT max(b.x) FROM t a JOIN t b ON a.k = b.k + 1 AND a.x + b.x < 5",
                // Conditions of the side that has nulls for rows without a match, which are left above the join.
                "SELECT a.x, b.x AS y FROM t a RIGHT JOIN t b ON a.id = b.k WHERE coalesce(a.x, 7) > 5",
                "SELECT a.x, b.x AS y FROM t a LEFT JOIN t b ON a.k = b.id WHERE b.x IS NULL OR b.x > 15",
                "SELECT a.x, count(b.x) OVER (PARTITION BY a.x) FROM t a RIGHT JOIN t b ON a.id = b.k \
                 WHERE CASE WHEN a.x > 0 THEN a.x < 9 END",
            ] {
                engines.check(sql, 0).await;
            }
        }
    }
}

/// Keys of a sort or a join that contain each other: on its way to the scan a filter keeps the places of some of their
/// columns above. These are other columns of the scan, or there are none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_inside_of_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = "SELECT value * 7919 % 4001 AS a0, value * 31 % 2003 AS a1, value * 97 % 3001 AS a2 \
                FROM generate_series(1, 4000)";
    // DataFusion's own operators make the filter as ever, and its scans assert that there is none in builds with
    // assertions.
    let settings = [(true, 0), (false, 0), (true, 4_000_000)];
    let settings = if cfg!(debug_assertions) { &settings[..1] } else { &settings[..] };
    for partitions in [1, 2] {
        let engines = Engines::new(config(partitions));
        for setting in
            ["datafusion.execution.parquet.max_row_group_size = 400", "datafusion.execution.batch_size = 200"]
        {
            engines.stock.sql(&format!("SET {setting}")).await.expect("a known setting");
        }
        engines.parquet_from("t", rows, folder.path()).await;
        engines
            .parquet_from("u", "SELECT value * 40 AS w, value AS v FROM generate_series(1, 50)", folder.path())
            .await;
        engines.table_from("m", rows, 8192).await;
        for (sort, compile) in settings {
            engines.run(&format!("SET weld.compile_min_rows = {compile}")).await.expect("a known setting");
            engines.run(&format!("SET weld.sort = {sort}")).await.expect("a known setting");
            for sql in [
                "SELECT a0 AS z, a2, a1 AS x FROM t WHERE a0 < 3900 \
                 ORDER BY CASE WHEN a2 % 3 = 0 THEN a2 ELSE x END DESC, x DESC, z LIMIT 12",
                "SELECT a0 AS z, a2, a1 AS x FROM t ORDER BY x + a2 DESC, x, z LIMIT 12",
                "SELECT a0 AS z, a2 AS y, a1 AS x FROM t ORDER BY z, coalesce(nullif(y, 30), x), x LIMIT 12",
                "SELECT a1 AS x, a1 AS xx, a0 AS z, a0 + 1 AS zz, a2 FROM t \
                 ORDER BY CASE WHEN a2 > 500 THEN a2 ELSE x END, x, z LIMIT 7",
                "SELECT count(*), sum(z) FROM (SELECT a0 AS z, a2, a1 AS x FROM t) t JOIN u \
                 ON CASE WHEN t.a2 % 2 = 0 THEN t.a2 ELSE t.x END = u.w AND t.x % 50 + 1 = u.v",
                "SELECT count(*), sum(z) FROM (SELECT a0 AS z, a2, a1 AS x FROM t) t JOIN u \
                 ON CASE WHEN t.a2 % 2 = 0 THEN t.a2 ELSE t.x END = u.w AND t.x = u.v * 40",
            ] {
                // Over a table in memory there is no scan to filter.
                let expected = engines.stock_rows(&sql.replace("FROM t", "FROM m")).await.expect("it runs");
                assert_eq!(engines.run(sql).await.expect("it runs").rows, expected, "{sql}");
            }
        }
    }
}
