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
    Literal as PhysicalLiteral, NegativeExpr, NotExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_core::ir::{Expr, ExprKind, Literal, build as ir};
use weld_core::op::{BinaryOp, Intrinsic};
use weld_core::ty::{ScalarKind, Type};

use super::types::{is_string, power_of_ten, value_type};
use super::{Block, Result, Sql, Unsupported, function, raise};

/// More members than this stay with DataFusion, which hashes them.
const IN_LIST_MAX: usize = 64;

/// What expressions refer to: the operator's input schema and one row's columns.
pub(crate) struct Scope<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) columns: &'a [Option<Sql>],
}

/// The value of `expr` for the row in `scope`.
pub(crate) fn lower(block: &mut Block<'_>, scope: &Scope<'_>, expr: &Arc<dyn PhysicalExpr>) -> Result<Sql> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        let sql = scope.columns.get(column.index()).cloned().flatten();
        return sql.ok_or_else(|| Unsupported::new(expr, "the column is not among the input's"));
    }
    if let Some(literal) = expr.downcast_ref::<PhysicalLiteral>() {
        return lower_literal(literal.value());
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return lower_binary(block, scope, binary);
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        let arg = lower(block, scope, not.arg())?;
        return Ok(invert(block, arg));
    }
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        let arg = lower(block, scope, is_null.arg())?;
        return Ok(Sql::required(arg.valid.map_or(ir::bool(false), ir::not)));
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        return Ok(Sql::required(lower(block, scope, is_not_null.arg())?.valid()));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = data_type(scope, cast.expr().as_ref())?;
        let arg = lower(block, scope, cast.expr())?;
        if cast.cast_options().safe {
            return Err(Unsupported::new(expr, "a cast that gives null on failure"));
        }
        return lower_cast(block, arg, &from, cast.cast_type());
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        return lower_case(block, scope, case);
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return lower_in_list(block, scope, list);
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return function::lower_like(block, scope, like);
    }
    if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
        let arg = lower(block, scope, negative.arg())?;
        let number = arg.value.ty.as_scalar().is_some_and(|kind| kind.is_signed() || kind.is_float());
        if !number {
            return Err(Unsupported::new(expr, "negation of this type"));
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

pub(crate) fn data_type(scope: &Scope<'_>, expr: &dyn PhysicalExpr) -> Result<DataType> {
    expr.data_type(scope.schema).map_err(|error| Unsupported::new(expr, error))
}

pub(crate) fn lower_literal(value: &ScalarValue) -> Result<Sql> {
    let data_type = value.data_type();
    let ty = value_type(&data_type)?;
    if value.is_null() {
        return Ok(Sql { value: ir::zero(&ty), valid: Some(ir::bool(false)) });
    }
    let unsupported = || Unsupported::new(value, "no lowering for this literal");
    Ok(Sql::required(match value {
        ScalarValue::Boolean(Some(v)) => ir::bool(*v),
        ScalarValue::Int8(Some(v)) => ir::lit(Literal::I8(*v)),
        ScalarValue::Int16(Some(v)) => ir::lit(Literal::I16(*v)),
        ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v)) => ir::i32(*v),
        ScalarValue::Int64(Some(v))
        | ScalarValue::Date64(Some(v))
        | ScalarValue::TimestampSecond(Some(v), _)
        | ScalarValue::TimestampMillisecond(Some(v), _)
        | ScalarValue::TimestampMicrosecond(Some(v), _)
        | ScalarValue::TimestampNanosecond(Some(v), _) => ir::i64(*v),
        ScalarValue::UInt8(Some(v)) => ir::lit(Literal::U8(*v)),
        ScalarValue::UInt16(Some(v)) => ir::lit(Literal::U16(*v)),
        ScalarValue::UInt32(Some(v)) => ir::lit(Literal::U32(*v)),
        ScalarValue::UInt64(Some(v)) => ir::lit(Literal::U64(*v)),
        ScalarValue::Float32(Some(v)) => ir::lit(Literal::F32(*v)),
        ScalarValue::Float64(Some(v)) => ir::f64(*v),
        ScalarValue::Decimal128(Some(v), _, _) => ir::i128(*v),
        ScalarValue::Utf8(Some(v)) | ScalarValue::LargeUtf8(Some(v)) | ScalarValue::Utf8View(Some(v)) => {
            ir::bytes(v.as_bytes())
        }
        _ => return Err(unsupported()),
    }))
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

fn invert(block: &mut Block<'_>, arg: Sql) -> Sql {
    match arg.valid {
        None => Sql::required(ir::not(arg.value)),
        Some(valid) => {
            let valid = block.share("valid", valid);
            Sql { value: ir::and(valid.clone(), ir::not(arg.value)), valid: Some(valid) }
        }
    }
}

fn lower_binary(block: &mut Block<'_>, scope: &Scope<'_>, expr: &BinaryExpr) -> Result<Sql> {
    match expr.op() {
        Operator::And => return lower_logic(block, scope, expr, true),
        Operator::Or => return lower_logic(block, scope, expr, false),
        _ => {}
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
        (DataType::Decimal128(_, a), DataType::Decimal128(_, b)) => a == b,
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
fn identical(left_type: &DataType, right_type: &DataType, left: Expr, right: Expr) -> Result<Expr> {
    let equal = compare(BinaryOp::Eq, left_type, right_type, left.clone(), right.clone())?;
    let Some(kind) = left.ty.as_scalar().filter(|kind| kind.is_float()) else { return Ok(equal) };
    let not_zero = ir::ne(left.clone(), ir::number(kind, 0));
    let inverse = |value| ir::div(ir::number(kind, 1), value);
    Ok(ir::and(equal, ir::or(not_zero, ir::eq(inverse(left), inverse(right)))))
}

/// AND and OR by Kleene's rules. The right side is evaluated only where the left does not decide, if it can fail.
fn lower_logic(block: &mut Block<'_>, scope: &Scope<'_>, expr: &BinaryExpr, is_and: bool) -> Result<Sql> {
    let left = lower(block, scope, expr.left())?;
    if left.value.ty != Type::BOOL {
        return Err(Unsupported::new(expr, "a logical operator over numbers"));
    }
    let mut inner = Block::new(block.env);
    let right = lower(&mut inner, scope, expr.right())?;
    let combine = if is_and { ir::and } else { ir::or };
    if left.valid.is_none() && right.valid.is_none() {
        return Ok(Sql::required(combine(left.value, inner.close(right.value))));
    }
    // `decided` by the left: false for AND, true for OR.
    let (stored, nullable) = (right.valid.is_some(), right.valid.is_some());
    let right = inner.close(if stored { ir::strct([right.value.clone(), right.valid()]) } else { right.value });
    let left = block.share_sql("p", left);
    let decided = |side: &Sql| {
        if is_and { ir::and(side.valid(), ir::not(side.value.clone())) } else { side.value.clone() }
    };
    let right = if can_fail(&right) {
        let skipped = if nullable { ir::strct([ir::bool(!is_and), ir::bool(true)]) } else { ir::bool(!is_and) };
        ir::if_(decided(&left), skipped, right)
    } else {
        right
    };
    let right = block.share("q", right);
    let right = Sql::load(right, nullable);
    let known = ir::and(left.valid(), right.valid());
    let valid = ir::or(known, ir::or(decided(&left), decided(&right)));
    Ok(Sql { value: combine(left.value, right.value), valid: Some(valid) })
}

/// Whether evaluating may raise a runtime error.
pub(crate) fn can_fail(expr: &Expr) -> bool {
    let mut fails = match &expr.kind {
        ExprKind::Intrinsic(intrinsic, _) => intrinsic.can_fail(),
        ExprKind::Binary(BinaryOp::Div | BinaryOp::Rem, left, _) => {
            left.ty.as_scalar().is_some_and(ScalarKind::is_integer)
        }
        ExprKind::Assert { .. } | ExprKind::Lookup { .. } | ExprKind::Slice { .. } => true,
        // What functions are made of.
        ExprKind::Update { .. } | ExprKind::Iterate { .. } | ExprKind::For { .. } | ExprKind::Deserialize(_) => true,
        _ => false,
    };
    expr.each_child(&mut |child| fails = fails || can_fail(child));
    fails
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
    // The flag has no getter: an expression without it equals this one only if this one has none either.
    let checked = BinaryExpr::new(expr.left().clone(), *expr.op(), expr.right().clone()) != *expr;
    let checked = checked && kind.is_integer();
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
        _ => return unsupported("no lowering for this operator"),
    };
    Ok(Sql { value, valid })
}

/// Decimal arithmetic by Hive's rules, as Arrow's kernels do it: operands are brought to a common scale, everything
/// is checked in 128 bits, the declared precision is not.
fn decimal_arithmetic(op: &Operator, left: Expr, s1: i8, right: Expr, s2: i8) -> Result<Expr> {
    let scaled = |value: Expr, by: i8| -> Result<Expr> {
        let by = u32::try_from(by).map_err(|_| Unsupported::new("decimal scale", "a negative power of ten"))?;
        if by == 0 {
            return Ok(value);
        }
        let power = power_of_ten(by)?;
        if let ExprKind::Literal(Literal::I128(v)) = value.kind
            && let Some(product) = v.checked_mul(power)
        {
            return Ok(ir::i128(product));
        }
        Ok(ir::intrinsic(Intrinsic::CheckedMul, [value, ir::i128(power)]))
    };
    let common = s1.max(s2);
    Ok(match op {
        Operator::Plus => {
            ir::intrinsic(Intrinsic::CheckedAdd, [scaled(left, common - s1)?, scaled(right, common - s2)?])
        }
        Operator::Minus => {
            ir::intrinsic(Intrinsic::CheckedSub, [scaled(left, common - s1)?, scaled(right, common - s2)?])
        }
        Operator::Multiply => ir::intrinsic(Intrinsic::CheckedMul, [left, right]),
        Operator::Divide => {
            let by = s1.saturating_add(4).min(38) - s1 + s2;
            let (left, right) =
                if by >= 0 { (scaled(left, by)?, right) } else { (left, scaled(right, by.saturating_neg())?) };
            ir::div(left, right)
        }
        Operator::Modulo => ir::rem(scaled(left, common - s1)?, scaled(right, common - s2)?),
        other => return Err(Unsupported::new(other, "no lowering for this operator over decimals")),
    })
}

fn lower_cast(block: &mut Block<'_>, arg: Sql, from: &DataType, to: &DataType) -> Result<Sql> {
    if from == to || (is_string(from) && is_string(to)) {
        return Ok(arg);
    }
    let unsupported = || Unsupported::new(format!("CAST({from} AS {to})"), "no lowering for this conversion");
    let target = value_type(to)?.as_scalar();
    match (from, to) {
        (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) => {
            cast_decimal(block, arg, (*p1, *s1), (*p2, *s2))
        }
        (from, DataType::Decimal128(precision, scale)) if from.is_integer() && *scale >= 0 => {
            let kind = arg.value.ty.as_scalar().ok_or_else(unsupported)?;
            let wide = Sql { value: ir::cast(arg.value, ScalarKind::I128), valid: arg.valid };
            let message = raise::cannot_widen(*precision, *scale);
            scaled(block, wide, *scale as u32, *precision, greatest(kind), &message)
        }
        (from, to) if from.is_integer() && (to.is_integer() || to.is_floating()) => {
            let (Some(source), Some(target)) = (arg.value.ty.as_scalar(), target) else { return Err(unsupported()) };
            if target.is_float() || holds_all_of(target, source) {
                return Ok(Sql { value: ir::cast(arg.value, target), valid: arg.valid });
            }
            let arg = block.share_sql("n", arg);
            let narrow = block.share("narrow", ir::cast(arg.value.clone(), target));
            let wide = |value: Expr| ir::cast(value, ScalarKind::I128);
            let same = ir::eq(wide(narrow.clone()), wide(arg.value.clone()));
            checked(block, narrow, arg.valid, same, (&raise::cannot_cast(to), arg.value))
        }
        (DataType::Decimal128(_, scale @ 0..=22), DataType::Float64) => {
            // Powers of ten up to the 22nd are exact, so this is Arrow's quotient to the bit.
            let value = ir::div(ir::cast(arg.value, ScalarKind::F64), ir::f64(10f64.powi(i32::from(*scale))));
            Ok(Sql { value, valid: arg.valid })
        }
        (DataType::Float32, DataType::Float64) => {
            Ok(Sql { value: ir::cast(arg.value, ScalarKind::F64), valid: arg.valid })
        }
        (DataType::Boolean, to) if to.is_integer() => {
            let target = target.ok_or_else(unsupported)?;
            Ok(Sql { value: ir::cast(arg.value, target), valid: arg.valid })
        }
        _ => Err(unsupported()),
    }
}

/// Whether every value of `source` is one of `target`.
fn holds_all_of(target: ScalarKind, source: ScalarKind) -> bool {
    match (target.is_signed(), source.is_signed()) {
        (true, true) | (false, false) => target.bits() >= source.bits(),
        (true, false) => target.bits() > source.bits(),
        (false, true) => false,
    }
}

/// The greatest magnitude of an integer type.
fn greatest(kind: ScalarKind) -> i128 {
    match (kind.bits(), kind.is_signed()) {
        (128.., _) => i128::MAX,
        (bits, true) => 1i128 << (bits - 1),
        (bits, false) => (1i128 << bits) - 1,
    }
}

/// `value`, and a runtime error where it is there but `condition` is false: a message and the value that is to blame.
fn checked(
    block: &mut Block<'_>,
    value: Expr,
    valid: Option<Expr>,
    condition: Expr,
    (message, culprit): (&str, Expr),
) -> Result<Sql> {
    let zero = ir::zero(&value.ty);
    let value = ir::if_(ir::require(condition, message, [culprit]), value, zero);
    Ok(block.share_sql("checked", guarded(valid, value)))
}

/// `sql * 10^gain`, which has `precision` digits at most, for an i128 of a magnitude up to `greatest`.
fn scaled(block: &mut Block<'_>, sql: Sql, gain: u32, precision: u8, greatest: i128, message: &str) -> Result<Sql> {
    let power = power_of_ten(gain)?;
    // `|x| * 10^gain < 10^precision` without the product, which may not fit 128 bits.
    let limit = power_of_ten(u32::from(precision).saturating_sub(gain))?;
    let times = |value: Expr| if gain == 0 { value } else { ir::mul(value, ir::i128(power)) };
    if greatest < limit {
        return Ok(Sql { value: times(sql.value), valid: sql.valid });
    }
    let sql = block.share_sql("unscaled", sql);
    let fits = ir::and(ir::lt(sql.value.clone(), ir::i128(limit)), ir::gt(sql.value.clone(), ir::i128(-limit)));
    checked(block, times(sql.value.clone()), sql.valid, fits, (message, sql.value))
}

fn cast_decimal(block: &mut Block<'_>, arg: Sql, (p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> Result<Sql> {
    if s2 >= s1 {
        let gain = (i16::from(s2) - i16::from(s1)) as u32;
        if i64::from(p1) + i64::from(gain) <= i64::from(p2) {
            // Arrow multiplies without a check here.
            let value = if gain == 0 { arg.value } else { ir::mul(arg.value, ir::i128(power_of_ten(gain)?)) };
            return Ok(Sql { value, valid: arg.valid });
        }
        return scaled(block, arg, gain, p2, i128::MAX, &raise::cannot_rescale(gain, p2, s2));
    }
    let loss = i16::from(s1) - i16::from(s2);
    let power = ir::i128(power_of_ten(loss as u32)?);
    let value = block.share("rounded", ir::intrinsic(Intrinsic::RoundDiv, [arg.value, power]));
    let rounded = Sql { value, valid: arg.valid };
    // Rounding can carry into one more digit.
    if i16::from(p1) - loss < i16::from(p2) {
        return Ok(rounded);
    }
    scaled(block, rounded, 0, p2, i128::MAX, &raise::cannot_rescale(0, p2, s2))
}

fn lower_case(block: &mut Block<'_>, scope: &Scope<'_>, case: &CaseExpr) -> Result<Sql> {
    let result_type = data_type(scope, case)?;
    let ty = value_type(&result_type)?;
    let base = match case.expr() {
        Some(expr) => {
            let base = lower(block, scope, expr)?;
            Some((block.share_sql("base", base), data_type(scope, expr.as_ref())?))
        }
        None => None,
    };
    // Every branch is `{value, valid}`: one shape for all.
    let branch = |block: &mut Block<'_>, expr: &Arc<dyn PhysicalExpr>| {
        block.nested(|inner| {
            let sql = lower(inner, scope, expr)?;
            if sql.value.ty != ty {
                return Err(Unsupported::new(expr, "a branch of another type"));
            }
            // As it is stored: who groups by it or compares it looks at what is under a null, too.
            let valid = sql.valid();
            Ok(Sql { value: sql.value, valid: Some(valid) }.stored())
        })
    };
    let mut value = match case.else_expr() {
        Some(expr) => branch(block, expr)?,
        None => ir::strct([ir::zero(&ty), ir::bool(false)]),
    };
    for (when, then) in case.when_then_expr().iter().rev() {
        let then = branch(block, then)?;
        let otherwise = value;
        value = block.nested(|inner| {
            let cond = match &base {
                None => lower(inner, scope, when)?.value,
                Some((base, base_type)) => {
                    let when_type = data_type(scope, when.as_ref())?;
                    let when = lower(inner, scope, when)?;
                    let when = inner.share_sql("when", when);
                    let valid = both_valid(base, &when);
                    let equal = identical(base_type, &when_type, base.value.clone(), when.value)?;
                    predicate(valid, equal).value
                }
            };
            Ok(ir::if_(cond, then, otherwise))
        })?;
    }
    let nullable = case.nullable(scope.schema).map_err(|error| Unsupported::new(case, error))?;
    let value = block.share("case", value);
    let valid = ir::field(value.clone(), 1);
    let value = ir::field(value, 0);
    let value = if ty == Type::BOOL && nullable { ir::and(valid.clone(), value) } else { value };
    Ok(Sql { value, valid: nullable.then_some(valid) })
}

fn lower_in_list(block: &mut Block<'_>, scope: &Scope<'_>, list: &InListExpr) -> Result<Sql> {
    if list.list().len() > IN_LIST_MAX {
        return Err(Unsupported::new("IN", format!("more than {IN_LIST_MAX} members")));
    }
    let arg_type = data_type(scope, list.expr().as_ref())?;
    let arg = lower(block, scope, list.expr())?;
    let arg = block.share_sql("x", arg);
    let mut found: Option<Expr> = None;
    let mut has_null = false;
    for member in list.list() {
        let member_type = data_type(scope, member.as_ref())?;
        let Some(literal) = member.downcast_ref::<PhysicalLiteral>() else {
            return Err(Unsupported::new("IN", "members that are not literals"));
        };
        if literal.value().is_null() {
            has_null = true;
            continue;
        }
        let member = lower_literal(literal.value())?;
        let equal = identical(&arg_type, &member_type, arg.value.clone(), member.value)?;
        found = Some(match found {
            Some(found) => ir::or(found, equal),
            None => equal,
        });
    }
    let found = predicate(arg.valid.clone(), found.unwrap_or_else(|| ir::bool(false)));
    let found = if has_null {
        // No match among the others means "unknown".
        let value = block.share("found", found.value);
        Sql { value: value.clone(), valid: Some(value) }
    } else {
        found
    };
    Ok(if list.negated() { invert(block, found) } else { found })
}
