//! Vectors: `len`, `lookup`, `slice`, `update`, and copies.

use std::rc::Rc;

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ty::Type;
use weld_runtime::Status;

use super::{BytesVal, Columns, Demand, Res, Val, Values, VecVal, internal};
use crate::block::Flow;
use crate::layout;

impl<'c> Values<'c, '_> {
    pub(crate) fn len_of(&self, value: &Val<'c>) -> Res<IntValue<'c>> {
        match value {
            Val::Bytes(bytes) => self.bytes_len(bytes),
            value => Ok(value.vec()?.len),
        }
    }

    /// A vector value of any type as columns. Bytes are to be read before this place in the code is reached again.
    pub(crate) fn as_vec(&self, value: &Val<'c>) -> Res<VecVal<'c>> {
        match value {
            Val::Bytes(bytes) => {
                let (ptr, len) = self.bytes_slice(bytes)?;
                Ok(VecVal { len, columns: Columns::Dense(Rc::new([ptr])), input: false })
            }
            value => Ok(value.vec()?.clone()),
        }
    }

    /// The value of a vector type that these columns are.
    pub(crate) fn vec_value(&self, ty: &Type, vec: VecVal<'c>) -> Res<Val<'c>> {
        match &vec.columns {
            Columns::Dense(columns) if ty.is_bytes() => {
                Ok(Val::Bytes(BytesVal::Slice { ptr: columns[0], len: vec.len }))
            }
            // The rows of a chunk may lie in it as they like, small integers too.
            _ => Ok(Val::Vec(vec)),
        }
    }

    /// The demanded parts of an element. If `defer`, parts that are simply loaded from a chunk are loaded where they
    /// are used.
    #[expect(clippy::too_many_arguments, reason = "they are what a lookup is made of")]
    pub(crate) fn lookup(
        &mut self,
        data: &Val<'c>,
        ty: &Type,
        index: IntValue<'c>,
        checked: bool,
        demand: &Demand,
        span: Span,
        defer: bool,
    ) -> Res<Val<'c>> {
        let vec = self.as_vec(data)?;
        if checked {
            let outside = self.cmp(IntPredicate::UGE, index, vec.len)?;
            self.trap_if(outside, Status::IndexOutOfBounds, span, &[index, vec.len])?;
        }
        match &vec.columns {
            Columns::Stream { columns, base } if defer => {
                let row = self.add_nw(*base, index)?;
                self.defer_stream_element(columns, element_of(ty)?, row, demand)
            }
            _ => self.load_element(&vec, element_of(ty)?, index, demand),
        }
    }

    /// A view of the same memory; bytes inside a short view are copied into another view.
    pub(crate) fn slice(
        &mut self,
        data: &Val<'c>,
        ty: &Type,
        start: IntValue<'c>,
        size: IntValue<'c>,
        span: Span,
    ) -> Res<Val<'c>> {
        let len = self.len_of(data)?;
        let outside = self.cmp(IntPredicate::UGT, start, len)?;
        self.trap_if(outside, Status::BadSlice, span, &[start, len])?;
        let negative = self.cmp(IntPredicate::SLT, size, self.i64(0))?;
        self.trap_if(negative, Status::BadSlice, span, &[size, self.i64(-1)])?;
        let left = self.sub(len, start)?;
        let size = self.umin(size, left)?;
        match data {
            Val::Bytes(BytesVal::Slice { ptr, .. }) => {
                Ok(Val::Bytes(BytesVal::Slice { ptr: self.offset_by(*ptr, start)?, len: size }))
            }
            Val::Bytes(view) => {
                let (ptr, _) = self.bytes_slice(view)?;
                let (low, high) = self.make_view(self.offset_by(ptr, start)?, size)?;
                Ok(Val::Bytes(BytesVal::View { low, high }))
            }
            data => Ok(Val::Vec(self.sub_vec(data.vec()?, element_of(ty)?, start, size)?)),
        }
    }

    /// Elements `start .. start + len`, which exist.
    pub(crate) fn sub_vec(
        &self,
        vec: &VecVal<'c>,
        element: &Type,
        start: IntValue<'c>,
        len: IntValue<'c>,
    ) -> Res<VecVal<'c>> {
        let columns = match &vec.columns {
            Columns::Dense(columns) => {
                let types = layout::columns(element);
                let moved = columns
                    .iter()
                    .zip(&types)
                    .map(|(&column, ty)| self.column_ptr(ty, column, start))
                    .collect::<Res<_>>()?;
                Columns::Dense(moved)
            }
            Columns::Stream { columns, base } => {
                Columns::Stream { columns: columns.clone(), base: self.add_nw(*base, start)? }
            }
        };
        Ok(VecVal { len, columns, input: vec.input })
    }

    /// A copy that differs in one place; the vector itself, changed, if nobody else has it (`own`).
    pub(crate) fn update(
        &mut self,
        data: &Val<'c>,
        ty: &Type,
        index: IntValue<'c>,
        value: &Val<'c>,
        own: bool,
        span: Span,
    ) -> Res<Val<'c>> {
        let vec = self.as_vec(data)?;
        let outside = self.cmp(IntPredicate::UGE, index, vec.len)?;
        self.trap_if(outside, Status::IndexOutOfBounds, span, &[index, vec.len])?;
        let element = element_of(ty)?;
        let region = self.region_for(ty);
        let copy = if own && !vec.input { vec } else { self.copy_vec(&vec, element, region, span)? };
        self.store_element(element, &mut dense(&copy)?.to_vec().into_iter(), index, value)?;
        self.vec_value(ty, copy)
    }

    /// A vector of `len` elements that are not initialised.
    pub(crate) fn allocate_vec(
        &mut self,
        element: &Type,
        len: IntValue<'c>,
        region: PointerValue<'c>,
        span: Span,
    ) -> Res<VecVal<'c>> {
        let mut columns = Vec::new();
        for ty in layout::columns(element) {
            // A length whose bytes do not fit becomes a size that no allocator grants.
            let size = self.i64(layout::row(&ty).size as i64);
            let i64 = self.unit.i64_type().into();
            let pair =
                self.intrinsic("llvm.umul.with.overflow", &[i64], &[len.into(), size.into()])?.into_struct_value();
            let bytes = self.b.build_extract_value(pair, 0, "")?.into_int_value();
            let overflow = self.b.build_extract_value(pair, 1, "")?.into_int_value();
            let bytes = self.choose_int(overflow, self.i64(-1), bytes)?;
            columns.push(self.allocate(region, bytes, span)?);
        }
        Ok(VecVal { len, columns: Columns::Dense(columns.into()), input: false })
    }

    pub(crate) fn copy_vec(
        &mut self,
        vec: &VecVal<'c>,
        element: &Type,
        region: PointerValue<'c>,
        span: Span,
    ) -> Res<VecVal<'c>> {
        let copy = self.allocate_vec(element, vec.len, region, span)?;
        let targets = dense(&copy)?.to_vec();
        match &vec.columns {
            Columns::Dense(columns) => {
                for ((ty, &from), to) in layout::columns(element).iter().zip(columns.iter()).zip(targets) {
                    let bytes = self.mul(vec.len, self.i64(layout::row(ty).size as i64))?;
                    self.b.build_memcpy(to, 1, from, 1, bytes)?;
                }
            }
            Columns::Stream { .. } => {
                self.count_loop(vec.len, |e, i| {
                    let value = e.load_element(vec, element, i, &Demand::All)?;
                    e.store_element(element, &mut targets.iter().copied(), i, &value)
                })?;
            }
        }
        Ok(copy)
    }

    /// A vector with a pointer for each column, for uses that cannot read a chunk in place.
    pub(crate) fn materialize(&self, vec: &VecVal<'c>, _element: &Type) -> Res<VecVal<'c>> {
        match vec.columns {
            Columns::Dense(_) => Ok(vec.clone()),
            Columns::Stream { .. } => {
                Err(crate::error::CompileError::unsupported("a stream's chunk as a value of its own", Span::NONE))
            }
        }
    }
}

pub(crate) fn element_of(ty: &Type) -> Res<&Type> {
    ty.element().ok_or_else(|| internal("a vector type was expected"))
}

pub(crate) fn dense<'v, 'c>(vec: &'v VecVal<'c>) -> Res<&'v [PointerValue<'c>]> {
    match &vec.columns {
        Columns::Dense(columns) => Ok(columns),
        Columns::Stream { .. } => Err(internal("a chunk's columns where a vector's were expected")),
    }
}
