//! Computes a function of dictionary-encoded values once an entry rather than once a row.
//!
//! ```weld
//! |codes: vec[i64], d: vec[vec[u8]]|
//!   result(for(codes, merger[i64,+], |b, i, c| if(contains(lookup(d, c), b"x"), merge(b, 1L), b)))
//! =>
//! |codes: vec[i64], d: vec[vec[u8]]|
//!   result(if(len(d) * 2L <= len(codes),
//!     let m = result(for(d, appender[bool], |b, i, x| merge(b, contains(x, b"x"))));
//!     for(codes, merger[i64,+], |b, i, c| if(lookup(m, c), merge(b, 1L), b)),
//!     for(codes, merger[i64,+], |b, i, c| if(contains(lookup(d, c), b"x"), merge(b, 1L), b))))
//! ```
//!
//! Law: for an `f` that cannot fail and depends on nothing else that the loop binds, `f(lookup(d, c))` is
//! `lookup(map(d, f), c)`: both have the same length, so both fail for the same `c`.
//!
//! Pays when there are fewer entries than rows, which is known when the program runs: hence the two loops. Only for an
//! `f` of at least [`COST_MIN`] simple operations, more than the second lookup and the second copy of the code.

use super::Config;
use super::facts::{can_fail, cost, is_trivial};
use super::fuse_loops::fresh_func;
use crate::ir::typing::holds_builder;
use crate::ir::{Binding, Expr, ExprKind, Iter, Names, Program, Sym, build, deep};
use crate::ty::Type;

const COST_MIN: u32 = 20;

pub(super) fn run(program: &mut Program, _: &Config) {
    let streams: Vec<Sym> = program.params.iter().filter(|p| p.stream).map(|p| p.sym).collect();
    visit(&mut program.body, &streams, &mut program.names);
}

fn visit(e: &mut Expr, streams: &[Sym], names: &mut Names) {
    deep(|| {
        let hoisted = hoist(e, streams, names);
        if !hoisted {
            e.each_child_mut(&mut |child| visit(child, streams, names));
        }
    })
}

/// Puts a loop over mapped dictionaries beside a loop that computes with looked-up values.
fn hoist(e: &mut Expr, streams: &[Sym], names: &mut Names) -> bool {
    let ExprKind::For { iter, builder, func } = &e.kind else { return false };
    // The loop is copied: its vector and builder must be free to copy too.
    let Some(rows) = length(iter, streams) else { return false };
    if !matches!(builder.kind, ExprKind::Var(_) | ExprKind::NewBuilder { arg: None }) {
        return false;
    }
    let mut looks_up = false;
    func.body.walk(&mut |e| looks_up |= as_lookup(e).is_some());
    if !looks_up || cost(&func.body) < COST_MIN {
        return false;
    }
    let mut copy = fresh_func(func, names);
    let mut bound: Vec<Sym> = copy.params.iter().map(|(sym, _)| *sym).collect();
    copy.body.walk(&mut |e| e.each_bound(&mut |sym| bound.push(sym)));
    bound.sort_unstable();
    let mut found = Found { bound, maps: Vec::new(), names };
    found.visit(&mut copy.body);
    let maps = found.maps;
    if maps.is_empty() {
        return false;
    }
    let entries = maps.iter().map(|map| build::len(map.data.clone())).reduce(build::add);
    let Some(entries) = entries else { return false };
    let bindings: Vec<Binding> = maps.into_iter().map(|map| map.bind(names)).collect();
    let mapped = build::for_func((**iter).clone(), (**builder).clone(), copy);
    let mut mapped = build::let_in(bindings, mapped);
    mapped.annotations = e.annotations.clone();
    let plain = e.take();
    *e = build::if_(build::le(build::mul(entries, build::i64(2)), rows), mapped, plain);
    true
}

/// The number of iterations of a loop over variables that are no streams.
fn length(iter: &Iter, streams: &[Sym]) -> Option<Expr> {
    match iter {
        Iter::Vector(data) => match data.kind {
            ExprKind::Var(sym) if !streams.contains(&sym) => Some(build::len(data.clone())),
            _ => None,
        },
        Iter::Zip(parts) => {
            let lengths: Option<Vec<Expr>> = parts.iter().map(|part| length(part, streams)).collect();
            lengths?.into_iter().next()
        }
        _ => None,
    }
}

/// `let sym = result(for(data, appender, |b, i, x| merge(b, body)))` with `element` for `x`.
struct Map {
    sym: Sym,
    data: Expr,
    element: Sym,
    body: Expr,
}

impl Map {
    fn bind(self, names: &mut Names) -> Binding {
        let appender = build::appender(self.body.ty.clone());
        let loop_ = build::for_(names, build::over(self.data), appender, |_, b, _, x| {
            build::let_in(vec![Binding { sym: self.element, value: x }], build::merge(b, self.body))
        });
        Binding { sym: self.sym, value: build::result(loop_) }
    }
}

/// Finds functions of looked-up values in a loop's body and replaces them by lookups.
struct Found<'a> {
    /// What the loop binds, sorted.
    bound: Vec<Sym>,
    maps: Vec<Map>,
    names: &'a mut Names,
}

impl Found<'_> {
    fn is_bound(&self, sym: Sym) -> bool {
        self.bound.binary_search(&sym).is_ok()
    }

    /// The largest expressions first.
    fn visit(&mut self, e: &mut Expr) {
        deep(|| {
            if !self.replace(e) {
                e.each_child_mut(&mut |child| self.visit(child));
            }
        })
    }

    fn replace(&mut self, e: &mut Expr) -> bool {
        if matches!(e.kind, ExprKind::Let { .. } | ExprKind::Lookup { .. }) || is_trivial(e) || holds_builder(&e.ty) {
            return false;
        }
        if cost(e) < COST_MIN {
            return false;
        }
        let mut lookups = Vec::new();
        self.lookups(e, &mut lookups);
        let Some((data, key, checked)) = single(&lookups) else { return false };
        let (data, key) = (data.clone(), key.clone());
        let element = self.names.fresh("entry");
        let element_ty = data.ty.element().cloned().unwrap_or(Type::I64);
        let mut body = e.clone();
        body.rewrite_down(&mut |part| {
            if as_lookup(part).is_some_and(|(d, k, _)| d.same_as(&data) && k.same_as(&key)) {
                *part = build::var(element, element_ty.clone());
            }
        });
        // Without the lookup nothing of the loop may be left, nothing that fails, and enough to do.
        let mut inner: Vec<Sym> = Vec::new();
        body.walk(&mut |part| part.each_bound(&mut |sym| inner.push(sym)));
        let depends = body.free_vars().iter().any(|sym| self.is_bound(*sym) && !inner.contains(sym));
        if depends || !inner.is_empty() || can_fail(&body) || cost(&body) < COST_MIN {
            return false;
        }
        let sym = self.names.fresh("mapped");
        let mut lookup = build::lookup(build::var(sym, Type::vec(body.ty.clone())), key);
        if let ExprKind::Lookup { checked: own, .. } = &mut lookup.kind {
            *own = checked;
        }
        self.maps.push(Map { sym, data, element, body });
        *e = lookup;
        true
    }

    /// The lookups in vectors from outside the loop that depend on the loop.
    fn lookups<'e>(&self, e: &'e Expr, out: &mut Vec<(&'e Expr, &'e Expr, bool)>) {
        e.walk(&mut |e| {
            if let Some((data, key, checked)) = as_lookup(e)
                && matches!(data.kind, ExprKind::Var(sym) if !self.is_bound(sym))
                && key.free_vars().iter().any(|sym| self.is_bound(*sym))
            {
                out.push((data, key, checked));
            }
        });
    }
}

fn as_lookup(e: &Expr) -> Option<(&Expr, &Expr, bool)> {
    match &e.kind {
        ExprKind::Lookup { data, key, checked } if matches!(data.ty, Type::Vec(_)) => Some((data, key, *checked)),
        _ => None,
    }
}

/// The one lookup that all of them are. It is checked if any is.
fn single<'e>(lookups: &[(&'e Expr, &'e Expr, bool)]) -> Option<(&'e Expr, &'e Expr, bool)> {
    let (data, key, _) = *lookups.first()?;
    let same = lookups.iter().all(|(d, k, _)| d.same_as(data) && k.same_as(key));
    same.then(|| (data, key, lookups.iter().any(|(.., checked)| *checked)))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    fn check(before: &str, after: Expect) {
        super::super::testing::check(super::run, before, &after);
    }

    #[test]
    fn a_search_in_encoded_strings() {
        check(
            "|codes: vec[i64], d: vec[vec[u8]], p: vec[u8]|
             result(for(codes, merger[i64,+], |b, i, c| if(contains(lookup(d, c), p), merge(b, 1L), b)))",
            expect![[r#"
                |codes: vec[i64], d: vec[vec[u8]], p: vec[u8]|
                  result(if(
                    len(d) * 2L <= len(codes),
                    let mapped = result(for(
                      d,
                      appender[bool],
                      |b, i, x| let entry = x; merge(b, contains(entry, p))
                    ));
                    for(codes, merger[i64,+], |b_2, i_2, c| if(lookup(mapped, c), merge(b_2, 1L), b_2)),
                    for(codes, merger[i64,+], |b_3, i_3, c_2| if(contains(lookup(d, c_2), p), merge(b_3, 1L), b_3))
                  ))
            "#]],
        );
    }

    #[test]
    fn two_functions_of_one_zip() {
        check(
            "|v: vec[{i64,f64}], c: vec[i32], d: vec[f64]|
             result(for(zip(v, c), appender[f64], |b, i, r|
               merge(b, exp(lookup(d, i64(r.$1))) * r.$0.$1 + sqrt(lookup(d, i64(r.$1)) * 2.0))))",
            expect![[r#"
                |v: vec[{i64,f64}], c: vec[i32], d: vec[f64]|
                  result(if(
                    (len(d) + len(d)) * 2L <= len(v),
                    let mapped = result(for(d, appender[f64], |b, i, x| let entry = x; merge(b, exp(entry))));
                    let mapped_2 = result(for(
                      d,
                      appender[f64],
                      |b_2, i_2, x_2| let entry_2 = x_2; merge(b_2, sqrt(entry_2 * 2.0))
                    ));
                    for(
                      zip(v, c),
                      appender[f64],
                      |b_3, i_3, r| merge(b_3, lookup(mapped, i64(r.$1)) * r.$0.$1 + lookup(mapped_2, i64(r.$1)))
                    ),
                    for(
                      zip(v, c),
                      appender[f64],
                      |b_4, i_4, r_2|
                        merge(b_4, exp(lookup(d, i64(r_2.$1))) * r_2.$0.$1 + sqrt(lookup(d, i64(r_2.$1)) * 2.0))
                    )
                  ))
            "#]],
        );
    }

    #[test]
    fn not_what_depends_on_the_row_or_is_cheap_or_fails() {
        check(
            "|codes: vec[i64], d: vec[i64]|
             result(for(codes, appender[{f64,i64,i64}], |b, i, c|
               merge(b, {pow(f64(lookup(d, c)), f64(i)), lookup(d, c) + 1L, 100L / lookup(d, c)})))",
            expect![[r#"
                |codes: vec[i64], d: vec[i64]|
                  result(for(
                    codes,
                    appender[{f64,i64,i64}],
                    |b, i, c| merge(b, {pow(f64(lookup(d, c)), f64(i)), lookup(d, c) + 1L, 100L / lookup(d, c)})
                  ))
            "#]],
        );
    }
}
