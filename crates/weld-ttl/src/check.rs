//! From the tree to the checked tree: names, scopes, types, and what constants and static sizes prove wrong.
//!
//! Every mistake is reported with its place; what was refused has the type [`Type::Wrong`], which fits everywhere.

mod calls;
mod expr;
mod session;
mod sizes;
mod stmt;

use std::collections::HashMap;

use weld_core::diag::{Diagnostic, Span};
use weld_frontend::Library;

use crate::tree;
use crate::typed::{Expr, Function, Module, Var, VarInfo};
use crate::types::{Type, elements};

/// More errors than anybody reads.
const ERRORS_MAX: usize = 50;

/// Checks a module; all errors in the order of the text.
pub(crate) fn check(module: &tree::Module<'_>, library: &Library) -> Result<Module, Vec<Diagnostic>> {
    let mut names: HashMap<&str, usize> = HashMap::new();
    for (i, function) in module.functions.iter().enumerate() {
        names.entry(function.name.text).or_insert(i);
    }
    let mut checker = Checker { module, library, names, done: Vec::new(), errors: Vec::new(), here: Body::default() };
    for (i, function) in module.functions.iter().enumerate() {
        checker.function(i, function);
    }
    let Checker { done, mut errors, .. } = checker;
    errors.sort_by_key(|error| error.span.start);
    if errors.is_empty() { Ok(Module { functions: done }) } else { Err(errors) }
}

struct Checker<'a> {
    module: &'a tree::Module<'a>,
    library: &'a Library,
    /// The first function of each name.
    names: HashMap<&'a str, usize>,
    /// The functions before the one that is checked.
    done: Vec<Function>,
    errors: Vec<Diagnostic>,
    here: Body<'a>,
}

/// What is known of the function that is checked.
#[derive(Default)]
struct Body<'a> {
    vars: Vec<VarInfo>,
    /// What each name stands for, innermost last, with the number of its scope and its place.
    scope: HashMap<&'a str, Vec<(Var, u32, Span)>>,
    /// The names declared in each open scope.
    scopes: Vec<Vec<&'a str>>,
}

impl<'a> Checker<'a> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::ty(span, message));
    }

    fn report(&mut self, error: Diagnostic) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
    }

    // Functions.

    fn function(&mut self, index: usize, function: &'a tree::Function<'a>) {
        self.here = Body::default();
        self.here.scopes.push(Vec::new());
        self.function_name(index, function);
        self.sizes_fit(&function.result);
        for (ty, name) in &function.params {
            let what = format!("the parameter `{}`", name.text);
            let ty = self.declarable(ty, &what);
            self.declare(*name, ty, "parameter");
        }
        let (body, value) = self.body(function);
        let vars = std::mem::take(&mut self.here.vars);
        self.done.push(Function {
            name: function.name.text.to_owned(),
            span: function.span,
            name_span: function.name.span,
            result: function.result.ty.clone(),
            params: function.params.len(),
            vars,
            body,
            value,
        });
    }

    fn function_name(&mut self, index: usize, function: &tree::Function<'_>) {
        let name = function.name;
        if let Some(first) = self.names.get(name.text)
            && *first != index
        {
            let first = self.module.functions[*first].name.span;
            let error = Diagnostic::ty(name.span, format!("the function `{}` is defined twice", name.text));
            self.report(error.with_label(first, "first here").with_hint("function names are unique in a program"));
        }
        if name.text != "main" {
            return;
        }
        if let Some((ty, param)) = function.params.first() {
            let found = function.params.len();
            let message = format!("`main` takes no arguments, found {found}: `{} {}`, ..", ty.ty, param.text);
            self.error(ty.span, message.trim_end_matches(", ..").to_owned());
        }
        if !matches!(function.result.ty, Type::Int | Type::Void) {
            let message = format!("the result type of `main`: expected int or void, found {}", function.result.ty);
            self.error(function.result.span, message);
        }
    }

    // Variables and types.

    /// A type that variables may have.
    fn declarable(&mut self, ty: &tree::TypeExpr, what: &str) -> Type {
        if ty.ty == Type::Void {
            let message = format!("the type of {what}: expected int, float or a matrix, found void");
            self.report(Diagnostic::ty(ty.span, message).with_hint("`void` is the result type of functions only"));
            return Type::Wrong;
        }
        if self.sizes_fit(ty) { ty.ty.clone() } else { Type::Wrong }
    }

    /// Whether a matrix of known sizes could be in memory.
    fn sizes_fit(&mut self, ty: &tree::TypeExpr) -> bool {
        let Some((_, dims)) = ty.ty.as_matrix() else { return true };
        let known: Vec<_> = dims.iter().copied().filter(|dim| dim.known().is_some()).collect();
        let fits = elements(&known).is_some_and(|count| count <= i64::MAX / 4);
        if !fits {
            self.error(ty.span, format!("{} has more elements than fit in memory", ty.ty));
        }
        fits
    }

    fn declare(&mut self, name: tree::Name<'a>, ty: Type, role: &str) -> Var {
        let var = Var(self.here.vars.len() as u32);
        let scope = self.here.scopes.len() as u32;
        self.here.vars.push(VarInfo { name: name.text.to_owned(), ty });
        let known = self.here.scope.entry(name.text).or_default();
        if let Some((_, other, first)) = known.last()
            && *other == scope
        {
            let message = format!("the {role} `{}` is declared twice in one scope", name.text);
            let error = Diagnostic::ty(name.span, message).with_label(*first, "first here");
            if self.errors.len() < ERRORS_MAX {
                self.errors.push(error);
            }
        }
        known.push((var, scope, name.span));
        if let Some(names) = self.here.scopes.last_mut() {
            names.push(name.text);
        }
        var
    }

    /// Runs `f` in a scope of its own.
    fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.here.scopes.push(Vec::new());
        let result = f(self);
        for name in self.here.scopes.pop().unwrap_or_default() {
            if let Some(known) = self.here.scope.get_mut(name) {
                known.pop();
            }
        }
        result
    }

    /// The variable of a name, and its type.
    fn variable(&mut self, name: &str, span: Span) -> Option<(Var, Type)> {
        if let Some((var, ..)) = self.here.scope.get(name).and_then(|known| known.last()) {
            return Some((*var, self.here.vars[var.0 as usize].ty.clone()));
        }
        let hint = match self.names.contains_key(name) {
            true => format!("`{name}` is a function: a call is written `{name}(..)`"),
            false => format!("a variable is declared before its use: `var int {name};`"),
        };
        self.report(Diagnostic::ty(span, format!("the variable `{name}` is not declared")).with_hint(hint));
        None
    }

    /// Whether `found` is `wanted`, an error that names `what` if not.
    fn expect(&mut self, what: &str, wanted: &Type, found: &Expr) -> bool {
        let agrees = found.ty.agrees(wanted);
        if !agrees {
            self.error(found.span, format!("{what}: expected {wanted}, found {}", found.ty));
        }
        agrees
    }
}
