//! Sorts and top-k beside DataFusion's, over one table in memory.
//!
//! `cargo bench -p weld-sort [-- ROWS PARTITIONS FILTER]`
//!
//! Both run in turn in one process. Printed are medians in milliseconds, the median of the ratios of neighbouring runs,
//! and what the memory pool was asked for at most, in megabytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringViewArray};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::MemTable;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use weld_sort::KeySortExec;

/// As in the `weld` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: usize = 5;
const BATCH_ROWS: usize = 8192;

const QUERIES: &[(&str, &str)] = &[
    ("integer", "SELECT i1, v FROM t ORDER BY i1"),
    ("integer, few values", "SELECT i4, v FROM t ORDER BY i4"),
    ("integer, wide rows", "SELECT * FROM t ORDER BY i1"),
    ("4 integers", "SELECT i4, i3, i2, i1, v FROM t ORDER BY i4, i3 DESC, i2, i1"),
    ("string", "SELECT s1, v FROM t ORDER BY s1"),
    ("string, few values", "SELECT s4, v FROM t ORDER BY s4"),
    ("4 strings", "SELECT s4, s3, s2, s1, v FROM t ORDER BY s4, s3 DESC, s2, s1"),
    ("decimal", "SELECT d1, v FROM t ORDER BY d1"),
    ("4 decimals", "SELECT d4, d3, d2, d1, v FROM t ORDER BY d4, d3 DESC, d2, d1"),
    ("mixed", "SELECT s4, d3, i2, s1, v FROM t ORDER BY s4, d3 DESC, i2, s1"),
    ("top 10, integer", "SELECT i1, v FROM t ORDER BY i1 LIMIT 10"),
    ("top 10, 4 integers", "SELECT i4, i3, i2, i1, v FROM t ORDER BY i4, i3 DESC, i2, i1 LIMIT 10"),
    ("top 10, wide rows", "SELECT * FROM t ORDER BY i1 LIMIT 10"),
    ("top 10, string", "SELECT s1, v FROM t ORDER BY s1 LIMIT 10"),
    ("top 10, 4 strings", "SELECT s4, s3, s2, s1, v FROM t ORDER BY s4, s3 DESC, s2, s1 LIMIT 10"),
    ("top 10, 4 decimals", "SELECT d4, d3, d2, d1, v FROM t ORDER BY d4, d3 DESC, d2, d1 LIMIT 10"),
    ("top 10, better and better", "SELECT v, i1 FROM t ORDER BY v DESC LIMIT 10"),
    ("top 100, integer", "SELECT i1, v FROM t ORDER BY i1 LIMIT 100"),
    ("top 100, integer, few values", "SELECT i4, v FROM t ORDER BY i4 LIMIT 100"),
    ("top 100, 4 integers", "SELECT i4, i3, i2, i1, v FROM t ORDER BY i4, i3 DESC, i2, i1 LIMIT 100"),
    ("top 100, string", "SELECT s1, v FROM t ORDER BY s1 LIMIT 100"),
    ("top 100, string, few values", "SELECT s4, v FROM t ORDER BY s4 LIMIT 100"),
    ("top 100, 4 strings", "SELECT s4, s3, s2, s1, v FROM t ORDER BY s4, s3 DESC, s2, s1 LIMIT 100"),
    ("top 100, decimal", "SELECT d1, v FROM t ORDER BY d1 LIMIT 100"),
    ("top 100, 4 decimals", "SELECT d4, d3, d2, d1, v FROM t ORDER BY d4, d3 DESC, d2, d1 LIMIT 100"),
    ("top 10000, integer", "SELECT i1, v FROM t ORDER BY i1 LIMIT 10000"),
    ("top 10000, wide rows", "SELECT * FROM t ORDER BY i1 LIMIT 10000"),
    ("top 10000, 4 integers", "SELECT i4, i3, i2, i1, v FROM t ORDER BY i4, i3 DESC, i2, i1 LIMIT 10000"),
    ("top 10000, string", "SELECT s1, v FROM t ORDER BY s1 LIMIT 10000"),
    ("top 10000, 4 strings", "SELECT s4, s3, s2, s1, v FROM t ORDER BY s4, s3 DESC, s2, s1 LIMIT 10000"),
    ("top 10000, 4 decimals", "SELECT d4, d3, d2, d1, v FROM t ORDER BY d4, d3 DESC, d2, d1 LIMIT 10000"),
    ("top 10000, better and better", "SELECT v, i1 FROM t ORDER BY v DESC LIMIT 10000"),
    ("top 500000, integer", "SELECT i1, v FROM t ORDER BY i1 LIMIT 500000"),
];

/// Numbers without a pattern that a sort could use.
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn batch(start: usize, rows: usize) -> RecordBatch {
    let numbers = |seed: u64, values: u64| {
        (start..start + rows).map(move |row| mixed(row as u64 * 9 + seed) % values).collect::<Vec<u64>>()
    };
    let integers = |seed, values| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(numbers(seed, values).into_iter().map(|value| value as i64)))
    };
    let decimals = |seed, values| -> ArrayRef {
        let values = numbers(seed, values).into_iter().map(|value| i128::from(value) - 1000);
        Arc::new(Decimal128Array::from_iter_values(values).with_precision_and_scale(15, 2).expect("a decimal"))
    };
    let strings = |seed, values, name: &str| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(
            numbers(seed, values).into_iter().map(|value| format!("{name}{:x}", mixed(value))),
        ))
    };
    let v: ArrayRef = Arc::new(Int64Array::from_iter_values((start..start + rows).map(|row| row as i64)));
    RecordBatch::try_from_iter([
        ("i1", integers(1, u64::MAX / 3)),
        ("i2", integers(2, 1_000_000)),
        ("i3", integers(3, 1000)),
        ("i4", integers(4, 20)),
        ("s1", strings(5, u64::MAX, "")),
        ("s2", strings(6, 1_000_000, "Customer#")),
        ("s3", strings(7, 1000, "")),
        ("s4", strings(8, 20, "SHIP")),
        ("d1", decimals(9, 100_000_000)),
        ("d2", decimals(10, 1_000_000)),
        ("d3", decimals(11, 1000)),
        ("d4", decimals(12, 20)),
        ("v", v),
    ])
    .expect("columns of one length")
}

/// Notes how much was reserved at once.
#[derive(Debug)]
struct Peak {
    pool: GreedyMemoryPool,
    peak: AtomicUsize,
}

impl std::fmt::Display for Peak {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("peak")
    }
}

impl MemoryPool for Peak {
    fn name(&self) -> &str {
        "peak"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool.grow(reservation, additional);
        self.peak.fetch_max(self.pool.reserved(), Ordering::Relaxed);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.pool.try_grow(reservation, additional)?;
        self.peak.fetch_max(self.pool.reserved(), Ordering::Relaxed);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.pool.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool.memory_limit()
    }
}

fn ours(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let plan = plan.transform_up(|plan| {
        Ok(match KeySortExec::of(&plan) {
            Some(Ok(exec)) => Transformed::yes(Arc::new(exec) as _),
            _ => Transformed::no(plan),
        })
    });
    plan.data().expect("it keeps the plan's properties")
}

/// The processor time of all threads in milliseconds, which does not grow with what else runs on the machine.
fn processor_ms() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let time = |task: std::fs::DirEntry| {
        let times = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<f64>().ok()
    };
    tasks.filter_map(time).sum::<f64>() / 1e6
}

async fn run(plan: &Arc<dyn ExecutionPlan>, context: &SessionContext) -> (f64, usize) {
    let in_processor = std::env::args().any(|arg| arg == "--processor");
    let (start, processor) = (Instant::now(), processor_ms());
    let task: Arc<TaskContext> = context.task_ctx();
    let mut rows = 0;
    let mut stream = execute_stream(Arc::clone(plan), task).expect("it starts");
    while let Some(batch) = stream.next().await {
        rows += batch.expect("it runs").num_rows();
    }
    let ms = if in_processor { processor_ms() - processor } else { start.elapsed().as_secs_f64() * 1000.0 };
    (ms, rows)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let rows: usize = args.first().and_then(|arg| arg.parse().ok()).unwrap_or(10_000_000);
    let partitions: usize = args.get(1).and_then(|arg| arg.parse().ok()).unwrap_or(1);
    let filter = args.get(2).cloned().unwrap_or_default();
    let batches = |from: usize, to: usize| {
        (from..to).step_by(BATCH_ROWS).map(|start| batch(start, BATCH_ROWS.min(to - start))).collect::<Vec<_>>()
    };
    let parts: Vec<Vec<RecordBatch>> =
        (0..partitions).map(|part| batches(rows * part / partitions, rows * (part + 1) / partitions)).collect();
    let pool = Arc::new(Peak { pool: GreedyMemoryPool::new(usize::MAX / 2), peak: AtomicUsize::new(0) });
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::clone(&pool) as _).build_arc().expect("a runtime");
    let config = SessionConfig::new().with_batch_size(BATCH_ROWS).with_target_partitions(partitions);
    let context = SessionContext::new_with_config_rt(config, runtime);
    let table = MemTable::try_new(batch(0, 1).schema(), parts).expect("one schema");
    context.register_table("t", Arc::new(table)).expect("a new name");
    println!("{rows} rows, {partitions} partitions");
    println!("| query | DataFusion | ours | ratio | MB | ours |");
    println!("| --- | --: | --: | --: | --: | --: |");
    for (name, sql) in QUERIES.iter().filter(|(name, _)| name.contains(&filter)) {
        let frame = context.sql(sql).await.expect("valid SQL");
        let mut times = [Vec::new(), Vec::new()];
        let mut peaks = [0, 0];
        for number in 0..2 * RUNS {
            let plan = frame.clone().create_physical_plan().await.expect("it plans");
            let plan = if number % 2 == 0 { plan } else { ours(plan) };
            pool.peak.store(0, Ordering::Relaxed);
            times[number % 2].push(run(&plan, &context).await.0);
            peaks[number % 2] = pool.peak.load(Ordering::Relaxed) >> 20;
        }
        let ratios = times[0].iter().zip(&times[1]).map(|(stock, ours)| stock / ours).collect();
        let [stock, own] = times.map(median);
        println!("| {name} | {stock:.0} | {own:.0} | {:.2}x | {} | {} |", median(ratios), peaks[0], peaks[1]);
    }
}
