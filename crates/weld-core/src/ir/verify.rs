//! Checks a program against the invariants of the IR. Runs after every pass in tests.
//!
//! - every symbol is known to the program's names, bound once, and used only in its scope, with its type;
//! - every node's type is what the typing rules say ([`super::typing`]);
//! - a `Let` has at least one binding and its body is no `Let`;
//! - builders are linear ([`super::linear`]);
//! - parameters and result can be passed: no builders, no SIMD values; a stream is a vector.

use std::collections::{HashMap, HashSet};

use super::{Expr, ExprKind, Program, Sym, deep, linear, typing};
use crate::diag::Diagnostic;
use crate::ty::Type;

/// All breaches, or nothing.
pub fn verify(program: &Program) -> Result<(), Vec<Diagnostic>> {
    let mut verifier = Verifier { program, scope: HashMap::new(), bound: HashSet::new(), errors: Vec::new() };
    for param in &program.params {
        verifier.bind(&program.body, param.sym, &param.ty);
        let name = program.names.name(param.sym);
        if param.stream && param.ty.element().is_none() {
            verifier.error(&program.body, format!("the stream `{name}` is no vector but {}", param.ty));
        }
        if !typing::is_storable(&param.ty) {
            verifier.error(&program.body, format!("the parameter `{name}` cannot be {}", param.ty));
        }
    }
    verifier.expr(&program.body);
    if !typing::is_storable(&program.body.ty) && !typing::holds_builder(&program.body.ty) {
        verifier.error(&program.body, format!("a program cannot return {}", program.body.ty));
    }
    if verifier.errors.is_empty() {
        verifier.errors = linear::check(program);
    }
    if verifier.errors.is_empty() { Ok(()) } else { Err(verifier.errors) }
}

struct Verifier<'a> {
    program: &'a Program,
    scope: HashMap<Sym, Type>,
    bound: HashSet<Sym>,
    errors: Vec<Diagnostic>,
}

impl Verifier<'_> {
    fn error(&mut self, at: &Expr, message: String) {
        self.errors.push(Diagnostic::ty(at.span, message));
    }

    fn bind(&mut self, at: &Expr, sym: Sym, ty: &Type) {
        if sym.0 as usize >= self.program.names.len() {
            return self.error(at, format!("the symbol {} has no name", sym.0));
        }
        if !self.bound.insert(sym) {
            self.error(at, format!("`{}` (symbol {}) is bound twice", self.program.names.name(sym), sym.0));
        }
        self.scope.insert(sym, ty.clone());
    }

    fn expr(&mut self, e: &Expr) {
        deep(|| self.expr_here(e))
    }

    fn expr_here(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Var(sym) => match self.scope.get(sym) {
                None if (sym.0 as usize) < self.program.names.len() => {
                    let name = self.program.names.name(*sym);
                    self.error(e, format!("`{name}` (symbol {}) is not in scope", sym.0));
                }
                None => self.error(e, format!("the symbol {} has no name", sym.0)),
                Some(ty) if *ty != e.ty => {
                    let name = self.program.names.name(*sym);
                    let message = format!("`{name}` (symbol {}) is {ty}, used as {}", sym.0, e.ty);
                    self.error(e, message);
                }
                Some(_) => {}
            },
            ExprKind::Let { bindings, body } => {
                if bindings.is_empty() || matches!(body.kind, ExprKind::Let { .. }) {
                    self.error(e, "a `let` block is not in normal form".into());
                }
                for binding in bindings {
                    self.expr(&binding.value);
                    self.bind(e, binding.sym, &binding.value.ty);
                }
                self.expr(body);
            }
            ExprKind::Sort { compare: func, .. }
            | ExprKind::Iterate { step: func, .. }
            | ExprKind::For { func, .. } => {
                let outside = self.scope.len();
                // The body is the last child: what comes before does not see the parameters.
                let children = e.children();
                let (body, before) = children.split_last().unwrap_or_else(|| unreachable!("a function has a body"));
                before.iter().for_each(|child| self.expr(child));
                func.params.iter().for_each(|(sym, ty)| self.bind(e, *sym, ty));
                self.expr(body);
                debug_assert!(self.scope.len() >= outside);
            }
            _ => e.each_child(&mut |child| self.expr(child)),
        }
        e.each_bound(&mut |sym| {
            self.scope.remove(&sym);
        });
        match typing::type_of(&e.kind, &e.ty) {
            Ok(ty) if ty == e.ty => {}
            Ok(ty) => self.error(e, format!("a node has the type {}, its parts give {ty}", e.ty)),
            Err(message) => self.error(e, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Names, build};
    use super::*;

    fn errors(body: Expr, names: Names) -> Vec<String> {
        let program = Program { params: Vec::new(), body, names };
        verify(&program).err().unwrap_or_default().into_iter().map(|e| e.message).collect()
    }

    #[test]
    fn types_agree() {
        let mixed = build::add(build::i64(1), build::i32(1));
        assert_eq!(errors(mixed, Names::default()), ["`+` needs two operands of one type, not i64 and i32"]);
        let mut wrong = build::add(build::i64(1), build::i64(1));
        wrong.ty = Type::I32;
        assert_eq!(errors(wrong, Names::default()), ["a node has the type i32, its parts give i64"]);
    }

    #[test]
    fn symbols_are_bound_once_and_in_scope() {
        let mut names = Names::default();
        let x = names.fresh("x");
        assert_eq!(errors(build::var(x, Type::I64), names), ["`x` (symbol 0) is not in scope"]);
        let mut names = Names::default();
        let inner = build::let_(&mut names, "x", build::i64(1), |_, x| x);
        let twice = build::add(inner.clone(), inner);
        assert_eq!(errors(twice, names), ["`x` (symbol 0) is bound twice"]);
    }

    #[test]
    fn copies_and_substitutions_keep_symbols_apart() {
        let mut names = Names::default();
        let hole = names.fresh("hole");
        let inner = build::let_(&mut names, "x", build::i64(1), |_, x| x);
        let mut twice = build::add(build::var(hole, Type::I64), build::var(hole, Type::I64));
        assert!(twice.free_vars().contains(&hole));
        twice.substitute(hole, inner.clone(), &mut names);
        let copy = inner.fresh_copy(&mut names);
        assert!(copy.same_as(&inner));
        let all = build::add(build::mul(twice, copy), build::i64(0));
        assert!(all.free_vars().is_empty());
        assert!(errors(all, names).is_empty());
    }
}
