//! The parser's half for types and builders' binops.

use super::lexer::Token;
use super::parser::Parser;
use super::tree::{TypeExpr, TypeKind};
use super::{TYPE_DEPTH_MAX, advice, words};
use crate::diag::{Diagnostic, Span};
use crate::op::{MergeOp, ReduceOp, StructOp};

impl Parser<'_> {
    /// A type; annotations before it are read and dropped.
    pub(super) fn ty(&mut self) -> TypeExpr {
        let start = self.span;
        if self.type_depth >= TYPE_DEPTH_MAX {
            let message = format!("the type is nested too deeply: more than {TYPE_DEPTH_MAX} levels");
            self.stop(Span { start: start.start, end: start.start }, message);
            return TypeExpr { span: start, kind: TypeKind::Error };
        }
        if self.at("@") {
            self.annotations();
        }
        self.type_depth += 1;
        let kind = self.nested(Parser::type_kind).unwrap_or(TypeKind::Error);
        self.type_depth -= 1;
        TypeExpr { span: self.since(start), kind }
    }

    fn type_kind(&mut self) -> TypeKind {
        if self.at("{") {
            return TypeKind::Struct(self.list("{", "}", Parser::ty));
        }
        if self.accept("?") {
            return TypeKind::Infer;
        }
        if self.token != Token::Word {
            self.unexpected("expected a type");
            return TypeKind::Error;
        }
        let word = self.text();
        if let Some(kind) = words::scalar(word) {
            self.advance();
            return TypeKind::Scalar(kind);
        }
        if !words::is_type_word(word) {
            if words::is_reserved(word) {
                self.unexpected("expected a type");
                return TypeKind::Error;
            }
            self.advance();
            return TypeKind::Alias(word.into());
        }
        self.advance();
        let before = self.errors.len();
        let kind = self.type_with_parts(word);
        self.explain(before, |problem| {
            problem.hint = problem.hint.take().or(advice::form_of_type(word).map(str::to_owned));
        });
        kind
    }

    /// The rest of a type after its first word.
    fn type_with_parts(&mut self, word: &str) -> TypeKind {
        match word {
            "appender" if !self.at("[") => return TypeKind::Appender(self.infer()),
            "groupbuilder" | "groupmerger" if !self.at("[") => {
                return TypeKind::GroupBuilder(self.infer(), self.infer());
            }
            _ => {}
        }
        if !self.expect("[", &format!("and the parts of the type after `{word}`")) {
            return TypeKind::Error;
        }
        let first = Box::new(self.ty());
        let kind = match word {
            "simd" => TypeKind::Simd(first),
            "vec" => TypeKind::Vec(first),
            "stream" => TypeKind::Stream(first),
            "appender" => TypeKind::Appender(first),
            "dict" => TypeKind::Dict(first, self.second_type()),
            "groupbuilder" | "groupmerger" => TypeKind::GroupBuilder(first, self.second_type()),
            "numberer" => {
                let (value, op) = (self.second_type(), self.second_op());
                TypeKind::Numberer(first, value, op, self.second_type())
            }
            "merger" => TypeKind::Merger(first, self.second_op()),
            "vecmerger" => TypeKind::VecMerger(first, self.second_op()),
            _ => {
                let value = self.second_type();
                TypeKind::DictMerger(first, value, self.second_op())
            }
        };
        self.recover(&["]"]);
        self.expect("]", "after the parts of the type");
        kind
    }

    fn infer(&mut self) -> Box<TypeExpr> {
        Box::new(TypeExpr { span: self.since(self.span), kind: TypeKind::Infer })
    }

    fn second_type(&mut self) -> Box<TypeExpr> {
        self.expect(",", "and a further type");
        Box::new(self.ty())
    }

    fn second_op(&mut self) -> MergeOp {
        self.expect(",", "and a binop");
        self.merge_op()
    }

    /// A sign or name of a [`ReduceOp`], the name of a [`StructOp`], or a struct of binops.
    fn merge_op(&mut self) -> MergeOp {
        let op = match self.token {
            Token::Sign("{") => {
                let start = self.span;
                let ops = self.nested(|parser| parser.list("{", "}", Parser::merge_op)).unwrap_or_default();
                if ops.is_empty() {
                    self.report(Diagnostic::parse(start, "a struct of binops needs at least one"));
                }
                return MergeOp::Fields(ops.into());
            }
            Token::Sign(sign) => ReduceOp::ALL.into_iter().find(|op| op.binary().name() == sign),
            Token::Word => ReduceOp::ALL.into_iter().find(|op| op.binary().name() == self.text()),
            _ => None,
        };
        let of_struct = match self.token {
            Token::Word => StructOp::ALL.into_iter().find(|op| op.name() == self.text()),
            _ => None,
        };
        let op = op.map(MergeOp::All).or(of_struct.map(MergeOp::Struct));
        match op {
            Some(op) => {
                self.advance();
                op
            }
            None => {
                self.unexpected("expected a binop (`+`, `*`, `min`, `max`, `&`, `|`, `^`, `least`, `greatest`, `moments`, `first`, `last`, `least_by`, `greatest_by`, `last_by` or a struct of them)");
                MergeOp::All(ReduceOp::Add)
            }
        }
    }
}
