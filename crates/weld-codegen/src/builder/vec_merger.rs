//! Vecmergers: a vector whose elements are combined with merged values at their index.
//!
//! State: length, then a pointer for each column. Merging happens in place, in a copy of the initial vector unless that
//! is a temporary.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::op::MergeOp;
use weld_core::ty::Type;
use weld_runtime::Status;

use super::{Builders, BytesVal, Columns, Demand, Handle, Res, Val, VecVal, internal};
use crate::block::Flow;
use crate::layout;

impl<'c> Builders<'c, '_> {
    pub(crate) fn start_vec_merger(
        &mut self,
        handle: &Handle<'c>,
        value: &Type,
        arg: Option<&Val<'c>>,
        own: bool,
        span: Span,
    ) -> Res<()> {
        let arg = arg.ok_or_else(|| internal("a vecmerger without its vector"))?;
        let vec = self.as_vec(arg)?;
        if own && !vec.input {
            return self.store_vec_state(handle.state, &vec);
        }
        let copy = self.copy_vec(&vec, value, handle.region, span)?;
        self.store_vec_state(handle.state, &copy)
    }

    /// A vecmerger of the same length as `arg` whose elements are all the identity.
    pub(crate) fn start_vec_merger_empty(
        &mut self,
        handle: &Handle<'c>,
        value: &Type,
        op: &MergeOp,
        arg: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        let len = self.as_vec(arg)?.len;
        let identity = self.identity_of(value, op)?;
        self.start_vec_merger_filled(handle, value, len, &identity, span)
    }

    /// A vecmerger of `len` times one value.
    pub(crate) fn start_vec_merger_filled(
        &mut self,
        handle: &Handle<'c>,
        ty: &Type,
        len: IntValue<'c>,
        value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        let vec = self.allocate_vec(ty, len, handle.region, span)?;
        self.store_vec_state(handle.state, &vec)?;
        let columns = dense(&vec)?;
        self.count_loop(len, |e, i| e.store_element(ty, &mut columns.iter().copied(), i, value))
    }

    fn store_vec_state(&self, state: PointerValue<'c>, vec: &VecVal<'c>) -> Res<()> {
        self.store(state, vec.len)?;
        for (i, column) in dense(vec)?.iter().enumerate() {
            self.store(self.offset(state, 8 + 8 * i as u64)?, *column)?;
        }
        Ok(())
    }

    fn vec_state(&self, state: PointerValue<'c>, value: &Type) -> Res<VecVal<'c>> {
        let columns = (0..layout::columns(value).len())
            .map(|i| self.load_ptr(self.offset(state, 8 + 8 * i as u64)?))
            .collect::<Res<_>>()?;
        Ok(VecVal { len: self.load_i64(state)?, columns: Columns::Dense(columns), input: false })
    }

    pub(crate) fn merge_vec_merger(
        &mut self,
        handle: &Handle<'c>,
        ty: &Type,
        op: &MergeOp,
        value: &Val<'c>,
        span: Span,
    ) -> Res<()> {
        let index = value.field(0)?.into_int()?;
        let vec = self.vec_state(handle.state, ty)?;
        if handle.inside.get() != Some(index) {
            let outside = self.cmp(IntPredicate::UGE, index, vec.len)?;
            self.trap_if(outside, Status::IndexOutOfBounds, span, &[index, vec.len])?;
        }
        self.merge_element(&vec, ty, op, index, &value.field(1)?)
    }

    /// Traps unless all indices `first .. count` lie in the vector; at what place a loop over them would.
    pub(crate) fn check_vec_merger(
        &self,
        handle: &Handle<'c>,
        (first, count): (IntValue<'c>, IntValue<'c>),
        span: Span,
    ) -> Res<()> {
        let len = self.load_i64(handle.state)?;
        let some = self.cmp(IntPredicate::ULT, first, count)?;
        let outside = self.and(some, self.cmp(IntPredicate::UGT, count, len)?)?;
        let less = self.umin(first, len)?;
        // The larger of the two.
        let at = self.sub(self.add(first, len)?, less)?;
        self.trap_if(outside, Status::IndexOutOfBounds, span, &[at, len])
    }

    fn merge_element(
        &mut self,
        vec: &VecVal<'c>,
        ty: &Type,
        op: &MergeOp,
        index: IntValue<'c>,
        value: &Val<'c>,
    ) -> Res<()> {
        let now = self.load_element(vec, ty, index, &Demand::All)?;
        let merged = self.reduce(ty, op, &now, value)?;
        self.store_element(ty, &mut dense(vec)?.iter().copied(), index, &merged)
    }

    pub(crate) fn result_vec_merger(&mut self, handle: &Handle<'c>, value: &Type) -> Res<Val<'c>> {
        let vec = self.vec_state(handle.state, value)?;
        if Type::vec(value.clone()).is_bytes() {
            return Ok(Val::Bytes(BytesVal::Slice { ptr: dense(&vec)?[0], len: vec.len }));
        }
        Ok(Val::Vec(vec))
    }

    pub(crate) fn combine_vec_merger(
        &mut self,
        handle: &Handle<'c>,
        ty: &Type,
        op: &MergeOp,
        other: PointerValue<'c>,
        span: Span,
    ) -> Res<()> {
        let other = self.vec_state(other, ty)?;
        self.merge_whole_vec(handle, ty, op, &other, span)
    }

    /// Merges the elements of a vector at their places.
    pub(crate) fn merge_whole_vec(
        &mut self,
        handle: &Handle<'c>,
        ty: &Type,
        op: &MergeOp,
        other: &VecVal<'c>,
        span: Span,
    ) -> Res<()> {
        let mine = self.vec_state(handle.state, ty)?;
        let differ = self.cmp(IntPredicate::NE, mine.len, other.len)?;
        self.trap_if(differ, Status::LengthMismatch, span, &[mine.len, other.len])?;
        self.count_loop(mine.len, |e, i| {
            let value = e.load_element(other, ty, i, &Demand::All)?;
            e.merge_element(&mine, ty, op, i, &value)
        })
    }
}

fn dense<'v, 'c>(vec: &'v VecVal<'c>) -> Res<&'v [PointerValue<'c>]> {
    match &vec.columns {
        Columns::Dense(columns) => Ok(columns),
        Columns::Stream { .. } => Err(internal("a builder over a chunk's columns")),
    }
}
