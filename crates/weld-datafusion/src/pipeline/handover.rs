//! What happens when the pool refuses memory: the operators that the pipeline replaced, which can spill, start again.
//!
//! ```text
//! partition 0:  groups .. refused ─────────► replaced operators over sources that start again, partition 0
//! partition 1:  groups .. superseded ──────►                                                   partition 1
//! ```
//! No partition may have its rows from both. Who has given rows already stays as it is, which is right only if the
//! partitions of the second run have the same rows as those of the first.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::metrics::MetricBuilder;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use weld_table::TableSource;

use super::table::Table;
use crate::exec::{Inner, WeldExec};
use crate::gate::group;

/// Which operators give the rows of each partition.
#[derive(Debug, Default)]
pub(crate) struct Handover(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Partitions that have given rows of the pipeline, or have none.
    given: HashSet<usize>,
    /// The replaced operators, once they were asked for.
    plan: Option<Arc<dyn ExecutionPlan>>,
}

impl Handover {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a partition may give the pipeline's rows. From then on it is held to it.
    pub(super) fn may_give(&self, partition: usize) -> bool {
        let mut state = self.state();
        if state.plan.is_none() {
            state.given.insert(partition);
        }
        state.plan.is_none() || state.given.contains(&partition)
    }

    /// Whether other partitions have gone over to the replaced operators.
    pub(super) fn has_happened(&self) -> bool {
        self.state().plan.is_some()
    }
}

/// Whether groups could be lost to a lack of memory that DataFusion's operators would answer by spilling: the pool may
/// refuse some, and the input cannot be read again.
pub(super) fn may_lose_groups(inner: &Inner, context: &TaskContext) -> bool {
    let has_limit = !matches!(context.memory_pool().memory_limit(), MemoryLimit::Infinite);
    has_limit
        && group(inner).iter().any(|member| member.pipeline.lowered.keeps_groups)
        && !inner.children.iter().all(can_start_again)
}

/// The rows of a partition from the replaced operators; `None` if they cannot start again.
pub(super) fn hand_over(
    inner: &Inner,
    partition: usize,
    context: &Arc<TaskContext>,
) -> Result<Option<SendableRecordBatchStream>> {
    let mut state = inner.handover.state();
    let plan = match &state.plan {
        Some(plan) => Arc::clone(plan),
        None => {
            let Some(plan) = start_again(inner, &state.given, context)? else { return Ok(None) };
            Arc::clone(state.plan.insert(plan))
        }
    };
    drop(state);
    MetricBuilder::new(&inner.metrics).counter("handovers", partition).add(1);
    plan.execute(partition, Arc::clone(context)).map(Some)
}

fn start_again(
    inner: &Inner,
    given: &HashSet<usize>,
    context: &Arc<TaskContext>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let children = &inner.children;
    if !children.iter().all(can_start_again) {
        return Ok(None);
    }
    if !given.is_empty() && (marks_together(inner) || !children.iter().all(gives_the_same)) {
        return Ok(None);
    }
    log::warn!("a pipeline was refused memory, its query goes on with DataFusion's operators");
    inner.builds().for_each(|build| Table::clear(&build.inner));
    if given.is_empty() {
        // Pipelines below start again as well, and make tables of their own.
        inner.children.iter().for_each(clear_tables);
    }
    let plan = inner.restart()?;
    for &partition in given {
        // Exchanges would keep the rows that nobody takes.
        drop(plan.execute(partition, Arc::clone(context))?);
    }
    Ok(Some(plan))
}

/// Lets go of the tables of all pipelines of a plan. Who runs still keeps those that it reads.
fn clear_tables(plan: &Arc<dyn ExecutionPlan>) {
    if let Some(exec) = plan.downcast_ref::<WeldExec>() {
        exec.inner.builds().for_each(|build| Table::clear(&build.inner));
    }
    plan.children().into_iter().for_each(clear_tables);
}

/// Whether the rows of a partition depend on what the others have met.
fn marks_together(inner: &Inner) -> bool {
    let last = inner.builds().last();
    inner.pipeline.lowered.at_end.is_some() && last.is_some_and(|build| !build.inner.pipeline.partitions.per_partition)
}

/// Whether every source below can be read again from its start.
fn can_start_again(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if plan.children().is_empty() {
        let source = plan.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
        return match source {
            Some(source) => {
                source.is::<MemorySourceConfig>() || source.is::<FileScanConfig>() || source.is::<TableSource>()
            }
            None => plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>() || plan.is::<LazyMemoryExec>(),
        };
    }
    plan.children().into_iter().all(can_start_again)
}

/// Whether a partition has the same rows, in whatever order, when it is executed again: a hash exchange sends them by
/// their values, but partitions of files and encoded tables may take from each other.
pub(super) fn gives_the_same(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let by_value = plan.output_partitioning().partition_count() == 1
        || plan
            .downcast_ref::<RepartitionExec>()
            .is_some_and(|exchange| matches!(exchange.partitioning(), Partitioning::Hash(..)));
    if by_value {
        return !is_volatile(plan);
    }
    match plan.downcast_ref::<DataSourceExec>() {
        Some(source) => match source.data_source().downcast_ref::<TableSource>() {
            Some(table) => table.is_ordered(),
            None => source.data_source().is::<MemorySourceConfig>(),
        },
        None if plan.is::<RepartitionExec>() || plan.children().is_empty() => false,
        None => has_no_volatile(plan) && plan.children().into_iter().all(gives_the_same),
    }
}

fn has_no_volatile(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut volatile = false;
    let found = plan.apply_expressions(&mut |expr: &Arc<dyn PhysicalExpr>| {
        expr.apply(|expr| {
            volatile |= expr.is_volatile_node();
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found.is_ok() && !volatile
}

fn is_volatile(plan: &Arc<dyn ExecutionPlan>) -> bool {
    !has_no_volatile(plan) || plan.children().into_iter().any(is_volatile)
}
