//! Written types into types under inference.

use super::Infer;
use super::types::{Con, Ty, Types};
use crate::diag::{Diagnostic, Span};
use crate::ir::typing;
use crate::syntax::advice;
use crate::syntax::tree::{Alias, TypeExpr, TypeKind};

impl<'a> Infer<'a> {
    /// The type that is written; parts written `?` are unknown.
    pub(super) fn ty(&mut self, ty: &'a TypeExpr) -> Ty {
        let lowered = self.type_of(ty);
        self.well_formed(ty.span, lowered)
    }

    /// Reads the definitions that the program does not use.
    pub(super) fn unused_aliases(&mut self, aliases: &'a [Alias]) {
        for Alias { name, ty } in aliases {
            if !self.alias_types.contains_key(&*name.text) {
                let lowered = self.alias(name.span, &name.text);
                self.well_formed(ty.span, lowered);
            }
        }
    }

    /// What is wholly known can be checked right here, where its text is.
    fn well_formed(&mut self, span: Span, ty: Ty) -> Ty {
        if let Some(known) = self.types.export(ty)
            && let Err(message) = typing::well_formed(&known)
        {
            self.complain(span, message);
            return Types::ERROR;
        }
        ty
    }

    fn type_of(&mut self, ty: &'a TypeExpr) -> Ty {
        let part = |infer: &mut Self, part: &'a TypeExpr| infer.type_of(part);
        let (con, parts) = match &ty.kind {
            TypeKind::Error => return Types::ERROR,
            TypeKind::Infer => return self.types.unknown(),
            TypeKind::Scalar(kind) => return Types::scalar(*kind),
            TypeKind::Alias(name) => return self.alias(ty.span, name),
            TypeKind::Stream(_) => {
                self.complain(ty.span, "`stream[..]` can only be the type of a parameter of the program");
                return Types::ERROR;
            }
            TypeKind::Simd(element) => (Con::Simd, vec![part(self, element)]),
            TypeKind::Vec(element) => (Con::Vec, vec![part(self, element)]),
            TypeKind::Dict(key, value) => (Con::Dict, vec![part(self, key), part(self, value)]),
            TypeKind::Struct(fields) => (Con::Struct, fields.iter().map(|field| part(self, field)).collect()),
            TypeKind::Appender(element) => (Con::Appender, vec![part(self, element)]),
            TypeKind::Merger(value, op) => (Con::Merger(op.clone()), vec![part(self, value)]),
            TypeKind::VecMerger(value, op) => (Con::VecMerger(op.clone()), vec![part(self, value)]),
            TypeKind::GroupBuilder(key, value) => (Con::GroupBuilder, vec![part(self, key), part(self, value)]),
            TypeKind::DictMerger(key, value, op) => {
                (Con::DictMerger(op.clone()), vec![part(self, key), part(self, value)])
            }
            TypeKind::Numberer(key, value, op, row) => {
                (Con::Numberer(op.clone()), vec![part(self, key), part(self, value), part(self, row)])
            }
        };
        if con == Con::Simd
            && !matches!(self.types.shape(parts[0]), super::types::Shape::Con(Con::Scalar(_), _))
            && !self.types.is_error(parts[0])
        {
            self.complain(ty.span, "the element of `simd[..]` must be a scalar type");
            return Types::ERROR;
        }
        self.con(ty.span, con, &parts)
    }

    /// The type that an alias stands for, found out once.
    fn alias(&mut self, span: Span, name: &str) -> Ty {
        let Some((name, definition)) = self.aliases.get_key_value(name).map(|(name, ty)| (*name, *ty)) else {
            let mut problem = Diagnostic::ty(span, format!("unknown type `{name}`"));
            problem.hint = advice::for_type(name).map(str::to_owned);
            self.report(problem);
            return Types::ERROR;
        };
        match self.alias_types.get(name) {
            Some(Some(known)) => return *known,
            Some(None) => {
                let problem = Diagnostic::ty(span, format!("the type `{name}` is defined by itself"));
                self.report(problem.with_hint("a type cannot contain itself"));
                return Types::ERROR;
            }
            None => {}
        }
        self.alias_types.insert(name, None);
        let errors = self.errors.len();
        let mut lowered = crate::ir::deep(|| self.type_of(definition));
        if self.types.export(lowered).is_none() {
            if self.errors.len() == errors {
                self.complain(definition.span, format!("`?` is not allowed in the type `{name}`"));
            }
            lowered = Types::ERROR;
        }
        self.alias_types.insert(name, Some(lowered));
        lowered
    }
}
