//! Texts of build sides in few buffers.
//!
//! ```text
//! (((a ⋈ b) ⋈ c) ⋈ d) ⋈ e          each build side is a join; DataFusion puts its batches together
//! ```
//!
//! A view refers to a buffer by its number in the array's list. What a join takes of its build side has the whole list,
//! and putting batches together joins their lists without a look at what they share: each level has as many times the
//! buffers of the level below as it has batches. A query over eleven tables, of which no more than 90,000 rows each were
//! read, spent 70 s on lists of buffers. The texts are a few megabytes, so they are copied instead.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;

/// Texts of an array with more buffers are copied.
const BUFFERS_MAX: usize = 16;

/// The plan with a [`CompactViewsExec`] above each build side of DataFusion's joins that has views and is itself a join.
pub fn with_compact_views(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_down(|node| {
        if !is_join(&node) {
            return Ok(Transformed::no(node));
        }
        let mut children: Vec<_> = node.children().into_iter().cloned().collect();
        let build = &children[0];
        if build.is::<CompactViewsExec>() || !has_views(&build.schema()) || !has_join(build) {
            return Ok(Transformed::no(node));
        }
        children[0] = Arc::new(CompactViewsExec { input: Arc::clone(build) });
        Ok(Transformed::yes(replace_children_if_necessary(node, children)?))
    })
    .data()
}

fn is_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<HashJoinExec>() || plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>()
}

fn has_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.exists(|node| Ok(is_join(node))).unwrap_or(true)
}

fn has_views(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView))
}

/// The rows of its child, the texts of a batch in one buffer where they are in many.
#[derive(Debug)]
pub struct CompactViewsExec {
    input: Arc<dyn ExecutionPlan>,
}

impl CompactViewsExec {
    const NAME: &str = "CompactViewsExec";

    /// Whose rows they are.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }
}

fn compact(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let columns = batch.columns().iter().map(compact_array).collect();
    // A batch without columns has rows all the same, but no texts.
    if batch.num_columns() == 0 { Ok(batch) } else { Ok(RecordBatch::try_new(schema, columns)?) }
}

fn compact_array(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View if array.as_string_view().data_buffers().len() > BUFFERS_MAX => {
            Arc::new(array.as_string_view().gc())
        }
        DataType::BinaryView if array.as_binary_view().data_buffers().len() > BUFFERS_MAX => {
            Arc::new(array.as_binary_view().gc())
        }
        _ => Arc::clone(array),
    }
}

impl DisplayAs for CompactViewsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(format, DisplayFormatType::TreeRender) { Ok(()) } else { f.write_str(Self::NAME) }
    }
}

impl ExecutionPlan for CompactViewsExec {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    crate::rows_in_order!();

    crate::no_expressions!();

    crate::one_input!(input, |node, input| CompactViewsExec { input });

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let schema = rows.schema();
        let rows = rows.map(|batch| compact(batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    crate::statistics_of_input!();

    fn fetch(&self) -> Option<usize> {
        self.input.fetch()
    }
}
