//! First runs: each query on each engine in a process of its own, as most people meet an engine.
//!
//! A process registers the tables, runs the query once and says how long that took; its own start is not in the time. The
//! engines take turns, so that both find the machine in the same state.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::report::{Measured, Report};
use super::suite::Suite;
use super::{RunArgs, files, folder};
use crate::engine::{self, Engine};
use crate::failure::{Failure, Result};

pub(super) fn run(suite: &Suite, args: &RunArgs) -> Result<()> {
    let numbers = suite.numbers(&args.queries)?;
    files::ensure(suite, &folder(suite, args), args.scale_factor)?;
    let partitions = args.partitions.map_or_else(engine::default_partitions, usize::from);
    let mut report = Report::new(suite, args, partitions)?;
    for number in numbers {
        report.add(measure(suite, args, number, partitions))?;
    }
    report.finish()
}

fn measure(suite: &Suite, args: &RunArgs, number: usize, partitions: usize) -> Measured {
    let mut measured = Measured::new(number);
    for _ in 0..args.iterations {
        for &engine in args.engine.list() {
            match first_run(suite, args, number, partitions, engine) {
                Ok((ms, rows)) => {
                    let side = measured.side(engine);
                    side.first_ms.get_or_insert(ms);
                    side.ms.push(ms);
                    measured.rows = rows;
                }
                Err(failure) => {
                    measured.error = Some(format!("{}: {}", engine.name(), failure.message()));
                    return measured;
                }
            }
        }
    }
    measured
}

/// The time of a query in a new process, and how many rows it gave.
fn first_run(
    suite: &Suite,
    args: &RunArgs,
    number: usize,
    partitions: usize,
    engine: Engine,
) -> Result<(f64, Option<usize>)> {
    let program = std::env::current_exe().map_err(Failure::new)?;
    let engine = match engine {
        Engine::Datafusion => "datafusion",
        Engine::Weld => "weld",
    };
    let mut command = Command::new(program);
    command.args([suite.name, "run", "--once", "--format", "json", "--engine", engine]);
    command.args(["--queries", &number.to_string(), "--partitions", &partitions.to_string()]);
    command.args(["--scale-factor", &args.scale_factor.to_string(), "--storage", &args.storage.to_string()]);
    command.arg("--data").arg(folder(suite, args));
    for (name, value) in &args.settings {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    let output = command.stdin(Stdio::null()).output().map_err(Failure::new)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let object: Value = match serde_json::from_str(text.trim()) {
        Ok(object) => object,
        Err(_) => return Err(Failure::new(String::from_utf8_lossy(&output.stderr).trim())),
    };
    if let Some(error) = object["error"].as_str() {
        return Err(Failure::new(error));
    }
    let ms = object["first_ms"][engine].as_f64().ok_or_else(|| Failure::new("a process gave no time"))?;
    Ok((ms, object["rows"].as_u64().map(|rows| rows as usize)))
}
