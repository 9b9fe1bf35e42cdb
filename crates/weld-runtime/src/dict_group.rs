//! Rows on their way into a grouped table: what a `groupbuilder` merges, kept as columns.
//!
//! Merging only appends: compiled code writes the key and the parts of the value behind those of the row before. Rows
//! lie in segments, so appending never copies and combining two builders moves no row. Grouping happens once, when all
//! rows are there and their number is known; see `dict_finish.rs`.

use std::sync::Arc;

use crate::arena::Arena;
use crate::dict::KeyKind;
use crate::dict_buffer::Buffer;
use crate::memory::{MemoryPool, OutOfMemory};

/// Rows of the first segment and of the largest ones.
const SEGMENT_MIN: u64 = 256;
const SEGMENT_MAX: u64 = 1 << 16;

/// The parts of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupLayout {
    pub key: KeyKind,
    /// Size of a key in row form, and its alignment.
    pub key_bytes: u32,
    pub key_align: u32,
    /// Sizes of the columns of the value.
    pub column_bytes: Box<[u32]>,
}

/// A `groupbuilder`. Compiled code reads and writes the fields up to `columns`.
#[repr(C)]
#[derive(Debug)]
pub struct GroupBuilder {
    /// Rows in the segment that is being filled, and how many fit.
    pub(crate) count: u64,
    pub(crate) capacity: u64,
    /// Its keys and its columns.
    pub(crate) keys: *mut u8,
    pub(crate) columns: *const *mut u8,
    pub(crate) layout: GroupLayout,
    /// The last one is being filled; its `rows` is out of date.
    pub(crate) segments: Vec<Segment>,
    pub(crate) arena: Arena,
    pool: Pool,
}

/// Offsets that compiled code uses.
#[derive(Debug)]
pub struct GroupOffsets;

impl GroupOffsets {
    pub const COUNT: usize = std::mem::offset_of!(GroupBuilder, count);
    pub const CAPACITY: usize = std::mem::offset_of!(GroupBuilder, capacity);
    pub const KEYS: usize = std::mem::offset_of!(GroupBuilder, keys);
    pub const COLUMNS: usize = std::mem::offset_of!(GroupBuilder, columns);
}

/// Consecutive rows: keys, then each column, in one buffer.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) rows: u64,
    pub(crate) columns: Box<[*mut u8]>,
    memory: Buffer,
}

impl Segment {
    pub(crate) fn keys(&self) -> *const u8 {
        self.memory.as_ptr()
    }
}

// SAFETY: threads that share a segment only read it.
unsafe impl Sync for Segment {}

struct Pool(Arc<dyn MemoryPool>);

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryPool")
    }
}

// SAFETY: the pointers lead into the builder's own segments.
unsafe impl Send for GroupBuilder {}
// SAFETY: a shared builder gives nothing out.
unsafe impl Sync for GroupBuilder {}

impl GroupBuilder {
    pub fn new(layout: GroupLayout, pool: &Arc<dyn MemoryPool>) -> GroupBuilder {
        GroupBuilder {
            count: 0,
            capacity: 0,
            keys: std::ptr::dangling_mut::<u64>().cast(),
            columns: std::ptr::null(),
            layout,
            segments: Vec::new(),
            arena: Arena::new(pool.clone()),
            pool: Pool(pool.clone()),
        }
    }

    /// Rows merged so far.
    pub fn rows(&self) -> u64 {
        let full = self.segments.len().saturating_sub(1);
        self.segments[..full].iter().map(|segment| segment.rows).sum::<u64>() + self.count
    }

    /// Starts a new segment: compiled code calls it when `count == capacity`.
    #[cold]
    pub fn grow(&mut self) -> Result<(), OutOfMemory> {
        let rows = (2 * self.capacity).clamp(SEGMENT_MIN, SEGMENT_MAX);
        let part = |bytes: u32| (rows as usize * bytes as usize).next_multiple_of(64);
        let sizes: Vec<usize> = self.layout.column_bytes.iter().map(|bytes| part(*bytes)).collect();
        let keys = part(self.layout.key_bytes);
        let memory = Buffer::zeroed(keys + sizes.iter().sum::<usize>(), self.pool.0.clone())?;
        let mut at = keys;
        let columns = sizes
            .iter()
            .map(|size| {
                // SAFETY: the buffer has room for the keys and all columns, one after the other.
                let column = unsafe { memory.as_ptr().add(at) };
                at += size;
                column
            })
            .collect();
        self.seal();
        self.segments.push(Segment { rows: 0, columns, memory });
        self.fill_last(0, rows);
        Ok(())
    }

    /// A builder of the same layout without rows.
    pub(crate) fn emptied(&self) -> GroupBuilder {
        GroupBuilder::new(self.layout.clone(), &self.pool.0)
    }

    pub(crate) fn pool(&self) -> &Arc<dyn MemoryPool> {
        &self.pool.0
    }

    /// Where the bytes that rows refer to are copied.
    pub fn arena(&mut self) -> &mut Arena {
        &mut self.arena
    }

    /// Appends the rows of another builder of the same layout. No row moves.
    pub fn combine(&mut self, mut other: GroupBuilder) {
        debug_assert_eq!(self.layout, other.layout);
        self.seal();
        other.seal();
        self.segments.append(&mut other.segments);
        self.arena.join(other.arena);
        // Full, whatever room its last segment has: the next merge starts a new one.
        let rows = self.segments.last().map_or(0, |last| last.rows);
        self.fill_last(rows, rows);
    }

    /// Notes the rows of the segment that was being filled.
    pub(crate) fn seal(&mut self) {
        if let Some(last) = self.segments.last_mut() {
            last.rows = self.count;
        }
    }

    fn fill_last(&mut self, count: u64, capacity: u64) {
        if let Some(last) = self.segments.last() {
            (self.count, self.capacity) = (count, capacity);
            (self.keys, self.columns) = (last.memory.as_ptr(), last.columns.as_ptr());
        }
    }
}
