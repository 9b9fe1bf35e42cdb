//! Which variables of loops are nothing but that: nobody reads what they hold after their loops.

use std::collections::BTreeSet;

use crate::typed::{Expr, ExprKind, Function, Stmt, Var};

/// The variables of `for` that are read in bodies of loops over them only, and set nowhere in these.
pub(super) fn of_loops(function: &Function) -> BTreeSet<Var> {
    let mut uses = Uses::default();
    uses.stmts(&function.body);
    function.value.iter().for_each(|value| uses.expr(value));
    uses.counted.retain(|var| !uses.others.contains(var));
    uses.counted
}

#[derive(Default)]
struct Uses {
    /// The variables of the loops around.
    around: Vec<Var>,
    counted: BTreeSet<Var>,
    /// Variables that are read outside of their loops or set inside of them.
    others: BTreeSet<Var>,
}

impl Uses {
    fn stmts<'a>(&mut self, stmts: impl IntoIterator<Item = &'a Stmt>) {
        for stmt in stmts {
            stmt.exprs().into_iter().for_each(|e| self.expr(e));
            match stmt {
                Stmt::For { var, body, .. } => {
                    self.set(*var);
                    self.counted.insert(*var);
                    self.around.push(*var);
                    weld_core::ir::deep(|| self.stmts(body));
                    self.around.pop();
                }
                Stmt::Set { var, .. } | Stmt::SetElement { var, .. } => self.set(*var),
                _ => weld_core::ir::deep(|| self.stmts(stmt.stmts())),
            }
        }
    }

    fn set(&mut self, var: Var) {
        if self.around.contains(&var) {
            self.others.insert(var);
        }
    }

    fn expr(&mut self, e: &Expr) {
        if let ExprKind::Var(var) = e.kind
            && !self.around.contains(&var)
        {
            self.others.insert(var);
        }
        weld_core::ir::deep(|| e.children().into_iter().for_each(|child| self.expr(child)));
    }
}
