//! Raw memory of tables: zeroed when new, unless that is not needed, accounted.
//!
//! ```text
//! let mut rows = Buffer::new(pool);
//! rows.grow(64)?;          // 64 zero bytes
//! rows.grow(1 << 30)?;     // the same 64 bytes, more zeros behind them
//! ```
//!
//! It comes from the process's allocator, which may have pages that were in use before. The system clears those that it
//! gives, which can take longer than what is done with them: with tables of 32 MiB and more mapped for each run, of a
//! query with a group a row 40 % of the processor time was that.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::memory::{MemoryPool, OutOfMemory};

/// For buffers of this size and more, huge pages are asked for: without them, a random access into a large table misses
/// the TLB as well as the cache.
const LARGE_MIN: usize = 32 << 20;
const HUGE_PAGE: usize = 2 << 20;
/// Enough for a cache line never to be split by the 16-byte values that tables hold.
const ALIGN: usize = 64;

/// Owned bytes. Dropping gives them back to the system and to the pool.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    pool: Arc<dyn MemoryPool>,
}

// SAFETY: a buffer owns its bytes as a `Vec<u8>` does; the pool is shared and `Sync`.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` gives out a pointer and a size, nothing that writes.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Without any memory yet.
    pub(crate) fn new(pool: Arc<dyn MemoryPool>) -> Buffer {
        Buffer { start: NonNull::<u64>::dangling().cast(), bytes: 0, pool }
    }

    pub(crate) fn zeroed(bytes: usize, pool: Arc<dyn MemoryPool>) -> Result<Buffer, OutOfMemory> {
        let mut buffer = Buffer::new(pool);
        buffer.grow(bytes)?;
        Ok(buffer)
    }

    /// Bytes that are anything.
    pub(crate) fn unset(bytes: usize, pool: Arc<dyn MemoryPool>) -> Result<Buffer, OutOfMemory> {
        let mut buffer = Buffer::new(pool);
        buffer.extend(bytes)?;
        Ok(buffer)
    }

    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The capacity: all of it may be written, and read where it was.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) fn pool(&self) -> &Arc<dyn MemoryPool> {
        &self.pool
    }

    /// Makes the buffer at least `bytes` long. What was in it stays, what is new is zero; it may move.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        self.resize(bytes, true)
    }

    /// The same, but what is new is anything: for what is written before it is read. Pages that are never used are
    /// never touched.
    pub(crate) fn extend(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        self.resize(bytes, false)
    }

    fn resize(&mut self, bytes: usize, zero: bool) -> Result<(), OutOfMemory> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let bytes = round_up(bytes)?;
        if !self.pool.try_grow(bytes - self.bytes) {
            return Err(OutOfMemory);
        }
        match resize_memory(self.start, self.bytes, bytes, zero) {
            Some(start) => {
                self.start = start;
                self.bytes = bytes;
                Ok(())
            }
            None => {
                self.pool.shrink(bytes - self.bytes);
                Err(OutOfMemory)
            }
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            free_memory(self.start, self.bytes);
            self.pool.shrink(self.bytes);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}

fn round_up(bytes: usize) -> Result<usize, OutOfMemory> {
    let unit = if bytes >= LARGE_MIN { HUGE_PAGE } else { ALIGN };
    bytes.checked_next_multiple_of(unit).filter(|b| *b <= isize::MAX as usize).ok_or(OutOfMemory)
}

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes, ALIGN).ok()
}

/// Makes `old` bytes at `start` into `new` bytes, the added ones zero if they have to be. `old` is zero for the first
/// allocation.
fn resize_memory(start: NonNull<u8>, old: usize, new: usize, zero: bool) -> Option<NonNull<u8>> {
    let wanted = layout(new)?;
    if old == 0 {
        // SAFETY: `new` is not zero, as it is larger than `old`.
        let start = NonNull::new(unsafe { if zero { alloc_zeroed(wanted) } else { alloc(wanted) } })?;
        advise_huge_pages(start, new);
        return Some(start);
    }
    // SAFETY: the block was allocated here with the layout of `old`; `new` is larger and a valid size.
    let moved = NonNull::new(unsafe { realloc(start.as_ptr(), layout(old)?, wanted.size()) })?;
    advise_huge_pages(moved, new);
    if zero {
        // SAFETY: the block now has `new` bytes; those from `old` on are written for the first time.
        unsafe { moved.as_ptr().add(old).write_bytes(0, new - old) };
    }
    Some(moved)
}

/// Asks for huge pages in a block, if it is large.
fn advise_huge_pages(start: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= LARGE_MIN {
        let skipped = start.as_ptr().align_offset(HUGE_PAGE);
        let inside = bytes.saturating_sub(skipped) / HUGE_PAGE * HUGE_PAGE;
        // SAFETY: whole pages of the block. Advice changes nothing that is read, and may be refused.
        unsafe { libc::madvise(start.as_ptr().wrapping_add(skipped).cast(), inside, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

fn free_memory(start: NonNull<u8>, bytes: usize) {
    if let (true, Some(layout)) = (bytes > 0, layout(bytes)) {
        // SAFETY: the block was allocated by `resize_memory` with this layout.
        unsafe { dealloc(start.as_ptr(), layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Limit;

    #[test]
    fn grows_across_the_threshold_and_keeps_what_was_there() {
        let pool = Arc::new(Limit::none());
        let mut buffer = Buffer::new(pool.clone());
        let mut filled = 0;
        for size in [1usize, 100, 5000, LARGE_MIN - 64, LARGE_MIN, 3 * LARGE_MIN, 9 * LARGE_MIN + 1] {
            buffer.grow(size).unwrap();
            assert!(buffer.len() >= size && pool.used() == buffer.len());
            // SAFETY: the buffer has `len` initialised bytes.
            let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr(), buffer.len()) };
            assert!(bytes[..filled].iter().enumerate().all(|(i, b)| *b == (i % 251) as u8 + 1));
            assert!(bytes[filled..].iter().all(|b| *b == 0));
            bytes.iter_mut().enumerate().for_each(|(i, b)| *b = (i % 251) as u8 + 1);
            filled = bytes.len();
        }
        drop(buffer);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_refusal_leaves_the_buffer_as_it_was() {
        let mut buffer = Buffer::zeroed(128, Arc::new(Limit::new(1000))).unwrap();
        assert_eq!(buffer.grow(2000), Err(OutOfMemory));
        assert_eq!(buffer.grow(usize::MAX), Err(OutOfMemory));
        assert_eq!(buffer.len(), 128);
    }
}
