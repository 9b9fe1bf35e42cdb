//! Decimals of a strip in 64 bits: 128-bit expressions over the rows of a strip are computed in 64 bits without a check
//! a row, and the largest magnitudes of what they are made of are kept on the way:
//!
//! ```text
//! checked_mul(a, checked_sub(100, b))
//! =>
//! per row:    m0 |= magnitude(a); m1 |= magnitude(b); a * (100 - b)          wrapping, which LLVM vectorises
//! per strip:  all of it is exact if (m0 + 1) * (100 + (m1 + 1)) and what stands below it are small
//! ```
//!
//! Where they are not small, the strip is computed again, in full width. So nothing that a file, a type or statistics
//! say of the values is trusted.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::ir::{Expr, ExprKind, Literal, Sym, deep};
use weld_core::op::{BinaryOp, Bound, Evaluate};
use weld_core::ty::ScalarKind;

use super::{Emitter, Res, Val};
use crate::analysis::narrow::operands;
use crate::block::Flow;
use crate::error::CompileError;

/// A value, if its bound holds.
#[derive(Clone)]
struct Narrow<'c> {
    value: IntValue<'c>,
    /// Its leaves are numbers of [`Narrowed::leaves`].
    bound: Bound<usize>,
}

/// A value whose magnitude is kept.
struct Leaf<'c, 'e> {
    expr: &'e Expr,
    /// In the row at hand.
    narrow: Narrow<'c>,
    /// Where the magnitudes of all rows are.
    most: PointerValue<'c>,
}

/// What is known of the values of a strip while its rows are computed.
pub(super) struct Narrowed<'c, 'e> {
    /// What is bound to symbols in the row at hand.
    vars: Vec<(Sym, Narrow<'c>)>,
    /// The values whose magnitudes are kept.
    leaves: Vec<Leaf<'c, 'e>>,
    /// The bounds of all operators.
    bounds: Vec<Bound<usize>>,
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
            let value = match op {
                BinaryOp::Add => e.add(a.value, b.value)?,
                BinaryOp::Sub => e.sub(a.value, b.value)?,
                _ => e.mul(a.value, b.value)?,
            };
            let bound = Bound::of_operator(op, a.bound, b.bound);
            let bound = bound.ok_or_else(|| super::internal("an operator without a bound is narrowed"))?;
            self.bounds.push(bound.clone());
            return Ok(Narrow { value, bound });
        }
        match &expr.kind {
            ExprKind::Literal(Literal::I128(value)) => match Bound::of_literal(*value) {
                Some(bound) => Ok(Narrow { value: e.i64(*value as i64), bound }),
                None => self.leaf(e, expr),
            },
            ExprKind::Var(sym) if self.vars.iter().any(|(known, _)| known == sym) => {
                let known = self.vars.iter().rev().find(|(known, _)| known == sym);
                known.map(|(_, narrow)| narrow.clone()).ok_or_else(|| super::internal("a symbol without a value"))
            }
            ExprKind::Select { cond, on_true, on_false } => {
                let cond = e.emit_int(cond)?;
                let (a, b) = deep(|| Res::Ok((self.narrow(e, on_true)?, self.narrow(e, on_false)?)))?;
                let value = e.choose_int(cond, a.value, b.value)?;
                Ok(Narrow { value, bound: Bound::of_choice(a.bound, b.bound) })
            }
            _ => self.leaf(e, expr),
        }
    }

    fn leaf(&mut self, e: &mut Emitter<'c, '_>, expr: &'e Expr) -> Res<Narrow<'c>> {
        if let Some(leaf) = self.leaves.iter().find(|leaf| leaf.expr.same_as(expr)) {
            return Ok(leaf.narrow.clone());
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
        let narrow = Narrow { value, bound: Bound::Leaf(self.leaves.len()) };
        self.leaves.push(Leaf { expr, narrow: narrow.clone(), most });
        Ok(narrow)
    }

    /// Whether everything that was computed is exact, and as small as `limit` at most.
    fn are_exact(&self, e: &mut Emitter<'c, '_>, limit: u64) -> Res<IntValue<'c>> {
        let misfit = e.load_i64(self.misfit)?;
        let mut exact = e.cmp(IntPredicate::EQ, misfit, e.i64(0))?;
        for bound in &self.bounds {
            if let Bound::Constant(value) = bound {
                exact = e.and(exact, e.bool(*value <= limit))?;
                continue;
            }
            let bound = bound.evaluate(&mut InRegisters { e, leaves: &self.leaves })?;
            let small = e.cmp(IntPredicate::ULE, bound, e.i64(limit as i64))?;
            exact = e.and(exact, small)?;
        }
        Ok(exact)
    }
}

/// Bounds in 64 bits, as instructions.
struct InRegisters<'a, 'b, 'c, 'u, 'e> {
    e: &'a mut Emitter<'c, 'u>,
    leaves: &'b [Leaf<'c, 'e>],
}

impl<'c> InRegisters<'_, '_, 'c, '_, '_> {
    fn call(&mut self, name: &str, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let i64 = self.e.unit.i64_type().into();
        Ok(self.e.intrinsic(name, &[i64], &[a.into(), b.into()])?.into_int_value())
    }
}

impl<'c> Evaluate<usize> for InRegisters<'_, '_, 'c, '_, '_> {
    type Value = IntValue<'c>;
    type Error = CompileError;

    fn leaf(&mut self, leaf: &usize) -> Res<IntValue<'c>> {
        self.e.add_nw(self.e.load_i64(self.leaves[*leaf].most)?, self.e.i64(1))
    }

    fn constant(&mut self, value: u64) -> Res<IntValue<'c>> {
        Ok(self.e.i64(value as i64))
    }

    fn sum(&mut self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        self.call("llvm.uadd.sat", a, b)
    }

    fn product(&mut self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        let i64 = [self.e.unit.i64_type().into()];
        let pair = self.e.intrinsic("llvm.umul.with.overflow", &i64, &[a.into(), b.into()])?.into_struct_value();
        let product = self.e.b.build_extract_value(pair, 0, "")?.into_int_value();
        let overflow = self.e.b.build_extract_value(pair, 1, "")?.into_int_value();
        self.e.choose_int(overflow, self.e.i64(-1), product)
    }

    fn larger(&mut self, a: IntValue<'c>, b: IntValue<'c>) -> Res<IntValue<'c>> {
        self.call("llvm.umax", a, b)
    }
}

impl<'c> Emitter<'c, '_> {
    /// Runs a loop over the rows of a strip whose body computes narrowed; whether all of them are exact, and at most
    /// `limit` large.
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
        for leaf in &narrowed.leaves {
            self.store(leaf.most, self.i64(0))?;
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
