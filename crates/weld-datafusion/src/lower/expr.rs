//! Physical expressions as Weld expressions over the columns of one row.
//!
//! `l_extendedprice * (1 - l_discount)` over decimals becomes `checked_mul(r.$0, checked_sub(100ll, r.$1))`; the
//! scales are in the types. Nulls are three-valued as in SQL; what can fail is not evaluated for nulls.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal as PhysicalLiteral, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_core::ir::{Expr, ExprKind, build as ir, deep};
use weld_core::op::{BinaryOp, Intrinsic};
use weld_core::opt::{self, Constant};
use weld_core::ty::{ScalarKind, Type};

use super::cast::lower_cast;
use super::decimal::decimal_arithmetic;
use super::logic::{invert, lower_case, lower_in_list, lower_logic};
use super::types::{is_string, value_type};
use super::{Block, Result, Sql, Unsupported, function, interval, lists, text};

/// What expressions refer to: the operator's input schema and one row's columns.
pub(crate) struct Scope<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) columns: &'a [Option<Sql>],
}

/// The value of `expr` for the row in `scope`.
pub(crate) fn lower(block: &mut Block<'_>, scope: &Scope<'_>, expr: &Arc<dyn PhysicalExpr>) -> Result<Sql> {
    // Without optimisation a level of an expression takes tens of kilobytes.
    deep(|| lower_here(block, scope, expr))
}

fn lower_here(block: &mut Block<'_>, scope: &Scope<'_>, expr: &Arc<dyn PhysicalExpr>) -> Result<Sql> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        value_type(&data_type(scope, expr.as_ref())?)?;
        let sql = scope.columns.get(column.index()).cloned().flatten().map(lists::read);
        return sql.ok_or_else(|| Unsupported::new(expr, "the column is not among the input's"));
    }
    if let Some(literal) = expr.downcast_ref::<PhysicalLiteral>() {
        return lower_literal(literal.value());
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return match text::Search::of(expr) {
            Some(search) => search.lower(block, scope),
            None => lower_binary(block, scope, binary),
        };
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        let arg = lower(block, scope, not.arg())?;
        return Ok(invert(block, arg));
    }
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        let arg = lower_nullable(block, scope, is_null.arg())?;
        return Ok(Sql::required(block.validity(arg).map_or(ir::bool(false), ir::not)));
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        let arg = lower_nullable(block, scope, is_not_null.arg())?;
        return Ok(Sql::required(block.validity(arg).unwrap_or_else(|| ir::bool(true))));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = data_type(scope, cast.expr().as_ref())?;
        let arg = lower(block, scope, cast.expr())?;
        return lower_cast(block, arg, &from, cast.cast_type(), cast.cast_options().safe);
    }
    if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
        let from = data_type(scope, cast.expr().as_ref())?;
        let arg = lower(block, scope, cast.expr())?;
        return lower_cast(block, arg, &from, cast.cast_type(), true);
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        return lower_case(block, scope, case);
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return lower_in_list(block, scope, list);
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return text::lower_like(block, scope, like);
    }
    if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
        let arg = lower(block, scope, negative.arg())?;
        let number = arg.value.ty.as_scalar().is_some_and(|kind| kind.is_signed() || kind.is_float());
        if !number {
            return Err(Unsupported::new(expr, "negation of this type"));
        }
        // DataFusion negates arrays without a check, and with one a value that is the same for all rows.
        if collect_columns(negative.arg()).is_empty() {
            return Err(Unsupported::new(expr, "negation of a constant"));
        }
        return Ok(Sql { value: ir::neg(arg.value), valid: arg.valid });
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return function::lower_call(block, scope, call);
    }
    if expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
        // It only repeats what the operator that feeds it will decide: leaving it out changes nothing.
        return Ok(Sql::required(ir::bool(true)));
    }
    if expr.is::<ScalarSubqueryExpr>() {
        let ty = value_type(&data_type(scope, expr.as_ref())?)?;
        // Without a row it is null, whatever its column says.
        return Ok(block.env.scalar(expr, ty, true));
    }
    Err(Unsupported::new(expr, "no lowering for this expression"))
}

/// A value of which only matters whether it is there.
fn lower_nullable(block: &mut Block<'_>, scope: &Scope<'_>, expr: &Arc<dyn PhysicalExpr>) -> Result<Sql> {
    match lists::list(&data_type(scope, expr.as_ref())?) {
        Some(_) => lists::lower_nested(block, scope, expr),
        None => lower(block, scope, expr),
    }
}

pub(crate) fn data_type(scope: &Scope<'_>, expr: &dyn PhysicalExpr) -> Result<DataType> {
    expr.data_type(scope.schema).map_err(|error| Unsupported::new(expr, error))
}

pub(crate) fn lower_literal(value: &ScalarValue) -> Result<Sql> {
    let data_type = value.data_type();
    let ty = value_type(&data_type)?;
    if value.is_null() {
        return Ok(Sql { value: ir::zero(&ty), valid: Some(ir::bool(false)) });
    }
    let array = value.to_array().ok();
    Ok(Sql::required(opt::of_query(match array.and_then(|array| weld_arrow::literal(array.as_ref(), 0)) {
        Some(Constant::Scalar(literal)) => ir::lit(literal),
        Some(Constant::Bytes(bytes)) => ir::bytes(bytes),
        None => return Err(Unsupported::new(value, "no lowering for this literal")),
    })))
}

/// The condition that both are there, if either may be null.
pub(crate) fn both_valid(left: &Sql, right: &Sql) -> Option<Expr> {
    match (&left.valid, &right.valid) {
        (None, None) => None,
        (Some(valid), None) | (None, Some(valid)) => Some(valid.clone()),
        (Some(a), Some(b)) => Some(ir::and(a.clone(), b.clone())),
    }
}

/// An operation that may fail: evaluated only where `valid` holds.
pub(crate) fn guarded(valid: Option<Expr>, value: Expr) -> Sql {
    match valid {
        None => Sql::required(value),
        Some(valid) => {
            let zero = ir::zero(&value.ty);
            Sql { value: ir::if_(valid.clone(), value, zero), valid: Some(valid) }
        }
    }
}

/// A predicate over two values: false where null.
pub(crate) fn predicate(valid: Option<Expr>, value: Expr) -> Sql {
    match valid {
        None => Sql::required(value),
        Some(valid) => Sql { value: ir::and(valid.clone(), value), valid: Some(valid) },
    }
}

fn lower_binary(block: &mut Block<'_>, scope: &Scope<'_>, expr: &BinaryExpr) -> Result<Sql> {
    match expr.op() {
        Operator::And => return lower_logic(block, scope, expr, true),
        Operator::Or => return lower_logic(block, scope, expr, false),
        _ => {}
    }
    if let Some(sum) = interval::lower_sum(block, scope, expr)? {
        return Ok(sum);
    }
    let (left_type, right_type) = (data_type(scope, expr.left().as_ref())?, data_type(scope, expr.right().as_ref())?);
    let left = lower(block, scope, expr.left())?;
    let right = lower(block, scope, expr.right())?;
    let (left, right) = (block.share_sql("x", left), block.share_sql("y", right));
    let valid = both_valid(&left, &right).map(|valid| block.share("valid", valid));
    let op = match expr.op() {
        Operator::Eq => BinaryOp::Eq,
        Operator::NotEq => BinaryOp::Ne,
        Operator::Lt => BinaryOp::Lt,
        Operator::LtEq => BinaryOp::Le,
        Operator::Gt => BinaryOp::Gt,
        Operator::GtEq => BinaryOp::Ge,
        Operator::IsNotDistinctFrom | Operator::IsDistinctFrom => {
            let equal = compare(BinaryOp::Eq, &left_type, &right_type, left.value.clone(), right.value.clone())?;
            let (left_valid, right_valid) = (left.valid(), right.valid());
            let both_null = ir::not(ir::or(left_valid.clone(), right_valid.clone()));
            let same = ir::or(ir::and(ir::and(left_valid, right_valid), equal), both_null);
            let negate = *expr.op() == Operator::IsDistinctFrom;
            return Ok(Sql::required(if negate { ir::not(same) } else { same }));
        }
        _ => return lower_arithmetic(block, scope, expr, (left, left_type), (right, right_type), valid),
    };
    Ok(predicate(valid, compare(op, &left_type, &right_type, left.value, right.value)?))
}

/// A comparison of two values that are there, in SQL's order.
pub(crate) fn compare(
    op: BinaryOp,
    left_type: &DataType,
    right_type: &DataType,
    left: Expr,
    right: Expr,
) -> Result<Expr> {
    let mixed = || Unsupported::new(format!("{left_type} {} {right_type}", op.name()), "operands of two types");
    let comparable = match (left_type, right_type) {
        (DataType::Decimal128(_, a), DataType::Decimal128(_, b))
        | (DataType::Decimal64(_, a), DataType::Decimal64(_, b))
        | (DataType::Decimal32(_, a), DataType::Decimal32(_, b)) => a == b,
        (a, b) if is_string(a) => is_string(b),
        (a, b) => a == b,
    };
    if !comparable {
        return Err(mixed());
    }
    if left.ty.as_scalar().is_some_and(ScalarKind::is_float) {
        let (left, right) = (ir::intrinsic(Intrinsic::OrderKey, [left]), ir::intrinsic(Intrinsic::OrderKey, [right]));
        return Ok(ir::binary(op, left, right));
    }
    if left.ty == Type::BOOL && !matches!(op, BinaryOp::Eq | BinaryOp::Ne) {
        return Ok(ir::binary(op, ir::cast(left, ScalarKind::U8), ir::cast(right, ScalarKind::U8)));
    }
    Ok(ir::binary(op, left, right))
}

/// Whether two values that are there are the same to IN and CASE: these compare the bits of floats, to which 0.0 is not
/// -0.0 as it is to `=`.
pub(crate) fn identical(left_type: &DataType, right_type: &DataType, left: Expr, right: Expr) -> Result<Expr> {
    let equal = compare(BinaryOp::Eq, left_type, right_type, left.clone(), right.clone())?;
    let Some(kind) = left.ty.as_scalar().filter(|kind| kind.is_float()) else { return Ok(equal) };
    let not_zero = ir::ne(left.clone(), ir::number(kind, 0));
    let inverse = |value| ir::div(ir::number(kind, 1), value);
    Ok(ir::and(equal, ir::or(not_zero, ir::eq(inverse(left), inverse(right)))))
}

/// Whether evaluating may raise a runtime error.
pub(crate) fn can_fail(expr: &Expr) -> bool {
    let mut fails = match &expr.kind {
        ExprKind::Intrinsic(intrinsic, _) => intrinsic.can_fail(),
        ExprKind::Binary(BinaryOp::Div | BinaryOp::Rem, left, right) => {
            left.ty.as_scalar().is_some_and(ScalarKind::is_integer) && !divides_always(right)
        }
        ExprKind::Assert { .. } | ExprKind::Lookup { .. } | ExprKind::Slice { .. } => true,
        // What functions are made of.
        ExprKind::Update { .. } | ExprKind::Iterate { .. } | ExprKind::For { .. } | ExprKind::Deserialize(_) => true,
        _ => false,
    };
    expr.each_child(&mut |child| fails = fails || can_fail(child));
    fails
}

/// Whether every integer has a quotient by this one.
fn divides_always(divisor: &Expr) -> bool {
    matches!(&divisor.kind, ExprKind::Literal(literal) if !matches!(literal.bits(), 0 | -1))
}

/// Whether an integer result that does not fit its type is an error. The flag has no getter: an expression without it
/// equals this one only if this one has none either.
pub(super) fn checks_overflow(expr: &BinaryExpr) -> bool {
    BinaryExpr::new(expr.left().clone(), *expr.op(), expr.right().clone()) != *expr
}

fn lower_arithmetic(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    expr: &BinaryExpr,
    (left, left_type): (Sql, DataType),
    (right, right_type): (Sql, DataType),
    valid: Option<Expr>,
) -> Result<Sql> {
    let unsupported = |why: &str| Err(Unsupported::new(expr, why));
    if let (DataType::Decimal128(_, s1), DataType::Decimal128(_, s2)) = (&left_type, &right_type) {
        let value = decimal_arithmetic(expr.op(), left.value, *s1, right.value, *s2)?;
        return Ok(block.share_sql("decimal", guarded(valid, value)));
    }
    if left_type == DataType::Date32 && right_type == DataType::Date32 && *expr.op() == Operator::Minus {
        let (left, right) = (ir::cast(left.value, ScalarKind::I64), ir::cast(right.value, ScalarKind::I64));
        return Ok(Sql { value: ir::sub(left, right), valid });
    }
    if left_type != right_type || data_type(scope, expr)? != left_type {
        return unsupported("arithmetic of two types");
    }
    let Some(kind) = left.value.ty.as_scalar().filter(|_| left_type.is_integer() || left_type.is_floating()) else {
        return unsupported("arithmetic of this type");
    };
    let checked = kind.is_integer() && checks_overflow(expr);
    let (x, y) = (left.value, right.value);
    let value = match expr.op() {
        Operator::Plus if checked => return Ok(guarded(valid, ir::intrinsic(Intrinsic::CheckedAdd, [x, y]))),
        Operator::Minus if checked => return Ok(guarded(valid, ir::intrinsic(Intrinsic::CheckedSub, [x, y]))),
        Operator::Multiply if checked => return Ok(guarded(valid, ir::intrinsic(Intrinsic::CheckedMul, [x, y]))),
        Operator::Plus => ir::add(x, y),
        Operator::Minus => ir::sub(x, y),
        Operator::Multiply => ir::mul(x, y),
        Operator::Divide if kind.is_float() => ir::div(x, y),
        Operator::Modulo if kind.is_float() => ir::rem(x, y),
        Operator::Divide => return Ok(guarded(valid, ir::div(x, y))),
        Operator::Modulo => return Ok(guarded(valid, ir::rem(x, y))),
        Operator::BitwiseAnd if kind.is_integer() => ir::bit_and(x, y),
        Operator::BitwiseOr if kind.is_integer() => ir::bit_or(x, y),
        Operator::BitwiseXor if kind.is_integer() => ir::bit_xor(x, y),
        Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight => match shifted(kind, expr.op(), x, &y) {
            Some(value) => value,
            None => return unsupported("by a number of bits that is no constant, or too many"),
        },
        _ => return unsupported("no lowering for this operator"),
    };
    Ok(Sql { value, valid })
}

/// A shift by a constant: what a power of two makes of the integer.
fn shifted(kind: ScalarKind, op: &Operator, x: Expr, by: &Expr) -> Option<Expr> {
    let ExprKind::Literal(by) = &by.kind else { return None };
    // The greatest power that is positive in the type.
    let most = if kind.is_signed() { kind.bits() - 2 } else { kind.bits() - 1 };
    let by = u32::try_from(by.bits()).ok().filter(|by| kind.is_integer() && *by <= most)?;
    let power = |n: i128| ir::number(kind, n);
    if *op == Operator::BitwiseShiftLeft {
        return Some(ir::mul(x, power(1 << by)));
    }
    // Towards the least number: division drops towards zero.
    let rest = ir::bit_and(x.clone(), power((1 << by) - 1));
    Some(ir::div(ir::sub(x, rest), power(1 << by)))
}
