//! Lists of constants and fields of structs in SQL, `f([1, 2], x)['value']`, where DataFusion is built without its
//! nested expressions, whose planner comes first where there is one.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, GetFieldAccess, lit};

/// Plans them.
#[derive(Debug)]
pub(crate) struct ListsOfConstants;

impl ExprPlanner for ListsOfConstants {
    fn plan_array_literal(&self, exprs: Vec<Expr>, _: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        let values = exprs.iter().map(constant).collect::<Option<Vec<_>>>();
        match values.and_then(|values| list(&values)) {
            Some(list) => Ok(PlannerResult::Planned(lit(list))),
            None => Ok(PlannerResult::Original(exprs)),
        }
    }

    fn plan_field_access(&self, access: RawFieldAccessExpr, _: &DFSchema) -> Result<PlannerResult<RawFieldAccessExpr>> {
        match access.field_access {
            GetFieldAccess::NamedStructField { name } => Ok(PlannerResult::Planned(get_field(access.expr, name))),
            _ => Ok(PlannerResult::Original(access)),
        }
    }
}

fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Negative(inner) => constant(inner)?.arithmetic_negate().ok(),
        _ => None,
    }
}

/// Of one type but for nulls; whole numbers among floats become floats.
fn list(values: &[ScalarValue]) -> Option<ScalarValue> {
    let mut found = DataType::Null;
    for value in values {
        found = match (found, value.data_type()) {
            (DataType::Null, other) => other,
            (all, DataType::Null) => all,
            (all, other) if all == other => all,
            (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => DataType::Float64,
            _ => return None,
        };
    }
    let values = values.iter().map(|value| value.cast_to(&found).ok()).collect::<Option<Vec<_>>>()?;
    Some(ScalarValue::List(ScalarValue::new_list_nullable(&values, &found)))
}
