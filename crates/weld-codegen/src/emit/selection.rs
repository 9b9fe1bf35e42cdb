//! Selection vectors: a loop that keeps the indices at which a cheap condition holds,
//!
//! ```text
//! for(v, appender[i32], |b, i, r| if(p(r), merge(b, i32(i)), b))
//! ```
//!
//! runs in two steps a strip: the condition of every row goes to a byte array, in a loop that LLVM vectorises; then the
//! indices of its ones are collected, sixteen at a time where the processor can compress vectors (AVX-512), otherwise
//! one by one without a branch. Together well below a cycle a row, however many rows are kept.

use std::num::NonZero;

use inkwell::IntPredicate;
use inkwell::types::BasicType;
use inkwell::values::{IntValue, PointerValue};
use weld_core::ty::{ScalarKind, Type};

use super::loops::LoopSite;
use super::{Emitter, Handle, Res, Val, internal};
use crate::analysis::loop_plan::Selection;
use crate::block::Flow;

impl<'c> Emitter<'c, '_> {
    pub(super) fn emit_selection(
        &mut self,
        plan: &Selection<'_>,
        site: &LoopSite<'_, 'c>,
        handle: &Handle<'c>,
    ) -> Res<()> {
        let LoopSite { source, index_base, params, span, .. } = site;
        let demand = self.facts.demands.get(&params.element).cloned().unwrap_or_default();
        let mask = self.alloca(u64::from(plan.strip + plan.lanes), "mask")?;
        self.strips(source.count, plan.strip.into(), *span, |e, start, size| {
            // Whole vectors are stored, so there is room for one more than needed.
            let room = e.add_nw(size, e.i64(plan.lanes.into()))?;
            e.reserve(handle, &Type::I32, room, *span)?;
            let first = match index_base {
                Some(base) => e.add(*base, start)?,
                None => start,
            };
            e.count_loop(size, |e, j| {
                let i = e.add_nw(start, j)?;
                let number = e.add(first, j)?;
                e.vars.insert(params.index, Val::int(number));
                let element = e.source_element(source, i, &demand)?;
                e.vars.insert(params.element, element);
                let mut all: Option<IntValue<'c>> = None;
                for cond in &plan.conds {
                    let cond = e.emit_int(cond)?;
                    all = Some(match all {
                        Some(all) => e.and(all, cond)?,
                        None => cond,
                    });
                }
                let all = all.ok_or_else(|| internal("a selection without a condition"))?;
                let at = e.element_ptr(e.unit.ll.i8_type().into(), mask, j)?;
                e.store_scalar(ScalarKind::Bool, at, all.into())
            })?;
            match plan.compress {
                true => e.collect_vectors(handle, plan.lanes, (mask, size), first),
                false => e.collect_scalars(handle, mask, size, first),
            }
        })
    }

    fn collect_vectors(
        &mut self,
        handle: &Handle<'c>,
        lanes: u32,
        (mask, size): (PointerValue<'c>, IntValue<'c>),
        first: IntValue<'c>,
    ) -> Res<()> {
        let i32 = self.unit.ll.i32_type();
        let bytes = self.unit.ll.i8_type().vec_type(lanes);
        let indices = i32.vec_type(lanes);
        let width = NonZero::new(lanes).ok_or_else(|| internal("vectors without lanes"))?;
        let one_bit_a_lane = self.unit.ll.custom_width_int_type(width).map_err(internal)?;
        // What lies beyond the strip selects nothing.
        let end = self.element_ptr(self.unit.ll.i8_type().into(), mask, size)?;
        self.store(end, bytes.const_zero())?.set_alignment(1).map_err(|e| internal(&e.to_string()))?;
        let iota: Vec<_> = (0..u64::from(lanes)).map(|lane| i32.const_int(lane, false)).collect();
        let iota = inkwell::types::VectorType::const_vector(&iota);
        let rows = self.i64(lanes.into());
        let vectors = self.b.build_int_unsigned_div(self.add_nw(size, self.i64(i64::from(lanes) - 1))?, rows, "")?;
        let column = self.load_ptr(self.offset(handle.state, 16)?)?;
        self.count_loop(vectors, |e, k| {
            let row = e.mul(k, rows)?;
            let at = e.element_ptr(e.unit.ll.i8_type().into(), mask, row)?;
            let selected = e.load(bytes, at)?.into_vector_value();
            let selected = e.b.build_int_compare(IntPredicate::NE, selected, bytes.const_zero(), "")?;
            let number = e.b.build_int_truncate(e.add(first, row)?, i32, "")?;
            let numbers = e.b.build_int_add(e.splat(number.into(), lanes)?.into_vector_value(), iota, "")?;
            let compressed = e.intrinsic(
                "llvm.experimental.vector.compress",
                &[indices.as_basic_type_enum()],
                &[numbers.into(), selected.into(), indices.get_undef().into()],
            )?;
            let len = e.load_i64(handle.state)?;
            let store = e.store(e.element_ptr(i32.into(), column, len)?, compressed)?;
            store.set_alignment(4).map_err(|error| internal(&error.to_string()))?;
            e.mark_own_store(store)?;
            let bits = e.b.build_bit_cast(selected, one_bit_a_lane, "")?;
            let ones = e.intrinsic("llvm.ctpop", &[bits.get_type()], &[bits.into()])?.into_int_value();
            let len = e.add_nw(len, e.to_i64(ones)?)?;
            e.store(handle.state, len)?;
            Ok(())
        })
    }

    fn collect_scalars(
        &mut self,
        handle: &Handle<'c>,
        mask: PointerValue<'c>,
        size: IntValue<'c>,
        first: IntValue<'c>,
    ) -> Res<()> {
        let i32 = self.unit.ll.i32_type();
        let column = self.load_ptr(self.offset(handle.state, 16)?)?;
        self.count_loop(size, |e, j| {
            let number = e.b.build_int_truncate(e.add(first, j)?, i32, "")?;
            let len = e.load_i64(handle.state)?;
            let store = e.store(e.element_ptr(i32.into(), column, len)?, number)?;
            e.mark_own_store(store)?;
            let at = e.element_ptr(e.unit.ll.i8_type().into(), mask, j)?;
            let one = e.load(e.unit.ll.i8_type(), at)?.into_int_value();
            let len = e.add_nw(len, e.to_i64(one)?)?;
            e.store(handle.state, len)?;
            Ok(())
        })
    }
}
