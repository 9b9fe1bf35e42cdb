//! Sets of integers anywhere: a hash table of keys, which lie in the table themselves.
//!
//! A partial aggregate need not find all equal keys, since whoever merges its states does. Where most keys are new, they are only kept:
//! each would be a miss of the cache.

use weld_runtime::hash::hash_words;

/// So many keys are looked up together: the lines that they are in are asked for before the first is needed.
const KEYS_TOGETHER: usize = 64;

const SLOTS_MIN: usize = 1 << 10;

/// When so many keys are in a table, and such a part of those that came were new, those that come are kept without being looked for:
/// but for one in some, by its hash, which tell when others have come again too often.
const KEPT_KEYS_MIN: usize = 16 << 10;
const NEW_SHARE_MIN: f64 = 0.75;
const KEYS_PER_SAMPLE: u64 = 16;

/// What a table holds. Zero stands for a free slot.
pub(super) trait Key: Copy + Eq + Default {
    fn hash(self) -> u64;
}

impl Key for u64 {
    fn hash(self) -> u64 {
        hash_words(&[self])
    }
}

impl Key for u128 {
    fn hash(self) -> u64 {
        hash_words(&[self as u64, (self >> 64) as u64])
    }
}

/// A set of keys.
#[derive(Debug)]
pub(super) struct Table<K> {
    slots: Vec<K>,
    len: usize,
    /// How many were looked for.
    keys: usize,
    /// Keys that were not looked for, where that is allowed.
    kept: Vec<K>,
    may_repeat: bool,
}

impl<K: Key> Table<K> {
    /// If keys `may_repeat`, some may be given more than once.
    pub(super) fn new(may_repeat: bool) -> Table<K> {
        Table { slots: vec![K::default(); SLOTS_MIN], len: 0, keys: 0, kept: Vec::new(), may_repeat }
    }

    pub(super) fn bytes(&self) -> usize {
        (self.slots.capacity() + self.kept.capacity()) * size_of::<K>()
    }

    /// All keys, in any order.
    pub(super) fn keys(&self) -> Vec<K> {
        // Without branches, which would be mispredicted.
        let mut keys = vec![K::default(); self.len + 1];
        let mut next = 0;
        for key in &self.slots {
            keys[next] = *key;
            next += usize::from(*key != K::default());
        }
        keys.truncate(self.len);
        keys.extend_from_slice(&self.kept);
        keys
    }

    /// Adds keys, none of which is zero.
    pub(super) fn add(&mut self, keys: &[K]) {
        if !self.may_repeat || self.len < KEPT_KEYS_MIN || !self.are_new() {
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
        self.len as f64 >= NEW_SHARE_MIN * self.keys as f64
    }

    fn place(&mut self, keys: &[K]) {
        self.keys += keys.len();
        for keys in keys.chunks(KEYS_TOGETHER) {
            if (self.len + KEYS_TOGETHER) * 4 > self.slots.len() * 3 {
                self.grow();
            }
            let mut found = [(0, K::default()); KEYS_TOGETHER];
            for (found, key) in found.iter_mut().zip(keys) {
                let slot = self.slot(*key);
                *found = (slot, self.slots[slot]);
            }
            for ((slot, held), key) in found.into_iter().zip(keys) {
                if held != *key {
                    self.add_from(slot, *key);
                }
            }
        }
    }

    /// Adds a key that is in none of the slots between its own and this one.
    fn add_from(&mut self, mut slot: usize, key: K) {
        loop {
            let held = self.slots[slot];
            if held == key {
                return;
            }
            if held == K::default() {
                self.slots[slot] = key;
                self.len += 1;
                return;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    fn slot(&self, key: K) -> usize {
        // A partial aggregate gives keys in the order of its slots. They must not have the same order here, where they would fill one
        // end of a table that grows: each has its slot by the other half of its hash.
        let hash = if self.may_repeat { key.hash() } else { key.hash().rotate_left(32) };
        (hash >> (u64::BITS - self.slots.len().trailing_zeros())) as usize
    }

    fn grow(&mut self) {
        let larger = vec![K::default(); 2 * self.slots.len()];
        let slots = std::mem::replace(&mut self.slots, larger);
        self.len = 0;
        for key in slots.into_iter().filter(|key| *key != K::default()) {
            self.add_from(self.slot(key), key);
        }
    }
}
