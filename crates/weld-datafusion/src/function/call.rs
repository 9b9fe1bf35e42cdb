//! A call in a compiled pipeline: the function's program becomes part of the row's expressions, before anything is fused.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_core::ir::{Expr, build as ir};
use weld_core::op::Intrinsic;
use weld_core::ty::Type;
use weld_frontend::Shape;

use super::WeldFunction;
use crate::lower::expr::{Scope, guarded, lower};
use crate::lower::pipeline::{self, Kernel, Sink, Step};
use crate::lower::{Block, Result, Sql, Unsupported};

/// The call's value for the row in scope: NULL if an argument is.
pub(crate) fn lower_function(
    block: &mut Block<'_>,
    scope: &Scope<'_>,
    call: &ScalarFunctionExpr,
    function: &WeldFunction,
) -> Result<Sql> {
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
        Ok(returned(inner, value, function))
    })?;
    let sql = guarded(valid, value);
    Ok(block.share_sql("called", sql))
}

/// The result as a column holds it. Bytes that a program has made are a string if they are UTF-8.
fn returned(block: &mut Block<'_>, value: Expr, function: &WeldFunction) -> Expr {
    let is_text = matches!(&function.function.output(), Shape::Text) || function.result().is_string();
    if !is_text || value.ty != Type::vec(Type::U8) {
        return value;
    }
    let span = value.span;
    let text = block.share("text", value);
    let is_utf8 = ir::intrinsic(Intrinsic::IsUtf8, [text.clone()]);
    let message = format!("{}: the result is no UTF-8", function.name);
    ir::if_(ir::require(is_utf8, &message, []).at(span), text.clone(), ir::zero(&text.ty))
}

/// The program that calls the function for each row of its arguments as columns.
pub(super) fn kernel(function: &WeldFunction, nullable: &[bool]) -> Result<(Kernel, Schema)> {
    let field =
        |(index, (ty, nullable)): (usize, (&DataType, &bool))| Field::new(format!("c{index}"), ty.clone(), *nullable);
    let mut fields: Vec<Field> = function.params().iter().zip(nullable).enumerate().map(field).collect();
    let column = |(index, field): (usize, &Field)| Arc::new(Column::new(field.name(), index)) as Arc<dyn PhysicalExpr>;
    let args = fields.iter().enumerate().map(column).collect();
    // A stream needs a column to carry the number of rows.
    if fields.is_empty() {
        fields.push(Field::new("rows", DataType::Boolean, false));
    }
    let schema = Schema::new(fields);
    let config = Arc::new(ConfigOptions::default());
    let returned = Field::new(&function.name, function.result().clone(), nullable.contains(&true));
    let fun = Arc::new(ScalarUDF::new_from_impl(function.clone()));
    let call = ScalarFunctionExpr::new(&function.name, fun, args, Arc::new(returned), config);
    let step = Step::Project { exprs: vec![Arc::new(call)], input: Arc::new(schema.clone()) };
    Ok((pipeline::lower(&schema, &[step], &Sink::Rows, 1)?, schema))
}

/// Whether the function can be called at all.
pub(super) fn check(function: &WeldFunction) -> Result<()> {
    kernel(function, &vec![true; function.params().len()]).map(|_| ())
}
