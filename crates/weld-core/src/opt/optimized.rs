//! A program beside what the optimizer made of it: the second is run, the first says which error is raised.
//!
//! ```
//! use weld_core::{interp, opt};
//! let written = weld_core::parse_program("|x: i64| let a = 1L / x; let b = lookup([1L], 9L); b - a").unwrap();
//! let program = opt::Optimized::new(written, &opt::Config::default());
//! let error = program.run(|program| interp::run(program, &[interp::Value::i64(0)], &interp::Limits::default()));
//! assert_eq!(error.unwrap_err().message, "division by zero");
//! ```
//!
//! Fusion and inlining change the order in which expressions are evaluated, so of several errors another one may come
//! first: fused loops reach the second's first element before the first's last. Passes that kept the order would fuse
//! nothing that can fail. As an error stays an error, the program as it was written is run for its error, and only
//! then: what succeeds costs nothing.

use super::{Config, Report, optimize};
use crate::RuntimeError;
use crate::ir::Program;

/// A program, optimised.
#[derive(Clone, Debug)]
pub struct Optimized {
    program: Program,
    /// As it was before, if it was optimised.
    written: Option<Program>,
    report: Report,
}

impl Optimized {
    /// Optimises a program that verifies, and keeps it as it was written.
    pub fn new(written: Program, config: &Config) -> Optimized {
        let mut program = written.clone();
        let report = optimize(&mut program, config);
        Optimized { program, written: Some(written), report }
    }

    /// The program as it is.
    pub fn none(written: Program) -> Optimized {
        Optimized { program: written, written: None, report: Report::default() }
    }

    /// The program to run.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// What the passes have done; nothing where the program was not optimised.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Runs the optimised program with `run`. Errors are those of the program as it was written, but for those of the
    /// run itself, such as that memory or time is up.
    pub fn run<V>(&self, mut run: impl FnMut(&Program) -> Result<V, RuntimeError>) -> Result<V, RuntimeError> {
        let error = match run(&self.program) {
            Err(error) if error.kind.is_of_the_program() => error,
            other => return other,
        };
        let first = self.written.as_ref().and_then(|written| run(written).err());
        Err(first.filter(|first| first.kind.is_of_the_program()).unwrap_or(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::{self, Limits, Value};

    fn error(source: &str, config: &Config) -> (String, usize) {
        let mut runs = 0;
        let program = Optimized::new(crate::parse_program(source).unwrap(), config);
        let args = [Value::i64(0)];
        let result = program.run(|program| {
            runs += 1;
            interp::run(program, &args, &Limits::default())
        });
        (result.map_or_else(|error| error.message, |value| interp::json::to_json(&value).to_string()), runs)
    }

    #[test]
    fn the_first_error_in_the_order_of_the_text_is_raised() {
        let fused = "|x: i64| let a = map([1L, x], |y| 1L / y); let b = map([1L, x], |y| lookup([5L], y)); {a, b}";
        assert_eq!(error(fused, &Config::default()), ("division by zero".into(), 2));
        let swapped = "|x: i64| let b = map([1L, x], |y| lookup([5L], y)); let a = map([1L, x], |y| 1L / y); {a, b}";
        assert_eq!(error(swapped, &Config::default()).0, "index 1 is out of bounds: the vector's length is 1");
    }

    #[test]
    fn success_and_limits_run_once() {
        assert_eq!(error("|x: i64| x + 1L", &Config::default()), ("1".into(), 1));
        let program = Optimized::new(crate::parse_program("[1, 2]").unwrap(), &Config::default());
        let mut runs = 0;
        let result = program.run(|program| {
            runs += 1;
            interp::run(program, &[], &Limits { memory: 1, ..Limits::default() })
        });
        assert_eq!((result.unwrap_err().kind, runs), (crate::RuntimeErrorKind::OutOfMemory, 1));
    }
}
