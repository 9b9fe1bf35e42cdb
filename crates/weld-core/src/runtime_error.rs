//! What can go wrong while a program runs: one kind for each cause, shared by the interpreter and compiled code.
//!
//! Compiled code reports the place that failed, whose kind and span its host knows, and two detail words;
//! [`RuntimeError::of`] makes of them the same message that the interpreter gives:
//! `index 5 is out of bounds: the vector's length is 3`.

use std::fmt;

use crate::diag::{Diagnostic, ErrorKind, Span};
use crate::ir::Literal;

/// The causes. The discriminants are those of `weld_runtime::Status`, where 0 is success.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum RuntimeErrorKind {
    /// `lookup`, `update` or a `vecmerger` outside a vector. Details: index, length.
    IndexOutOfBounds = 1,
    /// `lookup` of a key that the dictionary does not have.
    KeyNotFound = 2,
    /// Of integers, by `/`, `%` or `round_div`.
    DivisionByZero = 3,
    /// MIN / -1, or a checked intrinsic.
    Overflow = 4,
    /// `zip` of unequal lengths. Details: the two lengths.
    LengthMismatch = 5,
    /// `slice` outside its vector (details: start, length) or of a negative size (details: size, -1).
    BadSlice = 6,
    /// An iterator outside its data, or with a stride or size that is not positive.
    BadIterator = 7,
    /// `assert` of what is false.
    AssertionFailed = 8,
    /// The run has taken as much memory as it may.
    OutOfMemory = 9,
    /// The host has stopped the run.
    Cancelled = 10,
    /// `deserialize` of bytes that are no value of the type.
    BadSerialization = 11,
    /// A value too large for its representation, such as a string of more than 4 GiB inside a vector.
    TooLarge = 12,
    /// A host function failed.
    Udf = 13,
    /// The program breaks an invariant of the IR: a defect of this project, never of the user's program.
    Internal = 14,
    /// `require`: an error in the words of the program.
    Raised = 15,
}

impl RuntimeErrorKind {
    /// Each of them, in the order of their codes.
    pub const ALL: [RuntimeErrorKind; 15] = [
        RuntimeErrorKind::IndexOutOfBounds,
        RuntimeErrorKind::KeyNotFound,
        RuntimeErrorKind::DivisionByZero,
        RuntimeErrorKind::Overflow,
        RuntimeErrorKind::LengthMismatch,
        RuntimeErrorKind::BadSlice,
        RuntimeErrorKind::BadIterator,
        RuntimeErrorKind::AssertionFailed,
        RuntimeErrorKind::OutOfMemory,
        RuntimeErrorKind::Cancelled,
        RuntimeErrorKind::BadSerialization,
        RuntimeErrorKind::TooLarge,
        RuntimeErrorKind::Udf,
        RuntimeErrorKind::Internal,
        RuntimeErrorKind::Raised,
    ];

    /// The name that messages begin with.
    pub fn name(self) -> &'static str {
        match self {
            RuntimeErrorKind::IndexOutOfBounds => "IndexOutOfBounds",
            RuntimeErrorKind::KeyNotFound => "KeyNotFound",
            RuntimeErrorKind::DivisionByZero => "DivisionByZero",
            RuntimeErrorKind::Overflow => "Overflow",
            RuntimeErrorKind::LengthMismatch => "LengthMismatch",
            RuntimeErrorKind::BadSlice => "BadSlice",
            RuntimeErrorKind::BadIterator => "BadIterator",
            RuntimeErrorKind::AssertionFailed => "AssertionFailed",
            RuntimeErrorKind::OutOfMemory => "OutOfMemory",
            RuntimeErrorKind::Cancelled => "Cancelled",
            RuntimeErrorKind::BadSerialization => "BadSerialization",
            RuntimeErrorKind::TooLarge => "TooLarge",
            RuntimeErrorKind::Udf => "Udf",
            RuntimeErrorKind::Internal => "Internal",
            RuntimeErrorKind::Raised => "Raised",
        }
    }

    /// The status that compiled code returns for it, never 0.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Whether the program raises it, whatever the engine and its limits.
    pub fn is_of_the_program(self) -> bool {
        use RuntimeErrorKind::*;
        !matches!(self, OutOfMemory | Cancelled | Internal)
    }

    /// The kind of a status code; `None` for success and for codes that no kind has.
    pub fn from_code(code: u32) -> Option<RuntimeErrorKind> {
        RuntimeErrorKind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The message of an error of this kind with its detail words (zero where the kind has none).
    pub fn message(self, details: [i64; 2]) -> String {
        let [a, b] = details;
        match self {
            RuntimeErrorKind::IndexOutOfBounds => {
                format!("index {a} is out of bounds: the vector's length is {b}")
            }
            RuntimeErrorKind::KeyNotFound => "the key is not in the dictionary".into(),
            RuntimeErrorKind::DivisionByZero => "division by zero".into(),
            RuntimeErrorKind::Overflow => "integer overflow".into(),
            RuntimeErrorKind::LengthMismatch => {
                format!("zip needs equal lengths, found {a} and {b}")
            }
            RuntimeErrorKind::BadSlice if b < 0 => format!("slice size {a} is negative"),
            RuntimeErrorKind::BadSlice => format!("slice start {a} lies outside a vector of length {b}"),
            RuntimeErrorKind::BadIterator => "the iterator leaves its data, or its stride is not positive".into(),
            RuntimeErrorKind::AssertionFailed => "assertion failed".into(),
            RuntimeErrorKind::OutOfMemory => "the run's memory limit is reached".into(),
            RuntimeErrorKind::Cancelled => "the run was stopped".into(),
            RuntimeErrorKind::BadSerialization => "the bytes are truncated, malformed or of another type".into(),
            RuntimeErrorKind::TooLarge => "a value is too large for its representation".into(),
            RuntimeErrorKind::Udf => "a host function failed".into(),
            RuntimeErrorKind::Internal => "internal error".into(),
            RuntimeErrorKind::Raised => "the program raised an error".into(),
        }
    }
}

/// An error of a run, with the place in the program that raised it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuntimeError {
    /// The cause.
    pub kind: RuntimeErrorKind,
    /// What has happened, with the values that matter.
    pub message: String,
    /// The expression that raised it.
    pub span: Span,
}

impl RuntimeError {
    /// An error with a message of its own; one of more than a kilobyte is cut.
    pub fn new(kind: RuntimeErrorKind, span: Span, message: impl Into<String>) -> RuntimeError {
        RuntimeError { kind, message: message.into(), span }
    }

    /// The error with its kind's usual message.
    pub fn of(kind: RuntimeErrorKind, span: Span, details: [i64; 2]) -> RuntimeError {
        RuntimeError { kind, message: kind.message(details), span }
    }
}

impl fmt::Display for RuntimeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A message with `{0}`, `{1}` replaced by the values: integers in digits, floats as literals.
pub fn filled(message: &str, values: &[Literal]) -> String {
    let mut filled = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        let index = match rest.as_bytes()[at..] {
            [_, digit @ b'0'..=b'9', b'}', ..] => Some(digit),
            _ => None,
        };
        match index.and_then(|digit| values.get(usize::from(digit - b'0'))) {
            Some(value) => {
                filled.push_str(&shown(*value));
                rest = &rest[at + 3..];
            }
            None => {
                filled.push('{');
                rest = &rest[at + 1..];
            }
        }
    }
    filled + rest
}

fn shown(value: Literal) -> String {
    match value {
        Literal::Bool(value) => value.to_string(),
        Literal::F32(value) => format!("{value:?}"),
        Literal::F64(value) => format!("{value:?}"),
        Literal::U64(value) => value.to_string(),
        integer => integer.bits().to_string(),
    }
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == RuntimeErrorKind::Raised {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for RuntimeError {}

impl From<RuntimeError> for Diagnostic {
    fn from(error: RuntimeError) -> Diagnostic {
        Diagnostic::new(ErrorKind::Runtime, error.span, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_values() {
        let values = [Literal::I64(-5), Literal::F32(0.5)];
        assert_eq!(filled("{0} of {1}, {2} {x} {0", &values), "-5 of 0.5, {2} {x} {0");
        assert_eq!(filled("{1}{0}", &[Literal::U64(u64::MAX), Literal::Bool(true)]), "true18446744073709551615");
    }

    #[test]
    fn codes_are_one_to_one() {
        for (i, kind) in RuntimeErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.code(), i as u32 + 1);
            assert_eq!(RuntimeErrorKind::from_code(kind.code()), Some(kind));
        }
        assert_eq!(RuntimeErrorKind::from_code(0), None);
        assert_eq!(RuntimeErrorKind::from_code(999), None);
    }
}
