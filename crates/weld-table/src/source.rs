//! What a table's plan reads: some columns of a snapshot, in so many partitions.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::datasource::source::{DataSource, OpenArgs};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, conjunction};
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};

use crate::queue::Queue;
use crate::snapshot::Snapshot;
use crate::stream::Scan;

/// Each partition takes the zones so many times, if all take the same number of them.
const TURNS: usize = 8;

/// Batches as they are stored have so many times the rows of a batch: nothing is made of them.
const STORED_BATCHES: usize = 4;

/// What partitions share in one execution.
pub type Shared = Arc<dyn Any + Send + Sync>;

/// The source of a [`DataSourceExec`](datafusion::datasource::source::DataSourceExec) over a
/// [`WeldTable`](crate::WeldTable).
#[derive(Clone, Debug)]
pub struct TableSource {
    snapshot: Arc<Snapshot>,
    /// The columns of the table that it gives.
    columns: Vec<usize>,
    /// Their declared types.
    schema: SchemaRef,
    partitions: usize,
    /// What rows may be left out by, over the table's columns.
    predicate: Option<Arc<dyn PhysicalExpr>>,
    fetch: Option<usize>,
    /// Whether rows come in the order of the table, a part of it in each partition.
    is_ordered: bool,
    metrics: ExecutionPlanMetricsSet,
}

impl TableSource {
    pub(crate) fn new(snapshot: Arc<Snapshot>, columns: Vec<usize>, partitions: usize) -> Result<TableSource> {
        Ok(TableSource {
            schema: Arc::new(snapshot.schema.project(&columns)?),
            partitions: partitions.clamp(1, snapshot.zones.len().max(1)),
            snapshot,
            columns,
            predicate: None,
            fetch: None,
            is_ordered: false,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    pub(crate) fn with_limit(self, fetch: Option<usize>) -> TableSource {
        TableSource { fetch, ..self }
    }

    /// The columns of the table that it gives.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The same rows with these columns of the table. Fails if the table has no such column.
    pub fn with_columns(&self, columns: &[usize]) -> Result<TableSource> {
        let schema = Arc::new(self.snapshot.schema.project(columns)?);
        Ok(TableSource { schema, columns: columns.to_vec(), ..self.clone() })
    }

    /// Whether two sources give the same rows of one table at one time, of whatever columns.
    pub fn has_same_rows(&self, other: &TableSource) -> bool {
        Arc::ptr_eq(&self.snapshot, &other.snapshot)
            && (self.partitions, self.fetch, self.is_ordered) == (other.partitions, other.fetch, other.is_ordered)
            && self.predicate == other.predicate
    }

    /// Whether each partition has the same rows in each execution.
    pub fn is_ordered(&self) -> bool {
        self.is_ordered || self.partitions == 1
    }

    /// How many nulls a column of the output has.
    pub fn null_count(&self, column: usize) -> Option<usize> {
        Some(self.snapshot.columns.get(*self.columns.get(column)?)?.zones.null_count())
    }

    /// The least and the greatest value of a column of the output, if they are known. DataFusion is not told all of
    /// them.
    pub fn bounds(&self, column: usize) -> Option<(ScalarValue, ScalarValue)> {
        let column = self.snapshot.columns.get(*self.columns.get(column)?)?;
        column.zones.whole(&column.declared)
    }

    /// The type in which [`TableSource::open_stored`] gives a column of the output.
    pub fn stored_type(&self, column: usize) -> Option<&DataType> {
        Some(self.snapshot.columns.get(*self.columns.get(column)?)?.stored_type())
    }

    /// The rows of a partition as they are stored. `shared` is what
    /// [`create_sibling_state`](DataSource::create_sibling_state) has given for the execution.
    pub fn open_stored(
        &self,
        partition: usize,
        context: &TaskContext,
        shared: Option<&Shared>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size().saturating_mul(STORED_BATCHES);
        self.rows(partition, (self.snapshot.stored_schema(&self.columns)?, false), batch_rows, shared)
    }

    /// Rows as they are stored in the declared types.
    pub fn declared(&self, stored: &RecordBatch) -> Result<RecordBatch> {
        self.snapshot.declared(&self.columns, &self.schema, stored)
    }

    fn rows(
        &self,
        partition: usize,
        (schema, is_declared): (SchemaRef, bool),
        batch_rows: usize,
        shared: Option<&Shared>,
    ) -> Result<SendableRecordBatchStream> {
        let queue = shared.and_then(|shared| Arc::clone(shared).downcast::<Queue>().ok());
        let scan = Scan {
            snapshot: Arc::clone(&self.snapshot),
            columns: self.columns.clone(),
            queue: queue.unwrap_or_else(|| Arc::new(self.queue(self.zones_of(partition)))),
            schema,
            is_declared,
            batch_rows,
            rows_left: self.fetch.unwrap_or(usize::MAX),
            pruned: MetricBuilder::new(&self.metrics).counter("zones_pruned", partition),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            current: None,
        };
        Ok(scan.stream())
    }

    /// The zones of a partition where they are not shared.
    fn zones_of(&self, partition: usize) -> std::ops::Range<usize> {
        let (zones, partitions) = (self.snapshot.zones.len(), self.partitions);
        let start = |partition: usize| partition.min(partitions) * zones / partitions;
        start(partition)..start(partition + 1)
    }

    fn queue(&self, zones: std::ops::Range<usize>) -> Queue {
        let zones_max = self.snapshot.zones.len() / (self.partitions * TURNS);
        Queue::new(&self.snapshot, zones, zones_max, self.predicate.as_ref())
    }

    /// The expression over the table's columns.
    fn over_table(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let over_table = |expr: Arc<dyn PhysicalExpr>| match expr.downcast_ref::<Column>() {
            Some(column) => {
                let column = Column::new(column.name(), self.columns[column.index()]);
                Ok(Transformed::yes(Arc::new(column) as _))
            }
            None => Ok(Transformed::no(expr)),
        };
        expr.transform(over_table).data()
    }
}

/// Whether DataFusion's joins find bounds of keys of a type and use them rightly: some fail, and bounds of nulls that have
/// no type leave out nulls that match. A join whose filter nobody takes needs none.
pub fn have_bounds(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null | DataType::RunEndEncoded(..) => false,
        DataType::Dictionary(_, values) => !values.is_integer() && have_bounds(values),
        other => !other.is_nested(),
    }
}

impl DataSource for TableSource {
    fn open(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.open_with_args(OpenArgs::new(partition, context))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let batch_rows = args.context.session_config().batch_size();
        self.rows(args.partition, (Arc::clone(&self.schema), true), batch_rows, args.sibling_state.as_ref())
    }

    fn create_sibling_state(&self, _: &ConfigOptions) -> Option<Shared> {
        (!self.is_ordered()).then(|| Arc::new(self.queue(0..self.snapshot.zones.len())) as Shared)
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if format == DisplayFormatType::TreeRender {
            writeln!(f, "format=weld table")?;
            return writeln!(f, "rows={}", self.snapshot.rows);
        }
        write!(f, "weld table, rows={}, partitions={}", self.snapshot.rows, self.partitions)?;
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        match &self.predicate {
            Some(predicate) => write!(f, ", predicate={predicate}"),
            None => Ok(()),
        }
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        _: usize,
        output_ordering: Option<LexOrdering>,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let partitions = target_partitions.clamp(1, self.snapshot.zones.len().max(1));
        if partitions == self.partitions || output_ordering.is_some() {
            return Ok(None);
        }
        Ok(Some(Arc::new(TableSource { partitions, ..self.clone() })))
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let statistics = self.snapshot.statistics(&self.columns);
        let statistics = match (partition, self.partitions) {
            (None, _) | (Some(_), 1) => statistics,
            // Who reads which rows shows when they are read.
            (Some(_), partitions) => {
                statistics.with_fetch(Some(self.snapshot.rows.div_ceil(partitions)), 0, 1)?.to_inexact()
            }
        };
        let is_whole = self.predicate.is_none() && self.fetch.is_none();
        let statistics = if is_whole { statistics } else { statistics.to_inexact() };
        Ok(Arc::new(statistics.with_fetch(self.fetch, 0, 1)?))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        // A limit counts rows that the predicate would leave out.
        let takes_limit = limit.is_none() || self.predicate.is_none();
        takes_limit.then(|| Arc::new(self.clone().with_limit(limit)) as Arc<dyn DataSource>)
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn DataSource>>> {
        let column = |index: usize, alias: &str| {
            let is_same = self.schema.fields().get(index).is_some_and(|field| field.name() == alias);
            self.columns.get(index).copied().filter(|_| is_same)
        };
        let columns = projection
            .iter()
            .map(|projected| column(projected.expr.downcast_ref::<Column>()?.index(), &projected.alias));
        match columns.collect::<Option<Vec<usize>>>() {
            Some(columns) => Ok(Some(Arc::new(self.with_columns(&columns)?))),
            None => Ok(None),
        }
    }

    /// All filters are taken to leave out zones; none of them need not be asked again.
    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        let none = FilterPushdownPropagation::with_parent_pushdown_result(vec![PushedDown::No; filters.len()]);
        if filters.is_empty() || self.fetch.is_some() {
            return Ok(none);
        }
        let has_bounds = |filter: &Arc<dyn PhysicalExpr>| {
            let columns = collect_columns(filter);
            columns.iter().all(|column| have_bounds(self.schema.field(column.index()).data_type()))
        };
        let filters = filters.into_iter().filter(has_bounds).map(|filter| self.over_table(filter));
        let filters = filters.collect::<Result<Vec<_>>>()?;
        if filters.is_empty() {
            return Ok(none);
        }
        let predicate = Some(conjunction(self.predicate.iter().cloned().chain(filters)));
        Ok(none.with_updated_node(Arc::new(TableSource { predicate, ..self.clone() })))
    }

    fn with_preserve_order(&self, preserve_order: bool) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(TableSource { is_ordered: preserve_order, ..self.clone() }))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.predicate.as_ref().map_or(Ok(TreeNodeRecursion::Continue), f)
    }
}
