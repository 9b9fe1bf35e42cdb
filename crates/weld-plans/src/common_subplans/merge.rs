//! Subplans that differ in what filters compare with, this year's and last year's, are one subplan of the rows of all,
//! of which each place takes its own.
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
//! DataFusion pushes filters down as far as their law holds (`lift`); here they are taken up again. Aggregates without
//! groups become one with a FILTER for each of them (`fuse`). A filter that may fail stays where it is, and so do two
//! in different inputs of a join: together they would let combinations pass that are in no place.
//!
//! Query fusion, as Galindo-Leyva et al. call it (*Computation Reuse via Fusion in Amazon Athena*, 2022), restricted to
//! filters.

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
use super::fuse::{Scalar, fused};
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

/// `plan` with similar subplans made one where that pays; nothing if there are none. `classes` are those of equal
/// subplans, `similar` those of subplans that differ in filters alone, and `costs` knows the similar ones to be
/// repeated.
pub(super) fn merged(
    plan: &Plan,
    (classes, similar): (&Classes, &Classes),
    costs: &Costs<'_>,
) -> Result<Option<Merging>> {
    let mut places = HashMap::new();
    note_places(plan, similar, &mut places);
    let mut merger = Merger { classes, similar, places, costs, instead: HashMap::new(), saved: HashMap::new() };
    merger.visit_scalars(plan)?;
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
        let (subplans, numbers) = self.distinct(places);
        let is_taken = places.iter().any(|place| self.instead.contains_key(&address(place)));
        if !(2..=MERGED_MAX).contains(&subplans.len()) || is_taken {
            return Ok(false);
        }
        let Some(merged) = self.one_of(&subplans)? else { return Ok(false) };
        let Some(saved) = self.costs.saved_by_one(places, &merged.plan) else { return Ok(false) };
        let mut instead = Vec::new();
        for (subplan, filter) in subplans.iter().zip(&merged.own) {
            let own: Plan = match filter {
                Some(filter) => Arc::new(FilterExec::try_new(Arc::clone(filter), Arc::clone(&merged.plan))?),
                None => Arc::clone(&merged.plan),
            };
            if !stands_for(&own, subplan)? {
                return Ok(false);
            }
            instead.push(own);
        }
        for (place, number) in places.iter().zip(numbers) {
            self.instead.insert(address(place), Arc::clone(&instead[number]));
        }
        self.saved.insert(address(&merged.plan), saved);
        Ok(true)
    }

    /// Merges aggregates without groups over similar inputs.
    fn visit_scalars(&mut self, plan: &Plan) -> Result<()> {
        let mut alike: HashMap<(String, Option<usize>), Vec<Scalar>> = HashMap::new();
        for scalar in Scalar::all(plan)? {
            alike.entry((scalar.shape(), self.similar.number(&scalar.input))).or_default().push(scalar);
        }
        alike.into_values().filter(|scalars| scalars.len() > 1).try_for_each(|scalars| self.merge_scalars(&scalars))
    }

    fn merge_scalars(&mut self, scalars: &[Scalar]) -> Result<()> {
        let places: Vec<Plan> = scalars.iter().map(|scalar| Arc::clone(&scalar.place)).collect();
        let inputs: Vec<Plan> = scalars.iter().map(|scalar| Arc::clone(&scalar.input)).collect();
        let (inputs, numbers) = self.distinct(&inputs);
        // Equal ones are found without being made one.
        if self.distinct(&places).0.len() < 2 || inputs.len() > MERGED_MAX {
            return Ok(());
        }
        let Some(merged) = self.one_of(&inputs)? else { return Ok(()) };
        let own = numbers.into_iter().map(|number| merged.own[number].clone()).collect();
        let (fused, results) = fused(scalars, Merged { plan: merged.plan, own })?;
        let Some(saved) = self.costs.saved_by_one(&places, &fused) else { return Ok(()) };
        for (scalar, results) in scalars.iter().zip(&results) {
            if !stands_for(results, &scalar.place)? {
                return Ok(());
            }
        }
        for (place, results) in places.iter().zip(results) {
            self.instead.insert(address(place), results);
        }
        self.saved.insert(address(&fused), saved);
        Ok(())
    }

    /// One of those that are equal, and which one each is.
    fn distinct(&self, plans: &[Plan]) -> (Vec<Plan>, Vec<usize>) {
        let (mut distinct, mut numbers): (Vec<Plan>, _) = (Vec::new(), Vec::new());
        for plan in plans {
            let number = self.classes.number(plan);
            let known = distinct.iter().position(|known| self.classes.number(known) == number);
            if known.is_none() {
                distinct.push(Arc::clone(plan));
            }
            numbers.push(known.unwrap_or(distinct.len() - 1));
        }
        (distinct, numbers)
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
