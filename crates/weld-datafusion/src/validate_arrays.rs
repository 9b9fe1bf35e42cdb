//! What compiled code takes for granted of the batches that it reads, checked on the way in.
//!
//! ```text
//! a column that the plan declares NOT NULL has no null                                        always
//! offsets, views and codes stay inside what they point into                                   by `weld.validate_arrays`
//! text is UTF-8, views are as Arrow wants them                                                if that is `always`
//! ```
//!
//! DataFusion's readers give no other arrays. What is looked at in an array is in [`weld_arrow::check`].

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use weld_arrow::check::{Depth, check_batch};
use weld_table::TableSource;

/// Arrow's error for nulls in a column that is declared to have none.
pub(crate) fn unexpected_nulls(column: &str) -> DataFusionError {
    let message = format!("Column '{column}' is declared as non-nullable but contains null values");
    ArrowError::InvalidArgumentError(message).into()
}

/// Whether all rows of a plan come from files that DataFusion reads, from encoded tables, which have checked theirs, or
/// from nowhere.
pub(crate) fn is_of_datafusions_readers(plan: &dyn ExecutionPlan) -> bool {
    let children = plan.children();
    if !children.is_empty() {
        return children.into_iter().all(|child| is_of_datafusions_readers(child.as_ref()));
    }
    match plan.downcast_ref::<DataSourceExec>() {
        Some(source) => source.data_source().is::<FileScanConfig>() || source.data_source().is::<TableSource>(),
        None => plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>() || plan.is::<LazyMemoryExec>(),
    }
}

/// The stream, which fails where a batch is not as `schema` says, or where an array is broken, as far as `depth` looks.
pub(crate) fn checked(stream: SendableRecordBatchStream, schema: SchemaRef, depth: Depth) -> SendableRecordBatchStream {
    let required = schema.fields().iter().map(|field| !field.is_nullable()).collect::<Vec<_>>();
    if depth == Depth::Nothing && !required.contains(&true) {
        return stream;
    }
    let of = stream.schema();
    let checked = stream.map(move |batch| {
        let batch = batch?;
        for (at, required) in required.iter().enumerate().take(batch.num_columns()) {
            if *required && batch.column(at).null_count() > 0 {
                return Err(unexpected_nulls(schema.field(at).name()));
            }
        }
        check_batch(&batch, depth)?;
        Ok(batch)
    });
    Box::pin(RecordBatchStreamAdapter::new(of, checked))
}
