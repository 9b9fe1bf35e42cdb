//! The graph of a tree of joins: relations, classes of columns that are equal, filters, and semi, anti and left joins.
//!
//! ```text
//! a JOIN b ON a.x = b.x JOIN c ON b.x = c.y WHERE a.u < c.v     relations a b c, class {a.x b.x c.y}, filter a.u < c.v
//! ```
//!
//! Inner joins may come in any order. A semi or anti join keeps or drops rows of one side and adds no columns, so it
//! commutes with inner joins as long as the columns that it compares are there. So does a left join, which keeps all
//! rows of one side, as long as no inner join compares the columns that it adds. Their other side is a relation that is
//! attached. Columns are numbered through all relations; expressions of the graph refer to them by these numbers.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use weld_table::have_bounds;

use crate::expr;

/// A set of relations, a bit each.
pub(super) type Set = u64;

/// More relations than this are not ordered.
pub(super) const RELATIONS_MAX: usize = 64;

type Expr = Arc<dyn PhysicalExpr>;

pub(super) struct Graph {
    pub(super) relations: Vec<Relation>,
    /// Expressions over one relation each, which are equal in every row of the result.
    pub(super) classes: Vec<Vec<Member>>,
    pub(super) filters: Vec<Filter>,
    /// The columns of the result.
    pub(super) output: Vec<usize>,
    /// The joins as they were written.
    pub(super) tree: Tree,
    /// Whether nobody notices how often a row comes.
    pub(super) is_set: bool,
    /// Whether left joins are part of the graph, or relations of it.
    with_left: bool,
}

pub(super) struct Relation {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// The number of its first column.
    pub(super) first: usize,
    pub(super) attached: Option<Attached>,
}

/// The other side of a semi, anti or left join.
pub(super) struct Attached {
    pub(super) kind: Kind,
    /// The class that each key of its own is compared with.
    pub(super) keys: Vec<(usize, Expr)>,
    /// What else must hold of a pair, and which relations but this it reads.
    pub(super) filter: Option<(Expr, Set)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Keeps rows that have a match.
    Semi,
    /// Keeps rows that have none.
    Anti,
    /// Keeps all rows and adds the columns of their matches, or NULL.
    Left,
}

impl Kind {
    fn of(join_type: JoinType) -> Option<Kind> {
        match join_type {
            JoinType::LeftSemi | JoinType::RightSemi => Some(Kind::Semi),
            JoinType::LeftAnti | JoinType::RightAnti => Some(Kind::Anti),
            JoinType::Left | JoinType::Right => Some(Kind::Left),
            _ => None,
        }
    }
}

#[derive(Clone)]
pub(super) struct Member {
    pub(super) relation: usize,
    pub(super) expr: Expr,
}

pub(super) struct Filter {
    pub(super) predicate: Expr,
    /// The relations that must have been joined.
    pub(super) needs: Set,
}

#[derive(Clone, Debug)]
pub(super) enum Tree {
    Relation(usize),
    /// Build side, probe side, and what comes of them.
    Join(Arc<Tree>, Arc<Tree>, Keeps),
}

/// What a join keeps of two sets of relations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keeps {
    /// The columns of both, but for those of a relation that is attached as a semi or anti join.
    Both,
    /// Rows of the build side that match, once each.
    Build,
    /// Rows of the probe side that match, once each.
    Probe,
}

impl Tree {
    pub(super) fn relations(&self) -> Set {
        match self {
            Tree::Relation(relation) => 1 << relation,
            Tree::Join(build, probe, _) => build.relations() | probe.relations(),
        }
    }

    /// The relations whose columns are there.
    pub(super) fn kept(&self) -> Set {
        match self {
            Tree::Relation(relation) => 1 << relation,
            Tree::Join(build, probe, Keeps::Both) => build.kept() | probe.kept(),
            Tree::Join(build, _, Keeps::Build) => build.kept(),
            Tree::Join(_, probe, Keeps::Probe) => probe.kept(),
        }
    }
}

/// What a node gives: the numbers of its columns, and how it was joined.
type Flat = (Vec<usize>, Tree);

impl Graph {
    /// The graph of the joins at and below `plan`, whose rows are read as a set if `is_set`; `None` if there is no join
    /// that may be ordered.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>, is_set: bool) -> Result<Option<Graph>> {
        match Graph::with(plan, true, is_set)? {
            Some(graph) => Ok(Some(graph)),
            None => Graph::with(plan, false, is_set),
        }
    }

    fn with(plan: &Arc<dyn ExecutionPlan>, with_left: bool, is_set: bool) -> Result<Option<Graph>> {
        if !is_ordered(plan, with_left) {
            return Ok(None);
        }
        let mut graph = Graph {
            with_left,
            relations: Vec::new(),
            classes: Vec::new(),
            filters: Vec::new(),
            output: Vec::new(),
            tree: Tree::Relation(0),
            is_set,
        };
        let Some((output, tree)) = graph.add(plan)? else { return Ok(None) };
        (graph.output, graph.tree) = (output, tree);
        graph.is_set &= !graph.draws_anew();
        Ok(Some(graph))
    }

    /// Whether a condition depends on how often it is asked.
    fn draws_anew(&self) -> bool {
        let attached = self.relations.iter().filter_map(|relation| relation.attached.as_ref()?.filter.as_ref());
        let attached = attached.map(|(filter, _)| filter);
        self.filters.iter().map(|filter| &filter.predicate).chain(attached).any(expr::is_volatile)
    }

    /// The plans that the joins read.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &Arc<dyn ExecutionPlan>> {
        self.relations.iter().map(|relation| &relation.plan)
    }

    pub(super) fn relation_of(&self, column: usize) -> usize {
        self.relations.partition_point(|relation| relation.first <= column) - 1
    }

    /// The relations that an expression reads.
    pub(super) fn relations_of(&self, expr: &Expr) -> Set {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return 1 << self.relation_of(column.index());
        }
        collect_columns(expr).iter().map(|column| 1 << self.relation_of(column.index())).fold(0, |a, b: Set| a | b)
    }

    /// A column of the relations `kept` that has this one's value wherever both were joined.
    pub(super) fn same_column(&self, column: usize, kept: Set) -> Option<usize> {
        let is_kept = |relation: usize| kept & (1 << relation) != 0;
        if is_kept(self.relation_of(column)) {
            return Some(column);
        }
        let of = |member: &Member| member.expr.downcast_ref::<Column>().map(Column::index);
        let class = self.classes.iter().find(|class| class.iter().any(|member| of(member) == Some(column)))?;
        let field = self.field(column);
        let is_same =
            |other: &usize| *self.field(*other) == field.as_ref().clone().with_name(self.field(*other).name());
        // Zeros of both signs are equal.
        let has_one_form = !field.data_type().is_floating() && !field.data_type().is_nested();
        class.iter().filter(|member| has_one_form && is_kept(member.relation)).filter_map(of).find(is_same)
    }

    fn field(&self, column: usize) -> FieldRef {
        let relation = &self.relations[self.relation_of(column)];
        Arc::clone(&relation.plan.schema().fields()[column - relation.first])
    }

    fn cannot_fail(&self, expr: &Expr) -> bool {
        if expr.is::<Column>() {
            return true;
        }
        let mut fields = Vec::new();
        for relation in &self.relations {
            fields.extend(relation.plan.schema().fields().iter().cloned());
        }
        expr::cannot_fail(expr, Some(&Schema::new(fields)))
    }

    fn add(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Flat>> {
        if !is_ordered(plan, self.with_left) {
            return Ok(self.add_relation(plan));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let Some((columns, tree)) = self.add(projection.input())? else { return Ok(None) };
            let kept = projection.expr().iter().filter_map(|projected| projected.expr.downcast_ref::<Column>());
            return Ok(Some((kept.map(|column| columns[column.index()]).collect(), tree)));
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let Some((columns, tree)) = self.add(filter.input())? else { return Ok(None) };
            self.add_filter(&renumbered(filter.predicate(), &columns)?, tree.relations());
            let columns = match filter.projection().as_ref() {
                Some(kept) => kept.iter().map(|index| columns[*index]).collect(),
                None => columns,
            };
            return Ok(Some((columns, tree)));
        }
        match plan.downcast_ref::<HashJoinExec>() {
            Some(join) if *join.join_type() == JoinType::Inner => self.add_inner(join),
            Some(join) => match Kind::of(*join.join_type()) {
                Some(kind) => self.add_attaching(join, kind),
                None => Ok(self.add_relation(plan)),
            },
            None => Ok(self.add_relation(plan)),
        }
    }

    fn add_relation(&mut self, plan: &Arc<dyn ExecutionPlan>) -> Option<Flat> {
        let first = self.relations.last().map_or(0, |last| last.first + last.plan.schema().fields().len());
        if self.relations.len() == RELATIONS_MAX || plan.boundedness().is_unbounded() {
            return None;
        }
        // Numbers of relations are found by their columns.
        let columns = plan.schema().fields().len();
        if columns == 0 {
            return None;
        }
        self.relations.push(Relation { plan: Arc::clone(plan), first, attached: None });
        Some(((first..first + columns).collect(), Tree::Relation(self.relations.len() - 1)))
    }

    fn add_inner(&mut self, join: &HashJoinExec) -> Result<Option<Flat>> {
        let Some((left, left_tree)) = self.add(join.left())? else { return Ok(None) };
        let Some((right, right_tree)) = self.add(join.right())? else { return Ok(None) };
        for (l, r) in join.on() {
            let (l, r) = (renumbered(l, &left)?, renumbered(r, &right)?);
            let (Some(l), Some(r)) = (self.class_of(&l), self.class_of(&r)) else { return Ok(None) };
            if l != r {
                let other = std::mem::take(&mut self.classes[l.max(r)]);
                self.classes[l.min(r)].extend(other);
                // An empty class stays in its place, so that the numbers of the others hold; attached relations follow.
                for attached in self.relations.iter_mut().filter_map(|relation| relation.attached.as_mut()) {
                    attached.keys.iter_mut().filter(|key| key.0 == l.max(r)).for_each(|key| key.0 = l.min(r));
                }
            }
        }
        let tree = Tree::Join(Arc::new(left_tree), Arc::new(right_tree), Keeps::Both);
        if let Some(filter) = join.filter() {
            let predicate = renumbered_filter(filter, &left, &right)?;
            self.add_filter(&predicate, tree.relations());
        }
        let columns: Vec<usize> = left.into_iter().chain(right).collect();
        Ok(Some((projected(columns, join), tree)))
    }

    /// A semi, anti or left join.
    fn add_attaching(&mut self, join: &HashJoinExec, kind: Kind) -> Result<Option<Flat>> {
        let keeps_left = matches!(join.join_type(), JoinType::LeftSemi | JoinType::LeftAnti | JoinType::Left);
        let (kept, other) = if keeps_left { (join.left(), join.right()) } else { (join.right(), join.left()) };
        let Some((columns, tree)) = self.add(kept)? else { return Ok(None) };
        let Some((own, other_tree)) = self.add_relation(other) else { return Ok(None) };
        let relation = self.relations.len() - 1;
        let mut keys = Vec::new();
        for (l, r) in join.on() {
            let (outer, inner) = if keeps_left { (l, r) } else { (r, l) };
            let Some(class) = self.class_of(&renumbered(outer, &columns)?) else { return Ok(None) };
            keys.push((class, renumbered(inner, &own)?));
        }
        let filter = match join.filter() {
            Some(filter) => {
                let (left, right) = if keeps_left { (&columns, &own) } else { (&own, &columns) };
                let predicate = renumbered_filter(filter, left, right)?;
                let reads = match self.cannot_fail(&predicate) {
                    true => self.relations_of(&predicate) & !(1 << relation),
                    false => tree.relations(),
                };
                Some((predicate, reads))
            }
            None => None,
        };
        self.relations[relation].attached = Some(Attached { kind, keys, filter });
        let columns = match (kind, keeps_left) {
            (Kind::Semi | Kind::Anti, _) => columns,
            (Kind::Left, true) => columns.into_iter().chain(own).collect(),
            (Kind::Left, false) => own.into_iter().chain(columns).collect(),
        };
        let tree = match keeps_left {
            true => Tree::Join(Arc::new(tree), Arc::new(other_tree), Keeps::Both),
            false => Tree::Join(Arc::new(other_tree), Arc::new(tree), Keeps::Both),
        };
        Ok(Some((projected(columns, join), tree)))
    }

    /// A filter over what has been joined so far. One that may fail waits for all of it: on other rows it might fail.
    /// So does one over a single relation, since filters are asked where relations meet.
    fn add_filter(&mut self, predicate: &Expr, joined: Set) {
        for conjunct in split_conjunction(predicate) {
            let reads = self.relations_of(conjunct);
            let needs = if self.cannot_fail(conjunct) && reads.count_ones() > 1 { reads } else { joined };
            self.filters.push(Filter { predicate: Arc::clone(conjunct), needs });
        }
    }

    /// Whether columns of a relation are equal to each other in all rows of the joins.
    pub(super) fn compares_columns_of(&self, relation: usize) -> bool {
        self.classes.iter().any(|class| class.iter().filter(|member| member.relation == relation).count() > 1)
    }

    /// The class of an expression over one relation; `None` if it is over several, over one whose columns may be NULL
    /// by a left join, or may fail.
    fn class_of(&mut self, expr: &Expr) -> Option<usize> {
        let relations = self.relations_of(expr);
        if relations.count_ones() != 1 || !self.cannot_fail(expr) {
            return None;
        }
        if self.relations[relations.trailing_zeros() as usize].attached.is_some() {
            return None;
        }
        let is_same = |member: &Member| member.expr.eq(expr);
        let known = self.classes.iter().position(|class| class.iter().any(is_same));
        Some(known.unwrap_or_else(|| {
            let relation = relations.trailing_zeros() as usize;
            self.classes.push(vec![Member { relation, expr: Arc::clone(expr) }]);
            self.classes.len() - 1
        }))
    }
}

/// Whether a node is part of a graph, not a relation of it.
fn is_ordered(plan: &Arc<dyn ExecutionPlan>, with_left: bool) -> bool {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return projection.expr().iter().all(|projected| projected.expr.is::<Column>())
            && is_ordered(projection.input(), with_left);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return filter.fetch().is_none() && is_ordered(filter.input(), with_left);
    }
    plan.downcast_ref::<HashJoinExec>().is_some_and(|join| is_ordered_join(join, with_left))
}

/// Whether a join is part of a graph.
pub(super) fn is_ordered_join(join: &HashJoinExec, with_left: bool) -> bool {
    let is_known = match Kind::of(*join.join_type()) {
        Some(Kind::Left) => with_left,
        Some(Kind::Semi | Kind::Anti) => true,
        None => *join.join_type() == JoinType::Inner,
    };
    // Where another side is built DataFusion may want bounds of keys for which it has none.
    let schema = join.left().schema();
    let have_bounds = |(key, _): &(Expr, Expr)| key.data_type(&schema).is_ok_and(|of| have_bounds(&of));
    is_known
        && join.on().iter().all(have_bounds)
        && join.fetch().is_none()
        && !join.null_aware
        && join.null_equality() == NullEquality::NullEqualsNothing
        && join.dynamic_expressions_produced().is_empty()
}

fn projected(columns: Vec<usize>, join: &HashJoinExec) -> Vec<usize> {
    match join.projection.as_deref() {
        Some(kept) => kept.iter().map(|index| columns[*index]).collect(),
        None => columns,
    }
}

/// The expression with column `i` replaced by `columns[i]`.
fn renumbered(expr: &Expr, columns: &[usize]) -> Result<Expr> {
    Arc::clone(expr)
        .transform(|node| match node.downcast_ref::<Column>() {
            Some(column) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), columns[column.index()])) as _)),
            None => Ok(Transformed::no(node)),
        })
        .data()
}

fn renumbered_filter(filter: &JoinFilter, left: &[usize], right: &[usize]) -> Result<Expr> {
    let column = |index: &datafusion::physical_plan::joins::utils::ColumnIndex| match index.side {
        JoinSide::Left => left[index.index],
        // The third side belongs to mark joins, which are no part of a graph.
        JoinSide::Right | JoinSide::None => right[index.index],
    };
    let columns: Vec<usize> = filter.column_indices().iter().map(column).collect();
    renumbered(filter.expression(), &columns)
}
