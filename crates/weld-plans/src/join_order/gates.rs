//! Which inputs of joins run only where others have rows.
//!
//! ```text
//! a JOIN (SELECT k, 10 / z FROM b)      `a` is built first; where it has no row, nothing of `b` is evaluated
//! ```
//!
//! A join that is not given a row to build does not run its probe side, so an expression that fails there is an error
//! of no query. An order that runs such an input without what kept it from running would add errors.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::graph::{Graph, Kind, Set, Tree};
use crate::expr::{all_exprs, cannot_fail};

/// Inputs that may fail, each with the sets of relations that have rows where it runs.
///
/// An order compares columns of one input that all equal a column of another by a filter above the input, which
/// DataFusion moves below it with what the columns are computed of: on rows that no join has dropped yet.
pub(super) struct Gates(Vec<(usize, Vec<Set>)>);

impl Gates {
    /// Those of the joins as they were written.
    pub(super) fn of(graph: &Graph) -> Gates {
        let fails = |relation: &usize| may_fail(&graph.relations[*relation].plan);
        let failing = (0..graph.relations.len()).filter(fails);
        Gates(failing.map(|relation| (relation, gates(graph, &graph.tree, relation))).collect())
    }

    /// Whether none of them runs in `tree` where it would not. More relations joined have rows only where fewer have.
    pub(super) fn are_kept(&self, graph: &Graph, tree: &Tree) -> bool {
        self.0.iter().all(|(relation, written)| {
            if graph.compares_columns_of(*relation) {
                return false;
            }
            let kept = gates(graph, tree, *relation);
            written.iter().all(|gate| kept.iter().any(|other| gate & !other == 0))
        })
    }
}

/// The sets of relations whose joins must have a row for `relation` to run.
fn gates(graph: &Graph, tree: &Tree, relation: usize) -> Vec<Set> {
    let (mut tree, mut all) = (tree, Vec::new());
    while let Tree::Join(build, probe, _) = tree {
        if build.relations() & (1 << relation) != 0 {
            tree = build;
            continue;
        }
        let kind = match **build {
            Tree::Relation(built) => graph.relations[built].attached.as_ref().map(|attached| attached.kind),
            Tree::Join(..) => None,
        };
        // Rows without a match are kept by the others.
        if matches!(kind, None | Some(Kind::Semi)) {
            all.push(build.relations());
        }
        tree = probe;
    }
    all
}

/// Whether an expression of the plan may fail.
pub(super) fn may_fail(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut fails = false;
    let visited = plan.apply(|node| {
        let aggregate = node.downcast_ref::<AggregateExec>();
        if aggregate.is_some_and(|aggregate| aggregate.mode().input_mode() == AggregateInputMode::Partial) {
            // Its expressions were evaluated below.
            return Ok(TreeNodeRecursion::Continue);
        }
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            fails |= join_may_fail(join);
            return Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue });
        }
        let reads_input = aggregate.is_some() || node.is::<FilterExec>() || node.is::<ProjectionExec>();
        let schema = reads_input.then(|| node.children()[0].schema());
        fails |= !all_exprs(node.as_ref(), |expr| cannot_fail(expr, schema.as_deref()));
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.is_err() || fails
}

fn join_may_fail(join: &HashJoinExec) -> bool {
    let (left, right) = (join.left().schema(), join.right().schema());
    let filter = join.filter().is_none_or(|filter| cannot_fail(filter.expression(), Some(filter.schema())));
    !filter || !join.on().iter().all(|(l, r)| cannot_fail(l, Some(&left)) && cannot_fail(r, Some(&right)))
}
