//! String search: `starts_with`, `ends_with`, `contains`, `like`.

use inkwell::values::IntValue;
use weld_core::diag::Span;
use weld_core::ir::Expr;
use weld_core::op::Intrinsic;

use super::{BytesVal, Emitter, Res};
use crate::error::CompileError;

impl<'c> Emitter<'c, '_> {
    /// A search of `pattern` in `text`; `pattern_expr` tells whether the pattern is a constant.
    pub(crate) fn string_search(
        &mut self,
        _op: Intrinsic,
        _text: &BytesVal<'c>,
        _pattern: &BytesVal<'c>,
        _pattern_expr: &Expr,
        span: Span,
    ) -> Res<IntValue<'c>> {
        Err(CompileError::unsupported("string search", span))
    }
}
