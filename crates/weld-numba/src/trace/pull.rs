//! Streams whose values are taken one at a time (pull): `next`, `zip`. What can be indexed is; other streams become
//! lists first.

use std::rc::Rc;

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_core::op::Intrinsic;

use super::drive::number_at;
use super::loops::Over;
use super::{Completion, EXIT, Label, Res, Sink, Stop, Tracer, error};
use crate::store::CellId;
use crate::stream::{Source, Stream};
use crate::types::Ty;
use crate::value::{Const, Value};

impl<'a> Tracer<'a> {
    /// Whether a value can be asked for by its number.
    pub(super) fn is_indexed(&self, of: &Value<'a>) -> bool {
        match of {
            Value::List(_) => true,
            Value::Stream(stream) => {
                let is_fresh = matches!(self.store.get(stream.state), Value::Const(Const::Bool(false)));
                match &stream.source {
                    Source::Range { .. } => true,
                    Source::Map(_, sources) | Source::Zip(sources) => {
                        is_fresh && sources.iter().all(|source| self.is_indexed(source))
                    }
                    Source::Enumerate(source, _) => is_fresh && self.is_indexed(source),
                    _ => false,
                }
            }
            _ => self.try_type(of) == Some(Ty::Str),
        }
    }

    /// How many values there are, of what is indexed.
    pub(super) fn length_of(&mut self, of: &Value<'a>, span: Span) -> Res<Expr> {
        let length = match of {
            Value::List(cell) => self.buffer(*cell, span)?.1,
            Value::Stream(stream) => match &stream.source {
                Source::Range { count, .. } => count.clone(),
                Source::Enumerate(source, _) | Source::Comprehension { first: source, .. } => {
                    self.length_of(&source.clone(), span)?
                }
                Source::Map(_, sources) | Source::Zip(sources) => {
                    let mut least: Option<Expr> = None;
                    for source in sources.clone() {
                        let length = self.length_of(&source, span)?;
                        least = Some(least.map_or(length.clone(), |least| build::min(least, length)));
                    }
                    least.unwrap_or_else(|| build::i64(0))
                }
                _ => return error(span, "internal error: a stream has no length"),
            },
            other => match (self.try_type(other), other.data()) {
                (Some(Ty::Str), Some(text)) => build::intrinsic(Intrinsic::CharLength, [text]),
                _ => return error(span, format!("TypeError: {} has no length", self.described(other))),
            },
        };
        Ok(self.bind("length", length))
    }

    /// A value by its number, of what is indexed and has it.
    pub(super) fn at(&mut self, of: &Value<'a>, index: Expr, span: Span) -> Res<Value<'a>> {
        match of {
            Value::List(cell) => {
                let (elements, ty) = self.elements(*cell, span)?;
                if ty == Ty::Unknown {
                    // The list is empty: the run does not come here.
                    return Err(Stop::Exit(Completion::default()));
                }
                let element = self.bind("element", build::lookup(elements, index).at(span));
                Ok(self.element_of(*cell, element, &ty))
            }
            Value::Stream(stream) => match &stream.source {
                Source::Range { start, step, .. } => {
                    let number = number_at(start, step, index);
                    Ok(self.scalar(number))
                }
                Source::Map(f, sources) => {
                    let (f, place) = (f.clone(), stream.span);
                    let args = self.at_all(&sources.clone(), &index, span)?;
                    self.call(&f, args, Vec::new(), place)
                }
                Source::Zip(sources) => Ok(Value::tuple(self.at_all(&sources.clone(), &index, span)?)),
                Source::Enumerate(source, start) => {
                    let (source, start) = (source.clone(), start.clone());
                    let number = Value::scalar(index.clone());
                    let number = self.binary(weld_pysyntax::BinaryOp::Add, &start, &number, span)?;
                    let value = self.at(&source, index, span)?;
                    Ok(Value::tuple([number, value]))
                }
                // Of one clause without conditions: others are not taken from so.
                Source::Comprehension { element, clauses: [clause], first, frame } => {
                    let (element, frame) = (*element, *frame);
                    let value = self.at(&first.clone(), index, span)?;
                    self.within(frame, |tracer| {
                        tracer.assign(&clause.target, value.variable())?;
                        tracer.expr(element)
                    })
                }
                _ => error(span, "internal error: a stream has no elements"),
            },
            other => match other.data() {
                Some(text) => {
                    let text = self.bind("text", text);
                    Ok(self.character(text, index))
                }
                None => error(span, format!("TypeError: {} has no elements", self.described(other))),
            },
        }
    }

    fn at_all(&mut self, of: &[Value<'a>], index: &Expr, span: Span) -> Res<Vec<Value<'a>>> {
        of.iter().map(|of| self.at(of, index.clone(), span)).collect()
    }

    /// `iter(x)`.
    pub(super) fn iterator(&mut self, of: &Value<'a>, span: Span) -> Res<Value<'a>> {
        match of {
            Value::Stream(stream) if !matches!(stream.source, Source::Range { .. }) => Ok(of.clone()),
            Value::List(_) | Value::Stream(_) => Ok(self.stream(Source::Iter(of.clone()), span)),
            Value::Tuple(parts) => {
                let list = self.list_of(parts.to_vec(), span)?;
                Ok(self.stream(Source::Iter(list), span))
            }
            Value::Object(..) if self.has_method(of, "__iter__") => {
                let inner = self.call_method(of, "__iter__", Vec::new(), span)?;
                if matches!(inner, Value::Object(..)) { Ok(inner) } else { self.iterator(&inner, span) }
            }
            Value::Object(..) if self.has_method(of, "__next__") => Ok(of.clone()),
            other if self.try_type(other) == Some(Ty::Str) => Ok(self.stream(Source::Iter(other.clone()), span)),
            other => {
                let message = format!("TypeError: {} is not iterable", self.described(other));
                error(span, message)
            }
        }
    }

    /// `next(x)`.
    pub(super) fn next(&mut self, of: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let Value::Stream(stream) = of else {
            if self.has_method(of, "__next__") {
                return self.call_method(of, "__next__", Vec::new(), span);
            }
            let message = format!("TypeError: {} is no iterator", self.described(of));
            return Err(weld_core::diag::Diagnostic::ty(span, message).with_hint("`iter(..)` makes one").into());
        };
        match (&stream.source, self.store.get(stream.state).clone()) {
            (Source::Range { .. }, _) => {
                Err(weld_core::diag::Diagnostic::ty(span, "TypeError: a range is no iterator")
                    .with_hint("`iter(..)` makes one")
                    .into())
            }
            (Source::Iter(of), _) => {
                let of = of.clone();
                self.next_of(&of, stream.state, span)
            }
            (_, Value::Tuple(parts)) => self.next(&parts[0].clone(), span),
            (_, Value::Const(Const::Bool(false))) => {
                if let Some((f, source)) = mapped_iterator(stream) {
                    let place = stream.span;
                    let value = self.next(&Value::Stream(source), span)?;
                    return self.guarded_value(span, |tracer| tracer.call(&f, vec![value], Vec::new(), place));
                }
                if self.place.loops.iter().any(|mark| stream.state < *mark) {
                    return Err(Stop::Materialise(stream.state));
                }
                self.materialise(stream.state, span)?;
                self.next(of, span)
            }
            // All were taken.
            (_, Value::Const(_)) => {
                let none = self.new_list(build::vector(Ty::Unknown.weld(), []), Ty::Unknown);
                let none = self.stream(Source::Iter(none), span);
                self.next(&none, span)
            }
            _ => error(span, "the generator escapes: a part of it was consumed elsewhere"),
        }
    }

    /// `next(x, default)`.
    pub(super) fn next_or(&mut self, of: &Value<'a>, default: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let Value::Stream(stream) = of else {
            return error(span, format!("unsupported: `next` with a default of {}", self.described(of)));
        };
        match (&stream.source, self.store.get(stream.state).clone()) {
            (Source::Iter(of), _) => self.next_mapped(&of.clone(), stream.state, None, default, span),
            (_, Value::Tuple(parts)) => self.next_or(&parts[0].clone(), default, span),
            (source, Value::Const(Const::Bool(false))) if !matches!(source, Source::Range { .. }) => {
                if let Some((f, iterator)) = mapped_iterator(stream)
                    && let Source::Iter(of) = &iterator.source
                {
                    return self.next_mapped(of, iterator.state, Some((f, stream.span)), default, span);
                }
                if self.place.loops.iter().any(|mark| stream.state < *mark) {
                    return Err(Stop::Materialise(stream.state));
                }
                self.materialise(stream.state, span)?;
                self.next_or(of, default, span)
            }
            (source, Value::Const(_)) if !matches!(source, Source::Range { .. }) => Ok(default.clone()),
            _ => self.next(of, span),
        }
    }

    /// The next value of an iterator, or what a function makes of it; the default where there is none.
    fn next_mapped(
        &mut self,
        of: &Value<'a>,
        state: CellId,
        f: Option<(Value<'a>, Span)>,
        default: &Value<'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        let position = self.store.get(state).data().unwrap_or_else(|| build::i64(0));
        let length = self.length_of(of, span)?;
        let more = self.bind("more", build::lt(position.clone(), length));
        let next = |tracer: &mut Self| {
            let value = tracer.advance(of, state, position, span)?;
            let value = match f {
                Some((f, place)) => tracer.call(&f, vec![value], Vec::new(), place)?,
                None => value,
            };
            Ok(value.variable())
        };
        self.choose(more, span, next, |_| Ok(default.clone().variable()))
    }

    /// The value of an iterator at its position, which moves on.
    fn advance(&mut self, of: &Value<'a>, state: CellId, position: Expr, span: Span) -> Res<Value<'a>> {
        let value = self.at(of, position.clone(), span)?;
        let next = self.scalar(build::add(position, build::i64(1)));
        self.store.set(state, next);
        Ok(value)
    }

    fn next_of(&mut self, of: &Value<'a>, state: CellId, span: Span) -> Res<Value<'a>> {
        let position = self.store.get(state).data().unwrap_or_else(|| build::i64(0));
        let length = self.length_of(of, span)?;
        let more = build::lt(position.clone(), length);
        let holds = self.require(more, "StopIteration", "", Vec::new(), span);
        let Some(holds) = holds else {
            return self.advance(of, state, position, span);
        };
        let inside = |tracer: &mut Self| Ok((Completion::normal(), Some(tracer.advance(of, state, position, span)?)));
        let inside = self.side(inside)?;
        // The jump is pending already.
        let ended = super::branch::Side::empty(Completion { normal: false, exits: self.place.pending.clone() });
        let (_, value) = self.merge(holds, [inside, ended], span)?;
        value.ok_or(Stop::Exit(Completion::default()))
    }

    /// Makes an iterator of a stream, from which its values are then taken: of what they are computed from by number,
    /// each when its turn comes, else of a list of all.
    pub(super) fn materialise(&mut self, state: CellId, span: Span) -> Res<()> {
        let Some(stream) = self.store.stream(state).cloned() else { return error(span, "internal error: no stream") };
        let values = match self.by_number(&stream) {
            Some(source) => self.stream(source, stream.span),
            None => self.collected(&stream, span)?,
        };
        let iterator = self.stream(Source::Iter(values), span);
        self.store.set(state, Value::tuple([iterator]));
        Ok(())
    }

    /// The source of a stream that was not consumed, if each value can be computed by its number.
    fn by_number(&self, stream: &Rc<Stream<'a>>) -> Option<Source<'a>> {
        let is_fresh = matches!(self.store.get(stream.state), Value::Const(Const::Bool(false)));
        match &stream.source {
            Source::Comprehension { element, clauses: clauses @ [clause], first, frame }
                if is_fresh && clause.conditions.is_empty() && self.is_indexed(first) =>
            {
                Some(Source::Comprehension { element, clauses, first: first.clone(), frame: *frame })
            }
            _ if !self.is_indexed(&Value::Stream(stream.clone())) => None,
            Source::Map(f, sources) => Some(Source::Map(f.clone(), sources.clone())),
            Source::Zip(sources) => Some(Source::Zip(sources.clone())),
            Source::Enumerate(source, start) => Some(Source::Enumerate(source.clone(), start.clone())),
            _ => None,
        }
    }

    fn collected(&mut self, stream: &Rc<Stream<'a>>, span: Span) -> Res<Value<'a>> {
        let list = self.new_list(build::vector(Ty::Unknown.weld(), []), Ty::Unknown);
        let Value::List(cell) = list else { return Ok(list) };
        let sink: Sink<'a> = Rc::new(move |tracer, value| {
            tracer.append(cell, &value.variable(), span)?;
            Ok(Completion::normal())
        });
        let done = self.drive(&Value::Stream(stream.clone()), span, &sink)?;
        if done.diverges() {
            return error(stream.span, "the generator never ends: it can only be consumed by one loop");
        }
        self.place.pending.extend(&done.exits);
        Ok(Value::List(cell))
    }

    /// Gives tuples of the values of all sources, until one has no more.
    pub(super) fn drive_zip(&mut self, sources: &[Value<'a>], span: Span, sink: &Sink<'a>) -> Res<Completion> {
        let mut sources = sources.to_vec();
        for (index, source) in sources.iter().enumerate() {
            let is_same = |other: &Value<'a>| match (source, other) {
                (Value::Stream(a), Value::Stream(b)) => Rc::ptr_eq(a, b) && !matches!(a.source, Source::Range { .. }),
                _ => false,
            };
            if sources[index + 1..].iter().any(is_same) {
                return error(span, "unsupported: `zip` of an iterator with itself");
            }
        }
        for source in &mut sources {
            if let Value::Tuple(parts) = source {
                *source = self.list_of(parts.to_vec(), span)?;
            }
        }
        let Some(pushed) = sources.iter().position(|source| !self.is_indexed(source)) else {
            if sources.is_empty() {
                return Ok(Completion::normal());
            }
            let all = self.stream(Source::Zip(sources), span);
            let count = self.length_of(&all, span)?;
            return self.repeat(&Over::Count(count), span, &|tracer, step| {
                let value = tracer.at(&all, step.index, span)?;
                sink(tracer, value)
            });
        };
        // One is run, the others are indexed, or iterators, which keep what is not taken from them.
        for (index, source) in sources.iter_mut().enumerate() {
            if index != pushed && !self.is_indexed(source) {
                *source = match source.clone() {
                    Value::Stream(stream) => self.iterator_in(&stream, span)?,
                    other => self.list_from(&other, span)?,
                };
            }
        }
        let main = sources.remove(pushed);
        if sources.iter().any(|source| !self.is_indexed(source)) {
            return self.drive_with_iterators(&main, pushed, sources, span, sink);
        }
        let rest = self.stream(Source::Zip(sources), span);
        let position = self.store.cell("the position", None, Value::int(0).variable());
        let end = self.label();
        let sink = sink.clone();
        let others = rest.clone();
        let together: Sink<'a> = Rc::new(move |tracer, value| {
            let at = tracer.store.get(position).data().unwrap_or_else(|| build::i64(0));
            let length = tracer.length_of(&others, span)?;
            let more = tracer.bind("more", build::lt(at.clone(), length));
            let go_on = |tracer: &mut Tracer<'a>| {
                let Value::Tuple(parts) = tracer.at(&others, at.clone(), span)? else {
                    return error(span, "internal error: no tuple");
                };
                let next = tracer.scalar(build::add(at.clone(), build::i64(1)));
                tracer.store.set(position, next);
                let mut parts = parts.to_vec();
                parts.insert(pushed, value.clone());
                sink(tracer, Value::tuple(parts))
            };
            let stop = |tracer: &mut Tracer<'a>| {
                tracer.store.set(EXIT, Value::int(end));
                Ok(Completion::exit(end))
            };
            tracer.branch(more, span, go_on, stop)
        });
        let done = self.drive(&main, span, &together)?;
        Ok(self.land(end, done))
    }

    /// A stream that is asked for its values one by one, as the iterator that it is or becomes.
    fn iterator_in(&mut self, stream: &Rc<Stream<'a>>, span: Span) -> Res<Value<'a>> {
        match (&stream.source, self.store.get(stream.state).clone()) {
            (Source::Iter(_), _) => Ok(Value::Stream(stream.clone())),
            (_, Value::Tuple(parts)) => Ok(parts[0].clone()),
            (_, Value::Const(Const::Bool(false))) => {
                if self.place.loops.iter().any(|mark| stream.state < *mark) {
                    return Err(Stop::Materialise(stream.state));
                }
                self.materialise(stream.state, span)?;
                self.iterator_in(stream, span)
            }
            _ => self.collected(stream, span),
        }
    }

    /// `zip` of what is run and of others, in their order, some of which are iterators: one that ends stops the others
    /// behind it from giving a value, but not those before it.
    fn drive_with_iterators(
        &mut self,
        main: &Value<'a>,
        pushed: usize,
        others: Vec<Value<'a>>,
        span: Span,
        sink: &Sink<'a>,
    ) -> Res<Completion> {
        let position = self.store.cell("the position", None, Value::int(0).variable());
        let end = self.label();
        let sink = sink.clone();
        let others: Rc<[Value<'a>]> = others.into();
        let together: Sink<'a> = Rc::new(move |tracer, value| {
            let at = tracer.store.get(position).data().unwrap_or_else(|| build::i64(0));
            let all = |tracer: &mut Tracer<'a>, mut parts: Vec<Value<'a>>| {
                let next = tracer.scalar(build::add(at.clone(), build::i64(1)));
                tracer.store.set(position, next);
                parts.insert(pushed, value.clone());
                sink(tracer, Value::tuple(parts))
            };
            tracer.one_of_each(&others, &at, Vec::new(), span, end, &all)
        });
        let done = self.drive(main, span, &together)?;
        Ok(self.land(end, done))
    }

    /// Takes a value of each iterator, and that at a position of what is indexed; a jump where one has no more.
    fn one_of_each(
        &mut self,
        of: &[Value<'a>],
        at: &Expr,
        taken: Vec<Value<'a>>,
        span: Span,
        end: Label,
        all: &dyn Fn(&mut Self, Vec<Value<'a>>) -> Res<Completion>,
    ) -> Res<Completion> {
        let [first, rest @ ..] = of else { return all(self, taken) };
        let (source, position, state) = match first {
            Value::Stream(stream) => match &stream.source {
                Source::Iter(of) => {
                    let position = self.store.get(stream.state).data().unwrap_or_else(|| build::i64(0));
                    (of.clone(), position, Some(stream.state))
                }
                _ => (first.clone(), at.clone(), None),
            },
            _ => (first.clone(), at.clone(), None),
        };
        let length = self.length_of(&source, span)?;
        let more = self.bind("more", build::lt(position.clone(), length));
        let go_on = |tracer: &mut Self| {
            let mut taken = taken.clone();
            taken.push(match state {
                Some(state) => tracer.advance(&source, state, position.clone(), span)?,
                None => tracer.at(&source, position.clone(), span)?,
            });
            tracer.one_of_each(rest, at, taken, span, end, all)
        };
        let stop = |tracer: &mut Self| {
            tracer.store.set(EXIT, Value::int(end));
            Ok(Completion::exit(end))
        };
        self.branch(more, span, go_on, stop)
    }
}

/// The function and the iterator of `map(f, iterator)`, from which others may take values in between.
fn mapped_iterator<'a>(stream: &Stream<'a>) -> Option<(Value<'a>, Rc<Stream<'a>>)> {
    match &stream.source {
        Source::Map(f, sources) => match &sources[..] {
            [Value::Stream(of)] if matches!(of.source, Source::Iter(_)) => Some((f.clone(), of.clone())),
            _ => None,
        },
        _ => None,
    }
}
