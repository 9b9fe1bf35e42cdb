//! What compiled Weld code calls and shares memory with. See `docs/abi.md`.

pub mod memory;
