//! Queries of one shape share their code, whatever their constants, and give what stock DataFusion gives.

mod common;

use std::sync::Arc;

use common::{Engines, config, session};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use datafusion::prelude::SessionContext;
use weld_datafusion::{CodeCache, WeldSessionExt, pipelines};

const COLUMNS: &str = "
    CAST(v % 100 - 50 AS TINYINT) AS i8, CAST(v - 150 AS SMALLINT) AS i16, CAST(v AS INT) AS i32, v AS i64,
    CAST(v % 200 AS TINYINT UNSIGNED) AS u8, CAST(v AS SMALLINT UNSIGNED) AS u16, CAST(v AS INT UNSIGNED) AS u32,
    CAST(v AS BIGINT UNSIGNED) AS u64,
    CASE v % 5 WHEN 0 THEN CAST('NaN' AS DOUBLE) WHEN 1 THEN -0.0e0 WHEN 2 THEN 0.0e0 ELSE v / 4.0e0 END AS f64,
    CAST(v / 4.0e0 AS REAL) AS f32,
    CAST(v AS DECIMAL(10, 2)) AS d, CAST(v AS DECIMAL(38, 4)) * 1000000000000000000 AS wide,
    DATE '2001-01-01' + CAST(v AS INT) AS day, arrow_cast(978307200000000000 + v * 3600000000000, 'Timestamp(Nanosecond, None)') AS at,
    arrow_cast(CASE v % 7 WHEN 0 THEN '' WHEN 1 THEN 'Books' ELSE concat('text ', CAST(v AS VARCHAR)) END, 'Utf8View') AS s,
    CASE WHEN v % 3 = 0 THEN NULL ELSE v END AS n, v % 2 = 0 AS b";

fn engines_with(config: &SessionConfig, cache: &Arc<CodeCache>) -> Engines {
    let builder = SessionStateBuilder::new().with_config(config.clone()).with_default_features();
    let weld = SessionContext::new_with_state(builder.with_weld_sharing(Arc::clone(cache)).build());
    Engines { stock: session(config.clone(), false), weld }
}

async fn engines(partitions: usize, cache: &Arc<CodeCache>) -> Engines {
    let engines = engines_with(&config(partitions), cache);
    engines.table_from("t", &format!("SELECT {COLUMNS} FROM generate_series(1, 300) AS g(v)"), 100).await;
    engines.table_from("u", "SELECT v AS k, v % 9 AS g FROM generate_series(1, 200) AS g(v)", 60).await;
    engines
}

/// How many programs are compiled for the query.
async fn misses(engines: &Engines, cache: &CodeCache, sql: &str) -> u64 {
    let before = cache.statistics().misses;
    engines.check(sql, 1).await;
    cache.statistics().misses - before
}

/// For each column's type: constants of one shape.
const CONSTANTS: [(&str, &[&str]); 17] = [
    ("i8", &["CAST(5 AS TINYINT)", "CAST(-50 AS TINYINT)", "CAST(0 AS TINYINT)"]),
    ("i16", &["CAST(5 AS SMALLINT)", "CAST(-150 AS SMALLINT)"]),
    ("i32", &["CAST(5 AS INT)", "CAST(-1 AS INT)"]),
    ("i64", &["5", "299", "-9223372036854775807"]),
    ("u8", &["CAST(5 AS TINYINT UNSIGNED)", "CAST(199 AS TINYINT UNSIGNED)"]),
    ("u16", &["CAST(5 AS SMALLINT UNSIGNED)", "CAST(65535 AS SMALLINT UNSIGNED)"]),
    ("u32", &["CAST(5 AS INT UNSIGNED)", "CAST(4294967295 AS INT UNSIGNED)"]),
    ("u64", &["CAST(5 AS BIGINT UNSIGNED)", "CAST(299 AS BIGINT UNSIGNED)"]),
    ("f64", &["0.0e0", "-0.0e0", "CAST('NaN' AS DOUBLE)", "CAST('-inf' AS DOUBLE)", "7.5e0"]),
    ("f32", &["CAST(7.5 AS REAL)", "CAST(0 AS REAL)", "CAST('NaN' AS REAL)"]),
    ("d", &["5.00", "299.01", "-1.50"]),
    ("wide", &["CAST(5 AS DECIMAL(38, 4)) * 1000000000000000000", "CAST(7 AS DECIMAL(38, 4)) * 1000000000000000000"]),
    ("day", &["DATE '2001-02-03'", "DATE '1960-01-01'"]),
    ("at", &["TIMESTAMP '2001-01-03T04:00:00'", "TIMESTAMP '1960-01-01T00:00:00'"]),
    ("s", &["'Books'", "'Other'"]),
    ("s", &["'text 10'", "'text 20'"]),
    ("n", &["7", "8"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_shape_is_compiled_once() {
    let cache = Arc::new(CodeCache::default());
    let engines = engines(2, &cache).await;
    for (column, constants) in CONSTANTS {
        for op in ["=", "<", ">=", "<>"] {
            for (index, constant) in constants.iter().enumerate() {
                let sql = format!("SELECT i64 + 1, {column} FROM t WHERE {column} {op} {constant}");
                let misses = misses(&engines, &cache, &sql).await;
                assert_eq!(misses > 0, index == 0, "{sql}: {misses} programs");
            }
        }
    }
}

/// Strings of every length around those that a view holds; NULL is no constant that could be another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strings_of_every_length() {
    for tiers in ["auto", "optimised", "alternate"] {
        let cache = Arc::new(CodeCache::default());
        let engines = engines(1, &cache).await;
        engines.weld.sql(&format!("SET weld.tiers = '{tiers}'")).await.expect("a setting");
        let all =
            "SELECT substr('abcdefghijklmnopq', 1, CAST(v % 16 AS INT)) AS p, v FROM generate_series(0, 63) AS g(v)";
        engines.table_from("p", all, 10).await;
        for len in (0..16).step_by(if tiers == "auto" { 1 } else { 5 }) {
            let text = &"abcdefghijklmnop"[..len];
            engines.check(&format!("SELECT v FROM p WHERE p = '{text}' OR p > '{text}'"), 1).await;
        }
        for list in ["'', 'a', 'abc'", "'abcd', '', 'abcdefghijklm', 'no', 'ab'", "'abcdefghijkl', NULL"] {
            engines.check(&format!("SELECT v FROM p WHERE p IN ({list})"), 1).await;
            engines.check(&format!("SELECT v FROM p WHERE p NOT IN ({list})"), 1).await;
        }
    }
}

/// Constants in other places than conditions, which stay, and lists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_decides_about_the_code_stays_a_constant() {
    let cache = Arc::new(CodeCache::default());
    let engines = engines(2, &cache).await;
    let shapes: [(&str, &[&str], bool); 8] = [
        ("SELECT i64 * {} FROM t", &["2", "3"], false),
        ("SELECT i64 FROM t WHERE i64 % {} = 1", &["2", "3"], false),
        ("SELECT i64 FROM t WHERE s LIKE '{}%'", &["te", "Bo"], false),
        ("SELECT i64 FROM t WHERE i64 IN ({})", &["1, 2, 3", "7, 8, 999"], true),
        ("SELECT i64 FROM t WHERE i64 IN ({})", &["1, 2, 3, 4, 5", "7, 8, 999, 10, 3"], false),
        ("SELECT i64 FROM t WHERE s IN ({})", &["'text 1', 'Books', '', 'x'", "'text 2', 'Other', '', 'y'"], true),
        ("SELECT CASE WHEN i64 > {} THEN 1 ELSE 2 END FROM t", &["20", "30"], true),
        (
            "SELECT b, sum(d) FROM t WHERE day < DATE '2001-{}' GROUP BY b HAVING sum(d) > 100",
            &["02-01", "03-01"],
            true,
        ),
    ];
    for (sql, constants, is_shared) in shapes {
        for (index, constant) in constants.iter().enumerate() {
            let sql = sql.replace("{}", constant);
            let misses = misses(&engines, &cache, &sql).await;
            assert_eq!(misses == 0, index > 0 && is_shared, "{sql}: {misses} programs");
        }
    }
}

fn counted(plan: &Arc<dyn ExecutionPlan>, metric: &str) -> usize {
    let of = |exec: &weld_datafusion::WeldExec| Some(exec.metrics()?.sum_by_name(metric)?.as_usize());
    pipelines(plan).iter().filter_map(of).sum()
}

/// A query that reads one table several times over, with other constants: its pipelines are compiled at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelines_that_differ_in_constants_are_compiled_once() {
    let part = |from: i64| {
        format!("SELECT count(*) AS c, sum(d) AS x FROM t WHERE i64 BETWEEN {from} AND {} AND n > {from}", from + 20)
    };
    let sql = (0..8).map(|number| part(number * 30)).collect::<Vec<_>>().join(" UNION ALL ");
    let cache = Arc::new(CodeCache::default());
    let engines = engines(2, &cache).await;
    let alone = misses(&engines, &cache, &part(3)).await;
    let cache = Arc::new(CodeCache::default());
    let engines = self::engines(2, &cache).await;
    // They would be one aggregate.
    engines.weld.sql("SET weld.similar_subplans = false").await.expect("a setting");
    let plan = engines.weld.sql(&sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
    collect(Arc::clone(&plan), engines.weld.task_ctx()).await.expect("it runs");
    assert_eq!(counted(&plan, "cache_misses") as u64, alone);
    assert_eq!(counted(&plan, "cache_hits") as u64, alone * 7);
    assert_eq!(cache.statistics().misses, alone);
    engines.check(&sql, 1).await;
}

/// Sessions that share a cache and run at the same time compile a program once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_share_code() {
    let cache = Arc::new(CodeCache::default());
    let sql =
        |k: i64| format!("SELECT g, count(*), sum(d) FROM t JOIN u ON i64 = k WHERE u.g > 2 AND i64 < {k} GROUP BY g");
    let alone = {
        let cache = Arc::new(CodeCache::default());
        let engines = engines(1, &cache).await;
        misses(&engines, &cache, &sql(100)).await
    };
    let mut tasks = Vec::new();
    for number in 0..6 {
        let cache = Arc::clone(&cache);
        tasks.push(tokio::spawn(async move {
            let engines = engines(1, &cache).await;
            engines.check(&sql(100 + number), 1).await;
        }));
    }
    for task in tasks {
        task.await.expect("it runs");
    }
    assert_eq!(cache.statistics().misses, alone);
    assert_eq!(cache.statistics().hits, alone * 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_share_code() {
    let cache = Arc::new(CodeCache::default());
    let engines = engines(2, &cache).await;
    let prepare = "PREPARE q(BIGINT, VARCHAR) AS SELECT i64, s FROM t WHERE i64 > $1 AND s <> $2";
    engines.weld.sql(prepare).await.expect("a statement").collect().await.expect("it is prepared");
    for (index, arguments) in ["10, 'Books'", "200, 'Other'", "7, 'Third'"].into_iter().enumerate() {
        let before = cache.statistics().misses;
        let run = engines.run(&format!("EXECUTE q({arguments})")).await.expect("it runs");
        let (k, s) = arguments.split_once(", ").expect("two");
        let expected = engines.stock_rows(&format!("SELECT i64, s FROM t WHERE i64 > {k} AND s <> {s}")).await;
        assert_eq!(Ok(run.rows), expected);
        assert_eq!(cache.statistics().misses > before, index == 0, "{arguments}");
    }
}

/// A partial aggregate that goes over to rows has a program of its own, whose constants may be others in another order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constants_of_ungrouped_rows() {
    let cache = Arc::new(CodeCache::default());
    let engines = engines_with(&config(2), &cache);
    let many = "SELECT v, v % 1000 AS a, concat('group number ', CAST(v AS VARCHAR)) AS s FROM generate_series(1, 60000) AS g(v)";
    engines.table_from("many", many, 1000).await;
    for (low, high, text) in [(5, 900, "group number 77"), (17, 950, "group number 88")] {
        let sql = format!(
            "SELECT s, count(*) FILTER (WHERE a < {high}), sum(v) FILTER (WHERE a > {low}), sum(CASE WHEN a = {low} THEN 1 ELSE 0 END)
             FROM many WHERE s <> '{text}' AND a <> {high} GROUP BY s"
        );
        engines.check(&sql, 2).await;
    }
}
