//! What goes wrong around a query: sources that fail or panic, queries that are dropped, disks that are full, and many
//! queries at once. An error costs its query alone, and nothing stays behind it.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use weld_datafusion::WeldSessionExt;

use crate::common::{Engines, config, sorted_rows};
use crate::sources::{End, numbers, register};

/// Over the table `t` (k, g) and the source `s` (k), which may be the build side or the probe side.
const QUERIES: [&str; 12] = [
    "SELECT k * 2 FROM s",
    "SELECT k FROM s WHERE k % 3 = 1",
    "SELECT count(*), sum(k) FROM s",
    "SELECT k % 5, count(*) FROM s GROUP BY 1",
    "SELECT k, max(k) FROM s GROUP BY k",
    "SELECT count(DISTINCT k % 7) FROM s",
    "SELECT s.k, t.g FROM s JOIN t ON s.k = t.k",
    "SELECT t.k, s.k FROM t LEFT JOIN s ON s.k = t.k",
    "SELECT t.k, s.k FROM s FULL JOIN t ON s.k = t.k",
    "SELECT k FROM t WHERE k IN (SELECT k FROM s)",
    "SELECT count(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.k = t.k)",
    "SELECT s.k FROM s JOIN t ON s.k < t.g ORDER BY s.k DESC",
];

const BATCHES: usize = 4;

async fn engines(partitions: usize) -> Engines {
    let engines = Engines::new(config(partitions).with_batch_size(32));
    engines.table_from("t", "SELECT v AS k, v % 7 AS g FROM generate_series(1, 90) AS x(v)", 20).await;
    engines
}

fn source(engines: &Engines, batches: usize, end: End) {
    let all: Vec<_> = (0..BATCHES as i64).map(|index| numbers(25 * index, 25)).collect();
    // A source of no batch has a schema nevertheless.
    let given = if batches == 0 { vec![all[0].slice(0, 0)] } else { all[..batches].to_vec() };
    for context in [&engines.stock, &engines.weld] {
        context.deregister_table("s").expect("a table or none");
        register(context, "s", given.clone(), end, false);
    }
}

fn reserved(context: &SessionContext) -> usize {
    context.runtime_env().memory_pool.reserved()
}

/// Tasks that were told to stop give their memory back soon.
pub(crate) async fn all_is_given_back(context: &SessionContext, what: &str) {
    let start = std::time::Instant::now();
    while reserved(context) > 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: {} bytes stay reserved", reserved(context));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_fails_at_each_batch() {
    let mut faults = 0;
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for batches in 0..=BATCHES {
            source(&engines, batches, End::Fails);
            for sql in QUERIES {
                let error = engines.run(sql).await.map(|run| run.rows).expect_err(sql);
                assert!(error.contains("the source fails"), "{batches} batches: {sql}\n{error}");
                let stock = engines.stock_rows(sql).await.expect_err(sql);
                assert!(stock.contains("the source fails"), "{batches} batches: {sql}\n{stock}");
                all_is_given_back(&engines.weld, sql).await;
                faults += 1;
            }
        }
        engines.check("SELECT g, count(*) FROM t GROUP BY g", 1).await;
    }
    println!("{faults} failing sources");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_panics_at_each_batch() {
    let mut faults = 0;
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for batches in 0..=BATCHES {
            source(&engines, batches, End::Panics);
            for sql in QUERIES {
                let context = engines.weld.clone();
                let ended = tokio::spawn(async move { Engines::run_on(&context, sql).await.map(|run| run.rows) }).await;
                assert!(!matches!(ended, Ok(Ok(_))), "{batches} batches: {sql}\n{ended:?}");
                all_is_given_back(&engines.weld, sql).await;
                faults += 1;
            }
        }
        // Nothing is poisoned.
        source(&engines, BATCHES, End::Ends);
        for sql in QUERIES {
            engines.check(sql, 0).await;
        }
    }
    println!("{faults} panicking sources");
}

/// Whoever drops a query gets back what it had, however far it has come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_are_dropped_after_each_batch() {
    let mut drops = 0;
    for partitions in [1, 3] {
        let engines = engines(partitions).await;
        for (end, batches) in [(End::Ends, BATCHES), (End::Waits, 2)] {
            source(&engines, batches, end);
            for sql in QUERIES {
                for taken in 0..4 {
                    let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await;
                    let mut rows = execute_stream(plan.expect("a plan"), engines.weld.task_ctx()).expect("a stream");
                    for _ in 0..taken {
                        // It may wait for ever.
                        let next = tokio::time::timeout(Duration::from_millis(20), rows.next()).await;
                        if !matches!(next, Ok(Some(Ok(_)))) {
                            break;
                        }
                    }
                    drop(rows);
                    all_is_given_back(&engines.weld, sql).await;
                    drops += 1;
                }
            }
        }
    }
    println!("{drops} dropped queries");
}

/// Loops that would run for hours end with their query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_loops_end_with_their_query() {
    let engines = Engines::new(config(2));
    engines.table_from("l", "SELECT v AS k, v % 3 AS g FROM generate_series(1, 400000) AS x(v)", 8192).await;
    for sql in [
        "SELECT count(*), sum(a.k * b.k % 7) FROM l a CROSS JOIN l b",
        "SELECT count(*) FROM l a JOIN l b ON a.g = b.g AND a.k * b.k % 1000003 = 7",
        "SELECT a.g, min(a.k + b.k) FROM l a JOIN l b ON a.k + b.k > 5 GROUP BY a.g",
        "SELECT a.k FROM l a WHERE NOT EXISTS (SELECT 1 FROM l b WHERE a.k * b.k % 1000003 = -1)",
    ] {
        let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
        let rows = execute_stream(plan, engines.weld.task_ctx()).expect("a stream");
        let run = tokio::spawn(async move { rows.collect::<Vec<_>>().await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        run.abort();
        let ended = tokio::time::timeout(Duration::from_secs(60), run).await;
        assert!(ended.expect("it stops").is_err(), "{sql} has an answer already");
        all_is_given_back(&engines.weld, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_queries_at_once() {
    let engines = Arc::new(engines(3).await);
    source(&engines, BATCHES, End::Ends);
    let mut expected = Vec::new();
    for sql in QUERIES {
        expected.push(engines.stock_rows(sql).await.expect("it runs"));
    }
    let runs: Vec<_> = (0..64)
        .map(|index| {
            let (context, sql) = (engines.weld.clone(), QUERIES[index % QUERIES.len()]);
            tokio::spawn(async move { Engines::run_on(&context, sql).await.map(|run| run.rows) })
        })
        .collect();
    for (index, run) in runs.into_iter().enumerate() {
        let ended = tokio::time::timeout(Duration::from_secs(300), run).await.expect("no deadlock");
        let sql = QUERIES[index % QUERIES.len()];
        assert_eq!(ended.expect("no panic"), Ok(expected[index % QUERIES.len()].clone()), "{sql}");
    }
    assert_eq!(reserved(&engines.weld), 0);
}

/// Bytes of this process that are in memory.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(status.split(' ').nth(1)?.parse::<usize>().ok()? << 12)
}

/// Code that nobody needs goes: so many different programs grow no process. `WELD_DIFFERENT_QUERIES` says how many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_queries_do_not_pile_up() {
    let count = std::env::var("WELD_DIFFERENT_QUERIES").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    let engines = engines(1).await;
    engines.weld.sql("SET weld.opt_level = 0").await.expect("a setting");
    let mut sizes = Vec::new();
    for index in 0..count {
        let sql = format!("SELECT g + {index}, sum(k * {index}), count(*) FROM t WHERE k <> {index} GROUP BY g");
        engines.check(&sql, 1).await;
        sizes.extend(resident());
    }
    assert_eq!(reserved(&engines.weld), 0);
    let grown = sizes.last().zip(sizes.get(sizes.len() / 2)).map(|(last, half)| last.saturating_sub(*half));
    let each = grown.map(|bytes| bytes / (count / 2));
    println!("{count} queries: {each:?} bytes each in the second half");
    assert!(each.is_none_or(|bytes| bytes < 1 << 20), "{each:?} bytes stay of each query");
}

/// Little memory and less disk: the answer, or the lack of either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disks_that_are_full() {
    let (mut answers, mut errors) = (0, 0);
    for (memory, disk) in [(1 << 20, 0), (3 << 20, 100 << 10), (8 << 20, 1 << 20), (16 << 20, 100 << 20)] {
        let session = |weld: bool| {
            let disk = DiskManagerBuilder::default()
                .with_mode(DiskManagerMode::OsTmpDirectory)
                .with_max_temp_directory_size(disk);
            let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0).with_disk_manager_builder(disk);
            let builder = SessionStateBuilder::new().with_config(config(2)).with_default_features();
            let builder = builder.with_runtime_env(runtime.build_arc().expect("a runtime"));
            SessionContext::new_with_state(if weld { builder.with_weld() } else { builder }.build())
        };
        let engines = Engines { stock: session(false), weld: session(true) };
        let rows = "SELECT v AS k, v % 100 AS g, concat('a text of its own ', CAST(v AS VARCHAR)) AS s FROM generate_series(1, 40000) AS x(v)";
        let unlimited = Engines::new(config(2));
        unlimited.table_from("t", rows, 4096).await;
        for context in [&engines.stock, &engines.weld] {
            let table = unlimited.stock.table_provider("t").await.expect("a known table");
            context.register_table("t", table).expect("a new name");
        }
        for sql in [
            "SELECT s, count(*) FROM t GROUP BY s",
            "SELECT k, max(s) FROM t GROUP BY k",
            "SELECT k + 1 AS a, s FROM t WHERE g > 3 ORDER BY s",
        ] {
            let expected = unlimited.stock_rows(sql).await.expect("it runs");
            match engines.run(sql).await {
                Ok(run) => {
                    assert_eq!(run.rows, expected, "{sql}");
                    answers += 1;
                }
                Err(error) => {
                    assert!(error.contains("Resources exhausted") || error.contains("disk"), "{sql}\n{error}");
                    let stock = engines.stock_rows(sql).await;
                    assert!(stock.is_err(), "{memory} bytes of memory, {disk} of disk: stock runs {sql}\n{error}");
                    errors += 1;
                }
            }
            all_is_given_back(&engines.weld, sql).await;
        }
    }
    println!("{answers} answers, {errors} errors");
    assert!(answers > 0 && errors > 0);
}

/// A partition that nobody takes to its end keeps none of the others from theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_are_dropped_while_others_run() {
    let engines = engines(3).await;
    source(&engines, BATCHES, End::Ends);
    for sql in QUERIES.iter().filter(|sql| !sql.contains("ORDER BY")) {
        let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
        let partitions =
            datafusion::physical_plan::ExecutionPlanProperties::output_partitioning(&plan).partition_count();
        for dropped in 0..partitions {
            let plan = datafusion::physical_plan::execution_plan::reset_plan_states(Arc::clone(&plan)).expect("a plan");
            let mut streams: Vec<_> = (0..partitions)
                .map(|index| plan.execute(index, engines.weld.task_ctx()).expect("a stream"))
                .map(Some)
                .collect();
            let mut first = streams[dropped].take().expect("just made");
            let _ = tokio::time::timeout(Duration::from_millis(20), first.next()).await;
            drop(first);
            let mut batches = Vec::new();
            for stream in streams.into_iter().flatten() {
                let rows = tokio::time::timeout(Duration::from_secs(60), stream.collect::<Vec<_>>()).await;
                batches.extend(rows.expect("it ends").into_iter().map(|batch| batch.expect("a batch")));
            }
            let expected = engines.stock_rows(sql).await.expect("it runs");
            let rows = sorted_rows(&batches);
            assert!(rows.len() <= expected.len(), "{sql}");
            assert!(rows.iter().all(|row| expected.contains(row)), "{sql}");
        }
        all_is_given_back(&engines.weld, sql).await;
    }
}
