//! `weld eval [--language L]`: JSON lines in, JSON lines out, in order; one bad line never ends the stream.
//!
//! ```text
//! {"id": 1, "program": "|x: i64| x + 1L", "args": [{"type": "i64", "value": 41}]}
//! {"id": 1, "type": "i64", "value": 42}
//! {"id": 2, "program": "1 +", "args": []}
//! {"id": 2, "error": {"kind": "parse", "message": "..", "line": 1, "column": 4}}
//! ```
//!
//! A request may also have `language`, `entry` (the definition to call), `args` by name (`{"x": {"value": 1}}`),
//! `domain`, `wrt` and `explain`; docs/functions.md has them all.

use std::io::{self, BufRead};
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::Args as ClapArgs;
use serde_json::{Value as Json, json};
use weld_core::diag::{Diagnostic, ErrorKind, Span, line_column};
use weld_core::interp::Value;
use weld_frontend::{Function, Given, Language, Options};

use crate::failure::{Failure, Result};
use crate::output;
use crate::program::{self, Call, Settings};

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// The language of programs that do not say theirs
    #[arg(long, default_value = "weld", value_name = "LANGUAGE")]
    language: String,
    #[command(flatten)]
    settings: Settings,
}

/// A program of a stream may not hold it up for longer, unless `--time-limit` says so.
const TIME_LIMIT_SECONDS: u64 = 10;

pub(crate) fn run(args: Args) -> Result<()> {
    let settings = args.settings.with_default_time_limit(TIME_LIMIT_SECONDS);
    let language = weld_languages::by_name(&args.language);
    let language = language.ok_or_else(|| Failure::Usage(program::unknown_language(&args.language)))?;
    for line in io::stdin().lock().split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        if !line.trim().is_empty() {
            output::line(&answer(&line, language, &settings).to_string())?;
        }
    }
    Ok(())
}

/// An error with its place in the text.
#[derive(Debug)]
struct Wrong {
    diagnostic: Diagnostic,
    line: usize,
    column: usize,
}

impl Wrong {
    /// In a text. Of several errors the first: the others may follow from it.
    fn first(diagnostics: Vec<Diagnostic>, text: &str) -> Wrong {
        match diagnostics.into_iter().next() {
            Some(diagnostic) => Wrong::at(diagnostic, text),
            None => Wrong::request("the program is wrong"),
        }
    }

    fn at(diagnostic: Diagnostic, text: &str) -> Wrong {
        let (line, column) = line_column(text, diagnostic.span.start);
        Wrong { diagnostic, line, column }
    }

    /// Of what is no part of the text.
    fn request(message: impl Into<String>) -> Wrong {
        Wrong { diagnostic: Diagnostic::parse(Span::NONE, message), line: 1, column: 1 }
    }

    fn to_json(&self) -> Json {
        let Diagnostic { kind, message, hint, .. } = &self.diagnostic;
        let mut error = json!({"kind": kind.to_string(), "message": message, "line": self.line, "column": self.column});
        if let Some(hint) = hint {
            error["hint"] = hint.as_str().into();
        }
        error
    }
}

fn answer(line: &str, language: &'static dyn Language, settings: &Settings) -> Json {
    let request: Json = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let message = format!("the line is not JSON: {error}");
            return json!({"id": null, "error": {"kind": "parse", "message": message, "line": line, "column": column}});
        }
    };
    // A panic is a defect of this project; it becomes that line's error.
    let result = catch_unwind(AssertUnwindSafe(|| evaluate(&request, language, settings)));
    let panicked = |_| {
        let diagnostic = Diagnostic::new(ErrorKind::Runtime, Span::NONE, "internal error: the engine panicked");
        Err(Wrong::at(diagnostic, ""))
    };
    let mut answer = result.unwrap_or_else(panicked).unwrap_or_else(|wrong| json!({"error": wrong.to_json()}));
    answer["id"] = request["id"].clone();
    answer
}

/// The answer but for its id.
fn evaluate(request: &Json, language: &'static dyn Language, settings: &Settings) -> std::result::Result<Json, Wrong> {
    let call = call(request, language)?;
    let function = settings.function(&call).map_err(|errors| Wrong::first(errors, call.text))?;
    let Some(values) = call.given.read(&function).map_err(|error| Wrong::at(error, call.text))? else {
        return Ok(json!({"type": function.result_type, "value": null}));
    };
    let program = settings.optimizer.optimized(function.program.clone());
    let located = |diagnostic: Diagnostic| {
        let (source, diagnostic) = function.source.located(diagnostic);
        Wrong::at(diagnostic, &source.text)
    };
    let value = settings.run(&program, &values).map_err(located)?;
    let mut answer = shown(&function, &value);
    if request["explain"] == true {
        answer["optimized"] = program.program().to_string().into();
    }
    Ok(answer)
}

/// A result with its type, and the gradients that were asked for.
fn shown(function: &Function, value: &Value) -> Json {
    let written = weld_frontend::json::write(value, &function.output());
    match function.gradients.is_empty() {
        true => json!({"type": function.result_type, "value": written}),
        false => {
            let of = |(name, _): &(String, _)| (name.clone(), written[name].clone());
            let grads: serde_json::Map<String, Json> = function.gradients.iter().map(of).collect();
            json!({"type": function.result_type, "value": written["value"], "grads": grads})
        }
    }
}

/// Reads a request.
fn call<'a>(request: &'a Json, language: &'static dyn Language) -> std::result::Result<Call<'a>, Wrong> {
    let text = |key: &str| match &request[key] {
        Json::Null => Ok(None),
        Json::String(text) => Ok(Some(text.as_str())),
        _ => Err(Wrong::request(format!("`{key}` must be a string"))),
    };
    let Some(program) = request["program"].as_str() else {
        return Err(Wrong::request("`program` must be a string"));
    };
    let named = text("language")?;
    let language = match named {
        Some(name) => weld_languages::by_name(name).ok_or_else(|| Wrong::request(program::unknown_language(name)))?,
        None => language,
    };
    let options = Options { wrt: names(&request["wrt"])?, domain: domain(&request["domain"])?, ..Options::default() };
    Ok(Call { language, text: program, entry: text("entry")?, given: given(&request["args"]), options })
}

fn names(list: &Json) -> std::result::Result<Vec<String>, Wrong> {
    let wrong = || Wrong::request("`wrt` must be a list of names");
    let Json::Array(list) = list else { return if list.is_null() { Ok(Vec::new()) } else { Err(wrong()) } };
    list.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
}

fn domain(list: &Json) -> std::result::Result<Option<[u64; 3]>, Wrong> {
    if list.is_null() {
        return Ok(None);
    }
    let sizes: Option<Vec<u64>> = list.as_array().and_then(|list| list.iter().map(Json::as_u64).collect());
    match sizes.map(<[u64; 3]>::try_from) {
        Some(Ok(sizes)) => Ok(Some(sizes)),
        _ => Err(Wrong::request("`domain` must be a list of three sizes: [ni, nj, nk]")),
    }
}

/// Reads `[{"type"?, "value"}, ..]` or, by name, `{"x": {"type"?, "value"}, ..}`. What is wrong with them is said once
/// the text has been found right.
fn given(args: &Json) -> Given {
    let mut given = Given::default();
    match args {
        Json::Null => {}
        Json::Array(args) => {
            for (index, arg) in args.iter().enumerate() {
                argument(&mut given, None, &format!("argument {}", index + 1), arg);
            }
        }
        Json::Object(args) => {
            for (name, arg) in args {
                argument(&mut given, Some(name.clone()), &format!("argument `{name}`"), arg);
            }
        }
        _ => given.refuse("`args` must be an array or an object".to_owned()),
    }
    given
}

fn argument(given: &mut Given, name: Option<String>, which: &str, arg: &Json) {
    let object = arg.as_object();
    let value = object.and_then(|object| object.get("value"));
    let written = object.and_then(|object| object.get("type")).filter(|written| !written.is_null());
    if value.is_none() {
        given.refuse(format!(r#"{which}: it must be {{"type": .., "value": ..}}"#));
    }
    if written.is_some_and(|written| !written.is_string()) {
        given.refuse(format!("{which}: `type` must be a string"));
    }
    let written = written.and_then(Json::as_str).map(str::to_owned);
    given.push(name, written, value.cloned().unwrap_or_default());
}
