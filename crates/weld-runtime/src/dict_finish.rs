//! From the rows of a `groupbuilder` to its table: finds the distinct keys and puts the values of each together.
//!
//! Values keep the order of their rows within a group. When the rows are already in the order of their groups (unique
//! keys, or input sorted by a dense key), the columns are only copied together.

use std::ops::Range;

use crate::dict::{Dict, DictError, DictKind, KeyKind, RowLayout};
use crate::dict_buffer::Buffer;
use crate::dict_filter;
use crate::dict_group::{GroupBuilder, GroupLayout, Segment};
use crate::dict_merger::{ROWS_MAX, slots_for};
use crate::memory::OutOfMemory;

/// Hashes `count` keys that lie one after the other.
pub type HashKeys = unsafe extern "C" fn(keys: *const u8, count: u64, hashes: *mut u32) -> u32;
/// Whether two keys are equal: 0 or 1.
pub type EqualKeys = unsafe extern "C" fn(a: *const u8, b: *const u8) -> u32;

/// How keys are hashed and compared; compiled code provides both.
#[derive(Clone, Copy, Debug)]
pub struct KeyFunctions {
    pub hash: HashKeys,
    pub equal: EqualKeys,
}

/// Keys hashed at a time: their slots are fetched together, and fit into the first-level cache.
const BLOCK: usize = 128;
/// A dense table has at most 64 possible keys for each actual one: 16 bytes a key, half of what slots take.
const SPREAD_MAX: u64 = 64;
/// The directory starts with room for so many keys, until their share of the rows is known.
const KEYS_EXPECTED: u64 = 4096;
/// Below this number of keys a directory is as fast to ask as a filter.
const FILTER_KEYS_MIN: u64 = 1024;

impl GroupLayout {
    /// The rows of the finished table.
    pub fn row_layout(&self) -> RowLayout {
        let value_offset = self.key_bytes.next_multiple_of(4);
        RowLayout { value_offset, row_bytes: (value_offset + 4).next_multiple_of(self.key_align.max(4)) }
    }
}

impl GroupBuilder {
    /// The table of all merged rows.
    ///
    /// # Safety
    /// The functions are right for the keys of this builder, whose rows compiled code wrote.
    pub unsafe fn finish(mut self, functions: KeyFunctions) -> Result<Dict, DictError> {
        self.seal();
        let rows = self.rows();
        if rows > ROWS_MAX {
            return Err(DictError::TooManyRows);
        }
        let layout = self.layout.row_layout();
        let pool = self.pool().clone();
        let mut dict = Dict::without_memory(layout, &pool, self.layout.key);
        dict.owned.bounds = key_bounds(self.layout.key, &self.segments);
        let spread = dict.owned.bounds.map(|(min, max)| max.wrapping_sub(min) as u64);
        let groups = match spread {
            Some(spread) if spread / SPREAD_MAX <= rows => dense(&mut dict, &self, rows, spread)?,
            // SAFETY: by the caller's promise.
            _ => unsafe { hashed(&mut dict, &self, rows, functions)? },
        };
        place_values(&mut dict, &self, rows, groups)?;
        dict.owned.arena = self.arena;
        Ok(dict)
    }
}

/// The number of the group of each row, or `None` when rows are in the order of their groups.
type Groups = Option<Buffer>;

// ---- dense keys ----

fn key_bounds(key: KeyKind, segments: &[Segment]) -> Option<(i64, i64)> {
    /// # Safety
    /// The keys of the segments are of type `T`.
    unsafe fn bounds<T: Copy + Ord>(segments: &[Segment]) -> Option<(T, T)> {
        let parts = segments.iter().filter_map(|segment| {
            // SAFETY: a segment has `rows` keys.
            let keys = unsafe { std::slice::from_raw_parts(segment.keys().cast::<T>(), segment.rows as usize) };
            // One pass that LLVM turns into vector instructions.
            keys.first().map(|first| keys.iter().fold((*first, *first), |(a, b), k| (a.min(*k), b.max(*k))))
        });
        parts.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
    }
    let KeyKind::Integer { bytes, signed } = key else { return None };
    // SAFETY: the layout says that keys are integers of this size.
    unsafe {
        match (bytes, signed) {
            (1, true) => bounds::<i8>(segments).map(|(a, b)| (a.into(), b.into())),
            (2, true) => bounds::<i16>(segments).map(|(a, b)| (a.into(), b.into())),
            (4, true) => bounds::<i32>(segments).map(|(a, b)| (a.into(), b.into())),
            (_, true) => bounds::<i64>(segments),
            (1, false) => bounds::<u8>(segments).map(|(a, b)| (a.into(), b.into())),
            (2, false) => bounds::<u16>(segments).map(|(a, b)| (a.into(), b.into())),
            (4, false) => bounds::<u32>(segments).map(|(a, b)| (a.into(), b.into())),
            (_, false) => bounds::<u64>(segments).map(|(a, b)| (a as i64, b as i64)),
        }
    }
}

/// Calls `f(distance)` for the distance of each row's key from the smallest, in the order of rows.
fn for_each_distance(builder: &GroupBuilder, min: i64, mut f: impl FnMut(u64)) {
    for segment in &builder.segments {
        let rows = segment.rows as usize;
        macro_rules! go {
            ($ty:ty) => {{
                // SAFETY: a segment has `rows` keys, which are integers of this size.
                let keys = unsafe { std::slice::from_raw_parts(segment.keys().cast::<$ty>(), rows) };
                // Only the difference counts, and it is below 2^64 in both signednesses.
                keys.iter().for_each(|key| f((*key as i64).wrapping_sub(min) as u64));
            }};
        }
        match builder.layout.key {
            KeyKind::Integer { bytes: 1, signed: true } => go!(i8),
            KeyKind::Integer { bytes: 2, signed: true } => go!(i16),
            KeyKind::Integer { bytes: 4, signed: true } => go!(i32),
            KeyKind::Integer { bytes: 1, signed: false } => go!(u8),
            KeyKind::Integer { bytes: 2, signed: false } => go!(u16),
            KeyKind::Integer { bytes: 4, signed: false } => go!(u32),
            _ => go!(i64),
        }
    }
}

/// Fills in a dense directory, and `starts` unless keys are unique.
fn dense(dict: &mut Dict, builder: &GroupBuilder, rows: u64, spread: u64) -> Result<Groups, DictError> {
    let min = dict.owned.bounds.map_or(0, |(min, _)| min);
    let words = (spread / 32 + 1) as usize;
    dict.owned.directory.grow(words * 8)?;
    // SAFETY: the buffer has `words` zero words, and nobody else has it.
    let directory = unsafe { std::slice::from_raw_parts_mut(dict.owned.directory.as_ptr().cast::<u64>(), words) };
    let (mut last, mut sorted) = (0, true);
    for_each_distance(builder, min, |distance| {
        directory[(distance / 32) as usize] |= 1 << (distance % 32);
        sorted &= last <= distance;
        last = distance;
    });
    let mut before = 0u64;
    for word in directory.iter_mut() {
        let bits = u64::from(word.count_ones());
        *word |= before << 32;
        before += bits;
    }
    let directory = &*directory;
    let group = |distance: u64| {
        let word = directory[(distance / 32) as usize];
        let below = word as u32 & ((1u32 << (distance % 32)) - 1);
        (word >> 32) as u32 + below.count_ones()
    };
    dict.kind = DictKind::Dense;
    (dict.min, dict.mask, dict.len) = (min, spread, before);
    dict.directory = directory.as_ptr();
    let unique = before == rows;
    if unique && sorted {
        return Ok(None);
    }
    let pool = builder.pool();
    let mut groups = None;
    if !sorted {
        let buffer = Buffer::zeroed(rows as usize * 4, pool.clone())?;
        let mut next = buffer.as_ptr().cast::<u32>();
        for_each_distance(builder, min, |distance| {
            // SAFETY: this runs once for each of `rows` rows, for which the buffer has room.
            unsafe {
                next.write(group(distance));
                next = next.add(1);
            }
        });
        groups = Some(buffer);
    }
    if !unique {
        let starts = Buffer::zeroed((before as usize + 1) * 4, pool.clone())?;
        // SAFETY: the buffer has that many zero numbers.
        let counts = unsafe { std::slice::from_raw_parts_mut(starts.as_ptr().cast::<u32>(), before as usize + 1) };
        for_each_distance(builder, min, |distance| counts[group(distance) as usize + 1] += 1);
        running_sum(counts);
        dict.starts = starts.as_ptr().cast();
        dict.owned.starts = Some(starts);
    }
    Ok(groups)
}

// ---- any keys ----

/// Fills in rows, a hashed directory and a filter.
///
/// # Safety
/// As for [`GroupBuilder::finish`].
unsafe fn hashed(
    dict: &mut Dict,
    builder: &GroupBuilder,
    rows: u64,
    functions: KeyFunctions,
) -> Result<Groups, DictError> {
    let slots = slots_for(rows.min(KEYS_EXPECTED))?;
    let RowLayout { value_offset, row_bytes } = dict.layout;
    dict.owned.directory.grow(slots as usize * 8)?;
    dict.use_directory(slots);
    dict.owned.rows.grow(2 * row_bytes as usize)?;
    dict.rows = dict.owned.rows.as_ptr();
    let mut groups: Groups = None;
    let mut seen = 0u64;
    let mut hashes = [0u32; BLOCK];
    for segment in &builder.segments {
        for block in blocks(segment.rows as usize) {
            // SAFETY: the block's rows are in the segment; `hashes` has room for `BLOCK` of them.
            let keys = unsafe {
                let keys = segment.keys().add(block.start * builder.layout.key_bytes as usize);
                (functions.hash)(keys, block.len() as u64, hashes.as_mut_ptr());
                keys
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
            for hash in &hashes[..block.len()] {
                // SAFETY: homes are below the number of slots.
                prefetch(unsafe { directory.add((u64::from(*hash) >> dict.shift) as usize) });
            }
            // Room for a row for each key, and for the row behind the last.
            let end = (dict.len + block.len() as u64 + 2) * u64::from(row_bytes);
            if end > dict.owned.rows.len() as u64 {
                dict.owned.rows.grow(end.max(dict.owned.rows.len() as u64 * 3 / 2) as usize)?;
                dict.rows = dict.owned.rows.as_ptr();
            }
            for (index, hash) in hashes[..block.len()].iter().enumerate() {
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
    if dict.len >= FILTER_KEYS_MIN {
        // SAFETY: the directory has `mask + 1` slots.
        let slots = unsafe { std::slice::from_raw_parts(dict.directory, dict.mask as usize + 1) };
        let (filter, shift) = dict_filter::build(slots, dict.len, builder.pool())?;
        (dict.filter, dict.filter_shift) = (filter.as_ptr().cast(), shift);
        dict.owned.filter = Some(filter);
    }
    number_values(dict, value_offset, rows, &groups);
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

/// Writes the number of its first value into each row, and into the one behind the last.
fn number_values(dict: &mut Dict, value_offset: u32, rows: u64, groups: &Groups) {
    let row_bytes = dict.layout.row_bytes as usize;
    // SAFETY: rows up to `len + 1` exist, and their number stands at `value_offset`, aligned to four.
    let number = |row: usize| unsafe { dict.rows.add(row * row_bytes + value_offset as usize).cast::<u32>() };
    let Some(groups) = groups else {
        // SAFETY: as above.
        (0..=dict.len()).for_each(|group| unsafe { *number(group + 1) = group as u32 });
        return;
    };
    // SAFETY: there is a group for every row.
    let groups = unsafe { std::slice::from_raw_parts(groups.as_ptr().cast::<u32>(), rows as usize) };
    // SAFETY: groups are below `len`; rows were zero where numbers stand.
    unsafe {
        groups.iter().for_each(|group| *number(*group as usize + 2) += 1);
        *number(1) = 0;
        (1..=dict.len()).for_each(|group| *number(group + 1) += *number(group));
    }
}

// ---- values ----

/// Copies the values into columns, grouped.
fn place_values(dict: &mut Dict, builder: &GroupBuilder, rows: u64, groups: Groups) -> Result<(), DictError> {
    let targets = match &groups {
        Some(groups) => {
            // SAFETY: there is a group for every row.
            let numbers = unsafe { std::slice::from_raw_parts_mut(groups.as_ptr().cast::<u32>(), rows as usize) };
            groups_to_targets(dict, numbers)?;
            Some(&*numbers)
        }
        None => None,
    };
    for (index, bytes) in builder.layout.column_bytes.iter().enumerate() {
        let column = Buffer::zeroed(rows as usize * *bytes as usize, builder.pool().clone())?;
        let mut first = 0;
        for segment in &builder.segments {
            let count = segment.rows as usize;
            let source = segment.columns[index];
            // SAFETY: the segment has `count` values, the column room for those of all segments; targets are a
            // permutation of the numbers below `rows`.
            unsafe {
                match targets {
                    None => copy(source, column.as_ptr().add(first * *bytes as usize), count * *bytes as usize),
                    Some(targets) => scatter(source, column.as_ptr(), &targets[first..first + count], *bytes as usize),
                }
            }
            first += count;
        }
        dict.owned.column_pointers.push(column.as_ptr());
        dict.owned.columns.push(column);
    }
    dict.columns = dict.owned.column_pointers.as_ptr();
    Ok(())
}

/// Turns each row's group into the place of its value: the group's first one, then the next.
fn groups_to_targets(dict: &Dict, numbers: &mut [u32]) -> Result<(), DictError> {
    if numbers.len() == dict.len() {
        // Unique keys: group n has value n.
        return Ok(());
    }
    let next = Buffer::zeroed(dict.len() * 4, dict.owned.rows.pool().clone())?;
    // SAFETY: the buffer has a number for each group.
    let next = unsafe { std::slice::from_raw_parts_mut(next.as_ptr().cast::<u32>(), dict.len()) };
    next.iter_mut().enumerate().for_each(|(group, first)| *first = dict.first_value(group + 1) as u32);
    for number in numbers {
        let place = &mut next[*number as usize];
        *number = *place;
        *place += 1;
    }
    Ok(())
}

/// # Safety
/// As for `copy_nonoverlapping`.
unsafe fn copy(source: *const u8, target: *mut u8, bytes: usize) {
    // SAFETY: by the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(source, target, bytes) };
}

/// Writes value n to place `targets[n]`.
///
/// # Safety
/// There are as many values as targets, `bytes` each, and every target is a place of `target`.
unsafe fn scatter(source: *const u8, target: *mut u8, targets: &[u32], bytes: usize) {
    /// # Safety
    /// As for `scatter`; values are of the size of `T`.
    unsafe fn typed<T>(source: *const u8, target: *mut u8, targets: &[u32]) {
        let (source, target) = (source.cast::<T>(), target.cast::<T>());
        for (index, place) in targets.iter().enumerate() {
            // SAFETY: by the caller's promise.
            unsafe { target.add(*place as usize).write_unaligned(source.add(index).read_unaligned()) };
        }
    }
    // SAFETY: by the caller's promise.
    unsafe {
        match bytes {
            1 => typed::<u8>(source, target, targets),
            2 => typed::<u16>(source, target, targets),
            4 => typed::<u32>(source, target, targets),
            8 => typed::<u64>(source, target, targets),
            16 => typed::<u128>(source, target, targets),
            _ => targets.iter().enumerate().for_each(|(index, place)| {
                copy(source.add(index * bytes), target.add(*place as usize * bytes), bytes);
            }),
        }
    }
}

fn running_sum(numbers: &mut [u32]) {
    let mut sum = 0;
    for number in numbers {
        sum += *number;
        *number = sum;
    }
}

fn blocks(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(BLOCK).map(move |start| start..(start + BLOCK).min(rows))
}

#[inline]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing that the program sees, and faults at no address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{hash_words, slot_hash};
    use crate::memory::{Limit, MemoryPool};
    use std::collections::HashMap;
    use std::sync::Arc;

    /// Keys of the tests: integers of any size, or sixteen bytes compared by a function.
    trait Key: Copy + Eq + std::hash::Hash + std::fmt::Debug {
        const KIND: KeyKind;
        fn word(self) -> u64;
    }

    macro_rules! integer_keys {
        ($($ty:ty: $signed:literal),*) => { $(impl Key for $ty {
            const KIND: KeyKind = KeyKind::Integer { bytes: size_of::<$ty>() as u8, signed: $signed };
            fn word(self) -> u64 {
                self as i64 as u64
            }
        })* };
    }

    integer_keys!(i8: true, i16: true, i32: true, i64: true, u8: false, u16: false, u32: false, u64: false);

    impl Key for [u64; 2] {
        const KIND: KeyKind = KeyKind::Other;
        fn word(self) -> u64 {
            self[0]
        }
    }

    unsafe extern "C" fn hash<K: Key>(keys: *const u8, count: u64, hashes: *mut u32) -> u32 {
        for index in 0..count as usize {
            // SAFETY: the caller gives `count` keys and room for their hashes.
            unsafe { *hashes.add(index) = slot_hash(hash_words(&[(*keys.cast::<K>().add(index)).word()])) };
        }
        0
    }

    unsafe extern "C" fn equal<K: Key>(a: *const u8, b: *const u8) -> u32 {
        // SAFETY: the caller gives two keys.
        unsafe { (*a.cast::<K>() == *b.cast::<K>()).into() }
    }

    fn functions<K: Key>() -> KeyFunctions {
        KeyFunctions { hash: hash::<K>, equal: equal::<K> }
    }

    fn layout<K: Key>() -> GroupLayout {
        GroupLayout {
            key: K::KIND,
            key_bytes: size_of::<K>() as u32,
            key_align: align_of::<K>() as u32,
            column_bytes: [8, 1, 2, 3, 16].into(),
        }
    }

    /// What compiled code does; the five columns hold `value` in their own widths.
    fn merge<K: Key>(builder: &mut GroupBuilder, key: K, value: u64) -> Result<(), OutOfMemory> {
        if builder.count == builder.capacity {
            builder.grow()?;
        }
        let at = builder.count as usize;
        // SAFETY: `grow` made room for another row of this layout.
        unsafe {
            *builder.keys.cast::<K>().add(at) = key;
            for (index, bytes) in [8, 1, 2, 3, 16].into_iter().enumerate() {
                let column = (*builder.columns.add(index)).add(at * bytes);
                std::ptr::copy_nonoverlapping(u128::from(value).to_le_bytes().as_ptr(), column, bytes);
            }
        }
        builder.count += 1;
        Ok(())
    }

    /// The values of a key, read as compiled code reads them.
    fn lookup<K: Key>(dict: &Dict, key: K) -> Vec<u64> {
        let group = match dict.kind {
            DictKind::Dense => {
                let distance = (key.word() as i64).wrapping_sub(dict.min) as u64;
                if distance > dict.mask {
                    return Vec::new();
                }
                // SAFETY: a word for every 32 keys up to `mask`.
                let word = unsafe { *dict.directory.add((distance / 32) as usize) };
                if word >> (distance % 32) & 1 == 0 {
                    return Vec::new();
                }
                (word >> 32) as usize + (word as u32 & ((1 << (distance % 32)) - 1)).count_ones() as usize + 1
            }
            DictKind::Hashed => {
                let hash = slot_hash(hash_words(&[key.word()]));
                let mut at = u64::from(hash) >> dict.shift;
                loop {
                    // SAFETY: slots up to `mask`, and rows that they name, exist.
                    unsafe {
                        let slot = *dict.directory.add(at as usize);
                        let row = dict.rows.add(slot as u32 as usize * dict.layout.row_bytes as usize);
                        if slot == 0 || (slot >> 32) as u32 == hash && *row.cast::<K>() == key {
                            break slot as u32 as usize;
                        }
                    }
                    at = (at + 1) & dict.mask;
                }
            }
        };
        let range = if group == 0 { 0..0 } else { dict.first_value(group)..dict.first_value(group + 1) };
        // SAFETY: the columns have all values.
        let read = |column: usize, bytes: usize, at: usize| unsafe {
            let mut value = [0; 16];
            std::ptr::copy_nonoverlapping(dict.columns()[column].add(at * bytes), value.as_mut_ptr(), bytes);
            u128::from_le_bytes(value)
        };
        range
            .map(|at| {
                let value = read(0, 8, at);
                assert_eq!(read(1, 1, at), value & 0xff);
                assert_eq!(read(2, 2, at), value & 0xffff);
                assert_eq!(read(3, 3, at), value & 0xff_ffff);
                assert_eq!(read(4, 16, at), value);
                value as u64
            })
            .collect()
    }

    fn check<K: Key>(keys: impl IntoIterator<Item = K>, absent: &[K], kind: DictKind) {
        let pool = Arc::new(Limit::none());
        let shared: Arc<dyn MemoryPool> = pool.clone();
        let keys: Vec<K> = keys.into_iter().collect();
        // The same rows from one builder, and from three that are combined.
        for parts in [1, 3] {
            let mut builder = GroupBuilder::new(layout::<K>(), &shared);
            let mut expected: HashMap<K, Vec<u64>> = HashMap::new();
            let mut value = 0;
            for part in keys.chunks(keys.len().div_ceil(parts).max(1)) {
                let mut other = GroupBuilder::new(layout::<K>(), &shared);
                for key in part {
                    value += 77;
                    merge(&mut other, *key, value).unwrap();
                    expected.entry(*key).or_default().push(value);
                }
                builder.combine(other);
            }
            assert_eq!(builder.rows(), keys.len() as u64);
            // SAFETY: the functions are those of the key type.
            let dict = unsafe { builder.finish(functions::<K>()) }.unwrap();
            assert_eq!((dict.kind(), dict.len(), dict.values()), (kind, expected.len(), keys.len()));
            for (key, values) in &expected {
                assert_eq!(lookup(&dict, *key), *values, "{key:?}");
            }
            for key in absent {
                assert_eq!(lookup(&dict, *key), []);
            }
            check_rows::<K>(&dict, &expected);
            drop(dict);
            assert_eq!(pool.used(), 0);
        }
    }

    fn check_rows<K: Key>(dict: &Dict, expected: &HashMap<K, Vec<u64>>) {
        let rows = dict.rows().unwrap();
        for row in 1..=dict.len() {
            // SAFETY: rows up to `len + 1` exist, key first, number of the first value behind it.
            let (key, first, end) = unsafe {
                let row = rows.add(row * dict.layout.row_bytes as usize);
                let number = |row: *const u8| *row.add(dict.layout.value_offset as usize).cast::<u32>();
                (*row.cast::<K>(), number(row), number(row.add(dict.layout.row_bytes as usize)))
            };
            assert_eq!((end - first) as usize, expected[&key].len());
        }
    }

    fn scrambled(count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(move |i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count)
    }

    #[test]
    fn no_rows_and_one_row() {
        check::<i64>([], &[0, i64::MIN], DictKind::Hashed);
        check::<[u64; 2]>([], &[[0, 0]], DictKind::Hashed);
        check([7i64], &[6, 8, i64::MIN, i64::MAX], DictKind::Dense);
        check([i64::MIN], &[i64::MAX, 0], DictKind::Dense);
        check([u64::MAX], &[0, 1], DictKind::Dense);
        check([[0u64, 0]], &[[0, 1]], DictKind::Hashed);
    }

    #[test]
    fn dense_unique_sorted_and_scrambled() {
        check(-500..500i64, &[-501, 500, i64::MIN, i64::MAX], DictKind::Dense);
        check((0..1000).map(|i| i * 4 + 3i32), &[0, 4, i32::MIN], DictKind::Dense);
        check((0..1000u64).rev(), &[1000], DictKind::Dense);
        check((0..1000u64).rev().map(|i| u64::MAX - 2000 + i), &[0, u64::MAX], DictKind::Dense);
    }

    #[test]
    fn dense_with_repetitions() {
        check((0..3000).map(|i| i / 3 - 7i32), &[-8, 993], DictKind::Dense);
        check(scrambled(5000).map(|i| (i % 999) as i16), &[-1, 999], DictKind::Dense);
        check(scrambled(2000).map(|i| i as i8), &[], DictKind::Dense);
        check(scrambled(2000).map(|i| i as u8), &[], DictKind::Dense);
        check(scrambled(2000).map(|i| i as u16 * 3), &[1], DictKind::Dense);
        check(scrambled(2000).map(|i| i as u32 * 3), &[1], DictKind::Dense);
    }

    #[test]
    fn sparse_keys_are_hashed() {
        check([i64::MIN, 0, i64::MAX], &[1, -1], DictKind::Hashed);
        check([u64::MAX, 0], &[1], DictKind::Hashed);
        check((0..100_000).map(|i| i * 1_000_003i64), &[1, -1, 1_000_002], DictKind::Hashed);
        check(scrambled(50_000).map(|i| (i % 9000) * 1_000_003), &[1], DictKind::Hashed);
        check((0..30_000u64).map(|i| [i % 10_000, i % 7]), &[[0, 99]], DictKind::Hashed);
    }

    #[test]
    fn repetitions_that_begin_late() {
        let keys = (0..200_000u64).map(|i| [i.min(199_000) / 2 * 2, 0]);
        check(keys, &[[1, 0]], DictKind::Hashed);
    }

    #[test]
    fn a_limit_is_an_error_at_every_step() {
        for limit in (10_000..3_000_000).step_by(70_000) {
            let pool = Arc::new(Limit::new(limit));
            let shared: Arc<dyn MemoryPool> = pool.clone();
            let mut builder = GroupBuilder::new(layout::<i64>(), &shared);
            let merged = scrambled(20_000).try_for_each(|i| merge(&mut builder, (i % 5000) as i64 * 1_000_003, i));
            // SAFETY: the functions are those of the key type.
            let dict = merged.map_err(DictError::from).and_then(|()| unsafe { builder.finish(functions::<i64>()) });
            match dict {
                Ok(dict) => assert_eq!(dict.len(), 5000),
                Err(error) => assert_eq!(error, DictError::OutOfMemory),
            }
            assert_eq!(pool.used(), 0);
        }
    }
}
