//! Runtime filters: what a hash join has on its build side decides which rows are worth making on its probe side.
//!
//! ```text
//! HashJoinExec: p_partkey = l_partkey           HashJoinExec
//!   FilterExec                                    JoinKeysExec: keys=#1 [p_partkey]
//!     part                                =>        FilterExec ..
//!   AggregateExec: gby l_partkey                  AggregateExec: gby l_partkey
//!     lineitem                                      KeyFilterExec: l_partkey IN #1.p_partkey
//!                                                     lineitem
//! ```
//! Rows of the probe side that match nothing are dropped by inner and semi joins and by those that preserve the build
//! side alone; `carry` says how far down that holds. A key of several columns gives a filter for each. A filter is put
//! where it is expected to drop half of the rows and spares them an operator that remembers rows, or a selective one a
//! join; under the probe itself it would repeat the probe's work. Joins run their build side first, so a filter finds
//! the keys complete or, where the join does not promise that, passes all rows.
//!
//! It stands after all rules that look at joins: DataFusion's own filters have been placed, and what they reach is left
//! to them.

mod carry;
mod collect;
mod filter;
mod join;
mod keys;
mod source;

use std::cell::Cell;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use weld_table::TableSource;

pub use self::collect::JoinKeysExec;
pub use self::filter::{KeyFilter, KeyFilterExec};
pub use self::join::{is_filter_used, with_key_sets};
pub use self::keys::{JoinKeys, KeySets, key_set};
pub use self::source::{between, within};

use self::carry::carried;
pub(crate) use self::carry::{Path, Saves, column_of, reaches_groups};
pub(crate) use self::filter::PASSED_MAX;
use self::source::SourceFilter;
pub(crate) use self::source::with_filter;
use crate::PlanOptions;
use crate::estimate::{ColumnEstimate, Estimate, Estimates, domain};
use crate::key_set::{KeySet, has_sets};
use crate::ranges::Ranges;

/// What only spares rows another probe must drop more of them: one costs about as much as the other.
const PASSED_MAX_BEFORE_PROBES: f64 = 0.1;

/// A build side that is expected to have more rows than this has no filter.
const BUILD_ROWS_MAX: f64 = (1 << 22) as f64;

/// Puts key filters into plans.
#[derive(Debug)]
pub struct KeyFilters {
    options: fn(&ConfigOptions) -> PlanOptions,
    ranges: Arc<Ranges>,
}

impl KeyFilters {
    pub(crate) const NAME: &str = "key_filters";

    pub(crate) fn new(options: fn(&ConfigOptions) -> PlanOptions, ranges: Arc<Ranges>) -> KeyFilters {
        KeyFilters { options, ranges }
    }
}

impl PhysicalOptimizerRule for KeyFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !(self.options)(config).key_filters {
            return Ok(plan);
        }
        // A plan that went through the rule before keeps nothing of it.
        let plan = without_key_filters(plan)?;
        let (joins, estimates) = (Cell::new(0), Estimates::new(&self.ranges));
        plan.transform_down(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            match filtered(join, joins.get() + 1, &estimates, config)? {
                Some(children) => {
                    joins.set(joins.get() + 1);
                    Ok(Transformed::yes(with_children(&node, children)?))
                }
                None => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        KeyFilters::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan without the nodes of this rule.
pub fn without_key_filters(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_down(|node| {
        let mut found = Arc::clone(&node);
        loop {
            found = match (found.downcast_ref::<JoinKeysExec>(), found.downcast_ref::<KeyFilterExec>()) {
                (Some(keys), _) => Arc::clone(keys.input()),
                (_, Some(filter)) => Arc::clone(filter.input()),
                (None, None) => break,
            };
        }
        Ok(if Arc::ptr_eq(&found, &node) { Transformed::no(node) } else { Transformed::yes(found) })
    })
    .data()
}

/// The operator with other inputs, in which nodes of this rule are: these promise what stood in their place did.
fn with_children(
    plan: &Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(plan).replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// The inputs of a join with its keys collected and filters by them, if there is a place for one.
fn filtered(
    join: &HashJoinExec,
    number: usize,
    estimates: &Estimates,
    config: &ConfigOptions,
) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    let candidates = filters_of(join, has_sets);
    if candidates.is_empty() || !has_place(join.right(), &candidates) {
        return Ok(None);
    }
    let Some(build) = estimates.of(join.left()).filter(|build| build.rows <= BUILD_ROWS_MAX) else {
        return Ok(None);
    };
    let (collected, is_whole) = collected_at(join);
    let exprs: Vec<_> = candidates.iter().map(|(left, _)| Arc::clone(left)).collect();
    let keys = Arc::new(JoinKeys::new(number, exprs, is_whole));
    let mut right = Arc::clone(join.right());
    let mut is_any = false;
    for (part, (left, probe)) in candidates.into_iter().enumerate() {
        let Some(column) = column_of(probe) else { continue };
        let filter = Filter {
            estimates,
            join,
            keys: &keys,
            part,
            build: &build,
            key: column_of(left).and_then(|column| build.columns.get(column)),
            decision: Arc::default(),
            config,
        };
        if let Some(filtered) = filter.below(&right, column, Path::EMPTY)? {
            (right, is_any) = (filtered, true);
        }
    }
    if !is_any {
        return Ok(None);
    }
    Ok(Some(vec![collecting(join, &collected, &keys)?, right]))
}

/// The pairs of keys of a type with filters by which rows of the probe side may be dropped.
pub(crate) fn filters_of(
    join: &HashJoinExec,
    has_filters: fn(&DataType) -> bool,
) -> Vec<&(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)> {
    if !drops_unmatched_probe_rows(join) || *join.partition_mode() == PartitionMode::Auto {
        return Vec::new();
    }
    join.on().iter().filter(|(left, right)| is_filtered_by(join, left, right, has_filters)).collect()
}

/// Whether rows of the probe side without a match leave no trace.
fn drops_unmatched_probe_rows(join: &HashJoinExec) -> bool {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, RightSemi};
    // Where nulls mean that nothing is known, it matters whether the probe side has rows at all.
    matches!(join.join_type(), Inner | LeftSemi | RightSemi | Left | LeftAnti | LeftMark) && !join.null_aware
}

/// Whether a pair of keys makes a filter.
fn is_filtered_by(
    join: &HashJoinExec,
    left: &Arc<dyn PhysicalExpr>,
    right: &Arc<dyn PhysicalExpr>,
    has_filters: fn(&DataType) -> bool,
) -> bool {
    match (left.data_type(&join.left().schema()), right.data_type(&join.right().schema())) {
        (Ok(left_type), Ok(right_type)) => {
            left_type == right_type && has_filters(&left_type) && column_of(right).is_some()
        }
        _ => false,
    }
}

/// Whether a filter by one of the keys could spare rows something, whatever the estimates say.
fn has_place(plan: &Arc<dyn ExecutionPlan>, keys: &[&(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)]) -> bool {
    fn saves(plan: &Arc<dyn ExecutionPlan>, column: usize) -> bool {
        carried(plan, column).iter().any(|to| to.saves > Saves::Nothing || saves(plan.children()[to.child], to.column))
    }
    keys.iter().any(|(_, probe)| column_of(probe).is_some_and(|column| saves(plan, column)))
}

/// Where the keys of the build side are collected, and whether the join sees no row of its probe side before all of
/// them are: below an exchange every partition of which waits for all that come in.
fn collected_at(join: &HashJoinExec) -> (Arc<dyn ExecutionPlan>, bool) {
    let mut place = Arc::clone(join.left());
    let mut is_whole =
        *join.partition_mode() == PartitionMode::CollectLeft || place.output_partitioning().partition_count() == 1;
    loop {
        let is_exchange = place.is::<RepartitionExec>() || place.is::<CoalescePartitionsExec>();
        match place.children()[..] {
            [input] if is_exchange && place.fetch().is_none() => {
                is_whole = true;
                place = Arc::clone(input);
            }
            _ => return (place, is_whole),
        }
    }
}

/// The build side with the keys collected at a place of it.
fn collecting(
    join: &HashJoinExec,
    place: &Arc<dyn ExecutionPlan>,
    keys: &Arc<JoinKeys>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let left = Arc::clone(join.left()).transform_down(|node| match Arc::ptr_eq(&node, place) {
        true => {
            let collecting: Arc<dyn ExecutionPlan> = Arc::new(JoinKeysExec::new(node, Arc::clone(keys)));
            Ok(Transformed::new(collecting, true, TreeNodeRecursion::Stop))
        }
        false => Ok(Transformed::no(node)),
    });
    left.data()
}

/// One of a join's keys on its way down the probe side.
struct Filter<'a> {
    estimates: &'a Estimates,
    join: &'a HashJoinExec,
    keys: &'a Arc<JoinKeys>,
    part: usize,
    build: &'a Estimate,
    /// The key's column of the build side.
    key: Option<&'a ColumnEstimate>,
    decision: Arc<OnceLock<Option<Arc<KeySet>>>>,
    config: &'a ConfigOptions,
}

impl Filter<'_> {
    /// `plan` with the filter by its column as far down as it can go, if it pays there.
    fn below(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        column: usize,
        path: Path,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if carried(plan, column).is_empty() {
            return Ok(self.here(plan, column, path));
        }
        let mut children: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().cloned().collect();
        let mut is_any = false;
        for (place, to) in path.places(plan, column) {
            if let Some(filtered) = self.below(&children[place.child], place.column, to)? {
                children[place.child] = filtered;
                is_any = true;
            }
        }
        if !is_any {
            return Ok(None);
        }
        Ok(Some(match KeyFilterExec::merged(plan, &children[0]) {
            Some(merged) => Arc::new(merged),
            None => with_children(plan, children)?,
        }))
    }

    fn here(&self, plan: &Arc<dyn ExecutionPlan>, column: usize, path: Path) -> Option<Arc<dyn ExecutionPlan>> {
        if path.saves == Saves::Nothing || self.is_filtered_by_datafusion(plan) || plan.boundedness().is_unbounded() {
            return None;
        }
        let schema = plan.schema();
        let field = schema.fields().get(column).filter(|field| has_sets(field.data_type()))?;
        let rows = self.estimates.of(plan)?;
        let domain = self.domain(rows.columns.get(column)?, rows.rows);
        let keys = self.key.map_or(self.build.rows, |key| key.distinct_among(self.build.rows));
        let passed_max = if path.saves == Saves::Probe { PASSED_MAX_BEFORE_PROBES } else { PASSED_MAX };
        log::debug!("keys of {} over {}: {keys} of {domain}", self.keys, plan.name());
        if self.build.rows >= rows.rows || keys > passed_max * domain {
            return None;
        }
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), column));
        let source = self.in_source(plan, &column, PASSED_MAX * domain);
        let filter = KeyFilter {
            column,
            keys: Arc::clone(self.keys),
            part: self.part,
            passes_nulls: self.join.null_equality() == NullEquality::NullEqualsNull,
            domain,
            may_pause: !path.in_groups,
            is_in_source: source.is_some(),
            decision: Arc::clone(&self.decision),
        };
        Some(Arc::new(KeyFilterExec::new(source.unwrap_or_else(|| Arc::clone(plan)), vec![filter])))
    }

    /// The source with the filter among its predicates, if it takes any: it prunes by them, and may drop rows.
    fn in_source(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        column: &Arc<dyn PhysicalExpr>,
        keys_max: f64,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        if self.join.null_equality() == NullEquality::NullEqualsNull {
            return None;
        }
        let (source, filter) = with_filter(plan, column, self.config)?;
        let column = Arc::clone(column);
        self.keys.add_source(SourceFilter { filter, column, schema: plan.schema(), part: self.part, keys_max });
        Some(source)
    }

    /// How many values the column is expected to have.
    fn domain(&self, column: &ColumnEstimate, rows: f64) -> f64 {
        match self.key {
            Some(key) if key.table_rows >= 1.0 => domain([(key, self.build.rows), (column, rows)]),
            _ => column.table_distinct(),
        }
    }

    /// Whether a source drops rows by the filter that DataFusion's join makes of the same keys. An encoded table leaves
    /// out zones alone.
    fn is_filtered_by_datafusion(&self, plan: &Arc<dyn ExecutionPlan>) -> bool {
        if plan.downcast_ref::<DataSourceExec>().is_some_and(|exec| exec.data_source().is::<TableSource>()) {
            return false;
        }
        let produced = self.join.dynamic_expressions_produced();
        produced.first().and_then(|filter| filter.expression_id()).is_some_and(|id| has_filter(plan, id))
    }
}

/// Whether an operator has the dynamic filter of this number among its expressions.
pub(crate) fn has_filter(plan: &Arc<dyn ExecutionPlan>, id: u64) -> bool {
    let mut is_there = false;
    let visited = plan.apply_expressions(&mut |expr| {
        expr.apply(|expr| {
            is_there |= expr.expression_id() == Some(id);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    visited.is_ok() && is_there
}
