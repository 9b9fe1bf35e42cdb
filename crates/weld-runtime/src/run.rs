//! One run of compiled code: the memory that it allocates and the failure that it reports.
//!
//! Memory is allocated in blocks. Every block belongs to a [`Region`] of the run: region 0 lives as long as the run,
//! the others are scratch memory of loop bodies, emptied after each iteration. A block can grow, be freed on its own,
//! or be detached and outlive the run. What a run still holds when it is dropped is freed and given back to the pool.

use std::alloc::{Layout, alloc, dealloc, realloc};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::abi::StringView;
use crate::arena::Arena;
use crate::context::Context;
use crate::intern::Recent;
use crate::memory::{MemoryPool, OutOfMemory};
use crate::probed_entries::ProbedEntries;
use crate::status::{Failure, Status};
use crate::strings::Patterns;
use crate::threads::Threads;

/// Blocks start at multiples of this, as Arrow recommends for its buffers.
pub(crate) const BLOCK_ALIGNMENT: usize = 64;

/// Stands before each block's bytes, padded to [`BLOCK_ALIGNMENT`]. Blocks of a region form a list.
#[repr(C)]
struct Header {
    previous: *mut Header,
    next: *mut Header,
    region: *mut Region,
    bytes: usize,
    /// Destroys what is in the block before it is freed.
    destroy: Option<unsafe fn(*mut u8)>,
}

const HEADER_BYTES: usize = BLOCK_ALIGNMENT;
const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// A list of blocks that are freed together.
#[repr(C)]
#[derive(Debug)]
pub struct Region {
    /// Null when the region is empty: compiled code looks before it calls `weld_region_clear`.
    first: *mut Header,
    /// How many elements an appender without room gets room for at least, if it asks for any.
    pub(crate) expected_len: u64,
    /// Small pieces that cannot be freed by themselves; one of the region's blocks, null until one is asked for.
    arena: *mut Arena,
}

impl Default for Region {
    fn default() -> Region {
        Region { first: ptr::null_mut(), expected_len: 0, arena: ptr::null_mut() }
    }
}

/// The state of one run. Compiled code holds its address and reads the fields before `context` at fixed offsets.
#[repr(C)]
pub struct Run {
    /// The cancellation flag of the context; polled by loops.
    cancel: *const AtomicBool,
    /// What a trap wants to say: an index and a length, for example.
    pub detail: [u64; 2],
    /// A second flag to stop at: that of a range of a parallel loop which is not needed any more.
    stop: *const AtomicBool,
    context: Arc<Context>,
    /// What parallel loops may use.
    threads: Option<Arc<Threads>>,
    failure: Option<Failure>,
    pub(crate) patterns: Patterns,
    pub(crate) probed: ProbedEntries,
    interned: Recent,
    /// How many rows the dictionary that is made next will have; 0 if that is not known.
    pub(crate) expected_rows: u64,
    /// Boxed, because blocks and compiled code point to them.
    #[expect(clippy::vec_box, reason = "the addresses of regions must not change")]
    regions: Vec<Box<Region>>,
    bytes: usize,
}

const _: () = assert!(std::mem::offset_of!(Run, cancel) == Run::CANCEL_OFFSET);
const _: () = assert!(std::mem::offset_of!(Run, detail) == Run::DETAIL_OFFSET);
const _: () = assert!(std::mem::offset_of!(Run, stop) == Run::STOP_OFFSET);

// SAFETY: blocks are reachable through their run (or `Block`) only; nothing is tied to a thread.
unsafe impl Send for Run {}
// SAFETY: a shared run is only read; every change takes `&mut`.
unsafe impl Sync for Run {}

impl Run {
    pub const CANCEL_OFFSET: usize = 0;
    pub const DETAIL_OFFSET: usize = 8;
    pub const STOP_OFFSET: usize = 24;

    pub fn new(context: Arc<Context>) -> Box<Run> {
        let stop = Arc::as_ptr(context.cancel_flag());
        let expected_rows = context.expected_rows();
        let mut run = Run::part(context, stop);
        run.expected_rows = expected_rows;
        run
    }

    /// A run of a range of a parallel loop. It also stops at this flag, which lives as long as the range runs.
    pub(crate) fn part(context: Arc<Context>, stop: *const AtomicBool) -> Box<Run> {
        Box::new(Run {
            cancel: Arc::as_ptr(context.cancel_flag()),
            detail: [0; 2],
            stop,
            context,
            threads: None,
            failure: None,
            patterns: Patterns::default(),
            probed: ProbedEntries::default(),
            interned: Recent::default(),
            expected_rows: 0,
            regions: vec![Box::default()],
            bytes: 0,
        })
    }

    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The threads that parallel loops may use.
    pub fn threads(&self) -> Option<&Arc<Threads>> {
        self.threads.as_ref()
    }

    pub fn set_threads(&mut self, threads: Option<Arc<Threads>>) {
        self.threads = threads;
    }

    /// The view that stands for all byte strings that are equal to this one, in all runs of the context.
    pub(crate) fn intern(&mut self, bytes: &[u8]) -> Result<*const StringView, OutOfMemory> {
        self.interned.intern(self.context.interner(), bytes)
    }

    /// Bytes that the run holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The region of that number, made when first asked for. Its address stays the same.
    pub fn region(&mut self, index: usize) -> *mut Region {
        while self.regions.len() <= index {
            self.regions.push(Box::default());
        }
        &mut *self.regions[index]
    }

    /// Appenders that live as long as the run are expected to get about so many elements, as those before them did:
    /// they begin with room for a quarter more.
    pub fn expect_len(&mut self, len: u64) {
        self.regions[0].expected_len = len.saturating_add(len / 4);
    }

    /// Notes why the run fails; the first failure counts.
    #[cold]
    pub fn fail(&mut self, status: Status, message: impl Into<String>) {
        if self.failure.is_none() {
            self.failure = Some(Failure { status, message: message.into() });
        }
    }

    /// What a runtime function has noted of why the run fails; it is forgotten then.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.status == Status::OutOfMemory)
    }

    /// Fails as the run of a part has failed.
    pub(crate) fn fail_like(&mut self, part: &mut Run) {
        self.detail = part.detail;
        self.failure = part.failure.take();
    }

    /// New memory that lives as long as the run; see [`Run::allocate_in`].
    pub fn allocate(&mut self, bytes: usize) -> *mut u8 {
        let region = self.region(0);
        // SAFETY: the region is one of this run's.
        unsafe { self.allocate_in(region, bytes) }
    }

    /// New memory of at least one byte at a multiple of [`BLOCK_ALIGNMENT`], not initialised; null after a failure,
    /// which is noted.
    ///
    /// # Safety
    /// `region` is one of this run's.
    pub unsafe fn allocate_in(&mut self, region: *mut Region, bytes: usize) -> *mut u8 {
        let Some(layout) = block_layout(bytes) else { return self.out_of_memory(bytes) };
        if !self.context.memory().try_grow(layout.size()) {
            return self.out_of_memory(bytes);
        }
        // SAFETY: the layout's size is not zero.
        let header = unsafe { alloc(layout) }.cast::<Header>();
        if header.is_null() {
            self.context.memory().shrink(layout.size());
            return self.out_of_memory(bytes);
        }
        self.bytes += layout.size();
        // SAFETY: the block is fresh and large enough for its header; the region's list is valid.
        unsafe {
            header.write(Header { previous: ptr::null_mut(), next: (*region).first, region, bytes, destroy: None });
            link(header);
            header.cast::<u8>().add(HEADER_BYTES)
        }
    }

    /// The arena of a region, from which pieces come that stay until the region is cleared; null after a failure, which is
    /// noted.
    ///
    /// # Safety
    /// `region` is one of this run's.
    pub(crate) unsafe fn arena_of(&mut self, region: *mut Region) -> *mut Arena {
        // SAFETY: by the caller's promise; `clear` forgets the arena that it frees.
        unsafe {
            if (*region).arena.is_null() {
                (*region).arena = self.place(region, Arena::new(self.context.memory().clone()));
            }
            (*region).arena
        }
    }

    /// Puts an object into a block of its own; it is dropped when the block is freed. Null after a failure, which is
    /// noted.
    ///
    /// # Safety
    /// `region` is one of this run's.
    pub unsafe fn place<T: Send + Sync>(&mut self, region: *mut Region, object: T) -> *mut T {
        /// # Safety
        /// `block` holds a `T` that is not used again.
        unsafe fn destroy<T>(block: *mut u8) {
            // SAFETY: by the caller's promise.
            unsafe { block.cast::<T>().drop_in_place() }
        }
        const { assert!(align_of::<T>() <= BLOCK_ALIGNMENT) };
        // SAFETY: by the caller's promise; the block is large enough and aligned.
        unsafe {
            let block = self.allocate_in(region, size_of::<T>());
            if !block.is_null() {
                block.cast::<T>().write(object);
                (*block.sub(HEADER_BYTES).cast::<Header>()).destroy = Some(destroy::<T>);
            }
            block.cast()
        }
    }

    /// Takes an object out and frees its block.
    ///
    /// # Safety
    /// `object` came from [`Run::place`] of this run and is not used again.
    pub unsafe fn take<T: Send + Sync>(&mut self, object: *mut T) -> T {
        // SAFETY: by the caller's promise; without `destroy`, freeing does not drop what was read.
        unsafe {
            let taken = object.read();
            (*object.cast::<u8>().sub(HEADER_BYTES).cast::<Header>()).destroy = None;
            self.free(object.cast());
            taken
        }
    }

    /// Changes the size of a block, which may move; the old bytes are kept as far as they fit. Null after a failure,
    /// which is noted; the block is then as before.
    ///
    /// # Safety
    /// `block` came from this run and has not been freed.
    pub unsafe fn resize(&mut self, block: *mut u8, bytes: usize) -> *mut u8 {
        // SAFETY: by the caller's promise there is a header.
        let (header, old) = unsafe {
            let header = block.sub(HEADER_BYTES).cast::<Header>();
            (header, (*header).bytes)
        };
        let (Some(old_layout), Some(layout)) = (block_layout(old), block_layout(bytes)) else {
            return self.out_of_memory(bytes);
        };
        if layout.size() > old_layout.size() && !self.context.memory().try_grow(layout.size() - old_layout.size()) {
            return self.out_of_memory(bytes);
        }
        // SAFETY: the block was allocated with `old_layout`; after a move its neighbours are told the new address.
        unsafe {
            let moved = realloc(header.cast(), old_layout, layout.size()).cast::<Header>();
            if moved.is_null() {
                if layout.size() > old_layout.size() {
                    self.context.memory().shrink(layout.size() - old_layout.size());
                }
                return self.out_of_memory(bytes);
            }
            (*moved).bytes = bytes;
            link(moved);
            self.bytes = self.bytes - old_layout.size() + layout.size();
            if layout.size() < old_layout.size() {
                self.context.memory().shrink(old_layout.size() - layout.size());
            }
            moved.cast::<u8>().add(HEADER_BYTES)
        }
    }

    /// Frees one block.
    ///
    /// # Safety
    /// `block` came from this run, has not been freed, and is not used again.
    pub unsafe fn free(&mut self, block: *mut u8) {
        // SAFETY: by the caller's promise.
        unsafe { drop(self.detach(block)) }
    }

    /// Takes a block out of the run: from now on the result owns it.
    ///
    /// # Safety
    /// `block` came from this run and has not been freed.
    pub unsafe fn detach(&mut self, block: *mut u8) -> Block {
        // SAFETY: by the caller's promise there is a header, linked into its region's list.
        unsafe {
            let header = block.sub(HEADER_BYTES).cast::<Header>();
            unlink(header);
            self.bytes -= (*header).bytes + HEADER_BYTES;
        }
        Block { data: block, memory: Some(self.context.memory().clone()) }
    }

    /// Frees all blocks of a region.
    ///
    /// # Safety
    /// `region` is one of this run's, and nothing in it is used again.
    pub unsafe fn clear(&mut self, region: *mut Region) {
        // SAFETY: the list holds live blocks; each is read before it is freed.
        unsafe {
            let mut header = (*region).first;
            (*region).first = ptr::null_mut();
            (*region).arena = ptr::null_mut();
            while !header.is_null() {
                let next = (*header).next;
                let size = (*header).bytes + HEADER_BYTES;
                destroy(header);
                dealloc(header.cast(), Layout::from_size_align_unchecked(size, BLOCK_ALIGNMENT));
                self.context.memory().shrink(size);
                self.bytes -= size;
                header = next;
            }
        }
    }

    /// Moves all blocks of another run into this one, which then keeps them alive and accounts for them. If this one's
    /// pool refuses them, the other run ends, and `false` says that a failure is noted.
    pub fn adopt(&mut self, other: Box<Run>) -> bool {
        let target = self.region(0);
        // SAFETY: the region is one of this run's.
        unsafe { self.adopt_into(target, other) }
    }

    /// The same, into one of this run's regions.
    ///
    /// # Safety
    /// `target` is one of this run's.
    // Boxed: a run stays where it is, its blocks know its address.
    pub(crate) unsafe fn adopt_into(&mut self, target: *mut Region, mut other: Box<Run>) -> bool {
        if !Arc::ptr_eq(self.context.memory(), other.context.memory()) {
            if !self.context.memory().try_grow(other.bytes) {
                self.out_of_memory(other.bytes);
                return false;
            }
            other.context.memory().shrink(other.bytes);
        }
        // SAFETY: both runs' lists hold live blocks; each is unlinked from one and linked into the other.
        unsafe {
            for index in 0..other.regions.len() {
                let region: *mut Region = other.region(index);
                while !(*region).first.is_null() {
                    let header = (*region).first;
                    unlink(header);
                    (*header).region = target;
                    (*header).previous = ptr::null_mut();
                    (*header).next = (*target).first;
                    link(header);
                }
            }
        }
        self.bytes += other.bytes;
        other.bytes = 0;
        true
    }

    #[cold]
    fn out_of_memory(&mut self, bytes: usize) -> *mut u8 {
        // What needs more than there are addresses is asked for as the largest number.
        let asked = match isize::try_from(bytes) {
            Ok(bytes) => format!("{bytes} bytes more"),
            Err(_) => "more bytes than there are addresses".to_owned(),
        };
        self.fail(Status::OutOfMemory, format!("the run's memory limit is reached: it asked for {asked}"));
        ptr::null_mut()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        for index in 0..self.regions.len() {
            let region = self.region(index);
            // SAFETY: the run ends, nothing uses its memory again.
            unsafe { self.clear(region) };
        }
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("bytes", &self.bytes).field("failure", &self.failure).finish_non_exhaustive()
    }
}

/// A block of memory that outlives its run; freed when dropped.
pub struct Block {
    data: *mut u8,
    /// The pool that its bytes are from, as long as they are counted there.
    memory: Option<Arc<dyn MemoryPool>>,
}

// SAFETY: a block is plain memory with one owner.
unsafe impl Send for Block {}
// SAFETY: shared blocks are only read.
unsafe impl Sync for Block {}

impl Block {
    pub fn as_ptr(&self) -> *const u8 {
        self.data
    }

    pub fn bytes(&self) -> usize {
        // SAFETY: the header stands before the bytes.
        unsafe { (*self.data.sub(HEADER_BYTES).cast::<Header>()).bytes }
    }

    /// Gives the bytes back to the pool while the block lives on: it goes to somebody who counts for himself.
    pub fn uncount(&mut self) {
        if let Some(memory) = self.memory.take() {
            memory.shrink(self.bytes() + HEADER_BYTES);
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.uncount();
        let size = self.bytes() + HEADER_BYTES;
        // SAFETY: allocated by `Run::allocate_in` with this layout, and owned by nobody else.
        unsafe {
            destroy(self.data.sub(HEADER_BYTES).cast());
            dealloc(self.data.sub(HEADER_BYTES), Layout::from_size_align_unchecked(size, BLOCK_ALIGNMENT));
        }
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

fn block_layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(HEADER_BYTES)?, BLOCK_ALIGNMENT).ok()
}

/// Makes the neighbours of a block (as its header names them) point to it.
///
/// # Safety
/// The header's fields name live neighbours, or null, and its region.
unsafe fn link(header: *mut Header) {
    // SAFETY: by the caller's promise.
    unsafe {
        let Header { previous, next, region, .. } = *header;
        if previous.is_null() {
            (*region).first = header;
        } else {
            (*previous).next = header;
        }
        if !next.is_null() {
            (*next).previous = header;
        }
    }
}

/// Drops what is in a block.
///
/// # Safety
/// The block is live, and its object is not used again.
unsafe fn destroy(header: *mut Header) {
    // SAFETY: by the caller's promise.
    unsafe {
        if let Some(destroy) = (*header).destroy {
            destroy(header.cast::<u8>().add(HEADER_BYTES));
        }
    }
}

/// Takes a block out of its region's list.
///
/// # Safety
/// The block is linked.
unsafe fn unlink(header: *mut Header) {
    // SAFETY: by the caller's promise.
    unsafe {
        let Header { previous, next, region, .. } = *header;
        if previous.is_null() {
            (*region).first = next;
        } else {
            (*previous).next = next;
        }
        if !next.is_null() {
            (*next).previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Limit;

    fn limited(limit: usize) -> (Arc<Limit>, Box<Run>) {
        let pool = Arc::new(Limit::new(limit));
        let context = Context::new(pool.clone(), Arc::new(AtomicBool::new(false)));
        (pool, Run::new(Arc::new(context)))
    }

    #[test]
    fn blocks_grow_keep_their_bytes_and_are_given_back() {
        let (pool, mut run) = limited(1 << 20);
        // SAFETY: blocks are used within their sizes and freed once.
        unsafe {
            let a = run.allocate(8);
            a.cast::<u64>().write(7);
            let b = run.allocate(0);
            let a = run.resize(a, 4096);
            assert_eq!(a.cast::<u64>().read(), 7);
            assert_eq!(a as usize % BLOCK_ALIGNMENT, 0);
            run.free(b);
            let detached = run.detach(a);
            assert_eq!(detached.bytes(), 4096);
            assert_eq!(run.bytes(), 0);
            drop(run);
            assert_eq!(detached.as_ptr().cast::<u64>().read(), 7);
        }
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn a_refused_block_is_a_failure_and_leaves_the_rest() {
        let (pool, mut run) = limited(1000);
        assert!(!run.allocate(100).is_null());
        assert!(run.allocate(1000).is_null());
        assert!(run.allocate(usize::MAX).is_null());
        assert_eq!(run.take_failure().map(|f| f.status), Some(Status::OutOfMemory));
        drop(run);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn objects_are_dropped_with_their_block_or_taken_out() {
        let (pool, mut run) = limited(1 << 20);
        let object = Arc::new(());
        let region = run.region(1);
        // SAFETY: the region is the run's; objects are not used after they are gone.
        unsafe {
            run.place(region, object.clone());
            run.clear(region);
            assert_eq!(Arc::strong_count(&object), 1);
            let placed = run.place(region, object.clone());
            let detached = run.detach(placed.cast());
            let placed = run.place(region, object.clone());
            drop(run.take(placed));
            assert_eq!(Arc::strong_count(&object), 2);
            drop(detached);
            assert_eq!(Arc::strong_count(&object), 1);
            run.place(region, object.clone());
        }
        drop(run);
        assert_eq!(Arc::strong_count(&object), 1);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn pieces_go_with_their_region() {
        let (pool, mut run) = limited(1 << 20);
        let mut other = Run::new(run.context().clone());
        let region = run.region(1);
        // SAFETY: the regions are the runs'; pieces are used within their sizes, and not after theirs was cleared.
        unsafe {
            for _ in 0..2 {
                let arena = run.arena_of(region);
                assert_eq!(run.arena_of(region), arena);
                (*arena).copy(b"a piece").unwrap();
                run.clear(region);
                assert_eq!((run.bytes(), pool.used()), (0, 0));
            }
            let theirs = other.region(0);
            let kept = (*other.arena_of(theirs)).copy(b"kept").unwrap();
            (*run.arena_of(region)).copy(b"own").unwrap();
            assert!(run.adopt(other));
            run.clear(region);
            assert_eq!(std::slice::from_raw_parts(kept, 4), b"kept");
        }
        drop(run);
        assert_eq!(pool.used(), 0);
        let (_pool, mut full) = limited(10);
        let region = full.region(0);
        // SAFETY: the region is the run's.
        assert!(unsafe { full.arena_of(region) }.is_null() && full.take_failure().is_some());
    }

    #[test]
    fn regions_are_emptied_alone_and_adopted_runs_live_on() {
        let (pool, mut run) = limited(1 << 20);
        let mut other = Run::new(run.context().clone());
        let kept = other.allocate(16);
        let scratch = run.region(1);
        // SAFETY: the regions are this run's; the cleared block is not used again.
        unsafe {
            kept.write(9);
            run.allocate_in(scratch, 100);
            let before = run.bytes();
            run.allocate_in(scratch, 100);
            run.clear(scratch);
            assert!(run.bytes() < before);
            assert!(run.adopt(other));
            assert_eq!(kept.read(), 9);
        }
        drop(run);
        assert_eq!(pool.used(), 0);
    }
}
