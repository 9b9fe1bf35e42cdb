//! Decimals of a strip in 64 bits: 128-bit expressions over the rows of a strip are computed in 64 bits without a check a
//! row, and the largest magnitudes of what they are made of are kept on the way:
//!
//! ```text
//! checked_mul(a, checked_sub(100, b))
//! =>
//! per row:    m0 |= magnitude(a); m1 |= magnitude(b); a * (100 - b)          wrapping, which LLVM vectorises
//! per strip:  all of it is exact if (m0 + 1) * (100 + (m1 + 1)) and what stands below it are small
//! ```
//!
//! Where they are not small, the strip is computed again, in full width. So nothing that a file, a type or statistics say
//! of the values is trusted.

use std::rc::Rc;

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::ir::{Expr, ExprKind, Literal, Sym, deep};
use weld_core::op::BinaryOp;
use weld_core::ty::ScalarKind;

use super::{Emitter, Res, Val};
use crate::analysis::narrow::operands;
use crate::block::Flow;

/// How large the magnitude of a value is at most.
#[derive(Debug)]
enum Bound {
    /// As large as the leaf of that number was.
    Leaf(usize),
    Constant(u64),
    Sum(Rc<Bound>, Rc<Bound>),
    Product(Rc<Bound>, Rc<Bound>),
    Either(Rc<Bound>, Rc<Bound>),
}

/// A value, if its bound holds.
#[derive(Clone)]
struct Narrow<'c> {
    value: IntValue<'c>,
    bound: Rc<Bound>,
}

/// What is known of the values of a strip while its rows are computed.
pub(super) struct Narrowed<'c, 'e> {
    /// What is bound to symbols in the row at hand.
    vars: Vec<(Sym, Narrow<'c>)>,
    /// The values whose magnitudes are kept, and where; with the value in the row at hand.
    leaves: Vec<(&'e Expr, Narrow<'c>, PointerValue<'c>)>,
    /// The bounds of all operators.
    bounds: Vec<Rc<Bound>>,
    /// Not zero if a leaf does not fit 64 bits.
    misfit: PointerValue<'c>,
}

impl<'c, 'e> Narrowed<'c, 'e> {
    pub(super) fn bind(&mut self, e: &mut Emitter<'c, '_>, sym: Sym, value: &'e Expr) -> Res<()> {
        let narrow = self.narrow(e, value)?;
        self.vars.push((sym, narrow));
        Ok(())
    }

    /// The lower 64 bits of an expression that is narrowed.
    pub(super) fn emit(&mut self, e: &mut Emitter<'c, '_>, expr: &'e Expr) -> Res<IntValue<'c>> {
        let narrow = self.narrow(e, expr)?;
        self.bounds.push(narrow.bound);
        Ok(narrow.value)
    }

    fn narrow(&mut self, e: &mut Emitter<'c, '_>, expr: &'e Expr) -> Res<Narrow<'c>> {
        if let Some((op, a, b)) = operands(expr) {
            let (a, b) = deep(|| Res::Ok((self.narrow(e, a)?, self.narrow(e, b)?)))?;
            let (value, bound) = match op {
                BinaryOp::Add => (e.add(a.value, b.value)?, Bound::Sum(a.bound, b.bound)),
                BinaryOp::Sub => (e.sub(a.value, b.value)?, Bound::Sum(a.bound, b.bound)),
                _ => (e.mul(a.value, b.value)?, Bound::Product(a.bound, b.bound)),
            };
            let bound = Rc::new(bound);
            self.bounds.push(Rc::clone(&bound));
            return Ok(Narrow { value, bound });
        }
        match &expr.kind {
            ExprKind::Literal(Literal::I128(value)) if i64::try_from(*value).is_ok() => {
                let bound = Rc::new(Bound::Constant(value.unsigned_abs() as u64));
                Ok(Narrow { value: e.i64(*value as i64), bound })
            }
            ExprKind::Var(sym) if self.vars.iter().any(|(known, _)| known == sym) => {
                let known = self.vars.iter().rev().find(|(known, _)| known == sym);
                known.map(|(_, narrow)| narrow.clone()).ok_or_else(|| super::internal("a symbol without a value"))
            }
            ExprKind::Select { cond, on_true, on_false } => {
                let cond = e.emit_int(cond)?;
                let (a, b) = deep(|| Res::Ok((self.narrow(e, on_true)?, self.narrow(e, on_false)?)))?;
                let value = e.choose_int(cond, a.value, b.value)?;
                Ok(Narrow { value, bound: Rc::new(Bound::Either(a.bound, b.bound)) })
            }
            _ => self.leaf(e, expr),
        }
    }

    fn leaf(&mut self, e: &mut Emitter<'c, '_>, expr: &'e Expr) -> Res<Narrow<'c>> {
        if let Some((_, narrow, _)) = self.leaves.iter().find(|(known, ..)| known.same_as(expr)) {
            return Ok(narrow.clone());
        }
        let (value, misfit) = match e.stored_halves(expr)? {
            Some([low, high]) => (low, e.misfit(low, high)?),
            None => {
                let wide = e.emit_int(expr)?;
                e.halves(wide)?
            }
        };
        e.store(self.misfit, e.or(e.load_i64(self.misfit)?, misfit)?)?;
        let most = e.alloca(8, "most")?;
        e.store(most, e.or(e.load_i64(most)?, e.magnitude(value, 64)?)?)?;
        let narrow = Narrow { value, bound: Rc::new(Bound::Leaf(self.leaves.len())) };
        self.leaves.push((expr, narrow.clone(), most));
        Ok(narrow)
    }

    /// Whether everything that was computed is exact, and as small as `limit` at most.
    fn are_exact(&self, e: &mut Emitter<'c, '_>, limit: u64) -> Res<IntValue<'c>> {
        let misfit = e.load_i64(self.misfit)?;
        let mut exact = e.cmp(IntPredicate::EQ, misfit, e.i64(0))?;
        for bound in &self.bounds {
            if let Bound::Constant(value) = **bound {
                exact = e.and(exact, e.bool(value <= limit))?;
                continue;
            }
            let bound = self.bound(e, bound)?;
            let small = e.cmp(IntPredicate::ULE, bound, e.i64(limit as i64))?;
            exact = e.and(exact, small)?;
        }
        Ok(exact)
    }

    /// The bound, or the largest number if it is larger.
    fn bound(&self, e: &mut Emitter<'c, '_>, bound: &Bound) -> Res<IntValue<'c>> {
        let i64 = [e.unit.i64_type().into()];
        let both = |e: &mut Emitter<'c, '_>, a: &Rc<Bound>, b: &Rc<Bound>| {
            deep(|| Res::Ok((self.bound(e, a)?, self.bound(e, b)?)))
        };
        match bound {
            // A magnitude is one less than that of a negative number.
            Bound::Leaf(leaf) => e.add_nw(e.load_i64(self.leaves[*leaf].2)?, e.i64(1)),
            Bound::Constant(value) => Ok(e.i64(*value as i64)),
            Bound::Sum(a, b) => {
                let (a, b) = both(e, a, b)?;
                Ok(e.intrinsic("llvm.uadd.sat", &i64, &[a.into(), b.into()])?.into_int_value())
            }
            Bound::Product(a, b) => {
                let (a, b) = both(e, a, b)?;
                let pair = e.intrinsic("llvm.umul.with.overflow", &i64, &[a.into(), b.into()])?.into_struct_value();
                let product = e.b.build_extract_value(pair, 0, "")?.into_int_value();
                let overflow = e.b.build_extract_value(pair, 1, "")?.into_int_value();
                e.choose_int(overflow, e.i64(-1), product)
            }
            Bound::Either(a, b) => {
                let (a, b) = both(e, a, b)?;
                Ok(e.intrinsic("llvm.umax", &i64, &[a.into(), b.into()])?.into_int_value())
            }
        }
    }
}

impl<'c> Emitter<'c, '_> {
    /// Runs a loop over the rows of a strip whose body computes narrowed; whether all of them are exact, and at most `limit`
    /// large.
    pub(super) fn narrow_loop<'e>(
        &mut self,
        rows: IntValue<'c>,
        limit: u64,
        body: impl FnOnce(&mut Self, &mut Narrowed<'c, 'e>, IntValue<'c>) -> Res<()>,
    ) -> Res<IntValue<'c>> {
        let misfit = self.alloca(8, "misfit")?;
        let mut narrowed = Narrowed { vars: Vec::new(), leaves: Vec::new(), bounds: Vec::new(), misfit };
        let (first, looping) = (self.new_block("bounds"), self.new_block("rows"));
        self.branch(first)?;
        self.at(looping);
        self.count_loop(rows, |e, j| body(e, &mut narrowed, j))?;
        let exact = narrowed.are_exact(self, limit)?;
        let end = self.current_block()?;
        // Which leaves there are is known by now.
        self.at(first);
        self.store(misfit, self.i64(0))?;
        for (_, _, most) in &narrowed.leaves {
            self.store(*most, self.i64(0))?;
        }
        self.branch(looping)?;
        self.at(end);
        Ok(exact)
    }

    /// The lower half of a 128-bit value; and zero if that is all there is to it.
    fn halves(&self, wide: IntValue<'c>) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let i64 = self.unit.i64_type();
        let low = self.b.build_int_truncate(wide, i64, "")?;
        let high = self.b.build_right_shift(wide, wide.get_type().const_int(64, false), false, "")?;
        let high = self.b.build_int_truncate(high, i64, "")?;
        Ok((low, self.misfit(low, high)?))
    }

    /// Zero if the upper half only repeats the sign of the lower one.
    fn misfit(&self, low: IntValue<'c>, high: IntValue<'c>) -> Res<IntValue<'c>> {
        let sign = self.b.build_right_shift(low, self.i64(63), true, "")?;
        Ok(self.b.build_xor(high, sign, "")?)
    }

    /// The halves of a column's value, where that is stored in 128 bits.
    fn stored_halves(&self, expr: &Expr) -> Res<Option<[IntValue<'c>; 2]>> {
        let ExprKind::Field(of, index) = &expr.kind else { return Ok(None) };
        let ExprKind::Var(sym) = &of.kind else { return Ok(None) };
        let Some(Val::Struct(fields)) = self.vars.get(sym) else { return Ok(None) };
        match fields.get(*index as usize) {
            Some(Val::Deferred { column, row, .. }) => match column.plain_integers() {
                Some((ScalarKind::I128, _)) => Ok(Some(self.load_halves(column, *row)?)),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}
