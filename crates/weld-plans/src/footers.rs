//! What the footers of Parquet files tell beyond statistics.

use std::sync::Arc;

use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, ParquetSource};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;

/// The footers of all Parquet files, or of the first so many, as far as the session has read them to find the schema
/// and the statistics: a plan is not held up by reading.
pub fn footers(config: &FileScanConfig, files_max: usize) -> Option<Vec<Arc<ParquetMetaData>>> {
    let source = config.file_source().downcast_ref::<ParquetSource>()?;
    let readers = source.parquet_file_reader_factory()?;
    // A store may need a runtime even to start.
    tokio::runtime::Handle::try_current().ok()?;
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Skip);
    let metrics = ExecutionPlanMetricsSet::new();
    let footer = |file: &PartitionedFile| {
        let mut reader = readers.create_reader(0, file.clone(), file.metadata_size_hint, &metrics).ok()?;
        reader.get_metadata(Some(&options)).now_or_never()?.ok()
    };
    config.file_groups.iter().flat_map(FileGroup::iter).take(files_max).map(footer).collect()
}
