//! What tables have for the entries of dictionaries: a key that is dictionary-encoded is hashed, looked for and
//! compared once for each entry, not for each row.
//!
//! ```text
//! words[place] = hash << 32 | row + 1     of the entry at that place of the column's dictionary; each half 0: not known
//! ```
//!
//! Texts that are interned have their addresses as words, as those of a table at address zero.
//!
//! A table that is asked does not change. Dictionaries that their source has numbered are the same where the numbers
//! are.

use std::sync::Arc;

use crate::dict_buffer::Buffer;
use crate::memory::MemoryPool;
use crate::run::Run;

/// So many entries are kept of a dictionary that is seen for the first time: the rows of a batch repay them. A batch
/// that has an entry for each row has more.
const FEW: u64 = 4096;
/// More entries are never kept: their words would take longer to fetch than most keys to look for.
const KEPT_MAX: u64 = 1 << 20;

/// The words of a run, for each table and column that it is asked by.
#[derive(Debug, Default)]
pub(crate) struct ProbedEntries(Vec<Probed>);

#[derive(Debug)]
struct Probed {
    /// The table's address.
    table: usize,
    column: u64,
    /// The last dictionary, and how many places it has.
    dictionary: u64,
    places: u64,
    words: Option<Buffer>,
}

impl ProbedEntries {
    /// A word for each place of a column's dictionary, to be filled in by the caller. `None` where that would not pay,
    /// or without memory. A dictionary of the number 0 is another each time.
    fn words(
        &mut self,
        (table, column): (usize, u64),
        dictionary: u64,
        places: u64,
        pool: &Arc<dyn MemoryPool>,
    ) -> Option<*mut u64> {
        if dictionary == 0 || places == 0 || places > KEPT_MAX {
            return None;
        }
        let index = self.0.iter().position(|known| (known.table, known.column) == (table, column));
        let index = index.unwrap_or_else(|| {
            self.0.push(Probed { table, column, dictionary: 0, places: 0, words: None });
            self.0.len() - 1
        });
        let known = &mut self.0[index];
        let is_same = (known.dictionary, known.places) == (dictionary, places);
        if let (true, Some(words)) = (is_same, &known.words) {
            return Some(words.as_ptr().cast());
        }
        (known.dictionary, known.places) = (dictionary, places);
        let bytes = places as usize * size_of::<u64>();
        let reused = known.words.take().filter(|words| words.len() >= bytes);
        if places > FEW && !is_same {
            return None;
        }
        let words = match reused {
            Some(words) => {
                // SAFETY: the buffer has that many bytes, and nobody else has its address now.
                unsafe { words.as_ptr().write_bytes(0, bytes) };
                words
            }
            None => Buffer::zeroed(bytes, Arc::clone(pool)).ok()?,
        };
        Some(known.words.insert(words).as_ptr().cast())
    }
}

/// See [`ProbedEntries::words`]; null for none.
///
/// # Safety
/// `run` is valid. Until the run ends, what is at the address of the table is the same.
pub(crate) unsafe extern "C" fn probed_entries(
    run: *mut Run,
    table: *const u8,
    column: u64,
    dictionary: u64,
    places: u64,
) -> *mut u64 {
    // SAFETY: by the caller's promise.
    let run = unsafe { &mut *run };
    let pool = Arc::clone(run.context().memory());
    run.probed.words((table.addr(), column), dictionary, places, &pool).unwrap_or(std::ptr::null_mut())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Limit;

    fn note(words: *mut u64, place: usize) -> u64 {
        // SAFETY: the tests ask for more places than that.
        unsafe { words.add(place).replace(7) }
    }

    #[test]
    fn words_are_kept_for_a_table_a_column_and_a_dictionary() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Limit::none());
        let mut probed = ProbedEntries::default();
        let mut ask = |site, dictionary, places| probed.words(site, dictionary, places, &pool);
        assert_eq!(note(ask((1, 0), 5, 100).unwrap(), 3), 0);
        assert_eq!(note(ask((1, 0), 5, 100).unwrap(), 3), 7);
        assert_eq!(note(ask((2, 0), 5, 100).unwrap(), 3), 0, "another table");
        assert_eq!(note(ask((1, 1), 5, 100).unwrap(), 3), 0, "another column");
        assert_eq!(note(ask((1, 0), 5, 100).unwrap(), 3), 7);
        assert_eq!(note(ask((1, 0), 6, 80).unwrap(), 3), 0, "another dictionary");
        assert_eq!(note(ask((1, 0), 5, 100).unwrap(), 3), 0, "only the last one is kept");
        assert!(ask((1, 0), 0, 100).is_none(), "without a number");
        assert!(ask((1, 0), 7, 0).is_none(), "without a number of entries");
    }

    #[test]
    fn large_dictionaries_are_kept_when_they_come_again() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Limit::none());
        let mut probed = ProbedEntries::default();
        let mut ask = |dictionary, places| probed.words((1, 0), dictionary, places, &pool);
        assert!(ask(1, FEW).is_some());
        assert!(ask(2, FEW + 1).is_none());
        assert_eq!(note(ask(2, FEW + 1).unwrap(), 3), 0);
        assert_eq!(note(ask(2, FEW + 1).unwrap(), 3), 7);
        assert!(ask(3, KEPT_MAX + 1).is_none());
        assert!(ask(3, KEPT_MAX + 1).is_none());
    }

    #[test]
    fn memory_is_the_pools() {
        let limit = Arc::new(Limit::new(1000));
        let pool: Arc<dyn MemoryPool> = limit.clone();
        let mut probed = ProbedEntries::default();
        assert!(probed.words((1, 0), 1, 200, &pool).is_none());
        assert!(probed.words((1, 0), 2, 100, &pool).is_some());
        assert!(limit.used() >= 800);
        drop(probed);
        assert_eq!(limit.used(), 0);
    }
}
