//! Weld programs from Rust, in Weld's own language and others: parse, compile, run over slices and Arrow arrays.
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
//! Errors are values: [`Errors`] prints as a person reads it, with the lines of the text, and a [`RuntimeError`] has
//! the place that raised it.
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
//!
//! # Functions of other languages
//!
//! A [`Definition`] is a function of a text in one of the languages of `docs/functions.md`; [`Definition::check`] makes
//! a program of it. Matrices, fields and tensors are flat and row-major; a [`Shape`] says how each argument and the
//! result lie. The Toy Tensor Language, whose types say everything:
//!
//! ```
//! use weld::{Definition, Options, Program, Value};
//!
//! let text = "function float dot(matrix<float>[?] a, matrix<float>[?] b) {
//!   var matrix<float>[?] p = a * b; var float s; var int i;
//!   for (i in 0...p $ 0 by 1) s = s + p{i};
//!   return s;
//! }";
//! let dot = Definition::new("ttl", text).check()?;
//! let compiled = Program::of_function(&dot).compile(&Options::default())?;
//! let vector = |data: &[f32]| Value::vector(data.to_vec());
//! assert_eq!(compiled.run(&[vector(&[1.0, 2.0]), vector(&[3.0, 4.0])])?.get::<f32>(), Some(11.0));
//!
//! // Errors of runs name the definition and the line.
//! let error = compiled.run(&[vector(&[1.0]), vector(&[3.0, 4.0])]).unwrap_err();
//! assert!(compiled.show(&error).contains("dot, line 2: `*` needs two matrices of one shape"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Stencils in GTScript take the sizes of their fields from [`Definition::list`] and the compute domain:
//!
//! ```
//! use weld::{Definition, Options, Program, Value};
//!
//! let text = "\
//! @gtscript.stencil
//! def smooth(t: Field[K, float64], s: Field[K, float64]):
//!     with computation(FORWARD):
//!         with interval(0, 1):
//!             s = t
//!         with interval(1, None):
//!             s = 0.5 * t + 0.5 * s[-1]
//! ";
//! let smooth = Definition::new("gtscript", text).list("t", [3]).list("s", [3]).domain([1, 1, 3]).check()?;
//! assert_eq!(smooth.result_type, "{s: Field[K, float64]}");
//! let compiled = Program::of_function(&smooth).compile(&Options::default())?;
//! let result = compiled.run(&[Value::vector(vec![4.0, 8.0, 0.0]), Value::vector(vec![0.0; 3])])?;
//! let s = result.field(0).ok_or("a record of all fields that are written")?;
//! assert_eq!(s.as_slice::<f64>(), Some(&[4.0, 6.0, 3.0][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! OCANNL's tensors have three kinds of axes; gradients follow the value:
//!
//! ```
//! use weld::{Definition, Options, Program, Value};
//!
//! let text = r#"let%op miss x y = ("w" * x - y) **. 2.0"#;
//! let miss = Definition::new("ocannl", text).list("x", [2]).list("y", [1]).tensor("w", [], [1], [2]).gradient("w").check()?;
//! let compiled = Program::of_function(&miss).compile(&Options::default())?;
//! let vector = |data: &[f32]| Value::vector(data.to_vec());
//! let result = compiled.run(&[vector(&[3.0, 1.0]), vector(&[4.0]), vector(&[1.0, 2.0])])?;
//! let (value, gradient) = (result.field(0).ok_or("the value")?, result.field(1).ok_or("of `w`")?);
//! assert_eq!(value.as_slice::<f32>(), Some(&[1.0][..]));
//! assert_eq!(gradient.as_slice::<f32>(), Some(&[6.0, 2.0][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Functions call others of a [`Library`], whatever their languages, and are compiled with them into one loop:
//!
//! ```
//! use std::sync::Arc;
//! use weld::{Definition, Library, Options, Program, Value};
//!
//! let mut library = Library::default();
//! library.insert("half", Arc::new(Definition::new("weld", "|x: f32| x * 0.5f").check()?));
//! let text = "function float mean(float a, float b) { return half(a + b); }";
//! let mean = Definition::new("ttl", text).library(&library).check()?;
//! let compiled = Program::of_function(&mean).compile(&Options::default())?;
//! assert_eq!(compiled.run(&[Value::from(1.0f32), Value::from(4.0f32)])?.get::<f32>(), Some(2.5));
//!
//! let errors = Definition::new("ttl", "function int f() { return 1.5; }").check().unwrap_err();
//! assert_eq!(errors.diagnostics[0].message, "the value that `f` returns: expected int, found float");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod definition;
mod program;

pub use definition::Definition;
pub use program::{Compiled, Context, Errors, Program};
pub use weld_arrow::{ArrayError, from_arrow, to_arrow};
pub use weld_codegen::{ColumnView, CompileError, Cpu, Cudf, Native, OptLevel, Options, Value};
pub use weld_core::diag::{Diagnostic, ErrorKind, Span};
pub use weld_core::ir::Literal;
pub use weld_core::ty::{ScalarKind, Type};
pub use weld_core::{RuntimeError, RuntimeErrorKind};
pub use weld_frontend::{Array, Axes, DataType, Function, Library, Param, Shape};
