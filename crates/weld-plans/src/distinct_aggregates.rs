//! The rule that makes two aggregates of one that counts distinct values beside other aggregates.
//!
//! ```text
//! SELECT g, count(DISTINCT x), sum(y), count(*), avg(z) FROM t GROUP BY g
//!
//! SELECT g, count(x), sum(s), sum(n), sum(zs) / sum(zn)
//! FROM (SELECT g, x, sum(y) AS s, count(*) AS n, sum(z) AS zs, count(z) AS zn FROM t GROUP BY g, x)
//! GROUP BY g
//! ```
//!
//! An aggregate with DISTINCT keeps a set a group, in every partition, and merges the sets; groups by the argument as
//! well are one table, spread over all partitions by its keys. Of integers there is one set for all groups, which is as
//! fast as such a table and ready at once, so counts of integers stay as they are; and so do those of other numbers
//! without groups. DataFusion has the same rule for the case that every other aggregate is `sum`, `min` or `max`; this
//! one adds `count` and averages of floats. Values, names and types are the same, floats up to the order of additions.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::{Count, count};
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::{Sum, sum};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, cast, col, lit, when};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::builder::project;

use crate::PlanOptions;

/// Makes two aggregates of one with `count(DISTINCT ..)` beside others.
#[derive(Debug)]
pub struct DistinctAggregates {
    options: fn(&ConfigOptions) -> PlanOptions,
}

impl DistinctAggregates {
    /// `options` finds the settings of a session.
    pub fn new(options: fn(&ConfigOptions) -> PlanOptions) -> DistinctAggregates {
        DistinctAggregates { options }
    }
}

impl OptimizerRule for DistinctAggregates {
    fn name(&self) -> &str {
        "distinct_aggregates"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        if !(self.options)(&config.options()).distinct_aggregates {
            return Ok(Transformed::no(plan));
        }
        match in_two(aggregate)? {
            Some(two) => Ok(Transformed::yes(two)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// The argument whose distinct values are counted, by its name in the inner aggregate.
const DISTINCT: &str = "distinct_value";

fn in_two(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
    let Some(argument) = distinct_argument(aggr_expr) else { return Ok(None) };
    // A constant among the keys of the inner aggregate, which have names of their own, would make DataFusion's rule
    // against constants fail.
    let is_constant = |key: &Expr| key.column_refs().is_empty();
    if group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)) || is_constant(key)) || is_constant(argument) {
        return Ok(None);
    }
    let argument_type = argument.get_type(input.schema())?;
    let has_a_cheap_set = argument_type.is_integer() || group_expr.is_empty() && argument_type.is_primitive();
    if argument.is_volatile() || argument_type.is_floating() || has_a_cheap_set {
        return Ok(None);
    }
    let key = |i: usize| format!("group_{i}");
    let mut inner_keys: Vec<Expr> = group_expr.iter().enumerate().map(|(i, expr)| expr.clone().alias(key(i))).collect();
    inner_keys.push(argument.clone().alias(DISTINCT));
    let mut two = Two { input: input.schema(), inner: Vec::new(), outer: Vec::new() };
    let mut results = Vec::new();
    for (i, call) in aggr_expr.iter().enumerate() {
        let (qualifier, field) = schema.qualified_field(group_expr.len() + i);
        let Some(result) = two.add(call, field.data_type())? else { return Ok(None) };
        results.push(result.alias_qualified(qualifier.cloned(), field.name()));
    }
    let keys = (0..group_expr.len()).map(|i| {
        let (qualifier, field) = schema.qualified_field(i);
        col(key(i)).alias_qualified(qualifier.cloned(), field.name())
    });
    let results: Vec<Expr> = keys.chain(results).collect();
    let Two { inner, outer, .. } = two;
    let inner = LogicalPlan::Aggregate(Aggregate::try_new(Arc::clone(input), inner_keys, inner)?);
    let outer_keys = (0..group_expr.len()).map(|i| col(key(i))).collect();
    let outer = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(inner), outer_keys, outer)?);
    Ok(Some(project(outer, results)?))
}

/// The argument of all counts of distinct values, if there is one, and other aggregates that DataFusion's own rule
/// would not take.
fn distinct_argument(calls: &[Expr]) -> Option<&Expr> {
    let (mut argument, mut others) = (None, false);
    for call in calls {
        let Expr::AggregateFunction(AggregateFunction { func, params }) = call else { return None };
        if !params.distinct {
            let function = func.inner();
            others |= !function.is::<Sum>() && !function.is::<Min>() && !function.is::<Max>();
            continue;
        }
        let [of] = params.args.as_slice() else { return None };
        let is_plain = params.filter.is_none() && params.order_by.is_empty() && func.inner().is::<Count>();
        if !is_plain || argument.is_some_and(|known| known != of) {
            return None;
        }
        argument = Some(of);
    }
    argument.filter(|_| others)
}

/// The calls of both aggregates.
struct Two<'a> {
    input: &'a DFSchema,
    inner: Vec<Expr>,
    outer: Vec<Expr>,
}

impl Two<'_> {
    /// What a call becomes above both aggregates; `None` if it is not made of values of parts.
    fn add(&mut self, call: &Expr, data_type: &DataType) -> Result<Option<Expr>> {
        let Expr::AggregateFunction(AggregateFunction { func, params }) = call else { return Ok(None) };
        if params.distinct {
            return Ok(Some(self.outer(count(col(DISTINCT)))));
        }
        if !params.order_by.is_empty() || params.null_treatment.is_some() {
            return Ok(None);
        }
        let function = func.inner();
        if function.is::<Count>() {
            let parts = self.inner(call.clone());
            let total = self.outer(sum(parts));
            // In the form that DataFusion knows to be never null.
            return Ok(Some(when(total.clone().is_not_null(), total).otherwise(lit(0_i64))?));
        }
        if function.is::<Avg>() {
            let [value] = params.args.as_slice() else { return Ok(None) };
            if value.get_type(self.input)? != DataType::Float64 {
                return Ok(None);
            }
            let (sums, counts) =
                (self.inner(with(sum(value.clone()), params)), self.inner(with(count(value.clone()), params)));
            let (sum, count) = (self.outer(sum(sums)), self.outer(sum(counts)));
            return Ok(Some(sum / cast(count, DataType::Float64)));
        }
        let is_extreme = function.is::<Min>() || function.is::<Max>();
        if is_extreme && !(data_type.is_primitive() || *data_type == DataType::Boolean) {
            // A text for each pair of a group and a value takes longer than the sets.
            return Ok(None);
        }
        if function.is::<Sum>() || is_extreme {
            let parts = self.inner(call.clone());
            let whole = Expr::AggregateFunction(AggregateFunction::new_udf(
                Arc::clone(func),
                vec![parts],
                false,
                None,
                vec![],
                None,
            ));
            return Ok(Some(cast(self.outer(whole), data_type.clone())));
        }
        Ok(None)
    }

    /// A call of the inner aggregate, as the outer one reads it.
    fn inner(&mut self, call: Expr) -> Expr {
        let name = format!("part_{}", self.inner.len());
        self.inner.push(call.alias(&name));
        col(name)
    }

    /// A call of the outer aggregate, as those above read it.
    fn outer(&mut self, call: Expr) -> Expr {
        let name = format!("whole_{}", self.outer.len());
        self.outer.push(call.alias(&name));
        Expr::Column(Column::from_name(name))
    }
}

/// The call with the condition of `params`.
fn with(call: Expr, params: &AggregateFunctionParams) -> Expr {
    match call {
        Expr::AggregateFunction(mut call) => {
            call.params.filter.clone_from(&params.filter);
            Expr::AggregateFunction(call)
        }
        call => call,
    }
}
