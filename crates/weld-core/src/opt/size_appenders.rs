//! Tells appenders how many elements to make room for.
//!
//! ```weld
//! |v: vec[i64]| result(for(v, appender[i64], |b, i, x| merge(b, x * 2L)))
//! =>
//! |v: vec[i64]| result(for(v, appender[i64](len(v)), |b, i, x| merge(b, x * 2L)))
//! ```
//!
//! Law: a size hint never changes a result. A loop that merges once in every iteration fills its appender with as many
//! elements as the vector has that it iterates over. Streams have no length before their end, and get no hint; neither do
//! loops that filter, which would reserve memory that stays unused.

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
}
