//! An open file: what of it is to be read, and how.
//!
//! ```text
//! ruled out by statistics that the table has of the file?  ──►  metadata  ──►  row groups, pages
//! ```
//!
//! A dynamic filter that tightens while the file is read may still rule the rest of it out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::physical_plan::parquet::{
    Int96Coercer, ParquetFileMetrics, apply_file_schema_type_coercions,
};
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::arrow::parquet_to_arrow_schema;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::parquet::schema::types::ColumnPath;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use datafusion::physical_optimizer::pruning::FilePruner;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, PruningMetrics};
use weld_parquet::ScanColumn;
use weld_table::prunable;

use super::adapt::{Adapter, FileColumns, constants_of};
use super::fetch::Fetcher;
use super::files::{SharedFile, lock};
use super::prune::{Group, Groups};
use super::reader::Scan;

pub(super) struct OpenFile {
    pub(super) fetcher: Fetcher,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) schema: SchemaRef,
    /// Values that all rows of the file have, by column.
    pub(super) constants: HashMap<String, ScalarValue>,
    /// How its columns become the table's.
    pub(super) adapter: Adapter,
    /// The scan's predicate, with the constants in it.
    pub(super) predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The same over the file's columns, in their types there.
    pub(super) prunes: Option<Arc<dyn PhysicalExpr>>,
    shared: Arc<SharedFile>,
    /// What others may take as well.
    groups: Arc<Mutex<Groups>>,
    /// Row groups that nobody else takes.
    pub(super) ahead: Vec<Group>,
    /// The columns that the file has, as they are read.
    pub(super) columns: Arc<[ScanColumn]>,
    /// Whether the rows that were left last were in fewer pages than all: then those are known first, and fetched
    /// later.
    pub(super) selective: bool,
    pruner: Option<FilePruner>,
    pruned: PruningMetrics,
}

impl Scan {
    /// A file's schema in the types that DataFusion's scan asks of its reader.
    fn typed(&self, metadata: &ParquetMetaData, schema: &SchemaRef) -> SchemaRef {
        let typed = apply_file_schema_type_coercions(self.table.file_schema(), schema);
        let typed = typed.map_or_else(|| Arc::clone(schema), Arc::new);
        let Some((unit, zone)) = &self.int96 else { return typed };
        let descriptor = metadata.file_metadata().schema_descr();
        let coercer = Int96Coercer::new(descriptor, &typed, unit).with_timezone(zone.clone());
        coercer.coerce().map_or(typed, Arc::new)
    }
}

impl OpenFile {
    /// Opens a file, unless what the table knows of it rules it out.
    pub(super) async fn open(shared: Arc<SharedFile>, scan: &Scan) -> Result<Option<OpenFile>> {
        let Scan { partition, metrics, readers, pruning, table, .. } = scan;
        let file = shared.file.clone();
        // Others who open it do not count it again.
        let uncounted = ExecutionPlanMetricsSet::new();
        let counted = if shared.is_first() { metrics } else { &uncounted };
        let file_metrics = ParquetFileMetrics::new(*partition, file.object_meta.location.as_ref(), counted);
        let names = table.table_partition_cols().iter().map(|field| field.name().clone());
        let mut constants: HashMap<String, ScalarValue> = names.zip(file.partition_values.iter().cloned()).collect();
        constants.extend(constants_of(&file, table.file_schema()));
        let predicate = match &scan.predicate {
            Some(predicate) if !constants.is_empty() => {
                Some(replace_columns_with_literals(Arc::clone(predicate), &constants)?)
            }
            predicate => predicate.clone(),
        };
        let asked = predicate.as_ref().map(|predicate| prunable(predicate, table.file_schema()));
        let mut pruner = asked.and_then(|predicate| {
            let errors = MetricBuilder::new(metrics).global_counter("num_predicate_creation_errors");
            FilePruner::try_new(predicate, table.file_schema(), &file, errors)
        });
        let pruned = file_metrics.files_ranges_pruned_statistics.clone();
        if let Some(pruner) = &mut pruner
            && pruner.should_prune()?
        {
            pruned.add_pruned(1);
            shared.rule_out();
            return Ok(None);
        }
        pruned.add_matched(1);
        let (range, hint) = (file.range.clone(), file.metadata_size_hint.or(scan.metadata_size_hint));
        let mut reader = readers.create_reader(*partition, file.clone(), hint, metrics)?;
        let index =
            if pruning.pages && predicate.is_some() { PageIndexPolicy::Optional } else { PageIndexPolicy::Skip };
        let options = ArrowReaderOptions::new().with_page_index_policy(index);
        let timer = file_metrics.metadata_load_time.timer();
        let metadata = reader.get_metadata(Some(&options)).await?;
        drop(timer);
        let footer = metadata.file_metadata();
        let schema = Arc::new(parquet_to_arrow_schema(footer.schema_descr(), footer.key_value_metadata())?);
        let typed = scan.typed(&metadata, &schema);
        let adapter = DefaultPhysicalExprAdapterFactory.create(Arc::clone(table.file_schema()), Arc::clone(&typed))?;
        let over_file = |predicate| PhysicalExprSimplifier::new(&typed).simplify(adapter.rewrite(predicate)?);
        let prunes = predicate.clone().map(over_file).transpose()?;
        let table = table.file_schema();
        let own = FileColumns { metadata: &metadata, own: &schema, typed: &typed, table, constants: &constants };
        let adapter = Adapter::new(&scan.columns.used, &own, adapter.as_ref())?;
        let columns = adapter.reads(&scan.columns.used);
        // Any rows will do, unless their order was asked for.
        let limit = scan.limit.filter(|_| !scan.ordered);
        let (readers, partition, metrics) = (Arc::clone(readers), *partition, metrics.clone());
        let (pruning, own_metadata, predicate_of_file) = (*pruning, Arc::clone(&metadata), prunes.clone());
        let order = scan.order.clone();
        let (parts, read) = (shared.parts, columns.iter().map(|column| column.path().clone()).collect::<Vec<_>>());
        let groups = shared.groups(async move {
            let mut groups = Groups::new(own_metadata, range.as_ref(), typed, pruning, file_metrics);
            let filters_reader = || readers.create_reader(partition, file, hint, &metrics);
            groups.prune(predicate_of_file.as_ref(), limit, filters_reader).await?;
            if let Some(order) = &order {
                groups.put_in_order(order)?;
            }
            if parts > 1 {
                groups.cut(parts, |leaf| read.iter().any(|path| leaf.path().parts().starts_with(path.parts())));
            }
            Ok(groups)
        });
        let groups = groups.await?;
        let fetcher = Fetcher::new(reader);
        let selective = false;
        Ok(Some(OpenFile {
            fetcher,
            metadata,
            schema,
            constants,
            adapter,
            predicate,
            prunes,
            shared,
            groups,
            ahead: Vec::new(),
            columns,
            selective,
            pruner,
            pruned,
        }))
    }

    /// Whether its rows have values of their own in the column.
    pub(super) fn has(&self, column: &ColumnPath) -> bool {
        let is_constant = column.parts().first().is_some_and(|root| self.constants.contains_key(root));
        let mut leaves = self.metadata.file_metadata().schema_descr().columns().iter();
        !is_constant && leaves.any(|leaf| leaf.path() == column && leaf.max_rep_level() == 0)
    }

    /// How much of a column is null, by the statistics of its row groups; where these do not say, none is.
    pub(super) fn null_share(&self, column: &ColumnPath) -> f64 {
        let mut leaves = self.metadata.file_metadata().schema_descr().columns().iter();
        let Some(place) = leaves.position(|leaf| leaf.path() == column) else { return 0.0 };
        let nulls =
            self.metadata.row_groups().iter().filter_map(|group| group.column(place).statistics()?.null_count_opt());
        nulls.sum::<u64>() as f64 / self.metadata.file_metadata().num_rows().max(1) as f64
    }

    /// Whether it has row groups that nobody has begun.
    pub(super) fn has_more(&self) -> bool {
        !self.ahead.is_empty() || !lock(&self.groups).left.is_empty()
    }

    /// The next row groups that statistics do not rule out; dynamic filters may have tightened meanwhile.
    pub(super) fn take(&mut self) -> Result<Vec<Group>> {
        let mut groups = lock(&self.groups);
        self.ahead.drain(..).rev().for_each(|group| groups.left.push_front(group));
        if let Some(prunes) = &self.prunes {
            groups.prune_again(prunes)?;
        }
        Ok(self.shared.take(&mut groups))
    }

    /// Gives back what was taken and is not read now.
    pub(super) fn give_back(&self, taken: impl DoubleEndedIterator<Item = Group>) {
        let mut groups = lock(&self.groups);
        taken.rev().for_each(|group| groups.left.push_front(group));
    }

    /// Takes the row groups after these, as long as others have some, too.
    pub(super) fn take_ahead(&mut self) {
        self.ahead = self.shared.take_ahead(&mut lock(&self.groups));
    }

    /// Whether a dynamic filter has tightened so far that no row of the file is left: then none is read any more.
    pub(super) fn is_ruled_out(&mut self) -> Result<bool> {
        let Some(pruner) = &mut self.pruner else { return Ok(false) };
        let ruled_out = pruner.should_prune()?;
        if ruled_out {
            self.pruned.add_pruned(1);
            self.pruned.subtract_matched(1);
            self.ahead.clear();
            lock(&self.groups).left.clear();
        }
        Ok(ruled_out)
    }
}
