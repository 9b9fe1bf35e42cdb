//! Loops: the body is compiled until the types of what it changes settle.
//!
//! ```text
//! for x in xs: s = s + x          # the cell of `s` changes: it is carried
//! =>
//! iterate({0L, 0L}, |state| let x = lookup(xs, state.$0); .. {{state.$0 + 1L, s}, state.$0 + 1L < len(xs)})
//! ```
//! A loop that only appends to lists and adds sums up, and that no jump leaves, is a `for` over builders, which fuses
//! with others.

use std::collections::{BTreeMap, BTreeSet};

use weld_core::diag::Span;
use weld_core::ir::{Binding, Expr, ExprKind, Func, Iter, Sym, build};
use weld_core::ty::{BuilderType, Type};

use super::branch::Side;
use super::join_values::{Join, Plan};
use super::{Completion, EXIT, Res, Stop, Tracer, error};
use crate::store::CellId;
use crate::types::Ty;
use crate::value::{Value, literal_int};

/// What a loop goes over.
#[derive(Clone)]
pub(super) enum Over {
    /// Numbers from zero on.
    Count(Expr),
    /// The elements of a vector.
    Elements(Expr),
    /// Until it is left.
    Forever,
}

/// The types of a loop settle after so many rounds, or never.
const ROUNDS_MAX: usize = 24;

/// What the body of a loop is compiled with: the number of the step, and the element.
pub(super) struct Step {
    pub(super) index: Expr,
    pub(super) element: Expr,
}

type Plans<'a> = BTreeMap<CellId, Plan<'a>>;

/// The names of the parts of a loop.
struct Parts {
    index: Sym,
    element: (Sym, Type),
    state: Sym,
    types: Vec<Type>,
}

/// A round of compiling a body.
struct Round<'a> {
    parts: Parts,
    side: Side<'a>,
    /// What is carried into the body.
    heads: BTreeMap<CellId, Value<'a>>,
    /// How many freezes there were before the body.
    freezes: usize,
    reads: Vec<CellId>,
    appends: Vec<CellId>,
}

impl<'a> Tracer<'a> {
    /// Runs `body` for each step.
    pub(super) fn repeat(
        &mut self,
        over: &Over,
        span: Span,
        body: &dyn Fn(&mut Tracer<'a>, Step) -> Res<Completion>,
    ) -> Res<Completion> {
        let mut plans: Plans<'a> = BTreeMap::new();
        let before = self.store.freezes();
        for _ in 0..ROUNDS_MAX {
            let round = match self.round(over, &plans, body) {
                Ok(round) => round,
                Err(Stop::Materialise(cell)) if self.is_outermost(cell) => {
                    self.materialise(cell, span)?;
                    continue;
                }
                Err(stop) => return Err(stop),
            };
            match self.widened(&plans, &round, before, span)? {
                Some(wider) => plans = wider,
                None => return self.finish_loop(over, plans, round, span),
            }
        }
        error(span, "the types of the loop's variables do not settle")
    }

    /// Whether a stream is from outside of this loop, but not from outside of the loop around it.
    fn is_outermost(&self, cell: CellId) -> bool {
        cell < self.store.len() && self.place.loops.iter().all(|mark| cell >= *mark)
    }

    fn round(
        &mut self,
        over: &Over,
        plans: &Plans<'a>,
        body: &dyn Fn(&mut Tracer<'a>, Step) -> Res<Completion>,
    ) -> Res<Round<'a>> {
        let parts = self.parts(over, plans);
        let before = (self.flow.depth(), self.store.depth(), self.place.frame, self.place.handlers.len());
        let cursors = self.frame().cursors.len();
        self.place.loops.push(self.store.len());
        let outer = (std::mem::take(&mut self.reads), std::mem::take(&mut self.appends));
        let mut heads = BTreeMap::new();
        let mut freezes = 0;
        let side = self.side(|tracer| {
            let ty = Type::structure(parts.types.iter().cloned());
            let state = build::var(parts.state, ty);
            let skip = usize::from(!matches!(over, Over::Forever));
            let mut fields = (skip..parts.types.len()).map(|index| build::field(state.clone(), index));
            for (cell, plan) in plans {
                let name = tracer.store.name(*cell).clone();
                let head = tracer.take(plan, &name, &mut fields);
                heads.insert(*cell, head.clone());
                tracer.store.set(*cell, head);
            }
            tracer.store.set(EXIT, Value::int(0));
            freezes = tracer.store.freezes();
            let index = build::var(parts.index, Type::I64);
            let element = build::var(parts.element.0, parts.element.1.clone());
            Ok((body(tracer, Step { index, element })?, None))
        });
        self.place.loops.pop();
        let inner = (std::mem::replace(&mut self.reads, outer.0), std::mem::replace(&mut self.appends, outer.1));
        let carried =
            |cells: &BTreeSet<CellId>| cells.iter().filter(|cell| plans.contains_key(cell)).copied().collect();
        let (reads, appends) = (carried(&inner.0), carried(&inner.1));
        self.reads.extend(inner.0);
        self.appends.extend(inner.1);
        match side {
            Ok(side) => Ok(Round { parts, side, heads, freezes, reads, appends }),
            Err(stop) => {
                self.flow.discard(before.0);
                self.store.discard(before.1);
                self.place.frame = before.2;
                self.place.handlers.truncate(before.3);
                self.frame_mut().cursors.truncate(cursors);
                Err(stop)
            }
        }
    }

    fn parts(&mut self, over: &Over, plans: &Plans<'a>) -> Parts {
        let mut types = if matches!(over, Over::Forever) { Vec::new() } else { vec![Type::I64] };
        plans.values().for_each(|plan| plan.types(&mut types));
        if types.is_empty() {
            types.push(Type::BOOL);
        }
        let element = match over {
            Over::Elements(data) => data.ty.element().cloned().unwrap_or(Type::BOOL),
            _ => Type::I64,
        };
        let names = self.flow.names();
        Parts { index: names.fresh("i"), element: (names.fresh("x"), element), state: names.fresh("state"), types }
    }

    /// What has to be carried beside or in another type than it was; `None` if all is as it has to be.
    ///
    /// What the body freezes was not frozen when the first step began, after `before` freezes, nor when a later one
    /// did.
    fn widened(&mut self, plans: &Plans<'a>, round: &Round<'a>, before: usize, span: Span) -> Res<Option<Plans<'a>>> {
        let mut wider: Plans<'a> = BTreeMap::new();
        let mut is_wider = false;
        let none = BTreeMap::new();
        let entry = |tracer: &Self, cell: CellId| tracer.store.get(cell).clone();
        for (cell, end) in &round.side.changes {
            let start = match *cell == EXIT {
                // It is zero at the beginning of each step.
                true if round.side.done.exits.is_empty() => continue,
                true => Value::int(0),
                false => round.heads.get(cell).cloned().unwrap_or_else(|| entry(self, *cell)),
            };
            let name = self.store.name(*cell).clone();
            // What a list holds at the beginning of a step is in the head's new cell.
            let sides = [&none, &round.side.changes];
            let first = if round.heads.contains_key(cell) { round.freezes } else { before };
            let frozen = first..usize::MAX;
            let unseen = [std::slice::from_ref(&frozen), &[]];
            let join =
                Join { sides, unseen, is_inner: true, mark: round.side.mark, cell: Some(*cell), name: &name, span };
            let plan = match round.side.done.diverges() {
                true => self.join(&Join { sides: [&none, &none], ..join }, &start, &start)?,
                false => self.join(&join, &start, end)?,
            };
            match plans.get(cell) {
                Some(known) if known.agrees(&plan) => {}
                _ => is_wider = true,
            }
            wider.insert(*cell, plan);
        }
        for (cell, plan) in plans {
            wider.entry(*cell).or_insert_with(|| plan.clone());
        }
        if is_wider {
            return Ok(Some(wider));
        }
        // Lists that were only appended to are built, those that were read as well have room for more.
        let mut is_built = false;
        let mut reads = round.reads.clone();
        for (cell, end) in &round.side.changes {
            wider.get(cell).into_iter().for_each(|plan| self.passed_on(plan, end, &round.side.changes, &mut reads));
        }
        for (cell, plan) in &mut wider {
            let Plan::Elements(element) = plan else { continue };
            if !reads.contains(cell) && *element != Ty::Unknown {
                let appender = BuilderType::Appender(element.weld().into());
                *plan = Plan::Builder(Type::Builder(appender), element.clone());
                is_built = true;
            } else if round.appends.contains(cell) && is_flat(&element.weld()) {
                *plan = Plan::Buffer(element.clone());
                is_built = true;
            }
        }
        Ok(is_built.then_some(wider))
    }

    /// The loop whose body was compiled, and what it leaves behind.
    fn finish_loop(&mut self, over: &Over, plans: Plans<'a>, round: Round<'a>, span: Span) -> Res<Completion> {
        let Round { parts, side, .. } = round;
        let mut done = side.done.clone();
        if let (Over::Forever, true) = (over, done.normal) {
            done.normal = false;
        }
        let is_idle = plans.is_empty() && side.block.is_empty();
        if !matches!(over, Over::Forever) {
            done.normal = true;
        }
        if is_idle && done.exits.is_empty() && !matches!(over, Over::Forever) {
            return Ok(done);
        }
        let is_built = |cell: &CellId| matches!(self.store.get(*cell), Value::Builder(..) | Value::Buffer(..));
        let ended: Vec<CellId> = plans.keys().filter(|cell| !is_built(cell)).copied().collect();
        let mut start = Vec::new();
        for (cell, plan) in &plans {
            let held = if *cell == EXIT { Value::int(0) } else { self.store.get(*cell).clone() };
            self.emit(&held, plan, span, &mut start)?;
        }
        let is_for = !matches!(over, Over::Forever)
            && !plans.is_empty()
            && done.exits.is_empty()
            && plans.values().all(|plan| matches!(plan, Plan::Builder(..)));
        let fields = match is_for {
            true => self.for_loop(over, &plans, parts, side, start, span)?,
            false => self.iterate(over, &plans, parts, side, start, span)?,
        };
        let mut fields = fields.into_iter();
        for (cell, plan) in &plans {
            let name = self.store.name(*cell).clone();
            let taken = self.take(plan, &name, &mut fields);
            self.store.set(*cell, taken);
        }
        // What was built in this loop only is vectors again.
        for cell in ended {
            let (elements, element) = match self.store.get(cell).clone() {
                Value::Builder(builder, element) => (build::result(builder), element),
                Value::Buffer(buffer, length, element) => (build::slice(buffer, build::i64(0), length), element),
                _ => continue,
            };
            let elements = self.bind("list", elements);
            self.store.set(cell, Value::Elements(elements, element));
        }
        Ok(done)
    }

    /// The body's end: what is carried into the next step.
    fn end_step(&mut self, plans: &Plans<'a>, side: Side<'a>, span: Span) -> Res<(Vec<Expr>, Expr)> {
        self.flow.resume(side.block);
        self.store.enter();
        self.store.apply(&side.changes);
        let mut next = Vec::new();
        for (cell, plan) in plans {
            let held = match (side.done.diverges(), self.store.get(*cell)) {
                (true, held) if !matches!(held, Value::Builder(..)) => Value::Nothing,
                (_, held) => held.clone(),
            };
            self.emit(&held, plan, span, &mut next)?;
        }
        let idle = match (side.done.normal, side.done.exits.is_empty()) {
            (_, true) => build::bool(side.done.normal),
            (false, _) => build::bool(false),
            (true, _) => build::eq(self.exit_code(), build::i64(0)),
        };
        self.store.leave();
        Ok((next, idle))
    }

    fn iterate(
        &mut self,
        over: &Over,
        plans: &Plans<'a>,
        parts: Parts,
        side: Side<'a>,
        mut start: Vec<Expr>,
        span: Span,
    ) -> Res<Vec<Expr>> {
        let ty = Type::structure(parts.types.iter().cloned());
        let state = build::var(parts.state, ty.clone());
        let count = match over {
            Over::Count(count) => Some(count.clone()),
            Over::Elements(data) => Some(self.bind("n", build::len(data.clone()))),
            Over::Forever => None,
        };
        let (mut next, idle) = self.end_step(plans, side, span)?;
        let mut go_on = idle;
        if let Some(count) = &count {
            start.insert(0, build::i64(0));
            let counter = build::add(build::field(state.clone(), 0), build::i64(1));
            let counter = self.bind("next", counter);
            let more = build::lt(counter.clone(), count.clone());
            next.insert(0, counter);
            go_on = if is_true(&go_on) { more } else { build::and(more, go_on) };
        }
        if next.is_empty() {
            next.push(build::bool(true));
            start.push(build::bool(true));
        }
        let step = build::strct([build::strct(next), go_on]);
        let step = self.flow.close(step);
        let mut bindings = Vec::new();
        if count.is_some() {
            bindings.push(Binding { sym: parts.index, value: build::field(state, 0) });
        }
        if let Over::Elements(data) = over {
            let at = build::var(parts.index, Type::I64);
            bindings.push(Binding { sym: parts.element.0, value: build::lookup(data.clone(), at).at(span) });
        }
        let body = build::let_in(bindings, step);
        let func = Func { params: vec![(parts.state, ty.clone())], body: Box::new(body) };
        let start = self.flow.keep("start", build::strct(start));
        let kind = ExprKind::Iterate { init: Box::new(start.clone()), step: func };
        let run = build::node(kind, ty.clone()).at(span);
        let last = match count.as_ref().map(|count| literal_int(count).map(|count| count > 0)) {
            None | Some(Some(true)) => run,
            Some(Some(false)) => start,
            Some(None) => {
                let count = count.unwrap_or_else(|| build::i64(0));
                build::if_(build::gt(count, build::i64(0)), run, start)
            }
        };
        let last = self.flow.keep("last", last);
        let skip = usize::from(!matches!(over, Over::Forever));
        Ok((skip..parts.types.len()).map(|index| build::field(last.clone(), index)).collect())
    }

    fn for_loop(
        &mut self,
        over: &Over,
        plans: &Plans<'a>,
        parts: Parts,
        side: Side<'a>,
        start: Vec<Expr>,
        span: Span,
    ) -> Res<Vec<Expr>> {
        let one = start.len() == 1;
        let whole = |mut all: Vec<Expr>| if one { all.remove(0) } else { build::strct(all) };
        let builder = whole(start);
        let ty = builder.ty.clone();
        let b = self.flow.names().fresh("b");
        // The body reads the builders as parts of the state.
        let (next, _) = self.end_step(plans, side, span)?;
        let update = self.flow.close(whole(next));
        let builders = build::var(b, ty.clone());
        let heads: Vec<Expr> = match one {
            true => vec![builders],
            false => (0..plans.len()).map(|index| build::field(builders.clone(), index)).collect(),
        };
        let update = with_builders(update, parts.state, &heads);
        let iter = match over {
            Over::Elements(data) => Iter::Vector(data.clone()),
            Over::Count(count) => Iter::Range { start: build::i64(0), end: count.clone(), stride: build::i64(1) },
            Over::Forever => return Ok(Vec::new()),
        };
        let params = vec![(b, ty), (parts.index, Type::I64), (parts.element.0, parts.element.1)];
        let mut looped = build::for_func(iter, builder, Func { params, body: Box::new(update) }).at(span);
        if plans.values().any(|plan| matches!(plan, Plan::Builder(Type::Builder(BuilderType::Merger { .. }), _))) {
            looped = looped.annotate("strict", "true");
        }
        let looped = self.flow.keep("built", looped);
        Ok(match one {
            true => vec![looped],
            false => (0..plans.len()).map(|index| build::field(looped.clone(), index)).collect(),
        })
    }
}

/// Whether values of the type have no vectors in them, so that a vector of them may be changed where it lies.
fn is_flat(ty: &Type) -> bool {
    match ty {
        Type::Struct(fields) => fields.iter().all(is_flat),
        ty => ty.as_scalar().is_some(),
    }
}

fn is_true(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Literal(weld_core::ir::Literal::Bool(true)))
}

/// The body with the builders in the place of the state's fields behind the counter.
fn with_builders(mut body: Expr, state: Sym, builders: &[Expr]) -> Expr {
    body.rewrite_down(&mut |e| {
        let ExprKind::Field(of, index) = &e.kind else { return };
        if matches!(of.kind, ExprKind::Var(sym) if sym == state)
            && let Some(builder) = (*index as usize).checked_sub(1).and_then(|index| builders.get(index))
        {
            *e = builder.clone();
        }
    });
    body
}
