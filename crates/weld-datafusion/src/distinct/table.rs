//! Sets of integers anywhere: a hash table of keys, with linear probing.
//!
//! A partial aggregate need not find all equal keys, since whoever merges its states does. Where most keys are new,
//! they are only kept: each would be a miss of the cache.

use weld_runtime::cache::prefetch;
use weld_runtime::hash::hash_words;

/// When so many keys are in a table, and such a part of those that came were new, those that come are kept without
/// being looked for: but for one in some, by its hash, which tell when others have come again too often.
const KEPT_KEYS_MIN: usize = 16 << 10;
const NEW_SHARE_MIN: f64 = 0.75;
const KEYS_PER_SAMPLE: u64 = 16;

const SLOTS_MIN: usize = 1 << 6;

/// So many keys are looked for together.
const TOGETHER: usize = 64;

/// A table that takes fewer bytes is in the cache.
const PREFETCHED_BYTES_MIN: usize = 256 << 10;

/// What a table holds.
pub(super) trait Key: Copy + Eq {
    /// Marks a slot without a key. It is no key.
    const FREE: Self;

    fn hash(self) -> u64;
}

impl Key for u64 {
    const FREE: u64 = u64::MAX;

    fn hash(self) -> u64 {
        hash_words(&[self])
    }
}

impl Key for u128 {
    const FREE: u128 = u128::MAX;

    fn hash(self) -> u64 {
        hash_words(&[self as u64, (self >> 64) as u64])
    }
}

/// How many of the keys that came were new, in one table or in several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Novelty {
    sought: usize,
    new: usize,
    may_repeat: bool,
}

impl Novelty {
    /// If keys `may_repeat`, a table may give some more than once.
    pub(super) fn new(may_repeat: bool) -> Novelty {
        Novelty { sought: 0, new: 0, may_repeat }
    }

    /// Whether keys are kept without being looked for.
    fn keeps(self) -> bool {
        self.may_repeat && self.new >= KEPT_KEYS_MIN && self.new as f64 >= NEW_SHARE_MIN * self.sought as f64
    }
}

/// A set of keys.
#[derive(Debug)]
pub(super) struct Table<K> {
    /// A power of two of them, or none. A key has its place by the high bits of its hash, so that a larger table holds
    /// keys in the same order, and growing goes through both from one end to the other.
    slots: Vec<K>,
    /// How many slots have a key.
    placed: usize,
    /// Keys that were not looked for, where that is allowed.
    kept: Vec<K>,
}

impl<K: Key> Table<K> {
    pub(super) fn new() -> Table<K> {
        Table { slots: Vec::new(), placed: 0, kept: Vec::new() }
    }

    pub(super) fn bytes(&self) -> usize {
        (self.slots.capacity() + self.kept.capacity()) * size_of::<K>()
    }

    pub(super) fn len(&self) -> usize {
        self.placed + self.kept.len()
    }

    /// All keys, in any order.
    pub(super) fn keys(&self) -> impl Iterator<Item = K> {
        self.slots.iter().filter(|key| **key != K::FREE).chain(&self.kept).copied()
    }

    /// Keys are looked for together, so many should be given at a time.
    pub(super) fn add(&mut self, keys: &[K], novelty: &mut Novelty) {
        if !novelty.keeps() {
            return self.place(keys, novelty);
        }
        let is_sampled = |key: &K| key.hash().is_multiple_of(KEYS_PER_SAMPLE);
        self.kept.extend(keys.iter().filter(|key| !is_sampled(key)));
        let sample: Vec<K> = keys.iter().copied().filter(is_sampled).collect();
        self.place(&sample, novelty);
        if !novelty.keeps() {
            let kept = std::mem::take(&mut self.kept);
            self.place(&kept, novelty);
        }
    }

    /// In a large table each access is a miss of the cache: the slots of many keys are asked for before any is used.
    fn place(&mut self, keys: &[K], novelty: &mut Novelty) {
        let before = self.placed;
        for together in keys.chunks(TOGETHER) {
            if 3 * (self.placed + together.len()) > 2 * self.slots.len() {
                self.grow(novelty.may_repeat);
            }
            let mut slots = [0; TOGETHER];
            for (slot, key) in slots.iter_mut().zip(together) {
                *slot = self.slot(*key, novelty.may_repeat);
            }
            if self.slots.len() * size_of::<K>() >= PREFETCHED_BYTES_MIN {
                slots[..together.len()].iter().for_each(|slot| prefetch(&raw const self.slots[*slot]));
            }
            for (slot, key) in slots.into_iter().zip(together) {
                self.placed += usize::from(self.place_from(slot, *key));
            }
        }
        novelty.sought += keys.len();
        novelty.new += self.placed - before;
    }

    /// Where a key is looked for first.
    fn slot(&self, key: K, may_repeat: bool) -> usize {
        // A partial aggregate gives keys in the order of its table. They must not have the same order here, where they
        // would fill one end of a table that grows: each has its place by the other half of its hash.
        let turn = if may_repeat { 0 } else { u64::BITS / 2 };
        (key.hash().rotate_left(turn) >> (u64::BITS - self.slots.len().trailing_zeros())) as usize
    }

    /// Whether the key is new. It is looked for from a slot on.
    fn place_from(&mut self, mut slot: usize, key: K) -> bool {
        loop {
            let held = self.slots[slot];
            if held == key {
                return false;
            }
            if held == K::FREE {
                self.slots[slot] = key;
                return true;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    fn grow(&mut self, may_repeat: bool) {
        let larger = vec![K::FREE; (2 * self.slots.len()).max(SLOTS_MIN)];
        for key in std::mem::replace(&mut self.slots, larger).into_iter().filter(|key| *key != K::FREE) {
            self.place_from(self.slot(key, may_repeat), key);
        }
    }
}
