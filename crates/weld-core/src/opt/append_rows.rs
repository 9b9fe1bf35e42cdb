//! Loops that merge once into each place of a constant vector, in order, append the places instead.
//!
//! ```weld
//! |v: vec[f64], k: i64, n: i64|
//!   result(for(rangeiter(0L, n, 1L),
//!     vecmerger[f64,+](result(for(rangeiter(0L, n, 1L), appender[f64], |b, i, x| merge(b, 0.0)))),
//!     |b, i, x| if(k > 0L, merge(b, {i, lookup(v, i)}), b)))
//! =>
//! |v: vec[f64], k: i64, n: i64|
//!   result(for(rangeiter(0L, n, 1L), appender[f64],
//!     |b, i, x| merge(b, if(k > 0L, 0.0 + lookup(v, i), 0.0))))
//! ```
//!
//! Law: a place that gets `y` holds `start + y` in the end, another one `start`. The loop may end earlier than the
//! vector does if it is `select(g, n, 0L)` times: then `g` is tested for each place.
//!
//! The vector of starts is neither filled nor read, and what reads the result can be fused with the loop.

use super::Config;
use super::facts::{is_trivial, join_blocks};
use super::fuse_loops::producer;
use crate::ir::{Binding, Expr, ExprKind, Func, Iter, Literal, Names, Program, Sym, build, deep};
use crate::op::{BinaryOp, MergeOp, ReduceOp};
use crate::ty::{BuilderType, ScalarKind, Type};

pub(super) fn run(program: &mut Program, _: &Config) {
    let names = &mut program.names;
    let mut changed = false;
    program.body.rewrite(&mut |e| {
        if changed {
            lift(e);
        }
        if let Some(new) = appended(e, names) {
            *e = new;
            changed = true;
        }
    });
    join_blocks(&mut program.body);
}

/// A block that a loop iterates over goes around the loop, so that what is in it can be fused.
fn lift(e: &mut Expr) {
    let inner = match &mut e.kind {
        ExprKind::Result(of) => &mut **of,
        ExprKind::For { iter, .. } => match &mut **iter {
            Iter::Vector(data) => data,
            _ => return,
        },
        _ => return,
    };
    if let ExprKind::Let { bindings, body } = &mut inner.kind {
        let (bindings, body) = (std::mem::take(bindings), body.take());
        *inner = body;
        *e = build::let_in(bindings, e.take());
    }
}

/// What `result(for(rangeiter(..), vecmerger(..), ..))` becomes.
fn appended(e: &mut Expr, names: &mut Names) -> Option<Expr> {
    let ExprKind::Result(of) = &mut e.kind else { return None };
    let ExprKind::For { iter, builder, func } = &mut of.kind else { return None };
    let Type::Builder(BuilderType::VecMerger { value: ty, op }) = &builder.ty else { return None };
    let op = match op {
        MergeOp::All(ReduceOp::Add) => BinaryOp::Add,
        MergeOp::All(ReduceOp::Mul) => BinaryOp::Mul,
        _ => return None,
    };
    let ExprKind::NewBuilder { arg: Some(init) } = &builder.kind else { return None };
    let (ends, made) = (times(iter)?, producer(init)?);
    let (places, start) = (times(made.0)?, constant(made.1)?);
    let guard = match &ends.kind {
        _ if ends.same_as(places) => None,
        ExprKind::Select { cond, on_true, on_false } if on_true.same_as(places) && is_zero(on_false) => Some(cond),
        _ => return None,
    };
    if ty.as_scalar().is_none() || !is_trivial(places) || !merges_own_place(&func.body, func) {
        return None;
    }
    let (ty, start, iter) = ((**ty).clone(), start.clone(), build::range(build::i64(0), places.clone(), build::i64(1)));
    let guard = guard.map(|guard| Binding { sym: names.fresh("all"), value: (**guard).clone() });

    let mut func = Func { params: std::mem::take(&mut func.params), body: Box::new(func.body.take()) };
    let own = func.params[0].0;
    let mut value = merged(func.body.take(), op, &start);
    if let Some(guard) = &guard {
        value = build::if_(build::var(guard.sym, Type::Scalar(ScalarKind::Bool)), value, start);
    }
    let appender = build::appender(ty);
    func.params[0].1 = appender.ty.clone();
    *func.body = build::merge(build::var(own, appender.ty.clone()), value).at(of.span);
    let mut looped = build::for_func(iter, appender, func).at(of.span);
    looped.annotations = std::mem::take(&mut of.annotations);
    let result = build::result(looped).at(e.span);
    Some(match guard {
        Some(guard) => build::let_in(vec![guard], result),
        None => result,
    })
}

/// How many times `rangeiter(0L, n, 1L)` iterates: `n`.
fn times(iter: &Iter) -> Option<&Expr> {
    let Iter::Range { start, end, stride } = iter else { return None };
    (is_zero(start) && matches!(stride.kind, ExprKind::Literal(Literal::I64(1)))).then_some(end)
}

fn is_zero(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Literal(Literal::I64(0)))
}

/// The value that every iteration appends.
fn constant(func: &Func) -> Option<&Expr> {
    match &func.body.kind {
        ExprKind::Merge { builder, value } if is_var(builder, func.params[0].0) => {
            let own = |sym: &Sym| func.params.iter().any(|(param, _)| param == sym);
            (is_trivial(value) && !value.free_vars().iter().any(own)).then_some(value)
        }
        _ => None,
    }
}

/// Whether every path merges into the place of the iteration at most once.
fn merges_own_place(e: &Expr, func: &Func) -> bool {
    let own = func.params[0].0;
    deep(|| match &e.kind {
        ExprKind::Var(sym) => *sym == own,
        ExprKind::Let { bindings, body } => {
            bindings.iter().all(|binding| !binding.value.uses(own)) && merges_own_place(body, func)
        }
        ExprKind::If { cond, on_true, on_false } => {
            !cond.uses(own) && merges_own_place(on_true, func) && merges_own_place(on_false, func)
        }
        ExprKind::Merge { builder, value } => match &value.kind {
            ExprKind::Struct(parts) => {
                let numbers = &func.params[1..];
                is_var(builder, own) && numbers.iter().any(|(sym, _)| is_var(&parts[0], *sym))
            }
            _ => false,
        },
        _ => false,
    })
}

/// What a place holds after its iteration.
fn merged(e: Expr, op: BinaryOp, start: &Expr) -> Expr {
    deep(|| match e.kind {
        ExprKind::Let { bindings, body } => build::let_in(bindings, merged(*body, op, start)),
        ExprKind::If { cond, on_true, on_false } => {
            build::if_(*cond, merged(*on_true, op, start), merged(*on_false, op, start))
        }
        ExprKind::Merge { mut value, .. } => match &mut value.kind {
            ExprKind::Struct(parts) => build::binary(op, start.clone(), parts[1].take()).at(e.span),
            _ => start.clone(),
        },
        _ => start.clone(),
    })
}

fn is_var(e: &Expr, sym: Sym) -> bool {
    matches!(e.kind, ExprKind::Var(s) if s == sym)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::testing;

    fn check(before: &str, after: Expect) {
        testing::check(super::run, before, &after);
    }

    #[test]
    fn a_place_each() {
        check(
            "|v: vec[f64]| let n = len(v); result(for(rangeiter(0L, n, 1L),
               vecmerger[f64,+](result(for(rangeiter(0L, n, 1L), appender[f64], |b, i, x| merge(b, 0.5)))),
               |b, i, x| let y = lookup(v, x); if(y > 0.0, merge(b, {i, y * y}), b)))",
            expect![[r#"
                |v: vec[f64]|
                  let n = len(v);
                  result(for(
                    rangeiter(0L, n, 1L),
                    appender[f64],
                    |b, i, x| merge(b, let y = lookup(v, x); if(y > 0.0, 0.5 + y * y, 0.5))
                  ))
            "#]],
        );
    }

    #[test]
    fn places_that_are_not_reached_keep_their_start() {
        check(
            "|v: vec[i64], k: i64| let n = len(v);
             result(for(result(for(rangeiter(0L, select(10L / k > 1L, n, 0L), 1L),
               vecmerger[i64,*](result(for(rangeiter(0L, n, 1L), appender[i64], |b, i, x| merge(b, k)))),
               |b, i, x| merge(b, {x, lookup(v, i)}))), merger[i64,+], |b, i, x| merge(b, x)))",
            expect![[r#"
                |v: vec[i64], k: i64|
                  let n = len(v);
                  let all = 10L / k > 1L;
                  result(for(
                    result(for(
                      rangeiter(0L, n, 1L),
                      appender[i64],
                      |b_2, i_2, x_2| merge(b_2, if(all, k * lookup(v, i_2), k))
                    )),
                    merger[i64,+],
                    |b, i, x| merge(b, x)
                  ))
            "#]],
        );
    }

    #[test]
    fn other_places_starts_and_lengths_stay() {
        let stays = |iter: &str, start: &str, merge: &str| {
            let text = format!(
                "|v: vec[i64], n: i64| result(for({iter}, vecmerger[i64,+](result(for(rangeiter(0L, n, 1L),
                   appender[i64], |b, i, x| merge(b, {start})))), |b, i, x| {merge}))"
            );
            assert!(testing::stays(super::run, &text), "{text}");
        };
        stays("rangeiter(0L, n, 1L)", "0L", "merge(b, {0L, x})");
        stays("rangeiter(0L, n, 1L)", "i", "merge(b, {i, x})");
        stays("rangeiter(0L, n, 1L)", "0L", "merge(merge(b, {i, x}), {i, x})");
        stays("rangeiter(1L, n, 1L)", "0L", "merge(b, {i, x})");
        stays("rangeiter(0L, n, 2L)", "0L", "merge(b, {i, x})");
        stays("rangeiter(0L, n - 1L, 1L)", "0L", "merge(b, {i, x})");
        stays("rangeiter(0L, select(n > 9L, n, 1L), 1L)", "0L", "merge(b, {i, x})");
        stays("rangeiter(0L, select(n > 9L, 0L, n), 1L)", "0L", "merge(b, {i, x})");
        stays("v", "0L", "merge(b, {i, x})");
    }
}
