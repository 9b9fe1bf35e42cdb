//! Calls: the function's program becomes part of the row's expressions, before anything is fused.
//!
//! ```weld
//! # dot(scaled(v), w) of two lists that may be null
//! if(r.$0.$1 && r.$1.$1, if(require(r.$2.$1 && r.$3.$1, ".. NULL in it .."), <dot of <scaled of r.$0.$0> and r.$1.$0>, 0.0f), 0.0f)
//! ```
//! A list that a function makes for another is made inside of that one's condition, so that their loops fuse.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use weld_core::ir::{Expr, Program, build as ir};
use weld_core::ty::Type;
use weld_frontend::Source;

use super::nested::{checked, passed, returned};
use super::{WeldFunction, nested};
use crate::lower::expr::{Scope, guarded, lower};
use crate::lower::lists::{is_list, is_nested, list, lower_nested, streamed_type, whole_types};
use crate::lower::{Block, Lowering, Result, Sql, Unsupported, for_each};

/// A call of a function, or a field of the struct that it gives: `step(x)['value']`.
#[derive(Clone, Copy)]
pub(crate) struct Called<'a> {
    call: &'a ScalarFunctionExpr,
    function: &'a WeldFunction,
    field: Option<usize>,
}

impl<'a> Called<'a> {
    /// `None` if the expression is neither.
    pub(crate) fn of(expr: &'a ScalarFunctionExpr) -> Option<Called<'a>> {
        if let Some(function) = expr.fun().inner().downcast_ref::<WeldFunction>() {
            return Some(Called { call: expr, function, field: None });
        }
        let [of, name] = expr.args() else { return None };
        let name = name.downcast_ref::<Literal>().and_then(|name| name.value().try_as_str().flatten());
        let of = of.downcast_ref::<ScalarFunctionExpr>().filter(|_| expr.fun().inner().is::<GetFieldFunc>())?;
        let called = Called::of(of).filter(|called| called.field.is_none())?;
        let DataType::Struct(fields) = called.function.result() else { return None };
        let (field, _) = fields.find(name?)?;
        Some(Called { field: Some(field), ..called })
    }

    /// The type of the value.
    pub(crate) fn result(&self) -> &'a DataType {
        match (self.field, self.function.result()) {
            (Some(field), DataType::Struct(fields)) => fields[field].data_type(),
            (_, result) => result,
        }
    }
}

/// The call's value for the row in scope: NULL if an argument is. A list is as [`crate::lower::lists`] has it.
pub(crate) fn lower_function(block: &mut Block<'_>, scope: &Scope<'_>, called: Called<'_>) -> Result<Sql> {
    Call::of(block, scope, called)?.value(block)
}

/// A call with its arguments for a row.
struct Call<'a> {
    called: Called<'a>,
    args: Vec<Passed<'a>>,
    /// What must hold so that no argument is NULL.
    valid: Vec<Expr>,
}

enum Passed<'a> {
    Value(Expr),
    /// A list, which is made inside of the condition.
    Made(Call<'a>),
}

impl<'a> Call<'a> {
    fn of(block: &mut Block<'_>, scope: &Scope<'_>, called: Called<'a>) -> Result<Call<'a>> {
        let Called { call, function, .. } = called;
        if matches!(called.result(), DataType::Struct(_)) {
            return Err(Unsupported::new(call.name(), "structs are returned outside of pipelines"));
        }
        if call.args().len() != function.params().len() {
            return Err(Unsupported::new(call.name(), "the number of arguments"));
        }
        let mut args = Vec::with_capacity(call.args().len());
        let mut valid = Vec::new();
        for (arg, ty) in call.args().iter().zip(function.params()) {
            let made = arg.downcast_ref::<ScalarFunctionExpr>().filter(|_| list(ty).is_some());
            let made = made.and_then(Called::of);
            if let Some(made) = made.filter(|made| list(made.result()).is_some()) {
                let made = Call::of(block, scope, made)?;
                note(&mut valid, made.valid.iter().cloned());
                args.push(Passed::Made(made));
                continue;
            }
            let sql = match is_nested(ty) {
                true if list(ty).is_none() => return Err(Unsupported::new(ty, "no Weld type stands for it")),
                true => lower_nested(block, scope, arg)?,
                false => lower(block, scope, arg)?,
            };
            let sql = block.share_sql("arg", sql);
            note(&mut valid, sql.valid);
            args.push(Passed::Value(sql.value));
        }
        // A list is made, and fails, whether or not another argument is NULL.
        for arg in &mut args {
            if let Passed::Made(made) = arg
                && made.valid.len() < valid.len()
            {
                let sql = made.value(block)?;
                *arg = Passed::Value(block.share_sql("arg", sql).value);
            }
        }
        Ok(Call { called, args, valid })
    }

    /// The value, or NULL.
    fn value(&self, block: &mut Block<'_>) -> Result<Sql> {
        let valid = self.valid.iter().cloned().reduce(ir::and).map(|valid| block.share("valid", valid));
        let makes_list = list(self.called.result()).is_some();
        let value = block.nested(|inner| {
            let value = self.inlined(inner)?;
            Ok(if makes_list { ir::strct([value, ir::bool(true)]) } else { value })
        })?;
        let sql = guarded(valid, value);
        Ok(block.share_sql("called", sql))
    }

    /// The function's program over arguments that are there.
    fn inlined(&self, block: &mut Block<'_>) -> Result<Expr> {
        let mut values = Vec::with_capacity(self.args.len());
        let Called { function, field, .. } = self.called;
        for ((arg, param), ty) in self.args.iter().zip(&function.function.params).zip(function.params()) {
            let value = match arg {
                Passed::Made(made) => made.inlined(block)?,
                Passed::Value(value) if is_list(&value.ty) => {
                    let whole = vec![ir::field(value.clone(), 1)];
                    without_nulls(whole, ir::field(value.clone(), 0), function.name())
                }
                Passed::Value(value) => value.clone(),
            };
            values.push(passed(block, value, &param.shape, ty, &param.name)?);
        }
        let env = &mut *block.env;
        let value = env.sources.call(&function.function, values, &mut env.names);
        let value = block.share("result", value);
        let (shape, name) = (function.function.output(), function.name());
        let mut parts = returned(block, value, &shape, function.result(), name, &mut Vec::new())?;
        let no_result = || Unsupported::new(name, "it has no result");
        match (field, function.result()) {
            (Some(field), DataType::Struct(fields)) => {
                let before = fields.iter().take(field).map(|field| leaves(field.data_type())).sum();
                // The others are made as well: their errors are the query's.
                let parts = block.share("parts", ir::strct(parts));
                let has_part = parts.ty.fields().is_some_and(|parts| parts.len() > before);
                has_part.then(|| ir::field(parts, before)).ok_or_else(no_result)
            }
            _ => parts.pop().ok_or_else(no_result),
        }
    }
}

/// How many columns a result of the type has.
fn leaves(ty: &DataType) -> usize {
    match ty {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        _ => 1,
    }
}

/// Adds conditions that are not known.
fn note(known: &mut Vec<Expr>, conditions: impl IntoIterator<Item = Expr>) {
    for condition in conditions {
        if !known.iter().any(|known| known.same_as(&condition)) {
            known.push(condition);
        }
    }
}

/// The value, or an error where NULL is inside of a list that is passed.
fn without_nulls(whole: Vec<Expr>, value: Expr, name: &str) -> Expr {
    match whole.into_iter().reduce(ir::and) {
        Some(whole) => checked(whole, &format!("a list with NULL in it is passed to {name}"), [], value),
        None => value,
    }
}

/// The program that calls the function for each row of its arguments as columns, and how its rows are read.
#[derive(Debug)]
pub(super) struct RowKernel {
    pub(super) program: Program,
    /// Of the arguments; one column at least, for a stream needs it to carry the number of rows.
    pub(super) schema: Schema,
    pub(super) source: Arc<Source>,
    /// The columns of the result, in the order of the row's fields; then the row's validity, if an argument may be
    /// null.
    pub(super) leaves: Vec<DataType>,
    pub(super) nullable: bool,
}

/// `types` are those of the arguments' columns, lists of any length perhaps where the parameters' are of a fixed one.
pub(super) fn kernel(function: &WeldFunction, given: &[DataType], nullable: &[bool]) -> Result<RowKernel> {
    let field =
        |(index, (ty, nullable)): (usize, (&DataType, &bool))| Field::new(format!("c{index}"), ty.clone(), *nullable);
    let mut fields: Vec<Field> = given.iter().zip(nullable).enumerate().map(field).collect();
    let arguments = fields.len();
    if fields.is_empty() {
        fields.push(Field::new("rows", DataType::Boolean, false));
    }
    let column = |field: &Field| {
        let ty = field.data_type();
        let ty = streamed_type(ty).ok_or_else(|| Unsupported::new(ty, "no Weld type stands for it"))?;
        Ok(if field.is_nullable() { Type::structure([ty, Type::BOOL]) } else { ty })
    };
    let mut types = fields.iter().map(column).collect::<Result<Vec<Type>>>()?;
    types.extend(whole_types(fields.iter().map(Field::data_type)));
    let schema = Schema::new(fields);
    let mut lowering = Lowering::default();
    let data = lowering.stream(Type::vec(Type::structure(types)));
    let any_null = nullable.contains(&true);
    let mut leaves = Vec::new();
    let body = for_each(&mut lowering.env, data, "r", |block, r| {
        let loads = (0..arguments).map(|index| Sql::load(ir::field(r.clone(), index), nullable[index]));
        let loads: Vec<Sql> = loads.collect();
        let valid = loads.iter().filter_map(|sql| sql.valid.clone()).reduce(ir::and);
        let valid = valid.map(|valid| block.share("valid", valid));
        let lists = given.iter().filter(|ty| list(ty).is_some()).count();
        let whole = (0..lists).map(|index| ir::field(ir::field(r.clone(), arguments + index), 1)).collect();
        let value = block.nested(|inner| {
            let mut values = Vec::with_capacity(arguments);
            let mut columns = loads.into_iter().map(|sql| sql.value);
            for (param, ty) in function.function.params.iter().zip(function.params()) {
                values.push(nested::passed_columns(inner, &mut columns, &param.shape, ty, &param.name)?);
            }
            let env = &mut *inner.env;
            let value = env.sources.call(&function.function, values, &mut env.names);
            let value = inner.share("result", value);
            let fields = nested::returned(
                inner,
                value,
                &function.function.output(),
                function.result(),
                function.name(),
                &mut leaves,
            )?;
            Ok(ir::strct(fields))
        })?;
        let row = guarded(valid.clone(), without_nulls(whole, value, function.name()));
        let row = block.share("row", row.value);
        let mut fields: Vec<Expr> = (0..leaves.len()).map(|index| ir::field(row.clone(), index)).collect();
        fields.extend(valid);
        let row = ir::strct(fields);
        Ok((ir::appender(row.ty.clone()), move |builder| ir::merge(builder, row)))
    })?;
    let (program, _, source) = lowering.finish(ir::result(body));
    Ok(RowKernel { program, schema, source, leaves, nullable: any_null })
}

/// Whether the function can be called at all.
pub(super) fn check(function: &WeldFunction) -> Result<()> {
    let types: Vec<DataType> = function.params().iter().flat_map(nested::column_types).collect();
    kernel(function, &types, &vec![true; types.len()]).map(|_| ())
}
