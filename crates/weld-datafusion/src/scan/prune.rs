//! Which row groups of a file, and which rows of them, statistics leave to be read.
//!
//! DataFusion's own helpers decide, in the order in which its scan asks them: the row groups' minima and maxima,
//! their Bloom filters, the pages' minima and maxima. A filter that tightens while the scan runs is asked again, about what is left.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::config::ParquetOptions;
use datafusion::datasource::physical_plan::parquet::{
    BloomFilterStatistics, PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics, RowGroupAccess,
    RowGroupAccessPlanFilter,
};
use datafusion::parquet::arrow::ParquetRecordBatchStreamBuilder;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use weld_parquet::Selection;

/// What may prune, as the session has set it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    statistics: bool,
    pub(super) pages: bool,
    bloom_filters: bool,
}

impl Allowed {
    pub(super) fn of(options: &ParquetOptions) -> Allowed {
        Allowed {
            statistics: options.pruning,
            pages: options.pruning && options.enable_page_index,
            bloom_filters: options.bloom_filter_on_read,
        }
    }
}

/// A row group to read, and the rows of it, unless all of them.
pub(super) struct Group {
    pub(super) index: usize,
    pub(super) rows: Option<Selection>,
}

/// The row groups of a file that are still to be read.
pub(super) struct Groups {
    pub(super) left: VecDeque<Group>,
    allowed: Allowed,
    metadata: Arc<ParquetMetaData>,
    table: SchemaRef,
    /// Whether statistics can be read as the table's types.
    comparable: bool,
    metrics: ParquetFileMetrics,
    /// Which state of the predicate was asked last.
    asked: Option<u64>,
}

impl Groups {
    /// The row groups at `indices`. `file` is the file's schema.
    pub(super) fn new(
        indices: impl IntoIterator<Item = usize>,
        metadata: Arc<ParquetMetaData>,
        file: &Schema,
        table: SchemaRef,
        predicate: &Option<Arc<dyn PhysicalExpr>>,
        allowed: Allowed,
        metrics: ParquetFileMetrics,
    ) -> Groups {
        let agrees = |name: &str, table: &DataType| {
            let file = file.field_with_name(name).map(|field| field.data_type());
            file.map_or(true, |file| file == table || (is_text(file) && is_text(table)))
        };
        let comparable = predicate.iter().flat_map(collect_columns).all(|column| {
            table.fields().get(column.index()).is_some_and(|field| agrees(field.name(), field.data_type()))
        });
        let left = indices.into_iter().map(|index| Group { index, rows: None }).collect();
        Groups { left, allowed, metadata, table, comparable, metrics, asked: None }
    }

    /// Asks again if the predicate has tightened since.
    pub(super) fn prune_again(&mut self, predicate: &Arc<dyn PhysicalExpr>) -> Result<()> {
        if self.asked == Some(snapshot_generation(predicate)) || self.left.is_empty() {
            return Ok(());
        }
        // What was counted as read at first is not counted twice.
        let metrics = ParquetFileMetrics::new(0, "", &ExecutionPlanMetricsSet::new());
        let metrics = std::mem::replace(&mut self.metrics, metrics);
        let before = self.left.len();
        self.prune_by_statistics(predicate);
        metrics.row_groups_pruned_dynamic_filter.add(before - self.left.len());
        let pruned = self.prune_by_pages(predicate);
        self.metrics = metrics;
        pruned
    }

    /// Drops the row groups that the predicate, as it is now, rules out.
    pub(super) fn prune_by_statistics(&mut self, predicate: &Arc<dyn PhysicalExpr>) {
        self.asked = Some(snapshot_generation(predicate));
        let Some(pruning) = self.predicate(predicate) else { return };
        let descriptor = self.metadata.file_metadata().schema_descr();
        let mut filter = RowGroupAccessPlanFilter::new(self.plan());
        filter.prune_by_statistics(&self.table, descriptor, self.metadata.row_groups(), &pruning, &self.metrics);
        self.keep(filter.build());
    }

    /// Drops the pages that it rules out.
    pub(super) fn prune_by_pages(&mut self, predicate: &Arc<dyn PhysicalExpr>) -> Result<()> {
        if !self.allowed.pages || !self.allowed.statistics || !self.comparable || self.left.is_empty() {
            return Ok(());
        }
        let descriptor = self.metadata.file_metadata().schema_descr();
        let predicate = snapshot_physical_expr(Arc::clone(predicate))?;
        let filter = PagePruningAccessPlanFilter::new(&predicate, Arc::clone(&self.table));
        let plan = self.plan();
        self.keep(filter.prune_plan_with_page_index(plan, &self.table, descriptor, &self.metadata, &self.metrics));
        Ok(())
    }

    /// Drops the row groups whose Bloom filters, read with `reader`, rule them out.
    pub(super) async fn prune_by_bloom_filters(
        &mut self,
        predicate: &Arc<dyn PhysicalExpr>,
        reader: impl FnOnce() -> Result<Box<dyn AsyncFileReader + Send>>,
    ) -> Result<()> {
        let row_groups = self.metadata.row_groups();
        let has_filters = |index: usize| row_groups[index].columns().iter().any(|c| c.bloom_filter_offset().is_some());
        if !self.allowed.bloom_filters || self.left.is_empty() {
            return Ok(());
        }
        let Some(pruning) = self.predicate(predicate) else { return Ok(()) };
        let descriptor = self.metadata.file_metadata().schema_descr();
        let leaf =
            |name: &String| (0..descriptor.num_columns()).find(|&i| descriptor.column(i).path().string() == *name);
        let columns: Vec<(String, usize)> =
            pruning.literal_columns().into_iter().filter_map(|name| leaf(&name).map(|leaf| (name, leaf))).collect();
        let mut filters = vec![BloomFilterStatistics::new(); row_groups.len()];
        if !columns.is_empty() && self.left.iter().any(|group| has_filters(group.index)) {
            let metadata = ArrowReaderMetadata::try_new(Arc::clone(&self.metadata), ArrowReaderOptions::new())?;
            let reader: Box<dyn AsyncFileReader> = reader()?;
            let mut file = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata);
            for group in &self.left {
                for (name, leaf) in &columns {
                    let column = descriptor.column(*leaf);
                    match file.get_row_group_column_bloom_filter(group.index, *leaf).await {
                        Ok(Some(filter)) => {
                            filters[group.index].insert(name, filter, column.physical_type(), column.type_length());
                        }
                        Ok(None) => {}
                        Err(_) => self.metrics.predicate_evaluation_errors.add(1),
                    }
                }
            }
        }
        let mut filter = RowGroupAccessPlanFilter::new(self.plan());
        filter.prune_by_bloom_filters(&pruning, &self.metrics, &filters);
        let plan = filter.build();
        self.left.retain(|group| plan.should_scan(group.index));
        Ok(())
    }

    fn predicate(&self, predicate: &Arc<dyn PhysicalExpr>) -> Option<Arc<PruningPredicate>> {
        if !self.allowed.statistics || !self.comparable {
            return None;
        }
        PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.table)).build(Arc::clone(predicate))
    }

    fn plan(&self) -> ParquetAccessPlan {
        let mut plan = ParquetAccessPlan::new_none(self.metadata.num_row_groups());
        self.left.iter().for_each(|group| plan.scan(group.index));
        plan
    }

    /// Keeps what the plan reads. It was made without the rows that were ruled out before: it may only rule out more.
    fn keep(&mut self, plan: ParquetAccessPlan) {
        let accesses = plan.into_inner();
        self.left.retain_mut(|group| match accesses.get(group.index) {
            Some(RowGroupAccess::Skip) | None => false,
            Some(RowGroupAccess::Scan) => true,
            Some(RowGroupAccess::Selection(selection)) => {
                let rows = self.metadata.row_group(group.index).num_rows().max(0) as usize;
                let mut at = 0;
                let ranges = selection.iter().filter_map(|part| {
                    let range = at..(at + part.row_count).min(rows);
                    at = range.end;
                    (!part.skip).then_some(range)
                });
                group.rows = Some(Selection::from_ranges(rows, ranges.collect::<Vec<_>>()));
                true
            }
        });
    }
}

/// Text in any of Arrow's forms.
pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}
