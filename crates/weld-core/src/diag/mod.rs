//! Diagnostics as values: a kind, a message, places in the source, a hint.
//!
//! Every front end reports through [`Diagnostic`]; rendering with source lines and carets is a separate step.

mod excerpt;
mod render;

use std::fmt;

pub use render::{line_column, render};

/// A half-open range of bytes of the source text. Made-up code carries the span of what it was made from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte behind the last.
    pub end: u32,
}

impl Span {
    /// The span of code that no source text stands behind, such as a lowered SQL plan.
    pub const NONE: Span = Span { start: 0, end: 0 };

    /// From the first byte to the one before `end`. Texts have less than 4 GiB.
    pub fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    /// The smallest span that covers both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// Which stage of a program's life an error belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ErrorKind {
    /// The text is none of the language.
    Parse,
    /// The text is well formed, but types, names or the use of builders are wrong.
    Type,
    /// The program has failed with its input.
    Runtime,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Parse => "parse",
            ErrorKind::Type => "type",
            ErrorKind::Runtime => "runtime",
        })
    }
}

/// Messages quote names, literals and types, which programs can make as long as they like.
const MESSAGE_BYTES_MAX: usize = 1_000;

/// The beginning of a message that may be of any length.
pub fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.push_str("..");
    }
    message
}

/// One problem in a program, with the place that caused it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The stage at which it was found.
    pub kind: ErrorKind,
    /// What is wrong, in one line and without its place.
    pub message: String,
    /// Where.
    pub span: Span,
    /// Further places that explain the first, each with what it shows.
    pub labels: Vec<(Span, String)>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// A problem without labels and hint. A message of more than a kilobyte is cut.
    pub fn new(kind: ErrorKind, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { kind, message: shortened(message.into()), span, labels: Vec::new(), hint: None }
    }

    /// The text is none of the language.
    pub fn parse(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(ErrorKind::Parse, span, message)
    }

    /// The text is well formed, but wrong.
    pub fn ty(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(ErrorKind::Type, span, message)
    }

    /// Adds a further place, with what it shows.
    pub fn with_label(mut self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.labels.push((span, message.into()));
        self
    }

    /// Says what to do about it; the last hint stays.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(shortened(hint.into()));
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} error: {}", self.kind, self.message)
    }
}

impl std::error::Error for Diagnostic {}
