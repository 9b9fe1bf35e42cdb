//! Random numbers by their place: number `index` of a sequence is a function of the sequence's name and the index
//! alone.
//!
//! So rows can be made in any order and by any thread, and data is the same whoever makes it.

/// A sequence of 64-bit numbers: splitmix64 (Steele, Lea and Flood 2014), whose state is a counter.
#[derive(Clone, Copy)]
pub(super) struct Sequence(u64);

impl Sequence {
    pub(super) const fn new(name: &str) -> Sequence {
        Sequence(hash(name.as_bytes()))
    }

    pub(super) fn bits(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// One of `0..count`.
    pub(super) fn below(self, index: u64, count: u64) -> u64 {
        ((u128::from(self.bits(index)) * u128::from(count)) >> 64) as u64
    }

    /// At least 0 and below 1.
    pub(super) fn unit(self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether an event of this probability happens.
    pub(super) fn happens(self, index: u64, probability: f64) -> bool {
        self.unit(index) < probability
    }

    /// One of `0..count`, rank `r` about as often as `1 / (r + 1)^exponent` says: Zipf's law, taken as continuous.
    pub(super) fn zipf(self, index: u64, count: u64, exponent: f64) -> u64 {
        let (unit, end) = (self.unit(index), count as f64 + 1.0);
        let place = if exponent == 1.0 {
            end.powf(unit)
        } else {
            let power = 1.0 - exponent;
            (1.0 + unit * (end.powf(power) - 1.0)).powf(1.0 / power)
        };
        (place as u64).clamp(1, count) - 1
    }
}

/// A permutation of `0..count`: a Feistel network over the next power of four, walked until it is in the range.
#[derive(Clone, Copy)]
pub(super) struct Permutation {
    sequence: Sequence,
    count: u64,
    half_bits: u32,
}

impl Permutation {
    pub(super) fn new(name: &str, count: u64) -> Permutation {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        Permutation { sequence: Sequence::new(name), count, half_bits: bits.div_ceil(2).max(1) }
    }

    /// Where `index`, which is below the count, goes.
    pub(super) fn at(self, index: u64) -> u64 {
        let mut place = index;
        loop {
            place = self.rounds(place);
            if place < self.count {
                return place;
            }
        }
    }

    fn rounds(self, place: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (place >> self.half_bits, place & mask);
        for round in 0..4 {
            (left, right) = (right, left ^ (self.sequence.bits((round << 32) | right) & mask));
        }
        (left << self.half_bits) | right
    }
}

/// FNV-1a, mixed.
pub(super) const fn hash(bytes: &[u8]) -> u64 {
    let (mut hash, mut index) = (0xcbf2_9ce4_8422_2325, 0);
    while index < bytes.len() {
        hash = (hash ^ bytes[index] as u64).wrapping_mul(0x0100_0000_01b3);
        index += 1;
    }
    mix(hash)
}

const fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_have_every_number_once() {
        for count in [1, 2, 3, 10, 64, 1000] {
            let permutation = Permutation::new("p", count);
            let mut found: Vec<u64> = (0..count).map(|index| permutation.at(index)).collect();
            assert!(count < 10 || !found.is_sorted());
            found.sort();
            assert_eq!(found, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn numbers_are_in_their_range() {
        let sequence = Sequence::new("s");
        for index in 0..10_000 {
            assert!(sequence.below(index, 7) < 7);
            assert!((0.0..1.0).contains(&sequence.unit(index)));
            assert_eq!(sequence.zipf(index, 1, 1.0), 0);
        }
        // Rank 0 of 1000 has the share ln(2) / ln(1001), a tenth.
        let first = (0..10_000).filter(|&index| sequence.zipf(index, 1000, 1.0) == 0).count();
        assert!((900..1100).contains(&first), "{first}");
        let last = (0..10_000).map(|index| sequence.zipf(index, 1000, 0.5)).max();
        assert!(last.is_some_and(|last| (900..1000).contains(&last)), "{last:?}");
    }
}
