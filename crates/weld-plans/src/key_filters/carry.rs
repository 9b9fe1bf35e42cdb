//! Where a filter by one column of a plan's rows may stand instead: below the operators that carry the column.
//!
//! ```text
//! keys of part ─► aggregate by l_partkey     =>     aggregate by l_partkey
//!                   └ lineitem                        └ keys of part ─► lineitem
//! ```
//! The law: whoever is above drops every row whose column is not among the keys. So below, rows may be dropped that no
//! row with a key is made of. Null is among the keys only if the join says that nulls are equal.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::collect::JoinKeysExec;
use super::filter::KeyFilterExec;
use crate::UnorderedExec;
use crate::expr::{all_exprs, cannot_fail, is_volatile};

/// A place below an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Carried {
    /// Which of the operator's inputs.
    pub(crate) child: usize,
    /// The column there.
    pub(crate) column: usize,
    /// What a dropped row is spared.
    pub(crate) saves: Saves,
    /// Whether rows that the filter may drop are made of several, which must be dropped together.
    pub(crate) in_groups: bool,
    /// Whether rows may come out that did not without the filter; whoever is above drops them.
    pub(super) adds_rows: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Saves {
    /// Nothing but being passed on.
    Nothing,
    /// A look into a join's table.
    Probe,
    /// A place in a table, a sort or a window, or copies of it for the elements of its lists.
    Memory,
}

/// What is between a join and a place below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(super) saves: Saves,
    pub(super) in_groups: bool,
    /// Whether operators on the way may be given other rows than they would be: none of their expressions fails.
    pub(super) is_safe: bool,
}

impl Path {
    pub(crate) const EMPTY: Path = Path { saves: Saves::Nothing, in_groups: false, is_safe: true };

    /// The places below `plan` that a filter by its column may go to on this way, with the ways on.
    pub(crate) fn places(self, plan: &Arc<dyn ExecutionPlan>, column: usize) -> Vec<(Carried, Path)> {
        let ways = carried(plan, column).into_iter().map(|place| (place, self.through(plan, &place)));
        ways.filter(|(place, to)| !place.adds_rows || (self.is_safe && to.is_safe)).collect()
    }

    /// The way on to a place below `plan`.
    fn through(self, plan: &Arc<dyn ExecutionPlan>, to: &Carried) -> Path {
        Path {
            saves: self.saves.max(to.saves),
            in_groups: self.in_groups || to.in_groups,
            is_safe: self.is_safe && !to.in_groups && is_safe(plan),
        }
    }
}

/// Whether no expression of an operator fails, whatever rows it is given.
fn is_safe(plan: &Arc<dyn ExecutionPlan>) -> bool {
    // Expressions of other operators are over more than one input, or over what the input was made of.
    let is_over_input = plan.is::<FilterExec>() || plan.is::<ProjectionExec>();
    let schema = is_over_input.then(|| plan.children()[0].schema());
    all_exprs(plan.as_ref(), |expr| cannot_fail(expr, schema.as_deref()))
}

/// The places that a filter by a column of `plan` may go to, all of them; none where it has to stay above.
pub(super) fn carried(plan: &Arc<dyn ExecutionPlan>, column: usize) -> Vec<Carried> {
    let is_limited = plan.fetch().is_some();
    if is_limited || !all_exprs(plan.as_ref(), |expr| !is_volatile(expr)) {
        return Vec::new();
    }
    if let Some(join) = Join::of(plan) {
        return join.carried(column);
    }
    let to = |column| Carried { child: 0, column, saves: Saves::Nothing, in_groups: false, adds_rows: false };
    if plan.is::<UnionExec>() || plan.is::<InterleaveExec>() {
        return (0..plan.children().len()).map(|child| Carried { child, ..to(column) }).collect();
    }
    let below = if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let kept = filter.projection().as_ref();
        kept.map_or(Some(column), |kept| kept.get(column).copied()).map(to)
    } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        projection.expr().get(column).and_then(|projected| column_of(&projected.expr)).map(to)
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        group_column(aggregate, column).map(|column| Carried { saves: Saves::Memory, in_groups: true, ..to(column) })
    } else if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        partitions_by(window.window_expr(), column, window.input()).map(to)
    } else if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        partitions_by(window.window_expr(), column, window.input()).map(to)
    } else if let Some(unnest) = plan.downcast_ref::<UnnestExec>() {
        beside_lists(unnest, column).map(|column| Carried { saves: Saves::Memory, ..to(column) })
    } else if plan.is::<SortExec>() {
        Some(Carried { saves: Saves::Memory, ..to(column) })
    } else {
        passes_rows(plan).then(|| to(column))
    };
    let is_window = plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>();
    below
        .map(|to| match is_window {
            true => Carried { saves: Saves::Memory, in_groups: true, ..to },
            false => to,
        })
        .into_iter()
        .collect()
}

/// Whether a filter by a column of `plan` drops rows before they are grouped, or put into window partitions.
pub(crate) fn reaches_groups(plan: &Arc<dyn ExecutionPlan>, column: usize) -> bool {
    let reaches = |to: &Carried| to.in_groups || reaches_groups(plan.children()[to.child], to.column);
    carried(plan, column).iter().any(reaches)
}

fn passes_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<JoinKeysExec>()
        || plan.is::<KeyFilterExec>()
        || plan.is::<UnorderedExec>()
}

pub(crate) fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// The input's column that a column of the groups is, if every grouping set has it.
fn group_column(aggregate: &AggregateExec, column: usize) -> Option<usize> {
    let groups = aggregate.group_expr();
    let is_absent = |set: &Vec<bool>| set.get(column).copied().unwrap_or(true);
    if aggregate.limit_options().is_some() || groups.groups().iter().any(is_absent) {
        return None;
    }
    column_of(&groups.expr().get(column)?.0)
}

/// The input's column that stands beside unnested lists, once for each element.
fn beside_lists(unnest: &UnnestExec, column: usize) -> Option<usize> {
    if !unnest.struct_column_indices().is_empty() {
        return None;
    }
    let lists = unnest.list_column_indices();
    let mut output = 0;
    (0..unnest.input().schema().fields().len()).find(|input| {
        // A list may be unnested to several depths, each a column.
        let unnested = lists.iter().filter(|list| list.index_in_input_schema == *input).count();
        let is_beside = unnested == 0 && output == column;
        output += unnested.max(1);
        is_beside
    })
}

/// The column itself, if all windows are computed for each of its values apart.
fn partitions_by(windows: &[Arc<dyn WindowExpr>], column: usize, input: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let is_key = |window: &Arc<dyn WindowExpr>| window.partition_by().iter().any(|key| column_of(key) == Some(column));
    (column < input.schema().fields().len() && windows.iter().all(is_key)).then_some(column)
}

/// A join that is passed on the way to another.
struct Join<'a> {
    join_type: JoinType,
    on: &'a [(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)],
    projection: Option<&'a [usize]>,
    null_aware: bool,
    left: &'a Arc<dyn ExecutionPlan>,
    right: &'a Arc<dyn ExecutionPlan>,
}

impl<'a> Join<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Join<'a>> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Some(Join {
                join_type: *join.join_type(),
                on: join.on(),
                projection: join.projection.as_deref(),
                null_aware: join.null_aware,
                left: join.left(),
                right: join.right(),
            });
        }
        let (join_type, projection, left, right) = match plan.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => (*join.join_type(), join.projection().as_deref(), join.left(), join.right()),
            None => {
                let join = plan.downcast_ref::<CrossJoinExec>()?;
                (JoinType::Inner, None, join.left(), join.right())
            }
        };
        Some(Join { join_type, on: &[], projection, null_aware: false, left, right })
    }

    fn carried(&self, column: usize) -> Vec<Carried> {
        let Some((side, column)) = self.owner(column) else { return Vec::new() };
        // A row of this side comes out as itself, with its column, or not at all.
        let is_preserved = match self.join_type {
            JoinType::Inner => true,
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => side == JoinSide::Left,
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                side == JoinSide::Right
            }
            JoinType::Full => false,
        };
        if !is_preserved {
            return Vec::new();
        }
        let mut places = vec![self.place(side, column, false)];
        let only_drops = matches!(self.join_type, JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi);
        // What a row of the other side is equal to is dropped, or comes out without it and is dropped above.
        for (left, right) in self.on.iter().filter(|_| !self.null_aware) {
            let (own, (other, key)) = match side {
                JoinSide::Left => (left, (JoinSide::Right, right)),
                _ => (right, (JoinSide::Left, left)),
            };
            if column_of(own) == Some(column)
                && let Some(key) = column_of(key)
            {
                places.push(self.place(other, key, !only_drops));
            }
        }
        places
    }

    fn place(&self, side: JoinSide, column: usize, adds_rows: bool) -> Carried {
        let (child, saves) = match side {
            JoinSide::Left => (0, Saves::Memory),
            _ => (1, Saves::Probe),
        };
        Carried { child, column, saves, in_groups: false, adds_rows }
    }

    /// The side that an output column is of, and its number there.
    fn owner(&self, column: usize) -> Option<(JoinSide, usize)> {
        let column = self.projection.map_or(Some(column), |kept| kept.get(column).copied())?;
        let (left, right) = (self.left.schema().fields().len(), self.right.schema().fields().len());
        let (side, column) = match self.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (JoinSide::Left, column),
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (JoinSide::Right, column),
            _ if column < left => (JoinSide::Left, column),
            _ => (JoinSide::Right, column - left),
        };
        let columns = if side == JoinSide::Left { left } else { right };
        // A mark is of neither side.
        (column < columns).then_some((side, column))
    }
}
