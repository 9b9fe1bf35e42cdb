//! The binops of whole structs: extremes of values that may be absent, moments, and the first or the last of structs.

use inkwell::FloatPredicate;
use inkwell::values::{FloatValue, IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::op::{BinaryOp, Choice, StructOp};
use weld_core::ty::{ScalarKind, Type};

use super::{Builders, BytesVal, Res, Val, internal};
use crate::block::Flow;
use crate::layout;

impl<'c> Builders<'c, '_> {
    pub(crate) fn struct_identity(&self, op: StructOp, ty: &Type) -> Res<Val<'c>> {
        if op.choice().is_some() {
            return self.zero(ty);
        }
        let fields = ty.fields().ok_or_else(|| internal("a binop of structs without one"))?;
        let f64 = self.unit.ll.f64_type();
        let of = match (op, fields) {
            (StructOp::Moments, fields) => {
                return Ok(Val::structure(fields.iter().map(|_| Val::Scalar(f64.const_zero().into())).collect()));
            }
            (_, [_, of]) => of,
            _ => return Err(internal("an extreme of something that is no pair")),
        };
        let start = |max: f64| if op == StructOp::Least { max } else { -max };
        let value = match of.as_scalar() {
            Some(ScalarKind::F32) => {
                Val::Scalar(self.unit.ll.f32_type().const_float(start(f64::from(f32::MAX))).into())
            }
            Some(_) => Val::Scalar(f64.const_float(start(f64::MAX)).into()),
            None => Val::Bytes(BytesVal::View { low: self.i64(0), high: self.i64(0) }),
        };
        Ok(Val::structure(vec![Val::int(self.bool(false)), value]))
    }

    /// `a op b` of values that need no memory.
    pub(crate) fn reduce_struct(&mut self, op: StructOp, ty: &Type, a: &Val<'c>, b: &Val<'c>) -> Res<Val<'c>> {
        if op == StructOp::Moments {
            return self.reduce_moments(ty.fields().map_or(0, <[Type]>::len), a, b);
        }
        if let Some(choice) = op.choice() {
            let taken = self.takes_struct(choice, ty, a, b)?;
            return self.choose_val(taken, b, a, ty);
        }
        let (taken, there) = self.takes_other(op, ty, a, b)?;
        let (now, other) = (a.field(1)?, b.field(1)?);
        let value = match (now, other) {
            (Val::Bytes(now), Val::Bytes(other)) => {
                let ((low, high), (other_low, other_high)) = (self.bytes_view(&now)?, self.bytes_view(&other)?);
                let (low, high) = (self.choose_int(taken, other_low, low)?, self.choose_int(taken, other_high, high)?);
                Val::Bytes(BytesVal::View { low, high })
            }
            (now, other) => Val::Scalar(self.choose(taken, other.scalar()?, now.scalar()?)?),
        };
        Ok(Val::structure(vec![Val::int(there), value]))
    }

    /// Merges a byte vector into one in a table's row. The bytes of one that wins are copied, so that they outlive
    /// where they came from; they take the place of those before if there is room.
    pub(crate) fn merge_extreme_at(
        &mut self,
        op: StructOp,
        ty: &Type,
        (at, table): (PointerValue<'c>, PointerValue<'c>),
        value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        let now = self.load_row(ty, at, false)?;
        let (taken, there) = self.takes_other(op, ty, &now, value)?;
        let Some([present, bytes]) = ty.fields() else {
            return Err(internal("an extreme of something that is no pair"));
        };
        let (keep, done) = (self.new_block("keep"), self.new_block("kept"));
        self.branch_if(taken, keep, done)?;
        self.at(keep);
        let offsets = layout::field_offsets(&[present.clone(), bytes.clone()]);
        self.keep_at(bytes, (self.offset(at, offsets[1])?, table), &value.field(1)?, span)?;
        self.branch(done)?;
        self.at(done);
        self.store_row(present, self.offset(at, offsets[0])?, &Val::int(there))
    }

    /// Merges a struct into one in a table's row, which it replaces or leaves: as a rule one of both for long, so a
    /// branch is predicted, and nothing but the key of the other one is read.
    pub(crate) fn merge_choice_at(
        &mut self,
        choice: Choice,
        fields: &[Type],
        (at, table): (PointerValue<'c>, Option<PointerValue<'c>>),
        value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        let offsets = layout::field_offsets(fields);
        let mut now = Vec::new();
        for (field, offset) in
            fields.iter().zip(&offsets).take(if matches!(choice, Choice::SecondIf(_)) { 2 } else { 1 })
        {
            now.push(self.load_row(field, self.offset(at, *offset)?, false)?);
        }
        let ty = Type::structure(fields.iter().cloned());
        let taken = self.takes_struct(choice, &ty, &Val::structure(now), value)?;
        let (keep, done) = (self.new_block("keep"), self.new_block("kept"));
        self.branch_if(taken, keep, done)?;
        self.at(keep);
        match table {
            Some(table) => self.keep_at(&ty, (at, table), value, span)?,
            None => self.store_row(&ty, at, value)?,
        }
        self.branch(done)?;
        self.at(done);
        Ok(())
    }

    /// Stores a value in a table's row in place of another one, with copies of its bytes.
    fn keep_at(
        &mut self,
        ty: &Type,
        (at, table): (PointerValue<'c>, PointerValue<'c>),
        value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        match (ty, value) {
            (Type::Struct(fields), value) => {
                for (i, (field, offset)) in fields.iter().zip(layout::field_offsets(fields)).enumerate() {
                    self.keep_at(field, (self.offset(at, offset)?, table), &value.field(i)?, span)?;
                }
                Ok(())
            }
            (Type::Vec(_), Val::Bytes(bytes)) => {
                let (low, high) = self.bytes_view(bytes)?;
                let args = [self.run.into(), table.into(), at.into(), low.into(), high.into()];
                let kept = self.call_seldom("weld_dict_keep", &args)?.into_int_value();
                self.trap_noted_if(self.b.build_not(kept, "")?, span)
            }
            (Type::Vec(_), _) => Err(internal("a byte vector of another kind")),
            _ => self.store_row(ty, at, value),
        }
    }

    /// Whether a struct takes the place of another one.
    fn takes_struct(&mut self, choice: Choice, ty: &Type, a: &Val<'c>, b: &Val<'c>) -> Res<IntValue<'c>> {
        let (a_there, b_there) = (a.field(0)?.into_int()?, b.field(0)?.into_int()?);
        let wins = match (choice, ty.fields()) {
            (Choice::SecondIf(op), Some([_, key, ..])) => {
                self.compare(op, key, &b.field(1)?, &a.field(1)?, Span::NONE)?
            }
            _ => self.bool(choice == Choice::Second),
        };
        let wins = self.or(wins, self.b.build_not(a_there, "")?)?;
        self.and(b_there, wins)
    }

    /// Whether the other value takes the place of the first, and whether there is one then.
    fn takes_other(&mut self, op: StructOp, ty: &Type, a: &Val<'c>, b: &Val<'c>) -> Res<(IntValue<'c>, IntValue<'c>)> {
        let Some([_, of]) = ty.fields() else { return Err(internal("an extreme of something that is no pair")) };
        let (a_there, b_there) = (a.field(0)?.into_int()?, b.field(0)?.into_int()?);
        let (now, other) = (a.field(1)?, b.field(1)?);
        let there = self.or(a_there, b_there)?;
        let taken = if of.as_scalar().is_some() {
            let (now, other) = (now.scalar()?.into_float_value(), other.scalar()?.into_float_value());
            // Holds also where one is a NaN.
            let wins = if op == StructOp::Least { FloatPredicate::ULT } else { FloatPredicate::UGT };
            let wins = self.b.build_float_compare(wins, other, now, "")?;
            self.and(b_there, wins)?
        } else {
            self.and_then(b_there, |e| {
                let wins = if op == StructOp::Least { BinaryOp::Lt } else { BinaryOp::Gt };
                let wins = e.compare(wins, of, &other, &now, Span::NONE)?;
                e.or(wins, e.b.build_not(a_there, "")?)
            })?
        };
        Ok((taken, there))
    }

    fn reduce_moments(&mut self, fields: usize, a: &Val<'c>, b: &Val<'c>) -> Res<Val<'c>> {
        let part =
            |of: &Val<'c>, index: usize| -> Res<FloatValue<'c>> { Ok(of.field(index)?.scalar()?.into_float_value()) };
        let (a_count, b_count) = (part(a, 0)?, part(b, 0)?);
        let count = self.b.build_float_add(a_count, b_count, "")?;
        let is = |count: FloatValue<'c>, number: f64| -> Res<IntValue<'c>> {
            let number = count.get_type().const_float(number);
            Ok(self.b.build_float_compare(FloatPredicate::OEQ, count, number, "")?)
        };
        let (from_none, with_none, with_row) = (is(a_count, 0.0)?, is(b_count, 0.0)?, is(b_count, 1.0)?);
        let mut merged = vec![count];
        let mut steps = Vec::new();
        for mean in (1..fields - 1).step_by(2) {
            let (a_mean, b_mean) = (part(a, mean)?, part(b, mean)?);
            let delta = self.b.build_float_sub(b_mean, a_mean, "")?;
            let step = self.b.build_float_mul(delta, b_count, "")?;
            let step = self.b.build_float_div(step, count, "")?;
            let moved = self.b.build_float_add(step, a_mean, "")?;
            let moved = self.choose(from_none, b_mean, moved)?.into_float_value();
            let left = self.b.build_float_sub(b_mean, moved, "")?;
            steps.push((delta, step, left));
            let m2 =
                self.merged_sum(a_count, with_row, (part(a, mean + 1)?, part(b, mean + 1)?), (delta, left, step))?;
            merged.extend([moved, m2]);
        }
        if let [x, y] = steps[..] {
            let products = (part(a, fields - 1)?, part(b, fields - 1)?);
            merged.push(self.merged_sum(a_count, with_row, products, (x.0, y.2, y.1))?);
        }
        let mut values = Vec::with_capacity(fields);
        for (index, merged) in merged.into_iter().enumerate() {
            values.push(Val::Scalar(self.choose(with_none, part(a, index)?, merged)?));
        }
        Ok(Val::structure(values))
    }

    /// A sum of squares or products of both: with a single row, `delta * left` comes to it, as Welford has it, else
    /// `delta * step` for each row of the first.
    fn merged_sum(
        &self,
        a_count: FloatValue<'c>,
        with_row: IntValue<'c>,
        (a, b): (FloatValue<'c>, FloatValue<'c>),
        (delta, left, step): (FloatValue<'c>, FloatValue<'c>, FloatValue<'c>),
    ) -> Res<FloatValue<'c>> {
        let row = self.b.build_float_mul(delta, left, "")?;
        let part = self.b.build_float_mul(self.b.build_float_mul(delta, step, "")?, a_count, "")?;
        let moved = self.choose(with_row, row, part)?.into_float_value();
        let both = self.b.build_float_add(a, b, "")?;
        Ok(self.b.build_float_add(both, moved, "")?)
    }
}
