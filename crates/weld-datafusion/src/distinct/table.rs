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

const SLOTS_MIN: usize = 1 << 10;

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

/// A set of keys.
#[derive(Debug)]
pub(super) struct Table<K> {
    /// A power of two of them, or none. A key has its place by the high bits of its hash, so that a larger table holds
    /// keys in the same order, and growing goes through both from one end to the other.
    slots: Vec<K>,
    /// How many slots have a key.
    placed: usize,
    /// How many keys were looked for.
    sought: usize,
    /// Keys that were not looked for, where that is allowed.
    kept: Vec<K>,
    may_repeat: bool,
}

impl<K: Key> Table<K> {
    /// A table of these keys. If they `may_repeat`, some may be given more than once. Keys are looked for together, so all
    /// are given at a time.
    pub(super) fn of(keys: &[K], may_repeat: bool) -> Table<K> {
        let mut table = Table { slots: Vec::new(), placed: 0, sought: 0, kept: Vec::new(), may_repeat };
        table.add(keys);
        table
    }

    pub(super) fn bytes(&self) -> usize {
        (self.slots.capacity() + self.kept.capacity()) * size_of::<K>()
    }

    /// All keys, in any order.
    pub(super) fn keys(&self) -> impl Iterator<Item = K> {
        self.slots.iter().filter(|key| **key != K::FREE).chain(&self.kept).copied()
    }

    pub(super) fn add(&mut self, keys: &[K]) {
        if !self.may_repeat || self.placed < KEPT_KEYS_MIN || !self.are_new() {
            return self.place(keys);
        }
        let is_sampled = |key: &K| key.hash().is_multiple_of(KEYS_PER_SAMPLE);
        self.kept.extend(keys.iter().filter(|key| !is_sampled(key)));
        let sample: Vec<K> = keys.iter().copied().filter(is_sampled).collect();
        self.place(&sample);
        if !self.are_new() {
            let kept = std::mem::take(&mut self.kept);
            self.place(&kept);
        }
    }

    fn are_new(&self) -> bool {
        self.placed as f64 >= NEW_SHARE_MIN * self.sought as f64
    }

    /// In a large table each access is a miss of the cache: the slots of many keys are asked for before any is used.
    fn place(&mut self, keys: &[K]) {
        self.sought += keys.len();
        for together in keys.chunks(TOGETHER) {
            if 3 * (self.placed + together.len()) > 2 * self.slots.len() {
                self.grow();
            }
            let mut slots = [0; TOGETHER];
            for (slot, key) in slots.iter_mut().zip(together) {
                *slot = self.slot(*key);
            }
            if self.slots.len() * size_of::<K>() >= PREFETCHED_BYTES_MIN {
                slots[..together.len()].iter().for_each(|slot| prefetch(&raw const self.slots[*slot]));
            }
            for (slot, key) in slots.into_iter().zip(together) {
                self.placed += usize::from(self.place_from(slot, *key));
            }
        }
    }

    /// Where a key is looked for first.
    fn slot(&self, key: K) -> usize {
        // A partial aggregate gives keys in the order of its table. They must not have the same order here, where they
        // would fill one end of a table that grows: each has its place by the other half of its hash.
        let turn = if self.may_repeat { 0 } else { u64::BITS / 2 };
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

    fn grow(&mut self) {
        let larger = vec![K::FREE; (2 * self.slots.len()).max(SLOTS_MIN)];
        for key in std::mem::replace(&mut self.slots, larger).into_iter().filter(|key| *key != K::FREE) {
            self.place_from(self.slot(key), key);
        }
    }
}
