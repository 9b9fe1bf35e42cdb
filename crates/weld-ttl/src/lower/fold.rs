//! Loops that only add up or fill vectors, as loops with builders, which fuse with what makes their data.
//!
//! ```text
//! for (i in 0...3 by 1) s = s + d{i};
//! =>
//! result(@(strict:true) for(d, merger[f32,+](s), |b, i, x| merge(b, x)))
//! ```
//! The body may do what it likes with variables of its own. Of those from before it, it may set each once, and that in
//! one of two ways: a float `s = s + e`, `s - e` or `s * e`, where `s` is read nowhere else; a vector as long as the
//! loop `y[i] = e`, where `y` is read as `y{i}` before. A vector as long as the loop that is read as `v{i}` becomes
//! data of the loop, and so does a row `m{j, i}`.

use std::cell::Cell;
use std::collections::BTreeSet;

use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind as IrKind, Func, Iter, Literal, build};
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::{BuilderType, ScalarKind, Type as IrType};
use weld_tensor::Size;

use super::Lower;
use super::stmt::assigned_in;
use super::value::{Matrix, Value, scalar_kind};
use crate::tree::BinaryOp;
use crate::typed::{self, ExprKind, Stmt, Var};
use crate::types::Type;

/// A loop of so many variables is no such loop.
const TARGETS_MAX: usize = 8;

/// What a loop does with a variable from before it.
enum Role<'a> {
    Reduce { op: ReduceOp, negated: bool, term: &'a typed::Expr },
    Fill { value: &'a typed::Expr },
}

/// A variable, the number of the statement that sets it, and how.
type Target<'a> = (Var, usize, Role<'a>);

pub(super) fn address(e: &typed::Expr) -> usize {
    std::ptr::from_ref(e) as usize
}

impl<'a> Lower<'a> {
    /// Makes the loop a `for`, if it is one of these.
    pub(super) fn folded(&mut self, var: Var, [start, end, step]: [&Expr; 3], body: &'a [Stmt], span: Span) -> bool {
        if literal(start) != Some(0) || literal(step) != Some(1) {
            return false;
        }
        let count = match literal(end) {
            Some(count) => Size::known(count.max(0) as u64),
            None => Size::open(end.clone()),
        };
        let Some(targets) = self.targets(var, &count, body) else { return false };
        let (b, i, x) = (self.names().fresh("b"), self.names().fresh("i"), self.names().fresh("x"));
        let (accesses, vectors) = self.accesses(var, &count, body, &targets);
        let iter = self.data(&vectors, end);
        let element = iter.element_type();
        self.name_elements(&accesses, vectors.len(), &build::var(x, element.clone()));
        let builders: Vec<Expr> = targets.iter().map(|(target, _, role)| self.builder(*target, role, &count)).collect();
        let builder = one_or_all(builders);
        let counter = build::var(i, IrType::I64);
        self.counters.push([counter.clone(), start.clone(), end.clone()]);
        let update = self.update(var, body, &targets, build::var(b, builder.ty.clone()), counter);
        self.counters.pop();
        accesses.iter().for_each(|(access, _)| drop(self.elements.remove(access)));
        let params = vec![(b, builder.ty.clone()), (i, IrType::I64), (x, element)];
        let mut looped = build::for_func(iter, builder, Func { params, body: Box::new(update) }).at(span);
        if targets.iter().any(|(_, _, role)| matches!(role, Role::Reduce { .. })) {
            looped = looped.annotate("strict", "true");
        }
        self.results(&targets, looped);
        if !self.of_loops.contains(&var) {
            self.last_value(var, start.clone(), end.clone(), step.clone(), span);
        }
        true
    }

    /// What the loop does with each variable from before it, if it does nothing else.
    fn targets(&self, var: Var, count: &Size, body: &'a [Stmt]) -> Option<Vec<Target<'a>>> {
        let mut assigned = BTreeSet::new();
        assigned_in(body, &mut assigned);
        if assigned.contains(&var) {
            return None;
        }
        assigned.retain(|assigned| self.is_carried(assigned));
        // Each is looked for in the whole body.
        if assigned.len() > TARGETS_MAX {
            return None;
        }
        let target = |target: Var| {
            let is_set = |stmt: &&Stmt| {
                let mut set = BTreeSet::new();
                assigned_in(std::slice::from_ref(*stmt), &mut set);
                set.contains(&target)
            };
            let mut setting = body.iter().enumerate().filter(|(_, stmt)| is_set(stmt));
            let (at, stmt) = setting.next()?;
            if setting.next().is_some() {
                return None;
            }
            let role = match stmt {
                Stmt::Set { value, .. } => reduction(target, value, body)?,
                Stmt::SetElement { indices, value, .. } => {
                    self.filling(target, var, count, indices, value, &body[at + 1..], body)?
                }
                _ => return None,
            };
            Some((target, at, role))
        };
        let targets: Option<Vec<Target<'a>>> = assigned.into_iter().map(target).collect();
        targets.filter(|targets| !targets.is_empty())
    }

    #[expect(clippy::too_many_arguments, reason = "they are the parts of the statement and what is around it")]
    fn filling(
        &self,
        target: Var,
        counter: Var,
        count: &Size,
        indices: &[typed::Expr],
        value: &'a typed::Expr,
        after: &[Stmt],
        body: &[Stmt],
    ) -> Option<Role<'a>> {
        let [index] = indices else { return None };
        if !is_var(index, counter) || !self.is_as_long(target, count) {
            return None;
        }
        let (mut reads, mut own) = (0, 0);
        each_expr(body, &mut |e| {
            reads += usize::from(is_var(e, target));
            own += usize::from(access(e, counter).is_some_and(|(of, before)| of == target && before.is_empty()));
        });
        let mut later = 0;
        each_expr(after, &mut |e| later += usize::from(is_var(e, target)));
        (reads == own && later == 0).then_some(Role::Fill { value })
    }

    /// Whether a variable holds a vector of so many elements.
    fn is_as_long(&self, var: Var, count: &Size) -> bool {
        match self.vars.get(&var) {
            Some(Value::Matrix(matrix)) => matches!(&matrix.sizes[..], [size] if size.same(count)),
            _ => false,
        }
    }

    // The data.

    /// The accesses that give elements of what the loop goes over, each with the number of its vector, and the vectors.
    /// A vector is one of a variable, or a row of one with the indices before the last.
    fn accesses(
        &self,
        counter: Var,
        count: &Size,
        body: &'a [Stmt],
        targets: &[Target<'a>],
    ) -> (Vec<(usize, usize)>, Vec<(Var, &'a [typed::Expr])>) {
        let mut assigned = BTreeSet::new();
        assigned_in(body, &mut assigned);
        let is_kept = |var: &Var| self.vars.contains_key(var) && !assigned.contains(var);
        let is_filled =
            |var: Var| targets.iter().any(|(target, _, role)| *target == var && matches!(role, Role::Fill { .. }));
        let plain = |index: &typed::Expr| match &index.kind {
            ExprKind::Int(_) => true,
            ExprKind::Var(var) => *var != counter && is_kept(var),
            _ => false,
        };
        let (mut found, mut vectors) = (Vec::new(), Vec::<(Var, &'a [typed::Expr])>::new());
        // Whether a step may fail before it comes to the expression.
        let failed = Cell::new(false);
        let mut visit = |e: &'a typed::Expr, always: bool| {
            let Some((of, before)) = access(e, counter) else {
                failed.set(failed.get() || may_fail(e));
                return;
            };
            let fits = match before {
                [] => (is_kept(&of) || is_filled(of)) && self.is_as_long(of, count),
                _ => {
                    let last = match self.vars.get(&of) {
                        Some(Value::Matrix(matrix)) => matrix.sizes.last().and_then(Size::as_known),
                        _ => None,
                    };
                    // The row is looked up before the loop, which may fail only with the error of the first step.
                    always
                        && is_kept(&of)
                        && before.iter().all(plain)
                        && (!failed.get() || self.has_row(of, before))
                        && last.is_some_and(|last| last > 0)
                        && last == count.as_known()
                }
            };
            if fits {
                let known = vectors.iter().position(|(var, _)| *var == of && before.is_empty());
                let number = known.unwrap_or_else(|| {
                    vectors.push((of, before));
                    vectors.len() - 1
                });
                found.push((address(e), number));
            }
            failed.set(failed.get() || !fits);
        };
        for stmt in body {
            stmt.exprs().into_iter().for_each(|e| each_part(e, &mut |e| visit(e, true)));
            each_expr(stmt.stmts(), &mut |e| visit(e, false));
            failed.set(failed.get() || !matches!(stmt, Stmt::Set { .. } | Stmt::If { .. }));
        }
        (found, vectors)
    }

    fn data(&mut self, vectors: &[(Var, &'a [typed::Expr])], end: &Expr) -> Iter {
        let mut iters = Vec::new();
        for (var, before) in vectors {
            let Some(Value::Matrix(matrix)) = self.vars.get(var).cloned() else { continue };
            iters.push(Iter::Vector(self.row(*var, matrix, before)));
        }
        match iters.len() {
            0 => Iter::Range { start: build::i64(0), end: end.clone(), stride: build::i64(1) },
            1 => iters.remove(0),
            _ => Iter::Zip(iters),
        }
    }

    /// Whether the indices before the last stay inside of the matrix, whatever the arguments.
    fn has_row(&self, of: Var, before: &[typed::Expr]) -> bool {
        let Some(Value::Matrix(matrix)) = self.vars.get(&of) else { return false };
        before.iter().zip(&matrix.sizes).all(|(index, size)| {
            let index = match &index.kind {
                ExprKind::Int(value) => Some(build::i64((*value).into())),
                ExprKind::Var(var) => match self.vars.get(var) {
                    Some(Value::Scalar(int)) => self.widened(int),
                    _ => None,
                },
                _ => None,
            };
            index.is_some_and(|index| self.stays_inside(&index, size))
        })
    }

    /// The last dimension of a matrix at these indices of the others.
    fn row(&mut self, var: Var, matrix: Matrix, before: &'a [typed::Expr]) -> Expr {
        if before.is_empty() {
            return matrix.data;
        }
        let span = before[0].span;
        let name = self.function.vars[var.0 as usize].name.clone();
        let mut indices: Vec<Expr> = before.iter().map(|index| self.index(index)).collect();
        indices.push(build::i64(0));
        let at = self.position(&matrix, &indices, &name, span);
        let size = matrix.sizes.last().map_or_else(|| build::i64(0), Size::expr);
        let row = build::slice(matrix.data, at, size).at(span);
        self.bind("row", row)
    }

    /// Lets the accesses give the elements that the loop over so many vectors is at.
    fn name_elements(&mut self, accesses: &[(usize, usize)], vectors: usize, x: &Expr) {
        for (access, number) in accesses {
            let element = if vectors == 1 { x.clone() } else { build::field(x.clone(), *number) };
            self.elements.insert(*access, element);
        }
    }

    // Builders.

    fn builder(&mut self, target: Var, role: &Role<'_>, count: &Size) -> Expr {
        match (role, self.vars.get(&target)) {
            (Role::Reduce { op, .. }, Some(Value::Scalar(start))) => {
                let ty = BuilderType::Merger { value: IrType::F32.into(), op: MergeOp::All(*op) };
                build::builder_with(ty, start.clone())
            }
            (_, Some(Value::Matrix(matrix))) => {
                build::appender_sized(IrType::Scalar(scalar_kind(matrix.elem)), count.expr())
            }
            _ => build::appender(IrType::Scalar(ScalarKind::F32)),
        }
    }

    /// The body of the loop: the statements, and what they put into the builders.
    fn update(&mut self, var: Var, body: &'a [Stmt], targets: &[Target<'a>], b: Expr, i: Expr) -> Expr {
        let before = self.vars.clone();
        self.flow.open();
        self.set_counter(var, i);
        let mut merged: Vec<Option<Expr>> = targets.iter().map(|_| None).collect();
        for (at, stmt) in body.iter().enumerate() {
            let Some(number) = targets.iter().position(|(_, set, _)| *set == at) else {
                self.stmt(stmt);
                continue;
            };
            let value = match &targets[number].2 {
                Role::Reduce { negated: true, term, .. } => build::neg(self.scalar(term)),
                Role::Reduce { term, .. } => self.scalar(term),
                Role::Fill { value } => self.scalar(value),
            };
            merged[number] = Some(self.bind("x", value));
        }
        let one = targets.len() == 1;
        let merges = merged.into_iter().enumerate().map(|(number, value)| {
            let builder = if one { b.clone() } else { build::field(b.clone(), number) };
            value.into_iter().fold(builder, build::merge)
        });
        let update = one_or_all(merges.collect());
        self.vars = before;
        self.flow.close(update)
    }

    /// Sets the variables to what the loop has made.
    fn results(&mut self, targets: &[Target<'a>], looped: Expr) {
        let one = targets.len() == 1;
        let looped = if one { looped } else { self.flow.keep("built", looped) };
        for (number, (target, ..)) in targets.iter().enumerate() {
            let builder = if one { looped.clone() } else { build::field(looped.clone(), number) };
            let name = &self.function.vars[target.0 as usize].name;
            let result = self.flow.bind(name, build::result(builder));
            match self.vars.get_mut(target) {
                Some(Value::Matrix(matrix)) => matrix.data = result,
                Some(Value::Scalar(value)) => *value = result,
                None => {}
            }
        }
    }
}

/// `s = s + e` and its like, where `s` is read nowhere else.
fn reduction<'a>(target: Var, value: &'a typed::Expr, body: &[Stmt]) -> Option<Role<'a>> {
    if value.ty != Type::Float {
        return None;
    }
    let ExprKind::Binary(op, a, b) = &value.kind else { return None };
    let (op, negated) = match op {
        BinaryOp::Add => (ReduceOp::Add, false),
        BinaryOp::Sub => (ReduceOp::Add, true),
        BinaryOp::Mul => (ReduceOp::Mul, false),
        _ => return None,
    };
    let term = match (is_var(a, target), is_var(b, target)) {
        (true, false) => &**b,
        (false, true) if !negated => &**a,
        _ => return None,
    };
    let mut reads = 0;
    each_expr(body, &mut |e| reads += usize::from(is_var(e, target)));
    (reads == 1).then_some(Role::Reduce { op, negated, term })
}

/// `m{.., i}`: the variable, and the indices before the last.
fn access(e: &typed::Expr, counter: Var) -> Option<(Var, &[typed::Expr])> {
    let ExprKind::Element { data, indices } = &e.kind else { return None };
    let ExprKind::Var(of) = data.kind else { return None };
    let (last, before) = indices.split_last()?;
    is_var(last, counter).then_some((of, before))
}

fn is_var(e: &typed::Expr, var: Var) -> bool {
    matches!(e.kind, ExprKind::Var(found) if found == var)
}

/// Whether the expression may fail where its parts do not.
fn may_fail(e: &typed::Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Not(_) => false,
        ExprKind::Neg(_) => e.ty != Type::Float,
        ExprKind::Binary(op, ..) => match op {
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div => e.ty != Type::Float,
            op => *op == BinaryOp::MatMul,
        },
        _ => true,
    }
}

/// Calls `f` with every expression in the statements, in the order of their evaluation.
fn each_expr<'a>(stmts: impl IntoIterator<Item = &'a Stmt>, f: &mut dyn FnMut(&'a typed::Expr)) {
    for stmt in stmts {
        stmt.exprs().into_iter().for_each(|e| each_part(e, f));
        weld_core::ir::deep(|| each_expr(stmt.stmts(), f));
    }
}

fn each_part<'a>(e: &'a typed::Expr, f: &mut dyn FnMut(&'a typed::Expr)) {
    weld_core::ir::deep(|| e.children().into_iter().for_each(|child| each_part(child, f)));
    f(e);
}

fn one_or_all(mut builders: Vec<Expr>) -> Expr {
    if builders.len() == 1 { builders.remove(0) } else { build::strct(builders) }
}

fn literal(e: &Expr) -> Option<i64> {
    match e.kind {
        IrKind::Literal(Literal::I64(value)) => Some(value),
        _ => None,
    }
}
