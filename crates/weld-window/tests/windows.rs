//! Windows beside those of stock DataFusion.

mod common;

use arrow::array::AsArray;
use common::Both;

const TABLE: &str = "SELECT * FROM (VALUES \
    (1, 'a', 10, 1.5, DATE '2020-01-01', CAST(1.25 AS DECIMAL(10, 2))), \
    (1, 'a', 10, 2.5, DATE '2020-01-01', CAST(2.25 AS DECIMAL(10, 2))), \
    (1, 'a', NULL, 3.5, DATE '2020-01-02', NULL), \
    (1, 'b', 30, NULL, NULL, CAST(-7 AS DECIMAL(10, 2))), \
    (2, 'b', 30, 4.5, DATE '2019-01-01', CAST(5 AS DECIMAL(10, 2))), \
    (2, NULL, -5, -1.0, DATE '2021-01-01', CAST(0 AS DECIMAL(10, 2))), \
    (NULL, NULL, NULL, NULL, NULL, NULL), \
    (NULL, 'c', 7, 0.0, DATE '2020-06-01', CAST(9.99 AS DECIMAL(10, 2)))) \
    AS t(k, s, i, f, d, m)";

const FUNCTIONS: &[&str] = &[
    "row_number()",
    "rank()",
    "dense_rank()",
    "percent_rank()",
    "cume_dist()",
    "ntile(3)",
    "lag(i)",
    "lead(s, 2)",
    "lag(i, 1, -1)",
    "lag(f, 2) IGNORE NULLS",
    "first_value(i)",
    "last_value(s)",
    "first_value(f) IGNORE NULLS",
    "last_value(i) IGNORE NULLS",
    "last_value(s) IGNORE NULLS",
    "nth_value(i, 2) IGNORE NULLS",
    "nth_value(m, -2) IGNORE NULLS",
    "nth_value(i, 0)",
    "nth_value(i, NULL)",
    "nth_value(i, 2)",
    "nth_value(s, -1)",
    "count(*)",
    "count(i)",
    "count(DISTINCT s)",
    "sum(i)",
    "sum(f)",
    "sum(m)",
    "avg(i)",
    "avg(m)",
    "min(i)",
    "max(f)",
    "min(d)",
    "max(s)",
    "min(m)",
    "max(d)",
    "stddev(f)",
    "array_agg(i)",
];

/// What DataFusion's operators are left with.
const OF_STOCK: &[&str] = &["sum(i) FILTER (WHERE i > 8)", "lead(i) IGNORE NULLS", "lag(i, -2) IGNORE NULLS"];

/// Whose accumulators in DataFusion cannot forget a row.
const NOT_SLIDING: &[&str] = &["bool_or(i > 8)", "median(i)", "string_agg(s, ',')"];

const FRAMES: &[&str] = &[
    "",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
    "GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "GROUPS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    "GROUPS BETWEEN 1 PRECEDING AND 2 FOLLOWING",
    "GROUPS BETWEEN 2 FOLLOWING AND 3 FOLLOWING",
    "GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING",
];

/// Orders in which rows that are the same by them are the same in all columns, or by which the result is the same.
const OVERS: &[&str] =
    &["PARTITION BY k ORDER BY i, s, f", "ORDER BY s DESC, i, f", "PARTITION BY k, s ORDER BY f NULLS FIRST"];

fn calls(functions: &[&str], over: &str) -> String {
    let call = |(number, function): (usize, &&str)| format!("{function} OVER ({over}) AS w{number}");
    functions.iter().enumerate().map(call).collect::<Vec<_>>().join(", ")
}

#[tokio::test]
async fn every_function_over_every_frame() {
    for (batch_rows, partitions) in [(8192, 1), (1, 3), (3, 1)] {
        let both = Both::new(batch_rows, partitions, None);
        both.table("t", TABLE).await;
        for over in OVERS {
            for frame in FRAMES {
                let over = format!("{over} {frame}");
                let plan = both.check(&format!("SELECT *, {} FROM t", calls(FUNCTIONS, &over))).await;
                assert!(plan.contains("WindowExec: "), "{over}: {plan}");
                let plan = both.check(&format!("SELECT *, {} FROM t", calls(OF_STOCK, &over))).await;
                assert!(!plan.contains("WindowExec: "), "{over}: {plan}");
            }
            for frame in &FRAMES[..3] {
                both.check(&format!("SELECT *, {} FROM t", calls(NOT_SLIDING, &format!("{over} {frame}")))).await;
            }
        }
    }
}

#[tokio::test]
async fn frames_of_whole_partitions_need_no_order() {
    let both = Both::new(2, 2, None);
    both.table("t", TABLE).await;
    for function in ["sum(i)", "avg(m)", "count(*)", "max(s)", "count(DISTINCT s)", "median(f)", "stddev(f)"] {
        both.check(&format!("SELECT k, {function} OVER () FROM t")).await;
        both.check(&format!("SELECT k, {function} OVER (PARTITION BY k) FROM t")).await;
        both.check(&format!("SELECT k, {function} OVER (PARTITION BY k, s), rank() OVER (ORDER BY k) FROM t")).await;
        both.check(&format!("SELECT k, {function} OVER (PARTITION BY k) FROM t WHERE k > 5")).await;
    }
}

/// Of which DataFusion's accumulators of groups make something else than its accumulators of one group.
#[tokio::test]
async fn whole_partitions_of_nans_and_structs() {
    let rows = "SELECT k, f, CAST(f AS REAL) AS r, CASE WHEN k < 4 THEN named_struct('x', i, 's', s) END AS o, \
                CAST(i AS DECIMAL(10, 2)) AS m, arrow_cast(s, 'Dictionary(Int32, Utf8)') AS d \
                FROM (VALUES (1, CAST('NaN' AS DOUBLE), 1, 'b'), (1, 2.5, NULL, 'a'), (1, CAST('-Infinity' AS DOUBLE), 3, NULL), \
                (2, 1.5, 5, NULL), (2, CAST('NaN' AS DOUBLE), NULL, 'z'), (2, NULL, NULL, NULL), (3, -0.0, 7, 'c'), \
                (3, 0.0, NULL, 'd'), (4, CAST('Infinity' AS DOUBLE), 9, 'e'), (4, -CAST('NaN' AS DOUBLE), 2, 'e'), \
                (5, NULL, NULL, NULL)) AS t(k, f, i, s)";
    for batch_rows in [1, 8192] {
        let both = Both::new(batch_rows, 1, None);
        both.table("t", rows).await;
        for call in ["min", "max", "sum", "avg", "count", "stddev", "var_pop", "median", "array_agg"] {
            for argument in ["f", "r", "m"] {
                both.check(&format!("SELECT k, {call}({argument}) OVER (PARTITION BY k) FROM t")).await;
            }
        }
        for call in ["min", "max", "count", "array_agg"] {
            for argument in ["o", "d"] {
                both.check(&format!("SELECT k, {call}({argument}) OVER (PARTITION BY k) FROM t")).await;
            }
        }
        both.check("SELECT k, corr(f, k) OVER (PARTITION BY k), count(DISTINCT f) OVER (PARTITION BY k) FROM t").await;
    }
}

/// DataFusion's sums begin at 0.0: no sum is -0.0.
#[tokio::test]
async fn sums_of_negative_zeros() {
    let rows = "SELECT k, i, CAST(f AS DOUBLE) AS f, CAST(f AS REAL) AS r \
                FROM (VALUES (1, 1, '-0.0'), (1, 2, '-0.0'), (2, 1, NULL), (2, 2, '-0.0'), (3, 1, '0.0'), (3, 2, '-0.0')) \
                AS t(k, i, f)";
    let both = Both::new(2, 1, None);
    both.table("t", rows).await;
    for frame in FRAMES {
        for call in ["sum(f)", "sum(r)", "avg(f)", "sum(DISTINCT f)"] {
            both.check(&format!("SELECT k, {call} OVER (PARTITION BY k ORDER BY i {frame}) FROM t")).await;
        }
    }
}

#[tokio::test]
async fn units_go_over_the_ends_of_batches() {
    for batch_rows in [1, 2, 7, 100, 8192] {
        let both = Both::new(batch_rows, 2, None);
        both.table("t", "SELECT value % 37 AS k, value / 5 AS o, value * 7 % 101 AS v FROM generate_series(1, 3000)")
            .await;
        for over in ["PARTITION BY k ORDER BY o", "PARTITION BY k ORDER BY o, v", "ORDER BY o", "ORDER BY o, v, k"] {
            let plan = both
                .check(&format!(
                    "SELECT k, o, sum(v) OVER w, count(*) OVER w, max(v) OVER w, rank() OVER w, dense_rank() OVER w, \
                     avg(v) OVER w FROM t WINDOW w AS ({over})"
                ))
                .await;
            assert!(plan.contains("WindowExec: BoundedWindowAggExec"), "{plan}");
        }
        both.check("SELECT k, sum(v) OVER (PARTITION BY k), min(o) OVER (PARTITION BY k) FROM t").await;
    }
}

#[tokio::test]
async fn who_is_refused_memory_gives_way_to_stock() {
    let both = Both::new(512, 1, Some(100 << 10));
    let rows = "SELECT value / 20000 AS k, value AS v FROM generate_series(1, 60000)";
    both.sorted_table("t", rows, &["k", "v"]).await;
    let sql = "SELECT k, v, lead(v) OVER (PARTITION BY k ORDER BY v), sum(v) OVER (PARTITION BY k ORDER BY v \
               ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t";
    both.check(sql).await;
    assert!(both.handovers(sql).await > 0);
}

/// Rows that windows keep, of a partition or of a peer group, are no reason to refuse memory to what gives the rows.
#[tokio::test]
async fn others_are_not_refused_memory() {
    for (over, takes_over) in [("", 1), ("ORDER BY k", 0)] {
        let both = Both::new(512, 1, Some(1 << 20));
        // In 118 batches, which need 472 KiB. A window keeps nearly a mebibyte, twice.
        both.needy_table("t", "SELECT value / 100000 AS k, value AS v FROM generate_series(1, 60000)", "k", 4 << 10)
            .await;
        for call in ["sum(v)", "count(v)"] {
            let sql = format!("SELECT v, {call} OVER ({over}) FROM t");
            let plan = both.check(&sql).await;
            assert!(plan.contains("WindowExec: ") && !plan.contains("SortExec"), "{plan}");
            assert_eq!(both.handovers(&sql).await, takes_over, "{sql}");
        }
    }
}

#[tokio::test]
async fn a_limit_reads_no_further() {
    let both = Both::new(10, 1, None);
    both.table("t", "SELECT value AS v FROM generate_series(1, 3000)").await;
    let plan = both.check("SELECT v, row_number() OVER () FROM t LIMIT 5").await;
    assert!(plan.contains("WindowExec: BoundedWindowAggExec"), "{plan}");
    let plan = both.check("SELECT v, lag(v) OVER () FROM t LIMIT 5").await;
    assert!(!plan.contains("WindowExec: BoundedWindowAggExec"), "{plan}");
}

#[tokio::test]
async fn nulls_between_the_values_are_left_out() {
    let values = "SELECT * FROM (VALUES (1, NULL), (2, 10), (3, NULL), (4, 20), (5, 30), (6, NULL), (7, NULL), (8, 40)) AS t(i, v)";
    for batch_rows in [1, 3, 8192] {
        let both = Both::new(batch_rows, 1, None);
        both.table("t", values).await;
        for over in ["ORDER BY i", "PARTITION BY i % 2 ORDER BY i", "ORDER BY i DESC"] {
            for call in
                ["lead(v)", "lead(v, 2)", "lead(v, 3, -1)", "lead(v, 0, 5)", "lag(v, -2)", "lag(v, 2)", "lag(v, 3, -1)"]
            {
                both.check(&format!("SELECT i, {call} IGNORE NULLS OVER ({over}) FROM t")).await;
                let beside = "sum(v) OVER (PARTITION BY i % 2)";
                both.check(&format!("SELECT i, {call} IGNORE NULLS OVER ({over}), {beside} FROM t")).await;
            }
        }
    }
}

/// Of many partitions in a chunk, with nulls at both ends of them, none but nulls in some, and ties of which all are
/// nulls.
#[tokio::test]
async fn values_between_nulls_are_filled() {
    let rows = "SELECT value % 61 AS k, value / 61 / 3 AS o, value AS i, \
                CASE WHEN value % 61 > 3 AND value * 7 % 11 < value % 61 % 12 THEN value * 13 % 997 END AS v, \
                CASE WHEN value * 5 % 13 < 4 THEN concat('more than twelve bytes ', value) END AS s \
                FROM generate_series(0, 399)";
    for (batch_rows, partitions) in [(8192, 1), (1, 2), (7, 1), (100, 2)] {
        let both = Both::new(batch_rows, partitions, None);
        both.table("t", rows).await;
        for over in [
            "PARTITION BY k ORDER BY i",
            "ORDER BY i DESC",
            "PARTITION BY k % 9 ORDER BY v DESC NULLS LAST, i",
            "ORDER BY v, i",
        ] {
            for frame in FRAMES.iter().chain(&["ROWS BETWEEN 5 PRECEDING AND 3 FOLLOWING"]) {
                let over = format!("{over} {frame}");
                let calls = ["last_value(v)", "first_value(s)", "nth_value(v, 3)", "nth_value(s, -2)", "last_value(s)"]
                    .map(|call| format!("{call} IGNORE NULLS OVER ({over}), {call} OVER ({over})"));
                both.check(&format!("SELECT i, {} FROM t", calls.join(", "))).await;
            }
        }
        // The place of the value is the same in all rows of a peer group, whatever their order.
        for frame in ["", "GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"] {
            both.check(&format!("SELECT k, o, max(o) OVER w, last_value(o) IGNORE NULLS OVER w, \
                                 first_value(o) IGNORE NULLS OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY o {frame})"))
                .await;
        }
        both.check("SELECT k, last_value(v) IGNORE NULLS OVER (PARTITION BY k ORDER BY i) FROM t WHERE i < 0").await;
    }
}

const ORDERED: &str = "SELECT value % 7 AS k, value AS i, CASE WHEN value % 11 > 0 THEN value END AS v, \
    CASE WHEN value % 13 > 1 THEN value * value % 997 / 3 - 90 END AS n, \
    arrow_cast(CASE WHEN value % 13 > 1 THEN value * value % 251 END, 'UInt8') AS u, \
    arrow_cast(CASE WHEN value % 9 > 1 THEN value * value % 251 - 125 END, 'Int8') AS b, \
    CASE WHEN value % 17 > 1 THEN CAST(value * value % 97 AS DOUBLE) / 8 - 2 END AS f, \
    DATE '2020-01-25' + value % 91 AS d, \
    arrow_cast(CASE WHEN value % 5 > 0 THEN 1580342400 + value * value % 89 * 18000 END, 'Timestamp(Second, None)') AS t, \
    arrow_cast(1580342400000000000 + value * value % 89 * 18000000000000, 'Timestamp(Nanosecond, Some(\"America/New_York\"))') AS z \
    FROM generate_series(1, 200)";

/// Ends of frames: of numbers, some of which are wider than the key's type, and of dates and times.
const OF_NUMBERS: &[(&str, &str)] = &[
    ("10 PRECEDING", "CURRENT ROW"),
    ("0 PRECEDING", "0 FOLLOWING"),
    ("100 PRECEDING", "100 FOLLOWING"),
    ("3 FOLLOWING", "7 FOLLOWING"),
    ("UNBOUNDED PRECEDING", "4 FOLLOWING"),
    ("UNBOUNDED PRECEDING", "90 FOLLOWING"),
    ("2 PRECEDING", "UNBOUNDED FOLLOWING"),
    ("CURRENT ROW", "6 FOLLOWING"),
];

const OF_TIMES: &[(&str, &str)] = &[
    ("INTERVAL '30 hours' PRECEDING", "CURRENT ROW"),
    ("INTERVAL '1 month' PRECEDING", "INTERVAL '2 days' FOLLOWING"),
    ("INTERVAL '1 month 1 day' PRECEDING", "UNBOUNDED FOLLOWING"),
    ("INTERVAL '1 day' FOLLOWING", "INTERVAL '1 month 1 day' FOLLOWING"),
    ("CURRENT ROW", "INTERVAL '400 years' FOLLOWING"),
];

#[tokio::test]
async fn frames_of_distances_in_values() {
    let calls = "sum(v) OVER w, count(*) OVER w, avg(f) OVER w, min(v) OVER w, max(f) OVER w, count(v) OVER w";
    for (batch_rows, partitions) in [(8192, 1), (7, 2)] {
        let both = Both::new(batch_rows, partitions, None);
        both.table("s", ORDERED).await;
        for (keys, frames) in [(["n", "u", "b", "f"].as_slice(), OF_NUMBERS), (&["d", "t", "z"], OF_TIMES)] {
            for (key, order) in
                keys.iter().flat_map(|key| ["", "DESC", "NULLS FIRST", "DESC NULLS LAST"].map(|order| (key, order)))
            {
                for (start, end) in frames {
                    for by in ["", "PARTITION BY k"] {
                        let over = format!("{by} ORDER BY {key} {order} RANGE BETWEEN {start} AND {end}");
                        let plan = both.check(&format!("SELECT i, {calls} FROM s WINDOW w AS ({over})")).await;
                        assert!(plan.contains("WindowExec: "), "{over}: {plan}");
                        let values = format!(
                            "last_value({key}) OVER w, first_value({key}) IGNORE NULLS OVER w, nth_value({key}, 2) OVER w"
                        );
                        both.check(&format!("SELECT i, {values} FROM s WINDOW w AS ({over})")).await;
                    }
                }
            }
        }
    }
}

/// Which are errors, or DataFusion's to compute.
#[tokio::test]
async fn frames_of_other_distances_are_stocks() {
    let both = Both::new(8192, 1, None);
    both.table("t", TABLE).await;
    for (key, start, end) in [
        ("m", "1 PRECEDING", "CURRENT ROW"),
        ("d", "INTERVAL '-1 day' PRECEDING", "CURRENT ROW"),
        ("d", "INTERVAL '1 day' FOLLOWING", "INTERVAL '1 month' FOLLOWING"),
        ("i", "'-1' PRECEDING", "1 FOLLOWING"),
        ("i", "20 PRECEDING", "5 PRECEDING"),
        ("d", "UNBOUNDED PRECEDING", "INTERVAL '1 day' PRECEDING"),
    ] {
        let sql = format!("SELECT k, count(*) OVER (ORDER BY {key} RANGE BETWEEN {start} AND {end}) FROM t");
        let plan = both.check(&sql).await;
        assert!(!plan.contains("WindowExec: "), "{sql}: {plan}");
    }
}

/// A place that is no integer is an error of DataFusion's.
#[tokio::test]
async fn places_of_values_are_integers() {
    let both = Both::new(8192, 1, None);
    both.table("t", TABLE).await;
    for place in [
        "1.5",
        "i",
        "'x'",
        "-9223372036854775808",
        "9223372036854775807",
        "-9223372036854775807",
        "CAST(2 AS SMALLINT)",
    ] {
        both.check(&format!("SELECT k, nth_value(i, {place}) OVER (PARTITION BY k ORDER BY i, s, f) FROM t")).await;
    }
}

/// Distances of `lag` and `lead` and parts of `ntile`: what is no number is an error of DataFusion's.
#[tokio::test]
async fn distances_and_parts_are_integers() {
    let both = Both::new(3, 1, None);
    both.table("t", TABLE).await;
    for (call, is_ours) in [
        ("lag(i, 0)", true),
        ("lag(i, NULL, 5)", true),
        ("lead(s, 9223372036854775807)", true),
        ("lead(s, -9223372036854775808)", true),
        ("lag(s, -9223372036854775808, 'none')", true),
        ("lag(i, CAST(2 AS SMALLINT), 1.5)", true),
        ("lag(m, 1, 0)", true),
        ("lag(NULL, 1, 5)", true),
        ("lead(NULL)", true),
        ("lag(d, 1, 'yesterday')", false),
        ("lag(i, k)", false),
        ("lag(i, 1, k)", false),
        ("lag(i, 1.5)", false),
        ("lead(i, 0) IGNORE NULLS", false),
        ("ntile(1)", true),
        ("ntile(1000)", true),
        ("ntile(CAST(3 AS TINYINT UNSIGNED))", true),
        ("ntile(0)", false),
        ("ntile(-1)", false),
        ("ntile(NULL)", false),
        ("ntile(k)", false),
    ] {
        for over in ["PARTITION BY k ORDER BY i, s, f", "ORDER BY i DESC, s, f"] {
            let plan = both.check(&format!("SELECT k, {call} OVER ({over}) AS w FROM t")).await;
            assert_eq!(
                plan.contains("WindowExec: Bounded") || plan.contains("WindowExec: Window"),
                is_ours,
                "{call}: {plan}"
            );
        }
    }
}

/// Enough rows for values to outlive others in their frames: nulls, numbers that are none, sums that wrap around and
/// averages that overflow.
#[tokio::test]
async fn numbers_enter_and_leave() {
    let numbers = "SELECT value AS n, value / 60 AS k, value * 7919 % 101 AS r, \
        CASE WHEN value % 5 > 0 THEN value * 7919 % 101 - 50 END AS i, \
        arrow_cast(value * 31 % 200 - 100, 'Int8') AS small, \
        CASE value % 97 WHEN 0 THEN 'NaN' WHEN 1 THEN '-inf' WHEN 2 THEN '-0' WHEN 3 THEN NULL \
            ELSE concat(value * 7919 % 1009, '.1') END::DOUBLE AS f, \
        (value * 7919 % 101)::DECIMAL(38, 0) * 1000000000000000000000000000000000000 AS wide, \
        (value * 7919 % 101)::DECIMAL(30, 2) / 7 AS longer, \
        (value * 7919 % 101)::DECIMAL(12, 3) - 50 AS m \
        FROM generate_series(1, 400)";
    let calls = "sum(i) OVER w, avg(i) OVER w, min(i) OVER w, max(i) OVER w, count(i) OVER w, count(*) OVER w, \
        sum(f) OVER w, avg(f) OVER w, min(small) OVER w, max(small) OVER w, sum(m) OVER w, avg(m) OVER w, \
        min(m) OVER w, max(m) OVER w, avg(longer) OVER w, max(n::TIMESTAMP) OVER w";
    for batch_rows in [8192, 7] {
        let both = Both::new(batch_rows, 1, None);
        both.table("t", numbers).await;
        for by in ["PARTITION BY k ORDER BY n", "ORDER BY n", "PARTITION BY k ORDER BY r"] {
            for frame in [
                "",
                "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN 20 PRECEDING AND 3 PRECEDING",
                "ROWS BETWEEN 2 FOLLOWING AND 9 FOLLOWING",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND 4 FOLLOWING",
                "ROWS BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING",
                "RANGE BETWEEN 12 PRECEDING AND 5 FOLLOWING",
                "RANGE BETWEEN 4 FOLLOWING AND 6 FOLLOWING",
                "GROUPS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
            ] {
                let over = format!("{by} {frame}");
                let plan = both.check(&format!("SELECT n, {calls} FROM t WINDOW w AS ({over})")).await;
                assert!(plan.contains("WindowExec: "), "{over}: {plan}");
                both.check(&format!("SELECT n, sum(wide) OVER w FROM t WINDOW w AS ({over})")).await;
                both.check(&format!("SELECT n, avg(wide) OVER w FROM t WINDOW w AS ({over})")).await;
            }
        }
    }
}

/// Which of them are peers DataFusion decides in a way of its own.
#[tokio::test]
async fn nested_values_have_datafusions_peers() {
    let rows = "SELECT i, named_struct('x', m) AS o FROM (VALUES (1, NULL), (2, 5), (4, 7)) AS t(i, m)";
    let both = Both::new(8192, 1, None);
    both.table("t", rows).await;
    for (frame, is_ours) in [
        ("", false),
        ("GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", false),
        ("ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", true),
    ] {
        let plan = both.check(&format!("SELECT i, sum(i) OVER (ORDER BY o {frame}) AS w FROM t")).await;
        assert_eq!(plan.contains("WindowExec: "), is_ours, "{frame}: {plan}");
        both.check(&format!("SELECT i, last_value(i) OVER (ORDER BY o {frame}) AS w, rank() OVER (ORDER BY o) FROM t"))
            .await;
    }
}

/// Chunks have more rows than the dictionaries' keys can count.
#[tokio::test]
async fn dictionaries_of_few_keys() {
    let rows = "SELECT value AS i, value / 3 AS p, arrow_cast(CASE WHEN value % 5 > 0 THEN concat('s', value % 7) END, \
                'Dictionary(Int8, Utf8)') AS s FROM generate_series(1, 900)";
    let both = Both::new(8192, 1, None);
    both.table("t", rows).await;
    for call in [
        "first_value(s) IGNORE NULLS",
        "last_value(s) IGNORE NULLS",
        "nth_value(s, 2)",
        "lag(s)",
        "lag(s, 1, 's9')",
        "min(s)",
        "max(s)",
    ] {
        for frame in
            ["", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"]
        {
            let plan =
                both.check(&format!("SELECT i, {call} OVER (PARTITION BY p ORDER BY i {frame}) AS w FROM t")).await;
            assert!(plan.contains("WindowExec: "), "{call}: {plan}");
        }
    }
}

/// What is in no row of the results is not cast.
#[tokio::test]
async fn dictionaries_have_entries_of_results_only() {
    let rows = "SELECT value AS i, arrow_cast(CASE WHEN value = 1 THEN 'one' ELSE '7' END, 'Dictionary(Int32, Utf8)') AS s \
                FROM generate_series(1, 9)";
    let both = Both::new(8192, 1, None);
    both.table("t", rows).await;
    for call in ["lag(s, 100)", "lag(s, 100, '8')", "lead(s)", "first_value(s)", "nth_value(s, 2)"] {
        let frame = "ORDER BY i ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING";
        both.check(&format!("SELECT i, CAST(w AS INT) AS w FROM (SELECT i, {call} OVER ({frame}) AS w FROM t)")).await;
    }
}

/// Results refer to the buffers of the text that they were made of, not to all of them for each window partition.
#[tokio::test]
async fn buffers_of_text_are_not_multiplied() {
    let rows = "SELECT value AS i, value / 3 AS p, arrow_cast(CASE WHEN value % 5 > 0 THEN concat('more than twelve bytes ', value) END, \
                'Utf8View') AS s FROM generate_series(1, 900)";
    let both = Both::new(100, 1, None);
    both.table("t", rows).await;
    let over = "OVER (PARTITION BY p ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)";
    for call in [
        "lag(s)",
        "lead(s, 1, 'another text of many bytes')",
        "lag(s) IGNORE NULLS",
        "lag(s, 1, 'another text of many bytes') IGNORE NULLS",
        "array_agg(s)",
        "max(s)",
        "first_value(s)",
    ] {
        let sql = format!("SELECT i, {call} {over} AS w FROM t");
        let plan = both.check(&sql).await;
        assert!(plan.contains("WindowExec: "), "{call}: {plan}");
        let plan = both.check(&format!("SELECT i, {call} OVER (PARTITION BY p) AS w FROM t")).await;
        assert!(plan.contains("WindowExec: "), "{call}: {plan}");
        for batch in both.batches(&sql).await {
            let results = batch.column(1);
            let text = results.as_list_opt::<i32>().map_or(results, |lists| lists.values());
            let buffers = text.as_string_view().data_buffers().len();
            assert!(buffers <= 32, "{call}: {buffers} buffers");
        }
    }
}
