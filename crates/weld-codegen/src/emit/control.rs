//! `if`, `select`.

use inkwell::values::BasicValueEnum;
use weld_core::ir::{Expr, ExprKind};
use weld_core::ty::{BuilderType, Type};

use super::{Emitter, Res, Val};
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
}
