//! One program, many ways of running it, one result: what differential testing checks.
//!
//! The interpreter on the program as it is gives the expectation. Then it runs the program after every pass of the
//! optimizer, and with each pass left out, and the compiler runs it optimised or not, at several levels and numbers of
//! threads. Then it is disturbed: memory is refused or the run cancelled at some allocation.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use weld_codegen::{OptLevel, Tiers};
use weld_core::RuntimeErrorKind;
use weld_core::interp::json::to_json;
use weld_core::interp::{self, Limits, Value};
use weld_core::ir::Program;
use weld_core::opt;

use crate::chunks::ByChunks;
use crate::compare::Rule;
use crate::engine::{Engine, Failure};
use crate::fault::{Fault, FaultyPool};
use crate::generate::Generated;

/// A run's result as far as engines must agree.
#[derive(Clone, Debug)]
enum Outcome {
    Value(Value),
    Error(RuntimeErrorKind, String),
}

/// What became of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Agree,
    /// It takes too long or too much memory to tell.
    Skipped,
    /// Who disagrees, and how.
    Differ(String),
}

const STEPS: u64 = 200_000;

fn interpret(program: &Program, args: &[Value], steps: u64) -> Outcome {
    let limits = Limits { memory: 256 << 20, steps, ..Limits::default() };
    match interp::run_with_host(program, args, &limits, &crate::host::call) {
        Ok(value) => Outcome::Value(value),
        Err(error) => Outcome::Error(error.kind, error.message),
    }
}

/// Whether engines that both run the program as it was written, if only for its error, agree.
fn agree(a: &Outcome, b: &Outcome) -> bool {
    match (a, b) {
        (Outcome::Error(kind, message), Outcome::Error(other, said))
            if kind.is_of_the_program() && other.is_of_the_program() =>
        {
            (kind, message) == (other, said)
        }
        _ => agree_but_for_the_error(a, b),
    }
}

/// Whether a program that the optimizer changed gives the same: of several errors it may raise another one.
fn agree_but_for_the_error(a: &Outcome, b: &Outcome) -> bool {
    match (a, b) {
        (Outcome::Value(a), Outcome::Value(b)) => Rule::EXACT.equal(a, b),
        (Outcome::Error(..), Outcome::Error(b, _)) => *b != RuntimeErrorKind::Internal,
        _ => false,
    }
}

fn show(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Value(value) => {
            let mut text = to_json(value).to_string();
            if let Some((at, _)) = text.char_indices().nth(400) {
                text.truncate(at);
                text.push_str("...");
            }
            text
        }
        Outcome::Error(kind, message) => format!("{kind}: {message}"),
    }
}

/// Checks one program. `thorough` also leaves out each pass in turn.
pub fn check(made: &Generated, thorough: bool) -> Verdict {
    if let Err(errors) = weld_core::ir::verify(&made.program) {
        return Verdict::Differ(format!("the generator made a bad program: {errors:?}"));
    }
    let expected = interpret(&made.program, &made.args, STEPS);
    match expected {
        Outcome::Error(RuntimeErrorKind::Cancelled | RuntimeErrorKind::OutOfMemory, _) => return Verdict::Skipped,
        Outcome::Error(RuntimeErrorKind::Internal, _) => {
            return Verdict::Differ("the interpreter says Internal".into());
        }
        _ => {}
    }
    let engines: [&dyn Fn() -> Result<(), String>; 5] = [
        &|| passes(made, &expected),
        &|| if thorough { without_passes(made, &expected) } else { Ok(()) },
        &|| compiled(made, &expected, thorough),
        &|| disturbed(made, &expected),
        &|| by_chunks(made, &expected),
    ];
    for engine in engines {
        match catch_unwind(AssertUnwindSafe(engine)) {
            Ok(Ok(())) => {}
            Ok(Err(what)) => return Verdict::Differ(what),
            Err(panic) => return Verdict::Differ(format!("panic: {}", panic_message(&*panic))),
        }
    }
    Verdict::Agree
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?").to_string()
}

fn compare(who: &str, program: &Program, args: &[Value], expected: &Outcome) -> Result<(), String> {
    // Optimised programs may need more steps: chunked loops count twice.
    let found = interpret(program, args, 4 * STEPS);
    if agree_but_for_the_error(expected, &found) {
        return Ok(());
    }
    Err(format!("{who}: {} became {}\n{program}", show(expected), show(&found)))
}

/// After every pass.
fn passes(made: &Generated, expected: &Outcome) -> Result<(), String> {
    let first_wrong = RefCell::new(Ok(()));
    let dump = |name: &str, program: &Program| {
        let mut first_wrong = first_wrong.borrow_mut();
        if first_wrong.is_ok() {
            *first_wrong = compare(&format!("after {name}"), program, &made.args, expected);
        }
    };
    let mut program = made.program.clone();
    let report = opt::optimize(&mut program, &opt::Config { verify: true, dump: Some(&dump), ..Default::default() });
    broken(&report)?;
    first_wrong.into_inner()
}

/// With each pass left out.
fn without_passes(made: &Generated, expected: &Outcome) -> Result<(), String> {
    for name in opt::pass_names() {
        let mut program = made.program.clone();
        let disabled = [name.to_string()].into();
        let report = opt::optimize(&mut program, &opt::Config { verify: true, disabled, ..Default::default() });
        broken(&report)?;
        compare(&format!("without {name}"), &program, &made.args, expected)?;
    }
    Ok(())
}

/// By the compiler: all ways if `thorough`, otherwise one, which depends on the program.
fn compiled(made: &Generated, expected: &Outcome, thorough: bool) -> Result<(), String> {
    let limits = Limits { memory: 1 << 30, ..Limits::default() };
    let jits: Vec<Engine> = Engine::ALL.into_iter().filter(|engine| engine.jit.is_some()).collect();
    let chosen = made.program.names.len() % jits.len();
    for (i, engine) in jits.into_iter().enumerate() {
        if !(thorough || i == chosen) {
            continue;
        }
        let found = match engine.run(&made.program, &made.args, &limits) {
            Ok(value) => Outcome::Value(value),
            Err(Failure::Runtime(error)) => Outcome::Error(error.kind, error.message),
            Err(Failure::Unsupported(_)) => continue,
            Err(failure) => return Err(format!("{engine}: {failure}")),
        };
        if !agree(expected, &found) {
            return Err(format!("{engine}: {} became {}", show(expected), show(&found)));
        }
    }
    Ok(())
}

/// Compiled, with the rows of a stream in chunks.
fn by_chunks(made: &Generated, expected: &Outcome) -> Result<(), String> {
    let ways = [
        (false, OptLevel::O0, Tiers::Single),
        (true, OptLevel::O2, Tiers::Single),
        (true, OptLevel::O2, Tiers::CheapFirst),
        (true, OptLevel::O2, Tiers::Alternate),
    ];
    for (optimised, level, tiers) in ways {
        for combined in [false, true] {
            let way = ByChunks { optimised, level, tiers, combined };
            let found = match way.run(&made.program, &made.args) {
                None => continue,
                Some(Ok(value)) => Outcome::Value(value),
                Some(Err(error)) => Outcome::Error(error.kind, error.message),
            };
            if !agree_but_for_the_error(expected, &found) {
                return Err(format!("{way:?}: {} became {}", show(expected), show(&found)));
            }
        }
    }
    Ok(())
}

/// Compiled, with a fault at some allocation: the result is the same, or the error is that of the fault. In the end no
/// memory is taken any more.
fn disturbed(made: &Generated, expected: &Outcome) -> Result<(), String> {
    let jits: Vec<Engine> = Engine::ALL.into_iter().filter(|engine| engine.jit.is_some()).collect();
    let number = made.program.body.size();
    let engine = jits[number % jits.len()];
    let (fault, error) = match number / jits.len() % 2 {
        0 => (Fault::Refuse, RuntimeErrorKind::OutOfMemory),
        _ => (Fault::Cancel, RuntimeErrorKind::Cancelled),
    };
    let after = (number / 2 / jits.len() % 24) as u64;
    let limits = Limits::default();
    let pool = Arc::new(FaultyPool::new(fault, after, limits.cancel.clone()));
    let wrong = match engine.run_in(&made.program, &made.args, &limits, &pool) {
        Ok(value) if !agree(expected, &Outcome::Value(value.clone())) => Some(show(&Outcome::Value(value))),
        Err(Failure::Runtime(found)) if found.kind != error => {
            let found = Outcome::Error(found.kind, found.message);
            (!agree(expected, &found)).then(|| show(&found))
        }
        Err(failure @ Failure::Broken(_)) => Some(failure.to_string()),
        _ if pool.used() != 0 => Some(format!("{} bytes that are not given back", pool.used())),
        _ => None,
    };
    match wrong {
        Some(found) => Err(format!("{engine}, {fault:?} after {after}: {} became {found}", show(expected))),
        None => Ok(()),
    }
}

fn broken(report: &opt::Report) -> Result<(), String> {
    match report.broken.first() {
        Some((name, errors)) => Err(format!("{name} broke the program: {errors}")),
        None => Ok(()),
    }
}
