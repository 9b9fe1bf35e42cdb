//! `sort`.

use weld_core::diag::Span;
use weld_core::ir::Func;
use weld_core::ty::Type;

use super::{Emitter, Res, Val};
use crate::error::CompileError;

impl<'c> Emitter<'c, '_> {
    /// A stably sorted copy of a vector.
    pub(crate) fn emit_sort(&mut self, _data: &Val<'c>, _ty: &Type, _compare: &Func, span: Span) -> Res<Val<'c>> {
        Err(CompileError::unsupported("sort", span))
    }
}
