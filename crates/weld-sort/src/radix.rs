//! Sorts keys by the highest bits in which they differ, again within these, until few are left.
//!
//! Keys go to an array aside and back: exchanging them in place takes three times as long. So that this array is small,
//! keys are made in ranges that fit a processor's cache ([`Digit::highest`]).

use crate::normalised_key::Key;

const DIGIT_BITS: u32 = 8;
/// Ranges of more keys than this fit no cache.
const CACHED: usize = 1 << 14;
/// More ranges than this cannot be written to at once.
const TOP_BITS: u32 = 9;
/// So few keys are sorted by comparison.
const FEW: usize = 20;

/// Sorts keys. `aside` is room that is used again.
pub(crate) fn sort<K: Key>(keys: &mut [K], aside: &mut Vec<K>) {
    if keys.len() <= FEW {
        return keys.sort_unstable();
    }
    if keys.is_sorted() {
        return;
    }
    let digit = Digit::of(keys, keys.len().ilog2().min(DIGIT_BITS));
    let mut ends = [0; 1 << DIGIT_BITS];
    keys.iter().for_each(|key| ends[digit.of_key(*key)] += 1);
    let most = ends.iter().copied().max().unwrap_or(0);
    let mut end = 0;
    for count in &mut ends {
        end += std::mem::replace(count, end);
    }
    aside.clear();
    aside.extend_from_slice(keys);
    for key in aside.iter() {
        let at = &mut ends[digit.of_key(*key)];
        keys[*at] = *key;
        *at += 1;
    }
    if most <= FEW {
        return insert(keys);
    }
    let mut start = 0;
    for end in ends {
        if end - start > 1 {
            sort(&mut keys[start..end], aside);
        }
        start = end;
    }
}

/// Sorts keys that are near their places.
fn insert<K: Key>(keys: &mut [K]) {
    for number in 1..keys.len() {
        let key = keys[number];
        let mut at = number;
        while at > 0 && keys[at - 1] > key {
            keys[at] = keys[at - 1];
            at -= 1;
        }
        keys[at] = key;
    }
}

/// The highest bits in which keys differ.
#[derive(Clone, Copy)]
pub(crate) struct Digit {
    shift: u32,
    mask: usize,
}

impl Digit {
    fn of<K: Key>(keys: &[K], bits: u32) -> Digit {
        let first = keys[0];
        let varying = keys.iter().fold(K::ZERO, |varying, key| varying.or(key.xor(first)));
        Digit { shift: varying.used().saturating_sub(bits), mask: (1 << bits) - 1 }
    }

    /// The highest bits of so many keys, which have so many bits.
    pub(crate) fn highest(bits: u32, keys: usize) -> Digit {
        let digit = (keys / CACHED).checked_ilog2().map_or(0, |bits| bits + 1).min(TOP_BITS).min(bits);
        Digit { shift: if digit == 0 { 0 } else { bits - digit }, mask: (1 << digit) - 1 }
    }

    /// How many bits are below it.
    pub(crate) fn shift(self) -> u32 {
        self.shift
    }

    /// How many values it has.
    pub(crate) fn values(self) -> usize {
        self.mask + 1
    }

    pub(crate) fn of_key<K: Key>(self, key: K) -> usize {
        key.word(self.shift) as usize & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_in_order() {
        for (rows, mask) in [(0, 0), (1, 0), (1000, u128::MAX), (100_000, u128::MAX), (50_000, 0xff00), (70_000, 0)] {
            let mut state = 1_u128;
            let mut next = || {
                state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(1);
                state ^ (state >> 64)
            };
            let mut wide: Vec<u128> = (0..rows).map(|_| next() & mask).collect();
            let mut narrow: Vec<u64> = wide.iter().map(|key| *key as u64).collect();
            let (mut wide_sorted, mut narrow_sorted) = (wide.clone(), narrow.clone());
            wide_sorted.sort();
            narrow_sorted.sort();
            sort(&mut wide, &mut Vec::new());
            sort(&mut narrow, &mut Vec::new());
            assert_eq!(wide, wide_sorted);
            assert_eq!(narrow, narrow_sorted);
        }
    }
}
