//! Sets of integers that lie close together: a bit for every value that each group might have.

use super::sets::Span;

/// Spans become at least such a part larger.
const WIDENED_MIN: u64 = 4;

/// Sets of groups, in the order of these.
#[derive(Debug)]
pub(super) struct Bits {
    words: Vec<u64>,
    /// How many words a group has, and the value of its first bit, a multiple of a word's.
    words_each: usize,
    base: u64,
    groups: usize,
}

impl Bits {
    pub(super) fn new() -> Bits {
        Bits { words: Vec::new(), words_each: 0, base: 0, groups: 0 }
    }

    /// What sets of so many groups take at most, of values within the span.
    pub(super) fn bytes_of(span: Span, groups: usize) -> usize {
        ((span.width() / 64) as usize).saturating_add(2).saturating_mul(groups).saturating_mul(8)
    }

    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    pub(super) fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether values within the span have bits.
    pub(super) fn hold(&self, span: Span) -> bool {
        let bits = self.words_each as u64 * 64;
        bits > 0 && span.min >= self.base && span.max - self.base < bits
    }

    /// Gives bits to more groups.
    pub(super) fn add_groups(&mut self, groups: usize) {
        self.groups = groups;
        self.words.resize(groups * self.words_each, 0);
    }

    /// Gives bits to all values within the span, which has those so far, for so many groups, and to more: spans that have
    /// become larger become so again, and all bits are copied each time. If `bytes_max` allow there are twice as many.
    pub(super) fn widen(&mut self, span: Span, groups: usize, bytes_max: usize) {
        let wider = span.widened(span.width());
        let span = match Bits::bytes_of(wider, groups) <= bytes_max {
            true => wider,
            false => span.widened(span.width() / WIDENED_MIN),
        };
        // Words begin at multiples of their bits, so that those of before are words again.
        let base = span.min & !63;
        let words_each = ((span.max - base) / 64) as usize + 1;
        let mut words = vec![0; words_each * groups];
        // Values lie in words of both.
        let first = self.base.max(base);
        let (from, to) = ((first - self.base) as usize / 64, (first - base) as usize / 64);
        let both = self.words_each.saturating_sub(from).min(words_each.saturating_sub(to));
        if both > 0 {
            let old = self.words.chunks_exact(self.words_each);
            for (old, new) in old.zip(words.chunks_exact_mut(words_each)) {
                new[to..][..both].copy_from_slice(&old[from..][..both]);
            }
        }
        *self = Bits { words, words_each, base, groups };
    }

    pub(super) fn add(&mut self, groups: &[u32], values: &[u64]) {
        for (group, value) in groups.iter().zip(values) {
            self.add_one(*group as usize, *value);
        }
    }

    pub(super) fn add_one(&mut self, group: usize, value: u64) {
        let bit = value - self.base;
        self.words[group * self.words_each + (bit / 64) as usize] |= 1 << (bit % 64);
    }

    pub(super) fn for_each(&self, mut each: impl FnMut(usize, u64)) {
        for group in 0..self.groups {
            let words = &self.words[group * self.words_each..][..self.words_each];
            for (at, word) in words.iter().enumerate() {
                let mut rest = *word;
                while rest != 0 {
                    each(group, self.base + at as u64 * 64 + u64::from(rest.trailing_zeros()));
                    rest &= rest - 1;
                }
            }
        }
    }

    /// How many values each group has.
    pub(super) fn counts(&self) -> Vec<usize> {
        if self.words_each == 0 {
            return vec![0; self.groups];
        }
        let count = |words: &[u64]| words.iter().map(|word| word.count_ones() as usize).sum();
        self.words.chunks(self.words_each).map(count).collect()
    }
}
