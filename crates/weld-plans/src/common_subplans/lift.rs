//! Filters taken up again, each above the operators below which DataFusion has pushed it.
//!
//! The law: a filter may be asked above an operator instead of below it if its columns come out of the operator as they
//! are, and what the operator makes of rows that it keeps does not depend on those that it drops. That holds of
//! projections, inner joins, the side that other joins preserve, exchanges, unions whose inputs all have the filter,
//! and groups by the filter's columns. Operators that drop a filter's column keep it, behind their own.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, conjunction_opt, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};

use super::alike::{Expr, rewritten};
use crate::UnorderedExec;
use crate::expr::cannot_fail;

type Plan = Arc<dyn ExecutionPlan>;

/// A plan in the place of several.
pub(super) struct Merged {
    /// It has the columns of each, and behind them those that filters read.
    pub(super) plan: Plan,
    /// For each of them which rows of the plan are its own, if not all.
    pub(super) own: Vec<Option<Expr>>,
}

impl Merged {
    /// One that has the rows of so many plans.
    pub(super) fn equal(plan: Plan, plans: usize) -> Merged {
        Merged { plan, own: vec![None; plans] }
    }

    pub(super) fn is_filtered(&self) -> bool {
        self.own.iter().any(Option::is_some)
    }
}

/// What is true where one of these is.
pub(super) fn either(filters: Vec<Expr>) -> Expr {
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
pub(super) fn of_filters(plans: &[Plan], input: Merged) -> Result<Option<Merged>> {
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
    let kept = match filters[0].projection().as_deref() {
        Some(kept) => with_read(kept.to_vec(), read_by(&own)),
        None => (0..schema.fields().len()).collect(),
    };
    let plan = FilterExecBuilder::from(filters[0])
        .apply_projection(None)?
        .with_predicate(predicate)
        .with_input(input.plan)
        .apply_projection(filters[0].projection().is_some().then(|| kept.clone()))?
        .build()?;
    of_rows(Arc::new(plan), &own, &|index| kept.iter().position(|kept| *kept == index))
}

/// The columns that filters read.
fn read_by(filters: &[Option<Expr>]) -> BTreeSet<usize> {
    filters.iter().flatten().flat_map(collect_columns).map(|column| column.index()).collect()
}

/// Columns that are kept, and behind them those that are read as well.
fn with_read(mut kept: Vec<usize>, read: impl IntoIterator<Item = usize>) -> Vec<usize> {
    for column in read {
        if !kept.contains(&column) {
            kept.push(column);
        }
    }
    kept
}

/// `plan` over other inputs, and what is its own above it; `None` where it cannot be told.
pub(super) fn lifted(plan: &Plan, inputs: Vec<Merged>) -> Result<Option<Merged>> {
    let mut filtered = inputs.iter().enumerate().filter(|(_, input)| input.is_filtered());
    let (child, filters) = match (filtered.next(), filtered.next()) {
        (Some((child, input)), None) => (child, &input.own),
        (first, _) => {
            let is_union = plan.is::<UnionExec>() || plan.is::<InterleaveExec>();
            return match (first, is_union) {
                (None, _) | (_, true) => over_equal(plan, inputs),
                _ => Ok(None),
            };
        }
    };
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return lifted_join(join, child, &inputs, filters);
    }
    let Some(input) = inputs.first().map(|input| Arc::clone(&input.plan)) else { return Ok(None) };
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return lifted_projection(projection, input, filters);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return lifted_aggregate(aggregate, input, filters);
    }
    if moves_rows(plan) {
        let plan = replace_children_if_necessary(Arc::clone(plan), vec![input])?;
        return of_rows(plan, filters, &Some);
    }
    Ok(None)
}

/// The filters of a plan's input as its own.
fn of_rows(plan: Plan, filters: &[Option<Expr>], place_of: &dyn Fn(usize) -> Option<usize>) -> Result<Option<Merged>> {
    let filters = moved_all(filters, &plan.schema(), place_of)?;
    Ok(filters.map(|own| Merged { plan, own }))
}

/// Whether it gives the rows of its input, in any order and partitions.
pub(super) fn moves_rows(plan: &Plan) -> bool {
    plan.downcast_ref::<RepartitionExec>().is_some_and(|exchange| !exchange.preserve_order())
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<UnorderedExec>()
}

/// An operator of whose inputs none is filtered, or a union of inputs with the same filters.
fn over_equal(plan: &Plan, inputs: Vec<Merged>) -> Result<Option<Merged>> {
    let schema = plan.schema();
    let mut of_inputs = Vec::new();
    for input in &inputs {
        if input.is_filtered() && input.plan.schema().fields().len() > schema.fields().len() {
            return Ok(None);
        }
        of_inputs.extend(match input.is_filtered() {
            true => moved_all(&input.own, &schema, &Some)?,
            false => Some(input.own.clone()),
        });
    }
    let are_equal = of_inputs.len() == inputs.len() && of_inputs.windows(2).all(|pair| pair[0] == pair[1]);
    let Some(own) = of_inputs.pop().filter(|_| are_equal) else { return Ok(None) };
    let inputs = inputs.into_iter().map(|input| input.plan).collect();
    let plan = match plan.downcast_ref::<HashJoinExec>() {
        Some(join) => join.builder().with_new_children(inputs)?.reset_state().build_exec()?,
        None => replace_children_if_necessary(Arc::clone(plan), inputs)?,
    };
    Ok(Some(Merged { plan, own }))
}

fn lifted_join(
    join: &HashJoinExec,
    child: usize,
    inputs: &[Merged],
    filters: &[Option<Expr>],
) -> Result<Option<Merged>> {
    let [left, right] = inputs else { return Ok(None) };
    if !preserves(join, child) {
        return Ok(None);
    }
    let side = if child == 0 { JoinSide::Left } else { JoinSide::Right };
    let columns = build_join_schema(&left.plan.schema(), &right.plan.schema(), join.join_type()).1;
    let of_input = |index: usize| columns.iter().position(|column| *column == ColumnIndex { index, side });
    let before = [join.left(), join.right()];
    let kept = kept_columns(*join.join_type(), join.projection.as_deref(), before, [&left.plan, &right.plan]);
    let read: Option<Vec<usize>> = read_by(filters).into_iter().map(of_input).collect();
    let (Some(kept), Some(read)) = (kept, read) else { return Ok(None) };
    let kept = with_read(kept, read);
    let all = kept.iter().copied().eq(0..columns.len());
    let plan = join
        .builder()
        .with_new_children(vec![Arc::clone(&left.plan), Arc::clone(&right.plan)])?
        .with_projection(if all { None } else { Some(kept.clone()) })
        .reset_state()
        .build_exec()?;
    of_rows(plan, filters, &|index| kept.iter().position(|kept| Some(*kept) == of_input(index)))
}

/// Where the columns of a join are when its inputs have more columns behind their own; `projection` are those that it
/// keeps, if not all. `None` if an input lacks one.
pub fn kept_columns(
    join_type: JoinType,
    projection: Option<&[usize]>,
    before: [&Arc<dyn ExecutionPlan>; 2],
    after: [&Arc<dyn ExecutionPlan>; 2],
) -> Option<Vec<usize>> {
    let columns =
        |[left, right]: [&Arc<dyn ExecutionPlan>; 2]| build_join_schema(&left.schema(), &right.schema(), &join_type).1;
    let (before, after) = (columns(before), columns(after));
    let place_of = |column: &ColumnIndex| after.iter().position(|known| known == column);
    match projection {
        Some(kept) => kept.iter().map(|index| place_of(&before[*index])).collect(),
        None => before.iter().map(place_of).collect(),
    }
}

fn lifted_projection(projection: &ProjectionExec, input: Plan, filters: &[Option<Expr>]) -> Result<Option<Merged>> {
    let schema = input.schema();
    let mut exprs = projection.expr().to_vec();
    let place_among = |exprs: &[ProjectionExpr], index: usize| exprs.iter().position(|of| is_column(&of.expr, index));
    for index in read_by(filters) {
        if place_among(&exprs, index).is_none() {
            let alias = schema.field(index).name().clone();
            exprs.push(ProjectionExpr { expr: Arc::new(Column::new(&alias, index)), alias });
        }
    }
    let plan = Arc::new(ProjectionExec::try_new(exprs.clone(), input)?);
    of_rows(plan, filters, &|index| place_among(&exprs, index))
}

/// Groups by the columns of filters.
fn lifted_aggregate(aggregate: &AggregateExec, input: Plan, filters: &[Option<Expr>]) -> Result<Option<Merged>> {
    let group_by = aggregate.group_expr();
    if !group_by.is_single() || aggregate.limit_options().is_some() {
        return Ok(None);
    }
    let exprs: Vec<Expr> = group_by.expr().iter().map(|(expr, _)| Arc::clone(expr)).collect();
    let place_of = |index: usize| exprs.iter().position(|expr| is_column(expr, index));
    // What is made of more columns than the aggregate had would be another aggregate.
    if read_by(filters).into_iter().any(|index| place_of(index).is_none()) {
        return Ok(None);
    }
    let plan = replace_children_if_necessary(Arc::new(aggregate.clone()), vec![input])?;
    of_rows(plan, filters, &place_of)
}

fn is_column(expr: &Expr, index: usize) -> bool {
    expr.downcast_ref::<Column>().is_some_and(|column| column.index() == index)
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
