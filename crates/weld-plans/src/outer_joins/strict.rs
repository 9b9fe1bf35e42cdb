//! Null-rejecting expressions: the columns of which a NULL makes an expression NULL, or keeps a predicate from being
//! true.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, LikeExpr, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};

/// Columns by their positions.
pub(super) type Columns = BTreeSet<usize>;

/// The columns of which a NULL makes the expression NULL.
pub(super) fn strict_columns(expr: &Arc<dyn PhysicalExpr>) -> Columns {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Columns::from([column.index()]);
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let (left, right) = (strict_columns(binary.left()), strict_columns(binary.right()));
        return match binary.op() {
            // Either side may decide alone.
            Operator::And | Operator::Or => &left & &right,
            op if is_strict(*op) => &left | &right,
            _ => Columns::new(),
        };
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return &strict_columns(like.expr()) | &strict_columns(like.pattern());
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return if list.list().is_empty() { Columns::new() } else { strict_columns(list.expr()) };
    }
    let argument = expr
        .downcast_ref::<CastExpr>()
        .map(CastExpr::expr)
        .or_else(|| expr.downcast_ref::<TryCastExpr>().map(TryCastExpr::expr))
        .or_else(|| expr.downcast_ref::<NotExpr>().map(NotExpr::arg))
        .or_else(|| expr.downcast_ref::<NegativeExpr>().map(NegativeExpr::arg));
    argument.map(strict_columns).unwrap_or_default()
}

/// The columns of which a NULL keeps a predicate from being true.
pub(super) fn rejected_columns(predicate: &Arc<dyn PhysicalExpr>) -> Columns {
    let mut columns = Columns::new();
    for conjunct in split_conjunction(predicate) {
        columns.extend(match (conjunct.downcast_ref::<IsNotNullExpr>(), conjunct.downcast_ref::<BinaryExpr>()) {
            (Some(is_not_null), _) => strict_columns(is_not_null.arg()),
            (_, Some(either)) if *either.op() == Operator::Or => {
                &rejected_columns(either.left()) & &rejected_columns(either.right())
            }
            _ => strict_columns(conjunct),
        });
    }
    columns
}

fn is_strict(op: Operator) -> bool {
    use Operator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Modulo, Multiply, NotEq, Plus};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | Plus | Minus | Multiply | Divide | Modulo)
}
