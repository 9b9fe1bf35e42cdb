//! What may be done with an expression.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_plan::ExecutionPlan;

/// Whether the expression gives a value for every row: it may be evaluated for rows for which it was not before.
pub(crate) fn cannot_fail(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut safe = true;
    let visited = expr.apply(|node| {
        let node_is_safe = match node.downcast_ref::<BinaryExpr>() {
            Some(binary) => matches!(binary.op(), Operator::And | Operator::Or) || is_comparison(*binary.op()),
            None => {
                node.is::<Column>()
                    || node.is::<Literal>()
                    || node.is::<NotExpr>()
                    || node.is::<IsNullExpr>()
                    || node.is::<IsNotNullExpr>()
                    || node.is::<InListExpr>()
                    || node.is::<LikeExpr>()
                    || node.is::<DynamicFilterPhysicalExpr>()
            }
        };
        safe &= node_is_safe;
        Ok(if safe { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    visited.is_ok() && safe
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Whether all expressions of a node satisfy `is_so`.
pub(crate) fn all_exprs(plan: &dyn ExecutionPlan, is_so: impl Fn(&Arc<dyn PhysicalExpr>) -> bool) -> bool {
    let mut all = true;
    let visited = plan.apply_expressions(&mut |expr| {
        all &= is_so(expr);
        Ok(if all { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    visited.is_ok() && all
}

/// Whether it gives another value each time that it is evaluated.
pub(crate) fn is_volatile(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut volatile = false;
    let visited = expr.apply(|node| {
        volatile |= node.is_volatile_node();
        Ok(if volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.is_err() || volatile
}
