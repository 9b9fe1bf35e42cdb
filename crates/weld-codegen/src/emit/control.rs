//! `if`, `select`.

use inkwell::values::BasicValueEnum;
use weld_core::ir::Expr;
use weld_core::ty::Type;

use super::{Emitter, Res, Val, internal};
use crate::analysis::loop_plan::Append;
use crate::analysis::speculatable;

/// What an `if` of scalars may cost in both branches to be computed without a branch.
const SELECT_BUDGET: u32 = 6;

impl<'c> Emitter<'c, '_> {
    pub(super) fn emit_if(&mut self, expr: &Expr, cond: &Expr, on_true: &Expr, on_false: &Expr) -> Res<Val<'c>> {
        if self.appends.contains(&std::ptr::from_ref(expr))
            && let Some(append) = Append::of(expr)
        {
            return self.emit_append(&append);
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

    /// Stores always, counts if the conditions hold.
    fn emit_append(&mut self, append: &Append<'_>) -> Res<Val<'c>> {
        let Some(Val::Builder(handle)) = self.vars.get(&append.builder).cloned() else {
            return Err(internal("an append to no builder"));
        };
        let mut all = self.emit_int(append.conds[0])?;
        for cond in &append.conds[1..] {
            let cond = self.emit_int(cond)?;
            all = self.and(all, cond)?;
        }
        let value = self.emit(append.value)?;
        self.append_if(&handle, &append.value.ty, all, &value)?;
        Ok(Val::Builder(handle))
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
