//! Nodes into IR, once all that can be known about types is known.
//!
//! What is still unknown is an error; what is known is checked against the typing rules, which know what unification
//! does not (that `+` is not for `bool`, that a dictionary is no key).

use super::Infer;
use super::node::{Head, Node, assemble};
use super::types::Ty;
use crate::diag::{Diagnostic, Span};
use crate::ir::{Expr, Param, Sym, deep, typing};
use crate::ty::{ScalarKind, Type};

impl Infer<'_> {
    pub(super) fn finish_param(&mut self, sym: Sym, ty: Ty, stream: bool, span: Span) -> Option<Param> {
        let Some(known) = self.types.export(ty) else {
            if self.errors.is_empty() {
                let message = format!("the type of the parameter `{}` cannot be inferred", self.names.name(sym));
                self.complain(span, message);
            }
            return None;
        };
        if !typing::is_storable(&known) && !typing::holds_builder(&known) {
            let message = format!("the parameter `{}` cannot be {known}", self.names.name(sym));
            self.complain(span, message);
        }
        Some(Param { sym, ty: known, stream, known: None })
    }

    pub(super) fn finish_program(&mut self, body: Node) -> Option<Expr> {
        let span = body.span;
        self.errors_before = self.errors.len();
        let body = self.finish(body)?;
        if !typing::is_storable(&body.ty) && !typing::holds_builder(&body.ty) {
            let hint = "a SIMD value's width is the target's: merge it into a builder";
            self.report(Diagnostic::ty(span, format!("a program cannot return {}", body.ty)).with_hint(hint));
        }
        Some(body)
    }

    fn finish(&mut self, node: Node) -> Option<Expr> {
        deep(|| self.finish_here(node))
    }

    fn finish_here(&mut self, node: Node) -> Option<Expr> {
        let Node { head, ty, span, annotations, children } = node;
        let count = children.len();
        // All children are finished even when one fails, for their errors.
        let children: Vec<Expr> = children.into_iter().filter_map(|child| self.finish(child)).collect();
        if children.len() < count || matches!(head, Head::Error) {
            return None;
        }
        let Some(known) = self.types.export(ty) else {
            self.unknown(&head, ty, span, count);
            return None;
        };
        let params = match &head {
            Head::Sort(params) | Head::Iterate(params) | Head::For(_, params) => {
                let known = params.iter().map(|(sym, ty)| Some((*sym, self.types.export(*ty)?)));
                let known: Option<Vec<(Sym, Type)>> = known.collect();
                match known {
                    Some(known) => known,
                    None => {
                        self.unknown(&head, ty, span, count);
                        return None;
                    }
                }
            }
            _ => Vec::new(),
        };
        let kind = assemble(head, params, children)?;
        match typing::type_of(&kind, &known) {
            Ok(found) if found == known => Some(Expr { ty: known, span, kind, annotations }),
            // What was complained about inside is the cause.
            _ if self.errors.iter().any(|e| span.start <= e.span.start && e.span.end <= span.end) => None,
            Ok(found) => {
                self.complain(span, format!("expected {known}, found {found}"));
                None
            }
            Err(message) => {
                let mut problem = Diagnostic::ty(span, message);
                problem.hint = hint(&kind);
                self.report(problem);
                None
            }
        }
    }

    /// Complains about a type that stayed unknown, if nothing else is wrong: wherever it can be written down, and
    /// elsewhere if that is nowhere.
    fn unknown(&mut self, head: &Head, ty: Ty, span: Span, children: usize) {
        if self.errors_before > 0 || self.types.is_error(ty) {
            return;
        }
        let problem = match head {
            Head::Vector if children == 0 => {
                Diagnostic::ty(span, "the element type of this empty vector cannot be inferred")
                    .with_hint("write it down: `[]: vec[i64]`")
            }
            Head::NewBuilder => Diagnostic::ty(span, "what this builder holds cannot be inferred")
                .with_hint("write it down: `appender[i64]`"),
            _ if self.errors.is_empty() => {
                let message = format!("the type of this expression cannot be inferred: {}", self.types.show(ty));
                Diagnostic::ty(span, message).with_hint("write it down: `expression: type`")
            }
            _ => return,
        };
        self.report(problem);
    }
}

/// What to do about a breach of a typing rule, where that is not obvious.
fn hint(kind: &crate::ir::ExprKind) -> Option<String> {
    use crate::ir::ExprKind;
    use crate::op::BinaryOp;
    let hint = match kind {
        ExprKind::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, _) if a.ty == Type::BOOL => {
            "use `&&`, `||` or `^`, or convert to an integer: `i64(..)`"
        }
        ExprKind::Binary(BinaryOp::BitAnd | BinaryOp::BitOr, a, _)
            if matches!(a.ty, Type::Scalar(ScalarKind::F32 | ScalarKind::F64)) =>
        {
            "`&` and `|` are for integers and bool"
        }
        ExprKind::Unary(op, value)
            if value.ty.as_scalar().is_some_and(ScalarKind::is_integer) && op.name().len() > 1 =>
        {
            "math functions are for floats: convert with `f64(..)`"
        }
        ExprKind::Binary(BinaryOp::Pow, ..) => "`pow` is for floats: convert with `f64(..)`",
        ExprKind::Select { on_true, .. } if typing::holds_builder(&on_true.ty) => "use `if`",
        _ => return None,
    };
    Some(hint.to_owned())
}
