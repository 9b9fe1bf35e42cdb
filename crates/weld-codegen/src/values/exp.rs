//! `exp` of 32-bit floats as instructions, to the bit what the GNU C library gives on processors with fused
//! multiply-add.
//!
//! A call for each element keeps a loop's values in memory and costs as much again as the function. In 64 bits, with 32
//! steps to a power of two:
//!
//! ```text
//! exp(x) = 2^(k/32) * exp(r)    k = round(32 x / ln 2)    exp(r) by a cubic, since |r| <= ln 2 / 64
//! ```
//! `2^(k/32)` is the entry of a table with the whole part of `k/32` added to its exponent.

use inkwell::FloatPredicate;
use inkwell::values::{BasicValueEnum, FloatValue, IntValue};

use super::{Res, Values};

/// Steps to a power of two.
const STEPS: u64 = 32;

/// Places of a 64-bit float's fraction.
const FRACTION_BITS: u64 = 52;

/// Added to a float of moderate size, it leaves the nearest integer in the last places.
const ROUNDING: f64 = 6755399441055744.0;

/// Of the cubic in `32 r / ln 2`, from the third power on: the C library's, whose last bit others would not give.
const CUBIC: [f64; 3] =
    [f64::from_bits(0x3ebc6af84b912394), f64::from_bits(0x3f2ebfce50fac4f3), f64::from_bits(0x3f962e42ff0c52d6)];

/// `32 / ln 2`.
const STEPS_IN_ONE: f64 = f64::from_bits(0x40471547652b82fe);

/// From these on the result is infinite, or zero.
const LARGEST: f64 = 88.72283172607422;
const LEAST: f64 = -103.97207641601562;

impl<'c> Values<'c, '_> {
    /// Whether `exp_f32` is what the C library gives.
    pub(crate) fn has_own_exp(&self) -> bool {
        cfg!(target_env = "gnu") && self.unit.machine.can_fuse
    }

    pub(crate) fn exp_f32(&self, x: FloatValue<'c>) -> Res<BasicValueEnum<'c>> {
        let wide = self.unit.ll.f64_type();
        let number = |value: f64| wide.const_float(value);
        let fused = |a: FloatValue<'c>, b: FloatValue<'c>, c: FloatValue<'c>| -> Res<FloatValue<'c>> {
            Ok(self.intrinsic("llvm.fma", &[wide.into()], &[a.into(), b.into(), c.into()])?.into_float_value())
        };
        let value = self.b.build_float_ext(x, wide, "")?;
        let rounded = fused(number(STEPS_IN_ONE), value, number(ROUNDING))?;
        let steps = self.b.build_bit_cast(rounded, self.unit.i64_type(), "")?.into_int_value();
        let whole = self.b.build_float_sub(rounded, number(ROUNDING), "")?;
        let rest = fused(number(STEPS_IN_ONE), value, self.b.build_float_neg(whole, "")?)?;
        let scale = self.power_of_steps(steps)?;
        let [third, second, first] = CUBIC.map(number);
        let high = fused(third, rest, second)?;
        let low = fused(first, rest, number(1.0))?;
        let square = self.b.build_float_mul(rest, rest, "")?;
        let power = self.b.build_float_mul(fused(high, square, low)?, scale, "")?;
        let is_large = self.b.build_float_compare(FloatPredicate::OGT, value, number(LARGEST), "")?;
        let power = self.b.build_select(is_large, number(f64::INFINITY), power, "")?;
        let is_small = self.b.build_float_compare(FloatPredicate::OLT, value, number(LEAST), "")?;
        let power = self.b.build_select(is_small, number(0.0), power.into_float_value(), "")?;
        Ok(self.b.build_float_trunc(power.into_float_value(), x.get_type(), "")?.into())
    }

    /// `2^(steps / 32)`, for the steps in the last places of the integer.
    fn power_of_steps(&self, steps: IntValue<'c>) -> Res<FloatValue<'c>> {
        let shift = FRACTION_BITS - u64::from(STEPS.ilog2());
        // Less what the step adds to the exponent below.
        let entry = |step: u64| ((step as f64 / STEPS as f64).exp2().to_bits() - (step << shift)).to_ne_bytes();
        let table = self.unit.constant_bytes(&(0..STEPS).flat_map(entry).collect::<Vec<u8>>());
        let step = self.b.build_and(steps, self.i64(STEPS as i64 - 1), "")?;
        let entry = self.element_ptr(self.unit.i64_type().into(), table, step)?;
        let entry = self.load_i64(entry)?;
        let exponent = self.b.build_left_shift(steps, self.i64(shift as i64), "")?;
        let bits = self.b.build_int_add(entry, exponent, "")?;
        Ok(self.b.build_bit_cast(bits, self.unit.ll.f64_type(), "")?.into_float_value())
    }
}
