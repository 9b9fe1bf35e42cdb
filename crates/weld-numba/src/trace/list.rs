//! Lists: their elements, what is appended to them, how they are put together.

use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind, build};

use super::convert::copied;
use super::loops::Over;
use super::{Completion, Res, Sink, Tracer, error};
use crate::store::{CellId, STORED};
use crate::types::Ty;
use crate::value::Value;
use std::rc::Rc;

/// Why a list in a list may not be changed.
const ROWS_SHARED: &str = "this cannot be changed: a list may be an element of two lists, or of one twice";

/// Literals grow up to this length.
const LITERAL_MAX: usize = 256;

/// A list that is appended to and read has room for so many elements more, at least.
const ROOM_MIN: i64 = 16;

impl<'a> Tracer<'a> {
    /// A copy of a list, or of a part of one: its elements belong to both.
    pub(super) fn copied_list(&mut self, elements: Expr, ty: Ty, span: Span) -> Res<Value<'a>> {
        if ty.holds_list() {
            self.share_rows(span)?;
        }
        Ok(self.new_list(elements, ty))
    }

    /// A list has become an element of a second list, or of one twice.
    fn share_rows(&mut self, span: Span) -> Res<()> {
        if self.rows.are_swapped {
            return Ok(());
        }
        self.rows.are_shared = true;
        match self.rows.changed_in_loop.filter(|_| !self.place.loops.is_empty()) {
            Some(at) => {
                let error = weld_core::diag::Diagnostic::ty(span, ROWS_SHARED);
                Err(error.with_label(at, "it is changed here").into())
            }
            None => Ok(()),
        }
    }

    /// Whether a list that is an element of a list may be changed there.
    pub(super) fn check_rows(&mut self, span: Span) -> Res<()> {
        if self.rows.are_shared {
            return error(span, ROWS_SHARED);
        }
        if !self.place.loops.is_empty() {
            self.rows.changed_in_loop = Some(span);
        }
        Ok(())
    }

    /// A new list.
    pub(super) fn new_list(&mut self, elements: Expr, ty: Ty) -> Value<'a> {
        let elements = match &elements.kind {
            // More may be appended to a literal.
            ExprKind::Vector(_) => elements,
            _ => self.bind("list", elements),
        };
        Value::List(self.store.cell("list", None, Value::Elements(elements, ty)))
    }

    /// `[a, b, ..]`: of the type that all go to.
    pub(super) fn list_of(&mut self, parts: Vec<Value<'a>>, span: Span) -> Res<Value<'a>> {
        let mut ty = Ty::Unknown;
        for part in &parts {
            let of = match part {
                Value::Stream(_) => return error(span, "the generator escapes: a list cannot hold it"),
                Value::Callable(_) => return error(span, "a list cannot hold functions"),
                part => self.type_of(part, span)?,
            };
            ty = match self.unify(&ty, &of, span)? {
                Some(ty) => ty,
                None => return error(span, format!("the elements of the list are {ty} and {of}")),
            };
        }
        let parts = parts.iter().map(|part| self.element(part, &ty, span)).collect::<Res<Vec<_>>>()?;
        let list = build::vector(ty.weld(), parts);
        Ok(self.new_list(list, ty))
    }

    /// A value that becomes an element. What it is of must not change afterwards.
    pub(super) fn element(&mut self, value: &Value<'a>, ty: &Ty, span: Span) -> Res<Expr> {
        self.store_in_list(value, span)?;
        let e = self.coerced(value, ty, span)?;
        Ok(self.bind("element", e))
    }

    fn store_in_list(&mut self, value: &Value<'a>, span: Span) -> Res<()> {
        match value {
            Value::List(cell) => {
                // One from outside of a loop becomes an element in each step.
                let is_outer = self.place.loops.last().is_some_and(|mark| cell < mark);
                if is_outer || self.store.frozen(*cell).is_some() {
                    self.share_rows(span)?;
                }
                self.freeze_stored(*cell);
            }
            Value::Object(cell, _) => self.freeze_stored(*cell),
            Value::Tuple(parts) => parts.iter().try_for_each(|part| self.store_in_list(part, span))?,
            _ => {}
        }
        Ok(())
    }

    /// A list or object has become an element, and perhaps another that it may be.
    fn freeze_stored(&mut self, cell: CellId) {
        for original in self.store.originals(cell) {
            self.store.freeze(original, STORED);
        }
        self.store.freeze(cell, STORED);
    }

    /// The vector of a list, and the type of its elements.
    pub(super) fn elements(&mut self, cell: CellId, span: Span) -> Res<(Expr, Ty)> {
        self.reads.insert(cell);
        match self.store.get(cell).clone() {
            Value::Elements(e, ty) => {
                let list = self.bind("list", e.clone());
                // What has its name already stays as it is: loops carry what is set in them.
                if !list.same_as(&e) {
                    self.store.set(cell, Value::Elements(list.clone(), ty.clone()));
                }
                Ok((list, ty))
            }
            Value::Buffer(buffer, length, ty) => {
                let e = self.bind("list", build::slice(buffer, build::i64(0), length));
                Ok((e, ty))
            }
            _ => error(span, "internal error: a list that is being built is read"),
        }
    }

    /// A vector that has the list's elements, how many these are, and their type: what single elements are read of.
    pub(super) fn buffer(&mut self, cell: CellId, span: Span) -> Res<(Expr, Expr, Ty)> {
        if let Value::Buffer(buffer, length, ty) = self.store.get(cell).clone() {
            self.reads.insert(cell);
            return Ok((buffer, length, ty));
        }
        let (elements, ty) = self.elements(cell, span)?;
        let length = build::len(elements.clone());
        Ok((elements, length, ty))
    }

    /// A copy of a vector with as much room again.
    pub(super) fn with_room(&mut self, elements: Expr) -> Expr {
        let Some(ty) = elements.ty.element().cloned() else { return elements };
        let names = self.flow.names();
        let room = build::max(build::len(elements.clone()), build::i64(ROOM_MIN));
        let copied = copied(names, elements, build::appender(ty.clone()));
        let range = build::range(build::i64(0), room, build::i64(1));
        build::result(build::for_(names, range, copied, |_, b, _, _| build::merge(b, build::zero(&ty))))
    }

    /// The error of a list that may not be changed here.
    pub(super) fn check_change(&self, cell: CellId, span: Span) -> Res<()> {
        let mut frame = Some(self.place.frame);
        while let Some(at) = frame {
            if self.frames[at].arguments.contains(&cell) {
                return error(span, "an argument is changed: only lists made in the function may be");
            }
            frame = self.frames[at].parent;
        }
        match self.store.frozen(cell) {
            Some(why) => error(span, format!("this cannot be changed: {why}")),
            None => {
                let aliases = self.store.aliases(cell);
                match !aliases.is_empty() && self.is_in_use(&|cell| aliases.contains(&cell)) {
                    true => error(span, format!("this cannot be changed: {}", crate::store::DEPENDS)),
                    false => Ok(()),
                }
            }
        }
    }

    /// Whether a variable that is read later, or what is being iterated over, holds a list or object for which
    /// `is_wanted` holds.
    pub(super) fn is_in_use(&self, is_wanted: &dyn Fn(CellId) -> bool) -> bool {
        let none = Default::default();
        let is_read = |frame, name: &str| self.is_read_later(frame, name);
        self.store.is_held(&none, None, &is_read, is_wanted)
            || self.place.driven.iter().any(|data| self.store.holds(data, is_wanted))
    }

    pub(super) fn append(&mut self, cell: CellId, value: &Value<'a>, span: Span) -> Res<()> {
        self.check_change(cell, span)?;
        let of = match value {
            Value::Stream(_) => return error(span, "the generator escapes: a list cannot hold it"),
            value => self.type_of(value, span)?,
        };
        match self.store.get(cell).clone() {
            Value::Builder(builder, ty) => {
                let value = self.element(value, &ty, span)?;
                let builder = self.flow.keep("b", build::merge(builder, value));
                self.store.set(cell, Value::Builder(builder, ty));
            }
            Value::Buffer(buffer, length, ty) if of == ty => {
                self.appends.insert(cell);
                let value = self.element(value, &ty, span)?;
                let buffer = self.bind("buffer", build::update(buffer, length.clone(), value).at(span));
                let length = self.bind("length", build::add(length, build::i64(1)));
                let is_full = build::eq(length.clone(), build::len(buffer.clone()));
                let larger = self.with_room(buffer.clone());
                let buffer = self.bind("buffer", build::if_(is_full, larger, buffer));
                self.store.set(cell, Value::Buffer(buffer, length, ty));
            }
            Value::Elements(..) | Value::Buffer(..) => {
                let (elements, ty) = match self.store.get(cell).clone() {
                    Value::Elements(elements, ty) => (elements, ty),
                    _ => self.elements(cell, span)?,
                };
                self.appends.insert(cell);
                let Some(wider) = self.unify(&ty, &of, span)? else {
                    return error(span, format!("{of} is appended to a list of {ty}"));
                };
                let elements = self.convert_elements(elements, &ty, &wider, span)?;
                let value = self.element(value, &wider, span)?;
                let elements = match elements.kind {
                    ExprKind::Vector(mut parts) if parts.len() < LITERAL_MAX => {
                        parts.push(value);
                        build::vector(wider.weld(), parts)
                    }
                    _ => {
                        let ty = build::appender(wider.weld()).ty;
                        let built = self.builder_of(elements, ty);
                        self.bind("list", build::result(build::merge(built, value)))
                    }
                };
                self.store.set(cell, Value::Elements(elements, wider));
            }
            _ => return error(span, "internal error: no list"),
        }
        Ok(())
    }

    /// Appends each value of an iterable.
    pub(super) fn extend(&mut self, cell: CellId, values: &Value<'a>, span: Span) -> Res<()> {
        self.check_change(cell, span)?;
        let data = match values {
            Value::List(other) => {
                let (elements, ty) = self.elements(*other, span)?;
                if ty == Ty::Unknown {
                    return Ok(());
                }
                self.copied_list(elements, ty, span)?
            }
            other => other.clone(),
        };
        let sink: Sink<'a> = Rc::new(move |tracer, value| {
            tracer.append(cell, &value.variable(), span)?;
            Ok(Completion::normal())
        });
        let done = self.drive(&data, span, &sink)?;
        self.place.pending.extend(&done.exits);
        Ok(())
    }

    /// The values of an iterable as a list.
    pub(super) fn list_from(&mut self, data: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let list = self.new_list(build::vector(Ty::Unknown.weld(), []), Ty::Unknown);
        if let Value::List(cell) = &list {
            self.extend(*cell, data, span)?;
        }
        Ok(list)
    }

    /// `a + b` of lists or strings.
    pub(super) fn concatenated(&mut self, a: &Value<'a>, b: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let (x, y) = (self.type_of(a, span)?, self.type_of(b, span)?);
        let Some(ty) = self.unify(&x, &y, span)? else {
            return error(span, format!("TypeError: `+` does not work on {x} and {y}"));
        };
        let (a, b) = (self.coerced(a, &ty, span)?, self.coerced(b, &ty, span)?);
        let element = a.ty.element().cloned().unwrap_or(weld_core::ty::Type::U8);
        let first = self.builder_of(a, build::appender(element).ty);
        let both = copied(self.flow.names(), b, first);
        let both = self.bind("joined", build::result(both));
        Ok(match ty {
            Ty::List(element) => self.copied_list(both, (*element).clone(), span)?,
            ty => Value::Data(both, ty),
        })
    }

    /// `[a, b] * n`.
    pub(super) fn repeated(&mut self, list: CellId, times: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let (elements, ty) = self.elements(list, span)?;
        let times = self.index_of(times, span)?;
        let times = self.bind("times", build::max(times, build::i64(0)));
        let repeated = build::for_(
            self.flow.names(),
            build::range(build::i64(0), times, build::i64(1)),
            build::appender(ty.weld()),
            |names, b, _, _| match &elements.kind {
                ExprKind::Vector(parts) if parts.len() == 1 => build::merge(b, parts[0].clone()),
                _ => copied(names, elements.clone(), b),
            },
        );
        let list = self.bind("list", build::result(repeated.at(span)));
        self.copied_list(list, ty, span)
    }

    /// Whether some value of an iterable passes (`wanted`), or all do: `any`, `all`, `in`.
    pub(super) fn any(
        &mut self,
        data: &Value<'a>,
        wanted: bool,
        test: Rc<dyn Fn(&mut Tracer<'a>, Value<'a>) -> Res<Value<'a>> + 'a>,
        span: Span,
    ) -> Res<Value<'a>> {
        let found = self.store.cell("found", None, Value::bool(!wanted).variable());
        let label = self.label();
        let frame = self.place.frame;
        let depth = self.place.handlers.len();
        let sink: Sink<'a> = Rc::new(move |tracer, value| {
            let test = test.clone();
            tracer.consume_in(frame, depth, |tracer| {
                let holds = test(tracer, value.variable())?;
                let holds = tracer.truth(&holds, span)?;
                let stop = |tracer: &mut Tracer<'a>| {
                    tracer.store.set(found, Value::bool(wanted).variable());
                    tracer.store.set(super::EXIT, Value::int(label));
                    Ok(Completion::exit(label))
                };
                let idle = |_: &mut Tracer<'a>| Ok(Completion::normal());
                tracer.guarded(span, |tracer| match holds.const_bool() {
                    Some(holds) if holds == wanted => stop(tracer),
                    Some(_) => Ok(Completion::normal()),
                    None => {
                        let cond = holds.data().unwrap_or_else(|| build::bool(true));
                        match wanted {
                            true => tracer.branch(cond, span, stop, idle),
                            false => tracer.branch(cond, span, idle, stop),
                        }
                    }
                })
            })
        });
        let done = self.drive(data, span, &sink)?;
        let done = self.land(label, done);
        self.place.pending.extend(&done.exits);
        Ok(self.store.get(found).clone())
    }

    /// The characters of a string, each a string.
    pub(super) fn characters(&mut self, text: Expr, span: Span, sink: &Sink<'a>) -> Res<Completion> {
        use weld_core::op::Intrinsic::CharLength;
        let text = self.bind("text", text);
        let count = self.bind("n", build::intrinsic(CharLength, [text.clone()]));
        self.repeat(&Over::Count(count), span, &|tracer, step| {
            let character = tracer.character(text.clone(), step.index);
            sink(tracer, character)
        })
    }

    /// The character at an index that the string has.
    pub(super) fn character(&mut self, text: Expr, index: Expr) -> Value<'a> {
        use weld_core::op::Intrinsic::CharOffset;
        let start = self.bind("at", build::intrinsic(CharOffset, [text.clone(), index.clone()]));
        let end = build::intrinsic(CharOffset, [text.clone(), build::add(index, build::i64(1))]);
        let character = build::slice(text, start.clone(), build::sub(end, start));
        self.data("character", character, Ty::Str)
    }
}
