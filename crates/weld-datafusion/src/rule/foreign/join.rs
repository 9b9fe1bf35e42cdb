//! Conditions of joins: what has no lowering in them is evaluated below the side of which it reads columns.
//!
//! ```text
//! HashJoinExec: on=[(k, k)], filter=a <> upper(s)      HashJoinExec: on=[(k, k)], filter=a <> upper(s)@2, projection=[..]
//!   left                                                 left
//!   right                                                EvaluateExec: evaluated by DataFusion: upper(s)
//!                                                          right
//! ```
//! There it is evaluated for rows without a partner as well, so only what cannot fail is.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use weld_plans::kept_columns;

use super::{EvaluateExec, Made};
use crate::lower::foreign::{Foreign, lowers, may_fail};
use crate::lower::size;

pub(super) fn below_hash_join(join: &HashJoinExec) -> Made {
    let Some(filter) = join.filter() else { return Ok(None) };
    let Some(apart) = Apart::of(filter, [join.left(), join.right()])? else { return Ok(None) };
    let [left, right] = apart.inputs()?;
    let before = [join.left(), join.right()];
    let kept = kept_columns(*join.join_type(), join.projection.as_deref(), before, [&left, &right]);
    let made = join.builder().with_new_children(vec![left, right])?.with_filter(Some(apart.filter));
    kept.map(|kept| made.with_projection(Some(kept)).build_exec()).transpose()
}

pub(super) fn below_nested_loop_join(join: &NestedLoopJoinExec) -> Made {
    let Some(filter) = join.filter() else { return Ok(None) };
    let Some(apart) = Apart::of(filter, [join.left(), join.right()])? else { return Ok(None) };
    let [left, right] = apart.inputs()?;
    let before = [join.left(), join.right()];
    let kept = kept_columns(*join.join_type(), join.projection().as_deref(), before, [&left, &right]);
    let Some(kept) = kept else { return Ok(None) };
    let made = NestedLoopJoinExec::try_new(left, right, Some(apart.filter), join.join_type(), Some(kept))?;
    Ok(Some(Arc::new(made)))
}

/// A condition that lowers, over inputs with what does not.
struct Apart {
    left: Side,
    right: Side,
    filter: JoinFilter,
}

/// One input of a join, and what is evaluated below the join for each of its rows.
struct Side {
    input: Arc<dyn ExecutionPlan>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
}

impl Apart {
    fn of(filter: &JoinFilter, [left, right]: [&Arc<dyn ExecutionPlan>; 2]) -> Result<Option<Apart>> {
        let (schema, expr) = (filter.schema(), filter.expression());
        if size::check([expr]).is_err() || lowers(schema, expr).is_ok() {
            return Ok(None);
        }
        let mut foreign = Foreign::new(schema);
        let conjuncts = split_conjunction(expr).into_iter().map(|conjunct| foreign.take(conjunct));
        let Ok(conjuncts) = conjuncts.collect::<Result<Vec<_>, _>>() else { return Ok(None) };
        if foreign.exprs().iter().any(|expr| may_fail(schema, expr) || is_volatile(expr)) {
            return Ok(None);
        }
        let side = |input: &Arc<dyn ExecutionPlan>| Side { input: Arc::clone(input), exprs: Vec::new() };
        let (mut left, mut right) = (side(left), side(right));
        let mut columns = filter.column_indices().to_vec();
        for expr in foreign.exprs() {
            let Some(read) = side_of(expr, filter) else { return Ok(None) };
            let side = match read {
                JoinSide::Left => &mut left,
                JoinSide::Right => &mut right,
                JoinSide::None => return Ok(None),
            };
            columns.push(ColumnIndex { index: side.columns() + side.exprs.len(), side: read });
            side.exprs.push(over_input(expr, filter)?);
        }
        let filter = JoinFilter::new(conjunction(conjuncts), columns, Arc::new(foreign.schema().clone()));
        Ok(Some(Apart { left, right, filter }))
    }

    fn inputs(&self) -> Result<[Arc<dyn ExecutionPlan>; 2]> {
        Ok([self.left.evaluated()?, self.right.evaluated()?])
    }
}

impl Side {
    fn columns(&self) -> usize {
        self.input.schema().fields().len()
    }

    fn evaluated(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let input = Arc::clone(&self.input);
        if self.exprs.is_empty() { Ok(input) } else { EvaluateExec::over(input, &self.exprs) }
    }
}

/// The one side of which the expression reads columns.
fn side_of(expr: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Option<JoinSide> {
    let mut sides = collect_columns(expr).into_iter().map(|column| filter.column_indices()[column.index()].side);
    let first = sides.next()?;
    sides.all(|side| side == first).then_some(first)
}

/// The same over the rows of its side.
fn over_input(expr: &Arc<dyn PhysicalExpr>, filter: &JoinFilter) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = |expr: Arc<dyn PhysicalExpr>| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let index = filter.column_indices()[column.index()].index;
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as _))
    };
    Arc::clone(expr).transform_up(moved).data()
}
