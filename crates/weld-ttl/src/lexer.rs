//! Text into tokens, one at a time.
//!
//! A token is a kind and a span; what it says is read from the text when it is needed. `0...8` is `0`, `...`, `8`.

use weld_core::diag::{Diagnostic, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Identifier,
    Keyword,
    Int,
    Float,
    Sign(&'static str),
    /// What could not be read; reported already.
    Bad,
    End,
}

pub(crate) const KEYWORDS: [&str; 13] =
    ["function", "var", "for", "in", "by", "if", "else", "return", "int", "float", "void", "matrix", "range"];

/// Longest first, so that `<=` is not read as `<`.
const SIGNS: [&str; 25] = [
    "...", "<=", ">=", "==", "!=", "(", ")", "[", "]", "{", "}", ",", ";", "=", "<", ">", "+", "-", "*", "/", "#", "$",
    "!", "&", "|",
];

pub(crate) struct Lexer<'a> {
    pub(crate) text: &'a str,
    at: usize,
}

/// A kind, a length in bytes, and what is wrong with it.
type Read = (Token, usize, Option<Diagnostic>);

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    /// Lets the rest of the text be empty.
    pub(crate) fn stop(&mut self) {
        self.at = self.text.len();
    }

    pub(crate) fn next(&mut self) -> (Token, Span, Option<Diagnostic>) {
        if let Some(open) = self.skip_blanks() {
            let error = Diagnostic::parse(open, "this comment has no end").with_hint("`/*` is closed by `*/`");
            return (Token::Bad, open, Some(error));
        }
        let start = self.at;
        let rest = &self.text[start..];
        let Some(first) = rest.chars().next() else {
            return (Token::End, Span::new(start, start), None);
        };
        let (token, length, problem) = match first {
            c if c.is_ascii_alphabetic() => word(rest),
            c if c.is_ascii_digit() => number(rest, start),
            '?' => (Token::Sign("?"), 1, None),
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Token::Sign(sign), sign.len(), None),
                None => unknown(rest, first, start),
            },
        };
        self.at = start + length;
        (token, Span::new(start, self.at), problem)
    }

    /// Skips white space and comments. The place of a comment that has no end.
    fn skip_blanks(&mut self) -> Option<Span> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            let rest = &bytes[self.at..];
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0c | 0x0b => self.at += 1,
                b'/' if rest.starts_with(b"//") => {
                    self.at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                }
                b'/' if rest.starts_with(b"/*") => match self.text[self.at + 2..].find("*/") {
                    Some(length) => self.at += length + 4,
                    None => {
                        let open = Span::new(self.at, self.at + 2);
                        self.stop();
                        return Some(open);
                    }
                },
                _ => break,
            }
        }
        None
    }
}

fn word_length(rest: &str) -> usize {
    rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count()
}

fn word(rest: &str) -> Read {
    let length = word_length(rest);
    let token = if KEYWORDS.contains(&&rest[..length]) { Token::Keyword } else { Token::Identifier };
    (token, length, None)
}

/// `12` or `1.5`, with nothing that sticks to it.
fn number(rest: &str, start: usize) -> Read {
    let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut length = digits(0);
    let mut token = Token::Int;
    let fraction = rest[length..].strip_prefix('.').map_or(0, |_| digits(length + 1));
    if fraction > 0 {
        token = Token::Float;
        length += 1 + fraction;
    }
    let stuck = word_length(&rest[length..]);
    if stuck > 0 {
        return stuck_to_number(rest, length, stuck, start);
    }
    let after = &rest[length..];
    if after.starts_with('.') && !after.starts_with("...") {
        let span = Span::new(start, start + length + 1);
        let error = Diagnostic::parse(span, format!("malformed number `{}.`", &rest[..length]))
            .with_hint("a float has digits before and after its point: `1.0`; a range is written `0...8`");
        return (Token::Bad, length + 1, Some(error));
    }
    (token, length, None)
}

fn stuck_to_number(rest: &str, length: usize, stuck: usize, start: usize) -> Read {
    let letters = &rest[length..length + stuck];
    let exponent = letters.strip_prefix(['e', 'E']).is_some_and(|more| {
        let digits = if more.is_empty() { rest[length + 1..].strip_prefix(['+', '-']).unwrap_or("") } else { more };
        digits.starts_with(|c: char| c.is_ascii_digit())
    });
    let text = &rest[..length + stuck];
    let error = Diagnostic::parse(Span::new(start, start + length + stuck), format!("malformed number `{text}`"));
    let error = match exponent {
        true => error.with_hint("scientific notation is not supported: write all digits"),
        false => error.with_hint("a number is followed by no letter, and an identifier begins with one"),
    };
    (Token::Bad, length + stuck, Some(error))
}

fn unknown(rest: &str, first: char, start: usize) -> Read {
    let (length, message, hint) = match first {
        '_' => {
            let length = word_length(rest);
            (length, format!("malformed identifier `{}`", &rest[..length]), Some("an identifier begins with a letter"))
        }
        '.' => (
            1,
            "unexpected character `.`".to_owned(),
            Some("a float has digits before its point: `0.5`; a range is `a...b`"),
        ),
        '%' => (1, "unexpected character `%`".to_owned(), Some("there is no remainder: write `a - a / b * b`")),
        '"' | '\'' => (1, format!("unexpected character `{first}`"), Some("there are no strings")),
        c => (c.len_utf8(), format!("unexpected character {c:?}"), None),
    };
    let mut error = Diagnostic::parse(Span::new(start, start + length), message);
    error.hint = hint.map(str::to_owned);
    (Token::Bad, length, Some(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text);
        let mut out = Vec::new();
        loop {
            let (token, span, problem) = lexer.next();
            if token == Token::End {
                return out;
            }
            let text = &text[span.start as usize..span.end as usize];
            out.push(match (token, problem) {
                (_, Some(problem)) => format!("!{}", problem.message),
                (Token::Sign(sign), _) => sign.to_owned(),
                (token, _) => format!("{token:?} {text}"),
            });
        }
    }

    #[test]
    fn numbers_and_ranges() {
        assert_eq!(tokens("0...8"), ["Int 0", "...", "Int 8"]);
        assert_eq!(tokens("1.5...2"), ["Float 1.5", "...", "Int 2"]);
        assert_eq!(
            tokens("1. 1e5 1.0e-5 2x 0x1"),
            [
                "!malformed number `1.`",
                "!malformed number `1e5`",
                "!malformed number `1.0e`",
                "-",
                "Int 5",
                "!malformed number `2x`",
                "!malformed number `0x1`"
            ]
        );
    }

    #[test]
    fn words_and_comments() {
        assert_eq!(
            tokens("for f_1 _x // no\n/* /* */y"),
            ["Keyword for", "Identifier f_1", "!malformed identifier `_x`", "Identifier y"]
        );
        assert_eq!(tokens("a /* b"), ["Identifier a", "!this comment has no end"]);
    }
}
