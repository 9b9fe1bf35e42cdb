//! Constants of the side of an outer join that may be null, which are none above the join.
//!
//! ```text
//! WindowAggExec: PARTITION BY kind                  takes kind for a constant, so asks for no order
//!   HashJoinExec: join_type=Left                    kind is 'a', or NULL where nothing matched
//!     ..
//!     ProjectionExec: 'a' as kind
//! ```
//! DataFusion's joins pass on what is constant in their inputs. Whether rows of a window partition are neighbours then
//! depends on the order in which a join gives them. Windows over such keys get their rows sorted.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use datafusion::prelude::JoinType;

type Plan = Arc<dyn ExecutionPlan>;
type Columns = BTreeSet<usize>;

/// The plan with the rows of windows sorted where their order follows from such a constant.
pub fn with_sorted_windows(plan: Plan) -> Result<Plan> {
    plan.transform_up(|node| match ordering(&node)? {
        Some(ordering) => {
            let children = node.children().into_iter().map(|input| {
                let is_divided = input.output_partitioning().partition_count() > 1;
                let sort = SortExec::new(ordering.clone(), Arc::new(UnorderedExec::new(Arc::clone(input))));
                Arc::new(sort.with_preserve_partitioning(is_divided)) as Plan
            });
            let children = children.collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Ok(Transformed::yes(node.replace_children(children, options)?))
        }
        None => Ok(Transformed::no(node)),
    })
    .data()
}

/// The order that a window needs and may not have.
fn ordering(plan: &Plan) -> Result<Option<LexOrdering>> {
    if !plan.is::<WindowAggExec>() && !plan.is::<BoundedWindowAggExec>() {
        return Ok(None);
    }
    let (Some(input), Some(Some(required))) =
        (plan.children().first().copied().cloned(), plan.required_input_ordering().pop())
    else {
        return Ok(None);
    };
    let ordering = LexOrdering::from(required.into_single());
    let known = input.equivalence_properties();
    let is_in_doubt = ordering.iter().any(|key| {
        let columns: Columns = collect_columns(&key.expr).iter().map(Column::index).collect();
        !columns.is_empty() && known.is_expr_constant(&key.expr).is_some() && may_be_filled(&input, &columns)
    });
    Ok(is_in_doubt.then_some(ordering))
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

/// Rows of a plan of whose order nothing is said: a sort does nothing where it is told that its input is sorted.
#[derive(Debug)]
struct UnorderedExec {
    input: Plan,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    fn new(input: Plan) -> UnorderedExec {
        let properties = PlanProperties::clone(input.properties());
        let properties = properties.with_eq_properties(EquivalenceProperties::new(input.schema()));
        UnorderedExec { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnorderedExec")
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &str {
        "UnorderedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    crate::no_expressions!();

    crate::one_input!(input, |node, input| UnorderedExec::new(input));

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
