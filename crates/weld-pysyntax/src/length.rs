//! How long statements are, before they are parsed: ruff's tree of a chain of operators is as deep as the chain is
//! long.

use weld_core::diag::{Diagnostic, Span};

/// More operators, brackets and commas of one statement are refused.
const SIGNS_MAX: usize = 50_000;

/// The error of the first statement that is too long.
pub(crate) fn check(text: &str) -> Result<(), Diagnostic> {
    let bytes = text.as_bytes();
    let (mut at, mut signs, mut open) = (0, 0, 0usize);
    while at < bytes.len() {
        match bytes[at] {
            b'#' => at += bytes[at..].iter().take_while(|byte| **byte != b'\n').count() - 1,
            b'\'' | b'"' => at = string_end(bytes, at),
            b'\n' if open == 0 => signs = 0,
            // An escaped end of a line.
            b'\\' => at += 1,
            byte => {
                match byte {
                    b'(' | b'[' | b'{' => open += 1,
                    b')' | b']' | b'}' => open = open.saturating_sub(1),
                    _ => {}
                }
                signs += usize::from(byte.is_ascii_punctuation() && byte != b'_');
            }
        }
        if signs > SIGNS_MAX {
            let message = format!("the statement is too long: more than {SIGNS_MAX} operators, brackets and commas");
            return Err(Diagnostic::parse(Span::new(at, at + 1), message));
        }
        at += 1;
    }
    Ok(())
}

/// The last byte of the string that starts at a quote.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let is_long = bytes[start..].starts_with(&[quote; 3]);
    let mut at = start + if is_long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\n' if !is_long => return at - 1,
            byte if byte == quote && !is_long => return at,
            _ if is_long && bytes[at..].starts_with(&[quote; 3]) => return at + 2,
            _ => {}
        }
        at += 1;
    }
    bytes.len() - 1
}
