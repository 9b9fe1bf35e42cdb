//! Integers whose least and largest values are known: counters of loops with constant bounds, and sums, differences and
//! products of these. They need no check of overflow, and no check as an index where they stay inside.
//!
//! In `for (i in 1...15 by 1) s = s + m{i - 1};` with 16 elements, `i - 1` is 0 to 13.

use weld_core::ir::{Expr, ExprKind, Literal, build};
use weld_core::ty::Type;
use weld_tensor::Size;

use super::Lower;
use crate::tree::BinaryOp;

impl Lower<'_> {
    /// `a op b` without a check, if it stays within an `int`.
    pub(super) fn bounded(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Option<Expr> {
        if a.ty != Type::I32 {
            return None;
        }
        let (a, b) = (self.widened(a)?, self.widened(b)?);
        let ((a_min, a_max), (b_min, b_max)) = (self.interval(&a)?, self.interval(&b)?);
        // Both are ints: nothing here leaves 64 bits.
        let (least, largest, value) = match op {
            BinaryOp::Add => (a_min + b_min, a_max + b_max, build::add(a, b)),
            BinaryOp::Sub => (a_min - b_max, a_max - b_min, build::sub(a, b)),
            BinaryOp::Mul => {
                let ends = [a_min * b_min, a_min * b_max, a_max * b_min, a_max * b_max];
                let least = ends.into_iter().fold(i64::MAX, i64::min);
                (least, ends.into_iter().fold(i64::MIN, i64::max), build::mul(a, b))
            }
            _ => return None,
        };
        if least < i32::MIN.into() || largest > i32::MAX.into() {
            return None;
        }
        let value = self.bind("at", value);
        if let ExprKind::Var(sym) = value.kind {
            self.intervals.insert(sym, (least, largest));
        }
        Some(self.bind_int("x", value))
    }

    /// The `i64` of an `int`, where there is one.
    pub(super) fn widened(&self, int: &Expr) -> Option<Expr> {
        match int.kind {
            ExprKind::Literal(Literal::I32(value)) => Some(build::i64(value.into())),
            ExprKind::Var(sym) => self.wide.get(&sym).cloned(),
            _ => None,
        }
    }

    /// The least and the largest value of an `i64` that an `int` holds, too.
    fn interval(&self, e: &Expr) -> Option<(i64, i64)> {
        if let Some(value) = literal(e) {
            return Some((value, value));
        }
        if let ExprKind::Var(sym) = e.kind
            && let Some(interval) = self.intervals.get(&sym)
        {
            return Some(*interval);
        }
        let [_, start, end] = self.counters.iter().find(|[counter, ..]| counter.same_as(e))?;
        let (start, end) = (literal(start)?, literal(end)?);
        (start < end).then_some((start, end - 1))
    }

    /// Whether an index is inside of a dimension, whatever the arguments.
    pub(super) fn stays_inside(&self, index: &Expr, size: &Size) -> bool {
        if let (Some((least, largest)), Some(size)) = (self.interval(index), size.as_known())
            && least >= 0
            && (largest as u64) < size
        {
            return true;
        }
        // The counter of a loop over the dimension, whatever its size.
        self.counters.iter().any(|[counter, start, end]| {
            index.same_as(counter) && literal(start).is_some_and(|start| start >= 0) && end.same_as(&size.expr())
        })
    }
}

fn literal(e: &Expr) -> Option<i64> {
    match e.kind {
        ExprKind::Literal(Literal::I64(value)) => Some(value),
        _ => None,
    }
}
