//! The table as DataFusion's catalogs know it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{
    Constraints, DataFusionError, Result, SchemaExt, TableReference, exec_datafusion_err, not_impl_err,
};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder, TableType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::snapshot::{Snapshot, SnapshotBuilder};
use crate::source::TableSource;

/// So many rows have bounds of their own. Fewer would be left out more often; filters are asked about each zone.
const ZONE_ROWS: usize = 4096;

/// A table in memory whose columns are encoded.
pub struct WeldTable {
    schema: SchemaRef,
    rows: Arc<Current>,
    constraints: Constraints,
    column_defaults: HashMap<String, Expr>,
}

/// The rows as they are now, and who adds some.
struct Current {
    snapshot: RwLock<Arc<Snapshot>>,
    writer: Mutex<()>,
}

impl Current {
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for WeldTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeldTable").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl WeldTable {
    /// A table with these rows, in their order. No pool knows of its memory.
    ///
    /// Fails where a batch is not of the schema.
    pub fn try_new(schema: SchemaRef, batches: impl IntoIterator<Item = RecordBatch>) -> Result<WeldTable> {
        WeldTable::with_zone_rows(schema, batches, ZONE_ROWS)
    }

    /// The same with zones of so many rows, to test what happens at their ends.
    #[doc(hidden)]
    pub fn with_zone_rows(
        schema: SchemaRef,
        batches: impl IntoIterator<Item = RecordBatch>,
        zone_rows: usize,
    ) -> Result<WeldTable> {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let memory = MemoryConsumer::new("WeldTable").register(&pool);
        let mut builder = SnapshotBuilder::new(Arc::clone(&schema), zone_rows.max(1), memory);
        batches.into_iter().try_for_each(|batch| builder.push(&batch))?;
        Ok(WeldTable::of(builder.finish()?))
    }

    /// A table with the rows of a stream, in their order; it holds `memory` for as long as somebody can read it.
    ///
    /// Fails where the stream does, and where the pool refuses what the table takes.
    pub async fn load(rows: SendableRecordBatchStream, memory: MemoryReservation) -> Result<WeldTable> {
        let builder = SnapshotBuilder::new(rows.schema(), ZONE_ROWS, memory);
        Ok(WeldTable::of(filled(builder, rows).await?.0))
    }

    fn of(snapshot: Snapshot) -> WeldTable {
        let schema = Arc::clone(&snapshot.schema);
        let rows = Current { snapshot: RwLock::new(Arc::new(snapshot)), writer: Mutex::new(()) };
        WeldTable { schema, rows: Arc::new(rows), constraints: Constraints::default(), column_defaults: HashMap::new() }
    }

    /// The same with constraints, which are known and not checked.
    pub fn with_constraints(mut self, constraints: Constraints) -> WeldTable {
        self.constraints = constraints;
        self
    }

    /// The same with what columns are if a row that is inserted does not say.
    pub fn with_column_defaults(mut self, column_defaults: HashMap<String, Expr>) -> WeldTable {
        self.column_defaults = column_defaults;
        self
    }

    /// How many bytes the rows take, encoded.
    pub fn stored_bytes(&self) -> usize {
        self.rows.snapshot().columns.iter().map(|column| column.stored_bytes).sum()
    }
}

/// The rows of `provider` as a table of `context` that keeps them encoded.
///
/// Fails where reading them does, where the pool refuses the table's memory, and where the name is taken.
pub async fn register_table(
    context: &SessionContext,
    name: impl Into<TableReference>,
    provider: Arc<dyn TableProvider>,
) -> Result<()> {
    let name = name.into();
    let memory = reservation(context, &name);
    let table = WeldTable::load(context.read_table(provider)?.execute_stream().await?, memory).await?;
    context.register_table(name, Arc::new(table)).map(drop)
}

/// `CREATE TABLE .. AS ..`, with a table that keeps its rows encoded where DataFusion's would be a `MemTable`.
pub async fn create_table(context: &SessionContext, command: CreateMemoryTable) -> Result<DataFrame> {
    let is_there = context.table_exist(command.name.clone())?;
    let is_refused = command.temporary || (command.if_not_exists && command.or_replace);
    if is_refused || has_ambiguous_names(&command.input) || (is_there && !command.or_replace) {
        // DataFusion says what is wrong, if anything is.
        return context.execute_logical_plan(LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(command))).await;
    }
    let CreateMemoryTable { name, input, constraints, column_defaults, .. } = command;
    let rows = DataFrame::new(context.state(), Arc::unwrap_or_clone(input)).execute_stream().await?;
    let table = WeldTable::load(rows, reservation(context, &name)).await?;
    let table = table.with_constraints(constraints).with_column_defaults(column_defaults.into_iter().collect());
    if is_there {
        context.deregister_table(name.clone())?;
    }
    context.register_table(name, Arc::new(table))?;
    Ok(DataFrame::new(context.state(), LogicalPlanBuilder::empty(false).build()?))
}

/// Whether two columns have one name, once those of their tables are gone.
fn has_ambiguous_names(rows: &LogicalPlan) -> bool {
    let mut names = HashSet::new();
    !rows.schema().fields().iter().all(|field| names.insert(field.name()))
}

fn reservation(context: &SessionContext, name: &TableReference) -> MemoryReservation {
    MemoryConsumer::new(format!("WeldTable[{name}]")).register(&context.runtime_env().memory_pool)
}

/// The rows of a stream behind those that `builder` has, and how many they are.
async fn filled(mut builder: SnapshotBuilder, mut rows: SendableRecordBatchStream) -> Result<(Snapshot, u64)> {
    let mut count = 0;
    while let Some(batch) = rows.next().await.transpose()? {
        count += batch.num_rows() as u64;
        let pushed = move || {
            builder.push(&batch)?;
            Ok::<_, DataFusionError>(builder)
        };
        builder = apart(pushed).await?;
    }
    Ok((apart(move || builder.finish()).await?, count))
}

/// Does work of some milliseconds where it keeps no task from running; here, if there is no runtime of tokio's.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    if Handle::try_current().is_err() {
        return work();
    }
    let task = SpawnedTask::spawn_blocking(work).join().await;
    task.map_err(|error| exec_datafusion_err!("the task that encodes a table failed: {error}"))?
}

#[async_trait]
impl TableProvider for WeldTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.column_defaults.get(column)
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let snapshot = self.rows.snapshot();
        let columns = projection.cloned().unwrap_or_else(|| (0..snapshot.columns.len()).collect());
        let source = TableSource::new(snapshot, columns, session.config().target_partitions())?;
        Ok(DataSourceExec::from_data_source(source.with_limit(limit)))
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.schema.logically_equivalent_names_and_types(&input.schema())?;
        if insert_op != InsertOp::Append {
            return not_impl_err!("{insert_op} of a table that keeps its rows encoded");
        }
        let sink = Sink { schema: Arc::clone(&self.schema), rows: Arc::clone(&self.rows) };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), None)))
    }
}

/// Where rows that are inserted go.
struct Sink {
    schema: SchemaRef,
    rows: Arc<Current>,
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sink").finish_non_exhaustive()
    }
}

impl DisplayAs for Sink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("weld table")
    }
}

#[async_trait]
impl DataSink for Sink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All rows are added at once, or none if there is an error.
    async fn write_all(&self, data: SendableRecordBatchStream, _: &Arc<TaskContext>) -> Result<u64> {
        let _writer = self.rows.writer.lock().await;
        let snapshot = self.rows.snapshot();
        let builder = apart(move || SnapshotBuilder::behind(&snapshot)).await?;
        let (snapshot, count) = filled(builder, data).await?;
        *self.rows.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
        Ok(count)
    }
}
