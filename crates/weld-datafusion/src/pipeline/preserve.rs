//! Rows of a build side that come out for themselves: which of them were met, and those that follow at the end.
//!
//! ```text
//! partition 0:  rows .. their numbers mark ──► ended
//! partition 1:  rows .. their numbers mark ──────────► ended, the last ──► rows of the table by their marks
//! ```
//! Every partition marks the same bytes, without order among them: a mark is only ever set. The one that ends last sees
//! all of them. Nobody waits for another partition, so that partitions may be executed one after the other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use weld_arrow::{Gather, null_array};
use weld_codegen::Value;

use super::failure::Failure;
use super::table::BuildTable;
use crate::lower::join::preserve::{AtEnd, BuildRows, EndColumn, NULL_KEY};

/// Which rows of a table have a match.
#[derive(Debug)]
pub(crate) struct Marks {
    rows: Vec<AtomicBool>,
    /// Whether the probe side has had a row, and one with a null key; known where the join asks for it.
    saw_row: AtomicBool,
    saw_null: AtomicBool,
    /// How often each partition of the probe side has ended.
    ended: Mutex<HashMap<usize, usize>>,
    _memory: MemoryReservation,
}

impl Marks {
    pub(super) fn new(rows: usize, context: &TaskContext) -> Result<Marks, Failure> {
        let memory = MemoryConsumer::new("WeldExec[marks]").register(context.memory_pool());
        memory.try_grow(rows).map_err(|error| Failure::Refused(Arc::new(error)))?;
        Ok(Marks {
            rows: std::iter::repeat_with(AtomicBool::default).take(rows).collect(),
            saw_row: AtomicBool::default(),
            saw_null: AtomicBool::default(),
            ended: Mutex::default(),
            _memory: memory,
        })
    }

    /// Marks the rows with the numbers that probe rows end with.
    pub(super) fn mark(&self, rows: &Value) -> Result<()> {
        let columns = rows.columns();
        let numbers = columns.last().and_then(|column| column.as_slice::<u32>());
        let numbers = numbers.ok_or_else(|| internal_datafusion_err!("a probe's rows end with numbers"))?;
        let mut saw_null = false;
        for &number in numbers {
            // A table has fewer rows than the numbers that stand for none.
            match self.rows.get(number as usize) {
                Some(mark) => mark.store(true, Ordering::Relaxed),
                None => saw_null |= number == NULL_KEY,
            }
        }
        if !numbers.is_empty() {
            self.saw_row.store(true, Ordering::Relaxed);
        }
        if saw_null {
            self.saw_null.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes note of the end of one of `partitions` partitions; whether all have ended as often now as this one.
    fn end(&self, partition: usize, partitions: usize) -> bool {
        // Who takes the lock later sees the marks of those who took it before.
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let rounds = |ended: &HashMap<usize, usize>| {
            (0..partitions).map(|partition| ended.get(&partition).copied().unwrap_or(0)).min()
        };
        let before = rounds(&ended);
        *ended.entry(partition).or_default() += 1;
        rounds(&ended) > before
    }

    fn has(&self, row: usize) -> bool {
        self.rows[row].load(Ordering::Relaxed)
    }

    /// Marks all rows of a key if its first is marked.
    fn spread(&self, table: &Value) {
        let Some(dict) = table.as_dict().filter(|dict| dict.values() > dict.len()) else { return };
        for group in dict.groups().filter(|group| group.len() > 1 && self.has(group.start)) {
            group.skip(1).for_each(|row| self.rows[row].store(true, Ordering::Relaxed));
        }
    }
}

/// The rows of a build side that follow those of the probe.
pub(super) struct EndRows {
    side: Arc<BuildTable>,
    at_end: AtEnd,
    schema: SchemaRef,
    /// The table's rows, and those with null keys.
    parts: [Option<Gather>; 2],
    next: usize,
}

impl EndRows {
    /// The rows that a partition of `partitions` has to give, now that it has ended: none if others are still to end.
    pub(super) fn of(
        side: Arc<BuildTable>,
        at_end: &AtEnd,
        schema: &SchemaRef,
        partition: usize,
        partitions: usize,
    ) -> Result<Option<EndRows>> {
        let Some(marks) = side.marks.as_ref().filter(|marks| marks.end(partition, partitions)) else { return Ok(None) };
        let was_seen = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if at_end.null_aware && was_seen(&marks.saw_null) {
            // No value is known not to be among some of which one is unknown.
            return Ok(None);
        }
        if at_end.whole_groups {
            marks.spread(&side.table);
        }
        let table = side.table.group_values();
        let table = table.ok_or_else(|| internal_datafusion_err!("a join's table has groups"))?;
        // Nor is an unknown value, unless there are no others.
        let gives_unkeyed = !at_end.null_aware || !was_seen(&marks.saw_row);
        let unkeyed = side.unkeyed.clone().filter(|_| gives_unkeyed && at_end.gives != BuildRows::Matched);
        let parts = [Some(table), unkeyed].map(|part| part.map(Gather::new).transpose());
        let [table, unkeyed] = parts;
        let (at_end, schema) = (at_end.clone(), Arc::clone(schema));
        Ok(Some(EndRows { at_end, schema, parts: [table?, unkeyed?], next: 0, side }))
    }

    /// The next rows, at most `rows_max`.
    pub(super) fn next_batch(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        for index in 0..self.parts.len() {
            let Some(part) = &self.parts[index] else { continue };
            let mut numbers = Vec::new();
            while numbers.len() < rows_max && self.next < part.rows() {
                if index > 0 || self.is_wanted(self.next) {
                    numbers.push(self.next as u32);
                }
                self.next += 1;
            }
            if !numbers.is_empty() {
                return self.batch(part, index > 0, &numbers).map(Some);
            }
            (self.parts[index], self.next) = (None, 0);
        }
        Ok(None)
    }

    fn has_mark(&self, row: usize) -> bool {
        self.side.marks.as_ref().is_some_and(|marks| marks.has(row))
    }

    fn is_wanted(&self, row: usize) -> bool {
        match self.at_end.gives {
            BuildRows::Matched => self.has_mark(row),
            BuildRows::Unmatched => !self.has_mark(row),
            BuildRows::All => true,
        }
    }

    fn batch(&self, part: &Gather, is_unkeyed: bool, numbers: &[u32]) -> Result<RecordBatch> {
        let column = |(column, field): (&EndColumn, &arrow::datatypes::FieldRef)| -> Result<ArrayRef> {
            match column {
                EndColumn::Build(slot) => Ok(part.column(field.data_type(), *slot, numbers)?),
                EndColumn::Null => Ok(null_array(field.data_type(), numbers.len())),
                EndColumn::Mark => {
                    let has_mark = |row: &u32| Some(!is_unkeyed && self.has_mark(*row as usize));
                    Ok(Arc::new(numbers.iter().map(has_mark).collect::<BooleanArray>()))
                }
            }
        };
        let columns = self.at_end.columns.iter().zip(self.schema.fields()).map(column).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(numbers.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}
