//! Subplans that are alike are made equal: each keeps the columns of all, and a projection gives each place its own.
//!
//! ```text
//! HashJoinExec: .., projection=[i, s, v]        ProjectionExec: i, s, v
//!   scan: k, v                                    HashJoinExec: .., projection=[i, s, v]
//! ..                                       =>   ..
//! HashJoinExec: .., projection=[i, v]           ProjectionExec: i, v
//!   scan: k, v                                    HashJoinExec: .., projection=[i, s, v]
//! ```
//! The law: what a row keeps decides neither which rows there are nor their partitions or their order. Nothing but
//! plain columns is added to what a place computes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, Result, internal_datafusion_err, internal_err};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::alike::{Alike, Expr, Kind, Origin, over, rewritten};
use super::classes::{Classes, Repeats, address};
use super::same::is_same_partitioning;
use super::source::{source_columns, with_source_columns};

type Plan = Arc<dyn ExecutionPlan>;

/// `plan` with the subplans of these classes made equal, where they are not; nothing if none is changed.
pub(super) fn widened(plan: &Plan, alike: &Alike, classes: &Classes, chosen: &HashSet<usize>) -> Result<Option<Plan>> {
    let mut places = HashMap::new();
    note_places(plan, &|plan| alike.repeated(plan).filter(|class| chosen.contains(class)), &mut places);
    let are_equal =
        |places: &[Plan]| places.windows(2).all(|pair| classes.number(&pair[0]) == classes.number(&pair[1]));
    let differ: HashSet<usize> =
        places.iter().filter(|(_, places)| !are_equal(places)).map(|(class, _)| *class).collect();
    let mut widened = HashMap::new();
    for places in outermost(plan, alike, &differ).into_values() {
        if let Some(wide) = made_equal(&places, alike)? {
            widened.extend(places.iter().map(address).zip(wide));
        }
    }
    if widened.is_empty() { Ok(None) } else { replaced(plan, &widened).map(Some) }
}

/// All places, those inside of others too.
fn note_places(plan: &Plan, class: &dyn Fn(&Plan) -> Option<usize>, found: &mut HashMap<usize, Vec<Plan>>) {
    if let Some(class) = class(plan) {
        found.entry(class).or_default().push(Arc::clone(plan));
    }
    plan.children().into_iter().for_each(|child| note_places(child, class, found));
}

/// The places of the classes that are not inside of others, with the projections above them. What is inside is looked
/// at once these are equal.
fn outermost(plan: &Plan, alike: &Alike, classes: &HashSet<usize>) -> HashMap<usize, Vec<Plan>> {
    fn note(plan: &Plan, alike: &Alike, classes: &HashSet<usize>, found: &mut HashMap<usize, Vec<Plan>>) {
        match alike.class(plan).filter(|class| classes.contains(class)) {
            Some(class) => found.entry(class).or_default().push(Arc::clone(plan)),
            None => plan.children().into_iter().for_each(|child| note(child, alike, classes, found)),
        }
    }
    let mut found = HashMap::new();
    note(plan, alike, classes, &mut found);
    found
}

fn replaced(plan: &Plan, by: &HashMap<usize, Plan>) -> Result<Plan> {
    if let Some(other) = by.get(&address(plan)) {
        return Ok(Arc::clone(other));
    }
    let children = plan.children().into_iter().map(|child| replaced(child, by)).collect::<Result<Vec<_>>>()?;
    if children.is_empty() { Ok(Arc::clone(plan)) } else { replace_children_if_necessary(Arc::clone(plan), children) }
}

/// What to put into each of the places, if that makes them equal.
fn made_equal(places: &[Plan], alike: &Alike) -> Result<Option<Vec<Plan>>> {
    let mut needed = BTreeSet::new();
    for place in places {
        alike.node(place)?.columns.iter().for_each(|column| note_columns(column, &mut needed));
    }
    let wide = places.iter().map(|place| wide(place, &needed, alike)).collect::<Result<Vec<_>>>()?;
    let plans: Vec<Plan> = wide.iter().map(|wide| Arc::clone(&wide.plan)).collect();
    if !alike.are_equal(&plans) {
        log::debug!("{} places of {} keep other columns and stay apart", places.len(), plans[0].name());
        return Ok(None);
    }
    let mut projected = Vec::new();
    for (place, wide) in places.iter().zip(&wide) {
        let own = projection(place, wide, alike)?;
        // What stands above relies on these.
        if own.schema() != place.schema()
            || !is_same_partitioning(own.output_partitioning(), place.output_partitioning())
            || own.output_ordering() != place.output_ordering()
        {
            return Ok(None);
        }
        projected.push(own);
    }
    Ok(Some(projected))
}

fn note_columns(expr: &Expr, found: &mut BTreeSet<usize>) {
    found.extend(collect_columns(expr).iter().map(Column::index));
}

/// A subplan, and which columns it has; some that nobody reads have no number.
struct Wide {
    plan: Plan,
    columns: Vec<Option<usize>>,
}

impl Wide {
    /// An expression of [`Alike`] over this plan's output.
    fn placed(&self, expr: &Expr) -> Result<Expr> {
        rewritten(expr, |column| place(column.index(), &self.columns, &self.plan.schema()))
    }

    /// Which of its columns are needed, if not all.
    fn kept(&self, needed: &BTreeSet<usize>) -> Option<Vec<usize>> {
        kept(&self.columns, needed)
    }

    fn with_plan(self, plan: Plan, kept: Option<Vec<usize>>) -> Wide {
        let columns = match kept {
            Some(kept) => kept.into_iter().map(|index| self.columns[index]).collect(),
            None => self.columns,
        };
        Wide { plan, columns }
    }
}

fn place(column: usize, columns: &[Option<usize>], schema: &Schema) -> Result<Expr> {
    let index = columns.iter().position(|known| *known == Some(column));
    let index = index.ok_or_else(|| internal_datafusion_err!("a column was not kept"))?;
    Ok(Arc::new(Column::new(schema.field(index).name(), index)))
}

fn kept(columns: &[Option<usize>], needed: &BTreeSet<usize>) -> Option<Vec<usize>> {
    let is_needed = |index: &usize| columns[*index].is_some_and(|column| needed.contains(&column));
    let kept: Vec<usize> = (0..columns.len()).filter(is_needed).collect();
    (kept.len() < columns.len()).then_some(kept)
}

/// The columns of `place` made of those of `wide`, which is its rows.
fn projection(place: &Plan, wide: &Wide, alike: &Alike) -> Result<Plan> {
    let (columns, schema) = (&alike.node(place)?.columns, place.schema());
    let exprs = columns.iter().zip(schema.fields()).map(|(column, field)| {
        let expr = wide.placed(column)?;
        Ok(ProjectionExpr { expr, alias: field.name().clone() })
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(exprs, Arc::clone(&wide.plan))?))
}

/// `plan` with at least the needed columns.
fn wide(plan: &Plan, needed: &BTreeSet<usize>, alike: &Alike) -> Result<Wide> {
    let node = alike.node(plan)?;
    match (node.kind, &plan.children()[..]) {
        (Kind::Projection, [input]) => wide(input, needed, alike),
        (Kind::Flexible, []) => wide_source(plan, needed, alike),
        (Kind::Flexible, [input]) => wide_operator(plan, input, needed, alike),
        (Kind::Flexible, _) => match plan.downcast_ref::<HashJoinExec>() {
            Some(join) => wide_join(join, needed, alike),
            None => internal_err!("{} cannot keep more columns", plan.name()),
        },
        (Kind::Rigid | Kind::Projection, _) => {
            let columns = (0..node.columns.len()).map(|index| alike.number(Origin::Own(index))).collect();
            Ok(Wide { plan: Arc::clone(plan), columns })
        }
    }
}

fn wide_source(plan: &Plan, needed: &BTreeSet<usize>, alike: &Alike) -> Result<Wide> {
    let mut columns = Vec::new();
    for &number in needed {
        match alike.origin(number) {
            Some(Origin::Own(column)) => columns.push((column, Some(number))),
            _ => return internal_err!("a source has no inputs"),
        }
    }
    columns.sort_unstable();
    let (columns, numbers): (Vec<usize>, Vec<_>) = columns.into_iter().unzip();
    let plan = match source_columns(plan) {
        Some(known) if known == columns => Arc::clone(plan),
        _ => with_source_columns(plan, &columns)?,
    };
    Ok(Wide { plan, columns: numbers })
}

fn wide_operator(plan: &Plan, input: &Plan, needed: &BTreeSet<usize>, alike: &Alike) -> Result<Wide> {
    let inner = alike.node(input)?;
    let canonical = |expr: &Expr| over(expr, &inner.columns);
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let predicate = canonical(filter.predicate())?;
        let mut below = needed.clone();
        note_columns(&predicate, &mut below);
        below.extend(alike.read_by_others(plan));
        let input = wide(input, &below, alike)?;
        let kept = input.kept(needed);
        let filter = FilterExecBuilder::from(filter)
            .apply_projection(None)?
            .with_predicate(input.placed(&predicate)?)
            .with_input(Arc::clone(&input.plan));
        return Ok(input.with_plan(Arc::new(filter.apply_projection(kept.clone())?.build()?), kept));
    }
    if let Some(exchange) = plan.downcast_ref::<RepartitionExec>()
        && let Partitioning::Hash(keys, partitions) = exchange.partitioning()
    {
        let keys = keys.iter().map(canonical).collect::<Result<Vec<_>>>()?;
        let mut below = needed.clone();
        keys.iter().for_each(|key| note_columns(key, &mut below));
        let input = wide(input, &below, alike)?;
        let keys = keys.iter().map(|key| input.placed(key)).collect::<Result<_>>()?;
        let exchange = RepartitionExec::try_new(Arc::clone(&input.plan), Partitioning::Hash(keys, *partitions))?;
        return Ok(input.with_plan(Arc::new(exchange), None));
    }
    let input = wide(input, needed, alike)?;
    let moved = replace_children_if_necessary(Arc::clone(plan), vec![Arc::clone(&input.plan)])?;
    Ok(input.with_plan(moved, None))
}

fn wide_join(join: &HashJoinExec, needed: &BTreeSet<usize>, alike: &Alike) -> Result<Wide> {
    let (left_node, right_node) = (alike.node(join.left())?, alike.node(join.right())?);
    let (mut left, mut right) = (BTreeSet::new(), BTreeSet::new());
    for &number in needed {
        match alike.origin(number) {
            Some(Origin::Left(number)) => drop(left.insert(number)),
            Some(Origin::Right(number)) => drop(right.insert(number)),
            // The mark.
            _ => {}
        }
    }
    let mut on = Vec::new();
    for (l, r) in join.on() {
        let (l, r) = (over(l, &left_node.columns)?, over(r, &right_node.columns)?);
        note_columns(&l, &mut left);
        note_columns(&r, &mut right);
        on.push((l, r));
    }
    for column in join.filter().map_or(&[][..], JoinFilter::column_indices) {
        match column.side {
            JoinSide::Left => note_columns(&left_node.columns[column.index], &mut left),
            _ => note_columns(&right_node.columns[column.index], &mut right),
        }
    }
    let (left, right) = (wide(join.left(), &left, alike)?, wide(join.right(), &right, alike)?);
    let on = on.iter().map(|(l, r)| Ok((left.placed(l)?, right.placed(r)?))).collect::<Result<Vec<_>>>()?;
    let filter =
        join.filter().map(|filter| wide_filter(filter, (&left, &left_node.columns), (&right, &right_node.columns)));
    let columns = joined_columns(join, &left, &right, alike);
    let kept = kept(&columns, needed);
    let plan = join
        .builder()
        .with_new_children(vec![Arc::clone(&left.plan), Arc::clone(&right.plan)])?
        .with_on(on)
        .with_filter(filter.transpose()?)
        .with_projection(kept.clone())
        .reset_state()
        .build_exec()?;
    Ok(Wide { plan: Arc::clone(&plan), columns }.with_plan(plan, kept))
}

fn joined_columns(join: &HashJoinExec, left: &Wide, right: &Wide, alike: &Alike) -> Vec<Option<usize>> {
    use JoinType::{LeftAnti, LeftMark, LeftSemi, RightAnti, RightMark, RightSemi};
    let of_left = left.columns.iter().map(|column| alike.number(Origin::Left((*column)?)));
    let of_right = right.columns.iter().map(|column| alike.number(Origin::Right((*column)?)));
    let mark = || std::iter::once(alike.number(Origin::Own(0)));
    match join.join_type() {
        LeftSemi | LeftAnti => of_left.collect(),
        LeftMark => of_left.chain(mark()).collect(),
        RightSemi | RightAnti => of_right.collect(),
        RightMark => of_right.chain(mark()).collect(),
        _ => of_left.chain(of_right).collect(),
    }
}

/// A join's filter over inputs with other columns. What a projection made of them is computed by the filter.
fn wide_filter(filter: &JoinFilter, left: (&Wide, &[Expr]), right: (&Wide, &[Expr])) -> Result<JoinFilter> {
    let mut read: Vec<(JoinSide, usize, SchemaRef)> = Vec::new();
    let mut column_of = |side: JoinSide, index: usize, schema: SchemaRef| {
        let known = read.iter().position(|(known_side, known, _)| *known_side == side && *known == index);
        known.unwrap_or_else(|| {
            read.push((side, index, schema));
            read.len() - 1
        })
    };
    let expression = rewritten(filter.expression(), |column| {
        let ColumnIndex { index, side } = filter.column_indices()[column.index()];
        let (wide, columns) = if side == JoinSide::Left { left } else { right };
        rewritten(&columns[index], |column| {
            let schema = wide.plan.schema();
            let Some(index) = wide.columns.iter().position(|known| *known == Some(column.index())) else {
                return internal_err!("a column of a join's filter was not kept");
            };
            let name = schema.field(index).name().clone();
            Ok(Arc::new(Column::new(&name, column_of(side, index, schema))))
        })
    })?;
    let fields: Vec<_> = read.iter().map(|(_, index, schema)| Arc::clone(&schema.fields()[*index])).collect();
    let indices = read.iter().map(|(side, index, _)| ColumnIndex { index: *index, side: *side }).collect();
    Ok(JoinFilter::new(expression, indices, Arc::new(Schema::new(fields))))
}
