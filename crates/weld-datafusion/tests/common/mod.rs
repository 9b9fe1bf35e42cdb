//! Two sessions over the same tables, stock DataFusion and Weld, and the comparison of their answers.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, RecordBatch, RecordBatchReader};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use parquet::arrow::ArrowWriter;
use tpchgen::generators as rows;
use weld_datafusion::{Summary, WeldOptions, WeldSessionExt, WeldTable, pipelines, summary};

/// The same tables in both.
pub(crate) struct Engines {
    pub(crate) stock: SessionContext,
    pub(crate) weld: SessionContext,
}

/// What Weld made of a query.
pub(crate) struct Run {
    pub(crate) summary: Summary,
    /// Pipelines that ran on DataFusion's operators after all.
    pub(crate) fallbacks: usize,
    /// Partitions that went over to DataFusion's operators for lack of memory.
    pub(crate) handovers: usize,
    pub(crate) rows: Vec<String>,
}

/// Everything is compiled, over however few rows.
pub(crate) fn config(partitions: usize) -> SessionConfig {
    let mut options = WeldOptions::default();
    (options.compile_min_rows, options.plan_min_rows) = (0, 0);
    let config = SessionConfig::new().with_target_partitions(partitions).with_information_schema(true);
    config.with_option_extension(options)
}

pub(crate) fn session(config: SessionConfig, weld: bool) -> SessionContext {
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    SessionContext::new_with_state(if weld { builder.with_weld() } else { builder }.build())
}

impl Engines {
    pub(crate) fn new(config: SessionConfig) -> Engines {
        Engines { stock: session(config.clone(), false), weld: session(config, true) }
    }

    /// An in-memory table of as many partitions as the sessions have; encoded for Weld, in small zones, if
    /// `WELD_TEST_ENCODED=1`.
    pub(crate) fn table(&self, name: &str, batches: Vec<RecordBatch>) {
        let schema = batches[0].schema();
        if std::env::var_os("WELD_TEST_ENCODED").is_some() {
            return self.encoded_table(name, batches, 100);
        }
        for context in [&self.stock, &self.weld] {
            let partitions = context.state().config().target_partitions();
            let mut parts = vec![Vec::new(); partitions];
            for (index, batch) in batches.iter().enumerate() {
                parts[index % partitions].push(batch.clone());
            }
            let table = MemTable::try_new(schema.clone(), parts).expect("batches of one schema");
            context.register_table(name, Arc::new(table)).expect("a new name");
        }
    }

    /// The same, encoded for Weld, with zones of so many rows.
    pub(crate) fn encoded_table(&self, name: &str, batches: Vec<RecordBatch>, zone_rows: usize) {
        let schema = batches[0].schema();
        let encoded = WeldTable::with_zone_rows(schema.clone(), batches.clone(), zone_rows).expect("one schema");
        self.weld.register_table(name, Arc::new(encoded)).expect("a new name");
        let memory = MemTable::try_new(schema, vec![batches]).expect("batches of one schema");
        self.stock.register_table(name, Arc::new(memory)).expect("a new name");
    }

    /// A table from SQL, cut into batches of `batch_rows`.
    pub(crate) async fn table_from(&self, name: &str, sql: &str, batch_rows: usize) {
        let frame = self.stock.sql(sql).await.expect("valid SQL");
        let schema: SchemaRef = Arc::new(frame.schema().as_arrow().clone());
        let whole =
            arrow::compute::concat_batches(&schema, &frame.collect().await.expect("it runs")).expect("one schema");
        let batches: Vec<RecordBatch> = (0..whole.num_rows())
            .step_by(batch_rows)
            .map(|start| whole.slice(start, batch_rows.min(whole.num_rows() - start)))
            .collect();
        self.table(name, if batches.is_empty() { vec![whole] } else { batches });
    }

    /// Sessions whose queries may use so many bytes of memory each, and spill.
    pub(crate) fn limited(config: SessionConfig, bytes: usize) -> Engines {
        let session = |weld: bool| {
            let runtime = RuntimeEnvBuilder::new().with_memory_limit(bytes, 1.0).build_arc().expect("a runtime");
            let builder = SessionStateBuilder::new().with_config(config.clone()).with_default_features();
            let builder = builder.with_runtime_env(runtime);
            SessionContext::new_with_state(if weld { builder.with_weld() } else { builder }.build())
        };
        Engines { stock: session(false), weld: session(true) }
    }

    /// Runs on Weld; the error's text if it fails.
    pub(crate) async fn run(&self, sql: &str) -> Result<Run, String> {
        Engines::run_on(&self.weld, sql).await
    }

    /// The same in another session.
    pub(crate) async fn run_on(context: &SessionContext, sql: &str) -> Result<Run, String> {
        let (plan, batches) = executed(context, sql).await.map_err(|e| e.to_string())?;
        let batches = batches.map_err(|e| e.to_string())?;
        let (fallbacks, handovers) = (counted(&plan, "fallbacks"), counted(&plan, "handovers"));
        Ok(Run { summary: summary(&plan), fallbacks, handovers, rows: sorted_rows(&batches) })
    }

    pub(crate) async fn stock_rows(&self, sql: &str) -> Result<Vec<String>, String> {
        let (_, batches) = executed(&self.stock, sql).await.map_err(|e| e.to_string())?;
        Ok(sorted_rows(&batches.map_err(|e| e.to_string())?))
    }

    /// Both give the same rows, and Weld compiled at least `compiled` operators.
    pub(crate) async fn check(&self, sql: &str, compiled: usize) -> Run {
        let expected = self.stock_rows(sql).await.unwrap_or_else(|error| panic!("{sql}\nstock: {error}"));
        let run = self.run(sql).await.unwrap_or_else(|error| panic!("{sql}\nweld: {error}"));
        assert_eq!(run.rows, expected, "{sql}");
        assert!(run.summary.operators_compiled >= compiled, "{sql}\nleft: {:?}", run.summary.declined);
        assert_eq!(run.fallbacks, 0, "{sql}\nran on DataFusion's operators");
        run
    }

    /// A table of both engines in a Parquet file that `sql` makes.
    pub(crate) async fn parquet_from(&self, name: &str, sql: &str, folder: &std::path::Path) {
        let path = folder.join(format!("{name}.parquet"));
        let path = path.to_str().expect("a path in UTF-8");
        let write = format!("COPY ({sql}) TO '{path}' STORED AS PARQUET");
        self.stock.sql(&write).await.expect("valid SQL").collect().await.expect("it writes");
        for context in [&self.stock, &self.weld] {
            let options = datafusion::prelude::ParquetReadOptions::default();
            context.register_parquet(name, path, options).await.expect("the file just written");
        }
    }

    /// In a few runs, Weld has the `expected` rows, or stock is refused memory as well. Who is depends on who asks
    /// first, in both engines. Weld fails for no other reason.
    pub(crate) async fn comes_through_as_stock(&self, sql: &str, expected: &[String]) -> bool {
        for _ in 0..5 {
            match self.run(sql).await {
                Ok(run) => {
                    assert_eq!(run.rows, expected, "{sql}");
                    return true;
                }
                Err(error) => assert!(error.contains("Resources exhausted"), "{sql}: {error}"),
            }
            if self.stock_rows(sql).await.is_err() {
                return true;
            }
        }
        false
    }

    /// Both fail, Weld with `message` in its error.
    pub(crate) async fn check_error(&self, sql: &str, message: &str) {
        let stock = self.stock_rows(sql).await;
        assert!(stock.is_err(), "{sql}\nstock gives {stock:?}");
        match self.run(sql).await {
            Ok(run) => panic!("{sql}\nweld gives {:?}", run.rows),
            Err(error) => assert!(error.contains(message), "{sql}\n{error}"),
        }
    }
}

/// The plan of a query and what it gave.
///
/// Exchanges of DataFusion 55.2 that spill may wait for each other for ever (apache/datafusion#24883), in either
/// engine: where memory is limited, what has not ended after a minute is dropped and runs again.
pub(crate) async fn executed(
    context: &SessionContext,
    sql: &str,
) -> Result<(Arc<dyn ExecutionPlan>, Result<Vec<RecordBatch>>)> {
    let run = async || {
        let plan = context.sql(sql).await?.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await;
        Ok((plan, batches))
    };
    if !matches!(context.runtime_env().memory_pool.memory_limit(), MemoryLimit::Finite(_)) {
        return run().await;
    }
    for _ in 0..5 {
        match tokio::time::timeout(Duration::from_secs(60), run()).await {
            Ok(ended) => return ended,
            Err(_) => println!("no end within a minute: {sql}"),
        }
    }
    panic!("no end in five runs: {sql}");
}

pub(crate) fn counted(plan: &Arc<dyn ExecutionPlan>, metric: &str) -> usize {
    let of = |exec: &weld_datafusion::WeldExec| Some(exec.metrics()?.sum_by_name(metric)?.as_usize());
    pipelines(plan).iter().filter_map(of).sum()
}

/// One line a row, in an order that only the values decide. Floats to ten digits.
pub(crate) fn sorted_rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| cell(column.as_ref(), row));
            rows.push(cells.collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort();
    rows
}

fn cell(column: &dyn Array, row: usize) -> String {
    // An entry of a dictionary may be null, too.
    if column.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return "null".to_owned();
    }
    let text = array_value_to_string(column, row).expect("a printable value");
    // Sums depend on the order of their rows in the last bits. What lies halfway between two texts, as fractions of
    // small powers of two do, is moved away from there.
    let rounded = |value: f64| {
        let moved = value * (1.0 + 1e-12);
        format!("{:.9e}", if moved.is_finite() { moved } else { value })
    };
    match column.data_type() {
        DataType::Float32 | DataType::Float64 => text.parse().map_or(text, rounded),
        _ => text,
    }
}

/// The eight tables of TPC-H.
pub(crate) fn tpch(scale: f64) -> Vec<(&'static str, Vec<RecordBatch>)> {
    use tpchgen_arrow as arrow;
    fn all(reader: impl RecordBatchReader) -> Vec<RecordBatch> {
        reader.collect::<Result<_, _>>().expect("generated data")
    }
    vec![
        ("region", all(arrow::RegionArrow::new(rows::RegionGenerator::new(scale, 1, 1)))),
        ("nation", all(arrow::NationArrow::new(rows::NationGenerator::new(scale, 1, 1)))),
        ("supplier", all(arrow::SupplierArrow::new(rows::SupplierGenerator::new(scale, 1, 1)))),
        ("customer", all(arrow::CustomerArrow::new(rows::CustomerGenerator::new(scale, 1, 1)))),
        ("part", all(arrow::PartArrow::new(rows::PartGenerator::new(scale, 1, 1)))),
        ("partsupp", all(arrow::PartSuppArrow::new(rows::PartSuppGenerator::new(scale, 1, 1)))),
        ("orders", all(arrow::OrderArrow::new(rows::OrderGenerator::new(scale, 1, 1)))),
        ("lineitem", all(arrow::LineItemArrow::new(rows::LineItemGenerator::new(scale, 1, 1)))),
    ]
}

pub(crate) fn tpch_query(number: usize) -> String {
    let path = format!("{}/../../queries/tpch/q{number}.sql", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn tpch_in_memory(partitions: usize, scale: f64) -> Engines {
    let engines = Engines::new(config(partitions));
    for (name, batches) in tpch(scale) {
        engines.table(name, batches);
    }
    engines
}

/// The files are in `folder`, which must outlive the sessions.
pub(crate) async fn tpch_in_parquet(partitions: usize, scale: f64, folder: &std::path::Path) -> Engines {
    let engines = Engines::new(config(partitions));
    for (name, batches) in tpch(scale) {
        let path = folder.join(format!("{name}.parquet"));
        let file = std::fs::File::create(&path).expect("a temporary folder is writable");
        let mut writer = ArrowWriter::try_new(file, batches[0].schema(), None).expect("a plain schema");
        batches.iter().for_each(|batch| writer.write(batch).expect("a temporary folder is writable"));
        writer.close().expect("a temporary folder is writable");
        let path = path.to_str().expect("a temporary folder has a plain name");
        for context in [&engines.stock, &engines.weld] {
            context.register_parquet(name, path, ParquetReadOptions::default()).await.expect("the file just written");
        }
    }
    engines
}
