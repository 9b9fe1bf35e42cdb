//! The code of a program by effort and by the layouts of chunks: what there is, what comes next, what a chunk runs on.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use weld_core::ty::Type;

use super::Compiled;
use super::kernel::{Kernel, Part};
use crate::chunk::ColumnLayout;
use crate::error::CompileError;
use crate::tier::{Tier, Tiered, Tiers};
use crate::values::stream::nullable;

impl Compiled {
    /// Compiles the loop over the stream for chunks of these layouts, ahead of their arrival.
    pub fn prepare(&self, layouts: &[ColumnLayout]) -> Result<(), CompileError> {
        let variant = self.variant(layouts);
        if self.options.tiers == Tiers::Single {
            return self.full(&variant, layouts).map(drop);
        }
        self.first(&variant, layouts)?;
        self.prepare_ends()
    }

    /// Makes optimised code right away, for runs that do not wait for it: of the loop for chunks of these layouts, if
    /// they are known, and of the rest.
    pub fn prepare_optimised(&self, layouts: Option<&[ColumnLayout]>) -> Result<(), CompileError> {
        if let Some(layouts) = layouts {
            let variant = self.variant(layouts);
            if self.adopt(&variant, Part::Process(layouts)).is_none() {
                self.full(&variant, layouts)?;
            }
        }
        match self.adopt(&self.ends, Part::Ends) {
            Some(_) => Ok(()),
            None => self.ends.full.get_or_init(|| self.build(Part::Ends, Tier::Full)).clone().map(drop),
        }
    }

    /// Whether the loop over the stream is compiled for chunks of these layouts.
    pub fn is_prepared(&self, layouts: &[ColumnLayout]) -> bool {
        let variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        variants.get(layouts).is_some_and(|variant| variant.kernels().next().is_some())
    }

    /// Compiles what does not depend on layouts.
    pub fn prepare_ends(&self) -> Result<(), CompileError> {
        self.ends().map(drop)
    }

    /// Whether optimised code would repay what it takes to make, if so many rows are still to come: only then is it
    /// worth calling [`Compiled::improve`], and only for the one caller who is told so.
    pub fn improvement_pays(&self, rows_left: Option<u64>) -> bool {
        self.options.tiers == Tiers::CheapFirst
            && self.progress.repays(self.cheap_time(), rows_left)
            && self.claim_improvement()
    }

    /// The same for code that comes again, and will more often.
    pub fn improvement_pays_when_it_returns(&self) -> bool {
        self.progress.repays_when_it_returns(self.cheap_time()) && self.claim_improvement()
    }

    /// Whether code of it was made by another process, or for another session: it comes again.
    pub fn was_stored(&self) -> bool {
        self.kept.is_some() && self.kernels().iter().any(|kernel| kernel.timing.is_stored)
    }

    /// Whether there is cheap code that better code may follow.
    pub fn has_cheap_code(&self) -> bool {
        !self.lacking().is_empty()
    }

    /// Whether there is cheap code to improve and the caller is the one to do it.
    pub fn claim_improvement(&self) -> bool {
        !self.lacking().is_empty() && self.progress.claim()
    }

    /// The variants with cheap code that runs have used, all of them if none has been used yet.
    pub(super) fn lacking(&self) -> Vec<(Vec<ColumnLayout>, Arc<Tiered>)> {
        let variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let is_used = |variant: &Tiered| variant.used.load(Ordering::Relaxed);
        let any_used = variants.values().any(|variant| is_used(variant));
        let lacking = variants.iter().filter(|(_, variant)| variant.lacks_full() && (!any_used || is_used(variant)));
        lacking.map(|(layouts, variant)| (layouts.clone(), Arc::clone(variant))).collect()
    }

    /// Makes optimised code of all that has cheap code: runs go over to it with their next chunk. After an error they
    /// stay on cheap code, and nobody is asked to try again.
    pub fn improve(&self) -> Result<(), CompileError> {
        for (layouts, variant) in self.lacking() {
            self.full(&variant, &layouts)?;
            if variant.is_mostly_plain() {
                self.add_plain(&layouts)?;
            }
        }
        if self.ends.lacks_full() {
            self.ends.full.get_or_init(|| self.build(Part::Ends, Tier::Full)).clone()?;
        }
        self.progress.reset();
        Ok(())
    }

    /// Makes optimised code for chunks of these layouts without any nulls, which another variant has served so far.
    pub(super) fn add_plain(&self, layouts: &[ColumnLayout]) -> Result<(), CompileError> {
        let plain = layouts.iter().map(|column| ColumnLayout { layout: column.layout.clone(), validity: false });
        let plain: Vec<ColumnLayout> = plain.collect();
        if !self.has_variant(&plain) {
            // Nobody finds the variant before it has its code.
            let kernel = self.build(Part::Process(&plain), Tier::Full)?;
            let _ = self.variant(&plain).full.set(Ok(kernel));
        }
        Ok(())
    }

    pub(super) fn has_variant(&self, layouts: &[ColumnLayout]) -> bool {
        self.variants.lock().unwrap_or_else(PoisonError::into_inner).contains_key(layouts)
    }

    /// What the cheap code took to make that has no better yet.
    pub(super) fn cheap_time(&self) -> Duration {
        let kernels = self.lacking().into_iter().filter_map(|(_, variant)| variant.cheap.get()?.as_ref().ok().cloned());
        kernels.map(|kernel| kernel.cost).sum()
    }

    /// The best code that there is.
    pub(super) fn ends(&self) -> Result<Arc<Kernel>, CompileError> {
        if let Some(kernel) = self.ends.improved() {
            return Ok(kernel.clone());
        }
        match self.options.tiers {
            Tiers::CheapFirst => match self.adopt(&self.ends, Part::Ends) {
                Some(kernel) => Ok(kernel),
                None => self.ends.cheap.get_or_init(|| self.build(Part::Ends, Tier::Cheap)).clone(),
            },
            Tiers::Single | Tiers::Alternate => {
                self.ends.full.get_or_init(|| self.build(Part::Ends, Tier::Full)).clone()
            }
        }
    }

    pub(super) fn variant(&self, layouts: &[ColumnLayout]) -> Arc<Tiered> {
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        // Compile without the lock, so that other partitions go on with what is there.
        match variants.get(layouts) {
            Some(variant) => variant.clone(),
            None => variants.entry(layouts.to_vec()).or_default().clone(),
        }
    }

    /// The variant that reads chunks of these layouts, and the layouts that it is made for: they have a validity where
    /// the chunk's have one, and perhaps where those have none.
    ///
    /// Which columns have nulls differs from chunk to chunk, and there are more combinations than can be compiled. So
    /// there are three variants at most of columns that differ in nothing but that: one for the first combination that
    /// comes or is expected, for what that does not cover one where every column that may have nulls has a validity,
    /// and one without any. That comes first where nulls are not expected; otherwise it is made of optimised code, if
    /// most rows turn out to be in chunks without nulls.
    pub(super) fn variant_for(&self, layouts: &[ColumnLayout]) -> (Vec<ColumnLayout>, Arc<Tiered>) {
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let covers = |known: &[ColumnLayout]| {
            let covers = |(known, here): (&ColumnLayout, &ColumnLayout)| {
                known.layout == here.layout && (known.validity || !here.validity)
            };
            known.len() == layouts.len() && known.iter().zip(layouts).all(covers)
        };
        let alike = |known: &[ColumnLayout]| {
            known.len() == layouts.len() && known.iter().zip(layouts).all(|(a, b)| a.layout == b.layout)
        };
        let validities = |known: &&Vec<ColumnLayout>| known.iter().filter(|column| column.validity).count();
        let chosen = match variants.keys().filter(|known| covers(known)).min_by_key(validities) {
            Some(known) => known.clone(),
            None if variants.keys().any(|known| has_nulls(known) && alike(known)) => self.with_all_validities(layouts),
            None => layouts.to_vec(),
        };
        let variant = variants.entry(chosen.clone()).or_default().clone();
        (chosen, variant)
    }

    /// The layouts with a validity wherever the type of the column allows nulls.
    pub(super) fn with_all_validities(&self, layouts: &[ColumnLayout]) -> Vec<ColumnLayout> {
        let may_be_null = self.nullable_columns();
        let general = |(at, column): (usize, &ColumnLayout)| {
            let validity = column.validity || may_be_null.get(at).copied().unwrap_or(false);
            ColumnLayout { layout: column.layout.clone(), validity }
        };
        layouts.iter().enumerate().map(general).collect()
    }

    /// For each column of the stream whether its type allows nulls.
    pub(super) fn nullable_columns(&self) -> Vec<bool> {
        let param = self.stream.as_ref().map(|stream| &self.program.params[stream.param].ty);
        match param.and_then(|ty| ty.element()) {
            Some(Type::Struct(fields)) => fields.iter().map(|field| nullable(field).is_some()).collect(),
            Some(other) => vec![nullable(other).is_some()],
            None => Vec::new(),
        }
    }

    /// How many variants of the loop over the stream there are: see [`Compiled::prepare`].
    pub fn variants(&self) -> usize {
        self.variants.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(super) fn full(&self, variant: &Tiered, layouts: &[ColumnLayout]) -> Result<Arc<Kernel>, CompileError> {
        variant.full.get_or_init(|| self.build(Part::Process(layouts), Tier::Full)).clone()
    }

    pub(super) fn cheap(&self, variant: &Tiered, layouts: &[ColumnLayout]) -> Result<Arc<Kernel>, CompileError> {
        let build = || {
            if self.ends.kernels().next().is_some() {
                return self.build(Part::Process(layouts), Tier::Cheap);
            }
            let kernel = self.build(Part::All(layouts), Tier::Cheap)?;
            // Somebody may have been faster.
            let _ = self.ends.cheap.set(Ok(kernel.clone()));
            Ok(kernel)
        };
        variant.cheap.get_or_init(build).clone()
    }

    /// The code to start on: cheap code, unless there is better by now.
    fn first(&self, variant: &Tiered, layouts: &[ColumnLayout]) -> Result<Arc<Kernel>, CompileError> {
        if let Some(kernel) = variant.improved() {
            return Ok(kernel.clone());
        }
        match self.adopt(variant, Part::Process(layouts)) {
            Some(kernel) => Ok(kernel),
            None => self.cheap(variant, layouts),
        }
    }

    /// Optimised code from disk for what has no code yet.
    fn adopt(&self, tiered: &Tiered, part: Part<'_>) -> Option<Arc<Kernel>> {
        if self.options.tiers == Tiers::CheapFirst
            && tiered.kernels().next().is_none()
            && let Some(kernel) = self.stored(part, Tier::Full)
        {
            let _ = tiered.full.set(Ok(kernel));
        }
        tiered.improved().cloned()
    }

    /// Code for a chunk, whose number in its run decides when tiers alternate.
    pub(super) fn code_for(
        &self,
        variant: &Tiered,
        layouts: &[ColumnLayout],
        chunk: u64,
    ) -> Result<Arc<Kernel>, CompileError> {
        match self.options.tiers {
            Tiers::Single => self.full(variant, layouts),
            Tiers::Alternate if chunk % 2 == 1 => self.full(variant, layouts),
            Tiers::Alternate => self.cheap(variant, layouts),
            Tiers::CheapFirst => self.first(variant, layouts),
        }
    }
}

/// Whether columns of these layouts have nulls.
pub(super) fn has_nulls(layouts: &[ColumnLayout]) -> bool {
    layouts.iter().any(|column| column.validity)
}
