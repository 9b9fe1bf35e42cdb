//! A loop over a list that is empty unless a condition holds.
//!
//! ```weld
//! for(if(c, v, []), b, f)                    =>    if(c, for(v, b, f), b)
//! for(result(if(c, a, appender[T])), b, f)    =>    if(c, for(result(a), b, f), b)
//! ```
//! Law: a loop over an empty vector gives its builder. SQL's functions make such lists, empty for NULL; their loops
//! fuse with those that read them. Never worse: the builder's expression is copied, which is variables, fields and new
//! builders, and one of both is evaluated.

use crate::ir::{Expr, ExprKind, Iter, build};
use crate::ty::{BuilderType, Type};

/// Rewrites the loop, if it is one; whether it was.
pub(super) fn split(e: &mut Expr) -> bool {
    let ExprKind::For { iter, builder, .. } = &mut e.kind else { return false };
    let Iter::Vector(data) = &mut **iter else { return false };
    if !is_cheap(builder) {
        return false;
    }
    if let ExprKind::Result(filled) = &mut data.kind
        && let ExprKind::If { on_true, on_false, .. } = &mut filled.kind
        && (is_new(on_true) || is_new(on_false))
    {
        for branch in [on_true, on_false] {
            **branch = build::result(branch.take());
        }
        let ty = data.ty.clone();
        *data = Expr { ty, ..filled.take() };
    }
    let ExprKind::If { cond, on_true, on_false } = &mut data.kind else { return false };
    let (full, is_true) = match (is_empty(on_true), is_empty(on_false)) {
        (false, true) => (on_true, true),
        (true, false) => (on_false, false),
        _ => return false,
    };
    let (cond, full, builder) = (cond.take(), full.take(), (**builder).clone());
    *data = full;
    let (ty, span) = (e.ty.clone(), e.span);
    let filled = e.take();
    let (on_true, on_false) = if is_true { (filled, builder) } else { (builder, filled) };
    let kind = ExprKind::If { cond: Box::new(cond), on_true: Box::new(on_true), on_false: Box::new(on_false) };
    *e = Expr { ty, span, kind, annotations: Default::default() };
    true
}

fn is_empty(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Vector(elements) => elements.is_empty(),
        ExprKind::Result(builder) => is_new(builder),
        _ => false,
    }
}

/// Whether a builder is an appender without elements; its argument is a hint.
fn is_new(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::NewBuilder { .. }) && matches!(e.ty, Type::Builder(BuilderType::Appender(_)))
}

/// Whether a builder's expression may stand in two branches.
fn is_cheap(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Var(_) | ExprKind::Literal(_) | ExprKind::NewBuilder { arg: None } => true,
        ExprKind::NewBuilder { arg: Some(arg) } => is_cheap(arg),
        ExprKind::Field(of, _) | ExprKind::Len(of) => is_cheap(of),
        ExprKind::Struct(parts) => parts.iter().all(is_cheap),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::opt::fuse_loops;
    use crate::opt::testing::check;

    #[test]
    fn the_loop_goes_into_the_branch_and_fuses_there() {
        let before = "|v: vec[i64], c: bool|
            result(for(if(c, map(v, |x| x * 2L), []), merger[i64,+], |b, i, x| merge(b, x)))";
        check(
            fuse_loops::run,
            before,
            &expect![[r#"
            |v: vec[i64], c: bool|
              result(if(
                c,
                for(v, merger[i64,+], |b, i, x| let x_2 = x * 2L; let i_2 = i; let b_2 = b; merge(b_2, x_2)),
                merger[i64,+]
              ))
        "#]],
        );
    }

    #[test]
    fn the_other_branch_is_empty() {
        check(
            fuse_loops::run,
            "|v: vec[i64], c: bool| result(for(if(c, [], v), appender[i64](len(v)), |b, i, x| merge(b, x)))",
            &expect![[r#"
                |v: vec[i64], c: bool|
                  result(if(c, appender[i64](len(v)), for(v, appender[i64](len(v)), |b, i, x| merge(b, x))))
            "#]],
        );
        check(
            fuse_loops::run,
            "|v: vec[i64], c: bool| result(for(result(if(c, appender, for(v, appender, |b, i, x| merge(b, x + 1L)))),
               merger[i64,+], |b, i, x| merge(b, x)))",
            &expect![[r#"
                |v: vec[i64], c: bool|
                  result(if(
                    c,
                    merger[i64,+],
                    for(v, merger[i64,+], |b, i, x| let x_2 = x + 1L; let i_2 = i; let b_2 = b; merge(b_2, x_2))
                  ))
            "#]],
        );
    }

    #[test]
    fn lists_of_which_both_or_none_are_empty_stay() {
        check(
            fuse_loops::run,
            "|v: vec[i64], c: bool| result(for(if(c, [], []: vec[i64]), merger[i64,+], |b, i, x| merge(b, x)))",
            &expect![[r#"
                |v: vec[i64], c: bool|
                  result(for(if(c, []: vec[i64], []: vec[i64]), merger[i64,+], |b, i, x| merge(b, x)))
            "#]],
        );
        check(
            fuse_loops::run,
            "|v: vec[i64], c: bool| result(for(if(c, v, result(for(v, appender, |b, i, x| merge(b, x)))), merger[i64,+], |b, i, x| merge(b, x)))",
            &expect![[r#"
                |v: vec[i64], c: bool|
                  result(for(if(c, v, v), merger[i64,+], |b, i, x| merge(b, x)))
            "#]],
        );
    }

    #[test]
    fn a_list_that_is_made_in_a_branch() {
        let before = "|v: vec[i64]|
            let n = len(v); let f = result(if(assert(n == 3L), for(v, appender[i64](n), |b, i, x| merge(b, x * 2L)), appender[i64](n)));
            result(for(f, appender[i64](3L), |b, i, x| merge(b, x + 1L)))";
        check(
            |program, config| {
                crate::opt::inline_lets::run(program, config);
                fuse_loops::run(program, config);
            },
            before,
            &expect![[r#"
                |v: vec[i64]|
                  let n = len(v);
                  result(if(
                    assert(n == 3L),
                    for(
                      v,
                      appender[i64](3L),
                      |b, i, x| let x_2 = x * 2L; let i_2 = i; let b_2 = b; merge(b_2, x_2 + 1L)
                    ),
                    appender[i64](3L)
                  ))
            "#]],
        );
    }

    #[test]
    fn not_where_the_builder_is_filled_already_or_both_have_elements() {
        let before = "|v: vec[i64], c: bool|
            result(for(if(c, v, []), for(v, merger[i64,+], |b, i, x| merge(b, x)), |b, i, x| merge(b, x)))";
        check(
            fuse_loops::run,
            before,
            &expect![[r#"
            |v: vec[i64], c: bool|
              result(for(
                if(c, v, []: vec[i64]),
                for(v, merger[i64,+], |b_2, i_2, x_2| merge(b_2, x_2)),
                |b, i, x| merge(b, x)
              ))
        "#]],
        );
        let before = "|v: vec[i64], c: bool| result(for(if(c, v, [1L]), merger[i64,+], |b, i, x| merge(b, x)))";
        check(
            fuse_loops::run,
            before,
            &expect![[r#"
            |v: vec[i64], c: bool|
              result(for(if(c, v, [1L]), merger[i64,+], |b, i, x| merge(b, x)))
        "#]],
        );
    }
}
