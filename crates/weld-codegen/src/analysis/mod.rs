//! Facts about a program that emission asks for: which parts of a value are read, how often a loop's body merges, which
//! vectors may be changed in place, what becomes a function of its own, what may be evaluated without need; and how
//! each loop runs, which is decided here ([`loop_plan`]). Functions of the IR, of layouts and of the machine: nothing
//! here knows LLVM.

mod demand;
mod iterate_reuse;
pub(crate) mod loop_plan;
mod merges;
pub(crate) mod narrow;
mod parts;
mod reuse;

use weld_core::ir::{Expr, ExprKind, Func, deep};
use weld_core::op::{BinaryOp, Intrinsic, UnaryOp};

pub(crate) use demand::{Demand, demand_of_operands, demands};
pub(crate) use iterate_reuse::{Place, places};
pub(crate) use merges::{merges, merges_at_index, merges_each, merges_in_place};
pub(crate) use parts::{Part, Parts};
pub(crate) use reuse::Reuse;

/// Iterations that are worth waking a thread, some microseconds of work; those of loops inside count.
pub(crate) const GRAIN: u64 = 16 * 1024;

/// Whether the value is a new vector that nobody else has, so that it may be changed in place.
pub(crate) fn is_temporary(expr: &Expr) -> bool {
    match &expr.kind {
        // Short byte vectors lie in registers.
        _ if expr.ty.is_bytes() => false,
        ExprKind::Result(_) | ExprKind::Update { .. } | ExprKind::Vector(_) => true,
        ExprKind::Let { body, .. } => is_temporary(body),
        _ => false,
    }
}

/// Whether an expression contains a node that `found` accepts.
pub(crate) fn any(expr: &Expr, found: &mut dyn FnMut(&Expr) -> bool) -> bool {
    if found(expr) {
        return true;
    }
    let mut hit = false;
    expr.each_child(&mut |child| {
        hit = hit || deep(|| any(child, found));
    });
    hit
}

/// Whether an expression contains something that may take long.
pub(crate) fn has_loops(expr: &Expr) -> bool {
    any(expr, &mut |e| matches!(e.kind, ExprKind::For { .. } | ExprKind::Iterate { .. } | ExprKind::Sort { .. }))
}

/// Whether a function calls C functions, which may not bear several threads.
pub(crate) fn calls_c(func: &Func) -> bool {
    any(&func.body, &mut |e| matches!(e.kind, ExprKind::CUdf { .. }))
}

/// Whether evaluating an expression may take memory of its run.
pub(crate) fn allocates(body: &Expr) -> bool {
    any(body, &mut |e| {
        matches!(
            e.kind,
            ExprKind::NewBuilder { .. }
                | ExprKind::Sort { .. }
                | ExprKind::ToVec(_)
                | ExprKind::Update { .. }
                | ExprKind::Vector(_)
                | ExprKind::Serialize(_)
                | ExprKind::Deserialize(_)
                | ExprKind::For { .. }
                | ExprKind::Intrinsic(Intrinsic::NdCount, _)
        )
    })
}

/// Whether evaluating the expression without need is harmless and about as cheap as a branch: `budget` is how many
/// operations it may cost, and what is left is given back.
pub(crate) fn speculatable(expr: &Expr, budget: u32) -> Option<u32> {
    let scalar = |expr: &Expr| expr.ty.as_scalar().is_some();
    match &expr.kind {
        ExprKind::Literal(_) | ExprKind::Var(_) => Some(budget),
        ExprKind::Field(of, _) => speculatable(of, budget),
        ExprKind::Struct(parts) => parts.iter().try_fold(budget, |budget, part| speculatable(part, budget)),
        ExprKind::Cast(a) => speculatable(a, budget.checked_sub(1)?),
        ExprKind::Unary(UnaryOp::Neg | UnaryOp::Not | UnaryOp::Sqrt | UnaryOp::Abs, a) => {
            speculatable(a, budget.checked_sub(1)?)
        }
        ExprKind::Binary(op, a, b) => {
            let kind = a.ty.as_scalar()?;
            let cost = match op {
                BinaryOp::Div if kind.is_float() => 4,
                BinaryOp::Div | BinaryOp::Rem | BinaryOp::Pow => return None,
                _ => 1,
            };
            speculatable(b, speculatable(a, budget.checked_sub(cost)?)?)
        }
        ExprKind::If { cond, on_true, on_false } | ExprKind::Select { cond, on_true, on_false } if scalar(expr) => {
            let budget = speculatable(cond, budget.checked_sub(1)?)?;
            speculatable(on_false, speculatable(on_true, budget)?)
        }
        ExprKind::Intrinsic(Intrinsic::OrderKey, args) => speculatable(&args[0], budget.checked_sub(3)?),
        _ => None,
    }
}
