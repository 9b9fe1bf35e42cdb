//! First runs: each query on each engine in a process of its own, as most people meet an engine.
//!
//! A process registers the tables, runs the query once and says how long that took; its own start is not in the time.
//! The engines take turns, so that both find the machine in the same state.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::Options;
use super::report::{Measured, Report};
use super::suite::{Query, Suite};
use crate::engine::Engine;
use crate::failure::{Failure, Result};

pub(super) fn run(suite: &Suite, options: &Options) -> Result<()> {
    let mut report = Report::new(suite, options)?;
    for query in &suite.queries {
        report.add(measure(suite, options, query))?;
    }
    report.finish()
}

fn measure(suite: &Suite, options: &Options, query: &Query) -> Measured {
    let mut measured = Measured::new(query);
    for _ in 0..options.iterations {
        for &engine in options.engine.list() {
            match first_run(suite, options, query, engine) {
                Ok((ms, rows)) => {
                    let side = measured.side(engine);
                    side.first_ms.get_or_insert(ms);
                    side.ms.push(ms);
                    measured.rows = rows;
                }
                Err(failure) => {
                    measured.error = Some(failure.message().to_owned());
                    return measured;
                }
            }
        }
    }
    measured
}

/// The time of a query in a new process, and how many rows it gave.
fn first_run(suite: &Suite, options: &Options, query: &Query, engine: Engine) -> Result<(f64, Option<usize>)> {
    let program = std::env::current_exe().map_err(Failure::new)?;
    let engine_name = match engine {
        Engine::Datafusion => "datafusion",
        Engine::Weld => "weld",
    };
    let mut command = Command::new(program);
    command.args(&suite.command).arg(format!("-q={}", query.name));
    command.args(["--once", "--format", "json", "--engine", engine_name]);
    command.args(["--partitions", &options.partitions().to_string(), "--storage", &options.storage.to_string()]);
    for (name, value) in &options.settings {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    let output = command.stdin(Stdio::null()).output().map_err(Failure::new)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let object: Value = match serde_json::from_str(text.trim()) {
        Ok(object) => object,
        Err(_) => {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("{}: {}", engine.name(), error.trim())));
        }
    };
    if let Some(error) = object["error"].as_str() {
        return Err(Failure::new(error));
    }
    let ms = object["first_ms"][engine_name].as_f64().ok_or_else(|| Failure::new("a process gave no time"))?;
    Ok((ms, object["rows"].as_u64().map(|rows| rows as usize)))
}
