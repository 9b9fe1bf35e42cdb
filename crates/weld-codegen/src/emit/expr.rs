//! The dispatch over all kinds of expressions.

use weld_core::diag::Span;
use weld_core::ir::{Binding, Expr, ExprKind, Sym, deep};
use weld_core::op::BinaryOp;
use weld_core::ty::Type;
use weld_runtime::Status;

use super::{Demand, Emitter, Res, Site, Val, internal};
use crate::analysis::{demand_of_operands, is_temporary, speculatable};
use crate::values::scalar_kind;

/// What the right side of `&&` may cost to be computed without a branch.
const AND_BUDGET: u32 = 12;

impl<'c> Emitter<'c, '_> {
    pub(crate) fn emit(&mut self, expr: &Expr) -> Res<Val<'c>> {
        self.emit_parts(expr, &Demand::All)
    }

    /// Emits what is demanded of an expression; the rest of its value may be absent.
    pub(crate) fn emit_parts(&mut self, expr: &Expr, demand: &Demand) -> Res<Val<'c>> {
        deep(|| self.emit_here(expr, demand))
    }

    fn emit_here(&mut self, expr: &Expr, demand: &Demand) -> Res<Val<'c>> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(Val::Scalar(self.literal(*literal))),
            ExprKind::Bytes(bytes) => Ok(Val::Bytes(self.constant_bytes_value(bytes))),
            ExprKind::Var(sym) => self.emit_var(*sym, demand),
            ExprKind::Let { bindings, body } => {
                self.bind_all(bindings)?;
                self.emit_parts(body, demand)
            }
            ExprKind::Unary(op, of) => {
                let value = self.emit(of)?.scalar()?;
                let kind = scalar_kind(&of.ty)?;
                Ok(Val::Scalar(self.unary(*op, kind, value)?))
            }
            ExprKind::Binary(op, a, b) => self.emit_binary(expr, *op, a, b),
            ExprKind::Cast(of) => {
                let value = self.emit(of)?.scalar()?;
                Ok(Val::Scalar(self.cast(value, scalar_kind(&of.ty)?, scalar_kind(&expr.ty)?)?))
            }
            ExprKind::If { cond, on_true, on_false } => self.emit_if(expr, cond, on_true, on_false),
            ExprKind::Select { cond, on_true, on_false } => self.emit_select(&expr.ty, cond, on_true, on_false),
            ExprKind::Struct(fields) => {
                let mut values = Vec::with_capacity(fields.len());
                for (i, field) in fields.iter().enumerate() {
                    values.push(self.emit_parts(field, &demand.field(i))?);
                }
                Ok(Val::structure(values))
            }
            ExprKind::Field(of, index) => self.emit_field(of, *index as usize, demand),
            ExprKind::Vector(elements) => self.emit_vector(&expr.ty, elements, span),
            ExprKind::Len(of) => {
                let value = self.emit(of)?;
                Ok(Val::int(self.len_of(&value)?))
            }
            ExprKind::Lookup { .. }
            | ExprKind::OptLookup { .. }
            | ExprKind::KeyExists { .. }
            | ExprKind::Slice { .. }
            | ExprKind::Sort { .. }
            | ExprKind::ToVec(_)
            | ExprKind::Update { .. } => self.emit_data(expr, demand),
            ExprKind::Iterate { init, step } => self.emit_iterate(init, step, span),
            ExprKind::NewBuilder { arg } => self.emit_new_builder(&expr.ty, arg.as_deref(), span),
            ExprKind::Merge { builder, value } => self.emit_merge(builder, value, span),
            ExprKind::For { iter, builder, func } => self.emit_for(expr, iter, builder, func),
            ExprKind::Result(builder) => {
                let builder = self.emit(builder)?;
                self.result(&builder, span)
            }
            ExprKind::Assert { cond, message, values, raised } => {
                let status = if *raised { Status::Raised } else { Status::AssertionFailed };
                let site = Site { status: Some(status), span, message: message.clone(), shown: Vec::new() };
                self.emit_assert(cond, values, site)
            }
            ExprKind::Broadcast(of) => {
                let value = self.emit(of)?.scalar()?;
                let lanes = self.unit.lanes(scalar_kind(&of.ty)?);
                Ok(Val::Scalar(self.splat(value, lanes)?))
            }
            ExprKind::Intrinsic(intrinsic, args) => {
                if let Some(value) = self.emit_wide(expr)? {
                    return Ok(Val::int(value));
                }
                match self.answer(expr)? {
                    Some(answer) => Ok(answer),
                    None => self.emit_intrinsic(*intrinsic, args, demand, span),
                }
            }
            ExprKind::Serialize(of) => {
                let value = self.emit(of)?;
                self.serialize(&value, &of.ty, span)
            }
            ExprKind::Deserialize(of) => {
                let data = self.emit(of)?;
                self.deserialize(data.bytes()?, &expr.ty, span)
            }
            ExprKind::CUdf { name, args } => self.emit_cudf(name, args, &expr.ty, span),
        }
    }

    fn emit_var(&mut self, sym: Sym, demand: &Demand) -> Res<Val<'c>> {
        let value = self.vars.get(&sym).cloned();
        let value = value.ok_or_else(|| internal(&format!("{sym:?} has no value here")))?;
        if *demand == Demand::All { self.force(value) } else { Ok(value) }
    }

    fn emit_field(&mut self, of: &Expr, index: usize, demand: &Demand) -> Res<Val<'c>> {
        let mut fields = vec![Demand::None; index];
        fields.push(demand.clone());
        let value = self.emit_parts(of, &Demand::Fields(fields))?.field(index)?;
        if *demand == Demand::All { self.force(value) } else { Ok(value) }
    }

    /// What reads vectors and dictionaries, or makes them of others.
    fn emit_data(&mut self, expr: &Expr, demand: &Demand) -> Res<Val<'c>> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Lookup { data, key, checked } => {
                let table = self.emit(data)?;
                let index = self.emit(key)?;
                match table {
                    Val::Dict(table) => self.dict_lookup(table, &data.ty, &index, demand, span),
                    vec => self.lookup(&vec, &data.ty, index.into_int()?, *checked, demand, span, false),
                }
            }
            ExprKind::OptLookup { data, key } => {
                let table = self.emit(data)?.dict()?;
                let key = self.emit(key)?;
                self.dict_opt_lookup(table, &data.ty, &key, &demand.field(1), span)
            }
            ExprKind::KeyExists { data, key } => {
                let table = self.emit(data)?.dict()?;
                let key = self.emit(key)?;
                Ok(Val::int(self.dict_key_exists(table, &data.ty, &key, span)?))
            }
            ExprKind::Slice { data, start, size } => {
                let value = self.emit(data)?;
                let start = self.emit_int(start)?;
                let size = self.emit_int(size)?;
                self.slice(&value, &data.ty, start, size, span)
            }
            ExprKind::Sort { data, compare } => {
                let value = self.emit(data)?;
                self.emit_sort(&value, &data.ty, compare, span)
            }
            ExprKind::ToVec(of) => {
                let table = self.emit(of)?.dict()?;
                self.dict_to_vec(table, &of.ty, span)
            }
            ExprKind::Update { data, index, value } => {
                let vec = self.emit(data)?;
                let index = self.emit_int(index)?;
                let value = self.emit(value)?;
                let own = is_temporary(data) || self.facts.reuse.in_place(expr);
                self.update(&vec, &data.ty, index, &value, own, span)
            }
            _ => Err(internal("an expression that reads no data")),
        }
    }

    fn emit_new_builder(&mut self, ty: &Type, arg: Option<&Expr>, span: Span) -> Res<Val<'c>> {
        let own = arg.is_some_and(is_temporary);
        let arg = arg.map(|arg| self.emit(arg)).transpose()?;
        match ty {
            Type::Builder(ty) => self.new_builder(ty, arg.as_ref(), own, span),
            _ => Err(internal("a new builder of no builder type")),
        }
    }

    /// Traps at `site` unless the condition holds, and shows these values then.
    fn emit_assert(&mut self, cond: &Expr, values: &[Expr], mut site: Site) -> Res<Val<'c>> {
        let cond = self.emit_int(cond)?;
        let failed = self.b.build_not(cond, "")?;
        let mut words = Vec::new();
        for value in values {
            let kind = scalar_kind(&value.ty)?;
            let value = self.emit(value)?.scalar()?;
            words.extend(self.detail_words(kind, value)?);
            site.shown.push(kind);
        }
        self.trap_at(failed, site, &words)?;
        Ok(Val::int(self.bool(true)))
    }

    pub(crate) fn bind(&mut self, binding: &Binding) -> Res<()> {
        let demand = self.facts.demands.get(&binding.sym).cloned().unwrap_or_default();
        let value = match &binding.value.kind {
            ExprKind::Lookup { data, key, checked } if data.ty.element().is_some() => {
                let vec = self.emit(data)?;
                let index = self.emit_int(key)?;
                self.lookup(&vec, &data.ty, index, *checked, &demand, binding.value.span, true)?
            }
            _ => self.emit_parts(&binding.value, &demand)?,
        };
        self.vars.insert(binding.sym, value);
        Ok(())
    }

    /// Binds all of a value, whatever the program reads of it.
    pub(crate) fn bind_whole(&mut self, binding: &Binding) -> Res<()> {
        let value = self.emit(&binding.value)?;
        self.vars.insert(binding.sym, value);
        Ok(())
    }

    fn emit_binary(&mut self, expr: &Expr, op: BinaryOp, a: &Expr, b: &Expr) -> Res<Val<'c>> {
        if matches!(op, BinaryOp::And | BinaryOp::Or) && expr.ty == Type::BOOL && speculatable(b, AND_BUDGET).is_none()
        {
            return self.emit_short_circuit(op, a, b);
        }
        let read = demand_of_operands(op, &a.ty);
        let x = self.emit_parts(a, &read)?;
        let y = self.emit_parts(b, &read)?;
        match &a.ty {
            Type::Scalar(kind) | Type::Simd(kind) => {
                Ok(Val::Scalar(self.binary(op, *kind, x.scalar()?, y.scalar()?, expr.span)?))
            }
            ty => Ok(Val::int(self.compare(op, ty, &x, &y, expr.span)?)),
        }
    }

    fn emit_short_circuit(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Res<Val<'c>> {
        let left = self.emit_int(a)?;
        let (right, done) = (self.new_block("right"), self.new_block("both"));
        let from = self.current_block()?;
        match op {
            BinaryOp::And => self.branch_if(left, right, done)?,
            _ => self.branch_if(left, done, right)?,
        };
        self.at(right);
        let value = self.emit_int(b)?;
        let end = self.current_block()?;
        self.branch(done)?;
        self.at(done);
        let phi = self.b.build_phi(self.unit.ll.bool_type(), "")?;
        phi.add_incoming(&[(&left, from), (&value, end)]);
        Ok(Val::Scalar(phi.as_basic_value()))
    }
}
