//! Sources that can keep other columns.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
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
    if !can_be_made_anew(config.file_source()) {
        return None;
    }
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
    let mut wide = config.clone();
    let projection = ProjectionExprs::from_indices(columns, config.file_source().table_schema().table_schema());
    wide.file_source = parquet_with_projection(config.file_source(), &projection)?;
    Ok(DataSourceExec::from_data_source(wide))
}

/// A Parquet source with another projection of its table; `None` where there is no such source, or it cannot be made anew.
pub fn with_projection(plan: &Arc<dyn ExecutionPlan>, projection: &ProjectionExprs) -> Option<Arc<dyn ExecutionPlan>> {
    let config = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    if !can_be_made_anew(config.file_source()) {
        return None;
    }
    let mut made = config.clone();
    made.file_source = parquet_with_projection(config.file_source(), projection).ok()?;
    Some(DataSourceExec::from_data_source(made))
}

fn can_be_made_anew(source: &Arc<dyn FileSource>) -> bool {
    let parquet = source.downcast_ref::<ParquetSource>();
    parquet.is_some_and(|parquet| parquet.table_parquet_options().crypto == Default::default())
}

/// A Parquet source takes no columns that it does not have, so it is made anew.
fn parquet_with_projection(source: &Arc<dyn FileSource>, projection: &ProjectionExprs) -> Result<Arc<dyn FileSource>> {
    let Some(parquet) = source.downcast_ref::<ParquetSource>() else {
        return internal_err!("{} files are not known", source.file_type());
    };
    let options = parquet.table_parquet_options().clone();
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
    if Shown(source.as_ref()).to_string() != Shown(&made).to_string() {
        return internal_err!("a Parquet source cannot be made anew");
    }
    match made.try_pushdown_projection(projection)? {
        Some(source) => Ok(source),
        None => internal_err!("a Parquet source takes no projection"),
    }
}

struct Shown<'a>(&'a dyn FileSource);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_extra(DisplayFormatType::Default, f)
    }
}
