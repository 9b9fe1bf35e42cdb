//! Subplans that differ in filters alone, executed once: the same rows as when each is executed.

mod common;

use common::{Both, readers};
use datafusion::prelude::{ParquetReadOptions, SessionConfig};
use weld_plans::PlanOptions;

fn both(partitions: usize) -> Both {
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(64);
    Both::new(config, |_| PlanOptions {
        distinct_aggregates: false,
        distinct_sets: false,
        outer_joins: false,
        join_order: false,
        semi_joins: false,
        common_subplans: Some(2000),
        similar_subplans: true,
        key_filters: true,
        careful_pushdown: true,
        doubtful_orders: true,
    })
}

/// 12,000 sales of 30 items, with nulls, on 48 days of four years.
async fn tables(both: &Both) {
    let sales = "SELECT CASE WHEN v % 11 = 0 THEN NULL ELSE v % 30 END AS item, v % 48 AS day, v AS price
                 FROM generate_series(1, 12000) AS x(v)";
    both.table("sales", sales).await;
    let days = "SELECT v AS day, CASE WHEN v = 47 THEN NULL ELSE 2000 + v / 12 END AS year, v % 12 AS month
                FROM generate_series(0, 47) AS x(v)";
    both.table("days", days).await;
    both.table("returned", "SELECT v * 7 AS item, v AS amount FROM generate_series(1, 900) AS x(v)").await;
}

const BY_YEAR: &str = "WITH c AS (SELECT item, year, month, sum(price) AS n FROM sales s JOIN days d ON s.day = d.day
                       GROUP BY item, year, month)";

/// Queries, and how many readers a subplan has.
const QUERIES: [(&str, &str, usize); 21] = [
    (BY_YEAR, "SELECT a.item, a.n, b.n FROM c a JOIN c b ON a.n = b.n + 1 WHERE a.year = 2000 AND b.year = 2001", 2),
    (
        BY_YEAR,
        "SELECT a.item, x.n, y.n, z.n FROM c a JOIN c x ON a.n < x.n JOIN c y ON a.n = y.n JOIN c z ON a.n = z.n - 1
         WHERE a.year = 2000 AND x.year = 2001 AND x.month = 3 AND y.year IN (2000, 2002) AND z.year > 2001",
        4,
    ),
    // Overlapping, and one within the other.
    (BY_YEAR, "SELECT n FROM c WHERE year BETWEEN 2000 AND 2001 UNION ALL SELECT n FROM c WHERE year > 2000", 2),
    (BY_YEAR, "SELECT n FROM c WHERE year = 2001 UNION ALL SELECT n FROM c WHERE year = 2001 AND month < 4", 2),
    // Nothing, NULL, and what is not NULL.
    (BY_YEAR, "SELECT n FROM c WHERE year IS NULL UNION ALL SELECT n FROM c WHERE year = 1000", 2),
    (BY_YEAR, "SELECT n FROM c WHERE year IS NOT NULL UNION ALL SELECT n FROM c WHERE year IS NULL AND month = 11", 2),
    (BY_YEAR, "SELECT n FROM c WHERE year <> 2001 UNION ALL SELECT n FROM c WHERE NOT (year <> 2001)", 2),
    // A filter without a part of its own.
    (BY_YEAR, "SELECT n FROM c WHERE year > 2000 AND year < 2003 UNION ALL SELECT n FROM c WHERE year < 2003", 2),
    // Three, two of which are equal.
    (
        BY_YEAR,
        "SELECT n FROM c WHERE year = 2000 UNION ALL SELECT n + 1 FROM c WHERE year = 2001
         UNION ALL SELECT n + 2 FROM c WHERE year = 2000",
        3,
    ),
    // What is above the groups stays with its place.
    (
        BY_YEAR,
        "SELECT n FROM c WHERE year = 2000 AND n > 50000 UNION ALL (SELECT n FROM c WHERE year = 2001 ORDER BY n LIMIT 3)
         UNION ALL SELECT max(n) FROM c WHERE year = 2002",
        3,
    ),
    // Partitions by a key with a filter are in order of what the filter left one value of.
    (
        BY_YEAR,
        "SELECT item, n, rank() OVER (PARTITION BY year ORDER BY n, item) FROM c WHERE year = 2000
         UNION ALL SELECT item, n, rank() OVER (PARTITION BY year ORDER BY n, item) FROM c WHERE year = 2001",
        2,
    ),
    // Through unions, if all inputs have the filter.
    (
        "WITH c AS (SELECT kind, day, sum(price) AS n FROM (SELECT 1 AS kind, day, price FROM sales WHERE item > 5
                    UNION ALL SELECT 2 AS kind, day, 2 * price FROM sales WHERE item < 9) GROUP BY kind, day)",
        "SELECT a.n, b.n FROM c a JOIN c b ON a.n = b.n + 3 WHERE a.day = 3 AND b.day = 4",
        2,
    ),
    // The side that a join preserves.
    (
        "WITH c AS (SELECT day, sum(price) AS n, count(amount) AS m FROM sales s LEFT JOIN returned r ON s.item = r.item
                    GROUP BY day)",
        "SELECT n, m FROM c WHERE day < 7 UNION ALL SELECT n, m FROM c WHERE day > 40",
        2,
    ),
    (
        "WITH c AS (SELECT day, sum(price) AS n FROM sales s WHERE item NOT IN (SELECT item FROM returned) GROUP BY day)",
        "SELECT n FROM c WHERE day < 7 UNION ALL SELECT n FROM c WHERE day > 40",
        2,
    ),
    // Not of what a join fills with NULL, nor of what no group is by.
    (
        "WITH c AS (SELECT s.item, count(amount) AS m FROM sales s LEFT JOIN (SELECT * FROM returned WHERE amount < 9) r
                    ON s.item = r.item GROUP BY s.item), d AS (SELECT s.item, count(amount) AS m FROM sales s LEFT JOIN
                    (SELECT * FROM returned WHERE amount > 80) r ON s.item = r.item GROUP BY s.item)",
        "SELECT m FROM c UNION ALL SELECT m FROM d",
        0,
    ),
    (
        "WITH c AS (SELECT item, sum(price) AS n FROM sales WHERE day = 1 GROUP BY item),
              d AS (SELECT item, sum(price) AS n FROM sales WHERE day = 2 GROUP BY item)",
        "SELECT n FROM c UNION ALL SELECT n FROM d",
        0,
    ),
    // Two filters would let combinations pass that are in no place.
    (
        "WITH c AS (SELECT s.day, r.item, sum(price) AS n FROM sales s JOIN returned r ON s.item = r.item GROUP BY s.day, r.item)",
        "SELECT n FROM c WHERE day = 1 AND item < 15 UNION ALL SELECT n FROM c WHERE day = 2 AND item > 20",
        0,
    ),
    // What may fail is asked of no other rows.
    (
        "WITH c AS (SELECT item, day, sum(price) AS n FROM sales GROUP BY item, day)",
        "SELECT n FROM c WHERE 10 / (day + 1) = 2 UNION ALL SELECT n FROM c WHERE 10 / (day + 1) = 3",
        0,
    ),
    // Limits below, and grouping sets.
    (
        "WITH c AS (SELECT day, sum(price) AS n FROM (SELECT * FROM sales WHERE day = 1 LIMIT 9999999) GROUP BY day),
              d AS (SELECT day, sum(price) AS n FROM (SELECT * FROM sales WHERE day = 2 LIMIT 9999999) GROUP BY day)",
        "SELECT n FROM c UNION ALL SELECT n FROM d",
        0,
    ),
    (
        "WITH c AS (SELECT item, day, sum(price) AS n FROM sales WHERE day = 1 GROUP BY ROLLUP (item, day)),
              d AS (SELECT item, day, sum(price) AS n FROM sales WHERE day = 2 GROUP BY ROLLUP (item, day))",
        "SELECT n FROM c UNION ALL SELECT n FROM d",
        0,
    ),
    (
        "WITH c AS (SELECT item, day, sum(price * random()) AS n FROM sales GROUP BY item, day)",
        "SELECT n > 0 FROM c WHERE day = 1 UNION ALL SELECT n > 0 FROM c WHERE day = 2",
        0,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subplans_of_other_rows_are_one() {
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        for (with, sql, expected) in QUERIES {
            let text = both.check(&format!("{with} {sql}")).await;
            assert_eq!(readers(&text), expected, "{with} {sql}\n{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_pruned_by_the_filters_of_all() {
    let folder = tempfile::tempdir().expect("a folder");
    for (partitions, pushdown) in [(1, false), (3, false), (3, true)] {
        let both = both(partitions);
        tables(&both).await;
        let path = folder.path().join(format!("days{partitions}{pushdown}.parquet"));
        let path = path.to_str().expect("a path of text");
        both.stock.sql(&format!("COPY days TO '{path}'")).await.expect("valid SQL").collect().await.expect("a file");
        for context in [&both.stock, &both.ours] {
            context
                .sql(&format!("SET datafusion.execution.parquet.pushdown_filters = {pushdown}"))
                .await
                .expect("a setting");
            context.register_parquet("dates", path, ParquetReadOptions::default()).await.expect("a table");
        }
        let sql = BY_YEAR.replace("days", "dates")
            + "SELECT a.n, b.n FROM c a JOIN c b ON a.n = b.n + 1 WHERE a.year = 2000 AND b.year = 2001";
        let text = both.check(&sql).await;
        // Where the source drops the rows itself, its filter is all there is.
        assert_eq!(readers(&text), if pushdown { 0 } else { 2 }, "{text}");
        assert!(pushdown || text.contains("year@1 = 2000 OR year@1 = 2001"), "{text}");
        // Where no two sources have the same filter.
        let path = folder.path().join(format!("sales{partitions}{pushdown}.parquet"));
        let path = path.to_str().expect("a path of text");
        both.stock.sql(&format!("COPY sales TO '{path}'")).await.expect("valid SQL").collect().await.expect("a file");
        for context in [&both.stock, &both.ours] {
            context.register_parquet("sold", path, ParquetReadOptions::default()).await.expect("a table");
        }
        let sql = "WITH c AS (SELECT item, day, sum(price) AS n FROM sold GROUP BY item, day)
                   SELECT n FROM c WHERE day = 3 UNION ALL SELECT n FROM c WHERE day = 4";
        let text = both.check(sql).await;
        assert_eq!(readers(&text), if pushdown { 0 } else { 2 }, "{text}");
    }
}

/// Aggregates without groups over other rows each, and how many readers one of all has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_without_groups_are_one() {
    let of_month = |month: usize, functions: &str| {
        format!("(SELECT {functions} FROM sales s JOIN days d ON s.day = d.day WHERE year = 2001 AND month = {month})")
    };
    let joined = |functions: &str| {
        format!(
            "SELECT * FROM {} a, {} b, {} c",
            of_month(1, functions),
            of_month(2, functions),
            of_month(13, functions)
        )
    };
    let of = |functions: &str, filters: [&str; 2]| {
        let [a, b] = filters.map(|filter| format!("(SELECT {functions} FROM sales WHERE {filter})"));
        format!("SELECT * FROM {a} a CROSS JOIN {b} b")
    };
    for partitions in [1, 3] {
        let both = both(partitions);
        tables(&both).await;
        for (sql, expected) in [
            (joined("count(*)"), 3),
            // The last digit of a deviation depends on the order of the partitions.
            (joined("sum(price), avg(price), min(item), max(price + item), count(item), round(stddev(price), 6)"), 3),
            (joined("count(DISTINCT item), sum(DISTINCT item) + count(*)"), 3),
            (joined("sum(price) FILTER (WHERE item > 5), count(*) FILTER (WHERE item IS NULL)"), 3),
            (joined("median(price), bool_and(item > 3), approx_distinct(item)"), 3),
            // Overlapping, equal, NULL, of no row.
            (of("sum(price), count(*)", ["day < 20", "day > 10"]), 2),
            (of("sum(price), count(item)", ["item > 5 AND day < 9", "day < 9"]), 2),
            // Sources, functions and expressions of other columns.
            (of("sum(price), count(*)", ["item > 5 AND day < 9", "day < 9"]), 2),
            (
                "SELECT (SELECT count(*) FROM sales WHERE day < 9), (SELECT avg(price) FROM sales WHERE day < 9),
                        (SELECT max(item + 1) FROM sales WHERE day > 20 OR item = 4),
                        (SELECT sum((price + 1) * 2) - min((price + 1) * 2) FROM sales WHERE price > 700)"
                    .to_owned(),
                4,
            ),
            (of("sum(price), count(*), max(item)", ["item IS NULL", "item < 0"]), 2),
            (of("sum(price), count(item)", ["item IN (1, 2) OR price > 9000", "item NOT IN (1, 2)"]), 2),
            // Arguments that fail for the rows of the others, and filters that do.
            (of("sum(10 / (day - 1))", ["day > 1", "day < 1"]), 2),
            (of("sum(price) FILTER (WHERE 10 / (day - 1) < 3)", ["day > 1", "day < 1"]), 0),
            (of("sum(price)", ["10 / (day + 1) > 3", "10 / (day + 1) < 2"]), 0),
            // In the order of the rows.
            (of("first_value(price ORDER BY price, item)", ["day > 7", "day < 7"]), 0),
            (of("sum(price * random()) > 0", ["day > 7", "day < 7"]), 0),
            (
                "SELECT CASE WHEN (SELECT count(*) FROM sales WHERE day < 9) > 10
                             THEN (SELECT count(*) FROM sales WHERE day > 40) ELSE 0 END"
                    .to_owned(),
                2,
            ),
            // Each place does something else with its results.
            (
                "SELECT n, (SELECT sum(price) FROM sales WHERE day = 3) FROM (SELECT sum(price) AS n FROM sales WHERE day = 4)
                 WHERE n > (SELECT sum(price) FROM sales WHERE day = 5)"
                    .to_owned(),
                3,
            ),
            // One of the side that a join does not preserve.
            (
                "SELECT * FROM (SELECT count(amount), count(*) FROM sales s LEFT JOIN (SELECT * FROM returned WHERE amount > 9) r
                                ON s.item = r.item) a,
                               (SELECT count(amount), count(*) FROM sales s LEFT JOIN (SELECT * FROM returned WHERE amount < 9) r
                                ON s.item = r.item) b"
                    .to_owned(),
                0,
            ),
        ] {
            let text = both.check(&sql).await;
            assert_eq!(readers(&text), expected, "{sql}\n{text}");
        }
    }
}
