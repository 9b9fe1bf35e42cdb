//! Branches: both sides are compiled, and what they changed is merged.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weld_core::diag::Span;
use weld_core::ir::{Expr, build};
use weld_frontend::Block;

use super::join_values::{Join, Plan};
use super::{Completion, EXIT, Res, Stop, Tracer};
use crate::store::{CellId, Changes};
use crate::value::Value;

/// A side of a branch that was compiled.
pub(super) struct Side<'a> {
    pub(super) block: Block,
    pub(super) changes: Changes<'a>,
    pub(super) done: Completion,
    /// What the side gives, where it is an expression.
    pub(super) value: Option<Value<'a>>,
    /// Cells from this one on are of this or a later side.
    pub(super) mark: CellId,
    /// The freezes that it made.
    pub(super) freezes: Vec<Range<usize>>,
}

impl<'a> Side<'a> {
    /// A side that does nothing.
    pub(super) fn empty(done: Completion) -> Side<'a> {
        Side {
            block: Block::default(),
            changes: BTreeMap::new(),
            done,
            value: None,
            mark: CellId::MAX,
            freezes: Vec::new(),
        }
    }
}

impl<'a> Tracer<'a> {
    /// Compiles a side of a branch. What it changes is taken back.
    pub(super) fn side(&mut self, f: impl FnOnce(&mut Self) -> Res<(Completion, Option<Value<'a>>)>) -> Res<Side<'a>> {
        self.resumed(Side::empty(Completion::normal()), f)
    }

    /// Goes on with a side.
    pub(super) fn resumed(
        &mut self,
        side: Side<'a>,
        f: impl FnOnce(&mut Self) -> Res<(Completion, Option<Value<'a>>)>,
    ) -> Res<Side<'a>> {
        let mark = side.mark.min(self.store.len());
        let (mut freezes, before) = (side.freezes, self.store.freezes());
        self.flow.resume(side.block);
        self.store.enter();
        self.store.apply(&side.changes);
        let pending = std::mem::take(&mut self.place.pending);
        let result = f(self);
        let raised = std::mem::replace(&mut self.place.pending, pending);
        let (mut done, value) = match result {
            Ok(result) => result,
            Err(Stop::Exit(done)) => (done, None),
            Err(stop) => return Err(stop),
        };
        done.add(&raised);
        let changes = self.store.leave();
        freezes.push(before..self.store.freezes());
        Ok(Side { block: self.flow.suspend(), changes, done, value, mark, freezes })
    }

    /// Statements under a condition, and others where it does not hold.
    pub(super) fn branch(
        &mut self,
        cond: Expr,
        span: Span,
        on_true: impl FnOnce(&mut Self) -> Res<Completion>,
        on_false: impl FnOnce(&mut Self) -> Res<Completion>,
    ) -> Res<Completion> {
        let a = self.side(|tracer| Ok((on_true(tracer)?, None)))?;
        let b = self.side(|tracer| Ok((on_false(tracer)?, None)))?;
        Ok(self.merge(cond, [a, b], span)?.0)
    }

    /// The value of one of two expressions, of which one is evaluated.
    pub(super) fn choose(
        &mut self,
        cond: Expr,
        span: Span,
        on_true: impl FnOnce(&mut Self) -> Res<Value<'a>>,
        on_false: impl FnOnce(&mut Self) -> Res<Value<'a>>,
    ) -> Res<Value<'a>> {
        let a = self.side(|tracer| Ok((Completion::normal(), Some(on_true(tracer)?))))?;
        let b = self.side(|tracer| Ok((Completion::normal(), Some(on_false(tracer)?))))?;
        let (done, value) = self.merge(cond, [a, b], span)?;
        self.place.pending.extend(&done.exits);
        match value {
            Some(value) => Ok(value),
            None => Err(Stop::Exit(done)),
        }
    }

    /// Statements that run unless a jump is under way.
    pub(super) fn guarded(&mut self, span: Span, f: impl FnOnce(&mut Self) -> Res<Completion>) -> Res<Completion> {
        let labels = std::mem::take(&mut self.place.pending);
        if labels.is_empty() {
            return f(self);
        }
        let idle = build::eq(self.exit_code(), build::i64(0));
        let idle = self.bind("idle", idle);
        let a = self.side(|tracer| Ok((f(tracer)?, None)))?;
        let b = Side::empty(Completion { normal: false, exits: labels });
        Ok(self.merge(idle, [a, b], span)?.0)
    }

    /// An expression that is evaluated unless a jump is under way; else its value is nobody's.
    pub(super) fn guarded_value(&mut self, span: Span, f: impl FnOnce(&mut Self) -> Res<Value<'a>>) -> Res<Value<'a>> {
        if self.place.pending.is_empty() {
            return f(self);
        }
        let labels = std::mem::take(&mut self.place.pending);
        let idle = build::eq(self.exit_code(), build::i64(0));
        let idle = self.bind("idle", idle);
        let a = self.side(|tracer| Ok((Completion::normal(), Some(f(tracer)?))))?;
        let b = Side::empty(Completion { normal: false, exits: labels });
        let (done, value) = self.merge(idle, [a, b], span)?;
        self.place.pending = done.exits.clone();
        value.ok_or(Stop::Exit(Completion { normal: false, exits: done.exits }))
    }

    /// Ends a jump that goes here.
    pub(super) fn land(&mut self, label: super::Label, mut done: Completion) -> Completion {
        if !done.exits.contains(&label) {
            return done;
        }
        let code = self.exit_code();
        let landed = match done.normal || done.exits.len() > 1 {
            false => Value::int(0),
            true => {
                let is_here = build::eq(code.clone(), build::i64(label));
                let code = self.bind("exit", build::select(is_here, build::i64(0), code));
                Value::scalar(code)
            }
        };
        done.exits.retain(|exit| *exit != label);
        done.normal = true;
        self.store.set(EXIT, if done.exits.is_empty() { Value::int(0) } else { landed });
        done
    }

    /// Makes one of two sides: the branch of the run, the cells, and the value if both sides give one.
    pub(super) fn merge(
        &mut self,
        cond: Expr,
        sides: [Side<'a>; 2],
        span: Span,
    ) -> Res<(Completion, Option<Value<'a>>)> {
        let done = sides[0].done.clone().or(&sides[1].done);
        let plans = self.plans(&sides, span)?;
        let value_plan = self.value_plan(&sides, span)?;
        let mut types = Vec::new();
        plans.iter().for_each(|(_, plan, _)| plan.types(&mut types));
        value_plan.iter().for_each(|plan| plan.types(&mut types));
        let is_empty = types.is_empty() && sides.iter().all(|side| side.block.is_empty());
        let mut taken = Vec::new();
        if !is_empty {
            let [a, b] = sides;
            let a = self.close_side(a, &plans, value_plan.as_ref(), 0, span)?;
            let b = self.close_side(b, &plans, value_plan.as_ref(), 1, span)?;
            taken = self.flow.branch(cond, a, b, types.len(), span);
            let value = self.taken(plans, value_plan, taken.drain(..));
            return Ok((done, value));
        }
        let value = self.taken(plans, value_plan, taken.into_iter());
        Ok((done, value))
    }

    /// Sets the cells to what was passed on; gives the value.
    fn taken(
        &mut self,
        plans: Vec<(CellId, Plan<'a>, [bool; 2])>,
        value: Option<Plan<'a>>,
        mut from: impl Iterator<Item = Expr>,
    ) -> Option<Value<'a>> {
        for (cell, plan, _) in plans {
            let name = self.store.name(cell).clone();
            let taken = self.take(&plan, &name, &mut from);
            self.store.set(cell, taken);
        }
        value.map(|plan| self.take(&plan, "the value", &mut from))
    }

    /// How each cell that a side changed is merged, and on which sides its value matters.
    fn plans(&mut self, sides: &[Side<'a>; 2], span: Span) -> Res<Vec<(CellId, Plan<'a>, [bool; 2])>> {
        let cells: BTreeSet<CellId> = sides.iter().flat_map(|side| side.changes.keys().copied()).collect();
        let mut plans = Vec::new();
        for cell in cells {
            let matters = [0, 1].map(|side: usize| self.matters(cell, &sides[side].done));
            let value = |side: usize| sides[side].changes.get(&cell).unwrap_or_else(|| self.store.get(cell)).clone();
            let (a, b) = match matters {
                [true, true] => (value(0), value(1)),
                [true, false] => (value(0), value(0)),
                [false, true] => (value(1), value(1)),
                [false, false] => continue,
            };
            // On a side that ends, the builder is handed on all the same.
            let matters = if matches!(a, Value::Builder(..)) { [true, true] } else { matters };
            let name = self.store.name(cell).clone();
            let paths = match matters {
                [true, false] => [0, 0],
                [false, true] => [1, 1],
                _ => [0, 1],
            };
            let changes = paths.map(|path: usize| &sides[path].changes);
            let unseen = paths.map(|path: usize| &sides[1 - path].freezes[..]);
            let is_inner = !(matters[0] && matters[1]);
            let mark = sides[0].mark.min(sides[1].mark);
            let join = Join { sides: changes, unseen, is_inner, mark, cell: Some(cell), name: &name, span };
            plans.push((cell, self.join(&join, &a, &b)?, matters));
        }
        Ok(plans)
    }

    /// Whether what a cell holds at the end of statements matters, if they end so.
    fn matters(&self, cell: CellId, done: &Completion) -> bool {
        if cell == EXIT || done.normal {
            return true;
        }
        // The variables of a function are of no use once it returns.
        let label = self.store.owner(cell).map(|frame| self.frames[frame].label);
        !done.diverges() && !done.exits.iter().all(|exit| label == Some(*exit))
    }

    fn value_plan(&mut self, sides: &[Side<'a>; 2], span: Span) -> Res<Option<Plan<'a>>> {
        let (a, b, paths) = match (&sides[0].value, &sides[1].value) {
            (Some(a), Some(b)) => (a, b, [0, 1]),
            (Some(a), None) => (a, a, [0, 0]),
            (None, Some(b)) => (b, b, [1, 1]),
            (None, None) => return Ok(None),
        };
        let changes = paths.map(|path: usize| &sides[path].changes);
        let unseen = paths.map(|path: usize| &sides[1 - path].freezes[..]);
        let is_inner = sides[0].value.is_none() || sides[1].value.is_none();
        let mark = sides[0].mark.min(sides[1].mark);
        self.join(&Join { sides: changes, unseen, is_inner, mark, cell: None, name: "the value", span }, a, b).map(Some)
    }

    /// The expression of a side: its statements, and what it passes on.
    fn close_side(
        &mut self,
        side: Side<'a>,
        plans: &[(CellId, Plan<'a>, [bool; 2])],
        value: Option<&Plan<'a>>,
        number: usize,
        span: Span,
    ) -> Res<Expr> {
        self.flow.resume(side.block);
        self.store.enter();
        self.store.apply(&side.changes);
        let mut out = Vec::new();
        for (cell, plan, matters) in plans {
            let held = if matters[number] { self.store.get(*cell).clone() } else { Value::Nothing };
            self.emit(&held, plan, span, &mut out)?;
        }
        if let Some(plan) = value {
            let value = side.value.unwrap_or(Value::Nothing);
            self.emit(&value, plan, span, &mut out)?;
        }
        self.store.leave();
        Ok(self.flow.close_branch(out))
    }
}
