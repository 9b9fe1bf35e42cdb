//! Groups of many keys are made in radix partitions: rows are put in order of the hash of their keys, and each range of
//! hashes has a table of its own, which fits the cache where one for all would not.
//!
//! ```text
//! rows ─► collected ─┬► few keys: one table
//!                    └► many: 64 ranges of hashes, a table each ─► groups of the first range, of the second, ..
//! ```
//! (Boncz, Manegold, Kersten: *Database Architecture Optimized for the New Bottleneck: Memory Access*, 1999; here, as
//! in DuckDB, for groups.) Ranges share no group, so what is above may take their groups one range after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, ByteView, MAX_INLINE_VIEW_LEN, NullBufferBuilder, RecordBatch, UInt32Array,
    make_array,
};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Result;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use weld_codegen::Stream;

use crate::config::WeldOptions;
use crate::exec::Inner;
use crate::memory::QueryMemory;

const PARTITION_BITS: u32 = 6;
/// How many ranges of hashes there are. A column's rows go to as many places at once: with more, the processor's caches
/// and its TLB do not keep up.
pub(super) const PARTITIONS: usize = 1 << PARTITION_BITS;

/// Of so many rows for each group that makes ranges worth it the keys are counted.
const COUNTED_ROWS_PER_GROUP: usize = 4;

/// A range's table has room for so many times the groups that are expected: ranges differ a little, and one that does
/// not suffice grows.
const ROOM: f64 = 1.05;

/// Rows of a range that are processed at a time.
const CHUNK_ROWS: usize = 8192;

/// So many bytes of rows all partitions together keep, but each as many as are worth it: the more, the fewer times a
/// table is read into the cache again. Where all rows of a partition are fewer, there is one table at a time.
const BYTES_MAX: usize = 512 << 20;
const BYTES_MAX_OF_PARTITION: std::ops::RangeInclusive<usize> = 32 << 20..=256 << 20;

/// Rows on their way into the tables of their ranges.
pub(super) struct Radix {
    /// The columns that the pipeline reads, and those of them that are keys.
    columns: Vec<usize>,
    keys: Vec<usize>,
    /// The types that the keys had first: a scan may give others later, and the same value must have the same hash.
    key_types: Vec<DataType>,
    /// With so many groups there are ranges.
    groups_min: usize,
    /// Rows as they came, until it is known whether there are.
    batches: Vec<RecordBatch>,
    rows: usize,
    memory: MemoryReservation,
    bytes_max: usize,
    /// Groups to rows of the last range whose groups were given; 0 before.
    groups_per_row: f64,
    /// Then the ranges, those whose groups have been given left out.
    pub(super) ranges: Option<VecDeque<Range>>,
}

/// The rows whose keys have hashes with the same first bits.
#[derive(Default)]
pub(super) struct Range {
    /// Rows to process, full chunks first.
    chunks: Vec<RecordBatch>,
    filling: Vec<Filling>,
    filling_rows: usize,
    /// All that came.
    rows: usize,
    pub(super) table: Option<RangeTable>,
}

/// The table of a range of hashes.
pub(super) struct RangeTable {
    pub(super) stream: Stream,
    pub(super) memory: Arc<QueryMemory>,
}

/// A column of a batch whose rows are in order of their ranges.
struct Ordered {
    array: ArrayRef,
    /// Its rows as bytes, and how many each has; nothing of an array without a fixed width.
    bytes: Buffer,
    width: usize,
}

/// A column of a chunk that is being filled.
struct Filling {
    data_type: DataType,
    values: Values,
}

enum Values {
    /// Rows of a fixed width, and the long strings that views among them point into.
    Fixed {
        bytes: MutableBuffer,
        nulls: NullBufferBuilder,
        strings: Vec<MutableBuffer>,
    },
    Other(Vec<ArrayRef>),
}

/// What to do with the rows that were collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Collected {
    /// Wait for more.
    More,
    /// Process them, range by range.
    Enough,
    /// One table is for all of them, and for those to come.
    OneTable,
}

impl Radix {
    /// `None` where a pipeline's groups cannot be made apart.
    pub(super) fn new(inner: &Inner, partition: usize, context: &TaskContext) -> Option<Radix> {
        let lowered = &inner.pipeline.lowered;
        let groups_min = WeldOptions::of(context.session_config().options()).radix_min_groups;
        let is_code = |column: &usize| matches!(lowered.schema.field(*column).data_type(), DataType::Dictionary(..));
        if lowered.apart.is_empty()
            || !inner.coded().is_empty()
            || groups_min == 0
            || lowered.inputs.iter().any(is_code)
        {
            return None;
        }
        let partitions = context.session_config().target_partitions().max(1);
        let (least, most) = BYTES_MAX_OF_PARTITION.into_inner();
        Some(Radix {
            columns: lowered.inputs.clone(),
            keys: lowered.apart.clone(),
            key_types: Vec::new(),
            groups_min,
            batches: Vec::new(),
            rows: 0,
            memory: MemoryConsumer::new(format!("WeldExec[{partition}] rows")).register(context.memory_pool()),
            bytes_max: (BYTES_MAX / partitions).clamp(least, most),
            groups_per_row: 0.0,
            ranges: None,
        })
    }

    pub(super) fn collect(&mut self, batch: RecordBatch) -> Result<Collected> {
        let bytes: usize = self.columns.iter().map(|column| bytes_of(batch.column(*column))).sum();
        let is_granted = self.memory.try_grow(bytes).is_ok();
        let is_full = self.memory.size() >= self.bytes_max;
        if self.ranges.is_some() {
            self.spread(&batch)?;
            return Ok(if is_granted && !is_full { Collected::More } else { Collected::Enough });
        }
        if self.batches.is_empty() {
            self.key_types = self.keys.iter().map(|key| batch.column(*key).data_type().clone()).collect();
        }
        let is_scattered = self.columns.iter().any(|column| !lies_in_rows(batch.column(*column)));
        self.rows += batch.num_rows();
        self.batches.push(batch);
        if !is_granted || is_scattered {
            return Ok(Collected::OneTable);
        }
        if self.rows < self.groups_min.saturating_mul(COUNTED_ROWS_PER_GROUP) && !is_full {
            return Ok(Collected::More);
        }
        if self.count_keys()? < self.groups_min as f64 {
            return Ok(Collected::OneTable);
        }
        self.ranges = Some((0..PARTITIONS).map(|_| Range::default()).collect());
        for batch in std::mem::take(&mut self.batches) {
            self.spread(&batch)?;
        }
        Ok(Collected::More)
    }

    /// The rows as they came, while it is not known what to do with them.
    pub(super) fn take(&mut self) -> Vec<RecordBatch> {
        self.memory.free();
        std::mem::take(&mut self.batches)
    }

    /// The rows of all ranges are processed.
    pub(super) fn free(&mut self) {
        self.memory.free();
    }

    /// Adds each row of a batch to its range: first they are put in order within the batch, which is in the cache, then
    /// copied to their ranges in runs.
    fn spread(&mut self, batch: &RecordBatch) -> Result<()> {
        let hashes = self.hashes(batch)?;
        let mut ends = [0; PARTITIONS];
        hashes.iter().for_each(|hash| ends[range_of(*hash)] += 1);
        let mut next = [0; PARTITIONS];
        let mut end = 0;
        for (count, next) in ends.iter_mut().zip(&mut next) {
            *next = end;
            end += *count;
            *count = end;
        }
        let place = |hash: u64| {
            let next = &mut next[range_of(hash)];
            *next += 1;
            *next - 1
        };
        let places: Vec<u32> = hashes.into_iter().map(place).collect();
        let Some(ranges) = &mut self.ranges else { return Ok(()) };
        let columns = self.columns.iter().map(|column| Ok(Ordered::new(in_order(batch.column(*column), &places)?)));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let mut start = 0;
        for (range, end) in ranges.iter_mut().zip(ends) {
            range.add(&columns, start as usize, (end - start) as usize)?;
            start = end;
        }
        Ok(())
    }

    /// The chunks of a range that have not been processed.
    pub(super) fn chunks(&mut self, range: usize) -> Result<Vec<RecordBatch>> {
        let Some(range) = self.ranges.as_mut().and_then(|ranges| ranges.get_mut(range)) else { return Ok(Vec::new()) };
        range.seal()?;
        Ok(std::mem::take(&mut range.chunks))
    }

    /// How many groups the rows of a range so far may have, by the ranges before; 0 for the first.
    pub(super) fn expected_groups(&self, range: usize) -> u64 {
        let rows = self.ranges.as_ref().and_then(|ranges| ranges.get(range)).map_or(0, |range| range.rows);
        (rows as f64 * self.groups_per_row * ROOM) as u64
    }

    pub(super) fn note_groups(&mut self, range: &Range, groups: usize) {
        self.groups_per_row = groups as f64 / range.rows.max(1) as f64;
    }

    /// About how many keys the rows have: by the share of bits that stay zero when each key sets one (Whang,
    /// Vander-Zanden, Taylor: *A Linear-Time Probabilistic Counting Algorithm*, 1990).
    fn count_keys(&self) -> Result<f64> {
        let bits = (4 * self.rows).next_power_of_two().max(64);
        let mut set = vec![0u64; bits / 64];
        for batch in &self.batches {
            for hash in self.hashes(batch)? {
                let bit = mixed(hash) as usize & (bits - 1);
                set[bit / 64] |= 1 << (bit % 64);
            }
        }
        let ones: u32 = set.iter().map(|word| word.count_ones()).sum();
        let bits = bits as f64;
        Ok(-bits * (-f64::from(ones) / bits).ln_1p())
    }

    fn hashes(&self, batch: &RecordBatch) -> Result<Vec<u64>> {
        let mut hashes = vec![0; batch.num_rows()];
        let keys = self.keys.iter().zip(&self.key_types).map(|(key, data_type)| match batch.column(*key) {
            column if column.data_type() == data_type => Ok(Arc::clone(column)),
            // What the other type does not have becomes null, wherever it comes from.
            column => Ok(cast(column, data_type)?),
        });
        create_hashes(keys.collect::<Result<Vec<_>>>()?, &RandomState::default(), &mut hashes)?;
        Ok(hashes)
    }
}

impl Range {
    fn add(&mut self, columns: &[Ordered], start: usize, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let fits = |(filling, column): (&Filling, &Ordered)| filling.data_type == *column.array.data_type();
        if !self.filling.iter().zip(columns).all(fits) {
            self.seal()?;
        }
        if self.filling.is_empty() {
            self.filling.extend(columns.iter().map(|column| Filling::new(&column.array)));
        }
        for (filling, column) in self.filling.iter_mut().zip(columns) {
            filling.add(column, start, rows);
        }
        self.filling_rows += rows;
        self.rows += rows;
        if self.filling_rows >= CHUNK_ROWS { self.seal() } else { Ok(()) }
    }

    /// Makes a chunk of the rows that came since the last one.
    fn seal(&mut self) -> Result<()> {
        if self.filling_rows == 0 {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.filling_rows);
        let arrays = self.filling.drain(..).map(|filling| filling.array(rows)).collect::<Result<Vec<_>>>()?;
        let fields = arrays.iter().map(|array| Field::new("", array.data_type().clone(), true));
        self.chunks.push(RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays)?);
        Ok(())
    }
}

impl Ordered {
    fn new(array: ArrayRef) -> Ordered {
        let Some(width) = fixed_width(array.data_type()) else {
            return Ordered { array, bytes: Buffer::default(), width: 0 };
        };
        Ordered { bytes: fixed_bytes(&array, width), array, width }
    }
}

impl Filling {
    fn new(like: &ArrayRef) -> Filling {
        let values = match fixed_width(like.data_type()) {
            Some(width) => Values::Fixed {
                bytes: MutableBuffer::new(width * (CHUNK_ROWS + CHUNK_ROWS / 8)),
                nulls: NullBufferBuilder::new(CHUNK_ROWS),
                strings: Vec::new(),
            },
            None => Values::Other(Vec::new()),
        };
        Filling { data_type: like.data_type().clone(), values }
    }

    fn add(&mut self, Ordered { array, bytes: from, width }: &Ordered, start: usize, rows: usize) {
        match &mut self.values {
            Values::Fixed { bytes, nulls, strings } => {
                let from = &from[start * width..(start + rows) * width];
                match string_buffers(array) {
                    [] => bytes.extend_from_slice(from),
                    buffers => {
                        let (views, _) = from.as_chunks();
                        views.iter().for_each(|view| bytes.push(copied(u128::from_le_bytes(*view), buffers, strings)));
                    }
                }
                match array.nulls() {
                    Some(valid) => nulls.append_buffer(&valid.slice(start, rows)),
                    None => nulls.append_n_non_nulls(rows),
                }
            }
            Values::Other(parts) => parts.push(array.slice(start, rows)),
        }
    }

    fn array(self, rows: usize) -> Result<ArrayRef> {
        match self.values {
            Values::Fixed { bytes, mut nulls, strings } => {
                let strings: Vec<Buffer> = strings.into_iter().map(Buffer::from).collect();
                Ok(fixed_array(&self.data_type, bytes, nulls.finish(), &strings, rows))
            }
            Values::Other(parts) => Ok(concat(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>())?),
        }
    }
}

/// How many bytes a row has of an array of this type, but for long strings; `None` if there is more.
fn fixed_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => Some(size_of::<u128>()),
        _ => data_type.primitive_width(),
    }
}

/// Whether most of the array is in its rows: strings elsewhere would be read out of order, which costs as much as a
/// table outside of the cache does.
fn lies_in_rows(array: &ArrayRef) -> bool {
    let Some(views) = views_of(array) else {
        return array.data_type() == &DataType::Boolean || array.data_type().is_primitive();
    };
    4 * views.iter().filter(|view| is_long(**view)).count() <= views.len()
}

/// The rows of an array, each of so many bytes.
fn fixed_bytes(array: &ArrayRef, width: usize) -> Buffer {
    let data = array.to_data();
    data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width)
}

fn views_of(array: &ArrayRef) -> Option<&[u128]> {
    match array.data_type() {
        DataType::Utf8View => Some(array.as_string_view().views()),
        DataType::BinaryView => Some(array.as_binary_view().views()),
        _ => None,
    }
}

/// What the views of an array point into.
fn string_buffers(array: &ArrayRef) -> &[Buffer] {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().data_buffers(),
        DataType::BinaryView => array.as_binary_view().data_buffers(),
        _ => &[],
    }
}

fn is_long(view: u128) -> bool {
    view as u32 > MAX_INLINE_VIEW_LEN
}

/// The view of a string that is copied behind `strings` if it is long: an exchange hands out buffers that are mostly
/// empty, and the strings of a range are read together.
fn copied(view: u128, buffers: &[Buffer], strings: &mut Vec<MutableBuffer>) -> u128 {
    if !is_long(view) {
        return view;
    }
    let from = ByteView::from(view);
    let (start, length) = (from.offset as usize, from.length as usize);
    if strings.last().is_none_or(|last| last.len() + length > i32::MAX as usize) {
        strings.push(MutableBuffer::new(length));
    }
    let buffer_index = strings.len() as u32 - 1;
    let to = &mut strings[buffer_index as usize];
    let offset = to.len() as u32;
    to.extend_from_slice(&buffers[from.buffer_index as usize][start..start + length]);
    ByteView { buffer_index, offset, ..from }.as_u128()
}

/// `bytes` are the rows of an array of this type, and `strings` what views among them point into.
fn fixed_array(
    data_type: &DataType,
    bytes: MutableBuffer,
    nulls: Option<NullBuffer>,
    strings: &[Buffer],
    rows: usize,
) -> ArrayRef {
    let data = ArrayData::builder(data_type.clone()).len(rows).nulls(nulls);
    let data = data.add_buffer(bytes.into()).add_buffers(strings.iter().cloned());
    // SAFETY: the first buffer has a value for each row, copied from arrays of this type; views have the numbers of
    // their buffers among these. It is aligned for all types: a `MutableBuffer` is aligned to cache lines.
    make_array(unsafe { data.build_unchecked() })
}

/// The array's values at their places, all of them other ones.
fn in_order(array: &ArrayRef, places: &[u32]) -> Result<ArrayRef> {
    fn put<const WIDTH: usize>(from: &[u8], places: &[u32]) -> MutableBuffer {
        let mut to = MutableBuffer::from_len_zeroed(from.len());
        let (to_values, _) = to.as_slice_mut().as_chunks_mut::<WIDTH>();
        let (values, _) = from.as_chunks::<WIDTH>();
        values.iter().zip(places).for_each(|(value, place)| to_values[*place as usize] = *value);
        to
    }
    let by_rows = || {
        let mut sources = vec![0; places.len()];
        (0..).zip(places).for_each(|(source, place)| sources[*place as usize] = source);
        Ok(take(array, &UInt32Array::from(sources), None)?)
    };
    let Some(width) = fixed_width(array.data_type()) else { return by_rows() };
    let from = fixed_bytes(array, width);
    let bytes = match width {
        1 => put::<1>(&from, places),
        2 => put::<2>(&from, places),
        4 => put::<4>(&from, places),
        8 => put::<8>(&from, places),
        16 => put::<16>(&from, places),
        _ => return by_rows(),
    };
    let nulls = array.nulls().filter(|valid| valid.null_count() > 0).map(|valid| {
        let mut bits = vec![false; places.len()];
        valid.iter().zip(places).for_each(|(valid, place)| bits[*place as usize] = valid);
        NullBuffer::from(bits)
    });
    Ok(fixed_array(array.data_type(), bytes, nulls, string_buffers(array), places.len()))
}

/// The bytes of the rows, with those of long strings.
fn bytes_of(array: &ArrayRef) -> usize {
    let long = |view: &&u128| is_long(**view);
    let strings = views_of(array).unwrap_or_default().iter().filter(long).map(|view| *view as u32 as usize);
    strings.sum::<usize>() + array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

/// Every bit of the hash matters to every bit of this: exchanges go by some of them already.
fn mixed(hash: u64) -> u64 {
    let product = u128::from(hash ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (product >> 64) as u64 ^ product as u64
}

fn range_of(hash: u64) -> usize {
    (mixed(hash) >> (u64::BITS - PARTITION_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn ranges_have_copies_of_their_long_strings() {
        let text = |row: usize| (!row.is_multiple_of(3)).then(|| "a long string "[..row % 14 + 1].repeat(row % 4));
        let texts: Vec<Option<String>> = (0..100).map(text).collect();
        let mut range = Range::default();
        for part in texts.chunks(40) {
            let array: ArrayRef = Arc::new(StringViewArray::from_iter(part));
            range.add(&[Ordered::new(array)], 1, part.len() - 2).expect("rows");
        }
        range.seal().expect("a chunk");
        let wanted: Vec<_> = texts.chunks(40).flat_map(|part| &part[1..part.len() - 1]).cloned().collect();
        let [chunk] = range.chunks.as_slice() else { panic!("one chunk") };
        let strings = chunk.column(0).as_string_view();
        assert_eq!(strings.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>(), wanted);
        let long: usize = wanted.iter().flatten().map(String::len).filter(|length| *length > 12).sum();
        let [buffer] = strings.data_buffers() else { panic!("one buffer") };
        assert_eq!(buffer.len(), long);
    }
}
