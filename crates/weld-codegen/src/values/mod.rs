//! Values of Weld's types: how they lie in registers and in memory, and what is done to them that needs no table, no
//! builder and no expression.
//!
//! | file | has |
//! |---|---|
//! | `val` | values in registers |
//! | `memory`, `stream` | loads and stores of row, column and flat forms; columns of a chunk |
//! | `scalar`, `math`, `exp`, `number` | operators, casts, functions of numbers |
//! | `vector` | `len`, `lookup`, `slice`, `update`, copies |
//! | `bytes`, `strings` | byte vectors as strings, search in them |
//! | `compare` | equality and order |
//! | `source` | what loops iterate over |
//! | `capture`, `parallel_fill` | what other functions take along of values; loops of several threads |

pub(crate) mod bytes;
pub(crate) mod capture;
mod compare;
mod exp;
mod math;
mod memory;
mod number;
pub(crate) mod parallel_fill;
mod scalar;
pub(crate) mod source;
pub(crate) mod stream;
mod strings;
mod val;
pub(crate) mod vector;

use std::ops::{Deref, DerefMut};

use inkwell::module::Linkage;
use inkwell::types::BasicTypeEnum;
use inkwell::values::PointerValue;
use weld_core::ty::Type;

use crate::block::{Code, Flow};

pub(crate) use crate::analysis::Demand;
pub(crate) use crate::block::{ColumnScope, Res, Unit, address, internal};
pub(crate) use parallel_fill::{Parallel, Ranges};
pub(crate) use val::{BytesVal, Columns, DictVal, Entry, Handle, Val, VecVal, register_count, scalar_kind};

/// A level of scratch memory: an enclosing loop body whose temporaries are freed after each iteration.
pub(crate) struct Scratch<'c> {
    region: PointerValue<'c>,
    /// Values of these types may leave the iteration, so their memory must not be scratch.
    escaping: Vec<Type>,
    used: bool,
}

/// Fills one function with values.
pub(crate) struct Values<'c, 'u> {
    code: Code<'c, 'u>,
    scratch: Vec<Scratch<'c>>,
    /// How many levels of scratch memory the caller of the function uses.
    scratch_base: usize,
    /// How loops here become parallel; not inside of loops.
    pub(crate) parallel: Option<Parallel>,
}

impl<'c, 'u> Deref for Values<'c, 'u> {
    type Target = Code<'c, 'u>;

    fn deref(&self) -> &Code<'c, 'u> {
        &self.code
    }
}

impl DerefMut for Values<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.code
    }
}

impl<'c, 'u> Flow<'c, 'u> for Values<'c, 'u> {
    fn code(&self) -> &Code<'c, 'u> {
        &self.code
    }

    fn into_code(self) -> Code<'c, 'u> {
        self.code
    }
}

impl<'c, 'u> Ranges<'c, 'u> for Values<'c, 'u> {
    fn values(&self) -> &Values<'c, 'u> {
        self
    }

    fn outlined(&self, what: &str, params: &[BasicTypeEnum<'c>]) -> Res<Self> {
        let name = self.unit.fresh_name(&format!("weld.{what}"));
        let mut values = Values::over(Code::new(self.unit, &name, params, Linkage::Internal)?);
        values.region = values.pointer_param(1)?;
        values.scratch_base = self.scratch_base + self.scratch.len();
        Ok(values)
    }
}

impl<'c, 'u> Values<'c, 'u> {
    pub(crate) fn over(code: Code<'c, 'u>) -> Self {
        Values { code, scratch: Vec::new(), scratch_base: 0, parallel: None }
    }

    // ---- memory of the run ----

    /// The region for a new object whose value has this type: the innermost scratch memory that neither it nor a value
    /// inside of its memory can leave.
    pub(crate) fn region_for(&mut self, ty: &Type) -> PointerValue<'c> {
        self.region_for_all(&[ty])
    }

    /// The same for an object that makes a value of each of these types.
    pub(crate) fn region_for_all(&mut self, types: &[&Type]) -> PointerValue<'c> {
        let mut kept = types.to_vec();
        for ty in types {
            let Type::Dict(key, value) = ty else { continue };
            // The values of groups lie in the table's columns, and copies of keys that are vectors in its arena.
            kept.extend(value.element().map(|_| &**value));
            vectors(key, &mut kept);
        }
        self.innermost_region(|outer| kept.iter().any(|ty| contains(outer, ty)))
    }

    /// The region of the innermost scratch memory that no value leaves of the types of which `leaves` says so.
    pub(crate) fn innermost_region(&mut self, leaves: impl Fn(&Type) -> bool) -> PointerValue<'c> {
        let all = self.region;
        match self.scratch.iter_mut().rev().find(|level| !level.escaping.iter().any(&leaves)) {
            Some(level) => {
                level.used = true;
                level.region
            }
            None => all,
        }
    }

    /// Whether values of this type may leave all iterations around.
    pub(crate) fn leaves_all(&self, ty: &Type) -> bool {
        self.scratch.iter().all(|level| level.escaping.iter().any(|outer| contains(outer, ty)))
    }

    /// Of two regions of builders that are one from here on, the one that ends first: neither leaves it.
    pub(crate) fn inner_region(&self, a: PointerValue<'c>, b: PointerValue<'c>) -> PointerValue<'c> {
        let levels = self.scratch.iter().rev().map(|level| level.region);
        levels.into_iter().find(|region| *region == a || *region == b).unwrap_or(a)
    }

    /// Scratch memory from here on, for an iteration whose temporaries end with it; values of these types may leave it.
    pub(crate) fn enter_scratch(&mut self, escaping: Vec<Type>) -> Res<()> {
        let index = self.i64(1 + (self.scratch_base + self.scratch.len()) as i64);
        let region_function = self.unit.runtime_function("weld_region")?;
        let run = self.run;
        let region = self.in_entry(|b| {
            let call = b.build_call(region_function, &[run.into(), index.into()], "scratch")?;
            Ok(call.try_as_basic_value().unwrap_basic().into_pointer_value())
        })?;
        self.scratch.push(Scratch { region, escaping, used: false });
        Ok(())
    }

    /// Frees what lies in the innermost scratch memory, which ends here.
    pub(crate) fn leave_scratch(&mut self) -> Res<()> {
        let Some(scratch) = self.scratch.pop() else { return Err(internal("scratch memory without a level")) };
        if scratch.used {
            let (clear, cleared) = (self.new_block("clear"), self.new_block("cleared"));
            let first = self.load_ptr(scratch.region)?;
            let empty = self.b.build_is_null(first, "")?;
            self.branch_if(empty, cleared, clear)?;
            self.at(clear);
            self.call("weld_region_clear", &[self.run.into(), scratch.region.into()])?;
            self.branch(cleared)?;
            self.at(cleared);
        }
        Ok(())
    }
}

/// Whether a value of type `outer` can hold a value of type `inner`, or a part of one.
pub(crate) fn contains(outer: &Type, inner: &Type) -> bool {
    if outer == inner {
        return true;
    }
    match outer {
        Type::Scalar(_) | Type::Simd(_) => false,
        Type::Struct(fields) => fields.iter().any(|field| contains(field, inner)),
        Type::Vec(element) => contains(element, inner),
        Type::Dict(key, value) => contains(key, inner) || contains(value, inner),
        Type::Builder(builder) => contains(&builder.merge_type(), inner) || contains(&builder.result_type(), inner),
    }
}

/// The vectors in a type of keys.
fn vectors<'t>(ty: &'t Type, out: &mut Vec<&'t Type>) {
    match ty {
        Type::Struct(fields) => fields.iter().for_each(|field| vectors(field, out)),
        Type::Vec(element) => {
            out.push(ty);
            vectors(element, out);
        }
        _ => {}
    }
}
