//! Building a table key by key: what a `dictmerger` calls when a key is new.
//!
//! Compiled code hashes, probes the directory and compares by itself, and updates the value that it finds in place.
//! Only for a new key does it come here: [`Dict::insert`] numbers a row, enters it in the directory and returns it for
//! the caller to fill. Rows may move at each insertion.

use std::sync::Arc;

use crate::arena::Arena;
use crate::dict::{Dict, DictError, DictKind, KeyKind, Owned, RowLayout};
use crate::dict_buffer::Buffer;
use crate::memory::{MemoryPool, OutOfMemory};

const SLOTS_MIN: u64 = 128;
/// A slot keeps 32 bits of a hash, which can tell no more slots apart.
const SLOTS_MAX: u64 = 1 << 32;
/// A directory that fits into the second-level cache is rather made roomy than small.
const ROOMY_MAX: u64 = 1 << 16;
/// Row numbers are 32 bits; row 0 and the row behind the last one take two.
pub(crate) const ROWS_MAX: u64 = u32::MAX as u64 - 2;

/// A small directory has at most an eighth of its slots in use, so that few of the keys, which recur in no order that a
/// branch predictor could learn, collide. In a large one it is half: a hit looks at 1.5 slots on average, a miss at
/// 2.5, in one cache line.
fn capacity_of(slots: u64) -> u64 {
    if slots <= 1024 { slots / 8 } else { slots / 2 }
}

/// The number of slots for so many rows.
pub(crate) fn slots_for(rows: u64) -> Result<u64, DictError> {
    if rows > ROWS_MAX {
        return Err(DictError::TooManyRows);
    }
    let slots = if rows <= capacity_of(1024) { 8 * rows } else { (2 * rows).max(1025) };
    Ok(slots.next_power_of_two().clamp(SLOTS_MIN, SLOTS_MAX))
}

impl Dict {
    /// An empty hashed table.
    pub fn new(layout: RowLayout, pool: &Arc<dyn MemoryPool>) -> Result<Dict, OutOfMemory> {
        let mut dict = Dict::without_memory(layout, pool, KeyKind::Other);
        dict.owned.directory.grow(SLOTS_MIN as usize * 8)?;
        dict.owned.rows.grow(4 * layout.row_bytes as usize)?;
        dict.use_directory(SLOTS_MIN);
        dict.rows = dict.owned.rows.as_ptr();
        Ok(dict)
    }

    /// The same with room for so many rows, if there is memory for it.
    pub fn with_room(layout: RowLayout, pool: &Arc<dyn MemoryPool>, rows: u64) -> Result<Dict, OutOfMemory> {
        let mut dict = Dict::new(layout, pool)?;
        if rows == 0 || dict.reserve(rows).is_err() {
            return Ok(dict);
        }
        let end = rows.saturating_add(2).saturating_mul(u64::from(layout.row_bytes));
        if end > dict.owned.rows.len() as u64 && dict.grow_rows(end).is_err() {
            // What its directory took may be what a small table needs.
            drop(dict);
            return Dict::new(layout, pool);
        }
        Ok(dict)
    }

    pub(crate) fn without_memory(layout: RowLayout, pool: &Arc<dyn MemoryPool>, key: KeyKind) -> Dict {
        Dict {
            kind: DictKind::Hashed,
            shift: 0,
            directory: std::ptr::null(),
            mask: 0,
            min: 0,
            rows: std::ptr::null_mut(),
            len: 0,
            filter: std::ptr::null(),
            filter_shift: 0,
            starts: std::ptr::null(),
            columns: std::ptr::null(),
            capacity: 0,
            layout,
            owned: Owned::new(pool, key),
        }
    }

    /// Makes the buffer `owned.directory`, of so many slots, the directory.
    pub(crate) fn use_directory(&mut self, slots: u64) {
        self.directory = self.owned.directory.as_ptr().cast();
        self.mask = slots - 1;
        self.shift = 32 - slots.trailing_zeros();
        self.capacity = capacity_of(slots);
    }

    /// A row for a key of this hash that the table does not have. The caller writes key and value: it is not zero.
    pub fn insert(&mut self, hash: u32) -> Result<*mut u8, DictError> {
        if self.len >= self.capacity {
            self.make_room()?;
        }
        let row = self.len + 1;
        let row_bytes = u64::from(self.layout.row_bytes);
        let end = (row + 1) * row_bytes;
        if end > self.owned.rows.len() as u64 {
            self.grow_rows(end)?;
        }
        let slots: *mut u64 = self.owned.directory.as_ptr().cast();
        // SAFETY: the directory has `mask + 1` slots at this shift.
        unsafe { enter(slots, self.mask, self.shift, hash, row as u32) };
        self.len = row;
        // SAFETY: there is room for row `row`, as `end` is its end.
        Ok(unsafe { self.rows.add((row * row_bytes) as usize) })
    }

    /// Makes room for `more` rows at once, before another table's rows are merged into this one in the order of their
    /// hashes: without it, they would fill the lower slots of a small directory one behind the other.
    pub fn reserve(&mut self, more: u64) -> Result<(), DictError> {
        let slots = slots_for(self.len + more)?;
        if slots <= self.mask + 1 {
            return Ok(());
        }
        // As many as a table has that has grown key by key, fourfold: fewer slots would be slower to ask.
        let is_step = slots.trailing_zeros().is_multiple_of(2);
        if (1024..ROOMY_MAX).contains(&slots) && !is_step && self.grow_directory(2 * slots).is_ok() {
            return Ok(());
        }
        self.grow_directory(slots)
    }

    /// Makes a grouped table of one whose rows have the numbers of their first values: `values` values in these
    /// columns, which must live as long as the table.
    pub fn group(&mut self, values: u64, columns: &[*const u8]) -> Result<(), DictError> {
        if values > ROWS_MAX {
            return Err(DictError::TooManyRows);
        }
        let RowLayout { value_offset, row_bytes } = self.layout;
        let last = (self.len + 1) * u64::from(row_bytes);
        self.grow_rows(last + u64::from(row_bytes))?;
        // SAFETY: there is room for the row behind the last one.
        unsafe { self.rows.add((last + u64::from(value_offset)) as usize).cast::<u32>().write(values as u32) };
        self.owned.column_pointers = columns.to_vec();
        self.columns = self.owned.column_pointers.as_ptr();
        Ok(())
    }

    /// Copies bytes that a row refers to into the table's own memory.
    pub fn arena(&mut self) -> &mut Arena {
        &mut self.owned.arena
    }

    /// A larger directory. A middle-sized one grows fourfold if there is memory: writing a new directory, whose pages
    /// are fresh, is much of what a new key costs.
    #[cold]
    fn make_room(&mut self) -> Result<(), DictError> {
        let slots = self.mask + 1;
        if (1024..=1 << 21).contains(&slots) && self.grow_directory(4 * slots).is_ok() {
            return Ok(());
        }
        self.grow_directory(2 * slots)
    }

    #[cold]
    pub(crate) fn grow_rows(&mut self, end: u64) -> Result<(), DictError> {
        // Twice the size for small tables, half as much again for large ones: their pages move, not their bytes.
        let now = self.owned.rows.len() as u64;
        let wanted = end.max(if now < 1 << 20 {
            4 * now
        } else if now < 64 << 20 {
            2 * now
        } else {
            now + now / 2
        });
        self.owned.rows.extend(wanted as usize)?;
        self.rows = self.owned.rows.as_ptr();
        Ok(())
    }

    #[cold]
    pub(crate) fn grow_directory(&mut self, slots: u64) -> Result<(), DictError> {
        if self.len >= ROWS_MAX {
            return Err(DictError::TooManyRows);
        }
        if slots > SLOTS_MAX {
            // As large as it gets; from now on it fills up beyond a half.
            self.capacity = ROWS_MAX;
            return Ok(());
        }
        let larger = Buffer::zeroed(slots as usize * 8, self.owned.directory.pool().clone())?;
        let old = std::mem::replace(&mut self.owned.directory, larger);
        let old_slots = self.mask + 1;
        self.use_directory(slots);
        let target: *mut u64 = self.owned.directory.as_ptr().cast();
        for at in 0..old_slots as usize {
            // SAFETY: `old` has `old_slots` slots; the new directory was made for `mask` and `shift`.
            unsafe {
                let slot = *old.as_ptr().cast::<u64>().add(at);
                if slot != 0 {
                    enter(target, self.mask, self.shift, (slot >> 32) as u32, slot as u32);
                }
            }
        }
        Ok(())
    }
}

/// Writes `(hash, row)` into the first free slot from the hash's home on.
///
/// # Safety
/// `slots` has `mask + 1` slots, at least one of them free, and `shift` gives homes up to `mask`.
unsafe fn enter(slots: *mut u64, mask: u64, shift: u32, hash: u32, row: u32) {
    let mut at = u64::from(hash) >> shift;
    // SAFETY: `at <= mask`.
    unsafe {
        while *slots.add(at as usize) != 0 {
            at = (at + 1) & mask;
        }
        *slots.add(at as usize) = u64::from(hash) << 32 | u64::from(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{hash_words, slot_hash};
    use crate::memory::Limit;
    use std::collections::HashMap;

    const LAYOUT: RowLayout = RowLayout { value_offset: 8, row_bytes: 16 };

    /// What compiled code does for `dictmerger[u64,i64,+]`.
    fn add(dict: &mut Dict, hash: impl Fn(u64) -> u32, key: u64, value: i64) -> Result<(), DictError> {
        let hash = hash(key);
        let row = match find(dict, hash, key) {
            Some(row) => row,
            None => {
                let row = dict.insert(hash)?.cast::<u64>();
                // SAFETY: a fresh row of 16 bytes.
                unsafe { row.cast::<[u64; 2]>().write([key, 0]) };
                row
            }
        };
        // SAFETY: rows have the key in their first, the value in their second word.
        unsafe { *row.add(1).cast::<i64>() += value };
        Ok(())
    }

    fn find(dict: &Dict, hash: u32, key: u64) -> Option<*mut u64> {
        let mut at = u64::from(hash) >> dict.shift;
        loop {
            // SAFETY: slots up to `mask`, and rows that slots name, exist.
            let (slot, row) = unsafe {
                let slot = *dict.directory.add(at as usize);
                (slot, dict.rows.cast::<u64>().add(2 * (slot as u32) as usize))
            };
            // SAFETY: as above.
            if slot != 0 && (slot >> 32) as u32 == hash && unsafe { *row } == key {
                return Some(row);
            }
            if slot == 0 {
                return None;
            }
            at = (at + 1) & dict.mask;
        }
    }

    fn spread(key: u64) -> u32 {
        slot_hash(hash_words(&[key]))
    }

    fn check(hash: impl Fn(u64) -> u32 + Copy, keys: u64, merges: u64) {
        let pool = Arc::new(Limit::none());
        let shared: Arc<dyn MemoryPool> = pool.clone();
        let mut dict = Dict::new(LAYOUT, &shared).unwrap();
        let mut expected: HashMap<u64, i64> = HashMap::new();
        for i in 0..merges {
            let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys;
            add(&mut dict, hash, key, i as i64).unwrap();
            *expected.entry(key).or_default() += i as i64;
        }
        assert_eq!(dict.len(), expected.len());
        for (key, value) in &expected {
            let row = find(&dict, hash(*key), *key).unwrap();
            // SAFETY: as in `add`.
            assert_eq!(unsafe { *row.add(1) } as i64, *value);
        }
        assert!(find(&dict, hash(keys), keys).is_none());
        assert_eq!(dict.bytes(), pool.used());
        drop(dict);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn one_key_few_keys_many_keys() {
        check(spread, 1, 10);
        check(spread, 7, 1000);
        check(spread, 100_000, 300_000);
    }

    #[test]
    fn colliding_hashes_and_runs_across_the_end() {
        check(|_| 0, 40, 200);
        check(|_| u32::MAX, 40, 200);
        check(|key| u32::MAX - key as u32, 500, 2000);
        check(|key| (key % 3) as u32, 300, 2000);
    }

    #[test]
    fn a_limit_stops_the_growth() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Limit::new(100_000));
        let mut dict = Dict::new(LAYOUT, &pool).unwrap();
        let failure = (0..1_000_000).find_map(|key| add(&mut dict, spread, key, 1).err());
        assert_eq!(failure, Some(DictError::OutOfMemory));
        assert!(dict.len() > 1000 && find(&dict, spread(5), 5).is_some());
    }

    #[test]
    fn room_is_reserved_at_once() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Limit::none());
        let mut dict = Dict::new(LAYOUT, &pool).unwrap();
        dict.reserve(1000).unwrap();
        assert!(dict.capacity >= 1000);
        for keys in [2_000, 5_000, 12_000, 20_000] {
            let mut grown = Dict::new(LAYOUT, &pool).unwrap();
            (0..keys).for_each(|key| add(&mut grown, spread, key, 1).unwrap());
            let mut reserved = Dict::new(LAYOUT, &pool).unwrap();
            reserved.reserve(keys).unwrap();
            assert_eq!((reserved.mask, reserved.shift), (grown.mask, grown.shift), "{keys}");
        }
        assert_eq!(dict.reserve(u64::from(u32::MAX)), Err(DictError::TooManyRows));

        let mut roomy = Dict::with_room(LAYOUT, &pool, 1000).unwrap();
        let bytes = roomy.bytes();
        (0..1000).for_each(|key| add(&mut roomy, spread, key, 1).unwrap());
        assert_eq!(roomy.bytes(), bytes);
        (1000..3000).for_each(|key| add(&mut roomy, spread, key, 1).unwrap());
        assert_eq!((roomy.len(), roomy.bytes() > bytes), (3000, true));
        Dict::with_room(LAYOUT, &pool, u64::MAX).unwrap();
        // Where a table without room fits, one that wanted it does.
        for limit in (0..100).map(|kilobytes| kilobytes << 10) {
            let fits = |rows| {
                let pool: Arc<dyn MemoryPool> = Arc::new(Limit::new(limit));
                let dict = Dict::with_room(LAYOUT, &pool, rows);
                dict.is_ok_and(|mut dict| (0..100).all(|key| add(&mut dict, spread, key, 1).is_ok()))
            };
            assert!(fits(1000) || !fits(0), "{limit}");
        }
    }
}
