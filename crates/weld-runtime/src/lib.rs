//! What compiled Weld code calls and shares memory with. The layouts are described in `docs/abi.md`.
//!
//! A host makes a [`Context`] (memory pool, cancellation flag); each run of compiled code gets a [`Run`], which owns
//! everything that the run allocates. Compiled code knows the run by its address and calls the functions listed in
//! [`abi`], nothing else. This crate knows neither LLVM nor Arrow.

pub mod abi;
pub mod arena;
pub mod cache;
pub mod concat;
mod context;
pub mod dict;
pub mod dict_abi;
mod dict_buffer;
mod dict_codes;
mod dict_combine;
mod dict_dense;
mod dict_filter;
mod dict_finish;
mod dict_group;
mod dict_hashed;
mod dict_merger;
mod dict_place;
pub mod hash;
mod intern;
mod math;
pub mod memory;
mod nditer;
pub mod parallel;
mod poison;
mod probed_entries;
mod run;
pub mod sort;
mod status;
pub mod strings;
mod text_positions;
mod threads;
pub mod vector;

pub use abi::{ColumnAbi, StringView};
pub use context::Context;
pub use dict::{Dict, DictError, DictKind, KeyKind, Offsets as DictOffsets, RowLayout};
pub use dict_combine::{MergeValues, RowFunctions};
pub use dict_filter::{BIT_SHIFTS as FILTER_BIT_SHIFTS, BITS_FACTOR as FILTER_BITS_FACTOR};
pub use dict_finish::{EqualKeys, HashKeys, KeyFunctions};
pub use dict_group::{GroupBuilder, GroupLayout, GroupOffsets};
pub use memory::MemoryPool;
pub use poison::Poison;
pub use run::{Block, Region, Run};
pub use status::{Failure, Status};
pub use threads::Threads;
