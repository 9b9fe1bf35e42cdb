//! Folds constants and applies the laws of arithmetic and logic that hold to the bit.
//!
//! ```weld
//! |x: i64, c: bool| if(c && 1 < 2, {x + 0L, true}, {x * 1L, true}).$1
//! =>
//! |x: i64, c: bool| true
//! ```
//!
//! Laws, children first, until none applies: operators on literals are what the interpreter says, unless it says error;
//! units and zeros of integers (`x + 0`, `x * 1`, `x * 0` when `x` cannot fail); of floats only `x * 1.0`, `x / 1.0`
//! and `x - 0.0`, because `x + 0.0` changes -0.0 and `x * 0.0` is not 0.0 for NaN; signs out of quotients of floats and
//! of odd functions, so that `erf(-x / y)` and `erf(x / y)` share their call; the algebra of `&& || ! &  |`, short
//! circuits respected; `if` and `select` on constants and with equal arms; fields of struct literals; casts of casts.
//! Nullable logic is `{bool, bool}` taken apart by `split-structs`: with constant null flags it folds away here.
//!
//! `if(assert(c), x, y)` is `let checked = assert(c); x`, and so is `if(c, x, let failed = assert(false); y)`.
//!
//! About loops: `if(c, merge(b, x), merge(b, y))` is `merge(b, if(c, x, y))`, and
//! `if(c, if(d, E, b), b)` is `if(c && d, E, b)`, so that a chain of filters is one condition.
//!
//! Never worse: every law makes the tree smaller or keeps its size.

use super::Config;
use super::facts::{can_drop, is_path, is_trivial};
use crate::diag::Span;
use crate::interp::scalar;
use crate::ir::{Binding, Expr, ExprKind, Literal, Names, Program, build};
use crate::op::{BinaryOp, Intrinsic, UnaryOp};
use crate::ty::{ScalarKind, Type};

pub(super) fn run(program: &mut Program, _: &Config) {
    let names = &mut program.names;
    program.body.rewrite(&mut |e| while apply(e, names) {});
}

/// Applies one law at this node; whether one applied.
fn apply(e: &mut Expr, names: &mut Names) -> bool {
    let new = match &mut e.kind {
        ExprKind::Unary(op, a) => unary(*op, a),
        ExprKind::Binary(op, a, b) => binary(*op, a, b),
        ExprKind::Intrinsic(intrinsic, args) => call(*intrinsic, args),
        ExprKind::Cast(a) => match e.ty {
            Type::Scalar(to) => cast(a, to),
            _ => None,
        },
        ExprKind::If { cond, on_true, on_false } => {
            asserted(cond, on_true, on_false, names).or_else(|| branch(cond, on_true, on_false))
        }
        ExprKind::Select { cond, on_true, on_false } => select(cond, on_true, on_false),
        ExprKind::Field(of, index) => field(of, *index as usize, names),
        ExprKind::Struct(fields) => whole(fields),
        ExprKind::Len(of) => match &of.kind {
            ExprKind::Bytes(bytes) => Some(build::i64(bytes.len() as i64)),
            ExprKind::Vector(parts) if can_drop(of) => Some(build::i64(parts.len() as i64)),
            _ => None,
        },
        ExprKind::Assert { cond, values, .. } if is_bool(cond, true) && values.iter().all(can_drop) => {
            Some(build::bool(true))
        }
        _ => None,
    };
    match new {
        Some(mut new) => {
            // What stood in `e` keeps its place: errors point at what raises them.
            if new.span == Span::NONE {
                new.span = e.span;
            }
            *e = new;
            true
        }
        None => false,
    }
}

fn literal(e: &Expr) -> Option<Literal> {
    match e.kind {
        ExprKind::Literal(value) => Some(value),
        _ => None,
    }
}

fn is_bool(e: &Expr, value: bool) -> bool {
    literal(e) == Some(Literal::Bool(value))
}

/// The number 0 or 1 of the literal's kind, the float +0.0 included.
fn is_number(e: &Expr, value: i128) -> bool {
    match (literal(e), &e.ty) {
        (Some(l), Type::Scalar(kind)) if *kind != ScalarKind::Bool => scalar::cast(Literal::I128(value), *kind) == l,
        _ => false,
    }
}

fn is_integer(ty: &Type) -> bool {
    ty.as_scalar().is_some_and(ScalarKind::is_integer)
}

/// Equal expressions of which one may be dropped.
pub(super) fn same(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Literal(a), ExprKind::Literal(b)) => a == b,
        (ExprKind::Bytes(x), ExprKind::Bytes(y)) => x == y && a.ty == b.ty,
        (ExprKind::Var(a), ExprKind::Var(b)) => a == b,
        (ExprKind::Field(a, i), ExprKind::Field(b, j)) => i == j && same(a, b),
        (ExprKind::Len(a), ExprKind::Len(b)) => same(a, b),
        (ExprKind::Struct(a), ExprKind::Struct(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => false,
    }
}

fn unary(op: UnaryOp, a: &mut Expr) -> Option<Expr> {
    // The math functions of the target may differ from ours in the last bit: they are not folded.
    use UnaryOp::*;
    if matches!(op, Neg | Not | Floor | Ceil | Trunc | Round | Abs)
        && let Some(value) = literal(a)
    {
        return scalar::unary(op, value).map(build::lit);
    }
    match &mut a.kind {
        // Signs move out of odd functions, so that `erf(-x)` and `erf(x)` are one call.
        ExprKind::Unary(UnaryOp::Neg, inner) if is_odd(op) => Some(build::neg(build::unary(op, inner.take()))),
        ExprKind::Unary(UnaryOp::Not, inner) if op == UnaryOp::Not => Some(inner.take()),
        ExprKind::Binary(comparison, x, y) if op == UnaryOp::Not => {
            let negated = negated(*comparison, &x.ty)?;
            Some(build::binary(negated, x.take(), y.take()))
        }
        _ => None,
    }
}

/// Whether the function of `-x` is that of `x` with the other sign, to the bit.
fn is_odd(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(op, Sin | Tan | Asin | Atan | Sinh | Tanh | Erf)
}

/// The comparison that holds when this one does not. Ordered comparisons of floats have none, because of NaN.
fn negated(op: BinaryOp, ty: &Type) -> Option<BinaryOp> {
    let total = is_integer(ty) || *ty == Type::BOOL;
    Some(match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        BinaryOp::Lt if total => BinaryOp::Ge,
        BinaryOp::Le if total => BinaryOp::Gt,
        BinaryOp::Gt if total => BinaryOp::Le,
        BinaryOp::Ge if total => BinaryOp::Lt,
        _ => return None,
    })
}

fn binary(op: BinaryOp, a: &mut Expr, b: &mut Expr) -> Option<Expr> {
    if let (Some(x), Some(y)) = (literal(a), literal(b))
        && op != BinaryOp::Pow
    {
        return scalar::binary(op, x, y).ok().map(build::lit);
    }
    match op {
        BinaryOp::And | BinaryOp::BitAnd if a.ty == Type::BOOL => logic(op == BinaryOp::And, true, a, b),
        BinaryOp::Or | BinaryOp::BitOr if a.ty == Type::BOOL => logic(op == BinaryOp::Or, false, a, b),
        BinaryOp::Eq | BinaryOp::Ne if a.ty == Type::BOOL => equal_bool(op == BinaryOp::Eq, a, b),
        _ if is_integer(&a.ty) => integer(op, a, b),
        BinaryOp::Mul if is_number(b, 1) => Some(a.take()),
        BinaryOp::Mul if is_number(a, 1) => Some(b.take()),
        BinaryOp::Div if is_number(b, 1) => Some(a.take()),
        BinaryOp::Sub if is_number(b, 0) => Some(a.take()),
        BinaryOp::Div if a.ty.as_scalar().is_some_and(ScalarKind::is_float) => match &mut a.kind {
            ExprKind::Unary(UnaryOp::Neg, x) => Some(build::neg(build::binary(op, x.take(), b.take()))),
            _ => None,
        },
        _ => None,
    }
}

/// `a && b` (unit: true) or `a || b` (unit: false); `lazy` if the right side may not be evaluated.
fn logic(lazy: bool, unit: bool, a: &mut Expr, b: &mut Expr) -> Option<Expr> {
    if is_bool(a, unit) {
        return Some(b.take());
    }
    if is_bool(b, unit) {
        return Some(a.take());
    }
    if is_bool(a, !unit) && (lazy || can_drop(b)) || is_bool(b, !unit) && can_drop(a) {
        return Some(build::bool(!unit));
    }
    if same(a, b) {
        return Some(a.take());
    }
    // Chains lean to the left, as they are written, so that equal chains look equal.
    let op = match (lazy, unit) {
        (true, true) => BinaryOp::And,
        (true, false) => BinaryOp::Or,
        _ => return None,
    };
    match &mut b.kind {
        ExprKind::Binary(inner, x, y) if *inner == op => {
            Some(build::binary(op, build::binary(op, a.take(), x.take()), y.take()))
        }
        _ => None,
    }
}

fn equal_bool(equal: bool, a: &mut Expr, b: &mut Expr) -> Option<Expr> {
    let (constant, other) = match (literal(a), literal(b)) {
        (Some(Literal::Bool(value)), _) => (value, b),
        (_, Some(Literal::Bool(value))) => (value, a),
        _ => return None,
    };
    let other = other.take();
    Some(if constant == equal { other } else { build::not(other) })
}

fn integer(op: BinaryOp, a: &mut Expr, b: &mut Expr) -> Option<Expr> {
    match op {
        BinaryOp::Add | BinaryOp::BitOr | BinaryOp::BitXor if is_number(a, 0) => Some(b.take()),
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::BitOr | BinaryOp::BitXor if is_number(b, 0) => Some(a.take()),
        BinaryOp::Mul if is_number(a, 1) => Some(b.take()),
        BinaryOp::Mul | BinaryOp::Div if is_number(b, 1) => Some(a.take()),
        BinaryOp::Mul | BinaryOp::BitAnd if is_number(a, 0) && can_drop(b) => Some(a.take()),
        BinaryOp::Mul | BinaryOp::BitAnd if is_number(b, 0) && can_drop(a) => Some(b.take()),
        BinaryOp::Min | BinaryOp::Max | BinaryOp::BitAnd | BinaryOp::BitOr if same(a, b) => Some(a.take()),
        BinaryOp::Eq | BinaryOp::Le | BinaryOp::Ge if same(a, b) => Some(build::bool(true)),
        BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Gt if same(a, b) => Some(build::bool(false)),
        _ => None,
    }
}

fn call(intrinsic: Intrinsic, args: &mut [Expr]) -> Option<Expr> {
    let (op, [a, b]) = match (intrinsic, args) {
        (Intrinsic::CheckedAdd, [a, b]) => (BinaryOp::Add, [a, b]),
        (Intrinsic::CheckedSub, [a, b]) => (BinaryOp::Sub, [a, b]),
        (Intrinsic::CheckedMul, [a, b]) => (BinaryOp::Mul, [a, b]),
        _ => return None,
    };
    if let (Some(x), Some(y)) = (literal(a), literal(b)) {
        return checked(op, x, y).map(build::lit);
    }
    // The units and zeros of checked arithmetic are those of wrapping arithmetic: they never overflow.
    integer(op, a, b)
}

/// `x op y` if it does not overflow.
fn checked(op: BinaryOp, x: Literal, y: Literal) -> Option<Literal> {
    let exact = match op {
        BinaryOp::Add => x.bits().checked_add(y.bits()),
        BinaryOp::Sub => x.bits().checked_sub(y.bits()),
        _ => x.bits().checked_mul(y.bits()),
    }?;
    let value = scalar::cast(Literal::I128(exact), x.kind());
    (value.bits() == exact).then_some(value)
}

fn cast(a: &mut Expr, to: ScalarKind) -> Option<Expr> {
    if let Some(value) = literal(a) {
        return Some(build::lit(scalar::cast(value, to)));
    }
    let middle = a.ty.as_scalar()?;
    if middle == to {
        return Some(a.take());
    }
    let ExprKind::Cast(inner) = &mut a.kind else { return None };
    let from = inner.ty.as_scalar()?;
    // Through an integer type that holds every value of the first.
    let holds = |wide: ScalarKind, narrow: ScalarKind| {
        wide.is_integer()
            && (narrow == ScalarKind::Bool
                || narrow.is_integer()
                    && (wide.bits() > narrow.bits() && (wide.is_signed() || !narrow.is_signed())
                        || wide.bits() == narrow.bits() && wide.is_signed() == narrow.is_signed()))
    };
    // Truncation twice is truncation once.
    let narrows = to.is_integer() && middle.is_integer() && from.is_integer() && to.bits() <= middle.bits();
    (holds(middle, from) || narrows).then(|| build::cast(inner.take(), to))
}

/// An `if` of which one branch is never taken, or fails at once, is the other branch behind an assertion.
fn asserted(cond: &mut Expr, on_true: &mut Expr, on_false: &mut Expr, names: &mut Names) -> Option<Expr> {
    let (assertion, value) = if matches!(cond.kind, ExprKind::Assert { .. }) {
        (cond.take(), on_true)
    } else if let Some(failure) = failure(on_true) {
        (failing_unless(failure, build::not(cond.take())), on_false)
    } else {
        (failing_unless(failure(on_false)?, cond.take()), on_true)
    };
    let sym = names.fresh("checked");
    Some(build::let_in(vec![Binding { sym, value: assertion }], value.take()))
}

/// The assertion of `false` that a block begins with. What it shows is evaluated for nothing where it moves to.
fn failure(block: &mut Expr) -> Option<&mut Expr> {
    let ExprKind::Let { bindings, .. } = &mut block.kind else { return None };
    let first = &mut bindings.first_mut()?.value;
    match &first.kind {
        ExprKind::Assert { cond, values, .. } if is_bool(cond, false) && values.iter().all(is_trivial) => Some(first),
        _ => None,
    }
}

fn failing_unless(assertion: &mut Expr, holds: Expr) -> Expr {
    if let ExprKind::Assert { cond, .. } = &mut assertion.kind {
        **cond = holds;
    }
    assertion.take()
}

fn branch(cond: &mut Expr, on_true: &mut Expr, on_false: &mut Expr) -> Option<Expr> {
    if let Some(Literal::Bool(value)) = literal(cond) {
        return Some(if value { on_true.take() } else { on_false.take() });
    }
    if same(on_true, on_false) && can_drop(cond) {
        return Some(on_true.take());
    }
    // What merges nothing stands last: there the passes that drop rows look for it.
    let merges_nothing = |branch: &Expr| branch.ty.is_builder() && is_path(branch);
    if merges_nothing(on_true) && !merges_nothing(on_false) {
        return Some(build::if_(build::not(cond.take()), on_false.take(), on_true.take()));
    }
    if let ExprKind::Unary(UnaryOp::Not, inner) = &mut cond.kind
        && (merges_nothing(on_true) || !merges_nothing(on_false))
    {
        return Some(build::if_(inner.take(), on_false.take(), on_true.take()));
    }
    if on_true.ty == Type::BOOL {
        return branch_of_bool(cond, on_true, on_false);
    }
    if !on_true.ty.is_builder() {
        return None;
    }
    if let ExprKind::If { cond: inner, on_true: e, on_false: b } = &mut on_true.kind
        && is_path(b)
        && same(b, on_false)
    {
        return Some(build::if_(build::and(cond.take(), inner.take()), e.take(), b.take()));
    }
    match (&mut on_true.kind, &mut on_false.kind) {
        (ExprKind::Merge { builder: b, value: x }, ExprKind::Merge { builder: c, value: y })
            if is_path(b) && same(b, c) =>
        {
            Some(build::merge(b.take(), build::if_(cond.take(), x.take(), y.take())))
        }
        _ => None,
    }
}

fn branch_of_bool(cond: &mut Expr, on_true: &mut Expr, on_false: &mut Expr) -> Option<Expr> {
    match (literal(on_true), literal(on_false)) {
        (Some(Literal::Bool(true)), Some(Literal::Bool(false))) => Some(cond.take()),
        (Some(Literal::Bool(false)), Some(Literal::Bool(true))) => Some(build::not(cond.take())),
        (_, Some(Literal::Bool(false))) => Some(build::and(cond.take(), on_true.take())),
        (Some(Literal::Bool(true)), _) => Some(build::or(cond.take(), on_false.take())),
        (Some(Literal::Bool(false)), _) => Some(build::and(build::not(cond.take()), on_false.take())),
        (_, Some(Literal::Bool(true))) => Some(build::or(build::not(cond.take()), on_true.take())),
        _ if same(cond, on_true) => Some(build::or(cond.take(), on_false.take())),
        _ => None,
    }
}

fn select(cond: &mut Expr, on_true: &mut Expr, on_false: &mut Expr) -> Option<Expr> {
    match literal(cond) {
        Some(Literal::Bool(true)) if can_drop(on_false) => return Some(on_true.take()),
        Some(Literal::Bool(false)) if can_drop(on_true) => return Some(on_false.take()),
        _ => {}
    }
    if same(on_true, on_false) && can_drop(cond) {
        return Some(on_true.take());
    }
    // Under a condition that is known: `select(c, select(c, a, b), d)`.
    if let ExprKind::Select { cond: inner, on_true: a, on_false: b } = &mut on_true.kind
        && same(inner, cond)
        && can_drop(b)
    {
        return Some(build::select(cond.take(), a.take(), on_false.take()));
    }
    match (literal(on_true), literal(on_false)) {
        _ if cond.ty != Type::BOOL => None,
        (Some(Literal::Bool(true)), Some(Literal::Bool(false))) => Some(cond.take()),
        (Some(Literal::Bool(false)), Some(Literal::Bool(true))) => Some(build::not(cond.take())),
        _ => None,
    }
}

/// `{a, b}.$0` is `a` when `b` cannot fail, also at the end of a block.
fn field(of: &mut Expr, index: usize, names: &mut Names) -> Option<Expr> {
    match &mut of.kind {
        ExprKind::Let { bindings, body } => {
            let mut part = build::field(body.take(), index);
            while apply(&mut part, names) {}
            Some(build::let_in(std::mem::take(bindings), part))
        }
        ExprKind::Struct(fields) => {
            let others_fail = fields.iter().enumerate().any(|(k, field)| k != index && !can_drop(field));
            if others_fail { None } else { fields.get_mut(index).map(Expr::take) }
        }
        _ => None,
    }
}

/// `{s.$0, s.$1}` is `s` when `s` has these fields and no more.
fn whole(fields: &mut [Expr]) -> Option<Expr> {
    let ExprKind::Field(of, 0) = &fields.first()?.kind else { return None };
    if !is_path(of) || of.ty.fields()?.len() != fields.len() || of.ty.is_builder() {
        return None;
    }
    let all = fields.iter().enumerate().all(|(k, field)| match &field.kind {
        ExprKind::Field(other, index) => *index as usize == k && same(other, of),
        _ => false,
    });
    all.then(|| (**of).clone())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    fn check(before: &str, after: Expect) {
        super::super::testing::check(super::run, before, &after);
    }

    #[test]
    fn constants() {
        check(
            "|| {1 + 2 * 3, 7 / 2, -7 % 3, 1.5 + 2.0, i8(300), 2147483647 + 1, f64(3)}",
            expect![[r#"
            {7, 3, -1, 3.5, 44c, -2147483648, 3.0}
        "#]],
        );
        check(
            "|| {checked_add(1L, 2L), checked_mul(9223372036854775807L, 1L)}",
            expect![[r#"
            {3L, 9223372036854775807L}
        "#]],
        );
    }

    #[test]
    fn errors_are_not_folded() {
        check(
            "|x: i64| {1 / 0, checked_add(9223372036854775807L, 1L), (x / 0L) * 0L}",
            expect![[r#"
            |x: i64|
              {1 / 0, checked_add(9223372036854775807L, 1L), x / 0L * 0L}
        "#]],
        );
    }

    #[test]
    fn branches_that_fail() {
        check(
            "|x: i64, v: vec[i64]| {
               if(require(len(v) == 3L, \"three\"), v, [1L]),
               if(x <= 0L, let c = require(false, \"not {0}\", x); {0L, 0.0}, {x, f64(x)}).$1,
               if(x > 9L, x, let c = assert(false); 7L)}",
            expect![[r#"
                |x: i64, v: vec[i64]|
                  {
                    let checked = require(len(v) == 3L, "three"); v,
                    let checked_2 = require(!(x <= 0L), "not {0}", x); f64(x),
                    let checked_3 = assert(x > 9L); x
                  }
            "#]],
        );
    }

    #[test]
    fn units_and_zeros() {
        check(
            "|x: i64| {x + 0L, 0L + x, x * 1L, x * 0L, x - 0L, x / 1L, checked_mul(x, 1L)}",
            expect![[r#"
            |x: i64|
              {x, x, x, 0L, x, x, x}
        "#]],
        );
    }

    #[test]
    fn signs_move_out_of_odd_functions() {
        check(
            "|x: f64, y: f32, k: i64| {erf(-x / 2.0), sin(-y), cos(-x), -k / 2L, x / -2.0}",
            expect![[r#"
            |x: f64, y: f32, k: i64|
              {-erf(x / 2.0), -sin(y), cos(-x), -k / 2L, x / -2.0}
        "#]],
        );
    }

    #[test]
    fn floats_keep_their_zeros_and_nans() {
        check(
            "|x: f64| {x + 0.0, x * 0.0, x - x, x == x, !(x < 1.0)}",
            expect![[r#"
            |x: f64|
              {x + 0.0, x * 0.0, x - x, x == x, !(x < 1.0)}
        "#]],
        );
        check(
            "|x: f64| {x * 1.0, x / 1.0, x - 0.0}",
            expect![[r#"
            |x: f64|
              {x, x, x}
        "#]],
        );
    }

    #[test]
    fn logic() {
        check(
            "|a: bool, b: bool| {a && true, a || true, false && b, !(!a), a & a, if(a, true, b), if(a, b, false)}",
            expect![[r#"
                |a: bool, b: bool|
                  {a, true, false, a, a, a || b, a && b}
            "#]],
        );
        check(
            "|a: i64, b: f64| {!(a < 1L), !(b == 1.0), (a == 1L) == false}",
            expect![[r#"
            |a: i64, b: f64|
              {a >= 1L, b != 1.0, a != 1L}
        "#]],
        );
    }

    #[test]
    fn a_branch_that_may_fail_stays_a_branch() {
        check(
            "|c: bool, x: i64| select(c, 1L, 1L / x)",
            expect![[r#"
            |c: bool, x: i64|
              select(c, 1L, 1L / x)
        "#]],
        );
        check(
            "|c: bool, x: i64| (1L / x > 0L) && false",
            expect![[r#"
            |c: bool, x: i64|
              1L / x > 0L && false
        "#]],
        );
    }

    #[test]
    fn casts() {
        check(
            "|x: i32| {i32(i64(x)), i8(i64(x)), u64(i64(x)), i64(i8(x)), i32(x)}",
            expect![[r#"
            |x: i32|
              {x, i8(x), u64(x), i64(i8(x)), x}
        "#]],
        );
    }

    #[test]
    fn structs() {
        check(
            "|x: i64, s: {i64,i64}| {{x, 2L}.$0, {s.$0, s.$1}, {s.$1, s.$0}, {1L / x, x}.$1}",
            expect![[r#"
            |x: i64, s: {i64,i64}|
              {x, s, {s.$1, s.$0}, {1L / x, x}.$1}
        "#]],
        );
    }

    #[test]
    fn merges_and_filters_join() {
        check(
            "|v: vec[i64]| result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x), merge(b, 0L - x))))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(v, appender[i64], |b, i, x| merge(b, if(x > 0L, x, 0L - x))))
            "#]],
        );
        check(
            "|v: vec[i64]| result(for(v, appender[i64], |b, i, x| if(x > 0L, if(x < 9L, merge(b, x), b), b)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(v, appender[i64], |b, i, x| if(x > 0L && x < 9L, merge(b, x), b)))
            "#]],
        );
    }

    #[test]
    fn equal_integers() {
        check(
            "|x: i64| {min(x, x), max(x, x), x & x, x | x, x == x, x <= x, x >= x, x != x, x < x, x > x}",
            expect![[r#"
                |x: i64|
                  {x, x, x, x, true, true, true, false, false, false}
            "#]],
        );
        check(
            "|x: i64, y: i64| {x ^ 0L, 0L ^ x, x | 0L, 0L | x, x & 0L, 0L & x, 0L * x, 1L * x, x - x, x ^ x, 0L - x, 1L / x,
               0L / x, x < y, min(x, y), (x / y) & 0L, checked_sub(x, 0L), checked_sub(0L, x), checked_mul(0L, x)}",
            expect![[r#"
                |x: i64, y: i64|
                  {
                    x,
                    x,
                    x,
                    x,
                    0L,
                    0L,
                    0L,
                    x,
                    x - x,
                    x ^ x,
                    0L - x,
                    1L / x,
                    0L / x,
                    x < y,
                    min(x, y),
                    x / y & 0L,
                    x,
                    checked_sub(0L, x),
                    0L
                  }
            "#]],
        );
    }

    #[test]
    fn checked_constants() {
        check(
            "|| {checked_sub(-9223372036854775807L, 1L), checked_sub(-9223372036854775807L, 2L),
                 checked_mul(4611686018427387904L, 2L), checked_mul(-4611686018427387904L, 2L),
                 checked_sub(u64(1), u64(2)), checked_add(u64(1), u64(2))}",
            expect![[r#"
                {
                  -9223372036854775808L,
                  checked_sub(-9223372036854775807L, 2L),
                  checked_mul(4611686018427387904L, 2L),
                  -9223372036854775808L,
                  checked_sub(1u64, 2u64),
                  3u64
                }
            "#]],
        );
    }

    #[test]
    fn conditions_and_constants() {
        check(
            "|a: bool, b: bool, x: i64| {true && b, b || false, a || b || true, a && b && false, a & true, a | b | true, a ^ true,
               a == true, false == a, a != true, a != false, a || a, a && (b && x > 1L), a || (b || x > 1L), a & (b & x > 1L),
               a && (b || x > 1L), (1L / x > 0L) & false, false & (1L / x > 0L), false && 1L / x > 0L}",
            expect![[r#"
                |a: bool, b: bool, x: i64|
                  {
                    b,
                    b,
                    true,
                    false,
                    a,
                    true,
                    a ^ true,
                    a,
                    !a,
                    !a,
                    a,
                    a,
                    a && b && x > 1L,
                    a || b || x > 1L,
                    a & (b & x > 1L),
                    a && (b || x > 1L),
                    1L / x > 0L & false,
                    false & 1L / x > 0L,
                    false
                  }
            "#]],
        );
        check(
            "|a: bool, b: bool, x: i64| {if(a, false, b), if(a, b, true), if(a, true, false), if(a, false, true), if(a, a, b),
               if(a, x, x), if(1L / x > 0L, x, x), if(!a, x, 2L), if(true, x, 2L), if(false, x, 2L)}",
            expect![[r#"
                |a: bool, b: bool, x: i64|
                  {!a && b, !a || b, a, !a, a || b, x, if(1L / x > 0L, x, x), if(a, 2L, x), x, 2L}
            "#]],
        );
        check(
            "|a: i64, f: f64, p: bool, q: bool| {!(a <= 1L), !(a > 1L), !(a >= 1L), !(a == 1L), !(a != 1L), !(f <= 1.0), !(f > 1.0),
               !(f >= 1.0), !(f != 1.0), !(p < q)}",
            expect![[r#"
                |a: i64, f: f64, p: bool, q: bool|
                  {
                    a > 1L,
                    a <= 1L,
                    a < 1L,
                    a != 1L,
                    a == 1L,
                    !(f <= 1.0),
                    !(f > 1.0),
                    !(f >= 1.0),
                    f == 1.0,
                    p >= q
                  }
            "#]],
        );
    }

    #[test]
    fn selects() {
        check(
            "|a: bool, b: bool, x: i64, y: i64| {select(true, x, y), select(false, x, y), select(a, x, x), select(1L / x > 0L, y, y),
               select(a, true, false), select(a, false, true), select(a, select(a, x, y), 3L), select(a, select(b, x, y), 3L),
               select(a, select(a, x, 1L / y), 3L), select(false, 1L / x, y), select(true, x, 1L / y)}",
            expect![[r#"
                |a: bool, b: bool, x: i64, y: i64|
                  {
                    x,
                    y,
                    x,
                    select(1L / x > 0L, y, y),
                    a,
                    !a,
                    select(a, x, 3L),
                    select(a, select(b, x, y), 3L),
                    select(a, select(a, x, 1L / y), 3L),
                    select(false, 1L / x, y),
                    select(true, x, 1L / y)
                  }
            "#]],
        );
    }

    #[test]
    fn casts_of_casts() {
        check(
            "|x: i32, u: u32, b: bool, f: f64, s: i8| {f64(i64(x)), f64(u64(x)), f64(i64(u)), i64(u32(x)), i64(i32(u)), i64(u64(s)),
               u8(i16(x)), i32(i8(x)), f32(f64(x)), i64(f64(x)), i32(i64(f)), f64(i8(b)), u64(u32(u)), i8(u8(s)), f32(f)}",
            expect![[r#"
                |x: i32, u: u32, b: bool, f: f64, s: i8|
                  {
                    f64(x),
                    f64(u64(x)),
                    f64(u),
                    i64(u32(x)),
                    i64(i32(u)),
                    i64(s),
                    u8(x),
                    i32(i8(x)),
                    f32(f64(x)),
                    i64(f64(x)),
                    i32(i64(f)),
                    f64(b),
                    u64(u),
                    s,
                    f32(f)
                  }
            "#]],
        );
    }

    #[test]
    fn structs_that_are_copied_whole() {
        check(
            "|s: {i64,i64}, t: {i64,i64}, u: {i64,i64,i64}, r: {{i64,i64},i64}, x: i64| {{s.$0, t.$1}, {u.$0, u.$1}, {r.$0.$0, r.$0.$1},
               {s.$0, s.$0}, (let k = 1L / x; {k, x}).$1, {1L / x, x}.$0, len([x, 2L]), len([1L / x])}",
            expect![[r#"
                |s: {i64,i64}, t: {i64,i64}, u: {i64,i64,i64}, r: {{i64,i64},i64}, x: i64|
                  {{s.$0, t.$1}, {u.$0, u.$1}, r.$0, {s.$0, s.$0}, let k = 1L / x; x, 1L / x, 2L, len([1L / x])}
            "#]],
        );
    }

    #[test]
    fn a_branch_that_merges_nothing_stands_last() {
        check(
            "|v: vec[i64]| let bs = for(v, {appender[i64], appender[i64]}, |b, i, x|
               {if(x > 0L, if(x < 9L, merge(b.$0, x), merge(b.$0, 7L)), b.$0), if(x > 0L, if(x < 9L, b.$1, merge(b.$1, x)), b.$1)});
             {result(bs.$0), result(bs.$1)}",
            expect![[r#"
                |v: vec[i64]|
                  let bs = for(
                    v,
                    {appender[i64], appender[i64]},
                    |b, i, x|
                      {
                        if(x > 0L, merge(b.$0, if(x < 9L, x, 7L)), b.$0),
                        if(x > 0L && !(x < 9L), merge(b.$1, x), b.$1)
                      }
                  );
                  {result(bs.$0), result(bs.$1)}
            "#]],
        );
    }
}
