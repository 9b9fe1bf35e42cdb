//! Fuses a loop with the loop that makes its vector, so that the vector never exists.
//!
//! ```weld
//! let f = result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x * 2L), b)));
//! result(for(f, merger[i64,+], |b, i, y| merge(b, y + 1L)))
//! =>
//! result(for(v, merger[i64,+], |b, i, x| if(x > 0L, let y = x * 2L; merge(b, y + 1L), b)))
//! ```
//!
//! Law: in `for(result(for(V, appender, P)), B, C)` every `merge(b, v)` of the producer `P` is an element of the
//! consumer `C`, in the same order, so each becomes the body of `C` with `v` for its element, over the builder `B`. The
//! producer may filter, branch, and merge in nested loops (a flat map, the probe of a join). The consumer's index is
//! the producer's if the producer merges exactly once an element; a consumer that uses its index needs that.
//!
//! In `for(zip(result(for(V, appender, P)), W), B, C)` with a `P` that merges exactly once an element, `V` takes the
//! place of the inner loop: `for(zip(V, W), B, C')`, and lengths are compared as before. A vector that stands in a zip
//! twice is read once, so that one which was made for `v * v` alone has one reader, and fuses; a zip of one is that
//! one.
//!
//! A list that is empty unless a condition holds is looped over where it does, see `empty_branches`.
//!
//! Never worse: the producer's appender, its writes and the reads are gone, and no code runs more often. The consumer's
//! body is copied when the producer merges in several places: only while the copies are small.
//!
//! Relies on `inline-lets` to put a vector that is used once where it is used.

use std::collections::HashMap;

use super::facts::{can_fail, is_path};
use super::simplify::same;
use super::{Config, empty_branches};
use crate::ir::{Binding, Expr, ExprKind, Func, Iter, Names, Program, Sym, build, deep};
use crate::ty::{BuilderType, Type};

/// How many nodes fusion may add by copying a consumer's body.
const COPIES_MAX: usize = 400;

pub(super) fn run(program: &mut Program, _: &Config) {
    let streams = program.params.iter().filter(|p| p.stream).map(|p| p.sym).collect();
    let mut fuser = Fuser { names: &mut program.names, streams };
    program.body.rewrite(&mut |e| fuser.visit(e));
}

struct Fuser<'a> {
    names: &'a mut Names,
    streams: Vec<Sym>,
}

impl Fuser<'_> {
    fn visit(&mut self, e: &mut Expr) {
        if empty_branches::split(e) {
            // The loop is in one of the branches now.
            return e.each_child_mut(&mut |branch| deep(|| self.visit(branch)));
        }
        while self.fuse(e) || self.fuse_zip(e) {}
        self.drop_copy(e);
    }

    /// `result(for(v, appender, |b, i, x| merge(b, x)))` is `v`.
    fn drop_copy(&self, e: &mut Expr) {
        let Some((Iter::Vector(data), func)) = producer(e) else { return };
        let is_stream = matches!(data.kind, ExprKind::Var(sym) if self.streams.contains(&sym));
        if let ExprKind::Merge { builder, value } = &func.body.kind
            && is_var(builder, func.params[0].0)
            && is_var(value, func.params[2].0)
            && !is_stream
        {
            *e = data.clone();
        }
    }

    /// Fuses a loop over a loop, once.
    fn fuse(&mut self, e: &mut Expr) -> bool {
        let ExprKind::For { iter, func: consumer, .. } = &e.kind else { return false };
        let Iter::Vector(data) = &**iter else { return false };
        let Some((_, producer)) = producer(data) else { return false };
        let mut sites = Sites { builders: vec![producer.params[0].0], merges: 0 };
        if !sites.visit(&producer.body) {
            return false;
        }
        let index = consumer.params[1].0;
        if consumer.body.uses(index) && !merges_once(&producer.body, producer.params[0].0) {
            return false;
        }
        if sites.merges > 1 && (sites.merges - 1) * consumer.body.size() > COPIES_MAX {
            return false;
        }

        let ExprKind::For { iter, builder, func: consumer } = &mut e.kind else { return false };
        let (piter, mut producer) = match &mut **iter {
            Iter::Vector(data) => take_producer(data),
            _ => return false,
        };
        let ty = builder.ty.clone();
        let own = self.names.fresh_like(consumer.params[0].0);
        let renamed = HashMap::from([(producer.params[0].0, own)]);
        let mut splice = Splice {
            names: self.names,
            consumer: Some(consumer.clone()),
            spare: consumer.clone(),
            index: producer.params[1].0,
            ty: ty.clone(),
            renamed,
        };
        splice.visit(&mut producer.body);
        producer.params[0] = (own, ty);
        **iter = piter;
        *consumer = producer;
        true
    }

    /// Fuses the maps among the parts of a zip, joins zips of zips, and reads each vector once.
    fn fuse_zip(&mut self, e: &mut Expr) -> bool {
        let ExprKind::For { iter, func, .. } = &mut e.kind else { return false };
        let Iter::Zip(parts) = &mut **iter else { return false };
        let is_plain = parts.len() > 1 && !parts.iter().any(|part| matches!(part, Iter::Zip(_)) || is_map(part));
        if is_plain && !has_twice(parts) {
            return false;
        }
        let (index, row) = (func.params[1].clone(), func.params[2].clone());
        let mut flat = Vec::new();
        // The fields of the old row; which flat part an element comes from is known once all parts are.
        let mut fields = Vec::new();
        let mut bindings = Vec::new();
        let new_row = self.names.fresh_like(row.0);
        for part in std::mem::take(parts) {
            fields.push(self.unzip(part, new_row, &index, &mut flat, &mut bindings));
        }
        let (mut parts, places) = dedupe(flat);
        let whole = match parts.len() {
            1 => parts.remove(0),
            _ => Iter::Zip(parts),
        };
        let element = whole.element_type();
        let is_zip = matches!(whole, Iter::Zip(_));
        let fix = |e: &mut Expr| place_fields(e, new_row, &element, is_zip.then_some(&places));
        fields.iter_mut().for_each(|e| e.rewrite(&mut |e| fix(e)));
        bindings.iter_mut().for_each(|b: &mut Binding| b.value.rewrite(&mut |e| fix(e)));
        bindings.push(Binding { sym: row.0, value: build::strct(fields) });
        let body = func.body.take();
        *func.body = build::let_in(bindings, body);
        func.params[2] = (new_row, element);
        **iter = whole;
        true
    }

    /// Adds a part of a zip to `flat` and returns its element in terms of the new row, whose fields are numbered as
    /// `flat` is.
    fn unzip(
        &mut self,
        part: Iter,
        new_row: Sym,
        index: &(Sym, Type),
        flat: &mut Vec<Iter>,
        bindings: &mut Vec<Binding>,
    ) -> Expr {
        if is_map(&part)
            && let Iter::Vector(mut data) = part
        {
            let (inner, func) = take_producer(&mut data);
            let element = self.unzip(inner, new_row, index, flat, bindings);
            bindings.push(Binding { sym: func.params[2].0, value: element });
            bindings.push(Binding { sym: func.params[1].0, value: build::var(index.0, index.1.clone()) });
            let mut body = *func.body;
            if let ExprKind::Let { bindings: inner, body: rest } = &mut body.kind {
                bindings.append(inner);
                body = rest.take();
            }
            return match body.kind {
                ExprKind::Merge { value, .. } => *value,
                _ => body,
            };
        }
        match part {
            Iter::Zip(parts) => {
                let parts = parts.into_iter().map(|p| self.unzip(p, new_row, index, flat, bindings));
                build::strct(parts.collect::<Vec<_>>())
            }
            part => {
                let ty = part.element_type();
                flat.push(part);
                // A stand-in until the row's type is known; `place_fields` completes it.
                let row = build::var(new_row, Type::structure([]));
                let mut field = build::field(row, flat.len() - 1);
                field.ty = ty;
                field
            }
        }
    }
}

/// The same vector iterated twice needs to be read once. Returns the remaining parts and where each old part is now.
fn dedupe(flat: Vec<Iter>) -> (Vec<Iter>, Vec<usize>) {
    let mut parts: Vec<Iter> = Vec::new();
    let mut places = Vec::new();
    for part in flat {
        places.push(parts.iter().position(|other| same_part(other, &part)).unwrap_or_else(|| {
            parts.push(part);
            parts.len() - 1
        }));
    }
    (parts, places)
}

fn has_twice(parts: &[Iter]) -> bool {
    parts.iter().enumerate().any(|(i, part)| parts[..i].iter().any(|other| same_part(other, part)))
}

/// Whether two parts of a zip give the same elements of one vector, as far as that shows.
fn same_part(a: &Iter, b: &Iter) -> bool {
    match (a, b) {
        (Iter::Vector(a), Iter::Vector(b)) => is_path(a) && same(a, b),
        (
            Iter::Strided { data: a, start: from, end: to, stride: by },
            Iter::Strided { data: b, start, end, stride },
        ) => is_path(a) && same(a, b) && same(from, start) && same(to, end) && same(by, stride),
        _ => false,
    }
}

/// Gives the stand-ins for fields of the new row their place and the row its type; without places the row is its only
/// field.
fn place_fields(e: &mut Expr, row: Sym, element: &Type, places: Option<&Vec<usize>>) {
    if let ExprKind::Field(of, index) = &mut e.kind
        && is_var(of, row)
    {
        of.ty = element.clone();
        match places {
            Some(places) => *index = places[*index as usize] as u32,
            None => *e = of.take(),
        }
    }
}

fn is_var(e: &Expr, sym: Sym) -> bool {
    matches!(e.kind, ExprKind::Var(s) if s == sym)
}

/// The loop of `result(for(iter, appender, func))` with a new appender whose size hint (dropped by fusion) cannot fail.
pub(super) fn producer(e: &Expr) -> Option<(&Iter, &Func)> {
    let ExprKind::Result(of) = &e.kind else { return None };
    let ExprKind::For { iter, builder, func } = &of.kind else { return None };
    let ExprKind::NewBuilder { arg } = &builder.kind else { return None };
    let is_appender = matches!(builder.ty, Type::Builder(BuilderType::Appender(_)));
    (is_appender && arg.as_ref().is_none_or(|arg| !can_fail(arg))).then_some((&**iter, func))
}

/// Moves the loop out of what [`producer`] accepted.
fn take_producer(e: &mut Expr) -> (Iter, Func) {
    if let ExprKind::Result(of) = &mut e.kind
        && let ExprKind::For { iter, func, .. } = &mut of.kind
    {
        let empty = Func { params: Vec::new(), body: Box::new(build::bool(false)) };
        return (std::mem::replace(&mut **iter, Iter::Zip(Vec::new())), std::mem::replace(func, empty));
    }
    unreachable!("`producer` accepted the expression")
}

/// Whether a part of a zip is a producer that is a block around one merge.
fn is_map(part: &Iter) -> bool {
    let Iter::Vector(data) = part else { return false };
    let Some((_, func)) = producer(data) else { return false };
    let body = match &func.body.kind {
        ExprKind::Let { bindings, body } if bindings.iter().all(|b| !b.value.ty.is_builder()) => body,
        _ => &func.body,
    };
    matches!(&body.kind, ExprKind::Merge { builder, .. } if is_var(builder, func.params[0].0))
}

/// Whether every path merges exactly once into the builder `b`.
pub(super) fn merges_once(e: &Expr, b: Sym) -> bool {
    deep(|| match &e.kind {
        ExprKind::Merge { builder, .. } => is_var(builder, b),
        ExprKind::Let { bindings, body } => {
            bindings.iter().all(|binding| !binding.value.ty.is_builder()) && merges_once(body, b)
        }
        ExprKind::If { on_true, on_false, .. } => merges_once(on_true, b) && merges_once(on_false, b),
        _ => false,
    })
}

/// Checks that a producer's body is made of what [`Splice`] can rewrite, and counts its merges.
struct Sites {
    /// The producer's builder and the variables derived from it.
    builders: Vec<Sym>,
    merges: usize,
}

impl Sites {
    fn visit(&mut self, e: &Expr) -> bool {
        deep(|| match &e.kind {
            ExprKind::Var(sym) => self.builders.contains(sym),
            ExprKind::Merge { builder, .. } => {
                self.merges += 1;
                self.visit(builder)
            }
            ExprKind::If { on_true, on_false, .. } => self.visit(on_true) && self.visit(on_false),
            ExprKind::Let { bindings, body } => {
                for binding in bindings {
                    if binding.value.ty == e.ty {
                        if !self.visit(&binding.value) {
                            return false;
                        }
                        self.builders.push(binding.sym);
                    } else if binding.value.ty.is_builder() {
                        return false;
                    }
                }
                self.visit(body)
            }
            ExprKind::For { builder, func, .. } => {
                if !self.visit(builder) {
                    return false;
                }
                self.builders.push(func.params[0].0);
                self.visit(&func.body)
            }
            _ => false,
        })
    }
}

/// Rewrites a producer's body to the consumer's builder, with the consumer's body in place of each merge.
struct Splice<'a> {
    names: &'a mut Names,
    /// The consumer's function, for the first merge; the others get copies of `spare`.
    consumer: Option<Func>,
    spare: Func,
    /// The producer's index, which is the consumer's where that uses one.
    index: Sym,
    ty: Type,
    /// New symbols for the producer's builders.
    renamed: HashMap<Sym, Sym>,
}

impl Splice<'_> {
    /// `e` is of the producer's builder type and derived from its builder: [`Sites`] has seen it.
    fn visit(&mut self, e: &mut Expr) {
        deep(|| match &mut e.kind {
            ExprKind::Var(sym) => *sym = self.renamed[sym],
            ExprKind::Merge { builder, value } => {
                self.visit(builder);
                *e = self.consume(builder.take(), value.take());
            }
            ExprKind::If { on_true, on_false, .. } => {
                self.visit(on_true);
                self.visit(on_false);
            }
            ExprKind::Let { bindings, body } => {
                for binding in bindings.iter_mut() {
                    if binding.value.ty == e.ty {
                        self.visit(&mut binding.value);
                        binding.sym = self.rename(binding.sym);
                    }
                }
                self.visit(body);
                *e = build::let_in(std::mem::take(bindings), body.take());
            }
            ExprKind::For { builder, func, .. } => {
                self.visit(builder);
                func.params[0] = (self.rename(func.params[0].0), self.ty.clone());
                self.visit(&mut func.body);
            }
            _ => {}
        });
        e.ty = self.ty.clone();
    }

    fn rename(&mut self, sym: Sym) -> Sym {
        let new = self.names.fresh_like(sym);
        self.renamed.insert(sym, new);
        new
    }

    /// The consumer's body over this builder and this element.
    fn consume(&mut self, builder: Expr, value: Expr) -> Expr {
        let func = match self.consumer.take() {
            Some(func) => func,
            None => fresh_func(&self.spare, self.names),
        };
        let [b, i, x] = [func.params[0].0, func.params[1].0, func.params[2].0];
        let bindings = vec![
            Binding { sym: x, value },
            Binding { sym: i, value: build::var(self.index, Type::I64) },
            Binding { sym: b, value: builder },
        ];
        build::let_in(bindings, *func.body)
    }
}

/// A copy of a function with new symbols throughout.
pub(super) fn fresh_func(func: &Func, names: &mut Names) -> Func {
    let params: Vec<_> = func.params.iter().map(|(sym, ty)| (names.fresh_like(*sym), ty.clone())).collect();
    let args = params.iter().map(|(sym, ty)| build::var(*sym, ty.clone())).collect();
    Func { body: Box::new(func.apply(args, names)), params }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::inline_lets;

    fn check(before: &str, after: Expect) {
        let passes = [inline_lets::run, super::run, inline_lets::run];
        super::super::testing::check_after(&passes, before, &after);
    }

    #[test]
    fn filter_and_sum() {
        check(
            "|v: vec[i64]|
             let f = result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x * 2L), b)));
             result(for(f, merger[i64,+], |b, i, y| merge(b, y + y)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(v, merger[i64,+], |b, i, x| if(x > 0L, let y = x * 2L; merge(b, y + y), b)))
            "#]],
        );
    }

    #[test]
    fn a_chain_over_a_stream() {
        check(
            "|s: stream[{i64,i64}]|
             let f = result(for(s, appender[{i64,i64}], |b, i, r| if(r.$0 > 0L, merge(b, r), b)));
             let p = result(for(f, appender[{i64}], |b, i, r| merge(b, {r.$0 * r.$1})));
             result(for(p, dictmerger[i64,i64,+], |b, i, r| merge(b, {r.$0, 1L})))",
            expect![[r#"
                |s: stream[{i64,i64}]|
                  result(for(s, dictmerger[i64,i64,+], |b, i, r| if(r.$0 > 0L, merge(b, {{r.$0 * r.$1}.$0, 1L}), b)))
            "#]],
        );
    }

    #[test]
    fn the_probe_of_a_join() {
        check(
            "|s: stream[{i64,i64}], t: dict[i64,vec[{i64}]]|
             let j = result(for(s, appender[{i64,i64}], |b, i, r|
               let m = optlookup(t, r.$0);
               if(m.$0, for(m.$1, b, |b2, j, v| merge(b2, {r.$1, v.$0})), b)));
             result(for(j, merger[i64,+], |b, i, r| if(r.$0 > r.$1, merge(b, r.$0), b)))",
            expect![[r#"
                |s: stream[{i64,i64}], t: dict[i64,vec[{i64}]]|
                  result(for(
                    s,
                    merger[i64,+],
                    |b, i, r|
                      let m = optlookup(t, r.$0);
                      if(
                        m.$0,
                        for(m.$1, b, |b2, j, v| let r_2 = {r.$1, v.$0}; if(r_2.$0 > r_2.$1, merge(b2, r_2.$0), b2)),
                        b
                      )
                  ))
            "#]],
        );
    }

    #[test]
    fn merges_in_several_places_are_copied() {
        check(
            "|v: vec[i64]|
             let f = result(for(v, appender[i64], |b, i, x| merge(merge(b, x), x + 1L)));
             result(for(f, merger[i64,+], |b, i, y| let z = y * y; merge(b, z + z)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(
                    v,
                    merger[i64,+],
                    |b, i, x| let y = x + 1L; let z = x * x; let z_2 = y * y; merge(merge(b, z + z), z_2 + z_2)
                  ))
            "#]],
        );
    }

    #[test]
    fn an_index_is_the_producers_when_it_merges_once() {
        check(
            "|v: vec[i64]| let f = result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x), merge(b, i))));
             result(for(f, merger[i64,+], |b, i, y| merge(b, y * i)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(v, merger[i64,+], |b, i, x| if(x > 0L, merge(b, x * i), merge(b, i * i))))
            "#]],
        );
    }

    #[test]
    fn an_index_over_a_filter_is_not_fused() {
        check(
            "|v: vec[i64]| let f = result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, x), b)));
             result(for(f, merger[i64,+], |b, i, y| merge(b, y * i)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(
                    result(for(v, appender[i64], |b_2, i_2, x| if(x > 0L, merge(b_2, x), b_2))),
                    merger[i64,+],
                    |b, i, y| merge(b, y * i)
                  ))
            "#]],
        );
    }

    #[test]
    fn a_vector_that_is_used_twice_is_not_fused() {
        check(
            "|v: vec[i64]| let f = result(for(v, appender[i64], |b, i, x| merge(b, x * x)));
             {result(for(f, merger[i64,+], |b, i, y| merge(b, y))), len(f)}",
            expect![[r#"
                |v: vec[i64]|
                  let f = result(for(v, appender[i64], |b, i, x| merge(b, x * x)));
                  {result(for(f, merger[i64,+], |b_2, i_2, y| merge(b_2, y))), len(f)}
            "#]],
        );
    }

    #[test]
    fn aligned_maps_through_a_zip() {
        check(
            "|v: vec[i64], w: vec[i64]|
             let f = result(for(v, appender[i64], |b, i, x| merge(b, x + i)));
             let g = result(for(zip(v, w), appender[i64], |b, i, x| merge(b, x.$0 * x.$1)));
             result(for(zip(f, g, w), merger[i64,+], |b, i, x| merge(b, x.$0 + x.$1 + x.$2)))",
            expect![[r#"
                |v: vec[i64], w: vec[i64]|
                  result(for(
                    zip(v, w),
                    merger[i64,+],
                    |b, i, x|
                      let x_2 = {x.$0, x.$1};
                      let x_3 = {x.$0 + i, x_2.$0 * x_2.$1, x.$1};
                      merge(b, x_3.$0 + x_3.$1 + x_3.$2)
                  ))
            "#]],
        );
    }

    #[test]
    fn a_vector_that_is_read_twice_in_step_is_read_once() {
        check(
            "|v: vec[i64]| let f = result(for(v, appender[i64], |b, i, x| merge(b, x + 1L)));
             let g = result(for(zip(f, f), appender[i64], |b, i, x| merge(b, x.$0 * x.$1)));
             result(for(zip(g, f), merger[i64,+], |b, i, x| merge(b, x.$0 - x.$1)))",
            expect![[r#"
                |v: vec[i64]|
                  result(for(
                    result(for(v, appender[i64], |b_2, i_2, x_2| merge(b_2, x_2 + 1L))),
                    merger[i64,+],
                    |b, i, x| let x_3 = {x, x}; let x_4 = {x_3.$0 * x_3.$1, x}; merge(b, x_4.$0 - x_4.$1)
                  ))
            "#]],
        );
        check(
            "|v: vec[i64], n: i64| result(for(zip(iter(v, 0L, n, 1L), iter(v, 0L, n, 1L), iter(v, 1L, n, 1L)), merger[i64,+],
               |b, i, x| merge(b, x.$0 * x.$1 - x.$2)))",
            expect![[r#"
                |v: vec[i64], n: i64|
                  result(for(
                    zip(iter(v, 0L, n, 1L), iter(v, 1L, n, 1L)),
                    merger[i64,+],
                    |b, i, x| let x_2 = {x.$0, x.$0, x.$1}; merge(b, x_2.$0 * x_2.$1 - x_2.$2)
                  ))
            "#]],
        );
    }

    #[test]
    fn copies_vanish() {
        check(
            "|v: vec[i64]| result(for(v, appender[i64], |b, i, x| merge(b, x)))",
            expect![[r#"
            |v: vec[i64]|
              v
        "#]],
        );
        check(
            "|v: stream[i64]| result(for(v, appender[i64], |b, i, x| merge(b, x)))",
            expect![[r#"
            |v: stream[i64]|
              result(for(v, appender[i64], |b, i, x| merge(b, x)))
        "#]],
        );
    }

    #[test]
    fn a_large_consumer_is_not_copied() {
        let merges_twice = |terms: usize| {
            let sum = (0..terms).fold("y".to_string(), |sum, _| format!("({sum} * y + 1L)"));
            let text = format!(
                "|v: vec[i64]| result(for(result(for(v, appender[i64], |b, i, x| merge(merge(b, x), x + 1L))),
                   merger[i64,+], |b, i, y| merge(b, {sum})))"
            );
            let mut program = crate::parse_program(&text).expect("parses");
            super::run(&mut program, &super::Config::default());
            !program.to_string().contains("appender")
        };
        assert!(merges_twice(20));
        assert!(!merges_twice(super::COPIES_MAX / 4));
    }

    #[test]
    fn other_parts_of_a_vector_are_read_for_themselves() {
        check(
            "|v: vec[i64], n: i64| {
               result(for(zip(iter(v, 0L, n, 1L), iter(v, 1L, n + 1L, 1L)), appender[i64], |b, i, x| merge(b, x.$0 - x.$1))),
               result(for(zip(iter(v, 0L, n, 1L), iter(v, 0L, n, 1L)), appender[i64], |b, i, x| merge(b, x.$0 * x.$1))),
               result(for(zip(iter(v, 0L, n, 1L), iter(v, 0L, n, 2L)), appender[i64], |b, i, x| merge(b, x.$0 * x.$1)))}",
            expect![[r#"
                |v: vec[i64], n: i64|
                  {
                    result(for(
                      zip(iter(v, 0L, n, 1L), iter(v, 1L, n + 1L, 1L)),
                      appender[i64],
                      |b, i, x| merge(b, x.$0 - x.$1)
                    )),
                    result(for(
                      iter(v, 0L, n, 1L),
                      appender[i64],
                      |b_2, i_2, x_2| let x_3 = {x_2, x_2}; merge(b_2, x_3.$0 * x_3.$1)
                    )),
                    result(for(
                      zip(iter(v, 0L, n, 1L), iter(v, 0L, n, 2L)),
                      appender[i64],
                      |b_3, i_3, x_4| merge(b_3, x_4.$0 * x_4.$1)
                    ))
                  }
            "#]],
        );
    }

    #[test]
    fn copies_of_fields_and_of_streams_stay() {
        check(
            "|v: vec[{i64,i64}], s: stream[i64]| {
               result(for(v, appender, |b, i, x| merge(b, x.$0))), result(for(v, appender, |b, i, x| merge(b, i))),
               result(for(s, appender, |b, i, x| merge(b, x))), result(for(v, appender, |b, i, x| merge(b, x)))}",
            expect![[r#"
                |v: vec[{i64,i64}], s: stream[i64]|
                  {
                    result(for(v, appender[i64], |b, i, x| merge(b, x.$0))),
                    result(for(v, appender[i64], |b_2, i_2, x_2| merge(b_2, i_2))),
                    result(for(s, appender[i64], |b_3, i_3, x_3| merge(b_3, x_3))),
                    v
                  }
            "#]],
        );
    }

    #[test]
    fn a_size_that_may_fail_is_evaluated() {
        check(
            "|v: vec[i64], n: i64|
             result(for(result(for(v, appender[i64](9L / n), |b, i, x| merge(b, x + 1L))), merger[i64,+], |b, i, y| merge(b, y)))",
            expect![[r#"
                |v: vec[i64], n: i64|
                  result(for(
                    result(for(v, appender[i64](9L / n), |b_2, i_2, x| merge(b_2, x + 1L))),
                    merger[i64,+],
                    |b, i, y| merge(b, y)
                  ))
            "#]],
        );
    }
}
