//! Prefilters that are passed over while they drop next to nothing.
//!
//! ```text
//! if vectors > 0: vectors -= 1; keep all rows
//! else:           run the loop; if it kept 15 of 16 rows: vectors = 15
//! ```
//!
//! `vectors` lives for a call, which processes a batch in vectors of some thousand rows.

use inkwell::IntPredicate;

use super::loops::LoopSite;
use super::{Emitter, Handle, Res};
use crate::analysis::loop_plan::{LoopPlan, Prefilter};
use crate::block::Flow;
use weld_core::ty::{ScalarKind, Type};

impl<'c> Emitter<'c, '_> {
    /// The loop of `plan`, or all of its rows.
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
        let (whole, looking, kept_most, done) =
            (self.new_block("whole"), self.new_block("looking"), self.new_block("kept.most"), self.new_block("done"));
        let left = self.load_i64(vectors)?;
        self.branch_if(self.cmp(IntPredicate::NE, left, zero)?, whole, looking)?;

        self.at(whole);
        self.store(vectors, self.sub(left, self.i64(1))?)?;
        self.keep_all(prefilter, site, handle)?;
        self.branch(done)?;

        self.at(looking);
        let before = self.load_i64(handle.state)?;
        self.emit_planned(plan, site)?;
        let kept = self.sub(self.load_i64(handle.state)?, before)?;
        let asked = self.mul(site.source.count, self.i64(prefilter.passed_min.into()))?;
        let is_most = self.cmp(IntPredicate::UGE, self.mul(kept, self.i64(16))?, asked)?;
        self.branch_if(is_most, kept_most, done)?;
        self.at(kept_most);
        self.store(vectors, self.i64(prefilter.vectors.into()))?;
        self.branch(done)?;
        self.at(done);
        Ok(())
    }

    /// Appends what every row would.
    fn keep_all(&mut self, prefilter: &Prefilter<'_>, site: &LoopSite<'_, 'c>, handle: &Handle<'c>) -> Res<()> {
        let LoopSite { source, index_base, params, span, .. } = site;
        self.reserve(handle, &Type::I32, source.count, *span)?;
        let demand = self.facts.demands.get(&params.element).cloned().unwrap_or_default();
        let column = self.load_ptr(self.offset(handle.state, 16)?)?;
        let len = self.load_i64(handle.state)?;
        self.gather_loop(source.count, |e, j| {
            let number = match index_base {
                Some(base) => e.add(*base, j)?,
                None => j,
            };
            e.vars.insert(params.index, super::Val::int(number));
            let element = e.source_element(source, j, &demand)?;
            e.vars.insert(params.element, element);
            let value = e.emit_int(prefilter.value)?;
            let at = e.element_ptr(e.unit.ll.i32_type().into(), column, e.add_nw(len, j)?)?;
            e.store_scalar(ScalarKind::I32, at, value.into())
        })?;
        self.store(handle.state, self.add_nw(len, source.count)?).map(drop)
    }
}
