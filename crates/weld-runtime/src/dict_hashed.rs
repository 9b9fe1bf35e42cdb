//! Grouping by keys that are hashed.
//!
//! One thread takes row after row. Several threads have a stretch of the directory each, that of the hashes which begin
//! alike, and look for the keys of theirs among all rows:
//!
//! ```text
//! row      0  1  2  3  4      1. hashes of all rows, a share of the rows a thread
//! hash     a1 f3 a1 f7 b2     2. each thread enters the keys of its stretch: slots and `first` name the first row of a key
//! first    0  1  0  3  4      3. groups are numbered in the order of first rows, and slots name groups
//! group    0  1  0  2  3
//! ```
//!
//! What would go into the next stretch, where a cluster of slots crosses its end, waits until all stretches are done. The
//! numbers are those that one thread gives. Hashes, first rows and groups take up to twelve bytes a row for the time.
//! Where there are far fewer keys than rows, it is one thread: the directory has room for all rows here.

use std::ops::Range;

use crate::cache::prefetch;
use crate::dict::{Dict, DictError, RowLayout};
use crate::dict_buffer::Buffer;
use crate::dict_filter;
use crate::dict_finish::{EqualKeys, KeyFunctions};
use crate::dict_group::GroupBuilder;
use crate::dict_merger::slots_for;
use crate::dict_place::{Share, Shared, groups_to_places, part};
use crate::memory::OutOfMemory;
use crate::threads::Workers;

/// Keys hashed at a time: their slots are fetched together, and fit into the first-level cache.
const BLOCK: usize = 128;
/// The directory starts with room for so many keys, until their share of the rows is known.
const KEYS_EXPECTED: u64 = 4096;
/// Below this number of keys a directory is as fast to ask as a filter.
const FILTER_KEYS_MIN: u64 = 1024;
/// Of the first row of a key that waits for the other stretches. Rows are fewer.
const WAITS: u32 = u32::MAX;

/// Fills in rows, a hashed directory and a filter. Gives the places of values, if they are not those of their rows.
///
/// # Safety
/// As for [`GroupBuilder::finish`].
pub(crate) unsafe fn group_hashed(
    dict: &mut Dict,
    builder: &GroupBuilder,
    workers: &Workers<'_>,
    shares: &[Share<'_>],
    functions: KeyFunctions,
) -> Result<Option<Buffer>, DictError> {
    let rows = builder.rows();
    let hashes = match workers.count > 1 {
        // SAFETY: by the caller's promise.
        true => Some(unsafe { Hashes::of(builder, workers, shares, functions)? }),
        false => None,
    };
    // SAFETY: by the caller's promise.
    let groups = unsafe {
        match &hashes {
            Some(hashes) if hashes.are_mostly_new() => group_shared(dict, builder, workers, shares, functions, hashes)?,
            _ => {
                let groups = group_alone(dict, builder, functions, hashes.as_ref().map(Hashes::all))?;
                if dict.len >= FILTER_KEYS_MIN {
                    // SAFETY: the directory has `mask + 1` slots.
                    let slots = std::slice::from_raw_parts(dict.directory, dict.mask as usize + 1);
                    let (filter, shift) = dict_filter::empty(dict.len, builder.pool())?;
                    let hashes = slots.iter().filter(|slot| **slot != 0).map(|slot| (slot >> 32) as u32);
                    dict_filter::enter(&filter, shift, hashes);
                    use_filter(dict, filter, shift);
                }
                groups
            }
        }
    };
    let RowLayout { value_offset, row_bytes } = dict.layout;
    let numbers = Shared::<u8>::new(&dict.owned.rows);
    // The number of its first value stands in each row, and in the one behind the last.
    let begin = |group: usize, at: u32| {
        let row = (group + 1) * row_bytes as usize;
        // SAFETY: rows up to `len + 1` exist, and their number stands at `value_offset`, aligned to four.
        unsafe { numbers.at(row + value_offset as usize).cast::<u32>().write(at) };
    };
    begin(dict.len(), rows as u32);
    match &groups {
        None => workers.each(shares.len(), &|index| {
            part(dict.len(), index, shares.len()).for_each(|group| begin(group, group as u32));
        }),
        // SAFETY: a group for every row.
        Some(groups) => unsafe { groups_to_places(workers, shares, groups, dict.len(), begin)? },
    }
    Ok(groups)
}

fn use_filter(dict: &mut Dict, filter: Buffer, shift: u64) {
    (dict.filter, dict.filter_shift) = (filter.as_ptr().cast(), shift);
    dict.owned.filter = Some(filter);
}

/// By one thread: keys go to rows and directory as they are found. Gives the group of each row, unless each has its own.
/// The hashes are those of all rows, if they are known.
///
/// # Safety
/// As for [`group_hashed`].
unsafe fn group_alone(
    dict: &mut Dict,
    builder: &GroupBuilder,
    functions: KeyFunctions,
    known: Option<&[u32]>,
) -> Result<Option<Buffer>, DictError> {
    let rows = builder.rows();
    let slots = slots_for(rows.min(KEYS_EXPECTED))?;
    let row_bytes = dict.layout.row_bytes;
    dict.owned.directory.grow(slots as usize * 8)?;
    dict.use_directory(slots);
    dict.owned.rows.grow(2 * row_bytes as usize)?;
    dict.rows = dict.owned.rows.as_ptr();
    let mut groups: Option<Buffer> = None;
    let mut seen = 0u64;
    let mut room = [0u32; BLOCK];
    for segment in &builder.segments {
        for block in blocks(segment.rows as usize) {
            // SAFETY: the block's rows are in the segment.
            let keys = unsafe { segment.keys().add(block.start * builder.layout.key_bytes as usize) };
            let hashes = match known {
                Some(known) => &known[seen as usize..][..block.len()],
                None => {
                    // SAFETY: there is room for the hashes of a block.
                    unsafe { (functions.hash)(keys, block.len() as u64, room.as_mut_ptr()) };
                    &room[..block.len()]
                }
            };
            if dict.len + BLOCK as u64 > dict.capacity {
                // As many keys a row as up to now.
                let expected = u128::from(rows) * u128::from(dict.len) / u128::from(seen.max(1));
                let expected = expected.min(rows.into()) as u64;
                dict.grow_directory(slots_for(expected)?.max(2 * (dict.mask + 1)))?;
                // At once, so that the rows get huge pages from the beginning.
                dict.owned.rows.grow(((expected + 2) * u64::from(row_bytes)) as usize)?;
                dict.rows = dict.owned.rows.as_ptr();
            }
            let directory: *mut u64 = dict.owned.directory.as_ptr().cast();
            for hash in hashes {
                // SAFETY: homes are below the number of slots.
                prefetch(unsafe { directory.add((u64::from(*hash) >> dict.shift) as usize) });
            }
            // Room for a row for each key, and for the row behind the last.
            let end = (dict.len + block.len() as u64 + 2) * u64::from(row_bytes);
            if end > dict.owned.rows.len() as u64 {
                dict.owned.rows.grow(end.max(dict.owned.rows.len() as u64 * 3 / 2) as usize)?;
                dict.rows = dict.owned.rows.as_ptr();
            }
            for (index, hash) in hashes.iter().enumerate() {
                // SAFETY: the key is the block's; there is room for its row.
                let row = unsafe {
                    let key = keys.add(index * builder.layout.key_bytes as usize);
                    find_or_insert(dict, builder.layout.key_bytes as usize, key, *hash, functions.equal)
                };
                if groups.is_none() && u64::from(row) != seen + 1 {
                    groups = Some(identity(builder, rows, seen)?);
                }
                if let Some(groups) = &groups {
                    // SAFETY: `seen` is below `rows`, for which the buffer has room.
                    unsafe { *groups.as_ptr().cast::<u32>().add(seen as usize) = row - 1 };
                }
                seen += 1;
            }
        }
    }
    Ok(groups)
}

/// The number of the row of a key, which is a new one if the key is new.
///
/// # Safety
/// `key` is a key of this table; there is room for one more row, and a free slot.
#[inline]
unsafe fn find_or_insert(dict: &mut Dict, key_bytes: usize, key: *const u8, hash: u32, equal: EqualKeys) -> u32 {
    let directory: *mut u64 = dict.owned.directory.as_ptr().cast();
    let row_bytes = dict.layout.row_bytes as usize;
    let mut at = u64::from(hash) >> dict.shift;
    // SAFETY: `at` is at most `mask`; rows that slots name exist; by the caller's promise.
    unsafe {
        loop {
            let slot = *directory.add(at as usize);
            if slot == 0 {
                dict.len += 1;
                let row = dict.rows.add(dict.len as usize * row_bytes);
                std::ptr::copy_nonoverlapping(key, row, key_bytes);
                *directory.add(at as usize) = u64::from(hash) << 32 | dict.len;
                return dict.len as u32;
            }
            if (slot >> 32) as u32 == hash && equal(key, dict.rows.add(slot as u32 as usize * row_bytes)) != 0 {
                return slot as u32;
            }
            at = (at + 1) & dict.mask;
        }
    }
}

/// Groups of the first `seen` rows when each was new.
fn identity(builder: &GroupBuilder, rows: u64, seen: u64) -> Result<Buffer, OutOfMemory> {
    let groups = Buffer::zeroed(rows as usize * 4, builder.pool().clone())?;
    // SAFETY: the buffer has room for `rows` numbers, `seen` is less.
    let numbers = unsafe { std::slice::from_raw_parts_mut(groups.as_ptr().cast::<u32>(), seen as usize) };
    numbers.iter_mut().zip(0..).for_each(|(number, row)| *number = row);
    Ok(groups)
}

fn blocks(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(BLOCK).map(move |start| start..(start + BLOCK).min(rows))
}

/// The hashes of all rows.
struct Hashes {
    of_rows: Buffer,
    rows: usize,
    /// Bits of a bitmap that has as many as there are rows, or up to twice as many, which hashes have set.
    marked: usize,
    bits: usize,
}

impl Hashes {
    /// # Safety
    /// As for [`group_hashed`].
    unsafe fn of(
        builder: &GroupBuilder,
        workers: &Workers<'_>,
        shares: &[Share<'_>],
        functions: KeyFunctions,
    ) -> Result<Hashes, OutOfMemory> {
        let rows = builder.rows() as usize;
        let of_rows = Buffer::unset(rows * 4, workers.pool.clone())?;
        let hashes = Shared::<u32>::new(&of_rows);
        let bits = rows.next_power_of_two().max(64);
        let shift = 32 - bits.trailing_zeros();
        let marks = workers.map(shares.len(), &|index| {
            let marks = Buffer::zeroed(bits / 8, workers.pool.clone())?;
            let mut first = shares[index].rows.start;
            for piece in &shares[index].pieces {
                // SAFETY: the segment has these keys, the buffers have room for these rows and for all bits; by the
                // caller's promise.
                unsafe {
                    let keys = piece.segment.keys().add(piece.rows.start * builder.layout.key_bytes as usize);
                    (functions.hash)(keys, piece.rows.len() as u64, hashes.at(first));
                    for hash in std::slice::from_raw_parts(hashes.at(first), piece.rows.len()) {
                        let bit = (hash >> shift) as usize;
                        *marks.as_ptr().cast::<u64>().add(bit / 64) |= 1 << (bit % 64);
                    }
                }
                first += piece.rows.len();
            }
            Ok(marks)
        });
        let marks = marks.into_iter().collect::<Result<Vec<Buffer>, OutOfMemory>>()?;
        // SAFETY: there are so many words, which nobody writes any more.
        let word = |marks: &Buffer, word: usize| unsafe { *marks.as_ptr().cast::<u64>().add(word) };
        let all = |at: usize| marks.iter().fold(0, |all, marks| all | word(marks, at));
        let marked = (0..bits / 64).map(|at| all(at).count_ones() as usize).sum();
        Ok(Hashes { of_rows, rows, marked, bits })
    }

    /// Whether there is at least one key for two rows, by linear counting (Whang, Vander-Zanden, Taylor: A Linear-Time
    /// Probabilistic Counting Algorithm): of n bits, k keys leave n * exp(-k / n) unset.
    fn are_mostly_new(&self) -> bool {
        let unset = 1.0 - (self.marked as f64 / self.bits as f64).min(1.0 - f64::EPSILON);
        -unset.ln() * self.bits as f64 * 2.0 >= self.rows as f64
    }

    fn all(&self) -> &[u32] {
        // SAFETY: the buffer has the hashes of so many rows.
        unsafe { std::slice::from_raw_parts(self.of_rows.as_ptr().cast(), self.rows) }
    }
}

/// By several threads, which gives the same groups.
///
/// # Safety
/// As for [`group_hashed`].
unsafe fn group_shared(
    dict: &mut Dict,
    builder: &GroupBuilder,
    workers: &Workers<'_>,
    shares: &[Share<'_>],
    functions: KeyFunctions,
    hashes: &Hashes,
) -> Result<Option<Buffer>, DictError> {
    let slots = slots_for(hashes.rows as u64)?;
    dict.owned.directory.grow(slots as usize * 8)?;
    dict.use_directory(slots);
    let first = Buffer::unset(hashes.rows * 4, workers.pool.clone())?;
    let table = FirstRows {
        builder,
        starts: starts(builder),
        equal: functions.equal,
        slots: Shared::new(&dict.owned.directory),
        shift: dict.shift,
        mask: dict.mask,
        first: Shared::new(&first),
    };
    let bits = workers.count.next_power_of_two().trailing_zeros();
    // SAFETY: stretches have no slot and no row in common; by the caller's promise.
    let waiting = workers.map(1 << bits, &|stretch| unsafe { table.enter_stretch(hashes.all(), stretch, bits) });
    if waiting.into_iter().sum::<usize>() > 0 {
        // SAFETY: no other thread is at work; by the caller's promise.
        unsafe { table.enter_waiting(hashes.all()) };
    }
    // SAFETY: all rows have a first row now.
    let first = unsafe { std::slice::from_raw_parts(first.as_ptr().cast::<u32>(), hashes.rows) };
    // SAFETY: by the caller's promise.
    let groups = unsafe { number_groups(dict, builder, workers, shares, first)? };
    if let Some(groups) = &groups {
        let group_of = Shared::<u32>::new(groups);
        workers.each(shares.len(), &|index| {
            for at in part(slots as usize, index, shares.len()) {
                // SAFETY: each slot is of one part; a row that a slot names has a group.
                unsafe {
                    let slot = table.slots.at(at);
                    if *slot != 0 {
                        let group = group_of.at((*slot as u32 - 1) as usize).read();
                        *slot = *slot >> 32 << 32 | u64::from(group + 1);
                    }
                }
            }
        });
    }
    if dict.len >= FILTER_KEYS_MIN {
        let (filter, shift) = dict_filter::empty(dict.len, workers.pool)?;
        workers.each(1 << bits, &|stretch| {
            for_rows_of_stretch(hashes.all(), stretch, bits, |rows| {
                let own = rows.iter().map(|row| hashes.all()[*row as usize]);
                // SAFETY: a filter has more words than there are stretches, so that each word is of one.
                unsafe { dict_filter::enter(&filter, shift, own) };
            });
        });
        use_filter(dict, filter, shift);
    }
    Ok(groups)
}

/// Makes the rows of the table, in the order of the first rows of their keys. Gives the group of each row of the builder,
/// unless each has its own.
///
/// # Safety
/// There is a first row for each, which is its own first row.
unsafe fn number_groups(
    dict: &mut Dict,
    builder: &GroupBuilder,
    workers: &Workers<'_>,
    shares: &[Share<'_>],
    first: &[u32],
) -> Result<Option<Buffer>, DictError> {
    let is_new = |row: usize| first[row] as usize == row;
    let news = workers.map(shares.len(), &|index| shares[index].rows.clone().filter(|row| is_new(*row)).count());
    dict.len = news.iter().sum::<usize>() as u64;
    let row_bytes = dict.layout.row_bytes as usize;
    dict.owned.rows.grow((dict.len() + 2) * row_bytes)?;
    dict.rows = dict.owned.rows.as_ptr();
    let groups = match dict.len() == first.len() {
        true => None,
        false => Some(Buffer::unset(first.len() * 4, workers.pool.clone())?),
    };
    let group_of = groups.as_ref().map(Shared::<u32>::new);
    let (rows, key_bytes) = (Shared::<u8>::new(&dict.owned.rows), builder.layout.key_bytes as usize);
    workers.each(shares.len(), &|index| {
        let (mut row, mut group) = (shares[index].rows.start, news[..index].iter().sum::<usize>());
        for piece in &shares[index].pieces {
            for (row, at) in (row..).zip(piece.rows.clone()).filter(|(row, _)| is_new(*row)) {
                // SAFETY: the segment has this key; there is a row and a number for each group, which is of one share.
                unsafe {
                    let key = piece.segment.keys().add(at * key_bytes);
                    std::ptr::copy_nonoverlapping(key, rows.at((group + 1) * row_bytes), key_bytes);
                    if let Some(group_of) = &group_of {
                        group_of.at(row).write(group as u32);
                    }
                }
                group += 1;
            }
            row += piece.rows.len();
        }
    });
    if let Some(group_of) = &group_of {
        workers.each(shares.len(), &|index| {
            for row in shares[index].rows.clone().filter(|row| !is_new(*row)) {
                // SAFETY: first rows have their numbers, which are not written here.
                unsafe { group_of.at(row).write(group_of.at(first[row] as usize).read()) };
            }
        });
    }
    Ok(groups)
}

/// Calls `f` for the rows of each block whose hashes begin with these bits. Whose do is nothing that a branch could
/// foresee.
fn for_rows_of_stretch(hashes: &[u32], stretch: usize, bits: u32, mut f: impl FnMut(&[u32])) {
    let mut own = [0u32; BLOCK];
    for block in blocks(hashes.len()) {
        let mut count = 0;
        for row in block {
            own[count] = row as u32;
            count += usize::from((hashes[row] >> (32 - bits)) as usize == stretch);
        }
        f(&own[..count]);
    }
}

/// The number of the first row of each segment.
fn starts(builder: &GroupBuilder) -> Vec<usize> {
    let mut next = 0;
    builder.segments.iter().map(|segment| (next, next += segment.rows as usize).0).collect()
}

/// A directory on its way: slots name the first row of a key, counted from one.
struct FirstRows<'a> {
    builder: &'a GroupBuilder,
    starts: Vec<usize>,
    equal: EqualKeys,
    slots: Shared<u64>,
    shift: u32,
    mask: u64,
    /// The first row with the key of each row.
    first: Shared<u32>,
}

impl FirstRows<'_> {
    /// Enters the rows whose hashes begin with these bits. Gives how many wait, since the end of the stretch has come.
    ///
    /// # Safety
    /// As for [`group_hashed`]; no other thread has this stretch.
    unsafe fn enter_stretch(&self, hashes: &[u32], stretch: usize, bits: u32) -> usize {
        let end = ((self.mask + 1) >> bits) * (stretch as u64 + 1);
        let mut waiting = 0;
        for_rows_of_stretch(hashes, stretch, bits, |rows| {
            for row in rows {
                prefetch(self.slots.at((hashes[*row as usize] >> self.shift) as usize));
            }
            for row in rows {
                // SAFETY: by the caller's promise, rows of a stretch are those of one thread.
                unsafe {
                    let first = self.enter(*row, hashes[*row as usize], Some(end));
                    self.first.at(*row as usize).write(first.unwrap_or(WAITS));
                    waiting += usize::from(first.is_none());
                }
            }
        });
        waiting
    }

    /// Enters what waits.
    ///
    /// # Safety
    /// As for [`group_hashed`]; no other thread is at work.
    unsafe fn enter_waiting(&self, hashes: &[u32]) {
        for (row, hash) in hashes.iter().enumerate() {
            // SAFETY: by the caller's promise.
            unsafe {
                if self.first.at(row).read() == WAITS
                    && let Some(first) = self.enter(row as u32, *hash, None)
                {
                    self.first.at(row).write(first);
                }
            }
        }
    }

    /// The first row with the key of this one; none if that would be known, or entered, from slot `end` on only. Without
    /// an end, the search goes on at the first slot. There is a free slot.
    ///
    /// # Safety
    /// As for [`group_hashed`]; no other thread has these slots.
    #[inline]
    unsafe fn enter(&self, row: u32, hash: u32, end: Option<u64>) -> Option<u32> {
        let mut at = u64::from(hash >> self.shift);
        loop {
            // SAFETY: `at` is at most `mask`; slots name rows that exist; by the caller's promise.
            unsafe {
                let slot = self.slots.at(at as usize);
                if *slot == 0 {
                    *slot = u64::from(hash) << 32 | u64::from(row + 1);
                    return Some(row);
                }
                let other = (*slot as u32).wrapping_sub(1);
                if (*slot >> 32) as u32 == hash && (self.equal)(self.key(row), self.key(other)) != 0 {
                    return Some(other);
                }
            }
            at += 1;
            if end == Some(at) {
                return None;
            }
            at &= self.mask;
        }
    }

    /// # Safety
    /// The builder has this row.
    unsafe fn key(&self, row: u32) -> *const u8 {
        let segment = self.starts.partition_point(|start| *start <= row as usize) - 1;
        let at = row as usize - self.starts[segment];
        // SAFETY: by the caller's promise.
        unsafe { self.builder.segments[segment].keys().add(at * self.builder.layout.key_bytes as usize) }
    }
}
