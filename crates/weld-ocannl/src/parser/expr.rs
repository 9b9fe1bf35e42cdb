//! Expressions: operators by OCaml's precedence, application.

use super::*;

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed<ExprId> {
        self.nested(|parser| parser.binary(1))
    }

    /// `let name = value in body`, `let f x = value in body`, `let%op name = value in body`
    pub(super) fn let_in(&mut self) -> Parsed<ExprId> {
        let start = self.current.span;
        let tensor = self.next_begins("%");
        if tensor {
            if self.extension()? {
                let error = Diagnostic::parse(self.since(start), "`let%cd` is code, found inside of an expression");
                return Err(error.with_hint("inside of an expression it is `let name = .. in ..`"));
            }
        } else {
            self.advance()?;
        }
        let name = self.name("a name")?;
        let mut params = Params::default();
        let is_function = !self.is(Token::Op, "=");
        self.params(&mut params, "=")?;
        let mut value = self.expr()?;
        if is_function {
            value = self.lambda(params, value, name.span)?;
        }
        self.expect(Token::Word, "in")?;
        // The body of a `let` is no level of its own, so that many may stand in a row.
        let body = self.binary(1)?;
        let span = start.to(self.expr_ref(body).span);
        self.push(Kind::Let { name: name.clone(), value, body, tensor }, span, name.span)
    }

    /// `fun x y -> body`
    pub(super) fn fun(&mut self) -> Parsed<ExprId> {
        let start = self.advance()?.span;
        let mut params = Params::default();
        self.fun_params(&mut params)?;
        let body = self.expr()?;
        self.lambda(params, body, start)
    }

    pub(super) fn lambda(
        &mut self,
        Params { mut params, mut config }: Params,
        body: ExprId,
        start: Span,
    ) -> Parsed<ExprId> {
        let span = start.to(self.expr_ref(body).span);
        // `fun x -> fun y -> e` is `fun x y -> e`.
        let inner = match &mut self.exprs[body.0 as usize].kind {
            Kind::Fun(inner) => Some((std::mem::take(&mut inner.params), inner.config, inner.body)),
            _ => None,
        };
        let body = match inner {
            Some((more, inner, body)) => {
                params.extend(more);
                config = config.or(inner);
                body
            }
            None => body,
        };
        self.push(Kind::Fun(Lambda { params, config, body }), span, start)
    }

    /// Operators of a level or tighter: 1 comparisons, 2 `@`, 3 `+`, 4 `*`, 5 `**`.
    pub(super) fn binary(&mut self, least: u8) -> Parsed<ExprId> {
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

    pub(super) fn einsum(&mut self, left: ExprId, text: &str, op: Span) -> Parsed<ExprId> {
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

    pub(super) fn prefix(&mut self) -> Parsed<ExprId> {
        let start = self.current.span;
        match (self.current.token, self.word()) {
            (Token::Op, "-" | "-.") => {
                let minus = self.advance()?;
                self.float_behind(minus)?;
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
            // It reaches as far to the right as it can.
            (Token::Word, "let") => self.nested(Self::let_in),
            (Token::Word, "fun") => self.nested(Self::fun),
            _ => self.application(),
        }
    }

    pub(super) fn application(&mut self) -> Parsed<ExprId> {
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

    pub(super) fn config_follows(&self) -> bool {
        self.next_begins("config")
    }

    /// `~config` or `~config:{label=["a"; "b"]}`
    pub(super) fn config(&mut self) -> Parsed<Vec<String>> {
        self.advance()?;
        self.advance()?;
        if !self.take(Token::Op, ":")? {
            return Ok(Vec::new());
        }
        if self.is_name() {
            self.advance()?;
            return Ok(Vec::new());
        }
        self.record()
    }

    /// `{label=["a"; "b"]; ..}`: of a configuration only the label is looked at.
    fn record(&mut self) -> Parsed<Vec<String>> {
        let start = self.expect(Token::Mark, "{")?.span;
        let mut labels = None;
        while !self.mark("}") {
            let field = self.name("a field such as `label`")?;
            self.expect(Token::Op, "=")?;
            if &*field.text == "label" {
                labels = Some(self.label_strings()?);
            } else {
                self.expr()?;
            }
            if !self.take(Token::Mark, ";")? {
                break;
            }
        }
        self.expect(Token::Mark, "}")?;
        let missing = || Diagnostic::parse(self.since(start), "a configuration has a field `label`, found none");
        labels.ok_or_else(|| missing().with_hint("such as `~config:{label=[\"layer\"]}`"))
    }

    /// `["a"; "b"]`
    fn label_strings(&mut self) -> Parsed<Vec<String>> {
        let mut labels = Vec::new();
        self.expect(Token::Mark, "[")?;
        while self.current.token == Token::Text {
            labels.push(self.string().to_owned());
            self.advance()?;
            if !self.take(Token::Mark, ";")? {
                break;
            }
        }
        self.expect(Token::Mark, "]")?;
        Ok(labels)
    }

    pub(super) fn grad(&mut self, name: Name) -> Parsed<ExprId> {
        self.advance()?;
        let part = self.name("`grad`")?;
        if &*part.text != "grad" {
            return Err(unknown_part(part.span, &part.text, "`grad`"));
        }
        let (span, op) = (name.span.to(part.span), part.span);
        self.push(Kind::Grad(name), span, op)
    }

    pub(super) fn starts_number(&self) -> bool {
        matches!(self.current.token, Token::Int | Token::Float | Token::Char)
    }

    pub(super) fn starts_atom(&self) -> bool {
        match self.current.token {
            Token::Int | Token::Float | Token::Char | Token::Text => true,
            Token::Word => self.is_name(),
            Token::Op => self.word().starts_with('!') && self.word() != "!=",
            Token::Mark => matches!(self.word(), "(" | "[" | "[|" | "{"),
            Token::End => false,
        }
    }
}

pub(super) fn operator(text: &str) -> Option<Operator> {
    use Operator::*;
    [Star, Slash, Power, Add, Sub, Gate, MulDot, DivDot, PowDot].into_iter().find(|operator| operator.text() == text)
}

/// OCaml's level of an infix operator, by its first characters.
pub(super) fn level(text: &str) -> Option<u8> {
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

pub(super) fn unknown_operator(span: Span, text: &str) -> Diagnostic {
    let hint = match text {
        "+." => "the operator is `+`",
        "-." => "the operator is `-`",
        "!=" | "<" | ">" | "<=" | ">=" | "==" | "<>" => "there are no comparisons; `a -?/ b` is `b` where `a > 0`",
        ":=" | "+=" | "-=" | "*=" | "/=" => "an assignment is `=` or `=:` and an operator: `c =:+ a * b`",
        _ => "the operators are `* *. /. **. + - -?/ ++ +* @^+ !/`",
    };
    Diagnostic::parse(span, format!("unknown operator `{text}`")).with_hint(hint)
}
