//! Memory limits: what DataFusion can run by spilling still runs, and errors are of its class.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::{Result, resources_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use weld_datafusion::WeldSessionExt;

use crate::common::{Engines, config, session, sorted_rows};
use crate::sources::{End, numbers, register};

/// Every limit from far too little to plenty: the answer or the lack of memory, and no lack where stock has none.
async fn sweep(partitions: usize, sql: &str, limits: &[usize]) {
    let mut spilled = 0;
    for limit in limits {
        let engines = Engines::limited(config(partitions), limit << 10);
        engines
            .table_from("t", "SELECT v AS k, v % 1000 AS g, concat('a rather long text ', CAST(v AS VARCHAR)) AS s FROM generate_series(1, 60000) AS x(v)", 4096)
            .await;
        let stock = engines.stock_rows(sql).await;
        match (stock, engines.run(sql).await) {
            (Ok(stock), Ok(weld)) => {
                spilled += weld.handovers;
                assert_eq!(weld.rows, stock, "{sql} with {limit} KiB");
            }
            (Err(_), Ok(_)) => {}
            // With so little DataFusion's own operators come through or not by who is first.
            (Ok(_), Err(error)) if *limit < 400 => assert!(error.contains("Resources exhausted"), "{sql}: {error}"),
            // So do they with somewhat more, by which of two asks first.
            (Ok(stock), Err(error)) => {
                assert!(engines.comes_through_as_stock(sql, &stock).await, "{sql} with {limit} KiB: {error}");
            }
            (Err(_), Err(error)) => {
                assert!(
                    error.contains("Resources exhausted") || error.contains("memory"),
                    "{sql} with {limit} KiB: {error}"
                );
            }
        }
    }
    println!("{sql}: {spilled} handovers");
}

const LIMITS: [usize; 9] = [64, 400, 1000, 2000, 4000, 6000, 10_000, 20_000, 60_000];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_go_on_where_stock_spills() {
    for partitions in [1, 2] {
        sweep(partitions, "SELECT k, count(*), sum(g) FROM t GROUP BY k", &LIMITS).await;
        sweep(partitions, "SELECT s, max(k) FROM t GROUP BY s", &LIMITS).await;
        sweep(partitions, "SELECT k, first_value(s ORDER BY k), last_value(g ORDER BY s) FROM t GROUP BY k", &LIMITS)
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_groups_need_little() {
    sweep(2, "SELECT g, count(*), min(s) FROM t GROUP BY g", &LIMITS).await;
    sweep(2, "SELECT g, count(DISTINCT s) FROM t GROUP BY g", &LIMITS).await;
}

/// Accumulators of DataFusion's take most of the memory here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accumulators_beside_groups() {
    for partitions in [1, 2] {
        sweep(partitions, "SELECT g, median(k), count(*), sum(k) FROM t GROUP BY g", &LIMITS).await;
        sweep(partitions, "SELECT k, median(g), min(s) FROM t GROUP BY k", &LIMITS).await;
        sweep(partitions, "SELECT g % 100, count(DISTINCT s), stddev(k) FROM t GROUP BY g % 100", &LIMITS).await;
    }
    sweep(1, "SELECT g, array_agg(s), max(k) FROM t GROUP BY g", &LIMITS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_fail_as_stock_does() {
    sweep(2, "SELECT count(*), sum(a.g) FROM t a JOIN t b ON a.k = b.k", &LIMITS).await;
    sweep(1, "SELECT a.s, b.g FROM t a JOIN t b ON a.k = b.k WHERE a.g < 10", &LIMITS).await;
}

/// Rows without a match take no memory, nor do the rows between joins that are not fused, of which there are few at a
/// time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_of_outer_joins_need_little() {
    let engines = Engines::limited(config(2), 6 << 20);
    let fact = "SELECT v AS k, v % 1000 AS g FROM generate_series(1, 200000) AS x(v)";
    engines.table_from("fact", fact, 4096).await;
    let dimension =
        "SELECT v AS k, concat('a rather long text ', CAST(v AS VARCHAR)) AS s FROM generate_series(1, 300) AS x(v)";
    engines.table_from("dimension", dimension, 4096).await;
    let (mut columns, mut joins) = (String::new(), String::new());
    for n in 0..8 {
        columns += &format!(", max(d{n}.s), count(d{n}.k)");
        joins += &format!(" LEFT JOIN dimension d{n} ON fact.{} = d{n}.k AND d{n}.k > {n}", ["k", "g"][n % 2]);
    }
    let sql = format!("SELECT count(*){columns} FROM fact{joins}");
    let weld = engines.run(&sql).await.expect("it needs little memory");
    assert_eq!(weld.rows, engines.stock_rows(&sql).await.expect("stock needs as little"));
    let is_join = |declined: &weld_datafusion::Declined| declined.operator == "HashJoinExec";
    assert!(!weld.summary.declined.iter().any(is_join), "{:?}", weld.summary.declined);
    assert_eq!((weld.fallbacks, weld.handovers), (0, 0));
}

/// Takes all of the pools' memory.
fn exhausted(engines: &Engines, bytes: usize) -> Vec<MemoryReservation> {
    let take = |context: &SessionContext| {
        let reservation = MemoryConsumer::new("another query").register(&context.runtime_env().memory_pool);
        reservation.try_grow(bytes).expect("nothing else runs");
        reservation
    };
    vec![take(&engines.stock), take(&engines.weld)]
}

/// DataFusion's filters, projections and the rows of its joins ask for no memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_come_though_others_have_all_memory() {
    let bytes = 1 << 20;
    let engines = Engines::limited(config(2), bytes);
    engines
        .table_from(
            "t",
            "SELECT v AS k, v % 10 AS g, concat('x', CAST(v AS VARCHAR)) AS s FROM generate_series(1, 30000) AS x(v)",
            4096,
        )
        .await;
    let taken = exhausted(&engines, bytes);
    let run = engines.check("SELECT k * 2, concat(s, 'y') FROM t WHERE g > 4", 1).await;
    assert_eq!(run.handovers, 0);
    drop(taken);
}

/// Operators above that fill the pool and spill do not starve the rows that they are to spill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorts_spill_above_rows() {
    for partitions in [1, 2] {
        sweep(partitions, "SELECT k + 1 AS a, concat(s, 'z') AS b FROM t WHERE g > 10 ORDER BY b DESC", &LIMITS).await;
    }
}

/// Refuses groups of compiled code more than some bytes, and nothing to others.
#[derive(Debug, Default)]
struct FewGroups {
    groups_max: usize,
    groups: AtomicUsize,
    /// What the tables of joins have, and had at most.
    tables: AtomicUsize,
    tables_peak: AtomicUsize,
}

impl FewGroups {
    fn bytes_of(&self, reservation: &MemoryReservation) -> Option<&AtomicUsize> {
        match reservation.consumer().name() {
            "WeldExec[0]" => Some(&self.groups),
            "WeldExec[table]" => Some(&self.tables),
            _ => None,
        }
    }
}

impl fmt::Display for FewGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for FewGroups {
    fn name(&self) -> &str {
        "few_groups"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if let Some(bytes) = self.bytes_of(reservation) {
            bytes.fetch_add(additional, Ordering::Relaxed);
        }
        self.tables_peak.fetch_max(self.tables.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if let Some(bytes) = self.bytes_of(reservation) {
            bytes.fetch_sub(shrink, Ordering::Relaxed);
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let is_groups = reservation.consumer().name() == "WeldExec[0]";
        if is_groups && self.groups.load(Ordering::Relaxed) + additional > self.groups_max {
            return resources_err!("no memory for groups");
        }
        self.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        0
    }
}

/// Pipelines below one that starts again start again, too: the tables that they had are not needed beside new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_below_what_starts_again_are_given_back() {
    let rows = "SELECT v AS k, v % 1000 AS g, concat('a rather long text ', CAST(v AS VARCHAR)) AS s FROM generate_series(1, 60000) AS x(v)";
    let sql = "SELECT a.g, a.s, count(*) FROM t a JOIN t b ON a.k = b.k GROUP BY ROLLUP (a.g, a.s)";
    let mut peaks = Vec::new();
    for groups_max in [usize::MAX, 1 << 20] {
        let pool = Arc::new(FewGroups { groups_max, ..FewGroups::default() });
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool) as Arc<dyn MemoryPool>);
        let state = SessionStateBuilder::new()
            .with_config(config(1))
            .with_default_features()
            .with_runtime_env(runtime.build_arc().expect("a runtime"));
        let weld = SessionContext::new_with_state(state.with_weld().build());
        let engines = Engines { stock: session(config(1), false), weld };
        engines.table_from("t", rows, 4096).await;
        let run = engines.check(sql, 3).await;
        assert_eq!(run.handovers > 0, groups_max < usize::MAX, "{} handovers", run.handovers);
        peaks.push(pool.tables_peak.load(Ordering::Relaxed));
    }
    assert!(peaks[0] > 0 && peaks[1] <= peaks[0], "{peaks:?}");
}

/// An input that cannot be read again must not be lost: stock spills, so its operators run from the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_streams_spill() {
    for limit in [400, 1000, 4000] {
        let engines = Engines::limited(config(2), limit << 10);
        for context in [&engines.stock, &engines.weld] {
            let batches = (0..50).map(|index| numbers(2000 * index, 2000)).collect();
            register(context, "t", batches, End::Ends, false);
        }
        let sql = "SELECT k, count(*) FROM t GROUP BY k";
        match engines.stock_rows(sql).await {
            Ok(expected) => assert!(engines.comes_through_as_stock(sql, &expected).await, "{limit} KiB"),
            Err(error) => println!("{limit} KiB: {error}"),
        }
    }
}

/// Whoever keeps a query's few rows keeps nothing else of it: neither its tables nor its groups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_do_not_keep_tables() {
    let engines = Engines::new(config(1));
    for name in ["t", "u"] {
        let rows = "SELECT v AS k, v % 7 AS g, v % 5000 AS h FROM generate_series(1, 20000) AS x(v)";
        engines.table_from(name, rows, 4096).await;
    }
    for sql in [
        "SELECT count(1), sum(t.k * u.g) FROM t JOIN u ON t.k = u.h",
        "SELECT t.g, sum(u.k), max(t.k + u.k) FROM t JOIN u ON t.k = u.k GROUP BY t.g",
        "SELECT n + 1, t.g FROM t JOIN (SELECT h AS i, sum(k) AS n FROM u GROUP BY h HAVING sum(k) % 5000 = 0) ON t.k = i",
        "SELECT t.k + u.g FROM t LEFT JOIN u ON t.k = u.k WHERE t.k < 20",
    ] {
        let plan = engines.weld.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
        let batches = collect(plan, engines.weld.task_ctx()).await.expect("it runs");
        assert_eq!(sorted_rows(&batches), engines.stock_rows(sql).await.expect("it runs"), "{sql}");
        assert_eq!(engines.weld.runtime_env().memory_pool.reserved(), 0, "{sql}");
    }
}
