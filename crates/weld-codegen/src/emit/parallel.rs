//! Loops that several threads share: the outermost ones of a program.
//!
//! The loop becomes three functions for [`weld_runtime::parallel`], which cuts its iterations into ranges:
//!
//! ```text
//! for(v, b, |b, i, x| ..)
//!   body(state, first, end)    the loop over a part of the iterator, on the builders in `state`
//!   start(state, first)        builders to be combined with those of the ranges before: they hold nothing
//!   combine(state, other)      merges those of the next range into those of the ranges before
//! ```
//!
//! What the functions use of the values around goes through an environment (`capture`). How the ranges fill each
//! builder, and whether the loop has ranges at all, is its [`Sharing`]. There is nothing to combine where each range
//! has its own place in what all of them fill.

use std::rc::Rc;

use inkwell::values::{BasicValueEnum, FunctionValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ir::{Expr, Func, Sym};
use weld_core::ty::{BuilderType, Type};
use weld_runtime::concat::Appender;
use weld_runtime::parallel::Loop;

use super::{Emitter, Handle, Res, Val, internal};
use crate::analysis::GRAIN;
use crate::analysis::loop_plan::{Filling, Shareable, Sharing};
use crate::block::Flow;
use crate::block::address;
use crate::layout;
use crate::values::capture::{Loads, Stores};
use crate::values::parallel_fill::RANGES;
use crate::values::source::Source;
use crate::values::{Parallel, Ranges, contains};

/// A builder of the loop and its place in the state.
struct Slot<'c> {
    handle: Rc<Handle<'c>>,
    offset: u64,
    filled: Filling,
}

/// What the functions are made from.
struct Outlined<'a, 'c> {
    source: &'a Source<'c>,
    slots: Vec<Slot<'c>>,
    captured: Vec<(Sym, Val<'c>)>,
    func: &'a Func,
    span: Span,
}

impl<'c> Emitter<'c, '_> {
    /// Emits a loop for several threads; false if it is to run on this one.
    pub(super) fn emit_parallel(
        &mut self,
        parallel: Parallel,
        source: &Source<'c>,
        builders: &Val<'c>,
        func: &Func,
        span: Span,
    ) -> Res<bool> {
        let Some((sharing, slots)) = self.shared_slots(parallel, source, builders, func) else { return Ok(false) };
        let Some(captured) = self.captured(&func.body, &func.params) else { return Ok(false) };
        if let [(_, ty), ..] = &func.params[..] {
            self.note_plan(ty, &sharing);
        }
        let mut grain = match parallel.grain {
            Some(grain) => self.i64(grain as i64),
            None => self.i64(GRAIN as i64),
        };
        let mut stores = Stores::default();
        source.map_registers(&mut stores)?;
        for (_, value) in &captured {
            value.map_registers(&mut stores)?;
        }
        let outlined = Outlined { source, slots, captured, func, span };
        let body = outlined.emit_body(self)?;
        let start = outlined.emit_start(self)?;
        let combine = match outlined.slots.iter().all(|slot| slot.is_appended() || slot.filled == Filling::InPlace) {
            true => self.null().into(),
            false => address(outlined.emit_combine(self)?),
        };

        let slots = &outlined.slots;
        let state_bytes = slots.last().map_or(0, |slot| slot.offset + slot.bytes());
        let state = self.alloca(state_bytes, "builders")?;
        for slot in slots {
            let at = self.share(slot, source, state, span)?;
            if matches!(slot.handle.ty, BuilderType::VecMerger { .. })
                && slot.filled == Filling::Apart
                && parallel.grain.is_none()
            {
                // A range begins and ends with work for each element of the vector.
                let len = self.load_i64(at)?;
                grain = self.add(grain, len)?;
            }
        }
        if parallel.grain.is_none() {
            let work = self.work_of(func)?;
            grain = self.b.build_int_unsigned_div(grain, work, "")?;
        }
        let ranges = if slots.iter().any(Slot::is_costly) { 1 } else { RANGES };
        let region = self.region_for_all(slots);
        let appended: Vec<&Slot<'c>> = slots.iter().filter(|slot| slot.is_appended()).collect();
        let appenders = self.describe_appenders(&appended)?;
        let out_of_memory = match slots.iter().any(|slot| slot.filled == Filling::InPlace) {
            true => self.noted_site(span),
            false => 0,
        };
        let fields: [BasicValueEnum<'c>; Loop::WORDS] = [
            address(body),
            address(start),
            combine,
            stores.store(self)?.into(),
            state.into(),
            self.i64(state_bytes as i64).into(),
            region.into(),
            source.count.into(),
            grain.into(),
            self.i64(ranges as i64).into(),
            appenders.into(),
            self.i64(appended.len() as i64).into(),
            self.i64(out_of_memory).into(),
        ];
        let (_, status) = self.call_with_words("weld_parallel_for", &fields)?;
        self.pass_on(status)?;
        slots.iter().try_for_each(|slot| self.take_back(slot, state))?;
        Ok(true)
    }

    /// The builders of a loop that several threads are to share, and how each is filled; none if it is to run on this
    /// one.
    fn shared_slots(
        &self,
        parallel: Parallel,
        source: &Source<'c>,
        builders: &Val<'c>,
        func: &Func,
    ) -> Option<(Sharing, Vec<Slot<'c>>)> {
        let known = Shareable {
            is_range: source.is_range(),
            count: source.count.get_zero_extended_constant(),
            grain: parallel.grain,
            strict: self.strict,
        };
        let sharing = Sharing::of(func, known)?;
        let mut slots = Vec::new();
        if !collect_slots(builders, &mut slots) {
            return None;
        }
        for (slot, filled) in slots.iter_mut().zip(&sharing.0) {
            slot.filled = *filled;
        }
        Some((sharing, slots))
    }

    /// Puts a builder into the state that the loop's functions get; gives its address there.
    fn share(
        &mut self,
        slot: &Slot<'c>,
        source: &Source<'c>,
        state: PointerValue<'c>,
        span: Span,
    ) -> Res<PointerValue<'c>> {
        if let (Filling::InOrder(each), BuilderType::Appender(element)) = (slot.filled, &slot.handle.ty) {
            let total = self.mul_sat(source.count, each)?;
            self.reserve(&slot.handle, element, total, span)?;
        }
        let at = slot.at(self, state)?;
        self.copy_state(&slot.handle.ty, slot.handle.state, at)?;
        if matches!(slot.filled, Filling::InOrder(_)) {
            // No range looks for more room than there is.
            self.store(self.offset(at, 8)?, self.i64(i64::MAX))?;
        }
        Ok(at)
    }

    /// Takes a builder out of that state when the loop has run.
    fn take_back(&mut self, slot: &Slot<'c>, state: PointerValue<'c>) -> Res<()> {
        let at = slot.at(self, state)?;
        match slot.filled {
            Filling::InOrder(_) => {
                self.store(slot.handle.state, self.load_i64(at)?)?;
                Ok(())
            }
            _ => self.copy_state(&slot.handle.ty, at, slot.handle.state),
        }
    }

    /// An array of [`weld_runtime::concat::Appender`].
    fn describe_appenders(&self, slots: &[&Slot<'c>]) -> Res<PointerValue<'c>> {
        let at = self.alloca(8 * (Appender::WORDS * slots.len()) as u64, "appenders")?;
        for (i, slot) in slots.iter().enumerate() {
            let BuilderType::Appender(element) = &slot.handle.ty else { continue };
            let (columns, sizes) = self.column_sizes(element);
            let words: [BasicValueEnum<'c>; Appender::WORDS] =
                [self.i64(slot.offset as i64).into(), self.i64(columns as i64).into(), sizes.into()];
            for (j, word) in words.into_iter().enumerate() {
                self.store(self.offset(at, 8 * (Appender::WORDS * i + j) as u64)?, word)?;
            }
        }
        Ok(at)
    }

    /// The values that an expression of these parameters uses, if another function can have them all.
    pub(super) fn captured(&self, body: &Expr, params: &[(Sym, Type)]) -> Option<Vec<(Sym, Val<'c>)>> {
        let mut free: Vec<Sym> = body.free_vars().into_iter().collect();
        free.retain(|sym| params.iter().all(|(param, _)| param != sym));
        free.sort_unstable();
        self.portable(free)
    }

    /// The values of these names, if another function can have them all.
    pub(super) fn portable(&self, names: Vec<Sym>) -> Option<Vec<(Sym, Val<'c>)>> {
        let values = names.into_iter().map(|sym| Some((sym, self.vars.get(&sym)?.clone())));
        let values: Vec<_> = values.collect::<Option<_>>()?;
        values.iter().all(|(_, value)| is_portable(value)).then_some(values)
    }

    /// The innermost memory that nothing which goes into these builders can leave.
    fn region_for_all(&mut self, slots: &[Slot<'c>]) -> PointerValue<'c> {
        let types = slots.iter().flat_map(|slot| [slot.handle.ty.merge_type(), slot.handle.ty.result_type()]);
        self.region_for_values(types.collect::<Vec<_>>().iter())
    }

    /// The innermost memory that no values of these types can leave.
    pub(super) fn region_for_values<'t>(&mut self, types: impl Iterator<Item = &'t Type>) -> PointerValue<'c> {
        let mut parts = Vec::new();
        types.for_each(|ty| collect_parts(ty, &mut parts));
        self.innermost_region(|outer| parts.iter().any(|part| contains(outer, part)))
    }
}

impl<'c> Outlined<'_, 'c> {
    /// `body(run, region, env, state, first, end)`.
    fn emit_body(&self, outer: &Emitter<'c, '_>) -> Res<FunctionValue<'c>> {
        let (ptr, i64) = (outer.unit.ptr_type().into(), outer.unit.i64_type().into());
        let mut e = outer.outlined("body", &[ptr, ptr, ptr, i64, i64])?;
        let (env, state) = (e.pointer_param(2)?, e.pointer_param(3)?);
        let (first, end) = (e.int_param(4)?, e.int_param(5)?);
        let mut loads = Loads::new(&e, env);
        let source = self.source.map_registers(&mut loads)?;
        let mut vars = Vec::with_capacity(self.captured.len());
        for (sym, value) in &self.captured {
            vars.push((*sym, value.map_registers(&mut loads)?));
        }
        e.vars.extend(vars);
        let handles = self.slots.iter().map(|slot| Ok(slot.handle_in(&e, slot.at(&e, state)?)));
        let handles = handles.collect::<Res<Vec<_>>>()?;
        let source = e.part_of(&source, first, end)?;
        let [(_, builder), ..] = &self.func.params[..] else { return Err(internal("a loop without a builder")) };
        let (on_stack, builders) = e.onto_stack(builder, handles)?;
        e.index_base = Some(first);
        e.run_loop(&source, &builders, self.func, self.span)?;
        e.off_stack(on_stack)?;
        let function = e.function;
        e.finish()?;
        Ok(function)
    }

    /// `start(run, region, env, origin, state, first)`.
    fn emit_start(&self, outer: &Emitter<'c, '_>) -> Res<FunctionValue<'c>> {
        let (ptr, i64) = (outer.unit.ptr_type().into(), outer.unit.i64_type().into());
        let mut e = outer.outlined("start", &[ptr, ptr, ptr, ptr, i64])?;
        let (origin, state, first) = (e.pointer_param(3)?, e.pointer_param(4)?, e.int_param(5)?);
        for slot in &self.slots {
            let (origin, at) = (slot.at(&e, origin)?, slot.at(&e, state)?);
            match slot.filled {
                Filling::InPlace => e.copy_state(&slot.handle.ty, origin, at)?,
                Filling::InOrder(each) => {
                    e.copy_state(&slot.handle.ty, origin, at)?;
                    let before = e.mul(first, e.i64(each as i64))?;
                    e.store(at, e.add_nw(e.load_i64(origin)?, before)?)?;
                }
                Filling::Apart => {
                    let handle = slot.handle_in(&e, at);
                    e.start_part(&handle, origin, self.span)?;
                }
            }
        }
        let function = e.function;
        e.finish()?;
        Ok(function)
    }

    /// `combine(run, region, env, state, other)`.
    fn emit_combine(&self, outer: &Emitter<'c, '_>) -> Res<FunctionValue<'c>> {
        let ptr = outer.unit.ptr_type().into();
        let mut e = outer.outlined("combine", &[ptr, ptr, ptr, ptr])?;
        let (state, other) = (e.pointer_param(3)?, e.pointer_param(4)?);
        for slot in &self.slots {
            let (at, other) = (slot.at(&e, state)?, slot.at(&e, other)?);
            match slot.filled {
                Filling::InPlace => {}
                Filling::Apart if slot.is_appended() => {}
                Filling::InOrder(_) => {
                    e.store(at, e.load_i64(other)?)?;
                }
                Filling::Apart => {
                    let handle = slot.handle_in(&e, at);
                    e.combine(&handle, other, self.span)?;
                }
            }
        }
        let function = e.function;
        e.finish()?;
        Ok(function)
    }
}

impl<'c> Slot<'c> {
    fn bytes(&self) -> u64 {
        layout::row(&Type::Builder(self.handle.ty.clone())).size
    }

    fn at(&self, e: &Emitter<'c, '_>, state: PointerValue<'c>) -> Res<PointerValue<'c>> {
        e.offset(state, self.offset)
    }

    /// The builder as a function has it, with its state elsewhere.
    fn handle_in(&self, e: &Emitter<'c, '_>, state: PointerValue<'c>) -> Handle<'c> {
        let copies_bytes = self.handle.copies_bytes;
        Handle { copies_bytes, ..Handle::new(self.handle.ty.clone(), state, e.region) }
    }

    /// An appender that the runtime puts together.
    fn is_appended(&self) -> bool {
        matches!(self.handle.ty, BuilderType::Appender(_)) && self.filled == Filling::Apart
    }

    /// Whether it costs much to combine: then there are as many ranges as threads.
    fn is_costly(&self) -> bool {
        let is_table = matches!(self.handle.ty, BuilderType::DictMerger { .. } | BuilderType::VecMerger { .. });
        is_table && self.filled == Filling::Apart
    }
}

/// The builders of a value in order; false if there is something else in it.
fn collect_slots<'c>(builders: &Val<'c>, slots: &mut Vec<Slot<'c>>) -> bool {
    match builders {
        Val::Struct(fields) => fields.iter().all(|field| collect_slots(field, slots)),
        Val::Builder(handle) => {
            let offset = slots.last().map_or(0, |slot| (slot.offset + slot.bytes()).next_multiple_of(16));
            slots.push(Slot { handle: handle.clone(), offset, filled: Filling::Apart });
            true
        }
        _ => false,
    }
}

fn is_portable(value: &Val<'_>) -> bool {
    match value {
        Val::Struct(fields) => fields.iter().all(is_portable),
        Val::Vec(vec) => matches!(vec.columns, super::Columns::Dense(_)),
        Val::Scalar(_) | Val::Bytes(_) | Val::Dict(_) | Val::Absent => true,
        Val::Builder(_) | Val::Deferred { .. } => false,
    }
}

/// The vectors and dictionaries in a type, itself included.
fn collect_parts(ty: &Type, parts: &mut Vec<Type>) {
    match ty {
        Type::Scalar(_) | Type::Simd(_) | Type::Builder(_) => {}
        Type::Struct(fields) => fields.iter().for_each(|field| collect_parts(field, parts)),
        Type::Vec(element) => {
            parts.push(ty.clone());
            collect_parts(element, parts);
        }
        Type::Dict(key, value) => {
            parts.push(ty.clone());
            collect_parts(key, parts);
            collect_parts(value, parts);
        }
    }
}
