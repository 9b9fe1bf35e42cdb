//! `if`, `select`.

use std::rc::Rc;

use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValueEnum, IntValue};
use weld_core::ir::{Expr, ExprKind};
use weld_core::ty::{BuilderType, Type};

use super::{Emitter, Handle, Res, Val};
use crate::analysis::speculatable;
use crate::layout;

/// What an `if` of scalars may cost in both branches to be computed without a branch.
const SELECT_BUDGET: u32 = 6;
/// The same for what is appended under a condition.
const APPEND_BUDGET: u32 = 12;
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
                Ok(Val::Builder(Rc::new(Handle {
                    copies_bytes: x.copies_bytes || y.copies_bytes,
                    ..Handle::new(builder.clone(), state, self.inner_region(x.region, y.region))
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
}
