//! Scalar expressions, conditions, indices and calls.

use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind as IrKind, Literal, build};
use weld_core::op::Intrinsic;
use weld_core::ty::{ScalarKind, Type as IrType};

use super::Lower;
use super::value::{Value, packed};
use crate::tree::BinaryOp;
use crate::typed::{self, ExprKind};

impl<'a> Lower<'a> {
    pub(super) fn expr(&mut self, e: &'a typed::Expr) -> Value {
        weld_core::ir::deep(|| self.expr_here(e))
    }

    fn expr_here(&mut self, e: &'a typed::Expr) -> Value {
        match &e.kind {
            ExprKind::Var(var) => self.vars.get(var).cloned().unwrap_or_else(|| Value::Scalar(build::bool(false))),
            ExprKind::Call { function, args } => {
                let value = self.call(*function, args);
                value.unwrap_or_else(|| Value::Scalar(build::bool(false)))
            }
            ExprKind::SessionCall { function, args } => {
                let result = self.session_call(function, args, e.span);
                self.value_of(result, &e.ty)
            }
            _ if e.ty.as_matrix().is_some() => Value::Matrix(self.matrix_expr(e)),
            _ => Value::Scalar(self.scalar_here(e)),
        }
    }

    /// The value of an `int` or `float`.
    pub(super) fn scalar(&mut self, e: &'a typed::Expr) -> Expr {
        match self.expr(e) {
            Value::Scalar(value) => self.bind("x", value),
            Value::Matrix(matrix) => matrix.data,
        }
    }

    /// An `int` as a position or size.
    pub(super) fn index(&mut self, e: &'a typed::Expr) -> Expr {
        if let Some(value) = typed::constant(e).filter(|_| asks_variables(e)) {
            return build::i64(value.into());
        }
        let value = self.scalar(e);
        match value.kind {
            IrKind::Literal(Literal::I32(value)) => return build::i64(value.into()),
            IrKind::Var(sym) => {
                if let Some(wide) = self.wide.get(&sym) {
                    return wide.clone();
                }
            }
            _ => {}
        }
        self.bind("at", build::cast(value, ScalarKind::I64))
    }

    fn scalar_here(&mut self, e: &'a typed::Expr) -> Expr {
        let span = e.span;
        match &e.kind {
            ExprKind::Int(value) => build::i32(*value).at(span),
            ExprKind::Float(value) => build::lit(Literal::F32(*value)).at(span),
            ExprKind::Zero => build::zero(&IrType::Scalar(scalar_kind_of(e))),
            ExprKind::Element { data, indices } => match self.elements.get(&super::fold::address(e)) {
                Some(element) => element.clone(),
                None => self.element(data, indices, span),
            },
            ExprKind::Neg(a) => {
                let a = self.scalar(a);
                match a.ty == IrType::I32 {
                    true => self.checked(Intrinsic::CheckedSub, build::i32(0), a, span),
                    false => build::neg(a).at(span),
                }
            }
            ExprKind::Not(_) => self.truth(e),
            ExprKind::Binary(op, a, b) => match op {
                BinaryOp::Mul | BinaryOp::Div | BinaryOp::Add | BinaryOp::Sub => {
                    let (a, b) = (self.scalar(a), self.scalar(b));
                    if let Some(value) = self.bounded(*op, &a, &b) {
                        return value;
                    }
                    let value = arithmetic(*op, a, b, span);
                    self.bind("x", value)
                }
                _ => self.truth(e),
            },
            ExprKind::Size { data, dim } => self.size(data, dim, span),
            ExprKind::Convert { value, .. } => self.scalar(value),
            ExprKind::Range(a, b) => {
                self.scalar(a);
                self.scalar(b)
            }
            _ => build::bool(false),
        }
    }

    fn checked(&mut self, op: Intrinsic, a: Expr, b: Expr, span: Span) -> Expr {
        let value = build::intrinsic(op, [a, b]).at(span);
        self.bind("x", value)
    }

    /// 0 or 1.
    fn truth(&mut self, e: &'a typed::Expr) -> Expr {
        let cond = self.condition(e);
        build::cast(cond, ScalarKind::I32).at(e.span)
    }

    /// Whether an `int` is true. Both sides of `&` and `|` are evaluated.
    pub(super) fn condition(&mut self, e: &'a typed::Expr) -> Expr {
        weld_core::ir::deep(|| self.condition_here(e))
    }

    fn condition_here(&mut self, e: &'a typed::Expr) -> Expr {
        let cond = match &e.kind {
            ExprKind::Not(a) => build::not(self.condition(a)),
            ExprKind::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let (a, b) = (self.condition(a), self.condition(b));
                if *op == BinaryOp::And { build::bit_and(a, b) } else { build::bit_or(a, b) }
            }
            ExprKind::Binary(op, a, b) if comparison(*op).is_some() => {
                let (a, b) = (self.scalar(a), self.scalar(b));
                match comparison(*op) {
                    Some(compare) => compare(a, b),
                    None => build::bool(false),
                }
            }
            _ => build::ne(self.scalar(e), build::i32(0)),
        };
        self.bind("holds", cond.at(e.span))
    }

    // Calls.

    pub(super) fn call_statement(&mut self, e: &'a typed::Expr) {
        match &e.kind {
            ExprKind::Call { function, args } => {
                self.call(*function, args);
            }
            ExprKind::SessionCall { function, args } => {
                self.session_call(function, args, e.span);
            }
            _ => {}
        }
    }

    /// What a function of the session gives, as its shape says. Its errors keep their places in its text.
    fn session_call(&mut self, function: &weld_frontend::Function, args: &'a [typed::Expr], span: Span) -> Expr {
        let mut given = Vec::new();
        for arg in args {
            let mut parts = packed(&self.expr(arg), &arg.ty);
            given.push(if parts.len() == 1 { parts.remove(0) } else { build::strct(parts) });
        }
        let result = self.sources.call(function, given, self.flow.names()).at(span);
        self.flow.keep(&function.source.name, result)
    }

    fn call(&mut self, function: usize, args: &'a [typed::Expr]) -> Option<Value> {
        let args: Vec<Value> = args.iter().map(|arg| self.expr(arg)).collect();
        let function = &self.module.functions[function];
        let args = args.into_iter().zip(&function.vars).map(|(arg, var)| match arg {
            Value::Scalar(e) => Value::Scalar(self.flow.bind(&var.name, e)),
            Value::Matrix(mut matrix) => {
                matrix.data = self.flow.bind(&var.name, matrix.data);
                Value::Matrix(matrix)
            }
        });
        let args = args.collect();
        weld_core::ir::deep(|| self.inlined(function, args))
    }
}

/// `a op b` of scalars: integers are checked, floats are IEEE.
pub(super) fn arithmetic(op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
    let is_int = a.ty == IrType::I32;
    let value = match (op, is_int) {
        (BinaryOp::Add, true) => build::intrinsic(Intrinsic::CheckedAdd, [a, b]),
        (BinaryOp::Sub, true) => build::intrinsic(Intrinsic::CheckedSub, [a, b]),
        (BinaryOp::Mul, true) => build::intrinsic(Intrinsic::CheckedMul, [a, b]),
        (BinaryOp::Add, false) => build::add(a, b),
        (BinaryOp::Sub, false) => build::sub(a, b),
        (BinaryOp::Mul, false) => build::mul(a, b),
        _ => build::div(a, b),
    };
    value.at(span)
}

type Compare = fn(Expr, Expr) -> Expr;

fn comparison(op: BinaryOp) -> Option<Compare> {
    Some(match op {
        BinaryOp::Lt => build::lt,
        BinaryOp::Gt => build::gt,
        BinaryOp::Le => build::le,
        BinaryOp::Ge => build::ge,
        BinaryOp::Eq => build::eq,
        BinaryOp::Ne => build::ne,
        _ => return None,
    })
}

/// Whether sizes are asked of variables only. Other matrices are evaluated, which may fail.
fn asks_variables(e: &typed::Expr) -> bool {
    weld_core::ir::deep(|| match &e.kind {
        ExprKind::Size { data, .. } => matches!(data.kind, ExprKind::Var(_)),
        _ => e.children().into_iter().all(asks_variables),
    })
}

fn scalar_kind_of(e: &typed::Expr) -> ScalarKind {
    e.ty.as_elem().map_or(ScalarKind::Bool, super::scalar_kind)
}
