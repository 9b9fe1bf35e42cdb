//! Recursive descent over the tokens, precedence climbing for operators.
//!
//! After an error the parser goes on with the next `function`, so each function reports its first error.

mod expr;

use weld_core::diag::{Diagnostic, Span};

use crate::lexer::{Lexer, Token};
use crate::tree::{Function, Module, Name, Stmt, StmtKind, TypeExpr};
use crate::types::{Dim, Elem, Type};

/// How deep statements and expressions nest.
pub(crate) const DEPTH_MAX: u32 = 1_000;

/// More errors than anybody reads.
const ERRORS_MAX: usize = 50;

/// The error is in the parser's list already.
pub(crate) struct Reported;

type Parsed<T> = Result<T, Reported>;

/// The tree of a text, or what keeps it from having one.
pub(crate) fn parse(text: &str, depth_max: u32) -> Result<Module<'_>, Vec<Diagnostic>> {
    let mut parser = Parser::new(text, depth_max);
    let module = parser.module();
    if parser.errors.is_empty() { Ok(module) } else { Err(parser.errors) }
}

/// A type that stands alone.
pub(crate) fn parse_type(text: &str) -> Result<Type, Diagnostic> {
    let mut parser = Parser::new(text, DEPTH_MAX);
    let ty = parser.ty("a type");
    if ty.is_ok() && parser.token != Token::End {
        let _: Parsed<()> = parser.unexpected("the end of the type");
    }
    match (ty, parser.errors.into_iter().next()) {
        (Ok(ty), None) => Ok(ty.ty),
        (_, error) => Err(error.unwrap_or_else(|| Diagnostic::parse(Span::NONE, format!("`{text}` is no type")))),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    span: Span,
    /// Where the token before this one ended.
    last_end: u32,
    depth: u32,
    depth_max: u32,
    errors: Vec<Diagnostic>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, depth_max: u32) -> Parser<'a> {
        let lexer = Lexer::new(text);
        let mut parser =
            Parser { lexer, token: Token::End, span: Span::NONE, last_end: 0, depth: 0, depth_max, errors: Vec::new() };
        parser.advance();
        parser
    }

    // Tokens.

    fn advance(&mut self) {
        self.last_end = self.span.end;
        let (token, span, problem) = self.lexer.next();
        (self.token, self.span) = (token, span);
        self.errors.extend(problem);
    }

    fn text(&self) -> &'a str {
        &self.lexer.text[self.span.start as usize..self.span.end as usize]
    }

    fn at(&self, sign: &str) -> bool {
        matches!(self.token, Token::Sign(s) if s == sign)
    }

    fn at_keyword(&self, word: &str) -> bool {
        self.token == Token::Keyword && self.text() == word
    }

    fn accept(&mut self, sign: &str) -> bool {
        let found = self.at(sign);
        if found {
            self.advance();
        }
        found
    }

    /// `place` says where: ``after the parameters``.
    fn expect(&mut self, sign: &str, place: &str) -> Parsed<()> {
        if self.accept(sign) { Ok(()) } else { self.unexpected(&format!("`{sign}` {place}")) }
    }

    fn expect_keyword(&mut self, word: &str, place: &str) -> Parsed<()> {
        if !self.at_keyword(word) {
            return self.unexpected(&format!("`{word}` {place}"));
        }
        self.advance();
        Ok(())
    }

    fn since(&self, start: Span) -> Span {
        Span { start: start.start, end: self.last_end.max(start.end) }
    }

    /// Reports that something else was expected here.
    fn unexpected<T>(&mut self, expected: &str) -> Parsed<T> {
        // What could not be read was reported by the lexer.
        if self.token == Token::Bad {
            return Err(Reported);
        }
        let found = match self.token {
            Token::End => "the end of the text".to_owned(),
            Token::Keyword => format!("the keyword `{}`", self.text()),
            _ => format!("`{}`", self.text()),
        };
        let mut error = Diagnostic::parse(self.span, format!("expected {expected}, found {found}"));
        error.hint = self.advice(expected);
        self.errors.push(error);
        Err(Reported)
    }

    /// For those who write another language's signs.
    fn advice(&self, expected: &str) -> Option<String> {
        let operand = expected.starts_with("an expression");
        let twice =
            |sign: &str| operand && self.at(sign) && self.lexer.text[..self.span.start as usize].ends_with(sign);
        let hint = match self.text() {
            "&" if twice("&") => "the logical and is `&`",
            "|" if twice("|") => "the logical or is `|`",
            "=" if expected.starts_with("`;`") => "an element is assigned with `m[i] = value;`, and equality is `==`",
            "[" if expected.starts_with("`;`") => "an element is read with `m{i}`",
            "?" => "`?` is a size of a matrix type",
            "while" | "do" | "break" | "continue" => "loops are written `for (i in 0...n by 1)`",
            _ if self.token == Token::Keyword && expected.starts_with("the name") => "a keyword cannot be a name",
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// Runs `f` one level deeper.
    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= self.depth_max {
            return self.too_deep(self.span);
        }
        self.depth += 1;
        let parsed = weld_core::ir::deep(|| f(self));
        self.depth -= 1;
        parsed
    }

    fn too_deep<T>(&mut self, span: Span) -> Parsed<T> {
        let message = format!("the program is nested too deeply: more than {} levels", self.depth_max);
        self.errors.push(Diagnostic::parse(span, message));
        Err(Reported)
    }

    // Modules and functions.

    fn module(&mut self) -> Module<'a> {
        let mut functions = Vec::new();
        if self.token == Token::End && self.errors.is_empty() {
            let _: Parsed<()> = self.unexpected("a function");
        }
        while self.token != Token::End && self.errors.len() < ERRORS_MAX {
            let before = self.span;
            self.depth = 0;
            match self.function() {
                Ok(function) => functions.push(function),
                Err(Reported) => self.skip_to_function(before),
            }
        }
        // What no parser function looked at may still be wrong.
        Module { functions }
    }

    fn skip_to_function(&mut self, start: Span) {
        if self.span == start && self.token != Token::End {
            self.advance();
        }
        while self.token != Token::End && !self.at_keyword("function") {
            let known = self.errors.len();
            self.advance();
            // One error a function.
            self.errors.truncate(known);
        }
    }

    fn function(&mut self) -> Parsed<Function<'a>> {
        let start = self.span;
        self.expect_keyword("function", "before a function")?;
        let result = self.ty("the result type of the function")?;
        let name = self.name("the name of the function")?;
        self.expect("(", "after the function's name")?;
        let mut params = Vec::new();
        if !self.at(")") {
            loop {
                let ty = self.ty("the type of a parameter")?;
                params.push((ty, self.name("the name of the parameter")?));
                if !self.accept(",") {
                    break;
                }
            }
        }
        self.expect(")", "after the parameters")?;
        let body = self.block("the body of a function")?;
        Ok(Function { result, name, params, body, span: self.since(start) })
    }

    fn name(&mut self, what: &str) -> Parsed<Name<'a>> {
        if self.token != Token::Identifier {
            return self.unexpected(what);
        }
        let name = Name { text: self.text(), span: self.span };
        self.advance();
        Ok(name)
    }

    // Types.

    fn ty(&mut self, what: &str) -> Parsed<TypeExpr> {
        let start = self.span;
        let ty = match (self.token, self.text()) {
            (Token::Keyword, "int") => Type::Int,
            (Token::Keyword, "float") => Type::Float,
            (Token::Keyword, "void") => Type::Void,
            (Token::Keyword, "matrix") => return self.matrix(),
            (Token::Keyword, "range") => {
                let message = format!("expected {what}, found the keyword `range`");
                let error = Diagnostic::parse(start, message);
                self.errors.push(error.with_hint("the type of `a...b` has no name: nothing can be declared with it"));
                return Err(Reported);
            }
            _ => return self.unexpected(what),
        };
        self.advance();
        Ok(TypeExpr { ty, span: start })
    }

    fn matrix(&mut self) -> Parsed<TypeExpr> {
        let start = self.span;
        self.advance();
        self.expect("<", "after `matrix`")?;
        let elem = match (self.token, self.text()) {
            (Token::Keyword, "int") => Elem::Int,
            (Token::Keyword, "float") => Elem::Float,
            _ => return self.unexpected("the element type of the matrix, `int` or `float`"),
        };
        self.advance();
        self.expect(">", "after the element type")?;
        self.expect("[", "before the sizes of the matrix")?;
        let mut dims = Vec::new();
        loop {
            dims.push(self.dim()?);
            if !self.accept(",") {
                break;
            }
        }
        self.expect("]", "after the sizes of the matrix")?;
        Ok(TypeExpr { ty: Type::Matrix(elem, dims.into()), span: self.since(start) })
    }

    fn dim(&mut self) -> Parsed<Dim> {
        let dim = match self.token {
            Token::Sign("?") => Dim::Open,
            Token::Int => Dim::Known(self.int()?.into()),
            _ => return self.unexpected("a size of the matrix, an integer or `?`"),
        };
        self.advance();
        Ok(dim)
    }

    /// The integer that stands here.
    fn int(&mut self) -> Parsed<i32> {
        let text = self.text();
        if let Ok(value) = text.parse() {
            return Ok(value);
        }
        let text = weld_core::diag::shortened(text.to_owned());
        let error = Diagnostic::parse(self.span, format!("the literal {text} does not fit int"));
        self.errors.push(error.with_hint("the largest int is 2147483647"));
        Err(Reported)
    }

    // Statements.

    fn block(&mut self, what: &str) -> Parsed<Vec<Stmt<'a>>> {
        self.expect("{", &format!("before {what}"))?;
        let mut statements = Vec::new();
        while !self.at("}") {
            statements.push(self.statement()?);
        }
        if statements.is_empty() {
            return self.unexpected(&format!("a statement: {what} has one or more"));
        }
        self.advance();
        Ok(statements)
    }

    fn statement(&mut self) -> Parsed<Stmt<'a>> {
        self.nested(|p| {
            let start = p.span;
            let kind = p.statement_kind()?;
            Ok(Stmt { kind, span: p.since(start) })
        })
    }

    fn statement_kind(&mut self) -> Parsed<StmtKind<'a>> {
        match (self.token, self.text()) {
            (Token::Keyword, "var") => self.var(),
            (Token::Keyword, "for") => self.for_loop(),
            (Token::Keyword, "if") => self.conditional(),
            (Token::Keyword, "return") => {
                self.advance();
                let value = self.expr()?;
                self.expect(";", "after the returned value")?;
                Ok(StmtKind::Return(value))
            }
            (Token::Sign("{"), _) => Ok(StmtKind::Block(self.block("a compound statement")?)),
            (Token::Identifier, _) => self.simple(),
            _ => self.unexpected("a statement"),
        }
    }

    fn var(&mut self) -> Parsed<StmtKind<'a>> {
        self.advance();
        let ty = self.ty("the type of the variable")?;
        let name = self.name("the name of the variable")?;
        let init = if self.accept("=") { Some(self.expr()?) } else { None };
        let place = if init.is_some() { "after the initial value" } else { "after the variable" };
        self.expect(";", place)?;
        Ok(StmtKind::Var { ty, name, init })
    }

    fn for_loop(&mut self) -> Parsed<StmtKind<'a>> {
        self.advance();
        self.expect("(", "after `for`")?;
        let name = self.name("the name of the loop's variable")?;
        self.expect_keyword("in", "after the loop's variable")?;
        let range = self.expr()?;
        self.expect_keyword("by", "after the loop's range")?;
        let step = self.expr()?;
        self.expect(")", "after the loop's step")?;
        let body = Box::new(self.statement()?);
        Ok(StmtKind::For { name, range, step, body })
    }

    fn conditional(&mut self) -> Parsed<StmtKind<'a>> {
        self.advance();
        self.expect("(", "after `if`")?;
        let cond = self.expr()?;
        self.expect(")", "after the condition")?;
        let on_true = Box::new(self.statement()?);
        let on_false = if self.at_keyword("else") {
            self.advance();
            Some(Box::new(self.statement()?))
        } else {
            None
        };
        Ok(StmtKind::If { cond, on_true, on_false })
    }

    /// An assignment or a call.
    fn simple(&mut self) -> Parsed<StmtKind<'a>> {
        let name = self.name("a statement")?;
        let kind = if self.accept("=") {
            StmtKind::Assign { name, value: self.expr()? }
        } else if self.accept("[") {
            let indices = self.list("]", "after the indices")?;
            self.expect("=", "after the element that is assigned")?;
            StmtKind::AssignElement { name, indices, value: self.expr()? }
        } else if self.at("(") {
            StmtKind::Call(self.call(name)?)
        } else {
            return self.unexpected(&format!("`=`, `[` or `(` after `{}` at the beginning of a statement", name.text));
        };
        self.expect(";", "after the statement")?;
        Ok(kind)
    }
}
