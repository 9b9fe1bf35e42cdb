//! Outer joins that become inner and anti joins, and left joins in another order: the same rows, names and types.

mod common;

use common::Both;
use datafusion::prelude::SessionConfig;
use weld_plans::PlanOptions;

/// Orders with and without a customer, customers with and without an order, returns with NULLs in keys and values.
async fn tables(partitions: usize, join_order: bool) -> Both {
    let config = SessionConfig::new().with_target_partitions(partitions);
    let both = match join_order {
        true => Both::new(config, |_| PlanOptions {
            distinct_aggregates: false,
            distinct_sets: false,
            outer_joins: true,
            join_order: true,
            semi_joins: false,
            common_subplans: None,
            similar_subplans: false,
            key_filters: true,
            careful_pushdown: true,
            doubtful_orders: true,
        }),
        false => Both::new(config, |_| PlanOptions {
            distinct_aggregates: false,
            distinct_sets: false,
            outer_joins: true,
            join_order: false,
            semi_joins: false,
            common_subplans: None,
            similar_subplans: false,
            key_filters: false,
            careful_pushdown: true,
            doubtful_orders: true,
        }),
    };
    for (name, rows) in [
        (
            "sale",
            "SELECT v AS s_id, CASE WHEN v % 11 = 0 THEN NULL ELSE v % 300 END AS s_key, v % 30 AS s_day, v % 7 AS s_n
             FROM generate_series(0, 1999) AS g(v)",
        ),
        (
            "ret",
            "SELECT v * 3 AS r_id, CASE WHEN v % 5 = 0 THEN NULL ELSE v % 4 END AS r_reason,
                    CASE WHEN v % 13 = 0 THEN NULL ELSE v % 200 END AS r_key, CASE WHEN v % 2 = 0 THEN v END AS r_n
             FROM generate_series(0, 399) AS g(v)",
        ),
        ("reason", "SELECT v AS x_id, concat('x', v) AS x_name FROM generate_series(0, 2) AS g(v)"),
        ("day", "SELECT v AS d_id, v / 10 AS d_month FROM generate_series(0, 29) AS g(v)"),
        ("none", "SELECT v AS n_id, v AS n_key FROM generate_series(0, 5) AS g(v) WHERE v > 5"),
    ] {
        both.table(name, rows).await;
    }
    both
}

async fn check(sql: &str, has: &[&str], has_not: &[&str]) {
    for partitions in [1, 3] {
        for join_order in [false, true] {
            let plan = tables(partitions, join_order).await.check(sql).await;
            if !join_order {
                has.iter().for_each(|text| assert!(plan.contains(text), "{text}\n{sql}\n{plan}"));
                has_not.iter().for_each(|text| assert!(!plan.contains(text), "{text}\n{sql}\n{plan}"));
            }
        }
    }
}

const OUTER: [&str; 3] = ["join_type=Left,", "join_type=Right,", "join_type=Full,"];

#[tokio::test]
async fn a_key_of_another_join_rejects_null() {
    for sql in [
        "SELECT s_id, r_n, x_name FROM sale LEFT JOIN ret ON s_id = r_id JOIN reason ON r_reason = x_id",
        "SELECT s_id, x_name FROM reason JOIN (ret RIGHT JOIN sale ON s_id = r_id) ON r_reason = x_id",
        "SELECT s_id, x_name FROM sale LEFT JOIN ret ON s_id = r_id, reason WHERE r_reason + 0 = x_id",
        "SELECT s_id FROM sale LEFT JOIN ret ON s_id = r_id AND s_n < r_n WHERE r_reason IN (SELECT x_id FROM reason)",
        "SELECT s_id, x_name FROM (SELECT s_id, r_reason AS why FROM sale LEFT JOIN ret ON s_id = r_id ORDER BY s_id) AS t
         JOIN reason ON why = x_id",
        "SELECT n, x_name FROM (SELECT r_reason AS why, count(*) AS n FROM sale LEFT JOIN ret ON s_id = r_id
         GROUP BY r_reason) AS t JOIN reason ON why = x_id",
        "SELECT s_id, x_name FROM (SELECT s_id, r_reason AS why FROM sale LEFT JOIN ret ON s_id = r_id
         UNION ALL SELECT r_id, r_n FROM ret) AS t JOIN reason ON why = x_id",
        "SELECT a.s_id, b.s_id FROM sale a FULL JOIN ret ON a.s_id = r_id FULL JOIN sale b ON r_n = b.s_id
         JOIN reason ON r_reason = x_id JOIN day ON a.s_day = d_id AND b.s_day = d_id",
    ] {
        check(sql, &[], &OUTER).await;
    }
}

#[tokio::test]
async fn one_side_of_a_full_join_stays() {
    let sql = "SELECT s_id, r_id, d_month FROM sale FULL JOIN ret ON s_id = r_id JOIN day ON s_day = d_id";
    check(sql, &[], &["join_type=Full"]).await;
    let sql = "SELECT s_id, r_id, x_name FROM sale FULL JOIN ret ON s_id = r_id JOIN reason ON r_reason = x_id";
    check(sql, &[], &["join_type=Full"]).await;
}

#[tokio::test]
async fn what_keeps_null_keeps_the_outer_join() {
    for sql in [
        "SELECT s_id, x_name FROM sale LEFT JOIN ret ON s_id = r_id JOIN reason ON coalesce(r_reason, 1) = x_id",
        "SELECT s_id, x_name FROM sale LEFT JOIN ret ON s_id = r_id JOIN reason ON r_reason IS NOT DISTINCT FROM x_id",
        "SELECT s_id, x_name FROM sale LEFT JOIN ret ON s_id = r_id LEFT JOIN reason ON r_reason = x_id",
        "SELECT s_id FROM sale LEFT JOIN ret ON s_id = r_id
         WHERE NOT EXISTS (SELECT 1 FROM reason WHERE r_reason = x_id)",
        "SELECT s_id, x_name FROM (SELECT s_id, r_reason FROM sale LEFT JOIN ret ON s_id = r_id ORDER BY s_id LIMIT 100) AS t
         JOIN reason ON r_reason = x_id",
        "SELECT n, x_name FROM (SELECT max(r_reason) AS why, count(*) AS n FROM sale LEFT JOIN ret ON s_id = r_id
         GROUP BY s_n) AS t JOIN reason ON why = x_id",
    ] {
        for partitions in [1, 3] {
            let plan = tables(partitions, false).await.check(sql).await;
            assert!(OUTER.iter().any(|outer| plan.contains(outer)), "{sql}\n{plan}");
        }
        check(sql, &[], &[]).await;
    }
}

#[tokio::test]
async fn rows_without_a_match_are_an_anti_join() {
    for sql in [
        "SELECT s_id FROM sale LEFT JOIN ret ON s_id = r_id WHERE r_id IS NULL",
        "SELECT s_id, r_id, r_n FROM sale LEFT JOIN ret ON s_id = r_id AND s_key = r_key WHERE r_key IS NULL",
        "SELECT * FROM sale LEFT JOIN ret ON s_id = r_id AND s_n < r_n WHERE r_id IS NULL AND (s_n > 3 OR r_n IS NULL)",
        "SELECT * FROM sale LEFT JOIN ret ON s_id = r_id WHERE r_id IS NULL AND coalesce(r_n, 4) > 3",
        "SELECT s_day, count(*), count(r_n) FROM sale LEFT JOIN ret ON s_key = r_key WHERE r_key IS NULL GROUP BY s_day",
        "SELECT s_id, d_month FROM sale LEFT JOIN ret ON s_key = r_key JOIN day ON s_day = d_id
         WHERE r_key IS NULL AND d_month = 1",
        "SELECT r_id, s_id FROM sale RIGHT JOIN ret ON s_key = r_key WHERE s_key IS NULL",
        "SELECT s_id, n_id FROM sale LEFT JOIN none ON s_id = n_id WHERE n_id IS NULL",
        "SELECT n_id FROM none LEFT JOIN sale ON s_id = n_id WHERE s_id IS NULL",
    ] {
        check(sql, &["Anti"], &OUTER).await;
    }
}

#[tokio::test]
async fn a_value_that_may_be_null_in_a_match_says_nothing() {
    for sql in [
        "SELECT s_id, r_id FROM sale LEFT JOIN ret ON s_id = r_id WHERE r_n IS NULL",
        "SELECT s_id, r_id FROM sale LEFT JOIN ret ON s_key IS NOT DISTINCT FROM r_key WHERE r_key IS NULL",
        "SELECT s_id, r_id FROM sale LEFT JOIN ret ON s_id = r_id WHERE r_id IS NULL OR s_n = 2",
        "SELECT s_id, r_id FROM sale FULL JOIN ret ON s_id = r_id WHERE r_id IS NULL",
    ] {
        check(sql, &[], &["Anti"]).await;
    }
}

#[tokio::test]
async fn left_joins_move_behind_joins_that_drop_rows() {
    for sql in [
        "SELECT s_id, r_n, d_month FROM sale LEFT JOIN ret ON s_id = r_id JOIN day ON s_day = d_id WHERE d_month = 1",
        "SELECT s_id, coalesce(r_n, 0), d_month FROM sale LEFT JOIN ret ON s_id = r_id AND s_key = r_key
         JOIN day ON s_day = d_id WHERE d_month = 1 AND s_n = 2 AND (r_n IS NULL OR r_n > s_n)",
        "SELECT s_id, r_n, n_id FROM sale LEFT JOIN ret ON s_key = r_key LEFT JOIN none ON s_id = n_id
         JOIN day ON s_day = d_id WHERE d_month = 1 AND coalesce(n_id, 1) > 0",
        "SELECT s_id, r_n FROM sale LEFT JOIN ret ON s_key = r_key JOIN day ON s_day = d_id
         WHERE d_month = 1 AND s_id IN (SELECT x_id * 40 FROM reason) AND s_id NOT IN (SELECT d_id FROM day WHERE d_id > 40)",
        "SELECT s_id, r_n, x_name FROM sale LEFT JOIN (ret JOIN reason ON r_reason = x_id) ON s_key = r_key
         JOIN day ON s_day = d_id AND d_month < s_n WHERE d_month = 1",
        "SELECT s_id, r_n, x_name FROM sale LEFT JOIN ret ON s_key = r_key LEFT JOIN reason ON r_reason = x_id
         JOIN day ON s_day = d_id WHERE d_month = 1",
    ] {
        check(sql, &[], &[]).await;
    }
}
