//! Filters that DataFusion pushes to another column than they were made for.
//!
//! ```text
//! HashJoinExec on w = i16@0 + i16@1        its filter: i16@0 + i16@1 is one of the keys
//!   RepartitionExec                        two columns are called i16: the filter is i16@0 + i16@0 from here on
//!     HashJoinExec, columns i16, i16       so it belongs to the left side alone
//!       scan of t: i8, i16                 where it drops rows
//! ```
//! DataFusion pushes filters through most operators by the names of columns, and takes one of two with one name. Its
//! scans use filters for row groups and pages only, unless `pushdown_filters` is set; others drop rows by them. So
//! where two columns of one name are on the way, operators get new filters, which no scan has, and the conditions of a
//! query stay where they are.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::prelude::JoinType;

use crate::{PlanOptions, Rule};

type Plan = Arc<dyn ExecutionPlan>;

/// The plan without filters of operators that may have come to other columns.
pub fn without_misdirected_filters(plan: Plan) -> Result<Plan> {
    plan.transform_up(|node| {
        let Some(input) = node.children().last().copied().cloned() else { return Ok(Transformed::no(node)) };
        let filters = node.dynamic_expressions_produced();
        let columns = filters.iter().flat_map(columns_of).collect::<Vec<_>>();
        match may_be_misdirected(&input, &columns) {
            true => Ok(Transformed::yes(with_new_filter(node)?)),
            false => Ok(Transformed::no(node)),
        }
    })
    .data()
}

fn columns_of(filter: &Arc<dyn PhysicalExpr>) -> Vec<Column> {
    // Not what a filter says by now, but what it was made for.
    filter.children().into_iter().flat_map(collect_columns).collect()
}

/// DataFusion's pushdown of conditions, without those that may come to other columns.
#[derive(Debug)]
pub(crate) struct CarefulPushdown {
    pushdown: Rule,
    options: fn(&ConfigOptions) -> PlanOptions,
}

impl CarefulPushdown {
    pub(crate) fn new(pushdown: Rule, options: fn(&ConfigOptions) -> PlanOptions) -> CarefulPushdown {
        CarefulPushdown { pushdown, options }
    }
}

impl PhysicalOptimizerRule for CarefulPushdown {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        if !(self.options)(config).careful_pushdown {
            return self.pushdown.optimize(plan, config);
        }
        let guarded = plan.transform_up(with_barrier).data()?;
        self.pushdown.optimize(guarded, config)?.transform_up(without_barrier).data()
    }

    fn name(&self) -> &str {
        self.pushdown.name()
    }

    fn schema_check(&self) -> bool {
        self.pushdown.schema_check()
    }
}

fn with_barrier(node: Plan) -> Result<Transformed<Plan>> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
    let columns = |conjunct| collect_columns(conjunct).into_iter().collect::<Vec<_>>();
    let mut conjuncts = split_conjunction(filter.predicate()).into_iter().map(columns);
    if !conjuncts.any(|columns| may_be_misdirected(filter.input(), &columns)) {
        return Ok(Transformed::no(node));
    }
    let barrier = Arc::new(BarrierExec { input: Arc::clone(filter.input()) });
    Ok(Transformed::yes(replace_children_if_necessary(node, vec![barrier])?))
}

fn without_barrier(node: Plan) -> Result<Transformed<Plan>> {
    let below = node.downcast_ref::<BarrierExec>().map(|barrier| Arc::clone(&barrier.input));
    Ok(below.map_or_else(|| Transformed::no(node), Transformed::yes))
}

/// Gives the rows of its input, and lets no condition pass: what an operator does that says nothing of conditions.
#[derive(Debug)]
struct BarrierExec {
    input: Plan,
}

impl DisplayAs for BarrierExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BarrierExec")
    }
}

impl ExecutionPlan for BarrierExec {
    fn name(&self) -> &str {
        "BarrierExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    crate::no_expressions!();

    crate::one_input!(input, |node, input| BarrierExec { input });

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}

/// Whether a filter over these columns of `plan` may be taken for one over others below.
fn may_be_misdirected(plan: &Plan, columns: &[Column]) -> bool {
    if columns.is_empty() || stops_filters(plan, columns) {
        return false;
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = columns.iter().filter_map(|column| projection.expr().get(column.index()));
        let below: Vec<Column> = below.flat_map(|shown| collect_columns(&shown.expr)).collect();
        return columns.iter().any(|column| named(plan, column).len() > 1)
            || may_be_misdirected(projection.input(), &below);
    }
    plan.children().into_iter().any(|input| {
        let places: Vec<Vec<usize>> = columns.iter().map(|column| named(input, column)).collect();
        // It is not pushed to where one of its columns is missing.
        let is_pushed = places.iter().all(|places| !places.is_empty());
        is_pushed && {
            let below = columns.iter().zip(&places).map(|(column, places)| Column::new(column.name(), places[0]));
            places.iter().any(|places| places.len() > 1) || may_be_misdirected(input, &below.collect::<Vec<_>>())
        }
    })
}

/// Whether `plan` is a join below which a filter over these columns does not go: it knows which side each is of.
fn stops_filters(plan: &Plan, columns: &[Column]) -> bool {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
        return plan.is::<NestedLoopJoinExec>() || plan.is::<SortMergeJoinExec>();
    };
    let left_columns = join.left().schema().fields().len();
    let is_left = |column: &Column| {
        let joined = join.projection.as_deref().and_then(|kept| kept.get(column.index()).copied());
        joined.unwrap_or(column.index()) < left_columns
    };
    match join.join_type() {
        JoinType::Full => true,
        JoinType::Inner | JoinType::Left | JoinType::Right => {
            columns.iter().any(is_left) && !columns.iter().all(is_left)
        }
        _ => false,
    }
}

/// Where `plan` has columns of this name.
fn named(plan: &Plan, column: &Column) -> Vec<usize> {
    let schema = plan.schema();
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| field.name() == column.name()).map(|(index, _)| index).collect()
}

fn with_new_filter(node: Plan) -> Result<Plan> {
    // An aggregate that is reset keeps its filter.
    let Some(exec) = node.downcast_ref::<AggregateExec>() else { return node.reset_state() };
    let anew = AggregateExec::try_new(
        *exec.mode(),
        exec.group_expr().clone(),
        exec.aggr_expr().to_vec(),
        exec.filter_expr().to_vec(),
        Arc::clone(exec.input()),
        exec.input_schema(),
    )?;
    Ok(Arc::new(anew.with_limit_options(exec.limit_options())))
}
