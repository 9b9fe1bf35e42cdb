//! Sides of outer joins that are no part of a graph.
//!
//! ```text
//! impressions LEFT JOIN clicks k ON .. LEFT JOIN conversions v ON v.click_id = k.click_id    conversions are built
//! ```
//!
//! A graph takes left joins whose keys all rows have. Others stay where they were written, and DataFusion, which knows the
//! sizes of few joins, builds what is written first: there three million rows, most of which have no key at all.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinType, Result};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::enumerate::SIDES_GAIN_MIN;
use super::gates::may_fail;
use crate::estimate::Estimates;

/// A left or full join with the smaller side built, if that is not the left one.
pub(super) fn with_smaller_built(
    plan: &Arc<dyn ExecutionPlan>,
    estimates: &Estimates,
    config: &ConfigOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    if !matches!(join.join_type(), JoinType::Left | JoinType::Full) || join.fetch().is_some() {
        return Ok(None);
    }
    let (Some(left), Some(right)) = (estimates.of(join.left()), estimates.of(join.right())) else { return Ok(None) };
    let is_unbounded = join.left().boundedness().is_unbounded() || join.right().boundedness().is_unbounded();
    // Where the left side has no row, the right one of a left join does not run.
    if left.rows < SIDES_GAIN_MIN * right.rows || is_unbounded || may_fail(join.right()) {
        return Ok(None);
    }
    let swapped = join.swap_inputs(mode(right.row_bytes() * right.rows, right.rows, config))?;
    Ok((swapped.schema() == plan.schema()).then_some(swapped))
}

/// As DataFusion's join selection decides: a small build side is collected, a large one partitioned.
pub(super) fn mode(bytes: f64, rows: f64, config: &ConfigOptions) -> PartitionMode {
    let options = &config.optimizer;
    let is_small = bytes < options.hash_join_single_partition_threshold as f64
        && rows < options.hash_join_single_partition_threshold_rows as f64;
    match is_small || !options.repartition_joins || config.execution.target_partitions == 1 {
        true => PartitionMode::CollectLeft,
        false => PartitionMode::Partitioned,
    }
}
