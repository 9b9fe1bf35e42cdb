//! Constants of the side of an outer join that may be null, which are none above the join.
//!
//! ```text
//! SortExec: kind, k                      takes kind for a constant: sorts by k alone, if at all
//!   UnorderedExec                        forgets what is said of the rows below
//!     HashJoinExec: join_type=Right      kind is 'a', or NULL where nothing matched
//!       ProjectionExec: 'a' as kind
//!       ..
//! ```
//! DataFusion's joins pass on what is constant in their left inputs, whichever side that is once joins are ordered. Sorts
//! by such a key would leave it out, aggregates would give a group several times, and rows of a window partition would be
//! neighbours by chance. Nothing is said of the order of rows below those.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::{ProjectionExec, make_with_child};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use datafusion::prelude::JoinType;

use crate::PlanOptions;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;
type Columns = BTreeSet<usize>;

/// The rule. It has to come before sorts that seem to do nothing are taken out.
#[derive(Debug)]
pub(crate) struct OuterConstants(pub(crate) fn(&ConfigOptions) -> PlanOptions);

impl OuterConstants {
    pub(crate) const NAME: &str = "outer_constants";
}

impl PhysicalOptimizerRule for OuterConstants {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        if !self.0(config).outer_constants {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            let keys = keys(&node);
            let inputs = node.children().into_iter().cloned().zip(keys);
            let (inputs, doubts): (Vec<Plan>, Vec<bool>) = inputs
                .map(|(input, keys)| match keys.iter().any(|key| is_in_doubt(&input, key)) {
                    true => (Arc::new(UnorderedExec::new(input)) as Plan, true),
                    false => (input, false),
                })
                .unzip();
            if !doubts.contains(&true) {
                return Ok(Transformed::no(node));
            }
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(inputs, options)?))
        })
        .data()
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What an operator makes of the order of each of its inputs depends on these.
fn keys(plan: &Plan) -> Vec<Vec<Expr>> {
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return vec![sort.expr().iter().map(|key| Arc::clone(&key.expr)).collect()];
    }
    let required = plan.required_input_ordering().into_iter();
    let mut keys: Vec<Vec<Expr>> = required
        .map(|required| {
            required.map_or_else(Vec::new, |order| order.into_single().into_iter().map(|key| key.expr).collect())
        })
        .collect();
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr().expr().iter().map(|(key, _)| key);
        let orders = aggregate.aggr_expr().iter().flat_map(|call| call.order_bys()).map(|key| &key.expr);
        keys.iter_mut().for_each(|keys| keys.extend(groups.clone().chain(orders.clone()).cloned()));
    }
    keys
}

/// Whether a key that is taken for a constant may be none.
fn is_in_doubt(input: &Plan, key: &Expr) -> bool {
    let columns: Columns = collect_columns(key).iter().map(Column::index).collect();
    !columns.is_empty()
        && input.equivalence_properties().is_expr_constant(key).is_some()
        && may_be_filled(input, &columns)
}

/// Whether one of the columns is of a side that an outer join below fills with NULL. A filter above such a join that
/// makes a column constant would have made the join an inner one.
fn may_be_filled(plan: &Plan, columns: &Columns) -> bool {
    if let Some(join) = Join::of(plan) {
        return join.may_be_filled(columns);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let used = columns.iter().filter_map(|column| projection.expr().get(*column));
        let used = used.flat_map(|used| collect_columns(&used.expr)).map(|column| column.index()).collect();
        return may_be_filled(projection.input(), &used);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        let used = columns.iter().filter_map(|column| groups.expr().get(*column));
        let used = used.flat_map(|(key, _)| collect_columns(key)).map(|column| column.index()).collect();
        // Grouping sets fill their keys themselves.
        return !groups.is_single() || may_be_filled(aggregate.input(), &used);
    }
    let kept = plan.downcast_ref::<FilterExec>().and_then(|filter| filter.projection().as_deref());
    let columns = columns.iter().map(|column| kept.map_or(*column, |kept| kept[*column]));
    let columns = &columns.collect::<Columns>();
    // Other operators give the columns of their inputs, and behind these their own.
    plan.children().into_iter().any(|input| {
        let fields = input.schema().fields().len();
        may_be_filled(input, &columns.iter().copied().filter(|column| *column < fields).collect())
    })
}

/// A join that may be an outer one.
struct Join<'a> {
    join_type: JoinType,
    projection: Option<&'a [usize]>,
    left: &'a Plan,
    right: &'a Plan,
}

impl<'a> Join<'a> {
    fn of(plan: &'a Plan) -> Option<Join<'a>> {
        let (join_type, projection) = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            (*join.join_type(), join.projection.as_deref())
        } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            (*join.join_type(), join.projection().as_deref())
        } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
            (join.join_type(), None)
        } else if plan.is::<CrossJoinExec>() {
            (JoinType::Inner, None)
        } else {
            return None;
        };
        let (left, right) = (plan.children()[0], plan.children()[1]);
        Some(Join { join_type, projection, left, right })
    }

    fn may_be_filled(&self, columns: &Columns) -> bool {
        let columns = columns.iter().map(|column| self.projection.map_or(*column, |kept| kept[*column]));
        let (left, right) = (self.left.schema().fields().len(), self.right.schema().fields().len());
        // A mark is of neither side.
        let (left, right): (Columns, Columns) = match self.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                (columns.filter(|column| *column < left).collect(), Columns::new())
            }
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                (Columns::new(), columns.filter(|column| *column < right).collect())
            }
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                let (of_left, of_right): (Columns, Columns) = columns.partition(|column| *column < left);
                (of_left, of_right.into_iter().map(|column| column - left).collect())
            }
        };
        let fills_left = matches!(self.join_type, JoinType::Right | JoinType::Full);
        let fills_right = matches!(self.join_type, JoinType::Left | JoinType::Full);
        let is_filled =
            |side, columns: &Columns, fills: bool| !columns.is_empty() && (fills || may_be_filled(side, columns));
        is_filled(self.left, &left, fills_left) || is_filled(self.right, &right, fills_right)
    }
}

/// Rows of a plan of whose order, constants and equal columns nothing is said.
#[derive(Debug)]
pub struct UnorderedExec {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    const NAME: &str = "UnorderedExec";

    fn new(input: Plan) -> UnorderedExec {
        let properties = PlanProperties::clone(input.properties());
        let properties = properties.with_eq_properties(EquivalenceProperties::new(input.schema()));
        UnorderedExec { input, properties: Arc::new(properties) }
    }

    /// Whose rows they are.
    pub fn input(&self) -> &Plan {
        &self.input
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) { Ok(()) } else { f.write_str(Self::NAME) }
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    crate::no_expressions!();

    crate::one_input!(input, |node, input| UnorderedExec::new(input));

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("{} has one child", Self::NAME),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Expr>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Plan>> {
        if projection.expr().len() >= self.schema().fields().len() {
            return Ok(None);
        }
        Ok(Some(Arc::new(UnorderedExec::new(make_with_child(projection, &self.input)?))))
    }
}
