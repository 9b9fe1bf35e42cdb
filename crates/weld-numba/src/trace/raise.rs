//! Exceptions: one that a `try` around catches is a jump, every other ends the run with its class and text.

use std::sync::Arc;

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_core::ty::Type;
use weld_pysyntax::{self as py, ExprKind, Stmt};

use super::{Completion, EXIT, Handler, Res, Stop, Tracer, error};
use crate::store::CellId;
use crate::value::{Callable, Const, Raised, Value};

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

pub(crate) fn is_exception(name: &str) -> bool {
    EXCEPTIONS.contains(&name) || name.ends_with("Error") || name.ends_with("Exception")
}

impl<'a> Tracer<'a> {
    /// The handler of an exception of a class: the innermost that names it.
    pub(super) fn handler(&self, class: &str) -> Option<Handler> {
        let catches = |handler: &&Handler| {
            let is_caught = |caught: &str| caught == "Exception" || self.module.extends(class, caught);
            handler.class.as_deref().is_none_or(is_caught)
        };
        self.place.handlers.iter().rev().find_map(|clauses| clauses.iter().find(catches)).cloned()
    }

    /// The number of an exception among those that a handler may catch.
    fn number_of(&mut self, cause: CellId, class: &str, (text, values): (&str, &[Expr]), span: Span) -> i64 {
        // The values of a message are not kept.
        let text = match values {
            [] => text,
            _ => {
                let text = text.split('{').next().unwrap_or("");
                text.strip_suffix(": index ").unwrap_or(text.trim_end())
            }
        };
        let raised = Raised { class: class.into(), text: text.into(), span };
        let known = self.raised.entry(cause).or_default();
        let at = known.iter().position(|other| *other == raised).unwrap_or_else(|| {
            known.push(raised);
            known.len() - 1
        });
        at as i64
    }

    /// Raises an exception unless the condition holds. Gives the condition under which to go on, where the exception is
    /// caught: what could not be done otherwise is done under it.
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
        let Some(Handler { label, cause, .. }) = self.handler(class) else {
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
        if let Some(cause) = cause {
            let number = self.number_of(cause, class, (message, &values), span);
            let before = self.store.get(cause).data().unwrap_or_else(|| build::i64(0));
            let number = self.scalar(build::select(raised.clone(), build::i64(number), before));
            self.store.set(cause, number);
        }
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

    /// `raise`: a jump to the handler, or the end of the run. The text has up to two values in it.
    pub(super) fn raise(&mut self, class: &str, text: &str, values: Vec<Expr>, span: Span) -> Res<Completion> {
        if self.place.is_rule {
            return Err(Stop::Refused(text.to_owned()));
        }
        match self.handler(class) {
            Some(Handler { label, cause, .. }) => {
                if let Some(cause) = cause {
                    let number = self.number_of(cause, class, (text, &values), span);
                    self.store.set(cause, Value::int(number).variable());
                }
                self.store.set(EXIT, Value::int(label));
                Ok(Completion::exit(label))
            }
            None => {
                self.require(build::bool(false), class, text, values, span);
                Ok(Completion::default())
            }
        }
    }

    /// The error of an element of a list that nothing was put into so far: the list is empty whenever the run comes
    /// here.
    pub(super) fn no_element<T>(&mut self, class: &str, text: &str, values: Vec<Expr>, span: Span) -> Res<T> {
        let done = self.guarded(span, |tracer| tracer.raise(class, text, values, span))?;
        Err(Stop::Exit(done))
    }

    pub(super) fn raise_statement(&mut self, exception: Option<&'a py::Expr>, span: Span) -> Res<Completion> {
        let Some(e) = exception else {
            return match self.place.caught.last().cloned() {
                Some(Value::Caught(cause, sites)) => self.raise_again(cause, &sites, span),
                _ => error(span, "RuntimeError: no exception is being handled that `raise` could raise again"),
            };
        };
        if let ExprKind::Call { callee, args, keywords } = &e.kind
            && let ([text], true, Some(class)) = (&args[..], keywords.is_empty(), callee.as_name())
            && (is_exception(class) && is_composed(text) || self.module.exceptions.contains_key(class))
        {
            let (text, values) = self.message(text)?;
            let place = e.span;
            return self.guarded(span, |tracer| tracer.raise(class, &text, values, place));
        }
        if let Some(class) = self.exception_of_program(e) {
            return self.guarded(span, |tracer| tracer.raise(class, "", Vec::new(), e.span));
        }
        let value = self.expr(e)?;
        let (class, text) = match value {
            Value::Exception(class, text) => (class, text),
            Value::Callable(Callable::Builtin(class)) if is_exception(class) => (class.into(), "".into()),
            Value::Caught(cause, sites) => return self.raise_again(cause, &sites, span),
            other => {
                let message = format!("expected an exception, found {}", self.described(&other));
                return error(e.span, message);
            }
        };
        let place = e.span;
        self.guarded(span, |tracer| tracer.raise(&class, &text, Vec::new(), place))
    }

    /// `E` or `E()` of an exception of the program.
    fn exception_of_program(&self, e: &'a py::Expr) -> Option<&'a str> {
        let name = match &e.kind {
            ExprKind::Call { callee, args, keywords } if args.is_empty() && keywords.is_empty() => callee.as_name(),
            _ => e.as_name(),
        };
        name.filter(|name| self.module.exceptions.contains_key(*name))
    }

    /// Raises what was caught once more.
    fn raise_again(&mut self, cause: CellId, sites: &[Raised], span: Span) -> Res<Completion> {
        let [site, others @ ..] = sites else { return Ok(Completion::default()) };
        let again = |tracer: &mut Self| tracer.raise(&site.class, &site.text, Vec::new(), site.span);
        self.guarded(span, |tracer| {
            if others.is_empty() {
                return again(tracer);
            }
            let is_here = tracer.is_cause(cause, site);
            tracer.branch(is_here, span, again, |tracer| tracer.raise_again(cause, others, span))
        })
    }

    fn is_cause(&mut self, cause: CellId, site: &Raised) -> Expr {
        let known = self.raised.get(&cause).map_or(&[][..], |known| known);
        let number = known.iter().position(|other| other == site).unwrap_or(0) as i64;
        let held = self.store.get(cause).data().unwrap_or_else(|| build::i64(0));
        self.bind("is_cause", build::eq(held, build::i64(number)))
    }

    /// `str(e)` of an exception that was caught.
    pub(super) fn text_of_caught(&mut self, cause: CellId, sites: &[Raised], span: Span) -> Res<Value<'a>> {
        let [site, others @ ..] = sites else { return Ok(Value::Const(Const::Str("".into()))) };
        // The text of a KeyError is what the key looks like.
        let text = match &*site.class {
            "KeyError" if !site.text.is_empty() => format!("'{}'", site.text).into(),
            _ => site.text.clone(),
        };
        let text = Value::Const(Const::Str(text));
        if others.is_empty() {
            return Ok(text);
        }
        let is_here = self.is_cause(cause, site);
        let others = |tracer: &mut Self| Ok(tracer.text_of_caught(cause, others, span)?.variable());
        self.choose(is_here, span, |_| Ok(text.variable()), others)
    }

    /// A text that is composed of literals and numbers, with marks for the numbers.
    pub(super) fn message(&mut self, e: &'a py::Expr) -> Res<(String, Vec<Expr>)> {
        let (mut text, mut values) = (String::new(), Vec::new());
        self.compose(e, &mut text, &mut values)?;
        match values.len() {
            0..=2 => Ok((text, values)),
            more => {
                error(e.span, format!("unsupported: {more} values in the text of an exception: at most 2 are shown"))
            }
        }
    }

    fn compose(&mut self, e: &'a py::Expr, text: &mut String, values: &mut Vec<Expr>) -> Res<()> {
        let shown = match &e.kind {
            ExprKind::Binary(py::BinaryOp::Add, a, b) => {
                self.compose(a, text, values)?;
                return self.compose(b, text, values);
            }
            ExprKind::FString(parts) => return parts.iter().try_for_each(|part| self.compose(part, text, values)),
            ExprKind::Call { callee, args, keywords } if callee.as_name() == Some("str") && keywords.is_empty() => {
                args.first().unwrap_or(e)
            }
            _ => e,
        };
        match self.expr(shown)? {
            Value::Const(Const::Str(known)) => text.push_str(&without_braces(&known)),
            Value::Const(known @ (Const::Int(_) | Const::Bool(_))) => text.push_str(&known.to_string()),
            value => match (self.try_type(&value).and_then(|ty| ty.number()), value.data()) {
                (Some(_), Some(number)) => {
                    text.push_str(&format!("{{{}}}", values.len()));
                    values.push(self.bind("shown", number));
                }
                _ => {
                    let message = format!("unsupported: {} in the text of an exception", self.described(&value));
                    let error = weld_core::diag::Diagnostic::ty(shown.span, message);
                    return Err(error.with_hint("literals and numbers are shown").into());
                }
            },
        }
        Ok(())
    }

    /// `E("text")`.
    pub(super) fn exception(&mut self, class: &str, args: &[Value<'a>], span: Span) -> Res<Value<'a>> {
        let text: Arc<str> = match args {
            [] => "".into(),
            [Value::Const(Const::Str(text))] => text.clone(),
            [Value::Const(other)] => other.to_string().into(),
            [Value::Caught(_, sites)] if sites.len() == 1 => sites[0].text.clone(),
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
            let is_kept = handler.name.is_some() || raises_again(&handler.body);
            let cause = is_kept.then(|| self.store.cell("the exception", None, Value::int(0).variable()));
            clauses.push((classes, label, cause));
        }
        let catching = clauses.iter().flat_map(|(classes, label, cause)| {
            classes.iter().map(|class| Handler { class: class.clone(), label: *label, cause: *cause })
        });
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
        for ((_, label, cause), handler) in clauses.iter().zip(handlers) {
            if !done.exits.contains(label) {
                continue;
            }
            let code = self.exit_code();
            let is_only = !done.normal && done.exits.len() == 1;
            done.exits.retain(|exit| exit != label);
            if is_only {
                self.store.set(EXIT, Value::int(0));
                done = self.handle(handler, *cause)?;
                continue;
            }
            let here = self.bind("caught", build::eq(code, build::i64(*label)));
            let elsewhere = done.clone();
            let body = |tracer: &mut Self| {
                tracer.store.set(EXIT, Value::int(0));
                tracer.handle(handler, *cause)
            };
            done = self.branch(here, handler.span, body, |_| Ok(elsewhere))?;
        }
        match finally {
            [] => Ok(done),
            _ => self.finally(done, finally, span),
        }
    }

    /// The body of a clause.
    fn handle(&mut self, handler: &'a py::Handler, cause: Option<CellId>) -> Res<Completion> {
        let Some(cause) = cause else { return self.block(&handler.body) };
        let sites = self.raised.get(&cause).cloned().unwrap_or_default();
        let caught = Value::Caught(cause, sites.into());
        if let Some(name) = &handler.name {
            self.set_variable(&name.name, caught.clone());
        }
        self.place.caught.push(caught);
        let done = self.block(&handler.body);
        self.place.caught.pop();
        if let Some(name) = &handler.name {
            self.set_variable(&name.name, Value::Unbound);
        }
        done
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
        let Some(exception) = &handler.exception else { return Ok(vec![None]) };
        let is_one = |name: &&str| is_exception(name) || self.module.exceptions.contains_key(*name);
        let class = |e: &'a py::Expr| match e.as_name().filter(is_one) {
            Some(name) => Ok(Some(Arc::from(name))),
            None => error(e.span, format!("expected the name of an exception, found {}", e.described())),
        };
        match &exception.kind {
            ExprKind::Tuple(parts) => parts.iter().map(class).collect(),
            _ => Ok(vec![class(exception)?]),
        }
    }
}

/// Braces stand for values.
fn without_braces(text: &str) -> String {
    text.replace('{', "(").replace('}', ")")
}

/// Whether a text is put together of parts.
fn is_composed(e: &py::Expr) -> bool {
    matches!(&e.kind, ExprKind::FString(_) | ExprKind::Binary(py::BinaryOp::Add, ..))
}

/// Whether statements have a `raise` without an exception.
fn raises_again(stmts: &[Stmt]) -> bool {
    let of = |stmt: &Stmt| match &stmt.kind {
        py::StmtKind::Raise { exception, .. } => exception.is_none(),
        py::StmtKind::If { branches, orelse } => {
            branches.iter().any(|branch| raises_again(&branch.body)) || raises_again(orelse)
        }
        py::StmtKind::For { body, orelse, .. } | py::StmtKind::While { body, orelse, .. } => {
            raises_again(body) || raises_again(orelse)
        }
        py::StmtKind::Try { body, handlers, orelse, finally } => {
            let parts = [body, orelse, finally].into_iter().any(|part| raises_again(part));
            parts || handlers.iter().any(|handler| raises_again(&handler.body))
        }
        _ => false,
    };
    stmts.iter().any(|stmt| super::deep(|| of(stmt)))
}
