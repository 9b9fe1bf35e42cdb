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
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};

use super::{EvaluateExec, Made};
use crate::lower::foreign::{Foreign, lowers, may_fail};
use crate::lower::size;

pub(super) fn below_hash_join(join: &HashJoinExec) -> Made {
    let Some(filter) = join.filter() else { return Ok(None) };
    let Some(apart) = Apart::of(filter, [join.left(), join.right()])? else { return Ok(None) };
    let kept = apart.kept(*join.join_type(), join.projection.as_deref());
    let made = join.builder().with_new_children(apart.inputs()?)?.with_filter(Some(apart.filter));
    Ok(Some(made.with_projection(Some(kept)).build_exec()?))
}

pub(super) fn below_nested_loop_join(join: &NestedLoopJoinExec) -> Made {
    let Some(filter) = join.filter() else { return Ok(None) };
    let Some(apart) = Apart::of(filter, [join.left(), join.right()])? else { return Ok(None) };
    let kept = apart.kept(*join.join_type(), join.projection().as_deref());
    let mut inputs = apart.inputs()?.into_iter();
    let (Some(left), Some(right)) = (inputs.next(), inputs.next()) else { return Ok(None) };
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

    fn inputs(&self) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        [&self.left, &self.right].into_iter().map(Side::evaluated).collect()
    }

    /// Where the columns of the join are among those of the join over the new inputs.
    fn kept(&self, join_type: JoinType, projection: Option<&[usize]>) -> Vec<usize> {
        let columns = build_join_schema(&self.left.input.schema(), &self.right.input.schema(), &join_type).1;
        let moved = |column: usize| match (&columns[column].side, join_type) {
            (JoinSide::Left, _)
            | (JoinSide::Right, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark) => column,
            (JoinSide::Right, _) | (JoinSide::None, JoinType::LeftMark) => column + self.left.exprs.len(),
            (JoinSide::None, _) => column + self.right.exprs.len(),
        };
        match projection {
            Some(projection) => projection.iter().map(|column| moved(*column)).collect(),
            None => (0..columns.len()).map(moved).collect(),
        }
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
