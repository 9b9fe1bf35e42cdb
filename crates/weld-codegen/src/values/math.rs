//! Math functions: LLVM intrinsics, which become instructions or calls of the C library; `erf` is the runtime's, `exp`
//! of 32-bit floats our own.

use inkwell::values::BasicValueEnum;
use weld_core::op::{BinaryOp, UnaryOp};
use weld_core::ty::ScalarKind;

use super::val::zero_of;
use super::{Res, Values, internal};

impl<'c> Values<'c, '_> {
    pub(crate) fn negate_float(&self, value: BasicValueEnum<'c>) -> Res<BasicValueEnum<'c>> {
        Ok(match value {
            BasicValueEnum::VectorValue(lanes) => self.b.build_float_neg(lanes, "")?.into(),
            value => self.b.build_float_neg(value.into_float_value(), "")?.into(),
        })
    }

    /// A math function of a float, lane by lane.
    pub(crate) fn math(&self, op: UnaryOp, kind: ScalarKind, value: BasicValueEnum<'c>) -> Res<BasicValueEnum<'c>> {
        if let (UnaryOp::Exp, BasicValueEnum::FloatValue(x), ScalarKind::F32) = (op, value, kind)
            && self.has_own_exp()
        {
            return self.exp_f32(x);
        }
        let name = match op {
            UnaryOp::Exp => "llvm.exp",
            UnaryOp::Log => "llvm.log",
            UnaryOp::Sqrt => "llvm.sqrt",
            UnaryOp::Sin => "llvm.sin",
            UnaryOp::Cos => "llvm.cos",
            UnaryOp::Tan => "llvm.tan",
            UnaryOp::Asin => "llvm.asin",
            UnaryOp::Acos => "llvm.acos",
            UnaryOp::Atan => "llvm.atan",
            UnaryOp::Sinh => "llvm.sinh",
            UnaryOp::Cosh => "llvm.cosh",
            UnaryOp::Tanh => "llvm.tanh",
            UnaryOp::Erf => return self.erf(kind, value),
            UnaryOp::Log10 => "llvm.log10",
            UnaryOp::Floor => "llvm.floor",
            UnaryOp::Ceil => "llvm.ceil",
            UnaryOp::Trunc => "llvm.trunc",
            UnaryOp::Round => "llvm.round",
            UnaryOp::Abs if kind.is_float() => "llvm.fabs",
            UnaryOp::Abs => {
                // The least value stays as it is.
                let arguments = [value.into(), self.bool(false).into()];
                return self.intrinsic("llvm.abs", &[value.get_type()], &arguments);
            }
            UnaryOp::Neg | UnaryOp::Not => return Err(internal("no math function")),
        };
        self.intrinsic(name, &[value.get_type()], &[value.into()])
    }

    fn erf(&self, kind: ScalarKind, value: BasicValueEnum<'c>) -> Res<BasicValueEnum<'c>> {
        let name = if kind == ScalarKind::F32 { "weld_erf_f32" } else { "weld_erf_f64" };
        let BasicValueEnum::VectorValue(lanes) = value else {
            return self.call_value(name, &[value.into()]);
        };
        let mut result = lanes;
        for lane in 0..lanes.get_type().get_size() {
            let index = self.i32(lane as i32);
            let one = self.call_value(name, &[self.b.build_extract_element(lanes, index, "")?.into()])?;
            result = self.b.build_insert_element(result, one, index, "")?;
        }
        Ok(result.into())
    }

    pub(crate) fn unary(&self, op: UnaryOp, kind: ScalarKind, value: BasicValueEnum<'c>) -> Res<BasicValueEnum<'c>> {
        match op {
            UnaryOp::Neg if kind.is_float() => Ok(self.negate_float(value)?),
            UnaryOp::Neg => self.arithmetic(BinaryOp::Sub, kind, zero_of(value.get_type()), value),
            UnaryOp::Not => {
                let ones = self.splat_like(self.bool(true).into(), value)?;
                self.arithmetic(BinaryOp::BitXor, kind, value, ones)
            }
            _ => self.math(op, kind, value),
        }
    }
}
