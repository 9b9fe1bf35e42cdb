//! Dictmergers: a hash table whose values are combined.

use inkwell::values::PointerValue;
use weld_core::diag::Span;
use weld_core::op::MergeOp;
use weld_core::ty::Type;

use crate::emit::{Emitter, Handle, Res, Val};
use crate::error::CompileError;

fn missing<T>(span: Span) -> Res<T> {
    Err(CompileError::unsupported("dictmerger", span))
}

impl<'c> Emitter<'c, '_> {
    pub(super) fn start_dict_merger(
        &mut self,
        _handle: &Handle<'c>,
        _key: &Type,
        _value: &Type,
        _op: &MergeOp,
        span: Span,
    ) -> Res<()> {
        missing(span)
    }

    pub(super) fn merge_dict_merger(
        &mut self,
        _handle: &Handle<'c>,
        _key: &Type,
        _ty: &Type,
        _op: &MergeOp,
        _value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        missing(span)
    }

    pub(super) fn result_dict_merger(
        &mut self,
        _handle: &Handle<'c>,
        _key: &Type,
        _value: &Type,
        _op: &MergeOp,
        span: Span,
    ) -> Res<Val<'c>> {
        missing(span)
    }

    pub(super) fn combine_dict_merger(
        &mut self,
        _handle: &Handle<'c>,
        _key: &Type,
        _value: &Type,
        _op: &MergeOp,
        _other: PointerValue<'c>,
        span: Span,
    ) -> Res<()> {
        missing(span)
    }
}
