//! Loops of generated code that fill an array, in parallel where that pays: each iteration writes to a place of its
//! own, which is there before the loop. They have no builders; those of programs that have are in `emit/parallel.rs`.
//!
//! ```text
//! for i in 0 .. n: result[i] = v[order[i]]      the end of a sort
//! for i in 0 .. n: result[i] = rows[i + 1]      the entries of a dictionary
//! ```
//!
//! Where loops may be parallel the body becomes a function for [`weld_runtime::parallel`]; elsewhere it stays where it
//! is.

use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, IntValue};
use weld_runtime::parallel::Loop;

use super::capture::{Loads, RegisterMap, Stores};
use super::{Res, Values, address};
use crate::analysis::GRAIN;
use crate::block::Flow;

/// Ranges for each thread, so that those done first help the others.
pub(crate) const RANGES: u64 = 8;

/// How loops become parallel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parallel {
    /// The fewest iterations that are worth a range; if not given, what suits the loop.
    pub(crate) grain: Option<u64>,
}

/// Leaves a value's registers as they are.
struct Same;

impl<'c> RegisterMap<'c> for Same {
    fn register(&mut self, register: BasicValueEnum<'c>) -> Res<BasicValueEnum<'c>> {
        Ok(register)
    }

    fn is_elsewhere(&self) -> bool {
        false
    }
}

/// A layer of which parts can be functions of their own.
pub(crate) trait Ranges<'c, 'u>: Flow<'c, 'u>
where
    'c: 'u,
{
    fn values(&self) -> &Values<'c, 'u>;

    /// Another function of the unit, for a part of what this one does. Its first parameters are the run and a region.
    fn outlined(&self, what: &str, params: &[BasicTypeEnum<'c>]) -> Res<Self>;

    /// Emits `body` for ranges of `0 .. count`: it gets where the range begins and how long it is. `take` maps the
    /// registers of what the body uses, always in the same order.
    fn in_ranges<T>(
        &mut self,
        count: IntValue<'c>,
        take: impl Fn(&mut dyn RegisterMap<'c>) -> Res<T>,
        body: impl FnOnce(&mut Self, T, IntValue<'c>, IntValue<'c>) -> Res<()>,
    ) -> Res<()> {
        let grain = self.values().parallel.map(|parallel| parallel.grain.unwrap_or(GRAIN));
        let few = |grain: u64| count.get_zero_extended_constant().is_some_and(|count| count / 2 < grain);
        let Some(grain) = grain.filter(|grain| !few(*grain)) else {
            let first = self.values().i64(0);
            return body(self, take(&mut Same)?, first, count);
        };
        let (ptr, i64) = (self.values().unit.ptr_type().into(), self.values().unit.i64_type().into());
        // As the body of a loop over builders, which there are none of.
        let mut e = self.outlined("apart", &[ptr, ptr, ptr, i64, i64])?;
        let used = take(&mut Loads::new(e.code(), e.code().pointer_param(2)?))?;
        let (first, end) = (e.code().int_param(4)?, e.code().int_param(5)?);
        let size = e.code().sub(end, first)?;
        body(&mut e, used, first, size)?;
        let function = e.code().function;
        e.finish()?;
        let mut stores = Stores::default();
        take(&mut stores)?;
        let fields: [BasicValueEnum<'c>; Loop::WORDS] = [
            address(function),
            self.values().null().into(),
            self.values().null().into(),
            stores.store(self.code())?.into(),
            self.values().null().into(),
            self.values().i64(0).into(),
            self.values().region.into(),
            count.into(),
            self.values().i64(grain as i64).into(),
            self.values().i64(RANGES as i64).into(),
            self.values().null().into(),
            self.values().i64(0).into(),
            self.values().i64(0).into(),
        ];
        let status = self.values().call_with_words("weld_parallel_for", &fields)?.1;
        self.values().pass_on(status)
    }
}
