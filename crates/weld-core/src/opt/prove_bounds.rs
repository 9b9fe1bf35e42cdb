//! Drops bounds checks of lookups whose index is in range by construction.
//!
//! ```weld
//! |v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| merge(b, lookup(v, i) * x)))
//! =>
//! |v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| merge(b, @(unchecked:true) lookup(v, i) * x)))
//! ```
//!
//! Laws: the index of a loop over `v` (or over a zip that has `v` in it: lengths are equal then) is an index of `v`; so
//! is the element of a loop over `rangeiter(a, len(v), s)` or `rangeiter(a, n, s)` with `let n = len(v)`, for literals
//! `a >= 0` and `s > 0`. Vectors are variables: they do not change.

use std::collections::{HashMap, HashSet};

use super::Config;
use crate::ir::{Expr, ExprKind, Iter, Literal, Program, Sym, deep};

pub(super) fn run(program: &mut Program, _: &Config) {
    Prover::default().visit(&mut program.body);
}

/// What is known where the walk stands. Symbols are bound once, so nothing has to be forgotten.
#[derive(Default)]
struct Prover {
    /// An index and a vector that it is in the range of.
    in_range: HashSet<(Sym, Sym)>,
    /// Variables that hold the length of a vector.
    lengths: HashMap<Sym, Sym>,
}

impl Prover {
    fn visit(&mut self, e: &mut Expr) {
        deep(|| {
            match &mut e.kind {
                ExprKind::Let { bindings, body } => {
                    for binding in bindings {
                        self.visit(&mut binding.value);
                        if let Some(of) = self.length(&binding.value) {
                            self.lengths.insert(binding.sym, of);
                        }
                    }
                    self.visit(body);
                    return;
                }
                ExprKind::For { iter, func, .. } => {
                    self.learn(iter, func.params[1].0, Some(func.params[2].0));
                }
                ExprKind::Lookup { data, key, checked } => {
                    if let (ExprKind::Var(data), ExprKind::Var(key)) = (&data.kind, &key.kind)
                        && self.in_range.contains(&(*key, *data))
                    {
                        *checked = false;
                    }
                }
                _ => {}
            }
            e.each_child_mut(&mut |child| self.visit(child));
        })
    }

    /// What a loop says of its index and, unless it is a field of a zip, its element.
    fn learn(&mut self, iter: &Iter, index: Sym, element: Option<Sym>) {
        match iter {
            Iter::Vector(data) => {
                if let ExprKind::Var(data) = data.kind {
                    self.in_range.insert((index, data));
                }
            }
            Iter::Zip(parts) => parts.iter().for_each(|part| self.learn(part, index, None)),
            Iter::Range { start, end, stride } => {
                let at_least = |e: &Expr, min| matches!(e.kind, ExprKind::Literal(Literal::I64(n)) if n >= min);
                if let (Some(data), Some(element)) = (self.length(end), element)
                    && at_least(start, 0)
                    && at_least(stride, 1)
                {
                    self.in_range.insert((element, data));
                }
            }
            _ => {}
        }
    }

    /// The vector that the expression is the length of.
    fn length(&self, e: &Expr) -> Option<Sym> {
        match &e.kind {
            ExprKind::Var(sym) => self.lengths.get(sym).copied(),
            ExprKind::Len(of) => match of.kind {
                ExprKind::Var(sym) => Some(sym),
                _ => None,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    fn check(before: &str, after: Expect) {
        super::super::testing::check(super::run, before, &after);
    }

    #[test]
    fn the_index_of_the_same_vector() {
        check(
            "|v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| merge(b, lookup(v, i) * x)))",
            expect![[r#"
            |v: vec[i64]|
              result(for(v, merger[i64,+], |b, i, x| merge(b, @(unchecked:true) lookup(v, i) * x)))
        "#]],
        );
        check(
            "|v: vec[i64], w: vec[i64]| result(for(zip(v, w), merger[i64,+], |b, i, x| merge(b, lookup(w, i))))",
            expect![[r#"
                |v: vec[i64], w: vec[i64]|
                  result(for(zip(v, w), merger[i64,+], |b, i, x| merge(b, @(unchecked:true) lookup(w, i))))
            "#]],
        );
    }

    #[test]
    fn a_range_up_to_the_length() {
        check(
            "|v: vec[i64]| let n = len(v); result(for(rangeiter(0L, n, 2L), merger[i64,+], |b, i, j| merge(b, lookup(v, j))))",
            expect![[r#"
                |v: vec[i64]|
                  let n = len(v);
                  result(for(
                    rangeiter(0L, n, 2L),
                    merger[i64,+],
                    |b, i, j| merge(b, @(unchecked:true) lookup(v, j))
                  ))
            "#]],
        );
    }

    #[test]
    fn another_vector_or_place_is_checked() {
        check(
            "|v: vec[i64], w: vec[i64]| result(for(v, merger[i64,+], |b, i, x| merge(b, lookup(w, i))))",
            expect![[r#"
                |v: vec[i64], w: vec[i64]|
                  result(for(v, merger[i64,+], |b, i, x| merge(b, lookup(w, i))))
            "#]],
        );
        check(
            "|v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| merge(b, lookup(v, i + 1L))))",
            expect![[r#"
            |v: vec[i64]|
              result(for(v, merger[i64,+], |b, i, x| merge(b, lookup(v, i + 1L))))
        "#]],
        );
        check(
            "|v: vec[i64]| result(for(rangeiter(-1L, len(v), 1L), merger[i64,+], |b, i, j| merge(b, lookup(v, j))))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(rangeiter(-1L, len(v), 1L), merger[i64,+], |b, i, j| merge(b, lookup(v, j))))
            "#]],
        );
    }
}
