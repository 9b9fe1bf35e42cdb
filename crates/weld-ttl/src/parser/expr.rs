//! Expressions: operators by precedence, operands, what follows an operand.

use weld_core::diag::{Diagnostic, Span};

use super::{Parsed, Parser, Reported};
use crate::lexer::Token;
use crate::tree::{BinaryOp, Expr, ExprKind, Name, UnaryOp};

impl<'a> Parser<'a> {
    pub(super) fn expr(&mut self) -> Parsed<Expr<'a>> {
        self.nested(|p| p.operators(0))
    }

    /// An expression whose operators bind tighter than `level`.
    fn operators(&mut self, level: u8) -> Parsed<Expr<'a>> {
        let start = self.span;
        let mut left = self.prefixed()?;
        loop {
            let Token::Sign(sign) = self.token else { return Ok(left) };
            let Some(op) = BinaryOp::of(sign).filter(|op| op.level() > level) else { return Ok(left) };
            self.advance();
            let right = self.nested(|p| p.operators(op.level()))?;
            let kind = ExprKind::Binary(op, Box::new(left), Box::new(right));
            left = self.made(kind, start)?;
        }
    }

    fn prefixed(&mut self) -> Parsed<Expr<'a>> {
        let op = match self.token {
            Token::Sign("-") => UnaryOp::Neg,
            Token::Sign("!") => UnaryOp::Not,
            _ => return self.postfixed(),
        };
        let start = self.span;
        self.advance();
        let operand = self.nested(|p| p.operators(op.level()))?;
        self.made(ExprKind::Unary(op, Box::new(operand)), start)
    }

    /// An operand and the slices of it.
    fn postfixed(&mut self) -> Parsed<Expr<'a>> {
        let start = self.span;
        let mut expr = self.operand()?;
        while self.accept("{") {
            let indices = self.list("}", "after the indices")?;
            expr = self.made(ExprKind::Slice { data: Box::new(expr), indices }, start)?;
        }
        Ok(expr)
    }

    fn operand(&mut self) -> Parsed<Expr<'a>> {
        let start = self.span;
        let kind = match self.token {
            Token::Int => {
                let value = self.int()?;
                self.advance();
                ExprKind::Int(value)
            }
            Token::Float => {
                let value = self.float()?;
                self.advance();
                ExprKind::Float(value)
            }
            Token::Identifier => {
                let name = self.name("an expression")?;
                if self.at("(") {
                    return self.call(name);
                }
                ExprKind::Name(name.text)
            }
            Token::Sign("(") => {
                self.advance();
                let mut inner = self.expr()?;
                self.expect(")", "after the expression")?;
                inner.span = self.since(start);
                return Ok(inner);
            }
            Token::Sign("[") => {
                self.advance();
                ExprKind::List(self.list("]", "after the elements")?)
            }
            _ => return self.unexpected("an expression"),
        };
        self.made(kind, start)
    }

    pub(super) fn call(&mut self, name: Name<'a>) -> Parsed<Expr<'a>> {
        self.expect("(", "after the function's name")?;
        let args = match self.accept(")") {
            true => Vec::new(),
            false => self.list(")", "after the arguments")?,
        };
        self.made(ExprKind::Call { name, args }, name.span)
    }

    /// One or more expressions up to a closing sign.
    pub(super) fn list(&mut self, close: &str, place: &str) -> Parsed<Vec<Expr<'a>>> {
        let mut items = Vec::new();
        loop {
            items.push(self.expr()?);
            if !self.accept(",") {
                break;
            }
        }
        self.expect(close, place)?;
        Ok(items)
    }

    fn float(&mut self) -> Parsed<f32> {
        if let Some(value) = self.text().parse::<f32>().ok().filter(|value| value.is_finite()) {
            return Ok(value);
        }
        let text = weld_core::diag::shortened(self.text().to_owned());
        self.errors.push(Diagnostic::parse(self.span, format!("the literal {text} does not fit float")));
        Err(Reported)
    }

    /// A node that began at `start`, unless the tree gets too high.
    fn made(&mut self, kind: ExprKind<'a>, start: Span) -> Parsed<Expr<'a>> {
        let span = self.since(start);
        let height = 1 + match &kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Name(_) => 0,
            ExprKind::Call { args: items, .. } | ExprKind::List(items) => highest(items),
            ExprKind::Slice { data, indices } => data.height.max(highest(indices)),
            ExprKind::Unary(_, a) => a.height,
            ExprKind::Binary(_, a, b) => a.height.max(b.height),
        };
        if height > self.depth_max {
            return self.too_deep(span);
        }
        Ok(Expr { kind, span, height })
    }
}

fn highest(items: &[Expr<'_>]) -> u32 {
    items.iter().map(|item| item.height).max().unwrap_or(0)
}
