//! Prefilters: loops that keep the rows whose keys a table may contain,
//!
//! ```text
//! for(sel, appender[i32], |b, i, j| let r = lookup(c, i64(j)); if(may_contain(t, r.$0), merge(b, j), b))
//! ```
//!
//! `may_contain` may be true of any key, and what comes after looks the key up. So all rows may be kept, and where
//! nearly all pass, as in a stream that has been filtered by the table's keys already, to ask is a waste.

use weld_core::ir::{Expr, ExprKind, Func};
use weld_core::op::Intrinsic;
use weld_core::ty::{BuilderType, Type};

use super::Params;

/// If so many of 16 rows pass, or more, ..
const PASSED_MIN: u32 = 15;
/// .. so many of the next vectors are kept as a whole.
const VECTORS: u32 = 15;

/// A loop that may keep all rows.
pub(crate) struct Prefilter<'e> {
    /// What asks the table.
    pub(crate) asks: &'e Expr,
    /// The table, if it is asked by hashes: it may have no answer for any.
    pub(crate) hashed: Option<&'e Expr>,
    /// Of 16 rows, how many must pass for the next vectors to be kept as a whole.
    pub(crate) passed_min: u32,
    /// How many vectors these are.
    pub(crate) vectors: u32,
}

pub(super) fn find<'e>(func: &'e Func, params: &Params<'_>) -> Option<Prefilter<'e>> {
    let Type::Builder(BuilderType::Appender(element)) = params.builder_ty else { return None };
    let mut body = &*func.body;
    while let ExprKind::Let { body: inner, .. } = &body.kind {
        body = inner;
    }
    let is_builder = |expr: &Expr| matches!(expr.kind, ExprKind::Var(sym) if sym == params.builder);
    let ExprKind::If { cond, on_true, on_false } = &body.kind else { return None };
    let hashed = match &cond.kind {
        ExprKind::Intrinsic(Intrinsic::MayContain, _) => None,
        ExprKind::Intrinsic(Intrinsic::MayContainHashed, args) => args.first(),
        _ => return None,
    };
    let ExprKind::Merge { builder, value } = &on_true.kind else { return None };
    let is_position = |expr: &Expr| match &expr.kind {
        ExprKind::Var(sym) => *sym == params.element,
        ExprKind::Cast(of) => matches!(of.kind, ExprKind::Var(sym) if sym == params.index),
        ExprKind::Field(of, 0) => matches!(of.kind, ExprKind::Var(sym) if sym == params.element),
        _ => false,
    };
    // Behind it is what is known of the row.
    let is_kept = match &value.kind {
        ExprKind::Struct(parts) => parts.first().is_some_and(is_position),
        _ => **element == Type::I32 && is_position(value),
    };
    (is_builder(builder) && is_builder(on_false) && is_kept).then_some(Prefilter {
        asks: cond,
        hashed,
        passed_min: PASSED_MIN,
        vectors: VECTORS,
    })
}
