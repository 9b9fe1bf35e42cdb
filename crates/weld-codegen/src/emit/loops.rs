//! `for` loops.
//!
//! A loop runs in strips of some thousand iterations. Before each strip there is room made in its appenders, after it
//! the cancellation flag is polled; the loop inside has neither, so LLVM can vectorise it:
//!
//! ```text
//! strip:  end = min(start + STRIP, count); reserve(appenders, end - start)
//! loop:   body(i); i += 1; if i < end goto loop
//! next:   start = end; if start < count { poll; goto strip }
//! ```

use std::fmt::Display;
use std::rc::Rc;

use inkwell::IntPredicate;
use inkwell::values::{IntValue, MetadataValue};
use weld_core::diag::Span;
use weld_core::ir::{Expr, Func, Iter};
use weld_core::ty::{BuilderType, Type};

use super::prehash::Hashes;
use super::{Emitter, Filled, Handle, Parallel, Res, Val, VecVal, internal};
use crate::analysis::allocates;
use crate::analysis::loop_plan::{Inputs, LoopPlan, Params, Plain, Room};
use crate::block::Flow;
use crate::layout;
use crate::values::source::Source;

/// A loop of which iterator and builders are there.
pub(super) struct LoopSite<'a, 'c> {
    pub(super) source: &'a Source<'c>,
    /// Where its indices start, if not at zero.
    pub(super) index_base: Option<IntValue<'c>>,
    pub(super) builders: &'a Val<'c>,
    /// There is room in the builder, an appender, for all that the loop may merge.
    pub(super) has_room: bool,
    pub(super) func: &'a Func,
    pub(super) params: Params<'a>,
    pub(super) span: Span,
}

/// A loop of which the builders are ready.
struct Iterations<'a, 'c> {
    site: &'a LoopSite<'a, 'c>,
    /// Those that are filled in numbers that are known.
    appenders: Vec<Rc<Handle<'c>>>,
    /// One of which all indices were checked.
    vec_merger: Option<&'a Handle<'c>>,
}

impl<'c> Emitter<'c, '_> {
    pub(super) fn emit_for(&mut self, expr: &Expr, iter: &Iter, builder: &Expr, func: &Func) -> Res<Val<'c>> {
        let source = self.emit_iter(iter, expr.span)?;
        let builders = self.emit(builder)?;
        let strict = self.strict;
        self.strict |= expr.annotations.get("strict") == Some("true");
        // What is inside of a loop runs on the thread that runs the loop.
        let parallel = self.parallel.take();
        let grain = expr.annotations.get("grain_size").and_then(|grain| grain.parse().ok());
        let done = match parallel {
            Some(parallel) => {
                let parallel = Parallel { grain: parallel.grain.or(grain) };
                self.emit_parallel(parallel, &source, &builders, func, expr.span)?
            }
            None => false,
        };
        if !done {
            self.run_loop(&source, &builders, func, expr.span)?;
        }
        self.parallel = parallel;
        self.strict = strict;
        Ok(builders)
    }

    /// The loop over a chunk of a stream; its indices go on from `counted`. Gives how many iterations there were.
    pub(crate) fn emit_stream_loop(
        &mut self,
        iter: &Iter,
        builders: &Val<'c>,
        func: &Func,
        counted: IntValue<'c>,
        strict: bool,
        span: Span,
    ) -> Res<IntValue<'c>> {
        let source = self.emit_iter(iter, span)?;
        self.strict = strict;
        self.index_base = Some(counted);
        self.run_loop(&source, builders, func, span)?;
        Ok(source.count)
    }

    /// The loop itself, from its evaluated iterator.
    pub(super) fn run_loop(&mut self, source: &Source<'c>, builders: &Val<'c>, func: &Func, span: Span) -> Res<()> {
        let index_base = self.index_base.take();
        let params = Params::of(func).ok_or_else(|| internal("an update function of other than three parameters"))?;
        let plan = self.plan(source, builders, func, &params);
        self.note_plan(params.builder_ty, &plan);
        let has_room = self.make_room(&plan, source, builders, span)?;
        let site = LoopSite { source, index_base, builders, has_room, func, params, span };
        match (&plan, builders) {
            (LoopPlan::Prefilter(prefilter, plan), Val::Builder(handle)) => {
                self.emit_prefilter(prefilter, plan, &site, handle)
            }
            _ => self.emit_planned(&plan, &site),
        }
    }

    /// Makes room for all that a loop may merge into an appender, if its hint says as much: once, whichever way the
    /// loop runs.
    fn make_room(&mut self, plan: &LoopPlan<'_>, source: &Source<'c>, builders: &Val<'c>, span: Span) -> Res<bool> {
        let Val::Builder(handle) = builders else { return Ok(false) };
        if plan.merges_most() != Some(1) || handle.hint != Some(source.count) {
            return Ok(false);
        }
        self.reserve(handle, &appended(handle)?, source.count, span)?;
        Ok(true)
    }

    /// The loop as it is planned.
    pub(super) fn emit_planned(&mut self, plan: &LoopPlan<'_>, site: &LoopSite<'_, 'c>) -> Res<()> {
        match (plan, site.builders) {
            (LoopPlan::Plain(plan), _) => self.emit_plain(plan, site),
            (LoopPlan::Selection(plan), Val::Builder(handle)) => self.emit_selection(plan, site, handle),
            (LoopPlan::Magnitudes(plan), Val::Builder(handle)) => self.emit_magnitudes(plan, site, handle),
            (LoopPlan::Grouped(plan), Val::Builder(handle)) => self.emit_grouped(plan, site, handle),
            _ => Err(internal("a plan for one builder, of a loop with several")),
        }
    }

    /// Keeps a plan's line for those who ask.
    pub(super) fn note_plan(&self, builders: &Type, plan: &dyn Display) {
        if let Some(loops) = &self.unit.loops {
            let function = self.function.get_name().to_string_lossy().into_owned();
            let line = format!("{}{builders}  {plan}", "  ".repeat(self.loop_depth as usize));
            loops.borrow_mut().push((function, line));
        }
    }

    fn plan<'e>(&self, source: &Source<'c>, builders: &Val<'c>, func: &'e Func, params: &Params<'e>) -> LoopPlan<'e> {
        let chunk = source.whole_vector().and_then(VecVal::stored);
        let inputs = Inputs {
            machine: &self.unit.machine,
            chunk: chunk.as_deref(),
            chunk_of: &|sym| self.vars.get(&sym)?.vec().ok()?.stored(),
            copies_bytes: copies_bytes(builders),
            is_buffered: matches!(builders, Val::Builder(handle) if self.buffer.is_some_and(|b| b.state == handle.state)),
            disabled: &self.facts.disabled,
        };
        LoopPlan::of(func, params, &inputs)
    }

    /// A loop that runs one iteration after the other.
    fn emit_plain(&mut self, plan: &Plain<'_>, site: &LoopSite<'_, 'c>) -> Res<()> {
        let mut appenders = Vec::new();
        if plan.room.is_some() {
            collect_appenders(site.builders, &mut appenders);
        }
        if let Some(room) = plan.room.filter(|_| !site.has_room) {
            self.reserve_all(&appenders, site.source.count, room, site.span)?;
        }
        let vec_merger = self.checked_vec_merger(plan, site)?;
        let iterations = Iterations { site, appenders, vec_merger };
        let (Some(buffered), Val::Builder(handle)) = (plan.buffered, site.builders) else {
            return self.run_strips(plan, &iterations);
        };
        let buffer = self.start_buffer(buffered, handle, site.span)?;
        let around = self.buffer.replace(buffer);
        self.run_strips(plan, &iterations)?;
        self.buffer = around;
        self.merge_collected(buffer)
    }

    /// The strips of a loop of which the builders are ready.
    fn run_strips(&mut self, plan: &Plain<'_>, iterations: &Iterations<'_, 'c>) -> Res<()> {
        let LoopSite { source, builders, span, .. } = *iterations.site;
        let (first, count) = (self.i64(0), source.count);
        let hashes = plan.hashed.as_ref().map(|plan| self.hashes(plan, builders)).transpose()?;
        match count.get_zero_extended_constant() {
            Some(0) => return Ok(()),
            Some(known) if known <= u64::from(plan.strip) => {
                self.run_strip(plan, iterations, hashes.as_ref(), (first, count))?;
                return Ok(());
            }
            _ => {}
        }
        let (head, again, done) = (self.new_block("strip"), self.new_block("again"), self.new_block("done"));
        let from = self.current_block()?;
        let some = self.cmp(IntPredicate::ULT, first, count)?;
        self.branch_if(some, head, done)?;

        self.at(head);
        let start = self.b.build_phi(self.unit.i64_type(), "start")?;
        start.add_incoming(&[(&first, from)]);
        let start_value = start.as_basic_value().into_int_value();
        let left = self.sub(count, start_value)?;
        let size = self.umin(left, self.i64(plan.strip.into()))?;
        let end = self.run_strip(plan, iterations, hashes.as_ref(), (start_value, size))?;
        let more = self.cmp(IntPredicate::ULT, end, count)?;
        self.branch_if(more, again, done)?;
        self.at(again);
        self.poll_cancel(span)?;
        start.add_incoming(&[(&end, self.current_block()?)]);
        self.branch(head)?;
        self.at(done);
        Ok(())
    }

    /// So many iterations, one at least; gives the index after the last.
    fn run_strip(
        &mut self,
        plan: &Plain<'_>,
        iterations: &Iterations<'_, 'c>,
        hashes: Option<&Hashes<'c, '_>>,
        (start, size): (IntValue<'c>, IntValue<'c>),
    ) -> Res<IntValue<'c>> {
        let (looping, next) = (self.new_block("loop"), self.new_block("next"));
        let end = self.add_nw(start, size)?;
        if !iterations.site.has_room {
            self.reserve_strip(plan, &iterations.appenders, size, iterations.site.span)?;
        }
        let hashed = match hashes {
            Some(hashes) => Some((hashes, self.hash_ahead(hashes, iterations.site, (start, end))?)),
            None => None,
        };
        let from = self.current_block()?;
        self.branch(looping)?;

        self.at(looping);
        let i = self.b.build_phi(self.unit.i64_type(), "i")?;
        i.add_incoming(&[(&start, from)]);
        let index = i.as_basic_value().into_int_value();
        self.hashed = match hashed {
            Some((hashes, done)) => Some(self.hashed(hashes, done, start, index)?),
            None => None,
        };
        self.emit_filling(plan, iterations, index)?;
        self.hashed = None;
        let incremented = self.add_nw(index, self.i64(1))?;
        i.add_incoming(&[(&incremented, self.current_block()?)]);
        let more = self.cmp(IntPredicate::ULT, incremented, end)?;
        let back = self.branch_if(more, looping, next)?;
        if plan.is_scalar {
            self.mark_scalar(back)?;
        }
        self.at(next);
        Ok(end)
    }

    /// One iteration, with its stores into the columns of appenders told apart from all else.
    fn emit_filling(&mut self, plan: &Plain<'_>, iterations: &Iterations<'_, 'c>, index: IntValue<'c>) -> Res<()> {
        let Iterations { site, appenders, vec_merger } = iterations;
        let was_reserved: Vec<bool> = appenders.iter().map(|handle| handle.reserved.get()).collect();
        appenders.iter().for_each(|handle| handle.reserved.set(true));
        let around = self.fill(appenders)?;
        self.emit_iteration(plan, site, index, *vec_merger)?;
        self.unread = around;
        for (handle, was) in appenders.iter().zip(was_reserved) {
            handle.reserved.set(was);
            handle.filled.replace(Rc::default());
        }
        Ok(())
    }

    /// Room for a strip, where there is none for the whole loop.
    fn reserve_strip(
        &mut self,
        plan: &Plain<'_>,
        appenders: &[Rc<Handle<'c>>],
        size: IntValue<'c>,
        span: Span,
    ) -> Res<()> {
        let Some(Room { most, always: false }) = plan.room else { return Ok(()) };
        for handle in appenders {
            let extra = self.mul(size, self.i64(most as i64))?;
            self.reserve(handle, &appended(handle)?, extra, span)?;
        }
        Ok(())
    }

    /// The vecmerger into which every iteration merges at its own index: that all of them lie in it is checked here,
    /// and not again.
    fn checked_vec_merger<'b>(&mut self, plan: &Plain<'_>, site: &LoopSite<'b, 'c>) -> Res<Option<&'b Handle<'c>>> {
        let (Some(span), Val::Builder(handle)) = (plan.checked_index, site.builders) else { return Ok(None) };
        let count = site.source.count;
        let range = match site.index_base {
            Some(base) => (base, self.add(base, count)?),
            None => (self.i64(0), count),
        };
        self.check_vec_merger(handle, range, span)?;
        Ok(Some(handle))
    }

    /// One iteration: that of `index`.
    fn emit_iteration(
        &mut self,
        plan: &Plain<'_>,
        site: &LoopSite<'_, 'c>,
        index: IntValue<'c>,
        vec_merger: Option<&Handle<'c>>,
    ) -> Res<()> {
        let LoopSite { source, builders, func, params, .. } = site;
        let demand = self.facts.demands.get(&params.element).cloned().unwrap_or_default();
        self.vars.insert(params.builder, (*builders).clone());
        let number = match site.index_base {
            Some(base) => self.add(base, index)?,
            None => index,
        };
        vec_merger.inspect(|handle| handle.inside.set(Some(number)));
        self.vars.insert(params.index, Val::int(number));
        self.loop_depth += 1;
        let escaping = escaping_types(params.builder_ty);
        self.with_scratch(escaping, &func.body, |e| {
            e.emit_prefetches(&plan.prefetches, source, params.element, index)?;
            let element = e.source_element(source, index, &demand)?;
            e.vars.insert(params.element, element);
            let appends = plan.appends.iter().map(|append| std::ptr::from_ref(append.at)).collect();
            let around = std::mem::replace(&mut e.appends, appends);
            let result = e.emit(&func.body)?;
            e.appends = around;
            e.settle(params.builder_ty, &result, builders)
        })?;
        self.loop_depth -= 1;
        vec_merger.inspect(|handle| handle.inside.set(None));
        Ok(())
    }

    /// Tells stores into the columns of appenders apart from each other and from all loads. What was not to be read
    /// before.
    fn fill(&mut self, appenders: &[Rc<Handle<'c>>]) -> Res<Option<MetadataValue<'c>>> {
        let around = self.unread;
        let mut counts = Vec::with_capacity(appenders.len());
        for handle in appenders {
            counts.push(layout::columns(&appended(handle)?).len());
        }
        if !appenders.is_empty() {
            let Filled { columns, all } = self.unit.filled_columns(counts.iter().sum());
            let mut columns = &columns[..];
            for (handle, count) in appenders.iter().zip(counts) {
                let (own, rest) = columns.split_at(count);
                handle.filled.replace(own.into());
                columns = rest;
            }
            self.unread = Some(all);
        }
        Ok(around)
    }

    /// Room for a whole loop that always fills its appenders equally, or as much as their hints say of it.
    fn reserve_all(&mut self, appenders: &[Rc<Handle<'c>>], count: IntValue<'c>, room: Room, span: Span) -> Res<()> {
        for handle in appenders {
            let total = self.mul_sat(count, room.most)?;
            let extra = match (room.always, handle.hint) {
                (true, _) => total,
                // A negative hint is a large unsigned number: the loop's count bounds it.
                (false, Some(hint)) => self.umin(hint, total)?,
                (false, None) => continue,
            };
            self.reserve(handle, &appended(handle)?, extra, span)?;
        }
        Ok(())
    }

    /// `count * times`, or the largest number.
    pub(super) fn mul_sat(&mut self, count: IntValue<'c>, times: u64) -> Res<IntValue<'c>> {
        if times == 1 {
            return Ok(count);
        }
        let i64 = self.unit.i64_type().into();
        let args = [count.into(), self.i64(times as i64).into()];
        let pair = self.intrinsic("llvm.umul.with.overflow", &[i64], &args)?.into_struct_value();
        let product = self.b.build_extract_value(pair, 0, "")?.into_int_value();
        let overflow = self.b.build_extract_value(pair, 1, "")?.into_int_value();
        self.choose_int(overflow, self.i64(-1), product)
    }

    /// The builders that an update function returns become those of the loop: usually they are the same.
    fn settle(&mut self, ty: &Type, result: &Val<'c>, builders: &Val<'c>) -> Res<()> {
        match (ty, result, builders) {
            (Type::Struct(fields), result, builders) => {
                for (i, field) in fields.iter().enumerate() {
                    self.settle(field, &result.field(i)?, &builders.field(i)?)?;
                }
                Ok(())
            }
            (Type::Builder(builder), Val::Builder(from), Val::Builder(to)) => {
                if Rc::ptr_eq(from, to) {
                    Ok(())
                } else {
                    self.copy_state(builder, from.state, to.state)
                }
            }
            _ => Err(internal("an update function that returns no builder")),
        }
    }

    /// Emits one iteration whose temporaries are freed at its end, except those of types that may leave it.
    pub(super) fn with_scratch<T>(
        &mut self,
        escaping: Vec<Type>,
        body: &Expr,
        emit: impl FnOnce(&mut Self) -> Res<T>,
    ) -> Res<T> {
        if !allocates(body) {
            return emit(self);
        }
        self.enter_scratch(escaping)?;
        let value = emit(self)?;
        self.leave_scratch()?;
        Ok(value)
    }
}

fn collect_appenders<'c>(builders: &Val<'c>, out: &mut Vec<Rc<Handle<'c>>>) {
    match builders {
        Val::Struct(fields) => fields.iter().for_each(|field| collect_appenders(field, out)),
        Val::Builder(handle) if matches!(handle.ty, BuilderType::Appender(_)) => out.push(handle.clone()),
        _ => {}
    }
}

/// Whether a builder copies the strings that it gets.
fn copies_bytes(builders: &Val<'_>) -> bool {
    match builders {
        Val::Struct(fields) => fields.iter().any(copies_bytes),
        Val::Builder(handle) => handle.copies_bytes,
        _ => false,
    }
}

fn appended(handle: &Handle<'_>) -> Res<Type> {
    match &handle.ty {
        BuilderType::Appender(element) => Ok((**element).clone()),
        _ => Err(internal("room in a builder that is no appender")),
    }
}

/// Types of which values leave an iteration through the builders by reference. Tables copy the bytes of their keys and
/// values; other vectors in them are kept as they are.
fn escaping_types(builders: &Type) -> Vec<Type> {
    match builders {
        Type::Struct(fields) => fields.iter().flat_map(escaping_types).collect(),
        Type::Builder(builder) => vec![builder.merge_type()],
        other => vec![other.clone()],
    }
}
