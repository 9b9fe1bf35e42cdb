//! Drops the fields of what builders hold that nobody reads.
//!
//! ```weld
//! |v: vec[{i64,f64}], k: i64|
//!   let d = result(for(v, dictmerger[i64,{f64,i64,f64},{+,+,max}], |b, i, x| merge(b, {x.$0, {x.$1, 1L, x.$1}})));
//!   lookup(d, k).$0 / f64(lookup(d, k).$1)
//! =>
//!   let d = result(for(v, dictmerger[i64,{f64,i64},{+,+}], |b, i, x| merge(b, {x.$0, {x.$1, 1L}})));
//!   lookup(d, k).$0 / f64(lookup(d, k).$1)
//! ```
//!
//! Law: builders combine structs field by field and no field sees another, so the fields that are left are what they
//! were. It holds for the values of a `merger`, a `dictmerger` and a `groupbuilder` and for the elements of an
//! `appender`, if every use of the result ends in one of their fields. What a dropped field was computed by is still
//! evaluated if it can fail. Where all fields are dropped the first one stays: keys and lengths are still there to be
//! read.
//!
//! Never worse: less is computed, merged and kept, and what is read costs what it did.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Config;
use super::facts::can_drop;
use crate::ir::typing::holds_builder;
use crate::ir::{Binding, Expr, ExprKind, Iter, Names, Program, Sym, build, deep};
use crate::op::MergeOp;
use crate::ty::{BuilderType, Type};

pub(super) fn run(program: &mut Program, _: &Config) {
    let mut pass =
        Pass { names: &mut program.names, parts: HashMap::new(), results: Vec::new(), next: 0, rewrites: false };
    pass.whole(&mut program.body);
    if pass.results.iter().flatten().any(|found| found.kept().is_some()) {
        (pass.parts, pass.next, pass.rewrites) = (HashMap::new(), 0, true);
        pass.whole(&mut program.body);
    }
}

/// The first walk finds the fields that are read, the second drops the others. Both meet the same results in one order.
struct Pass<'a> {
    names: &'a mut Names,
    /// Variables that hold a part of a result.
    parts: HashMap<Sym, Part>,
    /// For each `result` of the program: what is read of it, if its values are structs.
    results: Vec<Option<Found>>,
    next: usize,
    rewrites: bool,
}

struct Found {
    read: Vec<bool>,
    /// Some use needs all of it.
    whole: bool,
}

impl Found {
    /// The fields to keep, if not all.
    fn kept(&self) -> Option<Vec<usize>> {
        let mut kept: Vec<usize> = (0..self.read.len()).filter(|&i| self.read[i]).collect();
        if kept.is_empty() {
            kept.push(0);
        }
        (!self.whole && kept.len() < self.read.len()).then_some(kept)
    }
}

/// What an expression is of the result with that number.
#[derive(Clone, Copy)]
struct Part {
    of: usize,
    shape: Shape,
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    /// The struct whose fields may be dropped.
    Value,
    /// A vector of them.
    List,
    /// `dict[K,V]`, and what `optlookup` and `tovec` make of it.
    Dict(Leaf),
    Opt(Leaf),
    Entries(Leaf),
    Entry(Leaf),
}

/// What a dictionary holds for a key.
#[derive(Clone, Copy, PartialEq)]
enum Leaf {
    Value,
    List,
}

impl Leaf {
    fn shape(self) -> Shape {
        match self {
            Leaf::Value => Shape::Value,
            Leaf::List => Shape::List,
        }
    }
}

/// The struct that a builder holds, and what its result is of it.
fn held(builder: &Type) -> Option<(&[Type], Shape)> {
    let Type::Builder(builder) = builder else { return None };
    let (value, shape) = match builder {
        // Each field is made of all of them.
        BuilderType::Merger { op: MergeOp::Struct(_), .. } | BuilderType::DictMerger { op: MergeOp::Struct(_), .. } => {
            return None;
        }
        BuilderType::Merger { value, .. } => (value, Shape::Value),
        BuilderType::Appender(element) => (element, Shape::List),
        BuilderType::DictMerger { value, .. } => (value, Shape::Dict(Leaf::Value)),
        BuilderType::GroupBuilder { value, .. } => (value, Shape::Dict(Leaf::List)),
        BuilderType::Numberer { .. } | BuilderType::VecMerger { .. } => return None,
    };
    value.fields().filter(|fields| fields.len() > 1).map(|fields| (fields, shape))
}

impl Pass<'_> {
    /// An expression all of whose value is needed.
    fn whole(&mut self, e: &mut Expr) {
        if let Some(part) = self.visit(e) {
            self.need_all(part);
        }
    }

    fn need_all(&mut self, part: Part) {
        if let Some(found) = &mut self.results[part.of] {
            found.whole = true;
        }
    }

    fn visit(&mut self, e: &mut Expr) -> Option<Part> {
        let part = deep(|| self.part(e));
        if let Some(part) = part
            && self.rewrites
            && let Some(kept) = self.kept(part.of)
        {
            e.ty = shrunk(part.shape, &e.ty, &kept);
        }
        part
    }

    fn kept(&self, of: usize) -> Option<Vec<usize>> {
        self.results[of].as_ref()?.kept()
    }

    fn part(&mut self, e: &mut Expr) -> Option<Part> {
        match &mut e.kind {
            ExprKind::Var(sym) => self.parts.get(sym).copied(),
            ExprKind::Let { bindings, body } => {
                for Binding { sym, value } in bindings {
                    if let Some(part) = self.visit(value) {
                        self.parts.insert(*sym, part);
                    }
                }
                self.visit(body)
            }
            ExprKind::Result(builder) => self.result(builder),
            ExprKind::Lookup { data, key, .. } => {
                self.whole(key);
                self.step(data, |shape| match shape {
                    Shape::Dict(leaf) => Some(leaf.shape()),
                    Shape::List => Some(Shape::Value),
                    _ => None,
                })
            }
            ExprKind::OptLookup { data, key } => {
                self.whole(key);
                self.step(data, |shape| match shape {
                    Shape::Dict(leaf) => Some(Shape::Opt(leaf)),
                    _ => None,
                })
            }
            ExprKind::ToVec(data) => self.step(data, |shape| match shape {
                Shape::Dict(leaf) => Some(Shape::Entries(leaf)),
                _ => None,
            }),
            ExprKind::KeyExists { data, key } => {
                self.whole(key);
                self.look(data, |shape| matches!(shape, Shape::Dict(_)))
            }
            ExprKind::Len(data) => self.look(data, |shape| matches!(shape, Shape::List | Shape::Entries(_))),
            ExprKind::Field(of, index) => match self.visit(of)? {
                Part { of, shape: Shape::Value } => {
                    self.read(of, index);
                    None
                }
                // Whether the key is there, and the key itself, are no part of the value.
                Part { shape: Shape::Opt(_) | Shape::Entry(_), .. } if *index == 0 => None,
                Part { of, shape: Shape::Opt(leaf) | Shape::Entry(leaf) } => Some(Part { of, shape: leaf.shape() }),
                part => {
                    self.need_all(part);
                    None
                }
            },
            ExprKind::For { iter, builder, func } => {
                self.whole(builder);
                let element = match &mut **iter {
                    Iter::Vector(data) => self.step(data, |shape| match shape {
                        Shape::List => Some(Shape::Value),
                        Shape::Entries(leaf) => Some(Shape::Entry(leaf)),
                        _ => None,
                    }),
                    iter => {
                        iter.each_child_mut(&mut |child| self.whole(child));
                        None
                    }
                };
                if let Some(part) = element {
                    let (sym, ty) = &mut func.params[2];
                    self.parts.insert(*sym, part);
                    if let (true, Some(kept)) = (self.rewrites, self.kept(part.of)) {
                        *ty = shrunk(part.shape, ty, &kept);
                    }
                }
                self.whole(&mut func.body);
                None
            }
            _ => {
                e.each_child_mut(&mut |child| self.whole(child));
                None
            }
        }
    }

    /// What a part becomes; one for which there is no such step is needed whole.
    fn step(&mut self, e: &mut Expr, to: impl FnOnce(Shape) -> Option<Shape>) -> Option<Part> {
        let part = self.visit(e)?;
        let next = to(part.shape).map(|shape| Part { of: part.of, shape });
        if next.is_none() {
            self.need_all(part);
        }
        next
    }

    /// A look at a part that reads no field, if its shape is such.
    fn look(&mut self, e: &mut Expr, reads_none: impl FnOnce(Shape) -> bool) -> Option<Part> {
        self.step(e, |shape| reads_none(shape).then_some(shape));
        None
    }

    fn read(&mut self, of: usize, index: &mut u32) {
        if self.rewrites {
            let place = self.kept(of).and_then(|kept| kept.iter().position(|&i| i == *index as usize));
            *index = place.map_or(*index, |place| place as u32);
        } else if let Some(found) = &mut self.results[of] {
            found.read[*index as usize] = true;
        }
    }

    fn result(&mut self, builder: &mut Expr) -> Option<Part> {
        let of = self.next;
        self.next += 1;
        if !self.rewrites {
            self.results.push(None);
        }
        self.whole(builder);
        let (fields, shape) = held(&builder.ty)?;
        if self.rewrites {
            if let Some(kept) = self.kept(of) {
                let ty = Type::Builder(shrunk_builder(&builder.ty, &kept)?);
                Retype { ty, kept, names: self.names }.run(builder);
            }
        } else if is_closed(builder, &mut HashSet::new()) {
            self.results[of] = Some(Found { read: vec![false; fields.len()], whole: false });
        }
        self.results[of].is_some().then_some(Part { of, shape })
    }
}

fn keep<T: Clone>(all: &[T], kept: &[usize]) -> Vec<T> {
    kept.iter().map(|&i| all[i].clone()).collect()
}

/// The type without the fields that are dropped.
fn shrunk(shape: Shape, ty: &Type, kept: &[usize]) -> Type {
    match (shape, ty) {
        (Shape::Value, Type::Struct(fields)) => Type::structure(keep(fields, kept)),
        (Shape::List, Type::Vec(element)) => Type::vec(shrunk(Shape::Value, element, kept)),
        (Shape::Dict(leaf), Type::Dict(key, value)) => {
            Type::Dict(key.clone(), Arc::new(shrunk(leaf.shape(), value, kept)))
        }
        (Shape::Opt(leaf) | Shape::Entry(leaf), Type::Struct(fields)) => {
            Type::structure([fields[0].clone(), shrunk(leaf.shape(), &fields[1], kept)])
        }
        (Shape::Entries(leaf), Type::Vec(element)) => Type::vec(shrunk(Shape::Entry(leaf), element, kept)),
        _ => ty.clone(),
    }
}

fn shrunk_builder(ty: &Type, kept: &[usize]) -> Option<BuilderType> {
    let Type::Builder(builder) = ty else { return None };
    let value = |value: &Type| Arc::new(shrunk(Shape::Value, value, kept));
    let op = |op: &MergeOp| match op {
        MergeOp::All(op) => MergeOp::All(*op),
        MergeOp::Fields(ops) => MergeOp::Fields(keep(ops, kept).into()),
        MergeOp::Struct(op) => MergeOp::Struct(*op),
    };
    Some(match builder {
        BuilderType::Appender(element) => BuilderType::Appender(value(element)),
        BuilderType::Merger { value: v, op: o } => BuilderType::Merger { value: value(v), op: op(o) },
        BuilderType::DictMerger { key, value: v, op: o } => {
            BuilderType::DictMerger { key: key.clone(), value: value(v), op: op(o) }
        }
        BuilderType::GroupBuilder { key, value: v } => BuilderType::GroupBuilder { key: key.clone(), value: value(v) },
        BuilderType::Numberer { .. } | BuilderType::VecMerger { .. } => return None,
    })
}

/// Whether the builder is made, filled and passed on in this expression alone. `ours` are the variables that hold it.
fn is_closed(e: &Expr, ours: &mut HashSet<Sym>) -> bool {
    deep(|| match &e.kind {
        ExprKind::NewBuilder { .. } => true,
        ExprKind::Var(sym) => ours.contains(sym),
        ExprKind::Merge { builder, .. } => is_closed(builder, ours),
        ExprKind::If { on_true, on_false, .. } => is_closed(on_true, ours) && is_closed(on_false, ours),
        ExprKind::For { builder, func, .. } => {
            is_closed(builder, ours) && {
                ours.insert(func.params[0].0);
                is_closed(&func.body, ours)
            }
        }
        ExprKind::Let { bindings, body } => {
            // A builder that is made here may be another one.
            let passes_on = |value: &Expr, ours: &mut HashSet<Sym>| {
                matches!(root(value).kind, ExprKind::Var(sym) if ours.contains(&sym)) && is_closed(value, ours)
            };
            for Binding { sym, value } in bindings.iter().filter(|binding| holds_builder(&binding.value.ty)) {
                if !passes_on(value, ours) {
                    return false;
                }
                ours.insert(*sym);
            }
            is_closed(body, ours)
        }
        _ => false,
    })
}

/// Where a builder comes from.
fn root(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Merge { builder, .. } | ExprKind::For { builder, .. } => root(builder),
        ExprKind::If { on_true: inner, .. } | ExprKind::Let { body: inner, .. } => root(inner),
        _ => e,
    }
}

/// Gives a closed builder its new type.
struct Retype<'a> {
    ty: Type,
    kept: Vec<usize>,
    names: &'a mut Names,
}

impl Retype<'_> {
    fn run(&mut self, e: &mut Expr) {
        e.ty = self.ty.clone();
        deep(|| match &mut e.kind {
            ExprKind::NewBuilder { arg: Some(start) }
                if matches!(self.ty, Type::Builder(BuilderType::Merger { .. })) =>
            {
                self.drop_fields(start)
            }
            ExprKind::Merge { builder, value } => {
                self.run(builder);
                self.merged(value);
            }
            ExprKind::If { on_true, on_false, .. } => {
                self.run(on_true);
                self.run(on_false);
            }
            ExprKind::For { builder, func, .. } => {
                self.run(builder);
                func.params[0].1 = self.ty.clone();
                self.run(&mut func.body);
            }
            ExprKind::Let { bindings, body } => {
                for binding in bindings.iter_mut().filter(|binding| holds_builder(&binding.value.ty)) {
                    self.run(&mut binding.value);
                }
                self.run(body);
            }
            _ => {}
        })
    }

    /// What is merged: the value, with its key where there is one.
    fn merged(&mut self, value: &mut Expr) {
        if !matches!(&self.ty, Type::Builder(BuilderType::DictMerger { .. } | BuilderType::GroupBuilder { .. })) {
            return self.drop_fields(value);
        }
        if let ExprKind::Struct(fields) = &mut value.kind {
            self.drop_fields(&mut fields[1]);
            value.ty = Type::structure(fields.iter().map(|field| field.ty.clone()));
            return;
        }
        let kept = self.kept.clone();
        *value = build::let_(self.names, "entry", value.take(), |_, entry| {
            let fields = kept.iter().map(|&i| build::field(build::field(entry.clone(), 1), i)).collect::<Vec<_>>();
            build::strct([build::field(entry.clone(), 0), build::strct(fields)])
        });
    }

    fn drop_fields(&mut self, value: &mut Expr) {
        if let ExprKind::Struct(fields) = &mut value.kind
            && (0..fields.len()).all(|i| self.kept.contains(&i) || can_drop(&fields[i]))
        {
            *fields = keep(fields, &self.kept);
            value.ty = Type::structure(fields.iter().map(|field| field.ty.clone()));
            return;
        }
        let kept = self.kept.clone();
        *value = build::let_(self.names, "all", value.take(), |_, all| {
            build::strct(kept.iter().map(|&i| build::field(all.clone(), i)).collect::<Vec<_>>())
        });
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::testing::{self, check_each_pass};

    fn check(before: &str, after: Expect) {
        testing::check(super::run, before, &after);
    }

    #[test]
    fn values_of_dictionaries() {
        check(
            "|v: vec[{i64,i64}], k: i64|
             let d = result(for(v, dictmerger[i64,{i64,i64,i64},{+,min,max}], |b, i, x|
               if(x.$1 > 0L, merge(b, {x.$0, {x.$1, x.$1 * 2L, i}}), b)));
             let m = optlookup(d, k);
             {m.$0, m.$1.$2, keyexists(d, 3L), len(tovec(d)), sum(map(tovec(d), |e| e.$0 + e.$1.$0))}",
            expect![[r#"
                |v: vec[{i64,i64}], k: i64|
                  let d = result(for(
                    v,
                    dictmerger[i64,{i64,i64},{+,max}],
                    |b, i, x| if(x.$1 > 0L, merge(b, {x.$0, {x.$1, i}}), b)
                  ));
                  let m = optlookup(d, k);
                  {
                    m.$0,
                    m.$1.$1,
                    keyexists(d, 3L),
                    len(tovec(d)),
                    result(for(
                      result(for(tovec(d), appender[i64], |b_3, i_3, x_3| merge(b_3, x_3.$0 + x_3.$1.$0))),
                      merger[i64,+],
                      |b_2, i_2, x_2| merge(b_2, x_2)
                    ))
                  }
            "#]],
        );
    }

    #[test]
    fn values_of_groups_mergers_and_vectors() {
        check(
            "|v: vec[{i64,i64}]|
             let g = result(for(v, groupbuilder[i64,{i64,i64}], |b, i, x| merge(b, {x.$0, x})));
             let m = result(for(v, merger[{i64,i64},+]({1L, 2L}), |b, i, x| merge(b, x)));
             let rows = result(for(v, appender[{i64,i64}], |b, i, x| merge(b, {i, x.$1})));
             {sum(map(tovec(g), |e| sum(map(e.$1, |p| p.$1)))), m.$1, sum(map(rows, |r| r.$0)), len(rows)}",
            expect![[r#"
                |v: vec[{i64,i64}]|
                  let g = result(for(v, groupbuilder[i64,{i64}], |b, i, x| merge(b, {x.$0, let all = x; {all.$1}})));
                  let m = result(for(
                    v,
                    merger[{i64},+]({2L}),
                    |b_2, i_2, x_2| merge(b_2, let all_2 = x_2; {all_2.$1})
                  ));
                  let rows = result(for(v, appender[{i64}], |b_3, i_3, x_3| merge(b_3, {i_3})));
                  {
                    result(for(
                      result(for(
                        tovec(g),
                        appender[i64],
                        |b_5, i_5, x_5|
                          merge(
                            b_5,
                            result(for(
                              result(for(x_5.$1, appender[i64], |b_7, i_7, x_7| merge(b_7, x_7.$0))),
                              merger[i64,+],
                              |b_6, i_6, x_6| merge(b_6, x_6)
                            ))
                          )
                      )),
                      merger[i64,+],
                      |b_4, i_4, x_4| merge(b_4, x_4)
                    )),
                    m.$0,
                    result(for(
                      result(for(rows, appender[i64], |b_9, i_9, x_9| merge(b_9, x_9.$0))),
                      merger[i64,+],
                      |b_8, i_8, x_8| merge(b_8, x_8)
                    )),
                    len(rows)
                  }
            "#]],
        );
    }

    #[test]
    fn values_that_are_looked_up() {
        check(
            "|v: vec[{i64,f64}], k: i64|
             let d = result(for(v, dictmerger[i64,{f64,i64,f64},{+,+,max}], |b, i, x| merge(b, {x.$0, {x.$1, 1L, x.$1}})));
             let rows = result(for(v, appender[{i64,f64}], |b, i, x| merge(b, {x.$0, x.$1})));
             {lookup(d, k).$0 / f64(lookup(d, k).$1), lookup(rows, 0L).$1}",
            expect![[r#"
                |v: vec[{i64,f64}], k: i64|
                  let d = result(for(v, dictmerger[i64,{f64,i64},{+,+}], |b, i, x| merge(b, {x.$0, {x.$1, 1L}})));
                  let rows = result(for(v, appender[{f64}], |b_2, i_2, x_2| merge(b_2, {x_2.$1})));
                  {lookup(d, k).$0 / f64(lookup(d, k).$1), lookup(rows, 0L).$0}
            "#]],
        );
    }

    #[test]
    fn the_first_field_stays_where_none_is_read() {
        check(
            "|v: vec[i64]|
             let d = result(for(v, dictmerger[i64,{i64,f64},{+,min}], |b, i, x| merge(b, {x, {i, 1.0}})));
             let rows = result(for(v, appender[{i64,f64}], |b, i, x| if(x > 0L, merge(b, {x, 1.0}), b)));
             {len(tovec(d)), len(rows)}",
            expect![[r#"
                |v: vec[i64]|
                  let d = result(for(v, dictmerger[i64,{i64},{+}], |b, i, x| merge(b, {x, {i}})));
                  let rows = result(for(v, appender[{i64}], |b_2, i_2, x_2| if(x_2 > 0L, merge(b_2, {x_2}), b_2)));
                  {len(tovec(d)), len(rows)}
            "#]],
        );
    }

    #[test]
    fn builders_with_names() {
        check(
            "|v: vec[i64], c: bool|
             let r = result(for(v, merger[{i64,i64},+], |b, i, x| let f = merge(b, {i, x}); if(x > 9L, merge(f, {x, i}), f)));
             r.$1",
            expect![[r#"
                |v: vec[i64], c: bool|
                  let r = result(for(
                    v,
                    merger[{i64},+],
                    |b, i, x| let f = merge(b, {x}); if(x > 9L, merge(f, {i}), f)
                  ));
                  r.$0
            "#]],
        );
    }

    #[test]
    fn builders_of_a_struct_stay() {
        check(
            "|v: vec[i64]|
             let b = for(v, {appender[{i64,i64}], merger[i64,+]}, |b, i, x| {merge(b.$0, {i, x}), merge(b.$1, x)});
             {sum(map(result(b.$0), |r| r.$1)), result(b.$1)}",
            expect![[r#"
                |v: vec[i64]|
                  let b = for(
                    v,
                    {appender[{i64,i64}], merger[i64,+]},
                    |b_2, i, x| {merge(b_2.$0, {i, x}), merge(b_2.$1, x)}
                  );
                  {
                    result(for(
                      result(for(result(b.$0), appender[i64], |b_4, i_3, x_3| merge(b_4, x_3.$1))),
                      merger[i64,+],
                      |b_3, i_2, x_2| merge(b_3, x_2)
                    )),
                    result(b.$1)
                  }
            "#]],
        );
    }

    #[test]
    fn what_can_fail_is_evaluated() {
        check(
            "|v: vec[i64]|
             let d = result(for(v, dictmerger[i64,{i64,i64},+], |b, i, x| merge(b, {i % 3L, {10L / x, x}})));
             sum(map(tovec(d), |e| e.$1.$1))",
            expect![[r#"
                |v: vec[i64]|
                  let d = result(for(
                    v,
                    dictmerger[i64,{i64},+],
                    |b, i, x| merge(b, {i % 3L, let all = {10L / x, x}; {all.$1}})
                  ));
                  result(for(
                    result(for(tovec(d), appender[i64], |b_3, i_3, x_3| merge(b_3, x_3.$1.$0))),
                    merger[i64,+],
                    |b_2, i_2, x_2| merge(b_2, x_2)
                  ))
            "#]],
        );
    }

    #[test]
    fn not_what_is_used_whole() {
        check(
            "|v: vec[i64]|
             let d = result(for(v, dictmerger[i64,{i64,i64},+], |b, i, x| merge(b, {x, {i, x}})));
             let e = result(for(v, dictmerger[i64,{i64,i64},+], |b, i, x| merge(b, {x, {i, x}})));
             {tovec(d), if(keyexists(e, 1L), lookup(e, 1L), {0L, 0L}).$0}",
            expect![[r#"
                |v: vec[i64]|
                  let d = result(for(v, dictmerger[i64,{i64,i64},+], |b, i, x| merge(b, {x, {i, x}})));
                  let e = result(for(v, dictmerger[i64,{i64,i64},+], |b_2, i_2, x_2| merge(b_2, {x_2, {i_2, x_2}})));
                  {tovec(d), if(keyexists(e, 1L), lookup(e, 1L), {0L, 0L}).$0}
            "#]],
        );
    }

    #[test]
    fn with_all_other_passes() {
        check_each_pass(
            "|v: vec[{i64,i64}], w: vec[i64]|
             let d = for(v, {dictmerger[i64,{i64,i64},+], appender[{i64,i64,i64}]}, |b, i, x|
               {merge(b.$0, {x.$0, {x.$1, i}}), merge(b.$1, {i, x.$0, x.$1})});
             let t = result(d.$0);
             let r = result(d.$1);
             {map(w, |x| optlookup(t, x).$1.$1), map(r, |x| x.$2)}",
        );
        check_each_pass(
            "|v: vec[{i64,i64}], w: vec[i64]|
             let d = result(for(v, groupbuilder[{i64,i64},{i64,{i64,i64},i64}], |b, i, x|
               for(slice(w, 0L, 3L), b, |c, j, y| if(y > x.$0, merge(c, {{y, x.$1}, {i, {j, y}, x.$0}}), c))));
             let one = optlookup(d, {1L, 2L});
             {map(one.$1, |r| r.$1.$1), sum(map(tovec(d), |e| e.$0.$0 * sum(map(e.$1, |r| r.$2))))}",
        );
    }
}
