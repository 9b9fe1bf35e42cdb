//! Whether it pays to execute a subplan once and keep its rows.
//!
//! Costs are rows that operators take, each weighed by what it does with them. What a filter by the keys of a join
//! above would have dropped in one place is computed in vain for all: such places count as the part that passes.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::classes::{Classes, Repeats, address};
use crate::estimate::{Estimate, Estimates, domain};
use crate::key_filters::{PASSED_MAX, Path, column_of, filters_of};
use crate::key_set::has_sets;

/// More is not kept, as far as estimates tell.
const BYTES_MAX: f64 = (256 << 20) as f64;

/// Where no filter is lost, what is saved must be this part of what it costs without.
const SAVED_SHARE_MIN: f64 = 0.2;

/// What keeping a row costs, and reading it once more.
const KEEP: f64 = 0.5;
const READ: f64 = 0.3;

/// Of the cost of a subplan whose rows are filtered by keys, the part that is left however few pass: they are looked
/// at.
const FILTERED_MIN: f64 = 0.25;

/// What operators do with a row.
const SCAN: f64 = 1.0;
const FILTER: f64 = 0.5;
const PROBE: f64 = 1.0;
const HASH: f64 = 3.0;
const SORT: f64 = 5.0;

/// The costs of the subplans of a plan.
pub(super) struct Costs<'a> {
    classes: &'a Classes,
    repeats: &'a dyn Repeats,
    estimates: &'a Estimates,
    /// Less is not worth the nodes.
    saved_min: f64,
    /// The least part of the rows of a place that keys from above pass.
    passed: HashMap<usize, f64>,
    /// What is known to be saved by subplans that were made one of several.
    known: HashMap<usize, f64>,
}

impl<'a> Costs<'a> {
    /// `repeats` says which places may read one execution.
    pub(super) fn new(
        classes: &'a Classes,
        repeats: &'a dyn Repeats,
        estimates: &'a Estimates,
        saved_min: f64,
    ) -> Costs<'a> {
        Costs { classes, repeats, estimates, saved_min, passed: HashMap::new(), known: HashMap::new() }
    }

    /// Notes which places the keys of the joins of `plan` are on their way to.
    pub(super) fn note_filters(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            // DataFusion's own filters are by texts, too.
            for (left, right) in filters_of(join, |of| has_sets(of) || of.is_string()) {
                let Some(column) = column_of(right) else { continue };
                let mut places = Vec::new();
                self.places(join.right(), column, Path::EMPTY, &mut places);
                for (place, column) in places {
                    let Some(passed) = self.passed_by(join, column_of(left), &place, column) else { continue };
                    let known = self.passed.entry(address(&place)).or_insert(1.0);
                    *known = known.min(passed);
                }
            }
        }
        plan.children().into_iter().for_each(|child| self.note_filters(child));
    }

    /// Repeated subplans that a filter by a column of `plan` goes through, and which column of theirs it is by.
    fn places(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        column: usize,
        path: Path,
        found: &mut Vec<(Arc<dyn ExecutionPlan>, usize)>,
    ) {
        let places = path.places(plan, column);
        if !places.is_empty() && self.repeats.repeated(plan).is_some() {
            found.push((Arc::clone(plan), column));
        }
        for (to, path) in places {
            self.places(plan.children()[to.child], to.column, path, found);
        }
    }

    /// The part of a place's rows that have one of the keys.
    fn passed_by(
        &self,
        join: &HashJoinExec,
        key: Option<usize>,
        place: &Arc<dyn ExecutionPlan>,
        column: usize,
    ) -> Option<f64> {
        let build = self.estimate(join.left())?;
        let rows = self.estimate(place)?;
        let column = rows.columns.get(column)?;
        // A key without a range, of a column that has one, is computed: nothing is known of its values but their
        // number.
        let key = key.and_then(|key| build.columns.get(key));
        let key = key.filter(|key| key.table_range.is_some() || column.table_range.is_none());
        let (keys, values) = match key {
            Some(key) => (key.distinct_among(build.rows), domain([(key, build.rows), (column, rows.rows)])),
            None => (build.rows, column.table_distinct()),
        };
        let passed = keys / values;
        (build.rows < rows.rows && passed <= PASSED_MAX).then_some(passed)
    }

    /// Nothing of what is inside of a recursion.
    fn estimate(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Estimate>> {
        self.classes.number(plan).and_then(|_| self.estimates.of(plan))
    }

    /// How many rows operators are spared when these places read one execution, if it pays.
    pub(super) fn saved(&self, places: &[Arc<dyn ExecutionPlan>]) -> Option<f64> {
        let plan = places.first()?;
        if let Some(saved) = self.known.get(&address(plan)) {
            return Some(*saved);
        }
        // What filters the rows of one of these is no work to be spared.
        if plan.children().into_iter().any(|input| self.known.contains_key(&address(input))) && plan.is::<FilterExec>()
        {
            return None;
        }
        if !computes(plan, &|_| false) {
            return None;
        }
        let Some(rows) = self.estimate(plan) else {
            // Nothing is known. Groups are hardly ever more than what they are made of.
            return makes_groups(plan).then_some(0.0);
        };
        let work = self.work(plan)?;
        let keep = KEEP + READ * places.len() as f64;
        self.pays(places, work, &rows, keep)
    }

    /// The same of places that differ in their filters and are to read `plan`, which has the rows of all: groups alone,
    /// since how many rows a join gives is a guess, and each place goes through all of them.
    pub(super) fn saved_by_one(&self, places: &[Arc<dyn ExecutionPlan>], plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        if !makes_groups(plan) {
            return None;
        }
        let classes = Classes::of(plan);
        let of_one = Costs::new(&classes, &classes, self.estimates, self.saved_min);
        let (work, rows) = (of_one.work(plan)?, self.estimates.of(plan)?);
        self.pays(places, work, &rows, KEEP + (READ + FILTER) * places.len() as f64)
    }

    /// What is known to be saved by a subplan.
    pub(super) fn know(&mut self, saved: &HashMap<usize, f64>) {
        self.known.extend(saved);
    }

    /// What these places spare operators when they read one execution of so much work instead, each of whose `rows`
    /// costs `keep`.
    fn pays(&self, places: &[Arc<dyn ExecutionPlan>], work: f64, rows: &Estimate, keep: f64) -> Option<f64> {
        let plan = places.first()?;
        let mut apart = 0.0;
        for place in places {
            let part = self.passed.get(&address(place)).map_or(1.0, |passed| passed.max(FILTERED_MIN));
            apart += part * self.work(place)?;
        }
        let saved = apart - work - rows.rows * keep;
        log::debug!("{} of {work:.0} in {} places: {saved:.0} saved", plan.name(), places.len());
        // What filters would drop is a guess, and so is how few rows joins leave; that all of these are kept is
        // certain.
        let least = match places.iter().any(|place| self.passed.contains_key(&address(place))) {
            true => self.most_rows(plan)? * keep,
            false => SAVED_SHARE_MIN * apart,
        };
        let pays = saved >= self.saved_min.max(least);
        (pays && rows.rows * rows.row_bytes() <= BYTES_MAX).then_some(saved)
    }

    /// As many rows as there may be if joins and filters drop none.
    fn most_rows(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        let mut most = self.estimate(plan)?.rows;
        if !plan.is::<AggregateExec>() {
            for input in plan.children() {
                most = most.max(self.most_rows(input)?);
            }
        }
        Some(most)
    }

    /// What it costs to execute the plan.
    fn work(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<f64> {
        let mut work = match weights(plan) {
            Weights::None => 0.0,
            Weights::Source => SCAN * self.estimate(plan)?.rows,
            Weights::Inputs(weights) => {
                let mut own = 0.0;
                for (input, weight) in plan.children().into_iter().zip(weights) {
                    own += weight * self.estimate(input)?.rows;
                }
                own
            }
        };
        for input in plan.children() {
            work += self.work(input)?;
        }
        Some(work)
    }
}

enum Weights {
    None,
    Source,
    Inputs(Vec<f64>),
}

fn weights(plan: &Arc<dyn ExecutionPlan>) -> Weights {
    if plan.children().is_empty() {
        return Weights::Source;
    }
    Weights::Inputs(if plan.is::<FilterExec>() {
        vec![FILTER]
    } else if plan.is::<AggregateExec>() {
        vec![HASH]
    } else if plan.is::<HashJoinExec>() || plan.is::<NestedLoopJoinExec>() {
        vec![HASH, PROBE]
    } else if plan.is::<SortMergeJoinExec>() {
        vec![PROBE, PROBE]
    } else if plan.is::<SortExec>() || plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>() {
        vec![SORT]
    } else {
        return Weights::None;
    })
}

/// Whether there is more to do than to read sources, or what `is_source` is true of, and to move their rows.
pub(super) fn computes(plan: &Arc<dyn ExecutionPlan>, is_source: &dyn Fn(&Arc<dyn ExecutionPlan>) -> bool) -> bool {
    !is_source(plan)
        && (matches!(weights(plan), Weights::Inputs(_))
            || plan.children().into_iter().any(|child| computes(child, is_source)))
}

/// Whether the rows are the groups of an aggregate.
fn makes_groups(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<AggregateExec>()
        || match plan.children()[..] {
            [input] => makes_groups(input),
            _ => false,
        }
}
