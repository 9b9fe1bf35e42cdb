//! Runs the cases of a language's file through every engine and says what is wrong with them.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use weld_core::diag::{Diagnostic, line_column};
use weld_core::interp::{Limits, Value};
use weld_frontend::{Args, Function, Given, Language, Library, Options, Request, json};

use crate::compare::Rule;
use crate::driver::Report;
use crate::engine::{Engine, Failure};
use crate::language_case::{self, Call, LanguageCase};

/// Every file of a language under a folder, in order.
pub fn files(folder: &Path, language: &dyn Language) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let ending = format!(".{}", language.extension());
    let of_path = |path: PathBuf| match path.is_dir() {
        true => files(&path, language),
        false => Vec::from_iter(path.to_string_lossy().ends_with(&ending).then_some(path)),
    };
    paths.into_iter().flat_map(of_path).collect()
}

/// Runs all calls of a file.
pub fn run_file(path: &Path, language: &dyn Language) -> Report {
    let name = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => run_text(&name, &text, language),
        Err(error) => Report { failures: vec![format!("{name}: {error}")], ..Report::default() },
    }
}

/// Runs all calls of a file's text.
pub fn run_text(name: &str, text: &str, language: &dyn Language) -> Report {
    let mut report = Report::default();
    let cases = language_case::parse(text).unwrap_or_else(|error| {
        report.failures.push(format!("{name}: {error}"));
        Vec::new()
    });
    for case in &cases {
        for call in &case.calls {
            report.cases += 1;
            if let Err(what) = run_call(case, call, language) {
                report.failures.push(format!("{name}:{}: {what}", call.line));
            }
        }
    }
    report
}

fn run_call(case: &LanguageCase, call: &Call, language: &dyn Language) -> Result<(), String> {
    let (given, compiled) = compile(case, call, language)?;
    let compiled = compiled.map_err(|errors| given.explained(errors, language));
    let compiled = compiled.and_then(|function| {
        let values = given.read(&function).map_err(|error| vec![error])?;
        Ok((function, values))
    });
    let (function, values) = match compiled {
        Ok(compiled) => compiled,
        Err(errors) => return expect_refused(case, call, &errors),
    };
    if let Some(error) = &call.error
        && !error.starts_with("runtime")
    {
        return Err(format!("expected the error `{error}`, but the program is accepted"));
    }
    if let Some(ty) = call.ty.as_deref().filter(|ty| *ty != function.result_type) {
        return Err(format!("the type is {}, expected {ty}", function.result_type));
    }
    match values {
        Some(values) => run_engines(case, call, &function, &values),
        None if call.expect.as_deref() == Some("null") => Ok(()),
        None => Err("gives NULL".into()),
    }
}

/// What a call passes, and the function, or why the text is refused.
pub fn compile(
    case: &LanguageCase,
    call: &Call,
    language: &dyn Language,
) -> Result<(Given, Result<Function, Vec<Diagnostic>>), String> {
    let given = given(call)?;
    let options = Options {
        wrt: parsed(call.wrt.as_deref(), "wrt")?.as_ref().map(names).unwrap_or_default(),
        domain: parsed(call.domain.as_deref(), "domain")?.as_ref().map(domain).transpose()?,
        ..Options::default()
    };
    let library = Library::default();
    let mut request = Request::new(&case.text, &library, &options);
    (request.entry, request.args) = (call.entry.as_deref(), Args::Given(&given.args));
    let compiled = language.compile(&request);
    Ok((given, compiled))
}

fn parsed(text: Option<&str>, word: &str) -> Result<Option<Json>, String> {
    text.map(|text| serde_json::from_str(text).map_err(|error| format!("{word}: {error}"))).transpose()
}

/// A list of names.
fn names(list: &Json) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn domain(list: &Json) -> Result<[u64; 3], String> {
    let sizes: Option<Vec<u64>> = list.as_array().and_then(|list| list.iter().map(Json::as_u64).collect());
    sizes.and_then(|sizes| sizes.try_into().ok()).ok_or_else(|| "domain: three sizes".into())
}

/// The arguments as the call has them.
fn given(call: &Call) -> Result<Given, String> {
    let args: Json = parsed(call.args.as_deref(), "call")?.unwrap_or(Json::Array(Vec::new()));
    let types: Json = parsed(call.types.as_deref(), "types")?.unwrap_or(Json::Null);
    let mut given = Given::default();
    match args {
        Json::Array(values) => {
            for (i, value) in values.into_iter().enumerate() {
                given.push(None, types[i].as_str().map(str::to_owned), value);
            }
        }
        Json::Object(values) => {
            for (name, value) in values {
                let written = types[&name].as_str().map(str::to_owned);
                given.push(Some(name), written, value);
            }
        }
        _ => return Err("call: the arguments are a list or an object".into()),
    }
    Ok(given)
}

fn run_engines(case: &LanguageCase, call: &Call, function: &Function, args: &[Value]) -> Result<(), String> {
    let mut failures = Vec::new();
    for engine in Engine::ALL {
        let name = engine.to_string();
        // `interp` means all of the interpreter's.
        if call.only.as_deref().is_some_and(|only| only.split_whitespace().next() != name.split([' ', ',']).next()) {
            continue;
        }
        let limits = Limits {
            memory: call.memory.unwrap_or(1 << 30),
            steps: call.steps.unwrap_or(50_000_000),
            ..Limits::default()
        };
        let outcome = engine.run(&function.program, args, &limits);
        failures.extend(check_outcome(case, call, function, outcome).err().map(|what| format!("{name}: {what}")));
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n    ")) }
}

fn check_outcome(
    case: &LanguageCase,
    call: &Call,
    function: &Function,
    outcome: Result<Value, Failure>,
) -> Result<(), String> {
    let output = function.output();
    match (outcome, &call.expect) {
        (Ok(value), Some(expect)) => {
            let expected = expected(call, expect, function)?;
            let rule = Rule { tolerance: call.tolerance, unordered: false };
            match rule.equal(&value, &expected) {
                true => Ok(()),
                false => {
                    Err(format!("gives {}, expected {}", json::write(&value, &output), json::write(&expected, &output)))
                }
            }
        }
        (Ok(value), None) => Err(format!(
            "gives {}, expected the error {}",
            json::write(&value, &output),
            call.error.as_deref().unwrap_or("")
        )),
        (Err(Failure::Runtime(error)), _) => {
            let (source, diagnostic) = function.source.diagnostic(error);
            let text = source.text.clone();
            // Errors in other texts have their lines there.
            expect_error(case, call, &[diagnostic], &text)
        }
        (Err(failure), _) => Err(failure.to_string()),
    }
}

/// What the call expects, with its gradients.
fn expected(call: &Call, expect: &str, function: &Function) -> Result<Value, String> {
    let value: Option<Json> = parsed(Some(expect), "expect")?;
    let value = value.unwrap_or_default();
    let value = json::read(&value, &function.result).map_err(|error| format!("expect: {error}"))?;
    if function.gradients.is_empty() {
        return Ok(value);
    }
    let grads: Json = parsed(call.grads.as_deref(), "grads")?.unwrap_or_default();
    let read = |(name, shape): &(String, weld_frontend::Shape)| {
        json::read(&grads[name], shape).map_err(|error| format!("grads: `{name}`: {error}"))
    };
    let grads = function.gradients.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(Value::structure(std::iter::once(value).chain(grads)))
}

fn expect_refused(case: &LanguageCase, call: &Call, errors: &[Diagnostic]) -> Result<(), String> {
    expect_error(case, call, errors, &case.text)
}

fn expect_error(case: &LanguageCase, call: &Call, errors: &[Diagnostic], text: &str) -> Result<(), String> {
    let first = errors.first().ok_or("rejected without an error")?;
    let Some(wanted) = &call.error else {
        return Err(format!("is not accepted:\n{}", weld_core::diag::render(errors, &case.text, "case")));
    };
    let (kind, part) = wanted.split_once(':').unwrap_or((wanted, ""));
    if first.kind.to_string() != kind.trim() || !first.message.contains(part.trim()) {
        return Err(format!("`{}: {}`, expected `{wanted}`", first.kind, first.message));
    }
    let (line, _) = line_column(text, first.span.start);
    if let Some(wanted) = call.error_line.filter(|wanted| *wanted != line) {
        return Err(format!("the error `{}` is on line {line}, expected {wanted}", first.message));
    }
    let found = text.get(first.span.start as usize..first.span.end as usize).unwrap_or("");
    match &call.at {
        Some(wanted) if wanted != found => Err(format!("the error points at `{found}`, expected `{wanted}`")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(text: &str) -> Vec<String> {
        run_text("t", text, weld_languages::by_name("weld").unwrap()).failures
    }

    #[test]
    fn lists_are_structs_and_vectors_of_different_lengths() {
        let ragged = "# call: [[[1], [], [2, 3]], [7, [8]]]\n# expect: [[[1], [], [2, 3]], 8]\n# call: [[[1], 2], [7, [8]]]\n# error: type: argument `v`\n|v: vec[vec[i64]], p: {i64,vec[i64]}|\n  {v, lookup(p.$1, 0L)}\n";
        assert_eq!(failures(ragged), Vec::<String>::new());
        let wrong = "# call: [[[1], [2, 3]]]\n# error: type: `+`\n|v: vec[vec[i64]]| v + 1L\n";
        assert_eq!(failures(wrong), Vec::<String>::new());
    }

    #[test]
    fn calls_are_checked() {
        let text = "# call: [3]\n# expect: 3\n# type: i64\n# call: {\"x\": 0}\n# error: runtime: division by zero\n# line: 2\n# at: 9L / x\n# call: [true]\n# error: type: argument `x`\n|x: i64|\n  9L / x\n---\n# error: parse\n1 +\n";
        assert_eq!(failures(text), Vec::<String>::new());
        let wrong =
            failures("# call: [3]\n# expect: 4\n# call: [0]\n# expect: 4\n# call: [1]\n# error: type\n|x: i64| 9L / x");
        assert_eq!(wrong.len(), 3, "{wrong:?}");
    }
}
