//! Text into tokens, by the rules of OCaml: operators are maximal runs of operator characters, comments nest.

use weld_core::diag::{Diagnostic, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Word,
    Int,
    Float,
    /// `"..."`
    Text,
    /// `'c'`
    Char,
    /// A run of operator characters.
    Op,
    /// A bracket, `[|`, `|]`, `,`, `;` or `;;`.
    Mark,
    End,
}

/// A token with its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) span: Span,
}

pub(crate) struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

/// What an operator is made of.
fn is_operator(c: u8) -> bool {
    b"!$%&*+-./:<=>?@^|~".contains(&c)
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c == b'\''
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a str) -> Lexer<'a> {
        Lexer { source, at: 0 }
    }

    /// Goes on at another place.
    pub(crate) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    pub(crate) fn next(&mut self) -> Result<Lexeme, Diagnostic> {
        self.skip_blanks()?;
        let start = self.at;
        let rest = &self.source.as_bytes()[start..];
        let (token, length) = match rest {
            [] => (Token::End, 0),
            [b'"', ..] => (Token::Text, self.text(start)?),
            [b'\'', ..] => (Token::Char, self.char(start)?),
            [b'[', b'|', ..] => (Token::Mark, 2),
            [b'|', b']', ..] => (Token::Mark, 2),
            [b';', b';', ..] => (Token::Mark, 2),
            [b'(' | b')' | b'[' | b']' | b'{' | b'}' | b',' | b';', ..] => (Token::Mark, 1),
            [c, ..] if c.is_ascii_digit() => self.number(start)?,
            [c, ..] if c.is_ascii_alphabetic() || *c == b'_' => {
                (Token::Word, rest.iter().take_while(|c| is_word(**c)).count())
            }
            [c, ..] if is_operator(*c) => (Token::Op, operator(rest)),
            _ => {
                let c = self.source[start..].chars().next().unwrap_or(' ');
                let place = Span::new(start, start + c.len_utf8());
                return Err(Diagnostic::parse(place, format!("unexpected character {c:?}")));
            }
        };
        self.at = start + length;
        Ok(Lexeme { token, span: Span::new(start, self.at) })
    }

    /// Skips white space and comments, which may nest.
    fn skip_blanks(&mut self) -> Result<(), Diagnostic> {
        let bytes = self.source.as_bytes();
        loop {
            match bytes.get(self.at..).unwrap_or_default() {
                [b' ' | b'\t' | b'\r' | b'\n' | 0x0c, ..] => self.at += 1,
                [b'(', b'*', ..] => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Result<(), Diagnostic> {
        let bytes = self.source.as_bytes();
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match &bytes[self.at..] {
                [b'(', b'*', ..] => {
                    depth += 1;
                    self.at += 2;
                }
                [b'*', b')', ..] => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                [] => {
                    return Err(Diagnostic::parse(
                        Span::new(start, start + 2),
                        "the comment has no end: expected `*)`",
                    ));
                }
                // Strings in comments are strings, so that `*)` in one is no end.
                [b'"', ..] => self.at += self.text(self.at).unwrap_or(1),
                _ => self.at += 1,
            }
        }
    }

    /// The length of the string that starts here, with its quotes.
    fn text(&self, start: usize) -> Result<usize, Diagnostic> {
        let bytes = &self.source.as_bytes()[start..];
        let mut at = 1;
        loop {
            match bytes.get(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
                None => {
                    return Err(Diagnostic::parse(Span::new(start, start + 1), "the string has no end: expected `\"`"));
                }
            }
        }
    }

    /// The length of the character that starts here, with its quotes.
    fn char(&self, start: usize) -> Result<usize, Diagnostic> {
        let mut chars = self.source[start + 1..].chars();
        match (chars.next(), chars.next()) {
            (Some(c), Some('\'')) if c != '\'' && c != '\n' && c != '\\' => Ok(2 + c.len_utf8()),
            _ => {
                let message = "a dimension label is one character in quotes, such as `'q'`";
                Err(Diagnostic::parse(Span::new(start, start + 1), message))
            }
        }
    }

    fn number(&self, start: usize) -> Result<(Token, usize), Diagnostic> {
        let bytes = &self.source.as_bytes()[start..];
        let digits = |from: usize| bytes[from..].iter().take_while(|c| c.is_ascii_digit() || **c == b'_').count();
        let mut length = digits(0);
        let mut token = Token::Int;
        if let Some(radix) = radix(bytes) {
            let is_digit = |c: &&u8| (**c as char).is_digit(radix) || **c == b'_';
            length = 2 + bytes[2..].iter().take_while(is_digit).count();
        } else if bytes.get(length) == Some(&b'.') {
            token = Token::Float;
            length += 1;
            length += digits(length);
        }
        if let Some(b'e' | b'E') = bytes.get(length) {
            let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
            let exponent =
                bytes[(length + 1 + sign).min(bytes.len())..].iter().take_while(|c| c.is_ascii_digit()).count();
            if exponent > 0 {
                token = Token::Float;
                length += 1 + sign + exponent;
            }
        }
        match bytes.get(length) {
            Some(c) if is_word(*c) => {
                let end = length + bytes[length..].iter().take_while(|c| is_word(**c)).count();
                let place = Span::new(start, start + end);
                let text = &self.source[start..start + end];
                Err(Diagnostic::parse(place, format!("`{text}` is no number")))
            }
            _ => Ok((token, length)),
        }
    }
}

/// The radix of an integer such as `0x1f`, `0o17`, `0b101`, where at least one digit follows.
pub(crate) fn radix(text: &[u8]) -> Option<u32> {
    let [b'0', letter, digit, ..] = text else { return None };
    let radix = match letter.to_ascii_lowercase() {
        b'x' => 16,
        b'o' => 8,
        b'b' => 2,
        _ => return None,
    };
    (*digit as char).is_digit(radix).then_some(radix)
}

/// The length of a run of operator characters. `|]` closes a batch axis.
fn operator(bytes: &[u8]) -> usize {
    let run = bytes.iter().take_while(|c| is_operator(**c)).count();
    match bytes.get(run) {
        Some(b']') if run > 1 && bytes[run - 1] == b'|' => run - 1,
        _ => run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> Vec<&str> {
        let mut lexer = Lexer::new(source);
        let mut all = Vec::new();
        loop {
            let lexeme = lexer.next().unwrap();
            if lexeme.token == Token::End {
                return all;
            }
            all.push(&source[lexeme.span.start as usize..lexeme.span.end as usize]);
        }
    }

    #[test]
    fn operators_are_maximal_runs() {
        assert_eq!(tokens("c=:+a *. b.grad"), ["c", "=:+", "a", "*.", "b", ".", "grad"]);
        assert_eq!(tokens("let%cd x' = !/y -?/ 2.5e-3"), ["let", "%", "cd", "x'", "=", "!/", "y", "-?/", "2.5e-3"]);
        assert_eq!(tokens("[|1;2|] ~logic:\"@\""), ["[|", "1", ";", "2", "|]", "~", "logic", ":", "\"@\""]);
        assert_eq!(tokens("a (* b (* \"*)\" *) c *) 'q' 2."), ["a", "'q'", "2."]);
    }

    #[test]
    fn wrong_tokens() {
        let error = |source: &str| {
            let mut lexer = Lexer::new(source);
            loop {
                match lexer.next() {
                    Ok(lexeme) if lexeme.token == Token::End => return String::new(),
                    Ok(_) => {}
                    Err(error) => return error.message,
                }
            }
        };
        assert!(error("a (* b").contains("comment"));
        assert!(error("\"abc").contains("string"));
        assert!(error("2x").contains("`2x`"));
        assert!(error("a # b").contains("'#'"));
        assert!(error("'ab'").contains("label"));
    }
}
