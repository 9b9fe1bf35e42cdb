//! How often, and where, the body of a loop merges into its builders.

use std::collections::HashMap;

use weld_core::ir::{Expr, ExprKind, Func, Sym, deep};
use weld_core::op::BinaryOp;
use weld_core::opt::can_fail;
use weld_core::ty::{BuilderType, Type};

use super::any;

/// How a loop's body fills the appenders that it gets from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Merges {
    /// The most merges into one appender on any path through the body.
    pub(crate) most: u64,
    /// Every path makes exactly `most` merges.
    pub(crate) always: bool,
    /// An inner loop fills builders that come from outside, in numbers not known here.
    pub(crate) inner: bool,
}

/// Counts the merges of a loop body. Merges into builders made inside count too, which only makes room for nothing.
pub(crate) fn merges(body: &Expr) -> Merges {
    let none = Merges { most: 0, always: true, inner: false };
    let and = |a: Merges, b: Merges| Merges {
        most: a.most.saturating_add(b.most),
        always: a.always && b.always,
        inner: a.inner || b.inner,
    };
    match &body.kind {
        ExprKind::If { cond, on_true, on_false } => {
            let (a, b) = (merges(on_true), merges(on_false));
            let either = Merges {
                most: a.most.max(b.most),
                always: a.always && b.always && a.most == b.most,
                inner: a.inner || b.inner,
            };
            and(merges(cond), either)
        }
        ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, b) => {
            let right = merges(b);
            and(merges(a), Merges { always: right.always && right.most == 0, ..right })
        }
        ExprKind::For { iter, builder, func } => {
            let mut all = merges(builder);
            iter.each_child(&mut |child| all = and(all, merges(child)));
            let inside = merges(&func.body);
            let fresh = is_fresh(builder);
            Merges { inner: all.inner || (!fresh && (inside.most > 0 || inside.inner)), ..all }
        }
        ExprKind::Iterate { init, step } => {
            let inside = merges(&step.body);
            let init = merges(init);
            Merges { inner: init.inner || inside.most > 0 || inside.inner, ..init }
        }
        ExprKind::Sort { data, .. } => merges(data),
        ExprKind::Merge { builder, value } => {
            let counts = matches!(builder.ty, Type::Builder(BuilderType::Appender(_)));
            let own = Merges { most: counts as u64, ..none };
            and(and(merges(builder), merges(value)), own)
        }
        _ => {
            let mut all = none;
            body.each_child(&mut |child| {
                all = and(all, deep(|| merges(child)));
            });
            all
        }
    }
}

/// Whether everything that a loop merges into vecmergers goes to an index that no other iteration has: the loop's own,
/// or its element if that is one of a range.
pub(crate) fn merges_in_place(func: &Func, range: bool) -> bool {
    let [_, (index, _), (element, _)] = &func.params[..] else { return false };
    let is_own = |e: &Expr| matches!(e.kind, ExprKind::Var(sym) if sym == *index || (range && sym == *element));
    !any(&func.body, &mut |e| match &e.kind {
        ExprKind::Merge { builder, value } if matches!(builder.ty, Type::Builder(BuilderType::VecMerger { .. })) => {
            !matches!(&value.kind, ExprKind::Struct(parts) if is_own(&parts[0]))
        }
        _ => false,
    })
}

/// For each builder of a loop in order: how often every iteration merges into it, if that is always the same. The lanes
/// of a `simd` value count each.
pub(crate) fn merges_each(func: &Func) -> Vec<Option<u64>> {
    let Some((sym, ty)) = func.params.first() else { return Vec::new() };
    let mut scope = HashMap::from([(*sym, Merged::none(ty))]);
    let mut each = Vec::new();
    count_merges(&func.body, &mut scope).collect(ty, &mut each);
    each
}

/// Whether every iteration of a loop into one builder merges a value at the loop's own index, and raises no error but
/// that of the index.
pub(crate) fn merges_at_index(func: &Func) -> bool {
    let [(builder, _), (index, _), _] = &func.params[..] else { return false };
    at_index(&func.body, *builder, *index)
}

fn at_index(e: &Expr, own: Sym, index: Sym) -> bool {
    let is = |e: &Expr, sym| matches!(e.kind, ExprKind::Var(s) if s == sym);
    deep(|| match &e.kind {
        ExprKind::Merge { builder, value } => match &value.kind {
            ExprKind::Struct(parts) => is(builder, own) && is(&parts[0], index) && !can_fail(&parts[1]),
            _ => false,
        },
        ExprKind::Let { bindings, body } => {
            !bindings.iter().any(|binding| can_fail(&binding.value)) && at_index(body, own, index)
        }
        ExprKind::If { cond, on_true, on_false } => {
            !can_fail(cond) && at_index(on_true, own, index) && at_index(on_false, own, index)
        }
        _ => false,
    })
}

/// How often has been merged into a builder, or into those of a struct.
#[derive(Clone, PartialEq, Debug)]
enum Merged {
    Unknown,
    Times(u64),
    Fields(Vec<Merged>),
}

impl Merged {
    fn none(ty: &Type) -> Merged {
        match ty {
            Type::Struct(fields) => Merged::Fields(fields.iter().map(Merged::none).collect()),
            _ => Merged::Times(0),
        }
    }

    fn collect(&self, ty: &Type, out: &mut Vec<Option<u64>>) {
        match (self, ty) {
            (Merged::Fields(parts), Type::Struct(fields)) => {
                parts.iter().zip(fields.iter()).for_each(|(part, field)| part.collect(field, out));
            }
            (_, Type::Struct(fields)) => fields.iter().for_each(|field| Merged::Unknown.collect(field, out)),
            (Merged::Times(times), _) => out.push(Some(*times)),
            _ => out.push(None),
        }
    }

    fn join(self, other: Merged) -> Merged {
        match (self, other) {
            (Merged::Fields(a), Merged::Fields(b)) => {
                Merged::Fields(a.into_iter().zip(b).map(|(a, b)| a.join(b)).collect())
            }
            (a, b) if a == b => a,
            _ => Merged::Unknown,
        }
    }
}

fn count_merges(expr: &Expr, scope: &mut HashMap<Sym, Merged>) -> Merged {
    deep(|| match &expr.kind {
        ExprKind::Var(sym) => scope.get(sym).cloned().unwrap_or(Merged::Unknown),
        ExprKind::Merge { builder, value } => {
            let lanes = if matches!(value.ty, Type::Simd(_)) { weld_core::interp::LANES as u64 } else { 1 };
            match count_merges(builder, scope) {
                Merged::Times(times) => times.checked_add(lanes).map_or(Merged::Unknown, Merged::Times),
                _ => Merged::Unknown,
            }
        }
        ExprKind::Struct(parts) => Merged::Fields(parts.iter().map(|part| count_merges(part, scope)).collect()),
        ExprKind::Field(of, index) => match count_merges(of, scope) {
            Merged::Fields(parts) => parts.into_iter().nth(*index as usize).unwrap_or(Merged::Unknown),
            _ => Merged::Unknown,
        },
        ExprKind::If { on_true, on_false, .. } => count_merges(on_true, scope).join(count_merges(on_false, scope)),
        ExprKind::Let { bindings, body } => {
            for binding in bindings.iter().filter(|binding| binding.value.ty.is_builder()) {
                let merged = count_merges(&binding.value, scope);
                scope.insert(binding.sym, merged);
            }
            count_merges(body, scope)
        }
        _ => Merged::Unknown,
    })
}

/// Whether a builder expression makes its builders on the spot.
fn is_fresh(builder: &Expr) -> bool {
    match &builder.kind {
        ExprKind::NewBuilder { .. } => true,
        ExprKind::Struct(parts) => parts.iter().all(is_fresh),
        _ => false,
    }
}
