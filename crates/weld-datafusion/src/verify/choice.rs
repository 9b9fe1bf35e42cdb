//! What a plan leaves open, so that two right results may differ: which rows a LIMIT takes, what ties look like to a
//! window function.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::compare::{self, Answer};

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

/// How far results of a plan may differ.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    /// Not at all.
    None,
    /// In which rows of a tie are there: a LIMIT at the top of the plan, over rows in this order.
    Ties(Option<LexOrdering>),
    /// In anything but the columns.
    Values,
}

impl Choice {
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Choice {
        let (below, limited) = below_limit(plan);
        if chooses(below) {
            return Choice::Values;
        }
        if limited { Choice::Ties(plan.output_ordering().cloned()) } else { Choice::None }
    }

    /// What is left of `difference` where the plan leaves a choice.
    pub(super) fn difference(self, expected: &Answer, found: &Answer, difference: String) -> Result<Option<String>> {
        match self {
            Choice::None => Ok(Some(difference)),
            Choice::Ties(ordering) => compare::keys_difference(expected, found, ordering.as_ref()),
            Choice::Values => Ok(compare::schema_difference(&expected.schema, &found.schema)),
        }
    }
}

/// The plan below the limits at its top, and whether there are any.
fn below_limit(plan: &Arc<dyn ExecutionPlan>) -> (&Arc<dyn ExecutionPlan>, bool) {
    let (mut node, mut limited) = (plan, false);
    loop {
        let moves = matches!(
            node.name(),
            "SortPreservingMergeExec"
                | "KeySortExec"
                | "SortExec"
                | "SortExec(TopK)"
                | "GlobalLimitExec"
                | "LocalLimitExec"
                | "CoalescePartitionsExec"
                | "CooperativeExec"
                | "ProjectionExec"
        );
        match node.children().as_slice() {
            [child] if moves => {
                limited |= limits(node);
                node = child;
            }
            _ => return (node, limited),
        }
    }
}

fn limits(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.fetch().is_some() || matches!(plan.name(), "GlobalLimitExec" | "LocalLimitExec")
}

/// Whether a plan's values depend on the order of rows that nothing orders.
fn chooses(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let here = match plan.downcast_ref::<AggregateExec>() {
        Some(aggregate) => aggregate.aggr_expr().iter().any(|call| depends_on_order(call.fun().name())),
        None => plan.name().contains("Window"),
    };
    here || limits(plan) || plan.children().into_iter().any(chooses)
}

fn depends_on_order(function: &str) -> bool {
    matches!(function, "first_value" | "last_value" | "nth_value" | "any_value" | "array_agg" | "string_agg")
}
