//! Tests of the language as data: the filetest driver, random programs, and engines side by side.
//!
//! `tests/weld/**/*.weld` and `queries/weld/*.weld` are run by `tests/filetests.rs`, `tests/<language>/` by
//! `tests/languages.rs`; `cargo run -p weld-test --release --bin weld-fuzz -- --minutes 30` generates programs without
//! end.
#![forbid(unsafe_code)]

pub mod case;
pub mod chunks;
pub mod compare;
pub mod differential;
pub mod driver;
pub mod engine;
pub mod fault;
pub mod generate;
pub mod host;
pub mod language_case;
pub mod language_driver;
pub mod seeds;
pub mod shrink;
