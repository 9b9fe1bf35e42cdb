//! Weld text and its tree: names unresolved, macros unexpanded, types as far as they were written.
//!
//! ```
//! let (module, errors) = weld_core::syntax::parse("macro twice(x) = x + x; |v: i64| twice(v)");
//! assert!(errors.is_empty());
//! assert_eq!(module.macros.len(), 1);
//! ```
//!
//! The parser reads any text whatsoever: it reports what is wrong, several errors at once, and gives the tree of the
//! rest. Nesting, the number of nodes and the number of errors are bounded, so it needs little stack and time.

pub(crate) mod advice;
mod format;
mod lexer;
mod literal;
mod parser;
pub(crate) mod precedence;
pub mod tree;
mod types;
pub(crate) mod words;

pub use format::format;
pub use parser::{parse, parse_type};

/// How deep expressions may nest (brackets, operands, lambdas). A `let` does not nest its body.
pub const DEPTH_MAX: usize = 1000;

/// How deep types may nest.
pub const TYPE_DEPTH_MAX: usize = 100;

/// How many expressions a program may have: what a person or a program that writes programs may need, and what the
/// stages after the parser handle within seconds.
pub const NODES_MAX: usize = 1_000_000;
