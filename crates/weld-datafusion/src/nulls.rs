//! Which columns of a plan have nulls: what is declared, and what is known beyond that of files and tables in memory.
//!
//! Most files declare every column nullable, and most columns have no null. Where the footers of all files count none, a
//! column is lowered as one that is declared NOT NULL: keys and tables without a flag for each value, no flag to look at.
//! Should a null come all the same, the query fails.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DataFusionError, JoinType, exec_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::arrow_reader::ArrowReaderOptions;
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{FutureExt, StreamExt};

use crate::scan::may_have_nulls;

/// The schema of a plan, NOT NULL where it has no nulls.
pub(crate) fn narrowed_schema(plan: &Arc<dyn ExecutionPlan>) -> SchemaRef {
    let schema = plan.schema();
    let absent = absent_in(plan);
    let field = |(field, absent): (&Arc<Field>, bool)| field.as_ref().clone().with_nullable(!absent);
    let fields = schema.fields().iter().zip(absent).map(field).collect::<Vec<_>>();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The stream, which fails on a null in a column that was found to have none.
pub(crate) fn checked(stream: SendableRecordBatchStream, narrowed: &Schema) -> SendableRecordBatchStream {
    let schema = stream.schema();
    let fields = schema.fields().iter().zip(narrowed.fields()).enumerate();
    let absent = fields.filter(|(_, (declared, known))| declared.is_nullable() && !known.is_nullable());
    let absent = absent.map(|(index, _)| index).collect::<Vec<_>>();
    if absent.is_empty() {
        return stream;
    }
    let checked = stream.map(move |batch| {
        let batch = batch?;
        match absent.iter().find(|index| batch.column(**index).logical_null_count() > 0) {
            Some(index) => Err(unexpected(&batch, *index)),
            None => Ok(batch),
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, checked))
}

fn unexpected(batch: &RecordBatch, index: usize) -> DataFusionError {
    let schema = batch.schema();
    let column = schema.field(index).name();
    exec_datafusion_err!("column '{column}' has nulls, though its file counts none")
}

/// For each column of a plan whether it is known to have no nulls.
fn absent_in(plan: &Arc<dyn ExecutionPlan>) -> Vec<bool> {
    let schema = plan.schema();
    let declared = || schema.fields().iter().map(|field| !field.is_nullable()).collect::<Vec<_>>();
    let through = |below: &[bool], expr: &Arc<dyn PhysicalExpr>| {
        expr.downcast_ref::<Column>().and_then(|column| below.get(column.index()).copied()).unwrap_or(false)
    };
    let known: Vec<bool> = if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
        let source = source.data_source();
        if let Some(files) = source.downcast_ref::<FileScanConfig>() {
            of_files(files, schema.fields().len())
        } else if let Some(memory) = source.downcast_ref::<MemorySourceConfig>() {
            of_memory(memory, schema.fields().len())
        } else {
            return declared();
        }
    } else if plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() {
        absent_in(plan.children()[0])
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        projected(absent_in(filter.input()), filter.projection().as_deref())
    } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = absent_in(projection.input());
        projection.expr().iter().map(|projected| through(&below, &projected.expr)).collect()
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let group = aggregate.group_expr();
        if !group.is_single() {
            return declared();
        }
        let below = absent_in(aggregate.input());
        group.expr().iter().map(|(expr, _)| through(&below, expr)).collect()
    } else if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        if *join.join_type() != JoinType::Inner {
            return declared();
        }
        let both = [absent_in(join.left()), absent_in(join.right())].concat();
        projected(both, join.projection.as_deref())
    } else {
        return declared();
    };
    let known = known.into_iter().chain(std::iter::repeat(false));
    declared().into_iter().zip(known).map(|(declared, known)| declared || known).collect()
}

fn projected(columns: Vec<bool>, projection: Option<&[usize]>) -> Vec<bool> {
    match projection {
        Some(kept) => kept.iter().map(|index| columns.get(*index).copied().unwrap_or(false)).collect(),
        None => columns,
    }
}

/// By the footers of all files. DataFusion's statistics do not do: they have a count of zero where a footer has none.
fn of_files(config: &FileScanConfig, columns: usize) -> Vec<bool> {
    let table = config.file_source().table_schema();
    let in_files = table.file_schema().fields();
    let table_column = |index: usize| match config.file_source().projection() {
        Some(projection) => projection.iter().nth(index)?.expr.downcast_ref::<Column>().map(Column::index),
        None => Some(index),
    };
    let Some(footers) = footers(config) else { return vec![false; columns] };
    let files = || config.file_groups.iter().flat_map(FileGroup::iter);
    let in_no_file = |index: usize| match in_files.get(index) {
        Some(field) => !footers.iter().any(|footer| may_have_nulls(footer, field.name())),
        None => {
            files().all(|file| file.partition_values.get(index - in_files.len()).is_some_and(|value| !value.is_null()))
        }
    };
    (0..columns).map(|index| table_column(index).is_some_and(in_no_file)).collect()
}

/// The footers of all Parquet files, as far as the session has read them to find the schema and the statistics: a plan is
/// not held up by reading.
fn footers(config: &FileScanConfig) -> Option<Vec<Arc<ParquetMetaData>>> {
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
    config.file_groups.iter().flat_map(FileGroup::iter).map(footer).collect()
}

/// By the arrays.
fn of_memory(config: &MemorySourceConfig, columns: usize) -> Vec<bool> {
    let table_column = |index: usize| match config.projection() {
        Some(projection) => projection.get(index).copied(),
        None => Some(index),
    };
    let has_none =
        |batch: &RecordBatch, index: usize| batch.columns().get(index).is_some_and(|column| !column.is_nullable());
    let in_no_batch = |index: usize| config.partitions().iter().flatten().all(|batch| has_none(batch, index));
    (0..columns).map(|index| table_column(index).is_some_and(in_no_batch)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Int32Type};
    use datafusion::datasource::MemTable;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use datafusion::prelude::{SessionConfig, SessionContext};

    /// `n` has nulls; `d` might, among the values of its dictionary.
    fn batch(nulls: bool) -> RecordBatch {
        let k: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let n: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), (!nulls).then_some(2), Some(3)]));
        let values = Arc::new(StringArray::from(vec![Some("x"), None]));
        let d: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0, 1, 0]), values));
        RecordBatch::try_from_iter_with_nullable([("k", k, true), ("n", n, true), ("d", d, true)]).expect("a batch")
    }

    fn nullable(schema: &Schema) -> Vec<bool> {
        schema.fields().iter().map(|field| field.is_nullable()).collect()
    }

    #[tokio::test]
    async fn columns_without_nulls_are_found() {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        let parts = vec![vec![batch(false)], vec![batch(true)]];
        let table = MemTable::try_new(batch(true).schema(), parts).expect("a table");
        context.register_table("t", Arc::new(table)).expect("it is new");
        for (sql, expected) in [
            ("SELECT * FROM t", vec![false, true, true]),
            ("SELECT n, k FROM t WHERE k > 1", vec![true, false]),
            ("SELECT k, n, k + 1 FROM t", vec![false, true, true]),
            ("SELECT k, max(k), count(*) FROM t GROUP BY k", vec![false, true, false]),
            ("SELECT n, k, count(*) FROM t GROUP BY ROLLUP (n, k)", vec![true, true, false]),
            ("SELECT a.n, b.k, b.n FROM t a JOIN t b ON a.k = b.k", vec![true, false, true]),
            ("SELECT a.n, b.k, b.n FROM t a LEFT JOIN t b ON a.k = b.k", vec![true, true, true]),
        ] {
            let plan = context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
            assert_eq!(nullable(&narrowed_schema(&plan)), expected, "{sql}");
        }
    }

    #[tokio::test]
    async fn a_null_that_should_not_come_is_an_error() {
        let narrowed = Schema::new(vec![
            Field::new("k", DataType::Int64, false),
            Field::new("n", DataType::Int32, false),
            Field::new("d", batch(true).column(2).data_type().clone(), true),
        ]);
        let stream = |nulls| {
            let batches = futures::stream::iter([Ok(batch(nulls))]);
            checked(Box::pin(RecordBatchStreamAdapter::new(batch(nulls).schema(), batches)), &narrowed)
        };
        assert!(stream(false).next().await.expect("a batch").is_ok());
        let error = stream(true).next().await.expect("an error").expect_err("it has a null");
        assert!(error.to_string().contains("column 'n' has nulls"), "{error}");
    }
}
