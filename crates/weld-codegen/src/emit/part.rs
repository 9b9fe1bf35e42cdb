//! Parts of a program that are functions of their own, see [`crate::analysis::Parts`].
//!
//! ```text
//! part(run, region, env, out)    out[..] = what the bindings give, over what env has of the values around
//! ```

use inkwell::attributes::AttributeLoc;
use weld_core::ir::{Binding, Sym};
use weld_core::ty::Type;

use super::{Emitter, Res, Val, internal};
use crate::analysis::Part;
use crate::block::Flow;
use crate::values::capture::{Loads, Stores};
use crate::values::{Ranges, register_count};

impl<'c> Emitter<'c, '_> {
    /// Evaluates bindings, one after the other.
    pub(crate) fn bind_all(&mut self, bindings: &[Binding]) -> Res<()> {
        let mut rest = bindings;
        while let Some(first) = rest.first() {
            let part = self.facts.parts.beginning(first);
            let part = part.map(|part| (part, &rest[..part.count]));
            let count = match part {
                Some((part, bindings)) if self.emit_part(part, bindings)? => bindings.len(),
                _ => {
                    self.bind(first)?;
                    1
                }
            };
            rest = &rest[count..];
        }
        Ok(())
    }

    /// Evaluates a part; false if it uses what another function cannot have.
    fn emit_part(&mut self, part: &Part, bindings: &[Binding]) -> Res<bool> {
        let Some(captured) = self.captured_by(bindings)? else { return Ok(false) };
        let mut stores = Stores::default();
        for (_, value) in &captured {
            value.map_registers(&mut stores)?;
        }
        let registers: usize = part.gives.iter().map(|(_, ty)| register_count(ty)).sum();
        let out = self.alloca(16 * registers as u64, "part")?;
        let region = self.region_for_values(part.gives.iter().map(|(_, ty)| ty));
        let ptr = self.unit.ptr_type().into();
        let mut e = self.outlined("part", &[ptr, ptr, ptr])?;
        (e.parallel, e.loop_depth) = (self.parallel, self.loop_depth);
        e.fill_part(part, bindings, captured)?;
        let function = e.function;
        e.finish()?;
        let args = [self.run.into(), region.into(), stores.store(self)?.into(), out.into()];
        let status = self.b.build_call(function, &args, "")?.try_as_basic_value().basic();
        let status = status.ok_or_else(|| internal("a part without a status"))?.into_int_value();
        self.pass_on(status)?;
        for (sym, ty, at) in places(&part.gives) {
            let value = self.load_changing(ty, self.offset(out, at)?)?;
            self.vars.insert(sym, value);
        }
        Ok(true)
    }

    /// The values that bindings use of those around, if another function can have them all.
    fn captured_by(&mut self, bindings: &[Binding]) -> Res<Option<Vec<(Sym, Val<'c>)>>> {
        let mut free: Vec<Sym> = bindings.iter().flat_map(|binding| binding.value.free_vars()).collect();
        free.sort_unstable();
        free.dedup();
        free.retain(|sym| bindings.iter().all(|binding| binding.sym != *sym));
        for sym in &free {
            // What is loaded where it is used is loaded here.
            if let Some(value) = self.vars.get(sym).cloned() {
                let value = self.force(value)?;
                self.vars.insert(*sym, value);
            }
        }
        Ok(self.portable(free))
    }

    /// The body of the function.
    fn fill_part(&mut self, part: &Part, bindings: &[Binding], captured: Vec<(Sym, Val<'c>)>) -> Res<()> {
        // Inlined again it would be as before.
        self.unit.attribute(self.function, AttributeLoc::Function, "noinline", 0);
        let mut loads = Loads::of_caller(self, self.pointer_param(2)?);
        let vars = captured.into_iter().map(|(sym, value)| Ok((sym, value.map_registers(&mut loads)?)));
        let vars = vars.collect::<Res<Vec<_>>>()?;
        self.vars.extend(vars);
        let out = self.pointer_param(3)?;
        self.enter_scratch(part.gives.iter().map(|(_, ty)| ty.clone()).collect())?;
        bindings.iter().try_for_each(|binding| self.bind(binding))?;
        for (sym, ty, at) in places(&part.gives) {
            let value =
                self.vars.get(&sym).cloned().ok_or_else(|| internal("a part that does not bind what it gives"))?;
            self.store_registers(ty, self.offset(out, at)?, &value)?;
        }
        self.leave_scratch()
    }
}

/// Where the values that a part gives are stored.
fn places(gives: &[(Sym, Type)]) -> impl Iterator<Item = (Sym, &Type, u64)> {
    let mut next = 0;
    gives.iter().map(move |(sym, ty)| {
        let at = next;
        next += 16 * register_count(ty) as u64;
        (*sym, ty, at)
    })
}
