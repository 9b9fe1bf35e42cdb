//! The rows of a sort: as they are read, and sorted.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::Result;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};

use crate::column::Column;
use crate::gather::{Source, is_decoded};
use crate::normalised_key::{Key, Layout, Rows, Start};
use crate::parallel;
use crate::place::{Place, Places};
use crate::radix;

/// Rows that have been read.
pub(crate) struct Unsorted {
    schema: SchemaRef,
    order: LexOrdering,
    columns: Vec<Column>,
    pub(crate) batches: Vec<RecordBatch>,
    /// How many rows each batch has.
    counts: Vec<usize>,
    /// Batches of few rows, which become one.
    small: Vec<RecordBatch>,
    small_rows: usize,
    batch_rows: usize,
    /// How many columns have views, which are copied into one array.
    views: usize,
    /// Counts buffers that batches share, as those of a build side's texts are, once.
    memory: RecordBatchMemoryCounter,
}

impl Unsorted {
    /// No rows, or why they are not sorted here.
    pub(crate) fn new(schema: SchemaRef, order: &LexOrdering, batch_rows: usize) -> Result<Unsorted, String> {
        let column = |key: &datafusion::physical_expr::PhysicalSortExpr| {
            let data_type = key.expr.data_type(&schema).map_err(|error| error.to_string())?;
            Column::new(&data_type, key.options)
        };
        let columns = order.iter().map(column).collect::<Result<_, _>>()?;
        let order = order.clone();
        let is_view = |field: &&Arc<Field>| matches!(field.data_type(), DataType::Utf8View | DataType::BinaryView);
        let views = schema.fields().iter().filter(is_view).count();
        let (batches, counts, small) = (Vec::new(), Vec::new(), Vec::new());
        let memory = RecordBatchMemoryCounter::new();
        Ok(Unsorted { schema, order, columns, batches, counts, small, small_rows: 0, batch_rows, views, memory })
    }

    /// Takes rows; gives by how many bytes more memory is used.
    pub(crate) fn add(&mut self, batch: RecordBatch) -> Result<usize> {
        if batch.num_rows() > self.batch_rows / 2 {
            return self.push(batch);
        }
        self.small_rows += batch.num_rows();
        self.small.push(batch);
        if self.small_rows >= self.batch_rows { self.end() } else { Ok(0) }
    }

    /// Takes the batches of few rows that have not become one.
    pub(crate) fn end(&mut self) -> Result<usize> {
        self.small_rows = 0;
        let small = std::mem::take(&mut self.small);
        match small.len() {
            0 => Ok(0),
            1 => small.into_iter().map(|batch| self.push(batch)).sum(),
            _ => self.push(concat_batches(&self.schema, &small)?),
        }
    }

    fn push(&mut self, batch: RecordBatch) -> Result<usize> {
        let rows = batch.num_rows();
        let mut bytes = self.memory.count_batch(&batch) + rows * (size_of::<u64>() + self.views * size_of::<u128>());
        for (column, key) in self.columns.iter_mut().zip(&self.order) {
            let array = key.expr.evaluate(&batch)?.into_array(rows)?;
            if !key.expr.is::<ColumnExpr>() {
                bytes += array.get_array_memory_size();
            }
            bytes += column.push(&array)?;
        }
        self.counts.push(rows);
        self.batches.push(batch);
        Ok(bytes)
    }

    pub(crate) fn rows(&self) -> usize {
        self.counts.iter().sum()
    }

    /// All batches, also those of few rows.
    pub(crate) fn into_batches(self) -> Vec<RecordBatch> {
        self.batches.into_iter().chain(self.small).collect()
    }

    /// Takes the rows of another partition.
    pub(crate) fn append(&mut self, other: Unsorted) {
        self.columns.iter_mut().zip(other.columns).for_each(|(column, other)| column.append(other));
        self.batches.extend(other.batches);
        self.counts.extend(other.counts);
        self.small.extend(other.small);
    }

    /// How keys of all rows are made.
    pub(crate) fn layout(&self, threads: usize) -> Layout {
        let places = Places::new(self.counts.len(), self.counts.iter().copied().max().unwrap_or(0));
        Layout::of(&self.columns, Rows::Batches(&self.counts, threads), places, Start::default(), u128::BITS)
    }

    /// The keys of all rows, in an order of ranges: no key of a range is above one of the next. They are made twice, to
    /// count how many each range has and to put them there: that takes half as long as exchanging them afterwards.
    pub(crate) fn keys<K: Key>(&self, layout: &Layout, threads: usize) -> (Vec<K>, Vec<usize>) {
        let runs = parallel::runs(&self.counts, threads);
        let rows = self.rows();
        let digit = radix::Digit::highest(layout.bits(), rows);
        let above = if digit.values() == 1 { u32::MAX } else { digit.shift() };
        let counts: Vec<Vec<usize>> = parallel::each(runs.clone(), |run| {
            let mut counts = vec![0; digit.values()];
            self.for_each_key(layout, run, above, |key: K| counts[digit.of_key(key)] += 1);
            counts
        });
        let mut keys = vec![K::ZERO; rows];
        let cells = (0..digit.values()).flat_map(|value| counts.iter().map(move |counts| counts[value]));
        let mut places: Vec<Vec<_>> = runs.iter().map(|_| Vec::with_capacity(digit.values())).collect();
        for (number, cell) in parallel::cut(&mut keys, cells).into_iter().enumerate() {
            places[number % runs.len()].push(cell.iter_mut());
        }
        parallel::each(runs.into_iter().zip(places).collect(), |(run, mut places)| {
            self.for_each_key(layout, run, 0, |key: K| {
                if let Some(place) = places[digit.of_key(key)].next() {
                    *place = key;
                }
            });
        });
        let lengths = (0..digit.values()).map(|value| counts.iter().map(|counts| counts[value]).sum()).collect();
        (keys, lengths)
    }

    fn for_each_key<K: Key>(&self, layout: &Layout, run: Range<usize>, above: u32, mut f: impl FnMut(K)) {
        let (mut values, mut keys) = (Vec::new(), Vec::new());
        for batch in run {
            keys.clear();
            keys.resize(self.counts[batch], K::ZERO);
            layout.keys_of(&self.columns, batch, above, &mut keys, &mut values);
            keys.iter().for_each(|key| f(*key));
        }
    }

    pub(crate) fn batch_rows(&self) -> usize {
        self.batch_rows
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Where the values of the columns are.
    pub(crate) fn sources(&self, layout: &Layout) -> Result<Vec<Source>> {
        let of = |(number, field): (usize, &Arc<Field>)| {
            let is_it = |key: &Arc<dyn PhysicalExpr>| {
                key.downcast_ref::<ColumnExpr>().is_some_and(|column| column.index() == number)
            };
            let key = self.order.iter().position(|key| is_it(&key.expr)).filter(|_| is_decoded(field.data_type()));
            if let Some(whole) = key.and_then(|key| layout.whole(&self.columns, key)) {
                return Ok(Source::Key(field.data_type().clone(), whole));
            }
            let arrays: Vec<ArrayRef> = self.batches.iter().map(|batch| batch.column(number).clone()).collect();
            Source::of(arrays, field.data_type())
        };
        self.schema.fields().iter().enumerate().map(of).collect()
    }
}

/// Sorted rows.
pub(crate) struct Sorted<K> {
    pub(crate) schema: SchemaRef,
    pub(crate) sources: Vec<Source>,
    pub(crate) places: Places,
    pub(crate) keys: Vec<K>,
    pub(crate) batch_rows: usize,
    /// So many make batches of them.
    pub(crate) threads: usize,
}

impl<K: Key> Sorted<K> {
    pub(crate) fn batch(&self, rows: Range<usize>) -> Result<RecordBatch> {
        let keys = &self.keys[rows];
        let places: Vec<Place> = keys.iter().map(|key| self.places.of(key.word(0))).collect();
        let needs_indices = self.sources.iter().any(|source| matches!(source, Source::Arrays(_)));
        let indices: Vec<(usize, usize)> =
            if needs_indices { places.iter().map(|place| (place.batch, place.row)).collect() } else { Vec::new() };
        let columns: Result<_> = self.sources.iter().map(|source| source.take(keys, &places, &indices)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(keys.len()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns?, &options)?)
    }
}
