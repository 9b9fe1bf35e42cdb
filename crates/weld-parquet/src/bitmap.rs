//! A growing bitmap in 64-bit words, low bits first: Arrow's order, and that of packed levels.
//!
//! ```text
//! push_n(3, true), push_word(0b01, 2)   ->   0b01111, five bits long
//! ```
//!
//! Bits above the length are zero, always.

use arrow::buffer::{BooleanBuffer, Buffer};

#[derive(Debug, Default, Clone)]
pub(crate) struct Bits {
    words: Vec<u64>,
    len: usize,
}

/// The lowest `n` bits, of at most 64.
#[inline]
pub(crate) fn low(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

impl Bits {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
    }

    pub(crate) fn reserve(&mut self, bits: usize) {
        self.words.reserve((self.len + bits).div_ceil(64).saturating_sub(self.words.len()));
    }

    /// Appends the lowest `n` bits of `word`, at most 64; the others are zero.
    #[inline]
    pub(crate) fn push_word(&mut self, word: u64, n: usize) {
        debug_assert!(n <= 64 && word & !low(n) == 0);
        let used = self.len % 64;
        match self.words.last_mut() {
            Some(last) if used > 0 => {
                *last |= word << used;
                if used + n > 64 {
                    self.words.push(word >> (64 - used));
                }
            }
            _ if n > 0 => self.words.push(word),
            _ => {}
        }
        self.len += n;
    }

    /// Appends `n` equal bits.
    #[inline]
    pub(crate) fn push_n(&mut self, n: usize, bit: bool) {
        let mut left = n;
        let head = left.min((64 - self.len % 64) % 64);
        self.push_word(if bit { low(head) } else { 0 }, head);
        left -= head;
        if left > 0 {
            let word = if bit { u64::MAX } else { 0 };
            self.words.resize(self.words.len() + left.div_ceil(64), word);
            self.len += left;
            if let Some(last) = self.words.last_mut().filter(|_| !left.is_multiple_of(64)) {
                *last &= low(left % 64);
            }
        }
    }

    /// Appends bits `start .. start + n` of `data`, which holds them.
    pub(crate) fn push_packed(&mut self, data: &[u8], start: usize, n: usize) {
        let mut at = start;
        let stop = start + n;
        while at < stop {
            let now = (stop - at).min(64 - at % 8);
            let bytes = &data[at / 8..(at + now).div_ceil(8)];
            let word = match bytes.first_chunk::<8>() {
                Some(bytes) => u64::from_le_bytes(*bytes),
                None => bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
            };
            self.push_word(word >> (at % 8) & low(now), now);
            at += now;
        }
    }

    /// Appends bits `start .. start + n` of others, which have them.
    pub(crate) fn push_bits(&mut self, others: &Bits, start: usize, n: usize) {
        for at in (start..start + n).step_by(64) {
            let now = (start + n - at).min(64);
            self.push_word(others.word(at) & low(now), now);
        }
    }

    /// Bits `at .. at + 64`, zeros past the end.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> u64 {
        let word = |index: usize| self.words.get(index).copied().unwrap_or(0);
        let (index, shift) = (at / 64, at % 64);
        match shift {
            0 => word(index),
            _ => word(index) >> shift | word(index + 1) << (64 - shift),
        }
    }

    #[cfg(test)]
    pub(crate) fn bit(&self, at: usize) -> bool {
        self.word(at) & 1 == 1
    }

    /// How many bits are set from `at` on.
    pub(crate) fn ones_from(&self, at: usize) -> usize {
        let Some((first, rest)) = self.words.get(at / 64..).and_then(<[u64]>::split_first) else { return 0 };
        let first = first >> (at % 64);
        rest.iter().fold(first.count_ones() as usize, |ones, word| ones + word.count_ones() as usize)
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn into_buffer(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends of every kind and many lengths, against a vector of bits.
    #[test]
    fn appends_agree_with_a_vector() {
        let data: Vec<u8> = (0..64u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for seed in 0..200usize {
            let (mut bits, mut expected) = (Bits::default(), vec![]);
            let mut x = seed;
            for step in 0..20 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let n = [0, 1, 7, 8, 63, 64, 65, 130, 200][(x >> 33) % 9];
                match (x >> 40) % 3 {
                    0 => {
                        bits.push_n(n, step % 2 == 0);
                        expected.extend(std::iter::repeat_n(step % 2 == 0, n));
                    }
                    1 => {
                        let n = n.min(64);
                        bits.push_word(x as u64 & low(n), n);
                        expected.extend((0..n).map(|i| x >> i & 1 == 1));
                    }
                    _ => {
                        let start = (x >> 50) % 70;
                        bits.push_packed(&data, start, n);
                        expected.extend((start..start + n).map(|i| data[i / 8] >> (i % 8) & 1 == 1));
                    }
                }
                assert_eq!(bits.len(), expected.len());
                assert_eq!(bits.words.len(), expected.len().div_ceil(64));
            }
            for at in [0, 1, 63, 64, 65, 129] {
                let at = at.min(expected.len());
                assert_eq!(bits.ones_from(at), expected[at..].iter().filter(|bit| **bit).count());
                let word = (0..64).filter(|i| expected.get(at + i) == Some(&true)).fold(0, |word, i| word | 1 << i);
                assert_eq!(bits.word(at), word, "{seed} {at}");
            }
            assert!((0..expected.len()).all(|i| bits.bit(i) == expected[i]));
            assert_eq!(bits.clone().into_buffer().iter().collect::<Vec<_>>(), expected);
        }
    }
}
