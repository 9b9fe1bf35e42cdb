//! How several threads share the builders of a loop, each running it for a range of its iterations.
//!
//! ```text
//! apart        each range fills one of its own; they are combined in the order of the ranges
//! in order     an appender into which every iteration merges equally often: it has all its room from the start, and each
//!              range begins behind what those before it append
//! in place     a vecmerger into which every iteration merges at its own index: all ranges fill the same
//! ```
//!
//! Sequential stay loops that sum floats in order, that call C functions, which may not bear it, that number rows, of
//! which each range would have to be numbered anew, and those that several threads would not make faster.

use std::fmt::{self, Display, Formatter};

use weld_core::ir::Func;
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::{BuilderType, Type};

use crate::analysis::{GRAIN, calls_c, has_loops, merges_each, merges_in_place};

/// How the ranges of a loop fill a builder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filling {
    /// Each range one of its own.
    Apart,
    /// An appender, each range behind what those before it will append: this much an iteration.
    InOrder(u64),
    /// A vecmerger, each range at its own indices.
    InPlace,
}

/// What is known of a loop that several threads may run, beside its update function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shareable {
    /// Its elements are the integers of a range.
    pub(crate) is_range: bool,
    /// Its iterations, where their number is a constant.
    pub(crate) count: Option<u64>,
    /// The fewest iterations that the program wants in a range, if it says so.
    pub(crate) grain: Option<u64>,
    /// Floats are summed in the order of the iterations.
    pub(crate) strict: bool,
}

/// How each builder of a loop is filled, in their order.
pub(crate) struct Sharing(pub(crate) Vec<Filling>);

impl Sharing {
    /// None if the loop is to run on one thread.
    pub(crate) fn of(func: &Func, known: Shareable) -> Option<Sharing> {
        let (_, ty) = func.params.first()?;
        let mut builders = Vec::new();
        collect(ty, &mut builders);
        let least = if has_loops(&func.body) { 2 } else { known.grain.unwrap_or(GRAIN).saturating_mul(2) };
        if known.count.is_some_and(|count| count < least)
            || calls_c(func)
            || (known.strict && builders.iter().any(|builder| sums_floats(builder)))
            || builders.iter().any(|builder| matches!(builder, BuilderType::Numberer { .. }))
        {
            return None;
        }
        let in_place = merges_in_place(func, known.is_range);
        let filling = |(builder, each): (&&BuilderType, Option<u64>)| match (builder, each) {
            (BuilderType::Appender(_), Some(each)) => Filling::InOrder(each),
            (BuilderType::VecMerger { .. }, _) if in_place => Filling::InPlace,
            _ => Filling::Apart,
        };
        Some(Sharing(builders.iter().zip(merges_each(func)).map(filling).collect()))
    }
}

impl Display for Sharing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("shared:")?;
        for (i, filling) in self.0.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { " " })?;
            match filling {
                Filling::Apart => f.write_str("apart"),
                Filling::InOrder(each) => write!(f, "in order, {each} an iteration"),
                Filling::InPlace => f.write_str("in place"),
            }?;
        }
        Ok(())
    }
}

fn collect<'t>(builders: &'t Type, out: &mut Vec<&'t BuilderType>) {
    match builders {
        Type::Struct(fields) => fields.iter().for_each(|field| collect(field, out)),
        Type::Builder(builder) => out.push(builder),
        _ => {}
    }
}

/// Whether the result depends on the order in which floats are merged.
fn sums_floats(builder: &BuilderType) -> bool {
    fn sums(ty: &Type, op: &MergeOp) -> bool {
        match (ty, op) {
            (Type::Struct(fields), op) => fields.iter().enumerate().any(|(i, field)| sums(field, &op.field(i))),
            (Type::Scalar(kind), MergeOp::All(op)) => kind.is_float() && matches!(op, ReduceOp::Add | ReduceOp::Mul),
            _ => true,
        }
    }
    match builder {
        BuilderType::Merger { value, op }
        | BuilderType::DictMerger { value, op, .. }
        | BuilderType::Numberer { value, op, .. }
        | BuilderType::VecMerger { value, op } => sums(value, op),
        BuilderType::Appender(_) | BuilderType::GroupBuilder { .. } => false,
    }
}
