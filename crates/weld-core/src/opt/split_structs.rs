//! Splits let-bound structs into one variable a field.
//!
//! ```weld
//! |c: bool, x: i64| let s = if(c, {x * 2L, true}, {0L, false}); if(s.$1, s.$0, 1L)
//! =>
//! |c: bool, x: i64| let s0 = if(c, x * 2L, 0L); let s1 = if(c, true, false); if(s1, s0, 1L)
//! ```
//!
//! Laws: `let s = {a, b}; E` is `let s0 = a; let s1 = b; E[s.$0 := s0, s.$1 := s1, s := {s0, s1}]`;
//! `if(c, {a, b}, {x, y})` is `{if(c, a, x), if(c, b, y)}` with `c` evaluated once, and so for `select`. An arm may be
//! a variable or a field of one (its fields are taken) or a block of bindings that at most one field needs.
//!
//! Never worse: structs live in registers, so taking them apart and putting them together costs nothing; the condition
//! that is tested once a field is one test after compilation. Structs of builders stay whole: loops pass them on as
//! one.

use super::Config;
use super::facts::{can_drop, is_path};
use crate::ir::{Binding, Expr, ExprKind, Names, Program, Sym, build, deep};
use crate::ty::Type;

pub(super) fn run(program: &mut Program, _: &Config) {
    let mut splitter = Splitter { fields: vec![None; program.names.len()], names: &mut program.names };
    splitter.visit(&mut program.body);
}

struct Splitter<'a> {
    names: &'a mut Names,
    /// The fields of variables that were split.
    fields: Vec<Option<Vec<Expr>>>,
}

impl Splitter<'_> {
    fn visit(&mut self, e: &mut Expr) {
        deep(|| {
            if let ExprKind::Let { bindings, body } = &mut e.kind {
                let mut kept = Vec::new();
                for mut binding in std::mem::take(bindings) {
                    self.visit(&mut binding.value);
                    self.bind(binding, &mut kept);
                }
                self.visit(body);
                let body = body.take();
                *e = build::let_in(kept, body);
                return;
            }
            // A field alone: all of a struct of many fields would be made for each of them.
            if let ExprKind::Field(of, index) = &e.kind
                && let ExprKind::Var(sym) = of.kind
                && let Some(Some(fields)) = self.fields.get(sym.0 as usize)
                && let Some(field) = fields.get(*index as usize)
            {
                *e = field.clone();
                return;
            }
            e.each_child_mut(&mut |child| self.visit(child));
            match &mut e.kind {
                ExprKind::Var(sym) => {
                    if let Some(Some(fields)) = self.fields.get(sym.0 as usize) {
                        *e = build::strct(fields.iter().cloned());
                    }
                }
                ExprKind::Field(of, index) => {
                    if let Some(field) = field_of(of, *index as usize) {
                        *e = field;
                    }
                }
                _ => {}
            }
        })
    }

    /// Keeps a binding, split if it can be.
    fn bind(&mut self, mut binding: Binding, kept: &mut Vec<Binding>) {
        if is_split(&binding.value.ty)
            && let Some(parts) = self.split(&mut binding.value, kept)
        {
            let fields = parts.into_iter().map(|part| self.bind_part(binding.sym, part, kept)).collect();
            self.fields[binding.sym.0 as usize] = Some(fields);
        } else {
            kept.push(binding);
        }
    }

    /// A new variable for a part of `of`, itself split when it is a struct.
    fn bind_part(&mut self, of: Sym, mut part: Expr, kept: &mut Vec<Binding>) -> Expr {
        if is_split(&part.ty)
            && let Some(parts) = self.split(&mut part, kept)
        {
            return build::strct(parts.into_iter().map(|part| self.bind_part(of, part, kept)).collect::<Vec<_>>());
        }
        let sym = self.names.fresh_like(of);
        let variable = build::var(sym, part.ty.clone());
        kept.push(Binding { sym, value: part });
        variable
    }

    /// The fields of a value that is made of struct literals; conditions are bound in `kept`.
    fn split(&mut self, value: &mut Expr, kept: &mut Vec<Binding>) -> Option<Vec<Expr>> {
        match &mut value.kind {
            ExprKind::Struct(fields) => Some(std::mem::take(fields)),
            ExprKind::If { cond, on_true, on_false } => {
                let (t, f) = arms(on_true, on_false)?;
                let cond = self.bind_cond(cond.take(), kept);
                Some(t.into_iter().zip(f).map(|(t, f)| build::if_(cond.clone(), t, f)).collect())
            }
            ExprKind::Select { cond, on_true, on_false } if cond.ty == Type::BOOL => {
                let (t, f) = arms(on_true, on_false)?;
                let cond = self.bind_cond(cond.take(), kept);
                Some(t.into_iter().zip(f).map(|(t, f)| build::select(cond.clone(), t, f)).collect())
            }
            ExprKind::Let { bindings, body } => {
                // Blocks in strict places were floated out; one that remains is the value itself.
                kept.append(bindings);
                let mut body = body.take();
                let parts = self.split(&mut body, kept);
                if parts.is_none() {
                    *value = body;
                }
                parts
            }
            _ => None,
        }
    }

    fn bind_cond(&mut self, cond: Expr, kept: &mut Vec<Binding>) -> Expr {
        if matches!(cond.kind, ExprKind::Literal(_)) || is_path(&cond) {
            return cond;
        }
        let sym = self.names.fresh("c");
        kept.push(Binding { sym, value: cond });
        build::var(sym, Type::BOOL)
    }
}

/// Structs with fields, none of them a builder.
fn is_split(ty: &Type) -> bool {
    fn holds_builder(ty: &Type) -> bool {
        match ty {
            Type::Builder(_) => true,
            Type::Struct(fields) => fields.iter().any(holds_builder),
            _ => false,
        }
    }
    matches!(ty, Type::Struct(fields) if !fields.is_empty()) && !holds_builder(ty)
}

/// The fields of both arms of a condition, if both have them and one at least is made of literals.
fn arms(on_true: &mut Expr, on_false: &mut Expr) -> Option<(Vec<Expr>, Vec<Expr>)> {
    if is_path(on_true) && is_path(on_false) || !has_fields(on_true) || !has_fields(on_false) {
        return None;
    }
    Some((take_fields(on_true), take_fields(on_false)))
}

/// Whether [`take_fields`] can take the fields of the expression without evaluating anything more or less often.
fn has_fields(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Struct(_) => true,
        ExprKind::Let { bindings, body } => match &body.kind {
            ExprKind::Struct(fields) => {
                let users = fields.iter().filter(|f| bindings.iter().any(|b| f.uses(b.sym))).count();
                users == 1 || users == 0 && bindings.iter().all(|b| can_drop(&b.value))
            }
            _ => false,
        },
        // The inner condition is tested once a field: only where that is free.
        ExprKind::If { cond, on_true, on_false } => {
            (is_path(cond) || matches!(cond.kind, ExprKind::Literal(_))) && has_fields(on_true) && has_fields(on_false)
        }
        _ => is_path(e),
    }
}

fn take_fields(e: &mut Expr) -> Vec<Expr> {
    match &mut e.kind {
        ExprKind::Struct(fields) => std::mem::take(fields),
        ExprKind::Let { bindings, body } => {
            let ExprKind::Struct(fields) = &mut body.kind else { return Vec::new() };
            let mut bindings = Some(std::mem::take(bindings));
            let uses = |f: &Expr, bs: &[Binding]| bs.iter().any(|b| f.uses(b.sym));
            let take = |f: Expr| {
                if bindings.as_ref().is_some_and(|bs| uses(&f, bs)) {
                    build::let_in(bindings.take().unwrap_or_default(), f)
                } else {
                    f
                }
            };
            std::mem::take(fields).into_iter().map(take).collect()
        }
        ExprKind::If { cond, on_true, on_false } => {
            let (t, f) = (take_fields(on_true), take_fields(on_false));
            t.into_iter().zip(f).map(|(t, f)| build::if_((**cond).clone(), t, f)).collect()
        }
        _ => {
            let count = e.ty.fields().map_or(0, <[Type]>::len);
            (0..count).map(|k| build::field(e.clone(), k)).collect()
        }
    }
}

/// A field of a struct literal or of a condition between such, when the fields that go cannot fail.
fn field_of(of: &mut Expr, index: usize) -> Option<Expr> {
    let droppable = |fields: &[Expr]| !fields.iter().enumerate().any(|(k, f)| k != index && !can_drop(f));
    match &mut of.kind {
        ExprKind::Struct(fields) if droppable(fields) => fields.get_mut(index).map(Expr::take),
        ExprKind::If { cond, on_true, on_false } => {
            let (ExprKind::Struct(t), ExprKind::Struct(f)) = (&mut on_true.kind, &mut on_false.kind) else {
                return None;
            };
            if !droppable(t) || !droppable(f) {
                return None;
            }
            Some(build::if_(cond.take(), t.get_mut(index)?.take(), f.get_mut(index)?.take()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::inline_lets;

    fn check(before: &str, after: Expect) {
        super::super::testing::check_after(&[super::run, inline_lets::run], before, &after);
    }

    #[test]
    fn literals() {
        check(
            "|x: i64| let s = {x * x, {x + 1L, 3L}}; s.$0 + s.$1.$0 * s.$1.$0",
            expect![[r#"
            |x: i64|
              let s = x + 1L;
              x * x + s * s
        "#]],
        );
    }

    #[test]
    fn whole_uses_are_rebuilt() {
        check(
            "|x: i64| let s = {x * x, x}; {s, s.$0}",
            expect![[r#"
            |x: i64|
              let s = x * x;
              {{s, x}, s}
        "#]],
        );
    }

    #[test]
    fn conditions() {
        check(
            "|c: i64, x: i64| let s = if(c > 0L, {x * x, true}, {0L, false}); if(s.$1, s.$0, 1L)",
            expect![[r#"
            |c: i64, x: i64|
              let c_2 = c > 0L;
              if(if(c_2, true, false), if(c_2, x * x, 0L), 1L)
        "#]],
        );
        check(
            "|c: bool, r: {i64,i64}| let s = if(c, r, {0L, 0L}); s.$0 * s.$0 + s.$1",
            expect![[r#"
            |c: bool, r: {i64,i64}|
              let s = if(c, r.$0, 0L);
              s * s + if(c, r.$1, 0L)
        "#]],
        );
    }

    #[test]
    fn a_field_that_may_fail_is_evaluated_still() {
        check(
            "|x: i64| let s = {1L / x, x}; s.$1",
            expect![[r#"
            |x: i64|
              let s = 1L / x;
              x
        "#]],
        );
        check(
            "|x: i64| {1L / x, x}.$1",
            expect![[r#"
            |x: i64|
              {1L / x, x}.$1
        "#]],
        );
    }

    #[test]
    fn structs_of_builders_stay() {
        check(
            "|v: vec[i64]| let bs = for(v, {merger[i64,+], merger[i64,max]}, |b, i, x| {merge(b.$0, x), merge(b.$1, x)});
             {result(bs.$0), result(bs.$1)}",
            expect![[r#"
                |v: vec[i64]|
                  let bs = for(v, {merger[i64,+], merger[i64,max]}, |b, i, x| {merge(b.$0, x), merge(b.$1, x)});
                  {result(bs.$0), result(bs.$1)}
            "#]],
        );
    }
}
