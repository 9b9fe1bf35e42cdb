//! From an order of joins back to a plan: hash joins that keep the columns which somebody above reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, Result, internal_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExecBuilder;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::enumerate::{Costs, Joined};
use super::graph::{Attached, Graph, Keeps, Kind, Set, Tree};
use super::sides::mode;

type Expr = Arc<dyn PhysicalExpr>;

pub(super) struct Rebuild<'a> {
    pub(super) graph: &'a Graph,
    pub(super) costs: &'a Costs<'a>,
    pub(super) config: &'a ConfigOptions,
}

/// A plan, and for each of its columns the number that it has in the graph.
struct Built {
    plan: Arc<dyn ExecutionPlan>,
    columns: Vec<usize>,
    joined: Joined,
}

impl Built {
    /// Where the plan has a column of the graph.
    fn position(&self, column: usize) -> Option<usize> {
        self.columns.iter().position(|known| *known == column)
    }

    /// An expression of the graph over the plan.
    fn placed(&self, expr: &Expr) -> Result<Expr> {
        placed(expr, &self.columns, &self.plan.schema())
    }
}

impl Rebuild<'_> {
    /// The plan of `tree` with the columns, names and order of `schema`.
    pub(super) fn plan(&self, tree: &Tree, schema: &Schema) -> Result<Arc<dyn ExecutionPlan>> {
        let built = self.build(tree, &self.graph.output.iter().copied().collect())?;
        let mut exprs = Vec::new();
        for (column, field) in self.graph.output.iter().zip(schema.fields()) {
            let column = self.graph.same_column(*column, tree.kept());
            let Some(index) = column.and_then(|column| built.position(column)) else {
                return internal_err!("a join lost a column");
            };
            let expr = Arc::new(Column::new(built.plan.schema().field(index).name(), index));
            exprs.push(ProjectionExpr { expr, alias: field.name().clone() });
        }
        Ok(Arc::new(ProjectionExec::try_new(exprs, built.plan)?))
    }

    /// `needed` are the columns of the graph that somebody above reads.
    fn build(&self, tree: &Tree, needed: &BTreeSet<usize>) -> Result<Built> {
        let (build, probe, keeps) = match tree {
            Tree::Relation(relation) => {
                let relation_plan = &self.graph.relations[*relation];
                let width = relation_plan.plan.schema().fields().len();
                let columns: Vec<usize> = (relation_plan.first..relation_plan.first + width).collect();
                let plan = self.with_equalities(*relation, &relation_plan.plan, &columns)?;
                return Ok(Built { plan, columns, joined: self.costs.relation(*relation) });
            }
            Tree::Join(build, probe, keeps) => (build, probe, *keeps),
        };
        let join = self.conditions(build, probe, keeps);
        // What a semi join drops is read of the side that it keeps.
        let own = needed.iter().filter(|column| tree.relations() & (1 << self.graph.relation_of(**column)) != 0);
        let needed: BTreeSet<usize> = own.filter_map(|column| self.graph.same_column(*column, tree.kept())).collect();
        let mut below = needed.clone();
        let conditions = join.on.iter().flat_map(|(l, r)| [l, r]).chain(&join.filter).chain(&join.after);
        below.extend(conditions.flat_map(columns_of));
        let (build, probe) = (self.build(build, &below)?, self.build(probe, &below)?);
        self.join(build, probe, join, keeps, &needed)
    }

    /// A relation with those of its rows whose members of one class are equal: joins compare one member of each class.
    fn with_equalities(
        &self,
        relation: usize,
        plan: &Arc<dyn ExecutionPlan>,
        columns: &[usize],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut equalities = Vec::new();
        for class in &self.graph.classes {
            let members = class.iter().filter(|member| member.relation == relation);
            let members = members.map(|member| placed(&member.expr, columns, &plan.schema()));
            for pair in members.collect::<Result<Vec<Expr>>>()?.windows(2) {
                let equal = BinaryExpr::new(Arc::clone(&pair[0]), Operator::Eq, Arc::clone(&pair[1]));
                equalities.push(Arc::new(equal) as Expr);
            }
        }
        if equalities.is_empty() {
            return Ok(Arc::clone(plan));
        }
        Ok(Arc::new(FilterExec::try_new(conjunction(equalities), Arc::clone(plan))?))
    }

    /// What two sets of relations are joined on.
    fn conditions(&self, build: &Tree, probe: &Tree, keeps: Keeps) -> Conditions {
        match (self.attached(build), self.attached(probe)) {
            (Some(attached), _) => self.attaching(attached, probe, build, false),
            (_, Some(attached)) => self.attaching(attached, build, probe, true),
            (None, None) => {
                let spanning = self.graph.classes.iter().filter_map(|class| {
                    let member = |tree: &Tree| class.iter().find(|member| tree.kept() & (1 << member.relation) != 0);
                    Some((Arc::clone(&member(build)?.expr), Arc::clone(&member(probe)?.expr)))
                });
                let filters = self.filters(build.relations(), probe.relations());
                let filter = (!filters.is_empty()).then(|| conjunction(filters));
                let join_type = match keeps {
                    Keeps::Both => JoinType::Inner,
                    Keeps::Build => JoinType::LeftSemi,
                    Keeps::Probe => JoinType::RightSemi,
                };
                Conditions { join_type, on: spanning.collect(), filter, after: Vec::new() }
            }
        }
    }

    /// The filters that can be asked once both sets are joined, and not before.
    fn filters(&self, left: Set, right: Set) -> Vec<Expr> {
        let waited = |needs: Set| needs & !(left | right) == 0 && needs & !left != 0 && needs & !right != 0;
        let filters = self.graph.filters.iter().filter(|filter| waited(filter.needs));
        filters.map(|filter| Arc::clone(&filter.predicate)).collect()
    }

    fn attached(&self, tree: &Tree) -> Option<&Attached> {
        match tree {
            Tree::Relation(relation) => self.graph.relations[*relation].attached.as_ref(),
            Tree::Join(..) => None,
        }
    }

    /// A semi, anti or left join that keeps rows of `kept`, which are those of the build side if `keeps_build`.
    fn attaching(&self, attached: &Attached, kept: &Tree, other: &Tree, keeps_build: bool) -> Conditions {
        let on = attached.keys.iter().filter_map(|(class, own)| {
            let member = self.graph.classes[*class].iter().find(|member| kept.kept() & (1 << member.relation) != 0)?;
            let (kept, own) = (Arc::clone(&member.expr), Arc::clone(own));
            Some(if keeps_build { (kept, own) } else { (own, kept) })
        });
        let join_type = match (attached.kind, keeps_build) {
            (Kind::Semi, true) => JoinType::LeftSemi,
            (Kind::Semi, false) => JoinType::RightSemi,
            (Kind::Anti, true) => JoinType::LeftAnti,
            (Kind::Anti, false) => JoinType::RightAnti,
            (Kind::Left, true) => JoinType::Left,
            (Kind::Left, false) => JoinType::Right,
        };
        Conditions {
            join_type,
            on: on.collect(),
            filter: attached.filter.as_ref().map(|(filter, _)| Arc::clone(filter)),
            after: self.filters(kept.relations(), other.relations()),
        }
    }

    fn join(
        &self,
        build: Built,
        probe: Built,
        join: Conditions,
        keeps: Keeps,
        needed: &BTreeSet<usize>,
    ) -> Result<Built> {
        let Some(joined) = self.costs.join(&build.joined, &probe.joined, keeps) else {
            return internal_err!("an order joins what nothing connects");
        };
        let on = join.on.iter().map(|(l, r)| Ok((build.placed(l)?, probe.placed(r)?))).collect::<Result<Vec<_>>>()?;
        let filter = join.filter.as_ref().map(|filter| join_filter(filter, &build, &probe)).transpose()?;
        let columns: Vec<usize> = match join.join_type {
            JoinType::LeftSemi | JoinType::LeftAnti => build.columns.clone(),
            JoinType::RightSemi | JoinType::RightAnti => probe.columns.clone(),
            _ => build.columns.iter().chain(&probe.columns).copied().collect(),
        };
        let after: Vec<usize> = join.after.iter().flat_map(columns_of).collect();
        let is_read = |column: &usize| needed.contains(column) || after.contains(column);
        let kept: Vec<usize> = (0..columns.len()).filter(|index| is_read(&columns[*index])).collect();
        let mode = mode(build.joined.bytes(), build.joined.rows, self.config);
        let plan = HashJoinExecBuilder::new(build.plan, probe.plan, on, join.join_type)
            .with_filter(filter)
            .with_partition_mode(mode)
            .with_projection((kept.len() < columns.len()).then(|| kept.clone()))
            .build_exec()?;
        let columns: Vec<usize> = kept.into_iter().map(|index| columns[index]).collect();
        let mut built = Built { plan, columns, joined };
        let after = join.after.iter().map(|filter| built.placed(filter)).collect::<Result<Vec<_>>>()?;
        if !after.is_empty() {
            built.plan = Arc::new(FilterExec::try_new(conjunction(after), Arc::clone(&built.plan))?);
        }
        Ok(built)
    }
}

struct Conditions {
    join_type: JoinType,
    on: Vec<(Expr, Expr)>,
    /// Of the pairs that match.
    filter: Option<Expr>,
    /// Of the rows that come out.
    after: Vec<Expr>,
}

fn columns_of(expr: &Expr) -> Vec<usize> {
    collect_columns(expr).iter().map(Column::index).collect()
}

/// An expression of the graph over a plan of `schema` that has these of its columns. Names are the plan's: a projection
/// that is gone may have given others.
fn placed(expr: &Expr, columns: &[usize], schema: &Schema) -> Result<Expr> {
    Arc::clone(expr)
        .transform(|node| {
            let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
            let Some(index) = columns.iter().position(|known| *known == column.index()) else {
                return internal_err!("a join's input lacks a column of its condition");
            };
            Ok(Transformed::yes(Arc::new(Column::new(schema.field(index).name(), index)) as _))
        })
        .data()
}

fn join_filter(filter: &Expr, build: &Built, probe: &Built) -> Result<JoinFilter> {
    let columns: Vec<usize> = columns_of(filter).into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    let mut indices = Vec::new();
    let mut fields = Vec::new();
    for column in &columns {
        let (side, index, schema) = match (build.position(*column), probe.position(*column)) {
            (Some(index), _) => (JoinSide::Left, index, build.plan.schema()),
            (None, Some(index)) => (JoinSide::Right, index, probe.plan.schema()),
            (None, None) => return internal_err!("a join's inputs lack a column of its filter"),
        };
        indices.push(ColumnIndex { index, side });
        fields.push(schema.field(index).clone());
    }
    let schema = Schema::new(fields);
    Ok(JoinFilter::new(placed(filter, &columns, &schema)?, indices, Arc::new(schema)))
}
