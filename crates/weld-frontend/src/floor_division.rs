//! `//` and `%` of floats as Python and NumPy have them: the quotient is rounded down and the rest has the divisor's
//! sign, zeros included. The quotient is made from the rest, so that it is not rounded up to the next integer:
//! `1.0 // 0.1` is 9.

use weld_core::diag::Span;
use weld_core::ir::{Expr, Names, build};
use weld_core::op::UnaryOp;
use weld_core::ty::ScalarKind;

/// The quotient and the rest of two numbers, of which the second is not 0.
pub fn constants(x: f64, y: f64) -> (f64, f64) {
    let rest = x % y;
    let is_low = rest != 0.0 && (rest < 0.0) != (y < 0.0);
    let quotient = (x - rest) / y - f64::from(is_low);
    let floor = quotient.floor();
    let rounded = if quotient - floor > 0.5 { floor + 1.0 } else { floor };
    let rest = if is_low { rest + y } else { rest };
    (
        if quotient == 0.0 { 0.0_f64.copysign(x / y) } else { rounded },
        if rest == 0.0 { 0.0_f64.copysign(y) } else { rest },
    )
}

/// `x % y`; no number where `y` is 0. The operands are evaluated more than once.
pub fn rest(names: &mut Names, x: Expr, y: Expr, span: Span) -> Expr {
    let zero = build::zero(&y.ty);
    with_rest(names, x, y.clone(), span, |_, rest, is_low| {
        let signed_zero = build::select(build::lt(y.clone(), zero.clone()), build::neg(zero.clone()), zero.clone());
        let rest_or_zero = build::select(build::eq(rest.clone(), zero), signed_zero, rest.clone());
        build::select(is_low, build::add(rest, y), rest_or_zero)
    })
}

/// `x // y`, where `y` is not 0. The operands are evaluated more than once.
pub fn quotient(names: &mut Names, x: Expr, y: Expr, span: Span) -> Expr {
    let zero = build::zero(&y.ty);
    let one = build::number(y.ty.as_scalar().unwrap_or(ScalarKind::F64), 1);
    let half = build::div(one.clone(), build::add(one.clone(), one.clone()));
    with_rest(names, x.clone(), y.clone(), span, |names, rest, is_low| {
        let quotient = build::div(build::sub(x.clone(), rest), y.clone());
        let quotient = build::sub(quotient, build::select(is_low, one.clone(), zero.clone()));
        build::let_(names, "quotient", quotient, |names, quotient| {
            build::let_(names, "floor", build::unary(UnaryOp::Floor, quotient.clone()), |_, floor| {
                let is_high = build::gt(build::sub(quotient.clone(), floor.clone()), half);
                let rounded = build::add(floor, build::select(is_high, one, zero.clone()));
                let none = build::mul(zero.clone(), build::div(x, y));
                build::select(build::eq(quotient, zero), none, rounded)
            })
        })
    })
}

/// The rest of a division that truncates, and whether the one that rounds down gives one less.
fn with_rest(names: &mut Names, x: Expr, y: Expr, span: Span, f: impl FnOnce(&mut Names, Expr, Expr) -> Expr) -> Expr {
    let zero = build::zero(&y.ty);
    let rest = build::rem(x, y.clone()).at(span);
    build::let_(names, "rest", rest, |names, rest| {
        let differs = build::ne(build::lt(rest.clone(), zero.clone()), build::lt(y, zero.clone()));
        let is_low = build::bit_and(build::ne(rest.clone(), zero), differs);
        build::let_(names, "is_low", is_low, |names, is_low| f(names, rest, is_low))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_divided_as_in_python() {
        let cases = [
            (1.0, 0.1, 9.0, 0.1 - 5.551_115_123_125_783e-17),
            (-7.0, 2.0, -4.0, 1.0),
            (7.0, -2.0, -4.0, -1.0),
            (-1.0, -3.0, 0.0, -1.0),
            (-0.0, 3.0, -0.0, 0.0),
            (0.0, -3.0, -0.0, -0.0),
            (6.0, -3.0, -2.0, -0.0),
            (-1e-20, 1.0, -1.0, 1.0),
            (1.0, f64::NEG_INFINITY, -1.0, f64::NEG_INFINITY),
        ];
        for (x, y, quotient, rest) in cases {
            let found = constants(x, y);
            assert_eq!((found.0.to_bits(), found.1.to_bits()), (f64::to_bits(quotient), f64::to_bits(rest)), "{x} {y}");
        }
    }
}
