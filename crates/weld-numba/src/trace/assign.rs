//! Assignments.

use std::sync::Arc;

use weld_core::diag::Span;
use weld_core::ir::build;
use weld_pysyntax::{self as py, BinaryOp, ExprKind};

use super::{Completion, Res, Tracer, error};
use crate::types::Ty;
use crate::value::Value;

impl<'a> Tracer<'a> {
    /// Sets a variable of the current frame.
    pub(super) fn set_variable(&mut self, name: &str, value: Value<'a>) {
        let frame = self.place.frame;
        match self.store.variable(frame, name) {
            Some(cell) => self.store.set(cell, value),
            None => {
                self.declare(frame, name, value);
            }
        }
    }

    /// Whether nobody reads the variable after a jump out of the block that is being run: it may be set whether one is
    /// under way.
    pub(super) fn is_free(&self, name: &str) -> bool {
        let frame = self.frame();
        if frame.def.as_ref().is_none_or(|def| def.captured.contains(name)) {
            return false;
        }
        let Some((inner, outer)) = frame.cursors.split_last() else { return false };
        let also = |cursor: &super::Cursor<'a>| cursor.also.as_ref().is_some_and(|also| also.exposed.contains(name));
        !also(inner)
            && !outer.iter().any(|cursor| also(cursor) || cursor.last.get(name).is_some_and(|last| *last > cursor.at))
    }

    /// Makes the variables of a target that is assigned unless a jump is under way.
    pub(super) fn declare_target(&mut self, target: &'a py::Expr) {
        if self.place.pending.is_empty() {
            return;
        }
        match &target.kind {
            ExprKind::Name(name) if self.store.variable(self.place.frame, name).is_none() => {
                self.declare(self.place.frame, name, Value::Unbound);
            }
            ExprKind::Tuple(parts) | ExprKind::List(parts) => parts.iter().for_each(|part| self.declare_target(part)),
            _ => {}
        }
    }

    pub(super) fn assign(&mut self, target: &'a py::Expr, value: Value<'a>) -> Res<()> {
        match &target.kind {
            ExprKind::Name(name) => {
                if matches!(value, Value::Nothing) {
                    return error(target.span, format!("`{name}` gets no value"));
                }
                self.set_variable(name, value);
                Ok(())
            }
            ExprKind::Tuple(targets) | ExprKind::List(targets) => {
                let parts = self.unpack(&value, targets.len(), target.span)?;
                self.assign_all(targets, parts)
            }
            ExprKind::Attribute(of, name) => {
                let of = self.expr(of)?;
                self.set_attribute(&of, &name.name, value, target.span)
            }
            ExprKind::Index(of, index) => {
                let (of_value, at) = (self.expr(of)?, self.expr_index(index)?);
                self.set_index(&of_value, of, &at, value, target.span)
            }
            _ => error(target.span, format!("{} cannot be assigned to", target.described())),
        }
    }

    /// One target after the other: a part that waits for its turn is held.
    fn assign_all(&mut self, targets: &'a [py::Expr], parts: Vec<Value<'a>>) -> Res<()> {
        let held = self.place.driven.len();
        if !self.rows.are_swapped {
            self.place.driven.extend(parts.iter().rev().cloned());
        }
        let assigned = targets.iter().zip(parts).try_for_each(|(target, part)| {
            if self.place.driven.len() > held {
                self.place.driven.pop();
            }
            self.assign(target, part)
        });
        self.place.driven.truncate(held);
        assigned
    }

    /// The parts of a tuple or list, so many.
    pub(super) fn unpack(&mut self, value: &Value<'a>, count: usize, span: Span) -> Res<Vec<Value<'a>>> {
        match value {
            Value::Tuple(parts) if parts.len() == count => Ok(parts.to_vec()),
            Value::Tuple(parts) => error(span, format!("expected {count} values to unpack, found {}", parts.len())),
            Value::List(cell) => {
                let (elements, ty) = self.elements(*cell, span)?;
                let length = self.bind("n", build::len(elements.clone()));
                let holds = build::eq(length.clone(), build::i64(count as i64));
                let message = format!("expected {count} values to unpack, found {{0}}");
                if ty == Ty::Unknown && count > 0 {
                    return self.no_element("ValueError", &message, vec![length], span);
                }
                let holds = self.require(holds, "ValueError", &message, vec![length], span);
                let mut parts = Vec::new();
                for index in 0..count {
                    let element = build::lookup(elements.clone(), build::i64(index as i64)).at(span);
                    let element = self.under(holds.clone(), element, "part");
                    parts.push(self.value_of(element, &ty));
                }
                Ok(parts)
            }
            Value::Stream(_) => {
                let list = self.list_from(value, span)?;
                self.unpack(&list, count, span)
            }
            other => error(span, format!("expected {count} values to unpack, found {}", self.described(other))),
        }
    }

    /// `target op= value`.
    pub(super) fn augment(
        &mut self,
        target: &'a py::Expr,
        op: BinaryOp,
        value: &'a py::Expr,
        span: Span,
    ) -> Res<Completion> {
        match &target.kind {
            ExprKind::Name(name) => {
                let old = self.expr(target)?;
                let value = self.expr(value)?;
                if let (Value::List(cell), BinaryOp::Add) = (&old, op) {
                    let cell = *cell;
                    return self.guarded(span, |tracer| {
                        tracer.extend(cell, &value, span)?;
                        Ok(Completion::normal())
                    });
                }
                let new = self.augmented(op, &old, &value, span)?.variable();
                let name: Arc<str> = name.clone();
                self.guarded(span, |tracer| {
                    tracer.set_variable(&name, new);
                    Ok(Completion::normal())
                })
            }
            ExprKind::Attribute(of, name) => {
                let of = self.expr(of)?;
                let old = self.attribute(&of, &name.name, target.span)?;
                let value = self.expr(value)?;
                let new = self.augmented(op, &old, &value, span)?;
                self.guarded(span, |tracer| {
                    tracer.set_attribute(&of, &name.name, new, target.span)?;
                    Ok(Completion::normal())
                })
            }
            ExprKind::Index(of, index) => {
                let (of_value, at) = (self.expr(of)?, self.expr_index(index)?);
                let old = self.get_index(&of_value, &at, target.span)?;
                let value = self.expr(value)?;
                let new = self.augmented(op, &old, &value, span)?;
                self.guarded(span, |tracer| {
                    tracer.set_index(&of_value, of, &at, new, target.span)?;
                    Ok(Completion::normal())
                })
            }
            _ => error(target.span, format!("{} cannot be assigned to", target.described())),
        }
    }

    /// `old op= value`: by the special method of the assignment, else by that of the operator.
    fn augmented(&mut self, op: BinaryOp, old: &Value<'a>, value: &Value<'a>, span: Span) -> Res<Value<'a>> {
        let method = match op {
            BinaryOp::Add => "__iadd__",
            BinaryOp::Sub => "__isub__",
            BinaryOp::Mul => "__imul__",
            BinaryOp::Div => "__itruediv__",
            _ => return self.binary(op, old, value, span),
        };
        match self.has_method(old, method) {
            true => self.call_method(old, method, vec![value.clone()], span),
            false => self.binary(op, old, value, span),
        }
    }
}
