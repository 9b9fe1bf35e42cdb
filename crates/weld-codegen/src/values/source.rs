//! What loops iterate over, once it is evaluated: a count, and an element for each iteration.

use inkwell::IntPredicate;
use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ty::Type;
use weld_runtime::Status;

use super::capture::RegisterMap;
use super::vector::element_of;
use super::{Columns, Demand, Res, Val, Values, VecVal, internal, scalar_kind};

/// An evaluated iterator.
pub(crate) struct Source<'c> {
    pub(crate) count: IntValue<'c>,
    pub(crate) kind: Kind<'c>,
}

pub(crate) enum Kind<'c> {
    /// Elements `start + i * stride`.
    Vector {
        vec: VecVal<'c>,
        element: Type,
        start: Option<IntValue<'c>>,
        stride: Option<IntValue<'c>>,
    },
    Range {
        start: IntValue<'c>,
        stride: IntValue<'c>,
    },
    Simd {
        vec: VecVal<'c>,
        element: Type,
    },
    Chunks {
        vec: VecVal<'c>,
        ty: Type,
        size: IntValue<'c>,
    },
    /// `dims` is an array of `(start, step, count, stride)`.
    Nd {
        vec: VecVal<'c>,
        element: Type,
        dims: PointerValue<'c>,
        rank: IntValue<'c>,
        /// The iteration to start at, if not the first.
        first: Option<IntValue<'c>>,
    },
    Zip(Vec<Source<'c>>),
}

impl<'c> Source<'c> {
    /// The same iterator in other registers: `map` gives one for each.
    pub(crate) fn map_registers(&self, map: &mut dyn RegisterMap<'c>) -> Res<Source<'c>> {
        let kind = match &self.kind {
            Kind::Vector { vec, element, start, stride } => Kind::Vector {
                vec: vec.map_registers(map)?,
                element: element.clone(),
                start: start.map(|start| map.int(start)).transpose()?,
                stride: stride.map(|stride| map.int(stride)).transpose()?,
            },
            Kind::Range { start, stride } => Kind::Range { start: map.int(*start)?, stride: map.int(*stride)? },
            Kind::Simd { vec, element } => Kind::Simd { vec: vec.map_registers(map)?, element: element.clone() },
            Kind::Chunks { vec, ty, size } => {
                Kind::Chunks { vec: vec.map_registers(map)?, ty: ty.clone(), size: map.int(*size)? }
            }
            Kind::Nd { vec, element, dims, rank, first } => Kind::Nd {
                vec: vec.map_registers(map)?,
                element: element.clone(),
                dims: map.pointer(*dims)?,
                rank: map.int(*rank)?,
                first: first.map(|first| map.int(first)).transpose()?,
            },
            Kind::Zip(sources) => {
                Kind::Zip(sources.iter().map(|source| source.map_registers(map)).collect::<Res<_>>()?)
            }
        };
        Ok(Source { count: map.int(self.count)?, kind })
    }

    pub(crate) fn is_range(&self) -> bool {
        matches!(self.kind, Kind::Range { .. })
    }

    /// The vector, if the iterator is all of one.
    pub(crate) fn whole_vector(&self) -> Option<&VecVal<'c>> {
        match &self.kind {
            Kind::Vector { vec, start: None, stride: None, .. } => Some(vec),
            _ => None,
        }
    }
}

impl<'c> Values<'c, '_> {
    /// The iterations `first .. end` of an iterator, as an iterator of its own.
    pub(crate) fn part_of(&self, source: &Source<'c>, first: IntValue<'c>, end: IntValue<'c>) -> Res<Source<'c>> {
        let count = self.sub(end, first)?;
        let kind = match &source.kind {
            Kind::Vector { vec, element, start: None, stride: None } => {
                let vec = self.sub_vec(vec, element, first, count)?;
                Kind::Vector { vec, element: element.clone(), start: None, stride: None }
            }
            Kind::Vector { vec, element, start, stride } => {
                let mut at = first;
                if let Some(stride) = stride {
                    at = self.mul(at, *stride)?;
                }
                if let Some(start) = start {
                    at = self.add(*start, at)?;
                }
                Kind::Vector { vec: vec.clone(), element: element.clone(), start: Some(at), stride: *stride }
            }
            Kind::Range { start, stride } => {
                Kind::Range { start: self.add(*start, self.mul(first, *stride)?)?, stride: *stride }
            }
            Kind::Simd { vec, element } => {
                let lanes = self.i64(self.unit.lanes(scalar_kind(element)?) as i64);
                let vec = self.sub_vec(vec, element, self.mul(first, lanes)?, self.mul(count, lanes)?)?;
                Kind::Simd { vec, element: element.clone() }
            }
            Kind::Chunks { vec, ty, size } => {
                let start = self.mul(first, *size)?;
                let len = self.umin(self.mul(count, *size)?, self.sub(vec.len, start)?)?;
                let vec = self.sub_vec(vec, element_of(ty)?, start, len)?;
                Kind::Chunks { vec, ty: ty.clone(), size: *size }
            }
            Kind::Nd { vec, element, dims, rank, .. } => {
                Kind::Nd { vec: vec.clone(), element: element.clone(), dims: *dims, rank: *rank, first: Some(first) }
            }
            Kind::Zip(sources) => {
                Kind::Zip(sources.iter().map(|source| self.part_of(source, first, end)).collect::<Res<_>>()?)
            }
        };
        Ok(Source { count, kind })
    }

    /// How many steps lead from `start` to below `end`; traps if the stride is not positive.
    pub(crate) fn steps(
        &self,
        start: IntValue<'c>,
        end: IntValue<'c>,
        stride: IntValue<'c>,
        span: Span,
    ) -> Res<IntValue<'c>> {
        let bad = self.cmp(IntPredicate::SLE, stride, self.i64(0))?;
        self.trap_if(bad, Status::BadIterator, span, &[])?;
        let empty = self.cmp(IntPredicate::SLE, end, start)?;
        // The distance fits an unsigned number; of an empty range it is not used.
        let last = self.sub(self.sub(end, start)?, self.i64(1))?;
        let count = match stride.get_sign_extended_constant() {
            Some(1) => self.sub(end, start)?,
            _ => self.add(self.b.build_int_unsigned_div(last, stride, "")?, self.i64(1))?,
        };
        self.choose_int(empty, self.i64(0), count)
    }

    pub(crate) fn nd_source(
        &mut self,
        vec: VecVal<'c>,
        element: Type,
        lists: &[VecVal<'c>],
        span: Span,
    ) -> Res<Source<'c>> {
        let (dims, count) = self.nd_dims(vec.len, lists, span)?;
        Ok(Source { count, kind: Kind::Nd { vec, element, dims, rank: lists[0].len, first: None } })
    }

    /// The dimensions of an `nditer` over so many elements, checked, and how many elements it gives.
    pub(crate) fn nd_dims(
        &mut self,
        len: IntValue<'c>,
        lists: &[VecVal<'c>],
        span: Span,
    ) -> Res<(PointerValue<'c>, IntValue<'c>)> {
        let rank = lists[0].len;
        let mut bad = self.cmp(IntPredicate::EQ, rank, self.i64(0))?;
        for list in &lists[1..] {
            bad = self.or(bad, self.cmp(IntPredicate::NE, list.len, rank)?)?;
        }
        self.trap_if(bad, Status::BadIterator, span, &[])?;
        let region = self.region_for(&Type::vec(Type::structure([Type::I64, Type::I64])));
        // A rank has as many words as its lists, which are in memory, so this does not overflow.
        let dims = self.allocate(region, self.mul(rank, self.i64(32))?, span)?;
        let mut args = vec![dims.into(), rank.into(), len.into()];
        for list in lists {
            match &list.columns {
                Columns::Dense(columns) => args.push(columns[0].into()),
                Columns::Stream { .. } => return Err(internal("a chunk as a list of dimensions")),
            }
        }
        let count = self.call_value("weld_nd_start", &args)?.into_int_value();
        let bad = self.cmp(IntPredicate::SLT, count, self.i64(0))?;
        self.trap_if(bad, Status::BadIterator, span, &[])?;
        Ok((dims, count))
    }

    /// The demanded parts of the element of iteration `i`.
    pub(crate) fn source_element(&mut self, source: &Source<'c>, i: IntValue<'c>, demand: &Demand) -> Res<Val<'c>> {
        match &source.kind {
            Kind::Vector { vec, element, start, stride } => {
                let mut index = i;
                if let Some(stride) = stride {
                    index = self.mul(index, *stride)?;
                }
                if let Some(start) = start {
                    index = self.add(*start, index)?;
                }
                self.load_element(vec, element, index, demand)
            }
            Kind::Range { start, stride } => Ok(Val::int(self.add(*start, self.mul(i, *stride)?)?)),
            Kind::Simd { vec, element } => {
                let kind = scalar_kind(element)?;
                let index = self.mul(i, self.i64(self.unit.lanes(kind) as i64))?;
                match &vec.columns {
                    Columns::Dense(columns) => {
                        let at = self.column_ptr(element, columns[0], index)?;
                        Ok(Val::Scalar(self.load_simd(kind, at, vec.input)?))
                    }
                    Columns::Stream { .. } => self.gather_lanes(vec, element, index),
                }
            }
            Kind::Chunks { vec, ty, size } => {
                let start = self.mul(i, *size)?;
                let left = self.sub(vec.len, start)?;
                let len = self.umin(*size, left)?;
                let part = self.sub_vec(vec, element_of(ty)?, start, len)?;
                self.vec_value(ty, part)
            }
            Kind::Nd { vec, element, dims, rank, first } => {
                let i = match first {
                    Some(first) => self.add(*first, i)?,
                    None => i,
                };
                let at = self.call_value("weld_nd_position", &[(*dims).into(), (*rank).into(), i.into()])?;
                self.load_element(vec, element, at.into_int_value(), demand)
            }
            Kind::Zip(sources) => {
                let mut values = Vec::with_capacity(sources.len());
                for (field, source) in sources.iter().enumerate() {
                    values.push(self.source_element(source, i, &demand.field(field))?);
                }
                Ok(Val::structure(values))
            }
        }
    }

    /// Lanes of a chunk's column, loaded one by one as its layout asks.
    fn gather_lanes(&mut self, vec: &VecVal<'c>, element: &Type, index: IntValue<'c>) -> Res<Val<'c>> {
        let kind = scalar_kind(element)?;
        let mut lanes = self.simd_type(kind).into_vector_type().get_undef();
        for lane in 0..self.unit.lanes(kind) {
            let at = self.add_nw(index, self.i64(lane as i64))?;
            let value = self.load_element(vec, element, at, &Demand::All)?.scalar()?;
            lanes = self.b.build_insert_element(lanes, value, self.i32(lane as i32), "")?;
        }
        Ok(Val::Scalar(lanes.into()))
    }
}
