//! Powers, rounding and the functions of floats.

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_core::op::{BinaryOp as WeldOp, UnaryOp};
use weld_core::ty::ScalarKind;
use weld_pysyntax::BinaryOp;

use super::{Res, Tracer, error};
use crate::types::Ty;
use crate::value::{Const, Value};

/// Powers by known exponents up to this one are products.
const PRODUCT_MAX: i64 = 64;

impl<'a> Tracer<'a> {
    pub(super) fn power(&mut self, kind: ScalarKind, a: &Value<'a>, b: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let (Some(x), Some(y)) = (a.data(), b.data()) else { return error(span, "`**` needs numbers") };
        match (kind.is_integer(), b.const_int()) {
            // A negative power is a float.
            (true, Some(exponent)) if exponent < 0 => {
                let (x, y) = (build::cast(x, ScalarKind::F64), build::f64(exponent as f64));
                self.float_power(x, y, Some(exponent as f64), span)
            }
            (true, Some(exponent)) if exponent <= PRODUCT_MAX => {
                let x = self.bind("base", build::cast(x, kind));
                self.product(x, exponent, span)
            }
            (true, _) => self.integer_power(build::cast(x, kind), build::cast(y, kind), span),
            (false, _) => {
                let known = match b {
                    Value::Const(Const::Int(value)) => Some(*value as f64),
                    Value::Const(Const::Float(value)) => Some(*value),
                    _ => None,
                };
                self.float_power(build::cast(x, kind), build::cast(y, kind), known, span)
            }
        }
    }

    /// `x` to a known power, by squaring.
    fn product(&mut self, x: Expr, exponent: i64, span: Span) -> Res<Value<'a>> {
        let kind = x.ty.as_scalar().unwrap_or(ScalarKind::I64);
        let (mut result, mut square, mut left) = (None::<Expr>, x, exponent);
        while left > 0 {
            if left & 1 == 1 {
                result = match result {
                    None => Some(square.clone()),
                    Some(result) => self.checked(BinaryOp::Mul, result, square.clone(), span)?.data(),
                };
            }
            left >>= 1;
            if left > 0 {
                let product = self.checked(BinaryOp::Mul, square.clone(), square, span)?.data();
                square = product.unwrap_or_else(|| build::number(kind, 1));
            }
        }
        Ok(Value::scalar(result.unwrap_or_else(|| build::number(kind, 1))))
    }

    /// `x ** y` of integers: squares while the exponent lasts, each checked.
    fn integer_power(&mut self, x: Expr, y: Expr, span: Span) -> Res<Value<'a>> {
        use weld_core::op::Intrinsic::CheckedMul;
        let kind = x.ty.as_scalar().unwrap_or(ScalarKind::I64);
        let (zero, one) = (build::number(kind, 0), build::number(kind, 1));
        let y = self.bind("exponent", y);
        let message = "a negative power of an integer is no integer: write a float";
        let holds = self.require(build::ge(y.clone(), zero.clone()), "ValueError", message, Vec::new(), span);
        let two = build::number(kind, 2);
        let start = build::strct([one.clone(), x, y]);
        let power = build::iterate(self.flow.names(), start, |names, state| {
            let [result, square, left] = [0, 1, 2].map(|index| build::field(state.clone(), index));
            let is_odd = build::ne(build::rem(left.clone(), two.clone()), zero.clone());
            let times = build::intrinsic(CheckedMul, [result.clone(), square.clone()]).at(span);
            let result = build::if_(is_odd, times, result);
            build::let_(names, "left", build::div(left, two), |_, left| {
                let more = build::gt(left.clone(), zero);
                let next = build::intrinsic(CheckedMul, [square.clone(), square.clone()]).at(span);
                let next = build::if_(more.clone(), next, square);
                build::strct([build::strct([result, next, left]), more])
            })
        });
        let power = build::field(power, 0);
        Ok(Value::scalar(self.under(holds, power, "power")))
    }

    fn float_power(&mut self, x: Expr, y: Expr, known: Option<f64>, span: Span) -> Res<Value<'a>> {
        let kind = x.ty.as_scalar().unwrap_or(ScalarKind::F64);
        let zero = build::number(kind, 0);
        let (x, y) = (self.bind("base", x), self.bind("exponent", y));
        if known.is_none_or(|known| known < 0.0) {
            let is_fine = build::or(build::ne(x.clone(), zero.clone()), build::ge(y.clone(), zero.clone()));
            self.require(is_fine, "ZeroDivisionError", "zero to a negative power", Vec::new(), span);
        }
        if known.is_none_or(|known| known.fract() != 0.0) {
            let is_whole = build::eq(build::unary(UnaryOp::Floor, y.clone()), y.clone());
            let is_fine = build::or(build::not(build::lt(x.clone(), zero)), is_whole);
            self.require(is_fine, "ValueError", "a fractional power of a negative number", Vec::new(), span);
        }
        let value = match known {
            Some(2.0) => build::mul(x.clone(), x.clone()),
            _ => build::pow(x.clone(), y.clone()),
        };
        let value = self.bind("power", value.at(span));
        let is_fine = build::or(is_finite(&value), build::not(build::and(is_finite(&x), is_finite(&y))));
        self.require(is_fine, "OverflowError", "the power is too large", Vec::new(), span);
        Ok(Value::scalar(value))
    }

    /// A float of a number.
    pub(super) fn float_of(&mut self, value: &Value<'a>, what: &str, span: Span) -> Res<Expr> {
        let ty = self.try_type(value);
        match (ty, value.data()) {
            (Some(Ty::Scalar(kind)), Some(x)) => {
                let x = if kind.is_float() { x } else { build::cast(x, ScalarKind::F64) };
                Ok(self.bind("x", x))
            }
            _ => error(span, format!("TypeError: `{what}` needs a number, found {}", self.described(value))),
        }
    }

    /// `sqrt(x)` and its like.
    pub(super) fn float_function(&mut self, name: &str, value: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let x = self.float_of(value, name, span)?;
        let zero = build::number(x.ty.as_scalar().unwrap_or(ScalarKind::F64), 0);
        let op = match name {
            "sqrt" => UnaryOp::Sqrt,
            "exp" => UnaryOp::Exp,
            "log" => UnaryOp::Log,
            "sin" => UnaryOp::Sin,
            "cos" => UnaryOp::Cos,
            "tan" => UnaryOp::Tan,
            "tanh" => UnaryOp::Tanh,
            _ => UnaryOp::Erf,
        };
        let domain = match name {
            "sqrt" => Some(build::not(build::lt(x.clone(), zero))),
            "log" => Some(build::not(build::le(x.clone(), zero))),
            _ => None,
        };
        if let Some(domain) = domain {
            self.require(domain, "ValueError", "math domain error", Vec::new(), span);
        }
        let value = self.bind(name, build::unary(op, x.clone()).at(span));
        if name == "exp" {
            let is_fine = build::or(is_finite(&value), build::not(is_finite(&x)));
            self.require(is_fine, "OverflowError", "math range error", Vec::new(), span);
        }
        Ok(Value::scalar(value))
    }

    /// `floor`, `ceil`, `int`, `round` of a number: an integer.
    pub(super) fn rounded(&mut self, name: &str, value: &Value<'a>, span: Span) -> Res<Value<'a>> {
        match self.try_type(value) {
            Some(Ty::Scalar(kind)) if !kind.is_float() => match (kind, value.data()) {
                (ScalarKind::Bool, Some(x)) => return Ok(self.scalar(build::cast(x, ScalarKind::I64))),
                (ScalarKind::U64, Some(x)) => {
                    let x = self.bind("x", x);
                    let fits = build::le(x.clone(), build::number(kind, i64::MAX.into()));
                    self.require(fits, "OverflowError", "the number does not fit Int64", Vec::new(), span);
                    return Ok(self.scalar(build::cast(x, ScalarKind::I64)));
                }
                (_, Some(x)) if name == "int" => return Ok(self.scalar(build::cast(x, ScalarKind::I64))),
                _ => return Ok(value.clone()),
            },
            _ => {}
        }
        let x = self.float_of(value, name, span)?;
        let not_nan = build::eq(x.clone(), x.clone());
        self.require(not_nan, "ValueError", "cannot convert NaN to an integer", Vec::new(), span);
        let whole = match name {
            "floor" => build::unary(UnaryOp::Floor, x),
            "ceil" => build::unary(UnaryOp::Ceil, x),
            "round" => half_even(self, x),
            _ => build::unary(UnaryOp::Trunc, x),
        };
        let whole = self.bind(name, build::cast(whole, ScalarKind::F64));
        let limit = 9_223_372_036_854_775_808.0;
        let is_above = build::ge(whole.clone(), build::f64(-limit));
        // A NaN was refused above, if nobody caught it.
        let fits = build::and(is_above, build::lt(whole.clone(), build::f64(limit)));
        self.require(fits, "OverflowError", "the number does not fit Int64", Vec::new(), span);
        Ok(self.scalar(build::cast(whole, ScalarKind::I64).at(span)))
    }

    /// `abs(x)`.
    pub(super) fn absolute(&mut self, value: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let (Some(Ty::Scalar(kind)), Some(x)) = (self.try_type(value), value.data()) else {
            return error(span, format!("TypeError: `abs` needs a number, found {}", self.described(value)));
        };
        match kind {
            _ if kind.is_float() => Ok(self.scalar(build::unary(UnaryOp::Abs, x).at(span))),
            ScalarKind::Bool => self.rounded("int", value, span),
            _ if !kind.is_signed() => Ok(value.clone()),
            _ => {
                let x = self.bind("x", x);
                let zero = build::number(kind, 0);
                let is_negative = build::lt(x.clone(), zero.clone());
                let part = self.bind("part", build::select(is_negative.clone(), x.clone(), zero.clone()));
                let negated = self.checked(BinaryOp::Sub, zero, part, span)?.data().unwrap_or_else(|| x.clone());
                Ok(self.scalar(build::select(is_negative, negated, x)))
            }
        }
    }
}

/// Neither infinite nor NaN.
fn is_finite(x: &Expr) -> Expr {
    let kind = x.ty.as_scalar().unwrap_or(ScalarKind::F64);
    let none = build::binary(WeldOp::Sub, x.clone(), x.clone());
    build::eq(none, build::number(kind, 0))
}

/// To the nearest whole number, halves to the even one.
fn half_even(tracer: &mut Tracer<'_>, x: Expr) -> Expr {
    let kind = x.ty.as_scalar().unwrap_or(ScalarKind::F64);
    let [one, two] = [1, 2].map(|value| build::number(kind, value));
    let half = build::div(one.clone(), two.clone());
    let floor = tracer.bind("floor", build::unary(UnaryOp::Floor, x.clone()));
    let rest = tracer.bind("rest", build::sub(x, floor.clone()));
    let halved = build::div(floor.clone(), two);
    let is_even = build::eq(build::unary(UnaryOp::Floor, halved.clone()), halved);
    let up = build::or(build::gt(rest.clone(), half.clone()), build::and(build::eq(rest, half), build::not(is_even)));
    build::select(up, build::add(floor.clone(), one), floor)
}
