//! Memory that is given out piece by piece and freed as a whole: the long strings and nested vectors of a table, and of
//! what appenders keep.
//!
//! ```text
//! let mut arena = Arena::new(pool);
//! let copy = arena.copy(b"a string that outlives its batch")?;
//! ```
//!
//! Pieces never move. Arenas can be joined, which moves no bytes: a combined table owns what its parts owned.

use std::sync::Arc;

use crate::abi::StringView;
use crate::dict_buffer::Buffer;
use crate::memory::{MemoryPool, OutOfMemory};

/// Bytes of the first block; each further one has twice as many, up to the largest.
const BLOCK_MIN: usize = 1 << 10;
const BLOCK_MAX: usize = 1 << 20;

/// Blocks from which pieces are given out.
#[derive(Debug)]
pub struct Arena {
    pool: ArenaPool,
    blocks: Vec<Buffer>,
    /// The free part of the last block.
    next: usize,
    end: usize,
    /// Replaceable pieces that are free, by their class: the address of the first of each, which has that of the next
    /// in it.
    free: Vec<*mut u8>,
}

// SAFETY: the free pieces lie in the blocks, which an arena owns.
unsafe impl Send for Arena {}
// SAFETY: a shared arena says how large it is, and no more.
unsafe impl Sync for Arena {}

struct ArenaPool(Arc<dyn MemoryPool>);

impl std::fmt::Debug for ArenaPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryPool")
    }
}

impl Arena {
    pub fn new(pool: Arc<dyn MemoryPool>) -> Arena {
        Arena { pool: ArenaPool(pool), blocks: Vec::new(), next: 0, end: 0, free: Vec::new() }
    }

    /// `bytes` bytes that are anything, at an address divisible by `align` (a power of two, at most 16).
    pub fn alloc(&mut self, bytes: usize, align: usize) -> Result<*mut u8, OutOfMemory> {
        debug_assert!(align.is_power_of_two() && align <= 16, "the ABI knows no larger alignment");
        if bytes == 0 {
            return Ok(std::ptr::dangling_mut::<u128>().cast());
        }
        let start = self.next.next_multiple_of(align);
        match self.blocks.last() {
            Some(block) if start.checked_add(bytes).is_some_and(|end| end <= self.end) => {
                self.next = start + bytes;
                Ok(block.as_ptr().with_addr(start))
            }
            _ => self.alloc_in_new_block(bytes),
        }
    }

    pub fn copy(&mut self, bytes: &[u8]) -> Result<*mut u8, OutOfMemory> {
        let copy = self.alloc(bytes.len(), 1)?;
        // SAFETY: `copy` is `bytes.len()` bytes of this arena that nobody else has.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
        Ok(copy)
    }

    /// A copy of `bytes` in the place of what this function gave before, or null; null if they lie inside their view.
    /// The memory that pieces take follows from the largest of each place, not from how often they are replaced: they
    /// are of a few sizes, a large enough one is written over, and one that is too small is given to the next that it
    /// fits.
    ///
    /// # Safety
    /// `old` is null, or came from this arena's or a joined one's `replace` and is used no more.
    pub unsafe fn replace(&mut self, old: *mut u8, bytes: &[u8]) -> Result<*mut u8, OutOfMemory> {
        let class = class_of(bytes.len());
        // SAFETY: by the caller's promise there is the class before a piece; pieces of a class have room for so many
        // bytes.
        unsafe {
            let old_class = if old.is_null() { 0 } else { old.sub(CLASS_BYTES).cast::<u64>().read() as usize };
            if bytes.len() <= StringView::INLINE_MAX {
                self.give_back(old, old_class);
                return Ok(std::ptr::null_mut());
            }
            if old_class >= class {
                std::ptr::copy(bytes.as_ptr(), old, bytes.len());
                return Ok(old);
            }
            let new = match self.free.get_mut(class) {
                Some(free) if !free.is_null() => {
                    let first = *free;
                    *free = first.cast::<*mut u8>().read();
                    first
                }
                _ => {
                    let piece = self.alloc(CLASS_BYTES + class_bytes(class), CLASS_BYTES)?;
                    piece.cast::<u64>().write(class as u64);
                    piece.add(CLASS_BYTES)
                }
            };
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), new, bytes.len());
            self.give_back(old, old_class);
            Ok(new)
        }
    }

    /// # Safety
    /// The piece, if it is not null, is of this class and used no more.
    unsafe fn give_back(&mut self, piece: *mut u8, class: usize) {
        if piece.is_null() {
            return;
        }
        if self.free.len() <= class {
            self.free.resize(class + 1, std::ptr::null_mut());
        }
        // SAFETY: by the caller's promise; every class has room for a pointer, and pieces lie at multiples of eight.
        unsafe { piece.cast::<*mut u8>().write(self.free[class]) };
        self.free[class] = piece;
    }

    /// Takes over everything that `other` owns; its pieces stay where they are.
    pub fn join(&mut self, mut other: Arena) {
        // The free pieces of a class are one list or the other; what is left out is free again with the arena.
        for (class, piece) in other.free.drain(..).enumerate() {
            if self.free.len() <= class {
                self.free.push(piece);
            } else if self.free[class].is_null() {
                self.free[class] = piece;
            }
        }
        // In front, so that the last block stays the one with room.
        self.blocks.splice(0..0, other.blocks);
        if self.blocks.last().is_none_or(|last| self.end != last.as_ptr().addr() + last.len()) {
            (self.next, self.end) = (0, 0);
        }
    }

    /// Memory held, given out or not.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(Buffer::len).sum()
    }

    #[cold]
    fn alloc_in_new_block(&mut self, bytes: usize) -> Result<*mut u8, OutOfMemory> {
        let usual = self.blocks.last().map_or(BLOCK_MIN, |last| (2 * last.len()).clamp(BLOCK_MIN, BLOCK_MAX));
        // Near the limit, no more than is asked for.
        let block = Buffer::unset(bytes.max(usual), self.pool.0.clone())
            .or_else(|OutOfMemory| Buffer::unset(bytes, self.pool.0.clone()))?;
        let piece = block.as_ptr();
        if bytes > BLOCK_MAX / 4 && !self.blocks.is_empty() {
            // A large piece has a block to itself, and the room in the last block is not lost.
            let before_last = self.blocks.len() - 1;
            self.blocks.insert(before_last, block);
        } else {
            (self.next, self.end) = (piece.addr() + bytes, piece.addr() + block.len());
            self.blocks.push(block);
        }
        Ok(piece)
    }
}

/// Before a replaceable piece stands its class.
const CLASS_BYTES: usize = 8;

/// How many bytes a piece of that class has room for.
fn class_bytes(class: usize) -> usize {
    8 << class
}

/// The smallest class with room for so many bytes; the first one is 1.
fn class_of(bytes: usize) -> usize {
    bytes.max(16).next_power_of_two().trailing_zeros() as usize - 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Limit;

    #[test]
    fn pieces_that_are_replaced_take_no_more_memory_than_the_largest() {
        let pool = Arc::new(Limit::none());
        let mut arena = Arena::new(pool.clone());
        let mut places: Vec<(*mut u8, Vec<u8>)> = vec![(std::ptr::null_mut(), Vec::new()); 20];
        for i in 0..20_000usize {
            let (place, expected) = &mut places[i % 20];
            *expected = vec![i as u8; [13, 900, 40, 17, 0, 13, 300][i % 7]];
            // SAFETY: the place has what the last call gave.
            *place = unsafe { arena.replace(*place, expected) }.unwrap();
            assert_eq!(place.is_null(), expected.is_empty());
            for (place, expected) in places.iter().filter(|(place, _)| !place.is_null()) {
                // SAFETY: the arena has so many bytes there.
                assert_eq!(unsafe { std::slice::from_raw_parts(*place, expected.len()) }, expected);
            }
        }
        assert!(arena.bytes() < 20 * 4 * 1024, "{}", arena.bytes());
        let mut other = Arena::new(pool.clone());
        // SAFETY: new pieces.
        let taken = unsafe { other.replace(std::ptr::null_mut(), &[7; 100]).unwrap() };
        // SAFETY: as above; the piece is used no more.
        let larger = unsafe { other.replace(taken, &[8; 200]).unwrap() };
        arena.join(other);
        // SAFETY: what the joined arena gave.
        unsafe { arena.replace(larger, &[9; 5000]).unwrap() };
        assert_eq!(arena.bytes(), pool.used());
        drop(arena);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn pieces_are_disjoint_aligned_and_outlive_a_join() {
        let pool = Arc::new(Limit::none());
        let mut arenas = [Arena::new(pool.clone()), Arena::new(pool.clone())];
        let mut pieces: Vec<(*mut u8, usize, u8)> = Vec::new();
        for i in 0..2000usize {
            let size = if i % 500 == 3 { 400_000 } else { i * 7 % 300 };
            let align = 1 << (i % 5);
            let piece = arenas[i % 2].alloc(size, align).unwrap();
            assert_eq!(piece.addr() % align, 0);
            // SAFETY: a fresh piece of `size` bytes.
            unsafe { piece.write_bytes(i as u8, size) };
            pieces.push((piece, size, i as u8));
        }
        let [mut first, second] = arenas;
        first.join(second);
        assert_eq!(first.copy(b"more").map(|p| p.is_null()), Ok(false));
        for (piece, size, byte) in pieces {
            // SAFETY: pieces live as long as the arena that took them over.
            assert!(unsafe { std::slice::from_raw_parts(piece, size) }.iter().all(|b| *b == byte));
        }
        assert_eq!(first.bytes(), pool.used());
        drop(first);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn an_empty_arena_can_take_a_full_one_and_go_on() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Limit::none());
        let mut full = Arena::new(pool.clone());
        let kept = full.copy(b"kept").unwrap();
        let mut empty = Arena::new(pool);
        empty.join(full);
        let more = empty.copy(b"more").unwrap();
        // SAFETY: both are four bytes of the arena.
        let (kept, more) = unsafe { (std::slice::from_raw_parts(kept, 4), std::slice::from_raw_parts(more, 4)) };
        assert_eq!((kept, more), (&b"kept"[..], &b"more"[..]));
    }

    #[test]
    fn the_limit_holds() {
        let mut arena = Arena::new(Arc::new(Limit::new(10_000)));
        assert!(arena.copy(&[0; 5000]).is_ok());
        assert_eq!(arena.copy(&[0; 9000]), Err(OutOfMemory));
        assert!(arena.copy(&[0; 500]).is_ok());
    }
}
