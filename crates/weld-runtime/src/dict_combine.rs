//! Merging one `dictmerger`'s table into another: those of a loop's ranges, or of a query's partitions.
//!
//! A directory's slots are in the order of hashes, so that a part of all hashes is a stretch of either directory. Large
//! tables are combined a stretch a thread, in two steps:
//!
//! ```text
//! this   [ 0010.. | 0111..   1001.. | 1100.. ]    1. each thread finds the keys of its stretch: values of known ones are
//! other  [ 0001..   0111.. | 1000.. |        ]       merged, new ones get a slot; when all have counted theirs,
//!          thread 0            thread 1            2. new rows are copied, numbered by stretch and order
//! ```
//!
//! What would go into the next stretch, where a cluster of slots crosses its end, waits until both steps are done. Rows
//! are numbered in the same order whichever thread is faster. Keys stay where they are: the table takes the other's
//! arena.

use crate::cache::prefetch;
use crate::dict::{Dict, DictError, RowLayout};
use crate::dict_buffer::Buffer;
use crate::dict_finish::EqualKeys;
use crate::memory::OutOfMemory;
use crate::threads::{WorkOn, Workers};

/// Merges the value at `from` into the one at `into`.
pub type MergeValues = unsafe extern "C" fn(into: *mut u8, from: *const u8) -> u32;

/// What compiled code knows of a table's rows.
#[derive(Clone, Copy, Debug)]
pub struct RowFunctions {
    pub equal: EqualKeys,
    pub merge: MergeValues,
}

/// Fewer rows are combined faster by one thread.
const SHARED_MIN: u64 = if cfg!(test) { 8 * 1024 } else { 32 * 1024 };
/// Stretches for each thread: those done first help the others.
const STRETCHES: u64 = 4;
/// A directory of more slots for each row of the other is not gone through for their sake.
const SLOTS_A_ROW_MAX: u64 = 16;
/// Rows that are fetched at a time: other threads have written them, so each comes from far away.
const BLOCK: usize = 64;

impl Dict {
    /// Merges the rows of another table of the same layout. `count` is how many threads `work_on` has.
    ///
    /// # Safety
    /// The functions are right for both tables, which compiled code has filled.
    pub(crate) unsafe fn combine(
        &mut self,
        other: Dict,
        functions: RowFunctions,
        count: u64,
        work_on: WorkOn<'_>,
    ) -> Result<(), DictError> {
        self.reserve(other.len)?;
        let slots = self.mask + 1;
        let shared = count > 1 && other.is_worth_sharing() && slots <= SLOTS_A_ROW_MAX * other.len;
        if shared {
            let stretches = (count * STRETCHES).next_power_of_two().min(slots).min(other.mask + 1);
            let workers = Workers { count, work_on, pool: &self.owned.directory.pool().clone() };
            // SAFETY: by the caller's promise.
            unsafe { self.combine_shared(&other, functions, stretches, &workers)? };
        } else {
            let all = Stretch { index: 0, bits: 0 };
            let merge_block = |slots: &[u64]| {
                self.fetch(&other, slots);
                // SAFETY: by the caller's promise.
                slots.iter().try_for_each(|slot| unsafe { self.merge_row(&other, *slot, functions) })
            };
            // SAFETY: by the caller's promise.
            unsafe { all.for_each_block(&other, merge_block)? };
        }
        self.owned.arena.join(other.owned.arena);
        Ok(())
    }

    /// Whether merging it into another table is work for several threads.
    pub(crate) fn is_worth_sharing(&self) -> bool {
        self.len >= SHARED_MIN
    }

    /// Merges one row, which a slot of the other table names.
    ///
    /// # Safety
    /// As for [`Dict::combine`].
    #[inline]
    unsafe fn merge_row(&mut self, other: &Dict, slot: u64, functions: RowFunctions) -> Result<(), DictError> {
        let from = other.row(slot as u32);
        let mut at = (slot >> 32) >> self.shift;
        // SAFETY: `at` is at most `mask`, slots name rows of their tables, and one slot is free.
        unsafe {
            loop {
                let mine = *self.directory.add(at as usize);
                if mine == 0 {
                    let row = self.insert((slot >> 32) as u32)?;
                    std::ptr::copy_nonoverlapping(from, row, self.layout.row_bytes as usize);
                    return Ok(());
                }
                if mine >> 32 == slot >> 32 && (functions.equal)(from, self.row(mine as u32)) != 0 {
                    merge_values(self.layout, functions, self.row(mine as u32), from);
                    return Ok(());
                }
                at = (at + 1) & self.mask;
            }
        }
    }

    /// # Safety
    /// As for [`Dict::combine`]; there is room in the directory, and both directories have so many stretches.
    unsafe fn combine_shared(
        &mut self,
        other: &Dict,
        functions: RowFunctions,
        stretches: u64,
        workers: &Workers<'_>,
    ) -> Result<(), DictError> {
        let bits = stretches.trailing_zeros();
        let tables = Tables { this: self, other, directory: self.owned.directory.as_ptr().cast(), functions };
        // SAFETY: by the caller's promise; each stretch is one thread's.
        let found =
            workers.map(stretches as usize, &|index| unsafe { tables.find(Stretch { index: index as u64, bits }) });
        let found = found.into_iter().collect::<Result<Vec<Found>, OutOfMemory>>()?;
        let mut next = self.len + 1;
        let firsts: Vec<u64> = found.iter().map(|found| (next, next += found.new.len as u64).0).collect();
        let row_bytes = u64::from(self.layout.row_bytes);
        if next * row_bytes > self.owned.rows.len() as u64 {
            self.grow_rows(next * row_bytes)?;
        }
        let tables = Tables { this: self, other, directory: self.owned.directory.as_ptr().cast(), functions };
        // SAFETY: as above; there is room for the rows.
        workers.each(found.len(), &|index| unsafe { tables.copy_new(found[index].new.as_slice(), firsts[index]) });
        self.len = next - 1;
        for slot in found.into_iter().flat_map(|found| found.waiting) {
            // SAFETY: by the caller's promise.
            unsafe { self.merge_row(other, slot, functions)? };
        }
        Ok(())
    }

    /// Asks for what merging these rows of the other table will need.
    fn fetch(&self, other: &Dict, slots: &[u64]) {
        let home = |slot: &u64| self.directory.wrapping_add(((slot >> 32) >> self.shift) as usize);
        for slot in slots {
            prefetch(other.row(*slot as u32));
            prefetch(home(slot));
        }
        for slot in slots {
            // SAFETY: homes are below the number of slots.
            prefetch(self.row(unsafe { home(slot).read() } as u32));
        }
    }

    fn row(&self, number: u32) -> *mut u8 {
        self.rows.wrapping_add(number as usize * self.layout.row_bytes as usize)
    }
}

/// # Safety
/// The rows are of this layout, the functions right for them.
unsafe fn merge_values(layout: RowLayout, functions: RowFunctions, into: *mut u8, from: *const u8) {
    let offset = layout.value_offset as usize;
    // SAFETY: by the caller's promise.
    unsafe { (functions.merge)(into.add(offset), from.add(offset)) };
}

/// The hashes whose upper `bits` are `index`.
#[derive(Clone, Copy)]
struct Stretch {
    index: u64,
    bits: u32,
}

impl Stretch {
    /// Where it begins and ends in a directory of so many slots.
    fn of(self, slots: u64) -> (u64, u64) {
        let size = slots >> self.bits;
        (self.index * size, (self.index + 1) * size)
    }

    /// Calls `f` for the slots in use whose hash is in the stretch, a block at a time.
    ///
    /// # Safety
    /// The table is valid.
    unsafe fn for_each_block<E>(self, table: &Dict, mut f: impl FnMut(&[u64]) -> Result<(), E>) -> Result<(), E> {
        let Dict { directory, mask, .. } = *table;
        let (begin, end) = self.of(mask + 1);
        let first = self.index.checked_shl(64 - self.bits).unwrap_or(0);
        let last = first | u64::MAX >> self.bits;
        let is_in = |slot: u64| slot != 0 && first <= slot && slot <= last;
        // SAFETY: positions are taken modulo the number of slots.
        let slot_at = |at: u64| unsafe { *directory.add((at & mask) as usize) };
        let (mut block, mut used) = ([0; 2 * BLOCK], 0);
        for start in (begin..end).step_by(BLOCK) {
            for at in start..end.min(start + BLOCK as u64) {
                // Without a branch, which nobody could predict.
                let slot = slot_at(at);
                block[used] = slot;
                used += usize::from(is_in(slot));
            }
            if used >= BLOCK {
                f(&block[..used])?;
                used = 0;
            }
        }
        f(&block[..used])?;
        if self.bits > 0 {
            // Collisions may have pushed some behind the end, where they are followed by a free slot.
            for slot in (end..end + mask).map(slot_at).take_while(|slot| *slot != 0).filter(|slot| is_in(*slot)) {
                f(&[slot])?;
            }
        }
        Ok(())
    }
}

/// What a thread has found in its stretch.
struct Found {
    /// Where the slots of new keys are.
    new: Positions,
    /// Slots of the other table whose key may be, or go, behind the end of the stretch.
    waiting: Vec<u64>,
}

/// Numbers of slots, whose memory is the table's pool's.
struct Positions {
    memory: Buffer,
    len: usize,
}

impl Positions {
    fn push(&mut self, position: u64) -> Result<(), OutOfMemory> {
        if (self.len + 1) * 4 > self.memory.len() {
            self.memory.extend((8 * self.len).max(4 * BLOCK))?;
        }
        // SAFETY: there is room; no table has more slots than 32 bits number.
        unsafe { self.memory.as_ptr().cast::<u32>().add(self.len).write(position as u32) };
        self.len += 1;
        Ok(())
    }

    fn as_slice(&self) -> &[u32] {
        // SAFETY: so many have been written.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.len) }
    }
}

/// Both tables, as the threads see them.
struct Tables<'a> {
    this: &'a Dict,
    other: &'a Dict,
    /// That of this table.
    directory: *mut u64,
    functions: RowFunctions,
}

// SAFETY: a thread writes to the slots and rows of its stretch only, and reads no other slots of this table.
unsafe impl Sync for Tables<'_> {}

impl Tables<'_> {
    /// The first step. A new key's slot gets the number that its row has in the other table, counted from behind the
    /// rows of this one.
    ///
    /// # Safety
    /// The stretch is this thread's.
    unsafe fn find(&self, stretch: Stretch) -> Result<Found, OutOfMemory> {
        let Tables { this, other, .. } = *self;
        let (_, end) = stretch.of(this.mask + 1);
        let new = Positions { memory: Buffer::new(this.owned.directory.pool().clone()), len: 0 };
        let mut found = Found { new, waiting: Vec::new() };
        let mut find_row = |slot: u64| {
            let from = other.row(slot as u32);
            for at in (slot >> 32) >> this.shift..end {
                // SAFETY: the slot is in the stretch; rows that slots name exist.
                unsafe {
                    let mine = self.directory.add(at as usize);
                    if *mine == 0 {
                        *mine = (slot >> 32) << 32 | (this.len + u64::from(slot as u32));
                        return found.new.push(at);
                    }
                    // Keys that came from the other table differ from all others of it.
                    let number = *mine as u32;
                    if *mine >> 32 == slot >> 32
                        && u64::from(number) <= this.len
                        && (self.functions.equal)(from, this.row(number)) != 0
                    {
                        merge_values(this.layout, self.functions, this.row(number), from);
                        return Ok(());
                    }
                }
            }
            found.waiting.push(slot);
            Ok(())
        };
        let find_block = |slots: &[u64]| {
            this.fetch(other, slots);
            slots.iter().try_for_each(|slot| find_row(*slot))
        };
        // SAFETY: the table is valid.
        unsafe { stretch.for_each_block(other, find_block)? };
        Ok(found)
    }

    /// The second step: the rows of new slots are copied and numbered from `first` on.
    ///
    /// # Safety
    /// The slots are in this thread's stretch; there is room for the rows.
    unsafe fn copy_new(&self, new: &[u32], first: u64) {
        let Tables { this, other, .. } = *self;
        for block in new.chunks(BLOCK).zip((first..).step_by(BLOCK)) {
            // SAFETY: the numbers in new slots are above `len` and name rows of the other table.
            unsafe {
                let slot = |position: &u32| self.directory.add(*position as usize);
                let row = |position: &u32| other.row((u64::from(*slot(position) as u32) - this.len) as u32);
                block.0.iter().for_each(|position| prefetch(row(position)));
                for (position, number) in block.0.iter().zip(block.1..) {
                    let to = this.row(number as u32);
                    std::ptr::copy_nonoverlapping(row(position), to, this.layout.row_bytes as usize);
                    *slot(position) = (*slot(position) >> 32) << 32 | number;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::hash::{hash_words, slot_hash};
    use crate::memory::{Limit, MemoryPool};
    use crate::threads::{self, Threads};

    const LAYOUT: RowLayout = RowLayout { value_offset: 8, row_bytes: 16 };

    unsafe extern "C" fn equal(a: *const u8, b: *const u8) -> u32 {
        // SAFETY: keys are the first words of rows.
        unsafe { (*a.cast::<u64>() == *b.cast::<u64>()).into() }
    }

    unsafe extern "C" fn merge(into: *mut u8, from: *const u8) -> u32 {
        // SAFETY: values are words.
        unsafe { *into.cast::<u64>() += *from.cast::<u64>() };
        0
    }

    const FUNCTIONS: RowFunctions = RowFunctions { equal, merge };

    type Hash = fn(u64) -> u32;

    /// A table of the keys, each with itself and one as value.
    fn table(keys: impl Iterator<Item = u64>, hash: Hash, pool: &Arc<dyn MemoryPool>) -> Result<Dict, DictError> {
        let mut dict = Dict::new(LAYOUT, pool)?;
        for key in keys {
            let row = dict.insert(hash(key))?.cast::<[u64; 2]>();
            // SAFETY: a fresh row of sixteen bytes.
            unsafe { row.write([key, key + 1]) };
        }
        Ok(dict)
    }

    fn rows(dict: &Dict) -> Vec<[u64; 2]> {
        // SAFETY: rows have sixteen bytes.
        (1..=dict.len as u32).map(|row| unsafe { dict.row(row).cast::<[u64; 2]>().read() }).collect()
    }

    /// Every row is found from its hash's home on.
    fn check_directory(dict: &Dict, hash: Hash) {
        for (number, [key, _]) in (1..).zip(rows(dict)) {
            let mut at = u64::from(hash(key)) >> dict.shift;
            loop {
                // SAFETY: positions are below the number of slots.
                let slot = unsafe { *dict.directory.add(at as usize) };
                assert_ne!(slot, 0, "row {number} of {key} is not found");
                if slot == u64::from(hash(key)) << 32 | number {
                    break;
                }
                at = (at + 1) & dict.mask;
            }
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum On {
        Alone,
        Pool(u64),
        NewThreads(u64),
    }

    impl On {
        fn combine(self, dict: &mut Dict, other: Dict) -> Result<(), DictError> {
            // SAFETY: the functions are those of the tables.
            unsafe {
                match self {
                    On::Alone => dict.combine(other, FUNCTIONS, 1, &|work| work()),
                    On::Pool(count) => {
                        let threads = Threads::shared(count as usize);
                        let pool = threads.pool().expect("there are threads");
                        dict.combine(other, FUNCTIONS, count, &|work| threads::work_on(pool, count, work))
                    }
                    On::NewThreads(count) => dict.combine(other, FUNCTIONS, count, &|work| {
                        std::thread::scope(|scope| {
                            let threads: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
                            threads.into_iter().for_each(|thread| thread.join().expect("nothing panics"));
                        });
                    }),
                }
            }
        }
    }

    /// Combines tables whose keys overlap by some.
    fn check(on: On, sizes: &[u64], overlap: u64, hash: Hash) {
        let pool = Arc::new(Limit::none());
        let shared: Arc<dyn MemoryPool> = pool.clone();
        let mut whole = table(0..0, hash, &shared).unwrap();
        let mut expected = BTreeMap::<u64, u64>::new();
        let mut start = 0u64;
        for &size in sizes {
            let keys = start..start + size;
            keys.clone().for_each(|key| *expected.entry(key).or_default() += key + 1);
            on.combine(&mut whole, table(keys, hash, &shared).unwrap()).unwrap();
            start += size - overlap.min(size);
        }
        let mut found = rows(&whole);
        check_directory(&whole, hash);
        found.sort_unstable();
        assert!(found.into_iter().eq(expected.into_iter().map(|(key, value)| [key, value])), "{on:?} {sizes:?}");
        assert_eq!(whole.bytes(), pool.used());
        drop(whole);
        assert_eq!(pool.used(), 0);
    }

    fn spread(key: u64) -> u32 {
        slot_hash(hash_words(&[key]))
    }

    fn tables_of_all_kinds(on: On) {
        for (sizes, overlap) in
            [(&[0, 0][..], 0), (&[1, 1], 1), (&[20_000, 20_000], 5_000), (&[9_000, 60_000, 10_000], 9_000)]
        {
            check(on, sizes, overlap, spread);
        }
        // Clusters that cross the ends of stretches, and the end of the directory.
        check(on, &[10_000, 10_000], 2_000, |key| (key / 64).wrapping_mul(0x9e37_79b9) as u32);
        check(on, &[9_000, 9_000], 100, |key| if key % 40 == 0 { u32::MAX - (key % 7) as u32 } else { spread(key) });
        check(on, &[9_000, 9_000], 100, |key| if key % 30 == 0 { 0x3fff_ffff } else { spread(key) });
    }

    fn a_limit_is_an_error(on: On) {
        for limit in (600_000..3_000_000).step_by(100_000) {
            let pool = Arc::new(Limit::new(limit));
            let shared: Arc<dyn MemoryPool> = pool.clone();
            let tables = [table(0..20_000, spread, &shared), table(10_000..30_000, spread, &shared)];
            match tables {
                [Ok(mut whole), Ok(other)] => match on.combine(&mut whole, other) {
                    Ok(()) => assert_eq!(whole.len, 30_000),
                    Err(error) => assert_eq!(error, DictError::OutOfMemory),
                },
                refused => drop(refused),
            }
            assert_eq!(pool.used(), 0);
        }
    }

    #[test]
    fn alone() {
        tables_of_all_kinds(On::Alone);
        a_limit_is_an_error(On::Alone);
    }

    #[test]
    fn on_pools() {
        [2, 3, 4].into_iter().for_each(|threads| tables_of_all_kinds(On::Pool(threads)));
        a_limit_is_an_error(On::Pool(4));
    }

    #[test]
    fn on_new_threads() {
        [2, 4].into_iter().for_each(|threads| tables_of_all_kinds(On::NewThreads(threads)));
        a_limit_is_an_error(On::NewThreads(4));
    }

    #[test]
    fn rows_are_numbered_alike_each_time_on_pools() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Limit::none());
        let combined = || {
            let mut whole = table(0..10_000, spread, &pool).unwrap();
            On::Pool(4).combine(&mut whole, table(5_000..50_000, spread, &pool).unwrap()).unwrap();
            rows(&whole)
        };
        let first = combined();
        (0..20).for_each(|_| assert!(combined() == first));
    }
}
