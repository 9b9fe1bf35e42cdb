//! Columns of a chunk: loads of Arrow's layouts in place.
//!
//! What a column's [`ColumnAbi`] says is loaded once, where `process` starts; a load of a value is then as cheap as its
//! layout allows. Null values come out as zero.

use std::rc::Rc;

use inkwell::IntPredicate;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};
use weld_core::ty::{ScalarKind, Type};
use weld_runtime::{ColumnAbi, StringView};

use super::val::{ArrowView, Entry, VecVal};
use super::{BytesVal, Columns, Demand, Res, Val, Values, internal};
use crate::chunk::{ColumnLayout, Layout};
use crate::error::CompileError;

/// A column as `process` sees it.
#[derive(Clone, Debug)]
pub(crate) struct StreamColumn<'c> {
    /// Its number in the stream.
    number: u32,
    layout: Layout,
    values: PointerValue<'c>,
    /// Bitmap and first bit.
    validity: Option<(PointerValue<'c>, IntValue<'c>)>,
    bit_offset: Option<IntValue<'c>>,
    data: Option<PointerValue<'c>>,
    buffers: Option<PointerValue<'c>>,
    dictionary: Option<Box<StreamColumn<'c>>>,
    /// How many entries the dictionary has; zero if that is not known.
    entries: Option<IntValue<'c>>,
    /// The dictionary's number in its stream; zero if it has none.
    dictionary_number: Option<IntValue<'c>>,
}

impl<'c> StreamColumn<'c> {
    /// Kind and address of integers without nulls that are stored as they are.
    pub(crate) fn plain_integers(&self) -> Option<(ScalarKind, PointerValue<'c>)> {
        match self.layout {
            Layout::Fixed(kind) if kind.is_integer() && self.validity.is_none() => Some((kind, self.values)),
            _ => None,
        }
    }

    /// The dictionary's number in its stream, zero if it has none; `None` if there is no dictionary.
    pub(crate) fn dictionary_number(&self) -> Option<IntValue<'c>> {
        self.dictionary_number
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// How the column is stored.
    pub(crate) fn stored(&self) -> ColumnLayout {
        ColumnLayout { layout: self.layout.clone(), validity: self.validity.is_some() }
    }

    pub(crate) fn is_nullable(&self) -> bool {
        self.validity.is_some()
    }
}

impl<'c> Values<'c, '_> {
    /// Reads the descriptions of a chunk's columns, an array of [`ColumnAbi`].
    pub(crate) fn stream_columns(
        &self,
        columns: PointerValue<'c>,
        layouts: &[ColumnLayout],
    ) -> Res<Vec<StreamColumn<'c>>> {
        layouts
            .iter()
            .enumerate()
            .map(|(i, layout)| {
                let abi = self.offset(columns, (i * size_of::<ColumnAbi>()) as u64)?;
                self.stream_column(abi, i as u32, &layout.layout, layout.validity)
            })
            .collect()
    }

    fn stream_column(
        &self,
        abi: PointerValue<'c>,
        number: u32,
        layout: &Layout,
        validity: bool,
    ) -> Res<StreamColumn<'c>> {
        let pointer = |offset: usize| -> Res<PointerValue<'c>> {
            let value = self.load(self.unit.ptr_type(), self.offset(abi, offset as u64)?)?;
            self.mark_input_load(value)?;
            Ok(value.into_pointer_value())
        };
        let word = |offset: usize| -> Res<IntValue<'c>> {
            let value = self.load(self.unit.i64_type(), self.offset(abi, offset as u64)?)?;
            self.mark_input_load(value)?;
            Ok(value.into_int_value())
        };
        use std::mem::offset_of;
        let validity = match validity {
            true => Some((pointer(offset_of!(ColumnAbi, validity))?, word(offset_of!(ColumnAbi, validity_offset))?)),
            false => None,
        };
        let mut column = StreamColumn {
            number,
            layout: layout.clone(),
            values: pointer(offset_of!(ColumnAbi, values))?,
            validity,
            bit_offset: None,
            data: None,
            buffers: None,
            dictionary: None,
            entries: None,
            dictionary_number: None,
        };
        match layout {
            Layout::Fixed(_) | Layout::FixedList { .. } => {}
            Layout::Bits => column.bit_offset = Some(word(offset_of!(ColumnAbi, bit_offset))?),
            Layout::Utf8 | Layout::LargeUtf8 | Layout::List { .. } => {
                column.data = Some(pointer(offset_of!(ColumnAbi, data))?)
            }
            Layout::Utf8View => column.buffers = Some(pointer(offset_of!(ColumnAbi, buffers))?),
            Layout::Dictionary { values, .. } => {
                let dictionary = pointer(offset_of!(ColumnAbi, dictionary))?;
                column.dictionary = Some(Box::new(self.stream_column(dictionary, number, values, false)?));
                column.entries = Some(word(offset_of!(ColumnAbi, entries))?);
                column.dictionary_number = Some(word(offset_of!(ColumnAbi, dictionary_number))?);
            }
        }
        Ok(column)
    }

    /// Loads the demanded parts of a row of a chunk.
    pub(crate) fn load_stream_element(
        &self,
        columns: &[StreamColumn<'c>],
        element: &Type,
        row: IntValue<'c>,
        demand: &Demand,
    ) -> Res<Val<'c>> {
        let Type::Struct(fields) = element else {
            return self.load_stream_value(&columns[0], element, row, demand);
        };
        let mut values = Vec::with_capacity(fields.len());
        for (i, (field, column)) in fields.iter().zip(columns).enumerate() {
            values.push(self.load_stream_value(column, field, row, &demand.field(i))?);
        }
        Ok(Val::structure(values))
    }

    /// As [`Values::load_stream_element`], but what takes one load is loaded by [`Values::force`], where it is used.
    pub(crate) fn defer_stream_element(
        &self,
        columns: &[StreamColumn<'c>],
        element: &Type,
        row: IntValue<'c>,
        demand: &Demand,
    ) -> Res<Val<'c>> {
        let Type::Struct(fields) = element else {
            return self.load_stream_value(&columns[0], element, row, demand);
        };
        let mut values = Vec::with_capacity(fields.len());
        for (i, (field, column)) in fields.iter().zip(columns).enumerate() {
            let demand = demand.field(i);
            let simple = matches!(column.layout, Layout::Fixed(_)) && field.as_scalar().is_some();
            values.push(match simple && demand != Demand::None {
                true => Val::Deferred { column: Rc::new(column.clone()), ty: field.clone(), row },
                false => self.load_stream_value(column, field, row, &demand)?,
            });
        }
        Ok(Val::structure(values))
    }

    /// The value with its deferred parts loaded, here.
    pub(crate) fn force(&self, value: Val<'c>) -> Res<Val<'c>> {
        match value {
            Val::Deferred { column, ty, row } => self.load_stored(&column, &ty, row),
            Val::Struct(fields) if fields.iter().any(has_deferred) => {
                Ok(Val::Struct(fields.iter().map(|field| self.force(field.clone())).collect::<Res<_>>()?))
            }
            value => Ok(value),
        }
    }

    fn load_stream_value(
        &self,
        column: &StreamColumn<'c>,
        ty: &Type,
        row: IntValue<'c>,
        demand: &Demand,
    ) -> Res<Val<'c>> {
        if matches!(demand, Demand::None) {
            return Ok(Val::Absent);
        }
        let Some(inner) = nullable(ty) else {
            return self.load_valid(column, ty, row, demand);
        };
        let Some((bitmap, first)) = column.validity else {
            let value = match demand.field(0) {
                Demand::None => Val::Absent,
                demand => self.load_valid(column, inner, row, &demand)?,
            };
            return Ok(Val::structure(vec![value, Val::int(self.bool(true))]));
        };
        let valid = self.load_bit(bitmap, self.add_nw(first, row)?)?;
        let value = match (demand.field(0), &column.layout) {
            (Demand::None, _) => Val::Absent,
            (demand @ Demand::Equality, Layout::Utf8View) => {
                let Val::Bytes(BytesVal::Arrow(view)) = self.load_valid(column, inner, row, &demand)? else {
                    return Err(internal("a view that is asked whether it is equal"));
                };
                let zero = self.i64(0);
                let (low, high) = (self.choose_int(valid, view.low, zero)?, self.choose_int(valid, view.high, zero)?);
                Val::Bytes(BytesVal::Arrow(ArrowView { low, high, ..view }))
            }
            // The code of a null may be anything, and so may its view.
            (_, Layout::Dictionary { .. } | Layout::Utf8View) => {
                let value = self.load_valid_only(column, inner, row, valid)?;
                Self::as_entry(column, value, row)
            }
            _ => {
                let value = self.load_stored(column, inner, row)?;
                let zero = self.zero(inner)?;
                self.choose_val(valid, &value, &zero, inner)?
            }
        };
        Ok(Val::structure(vec![value, Val::int(valid)]))
    }

    fn load_valid(&self, column: &StreamColumn<'c>, ty: &Type, row: IntValue<'c>, demand: &Demand) -> Res<Val<'c>> {
        if let (Demand::Equality, Layout::Utf8View, Some(buffers)) = (demand, &column.layout, column.buffers) {
            return Ok(Val::Bytes(BytesVal::Arrow(self.load_view(column.values, buffers, row)?)));
        }
        let value = self.load_stored(column, ty, row)?;
        Ok(Self::as_entry(column, value, row))
    }

    /// Loads through a branch, so that what a null's code or view names is never looked at.
    fn load_valid_only(
        &self,
        column: &StreamColumn<'c>,
        ty: &Type,
        row: IntValue<'c>,
        valid: IntValue<'c>,
    ) -> Res<Val<'c>> {
        let (load, done) = (self.new_block("valid"), self.new_block("value"));
        let from = self.current_block()?;
        self.branch_if(valid, load, done)?;
        self.at(load);
        let value = self.load_stored(column, ty, row)?;
        let mut registers = Vec::new();
        self.flatten(&value, ty, &mut registers)?;
        let loaded = self.current_block()?;
        self.branch(done)?;
        self.at(done);
        let mut merged = Vec::with_capacity(registers.len());
        for register in registers {
            let phi = self.b.build_phi(register.get_type(), "")?;
            let zero = super::val::zero_of(register.get_type());
            phi.add_incoming(&[(&register, loaded), (&zero, from)]);
            merged.push(phi.as_basic_value());
        }
        self.unflatten(ty, &mut merged.into_iter(), &Val::Absent)
    }

    /// The value of a column in a row; where it is the view of a dictionary's entry, with what tells that.
    fn as_entry(column: &StreamColumn<'c>, value: Val<'c>, row: IntValue<'c>) -> Val<'c> {
        match value {
            Val::Bytes(BytesVal::View { low, high }) if column.dictionary.is_some() => {
                let entry = Entry { column: Rc::new(column.clone()), row };
                Val::Bytes(BytesVal::Entry { low, high, entry })
            }
            value => value,
        }
    }

    /// How many values a column's code can have, null among them; zero if that is not known.
    pub(crate) fn places(&self, column: &StreamColumn<'c>) -> Res<IntValue<'c>> {
        let entries = column.entries.unwrap_or_else(|| self.i64(0));
        if !column.is_nullable() {
            return Ok(entries);
        }
        let is_unknown = self.cmp(IntPredicate::EQ, entries, self.i64(0))?;
        self.choose_int(is_unknown, entries, self.add(entries, self.i64(1))?)
    }

    /// Loads a value that is there.
    fn load_stored(&self, column: &StreamColumn<'c>, ty: &Type, row: IntValue<'c>) -> Res<Val<'c>> {
        let missing = || internal("a column lacks a part of its layout");
        Ok(match (&column.layout, ty) {
            (Layout::Fixed(stored), Type::Scalar(kind)) => {
                let ptr = self.element_ptr(self.memory_type(*stored), column.values, row)?;
                let value = self.load_scalar(*stored, ptr, true)?;
                Val::Scalar(self.widen(value, *stored, *kind)?)
            }
            (Layout::Bits, Type::Scalar(ScalarKind::Bool)) => {
                let first = column.bit_offset.ok_or_else(missing)?;
                Val::int(self.load_bit(column.values, self.add_nw(first, row)?)?)
            }
            (Layout::Utf8, ty) if ty.is_bytes() => {
                self.load_offsets(column.values, column.data.ok_or_else(missing)?, row, ScalarKind::I32)?
            }
            (Layout::LargeUtf8, ty) if ty.is_bytes() => {
                self.load_offsets(column.values, column.data.ok_or_else(missing)?, row, ScalarKind::I64)?
            }
            (Layout::Utf8View, ty) if ty.is_bytes() => {
                let view = self.load_view(column.values, column.buffers.ok_or_else(missing)?, row)?;
                Val::Bytes(self.with_address(&view)?)
            }
            (Layout::List { offsets, unit, items }, ty) if is_list_of(ty, *items) => {
                let memory = self.memory_type(*offsets);
                let at = self.element_ptr(memory, column.values, row)?;
                let next = self.element_ptr(memory, at, self.i64(1))?;
                let start = self.to_i64(self.load_scalar(*offsets, at, true)?.into_int_value())?;
                let end = self.to_i64(self.load_scalar(*offsets, next, true)?.into_int_value())?;
                let unit = self.i64(*unit as i64);
                let (start, len) = (self.mul(start, unit)?, self.mul(self.sub(end, start)?, unit)?);
                self.list_value(ty, *items, column.data.ok_or_else(missing)?, start, len)?
            }
            (Layout::FixedList { size, items }, ty) if is_list_of(ty, *items) => {
                let len = self.i64(*size as i64);
                self.list_value(ty, *items, column.values, self.mul(row, len)?, len)?
            }
            (Layout::Dictionary { codes, .. }, ty) => {
                let ptr = self.element_ptr(self.memory_type(*codes), column.values, row)?;
                let code = self.load_scalar(*codes, ptr, true)?.into_int_value();
                let code = self.to_i64(code)?;
                self.load_stored(column.dictionary.as_ref().ok_or_else(missing)?, ty, code)?
            }
            (layout, ty) => {
                let what = format!("a column stored as {layout:?} for the type {ty}");
                return Err(CompileError::unsupported(what, Default::default()));
            }
        })
    }

    /// So many values of a buffer, in place.
    fn list_value(
        &self,
        ty: &Type,
        items: ScalarKind,
        data: PointerValue<'c>,
        start: IntValue<'c>,
        len: IntValue<'c>,
    ) -> Res<Val<'c>> {
        let ptr = self.element_ptr(self.memory_type(items), data, start)?;
        Ok(match ty.is_bytes() {
            true => Val::Bytes(BytesVal::Slice { ptr, len }),
            false => Val::Vec(VecVal { len, columns: Columns::Dense(Rc::new([ptr])), input: true }),
        })
    }

    /// The two halves of a 128-bit value without null, in loads of their own: LLVM does not vectorise wider ones.
    pub(crate) fn load_halves(&self, column: &StreamColumn<'c>, row: IntValue<'c>) -> Res<[IntValue<'c>; 2]> {
        let i64 = self.unit.i64_type();
        let first = self.mul(row, self.i64(2))?;
        let half = |at: IntValue<'c>| -> Res<IntValue<'c>> {
            let value = self.load(i64, self.element_ptr(i64.into(), column.values, at)?)?;
            self.mark_input_load(value)?;
            Ok(value.into_int_value())
        };
        Ok([half(first)?, half(self.add_nw(first, self.i64(1))?)?])
    }

    /// The code of a dictionary-encoded column in a row; where there may be nulls, zero for those and one more for the
    /// rest.
    pub(crate) fn load_code(&self, column: &StreamColumn<'c>, row: IntValue<'c>) -> Res<IntValue<'c>> {
        let Layout::Dictionary { codes, .. } = column.layout else { return Err(internal("a code of plain values")) };
        let ptr = self.element_ptr(self.memory_type(codes), column.values, row)?;
        let code = self.to_i64(self.load_scalar(codes, ptr, true)?.into_int_value())?;
        let Some((bitmap, first)) = column.validity else { return Ok(code) };
        let valid = self.load_bit(bitmap, self.add_nw(first, row)?)?;
        self.choose_int(valid, self.add(code, self.i64(1))?, self.i64(0))
    }

    fn load_bit(&self, bitmap: PointerValue<'c>, bit: IntValue<'c>) -> Res<IntValue<'c>> {
        let i8 = self.unit.ll.i8_type();
        let byte = self.b.build_right_shift(bit, self.i64(3), false, "")?;
        let byte = self.load(i8, self.element_ptr(i8.into(), bitmap, byte)?)?;
        self.mark_input_load(byte)?;
        let low = self.b.build_and(bit, self.i64(7), "")?;
        let shift = self.b.build_int_truncate(low, i8, "")?;
        let shifted = self.b.build_right_shift(byte.into_int_value(), shift, false, "")?;
        Ok(self.b.build_int_truncate(shifted, self.unit.ll.bool_type(), "")?)
    }

    fn load_offsets(
        &self,
        offsets: PointerValue<'c>,
        data: PointerValue<'c>,
        row: IntValue<'c>,
        kind: ScalarKind,
    ) -> Res<Val<'c>> {
        let ty = self.memory_type(kind);
        let at = self.element_ptr(ty, offsets, row)?;
        let next = self.element_ptr(ty, at, self.i64(1))?;
        let start = self.to_i64(self.load_scalar(kind, at, true)?.into_int_value())?;
        let end = self.to_i64(self.load_scalar(kind, next, true)?.into_int_value())?;
        Ok(Val::Bytes(BytesVal::Slice { ptr: self.offset_by(data, start)?, len: self.sub(end, start)? }))
    }

    fn load_view(&self, views: PointerValue<'c>, buffers: PointerValue<'c>, row: IntValue<'c>) -> Res<ArrowView<'c>> {
        let ty = self.unit.ll.i8_type().array_type(size_of::<StringView>() as u32);
        let at = self.element_ptr(ty.into(), views, row)?;
        match self.load_row(&Type::vec(Type::U8), at, true)? {
            Val::Bytes(BytesVal::View { low, high }) => Ok(ArrowView { low, high, at, buffers }),
            _ => Err(internal("a row of bytes is a view")),
        }
    }

    /// An Arrow view becomes one with an address; without buffers it is one already.
    pub(crate) fn with_address(&self, view: &ArrowView<'c>) -> Res<BytesVal<'c>> {
        let ArrowView { low, high, at, buffers } = *view;
        let (long, done) = (self.new_block("long"), self.new_block("view"));
        // The one test of the length: what else asks for it is decided by the same branch.
        let is_long = self.is_long(self.bytes_len(&BytesVal::View { low, high })?)?;
        let from = self.current_block()?;
        self.branch_if(is_long, long, done)?;
        self.at(long);
        let ptr = self.unit.ptr_type();
        let index = self.b.build_and(high, self.i64(u32::MAX as i64), "")?;
        let offset = self.b.build_right_shift(high, self.i64(32), false, "")?;
        let none = self.b.build_is_null(buffers, "")?;
        // Without buffers something is loaded that is not used, rather than branched.
        let slot = self.choose(none, at, self.element_ptr(ptr.into(), buffers, index)?)?.into_pointer_value();
        let buffer = self.load(ptr, slot)?;
        self.mark_input_load(buffer)?;
        let address = self.offset_by(buffer.into_pointer_value(), offset)?;
        let address = self.b.build_ptr_to_int(address, self.unit.i64_type(), "")?;
        let address = self.choose_int(none, high, address)?;
        self.branch(done)?;
        self.at(done);
        let phi = self.b.build_phi(self.unit.i64_type(), "")?;
        phi.add_incoming(&[(&high, from), (&address, long)]);
        Ok(BytesVal::View { low, high: phi.as_basic_value().into_int_value() })
    }

    /// From the stored kind to the Weld type's: same kind, or a wider integer or float.
    fn widen(&self, value: BasicValueEnum<'c>, from: ScalarKind, to: ScalarKind) -> Res<BasicValueEnum<'c>> {
        if from == to {
            return Ok(value);
        }
        if from.is_integer() && to.is_integer() && from.bytes() <= to.bytes() {
            let ty = self.unit.scalar_type(to).into_int_type();
            return Ok(self.b.build_int_cast_sign_flag(value.into_int_value(), ty, from.is_signed(), "")?.into());
        }
        if from == ScalarKind::F32 && to == ScalarKind::F64 {
            return Ok(self.b.build_float_ext(value.into_float_value(), self.unit.ll.f64_type(), "")?.into());
        }
        Err(CompileError::unsupported(format!("a column of {from} for the type {to}"), Default::default()))
    }
}

fn has_deferred(value: &Val<'_>) -> bool {
    match value {
        Val::Deferred { .. } => true,
        Val::Struct(fields) => fields.iter().any(has_deferred),
        _ => false,
    }
}

/// The value's type of a nullable one, `{T, bool}`.
pub(crate) fn nullable(ty: &Type) -> Option<&Type> {
    match ty.fields()? {
        [value, Type::Scalar(ScalarKind::Bool)] => Some(value),
        _ => None,
    }
}

/// Whether values of the type are lists of such scalars.
fn is_list_of(ty: &Type, items: ScalarKind) -> bool {
    ty.element() == Some(&Type::Scalar(items)) && items != ScalarKind::Bool
}
