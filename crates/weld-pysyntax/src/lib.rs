//! Python text to a small tree of our own.
//!
//! ```
//! use weld_frontend::Limits;
//! use weld_pysyntax::{ExprKind, StmtKind, parse};
//! let module = parse("x = a + 1\n", &Limits::default()).unwrap();
//! let StmtKind::Assign { value, .. } = &module.body[0].kind else { panic!() };
//! assert!(matches!(value.kind, ExprKind::Binary(..)));
//! let errors = parse("x = (1,\n", &Limits::default()).unwrap_err();
//! assert_eq!(errors[0].kind.to_string(), "parse");
//! ```
//!
//! The parser is ruff's; this crate alone knows it. It gives all parse errors, places in bytes of the text, and refuses
//! what would take too much stack or time: a text of more bytes than the limit, nesting beyond the limit, a statement
//! of more than 50,000 operators.
#![forbid(unsafe_code)]

mod expr;
mod length;
mod statement;
mod tree;

use ruff_python_parser::{Mode, ParseError, ParseErrorType, ParseOptions};
use ruff_text_size::{Ranged, TextRange};
use weld_core::diag::{Diagnostic, Span};
use weld_frontend::Limits;

pub use tree::*;

/// Errors that are told of one text.
const ERRORS_MAX: usize = 100;

/// For the deepest tree that the limits allow, in a build without optimisation.
const STACK_BYTES: usize = 256 << 20;

/// Parses a text. All parse errors in the order of the text.
pub fn parse(text: &str, limits: &Limits) -> Result<Module, Vec<Diagnostic>> {
    if text.len() > limits.text.min(u32::MAX as usize - 1) {
        let message = format!("the text has {} bytes, at most {} are read", text.len(), limits.text);
        return Err(vec![Diagnostic::parse(Span::new(0, 0), message)]);
    }
    length::check(text).map_err(|error| vec![error])?;
    stacker::grow(STACK_BYTES, || parse_here(text, limits.nesting.min(1_000)))
}

fn parse_here(text: &str, nesting: usize) -> Result<Module, Vec<Diagnostic>> {
    let options = ParseOptions::from(Mode::Module).with_max_recursion_depth(nesting as u16 + 2);
    let parsed = ruff_python_parser::parse_unchecked(text, options);
    if !parsed.errors().is_empty() {
        return Err(errors(text, parsed.errors(), nesting));
    }
    let Some(parsed) = parsed.try_into_module() else { return Ok(Module::default()) };
    let mut convert = Convert { depth: 0, depth_max: nesting, too_deep: None };
    let body = convert.body(&parsed.into_syntax().body);
    match convert.too_deep {
        Some(span) => Err(vec![too_deep(span, nesting)]),
        None => Ok(Module { body }),
    }
}

fn too_deep(span: Span, nesting: usize) -> Diagnostic {
    Diagnostic::parse(span, format!("the program is nested too deeply: more than {nesting} levels"))
}

/// The first error of each place; one of nesting alone, as what follows was not read.
fn errors(text: &str, found: &[ParseError], nesting: usize) -> Vec<Diagnostic> {
    if let Some(deep) = found.iter().find(|error| matches!(error.error, ParseErrorType::RecursionLimitExceeded)) {
        return vec![too_deep(span(deep.location), nesting)];
    }
    let mut errors: Vec<Diagnostic> = Vec::new();
    for error in found {
        let place = span(error.location);
        if errors.last().is_some_and(|last| last.span.start == place.start) {
            continue;
        }
        if errors.len() == ERRORS_MAX {
            break;
        }
        errors.push(Diagnostic::parse(place, message(text, error)));
    }
    errors
}

/// Ruff's message in our style, with what was found where it does not say so.
fn message(text: &str, error: &ParseError) -> String {
    let said = error.error.to_string();
    let mut chars = said.chars();
    let is_name = said.chars().nth(1).is_some_and(char::is_uppercase);
    let lower = match chars.next() {
        Some(first) if !is_name => first.to_lowercase().chain(chars).collect(),
        _ => said,
    };
    if lower.contains("found") || !lower.starts_with("expected") {
        return lower;
    }
    let found = text.get(error.location.start().into()..error.location.end().into()).unwrap_or_default();
    match found.trim() {
        "" if usize::from(error.location.start()) >= text.trim_end().len() => {
            format!("{lower}, found the end of the text")
        }
        "" => format!("{lower}, found the end of the line"),
        found => format!("{lower}, found `{found}`"),
    }
}

/// Ruff's tree to ours.
struct Convert {
    depth: usize,
    depth_max: usize,
    /// The first place that is nested too deeply.
    too_deep: Option<Span>,
}

impl Convert {
    /// Runs `f` one level deeper, unless that is too deep.
    fn deeper<T>(&mut self, place: impl Ranged, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= self.depth_max {
            self.too_deep.get_or_insert(span(place.range()));
            return None;
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        Some(result)
    }
}

fn span(range: TextRange) -> Span {
    Span { start: range.start().into(), end: range.end().into() }
}

#[cfg(test)]
mod tests;
