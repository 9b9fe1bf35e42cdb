//! Selections: loops that keep the indices at which a cheap condition holds,
//!
//! ```text
//! for(v, appender[i32], |b, i, r| if(p(r), if(q(r), merge(b, i32(i)), b), b))
//! ```
//!
//! The conditions of all rows are computed, so a later one must not fail where an earlier one would have kept it from
//! it.

use weld_core::ir::{Expr, ExprKind, Func};
use weld_core::ty::{BuilderType, Type};

use super::Params;
use crate::analysis::speculatable;
use crate::machine::Machine;

/// What the conditions may cost for rows that a branch would have skipped.
const BUDGET: u32 = 40;
/// Of an index in the selection vector.
const INDEX_BYTES: u32 = 4;

/// The conditions that must all hold, in the order of the text.
pub(crate) struct Selection<'e> {
    pub(crate) conds: Vec<&'e Expr>,
    /// Rows whose conditions are computed at a time: the bytes that hold them take an eighth of the first-level cache.
    pub(crate) strip: u32,
    /// Indices that are stored at a time.
    pub(crate) lanes: u32,
    /// Whether one instruction moves the indices of a vector together.
    pub(crate) compress: bool,
}

pub(super) fn find<'e>(func: &'e Func, params: &Params<'_>, machine: &Machine) -> Option<Selection<'e>> {
    let is_builder = |expr: &Expr| matches!(expr.kind, ExprKind::Var(sym) if sym == params.builder);
    if *params.builder_ty != Type::Builder(BuilderType::Appender(Type::I32.into())) {
        return None;
    }
    let mut conds = Vec::new();
    let mut budget = BUDGET;
    let mut at = &*func.body;
    loop {
        match &at.kind {
            ExprKind::If { cond, on_true, on_false } if is_builder(on_false) => {
                budget = speculatable(cond, budget)?;
                conds.push(&**cond);
                at = on_true;
            }
            ExprKind::Merge { builder, value } if is_builder(builder) && !conds.is_empty() => {
                let ExprKind::Cast(of) = &value.kind else { return None };
                let is_index = matches!(of.kind, ExprKind::Var(sym) if sym == params.index);
                return is_index.then_some(Selection {
                    conds,
                    strip: machine.l1_bytes / 8,
                    lanes: machine.vector_bytes / INDEX_BYTES,
                    compress: machine.can_compress,
                });
            }
            _ => return None,
        }
    }
}
