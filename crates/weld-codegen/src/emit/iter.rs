//! What a `for` iterates over: each iterator becomes a count, known before the loop, and an element for each iteration.
//!
//! All checks (ends within the data, strides positive, lengths equal) happen before the loop, so that the loop itself
//! has no branch but its own.

use inkwell::IntPredicate;
use weld_core::diag::Span;
use weld_core::ir::Iter;
use weld_runtime::Status;

use super::{Emitter, Res};
use crate::values::scalar_kind;
use crate::values::source::{Kind, Source};
use crate::values::vector::element_of;

impl<'c> Emitter<'c, '_> {
    /// Evaluates an iterator and checks it. `demand` says what is read of its elements.
    pub(super) fn emit_iter(&mut self, iter: &Iter, span: Span) -> Res<Source<'c>> {
        match iter {
            Iter::Vector(data) => {
                let value = self.emit(data)?;
                let mut vec = self.as_vec(&value)?;
                // LLVM would not see that from the check before the loop.
                if let Some(&length) = self.facts.lengths.get(&std::ptr::from_ref(data)) {
                    vec.len = self.i64(length as i64);
                }
                let element = element_of(&data.ty)?.clone();
                Ok(Source { count: vec.len, kind: Kind::Vector { vec, element, start: None, stride: None } })
            }
            Iter::Strided { data, start, end, stride } => {
                let value = self.emit(data)?;
                let vec = self.as_vec(&value)?;
                let (start, end, stride) = (self.emit_int(start)?, self.emit_int(end)?, self.emit_int(stride)?);
                let outside =
                    self.or(self.cmp(IntPredicate::UGT, start, vec.len)?, self.cmp(IntPredicate::UGT, end, vec.len)?)?;
                self.trap_if(outside, Status::BadIterator, span, &[])?;
                let count = self.steps(start, end, stride, span)?;
                let element = element_of(&data.ty)?.clone();
                Ok(Source { count, kind: Kind::Vector { vec, element, start: Some(start), stride: Some(stride) } })
            }
            Iter::Range { start, end, stride } => {
                let (start, end, stride) = (self.emit_int(start)?, self.emit_int(end)?, self.emit_int(stride)?);
                let count = self.steps(start, end, stride, span)?;
                Ok(Source { count, kind: Kind::Range { start, stride } })
            }
            Iter::Simd(data) => {
                let value = self.emit(data)?;
                let vec = self.as_vec(&value)?;
                let element = element_of(&data.ty)?.clone();
                let lanes = self.i64(self.unit.lanes(scalar_kind(&element)?) as i64);
                let count = self.b.build_int_unsigned_div(vec.len, lanes, "")?;
                Ok(Source { count, kind: Kind::Simd { vec, element } })
            }
            Iter::Fringe(data) => {
                let value = self.emit(data)?;
                let vec = self.as_vec(&value)?;
                let element = element_of(&data.ty)?.clone();
                let lanes = self.i64(self.unit.lanes(scalar_kind(&element)?) as i64);
                let count = self.b.build_int_unsigned_rem(vec.len, lanes, "")?;
                let start = Some(self.sub(vec.len, count)?);
                Ok(Source { count, kind: Kind::Vector { vec, element, start, stride: None } })
            }
            Iter::Nd { data, start, end, stride, shape, strides } => {
                let value = self.emit(data)?;
                let vec = self.as_vec(&value)?;
                let mut lists = Vec::with_capacity(5);
                for list in [start, end, stride, shape, strides] {
                    let list = self.emit(list)?;
                    lists.push(self.as_vec(&list)?);
                }
                self.nd_source(vec, element_of(&data.ty)?.clone(), &lists, span)
            }
            Iter::Chunks { data, size } => {
                let value = self.emit(data)?;
                let vec = self.as_vec(&value)?;
                let size = self.emit_int(size)?;
                let bad = self.cmp(IntPredicate::SLE, size, self.i64(0))?;
                self.trap_if(bad, Status::BadIterator, span, &[])?;
                // Rounded up without overflow: whole chunks, and one more if something is left.
                let whole = self.b.build_int_unsigned_div(vec.len, size, "")?;
                let rest = self.b.build_int_unsigned_rem(vec.len, size, "")?;
                let more = self.cmp(IntPredicate::NE, rest, self.i64(0))?;
                let count = self.add_nw(whole, self.to_i64(more)?)?;
                Ok(Source { count, kind: Kind::Chunks { vec, ty: data.ty.clone(), size } })
            }
            Iter::Zip(parts) => self.emit_zip(parts, span),
        }
    }

    fn emit_zip(&mut self, parts: &[Iter], span: Span) -> Res<Source<'c>> {
        let mut sources: Vec<Source<'c>> = Vec::with_capacity(parts.len());
        for part in parts {
            sources.push(self.emit_iter(part, span)?);
        }
        let Some((first, rest)) = sources.split_first() else {
            return Ok(Source { count: self.i64(0), kind: Kind::Zip(sources) });
        };
        let count = first.count;
        for other in rest {
            if other.count != count {
                let differ = self.cmp(IntPredicate::NE, count, other.count)?;
                self.trap_if(differ, Status::LengthMismatch, span, &[count, other.count])?;
            }
        }
        Ok(Source { count, kind: Kind::Zip(sources) })
    }
}
