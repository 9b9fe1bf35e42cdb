//! Why a program could not be compiled.

use std::fmt;

use weld_core::diag::Span;

/// No program that passes the front end's checks gives anything but `Unsupported`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompileError {
    /// The compiler has no code for this; the program itself is fine.
    Unsupported { what: String, span: Span },
    /// LLVM refused or failed: a defect of this project.
    Llvm(String),
}

impl CompileError {
    pub(crate) fn unsupported(what: impl Into<String>, span: Span) -> CompileError {
        CompileError::Unsupported { what: what.into(), span }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Unsupported { what, .. } => write!(f, "not supported by the compiler: {what}"),
            CompileError::Llvm(message) => write!(f, "LLVM: {message}"),
        }
    }
}

impl std::error::Error for CompileError {}

impl From<inkwell::builder::BuilderError> for CompileError {
    fn from(error: inkwell::builder::BuilderError) -> CompileError {
        CompileError::Llvm(error.to_string())
    }
}

impl From<inkwell::support::LLVMString> for CompileError {
    fn from(error: inkwell::support::LLVMString) -> CompileError {
        CompileError::Llvm(error.to_string())
    }
}
