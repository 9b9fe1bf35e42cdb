//! Numbers for texts and other values of more than a word, so that sets hold integers.

use std::sync::Arc;

use arrow::array::BinaryViewArray;
use arrow::buffer::{Buffer, ScalarBuffer};
use datafusion::common::Result;
use weld_runtime::cache::prefetch;
use weld_runtime::hash::{hash_long_bytes, hash_words};

/// Texts of at most so many bytes are in their view.
pub(super) const INLINE_BYTES: u32 = 12;

const SLOTS_MIN: usize = 1 << 10;

/// How large the first block of bytes is, and blocks become.
const BLOCK_BYTES_MIN: usize = 16 << 10;
const BLOCK_BYTES_MAX: usize = 2 << 20;

/// So many values are looked for together.
const TOGETHER: usize = 64;

/// A table of fewer slots is in the cache with its values.
const PREFETCHED_SLOTS_MIN: usize = 32 << 10;

const CACHE_LINE: usize = 64;

/// A value that is looked for.
struct Sought<'b> {
    /// All of the value, or the length and the first bytes of a text.
    value: u128,
    /// The bytes of a text that its view does not hold.
    long: &'b [u8],
    hash: u64,
}

impl Sought<'_> {
    fn hashed(&self) -> u64 {
        let high = if self.long.is_empty() { (self.value >> 64) as u64 } else { hash_long_bytes(self.long) };
        hash_words(&[self.value as u64, high])
    }
}

fn prefetch_bytes(bytes: &[u8]) {
    bytes.iter().step_by(CACHE_LINE).for_each(|byte| prefetch(byte));
}

/// Whether the value of a slot may have this hash.
fn is_same_half(held: u64, hash: u64) -> bool {
    held >> 32 == hash >> 32
}

fn code_of(held: u64) -> u64 {
    (held & u64::from(u32::MAX)) - 1
}

/// Values by their numbers: 128 bits each, which are all of a value, or Arrow's view of a text.
#[derive(Debug)]
pub(super) struct Codes {
    values: Vec<u128>,
    /// The high half of a value's hash, and its number plus one; 0 is free.
    slots: Vec<u64>,
    /// The bytes of long texts.
    blocks: Vec<Vec<u8>>,
    block_bytes: usize,
}

impl Codes {
    pub(super) fn new() -> Codes {
        Codes { values: Vec::new(), slots: Vec::new(), blocks: Vec::new(), block_bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<u128>() + self.slots.capacity() * size_of::<u64>() + self.block_bytes
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Bytes with these numbers.
    pub(super) fn into_bytes(self, codes: &[u64]) -> Result<BinaryViewArray> {
        let views: ScalarBuffer<u128> = codes.iter().map(|code| self.value(*code)).collect();
        let blocks: Arc<[Buffer]> = self.blocks.into_iter().map(Buffer::from_vec).collect();
        // SAFETY: the views are of texts that lie in these blocks, or hold them.
        Ok(unsafe { BinaryViewArray::new_unchecked(views, blocks, None) })
    }

    /// The value with this number.
    pub(super) fn value(&self, code: u64) -> u128 {
        self.values[code as usize]
    }

    /// Appends the numbers of values that 128 bits hold.
    pub(super) fn of_values(&mut self, values: impl Iterator<Item = u128>, to: &mut Vec<u64>) {
        self.of_all(values.map(|value| Sought { value, long: &[], hash: 0 }), to);
    }

    /// Appends the numbers of texts: of each its view, of which the length and the first bytes count, and all of its
    /// bytes if the view does not hold them.
    pub(super) fn of_texts<'b>(&mut self, texts: impl Iterator<Item = (u128, &'b [u8])>, to: &mut Vec<u64>) {
        let sought = |(view, bytes): (u128, &'b [u8])| match view as u32 <= INLINE_BYTES {
            true => Sought { value: view, long: &[], hash: 0 },
            false => Sought { value: u128::from(view as u64), long: bytes, hash: 0 },
        };
        self.of_all(texts.map(sought), to);
    }

    /// In a large table nearly every access is a miss of the cache. So all that is needed next is asked for, of many
    /// values at a time, before any of it is used: bytes, slots, the values that these lead to, and their bytes.
    fn of_all<'b>(&mut self, mut all: impl Iterator<Item = Sought<'b>>, to: &mut Vec<u64>) {
        let mut together = Vec::with_capacity(TOGETHER);
        loop {
            together.extend(all.by_ref().take(TOGETHER));
            if together.is_empty() {
                return;
            }
            self.reserve();
            let is_large = self.slots.len() >= PREFETCHED_SLOTS_MIN;
            if is_large {
                together.iter().for_each(|sought| prefetch_bytes(sought.long));
            }
            together.iter_mut().for_each(|sought| sought.hash = sought.hashed());
            if is_large {
                self.prefetch(&together);
            }
            to.extend(together.drain(..).map(|sought| self.number(&sought)));
        }
    }

    fn prefetch(&self, together: &[Sought<'_>]) {
        for sought in together {
            prefetch(&raw const self.slots[self.slot(sought.hash)]);
        }
        let first = |sought: &Sought<'_>| {
            let held = self.slots[self.slot(sought.hash)];
            (held != 0 && is_same_half(held, sought.hash)).then(|| code_of(held) as usize)
        };
        for code in together.iter().filter_map(first) {
            prefetch(&raw const self.values[code]);
        }
        // A text of another length may have the same half of the hash: one that its view holds has no bytes elsewhere.
        let is_alike = |held: u128, sought: &Sought<'_>| held as u64 == sought.value as u64;
        for sought in together.iter().filter(|sought| !sought.long.is_empty()) {
            if let Some(held) = first(sought).map(|code| self.values[code])
                && is_alike(held, sought)
            {
                prefetch_bytes(self.long_text(held));
            }
        }
    }

    fn number(&mut self, sought: &Sought<'_>) -> u64 {
        match self.find(sought) {
            Ok(code) => code,
            Err(slot) if sought.long.is_empty() => self.insert(slot, sought.hash, sought.value),
            Err(slot) => {
                let (block, offset) = self.keep(sought.long);
                let view = sought.value | u128::from(block) << 64 | u128::from(offset) << 96;
                self.insert(slot, sought.hash, view)
            }
        }
    }

    /// The number of a value, or the slot for it.
    fn find(&self, sought: &Sought<'_>) -> std::result::Result<u64, usize> {
        let mut slot = self.slot(sought.hash);
        loop {
            let held = self.slots[slot];
            if held == 0 {
                return Err(slot);
            }
            if is_same_half(held, sought.hash) && self.is_equal(self.values[code_of(held) as usize], sought) {
                return Ok(code_of(held));
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    fn is_equal(&self, held: u128, sought: &Sought<'_>) -> bool {
        match sought.long {
            [] => held == sought.value,
            long => held as u64 == sought.value as u64 && self.long_text(held) == long,
        }
    }

    fn insert(&mut self, slot: usize, hash: u64, value: u128) -> u64 {
        let code = self.values.len() as u64;
        self.values.push(value);
        self.slots[slot] = hash >> 32 << 32 | (code + 1);
        code
    }

    /// The high half of a hash is in its slot: tables of more than 2^32 slots there are none.
    fn slot(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - self.slots.len().trailing_zeros())) as usize
    }

    /// Makes room for values that are looked for together.
    fn reserve(&mut self) {
        if (self.values.len() + TOGETHER) * 2 >= self.slots.len() {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let larger = vec![0; (2 * self.slots.len()).max(SLOTS_MIN)];
        for held in std::mem::replace(&mut self.slots, larger).into_iter().filter(|held| *held != 0) {
            let mut slot = self.slot(held);
            while self.slots[slot] != 0 {
                slot = (slot + 1) & (self.slots.len() - 1);
            }
            self.slots[slot] = held;
        }
    }

    fn long_text(&self, view: u128) -> &[u8] {
        let (len, block, offset) = (view as u32 as usize, (view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
        &self.blocks[block][offset..][..len]
    }

    /// Where the bytes are kept: the block and the place in it.
    fn keep(&mut self, bytes: &[u8]) -> (u32, u32) {
        let has_room = |block: &Vec<u8>| block.capacity() - block.len() >= bytes.len();
        if !self.blocks.last().is_some_and(has_room) {
            let last = self.blocks.last().map_or(0, Vec::capacity);
            let size = (2 * last).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX).max(bytes.len());
            self.blocks.push(Vec::with_capacity(size));
            self.block_bytes += size;
        }
        let at = self.blocks.len() - 1;
        let block = &mut self.blocks[at];
        let offset = block.len();
        block.extend_from_slice(bytes);
        (at as u32, offset as u32)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::make_view;

    use super::*;

    #[test]
    fn equal_texts_have_one_number() -> Result<()> {
        let text = |i: usize| format!("{}{i}", "ab".repeat(i % 12)).into_bytes();
        let mut codes = Codes::new();
        let all: Vec<_> = (0..20_000).map(text).collect();
        for _ in 0..2 {
            let mut numbers = Vec::new();
            codes.of_texts(all.iter().map(|bytes| (make_view(bytes, 3, 4), &bytes[..])), &mut numbers);
            assert_eq!(numbers, Vec::from_iter(0..20_000));
        }
        // Longer than a block; the first bytes and the length are those of another.
        for (i, last) in [b'x', b'y', b'x'].into_iter().enumerate() {
            let mut bytes = vec![b'z'; BLOCK_BYTES_MAX + 1];
            bytes[BLOCK_BYTES_MAX] = last;
            let mut number = Vec::new();
            codes.of_texts([(make_view(&bytes, 0, 0), &bytes[..])].into_iter(), &mut number);
            assert_eq!(number, [20_000 + i as u64 % 2]);
        }
        assert_eq!(codes.len(), 20_002);
        let texts = codes.into_bytes(&[19_999, 7, 20_001, 0])?;
        assert_eq!((texts.value(0), texts.value(1)), (&*text(19_999), &*text(7)));
        assert_eq!((texts.value(2).len(), texts.value(3)), (BLOCK_BYTES_MAX + 1, &b"0"[..]));
        Ok(())
    }

    /// Of so many texts some that lie elsewhere have half a hash with some that their views hold.
    #[test]
    fn texts_of_all_lengths_have_half_a_hash_in_common() {
        let mut codes = Codes::new();
        let all: Vec<_> =
            (0..600_000_u64).map(|i| format!("{}.{}", i * 7919, "x".repeat(i as usize % 12)).into_bytes()).collect();
        for _ in 0..2 {
            let mut numbers = Vec::new();
            codes.of_texts(all.iter().map(|bytes| (make_view(bytes, 0, 0), &bytes[..])), &mut numbers);
            assert!(numbers.into_iter().eq(0..600_000));
        }
    }

    #[test]
    fn wide_values_have_numbers() {
        let mut codes = Codes::new();
        let values = [0, 1, u128::MAX, 1 << 64, 1 << 127];
        let mut numbers = Vec::new();
        codes.of_values(values.into_iter().chain(values), &mut numbers);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
        assert_eq!(codes.value(3), 1 << 64);
    }
}
