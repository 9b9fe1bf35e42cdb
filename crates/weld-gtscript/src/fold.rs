//! Arithmetic of constants, as Python does it.

use weld_frontend::floor_division;
use weld_pysyntax::CompareOp;

use crate::dtype::{Dtype, Ty};
use crate::tree::{Builtin, Const, Op};

impl Const {
    pub fn ty(self) -> Ty {
        match self {
            Const::Bool(_) => Ty::Is(Dtype::Bool),
            Const::Int(_) => Ty::WeakInt,
            Const::Float(_) => Ty::WeakFloat,
        }
    }

    pub fn as_float(self) -> f64 {
        match self {
            Const::Bool(value) => f64::from(u8::from(value)),
            Const::Int(value) => value as f64,
            Const::Float(value) => value,
        }
    }

    /// Integers and booleans.
    pub fn as_int(self) -> Option<i128> {
        match self {
            Const::Bool(value) => Some(i128::from(value)),
            Const::Int(value) => Some(value),
            Const::Float(_) => None,
        }
    }

    /// Whether a scalar of a type can have the value: one of integers only a whole number that it holds.
    pub fn fits(self, dtype: Dtype) -> bool {
        let whole = match self {
            Const::Float(value) => (value.fract() == 0.0).then_some(value as i128),
            other => other.as_int(),
        };
        match dtype {
            Dtype::Bool | Dtype::Float32 | Dtype::Float64 => true,
            Dtype::Int32 => whole.is_some_and(|value| i32::try_from(value).is_ok()),
            Dtype::Int64 => whole.is_some_and(|value| i64::try_from(value).is_ok()),
        }
    }

    pub fn is_true(self) -> bool {
        self.as_float() != 0.0
    }
}

impl std::fmt::Display for Const {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Const::Bool(value) => f.write_str(if *value { "True" } else { "False" }),
            Const::Int(value) => write!(f, "{value}"),
            Const::Float(value) => write!(f, "{value:?}"),
        }
    }
}

/// The value of an operation, or why it has none.
pub(crate) fn binary(op: Op, a: Const, b: Const) -> Result<Const, String> {
    let by_zero = || Err("division by zero".to_owned());
    if let (Some(a), Some(b)) = (a.as_int(), b.as_int())
        && op != Op::Div
    {
        let value = match op {
            Op::Add => a.checked_add(b),
            Op::Sub => a.checked_sub(b),
            Op::Mul => a.checked_mul(b),
            Op::FloorDiv | Op::Mod if b == 0 => return by_zero(),
            Op::FloorDiv => Some(a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0)),
            Op::Mod => Some(a.rem_euclid(b) + if b < 0 && a.rem_euclid(b) != 0 { b } else { 0 }),
            Op::Pow if b < 0 => return Ok(Const::Float((a as f64).powf(b as f64))),
            Op::Pow | Op::Div => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        };
        let too_large = || format!("the constant {a} {} {b} is too large", op.text());
        return value.map(Const::Int).ok_or_else(too_large);
    }
    let (a, b) = (a.as_float(), b.as_float());
    Ok(Const::Float(match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div | Op::FloorDiv | Op::Mod if b == 0.0 => return by_zero(),
        Op::Div => a / b,
        Op::FloorDiv => floor_division::constants(a, b).0,
        Op::Mod => floor_division::constants(a, b).1,
        Op::Pow => a.powf(b),
    }))
}

pub(crate) fn negate(value: Const) -> Const {
    match value {
        Const::Bool(value) => Const::Int(-i128::from(value)),
        Const::Int(value) => Const::Int(value.wrapping_neg()),
        Const::Float(value) => Const::Float(-value),
    }
}

pub(crate) fn compare(op: CompareOp, a: Const, b: Const) -> bool {
    let order = match (a.as_int(), b.as_int()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_float().partial_cmp(&b.as_float()),
    };
    match op {
        CompareOp::Eq => order.is_some_and(|order| order.is_eq()),
        CompareOp::Lt => order.is_some_and(|order| order.is_lt()),
        CompareOp::Le => order.is_some_and(|order| order.is_le()),
        CompareOp::Gt => order.is_some_and(|order| order.is_gt()),
        CompareOp::Ge => order.is_some_and(|order| order.is_ge()),
        _ => !order.is_some_and(|order| order.is_eq()),
    }
}

/// The value of a function of constants; `None` where it is left to the program.
pub(crate) fn call(builtin: Builtin, args: &[Const]) -> Option<Const> {
    let is_nan = |a: Const| a.as_float().is_nan();
    let smaller = |a: Const, b: Const| if is_nan(b) || compare(CompareOp::Lt, b, a) { b } else { a };
    let larger = |a: Const, b: Const| if is_nan(b) || compare(CompareOp::Gt, b, a) { b } else { a };
    let [first, rest @ ..] = args else { return None };
    let x = first.as_float();
    Some(match (builtin, first.as_int()) {
        (Builtin::Abs, Some(value)) => Const::Int(value.checked_abs()?),
        (Builtin::Floor | Builtin::Ceil | Builtin::Trunc, Some(value)) => Const::Int(value),
        (Builtin::Abs, None) => Const::Float(x.abs()),
        (Builtin::Min, _) => rest.iter().copied().fold(*first, smaller),
        (Builtin::Max, _) => rest.iter().copied().fold(*first, larger),
        (Builtin::IsNan, _) => Const::Bool(x.is_nan()),
        (Builtin::IsInf, _) => Const::Bool(x.is_infinite()),
        (Builtin::IsFinite, _) => Const::Bool(x.is_finite()),
        (Builtin::Sqrt, _) => Const::Float(x.sqrt()),
        (Builtin::Floor, _) => Const::Float(x.floor()),
        (Builtin::Ceil, _) => Const::Float(x.ceil()),
        (Builtin::Trunc, _) => Const::Float(x.trunc()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_divided_as_in_python() {
        let int = |op, a, b| binary(op, Const::Int(a), Const::Int(b)).unwrap();
        for (a, b, quotient, rest) in [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, -2, -3, 0)] {
            assert_eq!(
                (int(Op::FloorDiv, a, b), int(Op::Mod, a, b)),
                (Const::Int(quotient), Const::Int(rest)),
                "{a} {b}"
            );
        }
        assert_eq!(int(Op::Div, 1, 2), Const::Float(0.5));
        assert_eq!(int(Op::Pow, 2, -1), Const::Float(0.5));
        assert!(binary(Op::Mod, Const::Int(1), Const::Int(0)).is_err());
        assert!(binary(Op::Pow, Const::Int(10), Const::Int(1_000_000)).is_err());
    }
}
