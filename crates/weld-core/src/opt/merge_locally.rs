//! Loops that merge into one place of a table become loops into a merger, whose result is merged there once.
//!
//! ```weld
//! |v: vec[f64], w: vec[f64]| result(for(w, vecmerger[f64,+](w), |b, i, x|
//!   for(v, b, |b2, j, y| merge(b2, {i, x * y}))))
//! =>
//! |v: vec[f64], w: vec[f64]| result(for(w, vecmerger[f64,+](w), |b, i, x|
//!   if(len(v) > 0L, merge(b, {i, result(for(v, merger[f64,+], |b2, j, y| merge(b2, x * y)))}), b)))
//! ```
//!
//! Law: `(p op x) op y` is `p op (x op y)`. It holds for integers, and for `+` and `*` of floats that may be
//! reassociated; not for `min` and `max` of floats, which skip NaN. A loop of no iterations merges nothing, and makes
//! no key.
//!
//! Finding the place once and keeping the sum in a register is not worse for more than one iteration, and LLVM
//! vectorises what is left. Into dictionaries only loops over ranges merge locally: those over vectors are mostly over
//! the groups of a join, which are mostly of one.

use super::Config;
use super::facts::{can_fail, cost};
use crate::builder;
use crate::ir::{Expr, ExprKind, Func, Iter, Literal, Names, Program, Sym, build, deep};
use crate::op::{MergeOp, ReduceOp};
use crate::ty::{BuilderType, ScalarKind, Type};

/// What it may cost to say whether a loop has iterations.
const BOUND_MAX: u32 = 3;

pub(super) fn run(program: &mut Program, _: &Config) {
    let streams: Vec<Sym> = program.params.iter().filter(|p| p.stream).map(|p| p.sym).collect();
    Pass { names: &mut program.names, streams }.visit(&mut program.body, false);
}

struct Pass<'a> {
    names: &'a mut Names,
    streams: Vec<Sym>,
}

impl Pass<'_> {
    /// `strict`: a loop around keeps floats in order.
    fn visit(&mut self, e: &mut Expr, strict: bool) {
        deep(|| {
            let strict = strict || e.annotations.get("strict") == Some("true");
            e.each_child_mut(&mut |child| self.visit(child, strict));
            if let Some(new) = self.local(e, strict) {
                *e = new;
            }
        })
    }

    /// What the loop becomes.
    fn local(&mut self, e: &mut Expr, strict: bool) -> Option<Expr> {
        let ExprKind::For { iter, builder, func } = &mut e.kind else { return None };
        let (value_ty, op) = match (&builder.ty, &**iter) {
            (Type::Builder(BuilderType::VecMerger { value, op }), _)
            | (Type::Builder(BuilderType::DictMerger { value, op, .. }), Iter::Range { .. }) => {
                ((**value).clone(), op.clone())
            }
            _ => return None,
        };
        if !matches!(builder.kind, ExprKind::Var(_)) || !may_regroup(&value_ty, &op, strict) {
            return None;
        }
        let some = has_iterations(iter, &self.streams)?;
        let own = func.params[0].0;
        let (bindings, body) = match &mut func.body.kind {
            ExprKind::Let { bindings, body } => (&mut bindings[..], &mut **body),
            _ => (&mut [][..], &mut *func.body),
        };
        if bindings.iter().any(|binding| binding.value.uses(own)) {
            return None;
        }
        let ExprKind::Merge { builder: into, value } = &mut body.kind else { return None };
        let ExprKind::Struct(parts) = &mut value.kind else { return None };
        let [place, merged] = &mut parts[..] else { return None };
        if !matches!(into.kind, ExprKind::Var(sym) if sym == own) || merged.ty != value_ty {
            return None;
        }
        let free = place.free_vars();
        let bound = |sym: &Sym| {
            bindings.iter().any(|binding| binding.sym == *sym) || func.params.iter().any(|(param, _)| param == sym)
        };
        if free.iter().any(bound) {
            return None;
        }
        let start = identity(&value_ty, &op)?;
        let span = body.span;
        let place = place.take();
        let merger = build::builder_with(BuilderType::Merger { value: value_ty.into(), op }, start);
        let sum = self.names.fresh_like(own);
        *body = build::merge(build::var(sum, merger.ty.clone()), merged.take()).at(span);
        func.params[0] = (sum, merger.ty.clone());
        func.body.ty = merger.ty.clone();
        let target = builder.take();
        let iter = std::mem::replace(&mut **iter, Iter::Zip(Vec::new()));
        let func = Func { params: std::mem::take(&mut func.params), body: Box::new(func.body.take()) };
        let mut inner = build::for_func(iter, merger, func).at(e.span);
        inner.annotations = std::mem::take(&mut e.annotations);
        let merged = build::merge(target.clone(), build::strct([place, build::result(inner)])).at(span);
        Some(build::if_(some, merged, target))
    }
}

/// Whether values may be merged with each other before they are merged into the table.
fn may_regroup(ty: &Type, op: &MergeOp, strict: bool) -> bool {
    match (ty, op) {
        (Type::Struct(fields), op) => {
            fields.iter().enumerate().all(|(i, field)| may_regroup(field, &op.field(i), strict))
        }
        (Type::Scalar(kind), MergeOp::All(op)) => {
            !kind.is_float() || !strict && matches!(op, ReduceOp::Add | ReduceOp::Mul)
        }
        _ => false,
    }
}

/// The value that changes nothing when merged; for sums of floats that is -0.0.
fn identity(ty: &Type, op: &MergeOp) -> Option<Expr> {
    match (ty, op) {
        (Type::Struct(fields), op) => {
            let fields: Option<Vec<Expr>> =
                fields.iter().enumerate().map(|(i, field)| identity(field, &op.field(i))).collect();
            fields.map(build::strct)
        }
        (Type::Scalar(ScalarKind::F32), MergeOp::All(ReduceOp::Add)) => Some(build::lit(Literal::F32(-0.0))),
        (Type::Scalar(ScalarKind::F64), MergeOp::All(ReduceOp::Add)) => Some(build::lit(Literal::F64(-0.0))),
        (Type::Scalar(kind), MergeOp::All(op)) => builder::identity(*op, *kind).map(build::lit),
        _ => None,
    }
}

/// Whether a loop has any iteration, where that is simple to say.
fn has_iterations(iter: &Iter, streams: &[Sym]) -> Option<Expr> {
    let simple = |e: &Expr| cost(e) <= BOUND_MAX && !can_fail(e);
    match iter {
        Iter::Vector(data) if simple(data) => match data.kind {
            ExprKind::Var(sym) if streams.contains(&sym) => None,
            _ => Some(build::gt(build::len(data.clone()), build::i64(0))),
        },
        Iter::Range { start, end, .. } if simple(start) && simple(end) => Some(build::lt(start.clone(), end.clone())),
        Iter::Zip(parts) => parts.iter().find_map(|part| has_iterations(part, streams)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    fn check(before: &str, after: Expect) {
        super::super::testing::check(super::run, before, &after);
    }

    #[test]
    fn one_element_of_a_vector() {
        check(
            "|v: vec[f64], w: vec[f64]| result(for(w, vecmerger[f64,+](w), |b, i, x|
               for(v, b, |b2, j, y| merge(b2, {i, x * y}))))",
            expect![[r#"
                |v: vec[f64], w: vec[f64]|
                  result(for(
                    w,
                    vecmerger[f64,+](w),
                    |b, i, x|
                      if(
                        len(v) > 0L,
                        merge(b, {i, result(for(v, merger[f64,+](-0.0), |b2, j, y| merge(b2, x * y)))}),
                        b
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn one_key() {
        check(
            "|v: vec[i64], n: i64| result(for(v, dictmerger[i64,{i64,i64},{+,max}], |b, i, x|
               for(rangeiter(0L, n, 1L), b, |b2, j, y| let z = x * y; merge(b2, {x, {z, z}}))))",
            expect![[r#"
                |v: vec[i64], n: i64|
                  result(for(
                    v,
                    dictmerger[i64,{i64,i64},{+,max}],
                    |b, i, x|
                      if(
                        0L < n,
                        merge(
                          b,
                          {
                            x,
                            result(for(
                              rangeiter(0L, n, 1L),
                              merger[{i64,i64},{+,max}]({0L, -9223372036854775808L}),
                              |b2, j, y| let z = x * y; merge(b2, {z, z})
                            ))
                          }
                        ),
                        b
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn other_places_and_filters_stay() {
        let stays = |text: &str| {
            let program = crate::parse_program(text).expect("parses");
            let mut after = program.clone();
            super::run(&mut after, &super::Config::default());
            assert!(program.same_as(&after), "{after}");
        };
        stays("|v: vec[i64]| result(for(v, vecmerger[i64,+](v), |b, i, x| for(v, b, |b2, j, y| merge(b2, {j, x}))))");
        stays(
            "|v: vec[i64]| result(for(v, vecmerger[i64,+](v), |b, i, x|
               for(v, b, |b2, j, y| if(y > x, merge(b2, {i, x}), b2))))",
        );
        stays("|v: vec[f64]| result(for(v, vecmerger[f64,min](v), |b, i, x| for(v, b, |b2, j, y| merge(b2, {i, y}))))");
        stays(
            "|v: vec[f64]| result(@(strict:true) for(v, vecmerger[f64,+](v), |b, i, x|
               for(v, b, |b2, j, y| merge(b2, {i, y}))))",
        );
    }
}
