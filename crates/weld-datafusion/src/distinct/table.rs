//! Sets of integers anywhere: a hash table of keys.
//!
//! A partial aggregate need not find all equal keys, since whoever merges its states does. Where most keys are new,
//! they are only kept: each would be a miss of the cache.

use hashbrown::HashTable;
use weld_runtime::hash::hash_words;

/// When so many keys are in a table, and such a part of those that came were new, those that come are kept without
/// being looked for: but for one in some, by its hash, which tell when others have come again too often.
const KEPT_KEYS_MIN: usize = 16 << 10;
const NEW_SHARE_MIN: f64 = 0.75;
const KEYS_PER_SAMPLE: u64 = 16;

/// What a table holds.
pub(super) trait Key: Copy + Eq {
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
    placed: HashTable<K>,
    /// How many were looked for.
    keys: usize,
    /// Keys that were not looked for, where that is allowed.
    kept: Vec<K>,
    may_repeat: bool,
}

impl<K: Key> Table<K> {
    /// If keys `may_repeat`, some may be given more than once.
    pub(super) fn new(may_repeat: bool) -> Table<K> {
        Table { placed: HashTable::new(), keys: 0, kept: Vec::new(), may_repeat }
    }

    pub(super) fn bytes(&self) -> usize {
        self.placed.allocation_size() + self.kept.capacity() * size_of::<K>()
    }

    /// All keys, in any order.
    pub(super) fn keys(&self) -> Vec<K> {
        let mut keys = Vec::with_capacity(self.placed.len() + self.kept.len());
        keys.extend(&self.placed);
        keys.extend_from_slice(&self.kept);
        keys
    }

    pub(super) fn add(&mut self, keys: &[K]) {
        if !self.may_repeat || self.placed.len() < KEPT_KEYS_MIN || !self.are_new() {
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
        self.placed.len() as f64 >= NEW_SHARE_MIN * self.keys as f64
    }

    fn place(&mut self, keys: &[K]) {
        self.keys += keys.len();
        // A partial aggregate gives keys in the order of its table. They must not have the same order here, where they
        // would fill one end of a table that grows: each has its place by the other half of its hash.
        let turn = if self.may_repeat { 0 } else { u64::BITS / 2 };
        let hash = |key: &K| key.hash().rotate_left(turn);
        for key in keys {
            self.placed.entry(hash(key), |held| held == key, hash).or_insert(*key);
        }
    }
}
