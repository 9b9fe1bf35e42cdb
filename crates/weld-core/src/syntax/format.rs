//! Lays a source text out anew: the same program, comments kept, lines of up to a hundred columns.
//!
//! ```
//! let text = weld_core::syntax::format("|v:vec[i64]|let n=len( v );n+1L # one more").unwrap();
//! assert_eq!(text, "|v: vec[i64]|\n  let n = len(v);\n  n + 1L # one more\n");
//! ```
//!
//! Numbers, strings and types are copied from the source; parentheses stand where they are needed. A comment goes
//! before the expression that follows it, or after the comma or semicolon that it shared a line with. A single blank
//! line between definitions or bindings stays.

use super::precedence::{self as level, infix_level};
use super::tree::{Expr, ExprKind, Let, Module, Param, TypeExpr};
use crate::diag::{Diagnostic, Span};
use crate::ir::deep;
use crate::pretty::Pretty;

/// The formatted text, or why the source cannot be parsed.
pub fn format(source: &str) -> Result<String, Vec<Diagnostic>> {
    let (module, errors) = super::parse(source);
    if !errors.is_empty() {
        return Err(errors);
    }
    let comments = super::lexer::comments(source);
    let mut formatter = Formatter { source, comments, next: 0, out: Pretty::default() };
    formatter.module(&module);
    Ok(formatter.out.render() + "\n")
}

struct Formatter<'a> {
    source: &'a str,
    /// Where comments are, in order, and the first that was not written yet.
    comments: Vec<Span>,
    next: usize,
    out: Pretty,
}

impl Formatter<'_> {
    fn module(&mut self, module: &Module) {
        let mut last = 0;
        // Aliases and macros keep their order.
        let mut aliases = module.aliases.iter().peekable();
        let mut macros = module.macros.iter().peekable();
        loop {
            let alias_first = match (aliases.peek(), macros.peek()) {
                (Some(alias), Some(definition)) => alias.name.span.start < definition.name.span.start,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            if alias_first && let Some(alias) = aliases.next() {
                self.blank_line(last, alias.name.span.start);
                self.comments_before(alias.name.span.start);
                self.out.text(format!("type {} = {};", alias.name.text, self.ty(&alias.ty)));
                last = alias.ty.span.end;
            } else if let Some(definition) = macros.next() {
                self.blank_line(last, definition.name.span.start);
                self.comments_before(definition.name.span.start);
                let params: Vec<&str> = definition.params.iter().map(|param| &*param.text).collect();
                self.out.open();
                self.out.text(format!("macro {}({}) =", definition.name.text, params.join(", ")));
                self.out.indent();
                self.out.line();
                self.expr(&definition.body, level::LOOSE);
                self.out.dedent();
                self.out.text(";");
                self.out.close();
                last = definition.body.span.end;
            }
            self.trailing_comment(last);
            self.out.hard();
        }
        self.blank_line(last, module.params.first().map_or(module.body.span.start, |param| param.name.span.start));
        self.main(module);
        self.trailing_comment(module.body.span.end);
        if self.next < self.comments.len() {
            self.out.hard();
            self.comments_before(u32::MAX);
        }
    }

    fn main(&mut self, module: &Module) {
        if let Some(first) = module.params.first() {
            self.comments_before(first.name.span.start);
        }
        self.out.open();
        if !module.params.is_empty() {
            let params = self.params(&module.params);
            self.out.text(params);
            self.out.indent();
            if matches!(module.body.kind, ExprKind::Block { .. }) {
                self.out.hard();
            } else {
                self.out.line();
            }
        }
        match &module.body.kind {
            ExprKind::Block { lets, body } => {
                self.comments_before(module.body.span.start);
                self.block(lets, body, true);
            }
            _ => self.expr(&module.body, level::LOOSE),
        }
        if !module.params.is_empty() {
            self.out.dedent();
        }
        self.out.close();
    }

    // Comments and copies of the source.

    fn slice(&self, start: u32, end: u32) -> &str {
        self.source.get(start as usize..end as usize).unwrap_or_default()
    }

    fn comment_text(&self, comment: Span) -> String {
        self.slice(comment.start, comment.end).trim_end().to_owned()
    }

    /// Writes the comments before a place, each on a line of its own.
    fn comments_before(&mut self, offset: u32) {
        while let Some(&comment) = self.comments.get(self.next)
            && comment.start < offset
        {
            self.out.text(self.comment_text(comment));
            self.next += 1;
            if offset < u32::MAX || self.next < self.comments.len() {
                self.out.hard();
            }
        }
    }

    /// Writes the comment that follows on the line where something ended; whether there was one.
    fn trailing_comment(&mut self, end: u32) -> bool {
        match self.comments.get(self.next) {
            Some(&comment) if comment.start >= end && self.only_separators(end, comment.start) => {
                self.out.text(format!(" {}", self.comment_text(comment)));
                self.next += 1;
                true
            }
            _ => false,
        }
    }

    fn only_separators(&self, start: u32, end: u32) -> bool {
        let text = self.slice(start, end);
        // Parentheses that were added may close on a line of their own.
        let (before, after) = text.rsplit_once(')').unwrap_or(("", text));
        let separates = |c: char| matches!(c, ' ' | '\t' | ',' | ';');
        before.chars().all(|c| c == ')' || c.is_whitespace() || separates(c)) && after.chars().all(separates)
    }

    /// Keeps a blank line that stands between two places (before the comments that lead to the second).
    fn blank_line(&mut self, last: u32, next: u32) {
        let until = self.comments.get(self.next).map_or(next, |comment| comment.start.min(next));
        let mut lines = self.slice(last, until).split('\n').skip(1).peekable();
        while let Some(line) = lines.next() {
            if last > 0 && lines.peek().is_some() && line.trim().is_empty() {
                return self.out.hard();
            }
        }
    }

    fn ty(&self, ty: &TypeExpr) -> String {
        self.copied(ty.span)
    }

    /// The source of a type or a literal, without blanks. Comments inside it go where the next comments go.
    fn copied(&self, span: Span) -> String {
        let mut text = String::new();
        let mut at = span.start;
        let first = self.comments.partition_point(|comment| comment.start < span.start);
        for comment in self.comments[first..].iter().take_while(|comment| comment.end <= span.end) {
            text.push_str(self.slice(at, comment.start));
            at = comment.end;
        }
        text.push_str(self.slice(at, span.end));
        if text.contains('"') { text } else { text.split_whitespace().collect() }
    }

    fn params(&self, params: &[Param]) -> String {
        let params: Vec<String> = params
            .iter()
            .map(|param| match &param.ty {
                Some(ty) => format!("{}: {}", param.name.text, self.ty(ty)),
                None => param.name.text.to_string(),
            })
            .collect();
        format!("|{}|", params.join(", "))
    }

    // Expressions.

    fn expr(&mut self, e: &Expr, least: u8) {
        deep(|| {
            // A comment behind the first `let` goes before it, and so before the parentheses.
            self.comments_before(match &e.kind {
                ExprKind::Block { lets, .. } => lets.first().map_or(e.span.start, |first| first.name.span.start),
                _ => e.span.start,
            });
            if level_of(e) >= least {
                return self.plain(e);
            }
            self.out.open();
            self.out.text("(");
            self.out.indent();
            self.out.soft();
            self.plain(e);
            self.out.dedent();
            self.out.soft();
            self.out.text(")");
            self.out.close();
        })
    }

    fn plain(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Literal(_) | ExprKind::Bytes { .. } | ExprKind::Name(_) | ExprKind::Error => {
                self.out.text(self.copied(e.span));
            }
            ExprKind::Block { lets, body } => {
                self.out.open();
                self.block(lets, body, false);
                self.out.close();
            }
            ExprKind::Lambda { params, body } => {
                self.out.open();
                let params = self.params(params);
                self.out.text(params);
                self.out.indent();
                self.out.line();
                self.expr(body, level::LOOSE);
                self.out.dedent();
                self.out.close();
            }
            ExprKind::Unary(op, value) => {
                self.out.text(op.name());
                // `-5` is a literal, so the negation of a literal needs parentheses.
                let literal = matches!(value.kind, ExprKind::Literal(_));
                self.expr(value, if literal { level::POSTFIX } else { level::UNARY });
            }
            ExprKind::Binary(op, left, right) => {
                let own = infix_level(*op).unwrap_or(level::POSTFIX);
                self.out.open();
                self.expr(left, if op.is_comparison() { own + 1 } else { own });
                self.out.text(format!(" {}", op.name()));
                self.out.line();
                self.expr(right, own + 1);
                self.out.close();
            }
            ExprKind::Ascribe(value, ty) => {
                self.expr(value, level::ASCRIPTION);
                self.out.text(format!(": {}", self.ty(ty)));
            }
            ExprKind::Call { name, args } => self.list(&format!("{}(", name.text), args, ")", e),
            ExprKind::Apply { func, args } => {
                self.expr(func, level::POSTFIX);
                self.list("(", args, ")", e);
            }
            ExprKind::Make { ty, args: None } => self.out.text(self.ty(ty)),
            ExprKind::Make { ty, args: Some(args) } => self.list(&format!("{}(", self.ty(ty)), args, ")", e),
            ExprKind::Deserialize { ty, data } => {
                let open = format!("deserialize[{}](", self.ty(ty));
                self.list(&open, std::slice::from_ref(data), ")", e);
            }
            ExprKind::CUdf { name, ty, args } => {
                self.list(&format!("cudf[{},{}](", name.text, self.ty(ty)), args, ")", e);
            }
            ExprKind::Struct(fields) => self.list("{", fields, "}", e),
            ExprKind::Vector(elements) => self.list("[", elements, "]", e),
            ExprKind::Field(value, index) => {
                self.expr(value, level::POSTFIX);
                self.out.text(format!(".${index}"));
            }
            ExprKind::Annotated(entries, value) => {
                let entries: Vec<String> =
                    entries.iter().map(|(name, value)| crate::ir::annotation((name, value))).collect();
                self.out.text(format!("@({}) ", entries.join(", ")));
                self.expr(value, level::UNARY);
            }
        }
    }

    fn block(&mut self, lets: &[Let], body: &Expr, hard: bool) {
        let mut last = 0;
        for binding in lets {
            self.blank_line(last, binding.name.span.start);
            self.comments_before(binding.name.span.start);
            let ty = binding.ty.as_ref().map(|ty| format!(": {}", self.ty(ty))).unwrap_or_default();
            self.out.open();
            self.out.text(format!("let {}{ty} = ", binding.name.text));
            self.expr(&binding.value, level::LOOSE + 1);
            self.out.text(";");
            self.out.close();
            last = binding.value.span.end;
            if self.trailing_comment(last) || hard {
                self.out.hard();
            } else {
                self.out.line();
            }
        }
        self.blank_line(last, body.span.start);
        self.expr(body, level::LOOSE);
    }

    /// Things with commas between brackets, on one line or one a line; a single one hugs its brackets.
    fn list<E: std::borrow::Borrow<Expr>>(&mut self, open: &str, items: &[E], close: &str, whole: &Expr) {
        // A comment inside needs room.
        let comments = self.comments.get(self.next).is_some_and(|comment| comment.start < whole.span.end);
        self.out.open();
        self.out.text(open);
        if let ([only], false) = (items, comments) {
            self.expr(only.borrow(), level::LOOSE);
            self.out.text(close);
            return self.out.close();
        }
        self.out.indent();
        self.out.soft();
        let mut must_break = false;
        for (i, item) in items.iter().enumerate() {
            let item = item.borrow();
            self.expr(item, level::LOOSE);
            if i + 1 < items.len() {
                self.out.text(",");
                if self.trailing_comment(item.span.end) {
                    self.out.hard();
                } else {
                    self.out.line();
                }
            } else {
                must_break = self.trailing_comment_within(item.span.end, whole.span.end);
            }
        }
        while let Some(&comment) = self.comments.get(self.next)
            && comment.start < whole.span.end
        {
            self.out.hard();
            self.out.text(self.comment_text(comment));
            self.next += 1;
            must_break = true;
        }
        self.out.dedent();
        if must_break {
            self.out.hard();
        } else {
            self.out.soft();
        }
        self.out.text(close);
        self.out.close();
    }

    fn trailing_comment_within(&mut self, start: u32, end: u32) -> bool {
        self.comments.get(self.next).is_some_and(|comment| comment.start < end) && self.trailing_comment(start)
    }
}

fn level_of(e: &Expr) -> u8 {
    match &e.kind {
        ExprKind::Block { .. } | ExprKind::Lambda { .. } => level::LOOSE,
        ExprKind::Binary(op, ..) => infix_level(*op).unwrap_or(level::POSTFIX),
        ExprKind::Ascribe(..) => level::ASCRIPTION,
        ExprKind::Unary(..) | ExprKind::Annotated(..) | ExprKind::Literal(_) => level::UNARY,
        _ => level::POSTFIX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(source: &str, wanted: Expect) {
        let text = format(source).expect("the source parses");
        wanted.assert_eq(&text);
        assert_eq!(format(&text).as_ref(), Ok(&text), "formatting again changes nothing");
    }

    #[test]
    fn short_programs_stay_on_a_line() {
        check(
            "|x:i64|  x+ (1L*(2L))",
            expect![[r#"
            |x: i64| x + 1L * 2L
        "#]],
        );
        check(
            "{ 0xff ,- 5, -(5), (1+2)*3, (|x| x)(1), [ ] : vec[ i64 ]}",
            expect![[r#"
            {0xff, -5, -(5), (1 + 2) * 3, (|x| x)(1), []: vec[i64]}
        "#]],
        );
    }

    #[test]
    fn comments_inside_types_come_after_them() {
        check(
            "type t = {i64 # one\n, f64};\n|x: {i64#c\n, vec[ f64 ]}| let y: vec[#d\ni64] = []; x",
            expect![[r#"
                type t = {i64,f64};
                # one
                |x: {i64,vec[f64]}|
                  #c
                  let y: vec[i64] = #d
                  [];
                  x
            "#]],
        );
    }

    #[test]
    fn long_programs_are_broken() {
        check(
            "type line={i64,f64}; macro big(x)=x>100.0;
            |lines:vec[line]| let kept=filter(lines,|l| big(l.$1)&&l.$0>5L); let totals=for(kept,{merger[f64,+],dictmerger[i64,f64,max]},|b,i,l| {merge(b.$0,l.$1),merge(b.$1,l)}); result(totals.$0)",
            expect![[r#"
                type line = {i64,f64};
                macro big(x) = x > 100.0;
                |lines: vec[line]|
                  let kept = filter(lines, |l| big(l.$1) && l.$0 > 5L);
                  let totals = for(
                    kept,
                    {merger[f64,+], dictmerger[i64,f64,max]},
                    |b, i, l| {merge(b.$0, l.$1), merge(b.$1, l)}
                  );
                  result(totals.$0)
            "#]],
        );
    }

    #[test]
    fn comments_stay() {
        check(
            "# what it does\nmacro f(x) = x; # a macro\n\n# main\n|v: vec[i64]| # the input\n  let a = 1L; # one\n\n\n  # two\n  let b = [1, # first\n 2 # second\n # done\n];\n  a + # more\n len(v) # end\n# very end",
            expect![[r#"
                # what it does
                macro f(x) = x; # a macro

                # main
                |v: vec[i64]|
                  # the input
                  let a = 1L; # one

                  # two
                  let b = [
                    1, # first
                    2 # second
                    # done
                  ];
                  a +
                  # more
                  len(v) # end
                # very end
            "#]],
        );
    }
}
