//! The rule that makes one aggregate of the two that DataFusion makes of one with DISTINCT, where sets of the values
//! are small.
//!
//! ```text
//! SELECT g, count(x), sum(s)                                        SELECT g, count(DISTINCT x), sum(y) FROM t GROUP BY g
//! FROM (SELECT g, x, sum(y) AS s FROM t GROUP BY g, x) GROUP BY g
//! ```
//!
//! Two aggregates group by the values as well, and every pair of a group and a value goes through an exchange. That is
//! faster where values lie anywhere. Of integers that lie close together, a set takes a few bits a value: it is found
//! without a hash table, or in a small one. DataFusion decides on logical plans, without statistics
//! (`single_distinct_aggregation_to_group_by`); here the range of the values and the number of rows are known. Rows,
//! names and types are the same, floats up to the order of additions.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::functions_aggregate::{count::Count, min_max::Max, min_max::Min, sum::Sum};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::PlanOptions;
use crate::estimate::Estimates;
use crate::ranges::Ranges;

/// Values are close together if their range holds at most so many times as many as there are rows. Chosen, not
/// measured: it holds for keys that were counted up, and not for random numbers of 64 bits.
const RANGE_PER_ROW: f64 = 2.0;

/// Makes one aggregate with DISTINCT of two.
#[derive(Debug)]
pub(crate) struct DistinctSets {
    options: fn(&ConfigOptions) -> PlanOptions,
    ranges: Arc<Ranges>,
}

impl DistinctSets {
    pub(crate) const NAME: &str = "distinct_sets";

    /// `options` finds the settings of a session.
    pub(crate) fn new(options: fn(&ConfigOptions) -> PlanOptions, ranges: Arc<Ranges>) -> DistinctSets {
        DistinctSets { options, ranges }
    }
}

impl PhysicalOptimizerRule for DistinctSets {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !(self.options)(config).distinct_sets {
            return Ok(plan);
        }
        let estimates = Estimates::new(&self.ranges);
        let rewritten = plan.transform_down(|plan| {
            let Some(two) = Two::of(&plan) else { return Ok(Transformed::no(plan)) };
            if !two.has_small_sets(&estimates) {
                return Ok(Transformed::no(plan));
            }
            let one = two.as_one()?.filter(|one| one.schema() == plan.schema());
            Ok(one.map_or_else(|| Transformed::no(plan), Transformed::yes))
        });
        rewritten.data()
    }

    fn name(&self) -> &str {
        DistinctSets::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An aggregate over one that groups by one value more.
struct Two<'a> {
    outer: Stages<'a>,
    inner: Stages<'a>,
    /// Which of the inner groups' values the outer groups do not have.
    value: usize,
}

/// An aggregate: a final one and the partial one below it, or one that is both.
struct Stages<'a> {
    last: &'a AggregateExec,
    first: &'a AggregateExec,
}

impl<'a> Stages<'a> {
    /// Those that give all groups there are, by plain keys, of all rows.
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Stages<'a>> {
        let last: &AggregateExec = plan.downcast_ref()?;
        let first = match last.mode() {
            AggregateMode::Single => last,
            AggregateMode::Final | AggregateMode::FinalPartitioned => last.input().downcast_ref()?,
            _ => return None,
        };
        let is_plain = |exec: &AggregateExec| {
            let is_filtered = exec.filter_expr().iter().any(Option::is_some);
            !is_filtered && exec.group_expr().is_single() && exec.limit_options().is_none()
        };
        let is_first = matches!(first.mode(), AggregateMode::Single | AggregateMode::Partial);
        (is_first && is_plain(last) && is_plain(first)).then_some(Stages { last, first })
    }
}

impl<'a> Two<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Two<'a>> {
        let outer = Stages::of(plan)?;
        let inner = Stages::of(outer.first.input())?;
        let mut is_left = vec![true; inner.first.group_expr().expr().len()];
        for key in outer_keys(&outer) {
            // Each is one of the inner keys, another one.
            if !std::mem::replace(is_left.get_mut(key?)?, false) {
                return None;
            }
        }
        let mut left = is_left.iter().enumerate().filter(|(_, is_left)| **is_left).map(|(key, _)| key);
        let value = left.next()?;
        left.next().is_none().then_some(Two { outer, inner, value })
    }

    fn has_small_sets(&self, estimates: &Estimates) -> bool {
        let (value, _) = &self.inner.first.group_expr().expr()[self.value];
        let input = self.inner.first.input();
        let is_integer = value.data_type(&input.schema()).is_ok_and(|data_type| data_type.is_integer());
        let Some(column) = value.downcast_ref::<Column>().filter(|_| is_integer) else { return false };
        let Some(estimate) = estimates.of(input) else { return false };
        let range = estimate.columns.get(column.index()).and_then(|column| column.range);
        range.is_some_and(|(min, max)| max - min < RANGE_PER_ROW * estimate.rows)
    }

    fn as_one(&self) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut calls = Vec::new();
        for outer in self.outer.last.aggr_expr() {
            let Some(call) = self.call(outer)? else { return Ok(None) };
            calls.push(Arc::new(call));
        }
        let names = self.outer.last.schema();
        let inner_keys = self.inner.first.group_expr().expr();
        let keys = outer_keys(&self.outer).flatten().zip(names.fields());
        let keys = keys.map(|(key, field)| (Arc::clone(&inner_keys[key].0), field.name().clone()));
        let keys = PhysicalGroupBy::new_single(keys.collect());
        let input = self.inner.first.input();
        let aggregate = |mode, keys, input_plan| {
            let filters = vec![None; calls.len()];
            AggregateExec::try_new(mode, keys, calls.clone(), filters, input_plan, input.schema()).map(Arc::new)
        };
        let last = match self.outer.last.mode() {
            AggregateMode::Single => aggregate(AggregateMode::Single, keys, Arc::clone(input))?,
            mode => {
                let last_keys = keys.as_final();
                aggregate(*mode, last_keys, aggregate(AggregateMode::Partial, keys, Arc::clone(input))?)?
            }
        };
        // The calls have the names of what they do now.
        let columns = last.schema();
        // Columns of both sides of a join may have one name, and so would what is made of them.
        let different: HashSet<&String> = columns.fields().iter().map(|field| field.name()).collect();
        if different.len() < columns.fields().len() {
            return Ok(None);
        }
        let named = columns.fields().iter().zip(names.fields()).enumerate().map(|(index, (field, named))| {
            let column = Arc::new(Column::new(field.name(), index));
            let column = widened(column, field.data_type(), named.data_type())?;
            Some(ProjectionExpr::new(column, named.name()))
        });
        let Some(named) = named.collect::<Option<Vec<_>>>() else { return Ok(None) };
        Ok(Some(Arc::new(ProjectionExec::try_new(named, last)?)))
    }

    /// What an outer call is of the rows; `None` if nothing is.
    fn call(&self, outer: &AggregateFunctionExpr) -> Result<Option<AggregateFunctionExpr>> {
        let inner = &self.inner.first;
        let expressions = outer.expressions();
        let [of] = expressions.as_slice() else { return Ok(None) };
        let Some(of) = of.downcast_ref::<Column>() else { return Ok(None) };
        let is_plain = |call: &AggregateFunctionExpr| {
            !call.is_distinct() && !call.ignore_nulls() && !call.is_reversed() && call.order_bys().is_empty()
        };
        let keys = inner.group_expr().expr();
        let (is_distinct, arg) = if of.index() == self.value {
            (true, Arc::clone(&keys[self.value].0))
        } else {
            let part = of.index().checked_sub(keys.len()).and_then(|call| inner.aggr_expr().get(call));
            let Some(part) = part.filter(|part| is_plain(part) && adds_up(part, outer)) else { return Ok(None) };
            let [arg] = &part.expressions()[..] else { return Ok(None) };
            (false, Arc::clone(arg))
        };
        if !is_plain(outer) || is_distinct && !is_set(outer) {
            return Ok(None);
        }
        let of = arg.downcast_ref::<Column>().map_or_else(|| arg.to_string(), |column| column.name().to_owned());
        let name = format!("{}({}{of})", outer.fun().name(), if is_distinct { "DISTINCT " } else { "" });
        let call = AggregateExprBuilder::new(Arc::new(outer.fun().clone()), vec![arg])
            .schema(inner.input().schema())
            .alias(name)
            .with_distinct(is_distinct)
            .build()?;
        Ok(Some(call))
    }
}

/// A column as one of another type that holds its values: a sum of decimals has more digits, and a sum of sums has more
/// again.
fn widened(column: Arc<dyn PhysicalExpr>, from: &DataType, to: &DataType) -> Option<Arc<dyn PhysicalExpr>> {
    match (from, to) {
        (from, to) if from == to => Some(column),
        (DataType::Decimal128(digits, scale), DataType::Decimal128(more, same)) if digits <= more && scale == same => {
            Some(Arc::new(CastExpr::new(column, to.clone(), None)))
        }
        _ => None,
    }
}

/// Which of its input's columns an aggregate groups by; `None` for what is not a column.
fn outer_keys(outer: &Stages<'_>) -> impl Iterator<Item = Option<usize>> {
    let keys = outer.first.group_expr().expr().iter();
    keys.map(|(key, _)| key.downcast_ref::<Column>().map(Column::index))
}

/// Whether a call over the results of another for parts of the rows gives its result for all.
fn adds_up(part: &AggregateFunctionExpr, whole: &AggregateFunctionExpr) -> bool {
    let (part, whole) = (part.fun().inner(), whole.fun().inner());
    part.is::<Sum>() && whole.is::<Sum>()
        || part.is::<Min>() && whole.is::<Min>()
        || part.is::<Max>() && whole.is::<Max>()
}

/// Whether a function of distinct values is computed of a set.
fn is_set(call: &AggregateFunctionExpr) -> bool {
    call.fun().inner().is::<Count>() || call.fun().inner().is::<Sum>()
}
