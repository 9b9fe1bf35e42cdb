//! A call in a compiled pipeline: the function's program becomes part of the row's expressions, before anything is fused.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_expr::ScalarFunctionExpr;
use weld_core::ir::{Expr, Program, build as ir};
use weld_core::ty::Type;
use weld_frontend::Source;

use super::{WeldFunction, nested};
use crate::lower::expr::{Scope, guarded, lower};
use crate::lower::{Block, Lowering, Result, Sql, Unsupported, for_each};

/// The call's value for the row in scope: NULL if an argument is.
pub(crate) fn lower_function(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    call: &ScalarFunctionExpr,
    function: &WeldFunction,
) -> Result<Sql> {
    let is_nested = |ty: &DataType| ty.is_nested();
    if function.params().iter().any(is_nested) || is_nested(function.result()) {
        return Err(Unsupported::new(call.name(), "lists and structs are passed to it outside of pipelines"));
    }
    let mut values = Vec::with_capacity(call.args().len());
    let mut valid: Option<Expr> = None;
    for (arg, param) in call.args().iter().zip(&function.function.params) {
        let sql = lower(block, scope, arg)?;
        let sql = block.share_sql("arg", sql);
        if sql.value.ty != param.shape.ty() {
            return Err(Unsupported::new(arg, format!("{} is passed for {}", sql.value.ty, param.shape.ty())));
        }
        values.push(sql.value);
        valid = match (valid, sql.valid) {
            (None, other) | (other, None) => other,
            (Some(a), Some(b)) => Some(ir::and(a, b)),
        };
    }
    if values.len() != function.function.params.len() {
        return Err(Unsupported::new(call.name(), "the number of arguments"));
    }
    let valid = valid.map(|valid| block.share("valid", valid));
    let value = block.nested(|inner| {
        let env = &mut *inner.env;
        let value = env.sources.call(&function.function, values, &mut env.names);
        let (output, result) = (function.function.output(), function.result());
        let mut fields = nested::returned(inner, value, &output, result, &function.name, &mut Vec::new())?;
        fields.pop().ok_or_else(|| Unsupported::new(call.name(), "it has no result"))
    })?;
    let sql = guarded(valid, value);
    Ok(block.share_sql("called", sql))
}

/// The program that calls the function for each row of its arguments as columns, and how its rows are read.
#[derive(Debug)]
pub(super) struct RowKernel {
    pub(super) program: Program,
    /// Of the arguments; one column at least, for a stream needs it to carry the number of rows.
    pub(super) schema: Schema,
    pub(super) source: Arc<Source>,
    /// The columns of the result, in the order of the row's fields; then the row's validity, if an argument may be null.
    pub(super) leaves: Vec<DataType>,
    pub(super) nullable: bool,
}

pub(super) fn kernel(function: &WeldFunction, nullable: &[bool]) -> Result<RowKernel> {
    let field =
        |(index, (ty, nullable)): (usize, (&DataType, &bool))| Field::new(format!("c{index}"), ty.clone(), *nullable);
    let mut fields: Vec<Field> = function.params().iter().zip(nullable).enumerate().map(field).collect();
    let arguments = fields.len();
    if fields.is_empty() {
        fields.push(Field::new("rows", DataType::Boolean, false));
    }
    let column = |field: &Field| {
        let ty = nested::column_type(field.data_type())?;
        Ok(if field.is_nullable() { Type::structure([ty, Type::BOOL]) } else { ty })
    };
    let types = fields.iter().map(column).collect::<Result<Vec<Type>>>()?;
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
        let value = block.nested(|inner| {
            let mut values = Vec::with_capacity(arguments);
            for ((sql, param), ty) in loads.into_iter().zip(&function.function.params).zip(function.params()) {
                values.push(nested::passed(inner, sql.value, &param.shape, ty, &param.name)?);
            }
            let env = &mut *inner.env;
            let value = env.sources.call(&function.function, values, &mut env.names);
            let value = inner.share("result", value);
            let fields = nested::returned(
                inner,
                value,
                &function.function.output(),
                function.result(),
                &function.name,
                &mut leaves,
            )?;
            Ok(ir::strct(fields))
        })?;
        let row = guarded(valid.clone(), value);
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
    kernel(function, &vec![true; function.params().len()]).map(|_| ())
}
