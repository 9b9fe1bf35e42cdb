//! Rows that nested loops merge into a dictionary, as joins do: one now and then, of which nothing is known before.
//!
//! ```text
//! for(v, dictmerger[K,V,op], |b, i, x| let m = optlookup(t, x.$0); if(m.$0, for(m.$1, b, |b, j, y| merge(b, {..})), b))
//! ```
//!
//! They are collected, and merged by the strip: keys are hashed and memory is asked for ahead, and what finds or makes
//! a group is in the code once, however many places merge.

use weld_core::ir::{Expr, ExprKind, Func};
use weld_core::ty::{BuilderType, Type};

use super::{FastPath, Inputs, Params};
use crate::analysis::any;
use crate::layout::has_pointers;

/// The merges of a loop that are collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Buffered {
    /// How many are merged at a time.
    pub(crate) strip: u32,
    /// Smaller tables stay in the second-level cache: nothing is asked for ahead.
    pub(crate) table_bytes_min: u32,
}

pub(super) fn find(func: &Func, params: &Params<'_>, inputs: &Inputs<'_>) -> Option<Buffered> {
    let Type::Builder(BuilderType::DictMerger { key, value, .. }) = params.builder_ty else { return None };
    // What is pointed to may be gone when it is merged.
    if inputs.is_buffered || has_pointers(key) || has_pointers(value) || !inputs.allows(FastPath::BufferedMerges) {
        return None;
    }
    let is_new = |builder: &Expr| matches!(builder.kind, ExprKind::NewBuilder { .. });
    let merges = any(&func.body, &mut |e| match &e.kind {
        ExprKind::For { builder, .. } => builder.ty == *params.builder_ty && !is_new(builder),
        _ => false,
    });
    if !merges {
        return None;
    }
    Some(Buffered { strip: inputs.machine.keys_ahead(), table_bytes_min: inputs.machine.l2_bytes })
}
