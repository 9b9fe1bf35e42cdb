//! Magnitudes of columns: loops of the shape
//!
//! ```text
//! for(v, merger[{i128,i128},|], |b, i, x| merge(b, {magnitude(x.$0), magnitude(x.$1)}))
//! ```
//!
//! over a chunk that stores these columns as integers without nulls. Narrow arithmetic asks for them before it starts.

use weld_core::ir::{Expr, ExprKind, Func};
use weld_core::op::{Intrinsic, MergeOp, ReduceOp};
use weld_core::ty::{BuilderType, ScalarKind, Type};

use super::Params;
use crate::chunk::{ColumnLayout, Layout};

/// The columns whose magnitudes are merged.
pub(crate) struct Magnitudes {
    /// For each field of the merger the column of the chunk, and how that is stored.
    pub(crate) columns: Vec<(usize, ScalarKind)>,
}

pub(super) fn find(func: &Func, params: &Params<'_>, chunk: &[ColumnLayout]) -> Option<Magnitudes> {
    let Type::Builder(BuilderType::Merger { value: ty, op: MergeOp::All(ReduceOp::BitOr) }) = params.builder_ty else {
        return None;
    };
    let stored = |field: usize| match chunk.get(field)? {
        ColumnLayout { layout: Layout::Fixed(kind), validity: false } if kind.is_integer() => Some((field, *kind)),
        _ => None,
    };
    let columns: Vec<_> = merged_fields(func, params)?.into_iter().map(stored).collect::<Option<_>>()?;
    let types = match &**ty {
        Type::Struct(fields) => &fields[..],
        scalar => std::slice::from_ref(scalar),
    };
    (types.len() == columns.len() && types.iter().all(|ty| *ty == Type::I128)).then_some(Magnitudes { columns })
}

/// The fields whose magnitudes are merged, in order, if the update function does nothing else.
fn merged_fields(func: &Func, params: &Params<'_>) -> Option<Vec<usize>> {
    let ExprKind::Merge { builder: target, value } = &func.body.kind else { return None };
    if !matches!(target.kind, ExprKind::Var(sym) if sym == params.builder) {
        return None;
    }
    let field = |expr: &Expr| {
        let ExprKind::Intrinsic(Intrinsic::Magnitude, args) = &expr.kind else { return None };
        match &args[0].kind {
            ExprKind::Field(of, index) if matches!(of.kind, ExprKind::Var(sym) if sym == params.element) => {
                Some(*index as usize)
            }
            ExprKind::Var(sym) if *sym == params.element => Some(0),
            _ => None,
        }
    };
    match &value.kind {
        ExprKind::Struct(parts) => parts.iter().map(field).collect(),
        _ => Some(vec![field(value)?]),
    }
}
