//! The rule that takes outer joins back to inner and anti joins where what is above them makes no difference.
//!
//! ```text
//! sales LEFT JOIN returns ON .. JOIN reasons ON r_reason = id       sales JOIN returns ..: NULL equals no id
//! sales LEFT JOIN returns ON s_key = r_key WHERE r_key IS NULL      sales ANTI JOIN returns
//! ```
//!
//! DataFusion looks for predicates that reject NULL; the conditions of joins reject it as well, here through whatever
//! lies between (Galindo-Legaria, Rosenthal: *Outerjoin Simplification and Reordering for Query Optimization*, 1997).
//! Inner and anti joins can be ordered freely, filter the other side by their keys, and add no rows. Rows, names and
//! types are the same; a column may be known to hold no NULL that might have held one before.

mod strict;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result, ScalarValue};
use datafusion::physical_expr::expressions::{Column, IsNullExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, HashJoinExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;

use crate::PlanOptions;
use strict::{Columns, rejected_columns, strict_columns};

type Plan = Arc<dyn ExecutionPlan>;

/// Makes inner and anti joins of outer joins.
#[derive(Debug)]
pub(crate) struct OuterJoins {
    options: fn(&ConfigOptions) -> PlanOptions,
}

impl OuterJoins {
    pub(crate) const NAME: &str = "outer_joins";

    /// `options` finds the settings of a session.
    pub(crate) fn new(options: fn(&ConfigOptions) -> PlanOptions) -> OuterJoins {
        OuterJoins { options }
    }
}

impl PhysicalOptimizerRule for OuterJoins {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        match (self.options)(config).outer_joins {
            true => simplified(plan, &Columns::new()),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        OuterJoins::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan` with simpler joins. Rows that are NULL in a column of `rejected` may be left out of it: nobody above keeps
/// them.
fn simplified(plan: Plan, rejected: &Columns) -> Result<Plan> {
    // Both of its terms have the schema of its working table.
    if plan.is::<RecursiveQueryExec>() {
        return Ok(plan);
    }
    let plan = match plan.downcast_ref::<FilterExec>() {
        Some(filter) => anti_join(filter)?.unwrap_or(plan),
        None => plan,
    };
    let plan = match plan.downcast_ref::<HashJoinExec>() {
        Some(join) => stricter_join(join, rejected)?.unwrap_or(plan),
        None => plan,
    };
    let inputs = plan.children().into_iter().cloned().zip(rejected_of_inputs(&plan, rejected));
    let inputs = inputs.map(|(input, rejected)| simplified(input, &rejected)).collect::<Result<Vec<_>>>()?;
    if inputs.iter().zip(plan.children()).all(|(input, known)| Arc::ptr_eq(input, known)) {
        return Ok(plan);
    }
    let plan = replace_children_if_necessary(plan, inputs)?;
    Ok(match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => merged(projection)?.unwrap_or(plan),
        None => plan,
    })
}

/// The join without the rows that it adds on a side that has a rejected column.
fn stricter_join(join: &HashJoinExec, rejected: &Columns) -> Result<Option<Plan>> {
    let left_columns = join.left().schema().fields().len();
    let rejected = joined_columns(join, rejected);
    let rejects_left = rejected.iter().any(|column| *column < left_columns);
    let rejects_right = rejected.iter().any(|column| *column >= left_columns);
    let join_type = match (join.join_type(), rejects_left, rejects_right) {
        (JoinType::Left, _, true) | (JoinType::Right, true, _) | (JoinType::Full, true, true) => JoinType::Inner,
        (JoinType::Full, true, false) => JoinType::Left,
        (JoinType::Full, false, true) => JoinType::Right,
        _ => return Ok(None),
    };
    if !join.dynamic_expressions_produced().is_empty() {
        return Ok(None);
    }
    Ok(Some(HashJoinExecBuilder::from(join).with_type(join_type).build_exec()?))
}

/// An outer join of which only the rows that it adds are kept.
fn anti_join(filter: &FilterExec) -> Result<Option<Plan>> {
    // Which columns of the join's output the filter's input has.
    let mut picked: Vec<usize> = (0..filter.input().schema().fields().len()).collect();
    let mut input = filter.input();
    while let Some(projection) = input.downcast_ref::<ProjectionExec>() {
        let Some(columns) = picked_columns(projection) else { return Ok(None) };
        picked.iter_mut().for_each(|column| *column = columns[*column]);
        input = projection.input();
    }
    let Some(join) = input.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    let keeps_left = match join.join_type() {
        JoinType::Left => true,
        JoinType::Right => false,
        _ => return Ok(None),
    };
    if filter.fetch().is_some() || join.fetch().is_some() || !join.dynamic_expressions_produced().is_empty() {
        return Ok(None);
    }
    let left_columns = join.left().schema().fields().len();
    // The same columns among those of both sides.
    let joined: Vec<usize> = match join.projection.as_deref() {
        Some(kept) => picked.into_iter().map(|column| kept[column]).collect(),
        None => picked,
    };
    let is_kept = |column: usize| (column < left_columns) == keeps_left;
    let is_unmatched = |conjunct: &Arc<dyn PhysicalExpr>| {
        let argument = conjunct.downcast_ref::<IsNullExpr>().and_then(|is_null| is_null.arg().downcast_ref::<Column>());
        argument.is_some_and(|column| !is_kept(joined[column.index()]) && has_value(join, joined[column.index()]))
    };
    let conjuncts = split_conjunction(filter.predicate());
    if !conjuncts.iter().any(|conjunct| is_unmatched(conjunct)) {
        return Ok(None);
    }
    let join_type = if keeps_left { JoinType::LeftAnti } else { JoinType::RightAnti };
    let anti = HashJoinExecBuilder::from(join).with_type(join_type).with_projection(None).build_exec()?;
    let first = if keeps_left { 0 } else { left_columns };
    let (schema, names) = (filter.input().schema(), anti.schema());
    let value = |column: usize| -> Result<Arc<dyn PhysicalExpr>> {
        let field = schema.field(column);
        Ok(match is_kept(joined[column]) {
            true => Arc::new(Column::new(names.field(joined[column] - first).name(), joined[column] - first)),
            false => Arc::new(Literal::new_with_metadata(
                ScalarValue::try_new_null(field.data_type())?,
                (!field.metadata().is_empty()).then(|| field.metadata().into()),
            )),
        })
    };
    let others = conjuncts.into_iter().filter(|conjunct| !is_unmatched(conjunct));
    let others = others.map(|conjunct| substituted(conjunct, &value)).collect::<Result<Vec<_>>>()?;
    let anti: Plan = match others.is_empty() {
        true => anti,
        false => Arc::new(FilterExec::try_new(conjunction(others), anti)?),
    };
    let kept: Vec<usize> =
        filter.projection().as_deref().map_or_else(|| (0..joined.len()).collect(), <[usize]>::to_vec);
    let columns = kept
        .into_iter()
        .map(|column| Ok(ProjectionExpr { expr: value(column)?, alias: schema.field(column).name().clone() }));
    Ok(Some(Arc::new(ProjectionExec::try_new(columns.collect::<Result<Vec<_>>>()?, anti)?)))
}

/// The columns that a projection picks, if it does nothing else.
fn picked_columns(projection: &ProjectionExec) -> Option<Vec<usize>> {
    projection.expr().iter().map(|picked| Some(picked.expr.downcast_ref::<Column>()?.index())).collect()
}

/// Whether a column of the side that an outer join fills with NULL has a value in every row that finds a match.
fn has_value(join: &HashJoinExec, column: usize) -> bool {
    let left_columns = join.left().schema().fields().len();
    let (side, index) = match column < left_columns {
        true => (join.left(), column),
        false => (join.right(), column - left_columns),
    };
    let is_key = |key: &Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().is_some_and(|key| key.index() == index);
    let mut keys = join.on().iter().map(|(l, r)| if column < left_columns { l } else { r });
    !side.schema().field(index).is_nullable()
        || (join.null_equality() == NullEquality::NullEqualsNothing && keys.any(is_key))
}

/// For each input of `plan` the columns of which rows with a NULL may be left out.
fn rejected_of_inputs(plan: &Plan, rejected: &Columns) -> Vec<Columns> {
    let nothing = vec![Columns::new(); plan.children().len()];
    if plan.fetch().is_some() {
        return nothing;
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return rejected_of_sides(join, rejected);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let above: Columns = match filter.projection().as_deref() {
            Some(kept) => rejected.iter().map(|column| kept[*column]).collect(),
            None => rejected.clone(),
        };
        return vec![&above | &rejected_columns(filter.predicate())];
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return vec![rejected.iter().flat_map(|column| strict_columns(&projection.expr()[*column].expr)).collect()];
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let keys = aggregate.group_expr();
        let is_key = |column: &&usize| keys.is_single() && **column < keys.expr().len();
        return vec![rejected.iter().filter(is_key).flat_map(|key| strict_columns(&keys.expr()[*key].0)).collect()];
    }
    let passes = plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<UnionExec>();
    if passes { vec![rejected.clone(); plan.children().len()] } else { nothing }
}

fn rejected_of_sides(join: &HashJoinExec, rejected: &Columns) -> Vec<Columns> {
    if join.null_aware {
        return vec![Columns::new(); 2];
    }
    let left_columns = join.left().schema().fields().len();
    // Of rows that nobody above keeps.
    let (mut left, mut right) = (Columns::new(), Columns::new());
    for column in joined_columns(join, rejected) {
        match column < left_columns {
            true => left.insert(column),
            false => right.insert(column - left_columns),
        };
    }
    // Of rows that match nothing.
    let (mut left_matching, mut right_matching) = (Columns::new(), Columns::new());
    if join.null_equality() == NullEquality::NullEqualsNothing {
        left_matching.extend(join.on().iter().flat_map(|(key, _)| strict_columns(key)));
        right_matching.extend(join.on().iter().flat_map(|(_, key)| strict_columns(key)));
    }
    if let Some(filter) = join.filter() {
        for column in rejected_columns(filter.expression()) {
            let place = &filter.column_indices()[column];
            match place.side {
                JoinSide::Left => left_matching.insert(place.index),
                JoinSide::Right => right_matching.insert(place.index),
                JoinSide::None => false,
            };
        }
    }
    let (needs_left, needs_right) = match join.join_type() {
        JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi => (true, true),
        JoinType::Left | JoinType::LeftAnti | JoinType::LeftMark => (false, true),
        JoinType::Right | JoinType::RightAnti | JoinType::RightMark => (true, false),
        JoinType::Full => (false, false),
    };
    // What an outer join fills with NULL is rejected after it, not before.
    match join.join_type() {
        JoinType::Left => right.clear(),
        JoinType::Right => left.clear(),
        JoinType::Full => (left, right) = (Columns::new(), Columns::new()),
        _ => {}
    }
    if needs_left {
        left.append(&mut left_matching);
    }
    if needs_right {
        right.append(&mut right_matching);
    }
    vec![left, right]
}

/// Columns of a join's output as columns of its left side and, after these, of its right side. A mark is of neither.
fn joined_columns(join: &HashJoinExec, columns: &Columns) -> Columns {
    let (left, right) = (join.left().schema().fields().len(), join.right().schema().fields().len());
    let output = |column: &usize| join.projection.as_deref().map_or(*column, |kept| kept[*column]);
    let columns = columns.iter().map(output);
    match join.join_type() {
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => columns.filter(|c| *c < left).collect(),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            columns.filter(|c| *c < right).map(|c| c + left).collect()
        }
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => columns.collect(),
    }
}

/// Two projections as one, where the upper one only picks columns: an anti join's NULLs go where nobody reads them.
fn merged(upper: &ProjectionExec) -> Result<Option<Plan>> {
    let Some(lower) = upper.input().downcast_ref::<ProjectionExec>() else { return Ok(None) };
    if !lower.expr().iter().all(|lower| lower.expr.is::<Column>() || lower.expr.is::<Literal>()) {
        return Ok(None);
    }
    let Some(picked) = picked_columns(upper) else { return Ok(None) };
    let exprs = picked.into_iter().zip(upper.expr()).map(|(column, picked)| ProjectionExpr {
        expr: Arc::clone(&lower.expr()[column].expr),
        alias: picked.alias.clone(),
    });
    Ok(Some(Arc::new(ProjectionExec::try_new(exprs.collect::<Vec<_>>(), Arc::clone(lower.input()))?)))
}

fn substituted(
    expr: &Arc<dyn PhysicalExpr>,
    value: &impl Fn(usize) -> Result<Arc<dyn PhysicalExpr>>,
) -> Result<Arc<dyn PhysicalExpr>> {
    Arc::clone(expr)
        .transform(|node| match node.downcast_ref::<Column>() {
            Some(column) => Ok(Transformed::yes(value(column.index())?)),
            None => Ok(Transformed::no(node)),
        })
        .data()
}
