//! One partition's files, row groups and batches.
//!
//! ```text
//! fetch 1,2 │ decode 1,2 ─ batches ...   │ decode 3,4 ─ batches ...
//!           │ fetch 3,4 meanwhile        │ fetch 5,6 meanwhile
//! ```
//!
//! Small row groups are opened in pairs: their dictionaries are decompressed in turn, which takes much less than twice
//! the time of one, and their bytes come in one request.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::cast_with_options;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, ParquetFileMetrics, RowGroupAccessPlanFilter};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use weld_parquet::{Form, ReadOptions, RowGroupBatches, RowGroupScan, ScanColumn};

use super::fetch::Fetcher;
use super::predicate::ColumnPredicate;
use super::prune::{Allowed, Groups, is_text};
use super::{CAST, DeclinedColumns, ScannedColumn, narrow};

/// Row groups whose columns take more than this are not opened in pairs: what pairs save is little then, what they hold
/// is much.
const PAIR_BYTES_MAX: u64 = 16 << 20;

/// More is not fetched ahead.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// What one partition reads, and how.
pub(super) struct Scan {
    pub(super) partition: usize,
    pub(super) readers: Arc<dyn ParquetFileReaderFactory>,
    pub(super) columns: Vec<ScannedColumn>,
    pub(super) declined: Arc<DeclinedColumns>,
    pub(super) table_schema: SchemaRef,
    pub(super) predicate: Option<Arc<dyn PhysicalExpr>>,
    pub(super) pruning: Allowed,
    pub(super) batch_rows: usize,
    pub(super) metrics: ExecutionPlanMetricsSet,
}

/// A place in the partition's files.
struct Place {
    scan: Scan,
    schema: SchemaRef,
    files: VecDeque<PartitionedFile>,
    file: Option<OpenFile>,
    groups: VecDeque<RowGroupBatches>,
    predicates: Vec<ColumnPredicate>,
    /// Which state of the scan's predicate they were made of.
    generation: Option<u64>,
    options: ReadOptions,
    baseline: BaselineMetrics,
}

struct OpenFile {
    fetcher: Fetcher,
    metadata: Arc<ParquetMetaData>,
    schema: Schema,
    groups: Groups,
    /// The columns that the file has, as they are read.
    columns: Vec<ScanColumn>,
    /// Whether the rows that were left last were in fewer pages than all: then those are known first, and fetched later.
    selective: bool,
}

impl Scan {
    pub(super) fn stream(self, files: Vec<PartitionedFile>) -> Result<SendableRecordBatchStream> {
        let fields = self.columns.iter().map(|c| Field::new(&c.name, narrow(&c.table_type), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let place = Place {
            schema: Arc::clone(&schema),
            files: files.into(),
            file: None,
            groups: VecDeque::new(),
            predicates: Vec::new(),
            generation: None,
            options: ReadOptions::default(),
            baseline: BaselineMetrics::new(&self.metrics, self.partition),
            scan: self,
        };
        let next = |mut place: Place| async move { Ok(place.next().await?.map(|batch| (batch, place))) };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::try_unfold(place, next))))
    }

    async fn open(&self, file: PartitionedFile) -> Result<OpenFile> {
        let Scan { partition, metrics, readers, predicate, pruning, table_schema, .. } = self;
        let (range, hint) = (file.range.clone(), file.metadata_size_hint);
        let mut reader = readers.create_reader(*partition, file.clone(), hint, metrics)?;
        let index =
            if pruning.pages && predicate.is_some() { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
        let options = ArrowReaderOptions::new().with_page_index_policy(index);
        let metadata = reader.get_metadata(Some(&options)).await?;
        let footer = metadata.file_metadata();
        let schema = parquet_to_arrow_schema(footer.schema_descr(), footer.key_value_metadata())?;
        let mut plan = RowGroupAccessPlanFilter::new(ParquetAccessPlan::new_all(metadata.num_row_groups()));
        if let Some(range) = &range {
            plan.prune_by_range(metadata.row_groups(), range);
        }
        let file_metrics = ParquetFileMetrics::new(*partition, file.object_meta.location.as_ref(), metrics);
        let (of, table) = (Arc::clone(&metadata), Arc::clone(table_schema));
        let mut groups = Groups::new(plan.row_group_indexes(), of, &schema, table, predicate, *pruning, file_metrics);
        if let Some(predicate) = predicate {
            groups.prune_by_statistics(predicate);
            let reader = || readers.create_reader(*partition, file, hint, metrics);
            groups.prune_by_bloom_filters(predicate, reader).await?;
            groups.prune_by_pages(predicate)?;
        }
        let columns = self.columns.iter().filter_map(|column| column.of(&schema)).collect();
        Ok(OpenFile { fetcher: Fetcher::new(reader), metadata, schema, groups, columns, selective: false })
    }
}

impl ScannedColumn {
    /// The column of a file, if it has it: in the table's type, or in its own where that has to be converted.
    fn of(&self, file: &Schema) -> Option<ScanColumn> {
        let own = file.field_with_name(&self.name).ok()?.data_type();
        let column = ScanColumn::new(&self.name, Form::Flat);
        let same = own == &self.table_type || (is_text(own) && is_text(&self.table_type));
        // The unit of old timestamps is for the reader to choose.
        let times = own.is_temporal() && self.table_type.is_temporal();
        Some(if same || times { column.with_type(narrow(&self.table_type)) } else { column })
    }
}

impl Place {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(group) = self.groups.front_mut() {
                let elapsed = self.baseline.elapsed_compute().clone();
                let _timer = elapsed.timer();
                match group.next() {
                    Some(batch) => {
                        let batch = adapt(&batch.map_err(corrupt)?, &self.schema)?;
                        self.baseline.record_output(batch.num_rows());
                        return Ok(Some(batch));
                    }
                    None => drop(self.groups.pop_front()),
                }
            } else if self.file.as_ref().is_some_and(|file| !file.groups.left.is_empty()) {
                self.open_groups().await?;
            } else {
                match self.files.pop_front() {
                    Some(file) => self.file = Some(self.scan.open(file).await?),
                    None => return Ok(None),
                }
            }
        }
    }

    /// Opens the next row groups that statistics do not rule out; dynamic filters may have tightened meanwhile.
    async fn open_groups(&mut self) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let elapsed = self.baseline.elapsed_compute().clone();
        if let Some(predicate) = &self.scan.predicate {
            let _timer = elapsed.timer();
            file.groups.prune_again(predicate)?;
            let generation = snapshot_generation(predicate);
            if self.generation.replace(generation) != Some(generation) {
                self.predicates = ColumnPredicate::of(predicate, &self.scan.table_schema)?;
            }
        }
        let mut scans = file.next_scans(&self.options)?;
        file.groups.left.drain(..scans.len());
        for predicate in &mut self.predicates {
            if !predicate.pays() || file.schema.index_of(&predicate.name).is_err() {
                continue;
            }
            let ranges = file.fetcher.fetch(all(&scans, |scan| scan.predicate_ranges(&[&predicate.name]))?).await?;
            let _timer = elapsed.timer();
            for scan in &mut scans {
                let before = scan.selection().len();
                let name = predicate.name.clone();
                match scan.filter(&name, &ranges, &mut |values| predicate.judge(values)) {
                    Ok(()) | Err(weld_parquet::Error::Unsupported(_)) => {}
                    Err(error) => return Err(corrupt(error)),
                }
                let after = scan.selection().len();
                predicate.note(before, after);
            }
        }
        let wanted = all(&scans, RowGroupScan::column_ranges)?;
        file.selective = bytes(&wanted) < bytes(&all(&scans, RowGroupScan::unfiltered_ranges)?);
        let ranges = file.fetcher.fetch(wanted).await?;
        self.fetch_ahead().await?;
        let _timer = elapsed.timer();
        for scan in scans.into_iter().filter(|scan| !scan.selection().is_empty()) {
            let batches = scan.prepare(&ranges, self.scan.batch_rows).map_err(corrupt)?;
            self.scan.declined.note(batches.declined());
            self.groups.push_back(batches);
        }
        RowGroupBatches::load_dictionaries(&mut self.groups).map_err(corrupt)
    }

    /// Starts to fetch what the next row groups will want, as far as that is known.
    async fn fetch_ahead(&mut self) -> Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let scans = file.next_scans(&self.options)?;
        let filters = self.predicates.iter().filter(|p| p.pays() && file.schema.index_of(&p.name).is_ok());
        let filters: Vec<&str> = filters.map(|predicate| predicate.name.as_str()).collect();
        let wanted = match filters.is_empty() || !file.selective {
            true => all(&scans, RowGroupScan::unfiltered_ranges)?,
            false => all(&scans, |scan| scan.predicate_ranges(&filters))?,
        };
        if bytes(&wanted) <= AHEAD_BYTES_MAX {
            file.fetcher.start(wanted).await;
        }
        Ok(())
    }
}

impl OpenFile {
    /// Scans of the first row groups that are left: of two, or of one where that is large.
    fn next_scans(&self, options: &ReadOptions) -> Result<Vec<RowGroupScan>> {
        let mut scans: Vec<RowGroupScan> = Vec::new();
        for group in self.groups.left.iter().take(2) {
            let metadata = Arc::clone(&self.metadata);
            let mut scan = RowGroupScan::new(metadata, group.index, self.columns.clone(), options).map_err(corrupt)?;
            if let Some(rows) = &group.rows {
                scan.select(rows.clone()).map_err(corrupt)?;
            }
            scans.push(scan);
        }
        if bytes(&all(&scans, RowGroupScan::unfiltered_ranges)?) > PAIR_BYTES_MAX {
            scans.truncate(1);
        }
        Ok(scans)
    }
}

/// What several row groups want, for one request.
fn all(
    scans: &[RowGroupScan],
    wanted: impl Fn(&RowGroupScan) -> weld_parquet::Result<Vec<Range<u64>>>,
) -> Result<Vec<Range<u64>>> {
    let ranges = scans.iter().map(wanted).collect::<weld_parquet::Result<Vec<_>>>().map_err(corrupt)?;
    Ok(ranges.concat())
}

fn bytes(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end.saturating_sub(range.start)).fold(0, u64::saturating_add)
}

/// The batch with the columns of `schema`: absent ones are null, those of another type are cast.
fn adapt(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |field: &Arc<Field>| -> Result<ArrayRef> {
        match batch.column_by_name(field.name()) {
            None => Ok(new_null_array(field.data_type(), batch.num_rows())),
            Some(column) if column.data_type() == field.data_type() => Ok(Arc::clone(column)),
            Some(column) => Ok(cast_with_options(column, field.data_type(), &CAST)?),
        }
    };
    let columns = schema.fields().iter().map(column).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn corrupt(error: weld_parquet::Error) -> DataFusionError {
    match error {
        weld_parquet::Error::Parquet(error) => DataFusionError::from(error),
        weld_parquet::Error::Arrow(error) => DataFusionError::from(error),
        other => DataFusionError::External(Box::new(other)),
    }
}
