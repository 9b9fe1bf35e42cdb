//! Code: assignments, commands, bindings.

use super::*;

impl<'a> Parser<'a> {
    pub(super) fn code(&mut self) -> Parsed<Vec<Item>> {
        let mut items = Vec::new();
        self.items(&mut items)?;
        Ok(items)
    }

    fn items(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        loop {
            if self.is(Token::Word, "let") {
                // A binding takes the rest of the code.
                self.nested(|parser| parser.binding(items))?;
                continue;
            }
            if self.take(Token::Mark, "(")? {
                self.nested(|parser| parser.items(items))?;
                self.expect(Token::Mark, ")")?;
            } else {
                items.push(self.item()?);
            }
            if !self.take(Token::Mark, ";")? {
                return Ok(());
            }
            if self.current.token == Token::End || self.is(Token::Word, "in") || self.mark(")") {
                return Ok(());
            }
        }
    }

    /// `let%op name = expr in`, `let%cd name params = code in`, `let name = expr in`
    fn binding(&mut self, items: &mut Vec<Item>) -> Parsed<()> {
        let is_plain = !self.next_begins("%");
        let is_code = if is_plain { self.advance().map(|_| false)? } else { self.extension()? };
        let name = self.name("a name")?;
        let mut params = Params::default();
        let has_params = !self.is(Token::Op, "=");
        self.params(&mut params, "=")?;
        let item = match is_code {
            true => Item::Code { name, params: params.params, code: self.code()? },
            false => {
                let mut value = self.expr()?;
                if has_params {
                    value = self.lambda(params, value, name.span)?;
                }
                if is_plain { Item::Plain { name, value } } else { Item::Tensor { name, value } }
            }
        };
        items.push(item);
        self.expect(Token::Word, "in")?;
        Ok(())
    }

    pub(super) fn item(&mut self) -> Parsed<Item> {
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

    /// A name, which code is bound to, with arguments or without.
    pub(super) fn run(&mut self, name: Name) -> Parsed<Item> {
        let mut args = Vec::new();
        loop {
            // `()` for a code without parameters.
            let is_unit = self.mark("(") && self.next_begins(")");
            if is_unit {
                self.advance()?;
                self.advance()?;
            } else if self.starts_atom() {
                args.push(self.atom()?);
            } else {
                break;
            }
        }
        let ends = matches!(self.current.token, Token::End) || self.mark(";") || self.mark(";;") || self.mark(")");
        if ends || matches!(self.word(), "in" | "let") {
            return Ok(Item::Run { name, args });
        }
        Err(self.wrong("an assignment operator such as `=:+`"))
    }

    pub(super) fn assignment(&mut self, target: Target) -> Parsed<Item> {
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

    pub(super) fn logic(&mut self) -> Parsed<(Logic, Span)> {
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
    pub(super) fn string(&self) -> &'a str {
        let span = self.current.span;
        &self.source[span.start as usize + 1..span.end as usize - 1]
    }

    pub(super) fn spec(&mut self) -> Parsed<Arc<Spec>> {
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
    pub(super) fn declare(&mut self) -> Parsed<Declare> {
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
    pub(super) fn sizes(&mut self) -> Parsed<Vec<Option<u64>>> {
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
}

/// Whether it initialises, and how it accumulates.
pub(super) fn assignment_operator(text: &str) -> Option<(bool, Accum)> {
    let rest = text.strip_prefix('=')?;
    let (init, rest) = match rest.strip_prefix(':') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let accum = Accum::ALL.into_iter().find(|accum| accum.text() == rest)?;
    (init || accum != Accum::Set).then_some((init, accum))
}
