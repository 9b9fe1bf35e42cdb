//! Whether a plan gives each combination of some of its columns once at most: its groups do.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;

/// Whether no two rows of `plan` have the same values in the columns among `keys`.
pub(super) fn is_unique(plan: &Arc<dyn ExecutionPlan>, keys: &[Arc<dyn PhysicalExpr>]) -> bool {
    has_unique(plan, keys.iter().filter_map(column).collect())
}

fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    Some(expr.downcast_ref::<Column>()?.index())
}

fn has_unique(plan: &Arc<dyn ExecutionPlan>, columns: HashSet<usize>) -> bool {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let is_whole = !matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::PartialReduce);
        // The groups are the first columns.
        let groups = aggregate.group_expr();
        return is_whole && groups.is_single() && (0..groups.expr().len()).all(|group| columns.contains(&group));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = |index: usize| column(&projection.expr().get(index)?.expr);
        return has_unique(projection.input(), columns.into_iter().filter_map(below).collect());
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let kept = filter.projection().as_ref();
        let below = |index: usize| kept.map_or(Some(index), |kept| kept.get(index).copied());
        return has_unique(filter.input(), columns.into_iter().filter_map(below).collect());
    }
    let moves_rows =
        plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() || plan.is::<CooperativeExec>();
    moves_rows && plan.children().first().is_some_and(|input| has_unique(input, columns))
}
