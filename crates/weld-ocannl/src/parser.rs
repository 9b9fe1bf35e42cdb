//! Text to tree, by recursive descent, with OCaml's precedence of operators.

mod atom;
mod code;
mod expr;

use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::deep;
use weld_frontend::Limits;

use code::assignment_operator;
use expr::unknown_operator;

use crate::annotation;
use crate::lexer::{Lexeme, Lexer, Token};
use crate::literal::{Bracket, Element, nest};
use crate::spec::{self, Spec};
use crate::tree::*;

/// More operations than any program of people has; each becomes a loop.
const EXPRS_MAX: usize = 100_000;

type Parsed<T> = Result<T, Diagnostic>;

pub(crate) fn parse(source: &str, limits: &Limits) -> Result<Module, Diagnostic> {
    if source.len() > limits.text {
        let message = format!("the text has {} bytes, at most {} are compiled", source.len(), limits.text);
        return Err(Diagnostic::parse(Span::new(0, 0), message));
    }
    let mut lexer = Lexer::new(source);
    let current = lexer.next()?;
    let mut parser = Parser { source, lexer, current, end: 0, exprs: Vec::new(), depth: 0, depth_max: limits.nesting };
    let definitions = parser.definitions()?;
    Ok(Module { definitions, exprs: parser.exprs })
}

pub(crate) struct Parser<'a> {
    source: &'a str,
    lexer: Lexer<'a>,
    current: Lexeme,
    /// Where the token before ends.
    end: u32,
    exprs: Vec<Expr>,
    depth: usize,
    depth_max: usize,
}

/// What stands between a function's name and its body.
#[derive(Default)]
struct Params {
    params: Vec<Param>,
    config: Option<Span>,
}

/// Words of OCaml that are no names.
const KEYWORDS: [&str; 27] = [
    "and",
    "as",
    "assert",
    "begin",
    "do",
    "done",
    "else",
    "end",
    "exception",
    "external",
    "for",
    "fun",
    "function",
    "if",
    "in",
    "let",
    "match",
    "module",
    "mutable",
    "of",
    "open",
    "rec",
    "then",
    "try",
    "type",
    "while",
    "with",
];

impl<'a> Parser<'a> {
    fn text(&self, span: Span) -> &'a str {
        &self.source[span.start as usize..span.end as usize]
    }

    fn word(&self) -> &'a str {
        self.text(self.current.span)
    }

    fn advance(&mut self) -> Parsed<Lexeme> {
        let lexeme = self.current;
        self.end = lexeme.span.end;
        self.current = self.lexer.next()?;
        Ok(lexeme)
    }

    fn is(&self, token: Token, text: &str) -> bool {
        self.current.token == token && self.word() == text
    }

    fn mark(&self, text: &str) -> bool {
        self.is(Token::Mark, text)
    }

    /// Whether the token behind the current one begins so.
    fn next_begins(&self, text: &str) -> bool {
        self.source[self.current.span.end as usize..].trim_start().starts_with(text)
    }

    fn take(&mut self, token: Token, text: &str) -> Parsed<bool> {
        let found = self.is(token, text);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn found(&self) -> String {
        match self.current.token {
            Token::End => "the end of the text".into(),
            _ => format!("`{}`", self.word().chars().take(40).collect::<String>()),
        }
    }

    fn wrong(&self, wanted: &str) -> Diagnostic {
        Diagnostic::parse(self.current.span, format!("expected {wanted}, found {}", self.found()))
    }

    fn expect(&mut self, token: Token, text: &str) -> Parsed<Lexeme> {
        if self.is(token, text) { self.advance() } else { Err(self.wrong(&format!("`{text}`"))) }
    }

    fn is_name(&self) -> bool {
        self.current.token == Token::Word && !KEYWORDS.contains(&self.word())
    }

    fn name(&mut self, wanted: &str) -> Parsed<Name> {
        if !self.is_name() {
            return Err(match self.current.token {
                Token::Word => Diagnostic::parse(
                    self.current.span,
                    format!("expected {wanted}, found the keyword `{}`", self.word()),
                ),
                _ => self.wrong(wanted),
            });
        }
        let lexeme = self.advance()?;
        Ok(Name { text: self.text(lexeme.span).into(), span: lexeme.span })
    }

    /// Runs what may nest; too deep is an error.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == self.depth_max {
            let message = format!("nested more than {} deep", self.depth_max);
            return Err(Diagnostic::parse(self.current.span, message));
        }
        self.depth += 1;
        let result = deep(|| f(self));
        self.depth -= 1;
        result
    }

    fn push(&mut self, kind: Kind, span: Span, op: Span) -> Parsed<ExprId> {
        if self.exprs.len() == EXPRS_MAX {
            return Err(Diagnostic::parse(span, format!("the text has more than {EXPRS_MAX} operations")));
        }
        self.exprs.push(Expr { kind, span, op });
        Ok(ExprId(self.exprs.len() as u32 - 1))
    }

    /// From there to the end of the last token.
    fn since(&self, start: Span) -> Span {
        Span { start: start.start, end: self.end }
    }

    fn expr_ref(&self, id: ExprId) -> &Expr {
        &self.exprs[id.0 as usize]
    }

    // Definitions.

    fn definitions(&mut self) -> Parsed<Vec<Definition>> {
        let mut definitions = Vec::new();
        while self.current.token != Token::End {
            definitions.push(self.definition()?);
            let is_bound = self.take(Token::Word, "in")?;
            if is_bound && self.current.token != Token::End && !self.is(Token::Word, "let") {
                definitions.push(self.unnamed()?);
            }
            while self.take(Token::Mark, ";;")? {}
        }
        if definitions.is_empty() {
            return Err(Diagnostic::parse(
                Span::new(0, 0),
                "expected a definition, `let%cd` or `let%op`, found no text",
            ));
        }
        Ok(definitions)
    }

    /// `let%cd` (true) or `let%op`.
    fn extension(&mut self) -> Parsed<bool> {
        if !self.is(Token::Word, "let") {
            return Err(self.wrong("`let%cd` or `let%op`"));
        }
        self.advance()?;
        if !self.is(Token::Op, "%") {
            let error = self.wrong("`%cd` or `%op` after `let`");
            return Err(error.with_hint("a definition is `let%cd name .. = ..` or `let%op name .. = ..`"));
        }
        self.advance()?;
        let is_code = self.is(Token::Word, "cd");
        if !is_code && !self.is(Token::Word, "op") {
            return Err(self.wrong("the extension `cd` or `op`"));
        }
        self.advance()?;
        Ok(is_code)
    }

    fn definition(&mut self) -> Parsed<Definition> {
        let is_code = self.extension()?;
        let name = self.name("a name")?;
        let mut params = Params::default();
        self.params(&mut params, "=")?;
        // `let%op f = fun x -> ..` is `let%op f x = ..`.
        while self.take(Token::Word, "fun")? {
            self.fun_params(&mut params)?;
        }
        let Params { params, config } = params;
        let body = if is_code { Body::Code(self.code()?) } else { Body::Tensor(self.expr()?) };
        Ok(Definition { name, params, config, body })
    }

    /// `a` behind `let%op y = .. in`: a tensor that uses it.
    fn unnamed(&mut self) -> Parsed<Definition> {
        let start = self.current.span;
        let body = Body::Tensor(self.expr()?);
        let name = Name { text: "tensor".into(), span: start };
        Ok(Definition { name, params: Vec::new(), config: None, body })
    }

    /// Parameters up to and with `end`.
    fn params(&mut self, params: &mut Params, end: &str) -> Parsed<()> {
        while !self.take(Token::Op, end)? {
            if self.is(Token::Op, "~") {
                let start = self.advance()?.span;
                self.label(start, "config")?;
                params.config = Some(start);
            } else if let Some(param) = self.param(end)? {
                if let Some(twice) = params.params.iter().find(|known| known.name.text == param.name.text) {
                    let message = format!("the parameter `{}` is there twice", param.name.text);
                    let error = Diagnostic::ty(param.name.span, message);
                    return Err(error.with_label(twice.name.span, "here first"));
                }
                params.params.push(param);
            }
        }
        Ok(())
    }

    /// Parameters behind `fun`, with the arrow. There is one at least.
    fn fun_params(&mut self, params: &mut Params) -> Parsed<()> {
        if self.is(Token::Op, "->") {
            return Err(self.wrong("a parameter"));
        }
        self.params(params, "->")
    }

    /// The word after `~`.
    fn label(&mut self, start: Span, wanted: &str) -> Parsed<()> {
        if self.current.token == Token::Word && self.word() == wanted {
            self.advance()?;
            return Ok(());
        }
        let found = format!("~{}", self.word());
        Err(unknown_label(start.to(self.current.span), &found, wanted))
    }

    fn param(&mut self, end: &str) -> Parsed<Option<Param>> {
        if !self.take(Token::Mark, "(")? {
            return Ok(Some(Param { name: self.name(&format!("a parameter or `{end}`"))?, shape: None }));
        }
        if self.take(Token::Mark, ")")? {
            return Ok(None);
        }
        let name = self.name("a parameter's name")?;
        let mut shape = None;
        if self.current.token == Token::Op && self.word().starts_with(':') {
            shape = Some(self.annotation()?);
        }
        self.expect(Token::Mark, ")")?;
        Ok(Some(Param { name, shape }))
    }

    /// The shape behind a colon, up to `)`.
    fn annotation(&mut self) -> Parsed<Annotation> {
        let start = self.current.span.start as usize + 1;
        let length = self.source[start..].find(')').unwrap_or(self.source.len() - start);
        let shape = annotation::parse(&self.source[start..start + length])
            .map_err(|bad| Diagnostic::parse(Span::new(start + bad.at, start + bad.at + 1), bad.message))?;
        self.lexer.go_to(start + length);
        self.current = self.lexer.next()?;
        Ok(shape)
    }
}

fn unknown_part(span: Span, found: &str, wanted: &str) -> Diagnostic {
    Diagnostic::parse(span, format!("expected {wanted}, found `{found}`"))
}

fn unknown_label(span: Span, found: &str, wanted: &str) -> Diagnostic {
    if found == "~projections" {
        let message = "`~projections` is not supported: projections are values of the host language";
        return Diagnostic::parse(span, message).with_hint("say it as `~logic:\"..\"`");
    }
    Diagnostic::parse(span, format!("expected `~{wanted}`, found `{found}`"))
}
