//! Equal subplans are executed once, and their rows are kept for whoever reads them.
//!
//! ```text
//! HashJoinExec                         CommonSubplansExec: #1 read 2 times
//!   AggregateExec: revenue               HashJoinExec
//!     lineitem                             CommonSubplanScanExec: subplan=#1
//!   AggregateExec: max(revenue)      =>    AggregateExec: max(revenue)
//!     AggregateExec: revenue                 CommonSubplanScanExec: subplan=#1
//!       lineitem                         AggregateExec: revenue
//!                                          lineitem
//! ```
//! DataFusion plans a table expression (WITH) anew wherever it is used, and so are views and repeated subqueries. The
//! law: equal operators over the same files or tables in memory, without volatile functions, give the same rows each
//! time, in partitions that are equal as a whole. `same` has the operators that can be compared.
//!
//! Subplans that differ in nothing but the columns that they keep are made equal first, where that pays: each keeps the
//! columns of all (`alike` finds them, `widen` rewrites them). What may fail is computed by those who computed it
//! before. Those that differ in what filters compare with are made one of the rows of all, which each place filters
//! again (`merge`).
//!
//! The largest subplans that pay are taken; inside of them others may be. It stands after exchanges and sorts were put
//! in, so a reader gets the partitions and the order that it had, and before dynamic filters are attached: neither
//! these nor key filters of one reader get into what others read, since a scan of a subplan takes no filters. That
//! costs what such filters would have dropped, which `cost` weighs.

mod alike;
mod classes;
mod cost;
mod exec;
mod fuse;
mod lift;
mod merge;
mod run;
mod same;
mod scan;
mod source;
mod widen;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, ReplaceChildrenOptions, replace_children_if_necessary,
};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;

pub use self::exec::{CommonSubplansExec, without_common_subplans};
pub use self::lift::kept_columns;
pub use self::same::{is_datafusions_reader, is_same_partitioning};
pub use self::scan::CommonSubplanScanExec;
pub use self::source::with_projection;

use self::alike::Alike;
use self::classes::{Classes, Repeats};
use self::cost::{Costs, computes};
use self::fuse::Scalar;
use self::merge::{Merging, merged};
use self::same::has_alike_sources;
use self::scan::Subplan;
use self::widen::widened;
use crate::PlanOptions;
use crate::estimate::Estimates;
use crate::ranges::Ranges;

/// Subplans inside of others are made equal after these: so often at most.
const WIDENED_MAX: usize = 4;

/// Finds equal subplans.
#[derive(Debug)]
pub struct CommonSubplans {
    options: fn(&ConfigOptions) -> PlanOptions,
    ranges: Arc<Ranges>,
}

impl CommonSubplans {
    pub(crate) const NAME: &str = "common_subplans";

    pub(crate) fn new(options: fn(&ConfigOptions) -> PlanOptions, ranges: Arc<Ranges>) -> CommonSubplans {
        CommonSubplans { options, ranges }
    }

    fn rewrite(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        saved_min: f64,
        options: PlanOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.is::<AnalyzeExec>() || plan.is::<DataSinkExec>() {
            // They show, or write, what is below.
            let children = plan.children().into_iter().map(|child| self.rewrite(Arc::clone(child), saved_min, options));
            let children = children.collect::<Result<_>>()?;
            return replace_children_if_necessary(plan, children);
        }
        if !has_alike_sources(&plan) {
            return Ok(plan);
        }
        let weighing =
            Weighing { estimates: &Estimates::new(&self.ranges), saved_min, has_filters: options.key_filters };
        let classes = Classes::of(&plan);
        let apart = HashMap::new();
        let mut best = weighing.shared(&plan, &classes, &apart)?;
        if let Some(widened) = weighing.made_equal(&plan, &classes)? {
            best = better(best, weighing.shared(&widened, &Classes::of(&widened), &apart)?);
        }
        if options.similar_subplans
            && let Some(merging) = weighing.merged(&plan, classes)?
        {
            best = better(best, weighing.shared(&merging.plan, &Classes::of(&merging.plan), &merging.saved)?);
        }
        Ok(best.map_or(plan, |shared| shared.plan))
    }
}

/// The plan with inputs of aggregates without groups that differ in columns, and in filters, made to keep the columns
/// of all.
fn wide_inputs(plan: &Arc<dyn ExecutionPlan>, similar: &Classes) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let scalars = Scalar::all(plan)?;
    if scalars.len() < 2 {
        return Ok(None);
    }
    let alike = Alike::but_for_filters(plan, similar)?;
    let mut inputs: HashMap<usize, usize> = HashMap::new();
    for class in scalars.iter().filter_map(|scalar| alike.class(&scalar.input)) {
        *inputs.entry(class).or_default() += 1;
    }
    inputs.retain(|_, places| *places > 1);
    if inputs.is_empty() { Ok(None) } else { widened(plan, &alike, similar, &inputs.into_keys().collect()) }
}

/// The one that saves more.
fn better(a: Option<Shared>, b: Option<Shared>) -> Option<Shared> {
    let rows_saved = |shared: &Option<Shared>| shared.as_ref().map_or(0.0, |shared| shared.rows_saved);
    if rows_saved(&b) > rows_saved(&a) { b } else { a }
}

/// How it is decided what pays.
struct Weighing<'a> {
    estimates: &'a Estimates,
    saved_min: f64,
    has_filters: bool,
}

/// A plan with common subplans.
struct Shared {
    plan: Arc<dyn ExecutionPlan>,
    rows_saved: f64,
}

impl Weighing<'_> {
    /// The plan with equal subplans executed once, where that pays. It is known what those of `saved` save.
    fn shared(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        classes: &Classes,
        saved: &HashMap<usize, f64>,
    ) -> Result<Option<Shared>> {
        if !classes.has_repeated() {
            return Ok(None);
        }
        let mut costs = self.costs(plan, classes, classes);
        costs.know(saved);
        let chosen = chosen(plan, classes, &costs);
        if chosen.is_empty() {
            return Ok(None);
        }
        let rows_saved = chosen.values().map(|chosen| chosen.rows_saved).sum();
        let mut rewriter = Rewriter { classes, chosen, found: HashMap::new(), order: Vec::new() };
        let plan = rewriter.rewrite(plan)?;
        Ok(Some(Shared { plan: Arc::new(CommonSubplansExec::new(plan, rewriter.order)), rows_saved }))
    }

    /// The plan with subplans that are alike made equal, where one execution pays.
    fn made_equal(&self, plan: &Arc<dyn ExecutionPlan>, classes: &Classes) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut found = self.widened(plan, classes)?;
        for _ in 1..WIDENED_MAX {
            let Some(plan) = &found else { break };
            match self.widened(plan, &Classes::of(plan))? {
                Some(wider) => found = Some(wider),
                None => break,
            }
        }
        Ok(found)
    }

    fn widened(&self, plan: &Arc<dyn ExecutionPlan>, classes: &Classes) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let alike = Alike::of(plan, classes)?;
        if !alike.has_repeated() {
            return Ok(None);
        }
        let costs = self.costs(plan, classes, &alike);
        let chosen = chosen(plan, &alike, &costs).into_keys().collect();
        widened(plan, &alike, classes, &chosen)
    }

    /// The plan with subplans that differ in filters made one, where that pays. `classes` are those of equal subplans.
    fn merged(&self, plan: &Arc<dyn ExecutionPlan>, mut classes: Classes) -> Result<Option<Merging>> {
        let mut similar = Classes::similar(plan);
        let mut plan = Arc::clone(plan);
        // Aggregates without groups are over few columns each.
        if let Some(wide) = wide_inputs(&plan, &similar)? {
            (classes, similar, plan) = (Classes::of(&wide), Classes::similar(&wide), wide);
        }
        if !similar.has_repeated() {
            return Ok(None);
        }
        merged(&plan, (&classes, &similar), &self.costs(&plan, &classes, &similar))
    }

    fn costs<'a>(&'a self, plan: &Arc<dyn ExecutionPlan>, classes: &'a Classes, repeats: &'a dyn Repeats) -> Costs<'a> {
        let mut costs = Costs::new(classes, repeats, self.estimates, self.saved_min);
        if self.has_filters {
            costs.note_filters(plan);
        }
        costs
    }
}

impl PhysicalOptimizerRule for CommonSubplans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = (self.options)(config);
        let Some(rows_min) = options.common_subplans else { return Ok(plan) };
        // A plan that went through the rule before keeps nothing of it.
        self.rewrite(without_common_subplans(plan)?, rows_min as f64, options)
    }

    fn name(&self) -> &str {
        CommonSubplans::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Where subplans are, by their number.
type Places = HashMap<usize, Vec<Arc<dyn ExecutionPlan>>>;

/// A subplan that is to be executed once.
struct Chosen {
    readers: usize,
    rows_saved: f64,
}

/// The largest repeated subplans that pay.
fn chosen(plan: &Arc<dyn ExecutionPlan>, classes: &dyn Repeats, costs: &Costs<'_>) -> HashMap<usize, Chosen> {
    let mut all = Places::new();
    note_places(plan, classes, &|_| false, &mut all);
    all.retain(|_, places| costs.saved(places).is_some());
    // What is inside of one that is read twice is read once.
    let mut read = Places::new();
    note_places(plan, classes, &|number| all.contains_key(&number), &mut read);
    let mut saved: HashMap<usize, f64> = read
        .iter()
        .filter(|(number, places)| all.contains_key(number) && places.len() > 1)
        .filter_map(|(number, places)| Some((*number, costs.saved(places)?)))
        .collect();
    // What only moves the rows of another one does not pay.
    let numbers: HashSet<usize> = saved.keys().copied().collect();
    saved.retain(|number, _| {
        let is_other = |plan: &Arc<dyn ExecutionPlan>| {
            classes.repeated(plan).is_some_and(|other| other != *number && numbers.contains(&other))
        };
        read[number].first().is_some_and(|plan| computes(plan, &is_other))
    });
    let mut read = Places::new();
    note_places(plan, classes, &|number| saved.contains_key(&number), &mut read);
    let readers = |number| read.get(number).map_or(0, Vec::len);
    saved.iter().map(|(number, &rows_saved)| (*number, Chosen { readers: readers(number), rows_saved })).collect()
}

/// Notes the places of repeated subplans. What is inside of those that are executed once is visited once.
fn note_places(
    plan: &Arc<dyn ExecutionPlan>,
    classes: &dyn Repeats,
    is_executed_once: &dyn Fn(usize) -> bool,
    found: &mut Places,
) {
    if plan.is::<RecursiveQueryExec>() {
        return;
    }
    if let Some(number) = classes.repeated(plan) {
        let places = found.entry(number).or_default();
        places.push(Arc::clone(plan));
        if places.len() > 1 && is_executed_once(number) {
            return;
        }
    }
    plan.children().into_iter().for_each(|child| note_places(child, classes, is_executed_once, found));
}

/// Puts scans into the places of subplans.
struct Rewriter<'a> {
    classes: &'a Classes,
    chosen: HashMap<usize, Chosen>,
    /// The subplans that were met, and how many readers they have so far.
    found: HashMap<usize, (Arc<Subplan>, usize)>,
    order: Vec<Arc<Subplan>>,
}

impl Rewriter<'_> {
    fn rewrite(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        if plan.is::<RecursiveQueryExec>() {
            return Ok(Arc::clone(plan));
        }
        let Some((number, chosen)) = self.classes.repeated(plan).and_then(|n| Some((n, self.chosen.get(&n)?))) else {
            return self.rewrite_children(plan);
        };
        let (readers, rows_saved) = (chosen.readers, chosen.rows_saved);
        if !self.found.contains_key(&number) {
            let rewritten = self.rewrite_children(plan)?;
            let subplan = Arc::new(Subplan::new(self.order.len() + 1, readers, rows_saved, rewritten));
            self.order.push(Arc::clone(&subplan));
            self.found.insert(number, (subplan, 0));
        }
        let Some((subplan, reader)) = self.found.get_mut(&number) else {
            return internal_err!("a subplan is gone");
        };
        let scan = CommonSubplanScanExec::new(Arc::clone(subplan), *reader, plan.properties());
        *reader += 1;
        Ok(Arc::new(scan))
    }

    fn rewrite_children(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let children = plan.children().into_iter().map(|child| self.rewrite(child)).collect::<Result<Vec<_>>>()?;
        if children.iter().zip(plan.children()).all(|(child, known)| Arc::ptr_eq(child, known)) {
            return Ok(Arc::clone(plan));
        }
        // A scan promises what the subplan in its place does.
        Arc::clone(plan).replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
    }
}
