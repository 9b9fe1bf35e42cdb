//! Loops of generated code that several threads share and that have no builders: each iteration writes to a place of its
//! own, which is there before the loop.
//!
//! ```text
//! for i in 0 .. n: result[i] = v[order[i]]      the end of a sort
//! for i in 0 .. n: result[i] = rows[i + 1]      the entries of a dictionary
//! ```
//!
//! Where loops may be parallel the body becomes a function for [`weld_runtime::parallel`]; elsewhere it stays where it is.

use inkwell::module::Linkage;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValueEnum, FunctionValue, IntValue, PointerValue};
use weld_runtime::parallel::Loop;

use super::capture::{Loads, RegisterMap, Stores};
use super::parallel::{GRAIN, RANGES};
use super::{Emitter, Res};

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

impl<'c> Emitter<'c, '_> {
    /// Emits `body` for ranges of `0 .. count`: it gets where the range begins and how long it is. `take` maps the registers
    /// of what the body uses, always in the same order.
    pub(super) fn in_ranges<T>(
        &mut self,
        count: IntValue<'c>,
        take: impl Fn(&mut dyn RegisterMap<'c>) -> Res<T>,
        body: impl FnOnce(&mut Emitter<'c, '_>, T, IntValue<'c>, IntValue<'c>) -> Res<()>,
    ) -> Res<()> {
        let grain = self.parallel.map(|parallel| parallel.grain.unwrap_or(GRAIN));
        let few = |grain: u64| count.get_zero_extended_constant().is_some_and(|count| count / 2 < grain);
        let Some(grain) = grain.filter(|grain| !few(*grain)) else {
            let first = self.i64(0);
            return body(self, take(&mut Same)?, first, count);
        };
        let (ptr, i64) = (self.unit.ptr_type().into(), self.unit.i64_type().into());
        // As the body of a loop over builders, which there are none of.
        let mut e = self.outlined("apart", &[ptr, ptr, ptr, i64, i64])?;
        let used = take(&mut Loads::new(&e, e.pointer_param(2)?))?;
        let (first, end) = (e.int_param(4)?, e.int_param(5)?);
        let size = e.sub(end, first)?;
        body(&mut e, used, first, size)?;
        let function = e.function;
        e.finish()?;
        let mut stores = Stores::default();
        take(&mut stores)?;
        let fields: [BasicValueEnum<'c>; Loop::WORDS] = [
            address(function),
            self.null().into(),
            self.null().into(),
            stores.store(self)?.into(),
            self.null().into(),
            self.i64(0).into(),
            self.region.into(),
            count.into(),
            self.i64(grain as i64).into(),
            self.i64(RANGES as i64).into(),
            self.null().into(),
            self.i64(0).into(),
            self.i64(0).into(),
        ];
        let status = self.call_with_words("weld_parallel_for", &fields)?.1;
        self.pass_on(status)
    }

    /// Another function of the unit, for a part of what this one does. Its first parameters are the run and a region.
    pub(super) fn outlined(&self, what: &str, params: &[BasicTypeEnum<'c>]) -> Res<Self> {
        let name = self.unit.fresh_name(&format!("weld.{what}"));
        let mut e = Emitter::new(self.unit, self.facts, &name, params, Linkage::Internal)?;
        e.region = e.pointer_param(1)?;
        e.strict = self.strict;
        e.scratch_base = self.scratch_base + self.scratch.len();
        Ok(e)
    }

    /// Calls a runtime function with the run and the address of these words; gives that address and the status.
    pub(super) fn call_with_words(
        &self,
        name: &str,
        words: &[BasicValueEnum<'c>],
    ) -> Res<(PointerValue<'c>, IntValue<'c>)> {
        let at = self.alloca(8 * words.len() as u64, "task")?;
        for (i, word) in words.iter().enumerate() {
            self.store(self.offset(at, 8 * i as u64)?, *word)?;
        }
        Ok((at, self.call_value(name, &[self.run.into(), at.into()])?.into_int_value()))
    }
}

pub(super) fn address(function: FunctionValue<'_>) -> BasicValueEnum<'_> {
    function.as_global_value().as_pointer_value().into()
}
