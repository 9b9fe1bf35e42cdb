//! `array_agg(DISTINCT x ORDER BY x)` and `string_agg` over rows in the opposite order.
//!
//! DataFusion turns such calls round, so that the rows need not be sorted, and turns what was collected round at the
//! end. But distinct values are sorted at the end whatever the order of the rows is, in the order of the call that was
//! turned round.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::functions_aggregate::array_agg::ArrayAgg;
use datafusion::functions_aggregate::string_agg::StringAgg;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// The plan with lists of distinct values in the order that the query asks for.
pub fn with_order_of_distinct(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| match node.downcast_ref::<AggregateExec>() {
        Some(aggregate) if aggregate.aggr_expr().iter().any(|call| is_turned_round(call)) => {
            let calls = aggregate.aggr_expr().iter().map(|call| match is_turned_round(call) {
                true => call.reverse_expr().map_or_else(|| Arc::clone(call), Arc::new),
                false => Arc::clone(call),
            });
            Ok(Transformed::yes(Arc::new(aggregate.with_new_aggr_exprs(calls.collect::<Vec<_>>())) as _))
        }
        _ => Ok(Transformed::no(node)),
    })
    .data()
}

fn is_turned_round(call: &AggregateFunctionExpr) -> bool {
    let function = call.fun().inner();
    call.is_distinct() && call.is_reversed() && (function.is::<ArrayAgg>() || function.is::<StringAgg>())
}
