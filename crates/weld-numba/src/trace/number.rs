//! Arithmetic and comparisons, with Python's results: checked integers, floored division, no division by zero.

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_core::op::Intrinsic;
use weld_core::ty::ScalarKind;
use weld_frontend::floor_division;
use weld_pysyntax::{BinaryOp, CompareOp, UnaryOp};

use super::{Res, Tracer, error};
use crate::types::Ty;
use crate::value::{Const, Value, literal_int};

/// The special methods of an operator: of its left operand, and of its right one.
fn special(op: BinaryOp) -> (&'static str, &'static str) {
    match op {
        BinaryOp::Add => ("__add__", "__radd__"),
        BinaryOp::Sub => ("__sub__", "__rsub__"),
        BinaryOp::Mul => ("__mul__", "__rmul__"),
        BinaryOp::Div => ("__truediv__", "__rtruediv__"),
        BinaryOp::FloorDiv => ("__floordiv__", "__rfloordiv__"),
        BinaryOp::Mod => ("__mod__", "__rmod__"),
        BinaryOp::Pow => ("__pow__", "__rpow__"),
        BinaryOp::BitAnd => ("__and__", "__rand__"),
        BinaryOp::BitOr => ("__or__", "__ror__"),
        BinaryOp::BitXor => ("__xor__", "__rxor__"),
        BinaryOp::ShiftLeft => ("__lshift__", "__rlshift__"),
        BinaryOp::ShiftRight => ("__rshift__", "__rrshift__"),
        BinaryOp::MatMul => ("__matmul__", "__rmatmul__"),
    }
}

impl<'a> Tracer<'a> {
    pub(super) fn binary(&mut self, op: BinaryOp, a: &Value<'a>, b: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let (left, right) = special(op);
        if self.has_method(a, left) {
            return self.call_method(a, left, vec![b.clone()], span);
        }
        if self.has_method(b, right) {
            return self.call_method(b, right, vec![a.clone()], span);
        }
        if let (Value::Const(x), Value::Const(y)) = (a, b)
            && let Some(known) = fold(op, x, y)
        {
            return Ok(Value::Const(known));
        }
        match (op, a, b) {
            (BinaryOp::Add, Value::Tuple(x), Value::Tuple(y)) => Ok(Value::tuple(x.iter().chain(y.iter()).cloned())),
            (BinaryOp::Add, Value::List(_), Value::List(_)) => self.concatenated(a, b, span),
            (BinaryOp::Mul, Value::Tuple(parts), times) | (BinaryOp::Mul, times, Value::Tuple(parts)) => {
                let Some(times) = times.const_int() else {
                    return error(span, "a tuple is repeated a number of times that is known when compiled");
                };
                let times = usize::try_from(times).unwrap_or(0);
                self.spent.calls += times.saturating_mul(parts.len());
                if self.spent.calls > self.limits.instances {
                    return error(span, "the tuple is too long");
                }
                Ok(Value::tuple((0..times).flat_map(|_| parts.iter().cloned()).collect::<Vec<_>>()))
            }
            (BinaryOp::Mul, Value::List(list), times) | (BinaryOp::Mul, times, Value::List(list)) => {
                self.repeated(*list, times, span)
            }
            _ => match (self.try_type(a), self.try_type(b)) {
                (Some(Ty::Str), Some(Ty::Str)) if op == BinaryOp::Add => self.concatenated(a, b, span),
                (Some(Ty::Str), Some(y)) if op == BinaryOp::Mul && y.number().is_some() => {
                    let text = a.data().unwrap_or_else(|| build::bytes(*b""));
                    self.repeated_text(text, b, span)
                }
                (Some(x), Some(Ty::Str)) if op == BinaryOp::Mul && x.number().is_some() => {
                    let text = b.data().unwrap_or_else(|| build::bytes(*b""));
                    self.repeated_text(text, a, span)
                }
                (Some(x), Some(y)) if x.number().is_some() && y.number().is_some() => self.numbers(op, a, b, span),
                (Some(Ty::Scalar(ScalarKind::Bool)), Some(Ty::Scalar(ScalarKind::Bool))) if is_bits(op) => {
                    let (Some(x), Some(y)) = (a.data(), b.data()) else {
                        return self.no_operator(op.text(), a, b, span);
                    };
                    Ok(self.scalar(bits(op, x, y).at(span)))
                }
                _ => self.no_operator(op.text(), a, b, span),
            },
        }
    }

    fn no_operator<T>(&mut self, op: &str, a: &Value<'a>, b: &Value<'a>, span: Span) -> Res<T> {
        let (a, b) = (self.described(a), self.described(b));
        error(span, format!("TypeError: `{op}` does not work on {a} and {b}"))
    }

    /// The kind that two numbers go to. A literal takes the other's kind where it fits.
    fn common(&mut self, a: &Value<'a>, b: &Value<'a>) -> Option<ScalarKind> {
        let (x, y) = (self.try_type(a)?.number()?, self.try_type(b)?.number()?);
        match (a, b) {
            (Value::Const(Const::Float(_)), Value::Data(..)) if y == ScalarKind::F32 => Some(y),
            (Value::Data(..), Value::Const(Const::Float(_) | Const::Int(_))) if x == ScalarKind::F32 => Some(x),
            (Value::Const(Const::Int(_)), Value::Data(..)) if y == ScalarKind::F32 => Some(y),
            (Value::Data(..), Value::Const(Const::Int(value))) if x == ScalarKind::U64 && *value >= 0 => Some(x),
            (Value::Const(Const::Int(value)), Value::Data(..)) if y == ScalarKind::U64 && *value >= 0 => Some(y),
            _ => Ty::Scalar(x).unify(&Ty::Scalar(y))?.number(),
        }
    }

    fn numbers(&mut self, op: BinaryOp, a: &Value<'a>, b: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let (Some(kind), Some(x), Some(y)) = (self.common(a, b), a.data(), b.data()) else {
            return self.no_operator(op.text(), a, b, span);
        };
        if op == BinaryOp::Pow {
            return self.power(kind, a, b, span);
        }
        let kind = if op == BinaryOp::Div && kind.is_integer() { ScalarKind::F64 } else { kind };
        let (x, y) = (build::cast(x, kind), build::cast(y, kind));
        let value = match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul if kind.is_integer() => return self.checked(op, x, y, span),
            BinaryOp::Add => build::add(x, y),
            BinaryOp::Sub => build::sub(x, y),
            BinaryOp::Mul => build::mul(x, y),
            BinaryOp::Div => return self.divided(x, y, span),
            BinaryOp::FloorDiv | BinaryOp::Mod => return self.floored(op, x, y, span),
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight if kind.is_integer() => {
                return self.shifted(op, (kind, x), b, span);
            }
            _ if is_bits(op) && kind.is_integer() => bits(op, x, y),
            _ => return self.no_operator(op.text(), a, b, span),
        };
        Ok(self.scalar(value.at(span)))
    }

    /// A sum, difference or product of integers that fits.
    pub(super) fn checked(&mut self, op: BinaryOp, x: Expr, y: Expr, span: Span) -> Res<Value<'a>> {
        if self.handler("OverflowError").is_some() || !self.place.pending.is_empty() {
            return self.checked_wide(op, x, y, span);
        }
        let intrinsic = match op {
            BinaryOp::Add => Intrinsic::CheckedAdd,
            BinaryOp::Sub => Intrinsic::CheckedSub,
            _ => Intrinsic::CheckedMul,
        };
        Ok(self.scalar(build::intrinsic(intrinsic, [x, y]).at(span)))
    }

    /// The same where the error is caught, or must not be raised because of a jump that is under way.
    fn checked_wide(&mut self, op: BinaryOp, x: Expr, y: Expr, span: Span) -> Res<Value<'a>> {
        let kind = x.ty.as_scalar().unwrap_or(ScalarKind::I64);
        let (x, y) = (build::cast(x, ScalarKind::I128), build::cast(y, ScalarKind::I128));
        let wide = match op {
            BinaryOp::Add => build::add(x, y),
            BinaryOp::Sub => build::sub(x, y),
            _ => build::mul(x, y),
        };
        let wide = self.bind("wide", wide);
        let narrow = self.bind("x", build::cast(wide.clone(), kind));
        let holds = build::eq(build::cast(narrow.clone(), ScalarKind::I128), wide);
        self.require(holds, "OverflowError", "integer overflow", Vec::new(), span);
        Ok(Value::scalar(narrow))
    }

    /// `x << n`, `x >> n`: products and floored quotients of powers of two.
    fn shifted(&mut self, op: BinaryOp, (kind, x): (ScalarKind, Expr), by: &Value<'a>, span: Span) -> Res<Value<'a>> {
        if kind == ScalarKind::U64 {
            return error(span, format!("unsupported: `{}` of UInt64", op.text()));
        }
        let by = self.index_of(by, span)?;
        let is_fine = match literal_int(&by) {
            Some(known) => build::bool(known >= 0),
            None => build::ge(by.clone(), build::i64(0)),
        };
        self.require(is_fine, "ValueError", "negative shift count", Vec::new(), span);
        // A power of two that fits, twice: more than 63 bits are all of a number.
        const MOST: i64 = 62;
        let most = || build::i64(MOST);
        let first = match literal_int(&by) {
            Some(known) => build::i64(known.clamp(0, MOST)),
            None => build::max(build::min(by.clone(), most()), build::i64(0)),
        };
        let second = match literal_int(&by) {
            Some(known) => build::i64((known - known.clamp(0, MOST)).clamp(0, MOST)),
            None => build::min(build::max(build::sub(by, most()), build::i64(0)), most()),
        };
        let mut value = self.scalar(build::cast(x, ScalarKind::I64));
        for part in [first, second] {
            if literal_int(&part) == Some(0) {
                continue;
            }
            let part = match literal_int(&part) {
                Some(known) => Value::int(known),
                None => self.scalar(part),
            };
            let factor = self.binary(BinaryOp::Pow, &Value::int(2), &part, span)?;
            let op = if op == BinaryOp::ShiftLeft { BinaryOp::Mul } else { BinaryOp::FloorDiv };
            value = self.binary(op, &value, &factor, span)?;
        }
        match kind {
            ScalarKind::I64 => Ok(value),
            kind => self.cast(&value, &Ty::Scalar(kind), span),
        }
    }

    fn divided(&mut self, x: Expr, y: Expr, span: Span) -> Res<Value<'a>> {
        let y = self.bind("divisor", y);
        let zero = number_zero(&y);
        self.require(build::ne(y.clone(), zero), "ZeroDivisionError", "division by zero", Vec::new(), span);
        Ok(self.scalar(build::div(x, y).at(span)))
    }

    /// `//` and `%`, which round down.
    fn floored(&mut self, op: BinaryOp, x: Expr, y: Expr, span: Span) -> Res<Value<'a>> {
        let (x, y) = (self.bind("dividend", x), self.bind("divisor", y));
        let kind = y.ty.as_scalar().unwrap_or(ScalarKind::I64);
        let known = literal_int(&y).filter(|value| *value != 0);
        let holds = match known {
            Some(_) => None,
            None => {
                let text =
                    if kind.is_float() { "float floor division by zero" } else { "integer division or modulo by zero" };
                self.require(build::ne(y.clone(), number_zero(&y)), "ZeroDivisionError", text, Vec::new(), span)
            }
        };
        let value = match (kind.is_float(), op) {
            (true, BinaryOp::Mod) => floor_division::rest(self.flow.names(), x, y, span),
            (true, _) => floor_division::quotient(self.flow.names(), x, y, span),
            (false, BinaryOp::Mod) => self.modulo(x, y, known, span),
            (false, _) => self.quotient(x, y, known, span),
        };
        Ok(Value::scalar(self.under(holds, value, "x")))
    }

    fn quotient(&mut self, x: Expr, y: Expr, known: Option<i64>, span: Span) -> Expr {
        let kind = y.ty.as_scalar().unwrap_or(ScalarKind::I64);
        let quotient = build::div(x.clone(), y.clone()).at(span);
        if !kind.is_signed() {
            return quotient;
        }
        build::let_(self.flow.names(), "quotient", quotient, |names, quotient| {
            let rest = build::sub(x, build::mul(quotient.clone(), y.clone()));
            build::let_(names, "rest", rest, |_, rest| {
                let is_low = differs_in_sign(&rest, &y, known);
                build::sub(quotient, build::cast(is_low, kind))
            })
        })
    }

    fn modulo(&mut self, x: Expr, y: Expr, known: Option<i64>, span: Span) -> Expr {
        let kind = y.ty.as_scalar().unwrap_or(ScalarKind::I64);
        let rest = build::rem(x, y.clone()).at(span);
        if !kind.is_signed() {
            return rest;
        }
        build::let_(self.flow.names(), "rest", rest, |_, rest| {
            let is_low = differs_in_sign(&rest, &y, known);
            build::select(is_low, build::add(rest.clone(), y), rest)
        })
    }

    pub(super) fn unary_value(&mut self, op: UnaryOp, value: &Value<'a>, span: Span) -> Res<Value<'a>> {
        match (op, value) {
            (UnaryOp::Neg, Value::Const(Const::Int(known))) if *known != i64::MIN => return Ok(Value::int(-known)),
            (UnaryOp::Neg, Value::Const(Const::Float(known))) => return Ok(Value::Const(Const::Float(-known))),
            (UnaryOp::Neg, _) if self.has_method(value, "__neg__") => {
                return self.call_method(value, "__neg__", Vec::new(), span);
            }
            (UnaryOp::Pos, _) if self.has_method(value, "__pos__") => {
                return self.call_method(value, "__pos__", Vec::new(), span);
            }
            (UnaryOp::Invert, _) if self.has_method(value, "__invert__") => {
                return self.call_method(value, "__invert__", Vec::new(), span);
            }
            _ => {}
        }
        let ty = self.try_type(value);
        let (Some(kind), Some(x)) = (ty.and_then(|ty| ty.number()), value.data()) else {
            let value = self.described(value);
            return error(span, format!("TypeError: `{}` does not work on {value}", op.text()));
        };
        match op {
            UnaryOp::Pos => Ok(value.clone()),
            UnaryOp::Neg if kind.is_float() => Ok(self.scalar(build::neg(x).at(span))),
            UnaryOp::Neg => self.checked(BinaryOp::Sub, build::number(kind, 0), x, span),
            UnaryOp::Invert if kind.is_integer() => {
                Ok(self.scalar(build::bit_xor(x, build::number(kind, -1)).at(span)))
            }
            _ => error(span, format!("TypeError: `{}` does not work on {}", op.text(), self.described(value))),
        }
    }

    // Comparisons.

    pub(super) fn compare_values(&mut self, op: CompareOp, a: &Value<'a>, b: &Value<'a>, span: Span) -> Res<Value<'a>> {
        if let Some(value) = self.compare_objects(op, a, b, span)? {
            return Ok(value);
        }
        match (a, b) {
            (Value::Const(x), Value::Const(y)) => {
                if let Some(known) = fold_comparison(op, x, y) {
                    return Ok(Value::bool(known));
                }
            }
            (Value::Type(x), Value::Type(y)) if matches!(op, CompareOp::Eq | CompareOp::Ne) => {
                return Ok(Value::bool((x == y) == (op == CompareOp::Eq)));
            }
            (Value::Tuple(x), Value::Tuple(y)) if x.len() != y.len() => return self.compare_lengths(op, x, y, span),
            (Value::None, other) | (other, Value::None) if matches!(op, CompareOp::Eq | CompareOp::Ne) => {
                return Ok(Value::bool(matches!(other, Value::None) == (op == CompareOp::Eq)));
            }
            _ => {}
        }
        let (Some(x), Some(y)) = (self.try_type(a), self.try_type(b)) else {
            return self.no_operator(op.text(), a, b, span);
        };
        let (x, y) = match self.common(a, b) {
            Some(kind) => {
                let (Some(x), Some(y)) = (a.data(), b.data()) else { return self.no_operator(op.text(), a, b, span) };
                (build::cast(x, kind), build::cast(y, kind))
            }
            None => match x.unify(&y) {
                Some(ty) if !matches!(ty, Ty::Object(_)) => (self.coerced(a, &ty, span)?, self.coerced(b, &ty, span)?),
                _ => return self.no_operator(op.text(), a, b, span),
            },
        };
        let compare = match op {
            CompareOp::Eq => build::eq,
            CompareOp::Ne => build::ne,
            CompareOp::Lt => build::lt,
            CompareOp::Le => build::le,
            CompareOp::Gt => build::gt,
            _ => build::ge,
        };
        Ok(self.scalar(compare(x, y).at(span)))
    }

    /// The comparison of tuples of several lengths: where one begins as the other, the shorter is less.
    fn compare_lengths(&mut self, op: CompareOp, a: &[Value<'a>], b: &[Value<'a>], span: Span) -> Res<Value<'a>> {
        let is_longer = a.len() > b.len();
        let of_beginnings = match op {
            CompareOp::Eq | CompareOp::Ne => return Ok(Value::bool(op == CompareOp::Ne)),
            CompareOp::Lt | CompareOp::Le if is_longer => CompareOp::Lt,
            CompareOp::Lt | CompareOp::Le => CompareOp::Le,
            _ if is_longer => CompareOp::Ge,
            _ => CompareOp::Gt,
        };
        let count = a.len().min(b.len());
        if count == 0 {
            return Ok(Value::bool(matches!(of_beginnings, CompareOp::Le | CompareOp::Ge)));
        }
        let [a, b] = [a, b].map(|parts| Value::tuple(parts[..count].iter().cloned()));
        self.compare_values(of_beginnings, &a, &b, span)
    }

    /// The comparison of objects by their special methods.
    fn compare_objects(&mut self, op: CompareOp, a: &Value<'a>, b: &Value<'a>, span: Span) -> Res<Option<Value<'a>>> {
        let (method, swapped) = match op {
            CompareOp::Eq | CompareOp::Ne => ("__eq__", "__eq__"),
            CompareOp::Lt => ("__lt__", "__gt__"),
            CompareOp::Gt => ("__gt__", "__lt__"),
            CompareOp::Le => ("__le__", "__ge__"),
            _ => ("__ge__", "__le__"),
        };
        if op == CompareOp::Ne && self.has_method(a, "__ne__") {
            return self.call_method(a, "__ne__", vec![b.clone()], span).map(Some);
        }
        let value = if self.has_method(a, method) {
            self.call_method(a, method, vec![b.clone()], span)?
        } else if self.has_method(b, swapped) {
            self.call_method(b, swapped, vec![a.clone()], span)?
        } else {
            return Ok(None);
        };
        match op {
            CompareOp::Ne => {
                let value = self.truth(&value, span)?;
                self.negated(value).map(Some)
            }
            _ => Ok(Some(value)),
        }
    }
}

fn number_zero(like: &Expr) -> Expr {
    build::number(like.ty.as_scalar().unwrap_or(ScalarKind::I64), 0)
}

/// Whether a remainder is on the other side of zero than the divisor.
fn differs_in_sign(rest: &Expr, y: &Expr, known: Option<i64>) -> Expr {
    let zero = number_zero(y);
    match known {
        Some(known) if known > 0 => build::lt(rest.clone(), zero),
        Some(_) => build::gt(rest.clone(), zero),
        None => build::and(
            build::ne(rest.clone(), zero.clone()),
            build::ne(build::lt(rest.clone(), zero.clone()), build::lt(y.clone(), zero)),
        ),
    }
}

fn is_bits(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor)
}

fn bits(op: BinaryOp, x: Expr, y: Expr) -> Expr {
    match op {
        BinaryOp::BitAnd => build::bit_and(x, y),
        BinaryOp::BitOr => build::bit_or(x, y),
        _ => build::bit_xor(x, y),
    }
}

/// The value of an operator over what is known; none where it fails.
fn fold(op: BinaryOp, x: &Const, y: &Const) -> Option<Const> {
    let (Const::Int(x), Const::Int(y)) = (x, y) else { return None };
    Some(Const::Int(match op {
        BinaryOp::Add => x.checked_add(*y)?,
        BinaryOp::Sub => x.checked_sub(*y)?,
        BinaryOp::Mul => x.checked_mul(*y)?,
        BinaryOp::FloorDiv => {
            let (quotient, rest) = (x.checked_div(*y)?, x.checked_rem(*y)?);
            quotient - i64::from(rest != 0 && (rest < 0) != (*y < 0))
        }
        BinaryOp::Mod => {
            let rest = x.checked_rem(*y)?;
            if rest != 0 && (rest < 0) != (*y < 0) { rest + y } else { rest }
        }
        BinaryOp::Pow => x.checked_pow(u32::try_from(*y).ok()?)?,
        _ => return None,
    }))
}

fn fold_comparison(op: CompareOp, x: &Const, y: &Const) -> Option<bool> {
    let order = match (x, y) {
        (Const::Int(x), Const::Int(y)) => x.cmp(y),
        (Const::Bool(x), Const::Bool(y)) => x.cmp(y),
        (Const::Str(x), Const::Str(y)) => x.cmp(y),
        _ => return None,
    };
    Some(match op {
        CompareOp::Eq => order.is_eq(),
        CompareOp::Ne => order.is_ne(),
        CompareOp::Lt => order.is_lt(),
        CompareOp::Le => order.is_le(),
        CompareOp::Gt => order.is_gt(),
        CompareOp::Ge => order.is_ge(),
        _ => return None,
    })
}
