//! Rows that were read of a plan already, as a plan of their own: for an operator that goes on where another one has
//! begun to read.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// Stands for a plan of which some rows, or all, were read already: gives the others, once, in one partition.
pub struct HeldExec {
    properties: Arc<PlanProperties>,
    partition: usize,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl HeldExec {
    /// `rows` of one partition of `plan`.
    pub fn new(plan: &Arc<dyn ExecutionPlan>, partition: usize, rows: SendableRecordBatchStream) -> HeldExec {
        HeldExec { properties: Arc::clone(plan.properties()), partition, rows: Mutex::new(Some(rows)) }
    }
}

impl fmt::Debug for HeldExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldExec").field("partition", &self.partition).finish_non_exhaustive()
    }
}

impl DisplayAs for HeldExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeldExec: partition={}", self.partition)
    }
}

impl ExecutionPlan for HeldExec {
    fn name(&self) -> &str {
        "HeldExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    crate::no_expressions!();

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("HeldExec has no children") }
    }

    crate::new_children!();

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).take();
        match rows.filter(|_| partition == self.partition) {
            Some(rows) => Ok(rows),
            None => internal_err!("HeldExec is read once, in one partition"),
        }
    }
}
