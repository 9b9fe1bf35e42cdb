//! What a plan leaves open, so that two right results may differ: which rows a LIMIT takes, what ties look like to a
//! window function.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateOutputMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::ties::{depends_on_ties, found_ties, windows};
use crate::compare::{self, Answer, ErrorClass, error_class};

/// Why two runs of a plan cannot be compared at all.
pub(super) fn not_comparable(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<&'static str>> {
    if plan.boundedness().is_unbounded() {
        return Ok(Some("its input has no end"));
    }
    let mut volatile = false;
    plan.apply(|node| {
        node.apply_expressions(&mut |expr| {
            // The filters that joins and sorts feed say that they are, since they change while the plan runs.
            volatile |= expr.exists(|part| Ok(part.is_volatile_node() && !part.is::<DynamicFilterPhysicalExpr>()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(volatile.then_some("a volatile function gives something else each time"))
}

/// Whether a plan fails because of a value in rows that its sources drop elsewhere, by filters that operators make
/// while they run: after a reset the operators have other filters than the sources.
pub(super) fn may_read_more(plan: &Arc<dyn ExecutionPlan>, error: &DataFusionError) -> Result<bool> {
    let is_of_a_value =
        matches!(error_class(error), ErrorClass::DivisionByZero | ErrorClass::Overflow | ErrorClass::Cast);
    if !is_of_a_value {
        return Ok(false);
    }
    plan.exists(|node| {
        let mut drops = false;
        node.apply_expressions(&mut |expr| {
            drops |= expr.exists(|part| Ok(part.is::<DynamicFilterPhysicalExpr>()))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(drops && node.children().is_empty())
    })
}

/// Whether DataFusion takes the first rows by lists, structs or maps: it drops some that belong to them, depending on
/// where batches begin, since it compares nulls within them otherwise than it sorts them.
fn drops_first_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let sort = plan.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_some());
    let is_nested = |key: &PhysicalSortExpr| key.expr.data_type(&plan.schema()).is_ok_and(|key| key.is_nested());
    sort.is_some_and(|sort| sort.expr().iter().any(is_nested)) || plan.children().into_iter().any(drops_first_rows)
}

/// How far results of a plan may differ.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Choice {
    /// Not at all.
    None,
    /// In which rows of a tie are there: a LIMIT at the top of the plan, over rows in this order.
    Ties(Option<LexOrdering>),
    /// In all but these columns: what a window function makes of ties.
    AllBut(Vec<usize>),
    /// In anything but the columns.
    Values,
}

impl Choice {
    /// Of a plan that has been executed.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Choice {
        if drops_first_rows(plan) {
            return Choice::Values;
        }
        let (below, limited) = below_limit(plan);
        // The operators above keep the columns of a plan without limits, as far as they are decided.
        match (decided(if limited { below } else { plan }), limited) {
            (Decided::All, false) => Choice::None,
            (Decided::All, true) => Choice::Ties(plan.output_ordering().cloned()),
            (Decided::Columns(columns), false) => Choice::AllBut(columns),
            _ => Choice::Values,
        }
    }

    /// What is left of `difference` where the plan leaves a choice.
    pub(super) fn difference(self, expected: &Answer, found: &Answer, difference: String) -> Result<Option<String>> {
        match self {
            Choice::None => Ok(Some(difference)),
            Choice::Ties(ordering) => compare::keys_difference(expected, found, ordering.as_ref()),
            Choice::AllBut(columns) => match compare::schema_difference(&expected.schema, &found.schema) {
                None => compare::difference(&only(expected, &columns)?, &only(found, &columns)?),
                difference => Ok(difference),
            },
            Choice::Values => Ok(compare::schema_difference(&expected.schema, &found.schema)),
        }
    }
}

fn only(answer: &Answer, columns: &[usize]) -> Result<Answer> {
    let batches = answer.batches.iter().map(|batch| batch.project(columns)).collect::<Result<_, _>>()?;
    Ok(Answer { schema: Arc::new(answer.schema.project(columns)?), batches, ordering: None })
}

/// The plan below the limits at its top, and whether there are any.
fn below_limit(plan: &Arc<dyn ExecutionPlan>) -> (&Arc<dyn ExecutionPlan>, bool) {
    let (mut node, mut limited) = (plan, false);
    loop {
        match node.children().as_slice() {
            [child] if keeps_rows(node) || limits(node) || node.is::<ProjectionExec>() => {
                limited |= limits(node);
                node = child;
            }
            _ => return (node, limited),
        }
    }
}

/// Whether a plan's rows are those of its input, in whatever order, as far as it has no limit.
fn keeps_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    matches!(
        plan.name(),
        "SortPreservingMergeExec"
            | "KeySortExec"
            | "SortExec"
            | "SortExec(TopK)"
            | "CoalescePartitionsExec"
            | "RepartitionExec"
            | "CooperativeExec"
            | "TieWatchExec"
    )
}

fn limits(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.fetch().is_some() || matches!(plan.name(), "GlobalLimitExec" | "LocalLimitExec" | "PartitionedTopKExec")
}

/// What of a plan's rows does not depend on the order of rows that nothing orders.
enum Decided {
    All,
    /// Which rows there are, and their values in these columns.
    Columns(Vec<usize>),
    Nothing,
}

fn decided(plan: &Arc<dyn ExecutionPlan>) -> Decided {
    if limits(plan) {
        return Decided::Nothing;
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return match decided(below_partial(aggregate).unwrap_or(aggregate.input())) {
            Decided::All => of_groups(aggregate),
            _ => Decided::Nothing,
        };
    }
    let inputs: Vec<Decided> = plan.children().into_iter().map(decided).collect();
    let all = inputs.iter().all(|input| matches!(input, Decided::All));
    let columns = match inputs.as_slice() {
        [Decided::Columns(columns)] => Some(columns.clone()),
        [Decided::All] => plan.children().first().map(|input| (0..input.schema().fields().len()).collect()),
        _ => None,
    };
    if let (Some(windows), Some(columns)) = (windows(plan), &columns) {
        return of_windows(plan, windows, columns);
    }
    if all {
        return Decided::All;
    }
    let Some(columns) = columns else { return Decided::Nothing };
    let reads_decided = |expr: &Arc<dyn PhysicalExpr>| reads_only(expr, &columns);
    if keeps_rows(plan) {
        return Decided::Columns(columns);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let exprs = projection.expr().iter().map(|shown| &shown.expr);
        return Decided::Columns(positions(exprs.map(reads_decided)));
    }
    match plan.downcast_ref::<FilterExec>() {
        Some(filter) if reads_decided(filter.predicate()) => Decided::Columns(match filter.projection() {
            Some(kept) => positions(kept.iter().map(|column| columns.contains(column))),
            None => columns,
        }),
        _ => Decided::Nothing,
    }
}

/// The input of the partial aggregate below a final one.
fn below_partial(aggregate: &AggregateExec) -> Option<&Arc<dyn ExecutionPlan>> {
    let mut node = aggregate.input();
    while keeps_rows(node) {
        node = node.children().first().copied()?;
    }
    let partial =
        node.downcast_ref::<AggregateExec>().filter(|below| below.mode().output_mode() == AggregateOutputMode::Partial);
    partial.filter(|_| aggregate.mode().input_mode() == AggregateInputMode::Partial).map(AggregateExec::input)
}

/// An aggregate over rows that are decided.
fn of_groups(aggregate: &AggregateExec) -> Decided {
    let calls = aggregate.aggr_expr();
    if !calls.iter().any(|call| takes_any_row(call)) {
        return Decided::All;
    }
    // Columns of states are not those of the calls.
    if aggregate.mode().output_mode() == AggregateOutputMode::Partial {
        return Decided::Nothing;
    }
    let groups = aggregate.schema().fields().len() - calls.len();
    let made = positions(calls.iter().map(|call| !takes_any_row(call))).into_iter().map(|index| groups + index);
    Decided::Columns((0..groups).chain(made).collect())
}

/// A window operator over an input of which `columns` are decided.
fn of_windows(plan: &Arc<dyn ExecutionPlan>, windows: &[Arc<dyn WindowExpr>], columns: &[usize]) -> Decided {
    let ties = found_ties(plan);
    let first = plan.schema().fields().len() - windows.len();
    let decided = |window: &Arc<dyn WindowExpr>| {
        let exprs = window.all_expressions();
        let mut read = exprs.args.iter().chain(&exprs.partition_by_exprs).chain(&exprs.order_by_exprs);
        let reads_decided = read.all(|expr| reads_only(expr, columns)) && (columns.len() == first || !filters(window));
        reads_decided && !(ties && depends_on_ties(window.as_ref()))
    };
    let made = positions(windows.iter().map(decided)).into_iter().map(|index| first + index);
    let columns: Vec<usize> = columns.iter().copied().chain(made).collect();
    if columns.len() == plan.schema().fields().len() { Decided::All } else { Decided::Columns(columns) }
}

/// Whether a window function has a FILTER, to which DataFusion gives no access but prints it.
fn filters(window: &Arc<dyn WindowExpr>) -> bool {
    format!("{window:?}").contains("filter: Some(")
}

fn positions(which: impl Iterator<Item = bool>) -> Vec<usize> {
    which.enumerate().filter_map(|(index, yes)| yes.then_some(index)).collect()
}

fn reads_only(expr: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> bool {
    collect_columns(expr).iter().all(|column| columns.contains(&column.index()))
}

/// Whether an aggregate depends on the order of rows, which its own ORDER BY does not decide.
fn takes_any_row(call: &AggregateFunctionExpr) -> bool {
    let is_ordered = |arg: &Arc<dyn PhysicalExpr>| {
        arg.is::<Literal>() || call.order_bys().iter().any(|key| key.expr.as_ref() == arg.as_ref())
    };
    let name = call.fun().name();
    merges_digests(name) || cancels(name) || (depends_on_order(name) && !call.expressions().iter().all(is_ordered))
}

pub(super) fn depends_on_order(function: &str) -> bool {
    matches!(function, "first_value" | "last_value" | "nth_value" | "any_value" | "array_agg" | "string_agg")
}

/// Whether the order in which partitions end shows: digests of percentiles that are merged in another one are others.
fn merges_digests(function: &str) -> bool {
    matches!(function, "approx_median" | "approx_percentile_cont" | "approx_percentile_cont_with_weight")
}

/// Whether sums of it cancel out, of which the order of rows changes more than the last digits: the correlation of
/// independent columns of five million rows, -0.00043, by 4e-9 of it.
fn cancels(function: &str) -> bool {
    function == "corr" || function.starts_with("covar_") || function.starts_with("regr_")
}
