//! Which row groups of a file, and which rows of them, statistics leave to be read.
//!
//! DataFusion's own helpers decide, in the order in which its scan asks them: the row groups' minima and maxima, their
//! Bloom filters, the pages' minima and maxima. A filter that tightens while the scan runs is asked again, about what
//! is left.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::config::ParquetOptions;
use datafusion::datasource::listing::FileRange;
use datafusion::datasource::physical_plan::parquet::{
    BloomFilterStatistics, PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics, RowGroupAccess,
    RowGroupAccessPlanFilter,
};
use datafusion::parquet::arrow::ParquetRecordBatchStreamBuilder;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::parquet::schema::types::ColumnDescriptor;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use weld_parquet::Selection;
use weld_plans::current_filter;
use weld_table::prunable;

use super::order::Order;

/// What may prune, as the session has set it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    statistics: bool,
    pub(super) pages: bool,
    bloom_filters: bool,
    max_in_list_size: usize,
}

impl Allowed {
    pub(super) fn of(options: &ParquetOptions) -> Allowed {
        Allowed {
            statistics: options.pruning,
            pages: options.enable_page_index,
            bloom_filters: options.bloom_filter_on_read,
            max_in_list_size: options.max_in_list_size,
        }
    }
}

/// A row group to read, or a part of one, and the rows that are left of it, unless all of them.
pub(super) struct Group {
    pub(super) index: usize,
    pub(super) part: Option<Range<usize>>,
    pub(super) rows: Option<Selection>,
}

/// A part of a row group has at least so many rows: its reader passes over what is before it.
const PART_ROWS_MIN: usize = 1 << 16;

/// Row groups of which more is read are not cut: each part holds all of it, where no index says which pages it has.
const CUT_BYTES_MAX: i64 = 64 << 20;

/// The row groups of a file that are still to be read.
pub(super) struct Groups {
    pub(super) left: VecDeque<Group>,
    allowed: Allowed,
    metadata: Arc<ParquetMetaData>,
    /// The file's, in whose types statistics are read.
    schema: SchemaRef,
    metrics: ParquetFileMetrics,
    /// Which state of the predicate was asked last.
    asked: Option<u64>,
}

impl Groups {
    /// The row groups of a file, in `range` of it.
    pub(super) fn new(
        metadata: Arc<ParquetMetaData>,
        range: Option<&FileRange>,
        schema: SchemaRef,
        allowed: Allowed,
        metrics: ParquetFileMetrics,
    ) -> Groups {
        let mut all = RowGroupAccessPlanFilter::new(ParquetAccessPlan::new_all(metadata.num_row_groups()));
        if let Some(range) = range {
            all.prune_by_range(metadata.row_groups(), range);
        }
        let left = all.row_group_indexes().map(|index| Group { index, part: None, rows: None }).collect();
        Groups { left, allowed, metadata, schema, metrics, asked: None }
    }

    /// Drops what `predicate`, over the file's columns, rules out as it is now, and what `limit` rows do not need.
    /// `reader` reads Bloom filters.
    pub(super) async fn prune(
        &mut self,
        predicate: Option<&Arc<dyn PhysicalExpr>>,
        limit: Option<usize>,
        reader: impl FnOnce() -> Result<Box<dyn AsyncFileReader + Send>>,
    ) -> Result<()> {
        self.asked = predicate.map(snapshot_generation);
        let mut groups = RowGroupAccessPlanFilter::new(self.plan());
        let predicate = predicate.map(|predicate| self.prunable(predicate)).transpose()?;
        let pruning = predicate.as_ref().and_then(|predicate| self.pruning(predicate));
        self.prune_by_statistics(&mut groups, pruning.as_deref());
        let filters = match &pruning {
            Some(pruning) if self.allowed.bloom_filters => self.bloom_filters(&groups, pruning, reader).await?,
            _ => None,
        };
        // Evaluated for each row group, which takes tens of microseconds: not where there is nothing to ask.
        if let (Some(pruning), Some(filters)) = (&pruning, filters) {
            groups.prune_by_bloom_filters(pruning, &self.metrics, &filters);
        } else {
            self.metrics.row_groups_pruned_bloom_filter.add_matched(groups.remaining_row_group_count());
        }
        if let Some(limit) = limit {
            groups.prune_by_limit(limit, self.metadata.row_groups(), &self.metrics);
        }
        self.prune_by_pages(groups.build(), predicate.as_ref())
    }

    /// Puts the row groups that are left in this order.
    pub(super) fn put_in_order(&mut self, order: &Order) -> Result<()> {
        if self.left.len() < 2 {
            return Ok(());
        }
        let indices: Vec<usize> = self.left.iter().map(|group| group.index).collect();
        let ordered = order.put(&indices, &self.metadata, &self.schema)?;
        let place = |group: &Group| ordered.iter().position(|index| *index == group.index);
        self.left.make_contiguous().sort_by_cached_key(place);
        Ok(())
    }

    /// Cuts row groups into parts, so that there are at least so many of them, if that is cheap: rows of repeated
    /// columns are found by decoding the levels of all rows before them. `is_read` tells which leaves are read.
    pub(super) fn cut(&mut self, parts: usize, is_read: impl Fn(&ColumnDescriptor) -> bool) {
        let descriptor = self.metadata.file_metadata().schema_descr();
        let leaves: Vec<usize> =
            (0..descriptor.num_columns()).filter(|leaf| is_read(&descriptor.column(*leaf))).collect();
        let is_repeated = leaves.iter().any(|leaf| descriptor.column(*leaf).max_rep_level() > 0);
        if is_repeated {
            return;
        }
        let each = parts.div_ceil(self.left.len().max(1));
        let cut = |group: Group| {
            let row_group = self.metadata.row_group(group.index);
            let bytes = leaves.iter().map(|leaf| row_group.column(*leaf).compressed_size());
            let rows = row_group.num_rows().max(0) as usize;
            let count = if bytes.sum::<i64>() <= CUT_BYTES_MAX { each.min(rows / PART_ROWS_MIN).max(1) } else { 1 };
            let place = move |part: usize| rows / count * part + (rows % count).min(part);
            (0..count).map(move |part| Group {
                index: group.index,
                part: (count > 1).then(|| place(part)..place(part + 1)),
                rows: group.rows.clone(),
            })
        };
        self.left = std::mem::take(&mut self.left).into_iter().flat_map(cut).collect();
    }

    /// Asks again if the predicate has tightened since.
    pub(super) fn prune_again(&mut self, predicate: &Arc<dyn PhysicalExpr>) -> Result<()> {
        let generation = snapshot_generation(predicate);
        if self.asked.replace(generation) == Some(generation) || self.left.is_empty() {
            return Ok(());
        }
        // What was counted as read at first is not counted twice.
        let uncounted = ParquetFileMetrics::new(0, "", &ExecutionPlanMetricsSet::new());
        let metrics = std::mem::replace(&mut self.metrics, uncounted);
        let mut groups = RowGroupAccessPlanFilter::new(self.plan());
        let before = groups.remaining_row_group_count();
        let now = self.prunable(predicate)?;
        self.prune_by_statistics(&mut groups, self.pruning(&now).as_deref());
        metrics.row_groups_pruned_dynamic_filter.add(before - groups.remaining_row_group_count());
        let pruned = self.prune_by_pages(groups.build(), Some(&now));
        self.metrics = metrics;
        pruned
    }

    /// What the predicate says now that statistics may be asked about.
    fn prunable(&self, predicate: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(prunable(&current_filter(predicate, &self.schema)?, &self.schema))
    }

    fn pruning(&self, predicate: &Arc<dyn PhysicalExpr>) -> Option<Arc<PruningPredicate>> {
        let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.schema));
        builder.with_max_in_list_size(self.allowed.max_in_list_size).build(Arc::clone(predicate))
    }

    fn prune_by_statistics(&self, groups: &mut RowGroupAccessPlanFilter, pruning: Option<&PruningPredicate>) {
        let descriptor = self.metadata.file_metadata().schema_descr();
        match pruning {
            Some(pruning) if self.allowed.statistics => {
                let row_groups = self.metadata.row_groups();
                groups.prune_by_statistics(&self.schema, descriptor, row_groups, pruning, &self.metrics);
            }
            _ => self.metrics.row_groups_pruned_statistics.add_matched(groups.remaining_row_group_count()),
        }
    }

    /// Drops the pages that the predicate rules out, and keeps the rest of what the plan reads.
    fn prune_by_pages(&mut self, plan: ParquetAccessPlan, predicate: Option<&Arc<dyn PhysicalExpr>>) -> Result<()> {
        let plan = match predicate {
            Some(predicate) if self.allowed.pages && !plan.is_empty() => {
                let descriptor = self.metadata.file_metadata().schema_descr();
                let filter = PagePruningAccessPlanFilter::new(predicate, Arc::clone(&self.schema));
                match filter.filter_number() {
                    0 => plan,
                    _ => {
                        filter.prune_plan_with_page_index(plan, &self.schema, descriptor, &self.metadata, &self.metrics)
                    }
                }
            }
            _ => plan,
        };
        self.keep(plan);
        Ok(())
    }

    /// The Bloom filters that the predicate asks for, of each row group; `None` where there are none.
    async fn bloom_filters(
        &self,
        groups: &RowGroupAccessPlanFilter,
        pruning: &PruningPredicate,
        reader: impl FnOnce() -> Result<Box<dyn AsyncFileReader + Send>>,
    ) -> Result<Option<Vec<BloomFilterStatistics>>> {
        let row_groups = self.metadata.row_groups();
        let has_filters = |index: usize| row_groups[index].columns().iter().any(|c| c.bloom_filter_offset().is_some());
        let descriptor = self.metadata.file_metadata().schema_descr();
        let leaf =
            |name: &String| (0..descriptor.num_columns()).find(|&i| descriptor.column(i).path().string() == *name);
        let columns: Vec<(String, usize)> =
            pruning.literal_columns().into_iter().filter_map(|name| leaf(&name).map(|leaf| (name, leaf))).collect();
        if columns.is_empty() || !groups.row_group_indexes().any(has_filters) {
            return Ok(None);
        }
        let mut filters = vec![BloomFilterStatistics::new(); row_groups.len()];
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(&self.metadata), ArrowReaderOptions::new())?;
        let reader: Box<dyn AsyncFileReader> = reader()?;
        let mut file = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata);
        for group in groups.row_group_indexes() {
            for (name, leaf) in &columns {
                let column = descriptor.column(*leaf);
                match file.get_row_group_column_bloom_filter(group, *leaf).await {
                    Ok(Some(filter)) => {
                        filters[group].insert(name, filter, column.physical_type(), column.type_length());
                    }
                    Ok(None) => {}
                    Err(_) => self.metrics.predicate_evaluation_errors.add(1),
                }
            }
        }
        Ok(Some(filters))
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
