//! Mergers: one value, combined with each merged one.
//!
//! State: the value in row form. Sums of floats may be reassociated unless the loop is strict, which lets LLVM keep
//! several partial sums.

use inkwell::types::BasicTypeEnum;
use inkwell::values::BasicValueEnum;
use weld_core::diag::Span;
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::{ScalarKind, Type};

use super::{Builders, Handle, Res, Val, internal};

impl<'c> Builders<'c, '_> {
    pub(crate) fn start_merger(
        &mut self,
        handle: &Handle<'c>,
        value: &Type,
        op: &MergeOp,
        arg: Option<&Val<'c>>,
    ) -> Res<()> {
        let start = match arg {
            Some(arg) => arg.clone(),
            None => self.identity_of(value, op)?,
        };
        self.store_row(value, handle.state, &start)
    }

    pub(crate) fn merge_merger(
        &mut self,
        handle: &Handle<'c>,
        ty: &Type,
        op: &MergeOp,
        value: &Val<'c>,
        _span: Span,
    ) -> Res<()> {
        let now = self.load_row(ty, handle.state, false)?;
        let merged = self.reduce(ty, op, &now, value)?;
        self.store_row(ty, handle.state, &merged)
    }

    /// `a op b`, slot by slot. Lanes of a `simd` value are combined in order first.
    pub(crate) fn reduce(&mut self, ty: &Type, op: &MergeOp, a: &Val<'c>, b: &Val<'c>) -> Res<Val<'c>> {
        match (ty, op) {
            (ty, MergeOp::Struct(op)) => self.reduce_struct(*op, ty, a, b),
            (Type::Struct(fields), op) => {
                let mut values = Vec::with_capacity(fields.len());
                for (i, field) in fields.iter().enumerate() {
                    values.push(self.reduce(field, &op.field(i), &a.field(i)?, &b.field(i)?)?);
                }
                Ok(Val::structure(values))
            }
            (Type::Scalar(kind), MergeOp::All(op)) => {
                let (mut a, b) = (a.scalar()?, b.scalar()?);
                if !b.is_vector_value() {
                    return Ok(Val::Scalar(self.reduce_scalar(*kind, *op, a, b)?));
                }
                for lane in 0..self.unit.lanes(*kind) {
                    let lane = self.b.build_extract_element(b.into_vector_value(), self.i32(lane as i32), "")?;
                    a = self.reduce_scalar(*kind, *op, a, lane)?;
                }
                Ok(Val::Scalar(a))
            }
            _ => Err(internal("a merge of something that is not made of scalars")),
        }
    }

    fn reduce_scalar(
        &self,
        kind: ScalarKind,
        op: ReduceOp,
        a: BasicValueEnum<'c>,
        b: BasicValueEnum<'c>,
    ) -> Res<BasicValueEnum<'c>> {
        let merged = self.arithmetic(op.binary(), kind, a, b)?;
        if kind.is_float() && matches!(op, ReduceOp::Add | ReduceOp::Mul) && !self.strict {
            self.allow_reassociation(merged)?;
        }
        Ok(merged)
    }

    pub(crate) fn identity_of(&self, ty: &Type, op: &MergeOp) -> Res<Val<'c>> {
        self.slot_by_slot(ty, op, &|kind, op| identity(self, kind, op))
    }

    /// The value that changes nothing when it is merged, whatever it is merged into: -0.0 for sums of floats, where 0.0
    /// would make 0.0 of -0.0, and NaN for their extremes, where infinity would take the place of NaN.
    pub(crate) fn neutral_of(&self, ty: &Type, op: &MergeOp) -> Res<Val<'c>> {
        self.slot_by_slot(ty, op, &|kind, op| match (self.unit.scalar_type(kind), op) {
            (BasicTypeEnum::FloatType(ty), ReduceOp::Add) => ty.const_float(-0.0).into(),
            (BasicTypeEnum::FloatType(ty), ReduceOp::Min | ReduceOp::Max) => ty.const_float(f64::NAN).into(),
            _ => identity(self, kind, op),
        })
    }

    /// A value of that type, made of scalars and of what a binop of structs starts from.
    fn slot_by_slot(
        &self,
        ty: &Type,
        op: &MergeOp,
        scalar: &dyn Fn(ScalarKind, ReduceOp) -> BasicValueEnum<'c>,
    ) -> Res<Val<'c>> {
        match (ty, op) {
            (ty, MergeOp::Struct(op)) => self.struct_identity(*op, ty),
            (Type::Struct(fields), op) => {
                let field = |(i, field)| self.slot_by_slot(field, &op.field(i), scalar);
                Ok(Val::Struct(fields.iter().enumerate().map(field).collect::<Res<_>>()?))
            }
            (Type::Scalar(kind), MergeOp::All(op)) => Ok(Val::Scalar(scalar(*kind, *op))),
            _ => Err(internal("an identity of something that is not made of scalars")),
        }
    }
}

/// The value that a builder starts from: merging changes it into what was merged.
pub(crate) fn identity<'c>(e: &Builders<'c, '_>, kind: ScalarKind, op: ReduceOp) -> BasicValueEnum<'c> {
    let ty = match e.unit.scalar_type(kind) {
        BasicTypeEnum::FloatType(ty) => {
            return match op {
                ReduceOp::Add | ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => ty.const_zero().into(),
                ReduceOp::Mul => ty.const_float(1.0).into(),
                ReduceOp::Min => ty.const_float(f64::INFINITY).into(),
                ReduceOp::Max => ty.const_float(f64::NEG_INFINITY).into(),
            };
        }
        ty => ty.into_int_type(),
    };
    let bits = ty.get_bit_width();
    // Constants of more than 64 bits are made of two words.
    let pattern = |value: u128| match bits {
        128 => ty.const_int_arbitrary_precision(&[value as u64, (value >> 64) as u64]),
        _ => ty.const_int(value as u64, false),
    };
    let all = if bits == 128 { u128::MAX } else { (1u128 << bits) - 1 };
    let signed_max = all >> 1;
    let value = match op {
        ReduceOp::Add | ReduceOp::BitOr | ReduceOp::BitXor => 0,
        ReduceOp::Mul => 1,
        ReduceOp::BitAnd => all,
        ReduceOp::Min if kind.is_signed() => signed_max,
        ReduceOp::Min => all,
        ReduceOp::Max if kind.is_signed() => signed_max + 1,
        ReduceOp::Max => 0,
    };
    pattern(value).into()
}
