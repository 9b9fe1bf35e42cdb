//! Casts of keys between joins, computed where their columns come from.
//!
//! ```text
//! (a JOIN b ON ..) JOIN c ON CAST(b.x AS BIGINT) = c.y
//! Projection: .., CAST(b.x AS BIGINT) above a ⋈ b            ->   above b
//! ```
//!
//! Keys of two types are compared by a cast, which DataFusion computes above all that was joined before: joins below it
//! and above it would be two graphs.

use std::sync::Arc;

use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::graph::is_ordered_join;
use crate::expr::cannot_fail;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// The plan with the casts of projections between its joins below them; `None` if there are none.
pub(super) fn with_casts_below_joins(plan: &Plan) -> Result<Option<Plan>> {
    let sunk = sunk(Arc::clone(plan), false)?;
    Ok((!Arc::ptr_eq(&sunk, plan)).then_some(sunk))
}

/// What is above all joins is not computed below them.
fn sunk(plan: Plan, is_below_join: bool) -> Result<Plan> {
    let is_join = is_join(&plan);
    if !is_join && !plan.is::<ProjectionExec>() && !plan.is::<FilterExec>() {
        return Ok(plan);
    }
    let children = plan.children().into_iter().map(|child| sunk(Arc::clone(child), is_below_join || is_join));
    let children = children.collect::<Result<Vec<_>>>()?;
    let plan = replace_children_if_necessary(plan, children)?;
    Ok(match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) if is_below_join => without_casts(projection)?.unwrap_or(plan),
        _ => plan,
    })
}

fn is_join(plan: &Plan) -> bool {
    plan.downcast_ref::<HashJoinExec>().is_some_and(|join| is_ordered_join(join, true))
}

/// The projection with its casts computed below the join that it is above.
fn without_casts(projection: &ProjectionExec) -> Result<Option<Plan>> {
    let schema = projection.input().schema();
    let is_cast = |expr: &Expr| expr.downcast_ref::<CastExpr>().is_some_and(|cast| cast.expr().is::<Column>());
    let exprs = || projection.expr().iter().map(|projected| &projected.expr);
    let is_simple = |expr: &Expr| expr.is::<Column>() || (is_cast(expr) && cannot_fail(expr, Some(&schema)));
    if !exprs().any(is_cast) || !exprs().all(is_simple) || !is_above_join(projection.input()) {
        return Ok(None);
    }
    let mut input = Arc::clone(projection.input());
    let mut columns = Vec::new();
    for projected in projection.expr() {
        columns.push(match projected.expr.downcast_ref::<CastExpr>() {
            Some(cast) => {
                input = with_cast(&input, cast, &projected.alias)?;
                last_column(&input, &projected.alias)
            }
            None => projected.clone(),
        });
    }
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, input)?)))
}

fn is_above_join(plan: &Plan) -> bool {
    is_join(plan)
        || plan.downcast_ref::<FilterExec>().is_some_and(|filter| is_above_join(filter.input()))
        || plan.downcast_ref::<ProjectionExec>().is_some_and(|projection| is_above_join(projection.input()))
}

/// The plan with the cast of one of its columns as another column, the last.
fn with_cast(plan: &Plan, cast: &CastExpr, alias: &str) -> Result<Plan> {
    let of = cast.expr().downcast_ref::<Column>().map(Column::index);
    let width = plan.schema().fields().len();
    // The same of another column.
    let moved = |column: &Column| CastExpr::new(Arc::new(column.clone()), cast.cast_type().clone(), None);
    if let (Some(projection), Some(of)) = (plan.downcast_ref::<ProjectionExec>(), of)
        && let Some(column) = projection.expr()[of].expr.downcast_ref::<Column>()
    {
        let input = with_cast(projection.input(), &moved(column), alias)?;
        let mut exprs = projection.expr().to_vec();
        exprs.push(last_column(&input, alias));
        return Ok(Arc::new(ProjectionExec::try_new(exprs, input)?));
    }
    if let (Some(filter), Some(of)) = (plan.downcast_ref::<FilterExec>(), of)
        && filter.fetch().is_none()
    {
        let kept: Vec<usize> = match filter.projection().as_deref() {
            Some(kept) => kept.to_vec(),
            None => (0..width).collect(),
        };
        let below = filter.input().schema();
        let input = with_cast(filter.input(), &moved(&Column::new(below.field(kept[of]).name(), kept[of])), alias)?;
        let kept = kept.into_iter().chain([below.fields().len()]).collect();
        let filter = FilterExecBuilder::new(Arc::clone(filter.predicate()), input).apply_projection(Some(kept))?;
        return Ok(Arc::new(filter.build()?));
    }
    if let (Some(join), Some(of), true) = (plan.downcast_ref::<HashJoinExec>(), of, is_join(plan)) {
        return join_with_cast(join, of, &moved, alias);
    }
    let schema = plan.schema();
    let all = schema.fields().iter().enumerate().map(|(index, field)| ProjectionExpr {
        expr: Arc::new(Column::new(field.name(), index)),
        alias: field.name().clone(),
    });
    let mut exprs: Vec<ProjectionExpr> = all.collect();
    exprs.push(ProjectionExpr { expr: Arc::new(cast.clone()), alias: alias.to_owned() });
    Ok(Arc::new(ProjectionExec::try_new(exprs, Arc::clone(plan))?))
}

fn last_column(plan: &Plan, alias: &str) -> ProjectionExpr {
    let last = plan.schema().fields().len() - 1;
    ProjectionExpr { expr: Arc::new(Column::new(plan.schema().field(last).name(), last)), alias: alias.to_owned() }
}

fn join_with_cast(join: &HashJoinExec, of: usize, moved: &dyn Fn(&Column) -> CastExpr, alias: &str) -> Result<Plan> {
    let (left, right) = (join.left().schema().fields().len(), join.right().schema().fields().len());
    let (has_left, has_right) = match join.join_type() {
        JoinType::LeftSemi | JoinType::LeftAnti => (true, false),
        JoinType::RightSemi | JoinType::RightAnti => (false, true),
        _ => (true, true),
    };
    let (left_width, right_width) = (if has_left { left } else { 0 }, if has_right { right } else { 0 });
    let kept: Vec<usize> = match join.projection.as_deref() {
        Some(kept) => kept.to_vec(),
        None => (0..left_width + right_width).collect(),
    };
    let is_left = kept[of] < left_width;
    let (side, index) = if is_left { (join.left(), kept[of]) } else { (join.right(), kept[of] - left_width) };
    let column = Column::new(side.schema().field(index).name(), index);
    let side = with_cast(side, &moved(&column), alias)?;
    let (new_left, new_right, added) = match is_left {
        true => (side, Arc::clone(join.right()), left_width),
        false => (Arc::clone(join.left()), side, left_width + right_width),
    };
    // Columns of the right side stand behind those of the left one.
    let place = |column: usize| if is_left && column >= left_width { column + 1 } else { column };
    let kept = kept.into_iter().map(place).chain([added]).collect();
    HashJoinExecBuilder::new(new_left, new_right, join.on().to_vec(), *join.join_type())
        .with_filter(join.filter().cloned())
        .with_partition_mode(*join.partition_mode())
        .with_null_equality(join.null_equality())
        .with_projection(Some(kept))
        .build_exec()
}
