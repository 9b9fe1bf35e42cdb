//! From DataFusion's physical operators to Weld: each operator becomes one loop, as if it stood alone.
//!
//! A pipeline's operators are lowered in order into one program; a filter over a stream of `{i64,i64}` gives
//! ```weld
//! |input: stream[{i64,i64}]|
//! let filtered = result(for(input, appender[{i64}], |b, i, r| if(r.$1 > 5L, merge(b, {r.$0}), b)));
//! filtered
//! ```
//! and the next operator loops over `filtered`. Nothing is fused here: that is the optimizer's work. What has no
//! lowering is the value [`Unsupported`], and the operator stays with DataFusion.

pub(crate) mod accumulated;
pub(crate) mod aggregate;
pub(crate) mod cast;
pub(crate) mod date;
pub(crate) mod decimal;
pub(crate) mod expr;
mod first_last;
pub(crate) mod foreign;
pub(crate) mod function;
mod grouping_sets;
mod interval;
pub(crate) mod join;
pub(crate) mod lists;
pub(crate) mod logic;
pub(crate) mod math;
pub(crate) mod operator;
pub(crate) mod pipeline;
pub(crate) mod raise;
pub(crate) mod size;
mod states;
mod statistics;
mod sums;
pub(crate) mod text;
pub(crate) mod types;

use std::fmt;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;

use weld_core::ir::{Binding, Expr, ExprKind, Func, Names, Param, Program, Sym, build as ir};
use weld_core::op::Intrinsic;
use weld_core::opt::{Constant, can_fail, lift_constants};
use weld_core::ty::{ScalarKind, Type};
use weld_frontend::{Source, Sources};

pub(crate) use weld_arrow::Slot;

/// What stays with DataFusion, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The operator, expression or type.
    pub what: String,
    /// The reason, a phrase that follows a colon.
    pub why: String,
}

impl Unsupported {
    pub(crate) fn new(what: impl fmt::Display, why: impl fmt::Display) -> Unsupported {
        Unsupported { what: what.to_string(), why: why.to_string() }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

pub(crate) type Result<T, E = Unsupported> = std::result::Result<T, E>;

/// A SQL value of one row. `valid` is absent when the value cannot be null. A boolean that is null is false in
/// `value`, so that `value` alone says "true"; other nulls may carry anything until they are stored.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(crate) value: Expr,
    pub(crate) valid: Option<Expr>,
}

impl Sql {
    pub(crate) fn required(value: Expr) -> Sql {
        Sql { value, valid: None }
    }

    /// The condition that the value is there.
    pub(crate) fn valid(&self) -> Expr {
        self.valid.clone().unwrap_or_else(|| ir::bool(true))
    }

    /// As it is stored: the bare value, or `{value, valid}` with zero in place of an absent value.
    pub(crate) fn stored(self) -> Expr {
        match self.valid {
            None => self.value,
            Some(valid) => {
                if let Some(loaded) = loaded(&self.value, &valid) {
                    return loaded;
                }
                if self.value.ty == Type::interned() {
                    let (address, none) = (ir::field(self.value, 0), ir::number(ScalarKind::U64, 0));
                    return ir::strct([ir::strct([ir::select(valid.clone(), address, none)]), valid]);
                }
                let zero = ir::zero(&self.value.ty);
                // An absent list is empty already.
                let is_zero = self.value.ty == Type::BOOL || lists::is_list(&self.value.ty);
                let value = if is_zero { self.value } else { ir::select(valid.clone(), self.value, zero) };
                ir::strct([value, valid])
            }
        }
    }

    /// What [`Sql::stored`] stored.
    pub(crate) fn load(stored: Expr, nullable: bool) -> Sql {
        let (value, valid) = match nullable {
            true => (ir::field(stored.clone(), 0), Some(ir::field(stored, 1))),
            false => (stored, None),
        };
        match value.ty == Type::interned() {
            true => Sql { value: ir::intrinsic(Intrinsic::Interned, [value]), valid },
            false => Sql { value, valid },
        }
    }

    /// What stands for text that is interned, instead of the text.
    pub(crate) fn interned(self) -> Sql {
        match self.value.kind {
            ExprKind::Intrinsic(Intrinsic::Interned, mut args) => Sql { value: args.swap_remove(0), valid: self.valid },
            _ => self,
        }
    }

    /// The text's stand-in, made here.
    pub(crate) fn intern(self) -> Sql {
        // The bytes of a text that is NULL are not read. Those that are stored are none.
        let text = match &self.valid {
            Some(valid) if loaded(&self.value, valid).is_some() => self.value,
            Some(valid) => ir::select(valid.clone(), self.value.clone(), ir::zero(&self.value.ty)),
            None => self.value,
        };
        Sql { value: ir::intrinsic(Intrinsic::Intern, [text]), valid: self.valid }
    }
}

/// The nullable struct that both halves were taken of, which is as it should be already.
fn loaded(value: &Expr, valid: &Expr) -> Option<Expr> {
    let (ExprKind::Field(a, 0), ExprKind::Field(b, 1)) = (&value.kind, &valid.kind) else { return None };
    let (mut x, mut y) = (a, b);
    while let (ExprKind::Field(inner_x, i), ExprKind::Field(inner_y, j)) = (&x.kind, &y.kind) {
        if i != j {
            return None;
        }
        (x, y) = (inner_x, inner_y);
    }
    let is_same = matches!((&x.kind, &y.kind), (ExprKind::Var(x), ExprKind::Var(y)) if x == y);
    (is_same && a.ty.fields().is_some_and(|fields| fields.len() == 2)).then(|| (**a).clone())
}

/// The rows between two operators: a vector of structs, and where each column is. Columns that nobody above needs
/// have no slot.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) data: Expr,
    pub(crate) columns: Vec<Option<Slot>>,
}

impl Rows {
    /// The columns of one row `r`.
    pub(crate) fn columns_of(&self, r: &Expr) -> Vec<Option<Sql>> {
        let load = |slot: &Slot| Sql::load(ir::field(r.clone(), slot.field), slot.nullable);
        self.columns.iter().map(|slot| slot.as_ref().map(load)).collect()
    }

    /// Whether a column is text that is interned.
    pub(crate) fn is_interned(&self, column: usize) -> bool {
        self.columns[column].is_some_and(|slot| self.data.ty.element().is_some_and(|row| is_interned(row, slot)))
    }
}

/// Whether rows of this type have text there that is interned.
pub(crate) fn is_interned(row: &Type, slot: Slot) -> bool {
    let stored = row.fields().map(|fields| &fields[slot.field]);
    match (slot.nullable, stored.and_then(Type::fields)) {
        (true, Some([value, _])) => *value == Type::interned(),
        _ => stored == Some(&Type::interned()),
    }
}

/// The program of a pipeline while its operators are added.
#[derive(Debug, Default)]
pub(crate) struct Lowering {
    pub(crate) env: Env,
    bindings: Vec<Binding>,
}

/// What every part of a program shares: its names and its parameters.
#[derive(Debug, Default)]
pub(crate) struct Env {
    pub(crate) names: Names,
    params: Vec<Param>,
    args: Vec<Arg>,
    /// The texts of the functions that are called.
    pub(crate) sources: Sources,
}

/// What is passed for a parameter that is no stream.
#[derive(Clone, Debug)]
pub(crate) enum Arg {
    /// The table of the next build side.
    Table,
    /// An expression whose value is known when the pipeline starts: the result of a scalar subquery.
    Scalar { expr: Arc<dyn PhysicalExpr>, nullable: bool },
    /// A constant of the query, which the program does without. They stand behind all others.
    Constant(Constant),
}

impl Env {
    fn param(&mut self, name: &str, ty: Type, stream: bool) -> Expr {
        let sym = self.names.fresh(name);
        self.params.push(Param { sym, ty: ty.clone(), stream, known: None });
        ir::var(sym, ty)
    }

    /// A parameter that is passed whole.
    pub(crate) fn whole(&mut self, name: &str, ty: Type) -> Expr {
        self.param(name, ty, false)
    }

    /// The program of these parameters, and the texts of the functions in it.
    pub(crate) fn program(self, body: Expr) -> (Program, Arc<Source>) {
        let Env { names, params, sources, .. } = self;
        (Program { params, body, names }, sources.finish())
    }

    /// The parameter for an expression without columns; one for all its occurrences.
    pub(crate) fn scalar(&mut self, expr: &Arc<dyn PhysicalExpr>, ty: Type, nullable: bool) -> Sql {
        let is_same = |arg: &Arg| matches!(arg, Arg::Scalar { expr: known, .. } if known == expr);
        let others = self.params.iter().filter(|param| !param.stream);
        let known = others.zip(&self.args).find(|(_, arg)| is_same(arg)).map(|(param, _)| param.clone());
        let stored = match known {
            Some(param) => ir::var(param.sym, param.ty),
            None => {
                self.args.push(Arg::Scalar { expr: Arc::clone(expr), nullable });
                self.param("scalar", if nullable { Type::structure([ty, Type::BOOL]) } else { ty }, false)
            }
        };
        Sql::load(stored, nullable)
    }
}

impl Lowering {
    /// The stream, which is the first parameter.
    pub(crate) fn stream(&mut self, ty: Type) -> Expr {
        self.env.param("input", ty, true)
    }

    /// A join's table.
    pub(crate) fn table(&mut self, ty: Type) -> Expr {
        let name = format!("table{}", self.env.args.iter().filter(|arg| matches!(arg, Arg::Table)).count());
        self.env.args.push(Arg::Table);
        self.env.param(&name, ty, false)
    }

    /// A binding at the top of the program.
    pub(crate) fn bind(&mut self, name: &str, value: Expr) -> Expr {
        let sym = self.env.names.fresh(name);
        let variable = ir::var(sym, value.ty.clone());
        self.bindings.push(Binding { sym, value });
        variable
    }

    /// The program, what to pass for its parameters after the stream, and the texts of the functions in it.
    pub(crate) fn finish(self, body: Expr) -> (Program, Vec<Arg>, Arc<Source>) {
        let Env { names, params, mut args, sources } = self.env;
        let mut program = Program { params, body: ir::let_in(self.bindings, body), names };
        args.extend(lift_constants(&mut program).into_iter().map(Arg::Constant));
        (program, args, sources.finish())
    }
}

/// `for(data, builder, |b, i, r| update)`. `body` computes what it needs of the row `r` in a block of bindings and
/// gives the builder (its type may depend on what was computed) and the update of it.
pub(crate) fn for_each<F>(
    env: &mut Env,
    data: Expr,
    element: &str,
    body: impl FnOnce(&mut Block<'_>, Expr) -> Result<(Expr, F)>,
) -> Result<Expr>
where
    F: FnOnce(Expr) -> Expr,
{
    let iter = ir::over(data);
    let (b, i, r) = (env.names.fresh("b"), env.names.fresh("i"), env.names.fresh(element));
    let element_ty = iter.element_type();
    let mut block = Block::new(env);
    let (builder, update) = body(&mut block, ir::var(r, element_ty.clone()))?;
    let update = update(ir::var(b, builder.ty.clone()));
    let update = block.close(update);
    let params = vec![(b, builder.ty.clone()), (i, Type::I64), (r, element_ty)];
    Ok(ir::for_func(iter, builder, Func { params, body: Box::new(update) }))
}

/// A `let` block under construction: expressions that are used more than once are bound in it.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    pub(crate) env: &'a mut Env,
    bindings: Vec<Binding>,
}

impl<'a> Block<'a> {
    pub(crate) fn new(env: &'a mut Env) -> Block<'a> {
        Block { env, bindings: Vec::new() }
    }

    /// A variable for `value`, or `value` itself where evaluating it twice costs nothing.
    pub(crate) fn share(&mut self, name: &str, value: Expr) -> Expr {
        if is_cheap(&value) {
            return value;
        }
        let sym: Sym = self.env.names.fresh(name);
        let variable = ir::var(sym, value.ty.clone());
        self.bindings.push(Binding { sym, value });
        variable
    }

    /// Whether a value is there. What can fail is evaluated although nobody reads it: its errors are the query's.
    pub(crate) fn validity(&mut self, sql: Sql) -> Option<Expr> {
        if can_fail(&sql.value) {
            self.share("value", sql.value);
        }
        sql.valid
    }

    /// [`Block::share`] for both halves.
    pub(crate) fn share_sql(&mut self, name: &str, sql: Sql) -> Sql {
        let value = self.share(name, sql.value);
        let valid = sql.valid.map(|valid| self.share("valid", valid));
        Sql { value, valid }
    }

    /// What `make` binds stays inside the expression that it gives: for branches that must not be evaluated early.
    pub(crate) fn nested(&mut self, make: impl FnOnce(&mut Block<'_>) -> Result<Expr>) -> Result<Expr> {
        let mut inner = Block::new(self.env);
        let value = make(&mut inner)?;
        Ok(inner.close(value))
    }

    pub(crate) fn close(self, body: Expr) -> Expr {
        ir::let_in(self.bindings, body)
    }
}

fn is_cheap(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::Literal(_) | ExprKind::Bytes(_) | ExprKind::Var(_) => true,
        ExprKind::Field(inner, _) => is_cheap(inner),
        // As a field, it has to be seen for what it is.
        ExprKind::Intrinsic(Intrinsic::Interned, args) => args.iter().all(is_cheap),
        _ => false,
    }
}

/// As [`row_struct`], for rows that other operators read: text that is interned stays so.
pub(crate) fn inner_row(columns: Vec<Option<Sql>>) -> (Expr, Vec<Option<Slot>>) {
    row_struct(columns.into_iter().map(|column| column.map(Sql::interned)).collect())
}

/// The struct of a row and the slots of its columns; a row of no columns still needs a field.
pub(crate) fn row_struct(columns: Vec<Option<Sql>>) -> (Expr, Vec<Option<Slot>>) {
    let mut fields = Vec::new();
    let slots = columns
        .into_iter()
        .map(|column| {
            column.map(|sql| {
                let nullable = sql.valid.is_some();
                fields.push(sql.stored());
                Slot { field: fields.len() - 1, nullable }
            })
        })
        .collect();
    if fields.is_empty() {
        fields.push(ir::bool(true));
    }
    (ir::strct(fields), slots)
}
