//! Memory of vectors and builders: what compiled code calls to get blocks and give them back.

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

/// A size that no allocator grants stands for one that does not fit.
fn clamp(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
