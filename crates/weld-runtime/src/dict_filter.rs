//! A Bloom filter whose keys each set three bits of one 64-bit word: one memory access answers "surely absent".
//!
//! The word is picked by the upper bits of the 32-bit hash, as slots are; the bits by a product of it. With 11 to 21
//! bits a key one absent key in a hundred or fewer passes (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient
//! Bloom Filters).

use std::sync::Arc;

use crate::dict_buffer::Buffer;
use crate::memory::{MemoryPool, OutOfMemory};

/// Multiplies a hash before its bits are taken. The golden ratio's fraction.
pub const BITS_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
/// Where in the product the three bit numbers stand.
pub const BIT_SHIFTS: [u32; 3] = [58, 52, 46];

/// The bits of a hash within its word.
#[inline]
pub(crate) fn bits_of(hash: u32) -> u64 {
    let product = u64::from(hash).wrapping_mul(BITS_FACTOR);
    BIT_SHIFTS.iter().fold(0, |bits, shift| bits | 1 << (product >> shift & 63))
}

/// A filter for `keys` keys that has none yet, and the shift that picks a word.
pub(crate) fn empty(keys: u64, pool: &Arc<dyn MemoryPool>) -> Result<(Buffer, u64), OutOfMemory> {
    let words = (keys / 6).next_power_of_two().clamp(2, 1 << 31);
    let shift = u64::from(32 - words.trailing_zeros());
    Ok((Buffer::zeroed(words as usize * 8, pool.clone())?, shift))
}

/// Enters keys of these hashes.
///
/// # Safety
/// The shift is the filter's; no other thread enters hashes of the same words.
pub(crate) unsafe fn enter(filter: &Buffer, shift: u64, hashes: impl Iterator<Item = u32>) {
    let target: *mut u64 = filter.as_ptr().cast();
    for hash in hashes {
        // SAFETY: a 32-bit hash shifted by `shift` is below the number of words; by the caller's promise.
        unsafe { *target.add((hash >> shift) as usize) |= bits_of(hash) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{hash_words, slot_hash};
    use crate::memory::Limit;

    #[test]
    fn no_false_negatives_and_few_false_positives() {
        for keys in [1u64, 10, 1000, 49_000, 100_000] {
            let hash_of = |key: u64| slot_hash(hash_words(&[key]));
            let pool: Arc<dyn MemoryPool> = Arc::new(Limit::none());
            let (filter, shift) = empty(keys, &pool).unwrap();
            // SAFETY: it is the filter's shift, and there is one thread.
            unsafe { enter(&filter, shift, (0..keys).map(hash_of)) };
            let passes = |key: u64| {
                let hash = hash_of(key);
                // SAFETY: as in `enter`.
                let word = unsafe { *filter.as_ptr().cast::<u64>().add((hash >> shift) as usize) };
                word & bits_of(hash) == bits_of(hash)
            };
            assert!((0..keys).all(passes));
            let wrong = (keys..keys + 100_000).filter(|key| passes(*key)).count();
            assert!(wrong < 3_000, "{keys} keys: {wrong} of 100000");
        }
    }
}
