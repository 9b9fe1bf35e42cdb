//! Generates programs without end and runs each on every engine. Prints each disagreement made small.
//!
//! `weld-fuzz --minutes 30 [--seed N] [--size N] [--stop-after FINDS]`. Exits with 1 if anything was found.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use weld_core::interp::json::to_json;
use weld_test::differ::{Verdict, check};
use weld_test::generate::{Generated, program};
use weld_test::shrink::shrink;

struct Options {
    minutes: f64,
    seed: u64,
    size: Option<usize>,
    stop_after: usize,
}

fn options() -> Result<Options, String> {
    let mut options = Options { minutes: 1.0, seed: 0, size: None, stop_after: 10 };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let bad = |e: &dyn std::fmt::Display| format!("{name} {value}: {e}");
        match name.as_str() {
            "--minutes" => options.minutes = value.parse().map_err(|e| bad(&e))?,
            "--seed" => options.seed = value.parse().map_err(|e| bad(&e))?,
            "--size" => options.size = Some(value.parse().map_err(|e| bad(&e))?),
            "--stop-after" => options.stop_after = value.parse().map_err(|e| bad(&e))?,
            _ => return Err(format!("no option is called {name}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(e) => {
            eprintln!("{e}\nusage: weld-fuzz [--minutes M] [--seed N] [--size N] [--stop-after FINDS]");
            return ExitCode::from(2);
        }
    };
    // Panics are reported with the program that caused them.
    std::panic::set_hook(Box::new(|_| {}));
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let (mut tried, mut skipped, mut finds) = (0u64, 0u64, 0usize);
    let mut seed = options.seed;
    while Instant::now() < end && finds < options.stop_after {
        let size = options.size.unwrap_or(10 + (seed % 90) as usize);
        let made = program(seed, size);
        match check(&made, seed % 8 == 0) {
            Verdict::Agree => tried += 1,
            Verdict::Skipped => skipped += 1,
            Verdict::Differ(_) => {
                finds += 1;
                report(seed, size, &made);
            }
        }
        seed += 1;
        if (tried + skipped) % 20_000 == 0 {
            eprintln!("{tried} programs agree, {skipped} skipped, {finds} disagree; seed {seed}");
        }
    }
    println!("{tried} programs agree, {skipped} skipped, {finds} disagree");
    if finds == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn report(seed: u64, size: usize, made: &Generated) {
    let small = shrink(made, &mut |candidate| matches!(check(candidate, true), Verdict::Differ(_)));
    let args: Vec<String> = small.args.iter().map(|arg| to_json(arg).to_string()).collect();
    let what = match check(&small, true) {
        Verdict::Differ(what) => what,
        _ => "no longer differs".into(),
    };
    println!("---\n# seed {seed}, size {size}\n# args: [{}]\n{}\n\n{what}\n", args.join(", "), small.program);
}
