//! Constants and scalar subqueries as the arguments of compiled code.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use weld_arrow::{constant_list, list};
use weld_codegen::Value;
use weld_core::ir::ExprKind;
use weld_core::opt::Constant;

use crate::lower::Sql;
use crate::lower::expr::lower_literal;

/// The value of an expression without columns.
pub(super) fn scalar(expr: &Arc<dyn PhysicalExpr>, nullable: bool) -> Result<Value> {
    let no_columns = RecordBatch::new_empty(Arc::new(Schema::empty()));
    let value = match expr.evaluate(&no_columns)? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(_) => return internal_err!("{expr} depends on rows"),
    };
    if list(&value.data_type()).is_some() {
        let constant = constant_list(&value.to_array()?)?;
        return match nullable {
            true => Ok(Value::structure([constant, Value::bool(!value.is_null())])),
            false if value.is_null() => internal_err!("{expr} is null, which its type excludes"),
            false => Ok(constant),
        };
    }
    let Ok(Sql { value, valid }) = lower_literal(&value) else {
        return internal_err!("{expr} has the value {value}, which has no lowering");
    };
    let value = match value.kind {
        ExprKind::Literal(literal) => constant(&Constant::Scalar(literal)),
        ExprKind::Bytes(bytes) => constant(&Constant::Bytes(bytes)),
        // The zero of a string.
        _ => Value::bytes([]),
    };
    if nullable {
        return Ok(Value::structure([value, Value::bool(valid.is_none())]));
    }
    if valid.is_some() {
        return internal_err!("{expr} is null, which its type excludes");
    }
    Ok(value)
}

/// The value of a constant of the query.
pub(super) fn constant(constant: &Constant) -> Value {
    match constant {
        Constant::Scalar(literal) => Value::scalar(*literal),
        Constant::Bytes(bytes) => Value::bytes(Arc::clone(bytes)),
    }
}
