//! Functions in SQL beside the plain query and beside straightforward Rust over the same buffers:
//! `cargo run --release -p weld-datafusion --example functions [ROWS] [NAME]`.
//!
//! `tpch_q1` and `tpch_q6` are those queries over random columns of floats, Q1 with one key. Results are compared;
//! times are medians of warm runs of a plan in memory, on one thread and on two. What compiling takes stands beside
//! that of the plain query, or of one of the same table without lists: the code that runs start on, and optimised code.
//! The first lines say how much faster two threads of this machine are than one where they compute, read memory, or
//! fill memory that is new.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, Float32Array, Float64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Float32Type};
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect, execution_plan::reset_plan_states};
use datafusion::prelude::{SessionConfig, SessionContext};
use weld_datafusion::{WeldOptions, WeldSessionExt, pipelines};

const WIDTH: usize = 128;
const OUT: usize = 32;
const BATCH: usize = 8192;
const ROUNDS: usize = 9;

const FUNCTIONS: [&str; 7] = [
    "CREATE FUNCTION dot(a FLOAT[128], b FLOAT[128]) RETURNS FLOAT LANGUAGE weld AS
        '|a: vec[f32], b: vec[f32]| result(for(zip(a, b), merger[f32,+], |m, i, e| merge(m, e.$0 * e.$1)))'",
    "CREATE FUNCTION distance(a FLOAT[128], b FLOAT[128]) RETURNS FLOAT LANGUAGE weld AS
        '|a: vec[f32], b: vec[f32]|
            sqrt(result(for(zip(a, b), merger[f32,+], |m, i, e| merge(m, (e.$0 - e.$1) * (e.$0 - e.$1)))))'",
    "CREATE FUNCTION softmax(a FLOAT[128]) RETURNS FLOAT[128] LANGUAGE weld AS
        '|a: vec[f32]|
            let top = result(for(a, merger[f32,max], |m, i, x| merge(m, x)));
            let powers = map(a, |x| exp(x - top));
            let sum = result(for(powers, merger[f32,+], |m, i, x| merge(m, x)));
            map(powers, |x| x / sum)'",
    "CREATE FUNCTION dense(x FLOAT[128], w FLOAT[128][32], b FLOAT[32]) RETURNS FLOAT[32] LANGUAGE ocannl AS
        'let%op dense x w b = relu (w * x + b)'",
    "CREATE FUNCTION amount(p DOUBLE, d DOUBLE) RETURNS DOUBLE LANGUAGE weld AS '|p: f64, d: f64| p * d'",
    "CREATE FUNCTION discounted(p DOUBLE, d DOUBLE) RETURNS DOUBLE LANGUAGE weld AS
        '|p: f64, d: f64| p * (1.0 - d)'",
    "CREATE FUNCTION charge(p DOUBLE, d DOUBLE, t DOUBLE) RETURNS DOUBLE LANGUAGE weld AS
        '|p: f64, d: f64, t: f64| p * (1.0 - d) * (1.0 + t)'",
];

/// What is measured: a query with functions, beside the same without them or beside Rust.
struct Case {
    name: &'static str,
    sql: &'static str,
    beside: Beside,
}

enum Beside {
    Plain(&'static str),
    Rust(fn(&Data) -> Vec<f32>),
}

/// Beside which the functions of lists are compiled.
const WITHOUT_LISTS: &str = "SELECT x * 2 FROM vectors";

const Q6: &str =
    "FROM lineitem WHERE shipdate >= 731 AND shipdate < 1096 AND discount BETWEEN 0.045 AND 0.075 AND quantity < 24";
const Q1: &str = "count(*) FROM lineitem WHERE shipdate <= 2436 GROUP BY flag";

fn cases() -> Vec<Case> {
    let plain = |name, sql, plain| Case { name, sql, beside: Beside::Plain(plain) };
    let rust = |name, sql, rust| Case { name, sql, beside: Beside::Rust(rust) };
    vec![
        plain("tpch_q6", "SELECT sum(amount(price, discount)) {Q6}", "SELECT sum(price * discount) {Q6}"),
        plain(
            "tpch_q1",
            "SELECT flag, sum(quantity), sum(price), sum(discounted(price, discount)), sum(charge(price, discount, tax)),
                avg(quantity), avg(price), avg(discount), {Q1}",
            "SELECT flag, sum(quantity), sum(price), sum(price * (1.0 - discount)),
                sum(price * (1.0 - discount) * (1.0 + tax)), avg(quantity), avg(price), avg(discount), {Q1}",
        ),
        rust("dot", "SELECT dot(v, w) FROM vectors", dot),
        rust("distance", "SELECT distance(v, w) FROM vectors", distance),
        rust("softmax", "SELECT softmax(v) FROM vectors", softmax),
        rust(
            "dense 128 to 32, relu",
            "SELECT dense(v, (SELECT w FROM weights), (SELECT b FROM weights)) FROM vectors",
            dense,
        ),
    ]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rows = args.first().and_then(|rows| rows.parse().ok()).unwrap_or(1_000_000);
    let filter = args.get(1).cloned().unwrap_or_default();
    if filter.is_empty() {
        machine();
    }
    let (data, few) = (Data::new(rows), Data::new(8));
    println!(
        "| {rows} rows | plain or Rust ms | functions ms | ratio | two partitions | compile ms, plain | functions | optimised, plain | functions |"
    );
    println!("| --- | --: | --: | --: | --: | --: | --: | --: | --: |");
    for case in cases().into_iter().filter(|case| case.name.contains(&filter)) {
        measure(&case, &data, &few);
    }
}

/// What two threads of this machine gain.
fn machine() {
    let words: Vec<u64> = (0..1 << 27).collect();
    let sums = |part: &[u64]| part.iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
    let compute = |part: &[u64]| {
        let mut lanes = [1u64, 2, 3, 4];
        (0..part.len())
            .for_each(|_| lanes.iter_mut().for_each(|lane| *lane = lane.wrapping_mul(*lane).wrapping_add(7)));
        lanes.iter().sum()
    };
    let fill =
        |part: &[u64]| vec![part.len() as u8 | 1; part.len() * 4].iter().step_by(4096).map(|x| u64::from(*x)).sum();
    type Work<'a> = &'a (dyn Fn(&[u64]) -> u64 + Sync);
    let kinds: [(&str, Work<'_>); 3] =
        [("computing", &compute), ("reading a gibibyte", &sums), ("filling half a gibibyte", &fill)];
    println!("| machine | one thread ms | two threads ms | |\n| --- | --: | --: | --: |");
    for (name, work) in kinds {
        let times = [1, 2].map(|threads| {
            median(|| {
                std::thread::scope(|scope| {
                    words.chunks(words.len() / threads).for_each(|part| {
                        scope.spawn(|| black_box(work(black_box(part))));
                    });
                })
            })
        });
        println!("| {name} | {:.1} | {:.1} | {:.2}x |", ms(times[0]), ms(times[1]), ratio(times[0], times[1]));
    }
}

fn measure(case: &Case, data: &Data, few: &Data) {
    let sql = |text: &str| text.replace("{Q6}", Q6).replace("{Q1}", Q1);
    let [one, two] = [1, 2].map(|partitions| Engine::new(data, partitions, "optimised").run(&sql(case.sql)));
    let (beside, without) = match case.beside {
        Beside::Plain(plain) => {
            let plain = sql(plain);
            let found = Engine::new(data, 1, "optimised").run(&plain);
            assert_eq!(found.rows, one.rows, "{}", case.name);
            (found.median, plain)
        }
        Beside::Rust(rust) => {
            let expected = rust(data);
            let found = one.floats();
            assert_eq!(found.len(), expected.len(), "{}", case.name);
            let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
            assert!(found.iter().zip(&expected).all(is_close), "{}", case.name);
            (median(|| black_box(rust(black_box(data)))), WITHOUT_LISTS.to_owned())
        }
    };
    // A session keeps code, so each time is a new session's; the first one brings LLVM's own code into memory.
    let compiled = |tiers: &str, sql: &str| {
        let times = (0..ROUNDS).map(|_| Engine::new(few, 1, tiers).compile(sql));
        ms(times.min().unwrap_or_default())
    };
    let [cheap, optimised] =
        ["auto", "optimised"].map(|tiers| [&without, &sql(case.sql)].map(|sql| compiled(tiers, sql)));
    println!(
        "| {} | {:.1} | {:.1} | {:.2} | {:.2}x | {:.1} | {:.1} | {:.1} | {:.1} |",
        case.name,
        ms(beside),
        ms(one.median),
        ratio(one.median, beside),
        ratio(one.median, two.median),
        cheap[0],
        cheap[1],
        optimised[0],
        optimised[1],
    );
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Of the runs alone: what they give is dropped between them.
fn median<T>(mut run: impl FnMut() -> T) -> Duration {
    drop(run());
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let made = run();
            let took = start.elapsed();
            drop(made);
            took
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

/// A session over the data with so many partitions, and as many threads.
struct Engine {
    runtime: tokio::runtime::Runtime,
    context: SessionContext,
}

struct Measured {
    median: Duration,
    batches: Vec<RecordBatch>,
    /// Floats to ten digits, in an order that only the values decide.
    rows: Vec<String>,
}

impl Measured {
    fn floats(&self) -> Vec<f32> {
        let column = |batch: &RecordBatch| match batch.column(0).as_fixed_size_list_opt() {
            Some(lists) => lists.values().as_primitive::<Float32Type>().values().to_vec(),
            None => batch.column(0).as_primitive::<Float32Type>().values().to_vec(),
        };
        self.batches.iter().flat_map(column).collect()
    }
}

impl Engine {
    fn new(data: &Data, partitions: usize, tiers: &str) -> Engine {
        let mut options = WeldOptions::default();
        (options.compile_min_rows, options.plan_min_rows) = (0, 0);
        let config = SessionConfig::new().with_target_partitions(partitions).with_option_extension(options);
        let state = SessionStateBuilder::new().with_config(config).with_default_features().with_weld().build();
        let context = SessionContext::new_with_state(state);
        for (name, batches) in &data.tables {
            let mut parts = vec![Vec::new(); partitions.min(batches.len())];
            let parts_count = parts.len();
            for (index, batch) in batches.iter().enumerate() {
                parts[index * parts_count / batches.len()].push(batch.clone());
            }
            let table = MemTable::try_new(batches[0].schema(), parts).expect("one schema");
            context.register_table(*name, Arc::new(table)).expect("a new name");
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(partitions).build().expect("a runtime");
        runtime.block_on(async {
            let tiers = format!("SET weld.tiers = '{tiers}'");
            for sql in FUNCTIONS.iter().copied().chain([tiers.as_str()]) {
                context.sql(sql).await.expect("valid SQL").collect().await.expect("it runs");
            }
        });
        Engine { runtime, context }
    }

    fn plan(&self, sql: &str) -> Arc<dyn ExecutionPlan> {
        self.runtime.block_on(async {
            self.context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan")
        })
    }

    fn collect(&self, plan: &Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
        let plan = reset_plan_states(Arc::clone(plan)).expect("it starts again");
        assert!(!pipelines(&plan).is_empty(), "nothing is compiled");
        self.runtime.block_on(collect(plan, self.context.task_ctx())).expect("it runs")
    }

    /// What compiling takes until the query has run.
    fn compile(&self, sql: &str) -> Duration {
        let plan = self.plan(sql);
        self.runtime.block_on(collect(Arc::clone(&plan), self.context.task_ctx())).expect("it runs");
        pipelines(&plan).iter().map(|exec| exec.compile_time()).sum()
    }

    fn run(&self, sql: &str) -> Measured {
        let plan = self.plan(sql);
        let median = median(|| self.collect(&plan));
        let last = self.collect(&plan);
        let mut rows: Vec<String> = Vec::new();
        for batch in last.iter().filter(|batch| batch.num_rows() < 100) {
            for row in 0..batch.num_rows() {
                let cell = |column: &ArrayRef| match column.as_primitive_opt::<arrow::datatypes::Float64Type>() {
                    Some(floats) => format!("{:.9e}", floats.value(row)),
                    None => arrow::util::display::array_value_to_string(column, row).expect("a value"),
                };
                rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>().join("|"));
            }
        }
        rows.sort();
        Measured { median, batches: last, rows }
    }
}

/// The tables, and the buffers of the vectors.
struct Data {
    tables: Vec<(&'static str, Vec<RecordBatch>)>,
    v: Vec<f32>,
    w: Vec<f32>,
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Data {
    fn new(rows: usize) -> Data {
        let mut state = 1u64;
        let mut next = move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1u64 << 24) as f32
        };
        let mut floats = |count: usize| (0..count).map(|_| next() - 0.5).collect::<Vec<f32>>();
        let (v, w) = (floats(rows * WIDTH), floats(rows * WIDTH));
        let (weights, bias) = (floats(OUT * WIDTH), floats(OUT));
        let x: ArrayRef = Arc::new(Float32Array::from(floats(rows)));
        let vectors = in_batches(vec![("v", lists(v.clone(), WIDTH)), ("w", lists(w.clone(), WIDTH)), ("x", x)]);
        let matrix = nested(lists(weights.clone(), WIDTH), OUT);
        let tables = vec![
            ("vectors", vectors),
            ("weights", in_batches(vec![("w", matrix), ("b", lists(bias.clone(), OUT))])),
            ("lineitem", lineitem(6 * rows, &mut floats)),
        ];
        Data { tables, v, w, weights, bias }
    }
}

fn lists(values: Vec<f32>, width: usize) -> ArrayRef {
    nested(Arc::new(Float32Array::from(values)), width)
}

fn nested(values: ArrayRef, width: usize) -> ArrayRef {
    let item = Arc::new(Field::new_list_field(values.data_type().clone(), false));
    Arc::new(FixedSizeListArray::new(item, width as i32, values, None))
}

fn in_batches(columns: Vec<(&str, ArrayRef)>) -> Vec<RecordBatch> {
    let whole = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let rows = whole.num_rows();
    (0..rows).step_by(BATCH).map(|start| whole.slice(start, BATCH.min(rows - start))).collect()
}

/// The columns of TPC-H's table that Q1 and Q6 read, as floats, dates as days since 1992.
fn lineitem(rows: usize, floats: &mut impl FnMut(usize) -> Vec<f32>) -> Vec<RecordBatch> {
    let mut column = |of: fn(f64) -> f64| -> ArrayRef {
        let values = floats(rows).into_iter().map(|x| of(f64::from(x) + 0.5));
        Arc::new(Float64Array::from_iter_values(values))
    };
    let dates = column(|x| (x * 2526.0).floor());
    let flags = column(|x| (x * 3.0).floor());
    let as_integers = |array: &ArrayRef, ty| arrow::compute::cast(array, &ty).expect("small integers");
    in_batches(vec![
        ("quantity", column(|x| 1.0 + (x * 50.0).floor())),
        ("price", column(|x| 900.0 + (x * 1e7).floor() / 100.0)),
        ("discount", column(|x| (x * 11.0).floor() / 100.0)),
        ("tax", column(|x| (x * 9.0).floor() / 100.0)),
        ("shipdate", as_integers(&dates, DataType::Int32)),
        ("flag", as_integers(&flags, DataType::Int8)),
    ])
}

// What one would write in Rust.

fn pairs(data: &Data) -> impl Iterator<Item = (&[f32], &[f32])> {
    data.v.chunks_exact(WIDTH).zip(data.w.chunks_exact(WIDTH))
}

fn dot(data: &Data) -> Vec<f32> {
    pairs(data).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a * b).sum()).collect()
}

fn distance(data: &Data) -> Vec<f32> {
    pairs(data).map(|(a, b)| a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt()).collect()
}

fn softmax(data: &Data) -> Vec<f32> {
    let mut made = Vec::with_capacity(data.v.len());
    for a in data.v.chunks_exact(WIDTH) {
        let top = a.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let start = made.len();
        made.extend(a.iter().map(|x| (x - top).exp()));
        let sum: f32 = made[start..].iter().sum();
        made[start..].iter_mut().for_each(|x| *x /= sum);
    }
    made
}

fn dense(data: &Data) -> Vec<f32> {
    let mut made = Vec::with_capacity(data.v.len() / WIDTH * OUT);
    for x in data.v.chunks_exact(WIDTH) {
        for (row, bias) in data.weights.chunks_exact(WIDTH).zip(&data.bias) {
            let sum: f32 = row.iter().zip(x).map(|(w, x)| w * x).sum();
            made.push((sum + bias).max(0.0));
        }
    }
    made
}
