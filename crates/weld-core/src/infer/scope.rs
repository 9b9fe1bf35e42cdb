//! What names mean: variables, macros and their arguments, aliases.
//!
//! Each macro being expanded has a frame of its own, in which its parameters stand for the call's arguments together
//! with the call's frame. Names are looked up in one frame only, so neither side can capture the other's.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::types::Ty;
use super::{EXPANSION_DEPTH_MAX, Infer};
use crate::diag::{Diagnostic, Span};
use crate::ir::Sym;
use crate::op::{BinaryOp, Intrinsic, UnaryOp};
use crate::syntax::tree::{Expr, Macro, Module, Name};
use crate::syntax::words;

/// The sugar operations that are macros. `zip` is an iterator.
const PRELUDE: &str = "
macro map(data, func) = result(for(data, appender, |b, i, x| merge(b, func(x))));
macro filter(data, func) = result(for(data, appender, |b, i, x| if(func(x), merge(b, x), b)));
macro flatten(data) = result(for(data, appender, |b, i, row| for(row, b, |c, j, x| merge(c, x))));
macro compare(x, y) = let a = x; let b = y; if(a > b, 1, if(a < b, -1, 0));
macro sum(data) = result(for(data, merger[?,+], |b, i, x| merge(b, x)));
true";

static BUILT_IN: LazyLock<Module> = LazyLock::new(|| crate::syntax::parse(PRELUDE).0);

/// What a name stands for in a frame.
#[derive(Clone)]
pub(super) enum Def<'a> {
    Var {
        sym: Sym,
        ty: Ty,
    },
    /// An argument of a macro, to be read in the frame of the call.
    Arg {
        expr: &'a Expr,
        frame: usize,
    },
}

#[derive(Default)]
pub(super) struct Frame<'a> {
    defs: HashMap<&'a str, Vec<Def<'a>>>,
    /// The call of a built-in macro, whose own text the user never sees.
    site: Option<Span>,
    /// How many expansions this one is inside of.
    depth: usize,
}

impl<'a> Infer<'a> {
    /// Collects the definitions of a module.
    pub(super) fn define(&mut self, module: &'a Module) {
        for built_in in &BUILT_IN.macros {
            self.macros.insert(&built_in.name.text, built_in);
        }
        for definition in &module.macros {
            let name = &*definition.name.text;
            if is_form(name) || BUILT_IN.macros.iter().any(|m| &*m.name.text == name) {
                let message = format!("`{name}` is built in and cannot be redefined");
                self.report(Diagnostic::parse(definition.name.span, message));
            } else if self.macros.insert(name, definition).is_some() {
                let message = format!("the macro `{name}` is defined twice");
                self.report(Diagnostic::parse(definition.name.span, message));
            }
            let mut names = HashSet::new();
            for param in &definition.params {
                if !names.insert(&*param.text) {
                    let message = format!("the macro `{name}` has two parameters `{}`", param.text);
                    self.report(Diagnostic::parse(param.span, message));
                }
            }
        }
        for alias in &module.aliases {
            if self.aliases.insert(&alias.name.text, &alias.ty).is_some() {
                self.complain(alias.name.span, format!("the type `{}` is defined twice", alias.name.text));
            }
        }
    }

    /// The span to report for a place in the text: in a built-in macro, the macro's call.
    pub(super) fn span(&self, span: Span) -> Span {
        self.frames[self.frame].site.unwrap_or(span)
    }

    pub(super) fn bind(&mut self, name: &'a Name, def: Def<'a>) {
        self.frames[self.frame].defs.entry(&name.text).or_default().push(def);
    }

    pub(super) fn unbind(&mut self, name: &Name) {
        if let Some(defs) = self.frames[self.frame].defs.get_mut(&*name.text) {
            defs.pop();
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Def<'a>> {
        self.frames[self.frame].defs.get(name)?.last().cloned()
    }

    /// Does something in another frame.
    pub(super) fn in_frame<T>(&mut self, frame: usize, f: impl FnOnce(&mut Self) -> T) -> T {
        let own = std::mem::replace(&mut self.frame, frame);
        let result = f(self);
        self.frame = own;
        result
    }

    /// Reads the body of a macro, with `f`, in a new frame where its parameters stand for the arguments of the call at
    /// `span`.
    pub(super) fn expand<T>(
        &mut self,
        definition: &'a Macro,
        args: Vec<Def<'a>>,
        span: Span,
        f: impl FnOnce(&mut Self, &'a Expr) -> T,
    ) -> Option<T> {
        let name = &definition.name;
        if args.len() != definition.params.len() {
            let expected = definition.params.len();
            let plural = if expected == 1 { "" } else { "s" };
            self.complain(
                span,
                format!("the macro `{}` takes {expected} argument{plural}, not {}", name.text, args.len()),
            );
            return None;
        }
        let depth = self.frames[self.frame].depth + 1;
        if depth > EXPANSION_DEPTH_MAX {
            if !self.stopped {
                let message =
                    format!("the macro `{}` expands too deeply: more than {EXPANSION_DEPTH_MAX} levels", name.text);
                self.report(
                    Diagnostic::ty(span, message).with_hint("a macro cannot call itself: there is no recursion"),
                );
                self.stopped = true;
            }
            return None;
        }
        let built_in = BUILT_IN.macros.iter().any(|m| std::ptr::eq(m, definition));
        let site = built_in.then_some(span).or(self.frames[self.frame].site);
        let mut frame = Frame { defs: HashMap::new(), site, depth };
        for (param, arg) in definition.params.iter().zip(args) {
            frame.defs.insert(&param.text, vec![arg]);
        }
        self.frames.push(frame);
        let inside = self.frames.len() - 1;
        let result = self.in_frame(inside, |infer| f(infer, &definition.body));
        self.frames.pop();
        Some(result)
    }

    /// The arguments of a call as a macro's parameters see them.
    pub(super) fn by_name(&self, args: &'a [Expr]) -> Vec<Def<'a>> {
        // An argument that is itself a parameter of the enclosing macro stands for what that one stands for.
        args.iter().map(|expr| Def::Arg { expr, frame: self.frame }).collect()
    }

    /// Names in scope that resemble one that is not.
    pub(super) fn similar(&self, name: &str) -> Option<String> {
        let scope = self.frames[self.frame].defs.iter().filter(|(_, defs)| !defs.is_empty()).map(|(name, _)| *name);
        let words = self.macros.keys().copied().chain(FORMS.iter().map(|(form, _)| *form)).chain(scope);
        let near = words.filter(|word| word.len() > 1).map(|word| (distance(name, word), word)).min()?;
        (near.0 <= 1 + name.len() / 5 && near.0 < name.len()).then(|| near.1.to_owned())
    }
}

/// Every function of the language but the operators and intrinsics, and how each is written.
const FORMS: [(&str, &str); 32] = [
    ("if", "if(condition, on_true, on_false)"),
    ("select", "select(condition, on_true, on_false)"),
    ("iterate", "iterate(start, |state| {next, more})"),
    ("for", "for(data, builder, |b, i, x| ..)"),
    ("merge", "merge(builder, value)`, a key and its value as `merge(builder, {key, value})"),
    ("result", "result(builder)"),
    ("lookup", "lookup(data, key)"),
    ("optlookup", "optlookup(dict, key)"),
    ("keyexists", "keyexists(dict, key)"),
    ("len", "len(vector)"),
    ("slice", "slice(vector, start, size)"),
    ("sort", "sort(vector, compare)"),
    ("tovec", "tovec(dict)"),
    ("update", "update(vector, index, value)"),
    ("serialize", "serialize(value)"),
    ("deserialize", "deserialize[T](bytes)"),
    ("cudf", "cudf[name,T](arguments)"),
    ("assert", "assert(condition, \"message\")"),
    ("require", "require(condition, \"message {0} {1}\", a, b)"),
    ("broadcast", "broadcast(scalar)"),
    ("zip", "zip(a, b, ..)"),
    ("iter", "iter(vector, start, end, stride)"),
    ("simditer", "simditer(vector)"),
    ("fringeiter", "fringeiter(vector)"),
    ("rangeiter", "rangeiter(start, end, stride)"),
    ("nditer", "nditer(vector, start, end, stride, shape, strides)"),
    ("chunkiter", "chunkiter(vector, size)"),
    ("min", "min(a, b)"),
    ("max", "max(a, b)"),
    ("pow", "pow(a, b)"),
    ("true", "true"),
    ("false", "false"),
];

/// How a form is written.
pub(super) fn usage(name: &str) -> Option<&'static str> {
    FORMS.iter().find(|(form, _)| *form == name).map(|(_, usage)| *usage)
}

/// Whether a macro cannot have this name. Intrinsics can be redefined: the host may add some at any time.
fn is_form(name: &str) -> bool {
    usage(name).is_some() || words::is_reserved(name) || unary_function(name).is_some()
}

/// Whether a call of this name is a form, an operator or an intrinsic.
pub(super) fn is_function(name: &str) -> bool {
    is_form(name) || intrinsic(name).is_some()
}

pub(super) fn unary_function(name: &str) -> Option<UnaryOp> {
    UnaryOp::FUNCTIONS.into_iter().find(|op| op.name() == name)
}

pub(super) fn binary_function(name: &str) -> Option<BinaryOp> {
    [BinaryOp::Min, BinaryOp::Max, BinaryOp::Pow].into_iter().find(|op| op.name() == name)
}

pub(super) fn intrinsic(name: &str) -> Option<Intrinsic> {
    Intrinsic::ALL.into_iter().find(|intrinsic| intrinsic.name() == name)
}

/// The least number of insertions, deletions and changes between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 3 || a.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prelude_parses() {
        assert!(crate::syntax::parse(PRELUDE).1.is_empty());
        assert_eq!(BUILT_IN.macros.len(), 5);
    }

    #[test]
    fn distances() {
        assert_eq!(distance("lookup", "lokup"), 1);
        assert_eq!(distance("a", "b"), 1);
        assert_eq!(distance("merge", "merger"), 1);
    }
}
