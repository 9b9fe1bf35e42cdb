//! Prefilters that are passed over while they drop next to nothing.
//!
//! ```text
//! asks = vectors == 0; run the loop, in which may_contain(..) is asks ? may_contain(..) : true
//! if asks: vectors = it kept 15 of 16 rows ? 15 : 0     else: vectors -= 1
//! ```
//!
//! `vectors` lives for a call, which processes a batch in vectors of some thousand rows.

use inkwell::IntPredicate;
use inkwell::values::IntValue;
use weld_core::ir::Expr;

use super::loops::LoopSite;
use super::{Emitter, Handle, Res, Val};
use crate::analysis::loop_plan::{LoopPlan, Prefilter};

/// The question of the loop that is being emitted, and whether it is asked.
#[derive(Clone, Copy)]
pub(super) struct Question<'c> {
    at: *const Expr,
    asks: IntValue<'c>,
}

impl<'c> Emitter<'c, '_> {
    /// The loop of `plan`, which keeps all rows if the last ones have shown that asking is in vain.
    pub(super) fn emit_prefilter(
        &mut self,
        prefilter: &Prefilter<'_>,
        plan: &LoopPlan<'_>,
        site: &LoopSite<'_, 'c>,
        handle: &Handle<'c>,
    ) -> Res<()> {
        let vectors = self.alloca(8, "vectors")?;
        let zero = self.i64(0);
        self.in_entry(|b| Ok(b.build_store(vectors, zero)?))?;
        let left = self.load_i64(vectors)?;
        let mut asks = self.cmp(IntPredicate::EQ, left, zero)?;
        if let Some(table) = prefilter.hashed {
            let dict = self.emit(table)?.dict()?;
            let any = self.may_contain_any(dict)?;
            asks = self.and(asks, self.b.build_not(any, "")?)?;
        }
        let before = self.load_i64(handle.state)?;
        self.question = Some(Question { at: prefilter.asks, asks });
        self.emit_planned(plan, site)?;
        self.question = None;
        let kept = self.sub(self.load_i64(handle.state)?, before)?;
        let asked = self.mul(site.source.count, self.i64(prefilter.passed_min.into()))?;
        let is_most = self.cmp(IntPredicate::UGE, self.mul(kept, self.i64(16))?, asked)?;
        let skipped = self.choose_int(is_most, self.i64(prefilter.vectors.into()), zero)?;
        let fewer = self.intrinsic("llvm.usub.sat", &[zero.get_type().into()], &[left.into(), self.i64(1).into()])?;
        let next = self.choose_int(asks, skipped, fewer.into_int_value())?;
        self.store(vectors, next).map(drop)
    }

    /// The answer to the question of the loop, true if it is not asked; nothing if the expression is another.
    pub(super) fn answer(&mut self, expr: &Expr) -> Res<Option<Val<'c>>> {
        let Some(Question { asks, .. }) = self.question.take_if(|question| std::ptr::eq(question.at, expr)) else {
            return Ok(None);
        };
        let (ask, done) = (self.new_block("ask"), self.new_block("answered"));
        let from = self.current_block()?;
        self.branch_if(asks, ask, done)?;
        self.at(ask);
        let answer = self.emit_int(expr)?;
        let asked = self.current_block()?;
        self.branch(done)?;
        self.at(done);
        let phi = self.b.build_phi(self.unit.ll.bool_type(), "")?;
        phi.add_incoming(&[(&self.bool(true), from), (&answer, asked)]);
        Ok(Some(Val::Scalar(phi.as_basic_value())))
    }
}
