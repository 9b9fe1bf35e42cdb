//! Aggregates without groups over rows that differ in filters are one aggregate, each of whose functions has a filter.
//!
//! ```text
//! AggregateExec: aggr=[count(*), avg(price)]         ProjectionExec: its two of four columns
//!   FilterExec: quantity < 6                           AggregateExec: aggr=[count(*) FILTER (WHERE quantity < 6), ..]
//!     sales                                    =>        FilterExec: quantity < 6 OR quantity > 95
//! ..                                                       sales
//! AggregateExec: aggr=[count(*), avg(price)]         ..
//!   FilterExec: quantity > 95
//!     sales
//! ```
//! The law: without groups, arguments are evaluated for the rows that the filter of their function passes, so none is evaluated for
//! a row for which it was not before; and there is one row of results, whether a function has seen any row or not.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, AggregateOutputMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::alike::Expr;
use crate::expr::cannot_fail;

type Plan = Arc<dyn ExecutionPlan>;

/// The functions of aggregates that were made one.
#[derive(Clone)]
pub(super) struct Calls {
    all: Vec<Call>,
    /// Which of them are those of each aggregate, in its order.
    of: Vec<Vec<usize>>,
    /// What their arguments are columns of.
    input_schema: SchemaRef,
    /// Whether there are results, and not states.
    are_results: bool,
}

#[derive(Clone)]
struct Call {
    function: Arc<AggregateFunctionExpr>,
    filter: Option<Expr>,
    /// Which of the functions of an aggregate it is.
    number: usize,
}

/// Aggregates over rows of which each has its own; `None` where they are not one.
pub(super) fn fused(aggregate: &AggregateExec, input: Plan, filters: &[Option<Expr>]) -> Result<Option<(Plan, Calls)>> {
    let functions = aggregate.aggr_expr();
    let input_schema = input.schema();
    let is_ordered = |function: &Arc<AggregateFunctionExpr>| !function.order_bys().is_empty();
    // It would be asked of the rows of others.
    let may_fail = |filter: &Expr| !cannot_fail(filter, Some(&input_schema));
    if aggregate.mode().input_mode() != AggregateInputMode::Raw
        || functions.iter().any(is_ordered)
        || aggregate.filter_expr().iter().flatten().any(may_fail)
    {
        return Ok(None);
    }
    let (mut all, mut of): (Vec<Call>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for own in filters {
        let mut numbers = Vec::new();
        for (number, (function, filter)) in functions.iter().zip(aggregate.filter_expr()).enumerate() {
            let filter = match (own, filter) {
                (Some(own), Some(filter)) => Some(conjunction([Arc::clone(own), Arc::clone(filter)])),
                (own, filter) => own.clone().or_else(|| filter.clone()),
            };
            let known = all.iter().position(|call| call.number == number && call.filter == filter);
            if known.is_none() {
                let function = filtered(function, own.as_ref(), &input_schema)?;
                all.push(Call { function, filter, number });
            }
            numbers.push(known.unwrap_or(all.len() - 1));
        }
        of.push(numbers);
    }
    let are_results = aggregate.mode().output_mode() == AggregateOutputMode::Final;
    let calls = Calls { all, of, input_schema, are_results };
    Ok(Some((calls.aggregate(aggregate, input)?, calls)))
}

/// The aggregate of the states of these; `None` if `plan` makes something else of them.
pub(super) fn fused_states(plan: &Plan, input: Plan, calls: Calls) -> Result<Option<(Plan, Calls)>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let merges = aggregate.mode().input_mode() == AggregateInputMode::Partial && !calls.are_results;
    if !merges || !aggregate.group_expr().is_true_no_grouping() || aggregate.limit_options().is_some() {
        return Ok(None);
    }
    let are_results = aggregate.mode().output_mode() == AggregateOutputMode::Final;
    let calls = Calls { are_results, ..calls };
    Ok(Some((calls.aggregate(aggregate, input)?, calls)))
}

/// The function under a name that says which rows it is of.
fn filtered(
    function: &Arc<AggregateFunctionExpr>,
    filter: Option<&Expr>,
    schema: &SchemaRef,
) -> Result<Arc<AggregateFunctionExpr>> {
    let name = match filter {
        Some(filter) => format!("{} FILTER (WHERE {filter})", function.name()),
        None => function.name().to_owned(),
    };
    let made = AggregateExprBuilder::new(Arc::new(function.fun().clone()), function.expressions())
        .schema(Arc::clone(schema))
        .alias(name)
        .with_ignore_nulls(function.ignore_nulls())
        .with_distinct(function.is_distinct())
        .with_reversed(function.is_reversed())
        .build()?;
    Ok(Arc::new(made))
}

impl Calls {
    /// `aggregate` with these functions.
    fn aggregate(&self, aggregate: &AggregateExec, input: Plan) -> Result<Plan> {
        let functions = self.all.iter().map(|call| Arc::clone(&call.function)).collect();
        let filters = self.all.iter().map(|call| call.filter.clone()).collect();
        let group_by = aggregate.group_expr().clone();
        let schema = Arc::clone(&self.input_schema);
        Ok(Arc::new(AggregateExec::try_new(*aggregate.mode(), group_by, functions, filters, input, schema)?))
    }

    /// The results of the aggregate with this number, in columns of `schema`; `None` where there are none yet.
    pub(super) fn results(&self, plan: &Plan, number: usize, schema: &Schema) -> Result<Option<Plan>> {
        if !self.are_results {
            return Ok(None);
        }
        let results = plan.schema();
        let exprs = self.of[number].iter().zip(schema.fields()).map(|(call, field)| ProjectionExpr {
            expr: Arc::new(Column::new(results.field(*call).name(), *call)),
            alias: field.name().clone(),
        });
        Ok(Some(Arc::new(ProjectionExec::try_new(exprs.collect::<Vec<_>>(), Arc::clone(plan))?)))
    }
}
