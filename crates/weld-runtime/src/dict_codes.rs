//! Groups of codes: the row of each combination of the codes that dictionary-encoded key columns have.
//!
//! ```text
//! rows[c0 * n1 + c1]     the row of the key {column 0's entry c0, column 1's entry c1}; 0: not looked for yet
//! ```
//!
//! A key is hashed and compared once for each combination, not for each row. Dictionaries that their source has
//! numbered are the same where the numbers are: what is known of their codes is kept from chunk to chunk.

use crate::dict::Dict;
use crate::dict_buffer::Buffer;

/// So many combinations are worth their zeroing for a single chunk.
const FEW: u64 = 1024;
/// More combinations are not kept: the numbers would take longer to fetch than most keys to hash.
const KEPT_MAX: u64 = 1 << 20;
/// Combinations that a chunk's rows repay.
const COMBINATIONS_PER_ROW: u64 = 4;

/// Rows by code, for the dictionaries of the last chunk.
#[derive(Debug, Default)]
pub(crate) struct CodeRows {
    dictionaries: Vec<u64>,
    combinations: u64,
    rows: Option<Buffer>,
}

impl CodeRows {
    pub(crate) fn bytes(&self) -> usize {
        self.rows.as_ref().map_or(0, Buffer::len)
    }
}

impl Dict {
    /// The row of each of so many combinations of codes, for a chunk of `rows` rows under these dictionaries (and
    /// whatever else the combinations' meaning depends on): zero where it is not known, to be filled in by the caller.
    /// `None` where that would not pay. A dictionary of the number 0 is another in each chunk.
    pub(crate) fn rows_of_codes(&mut self, dictionaries: &[u64], combinations: u64, rows: u64) -> Option<*mut u32> {
        let known = &mut self.owned.code_rows;
        let same = known.combinations == combinations
            && known.dictionaries == dictionaries
            && dictionaries.iter().all(|dictionary| *dictionary != 0);
        if let (true, Some(buffer)) = (same, &known.rows) {
            return Some(buffer.as_ptr().cast());
        }
        if !same {
            known.dictionaries.clear();
            known.dictionaries.extend_from_slice(dictionaries);
            known.combinations = combinations;
        }
        // Dictionaries that come again will come a third time.
        let pays = combinations <= FEW || same || combinations <= rows.saturating_mul(COMBINATIONS_PER_ROW);
        let bytes = combinations as usize * size_of::<u32>();
        let reused = known.rows.take().filter(|buffer| buffer.len() >= bytes);
        if combinations == 0 || combinations > KEPT_MAX || !pays {
            return None;
        }
        let buffer = match reused {
            Some(buffer) => {
                // SAFETY: the buffer has that many bytes, and nobody else has its address now.
                unsafe { buffer.as_ptr().write_bytes(0, bytes) };
                buffer
            }
            // Without memory keys are hashed row by row.
            None => Buffer::zeroed(bytes, self.owned.rows.pool().clone()).ok()?,
        };
        Some(known.rows.insert(buffer).as_ptr().cast())
    }

    /// Forgets what is known of codes.
    pub(crate) fn forget_codes(&mut self) {
        self.owned.code_rows = CodeRows::default();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::dict::RowLayout;
    use crate::memory::{Limit, MemoryPool};

    fn table(limit: usize) -> (Dict, Arc<Limit>) {
        let pool = Arc::new(Limit::new(limit));
        let shared: Arc<dyn MemoryPool> = pool.clone();
        (Dict::new(RowLayout { value_offset: 8, row_bytes: 16 }, &shared).unwrap(), pool)
    }

    fn note(rows: *mut u32, code: usize) {
        // SAFETY: the tests ask for more codes than that.
        unsafe { *rows.add(code) = 7 };
    }

    fn noted(rows: *mut u32, code: usize) -> u32 {
        // SAFETY: as above.
        unsafe { *rows.add(code) }
    }

    #[test]
    fn rows_are_kept_for_the_same_dictionaries_only() {
        let (mut dict, pool) = table(1 << 20);
        let first = dict.rows_of_codes(&[1, 2], 100, 8).expect("few combinations");
        note(first, 5);
        assert_eq!(noted(dict.rows_of_codes(&[1, 2], 100, 8).unwrap(), 5), 7);
        for other in [[1, 3], [1, 0], [1, 0]] {
            let rows = dict.rows_of_codes(&other, 100, 8).unwrap();
            assert_eq!(noted(rows, 5), 0, "{other:?}");
            note(rows, 5);
        }
        assert_eq!(dict.bytes(), pool.used());
        dict.forget_codes();
        assert_eq!(dict.bytes(), pool.used());
    }

    #[test]
    fn many_combinations_are_kept_where_rows_repay_them() {
        let (mut dict, _) = table(1 << 20);
        assert!(dict.rows_of_codes(&[1], 50_000, 1000).is_none());
        assert!(dict.rows_of_codes(&[1], 50_000, 1000).is_some(), "the dictionary has come again");
        assert!(dict.rows_of_codes(&[2], 50_000, 8192 * 2).is_some(), "the chunk has enough rows");
        assert!(dict.rows_of_codes(&[0], 50_000, 1000).is_none());
        assert!(dict.rows_of_codes(&[0], 50_000, 1000).is_none());
        assert!(dict.rows_of_codes(&[3], KEPT_MAX + 1, u64::MAX).is_none());
        assert!(dict.rows_of_codes(&[4], 0, 8192).is_none(), "their number is not known");
    }

    #[test]
    fn without_memory_nothing_is_kept() {
        let (mut dict, pool) = table(20_000);
        let used = pool.used();
        assert!(dict.rows_of_codes(&[1], 100_000, 100_000).is_none());
        assert!(dict.rows_of_codes(&[1], 1008, 1000).is_some());
        assert_eq!(pool.used(), used + 4 * 1008);
    }
}
