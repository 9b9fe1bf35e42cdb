//! The entry points of a program, and the shape of one with a stream: prelude, loop over the stream, epilogue.
//!
//! ```text
//! |s: stream[i64], k: i64|  let k2 = k * k;  let sum = result(for(s, merger[i64,+], |b,i,x| merge(b, x * k2)));  sum + k
//!                           ^ prelude (init)             ^ the loop (process)                                    ^ epilogue (finish)
//! ```
//!
//! A stream's builders start from their identities and their initial values are merged in at the end, so that the
//! states of several partitions can be combined. The state in memory is a counter of iterations, the builders' states,
//! then the values of the prelude that loop or epilogue use.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use inkwell::module::Linkage;
use inkwell::values::PointerValue;
use weld_core::diag::Span;
use weld_core::ir::{Annotations, Binding, Expr, ExprKind, Func, Iter, Names, Program, Sym};
use weld_core::ty::{BuilderType, Type};

use crate::block::Flow;
use crate::block::{Res, Unit, internal};
use crate::chunk::ColumnLayout;
use crate::emit::{Columns, Emitter, Facts, Handle, Val, VecVal};
use crate::error::CompileError;
use crate::layout;
use crate::values::register_count;
use crate::values::stream::nullable;

/// A program whose body loops over its stream once.
#[derive(Clone, Debug)]
pub(crate) struct StreamProgram {
    pub(crate) param: usize,
    prelude: Vec<Binding>,
    iter: Iter,
    func: Func,
    annotations: Annotations,
    span: Span,
    /// The builder type of the loop, a struct for several.
    builder: Type,
    /// Builders in the order of their states.
    slots: Vec<Slot>,
    /// What the loop gives, in the epilogue.
    built: Sym,
    epilogue: Expr,
    /// Values of the prelude that are used later, with their offsets in the state.
    saved: Vec<(Sym, Type, u64)>,
    pub(crate) state_bytes: u64,
}

#[derive(Clone, Debug)]
struct Slot {
    ty: BuilderType,
    /// The initial value, bound in the prelude.
    start: Option<(Sym, Type)>,
    offset: u64,
}

/// Splits a program at the loop over its stream; `None` if it has no stream.
pub(crate) fn split(program: &Program) -> Res<Option<StreamProgram>> {
    let mut streams = program.params.iter().enumerate().filter(|(_, param)| param.stream);
    let Some((param, stream)) = streams.next() else { return Ok(None) };
    let unsupported = |what: &str| CompileError::unsupported(what, program.body.span);
    if streams.next().is_some() {
        return Err(unsupported("more than one stream"));
    }
    if program.body.count_uses(stream.sym) != 1 {
        return Err(unsupported("a stream that is not used exactly once"));
    }
    let mut names = program.names.clone();
    let mut split = Splitter { stream: stream.sym, names: &mut names, prelude: Vec::new(), found: None };
    let epilogue = split.run(&program.body)?;
    let Splitter { mut prelude, found, .. } = split;
    let Some((built, iter, builder, func, annotations, span)) = found else {
        return Err(unsupported("a stream that no loop reads"));
    };
    let mut offset = 8;
    let mut slots = Vec::new();
    collect_slots(&builder, &mut prelude, &mut names, &mut slots, &mut offset)?;
    let starts = slots.iter().filter_map(|slot| slot.start.as_ref().map(|(sym, _)| *sym));
    let mut used: HashSet<Sym> = starts.collect();
    used.extend(func.body.free_vars());
    used.extend(epilogue.free_vars());
    iter.each_child(&mut |child| used.extend(child.free_vars()));
    let mut saved = Vec::new();
    for binding in prelude.iter().filter(|binding| used.contains(&binding.sym)) {
        saved.push((binding.sym, binding.value.ty.clone(), offset));
        offset += 16 * register_count(&binding.value.ty) as u64;
    }
    Ok(Some(StreamProgram {
        param,
        prelude,
        iter,
        func,
        annotations,
        span,
        builder: builder.ty.clone(),
        slots,
        built,
        epilogue,
        saved,
        state_bytes: offset,
    }))
}

type Found = (Sym, Iter, Expr, Func, Annotations, Span);

struct Splitter<'a> {
    stream: Sym,
    names: &'a mut Names,
    prelude: Vec<Binding>,
    found: Option<Found>,
}

impl Splitter<'_> {
    /// The expression with the loop replaced by a variable; what comes before the loop goes to the prelude.
    fn run(&mut self, expr: &Expr) -> Res<Expr> {
        let unsupported = || CompileError::unsupported("a stream read in a branch, a function or twice", expr.span);
        match &expr.kind {
            ExprKind::For { iter, builder, func } if self.is_over_stream(iter) => {
                let built = self.names.fresh("built");
                self.found = Some((
                    built,
                    (**iter).clone(),
                    (**builder).clone(),
                    func.clone(),
                    expr.annotations.clone(),
                    expr.span,
                ));
                Ok(Expr {
                    ty: expr.ty.clone(),
                    span: expr.span,
                    kind: ExprKind::Var(built),
                    annotations: Annotations::NONE,
                })
            }
            ExprKind::Let { bindings, body } => {
                let Some(at) = bindings.iter().position(|binding| binding.value.uses(self.stream)) else {
                    self.prelude.extend(bindings.iter().cloned());
                    return self.run(body);
                };
                self.prelude.extend(bindings[..at].iter().cloned());
                let value = self.run(&bindings[at].value)?;
                let mut rest = vec![Binding { sym: bindings[at].sym, value }];
                rest.extend(bindings[at + 1..].iter().cloned());
                let kind = ExprKind::Let { bindings: rest, body: body.clone() };
                Ok(Expr { kind, ..expr.clone() })
            }
            ExprKind::If { on_true, on_false, .. } if on_true.uses(self.stream) || on_false.uses(self.stream) => {
                Err(unsupported())
            }
            ExprKind::For { func, .. }
            | ExprKind::Iterate { step: func, .. }
            | ExprKind::Sort { compare: func, .. }
                if func.body.uses(self.stream) =>
            {
                Err(unsupported())
            }
            _ => {
                let mut copy = expr.clone();
                let mut result = Err(unsupported());
                let stream = self.stream;
                copy.each_child_mut(&mut |child| {
                    if child.uses(stream) {
                        result = self.run(child).map(|new| *child = new);
                    }
                });
                result.map(|()| copy)
            }
        }
    }

    fn is_over_stream(&self, iter: &Iter) -> bool {
        match iter {
            Iter::Vector(data) | Iter::Chunks { data, .. } => {
                matches!(data.kind, ExprKind::Var(sym) if sym == self.stream)
            }
            _ => false,
        }
    }
}

/// The builders of the loop, which must be made on the spot.
fn collect_slots(
    builder: &Expr,
    prelude: &mut Vec<Binding>,
    names: &mut Names,
    slots: &mut Vec<Slot>,
    offset: &mut u64,
) -> Res<()> {
    match (&builder.kind, &builder.ty) {
        (ExprKind::Struct(parts), _) => {
            parts.iter().try_for_each(|part| collect_slots(part, prelude, names, slots, offset))
        }
        (ExprKind::Var(sym), _) => {
            let Some(at) = prelude.iter().position(|binding| binding.sym == *sym) else {
                return Err(CompileError::unsupported("a stream's builder from elsewhere", builder.span));
            };
            let made = prelude.remove(at).value;
            collect_slots(&made, prelude, names, slots, offset)
        }
        (ExprKind::NewBuilder { arg }, Type::Builder(ty)) => {
            // A stream's length is not known, so a hint says nothing.
            let start = match arg {
                Some(arg) if !matches!(ty, BuilderType::Appender(_)) => {
                    let sym = names.fresh("start");
                    prelude.push(Binding { sym, value: (**arg).clone() });
                    Some((sym, arg.ty.clone()))
                }
                _ => None,
            };
            // What is kept of a chunk is copied, which tables are not.
            if layout::has_dicts_of_bytes(&ty.merge_type()) {
                let what = "dictionaries with strings that a stream's builder keeps";
                return Err(CompileError::unsupported(what, builder.span));
            }
            slots.push(Slot { ty: ty.clone(), start, offset: *offset });
            *offset += layout::row(&builder.ty).size.next_multiple_of(8);
            Ok(())
        }
        _ => Err(CompileError::unsupported("a stream's builder that is filled before the loop", builder.span)),
    }
}

impl StreamProgram {
    /// The element type of an appender and where its state is, if its rows may be taken out as they come: rows of
    /// scalars and strings, which need nothing of the run's memory but their columns. Either the program's result is
    /// what the loop appended, or it ends with the rows of a numberer, of which nothing else reads.
    pub(crate) fn rows(&self) -> Option<(Type, u64)> {
        let [Slot { ty, offset, .. }] = &self.slots[..] else { return None };
        let is_built = |e: &Expr| matches!(e.kind, ExprKind::Var(sym) if sym == self.built);
        let (element, offset) = match (ty, &self.epilogue.kind) {
            (BuilderType::Appender(element), ExprKind::Result(of)) if is_built(of) => ((**element).clone(), *offset),
            (BuilderType::Numberer { .. }, _) if ends_with_rows(&self.epilogue, self.built) => match ty.parts()?.1 {
                BuilderType::Appender(element) => ((*element).clone(), *offset + layout::NUMBERED_ROWS),
                _ => return None,
            },
            _ => return None,
        };
        layout::columns(&element)
            .iter()
            .all(|ty| ty.as_scalar().is_some() || ty.is_bytes())
            .then_some((element, offset))
    }

    /// What the entry points are made of.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &Expr> {
        self.prelude.iter().map(|binding| &binding.value).chain([&*self.func.body, &self.epilogue])
    }

    /// Writes the layout of the state, which all code of the program shares.
    pub(crate) fn describe(&self, out: &mut impl Hasher) {
        (self.param, self.state_bytes, &self.builder, self.slots.len(), self.saved.len()).hash(out);
        for slot in &self.slots {
            (&slot.ty, slot.start.as_ref().map(|(_, ty)| ty), slot.offset).hash(out);
        }
        for (_, ty, offset) in &self.saved {
            (ty, offset).hash(out);
        }
    }

    /// Whether prelude or epilogue do more than a loop over the entries of a table, which are few beside the rows.
    pub(crate) fn ends_loop(&self) -> bool {
        let loops = |expr: &Expr| {
            let mut found = false;
            expr.walk(&mut |part| match &part.kind {
                ExprKind::For { iter, .. } => {
                    found |= !matches!(&**iter, Iter::Vector(data) if matches!(data.kind, ExprKind::ToVec(_)));
                }
                ExprKind::Iterate { .. } | ExprKind::Sort { .. } => found = true,
                _ => {}
            });
            found
        };
        loops(&self.epilogue) || self.prelude.iter().any(|binding| loops(&binding.value))
    }

    /// Whether chunks of these layouts fit the stream's element type.
    pub(crate) fn accepts(&self, element: &Type, layouts: &[ColumnLayout]) -> bool {
        let one = [element.clone()];
        let fields = match element {
            Type::Struct(fields) => &fields[..],
            _ => &one[..],
        };
        fields.len() == layouts.len()
            && fields.iter().zip(layouts).all(|(field, layout)| !layout.validity || nullable(field).is_some())
    }

    fn handle<'c>(&self, e: &Emitter<'c, '_>, slot: &Slot, state: PointerValue<'c>) -> Handle<'c> {
        let copies_bytes = match &slot.ty {
            BuilderType::Appender(element) => self.rows().is_none() && layout::has_bytes(element),
            // Tables outlive the chunks that their keys and values come from.
            BuilderType::DictMerger { key, .. } | BuilderType::Numberer { key, .. } => layout::has_bytes(key),
            BuilderType::GroupBuilder { key, value } => layout::has_bytes(key) || layout::has_bytes(value),
            BuilderType::Merger { .. } | BuilderType::VecMerger { .. } => false,
        };
        let copies_rows = match &slot.ty {
            BuilderType::Numberer { row, .. } => self.rows().is_none() && layout::has_bytes(row),
            _ => false,
        };
        Handle { copies_bytes, copies_rows, ..Handle::new(slot.ty.clone(), state, e.region) }
    }

    fn load_saved<'c>(&self, e: &mut Emitter<'c, '_>, state: PointerValue<'c>) -> Res<()> {
        for (sym, ty, offset) in &self.saved {
            let value = e.load_registers(ty, e.offset(state, *offset)?)?;
            e.vars.insert(*sym, value);
        }
        Ok(())
    }
}

/// Whether an epilogue is a struct of which the last field is the rows of the numberer `built`, which are read nowhere
/// else.
fn ends_with_rows(epilogue: &Expr, built: Sym) -> bool {
    let (bindings, body) = match &epilogue.kind {
        ExprKind::Let { bindings, body } => (&bindings[..], &**body),
        _ => (&[][..], epilogue),
    };
    let is_result =
        |e: &Expr| matches!(&e.kind, ExprKind::Result(of) if matches!(of.kind, ExprKind::Var(sym) if sym == built));
    let Some(numbered) = bindings.iter().find(|binding| is_result(&binding.value)).map(|binding| binding.sym) else {
        return false;
    };
    let ExprKind::Struct(fields) = &body.kind else { return false };
    let is_rows = |e: &Expr| matches!(&e.kind, ExprKind::Field(of, 1) if matches!(of.kind, ExprKind::Var(sym) if sym == numbered));
    let mut groups = 0;
    epilogue.walk(&mut |e| {
        let reads_groups =
            matches!(&e.kind, ExprKind::Field(of, 0) if matches!(of.kind, ExprKind::Var(sym) if sym == numbered));
        groups += usize::from(reads_groups);
    });
    fields.last().is_some_and(is_rows)
        && epilogue.count_uses(built) == 1
        && bindings.iter().map(|binding| binding.value.count_uses(numbered)).sum::<usize>() + body.count_uses(numbered)
            == groups + 1
}

/// Loads the arguments, all but the stream.
fn load_args<'c>(e: &mut Emitter<'c, '_>, program: &Program, args: PointerValue<'c>, streams: bool) -> Res<()> {
    let mut word = 0;
    for param in program.params.iter().filter(|param| streams || !param.stream) {
        let value = match param.known {
            None => e.load_flat(&param.ty, args, &mut word)?,
            Some(known) => e.load_known(&param.ty, known, args, &mut word)?,
        };
        e.vars.insert(param.sym, value);
    }
    Ok(())
}

/// `run(run, args, out)`: the whole program at once.
pub(crate) fn emit_run(unit: &Unit<'_>, facts: &Facts, name: &str, program: &Program) -> Res<()> {
    let ptr = unit.ptr_type().into();
    let mut e = Emitter::new(unit, facts, name, &[ptr, ptr], Linkage::External)?;
    e.parallel = facts.parallel;
    let (args, out) = (e.pointer_param(1)?, e.pointer_param(2)?);
    load_args(&mut e, program, args, true)?;
    let value = e.emit(&program.body)?;
    e.store_flat(&program.body.ty, out, &mut 0, &value)?;
    e.finish()
}

/// `init(run, args, state)`: the prelude, and empty builders.
pub(crate) fn emit_init(
    unit: &Unit<'_>,
    facts: &Facts,
    name: &str,
    program: &Program,
    stream: &StreamProgram,
) -> Res<()> {
    let ptr = unit.ptr_type().into();
    let mut e = Emitter::new(unit, facts, name, &[ptr, ptr], Linkage::External)?;
    let (args, state) = (e.pointer_param(1)?, e.pointer_param(2)?);
    load_args(&mut e, program, args, false)?;
    for binding in &stream.prelude {
        e.bind_whole(binding)?;
    }
    e.store(state, e.i64(0))?;
    for (sym, ty, offset) in &stream.saved {
        let value = e.vars.get(sym).cloned().ok_or_else(|| internal("a saved value without a binding"))?;
        e.store_registers(ty, e.offset(state, *offset)?, &value)?;
    }
    for slot in &stream.slots {
        let handle = stream.handle(&e, slot, e.offset(state, slot.offset)?);
        match (&slot.ty, &slot.start) {
            (BuilderType::VecMerger { value, op }, Some((sym, _))) => {
                let start = e.vars.get(sym).cloned().ok_or_else(|| internal("a vecmerger without its vector"))?;
                e.start_vec_merger_empty(&handle, value, op, &start, stream.span)?;
            }
            _ => e.start(&handle, None, false, stream.span)?,
        }
    }
    e.finish()
}

/// `process(run, args, state, rows, columns)`: the loop over one chunk.
pub(crate) fn emit_process(
    unit: &Unit<'_>,
    facts: &Facts,
    name: &str,
    program: &Program,
    stream: &StreamProgram,
    layouts: &[ColumnLayout],
) -> Res<()> {
    let ptr = unit.ptr_type().into();
    let mut e = Emitter::new(unit, facts, name, &[ptr, ptr, unit.i64_type().into(), ptr], Linkage::External)?;
    let (args, state, columns) = (e.pointer_param(1)?, e.pointer_param(2)?, e.pointer_param(4)?);
    let rows = e.int_param(3)?;
    load_args(&mut e, program, args, false)?;
    stream.load_saved(&mut e, state)?;
    let columns = e.stream_columns(columns, layouts)?.into();
    let data = VecVal { len: rows, columns: Columns::Stream { columns, base: e.i64(0) }, input: true };
    e.vars.insert(program.params[stream.param].sym, Val::Vec(data));

    let handles = stream.slots.iter().map(|slot| Ok(stream.handle(&e, slot, e.offset(state, slot.offset)?)));
    let handles = handles.collect::<Res<Vec<_>>>()?;
    let counted = e.load_i64(state)?;
    let strict = stream.annotations.get("strict") == Some("true");
    let (on_stack, builders) = e.onto_stack(&stream.builder, handles)?;
    let iterations = e.emit_stream_loop(&stream.iter, &builders, &stream.func, counted, strict, stream.span)?;
    e.off_stack(on_stack)?;
    e.store(state, e.add(counted, iterations)?)?;
    e.finish()
}

/// `finish(run, args, state, out)`: initial values merged in, then the epilogue.
pub(crate) fn emit_finish(
    unit: &Unit<'_>,
    facts: &Facts,
    name: &str,
    program: &Program,
    stream: &StreamProgram,
) -> Res<()> {
    let ptr = unit.ptr_type().into();
    let mut e = Emitter::new(unit, facts, name, &[ptr, ptr, ptr], Linkage::External)?;
    let (args, state, out) = (e.pointer_param(1)?, e.pointer_param(2)?, e.pointer_param(3)?);
    load_args(&mut e, program, args, false)?;
    stream.load_saved(&mut e, state)?;
    let mut handles = Vec::with_capacity(stream.slots.len());
    for slot in &stream.slots {
        let handle = Rc::new(stream.handle(&e, slot, e.offset(state, slot.offset)?));
        if let Some((sym, _)) = &slot.start {
            let start = e.vars.get(sym).cloned().ok_or_else(|| internal("an initial value that is not saved"))?;
            match &slot.ty {
                BuilderType::VecMerger { value, op } => {
                    let vec = e.as_vec(&start)?;
                    e.merge_whole_vec(&handle, value, op, &vec, stream.span)?;
                }
                _ => e.merge(&handle, &start, stream.span)?,
            }
        }
        handles.push(handle);
    }
    let builders = Val::builders(&stream.builder, &mut handles.into_iter())?;
    e.vars.insert(stream.built, builders);
    let value = e.emit(&stream.epilogue)?;
    e.store_flat(&stream.epilogue.ty, out, &mut 0, &value)?;
    e.finish()
}

/// `combine(run, args, state, other)`: merges the builders at `other`, which is used no more.
pub(crate) fn emit_combine(unit: &Unit<'_>, facts: &Facts, name: &str, stream: &StreamProgram) -> Res<()> {
    let ptr = unit.ptr_type().into();
    let mut e = Emitter::new(unit, facts, name, &[ptr, ptr, ptr], Linkage::External)?;
    let (state, other) = (e.pointer_param(2)?, e.pointer_param(3)?);
    for slot in &stream.slots {
        let handle = stream.handle(&e, slot, e.offset(state, slot.offset)?);
        let other = e.offset(other, slot.offset)?;
        e.combine(&handle, other, stream.span)?;
    }
    let total = e.add(e.load_i64(state)?, e.load_i64(other)?)?;
    e.store(state, total)?;
    e.finish()
}
