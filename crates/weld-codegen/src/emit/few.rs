//! Few groups: the values of a strip are merged group by group, in registers.
//!
//! ```text
//! merge(b, {key, {x.$0, x.$0 * (100 - x.$1), 1}})     over a strip whose rows are known to belong to groups 1 .. n
//! =>
//! for each row: product[j] = x.$0 * (100 - x.$1)                            64 bits, see `short`
//! for each group g: sums = 0; for each row: sums += row's group == g ? {x.$0, product[j], 1} : 0
//!                   row of g += sums
//! ```
//!
//! LLVM vectorises both loops. Merging row by row would load and store every sum for every row, which waits for the row
//! before if it is of the same group. A strip with more groups, or with values for which 64 bits are too few, is merged
//! row by row.

use std::collections::HashSet;

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};
use weld_core::ir::{Binding, Expr, ExprKind, Sym, build};
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::{ScalarKind, Type};

use super::short::{Shorts, is_plain, is_short};
use super::{Demand, Emitter, Res, Val, demands};
use crate::block::Flow;
use crate::layout;

/// More groups are merged row by row: each takes a pass over the strip.
pub(super) const GROUPS_MAX: i64 = 8;
/// More fields would take too much of the stack, and longer to compile than such loops run: final aggregates have them.
const FIELDS_MAX: usize = 12;

/// The values that a loop merges, if they may be computed for rows that are not merged and be summed up in any order.
pub(super) struct Few<'e> {
    bindings: &'e [Binding],
    fields: Vec<Field<'e>>,
}

/// A field of the merged values.
struct Field<'e> {
    value: &'e Expr,
    /// In the group's row.
    kind: ScalarKind,
    offset: u64,
    op: ReduceOp,
}

impl Field<'_> {
    fn is_short(&self) -> bool {
        self.kind == ScalarKind::I128
    }

    /// The kind that is summed up.
    fn summed(&self) -> ScalarKind {
        if self.is_short() { ScalarKind::I64 } else { self.kind }
    }
}

impl<'e> Few<'e> {
    pub(super) fn find(bindings: &'e [Binding], value: &'e Expr, ty: &Type, op: &MergeOp) -> Option<Few<'e>> {
        let (Type::Struct(types), ExprKind::Struct(values)) = (ty, &value.kind) else { return None };
        let mut shorts = HashSet::new();
        for binding in bindings {
            if is_short(&binding.value, &shorts) {
                shorts.insert(binding.sym);
            } else if !is_plain(&binding.value, &shorts) {
                return None;
            }
        }
        let mut fields = Vec::new();
        for (i, ((ty, offset), value)) in types.iter().zip(layout::field_offsets(types)).zip(values).enumerate() {
            let (kind, MergeOp::All(op)) = (ty.as_scalar()?, op.field(i)) else { return None };
            let fits = match kind {
                ScalarKind::I128 => op == ReduceOp::Add && is_short(value, &shorts),
                kind => !kind.is_float() && is_plain(value, &shorts),
            };
            if !fits {
                return None;
            }
            fields.push(Field { value, kind, offset, op });
        }
        (fields.len() <= FIELDS_MAX).then_some(Few { bindings, fields })
    }

    /// Whether some of them are decimals in 64 bits.
    pub(super) fn has_shorts(&self) -> bool {
        self.fields.iter().any(Field::is_short)
    }

    fn exprs(&self) -> impl Iterator<Item = &'e Expr> {
        let values = self.fields.iter().map(|field| field.value);
        values.chain(self.bindings.iter().map(|binding| &binding.value))
    }

    /// The symbols that the values are made of.
    pub(super) fn free_vars(&self) -> HashSet<Sym> {
        self.exprs().flat_map(Expr::free_vars).collect()
    }

    /// The parts of a symbol's value that the values are made of.
    pub(super) fn demand_of(&self, sym: Sym) -> Demand {
        let all = build::strct(self.exprs().cloned());
        demands(&all).remove(&sym).unwrap_or_default()
    }
}

impl<'c> Emitter<'c, '_> {
    /// Computes the values of a strip of `rows` rows, of at most `rows_max`; whether they fit 64 bits and so do their sums,
    /// and how many rows have a group.
    pub(super) fn few_values(
        &mut self,
        few: &Few<'_>,
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
        let exact = self.short_loop(rows, limit, |e, shorts: &mut Shorts<'c, '_>, j| {
            bind(e, j)?;
            let number = e.load(i32, e.element_ptr(i32.into(), numbers, j)?)?.into_int_value();
            let is_there = e.cmp(IntPredicate::NE, number, i32.const_zero())?;
            let one = e.b.build_int_z_extend(is_there, i32, "")?;
            let now = e.load(i32, found)?.into_int_value();
            e.store(found, e.add(now, one)?)?;
            let mut known = HashSet::new();
            for binding in few.bindings {
                if is_short(&binding.value, &known) {
                    known.insert(binding.sym);
                    shorts.bind(e, binding.sym, &binding.value)?;
                } else {
                    e.bind(binding)?;
                }
            }
            for field in &few.fields {
                let is_read = e.is_read_again(few, field)?;
                let value: BasicValueEnum<'c> = match field.is_short() {
                    true => shorts.emit(e, field.value)?.into(),
                    false => e.emit(field.value)?.scalar()?,
                };
                if is_read {
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

    /// Merges what [`Emitter::few_values`] has computed: row `j` into group `numbers[j]`, for the groups from 1 to `groups`.
    /// `at` gives the address of a group's value.
    #[expect(clippy::too_many_arguments, reason = "a strip and a table")]
    pub(super) fn merge_few(
        &mut self,
        few: &Few<'_>,
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
                        None if field.is_short() => {
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
                if field.is_short() {
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

    /// Whether a value is read where it is merged rather than kept: a constant, or what one load gives.
    fn is_read_again(&self, few: &Few<'_>, field: &Field<'_>) -> Res<bool> {
        Ok(match &field.value.kind {
            ExprKind::Literal(_) => true,
            ExprKind::Field(of, index) => match &of.kind {
                ExprKind::Var(sym) if few.bindings.iter().all(|binding| binding.sym != *sym) => {
                    match self.vars.get(sym).map(|row| row.field(*index as usize)).transpose()? {
                        Some(Val::Deferred { column, .. }) => {
                            column.plain_integers().is_some_and(|(kind, _)| kind != ScalarKind::I128)
                        }
                        _ => !field.is_short(),
                    }
                }
                _ => false,
            },
            _ => false,
        })
    }

    /// What changes nothing when it is merged.
    fn nothing(&self, field: &Field<'_>) -> Res<Val<'c>> {
        self.identity_of(&Type::Scalar(field.summed()), &MergeOp::All(field.op))
    }
}
