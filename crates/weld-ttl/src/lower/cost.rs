//! How large a program gets when calls are inlined, before that is done.

use weld_core::diag::Diagnostic;

use crate::typed::{Expr, ExprKind, Function, Module, Stmt};

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

    fn stmts<'a>(&mut self, stmts: impl IntoIterator<Item = &'a Stmt>) {
        for stmt in stmts {
            self.add(SCALAR);
            stmt.exprs().into_iter().for_each(|e| self.expr(e));
            weld_core::ir::deep(|| self.stmts(stmt.stmts()));
        }
    }

    fn expr(&mut self, e: &Expr) {
        self.add(if e.ty.as_matrix().is_some() { MATRIX } else { SCALAR });
        match &e.kind {
            ExprKind::Call { function, .. } => self.add(self.known.get(*function).copied().unwrap_or(u64::MAX)),
            ExprKind::SessionCall { function, .. } => self.add(function.program.body.size() as u64),
            _ => {}
        }
        weld_core::ir::deep(|| e.children().into_iter().for_each(|child| self.expr(child)))
    }
}
