//! The binops of whole structs: extremes of values that may be absent, moments, and the first or the last of structs.

use std::cmp::Ordering;

use crate::interp::Value;
use crate::interp::compare::compare;
use crate::ir::Literal;
use crate::op::{BinaryOp, Choice, StructOp};
use crate::ty::{ScalarKind, Type};

/// What a builder starts from. `None` if the binop does not take the type.
pub(super) fn identity(op: StructOp, ty: &Type) -> Option<Value> {
    let start = match op {
        StructOp::Least => f64::MAX,
        StructOp::Greatest => f64::MIN,
        _ => return Value::zero(ty),
    };
    let [_, of] = ty.fields()? else { return None };
    let start = match of {
        Type::Scalar(ScalarKind::F32) if start > 0.0 => Value::Scalar(Literal::F32(f32::MAX)),
        Type::Scalar(ScalarKind::F32) => Value::Scalar(Literal::F32(f32::MIN)),
        Type::Scalar(ScalarKind::F64) => float(start),
        Type::Vec(_) => Value::vec(Vec::new()),
        _ => return None,
    };
    Some(Value::structure([Value::bool(false), start]))
}

pub(super) fn combine(op: StructOp, a: &[Value], b: &[Value]) -> Option<Value> {
    if let Some(choice) = op.choice() {
        let taken = if takes_other(choice, a, b)? { b } else { a };
        return Some(Value::structure(taken.iter().cloned()));
    }
    match op {
        StructOp::Least => extreme(a, b, Ordering::Less),
        StructOp::Greatest => extreme(a, b, Ordering::Greater),
        _ => moments(a, b),
    }
}

/// Whether the second of two structs takes the place of the first.
fn takes_other(choice: Choice, a: &[Value], b: &[Value]) -> Option<bool> {
    let ([Value::Scalar(Literal::Bool(a_there)), x, ..], [Value::Scalar(Literal::Bool(b_there)), y, ..]) = (a, b)
    else {
        return None;
    };
    let wins = match choice {
        Choice::First => false,
        Choice::Second => true,
        Choice::SecondIf(BinaryOp::Lt) => compare(y, x).is_some_and(Ordering::is_lt),
        Choice::SecondIf(BinaryOp::Gt) => compare(y, x).is_some_and(Ordering::is_gt),
        Choice::SecondIf(_) => compare(y, x).is_some_and(Ordering::is_ge),
    };
    Some(*b_there && (!a_there || wins))
}

fn extreme(a: &[Value], b: &[Value], wins: Ordering) -> Option<Value> {
    let ([Value::Scalar(Literal::Bool(a_there)), x], [Value::Scalar(Literal::Bool(b_there)), y]) = (a, b) else {
        return None;
    };
    // Byte vectors have no greatest value to start from.
    let first = !a_there && matches!(x, Value::Vec(_));
    let taken = *b_there && (first || compare(y, x).is_none_or(|order| order == wins));
    let value = if taken { y } else { x };
    Some(Value::structure([Value::bool(*a_there || *b_there), value.clone()]))
}

fn moments(a: &[Value], b: &[Value]) -> Option<Value> {
    let numbers = |values: &[Value]| -> Option<Vec<f64>> {
        let number = |value: &Value| match value {
            Value::Scalar(Literal::F64(number)) => Some(*number),
            _ => None,
        };
        values.iter().map(number).collect()
    };
    let (a, b) = (numbers(a)?, numbers(b)?);
    let (&[a_count, ref a_parts @ ..], &[b_count, ref b_parts @ ..]) = (&a[..], &b[..]) else { return None };
    let count = a_count + b_count;
    let (mut merged, mut steps) = (vec![count], Vec::new());
    for (a, b) in a_parts.as_chunks::<2>().0.iter().zip(b_parts.as_chunks::<2>().0) {
        let delta = b[0] - a[0];
        let step = delta * b_count / count;
        let mean = if a_count == 0.0 { b[0] } else { step + a[0] };
        steps.push((delta, step, b[0] - mean));
        let moved = moved(a_count, b_count, (delta, b[0] - mean), (delta, step));
        merged.extend([mean, a[1] + b[1] + moved]);
    }
    if let ([.., a_last], [.., b_last], [x, y]) = (a_parts, b_parts, &steps[..]) {
        merged.push(a_last + b_last + moved(a_count, b_count, (x.0, y.2), (x.0, y.1)));
    }
    let merged = if b_count == 0.0 { a } else { merged };
    Some(Value::structure(merged.into_iter().map(float)))
}

/// What the distance of two means adds to a sum of squares or products: `row` for a single row, as Welford has it, else
/// `part` for each row of the first.
fn moved(a_count: f64, b_count: f64, row: (f64, f64), part: (f64, f64)) -> f64 {
    if b_count == 1.0 { row.0 * row.1 } else { part.0 * part.1 * a_count }
}

fn float(value: f64) -> Value {
    Value::Scalar(Literal::F64(value))
}
