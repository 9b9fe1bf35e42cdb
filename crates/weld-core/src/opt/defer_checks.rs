//! Takes checks out of loops: whether one of them would fail is asked of all elements first, by a loop that cannot
//! fail.
//!
//! ```weld
//! for(v, B, |b, i, x| merge(b, checked_add(x, 1L)))
//! =>
//! if(result(for(v, merger[bool,|], |b, i, x| merge(b, x > 9223372036854775806L))),
//!   for(v, B, |b, i, x| merge(b, checked_add(x, 1L))),
//!   for(v, B, |b, i, x| merge(b, x + 1L)))
//! ```
//!
//! Law: where no check fails for any element, the loop is the same with wrapping arithmetic and without assertions.
//! Otherwise it runs as written, so that the error and its place are those of the first check that fails. Both the
//! conditions and the loop without checks have one way through, which compilers vectorise; with a way out at each
//! operation they do not.
//!
//! That a sum overflows is seen by signs, that a product does by as many more bits, and of 64 bits by a product of
//! floats: it is off by less than 2^13 from one that fits, and by more than 2^63 from what is left of one that does
//! not.
//!
//! Only for loops that compilers vectorise then: over scalars of 64 bits at most, into mergers and appenders, with
//! nothing else that may fail. Only for outermost loops over vectors. Streams are left alone: code that is made without
//! effort, on which queries start, has two loops then where neither is vectorised; and so are loops in loops, which go
//! over the short vectors of a row.
//!
//! Measured (100,000 elements, one thread, AVX-512, us, as written and deferred;
//! `weld-test/examples/checked_loops.rs`): sums of 64 bits 65 and 53, products and sums of 64 bits 74 and 57, of 32
//! bits 62 and 39; quotients of floats that are not to be by zero 139 and 61. In code that is made without effort both
//! loops cost what a loop costs, 175 and 413 for the first. Sums of 128 bits are not vectorised without checks either:
//! they are left as they are.

use super::Config;
use super::facts::{can_fail, is_path, is_trivial, join_blocks, node_cost};
use super::fuse_loops::fresh_func;
use crate::ir::typing::holds_builder;
use crate::ir::{Binding, Expr, ExprKind, Func, Names, Program, Sym, build, deep};
use crate::op::{BinaryOp, Intrinsic, MergeOp, ReduceOp, UnaryOp};
use crate::ty::{BuilderType, ScalarKind, Type};

/// The most nodes that the update function of a loop may have.
const NODES_MAX: usize = 400;

pub(super) fn run(program: &mut Program, _: &Config) {
    let streams: Vec<Sym> = program.params.iter().filter(|p| p.stream).map(|p| p.sym).collect();
    visit(&mut program.body, &streams, &mut program.names);
    join_blocks(&mut program.body);
}

/// Looks for loops that are in no loop.
fn visit(e: &mut Expr, streams: &[Sym], names: &mut Names) {
    deep(|| {
        let ExprKind::For { iter, .. } = &e.kind else {
            return e.each_child_mut(&mut |child| visit(child, streams, names));
        };
        let mut reads_stream = false;
        iter.each_child(&mut |part| {
            part.walk(&mut |e| reads_stream |= matches!(e.kind, ExprKind::Var(sym) if streams.contains(&sym)));
        });
        if !reads_stream {
            defer(e, names);
        }
    })
}

/// Puts the loop without its checks beside it.
fn defer(e: &mut Expr, names: &mut Names) {
    let (span, annotations) = (e.span, e.annotations.clone());
    let ExprKind::For { iter, builder, func } = &mut e.kind else { return };
    let Some(failed) = Checks::of(func, names) else { return };
    let unchecked = unchecked(func, names);
    debug_assert!(!can_fail(&unchecked.body), "a check is left in {:?}", unchecked.body);
    let mut before = Vec::new();
    let mut name = |part: &mut Expr, like: &str| {
        if !is_trivial(part) {
            let variable = build::param(names, like, part.ty.clone());
            let ExprKind::Var(sym) = variable.kind else { return };
            before.push(Binding { sym, value: std::mem::replace(part, variable) });
        }
    };
    iter.each_child_mut(&mut |part| name(part, "data"));
    name(builder, "builder");
    let ask = build::for_func((**iter).clone(), build::merger(Type::BOOL, MergeOp::All(ReduceOp::BitOr)), failed);
    let mut fast = build::for_func((**iter).clone(), (**builder).clone(), unchecked).at(span);
    fast.annotations = annotations;
    let written = e.take();
    *e = build::let_in(before, build::if_(build::result(ask.at(span)), written, fast).at(span));
}

/// The same function with arithmetic that wraps and assertions that hold.
fn unchecked(func: &Func, names: &mut Names) -> Func {
    let mut copy = fresh_func(func, names);
    copy.body.rewrite(&mut |e| match &mut e.kind {
        ExprKind::Intrinsic(intrinsic, args) => {
            if let (Some(op), [a, b]) = (wrapping(*intrinsic), &mut args[..]) {
                *e = build::binary(op, a.take(), b.take()).at(e.span);
            }
        }
        ExprKind::Assert { .. } => *e = build::bool(true),
        _ => {}
    });
    copy
}

fn wrapping(intrinsic: Intrinsic) -> Option<BinaryOp> {
    match intrinsic {
        Intrinsic::CheckedAdd => Some(BinaryOp::Add),
        Intrinsic::CheckedSub => Some(BinaryOp::Sub),
        Intrinsic::CheckedMul => Some(BinaryOp::Mul),
        _ => None,
    }
}

/// Finds the conditions under which an update function fails.
struct Checks<'a> {
    names: &'a mut Names,
    /// What the conditions are computed from; nothing of it can fail.
    bindings: Vec<Binding>,
    /// Whether some check fails.
    failed: Option<Expr>,
}

impl Checks<'_> {
    /// An update of `merger[bool,|]` that merges whether the function would fail. Nothing where it cannot, or where
    /// more than its checks keeps its loop from being vectorised.
    fn of(func: &Func, names: &mut Names) -> Option<Func> {
        let [(_, builders), ..] = &func.params[..] else { return None };
        if !is_flat(builders) || !can_fail(&func.body) || func.body.size() > NODES_MAX {
            return None;
        }
        let mut copy = fresh_func(func, names);
        let mut checks = Checks { names, bindings: Vec::new(), failed: None };
        checks.value(&copy.body, None)?;
        let (bindings, failed) = (checks.bindings, checks.failed?);
        let merger = build::merger(Type::BOOL, MergeOp::All(ReduceOp::BitOr)).ty;
        copy.params[0].1 = merger.clone();
        let merge = build::merge(build::var(copy.params[0].0, merger), failed);
        copy.body = Box::new(build::let_in(bindings, merge));
        Some(copy)
    }

    /// The value of an expression if its checks hold, else any; what its checks ask counts `when` that holds. Of
    /// builders nothing is left.
    fn value(&mut self, e: &Expr, when: Option<&Expr>) -> Option<Expr> {
        deep(|| self.value_here(e, when))
    }

    fn value_here(&mut self, e: &Expr, when: Option<&Expr>) -> Option<Expr> {
        if e.ty == Type::I128 {
            return None;
        }
        match &e.kind {
            ExprKind::Let { bindings, body } => {
                for binding in bindings {
                    let value = self.value(&binding.value, when)?;
                    if !holds_builder(&binding.value.ty) {
                        self.bindings.push(Binding { sym: binding.sym, value });
                    }
                }
                self.value(body, when)
            }
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let a = self.named(a, when)?;
                let counts = if *op == BinaryOp::And { a.clone() } else { build::not(a.clone()) };
                let counts = self.bind(both(when, counts));
                let b = self.value(b, Some(&counts))?;
                let op = if *op == BinaryOp::And { BinaryOp::BitAnd } else { BinaryOp::BitOr };
                Some(build::binary(op, a, b))
            }
            ExprKind::If { cond, on_true, on_false } => {
                let cond = self.named(cond, when)?;
                let holds = self.bind(both(when, cond.clone()));
                let a = self.value(on_true, Some(&holds))?;
                let fails = self.bind(both(when, build::not(cond.clone())));
                let b = self.value(on_false, Some(&fails))?;
                Some(if holds_builder(&e.ty) { build::bool(false) } else { build::if_(cond, a, b) })
            }
            ExprKind::Assert { cond, values, .. } => {
                let cond = self.value(cond, when)?;
                for value in values {
                    self.value(value, when)?;
                }
                self.note(build::not(cond), when);
                Some(build::bool(true))
            }
            ExprKind::Intrinsic(intrinsic, args) if wrapping(*intrinsic).is_some() => {
                self.arithmetic(wrapping(*intrinsic)?, args, when)
            }
            _ => self.parts(e, when),
        }
    }

    /// What has no check of its own.
    fn parts(&mut self, e: &Expr, when: Option<&Expr>) -> Option<Expr> {
        let vectorises = match &e.kind {
            ExprKind::Binary(op, a, _) => {
                a.ty.as_scalar().is_some_and(|kind| !kind.is_integer() || !matches!(op, BinaryOp::Div | BinaryOp::Rem))
            }
            ExprKind::Lookup { data, checked, .. } => !*checked && is_path(data) && data.ty.element().is_some(),
            ExprKind::Literal(_) | ExprKind::Var(_) | ExprKind::Unary(..) | ExprKind::Cast(_) | ExprKind::Len(_) => {
                true
            }
            ExprKind::Select { .. } | ExprKind::Struct(_) | ExprKind::Field(..) | ExprKind::Merge { .. } => true,
            ExprKind::Intrinsic(intrinsic, _) => !intrinsic.can_fail() && node_cost(e) < 10,
            _ => false,
        };
        if !vectorises {
            return None;
        }
        let mut parts = Vec::new();
        for child in e.children() {
            parts.push(self.value(child, when)?);
        }
        if holds_builder(&e.ty) {
            return Some(build::bool(false));
        }
        let mut copy = e.clone();
        for (child, part) in copy.children_mut().into_iter().zip(parts) {
            *child = part;
        }
        Some(copy)
    }

    /// The value as something that can be repeated.
    fn named(&mut self, e: &Expr, when: Option<&Expr>) -> Option<Expr> {
        let value = self.value(e, when)?;
        Some(self.bind(value))
    }

    fn bind(&mut self, value: Expr) -> Expr {
        if is_trivial(&value) {
            return value;
        }
        let sym = self.names.fresh("x");
        let variable = build::var(sym, value.ty.clone());
        self.bindings.push(Binding { sym, value });
        variable
    }

    fn note(&mut self, failed: Expr, when: Option<&Expr>) {
        let failed = both(when, failed);
        self.failed = Some(match self.failed.take() {
            Some(before) => build::binary(BinaryOp::BitOr, before, failed),
            None => failed,
        });
    }

    /// `a op b` that wraps around, which is noted.
    fn arithmetic(&mut self, op: BinaryOp, args: &[Expr], when: Option<&Expr>) -> Option<Expr> {
        let [a, b] = args else { return None };
        let kind = a.ty.as_scalar()?;
        let (a, b) = (self.named(a, when)?, self.named(b, when)?);
        let value = self.bind(build::binary(op, a.clone(), b.clone()));
        let failed = match op {
            BinaryOp::Mul => product_overflows(kind, &a, &b, &value),
            _ => sum_overflows(op, kind, &a, &b, &value),
        };
        self.note(failed, when);
        Some(value)
    }
}

/// Whether the builders are mergers and appenders of what lies in registers.
fn is_flat(builders: &Type) -> bool {
    match builders {
        Type::Struct(fields) => fields.iter().all(is_flat),
        Type::Builder(BuilderType::Merger { .. } | BuilderType::Appender(_)) => true,
        _ => false,
    }
}

fn both(when: Option<&Expr>, cond: Expr) -> Expr {
    match when {
        Some(when) => build::binary(BinaryOp::BitAnd, when.clone(), cond),
        None => cond,
    }
}

/// Whether `value`, which is `a + b` or `a - b` wrapped around, is not the sum or difference.
fn sum_overflows(op: BinaryOp, kind: ScalarKind, a: &Expr, b: &Expr, value: &Expr) -> Expr {
    let (known, other) = match (op, &a.kind) {
        (BinaryOp::Add, ExprKind::Literal(_)) => (a, b),
        _ => (b, a),
    };
    let is_less = match &known.kind {
        // With what is added or subtracted the value goes one way, unless it wraps around.
        ExprKind::Literal(known) => Some((op == BinaryOp::Add) == (known.bits() >= 0)),
        _ if !kind.is_signed() => Some(op == BinaryOp::Add),
        _ => None,
    };
    match is_less {
        Some(true) => build::lt(value.clone(), other.clone()),
        Some(false) => build::gt(value.clone(), other.clone()),
        None => {
            // The sum has another sign than both; the difference another than `a`, which has another than `b`.
            let differ = |x: &Expr, y: &Expr| build::binary(BinaryOp::BitXor, x.clone(), y.clone());
            let other = if op == BinaryOp::Add { differ(b, value) } else { differ(a, b) };
            build::lt(build::binary(BinaryOp::BitAnd, differ(a, value), other), build::number(kind, 0))
        }
    }
}

/// Whether `value`, which is `a * b` wrapped around, is not the product.
fn product_overflows(kind: ScalarKind, a: &Expr, b: &Expr, value: &Expr) -> Expr {
    let product = |wide| build::mul(build::cast(a.clone(), wide), build::cast(b.clone(), wide));
    if kind.bits() < 64 {
        return build::ne(product(ScalarKind::I64), build::cast(value.clone(), ScalarKind::I64));
    }
    let off = build::sub(product(ScalarKind::F64), build::cast(value.clone(), ScalarKind::F64));
    build::gt(build::unary(UnaryOp::Abs, off), build::f64((1u64 << 62) as f64))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::{inline_lets, simplify, testing};

    fn check(before: &str, after: Expect) {
        let passes = [super::run, inline_lets::run, simplify::run, inline_lets::run];
        testing::check_after(&passes, before, &after);
    }

    #[test]
    fn arithmetic_of_64_bits() {
        check(
            "|v: vec[i64]| result(for(v, merger[i64,max], |b, i, x| merge(b, checked_add(checked_mul(x, x), 1L))))",
            expect![[r#"
                |v: vec[i64]|
                  let builder = merger[i64,max];
                  result(if(
                    result(for(
                      v,
                      merger[bool,|],
                      |b, i, x|
                        let x_2 = x * x;
                        merge(b, abs(f64(x) * f64(x) - f64(x_2)) > 4.611686018427388e18 | x_2 + 1L < x_2)
                    )),
                    for(v, builder, |b_2, i_2, x_3| merge(b_2, checked_add(checked_mul(x_3, x_3), 1L))),
                    for(v, builder, |b_3, i_3, x_4| merge(b_3, x_4 * x_4 + 1L))
                  ))
            "#]],
        );
    }

    #[test]
    fn narrow_and_unsigned() {
        check(
            "|v: vec[{i32,u64,u8}]| result(for(v, appender[{i32,u64,u8}], |b, i, r|
               merge(b, {checked_mul(r.$0, r.$0), checked_sub(r.$1, u64(r.$0)), checked_add(r.$2, r.$2)})))",
            expect![[r#"
                |v: vec[{i32,u64,u8}]|
                  let builder = appender[{i32,u64,u8}];
                  result(if(
                    result(for(
                      v,
                      merger[bool,|],
                      |b, i, r|
                        merge(
                          b,
                          i64(r.$0) * i64(r.$0) != i64(r.$0 * r.$0) | r.$1 - u64(r.$0) > r.$1 | r.$2 + r.$2 < r.$2
                        )
                    )),
                    for(
                      v,
                      builder,
                      |b_2, i_2, r_2|
                        merge(
                          b_2,
                          {
                            checked_mul(r_2.$0, r_2.$0),
                            checked_sub(r_2.$1, u64(r_2.$0)),
                            checked_add(r_2.$2, r_2.$2)
                          }
                        )
                    ),
                    for(
                      v,
                      builder,
                      |b_3, i_3, r_3| merge(b_3, {r_3.$0 * r_3.$0, r_3.$1 - u64(r_3.$0), r_3.$2 + r_3.$2})
                    )
                  ))
            "#]],
        );
    }

    #[test]
    fn under_conditions() {
        check(
            "|v: vec[i64], n: i64| result(for(v, appender[i64], |b, i, x|
               if(x > 0L && checked_sub(x, n) < 9L, merge(b, if(x > n, checked_add(x, i), x)), b)))",
            expect![[r#"
                |v: vec[i64], n: i64|
                  let builder = appender[i64];
                  result(if(
                    result(for(
                      v,
                      merger[bool,|],
                      |b, i, x|
                        let x_2 = x > 0L;
                        let x_3 = x - n;
                        let x_4 = x + i;
                        merge(
                          b,
                          x_2 & ((x ^ x_3) & (x ^ n)) < 0L | x_2 & x_3 < 9L & x > n & ((x ^ x_4) & (i ^ x_4)) < 0L
                        )
                    )),
                    for(
                      v,
                      builder,
                      |b_2, i_2, x_5|
                        if(
                          x_5 > 0L && checked_sub(x_5, n) < 9L,
                          merge(b_2, if(x_5 > n, checked_add(x_5, i_2), x_5)),
                          b_2
                        )
                    ),
                    for(
                      v,
                      builder,
                      |b_3, i_3, x_6| if(x_6 > 0L && x_6 - n < 9L, merge(b_3, if(x_6 > n, x_6 + i_3, x_6)), b_3)
                    )
                  ))
            "#]],
        );
    }

    #[test]
    fn an_assertion() {
        check(
            "|v: vec[{f64,f64}]| result(for(v, appender[f64], |b, i, r|
               let c = require(r.$1 != 0.0, \"zero {0}\", r.$0); merge(b, r.$0 / r.$1)))",
            expect![[r#"
                |v: vec[{f64,f64}]|
                  let builder = appender[f64];
                  result(if(
                    result(for(v, merger[bool,|], |b, i, r| merge(b, r.$1 == 0.0))),
                    for(
                      v,
                      builder,
                      |b_2, i_2, r_2|
                        let c = require(r_2.$1 != 0.0, "zero {0}", r_2.$0); merge(b_2, r_2.$0 / r_2.$1)
                    ),
                    for(v, builder, |b_3, i_3, r_3| merge(b_3, r_3.$0 / r_3.$1))
                  ))
            "#]],
        );
    }

    #[test]
    fn not_beside_what_fails_or_calls() {
        check(
            "|v: vec[i64], s: stream[i64], d: dict[i64,i64]| {
               result(for(v, appender[i64], |b, i, x| merge(b, checked_add(x, 9L / x)))),
               result(for(v, appender[i64], |b, i, x| merge(b, checked_add(x, lookup(d, x))))),
               result(for(v, dictmerger[i64,i64,+], |b, i, x| merge(b, {x, checked_add(x, 1L)}))),
               result(for(v, merger[i128,+], |b, i, x| merge(b, i128(checked_add(x, 1L))))),
               result(for(s, appender[i64], |b, i, x| merge(b, checked_add(x, 1L))))}",
            expect![[r#"
                |v: vec[i64], s: stream[i64], d: dict[i64,i64]|
                  {
                    result(for(v, appender[i64], |b, i, x| merge(b, checked_add(x, 9L / x)))),
                    result(for(v, appender[i64], |b_2, i_2, x_2| merge(b_2, checked_add(x_2, lookup(d, x_2))))),
                    result(for(v, dictmerger[i64,i64,+], |b_3, i_3, x_3| merge(b_3, {x_3, checked_add(x_3, 1L)}))),
                    result(for(v, merger[i128,+], |b_4, i_4, x_4| merge(b_4, i128(checked_add(x_4, 1L))))),
                    result(for(s, appender[i64], |b_5, i_5, x_5| merge(b_5, checked_add(x_5, 1L))))
                  }
            "#]],
        );
    }

    /// Whether the pass splits a loop whose update function computes that.
    fn splits(value: &str) -> bool {
        let text = format!("|v: vec[i64]| result(for(v, appender, |b, i, x| merge(b, {value})))");
        !testing::stays(super::run, &text)
    }

    #[test]
    fn cheap_functions_are_computed_for_the_checks_too() {
        assert!(splits("checked_add(x, magnitude(x))"));
        assert!(splits("{checked_add(x, 1L), f64(x) / 3.0}"));
        assert!(splits("checked_add(x, select(x > i, -x, x))"));
    }

    #[test]
    fn dear_functions_and_quotients_stay() {
        assert!(!splits("checked_add(x, i64(year(i32(x))))"));
        assert!(!splits("{checked_add(x, 1L), round_div(x, 3L)}"));
        assert!(!splits("{checked_add(x, 1L), x / 3L}"));
        assert!(!splits("{checked_add(x, 1L), x % 3L}"));
        assert!(!splits("{checked_add(x, 1L), lookup(v, x)}"));
    }

    #[test]
    fn long_functions_stay() {
        let sum = |terms: usize| (0..terms).fold("x".to_string(), |sum, _| format!("checked_add({sum}, i)"));
        assert!(splits(&sum(50)));
        assert!(!splits(&sum(super::NODES_MAX / 2)));
    }
}
