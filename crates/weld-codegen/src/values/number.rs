//! Functions of numbers: checked arithmetic, rounding, magnitudes, order keys, dates.

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue};
use weld_core::diag::Span;
use weld_core::op::{BinaryOp, Intrinsic};
use weld_core::ty::ScalarKind;
use weld_runtime::Status;

use super::{Res, Values};

impl<'c> Values<'c, '_> {
    pub(crate) fn checked(
        &self,
        intrinsic: Intrinsic,
        kind: ScalarKind,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
        span: Span,
    ) -> Res<BasicValueEnum<'c>> {
        let name = match (intrinsic, kind.is_signed()) {
            (Intrinsic::CheckedAdd, true) => "llvm.sadd.with.overflow",
            (Intrinsic::CheckedAdd, false) => "llvm.uadd.with.overflow",
            (Intrinsic::CheckedSub, true) => "llvm.ssub.with.overflow",
            (Intrinsic::CheckedSub, false) => "llvm.usub.with.overflow",
            (_, true) => "llvm.smul.with.overflow",
            (_, false) => "llvm.umul.with.overflow",
        };
        let pair = self.intrinsic(name, &[a.get_type()], &[a.into(), b.into()])?.into_struct_value();
        let value = self.b.build_extract_value(pair, 0, "")?;
        let overflow = self.b.build_extract_value(pair, 1, "")?.into_int_value();
        self.trap_if(overflow, Status::Overflow, span, &[])?;
        Ok(value)
    }

    /// The quotient rounded half away from zero.
    pub(crate) fn round_div(
        &self,
        kind: ScalarKind,
        a: IntValue<'c>,
        b: IntValue<'c>,
        span: Span,
    ) -> Res<IntValue<'c>> {
        let quotient = self.binary(BinaryOp::Div, kind, a.into(), b.into(), span)?.into_int_value();
        let rest = self.sub(a, self.mul(quotient, b)?)?;
        // |rest| >= |b| - |rest|, as unsigned numbers, which cannot overflow.
        let magnitude = |value: IntValue<'c>| -> Res<IntValue<'c>> {
            let ty = value.get_type().into();
            let args = [value.into(), self.bool(false).into()];
            Ok(self.intrinsic("llvm.abs", &[ty], &args)?.into_int_value())
        };
        let (rest, divisor) = (magnitude(rest)?, magnitude(b)?);
        let away = self.cmp(IntPredicate::UGE, rest, self.sub(divisor, rest)?)?;
        let signs = self.b.build_xor(a, b, "")?;
        let negative = self.cmp(IntPredicate::SLT, signs, signs.get_type().const_zero())?;
        let ty = a.get_type();
        let unit = self.choose_int(negative, ty.const_all_ones(), ty.const_int(1, false))?;
        let step = self.choose_int(away, unit, ty.const_zero())?;
        self.add(quotient, step)
    }

    /// An integer that orders as SQL orders floats: by IEEE 754's total order, but -0 is 0.
    pub(crate) fn order_key(&self, kind: ScalarKind, value: BasicValueEnum<'c>) -> Res<IntValue<'c>> {
        let value = value.into_float_value();
        let ty = match kind {
            ScalarKind::F32 => self.unit.ll.i32_type(),
            _ => self.unit.i64_type(),
        };
        let zero = value.get_type().const_zero();
        let zero = self.b.build_float_compare(inkwell::FloatPredicate::OEQ, value, zero, "")?;
        let bits = self.b.build_bit_cast(value, ty, "")?.into_int_value();
        let bits = self.choose_int(zero, ty.const_zero(), bits)?;
        let max = self.b.build_right_shift(ty.const_all_ones(), ty.const_int(1, false), false, "")?;
        let flipped = self.b.build_xor(bits, max, "")?;
        let negative = self.cmp(IntPredicate::SLT, bits, ty.const_zero())?;
        self.choose_int(negative, flipped, bits)
    }

    /// The inverse of [`Values::order_key`].
    pub(crate) fn float_of_order_key(&self, kind: ScalarKind, key: IntValue<'c>) -> Res<BasicValueEnum<'c>> {
        let ty = key.get_type();
        let max = self.b.build_right_shift(ty.const_all_ones(), ty.const_int(1, false), false, "")?;
        let flipped = self.b.build_xor(key, max, "")?;
        let negative = self.cmp(IntPredicate::SLT, key, ty.const_zero())?;
        let bits = self.choose_int(negative, flipped, key)?;
        let float = match kind {
            ScalarKind::I32 => self.unit.ll.f32_type(),
            _ => self.unit.ll.f64_type(),
        };
        Ok(self.b.build_bit_cast(bits, float, "")?)
    }

    /// Year, month or day of a day number: Hinnant's `civil_from_days`, whose years begin in March, in unsigned 64-bit
    /// arithmetic on days shifted by whole 400-year cycles so that they are positive.
    pub(crate) fn civil(&self, part: Intrinsic, days: IntValue<'c>) -> Res<IntValue<'c>> {
        /// 400-year cycles that make every 32-bit day number positive.
        const CYCLES: i64 = 15_000;
        const CYCLE_DAYS: i64 = 146_097;
        let i64 = self.unit.i64_type();
        let n = |value: i64| self.i64(value);
        let div = |a: IntValue<'c>, b: i64| -> Res<IntValue<'c>> { Ok(self.b.build_int_unsigned_div(a, n(b), "")?) };
        let days = self.b.build_int_s_extend(days, i64, "")?;
        let days = self.add(days, n(719_468 + CYCLES * CYCLE_DAYS))?;
        let cycle = div(days, CYCLE_DAYS)?;
        let day_of_cycle = self.sub(days, self.mul(cycle, n(CYCLE_DAYS))?)?;
        let leap = self.sub(day_of_cycle, div(day_of_cycle, 1_460)?)?;
        let leap = self.add(leap, div(day_of_cycle, 36_524)?)?;
        let leap = self.sub(leap, div(day_of_cycle, 146_096)?)?;
        let year_of_cycle = div(leap, 365)?;
        let days_before =
            self.sub(self.add(self.mul(year_of_cycle, n(365))?, div(year_of_cycle, 4)?)?, div(year_of_cycle, 100)?)?;
        let day_of_year = self.sub(day_of_cycle, days_before)?;
        let month_from_march = div(self.add(self.mul(day_of_year, n(5))?, n(2))?, 153)?;
        let before_march = self.cmp(IntPredicate::UGE, month_from_march, n(10))?;
        let value = match part {
            Intrinsic::Day => {
                let start = div(self.add(self.mul(month_from_march, n(153))?, n(2))?, 5)?;
                self.add(self.sub(day_of_year, start)?, n(1))?
            }
            Intrinsic::Month => {
                let shift = self.choose_int(before_march, n(-9), n(3))?;
                self.add(month_from_march, shift)?
            }
            _ => {
                let year = self.add(year_of_cycle, self.mul(self.sub(cycle, n(CYCLES))?, n(400))?)?;
                self.add(year, self.to_i64(before_march)?)?
            }
        };
        Ok(self.b.build_int_truncate(value, self.unit.ll.i32_type(), "")?)
    }

    /// The value with all bits equal to the sign flipped.
    pub(crate) fn magnitude(&self, value: IntValue<'c>, bits: u32) -> Res<IntValue<'c>> {
        let shift = value.get_type().const_int(u64::from(bits) - 1, false);
        let sign = self.b.build_right_shift(value, shift, true, "")?;
        Ok(self.b.build_xor(value, sign, "")?)
    }
}
