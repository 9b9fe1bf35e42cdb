//! Every optimizer pass can be left out, alone and with any other, and so can each way of running loops: every query
//! still runs.

use weld_codegen::FastPath;

use crate::common::{Engines, config};

const QUERIES: [&str; 7] = [
    "SELECT k, s FROM t WHERE k > 10 AND d < 50.0",
    "SELECT k * 2 + 1 AS x, upper(s) FROM t WHERE s LIKE '%1%'",
    "SELECT g, count(*), sum(d), min(k), avg(d) FROM t WHERE k > 5 GROUP BY g",
    "SELECT sum(d * (1 - d)), count(n) FROM t",
    "SELECT t.k, u.s FROM t JOIN u ON t.k = u.k WHERE u.g > 2",
    "SELECT u.g, count(*), sum(t.d) FROM t JOIN u ON t.g = u.g WHERE t.k > u.k GROUP BY u.g",
    "SELECT k FROM t WHERE k IN (SELECT k FROM u WHERE g = 3) AND n IS NOT NULL",
];

async fn engines() -> Engines {
    let engines = Engines::new(config(2).with_batch_size(64));
    let columns =
        "v AS k, v % 7 AS g, CAST(v AS DECIMAL(10, 2)) AS d, concat('text number ', CAST(v % 13 AS VARCHAR)) AS s,
                   CASE WHEN v % 3 = 0 THEN NULL ELSE v END AS n";
    engines.table_from("t", &format!("SELECT {columns} FROM generate_series(1, 300) AS g(v)"), 100).await;
    engines.table_from("u", &format!("SELECT {columns} FROM generate_series(1, 150) AS g(v)"), 40).await;
    engines
}

async fn check(engines: &Engines, expected: &[Vec<String>], passes: &str) -> usize {
    engines.weld.sql(&format!("SET weld.disabled_passes = '{passes}'")).await.expect("known passes");
    let mut fallbacks = 0;
    for (sql, expected) in QUERIES.iter().zip(expected) {
        let run = engines.run(sql).await.unwrap_or_else(|error| panic!("without {passes}: {sql}\n{error}"));
        assert_eq!(run.rows, *expected, "without {passes}: {sql}");
        fallbacks += run.fallbacks;
    }
    fallbacks
}

async fn expected(engines: &Engines) -> Vec<Vec<String>> {
    let mut expected = Vec::new();
    for sql in QUERIES {
        expected.push(engines.stock_rows(sql).await.expect("it runs"));
    }
    expected
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_pass_can_be_left_out() {
    let engines = engines().await;
    engines.weld.sql("SET weld.opt_level = 0").await.expect("a setting");
    let expected = expected(&engines).await;
    for pass in weld_core::opt::pass_names().into_iter().chain(FastPath::ALL.map(FastPath::name)) {
        let fallbacks = check(&engines, &expected, pass).await;
        println!("without {pass}: {fallbacks} fallbacks");
    }
    let all: Vec<&str> = weld_core::opt::pass_names().into_iter().collect();
    println!("without any: {} fallbacks", check(&engines, &expected, &all.join(",")).await);
}

/// Pairs: those with the passes that all others build on. `WELD_PASS_PAIRS=all` tries every pair.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pairs_of_passes_can_be_left_out() {
    let engines = engines().await;
    engines.weld.sql("SET weld.opt_level = 0").await.expect("a setting");
    let expected = expected(&engines).await;
    let passes: Vec<&str> = weld_core::opt::pass_names().into_iter().collect();
    let all = std::env::var("WELD_PASS_PAIRS").is_ok_and(|value| value == "all");
    let basic = ["fuse-loops", "inline-lets"];
    for (index, first) in passes.iter().enumerate() {
        for second in &passes[index + 1..] {
            if all || basic.contains(first) || basic.contains(second) {
                check(&engines, &expected, &format!("{first},{second}")).await;
            }
        }
    }
}
