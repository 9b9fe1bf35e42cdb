//! One partition's files, row groups and batches.
//!
//! ```text
//! fetch 1,2 │ decode 1,2 ─ batches ...   │ decode 3,4 ─ batches ...
//!           │ fetch 3,4 meanwhile        │ fetch 5,6 meanwhile
//! ```
//!
//! Small row groups are opened in pairs: their dictionaries are decompressed in turn, which takes much less than twice
//! the time of one, and their bytes come in one request. The first one is opened alone, and nothing fetched meanwhile, where
//! row groups are read in the order of a sort that wants few rows: all of these may be in it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::TimeUnit;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::schema::types::ColumnPath;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use weld_parquet::{ReadOptions, RowGroupBatches, RowGroupScan, Selection};

use super::DeclinedColumns;
use super::columns::Columns;
use super::entries::Evaluated;
use super::file::OpenFile;
use super::files::Files;
use super::filters::Filters;
use super::order::Order;
use super::pools::LeasedPool;
use super::predicate::{PASSED_MAX, put_in_order};
use super::prune::{Allowed, Group};
use crate::give_way::{Turn, give_way};

/// Row groups whose columns take more than this are not opened in pairs: what pairs save is little then, what they hold
/// is much.
const PAIR_BYTES_MAX: u64 = 16 << 20;

/// More is not fetched ahead.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// What one partition reads, and how.
pub(super) struct Scan {
    pub(super) partition: usize,
    pub(super) readers: Arc<dyn ParquetFileReaderFactory>,
    pub(super) columns: Columns,
    pub(super) declined: Arc<DeclinedColumns>,
    pub(super) table: TableSchema,
    pub(super) predicate: Option<Arc<dyn PhysicalExpr>>,
    pub(super) pruning: Allowed,
    pub(super) metadata_size_hint: Option<usize>,
    /// The unit and the zone that the session wants of old timestamps.
    pub(super) int96: Option<(TimeUnit, Option<Arc<str>>)>,
    pub(super) limit: Option<usize>,
    /// The order in which row groups of a file are read, if not their own.
    pub(super) order: Option<Order>,
    /// Whether rows have to come in the order of the files.
    pub(super) ordered: bool,
    pub(super) batch_rows: usize,
    pub(super) metrics: ExecutionPlanMetricsSet,
}

/// A place in the partition's files.
struct Place {
    scan: Scan,
    files: Files,
    file: Option<OpenFile>,
    groups: VecDeque<RowGroupBatches>,
    /// Whether row groups have been opened before.
    has_begun: bool,
    filters: Filters,
    /// What is known of the row group's dictionaries.
    evaluated: Evaluated,
    options: ReadOptions,
    /// Others may have it when this is dropped.
    _pool: LeasedPool,
    rows_left: usize,
    turn: Turn,
    metrics: Metrics,
}

/// Named as DataFusion's scan names them.
struct Metrics {
    baseline: BaselineMetrics,
    files_opened: Count,
    files_processed: Count,
}

impl Scan {
    pub(super) fn stream(self, files: Files) -> SendableRecordBatchStream {
        let schema = Arc::clone(self.columns.schema());
        let counter = |name| MetricBuilder::new(&self.metrics).counter(name, self.partition);
        let metrics = Metrics {
            baseline: BaselineMetrics::new(&self.metrics, self.partition),
            files_opened: counter("files_opened"),
            files_processed: counter("files_processed"),
        };
        let pool = LeasedPool::lease();
        let place = Place {
            files,
            file: None,
            groups: VecDeque::new(),
            has_begun: false,
            filters: Filters::default(),
            evaluated: Evaluated::new(self.columns.reads_entries().then(|| counter("rows_by_entry"))),
            options: ReadOptions { pool: Arc::clone(&pool), ..ReadOptions::default() },
            _pool: pool,
            rows_left: self.limit.unwrap_or(usize::MAX),
            turn: Turn::start(),
            metrics,
            scan: self,
        };
        let next = |mut place: Place| async move { Ok(place.next().await?.map(|batch| (batch, place))) };
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::try_unfold(place, next)))
    }
}

impl Place {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.turn.pause().await;
        loop {
            if self.rows_left == 0 {
                return Ok(None);
            }
            if let (Some(group), Some(file)) = (self.groups.front_mut(), &mut self.file) {
                let elapsed = self.metrics.baseline.elapsed_compute().clone();
                let _timer = elapsed.timer();
                if let Some(predicate) = file.predicate.as_ref().filter(|_| drops_rows(&self.scan, file)) {
                    self.filters.judge_again(group, predicate, file, &self.scan)?;
                }
                self.evaluated.rows = group.rows().min(self.rows_left);
                match group.next() {
                    Some(_) if file.is_ruled_out()? => self.groups.clear(),
                    Some(batch) => {
                        let mut batch = batch.map_err(corrupt)?;
                        // Columns are cast and computed for rows that come out alone: others might fail.
                        if batch.num_rows() > self.rows_left {
                            batch = batch.slice(0, self.rows_left);
                        }
                        let batch = self.scan.columns.adapt(&batch, &file.adapter, &mut self.evaluated)?;
                        self.rows_left -= batch.num_rows();
                        self.metrics.baseline.record_output(batch.num_rows());
                        return Ok(Some(batch));
                    }
                    None => {
                        self.evaluated.forget();
                        self.filters.next_group();
                        self.groups.pop_front();
                    }
                }
            } else if self.file.as_ref().is_some_and(OpenFile::has_more) {
                self.open_groups().await?;
            } else {
                if self.file.take().is_some() {
                    self.metrics.files_processed.add(1);
                }
                let Some(file) = self.files.next() else { return Ok(None) };
                self.metrics.files_opened.add(1);
                self.file = OpenFile::open(file, &self.scan).await?;
                if self.file.is_none() {
                    self.metrics.files_processed.add(1);
                }
                self.filters.next_file();
            }
        }
    }

    /// Opens the next row groups.
    async fn open_groups(&mut self) -> Result<()> {
        // Others have waited for the same file to be opened.
        give_way().await;
        let Some(file) = &mut self.file else { return Ok(()) };
        let elapsed = self.metrics.baseline.elapsed_compute().clone();
        let drops_rows = drops_rows(&self.scan, file);
        let timer = elapsed.timer();
        let mut groups = file.take()?;
        if let Some(predicate) = file.predicate.as_ref().filter(|_| drops_rows) {
            self.filters.update(predicate, file, &self.scan)?;
        }
        let mut scans = file.scans(&groups, &self.options)?;
        let is_alone = self.scan.order.is_some() && !std::mem::replace(&mut self.has_begun, true);
        if is_alone {
            scans.truncate(1);
        }
        let is_last = limit(&mut scans, self.rows_left);
        file.give_back(groups.drain(scans.len()..));
        if !is_last && !is_alone {
            file.take_ahead();
        }
        drop(timer);
        let (mut whole, mut by_keys): (Vec<Selection>, bool) = (Vec::new(), false);
        for predicate in &mut self.filters.columns {
            if !drops_rows || !predicate.pays() || !file.has(&predicate.path) {
                continue;
            }
            if whole.is_empty() {
                whole = scans.iter().map(|scan| scan.selection().clone()).collect();
            }
            by_keys |= predicate.has_sets();
            let ranges = file.fetcher.fetch(all(&scans, |scan| scan.predicate_ranges(&[&predicate.path]))?).await?;
            let _timer = elapsed.timer();
            for scan in &mut scans {
                let before = scan.selection().len();
                let path = predicate.path.clone();
                match scan.filter(&path, &ranges, &mut |values| predicate.judge(values)) {
                    Ok(()) | Err(weld_parquet::Error::Unsupported(_)) => {}
                    Err(error) => return Err(corrupt(error)),
                }
                let after = scan.selection().len();
                predicate.note(before, after);
            }
        }
        put_in_order(&mut self.filters.columns);
        // Rows that do not pass go no further than a filter above, but those without a match into tables of joins.
        for (scan, whole) in scans.iter_mut().zip(whole).filter(|_| !by_keys) {
            let share = scan.selection().len() as f64 / whole.len().max(1) as f64;
            if share > PASSED_MAX && scan.selection().is_scattered() {
                scan.select_again(whole).map_err(corrupt)?;
            }
        }
        let wanted = all(&scans, RowGroupScan::column_ranges)?;
        file.selective = bytes(&wanted) < bytes(&all(&scans, RowGroupScan::unfiltered_ranges)?);
        let ranges = file.fetcher.fetch(wanted).await?;
        // Now, not when batches are read: judging predicates and decompressing dictionaries, still to come for these,
        // are most of the work (one partition, SF1: Q6 45 ms, and 57 ms when begun with the second of a pair).
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
        let scans = file.scans(&file.ahead, &self.options)?;
        let filters = self.filters.columns.iter().filter(|p| p.pays() && file.has(&p.path));
        let filters: Vec<&ColumnPath> = filters.map(|predicate| &predicate.path).collect();
        let wanted = match filters.is_empty() || !file.selective {
            true => all(&scans, RowGroupScan::unfiltered_ranges)?,
            false => all(&scans, |scan| scan.predicate_ranges(&filters))?,
        };
        file.fetcher.start(if bytes(&wanted) <= AHEAD_BYTES_MAX { wanted } else { Vec::new() }).await;
        Ok(())
    }
}

impl OpenFile {
    /// Scans of these row groups, or of the first of them where that is large.
    fn scans(&self, groups: &[Group], options: &ReadOptions) -> Result<Vec<RowGroupScan>> {
        let mut scans: Vec<RowGroupScan> = Vec::new();
        for group in groups {
            let (metadata, schema) = (Arc::clone(&self.metadata), Arc::clone(&self.schema));
            let columns = Arc::clone(&self.columns);
            let mut scan =
                RowGroupScan::with_schema(metadata, schema, group.index, columns, options).map_err(corrupt)?;
            if let Some(rows) = &group.rows {
                scan.select(rows.clone()).map_err(corrupt)?;
            }
            if let Some(part) = &group.part {
                scan.select(Selection::from_ranges(scan.rows(), [part.clone()])).map_err(corrupt)?;
            }
            scans.push(scan);
        }
        if bytes(&all(&scans, RowGroupScan::unfiltered_ranges)?) > PAIR_BYTES_MAX {
            scans.truncate(1);
        }
        Ok(scans)
    }
}

/// Leaves the row groups that have the first `rows` rows, and of the last of them no more; whether they have so many. Under
/// a limit nothing drops rows.
fn limit(scans: &mut Vec<RowGroupScan>, mut rows: usize) -> bool {
    for at in 0..scans.len() {
        let here = scans[at].selection().len();
        if here >= rows {
            scans[at].limit(rows);
            scans.truncate(at + 1);
            return true;
        }
        rows -= here;
    }
    false
}

/// Whether a file's predicate may drop rows. A limit counts the rows that DataFusion's scan would give, and it computes
/// columns of all of them, which may fail.
fn drops_rows(scan: &Scan, file: &OpenFile) -> bool {
    scan.limit.is_none() && !scan.columns.can_fail && !file.adapter.can_fail
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

pub(super) fn corrupt(error: weld_parquet::Error) -> DataFusionError {
    match error {
        weld_parquet::Error::Parquet(error) => DataFusionError::from(error),
        weld_parquet::Error::Arrow(error) => DataFusionError::from(error),
        weld_parquet::Error::Corrupt(what) => ParquetError::General(what).into(),
        other => DataFusionError::External(Box::new(other)),
    }
}
