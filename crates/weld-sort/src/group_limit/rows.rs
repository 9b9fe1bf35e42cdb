//! The first rows of each group, as rows come.
//!
//! ```text
//! batch ─► groups, keys ─► the k least keys of each group ─► rows that are none of their group's first are dropped
//! ```
//! What was among the first may be so no more: held rows are looked at again whenever there are twice as many as were
//! left.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::spill::get_record_batch_memory_size;

use super::Limit;
use crate::keys::Keys;

/// After so many rows it is known whether limiting pays.
const ROWS_FIRST: usize = 1 << 15;
/// Fewer held rows than this are not looked at again.
const ROWS_HELD: usize = 1 << 18;
/// Limiting goes on where it is expected to keep no more of the rows than this: groups of two or three narrow rows take
/// as long with it as without.
const KEPT_MAX: f64 = 0.5;
/// So many times the rows that came are expected in all where nothing is known of them.
const UNKNOWN_ROWS: f64 = 16.0;

/// The rows of one partition that may be among the first of their group.
pub(super) struct Kept {
    groups: Groups,
    keys: Keys,
    first: First,
    held: Held,
    /// As many rows are expected in all, where that is known.
    expected: Option<f64>,
    /// Rows that came.
    seen: usize,
    /// At so many held rows they are looked at again.
    next: usize,
}

impl Kept {
    pub(super) fn new(
        schema: &SchemaRef,
        groups: &[Arc<dyn PhysicalExpr>],
        order: &[PhysicalSortExpr],
        limit: Limit,
        expected: Option<f64>,
        batch_rows: usize,
    ) -> Result<Kept> {
        Ok(Kept {
            groups: Groups::new(schema, groups)?,
            keys: Keys::new(schema, order).map_err(|reason| internal_datafusion_err!("{reason}"))?,
            first: First { limit, worst: Vec::new(), least: Vec::new() },
            held: Held::new(schema, batch_rows),
            expected,
            seen: 0,
            next: ROWS_FIRST,
        })
    }

    /// Takes rows. False if limiting is expected to keep most of them: then it is left.
    pub(super) fn add(&mut self, batch: RecordBatch) -> Result<bool> {
        self.seen += batch.num_rows();
        let groups = self.groups.of(&batch)?;
        let values = self.keys.values(&batch, None)?;
        let keys = self.keys.prefixes(&values, batch.num_rows());
        for (group, key) in groups.iter().zip(&keys) {
            self.first.offer(*group, *key);
        }
        self.held.add(batch, groups, keys, &self.first)?;
        if self.held.rows() < self.next {
            return Ok(true);
        }
        self.held.look_again(&self.first)?;
        self.next = ROWS_HELD.max(2 * self.held.rows());
        Ok(self.pays())
    }

    fn pays(&self) -> bool {
        let seen = self.seen as f64;
        let all = self.expected.unwrap_or(UNKNOWN_ROWS * seen).max(seen);
        let kept = self.first.limit.first as f64 * groups_of(all, seen, self.first.worst.len() as f64);
        (self.held.rows() as f64) <= KEPT_MAX * seen || kept <= KEPT_MAX * all
    }

    pub(super) fn bytes(&self) -> usize {
        self.groups.bytes() + self.first.bytes() + self.held.bytes
    }

    /// Rows that came and are not held.
    pub(super) fn dropped(&self) -> usize {
        self.seen - self.held.rows()
    }

    /// No more rows are taken: gives those that are left.
    pub(super) fn end(&mut self) -> Result<Vec<RecordBatch>> {
        self.held.look_again(&self.first)?;
        self.held.take()
    }

    /// All rows that are held.
    pub(super) fn give_up(&mut self) -> Result<Vec<RecordBatch>> {
        self.held.take()
    }
}

/// How many groups so many rows are expected to have when `seen` of them have so many: if all groups are as frequent,
/// one of `seen * seen / 2` pairs of rows in as many as there are groups is of one of them.
fn groups_of(rows: f64, seen: f64, groups: f64) -> f64 {
    let all = (seen * seen / (2.0 * (seen - groups).max(1.0))).max(groups);
    all * (1.0 - (-rows / all).exp())
}

/// Numbers the groups of rows.
struct Groups {
    by: Vec<Arc<dyn PhysicalExpr>>,
    /// Absent if all rows are one group.
    values: Option<Box<dyn GroupValues>>,
    numbers: Vec<usize>,
}

impl Groups {
    fn new(schema: &SchemaRef, by: &[Arc<dyn PhysicalExpr>]) -> Result<Groups> {
        let field = |key: &Arc<dyn PhysicalExpr>| Ok(Field::new("", key.data_type(schema)?, key.nullable(schema)?));
        let keys = Schema::new(by.iter().map(field).collect::<Result<Vec<_>>>()?);
        let values = match by.is_empty() {
            true => None,
            false => Some(new_group_values(Arc::new(keys), &GroupOrdering::None)?),
        };
        Ok(Groups { by: by.to_vec(), values, numbers: Vec::new() })
    }

    fn of(&mut self, batch: &RecordBatch) -> Result<Vec<u32>> {
        let rows = batch.num_rows();
        let Some(values) = &mut self.values else { return Ok(vec![0; rows]) };
        let columns: Vec<ArrayRef> =
            self.by.iter().map(|key| key.evaluate(batch)?.into_array(rows)).collect::<Result<_>>()?;
        self.numbers.clear();
        values.intern(&columns, &mut self.numbers)?;
        if values.len() > u32::MAX as usize {
            return internal_err!("too many groups");
        }
        Ok(self.numbers.iter().map(|number| *number as u32).collect())
    }

    fn bytes(&self) -> usize {
        self.values.as_ref().map_or(0, |values| values.size()) + self.numbers.capacity() * size_of::<usize>()
    }
}

/// The least keys of each group.
struct First {
    limit: Limit,
    /// The last of them, once there are as many as the limit says: what is above it is behind all of them.
    worst: Vec<u128>,
    /// All of them in their order, if they are more than one.
    least: Vec<Vec<u128>>,
}

impl First {
    fn offer(&mut self, group: u32, key: u128) {
        let Limit { first, counts_ties_once } = self.limit;
        let group = group as usize;
        if group >= self.worst.len() {
            self.worst.resize(group + 1, u128::MAX);
            if first > 1 {
                self.least.resize_with(group + 1, Vec::new);
            }
        }
        if key >= self.worst[group] {
            return;
        }
        if first == 1 {
            self.worst[group] = key;
            return;
        }
        let least = &mut self.least[group];
        match least.binary_search(&key) {
            Ok(_) if counts_ties_once => return,
            Ok(place) | Err(place) => least.insert(place, key),
        }
        least.truncate(first);
        if let Some(last) = least.get(first - 1) {
            self.worst[group] = *last;
        }
    }

    fn keeps(&self, group: u32, key: u128) -> bool {
        key <= self.worst[group as usize]
    }

    /// About: each group's keys are taken for all that it may have.
    fn bytes(&self) -> usize {
        let least = size_of::<Vec<u128>>() + self.limit.first * size_of::<u128>();
        self.worst.capacity() * size_of::<u128>() + self.least.len() * least
    }
}

/// Rows with their groups and keys.
struct Held {
    /// Makes batches of the rows, in the order in which they came.
    coalescer: BatchCoalescer,
    batches: Vec<RecordBatch>,
    groups: Vec<u32>,
    keys: Vec<u128>,
    /// Of the batches, as far as they are whole, and of the groups and keys.
    bytes: usize,
}

impl Held {
    fn new(schema: &SchemaRef, batch_rows: usize) -> Held {
        let coalescer =
            BatchCoalescer::new(Arc::clone(schema), batch_rows).with_biggest_coalesce_batch_size(Some(batch_rows / 2));
        Held { coalescer, batches: Vec::new(), groups: Vec::new(), keys: Vec::new(), bytes: 0 }
    }

    fn rows(&self) -> usize {
        self.keys.len()
    }

    /// Takes the rows of a batch that `first` keeps.
    fn add(&mut self, batch: RecordBatch, groups: Vec<u32>, keys: Vec<u128>, first: &First) -> Result<()> {
        let mask: Vec<bool> = groups.iter().zip(&keys).map(|(group, key)| first.keeps(*group, *key)).collect();
        let rows = || mask.iter().zip(groups.iter().zip(&keys)).filter(|(keeps, _)| **keeps).map(|(_, row)| row);
        self.groups.extend(rows().map(|(group, _)| *group));
        self.keys.extend(rows().map(|(_, key)| *key));
        let mask = BooleanArray::from(mask);
        match mask.true_count() {
            0 => return Ok(()),
            kept if kept == batch.num_rows() => self.coalescer.push_batch(batch)?,
            _ => self.coalescer.push_batch_with_filter(batch, &mask)?,
        }
        self.collect();
        Ok(())
    }

    fn collect(&mut self) {
        while let Some(batch) = self.coalescer.next_completed_batch() {
            let row = size_of::<u32>() + size_of::<u128>();
            self.bytes += get_record_batch_memory_size(&batch) + batch.num_rows() * row;
            self.batches.push(batch);
        }
    }

    /// Drops what `first` keeps no more.
    fn look_again(&mut self, first: &First) -> Result<()> {
        let batches = self.take()?;
        let (groups, keys) = (std::mem::take(&mut self.groups), std::mem::take(&mut self.keys));
        let (mut groups, mut keys) = (groups.as_slice(), keys.as_slice());
        for batch in batches {
            let (these, others) = groups.split_at(batch.num_rows());
            let (these_keys, other_keys) = keys.split_at(batch.num_rows());
            (groups, keys) = (others, other_keys);
            self.add(batch, these.to_vec(), these_keys.to_vec(), first)?;
        }
        Ok(())
    }

    /// All rows. Their groups and keys stay.
    fn take(&mut self) -> Result<Vec<RecordBatch>> {
        self.coalescer.finish_buffered_batch()?;
        self.collect();
        self.bytes = 0;
        Ok(std::mem::take(&mut self.batches))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{AsArray, Int32Array};
    use arrow::compute::{SortOptions, concat_batches};
    use arrow::datatypes::{DataType, Int32Type};
    use datafusion::physical_expr::expressions::col;

    use super::*;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(["group", "key"].map(|name| Field::new(name, DataType::Int32, true)).to_vec()))
    }

    fn kept(limit: Limit, next: usize) -> Kept {
        let schema = schema();
        let column = |name| col(name, &schema).expect("a column");
        let order = PhysicalSortExpr { expr: column("key"), options: SortOptions::default() };
        let kept = Kept::new(&schema, &[column("group")], &[order], limit, None, 64).expect("keys");
        Kept { next, ..kept }
    }

    /// Rows of 20 groups whose keys fall, so that every row is before those that came earlier, but for ties.
    fn batch(number: i32) -> RecordBatch {
        let rows = number * 50..(number + 1) * 50;
        let groups = Int32Array::from_iter_values(rows.clone().map(|row| row * 7 % 20));
        let keys = Int32Array::from_iter_values(rows.map(|row| -(row / 30)));
        RecordBatch::try_new(schema(), vec![Arc::new(groups), Arc::new(keys)]).expect("columns")
    }

    fn rows(batch: &RecordBatch) -> Vec<(i32, i32)> {
        let column = |number: usize| batch.column(number).as_primitive::<Int32Type>().values().to_vec();
        column(0).into_iter().zip(column(1)).collect()
    }

    /// All rows that are as good as the last of the first of their group, in the order in which they came.
    fn expected(all: &[(i32, i32)], limit: Limit) -> Vec<(i32, i32)> {
        let mut groups: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        all.iter().for_each(|(group, key)| groups.entry(*group).or_default().push(*key));
        for keys in groups.values_mut() {
            keys.sort_unstable();
            if limit.counts_ties_once {
                keys.dedup();
            }
        }
        let last = |group: &i32| groups[group].get(limit.first - 1).copied().unwrap_or(i32::MAX);
        all.iter().filter(|(group, key)| *key <= last(group)).copied().collect()
    }

    #[test]
    fn what_was_among_the_first_is_dropped_when_better_rows_come() {
        for (first, counts_ties_once) in [(1, false), (1, true), (2, false), (2, true), (5, false), (5, true)] {
            let limit = Limit { first, counts_ties_once };
            let mut kept = kept(limit, 256);
            let mut all = Vec::new();
            for number in 0..100 {
                let batch = batch(number);
                all.extend(rows(&batch));
                assert!(kept.add(batch).expect("rows"));
                assert!(kept.held.rows() < ROWS_HELD);
            }
            let left = concat_batches(&schema(), &kept.end().expect("rows")).expect("one schema");
            assert_eq!(rows(&left), expected(&all, limit), "{limit:?}");
            assert_eq!(kept.dropped(), all.len() - left.num_rows());
        }
    }

    #[test]
    fn limiting_that_keeps_most_rows_is_left() {
        let mut kept = kept(Limit { first: 200, counts_ties_once: false }, 256);
        kept.expected = Some(500.0);
        let pays: Vec<bool> = (0..10).map(|number| kept.add(batch(number)).expect("rows")).collect();
        assert_eq!(pays.iter().position(|pays| !pays), Some(5));
        let rows: usize = kept.give_up().expect("rows").iter().map(RecordBatch::num_rows).sum();
        assert_eq!((rows, kept.dropped()), (500, 0));
    }

    #[test]
    fn limiting_goes_on_where_more_rows_will_not_be_more_groups() {
        let mut kept = kept(Limit { first: 20, counts_ties_once: false }, 256);
        kept.expected = Some(10_000.0);
        assert!((0..10).all(|number| kept.add(batch(number)).expect("rows")));
    }

    #[test]
    fn groups_are_expected_by_how_few_rows_repeat_one() {
        let near = |rows, seen, groups, expected: f64| (groups_of(rows, seen, groups) / expected - 1.0).abs() < 0.1;
        // A million groups, of which 32,768 rows have 32,237; ten, all of which were seen.
        assert!(near(1e6, 32_768.0, 32_237.0, 632_000.0));
        assert!(near(1e8, 32_768.0, 32_237.0, 1e6));
        assert!(groups_of(1e8, 32_768.0, 10.0) < 20_000.0);
        assert!(near(1e6, 1e5, 1e5, 1e6));
    }
}
