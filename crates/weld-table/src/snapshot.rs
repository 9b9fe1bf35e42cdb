//! The rows of a table at one moment, and how they are made.
//!
//! Rows that are added make a new snapshot, which has the blocks of the one before: whoever reads that one goes on
//! reading it.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{BatchCoalescer, CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::FormatOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics, plan_err};
use datafusion::execution::memory_pool::MemoryReservation;

use crate::column::{Column, ColumnBuilder};

/// As many zones make a block at most.
const BLOCK_ZONES: usize = 16;

/// Values that do not fit the table's types are errors.
const CAST: CastOptions<'static> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// The rows of a table.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// With the declared types.
    pub(crate) schema: SchemaRef,
    /// With those of the blocks.
    stored: SchemaRef,
    pub(crate) blocks: Vec<RecordBatch>,
    pub(crate) columns: Vec<Column>,
    /// Where each zone is.
    pub(crate) zones: Vec<ZonePlace>,
    zone_rows: usize,
    pub(crate) rows: usize,
    /// Of all columns, once someone has asked: planning a query asks often, and sums up sketches and zones for it.
    statistics: OnceLock<Vec<ColumnStatistics>>,
    /// The table's part of the pool; freed when nobody reads any snapshot of it.
    memory: Arc<MemoryReservation>,
}

/// Rows of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ZonePlace {
    pub(crate) block: usize,
    pub(crate) start: usize,
    pub(crate) rows: usize,
}

impl Snapshot {
    /// The schema of these columns as they are stored.
    pub(crate) fn stored_schema(&self, columns: &[usize]) -> Result<SchemaRef> {
        Ok(Arc::new(self.stored.project(columns)?))
    }

    /// `stored` values of these columns in the declared types of `schema`.
    pub(crate) fn declared(&self, columns: &[usize], schema: &SchemaRef, stored: &RecordBatch) -> Result<RecordBatch> {
        let of = |(index, array): (&usize, &ArrayRef)| self.columns[*index].decode(array);
        let arrays = columns.iter().zip(stored.columns()).map(of).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(stored.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
    }

    /// What is known of these columns.
    pub(crate) fn statistics(&self, columns: &[usize]) -> Statistics {
        let of_all = || self.columns.iter().map(|column| self.column_statistics(column)).collect();
        let known: &Vec<ColumnStatistics> = self.statistics.get_or_init(of_all);
        let columns: Vec<_> = columns.iter().map(|index| known[*index].clone()).collect();
        let bytes = columns.iter().filter_map(|column| column.byte_size.get_value()).sum();
        Statistics {
            num_rows: Precision::Exact(self.rows),
            total_byte_size: Precision::Inexact(bytes),
            column_statistics: columns,
        }
    }

    fn column_statistics(&self, column: &Column) -> ColumnStatistics {
        // Of zeros both signs are taken.
        let is_exact = !column.declared.is_floating();
        let known = |value| if is_exact { Precision::Exact(value) } else { Precision::Inexact(value) };
        let (min_value, max_value) = match column.zones.whole(&column.declared) {
            Some((min, _)) if defeats_estimates(&min) => (Precision::Absent, Precision::Absent),
            Some((min, max)) => (known(min), known(max)),
            None => (Precision::Absent, Precision::Absent),
        };
        ColumnStatistics {
            null_count: Precision::Exact(column.zones.null_count()),
            min_value,
            max_value,
            distinct_count: column.distinct(self.rows),
            byte_size: Precision::Inexact(column.declared_bytes),
            ..ColumnStatistics::new_unknown()
        }
    }
}

/// Whether DataFusion fails to estimate filters over a column whose least value it knows to be this: at the least
/// integer one of `-column`, of dates one of `column - other`, which it takes for a duration, and of times in a zone
/// one of their dates: it expects more rows than there are.
fn defeats_estimates(min: &ScalarValue) -> bool {
    let data_type = min.data_type();
    let is_time = matches!(data_type, DataType::Date32 | DataType::Timestamp(_, Some(_)));
    is_time || (data_type.is_signed_integer() && min.arithmetic_negate().is_err())
}

/// Rows on their way into a snapshot.
pub(crate) struct SnapshotBuilder {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    /// The rows of each block.
    blocks: Vec<usize>,
    /// Rows that are no block yet, where blocks are made of several batches.
    waiting: Option<BatchCoalescer>,
    zone_rows: usize,
    /// Held by the snapshots before.
    memory: Arc<MemoryReservation>,
    before: usize,
    /// Asked for since.
    grown: MemoryReservation,
}

impl std::fmt::Debug for SnapshotBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotBuilder").field("blocks", &self.blocks).finish_non_exhaustive()
    }
}

impl SnapshotBuilder {
    /// For a new table. What it takes is asked of `memory`.
    pub(crate) fn new(schema: SchemaRef, zone_rows: usize, memory: MemoryReservation) -> SnapshotBuilder {
        let columns = schema.fields().iter().map(|field| ColumnBuilder::new(field.data_type(), zone_rows)).collect();
        SnapshotBuilder {
            waiting: coalescer(&schema, zone_rows),
            schema,
            columns,
            blocks: Vec::new(),
            zone_rows,
            grown: memory.new_empty(),
            memory: Arc::new(memory),
            before: 0,
        }
    }

    /// For the rows of a snapshot and others behind them.
    pub(crate) fn behind(snapshot: &Snapshot) -> Result<SnapshotBuilder> {
        let Snapshot { schema, zone_rows, .. } = snapshot;
        let mut waiting = coalescer(schema, *zone_rows);
        let mut kept = snapshot.blocks.len();
        // The last block is filled up.
        let last = snapshot.blocks.last().filter(|last| last.num_rows() < zone_rows * BLOCK_ZONES);
        let last = match (last, &mut waiting) {
            (Some(last), Some(waiting)) => {
                kept -= 1;
                let all: Vec<usize> = (0..snapshot.columns.len()).collect();
                waiting.push_batch(snapshot.declared(&all, schema, last)?)?;
                Some(last)
            }
            _ => None,
        };
        let zones = snapshot.zones.iter().filter(|zone| zone.block < kept).count();
        let reopen = |(index, column): (usize, &Column)| {
            let blocks = snapshot.blocks[..kept].iter().map(|block| Arc::clone(block.column(index))).collect();
            ColumnBuilder::reopen(column, blocks, last.map(|last| last.column(index)), (zones, *zone_rows))
        };
        let columns = snapshot.columns.iter().enumerate().map(reopen).collect::<Result<_>>()?;
        Ok(SnapshotBuilder {
            waiting,
            schema: Arc::clone(schema),
            columns,
            blocks: snapshot.blocks[..kept].iter().map(RecordBatch::num_rows).collect(),
            zone_rows: *zone_rows,
            memory: Arc::clone(&snapshot.memory),
            before: snapshot.memory.size(),
            grown: snapshot.memory.new_empty(),
        })
    }

    /// Adds rows.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = self.checked(batch)?;
        match &mut self.waiting {
            Some(waiting) => {
                waiting.push_batch(batch)?;
                self.add_completed()
            }
            None => {
                let most = self.zone_rows * BLOCK_ZONES;
                let starts = (0..batch.num_rows()).step_by(most);
                starts.map(|start| batch.slice(start, most.min(batch.num_rows() - start))).try_for_each(|b| self.add(b))
            }
        }
    }

    /// The snapshot.
    pub(crate) fn finish(mut self) -> Result<Snapshot> {
        if let Some(waiting) = &mut self.waiting {
            waiting.finish_buffered_batch()?;
            self.add_completed()?;
        }
        let rows = self.blocks.iter().sum();
        let columns = self.columns.into_iter().map(|column| column.finish(rows)).collect::<Result<Vec<_>>>()?;
        let bytes = columns.iter().map(|(column, _)| column.stored_bytes).sum::<usize>();
        self.grown.try_resize(bytes.saturating_sub(self.before))?;
        self.memory.grow(self.grown.size());
        self.grown.free();
        self.memory.shrink(self.memory.size().saturating_sub(bytes));
        let (columns, arrays): (Vec<Column>, Vec<Vec<ArrayRef>>) = columns.into_iter().unzip();
        let fields = self.schema.fields().iter().zip(&columns);
        let stored = fields.map(|(field, column)| {
            Field::new(field.name(), column.stored_type().clone(), field.is_nullable())
                .with_metadata(field.metadata().clone())
        });
        let stored = Schema::new_with_metadata(stored.collect::<Vec<_>>(), self.schema.metadata().clone());
        let stored = Arc::new(stored);
        let block = |(number, rows): (usize, &usize)| {
            let arrays = arrays.iter().map(|blocks| Arc::clone(&blocks[number])).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(*rows));
            Ok(RecordBatch::try_new_with_options(Arc::clone(&stored), arrays, &options)?)
        };
        let blocks = self.blocks.iter().enumerate().map(block).collect::<Result<Vec<_>>>()?;
        let zones = blocks.iter().enumerate().flat_map(|(number, block)| {
            let rows = block.num_rows();
            let place = move |start| ZonePlace { block: number, start, rows: self.zone_rows.min(rows - start) };
            (0..rows).step_by(self.zone_rows).map(place)
        });
        Ok(Snapshot {
            zones: zones.collect(),
            schema: self.schema,
            stored,
            blocks,
            columns,
            zone_rows: self.zone_rows,
            rows,
            statistics: OnceLock::new(),
            memory: self.memory,
        })
    }

    /// The batch in the table's types.
    fn checked(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let fields = self.schema.fields();
        if batch.num_columns() != fields.len() {
            return plan_err!("a table of {} columns is given rows of {}", fields.len(), batch.num_columns());
        }
        let column = |(array, field): (&ArrayRef, &Arc<Field>)| {
            // Nothing of it is looked at again when it is read.
            array.to_data().validate_data()?;
            match array.data_type() == field.data_type() {
                true => Ok(Arc::clone(array)),
                false => Ok(cast_with_options(array, field.data_type(), &CAST)?),
            }
        };
        let columns = batch.columns().iter().zip(fields).map(column).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    fn add_completed(&mut self) -> Result<()> {
        while let Some(block) = self.waiting.as_mut().and_then(BatchCoalescer::next_completed_batch) {
            self.add(block)?;
        }
        Ok(())
    }

    /// Adds a block.
    fn add(&mut self, block: RecordBatch) -> Result<()> {
        self.columns.iter_mut().zip(block.columns()).try_for_each(|(column, array)| column.push(array))?;
        self.blocks.push(block.num_rows());
        let bytes = self.columns.iter().map(ColumnBuilder::stored_bytes).sum::<usize>();
        self.grown.try_resize(bytes.saturating_sub(self.before))
    }
}

/// What makes blocks of batches; `None` where each batch is a block of its own, since dictionaries of several may have
/// too many entries together.
fn coalescer(schema: &SchemaRef, zone_rows: usize) -> Option<BatchCoalescer> {
    let can_follow = !schema.fields().iter().any(|field| has_dictionary(field.data_type()));
    can_follow.then(|| BatchCoalescer::new(Arc::clone(schema), zone_rows * BLOCK_ZONES))
}

fn has_dictionary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _) => has_dictionary(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        // Of these, and of what is not known, batches are kept as they come.
        other => !(other.is_primitive() || is_bytes(other) || *other == DataType::Boolean || other.is_null()),
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    data_type.is_string() || data_type.is_binary() || matches!(data_type, DataType::FixedSizeBinary(_))
}
