//! Builders are linear: every path through a program uses each of them exactly once.
//!
//! ```text
//! let b = appender[i32]; {result(b), result(b)}    # `b` is used twice
//! if(c, result(merge(b, 1)), [0])                  # `b` is used on one path only
//! for(v, b, |b, i, x| appender[i32])               # the update does not return a builder derived from `b`
//! ```
//!
//! A struct of builders is tracked field by field: a type's builders are numbered in order (its leaves), a variable is
//! a range of them, and a use takes a sub-range. Where a value's builders come from is its origins, one for each leaf.

use std::collections::{HashMap, HashSet};

use super::{Expr, ExprKind, Func, Names, Program, Sym, deep, typing};
use crate::diag::{Diagnostic, Span};
use crate::op::BinaryOp;
use crate::ty::Type;

/// All breaches of linearity in a well-typed program. Every message names the variable if there is one.
pub fn check(program: &Program) -> Vec<Diagnostic> {
    let mut checker = Checker {
        names: &program.names,
        vars: HashMap::new(),
        log: Vec::new(),
        level: 0,
        reported: HashSet::new(),
        errors: Vec::new(),
    };
    for param in &program.params {
        if typing::holds_builder(&param.ty) {
            let name = program.names.name(param.sym);
            let message = format!("the parameter `{name}` cannot be a builder");
            checker.errors.push(Diagnostic::ty(program.body.span, message));
        }
    }
    checker.expr(&program.body);
    if typing::holds_builder(&program.body.ty) {
        let message = format!("a program cannot return a builder ({})", program.body.ty);
        checker.errors.push(
            Diagnostic::ty(program.body.span, message).with_hint("use `result(..)` to get the value that it built"),
        );
    }
    checker.errors
}

/// Where one builder of a value comes from.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    /// A leaf of a function's parameter.
    Param(Sym, usize),
    /// Made on the way, or by different ways on different paths.
    Other,
}

struct Var {
    span: Span,
    ty: Type,
    /// The loop depth that it was bound at.
    level: usize,
    origins: Vec<Origin>,
    /// Where each leaf was used.
    used: Vec<Option<Span>>,
}

struct Checker<'a> {
    names: &'a Names,
    /// The variables in scope that hold builders.
    vars: HashMap<Sym, Var>,
    /// The leaves used so far, to compare the branches of an `if`.
    log: Vec<(Sym, usize)>,
    level: usize,
    /// One complaint a variable is enough.
    reported: HashSet<Sym>,
    errors: Vec<Diagnostic>,
}

/// How many builders a type holds.
fn leaves(ty: &Type) -> usize {
    match ty {
        Type::Builder(_) => 1,
        Type::Struct(fields) => fields.iter().map(leaves).sum(),
        _ => 0,
    }
}

/// The first leaf of field `index`.
fn field_offset(ty: &Type, index: u32) -> usize {
    ty.fields().map_or(0, |fields| fields.iter().take(index as usize).map(leaves).sum())
}

/// A variable or a field path into one, with the path's first leaf.
fn place(expr: &Expr) -> Option<(Sym, usize)> {
    let mut offset = 0;
    let mut expr = expr;
    loop {
        match &expr.kind {
            ExprKind::Var(sym) => return Some((*sym, offset)),
            ExprKind::Field(inner, index) => {
                offset += field_offset(&inner.ty, *index);
                expr = inner;
            }
            _ => return None,
        }
    }
}

impl Checker<'_> {
    /// Checks an expression and tells where its builders come from.
    fn expr(&mut self, e: &Expr) -> Vec<Origin> {
        deep(|| self.expr_here(e))
    }

    fn expr_here(&mut self, e: &Expr) -> Vec<Origin> {
        match &e.kind {
            ExprKind::Var(_) | ExprKind::Field(..) => match place(e) {
                Some((sym, offset)) => self.take(sym, offset, leaves(&e.ty), e.span),
                None => self.field_of_value(e),
            },
            ExprKind::Let { bindings, body } => {
                for binding in bindings {
                    let origins = self.expr(&binding.value);
                    self.bind(binding.sym, &binding.value.ty, binding.value.span, origins);
                }
                let origins = self.expr(body);
                for binding in bindings.iter().rev() {
                    self.unbind(binding.sym);
                }
                origins
            }
            ExprKind::If { cond, on_true, on_false } => {
                self.expr(cond);
                self.branches(e.span, Some(on_true), on_false)
            }
            ExprKind::Binary(BinaryOp::And | BinaryOp::Or, left, right) => {
                self.expr(left);
                self.branches(e.span, None, right);
                Vec::new()
            }
            ExprKind::Struct(fields) => fields.iter().flat_map(|field| self.expr(field)).collect(),
            ExprKind::Merge { builder, value } => {
                let origins = self.expr(builder);
                self.expr(value);
                origins
            }
            ExprKind::For { iter, builder, func } => {
                iter.each_child(&mut |child| {
                    self.expr(child);
                });
                let origins = self.expr(builder);
                self.function(func, "the update of a `for`");
                origins
            }
            ExprKind::Iterate { init, step } => {
                let origins = self.expr(init);
                self.function(step, "the step of an `iterate`");
                origins
            }
            ExprKind::Sort { data, compare } => {
                self.expr(data);
                self.function(compare, "a comparator");
                Vec::new()
            }
            _ => {
                e.each_child(&mut |child| {
                    self.expr(child);
                });
                vec![Origin::Other; leaves(&e.ty)]
            }
        }
    }

    /// Uses some leaves of a variable.
    fn take(&mut self, sym: Sym, offset: usize, count: usize, span: Span) -> Vec<Origin> {
        if count == 0 {
            return Vec::new();
        }
        let Some(var) = self.vars.get_mut(&sym) else {
            return vec![Origin::Other; count];
        };
        let mut problem = None;
        if var.level < self.level {
            problem = Some(Diagnostic::ty(span, String::new()));
        }
        let taken = offset..(offset + count).min(var.used.len());
        for leaf in taken.clone() {
            match var.used[leaf] {
                Some(first) => {
                    let hint =
                        "a builder must be used exactly once on every path: use the one that the first use returns";
                    problem.get_or_insert_with(|| {
                        let name = path_name(self.names, sym, Some(&var.ty), leaf);
                        Diagnostic::ty(span, format!("the builder `{name}` is used more than once"))
                            .with_label(first, "first used here")
                            .with_hint(hint)
                    });
                }
                None => {
                    var.used[leaf] = Some(span);
                    self.log.push((sym, leaf));
                }
            }
        }
        let origins = var.origins[taken].to_vec();
        if let Some(mut problem) = problem {
            if problem.message.is_empty() {
                problem.message =
                    format!("the builder `{}` is used inside a function that may run many times", self.names.name(sym));
                problem = problem.with_hint("merge into the builder that is the function's parameter");
            }
            self.report(sym, problem);
        }
        origins
    }

    /// A field of a value that is no variable: its other fields are dropped.
    fn field_of_value(&mut self, e: &Expr) -> Vec<Origin> {
        let ExprKind::Field(inner, index) = &e.kind else {
            return Vec::new();
        };
        let origins = self.expr(inner);
        let (offset, count) = (field_offset(&inner.ty, *index), leaves(&e.ty));
        if count < origins.len() {
            let message = format!("`.${index}` drops the other builders of this struct");
            let hint = "bind the struct with `let` and use each of its builders once";
            self.errors.push(Diagnostic::ty(e.span, message).with_hint(hint));
        }
        origins.get(offset..offset + count).map_or_else(|| vec![Origin::Other; count], <[Origin]>::to_vec)
    }

    /// Two paths that must use the same builders; no first one means that nothing happens there.
    fn branches(&mut self, span: Span, first: Option<&Expr>, second: &Expr) -> Vec<Origin> {
        let mark = self.log.len();
        let a = first.map(|e| self.expr(e));
        let in_first = self.log.split_off(mark);
        let spans: Vec<Option<Span>> = in_first.iter().map(|place| self.release(place)).collect();
        let b = self.expr(second);
        let in_second: HashSet<(Sym, usize)> = self.log[mark..].iter().copied().collect();
        let first_set: HashSet<(Sym, usize)> = in_first.iter().copied().collect();
        let lopsided: Vec<(Sym, usize)> = in_first
            .iter()
            .chain(&self.log[mark..])
            .copied()
            .filter(|p| first_set.contains(p) != in_second.contains(p))
            .collect();
        for (place, span) in in_first.into_iter().zip(spans) {
            if !in_second.contains(&place)
                && let Some(var) = self.vars.get_mut(&place.0)
            {
                var.used[place.1] = span;
                self.log.push(place);
            }
        }
        for (sym, leaf) in lopsided {
            let Some(var) = self.vars.get(&sym) else {
                continue;
            };
            let place = self.place_name(sym, leaf);
            let message = format!("the builder `{place}` is used on one path only");
            let mut problem = Diagnostic::ty(var.used[leaf].unwrap_or(span), message);
            problem = problem
                .with_label(span, "not used on the other path through this")
                .with_hint("a path that merges nothing returns the builder itself: `if(cond, merge(b, x), b)`");
            self.report(sym, problem);
        }
        // What was bound inside the branches is of no interest outside.
        let tail = self.log.split_off(mark);
        self.log.extend(tail.into_iter().filter(|(sym, _)| self.vars.contains_key(sym)));
        match a {
            Some(a) if a.len() == b.len() => {
                a.into_iter().zip(b).map(|(a, b)| if a == b { a } else { Origin::Other }).collect()
            }
            _ => b,
        }
    }

    /// Forgets that a leaf was used.
    fn release(&mut self, place: &(Sym, usize)) -> Option<Span> {
        self.vars.get_mut(&place.0).and_then(|var| var.used[place.1].take())
    }

    /// A function that may run many times: it may not use builders from outside, and it must return those that came in.
    fn function(&mut self, func: &Func, what: &str) {
        self.level += 1;
        let mut wanted = Vec::new();
        for (sym, ty) in &func.params {
            let origins: Vec<Origin> = (0..leaves(ty)).map(|leaf| Origin::Param(*sym, leaf)).collect();
            wanted.extend_from_slice(&origins);
            self.bind(*sym, ty, func.body.span, origins);
        }
        let origins = self.expr(&func.body);
        for (sym, _) in &func.params {
            self.unbind(*sym);
        }
        self.level -= 1;
        if let Some((found, Origin::Param(sym, leaf))) =
            origins.iter().zip(&wanted).find(|(found, wanted)| found != wanted).map(|(f, w)| (*f, *w))
        {
            let param = path_name(self.names, sym, func.params.iter().find(|p| p.0 == sym).map(|p| &p.1), leaf);
            let message = match found {
                Origin::Param(other, leaf) => {
                    let ty = func.params.iter().find(|p| p.0 == other).map(|p| &p.1);
                    let other = path_name(self.names, other, ty, leaf);
                    format!("{what} returns the builder `{other}` in the place of `{param}`")
                }
                Origin::Other => format!("{what} must return a builder derived from `{param}`"),
            };
            let hint = "return the parameter itself or what `merge` and `for` make of it, on every path";
            self.report(sym, Diagnostic::ty(func.body.span, message).with_hint(hint));
        }
    }

    fn bind(&mut self, sym: Sym, ty: &Type, span: Span, origins: Vec<Origin>) {
        let count = leaves(ty);
        if count > 0 {
            let mut origins = origins;
            origins.resize(count, Origin::Other);
            let var = Var { span, ty: ty.clone(), level: self.level, origins, used: vec![None; count] };
            self.vars.insert(sym, var);
        }
    }

    fn unbind(&mut self, sym: Sym) {
        let Some(var) = self.vars.get(&sym) else {
            return;
        };
        if let Some(leaf) = var.used.iter().position(Option::is_none) {
            let place = self.place_name(sym, leaf);
            let problem = Diagnostic::ty(var.span, format!("the builder `{place}` is never used"))
                .with_hint("a builder must be used exactly once on every path");
            self.report(sym, problem);
        }
        self.vars.remove(&sym);
    }

    fn report(&mut self, sym: Sym, problem: Diagnostic) {
        if self.reported.insert(sym) {
            self.errors.push(problem);
        }
    }

    fn place_name(&self, sym: Sym, leaf: usize) -> String {
        path_name(self.names, sym, self.vars.get(&sym).map(|var| &var.ty), leaf)
    }
}

/// `b.$1.$0`: the path to a leaf.
fn path_name(names: &Names, sym: Sym, ty: Option<&Type>, leaf: usize) -> String {
    let mut name = names.name(sym).to_owned();
    let mut leaf = leaf;
    let mut ty = ty;
    while let Some(Type::Struct(fields)) = ty {
        ty = None;
        for (index, field) in fields.iter().enumerate() {
            if leaf < leaves(field) {
                name.push_str(&format!(".${index}"));
                ty = Some(field);
                break;
            }
            leaf -= leaves(field);
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::super::{Names, Program, build};
    use super::*;

    fn messages(make: impl FnOnce(&mut Names) -> Expr) -> Vec<String> {
        let mut names = Names::default();
        let body = make(&mut names);
        let errors = check(&Program { params: Vec::new(), body, names });
        errors.into_iter().map(|e| e.message).collect()
    }

    fn numbers() -> super::super::Iter {
        build::over(build::vector(Type::I64, [build::i64(1)]))
    }

    #[test]
    fn a_builder_is_used_once() {
        assert_eq!(
            messages(|names| build::let_(names, "b", build::appender(Type::I64), |_, b| {
                build::strct([build::result(b.clone()), build::result(b)])
            })),
            ["the builder `b` is used more than once"]
        );
        assert_eq!(
            messages(|names| build::let_(names, "b", build::appender(Type::I64), |_, _| build::i64(1))),
            ["the builder `b` is never used"]
        );
        assert_eq!(
            messages(|names| build::let_(names, "b", build::appender(Type::I64), |_, b| {
                let empty = build::vector(Type::I64, []);
                build::if_(build::bool(true), build::result(b), empty)
            })),
            ["the builder `b` is used on one path only"]
        );
    }

    #[test]
    fn an_update_returns_what_it_got() {
        let update = |f: fn(&mut Names, Expr, Expr) -> Expr| {
            messages(move |names| {
                let builder = build::strct([build::appender(Type::I64), build::appender(Type::I64)]);
                let built = build::for_(names, numbers(), builder, |names, b, _, x| f(names, b, x));
                build::let_(names, "built", built, |_, built| {
                    build::strct([build::result(build::field(built.clone(), 0)), build::result(build::field(built, 1))])
                })
            })
        };
        let nothing: [String; 0] = [];
        assert_eq!(
            update(|_, b, x| build::strct([build::merge(build::field(b.clone(), 0), x), build::field(b, 1)])),
            nothing
        );
        assert_eq!(
            update(|_, b, _| build::strct([build::field(b.clone(), 1), build::field(b, 0)])),
            ["the update of a `for` returns the builder `b.$1` in the place of `b.$0`"]
        );
        assert_eq!(
            update(|_, b, _| build::strct([build::field(b.clone(), 0), build::field(b, 0)])),
            ["the builder `b.$0` is used more than once"]
        );
        assert_eq!(
            update(|_, b, _| build::strct([build::field(b, 0), build::appender(Type::I64)])),
            ["the builder `b.$1` is never used"]
        );
        assert_eq!(
            update(|names, b, x| {
                let inner = build::for_(names, numbers(), build::appender(Type::I64), |_, c, _, y| {
                    build::merge(c, build::add(x.clone(), y))
                });
                build::let_(names, "ignored", build::result(inner), |_, _| b)
            }),
            nothing
        );
        assert_eq!(
            update(|names, b, _| {
                build::for_(
                    names,
                    numbers(),
                    build::strct([build::appender(Type::I64), build::field(b.clone(), 1)]),
                    |_, c, _, x| {
                        build::strct([build::merge(build::field(c.clone(), 0), x.clone()), build::field(b.clone(), 0)])
                    },
                )
            })
            .len(),
            2
        );
    }
}
