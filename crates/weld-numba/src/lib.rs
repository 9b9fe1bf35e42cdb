//! Python, the Numba core language: functions that are generic over the types of their arguments, lists, tuples,
//! closures, generators, exceptions, classes with a layout.
//!
//! ```
//! use weld_frontend::{Arg, Args, Language, Library, Options, Request};
//! let (library, options) = (Library::default(), Options::default());
//! let args = [Arg { written: Some("[Float]".into()), ..Arg::default() }];
//! let mut request = Request::new("def f(xs):\n    return sum(x * x for x in xs)\n", &library, &options);
//! request.args = Args::Given(&args);
//! assert_eq!(weld_numba::Python.compile(&request).unwrap().result_type, "Float64");
//! ```
//!
//! [`module`] collects a text's definitions, [`trace`] runs the one that is called on values that stand for those of
//! the run, and so makes its program. `docs/languages/python.md` says what the language is.
#![forbid(unsafe_code)]

mod class;
mod decorator;
mod language;
mod module;
mod names;
mod refuse;
mod signature;
mod store;
mod stream;
mod trace;
mod types;
mod value;

pub use language::Python;
