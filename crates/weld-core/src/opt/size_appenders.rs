//! Tells appenders how many elements to make room for.
//!
//! ```weld
//! |v: vec[i64]| result(for(v, appender[i64], |b, i, x| merge(b, x * 2L)))
//! =>
//! |v: vec[i64]| result(for(v, appender[i64](len(v)), |b, i, x| merge(b, x * 2L)))
//! ```
//!
//! Law: a size hint never changes a result. A loop that merges once in every iteration fills its appender with as many
//! elements as the vector has that it iterates over. Streams have no length before their end, and get no hint; neither
//! do loops that filter, which would reserve memory that stays unused.

use super::Config;
use super::fuse_loops::merges_once;
use crate::ir::{Expr, ExprKind, Iter, Program, Sym, build};
use crate::ty::{BuilderType, Type};

pub(super) fn run(program: &mut Program, _: &Config) {
    let streams: Vec<Sym> = program.params.iter().filter(|p| p.stream).map(|p| p.sym).collect();
    program.body.rewrite(&mut |e| {
        let ExprKind::For { iter, builder, func } = &mut e.kind else { return };
        let Type::Builder(BuilderType::Appender(_)) = builder.ty else { return };
        if !matches!(builder.kind, ExprKind::NewBuilder { arg: None }) || !merges_once(&func.body, func.params[0].0) {
            return;
        }
        if let Some(size) = length(iter, &streams) {
            builder.kind = ExprKind::NewBuilder { arg: Some(Box::new(size)) };
        }
    });
}

/// How many elements the iterator gives, where that costs nothing to say.
fn length(iter: &Iter, streams: &[Sym]) -> Option<Expr> {
    match iter {
        Iter::Vector(data) => match data.kind {
            ExprKind::Var(sym) if !streams.contains(&sym) => Some(build::len(data.clone())),
            _ => None,
        },
        Iter::Zip(parts) => parts.iter().find_map(|part| length(part, streams)),
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
    fn maps() {
        check(
            "|v: vec[i64]| result(for(v, appender[i64], |b, i, x| merge(b, x * 2L)))",
            expect![[r#"
            |v: vec[i64]|
              result(for(v, appender[i64](len(v)), |b, i, x| merge(b, x * 2L)))
        "#]],
        );
    }

    #[test]
    fn filters_and_streams_get_none() {
        check(
            "|v: vec[i64]| result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x), b)))",
            expect![[r#"
            |v: vec[i64]|
              result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x), b)))
        "#]],
        );
        check(
            "|v: stream[i64]| result(for(v, appender[i64], |b, i, x| merge(b, x * 2L)))",
            expect![[r#"
            |v: stream[i64]|
              result(for(v, appender[i64], |b, i, x| merge(b, x * 2L)))
        "#]],
        );
    }

    #[test]
    fn the_first_vector_of_a_zip_says_it() {
        check(
            "|v: vec[{i64,f64}], w: vec[f64]| result(for(zip(map(v, |x| x.$1), w), appender[f64], |b, i, x| merge(b, x.$0 * x.$1)))",
            expect![[r#"
                |v: vec[{i64,f64}], w: vec[f64]|
                  result(for(
                    zip(result(for(v, appender[f64](len(v)), |b_2, i_2, x_2| merge(b_2, x_2.$1))), w),
                    appender[f64](len(w)),
                    |b, i, x| merge(b, x.$0 * x.$1)
                  ))
            "#]],
        );
    }

    #[test]
    fn other_builders_and_sizes_that_are_given_stay() {
        check(
            "|v: vec[i64], n: i64| {result(for(v, appender[i64](n), |b, i, x| merge(b, x))),
               result(for(v, merger[i64,+], |b, i, x| merge(b, x))),
               result(for(rangeiter(0L, n, 1L), appender[i64], |b, i, x| merge(b, x)))}",
            expect![[r#"
                |v: vec[i64], n: i64|
                  {
                    result(for(v, appender[i64](n), |b, i, x| merge(b, x))),
                    result(for(v, merger[i64,+], |b_2, i_2, x_2| merge(b_2, x_2))),
                    result(for(rangeiter(0L, n, 1L), appender[i64], |b_3, i_3, x_3| merge(b_3, x_3)))
                  }
            "#]],
        );
    }
}
