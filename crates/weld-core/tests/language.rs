//! docs/language.md: its examples do what they say, and no function or error is missing.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde_json::Value as Json;
use weld_core::interp::{Limits, json, run};
use weld_core::op::{Intrinsic, StructOp, UnaryOp};
use weld_core::{RuntimeErrorKind, diag, parse_program};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language.md");
    fs::read_to_string(path).expect("docs/language.md is there")
}

#[test]
fn the_document_has_every_function_and_every_error() {
    let text = document();
    let words: HashSet<&str> = text.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    let defect = RuntimeErrorKind::Internal;
    // Its error is the message alone.
    let raised = RuntimeErrorKind::Raised;
    let errors = RuntimeErrorKind::ALL.into_iter().filter(|kind| *kind != defect && *kind != raised);
    let names = (Intrinsic::ALL.iter().map(|f| f.name()))
        .chain(UnaryOp::FUNCTIONS.iter().map(|f| f.name()))
        .chain(StructOp::ALL.iter().map(|op| op.name()))
        .chain(errors.map(RuntimeErrorKind::name));
    let missing: Vec<&str> = names.filter(|name| !words.contains(name)).collect();
    assert!(missing.is_empty(), "docs/language.md does not have {missing:?}");
}

#[test]
fn the_examples_of_the_language_document() {
    let text = document();
    let examples: Vec<&str> = text.split("```weld\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() > 20);
    for example in examples {
        if let Err(problem) = check(example) {
            panic!("{example}\n{problem}");
        }
    }
}

/// The rest of the comment line that begins so.
fn directive<'a>(example: &'a str, begin: &str) -> Option<&'a str> {
    example.lines().find_map(|line| line.strip_prefix(begin))
}

fn check(example: &str) -> Result<(), String> {
    let outcome = evaluate(example);
    match (directive(example, "# => "), directive(example, "# error: ")) {
        (Some(wanted), None) => {
            let wanted: Json = serde_json::from_str(wanted).map_err(|e| e.to_string())?;
            let found = outcome?;
            if found == wanted { Ok(()) } else { Err(format!("gives {found}")) }
        }
        (None, Some(wanted)) => match outcome {
            Ok(value) => Err(format!("gives {value}")),
            Err(message) => {
                let (kind, part) = wanted.split_once(": ").unwrap_or((wanted, ""));
                let fits = message.starts_with(kind) && message.contains(part);
                if fits { Ok(()) } else { Err(format!("fails with {message}")) }
            }
        },
        _ => Err("has no result or error".into()),
    }
}

/// The value, or the error as `kind: message`.
fn evaluate(source: &str) -> Result<Json, String> {
    let program = parse_program(source).map_err(|errors| {
        let first = errors.first().map(|e| format!("{}: {}", e.kind, e.message)).unwrap_or_default();
        format!("{first}\n{}", diag::render(&errors, source, "example"))
    })?;
    let args: Vec<Json> = match directive(source, "# args: ") {
        Some(text) => serde_json::from_str(text).map_err(|e| e.to_string())?,
        None => Vec::new(),
    };
    let args: Result<Vec<_>, String> =
        args.iter().zip(&program.params).map(|(arg, param)| json::from_json(arg, &param.ty)).collect();
    match run(&program, &args?, &Limits::default()) {
        Ok(value) => Ok(json::to_json(&value)),
        Err(error) => Err(format!("runtime {:?}: {}", error.kind, error.message)),
    }
}
