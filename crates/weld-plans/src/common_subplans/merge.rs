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
//! The law: a filter may be asked above an operator instead of below it if its columns come out of the operator as they are, and
//! what the operator makes of rows that it keeps does not depend on those that it drops. That holds of projections, inner joins,
//! the side that other joins preserve, exchanges, unions whose inputs all have the filter, and groups by the filter's columns.
//! DataFusion pushes filters down as far as that holds; here they are taken up again. A filter that may fail stays where it is, and
//! so do two in different inputs of a join: together they would let combinations pass that are in no place.
//!
//! Query fusion, as Galindo-Leyva et al. call it (*Computation Reuse via Fusion in Amazon Athena*, 2022), restricted to filters.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::{PhysicalExpr, conjunction, conjunction_opt, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::alike::{Expr, rewritten};
use super::classes::{Classes, Repeats, address};
use super::cost::Costs;
use super::same::is_same_partitioning;
use super::source::{filter_of_source, with_source_filter};
use crate::expr::cannot_fail;

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
        for (subplan, left) in subplans.iter().zip(&merged.left) {
            let own: Plan = match left {
                Some(left) => Arc::new(FilterExec::try_new(Arc::clone(left), Arc::clone(&merged.plan))?),
                None => Arc::clone(&merged.plan),
            };
            if !stands_for(&own, subplan)? {
                return Ok(false);
            }
            instead.push(own);
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

    /// The plan of the rows of all of these, which are similar; `None` if the filters cannot be asked above it.
    fn one_of(&self, plans: &[Plan]) -> Result<Option<Merged>> {
        let first = &plans[0];
        if plans.iter().all(|plan| self.classes.number(plan) == self.classes.number(first)) {
            return Ok(Some(Merged { plan: Arc::clone(first), left: vec![None; plans.len()] }));
        }
        if first.fetch().is_some() {
            return Ok(None);
        }
        if first.children().is_empty() {
            let filters: Option<Vec<Expr>> = plans.iter().map(filter_of_source).collect();
            let plan = with_source_filter(first, filters.map_or_else(|| conjunction([]), either))?;
            return Ok(plan.map(|plan| Merged { plan, left: vec![None; plans.len()] }));
        }
        let mut inputs = Vec::new();
        for child in 0..first.children().len() {
            let children: Vec<Plan> = plans.iter().map(|plan| Arc::clone(plan.children()[child])).collect();
            let Some(input) = self.one_of(&children)? else { return Ok(None) };
            inputs.push(input);
        }
        if first.is::<FilterExec>() {
            return match inputs.pop() {
                Some(input) if !input.is_filtered() => filter(plans, input),
                _ => Ok(None),
            };
        }
        let Some(left) = above(first, &inputs)? else { return Ok(None) };
        let inputs = inputs.into_iter().map(|input| input.plan).collect();
        let plan = match first.downcast_ref::<HashJoinExec>() {
            Some(join) => join.builder().with_new_children(inputs)?.reset_state().build_exec()?,
            None => replace_children_if_necessary(Arc::clone(first), inputs)?,
        };
        Ok(Some(Merged { plan, left }))
    }
}

/// A plan with the rows of several.
struct Merged {
    plan: Plan,
    /// For each of them which rows of the plan are its own, if not all.
    left: Vec<Option<Expr>>,
}

impl Merged {
    fn is_filtered(&self) -> bool {
        self.left.iter().any(Option::is_some)
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

fn either(filters: Vec<Expr>) -> Expr {
    let mut distinct: Vec<Expr> = Vec::new();
    for filter in filters {
        if !distinct.contains(&filter) {
            distinct.push(filter);
        }
    }
    let or = |a: Expr, b: Expr| Arc::new(BinaryExpr::new(a, Operator::Or, b)) as Expr;
    distinct.into_iter().reduce(or).unwrap_or_else(|| conjunction([]))
}

/// Filters over inputs with the same rows.
fn filter(plans: &[Plan], input: Merged) -> Result<Option<Merged>> {
    let filters: Vec<&FilterExec> = plans.iter().filter_map(|plan| plan.downcast_ref()).collect();
    let conjuncts: Vec<Vec<&Expr>> = filters.iter().map(|filter| split_conjunction(filter.predicate())).collect();
    let is_common = |conjunct: &&Expr| conjuncts.iter().all(|other| other.contains(conjunct));
    let common: Vec<&Expr> = conjuncts[0].iter().copied().filter(|conjunct| is_common(conjunct)).collect();
    let own = |conjuncts: &Vec<&Expr>| {
        conjunction_opt(conjuncts.iter().filter(|conjunct| !is_common(conjunct)).map(|conjunct| Arc::clone(conjunct)))
    };
    let own: Vec<Option<Expr>> = conjuncts.iter().map(own).collect();
    let schema = input.plan.schema();
    if own.iter().flatten().any(|own| !cannot_fail(own, Some(&schema))) {
        return Ok(None);
    }
    let any = own.iter().cloned().collect::<Option<Vec<Expr>>>().map(either);
    let predicate = conjunction(common.into_iter().cloned().chain(any));
    let first = filters[0];
    let kept = first.projection().as_deref();
    let plan = FilterExecBuilder::from(first).with_predicate(predicate).with_input(input.plan).build()?;
    let output = plan.schema();
    let place_of = |index: usize| match kept {
        Some(kept) => kept.iter().position(|kept| *kept == index),
        None => Some(index),
    };
    Ok(moved_all(&own, &output, &place_of)?.map(|left| Merged { plan: Arc::new(plan), left }))
}

/// The filters of the inputs of an operator as filters of its output; `None` where they cannot be asked there.
fn above(plan: &Plan, inputs: &[Merged]) -> Result<Option<Vec<Option<Expr>>>> {
    let schema = plan.schema();
    if plan.is::<UnionExec>() || plan.is::<InterleaveExec>() {
        let mut of_inputs = Vec::new();
        for input in inputs {
            let Some(left) = moved_all(&input.left, &schema, &Some)? else { return Ok(None) };
            of_inputs.push(left);
        }
        let are_equal = of_inputs.windows(2).all(|pair| pair[0] == pair[1]);
        return Ok(if are_equal { of_inputs.pop() } else { None });
    }
    let mut filtered = inputs.iter().enumerate().filter(|(_, input)| input.is_filtered());
    let (child, left) = match (filtered.next(), filtered.next()) {
        (None, _) => return Ok(inputs.first().map(|input| input.left.clone())),
        (Some((child, input)), None) => (child, &input.left),
        (Some(_), Some(_)) => return Ok(None),
    };
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return match preserves(join, child) {
            true => moved_all(left, &schema, &|index| column_of_join(join, child, index)),
            false => Ok(None),
        };
    }
    let place_among = |exprs: Vec<&Expr>| {
        moved_all(left, &schema, &|index| {
            exprs.iter().position(|expr| expr.downcast_ref::<Column>().is_some_and(|column| column.index() == index))
        })
    };
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return place_among(projection.expr().iter().map(|projected| &projected.expr).collect());
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let group_by = aggregate.group_expr();
        return match group_by.is_single() && aggregate.limit_options().is_none() {
            true => place_among(group_by.expr().iter().map(|(expr, _)| expr).collect()),
            false => Ok(None),
        };
    }
    let is_exchange = plan.downcast_ref::<RepartitionExec>().is_some_and(|exchange| !exchange.preserve_order());
    if is_exchange || plan.is::<CoalescePartitionsExec>() || plan.is::<CooperativeExec>() {
        return moved_all(left, &schema, &Some);
    }
    Ok(None)
}

/// Whether a join's rows with some rows of an input are those that it would have without the input's other rows.
fn preserves(join: &HashJoinExec, child: usize) -> bool {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    match join.join_type() {
        Inner => true,
        Left | LeftSemi | LeftAnti | LeftMark => child == 0,
        Right | RightSemi | RightAnti | RightMark => child == 1,
        JoinType::Full => false,
    }
}

/// Where a join's output has a column of an input.
fn column_of_join(join: &HashJoinExec, child: usize, index: usize) -> Option<usize> {
    use JoinType::{Full, Inner, Left, Right};
    let is_behind_left = child == 1 && matches!(join.join_type(), Inner | Left | Right | Full);
    let joined = if is_behind_left { join.left().schema().fields().len() + index } else { index };
    match join.projection.as_deref() {
        Some(kept) => kept.iter().position(|kept| *kept == joined),
        None => Some(joined),
    }
}

/// Filters over the columns of another operator; `None` if that lacks one.
fn moved_all(
    filters: &[Option<Expr>],
    schema: &SchemaRef,
    place_of: &dyn Fn(usize) -> Option<usize>,
) -> Result<Option<Vec<Option<Expr>>>> {
    let mut all = Vec::new();
    for filter in filters {
        let mut is_there = true;
        let moved = filter.as_ref().map(|filter| {
            rewritten(filter, |column| match place_of(column.index()) {
                Some(place) => Ok(Arc::new(Column::new(schema.field(place).name(), place)) as Arc<dyn PhysicalExpr>),
                None => {
                    is_there = false;
                    Ok(Arc::new(column.clone()))
                }
            })
        });
        all.push(moved.transpose()?);
        if !is_there {
            return Ok(None);
        }
    }
    Ok(Some(all))
}
