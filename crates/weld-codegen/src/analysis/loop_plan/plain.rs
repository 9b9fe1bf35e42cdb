//! Loops that run one iteration after the other: what is done before the loop or a strip of it, so that it is not done
//! in every iteration.

use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind, Func};
use weld_core::ty::{BuilderType, Type};

use super::appends::{self, Append};
use super::buffered::{self, Buffered};
use super::early_keys::{HashAhead, Prefetch, hash_ahead, prefetches};
use super::{FastPath, Inputs, Params};
use crate::analysis::{any, has_loops, merges, merges_at_index};

/// Iterations of an innermost loop between two looks at the cancellation flag.
const STRIP: u32 = 16 * 1024;
/// The same for a loop that contains loops.
const OUTER_STRIP: u32 = 64;
/// More merges an iteration have their room made one by one.
const MERGES_MAX: u64 = 64;

/// How such a loop runs.
pub(crate) struct Plain<'e> {
    /// Iterations between two looks at the cancellation flag.
    pub(crate) strip: u32,
    /// Room that is made in appenders ahead.
    pub(crate) room: Option<Room>,
    /// Conditional appends without a branch.
    pub(crate) appends: Vec<Append<'e>>,
    /// Every iteration merges into a vecmerger at the loop's own index, which is checked for all of them: where the
    /// merge stands.
    pub(crate) checked_index: Option<Span>,
    pub(crate) hashed: Option<HashAhead<'e>>,
    /// What nested loops merge is collected.
    pub(crate) buffered: Option<Buffered>,
    pub(crate) prefetches: Vec<Prefetch<'e>>,
    /// LLVM is not to vectorise the loop.
    pub(crate) is_scalar: bool,
}

/// How much room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// The most merges of an iteration into one appender.
    pub(crate) most: u64,
    /// Every iteration makes that many, so there is room for the whole loop from the start.
    pub(crate) always: bool,
}

pub(super) fn plan<'e>(func: &'e Func, params: &Params<'e>, inputs: &Inputs<'_>) -> Plain<'e> {
    let fills = merges(&func.body);
    let is_known = !fills.inner && fills.most > 0 && fills.most < MERGES_MAX && has_appender(params.builder_ty);
    let is_vec_merger = matches!(params.builder_ty, Type::Builder(BuilderType::VecMerger { .. }));
    let is_outer = has_loops(&func.body);
    let hashed = if is_outer || inputs.is_buffered { None } else { hash_ahead(func, params, inputs) };
    let is_checked = is_vec_merger && inputs.allows(FastPath::CheckedIndices) && merges_at_index(func);
    // Strings that must be copied are not copied for nothing.
    let appends = if is_known && !inputs.copies_bytes { appends::find(func, params) } else { Vec::new() };
    Plain {
        strip: match &hashed {
            Some(hashed) => hashed.strip,
            None if is_outer => OUTER_STRIP,
            None => STRIP,
        },
        room: is_known.then_some(Room { most: fills.most, always: fills.always }),
        appends,
        checked_index: is_checked.then(|| merge_span(&func.body)),
        hashed,
        buffered: buffered::find(func, params, inputs),
        prefetches: prefetches(func, params, inputs),
        is_scalar: only_gathers(&func.body),
    }
}

/// Whether an iteration moves the row at a position that was selected, and computes nothing. The processor's gathers
/// are slower there than loads, one after the other, whose addresses its prefetcher sees: six of twelve million texts 57
/// ms and 49, nearly all of them 76 and 53.
fn only_gathers(body: &Expr) -> bool {
    let computes = |e: &Expr| {
        matches!(
            e.kind,
            ExprKind::Binary(..)
                | ExprKind::Unary(..)
                | ExprKind::Intrinsic(..)
                | ExprKind::Select { .. }
                | ExprKind::If { .. }
                | ExprKind::For { .. }
        )
    };
    any(body, &mut |e| matches!(e.kind, ExprKind::Lookup { checked: false, .. })) && !any(body, &mut |e| computes(e))
}

fn has_appender(builders: &Type) -> bool {
    match builders {
        Type::Struct(fields) => fields.iter().any(has_appender),
        ty => matches!(ty, Type::Builder(BuilderType::Appender(_))),
    }
}

/// Where the first merge of a body stands.
fn merge_span(body: &Expr) -> Span {
    let mut span = body.span;
    any(body, &mut |e| {
        let is_merge = matches!(e.kind, ExprKind::Merge { .. });
        if is_merge {
            span = e.span;
        }
        is_merge
    });
    span
}
