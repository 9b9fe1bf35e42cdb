//! Which vectors of its state a step of an `iterate` may change in place, seen from the step alone. Whether the first
//! step may change the initial ones, or must copy them, is decided in `reuse.rs`.

use weld_core::ir::counted::is_counter as is_part;
use weld_core::ir::{Expr, ExprKind, Func, Iter, Sym, deep};
use weld_core::ty::Type;

use super::any;

/// A vector of the state that steps change in place.
pub(crate) struct Place {
    /// The field of the state; `None` if the state is the vector.
    pub(crate) field: Option<u32>,
    pub(crate) ty: Type,
}

/// The vectors that a step may change in place: nothing else keeps them, and what changes one reads no other that is
/// changed before.
pub(crate) fn places(step: &Func) -> Vec<Place> {
    let [(state, ty)] = &step.params[..] else { return Vec::new() };
    let result = match &step.body.kind {
        ExprKind::Let { body, .. } => body,
        _ => &step.body,
    };
    let ExprKind::Struct(parts) = &result.kind else { return Vec::new() };
    let next = &parts[0];
    let candidates: Vec<(Option<u32>, &Type, &Expr)> = match (ty, &next.kind) {
        (Type::Vec(_), _) => vec![(None, ty, next)],
        (Type::Struct(types), ExprKind::Struct(fields)) => {
            let numbered = types.iter().zip(fields).enumerate();
            numbered.map(|(i, (ty, field))| (Some(i as u32), ty, field)).collect()
        }
        _ => Vec::new(),
    };
    let mut places: Vec<Place> = Vec::new();
    for (field, ty, value) in candidates {
        let is_updated = any(value, &mut |e| matches!(e.kind, ExprKind::Update { .. }));
        if matches!(ty, Type::Vec(_))
            && !ty.is_bytes()
            && is_updated
            && is_change(value, *state, field)
            && !is_kept(&step.body, Some(value), *state, field)
            && !places.iter().any(|before| any(value, &mut |e| is_part(e, *state, before.field)))
        {
            places.push(Place { field, ty: ty.clone() });
        }
    }
    places
}

/// Whether the expression is that part of the state, or updates of it.
fn is_change(e: &Expr, state: Sym, field: Option<u32>) -> bool {
    deep(|| match &e.kind {
        ExprKind::Update { data, .. } => is_change(data, state, field),
        ExprKind::Let { body, .. } => is_change(body, state, field),
        ExprKind::If { on_true, on_false, .. } => is_change(on_true, state, field) && is_change(on_false, state, field),
        _ => is_part(e, state, field),
    })
}

/// Whether anything but `changed` may keep that part of the state: uses that do not just read elements or the length.
fn is_kept(e: &Expr, changed: Option<&Expr>, state: Sym, field: Option<u32>) -> bool {
    deep(|| {
        if changed.is_some_and(|changed| std::ptr::eq(e, changed)) {
            return is_kept_in_change(e, state, field);
        }
        if is_part(e, state, field) || matches!(e.kind, ExprKind::Var(sym) if sym == state) {
            return true;
        }
        let is_read = |data: &Expr| is_part(data, state, field);
        let mut kept = false;
        let mut look = |part: &Expr| kept = kept || is_kept(part, changed, state, field);
        match &e.kind {
            ExprKind::Len(data) if is_read(data) => {}
            ExprKind::Lookup { data, key, .. } if is_read(data) => look(key),
            ExprKind::For { iter, builder, func } if matches!(&**iter, Iter::Vector(data) if is_read(data)) => {
                look(builder);
                look(&func.body);
            }
            // Other fields.
            ExprKind::Field(of, index) if matches!(of.kind, ExprKind::Var(sym) if sym == state) => {
                return field == Some(*index);
            }
            _ => e.each_child(&mut |child| look(child)),
        }
        kept
    })
}

/// [`is_kept`] of what an expression that [`is_change`] reads.
fn is_kept_in_change(e: &Expr, state: Sym, field: Option<u32>) -> bool {
    let kept = |part: &Expr| is_kept(part, None, state, field);
    deep(|| match &e.kind {
        ExprKind::Update { data, index, value } => kept(index) || kept(value) || is_kept_in_change(data, state, field),
        ExprKind::Let { bindings, body } => {
            bindings.iter().any(|binding| kept(&binding.value)) || is_kept_in_change(body, state, field)
        }
        ExprKind::If { cond, on_true, on_false } => {
            kept(cond) || is_kept_in_change(on_true, state, field) || is_kept_in_change(on_false, state, field)
        }
        _ => false,
    })
}
