//! Few groups: the values of a strip are merged group by group, in registers.
//!
//! ```text
//! merge(b, {key, {x.$0, x.$0 * (100 - x.$1), 1}})     over a strip whose rows are known to belong to groups 1 .. n
//! =>
//! for each row: product[j] = x.$0 * (100 - x.$1)                            64 bits, see `narrow_strip`
//! for each group g: sums = 0; for each row: sums += row's group == g ? {x.$0, product[j], 1} : 0
//!                   row of g += sums
//! ```
//!
//! LLVM vectorises both loops. Merging row by row would load and store every sum for every row, which waits for the row
//! before if it is of the same group. A strip with more groups, or with values for which 64 bits are too few, is merged
//! row by row.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};
use weld_core::op::MergeOp;
use weld_core::ty::Type;

use super::narrow_strip::Narrowed;
use super::{Emitter, Res, Val};
use crate::analysis::loop_plan::{FewGroups, MergedField};
use crate::block::Flow;

impl<'c> Emitter<'c, '_> {
    /// Computes the values of a strip of `rows` rows, of at most `rows_max`; whether they fit 64 bits and so do their
    /// sums, and how many rows have a group.
    pub(super) fn few_values(
        &mut self,
        few: &FewGroups<'_>,
        numbers: PointerValue<'c>,
        rows: IntValue<'c>,
        rows_max: u64,
        bind: &mut dyn FnMut(&mut Self, IntValue<'c>) -> Res<()>,
    ) -> Res<(IntValue<'c>, IntValue<'c>, Vec<Option<PointerValue<'c>>>)> {
        let i32 = self.unit.ll.i32_type();
        let found = self.alloca(4, "found")?;
        self.store(found, i32.const_zero())?;
        let mut kept = Vec::with_capacity(few.fields.len());
        let limit = i64::MAX as u64 / rows_max;
        let exact = self.narrow_loop(rows, limit, |e, narrowed: &mut Narrowed<'c, '_>, j| {
            bind(e, j)?;
            let number = e.load(i32, e.element_ptr(i32.into(), numbers, j)?)?.into_int_value();
            let is_there = e.cmp(IntPredicate::NE, number, i32.const_zero())?;
            let one = e.b.build_int_z_extend(is_there, i32, "")?;
            let now = e.load(i32, found)?.into_int_value();
            e.store(found, e.add(now, one)?)?;
            for (binding, is_narrowed) in &few.bindings {
                match is_narrowed {
                    true => narrowed.bind(e, binding.sym, &binding.value)?,
                    false => e.bind(binding)?,
                }
            }
            for field in &few.fields {
                let value: BasicValueEnum<'c> = match field.is_narrowed() {
                    true => narrowed.emit(e, field.value)?.into(),
                    false => e.emit(field.value)?.scalar()?,
                };
                if !field.is_kept {
                    kept.push(None);
                    continue;
                }
                let values = e.alloca(rows_max * field.summed().bytes() as u64, "values")?;
                let at = e.element_ptr(e.memory_type(field.summed()), values, j)?;
                e.store_scalar(field.summed(), at, value)?;
                kept.push(Some(values));
            }
            Ok(())
        })?;
        let found = self.load(i32, found)?.into_int_value();
        Ok((exact, self.to_i64(found)?, kept))
    }

    /// Merges what [`Emitter::few_values`] has computed: row `j` into group `numbers[j]`, for the groups from 1 to
    /// `groups`. `at` gives the address of a group's value.
    #[expect(clippy::too_many_arguments, reason = "a strip and a table")]
    pub(super) fn merge_few(
        &mut self,
        few: &FewGroups<'_>,
        kept: &[Option<PointerValue<'c>>],
        numbers: PointerValue<'c>,
        rows: IntValue<'c>,
        groups: IntValue<'c>,
        bind: &mut dyn FnMut(&mut Self, IntValue<'c>) -> Res<()>,
        at: &dyn Fn(&mut Self, IntValue<'c>) -> Res<PointerValue<'c>>,
    ) -> Res<()> {
        let i32 = self.unit.ll.i32_type();
        let mut sums = Vec::with_capacity(few.fields.len());
        for field in &few.fields {
            sums.push(self.alloca(field.summed().bytes() as u64, "sum")?);
        }
        self.count_loop(groups, |e, group| {
            let group = e.add_nw(group, e.i64(1))?;
            let number = e.b.build_int_truncate(group, i32, "")?;
            for (field, sum) in few.fields.iter().zip(&sums) {
                let none = e.nothing(field)?;
                e.store_scalar(field.summed(), *sum, none.scalar()?)?;
            }
            e.count_loop(rows, |e, j| {
                bind(e, j)?;
                let own = e.load(i32, e.element_ptr(i32.into(), numbers, j)?)?.into_int_value();
                let is_own = e.cmp(IntPredicate::EQ, own, number)?;
                for ((field, sum), kept) in few.fields.iter().zip(&sums).zip(kept) {
                    let kind = field.summed();
                    let value = match kept {
                        Some(kept) => e.load_scalar(kind, e.element_ptr(e.memory_type(kind), *kept, j)?, false)?,
                        None if field.is_narrowed() => {
                            let wide = e.emit_int(field.value)?;
                            e.b.build_int_truncate(wide, e.unit.i64_type(), "")?.into()
                        }
                        None => e.emit(field.value)?.scalar()?,
                    };
                    let none = e.nothing(field)?.scalar()?;
                    let value = e.choose(is_own, value, none)?;
                    let now = e.load_scalar(kind, *sum, false)?;
                    let ty = Type::Scalar(kind);
                    let merged = e.reduce(&ty, &MergeOp::All(field.op), &Val::Scalar(now), &Val::Scalar(value))?;
                    e.store_scalar(kind, *sum, merged.scalar()?)?;
                }
                Ok(())
            })?;
            let values = at(e, group)?;
            for (field, sum) in few.fields.iter().zip(&sums) {
                let mut value = e.load_scalar(field.summed(), *sum, false)?;
                if field.is_narrowed() {
                    let wide = e.unit.ll.i128_type();
                    value = e.b.build_int_s_extend(value.into_int_value(), wide, "")?.into();
                }
                let at = e.offset(values, field.offset)?;
                let now = e.load_scalar(field.kind, at, false)?;
                let ty = Type::Scalar(field.kind);
                let merged = e.reduce(&ty, &MergeOp::All(field.op), &Val::Scalar(now), &Val::Scalar(value))?;
                e.store_scalar(field.kind, at, merged.scalar()?)?;
            }
            Ok(())
        })
    }

    /// What changes nothing when it is merged.
    fn nothing(&self, field: &MergedField<'_>) -> Res<Val<'c>> {
        self.identity_of(&Type::Scalar(field.summed()), &MergeOp::All(field.op))
    }
}
