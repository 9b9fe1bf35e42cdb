//! Reading dictionaries: `lookup`, `optlookup`, `keyexists`, `may_contain`, `tovec`.

use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ty::Type;

use super::{Demand, Emitter, Res, Val};
use crate::error::CompileError;

fn missing<T>(what: &str, span: Span) -> Res<T> {
    Err(CompileError::unsupported(what, span))
}

impl<'c> Emitter<'c, '_> {
    /// The value of a key; traps if it is missing. `demand` says which parts of the value are read.
    pub(crate) fn dict_lookup(
        &mut self,
        _table: PointerValue<'c>,
        _dict: &Type,
        _key: &Val<'c>,
        _demand: &Demand,
        span: Span,
    ) -> Res<Val<'c>> {
        missing("lookup in a dictionary", span)
    }

    /// `{found, value}`; zero if there is none. `demand` is that of the value.
    pub(crate) fn dict_opt_lookup(
        &mut self,
        _table: PointerValue<'c>,
        _dict: &Type,
        _key: &Val<'c>,
        _demand: &Demand,
        span: Span,
    ) -> Res<Val<'c>> {
        missing("optlookup", span)
    }

    pub(crate) fn dict_key_exists(
        &mut self,
        _table: PointerValue<'c>,
        _dict: &Type,
        _key: &Val<'c>,
        span: Span,
    ) -> Res<IntValue<'c>> {
        missing("keyexists", span)
    }

    pub(crate) fn dict_may_contain(
        &mut self,
        _table: PointerValue<'c>,
        _dict: &Type,
        _key: &Val<'c>,
        span: Span,
    ) -> Res<IntValue<'c>> {
        missing("may_contain", span)
    }

    /// The entries as a `vec[{K,V}]`.
    pub(crate) fn dict_to_vec(&mut self, _table: PointerValue<'c>, _dict: &Type, span: Span) -> Res<Val<'c>> {
        missing("tovec", span)
    }
}
