//! Where nobody notices how often a row comes.
//!
//! ```text
//! SELECT DISTINCT name FROM customer JOIN orders ON ..                     rows of the join are read as a set
//! SELECT min(title) FROM titles JOIN keywords ON ..                        so are these
//! .. WHERE id IN (SELECT customer FROM orders JOIN lines ON ..)            and those of the side that a semi join drops
//! ```
//!
//! A join among such rows, of which one side gives no columns to what is above, only asks whether the other side's rows
//! have a match: it is a semi join.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf};
use datafusion::functions_aggregate::bool_and_or::{BoolAnd, BoolOr};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;

use crate::expr::{all_exprs, is_volatile};

/// For each input of `plan` whether its rows are read as a set, where those of the plan itself are if `is_set`.
pub(super) fn inputs_as_sets(plan: &Arc<dyn ExecutionPlan>, is_set: bool) -> Vec<bool> {
    let inputs = plan.children().len();
    // What is drawn anew for each row is drawn as often as rows come.
    if !all_exprs(plan.as_ref(), |expr| !is_volatile(expr)) {
        return vec![false; inputs];
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let reads_rows = aggregate.mode().input_mode() == AggregateInputMode::Raw;
        let is_set = reads_rows && aggregate.aggr_expr().iter().all(|call| reads_a_set(call));
        return vec![is_set && aggregate.limit_options().is_none()];
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let is_set = is_set && join.fetch().is_none();
        return match join.join_type() {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => vec![is_set, true],
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => vec![true, is_set],
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => vec![is_set; 2],
        };
    }
    let passes = plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<UnionExec>();
    vec![is_set && passes && plan.fetch().is_none(); inputs]
}

/// Whether an aggregate function gives the same of rows that come twice.
fn reads_a_set(call: &AggregateFunctionExpr) -> bool {
    let (function, of) = (call.fun().inner(), call.fun());
    // Lists of distinct values have an order.
    let adds_up = function.is::<Count>() || function.is::<Sum>() || function.is::<Avg>();
    (call.is_distinct() && adds_up)
        || function.is::<Min>()
        || function.is::<Max>()
        || function.is::<BoolAnd>()
        || function.is::<BoolOr>()
        || *of == *bit_and_udaf()
        || *of == *bit_or_udaf()
}
