//! Keeps of the rows that are read those that may be among the k first.
//!
//! ```text
//! batch ─► rows whose first sort key may come before the bound's ─► their keys ─► candidates ─► the k best of them
//! ```
//! The bound is the last of the k best rows so far. Most batches of most inputs end at the first arrow: one comparison
//! a row. Candidates are keys and places; whenever there are some more than k of them, the k best are selected, which
//! takes linear time, and the last of these is the next bound. Rows of which few are kept are taken out of their
//! batches. What is left at the end is sorted as any other rows are.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{interleave_record_batch, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::metrics::Count;
use datafusion::physical_plan::spill::get_record_batch_memory_size;

use crate::bound::{Bound, Shared};
use crate::column::{Column, Values, compare};
use crate::keys::Keys;

/// Batches with few of the best rows are put together when there are so many.
const HELD_MAX: usize = 128;
/// A batch of which at most one row in so many is kept is not held.
const SPARSE: usize = 4;
/// Up to so many rows the bound is made anew when it is expected to have moved by a sixteenth.
const OFTEN: usize = 1 << 16;

pub(crate) struct Best {
    keys: Keys,
    limit: usize,
    batch_rows: usize,
    /// Batches that came while there were not more rows than are wanted.
    first: Vec<RecordBatch>,
    first_rows: usize,
    held: Vec<Held>,
    held_rows: usize,
    candidates: Vec<Candidate>,
    /// The last of the first `limit` candidates, if there is one; it has the last place among these.
    bound: Option<Bound>,
    shared: Arc<Shared>,
    replacements: Count,
    bytes: usize,
}

/// Rows of one batch.
struct Held {
    batch: RecordBatch,
    /// Of these rows of the batch; of all of them if there is none.
    values: Vec<Values>,
    rows: Option<Vec<u32>>,
    bytes: usize,
}

#[derive(Clone, Copy)]
struct Candidate {
    key: u128,
    held: u32,
    row: u32,
}

impl Held {
    fn row(&self, row: u32) -> u32 {
        self.rows.as_ref().map_or(row, |rows| rows[row as usize])
    }
}

impl Best {
    /// Keeps so many rows, which is not zero; or why there is no order of them.
    pub(crate) fn new(
        schema: &SchemaRef,
        order: &LexOrdering,
        limit: usize,
        batch_rows: usize,
        shared: Arc<Shared>,
        replacements: Count,
    ) -> Result<Best, String> {
        let keys = Keys::new(schema, order)?;
        Ok(Best {
            keys,
            limit,
            batch_rows,
            first: Vec::new(),
            first_rows: 0,
            held: Vec::new(),
            held_rows: 0,
            candidates: Vec::new(),
            bound: None,
            shared,
            replacements,
            bytes: 0,
        })
    }

    /// Takes rows; gives how many bytes are in use.
    pub(crate) fn add(&mut self, batch: RecordBatch) -> Result<usize> {
        if self.candidates.is_empty()
            && self.first_rows + batch.num_rows() < self.limit
            && self.shared.bound().is_none()
        {
            self.first_rows += batch.num_rows();
            self.bytes += get_record_batch_memory_size(&batch);
            self.first.push(batch);
            return Ok(self.bytes);
        }
        for batch in std::mem::take(&mut self.first) {
            self.bytes -= get_record_batch_memory_size(&batch);
            self.look(batch)?;
        }
        self.look(batch)?;
        Ok(self.bytes + self.candidates.capacity() * size_of::<Candidate>())
    }

    /// No more rows come: gives what is left, at least the first rows as many as are wanted.
    pub(crate) fn end(&mut self) -> Result<Vec<RecordBatch>> {
        if self.candidates.len() > self.limit {
            self.select()?;
        }
        if self.held_rows > 2 * self.candidates.len() {
            self.compact()?;
        }
        Ok(self.take_batches())
    }

    /// All batches that are held.
    pub(crate) fn take_batches(&mut self) -> Vec<RecordBatch> {
        self.candidates = Vec::new();
        self.bytes = 0;
        let held = std::mem::take(&mut self.held).into_iter().map(|held| held.batch);
        std::mem::take(&mut self.first).into_iter().chain(held).collect()
    }

    pub(crate) fn finish(&self) {
        self.shared.finish();
    }

    fn look(&mut self, batch: RecordBatch) -> Result<()> {
        let shared = self.shared.bound();
        let own = self.bound.filter(|own| shared.is_none_or(|shared| own.key <= shared.key));
        let bound = own.or(shared);
        let rows = match &bound {
            Some(bound) => self.passing(&batch, bound)?,
            None => None,
        };
        if rows.as_ref().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        let values = self.keys.values(&batch, rows.as_deref())?;
        let count = rows.as_ref().map_or(batch.num_rows(), Vec::len);
        let prefixes = self.keys.prefixes(&values, count);
        let number = self.held.len() as u32;
        self.held.push(Held { batch, values, rows, bytes: 0 });
        let before = self.candidates.len();
        let candidates = (0..).zip(prefixes).map(|(row, key)| Candidate { key, held: number, row });
        match bound {
            None => self.candidates.extend(candidates),
            Some(bound) => {
                let last = own.map(|_| self.candidates[self.limit - 1]);
                let (held, columns) = (&self.held, &self.keys.columns);
                let comes_before = |candidate: &Candidate| match candidate.key.cmp(&bound.key) {
                    // Only the values can tell, and those of another partition's bound are not here.
                    Ordering::Equal if bound.is_exact => false,
                    Ordering::Equal => last.is_none_or(|last| ordered(held, columns, candidate, &last).is_lt()),
                    order => order.is_lt(),
                };
                self.candidates.extend(candidates.filter(comes_before));
            }
        }
        self.replacements.add(self.candidates.len() - before);
        let slack = if self.limit <= OFTEN { self.limit / 16 } else { self.limit / 2 };
        let most = if self.bound.is_none() { self.limit - 1 } else { self.limit + slack };
        let of_last = if self.candidates.len() > before.max(most) {
            self.select()?;
            0
        } else {
            before
        };
        self.settle(of_last)?;
        let held_max = HELD_MAX.max(2 * self.limit / self.batch_rows);
        if self.held.len() > held_max || self.held_rows > 2 * self.candidates.len() + 2 * self.batch_rows {
            self.compact()?;
        }
        Ok(())
    }

    /// The rows that may come before the bound by their first sort key, unless all may.
    fn passing(&self, batch: &RecordBatch, bound: &Bound) -> Result<Option<Vec<u32>>> {
        let first = &self.keys.order[0].expr.evaluate(batch)?.into_array(batch.num_rows())?;
        let column = &self.keys.columns[0];
        let only_key = self.keys.columns.len() == 1 && bound.is_exact;
        let range = |values: &Values| bound.range(column.options, only_key && !values.is_text(), values.code_bits());
        let mut rows = Vec::new();
        if let Some(entries) = column.entries(first)? {
            let range = range(&entries);
            let mut passing = Vec::new();
            entries.select(range, &mut passing);
            let dictionary = first.as_any_dictionary();
            if dictionary.values().is_empty() {
                // All of its rows are null.
                return Ok(if range.nulls { None } else { Some(rows) });
            }
            let mut passes = vec![false; dictionary.values().len()];
            passing.into_iter().for_each(|entry| passes[entry as usize] = true);
            if passes.contains(&true) || range.nulls {
                let nulls = dictionary.keys().nulls();
                let passes = |row: usize, entry: usize| match nulls {
                    Some(nulls) if nulls.is_null(row) => range.nulls,
                    _ => passes.get(entry).copied().unwrap_or(false),
                };
                let keys = dictionary.normalized_keys().into_iter().enumerate();
                rows.extend(keys.filter(|(row, entry)| passes(*row, *entry)).map(|(row, _)| row as u32));
            }
        } else if column.is_made() {
            return Ok(None);
        } else {
            let values = column.values(first)?;
            values.select(range(&values), &mut rows);
        }
        Ok((rows.len() < first.len()).then_some(rows))
    }

    /// Drops all candidates but the best, and makes the last of these the bound.
    fn select(&mut self) -> Result<()> {
        let Best { candidates, held, keys, limit, .. } = self;
        let (columns, Some(prefix)) = (&keys.columns, &keys.prefix) else { return Ok(()) };
        let is_exact = prefix.is_always_exact();
        candidates.select_nth_unstable_by(*limit - 1, |a, b| match a.key.cmp(&b.key) {
            Ordering::Equal if !is_exact => ordered(held, columns, a, b),
            order => order,
        });
        candidates.truncate(*limit);
        let last = candidates[*limit - 1];
        let held = &held[last.held as usize];
        let row = last.row as usize;
        let first = (!held.values[0].is_null(row)).then(|| held.values[0].code(row));
        let bound = Bound { key: last.key, is_exact: prefix.is_exact(last.key), first };
        self.bound = Some(bound);
        self.shared.offer(bound, &self.keys.order, &held.batch.slice(held.row(last.row) as usize, 1))
    }

    /// Holds the last batch if many of its rows are candidates, else these rows alone. They are among those from
    /// `first` on.
    fn settle(&mut self, first: usize) -> Result<()> {
        let Some(mut last) = self.held.pop() else { return Ok(()) };
        let number = self.held.len() as u32;
        let of_last = |candidate: &&mut Candidate| candidate.held == number;
        let kept = self.candidates[first..].iter_mut().filter(of_last).count();
        if kept == 0 {
            return Ok(());
        }
        if kept * SPARSE <= last.batch.num_rows() {
            let mut rows = Vec::with_capacity(kept);
            for candidate in self.candidates[first..].iter_mut().filter(of_last) {
                rows.push(last.row(candidate.row));
                candidate.row = rows.len() as u32 - 1;
            }
            let batch = without_unused(&take_record_batch(&last.batch, &UInt32Array::from(rows))?)?;
            last = Held { values: self.keys.values(&batch, None)?, rows: None, bytes: 0, batch };
        }
        self.hold(last);
        Ok(())
    }

    fn hold(&mut self, mut held: Held) {
        let made: usize = held.values.iter().map(|values| values.bytes).sum();
        let places = held.rows.as_ref().map_or(0, |rows| rows.len() * (size_of::<u32>() + held.values.len() * 16));
        held.bytes = get_record_batch_memory_size(&held.batch) + made + places;
        self.bytes += held.bytes;
        self.held_rows += held.batch.num_rows();
        self.held.push(held);
    }

    /// Makes new batches of the rows of all candidates.
    fn compact(&mut self) -> Result<()> {
        let old = std::mem::take(&mut self.held);
        (self.bytes, self.held_rows) = (0, 0);
        let batches: Vec<&RecordBatch> = old.iter().map(|held| &held.batch).collect();
        let mut start = 0;
        while start < self.candidates.len() {
            let end = (start + self.batch_rows).min(self.candidates.len());
            let place = |candidate: &Candidate| {
                let held = candidate.held as usize;
                (held, old[held].row(candidate.row) as usize)
            };
            let places: Vec<_> = self.candidates[start..end].iter().map(place).collect();
            let batch = without_unused(&interleave_record_batch(&batches, &places)?)?;
            let number = self.held.len() as u32;
            for (row, candidate) in (0..).zip(&mut self.candidates[start..end]) {
                (candidate.held, candidate.row) = (number, row);
            }
            let values = self.keys.values(&batch, None)?;
            self.hold(Held { batch, values, rows: None, bytes: 0 });
            start = end;
        }
        Ok(())
    }
}

/// The order of two candidates by their values.
fn ordered(held: &[Held], columns: &[Column], a: &Candidate, b: &Candidate) -> Ordering {
    let (left, right) = (&held[a.held as usize].values, &held[b.held as usize].values);
    let order = |(column, (left, right)): (&Column, (&Values, &Values))| {
        compare(column.options, (left, a.row as usize), (right, b.row as usize))
    };
    columns.iter().zip(left.iter().zip(right)).map(order).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The rows without text that no view refers to.
fn without_unused(batch: &RecordBatch) -> Result<RecordBatch> {
    let column = |array: &ArrayRef| -> ArrayRef {
        match array.data_type() {
            DataType::Utf8View => Arc::new(array.as_string_view().gc()),
            DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
            _ => Arc::clone(array),
        }
    };
    let columns = batch.columns().iter().map(column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}
