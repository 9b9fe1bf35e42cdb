//! `weld eval`: JSON lines in, JSON lines out, in order; one bad line never ends the stream.
//!
//! ```text
//! {"id": 1, "program": "|x: i64| x + 1L", "args": [{"type": "i64", "value": 41}]}
//! {"id": 1, "type": "i64", "value": 42}
//! {"id": 2, "program": "1 +", "args": []}
//! {"id": 2, "error": {"kind": "parse", "message": "..", "line": 1, "column": 4}}
//! ```

use std::io::{self, BufRead};
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::Args as ClapArgs;
use serde_json::{Value as Json, json};
use weld_core::diag::{Diagnostic, ErrorKind, Span, line_column};
use weld_core::interp;
use weld_core::ir::Program;

use crate::failure::Result;
use crate::output;
use crate::program::{self, Settings};

#[derive(ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    settings: Settings,
}

/// A program of a stream may not hold it up for longer, unless `--time-limit` says so.
const TIME_LIMIT_SECONDS: u64 = 10;

pub(crate) fn run(args: Args) -> Result<()> {
    let settings = args.settings.with_default_time_limit(TIME_LIMIT_SECONDS);
    for line in io::stdin().lock().split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if !line.trim().is_empty() {
            output::line(&answer(&line, &settings).to_string())?;
        }
    }
    Ok(())
}

fn answer(line: &str, settings: &Settings) -> Json {
    let request: Json = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let message = format!("the line is not JSON: {error}");
            return json!({"id": null, "error": {"kind": "parse", "message": message, "line": line, "column": column}});
        }
    };
    let id = request["id"].clone();
    let Some(source) = request["program"].as_str() else {
        let error = Error { source: "", diagnostic: complaint(ErrorKind::Parse, "`program` must be a string") };
        return json!({"id": id, "error": error.to_json()});
    };
    // A panic is a defect of this project; it becomes that line's error.
    let result = catch_unwind(AssertUnwindSafe(|| evaluate(source, &request["args"], settings)));
    let result = result.unwrap_or_else(|_| Err(complaint(ErrorKind::Runtime, "internal error: the engine panicked")));
    match result {
        Ok((ty, value)) => json!({"id": id, "type": ty, "value": value}),
        Err(diagnostic) => json!({"id": id, "error": Error { source, diagnostic }.to_json()}),
    }
}

fn evaluate(source: &str, args: &Json, settings: &Settings) -> std::result::Result<(String, Json), Diagnostic> {
    let program = settings.program(source).map_err(first)?;
    let args = arguments(program.program(), args)?;
    let value = settings.run(&program, &args)?;
    Ok((program.program().body.ty.to_string(), interp::json::to_json(&value)))
}

/// Reads `[{"type": .., "value": ..}, ..]` and checks it against the parameters.
fn arguments(program: &Program, args: &Json) -> std::result::Result<Vec<interp::Value>, Diagnostic> {
    let wrong = |message: String| complaint(ErrorKind::Type, message);
    let empty = Vec::new();
    let args = match args {
        Json::Null => &empty,
        Json::Array(args) => args,
        _ => return Err(wrong("`args` must be an array".to_owned())),
    };
    if args.len() != program.params.len() {
        return Err(wrong(format!("{}, not {}", program::takes(program.params.len()), args.len())));
    }
    let read = |(index, arg): (usize, &Json)| {
        let wrong = |message: String| complaint(ErrorKind::Type, format!("argument {}: {message}", index + 1));
        let param = &program.params[index].ty;
        let Some(value) = arg.get("value") else {
            return Err(wrong(r#"it must be {"type": .., "value": ..}"#.to_owned()));
        };
        if let Some(ty) = arg.get("type") {
            let text = ty.as_str().ok_or_else(|| wrong("`type` must be a string".to_owned()))?;
            let ty = weld_core::parse_type(text).map_err(|errors| wrong(first(errors).message))?;
            if ty != *param {
                return Err(wrong(format!("the parameter's type is {param}, the argument's {ty}")));
            }
        }
        interp::json::from_json(value, param).map_err(wrong)
    };
    args.iter().enumerate().map(read).collect()
}

/// The first of several errors: the others may follow from it.
fn first(diagnostics: Vec<Diagnostic>) -> Diagnostic {
    let unknown = || complaint(ErrorKind::Parse, "the program is wrong");
    diagnostics.into_iter().next().unwrap_or_else(unknown)
}

fn complaint(kind: ErrorKind, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(kind, Span::NONE, message)
}

struct Error<'a> {
    source: &'a str,
    diagnostic: Diagnostic,
}

impl Error<'_> {
    fn to_json(&self) -> Json {
        let Diagnostic { kind, message, span, .. } = &self.diagnostic;
        let (line, column) = line_column(self.source, span.start);
        json!({"kind": kind.to_string(), "message": message, "line": line, "column": column})
    }
}
