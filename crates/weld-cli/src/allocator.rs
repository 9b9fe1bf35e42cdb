//! The allocator that both engines run under, as DataFusion's timings depend on it. It is built without advice for huge
//! pages (mimalloc's `no_thp`): the system clears two megabytes for the first byte that is used of them, and a process
//! that runs one query a few times does little else. Queries of TPC-DS (scale factor 1, two partitions, three runs in a
//! process each) take a sixth less time without, and first runs of a process vary less; a session of all of them takes
//! the same. Hash tables that are large ask for huge pages themselves (`weld-runtime/src/dict_buffer.rs`).
#![allow(unsafe_code, reason = "mimalloc's options are set by a function of C")]

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`.
const PURGE_DELAY: c_int = 15;

/// Freed pages are kept so long for what is allocated next, as by jemalloc; mimalloc's own second is over between two
/// queries of a session. The system clears pages that it gives again: of the queries of TPC-DS (scale factor 1, two
/// partitions, three runs each) that is a tenth of the processor time, of some a fifth.
const PURGE_DELAY_MS: c_long = 10_000;

unsafe extern "C" {
    fn mi_option_set_default(option: c_int, value: c_long);
}

/// Sets the allocator up; the environment's `MIMALLOC_PURGE_DELAY` counts for more.
pub(crate) fn configure() {
    // SAFETY: mimalloc checks the option's number, and nothing else runs yet.
    unsafe { mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
}
