//! Weld: a small functional language of loops and builders, and the IR of the query compiler.
//!
//! Levels: [`syntax`] (text and its tree) and [`ir`] (typed, names resolved, sugar gone).
//! Arrows: [`infer`] from syntax to IR, [`opt`] from IR to IR, [`interp`] from IR to values.
//! This crate knows neither LLVM nor Arrow, does no input or output, and has no unsafe code.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod builder;
pub mod diag;
mod frontend;
pub mod infer;
pub mod interp;
pub mod ir;
/// Operators.
pub mod op;
pub mod opt;
mod pretty;
mod runtime_error;
pub mod syntax;
/// Types.
pub mod ty;

pub use frontend::{Frontend, Signature, parse_program, parse_type};
pub use runtime_error::{RuntimeError, RuntimeErrorKind, filled};
