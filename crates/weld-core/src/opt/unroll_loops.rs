//! Replaces loops of few iterations by their iterations.
//!
//! ```weld
//! |x: i64| result(for([x, 3L], merger[i64,+], |b, i, y| merge(b, y * i)))
//! =>
//! |x: i64| let b = merger[i64,+]; let y = x; let b2 = merge(b, y * 0L); let y2 = 3L; let b3 = merge(b2, y2 * 1L); result(b3)
//! ```
//!
//! Law: `for([a, b], B, f)` is `f(f(B, 0, a), 1, b)`, with `a` and `b` evaluated first; likewise over a `rangeiter` of
//! literals. Up to [`ITERATIONS_MAX`] iterations and [`SIZE_MAX`] nodes in all. Loops into a `vecmerger` or a
//! dictionary are left alone, where unrolling gains nothing.
//!
//! A loop over one element of a vector, `iter(v, k, k + 1L, 1L)`, or over one of several, is its iteration, whatever it
//! builds.

use super::Config;
use super::facts::join_blocks;
use super::fuse_loops::fresh_func;
use crate::ir::{Binding, Expr, ExprKind, Iter, Literal, Names, Program, build};
use crate::op::BinaryOp;
use crate::ty::{BuilderType, Type};

const ITERATIONS_MAX: usize = 8;
const SIZE_MAX: usize = 200;

pub(super) fn run(program: &mut Program, _: &Config) {
    let names = &mut program.names;
    program.body.rewrite(&mut |e| unroll(e, names));
    join_blocks(&mut program.body);
}

fn unroll(e: &mut Expr, names: &mut Names) {
    // Merges outside of a `strict` loop might be reassociated.
    if e.annotations.get("strict") == Some("true") {
        return;
    }
    if let Some(iteration) = only_iteration(e, names) {
        *e = iteration;
        return;
    }
    let ExprKind::For { iter, builder, func } = &mut e.kind else { return };
    let is_small = matches!(builder.ty, Type::Builder(BuilderType::Merger { .. } | BuilderType::Appender(_)));
    let Some(count) = iterations(iter).filter(|_| is_small) else { return };
    if count > ITERATIONS_MAX || count * func.body.size() > SIZE_MAX {
        return;
    }
    let elements: Vec<Expr> = match &mut **iter {
        Iter::Vector(data) => match &mut data.kind {
            ExprKind::Vector(parts) => std::mem::take(parts),
            _ => return,
        },
        Iter::Range { start, stride, .. } => {
            let (Some(start), Some(stride)) = (literal(start), literal(stride)) else { return };
            // Every element fits, though the product alone may not.
            (0..count as i64).map(|k| build::i64(start.wrapping_add(k.wrapping_mul(stride)))).collect()
        }
        _ => return,
    };
    let mut bindings = Vec::new();
    let mut values = Vec::new();
    for element in elements {
        let sym = names.fresh_like(func.params[2].0);
        values.push(build::var(sym, element.ty.clone()));
        bindings.push(Binding { sym, value: element });
    }
    let mut current = builder.take();
    for (k, value) in values.into_iter().enumerate() {
        let step = fresh_func(func, names);
        let [b, i, x] = [step.params[0].0, step.params[1].0, step.params[2].0];
        bindings.push(Binding { sym: b, value: current });
        bindings.push(Binding { sym: i, value: build::i64(k as i64) });
        bindings.push(Binding { sym: x, value });
        current = *step.body;
        if let ExprKind::Let { bindings: inner, body } = &mut current.kind {
            bindings.append(inner);
            current = body.take();
        }
    }
    *e = build::let_in(bindings, current);
}

/// The iteration of a loop that makes one.
fn only_iteration(e: &mut Expr, names: &mut Names) -> Option<Expr> {
    let ExprKind::For { iter, builder, func } = &mut e.kind else { return None };
    let element = only_element(iter)?;
    let step = fresh_func(func, names);
    let values = [builder.take(), build::i64(0), element];
    let params = step.params.iter().map(|(sym, _)| *sym);
    let bindings = params.zip(values).map(|(sym, value)| Binding { sym, value }).collect();
    Some(build::let_in(bindings, *step.body))
}

/// The element of an iterator that has one. Where the vector does not have it, both ways fail.
fn only_element(iter: &Iter) -> Option<Expr> {
    match iter {
        Iter::Strided { data, start, end, stride } if literal(stride) == Some(1) => {
            let is_one = match (literal(start), literal(end), &end.kind) {
                (Some(start), Some(end), _) => start.checked_add(1) == Some(end),
                (_, _, ExprKind::Binary(BinaryOp::Add, from, one)) => literal(one) == Some(1) && is_same(from, start),
                _ => false,
            };
            is_one.then(|| build::lookup(data.clone(), start.clone()))
        }
        Iter::Zip(parts) => parts.iter().map(only_element).collect::<Option<Vec<Expr>>>().map(build::strct),
        _ => None,
    }
}

fn is_same(a: &Expr, b: &Expr) -> bool {
    matches!((&a.kind, &b.kind), (ExprKind::Var(a), ExprKind::Var(b)) if a == b)
}

/// How many iterations the loop makes, if the program says so.
fn iterations(iter: &Iter) -> Option<usize> {
    match iter {
        Iter::Vector(Expr { kind: ExprKind::Vector(parts), .. }) => Some(parts.len()),
        Iter::Range { start, end, stride } => {
            let (start, end, stride) = (literal(start)?, literal(end)?, literal(stride)?);
            let span = i128::from(end) - i128::from(start);
            let count = if span <= 0 { 0 } else { (span + i128::from(stride) - 1) / i128::from(stride.max(1)) };
            // The last element must be in range of what the literals can say.
            (stride > 0 && count <= ITERATIONS_MAX as i128).then_some(count as usize)
        }
        _ => None,
    }
}

fn literal(e: &Expr) -> Option<i64> {
    match e.kind {
        ExprKind::Literal(Literal::I64(value)) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::{inline_lets, simplify, testing};

    fn check(before: &str, after: Expect) {
        let passes = [super::run, inline_lets::run, simplify::run];
        testing::check_after(&passes, before, &after);
    }

    #[test]
    fn one_element() {
        check(
            "|v: vec[f64], w: vec[f64], k: i64|
             let bs = for(zip(iter(v, k, k + 1L, 1L), iter(w, 3L, 4L, 1L)), {appender[f64], merger[f64,+]},
                |b, i, x| {merge(b.$0, x.$0 / x.$1), merge(b.$1, x.$0)});
             {result(bs.$0), result(bs.$1), result(for(iter(v, k, k + 2L, 1L), appender[f64], |b, i, x| merge(b, x)))}",
            expect![[r#"
                |v: vec[f64], w: vec[f64], k: i64|
                  let b = {appender[f64], merger[f64,+]};
                  let x = {lookup(v, k), lookup(w, 3L)};
                  let bs = {merge(b.$0, x.$0 / x.$1), merge(b.$1, x.$0)};
                  {
                    result(bs.$0),
                    result(bs.$1),
                    result(for(iter(v, k, k + 2L, 1L), appender[f64], |b_2, i, x_2| merge(b_2, x_2)))
                  }
            "#]],
        );
    }

    #[test]
    fn a_vector_literal() {
        check(
            "|x: i64| result(for([x, 3L], merger[i64,+], |b, i, y| merge(b, y * i)))",
            expect![[r#"
            |x: i64|
              result(merge(merge(merger[i64,+], 0L), 3L))
        "#]],
        );
    }

    #[test]
    fn a_range() {
        check(
            "|v: vec[f64]| result(for(rangeiter(0L, 3L, 1L), appender[f64], |b, i, j| merge(b, lookup(v, j))))",
            expect![[r#"
                |v: vec[f64]|
                  result(merge(merge(merge(appender[f64], lookup(v, 0L)), lookup(v, 1L)), lookup(v, 2L)))
            "#]],
        );
        check(
            "|x: i64| result(for(rangeiter(3L, 1L, 1L), merger[i64,+], |b, i, j| merge(b, x)))",
            expect![[r#"
            |x: i64|
              result(merger[i64,+])
        "#]],
        );
    }

    #[test]
    fn in_a_block() {
        check(
            "|x: i64| let b = merger[i64,+]; let y = x * x; let z = y + y;
             result(let a = z * z; for([a, a], b, |b, i, x| merge(b, x * z)))",
            expect![[r#"
                |x: i64|
                  let y = x * x;
                  let z = y + y;
                  let a = z * z;
                  result(merge(merge(merger[i64,+], a * z), a * z))
            "#]],
        );
    }

    #[test]
    fn many_iterations_stay_a_loop() {
        check(
            "|x: i64| result(for(rangeiter(0L, 9L, 1L), merger[i64,+], |b, i, j| merge(b, x * j)))",
            expect![[r#"
            |x: i64|
              result(for(rangeiter(0L, 9L, 1L), merger[i64,+], |b, i, j| merge(b, x * j)))
        "#]],
        );
        check(
            "|x: i64| result(for(rangeiter(0L, 3L, 0L), merger[i64,+], |b, i, j| merge(b, x * j)))",
            expect![[r#"
            |x: i64|
              result(for(rangeiter(0L, 3L, 0L), merger[i64,+], |b, i, j| merge(b, x * j)))
        "#]],
        );
    }

    #[test]
    fn a_range_with_a_start_and_a_stride() {
        check(
            "|| {result(for(rangeiter(3L, 8L, 2L), appender[i64], |b, i, j| merge(b, j * 10L + i))),
                 result(for(rangeiter(3L, 7L, 2L), appender[i64], |b, i, j| merge(b, j)))}",
            expect![[r#"
                {
                  result(merge(merge(merge(appender[i64], 30L), 51L), 72L)),
                  result(merge(merge(appender[i64], 3L), 5L))
                }
            "#]],
        );
    }

    #[test]
    fn dictionaries_long_bodies_and_strict_loops_stay() {
        let stays = |text: &str| testing::stays(super::run, text);
        let sum = |terms: usize| (0..terms).fold("y".to_string(), |sum, _| format!("({sum} * y)"));
        let looped = |value: &str| format!("|x: i64| result(for([x, 3L], merger[i64,+], |b, i, y| merge(b, {value})))");
        assert!(!stays(&looped(&sum(20))));
        assert!(stays(&looped(&sum(super::SIZE_MAX / 4))));
        assert!(stays("|x: i64| result(for([x, 3L], dictmerger[i64,i64,+], |b, i, y| merge(b, {y, i})))"));
        assert!(stays("|x: f64| result(@(strict:true) for([x, 3.0], merger[f64,+], |b, i, y| merge(b, y)))"));
        assert!(stays(
            "|v: vec[i64], k: i64| result(for(iter(v, k, k + 1L, 2L), merger[i64,+], |b, i, y| merge(b, y)))"
        ));
        assert!(stays(
            "|v: vec[i64], k: i64| result(for(iter(v, k, k + 2L, 1L), merger[i64,+], |b, i, y| merge(b, y)))"
        ));
        assert!(stays(
            "|v: vec[i64], k: i64, n: i64| result(for(iter(v, k, n + 1L, 1L), merger[i64,+], |b, i, y| merge(b, y)))"
        ));
        assert!(stays(
            "|v: vec[i64], k: i64| result(for(iter(v, k, k * 1L, 1L), merger[i64,+], |b, i, y| merge(b, y)))"
        ));
        assert!(stays("|v: vec[i64]| result(for(iter(v, 3L, 5L, 1L), merger[i64,+], |b, i, y| merge(b, y)))"));
    }
}
