//! Indices and slices.

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_core::ty::ScalarKind;
use weld_pysyntax::{self as py, ExprKind};

use super::loops::Over;
use super::pattern::Binds;
use super::{Completion, Res, Sink, Tracer, error};
use crate::class::written_type;
use crate::signature::SigTy;
use crate::store::CellId;
use crate::types::{Ty, TyArg};
use crate::value::{Callable, Value};

/// What stands between `[` and `]`.
#[derive(Clone)]
pub(super) enum Index<'a> {
    At(Value<'a>),
    Slice([Option<Value<'a>>; 3]),
}

/// Where a slice begins and ends, each within what is sliced.
pub(super) struct Bounds {
    pub(super) lower: Expr,
    pub(super) upper: Expr,
    pub(super) step: Expr,
    /// Whether the step is one.
    pub(super) is_plain: bool,
}

impl<'a> Tracer<'a> {
    pub(super) fn index_expr(&mut self, of: &'a py::Expr, index: &'a py::Expr, span: Span) -> Res<Value<'a>> {
        let value = self.expr(of)?;
        if let Value::Callable(Callable::Class(class, _)) = value {
            return self.parameterized(class, index);
        }
        let at = self.expr_index(index)?;
        self.get_index(&value, &at, span)
    }

    /// `C[Float64, 2]`. In a method the parameters of its class stand for what they are: `C[dtype, ndim - 1]`.
    fn parameterized(&mut self, class: usize, index: &'a py::Expr) -> Res<Value<'a>> {
        let parts = match &index.kind {
            ExprKind::Tuple(parts) => &parts[..],
            _ => std::slice::from_ref(index),
        };
        let mut args = Vec::new();
        for part in parts {
            let arg = match &part.kind {
                ExprKind::Int(value) => TyArg::Int(*value as i64),
                _ => match written_type(part) {
                    Ok(ty) => self.type_argument(ty, part.span)?,
                    Err(message) => match self.expr(part)?.const_int() {
                        Some(value) => TyArg::Int(value),
                        None => return error(part.span, message),
                    },
                },
            };
            args.push(arg);
        }
        Ok(Value::Callable(Callable::Class(class, args.into())))
    }

    /// A type, in which variables may stand for types and numbers, or such a number.
    fn type_argument(&mut self, mut written: SigTy, span: Span) -> Res<TyArg> {
        let frame = self.place.frame;
        written.name_variables(&|name| self.is_variable(frame, name));
        let mut names = Vec::new();
        written.variables(&mut names);
        let mut binds = Binds::default();
        for name in names {
            if !self.is_variable(frame, &name) {
                continue;
            }
            match self.name(&name, span)? {
                Value::Type(ty) => binds.set(&name, TyArg::Ty(ty)),
                value => match value.const_int() {
                    Some(number) => binds.set(&name, TyArg::Int(number)),
                    None => {
                        let found = self.described(&value);
                        let message = format!("expected a type or a number that is known, `{name}` is {found}");
                        return error(span, message);
                    }
                },
            }
        }
        match self.int_arg(&written, &binds) {
            Some(number) => Ok(TyArg::Int(number)),
            None => self.resolve(&written, &mut binds, span).map(TyArg::Ty),
        }
    }

    pub(super) fn expr_index(&mut self, index: &'a py::Expr) -> Res<Index<'a>> {
        match &index.kind {
            ExprKind::Slice { lower, upper, step } => {
                let mut part = |e: &'a Option<Box<py::Expr>>| match e {
                    Some(e) => self.expr(e).map(|value| if matches!(value, Value::None) { None } else { Some(value) }),
                    None => Ok(None),
                };
                Ok(Index::Slice([part(lower)?, part(upper)?, part(step)?]))
            }
            _ => Ok(Index::At(self.expr(index)?)),
        }
    }

    /// An integer as an `i64`.
    pub(super) fn index_of(&mut self, value: &Value<'a>, span: Span) -> Res<Expr> {
        match (self.try_type(value), value.data()) {
            (Some(Ty::Scalar(kind)), Some(e)) if kind.is_integer() => {
                Ok(self.bind("at", build::cast(e, ScalarKind::I64)))
            }
            _ => error(span, format!("TypeError: an index is an integer, found {}", self.described(value))),
        }
    }

    pub(super) fn get_index(&mut self, of: &Value<'a>, at: &Index<'a>, span: Span) -> Res<Value<'a>> {
        match (of, at) {
            (Value::List(cell), Index::At(index)) => {
                let (elements, length, ty) = self.buffer(*cell, span)?;
                let index = self.index_of(index, span)?;
                if ty == Ty::Unknown {
                    let values = vec![index, build::i64(0)];
                    return self.no_element("IndexError", "list index out of range: index {0} of {1}", values, span);
                }
                let (index, holds) = self.position(index, length, "list index out of range", span)?;
                let element = build::lookup(elements, index).at(span);
                let element = self.under(holds, element, "element");
                Ok(self.element_of(*cell, element, &ty))
            }
            (Value::List(cell), Index::Slice(parts)) => {
                let (elements, ty) = self.elements(*cell, span)?;
                self.slice(elements, &ty, parts, span)
            }
            (Value::Tuple(parts), _) => self.tuple_index(parts, at, span),
            (Value::Object(..), Index::At(index)) if self.has_method(of, "__getitem__") => {
                self.call_method(of, "__getitem__", vec![index.clone()], span)
            }
            _ => match (self.try_type(of), of.data(), at) {
                (Some(Ty::Str), Some(text), Index::Slice(parts)) => self.slice_text(text, parts, span),
                (Some(Ty::Str), Some(text), Index::At(index)) => {
                    let text = self.bind("text", text);
                    let index = self.index_of(index, span)?;
                    let length = build::intrinsic(weld_core::op::Intrinsic::CharLength, [text.clone()]);
                    let (index, _) = self.position(index, length, "string index out of range", span)?;
                    Ok(self.character(text, index))
                }
                _ => {
                    let message = format!("TypeError: {} has no elements", self.described(of));
                    error(span, message)
                }
            },
        }
    }

    /// An index from the beginning or, if it is negative, from the end; and what it is read under.
    pub(super) fn position(
        &mut self,
        index: Expr,
        length: Expr,
        message: &str,
        span: Span,
    ) -> Res<(Expr, Option<Expr>)> {
        let length = self.bind("length", length);
        let index = match crate::value::literal_int(&index) {
            Some(known) if known >= 0 => index,
            Some(_) => self.bind("at", build::add(length.clone(), index)),
            None => {
                let from_end = build::add(index.clone(), length.clone());
                self.bind("at", build::select(build::lt(index.clone(), build::i64(0)), from_end, index))
            }
        };
        let inside = build::and(build::ge(index.clone(), build::i64(0)), build::lt(index.clone(), length.clone()));
        let message = format!("{message}: index {{0}} of {{1}}");
        let holds = self.require(inside, "IndexError", &message, vec![index.clone(), length], span);
        Ok((index, holds))
    }

    fn tuple_index(&mut self, parts: &[Value<'a>], at: &Index<'a>, span: Span) -> Res<Value<'a>> {
        match at {
            Index::At(index) => match index.const_int() {
                Some(known) => {
                    let place = if known < 0 { known + parts.len() as i64 } else { known };
                    match usize::try_from(place).ok().and_then(|place| parts.get(place)) {
                        Some(part) => Ok(part.clone()),
                        None => error(span, format!("IndexError: index {known} of a tuple of {}", parts.len())),
                    }
                }
                None => {
                    // Of one type a tuple is a list.
                    let list = self.list_of(parts.to_vec(), span)?;
                    self.get_index(&list, at, span)
                }
            },
            Index::Slice([lower, upper, step]) => {
                let known = |part: &Option<Value<'a>>| part.as_ref().map(|value| value.const_int());
                let [lower, upper, step] = [known(lower), known(upper), known(step)];
                if [lower, upper, step].contains(&Some(None)) {
                    return error(span, "the bounds of a tuple's slice have to be known when compiled");
                }
                let step = step.flatten().unwrap_or(1);
                if step == 0 {
                    return error(span, "ValueError: slice step cannot be zero");
                }
                let length = parts.len() as i64;
                // Downwards a slice begins at the last and ends before the first.
                let (least, most) = if step < 0 { (-1, length - 1) } else { (0, length) };
                let clamp = |at: i64| (if at < 0 { at.saturating_add(length) } else { at }).clamp(least, most);
                let (first, last) = if step < 0 { (most, least) } else { (least, most) };
                let (first, last) = (lower.flatten().map_or(first, clamp), upper.flatten().map_or(last, clamp));
                let (mut at, mut taken) = (first, Vec::new());
                while (step > 0 && at < last) || (step < 0 && at > last) {
                    taken.push(parts[at as usize].clone());
                    at = at.saturating_add(step);
                }
                Ok(Value::tuple(taken))
            }
        }
    }

    /// `xs[lower:upper:step]`: bounds beyond the list are the list's.
    fn slice(&mut self, elements: Expr, ty: &Ty, parts: &[Option<Value<'a>>; 3], span: Span) -> Res<Value<'a>> {
        let length = self.bind("length", build::len(elements.clone()));
        let Bounds { lower, upper, step, is_plain } = self.bounds(length, parts, span)?;
        if is_plain {
            let size = self.bind("size", build::max(build::sub(upper, lower.clone()), build::i64(0)));
            let part = self.bind("part", build::slice(elements, lower, size).at(span));
            return self.copied_list(part, ty.clone(), span);
        }
        let count = super::builtin::steps(lower.clone(), upper, step.clone());
        let count = self.bind("count", count);
        let list = self.new_list(build::vector(ty.weld(), []), ty.clone());
        let Value::List(cell) = list else { return Ok(list) };
        let (ty, elements) = (ty.clone(), elements);
        self.repeat(&Over::Count(count), span, &|tracer, at| {
            let index = build::add(lower.clone(), build::mul(at.index, step.clone()));
            let element = build::lookup(elements.clone(), index).at(span);
            let element = tracer.bind("element", element);
            let value = tracer.value_of(element, &ty);
            tracer.append(cell, &value, span)?;
            Ok(Completion::normal())
        })?;
        Ok(Value::List(cell))
    }

    /// The bounds of a slice of what is so long.
    pub(super) fn bounds(&mut self, length: Expr, parts: &[Option<Value<'a>>; 3], span: Span) -> Res<Bounds> {
        let [lower, upper, step] = parts;
        let step = match step {
            None => build::i64(1),
            Some(step) => self.index_of(step, span)?,
        };
        let holds = build::ne(step.clone(), build::i64(0));
        self.require(known_true(holds), "ValueError", "slice step cannot be zero", Vec::new(), span);
        let known = crate::value::literal_int(&step);
        let is_down = if known.is_some_and(|step| step > 0) {
            build::bool(false)
        } else {
            build::lt(step.clone(), build::i64(0))
        };
        let is_down = self.bind("is_down", is_down);
        let zero = build::i64(0);
        let least = build::select(is_down.clone(), build::i64(-1), zero.clone());
        let most = build::select(is_down.clone(), build::sub(length.clone(), build::i64(1)), length.clone());
        let (least, most) = (self.bind("least", least), self.bind("most", most));
        let mut bound = |part: &Option<Value<'a>>, absent: Expr| -> Res<Expr> {
            let Some(value) = part else { return Ok(absent) };
            let at = self.index_of(value, span)?;
            let from_end = build::add(at.clone(), length.clone());
            let at = self.bind("at", build::select(build::lt(at.clone(), zero.clone()), from_end, at));
            Ok(self.bind("bound", build::min(build::max(at, least.clone()), most.clone())))
        };
        let first = build::select(is_down.clone(), most.clone(), least.clone());
        let last = build::select(is_down, least.clone(), most.clone());
        let (lower, upper) = (bound(lower, first)?, bound(upper, last)?);
        Ok(Bounds { lower, upper, step, is_plain: known == Some(1) })
    }

    /// `of[at] = value`.
    pub(super) fn set_index(
        &mut self,
        of: &Value<'a>,
        written: &'a py::Expr,
        at: &Index<'a>,
        value: Value<'a>,
        span: Span,
    ) -> Res<()> {
        let index = match at {
            Index::At(index) => index,
            Index::Slice(parts) => return self.set_slice(of, parts, &value, span),
        };
        if self.has_method(of, "__setitem__") {
            self.call_method(of, "__setitem__", vec![index.clone(), value], span)?;
            return Ok(());
        }
        let Value::List(cell) = of else {
            let message = format!("TypeError: elements of {} cannot be set", self.described(of));
            return error(span, message);
        };
        // An element of a list in a list: the outer one changes.
        if let ExprKind::Index(outer, inner) = &written.kind
            && self.store.frozen(*cell).is_some()
        {
            return self.set_nested(outer, inner, *cell, index, value, span);
        }
        self.check_change(*cell, span)?;
        let changed = self.updated(*cell, index, value, span)?;
        self.store.set(*cell, changed);
        Ok(())
    }

    /// `of[lower:upper] = value`.
    fn set_slice(&mut self, of: &Value<'a>, parts: &[Option<Value<'a>>; 3], value: &Value<'a>, span: Span) -> Res<()> {
        let Value::List(cell) = of else {
            let message = format!("TypeError: a slice of {} cannot be set", self.described(of));
            return error(span, message);
        };
        self.check_change(*cell, span)?;
        let part = self.list_from(value, span)?;
        let (elements, _) = self.elements(*cell, span)?;
        let length = self.bind("length", build::len(elements));
        let Bounds { lower, upper, is_plain, .. } = self.bounds(length, parts, span)?;
        if !is_plain {
            return error(span, "unsupported: an assignment to a slice with a step");
        }
        let upper = self.bind("upper", build::max(lower.clone(), upper));
        self.splice(*cell, (lower, upper), Some(&part), span)
    }

    /// What a list's cell holds once an element is set.
    fn updated(&mut self, cell: usize, index: &Value<'a>, value: Value<'a>, span: Span) -> Res<Value<'a>> {
        let (elements, length, ty) = self.buffer(cell, span)?;
        let index = self.index_of(index, span)?;
        let (index, holds) = self.position(index, length.clone(), "list assignment index out of range", span)?;
        let of = self.type_of(&value, span)?;
        let Some(wider) = self.unify_elements(&ty, &of, span)? else {
            return error(span, format!("{of} is assigned to an element of a list of {ty}"));
        };
        let elements = self.convert_elements(elements, &ty, &wider, span)?;
        let value = self.element(&value, &wider, span)?;
        let update = build::update(elements.clone(), index, value).at(span);
        let update = match holds {
            Some(holds) => build::if_(holds, update, elements),
            None => update,
        };
        let update = self.bind("list", update);
        Ok(match self.store.get(cell) {
            Value::Buffer(..) => Value::Buffer(update, length, wider),
            _ => Value::Elements(update, wider),
        })
    }

    /// `xss[i][j] = value`, of a list that no other name holds a part of.
    fn set_nested(
        &mut self,
        outer: &'a py::Expr,
        at: &'a py::Expr,
        inner: usize,
        index: &Value<'a>,
        value: Value<'a>,
        span: Span,
    ) -> Res<()> {
        if self.is_in_use(&|cell| self.store.is_element(cell)) {
            return error(span, "this cannot be changed: a variable may hold this list, too");
        }
        self.check_rows(span)?;
        let changed = self.updated(inner, index, value, span)?;
        let Value::Elements(elements, ty) = changed else { return Ok(()) };
        let row = Value::List(self.store.cell("list", None, Value::Elements(elements, ty)));
        let (of, at) = (self.expr(outer)?, self.expr_index(at)?);
        self.set_index(&of, outer, &at, row, span)
    }

    /// Gives the elements of a vector one after the other.
    pub(super) fn each_element(
        &mut self,
        (list, elements): (CellId, Expr),
        ty: &Ty,
        span: Span,
        sink: &Sink<'a>,
    ) -> Res<Completion> {
        let ty = ty.clone();
        self.repeat(&Over::Elements(elements), span, &|tracer, step| {
            let value = tracer.element_of(list, step.element, &ty);
            sink(tracer, value)
        })
    }
}

/// A condition that is known to hold where its parts are literals.
fn known_true(cond: Expr) -> Expr {
    match &cond.kind {
        weld_core::ir::ExprKind::Binary(_, a, b) => {
            match (crate::value::literal_int(a), crate::value::literal_int(b)) {
                (Some(a), Some(b)) => build::bool(a != b),
                _ => cond,
            }
        }
        _ => cond,
    }
}
