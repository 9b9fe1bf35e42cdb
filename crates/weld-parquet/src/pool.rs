//! Buffers that come back: a page's or a batch's memory returns to the pool when the last Arrow
//! array over it is dropped, so that a scan touches the same few pages of memory over and over.
//!
//! ```
//! use weld_parquet::BufferPool;
//! let pool = BufferPool::new(1 << 20);
//! let block = pool.take(1000);
//! drop(block);
//! assert!(pool.held() >= 1000);
//! ```
//!
//! Fresh memory is the dominant cost of decoding otherwise: page faults were 40 % of a scan.

use std::fmt;
use std::sync::{Arc, Mutex};

use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::datatypes::ArrowNativeType;
use bytes::Bytes;

/// Every block starts on a cache line, which also satisfies any Arrow type.
const ALIGN: usize = 64;

/// Free blocks, by size class.
pub struct BufferPool {
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    /// Index: size class. Each vector is fully initialised: its length is its capacity class.
    classes: Vec<Vec<Vec<u8>>>,
    held: usize,
    held_max: usize,
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").field("held", &self.held()).finish_non_exhaustive()
    }
}

impl BufferPool {
    /// A pool that keeps at most `held_max` bytes that nobody uses.
    pub fn new(held_max: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(Free { held_max, ..Free::default() }) })
    }

    /// Changes how many bytes it keeps; what it holds already stays.
    pub fn keep(&self, held_max: usize) {
        self.lock().held_max = held_max;
    }

    /// Bytes waiting for reuse.
    pub fn held(&self) -> usize {
        self.lock().held
    }

    /// A block of `len` bytes: initialised, with unspecified content.
    pub fn take(self: &Arc<Self>, len: usize) -> Block {
        let (class, size) = size_class(len + ALIGN);
        let recycled = {
            let mut free = self.lock();
            let vec = free.classes.get_mut(class).and_then(Vec::pop);
            if vec.is_some() {
                free.held -= size;
            }
            vec
        };
        let vec = recycled.unwrap_or_else(|| vec![0; size]);
        let start = vec.as_ptr().align_offset(ALIGN);
        debug_assert!(start < ALIGN && start + len <= vec.len());
        Block { vec, start, len, pool: Arc::clone(self) }
    }

    fn give(&self, vec: Vec<u8>) {
        let (class, size) = size_class(vec.len());
        let mut free = self.lock();
        // A foreign length (never handed out by `take`) would break the class invariant.
        if size != vec.len() || free.held + size > free.held_max {
            return;
        }
        free.held += size;
        if free.classes.len() <= class {
            free.classes.resize_with(class + 1, Vec::new);
        }
        free.classes[class].push(vec);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Free> {
        // The lock is never held while anything can panic; a poisoned pool is still consistent.
        self.free.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Four classes for each power of two from 4 KiB, so that at most a fifth is wasted.
fn size_class(len: usize) -> (usize, usize) {
    const SMALLEST: u32 = 12;
    if len <= 1 << SMALLEST {
        return (0, 1 << SMALLEST);
    }
    let exponent = (len - 1).ilog2();
    let quarter = 1usize << (exponent - 2);
    let steps = (len - (1 << exponent)).div_ceil(quarter);
    let class = (exponent - SMALLEST) as usize * 4 + steps;
    (class, (1 << exponent) + steps * quarter)
}

/// Memory on loan from a [`BufferPool`]; dropping it, or the last Arrow buffer made of it, gives
/// it back.
pub struct Block {
    vec: Vec<u8>,
    start: usize,
    len: usize,
    pool: Arc<BufferPool>,
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("len", &self.len).finish()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.vec));
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.vec[self.start..self.start + self.len]
    }
}

impl AsMut<[u8]> for Block {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.vec[self.start..self.start + self.len]
    }
}

impl Block {
    /// Shortens the block; its memory stays on loan.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The block as elements of a plain number type.
    pub fn as_mut_slice<T: Plain>(&mut self) -> &mut [T] {
        let bytes = self.as_mut();
        let len = bytes.len() / size_of::<T>();
        assert!(bytes.as_ptr().cast::<T>().is_aligned());
        // SAFETY: aligned (checked above; blocks start on 64 bytes), `len` elements lie within
        // the slice, every bit pattern is a `Plain`, and the borrow of `self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) }
    }

    /// The block as elements of a plain number type.
    pub fn as_slice<T: Plain>(&self) -> &[T] {
        let bytes = self.as_ref();
        let len = bytes.len() / size_of::<T>();
        assert!(bytes.as_ptr().cast::<T>().is_aligned());
        // SAFETY: as in `as_mut_slice`, with a shared borrow.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), len) }
    }

    /// The block as shared bytes; it goes back to the pool with the last of them.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }

    pub(crate) fn into_buffer(self) -> Buffer {
        Buffer::from(self.into_bytes())
    }

    /// An Arrow buffer of exactly `len` elements.
    pub(crate) fn into_scalars<T: ArrowNativeType>(self, len: usize) -> ScalarBuffer<T> {
        ScalarBuffer::new(self.into_buffer(), 0, len)
    }
}

/// Number types for which any bytes are a value.
///
/// # Safety
/// Implementers have no padding and no invalid bit patterns.
pub unsafe trait Plain: Copy + Default + PartialEq + fmt::Debug + 'static {}

// SAFETY: integers have neither padding nor invalid patterns.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for u128 {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_and_waste_little() {
        for len in (1..100_000).chain([1 << 20, (1 << 20) + 1, 3 << 29]) {
            let (class, size) = size_class(len);
            assert!(size >= len);
            assert!(len <= 4096 || size as f64 <= len as f64 * 1.251);
            assert_eq!(size_class(size), (class, size), "{len}");
        }
    }

    #[test]
    fn memory_comes_back_and_is_bounded() {
        let pool = BufferPool::new(10_000);
        let mut a = pool.take(4000);
        let address = a.as_ref().as_ptr();
        a.as_mut_slice::<u64>().fill(7);
        let buffer = a.into_buffer();
        let clone = buffer.clone();
        drop(buffer);
        assert_eq!(pool.held(), 0);
        drop(clone);
        assert!(pool.held() >= 4000);
        assert_eq!(pool.take(3990).as_ref().as_ptr(), address);
        drop(pool.take(1 << 20));
        assert!(pool.held() <= 10_000);
    }
}
