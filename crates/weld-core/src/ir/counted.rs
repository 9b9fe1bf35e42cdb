//! Recognises an `iterate` that counts: `iterate({0L, ..}, |s| {{s.$0 + 1L, ..}, s.$0 + 1L < n})`.

use super::{Expr, ExprKind, Func, Literal, Sym};
use crate::op::BinaryOp;
use crate::ty::Type;

/// A state of which one part grows by one in each step, which goes on as long as that part is below a bound.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The field of the state that counts; `None` if the state is the counter.
    pub field: Option<u32>,
    /// Over variables from outside the step. It cannot fail.
    pub bound: &'a Expr,
}

/// The counter of a step function, if it has one.
pub fn counted(step: &Func) -> Option<Counted<'_>> {
    let [(state, ty)] = &step.params[..] else { return None };
    let (bindings, result) = match &step.body.kind {
        ExprKind::Let { bindings, body } => (&bindings[..], &**body),
        _ => (&[][..], &*step.body),
    };
    let value_of = |e: &'_ Expr| match e.kind {
        ExprKind::Var(sym) => bindings.iter().find(|binding| binding.sym == sym).map(|binding| &binding.value),
        _ => None,
    };
    let ExprKind::Struct(parts) = &result.kind else { return None };
    let [next, go_on] = &parts[..] else { return None };
    let ExprKind::Binary(BinaryOp::Lt, counter, bound) = &value_of(go_on).unwrap_or(go_on).kind else { return None };
    if counter.ty != Type::I64 || !is_outside(bound, *state, bindings) {
        return None;
    }
    let counter = value_of(counter).unwrap_or(counter);
    let next = value_of(next).unwrap_or(next);
    let field = match (ty, &next.kind) {
        (Type::Scalar(_), _) => is_next(value_of(next).unwrap_or(next), *state, None).then_some(None)?,
        (Type::Struct(_), ExprKind::Struct(fields)) => {
            let is_counter = |(index, field): (usize, &Expr)| {
                is_next(value_of(field).unwrap_or(field), *state, Some(index as u32)).then_some(index as u32)
            };
            Some(fields.iter().enumerate().find_map(is_counter)?)
        }
        _ => return None,
    };
    is_next(counter, *state, field).then_some(Counted { field, bound })
}

/// Whether the expression is that part of the state.
pub fn is_counter(e: &Expr, state: Sym, field: Option<u32>) -> bool {
    match (&e.kind, field) {
        (ExprKind::Var(sym), None) => *sym == state,
        (ExprKind::Field(of, index), Some(field)) => {
            *index == field && matches!(of.kind, ExprKind::Var(sym) if sym == state)
        }
        _ => false,
    }
}

/// Whether the expression is that part of the state plus one.
fn is_next(e: &Expr, state: Sym, field: Option<u32>) -> bool {
    let ExprKind::Binary(BinaryOp::Add, a, b) = &e.kind else { return false };
    let one = |e: &Expr| matches!(e.kind, ExprKind::Literal(Literal::I64(1)));
    is_counter(a, state, field) && one(b) || one(a) && is_counter(b, state, field)
}

/// A constant, a variable from outside or the length of one.
fn is_outside(e: &Expr, state: Sym, bindings: &[super::Binding]) -> bool {
    match &e.kind {
        ExprKind::Literal(_) => true,
        ExprKind::Var(sym) => *sym != state && bindings.iter().all(|binding| binding.sym != *sym),
        ExprKind::Len(of) | ExprKind::Field(of, _) => is_outside(of, state, bindings),
        _ => false,
    }
}
