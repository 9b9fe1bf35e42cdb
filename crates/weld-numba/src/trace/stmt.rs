//! Statements.

use std::rc::Rc;

use weld_core::diag::Span;
use weld_core::ir::build;
use weld_pysyntax::{self as py, ExprKind, Stmt, StmtKind};

use super::branch::Side;
use super::loops::Over;
use super::{Completion, EXIT, Label, Res, Sink, Stop, Tracer, deep, error};
use crate::decorator::{Decorators, Target};
use crate::module::{Place, define, is_docstring, with_overloads};
use crate::names::Uses;
use crate::value::{Callable, Value};

/// Statements after an `if` of which one side ends go into the other side, up to this depth.
const INTO_BRANCH_MAX: usize = 200;

/// The jumps of the loop around: `break` and `continue`.
#[derive(Clone, Copy)]
pub(super) struct LoopLabels {
    pub(super) leave: Label,
    pub(super) next: Label,
}

impl<'a> Tracer<'a> {
    /// A block of statements of the current frame.
    pub(super) fn block(&mut self, stmts: &'a [Stmt]) -> Res<Completion> {
        self.block_in(stmts, None)
    }

    /// The body of something that reads variables besides.
    pub(super) fn block_in(&mut self, stmts: &'a [Stmt], also: Option<Rc<Uses<'a>>>) -> Res<Completion> {
        self.begin_block(stmts, also);
        let done = deep(|| self.rest(stmts, 0, 0));
        self.frame_mut().cursors.pop();
        done
    }

    /// The statements of the innermost block from one on.
    fn rest(&mut self, stmts: &'a [Stmt], from: usize, depth: usize) -> Res<Completion> {
        let mut sum = Completion::normal();
        for (at, stmt) in stmts.iter().enumerate().skip(from) {
            if let Some(cursor) = self.frame_mut().cursors.last_mut() {
                cursor.at = at;
            }
            let rest = (at + 1 < stmts.len() && depth < INTO_BRANCH_MAX).then_some((stmts, at + 1, depth + 1));
            let (mut done, is_whole) = match self.stmt(stmt, rest) {
                Ok(done) => done,
                Err(Stop::Exit(done)) => (done, false),
                Err(stop) => return Err(stop),
            };
            let pending = std::mem::take(&mut self.place.pending);
            done.add(&pending);
            sum.add(&done.exits);
            sum.normal = done.normal;
            if is_whole || !done.normal {
                return Ok(sum);
            }
            if !done.exits.is_empty() && at + 1 < stmts.len() {
                self.place.pending = done.exits.clone();
                let after = self.guarded(stmt.span, |tracer| tracer.rest_after(stmts, at + 1, depth + 1))?;
                sum.add(&after.exits);
                sum.normal = after.normal;
                return Ok(sum);
            }
        }
        Ok(sum)
    }

    fn rest_after(&mut self, stmts: &'a [Stmt], from: usize, depth: usize) -> Res<Completion> {
        deep(|| self.rest(stmts, from, depth))
    }

    /// Statements after others that ended so.
    pub(super) fn after(
        &mut self,
        before: Completion,
        span: Span,
        f: impl FnOnce(&mut Self) -> Res<Completion>,
    ) -> Res<Completion> {
        if !before.normal {
            return Ok(before);
        }
        self.place.pending = before.exits.clone();
        let mut done = self.guarded(span, f)?;
        done.add(&before.exits);
        Ok(done)
    }

    /// One statement; and whether it ran those of `rest`, too.
    fn stmt(&mut self, stmt: &'a Stmt, rest: Option<(&'a [Stmt], usize, usize)>) -> Res<(Completion, bool)> {
        self.spend(stmt.span)?;
        if let StmtKind::If { branches, orelse } = &stmt.kind {
            let uses = self.known.stmt(stmt);
            self.prepare(&uses);
            return self.if_statement(branches, orelse, stmt.span, rest);
        }
        let done = self.simple(stmt)?;
        Ok((done, false))
    }

    fn simple(&mut self, stmt: &'a Stmt) -> Res<Completion> {
        let span = stmt.span;
        match &stmt.kind {
            StmtKind::Pass => Ok(Completion::normal()),
            _ if is_docstring(stmt) => Ok(Completion::normal()),
            StmtKind::Expr(e) => self.expr_statement(e),
            StmtKind::Assign { targets, value } => {
                let is_swap = matches!(&targets[..], [target] if permutes(target, value));
                let value = self.expr(value)?.variable();
                if let [py::Expr { kind: ExprKind::Name(name), .. }] = &targets[..]
                    && self.is_free(name)
                {
                    self.assign(&targets[0], value)?;
                    return Ok(Completion::normal());
                }
                targets.iter().for_each(|target| self.declare_target(target));
                self.rows.are_swapped = is_swap;
                let done = self.guarded(span, |tracer| {
                    for target in targets {
                        tracer.assign(target, value.clone())?;
                    }
                    Ok(Completion::normal())
                });
                self.rows.are_swapped = false;
                done
            }
            StmtKind::Annotate { target, annotation, value } => {
                let Some(value) = value else { return Ok(Completion::normal()) };
                let value = self.expr(value)?;
                let ty = self.annotation(annotation)?;
                let value = self.coerce(&value, &ty, value_span(stmt))?.variable();
                self.guarded(span, |tracer| tracer.assign(target, value).map(|()| Completion::normal()))
            }
            StmtKind::Augment { target, op, value } => self.augment(target, *op, value, span),
            StmtKind::Return(value) => self.return_statement(value.as_ref(), span),
            StmtKind::Break => Ok(self.jump(true, span)?),
            StmtKind::Continue => Ok(self.jump(false, span)?),
            StmtKind::For { target, iter, body, orelse } => {
                let uses = self.known.stmt(stmt);
                self.for_statement(target, iter, body, orelse, uses)
            }
            StmtKind::While { test, body, orelse } => {
                let uses = self.known.stmt(stmt);
                self.while_statement(test, body, orelse, uses, span)
            }
            StmtKind::Try { body, handlers, orelse, finally } => {
                let uses = self.known.stmt(stmt);
                self.prepare(&uses);
                self.begin_block(&[], Some(uses));
                let done = self.try_statement(body, handlers, orelse, finally, span);
                self.frame_mut().cursors.pop();
                done
            }
            StmtKind::Raise { exception, .. } => self.raise_statement(exception.as_ref(), span),
            StmtKind::Assert { test, message } => self.assert_statement(test, message.as_ref()),
            StmtKind::Function(function) => self.nested_function(function),
            other => error(span, format!("unsupported: {} in a function", other.described())),
        }
    }

    fn expr_statement(&mut self, e: &'a py::Expr) -> Res<Completion> {
        match &e.kind {
            ExprKind::Yield(value) => {
                let value = match value {
                    Some(value) => self.expr(value)?,
                    None => Value::None,
                };
                self.guarded(e.span, |tracer| tracer.yield_value(value, e.span))
            }
            ExprKind::YieldFrom(iter) => {
                let iter = self.expr(iter)?;
                self.guarded(e.span, |tracer| {
                    let Some(sink) = tracer.frame().sink.clone() else {
                        return error(e.span, "`yield` outside of a generator");
                    };
                    tracer.drive(&iter, e.span, &sink)
                })
            }
            ExprKind::Ellipsis => Ok(Completion::normal()),
            _ => {
                self.expr(e)?;
                Ok(Completion::normal())
            }
        }
    }

    fn yield_value(&mut self, value: Value<'a>, span: Span) -> Res<Completion> {
        match self.frame().sink.clone() {
            Some(sink) => sink(self, value),
            None => error(span, "`yield` outside of a generator"),
        }
    }

    fn return_statement(&mut self, value: Option<&'a py::Expr>, span: Span) -> Res<Completion> {
        let value = match value {
            // What a typing rule gives is known when the program is compiled.
            Some(value) if self.place.is_rule => self.expr(value)?,
            Some(value) => self.expr(value)?.variable(),
            None => Value::None,
        };
        let (cell, label) = (self.frame().result, self.frame().label);
        let is_generator = self.frame().def.as_ref().is_some_and(|def| def.is_generator);
        if is_generator && !matches!(value, Value::None) {
            return error(span, "unsupported: a generator that returns a value");
        }
        self.guarded(span, |tracer| {
            tracer.store.set(cell, value);
            tracer.store.set(EXIT, Value::int(label));
            Ok(Completion::exit(label))
        })
    }

    fn jump(&mut self, is_break: bool, span: Span) -> Res<Completion> {
        let labels = self.store.variable(self.place.frame, LOOP).map(|cell| self.store.get(cell).clone());
        let label = match labels {
            Some(Value::Tuple(labels)) => labels[usize::from(!is_break)].const_int().unwrap_or(0),
            _ => {
                return error(
                    span,
                    if is_break { "`break` outside of a loop" } else { "`continue` outside of a loop" },
                );
            }
        };
        self.store.set(EXIT, Value::int(label));
        Ok(Completion::exit(label))
    }

    fn assert_statement(&mut self, test: &'a py::Expr, message: Option<&'a py::Expr>) -> Res<Completion> {
        let cond = self.condition(test)?;
        let (text, values) = message.map(|message| self.message(message)).transpose()?.unwrap_or_default();
        match cond.const_bool() {
            Some(true) => Ok(Completion::normal()),
            Some(false) => self.raise("AssertionError", &text, values, test.span),
            None => {
                let holds = cond.data().unwrap_or_else(|| build::bool(true));
                self.require(holds, "AssertionError", &text, values, test.span);
                Ok(Completion::normal())
            }
        }
    }

    fn nested_function(&mut self, function: &'a py::Function) -> Res<Completion> {
        let decorators = Decorators::read(&function.decorators, Target::Function)?;
        let is_overload = decorators.signature.is_some();
        let defs = define(function, &mut self.known, decorators, Place::Function)?;
        let name = &function.name.name;
        let frame = self.place.frame;
        self.frame_mut().is_captured = true;
        let known = self.store.variable(frame, name).map(|cell| self.store.get(cell).clone());
        let overloads = match known {
            Some(Value::Callable(Callable::Function(known, _))) if is_overload => with_overloads(Some(known), defs)?,
            _ => with_overloads(None, defs)?,
        };
        // Defaults are evaluated here; overloads have them evaluated where they are called.
        let frame = if is_overload { frame } else { self.defaults(&function.params)? };
        self.set_variable(name, Value::Callable(Callable::Function(overloads, frame)));
        Ok(Completion::normal())
    }

    // If.

    fn if_statement(
        &mut self,
        branches: &'a [py::Branch],
        orelse: &'a [Stmt],
        span: Span,
        rest: Option<(&'a [Stmt], usize, usize)>,
    ) -> Res<(Completion, bool)> {
        let [first, others @ ..] = branches else { return Ok((self.block(orelse)?, false)) };
        let cond = self.condition(&first.test)?;
        if !self.place.pending.is_empty() {
            let done = self.guarded(span, |tracer| {
                let (done, _) = tracer.if_known(cond, first, others, orelse, span, None)?;
                Ok(done)
            })?;
            return Ok((done, false));
        }
        self.if_known(cond, first, others, orelse, span, rest)
    }

    fn if_known(
        &mut self,
        cond: Value<'a>,
        first: &'a py::Branch,
        others: &'a [py::Branch],
        orelse: &'a [Stmt],
        span: Span,
        rest: Option<(&'a [Stmt], usize, usize)>,
    ) -> Res<(Completion, bool)> {
        match cond.const_bool() {
            Some(true) => return Ok((self.block(&first.body)?, false)),
            Some(false) => return self.if_statement(others, orelse, span, rest),
            None => {}
        }
        let cond = cond.data().unwrap_or_else(|| build::bool(true));
        let mut a = self.side(|tracer| Ok((tracer.block(&first.body)?, None)))?;
        let mut b = self.side(|tracer| Ok((tracer.if_statement(others, orelse, span, None)?.0, None)))?;
        // Where one side ends, what follows belongs to the other.
        let mut is_whole = false;
        if let Some((stmts, from, depth)) = rest
            && a.done.normal != b.done.normal
        {
            is_whole = true;
            let follow = |tracer: &mut Self, side: Side<'a>| {
                let before = side.done.clone();
                tracer.resumed(side, |tracer| {
                    let done = tracer.after(before, span, |tracer| tracer.rest_after(stmts, from, depth))?;
                    Ok((done, None))
                })
            };
            match a.done.normal {
                true => a = follow(self, a)?,
                false => b = follow(self, b)?,
            }
        }
        // What the statement reads is read.
        self.frame_mut().cursors.last_mut().into_iter().for_each(|cursor| cursor.at += 1);
        let merged = self.merge(cond, [a, b], span);
        self.frame_mut().cursors.last_mut().into_iter().for_each(|cursor| cursor.at -= 1);
        Ok((merged?.0, is_whole))
    }

    // Loops.

    /// Sets the labels of the loop of the frame; gives those of the loop around.
    pub(super) fn enter_loop(&mut self) -> (LoopLabels, Option<Value<'a>>) {
        let labels = LoopLabels { leave: self.label(), next: self.label() };
        let frame = self.place.frame;
        let outer = self.store.variable(frame, LOOP).map(|cell| self.store.get(cell).clone());
        let inner = Value::tuple([Value::int(labels.leave), Value::int(labels.next)]);
        self.declare(frame, LOOP, inner);
        (labels, outer)
    }

    pub(super) fn leave_loop(&mut self, outer: Option<Value<'a>>) {
        let frame = self.place.frame;
        match outer {
            Some(outer) => {
                self.declare(frame, LOOP, outer);
            }
            None => self.store.bind(frame, &LOOP.into(), None),
        }
    }

    fn for_statement(
        &mut self,
        target: &'a py::Expr,
        iter: &'a py::Expr,
        body: &'a [Stmt],
        orelse: &'a [Stmt],
        uses: Rc<Uses<'a>>,
    ) -> Res<Completion> {
        if let Some(unrolled) = self.as_unroll(iter)? {
            return self.unroll(target, unrolled, iter.span, body, orelse, uses);
        }
        let data = self.expr(iter)?;
        let span = iter.span;
        self.guarded(span, |tracer| {
            tracer.prepare(&uses);
            let (labels, outer) = tracer.enter_loop();
            let frame = tracer.place.frame;
            let depth = tracer.place.handlers.len();
            let body_uses = uses.clone();
            let sink: Sink<'a> = Rc::new(move |tracer, value| {
                tracer.consume_in(frame, depth, |tracer| {
                    tracer.assign(target, value.variable())?;
                    let done = tracer.block_in(body, Some(body_uses.clone()))?;
                    Ok(tracer.land(labels.next, done))
                })
            });
            let done = tracer.drive(&data, span, &sink);
            tracer.leave_loop(outer);
            tracer.end_loop(done?, labels, orelse, span)
        })
    }

    /// `else` of a loop, and the end of its `break`.
    pub(super) fn end_loop(
        &mut self,
        done: Completion,
        labels: LoopLabels,
        orelse: &'a [Stmt],
        span: Span,
    ) -> Res<Completion> {
        let done = match orelse {
            [] => done,
            _ => self.after(done, span, |tracer| tracer.block(orelse))?,
        };
        Ok(self.land(labels.leave, done))
    }

    /// Runs what takes the values of a stream in its own frame, with its own handlers, whatever frame the values come
    /// from.
    pub(super) fn consume_in(
        &mut self,
        frame: usize,
        handlers: usize,
        f: impl FnOnce(&mut Self) -> Res<Completion>,
    ) -> Res<Completion> {
        let inner = self.place.handlers.split_off(handlers.min(self.place.handlers.len()));
        let done = self.within(frame, f);
        self.place.handlers.truncate(handlers);
        self.place.handlers.extend(inner);
        done
    }

    fn while_statement(
        &mut self,
        test: &'a py::Expr,
        body: &'a [Stmt],
        orelse: &'a [Stmt],
        uses: Rc<Uses<'a>>,
        span: Span,
    ) -> Res<Completion> {
        self.prepare(&uses);
        let (labels, outer) = self.enter_loop();
        let end = self.label();
        let step = |tracer: &mut Tracer<'a>, _| {
            let cond = tracer.condition(test)?;
            let body = |tracer: &mut Tracer<'a>| {
                let done = tracer.block_in(body, Some(uses.clone()))?;
                Ok(tracer.land(labels.next, done))
            };
            let stop = |tracer: &mut Tracer<'a>| {
                tracer.store.set(EXIT, Value::int(end));
                Ok(Completion::exit(end))
            };
            tracer.guarded(test.span, |tracer| match cond.const_bool() {
                Some(true) => body(tracer),
                Some(false) => stop(tracer),
                None => {
                    let cond = cond.data().unwrap_or_else(|| build::bool(true));
                    tracer.branch(cond, test.span, body, stop)
                }
            })
        };
        let done = self.repeat(&Over::Forever, span, &step);
        self.leave_loop(outer);
        let done = self.land(end, done?);
        self.end_loop(done, labels, orelse, span)
    }
}

/// The variable of a frame that holds the labels of its loop; no name of a program.
const LOOP: &str = "<loop>";

/// Whether an assignment gives the targets each other's values: `xs[i], xs[j] = xs[j], xs[i]`.
fn permutes(target: &py::Expr, value: &py::Expr) -> bool {
    let (ExprKind::Tuple(targets), ExprKind::Tuple(values)) = (&target.kind, &value.kind) else { return false };
    let is_once = |part: &py::Expr| {
        let count = |among: &[py::Expr]| among.iter().filter(|other| is_alike(part, other)).count();
        count(targets) == 1 && count(values) == 1
    };
    targets.len() == values.len() && targets.iter().all(is_once)
}

/// Whether two places are written alike.
fn is_alike(a: &py::Expr, b: &py::Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Name(a), ExprKind::Name(b)) => a == b,
        (ExprKind::Int(a), ExprKind::Int(b)) => a == b,
        (ExprKind::Attribute(a, x), ExprKind::Attribute(b, y)) => x.name == y.name && is_alike(a, b),
        (ExprKind::Index(a, i), ExprKind::Index(b, j)) => is_alike(a, b) && is_alike(i, j),
        (ExprKind::Unary(x, a), ExprKind::Unary(y, b)) => x == y && is_alike(a, b),
        (ExprKind::Binary(x, a, c), ExprKind::Binary(y, b, d)) => x == y && is_alike(a, b) && is_alike(c, d),
        _ => false,
    }
}

fn value_span(stmt: &Stmt) -> Span {
    match &stmt.kind {
        StmtKind::Annotate { value: Some(value), .. } => value.span,
        _ => stmt.span,
    }
}
