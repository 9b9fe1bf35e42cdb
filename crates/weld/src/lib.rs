//! Weld programs from Rust: parse, compile, run over slices and Arrow arrays.
//!
//! ```
//! use weld::{Options, Program, Value};
//!
//! let program = Program::parse("|v: vec[i64], k: i64| map(filter(v, |x| x > k), |x| x * x)")?;
//! let compiled = program.compile(&Options::default())?;
//! let result = compiled.run(&[Value::vector(vec![1i64, 2, 3]), Value::i64(1)])?;
//! assert_eq!(result.as_slice::<i64>(), Some(&[4, 9][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Arrow arrays become vectors and vectors become Arrow arrays, both without copying numbers:
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{ArrayRef, AsArray, Float64Array, StringArray, StructArray};
//! use arrow::datatypes::Float64Type;
//! use weld::{Options, Program, from_arrow, to_arrow};
//!
//! let prices: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.5, 4.0]));
//! let names: ArrayRef = Arc::new(StringArray::from(vec!["nut", "bolt", "nut"]));
//! let rows = StructArray::try_from(vec![("name", names), ("price", prices)])?;
//!
//! let program = Program::parse("|rows: vec[{vec[i8],f64}]| map(filter(rows, |r| r.$0 == \"nut\"), |r| r.$1 * 2.0)")?;
//! let result = program.compile(&Options::default())?.run(&[from_arrow(&rows)?])?;
//! assert_eq!(to_arrow(&result)?.as_primitive::<Float64Type>().values(), &[2.0, 8.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A compiled program may run on several threads at once, and its results outlive it:
//!
//! ```
//! use weld::{Options, Program, Value};
//!
//! let lengths = Program::parse("|words: vec[vec[i8]]| map(words, |word| len(word))")?;
//! let words = Value::vectors(&Value::text("nutbolt"), [0..3, 3..7]).ok_or("the ranges leave the text")?;
//! let compiled = lengths.compile(&Options::default())?;
//! let results = std::thread::scope(|scope| {
//!     let runs: Vec<_> = (0..2).map(|_| scope.spawn(|| compiled.run(&[words.clone()]))).collect();
//!     runs.into_iter().map(|run| run.join().unwrap()).collect::<Result<Vec<_>, _>>()
//! })?;
//! drop(compiled);
//! assert_eq!(results[1].as_slice::<i64>(), Some(&[3, 4][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Scalars go in as `Value::from(1.5f32)` and come out by [`Value::get`]; a struct's fields come out by
//! [`Value::field`], a dictionary by `tovec` in the program.
//!
//! Errors are values: [`Errors`] prints as a person reads it, with the lines of the text, and a [`RuntimeError`] has the
//! place that raised it.
//!
//! ```
//! use weld::{Context, Options, Program, Value};
//!
//! let errors = Program::parse("|x: i64| x + y").unwrap_err();
//! assert_eq!(errors.diagnostics[0].message, "unknown name `y`");
//!
//! let program = Program::parse("|x: i64| 10L / x")?.compile(&Options { threads: 2, ..Options::default() })?;
//! let error = program.run(&[Value::i64(0)]).unwrap_err();
//! assert_eq!((error.message.as_str(), error.span.start), ("division by zero", 9));
//! assert!(program.show(&error).contains("program:1:10"));
//!
//! // With at most a megabyte of memory; `Context` also has the flag that stops a run.
//! let large = Program::parse("|n: i64| len(map(rangeiter(0L, n, 1L), |x| [x]))")?.compile(&Options::default())?;
//! let limited = large.run_in(&Context::with_memory(1 << 20), &[Value::i64(1_000_000)]);
//! assert!(limited.unwrap_err().to_string().starts_with("OutOfMemory"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrays;
mod program;

pub use arrays::{ArrayError, from_arrow, to_arrow};
pub use program::{Compiled, Context, Errors, Program};
pub use weld_codegen::{ColumnView, CompileError, Cpu, Cudf, Native, OptLevel, Options, Value};
pub use weld_core::diag::{Diagnostic, ErrorKind, Span};
pub use weld_core::ir::Literal;
pub use weld_core::ty::{ScalarKind, Type};
pub use weld_core::{RuntimeError, RuntimeErrorKind};
