//! A source that can give its columns encoded, whichever it is.

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast_with_options;
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::Result;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use weld_plans::KeyFilterExec;
use weld_table::{Shared, TableSource};

use super::{CAST, ParquetScan, Request, coded, narrow};
use crate::config::WeldOptions;
use crate::validate_arrays;

/// What the partitions of one run of a source share.
#[derive(Debug, Default)]
pub(crate) struct Sharing(OnceLock<Option<Shared>>);

impl Sharing {
    /// What they share, which the first that asks makes.
    pub(super) fn get(&self, make: impl FnOnce() -> Option<Shared>) -> Option<&Shared> {
        self.0.get_or_init(make).as_ref()
    }
}

/// A source whose columns come in other types than it declares.
pub(crate) enum EncodedSource<'a> {
    Parquet(ParquetScan<'a>),
    Table(&'a TableSource),
    /// Rows of a table, of which some are dropped.
    Filtered(&'a KeyFilterExec, &'a TableSource),
}

impl<'a> EncodedSource<'a> {
    /// The source that a plan node is, if it is one.
    pub(crate) fn of(plan: &'a dyn ExecutionPlan) -> Option<EncodedSource<'a>> {
        if let Some(filter) = plan.downcast_ref::<KeyFilterExec>() {
            return table(filter.input().as_ref()).map(|table| EncodedSource::Filtered(filter, table));
        }
        match table(plan) {
            Some(table) => Some(EncodedSource::Table(table)),
            None => ParquetScan::of(plan).ok().map(EncodedSource::Parquet),
        }
    }

    /// The type in which a column comes; `as_code` if it was asked for as codes.
    pub(crate) fn stored_type(&self, column: usize, declared: &DataType, as_code: bool) -> DataType {
        match self {
            EncodedSource::Parquet(_) if as_code => coded(declared),
            EncodedSource::Parquet(_) => narrow(declared),
            EncodedSource::Table(table) | EncodedSource::Filtered(_, table) => {
                table.stored_type(column).unwrap_or(declared).clone()
            }
        }
    }

    /// The rows of a partition.
    fn stream(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
        sharing: &Sharing,
        request: Request<'_>,
    ) -> Result<SendableRecordBatchStream> {
        let of_table = |table: &TableSource| {
            let shared = sharing.get(|| table.create_sibling_state(context.session_config().options()));
            table.open_stored(partition, context, shared)
        };
        match self {
            EncodedSource::Parquet(scan) => scan.stream(partition, context, sharing, request),
            EncodedSource::Table(table) => of_table(table),
            EncodedSource::Filtered(filter, table) => Ok(filter.filtered(of_table(table)?, partition, context)),
        }
    }
}

fn table(plan: &dyn ExecutionPlan) -> Option<&TableSource> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<TableSource>()
}

/// The rows of a partition of `source`, encoded where it can give them so and that is `enabled`.
pub(crate) fn execute(
    source: &Arc<dyn ExecutionPlan>,
    partition: usize,
    context: Arc<TaskContext>,
    enabled: bool,
    sharing: &Sharing,
    request: Request<'_>,
) -> Result<SendableRecordBatchStream> {
    match EncodedSource::of(source.as_ref()).filter(|_| enabled) {
        Some(encoded) => encoded.stream(partition, &context, sharing, request),
        None => {
            let validate = WeldOptions::of(context.session_config().options()).validate_arrays;
            let depth = validate.of(|| !validate_arrays::is_of_datafusions_readers(source.as_ref()));
            Ok(validate_arrays::checked(source.execute(partition, context)?, source.schema(), depth))
        }
    }
}

/// Rows of `source` that may have come encoded, in the types that it declares.
pub(crate) fn in_declared_types(
    source: &Arc<dyn ExecutionPlan>,
    rows: SendableRecordBatchStream,
) -> SendableRecordBatchStream {
    let table = match EncodedSource::of(source.as_ref()) {
        Some(EncodedSource::Table(table) | EncodedSource::Filtered(_, table)) => Some(table.clone()),
        Some(EncodedSource::Parquet(_)) => None,
        None => return rows,
    };
    let schema = source.schema();
    let declared_schema = Arc::clone(&schema);
    let declared = move |batch: Result<RecordBatch>| match &table {
        Some(table) => table.declared(&batch?),
        None => cast_batch(&batch?, &declared_schema),
    };
    Box::pin(RecordBatchStreamAdapter::new(schema, rows.map(declared)))
}

fn cast_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |(array, field): (&ArrayRef, &Arc<Field>)| match array.data_type() == field.data_type() {
        true => Ok(Arc::clone(array)),
        false => cast_with_options(array, field.data_type(), &CAST),
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column).collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
