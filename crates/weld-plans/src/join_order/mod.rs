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
//! may differ in the last bits, as with any other order of rows. The order stays as written, but for the sides of joins,
//! where the estimate of it is not at least [`GAIN_MIN`] times the best one's; all stays where a table has no statistics,
//! where a condition is more than columns, and where an input that may fail would run that another input's lack of rows
//! keeps from it.

mod casts;
mod enumerate;
mod gates;
mod graph;
mod rebuild;
mod sets;
mod sides;

use std::cell::LazyCell;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;

use crate::PlanOptions;
use crate::estimate::Estimates;
use crate::memo::Memo;
use crate::ranges::Ranges;
use casts::with_casts_below_joins;
use enumerate::{Costs, Joined};
use gates::Gates;
use graph::Graph;
use rebuild::Rebuild;
use sets::inputs_as_sets;
use sides::with_smaller_built;

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
    semi_joins: bool,
    /// Plans that were rewritten: those whose rows are read as a set, and others.
    sets: Memo<Rewritten>,
    bags: Memo<Rewritten>,
}

type Rewritten = std::result::Result<Arc<dyn ExecutionPlan>, Arc<DataFusionError>>;

impl Ordering<'_> {
    /// The plan with all of its joins ordered; its rows are read as a set if `is_set`.
    fn rewrite(&self, plan: Arc<dyn ExecutionPlan>, is_set: bool) -> Result<Arc<dyn ExecutionPlan>> {
        // Inputs of joins are come to twice where casts were moved and the order stays.
        let known = if is_set { &self.sets } else { &self.bags };
        let rewritten = known.of(&plan, || self.rewrite_anew(Arc::clone(&plan), is_set).map_err(Arc::new));
        rewritten.map_err(DataFusionError::Shared)
    }

    fn rewrite_anew(&self, plan: Arc<dyn ExecutionPlan>, is_set: bool) -> Result<Arc<dyn ExecutionPlan>> {
        if let Some(sunk) = with_casts_below_joins(&plan)?
            && let (_, Some(ordered)) = self.rewrite_graph(&sunk, is_set)?
        {
            return Ok(ordered);
        }
        let (rewritten, ordered) = self.rewrite_graph(&plan, is_set)?;
        Ok(ordered.unwrap_or(rewritten))
    }

    /// The plan over inputs whose own joins are ordered, and the same with its own in a better order, if there is one.
    fn rewrite_graph(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        is_set: bool,
    ) -> Result<(Arc<dyn ExecutionPlan>, Option<Arc<dyn ExecutionPlan>>)> {
        let Some(graph) = self.graph(plan, is_set)? else {
            let rewritten = self.rewrite_children(Arc::clone(plan), is_set)?;
            let sided = with_smaller_built(&rewritten, &self.estimates, self.config)?;
            return Ok((rewritten, sided));
        };
        let rewritten = self.rewrite_inputs(Arc::clone(plan), is_set, &graph)?;
        let graph = match Arc::ptr_eq(&rewritten, plan) {
            true => Some(graph),
            false => self.graph(&rewritten, is_set)?,
        };
        let ordered = graph.map(|graph| self.ordered(&rewritten, &graph)).transpose()?.flatten();
        Ok((rewritten, ordered))
    }

    fn graph(&self, plan: &Arc<dyn ExecutionPlan>, is_set: bool) -> Result<Option<Graph>> {
        Graph::of(plan, is_set && self.semi_joins)
    }

    fn rewrite_children(&self, plan: Arc<dyn ExecutionPlan>, is_set: bool) -> Result<Arc<dyn ExecutionPlan>> {
        self.with_children(plan, is_set, |child, is_set| self.rewrite(child, is_set))
    }

    /// The same joins over inputs whose own joins are ordered.
    fn rewrite_inputs(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        is_set: bool,
        graph: &Graph,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match graph.inputs().any(|input| Arc::ptr_eq(input, &plan)) {
            true => self.rewrite_children(plan, is_set),
            false => self.with_children(plan, is_set, |child, is_set| self.rewrite_inputs(child, is_set, graph)),
        }
    }

    /// The plan over its children after `f`, which is told whether their rows are read as a set.
    fn with_children(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        is_set: bool,
        mut f: impl FnMut(Arc<dyn ExecutionPlan>, bool) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let children = plan.children().into_iter().cloned().zip(inputs_as_sets(&plan, is_set));
        let children = children.map(|(child, is_set)| f(child, is_set)).collect::<Result<Vec<_>>>()?;
        replace_children_if_necessary(plan, children)
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
        // Who is built is a matter of two sizes, and a semi join gives no more rows; an order is one of many estimates.
        let is_better = |sided: &Joined| sided.cost < written.cost || sided.tree.kept() != graph.tree.kept();
        let sided = LazyCell::new(|| costs.with_sides(&graph.tree).filter(is_better));
        let known = match graph.is_set {
            true => sided.as_ref().map_or(written.cost, |sided| sided.cost),
            false => written.cost,
        };
        let best = match best.cost * GAIN_MIN <= known && gates.are_kept(graph, &best.tree) {
            true => &best,
            false => match sided.as_ref().filter(|sided| gates.are_kept(graph, &sided.tree)) {
                Some(sided) => sided,
                None => return Ok(None),
            },
        };
        let ordered = Rebuild { graph, costs: &costs, config: self.config }.plan(&best.tree, &plan.schema())?;
        // Nothing above may notice: neither names nor types, nor what they are annotated with.
        Ok((ordered.schema() == plan.schema()).then_some(ordered))
    }
}

impl PhysicalOptimizerRule for JoinOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = (self.options)(config);
        match options.join_order {
            true => {
                let estimates = Estimates::new(&self.ranges);
                let (sets, bags) = Default::default();
                Ordering { estimates, config, semi_joins: options.semi_joins, sets, bags }.rewrite(plan, false)
            }
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
