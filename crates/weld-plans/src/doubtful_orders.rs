//! Keys of whose order DataFusion knows too much: constants of the side of an outer join that may be null, which are none
//! above the join, and others.
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
//!
//! So it is with keys that grouping sets fill with NULL, of which an aggregate says what holds of its input; with
//! running extremes and sums, which begin with NULL and may wrap around; and with times of day and
//! local dates, in whose order timestamps are not.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, SlidingAggregateWindowExpr, WindowExpr};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::{ProjectionExec, make_with_child};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use datafusion::prelude::JoinType;

use weld_table::keeps_order;

use crate::PlanOptions;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;
type Columns = BTreeSet<usize>;

/// The rule. It has to come before sorts that seem to do nothing are taken out.
#[derive(Debug)]
pub(crate) struct DoubtfulOrders(pub(crate) fn(&ConfigOptions) -> PlanOptions);

impl DoubtfulOrders {
    pub(crate) const NAME: &str = "doubtful_orders";
}

impl PhysicalOptimizerRule for DoubtfulOrders {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        if !self.0(config).doubtful_orders {
            return Ok(plan);
        }
        plan.transform_up(|node| {
            let inputs: Vec<Plan> = node.children().into_iter().cloned().collect();
            let doubts: Vec<bool> =
                inputs.iter().zip(keys(&node)).map(|(input, keys)| is_in_doubt(input, &keys)).collect();
            if !doubts.contains(&true) {
                return Ok(Transformed::no(node));
            }
            let unordered = |(input, doubt)| if doubt { Arc::new(UnorderedExec::new(input)) as Plan } else { input };
            let inputs = inputs.into_iter().zip(doubts).map(unordered).collect();
            Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?))
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
        // A final aggregate stays above its partial one, which finds its groups, but for those of grouping sets.
        let is_final = aggregate.mode().input_mode() == AggregateInputMode::Partial;
        if is_final
            && aggregate.input().downcast_ref::<AggregateExec>().is_none_or(|below| below.group_expr().is_single())
        {
            return Vec::new();
        }
        let groups = aggregate.group_expr().expr().iter().map(|(key, _)| key);
        let orders = aggregate.aggr_expr().iter().flat_map(|call| call.order_bys()).map(|key| &key.expr);
        keys.iter_mut().for_each(|keys| keys.extend(groups.clone().chain(orders.clone()).cloned()));
    }
    keys
}

/// Whether what is known of the order of these keys may not be so.
fn is_in_doubt(input: &Plan, keys: &[Expr]) -> bool {
    let known = input.equivalence_properties();
    if known.oeq_class().is_empty() && known.eq_group().is_empty() && known.constraints().is_empty() {
        return false;
    }
    let (constants, others): (Vec<&Expr>, Vec<&Expr>) =
        keys.iter().partition(|key| known.is_expr_constant(key).is_some());
    come_of(constants, input, true) || come_of(others, input, false)
}

/// Whether that is so of one of these columns; those of a side that an outer join fills with NULL are only taken for
/// what they are not if they are constants of that side. A filter above the join that makes a column constant would have
/// made it an inner one.
fn are_in_doubt(plan: &Plan, columns: &Columns, are_constants: bool) -> bool {
    if columns.is_empty() {
        return false;
    }
    if let Some(join) = Join::of(plan) {
        return join.are_in_doubt(columns, are_constants);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let used = columns.iter().filter_map(|column| projection.expr().get(*column)).map(|used| &used.expr);
        return come_of(used, projection.input(), are_constants);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        let keys: Vec<&Expr> =
            columns.iter().filter_map(|column| groups.expr().get(*column)).map(|(key, _)| key).collect();
        // Grouping sets fill their keys themselves.
        return (!groups.is_single() && !keys.is_empty()) || come_of(keys, aggregate.input(), are_constants);
    }
    let window = plan.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr);
    let window = window.or_else(|| plan.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr));
    if let Some(functions) = window {
        let fields = plan.children()[0].schema().fields().len();
        let mut used = columns.iter().filter_map(|column| functions.get(column.checked_sub(fields)?));
        if used.any(is_aggregate) {
            return true;
        }
    }
    let kept = plan.downcast_ref::<FilterExec>().and_then(|filter| filter.projection().as_deref());
    let columns = columns.iter().map(|column| kept.map_or(*column, |kept| kept[*column]));
    let columns = &columns.collect::<Columns>();
    // Other operators give the columns of their inputs, and behind these their own.
    plan.children().into_iter().any(|input| {
        let fields = input.schema().fields().len();
        are_in_doubt(input, &columns.iter().copied().filter(|column| *column < fields).collect(), are_constants)
    })
}

/// The same of what is computed of an input.
fn come_of<'a>(exprs: impl IntoIterator<Item = &'a Expr>, input: &Plan, are_constants: bool) -> bool {
    let schema = input.schema();
    let mut columns = Columns::new();
    for expr in exprs {
        // A time of day, or the date of another place: DataFusion takes casts between times for ones that keep the order.
        if !keeps_order(expr, &schema) && expr.data_type(&schema).is_ok_and(|of| of.is_temporal()) {
            return true;
        }
        columns.extend(collect_columns(expr).iter().map(Column::index));
    }
    are_in_doubt(input, &columns, are_constants)
}

fn is_aggregate(function: &Arc<dyn WindowExpr>) -> bool {
    let function = function.as_any();
    function.is::<PlainAggregateWindowExpr>() || function.is::<SlidingAggregateWindowExpr>()
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

    fn are_in_doubt(&self, columns: &Columns, are_constants: bool) -> bool {
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
        let fills_left = are_constants && matches!(self.join_type, JoinType::Right | JoinType::Full);
        let fills_right = are_constants && matches!(self.join_type, JoinType::Left | JoinType::Full);
        let of_side = |side, columns: &Columns, fills: bool| {
            (fills && !columns.is_empty()) || are_in_doubt(side, columns, are_constants)
        };
        of_side(self.left, &left, fills_left) || of_side(self.right, &right, fills_right)
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

    crate::statistics_of_input!();

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
