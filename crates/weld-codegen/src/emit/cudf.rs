//! Calls of C functions that the host registered: `void f(const A*, const B*, .., R*)`.
//!
//! Arguments and result travel in memory: scalars and structs as in C, a vector of scalars as `{data, length}`. The
//! function owns what a vector result points to; it must stay valid as long as the result.

use std::rc::Rc;

use inkwell::types::BasicMetadataTypeEnum;
use inkwell::values::{BasicMetadataValueEnum, PointerValue};
use weld_core::diag::Span;
use weld_core::ir::Expr;
use weld_core::ty::Type;

use super::{BytesVal, Columns, Emitter, Res, Val, VecVal};
use crate::error::CompileError;
use crate::layout;

impl<'c> Emitter<'c, '_> {
    pub(super) fn emit_cudf(&mut self, name: &str, args: &[Expr], result: &Type, span: Span) -> Res<Val<'c>> {
        let Some(address) = self.facts.cudfs.iter().find(|cudf| cudf.name == name).map(|cudf| cudf.address) else {
            return Err(CompileError::unsupported(format!("cudf: no C function is registered as `{name}`"), span));
        };
        let mut pointers: Vec<BasicMetadataValueEnum<'c>> = Vec::with_capacity(args.len() + 1);
        for arg in args {
            let value = self.emit(arg)?;
            let slot = self.alloca(c_layout(&arg.ty, span)?.0, "argument")?;
            self.store_c(&arg.ty, slot, &value, span)?;
            pointers.push(slot.into());
        }
        let bytes = c_layout(result, span)?.0;
        let out = self.alloca(bytes, "result")?;
        // A function that writes nothing gives zero, not what the stack held.
        self.b.build_memset(out, 1, self.unit.ll.i8_type().const_zero(), self.i64(bytes as i64))?;
        pointers.push(out.into());
        let ptr = self.unit.ptr_type();
        let params: Vec<BasicMetadataTypeEnum<'c>> = pointers.iter().map(|_| ptr.into()).collect();
        let signature = self.unit.ll.void_type().fn_type(&params, false);
        let function = self.b.build_int_to_ptr(self.i64(address as i64), ptr, "")?;
        self.b.build_indirect_call(signature, function, &pointers, "")?;
        self.load_c(result, out, span)
    }

    /// Puts the value into memory as C has it.
    fn store_c(&self, ty: &Type, at: PointerValue<'c>, value: &Val<'c>, span: Span) -> Res<()> {
        match ty {
            Type::Vec(_) => {
                let vec = self.as_vec(value)?;
                let Columns::Dense(columns) = &vec.columns else {
                    return Err(CompileError::unsupported("a stream's chunk as an argument of a C function", span));
                };
                self.store(at, columns[0])?;
                self.store(self.offset(at, 8)?, vec.len)?;
                Ok(())
            }
            Type::Struct(fields) => {
                for (i, offset) in c_offsets(fields, span)?.into_iter().enumerate() {
                    self.store_c(&fields[i], self.offset(at, offset)?, &value.field(i)?, span)?;
                }
                Ok(())
            }
            _ => self.store_row(ty, at, value),
        }
    }

    fn load_c(&self, ty: &Type, at: PointerValue<'c>, span: Span) -> Res<Val<'c>> {
        match ty {
            Type::Vec(_) => {
                let data = self.load_ptr(at)?;
                let len = self.load_i64(self.offset(at, 8)?)?;
                if ty.is_bytes() {
                    return Ok(Val::Bytes(BytesVal::Slice { ptr: data, len }));
                }
                Ok(Val::Vec(VecVal { len, columns: Columns::Dense(Rc::new([data])), input: false }))
            }
            Type::Struct(fields) => {
                let offsets = c_offsets(fields, span)?;
                let load = |(field, offset): (&Type, u64)| self.load_c(field, self.offset(at, offset)?, span);
                Ok(Val::structure(fields.iter().zip(offsets).map(load).collect::<Res<_>>()?))
            }
            _ => self.load_row(ty, at, false),
        }
    }
}

/// Size and alignment of a value as C has it; not every type can cross.
fn c_layout(ty: &Type, span: Span) -> Res<(u64, u64)> {
    match ty {
        Type::Scalar(_) => {
            let size = layout::row(ty).size;
            Ok((size, size))
        }
        Type::Vec(element) if element.as_scalar().is_some() => Ok((16, 8)),
        Type::Struct(fields) => {
            let (mut end, mut align) = (0u64, 1);
            for field in fields.iter() {
                let (size, of_field) = c_layout(field, span)?;
                end = end.next_multiple_of(of_field) + size;
                align = align.max(of_field);
            }
            Ok((end.next_multiple_of(align), align))
        }
        ty => Err(CompileError::unsupported(format!("{ty} as an argument or result of a C function"), span)),
    }
}

fn c_offsets(fields: &[Type], span: Span) -> Res<Vec<u64>> {
    let mut end = 0u64;
    let place = |field| {
        let (size, align) = c_layout(field, span)?;
        let offset = end.next_multiple_of(align);
        end = offset + size;
        Ok(offset)
    };
    fields.iter().map(place).collect()
}
