//! Values in registers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValue, BasicValueEnum, IntValue, PointerValue};
use weld_core::ty::{BuilderType, ScalarKind, Type};

use super::stream::StreamColumn;
use super::{ColumnScope, Res, Values, internal};
use crate::chunk::ColumnLayout;
use crate::layout;

/// What an expression has become.
#[derive(Clone, Debug)]
pub(crate) enum Val<'c> {
    /// A scalar (`bool` as one bit) or a `simd` value.
    Scalar(BasicValueEnum<'c>),
    Struct(Rc<[Val<'c>]>),
    /// A vector, other than of bytes.
    Vec(VecVal<'c>),
    /// `vec[i8]` or `vec[u8]`.
    Bytes(BytesVal<'c>),
    Dict(DictVal<'c>),
    Builder(Rc<Handle<'c>>),
    /// A part that no expression reads.
    Absent,
    /// A scalar of a chunk that is loaded where it is used. Only in structs that are bound to a symbol.
    Deferred {
        column: Rc<StreamColumn<'c>>,
        ty: Type,
        row: IntValue<'c>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct VecVal<'c> {
    pub(crate) len: IntValue<'c>,
    pub(crate) columns: Columns<'c>,
    /// Whether the elements stay the same while the code runs: arguments and chunks.
    pub(crate) input: bool,
}

impl VecVal<'_> {
    /// How the columns are stored, if these are rows of a chunk.
    pub(crate) fn stored(&self) -> Option<Vec<ColumnLayout>> {
        match &self.columns {
            Columns::Stream { columns, .. } => Some(columns.iter().map(StreamColumn::stored).collect()),
            Columns::Dense(_) => None,
        }
    }
}

/// A dictionary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DictVal<'c> {
    pub(crate) address: PointerValue<'c>,
    /// Whether it is sure to stay until the code ends. Where a temporary of an iteration may have been, another is made
    /// in the next one, so that loads must not be taken for those of memory that does not change.
    pub(crate) lasting: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Columns<'c> {
    /// A pointer for each column.
    Dense(Rc<[PointerValue<'c>]>),
    /// Rows from `base` on of a chunk's columns.
    Stream { columns: Rc<[StreamColumn<'c>]>, base: IntValue<'c> },
}

/// A byte vector. The bytes of `Slice` and of long views stay where they are; those of short views lie inside.
#[derive(Clone, Debug)]
pub(crate) enum BytesVal<'c> {
    Slice {
        ptr: PointerValue<'c>,
        len: IntValue<'c>,
    },
    /// The two words of a string view.
    View {
        low: IntValue<'c>,
        high: IntValue<'c>,
    },
    /// What compares equal or not without looking at the buffers, mostly.
    Arrow(ArrowView<'c>),
    /// The same of an entry of a chunk's dictionary.
    Entry {
        low: IntValue<'c>,
        high: IntValue<'c>,
        entry: Entry<'c>,
    },
    /// The same of a view that is short, of a length that is known.
    Short {
        len: u32,
        low: IntValue<'c>,
        high: IntValue<'c>,
    },
}

/// A view as Arrow has it: if it is long, its second word is the number of a buffer and an offset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrowView<'c> {
    pub(crate) low: IntValue<'c>,
    pub(crate) high: IntValue<'c>,
    /// Where it lies.
    pub(crate) at: PointerValue<'c>,
    /// The addresses of the buffers. Null if second words are addresses.
    pub(crate) buffers: PointerValue<'c>,
}

/// The row of a chunk that bytes were read of by their code.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'c> {
    pub(crate) column: Rc<StreamColumn<'c>>,
    pub(crate) row: IntValue<'c>,
}

impl<'c> BytesVal<'c> {
    pub(crate) fn entry(&self) -> Option<&Entry<'c>> {
        match self {
            BytesVal::Entry { entry, .. } => Some(entry),
            _ => None,
        }
    }
}

/// A builder: its state lies in memory and merges change it in place, which linearity allows.
#[derive(Debug)]
pub(crate) struct Handle<'c> {
    pub(crate) ty: BuilderType,
    /// The state, laid out as `layout::row` of the builder type says.
    pub(crate) state: PointerValue<'c>,
    /// Where its memory comes from.
    pub(crate) region: PointerValue<'c>,
    /// Whether the loop around has made room for each merge in its body.
    pub(crate) reserved: Cell<bool>,
    /// An index that the loop around has shown to lie in a vecmerger.
    pub(crate) inside: Cell<Option<IntValue<'c>>>,
    /// The columns of an appender that the loop around fills.
    pub(crate) filled: RefCell<Rc<[ColumnScope<'c>]>>,
    /// The size hint of an appender.
    pub(crate) hint: Option<IntValue<'c>>,
    /// The builder outlives the chunks of a stream, so the bytes of strings that it keeps must be copied.
    pub(crate) copies_bytes: bool,
    /// The same of the rows of a numberer.
    pub(crate) copies_rows: bool,
}

impl<'c> Handle<'c> {
    pub(crate) fn new(ty: BuilderType, state: PointerValue<'c>, region: PointerValue<'c>) -> Handle<'c> {
        Handle {
            ty,
            state,
            region,
            reserved: Cell::new(false),
            inside: Cell::new(None),
            filled: RefCell::default(),
            hint: None,
            copies_bytes: false,
            copies_rows: false,
        }
    }
}

impl<'c> Val<'c> {
    /// A builder, or a struct of builders, of this type; the handles in its order.
    pub(crate) fn builders(ty: &Type, handles: &mut impl Iterator<Item = Rc<Handle<'c>>>) -> Res<Val<'c>> {
        match ty {
            Type::Struct(fields) => {
                Ok(Val::Struct(fields.iter().map(|field| Val::builders(field, handles)).collect::<Res<_>>()?))
            }
            _ => Ok(Val::Builder(handles.next().ok_or_else(|| internal("a builder without a handle"))?)),
        }
    }

    pub(crate) fn int(value: IntValue<'c>) -> Val<'c> {
        Val::Scalar(value.into())
    }

    pub(crate) fn structure(fields: Vec<Val<'c>>) -> Val<'c> {
        Val::Struct(fields.into())
    }

    pub(crate) fn scalar(&self) -> Res<BasicValueEnum<'c>> {
        match self {
            Val::Scalar(value) => Ok(*value),
            other => Err(internal(&format!("a scalar was expected, not {other:?}"))),
        }
    }

    pub(crate) fn into_int(self) -> Res<IntValue<'c>> {
        match self {
            Val::Scalar(BasicValueEnum::IntValue(value)) => Ok(value),
            other => Err(internal(&format!("an integer was expected, not {other:?}"))),
        }
    }

    pub(crate) fn field(&self, index: usize) -> Res<Val<'c>> {
        match self {
            Val::Struct(fields) => fields.get(index).cloned().ok_or_else(|| internal("no such field")),
            Val::Absent => Ok(Val::Absent),
            other => Err(internal(&format!("a struct was expected, not {other:?}"))),
        }
    }

    pub(crate) fn vec(&self) -> Res<&VecVal<'c>> {
        match self {
            Val::Vec(vec) => Ok(vec),
            other => Err(internal(&format!("a vector was expected, not {other:?}"))),
        }
    }

    pub(crate) fn bytes(&self) -> Res<&BytesVal<'c>> {
        match self {
            Val::Bytes(bytes) => Ok(bytes),
            other => Err(internal(&format!("bytes were expected, not {other:?}"))),
        }
    }

    pub(crate) fn dict(&self) -> Res<DictVal<'c>> {
        match self {
            Val::Dict(table) => Ok(*table),
            other => Err(internal(&format!("a dictionary was expected, not {other:?}"))),
        }
    }

    pub(crate) fn builder(&self) -> Res<&Rc<Handle<'c>>> {
        match self {
            Val::Builder(handle) => Ok(handle),
            other => Err(internal(&format!("a builder was expected, not {other:?}"))),
        }
    }
}

/// The LLVM types of a value's registers; a builder has none, byte vectors have the two words of their view.
pub(crate) fn register_types<'c>(e: &Values<'c, '_>, ty: &Type, out: &mut Vec<BasicTypeEnum<'c>>) {
    match ty {
        Type::Scalar(kind) => out.push(e.unit.scalar_type(*kind)),
        Type::Simd(kind) => out.push(e.simd_type(*kind)),
        Type::Struct(fields) => fields.iter().for_each(|field| register_types(e, field, out)),
        Type::Vec(_) if ty.is_bytes() => out.extend([BasicTypeEnum::from(e.unit.i64_type()); 2]),
        Type::Vec(element) => {
            out.push(e.unit.i64_type().into());
            out.extend(layout::columns(element).iter().map(|_| BasicTypeEnum::from(e.unit.ptr_type())));
        }
        Type::Dict(..) => out.push(e.unit.ptr_type().into()),
        Type::Builder(_) => {}
    }
}

/// How many registers a value has.
pub(crate) fn register_count(ty: &Type) -> usize {
    match ty {
        Type::Scalar(_) | Type::Simd(_) | Type::Dict(..) => 1,
        Type::Struct(fields) => fields.iter().map(register_count).sum(),
        Type::Vec(_) if ty.is_bytes() => 2,
        Type::Vec(element) => 1 + layout::columns(element).len(),
        Type::Builder(_) => 0,
    }
}

impl<'c> Values<'c, '_> {
    /// Stores the registers of a value sixteen bytes apart, for [`Values::load_registers`].
    pub(crate) fn store_registers(&self, ty: &Type, ptr: PointerValue<'c>, value: &Val<'c>) -> Res<()> {
        let mut registers = Vec::new();
        self.flatten(value, ty, &mut registers)?;
        for (i, register) in registers.into_iter().enumerate() {
            let store = self.store(self.offset(ptr, 16 * i as u64)?, register)?;
            store.set_alignment(8).map_err(|error| internal(&error.to_string()))?;
        }
        Ok(())
    }

    /// Loads what another entry point stored; vectors among it do not change any more.
    pub(crate) fn load_registers(&self, ty: &Type, ptr: PointerValue<'c>) -> Res<Val<'c>> {
        Ok(constant(self.load_changing(ty, ptr)?))
    }

    /// Loads what another function stored.
    pub(crate) fn load_changing(&self, ty: &Type, ptr: PointerValue<'c>) -> Res<Val<'c>> {
        let mut types = Vec::new();
        register_types(self, ty, &mut types);
        let mut registers = Vec::with_capacity(types.len());
        for (i, ty) in types.into_iter().enumerate() {
            let value = self.load(ty, self.offset(ptr, 16 * i as u64)?)?;
            if let Some(load) = value.as_instruction_value() {
                load.set_alignment(8).map_err(|error| internal(&error.to_string()))?;
            }
            registers.push(value);
        }
        self.unflatten(ty, &mut registers.into_iter(), &Val::Absent)
    }

    /// The registers of a value, as [`register_types`] orders them.
    pub(crate) fn flatten(&self, value: &Val<'c>, ty: &Type, out: &mut Vec<BasicValueEnum<'c>>) -> Res<()> {
        match (value, ty) {
            (Val::Absent, _) => {
                let mut types = Vec::new();
                register_types(self, ty, &mut types);
                out.extend(types.into_iter().map(zero_of));
            }
            (Val::Scalar(value), _) => out.push(*value),
            (Val::Struct(values), Type::Struct(types)) => {
                for (value, ty) in values.iter().zip(types.iter()) {
                    self.flatten(value, ty, out)?;
                }
            }
            (Val::Vec(VecVal { len, columns: Columns::Dense(columns), .. }), _) => {
                out.push((*len).into());
                out.extend(columns.iter().map(|&column| BasicValueEnum::from(column)));
            }
            (Val::Vec(vec), Type::Vec(element)) => {
                let dense = self.materialize(vec, element)?;
                self.flatten(&self.vec_value(ty, dense)?, ty, out)?;
            }
            (Val::Bytes(bytes), _) => {
                let (low, high) = self.bytes_view(bytes)?;
                out.extend([BasicValueEnum::from(low), high.into()]);
            }
            (Val::Dict(table), _) => out.push(table.address.into()),
            (Val::Builder(_), _) => {}
            _ => return Err(internal("a value is not of its type")),
        }
        Ok(())
    }

    /// The value in these registers, which are used up from the front. Builders come from `like`.
    pub(crate) fn unflatten(
        &self,
        ty: &Type,
        registers: &mut impl Iterator<Item = BasicValueEnum<'c>>,
        like: &Val<'c>,
    ) -> Res<Val<'c>> {
        let mut next = || registers.next().ok_or_else(|| internal("too few registers"));
        Ok(match ty {
            Type::Scalar(_) | Type::Simd(_) => Val::Scalar(next()?),
            Type::Struct(fields) => Val::Struct(
                fields
                    .iter()
                    .enumerate()
                    .map(|(i, field)| {
                        let like = if let Val::Struct(values) = like { &values[i] } else { &Val::Absent };
                        self.unflatten(field, registers, like)
                    })
                    .collect::<Res<_>>()?,
            ),
            Type::Vec(_) if ty.is_bytes() => {
                Val::Bytes(BytesVal::View { low: next()?.into_int_value(), high: next()?.into_int_value() })
            }
            Type::Vec(element) => {
                let len = next()?.into_int_value();
                let columns =
                    layout::columns(element).iter().map(|_| Ok(next()?.into_pointer_value())).collect::<Res<_>>()?;
                Val::Vec(VecVal { len, columns: Columns::Dense(columns), input: false })
            }
            Type::Dict(..) => Val::Dict(DictVal { address: next()?.into_pointer_value(), lasting: false }),
            Type::Builder(_) => like.clone(),
        })
    }

    /// `cond ? a : b` of any value without builders.
    pub(crate) fn choose_val(&self, cond: IntValue<'c>, a: &Val<'c>, b: &Val<'c>, ty: &Type) -> Res<Val<'c>> {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        self.flatten(a, ty, &mut xs)?;
        self.flatten(b, ty, &mut ys)?;
        let chosen: Vec<_> = xs.into_iter().zip(ys).map(|(x, y)| self.choose(cond, x, y)).collect::<Res<_>>()?;
        self.unflatten(ty, &mut chosen.into_iter(), a)
    }

    /// The zero value of a type: numbers are zero, vectors empty.
    pub(crate) fn zero(&self, ty: &Type) -> Res<Val<'c>> {
        let mut types = Vec::new();
        register_types(self, ty, &mut types);
        self.unflatten(ty, &mut types.into_iter().map(zero_of), &Val::Absent)
    }
}

/// The value with its vectors and dictionaries marked as not changing.
fn constant(value: Val<'_>) -> Val<'_> {
    match value {
        Val::Vec(vec) => Val::Vec(VecVal { input: true, ..vec }),
        Val::Dict(table) => Val::Dict(DictVal { lasting: true, ..table }),
        Val::Struct(fields) => Val::Struct(fields.iter().cloned().map(constant).collect()),
        other => other,
    }
}

/// Zero of an LLVM type.
pub(crate) fn zero_of(ty: BasicTypeEnum<'_>) -> BasicValueEnum<'_> {
    match ty {
        BasicTypeEnum::ArrayType(ty) => ty.const_zero().into(),
        BasicTypeEnum::FloatType(ty) => ty.const_zero().into(),
        BasicTypeEnum::IntType(ty) => ty.const_zero().into(),
        BasicTypeEnum::PointerType(ty) => ty.const_zero().into(),
        BasicTypeEnum::StructType(ty) => ty.const_zero().into(),
        BasicTypeEnum::VectorType(ty) => ty.const_zero().into(),
        BasicTypeEnum::ScalableVectorType(ty) => ty.const_zero().into(),
    }
}

/// The kind of a scalar or of the lanes of a `simd`.
pub(crate) fn scalar_kind(ty: &Type) -> Res<ScalarKind> {
    match ty {
        Type::Scalar(kind) | Type::Simd(kind) => Ok(*kind),
        _ => Err(internal("a scalar type was expected")),
    }
}
