//! Functions of numbers: rounding, roots, logarithms, angles, signs.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::math;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use weld_core::ir::{Expr, build as ir};
use weld_core::op::{Intrinsic, UnaryOp};
use weld_core::ty::ScalarKind;

use super::expr::{Scope, data_type, guarded, lower, predicate};
use super::types::{decimal_of, power_of_ten};
use super::{Block, Result, Sql, Unsupported, raise};

/// The functions of one float that are instructions of ours, and the math library's where they are Rust's.
fn of_float(function: &ScalarUDF) -> Option<UnaryOp> {
    let known: [(fn() -> Arc<ScalarUDF>, UnaryOp); 14] = [
        (math::sqrt, UnaryOp::Sqrt),
        (math::exp, UnaryOp::Exp),
        (math::ln, UnaryOp::Log),
        (math::log10, UnaryOp::Log10),
        (math::sin, UnaryOp::Sin),
        (math::cos, UnaryOp::Cos),
        (math::tan, UnaryOp::Tan),
        (math::asin, UnaryOp::Asin),
        (math::acos, UnaryOp::Acos),
        (math::atan, UnaryOp::Atan),
        (math::floor, UnaryOp::Floor),
        (math::ceil, UnaryOp::Ceil),
        (math::trunc, UnaryOp::Trunc),
        (math::abs, UnaryOp::Abs),
    ];
    known.into_iter().find(|(of, _)| *function == *of()).map(|(_, op)| op)
}

/// A call of one of DataFusion's functions of numbers, or `None` if it is another.
pub(crate) fn lower_math(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Option<Sql>> {
    if *call.fun() == *math::round() {
        return lower_round(block, scope, call).map(Some);
    }
    if *call.fun() == *math::signum() {
        return lower_sign(block, scope, call).map(Some);
    }
    if *call.fun() == *math::isnan() {
        return lower_is_nan(block, scope, call).map(Some);
    }
    if *call.fun() == *math::iszero() {
        return lower_is_zero(block, scope, call).map(Some);
    }
    if *call.fun() == *math::radians() {
        return lower_scaled(block, scope, call, (1_f32.to_radians(), 1_f64.to_radians())).map(Some);
    }
    if *call.fun() == *math::degrees() {
        return lower_scaled(block, scope, call, (1_f32.to_degrees(), 1_f64.to_degrees())).map(Some);
    }
    let (Some(op), [arg]) = (of_float(call.fun()), call.args()) else { return Ok(None) };
    let of = data_type(scope, arg.as_ref())?;
    let arg = lower(block, scope, arg)?;
    let Some(kind) = arg.value.ty.as_scalar() else { return Ok(None) };
    if kind.is_float() {
        let arg = block.share_sql("x", arg);
        let value = ir::unary(op, arg.value.clone());
        if op == UnaryOp::Trunc {
            // Both zeros become the positive one.
            let zero = ir::eq(arg.value, number(kind, 0.0));
            return Ok(Some(Sql { value: ir::select(zero, number(kind, 0.0), value), valid: arg.valid }));
        }
        if op != UnaryOp::Sqrt {
            return Ok(Some(Sql { value, valid: arg.valid }));
        }
        let negative = ir::lt(arg.value, number(kind, 0.0));
        let message = raise::compute("Execution error: cannot take square root of a negative number");
        let possible = ir::require(ir::not(negative), &message, []);
        let value = ir::if_(possible, value, number(kind, 0.0));
        return Ok(Some(block.share_sql("root", guarded(arg.valid, value))));
    }
    match op {
        UnaryOp::Abs if of.is_unsigned_integer() => Ok(Some(arg)),
        UnaryOp::Abs if of.is_signed_integer() => {
            let arg = block.share_sql("n", arg);
            let least = ir::number(kind, i128::MIN >> (128 - kind.bits()));
            let message = raise::compute(&format!("{of}Array overflow on abs({{0}})"));
            let fits = ir::require(ir::ne(arg.value.clone(), least), &message, [arg.value.clone()]);
            let value = ir::if_(fits, ir::unary(op, arg.value), ir::number(kind, 0));
            Ok(Some(block.share_sql("abs", guarded(arg.valid, value))))
        }
        UnaryOp::Abs if decimal_of(&of).is_some() => {
            Ok(Some(Sql { value: ir::unary(op, arg.value), valid: arg.valid }))
        }
        _ => Ok(None),
    }
}

fn number(kind: ScalarKind, value: f64) -> Expr {
    if kind == ScalarKind::F32 { ir::lit(weld_core::ir::Literal::F32(value as f32)) } else { ir::f64(value) }
}

/// A constant number of decimal places.
fn places(call: &ScalarFunctionExpr) -> Option<i32> {
    match call.args() {
        [_] => Some(0),
        [_, places] => match places.downcast_ref::<Literal>()?.value() {
            ScalarValue::Int32(Some(places)) => Some(*places),
            _ => None,
        },
        _ => None,
    }
}

fn lower_round(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let unsupported = |why: &str| Unsupported::new(call.name(), why);
    let places = places(call).ok_or_else(|| unsupported("a number of places that is not a constant"))?;
    let (of, gives) = (data_type(scope, call.args()[0].as_ref())?, data_type(scope, call)?);
    let arg = lower(block, scope, &call.args()[0])?;
    let kind = arg.value.ty.as_scalar().ok_or_else(|| unsupported("of this type"))?;
    if of.is_integer() && of == gives && places >= 0 {
        return Ok(arg);
    }
    if kind.is_float() && of == gives {
        let factor = number(kind, 10f64.powi(places));
        let rounded = ir::unary(UnaryOp::Round, ir::mul(arg.value, factor.clone()));
        return Ok(Sql { value: ir::div(rounded, factor), valid: arg.valid });
    }
    match (&of, &gives) {
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) if (0..=i32::from(*from)).contains(&places) => {
            if i32::from(*to) != places {
                return Err(unsupported("to another scale than its places"));
            }
            if from == to {
                return Ok(arg);
            }
            let power = ir::i128(power_of_ten(u32::from(from.abs_diff(*to)))?);
            Ok(Sql { value: ir::intrinsic(Intrinsic::RoundDiv, [arg.value, power]), valid: arg.valid })
        }
        _ => Err(unsupported("of this type")),
    }
}

/// Numbers that are not floats are numbers.
fn lower_is_nan(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let arg = lower(block, scope, &call.args()[0])?;
    let arg = block.share_sql("x", arg);
    let kind = arg.value.ty.as_scalar().ok_or_else(|| Unsupported::new(call.name(), "of this type"))?;
    let is_nan = if kind.is_float() { ir::ne(arg.value.clone(), arg.value) } else { ir::bool(false) };
    Ok(predicate(arg.valid, is_nan))
}

/// A float times the factor of its type, as Rust's conversions of angles are computed.
fn lower_scaled(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    call: &ScalarFunctionExpr,
    (narrow, wide): (f32, f64),
) -> Result<Sql> {
    let arg = lower(block, scope, &call.args()[0])?;
    let factor = match arg.value.ty.as_scalar() {
        Some(kind @ ScalarKind::F32) => number(kind, f64::from(narrow)),
        Some(kind @ ScalarKind::F64) => number(kind, wide),
        _ => return Err(Unsupported::new(call.name(), "only of floats")),
    };
    Ok(Sql { value: ir::mul(arg.value, factor), valid: arg.valid })
}

/// Both zeros are.
fn lower_is_zero(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let arg = lower(block, scope, &call.args()[0])?;
    let kind = arg.value.ty.as_scalar().ok_or_else(|| Unsupported::new(call.name(), "of this type"))?;
    let zero = if kind.is_float() { number(kind, 0.0) } else { ir::number(kind, 0) };
    Ok(predicate(arg.valid, ir::eq(arg.value, zero)))
}

/// The sign of a float: 0 of both zeros, NaN of NaN.
fn lower_sign(block: &mut Block<'_>, scope: &Scope<'_>, call: &ScalarFunctionExpr) -> Result<Sql> {
    let arg = lower(block, scope, &call.args()[0])?;
    let arg = block.share_sql("x", arg);
    let kind = arg.value.ty.as_scalar().filter(|kind| kind.is_float());
    let kind = kind.ok_or_else(|| Unsupported::new(call.name(), "only of floats"))?;
    let of = |value: f64| number(kind, value);
    let positive = ir::gt(arg.value.clone(), of(0.0));
    let negative = ir::lt(arg.value.clone(), of(0.0));
    let zero = ir::eq(arg.value.clone(), of(0.0));
    // Every NaN becomes the same one.
    let rest = ir::select(zero, of(0.0), of(f64::NAN));
    let value = ir::select(positive, of(1.0), ir::select(negative, of(-1.0), rest));
    Ok(Sql { value, valid: arg.valid })
}
