//! Comparisons of structs and vectors.

use inkwell::values::IntValue;
use weld_core::diag::Span;
use weld_core::op::BinaryOp;
use weld_core::ty::Type;

use super::{Emitter, Res, Val};
use crate::error::CompileError;

impl<'c> Emitter<'c, '_> {
    /// A comparison of two values of a type that is no scalar: structs field by field, vectors lexicographically.
    pub(crate) fn compare(
        &mut self,
        _op: BinaryOp,
        _ty: &Type,
        _a: &Val<'c>,
        _b: &Val<'c>,
        span: Span,
    ) -> Res<IntValue<'c>> {
        Err(CompileError::unsupported("comparison of structs and vectors", span))
    }
}
