//! Expressions without a lowering are evaluated by DataFusion in a node of their own, so that the operator that reads
//! them compiles.
//!
//! ```text
//! AggregateExec: gby=[reverse(s)], sum(a * 2)        AggregateExec: gby=[reverse(s)@2], sum(a * 2)
//!   FilterExec: a > 1 AND s LIKE t                     EvaluateExec: evaluated by DataFusion: reverse(s)
//!     source                                             FilterExec: s LIKE t@2
//!                                                          EvaluateExec: evaluated by DataFusion: s LIKE t
//!                                                            FilterExec: a > 1
//!                                                              source
//! ```
//! They are evaluated for the rows for which the operator itself would have evaluated them: below the operator, above
//! everything that drops rows, and above those conjuncts of a filter that come first. Conditions of joins are in
//! `join`.

mod join;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, conjunction, split_conjunction};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use weld_plans::is_same_partitioning;

use crate::config::WeldOptions;
use crate::lower;
use crate::lower::aggregate::Aggregate;
use crate::lower::foreign::{Foreign, has_subquery, lowers};
use crate::lower::{Unsupported, size};

/// The plan with expressions that have no lowering below the operators that read them, where these compile then.
pub(super) fn set_apart(plan: Arc<dyn ExecutionPlan>, options: &WeldOptions) -> Result<Arc<dyn ExecutionPlan>> {
    if !options.evaluate {
        return Ok(plan);
    }
    let node = |node: Arc<dyn ExecutionPlan>| {
        let made = if let Some(filter) = node.downcast_ref::<FilterExec>().filter(|_| options.filter) {
            below_filter(filter)
        } else if let Some(projection) = node.downcast_ref::<ProjectionExec>().filter(|_| options.projection) {
            below_projection(projection)
        } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>().filter(|_| options.aggregate) {
            below_aggregate(aggregate)
        } else if let Some(join) = node.downcast_ref::<HashJoinExec>().filter(|_| options.join) {
            join::below_hash_join(join)
        } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>().filter(|_| options.join) {
            join::below_nested_loop_join(join)
        } else {
            Ok(None)
        };
        Ok(in_place_of(node, made))
    };
    plan.transform_up(node).data()
}

/// What was `made` of a node, if that worked and promises the same of its rows; else the node.
pub(super) fn in_place_of(
    node: Arc<dyn ExecutionPlan>,
    made: Result<Option<Arc<dyn ExecutionPlan>>>,
) -> Transformed<Arc<dyn ExecutionPlan>> {
    match made {
        Ok(Some(made)) if is_same(made.as_ref(), node.as_ref()) => Transformed::yes(made),
        Ok(_) => Transformed::no(node),
        Err(error) => {
            log::debug!("{} is left as it was: {error}", node.name());
            Transformed::no(node)
        }
    }
}

/// Whether two nodes promise the same of their rows.
pub(super) fn is_same(made: &dyn ExecutionPlan, known: &dyn ExecutionPlan) -> bool {
    made.schema() == known.schema()
        && made.output_ordering() == known.output_ordering()
        && is_same_partitioning(made.output_partitioning(), known.output_partitioning())
}

type Made = Result<Option<Arc<dyn ExecutionPlan>>>;

fn below_filter(filter: &FilterExec) -> Made {
    let schema = filter.input().schema();
    if size::check([filter.predicate()]).is_err() {
        return Ok(None);
    }
    let conjuncts: Vec<_> = split_conjunction(filter.predicate()).into_iter().cloned().collect();
    let first = conjuncts.iter().take_while(|conjunct| lowers(&schema, conjunct).is_ok()).count();
    if first == conjuncts.len() {
        return Ok(None);
    }
    let (first, rest) = conjuncts.split_at(first);
    let mut foreign = Foreign::new(&schema);
    let Ok(mut predicate) = foreign.take(&conjunction(rest.iter().cloned())) else { return Ok(None) };
    if !foreign.keeps_errors([&predicate]) {
        return Ok(None);
    }
    let mut input = Arc::clone(filter.input());
    if !first.is_empty() {
        // Where the first conjuncts are null, the others are evaluated still.
        let first = conjunction(first.iter().cloned());
        let mut passes = Arc::clone(&first);
        if first.nullable(&schema)? || has_subquery(&first) {
            let no = Arc::new(Literal::new(ScalarValue::Boolean(Some(false))));
            passes = Arc::new(BinaryExpr::new(Arc::clone(&first), Operator::IsDistinctFrom, no));
            predicate = conjunction([first, predicate]);
        }
        input = Arc::new(FilterExecBuilder::new(passes, input).build()?);
    }
    let kept = match filter.projection() {
        Some(projection) => projection.to_vec(),
        None => (0..schema.fields().len()).collect(),
    };
    let made = FilterExecBuilder::new(predicate, EvaluateExec::over(input, foreign.exprs())?)
        .apply_projection(Some(kept))?
        .with_default_selectivity(filter.default_selectivity())
        .with_batch_size(filter.batch_size())
        .with_fetch(filter.fetch())
        .build()?;
    Ok(Some(Arc::new(made)))
}

/// A projection of which something is left to compile.
fn below_projection(projection: &ProjectionExec) -> Made {
    let schema = projection.input().schema();
    let mut foreign = Foreign::new(&schema);
    let mut exprs = Vec::new();
    for projected in projection.expr() {
        let moved = projected.expr.is::<Column>();
        let expr = if moved { Ok(Arc::clone(&projected.expr)) } else { foreign.take(&projected.expr) };
        let Ok(expr) = expr else { return Ok(None) };
        exprs.push(ProjectionExpr { expr, alias: projected.alias.clone() });
    }
    let computes = exprs.iter().any(|projected| !projected.expr.is::<Column>() && !projected.expr.is::<Literal>());
    let others = exprs.iter().map(|projected| &projected.expr);
    if foreign.exprs().is_empty() || !computes || !foreign.keeps_errors(others) {
        return Ok(None);
    }
    let input = EvaluateExec::over(Arc::clone(projection.input()), foreign.exprs())?;
    Ok(Some(Arc::new(ProjectionExec::try_new(exprs, input)?)))
}

/// An aggregate over values whose groups, arguments or filters do not all lower.
fn below_aggregate(aggregate: &AggregateExec) -> Made {
    let merges =
        !matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned);
    let schema = aggregate.input().schema();
    if merges
        || schema.fields().is_empty()
        // A look at all of it is dear.
        || all_lower(aggregate, &schema)
        || Aggregate::of(aggregate).is_err()
        || Aggregate::checked(aggregate).is_ok()
    {
        return Ok(None);
    }
    let Ok((foreign, made)) = over_columns(aggregate)? else { return Ok(None) };
    if foreign.exprs().is_empty() || Aggregate::checked(&made).is_err() {
        return Ok(None);
    }
    Ok(Some(Arc::new(made)))
}

/// Whether there is nothing to take out: columns are not, nor is what lowers.
fn all_lower(aggregate: &AggregateExec, schema: &Schema) -> bool {
    let lower = |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>() || lowers(schema, expr).is_ok();
    let call_lowers = |call: &Arc<AggregateFunctionExpr>| {
        call.expressions().iter().all(lower) && call.order_bys().iter().all(|order| lower(&order.expr))
    };
    aggregate.group_expr().expr().iter().all(|(expr, _)| lower(expr))
        && aggregate.aggr_expr().iter().all(call_lowers)
        && aggregate.filter_expr().iter().flatten().all(lower)
}

/// The aggregate over columns for what does not lower.
fn over_columns(aggregate: &AggregateExec) -> Result<lower::Result<(Foreign, AggregateExec)>> {
    let whole = aggregate.group_expr().is_empty();
    let schema = aggregate.input().schema();
    let mut foreign = Foreign::new(&schema);
    let mut taken = || -> lower::Result<_> {
        let mut take = |expr: &Arc<dyn PhysicalExpr>| foreign.take(expr);
        let groups = aggregate.group_expr().expr().iter().map(|(expr, name)| Ok((take(expr)?, name.clone())));
        let groups = groups.collect::<lower::Result<Vec<_>>>()?;
        // In the order in which the aggregate evaluates them.
        let mut calls = Vec::new();
        for (call, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
            // Without groups an argument is evaluated for the rows that the filter passes.
            let lazy = whole && filter.is_some();
            let arg = |arg: &Arc<dyn PhysicalExpr>| match arg {
                // Accumulators are given columns of any type.
                column if column.is::<Column>() => Ok(Arc::clone(column)),
                arg if lazy => lowers(&schema, arg).map(|()| Arc::clone(arg)),
                arg => take(arg),
            };
            let ordering = call.order_bys().iter().map(|order| &order.expr);
            calls.push(call.expressions().iter().chain(ordering).map(arg).collect::<lower::Result<Vec<_>>>()?);
        }
        let filters = aggregate.filter_expr().iter().map(|filter| filter.as_ref().map(&mut take).transpose());
        let filters = filters.collect::<lower::Result<Vec<_>>>()?;
        Ok((groups, calls, filters))
    };
    let (groups, calls, filters) = match taken() {
        Ok(taken) => taken,
        Err(unsupported) => return Ok(Err(unsupported)),
    };
    let keys = groups.iter().map(|(key, _)| key);
    if !foreign.keeps_errors(keys.chain(calls.iter().flatten()).chain(filters.iter().flatten())) {
        return Ok(Err(Unsupported::new("AggregateExec", "errors would come in another order")));
    }
    let input = EvaluateExec::over(Arc::clone(aggregate.input()), foreign.exprs())?;
    let calls = aggregate.aggr_expr().iter().zip(calls);
    let exprs = calls.map(|(call, args)| with_arguments(call, args, input.as_ref())).collect::<Result<Vec<_>>>()?;
    let by = aggregate.group_expr();
    let groups = PhysicalGroupBy::new(groups, by.null_expr().to_vec(), by.groups().to_vec(), by.has_grouping_set());
    let input_schema = input.schema();
    let made = AggregateExec::try_new(*aggregate.mode(), groups, exprs, filters, input, input_schema)?;
    Ok(Ok((foreign, made)))
}

/// `args` are its arguments and those of its ORDER BY.
pub(super) fn with_arguments(
    call: &Arc<AggregateFunctionExpr>,
    mut args: Vec<Arc<dyn PhysicalExpr>>,
    input: &dyn ExecutionPlan,
) -> Result<Arc<AggregateFunctionExpr>> {
    let known = call.expressions();
    let ordering = args.split_off(known.len());
    if args == known && call.order_bys().iter().map(|order| &order.expr).eq(&ordering) {
        return Ok(Arc::clone(call));
    }
    let ordering = call.order_bys().iter().zip(ordering);
    let ordering = ordering.map(|(order, expr)| PhysicalSortExpr { expr, options: order.options }).collect();
    let made = AggregateExprBuilder::new(Arc::new(call.fun().clone()), args)
        .order_by(ordering)
        .schema(input.schema())
        .alias(call.name())
        .human_display(call.human_display().unwrap_or_default())
        .with_ignore_nulls(call.ignore_nulls())
        .with_distinct(call.is_distinct())
        .with_reversed(call.is_reversed())
        .build()?;
    if made.field() != call.field() || made.state_fields()? != call.state_fields()? {
        return internal_err!("{} is another aggregate over columns", call.name());
    }
    Ok(Arc::new(made))
}

/// A projection of all columns of its input and what DataFusion evaluates of them. It passes for the projection.
#[derive(Debug)]
pub(crate) struct EvaluateExec {
    projection: Arc<dyn ExecutionPlan>,
    /// How many columns are the input's.
    columns: usize,
}

impl EvaluateExec {
    pub(crate) const NAME: &str = "EvaluateExec";

    fn over(input: Arc<dyn ExecutionPlan>, exprs: &[Arc<dyn PhysicalExpr>]) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = input.schema();
        let column = |(index, name): (usize, &String)| ProjectionExpr {
            expr: Arc::new(Column::new(name, index)),
            alias: name.clone(),
        };
        let columns = schema.fields().iter().map(|field| field.name()).enumerate().map(column);
        let evaluated = exprs.iter().map(|expr| ProjectionExpr { expr: Arc::clone(expr), alias: expr.to_string() });
        let exprs: Vec<ProjectionExpr> = columns.chain(evaluated).collect();
        let projection = Arc::new(ProjectionExec::try_new(exprs, input)?);
        Ok(Arc::new(EvaluateExec { projection, columns: schema.fields().len() }))
    }

    /// DataFusion's own operator.
    pub(crate) fn projection(&self) -> &Arc<dyn ExecutionPlan> {
        &self.projection
    }

    /// What is evaluated.
    pub(crate) fn exprs(&self) -> Vec<String> {
        let schema = self.projection.schema();
        schema.fields().iter().skip(self.columns).map(|field| field.name().clone()).collect()
    }
}

impl DisplayAs for EvaluateExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: evaluated by DataFusion: {}", Self::NAME, self.exprs().join(", "))
    }
}

impl ExecutionPlan for EvaluateExec {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.projection.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.projection.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.projection.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.projection.benefits_from_input_partitioning()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.projection.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.projection.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = Arc::clone(&self.projection).replace_children(children, options)?;
        Ok(Arc::new(EvaluateExec { projection, columns: self.columns }))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let projection = Arc::clone(&self.projection).reset_state()?;
        Ok(Arc::new(EvaluateExec { projection, columns: self.columns }))
    }

    weld_plans::new_children!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.projection.execute(partition, context)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.projection.metrics()
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.projection.child_stats_requests(partition)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        self.projection.statistics_from_inputs(inputs, args)
    }

    fn supports_limit_pushdown(&self) -> bool {
        self.projection.supports_limit_pushdown()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.projection.cardinality_effect()
    }
}
