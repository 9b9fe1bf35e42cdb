//! DataFusion's join with its dynamic filter narrowed to sets of keys.
//!
//! The join itself would narrow the filter to a list of keys, or to its hash table, which hash every value. A reader
//! that drops rows before it decodes other columns asks a [`KeySet`](crate::KeySet) instead, as it does for a compiled
//! join.

use std::sync::Arc;

use datafusion::common::{NullEquality, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use super::keys::JoinKeys;
use super::source::ProbeFilter;
use super::{collected_at, collecting, has_filter};
use crate::key_set::has_sets;

/// The join with its keys collected for its dynamic filter, to be executed once; `None` if it has no such filter or its
/// keys have no sets.
pub fn with_key_sets(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let Some(filter) = join.dynamic_expressions_produced().pop() else { return Ok(None) };
    let (left, right) = (join.left().schema(), join.right().schema());
    let has_set = |(build, probe): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
        let types = (build.data_type(&left), probe.data_type(&right));
        matches!(types, (Ok(build), Ok(probe)) if build == probe && has_sets(&build))
    };
    let sees_nulls = join.null_aware || join.null_equality() == NullEquality::NullEqualsNull;
    if sees_nulls || *join.partition_mode() == PartitionMode::Auto || !join.on().iter().all(has_set) {
        return Ok(None);
    }
    if !filter.expression_id().is_some_and(|id| is_filter_used(join.right(), id)) {
        return Ok(None);
    }
    let (place, is_whole) = collected_at(join);
    let (exprs, columns) = join.on().iter().cloned().unzip();
    let keys = Arc::new(JoinKeys::new(0, exprs, is_whole));
    keys.feed(ProbeFilter { filter, columns, schema: right });
    let children = vec![collecting(join, &place, &keys)?, Arc::clone(join.right())];
    // The filter is in the probe side, and nobody else narrows it.
    Ok(Some(join.builder().reset_state().with_new_children(children)?.build_exec()?))
}

/// Whether an operator of the plan has the dynamic filter of this number.
pub fn is_filter_used(plan: &Arc<dyn ExecutionPlan>, id: u64) -> bool {
    has_filter(plan, id) || plan.children().into_iter().any(|child| is_filter_used(child, id))
}
