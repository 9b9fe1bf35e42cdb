//! An allocator for tests that fills memory with what no program expects.
//!
//! Memory that was freed often still holds what it held, and new memory is often zero: then code that reads too late or
//! too early gives the right result by luck. With this allocator it does not:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: weld_runtime::Poison = weld_runtime::Poison;
//!
//! let new: Vec<u8> = Vec::with_capacity(100);
//! // SAFETY: a byte may have any value; the allocator has written this one.
//! assert_eq!(unsafe { new.as_ptr().read() }, weld_runtime::Poison::NEW);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, with memory filled before it is used and before it is freed. Growing always moves.
#[derive(Debug)]
pub struct Poison;

impl Poison {
    /// What new memory is filled with: a large negative number, a large address, a small float.
    pub const NEW: u8 = 0xb5;
    /// What freed memory is filled with.
    pub const FREED: u8 = 0xd7;
}

// SAFETY: memory comes from the system's allocator and goes back to it with the layout that it was asked for.
unsafe impl GlobalAlloc for Poison {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller's promise; new memory may be written.
        unsafe {
            let block = System.alloc(layout);
            if !block.is_null() {
                block.write_bytes(Poison::NEW, layout.size());
            }
            block
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by the caller's promise the block is of this layout and used no more. Behind `black_box` the compiler
        // does not see that what is written is freed.
        unsafe {
            block.write_bytes(Poison::FREED, layout.size());
            System.dealloc(std::hint::black_box(block), layout);
        }
    }
}
