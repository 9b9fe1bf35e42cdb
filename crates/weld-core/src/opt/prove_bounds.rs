//! Drops bounds checks of lookups whose index is in range by construction.
//!
//! ```weld
//! |v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| merge(b, lookup(v, i) * x)))
//! =>
//! |v: vec[i64]| result(for(v, merger[i64,+], |b, i, x| merge(b, @(unchecked:true) lookup(v, i) * x)))
//! ```
//!
//! ```weld
//! iterate({0L, 0L}, |s| {{s.$0 + 1L, s.$1 + lookup(v, s.$0)}, s.$0 + 1L < len(v)})
//! =>
//! let first = lookup(v, 0L); iterate({0L, 0L}, |s| {{s.$0 + 1L, s.$1 + @(unchecked:true) lookup(v, s.$0)}, s.$0 + 1L < len(v)})
//! ```
//!
//! Laws: the index of a loop over `v` (or over a zip that has `v` in it: lengths are equal then) is an index of `v`; so
//! is the element of a loop over `rangeiter(a, len(v), s)` or `rangeiter(a, n, s)` with `let n = len(v)`, for literals
//! `a >= 0` and `s > 0`; below `min(len(v), len(w))` it is an index of both. The counter of an `iterate` that goes on
//! while it is below `len(v)` is in range but in the first step; a lookup that every step makes is made in front of the
//! first to see. Vectors are variables: they do not change.

use std::collections::{HashMap, HashSet};

use super::Config;
use super::facts::{join_blocks, strict_children};
use crate::ir::counted::{counted, is_counter};
use crate::ir::{Binding, Expr, ExprKind, Func, Iter, Literal, Names, Program, Sym, build, deep};
use crate::op::BinaryOp;

pub(super) fn run(program: &mut Program, _: &Config) {
    let mut prover = Prover { names: &mut program.names, in_range: HashSet::new(), lengths: HashMap::new() };
    prover.visit(&mut program.body);
    join_blocks(&mut program.body);
}

/// What is known where the walk stands. Symbols are bound once, so nothing has to be forgotten.
struct Prover<'a> {
    names: &'a mut Names,
    /// An index and a vector that it is in the range of.
    in_range: HashSet<(Sym, Sym)>,
    /// Variables that hold the length of a vector, or the least of several, with these vectors.
    lengths: HashMap<Sym, Vec<Sym>>,
}

impl Prover<'_> {
    fn visit(&mut self, e: &mut Expr) {
        deep(|| {
            match &mut e.kind {
                ExprKind::Let { bindings, body } => {
                    for binding in bindings {
                        self.visit(&mut binding.value);
                        let longer = self.longer(&binding.value);
                        if !longer.is_empty() {
                            self.lengths.insert(binding.sym, longer);
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
            if let ExprKind::Iterate { init, step } = &mut e.kind {
                let firsts = self.count(init, step).unwrap_or_default();
                let firsts =
                    firsts.into_iter().map(|value| Binding { sym: self.names.fresh("first"), value }).collect();
                *e = build::let_in(firsts, e.take());
            }
        })
    }

    /// Drops the checks of lookups at the counter of an `iterate`. What raises the errors of the first step, if any.
    fn count(&self, init: &Expr, step: &mut Func) -> Option<Vec<Expr>> {
        let state = step.params[0].0;
        let (field, longer) = {
            let counted = counted(step)?;
            (counted.field, self.longer(counted.bound))
        };
        let start = match (field, &init.kind) {
            (None, _) => init,
            (Some(field), ExprKind::Struct(parts)) => parts.get(field as usize)?,
            _ => return None,
        };
        if !matches!(start.kind, ExprKind::Literal(Literal::I64(n)) if n >= 0) {
            return None;
        }
        let at_counter = |e: &Expr| match &e.kind {
            ExprKind::Lookup { data, key, checked: true } if is_counter(key, state, field) => match data.kind {
                ExprKind::Var(sym) if longer.contains(&sym) => Some(sym),
                _ => None,
            },
            _ => None,
        };
        let (mut of, mut firsts) = (HashSet::new(), Vec::new());
        always(&step.body, &mut |e| {
            if let Some(vector) = at_counter(e)
                && of.insert(vector)
            {
                firsts.push(e.clone());
            }
        });
        for first in &mut firsts {
            if let ExprKind::Lookup { key, .. } = &mut first.kind {
                **key = start.clone();
            }
        }
        step.body.rewrite(&mut |e| {
            if at_counter(e).is_some_and(|vector| of.contains(&vector))
                && let ExprKind::Lookup { checked, .. } = &mut e.kind
            {
                *checked = false;
            }
        });
        Some(firsts)
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
                if let Some(element) = element
                    && at_least(start, 0)
                    && at_least(stride, 1)
                {
                    self.in_range.extend(self.longer(end).into_iter().map(|data| (element, data)));
                    let is_index = matches!(start.kind, ExprKind::Literal(Literal::I64(0)))
                        && matches!(stride.kind, ExprKind::Literal(Literal::I64(1)));
                    if is_index {
                        self.in_range.extend(self.longer(end).into_iter().map(|data| (index, data)));
                    }
                }
            }
            _ => {}
        }
    }

    /// The vectors that have as many elements as the expression says, or more.
    fn longer(&self, e: &Expr) -> Vec<Sym> {
        match &e.kind {
            ExprKind::Var(sym) => self.lengths.get(sym).cloned().unwrap_or_default(),
            ExprKind::Len(of) => match of.kind {
                ExprKind::Var(sym) => vec![sym],
                _ => Vec::new(),
            },
            ExprKind::Binary(BinaryOp::Min, a, b) => [self.longer(a), self.longer(b)].concat(),
            _ => Vec::new(),
        }
    }
}

/// Calls `f` with every part of the expression that is evaluated whenever it is.
fn always(e: &Expr, f: &mut dyn FnMut(&Expr)) {
    deep(|| {
        f(e);
        let strict = strict_children(e);
        let mut index = 0;
        e.each_child(&mut |child| {
            if index < strict {
                always(child, f);
            }
            index += 1;
        });
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::testing;

    fn check(before: &str, after: Expect) {
        testing::check(super::run, before, &after);
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
    fn up_to_the_least_of_lengths() {
        check(
            "|v: vec[i64], w: vec[i64]| let n = min(len(v), len(w));
             result(for(rangeiter(0L, n, 1L), merger[i64,+], |b, i, j| merge(b, lookup(v, j) * lookup(w, i))))",
            expect![[r#"
                |v: vec[i64], w: vec[i64]|
                  let n = min(len(v), len(w));
                  result(for(
                    rangeiter(0L, n, 1L),
                    merger[i64,+],
                    |b, i, j| merge(b, @(unchecked:true) lookup(v, j) * @(unchecked:true) lookup(w, i))
                  ))
            "#]],
        );
        check(
            "|v: vec[i64], w: vec[i64]| let n = min(len(v), len(w));
             iterate({0L, 0L}, |s| {{s.$0 + 1L, lookup(v, s.$0) + lookup(w, s.$0)}, s.$0 + 1L < n})",
            expect![[r#"
                |v: vec[i64], w: vec[i64]|
                  let n = min(len(v), len(w));
                  let first = lookup(v, 0L);
                  let first_2 = lookup(w, 0L);
                  iterate(
                    {0L, 0L},
                    |s|
                      {
                        {s.$0 + 1L, @(unchecked:true) lookup(v, s.$0) + @(unchecked:true) lookup(w, s.$0)},
                        s.$0 + 1L < n
                      }
                  )
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

    #[test]
    fn a_counting_iterate() {
        check(
            "|v: vec[i64]| iterate({0L, 0L}, |s| {{s.$0 + 1L, s.$1 + lookup(v, s.$0)}, s.$0 + 1L < len(v)})",
            expect![[r#"
                |v: vec[i64]|
                  let first = lookup(v, 0L);
                  iterate({0L, 0L}, |s| {{s.$0 + 1L, s.$1 + @(unchecked:true) lookup(v, s.$0)}, s.$0 + 1L < len(v)})
            "#]],
        );
        check(
            "|v: vec[i64]| iterate({0L, 0L}, |s| let k = s.$0 + 1L;
               {{k, if(s.$1 > 5L, s.$1, lookup(v, s.$0))}, k < len(v)})",
            expect![[r#"
                |v: vec[i64]|
                  iterate({0L, 0L}, |s| let k = s.$0 + 1L; {{k, if(s.$1 > 5L, s.$1, lookup(v, s.$0))}, k < len(v)})
            "#]],
        );
    }

    #[test]
    fn an_iterate_that_is_no_counter_below_the_length_is_checked() {
        let stays = |text: &str| assert!(testing::stays(super::run, text), "{text}");
        stays(
            "|v: vec[i64], w: vec[i64]| iterate({0L, 0L}, |s| {{s.$0 + 1L, s.$1 + lookup(w, s.$0)}, s.$0 + 1L < len(v)})",
        );
        stays("|v: vec[i64]| iterate({0L, 0L}, |s| {{s.$0 + 1L, s.$1 + lookup(v, s.$1)}, s.$0 + 1L < len(v)})");
        stays("|v: vec[i64]| iterate({-1L, 0L}, |s| {{s.$0 + 1L, s.$1 + lookup(v, s.$0)}, s.$0 + 1L < len(v)})");
        stays("|v: vec[i64]| iterate({0L, 0L}, |s| {{s.$0 + 2L, s.$1 + lookup(v, s.$0)}, s.$0 + 2L < len(v)})");
        stays("|v: vec[i64]| iterate({0L, 0L}, |s| {{s.$0 + 1L, s.$1 + lookup(v, s.$0)}, s.$0 + 1L <= len(v)})");
        stays("|v: vec[i64]| iterate({0L, 0L}, |s| {{s.$0 + 1L, s.$1 + lookup(v, s.$0)}, s.$1 + 1L < len(v)})");
        stays("|v: vec[i64], k: i64| iterate({k, 0L}, |s| {{s.$0 + 1L, s.$1 + lookup(v, s.$0)}, s.$0 + 1L < len(v)})");
    }

    #[test]
    fn ranges_that_may_leave_the_vector_are_checked() {
        let checks = |range: &str, index: &str| {
            let text = format!(
                "|v: vec[i64], n: i64| result(for({range}, merger[i64,+], |b, i, j| merge(b, lookup(v, {index}))))"
            );
            let mut program = crate::parse_program(&text).expect("parses");
            super::run(&mut program, &super::Config::default());
            !program.to_string().contains("unchecked")
        };
        assert!(!checks("rangeiter(2L, len(v), 3L)", "j"));
        assert!(!checks("rangeiter(0L, len(v), 1L)", "i"));
        assert!(checks("rangeiter(2L, len(v), 1L)", "n"));
        assert!(checks("rangeiter(n, len(v), 1L)", "j"));
        assert!(checks("rangeiter(0L, n, 1L)", "j"));
        assert!(checks("rangeiter(0L, len(v), n)", "j"));
    }
}
