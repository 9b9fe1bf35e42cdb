//! Random queries over random tables give with Weld what they give without it: values, types, errors.
//!
//! One seed makes tables, a session's settings, a storage, and some queries. `WELD_SQL_SEEDS=1000..2000 cargo test -p
//! weld-datafusion --test random -- --nocapture` tries others, and does not stop at the first that differs.

#[path = "../common/mod.rs"]
mod common;
mod queries;
mod tables;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use arrow::util::display::array_value_to_string;
use arrow::util::pretty::pretty_format_batches;
use common::{Engines, config, session};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::collect;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterVersion};
use queries::Queries;
use tables::Table;
use weld_datafusion::summary;
use weld_test::generate::rng::Rng;

const SEEDS: Range<u64> = 0..12;
const QUERIES_PER_SEED: usize = 6;

#[derive(Default)]
struct Tally {
    queries: usize,
    errors: usize,
    operators: usize,
    compiled: usize,
    differences: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_queries_agree() {
    let given = std::env::var("WELD_SQL_SEEDS").ok();
    let seeds = given.as_deref().map_or(SEEDS, |text| {
        let (from, to) = text.split_once("..").expect("WELD_SQL_SEEDS is FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    });
    let mut tally = Tally::default();
    for seed in seeds {
        let before = tally.differences.len();
        try_seed(seed, &mut tally).await;
        for difference in &tally.differences[before..] {
            println!("== seed {seed}: {difference}\n");
        }
    }
    let Tally { queries, errors, operators, compiled, differences } = tally;
    println!("{queries} queries, {errors} errors in both, {compiled} of {operators} operators compiled");
    assert!(differences.is_empty(), "{} of {queries} queries differ:\n{}", differences.len(), differences.join("\n\n"));
    assert!(compiled * 4 > operators, "too few operators are compiled: {compiled} of {operators}");
}

/// What a query gives.
struct Answer {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    operators: usize,
    compiled: usize,
}

async fn try_seed(seed: u64, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let partitions = rng.pick(&[1, 1, 3]);
    let settings = settings(&mut rng, partitions);
    let tables: Vec<Table> =
        ["a", "b", "c"][..1 + rng.below(3)].iter().map(|name| Table::new(&mut rng, name)).collect();
    let engines = Engines::new(settings);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let in_memory = rng.one_in(2);
    for table in &tables {
        if in_memory {
            engines.table(&table.name, table.batches.clone());
        } else {
            let path = folder.path().join(&table.name);
            write_parquet(&mut rng, table, &path);
            let path = format!("{}/", path.to_str().expect("a temporary folder has a plain name"));
            for context in [&engines.stock, &engines.weld] {
                let options = ParquetReadOptions::default();
                context.register_parquet(&table.name, &path, options).await.expect("the files just written");
            }
        }
    }
    let one_row = session(config(1).with_batch_size(1), false);
    for table in &tables {
        let by_row = MemTable::try_new(table.batches[0].schema(), vec![table.one_row_batches()]);
        one_row.register_table(&table.name, Arc::new(by_row.expect("batches of one schema"))).expect("a new name");
    }
    for _ in 0..QUERIES_PER_SEED {
        let sql = Queries::new(&mut rng, &tables).query();
        let stock = run(&engines.stock, &sql).await;
        let weld = run(&engines.weld, &sql).await;
        tally.queries += 1;
        let difference = match (&stock, &weld) {
            (Ok(stock), Ok(weld)) => {
                tally.operators += weld.operators;
                tally.compiled += weld.compiled;
                difference(stock, weld)
            }
            (Err(stock), Err(error)) if is_defect(error) && !is_defect(stock) => {
                Some(format!("both fail, weld: {error}"))
            }
            (Err(_), Err(_)) => {
                tally.errors += 1;
                None
            }
            (Ok(_), Err(error)) => Some(format!("stock gives rows, weld: {error}")),
            // Whether the operand that fails is evaluated may depend on where batches begin.
            (Err(error), Ok(_)) => match run(&one_row, &sql).await {
                Ok(_) => None,
                Err(_) => Some(format!("weld gives rows, stock: {error}")),
            },
        };
        if let Some(difference) = difference {
            let plan = plan(&engines.weld, &sql).await;
            let of = |table: &Table| {
                if table.is_large() {
                    return format!("{}: large", table.name);
                }
                let shown = pretty_format_batches(&table.batches).expect("printable values").to_string();
                format!(
                    "{}: {:?}\n{shown}",
                    table.name,
                    table.batches[0].schema().fields().iter().map(|f| f.data_type().to_string()).collect::<Vec<_>>()
                )
            };
            let used = tables.iter().filter(|table| sql.contains(&format!(" {} AS ", table.name)));
            let shown = used.map(of).collect::<Vec<_>>().join("\n");
            let place = if in_memory { "in memory" } else { "in Parquet" };
            tally.differences.push(format!("{difference}\n{sql}\n{partitions} partitions, {place}\n{plan}\n{shown}"));
        }
    }
}

fn is_defect(error: &str) -> bool {
    let error = error.to_lowercase();
    error.contains("panic") || error.contains("internal error")
}

fn settings(rng: &mut Rng, partitions: usize) -> SessionConfig {
    let batch_size = rng.pick(&[2, 10, 64, 8192]);
    config(partitions)
        .with_batch_size(batch_size)
        .set_bool("datafusion.execution.parquet.pushdown_filters", rng.one_in(3))
        .set_bool("datafusion.optimizer.repartition_joins", rng.one_in(2))
        .set_u64("datafusion.optimizer.repartition_file_min_size", rng.pick(&[0, 10_000_000]))
        .set_u64("datafusion.optimizer.hash_join_single_partition_threshold", rng.pick(&[0, 1_000_000]))
        .set_u64("datafusion.optimizer.hash_join_single_partition_threshold_rows", rng.pick(&[0, 1_000_000]))
}

/// One file or two, with small row groups and pages, or large ones.
fn write_parquet(rng: &mut Rng, table: &Table, folder: &std::path::Path) {
    std::fs::create_dir(folder).expect("a temporary folder is writable");
    let files = if table.batches.len() > 1 { 1 + rng.below(2) } else { 1 };
    for number in 0..files {
        let version = rng.pick(&[WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]);
        let properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_dictionary_enabled(rng.one_in(2))
            .set_bloom_filter_enabled(rng.one_in(4))
            .set_max_row_group_row_count(Some(rng.pick(&[3, 50, 1_000_000])))
            .set_data_page_row_count_limit(rng.pick(&[2, 20, 20_000]))
            .set_write_batch_size(rng.pick(&[1, 1024]))
            .set_compression(rng.pick(&[Compression::UNCOMPRESSED, Compression::SNAPPY]))
            .build();
        let file =
            std::fs::File::create(folder.join(format!("{number}.parquet"))).expect("a temporary folder is writable");
        let schema = table.batches[0].schema();
        let mut writer = ArrowWriter::try_new(file, schema, Some(properties)).expect("types that Parquet knows");
        for batch in table.batches.iter().skip(number).step_by(files) {
            writer.write(batch).expect("a temporary folder is writable");
        }
        writer.close().expect("a temporary folder is writable");
    }
}

/// In a task of its own: a panic becomes an error.
async fn run(context: &SessionContext, sql: &str) -> Result<Answer, String> {
    let (context, sql) = (context.clone(), sql.to_owned());
    let task = tokio::spawn(async move {
        let text = |error: datafusion::error::DataFusionError| error.to_string();
        let plan = context.sql(&sql).await.map_err(text)?.create_physical_plan().await.map_err(text)?;
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await.map_err(text)?;
        let summary = summary(&plan);
        if let Some(failed) = summary.declined.iter().find(|declined| declined.reason.contains("does not compile")) {
            return Err(format!("panic: {}", failed.reason));
        }
        let (operators, compiled) = (summary.operators_total, summary.operators_compiled);
        Ok(Answer { schema: plan.schema(), batches, operators, compiled })
    });
    match tokio::time::timeout(Duration::from_secs(1000), task).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => Err(format!("panic: {error}")),
        Err(_) => Err("panic: it does not end".to_owned()),
    }
}

async fn plan(context: &SessionContext, sql: &str) -> String {
    let Ok(frame) = context.sql(sql).await else { return String::new() };
    let Ok(plan) = frame.create_physical_plan().await else { return String::new() };
    datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string()
}

/// What the first difference is. Rows as sets with repetitions: the queries that order show no ties.
fn difference(stock: &Answer, weld: &Answer) -> Option<String> {
    let describe = |schema: &SchemaRef| {
        let column = |field: &arrow::datatypes::FieldRef| {
            format!("{} {}{}", field.name(), field.data_type(), if field.is_nullable() { " null" } else { "" })
        };
        schema.fields().iter().map(column).collect::<Vec<_>>().join(", ")
    };
    let (expected, found) = (describe(&stock.schema), describe(&weld.schema));
    if expected != found {
        return Some(format!("columns ({expected}) expected, ({found}) found"));
    }
    let (expected, found) = (rows(&stock.batches), rows(&weld.batches));
    if expected.len() != found.len() {
        let rows = |rows: &[Vec<Cell>]| format!("{:?}", &rows[..rows.len().min(8)]);
        return Some(format!(
            "{} rows expected, {} found\n{}\n{}",
            expected.len(),
            found.len(),
            rows(&expected),
            rows(&found)
        ));
    }
    let differs = |(a, b): &(&Vec<Cell>, &Vec<Cell>)| !a.iter().zip(b.iter()).all(|(a, b)| a.is_like(b));
    let first = expected.iter().zip(&found).find(differs);
    first.map(|(a, b)| format!("{a:?} expected, {b:?} found"))
}

#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Cell {
    Null,
    Exact(String),
    Float(f64),
}

impl Cell {
    /// Floats up to the order of a sum's terms; signed zeros and infinities only themselves, any NaN is NaN.
    fn is_like(&self, other: &Cell) -> bool {
        match (self, other) {
            (Cell::Float(a), Cell::Float(b)) if a.is_finite() && b.is_finite() && a != b => {
                (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
            }
            (Cell::Float(a), Cell::Float(b)) => {
                a.is_nan() && b.is_nan() || a == b && (*a != 0.0 || a.is_sign_negative() == b.is_sign_negative())
            }
            (a, b) => a == b,
        }
    }
}

/// In an order that the values decide, exact ones first.
fn rows(batches: &[RecordBatch]) -> Vec<Vec<Cell>> {
    let row =
        |batch: &RecordBatch, row: usize| batch.columns().iter().map(|column| cell(column.as_ref(), row)).collect();
    let mut rows: Vec<Vec<Cell>> =
        batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |index| row(batch, index))).collect();
    let key = |row: &[Cell]| -> (Vec<Cell>, Vec<Cell>) {
        row.iter().cloned().partition(|cell| !matches!(cell, Cell::Float(_)))
    };
    let order = |a: &Cell, b: &Cell| match (a, b) {
        (Cell::Float(a), Cell::Float(b)) if a.is_nan() || b.is_nan() => a.is_nan().cmp(&b.is_nan()),
        (Cell::Float(a), Cell::Float(b)) => a.total_cmp(b),
        (a, b) => a.partial_cmp(b).expect("no floats"),
    };
    rows.sort_by_cached_key(|row| {
        let (exact, floats) = key(row);
        SortKey(exact.into_iter().chain(floats).collect(), order)
    });
    rows
}

struct SortKey<F>(Vec<Cell>, F);

impl<F: Fn(&Cell, &Cell) -> std::cmp::Ordering> Ord for SortKey<F> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let each = self.0.iter().zip(&other.0).map(|(a, b)| (self.1)(a, b));
        each.reduce(std::cmp::Ordering::then).unwrap_or(std::cmp::Ordering::Equal)
    }
}

impl<F: Fn(&Cell, &Cell) -> std::cmp::Ordering> PartialOrd for SortKey<F> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<F: Fn(&Cell, &Cell) -> std::cmp::Ordering> PartialEq for SortKey<F> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<F: Fn(&Cell, &Cell) -> std::cmp::Ordering> Eq for SortKey<F> {}

fn cell(column: &dyn Array, row: usize) -> Cell {
    if column.is_null(row) {
        return Cell::Null;
    }
    match column.data_type() {
        DataType::Float32 => Cell::Float(f64::from(column.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => Cell::Float(column.as_primitive::<Float64Type>().value(row)),
        _ => Cell::Exact(array_value_to_string(column, row).unwrap_or_else(|error| error.to_string())),
    }
}
