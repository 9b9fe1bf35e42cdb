//! Memory of vectors and builders: what compiled code calls to get blocks and give them back.

use crate::dict_abi::or_null;
use crate::run::{Region, Run};

/// The region of that number.
///
/// # Safety
/// `run` is valid.
pub unsafe extern "C" fn region(run: *mut Run, index: u64) -> *mut Region {
    // SAFETY: by the caller's promise.
    unsafe { (*run).region(index as usize) }
}

/// Frees all blocks of a region.
///
/// # Safety
/// `run` is valid and owns `region`, whose blocks are not used again.
pub unsafe extern "C" fn region_clear(run: *mut Run, region: *mut Region) {
    // SAFETY: by the caller's promise.
    unsafe { (*run).clear(region) }
}

/// A new block, or null after a failure noted in the run.
///
/// # Safety
/// `run` is valid and owns `region`.
pub unsafe extern "C" fn allocate(run: *mut Run, region: *mut Region, bytes: u64) -> *mut u8 {
    // SAFETY: by the caller's promise.
    unsafe { (*run).allocate_in(region, clamp(bytes)) }
}

/// Memory that stays until the region is cleared, at an address divisible by `align`, or null after a failure noted in the
/// run.
///
/// # Safety
/// `run` is valid and owns `region`.
pub unsafe extern "C" fn piece(run: *mut Run, region: *mut Region, bytes: u64, align: u64) -> *mut u8 {
    // SAFETY: by the caller's promise.
    unsafe {
        let arena = (*run).arena_of(region);
        if arena.is_null() { std::ptr::null_mut() } else { or_null(run, (*arena).alloc(clamp(bytes), clamp(align))) }
    }
}

/// A block of `bytes` that starts with the bytes of `block` (null: none), which is used no more. Null after a failure
/// noted in the run; the block is then as before.
///
/// # Safety
/// `run` is valid, owns `region`, and `block` is null or one of its blocks.
pub unsafe extern "C" fn resize(run: *mut Run, region: *mut Region, block: *mut u8, bytes: u64) -> *mut u8 {
    // SAFETY: by the caller's promise.
    unsafe {
        if block.is_null() { (*run).allocate_in(region, clamp(bytes)) } else { (*run).resize(block, clamp(bytes)) }
    }
}

/// Frees a block; null is nothing.
///
/// # Safety
/// `run` is valid, `block` is null or one of its blocks and not used again.
pub unsafe extern "C" fn free(run: *mut Run, block: *mut u8) {
    if !block.is_null() {
        // SAFETY: by the caller's promise.
        unsafe { (*run).free(block) }
    }
}

/// Gives the columns of an appender, which hold `capacity` elements, room for at least `needed`, and at first for as
/// many as are expected in the region. Returns the new capacity, or 0 after a failure noted in the run; columns that
/// have moved by then are in place.
///
/// # Safety
/// `run` is valid and owns `region`; `columns` and `sizes` have `count` entries; each column is null or a block of the
/// run.
pub unsafe extern "C" fn grow(
    run: *mut Run,
    region: *mut Region,
    columns: *mut *mut u8,
    sizes: *const u32,
    count: u32,
    capacity: u64,
    needed: u64,
) -> u64 {
    /// The first elements take this many bytes.
    const FIRST_BYTES: u64 = 64;
    // SAFETY: by the caller's promise.
    let (columns, sizes) = unsafe {
        (std::slice::from_raw_parts_mut(columns, count as usize), std::slice::from_raw_parts(sizes, count as usize))
    };
    let first = FIRST_BYTES / u64::from(sizes.iter().copied().max().unwrap_or(1).max(1));
    // SAFETY: by the caller's promise.
    let expected = if capacity == 0 { unsafe { (*region).expected_len } } else { 0 };
    let wanted = needed.max(capacity.saturating_mul(2)).max(first).max(expected);
    for (column, &size) in columns.iter_mut().zip(sizes) {
        let bytes = wanted.saturating_mul(u64::from(size));
        // SAFETY: by the caller's promise.
        let grown = unsafe { resize(run, region, *column, bytes) };
        if grown.is_null() {
            return 0;
        }
        *column = grown;
    }
    wanted
}

/// A size that no allocator grants stands for one that does not fit.
fn clamp(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
