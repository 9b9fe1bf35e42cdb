//! Which columns of a plan have nulls: what is declared, what is known beyond that of files and tables in memory, and
//! what is expected.
//!
//! Most files declare every column nullable, and most columns have no null. Where the footers of all files count none,
//! a column is lowered as one that is declared NOT NULL: keys and tables without a flag for each value, no flag to look
//! at. Should a null come all the same, the query fails.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Fields, Schema, SchemaRef};
use datafusion::common::{ColumnStatistics, DataFusionError, JoinType, exec_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::Operator;
use datafusion::parquet::file::metadata::ParquetMetaData;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateOutputMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use futures::StreamExt;
use weld_plans::{CommonSubplanScanExec, JoinKeysExec, KeyFilterExec, Memo, UnorderedExec};
use weld_table::TableSource;

use crate::exec::WeldExec;
use crate::lower::aggregate::gives_values;
use crate::scan::{may_have_nulls, path_of};

/// Where a column has a null among so many rows, nearly every batch has one.
const ROWS_OF_A_NULL: usize = 2048;

/// The footers of so many files are looked at, however small the files are.
const SMALL_FILES_MAX: usize = 16;

/// The footers of more files are looked at if the files have so many bytes each: finding one takes 20 µs, which is to
/// be little beside reading its file.
const FILE_BYTES_MIN: u64 = 256 << 10;

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

/// Which columns of the parts of a plan have no nulls.
#[derive(Debug, Default)]
pub(crate) struct Nulls(Memo<Arc<[bool]>>);

impl Nulls {
    /// The schema of a plan, NOT NULL where it has no nulls.
    pub(crate) fn narrowed_schema(&self, plan: &Arc<dyn ExecutionPlan>) -> SchemaRef {
        let schema = plan.schema();
        let absent = self.absent_in(plan);
        let fields = schema.fields().iter().zip(absent.iter());
        let fields = fields.map(|(field, &absent)| match field.is_nullable() == absent {
            true => Arc::new(field.as_ref().clone().with_nullable(!absent)),
            false => Arc::clone(field),
        });
        Arc::new(Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone()))
    }

    /// For each column of a plan whether it is known to have no nulls.
    fn absent_in(&self, plan: &Arc<dyn ExecutionPlan>) -> Arc<[bool]> {
        self.0.of(plan, || {
            let known = self.known_of(plan).into_iter().chain(std::iter::repeat(false));
            plan.schema().fields().iter().zip(known).map(|(field, known)| known || !field.is_nullable()).collect()
        })
    }

    /// The same beyond what is declared. Nothing is known of columns that are missing at the end.
    fn known_of(&self, plan: &Arc<dyn ExecutionPlan>) -> Vec<bool> {
        if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
            return of_source(source, plan.schema().fields().len());
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return projected(self.absent_in(filter.input()).to_vec(), filter.projection().as_deref());
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let below = self.absent_in(projection.input());
            return projection.expr().iter().map(|projected| never_null(&projected.expr, &below)).collect();
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return of_aggregate(aggregate, || self.absent_in(aggregate.input()));
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return projected(self.of_join(join), join.projection.as_deref());
        }
        if let Some(subplan) = plan.downcast_ref::<CommonSubplanScanExec>() {
            return self.absent_in(subplan.subplan()).to_vec();
        }
        let passes_rows_on = plan.is::<RepartitionExec>()
            || plan.is::<CoalescePartitionsExec>()
            || plan.is::<SortExec>()
            || plan.is::<SortPreservingMergeExec>()
            || plan.is::<UnionExec>()
            || plan.is::<InterleaveExec>()
            || plan.is::<KeyFilterExec>()
            || plan.is::<JoinKeysExec>()
            || plan.is::<UnorderedExec>();
        if !passes_rows_on {
            return Vec::new();
        }
        let inputs = plan.children().into_iter().map(|input| self.absent_in(input).to_vec());
        inputs
            .reduce(|one, other| one.iter().zip(other).map(|(one, other)| *one && other).collect())
            .unwrap_or_default()
    }

    fn of_join(&self, join: &HashJoinExec) -> Vec<bool> {
        let nothing = |plan: &Arc<dyn ExecutionPlan>| vec![false; plan.schema().fields().len()];
        let absent_in = |plan: &Arc<dyn ExecutionPlan>| self.absent_in(plan).to_vec();
        let (left, right) = (join.left(), join.right());
        match join.join_type() {
            JoinType::Inner => [absent_in(left), absent_in(right)].concat(),
            JoinType::Left => [absent_in(left), nothing(right)].concat(),
            JoinType::Right => [nothing(left), absent_in(right)].concat(),
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => absent_in(left),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => absent_in(right),
            JoinType::Full => Vec::new(),
        }
    }
}

fn of_source(source: &DataSourceExec, columns: usize) -> Vec<bool> {
    let source = source.data_source();
    if let Some(files) = source.downcast_ref::<FileScanConfig>() {
        return of_files(files, columns);
    }
    if let Some(table) = source.downcast_ref::<TableSource>() {
        return (0..columns).map(|column| table.null_count(column) == Some(0)).collect();
    }
    source.downcast_ref::<MemorySourceConfig>().map_or_else(Vec::new, |memory| of_memory(memory, columns))
}

/// Whether a row's value is there if those of its columns are, as far as that is easily seen.
fn never_null(expr: &Arc<dyn PhysicalExpr>, below: &[bool]) -> bool {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return below.get(column.index()).copied().unwrap_or(false);
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return !literal.value().is_null();
    }
    // What does not fit is an error.
    let is_total = if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply)
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        cast.cast_type().is_numeric() && !cast.cast_options().safe
    } else {
        false
    };
    is_total && expr.children().into_iter().all(|part| never_null(part, below))
}

/// Keys, and what is made of values that are there: each group has one.
fn of_aggregate(aggregate: &AggregateExec, below: impl FnOnce() -> Arc<[bool]>) -> Vec<bool> {
    let group = aggregate.group_expr();
    if group.expr().is_empty() || !group.is_single() {
        return Vec::new();
    }
    let below = below();
    let mut known: Vec<bool> = group.expr().iter().map(|(expr, _)| never_null(expr, &below)).collect();
    let mode = aggregate.mode();
    let mut states = below.iter().skip(known.len());
    for (call, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
        let Ok(fields) = call.state_fields() else { return known };
        let given = match mode.input_mode() {
            AggregateInputMode::Raw => filter.is_none() && call.expressions().iter().all(|arg| never_null(arg, &below)),
            AggregateInputMode::Partial => states.by_ref().take(fields.len()).fold(true, |all, state| all & state),
        };
        let columns = if mode.output_mode() == AggregateOutputMode::Partial { fields.len() } else { 1 };
        known.extend(std::iter::repeat_n(given && gives_values(call), columns));
    }
    known
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
    let expr = |index: usize| match config.file_source().projection() {
        Some(projection) => Some(Arc::clone(&projection.iter().nth(index)?.expr)),
        None => Some(Arc::new(Column::new("", index)) as _),
    };
    let Some(footers) = footers(config) else { return vec![false; columns] };
    let files = || config.file_groups.iter().flat_map(FileGroup::iter);
    let in_no_folder = |column: &Column| {
        let value = |file: &PartitionedFile| file.partition_values.get(column.index() - in_files.len()).cloned();
        files().all(|file| value(file).is_some_and(|value| !value.is_null()))
    };
    let has_none = |expr: Arc<dyn PhysicalExpr>| match expr.downcast_ref::<Column>() {
        Some(column) if column.index() >= in_files.len() => in_no_folder(column),
        _ => path_of(&expr, table.table_schema())
            .is_some_and(|path| !footers.iter().any(|footer| may_have_nulls(footer, &path))),
    };
    (0..columns).map(|index| expr(index).is_some_and(has_none)).collect()
}

/// The footers of all files, unless these are many and small.
fn footers(config: &FileScanConfig) -> Option<Vec<Arc<ParquetMetaData>>> {
    let files = config.file_groups.iter().flat_map(FileGroup::iter);
    let (count, bytes) = files.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.effective_size()));
    if count > SMALL_FILES_MAX && bytes / (count as u64) < FILE_BYTES_MIN {
        return None;
    }
    weld_plans::footers(config, usize::MAX)
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

/// Which columns of a plan are expected to have nulls in about every batch, if its statistics say anything of nulls.
pub(crate) fn expected(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<bool>> {
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    let rows = known.num_rows.get_value().copied().unwrap_or(0);
    let count = |column: &ColumnStatistics| column.null_count.get_value().copied();
    known.column_statistics.iter().find_map(count)?;
    let has_nulls = |count: usize| count > 0 && count.saturating_mul(ROWS_OF_A_NULL) >= rows;
    Some(known.column_statistics.iter().map(|column| count(column).is_some_and(has_nulls)).collect())
}

/// Whether some column of the tables below is.
pub(crate) fn may_come(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(exec) = plan.downcast_ref::<WeldExec>() {
        return exec.inner.has_nulls();
    }
    match &plan.children()[..] {
        [] => expected(plan).is_some_and(|nulls| nulls.contains(&true)),
        children => children.iter().any(|child| may_come(child)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Int32Type};
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
            ("SELECT k, n, k + 1, n + 1, k / 2 FROM t", vec![false, true, false, true, true]),
            ("SELECT k, max(k), count(*) FROM t GROUP BY k", vec![false, false, false]),
            ("SELECT n, k, count(*) FROM t GROUP BY ROLLUP (n, k)", vec![true, true, false]),
            ("SELECT a.n, b.k, b.n FROM t a JOIN t b ON a.k = b.k", vec![true, false, true]),
            ("SELECT a.n, a.k, b.k FROM t a LEFT JOIN t b ON a.k = b.k", vec![true, false, true]),
            ("SELECT a.k, b.k FROM t a FULL JOIN t b ON a.k = b.k", vec![true, true]),
            ("SELECT k FROM t UNION ALL SELECT k + 1 FROM t", vec![false]),
            ("SELECT k FROM t UNION ALL SELECT n FROM t", vec![true]),
            ("SELECT n, sum(k), avg(k), sum(n), max(k) FROM t GROUP BY n", vec![true, false, false, true, false]),
            ("SELECT k, sum(k) FILTER (WHERE n > 1), var_samp(k) FROM t GROUP BY k", vec![false, true, true]),
            ("SELECT sum(k) FROM t", vec![true]),
        ] {
            let plan = context.sql(sql).await.expect("valid SQL").create_physical_plan().await.expect("a plan");
            assert_eq!(nullable(&Nulls::default().narrowed_schema(&plan)), expected, "{sql}");
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
