//! `if`, `select`, `iterate`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValueEnum, IntValue, PhiValue};
use weld_core::diag::Span;
use weld_core::ir::counted::{Counted, counted};
use weld_core::ir::{Expr, ExprKind, Func};
use weld_core::ty::{BuilderType, Type};

use super::analysis::{has_loops, speculatable};
use super::{Emitter, Handle, Res, Val, internal};
use crate::layout;

/// What an `if` of scalars may cost in both branches to be computed without a branch.
const SELECT_BUDGET: u32 = 6;
/// The same for what is appended under a condition.
const APPEND_BUDGET: u32 = 12;
/// Steps of a counting `iterate` between two looks at the cancellation flag.
const STEPS: i64 = 4 * 1024;
/// The most columns that are written for nothing.
const APPEND_COLUMNS: usize = 4;

impl<'c> Emitter<'c, '_> {
    pub(super) fn emit_if(&mut self, expr: &Expr, cond: &Expr, on_true: &Expr, on_false: &Expr) -> Res<Val<'c>> {
        if let Some(value) = self.emit_append_if(cond, on_true, on_false)? {
            return Ok(value);
        }
        if expr.ty.as_scalar().is_some()
            && speculatable(on_true, SELECT_BUDGET).and_then(|left| speculatable(on_false, left)).is_some()
        {
            return self.emit_select(&expr.ty, cond, on_true, on_false);
        }
        let cond = self.emit_int(cond)?;
        let (yes, no, done) = (self.new_block("then"), self.new_block("else"), self.new_block("endif"));
        self.branch_if(cond, yes, no)?;
        self.at(yes);
        let a = self.emit(on_true)?;
        let yes = self.current_block()?;
        self.at(no);
        let b = self.emit(on_false)?;
        let no = self.current_block()?;
        self.join(&expr.ty, (a, yes), (b, no), done)
    }

    /// Joins two ends of control flow: positioned at `done`, the value is whichever was computed.
    pub(crate) fn join(
        &mut self,
        ty: &Type,
        (a, a_end): (Val<'c>, BasicBlock<'c>),
        (b, b_end): (Val<'c>, BasicBlock<'c>),
        done: BasicBlock<'c>,
    ) -> Res<Val<'c>> {
        let like = self.join_builders(ty, &a, a_end, &b, b_end)?;
        let mut ends = Vec::with_capacity(2);
        for (value, end) in [(a, a_end), (b, b_end)] {
            self.at(end);
            let mut registers = Vec::new();
            self.flatten(&value, ty, &mut registers)?;
            ends.push((registers, self.current_block()?));
            self.branch(done)?;
        }
        self.at(done);
        let mut joined = Vec::with_capacity(ends[0].0.len());
        for (&a, &b) in ends[0].0.iter().zip(&ends[1].0) {
            let phi = self.b.build_phi(a.get_type(), "")?;
            phi.add_incoming(&[(&a, ends[0].1), (&b, ends[1].1)]);
            joined.push(phi.as_basic_value());
        }
        self.unflatten(ty, &mut joined.into_iter(), &like)
    }

    /// The builders of a joined value: the common one, or a new one that takes over the state of either.
    fn join_builders(
        &mut self,
        ty: &Type,
        a: &Val<'c>,
        a_end: BasicBlock<'c>,
        b: &Val<'c>,
        b_end: BasicBlock<'c>,
    ) -> Res<Val<'c>> {
        match (ty, a, b) {
            (Type::Struct(fields), Val::Struct(xs), Val::Struct(ys)) => {
                let mut values = Vec::with_capacity(fields.len());
                for ((field, x), y) in fields.iter().zip(xs.iter()).zip(ys.iter()) {
                    values.push(self.join_builders(field, x, a_end, y, b_end)?);
                }
                Ok(Val::structure(values))
            }
            (Type::Builder(builder), Val::Builder(x), Val::Builder(y)) => {
                if Rc::ptr_eq(x, y) {
                    return Ok(a.clone());
                }
                let state = self.alloca(layout::row(ty).size, "joined")?;
                self.at(a_end);
                self.copy_state(builder, x.state, state)?;
                self.at(b_end);
                self.copy_state(builder, y.state, state)?;
                // Growing takes memory from the run's own region: the two may have had different ones.
                Ok(Val::Builder(Rc::new(Handle {
                    ty: builder.clone(),
                    state,
                    region: self.region,
                    reserved: Cell::new(false),
                    filled: RefCell::default(),
                    inside: Cell::new(None),
                    hint: None,
                    copies_bytes: x.copies_bytes || y.copies_bytes,
                })))
            }
            _ => Ok(Val::Absent),
        }
    }

    /// `if(cond, merge(b, x), b)` into an appender with room: stores always, counts if `cond`.
    fn emit_append_if(&mut self, cond: &Expr, on_true: &Expr, on_false: &Expr) -> Res<Option<Val<'c>>> {
        let ExprKind::Var(sym) = on_false.kind else { return Ok(None) };
        let Type::Builder(BuilderType::Appender(element)) = &on_false.ty else { return Ok(None) };
        let Some(Val::Builder(handle)) = self.vars.get(&sym).cloned() else { return Ok(None) };
        if !handle.reserved.get() || handle.copies_bytes || layout::columns(element).len() > APPEND_COLUMNS {
            return Ok(None);
        }
        let element = element.clone();
        // Conditions of nested ifs come together as long as computing the inner ones costs no more than branching.
        let mut conds = vec![cond];
        let mut merge = on_true;
        let value = loop {
            match &merge.kind {
                ExprKind::If { cond, on_true, on_false }
                    if matches!(on_false.kind, ExprKind::Var(s) if s == sym)
                        && speculatable(cond, APPEND_BUDGET).is_some() =>
                {
                    conds.push(cond);
                    merge = on_true;
                }
                ExprKind::Merge { builder, value } if matches!(builder.kind, ExprKind::Var(s) if s == sym) => {
                    break value;
                }
                _ => return Ok(None),
            }
        };
        if value.ty != *element || speculatable(value, APPEND_BUDGET).is_none() {
            return Ok(None);
        }
        let mut all = self.emit_int(conds[0])?;
        for cond in &conds[1..] {
            let cond = self.emit_int(cond)?;
            all = self.and(all, cond)?;
        }
        let value = self.emit(value)?;
        self.append_if(&handle, &element, all, &value)?;
        Ok(Some(Val::Builder(handle)))
    }

    pub(super) fn emit_select(&mut self, ty: &Type, cond: &Expr, on_true: &Expr, on_false: &Expr) -> Res<Val<'c>> {
        let cond = self.emit(cond)?.scalar()?;
        let a = self.emit(on_true)?;
        let b = self.emit(on_false)?;
        match cond {
            BasicValueEnum::IntValue(cond) => self.choose_val(cond, &a, &b, ty),
            cond => Ok(Val::Scalar(self.select_lanes(cond, a.scalar()?, b.scalar()?)?)),
        }
    }

    /// `cond ? a : b` of any value without builders.
    pub(crate) fn choose_val(&self, cond: IntValue<'c>, a: &Val<'c>, b: &Val<'c>, ty: &Type) -> Res<Val<'c>> {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        self.flatten(a, ty, &mut xs)?;
        self.flatten(b, ty, &mut ys)?;
        let chosen: Vec<_> = xs.into_iter().zip(ys).map(|(x, y)| self.choose(cond, x, y)).collect::<Res<_>>()?;
        self.unflatten(ty, &mut chosen.into_iter(), a)
    }

    /// The state lives in phis; builders in the state keep their place in memory. Steps run between two looks at the
    /// cancellation flag: one, or as many as [`STEPS`] of a counter that LLVM then sees go up to a bound.
    pub(super) fn emit_iterate(&mut self, init: &Expr, step: &Func, span: Span) -> Res<Val<'c>> {
        let ty = &init.ty;
        let start = self.emit(init)?;
        let (param, _) = step.params.first().ok_or_else(|| internal("a step without a parameter"))?;
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
            let result = e.emit(&step.body)?;
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
