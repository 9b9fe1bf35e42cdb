//! Expressions: what each operator takes and gives.

use weld_core::diag::{Diagnostic, Span};

use super::Checker;
use super::stmt::{matrix, wrong};
use crate::tree::{self, BinaryOp, UnaryOp};
use crate::typed::{Expr, ExprKind, Index};
use crate::types::{Dim, Type, joined};

impl<'a> Checker<'a> {
    pub(super) fn expr(&mut self, e: &'a tree::Expr<'a>) -> Expr {
        weld_core::ir::deep(|| self.expr_here(e))
    }

    fn expr_here(&mut self, e: &'a tree::Expr<'a>) -> Expr {
        let span = e.span;
        match &e.kind {
            tree::ExprKind::Int(value) => Expr { kind: ExprKind::Int(*value), ty: Type::Int, span },
            tree::ExprKind::Float(value) => Expr { kind: ExprKind::Float(*value), ty: Type::Float, span },
            tree::ExprKind::Name(name) => match self.variable(name, span) {
                Some((var, ty)) => Expr { kind: ExprKind::Var(var), ty, span },
                None => wrong(span),
            },
            tree::ExprKind::Call { name, args } => self.call_value(*name, args, span),
            tree::ExprKind::List(items) => self.list(items, span),
            tree::ExprKind::Slice { data, indices } => self.slice(data, indices, span),
            tree::ExprKind::Unary(op, a) => {
                let a = self.expr(a);
                self.unary(*op, a, span)
            }
            tree::ExprKind::Binary(op, a, b) => {
                let name = named(a);
                let (a, b) = (self.expr(a), self.expr(b));
                match a.ty == Type::Wrong || b.ty == Type::Wrong {
                    true => wrong(span),
                    false if *op == BinaryOp::Size => self.size(&name, a, b, span),
                    false => self.binary(*op, a, b, span),
                }
            }
        }
    }

    fn list(&mut self, items: &'a [tree::Expr<'a>], span: Span) -> Expr {
        let items: Vec<Expr> = items.iter().map(|item| self.expr(item)).collect();
        if items.iter().any(|item| item.ty == Type::Wrong) {
            return wrong(span);
        }
        let Some(elem) = items[0].ty.as_elem() else {
            let message = format!("an element of an initializer list: expected int or float, found {}", items[0].ty);
            self.error(items[0].span, message);
            return wrong(span);
        };
        if let Some(other) = items.iter().find(|item| item.ty != items[0].ty) {
            let message = format!(
                "the elements of an initializer list have one type: expected {}, found {}",
                items[0].ty, other.ty
            );
            self.error(other.span, message);
            return wrong(span);
        }
        let ty = Type::Matrix(elem, [Dim::Known(items.len() as i64)].into());
        Expr { kind: ExprKind::List(items), ty, span }
    }

    fn slice(&mut self, data: &'a tree::Expr<'a>, indices: &'a [tree::Expr<'a>], span: Span) -> Expr {
        let name = named(data);
        let data = self.expr(data);
        let indices: Vec<Expr> = indices.iter().map(|index| self.expr(index)).collect();
        if data.ty == Type::Wrong || indices.iter().any(|index| index.ty == Type::Wrong) {
            return wrong(span);
        }
        let Some((elem, dims)) = matrix(&data) else {
            self.error(span, format!("a slice `{{..}}` of `{name}`: expected a matrix, found {}", data.ty));
            return wrong(span);
        };
        if !self.rank_fits(&name, dims.len(), indices.len(), span) {
            return wrong(span);
        }
        let mut parts = Vec::new();
        for (at, (index, dim)) in indices.into_iter().zip(dims.iter()).enumerate() {
            match (index.ty.clone(), index.kind) {
                (Type::Range, ExprKind::Range(start, end)) => {
                    self.range_fits(&name, at, (&start, &end), *dim, index.span);
                    parts.push(Index::Range(*start, *end));
                }
                (Type::Int, kind) => {
                    let index = Expr { kind, ..index };
                    self.index_fits(&name, at, &index, *dim);
                    parts.push(Index::One(index));
                }
                (other, _) => {
                    self.error(index.span, format!("index {at} of `{name}`: expected int or a range, found {other}"));
                    return wrong(span);
                }
            }
        }
        let scalars: Result<Vec<Expr>, Vec<Index>> = match parts.iter().all(|part| matches!(part, Index::One(_))) {
            true => {
                Ok(parts.into_iter().filter_map(|part| if let Index::One(e) = part { Some(e) } else { None }).collect())
            }
            false => Err(parts),
        };
        let data = Box::new(data);
        match scalars {
            Ok(indices) => Expr { kind: ExprKind::Element { data, indices }, ty: Type::scalar(elem), span },
            Err(indices) => {
                let size = |index: &Index| if let Index::One(_) = index { Dim::Known(1) } else { Dim::Open };
                let ty = Type::Matrix(elem, indices.iter().map(size).collect());
                Expr { kind: ExprKind::Slice { data, indices }, ty, span }
            }
        }
    }

    fn unary(&mut self, op: UnaryOp, a: Expr, span: Span) -> Expr {
        let fits = match op {
            UnaryOp::Neg => a.ty.as_elem().is_some(),
            UnaryOp::Not => a.ty == Type::Int,
        };
        if a.ty == Type::Wrong {
            return wrong(span);
        }
        if !fits {
            let wanted = if op == UnaryOp::Neg { "int or float" } else { "int" };
            self.error(span, format!("the operand of `{}`: expected {wanted}, found {}", op.sign(), a.ty));
            return wrong(span);
        }
        let ty = a.ty.clone();
        let kind = match op {
            UnaryOp::Neg => ExprKind::Neg(Box::new(a)),
            UnaryOp::Not => ExprKind::Not(Box::new(a)),
        };
        Expr { kind, ty, span }
    }

    fn binary(&mut self, op: BinaryOp, a: Expr, b: Expr, span: Span) -> Expr {
        let ty = match op {
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Add | BinaryOp::Sub => self.arithmetic(op, &a, &b, span),
            BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne => {
                self.comparison(op, &a, &b, span)
            }
            BinaryOp::And | BinaryOp::Or | BinaryOp::Range => self.of_ints(op, &a, &b, span),
            BinaryOp::MatMul => self.product(&a, &b, span),
            BinaryOp::Size => None,
        };
        let Some(ty) = ty else { return wrong(span) };
        let (a, b) = (Box::new(a), Box::new(b));
        let kind = if op == BinaryOp::Range { ExprKind::Range(a, b) } else { ExprKind::Binary(op, a, b) };
        Expr { kind, ty, span }
    }

    fn arithmetic(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Option<Type> {
        let sign = op.sign();
        match (&a.ty, &b.ty) {
            (Type::Int, Type::Int) | (Type::Float, Type::Float) => return Some(a.ty.clone()),
            (Type::Matrix(x, from), Type::Matrix(y, to)) if x == y => {
                let dims = from.iter().zip(to.iter()).map(|(a, b)| joined(*a, *b)).collect::<Option<Vec<Dim>>>();
                if let Some(dims) = dims.filter(|_| from.len() == to.len()) {
                    return Some(Type::Matrix(*x, dims.into()));
                }
                let message = format!("`{sign}` needs two matrices of one shape, found {} and {}", a.ty, b.ty);
                self.error(span, message);
                return None;
            }
            (Type::Matrix(elem, _), scalar) if scalar.as_elem() == Some(*elem) => return Some(a.ty.clone()),
            (scalar, Type::Matrix(elem, _)) if scalar.as_elem() == Some(*elem) => return Some(b.ty.clone()),
            _ => {}
        }
        let message = match (&a.ty, &b.ty) {
            (Type::Range | Type::Void, _) | (_, Type::Range | Type::Void) => {
                format!("the operands of `{sign}`: expected numbers or matrices, found {} and {}", a.ty, b.ty)
            }
            (Type::Matrix(..), _) | (_, Type::Matrix(..)) => {
                format!("the operands of `{sign}` have one element type: found {} and {}", a.ty, b.ty)
            }
            _ => format!("the operands of `{sign}` have one type: found {} and {}", a.ty, b.ty),
        };
        self.report(Diagnostic::ty(span, message).with_hint("nothing is converted between int and float"));
        None
    }

    fn comparison(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Option<Type> {
        if a.ty == b.ty && a.ty.as_elem().is_some() {
            return Some(Type::Int);
        }
        let (sign, left, right) = (op.sign(), &a.ty, &b.ty);
        let message =
            format!("the operands of `{sign}`: expected two of int or two of float, found {left} and {right}");
        self.error(span, message);
        None
    }

    /// `&`, `|` and `...`.
    fn of_ints(&mut self, op: BinaryOp, a: &Expr, b: &Expr, span: Span) -> Option<Type> {
        if a.ty != Type::Int || b.ty != Type::Int {
            let (sign, left, right) = (op.sign(), &a.ty, &b.ty);
            self.error(span, format!("the operands of `{sign}`: expected int and int, found {left} and {right}"));
            return None;
        }
        Some(if op == BinaryOp::Range { Type::Range } else { Type::Int })
    }

    fn product(&mut self, a: &Expr, b: &Expr, span: Span) -> Option<Type> {
        let message = match (matrix(a), matrix(b)) {
            (Some((x, n)), Some((y, m))) if n.len() == 2 && m.len() == 2 => {
                if x != y {
                    format!("the operands of `#` have one element type: found {} and {}", a.ty, b.ty)
                } else if joined(n[1], m[0]).is_none() {
                    format!(
                        "`#` needs as many columns on its left as rows on its right, found {} and {}: {} and {}",
                        n[1], m[0], a.ty, b.ty
                    )
                } else {
                    return Some(Type::Matrix(x, [n[0], m[1]].into()));
                }
            }
            _ => format!("the operands of `#`: expected two matrices of rank 2, found {} and {}", a.ty, b.ty),
        };
        self.error(span, message);
        None
    }

    /// `m $ d`.
    fn size(&mut self, name: &str, data: Expr, dim: Expr, span: Span) -> Expr {
        let Some((_, dims)) = matrix(&data).filter(|_| dim.ty == Type::Int) else {
            self.error(
                span,
                format!("the operands of `$`: expected a matrix and int, found {} and {}", data.ty, dim.ty),
            );
            return wrong(span);
        };
        self.dim_fits(name, &dim, dims.len());
        Expr { kind: ExprKind::Size { data: Box::new(data), dim: Box::new(dim) }, ty: Type::Int, span }
    }
}

/// How messages call a sliced expression.
fn named(e: &tree::Expr<'_>) -> String {
    match &e.kind {
        tree::ExprKind::Name(name) => (*name).to_owned(),
        tree::ExprKind::Call { name, .. } => format!("{}(..)", name.text),
        tree::ExprKind::List(_) => "[..]".to_owned(),
        _ => "(..)".to_owned(),
    }
}
