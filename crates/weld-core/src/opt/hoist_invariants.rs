//! Moves what is the same in every iteration out of loops.
//!
//! ```weld
//! |v: vec[f64], m: f64| result(for(v, appender[f64], |b, i, x| merge(b, x * sqrt(m))))
//! =>
//! |v: vec[f64], m: f64| let h = sqrt(m); result(for(v, appender[f64], |b, i, x| merge(b, x * h)))
//! ```
//!
//! Law: an expression over variables from outside a loop has one value in all iterations. It moves in front of the
//! outermost loop that binds none of its variables, if it cannot fail (the loop may run no iteration) and, where only a
//! branch evaluates it, if it is no more than [`BRANCH_MAX`] operations.
//!
//! Never worse but for loops of no iterations. Single simple operations stay: they cost as much as keeping the value.

use super::Config;
use super::facts::{can_fail, cost, has_function, strict_children};
use crate::ir::typing::holds_builder;
use crate::ir::{Binding, Expr, ExprKind, Names, Program, Sym, build, deep};

/// What costs less than this stays.
const COST_MIN: u32 = 2;
/// What a branch may not need is hoisted up to this cost.
const BRANCH_MAX: u32 = 50;

pub(super) fn run(program: &mut Program, _: &Config) {
    let mut hoister =
        Hoister { scopes: vec![0; program.names.len()], names: &mut program.names, frames: vec![Vec::new()] };
    hoister.visit(&mut program.body, false);
}

struct Hoister<'a> {
    names: &'a mut Names,
    /// By symbol: which functions its value depends on, a bit each, by their depth.
    scopes: Vec<u64>,
    /// By function around the walk: what goes in front of its loop.
    frames: Vec<Vec<Binding>>,
}

impl Hoister<'_> {
    fn depth(&self) -> usize {
        self.frames.len() - 1
    }

    fn set_scope(&mut self, sym: Sym, scope: u64) {
        let index = sym.0 as usize;
        if index >= self.scopes.len() {
            self.scopes.resize(index + 1, 0);
        }
        self.scopes[index] = scope;
    }

    /// Walks an expression and returns the functions around it that it depends on. `branch`: it may not be evaluated
    /// in each iteration.
    fn visit(&mut self, e: &mut Expr, branch: bool) -> u64 {
        deep(|| {
            if let ExprKind::Var(sym) = e.kind {
                return self.scopes[sym.0 as usize];
            }
            if let ExprKind::Let { bindings, body } = &mut e.kind {
                let (bindings, mut body) = (std::mem::take(bindings), body.take());
                let mut scope = 0;
                let mut kept = Vec::new();
                for mut binding in bindings {
                    let of_value = self.visit(&mut binding.value, branch);
                    let moves = of_value & bit(self.depth()) == 0 && self.depth() > 0;
                    if moves && may_move(&binding.value, of_value, branch) {
                        self.move_out(binding, of_value);
                    } else {
                        // What uses the variable stays where the variable is.
                        self.set_scope(binding.sym, of_value | bit(self.depth()));
                        kept.push(binding);
                    }
                    scope |= of_value;
                }
                scope |= self.visit(&mut body, branch);
                if body.annotations.is_empty() {
                    body.annotations = std::mem::take(&mut e.annotations);
                }
                *e = build::let_in(kept, body);
                return scope;
            }
            let (strict, function) = (strict_children(e), has_function(e));
            if let ExprKind::For { func, .. }
            | ExprKind::Sort { compare: func, .. }
            | ExprKind::Iterate { step: func, .. } = &e.kind
            {
                let inner = bit(self.depth() + 1);
                func.params.iter().for_each(|(sym, _)| self.set_scope(*sym, inner));
            }
            let mut scopes = Vec::new();
            let mut hoisted = Vec::new();
            for (index, child) in e.children_mut().into_iter().enumerate() {
                if index >= strict && function {
                    self.frames.push(Vec::new());
                    let scope = self.visit(child, false);
                    scopes.push(if self.depth() < 64 { scope & !bit(self.depth()) } else { scope });
                    hoisted = self.frames.pop().unwrap_or_default();
                } else {
                    scopes.push(self.visit(child, branch || index >= strict));
                }
            }
            let scope = scopes.iter().fold(0, |all, one| all | one);
            if scope & bit(self.depth()) != 0 {
                for (index, (child, of_child)) in e.children_mut().into_iter().zip(scopes).enumerate() {
                    if of_child & bit(self.depth()) == 0 && !(function && index >= strict) {
                        self.hoist(child, of_child, branch || index >= strict);
                    }
                }
            }
            if !hoisted.is_empty() {
                let inner = e.take();
                *e = build::let_in(hoisted, inner);
            }
            scope
        })
    }

    /// Puts a part of the current function in front of the outermost loop that it does not depend on.
    fn hoist(&mut self, e: &mut Expr, scope: u64, branch: bool) {
        if cost(e) < COST_MIN || !may_move(e, scope, branch) {
            return;
        }
        let sym = self.names.fresh("h");
        let variable = build::var(sym, e.ty.clone());
        self.move_out(Binding { sym, value: std::mem::replace(e, variable) }, scope);
    }

    fn move_out(&mut self, binding: Binding, scope: u64) {
        self.set_scope(binding.sym, scope);
        let innermost = (u64::BITS - scope.leading_zeros()) as usize;
        self.frames[innermost + 1].push(binding);
    }
}

fn may_move(e: &Expr, scope: u64, branch: bool) -> bool {
    let wasteful = branch && cost(e) > BRANCH_MAX;
    scope & bit(64) == 0 && !wasteful && !holds_builder(&e.ty) && !can_fail(e)
}

/// The bit of the function at this depth; none for the program itself. Very deep functions share the
/// last bit, and nothing that depends on one of these moves.
fn bit(depth: usize) -> u64 {
    match depth {
        0 => 0,
        depth => 1 << (depth - 1).min(63),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    fn check(before: &str, after: Expect) {
        super::super::testing::check(super::run, before, &after);
    }

    #[test]
    fn out_of_one_loop() {
        check(
            "|v: vec[f64], m: f64| result(for(v, appender[f64], |b, i, x| merge(b, x * sqrt(m))))",
            expect![[r#"
            |v: vec[f64], m: f64|
              result(let h = sqrt(m); for(v, appender[f64], |b, i, x| merge(b, x * h)))
        "#]],
        );
    }

    #[test]
    fn out_of_two_loops() {
        check(
            "|v: vec[vec[i64]], m: i64| result(for(v, merger[i64,+], |b, i, x|
               for(x, b, |b2, j, y| merge(b2, y * (m * m + 1L) + len(x) * len(x) * 3L))))",
            expect![[r#"
                |v: vec[vec[i64]], m: i64|
                  result(let h = m * m + 1L;
                  for(
                    v,
                    merger[i64,+],
                    |b, i, x| let h_2 = len(x) * len(x) * 3L; for(x, b, |b2, j, y| merge(b2, y * h + h_2))
                  ))
            "#]],
        );
    }

    #[test]
    fn constant_lists() {
        use crate::interp::{Value, serialize::serialize};
        use crate::ir::{ExprKind, Names, Param, Program, build};
        use crate::ty::Type;
        let list = Type::vec(Type::I64);
        let bytes = serialize(&Value::vec([1, 2].map(Value::i64)), &list).expect("numbers");
        let constant = build::node(ExprKind::Bytes(bytes.into()), Type::vec(Type::I8));
        let mut names = Names::default();
        let sym = names.fresh("v");
        let body = build::for_(
            &mut names,
            build::over(build::var(sym, list.clone())),
            build::appender(Type::I64),
            |_, b, _, x| build::merge(b, build::add(x, build::len(build::deserialize(list.clone(), constant)))),
        );
        let params = vec![Param { sym, ty: list.clone(), stream: false, known: None }];
        let mut program = Program { params, body: build::result(body), names };
        super::run(&mut program, &Default::default());
        let text = program.to_string();
        assert!(text.find("deserialize") < text.find("for("), "{text}");
    }

    #[test]
    fn what_may_fail_stays() {
        check(
            "|v: vec[i64], m: i64| result(for(v, appender[i64], |b, i, x| merge(b, x + (7L / m + 1L))))",
            expect![[r#"
                |v: vec[i64], m: i64|
                  result(for(v, appender[i64], |b, i, x| merge(b, x + (7L / m + 1L))))
            "#]],
        );
    }

    #[test]
    fn a_dear_branch_stays() {
        check(
            "|v: vec[i64], d: dict[i64,i64], m: i64| result(for(v, appender[i64], |b, i, x|
               if(x > 0L, merge(b, optlookup(d, m * m).$1 * 2L), b)))",
            expect![[r#"
                |v: vec[i64], d: dict[i64,i64], m: i64|
                  result(for(v, appender[i64], |b, i, x| if(x > 0L, merge(b, optlookup(d, m * m).$1 * 2L), b)))
            "#]],
        );
    }

    #[test]
    fn cheap_operations_stay_and_cheap_branches_move() {
        check(
            "|v: vec[i64], m: i64| result(for(v, appender[i64], |b, i, x|
               let k = m * m + 7L; if(x > m + 1L, merge(b, x + (m * 3L - 2L)), merge(b, k))))",
            expect![[r#"
                |v: vec[i64], m: i64|
                  result(let k = m * m + 7L;
                  let h = m * 3L - 2L;
                  for(v, appender[i64], |b, i, x| if(x > m + 1L, merge(b, x + h), merge(b, k))))
            "#]],
        );
    }

    #[test]
    fn other_functions_than_those_of_loops() {
        check(
            "|v: vec[i64], m: i64| {sort(v, |a, b| compare(a * (m * m + 1L), b)),
               iterate(0L, |s| {s + m * m * 2L, s < 100L})}",
            expect![[r#"
                |v: vec[i64], m: i64|
                  {
                    let h = m * m + 1L;
                    sort(v, |a, b| let a_2 = a * h; let b_2 = b; if(a_2 > b_2, 1, if(a_2 < b_2, -1, 0))),
                    let h_2 = m * m * 2L; iterate(0L, |s| {s + h_2, s < 100L})
                  }
            "#]],
        );
    }
}
