//! The project's own Parquet scan, in the place of a `DataSourceExec` that feeds a pipeline.
//!
//! ```text
//! WeldExec ── asks for partition p of ──► DataSourceExec(ParquetSource)     stays in the plan: statistics,
//!    ▲                                           │ files, projection,       dynamic filters, fallback
//!    └── Decimal64, Utf8View, ... ◄── scan ◄─────┘ predicate, readers
//! ```
//!
//! Batches have the source's columns in narrower types than its schema says, which only compiled code may see: it
//! reads each array by the array's own type. What the scan does not cover leaves the whole source to DataFusion,
//! since its partitions share their files.

mod fetch;
mod predicate;
mod prune;
mod reader;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::compute::CastOptions;
use arrow::datatypes::DataType;
use arrow::util::display::FormatOptions;
use datafusion::common::Result;
use datafusion::datasource::physical_plan::parquet::DefaultParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetFileReaderFactory, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;

use crate::lower::Unsupported;

/// What does not fit the table's type is an error, as in DataFusion's scan.
const CAST: CastOptions<'static> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// A Parquet source that this scan covers.
pub(crate) struct ParquetScan<'a> {
    config: &'a FileScanConfig,
    source: &'a ParquetSource,
    columns: Vec<ScannedColumn>,
}

/// A column of the source's output: its name in the files, and the type that the table gives it.
#[derive(Clone, Debug)]
pub(crate) struct ScannedColumn {
    name: String,
    table_type: DataType,
}

/// Columns that arrow-rs has read, and why.
#[derive(Debug, Default)]
pub(crate) struct DeclinedColumns(Mutex<BTreeMap<String, String>>);

impl DeclinedColumns {
    fn note<'a>(&self, columns: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        columns.for_each(|(name, why)| drop(known.insert(name.to_owned(), why.to_owned())));
    }
}

impl fmt::Display for DeclinedColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, (name, why)) in known.iter().enumerate() {
            write!(f, "{}{name} by arrow-rs: {why}", if index > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

/// The stream of a partition of `source`, in narrow types where this scan covers it.
pub(crate) fn execute(
    source: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
    enabled: bool,
    declined: &Arc<DeclinedColumns>,
) -> Result<SendableRecordBatchStream> {
    match ParquetScan::of(source.as_ref()) {
        Ok(scan) if enabled => scan.stream(partition, &context, declined),
        _ => source.execute(partition, context),
    }
}

/// Who reads a Parquet source below a pipeline, for EXPLAIN: `weld`, or `datafusion` and why. After a run, with the columns
/// that arrow-rs has read.
pub(crate) fn describe(source: &dyn ExecutionPlan, enabled: bool, declined: &DeclinedColumns) -> Option<String> {
    source.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<ParquetSource>()?;
    Some(match ParquetScan::of(source) {
        _ if !enabled => "datafusion (weld.scan is off)".to_owned(),
        Ok(_) => match declined.to_string() {
            none if none.is_empty() => "weld".to_owned(),
            columns => format!("weld ({columns})"),
        },
        Err(unsupported) => format!("datafusion ({})", unsupported.why),
    })
}

/// The type in which a column of the table type arrives.
pub(crate) fn narrow(table_type: &DataType) -> DataType {
    match table_type {
        DataType::Decimal128(precision, scale) if *precision <= 18 => DataType::Decimal64(*precision, *scale),
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        other => other.clone(),
    }
}

impl<'a> ParquetScan<'a> {
    /// The scan of a plan node, or why it stays DataFusion's.
    pub(crate) fn of(plan: &'a dyn ExecutionPlan) -> Result<Self, Unsupported> {
        let no = |why: &str| Err(Unsupported::new("DataSourceExec", why));
        let Some(exec) = plan.downcast_ref::<DataSourceExec>() else { return no("is no data source") };
        let Some((config, source)) = exec.downcast_to_file_source::<ParquetSource>() else {
            return no("does not read Parquet");
        };
        let table = source.table_schema();
        if !table.table_partition_cols().is_empty() || !table.virtual_columns().is_empty() {
            return no("has columns that are not in the files");
        }
        if config.limit.is_some() {
            return no("stops at a limit");
        }
        if config.expr_adapter_factory.is_some() {
            return no("adapts files to the table in its own way");
        }
        let options = source.table_parquet_options();
        if options.global.pushdown_filters {
            return no("drops rows itself");
        }
        if options.crypto.file_decryption.is_some() || options.crypto.factory_id.is_some() {
            return no("is encrypted");
        }
        let files = config.file_groups.iter().flat_map(|group| group.files());
        if files.into_iter().any(|file| !file.extensions.is_empty()) {
            return no("is given rows to read");
        }
        let schema = table.table_schema();
        let Some(projection) = source.projection() else { return no("has no projection") };
        let mut columns = Vec::new();
        for projected in projection.iter() {
            let Some(column) = projected.expr.downcast_ref::<Column>() else { return no("computes columns") };
            let field = schema.field(column.index());
            if field.data_type().is_nested() {
                return no("has nested columns");
            }
            columns.push(ScannedColumn { name: field.name().clone(), table_type: field.data_type().clone() });
        }
        Ok(ParquetScan { config, source, columns })
    }

    fn stream(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
        declined: &Arc<DeclinedColumns>,
    ) -> Result<SendableRecordBatchStream> {
        let readers: Arc<dyn ParquetFileReaderFactory> = match self.source.parquet_file_reader_factory() {
            Some(readers) => Arc::clone(readers),
            None => {
                let store = context.runtime_env().object_store(&self.config.object_store_url)?;
                Arc::new(DefaultParquetFileReaderFactory::new(store))
            }
        };
        let files = match self.config.file_groups.get(partition) {
            Some(group) => group.files().to_vec(),
            None => Vec::new(),
        };
        let scan = reader::Scan {
            partition,
            readers,
            columns: self.columns.clone(),
            declined: Arc::clone(declined),
            table_schema: Arc::clone(self.source.table_schema().table_schema()),
            predicate: self.source.filter(),
            pruning: prune::Allowed::of(&self.source.table_parquet_options().global),
            batch_rows: context.session_config().batch_size(),
            metrics: self.source.metrics().clone(),
        };
        scan.stream(files)
    }
}
