//! Asks the vector that a map was made from for the map's length.
//!
//! ```weld
//! let f = result(for(v, appender[f32](len(v)), |b, i, x| merge(b, x * 2.0f)));
//! let n = len(f); result(for(f, appender[f32](n), |b, i, y| merge(b, y + 1.0f)))
//! =>
//! let f = result(for(v, appender[f32](len(v)), |b, i, x| merge(b, x * 2.0f)));
//! let n = len(v); result(for(f, appender[f32](n), |b, i, y| merge(b, y + 1.0f)))
//! ```
//!
//! Law: a loop that merges once in every iteration makes a vector as long as what it iterates over; that of a zip is as
//! long as each of its parts. `if(assert(c), v, e)` is `v`, or there is no result; where `c` is `len(v) == 3L`, that is
//! its length. So a vector that is read by one loop is named by that loop alone, and the two fuse. Never worse: a
//! length costs nothing, whosever it is.

use std::collections::{HashMap, HashSet};

use super::Config;
use super::facts::{can_drop, is_path};
use super::fuse_loops::{merges_once, producer};
use crate::ir::{Binding, Expr, ExprKind, Iter, Literal, Program, Sym, build, deep};
use crate::op::BinaryOp;

pub(super) fn run(program: &mut Program, _: &Config) {
    let streams = program.params.iter().filter(|p| p.stream).map(|p| p.sym).collect();
    let mut tracer = Tracer { streams, lengths: HashMap::new(), counts: HashSet::new() };
    tracer.visit(&mut program.body);
}

/// Those vectors that loops of the trees go over of which a check says how long they are, by the addresses of their
/// expressions: `v` and `if(assert(len(v) == 3L), v, e)`, and what loops make of them.
pub fn known_lengths<'a>(trees: impl IntoIterator<Item = &'a Expr>) -> HashMap<*const Expr, u64> {
    let mut known = HashMap::new();
    for tree in trees {
        let tracer = Tracer { streams: HashSet::new(), lengths: HashMap::new(), counts: HashSet::new() };
        Counter { tracer, known: &mut known }.visit(tree);
    }
    known
}

struct Counter<'a> {
    tracer: Tracer,
    known: &'a mut HashMap<*const Expr, u64>,
}

impl Counter<'_> {
    fn visit(&mut self, e: &Expr) {
        deep(|| match &e.kind {
            ExprKind::Let { bindings, body } => {
                for binding in bindings {
                    self.visit(&binding.value);
                    self.tracer.note(binding);
                }
                self.visit(body);
            }
            _ => {
                if let ExprKind::For { iter, .. } = &e.kind {
                    self.count(iter);
                }
                e.each_child(&mut |child| self.visit(child));
            }
        });
    }

    fn count(&mut self, iter: &Iter) {
        match iter {
            Iter::Zip(parts) => parts.iter().for_each(|part| self.count(part)),
            Iter::Vector(data) => {
                let length = self.tracer.length(data).map(|length| length.kind);
                if let Some(ExprKind::Literal(Literal::I64(length))) = length
                    && let Ok(length) = u64::try_from(length)
                {
                    self.known.insert(data, length);
                }
            }
            _ => {}
        }
    }
}

struct Tracer {
    /// They have no length before their end.
    streams: HashSet<Sym>,
    /// Of vectors that were made from others: a number, or the length of another, which is in scope where they are.
    lengths: HashMap<Sym, Expr>,
    /// Variables that hold a length.
    counts: HashSet<Sym>,
}

impl Tracer {
    fn visit(&mut self, e: &mut Expr) {
        deep(|| {
            if let ExprKind::Let { bindings, body } = &mut e.kind {
                for binding in bindings {
                    self.visit(&mut binding.value);
                    self.note(binding);
                }
                return self.visit(body);
            }
            e.each_child_mut(&mut |child| self.visit(child));
            if let ExprKind::Len(of) = &e.kind
                && (is_path(of) || can_drop(of))
                && let Some(mut length) = self.length(of)
            {
                length.span = e.span;
                *e = length;
            }
        })
    }

    /// Keeps what the name is, for what follows.
    fn note(&mut self, binding: &Binding) {
        if matches!(binding.value.kind, ExprKind::Len(_)) {
            self.counts.insert(binding.sym);
        } else if !matches!(binding.value.kind, ExprKind::Var(_))
            && let Some(length) = self.length(&binding.value)
        {
            self.lengths.insert(binding.sym, length);
        }
    }

    /// How long the vector is, in terms of what is in scope where it is.
    fn length(&self, e: &Expr) -> Option<Expr> {
        match &e.kind {
            ExprKind::Var(sym) if self.lengths.contains_key(sym) => self.lengths.get(sym).cloned(),
            ExprKind::Var(sym) if self.streams.contains(sym) => None,
            _ if is_path(e) => Some(build::len(e.clone())),
            ExprKind::If { cond, on_true, .. } => match &cond.kind {
                ExprKind::Assert { cond, .. } => self.length(on_true).map(|length| asserted(cond, length)),
                _ => None,
            },
            _ => {
                let (iter, func) = producer(e)?;
                merges_once(&func.body, func.params[0].0).then(|| self.count(iter))?
            }
        }
    }

    /// How many elements the iterator gives.
    fn count(&self, iter: &Iter) -> Option<Expr> {
        let is = |e: &Expr, value: i64| matches!(e.kind, ExprKind::Literal(Literal::I64(n)) if n == value);
        match iter {
            Iter::Vector(data) => self.length(data),
            Iter::Zip(parts) => parts.iter().find_map(|part| self.count(part)),
            Iter::Strided { start, end, stride, .. } if is(start, 0) && is(stride, 1) => match end.kind {
                ExprKind::Literal(_) | ExprKind::Var(_) => Some(end.clone()),
                _ => None,
            },
            Iter::Range { start, end, stride } if is(start, 0) && is(stride, 1) => match &end.kind {
                ExprKind::Literal(Literal::I64(n)) if *n >= 0 => Some(end.clone()),
                ExprKind::Var(sym) if self.counts.contains(sym) => Some(end.clone()),
                ExprKind::Len(of) if is_path(of) => Some(end.clone()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The number that a length has been compared with, else the length.
fn asserted(cond: &Expr, length: Expr) -> Expr {
    match &cond.kind {
        ExprKind::Binary(BinaryOp::Eq, found, number)
            if matches!(number.kind, ExprKind::Literal(_)) && found.same_as(&length) =>
        {
            (**number).clone()
        }
        _ => length,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    fn check(before: &str, after: Expect) {
        super::super::testing::check(super::run, before, &after);
    }

    #[test]
    fn maps_of_maps() {
        check(
            "|v: vec[i64], w: vec[i64]| let f = result(for(v, appender[i64](len(v)), |b, i, x| merge(b, x * 2L)));
             let n = len(f); let g = result(for(zip(f, w), appender[i64](n), |b, i, x| merge(b, x.$0 - x.$1)));
             let h = result(for(rangeiter(0L, n, 1L), appender[i64], |b, i, x| merge(b, x)));
             {g, h, len(g), len(h), len(result(for(f, appender[i64], |b, i, x| merge(b, x))))}",
            expect![[r#"
                |v: vec[i64], w: vec[i64]|
                  let f = result(for(v, appender[i64](len(v)), |b, i, x| merge(b, x * 2L)));
                  let n = len(v);
                  let g = result(for(zip(f, w), appender[i64](n), |b_2, i_2, x_2| merge(b_2, x_2.$0 - x_2.$1)));
                  let h = result(for(rangeiter(0L, n, 1L), appender[i64], |b_3, i_3, x_3| merge(b_3, x_3)));
                  {g, h, len(v), n, len(v)}
            "#]],
        );
    }

    #[test]
    fn what_has_passed_a_check() {
        check(
            "|v: vec[i64]| let f = if(assert(len(v) == 3L), map(v, |x| x + 1L), []); {f, len(f)}",
            expect![[r#"
            |v: vec[i64]|
              let f = if(
                assert(len(v) == 3L),
                result(for(v, appender[i64], |b, i, x| merge(b, x + 1L))),
                []: vec[i64]
              );
              {f, 3L}
        "#]],
        );
    }

    /// The lengths of what loops go over, in the order of the text; 0 where it is not known.
    fn known(text: &str) -> Vec<u64> {
        let program = crate::parse_program(text).expect("it parses");
        let lengths = super::known_lengths([&program.body]);
        let mut found = Vec::new();
        program.body.walk(&mut |e| {
            if let super::ExprKind::For { iter, .. } = &e.kind
                && let super::Iter::Vector(data) = &**iter
            {
                found.push(lengths.get(&std::ptr::from_ref(data)).copied().unwrap_or_default());
            }
        });
        found
    }

    #[test]
    fn lengths_that_are_numbers() {
        let checked = "|v: vec[i64]| let a = if(assert(len(v) == 3L), v, []); let f = map(a, |x| x + 1L);";
        assert_eq!(known(&format!("{checked} map(f, |x| x * 2L)")), [3, 3]);
        assert_eq!(known(&format!("{checked} map(v, |x| x * 2L)")), [3, 0]);
        assert_eq!(known("|v: vec[i64]| let a = if(len(v) == 3L, v, []); map(a, |x| x + 1L)"), [0]);
        assert_eq!(known("|v: vec[i64]| let a = if(assert(len(v) == -1L), v, []); map(a, |x| x + 1L)"), [0]);
        assert_eq!(known("|v: vec[i64]| let a = if(assert(len(v) > 3L), v, []); map(a, |x| x + 1L)"), [0]);
    }

    #[test]
    fn not_of_filters_streams_and_branches() {
        check(
            "|v: vec[i64], s: stream[i64], c: bool| let f = result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x), b)));
             let g = result(for(s, appender[i64], |b, i, x| merge(b, x))); let h = if(c, map(v, |x| x), []);
             {len(f), len(g), len(h), f, g, h}",
            expect![[r#"
                |v: vec[i64], s: stream[i64], c: bool|
                  let f = result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x), b)));
                  let g = result(for(s, appender[i64], |b_2, i_2, x_2| merge(b_2, x_2)));
                  let h = if(c, result(for(v, appender[i64], |b_3, i_3, x_3| merge(b_3, x_3))), []: vec[i64]);
                  {len(f), len(g), len(h), f, g, h}
            "#]],
        );
    }
}
