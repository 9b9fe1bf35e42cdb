//! Interned byte strings: of equal ones one is kept, and its address stands for all of them.
//!
//! ```text
//! intern("Books") == intern("Books")      // the same address: equal or not is known without a look at the bytes
//! address ► StringView "Books" ► bytes    // in the arena of a shard
//! ```
//!
//! All runs of a [`Context`](crate::Context) share its interner, so that the partitions of a table agree about
//! addresses. It lives as long as one of these runs, and so as long as every value that they have made. What a run asked
//! for lately it finds without the lock ([`Recent`]).

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::StringView;
use crate::arena::Arena;
use crate::hash::{fold, hash_long_bytes, hash_words};
use crate::memory::{MemoryPool, OutOfMemory};
use crate::run::Run;
use crate::status::Status;

/// Threads seldom wait for each other if there are some times as many shards.
const SHARDS: usize = 16;

/// Byte strings, each kept once.
pub(crate) struct Interner {
    shards: [Mutex<Shard>; SHARDS],
}

struct Shard {
    known: HashSet<Known, BuildHasherDefault<OfBytes>>,
    arena: Arena,
    pool: Arc<dyn MemoryPool>,
    /// What the set has asked of the pool.
    reserved: usize,
}

impl Interner {
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Interner {
        Interner { shards: std::array::from_fn(|_| Mutex::new(Shard::new(Arc::clone(pool)))) }
    }

    /// The view that stands for all byte strings that are equal to this one. More bytes than a view has a length for
    /// are refused.
    pub(crate) fn intern(&self, bytes: &[u8]) -> Result<*const StringView, OutOfMemory> {
        let shard = hash(bytes) >> (u64::BITS - SHARDS.ilog2());
        let mut shard = self.shards[shard as usize].lock().unwrap_or_else(PoisonError::into_inner);
        shard.intern(bytes)
    }
}

/// The views that a run was given last, by hashes of their bytes: columns of few different texts are interned row by row,
/// and threads that take the lock of the same shard for each row wait for each other most of the time.
#[derive(Debug, Default)]
pub(crate) struct Recent(Vec<Seen>);

/// So many at most.
const RECENT: usize = 2048;

#[derive(Clone, Copy, Debug)]
struct Seen {
    hash: u64,
    /// Null if there is none.
    view: *const StringView,
}

impl Recent {
    /// The same as [`Interner::intern`], of a run that always asks the same interner.
    pub(crate) fn intern(&mut self, interner: &Interner, bytes: &[u8]) -> Result<*const StringView, OutOfMemory> {
        if self.0.is_empty() {
            self.0 = vec![Seen { hash: 0, view: std::ptr::null() }; RECENT];
        }
        let hash = hash(bytes);
        let seen = &mut self.0[hash as usize % RECENT];
        // SAFETY: the interner keeps the views that it has given out, and their bytes.
        let is_same = |view: *const StringView| !view.is_null() && unsafe { (*view).as_slice() } == bytes;
        if seen.hash != hash || !is_same(seen.view) {
            *seen = Seen { hash, view: interner.intern(bytes)? };
        }
        Ok(seen.view)
    }
}

impl Shard {
    fn new(pool: Arc<dyn MemoryPool>) -> Shard {
        Shard { known: HashSet::default(), arena: Arena::new(Arc::clone(&pool)), pool, reserved: 0 }
    }

    fn intern(&mut self, bytes: &[u8]) -> Result<*const StringView, OutOfMemory> {
        if let Some(known) = self.known.get(bytes) {
            return Ok(known.0);
        }
        self.make_room()?;
        let place = self.arena.alloc(size_of::<StringView>(), align_of::<StringView>())?.cast::<StringView>();
        let kept = match bytes.len() <= StringView::INLINE_MAX {
            true => std::ptr::dangling_mut(),
            false => self.arena.copy(bytes)?,
        };
        let view = StringView::new(bytes).ok_or(OutOfMemory)?.moved_to(kept);
        // SAFETY: the arena has just given the place, which is large enough and aligned.
        unsafe { place.write(view) };
        self.known.insert(Known(place));
        Ok(place)
    }

    /// Room for one more in the set, granted by the pool.
    fn make_room(&mut self) -> Result<(), OutOfMemory> {
        if self.known.len() < self.known.capacity() {
            return Ok(());
        }
        // An eighth of the set's buckets stay free; each has a byte besides its entry.
        let buckets = (self.known.len() + 1).next_power_of_two().max(8) * 2;
        let bytes = buckets * (size_of::<Known>() + 1);
        if !self.pool.try_grow(bytes) {
            return Err(OutOfMemory);
        }
        self.pool.shrink(std::mem::replace(&mut self.reserved, bytes));
        self.known.reserve(self.known.len().max(4));
        Ok(())
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.pool.shrink(self.reserved);
    }
}

impl fmt::Debug for Interner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interner").finish_non_exhaustive()
    }
}

/// A view in the arena of its shard.
struct Known(*const StringView);

// SAFETY: nobody writes to what it points to, and whoever moves the set moves the arena.
unsafe impl Send for Known {}

impl Borrow<[u8]> for Known {
    fn borrow(&self) -> &[u8] {
        // SAFETY: the view and its bytes live as long as the set that this is in.
        unsafe { (*self.0).as_slice() }
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Known) -> bool {
        Borrow::<[u8]>::borrow(self) == Borrow::<[u8]>::borrow(other)
    }
}

impl Eq for Known {}

impl Hash for Known {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Borrow::<[u8]>::borrow(self).hash(state);
    }
}

/// Hashes one byte string as [`hash`] does.
#[derive(Default)]
struct OfBytes(u64);

impl Hasher for OfBytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(bytes);
    }

    /// The length, which comes before the bytes.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Both ends of the hash count: the upper bits choose the shard, the others the place in its set.
fn hash(bytes: &[u8]) -> u64 {
    let word = match bytes.len() {
        0..8 => {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            hash_words(&[u64::from_le_bytes(word), bytes.len() as u64])
        }
        _ => hash_long_bytes(bytes),
    };
    fold(word, crate::hash::SPREAD)
}

/// The address of the view that stands for these bytes, or null after a failure, which is noted.
///
/// # Safety
/// `run` is valid; `bytes` points to `len` bytes.
pub(crate) unsafe extern "C" fn intern(run: *mut Run, bytes: *const u8, len: u64) -> *const StringView {
    // SAFETY: by the caller's promise.
    let (run, bytes) = unsafe { (&mut *run, crate::strings::slice(bytes, len)) };
    match run.intern(bytes) {
        Ok(view) => view,
        Err(OutOfMemory) => {
            run.fail(Status::OutOfMemory, "the run's memory limit is reached");
            std::ptr::null()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Limit;

    fn texts() -> Vec<Vec<u8>> {
        let of_length = |len: usize| (0..40_u8).map(move |i| (0..len).map(|at| i ^ at as u8).collect::<Vec<u8>>());
        let mut texts: Vec<Vec<u8>> = [0, 1, 7, 8, 11, 12, 13, 16, 40, 300].into_iter().flat_map(of_length).collect();
        texts.sort();
        texts.dedup();
        texts
    }

    #[test]
    fn equal_bytes_have_one_address_and_others_another() {
        let interner = Interner::new(&(Arc::new(Limit::none()) as Arc<dyn MemoryPool>));
        let texts = texts();
        let first: Vec<_> = texts.iter().map(|text| interner.intern(text).unwrap()).collect();
        let again: Vec<_> = texts.iter().map(|text| interner.intern(&text.clone()).unwrap()).collect();
        assert_eq!(first, again);
        assert_eq!(HashSet::<_>::from_iter(&first).len(), texts.len());
        for (text, view) in texts.iter().zip(first) {
            // SAFETY: the interner is alive.
            assert_eq!(unsafe { (*view).as_slice() }, text);
        }
    }

    #[test]
    fn what_was_asked_for_lately_is_known() {
        let interner = Interner::new(&(Arc::new(Limit::none()) as Arc<dyn MemoryPool>));
        let (mut one, mut other) = (Recent::default(), Recent::default());
        // More than are kept, so that places are taken by others.
        let many = (0..3 * RECENT as u32).map(|number| number.to_le_bytes().repeat(5)).collect::<Vec<_>>();
        for text in texts().iter().chain(&many).chain(&texts()) {
            let known = interner.intern(text);
            assert_eq!((one.intern(&interner, text), one.intern(&interner, text)), (known, known));
            assert_eq!(other.intern(&interner, text), known);
        }
        assert!(one.0.len() == RECENT && one.0.iter().any(|seen| !seen.view.is_null()));
    }

    #[test]
    fn memory_is_asked_of_the_pool_and_given_back() {
        let pool = Arc::new(Limit::new(1 << 20));
        let interner = Interner::new(&(pool.clone() as Arc<dyn MemoryPool>));
        let mut refused = None;
        for number in 0..100_000_u32 {
            let text = format!("the text of the number {number}");
            match interner.intern(text.as_bytes()) {
                Ok(_) => {}
                Err(OutOfMemory) => {
                    refused = Some(text);
                    break;
                }
            }
        }
        let refused = refused.expect("100,000 texts are more than a mebibyte");
        assert_eq!(interner.intern(refused.as_bytes()), Err(OutOfMemory));
        assert!(interner.intern(b"the text of the number 0").is_ok(), "what is known needs no memory");
        assert!(pool.used() > 1 << 19);
        drop(interner);
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn threads_agree() {
        let interner = Interner::new(&(Arc::new(Limit::none()) as Arc<dyn MemoryPool>));
        let texts = texts();
        let of_thread = || texts.iter().map(|text| interner.intern(text).unwrap() as usize).collect::<Vec<_>>();
        let addresses: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(of_thread)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(addresses.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
