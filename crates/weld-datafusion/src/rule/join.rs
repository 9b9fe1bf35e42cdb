//! Joins in a plan: a pipeline for the build side; the probe side goes on in the pipeline of what is above, or in one
//! that ends with the join.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::PartitionMode;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use weld_plans::{JoinKeys, JoinKeysExec, is_filter_used};

use super::{Built, Chain, Rewriter, Taken, Takes, enabled, merges};
use crate::dynamic_filter::TableKeys;
use crate::exec::{DynamicFilter, Fused, WeldExec};
use crate::lower::join::node::JoinNode;
use crate::lower::join::{BuildColumns, Table};
use crate::lower::pipeline::{Output, Sink, Step};
use crate::lower::{self, Unsupported};

/// Interning a text takes about as long as hashing and comparing it in a table of groups for so many rows: one of few
/// texts, which stay in the cache, and one of many, where each is a miss of it or several.
const ROWS_PER_INTERNED: f64 = 2.0;
const ROWS_PER_INTERNED_OF_MANY: f64 = 10.0;
const MANY_TEXTS: f64 = 32_768.0;

impl Rewriter<'_> {
    /// A join is taken whole: its build side becomes a pipeline, its probe side goes on in this one.
    pub(super) fn join(
        &mut self,
        node: lower::Result<JoinNode<'_>>,
        chain: &mut Chain,
    ) -> Result<lower::Result<Taken>> {
        let node = match node {
            Ok(node) => node,
            Err(unsupported) => return Ok(Err(unsupported)),
        };
        let declined = self.declined.len();
        let taken = self.try_join(node, chain)?;
        if taken.is_err() {
            // What was noted about the build side is noted again when it is visited by itself.
            self.declined.truncate(declined);
        }
        Ok(taken)
    }

    fn try_join(&mut self, node: JoinNode<'_>, chain: &mut Chain) -> Result<lower::Result<Taken>> {
        let no = |why: &str| Ok(Err(Unsupported::new(node.plan.name(), why)));
        let fetch = node.plan.fetch();
        if node.join.preserves_build() {
            return no("ends a pipeline of its own");
        }
        if fetch.is_some() && !chain.passes_limits {
            return no("stops at a limit below other operators");
        }
        let needed = node.join.needed(&chain.needed).1;
        let columns = BuildColumns { interned: self.interned(&node, &chain.keys), needed };
        let (build, table) = match self.build_side(&node, columns, false)? {
            Ok(built) => built,
            Err(unsupported) => return Ok(Err(unsupported)),
        };
        let input = Arc::clone(node.right);
        let exprs: Vec<_> = node.join.exprs().cloned().collect();
        let step = Step::Probe { join: node.join.clone(), table };
        if let Err(unsupported) = step.check(&input.schema(), &chain.needed) {
            return Ok(Err(unsupported));
        }
        chain.exprs.extend(exprs);
        chain.fetch = chain.fetch.or(fetch);
        chain.builds.push((build, Arc::clone(node.left)));
        let input = self.probe_side(&node, chain);
        Ok(Ok(Taken { step, input }))
    }

    /// The build side's columns that are worth interning: texts that a larger number of rows is grouped by afterwards.
    fn interned(&self, node: &JoinNode<'_>, keys: &[usize]) -> Vec<bool> {
        let texts = node.join.texts_of_build(keys);
        if !self.options.intern || !texts.contains(&true) {
            return vec![false; texts.len()];
        }
        let built = self.rows.of(node.left).map(|rows| rows.count as f64);
        let probing = self.rows.of(node.right).map(|rows| rows.count as f64);
        let given = self.expected.of(node.plan).into_iter().chain(probing).reduce(f64::min);
        let Some((built, given)) = built.zip(given) else { return texts };
        let pays = |column: usize| {
            let of_column = self.expected.distinct(node.left, column).map_or(built, |distinct| distinct.min(built));
            let rows_per = if of_column > MANY_TEXTS { ROWS_PER_INTERNED_OF_MANY } else { ROWS_PER_INTERNED };
            built * rows_per <= given
        };
        texts.into_iter().enumerate().map(|(column, is_text)| is_text && pays(column)).collect()
    }

    pub(super) fn recognised<'a>(&self, plan: &'a Arc<dyn ExecutionPlan>) -> Option<lower::Result<JoinNode<'a>>> {
        let node = JoinNode::of(plan)?;
        Some(enabled(self.options.join, plan.name(), "weld.join").and(node))
    }

    /// The probe side, without an exchange that nobody needs.
    fn probe_side(&self, node: &JoinNode<'_>, chain: &mut Chain) -> Arc<dyn ExecutionPlan> {
        match self.droppable_exchange(node.right, chain.keep_partitioning) {
            Some(below) => {
                (chain.dropped_exchange, chain.moves_rows) = (true, true);
                chain.relies = false;
                below
            }
            None => {
                chain.relies |= node.mode == PartitionMode::Partitioned;
                Arc::clone(node.right)
            }
        }
    }

    /// The end of a pipeline: a join that gives rows of its build side for themselves.
    pub(super) fn preserving_join(
        &mut self,
        node: JoinNode<'_>,
        keep_partitioning: bool,
    ) -> Result<lower::Result<(Sink, Chain)>> {
        let declined = self.declined.len();
        let started = self.try_preserving_join(node, keep_partitioning)?;
        if started.is_err() {
            self.declined.truncate(declined);
        }
        Ok(started)
    }

    fn try_preserving_join(
        &mut self,
        node: JoinNode<'_>,
        keep_partitioning: bool,
    ) -> Result<lower::Result<(Sink, Chain)>> {
        // Rows of the build side leave in the partition that has seen the end of the probe side: one table for all
        // partitions loses how they were partitioned.
        let is_partitioned = node.mode == PartitionMode::Partitioned;
        let per_partition = is_partitioned && keep_partitioning;
        if per_partition && node.join.is_null_aware() {
            return Ok(Err(Unsupported::new(node.plan.name(), "NOT IN over partitions")));
        }
        let columns = BuildColumns::plain(node.join.needed_for_all().1);
        let (build, table) = match self.build_side(&node, columns, per_partition)? {
            Ok(built) => built,
            Err(unsupported) => return Ok(Err(unsupported)),
        };
        let sink = Sink::Join { join: node.join.clone(), table };
        if let Err(unsupported) = sink.check(&node.right.schema()) {
            return Ok(Err(unsupported));
        }
        let mut chain = Chain::new(node.right, &sink, keep_partitioning);
        chain.source = self.probe_side(&node, &mut chain);
        chain.moves_rows |= is_partitioned && !per_partition;
        chain.builds.push((build, Arc::clone(node.left)));
        chain.exprs = node.join.exprs().cloned().collect();
        chain.fused.push(Fused::new(node.plan));
        chain.fetch = node.plan.fetch();
        Ok(Ok((sink, chain)))
    }

    /// The pipeline that builds a join's table. All its partitions build one table, so neither gathering nor exchanging
    /// rows is needed below it, unless there is to be one `per_partition`. An exchange that merges ordered inputs
    /// stays: rows that match one row come in the build side's order.
    fn build_side(
        &mut self,
        node: &JoinNode<'_>,
        columns: BuildColumns,
        per_partition: bool,
    ) -> Result<lower::Result<(Arc<dyn ExecutionPlan>, Table)>> {
        let left = node.left;
        let input = match (left.downcast_ref::<CoalescePartitionsExec>(), left.downcast_ref::<RepartitionExec>()) {
            _ if per_partition => left,
            (Some(coalesce), _) if coalesce.fetch().is_none() => coalesce.input(),
            (_, Some(exchange)) if matches!(exchange.partitioning(), Partitioning::Hash(..)) && !merges(exchange) => {
                exchange.input()
            }
            _ => left,
        };
        let keeps_input = Arc::ptr_eq(input, left);
        // The table has the keys; whoever runs the replaced operators collects them.
        let collects = input.downcast_ref::<JoinKeysExec>();
        let (input, keys) = match collects.and_then(|exec| Some((exec.input(), table_keys(node, exec.keys())?))) {
            Some((below, keys)) => (below, Some(keys)),
            None => (input, None),
        };
        // Keys are collected for a filter that somebody reads; a table in memory does not.
        let is_used = |id| is_filter_used(node.right, id);
        let filter = node.plan.dynamic_expressions_produced().pop();
        let filter = filter.filter(|filter| filter.expression_id().is_some_and(is_used));
        let sink = Sink::Build { join: node.join.clone(), columns, bounds: filter.is_some() };
        if let Err(unsupported) = sink.check(&input.schema()) {
            return Ok(Err(unsupported));
        }
        let mut chain = Chain::new(input, &sink, per_partition);
        chain.relies = keeps_input && node.mode != PartitionMode::Auto;
        self.extend(&mut chain, Takes { groups: false, ..Takes::ALL })?;
        let feeds = filter.map(|filter| DynamicFilter {
            filter,
            probe_keys: node.join.probe_keys().to_vec(),
            probe_schema: node.right.schema(),
            passes_nulls: node.join.sees_null_keys(),
        });
        let built = Built { feeds, keys, per_partition };
        Ok(self.finish(chain, sink, left, built)?.and_then(|build| {
            let exec = build.downcast_ref::<WeldExec>().map(|exec| exec.inner.pipeline.lowered.output.clone());
            match exec {
                Some(Output::Table(table)) => Ok((build, table)),
                _ => Err(Unsupported::new(node.plan.name(), "its build side makes no table")),
            }
        }))
    }

    /// The input of a hash exchange that nobody needs: the table is shared by all partitions.
    fn droppable_exchange(&self, plan: &Arc<dyn ExecutionPlan>, keep: bool) -> Option<Arc<dyn ExecutionPlan>> {
        let exchange = plan.downcast_ref::<RepartitionExec>().filter(|_| self.options.drop_exchanges && !keep)?;
        let Partitioning::Hash(_, partitions) = exchange.partitioning() else { return None };
        let input = exchange.input();
        (input.output_partitioning().partition_count() == *partitions).then(|| Arc::clone(input))
    }
}

/// Which of the join's keys the collected ones are.
fn table_keys(node: &JoinNode<'_>, keys: &Arc<JoinKeys>) -> Option<TableKeys> {
    let part = |key: &Arc<dyn PhysicalExpr>| node.join.build_keys().iter().position(|known| known.eq(key));
    let parts = keys.exprs().iter().map(part).collect::<Option<Vec<_>>>()?;
    Some(TableKeys { keys: Arc::clone(keys), parts })
}
