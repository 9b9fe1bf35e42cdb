//! Exceptions: one that a `try` around catches is a jump, every other ends the run with its class and text.

use std::sync::Arc;

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_core::ty::Type;
use weld_pysyntax::{self as py, ExprKind, Stmt};

use super::{Completion, EXIT, Handler, Label, Res, Stop, Tracer, error};
use crate::value::{Callable, Const, Value};

/// Exceptions that have names here. A program may raise others.
pub(super) const EXCEPTIONS: [&str; 12] = [
    "Exception",
    "ArithmeticError",
    "AssertionError",
    "IndexError",
    "KeyError",
    "LookupError",
    "NotImplementedError",
    "OverflowError",
    "RuntimeError",
    "StopIteration",
    "TypeError",
    "ZeroDivisionError",
];

pub(super) fn is_exception(name: &str) -> bool {
    EXCEPTIONS.contains(&name) || name.ends_with("Error") || name.ends_with("Exception")
}

impl<'a> Tracer<'a> {
    /// The handler of an exception of a class: the innermost that names it.
    pub(super) fn handler(&self, class: &str) -> Option<Label> {
        let catches =
            |handler: &&Handler| handler.class.as_deref().is_none_or(|caught| caught == class || caught == "Exception");
        self.place.handlers.iter().rev().find_map(|clauses| clauses.iter().find(catches)).map(|handler| handler.label)
    }

    /// Raises an exception unless the condition holds. Gives the condition under which to go on, where the exception is caught:
    /// what could not be done otherwise is done under it.
    pub(super) fn require(
        &mut self,
        holds: Expr,
        class: &str,
        message: &str,
        values: Vec<Expr>,
        span: Span,
    ) -> Option<Expr> {
        if matches!(holds.kind, weld_core::ir::ExprKind::Literal(weld_core::ir::Literal::Bool(true))) {
            return None;
        }
        let is_pending = !self.place.pending.is_empty();
        let Some(label) = self.handler(class) else {
            let holds = if is_pending { self.bind("holds", holds) } else { holds };
            let checked = match is_pending {
                true => build::or(build::ne(self.exit_code(), build::i64(0)), holds.clone()),
                false => holds.clone(),
            };
            let text = if message.is_empty() { class.to_owned() } else { format!("{class}: {message}") };
            self.flow.keep("checked", build::require(checked, &text, values).at(span));
            return is_pending.then_some(holds);
        };
        let holds = self.bind("holds", holds);
        let code = self.exit_code();
        let raised = match is_pending {
            true => build::and(build::eq(code.clone(), build::i64(0)), build::not(holds.clone())),
            false => build::not(holds.clone()),
        };
        let code = self.bind("exit", build::select(raised, build::i64(label), code));
        self.store.set(EXIT, Value::scalar(code));
        if !self.place.pending.contains(&label) {
            self.place.pending.push(label);
        }
        Some(holds)
    }

    /// What may only be evaluated if a condition that `require` gave holds.
    pub(super) fn under(&mut self, holds: Option<Expr>, value: Expr, name: &str) -> Expr {
        let ty: Type = value.ty.clone();
        let span = value.span;
        let value = match holds {
            Some(holds) => build::if_(holds, value, build::zero(&ty)).at(span),
            None => value,
        };
        self.flow.bind(name, value)
    }

    /// `raise`: a jump to the handler, or the end of the run.
    pub(super) fn raise(&mut self, class: &str, text: &str, span: Span) -> Res<Completion> {
        if self.place.is_rule {
            return Err(Stop::Refused(text.to_owned()));
        }
        match self.handler(class) {
            Some(label) => {
                self.store.set(EXIT, Value::int(label));
                Ok(Completion::exit(label))
            }
            None => {
                // Braces would stand for values.
                let text = text.replace('{', "(").replace('}', ")");
                self.require(build::bool(false), class, &text, Vec::new(), span);
                Ok(Completion::default())
            }
        }
    }

    pub(super) fn raise_statement(&mut self, exception: Option<&'a py::Expr>, span: Span) -> Res<Completion> {
        let Some(e) = exception else { return error(span, "unsupported: raise without an exception") };
        let value = self.expr(e)?;
        let (class, text) = match value {
            Value::Exception(class, text) => (class, text),
            Value::Callable(Callable::Builtin(class)) if is_exception(class) => (class.into(), "".into()),
            other => {
                let message = format!("expected an exception, found {}", self.described(&other));
                return error(e.span, message);
            }
        };
        let place = e.span;
        self.guarded(span, |tracer| tracer.raise(&class, &text, place))
    }

    /// `E("text")`.
    pub(super) fn exception(&mut self, class: &str, args: &[Value<'a>], span: Span) -> Res<Value<'a>> {
        let text: Arc<str> = match args {
            [] => "".into(),
            [Value::Const(Const::Str(text))] => text.clone(),
            [Value::Const(other)] => other.to_string().into(),
            _ => return error(span, format!("the text of `{class}` has to be a literal")),
        };
        Ok(Value::Exception(class.into(), text))
    }

    /// `try: body except E: handler else: orelse finally: finally`.
    pub(super) fn try_statement(
        &mut self,
        body: &'a [Stmt],
        handlers: &'a [py::Handler],
        orelse: &'a [Stmt],
        finally: &'a [Stmt],
        span: Span,
    ) -> Res<Completion> {
        let mut clauses = Vec::new();
        for handler in handlers {
            let classes = self.caught(handler)?;
            let label = self.label();
            clauses.push((classes, label));
        }
        let catching = clauses
            .iter()
            .flat_map(|(classes, label)| classes.iter().map(|class| Handler { class: class.clone(), label: *label }));
        self.place.handlers.push(catching.collect());
        // What the handlers read has to be kept.
        let mut done = self.block(body);
        self.place.handlers.pop();
        if let Ok(ended) = &done
            && ended.normal
            && !orelse.is_empty()
        {
            let ended = ended.clone();
            done = self.after(ended, span, |tracer| tracer.block(orelse));
        }
        let mut done = done?;
        for ((_, label), handler) in clauses.iter().zip(handlers) {
            if !done.exits.contains(label) {
                continue;
            }
            let code = self.exit_code();
            let is_only = !done.normal && done.exits.len() == 1;
            done.exits.retain(|exit| exit != label);
            if is_only {
                self.store.set(EXIT, Value::int(0));
                done = self.block(&handler.body)?;
                continue;
            }
            let here = self.bind("caught", build::eq(code, build::i64(*label)));
            let elsewhere = done.clone();
            let body = |tracer: &mut Self| {
                tracer.store.set(EXIT, Value::int(0));
                tracer.block(&handler.body)
            };
            done = self.branch(here, handler.span, body, |_| Ok(elsewhere))?;
        }
        match finally {
            [] => Ok(done),
            _ => self.finally(done, finally, span),
        }
    }

    /// Statements that run however those before ended.
    fn finally(&mut self, before: Completion, finally: &'a [Stmt], span: Span) -> Res<Completion> {
        if before.diverges() {
            return Ok(before);
        }
        let code = self.store.get(EXIT).clone();
        self.store.set(EXIT, Value::int(0));
        let done = self.block(finally)?;
        if !done.exits.is_empty() {
            return error(span, "unsupported: a jump or a caught exception out of `finally`");
        }
        self.store.set(EXIT, code);
        Ok(if done.normal { before } else { done })
    }

    /// The classes that a clause catches; none is every class.
    fn caught(&mut self, handler: &'a py::Handler) -> Res<Vec<Option<Arc<str>>>> {
        if let Some(name) = &handler.name {
            return error(name.span, format!("unsupported: the exception as `{}`", name.name));
        }
        let Some(exception) = &handler.exception else { return Ok(vec![None]) };
        let class = |e: &'a py::Expr| match e.as_name().filter(|name| is_exception(name)) {
            Some(name) => Ok(Some(Arc::from(name))),
            None => error(e.span, format!("expected the name of an exception, found {}", e.described())),
        };
        match &exception.kind {
            ExprKind::Tuple(parts) => parts.iter().map(class).collect(),
            _ => Ok(vec![class(exception)?]),
        }
    }
}
