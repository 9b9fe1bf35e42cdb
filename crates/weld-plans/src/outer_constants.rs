//! Constants of the side of an outer join that may be null, which are none above the join.
//!
//! ```text
//! WindowAggExec: PARTITION BY kind                  takes kind for a constant, so asks for no order
//!   HashJoinExec: join_type=Left                    kind is 'a', or NULL where nothing matched
//!     ..
//!     ProjectionExec: 'a' as kind
//! ```
//! DataFusion's joins pass on what is constant in their inputs. Whether rows of a window partition are neighbours then depends on the
//! order in which a join gives them. Windows over such keys get their rows sorted.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use datafusion::prelude::JoinType;

type Plan = Arc<dyn ExecutionPlan>;

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
    let mut keys = ordering.iter().map(|key| &key.expr).filter(|key| !collect_columns(key).is_empty());
    let is_in_doubt =
        keys.any(|key| known.is_expr_constant(key).is_some()) && input.exists(|node| Ok(is_outer(node)))?;
    Ok(is_in_doubt.then_some(ordering))
}

fn is_outer(plan: &Plan) -> bool {
    let join_type = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        join.join_type()
    } else {
        return false;
    };
    matches!(join_type, JoinType::Left | JoinType::Right | JoinType::Full)
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

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(UnorderedExec::new(input))),
            _ => internal_err!("{} has one child", self.name()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }
}
