//! The rule that orders joins by the rows that they are expected to give.
//!
//! ```text
//! SELECT .. FROM customer, orders, lineitem, supplier, nation, region ..      as written: region, the only filter, comes last
//!                                    ->   (((region ⋈ nation) ⋈ customer) ⋈ orders) ⋈ lineitem ⋈ supplier
//! ```
//!
//! It stands after DataFusion's choice of join sides and before distributions are enforced: there are no exchanges yet
//! and nothing after it changes sides. Inner joins commute; semi, anti and left joins commute with inner joins that
//! preserve the side they keep. Rows, not their order, are the same, and so are column names and types; sums of floats
//! may differ in the last bits, as with any other order of rows. The order stays as written, but for the sides of inner
//! joins, where the estimate of it is not at least [`GAIN_MIN`] times the best one's; all stays where a table has no
//! statistics, where a condition is more than columns, and where an input that may fail would run that another input's
//! lack of rows keeps from it.

mod enumerate;
mod gates;
mod graph;
mod rebuild;

use std::cell::LazyCell;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::PlanOptions;
use crate::estimate::Estimates;
use crate::ranges::Ranges;
use enumerate::Costs;
use gates::Gates;
use graph::Graph;
use rebuild::Rebuild;

/// An order must be expected to cost this many times less than the one that was written: estimates are rough.
const GAIN_MIN: f64 = 1.25;

/// Orders joins.
#[derive(Debug)]
pub struct JoinOrder {
    options: fn(&ConfigOptions) -> PlanOptions,
    ranges: Arc<Ranges>,
}

impl JoinOrder {
    pub(crate) const NAME: &str = "join_order";

    /// `options` finds the settings of a session.
    pub(crate) fn new(options: fn(&ConfigOptions) -> PlanOptions, ranges: Arc<Ranges>) -> JoinOrder {
        JoinOrder { options, ranges }
    }
}

/// The rule at work on a plan.
struct Ordering<'a> {
    estimates: Estimates,
    config: &'a ConfigOptions,
}

impl Ordering<'_> {
    fn rewrite(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            let Some(graph) = Graph::of(&node)? else { return Ok(Transformed::no(node)) };
            let rewritten = self.rewrite_inputs(Arc::clone(&node), &graph)?;
            let graph = match Arc::ptr_eq(&rewritten, &node) {
                true => Some(graph),
                false => Graph::of(&rewritten)?,
            };
            let ordered = graph.map(|graph| self.ordered(&rewritten, &graph)).transpose()?.flatten();
            Ok(Transformed::new(ordered.unwrap_or(rewritten), true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    /// The same joins over inputs whose own joins are ordered.
    fn rewrite_inputs(&self, node: Arc<dyn ExecutionPlan>, graph: &Graph) -> Result<Arc<dyn ExecutionPlan>> {
        node.transform_down(|node| {
            if !graph.inputs().any(|input| Arc::ptr_eq(input, &node)) {
                return Ok(Transformed::no(node));
            }
            let rewritten = node.map_children(|child| Ok(Transformed::yes(self.rewrite(child)?)))?;
            Ok(Transformed::new(rewritten.data, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    /// The plan with its joins in a better order, if there is one.
    fn ordered(&self, plan: &Arc<dyn ExecutionPlan>, graph: &Graph) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let estimates = graph.relations.iter().map(|relation| self.estimates.of(&relation.plan));
        let Some(estimates) = estimates.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let costs = Costs::new(graph, estimates);
        let Some(written) = costs.of_tree(&graph.tree) else { return Ok(None) };
        let Some(best) = costs.best() else { return Ok(None) };
        log::debug!("joins as written cost {:.0}, {:.0} in the best order", written.cost, best.cost);
        // Only a better order is worth a look at all expressions below.
        let gates = LazyCell::new(|| Gates::of(graph));
        let best = if best.cost * GAIN_MIN <= written.cost && gates.are_kept(graph, &best.tree) {
            best
        } else {
            // Who is built is a matter of two sizes; an order is one of many estimates.
            match costs.with_sides(&graph.tree) {
                Some(sided) if sided.cost < written.cost && gates.are_kept(graph, &sided.tree) => sided,
                _ => return Ok(None),
            }
        };
        let ordered = Rebuild { graph, costs: &costs, config: self.config }.plan(&best.tree, &plan.schema())?;
        // Nothing above may notice: neither names nor types, nor what they are annotated with.
        Ok((ordered.schema() == plan.schema()).then_some(ordered))
    }
}

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match (self.options)(config).join_order {
            true => Ordering { estimates: Estimates::new(&self.ranges), config }.rewrite(plan),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        JoinOrder::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}
