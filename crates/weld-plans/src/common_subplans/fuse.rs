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
//! The law: without groups, arguments are evaluated for the rows that the filter of their function passes, so none is
//! evaluated for a row for which it was not before; and there is one row of results, whether a function has seen any
//! row or not.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateMode, AggregateOutputMode, PhysicalGroupBy,
};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;

use super::alike::{Expr, over};
use super::lift::{Merged, moves_rows};
use super::same::is_same_aggregate;
use crate::expr::cannot_fail;

type Plan = Arc<dyn ExecutionPlan>;

/// An aggregate without groups.
pub(super) struct Scalar {
    /// What gives its results.
    pub(super) place: Plan,
    /// What is between its results and the functions over rows: the aggregates of states and what moves these, from the
    /// top.
    upper: Vec<Plan>,
    mode: AggregateMode,
    calls: Vec<Call>,
    /// The rows that functions are over, without a projection for them.
    pub(super) input: Plan,
}

struct Call {
    function: Arc<AggregateFunctionExpr>,
    filter: Option<Expr>,
}

impl Scalar {
    /// Those of a plan, the outer ones first.
    pub(super) fn all(plan: &Plan) -> Result<Vec<Scalar>> {
        let mut found = Vec::new();
        Scalar::note(plan, &mut found)?;
        Ok(found)
    }

    fn note(plan: &Plan, found: &mut Vec<Scalar>) -> Result<()> {
        if plan.is::<RecursiveQueryExec>() {
            return Ok(());
        }
        found.extend(Scalar::of(plan)?);
        plan.children().into_iter().try_for_each(|child| Scalar::note(child, found))
    }

    fn of(place: &Plan) -> Result<Option<Scalar>> {
        let is_result = |aggregate: &AggregateExec| aggregate.mode().output_mode() == AggregateOutputMode::Final;
        if !without_groups(place).is_some_and(is_result) {
            return Ok(None);
        }
        let (mut upper, mut node) = (Vec::new(), place);
        let aggregate = loop {
            match without_groups(node) {
                Some(aggregate) if aggregate.mode().input_mode() == AggregateInputMode::Raw => break aggregate,
                Some(_) => {}
                None if moves_rows(node) => {}
                None => return Ok(None),
            }
            upper.push(Arc::clone(node));
            node = node.children()[0];
        };
        let schema = aggregate.input().schema();
        // It would be asked of the rows of others.
        let may_fail = |filter: &Expr| !cannot_fail(filter, Some(&schema));
        let is_ordered = |function: &Arc<AggregateFunctionExpr>| !function.order_bys().is_empty();
        if aggregate.aggr_expr().iter().any(is_ordered) || aggregate.filter_expr().iter().flatten().any(may_fail) {
            return Ok(None);
        }
        let calls = aggregate.aggr_expr().iter().zip(aggregate.filter_expr());
        let calls = calls.map(|(function, filter)| Call { function: Arc::clone(function), filter: filter.clone() });
        let (calls, input) = match aggregate.input().downcast_ref::<ProjectionExec>() {
            Some(projection) => {
                let exprs: Vec<Expr> = projection.expr().iter().map(|projected| Arc::clone(&projected.expr)).collect();
                let calls = calls.map(|call| call.over(&exprs, &projection.input().schema()));
                (calls.collect::<Result<_>>()?, Arc::clone(projection.input()))
            }
            None => (calls.collect(), Arc::clone(aggregate.input())),
        };
        Ok(Some(Scalar { place: Arc::clone(place), upper, mode: *aggregate.mode(), calls, input }))
    }

    /// Which operators it is made of.
    pub(super) fn shape(&self) -> String {
        let names: Vec<&str> = self.upper.iter().map(|operator| operator.name()).collect();
        format!("{:?} {names:?}", self.mode)
    }
}

impl Call {
    /// The same over other rows, of which `exprs` make those that it is over.
    fn over(self, exprs: &[Expr], schema: &Schema) -> Result<Call> {
        let args: Vec<Expr> = self.function.expressions();
        let args = args.iter().map(|arg| over(arg, exprs)).collect::<Result<_>>()?;
        let function = with_arguments(&self.function, args, self.function.name().to_owned(), schema)?;
        let filter = self.filter.map(|filter| over(&filter, exprs)).transpose()?;
        Ok(Call { function, filter })
    }

    /// The same over the rows for which `own` holds, under a name that says so.
    fn filtered(&self, own: Option<&Expr>, schema: &Schema) -> Result<Call> {
        let function = &self.function;
        let (name, filter) = match own {
            Some(own) => {
                let both = [Arc::clone(own)].into_iter().chain(self.filter.clone());
                (format!("{} FILTER (WHERE {own})", function.name()), Some(conjunction(both)))
            }
            None => (function.name().to_owned(), self.filter.clone()),
        };
        let function = with_arguments(function, function.expressions(), name, schema)?;
        Ok(Call { function, filter })
    }
}

fn with_arguments(
    function: &AggregateFunctionExpr,
    args: Vec<Expr>,
    name: String,
    schema: &Schema,
) -> Result<Arc<AggregateFunctionExpr>> {
    let made = AggregateExprBuilder::new(Arc::new(function.fun().clone()), args)
        .schema(Arc::new(schema.clone()))
        .alias(name)
        .with_ignore_nulls(function.ignore_nulls())
        .with_distinct(function.is_distinct())
        .with_reversed(function.is_reversed())
        .build()?;
    Ok(Arc::new(made))
}

fn without_groups(plan: &Plan) -> Option<&AggregateExec> {
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    (aggregate.group_expr().is_true_no_grouping() && aggregate.limit_options().is_none()).then_some(aggregate)
}

/// One aggregate of the functions of all, which have the same shape, over the rows of all; and the results of each.
pub(super) fn fused(scalars: &[Scalar], rows: Merged) -> Result<(Plan, Vec<Plan>)> {
    let schema = rows.plan.schema();
    let (mut calls, mut columns): (Vec<Call>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for (scalar, own) in scalars.iter().zip(&rows.own) {
        let mut of_scalar = Vec::new();
        for call in &scalar.calls {
            let call = call.filtered(own.as_ref(), &schema)?;
            let is_same =
                |known: &Call| known.filter == call.filter && is_same_aggregate(&known.function, &call.function);
            let known = calls.iter().position(is_same);
            if known.is_none() {
                calls.push(call);
            }
            of_scalar.push(known.unwrap_or(calls.len() - 1));
        }
        columns.push(of_scalar);
    }
    let Some(first) = scalars.first() else { return internal_err!("there is no aggregate") };
    let aggregate = |mode: AggregateMode, input: Plan| -> Result<Plan> {
        let functions = calls.iter().map(|call| Arc::clone(&call.function)).collect();
        let filters = calls.iter().map(|call| call.filter.clone()).collect();
        let groups = PhysicalGroupBy::default();
        Ok(Arc::new(AggregateExec::try_new(mode, groups, functions, filters, input, Arc::clone(&schema))?))
    };
    let mut plan = aggregate(first.mode, rows.plan)?;
    for operator in first.upper.iter().rev() {
        plan = match operator.downcast_ref::<AggregateExec>() {
            Some(upper) => aggregate(*upper.mode(), plan)?,
            None => replace_children_if_necessary(Arc::clone(operator), vec![plan])?,
        };
    }
    let results = scalars.iter().zip(columns).map(|(scalar, columns)| results(&plan, &columns, &scalar.place.schema()));
    let results = results.collect::<Result<_>>()?;
    Ok((plan, results))
}

/// These columns of a plan under the names of `schema`.
fn results(plan: &Plan, columns: &[usize], schema: &Schema) -> Result<Plan> {
    let known = plan.schema();
    let exprs = columns.iter().zip(schema.fields()).map(|(column, field)| ProjectionExpr {
        expr: Arc::new(Column::new(known.field(*column).name(), *column)),
        alias: field.name().clone(),
    });
    Ok(Arc::new(ProjectionExec::try_new(exprs.collect::<Vec<_>>(), Arc::clone(plan))?))
}
