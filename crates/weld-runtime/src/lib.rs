//! What compiled Weld code calls and shares memory with. The layouts are described in `docs/abi.md`.
//!
//! A host makes a [`Context`] (memory pool, cancellation flag); each run of compiled code gets a [`Run`], which owns
//! everything that the run allocates. Compiled code knows the run by its address and calls the functions listed in
//! [`abi`], nothing else. This crate knows neither LLVM nor Arrow.

pub mod abi;
mod context;
pub mod memory;
mod run;
mod status;
pub mod vector;

pub use abi::{ColumnAbi, StringView};
pub use context::Context;
pub use memory::MemoryPool;
pub use run::{Block, Region, Run};
pub use status::{Failure, Status};
