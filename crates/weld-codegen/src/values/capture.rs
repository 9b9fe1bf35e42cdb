//! What a function takes along of another one's values: their registers, through memory.
//!
//! A value is walked twice, by maps of its registers that must go the same way. In the function where it was computed
//! [`Stores`] notes each register's place in an environment and leaves it as it is; in the other one [`Loads`] gives
//! what lies there. Constants stand for themselves.
//!
//! ```text
//! outer:  k * k is %7         env[0] = %7
//! inner:  %1 = load env[0]    what was %7 is %1
//! ```

use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue};

use super::val::ArrowView;
use super::{BytesVal, Columns, DictVal, Res, Val, VecVal, internal};
use crate::block::Code;

/// Gives another register for each one of a value.
pub(crate) trait RegisterMap<'c> {
    fn register(&mut self, register: BasicValueEnum<'c>) -> Res<BasicValueEnum<'c>>;

    /// Whether the registers are those of another function: what values refer to stays the same while that runs.
    fn is_elsewhere(&self) -> bool {
        true
    }

    fn int(&mut self, register: IntValue<'c>) -> Res<IntValue<'c>> {
        Ok(self.register(register.into())?.into_int_value())
    }

    fn pointer(&mut self, register: PointerValue<'c>) -> Res<PointerValue<'c>> {
        Ok(self.register(register.into())?.into_pointer_value())
    }
}

/// Collects registers, with their offsets in the environment.
#[derive(Default)]
pub(crate) struct Stores<'c> {
    registers: Vec<(BasicValueEnum<'c>, u64)>,
    bytes: u64,
}

/// Loads the registers that [`Stores`] has collected, in the same order.
pub(crate) struct Loads<'e, 'c, 'u> {
    code: &'e Code<'c, 'u>,
    env: PointerValue<'c>,
    bytes: u64,
    /// Whether this code may change what the values refer to.
    is_callee: bool,
}

impl<'c> RegisterMap<'c> for Stores<'c> {
    fn register(&mut self, register: BasicValueEnum<'c>) -> Res<BasicValueEnum<'c>> {
        if !is_constant(register) {
            self.registers.push((register, self.bytes));
            self.bytes += room(register.get_type());
        }
        Ok(register)
    }
}

impl<'c> RegisterMap<'c> for Loads<'_, 'c, '_> {
    fn is_elsewhere(&self) -> bool {
        !self.is_callee
    }

    fn register(&mut self, register: BasicValueEnum<'c>) -> Res<BasicValueEnum<'c>> {
        if is_constant(register) {
            return Ok(register);
        }
        let ty = register.get_type();
        let value = self.code.load(ty, self.code.offset(self.env, self.bytes)?)?;
        self.code.set_align(value, 8)?;
        self.bytes += room(ty);
        Ok(value)
    }
}

impl<'c> Stores<'c> {
    /// The environment in memory.
    pub(crate) fn store(&self, e: &Code<'c, '_>) -> Res<PointerValue<'c>> {
        let env = e.alloca(self.bytes, "env")?;
        for (register, offset) in &self.registers {
            let store = e.store(e.offset(env, *offset)?, *register)?;
            store.set_alignment(8).map_err(|error| internal(&error.to_string()))?;
        }
        Ok(env)
    }
}

impl<'e, 'c, 'u> Loads<'e, 'c, 'u> {
    pub(crate) fn new(code: &'e Code<'c, 'u>, env: PointerValue<'c>) -> Self {
        Loads { code, env, bytes: 0, is_callee: false }
    }

    /// Of a function that does a part of what its caller does, which waits for it.
    pub(crate) fn of_caller(code: &'e Code<'c, 'u>, env: PointerValue<'c>) -> Self {
        Loads { code, env, bytes: 0, is_callee: true }
    }
}

impl<'c> Val<'c> {
    /// The same value in other registers.
    pub(crate) fn map_registers(&self, map: &mut dyn RegisterMap<'c>) -> Res<Val<'c>> {
        Ok(match self {
            Val::Scalar(register) => Val::Scalar(map.register(*register)?),
            Val::Struct(fields) => {
                Val::Struct(fields.iter().map(|field| field.map_registers(map)).collect::<Res<_>>()?)
            }
            Val::Vec(vec) => Val::Vec(vec.map_registers(map)?),
            Val::Bytes(BytesVal::Slice { ptr, len }) => {
                Val::Bytes(BytesVal::Slice { ptr: map.pointer(*ptr)?, len: map.int(*len)? })
            }
            Val::Bytes(BytesVal::View { low, high } | BytesVal::Entry { low, high, .. }) => {
                Val::Bytes(BytesVal::View { low: map.int(*low)?, high: map.int(*high)? })
            }
            Val::Bytes(BytesVal::Arrow(ArrowView { low, high, at, buffers })) => {
                Val::Bytes(BytesVal::Arrow(ArrowView {
                    low: map.int(*low)?,
                    high: map.int(*high)?,
                    at: map.pointer(*at)?,
                    buffers: map.pointer(*buffers)?,
                }))
            }
            Val::Bytes(BytesVal::Short { len, low, high }) => {
                Val::Bytes(BytesVal::Short { len: *len, low: map.int(*low)?, high: map.int(*high)? })
            }
            Val::Dict(table) => Val::Dict(table.map_registers(map)?),
            Val::Absent => Val::Absent,
            Val::Builder(_) | Val::Deferred { .. } => return Err(internal("a value that belongs to its function")),
        })
    }
}

impl<'c> DictVal<'c> {
    pub(crate) fn map_registers(&self, map: &mut dyn RegisterMap<'c>) -> Res<DictVal<'c>> {
        Ok(DictVal { address: map.pointer(self.address)?, lasting: self.lasting || map.is_elsewhere() })
    }
}

impl<'c> VecVal<'c> {
    pub(crate) fn map_registers(&self, map: &mut dyn RegisterMap<'c>) -> Res<VecVal<'c>> {
        let Columns::Dense(columns) = &self.columns else {
            return Err(internal("a chunk of a stream in another function"));
        };
        let columns = columns.iter().map(|column| map.pointer(*column)).collect::<Res<_>>()?;
        let input = self.input || map.is_elsewhere();
        Ok(VecVal { len: map.int(self.len)?, columns: Columns::Dense(columns), input })
    }
}

fn is_constant(register: BasicValueEnum<'_>) -> bool {
    match register {
        BasicValueEnum::IntValue(value) => value.is_const(),
        BasicValueEnum::FloatValue(value) => value.is_const(),
        BasicValueEnum::PointerValue(value) => value.is_const(),
        BasicValueEnum::VectorValue(value) => value.is_const(),
        _ => false,
    }
}

/// Bytes of the environment that a register takes: whole words.
fn room(ty: BasicTypeEnum<'_>) -> u64 {
    let bits = |ty: BasicTypeEnum<'_>| match ty {
        BasicTypeEnum::IntType(ty) => u64::from(ty.get_bit_width()),
        _ => 64,
    };
    let bits = match ty {
        BasicTypeEnum::VectorType(ty) => u64::from(ty.get_size()) * bits(ty.get_element_type()),
        ty => bits(ty),
    };
    bits.div_ceil(64) * 8
}
