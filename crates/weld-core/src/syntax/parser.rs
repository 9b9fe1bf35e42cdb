//! Recursive descent over the tokens, precedence climbing for operators.
//!
//! Loose to tight: `let` and lambdas; `||`; `&&`; `|`; `^`; `&`; `== !=`; `< > <= >=`; `+ -`; `* / %`; `: T`;
//! `- !` and annotations; calls and `.$n`.
//!
//! After an error the parser is silent until it has found a place to go on: the next `,`, `;` or closing bracket of the
//! enclosing brackets. What was not understood becomes [`ExprKind::Error`].

use std::collections::HashSet;
use std::sync::Arc;

use super::advice;
use super::lexer::{Lexer, Token};
use super::literal;
use super::precedence::infix;
use super::tree::{Alias, Expr, ExprKind, Let, Macro, Module, Name, Param, TypeExpr};
use super::words::{is_builder_word, is_reserved, is_type_word};
use super::{DEPTH_MAX, NODES_MAX};
use crate::diag::{Diagnostic, Span};
use crate::ir::deep;
use crate::op::UnaryOp;

/// More errors than anybody reads.
const ERRORS_MAX: usize = 50;

/// Parses a program. The tree is complete where there are no errors.
pub fn parse(source: &str) -> (Module, Vec<Diagnostic>) {
    let mut parser = Parser::new(source);
    let module = parser.module();
    (module, parser.errors)
}

/// Parses a type that stands alone.
pub fn parse_type(source: &str) -> (TypeExpr, Vec<Diagnostic>) {
    let mut parser = Parser::new(source);
    let ty = parser.ty();
    parser.expect_end();
    (ty, parser.errors)
}

pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    pub(super) token: Token,
    pub(super) span: Span,
    /// Where the token before this one ended.
    last_end: u32,
    /// An error was reported and no place to go on was found yet.
    recovering: bool,
    /// Nothing further can be parsed.
    stopped: bool,
    depth: usize,
    pub(super) type_depth: usize,
    nodes: usize,
    pub(super) errors: Vec<Diagnostic>,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Parser<'a> {
        let mut parser = Parser {
            lexer: Lexer::new(source),
            token: Token::End,
            span: Span::NONE,
            last_end: 0,
            recovering: false,
            stopped: false,
            depth: 0,
            type_depth: 0,
            nodes: 0,
            errors: Vec::new(),
        };
        if u32::try_from(source.len()).is_err() {
            parser.stop(Span::NONE, "the program is larger than 4 GB".into());
        }
        parser.advance();
        parser
    }

    // Tokens.

    pub(super) fn advance(&mut self) {
        self.last_end = self.span.end;
        let (token, span, problem) = self.lexer.next();
        (self.token, self.span) = (token, span);
        if let Some(problem) = problem {
            self.report(problem);
        }
    }

    pub(super) fn text(&self) -> &'a str {
        &self.lexer.source[self.span.start as usize..self.span.end as usize]
    }

    pub(super) fn at(&self, sign: &str) -> bool {
        matches!(self.token, Token::Sign(s) if s == sign)
    }

    fn at_word(&self, word: &str) -> bool {
        self.token == Token::Word && self.text() == word
    }

    pub(super) fn accept(&mut self, sign: &str) -> bool {
        let found = self.at(sign);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn expect(&mut self, sign: &str, what: &str) -> bool {
        let found = self.accept(sign);
        if !found {
            self.unexpected(&format!("expected `{sign}` {what}"));
        }
        found
    }

    pub(super) fn since(&self, start: Span) -> Span {
        Span { start: start.start, end: self.last_end.max(start.end) }
    }

    // Errors.

    pub(super) fn report(&mut self, problem: Diagnostic) {
        if !self.recovering && !self.stopped {
            self.errors.push(problem);
            if self.errors.len() >= ERRORS_MAX {
                self.stopped = true;
                self.lexer.stop();
            }
        }
        self.recovering = true;
    }

    /// Reports an error that leaves no doubt about where to go on.
    fn report_and_go_on(&mut self, problem: Diagnostic) {
        let recovering = self.recovering;
        self.report(problem);
        self.recovering = recovering;
    }

    /// Reports what was expected where something else stands.
    pub(super) fn unexpected(&mut self, expected: &str) {
        // What is missing at the end is missing behind the last word, not behind blank lines and comments.
        let (found, span) = match self.token {
            Token::End => ("the end of the program".to_owned(), Span { start: self.last_end, end: self.last_end }),
            _ => (format!("`{}`", self.text()), self.span),
        };
        self.report(Diagnostic::parse(span, format!("{expected}, found {found}")));
    }

    /// Reports what was expected after an expression.
    fn unexpected_after_operand(&mut self, expected: &str) {
        let (before, hint) = (self.errors.len(), advice::after_operand(self.text()));
        self.unexpected(expected);
        self.explain(before, |problem| problem.hint = hint.map(str::to_owned));
    }

    /// Adds to the error that was reported last, if that is since there were so many.
    pub(super) fn explain(&mut self, before: usize, add: impl FnOnce(&mut Diagnostic)) {
        if self.errors.len() > before
            && let Some(problem) = self.errors.last_mut()
        {
            add(problem);
        }
    }

    /// Reports an error after which parsing makes no sense.
    pub(super) fn stop(&mut self, span: Span, message: String) {
        self.recovering = false;
        self.report(Diagnostic::parse(span, message));
        self.stopped = true;
        self.lexer.stop();
        self.token = Token::End;
    }

    /// After an error, skips to one of the signs outside any further brackets. Stops short of it at a `;` or a bracket
    /// that closes one outside; then whoever opened that goes on recovering.
    pub(super) fn recover(&mut self, signs: &[&str]) {
        if !self.recovering {
            return;
        }
        let mut open = 0usize;
        while self.token != Token::End {
            if let Token::Sign(sign) = self.token {
                if open == 0 && signs.contains(&sign) {
                    self.recovering = false;
                    return;
                }
                match sign {
                    "(" | "[" | "{" => open += 1,
                    ")" | "]" | "}" | ";" if open == 0 => return,
                    ")" | "]" | "}" => open -= 1,
                    _ => {}
                }
            }
            self.advance();
        }
    }

    // Programs.

    fn module(&mut self) -> Module {
        let (mut aliases, mut macros) = (Vec::new(), Vec::new());
        loop {
            let (start, before) = (self.span, self.errors.len());
            if self.at_word("type") {
                aliases.extend(self.alias());
            } else if self.at_word("macro") {
                macros.extend(self.macro_definition());
            } else {
                break;
            }
            while self.recovering && self.token != Token::End {
                self.recover(&[";"]);
                if self.recovering {
                    self.advance();
                }
            }
            self.expect(";", "after the definition");
            self.explain(before, |problem| {
                // Often found much later: `x * x |v: vec[i64]| ..` is an expression.
                if problem.message.starts_with("expected `;`") {
                    problem.labels.push((start, "the definition begins here".to_owned()));
                }
            });
        }
        let (params, body) =
            if self.at("|") || self.at("||") { (self.params(), self.expr()) } else { (Vec::new(), self.expr()) };
        self.expect_end();
        match body.kind {
            // A program in parentheses.
            ExprKind::Lambda { params: inner, body } if params.is_empty() => {
                Module { aliases, macros, params: inner, body: *body }
            }
            _ => Module { aliases, macros, params, body },
        }
    }

    fn expect_end(&mut self) {
        if self.token != Token::End && !self.recovering {
            self.unexpected_after_operand("expected the end of the program");
        }
    }

    fn alias(&mut self) -> Option<Alias> {
        self.advance();
        let name = self.definition_name("the name of the type")?;
        self.expect("=", "after the name of a type").then_some(())?;
        let ty = self.ty();
        Some(Alias { name, ty })
    }

    fn macro_definition(&mut self) -> Option<Macro> {
        self.advance();
        let name = self.definition_name("the name of the macro")?;
        self.expect("(", "after the name of a macro").then_some(())?;
        let mut params = Vec::new();
        while !self.at(")") {
            params.push(self.definition_name("a parameter of the macro")?);
            if !self.accept(",") {
                break;
            }
        }
        self.expect(")", "after the parameters of a macro").then_some(())?;
        self.expect("=", "before the body of a macro").then_some(())?;
        Some(Macro { name, params, body: self.expr() })
    }

    /// A name that something is being given.
    fn definition_name(&mut self, what: &str) -> Option<Name> {
        if self.token != Token::Word {
            self.unexpected(&format!("expected {what}"));
            return None;
        }
        let name = Name { text: self.text().into(), span: self.span };
        if is_reserved(&name.text) {
            let message = format!("`{}` is a word of the language and cannot be {what}", name.text);
            self.report(Diagnostic::parse(name.span, message));
            return None;
        }
        self.advance();
        Some(name)
    }

    /// `|a: T, b|`, or `||`.
    fn params(&mut self) -> Vec<Param> {
        let mut params = Vec::new();
        let mut names = HashSet::new();
        if self.accept("||") {
            return params;
        }
        self.advance();
        while !self.at("|") {
            let Some(name) = self.definition_name("the name of a parameter") else { break };
            if &*name.text != "_" && !names.insert(name.text.clone()) {
                let message = format!("two parameters are called `{}`", name.text);
                self.report_and_go_on(Diagnostic::parse(name.span, message));
            }
            let ty = self.accept(":").then(|| self.ty());
            params.push(Param { name, ty });
            if self.recovering || !self.accept(",") {
                break;
            }
        }
        let before = self.errors.len();
        let hint = self.at("<").then_some("the parts of a type stand in brackets: `vec[i64]`");
        self.recover(&["|"]);
        self.expect("|", "after the parameters");
        self.explain(before, |problem| problem.hint = hint.map(str::to_owned));
        params
    }

    // Expressions.

    fn make(&mut self, span: Span, kind: ExprKind) -> Expr {
        let mut height = 0;
        let mut expr = Expr { span, height: 0, kind };
        expr.each_child(&mut |child| height = height.max(child.height));
        expr.height = height + 1;
        self.nodes += 1;
        if expr.height as usize > DEPTH_MAX {
            self.too_deep(span);
            return Expr { span, height: 1, kind: ExprKind::Error };
        }
        if self.nodes > NODES_MAX {
            let message = format!("the program is too large: more than {NODES_MAX} expressions");
            self.stop(span, message);
        }
        expr
    }

    fn too_deep(&mut self, span: Span) {
        if !self.stopped {
            let message = format!("the program is nested too deeply: more than {DEPTH_MAX} levels");
            self.stop(Span { start: span.start, end: span.start }, message);
        }
    }

    fn error_here(&mut self) -> Expr {
        self.make(self.span, ExprKind::Error)
    }

    /// Runs a step of the recursion, unless it is too deep.
    pub(super) fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= DEPTH_MAX {
            self.too_deep(self.span);
            return None;
        }
        self.depth += 1;
        let result = deep(|| f(self));
        self.depth -= 1;
        Some(result)
    }

    pub(super) fn expr(&mut self) -> Expr {
        match self.nested(|parser| {
            if parser.at_word("let") {
                parser.block()
            } else if parser.at("|") || parser.at("||") {
                let start = parser.span;
                let params = parser.params();
                let body = Box::new(parser.expr());
                parser.make(parser.since(start), ExprKind::Lambda { params, body })
            } else {
                parser.binary(0)
            }
        }) {
            Some(expr) => expr,
            None => self.error_here(),
        }
    }

    /// `let a = x; let b = y; body`
    fn block(&mut self) -> Expr {
        let start = self.span;
        let mut lets = Vec::new();
        while self.at_word("let") {
            self.advance();
            lets.extend(self.binding());
            self.recover(&[";"]);
            if !self.expect(";", "after the value of a `let`") {
                break;
            }
        }
        let body = Box::new(self.expr());
        self.make(self.since(start), ExprKind::Block { lets, body })
    }

    fn binding(&mut self) -> Option<Let> {
        let name = self.definition_name("the name of a variable")?;
        let ty = self.accept(":").then(|| self.ty());
        self.expect("=", "in a `let`").then_some(())?;
        Some(Let { name, ty, value: self.expr() })
    }

    /// Operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u8) -> Expr {
        let start = self.span;
        let mut left = self.ascribed();
        let mut compared = None;
        while let Token::Sign(sign) = self.token
            && let Some((op, level)) = infix(sign)
            && level >= least
        {
            if op.is_comparison() && compared == Some(level) {
                self.report(
                    Diagnostic::parse(self.span, "comparisons do not chain")
                        .with_hint("write `a < b && b < c`, or put one comparison in parentheses"),
                );
            }
            compared = op.is_comparison().then_some(level);
            self.advance();
            let right = self.binary(level + 1);
            left = self.make(self.since(start), ExprKind::Binary(op, Box::new(left), Box::new(right)));
        }
        left
    }

    /// `value: T`
    fn ascribed(&mut self) -> Expr {
        let start = self.span;
        let mut value = self.unary();
        while self.accept(":") {
            let ty = self.ty();
            value = self.make(self.since(start), ExprKind::Ascribe(Box::new(value), ty));
        }
        value
    }

    fn unary(&mut self) -> Expr {
        let start = self.span;
        let op = match self.token {
            Token::Sign("-") => UnaryOp::Neg,
            Token::Sign("!") => UnaryOp::Not,
            Token::Sign("@") => return self.annotated(),
            _ => return self.postfix(),
        };
        self.advance();
        if op == UnaryOp::Neg && matches!(self.token, Token::Int | Token::Float) {
            let literal = self.number(start, true);
            return self.postfix_of(start, literal);
        }
        let value = match self.nested(|parser| parser.unary()) {
            Some(value) => value,
            None => self.error_here(),
        };
        self.make(self.since(start), ExprKind::Unary(op, Box::new(value)))
    }

    /// `@(name:value, ..) expr`
    fn annotated(&mut self) -> Expr {
        let start = self.span;
        let entries = self.annotations();
        let value = match self.nested(|parser| parser.unary()) {
            Some(value) => value,
            None => self.error_here(),
        };
        self.make(self.since(start), ExprKind::Annotated(entries, Box::new(value)))
    }

    pub(super) fn annotations(&mut self) -> Vec<(Arc<str>, Arc<str>)> {
        self.advance();
        let mut entries = Vec::new();
        if !self.expect("(", "after `@`") {
            return entries;
        }
        while !self.at(")") && self.token != Token::End {
            match self.annotation() {
                Some(entry) => entries.push(entry),
                None => self.unexpected("expected `name:value` in an annotation"),
            }
            self.recover(&[",", ")"]);
            if !self.accept(",") {
                break;
            }
        }
        self.expect(")", "after the annotations");
        entries
    }

    fn annotation(&mut self) -> Option<(Arc<str>, Arc<str>)> {
        let name = (self.token == Token::Word).then(|| self.text())?;
        self.advance();
        self.accept(":").then_some(())?;
        let minus = if self.accept("-") { "-" } else { "" };
        let value = match self.token {
            Token::Word | Token::Int | Token::Float => format!("{minus}{}", self.text()),
            Token::Text => {
                let bytes = self.unescaped(1);
                String::from_utf8_lossy(&bytes).into_owned()
            }
            _ => return None,
        };
        self.advance();
        Some((name.into(), value.into()))
    }

    fn postfix(&mut self) -> Expr {
        let start = self.span;
        let value = self.primary();
        self.postfix_of(start, value)
    }

    /// Calls and field accesses after an expression.
    fn postfix_of(&mut self, start: Span, mut value: Expr) -> Expr {
        loop {
            if self.accept(".") {
                let index = if self.token == Token::FieldIndex { self.text()[1..].parse().ok() } else { None };
                let Some(index) = index else {
                    self.unexpected("expected a field such as `$0` after `.`");
                    return value;
                };
                self.advance();
                value = self.make(self.since(start), ExprKind::Field(Box::new(value), index));
            } else if self.at("(") && !matches!(value.kind, ExprKind::Literal(_)) {
                let args = self.args();
                value = self.make(self.since(start), ExprKind::Apply { func: Box::new(value), args });
            } else {
                return value;
            }
        }
    }

    fn primary(&mut self) -> Expr {
        let start = self.span;
        match self.token {
            Token::Int | Token::Float => self.number(start, false),
            Token::Text | Token::ByteText => {
                let unsigned = self.token == Token::ByteText;
                let bytes = self.unescaped(1 + usize::from(unsigned)).into();
                self.advance();
                self.make(start, ExprKind::Bytes { bytes, unsigned })
            }
            Token::Word => self.word(),
            Token::Sign("(") => {
                self.advance();
                // Parentheses add no node, and an error in them points at what they enclose.
                let inner = self.expr();
                self.recover(&[")"]);
                if !self.accept(")") {
                    let before = self.errors.len();
                    self.unexpected_after_operand("expected `)` to close the parenthesis");
                    self.explain(before, |problem| problem.labels.push((start, "opened here".to_owned())));
                }
                inner
            }
            Token::Sign("{") => {
                let fields = self.list("{", "}", Parser::expr);
                self.make(self.since(start), ExprKind::Struct(fields))
            }
            Token::Sign("[") => {
                let elements = self.list("[", "]", Parser::expr);
                self.make(self.since(start), ExprKind::Vector(elements))
            }
            Token::Sign("|" | "||") => {
                let hint = "a function binds loosest: put it in parentheses";
                self.report(Diagnostic::parse(start, "a function cannot be an operand").with_hint(hint));
                self.error_here()
            }
            _ => {
                let (source, at) = (self.lexer.source, self.span.start as usize);
                let hint = advice::for_operand(&source[..at], &source[at..]);
                let before = self.errors.len();
                self.unexpected("expected an expression");
                self.explain(before, |problem| problem.hint = hint.map(str::to_owned));
                self.error_here()
            }
        }
    }

    fn number(&mut self, start: Span, negative: bool) -> Expr {
        let span = start.to(self.span);
        let value = match self.token {
            Token::Float => literal::float(self.text(), negative, span),
            _ => literal::integer(self.text(), negative, span),
        };
        self.advance();
        match value {
            Ok(value) => self.make(span, ExprKind::Literal(value)),
            Err(problem) => {
                self.report_and_go_on(problem);
                self.make(span, ExprKind::Error)
            }
        }
    }

    fn unescaped(&mut self, prefix: usize) -> Vec<u8> {
        let text = self.text();
        literal::unescape(&text[prefix..text.len() - 1], self.span).unwrap_or_else(|problem| {
            self.report_and_go_on(problem);
            Vec::new()
        })
    }

    /// An expression that begins with a word.
    fn word(&mut self) -> Expr {
        let start = self.span;
        let word = self.text();
        match word {
            "true" | "false" => {
                self.advance();
                return self.make(start, ExprKind::Literal(crate::ir::Literal::Bool(word == "true")));
            }
            "let" => {
                let hint = "put the `let` and its body in parentheses";
                self.report(Diagnostic::parse(start, "a `let` cannot be an operand").with_hint(hint));
                return self.error_here();
            }
            "f32" | "f64" => return self.float_word(word == "f32"),
            _ if is_type_word(word) => return self.type_call(),
            _ => {}
        }
        let name = Name { text: word.into(), span: start };
        self.advance();
        match word {
            "deserialize" if self.at("[") => {
                self.advance();
                let ty = self.ty();
                self.recover(&["]"]);
                self.expect("]", "after the type of `deserialize`");
                let mut args = self.args();
                if args.len() != 1 && !self.recovering {
                    let message = format!("`deserialize` takes 1 argument, not {}", args.len());
                    self.errors.push(Diagnostic::parse(self.since(start), message));
                }
                let data = args.pop().unwrap_or_else(|| self.error_here());
                self.make(self.since(start), ExprKind::Deserialize { ty, data: Box::new(data) })
            }
            "cudf" if self.at("[") => {
                self.advance();
                let name = Name { text: self.text().into(), span: self.span };
                if self.token == Token::Word {
                    self.advance();
                } else {
                    self.unexpected("expected the name of a function");
                }
                self.expect(",", "after the name of the function");
                let ty = self.ty();
                self.recover(&["]"]);
                self.expect("]", "after the result type of `cudf`");
                let args = self.args();
                self.make(self.since(start), ExprKind::CUdf { name, ty, args })
            }
            _ if self.at("(") => {
                let args = self.args();
                // `if (c) a else b`, before the parser stumbles over `a`.
                if word == "if" && args.len() == 1 {
                    let problem = Diagnostic::parse(self.since(start), "`if` takes 3 arguments, not 1");
                    self.report(problem.with_hint("it is written `if(condition, on_true, on_false)`"));
                }
                self.make(self.since(start), ExprKind::Call { name, args })
            }
            _ if is_reserved(word) => {
                self.unexpected(&format!("expected `(` after `{word}`"));
                self.error_here()
            }
            _ => self.make(start, ExprKind::Name(name.text)),
        }
    }

    /// `f64(x)`, or a float that has no digits: `f64[nan]`.
    fn float_word(&mut self, single: bool) -> Expr {
        let start = self.span;
        let ty = self.ty();
        if !self.accept("[") {
            return self.type_call_of(start, ty);
        }
        let minus = if self.accept("-") { "-" } else { "" };
        let value = literal::special_float(&format!("{minus}{}", self.text()), single);
        match value {
            Some(value) => {
                self.advance();
                self.expect("]", "after the float");
                self.make(self.since(start), ExprKind::Literal(value))
            }
            None => {
                self.unexpected("expected `inf`, `-inf`, `nan` or the bits in hexadecimal");
                self.error_here()
            }
        }
    }

    /// A cast or a new builder.
    fn type_call(&mut self) -> Expr {
        let start = self.span;
        let is_builder = is_builder_word(self.text());
        let ty = self.ty();
        if is_builder && !self.at("(") {
            return self.make(self.since(start), ExprKind::Make { ty, args: None });
        }
        self.type_call_of(start, ty)
    }

    fn type_call_of(&mut self, start: Span, ty: TypeExpr) -> Expr {
        if !self.at("(") {
            self.unexpected("expected `(` and what to convert after the type");
            return self.error_here();
        }
        let args = Some(self.args());
        self.make(self.since(start), ExprKind::Make { ty, args })
    }

    fn args(&mut self) -> Vec<Expr> {
        if !self.at("(") {
            self.unexpected("expected `(`");
            return Vec::new();
        }
        self.list("(", ")", Parser::expr)
    }

    /// Things with commas between brackets; goes on at the next comma after an error.
    pub(super) fn list<T>(&mut self, open: &str, close: &str, item: fn(&mut Self) -> T) -> Vec<T> {
        let start = self.span;
        self.accept(open);
        let mut items = Vec::new();
        while !self.at(close) && self.token != Token::End {
            items.push(item(self));
            if !self.at(",") && !self.at(close) {
                let (before, at_end) = (self.errors.len(), self.token == Token::End);
                self.unexpected_after_operand(&format!("expected `,` or `{close}`"));
                if at_end {
                    self.explain(before, |problem| problem.labels.push((start, "opened here".to_owned())));
                }
                self.recover(&[",", close]);
            }
            if !self.accept(",") {
                break;
            }
        }
        if !self.accept(close) {
            if self.token == Token::End && !self.recovering {
                let message = format!("this `{open}` is never closed");
                self.report(Diagnostic::parse(start, message));
            } else {
                self.unexpected(&format!("expected `{close}`"));
            }
        }
        items
    }
}
