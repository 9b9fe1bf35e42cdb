//! How large a program gets when calls are inlined, before that is done.

use weld_core::diag::Diagnostic;

use crate::typed::{Expr, ExprKind, Function, Index, Module, Stmt};

/// About how many nodes of the IR an operation becomes.
const SCALAR: u64 = 4;
const MATRIX: u64 = 12;

/// The error of a function that becomes larger than `limit` nodes.
pub(crate) fn too_large(module: &Module, entry: usize, limit: usize) -> Option<Diagnostic> {
    let mut costs: Vec<u64> = Vec::with_capacity(entry + 1);
    for function in &module.functions[..=entry] {
        let mut cost = Cost { known: &costs, sum: 1 };
        cost.function(function);
        let sum = cost.sum;
        costs.push(sum);
    }
    let limit = limit as u64;
    if costs[entry] <= limit {
        return None;
    }
    let function = &module.functions[entry];
    let message = format!(
        "`{}` is too large: with the functions that it calls it has more than {limit} operations",
        function.name
    );
    Some(Diagnostic::ty(function.name_span, message))
}

struct Cost<'a> {
    known: &'a [u64],
    sum: u64,
}

impl Cost<'_> {
    fn add(&mut self, cost: u64) {
        self.sum = self.sum.saturating_add(cost);
    }

    fn function(&mut self, function: &Function) {
        self.stmts(&function.body);
        function.value.iter().for_each(|value| self.expr(value));
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        stmts.iter().for_each(|stmt| weld_core::ir::deep(|| self.stmt(stmt)));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        self.add(SCALAR);
        match stmt {
            Stmt::Set { value, .. } => self.expr(value),
            Stmt::SetElement { indices, value, .. } => {
                indices.iter().for_each(|index| self.expr(index));
                self.expr(value);
            }
            Stmt::Call(call) => self.expr(call),
            Stmt::For { start, end, step, body, .. } => {
                [start, end, step].into_iter().for_each(|e| self.expr(e));
                self.stmts(body);
            }
            Stmt::If { cond, on_true, on_false } => {
                self.expr(cond);
                self.stmts(on_true);
                self.stmts(on_false);
            }
        }
    }

    fn expr(&mut self, e: &Expr) {
        self.add(if e.ty.as_matrix().is_some() { MATRIX } else { SCALAR });
        weld_core::ir::deep(|| match &e.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Zero | ExprKind::Wrong => {}
            ExprKind::Call { function, args } => {
                self.add(self.known.get(*function).copied().unwrap_or(u64::MAX));
                args.iter().for_each(|arg| self.expr(arg));
            }
            ExprKind::SessionCall { function, args } => {
                self.add(function.program.body.size() as u64);
                args.iter().for_each(|arg| self.expr(arg));
            }
            ExprKind::List(items) => items.iter().for_each(|item| self.expr(item)),
            ExprKind::Element { data, indices } => {
                self.expr(data);
                indices.iter().for_each(|index| self.expr(index));
            }
            ExprKind::Slice { data, indices } => {
                self.expr(data);
                for index in indices {
                    match index {
                        Index::One(at) => self.expr(at),
                        Index::Range(start, end) => [start, end].into_iter().for_each(|e| self.expr(e)),
                    }
                }
            }
            ExprKind::Neg(a) | ExprKind::Not(a) | ExprKind::Convert { value: a, .. } => self.expr(a),
            ExprKind::Binary(_, a, b) | ExprKind::Range(a, b) | ExprKind::Size { data: a, dim: b } => {
                self.expr(a);
                self.expr(b);
            }
        })
    }
}
