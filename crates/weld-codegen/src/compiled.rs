//! A compiled program and its runs.

use std::sync::Arc;
use std::time::Duration;

use weld_core::RuntimeError;
use weld_core::ir::Program;
use weld_runtime::Context;

use crate::chunk::{Chunk, ColumnLayout};
use crate::error::CompileError;
use crate::options::Options;
use crate::value::{ColumnView, Value};

/// Native code of a program; freed when dropped.
#[derive(Debug)]
pub struct Compiled {
    program: Program,
}

/// Compiles a program, which the optimizer is done with.
pub fn compile(program: &Program, _options: &Options) -> Result<Arc<Compiled>, CompileError> {
    Err(CompileError::unsupported("everything, for now", program.body.span))
}

impl Compiled {
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Total over everything compiled so far.
    pub fn compile_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Runs a program. A stream parameter takes a whole vector.
    pub fn run(&self, _context: &Arc<Context>, _args: &[Value]) -> Result<Value, RuntimeError> {
        Err(unready(&self.program))
    }

    /// Starts one partition's run of a program with a stream: evaluates what stands before the loop over the stream.
    /// `args` are the other parameters in order.
    pub fn stream(self: &Arc<Self>, _context: Arc<Context>, _args: Vec<Value>) -> Result<Stream, RuntimeError> {
        Err(unready(&self.program))
    }

    /// Compiles the loop over the stream for chunks of these layouts, ahead of their arrival.
    pub fn prepare(&self, _layouts: &[ColumnLayout]) -> Result<(), CompileError> {
        Err(CompileError::unsupported("streams, for now", self.program.body.span))
    }

    /// LLVM IR of everything compiled so far, after its passes.
    pub fn llvm_ir(&self) -> String {
        String::new()
    }

    /// Assembly of everything compiled so far.
    pub fn assembly(&self) -> String {
        String::new()
    }
}

fn unready(program: &Program) -> RuntimeError {
    RuntimeError::new(weld_core::RuntimeErrorKind::Internal, program.body.span, "not compiled")
}

/// One partition's run of a program with a stream.
#[derive(Debug)]
pub struct Stream {
    compiled: Arc<Compiled>,
}

impl Stream {
    /// Runs the loop over a chunk. The layouts may differ from chunk to chunk: each combination is compiled once.
    ///
    /// Strings that the stream's builders keep are copied, except in rows that were appended.
    pub fn process(&mut self, _chunk: &Chunk<'_>) -> Result<(), RuntimeError> {
        Err(unready(&self.compiled.program))
    }

    /// Rows appended since the last call, for a program whose body is `result` of an appender loop over the stream.
    /// `None` for other programs. Long strings point into the last chunk or into arguments.
    pub fn rows(&mut self) -> Option<Rows> {
        None
    }

    /// Merges the builders of another partition's run of the same program into this one's.
    pub fn combine(&mut self, _other: Stream) -> Result<(), RuntimeError> {
        Err(unready(&self.compiled.program))
    }

    /// Evaluates what stands after the loop.
    pub fn finish(self) -> Result<Value, RuntimeError> {
        Err(unready(&self.compiled.program))
    }
}

/// Rows that a stream has appended: a vector that owns its columns, except the bytes of long strings.
#[derive(Debug)]
pub struct Rows {
    value: Value,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.value.len().unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn columns(&self) -> Vec<ColumnView<'_>> {
        self.value.columns()
    }

    /// The rows as a vector; its owners keep the columns alive.
    pub fn value(&self) -> &Value {
        &self.value
    }
}
