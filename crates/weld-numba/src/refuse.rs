//! What the language does not have, found wherever it stands, so that all of it is told at once.

use weld_core::diag::Diagnostic;
use weld_core::ir::deep;
use weld_pysyntax::{self as py, ExprKind, Stmt, StmtKind};

use crate::names::each_part;

/// All statements and expressions that are refused by name.
pub(crate) fn unsupported(stmts: &[Stmt]) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    // Outside of functions a jump is refused as any statement.
    block(stmts, true, &mut errors);
    errors
}

fn block(stmts: &[Stmt], in_loop: bool, errors: &mut Vec<Diagnostic>) {
    stmts.iter().for_each(|stmt| deep(|| statement(stmt, in_loop, errors)));
}

fn statement(stmt: &Stmt, in_loop: bool, errors: &mut Vec<Diagnostic>) {
    let mut refuse = |what: String| errors.push(Diagnostic::ty(stmt.span, format!("unsupported: {what}")));
    match &stmt.kind {
        StmtKind::Import(names) => {
            let names: Vec<&str> = names.iter().map(|alias| &*alias.name.name).collect();
            refuse(format!("import {}", names.join(", ")));
        }
        StmtKind::ImportFrom { module, .. } => {
            refuse(format!("import from {}", module.as_ref().map_or(".", |module| &module.name)));
        }
        StmtKind::Unsupported(what) => refuse((*what).to_owned()),
        StmtKind::With { .. } => refuse("with".into()),
        StmtKind::Function(function) => block(&function.body, false, errors),
        StmtKind::Class(class) => block(&class.body, in_loop, errors),
        StmtKind::Return(value) => value.iter().for_each(|e| expr(e, errors)),
        StmtKind::Assign { targets, value } => targets.iter().chain([value]).for_each(|e| expr(e, errors)),
        StmtKind::Augment { target, value, .. } => [target, value].into_iter().for_each(|e| expr(e, errors)),
        StmtKind::Annotate { target, value, .. } => [target].into_iter().chain(value).for_each(|e| expr(e, errors)),
        StmtKind::For { target, iter, body, orelse } => {
            expr(target, errors);
            expr(iter, errors);
            block(body, true, errors);
            block(orelse, in_loop, errors);
        }
        StmtKind::While { test, body, orelse } => {
            expr(test, errors);
            block(body, true, errors);
            block(orelse, in_loop, errors);
        }
        StmtKind::If { branches, orelse } => {
            for branch in branches {
                expr(&branch.test, errors);
                block(&branch.body, in_loop, errors);
            }
            block(orelse, in_loop, errors);
        }
        StmtKind::Raise { exception, cause } => {
            if let Some(cause) = cause {
                errors.push(Diagnostic::ty(cause.span, "unsupported: raise .. from"));
            }
            exception.iter().for_each(|e| expr(e, errors));
        }
        StmtKind::Try { body, handlers, orelse, finally } => {
            [body, orelse, finally].into_iter().for_each(|part| block(part, in_loop, errors));
            handlers.iter().for_each(|handler| block(&handler.body, in_loop, errors));
        }
        StmtKind::Assert { test, message } => [test].into_iter().chain(message).for_each(|e| expr(e, errors)),
        StmtKind::Expr(e) => expr(e, errors),
        // Also where the run never comes.
        StmtKind::Break | StmtKind::Continue if !in_loop => {
            errors.push(Diagnostic::ty(stmt.span, format!("`{}` outside of a loop", stmt.kind.described())));
        }
        StmtKind::Pass | StmtKind::Break | StmtKind::Continue => {}
    }
}

fn expr(e: &py::Expr, errors: &mut Vec<Diagnostic>) {
    let what = match &e.kind {
        ExprKind::Unsupported(what) => Some(*what),
        ExprKind::Set(_) | ExprKind::Dict(_) | ExprKind::Starred(_) => Some(e.described()),
        _ => None,
    };
    match what {
        Some(what) => errors.push(Diagnostic::ty(e.span, format!("unsupported: {what}"))),
        None => each_part(e, &mut |part| deep(|| expr(part, errors))),
    }
}
