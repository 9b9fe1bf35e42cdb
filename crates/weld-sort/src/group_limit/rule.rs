//! Where a filter keeps the first rows of window partitions, and from where on they suffice.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_window::rank::Rank;
use datafusion::functions_window::row_number::RowNumber;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use weld_plans::{ExpectedRows, cannot_fail};

use super::{LIMIT_MAX, Limit, WindowGroupLimitExec, can_be_grouped};

/// The plan, with a [`WindowGroupLimitExec`] below each sort of all rows of which a filter keeps the first of each
/// window partition.
pub fn limit_window_groups(plan: Arc<dyn ExecutionPlan>, expected: &ExpectedRows) -> Result<Arc<dyn ExecutionPlan>> {
    let limited = plan.transform_down(|node| match limited(&node, expected)? {
        Some(limited) => Ok(Transformed::yes(limited)),
        None => Ok(Transformed::no(node)),
    });
    limited.data()
}

/// The filter over a limited window, if it limits one.
fn limited(plan: &Arc<dyn ExecutionPlan>, expected: &ExpectedRows) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(None) };
    // What a condition would fail for must not be dropped before.
    if !cannot_fail(filter.predicate(), Some(&filter.input().schema())) {
        return Ok(None);
    }
    for condition in split_conjunction(filter.predicate()) {
        if let Some((column, first)) = bound(condition)
            && let Some(input) = below(filter.input(), (column, first), expected)?
        {
            return Ok(Some(replace_children_if_necessary(Arc::clone(plan), vec![input])?));
        }
    }
    Ok(None)
}

/// A column that is at most a number, by a condition.
fn bound(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, usize)> {
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let (column, op, literal) = match binary.left().downcast_ref::<Column>() {
        Some(column) => (column, *binary.op(), binary.right()),
        None => (binary.right().downcast_ref::<Column>()?, binary.op().swap()?, binary.left()),
    };
    let ScalarValue::UInt64(Some(number)) = literal.downcast_ref::<Literal>()?.value() else { return None };
    let number = usize::try_from(*number).ok()?;
    let first = match op {
        Operator::Eq | Operator::LtEq => number,
        Operator::Lt => number.checked_sub(1)?,
        _ => return None,
    };
    (1..=LIMIT_MAX).contains(&first).then_some((column.index(), first))
}

/// The plan between a filter and a window that gives the column, over fewer rows.
fn below(
    plan: &Arc<dyn ExecutionPlan>,
    (column, first): (usize, usize),
    expected: &ExpectedRows,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (input, column) = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let schema = projection.input().schema();
        let exprs = projection.expr();
        let Some(moved) = exprs[column].expr.downcast_ref::<Column>() else { return Ok(None) };
        if !exprs.iter().all(|expr| cannot_fail(&expr.expr, Some(&schema))) {
            return Ok(None);
        }
        (projection.input(), moved.index())
    } else if let Some(exchange) = plan.downcast_ref::<RepartitionExec>() {
        (exchange.input(), column)
    } else {
        return window(plan, (column, first), expected);
    };
    let Some(input) = below(input, (column, first), expected)? else { return Ok(None) };
    Ok(Some(replace_children_if_necessary(Arc::clone(plan), vec![input])?))
}

/// A window over the first rows of its partitions, if the column is one of its numbers.
fn window(
    plan: &Arc<dyn ExecutionPlan>,
    (column, first): (usize, usize),
    expected: &ExpectedRows,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let windows = if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        window.window_expr()
    } else if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        window.window_expr()
    } else {
        return Ok(None);
    };
    let [input] = plan.children()[..] else { return Ok(None) };
    let columns = input.schema().fields().len();
    let Some(window) = column.checked_sub(columns).and_then(|number| windows.get(number)) else { return Ok(None) };
    // The others must not miss the rows that are dropped: numbers of the same partitions and order do not.
    let is_alike = |other: &Arc<dyn WindowExpr>| {
        other.partition_by() == window.partition_by() && other.order_by() == window.order_by()
    };
    if !windows.iter().all(|other| numbers(other).is_some() && is_alike(other)) {
        return Ok(None);
    }
    let Some(counts_ties_once) = numbers(window) else { return Ok(None) };
    let limit = Limit { first, counts_ties_once };
    let Some(limited) = below_sort(input, (window, limit), false, expected)? else { return Ok(None) };
    Ok(Some(replace_children_if_necessary(Arc::clone(plan), vec![limited])?))
}

/// Whether a window function that numbers rows gives those that tie one number, and the next to the next row.
fn numbers(window: &Arc<dyn WindowExpr>) -> Option<bool> {
    let standard = window.as_any().downcast_ref::<StandardWindowExpr>()?;
    let call = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?;
    let function = call.fun().inner();
    // Those that are one type have a name each.
    match function.name() {
        _ if function.is::<RowNumber>() => Some(false),
        "rank" if function.is::<Rank>() => Some(false),
        "dense_rank" if function.is::<Rank>() => Some(true),
        _ => None,
    }
}

/// The plan down to a sort, with a limit below it and what exchanges its input; `None` if nothing sorts.
fn below_sort(
    plan: &Arc<dyn ExecutionPlan>,
    (window, limit): (&Arc<dyn WindowExpr>, Limit),
    sorts: bool,
    expected: &ExpectedRows,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_sort = plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_none());
    let moves = plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>();
    let merges = plan.downcast_ref::<SortPreservingMergeExec>().is_some_and(|merge| merge.fetch().is_none());
    if is_sort || merges || (moves && plan.fetch().is_none()) {
        let [input] = plan.children()[..] else { return Ok(None) };
        let Some(input) = below_sort(input, (window, limit), sorts || is_sort, expected)? else { return Ok(None) };
        return Ok(Some(replace_children_if_necessary(Arc::clone(plan), vec![input])?));
    }
    if !sorts || plan.boundedness().is_unbounded() || !can_limit(plan, window) {
        return Ok(None);
    }
    Ok(Some(Arc::new(WindowGroupLimitExec::new(
        Arc::clone(plan),
        window.partition_by().to_vec(),
        window.order_by().to_vec(),
        limit,
        expected.of(plan),
    ))))
}

/// Whether rows are the same for the limit where they are for the window, and sort keys have an order here.
fn can_limit(input: &Arc<dyn ExecutionPlan>, window: &Arc<dyn WindowExpr>) -> bool {
    let schema = input.schema();
    let partitions = window.partition_by().iter();
    let has_groups = partitions.clone().all(|key| key.data_type(&schema).is_ok_and(|of| can_be_grouped(&of)));
    let has_order = |of: &Arc<dyn PhysicalExpr>| of.data_type(&schema).is_ok_and(|of| !of.is_nested());
    let keys = window.order_by().iter().map(|key| &key.expr);
    has_groups
        && !window.order_by().is_empty()
        && keys.clone().all(has_order)
        && !partitions.chain(keys).any(is_volatile)
}
