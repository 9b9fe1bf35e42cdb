//! Decorators of functions and classes.

use std::sync::Arc;

use weld_core::diag::{Diagnostic, Span};
use weld_pysyntax::{self as py, ExprKind};

use crate::class::written_type;
use crate::signature::{SigTy, Signature};

/// What is decorated.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Target {
    Function,
    Class,
}

/// What the decorators of a definition say.
#[derive(Default)]
pub(crate) struct Decorators<'a> {
    pub(crate) signature: Option<Signature>,
    /// Signatures beside the first: an overload for each, with the same body.
    pub(crate) more: Vec<Signature>,
    /// `@overload(A, B)`: a typing rule for these.
    pub(crate) types: Option<[SigTy; 2]>,
    /// Numbers and names of parameters, with where they are written.
    pub(crate) specialize: Vec<(usize, Span)>,
    pub(crate) specialize_types: Vec<(Arc<str>, Span)>,
    /// The function, the Weld text that stands for it, and where that is.
    pub(crate) codegen: Option<(&'a py::Expr, Arc<str>, Span)>,
    /// Of a class: `Array[Type dtype, Int ndim]`.
    pub(crate) class: Option<(Arc<str>, Span)>,
    pub(crate) is_immutable: bool,
    pub(crate) is_property: bool,
    pub(crate) aggregate: Option<Option<Signature>>,
}

impl<'a> Decorators<'a> {
    pub(crate) fn read(list: &'a [py::Expr], target: Target) -> Result<Decorators<'a>, Diagnostic> {
        let mut decorators = Decorators::default();
        for decorator in list {
            decorators.one(decorator, target)?;
        }
        Ok(decorators)
    }

    fn one(&mut self, decorator: &'a py::Expr, target: Target) -> Result<(), Diagnostic> {
        let (callee, args, keywords): (_, &'a [py::Expr], &'a [py::Keyword]) = match &decorator.kind {
            ExprKind::Call { callee, args, keywords } => (&**callee, args, keywords),
            _ => (decorator, &[], &[]),
        };
        let path = callee.as_path().unwrap_or_default();
        let path = if path.first() == Some(&"numba") { &path[1..] } else { &path[..] };
        match (path, target) {
            (["jit" | "autojit"], _) => self.jit(args, keywords, target),
            (["signature" | "overload" | "opaque"], Target::Function) => self.signature(decorator, args, keywords),
            (["specialize", "arg"], Target::Function) => self.specialize(args),
            (["specialize", "argtypes"], Target::Function) => self.specialize_types(args),
            (["property"], Target::Function) if args.is_empty() => {
                self.is_property = true;
                Ok(())
            }
            (["codegen"], Target::Function) => self.codegen(decorator, args, keywords),
            (["llcodegen"], _) => Err(Diagnostic::ty(decorator.span, "unsupported: @llcodegen")
                .with_hint("`@codegen(f, weld=\"..\")` gives the Weld text of a function")),
            (["aggregate"], Target::Class) => {
                self.aggregate = Some(args.first().map(signature_of).transpose()?);
                Ok(())
            }
            _ => {
                let what = if target == Target::Class { "classes" } else { "functions" };
                let name = if path.is_empty() { callee.described().to_owned() } else { path.join(".") };
                Err(Diagnostic::ty(decorator.span, format!("unsupported: the decorator `{name}` of {what}")))
            }
        }
    }

    fn sign(&mut self, signature: Signature) {
        match self.signature {
            None => self.signature = Some(signature),
            Some(_) => self.more.push(signature),
        }
    }

    pub(crate) fn signatures_mut(&mut self) -> impl Iterator<Item = &mut Signature> {
        self.signature.iter_mut().chain(&mut self.more)
    }

    fn jit(&mut self, args: &'a [py::Expr], keywords: &'a [py::Keyword], target: Target) -> Result<(), Diagnostic> {
        for keyword in keywords {
            let name = keyword.name.as_ref().map_or("**", |name| &name.name);
            match (name, &keyword.value.kind, target) {
                ("immutable", ExprKind::Bool(value), Target::Class) => self.is_immutable = *value,
                ("stack", ..) => {
                    return Err(Diagnostic::ty(keyword.value.span, "unsupported: `stack`")
                        .with_hint("values have no place that a program sees: Weld decides where they lie"));
                }
                _ => return Err(Diagnostic::ty(keyword.value.span, format!("unsupported: `{name}` of @jit"))),
            }
        }
        for arg in args {
            match (&arg.kind, target) {
                (ExprKind::Str(text), Target::Class) => self.class = Some((text.clone(), arg.span)),
                (ExprKind::Str(_), Target::Function) => self.sign(signature_of(arg)?),
                (ExprKind::Call { .. }, Target::Function) => self.one(arg, target)?,
                _ => {
                    return Err(Diagnostic::ty(
                        arg.span,
                        format!("`@jit` takes a signature, found {}", arg.described()),
                    ));
                }
            }
        }
        Ok(())
    }

    /// `@signature('SIG')`, `@overload('SIG')`, `@opaque('SIG', eval_if_const=True)`, `@overload(A, B)`.
    fn signature(
        &mut self,
        decorator: &'a py::Expr,
        args: &'a [py::Expr],
        keywords: &'a [py::Keyword],
    ) -> Result<(), Diagnostic> {
        let is_known = |keyword: &py::Keyword| keyword.name.as_ref().is_some_and(|name| &*name.name == "eval_if_const");
        if let Some(other) = keywords.iter().find(|keyword| !is_known(keyword)) {
            return Err(Diagnostic::ty(other.value.span, "unsupported: this argument of a decorator"));
        }
        match args {
            [] => Ok(()),
            [first, rest @ ..] if matches!(first.kind, ExprKind::Str(_)) => {
                self.sign(signature_of(first)?);
                rest.iter().try_for_each(|arg| self.one(arg, Target::Function))
            }
            [a, b] => {
                let ty = |e: &py::Expr| written_type(e).map_err(|message| Diagnostic::ty(e.span, message));
                self.types = Some([ty(a)?, ty(b)?]);
                Ok(())
            }
            _ => {
                let found = args.iter().map(|arg| match arg.as_path() {
                    Some(path) => format!("`{}`", path.join(".")),
                    None => arg.described().to_owned(),
                });
                let found = found.collect::<Vec<_>>().join(", ");
                let message = format!("expected a signature, or the two types of a typing rule, found {found}");
                Err(Diagnostic::ty(decorator.span, message))
            }
        }
    }

    fn specialize(&mut self, args: &'a [py::Expr]) -> Result<(), Diagnostic> {
        for arg in args {
            match arg.kind {
                ExprKind::Int(index) => self.specialize.push((index as usize, arg.span)),
                _ => {
                    let message = format!("`specialize.arg` takes numbers of parameters, found {}", arg.described());
                    return Err(Diagnostic::ty(arg.span, message));
                }
            }
        }
        Ok(())
    }

    /// Types of arguments are always looked at, but the names have to be parameters.
    fn specialize_types(&mut self, args: &'a [py::Expr]) -> Result<(), Diagnostic> {
        for arg in args {
            match &arg.kind {
                ExprKind::Str(name) => self.specialize_types.push((name.clone(), arg.span)),
                _ => {
                    let message = format!("`specialize.argtypes` takes names of parameters, found {}", arg.described());
                    return Err(Diagnostic::ty(arg.span, message));
                }
            }
        }
        Ok(())
    }

    fn codegen(
        &mut self,
        decorator: &'a py::Expr,
        args: &'a [py::Expr],
        keywords: &'a [py::Keyword],
    ) -> Result<(), Diagnostic> {
        let weld = keywords.iter().find(|keyword| keyword.name.as_ref().is_some_and(|name| &*name.name == "weld"));
        match (args, weld.map(|weld| &weld.value)) {
            ([function], Some(py::Expr { kind: ExprKind::Str(text), span })) => {
                self.codegen = Some((function, text.clone(), *span));
                Ok(())
            }
            _ => Err(Diagnostic::ty(
                decorator.span,
                "`@codegen` takes a function and its Weld text: `@codegen(f, weld=\"..\")`",
            )),
        }
    }
}

fn signature_of(e: &py::Expr) -> Result<Signature, Diagnostic> {
    match &e.kind {
        ExprKind::Str(text) => Signature::parse(text)
            .map(|signature| Signature { span: e.span, ..signature })
            .map_err(|message| Diagnostic::parse(e.span, format!("the signature {text:?}: {message}"))),
        _ => Err(Diagnostic::ty(e.span, format!("expected a signature, found {}", e.described()))),
    }
}
