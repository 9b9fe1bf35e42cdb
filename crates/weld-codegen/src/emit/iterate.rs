//! `iterate`: a loop that carries a state.
//!
//! ```text
//! iterate:  state = phi(start, next); poll
//! step:     state = phi(state, next); next, go_on = step(state); if counter(next) < end goto step
//!           if go_on goto iterate
//! ```
//!
//! A vector of the state that is only read and then replaced by an `update` of itself is changed in place:
//! `iterate({v, 0L}, |s| {{update(s.$0, s.$1, lookup(s.$0, s.$1) * 2L), s.$1 + 1L}, s.$1 + 1L < len(s.$0)})` copies `v`
//! once.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValueEnum, IntValue, PhiValue};
use weld_core::diag::Span;
use weld_core::ir::counted::{Counted, counted};
use weld_core::ir::{Expr, ExprKind, Func, deep};
use weld_core::ty::Type;

use super::{Emitter, Res, Val, internal};
use crate::analysis::{Place, has_loops, is_temporary, places};
use crate::values::vector::element_of;

/// Steps of a counting `iterate` between two looks at the cancellation flag.
const STEPS: i64 = 4 * 1024;

impl<'c> Emitter<'c, '_> {
    /// The state lives in phis; builders in the state keep their place in memory. Steps run between two looks at the
    /// cancellation flag: one, or as many as [`STEPS`] of a counter that LLVM then sees go up to a bound.
    pub(super) fn emit_iterate(&mut self, init: &Expr, step: &Func, span: Span) -> Res<Val<'c>> {
        let ty = &init.ty;
        let start = self.emit(init)?;
        let (param, _) = step.params.first().ok_or_else(|| internal("a step without a parameter"))?;
        let places = places(step);
        let start = self.own_places(&places, init, start, span)?;
        let counted = counted(step).filter(|_| !has_loops(&step.body));
        let bound = counted.map(|counted| self.emit_int(counted.bound)).transpose()?;
        let mut registers = Vec::new();
        self.flatten(&start, ty, &mut registers)?;
        let from = self.current_block()?;
        let (head, stepping) = (self.new_block("iterate"), self.new_block("step"));
        let (stepped, done) = (self.new_block("stepped"), self.new_block("iterated"));
        self.branch(head)?;
        self.at(head);
        let outer = self.phis(&registers, from)?;
        self.poll_cancel(span)?;
        let values: Vec<_> = outer.iter().map(|phi| phi.as_basic_value()).collect();
        let end = match (counted, bound) {
            (Some(counted), Some(bound)) => {
                let state = self.unflatten(ty, &mut values.iter().copied(), &start)?;
                Some((counted, self.steps_end(counter(&state, counted)?, bound)?))
            }
            _ => None,
        };
        let polled = self.current_block()?;
        self.branch(stepping)?;

        self.at(stepping);
        let inner = self.phis(&values, polled)?;
        let state = self.unflatten(ty, &mut inner.iter().map(|phi| phi.as_basic_value()), &start)?;
        self.vars.insert(*param, state);
        self.loop_depth += 1;
        let escaping = vec![ty.clone()];
        let (next, registers, go_on) = self.with_scratch(escaping, &step.body, |e| {
            let result = e.emit_step(&step.body, &places)?;
            let next = result.field(0)?;
            let go_on = result.field(1)?.into_int()?;
            let mut registers = Vec::new();
            e.flatten(&next, ty, &mut registers)?;
            Ok((next, registers, go_on))
        })?;
        self.loop_depth -= 1;
        match end {
            Some((counted, end)) => {
                let more = self.cmp(IntPredicate::SLT, counter(&next, counted)?, end)?;
                let last = self.current_block()?;
                self.branch_if(more, stepping, stepped)?;
                add_incoming(&inner, &registers, last);
            }
            None => self.branch(stepped)?,
        }
        self.at(stepped);
        self.branch_if(go_on, head, done)?;
        add_incoming(&outer, &registers, stepped);
        self.at(done);
        self.unflatten(ty, &mut registers.into_iter(), &start)
    }

    /// The start with vectors of its own at the places that steps change and in what they own.
    fn own_places(&mut self, places: &[Place], init: &Expr, start: Val<'c>, span: Span) -> Res<Val<'c>> {
        let mut start = start;
        let owned = self.facts.reuse.state(init).to_vec();
        let is_copied = |field: Option<u32>| owned.iter().find(|(known, _)| *known == field).map(|(_, copied)| *copied);
        let mut copied: Vec<(Option<u32>, bool)> = owned.clone();
        copied.extend(places.iter().filter(|place| is_copied(place.field).is_none()).map(|place| (place.field, true)));
        for (field, copied) in copied {
            let (part, ty) = match (field, &init.kind, &init.ty) {
                (None, _, ty) => (Some(init), ty.clone()),
                (Some(field), kind, Type::Struct(types)) => {
                    let part = if let ExprKind::Struct(parts) = kind { parts.get(field as usize) } else { None };
                    (part, types[field as usize].clone())
                }
                _ => continue,
            };
            let place = Place { field, ty };
            let value = part_of(&place, &start)?;
            let vec = self.as_vec(&value)?;
            if !vec.input && (!copied || part.is_some_and(is_temporary)) {
                continue;
            }
            let region = self.region_for(&place.ty);
            let copy = self.copy_vec(&vec, element_of(&place.ty)?, region, span)?;
            start = with_part(&place, &start, Val::Vec(copy))?;
        }
        Ok(start)
    }

    /// The result of a step: what is changed in place comes last.
    fn emit_step(&mut self, body: &Expr, places: &[Place]) -> Res<Val<'c>> {
        if places.is_empty() {
            return self.emit(body);
        }
        let result = match &body.kind {
            ExprKind::Let { bindings, body } => {
                self.bind_all(bindings)?;
                body
            }
            _ => body,
        };
        let ExprKind::Struct(parts) = &result.kind else { return Err(internal("a step that gives no struct")) };
        let [next, go_on] = &parts[..] else { return Err(internal("a step that gives no pair")) };
        let go_on = self.emit(go_on)?;
        let next = match (&next.kind, places) {
            (_, [Place { field: None, .. }]) => self.change(next)?,
            (ExprKind::Struct(fields), _) => {
                let is_place = |i: usize| places.iter().any(|place| place.field == Some(i as u32));
                let mut values = vec![Val::Absent; fields.len()];
                for (i, field) in fields.iter().enumerate().filter(|(i, _)| !is_place(*i)) {
                    values[i] = self.emit(field)?;
                }
                for (i, field) in fields.iter().enumerate().filter(|(i, _)| is_place(*i)) {
                    values[i] = self.change(field)?;
                }
                Val::structure(values)
            }
            _ => return Err(internal("a state whose parts are not known")),
        };
        Ok(Val::structure(vec![next, go_on]))
    }

    /// Changes a vector of the state in place. All that is read is read before.
    fn change(&mut self, e: &Expr) -> Res<Val<'c>> {
        deep(|| match &e.kind {
            ExprKind::Update { data, index, value } => {
                let index = self.emit_int(index)?;
                let value = self.emit(value)?;
                let vec = self.change(data)?;
                self.update(&vec, &data.ty, index, &value, true, e.span)
            }
            ExprKind::Let { bindings, body } => {
                self.bind_all(bindings)?;
                self.change(body)
            }
            ExprKind::If { cond, on_true, on_false } => {
                let cond = self.emit_int(cond)?;
                let (yes, no, done) = (self.new_block("then"), self.new_block("else"), self.new_block("endif"));
                self.branch_if(cond, yes, no)?;
                self.at(yes);
                let a = self.change(on_true)?;
                let yes = self.current_block()?;
                self.at(no);
                let b = self.change(on_false)?;
                let no = self.current_block()?;
                self.join(&e.ty, (a, yes), (b, no), done)
            }
            _ => self.emit(e),
        })
    }

    fn phis(&self, registers: &[BasicValueEnum<'c>], from: BasicBlock<'c>) -> Res<Vec<PhiValue<'c>>> {
        let mut phis = Vec::with_capacity(registers.len());
        for register in registers {
            let phi = self.b.build_phi(register.get_type(), "")?;
            phi.add_incoming(&[(register, from)]);
            phis.push(phi);
        }
        Ok(phis)
    }

    /// Up to where the counter goes before the next look at the flag.
    fn steps_end(&self, counter: IntValue<'c>, bound: IntValue<'c>) -> Res<IntValue<'c>> {
        let i64 = self.unit.i64_type().into();
        let end = self.intrinsic("llvm.sadd.sat", &[i64], &[counter.into(), self.i64(STEPS).into()])?;
        let end = self.intrinsic("llvm.smin", &[i64], &[end.into(), bound.into()])?.into_int_value();
        // The largest counter wraps in the next step: that is one of its own.
        let wraps = self.cmp(IntPredicate::EQ, counter, self.i64(i64::MAX))?;
        self.choose_int(wraps, self.i64(i64::MIN), end)
    }
}

fn add_incoming<'c>(phis: &[PhiValue<'c>], registers: &[BasicValueEnum<'c>], from: BasicBlock<'c>) {
    for (phi, register) in phis.iter().zip(registers) {
        phi.add_incoming(&[(register, from)]);
    }
}

fn counter<'c>(state: &Val<'c>, counted: Counted<'_>) -> Res<IntValue<'c>> {
    match counted.field {
        Some(field) => state.field(field as usize)?.into_int(),
        None => state.clone().into_int(),
    }
}

/// The vector at a place of a state.
fn part_of<'c>(place: &Place, state: &Val<'c>) -> Res<Val<'c>> {
    match place.field {
        Some(field) => state.field(field as usize),
        None => Ok(state.clone()),
    }
}

/// The state with another vector at that place.
fn with_part<'c>(place: &Place, state: &Val<'c>, value: Val<'c>) -> Res<Val<'c>> {
    match (place.field, state) {
        (Some(field), Val::Struct(fields)) => {
            let mut fields = fields.to_vec();
            fields[field as usize] = value;
            Ok(Val::structure(fields))
        }
        (None, _) => Ok(value),
        _ => Err(internal("a state that is no struct")),
    }
}
