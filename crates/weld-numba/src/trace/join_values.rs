//! How the values of two paths become one: what of them is passed on when the program runs, and the value that stands
//! for both.

use std::ops::Range;
use std::rc::Rc;

use weld_core::ir::{Expr, build};
use weld_core::ty::Type;

use super::{Res, Stop, Tracer, error};
use crate::store::{ARGUMENT, CellId, Changes, DEPENDS, FrameId, STORED, TAKEN};
use crate::types::{ObjectTy, Ty};
use crate::value::Value;
use weld_core::diag::Span;

/// What is passed on of a value.
#[derive(Clone, Debug)]
pub(super) enum Plan<'a> {
    /// Nothing: both are the same.
    Same(Value<'a>),
    /// A scalar or string.
    Slot(Ty),
    /// A value of the type that a rule of the program says.
    Ruled(Ty),
    Tuple(Vec<Plan<'a>>),
    /// The elements of a list, which becomes a new one.
    List(Ty, Option<Shared>),
    /// The fields of an object, which becomes a new one.
    Object(Rc<ObjectTy>, Vec<Plan<'a>>, Option<Shared>),
    Maybe(Box<Plan<'a>>),
    /// What a list's cell holds.
    Elements(Ty),
    Buffer(Ty),
    Builder(Type, Ty),
    Fields(Vec<Plan<'a>>),
    /// Of no value and no value.
    Nothing,
}

/// A new list or object that stands for others which somebody else holds, too: a change of it would have to be one of
/// theirs.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// Why it may not be changed.
    why: &'static str,
    /// Those that it may be.
    of: [CellId; 2],
}

impl<'a> Plan<'a> {
    /// The types of what is passed on.
    pub(super) fn types(&self, types: &mut Vec<Type>) {
        match self {
            Plan::Same(_) | Plan::Nothing => {}
            Plan::Slot(ty) | Plan::Ruled(ty) => types.push(ty.weld()),
            Plan::Elements(ty) | Plan::List(ty, _) => types.push(Type::vec(ty.weld())),
            Plan::Buffer(ty) => types.extend([Type::vec(ty.weld()), Type::I64]),
            Plan::Tuple(parts) | Plan::Fields(parts) | Plan::Object(_, parts, _) => {
                parts.iter().for_each(|part| part.types(types));
            }
            Plan::Maybe(inner) => {
                types.push(Type::BOOL);
                inner.types(types);
            }
            Plan::Builder(ty, _) => types.push(ty.clone()),
        }
    }

    /// Whether two plans pass the same on.
    pub(super) fn agrees(&self, other: &Plan<'a>) -> bool {
        let why = |shared: &Option<Shared>| shared.as_ref().map(|shared| shared.why);
        let all = |a: &[Plan<'a>], b: &[Plan<'a>]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.agrees(b));
        match (self, other) {
            (Plan::Same(a), Plan::Same(b)) => a.is_same(b),
            (Plan::List(a, s), Plan::List(b, t)) => a == b && why(s) == why(t),
            (Plan::Slot(a), Plan::Slot(b))
            | (Plan::Ruled(a), Plan::Ruled(b))
            | (Plan::Elements(a), Plan::Elements(b))
            | (Plan::Buffer(a), Plan::Buffer(b)) => a == b,
            (Plan::Builder(a, t), Plan::Builder(b, u)) => a == b && t == u,
            (Plan::Tuple(a), Plan::Tuple(b)) | (Plan::Fields(a), Plan::Fields(b)) => all(a, b),
            (Plan::Object(a, p, s), Plan::Object(b, q, t)) => a == b && all(p, q) && why(s) == why(t),
            (Plan::Maybe(a), Plan::Maybe(b)) => a.agrees(b),
            (Plan::Nothing, Plan::Nothing) => true,
            _ => false,
        }
    }
}

/// Two values that are to become one, and how.
pub(super) struct Join<'j, 'a> {
    /// What the cells hold on each path, where that differs from what they hold now.
    pub(super) sides: [&'j Changes<'a>; 2],
    /// The freezes that each path has not seen.
    pub(super) unseen: [&'j [Range<usize>]; 2],
    /// Scalars are passed on even if both are the same: they are known on the path only, or differ in the next step of
    /// a loop.
    pub(super) is_inner: bool,
    /// Cells from this one on are the paths' own.
    pub(super) mark: CellId,
    /// The cell that holds the values, if one does.
    pub(super) cell: Option<CellId>,
    /// Of what, for messages.
    pub(super) name: &'j str,
    pub(super) span: Span,
}

impl Join<'_, '_> {
    /// Whether the variables of a frame outlive the paths: those of a function do not outlive its result.
    fn is_read(&self, tracer: &Tracer<'_>, frame: FrameId) -> bool {
        let of = &tracer.frames[frame];
        self.cell != Some(of.result) || of.def.as_ref().is_none_or(|def| !def.captured.is_empty())
    }
}

impl<'a> Tracer<'a> {
    pub(super) fn join(&mut self, join: &Join<'_, 'a>, a: &Value<'a>, b: &Value<'a>) -> Res<Plan<'a>> {
        super::deep(|| self.join_here(join, a, b))
    }

    fn join_here(&mut self, join: &Join<'_, 'a>, a: &Value<'a>, b: &Value<'a>) -> Res<Plan<'a>> {
        let is_inner = match a {
            Value::Const(_) | Value::Data(..) => join.is_inner,
            Value::List(cell) | Value::Object(cell, _) => *cell >= join.mark,
            _ => false,
        };
        if a.is_same(b) && !is_inner {
            return match a {
                Value::Nothing => Ok(Plan::Nothing),
                Value::Stream(stream) if stream.state >= join.mark => {
                    error(join.span, format!("the generator escapes: `{}` is made on one path only", join.name))
                }
                _ => Ok(Plan::Same(a.clone())),
            };
        }
        // What is known on one path only is passed on.
        let inner = Join { is_inner: true, ..*join };
        Ok(match (a, b) {
            (Value::Nothing, value) | (value, Value::Nothing) => self.join(&inner, value, value)?,
            (Value::Maybe(_, a), Value::Maybe(_, b)) => Plan::Maybe(Box::new(self.join(join, a, b)?)),
            (Value::Maybe(_, value), Value::Unbound) | (Value::Unbound, Value::Maybe(_, value)) => {
                Plan::Maybe(Box::new(self.join(&inner, value, value)?))
            }
            (Value::Maybe(_, a), b) | (b, Value::Maybe(_, a)) => Plan::Maybe(Box::new(self.join(join, a, b)?)),
            (Value::Unbound, value) | (value, Value::Unbound) => {
                Plan::Maybe(Box::new(self.join(&inner, value, value)?))
            }
            (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => Plan::Tuple(self.join_all(join, a, b)?),
            (Value::Fields(a), Value::Fields(b)) if a.len() == b.len() => Plan::Fields(self.join_all(join, a, b)?),
            (Value::List(x), Value::List(y)) => {
                let (a, b) = (self.element_on(join.sides[0], *x), self.element_on(join.sides[1], *y));
                let ty = self.unified(join, a.as_ref(), b.as_ref(), Ty::list)?;
                Plan::List(ty, self.shared(join, [*x, *y]))
            }
            (Value::Object(x, a), Value::Object(y, b)) if a == b => {
                let shared = self.shared(join, [*x, *y]);
                let (x, y) = (self.on(join.sides[0], *x).clone(), self.on(join.sides[1], *y).clone());
                match (&x, &y) {
                    (Value::Fields(x), Value::Fields(y)) => Plan::Object(a.clone(), self.join_all(join, x, y)?, shared),
                    _ => Plan::Object(a.clone(), Vec::new(), shared),
                }
            }
            (Value::Elements(_, a), Value::Elements(_, b)) => Plan::Elements(self.widest(join, a, b)?),
            (Value::Buffer(.., a), Value::Buffer(.., b) | Value::Elements(_, b))
            | (Value::Elements(_, a), Value::Buffer(.., b)) => Plan::Buffer(self.widest(join, a, b)?),
            (Value::Builder(a, t), Value::Builder(..)) => Plan::Builder(a.ty.clone(), t.clone()),
            _ => {
                let (x, y) = (self.try_type(a), self.try_type(b));
                match (&x, &y) {
                    (Some(Ty::Scalar(_) | Ty::Str), Some(Ty::Scalar(_) | Ty::Str)) => {
                        Plan::Slot(self.unified(join, x.as_ref(), y.as_ref(), |ty| ty)?)
                    }
                    // No rule that is built in has a type for two kinds of values.
                    (Some(x), Some(y)) => match self.unify(x, y, join.span)? {
                        Some(ty @ (Ty::Scalar(_) | Ty::Str)) => Plan::Slot(ty),
                        Some(ty) => Plan::Ruled(ty),
                        None => return self.no_join(join, a, b),
                    },
                    _ => return self.no_join(join, a, b),
                }
            }
        })
    }

    fn join_all(&mut self, join: &Join<'_, 'a>, a: &[Value<'a>], b: &[Value<'a>]) -> Res<Vec<Plan<'a>>> {
        a.iter().zip(b).map(|(a, b)| self.join(join, a, b)).collect()
    }

    /// Whether one of two lists or objects that become one may not be changed, or is held by somebody else.
    fn shared(&self, join: &Join<'_, 'a>, of: [CellId; 2]) -> Option<Shared> {
        let frozen = [0, 1].map(|side: usize| self.store.frozen_but(of[side], join.unseen[side]));
        let is_held = |side: usize| {
            let is_read = |frame, name: &str| join.is_read(self, frame) && self.may_be_read(frame, name);
            self.store.is_held(join.sides[side], join.cell, &is_read, &|cell| cell == of[side])
        };
        let element = frozen.iter().flatten().find(|why| matches!(**why, TAKEN | STORED));
        let why = match element.or_else(|| frozen.iter().flatten().find(|why| **why != ARGUMENT)) {
            Some(why) => why,
            None if (0..2).any(|side| frozen[side].is_none() && is_held(side)) => DEPENDS,
            None => frozen.iter().flatten().next()?,
        };
        Some(Shared { why, of })
    }

    /// The lists whose elements a path passes on as those of new ones.
    pub(super) fn passed_on(&self, plan: &Plan<'a>, value: &Value<'a>, side: &Changes<'a>, lists: &mut Vec<CellId>) {
        match (plan, value) {
            (Plan::List(..), Value::List(cell)) => lists.push(*cell),
            (Plan::Tuple(plans), Value::Tuple(parts)) | (Plan::Fields(plans), Value::Fields(parts)) => {
                plans.iter().zip(parts.iter()).for_each(|(plan, part)| self.passed_on(plan, part, side, lists));
            }
            (Plan::Object(_, plans, _), Value::Object(cell, _)) => {
                if let Value::Fields(parts) = self.on(side, *cell) {
                    plans.iter().zip(parts.iter()).for_each(|(plan, part)| self.passed_on(plan, part, side, lists));
                }
            }
            (Plan::Maybe(plan), Value::Maybe(_, value)) => self.passed_on(plan, value, side, lists),
            (Plan::Maybe(plan), value) => self.passed_on(plan, value, side, lists),
            _ => {}
        }
    }

    /// What a cell holds on a path.
    fn on<'s>(&'s self, side: &'s Changes<'a>, cell: CellId) -> &'s Value<'a> {
        side.get(&cell).unwrap_or_else(|| self.store.get(cell))
    }

    fn element_on(&self, side: &Changes<'a>, cell: CellId) -> Option<Ty> {
        match self.on(side, cell) {
            Value::Elements(_, ty) | Value::Buffer(.., ty) | Value::Builder(_, ty) => Some(ty.clone()),
            _ => None,
        }
    }

    /// The type of what is of one type or the other; `whole` makes the types of the message.
    fn unified(&mut self, join: &Join<'_, 'a>, a: Option<&Ty>, b: Option<&Ty>, whole: impl Fn(Ty) -> Ty) -> Res<Ty> {
        let (Some(a), Some(b)) = (a, b) else { return error(join.span, "internal error: a list without elements") };
        if a == b {
            return Ok(a.clone());
        }
        // Lists are invariant.
        let (x, y) = (whole(a.clone()), whole(b.clone()));
        match (self.unify(&x, &y, join.span)?, &x) {
            (Some(Ty::List(element)), Ty::List(_)) => Ok((*element).clone()),
            (Some(ty), _) => Ok(ty),
            (None, _) => error(join.span, format!("{} is {x} on one path and {y} on another", quoted(join.name))),
        }
    }

    /// The type of the elements of one list that has these on its paths: they go to the wider one, as when they are
    /// appended.
    fn widest(&mut self, join: &Join<'_, 'a>, a: &Ty, b: &Ty) -> Res<Ty> {
        match self.unify_elements(a, b, join.span)? {
            Some(ty) => Ok(ty),
            None => error(join.span, format!("{} is [{a}] on one path and [{b}] on another", quoted(join.name))),
        }
    }

    /// What the elements of a list are unified to, which may be lists of the same list.
    pub(super) fn unify_elements(&mut self, a: &Ty, b: &Ty, span: Span) -> Res<Option<Ty>> {
        match (self.unify(a, b, span)?, a, b) {
            (None, Ty::List(a), Ty::List(b)) => Ok(self.unify_elements(a, b, span)?.map(Ty::list)),
            (ty, ..) => Ok(ty),
        }
    }

    fn no_join<T>(&mut self, join: &Join<'_, 'a>, a: &Value<'a>, b: &Value<'a>) -> Res<T> {
        let name = quoted(join.name);
        let message = match (a, b) {
            (Value::Callable(_), Value::Callable(_)) => {
                format!("{name} is one function on one path and another on another: functions are chosen when compiled")
            }
            (Value::Stream(_), Value::Stream(_)) => {
                format!("the generator escapes: {name} is one on one path and another on another")
            }
            _ => {
                format!("{name} is {} on one path and {} on another", self.described(a), self.described(b))
            }
        };
        error(join.span, message)
    }

    // What is passed on.

    /// What a path passes on of its value.
    pub(super) fn emit(&mut self, value: &Value<'a>, plan: &Plan<'a>, span: Span, out: &mut Vec<Expr>) -> Res<()> {
        match (plan, value) {
            (Plan::Same(_) | Plan::Nothing, _) => {}
            (Plan::Maybe(inner), Value::Maybe(flag, value)) => {
                out.push(flag.clone());
                self.emit(value, inner, span, out)?;
            }
            (Plan::Maybe(inner), Value::Unbound | Value::Nothing) => {
                out.push(build::bool(false));
                self.emit(&Value::Nothing, inner, span, out)?;
            }
            (Plan::Maybe(inner), _) => {
                out.push(build::bool(true));
                self.emit(value, inner, span, out)?;
            }
            (_, Value::Maybe(_, inner)) => self.emit(inner, plan, span, out)?,
            (_, Value::Nothing | Value::Unbound) => {
                let mut types = Vec::new();
                plan.types(&mut types);
                out.extend(types.iter().map(build::zero));
            }
            (Plan::Slot(ty) | Plan::Ruled(ty), _) => out.push(self.coerced(value, ty, span)?),
            (Plan::Tuple(plans), Value::Tuple(parts)) | (Plan::Fields(plans), Value::Fields(parts)) => {
                for (part, plan) in parts.iter().zip(plans) {
                    self.emit(part, plan, span, out)?;
                }
            }
            (Plan::List(element, _), _) => out.push(self.coerced(value, &Ty::list(element.clone()), span)?),
            (Plan::Elements(element), Value::Elements(e, ty)) => {
                let value = self.convert_elements(e.clone(), ty, element, span)?;
                out.push(value);
            }
            (Plan::Elements(element), Value::Buffer(buffer, length, ty)) => {
                let elements = build::slice(buffer.clone(), build::i64(0), length.clone());
                out.push(self.convert_elements(elements, ty, element, span)?);
            }
            (Plan::Buffer(element), Value::Elements(e, ty)) => {
                let elements = self.convert_elements(e.clone(), ty, element, span)?;
                let elements = self.bind("list", elements);
                out.push(self.with_room(elements.clone()));
                out.push(build::len(elements));
            }
            (Plan::Buffer(element), Value::Buffer(buffer, length, ty)) => {
                out.push(self.convert_elements(buffer.clone(), ty, element, span)?);
                out.push(length.clone());
            }
            (Plan::Object(_, plans, _), Value::Object(cell, _)) => {
                let content = self.store.get(*cell).clone();
                self.emit(&content, &Plan::Fields(plans.clone()), span, out)?;
            }
            (Plan::Builder(ty, element), Value::Elements(e, of)) => {
                let e = self.convert_elements(e.clone(), of, element, span)?;
                out.push(self.builder_of(e, ty.clone()));
            }
            (Plan::Builder(..), Value::Builder(e, _)) => out.push(e.clone()),
            _ => {
                return Err(Stop::from(weld_core::diag::Diagnostic::ty(
                    span,
                    "internal error: a value changed its kind",
                )));
            }
        }
        Ok(())
    }

    /// The value that stands for those of all paths, out of what they passed on.
    pub(super) fn take(&mut self, plan: &Plan<'a>, name: &str, from: &mut impl Iterator<Item = Expr>) -> Value<'a> {
        let mut next = || from.next().unwrap_or_else(|| build::bool(false));
        match plan {
            Plan::Same(value) => value.clone(),
            Plan::Nothing => Value::Nothing,
            Plan::Slot(ty) => Value::Data(next(), ty.clone()),
            Plan::Ruled(ty) => {
                let value = next();
                self.value_of(value, ty)
            }
            Plan::Elements(ty) => Value::Elements(next(), ty.clone()),
            Plan::Buffer(ty) => {
                let buffer = next();
                Value::Buffer(buffer, next(), ty.clone())
            }
            Plan::Builder(_, element) => Value::Builder(next(), element.clone()),
            Plan::List(element, shared) => {
                let elements = Value::Elements(next(), element.clone());
                Value::List(self.new_one(name, elements, shared))
            }
            Plan::Maybe(inner) => {
                let flag = next();
                Value::Maybe(flag, Rc::new(self.take(inner, name, from)))
            }
            Plan::Tuple(plans) => Value::tuple(self.take_all(plans, name, from)),
            Plan::Fields(plans) => Value::Fields(self.take_all(plans, name, from).into()),
            Plan::Object(ty, plans, shared) => {
                let fields = Value::Fields(self.take_all(plans, name, from).into());
                Value::Object(self.new_one(name, fields, shared), ty.clone())
            }
        }
    }

    fn new_one(&mut self, name: &str, content: Value<'a>, shared: &Option<Shared>) -> CellId {
        let cell = self.store.cell(name, None, content);
        if let Some(Shared { why, of }) = shared {
            self.store.freeze(cell, why);
            self.store.alias(cell, of);
        }
        cell
    }

    fn take_all(&mut self, plans: &[Plan<'a>], name: &str, from: &mut impl Iterator<Item = Expr>) -> Vec<Value<'a>> {
        plans.iter().map(|plan| self.take(plan, name, from)).collect()
    }
}

/// What is joined, for messages: a variable in quotes, anything else as it is described.
fn quoted(name: &str) -> String {
    if name.contains(' ') { name.to_owned() } else { format!("`{name}`") }
}
