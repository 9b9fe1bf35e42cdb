//! Text to tree, by recursive descent, with OCaml's precedence of operators.

use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_core::ir::deep;
use weld_frontend::Limits;

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
            while self.mark(";;") || (!definitions.is_empty() && self.is(Token::Word, "in")) {
                self.advance()?;
            }
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
        let mut params: Vec<Param> = Vec::new();
        let mut config = None;
        while !self.is(Token::Op, "=") {
            if self.is(Token::Op, "~") {
                let start = self.advance()?.span;
                self.label(start, "config")?;
                config = Some(start);
            } else if let Some(param) = self.param()? {
                if let Some(twice) = params.iter().find(|known| known.name.text == param.name.text) {
                    let message = format!("the parameter `{}` is there twice", param.name.text);
                    let error = Diagnostic::ty(param.name.span, message);
                    return Err(error.with_label(twice.name.span, "here first"));
                }
                params.push(param);
            }
        }
        self.advance()?;
        let body = if is_code { Body::Code(self.code()?) } else { Body::Tensor(self.expr()?) };
        Ok(Definition { name, params, config, body })
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

    fn param(&mut self) -> Parsed<Option<Param>> {
        if !self.take(Token::Mark, "(")? {
            return Ok(Some(Param { name: self.name("a parameter or `=`")?, shape: None }));
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

    // Code.

    fn code(&mut self) -> Parsed<Vec<Item>> {
        let mut items = Vec::new();
        loop {
            if self.is(Token::Word, "let") {
                // A binding takes the rest of the code.
                self.binding(&mut items)?;
                continue;
            }
            items.push(self.item()?);
            if !self.take(Token::Mark, ";")? {
                return Ok(items);
            }
            if self.current.token == Token::End || self.is(Token::Word, "in") || self.mark(")") {
                return Ok(items);
            }
            // `; let%cd f = ..` without an `in` is a definition that follows: the `;` before it is stray.
        }
    }

    /// `let%op name = expr in`, `let%cd name = code in`
    fn binding(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        self.nested(|parser| {
            let is_code = parser.extension()?;
            let name = parser.name("a name")?;
            if !parser.is(Token::Op, "=") {
                let error = parser.wrong("`=`");
                return Err(error.with_hint("a binding inside of a code has no parameters"));
            }
            parser.advance()?;
            items.push(match is_code {
                true => Item::Code { name, code: parser.code()? },
                false => Item::Tensor { name, value: parser.expr()? },
            });
            parser.expect(Token::Word, "in")?;
            Ok(())
        })
    }

    fn item(&mut self) -> Parsed<Item> {
        let target = match self.current.token {
            Token::Text | Token::Mark if self.current.token == Token::Text || self.mark("{") => {
                Target::Declare(self.declare()?)
            }
            Token::Word => {
                let name = self.name("a tensor to assign to")?;
                if !self.is(Token::Op, ".") {
                    if self.current.token != Token::Op {
                        return self.run(name);
                    }
                    Target::Name(name)
                } else {
                    self.advance()?;
                    let part = self.name("`grad`, `forward`, `backprop` or `zero_grads`")?;
                    let command = match &*part.text {
                        "grad" => None,
                        "forward" => Some(Command::Forward),
                        "backprop" => Some(Command::Backprop),
                        "zero_grads" => Some(Command::ZeroGrads),
                        other => {
                            return Err(unknown_part(
                                part.span,
                                other,
                                "`grad`, `forward`, `backprop` or `zero_grads`",
                            ));
                        }
                    };
                    if let Some(command) = command {
                        let span = name.span.to(part.span);
                        return Ok(Item::Command { tensor: name, command, span });
                    }
                    Target::Grad(name)
                }
            }
            _ => return Err(self.wrong("an assignment")),
        };
        self.assignment(target)
    }

    /// A name alone: code that was bound to it.
    fn run(&mut self, name: Name) -> Parsed<Item> {
        let ends = matches!(self.current.token, Token::End) || self.mark(";") || self.mark(";;");
        if ends || matches!(self.word(), "in" | "let") {
            return Ok(Item::Run(name));
        }
        Err(self.wrong("an assignment operator such as `=:+`"))
    }

    fn assignment(&mut self, target: Target) -> Parsed<Item> {
        let text = self.word();
        let operator = if self.current.token == Token::Op { assignment_operator(text) } else { None };
        let Some((init, accum)) = operator else {
            let error = self.wrong("an assignment operator");
            return Err(error.with_hint(
                "an assignment is `=` or `=:` with one of `+ - * / ** ?/ @^ @-`, or `=:` alone: `c =:+ a * b`",
            ));
        };
        let span = self.advance()?.span;
        let value = self.expr()?;
        let mut logic = None;
        while self.is(Token::Op, "~") {
            let start = self.advance()?.span;
            self.label(start, "logic")?;
            self.expect(Token::Op, ":")?;
            if logic.is_some() {
                return Err(Diagnostic::parse(start, "`~logic` is there twice"));
            }
            logic = Some(self.logic()?);
        }
        Ok(Item::Assign(Assign { target, span, init, accum, value, logic }))
    }

    fn logic(&mut self) -> Parsed<(Logic, Span)> {
        if self.current.token != Token::Text {
            return Err(self.wrong("a string after `~logic:`"));
        }
        let span = self.current.span;
        let logic = match self.string() {
            "." => Logic::Pointwise,
            "@" => Logic::Compose,
            "T" => Logic::Transpose,
            text if text.contains("=>") => return Ok((Logic::Einsum(self.spec()?), span)),
            text => {
                let message = format!("`{text}` is no logic");
                let hint =
                    "`~logic` is \".\", \"@\", \"T\" or an einsum specification with `=>`, such as \"ij;jk=>ik\"";
                return Err(Diagnostic::parse(span, message).with_hint(hint));
            }
        };
        self.advance()?;
        Ok((logic, span))
    }

    /// What stands between the quotes.
    fn string(&self) -> &'a str {
        let span = self.current.span;
        &self.source[span.start as usize + 1..span.end as usize - 1]
    }

    fn spec(&mut self) -> Parsed<Arc<Spec>> {
        if self.current.token != Token::Text {
            return Err(self.wrong("an einsum specification in quotes"));
        }
        let start = self.current.span.start as usize + 1;
        let spec = spec::parse(self.string()).map_err(|bad| {
            let place = Span::new(start + bad.at, start + bad.at + 1);
            Diagnostic::parse(place, format!("einsum specification: {}", bad.message))
        })?;
        self.advance()?;
        Ok(Arc::new(spec))
    }

    /// `"w"` or `{w; o=[2]; i=[3]}`
    fn declare(&mut self) -> Parsed<Declare> {
        if self.current.token == Token::Text {
            let text = self.string();
            let mut chars = text.chars();
            let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
            let is_name = starts && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '\'');
            if !is_name || KEYWORDS.contains(&text) {
                let message = format!("the string declares a tensor, but `{text}` is no name");
                return Err(Diagnostic::parse(self.current.span, message));
            }
            let span = self.advance()?.span;
            return Ok(Declare { name: Name { text: text.into(), span }, axes: None });
        }
        self.expect(Token::Mark, "{")?;
        let name = self.name("the name of the declared tensor")?;
        let mut axes = Annotation::default();
        let mut given = false;
        while self.take(Token::Mark, ";")? {
            if self.mark("}") {
                break;
            }
            let kind = self.name("`o`, `i` or `b`")?;
            self.expect(Token::Op, "=")?;
            let sizes = self.sizes()?;
            match &*kind.text {
                "o" => axes.output = sizes,
                "i" => axes.input = sizes,
                "b" => axes.batch = sizes,
                other => return Err(unknown_part(kind.span, other, "`o`, `i` or `b`")),
            }
            given = true;
        }
        self.expect(Token::Mark, "}")?;
        Ok(Declare { name, axes: given.then_some(axes) })
    }

    /// `[2; 3]`
    fn sizes(&mut self) -> Parsed<Vec<Option<u64>>> {
        self.expect(Token::Mark, "[")?;
        let mut sizes = Vec::new();
        loop {
            if self.current.token != Token::Int {
                return Err(self.wrong("a size"));
            }
            let text = self.word().replace('_', "");
            let size = text.parse().ok().filter(|size| *size <= i64::MAX as u64);
            let too_large = || Diagnostic::parse(self.current.span, format!("the size `{text}` is too large"));
            sizes.push(Some(size.ok_or_else(too_large)?));
            self.advance()?;
            if !self.take(Token::Mark, ";")? {
                self.expect(Token::Mark, "]")?;
                return Ok(sizes);
            }
        }
    }

    // Expressions.

    fn expr(&mut self) -> Parsed<ExprId> {
        self.nested(|parser| match parser.is(Token::Word, "let") {
            true => parser.let_in(),
            false => parser.binary(1),
        })
    }

    fn let_in(&mut self) -> Parsed<ExprId> {
        let start = self.advance()?.span;
        if self.is(Token::Op, "%") {
            let error =
                Diagnostic::parse(start.to(self.current.span), "`let%` stands in a `%cd` code or begins a definition");
            return Err(error.with_hint("inside of an expression it is `let name = .. in ..`"));
        }
        let name = self.name("a name")?;
        self.expect(Token::Op, "=")?;
        let value = self.expr()?;
        self.expect(Token::Word, "in")?;
        let body = self.expr()?;
        let span = start.to(self.expr_ref(body).span);
        self.push(Kind::Let { name: name.clone(), value, body }, span, name.span)
    }

    /// Operators of a level or tighter: 1 comparisons, 2 `@`, 3 `+`, 4 `*`, 5 `**`.
    fn binary(&mut self, least: u8) -> Parsed<ExprId> {
        let mut left = self.prefix()?;
        while self.current.token == Token::Op {
            let text = self.word();
            let Some(level) = level(text).filter(|level| *level >= least) else { return Ok(left) };
            if assignment_operator(text).is_some() || matches!(text, "=" | "." | "~") {
                return Ok(left);
            }
            let op = self.current.span;
            left = match text {
                "++" | "+*" | "@^+" => self.einsum(left, text, op)?,
                _ => {
                    let Some(operator) = operator(text) else { return Err(unknown_operator(op, text)) };
                    self.advance()?;
                    // `**` is right-associative, all others that are known are left-associative.
                    let right = self.nested(|parser| parser.binary(if level == 5 { 5 } else { level + 1 }))?;
                    let span = self.expr_ref(left).span.to(self.expr_ref(right).span);
                    self.push(Kind::Binary(operator, left, right), span, op)?
                }
            };
        }
        Ok(left)
    }

    fn einsum(&mut self, left: ExprId, text: &str, op: Span) -> Parsed<ExprId> {
        self.advance()?;
        let spec_span = self.current.span;
        let spec = self.spec()?;
        let mut args = vec![left];
        if text != "++" {
            args.push(self.prefix()?);
        }
        if spec.args.len() != args.len() {
            let message = format!(
                "`{text}` has {} operand{}, the specification {}",
                args.len(),
                if args.len() == 1 { "" } else { "s" },
                spec.args.len()
            );
            return Err(Diagnostic::ty(spec_span, message));
        }
        if text != "++" && self.current.token == Token::Op && level(self.word()).is_some_and(|level| level > 3) {
            let message = format!("`{}` behind `{text}` needs parentheses", self.word());
            return Err(Diagnostic::parse(self.current.span, message));
        }
        let span = Span { start: self.expr_ref(left).span.start, end: self.end };
        self.push(Kind::Einsum { spec, args, max: text == "@^+" }, span, op)
    }

    fn prefix(&mut self) -> Parsed<ExprId> {
        let start = self.current.span;
        match (self.current.token, self.word()) {
            (Token::Op, "-" | "-.") => {
                self.advance()?;
                let operand = self.nested(Self::prefix)?;
                let span = start.to(self.expr_ref(operand).span);
                if let Kind::Number { value, .. } = &mut self.exprs[operand.0 as usize].kind {
                    *value = -*value;
                    self.exprs[operand.0 as usize].span = span;
                    return Ok(operand);
                }
                self.push(Kind::Unary(Unary::Neg, operand), span, start)
            }
            (Token::Op, "+" | "+.") => {
                self.advance()?;
                self.nested(Self::prefix)
            }
            _ => self.application(),
        }
    }

    fn application(&mut self) -> Parsed<ExprId> {
        if !self.is_name() {
            let is_declared = self.current.token == Token::Text || self.mark("{");
            let atom = self.atom()?;
            if is_declared && self.starts_number() {
                let init = self.atom()?;
                let span = self.expr_ref(atom).span.to(self.expr_ref(init).span);
                if let Kind::Declare { init: empty, .. } = &mut self.exprs[atom.0 as usize].kind {
                    *empty = Some(init);
                }
                self.exprs[atom.0 as usize].span = span;
                return Ok(atom);
            }
            if self.starts_atom() {
                return Err(self.wrong("an operator"));
            }
            return Ok(atom);
        }
        let name = self.name("a name")?;
        if self.is(Token::Op, ".") {
            return self.grad(name);
        }
        let mut args = Vec::new();
        let mut config = None;
        loop {
            if self.starts_atom() {
                args.push(self.atom()?);
            } else if self.is(Token::Op, "~") && config.is_none() && self.config_follows() {
                config = Some(self.config()?);
            } else {
                break;
            }
        }
        if args.is_empty() && config.is_none() {
            return self.push(Kind::Name(name.text), name.span, name.span);
        }
        let span = Span { start: name.span.start, end: self.end };
        let op = name.span;
        self.push(Kind::Call { name, args, config }, span, op)
    }

    fn config_follows(&self) -> bool {
        self.source[self.current.span.end as usize..].trim_start().starts_with("config")
    }

    /// `~config` or `~config:{label=["a"; "b"]}`
    fn config(&mut self) -> Parsed<Vec<String>> {
        self.advance()?;
        self.advance()?;
        let mut labels = Vec::new();
        if !self.take(Token::Op, ":")? {
            return Ok(labels);
        }
        if self.is_name() {
            self.advance()?;
            return Ok(labels);
        }
        self.expect(Token::Mark, "{")?;
        self.expect(Token::Word, "label")?;
        self.expect(Token::Op, "=")?;
        self.expect(Token::Mark, "[")?;
        while self.current.token == Token::Text {
            labels.push(self.string().to_owned());
            self.advance()?;
            self.take(Token::Mark, ";")?;
        }
        self.expect(Token::Mark, "]")?;
        self.expect(Token::Mark, "}")?;
        Ok(labels)
    }

    fn grad(&mut self, name: Name) -> Parsed<ExprId> {
        self.advance()?;
        let part = self.name("`grad`")?;
        if &*part.text != "grad" {
            return Err(unknown_part(part.span, &part.text, "`grad`"));
        }
        let (span, op) = (name.span.to(part.span), part.span);
        self.push(Kind::Grad(name), span, op)
    }

    fn starts_number(&self) -> bool {
        matches!(self.current.token, Token::Int | Token::Float | Token::Char)
    }

    fn starts_atom(&self) -> bool {
        match self.current.token {
            Token::Int | Token::Float | Token::Char | Token::Text => true,
            Token::Word => self.is_name(),
            Token::Op => self.word().starts_with('!') && self.word() != "!=",
            Token::Mark => matches!(self.word(), "(" | "[" | "[|" | "{"),
            Token::End => false,
        }
    }

    fn atom(&mut self) -> Parsed<ExprId> {
        let start = self.current.span;
        match (self.current.token, self.word()) {
            (Token::Int | Token::Float, _) => {
                let value = self.number()?;
                self.push(Kind::Number { value, label: None }, start, start)
            }
            (Token::Char, text) => {
                let label = text.chars().nth(1);
                self.advance()?;
                if !matches!(self.current.token, Token::Int | Token::Float) {
                    return Err(self.wrong(&format!("a number behind the label {text}")));
                }
                let span = start.to(self.current.span);
                let value = self.number()?;
                self.push(Kind::Number { value, label }, span, start)
            }
            (Token::Text, _) | (Token::Mark, "{") => {
                let declare = self.declare()?;
                let span = Span { start: start.start, end: self.end };
                self.push(Kind::Declare { declare, init: None }, span, start)
            }
            (Token::Word, _) if self.is_name() => {
                let name = self.name("a name")?;
                if self.is(Token::Op, ".") {
                    return self.grad(name);
                }
                self.push(Kind::Name(name.text), name.span, name.span)
            }
            (Token::Word, word) => {
                Err(Diagnostic::parse(start, format!("expected an operand, found the keyword `{word}`")))
            }
            (Token::Op, operator) if operator.starts_with('!') => self.bang(operator),
            (Token::Mark, "(") => self.parenthesis(),
            (Token::Mark, "[" | "[|") => {
                let element = self.nested(Self::element)?;
                self.literal(element, start)
            }
            _ => Err(self.wrong("an operand")),
        }
    }

    /// `!/ x`, `!. 2.0`, `!.. 2`
    fn bang(&mut self, operator: &str) -> Parsed<ExprId> {
        let start = self.advance()?.span;
        match operator {
            "!/" => {
                let operand = self.nested(Self::atom)?;
                let span = start.to(self.expr_ref(operand).span);
                self.push(Kind::Unary(Unary::Relu, operand), span, start)
            }
            "!." | "!.." => {
                let wanted = if operator == "!." { Token::Float } else { Token::Int };
                let name = if operator == "!." { "a float such as `2.0`" } else { "an integer" };
                if self.current.token != wanted {
                    return Err(self.wrong(&format!("{name} behind `{operator}`")));
                }
                let span = start.to(self.current.span);
                let value = self.number()?;
                self.push(Kind::Number { value, label: None }, span, start)
            }
            _ => Err(unknown_operator(start, operator)),
        }
    }

    fn number(&mut self) -> Parsed<f64> {
        let span = self.current.span;
        let text = self.word().replace('_', "");
        let value: f64 = text.parse().map_err(|_| Diagnostic::parse(span, format!("`{text}` is no number")))?;
        if value.is_infinite() {
            return Err(Diagnostic::ty(span, format!("the number `{text}` is too large")));
        }
        self.advance()?;
        Ok(value)
    }

    /// An expression in parentheses, or a literal of an input axis.
    fn parenthesis(&mut self) -> Parsed<ExprId> {
        let start = self.current.span;
        self.advance()?;
        if self.mark(")") {
            let span = start.to(self.current.span);
            return Err(Diagnostic::parse(span, "expected an expression, found `()`"));
        }
        let inner = self.expr()?;
        if !self.mark(",") {
            self.expect(Token::Mark, ")")?;
            let span = Span { start: start.start, end: self.end };
            return self.push(Kind::Paren(inner), span, start);
        }
        let first = self.as_element(inner)?;
        let mut elements = vec![first];
        while self.take(Token::Mark, ",")? {
            elements.push(self.nested(Self::element)?);
        }
        self.expect(Token::Mark, ")")?;
        self.literal(nest(Bracket::Tuple, self.since(start), elements)?, start)
    }

    fn literal(&mut self, element: Element, start: Span) -> Parsed<ExprId> {
        let span = Span { start: start.start, end: self.end };
        self.push(Kind::Literal(element.value), span, start)
    }

    /// What is read as an expression turns out to be an element of a literal.
    fn as_element(&mut self, id: ExprId) -> Parsed<Element> {
        let mut id = id;
        while let Kind::Paren(inner) = self.expr_ref(id).kind {
            id = inner;
        }
        let expr = &mut self.exprs[id.0 as usize];
        let span = expr.span;
        match &mut expr.kind {
            Kind::Number { value, label: None } => Ok(Element::number(*value, span)),
            Kind::Literal(nested) => {
                let value =
                    Nested { levels: std::mem::take(&mut nested.levels), numbers: std::mem::take(&mut nested.numbers) };
                Ok(Element { value, span })
            }
            _ => Err(no_element(span)),
        }
    }

    /// An element of a literal: a number or a literal.
    fn element(&mut self) -> Parsed<Element> {
        let start = self.current.span;
        match (self.current.token, self.word()) {
            (Token::Int | Token::Float, _) => Ok(Element::number(self.number()?, start)),
            (Token::Op, "-" | "-." | "!." | "!..") => {
                let sign = if self.word().starts_with('-') { -1.0 } else { 1.0 };
                self.advance()?;
                if !matches!(self.current.token, Token::Int | Token::Float) {
                    return Err(no_element(self.current.span));
                }
                let span = start.to(self.current.span);
                Ok(Element::number(sign * self.number()?, span))
            }
            (Token::Mark, "(") => {
                self.advance()?;
                let mut elements = vec![self.nested(Self::element)?];
                let is_tuple = self.mark(",");
                while self.take(Token::Mark, ",")? {
                    elements.push(self.nested(Self::element)?);
                }
                self.expect(Token::Mark, ")")?;
                if is_tuple { nest(Bracket::Tuple, self.since(start), elements) } else { Ok(elements.remove(0)) }
            }
            (Token::Mark, open @ ("[" | "[|")) => {
                let (bracket, close) = if open == "[" { (Bracket::List, "]") } else { (Bracket::Array, "|]") };
                self.advance()?;
                let mut elements = Vec::new();
                while !self.mark(close) {
                    elements.push(self.nested(Self::element)?);
                    if self.mark(",") {
                        let error =
                            Diagnostic::parse(self.current.span, "`,` separates the elements of an input axis `(..)`");
                        return Err(error.with_hint("elements of `[..]` and `[|..|]` are separated by `;`"));
                    }
                    if !self.take(Token::Mark, ";")? && !self.mark(close) {
                        return Err(self.wrong(&format!("`;` or `{close}`")));
                    }
                }
                self.advance()?;
                nest(bracket, self.since(start), elements)
            }
            (Token::End, _) => Err(self.wrong("an element")),
            _ => Err(no_element(start)),
        }
    }
}

fn no_element(span: Span) -> Diagnostic {
    Diagnostic::parse(span, "the elements of a literal are numbers or literals")
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

fn unknown_operator(span: Span, text: &str) -> Diagnostic {
    let hint = match text {
        "+." => "the operator is `+`",
        "-." => "the operator is `-`",
        "!=" | "<" | ">" | "<=" | ">=" | "==" | "<>" => "there are no comparisons; `a -?/ b` is `b` where `a > 0`",
        ":=" | "+=" | "-=" | "*=" | "/=" => "an assignment is `=` or `=:` and an operator: `c =:+ a * b`",
        _ => "the operators are `* *. /. **. + - -?/ ++ +* @^+ !/`",
    };
    Diagnostic::parse(span, format!("unknown operator `{text}`")).with_hint(hint)
}

fn operator(text: &str) -> Option<Operator> {
    use Operator::*;
    [Star, Slash, Power, Add, Sub, Gate, MulDot, DivDot, PowDot].into_iter().find(|operator| operator.text() == text)
}

/// OCaml's level of an infix operator, by its first characters.
fn level(text: &str) -> Option<u8> {
    Some(match text.as_bytes() {
        [b'*', b'*', ..] => 5,
        [b'*' | b'/' | b'%', ..] => 4,
        [b'+' | b'-', ..] => 3,
        [b'@' | b'^', ..] => 2,
        [b'=' | b'<' | b'>' | b'|' | b'&' | b'$' | b':', ..] => 1,
        [b'!', b'=', ..] => 1,
        [b'?', ..] => 1,
        _ => return None,
    })
}

/// Whether it initialises, and how it accumulates.
fn assignment_operator(text: &str) -> Option<(bool, Accum)> {
    let rest = text.strip_prefix('=')?;
    let (init, rest) = match rest.strip_prefix(':') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let accum = Accum::ALL.into_iter().find(|accum| accum.text() == rest)?;
    (init || accum != Accum::Set).then_some((init, accum))
}
