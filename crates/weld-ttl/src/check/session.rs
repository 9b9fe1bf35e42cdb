//! Calls of functions of the session, whatever their language: their shapes as types of this one.

use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ty::{ScalarKind, Type as IrType};
use weld_frontend::{Function, Shape};

use super::Checker;
use super::stmt::wrong;
use crate::tree::Name;
use crate::typed::{Expr, ExprKind};
use crate::types::{Dim, Elem, Type};

impl Checker<'_> {
    pub(super) fn session_call(
        &mut self,
        name: Name<'_>,
        function: Arc<Function>,
        args: Vec<Expr>,
        span: Span,
    ) -> Expr {
        if function.params.len() != args.len() {
            let (wanted, found) = (function.params.len(), args.len());
            let plural = if wanted == 1 { "argument" } else { "arguments" };
            self.error(span, format!("`{}` takes {wanted} {plural}, found {found}", name.text));
            return wrong(span);
        }
        let mut converted = Vec::new();
        for (i, (arg, param)) in args.into_iter().zip(&function.params).enumerate() {
            let what = format!("argument {} of `{}`, `{}`", i + 1, name.text, param.name);
            let Some(ty) = ty(&param.shape) else {
                self.no_type(name, &what, &param.shape);
                return wrong(span);
            };
            converted.push(self.converted(arg, &ty, &what));
        }
        let Some(ty) = ty(&function.output()) else {
            self.no_type(name, &format!("the result of `{}`", name.text), &function.output());
            return wrong(span);
        };
        Expr { kind: ExprKind::SessionCall { function, args: converted }, ty, span }
    }

    fn no_type(&mut self, name: Name<'_>, what: &str, shape: &Shape) {
        let message = format!("{what}: expected int, float or a matrix of them, found {}", shape.described());
        self.report(Diagnostic::ty(name.span, message).with_hint("the function is one of the session"));
    }
}

/// The type whose values lie as the shape says.
fn ty(shape: &Shape) -> Option<Type> {
    let elem = |kind: ScalarKind| match kind {
        ScalarKind::I32 => Some(Elem::Int),
        ScalarKind::F32 => Some(Elem::Float),
        _ => None,
    };
    Some(match shape {
        Shape::Void => Type::Void,
        Shape::Plain(IrType::Scalar(kind)) => Type::scalar(elem(*kind)?),
        Shape::Plain(IrType::Vec(element)) => Type::Matrix(elem(element.as_scalar()?)?, [Dim::Open].into()),
        Shape::List(element) => match &**element {
            Shape::Plain(IrType::Scalar(kind)) => Type::Matrix(elem(*kind)?, [Dim::Open].into()),
            _ => return None,
        },
        Shape::Array(array) => {
            let dim = |size: &Option<u64>| size.map_or(Dim::Open, |size| Dim::Known(size as i64));
            Type::Matrix(elem(array.element)?, array.sizes.iter().map(dim).collect())
        }
        _ => return None,
    })
}
