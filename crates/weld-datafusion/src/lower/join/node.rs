//! The operators that join, as one: a nested-loop or cross join is a hash join in which all rows have the same key.

use std::sync::Arc;

use datafusion::common::{JoinType, NullEquality};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};

use super::super::{Result, Unsupported};
use super::{Join, unique};

/// A join in a plan.
pub(crate) struct JoinNode<'a> {
    pub(crate) plan: &'a Arc<dyn ExecutionPlan>,
    pub(crate) join: Join,
    /// The build side.
    pub(crate) left: &'a Arc<dyn ExecutionPlan>,
    /// The probe side.
    pub(crate) right: &'a Arc<dyn ExecutionPlan>,
    pub(crate) mode: PartitionMode,
}

impl<'a> JoinNode<'a> {
    /// `None` if the plan is no join.
    pub(crate) fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Result<JoinNode<'a>>> {
        let constant = || vec![lit(0_i8)];
        let (join, left, right, mode) = if let Some(exec) = plan.downcast_ref::<HashJoinExec>() {
            let (left_keys, right_keys) = exec.on().iter().cloned().unzip();
            let join = Join {
                filter: exec.filter().cloned(),
                projection: exec.projection.as_ref().map(|projection| projection.to_vec()),
                nulls_match: exec.null_equality() == NullEquality::NullEqualsNull,
                null_aware: exec.null_aware,
                ..Join::new(*exec.join_type(), left_keys, right_keys, exec.left(), exec.right())
            };
            (join, exec.left(), exec.right(), *exec.partition_mode())
        } else if let Some(exec) = plan.downcast_ref::<NestedLoopJoinExec>() {
            let join = Join {
                filter: exec.filter().cloned(),
                projection: exec.projection().as_ref().map(|projection| projection.to_vec()),
                reads_probe: true,
                ..Join::new(*exec.join_type(), constant(), constant(), exec.left(), exec.right())
            };
            (join, exec.left(), exec.right(), PartitionMode::CollectLeft)
        } else if let Some(exec) = plan.downcast_ref::<CrossJoinExec>() {
            let join = Join::new(JoinType::Inner, constant(), constant(), exec.left(), exec.right());
            (join, exec.left(), exec.right(), PartitionMode::CollectLeft)
        } else {
            return None;
        };
        Some(join.checked(right, plan.name()).map(|join| JoinNode { plan, join, left, right, mode }))
    }
}

impl Join {
    fn new(
        join_type: JoinType,
        left_keys: Vec<Arc<dyn PhysicalExpr>>,
        right_keys: Vec<Arc<dyn PhysicalExpr>>,
        left: &Arc<dyn ExecutionPlan>,
        right: &Arc<dyn ExecutionPlan>,
    ) -> Join {
        Join {
            join_type,
            left_keys,
            right_keys,
            filter: None,
            projection: None,
            nulls_match: false,
            null_aware: false,
            reads_probe: false,
            left: left.schema(),
            right: right.schema(),
        }
    }

    /// The join as it is lowered, if it can be.
    fn checked(mut self, right: &Arc<dyn ExecutionPlan>, operator: &str) -> Result<Join> {
        if self.join_type == JoinType::LeftSemi && unique::is_unique(right, &self.right_keys) {
            // A row of the build side matches once at most: it comes when it does.
            self.join_type = JoinType::Inner;
            self.projection.get_or_insert_with(|| (0..self.left.fields().len()).collect());
        }
        if self.null_aware && self.filter.is_some() {
            return Err(Unsupported::new(operator, "NOT IN with another condition"));
        }
        self.check_keys()?;
        Ok(self)
    }
}
