//! Which expressions over 128-bit decimals are tried in 64 bits, where the values at hand nearly always allow it.
//!
//! ```text
//! checked_mul(a, checked_sub(100, b))      row by row: has a product, which costs more than testing a and b
//! a + (100 - b)                            for a strip of rows: a few operators over values that take one load or cast
//! ```

use std::collections::HashSet;

use weld_core::ir::{Expr, ExprKind, Literal, Sym, deep};
use weld_core::op::{BinaryOp, Intrinsic, fits_64_bits, kind_fits_64_bits};
use weld_core::ty::Type;

use super::speculatable;

/// What a part of an expression that is not itself narrowed may cost.
const BUDGET: u32 = 12;

/// Whether a checked operator is one that is tried in 64 bits.
pub(crate) fn is_checked_op(intrinsic: Intrinsic) -> bool {
    matches!(intrinsic, Intrinsic::CheckedAdd | Intrinsic::CheckedSub | Intrinsic::CheckedMul)
}

/// Whether an expression is tried in 64 bits row by row: the checked operators around its leaves include a product.
pub(crate) fn is_tried_narrow(expr: &Expr) -> bool {
    fn has_product(expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Intrinsic(op, args) if is_checked_op(*op) => {
                *op == Intrinsic::CheckedMul || deep(|| args.iter().any(has_product))
            }
            _ => false,
        }
    }
    expr.ty == Type::I128 && has_product(expr)
}

/// Whether an `i128` expression is known to fit 64 bits whatever its parts are.
pub(crate) fn is_short(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Literal(Literal::I128(value)) => fits_64_bits(*value),
        ExprKind::Cast(of) => of.ty.as_scalar().is_some_and(kind_fits_64_bits),
        _ => false,
    }
}

/// The operands of exact arithmetic.
pub(crate) fn operands(expr: &Expr) -> Option<(BinaryOp, &Expr, &Expr)> {
    match &expr.kind {
        ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => Some((*op, a, b)),
        ExprKind::Intrinsic(op, args) => {
            let op = match op {
                Intrinsic::CheckedAdd => BinaryOp::Add,
                Intrinsic::CheckedSub => BinaryOp::Sub,
                Intrinsic::CheckedMul => BinaryOp::Mul,
                _ => return None,
            };
            Some((op, &args[0], &args[1]))
        }
        _ => None,
    }
}

/// Whether an expression is cheap, cannot fail and uses none of these symbols.
pub(crate) fn is_plain(expr: &Expr, narrowed: &HashSet<Sym>) -> bool {
    speculatable(expr, BUDGET).is_some() && expr.free_vars().iter().all(|sym| !narrowed.contains(sym))
}

/// Whether an `i128` expression can be tried in 64 bits for a strip of rows; `narrowed` are the symbols that are.
pub(crate) fn is_narrowed(expr: &Expr, narrowed: &HashSet<Sym>) -> bool {
    if expr.ty != Type::I128 {
        return false;
    }
    if let Some((_, a, b)) = operands(expr) {
        return deep(|| is_narrowed(a, narrowed) && is_narrowed(b, narrowed));
    }
    match &expr.kind {
        ExprKind::Var(sym) => narrowed.contains(sym),
        ExprKind::Select { cond, on_true, on_false } => {
            is_plain(cond, narrowed) && deep(|| is_narrowed(on_true, narrowed) && is_narrowed(on_false, narrowed))
        }
        ExprKind::Literal(_) | ExprKind::Field(..) | ExprKind::Cast(_) => is_plain(expr, narrowed),
        _ => false,
    }
}
