//! LLVM's start-up, on a thread of its own: the first compilation of a process pays for loading and for tables that are
//! made once.

use std::sync::{Mutex, Once, PoisonError};
use std::thread::JoinHandle;

use weld_core::parse_program;

use crate::compiled::compile;
use crate::error::CompileError;
use crate::options::Options;

const PROGRAM: &str =
    "|s: stream[i64], k: i64| result(for(s, dictmerger[i64,i64,+], |b,i,x| merge(b, {x % k, x * k})))";

static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// Compiles something small in the background, once a process, so that the first query does not wait for LLVM to start.
/// Holds nothing up.
pub fn warm_up() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let started = std::thread::Builder::new().name("weld-warm-up".to_owned()).spawn(|| {
            // Whoever compiles next meets the same error.
            let _ = compile_something();
        });
        let Ok(thread) = started else { return };
        *THREAD.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        // SAFETY: the function may be called at any time, and does not unwind.
        unsafe { libc::atexit(wait) };
    });
}

fn compile_something() -> Result<(), CompileError> {
    let Ok(program) = parse_program(PROGRAM) else { return Ok(()) };
    compile(&program, &Options::default())?.prepare(&[crate::ColumnLayout::fixed(weld_core::ty::ScalarKind::I64)])
}

/// A process that ends takes LLVM's tables down: not while they are in use.
extern "C" fn wait() {
    let thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner).take();
    let _ = thread.map(JoinHandle::join);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_compiles() {
        compile_something().expect("compiles");
        warm_up();
        warm_up();
        wait();
    }
}
