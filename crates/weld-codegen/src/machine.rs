//! The machine that code is made for, as far as decisions about code depend on it. Plans of loops take sizes of caches
//! and of vectors from here.
//!
//! Sizes are those of the processors that servers have, and the smaller where they differ: a strip that is too short
//! costs a per cent, one that leaves the cache half of the time.

/// Facts about a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Machine {
    /// Whether there is an instruction that moves the selected lanes of a vector together (AVX-512).
    pub(crate) can_compress: bool,
    /// Whether a product and a sum are one instruction, with one rounding.
    pub(crate) can_fuse: bool,
    /// What that instruction moves.
    pub(crate) vector_bytes: u32,
    pub(crate) cache_line_bytes: u32,
    /// The first-level data cache.
    pub(crate) l1_bytes: u32,
    /// A core's second-level cache, or what of it is left for one table.
    pub(crate) l2_bytes: u32,
}

impl Machine {
    pub(crate) fn new(can_compress: bool, can_fuse: bool) -> Machine {
        let (l1_bytes, l2_bytes) = (32 << 10, 512 << 10);
        Machine { can_compress, can_fuse, vector_bytes: 64, cache_line_bytes: 64, l1_bytes, l2_bytes }
    }

    /// How many keys of a table are hashed before it is asked for them: the lines of their slots and rows take half of
    /// the first-level cache.
    pub(crate) fn keys_ahead(&self) -> u32 {
        self.l1_bytes / (4 * self.cache_line_bytes)
    }
}
