//! Operands: numbers, names, parentheses, literals.

use super::*;
use crate::lexer;

impl Parser<'_> {
    pub(super) fn atom(&mut self) -> Parsed<ExprId> {
        let start = self.current.span;
        match (self.current.token, self.word()) {
            (Token::Int | Token::Float, _) => {
                let value = self.number()?;
                self.push(Kind::Number { value, label: None }, start, start)
            }
            (Token::Char, text) => {
                let label = text.chars().nth(1);
                self.advance()?;
                let wrong = self.wrong(&format!("a number behind the label {text}"));
                // A negative number is in parentheses.
                if !matches!(self.current.token, Token::Int | Token::Float) && !self.mark("(") {
                    return Err(wrong);
                }
                let mut number = self.nested(Self::atom)?;
                while let Kind::Paren(inner) = self.expr_ref(number).kind {
                    number = inner;
                }
                let Kind::Number { value, label: None } = self.expr_ref(number).kind else { return Err(wrong) };
                self.push(Kind::Number { value, label }, self.since(start), start)
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
    pub(super) fn bang(&mut self, operator: &str) -> Parsed<ExprId> {
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

    /// `-.4` is `-. 4`, which OCaml takes for no number, and whoever wrote it for -0.4.
    pub(super) fn float_behind(&self, prefix: Lexeme) -> Parsed<()> {
        if self.current.token == Token::Int && matches!(self.text(prefix.span), "-." | "+.") {
            let error = self.wrong(&format!("a float behind `{}`", self.text(prefix.span)));
            return Err(error.with_hint("a number has a digit before its point, such as `-0.4`"));
        }
        Ok(())
    }

    pub(super) fn number(&mut self) -> Parsed<f64> {
        let span = self.current.span;
        let text = self.word().replace('_', "");
        let value = match lexer::radix(text.as_bytes()) {
            Some(radix) => u64::from_str_radix(&text[2..], radix).ok().map(|value| value as f64),
            None => text.parse::<f64>().ok(),
        };
        let value = value.ok_or_else(|| Diagnostic::parse(span, format!("`{text}` is no number")))?;
        if value.is_infinite() {
            return Err(Diagnostic::ty(span, format!("the number `{text}` is too large")));
        }
        self.advance()?;
        Ok(value)
    }

    /// An expression in parentheses, or a literal of an input axis.
    pub(super) fn parenthesis(&mut self) -> Parsed<ExprId> {
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

    pub(super) fn literal(&mut self, element: Element, start: Span) -> Parsed<ExprId> {
        let span = Span { start: start.start, end: self.end };
        self.push(Kind::Literal(element.value), span, start)
    }

    /// What is read as an expression turns out to be an element of a literal.
    pub(super) fn as_element(&mut self, id: ExprId) -> Parsed<Element> {
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
    pub(super) fn element(&mut self) -> Parsed<Element> {
        let start = self.current.span;
        match (self.current.token, self.word()) {
            (Token::Int | Token::Float, _) => Ok(Element::number(self.number()?, start)),
            (Token::Op, "-" | "-." | "!." | "!..") => {
                let sign = if self.word().starts_with('-') { -1.0 } else { 1.0 };
                let prefix = self.advance()?;
                self.float_behind(prefix)?;
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

pub(super) fn no_element(span: Span) -> Diagnostic {
    Diagnostic::parse(span, "the elements of a literal are numbers or literals")
}
