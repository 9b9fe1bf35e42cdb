//! Turns cheap branches in loops into straight-line code, which compilers vectorise and CPUs cannot mispredict.
//!
//! ```weld
//! for(v, merger[i64,+], |b, i, x| if(x > 0L && x < 9L, merge(b, x * 2L), b))
//! =>
//! for(v, merger[i64,+], |b, i, x| merge(b, select(x > 0L & x < 9L, x * 2L, 0L)))
//! ```
//!
//! Laws: merging the identity of a merger's operator changes nothing, so `if(c, merge(b, x), b)` is
//! `merge(b, select(c, x, identity))` when `x` cannot fail; `p && q` is `p & q` and `if(c, x, y)` of scalars is
//! `select(c, x, y)` when what is evaluated more often cannot fail. The identity of float `+` is -0.0 (adding 0.0 turns
//! -0.0 into 0.0); `min` and `max` of floats are left alone: a NaN that the merger starts from would be lost. Only for
//! mergers: merging an identity into a dictmerger would make a key that was not there, and into an appender an element.
//!
//! Cost model: what is evaluated more often costs at most [`COST_MAX`] simple operations, about a mispredicted branch.
//! `@(predicate:true)` on the branch lifts that limit, `@(predicate:false)` forbids.

use super::Config;
use super::facts::{can_drop, can_fail, cost, is_path, join_blocks};
use super::simplify::same;
use crate::builder;
use crate::ir::{Binding, Expr, ExprKind, Literal, Names, Program, build, deep};
use crate::op::{BinaryOp, MergeOp, ReduceOp};
use crate::ty::{BuilderType, Type};

/// How many simple operations may be done in vain rather than branched over.
const COST_MAX: u32 = 16;

pub(super) fn run(program: &mut Program, _: &Config) {
    visit(&mut program.body, false, &mut program.names);
    join_blocks(&mut program.body);
}

fn visit(e: &mut Expr, in_loop: bool, names: &mut Names) {
    deep(|| {
        let is_for = matches!(e.kind, ExprKind::For { .. });
        let children = e.children_mut();
        let last = children.len().wrapping_sub(1);
        for (k, child) in children.into_iter().enumerate() {
            visit(child, in_loop || is_for && k == last, names);
        }
        if in_loop {
            straighten(e, names);
        }
    })
}

fn straighten(e: &mut Expr, names: &mut Names) {
    let limit = match e.annotations.get("predicate") {
        Some("false") => return,
        Some("true") => u32::MAX,
        _ => COST_MAX,
    };
    let new = match &mut e.kind {
        ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) if is_speculable(b, limit) => {
            let op = if *op == BinaryOp::And { BinaryOp::BitAnd } else { BinaryOp::BitOr };
            build::binary(op, a.take(), b.take())
        }
        ExprKind::If { cond, on_true, on_false } if e.ty.as_scalar().is_some() => {
            if !is_speculable(on_true, limit) || !is_speculable(on_false, limit) {
                return;
            }
            build::select(cond.take(), on_true.take(), on_false.take())
        }
        ExprKind::If { cond, on_true, on_false } => match predicated(cond, on_true, on_false, limit, names) {
            Some(merge) => merge,
            None => return,
        },
        _ => return,
    };
    let span = e.span;
    *e = new.at(span);
}

/// Cheap, and cannot fail. No blocks: their bindings would have to move out of the branch.
fn is_speculable(e: &Expr, limit: u32) -> bool {
    !matches!(e.kind, ExprKind::Let { .. }) && cost(e) <= limit && !can_fail(e)
}

/// `if(c, merge(b, x), b)` as a merge that is always done.
fn predicated(cond: &mut Expr, on_true: &mut Expr, on_false: &Expr, limit: u32, names: &mut Names) -> Option<Expr> {
    if !is_path(on_false) {
        return None;
    }
    let Type::Builder(BuilderType::Merger { value: ty, op }) = &on_false.ty else { return None };
    // A block in the branch moves out with the merge: it cannot fail either.
    let (bindings, merge) = match &mut on_true.kind {
        ExprKind::Let { bindings, body } => (Some(bindings), &mut **body),
        _ => (None, &mut *on_true),
    };
    let ExprKind::Merge { builder, value } = &mut merge.kind else { return None };
    if !same(builder, on_false) || !is_speculable(value, limit) {
        return None;
    }
    let block_cost = bindings.as_deref().map_or(0, |bs| bs.iter().map(|b| cost(&b.value)).sum());
    if bindings.as_deref().is_some_and(|bs| bs.iter().any(|b| can_fail(&b.value))) || block_cost > limit {
        return None;
    }
    let identity = identity(ty, op)?;
    let mut bindings = bindings.map(std::mem::take).unwrap_or_default();
    let mut cond = cond.take();
    if matches!(value.kind, ExprKind::Struct(_)) && !is_path(&cond) {
        let sym = names.fresh("c");
        bindings.insert(0, Binding { sym, value: cond });
        cond = build::var(sym, Type::BOOL);
    }
    let value = select(cond, value.take(), identity);
    Some(build::let_in(bindings, build::merge(builder.take(), value)))
}

/// `select`, field by field where the fields are known, and nothing where the value is the identity anyway.
fn select(cond: Expr, value: Expr, identity: Expr) -> Expr {
    match (value.kind, identity.kind) {
        (ExprKind::Struct(values), ExprKind::Struct(identities)) => {
            build::strct(values.into_iter().zip(identities).map(|(v, i)| select(cond.clone(), v, i)))
        }
        (ExprKind::Literal(v), ExprKind::Literal(i)) if v == i && can_drop(&cond) => build::lit(v),
        (v, i) => {
            let restore = |kind, ty: &Type| build::node(kind, ty.clone());
            build::select(cond, restore(v, &value.ty), restore(i, &identity.ty))
        }
    }
}

/// The value that a merger's operator ignores, to the bit; `None` where there is none.
fn identity(ty: &Type, op: &MergeOp) -> Option<Expr> {
    match ty {
        Type::Scalar(kind) => {
            let MergeOp::All(op) = op else { return None };
            Some(build::lit(match (op, kind.is_float()) {
                (ReduceOp::Add, true) => match builder::identity(*op, *kind)? {
                    Literal::F32(_) => Literal::F32(-0.0),
                    _ => Literal::F64(-0.0),
                },
                (ReduceOp::Min | ReduceOp::Max, true) => return None,
                _ => builder::identity(*op, *kind)?,
            }))
        }
        Type::Struct(fields) => {
            let fields = fields.iter().enumerate().map(|(k, field)| identity(field, &op.field(k)));
            Some(build::strct(fields.collect::<Option<Vec<_>>>()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::testing;

    fn check(before: &str, after: Expect) {
        testing::check(super::run, before, &after);
    }

    #[test]
    fn a_conditional_sum() {
        check(
            "|v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| if(x > 0L && x < 9L, merge(b, x * 2L), b)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(v, merger[i64,+], |b, i, x| merge(b, select(x > 0L & x < 9L, x * 2L, 0L))))
            "#]],
        );
    }

    #[test]
    fn field_by_field() {
        check(
            "|v: vec[{i64,f64}]| result(for(v, merger[{i64,f64,i64},{+,+,max}], |b, i, r|
               if(r.$0 > 0L, merge(b, {1L, r.$1, r.$0}), b)))",
            expect![[r#"
                |v: vec[{i64,f64}]|
                  result(for(
                    v,
                    merger[{i64,f64,i64},{+,+,max}],
                    |b, i, r|
                      let c = r.$0 > 0L;
                      merge(b, {select(c, 1L, 0L), select(c, r.$1, -0.0), select(c, r.$0, -9223372036854775808L)})
                  ))
            "#]],
        );
    }

    #[test]
    fn a_merger_among_builders() {
        check(
            "|v: vec[i64]| let bs = for(v, {merger[i64,+], appender[i64]}, |b, i, x|
               {if(x > 0L, merge(b.$0, x), b.$0), if(x > 0L, merge(b.$1, x), b.$1)});
             {result(bs.$0), result(bs.$1)}",
            expect![[r#"
                |v: vec[i64]|
                  let bs = for(
                    v,
                    {merger[i64,+], appender[i64]},
                    |b, i, x| {merge(b.$0, select(x > 0L, x, 0L)), if(x > 0L, merge(b.$1, x), b.$1)}
                  );
                  {result(bs.$0), result(bs.$1)}
            "#]],
        );
    }

    #[test]
    fn no_ghost_keys() {
        check(
            "|v: vec[i64]| result(for(v, dictmerger[i64,i64,+], |b, i, x| if(x > 0L, merge(b, {x, 1L}), b)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(v, dictmerger[i64,i64,+], |b, i, x| if(x > 0L, merge(b, {x, 1L}), b)))
            "#]],
        );
    }

    #[test]
    fn not_what_may_fail() {
        check(
            "|v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| if(x != 0L && 7L / x > 1L, merge(b, 9L / x), b)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(v, merger[i64,+], |b, i, x| if(x != 0L && 7L / x > 1L, merge(b, 9L / x), b)))
            "#]],
        );
    }

    #[test]
    fn annotations_decide() {
        check(
            "|v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| @(predicate:false) if(x > 0L, merge(b, x), b)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(v, merger[i64,+], |b, i, x| @(predicate:false) if(x > 0L, merge(b, x), b)))
            "#]],
        );
    }

    #[test]
    fn float_minima_stay_branches() {
        check(
            "|v: vec[f64]| result(for(v, merger[f64,min], |b, i, x| if(x > 0.0, merge(b, x), b)))",
            expect![[r#"
            |v: vec[f64]|
              result(for(v, merger[f64,min], |b, i, x| if(x > 0.0, merge(b, x), b)))
        "#]],
        );
    }

    #[test]
    fn scalars_and_blocks() {
        check(
            "|v: vec[i64]| result(for(v, merger[i64,+], |b, i, x|
               if(x > 0L || i > 3L, let y = x * x; merge(b, y + if(x > i, y, i)), b)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(
                    v,
                    merger[i64,+],
                    |b, i, x| let y = x * x; merge(b, select(x > 0L | i > 3L, y + select(x > i, y, i), 0L))
                  ))
            "#]],
        );
    }

    #[test]
    fn what_is_dear_or_outside_of_loops_stays() {
        let stays = |text: &str| testing::stays(super::run, text);
        let summed =
            |branch: &str| format!("|v: vec[i64], d: dict[i64,i64]| result(for(v, merger[i64,+], |b, i, x| {branch}))");
        assert!(stays("|x: i64| if(x > 0L && x < 9L, x, 0L)"));
        assert!(stays(&summed("if(x > 0L, merge(b, optlookup(d, x).$1), b)")));
        assert!(!stays(&summed("@(predicate:true) if(x > 0L, merge(b, optlookup(d, x).$1), b)")));
        assert!(stays(&summed("if(x > 0L, let y = optlookup(d, x).$1; merge(b, y * y), b)")));
        assert!(stays(&summed("if(x > 0L, let y = 9L / x; merge(b, y * y), b)")));
        assert!(stays(&summed("if(x > 0L, merge(b, x), merge(b, optlookup(d, x).$1))")));
        assert!(stays(&summed("if(x > 0L, merge(merge(b, x), i), b)")));
        assert!(stays(&summed("merge(b, if(x > 0L, optlookup(d, x).$1, 0L))")));
        assert!(stays(&summed("merge(b, if(x > 0L, 0L, optlookup(d, x).$1))")));
        assert!(!stays(&summed("merge(b, if(x > 0L, x, 0L))")));
    }
}
