//! Sources that give compiled code their columns encoded: encoded tables in memory, and Parquet through the project's
//! own scan, which takes the place of a `DataSourceExec` that feeds a pipeline.
//!
//! ```text
//! WeldExec ── asks for partition p of ──► DataSourceExec(ParquetSource)     stays in the plan: statistics,
//!    ▲                                           │ files, projection,       dynamic filters, fallback
//!    └── Decimal64, Utf8View, ... ◄── scan ◄─────┘ predicate, readers
//! ```
//!
//! Batches have the source's columns in narrower types than its schema says, which only compiled code may see: it reads
//! each array by the array's own type. Below operators of DataFusion the types are those of the schema (`exec`). What
//! the scan does not cover leaves the whole source to DataFusion, since its partitions share their files.

mod adapt;
mod codes;
mod columns;
mod entries;
mod exec;
mod fetch;
mod file;
mod files;
mod filters;
mod local;
mod order;
mod paths;
mod pools;
mod predicate;
mod prune;
mod reader;
mod source;
mod texts;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::compute::CastOptions;
use arrow::datatypes::{SchemaRef, TimeUnit};
use arrow::util::display::FormatOptions;
use datafusion::common::Result;
use datafusion::datasource::physical_plan::parquet::DefaultParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetFileReaderFactory, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use weld_plans::is_datafusions_reader;

use self::columns::Columns;
use self::files::Files;
use self::local::LocalReaders;
use crate::lower::Unsupported;

pub(crate) use self::adapt::may_have_nulls;
pub(crate) use self::columns::{coded, is_dictionary_of_text, narrow};
pub(crate) use self::entries::ROWS_PER_ENTRY;
pub(crate) use self::exec::{ScanExec, with_scans};
pub(crate) use self::paths::path_of;
pub(crate) use self::source::{EncodedSource, Sharing, execute, in_declared_types};

/// What does not fit the table's type is an error, as in DataFusion's scan.
const CAST: CastOptions<'static> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// A Parquet source that this scan covers.
pub(crate) struct ParquetScan<'a> {
    config: &'a FileScanConfig,
    source: &'a ParquetSource,
    columns: Columns,
}

/// What a pipeline asks of its source beside the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Columns that are wanted as codes: see [`have_few_values`], and dictionaries of text that are wanted with views
    /// as entries.
    pub(crate) coded: &'a [usize],
    /// Where the scan notes the columns that it does not decode itself.
    pub(crate) declined: &'a Arc<DeclinedColumns>,
    /// No row is dropped: what is computed right above may fail in it, and DataFusion's source, which would compute it,
    /// drops none.
    pub(crate) keeps_rows: bool,
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

/// A unit of time by the name that settings have for it.
fn unit(name: &str) -> Option<TimeUnit> {
    Some(match name.to_ascii_lowercase().as_str() {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    })
}

/// Who reads a Parquet source below a pipeline, for EXPLAIN: `weld`, or `datafusion` and why. After a run, with the
/// columns that arrow-rs has read.
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

/// For each list of a source's columns whether they are better read as codes: the first file has them as codes of small
/// dictionaries.
pub(crate) async fn have_few_values(
    source: &dyn ExecutionPlan,
    columns: &[&[usize]],
    context: &TaskContext,
) -> Vec<bool> {
    let none = vec![false; columns.len()];
    let Ok(scan) = ParquetScan::of(source) else { return none };
    let Ok(Some(metadata)) = scan.first_metadata(context).await else { return none };
    let few = |columns: &&[usize]| {
        let paths = scan.columns.paths(columns).filter(|paths| !paths.is_empty());
        paths.is_some_and(|paths| codes::are_small(&metadata, &paths))
    };
    columns.iter().map(few).collect()
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
        if !table.virtual_columns().is_empty() {
            return no("has columns that are not in the files");
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
        let Some(projection) = source.projection() else { return no("has no projection") };
        let columns = Columns::of(projection, table)?;
        Ok(ParquetScan { config, source, columns })
    }

    /// The same, giving the types that the source declares.
    fn in_declared_types(mut self, schema: SchemaRef) -> Self {
        self.columns = self.columns.in_declared_types(schema);
        self
    }

    fn readers(&self, context: &TaskContext) -> Result<Arc<dyn ParquetFileReaderFactory>> {
        let given = self.source.parquet_file_reader_factory();
        if let Some(readers) = given.filter(|readers| !is_datafusions_reader(readers)) {
            return Ok(Arc::clone(readers));
        }
        let store = context.runtime_env().object_store(&self.config.object_store_url)?;
        let readers = match given {
            Some(readers) => Arc::clone(readers),
            None => Arc::new(DefaultParquetFileReaderFactory::new(Arc::clone(&store))),
        };
        let is_local = self.config.object_store_url.as_str().starts_with("file:");
        Ok(if is_local { Arc::new(LocalReaders::new(store, readers)) } else { readers })
    }

    async fn first_metadata(&self, context: &TaskContext) -> Result<Option<Arc<ParquetMetaData>>> {
        let Some(file) = self.config.file_groups.iter().flat_map(|group| group.files()).next() else { return Ok(None) };
        let hint = self.source.table_parquet_options().global.metadata_size_hint;
        let (readers, hint) = (self.readers(context)?, file.metadata_size_hint.or(hint));
        let mut reader = readers.create_reader(0, file.clone(), hint, &ExecutionPlanMetricsSet::new())?;
        Ok(Some(reader.get_metadata(None).await?))
    }

    fn stream(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
        sharing: &Sharing,
        request: Request<'_>,
    ) -> Result<SendableRecordBatchStream> {
        let files = Files::of(self.config, partition, context.session_config().options(), sharing);
        let options = &self.source.table_parquet_options().global;
        let scan = reader::Scan {
            partition,
            readers: self.readers(context)?,
            columns: self.columns.clone().with_codes(request.coded).keeping_rows(request.keeps_rows),
            declined: Arc::clone(request.declined),
            table: self.source.table_schema().clone(),
            predicate: self.source.filter(),
            pruning: prune::Allowed::of(options),
            metadata_size_hint: options.metadata_size_hint,
            int96: options.coerce_int96.as_deref().and_then(unit).map(|unit| {
                let zone = options.coerce_int96_tz.as_deref().map(Arc::from);
                (unit, zone)
            }),
            limit: self.config.limit,
            order: match self.config.preserve_order {
                true => None,
                false => order::Order::of(&self.config.file_source, self.source.filter().as_ref()),
            },
            ordered: self.config.preserve_order,
            batch_rows: context.session_config().batch_size(),
            metrics: self.source.metrics().clone(),
        };
        Ok(scan.stream(files))
    }
}
