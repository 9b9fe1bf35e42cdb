//! Operators on scalars: `binary`, `unary` and `cast` over literals. Also what constant folding uses.
//!
//! Integers wrap; `/` and `%` by zero are errors, as is MIN / -1 (MIN % -1 is 0). Floats follow IEEE 754; `%` is
//! `fmod`; `min` and `max` return the other operand of a NaN and order -0.0 below 0.0.

use std::cmp::Ordering;

use super::compare::compare_literals;
use crate::ir::Literal;
use crate::op::{BinaryOp, UnaryOp};
use crate::runtime_error::RuntimeErrorKind;
use crate::ty::ScalarKind;

/// Applies the body to two literals of one integer kind.
macro_rules! on_integers {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $body:expr) => {
        match ($a, $b) {
            (Literal::I8($x), Literal::I8($y)) => Some(Literal::I8($body)),
            (Literal::I16($x), Literal::I16($y)) => Some(Literal::I16($body)),
            (Literal::I32($x), Literal::I32($y)) => Some(Literal::I32($body)),
            (Literal::I64($x), Literal::I64($y)) => Some(Literal::I64($body)),
            (Literal::I128($x), Literal::I128($y)) => Some(Literal::I128($body)),
            (Literal::U8($x), Literal::U8($y)) => Some(Literal::U8($body)),
            (Literal::U16($x), Literal::U16($y)) => Some(Literal::U16($body)),
            (Literal::U32($x), Literal::U32($y)) => Some(Literal::U32($body)),
            (Literal::U64($x), Literal::U64($y)) => Some(Literal::U64($body)),
            _ => None,
        }
    };
}

macro_rules! on_floats {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $body:expr) => {
        match ($a, $b) {
            (Literal::F32($x), Literal::F32($y)) => Some(Literal::F32($body)),
            (Literal::F64($x), Literal::F64($y)) => Some(Literal::F64($body)),
            _ => None,
        }
    };
}

/// `a op b` of two scalars of one kind. `Internal` if the operator does not take that kind.
pub fn binary(op: BinaryOp, a: Literal, b: Literal) -> Result<Literal, RuntimeErrorKind> {
    if op.is_comparison() {
        return Ok(Literal::Bool(holds(op, compare_literals(a, b))));
    }
    if let (Literal::Bool(a), Literal::Bool(b)) = (a, b) {
        return match op {
            BinaryOp::And | BinaryOp::BitAnd => Ok(Literal::Bool(a & b)),
            BinaryOp::Or | BinaryOp::BitOr => Ok(Literal::Bool(a | b)),
            BinaryOp::BitXor => Ok(Literal::Bool(a ^ b)),
            _ => Err(RuntimeErrorKind::Internal),
        };
    }
    let value = if a.kind().is_float() { float(op, a, b) } else { integer(op, a, b)? };
    value.ok_or(RuntimeErrorKind::Internal)
}

/// Whether a comparison holds of two values in this order (`None`: unordered).
pub fn holds(op: BinaryOp, order: Option<Ordering>) -> bool {
    match op {
        BinaryOp::Eq => order == Some(Ordering::Equal),
        BinaryOp::Ne => order != Some(Ordering::Equal),
        BinaryOp::Lt => order == Some(Ordering::Less),
        BinaryOp::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        BinaryOp::Gt => order == Some(Ordering::Greater),
        BinaryOp::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        _ => false,
    }
}

fn integer(op: BinaryOp, a: Literal, b: Literal) -> Result<Option<Literal>, RuntimeErrorKind> {
    if matches!(op, BinaryOp::Div | BinaryOp::Rem) && b.bits() == 0 {
        return Err(RuntimeErrorKind::DivisionByZero);
    }
    Ok(match op {
        BinaryOp::Add => on_integers!(a, b, |x, y| x.wrapping_add(y)),
        BinaryOp::Sub => on_integers!(a, b, |x, y| x.wrapping_sub(y)),
        BinaryOp::Mul => on_integers!(a, b, |x, y| x.wrapping_mul(y)),
        BinaryOp::Div => on_integers!(a, b, |x, y| x.checked_div(y).ok_or(RuntimeErrorKind::Overflow)?),
        BinaryOp::Rem => on_integers!(a, b, |x, y| x.wrapping_rem(y)),
        BinaryOp::BitAnd => on_integers!(a, b, |x, y| x & y),
        BinaryOp::BitOr => on_integers!(a, b, |x, y| x | y),
        BinaryOp::BitXor => on_integers!(a, b, |x, y| x ^ y),
        BinaryOp::Min => on_integers!(a, b, |x, y| x.min(y)),
        BinaryOp::Max => on_integers!(a, b, |x, y| x.max(y)),
        _ => None,
    })
}

fn float(op: BinaryOp, a: Literal, b: Literal) -> Option<Literal> {
    match op {
        BinaryOp::Add => on_floats!(a, b, |x, y| x + y),
        BinaryOp::Sub => on_floats!(a, b, |x, y| x - y),
        BinaryOp::Mul => on_floats!(a, b, |x, y| x * y),
        BinaryOp::Div => on_floats!(a, b, |x, y| x / y),
        BinaryOp::Rem => on_floats!(a, b, |x, y| x % y),
        BinaryOp::Min => {
            on_floats!(a, b, |x, y| if x.is_nan() || y < x || (x == y && y.is_sign_negative()) { y } else { x })
        }
        BinaryOp::Max => {
            on_floats!(a, b, |x, y| if x.is_nan() || y > x || (x == y && y.is_sign_positive()) { y } else { x })
        }
        BinaryOp::Pow => on_floats!(a, b, |x, y| x.powf(y)),
        _ => None,
    }
}

/// `op(a)`. `None` if the operator does not take that kind.
pub fn unary(op: UnaryOp, a: Literal) -> Option<Literal> {
    match (op, a) {
        (UnaryOp::Not, Literal::Bool(v)) => Some(Literal::Bool(!v)),
        (UnaryOp::Neg, Literal::F32(v)) => Some(Literal::F32(-v)),
        (UnaryOp::Neg, Literal::F64(v)) => Some(Literal::F64(-v)),
        (UnaryOp::Neg, a) => on_integers!(a, a, |x, _y| x.wrapping_neg()),
        (UnaryOp::Abs, a) if a.kind().is_signed() => {
            on_integers!(a, a, |x, _y| if x < 0 as _ { x.wrapping_neg() } else { x })
        }
        (op, Literal::F32(v)) => math_f32(op, v).map(Literal::F32),
        (op, Literal::F64(v)) => math_f64(op, v).map(Literal::F64),
        _ => None,
    }
}

fn math_f32(op: UnaryOp, v: f32) -> Option<f32> {
    Some(match op {
        UnaryOp::Exp => v.exp(),
        UnaryOp::Log => v.ln(),
        UnaryOp::Sqrt => v.sqrt(),
        UnaryOp::Sin => v.sin(),
        UnaryOp::Cos => v.cos(),
        UnaryOp::Tan => v.tan(),
        UnaryOp::Asin => v.asin(),
        UnaryOp::Acos => v.acos(),
        UnaryOp::Atan => v.atan(),
        UnaryOp::Sinh => v.sinh(),
        UnaryOp::Cosh => v.cosh(),
        UnaryOp::Tanh => v.tanh(),
        UnaryOp::Erf => libm::erff(v),
        UnaryOp::Log10 => v.log10(),
        UnaryOp::Floor => v.floor(),
        UnaryOp::Ceil => v.ceil(),
        UnaryOp::Trunc => v.trunc(),
        UnaryOp::Round => v.round(),
        UnaryOp::Abs => v.abs(),
        UnaryOp::Neg | UnaryOp::Not => return None,
    })
}

fn math_f64(op: UnaryOp, v: f64) -> Option<f64> {
    Some(match op {
        UnaryOp::Exp => v.exp(),
        UnaryOp::Log => v.ln(),
        UnaryOp::Sqrt => v.sqrt(),
        UnaryOp::Sin => v.sin(),
        UnaryOp::Cos => v.cos(),
        UnaryOp::Tan => v.tan(),
        UnaryOp::Asin => v.asin(),
        UnaryOp::Acos => v.acos(),
        UnaryOp::Atan => v.atan(),
        UnaryOp::Sinh => v.sinh(),
        UnaryOp::Cosh => v.cosh(),
        UnaryOp::Tanh => v.tanh(),
        UnaryOp::Erf => libm::erf(v),
        UnaryOp::Log10 => v.log10(),
        UnaryOp::Floor => v.floor(),
        UnaryOp::Ceil => v.ceil(),
        UnaryOp::Trunc => v.trunc(),
        UnaryOp::Round => v.round(),
        UnaryOp::Abs => v.abs(),
        UnaryOp::Neg | UnaryOp::Not => return None,
    })
}

/// Conversion to another kind: integers wrap, floats truncate and saturate (NaN gives 0), anything but zero is true.
pub fn cast(a: Literal, to: ScalarKind) -> Literal {
    match a {
        Literal::F32(v) => cast_float(f64::from(v), to, v),
        Literal::F64(v) => cast_float(v, to, v as f32),
        _ => cast_integer(a.bits(), to),
    }
}

/// `as_f32` is the value rounded to `f32` once.
fn cast_float(v: f64, to: ScalarKind, as_f32: f32) -> Literal {
    match to {
        ScalarKind::Bool => Literal::Bool(v != 0.0),
        ScalarKind::I8 => Literal::I8(v as i8),
        ScalarKind::I16 => Literal::I16(v as i16),
        ScalarKind::I32 => Literal::I32(v as i32),
        ScalarKind::I64 => Literal::I64(v as i64),
        ScalarKind::I128 => Literal::I128(v as i128),
        ScalarKind::U8 => Literal::U8(v as u8),
        ScalarKind::U16 => Literal::U16(v as u16),
        ScalarKind::U32 => Literal::U32(v as u32),
        ScalarKind::U64 => Literal::U64(v as u64),
        ScalarKind::F32 => Literal::F32(as_f32),
        ScalarKind::F64 => Literal::F64(v),
    }
}

fn cast_integer(v: i128, to: ScalarKind) -> Literal {
    match to {
        ScalarKind::Bool => Literal::Bool(v != 0),
        ScalarKind::I8 => Literal::I8(v as i8),
        ScalarKind::I16 => Literal::I16(v as i16),
        ScalarKind::I32 => Literal::I32(v as i32),
        ScalarKind::I64 => Literal::I64(v as i64),
        ScalarKind::I128 => Literal::I128(v),
        ScalarKind::U8 => Literal::U8(v as u8),
        ScalarKind::U16 => Literal::U16(v as u16),
        ScalarKind::U32 => Literal::U32(v as u32),
        ScalarKind::U64 => Literal::U64(v as u64),
        ScalarKind::F32 => Literal::F32(v as f32),
        ScalarKind::F64 => Literal::F64(v as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f(v: f64) -> Literal {
        Literal::F64(v)
    }

    #[test]
    fn division() {
        let div = |a, b| binary(BinaryOp::Div, Literal::I32(a), Literal::I32(b));
        assert_eq!(div(-7, 2), Ok(Literal::I32(-3)));
        assert_eq!(div(1, 0), Err(RuntimeErrorKind::DivisionByZero));
        assert_eq!(div(i32::MIN, -1), Err(RuntimeErrorKind::Overflow));
        assert_eq!(binary(BinaryOp::Rem, Literal::I32(i32::MIN), Literal::I32(-1)), Ok(Literal::I32(0)));
        assert_eq!(binary(BinaryOp::Div, f(1.0), f(0.0)), Ok(f(f64::INFINITY)));
    }

    #[test]
    fn min_and_max_pass_nan_by() {
        for op in [BinaryOp::Min, BinaryOp::Max] {
            assert_eq!(binary(op, f(f64::NAN), f(1.0)), Ok(f(1.0)));
            assert_eq!(binary(op, f(1.0), f(f64::NAN)), Ok(f(1.0)));
        }
        assert_eq!(binary(BinaryOp::Min, f(0.0), f(-0.0)), Ok(f(-0.0)));
        assert_eq!(binary(BinaryOp::Max, f(-0.0), f(0.0)), Ok(f(0.0)));
        assert_eq!(binary(BinaryOp::Max, f(0.0), f(-0.0)), Ok(f(0.0)));
    }

    #[test]
    fn casts() {
        assert_eq!(cast(Literal::I32(300), ScalarKind::U8), Literal::U8(44));
        assert_eq!(cast(f(-1.5), ScalarKind::U8), Literal::U8(0));
        assert_eq!(cast(f(1e30), ScalarKind::I64), Literal::I64(i64::MAX));
        assert_eq!(cast(f(f64::NAN), ScalarKind::I64), Literal::I64(0));
        assert_eq!(cast(f(f64::NAN), ScalarKind::Bool), Literal::Bool(true));
        assert_eq!(cast(Literal::U64(u64::MAX), ScalarKind::I64), Literal::I64(-1));
        assert_eq!(cast(Literal::Bool(true), ScalarKind::F32), Literal::F32(1.0));
    }
}
