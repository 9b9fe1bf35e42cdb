//! From the rows of a `groupbuilder` to its table: finds the distinct keys and puts the values of each together.
//!
//! Values keep the order of their rows within a group. When the rows are already in the order of their groups (unique
//! keys, or input sorted by a dense key), the columns are only copied together.

use crate::dict::{Dict, DictError, RowLayout};
use crate::dict_dense::{group_dense, key_bounds, spread};
use crate::dict_group::{GroupBuilder, GroupLayout};
use crate::dict_hashed::group_hashed;
use crate::dict_merger::ROWS_MAX;
use crate::dict_place::{Share, place_values};
use crate::threads::{ALONE, WorkOn, Workers};

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

/// Fewer rows are grouped faster by one thread.
const SHARED_MIN: u64 = if cfg!(test) { 1000 } else { 64 * 1024 };
/// Each share of the rows needs memory for all groups.
const SHARES_MAX: u64 = 8;

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
    pub(crate) unsafe fn finish(
        mut self,
        functions: KeyFunctions,
        count: u64,
        work_on: WorkOn<'_>,
    ) -> Result<Dict, DictError> {
        self.seal();
        let rows = self.rows();
        if rows > ROWS_MAX {
            return Err(DictError::TooManyRows);
        }
        let pool = self.pool().clone();
        let shared = if self.is_worth_sharing() { count.min(SHARES_MAX) } else { 1 };
        // SAFETY: by the caller's promise.
        let table = |count, work_on| unsafe { self.table(functions, &Workers { count, work_on, pool: &pool }) };
        let mut dict = match table(shared, work_on) {
            // Threads take more memory than one alone.
            Err(DictError::OutOfMemory) if shared > 1 => table(1, ALONE)?,
            table => table?,
        };
        dict.owned.arena = self.arena;
        Ok(dict)
    }

    /// Whether grouping is work for several threads.
    pub(crate) fn is_worth_sharing(&self) -> bool {
        self.rows() >= SHARED_MIN
    }

    /// # Safety
    /// As for [`GroupBuilder::finish`].
    unsafe fn table(&self, functions: KeyFunctions, workers: &Workers<'_>) -> Result<Dict, DictError> {
        let rows = self.rows();
        let key = self.layout.key;
        let shares = Share::all(self, rows as usize, workers.count as usize);
        let mut dict = Dict::without_memory(self.layout.row_layout(), workers.pool, key);
        dict.owned.bounds = key_bounds(key, workers, &shares);
        let places = match dict.owned.bounds.and_then(|bounds| spread(bounds, rows)) {
            Some(spread) => group_dense(&mut dict, self, workers, &shares, spread)?,
            // SAFETY: by the caller's promise.
            None => unsafe { group_hashed(&mut dict, self, workers, &shares, functions)? },
        };
        // SAFETY: places are those of all rows.
        unsafe { place_values(&mut dict, self, workers, &shares, places)? };
        Ok(dict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dict::{DictKind, KeyKind};
    use crate::hash::{hash_words, slot_hash};
    use crate::memory::{Limit, MemoryPool, OutOfMemory};
    use crate::threads::{self, Threads};
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

    #[derive(Clone, Copy, Debug)]
    enum On {
        Alone,
        Pool(u64),
        NewThreads(u64),
    }

    impl On {
        fn finish<K: Key>(self, builder: GroupBuilder) -> Result<Dict, DictError> {
            // SAFETY: the functions are those of the key type.
            unsafe {
                match self {
                    On::Alone => builder.finish(functions::<K>(), 1, ALONE),
                    On::Pool(count) => threads::with(Some(Threads::shared(count as usize)), |count, work_on| {
                        builder.finish(functions::<K>(), count, work_on)
                    }),
                    On::NewThreads(count) => builder.finish(functions::<K>(), count, &|work| {
                        std::thread::scope(|scope| {
                            let threads: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
                            threads.into_iter().for_each(|thread| thread.join().expect("nothing panics"));
                        });
                    }),
                }
            }
        }
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

    /// Rows and columns.
    fn contents(dict: &Dict) -> Vec<Vec<u8>> {
        // SAFETY: row 0, `len` others, and the one behind the last; a column has all values.
        let bytes = |from: *const u8, count: usize| unsafe { std::slice::from_raw_parts(from, count) }.to_vec();
        let rows = (dict.len() + 1) * dict.layout.row_bytes as usize + dict.layout.value_offset as usize + 4;
        let columns =
            dict.columns().iter().zip([8, 1, 2, 3, 16]).map(|(from, size)| bytes(*from, dict.values() * size));
        columns.chain([bytes(dict.rows().unwrap(), rows)]).collect()
    }

    fn check<K: Key>(keys: impl IntoIterator<Item = K>, absent: &[K], kind: DictKind) {
        let keys: Vec<K> = keys.into_iter().collect();
        let alone = check_on(On::Alone, &keys, absent, kind);
        for on in [On::NewThreads(2), On::NewThreads(4)] {
            assert!(check_on(on, &keys, absent, kind) == alone, "{on:?} {:?}", K::KIND);
        }
    }

    fn check_on<K: Key>(on: On, keys: &[K], absent: &[K], kind: DictKind) -> Vec<Vec<u8>> {
        let pool = Arc::new(Limit::none());
        let shared: Arc<dyn MemoryPool> = pool.clone();
        let mut found = Vec::new();
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
            let dict = on.finish::<K>(builder).unwrap();
            assert_eq!((dict.kind(), dict.len(), dict.values()), (kind, expected.len(), keys.len()));
            for (key, values) in &expected {
                assert_eq!(lookup(&dict, *key), *values, "{key:?}");
            }
            for key in absent {
                assert_eq!(lookup(&dict, *key), []);
            }
            check_rows::<K>(&dict, &expected);
            found = contents(&dict);
            drop(dict);
            assert_eq!(pool.used(), 0);
        }
        found
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

    /// Of the second word.
    unsafe extern "C" fn hash_that_is_given(keys: *const u8, count: u64, hashes: *mut u32) -> u32 {
        for index in 0..count as usize {
            // SAFETY: the caller gives `count` keys and room for their hashes.
            unsafe { *hashes.add(index) = (*keys.cast::<[u64; 2]>().add(index))[1] as u32 | 1 };
        }
        0
    }

    /// Slots that fill up at the end of each stretch of the directory, and at its own end.
    #[test]
    fn clusters_that_cross_the_ends_of_stretches() {
        let keys: Vec<[u64; 2]> = (0..6000_u64)
            .map(|i| match i % 3 {
                0 => [i / 2, (((i / 3) % 4 + 1) << 30) - 1],
                _ => [i, i.wrapping_mul(0x9e37_79b9)],
            })
            .collect();
        let distinct: HashMap<_, _> = keys.iter().map(|key| (*key, ())).collect();
        let pool: Arc<dyn MemoryPool> = Arc::new(Limit::none());
        let functions = KeyFunctions { hash: hash_that_is_given, equal: equal::<[u64; 2]> };
        let table = |count: u64| {
            let mut builder = GroupBuilder::new(layout::<[u64; 2]>(), &pool);
            (0..).zip(&keys).for_each(|(value, key)| merge(&mut builder, *key, value).unwrap());
            let threads = |work: &(dyn Fn() + Sync)| {
                std::thread::scope(|scope| (0..count).for_each(|_| drop(scope.spawn(work))));
            };
            // SAFETY: the functions are those of the key type.
            unsafe { builder.finish(functions, count, &threads).unwrap() }
        };
        let alone = table(1);
        assert_eq!(alone.len(), distinct.len());
        for count in [2, 3, 4] {
            let shared = table(count);
            assert!(contents(&shared) == contents(&alone), "{count} threads");
            for key in &keys {
                let hash = key[1] as u32 | 1;
                let mut at = u64::from(hash) >> shared.shift;
                // SAFETY: slots up to `mask`, and rows that they name, exist.
                unsafe {
                    let row = |at: u64| {
                        shared
                            .rows
                            .add(*shared.directory.add(at as usize) as u32 as usize * shared.layout.row_bytes as usize)
                    };
                    while *row(at).cast::<[u64; 2]>() != *key {
                        assert_ne!(*shared.directory.add(at as usize), 0, "{key:?}");
                        at = (at + 1) & shared.mask;
                    }
                }
            }
        }
    }

    fn a_limit_is_an_error_at_every_step<K: Key>(on: On, key: fn(u64) -> K) {
        for limit in (10_000..3_000_000).step_by(70_000) {
            let pool = Arc::new(Limit::new(limit));
            let shared: Arc<dyn MemoryPool> = pool.clone();
            let mut builder = GroupBuilder::new(layout::<K>(), &shared);
            let merged = scrambled(20_000).try_for_each(|i| merge(&mut builder, key(i % 5000), i));
            let dict = merged.map_err(DictError::from).and_then(|()| on.finish::<K>(builder));
            match dict {
                Ok(dict) => assert_eq!(dict.len(), 5000),
                Err(error) => assert_eq!(error, DictError::OutOfMemory),
            }
            assert_eq!(pool.used(), 0);
        }
    }

    #[test]
    fn limits() {
        for on in [On::Alone, On::NewThreads(4)] {
            a_limit_is_an_error_at_every_step(on, |i| i as i64 * 1_000_003);
            a_limit_is_an_error_at_every_step(on, |i| i as i64 * 3);
        }
    }

    #[test]
    fn one_thread_is_enough_where_memory_is_short() {
        let limits = (100_000..3_000_000).step_by(10_000);
        let least = |on: On| {
            limits.clone().find(|limit| {
                let shared: Arc<dyn MemoryPool> = Arc::new(Limit::new(*limit));
                let mut builder = GroupBuilder::new(layout::<i64>(), &shared);
                scrambled(20_000).all(|i| merge(&mut builder, i as i64 / 2, i).is_ok())
                    && on.finish::<i64>(builder).is_ok()
            })
        };
        assert_eq!(least(On::NewThreads(4)), least(On::Alone));
    }

    #[test]
    fn on_pools() {
        for threads in [2, 3, 4] {
            for keys in [20_000, 5_000] {
                let keys: Vec<i64> = scrambled(20_000).map(|i| (i % keys) as i64).collect();
                for (factor, kind) in [(1, DictKind::Dense), (1_000_003, DictKind::Hashed)] {
                    let keys: Vec<i64> = keys.iter().map(|key| key * factor).collect();
                    let alone = check_on(On::Alone, &keys, &[-1], kind);
                    assert!(check_on(On::Pool(threads), &keys, &[-1], kind) == alone);
                }
            }
        }
        a_limit_is_an_error_at_every_step(On::Pool(4), |i| i as i64);
    }
}
