//! How much work an iteration of a loop is: the iterations of the loops inside, as far as they are known before it
//! runs.
//!
//! ```text
//! for(rangeiter(0L, m, 1L), b, |b, i, x| for(v, b, |b, j, y| ..))    len(v)
//! for(rangeiter(0L, m, 1L), b, |b, i, x| .. no loop ..)              1
//! ```
//!
//! A guess, which decides on how many threads the loop runs and never what it gives.

use inkwell::IntPredicate;
use inkwell::values::IntValue;
use weld_core::ir::{Expr, ExprKind, Func, Iter, deep};
use weld_core::op::BinaryOp;
use weld_core::ty::Type;

use super::{Emitter, Res, Val};

/// Iterations of a loop of which nothing is known.
const UNKNOWN: i64 = 32;
/// No loop counts for more, lest products overflow.
const COUNT_MAX: i64 = 1 << 20;
const WORK_MAX: i64 = 1 << 40;

impl<'c> Emitter<'c, '_> {
    /// The work of one iteration, at least 1. Known are the values that the update function has from outside.
    pub(super) fn work_of(&mut self, func: &Func) -> Res<IntValue<'c>> {
        self.work_in(&func.body)
    }

    fn work_in(&mut self, expr: &Expr) -> Res<IntValue<'c>> {
        deep(|| {
            let inside = match &expr.kind {
                ExprKind::For { iter, func, .. } => Some((self.iterations(iter)?, &*func.body)),
                ExprKind::Iterate { step, .. } => Some((self.i64(UNKNOWN), &*step.body)),
                ExprKind::Sort { compare, .. } => Some((self.i64(8 * UNKNOWN), &*compare.body)),
                _ => None,
            };
            let mut work = self.i64(1);
            if let Some((count, body)) = inside {
                let each = self.work_in(body)?;
                work = self.add(work, self.mul(count, each)?)?;
            }
            let mut children = Vec::new();
            expr.each_child(&mut |child| children.push(child));
            for child in children.into_iter().filter(|child| inside.is_none_or(|(_, body)| !std::ptr::eq(*child, body)))
            {
                let more = self.work_in(child)?;
                work = self.add(work, self.sub(more, self.i64(1))?)?;
            }
            self.umin(work, self.i64(WORK_MAX))
        })
    }

    /// Between 1 and [`COUNT_MAX`].
    fn iterations(&mut self, iter: &Iter) -> Res<IntValue<'c>> {
        let count = match iter {
            Iter::Vector(data) => self.known_len(data)?,
            Iter::Range { start, end, .. } => match (self.known(start)?, self.known(end)?) {
                (Some(start), Some(end)) => Some(self.sub(end, start)?),
                _ => None,
            },
            Iter::Zip(parts) => match parts.first() {
                Some(part) => return self.iterations(part),
                None => None,
            },
            _ => None,
        };
        let Some(count) = count else { return Ok(self.i64(UNKNOWN)) };
        let some = self.cmp(IntPredicate::SGT, count, self.i64(1))?;
        let count = self.choose_int(some, count, self.i64(1))?;
        self.umin(count, self.i64(COUNT_MAX))
    }

    fn known_len(&mut self, data: &Expr) -> Res<Option<IntValue<'c>>> {
        match &data.kind {
            ExprKind::Var(sym) => match self.vars.get(sym).cloned() {
                Some(value @ (Val::Vec(_) | Val::Bytes(_))) => Ok(Some(self.as_vec(&value)?.len)),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// An integer that is there before the loop, or follows from such.
    fn known(&mut self, expr: &Expr) -> Res<Option<IntValue<'c>>> {
        if expr.ty != Type::I64 {
            return Ok(None);
        }
        match &expr.kind {
            ExprKind::Literal(_) => Ok(Some(self.emit_int(expr)?)),
            ExprKind::Var(sym) => match self.vars.get(sym) {
                Some(Val::Scalar(value)) => Ok(Some(value.into_int_value())),
                _ => Ok(None),
            },
            ExprKind::Len(data) => self.known_len(data),
            ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul), a, b) => {
                let (Some(a), Some(b)) = (self.known(a)?, self.known(b)?) else { return Ok(None) };
                Ok(Some(match op {
                    BinaryOp::Add => self.add(a, b)?,
                    BinaryOp::Sub => self.sub(a, b)?,
                    _ => self.mul(a, b)?,
                }))
            }
            _ => Ok(None),
        }
    }
}
