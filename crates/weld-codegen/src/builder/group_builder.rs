//! Groupbuilders: a hash table of vectors.

use inkwell::values::PointerValue;
use weld_core::diag::Span;
use weld_core::ty::Type;

use crate::emit::{Emitter, Handle, Res, Val};
use crate::error::CompileError;

fn missing<T>(span: Span) -> Res<T> {
    Err(CompileError::unsupported("groupbuilder", span))
}

impl<'c> Emitter<'c, '_> {
    pub(super) fn start_group_builder(
        &mut self,
        _handle: &Handle<'c>,
        _key: &Type,
        _value: &Type,
        span: Span,
    ) -> Res<()> {
        missing(span)
    }

    pub(super) fn merge_group_builder(
        &mut self,
        _handle: &Handle<'c>,
        _key: &Type,
        _ty: &Type,
        _value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        missing(span)
    }

    pub(super) fn result_group_builder(
        &mut self,
        _handle: &Handle<'c>,
        _key: &Type,
        _value: &Type,
        span: Span,
    ) -> Res<Val<'c>> {
        missing(span)
    }

    pub(super) fn combine_group_builder(
        &mut self,
        _handle: &Handle<'c>,
        _key: &Type,
        _value: &Type,
        _other: PointerValue<'c>,
        span: Span,
    ) -> Res<()> {
        missing(span)
    }
}
