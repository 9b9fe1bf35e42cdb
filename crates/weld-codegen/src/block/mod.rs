//! Blocks of LLVM IR, memory and traps: what the code of any program is made of. Nothing here knows expressions, values
//! or builders.
//!
//! A [`Unit`] is one LLVM module, a [`Code`] fills one function of it at a current position. Every function returns a
//! status: 0, or one plus the number of the [`Site`] that trapped.

mod code;
mod flow;
mod memory;
mod trap;
mod unit;

use crate::error::CompileError;

pub(crate) use code::Code;
pub(crate) use flow::Flow;
pub(crate) use memory::address;
pub(crate) use trap::Site;
pub(crate) use unit::{ColumnScope, Filled, Unit};

pub(crate) type Res<T> = Result<T, CompileError>;

/// LLVM's number of the calling convention whose callee keeps (nearly) all registers of its caller.
const PRESERVE_MOST: u32 = 14;

/// An error in this crate itself.
pub(crate) fn internal(message: &str) -> CompileError {
    CompileError::Llvm(format!("internal: {message}"))
}
