//! How a loop runs: a function from the loop and what is known of its inputs to a [`LoopPlan`], which emission follows.
//!
//! | plan | loops |
//! |---|---|
//! | `selection` | keep the indices at which cheap conditions hold |
//! | `magnitudes` | take the magnitudes of integer columns |
//! | `grouped` | merge every row into one dictionary |
//! | `plain` | all others, one iteration after the other |
//! | `prefilter` | one of these, or all rows are kept |
//!
//! A loop that several threads run has a [`Sharing`] as well, which says how they fill its builders. Emission still
//! decides by itself how single expressions run (arithmetic in 64 bits row by row). A plan is one line of text, which
//! EXPLAIN shows; the tests below say when each is made and when it is not.

mod appends;
mod buffered;
mod early_keys;
mod fast_path;
mod few_groups;
mod grouped;
mod magnitudes;
mod plain;
mod prefilter;
mod selection;
mod sharing;
mod show;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use weld_core::ir::{Func, Sym};
use weld_core::ty::Type;

pub(crate) use appends::Append;
pub(crate) use buffered::Buffered;
pub(crate) use early_keys::{EarlyKey, HashAhead, Known, Prefetch, SLOT_BYTES};
pub use fast_path::FastPath;
pub(crate) use few_groups::{FewGroups, MergedField};
pub(crate) use grouped::{Grouped, KeySearch, Rows};
pub(crate) use magnitudes::Magnitudes;
pub(crate) use plain::{Plain, Room};
pub(crate) use prefilter::Prefilter;
pub(crate) use selection::Selection;
pub(crate) use sharing::{Filling, Shareable, Sharing};

use crate::chunk::ColumnLayout;
use crate::machine::Machine;

/// How a loop runs.
pub(crate) enum LoopPlan<'e> {
    Plain(Plain<'e>),
    Selection(Selection<'e>),
    Magnitudes(Magnitudes),
    Grouped(Box<Grouped<'e>>),
    Prefilter(Prefilter<'e>, Box<LoopPlan<'e>>),
}

/// What is known of a loop's inputs before it runs.
pub(crate) struct Inputs<'a> {
    pub(crate) machine: &'a Machine,
    /// How the columns are stored, if the loop goes over all rows of a chunk.
    pub(crate) chunk: Option<&'a [ColumnLayout]>,
    /// The same for a variable, if it is a chunk.
    pub(crate) chunk_of: &'a dyn Fn(Sym) -> Option<Vec<ColumnLayout>>,
    /// The loop's builders outlive the chunks of a stream, so that they copy the strings of what is merged.
    pub(crate) copies_bytes: bool,
    /// What is merged into the loop's builder is collected by a loop around.
    pub(crate) is_buffered: bool,
    /// What is left out.
    pub(crate) disabled: &'a BTreeSet<FastPath>,
}

impl Inputs<'_> {
    fn allows(&self, path: FastPath) -> bool {
        !self.disabled.contains(&path)
    }
}

/// The parameters of an update function.
pub(crate) struct Params<'e> {
    pub(crate) builder: Sym,
    pub(crate) builder_ty: &'e Type,
    pub(crate) index: Sym,
    pub(crate) element: Sym,
    pub(crate) element_ty: &'e Type,
}

impl<'e> Params<'e> {
    /// None if it is no update function.
    pub(crate) fn of(func: &'e Func) -> Option<Params<'e>> {
        let [(builder, builder_ty), (index, _), (element, element_ty)] = &func.params[..] else { return None };
        Some(Params { builder: *builder, builder_ty, index: *index, element: *element, element_ty })
    }
}

impl<'e> LoopPlan<'e> {
    /// The plan for a loop with this update function, which has these parameters.
    pub(crate) fn of(func: &'e Func, params: &Params<'e>, inputs: &Inputs<'_>) -> LoopPlan<'e> {
        let plan = LoopPlan::of_all_rows(func, params, inputs);
        match prefilter::find(func, params).filter(|_| inputs.allows(FastPath::Prefilters)) {
            Some(prefilter) => LoopPlan::Prefilter(prefilter, Box::new(plan)),
            None => plan,
        }
    }

    /// The most merges of an iteration into one appender, if the loop makes room for them ahead.
    pub(crate) fn merges_most(&self) -> Option<u64> {
        match self {
            LoopPlan::Plain(plan) => plan.room.map(|room| room.most),
            LoopPlan::Prefilter(_, plan) => plan.merges_most(),
            _ => None,
        }
    }

    fn of_all_rows(func: &'e Func, params: &Params<'e>, inputs: &Inputs<'_>) -> LoopPlan<'e> {
        if inputs.allows(FastPath::Selections)
            && let Some(selection) = selection::find(func, params, inputs.machine)
        {
            return LoopPlan::Selection(selection);
        }
        if inputs.allows(FastPath::Magnitudes)
            && let Some(magnitudes) = inputs.chunk.and_then(|chunk| magnitudes::find(func, params, chunk))
        {
            return LoopPlan::Magnitudes(magnitudes);
        }
        if inputs.allows(FastPath::GroupedLoops)
            && !inputs.is_buffered
            && let Some(grouped) = grouped::find(func, params, inputs)
        {
            return LoopPlan::Grouped(Box::new(grouped));
        }
        LoopPlan::Plain(plain::plan(func, params, inputs))
    }
}
