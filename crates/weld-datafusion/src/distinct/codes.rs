//! Numbers for texts and other values of more than a word, so that sets hold integers.

use std::sync::Arc;

use arrow::array::BinaryViewArray;
use arrow::buffer::{Buffer, ScalarBuffer};
use datafusion::common::Result;
use weld_runtime::hash::{hash_long_bytes, hash_words};

/// Texts of at most so many bytes are in their view.
const INLINE_BYTES: u32 = 12;

const SLOTS_MIN: usize = 1 << 10;

/// How large the first block of bytes is, and blocks become.
const BLOCK_BYTES_MIN: usize = 16 << 10;
const BLOCK_BYTES_MAX: usize = 2 << 20;

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

    /// Texts with these numbers.
    pub(super) fn into_texts(self, codes: &[u64]) -> Result<BinaryViewArray> {
        let views: ScalarBuffer<u128> = codes.iter().map(|code| self.value(*code)).collect();
        let blocks: Arc<[Buffer]> = self.blocks.into_iter().map(Buffer::from_vec).collect();
        Ok(BinaryViewArray::try_new(views, blocks, None)?)
    }

    /// The value with this number.
    pub(super) fn value(&self, code: u64) -> u128 {
        self.values[code as usize]
    }

    /// The number of a value that 128 bits hold.
    pub(super) fn of_value(&mut self, value: u128) -> u64 {
        let hash = hash_words(&[value as u64, (value >> 64) as u64]);
        self.reserve();
        match self.find(hash, |_, held| held == value) {
            Ok(code) => code,
            Err(slot) => self.insert(slot, hash, value),
        }
    }

    /// The number of a text that its view holds, or of `long` bytes, of which the view has the number and the first.
    pub(super) fn of_text<'b>(&mut self, view: u128, long: impl FnOnce() -> &'b [u8]) -> u64 {
        if view as u32 <= INLINE_BYTES { self.of_value(view) } else { self.of_long_text(view, long()) }
    }

    fn of_long_text(&mut self, view: u128, bytes: &[u8]) -> u64 {
        let start = view as u64;
        let hash = hash_words(&[start, hash_long_bytes(bytes)]);
        self.reserve();
        match self.find(hash, |codes, held| held as u64 == start && codes.long_text(held) == bytes) {
            Ok(code) => code,
            Err(slot) => {
                let (block, offset) = self.keep(bytes);
                let view = u128::from(start) | u128::from(block) << 64 | u128::from(offset) << 96;
                self.insert(slot, hash, view)
            }
        }
    }

    fn find(&self, hash: u64, is_equal: impl Fn(&Codes, u128) -> bool) -> std::result::Result<u64, usize> {
        let mut slot = self.slot(hash);
        loop {
            let held = self.slots[slot];
            if held == 0 {
                return Err(slot);
            }
            let code = (held & u64::from(u32::MAX)) - 1;
            if held >> 32 == hash >> 32 && is_equal(self, self.values[code as usize]) {
                return Ok(code);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
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

    /// Makes room for a value.
    fn reserve(&mut self) {
        if self.values.len() * 2 >= self.slots.len() {
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
        for _ in 0..2 {
            for i in 0..20_000 {
                let bytes = text(i);
                assert_eq!(codes.of_text(make_view(&bytes, 3, 4), || &bytes), i as u64);
            }
        }
        // Longer than a block; the first bytes and the length are those of another.
        for (i, last) in [b'x', b'y', b'x'].into_iter().enumerate() {
            let mut bytes = vec![b'z'; BLOCK_BYTES_MAX + 1];
            bytes[BLOCK_BYTES_MAX] = last;
            assert_eq!(codes.of_text(make_view(&bytes, 0, 0), || &bytes), 20_000 + i as u64 % 2);
        }
        assert_eq!(codes.len(), 20_002);
        let texts = codes.into_texts(&[19_999, 7, 20_001, 0])?;
        assert_eq!((texts.value(0), texts.value(1)), (&*text(19_999), &*text(7)));
        assert_eq!((texts.value(2).len(), texts.value(3)), (BLOCK_BYTES_MAX + 1, &b"0"[..]));
        Ok(())
    }

    #[test]
    fn wide_values_have_numbers() {
        let mut codes = Codes::new();
        let values = [0, 1, u128::MAX, 1 << 64, 1 << 127];
        for (i, value) in values.iter().chain(&values).enumerate() {
            assert_eq!(codes.of_value(*value), (i % values.len()) as u64);
        }
        assert_eq!(codes.value(3), 1 << 64);
    }
}
