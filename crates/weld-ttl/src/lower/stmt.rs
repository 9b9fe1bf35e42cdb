//! Statements: what each makes the variables hold.

use std::collections::BTreeSet;

use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind, Literal, build};
use weld_core::ty::ScalarKind;

use super::Lower;
use super::value::{Value, packed};
use crate::typed::{self, Stmt, Var};
use crate::types::Type;

impl<'a> Lower<'a> {
    pub(super) fn stmts(&mut self, stmts: &'a [Stmt]) {
        stmts.iter().for_each(|stmt| weld_core::ir::deep(|| self.stmt(stmt)));
    }

    pub(super) fn stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Set { var, value } => {
                let value = self.expr(value);
                let value = self.named(*var, value);
                self.vars.insert(*var, value);
            }
            Stmt::SetElement { var, indices, value, span } => self.set_element(*var, indices, value, *span),
            Stmt::Call(call) => self.call_statement(call),
            Stmt::For { var, start, end, step, body, span } => self.for_loop(*var, [start, end, step], body, *span),
            Stmt::If { cond, on_true, on_false } => self.conditional(cond, on_true, on_false),
        }
    }

    /// Binds a value under the variable's name.
    fn named(&mut self, var: Var, value: Value) -> Value {
        let name = &self.function.vars[var.0 as usize].name;
        match value {
            Value::Scalar(e) => Value::Scalar(self.flow.bind(name, e)),
            Value::Matrix(mut matrix) => {
                matrix.data = self.flow.bind(name, matrix.data);
                Value::Matrix(matrix)
            }
        }
    }

    fn ty(&self, var: Var) -> &'a Type {
        &self.function.vars[var.0 as usize].ty
    }

    fn set_element(&mut self, var: Var, indices: &'a [typed::Expr], value: &'a typed::Expr, span: Span) {
        let indices: Vec<Expr> = indices.iter().map(|index| self.index(index)).collect();
        let value = self.scalar(value);
        let Some(Value::Matrix(mut matrix)) = self.vars.get(&var).cloned() else { return };
        let name = self.function.vars[var.0 as usize].name.clone();
        let at = self.position(&matrix, &indices, &name, span);
        let data = build::update(matrix.data, at, value).at(span);
        matrix.data = self.flow.bind(&name, data);
        self.vars.insert(var, Value::Matrix(matrix));
    }

    // Branches.

    fn conditional(&mut self, cond: &'a typed::Expr, on_true: &'a [Stmt], on_false: &'a [Stmt]) {
        let span = cond.span;
        let cond = self.condition(cond);
        let mut assigned = BTreeSet::new();
        assigned_in(on_true, &mut assigned);
        assigned_in(on_false, &mut assigned);
        assigned.retain(|var| self.is_carried(var));
        let on_true = self.branch(on_true, &assigned);
        let on_false = self.branch(on_false, &assigned);
        let count = assigned.iter().map(|var| self.width(*var)).sum();
        let mut parts = self.flow.branch(cond, on_true, on_false, count, span).into_iter();
        for var in assigned {
            let value = self.unpacked(self.ty(var), &mut parts);
            self.vars.insert(var, value);
        }
    }

    /// A branch as an expression: the variables that either branch assigns.
    fn branch(&mut self, stmts: &'a [Stmt], assigned: &BTreeSet<Var>) -> Expr {
        let vars = self.vars.clone();
        self.flow.open();
        self.stmts(stmts);
        let values = assigned.iter().flat_map(|var| packed(&self.vars[var], self.ty(*var))).collect();
        self.vars = vars;
        self.flow.close_branch(values)
    }

    /// Whether a branch or a loop that assigns a variable gives its value: it was there before, and may be read.
    pub(super) fn is_carried(&self, var: &Var) -> bool {
        self.vars.contains_key(var) && !self.of_loops.contains(var)
    }

    /// In how many parts a variable is carried.
    fn width(&self, var: Var) -> usize {
        packed(&self.vars[&var], self.ty(var)).len()
    }

    // Loops.

    fn for_loop(&mut self, var: Var, [start, end, step]: [&'a typed::Expr; 3], body: &'a [Stmt], span: Span) {
        let start = self.index(start);
        let end = self.index(end);
        let step_span = step.span;
        let step = self.index(step);
        if !matches!(step.kind, ExprKind::Literal(Literal::I64(1..))) {
            let positive = build::gt(step.clone(), build::i64(0));
            self.check(positive, "the step of `for` must be positive, found {0}", vec![step.clone()], step_span);
        }
        if self.folded(var, [&start, &end, &step], body, span) {
            return;
        }
        let mut assigned = BTreeSet::new();
        assigned_in(body, &mut assigned);
        // Where the last value of the variable is not plain, the loop carries it.
        let is_carried = assigned.contains(&var) || !matches!(step.kind, ExprKind::Literal(_));
        let is_read = !self.of_loops.contains(&var);
        if is_carried {
            assigned.insert(var);
        }
        assigned.retain(|var| self.is_carried(var));
        let before = self.vars.clone();
        let carried = assigned.iter().flat_map(|var| packed(&self.vars[var], self.ty(*var))).collect();
        let header = (start.clone(), end.clone(), step.clone());
        let mut state = self.flow.begin_count(header.0, header.1, header.2, carried).into_iter();
        let counter = state.next().unwrap_or_else(|| build::i64(0));
        for var in &assigned {
            let value = self.unpacked(self.ty(*var), &mut state);
            self.vars.insert(*var, value);
        }
        self.set_counter(var, counter.clone());
        self.counters.push([counter, start.clone(), end.clone()]);
        self.stmts(body);
        self.counters.pop();
        let next = assigned.iter().flat_map(|var| packed(&self.vars[var], self.ty(*var))).collect();
        self.vars = before;
        let mut last = self.flow.end_count(next).into_iter();
        for var in &assigned {
            let value = self.unpacked(self.ty(*var), &mut last);
            self.vars.insert(*var, value);
        }
        if is_read && !is_carried {
            self.last_value(var, start, end, step, span);
        }
    }

    /// Sets a loop's variable at the beginning of a step.
    pub(super) fn set_counter(&mut self, var: Var, counter: Expr) {
        let name = &self.function.vars[var.0 as usize].name;
        let int = self.bind_int(name, counter);
        self.vars.insert(var, Value::Scalar(int));
    }

    /// Sets a loop's variable to the last value that it took, if there was one.
    pub(super) fn last_value(&mut self, var: Var, start: Expr, end: Expr, step: Expr, span: Span) {
        let Some(Value::Scalar(before)) = self.vars.get(&var).cloned() else { return };
        let distance = build::sub(build::sub(end.clone(), build::i64(1)), start.clone());
        let steps = build::mul(build::div(distance, step.clone()), step);
        let last = build::cast(build::add(start.clone(), steps), ScalarKind::I32);
        let value = build::select(build::lt(start, end), last, before).at(span);
        let value = self.named(var, Value::Scalar(value));
        self.vars.insert(var, value);
    }
}

/// The variables that the statements set.
pub(super) fn assigned_in(stmts: &[Stmt], vars: &mut BTreeSet<Var>) {
    for stmt in stmts {
        weld_core::ir::deep(|| match stmt {
            Stmt::Set { var, .. } | Stmt::SetElement { var, .. } => {
                vars.insert(*var);
            }
            Stmt::Call(_) => {}
            Stmt::For { var, body, .. } => {
                vars.insert(*var);
                assigned_in(body, vars);
            }
            Stmt::If { on_true, on_false, .. } => {
                assigned_in(on_true, vars);
                assigned_in(on_false, vars);
            }
        });
    }
}
