//! Sources that wait, fail or tell how far they were read.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::exec_datafusion_err;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};

/// What happens after the batches of a [`Source`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// No more rows.
    Ends,
    /// An error.
    Fails,
    /// A panic.
    Panics,
    /// Nothing, ever.
    Waits,
}

/// Gives its batches one after the other.
pub(crate) struct Source {
    batches: Vec<RecordBatch>,
    end: End,
    schema: SchemaRef,
    /// Batches that were asked for, the end included.
    pub(crate) read: Arc<AtomicUsize>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl PartitionStream for Source {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (batches, end, read) = (self.batches.clone(), self.end, Arc::clone(&self.read));
        let counted = Arc::clone(&read);
        let given = stream::iter(batches).map(move |batch| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(batch)
        });
        let last = stream::once(async move {
            read.fetch_add(1, Ordering::Relaxed);
            match end {
                End::Ends => None,
                End::Fails => Some(Err(exec_datafusion_err!("the source fails"))),
                End::Panics => panic!("the source panics"),
                End::Waits => std::future::pending().await,
            }
        });
        let rows = given.chain(last.filter_map(std::future::ready));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

/// Registers a table of one partition that gives `batches`, and returns how many of them were read.
pub(crate) fn register(
    context: &SessionContext,
    name: &str,
    batches: Vec<RecordBatch>,
    end: End,
    infinite: bool,
) -> Arc<AtomicUsize> {
    let schema = batches[0].schema();
    let read = Arc::new(AtomicUsize::new(0));
    let source = Source { batches, end, schema: Arc::clone(&schema), read: Arc::clone(&read) };
    let table = StreamingTable::try_new(schema, vec![Arc::new(source)]).expect("one schema");
    context.register_table(name, Arc::new(table.with_infinite_table(infinite))).expect("a new name");
    read
}

/// One column `k` of the numbers from `first` on.
pub(crate) fn numbers(first: i64, rows: usize) -> RecordBatch {
    let column = arrow::array::Int64Array::from_iter_values((first..).take(rows));
    RecordBatch::try_from_iter([("k", Arc::new(column) as _)]).expect("one column")
}
