//! What lists can do beside being appended to: sorting, searching, insertion, removal; a copy of the list for each.

use std::rc::Rc;

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_core::op::{Intrinsic, MergeOp, ReduceOp};
use weld_core::ty::{ScalarKind, Type};
use weld_pysyntax::{BinaryOp, CompareOp};

use super::call::Keywords;
use super::convert::copied;
use super::{Completion, Res, Sink, Tracer, error};
use crate::store::CellId;
use crate::stream::Source;
use crate::types::Ty;
use crate::value::Value;

impl<'a> Tracer<'a> {
    // Sorting.

    /// `sorted(data, key=.., reverse=..)`: a new list.
    pub(super) fn sorted(&mut self, data: &Value<'a>, keywords: Keywords<'a>, span: Span) -> Res<Value<'a>> {
        let (mut key, mut is_down) = (None, build::bool(false));
        for (name, value) in keywords {
            match &*name {
                "key" if matches!(value, Value::None) => {}
                "key" => key = Some(value),
                "reverse" => {
                    let reverse = self.truth(&value, span)?;
                    is_down = reverse.data().unwrap_or(is_down);
                }
                _ => return error(span, format!("TypeError: `sorted` takes no argument `{name}`")),
            }
        }
        let list = match &key {
            Some(key) => self.keyed(data, key.clone(), span)?,
            None => self.list_from(data, span)?,
        };
        let Value::List(cell) = list else { return Ok(list) };
        let (elements, ty) = self.elements(cell, span)?;
        if ty == Ty::Unknown {
            return Ok(list);
        }
        let is_down = self.bind("is_down", is_down);
        let sorted = self.sort(elements, &ty, key.is_some(), &is_down, span)?;
        let (Ty::Tuple(parts), true) = (&ty, key.is_some()) else { return Ok(self.new_list(sorted, ty)) };
        let of = parts[1].clone();
        let appender = build::appender(of.weld());
        let values = build::for_(self.flow.names(), build::over(sorted), appender, |_, b, _, pair| {
            build::merge(b, build::field(pair, 1))
        });
        Ok(self.new_list(build::result(values.at(span)), of))
    }

    /// A list of the values with their keys before them.
    fn keyed(&mut self, data: &Value<'a>, key: Value<'a>, span: Span) -> Res<Value<'a>> {
        let pairs = self.list_of(Vec::new(), span)?;
        let Value::List(cell) = pairs else { return Ok(pairs) };
        let sink: Sink<'a> = Rc::new(move |tracer, value| {
            let value = value.variable();
            let key = tracer.call(&key, vec![value.clone()], Vec::new(), span)?;
            tracer.guarded(span, |tracer| {
                tracer.append(cell, &Value::tuple([key, value]).variable(), span)?;
                Ok(Completion::normal())
            })
        });
        let done = self.drive(data, span, &sink)?;
        self.place.pending.extend(&done.exits);
        Ok(Value::List(cell))
    }

    fn sort(&mut self, elements: Expr, ty: &Ty, is_keyed: bool, is_down: &Expr, span: Span) -> Res<Expr> {
        let names = self.flow.names();
        let (a, b) = (names.fresh("a"), names.fresh("b"));
        self.flow.open();
        let (x, y) = (build::var(a, ty.weld()), build::var(b, ty.weld()));
        let order = match (ty, is_keyed) {
            (Ty::Tuple(parts), true) => self.order(build::field(x, 0), build::field(y, 0), &parts[0].clone(), span)?,
            _ => self.order(x, y, ty, span)?,
        };
        let order = self.bind("order", order);
        let back = build::sub(build::i32(0), order.clone());
        let body = Box::new(self.flow.close(build::select(is_down.clone(), back, order)));
        let params = vec![(a, ty.weld()), (b, ty.weld())];
        let compare = weld_core::ir::Func { params, body };
        let kind = weld_core::ir::ExprKind::Sort { data: Box::new(elements.clone()), compare };
        Ok(self.bind("sorted", build::node(kind, elements.ty).at(span)))
    }

    /// Below, at or above zero as the first is less than, like or greater than the second.
    fn order(&mut self, x: Expr, y: Expr, ty: &Ty, span: Span) -> Res<Expr> {
        // A comparison with a NaN says nothing: an order has to put it somewhere.
        let (x, y) = match ty {
            Ty::Scalar(kind) if kind.is_float() => {
                let key = |e: Expr| build::intrinsic(Intrinsic::OrderKey, [e]);
                (key(x), key(y))
            }
            _ => (x, y),
        };
        let (x, y) = (self.bind("x", x), self.bind("y", y));
        let three = |is_less: Expr, is_more: Expr| {
            build::select(is_less, build::i32(-1), build::select(is_more, build::i32(1), build::i32(0)))
        };
        match ty {
            Ty::Scalar(_) | Ty::Str | Ty::List(_) => Ok(three(build::lt(x.clone(), y.clone()), build::gt(x, y))),
            Ty::Tuple(parts) => {
                let mut order = build::i32(0);
                for (index, part) in parts.iter().enumerate().rev() {
                    let of = self.order(build::field(x.clone(), index), build::field(y.clone(), index), part, span)?;
                    let of = self.bind("order", of);
                    order = self.bind("order", build::select(build::eq(of.clone(), build::i32(0)), order, of));
                }
                Ok(order)
            }
            _ => {
                let (a, b) = (self.value_of(x, ty), self.value_of(y, ty));
                let is_less = self.compare_values(CompareOp::Lt, &a, &b, span)?;
                let is_more = self.compare_values(CompareOp::Lt, &b, &a, span)?;
                let of = |value: Value<'a>| value.data().filter(|e| e.ty == Type::BOOL);
                match (of(is_less), of(is_more)) {
                    (Some(is_less), Some(is_more)) => Ok(three(is_less, is_more)),
                    _ => error(span, format!("TypeError: `<` of {ty} gives no Bool")),
                }
            }
        }
    }

    /// `reversed(data)`.
    pub(super) fn reversed(&mut self, data: &Value<'a>, span: Span) -> Res<Value<'a>> {
        if let Value::Tuple(parts) = data {
            return Ok(Value::tuple(parts.iter().rev().cloned()));
        }
        if let Value::Stream(stream) = data
            && let Source::Range { start, step, count } = &stream.source
        {
            let last = build::add(start.clone(), build::mul(build::sub(count.clone(), build::i64(1)), step.clone()));
            let back = build::sub(build::i64(0), step.clone());
            let (start, step, count) = (self.bind("last", last), self.bind("back", back), count.clone());
            return Ok(self.stream(Source::Range { start, step, count }, span));
        }
        let list = self.list_from(data, span)?;
        let Value::List(cell) = list else { return Ok(list) };
        let (elements, ty) = self.elements(cell, span)?;
        let reversed = self.backwards(elements, span);
        Ok(self.new_list(reversed, ty))
    }

    fn backwards(&mut self, elements: Expr, span: Span) -> Expr {
        let Some(ty) = elements.ty.element().cloned() else { return elements };
        let length = self.bind("length", build::len(elements.clone()));
        let range = build::range(build::i64(0), length.clone(), build::i64(1));
        let looped = build::for_(self.flow.names(), range, build::appender(ty), |_, b, index, _| {
            let at = build::sub(build::sub(length, build::i64(1)), index);
            build::merge(b, build::lookup(elements, at).at(span))
        });
        self.bind("list", build::result(looped.at(span)))
    }

    // Methods of lists.

    /// A method that leaves the list as it is; none if there is none of that name.
    pub(super) fn list_reader(
        &mut self,
        cell: CellId,
        name: &str,
        args: &[Value<'a>],
        span: Span,
    ) -> Res<Option<Value<'a>>> {
        Ok(Some(match (name, args) {
            ("copy", []) => {
                let (elements, ty) = self.elements(cell, span)?;
                self.copied_list(elements, ty, span)?
            }
            ("count", [value]) => self.count(cell, value, span)?,
            ("index", [value]) => {
                let at = self.index_in(cell, value, "the value is not in the list", span)?;
                Value::scalar(at)
            }
            _ => return Ok(None),
        }))
    }

    /// A method that changes the list; none if there is none of that name.
    pub(super) fn list_changer(
        &mut self,
        cell: CellId,
        name: &str,
        args: &[Value<'a>],
        keywords: Keywords<'a>,
        span: Span,
    ) -> Res<Option<Value<'a>>> {
        match (name, args) {
            ("append", [value]) => self.append(cell, &value.clone().variable(), span)?,
            ("extend", [values]) => self.extend(cell, values, span)?,
            ("insert", [at, value]) => self.insert(cell, at, value, span)?,
            ("pop", []) => return self.pop(cell, span).map(Some),
            ("pop", [at]) => return self.pop_at(cell, at, span).map(Some),
            ("remove", [value]) => {
                self.check_change(cell, span)?;
                let at = self.index_in(cell, value, "list.remove(x): x not in list", span)?;
                // Where the error is caught, it is the length: nothing is taken out.
                let length = self.buffer(cell, span)?.1;
                let after = self.bind("after", build::min(build::add(at.clone(), build::i64(1)), length));
                self.splice(cell, (at, after), None, span)?;
            }
            ("clear", []) => {
                self.check_change(cell, span)?;
                let (_, ty) = self.elements(cell, span)?;
                self.store.set(cell, Value::Elements(build::vector(ty.weld(), []), ty));
            }
            ("reverse", []) => {
                self.check_change(cell, span)?;
                let (elements, ty) = self.elements(cell, span)?;
                let elements = self.backwards(elements, span);
                self.store.set(cell, Value::Elements(elements, ty));
            }
            ("sort", []) => {
                self.check_change(cell, span)?;
                let sorted = self.sorted(&Value::List(cell), keywords, span)?;
                if let Value::List(sorted) = sorted {
                    let (elements, ty) = self.elements(sorted, span)?;
                    self.store.set(cell, Value::Elements(elements, ty));
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(Value::None))
    }

    /// `xs.count(value)`.
    fn count(&mut self, cell: CellId, value: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let (elements, ty) = self.elements(cell, span)?;
        let names = self.flow.names();
        let (b, i, x) = (names.fresh("b"), names.fresh("i"), names.fresh("x"));
        let merger = build::merger(Type::I64, MergeOp::All(ReduceOp::Add));
        self.flow.open();
        let element = self.value_of(build::var(x, ty.weld()), &ty);
        let is_same = self.compare_values(CompareOp::Eq, &element, value, span)?;
        let is_same = self.truth(&is_same, span)?.data().unwrap_or_else(|| build::bool(false));
        let merged = build::merge(build::var(b, merger.ty.clone()), build::cast(is_same, ScalarKind::I64));
        let body = Box::new(self.flow.close(merged));
        let params = vec![(b, merger.ty.clone()), (i, Type::I64), (x, ty.weld())];
        let looped = build::for_func(build::over(elements), merger, weld_core::ir::Func { params, body }).at(span);
        Ok(Value::scalar(self.bind("count", build::result(looped))))
    }

    /// Where the first element is that equals the value.
    fn index_in(&mut self, cell: CellId, value: &Value<'a>, missing: &str, span: Span) -> Res<Expr> {
        let position = self.store.cell("the position", None, Value::int(0).variable());
        let value = value.clone();
        let is_found = move |tracer: &mut Tracer<'a>, element: Value<'a>| {
            let is_same = tracer.compare_values(CompareOp::Eq, &element, &value, span)?;
            let other = tracer.negated(is_same.clone())?;
            let other = other.data().unwrap_or_else(|| build::bool(true));
            let at = tracer.store.get(position).clone();
            let step = tracer.scalar(build::cast(other, ScalarKind::I64));
            let next = tracer.binary(BinaryOp::Add, &at, &step, span)?;
            tracer.store.set(position, next);
            Ok(is_same)
        };
        let found = self.any(&Value::List(cell), true, Rc::new(is_found), span)?;
        let found = found.data().unwrap_or_else(|| build::bool(false));
        self.require(found, "ValueError", missing, Vec::new(), span);
        Ok(self.store.get(position).data().unwrap_or_else(|| build::i64(0)))
    }

    /// `xs.insert(at, value)`.
    fn insert(&mut self, cell: CellId, at: &Value<'a>, value: &Value<'a>, span: Span) -> Res<()> {
        self.check_change(cell, span)?;
        let at = self.index_of(at, span)?;
        let part = self.list_of(vec![value.clone()], span)?;
        let length = self.buffer(cell, span)?.1;
        let from_end = build::max(build::add(at.clone(), length.clone()), build::i64(0));
        let at = build::select(build::lt(at.clone(), build::i64(0)), from_end, build::min(at, length));
        let at = self.bind("at", at);
        self.splice(cell, (at.clone(), at), Some(&part), span)
    }

    /// `xs.pop(at)`.
    fn pop_at(&mut self, cell: CellId, at: &Value<'a>, span: Span) -> Res<Value<'a>> {
        self.check_change(cell, span)?;
        let (elements, length, ty) = self.buffer(cell, span)?;
        let at = self.index_of(at, span)?;
        if ty == Ty::Unknown {
            return self.no_element("IndexError", "pop from empty list", Vec::new(), span);
        }
        let (at, holds) = self.position(at, length.clone(), "pop index out of range", span)?;
        let element = build::lookup(elements, at.clone()).at(span);
        let element = self.under(holds.clone(), element, "element");
        // Where the error is caught, nothing is taken out.
        let at = match holds {
            Some(holds) => self.bind("at", build::select(holds, at, length.clone())),
            None => at,
        };
        let after = self.bind("after", build::min(build::add(at.clone(), build::i64(1)), length));
        self.splice(cell, (at, after), None, span)?;
        Ok(self.value_of(element, &ty))
    }

    /// Puts other elements in the place of those from one index on up to another.
    pub(super) fn splice(
        &mut self,
        cell: CellId,
        (from, to): (Expr, Expr),
        part: Option<&Value<'a>>,
        span: Span,
    ) -> Res<()> {
        let (elements, ty) = self.elements(cell, span)?;
        let (ty, elements, part) = match part {
            None => (ty, elements, None),
            Some(part) => {
                let of = self.type_of(part, span)?;
                let Some(Ty::List(wider)) = self.unify_elements(&Ty::list(ty.clone()), &of, span)? else {
                    return error(span, format!("{of} is put into a list of {ty}"));
                };
                let elements = self.convert_elements(elements, &ty, &wider, span)?;
                let Value::List(part) = part else { return error(span, "internal error: no list") };
                let (part, of) = self.elements(*part, span)?;
                let part = self.convert_elements(part, &of, &wider, span)?;
                ((*wider).clone(), elements, Some(part))
            }
        };
        let length = self.bind("length", build::len(elements.clone()));
        let begin = build::slice(elements.clone(), build::i64(0), from);
        let end = build::slice(elements, to.clone(), build::sub(length, to));
        let names = self.flow.names();
        let mut joined = copied(names, begin, build::appender(ty.weld()));
        for part in part.into_iter().chain([end]) {
            joined = copied(names, part, joined);
        }
        let joined = self.bind("list", build::result(joined.at(span)));
        self.store.set(cell, Value::Elements(joined, ty));
        Ok(())
    }
}
