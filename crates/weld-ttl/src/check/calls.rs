//! Calls: the function exists, stands before, is not recursive, and gets what it takes.

use std::collections::HashSet;

use weld_core::diag::{Diagnostic, Span};

use super::Checker;
use super::stmt::wrong;
use crate::tree::{self, Name, Stmt, StmtKind};
use crate::typed::{Expr, ExprKind};
use crate::types::Type;

impl<'a> Checker<'a> {
    /// A call whose result, if there is one, nobody wants.
    pub(super) fn call_statement(&mut self, call: &'a tree::Expr<'a>) -> Expr {
        match &call.kind {
            tree::ExprKind::Call { name, args } => self.call(*name, args, call.span),
            _ => wrong(call.span),
        }
    }

    /// A call that is a value.
    pub(super) fn call_value(&mut self, name: Name<'a>, args: &'a [tree::Expr<'a>], span: Span) -> Expr {
        let call = self.call(name, args, span);
        if call.ty == Type::Void {
            let message = format!("`{}` returns void: its call is no value", name.text);
            self.report(Diagnostic::ty(span, message).with_hint("such a call is a statement of its own"));
            return wrong(span);
        }
        call
    }

    fn call(&mut self, name: Name<'a>, args: &'a [tree::Expr<'a>], span: Span) -> Expr {
        let args: Vec<Expr> = args.iter().map(|arg| self.expr(arg)).collect();
        if !self.names.contains_key(name.text)
            && let Some(function) = self.library.get(name.text)
        {
            return self.session_call(name, function.clone(), args, span);
        }
        let Some(function) = self.callee(name) else { return wrong(span) };
        let callee = &self.module.functions[function];
        if callee.params.len() != args.len() {
            let (wanted, found) = (callee.params.len(), args.len());
            let plural = if wanted == 1 { "argument" } else { "arguments" };
            let error = Diagnostic::ty(span, format!("`{}` takes {wanted} {plural}, found {found}", name.text));
            self.report(error.with_label(callee.name.span, "defined here"));
            return wrong(span);
        }
        let params = callee.params.iter().enumerate();
        let args = args.into_iter().zip(params).map(|(arg, (i, (ty, param)))| {
            let what = format!("argument {} of `{}`, `{}`", i + 1, name.text, param.text);
            self.converted(arg, &ty.ty, &what)
        });
        let args = args.collect();
        Expr { kind: ExprKind::Call { function, args }, ty: callee.result.ty.clone(), span }
    }

    /// The number of the function of that name, which stands before the one that is checked.
    fn callee(&mut self, name: Name<'a>) -> Option<usize> {
        let current = self.done.len();
        let caller = self.module.functions[current].name.text;
        let error = match self.names.get(name.text) {
            Some(found) if *found < current => return Some(*found),
            Some(found) if *found == current => {
                Diagnostic::ty(name.span, format!("the call of `{caller}` in itself is recursive"))
                    .with_hint("recursion is not supported: write a loop")
            }
            Some(found) if self.reaches(*found, current) => {
                let message = format!("the call of `{}` is recursive: it calls `{caller}` in turn", name.text);
                Diagnostic::ty(name.span, message).with_hint("recursion is not supported: write a loop")
            }
            Some(found) => {
                let place = self.module.functions[*found].name.span;
                Diagnostic::ty(name.span, format!("the function `{}` is called before its definition", name.text))
                    .with_label(place, "defined here")
                    .with_hint("functions are defined before they are used")
            }
            None => {
                let error = Diagnostic::ty(name.span, format!("the function `{}` is not defined", name.text));
                match self.here.scope.get(name.text).is_some_and(|known| !known.is_empty()) {
                    true => {
                        error.with_hint(format!("`{0}` is a variable; elements are read with `{0}{{i}}`", name.text))
                    }
                    false => error,
                }
            }
        };
        self.report(error);
        None
    }

    /// Whether a function calls another, directly or not.
    fn reaches(&self, from: usize, to: usize) -> bool {
        let (mut seen, mut open) = (HashSet::from([from]), vec![from]);
        while let Some(function) = open.pop() {
            let mut called = Vec::new();
            callees(&self.module.functions[function].body, &mut |name| called.extend(self.names.get(name).copied()));
            for callee in called {
                if callee == to {
                    return true;
                }
                if seen.insert(callee) {
                    open.push(callee);
                }
            }
        }
        false
    }
}

/// Calls `f` with the name of every function that the statements call.
fn callees(statements: &[Stmt<'_>], f: &mut dyn FnMut(&str)) {
    for stmt in statements {
        weld_core::ir::deep(|| match &stmt.kind {
            StmtKind::Var { init, .. } => init.iter().for_each(|e| called(e, f)),
            StmtKind::Assign { value, .. } | StmtKind::Call(value) | StmtKind::Return(value) => called(value, f),
            StmtKind::AssignElement { indices, value, .. } => indices.iter().chain([value]).for_each(|e| called(e, f)),
            StmtKind::For { range, step, body, .. } => {
                called(range, f);
                called(step, f);
                callees(std::slice::from_ref(body), f);
            }
            StmtKind::If { cond, on_true, on_false } => {
                called(cond, f);
                callees(std::slice::from_ref(on_true), f);
                on_false.iter().for_each(|branch| callees(std::slice::from_ref(branch), f));
            }
            StmtKind::Block(inner) => callees(inner, f),
        });
    }
}

fn called(e: &tree::Expr<'_>, f: &mut dyn FnMut(&str)) {
    weld_core::ir::deep(|| match &e.kind {
        tree::ExprKind::Int(_) | tree::ExprKind::Float(_) | tree::ExprKind::Name(_) => {}
        tree::ExprKind::Call { name, args } => {
            f(name.text);
            args.iter().for_each(|arg| called(arg, f));
        }
        tree::ExprKind::List(items) => items.iter().for_each(|item| called(item, f)),
        tree::ExprKind::Slice { data, indices } => {
            called(data, f);
            indices.iter().for_each(|index| called(index, f));
        }
        tree::ExprKind::Unary(_, a) => called(a, f),
        tree::ExprKind::Binary(_, a, b) => {
            called(a, f);
            called(b, f);
        }
    });
}
