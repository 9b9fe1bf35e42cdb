//! Loads and stores of values in row, column and flat form.

use inkwell::IntPredicate;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValue, BasicValueEnum, InstructionValue, IntValue, PointerValue};
use weld_core::ir::Known;
use weld_core::ty::{ScalarKind, Type};
use weld_runtime::StringView;

use super::{BytesVal, Columns, Demand, DictVal, Res, Val, Values, VecVal, internal};
use crate::layout;

impl<'c> Values<'c, '_> {
    /// The type of a scalar in memory: `bool` is a byte.
    pub(crate) fn memory_type(&self, kind: ScalarKind) -> BasicTypeEnum<'c> {
        match kind {
            ScalarKind::Bool => self.unit.ll.i8_type().into(),
            _ => self.unit.scalar_type(kind),
        }
    }

    pub(crate) fn simd_type(&self, kind: ScalarKind) -> BasicTypeEnum<'c> {
        let lanes = self.unit.lanes(kind);
        match self.unit.scalar_type(kind) {
            BasicTypeEnum::FloatType(ty) => ty.vec_type(lanes).into(),
            BasicTypeEnum::IntType(ty) => ty.vec_type(lanes).into(),
            other => other,
        }
    }

    /// Loads a scalar from its row form.
    pub(crate) fn load_scalar(&self, kind: ScalarKind, ptr: PointerValue<'c>, input: bool) -> Res<BasicValueEnum<'c>> {
        let value = self.load(self.memory_type(kind), ptr)?;
        align(value.as_instruction_value(), kind)?;
        self.mark_load(value, input)?;
        if kind == ScalarKind::Bool {
            let byte = value.into_int_value();
            return Ok(self.cmp(IntPredicate::NE, byte, byte.get_type().const_zero())?.into());
        }
        Ok(value)
    }

    /// Stores a scalar in row form.
    pub(crate) fn store_scalar(&self, kind: ScalarKind, ptr: PointerValue<'c>, value: BasicValueEnum<'c>) -> Res<()> {
        let value = match kind {
            ScalarKind::Bool => self.b.build_int_z_extend(value.into_int_value(), self.unit.ll.i8_type(), "")?.into(),
            _ => value,
        };
        let store = self.store(ptr, value)?;
        align(Some(store), kind)?;
        self.mark_own_store(store)
    }

    /// Loads a value from its row form.
    pub(crate) fn load_row(&self, ty: &Type, ptr: PointerValue<'c>, input: bool) -> Res<Val<'c>> {
        self.load_row_parts(ty, ptr, input, &Demand::All)
    }

    pub(crate) fn load_row_parts(
        &self,
        ty: &Type,
        ptr: PointerValue<'c>,
        input: bool,
        demand: &Demand,
    ) -> Res<Val<'c>> {
        if matches!(demand, Demand::None) {
            return Ok(Val::Absent);
        }
        let word = |index: u64| -> Res<IntValue<'c>> {
            let value = self.load(self.unit.i64_type(), self.offset(ptr, 8 * index)?)?;
            self.mark_load(value, input)?;
            Ok(value.into_int_value())
        };
        let pointer = |index: u64| -> Res<PointerValue<'c>> {
            let value = self.load(self.unit.ptr_type(), self.offset(ptr, 8 * index)?)?;
            self.mark_load(value, input)?;
            Ok(value.into_pointer_value())
        };
        Ok(match ty {
            Type::Scalar(kind) => Val::Scalar(self.load_scalar(*kind, ptr, input)?),
            Type::Simd(kind) => Val::Scalar(self.load_simd(*kind, ptr, input)?),
            Type::Struct(fields) => {
                let offsets = layout::field_offsets(fields);
                let mut values = Vec::with_capacity(fields.len());
                for (i, (field, offset)) in fields.iter().zip(offsets).enumerate() {
                    let at = self.offset(ptr, offset)?;
                    values.push(self.load_row_parts(field, at, input, &demand.field(i))?);
                }
                Val::structure(values)
            }
            Type::Vec(_) if ty.is_bytes() => Val::Bytes(BytesVal::View { low: word(0)?, high: word(1)? }),
            Type::Vec(element) => {
                let columns = (0..layout::columns(element).len() as u64).map(|i| pointer(1 + i)).collect::<Res<_>>()?;
                Val::Vec(VecVal { len: word(0)?, columns: Columns::Dense(columns), input })
            }
            Type::Dict(..) => Val::Dict(DictVal { address: pointer(0)?, lasting: input }),
            Type::Builder(_) => return Err(internal("a builder in row form")),
        })
    }

    /// Stores a value in row form.
    pub(crate) fn store_row(&self, ty: &Type, ptr: PointerValue<'c>, value: &Val<'c>) -> Res<()> {
        match (ty, value) {
            (_, Val::Absent) => {
                let zero = self.zero(ty)?;
                self.store_row(ty, ptr, &zero)
            }
            (Type::Scalar(kind), value) => self.store_scalar(*kind, ptr, value.scalar()?),
            (Type::Simd(kind), value) => self.store_simd(*kind, ptr, value.scalar()?),
            (Type::Struct(fields), value) => {
                for (i, (field, offset)) in fields.iter().zip(layout::field_offsets(fields)).enumerate() {
                    self.store_row(field, self.offset(ptr, offset)?, &value.field(i)?)?;
                }
                Ok(())
            }
            _ => {
                let mut registers = Vec::new();
                self.flatten(value, ty, &mut registers)?;
                for (i, register) in registers.into_iter().enumerate() {
                    let store = self.store(self.offset(ptr, 8 * i as u64)?, register)?;
                    self.mark_own_store(store)?;
                }
                Ok(())
            }
        }
    }

    /// The address of an element of a column whose elements are in row form.
    pub(crate) fn column_ptr(&self, ty: &Type, column: PointerValue<'c>, index: IntValue<'c>) -> Res<PointerValue<'c>> {
        match ty {
            Type::Scalar(kind) => self.element_ptr(self.memory_type(*kind), column, index),
            _ => {
                let size = layout::row(ty).size as u32;
                self.element_ptr(self.unit.ll.i8_type().array_type(size).into(), column, index)
            }
        }
    }

    /// Loads the demanded parts of element `index`, which is in range.
    pub(crate) fn load_element(
        &self,
        vec: &VecVal<'c>,
        element: &Type,
        index: IntValue<'c>,
        demand: &Demand,
    ) -> Res<Val<'c>> {
        match &vec.columns {
            Columns::Dense(columns) => {
                let mut columns = columns.iter().copied();
                self.load_columns(element, &mut columns, index, vec.input, demand)
            }
            Columns::Stream { columns, base } => {
                let row = self.add_nw(*base, index)?;
                self.load_stream_element(columns, element, row, demand)
            }
        }
    }

    fn load_columns(
        &self,
        ty: &Type,
        columns: &mut impl Iterator<Item = PointerValue<'c>>,
        index: IntValue<'c>,
        input: bool,
        demand: &Demand,
    ) -> Res<Val<'c>> {
        if let Type::Struct(fields) = ty {
            let mut values = Vec::with_capacity(fields.len());
            for (i, field) in fields.iter().enumerate() {
                values.push(self.load_columns(field, columns, index, input, &demand.field(i))?);
            }
            return Ok(Val::structure(values));
        }
        let column = columns.next().ok_or_else(|| internal("a vector lacks a column"))?;
        if matches!(demand, Demand::None) {
            return Ok(Val::Absent);
        }
        self.load_row(ty, self.column_ptr(ty, column, index)?, input)
    }

    /// Stores a value as element `index` of columns that have room for it.
    pub(crate) fn store_element(
        &self,
        ty: &Type,
        columns: &mut impl Iterator<Item = PointerValue<'c>>,
        index: IntValue<'c>,
        value: &Val<'c>,
    ) -> Res<()> {
        if let Type::Struct(fields) = ty {
            for (i, field) in fields.iter().enumerate() {
                self.store_element(field, columns, index, &value.field(i)?)?;
            }
            return Ok(());
        }
        let column = columns.next().ok_or_else(|| internal("a vector lacks a column"))?;
        self.store_row(ty, self.column_ptr(ty, column, index)?, value)
    }

    // ---- flat form ----

    /// Loads a value from its flat form, from word `*word` on.
    pub(crate) fn load_flat(&self, ty: &Type, words: PointerValue<'c>, word: &mut u64) -> Res<Val<'c>> {
        let mut next = || -> Res<PointerValue<'c>> {
            *word += 1;
            self.offset(words, 8 * (*word - 1))
        };
        let input = |value: BasicValueEnum<'c>| -> Res<BasicValueEnum<'c>> {
            self.mark_input_load(value)?;
            Ok(value)
        };
        let ptr_type = self.unit.ptr_type();
        Ok(match ty {
            Type::Scalar(ScalarKind::I128) => {
                let at = next()?;
                next()?;
                Val::Scalar(self.load_scalar(ScalarKind::I128, at, true)?)
            }
            // The machine is little-endian: a word starts with its narrow value.
            Type::Scalar(kind) => Val::Scalar(self.load_scalar(*kind, next()?, true)?),
            Type::Struct(fields) => {
                Val::Struct(fields.iter().map(|field| self.load_flat(field, words, word)).collect::<Res<_>>()?)
            }
            Type::Vec(element) => {
                let len = input(self.load(self.unit.i64_type(), next()?)?)?.into_int_value();
                let columns: Vec<PointerValue<'c>> = layout::columns(element)
                    .iter()
                    .map(|_| Ok(input(self.load(ptr_type, next()?)?)?.into_pointer_value()))
                    .collect::<Res<_>>()?;
                if ty.is_bytes() {
                    return Ok(Val::Bytes(BytesVal::Slice { ptr: columns[0], len }));
                }
                Val::Vec(VecVal { len, columns: Columns::Dense(columns.into()), input: true })
            }
            Type::Dict(..) => {
                let address = input(self.load(ptr_type, next()?)?)?.into_pointer_value();
                Val::Dict(DictVal { address, lasting: true })
            }
            Type::Simd(_) | Type::Builder(_) => return Err(internal("no flat form")),
        })
    }

    /// The same of an argument of which more is known than its type.
    pub(crate) fn load_known(&self, ty: &Type, known: Known, words: PointerValue<'c>, word: &mut u64) -> Res<Val<'c>> {
        match known {
            // The upper half only repeats the sign. What LLVM sees extended it compares in 64 bits.
            Known::Short => {
                let short = self.load_scalar(ScalarKind::I64, self.offset(words, 8 * *word)?, true)?;
                *word += 2;
                Ok(Val::int(self.b.build_int_s_extend(short.into_int_value(), self.unit.ll.i128_type(), "")?))
            }
            Known::Bytes(len) => match self.load_flat(ty, words, word)? {
                Val::Bytes(bytes) if len as usize <= StringView::INLINE_MAX => {
                    Ok(Val::Bytes(self.short_view(self.bytes_slice(&bytes)?.0, len)?))
                }
                value => Ok(value),
            },
            // Its length and first bytes are read once, and not of each text that it is compared with.
            Known::LongBytes => match self.load_flat(ty, words, word)? {
                Val::Bytes(bytes) => {
                    let (low, high) = self.bytes_view(&bytes)?;
                    Ok(Val::Bytes(BytesVal::View { low, high }))
                }
                value => Ok(value),
            },
        }
    }

    /// Stores a value in flat form, from word `*word` on. Bytes of short views go to memory of the run.
    pub(crate) fn store_flat(&self, ty: &Type, words: PointerValue<'c>, word: &mut u64, value: &Val<'c>) -> Res<()> {
        let mut next = || -> Res<PointerValue<'c>> {
            *word += 1;
            self.offset(words, 8 * (*word - 1))
        };
        match (ty, value) {
            (_, Val::Absent) => {
                let zero = self.zero(ty)?;
                return self.store_flat(ty, words, word, &zero);
            }
            (Type::Scalar(ScalarKind::I128), value) => {
                let at = next()?;
                next()?;
                self.store_scalar(ScalarKind::I128, at, value.scalar()?)?;
            }
            (Type::Scalar(kind), value) => {
                let bits = match value.scalar()? {
                    BasicValueEnum::FloatValue(v) if *kind == ScalarKind::F32 => {
                        self.b.build_bit_cast(v, self.unit.ll.i32_type(), "")?.into_int_value()
                    }
                    BasicValueEnum::FloatValue(v) => {
                        self.b.build_bit_cast(v, self.unit.i64_type(), "")?.into_int_value()
                    }
                    v => v.into_int_value(),
                };
                let bits = self.b.build_int_cast_sign_flag(bits, self.unit.i64_type(), kind.is_signed(), "")?;
                self.store(next()?, bits)?;
            }
            (Type::Struct(fields), value) => {
                for (i, field) in fields.iter().enumerate() {
                    self.store_flat(field, words, word, &value.field(i)?)?;
                }
            }
            (_, Val::Bytes(bytes)) => {
                let (ptr, len) = self.bytes_durable(bytes)?;
                self.store(next()?, len)?;
                self.store(next()?, ptr)?;
            }
            _ => {
                let mut registers = Vec::new();
                self.flatten(value, ty, &mut registers)?;
                for register in registers {
                    self.store(next()?, register)?;
                }
            }
        }
        Ok(())
    }

    // ---- simd ----

    /// Loads consecutive lanes.
    pub(crate) fn load_simd(&self, kind: ScalarKind, ptr: PointerValue<'c>, input: bool) -> Res<BasicValueEnum<'c>> {
        let lanes = self.unit.lanes(kind);
        let ty: BasicTypeEnum<'c> = match kind {
            ScalarKind::Bool => self.unit.ll.i8_type().vec_type(lanes).into(),
            _ => self.simd_type(kind),
        };
        let value = self.load(ty, ptr)?;
        align(value.as_instruction_value(), kind)?;
        self.mark_load(value, input)?;
        if kind == ScalarKind::Bool {
            let bytes = value.into_vector_value();
            return Ok(self.b.build_int_compare(IntPredicate::NE, bytes, bytes.get_type().const_zero(), "")?.into());
        }
        Ok(value)
    }

    /// Stores lanes one after the other.
    pub(crate) fn store_simd(&self, kind: ScalarKind, ptr: PointerValue<'c>, value: BasicValueEnum<'c>) -> Res<()> {
        let value = match kind {
            ScalarKind::Bool => {
                let bytes = self.unit.ll.i8_type().vec_type(self.unit.lanes(kind));
                self.b.build_int_z_extend(value.into_vector_value(), bytes, "")?.into()
            }
            _ => value,
        };
        let store = self.store(ptr, value)?;
        align(Some(store), kind)?;
        self.mark_own_store(store)
    }
}

/// Rows align wide values to eight bytes at most; a row may also lie in a flat word.
fn align(access: Option<InstructionValue<'_>>, kind: ScalarKind) -> Res<()> {
    match access {
        Some(access) => access.set_alignment(kind.bytes().min(8) as u32).map_err(|error| internal(&error.to_string())),
        None => Ok(()),
    }
}
