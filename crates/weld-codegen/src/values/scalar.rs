//! Operators and casts of scalars and, lane by lane, of `simd` values.

use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{BasicValue, BasicValueEnum, FastMathFlags, InstructionOpcode, IntValue};
use inkwell::{FloatPredicate, IntPredicate};
use weld_core::diag::Span;
use weld_core::ir::Literal;
use weld_core::op::BinaryOp;
use weld_core::ty::ScalarKind;
use weld_runtime::Status;

use super::{Res, Values, internal};

impl<'c> Values<'c, '_> {
    pub(crate) fn literal(&self, literal: Literal) -> BasicValueEnum<'c> {
        match (self.unit.scalar_type(literal.kind()), literal) {
            (BasicTypeEnum::FloatType(ty), Literal::F32(v)) => ty.const_float(v.into()).into(),
            (BasicTypeEnum::FloatType(ty), Literal::F64(v)) => ty.const_float(v).into(),
            (ty, literal) => {
                let (ty, bits) = (ty.into_int_type(), literal.bits());
                match ty.get_bit_width() {
                    128 => ty.const_int_arbitrary_precision(&[bits as u64, (bits >> 64) as u64]).into(),
                    width => ty.const_int(bits as u64 & (u64::MAX >> (64 - width)), false).into(),
                }
            }
        }
    }

    /// The same value in all lanes if `like` is a vector.
    pub(crate) fn splat_like(&self, value: BasicValueEnum<'c>, like: BasicValueEnum<'c>) -> Res<BasicValueEnum<'c>> {
        if like.is_vector_value() {
            self.splat(value, like.into_vector_value().get_type().get_size())
        } else {
            Ok(value)
        }
    }

    pub(crate) fn splat(&self, value: BasicValueEnum<'c>, lanes: u32) -> Res<BasicValueEnum<'c>> {
        let ty = match value.get_type() {
            BasicTypeEnum::FloatType(ty) => ty.vec_type(lanes),
            BasicTypeEnum::IntType(ty) => ty.vec_type(lanes),
            _ => return Err(internal("a splat of something that is no number")),
        };
        let first = self.b.build_insert_element(ty.get_undef(), value, self.i32(0), "")?;
        let mask = self.unit.ll.i32_type().vec_type(lanes).const_zero();
        Ok(self.b.build_shuffle_vector(first, ty.get_undef(), mask, "")?.into())
    }

    /// An operator that cannot fail: everything but integer division.
    pub(crate) fn arithmetic(
        &self,
        op: BinaryOp,
        kind: ScalarKind,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
    ) -> Res<BasicValueEnum<'c>> {
        use InstructionOpcode as Op;
        let float = kind.is_float();
        let build = |opcode: Op| -> Res<BasicValueEnum<'c>> { Ok(self.b.build_binop(opcode, a, b, "")?) };
        let call = |name: &str| self.intrinsic(name, &[a.get_type()], &[a.into(), b.into()]);
        match op {
            BinaryOp::Add => build(if float { Op::FAdd } else { Op::Add }),
            BinaryOp::Sub => build(if float { Op::FSub } else { Op::Sub }),
            BinaryOp::Mul => build(if float { Op::FMul } else { Op::Mul }),
            BinaryOp::Div if float => build(Op::FDiv),
            BinaryOp::Rem if float => self.float_remainder(a, b),
            BinaryOp::BitAnd | BinaryOp::And => build(Op::And),
            BinaryOp::BitOr | BinaryOp::Or => build(Op::Or),
            BinaryOp::BitXor => build(Op::Xor),
            BinaryOp::Min if float => call("llvm.minimumnum"),
            BinaryOp::Max if float => call("llvm.maximumnum"),
            BinaryOp::Min if kind.is_signed() => call("llvm.smin"),
            BinaryOp::Max if kind.is_signed() => call("llvm.smax"),
            BinaryOp::Min => call("llvm.umin"),
            BinaryOp::Max => call("llvm.umax"),
            BinaryOp::Pow => call("llvm.pow"),
            op if op.is_comparison() => self.compare_scalars(op, kind, a, b),
            _ => Err(internal("an operator that can fail")),
        }
    }

    /// `fmod`. Of a power of two LLVM computes it without a call, and gives the NaN of an infinity that infinity's
    /// sign; `fmod` gives the NaN that the processor makes of an invalid operation. An order by the sign of NaNs tells
    /// them apart.
    fn float_remainder(&self, a: BasicValueEnum<'c>, b: BasicValueEnum<'c>) -> Res<BasicValueEnum<'c>> {
        use InstructionOpcode as Op;
        let remainder = self.b.build_binop(Op::FRem, a, b, "")?;
        let product = self.b.build_binop(Op::FMul, a, b, "")?;
        let invalid = self.b.build_binop(Op::FDiv, product, product, "")?;
        let is_nan = self.compare_scalars(BinaryOp::Ne, ScalarKind::F64, remainder, remainder)?;
        self.select_lanes(is_nan, invalid, remainder)
    }

    /// Any operator of two scalars; integer division traps.
    pub(crate) fn binary(
        &self,
        op: BinaryOp,
        kind: ScalarKind,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
        span: Span,
    ) -> Res<BasicValueEnum<'c>> {
        if !matches!(op, BinaryOp::Div | BinaryOp::Rem) || kind.is_float() {
            return self.arithmetic(op, kind, a, b);
        }
        let number = |value: u64| -> Res<BasicValueEnum<'c>> {
            self.splat_like(self.unit.scalar_type(kind).into_int_type().const_int(value, true).into(), b)
        };
        let equal = |x, y| self.compare_scalars(BinaryOp::Eq, kind, x, y);
        let by_zero = self.any_lane(equal(b, number(0)?)?)?;
        self.trap_if(by_zero, Status::DivisionByZero, span, &[])?;
        if !kind.is_signed() {
            let opcode = if op == BinaryOp::Div { InstructionOpcode::UDiv } else { InstructionOpcode::URem };
            return Ok(self.b.build_binop(opcode, a, b, "")?);
        }
        let minus_one = equal(b, number(u64::MAX)?)?;
        if op == BinaryOp::Rem {
            // x % -1 is 0; dividing by 1 instead gives that and cannot overflow.
            let divisor = self.select_lanes(minus_one, number(1)?, b)?;
            return Ok(self.b.build_binop(InstructionOpcode::SRem, a, divisor, "")?);
        }
        let bits = kind.bits();
        let lowest = match bits {
            128 => self.unit.ll.i128_type().const_int_arbitrary_precision(&[0, 1 << 63]),
            _ => self.unit.scalar_type(kind).into_int_type().const_int(1 << (bits - 1), false),
        };
        let lowest = equal(a, self.splat_like(lowest.into(), a)?)?;
        let overflow = self.b.build_binop(InstructionOpcode::And, minus_one, lowest, "")?;
        self.trap_if(self.any_lane(overflow)?, Status::Overflow, span, &[])?;
        Ok(self.b.build_binop(InstructionOpcode::SDiv, a, b, "")?)
    }

    pub(crate) fn compare_scalars(
        &self,
        op: BinaryOp,
        kind: ScalarKind,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
    ) -> Res<BasicValueEnum<'c>> {
        if kind.is_float() {
            let predicate = match op {
                BinaryOp::Eq => FloatPredicate::OEQ,
                BinaryOp::Ne => FloatPredicate::UNE,
                BinaryOp::Lt => FloatPredicate::OLT,
                BinaryOp::Le => FloatPredicate::OLE,
                BinaryOp::Gt => FloatPredicate::OGT,
                _ => FloatPredicate::OGE,
            };
            return Ok(match (a, b) {
                (BasicValueEnum::VectorValue(a), BasicValueEnum::VectorValue(b)) => {
                    self.b.build_float_compare(predicate, a, b, "")?.into()
                }
                _ => self.b.build_float_compare(predicate, a.into_float_value(), b.into_float_value(), "")?.into(),
            });
        }
        let signed = kind.is_signed();
        let predicate = match op {
            BinaryOp::Eq => IntPredicate::EQ,
            BinaryOp::Ne => IntPredicate::NE,
            BinaryOp::Lt if signed => IntPredicate::SLT,
            BinaryOp::Le if signed => IntPredicate::SLE,
            BinaryOp::Gt if signed => IntPredicate::SGT,
            BinaryOp::Ge if signed => IntPredicate::SGE,
            BinaryOp::Lt => IntPredicate::ULT,
            BinaryOp::Le => IntPredicate::ULE,
            BinaryOp::Gt => IntPredicate::UGT,
            _ => IntPredicate::UGE,
        };
        Ok(match (a, b) {
            (BasicValueEnum::VectorValue(a), BasicValueEnum::VectorValue(b)) => {
                self.b.build_int_compare(predicate, a, b, "")?.into()
            }
            _ => self.cmp(predicate, a.into_int_value(), b.into_int_value())?.into(),
        })
    }

    /// Whether a condition holds in any lane.
    pub(crate) fn any_lane(&self, cond: BasicValueEnum<'c>) -> Res<IntValue<'c>> {
        match cond {
            BasicValueEnum::VectorValue(lanes) => {
                let ty = lanes.get_type().as_basic_type_enum();
                Ok(self.intrinsic("llvm.vector.reduce.or", &[ty], &[lanes.into()])?.into_int_value())
            }
            other => Ok(other.into_int_value()),
        }
    }

    /// `cond ? a : b`, lane by lane if `cond` is a vector.
    pub(crate) fn select_lanes(
        &self,
        cond: BasicValueEnum<'c>,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
    ) -> Res<BasicValueEnum<'c>> {
        Ok(match cond {
            BasicValueEnum::VectorValue(cond) => self.b.build_select(cond, a, b, "")?,
            cond => self.b.build_select(cond.into_int_value(), a, b, "")?,
        })
    }

    /// A conversion between kinds.
    pub(crate) fn cast(&self, value: BasicValueEnum<'c>, from: ScalarKind, to: ScalarKind) -> Res<BasicValueEnum<'c>> {
        use InstructionOpcode as Op;
        if from == to {
            return Ok(value);
        }
        let mut ty = self.unit.scalar_type(to);
        if let BasicValueEnum::VectorValue(lanes) = value {
            let lanes = lanes.get_type().get_size();
            ty = match ty {
                BasicTypeEnum::FloatType(ty) => ty.vec_type(lanes).into(),
                other => other.into_int_type().vec_type(lanes).into(),
            };
        }
        if to == ScalarKind::Bool {
            let zero = super::val::zero_of(value.get_type());
            return self.compare_scalars(BinaryOp::Ne, from, value, zero);
        }
        let build = |opcode: Op| -> Res<BasicValueEnum<'c>> { Ok(self.b.build_cast(opcode, value, ty, "")?) };
        match (from.is_float(), to.is_float()) {
            (false, false) if to.bytes() < from.bytes() => build(Op::Trunc),
            // A bool is one bit, whatever its bytes.
            (false, false) if to.bytes() == from.bytes() && from != ScalarKind::Bool => Ok(value),
            (false, false) if from.is_signed() => build(Op::SExt),
            (false, false) => build(Op::ZExt),
            (false, true) if from.is_signed() => build(Op::SIToFP),
            (false, true) => build(Op::UIToFP),
            (true, true) if to.bytes() < from.bytes() => build(Op::FPTrunc),
            (true, true) => build(Op::FPExt),
            // Out of range saturates, NaN gives zero.
            (true, false) => {
                let name = if to.is_signed() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
                self.intrinsic(name, &[ty, value.get_type()], &[value.into()])
            }
        }
    }

    /// Lets LLVM regroup a sum or product of floats.
    pub(crate) fn allow_reassociation(&self, value: BasicValueEnum<'c>) -> Res<()> {
        let Some(instruction) = value.as_instruction_value() else { return Ok(()) };
        instruction.set_fast_math_flags(FastMathFlags::AllowReassoc).map_err(|e| internal(&e.to_string()))
    }

    /// The bytes of a scalar as an integer.
    pub(crate) fn scalar_bits(&self, kind: ScalarKind, value: BasicValueEnum<'c>) -> Res<IntValue<'c>> {
        Ok(match kind {
            ScalarKind::F32 => self.b.build_bit_cast(value, self.unit.ll.i32_type(), "")?.into_int_value(),
            ScalarKind::F64 => self.b.build_bit_cast(value, self.unit.i64_type(), "")?.into_int_value(),
            _ => value.into_int_value(),
        })
    }
}
