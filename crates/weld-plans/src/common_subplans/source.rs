//! Sources made anew with other columns of their table, or another filter.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::config::CsvOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{
    ArrowSource, CsvSource, FileScanConfig, FileSource, JsonSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::object_store::memory::InMemory;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use weld_table::TableSource;

/// Which columns of its table a source gives, if it could give others and all rows.
pub(super) fn source_columns(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<usize>> {
    let source = plan.downcast_ref::<DataSourceExec>()?.data_source();
    if let Some(memory) = source.downcast_ref::<MemorySourceConfig>() {
        let all = || (0..memory.original_schema().fields().len()).collect();
        let can_change = plan.fetch().is_none() && memory.sort_information().is_empty();
        return can_change.then(|| memory.projection().clone().unwrap_or_else(all));
    }
    if let Some(table) = source.downcast_ref::<TableSource>() {
        return plan.fetch().is_none().then(|| table.columns().to_vec());
    }
    let config = source.downcast_ref::<FileScanConfig>().filter(|config| config.limit.is_none())?;
    parquet_anew(config.file_source())?;
    let schema = config.file_source().table_schema().table_schema();
    let columns = config.file_source().projection()?.iter().map(|projected| {
        let column = projected.expr.downcast_ref::<Column>()?;
        let field = schema.fields().get(column.index())?;
        (*field.name() == projected.alias).then_some(column.index())
    });
    columns.collect()
}

/// The same source with these columns of its table.
pub(super) fn with_source_columns(plan: &Arc<dyn ExecutionPlan>, columns: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(exec) = plan.downcast_ref::<DataSourceExec>() else {
        return internal_err!("{} is no source", plan.name());
    };
    if let Some(memory) = exec.data_source().downcast_ref::<MemorySourceConfig>() {
        let wide = MemorySourceConfig::try_new(memory.partitions(), memory.original_schema(), Some(columns.to_vec()))?;
        return Ok(DataSourceExec::from_data_source(wide.with_show_sizes(memory.show_sizes())));
    }
    if let Some(table) = exec.data_source().downcast_ref::<TableSource>() {
        return Ok(DataSourceExec::from_data_source(table.with_columns(columns)?));
    }
    let Some(config) = exec.data_source().downcast_ref::<FileScanConfig>() else {
        return internal_err!("{} has no files", plan.name());
    };
    let projection = ProjectionExprs::from_indices(columns, config.file_source().table_schema().table_schema());
    match with_projection(plan, &projection) {
        Some(wide) => Ok(wide),
        None => internal_err!("{} files cannot be read anew", config.file_source().file_type()),
    }
}

/// A source of files with another projection of its table; `None` where it cannot be made anew.
pub fn with_projection(plan: &Arc<dyn ExecutionPlan>, projection: &ProjectionExprs) -> Option<Arc<dyn ExecutionPlan>> {
    let config = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    let mut made = config.clone();
    made.file_source = anew(config)?.try_pushdown_projection(projection).ok()??;
    Some(DataSourceExec::from_data_source(made))
}

/// What a source of files leaves rows out by, as far as statistics tell; whoever reads it asks again.
pub(super) fn filter_of_source(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn PhysicalExpr>> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?.file_source().filter()
}

/// A source of Parquet files with another filter; `None` where it cannot be made anew, or drops all rows by its filter
/// that this leaves out.
pub(super) fn with_source_filter(
    plan: &Arc<dyn ExecutionPlan>,
    filter: Arc<dyn PhysicalExpr>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let exec = plan.downcast_ref::<DataSourceExec>();
    let Some(config) = exec.and_then(|exec| exec.data_source().downcast_ref::<FileScanConfig>()) else {
        return Ok(None);
    };
    let source = config.file_source();
    let (Some(parquet), Some(projection)) = (parquet_anew(source), source.projection()) else { return Ok(None) };
    if parquet.table_parquet_options().global.pushdown_filters {
        return Ok(None);
    }
    let Some(projected) = parquet.with_predicate(filter).try_pushdown_projection(projection)? else { return Ok(None) };
    let mut made = config.clone();
    made.file_source = projected;
    Ok(Some(DataSourceExec::from_data_source(made)))
}

/// The source with all columns of its table: one that gives some takes no others.
fn anew(config: &FileScanConfig) -> Option<Arc<dyn FileSource>> {
    let source = config.file_source();
    let schema = source.table_schema().clone();
    if let Some(csv) = source.downcast_ref::<CsvSource>() {
        return Some(Arc::new(CsvSource::new(schema).with_csv_options(csv_options(csv))));
    }
    if source.is::<JsonSource>() {
        let by_lines = is_json_by_lines(source, config);
        return Some(Arc::new(JsonSource::new(schema).with_newline_delimited(by_lines)));
    }
    if source.is::<ArrowSource>() {
        return match source.file_type() {
            "arrow" => Some(Arc::new(ArrowSource::new_file_source(schema))),
            "arrow_stream" => Some(Arc::new(ArrowSource::new_stream_file_source(schema))),
            _ => None,
        };
    }
    parquet_anew(source).map(|parquet| Arc::new(parquet) as _)
}

/// What a source of CSV reads its files by.
fn csv_options(csv: &CsvSource) -> CsvOptions {
    CsvOptions {
        has_header: Some(csv.has_header()),
        delimiter: csv.delimiter(),
        quote: csv.quote(),
        terminator: csv.terminator(),
        escape: csv.escape(),
        comment: csv.comment(),
        newlines_in_values: Some(csv.newlines_in_values()),
        truncated_rows: Some(csv.truncate_rows()),
        ..CsvOptions::default()
    }
}

/// Whether a source reads an object a line, not one array. It does not say so, but an array is never opened in parts;
/// nothing is read before what `open` gives is polled.
fn is_json_by_lines(source: &Arc<dyn FileSource>, config: &FileScanConfig) -> bool {
    let part = PartitionedFile::new_with_range(String::new(), 0, 0, 0);
    let opener = source.with_batch_size(1).create_file_opener(Arc::new(InMemory::new()), config, 0);
    opener.is_ok_and(|opener| opener.open(part).is_ok())
}

fn parquet_anew(source: &Arc<dyn FileSource>) -> Option<ParquetSource> {
    let parquet = source.downcast_ref::<ParquetSource>()?;
    let options = parquet.table_parquet_options().clone();
    if options.crypto != Default::default() {
        return None;
    }
    let hint = options.global.metadata_size_hint;
    let mut made = ParquetSource::new(source.table_schema().clone()).with_table_parquet_options(options);
    if let Some(hint) = hint {
        made = made.with_metadata_size_hint(hint);
    }
    if let Some(factory) = parquet.parquet_file_reader_factory() {
        made = made.with_parquet_file_reader_factory(Arc::clone(factory));
    }
    if let Some(predicate) = source.filter() {
        made = made.with_predicate(predicate);
    }
    // What else it was told, the order of its row groups for one, is to be seen only.
    let is_same = Shown(source.as_ref()).to_string() == Shown(&made).to_string();
    is_same.then_some(made)
}

struct Shown<'a>(&'a dyn FileSource);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_extra(DisplayFormatType::Default, f)
    }
}
