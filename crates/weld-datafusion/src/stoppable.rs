//! Streams that can be dropped while a function runs in them.
//!
//! A function may loop for long, or for ever. Whoever polls its stream cannot drop it meanwhile, for the thread is in
//! the loop: neither a timeout nor Ctrl-C nor a limit above is ever looked at. So where a function has such a loop,
//! each batch is made on a thread of tokio's for blocking work, and the task that wants it waits. When that task, or
//! the stream, is dropped, a flag is raised that loops look at.
//!
//! ```text
//! WeldExec: rows of ProjectionExec                     a pipeline with such a loop sees to that itself
//!   StoppableExec                                      above DataFusion's operators that call such functions
//!     WindowExec: sum(endless(x)) ..
//! ```

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use weld_core::ir::{Expr, ExprKind, Iter};

use crate::exec::WeldExec;
use crate::function::WeldFunction;

/// Whether evaluating an expression may take much longer than reading what it is evaluated of: it has a loop whose
/// length is not that of a vector.
pub(crate) fn may_run_long(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |node| {
        found |= match &node.kind {
            ExprKind::Iterate { .. } => true,
            ExprKind::For { iter, .. } => is_range(iter),
            _ => false,
        }
    });
    found
}

fn is_range(iter: &Iter) -> bool {
    match iter {
        Iter::Range { .. } => true,
        Iter::Zip(iters) => iters.iter().any(is_range),
        _ => false,
    }
}

thread_local! {
    /// Raised when what this thread computes is not wanted any more.
    static CANCEL: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// The flag of the stream for which this thread works; one that nobody raises if there is none.
pub(crate) fn flag() -> Arc<AtomicBool> {
    CANCEL.with_borrow(|flag| flag.clone()).unwrap_or_default()
}

fn with_flag<T>(flag: Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<AtomicBool>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CANCEL.set(self.0.take());
        }
    }
    let _restore = Restore(CANCEL.replace(Some(flag)));
    work()
}

/// A cancellation flag that is raised when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct CancelOnDrop(pub(crate) Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does the work on a thread for blocking work. If this future is dropped, the work is when it waits for something;
/// while it computes, `flag` has to be raised.
pub(crate) async fn on_thread<T: Send + 'static>(
    flag: Arc<AtomicBool>,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    let handle = Handle::current();
    let (_alive, gone) = oneshot::channel::<Infallible>();
    let task = SpawnedTask::spawn_blocking(move || {
        let work = async {
            match select(pin!(work), gone).await {
                Either::Left((made, _)) => Some(made),
                Either::Right(_) => None,
            }
        };
        with_flag(flag, || handle.block_on(work))
    });
    match task.join().await {
        Ok(Some(made)) => Ok(made),
        Ok(None) => internal_err!("nobody waits for a thread's work"),
        Err(error) => Err(internal_datafusion_err!("a thread's work failed: {error}")),
    }
}

/// The same rows; each batch is made on a thread for blocking work.
pub(crate) fn stream(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = stream::try_unfold((CancelOnDrop::default(), rows), |(cancel, mut rows)| async move {
        // Without a runtime the caller has a thread to spare.
        if Handle::try_current().is_err() {
            return Ok(rows.next().await.transpose()?.map(|batch| (batch, (cancel, rows))));
        }
        let next = async move { (rows.next().await, rows) };
        let (batch, rows) = on_thread(Arc::clone(&cancel.0), next).await?;
        Ok(batch.transpose()?.map(|batch| (batch, (cancel, rows))))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// The context in which DataFusion's sorts evaluate their keys in the thread that asks for rows, not in tasks of their
/// own, which would keep the runtime's threads.
fn sorting_here(context: &TaskContext) -> TaskContext {
    let mut config = context.session_config().clone();
    config.options_mut().execution.sort_in_place_threshold_bytes = usize::MAX;
    TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    )
}

/// The plan with a [`StoppableExec`] above each operator, but for pipelines, that calls a function which may run long.
pub(crate) fn stoppable(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    stoppable_below(plan, false)
}

/// `is_below`: there is one above already.
fn stoppable_below(plan: Arc<dyn ExecutionPlan>, is_below: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let is_one = plan.is::<StoppableExec>();
    let children = plan.children().into_iter().map(|child| stoppable_below(Arc::clone(child), is_one));
    let children = children.collect::<Result<Vec<_>>>()?;
    let plan = if children.is_empty() { plan } else { replace_children_if_necessary(plan, children)? };
    let is_own = is_below || is_one || plan.is::<WeldExec>();
    Ok(if !is_own && calls_long(&plan) { Arc::new(StoppableExec { input: plan }) } else { plan })
}

/// Whether an operator calls a function that may run long.
pub(crate) fn calls_long(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_long = |expr: &Arc<dyn PhysicalExpr>| {
        let call = expr.downcast_ref::<ScalarFunctionExpr>();
        let function = call.and_then(|call| call.fun().inner().downcast_ref::<WeldFunction>());
        Ok(function.is_some_and(WeldFunction::may_run_long))
    };
    let mut found = false;
    let visited = plan.apply_expressions(&mut |expr| {
        found |= expr.exists(is_long)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found || visited.is_err()
}

/// Its child's rows, in a stream that can be dropped while a function runs.
#[derive(Debug)]
pub(crate) struct StoppableExec {
    input: Arc<dyn ExecutionPlan>,
}

impl StoppableExec {
    const NAME: &str = "StoppableExec";

    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

impl DisplayAs for StoppableExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) { Ok(()) } else { f.write_str(Self::NAME) }
    }
}

impl ExecutionPlan for StoppableExec {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    weld_plans::rows_in_order!();

    weld_plans::no_expressions!();

    weld_plans::one_input!(input, |node, input| StoppableExec { input });

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(stream(self.input.execute(partition, Arc::new(sorting_here(&context)))?))
    }

    weld_plans::statistics_of_input!();

    fn fetch(&self) -> Option<usize> {
        self.input.fetch()
    }
}
