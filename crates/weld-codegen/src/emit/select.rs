//! Selection vectors: a loop that keeps the indices at which a cheap condition holds,
//!
//! ```text
//! for(v, appender[i32], |b, i, r| if(p(r), merge(b, i32(i)), b))
//! ```
//!
//! runs in two steps a strip: the condition of every row goes to a byte array, in a loop that LLVM vectorises; then the
//! indices of its ones are collected, sixteen at a time where the processor can compress vectors (AVX-512), otherwise
//! one by one without a branch. Together well below a cycle a row, however many rows are kept.

use inkwell::IntPredicate;
use inkwell::types::BasicType;
use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind, Func, Sym};
use weld_core::ty::{BuilderType, ScalarKind, Type};

use super::{Emitter, Handle, Res, Val, internal};
use crate::analysis::speculatable;
use crate::block::Flow;
use crate::values::source::Source;

/// Rows of a strip: the byte array stays in the first-level cache.
const STRIP: i64 = 4096;
/// Indices collected at once.
const LANES: u32 = 16;
/// What the condition may cost for rows that a branch would have skipped.
const BUDGET: u32 = 40;

/// A loop of this shape: the conditions that must all hold.
struct Selection<'a> {
    index: Sym,
    element: Sym,
    conds: Vec<&'a Expr>,
}

fn find(func: &Func) -> Option<Selection<'_>> {
    let [(builder, ty), (index, _), (element, _)] = &func.params[..] else { return None };
    let is_builder = |expr: &Expr| matches!(expr.kind, ExprKind::Var(sym) if sym == *builder);
    if *ty != Type::Builder(BuilderType::Appender(Type::I32.into())) {
        return None;
    }
    let mut conds = Vec::new();
    let mut budget = BUDGET;
    let mut at = &*func.body;
    loop {
        match &at.kind {
            ExprKind::If { cond, on_true, on_false } if is_builder(on_false) => {
                budget = speculatable(cond, budget)?;
                conds.push(&**cond);
                at = on_true;
            }
            ExprKind::Merge { builder, value } if is_builder(builder) && !conds.is_empty() => {
                let ExprKind::Cast(of) = &value.kind else { return None };
                let is_index = matches!(of.kind, ExprKind::Var(sym) if sym == *index);
                return is_index.then_some(Selection { index: *index, element: *element, conds });
            }
            _ => return None,
        }
    }
}

impl<'c> Emitter<'c, '_> {
    /// Emits the loop if it is a selection; false if it is something else.
    pub(super) fn emit_selection(
        &mut self,
        source: &Source<'c>,
        builders: &Val<'c>,
        func: &Func,
        base: Option<IntValue<'c>>,
        span: Span,
    ) -> Res<bool> {
        let (Some(selection), Val::Builder(handle)) = (find(func), builders) else { return Ok(false) };
        let demand = self.facts.demands.get(&selection.element).cloned().unwrap_or_default();
        let mask = self.alloca(STRIP as u64 + LANES as u64, "mask")?;
        let count = source.count;
        self.strips(count, STRIP, span, |e, start, size| {
            // Whole vectors are stored, so there is room for one more than needed.
            let room = e.add_nw(size, e.i64(LANES as i64))?;
            e.reserve(handle, &Type::I32, room, span)?;
            let first = match base {
                Some(base) => e.add(base, start)?,
                None => start,
            };
            e.count_loop(size, |e, j| {
                let i = e.add_nw(start, j)?;
                let number = e.add(first, j)?;
                e.vars.insert(selection.index, Val::int(number));
                let element = e.source_element(source, i, &demand)?;
                e.vars.insert(selection.element, element);
                let mut all: Option<IntValue<'c>> = None;
                for cond in &selection.conds {
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
            if e.unit.can_compress {
                e.collect_vectors(handle, mask, size, first)?;
            } else {
                e.collect_scalars(handle, mask, size, first)?;
            }
            Ok(())
        })?;
        Ok(true)
    }

    fn collect_vectors(
        &mut self,
        handle: &Handle<'c>,
        mask: PointerValue<'c>,
        size: IntValue<'c>,
        first: IntValue<'c>,
    ) -> Res<()> {
        let i32 = self.unit.ll.i32_type();
        let bytes = self.unit.ll.i8_type().vec_type(LANES);
        let indices = i32.vec_type(LANES);
        // What lies beyond the strip selects nothing.
        let end = self.element_ptr(self.unit.ll.i8_type().into(), mask, size)?;
        self.store(end, bytes.const_zero())?.set_alignment(1).map_err(|e| internal(&e.to_string()))?;
        let iota: Vec<_> = (0..LANES as u64).map(|lane| i32.const_int(lane, false)).collect();
        let iota = inkwell::types::VectorType::const_vector(&iota);
        let lanes = self.i64(LANES as i64);
        let vectors = self.b.build_int_unsigned_div(self.add_nw(size, self.i64(LANES as i64 - 1))?, lanes, "")?;
        let column = self.load_ptr(self.offset(handle.state, 16)?)?;
        self.count_loop(vectors, |e, k| {
            let row = e.mul(k, lanes)?;
            let at = e.element_ptr(e.unit.ll.i8_type().into(), mask, row)?;
            let selected = e.load(bytes, at)?.into_vector_value();
            let selected = e.b.build_int_compare(IntPredicate::NE, selected, bytes.const_zero(), "")?;
            let number = e.b.build_int_truncate(e.add(first, row)?, i32, "")?;
            let numbers = e.b.build_int_add(e.splat(number.into(), LANES)?.into_vector_value(), iota, "")?;
            let compressed = e.intrinsic(
                "llvm.experimental.vector.compress",
                &[indices.as_basic_type_enum()],
                &[numbers.into(), selected.into(), indices.get_undef().into()],
            )?;
            let len = e.load_i64(handle.state)?;
            let store = e.store(e.element_ptr(i32.into(), column, len)?, compressed)?;
            store.set_alignment(4).map_err(|error| internal(&error.to_string()))?;
            e.mark_own_store(store)?;
            let bits = e.b.build_bit_cast(selected, e.unit.ll.i16_type(), "")?;
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
