//! Sorts keys in place: by the eight highest bits in which they differ, again within these, and what is few by comparison.
//!
//! The first step brings ten million keys into parts that fit a processor's cache; nothing is copied aside.

use std::ops::Range;

use crate::code::Key;

const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;
/// So few keys are sorted by comparison. Measured: 256 to 4096 make no difference.
const FEW: usize = 1024;

/// Sorts keys.
pub(crate) fn sort<K: Key>(keys: &mut [K]) {
    if keys.len() <= FEW {
        return keys.sort_unstable();
    }
    let parts = split(keys);
    if parts.len() > 1 {
        parts.into_iter().for_each(|part| sort(&mut keys[part]));
    }
}

/// Brings keys into an order of ranges: no key of a range is above one of the next. There is one range only if all are the
/// same.
pub(crate) fn split<K: Key>(keys: &mut [K]) -> Vec<Range<usize>> {
    let Some(first) = keys.first().copied() else { return Vec::new() };
    let varying = keys.iter().fold(K::ZERO, |varying, key| varying.or(key.xor(first)));
    let shift = varying.used().saturating_sub(DIGIT_BITS);
    let digit = |key: K| (key.word(shift) as usize) & (DIGITS - 1);
    let mut counts = [0_usize; DIGITS];
    keys.iter().for_each(|key| counts[digit(*key)] += 1);
    let (mut heads, mut ends) = ([0; DIGITS], [0; DIGITS]);
    let mut end = 0;
    for number in 0..DIGITS {
        heads[number] = end;
        end += counts[number];
        ends[number] = end;
    }
    let parts = (0..DIGITS).map(|number| heads[number]..ends[number]).filter(|part| !part.is_empty()).collect();
    for number in 0..DIGITS {
        while heads[number] < ends[number] {
            let mut key = keys[heads[number]];
            loop {
                let to = digit(key);
                let head = heads[to];
                heads[to] += 1;
                if to == number {
                    keys[head] = key;
                    break;
                }
                std::mem::swap(&mut keys[head], &mut key);
            }
        }
    }
    parts
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
            sort(&mut wide);
            sort(&mut narrow);
            assert_eq!(wide, wide_sorted);
            assert_eq!(narrow, narrow_sorted);
        }
    }
}
