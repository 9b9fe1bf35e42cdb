//! Runs the cases of a file and says what is wrong with them.

use std::path::Path;

use weld_core::diag::{Diagnostic, Span};
use weld_core::interp::json::{from_json, to_json};
use weld_core::interp::{Limits, Value};
use weld_core::ir::Program;
use weld_core::ty::Type;

use crate::case::{self, Case, Test};
use crate::compare::Rule;
use crate::engine::{Engine, Failure};

/// What became of a file.
#[derive(Debug, Default)]
pub struct Report {
    pub cases: usize,
    /// `file:line: what is wrong`.
    pub failures: Vec<String>,
    /// What the compiler has no code for, with the places of the cases that need it.
    pub unsupported: Vec<String>,
}

/// Every `.weld` file under a folder, in order.
pub fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .into_iter()
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => Vec::from_iter(path.extension().is_some_and(|ext| ext == "weld").then_some(path)),
        })
        .collect()
}

/// Runs all cases of a file; with `bless`, golden text that differs is written instead of reported.
pub fn run_file(path: &Path, bless: bool) -> Report {
    let mut report = Report::default();
    let name = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) => {
            report.failures.push(format!("{name}: {e}"));
            return report;
        }
    };
    let cases = match case::parse(&text) {
        Ok(cases) => cases,
        Err(e) => {
            report.failures.push(format!("{name}: {e}"));
            return report;
        }
    };
    let mut blessed = text.clone();
    for case in &cases {
        report.cases += 1;
        let mut unsupported = Vec::new();
        let outcome = run_case(case, &mut unsupported, &mut |golden| {
            blessed = blessed.replacen(&case.source, &case::with_golden(&case.source, golden), 1);
            bless
        });
        report.failures.extend(outcome.err().map(|what| format!("{name}:{}: {what}", case.line)));
        report.unsupported.extend(unsupported.iter().map(|what| format!("{name}:{}: {what}", case.line)));
    }
    if bless
        && blessed != text
        && let Err(e) = std::fs::write(path, blessed)
    {
        report.failures.push(format!("{name}: {e}"));
    }
    report
}

/// Runs one case. `differs` is told of golden text that is not what the file has, and says whether that is all right.
pub fn run_case(
    case: &Case,
    unsupported: &mut Vec<String>,
    differs: &mut dyn FnMut(&str) -> bool,
) -> Result<(), String> {
    let program = match crate::host::frontend().parse_program(&case.source) {
        Ok(program) => program,
        Err(errors) => return expect_diagnostic(case, &errors),
    };
    if let Some(error) = &case.error
        && !error.starts_with("runtime")
    {
        return Err(format!("expected the error `{error}`, but the program is accepted"));
    }
    check_type(case, &program)?;
    let reparsed = check_printing(&program)?;
    let printed = match &case.test {
        Test::Run => None,
        Test::Print => Some(program.to_string()),
        Test::Pass(name) => Some(crate::engine::after_pass(&program, name)?.to_string()),
    };
    if let Some(printed) = printed {
        let printed = printed.trim_end().to_string() + "\n";
        if printed != case.golden && !differs(&printed) {
            return Err(format!("the text differs (WELD_BLESS=1 accepts it); it is now\n{printed}"));
        }
    }
    if case.expect.is_none() && case.error.is_none() {
        return Ok(());
    }
    let args = arguments(case, &program)?;
    run_engines(case, &program, &args, unsupported)?;
    // The places of errors are those in the other text.
    let placeless = Case { at: None, ..case.clone() };
    check_outcome(&placeless, &reparsed, &args, Engine::INTERP).map_err(|e| format!("printed and parsed again: {e}"))
}

fn run_engines(case: &Case, program: &Program, args: &[Value], unsupported: &mut Vec<String>) -> Result<(), String> {
    let mut failures = Vec::new();
    for engine in Engine::ALL {
        let name = engine.to_string();
        // `interp` means all of the interpreter's.
        if case.only.as_deref().is_some_and(|only| only.split_whitespace().next() != name.split([' ', ',']).next()) {
            continue;
        }
        match check_outcome(case, program, args, engine) {
            Err(Wrong::Unsupported(what)) => unsupported.push(what),
            Err(Wrong::Failed(what)) => failures.push(format!("{name}: {what}")),
            Ok(()) => {}
        }
    }
    unsupported.dedup();
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n    ")) }
}

fn check_type(case: &Case, program: &Program) -> Result<(), String> {
    match &case.ty {
        Some(ty) if *ty != program.body.ty.to_string() => {
            Err(format!("the type is {}, expected {ty}", program.body.ty))
        }
        _ => Ok(()),
    }
}

/// A program's text must parse back to the same program; gives the program that came back.
fn check_printing(program: &Program) -> Result<Program, String> {
    let text = program.to_string();
    let again = crate::host::frontend().parse_program(&text);
    let again = again.map_err(|errors| format!("its printed form does not parse: {}\n{text}", messages(&errors)))?;
    let second = again.to_string();
    if second == text { Ok(again) } else { Err(format!("printing is not stable:\n{text}\nthen\n{second}")) }
}

fn messages(errors: &[Diagnostic]) -> String {
    errors.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("; ")
}

fn arguments(case: &Case, program: &Program) -> Result<Vec<Value>, String> {
    let text = case.args.as_deref().unwrap_or("[]");
    let args: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|e| format!("args: {e}"))?;
    if args.len() != program.params.len() {
        return Err(format!("{} arguments for {} parameters", args.len(), program.params.len()));
    }
    args.iter().zip(&program.params).map(|(arg, param)| from_json(arg, &param.ty)).collect()
}

/// Why a case does not pass on an engine.
enum Wrong {
    Unsupported(String),
    Failed(String),
}

impl From<String> for Wrong {
    fn from(what: String) -> Wrong {
        Wrong::Failed(what)
    }
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Wrong::Unsupported(what) | Wrong::Failed(what)) = self;
        f.write_str(what)
    }
}

fn check_outcome(case: &Case, program: &Program, args: &[Value], engine: Engine) -> Result<(), Wrong> {
    let mut limits = Limits { memory: 1 << 30, steps: 50_000_000, ..Limits::default() };
    limits.memory = case.memory.unwrap_or(limits.memory);
    limits.steps = case.steps.unwrap_or(limits.steps);
    let rule = Rule { tolerance: case.tolerance, unordered: case.unordered };
    match (engine.run(program, args, &limits), &case.expect) {
        (Ok(value), Some(expect)) => {
            let expected = expected(expect, &program.body.ty)?;
            if rule.equal(&value, &expected) {
                return Ok(());
            }
            Err(format!("gives {}, expected {expect}", to_json(&value)).into())
        }
        (Ok(value), None) => {
            let wanted = case.error.as_deref().unwrap_or("");
            Err(format!("gives {}, expected the error {wanted}", to_json(&value)).into())
        }
        (Err(Failure::Unsupported(what)), _) => Err(Wrong::Unsupported(what)),
        (Err(failure), _) => Ok(expect_failure(case, &failure)?),
    }
}

fn expected(text: &str, ty: &Type) -> Result<Value, String> {
    let json: serde_json::Value = serde_json::from_str(text).map_err(|e| format!("expect: {e}"))?;
    from_json(&json, ty).map_err(|e| format!("expect: {e}"))
}

fn expect_failure(case: &Case, failure: &Failure) -> Result<(), String> {
    let Some(wanted) = &case.error else { return Err(format!("raises `{failure}`, expected a value")) };
    matches(wanted, &failure.to_string())?;
    match failure {
        Failure::Runtime(error) => points_at(case, error.span),
        _ => Ok(()),
    }
}

fn expect_diagnostic(case: &Case, errors: &[Diagnostic]) -> Result<(), String> {
    let first = errors.first().ok_or("rejected without an error")?;
    let Some(wanted) = &case.error else {
        let rendered = weld_core::diag::render(errors, &case.source, "case");
        return Err(format!("is not accepted:\n{rendered}"));
    };
    // Any of the errors may be the one that is meant.
    let said = |error: &Diagnostic| format!("{}: {}", error.kind, error.message);
    let meant = errors.iter().find(|error| matches(wanted, &said(error)).is_ok());
    let Some(meant) = meant else { return Err(format!("`{}`, expected `{wanted}`", said(first))) };
    points_at(case, meant.span)
}

/// `kind: part of the message`.
fn matches(wanted: &str, found: &str) -> Result<(), String> {
    let (kind, part) = wanted.split_once(':').unwrap_or((wanted, ""));
    let (found_kind, message) = found.split_once(':').unwrap_or((found, ""));
    let same_kind = kind.trim() == found_kind.trim() || (kind.trim() == "runtime" && found_kind.starts_with("runtime"));
    if same_kind && message.contains(part.trim()) { Ok(()) } else { Err(format!("`{found}`, expected `{wanted}`")) }
}

fn points_at(case: &Case, span: Span) -> Result<(), String> {
    let Some(wanted) = &case.at else { return Ok(()) };
    let text = case.source.get(span.start as usize..span.end as usize).unwrap_or("");
    if text == wanted { Ok(()) } else { Err(format!("the error points at `{text}`, expected `{wanted}`")) }
}
