//! Streams whose consumer is a loop (push): what takes the values runs in the place of each `yield`.

use std::rc::Rc;

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_core::ty::ScalarKind;
use weld_pysyntax as py;

use super::loops::Over;
use super::{Completion, EXIT, Res, Sink, Tracer, error};
use crate::names::Uses;
use crate::store::{CellId, FrameId};
use crate::stream::{Source, Stream};
use crate::types::Ty;
use crate::value::Value;
use weld_pysyntax::Stmt;

impl<'a> Tracer<'a> {
    /// A new stream.
    pub(super) fn stream(&mut self, source: Source<'a>, span: Span) -> Value<'a> {
        let start = match source {
            Source::Iter(_) => Value::int(0).variable(),
            _ => Value::bool(false),
        };
        let state = self.store.cell("the stream", None, start);
        let stream = Rc::new(Stream { source, state, span });
        self.store.add_stream(stream.clone());
        Value::Stream(stream)
    }

    /// Gives each value of an iterable to the sink.
    pub(super) fn drive(&mut self, data: &Value<'a>, span: Span, sink: &Sink<'a>) -> Res<Completion> {
        self.place.driven.push(data.clone());
        let done = super::deep(|| self.drive_here(data, span, sink));
        self.place.driven.pop();
        done
    }

    fn drive_here(&mut self, data: &Value<'a>, span: Span, sink: &Sink<'a>) -> Res<Completion> {
        match data {
            Value::List(cell) => self.drive_list(*cell, span, sink),
            Value::Tuple(parts) => self.each_of(parts, span, sink),
            Value::Stream(stream) => self.drive_stream(stream, span, sink),
            Value::Object(..) => self.drive_object(data, span, sink),
            _ => match (self.try_type(data), data.data()) {
                (Some(Ty::Str), Some(text)) => self.characters(text, span, sink),
                _ => {
                    let message = format!("TypeError: {} is not iterable", self.described(data));
                    error(span, message)
                }
            },
        }
    }

    /// The elements of a list. Where what takes them changes the list, each is read from it when its turn comes.
    fn drive_list(&mut self, cell: CellId, span: Span, sink: &Sink<'a>) -> Res<Completion> {
        let (elements, ty) = self.elements(cell, span)?;
        if ty == Ty::Unknown {
            return Ok(Completion::normal());
        }
        let before = (self.flow.depth(), self.store.depth());
        self.flow.open();
        self.store.enter();
        let done = match self.each_element((cell, elements), &ty, span, sink) {
            Ok(done) => done,
            Err(stop) => {
                self.flow.discard(before.0);
                self.store.discard(before.1);
                return Err(stop);
            }
        };
        let changes = self.store.leave();
        let block = self.flow.suspend();
        if !changes.contains_key(&cell) {
            self.flow.append(block);
            self.store.apply(&changes);
            return Ok(done);
        }
        let position = self.store.cell("the position", None, Value::int(0).variable());
        self.drive_rest(&Value::List(cell), position, span, sink)
    }

    /// Values that are known one by one: a copy of what takes them for each.
    fn each_of(&mut self, parts: &[Value<'a>], span: Span, sink: &Sink<'a>) -> Res<Completion> {
        let mut done = Completion::normal();
        for part in parts {
            done = self.after(done, span, |tracer| sink(tracer, part.clone()))?;
        }
        Ok(done)
    }

    fn drive_stream(&mut self, stream: &Rc<Stream<'a>>, span: Span, sink: &Sink<'a>) -> Res<Completion> {
        match &stream.source {
            Source::Range { start, step, count } => self.each_number(start, step, count, span, sink),
            Source::Iter(of) => {
                let of = of.clone();
                self.drive_rest(&of, stream.state, span, sink)
            }
            _ => match self.store.get(stream.state).clone() {
                Value::Const(crate::value::Const::Bool(false)) => self.consume(stream, span, sink),
                // It has no more values.
                Value::Const(_) => Ok(Completion::normal()),
                Value::Data(is_used, _) => {
                    let stream = stream.clone();
                    let sink = sink.clone();
                    let rest = move |tracer: &mut Self| tracer.consume(&stream, span, &sink);
                    self.branch(is_used, span, |_| Ok(Completion::normal()), rest)
                }
                Value::Tuple(parts) => self.drive(&parts[0].clone(), span, sink),
                _ => error(span, "the generator escapes: a part of it was consumed elsewhere"),
            },
        }
    }

    fn consume(&mut self, stream: &Rc<Stream<'a>>, span: Span, sink: &Sink<'a>) -> Res<Completion> {
        self.store.set(stream.state, Value::bool(true));
        let done = self.produce(stream, span, sink)?;
        if !done.exits.is_empty() {
            self.store.set(stream.state, Value::Unbound);
        }
        Ok(done)
    }

    fn produce(&mut self, stream: &Rc<Stream<'a>>, span: Span, sink: &Sink<'a>) -> Res<Completion> {
        let sink = sink.clone();
        match &stream.source {
            Source::Map(f, sources) => {
                let (f, place) = (f.clone(), stream.span);
                let is_one = sources.len() == 1;
                let data = if is_one { sources[0].clone() } else { self.stream(Source::Zip(sources.clone()), span) };
                let mapped: Sink<'a> = Rc::new(move |tracer, value| {
                    let args = match &value {
                        Value::Tuple(parts) if !is_one => parts.to_vec(),
                        _ => vec![value],
                    };
                    let value = tracer.call(&f, args, Vec::new(), place)?;
                    tracer.guarded(place, |tracer| sink(tracer, value))
                });
                self.drive(&data, span, &mapped)
            }
            Source::Filter(f, source) => {
                let (f, place) = (f.clone(), stream.span);
                let filtered: Sink<'a> = Rc::new(move |tracer, value| {
                    let value = value.variable();
                    let holds = match &f {
                        Value::None => tracer.truth(&value, place)?,
                        f => {
                            let holds = tracer.call(f, vec![value.clone()], Vec::new(), place)?;
                            tracer.truth(&holds, place)?
                        }
                    };
                    tracer.if_holds(&holds, place, &|tracer| sink(tracer, value.clone()))
                });
                self.drive(&source.clone(), span, &filtered)
            }
            Source::Zip(sources) => self.drive_zip(&sources.clone(), span, &sink),
            Source::Enumerate(source, start) => {
                let (source, start) = (source.clone(), start.clone().variable());
                let counter = self.store.cell("the number", None, start);
                let numbered: Sink<'a> = Rc::new(move |tracer, value| {
                    let number = tracer.store.get(counter).clone();
                    let next = tracer.binary(py::BinaryOp::Add, &number, &Value::int(1), span)?;
                    tracer.store.set(counter, next);
                    sink(tracer, Value::tuple([number, value]))
                });
                self.drive(&source, span, &numbered)
            }
            Source::Call(def, frame) => {
                let (def, frame) = (def.clone(), *frame);
                self.run_generator(&def.function.body, frame, sink)
            }
            Source::Comprehension { element, clauses, first, frame } => {
                let (element, clauses, frame) = (*element, *clauses, *frame);
                self.clauses(frame, element, clauses, Some(first.clone()), &sink)
            }
            Source::Range { .. } | Source::Iter(_) => Ok(Completion::normal()),
        }
    }

    /// Runs a generator in its frame; its sink comes back to where it is consumed.
    fn run_generator(&mut self, body: &'a [Stmt], frame: FrameId, sink: Sink<'a>) -> Res<Completion> {
        let consumer = self.place.frame;
        let depth = self.place.handlers.len();
        let back: Sink<'a> =
            Rc::new(move |tracer, value| tracer.consume_in(consumer, depth, |tracer| sink(tracer, value)));
        self.frames[frame].sink = Some(back);
        let label = self.frames[frame].label;
        let done = self.within(frame, |tracer| tracer.block(body))?;
        let done = self.land(label, done);
        self.forget(frame);
        Ok(done)
    }

    /// Runs statements if a condition holds, which may be known.
    pub(super) fn if_holds(
        &mut self,
        holds: &Value<'a>,
        span: Span,
        f: &dyn Fn(&mut Tracer<'a>) -> Res<Completion>,
    ) -> Res<Completion> {
        self.guarded(span, |tracer| match holds.const_bool() {
            Some(true) => f(tracer),
            Some(false) => Ok(Completion::normal()),
            None => {
                let cond = holds.data().unwrap_or_else(|| build::bool(true));
                tracer.branch(cond, span, |tracer| f(tracer), |_| Ok(Completion::normal()))
            }
        })
    }

    fn each_number(&mut self, start: &Expr, step: &Expr, count: &Expr, span: Span, sink: &Sink<'a>) -> Res<Completion> {
        let (start, step) = (start.clone(), step.clone());
        self.repeat(&Over::Count(count.clone()), span, &|tracer, at| {
            let number = number_at(&start, &step, at.index);
            let number = tracer.scalar(number);
            sink(tracer, number)
        })
    }

    /// What an iterator of a list or range has left.
    fn drive_rest(&mut self, of: &Value<'a>, state: usize, span: Span, sink: &Sink<'a>) -> Res<Completion> {
        let end = self.label();
        let of = of.clone();
        let done = self.repeat(&Over::Forever, span, &|tracer, _| {
            let at = tracer.store.get(state).data().unwrap_or_else(|| build::i64(0));
            let length = tracer.length_of(&of, span)?;
            let more = tracer.bind("more", build::lt(at.clone(), length));
            let go_on = |tracer: &mut Tracer<'a>| {
                let value = tracer.at(&of, at.clone(), span)?;
                let next = tracer.scalar(build::add(at.clone(), build::i64(1)));
                tracer.store.set(state, next);
                sink(tracer, value)
            };
            let stop = |tracer: &mut Tracer<'a>| {
                tracer.store.set(EXIT, Value::int(end));
                Ok(Completion::exit(end))
            };
            tracer.branch(more, span, go_on, stop)
        })?;
        Ok(self.land(end, done))
    }

    /// `for .. in .. if ..` of a comprehension, from one clause on.
    pub(super) fn clauses(
        &mut self,
        frame: FrameId,
        element: &'a py::Expr,
        clauses: &'a [py::Clause],
        first: Option<Value<'a>>,
        sink: &Sink<'a>,
    ) -> Res<Completion> {
        let consumer = self.place.frame;
        let depth = self.place.handlers.len();
        let [clause, rest @ ..] = clauses else {
            let value = self.within(frame, |tracer| tracer.expr(element))?;
            return self
                .guarded(element.span, |tracer| tracer.consume_in(consumer, depth, |tracer| sink(tracer, value)));
        };
        let data = match first {
            Some(first) => first,
            None => self.within(frame, |tracer| tracer.expr(&clause.iter))?,
        };
        let sink = sink.clone();
        let each: Sink<'a> = Rc::new(move |tracer, value| {
            tracer.within(frame, |tracer| tracer.assign(&clause.target, value.variable()))?;
            tracer.conditions(frame, element, &clause.conditions, rest, &sink)
        });
        self.guarded(clause.iter.span, |tracer| tracer.drive(&data, clause.iter.span, &each))
    }

    fn conditions(
        &mut self,
        frame: FrameId,
        element: &'a py::Expr,
        conditions: &'a [py::Expr],
        rest: &'a [py::Clause],
        sink: &Sink<'a>,
    ) -> Res<Completion> {
        let [first, others @ ..] = conditions else { return self.clauses(frame, element, rest, None, sink) };
        let holds = self.within(frame, |tracer| tracer.condition(first))?;
        self.if_holds(&holds, first.span, &|tracer| tracer.conditions(frame, element, others, rest, sink))
    }

    pub(super) fn list_comprehension(
        &mut self,
        element: &'a py::Expr,
        clauses: &'a [py::Clause],
        span: Span,
    ) -> Res<Value<'a>> {
        let stream = self.generator_expression(element, clauses, span)?;
        self.list_from(&stream, span)
    }

    pub(super) fn generator_expression(
        &mut self,
        element: &'a py::Expr,
        clauses: &'a [py::Clause],
        span: Span,
    ) -> Res<Value<'a>> {
        let Some(clause) = clauses.first() else { return error(span, "a comprehension has a `for`") };
        let first = self.expr(&clause.iter)?;
        let frame = self.inner_frame();
        Ok(self.stream(Source::Comprehension { element, clauses, first, frame }, span))
    }

    /// An object that is iterable by its special methods.
    fn drive_object(&mut self, object: &Value<'a>, span: Span, sink: &Sink<'a>) -> Res<Completion> {
        if self.has_method(object, "__iter__") && !self.has_method(object, "__next__") {
            let data = self.call_method(object, "__iter__", Vec::new(), span)?;
            if matches!(data, Value::Object(..)) && !self.has_method(&data, "__next__") {
                return error(span, "TypeError: `__iter__` gives no iterator");
            }
            return self.guarded(span, |tracer| tracer.drive(&data, span, sink));
        }
        let end = self.label();
        let stop = super::Handler { class: Some("StopIteration".into()), label: end, cause: None };
        let position = self.store.cell("the position", None, Value::int(0).variable());
        let by_next = self.has_method(object, "__next__");
        let is_sequence = self.has_method(object, "__getitem__") && self.has_method(object, "__len__");
        if !by_next && !is_sequence {
            let message = format!("TypeError: {} is not iterable", self.described(object));
            return error(span, message);
        }
        let object = object.clone();
        let done = self.repeat(&Over::Forever, span, &|tracer, _| {
            if by_next {
                tracer.place.handlers.push(vec![stop.clone()]);
                let value = tracer.call_method(&object, "__next__", Vec::new(), span);
                tracer.place.handlers.pop();
                let value = value?;
                return tracer.guarded(span, |tracer| sink(tracer, value));
            }
            let at = tracer.store.get(position).clone();
            let length = tracer.call_method(&object, "__len__", Vec::new(), span)?;
            let more = tracer.compare_values(py::CompareOp::Lt, &at, &length, span)?;
            let more = more.data().unwrap_or_else(|| build::bool(true));
            let go_on = |tracer: &mut Tracer<'a>| {
                let value = tracer.call_method(&object, "__getitem__", vec![at.clone()], span)?;
                let next = tracer.binary(py::BinaryOp::Add, &at, &Value::int(1), span)?;
                tracer.store.set(position, next);
                sink(tracer, value)
            };
            let leave = |tracer: &mut Tracer<'a>| {
                tracer.store.set(EXIT, Value::int(end));
                Ok(Completion::exit(end))
            };
            tracer.branch(more, span, go_on, leave)
        })?;
        Ok(self.land(end, done))
    }

    // Unrolling.

    /// The values of `unroll(..)`, if the expression is a call of it.
    pub(super) fn as_unroll(&mut self, iter: &'a py::Expr) -> Res<Option<Vec<Value<'a>>>> {
        let py::ExprKind::Call { callee, args, .. } = &iter.kind else { return Ok(None) };
        if callee.as_name() != Some("unroll") || self.module.functions.contains_key("unroll") {
            return Ok(None);
        }
        let [arg] = &args[..] else { return error(iter.span, "`unroll` takes one iterable") };
        let data = self.expr(arg)?;
        let values = self.known_values(&data, "`unroll`", arg.span)?;
        self.spent.calls += values.len();
        Ok(Some(values))
    }

    /// The values of an iterable whose length is known when the program is compiled.
    pub(super) fn known_values(&mut self, data: &Value<'a>, whose: &str, span: Span) -> Res<Vec<Value<'a>>> {
        let unknown = |what: &str| error(span, format!("{whose} needs {what}"));
        match data {
            Value::Tuple(parts) => Ok(parts.to_vec()),
            Value::Stream(stream) => match &stream.source {
                Source::Range { start, step, count } => {
                    let known = crate::value::literal_int;
                    let most = self.limits.instances;
                    match (known(start), known(step), known(count)) {
                        (Some(start), Some(step), Some(count)) if count <= most as i64 => {
                            Ok((0..count).map(|index| Value::int(start + index * step)).collect())
                        }
                        (Some(_), Some(_), Some(count)) => {
                            error(span, format!("{whose} over {count} values: at most {most} copies are made"))
                        }
                        _ => unknown("a range of constants"),
                    }
                }
                Source::Enumerate(source, start) => {
                    let (values, start) = (self.known_values(&source.clone(), whose, span)?, start.clone());
                    let pair = |(index, value): (usize, Value<'a>)| {
                        let number = self.binary(py::BinaryOp::Add, &start, &Value::int(index as i64), span)?;
                        Ok(Value::tuple([number, value]))
                    };
                    values.into_iter().enumerate().map(pair).collect()
                }
                Source::Zip(sources) => {
                    let columns = sources.iter().map(|source| self.known_values(source, whose, span));
                    let columns = columns.collect::<Res<Vec<_>>>()?;
                    let rows = columns.iter().map(Vec::len).min().unwrap_or(0);
                    Ok((0..rows).map(|row| Value::tuple(columns.iter().map(|column| column[row].clone()))).collect())
                }
                _ => unknown("a constant iterable, found a generator"),
            },
            Value::List(cell) => match self.store.get(*cell).clone() {
                Value::Elements(e, ty) => match e.kind {
                    weld_core::ir::ExprKind::Vector(parts) => {
                        Ok(parts.into_iter().map(|part| self.value_of(part, &ty)).collect())
                    }
                    _ => unknown("a list whose length is known when compiled"),
                },
                _ => unknown("a list whose length is known when compiled"),
            },
            _ => unknown(&format!("a constant iterable, found {}", self.described(data))),
        }
    }

    /// A copy of the body for each value, each typed by itself.
    pub(super) fn unroll(
        &mut self,
        target: &'a py::Expr,
        values: Vec<Value<'a>>,
        span: Span,
        body: &'a [Stmt],
        orelse: &'a [Stmt],
        uses: Rc<Uses<'a>>,
    ) -> Res<Completion> {
        let (labels, outer) = self.enter_loop();
        let mut done = Completion::normal();
        for value in values {
            let uses = uses.clone();
            done = self.after(done, span, |tracer| {
                tracer.spend(span)?;
                tracer.assign(target, value)?;
                let done = tracer.block_in(body, Some(uses))?;
                Ok(tracer.land(labels.next, done))
            })?;
        }
        self.leave_loop(outer);
        self.end_loop(done, labels, orelse, span)
    }
}

/// A number of a range.
pub(super) fn number_at(start: &Expr, step: &Expr, index: Expr) -> Expr {
    let literal = crate::value::literal_int;
    let scaled = match literal(step) {
        Some(1) => index,
        _ => build::mul(index, step.clone()),
    };
    let number = match literal(start) {
        Some(0) => scaled,
        _ => build::add(start.clone(), scaled),
    };
    build::cast(number, ScalarKind::I64)
}
