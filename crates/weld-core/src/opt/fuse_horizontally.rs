//! Runs loops over the same vector as one loop.
//!
//! ```weld
//! |v: vec[i64]| {result(for(v, merger[i64,+], |b, i, x| merge(b, x))), result(for(v, merger[i64,max], |b, i, x| merge(b, x)))}
//! =>
//! |v: vec[i64]|
//!   let bs = for(v, {merger[i64,+], merger[i64,max]}, |b, i, x| {merge(b.$0, x), merge(b.$1, x)});
//!   {result(bs.$0), result(bs.$1)}
//! ```
//!
//! Law: loops over one vector into builders of their own do not see each other, so one loop over the struct of their
//! builders gives the struct of what they give. A loop moves up to the first of its group, if nothing that it needs is
//! bound on the way.
//!
//! Always for a stream, which can be read once only, and for a vector that only these loops read (then `fuse-loops` can
//! fuse its producer). Otherwise where it saves reading and costs nothing: for mergers and plain maps, up to
//! [`GROUP_MAX`] at once, so that their state stays in registers.

use std::collections::HashMap;

use super::Config;
use super::facts::strict_children;
use super::fuse_loops::{merges_once, producer};
use crate::ir::{Binding, Expr, ExprKind, Func, Iter, Names, Program, Sym, build, deep};
use crate::ty::{BuilderType, Type};

const GROUP_MAX: usize = 4;

pub(super) fn run(program: &mut Program, _: &Config) {
    let streams = program.params.iter().filter(|p| p.stream).map(|p| p.sym).collect();
    let mut uses = vec![0; program.names.len()];
    program.body.walk(&mut |e| {
        if let ExprKind::Var(sym) = e.kind {
            uses[sym.0 as usize] += 1;
        }
    });
    let mut fuser = Fuser { names: &mut program.names, streams, uses, produced: Vec::new() };
    fuser.region(&mut program.body);
}

struct Fuser<'a> {
    names: &'a mut Names,
    streams: Vec<Sym>,
    /// By symbol: how often it occurs.
    uses: Vec<usize>,
    /// Variables that hold the result of a loop over an appender.
    produced: Vec<Sym>,
}

impl Fuser<'_> {
    /// A block: the program, the body of a function, a branch.
    fn region(&mut self, e: &mut Expr) {
        deep(|| {
            let (bindings, mut body) = match &mut e.kind {
                ExprKind::Let { bindings, body } => (std::mem::take(bindings), body.take()),
                _ => (Vec::new(), e.take()),
            };
            let mut statements = Vec::new();
            for mut binding in bindings {
                // A loop that is the whole value keeps its name.
                match is_closed_loop(&binding.value) {
                    true => self.parts(&mut binding.value, &mut statements),
                    false => self.lift(&mut binding.value, &mut statements),
                }
                if producer(&binding.value).is_some() {
                    self.produced.push(binding.sym);
                }
                statements.push(binding);
            }
            self.lift(&mut body, &mut statements);
            self.fuse_groups(&mut statements);
            *e = build::let_in(statements, body);
        })
    }

    /// Gives closed loops that are evaluated whenever `e` is a name in the block.
    fn lift(&mut self, e: &mut Expr, statements: &mut Vec<Binding>) {
        self.parts(e, statements);
        if is_closed_loop(e) {
            let sym = self.names.fresh("built");
            let variable = build::var(sym, e.ty.clone());
            statements.push(Binding { sym, value: std::mem::replace(e, variable) });
        }
    }

    fn parts(&mut self, e: &mut Expr, statements: &mut Vec<Binding>) {
        if matches!(e.kind, ExprKind::Let { .. }) {
            return self.region(e);
        }
        let strict = strict_children(e);
        for (index, child) in e.children_mut().into_iter().enumerate() {
            match index < strict {
                true => self.lift(child, statements),
                false => self.region(child),
            }
        }
    }

    fn fuse_groups(&mut self, statements: &mut Vec<Binding>) {
        let mut needs = last_needs(statements);
        let mut first = 0;
        while first < statements.len() {
            let group = self.group(statements, &needs, first);
            if group.len() > 1 {
                self.fuse(statements, &group);
                needs = last_needs(statements);
            }
            first += 1;
        }
    }

    /// The loops that can join the loop at `first`, itself included, if it pays.
    fn group(&self, statements: &[Binding], needs: &[Option<usize>], first: usize) -> Vec<usize> {
        let Some((iter, ..)) = closed_loop(&statements[first].value) else { return Vec::new() };
        let Some(vector) = single_vector(iter) else { return Vec::new() };
        let mut group = vec![first];
        for (at, statement) in statements.iter().enumerate().skip(first + 1) {
            if needs[at] < Some(first)
                && let Some((other, ..)) = closed_loop(&statement.value)
                && same_iter(iter, other)
            {
                group.push(at);
            }
        }
        let only_these = vector.is_some_and(|sym| {
            let uses = self.uses.get(sym.0 as usize).copied().unwrap_or(usize::MAX);
            self.streams.contains(&sym) || self.produced.contains(&sym) && uses == group.len()
        });
        if !only_these {
            group.retain(|at| {
                closed_loop(&statements[*at].value).is_some_and(|(_, builder, func)| is_light(builder, func))
            });
            group.truncate(GROUP_MAX);
            if group.first() != Some(&first) {
                return Vec::new();
            }
        }
        group
    }

    fn fuse(&mut self, statements: &mut Vec<Binding>, group: &[usize]) {
        let mut members = Vec::new();
        for at in group.iter().rev() {
            members.push(statements.remove(*at));
        }
        members.reverse();
        let mut loops: Vec<(Sym, Expr)> = members.into_iter().map(|m| (m.sym, m.value)).collect();
        let Some((iter, ..)) = closed_loop(&loops[0].1) else { return };
        let iter = iter.clone();
        let element = iter.element_type();
        let (index, row, all) = (self.names.fresh("i"), self.names.fresh("x"), self.names.fresh("b"));
        let types: Vec<Type> = loops.iter().filter_map(|(_, e)| closed_loop(e)).map(|(_, b, _)| b.ty.clone()).collect();
        let ty = Type::structure(types);
        let (mut builders, mut bodies) = (Vec::new(), Vec::new());
        for (k, (_, value)) in loops.iter_mut().enumerate() {
            let ExprKind::Result(of) = &mut value.kind else { continue };
            let ExprKind::For { builder, func, .. } = &mut of.kind else { continue };
            let own = build::field(build::var(all, ty.clone()), k);
            let args = [own, build::var(index, Type::I64), build::var(row, element.clone())];
            let mut values = func.params.iter().map(|(sym, _)| *sym).zip(args).collect();
            let mut body = func.body.take();
            body.substitute_all(&mut values, self.names);
            builders.push(builder.take());
            bodies.push(body);
        }
        let func = Func {
            params: vec![(all, ty.clone()), (index, Type::I64), (row, element)],
            body: Box::new(build::strct(bodies)),
        };
        let built = self.names.fresh("bs");
        let fused = build::for_func(iter, build::strct(builders), func);
        let mut new = vec![Binding { sym: built, value: fused }];
        for (k, (sym, _)) in loops.iter().enumerate() {
            let part = build::field(build::var(built, ty.clone()), k);
            new.push(Binding { sym: *sym, value: build::result(part) });
        }
        statements.splice(group[0]..group[0], new);
    }
}

/// Of each statement, the last one whose variable it needs.
fn last_needs(statements: &[Binding]) -> Vec<Option<usize>> {
    let places: HashMap<Sym, usize> = statements.iter().enumerate().map(|(at, binding)| (binding.sym, at)).collect();
    let last = |value: &Expr| {
        let mut last = None;
        value.walk(&mut |e| {
            if let ExprKind::Var(sym) = &e.kind {
                last = last.max(places.get(sym).copied());
            }
        });
        last
    };
    statements.iter().map(|binding| last(&binding.value)).collect()
}

/// `result(for(iter, builder, func))` with a new builder and without annotations.
fn closed_loop(e: &Expr) -> Option<(&Iter, &Expr, &Func)> {
    let ExprKind::Result(of) = &e.kind else { return None };
    let ExprKind::For { iter, builder, func } = &of.kind else { return None };
    let plain = matches!(builder.kind, ExprKind::NewBuilder { arg: None }) && of.annotations.is_empty();
    plain.then_some((&**iter, &**builder, func))
}

fn is_closed_loop(e: &Expr) -> bool {
    closed_loop(e).is_some()
}

/// `Some(variable)` for a loop over a variable, `Some(None)` for one over a zip of variables.
fn single_vector(iter: &Iter) -> Option<Option<Sym>> {
    match iter {
        Iter::Vector(Expr { kind: ExprKind::Var(sym), .. }) => Some(Some(*sym)),
        Iter::Zip(parts) => parts.iter().all(|part| single_vector(part).is_some()).then_some(None),
        _ => None,
    }
}

fn same_iter(a: &Iter, b: &Iter) -> bool {
    match (a, b) {
        (Iter::Vector(a), Iter::Vector(b)) => match (&a.kind, &b.kind) {
            (ExprKind::Var(a), ExprKind::Var(b)) => a == b,
            _ => false,
        },
        (Iter::Zip(a), Iter::Zip(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_iter(a, b)),
        _ => false,
    }
}

/// A merger, or an appender that every iteration appends to once.
fn is_light(builder: &Expr, func: &Func) -> bool {
    match &builder.ty {
        Type::Builder(BuilderType::Merger { .. }) => true,
        Type::Builder(BuilderType::Appender(_)) => merges_once(&func.body, func.params[0].0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::{fuse_loops, inline_lets};

    fn check(before: &str, after: Expect) {
        let passes = [inline_lets::run, super::run, inline_lets::run, fuse_loops::run, inline_lets::run];
        super::super::testing::check_after(&passes, before, &after);
    }

    #[test]
    fn two_reductions() {
        check(
            "|v: vec[i64]| {result(for(v, merger[i64,+], |b, i, x| merge(b, x * 2L))),
                            result(for(v, merger[i64,max], |b, i, x| if(x > i, merge(b, x), b)))}",
            expect![[r#"
                |v: vec[i64]|
                  let bs = for(
                    v,
                    {merger[i64,+], merger[i64,max]},
                    |b, i, x| {merge(b.$0, x * 2L), if(x > i, merge(b.$1, x), b.$1)}
                  );
                  {result(bs.$0), result(bs.$1)}
            "#]],
        );
    }

    #[test]
    fn a_stream_feeds_several() {
        check(
            "|s: stream[{i64,i64}]|
             let f = result(for(s, appender, |b, i, r| if(r.$0 > 0L, merge(b, r), b)));
             let g = result(for(f, dictmerger[i64,i64,+], |b, i, r| merge(b, r)));
             let n = result(for(f, merger[i64,+], |b, i, r| merge(b, 1L)));
             {tovec(g), n}",
            expect![[r#"
                |s: stream[{i64,i64}]|
                  let bs = for(
                    s,
                    {dictmerger[i64,i64,+], merger[i64,+]},
                    |b, i, r| if(r.$0 > 0L, {merge(b.$0, r), merge(b.$1, 1L)}, b)
                  );
                  {tovec(result(bs.$0)), result(bs.$1)}
            "#]],
        );
    }

    #[test]
    fn one_needs_the_other() {
        check(
            "|v: vec[f64]| let m = result(for(v, merger[f64,+], |b, i, x| merge(b, x)));
             {m, result(for(v, merger[f64,+], |b, i, x| merge(b, x * m)))}",
            expect![[r#"
                |v: vec[f64]|
                  let m = result(for(v, merger[f64,+], |b, i, x| merge(b, x)));
                  {m, result(for(v, merger[f64,+], |b_2, i_2, x_2| merge(b_2, x_2 * m)))}
            "#]],
        );
    }

    #[test]
    fn dictionaries_over_a_plain_vector_stay_apart() {
        check(
            "|v: vec[i64]| {len(tovec(result(for(v, dictmerger[i64,i64,+], |b, i, x| merge(b, {x, 1L}))))),
                            len(tovec(result(for(v, dictmerger[i64,i64,+], |b, i, x| merge(b, {x % 2L, 1L})))))}",
            expect![[r#"
                |v: vec[i64]|
                  {
                    len(tovec(result(for(v, dictmerger[i64,i64,+], |b, i, x| merge(b, {x, 1L}))))),
                    len(tovec(result(for(v, dictmerger[i64,i64,+], |b_2, i_2, x_2| merge(b_2, {x_2 % 2L, 1L})))))
                  }
            "#]],
        );
    }

    #[test]
    fn loops_over_one_zip() {
        check(
            "|v: vec[i64], w: vec[i64], u: vec[i64]| {
               result(for(zip(v, w), merger[i64,+], |b, i, x| merge(b, x.$0 * x.$1))),
               result(for(zip(v, w), merger[i64,max], |b, i, x| merge(b, x.$0 - x.$1))),
               result(for(zip(v, u), merger[i64,min], |b, i, x| merge(b, x.$0 - x.$1))),
               result(for(zip(v, w, u), merger[i64,min], |b, i, x| merge(b, x.$0 - x.$2)))}",
            expect![[r#"
                |v: vec[i64], w: vec[i64], u: vec[i64]|
                  let bs = for(
                    zip(v, w),
                    {merger[i64,+], merger[i64,max]},
                    |b, i, x| {merge(b.$0, x.$0 * x.$1), merge(b.$1, x.$0 - x.$1)}
                  );
                  {
                    result(bs.$0),
                    result(bs.$1),
                    result(for(zip(v, u), merger[i64,min], |b_2, i_2, x_2| merge(b_2, x_2.$0 - x_2.$1))),
                    result(for(zip(v, w, u), merger[i64,min], |b_3, i_3, x_3| merge(b_3, x_3.$0 - x_3.$2)))
                  }
            "#]],
        );
    }

    #[test]
    fn other_vectors_and_filters_stay_apart() {
        check(
            "|v: vec[i64], w: vec[i64]| {
               result(for(v, merger[i64,+], |b, i, x| merge(b, x))), result(for(w, merger[i64,+], |b, i, x| merge(b, x))),
               result(for(w, appender[i64], |b, i, x| if(x > 0L, merge(b, x), b))),
               result(for(map(v, |x| x * 2L), appender[i64], |b, i, x| merge(b, x + i)))}",
            expect![[r#"
                |v: vec[i64], w: vec[i64]|
                  let bs = for(v, {merger[i64,+], appender[i64]}, |b, i, x| {merge(b.$0, x), merge(b.$1, x * 2L)});
                  {
                    result(bs.$0),
                    result(for(w, merger[i64,+], |b_2, i_2, x_2| merge(b_2, x_2))),
                    result(for(w, appender[i64], |b_3, i_3, x_3| if(x_3 > 0L, merge(b_3, x_3), b_3))),
                    result(for(result(bs.$1), appender[i64], |b_4, i_4, x_4| merge(b_4, x_4 + i_4)))
                  }
            "#]],
        );
    }

    #[test]
    fn what_several_loops_alone_read_is_fused_with_them() {
        check(
            "|v: vec[i64]| let f = result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x * x), b)));
             {len(tovec(result(for(f, dictmerger[i64,i64,+], |b, i, x| merge(b, {x, 1L}))))),
              result(for(f, appender[i64], |b, i, x| if(x > 9L, merge(b, x), b)))}",
            expect![[r#"
                |v: vec[i64]|
                  let bs = for(
                    v,
                    {dictmerger[i64,i64,+], appender[i64]},
                    |b, i, x|
                      if(x > 0L, let x_2 = x * x; {merge(b.$0, {x_2, 1L}), if(x_2 > 9L, merge(b.$1, x_2), b.$1)}, b)
                  );
                  {len(tovec(result(bs.$0))), result(bs.$1)}
            "#]],
        );
        check(
            "|v: vec[i64]| let f = result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x * x), b)));
             {len(tovec(result(for(f, dictmerger[i64,i64,+], |b, i, x| merge(b, {x, 1L}))))), len(f),
              result(for(f, appender[i64], |b, i, x| if(x > 9L, merge(b, x), b)))}",
            expect![[r#"
                |v: vec[i64]|
                  let f = result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x * x), b)));
                  {
                    len(tovec(result(for(f, dictmerger[i64,i64,+], |b_2, i_2, x_2| merge(b_2, {x_2, 1L}))))),
                    len(f),
                    result(for(f, appender[i64], |b_3, i_3, x_3| if(x_3 > 9L, merge(b_3, x_3), b_3)))
                  }
            "#]],
        );
    }
}
