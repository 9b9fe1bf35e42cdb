//! Subplans that give the same rows but keep different columns of them: column pruning looks at each place apart.
//!
//! A column is named by where it comes from ([`Origin`]), not by its place among others: `Left` of the inner join's
//! `Right` of the scan's third. Projections that cannot fail name columns anew and are no operators of their own here,
//! so what they compute may be computed above. Operators that cannot keep more columns (aggregates, windows, unions)
//! are alike where they are equal; so are those of which nothing is known.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, Result, internal_datafusion_err};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;

use super::classes::{Classes, Repeats, address};
use super::same::is_alike;
use super::source::source_columns;
use crate::UnorderedExec;
use crate::expr::cannot_fail;

pub(super) type Expr = Arc<dyn PhysicalExpr>;

/// Where a column comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// The operator, or the source, has made it.
    Own(usize),
    /// From the left input of a join, where it has this number.
    Left(usize),
    Right(usize),
}

/// The parts of a plan by the rows that they give. In expressions here the index of a column is its number.
#[derive(Default)]
pub(super) struct Alike {
    all: Vec<Class>,
    by_inputs: HashMap<(String, Vec<usize>), Vec<usize>>,
    nodes: HashMap<usize, Node>,
    origins: Vec<Origin>,
    numbers: HashMap<Origin, usize>,
    /// What filters read, by their class; nothing where filters are the same.
    read: Option<HashMap<usize, BTreeSet<usize>>>,
}

struct Class {
    plan: Arc<dyn ExecutionPlan>,
    exprs: Vec<Expr>,
    count: usize,
}

/// A part of the plan.
pub(super) struct Node {
    class: usize,
    /// What its columns are made of.
    pub(super) columns: Vec<Expr>,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A projection of the input's rows.
    Projection,
    /// It can keep more columns.
    Flexible,
    Rigid,
}

/// What an operator does, but for the columns that it keeps.
struct Operator {
    inputs: Vec<usize>,
    exprs: Vec<Expr>,
    columns: Vec<Expr>,
}

impl Repeats for Alike {
    fn repeated(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
        let node = self.nodes.get(&address(plan))?;
        (node.kind != Kind::Projection && self.all[node.class].count > 1).then_some(node.class)
    }
}

impl Alike {
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>, classes: &Classes) -> Result<Alike> {
        let mut alike = Alike::default();
        alike.add(plan, classes)?;
        Ok(alike)
    }

    /// The same of subplans whose filters may differ; `similar` are the classes of those with the same columns.
    pub(super) fn but_for_filters(plan: &Arc<dyn ExecutionPlan>, similar: &Classes) -> Result<Alike> {
        let mut alike = Alike { read: Some(HashMap::new()), ..Alike::default() };
        alike.add(plan, similar)?;
        Ok(alike)
    }

    /// What other filters read where this one is.
    pub(super) fn read_by_others(&self, filter: &Arc<dyn ExecutionPlan>) -> impl Iterator<Item = usize> {
        let read = self.read.as_ref().zip(self.class(filter)).and_then(|(read, class)| read.get(&class));
        read.into_iter().flatten().copied()
    }

    /// Whether these, which are alike, are equal, but for filters if these may differ.
    pub(super) fn are_equal(&self, plans: &[Arc<dyn ExecutionPlan>]) -> bool {
        if self.read.is_some() { Classes::are_similar(plans) } else { Classes::are_equal(plans) }
    }

    pub(super) fn node(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<&Node> {
        self.nodes.get(&address(plan)).ok_or_else(|| internal_datafusion_err!("{} was not looked at", plan.name()))
    }

    /// The rows of a part of the plan; a projection has those of its input.
    pub(super) fn class(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
        self.nodes.get(&address(plan)).map(|node| node.class)
    }

    pub(super) fn origin(&self, number: usize) -> Option<Origin> {
        self.origins.get(number).copied()
    }

    /// The number of a column, if some part of the plan has it.
    pub(super) fn number(&self, origin: Origin) -> Option<usize> {
        self.numbers.get(&origin).copied()
    }

    pub(super) fn has_repeated(&self) -> bool {
        self.all.iter().any(|class| class.count > 1)
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>, classes: &Classes) -> Result<()> {
        if plan.is::<RecursiveQueryExec>() {
            return Ok(());
        }
        for child in plan.children() {
            self.add(child, classes)?;
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>()
            && classes.is_shareable(plan)
            && projection
                .expr()
                .iter()
                .all(|projected| cannot_fail(&projected.expr, Some(&projection.input().schema())))
        {
            let input = self.node(projection.input())?;
            let class = input.class;
            let columns = projection.expr().iter().map(|projected| over(&projected.expr, &input.columns));
            let node = Node { class, columns: columns.collect::<Result<_>>()?, kind: Kind::Projection };
            self.nodes.insert(address(plan), node);
            return Ok(());
        }
        let (operator, kind) = match self.operator(plan, classes)? {
            Some(operator) => (operator, Kind::Flexible),
            None => {
                let columns = (0..plan.schema().fields().len()).map(|index| self.column(Origin::Own(index))).collect();
                let inputs = classes.number(plan).into_iter().collect();
                (Operator { inputs, exprs: Vec::new(), columns }, Kind::Rigid)
            }
        };
        let ignores_filters = self.read.is_some();
        let name = if kind == Kind::Rigid { "" } else { plan.name() };
        let found = self.by_inputs.entry((name.to_owned(), operator.inputs)).or_default();
        let is_same = |class: &&usize| {
            let class = &self.all[**class];
            kind == Kind::Rigid || class.exprs == operator.exprs && is_alike(&class.plan, plan, ignores_filters)
        };
        let class = match found.iter().find(is_same) {
            Some(&class) => class,
            None => {
                let class = self.all.len();
                self.all.push(Class { plan: Arc::clone(plan), exprs: operator.exprs, count: 0 });
                found.push(class);
                class
            }
        };
        if classes.is_shareable(plan) {
            self.all[class].count += 1;
        }
        if let (Some(filter), Some(read)) = (plan.downcast_ref::<FilterExec>(), &mut self.read) {
            let columns = &self.nodes[&address(filter.input())].columns;
            let predicate = over(filter.predicate(), columns)?;
            read.entry(class).or_default().extend(collect_columns(&predicate).iter().map(Column::index));
        }
        self.nodes.insert(address(plan), Node { class, columns: operator.columns, kind });
        Ok(())
    }

    fn operator(&mut self, plan: &Arc<dyn ExecutionPlan>, classes: &Classes) -> Result<Option<Operator>> {
        if !classes.is_shareable(plan) || plan.fetch().is_some() {
            return Ok(None);
        }
        if let Some(columns) = source_columns(plan) {
            let columns = columns.into_iter().map(|column| self.column(Origin::Own(column))).collect();
            return Ok(Some(Operator { inputs: Vec::new(), exprs: Vec::new(), columns }));
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return self.join(join);
        }
        let [input] = plan.children()[..] else { return Ok(None) };
        let input = self.node(input)?;
        let (exprs, kept) = if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let predicate = over(filter.predicate(), &input.columns)?;
            let exprs = if self.read.is_some() { Vec::new() } else { vec![predicate] };
            (exprs, filter.projection().as_deref())
        } else if let Some(exchange) = plan.downcast_ref::<RepartitionExec>() {
            let keys = match exchange.partitioning() {
                Partitioning::Hash(keys, _) => &keys[..],
                Partitioning::RoundRobinBatch(_) => &[],
                _ => return Ok(None),
            };
            (keys.iter().map(|key| over(key, &input.columns)).collect::<Result<_>>()?, None)
        } else if plan.is::<CoalescePartitionsExec>() || plan.is::<CooperativeExec>() || plan.is::<UnorderedExec>() {
            (Vec::new(), None)
        } else {
            return Ok(None);
        };
        Ok(Some(Operator { inputs: vec![input.class], exprs, columns: projected(input.columns.clone(), kept) }))
    }

    fn join(&mut self, join: &HashJoinExec) -> Result<Option<Operator>> {
        use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
        let (left, right) = (self.node(join.left())?, self.node(join.right())?);
        let inputs = vec![left.class, right.class];
        let (left, right) = (left.columns.clone(), right.columns.clone());
        // Where a side has no row its columns are null, and so must be what is made of them.
        let are_plain = |columns: &[Expr]| columns.iter().all(|column| column.is::<Column>());
        if matches!(join.join_type(), Left | Full) && !are_plain(&right)
            || matches!(join.join_type(), Right | Full) && !are_plain(&left)
        {
            return Ok(None);
        }
        let left = self.of_side(&left, Origin::Left)?;
        let right = self.of_side(&right, Origin::Right)?;
        let mut exprs = Vec::new();
        for (l, r) in join.on() {
            exprs.extend([over(l, &left)?, over(r, &right)?]);
        }
        if let Some(filter) = join.filter() {
            let mut columns = Vec::new();
            for column in filter.column_indices() {
                let side = if column.side == JoinSide::Left { &left } else { &right };
                match side.get(column.index) {
                    Some(known) if column.side != JoinSide::None => columns.push(Arc::clone(known)),
                    _ => return Ok(None),
                }
            }
            exprs.push(over(filter.expression(), &columns)?);
        }
        let mut columns = match join.join_type() {
            LeftSemi | LeftAnti | LeftMark => left,
            RightSemi | RightAnti | RightMark => right,
            _ => left.into_iter().chain(right).collect(),
        };
        if matches!(join.join_type(), LeftMark | RightMark) {
            columns.push(self.column(Origin::Own(0)));
        }
        Ok(Some(Operator { inputs, exprs, columns: projected(columns, join.projection.as_deref()) }))
    }

    /// Columns of a join's input, as columns of the join.
    fn of_side(&mut self, columns: &[Expr], origin: fn(usize) -> Origin) -> Result<Vec<Expr>> {
        let mut of_side = |expr: &Expr| match expr.downcast_ref::<Column>() {
            Some(column) => Ok(self.column(origin(column.index()))),
            None => rewritten(expr, |column| Ok(self.column(origin(column.index())))),
        };
        columns.iter().map(&mut of_side).collect()
    }

    fn column(&mut self, origin: Origin) -> Expr {
        let origins = &mut self.origins;
        let number = *self.numbers.entry(origin).or_insert_with(|| {
            origins.push(origin);
            origins.len() - 1
        });
        Arc::new(Column::new("", number))
    }
}

fn projected(columns: Vec<Expr>, kept: Option<&[usize]>) -> Vec<Expr> {
    match kept {
        Some(kept) => kept.iter().filter_map(|&index| columns.get(index).cloned()).collect(),
        None => columns,
    }
}

/// An expression over the output of an operator that has `columns`.
pub(super) fn over(expr: &Expr, columns: &[Expr]) -> Result<Expr> {
    rewritten(expr, |column| {
        let known = columns.get(column.index()).cloned();
        known.ok_or_else(|| internal_datafusion_err!("{column} is not a column of the input"))
    })
}

/// The expression with others in the place of its columns.
pub(super) fn rewritten(expr: &Expr, mut of: impl FnMut(&Column) -> Result<Expr>) -> Result<Expr> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return of(column);
    }
    let of = |node: Expr| match node.downcast_ref::<Column>() {
        Some(column) => Ok(Transformed::yes(of(column)?)),
        None => Ok(Transformed::no(node)),
    };
    Arc::clone(expr).transform_up(of).data()
}
