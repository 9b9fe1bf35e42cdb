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

/// `round` goes up to so many digits, whose power of ten is a float.
const DIGITS_MAX: i64 = 22;

/// Floats from here on are whole numbers.
const WHOLE_FROM: f64 = 4_503_599_627_370_496.0;

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
            "log10" => UnaryOp::Log10,
            "asin" => UnaryOp::Asin,
            "acos" => UnaryOp::Acos,
            "atan" => UnaryOp::Atan,
            "sinh" => UnaryOp::Sinh,
            "cosh" => UnaryOp::Cosh,
            _ => UnaryOp::Erf,
        };
        let domain = match name {
            "sqrt" => Some(build::not(build::lt(x.clone(), zero))),
            "log" | "log10" => Some(build::not(build::le(x.clone(), zero))),
            "asin" | "acos" => {
                let one = build::number(x.ty.as_scalar().unwrap_or(ScalarKind::F64), 1);
                Some(build::not(build::gt(build::unary(UnaryOp::Abs, x.clone()), one)))
            }
            _ => None,
        };
        if let Some(domain) = domain {
            self.require(domain, "ValueError", "math domain error", Vec::new(), span);
        }
        let value = self.bind(name, build::unary(op, x.clone()).at(span));
        if matches!(name, "exp" | "sinh" | "cosh") {
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

    /// `isnan(x)`, `isinf(x)`, `isfinite(x)`.
    pub(super) fn float_kind(&mut self, name: &str, value: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let x = self.float_of(value, name, span)?;
        let is_nan = build::ne(x.clone(), x.clone());
        Ok(self.scalar(match name {
            "isnan" => is_nan,
            "isinf" => build::not(build::or(is_nan, is_finite(&x))),
            _ => is_finite(&x),
        }))
    }

    /// `round(x, digits)`: to the nearest decimal, of two to the even one, by the exact value of `x` as CPython does.
    ///
    /// `x * 10^n` is rounded and half of it an error away at most; where the rounded product is a half, the sign of
    /// that error, which a product of split factors gives exactly, says on which side the true one is.
    pub(super) fn rounded_to(&mut self, value: &Value<'a>, digits: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let kind = match self.try_type(value) {
            Some(Ty::Scalar(kind)) if kind.is_float() => kind,
            Some(Ty::Scalar(_)) if digits.const_int().is_some_and(|digits| digits >= 0) => {
                return self.rounded("round", value, span);
            }
            Some(Ty::Scalar(_)) => {
                return error(span, "unsupported: `round` of an integer to a power of ten");
            }
            _ => return error(span, format!("TypeError: `round` needs a number, found {}", self.described(value))),
        };
        let x = self.float_of(value, "round", span)?;
        let x = self.bind("x", build::cast(x, ScalarKind::F64));
        let digits = self.index_of(digits, span)?;
        let most = build::i64(DIGITS_MAX);
        let size = self.bind("size", build::max(digits.clone(), build::sub(build::i64(0), digits.clone())));
        let message = format!("`round` to {{0}} digits: at most {DIGITS_MAX}");
        self.require(build::le(size.clone(), most.clone()), "ValueError", &message, vec![digits.clone()], span);
        let powers = (0..=DIGITS_MAX).map(|power| build::f64(format!("1e{power}").parse().unwrap_or(f64::INFINITY)));
        let powers = build::vector(weld_core::ty::Type::Scalar(ScalarKind::F64), powers);
        let power = self.bind("power", build::lookup(powers, build::min(size, most)));
        let is_up = self.bind("is_up", build::ge(digits, build::i64(0)));
        let (product, quotient) = (build::mul(x.clone(), power.clone()), build::div(x.clone(), power.clone()));
        let scaled = self.bind("scaled", build::select(is_up.clone(), product, quotient));
        // How far the true value is above the rounded one: of the product its error, of the quotient what is left of
        // `x`.
        let factor = self.bind("factor", build::select(is_up.clone(), x.clone(), scaled.clone()));
        let product = self.bind("product", build::mul(factor.clone(), power.clone()));
        let low = self.product_error(&factor, &power, &product);
        let rest = build::sub(build::sub(x.clone(), product), low.clone());
        let above = self.bind("above", build::select(is_up.clone(), low, rest));
        let floor = self.bind("floor", build::unary(UnaryOp::Floor, scaled.clone()));
        let part = build::sub(scaled.clone(), floor.clone());
        let (zero, one) = (build::f64(0.0), build::f64(1.0));
        let is_half = self.bind("is_half", build::eq(part, build::f64(0.5)));
        let even = half_even(self, scaled.clone());
        let up = build::add(floor.clone(), one);
        let of_half = build::select(build::gt(above.clone(), zero.clone()), up, floor);
        let is_off = build::and(is_half, build::ne(above, zero));
        let whole = self.bind("whole", build::select(is_off, of_half, even));
        let result = build::select(is_up, build::div(whole.clone(), power.clone()), build::mul(whole.clone(), power));
        // A zero keeps the sign.
        let signed = build::select(build::eq(whole, build::f64(0.0)), build::mul(x.clone(), build::f64(0.0)), result);
        let is_small = build::lt(build::unary(UnaryOp::Abs, scaled), build::f64(WHOLE_FROM));
        let rounded = self.bind("rounded", build::select(is_small, signed, x));
        Ok(self.scalar(build::cast(rounded, kind)))
    }

    /// What the rounded product of two numbers is too small by: Dekker's product.
    fn product_error(&mut self, a: &Expr, b: &Expr, product: &Expr) -> Expr {
        let mut split = |x: &Expr| {
            let scaled = self.bind("scaled", build::mul(x.clone(), build::f64(134_217_729.0)));
            let high = self.bind("high", build::sub(scaled.clone(), build::sub(scaled, x.clone())));
            let low = self.bind("low", build::sub(x.clone(), high.clone()));
            (high, low)
        };
        let ((a_high, a_low), (b_high, b_low)) = (split(a), split(b));
        let error = build::sub(build::mul(a_high.clone(), b_high.clone()), product.clone());
        let error = build::add(error, build::mul(a_high, b_low.clone()));
        let error = build::add(error, build::mul(a_low.clone(), b_high));
        self.bind("error", build::add(error, build::mul(a_low, b_low)))
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
