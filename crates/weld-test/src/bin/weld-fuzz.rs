//! Generates programs without end and runs each on every engine. Prints each disagreement made small.
//!
//! `weld-fuzz --minutes 30 [--seed N] [--size N] [--stop-after FINDS]`. Exits with 1 if anything was found.
//!
//! The work is done by a child process that says which seed it tries, so that a crash of compiled code is a find like
//! any other.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use weld_core::interp::json::to_json;
use weld_test::differential::{Verdict, check};
use weld_test::generate::{Generated, program};
use weld_test::shrink::shrink;

#[global_allocator]
static ALLOCATOR: weld_runtime::Poison = weld_runtime::Poison;

struct Options {
    minutes: f64,
    seed: u64,
    size: Option<usize>,
    stop_after: usize,
    /// This is the child.
    worker: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options { minutes: 1.0, seed: 0, size: None, stop_after: 10, worker: false };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        if name == "--worker" {
            options.worker = true;
            continue;
        }
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
    if options.worker {
        work(&options);
        return ExitCode::SUCCESS;
    }
    match supervise(&options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

fn size_of(options: &Options, seed: u64) -> usize {
    options.size.unwrap_or(6 + (seed % 40) as usize)
}

/// Tries one seed after the other until it is killed. Speaks in lines: `try SEED`, `agree`, `skip`, `find`, and text.
fn work(options: &Options) {
    // Panics are reported with the program that caused them.
    std::panic::set_hook(Box::new(|_| {}));
    for seed in options.seed.. {
        let size = size_of(options, seed);
        println!("try {seed}");
        let made = program(seed, size);
        match check(&made, seed % 16 == 0) {
            Verdict::Agree => println!("agree"),
            Verdict::Skipped => println!("skip"),
            Verdict::Differ(_) => {
                report(seed, size, &made);
                println!("find");
            }
        }
    }
}

/// Restarts the worker behind whatever kills it. Gives the number of finds.
fn supervise(options: &Options) -> std::io::Result<usize> {
    let end = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    let (mut agree, mut skipped, mut finds) = (0u64, 0u64, 0usize);
    let mut seed = options.seed;
    while Instant::now() < end && finds < options.stop_after {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--worker", "--seed", &seed.to_string()]).stdout(Stdio::piped());
        if let Some(size) = options.size {
            command.args(["--size", &size.to_string()]);
        }
        let mut child = command.spawn()?;
        let Some(out) = child.stdout.take() else { break };
        for line in BufReader::new(out).lines() {
            let line = line?;
            match line.as_str() {
                "agree" => agree += 1,
                "skip" => skipped += 1,
                "find" => finds += 1,
                text => match text.strip_prefix("try ") {
                    Some(number) => seed = number.parse().unwrap_or(seed),
                    None => println!("{text}"),
                },
            }
            if Instant::now() >= end || finds >= options.stop_after {
                child.kill()?;
            }
        }
        let status = child.wait()?;
        if Instant::now() < end && finds < options.stop_after {
            finds += 1;
            let size = size_of(options, seed);
            println!("---\n# seed {seed}, size {size}\n{}\n\nthe worker died: {status}\n", program(seed, size).program);
        }
        seed += 1;
    }
    println!("{agree} programs agree, {skipped} skipped, {finds} finds; the last seed was {seed}");
    Ok(finds)
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
