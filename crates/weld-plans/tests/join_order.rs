//! Joins in another order: the same rows, names and types, and fewer rows on the way.

mod common;

use std::fmt::Write;

use common::Both;
use datafusion::prelude::SessionConfig;
use weld_plans::PlanOptions;

fn both(partitions: usize) -> Both {
    let config = SessionConfig::new().with_target_partitions(partitions);
    Both::new(config, |_| PlanOptions {
        distinct_aggregates: false,
        distinct_sets: false,
        outer_joins: false,
        join_order: true,
        semi_joins: true,
        common_subplans: None,
        similar_subplans: false,
        key_filters: false,
        careful_pushdown: true,
        doubtful_orders: true,
    })
}

/// A fact table of 20,000 rows, two dimensions of 1,000, one of 10 behind the first.
async fn star(partitions: usize) -> Both {
    let both = both(partitions);
    both.table(
        "fact",
        "SELECT v AS f_key, v % 1000 AS f_a, v * 7 % 1000 AS f_b, v % 13 AS f_n FROM generate_series(0, 19999) AS g(v)",
    )
    .await;
    both.table(
        "a",
        "SELECT v AS a_key, v % 10 AS a_region, concat('a', v) AS a_name FROM generate_series(0, 999) AS g(v)",
    )
    .await;
    both.table(
        "b",
        "SELECT v AS b_key, CASE WHEN v % 3 = 0 THEN NULL ELSE v END AS b_n FROM generate_series(0, 999) AS g(v)",
    )
    .await;
    both.table("region", "SELECT v AS r_key, concat('r', v) AS r_name FROM generate_series(0, 9) AS g(v)").await;
    both
}

fn position(plan: &str, text: &str) -> usize {
    plan.find(text).unwrap_or_else(|| panic!("no {text} in\n{plan}"))
}

#[tokio::test]
async fn the_filtered_dimension_comes_first() {
    for partitions in [1, 3] {
        let both = star(partitions).await;
        let sql = "SELECT f_key, r_name, b_n FROM fact JOIN b ON f_b = b_key JOIN a ON f_a = a_key
                   JOIN region ON a_region = r_key WHERE r_name = 'r3'";
        let plan = both.check(sql).await;
        // The region's rows are joined with `a` before the fact table is.
        assert!(position(&plan, "on=[(r_key@0, a_region@1)]") < plan.len());
        assert!(!plan.contains("Cross"), "{plan}");
    }
}

/// A calendar of a hundred years, of which two have sales: whoever asks for a year may mean one of them.
#[tokio::test]
async fn few_values_of_a_primary_key_are_met() {
    for partitions in [1, 3] {
        let both = both(partitions);
        both.table("day", "SELECT v AS d_id, v / 100 AS d_year FROM generate_series(0, 9999) AS g(v)").await;
        both.table("item", "SELECT v AS i_id, v % 7 AS i_n FROM generate_series(0, 499) AS g(v)").await;
        both.table(
            "sale",
            "SELECT CASE WHEN v % 17 = 0 THEN NULL ELSE 400 + v % 200 END AS s_day, v % 500 AS s_item, v AS s_id
             FROM generate_series(0, 19999) AS g(v)",
        )
        .await;
        let sql = "SELECT i_n, s_id FROM sale JOIN day ON s_day = d_id JOIN item ON s_item = i_id WHERE d_year = 4";
        let plan = both.check(sql).await;
        assert!(plan.contains("on=[(i_id@0, s_item@"), "{plan}");
        // Of a range of days it is known that they are among those.
        let sql = "SELECT i_n, s_id FROM sale JOIN day ON s_day = d_id JOIN item ON s_item = i_id
                   WHERE d_id BETWEEN 410 AND 411";
        let plan = both.check(sql).await;
        assert!(plan.contains(", i_id@0)]"), "{plan}");
        for year in [-1, 99] {
            both.check(&format!(
                "SELECT i_n FROM sale JOIN day ON s_day = d_id JOIN item ON s_item = i_id WHERE d_year = {year}"
            ))
            .await;
        }
    }
}

/// Numbers without an order, a few of them in many rows: their range has room for one a row.
#[tokio::test]
async fn values_of_large_tables_come_again() {
    for (id, seen) in [("(v * 7919) % 1000003 * 1000", "k * 1001 * 7919"), ("concat('id', v)", "concat('user', k)")] {
        let both = both(2);
        both.table("seen", &format!(
            "SELECT {id} AS s_id, {seen} AS s_user FROM (SELECT v, v * v % 40 AS k FROM generate_series(0, 19999) AS g(v))"
        ))
        .await;
        both.table("click", &format!("SELECT {id} AS c_id, v AS c_n FROM generate_series(0, 19999, 100) AS g(v)"))
            .await;
        // Of each user's rows those are joined that were clicked at.
        let sql = "SELECT a.c_n, b.c_n FROM click a JOIN seen s ON a.c_id = s.s_id JOIN seen t ON s.s_user = t.s_user
                   JOIN click b ON b.c_id = t.s_id WHERE a.c_n < b.c_n";
        let plan = both.check(sql).await;
        let (by_user, by_id) = (position(&plan, "on=[(s_user@"), position(&plan, "on=[(c_id@"));
        assert!(by_user < by_id, "{plan}");
    }
}

/// Joins whose keys are of the other side of a left join, and full joins, build the smaller side.
#[tokio::test]
async fn outer_joins_build_the_smaller_side() {
    for partitions in [1, 2] {
        let both = star(partitions).await;
        both.table("wide", "SELECT v AS w_key, repeat('wide', 50) AS w_text FROM generate_series(0, 7999) AS g(v)")
            .await;
        // Of inner joins over tables in memory DataFusion does not know the size, and this one is too large to be collected.
        let chain = "FROM fact JOIN b ON f_b = b_key LEFT JOIN a ON f_a = a_key AND f_n < 3 LEFT JOIN";
        let plan = both.check(&format!("SELECT f_key, a_name, w_text {chain} wide ON a_region = w_key")).await;
        assert!(plan.contains("join_type=Right, on=[(w_key@"), "{plan}");
        let joined = "(SELECT f_n AS k, b_n FROM fact JOIN b ON f_b = b_key) FULL JOIN region ON k = r_key";
        let plan = both.check(&format!("SELECT k, b_n, r_name FROM {joined}")).await;
        assert!(plan.contains("join_type=Full, on=[(r_key@"), "{plan}");
        // Without a row on the left nothing would be divided.
        let divided = "(SELECT w_key, w_text, 100 / (w_key - 4) AS q FROM wide WHERE w_key <> 4)";
        let plan = both.check(&format!("SELECT f_key, a_name, w_text, q {chain} {divided} ON a_region = w_key")).await;
        assert!(plan.contains("join_type=Left, on=[(a_region@"), "{plan}");
    }
}

/// A condition that widens types is asked of any rows: the semi join, which drops most of them, comes first.
#[tokio::test]
async fn casts_that_cannot_fail_are_asked_of_other_rows() {
    for partitions in [1, 3] {
        let both = star(partitions).await;
        let sql = "SELECT f_key, a_name, b_n FROM fact JOIN a ON f_a = a_key JOIN b ON f_b = b_key
                   WHERE EXISTS (SELECT 1 FROM region WHERE r_key = f_n AND CAST(f_key AS DOUBLE) > CAST(r_key AS DOUBLE) * 1e3)";
        both.check(sql).await;
    }
}

#[tokio::test]
async fn columns_may_be_renamed_between_joins() {
    let both = star(1).await;
    for sql in [
        "SELECT a_name FROM (SELECT f_a AS x FROM fact WHERE f_key IN (SELECT b_key FROM b WHERE b_n < 5)) JOIN a
         ON x = a_key WHERE a_region = 3",
        "SELECT y FROM (SELECT f_a AS x, f_b AS y FROM fact JOIN b ON f_b = b_key) JOIN a ON x = a_key AND y <= a_region
         JOIN region ON a_region = r_key WHERE r_name = 'r3'",
    ] {
        both.check(sql).await;
    }
}

#[tokio::test]
async fn semi_joins_move_to_the_side_that_they_keep() {
    let both = star(1).await;
    for sql in [
        "SELECT f_key, a_name FROM fact JOIN a ON f_a = a_key WHERE f_key IN (SELECT b_key FROM b WHERE b_n < 5)",
        "SELECT f_key, a_name FROM fact JOIN a ON f_a = a_key WHERE f_key NOT IN (SELECT b_key FROM b) AND f_n = 3",
        "SELECT f_key FROM fact JOIN a ON f_a = a_key WHERE EXISTS (SELECT 1 FROM b WHERE b_key = f_b AND b_n > a_region)",
        "SELECT f_key FROM fact JOIN a ON f_a = a_key WHERE NOT EXISTS (SELECT 1 FROM b WHERE b_key = f_b AND b_n > f_n)",
        "SELECT f_key FROM fact, a, b WHERE f_a = a_key AND f_b = b_key AND f_key IN (SELECT r_key FROM region)
           AND a_key NOT IN (SELECT r_key + 3 FROM region) AND (a_region < f_n OR b_n IS NULL)",
    ] {
        both.check(sql).await;
    }
}

/// Twenty rows that are kept are fewer than a thousand groups, but for their estimate by not enough; the rows that are
/// grouped count.
#[tokio::test]
async fn what_is_kept_is_built_where_the_other_side_is_grouped() {
    let both = both(1);
    both.counted_table("fact", "SELECT v % 1000 AS f_a, v % 13 AS f_n FROM generate_series(0, 19999) AS g(v)").await;
    both.counted_table("a", "SELECT v AS a_key, concat('a', v) AS a_name FROM generate_series(0, 999) AS g(v)").await;
    let sql = "SELECT sum(f_n) FROM fact, a WHERE f_a = a_key AND a_name = 'a7'
               AND f_n < (SELECT avg(f_n) FROM fact x WHERE x.f_a = a_key)";
    let plan = both.check(sql).await;
    assert!(plan.contains("join_type=LeftSemi"), "{plan}");
}

/// Two columns of one relation that are compared with the same column are equal, too.
#[tokio::test]
async fn columns_of_one_relation_that_equal_the_same() {
    for partitions in [1, 3] {
        let both = star(partitions).await;
        for sql in [
            "SELECT f_key FROM fact JOIN a ON f_a = a_key AND f_b = a_key",
            "SELECT f_key, b_n FROM a JOIN fact ON f_a = a_key AND f_n = a_key JOIN b ON f_b = b_key",
            "SELECT f_key, a_name FROM fact JOIN a ON f_a = a_key JOIN b ON f_a = b_key AND f_a = b_n JOIN region ON r_key = b_n",
            "SELECT r_name FROM region JOIN fact ON f_a = r_key AND f_b = r_key AND f_n = r_key",
            "SELECT a_name FROM a WHERE EXISTS (SELECT 1 FROM fact WHERE f_a = a_key AND f_b = a_key)",
        ] {
            both.check(sql).await;
        }
    }
}

#[tokio::test]
async fn what_may_fail_is_not_asked_of_other_rows() {
    let both = star(1).await;
    // As written the division meets the rows of one region only, none of which has f_n = 0.
    let sql = "SELECT f_key FROM (SELECT f_key, f_n, b_n, f_b FROM fact JOIN b ON f_b = b_key AND f_n = 1) JOIN a ON f_b = a_key
               JOIN region ON a_region = r_key WHERE r_name = 'r1' AND b_n / (f_n * f_n) > 2";
    both.check(sql).await;
}

/// What is not run as written, since what is built before it has no row, is not run in another order.
#[tokio::test]
async fn what_may_fail_is_not_run_where_it_would_not() {
    for partitions in [1, 3] {
        let both = star(partitions).await;
        let fails = "(SELECT f_a, 10 / (f_key - 5) AS q FROM fact WHERE f_key < 10)";
        for sql in [
            "SELECT q FROM a JOIN (SELECT b_key, 10 / (b_key - 5) AS q FROM b WHERE b_key < 20) ON b_key = a_region
             WHERE a_name LIKE '%zz%'",
            &format!(
                "SELECT q FROM a JOIN {fails} ON f_a = a_key JOIN region ON r_key = a_region WHERE a_name LIKE '%zz%'"
            ),
            &format!(
                "SELECT q FROM region JOIN a ON r_key = a_region JOIN {fails} ON f_a = a_key WHERE r_name LIKE '%zz%'"
            ),
            &format!("SELECT q FROM {fails} WHERE f_a IN (SELECT a_key FROM a WHERE a_name LIKE '%zz%')"),
            &format!("SELECT a_key, q FROM a LEFT JOIN {fails} ON f_a = a_key WHERE a_name LIKE '%zz%'"),
            &format!(
                "SELECT a_key, q FROM a LEFT JOIN {fails} ON f_a = a_key JOIN region ON r_key = a_region
                 WHERE a_name LIKE '%zz%'"
            ),
        ] {
            both.check(sql).await;
        }
    }
}

/// DataFusion plans by recursion: in a debug build large queries take more stack than a test has.
fn with_stack<F: Future + 'static>(run: fn() -> F) {
    let run = move || drop(tokio::runtime::Runtime::new().expect("a runtime").block_on(run()));
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(run).expect("a thread");
    thread.join().expect("no panic");
}

#[test]
fn ten_relations_and_forty() {
    with_stack(many_relations);
}

async fn many_relations() {
    let both = star(1).await;
    let mut sql = "SELECT count(*) FROM fact".to_owned();
    for n in 0..9 {
        write!(sql, " JOIN region r{n} ON f_n = r{n}.r_key").expect("a string");
    }
    both.check(&sql).await;
    // Too many pairs to look at: greedily.
    for n in 9..40 {
        write!(sql, " JOIN region r{n} ON r{}.r_key = r{n}.r_key", n - 1).expect("a string");
    }
    both.check(&sql).await;
}

/// Keys of two types: DataFusion computes the casts above all that was joined before.
#[tokio::test]
async fn casts_of_keys_do_not_part_joins() {
    for partitions in [1, 3] {
        let both = star(partitions).await;
        both.table("small", "SELECT CAST(r_key AS INT) AS s_key, r_name AS s_name FROM region").await;
        both.table("late", "SELECT CAST(v AS INT) AS l_key, v % 7 AS l_n FROM generate_series(0, 99) AS g(v)").await;
        for sql in [
            "SELECT f_key, s_name FROM small JOIN fact ON f_n = s_key JOIN late ON l_key = s_key AND l_n < 3
             JOIN a ON a_key = l_key AND a_region > s_key WHERE f_key < 500",
            "SELECT s_key, l_key FROM fact LEFT JOIN late ON f_n = l_key JOIN small ON f_n = s_key AND s_name < 'r2'
             WHERE f_n IN (SELECT s_key FROM small WHERE s_name > 'r0')",
            "SELECT DISTINCT s_name FROM late JOIN small ON l_key = s_key JOIN fact ON f_n = l_key AND f_a > s_key
             JOIN b ON b_key = l_key WHERE b_n > 1",
        ] {
            both.check(sql).await;
        }
        // A cast stands above the first join as it is written, which is to be the last.
        let sql =
            "SELECT f_key, s_name FROM small JOIN late ON l_key = s_key JOIN fact ON f_n = l_key JOIN b ON f_b = b_key
                   WHERE b_n > 990";
        let plan = both.check(sql).await;
        assert!(plan.contains("as CAST(late.l_key AS Int64)]\n        DataSourceExec"), "{plan}");
    }
}

/// Each level has a cast between joins that stay in their order: looked at twice each, they would be a million.
#[test]
fn nested_queries_are_looked_at_once() {
    with_stack(nested_queries);
}

async fn nested_queries() {
    let both = both(1);
    both.table("small", "SELECT CAST(v AS INT) AS s_key FROM generate_series(0, 2) AS g(v)").await;
    both.table("wide", "SELECT v AS w_key FROM generate_series(0, 2) AS g(v)").await;
    let mut sql = "SELECT s_key AS k FROM small".to_owned();
    for level in 0..20 {
        sql = format!(
            "SELECT CAST(max(q{level}.k) AS INT) AS k FROM ({sql}) q{level} JOIN small s{level} ON s{level}.s_key = q{level}.k
             JOIN wide w{level} ON w{level}.w_key = s{level}.s_key GROUP BY q{level}.k"
        );
    }
    both.check(&sql).await;
}

/// `a` has ten rows for each region, `fact` twenty for each of `a`.
#[tokio::test]
async fn joins_that_only_ask_for_a_match_are_semi_joins() {
    for partitions in [1, 3] {
        let both = star(partitions).await;
        for sql in [
            "SELECT DISTINCT a_name FROM fact JOIN a ON f_a = a_key",
            "SELECT min(a_name), max(a_region), bool_and(a_region < 9) FROM fact JOIN a ON f_a = a_key WHERE f_n < 12",
            "SELECT a_region, count(DISTINCT a_name), min(a_key) FROM a JOIN fact ON f_a = a_key GROUP BY a_region",
            "SELECT r_name FROM region WHERE r_key IN (SELECT a_region FROM a JOIN fact ON f_a = a_key)",
            "SELECT r_name FROM region WHERE NOT EXISTS
               (SELECT 1 FROM a JOIN fact ON f_a = a_key WHERE a_region = r_key AND f_n > 3)",
            // What is read of one side equals a column of the other.
            "SELECT DISTINCT f_a, a_name FROM fact JOIN a ON f_a = a_key",
            "SELECT DISTINCT a_name FROM a JOIN fact ON f_a = a_key AND f_key > a_region ORDER BY a_name LIMIT 3",
            "SELECT DISTINCT a_name FROM (SELECT a_name FROM a JOIN fact ON f_a = a_key
                                          UNION ALL SELECT a_name FROM a JOIN fact ON f_b = a_key)",
            "SELECT DISTINCT a_name FROM fact JOIN a ON f_a = a_key JOIN b ON f_b = b_key WHERE b_n > 990",
        ] {
            let plan = both.check(sql).await;
            assert!(plan.contains("Semi, on="), "{sql}\n{plan}");
        }
        // How skewed keys are is not known, only that they need not be unique.
        both.table(
            "skewed",
            "SELECT CASE WHEN v < 800 THEN 7 ELSE v END AS s_key FROM generate_series(0, 899) AS g(v)",
        )
        .await;
        for sql in [
            "SELECT DISTINCT a_name FROM a JOIN skewed ON a_key = s_key",
            "SELECT min(a_name) FROM skewed JOIN a ON a_key = s_key",
        ] {
            let plan = both.check(sql).await;
            assert!(plan.contains("Semi, on="), "{sql}\n{plan}");
        }
        for sql in [
            "SELECT count(a_name) FROM fact JOIN a ON f_a = a_key",
            "SELECT min(a_name), count(*) FROM fact JOIN a ON f_a = a_key",
            "SELECT a_region, sum(DISTINCT a_key), sum(a_key) FROM fact JOIN a ON f_a = a_key GROUP BY a_region",
            "SELECT DISTINCT a_name, f_n FROM fact JOIN a ON f_a = a_key",
            "SELECT DISTINCT a_name FROM (SELECT a_name FROM fact JOIN a ON f_a = a_key ORDER BY a_name, f_key LIMIT 30)",
            "SELECT DISTINCT n FROM (SELECT row_number() OVER (ORDER BY a_key) AS n FROM fact JOIN a ON f_a = a_key)",
            "SELECT count(DISTINCT r > 2) FROM (SELECT random() AS r FROM fact JOIN a ON f_a = a_key)",
        ] {
            let plan = both.check(sql).await;
            assert!(!plan.contains("Semi, "), "{sql}\n{plan}");
        }
    }
}

/// Random graphs: chains, stars and cycles with filters, semi and anti joins, over columns with nulls and duplicates.
#[tokio::test]
async fn random_joins_give_the_same_rows() {
    let both = both(2);
    for (table, rows) in [("t0", 60), ("t1", 30), ("t2", 7), ("t3", 40), ("t4", 1)] {
        // Keys of two types are compared by casts.
        let key = if rows > 30 { "CAST(v % 11 AS INT)" } else { "v % 11" };
        let sql = format!(
            "SELECT {key} AS x, CASE WHEN v % 5 = 0 THEN NULL ELSE v % 7 END AS y, v AS z, concat('s', v % 3) AS s
             FROM generate_series(1, {rows}) AS g(v)"
        );
        both.table(table, &sql).await;
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    };
    for _ in 0..40 {
        let count = 2 + random(4);
        let column = |n: u64| ["x", "y", "z", "s"][n as usize];
        let mut from = "t1 a0".to_owned();
        for n in 1..count {
            let (other, key) = (random(n), column(random(4)));
            write!(from, " JOIN t{} a{n} ON a{n}.{key} = a{other}.{key}", random(5)).expect("a string");
            if key != "s" && random(4) == 0 {
                write!(from, " AND a{n}.{} = a{other}.{key}", column(random(3))).expect("a string");
            }
            if random(3) == 0 {
                write!(from, " AND a{n}.z >= a{}.x", random(n)).expect("a string");
            }
        }
        let mut sql = format!(
            "SELECT count(*), sum(a0.z), min(a{}.s), max(a{}.y) FROM {from} WHERE a{}.z > {}",
            count - 1,
            random(count),
            random(count),
            random(30)
        );
        if random(2) == 0 {
            let not = if random(2) == 0 { "NOT " } else { "" };
            let of = random(count);
            write!(sql, " AND {not}EXISTS (SELECT 1 FROM t{} e WHERE e.x = a{of}.x AND e.z <> a{of}.z)", random(4))
                .expect("a string");
        }
        both.check(&sql).await;
        // The same rows as a set, of which few columns are read.
        let conditions = &sql[sql.find(" FROM ").expect("a clause")..];
        let (a, b) = (random(count), random(count));
        let (x, y) = (column(random(4)), column(random(4)));
        for selected in [
            format!("SELECT min(a{a}.{x}), max(a{a}.{y})"),
            format!("SELECT DISTINCT a{a}.{x} AS x, a{b}.{y} AS y"),
            format!("SELECT count(DISTINCT a{a}.{x}), min(a{b}.{y})"),
            format!("SELECT count(*), sum(q.z) FROM t0 q WHERE q.x IN (SELECT a{a}.y"),
        ] {
            let closing = if selected.contains(" IN (") { ")" } else { "" };
            both.check(&format!("{selected}{conditions}{closing}")).await;
        }
    }
}
