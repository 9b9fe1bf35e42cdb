//! Weld IR to machine code through LLVM.
//!
//! [`compile`] takes an optimised [`Program`](weld_core::ir::Program) and gives a [`Compiled`], whose native code is
//! freed with it. A program without a stream parameter is [run](Compiled::run) at once; one with a stream gets a
//! [`Stream`] for each partition, which is fed [chunks](Chunk) and [finished](Stream::finish).
//!
//! ```
//! use std::sync::Arc;
//! use weld_codegen::{Options, Value, compile};
//! use weld_core::{ir, op::BinaryOp, ty::Type};
//! use weld_runtime::Context;
//!
//! // |x: i64| x * x
//! let mut names = ir::Names::default();
//! let x = names.fresh("x");
//! let expr = |kind| ir::Expr {
//!     ty: Type::I64,
//!     span: Default::default(),
//!     kind,
//!     annotations: ir::Annotations::NONE,
//! };
//! let var = || Box::new(expr(ir::ExprKind::Var(x)));
//! let body = expr(ir::ExprKind::Binary(BinaryOp::Mul, var(), var()));
//! let params = vec![ir::Param { sym: x, ty: Type::I64, stream: false, known: None }];
//! let compiled = compile(&ir::Program { params, body, names }, &Options::default())?;
//! let result = compiled.run(&Arc::new(Context::unlimited()), &[Value::i64(12)])?;
//! assert_eq!(result.as_i64(), Some(144));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The layers inside, from below: [`layout`] says how values look in memory, `analysis` finds facts about the program;
//! `block` makes blocks of LLVM IR, `values` fills them with values, `tables` with dictionaries, `builder` with
//! builders, `emit` with expressions and loops; `program` has the entry points. `jit` makes machine code of it, which
//! `store` keeps on disk. Nothing outside this crate sees LLVM.

mod analysis;
mod background;
mod block;
mod builder;
mod chunk;
mod compiled;
mod convert;
mod cudf;
mod emit;
mod error;
mod float_min_max;
mod jit;
pub mod layout;
mod machine;
mod options;
mod program;
mod sanitizer;
mod store;
mod tables;
mod target;
mod tier;
mod timing;
mod value;
mod values;

pub use analysis::loop_plan::FastPath;
pub use background::in_background;
pub use chunk::{Chunk, Column, ColumnLayout, Layout};
pub use compiled::{Compiled, Rows, Stream, compile, compile_keeping, loop_plans};
pub use cudf::{CValue, CVec, Cudf, ForeignHost};
pub use error::CompileError;
pub use options::{Cpu, OptLevel, Options};
pub use store::{CodeFolder, Keep, Usage};
pub use tier::{OPTIMISED_COST, Tiers};
pub use timing::{Size, Timing};
pub use value::{ColumnView, Native, Value};
