//! The Toy Tensor Language: text to typed Weld functions.
//!
//! `lexer` and `parser` make the tree of a text, `check` resolves names and types, `lower` makes Weld of it. Calls are
//! inlined, loops and branches carry the variables that they assign; matrices are flat, with their open sizes beside
//! them.
//!
//! ```
//! use weld_frontend::{Language, Library, Options, Request};
//! let text = "function float twice(float x) { return 2.0 * x; }";
//! let (library, options) = (Library::default(), Options::default());
//! let function = weld_ttl::Ttl.compile(&Request::new(text, &library, &options)).unwrap();
//! assert_eq!(function.result_type, "float");
//! ```
#![forbid(unsafe_code)]

mod check;
mod language;
mod lexer;
mod lower;
mod parser;
mod tree;
mod typed;
mod types;

pub use language::Ttl;
