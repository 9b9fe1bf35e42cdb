//! Whether the rows that a window function numbers, or looks back at, have an order.
//!
//! `row_number() OVER (ORDER BY a)` gives one answer where no two rows have the same `a`, and many where some do. Only
//! the rows can tell: [`TieWatchExec`] passes them on to stock DataFusion's window operator and notes whether two that
//! follow each other have the same keys and are not the same in all columns.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::WindowFrameUnits;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties};
use futures::StreamExt;

use super::choice::depends_on_order;

/// The window functions of a plan, if it is a window operator of DataFusion's.
pub(super) fn windows(plan: &Arc<dyn ExecutionPlan>) -> Option<&[Arc<dyn WindowExpr>]> {
    match plan.downcast_ref::<WindowAggExec>() {
        Some(exec) => Some(exec.window_expr()),
        None => plan.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr),
    }
}

/// The plan with its windows' inputs watched.
pub(super) fn watched(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(watch) = watch(&node) else { return Ok(Transformed::no(node)) };
        Ok(Transformed::yes(replace_children_if_necessary(node, vec![Arc::new(watch)])?))
    })
    .data()
}

fn watch(plan: &Arc<dyn ExecutionPlan>) -> Option<TieWatchExec> {
    let windows = windows(plan)?;
    let [input] = plan.children()[..] else { return None };
    let dependent = windows.iter().find(|window| depends_on_ties(window.as_ref()))?;
    // Rows of other window partitions stand between those of one, where the input is in order of the values alone.
    let is_sorted =
        plan.downcast_ref::<BoundedWindowAggExec>().is_none_or(|exec| exec.input_order_mode == InputOrderMode::Sorted);
    let partition_by = if is_sorted { dependent.partition_by() } else { &[] };
    let order_by = dependent.order_by().iter().map(|key| &key.expr);
    let keys = partition_by.iter().chain(order_by).cloned().collect();
    Some(TieWatchExec { input: Arc::clone(input), keys, found: Arc::default() })
}

/// Window functions that give all peers one result, which does not depend on what else is in their rows.
const OF_PEERS: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];

/// Whether a function's results may change when rows with the same keys change places.
pub(super) fn depends_on_ties(window: &dyn WindowExpr) -> bool {
    let expr = window.as_any();
    if let Some(standard) = expr.downcast_ref::<StandardWindowExpr>() {
        let call = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>();
        return call.is_none_or(|call| !OF_PEERS.contains(&call.fun().name()));
    }
    let aggregate = if let Some(window) = expr.downcast_ref::<PlainAggregateWindowExpr>() {
        window.get_aggregate_expr()
    } else if let Some(window) = expr.downcast_ref::<SlidingAggregateWindowExpr>() {
        window.get_aggregate_expr()
    } else {
        return true;
    };
    let frame = window.get_window_frame();
    let is_partition = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
    let cuts_peers = frame.units == WindowFrameUnits::Rows && !is_partition;
    cuts_peers || depends_on_order(aggregate.fun().name())
}

/// Whether the rows that `plan`, a window operator, has read left open what its functions give.
pub(super) fn found_ties(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let [input] = plan.children()[..] else { return true };
    input.downcast_ref::<TieWatchExec>().is_none_or(|watch| watch.found.load(Ordering::Relaxed))
}

/// Before another run.
pub(super) fn forget_ties(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    plan.apply(|node| {
        if let Some(watch) = node.downcast_ref::<TieWatchExec>() {
            watch.found.store(false, Ordering::Relaxed);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Gives the rows of `input` as they are.
#[derive(Debug)]
struct TieWatchExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// Of all partitions, and of all copies of the plan.
    found: Arc<AtomicBool>,
}

/// The last row that was seen: its keys, and all of its columns.
type Seen = Option<(Option<OwnedRow>, OwnedRow)>;

impl TieWatchExec {
    const NAME: &str = "TieWatchExec";
}

/// Whether two rows of `batch`, or its first one and the one before it, tie. Rows that cannot be compared do.
fn ties(keys: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch, last: &mut Seen) -> Result<bool> {
    let values =
        keys.iter().map(|key| key.evaluate(batch)?.into_array(batch.num_rows())).collect::<Result<Vec<_>>>()?;
    let Some(rows) = encoded(batch.columns())? else { return Ok(true) };
    let keys = encoded(&values)?;
    if keys.is_none() && !values.is_empty() {
        return Ok(true);
    }
    let key = |row: usize| keys.as_ref().map(|keys| keys.row(row));
    for row in 0..rows.num_rows() {
        let ties = match (row, last.as_ref()) {
            (0, None) => false,
            (0, Some((last_key, last))) => last_key.as_ref().map(OwnedRow::row) == key(0) && last.row() != rows.row(0),
            _ => key(row - 1) == key(row) && rows.row(row - 1) != rows.row(row),
        };
        if ties {
            return Ok(true);
        }
    }
    if let Some(row) = rows.num_rows().checked_sub(1) {
        *last = Some((key(row).map(|key| key.owned()), rows.row(row).owned()));
    }
    Ok(false)
}

fn encoded(columns: &[ArrayRef]) -> Result<Option<arrow::row::Rows>> {
    let fields: Vec<SortField> = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    if columns.is_empty() || !RowConverter::supports_fields(&fields) {
        return Ok(None);
    }
    Ok(Some(RowConverter::new(fields)?.convert_columns(columns)?))
}

impl DisplayAs for TieWatchExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAME)
    }
}

impl ExecutionPlan for TieWatchExec {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    weld_plans::rows_in_order!();

    weld_plans::no_expressions!();

    weld_plans::one_input!(input, |node, input| {
        TieWatchExec { input, keys: node.keys.clone(), found: Arc::clone(&node.found) }
    });

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let (keys, found, mut last) = (self.keys.clone(), Arc::clone(&self.found), None);
        let rows = input.map(move |batch| {
            let batch = batch?;
            if !found.load(Ordering::Relaxed) && ties(&keys, &batch, &mut last)? {
                found.store(true, Ordering::Relaxed);
            }
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), rows)))
    }
}
