//! Scalar subqueries of one row, and of none.

use crate::common::{Engines, config};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subquery_without_rows_is_null() {
    for partitions in [1, 2] {
        let engines = Engines::new(config(partitions));
        engines.table_from("t", "SELECT v AS k, v % 3 AS g FROM generate_series(1, 20) AS g(v)", 5).await;
        let decimals = "SELECT arrow_cast(v, 'Decimal256(45, 3)') AS d FROM generate_series(1, 20) AS g(v)";
        engines.table_from("d", decimals, 5).await;
        let queries = [
            "SELECT k FROM t WHERE k > (SELECT k FROM t WHERE k > 100)",
            "SELECT k FROM t WHERE k > (SELECT k FROM t WHERE k > 100) OR k < 3",
            "SELECT k FROM t WHERE (SELECT k FROM t WHERE k > 100) IS NULL",
            "SELECT k FROM t WHERE coalesce((SELECT k FROM t WHERE k > 100), 5) = k",
            "SELECT k + (SELECT k FROM t WHERE k > 100) FROM t WHERE k < 5",
            "SELECT k, (SELECT k FROM t WHERE k > 100) AS none FROM t WHERE k < 5",
            "SELECT CASE WHEN k > (SELECT k FROM t WHERE k > 100) THEN 1 ELSE 0 END FROM t",
            "SELECT g, sum(k) FROM t WHERE k <> (SELECT k FROM t WHERE k > 100) GROUP BY g",
            "SELECT g, sum(k + (SELECT k FROM t WHERE k > 100)), count(*) FROM t GROUP BY g",
            "SELECT sum(k) FILTER (WHERE k > (SELECT k FROM t WHERE k > 100)) FROM t",
            "SELECT t.k FROM t JOIN t u ON t.k = u.k AND t.k > (SELECT k FROM t WHERE k > 100)",
            "SELECT k FROM t WHERE k > (SELECT k FROM t WHERE k = 15)",
            // A subquery in a branch of CASE, whose type says that it is never null.
            "SELECT k FROM t WHERE CASE WHEN k > 10 THEN (SELECT k FROM t WHERE k > 100) ELSE k END < 5",
            "SELECT CASE WHEN k > 10 THEN (SELECT k FROM t WHERE k > 100) ELSE k END IS NULL, k FROM t",
            "SELECT g, sum(k) FROM t WHERE CASE g WHEN 1 THEN (SELECT k FROM t WHERE k > 100) ELSE g END = 0 GROUP BY g",
            // Compared by DataFusion, in a column of its own.
            "SELECT g FROM t WHERE arrow_cast(9, 'Decimal256(45, 3)') = (SELECT d FROM d WHERE d > 100) AND k > 3",
            "SELECT DISTINCT g + 1 FROM t WHERE arrow_cast(9, 'Decimal256(45, 3)') = (SELECT d FROM d WHERE d > 100)",
            "SELECT g + 1, arrow_cast(k, 'Decimal256(45, 3)') < (SELECT d FROM d WHERE d > 100) FROM t",
        ];
        for sql in queries {
            match engines.stock_rows(sql).await {
                Ok(_) => drop(engines.check(sql, 0).await),
                Err(error) => {
                    let weld = engines.run(sql).await.map(|run| run.rows);
                    assert_eq!(weld, Err(error), "{sql}");
                }
            }
        }
    }
}
