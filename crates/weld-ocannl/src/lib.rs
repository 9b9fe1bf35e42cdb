//! OCANNL's `%cd` and `%op`: tensors with three kinds of axes, einsum, shape inference, gradients.
//!
//! `lexer` and `parser` make the tree of a text; `elaborate` resolves names and applies definitions, which gives a
//! `graph` of tensors and steps; `infer` finds the axes of every tensor and the loops of every operation; `emit` and
//! `gradient` make Weld of it, with the loops of `weld-tensor`.
//!
//! ```
//! use weld_frontend::{Arg, Args, Known, Language, Library, Options, Request, Sizes};
//! let text = "let%op miss x y = (\"w\" * x - y) **. 2.0";
//! let (library, options) = (Library::default(), Options::default());
//! let known = |sizes: &[u64], input: &[u64]| {
//!     Known::Sizes(Sizes { output: sizes.to_vec(), input: input.to_vec(), tensor: true, ..Sizes::default() })
//! };
//! let arg = |name: &str, known| Arg { name: Some(name.into()), known, ..Arg::default() };
//! let args = [arg("x", known(&[2], &[])), arg("y", known(&[1], &[])), arg("w", known(&[1], &[2]))];
//! let request = Request { args: Args::Given(&args), ..Request::new(text, &library, &options) };
//! let function = weld_ocannl::Ocannl.compile(&request).unwrap();
//! assert_eq!(function.result_type, "1");
//! ```
#![forbid(unsafe_code)]

mod annotation;
mod dims;
mod einsum;
mod elaborate;
mod emit;
mod gradient;
mod graph;
mod infer;
mod language;
mod lexer;
mod literal;
mod parser;
mod shape;
mod spec;
mod steps;
mod tree;

pub use language::Ocannl;
