//! Source text into tokens, one at a time.
//!
//! A token is a kind and a span; what it says is read from the source when it is needed.

use super::advice;
use crate::diag::{Diagnostic, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// A name or keyword.
    Word,
    /// Digits with an optional suffix.
    Int,
    Float,
    /// `"..."`
    Text,
    /// `b"..."`
    ByteText,
    /// `$0`, `$1`, ..
    FieldIndex,
    /// A sign of one or two characters.
    Sign(&'static str),
    /// What could not be read; reported already.
    Bad,
    End,
}

/// Longest first, so that `<=` is not read as `<`.
const SIGNS: [&str; 31] = [
    "||", "&&", "==", "!=", "<=", ">=", "=>", "(", ")", "[", "]", "{", "}", ",", ";", ":", ".", "?", "@", "|", "&",
    "^", "=", "<", ">", "+", "-", "*", "/", "%", "!",
];

pub(crate) struct Lexer<'a> {
    pub(crate) source: &'a str,
    at: usize,
    /// Where comments were, if they are wanted.
    comments: Option<Vec<Span>>,
}

/// The comments of a source text, without their line ends.
pub(crate) fn comments(source: &str) -> Vec<Span> {
    let mut lexer = Lexer { source, at: 0, comments: Some(Vec::new()) };
    while lexer.next().0 != Token::End {}
    lexer.comments.unwrap_or_default()
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a str) -> Lexer<'a> {
        Lexer { source, at: 0, comments: None }
    }

    /// Lets the rest of the text be empty.
    pub(crate) fn stop(&mut self) {
        self.at = self.source.len();
    }

    pub(crate) fn next(&mut self) -> (Token, Span, Option<Diagnostic>) {
        self.skip_blanks();
        let start = self.at;
        let rest = &self.source[start..];
        let Some(first) = rest.chars().next() else {
            return (Token::End, Span::new(start, start), None);
        };
        let (token, length, problem) = match first {
            'b' if rest[1..].starts_with('"') => text(rest, 1, Token::ByteText),
            c if c.is_ascii_alphabetic() || c == '_' => (Token::Word, word_length(rest), None),
            c if c.is_ascii_digit() => number(rest),
            '"' => text(rest, 0, Token::Text),
            '$' => {
                let length = 1 + word_length(&rest[1..]);
                let digits = length > 1 && rest[1..length].bytes().all(|b| b.is_ascii_digit());
                let problem = (!digits).then(|| "a field is `$` and its number: `.$0`".to_owned());
                (Token::FieldIndex, length, problem)
            }
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Token::Sign(sign), sign.len(), None),
                None => (Token::Bad, first.len_utf8(), Some(unexpected(first))),
            },
        };
        self.at = start + length;
        let span = Span::new(start, self.at);
        match problem {
            Some(message) => {
                let mut problem = Diagnostic::parse(span, message);
                problem.hint = advice::for_character(first).map(str::to_owned);
                (Token::Bad, span, Some(problem))
            }
            None => (token, span, None),
        }
    }

    /// Skips white space and comments.
    fn skip_blanks(&mut self) {
        let bytes = self.source.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'#' => {
                    let rest = &bytes[self.at..];
                    let end = self.at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                    if let Some(comments) = &mut self.comments {
                        comments.push(Span::new(self.at, end));
                    }
                    self.at = end;
                }
                b' ' | b'\t' | b'\r' | b'\n' | 0x0c => self.at += 1,
                _ => break,
            }
        }
    }
}

/// Names the character as it looks, or by its number if it cannot be seen.
fn unexpected(c: char) -> String {
    match c {
        '\'' => "unexpected character `'`".to_owned(),
        _ => format!("unexpected character {c:?}"),
    }
}

fn word_length(rest: &str) -> usize {
    rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
}

/// A number with everything that sticks to it; whether the suffix exists is the parser's question.
fn number(rest: &str) -> (Token, usize, Option<String>) {
    let bytes = rest.as_bytes();
    if bytes.len() > 1 && bytes[0] == b'0' && matches!(bytes[1], b'x' | b'X' | b'b' | b'B') {
        return (Token::Int, word_length(rest), None);
    }
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut length = digits(0);
    let mut token = Token::Int;
    let after_dot = bytes.get(length + 1).copied().unwrap_or(b' ');
    if bytes.get(length) == Some(&b'.')
        && !(after_dot == b'$' || after_dot == b'.' || after_dot == b'_' || after_dot.is_ascii_alphabetic())
    {
        token = Token::Float;
        length += 1;
        length += digits(length);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits((length + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            token = Token::Float;
            length += 1 + sign + exponent;
        }
    }
    length += word_length(&rest[length..]);
    if token == Token::Int && matches!(bytes[length - 1], b'f' | b'F') {
        token = Token::Float;
    }
    (token, length, None)
}

/// A string literal up to its closing quote, which stands on the same line.
fn text(rest: &str, prefix: usize, token: Token) -> (Token, usize, Option<String>) {
    let bytes = rest.as_bytes();
    let mut at = prefix + 1;
    loop {
        match bytes.get(at) {
            Some(b'"') => return (token, at + 1, None),
            Some(b'\\') if bytes.get(at + 1).is_some_and(|b| *b != b'\n') => {
                at += 1 + rest[at + 1..].chars().next().map_or(0, char::len_utf8);
            }
            None | Some(b'\n') => {
                let message = "this string has no closing quote (a line break in a string is written `\\n`)";
                return (Token::Bad, at, Some(message.to_owned()));
            }
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> Vec<String> {
        let mut lexer = Lexer::new(source);
        let mut out = Vec::new();
        loop {
            let (token, span, problem) = lexer.next();
            if token == Token::End {
                return out;
            }
            let text = &source[span.start as usize..span.end as usize];
            out.push(match (token, problem) {
                (_, Some(problem)) => format!("{text} !{}", problem.message),
                (Token::Sign(sign), _) => sign.to_owned(),
                (token, _) => format!("{token:?} {text}"),
            });
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(
            tokens("1 1c 1si 0xfFL 0b11 1.5 1. 1.5e-3f 1e5 2f x.$0 1.$0"),
            [
                "Int 1",
                "Int 1c",
                "Int 1si",
                "Int 0xfFL",
                "Int 0b11",
                "Float 1.5",
                "Float 1.",
                "Float 1.5e-3f",
                "Float 1e5",
                "Float 2f",
                "Word x",
                ".",
                "FieldIndex $0",
                "Int 1",
                ".",
                "FieldIndex $0"
            ]
        );
    }

    #[test]
    fn comments_and_strings() {
        assert_eq!(
            tokens("a # b \"c\n \"d # \\\" e\" b\"x\" b \"ü\"\n\"open\nz ü"),
            [
                "Word a",
                "Text \"d # \\\" e\"",
                "ByteText b\"x\"",
                "Word b",
                "Text \"ü\"",
                "\"open !this string has no closing quote (a line break in a string is written `\\n`)",
                "Word z",
                "ü !unexpected character 'ü'"
            ]
        );
    }

    #[test]
    fn signs() {
        assert_eq!(tokens("||&&&|<=<= =="), ["||", "&&", "&", "|", "<=", "<=", "=="]);
    }
}
