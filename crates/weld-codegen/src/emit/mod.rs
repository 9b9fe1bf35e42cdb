//! Expressions to LLVM IR.
//!
//! An [`Emitter`] fills one function (see [`crate::block`]) and keeps what each symbol is bound to. Emission of an
//! expression gives a [`Val`]: SSA values, or the handle of a builder whose state lies in memory (LLVM promotes it to
//! registers where it can).
//!
//! | file | emits |
//! |---|---|
//! | `expr` | the dispatch over all kinds of expressions |
//! | `scalar`, `math`, `intrinsic` | operators, casts, functions |
//! | `wide` | checked 128-bit arithmetic |
//! | `control`, `iterate` | `if`, `select`; `iterate` |
//! | `loops`, `iter` | `for` and what it iterates over |
//! | `select`, `bound`, `group` | loops of a shape that runs better otherwise |
//! | `codes`, `few`, `short` | groups by dictionary codes; grouping into few groups; decimals of a strip in 64 bits |
//! | `parallel`, `apart` | loops that several threads share: with builders, without |
//! | `capture`, `work` | what the functions of such loops take along; whether it pays |
//! | `vector` | `lookup`, `slice`, vector literals, `update` |
//! | `bytes`, `strings` | byte vectors as strings |
//! | `compare`, `hash`, `dict`, `sort` | what dictionaries and sorting need |
//! | `prefetch` | fetching ahead for lookups in loops |
//! | `serialize` | values as bytes and back |
//! | `memory`, `stream` | loads and stores of row, column and flat forms; columns of a chunk |
//! | `cudf` | calls of C functions |

mod apart;
mod bound;
pub(crate) mod bytes;
mod capture;
mod codes;
pub(crate) mod compare;
mod control;
mod cudf;
pub(crate) mod dict;
mod expr;
mod few;
mod group;
pub(crate) mod hash;
mod intrinsic;
mod iter;
mod iterate;
mod loops;
mod math;
pub(crate) mod memory;
mod parallel;
pub(crate) mod prefetch;
mod prehash;
mod scalar;
mod select;
mod serialize;
mod short;
pub(crate) mod sort;
pub(crate) mod stream;
pub(crate) mod strings;
mod val;
mod vector;
mod wide;
mod work;

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use inkwell::module::Linkage;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{IntValue, PointerValue};
use weld_core::ir::{Expr, Sym};
use weld_core::ty::Type;

use crate::block::Code;
use crate::foreign::Cudf;

pub(crate) use crate::analysis::{Demand, Reuse, demands};
pub(crate) use crate::block::{ColumnScope, Filled, Res, Site, Unit, internal};
pub(crate) use parallel::Parallel;
pub(crate) use val::{BytesVal, Columns, DictVal, Handle, Val, VecVal, register_count};

/// What is known of a program before it is emitted.
#[derive(Default)]
pub(crate) struct Facts {
    /// Which parts of each symbol's value the program reads.
    pub(crate) demands: HashMap<Sym, Demand>,
    /// Which vectors are changed in place.
    pub(crate) reuse: Reuse,
    /// C functions that the host registered.
    pub(crate) cudfs: Vec<Cudf>,
    /// How loops become parallel, if they do.
    pub(crate) parallel: Option<Parallel>,
}

/// A level of scratch memory: an enclosing loop body whose temporaries are freed after each iteration.
pub(crate) struct Scratch<'c> {
    region: PointerValue<'c>,
    /// Values of these types may leave the iteration, so their memory must not be scratch.
    escaping: Vec<Type>,
    used: bool,
}

/// Fills one function with what expressions are.
pub(crate) struct Emitter<'c, 'u> {
    code: Code<'c, 'u>,
    pub(crate) facts: &'u Facts,
    pub(crate) vars: HashMap<Sym, Val<'c>>,
    pub(crate) scratch: Vec<Scratch<'c>>,
    /// How many levels of scratch memory the caller of the function uses.
    scratch_base: usize,
    /// How the loops here become parallel; not inside of loops.
    pub(crate) parallel: Option<Parallel>,
    /// Whether a loop around asked for sums of floats in order.
    pub(crate) strict: bool,
    /// Where the indices of the next loop start, if not at zero.
    index_base: Option<IntValue<'c>>,
    /// The merge whose keys the innermost loop has hashed ahead.
    hashed: Option<prehash::Hashed<'c>>,
    /// How many loops enclose the current position.
    pub(crate) loop_depth: u32,
}

impl<'c, 'u> Deref for Emitter<'c, 'u> {
    type Target = Code<'c, 'u>;

    fn deref(&self) -> &Code<'c, 'u> {
        &self.code
    }
}

impl DerefMut for Emitter<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.code
    }
}

impl<'c, 'u> Emitter<'c, 'u> {
    /// A new function `name(run, ..) -> i32` with the given further parameters, positioned at its body.
    pub(crate) fn new(
        unit: &'u Unit<'c>,
        facts: &'u Facts,
        name: &str,
        params: &[BasicTypeEnum<'c>],
        linkage: Linkage,
    ) -> Res<Self> {
        Ok(Emitter::of(Code::new(unit, name, params, linkage)?, facts))
    }

    /// An emitter for the rest of a function.
    pub(crate) fn of(code: Code<'c, 'u>, facts: &'u Facts) -> Self {
        Emitter {
            code,
            facts,
            vars: HashMap::new(),
            scratch: Vec::new(),
            scratch_base: 0,
            parallel: None,
            strict: false,
            index_base: None,
            hashed: None,
            loop_depth: 0,
        }
    }

    /// Ends the function: success.
    pub(crate) fn finish(self) -> Res<()> {
        self.code.finish()
    }

    /// Ends the function, which returns that number.
    pub(crate) fn finish_with(self, result: IntValue<'c>) -> Res<()> {
        self.code.finish_with(result)
    }

    // ---- memory of the run ----

    /// The region for a new object whose value has this type: the innermost scratch memory that neither it nor a value
    /// inside of its memory can leave.
    pub(crate) fn region_for(&mut self, ty: &Type) -> PointerValue<'c> {
        let mut kept = vec![ty];
        if let Type::Dict(key, value) = ty {
            // The values of groups lie in the table's columns, and copies of keys that are vectors in its arena.
            kept.extend(value.element().map(|_| &**value));
            vectors(key, &mut kept);
        }
        self.innermost_region(|outer| kept.iter().any(|ty| contains(outer, ty)))
    }

    /// The region of the innermost scratch memory that no value leaves of the types of which `leaves` says so.
    fn innermost_region(&mut self, leaves: impl Fn(&Type) -> bool) -> PointerValue<'c> {
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

    // ---- expressions of known shape ----

    pub(crate) fn emit_int(&mut self, expr: &Expr) -> Res<IntValue<'c>> {
        self.emit(expr)?.into_int()
    }
}

/// Whether a value of type `outer` can hold a value of type `inner`, or a part of one.
fn contains(outer: &Type, inner: &Type) -> bool {
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
