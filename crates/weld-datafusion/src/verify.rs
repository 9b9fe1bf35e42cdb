//! `weld.verify`: both engines run, and the query fails with the first difference.
//!
//! ```sql
//! SET weld.verify = true;
//! ```
//!
//! The plan as it was before pipelines were compiled runs first, to its end, on DataFusion's operators; then the plan
//! with compiled pipelines. What `weld.plans` has rewritten is rewritten in both. Both results are held in memory and
//! compared by [`compare`](crate::compare). What cannot be compared runs on Weld alone, and EXPLAIN and the metric
//! `unverified` say so: plans without an end, and volatile functions. Where the query itself leaves a choice (LIMIT
//! without a total order, window functions over rows that tie, percentiles by digests and correlations, which depend on
//! the order in which rows are taken), results that differ in what is chosen pass. Sources of the first run read rows
//! that filters of joins and sorts keep from them elsewhere: values that make it fail pass.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, Literal, lit};
use datafusion::physical_plan::execution_plan::{replace_children_if_necessary, reset_plan_states};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, collect_partitioned,
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::OnceCell;

use crate::compare::{self, Answer, error_class};
use crate::verify::choice::Choice;

mod choice;
mod ties;

/// What is to be said of two results of one query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Same,
    /// They differ in what the query leaves open: which rows of a tie a LIMIT takes, the merged digests of percentiles.
    Open,
    /// The first difference that it does not.
    Differs(String),
}

/// Compares the result of a stock DataFusion plan, which has been executed, with another one's. Fails if Arrow cannot
/// compare them.
pub fn verdict(stock: &Arc<dyn ExecutionPlan>, expected: &Answer, found: &Answer) -> Result<Verdict> {
    judged(stock, expected, found, compare::difference(expected, found)?)
}

/// What a `difference` means, if there is one.
fn judged(
    stock: &Arc<dyn ExecutionPlan>,
    expected: &Answer,
    found: &Answer,
    difference: Option<String>,
) -> Result<Verdict> {
    let Some(difference) = difference else { return Ok(Verdict::Same) };
    let left = Choice::of(stock).difference(expected, found, difference)?;
    Ok(left.map_or(Verdict::Open, Verdict::Differs))
}

/// `weld` with its rows compared with those of `stock`, the plan in whose place it stands.
///
/// A node that writes, or that shows a plan, runs once: what it reads is compared.
pub(crate) fn beside(weld: Arc<dyn ExecutionPlan>, stock: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if Arc::ptr_eq(&weld, stock) {
        return Ok(weld);
    }
    if matches!(weld.name(), "DataSinkExec" | "AnalyzeExec" | "OutputRequirementExec") && weld.name() == stock.name() {
        let pairs = weld.children().into_iter().cloned().zip(stock.children());
        let children = pairs.map(|(weld, stock)| beside(weld, stock)).collect::<Result<Vec<_>>>()?;
        return replace_children_if_necessary(weld, children);
    }
    let stock = match choice::not_comparable(stock)? {
        Some(reason) => Err(reason),
        None => Ok(ties::watched(Arc::clone(stock))?),
    };
    Ok(Arc::new(VerifyExec::new(weld, stock)))
}

/// Gives the rows of `weld`, once they were compared with those of `stock`.
#[derive(Debug)]
pub(crate) struct VerifyExec {
    weld: Arc<dyn ExecutionPlan>,
    /// Or why nothing is compared.
    stock: Result<Arc<dyn ExecutionPlan>, &'static str>,
    compared: Arc<OnceCell<Compared>>,
    /// Whether the plans were run before, and given up.
    begun: Arc<AtomicBool>,
    metrics: ExecutionPlanMetricsSet,
}

/// The rows by partition, and the memory that they take.
#[derive(Debug)]
struct Compared {
    partitions: Result<Vec<Vec<RecordBatch>>, Arc<DataFusionError>>,
    _memory: MemoryReservation,
}

impl VerifyExec {
    pub(crate) const NAME: &str = "WeldVerify";

    fn new(weld: Arc<dyn ExecutionPlan>, stock: Result<Arc<dyn ExecutionPlan>, &'static str>) -> VerifyExec {
        VerifyExec {
            weld,
            stock,
            compared: Arc::default(),
            begun: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// One comparison: both plans, and where its outcome is counted.
struct Comparison {
    weld: Arc<dyn ExecutionPlan>,
    stock: Arc<dyn ExecutionPlan>,
    begun: Arc<AtomicBool>,
    metrics: ExecutionPlanMetricsSet,
}

impl Comparison {
    async fn run(self, context: Arc<TaskContext>) -> Compared {
        let memory = MemoryConsumer::new(VerifyExec::NAME).register(context.memory_pool());
        let partitions = self.rows(&context, &memory).await.map_err(Arc::new);
        Compared { partitions, _memory: memory }
    }

    async fn rows(&self, context: &Arc<TaskContext>, memory: &MemoryReservation) -> Result<Vec<Vec<RecordBatch>>> {
        // The plans share sources, whose state is the first run's; a join's filter is left to its new owner.
        let stock = reset_plan_states(Arc::clone(&self.stock))?;
        self.forget_bounds()?;
        ties::forget_ties(&self.stock)?;
        let expected = self.timed("stock_time", collect(&stock, context, memory)).await;
        // What scalar subqueries gave is kept where the other plan's put theirs: this clears it.
        drop(reset_plan_states(stock)?);
        self.forget_bounds()?;
        let again = self.begun.swap(true, Ordering::Relaxed);
        let weld = if again { reset_plan_states(Arc::clone(&self.weld))? } else { Arc::clone(&self.weld) };
        let found = self.timed("weld_time", collect(&weld, context, memory)).await;
        let (expected, found) = match (expected, found) {
            (Ok(expected), Ok(found)) => (expected, found),
            (Err(error), Ok(found)) if choice::may_read_more(&self.stock, &error)? => {
                MetricBuilder::new(&self.metrics).counter("unverified", 0).add(1);
                return Ok(found);
            }
            (expected, found) => return self.failed(expected.err(), found.err()),
        };
        self.compare(&expected, &found)?;
        Ok(found)
    }

    /// Takes back what sources were told by an earlier run, of the least and greatest values that it had seen: the next
    /// run needs these rows again. A reset gives operators new filters, or none, and sources keep those that they have.
    fn forget_bounds(&self) -> Result<()> {
        let forget = |expr: &Arc<dyn PhysicalExpr>| {
            if let Some(filter) = expr.downcast_ref::<DynamicFilterPhysicalExpr>()
                && !filter.current()?.is::<Literal>()
            {
                filter.update(lit(true))?;
            }
            Ok(TreeNodeRecursion::Continue)
        };
        for plan in [&self.stock, &self.weld] {
            plan.apply(|node| node.apply_expressions(&mut |expr| expr.apply(forget)))?;
        }
        Ok(())
    }

    async fn timed<T>(&self, name: &'static str, work: impl Future<Output = T>) -> T {
        let time = MetricBuilder::new(&self.metrics).subset_time(name, 0);
        let _timer = time.timer();
        work.await
    }

    fn compare(&self, expected: &[Vec<RecordBatch>], found: &[Vec<RecordBatch>]) -> Result<()> {
        let schema = self.stock.schema();
        let answer = |schema, partitions: &[Vec<RecordBatch>]| Answer {
            schema,
            batches: partitions.concat(),
            ordering: self.stock.output_ordering().filter(|_| partitions.len() == 1).cloned(),
        };
        let (whole, answered) = (answer(schema, expected), answer(self.weld.schema(), found));
        let difference = match compare::difference(&whole, &answered)? {
            None => compare::order_difference(expected, found, self.stock.output_ordering())?,
            difference => difference,
        };
        match judged(&self.stock, &whole, &answered, difference)? {
            Verdict::Same => {
                MetricBuilder::new(&self.metrics).counter("verified_rows", 0).add(answered.rows());
                Ok(())
            }
            Verdict::Open => {
                MetricBuilder::new(&self.metrics).counter("unverified", 0).add(1);
                Ok(())
            }
            Verdict::Differs(difference) => {
                Err(self.differs(&format!("Weld's result is not stock DataFusion's: {difference}")))
            }
        }
    }

    /// One of the two failed, or both.
    fn failed(&self, stock: Option<DataFusionError>, weld: Option<DataFusionError>) -> Result<Vec<Vec<RecordBatch>>> {
        Err(match (stock, weld) {
            (Some(stock), Some(weld)) if error_class(&stock) == error_class(&weld) => weld,
            (Some(stock), Some(weld)) => self.differs(&format!(
                "Weld fails otherwise than stock DataFusion: {}\nstock DataFusion: {}",
                weld.strip_backtrace(),
                stock.strip_backtrace()
            )),
            (None, Some(weld)) => {
                self.differs(&format!("Weld fails where stock DataFusion does not: {}", weld.strip_backtrace()))
            }
            (Some(stock), None) => {
                self.differs(&format!("stock DataFusion fails where Weld does not: {}", stock.strip_backtrace()))
            }
            (None, None) => return internal_err!("neither engine failed"),
        })
    }

    fn differs(&self, how: &str) -> DataFusionError {
        MetricBuilder::new(&self.metrics).counter("differences", 0).add(1);
        DataFusionError::Execution(format!("weld.verify: {how}"))
    }
}

/// All rows of a plan, by partition, with their memory taken.
async fn collect(
    plan: &Arc<dyn ExecutionPlan>,
    context: &Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<Vec<Vec<RecordBatch>>> {
    let partitions = collect_partitioned(Arc::clone(plan), Arc::clone(context)).await?;
    memory.try_grow(partitions.iter().flatten().map(RecordBatch::get_array_memory_size).sum())?;
    Ok(partitions)
}

impl DisplayAs for VerifyExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stock {
            Ok(_) => write!(f, "{}: compares with stock DataFusion", Self::NAME),
            Err(reason) => write!(f, "{}: not compared: {reason}", Self::NAME),
        }
    }
}

impl ExecutionPlan for VerifyExec {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.weld.properties()
    }

    weld_plans::rows_in_order!();

    weld_plans::no_expressions!();

    weld_plans::one_input!(weld, |node, weld| VerifyExec::new(weld, node.stock.clone()));

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Ok(stock) = &self.stock else {
            MetricBuilder::new(&self.metrics).counter("unverified", partition).add(1);
            return self.weld.execute(partition, context);
        };
        let comparison = Comparison {
            weld: Arc::clone(&self.weld),
            stock: Arc::clone(stock),
            begun: Arc::clone(&self.begun),
            metrics: self.metrics.clone(),
        };
        let compared = Arc::clone(&self.compared);
        let rows = async move {
            let compared = compared.get_or_init(|| comparison.run(context)).await;
            let partitions =
                compared.partitions.as_ref().map_err(|error| DataFusionError::Shared(Arc::clone(error)))?;
            let batches = partitions.get(partition).cloned().unwrap_or_default();
            Ok::<_, DataFusionError>(stream::iter(batches).map(Ok))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(rows).try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

#[cfg(test)]
mod tests;
