//! Subplans that differ in what filters compare with, this year's and last year's, are one subplan of the rows of all, of which
//! each place takes its own.
//!
//! ```text
//! AggregateExec: gby=[county, quarter]               FilterExec: quarter = 1
//!   HashJoinExec                                       AggregateExec: gby=[county, quarter]
//!     FilterExec: year = 2000 AND quarter = 1            HashJoinExec
//!     sales                                      =>        FilterExec: year = 2000 AND (quarter = 1 OR quarter = 2)
//! ..                                                       sales
//! AggregateExec: gby=[county, quarter]               ..
//!   HashJoinExec                                     FilterExec: quarter = 2
//!     FilterExec: year = 2000 AND quarter = 2          the same AggregateExec
//!     sales
//! ```
//! DataFusion pushes filters down as far as their law holds (`lift`); here they are taken up again. Aggregates without groups become
//! one with a FILTER for each of them (`fuse`). A filter that may fail stays where it is, and so do two in different inputs of a
//! join: together they would let combinations pass that are in no place.
//!
//! Query fusion, as Galindo-Leyva et al. call it (*Computation Reuse via Fusion in Amazon Athena*, 2022), restricted to filters.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::conjunction;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::alike::Expr;
use super::classes::{Classes, Repeats, address};
use super::cost::Costs;
use super::lift::{Merged, either, lifted, of_filters};
use super::same::is_same_partitioning;
use super::source::{filter_of_source, with_source_filter};

type Plan = Arc<dyn ExecutionPlan>;

/// More subplans are not made one: each place reads the rows of all.
const MERGED_MAX: usize = 8;

/// A plan with subplans made one, and how many rows each of these spares operators.
pub(super) struct Merging {
    pub(super) plan: Plan,
    pub(super) saved: HashMap<usize, f64>,
}

/// `plan` with similar subplans made one where that pays; nothing if there are none. `classes` are those of equal subplans,
/// `similar` those of subplans that differ in filters alone, and `costs` knows the similar ones to be repeated.
pub(super) fn merged(
    plan: &Plan,
    (classes, similar): (&Classes, &Classes),
    costs: &Costs<'_>,
) -> Result<Option<Merging>> {
    let mut places = HashMap::new();
    note_places(plan, similar, &mut places);
    let mut merger = Merger { classes, similar, places, costs, instead: HashMap::new(), saved: HashMap::new() };
    merger.visit(plan)?;
    if merger.saved.is_empty() {
        return Ok(None);
    }
    let plan = merger.replaced(plan)?;
    Ok(Some(Merging { plan, saved: merger.saved }))
}

fn note_places(plan: &Plan, similar: &Classes, found: &mut HashMap<usize, Vec<Plan>>) {
    if plan.is::<RecursiveQueryExec>() {
        return;
    }
    if let Some(number) = similar.repeated(plan) {
        found.entry(number).or_default().push(Arc::clone(plan));
    }
    plan.children().into_iter().for_each(|child| note_places(child, similar, found));
}

struct Merger<'a, 'b> {
    classes: &'a Classes,
    similar: &'a Classes,
    places: HashMap<usize, Vec<Plan>>,
    costs: &'a Costs<'b>,
    /// What stands in the place of subplans.
    instead: HashMap<usize, Plan>,
    saved: HashMap<usize, f64>,
}

impl Merger<'_, '_> {
    /// Merges the largest similar subplans of `plan`.
    fn visit(&mut self, plan: &Plan) -> Result<()> {
        if plan.is::<RecursiveQueryExec>() || self.instead.contains_key(&address(plan)) {
            return Ok(());
        }
        if let Some(number) = self.similar.repeated(plan)
            && let Some(places) = self.places.remove(&number)
            && self.merge(&places)?
        {
            return Ok(());
        }
        plan.children().into_iter().try_for_each(|child| self.visit(child))
    }

    /// Whether these are made one.
    fn merge(&mut self, places: &[Plan]) -> Result<bool> {
        // One for all that are equal.
        let mut subplans: Vec<Plan> = Vec::new();
        let number_of = |plan: &Plan| self.classes.number(plan);
        for place in places {
            if !subplans.iter().any(|known| number_of(known) == number_of(place)) {
                subplans.push(Arc::clone(place));
            }
        }
        let is_taken = places.iter().any(|place| self.instead.contains_key(&address(place)));
        if !(2..=MERGED_MAX).contains(&subplans.len()) || is_taken {
            return Ok(false);
        }
        let Some(merged) = self.one_of(&subplans)? else { return Ok(false) };
        let Some(saved) = self.costs.saved_by_one(places, &merged.plan) else { return Ok(false) };
        let mut instead = Vec::new();
        for (number, subplan) in subplans.iter().enumerate() {
            match merged.own(number, &subplan.schema())? {
                Some(own) if stands_for(&own, subplan)? => instead.push(own),
                _ => return Ok(false),
            }
        }
        for place in places {
            let own = subplans.iter().position(|known| number_of(known) == number_of(place)).unwrap_or_default();
            self.instead.insert(address(place), Arc::clone(&instead[own]));
        }
        self.saved.insert(address(&merged.plan), saved);
        Ok(true)
    }

    fn replaced(&self, plan: &Plan) -> Result<Plan> {
        if let Some(instead) = self.instead.get(&address(plan)) {
            return Ok(Arc::clone(instead));
        }
        let children = plan.children().into_iter().map(|child| self.replaced(child)).collect::<Result<Vec<_>>>()?;
        if children.is_empty() {
            Ok(Arc::clone(plan))
        } else {
            replace_children_if_necessary(Arc::clone(plan), children)
        }
    }

    /// The plan of the rows of all of these, which are similar; `None` if no place can take its own from it.
    fn one_of(&self, plans: &[Plan]) -> Result<Option<Merged>> {
        let first = &plans[0];
        if plans.iter().all(|plan| self.classes.number(plan) == self.classes.number(first)) {
            return Ok(Some(Merged::equal(Arc::clone(first), plans.len())));
        }
        if first.fetch().is_some() {
            return Ok(None);
        }
        if first.children().is_empty() {
            let filters: Option<Vec<Expr>> = plans.iter().map(filter_of_source).collect();
            let plan = with_source_filter(first, filters.map_or_else(|| conjunction([]), either))?;
            return Ok(plan.map(|plan| Merged::equal(plan, plans.len())));
        }
        let mut inputs = Vec::new();
        for child in 0..first.children().len() {
            let children: Vec<Plan> = plans.iter().map(|plan| Arc::clone(plan.children()[child])).collect();
            let Some(input) = self.one_of(&children)? else { return Ok(None) };
            inputs.push(input);
        }
        if first.is::<FilterExec>() {
            return match inputs.pop() {
                Some(input) if !input.is_filtered() => of_filters(plans, input),
                _ => Ok(None),
            };
        }
        lifted(first, inputs)
    }
}

/// Whether whoever reads `plan` may read `own` instead.
fn stands_for(own: &Plan, plan: &Plan) -> Result<bool> {
    let is_ordered = match plan.output_ordering() {
        Some(order) => own.equivalence_properties().ordering_satisfy(order.clone())?,
        None => true,
    };
    let is_partitioned = is_same_partitioning(own.output_partitioning(), plan.output_partitioning());
    let is_same = is_ordered && is_partitioned && own.schema() == plan.schema();
    Ok(is_same && SanityCheckPlan::new().optimize(Arc::clone(own), &ConfigOptions::default()).is_ok())
}
