//! Whether two operators do the same to the same inputs.
//!
//! A closed list: of an operator that is not here nothing is known, and it is the same as no other. Inputs are compared
//! elsewhere (`classes`), so what is here looks at one node alone.

use std::fmt::{self, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetFileReaderFactory, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Volatility;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::UnKnownColumn;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use weld_table::TableSource;

use crate::UnorderedExec;
use crate::expr::{all_exprs, is_volatile};

/// Whether rows are spread over partitions in the same way; where it is not known how, over as many.
pub fn is_same_partitioning(a: &Partitioning, b: &Partitioning) -> bool {
    // A key that is no column of the output is equal to no other.
    let are_gone =
        |a: &Arc<dyn PhysicalExpr>, b: &Arc<dyn PhysicalExpr>| a.is::<UnKnownColumn>() && b.is::<UnKnownColumn>();
    match (a, b) {
        (Partitioning::Hash(a, m), Partitioning::Hash(b, n)) => {
            m == n && a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || are_gone(a, b))
        }
        // Which are never equal.
        (Partitioning::UnknownPartitioning(a), Partitioning::UnknownPartitioning(b)) => a == b,
        (a, b) => a == b,
    }
}

/// Whether `a` and `b`, over inputs that give the same rows, give the same rows in the same partitions and order.
pub(super) fn is_same(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    a.name() == b.name()
        && a.schema() == b.schema()
        && a.fetch() == b.fetch()
        && a.output_partitioning().partition_count() == b.output_partitioning().partition_count()
        && a.output_ordering() == b.output_ordering()
        && (is_same_source(a, b) || is_same_join(a, b) || is_same_operator(a, b) || is_same_exchange(a, b))
}

/// Whether `a` and `b`, over similar inputs, are the same but for which rows filters pass.
pub(super) fn is_similar(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    if is_same(a, b) {
        return true;
    }
    if a.schema() != b.schema()
        || a.fetch() != b.fetch()
        || a.output_partitioning().partition_count() != b.output_partitioning().partition_count()
    {
        return false;
    }
    if let Some((a, b)) = both::<FilterExec>(a, b) {
        return a.projection() == b.projection();
    }
    let Some((a, b)) = both::<DataSourceExec>(a, b) else { return false };
    files_of(a, b).is_some_and(|(a, b)| {
        let (a_source, b_source) = (a.file_source(), b.file_source());
        a_source.projection() == b_source.projection() && are_same_files_unfiltered(a, b)
    })
}

/// Both sources as files, if they are.
fn files_of<'a>(a: &'a DataSourceExec, b: &'a DataSourceExec) -> Option<(&'a FileScanConfig, &'a FileScanConfig)> {
    a.data_source().downcast_ref::<FileScanConfig>().zip(b.data_source().downcast_ref::<FileScanConfig>())
}

/// Whether `a` and `b` do the same to the rows of their inputs, if their expressions are the same ones, whatever
/// columns they keep; and whatever a source of files leaves rows out by, if filters are ignored.
pub(super) fn is_alike(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>, ignores_filters: bool) -> bool {
    if a.name() != b.name() || a.output_partitioning().partition_count() != b.output_partitioning().partition_count() {
        return false;
    }
    if let Some((a, b)) = both::<HashJoinExec>(a, b) {
        return a.on().len() == b.on().len() && a.filter().is_some() == b.filter().is_some() && is_same_hash_join(a, b);
    }
    if let Some((a, b)) = both::<RepartitionExec>(a, b) {
        let is_same_kind = std::mem::discriminant(a.partitioning()) == std::mem::discriminant(b.partitioning());
        return is_same_kind && !a.preserve_order() && !b.preserve_order();
    }
    let is_alike_source = if ignores_filters { is_alike_source_unfiltered(a, b) } else { is_alike_source(a, b) };
    is_alike_source
        || both::<FilterExec>(a, b).is_some()
        || both::<CoalescePartitionsExec>(a, b).is_some()
        || both::<CooperativeExec>(a, b).is_some()
        || both::<UnorderedExec>(a, b).is_some()
}

/// Whether two sources of a plan are alike: if not, no two subplans are.
pub(super) fn has_alike_sources(plan: &Arc<dyn ExecutionPlan>) -> bool {
    fn note<'a>(plan: &'a Arc<dyn ExecutionPlan>, sources: &mut Vec<&'a Arc<dyn ExecutionPlan>>) {
        match &plan.children()[..] {
            [] => sources.push(plan),
            children => children.iter().for_each(|child| note(child, sources)),
        }
    }
    let mut sources = Vec::new();
    note(plan, &mut sources);
    let is_known = |(index, source): (usize, &&Arc<dyn ExecutionPlan>)| {
        sources[..index].iter().any(|known| is_alike(known, source, true))
    };
    sources.iter().enumerate().any(is_known)
}

/// Whether a second execution would give the same rows.
pub(super) fn is_repeatable(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_stable = |fun: &AggregateFunctionExpr| fun.fun().signature().volatility != Volatility::Volatile;
    let aggregates = plan.downcast_ref::<AggregateExec>().map_or(&[][..], AggregateExec::aggr_expr);
    let windows = if let Some(windows) = plan.downcast_ref::<WindowAggExec>() {
        windows.window_expr()
    } else {
        plan.downcast_ref::<BoundedWindowAggExec>().map_or(&[][..], BoundedWindowAggExec::window_expr)
    };
    !plan.boundedness().is_unbounded()
        && all_exprs(plan.as_ref(), |expr| !is_volatile(expr))
        && aggregates.iter().all(|aggregate| is_stable(aggregate))
        && windows.iter().all(|window| volatility(window.as_ref()).is_some_and(|of| of != Volatility::Volatile))
}

/// How often a window function's value changes, if its kind is known.
fn volatility(window: &dyn WindowExpr) -> Option<Volatility> {
    let window = window.as_any();
    let aggregate = if let Some(window) = window.downcast_ref::<PlainAggregateWindowExpr>() {
        window.get_aggregate_expr()
    } else if let Some(window) = window.downcast_ref::<SlidingAggregateWindowExpr>() {
        window.get_aggregate_expr()
    } else {
        let window = window.downcast_ref::<StandardWindowExpr>()?;
        let call = window.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
        return Some(call.fun().signature().volatility);
    };
    Some(aggregate.fun().signature().volatility)
}

/// Both nodes as `T`, if they are.
fn both<'a, T: ExecutionPlan>(a: &'a Arc<dyn ExecutionPlan>, b: &'a Arc<dyn ExecutionPlan>) -> Option<(&'a T, &'a T)> {
    a.downcast_ref().zip(b.downcast_ref())
}

fn is_same_operator(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some((a, b)) = both::<FilterExec>(a, b) {
        return a.predicate() == b.predicate() && a.projection() == b.projection();
    }
    if let Some((a, b)) = both::<ProjectionExec>(a, b) {
        return a.expr() == b.expr();
    }
    if let Some((a, b)) = both::<AggregateExec>(a, b) {
        let functions = a.aggr_expr().iter().zip(b.aggr_expr());
        return a.mode() == b.mode()
            && a.group_expr() == b.group_expr()
            && a.group_expr().has_grouping_set() == b.group_expr().has_grouping_set()
            && a.filter_expr() == b.filter_expr()
            && a.limit_options() == b.limit_options()
            && a.aggr_expr().len() == b.aggr_expr().len()
            && functions.into_iter().all(|(a, b)| is_same_aggregate(a, b));
    }
    if let Some((a, b)) = both::<SortExec>(a, b) {
        return a.expr() == b.expr() && a.preserve_partitioning() == b.preserve_partitioning();
    }
    if let Some((a, b)) = both::<WindowAggExec>(a, b) {
        return are_same_windows(a.window_expr(), b.window_expr());
    }
    if let Some((a, b)) = both::<BoundedWindowAggExec>(a, b) {
        return a.input_order_mode == b.input_order_mode
            && a.state_observer().is_none()
            && b.state_observer().is_none()
            && are_same_windows(a.window_expr(), b.window_expr());
    }
    if let Some((a, b)) = both::<GlobalLimitExec>(a, b) {
        return a.skip() == b.skip() && a.fetch() == b.fetch();
    }
    both::<LocalLimitExec>(a, b).is_some_and(|(a, b)| a.fetch() == b.fetch())
}

pub(super) fn is_same_aggregate(a: &AggregateFunctionExpr, b: &AggregateFunctionExpr) -> bool {
    a == b
        && a.is_distinct() == b.is_distinct()
        && a.ignore_nulls() == b.ignore_nulls()
        && a.is_reversed() == b.is_reversed()
        && a.order_bys() == b.order_bys()
}

/// Window functions show all that they are made of; their functions cannot be compared otherwise.
fn are_same_windows(a: &[Arc<dyn WindowExpr>], b: &[Arc<dyn WindowExpr>]) -> bool {
    let is_same = |a: &Arc<dyn WindowExpr>, b: &Arc<dyn WindowExpr>| {
        a.name() == b.name()
            && are_same(&a.expressions(), &b.expressions())
            && are_same(a.partition_by(), b.partition_by())
            && a.order_by() == b.order_by()
            && a.get_window_frame() == b.get_window_frame()
            && format!("{a:?}") == format!("{b:?}")
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
}

fn are_same(a: &[Arc<dyn PhysicalExpr>], b: &[Arc<dyn PhysicalExpr>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
}

fn is_same_join(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some((a, b)) = both::<HashJoinExec>(a, b) {
        return a.on() == b.on()
            && is_same_filter(a.filter(), b.filter())
            && is_same_hash_join(a, b)
            && a.projection == b.projection;
    }
    if let Some((a, b)) = both::<NestedLoopJoinExec>(a, b) {
        return a.join_type() == b.join_type()
            && is_same_filter(a.filter(), b.filter())
            && a.projection() == b.projection();
    }
    if let Some((a, b)) = both::<SortMergeJoinExec>(a, b) {
        return a.on() == b.on()
            && is_same_filter(a.filter().as_ref(), b.filter().as_ref())
            && a.join_type() == b.join_type()
            && a.sort_options() == b.sort_options()
            && a.null_equality() == b.null_equality();
    }
    both::<CrossJoinExec>(a, b).is_some()
}

fn is_same_hash_join(a: &HashJoinExec, b: &HashJoinExec) -> bool {
    // Filters that joins make while they run are attached later.
    a.dynamic_expressions_produced().is_empty()
        && b.dynamic_expressions_produced().is_empty()
        && a.join_type() == b.join_type()
        && a.partition_mode() == b.partition_mode()
        && a.null_equality() == b.null_equality()
        && a.null_aware == b.null_aware
}

fn is_same_filter(a: Option<&JoinFilter>, b: Option<&JoinFilter>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            a.expression() == b.expression() && a.column_indices() == b.column_indices() && a.schema() == b.schema()
        }
        _ => false,
    }
}

fn is_same_exchange(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some((a, b)) = both::<RepartitionExec>(a, b) {
        let is_same = match (a.partitioning(), b.partitioning()) {
            (Partitioning::RoundRobinBatch(a), Partitioning::RoundRobinBatch(b)) => a == b,
            (Partitioning::Hash(a, m), Partitioning::Hash(b, n)) => are_same(a, b) && m == n,
            _ => false,
        };
        return is_same && a.preserve_order() == b.preserve_order();
    }
    if let Some((a, b)) = both::<SortPreservingMergeExec>(a, b) {
        return a.expr() == b.expr();
    }
    both::<CoalescePartitionsExec>(a, b).is_some()
        || both::<CooperativeExec>(a, b).is_some()
        || both::<UnorderedExec>(a, b).is_some()
        || both::<UnionExec>(a, b).is_some()
        || both::<InterleaveExec>(a, b).is_some()
}

fn is_same_source(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some((a, b)) = both::<DataSourceExec>(a, b) {
        if !is_alike_source_exec(a, b) {
            return false;
        }
        let (a, b) = (a.data_source(), b.data_source());
        if let Some((a, b)) = a.downcast_ref::<MemorySourceConfig>().zip(b.downcast_ref::<MemorySourceConfig>()) {
            return a.projection() == b.projection();
        }
        if let Some((a, b)) = a.downcast_ref::<TableSource>().zip(b.downcast_ref::<TableSource>()) {
            return a.columns() == b.columns();
        }
        let files = a.downcast_ref::<FileScanConfig>().zip(b.downcast_ref::<FileScanConfig>());
        return files.is_some_and(|(a, b)| a.file_source().projection() == b.file_source().projection());
    }
    both::<EmptyExec>(a, b).is_some() || both::<PlaceholderRowExec>(a, b).is_some()
}

fn is_alike_source(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    both::<DataSourceExec>(a, b).is_some_and(|(a, b)| is_alike_source_exec(a, b))
}

fn is_alike_source_unfiltered(a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
    both::<DataSourceExec>(a, b).is_some_and(|(a, b)| match files_of(a, b) {
        Some((a, b)) => are_same_files_unfiltered(a, b),
        None => is_alike_source_exec(a, b),
    })
}

/// Whether they give the same rows.
fn is_alike_source_exec(a: &DataSourceExec, b: &DataSourceExec) -> bool {
    let (a, b) = (a.data_source(), b.data_source());
    if let Some((a, b)) = a.downcast_ref::<MemorySourceConfig>().zip(b.downcast_ref::<MemorySourceConfig>()) {
        return is_same_memory(a, b);
    }
    if let Some((a, b)) = a.downcast_ref::<TableSource>().zip(b.downcast_ref::<TableSource>()) {
        return a.has_same_rows(b);
    }
    let files = a.downcast_ref::<FileScanConfig>().zip(b.downcast_ref::<FileScanConfig>());
    files.is_some_and(|(a, b)| are_same_files(a, b))
}

fn is_same_memory(a: &MemorySourceConfig, b: &MemorySourceConfig) -> bool {
    let are_same = |(a, b): (&RecordBatch, &RecordBatch)| {
        a.num_rows() == b.num_rows()
            && a.num_columns() == b.num_columns()
            && a.columns().iter().zip(b.columns()).all(|(a, b)| Arc::ptr_eq(a, b))
    };
    let is_same_partition =
        |(a, b): (&Vec<RecordBatch>, &Vec<RecordBatch>)| a.len() == b.len() && a.iter().zip(b).all(are_same);
    a.partitions().len() == b.partitions().len() && a.partitions().iter().zip(b.partitions()).all(is_same_partition)
}

fn are_same_files(a: &FileScanConfig, b: &FileScanConfig) -> bool {
    a.file_source().filter() == b.file_source().filter() && are_same_files_unfiltered(a, b)
}

/// Parquet alone: other formats have options that they do not show.
fn are_same_files_unfiltered(a: &FileScanConfig, b: &FileScanConfig) -> bool {
    let (a_source, b_source) = (a.file_source(), b.file_source());
    let Some((a_parquet, b_parquet)) =
        a_source.downcast_ref::<ParquetSource>().zip(b_source.downcast_ref::<ParquetSource>())
    else {
        return false;
    };
    // Most sources differ in their files.
    let groups = a.file_groups.iter().zip(&b.file_groups);
    let are_same_groups = a.file_groups.len() == b.file_groups.len()
        && groups
            .into_iter()
            .all(|(a, b)| a.len() == b.len() && a.files().iter().zip(b.files()).all(|(a, b)| is_same_file(a, b)));
    if !are_same_groups {
        return false;
    }
    let is_same_adapter = match (&a.expr_adapter_factory, &b.expr_adapter_factory) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    };
    let is_same_reader = match (a_parquet.parquet_file_reader_factory(), b_parquet.parquet_file_reader_factory()) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || (is_datafusions_reader(a) && is_datafusions_reader(b)),
        _ => false,
    };
    is_same_adapter
        && is_same_reader
        && a.object_store_url == b.object_store_url
        && a.limit == b.limit
        && a.preserve_order == b.preserve_order
        && a.batch_size == b.batch_size
        && a.file_compression_type == b.file_compression_type
        && a.output_ordering == b.output_ordering
        && a.output_partitioning == b.output_partitioning
        && a_source.table_schema().table_schema() == b_source.table_schema().table_schema()
        && a_source.table_schema().file_schema() == b_source.table_schema().file_schema()
        && a_parquet.table_parquet_options() == b_parquet.table_parquet_options()
}

/// Whether it is what each scan of a table gets from DataFusion: nothing but the store, which the URL names, and its
/// cache. The type is not to be had otherwise, and the rest of the text is as long as the cache.
pub fn is_datafusions_reader(reader: &Arc<dyn ParquetFileReaderFactory>) -> bool {
    const NAME: &str = "CachedParquetFileReaderFactory {";
    struct Prefix(String);
    impl fmt::Write for Prefix {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push_str(text);
            if self.0.len() < NAME.len() { Ok(()) } else { Err(fmt::Error) }
        }
    }
    let mut prefix = Prefix(String::new());
    // It is an error that the rest is not wanted.
    let _ = write!(prefix, "{reader:?}");
    prefix.0.starts_with(NAME)
}

fn is_same_file(a: &PartitionedFile, b: &PartitionedFile) -> bool {
    a.object_meta == b.object_meta
        && a.range == b.range
        && a.partition_values == b.partition_values
        && a.arrow_schema == b.arrow_schema
        // A plan of what to read of a file, for one.
        && a.extensions.is_empty()
        && b.extensions.is_empty()
}
