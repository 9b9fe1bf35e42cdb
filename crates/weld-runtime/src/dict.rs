//! The dictionary: rows in order of insertion, and a directory that finds the row of a key.
//!
//! ```text
//! directory    0: ....      rows  0: zero key, zero value     <- what a miss reads
//! (hash, row)  1: 93a1, 2         1: "N" "O"   1483  ...
//!              2: ....            2: "R" "F"   9771  ...
//!              3: c07e, 1
//! ```
//!
//! **Hashed** tables have a directory of 8-byte slots: the upper half is the key's hash, the lower one the number of
//! its row, and zero means that the slot is free. A key's home is the upper bits of its hash, collisions go to the next
//! slot. So slots are ordered by hash, but for collisions: growing reads and writes them in order and never looks at a
//! row. Rows are dense, `key` then `value` in row form; row 0 stays zero, so that a miss needs no branch to read the
//! zero value.
//!
//! **Dense** tables are made from `groupbuilder`s whose keys are integers close together. Their directory is a bitmap
//! with ranks: each 8-byte word has 32 bits, one for each key from `min` on, and the number of bits before it. A key's
//! group is the number of bits before its own. The word answers membership as well, exactly, in a 32nd of the memory
//! that slots would take.
//!
//! **Grouped** tables (`dict[K,vec[V]]`) keep the values of all groups in columns, one group after the other. Where a
//! hashed row has its value, theirs have the `u32` number of its first value; the group ends where the next row's
//! begins. A dense table has the same numbers in `starts`, or none when every group has one value: group n is value n.
//!
//! Once built, a table is immutable and shared by threads.

use std::sync::{Arc, OnceLock};

use crate::arena::Arena;
use crate::dict_buffer::Buffer;
use crate::dict_codes::CodeRows;
use crate::memory::{MemoryPool, OutOfMemory};

/// Why a table could not be built or extended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DictError {
    OutOfMemory,
    /// More rows than a table can number.
    TooManyRows,
}

impl From<OutOfMemory> for DictError {
    fn from(_: OutOfMemory) -> DictError {
        DictError::OutOfMemory
    }
}

impl std::fmt::Display for DictError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DictError::OutOfMemory => "the run's memory limit is reached",
            DictError::TooManyRows => "a dictionary cannot hold more than 4294967293 entries or grouped values",
        })
    }
}

impl std::error::Error for DictError {}

/// How a table finds a key. Compiled code compares the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum DictKind {
    Hashed = 0,
    Dense = 1,
}

/// Where in a row the value begins (or the number of its first value), and where the next row, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowLayout {
    pub value_offset: u32,
    pub row_bytes: u32,
}

/// A dictionary. Compiled code reads the fields up to `columns` at fixed offsets.
#[repr(C)]
#[derive(Debug)]
pub struct Dict {
    pub(crate) kind: DictKind,
    /// Hashed: the home slot of a hash is `hash >> shift`.
    pub(crate) shift: u32,
    /// Slots, or the bitmap with ranks.
    pub(crate) directory: *const u64,
    /// Hashed: the number of slots minus one. Dense: the largest key minus `min`.
    pub(crate) mask: u64,
    /// Dense: the smallest key, sign- or zero-extended.
    pub(crate) min: i64,
    /// Hashed: row 0. Dense tables make their rows when they are asked for, see [`Dict::rows`].
    pub(crate) rows: *mut u8,
    /// Rows in use, not counting row 0.
    pub(crate) len: u64,
    /// A Bloom filter of single words, or null; see `dict_filter.rs`.
    pub(crate) filter: *const u64,
    /// The filter's word of a hash is `hash >> filter_shift`.
    pub(crate) filter_shift: u64,
    /// Dense and grouped: `len + 1` numbers of first values, or null when each group has one value.
    pub(crate) starts: *const u32,
    /// Grouped: the columns of the values.
    pub(crate) columns: *const *const u8,
    /// Hashed: how many rows fit before the directory grows.
    pub(crate) capacity: u64,
    pub(crate) layout: RowLayout,
    pub(crate) owned: Owned,
}

/// What the pointers point into.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) directory: Buffer,
    pub(crate) rows: Buffer,
    pub(crate) filter: Option<Buffer>,
    pub(crate) starts: Option<Buffer>,
    pub(crate) columns: Vec<Buffer>,
    pub(crate) column_pointers: Vec<*const u8>,
    pub(crate) arena: Arena,
    /// Rows of a dense table.
    pub(crate) listed: OnceLock<Result<Buffer, OutOfMemory>>,
    /// Smallest and largest key, where the keys are integers of at most 64 bits, extended to 64 bits.
    pub(crate) bounds: Option<(i64, i64)>,
    /// How a dense table stores its keys in its rows.
    pub(crate) key: KeyKind,
    /// While a table is built: rows by the codes of keys.
    pub(crate) code_rows: CodeRows,
}

/// What the runtime has to know of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyKind {
    /// An integer of 1, 2, 4 or 8 bytes.
    Integer { bytes: u8, signed: bool },
    /// Anything else: compiled code hashes and compares.
    Other,
}

/// Offsets that compiled code uses.
#[derive(Debug)]
pub struct Offsets;

impl Offsets {
    pub const KIND: usize = std::mem::offset_of!(Dict, kind);
    pub const SHIFT: usize = std::mem::offset_of!(Dict, shift);
    pub const DIRECTORY: usize = std::mem::offset_of!(Dict, directory);
    pub const MASK: usize = std::mem::offset_of!(Dict, mask);
    pub const MIN: usize = std::mem::offset_of!(Dict, min);
    pub const ROWS: usize = std::mem::offset_of!(Dict, rows);
    pub const LEN: usize = std::mem::offset_of!(Dict, len);
    pub const FILTER: usize = std::mem::offset_of!(Dict, filter);
    pub const FILTER_SHIFT: usize = std::mem::offset_of!(Dict, filter_shift);
    pub const STARTS: usize = std::mem::offset_of!(Dict, starts);
    pub const COLUMNS: usize = std::mem::offset_of!(Dict, columns);
}

// SAFETY: the pointers lead into the table's own buffers.
unsafe impl Send for Dict {}
// SAFETY: a shared table is only read; `listed` synchronises itself.
unsafe impl Sync for Dict {}

impl Dict {
    /// Distinct keys.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn kind(&self) -> DictKind {
        self.kind
    }

    pub fn layout(&self) -> RowLayout {
        self.layout
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> usize {
        let owned = &self.owned;
        let optional = [&owned.filter, &owned.starts].into_iter().flatten().map(Buffer::len).sum::<usize>();
        let columns = owned.columns.iter().map(Buffer::len).sum::<usize>();
        owned.directory.len() + owned.rows.len() + optional + columns + owned.arena.bytes() + owned.code_rows.bytes()
    }

    /// The smallest and largest key of a grouped table, if its keys are integers of at most 64 bits and there are any.
    /// Unsigned keys of 64 bits come as the `i64` of the same bits.
    pub fn key_bounds(&self) -> Option<(i64, i64)> {
        self.owned.bounds
    }

    /// Values in all groups of a grouped table.
    pub fn values(&self) -> usize {
        match self.kind {
            DictKind::Hashed => self.first_value(self.len() + 1),
            DictKind::Dense if self.starts.is_null() => self.len(),
            DictKind::Dense => self.first_value(self.len() + 1),
        }
    }

    /// Of each group of a grouped table the numbers of its values.
    pub fn groups(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        (1..=self.len()).map(|group| self.first_value(group)..self.first_value(group + 1))
    }

    /// The columns that hold the values of a grouped table.
    pub fn columns(&self) -> &[*const u8] {
        &self.owned.column_pointers
    }

    /// The number of the first value of a group; groups count from one as rows do.
    pub(crate) fn first_value(&self, group: usize) -> usize {
        match (self.kind, self.starts.is_null()) {
            (DictKind::Dense, true) => group - 1,
            // SAFETY: there are `len + 1` starts, and `group <= len + 1`.
            (DictKind::Dense, false) => unsafe { *self.starts.add(group - 1) as usize },
            // SAFETY: a grouped table has a row after its last one, and `group <= len + 1`.
            (DictKind::Hashed, _) => unsafe {
                let row = self.rows.add(group * self.layout.row_bytes as usize);
                row.add(self.layout.value_offset as usize).cast::<u32>().read() as usize
            },
        }
    }

    /// Row 0; row `n` lies `n * row_bytes` after it, for `n` up to [`Dict::len`]. A grouped table has one more row, so
    /// that its last group ends somewhere.
    pub fn rows(&self) -> Result<*const u8, OutOfMemory> {
        match self.kind {
            DictKind::Hashed => Ok(self.rows),
            DictKind::Dense => match self.owned.listed.get_or_init(|| self.list()) {
                Ok(rows) => Ok(rows.as_ptr()),
                Err(error) => Err(*error),
            },
        }
    }

    /// Calls `each` with every key of a dense table, in ascending order; does nothing for a hashed one.
    pub fn for_each_dense_key(&self, mut each: impl FnMut(i64)) {
        if self.kind != DictKind::Dense {
            return;
        }
        for word in 0..=self.mask / 32 {
            // SAFETY: the bitmap has a word for every 32 keys from `min` to `min + mask`.
            let mut bits = unsafe { *self.directory.add(word as usize) } as u32;
            while bits != 0 {
                let distance = word * 32 + u64::from(bits.trailing_zeros());
                each(self.min.wrapping_add(distance as i64));
                bits &= bits - 1;
            }
        }
    }

    /// Rows for a dense table.
    fn list(&self) -> Result<Buffer, OutOfMemory> {
        let RowLayout { value_offset, row_bytes } = self.layout;
        let KeyKind::Integer { bytes, .. } = self.owned.key else { unreachable!("dense tables have integer keys") };
        let size = (self.len() + 2).checked_mul(row_bytes as usize).ok_or(OutOfMemory)?;
        let rows = Buffer::zeroed(size, self.owned.rows.pool().clone())?;
        let mut group = 0;
        let mut put = |key: Option<i64>| {
            group += 1;
            // SAFETY: `list` made room for `len + 2` rows; this is called for each of `len` bits and once after them.
            unsafe {
                let row = rows.as_ptr().add(group * row_bytes as usize);
                if let Some(key) = key {
                    std::ptr::copy_nonoverlapping(key.to_le_bytes().as_ptr(), row, bytes as usize);
                }
                row.add(value_offset as usize).cast::<u32>().write(self.first_value(group) as u32);
            }
        };
        self.for_each_dense_key(|key| put(Some(key)));
        put(None);
        Ok(rows)
    }
}

impl Owned {
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>, key: KeyKind) -> Owned {
        Owned {
            directory: Buffer::new(pool.clone()),
            rows: Buffer::new(pool.clone()),
            filter: None,
            starts: None,
            columns: Vec::new(),
            column_pointers: Vec::new(),
            arena: Arena::new(pool.clone()),
            listed: OnceLock::new(),
            bounds: None,
            key,
            code_rows: CodeRows::default(),
        }
    }
}
