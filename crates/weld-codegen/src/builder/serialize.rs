//! `serialize` and `deserialize`, emitted for the type: the format is that of `weld_core::interp::serialize`.
//!
//! Writing appends to a byte appender; vectors of scalars go in one piece. Reading keeps a position and checks each
//! piece against what is left, so that bytes which say too much are an error and ask for no memory: a vector of `n`
//! elements is refused unless there are at least `n` times the smallest size of an element.

use std::rc::Rc;

use inkwell::IntPredicate;
use inkwell::values::{BasicValue, IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::interp::serialize::header;
use weld_core::ty::{BuilderType, ScalarKind, Type};
use weld_runtime::Status;

use super::{Builders, BytesVal, Columns, Demand, DictVal, Handle, Res, Val, internal};
use crate::block::Flow;
use crate::layout;
use crate::tables::dict::{entry_types, row_layout};
use crate::tables::hash::KeyMemory;

/// More elements than memory holds, for elements that take no bytes.
const EMPTY_ELEMENTS_MAX: i64 = 1 << 48;

/// Bytes that are being read.
struct Input<'c> {
    data: PointerValue<'c>,
    len: IntValue<'c>,
    /// Where the number of bytes read so far is kept.
    position: PointerValue<'c>,
    span: Span,
}

impl<'c> Builders<'c, '_> {
    /// The bytes of a value.
    pub(crate) fn serialize(&mut self, value: &Val<'c>, ty: &Type, span: Span) -> Res<Val<'c>> {
        let bytes = BuilderType::Appender(std::sync::Arc::new(Type::I8));
        let builder = self.new_builder(&bytes, None, false, span)?;
        let out = builder.builder()?.clone();
        let header = header(ty).ok_or_else(|| internal("a type without a tag"))?;
        let constant = self.unit.constant_bytes(&header);
        self.write_bytes(&out, constant, self.i64(header.len() as i64), span)?;
        self.write_value(&out, value, ty, span)?;
        self.result(&builder, span)
    }

    fn write_value(&mut self, out: &Rc<Handle<'c>>, value: &Val<'c>, ty: &Type, span: Span) -> Res<()> {
        match (ty, value) {
            (Type::Scalar(kind), value) => {
                let to = self.room(out, self.i64(kind.bytes() as i64), span)?;
                let value = match kind {
                    ScalarKind::Bool => {
                        self.b.build_int_z_extend(value.clone().into_int()?, self.unit.ll.i8_type(), "")?.into()
                    }
                    _ => value.scalar()?,
                };
                self.store(to, value)?.set_alignment(1).map_err(|e| internal(&e.to_string()))
            }
            (Type::Struct(fields), value) => fields
                .iter()
                .enumerate()
                .try_for_each(|(i, field)| self.write_value(out, &value.field(i)?, field, span)),
            (_, Val::Bytes(bytes)) => {
                let (ptr, len) = self.bytes_slice(bytes)?;
                self.write_length(out, len, span)?;
                self.write_bytes(out, ptr, len, span)
            }
            (Type::Vec(element), Val::Vec(vec)) => {
                self.write_length(out, vec.len, span)?;
                if let (Type::Scalar(kind), Columns::Dense(columns)) = (&**element, &vec.columns) {
                    let bytes = self.mul(vec.len, self.i64(kind.bytes() as i64))?;
                    return self.write_bytes(out, columns[0], bytes, span);
                }
                self.count_loop(vec.len, |e, i| {
                    let item = e.load_element(vec, element, i, &Demand::All)?;
                    e.write_value(out, &item, element, span)
                })
            }
            (Type::Dict(key, value), Val::Dict(table)) => {
                let entry = Type::vec(Type::structure([(**key).clone(), (**value).clone()]));
                let entries = self.dict_to_vec(*table, ty, span)?;
                self.write_value(out, &entries, &entry, span)
            }
            _ => Err(internal("a value that has no bytes")),
        }
    }

    fn write_length(&mut self, out: &Rc<Handle<'c>>, len: IntValue<'c>, span: Span) -> Res<()> {
        let to = self.room(out, self.i64(8), span)?;
        self.store(to, len)?.set_alignment(1).map_err(|e| internal(&e.to_string()))
    }

    fn write_bytes(&mut self, out: &Rc<Handle<'c>>, bytes: PointerValue<'c>, len: IntValue<'c>, span: Span) -> Res<()> {
        let to = self.room(out, len, span)?;
        self.b.build_memcpy(to, 1, bytes, 1, len)?;
        Ok(())
    }

    /// Room for `bytes` more bytes of an appender, counted as appended.
    fn room(&mut self, out: &Rc<Handle<'c>>, bytes: IntValue<'c>, span: Span) -> Res<PointerValue<'c>> {
        self.reserve(out, &Type::I8, bytes, span)?;
        let len = self.load_i64(out.state)?;
        let start = self.load_ptr(self.offset(out.state, 16)?)?;
        self.store(out.state, self.add_nw(len, bytes)?)?;
        self.offset_by(start, len)
    }

    // ---- reading ----

    /// The value in bytes; traps if they are not those of a value of this type.
    pub(crate) fn deserialize(&mut self, data: &BytesVal<'c>, ty: &Type, span: Span) -> Res<Val<'c>> {
        let header = header(ty).ok_or_else(|| internal("a type without a tag"))?;
        let (data, len) = self.bytes_slice(data)?;
        let position = self.alloca(8, "position")?;
        self.store(position, self.i64(0))?;
        let input = Input { data, len, position, span };
        let start = self.take(&input, self.i64(header.len() as i64))?;
        let constant = self.unit.constant_bytes(&header);
        let same = self.equal_memory(start, constant, self.i64(header.len() as i64))?;
        self.refuse_if(&input, self.b.build_not(same, "")?)?;
        let value = self.read_value(&input, ty)?;
        let end = self.load_i64(position)?;
        self.refuse_if(&input, self.cmp(IntPredicate::NE, end, len)?)?;
        Ok(value)
    }

    fn refuse_if(&self, input: &Input<'c>, bad: IntValue<'c>) -> Res<()> {
        self.trap_if(bad, Status::BadSerialization, input.span, &[])
    }

    fn left(&self, input: &Input<'c>) -> Res<IntValue<'c>> {
        self.sub(input.len, self.load_i64(input.position)?)
    }

    /// The next bytes.
    fn take(&self, input: &Input<'c>, bytes: IntValue<'c>) -> Res<PointerValue<'c>> {
        let at = self.load_i64(input.position)?;
        let left = self.sub(input.len, at)?;
        self.refuse_if(input, self.cmp(IntPredicate::UGT, bytes, left)?)?;
        self.store(input.position, self.add_nw(at, bytes)?)?;
        self.offset_by(input.data, at)
    }

    /// A length, of elements that take at least `least` bytes each.
    fn read_length(&self, input: &Input<'c>, least: u64) -> Res<IntValue<'c>> {
        let at = self.take(input, self.i64(8))?;
        let len = self.load(self.unit.i64_type(), at)?;
        unaligned(len)?;
        let len = len.into_int_value();
        if least == 0 {
            let absurd = self.cmp(IntPredicate::UGT, len, self.i64(EMPTY_ELEMENTS_MAX))?;
            self.trap_if(absurd, Status::OutOfMemory, input.span, &[])?;
            return Ok(len);
        }
        let most = self.b.build_int_unsigned_div(self.left(input)?, self.i64(least as i64), "")?;
        self.refuse_if(input, self.cmp(IntPredicate::UGT, len, most)?)?;
        Ok(len)
    }

    fn read_value(&mut self, input: &Input<'c>, ty: &Type) -> Res<Val<'c>> {
        match ty {
            Type::Scalar(kind) => {
                let at = self.take(input, self.i64(kind.bytes() as i64))?;
                let value = self.load(self.memory_type(*kind), at)?;
                unaligned(value)?;
                if *kind != ScalarKind::Bool {
                    return Ok(Val::Scalar(value));
                }
                let byte = value.into_int_value();
                let one = byte.get_type().const_int(1, false);
                self.refuse_if(input, self.cmp(IntPredicate::UGT, byte, one)?)?;
                Ok(Val::int(self.cmp(IntPredicate::EQ, byte, one)?))
            }
            Type::Struct(fields) => {
                let mut values = Vec::with_capacity(fields.len());
                for field in fields.iter() {
                    values.push(self.read_value(input, field)?);
                }
                Ok(Val::structure(values))
            }
            Type::Vec(element) => self.read_vector(input, ty, element),
            Type::Dict(..) => self.read_dict(input, ty),
            Type::Simd(_) | Type::Builder(_) => Err(internal("a value that has no bytes")),
        }
    }

    fn read_vector(&mut self, input: &Input<'c>, ty: &Type, element: &Type) -> Res<Val<'c>> {
        let len = self.read_length(input, least_bytes(element))?;
        let region = self.region_for(ty);
        let vec = self.allocate_vec(element, len, region, input.span)?;
        let Columns::Dense(columns) = &vec.columns else { return Err(internal("a new vector in a chunk")) };
        let columns = columns.clone();
        match element.as_scalar() {
            Some(kind) if kind != ScalarKind::Bool => {
                let bytes = self.mul(len, self.i64(kind.bytes() as i64))?;
                let from = self.take(input, bytes)?;
                self.b.build_memcpy(columns[0], 1, from, 1, bytes)?;
            }
            _ => self.count_loop(len, |e, i| {
                let item = e.read_value(input, element)?;
                e.store_element(element, &mut columns.iter().copied(), i, &item)
            })?,
        }
        self.vec_value(ty, vec)
    }

    /// Entries come one by one and are entered into a table; values of groups go behind each other into columns.
    fn read_dict(&mut self, input: &Input<'c>, ty: &Type) -> Res<Val<'c>> {
        let (key_ty, value_ty) = entry_types(ty)?;
        let span = input.span;
        let rows = row_layout(key_ty, value_ty);
        let least = least_bytes(key_ty) + least_bytes(value_ty);
        let len = self.read_length(input, least)?;
        let region = self.region_for(ty);
        let number = |value: u32| self.unit.ll.i32_type().const_int(value.into(), false);
        let args = [self.run.into(), region.into(), number(rows.value_offset).into(), number(rows.row_bytes).into()];
        let table = self.call_value("weld_dict_new", &args)?.into_pointer_value();
        self.trap_noted_if(self.b.build_is_null(table, "")?, span)?;
        let memory = KeyMemory { function: "weld_dict_alloc", object: table, copies_bytes: false };
        let values = match value_ty.element() {
            Some(element) => {
                let appender = BuilderType::Appender(std::sync::Arc::new(element.clone()));
                Some((element, self.new_builder(&appender, None, false, span)?.builder()?.clone()))
            }
            None => None,
        };
        self.count_loop(len, |e, _| {
            let key = e.read_value(input, key_ty)?;
            let key = e.canonical_key(key_ty, &key)?;
            let hash = e.hash_key(key_ty, &key)?;
            let unfinished = DictVal { address: table, lasting: false };
            let (found, _) = e.find_row(unfinished, key_ty, value_ty, &key, hash)?;
            e.refuse_if(input, found)?;
            let args = [e.run.into(), table.into(), hash.into()];
            let row = e.call_value("weld_dict_insert", &args)?.into_pointer_value();
            e.trap_noted_if(e.b.build_is_null(row, "")?, span)?;
            let key = e.own_key(key_ty, &key, &memory, span)?;
            e.store_row(key_ty, row, &key)?;
            let value_at = e.offset(row, rows.value_offset.into())?;
            let Some((element, handle)) = &values else {
                let value = e.read_value(input, value_ty)?;
                return e.store_row(value_ty, value_at, &value);
            };
            let first = e.load_i64(handle.state)?;
            e.store(value_at, e.b.build_int_truncate(first, e.unit.ll.i32_type(), "")?)?;
            let count = e.read_length(input, least_bytes(element))?;
            e.count_loop(count, |e, _| {
                let value = e.read_value(input, element)?;
                e.merge(handle, &value, span)
            })
        })?;
        if let Some((element, handle)) = values {
            let columns = self.i64(layout::columns(element).len() as i64);
            let pointers = self.offset(handle.state, 16)?;
            let total = self.load_i64(handle.state)?;
            let args = [self.run.into(), table.into(), total.into(), columns.into(), pointers.into()];
            let done = self.call_value("weld_dict_group", &args)?.into_int_value();
            self.trap_noted_if(self.b.build_not(done, "")?, span)?;
        }
        let address = self.call_value("weld_dict_finish", &[table.into()])?.into_pointer_value();
        Ok(Val::Dict(self.new_dict(address, region, ty)))
    }
}

/// The fewest bytes that a value takes.
fn least_bytes(ty: &Type) -> u64 {
    match ty {
        Type::Scalar(kind) => kind.bytes() as u64,
        Type::Struct(fields) => fields.iter().map(least_bytes).sum(),
        _ => 8,
    }
}

fn unaligned<'c>(value: impl BasicValue<'c>) -> Res<()> {
    match value.as_instruction_value() {
        Some(load) => load.set_alignment(1).map_err(|e| internal(&e.to_string())),
        None => Ok(()),
    }
}
