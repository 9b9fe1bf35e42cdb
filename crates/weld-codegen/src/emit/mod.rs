//! Expressions to LLVM IR.
//!
//! An [`Emitter`] fills one function (see [`crate::block`]) and keeps what each symbol is bound to. Emission of an
//! expression gives a [`Val`]: SSA values, or the handle of a builder whose state lies in memory (LLVM promotes it to
//! registers where it can).
//!
//! The layers below have what needs no expression: [`Builders`], [`Tables`](crate::tables), [`Values`](crate::values).
//! What is here emits expressions, or is asked for by what does: the body of a loop is an expression, and a loop is
//! one.
//!
//! | file | emits |
//! |---|---|
//! | `expr` | the dispatch over all kinds of expressions |
//! | `intrinsic`, `literal`, `merge` | functions, vector literals, merges |
//! | `narrow_row` | checked 128-bit arithmetic, in 64 bits where a row allows it |
//! | `control`, `iterate` | `if`, `select`; `iterate` |
//! | `loops`, `iter` | `for` and what it iterates over |
//! | `selection`, `magnitudes`, `grouped` | loops whose plan is not plain, see [`crate::analysis::loop_plan`] |
//! | `few_groups`, `narrow_strip` | grouping into few groups; decimals of a strip in 64 bits |
//! | `parallel`, `work` | loops that several threads share; whether it pays |
//! | `part` | parts of large programs as functions of their own |
//! | `buffered` | merges that nested loops do, collected |
//! | `prefetch`, `prehash` | fetching and hashing ahead for lookups and merges in loops |
//! | `prefilter` | prefilters, passed over while they drop next to nothing |
//! | `sort` | sorting by a comparator |
//! | `cudf` | calls of C functions |

mod buffered;
mod control;
mod cudf;
mod expr;
mod few_groups;
mod grouped;
mod intrinsic;
mod iter;
mod iterate;
mod literal;
mod loops;
mod magnitudes;
mod merge;
mod narrow_row;
mod narrow_strip;
mod parallel;
mod part;
mod prefetch;
mod prefilter;
mod prehash;
mod selection;
mod sort;
mod work;

use std::collections::{BTreeSet, HashMap};
use std::ops::{Deref, DerefMut};

use inkwell::module::Linkage;
use inkwell::types::BasicTypeEnum;
use inkwell::values::IntValue;
use weld_core::ir::{Expr, Sym};

use crate::block::{Code, Flow};
use crate::builder::Builders;
use crate::cudf::Cudf;
use crate::tables::Tables;
use crate::values::{Ranges, Values};

use crate::analysis::loop_plan::FastPath;
pub(crate) use crate::analysis::{Demand, Parts, Reuse, demands};
pub(crate) use crate::block::{Filled, Res, Site, Unit, internal};
pub(crate) use crate::values::{BytesVal, Columns, Handle, Parallel, Val, VecVal};

/// What is known of a program before it is emitted.
#[derive(Default)]
pub(crate) struct Facts {
    /// Which parts of each symbol's value the program reads.
    pub(crate) demands: HashMap<Sym, Demand>,
    /// Which vectors are changed in place.
    pub(crate) reuse: Reuse,
    /// What becomes a function of its own.
    pub(crate) parts: Parts,
    /// How long vectors are that loops go over, where that is known.
    pub(crate) lengths: HashMap<*const Expr, u64>,
    /// C functions that the host registered.
    pub(crate) cudfs: Vec<Cudf>,
    /// How loops become parallel, if they do.
    pub(crate) parallel: Option<Parallel>,
    /// Ways of running loops that are left out.
    pub(crate) disabled: BTreeSet<FastPath>,
}

/// Fills one function with what expressions are.
pub(crate) struct Emitter<'c, 'u> {
    builders: Builders<'c, 'u>,
    pub(crate) facts: &'u Facts,
    pub(crate) vars: HashMap<Sym, Val<'c>>,
    /// Where the indices of the next loop start, if not at zero.
    index_base: Option<IntValue<'c>>,
    /// Those `if`s in the body of the innermost loop that append without a branch, as its plan says.
    appends: Vec<*const Expr>,
    /// Where merges into the builder of a loop around are collected.
    buffer: Option<buffered::Buffer<'c>>,
    /// The merge whose keys the innermost loop has hashed ahead.
    hashed: Option<prehash::Hashed<'c>>,
    /// What the innermost loop asks a table, if it need not.
    question: Option<prefilter::Question<'c>>,
    /// How many loops enclose the current position.
    pub(crate) loop_depth: u32,
}

impl<'c, 'u> Deref for Emitter<'c, 'u> {
    type Target = Builders<'c, 'u>;

    fn deref(&self) -> &Builders<'c, 'u> {
        &self.builders
    }
}

impl DerefMut for Emitter<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.builders
    }
}

impl<'c, 'u> Flow<'c, 'u> for Emitter<'c, 'u> {
    fn code(&self) -> &Code<'c, 'u> {
        self.builders.code()
    }

    fn into_code(self) -> Code<'c, 'u> {
        self.builders.into_code()
    }
}

impl<'c, 'u> Ranges<'c, 'u> for Emitter<'c, 'u> {
    fn values(&self) -> &Values<'c, 'u> {
        self.builders.values()
    }

    fn outlined(&self, what: &str, params: &[BasicTypeEnum<'c>]) -> Res<Self> {
        Ok(Emitter::over(self.builders.outlined(what, params)?, self.facts))
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
        let code = Code::new(unit, name, params, linkage)?;
        Ok(Emitter::over(Builders::over(Tables::over(code)), facts))
    }

    fn over(builders: Builders<'c, 'u>, facts: &'u Facts) -> Self {
        Emitter {
            builders,
            facts,
            vars: HashMap::new(),
            index_base: None,
            appends: Vec::new(),
            buffer: None,
            hashed: None,
            question: None,
            loop_depth: 0,
        }
    }

    pub(crate) fn emit_int(&mut self, expr: &Expr) -> Res<IntValue<'c>> {
        self.emit(expr)?.into_int()
    }
}
