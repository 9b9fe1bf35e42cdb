//! The hash of a key: what compiled code computes inline, said once in Rust.
//!
//! A key is a sequence of 64-bit words (its scalars packed, the two words of a string view). Words are folded two at a
//! time into an accumulator by a multiplication to 128 bits whose halves are combined, as wyhash does:
//!
//! ```text
//! hash([a, b, c]) = fold(c ^ K0, fold(a ^ K0, b ^ SEED) ^ K1)
//! ```
//!
//! Tables take 32 bits: their high end picks the slot, and all of them are kept there, so that a table grows without
//! looking at its keys. One more multiplication spreads keys in arithmetic progression, which a single one may leave
//! in a few places.

/// Digits of pi.
pub const SEED: u64 = 0x243f_6a88_85a3_08d3;
pub const K0: u64 = 0x1319_8a2e_0370_7345;
pub const K1: u64 = 0xa409_3822_299f_31d0;
/// The golden ratio's fraction.
pub const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The product's halves, combined.
#[inline]
pub fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Sixty-four bits for a sequence of words.
#[inline]
pub fn hash_words(words: &[u64]) -> u64 {
    let (pairs, last) = words.as_chunks::<2>();
    let accumulated = pairs.iter().fold(SEED, |acc, [a, b]| fold(a ^ K0, b ^ acc));
    match last {
        [word] => fold(word ^ K0, accumulated ^ K1),
        _ => accumulated,
    }
}

/// What a table uses of [`hash_words`]. Never zero, so that no free slot looks like it.
#[inline]
pub fn slot_hash(hash: u64) -> u32 {
    ((hash ^ hash >> 32).wrapping_mul(SPREAD) >> 32) as u32 | 1
}

/// The word that stands for the bytes of a string too long for its view. At least 8 bytes.
pub fn hash_long_bytes(bytes: &[u8]) -> u64 {
    let words = |block: &[u8; 16]| {
        let block = u128::from_le_bytes(*block);
        (block as u64, (block >> 64) as u64)
    };
    let mut acc = SEED ^ bytes.len() as u64;
    let (blocks, _) = bytes[..bytes.len() - 1].as_chunks::<16>();
    for block in blocks {
        let (low, high) = words(block);
        acc = fold(low ^ K0, high ^ acc);
    }
    // The last one to sixteen bytes, read so that they end at the end: some are seen twice, none is missed.
    let (low, high) = match bytes.last_chunk::<16>() {
        Some(last) => words(last),
        None => {
            let word = |chunk: Option<&[u8; 8]>| u64::from_le_bytes(*chunk.expect("at least 8 bytes"));
            (word(bytes.first_chunk()), word(bytes.last_chunk()))
        }
    };
    fold(low ^ K1, high ^ acc)
}

/// [`hash_long_bytes`] for compiled code.
///
/// # Safety
/// `bytes` points to `len` bytes; `len` is at least 8.
pub unsafe extern "C" fn hash_bytes(bytes: *const u8, len: u64) -> u64 {
    // SAFETY: by the caller's promise.
    hash_long_bytes(unsafe { std::slice::from_raw_parts(bytes, len as usize) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_byte_of_a_long_string_counts() {
        for len in 13..80 {
            let mut bytes: Vec<u8> = (0..len).collect();
            let mut seen = HashSet::from([hash_long_bytes(&bytes)]);
            for at in 0..bytes.len() {
                bytes[at] ^= 0x80;
                assert!(seen.insert(hash_long_bytes(&bytes)), "length {len}, byte {at}");
                bytes[at] ^= 0x80;
            }
        }
    }

    /// Slots are the high bits of the hash: keys in arithmetic progressions must not share them.
    #[test]
    fn progressions_spread() {
        for step in [1u64, 2, 64, 1000, 1 << 20, 1 << 32, 1 << 44, 1 << 52, 0x1_0001_0001, 86_400_000_000] {
            let slots: HashSet<u32> = (0..4096).map(|i| slot_hash(hash_words(&[step.wrapping_mul(i)])) >> 20).collect();
            // 4096 balls in 4096 bins leave 37 % of them empty.
            assert!(slots.len() > 2200, "step {step}: {}", slots.len());
        }
    }
}
