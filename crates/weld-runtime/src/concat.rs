//! Appenders that the ranges of a loop have filled, put one behind the other.
//!
//! There is room made once for all of them, and the threads of the loop copy pieces side by side:
//!
//! ```text
//! range 0  [a b c . . . . . . . . ]      the loop's own, grown to hold all
//! range 1  [d e]            \
//! range 2  [f g h]           | copied to places that follow from the lengths
//! range 3  [i j]            /
//! ```

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::run::{Region, Run};
use crate::vector;

/// An appender among a loop's builders: length, capacity, then the columns.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Appender {
    /// Where its state begins in the state of the loop, in bytes.
    pub offset: u64,
    pub columns: u64,
    /// How large an element is in each column.
    pub sizes: *const u32,
}

impl Appender {
    /// All fields are words, in the order above.
    pub const WORDS: usize = 3;
}

/// What one thread copies at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes on their way to another place.
struct Copy {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

// SAFETY: a copy only names bytes, which nobody else has until it is done.
unsafe impl Sync for Copy {}

/// The state of an appender in memory.
#[derive(Clone, Copy)]
struct State(*mut u8);

impl State {
    /// # Safety
    /// The state is valid.
    unsafe fn len(self) -> u64 {
        // SAFETY: by the caller's promise.
        unsafe { self.0.cast::<u64>().read() }
    }

    /// The addresses of the columns lie behind length and capacity.
    fn columns(self) -> *mut *mut u8 {
        self.0.wrapping_add(16).cast()
    }
}

impl Appender {
    /// Makes room in the appender at `state` for what those at `others` hold; false, with a failure noted, if there is
    /// no memory. Nothing else has changed then.
    ///
    /// # Safety
    /// All states are valid; the first one's columns are blocks of the run, which owns the region.
    pub(crate) unsafe fn reserve(
        &self,
        run: *mut Run,
        region: *mut Region,
        state: *mut u8,
        others: &[*mut u8],
    ) -> bool {
        // SAFETY: by the caller's promise.
        unsafe {
            let more = others.iter().fold(0u64, |sum, other| sum.saturating_add(self.state(*other).len()));
            let own = self.state(state);
            let capacity = own.0.cast::<u64>().add(1);
            let needed = own.len().saturating_add(more);
            if needed <= *capacity {
                return true;
            }
            let grown = vector::grow(run, region, own.columns(), self.sizes, self.columns as u32, *capacity, needed);
            if grown != 0 {
                *capacity = grown;
            }
            grown != 0
        }
    }

    fn state(&self, state: *mut u8) -> State {
        State(state.wrapping_add(self.offset as usize))
    }
}

/// Appends what the appenders at `others` hold to those at `state`, which have room for it, and frees their columns.
/// `work_on` calls a function on some threads and waits for them.
///
/// # Safety
/// All states are valid; the columns of the others are blocks of the run.
pub(crate) unsafe fn append_all(
    run: *mut Run,
    appenders: &[Appender],
    state: *mut u8,
    others: &[*mut u8],
    work_on: impl FnOnce(&(dyn Fn() + Sync)),
) {
    let mut copies = Vec::new();
    let mut freed = Vec::new();
    for appender in appenders {
        let own = appender.state(state);
        for other in others {
            let other = appender.state(*other);
            // SAFETY: by the caller's promise; there is room behind the first `len` elements.
            unsafe {
                let (len, more) = (own.len(), other.len());
                for column in 0..appender.columns as usize {
                    let size = *appender.sizes.add(column) as usize;
                    let from = *other.columns().add(column);
                    let to = (*own.columns().add(column)).wrapping_add(len as usize * size);
                    cut(&mut copies, Copy { from, to, bytes: more as usize * size });
                    freed.push(from);
                }
                own.0.cast::<u64>().write(len + more);
            }
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(copy) = copies.get(next.fetch_add(1, Ordering::Relaxed)) {
            // SAFETY: each copy is taken once; its bytes are there, and so is the room for them.
            unsafe { std::ptr::copy_nonoverlapping(copy.from, copy.to, copy.bytes) };
        }
    };
    if copies.iter().map(|copy| copy.bytes).sum::<usize>() > PIECE_BYTES {
        work_on(&work)
    } else {
        work()
    }
    // SAFETY: by the caller's promise, and nobody reads the others again.
    freed.into_iter().for_each(|block| unsafe { vector::free(run, block) });
}

/// Adds a copy in pieces.
fn cut(copies: &mut Vec<Copy>, copy: Copy) {
    for at in (0..copy.bytes).step_by(PIECE_BYTES) {
        let bytes = PIECE_BYTES.min(copy.bytes - at);
        copies.push(Copy { from: copy.from.wrapping_add(at), to: copy.to.wrapping_add(at), bytes });
    }
}
