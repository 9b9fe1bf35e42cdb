//! Magnitudes of columns: loops of the shape
//!
//! ```text
//! for(v, merger[{i128,i128},|], |b, i, x| merge(b, {magnitude(x.$0), magnitude(x.$1)}))
//! ```
//!
//! over columns of a chunk, which narrow arithmetic asks for before it starts. LLVM does not vectorise 128-bit
//! integers, so columns of those are read as vectors of 64-bit halves; columns that are stored narrower are bounded at
//! the width that they are stored at, in a loop that LLVM vectorises.

use inkwell::types::VectorType;
use inkwell::values::{IntValue, PointerValue, VectorValue};
use weld_core::ty::{BuilderType, ScalarKind, Type};

use super::loops::LoopSite;
use super::{Columns, Emitter, Handle, Res, internal};
use crate::analysis::loop_plan::Magnitudes;
use crate::block::Flow;
use crate::layout;
use crate::values::stream::StreamColumn;

/// 64-bit words read at once: the halves of four values.
const WORDS: u32 = 8;

impl<'c> Emitter<'c, '_> {
    pub(super) fn emit_magnitudes(
        &mut self,
        plan: &Magnitudes,
        site: &LoopSite<'_, 'c>,
        handle: &Handle<'c>,
    ) -> Res<()> {
        let vec = site.source.whole_vector().ok_or_else(|| internal("magnitudes of no vector"))?;
        let Columns::Stream { columns, base } = &vec.columns else { return Err(internal("magnitudes of no chunk")) };
        let offsets = match site.params.builder_ty {
            Type::Builder(BuilderType::Merger { value, .. }) => match &**value {
                Type::Struct(fields) => layout::field_offsets(fields),
                _ => vec![0],
            },
            _ => return Err(internal("magnitudes into no merger")),
        };
        for ((column, _), offset) in plan.columns.iter().zip(offsets) {
            let stored = columns.get(*column).and_then(StreamColumn::plain_integers);
            let (kind, values) = stored.ok_or_else(|| internal("magnitudes of a column without integers"))?;
            let first = self.element_ptr(self.memory_type(kind), values, *base)?;
            let bound = match kind {
                ScalarKind::I128 => self.bound_wide(first, vec.len)?,
                kind => self.bound_narrow(kind, first, vec.len)?,
            };
            let at = self.offset(handle.state, offset)?;
            let now = self.load_scalar(ScalarKind::I128, at, false)?.into_int_value();
            self.store_scalar(ScalarKind::I128, at, self.or(now, bound)?.into())?;
        }
        Ok(())
    }

    /// The `|` of the magnitudes of 128-bit values.
    fn bound_wide(&mut self, values: PointerValue<'c>, len: IntValue<'c>) -> Res<IntValue<'c>> {
        let (i64, i128) = (self.unit.i64_type(), self.unit.ll.i128_type());
        let words = i64.vec_type(WORDS);
        let wide = self.alloca(8 * u64::from(WORDS), "bound")?;
        self.store_words(wide, words.const_zero())?;
        let per_step = self.i64(i64::from(WORDS / 2));
        let steps = self.b.build_int_unsigned_div(len, per_step, "")?;
        self.count_loop(steps, |e, k| {
            let value = e.load_words(e.element_ptr(words.into(), values, k)?)?;
            e.mark_input_load(value.into())?;
            let bound = e.vector_or_magnitude(e.load_words(wide)?, value)?;
            e.store_words(wide, bound)
        })?;
        // Even words are the low halves.
        let value = self.load_words(wide)?;
        let half = |e: &Self, odd: u64| -> Res<IntValue<'c>> {
            let mut all = e.i64(0);
            for word in (odd..u64::from(WORDS)).step_by(2) {
                let word = e.b.build_extract_element(value, e.i32(word as i32), "")?.into_int_value();
                all = e.or(all, word)?;
            }
            Ok(e.b.build_int_z_extend(all, i128, "")?)
        };
        let (low, high) = (half(self, 0)?, half(self, 1)?);
        let high = self.b.build_left_shift(high, i128.const_int(64, false), "")?;
        let narrow = self.alloca(16, "bound")?;
        self.store_scalar(ScalarKind::I128, narrow, self.or(low, high)?.into())?;
        // What is left over, one by one.
        let done = self.mul(steps, per_step)?;
        let rest = self.sub(len, done)?;
        self.count_loop(rest, |e, j| {
            let at = e.element_ptr(i128.into(), values, e.add_nw(done, j)?)?;
            let value = e.load_scalar(ScalarKind::I128, at, true)?.into_int_value();
            let now = e.load_scalar(ScalarKind::I128, narrow, false)?.into_int_value();
            let bound = e.or(now, e.magnitude(value, 128)?)?;
            e.store_scalar(ScalarKind::I128, narrow, bound.into())
        })?;
        Ok(self.load_scalar(ScalarKind::I128, narrow, false)?.into_int_value())
    }

    fn load_words(&self, ptr: PointerValue<'c>) -> Res<VectorValue<'c>> {
        let value = self.load(self.unit.i64_type().vec_type(WORDS), ptr)?;
        self.set_align(value, 8)?;
        Ok(value.into_vector_value())
    }

    fn store_words(&self, ptr: PointerValue<'c>, value: VectorValue<'c>) -> Res<()> {
        self.store(ptr, value)?.set_alignment(8).map_err(|error| internal(&error.to_string()))
    }

    /// `bound | magnitude(value)` of 128-bit values in vectors of halves.
    fn vector_or_magnitude(&self, bound: VectorValue<'c>, value: VectorValue<'c>) -> Res<VectorValue<'c>> {
        let shift: Vec<_> = (0..WORDS).map(|_| self.i64(63)).collect();
        let signs = self.b.build_right_shift(value, VectorType::const_vector(&shift), true, "")?;
        // The sign of a value is that of its upper half.
        let upper: Vec<_> = (0..WORDS as i32).map(|word| self.i32(word | 1)).collect();
        let signs =
            self.b.build_shuffle_vector(signs, signs.get_type().get_undef(), VectorType::const_vector(&upper), "")?;
        let magnitude = self.b.build_xor(value, signs, "")?;
        Ok(self.b.build_or(bound, magnitude, "")?)
    }

    /// The `|` of the magnitudes of narrower values: it fits their width.
    fn bound_narrow(&mut self, kind: ScalarKind, values: PointerValue<'c>, len: IntValue<'c>) -> Res<IntValue<'c>> {
        let ty = self.memory_type(kind).into_int_type();
        let bound = self.alloca(8, "bound")?;
        self.store(bound, ty.const_zero())?;
        self.count_loop(len, |e, i| {
            let value = e.load_scalar(kind, e.element_ptr(ty.into(), values, i)?, true)?.into_int_value();
            let value = if kind.is_signed() { e.magnitude(value, kind.bits())? } else { value };
            let now = e.load(ty, bound)?.into_int_value();
            e.store(bound, e.or(now, value)?)?;
            Ok(())
        })?;
        let value = self.load(ty, bound)?.into_int_value();
        Ok(self.b.build_int_z_extend(value, self.unit.ll.i128_type(), "")?)
    }
}
