//! The interpreter: what a program means. Plain and slow; every engine must agree with it.
//!
//! ```
//! use weld_core::interp::{self, Limits, Value};
//! use weld_core::ir::{Expr, ExprKind, Literal, Names, Program, Annotations};
//! use weld_core::{diag::Span, ty::Type};
//! let kind = ExprKind::Literal(Literal::I64(42));
//! let body = Expr { ty: Type::I64, span: Span::NONE, kind, annotations: Annotations::NONE };
//! let program = Program { params: vec![], body, names: Names::default() };
//! assert_eq!(interp::run(&program, &[], &Limits::default()), Ok(Value::i64(42)));
//! ```
//!
//! It relies on what the verifier checks (types agree, names are bound, builders are linear) and answers a program that
//! breaks this with an `Internal` error. Loops run in order on one thread, so floats are summed strictly.

pub mod compare;
mod eval;
mod intrinsic;
mod iter;
pub mod json;
pub(crate) mod memory;
pub mod scalar;
pub mod serialize;
mod sort;
pub(crate) mod value;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use value::{Dictionary, Value, Vector};

use crate::diag::Span;
use crate::ir::Program;
use crate::runtime_error::{RuntimeError, RuntimeErrorKind};
use crate::ty::Type;

/// How many lanes the interpreter's SIMD values have. Real targets have other widths; no result depends on it but
/// through the index of `simditer`.
pub const LANES: usize = 4;

/// What a run may use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes that the run's values may occupy at one time.
    pub memory: usize,
    /// Loop iterations that the run may make, over all loops; `Cancelled` when they are used up.
    pub steps: u64,
    /// Set by another thread to stop the run.
    pub cancel: Arc<AtomicBool>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { memory: 4 << 30, steps: u64::MAX, cancel: Arc::default() }
    }
}

/// The functions that the host offers to `cudf`.
pub trait Host {
    /// Calls `name`; the result must be of type `result`. An error becomes the run's `Udf` error.
    fn call(&self, name: &str, args: &[Value], result: &Type) -> Result<Value, String>;
}

impl<F: Fn(&str, &[Value], &Type) -> Result<Value, String>> Host for F {
    fn call(&self, name: &str, args: &[Value], result: &Type) -> Result<Value, String> {
        self(name, args, result)
    }
}

/// Runs a program that calls no host functions.
pub fn run(program: &Program, args: &[Value], limits: &Limits) -> Result<Value, RuntimeError> {
    let no_host = |name: &str, _: &[Value], _: &Type| Err(format!("no function `{name}` is registered"));
    run_with_host(program, args, limits, &no_host)
}

/// Runs a program; `host` answers its `cudf` calls. A stream parameter takes the whole vector.
pub fn run_with_host(
    program: &Program,
    args: &[Value],
    limits: &Limits,
    host: &dyn Host,
) -> Result<Value, RuntimeError> {
    let fits = args.len() == program.params.len()
        && program.params.iter().zip(args).all(|(param, arg)| arg.has_type(&param.ty));
    if !fits {
        let types: Vec<String> = program.params.iter().map(|param| param.ty.to_string()).collect();
        let message = format!("the program takes arguments of types ({})", types.join(", "));
        return Err(RuntimeError::new(RuntimeErrorKind::Internal, Span::NONE, message));
    }
    eval::Run::new(program, args, limits, host).run(&program.body)
}
