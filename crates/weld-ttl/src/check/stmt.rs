//! Statements: declarations, assignments, loops, conditions, and where `return` may stand.

use weld_core::diag::{Diagnostic, Span};

use super::Checker;
use crate::tree::{self, Name, StmtKind};
use crate::typed::{Conversion, Expr, ExprKind, Stmt, constant};
use crate::types::{Elem, Type, elements};

impl<'a> Checker<'a> {
    /// The statements of a function, and what it returns.
    pub(super) fn body(&mut self, function: &'a tree::Function<'a>) -> (Vec<Stmt>, Option<Expr>) {
        let name = function.name.text;
        let (last, rest) = match function.body.split_last() {
            Some((tree::Stmt { kind: StmtKind::Return(value), span }, rest)) => (Some((value, *span)), rest),
            _ => (None, &function.body[..]),
        };
        let mut body = Vec::new();
        for stmt in rest {
            self.stmt(stmt, function, &mut body);
        }
        match last {
            Some((_, span)) if function.result.ty == Type::Void => {
                self.returned_from_void(name, span);
                (body, None)
            }
            Some((value, _)) => {
                let value = self.expr(value);
                let what = format!("the value that `{name}` returns");
                (body, Some(self.converted(value, &function.result.ty, &what)))
            }
            None => {
                if function.result.ty != Type::Void {
                    let message = format!("`{name}` returns {} and must end in `return`", function.result.ty);
                    // The closing brace is what stands in the place of the statement.
                    let end = function.span.end as usize;
                    let found = if has_return(rest) { Span::NONE } else { Span::new(end.saturating_sub(1), end) };
                    if found != Span::NONE {
                        self.error(found, message);
                    }
                }
                (body, None)
            }
        }
    }

    fn returned_from_void(&mut self, name: &str, span: Span) {
        let error = Diagnostic::ty(span, format!("`return` in `{name}`, whose result type is void"));
        self.report(error.with_hint("functions without a result contain no `return`"));
    }

    fn stmt(&mut self, stmt: &'a tree::Stmt<'a>, function: &'a tree::Function<'a>, out: &mut Vec<Stmt>) {
        match &stmt.kind {
            StmtKind::Var { ty, name, init } => self.var(ty, *name, init.as_ref(), out),
            StmtKind::Assign { name, value } => self.assign(*name, value, out),
            StmtKind::AssignElement { name, indices, value } => {
                self.assign_element(*name, indices, value, stmt.span, out);
            }
            StmtKind::Call(call) => {
                let call = self.call_statement(call);
                out.push(Stmt::Call(call));
            }
            StmtKind::For { name, range, step, body } => {
                let header = self.loop_header(*name, range, step);
                let body = self.inner(body, function);
                if let Some((var, start, end, step)) = header {
                    out.push(Stmt::For { var, start, end, step, body, span: stmt.span });
                }
            }
            StmtKind::If { cond, on_true, on_false } => {
                let cond = self.expr(cond);
                self.expect("the condition of `if`", &Type::Int, &cond);
                let on_true = self.inner(on_true, function);
                let on_false = on_false.as_ref().map_or_else(Vec::new, |branch| self.inner(branch, function));
                out.push(Stmt::If { cond, on_true, on_false });
            }
            StmtKind::Block(statements) => {
                self.scoped(|c| statements.iter().for_each(|stmt| c.stmt(stmt, function, out)));
            }
            StmtKind::Return(value) => {
                self.expr(value);
                if function.result.ty == Type::Void {
                    return self.returned_from_void(function.name.text, stmt.span);
                }
                let message = format!("`return` is not the last statement in the body of `{}`", function.name.text);
                let hint = "there is no early or conditional return: assign to a variable and return that at the end";
                self.report(Diagnostic::ty(stmt.span, message).with_hint(hint));
            }
        }
    }

    /// The body of a loop or a branch, which is a scope.
    fn inner(&mut self, stmt: &'a tree::Stmt<'a>, function: &'a tree::Function<'a>) -> Vec<Stmt> {
        let mut out = Vec::new();
        weld_core::ir::deep(|| self.scoped(|c| c.stmt(stmt, function, &mut out)));
        out
    }

    fn var(&mut self, ty: &tree::TypeExpr, name: Name<'a>, init: Option<&'a tree::Expr<'a>>, out: &mut Vec<Stmt>) {
        let wanted = self.declarable(ty, &format!("the variable `{}`", name.text));
        let value = match init {
            Some(init) => {
                let value = self.expr(init);
                self.initial(value, &wanted, name.text)
            }
            None => {
                if let Some((_, dims)) = wanted.as_matrix()
                    && dims.iter().any(|dim| dim.known().is_none())
                {
                    let message = format!(
                        "the variable `{}` of type {wanted} needs an initial value: its sizes are open",
                        name.text
                    );
                    self.error(name.span, message);
                }
                Expr { kind: ExprKind::Zero, ty: wanted.clone(), span: name.span }
            }
        };
        let var = self.declare(name, wanted, "variable");
        out.push(Stmt::Set { var, value });
    }

    /// An initial value: of the variable's very type, or one of the forms that matrices of static shape take.
    fn initial(&mut self, value: Expr, wanted: &Type, name: &str) -> Expr {
        let what = format!("the initial value of `{name}`");
        let Some((elem, dims)) = wanted.as_matrix() else { return self.converted(value, wanted, &what) };
        let count = elements(dims);
        let static_shape = dims.iter().all(|dim| dim.known().is_some());
        let how = match &value.ty {
            Type::Range => Conversion::Count,
            Type::Int | Type::Float => Conversion::Fill,
            Type::Matrix(_, from) if from.len() == 1 && dims.len() > 1 => Conversion::Shape,
            _ => return self.converted(value, wanted, &what),
        };
        let given = match how {
            Conversion::Count => Type::Int,
            _ => value.ty.as_matrix().map_or(value.ty.clone(), |(elem, _)| Type::scalar(elem)),
        };
        if given != Type::scalar(elem) {
            self.error(value.span, format!("{what}: expected {wanted}, found {}", described(&value.ty)));
            return wrong(value.span);
        }
        if !static_shape {
            let found = described(&value.ty);
            let error = Diagnostic::ty(value.span, format!("{what}: expected {wanted}, found {found}"));
            self.report(error.with_hint("only a matrix whose sizes are all known is filled or reshaped"));
            return wrong(value.span);
        }
        let found = match (&value.ty, &value.kind) {
            (Type::Matrix(_, from), _) => from[0].known(),
            (_, ExprKind::Range(start, end)) => {
                constant(start).zip(constant(end)).map(|(start, end)| (i64::from(end) - i64::from(start)).max(0))
            }
            _ => None,
        };
        if let Some(found) = found
            && count != Some(found)
        {
            let count = count.unwrap_or(i64::MAX);
            let message = format!("{what}: expected {count} elements for {wanted}, found {found}");
            self.error(value.span, message);
            return wrong(value.span);
        }
        convert(value, wanted, how, what)
    }

    /// A value for a place of type `wanted`: of that type, where `?` agrees with every size.
    pub(super) fn converted(&mut self, value: Expr, wanted: &Type, what: &str) -> Expr {
        if !self.expect(what, wanted, &value) {
            return wrong(value.span);
        }
        let open = |ty: &Type| ty.as_matrix().is_some_and(|(_, dims)| dims.iter().any(|dim| dim.known().is_none()));
        match open(&value.ty) || open(wanted) {
            true => convert(value, wanted, Conversion::Sizes, what.to_owned()),
            false => value,
        }
    }

    fn assign(&mut self, name: Name<'a>, value: &'a tree::Expr<'a>, out: &mut Vec<Stmt>) {
        let target = self.variable(name.text, name.span);
        let value = self.expr(value);
        let Some((var, ty)) = target else { return };
        let before = self.errors.len();
        let shape = value.ty.clone();
        let value = self.converted(value, &ty, &format!("the value assigned to `{}`", name.text));
        if self.errors.len() > before
            && matches!(ty, Type::Matrix(..))
            && !matches!(shape, Type::Matrix(..))
            && let Some(error) = self.errors.last_mut()
        {
            error.hint = Some("a matrix is filled with a value or a range only where it is declared".to_owned());
        }
        out.push(Stmt::Set { var, value });
    }

    fn assign_element(
        &mut self,
        name: Name<'a>,
        indices: &'a [tree::Expr<'a>],
        value: &'a tree::Expr<'a>,
        span: Span,
        out: &mut Vec<Stmt>,
    ) {
        let target = self.variable(name.text, name.span);
        let indices: Vec<Expr> = indices.iter().map(|index| self.expr(index)).collect();
        let value = self.expr(value);
        let Some((var, ty)) = target else { return };
        if ty == Type::Wrong {
            return;
        }
        let Some((elem, dims)) = ty.as_matrix() else {
            let message = format!("`{}` is no matrix: it has no elements to assign, its type is {ty}", name.text);
            return self.error(name.span, message);
        };
        let dims = dims.clone();
        if !self.rank_fits(name.text, dims.len(), indices.len(), span) {
            return;
        }
        for (i, (index, dim)) in indices.iter().zip(dims.iter()).enumerate() {
            if self.expect(&format!("index {i} of `{}`", name.text), &Type::Int, index) {
                self.index_fits(name.text, i, index, *dim);
            }
        }
        self.expect(&format!("the value assigned to an element of `{}`", name.text), &Type::scalar(elem), &value);
        out.push(Stmt::SetElement { var, indices, value, span });
    }

    fn loop_header(
        &mut self,
        name: Name<'a>,
        range: &'a tree::Expr<'a>,
        step: &'a tree::Expr<'a>,
    ) -> Option<(crate::typed::Var, Expr, Expr, Expr)> {
        let var = self.variable(name.text, name.span);
        if let Some((_, ty)) = &var
            && !matches!(ty, Type::Int | Type::Wrong)
        {
            self.error(name.span, format!("the variable of `for`, `{}`: expected int, found {ty}", name.text));
        }
        let range = self.expr(range);
        self.expect("what `for` goes over", &Type::Range, &range);
        let step = self.expr(step);
        self.expect("the step of `for`", &Type::Int, &step);
        match (var, range.kind) {
            (Some((var, _)), ExprKind::Range(start, end)) => Some((var, *start, *end, step)),
            _ => None,
        }
    }
}

/// A type in a message; that of a range has no name in a program.
fn described(ty: &Type) -> String {
    match ty {
        Type::Range => "a range of int".to_owned(),
        ty => ty.to_string(),
    }
}

fn convert(value: Expr, wanted: &Type, how: Conversion, what: String) -> Expr {
    let span = value.span;
    Expr { kind: ExprKind::Convert { how, value: Box::new(value), what }, ty: wanted.clone(), span }
}

pub(super) fn wrong(span: Span) -> Expr {
    Expr { kind: ExprKind::Wrong, ty: Type::Wrong, span }
}

/// Whether a `return` stands somewhere inside, which is reported there.
fn has_return(statements: &[tree::Stmt<'_>]) -> bool {
    weld_core::ir::deep(|| {
        statements.iter().any(|stmt| match &stmt.kind {
            StmtKind::Return(_) => true,
            StmtKind::Block(inner) => has_return(inner),
            StmtKind::For { body, .. } => has_return(std::slice::from_ref(body)),
            StmtKind::If { on_true, on_false, .. } => {
                has_return(std::slice::from_ref(on_true))
                    || on_false.as_ref().is_some_and(|branch| has_return(std::slice::from_ref(branch)))
            }
            _ => false,
        })
    })
}

/// The element type and the sizes of a matrix expression.
pub(super) fn matrix(e: &Expr) -> Option<(Elem, std::sync::Arc<[crate::types::Dim]>)> {
    e.ty.as_matrix().map(|(elem, dims)| (elem, dims.clone()))
}
