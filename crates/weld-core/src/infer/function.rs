//! Functions: where a form takes one, and where a macro's argument is called.
//!
//! A function is never a value: it is a lambda in the text, a macro's argument that is one, or the name of a macro.
//! Calling it binds its parameters to the arguments: `(|x| x + x)(f(y))` is `let x = f(y); x + x`.

use super::Infer;
use super::node::{Head, Node, Params};
use super::scope::Def;
use super::types::{Con, Shape, Ty, Types};
use crate::diag::{Diagnostic, Span};
use crate::ir::deep;
use crate::syntax::tree::{Expr, ExprKind, Name, Param};

impl<'a> Infer<'a> {
    /// The function that a form takes, with parameters of the given types.
    pub(super) fn function(&mut self, e: &'a Expr, types: &[Ty], what: &str) -> Option<(Params, Node)> {
        match &e.kind {
            ExprKind::Lambda { params, body } => {
                let span = self.span(e.span);
                let params = self.bind_params(params, types, what, span)?;
                let body = self.expr(body);
                self.unbind_params(e);
                Some((params, body))
            }
            ExprKind::Annotated(_, inner) => self.function(inner, types, what),
            ExprKind::Name(name) => match self.find(name) {
                Some(Def::Arg { expr, frame }) => {
                    self.in_frame(frame, |infer| deep(|| infer.function(expr, types, what)))
                }
                None if self.macros.contains_key(&**name) => self.macro_as_function(name, e.span, types),
                _ => self.no_function(e, what),
            },
            ExprKind::Call { name, args } if self.macros.contains_key(&*name.text) => {
                let definition = self.macros.get(&*name.text).copied()?;
                let (args, span) = (self.by_name(args), self.span(e.span));
                self.expand(definition, args, span, |infer, body| deep(|| infer.function(body, types, what))).flatten()
            }
            _ => self.no_function(e, what),
        }
    }

    fn no_function(&mut self, e: &'a Expr, what: &str) -> Option<(Params, Node)> {
        let span = self.span(e.span);
        let hint = "write `|x, ..| ..`";
        self.report(Diagnostic::ty(span, format!("{what} must be a function")).with_hint(hint));
        None
    }

    fn bind_params(&mut self, params: &'a [Param], types: &[Ty], what: &str, span: Span) -> Option<Params> {
        if params.len() != types.len() {
            let plural = if types.len() == 1 { "" } else { "s" };
            self.complain(span, format!("{what} takes {} parameter{plural}, not {}", types.len(), params.len()));
            return None;
        }
        let mut bound = Vec::with_capacity(params.len());
        for (param, ty) in params.iter().zip(types) {
            if let Some(written) = &param.ty {
                let written = self.ty(written);
                if !self.types.unify(*ty, written) {
                    let (found, wanted) = (self.types.show(written), self.types.show(*ty));
                    let message = format!("the parameter `{}` is {wanted} here, not {found}", param.name.text);
                    self.complain(self.span(param.name.span), message);
                }
            }
            let sym = self.names.fresh(&param.name.text);
            self.bind(&param.name, Def::Var { sym, ty: *ty });
            bound.push((sym, *ty));
        }
        Some(bound)
    }

    fn unbind_params(&mut self, lambda: &Expr) {
        if let ExprKind::Lambda { params, .. } = &lambda.kind {
            for param in params {
                self.unbind(&param.name);
            }
        }
    }

    /// A macro's name where a function is wanted: `sort(v, compare)`.
    fn macro_as_function(&mut self, name: &str, span: Span, types: &[Ty]) -> Option<(Params, Node)> {
        let definition = self.macros.get(name).copied()?;
        // As many as the form has: a macro that takes another number complains.
        let mut params: Params = Vec::with_capacity(types.len());
        for (i, ty) in types.iter().enumerate() {
            let name = definition.params.get(i).map_or("x", |param| &param.text);
            params.push((self.names.fresh(name), *ty));
        }
        let args = params.iter().map(|(sym, ty)| Def::Var { sym: *sym, ty: *ty }).collect();
        let span = self.span(span);
        let body = self.expand(definition, args, span, |infer, body| infer.expr(body))?;
        Some((params, body))
    }

    /// `func(args)` for a function literal.
    pub(super) fn apply(&mut self, func: &'a Expr, args: &'a [Expr], span: Span) -> Node {
        let args = args.iter().map(|arg| self.expr(arg)).collect();
        self.apply_to(func, args, span)
    }

    /// Calls a function, read in the current frame, with arguments that were read already.
    pub(super) fn apply_to(&mut self, func: &'a Expr, args: Vec<Node>, span: Span) -> Node {
        match &func.kind {
            ExprKind::Lambda { params, body } => {
                if params.len() != args.len() {
                    self.wrong_params(params, &args, func.span);
                    return self.error_node(span);
                }
                let (mut syms, mut values) = (Vec::new(), Vec::new());
                for (param, arg) in params.iter().zip(args) {
                    if let Some(ty) = &param.ty {
                        let ty = self.ty(ty);
                        self.expect(&arg, ty, &format!("the argument `{}`", param.name.text));
                    }
                    // A variable keeps its symbol.
                    let sym = match arg.head {
                        Head::Var(sym) if arg.annotations.is_empty() => sym,
                        _ => self.names.fresh(&param.name.text),
                    };
                    self.bind(&param.name, Def::Var { sym, ty: arg.ty });
                    if !matches!(arg.head, Head::Var(same) if same == sym) {
                        syms.push(sym);
                        values.push(arg);
                    }
                }
                let body = self.expr(body);
                self.unbind_params(func);
                self.block_of(syms, values, body, span)
            }
            ExprKind::Annotated(_, inner) => self.apply_to(inner, args, span),
            ExprKind::Name(name) => match self.find(name) {
                Some(Def::Arg { expr, frame }) => {
                    self.in_frame(frame, |infer| deep(|| infer.apply_to(expr, args, span)))
                }
                None if self.macros.contains_key(&**name) => self.apply_macro(name, func.span, args, span),
                _ => self.error(span, format!("`{name}` is not a function")),
            },
            ExprKind::Call { name, args: outer } if self.macros.contains_key(&*name.text) => {
                let Some(definition) = self.macros.get(&*name.text).copied() else { return self.error_node(span) };
                let outer = self.by_name(outer);
                self.expand(definition, outer, span, |infer, body| deep(|| infer.apply_to(body, args, span)))
                    .unwrap_or_else(|| self.error_node(span))
            }
            _ => {
                self.complain(self.span(func.span), "a function is needed here");
                self.error_node(span)
            }
        }
    }

    /// Complains about a function that is called with more or fewer arguments than it has parameters.
    fn wrong_params(&mut self, params: &[Param], args: &[Node], span: Span) {
        let count = |n: usize, thing: &str| format!("{n} {thing}{}", if n == 1 { "" } else { "s" });
        let message = format!(
            "this function has {} but is called with {}",
            count(params.len(), "parameter"),
            count(args.len(), "argument")
        );
        let mut problem = Diagnostic::ty(self.span(span), message);
        if let [arg] = args
            && matches!(self.shape(arg.ty), Shape::Con(Con::Struct, fields) if fields.len() == params.len())
        {
            problem = problem.with_hint("it gets one struct: write `|p|` and use `p.$0`, `p.$1`, ..");
        }
        self.report(problem);
    }

    /// Calls a macro by a name that was passed to another one: its parameters become variables.
    fn apply_macro(&mut self, name: &str, name_span: Span, args: Vec<Node>, span: Span) -> Node {
        let types: Vec<Ty> = args.iter().map(|arg| arg.ty).collect();
        match self.macro_as_function(name, name_span, &types) {
            Some((params, body)) => {
                let syms = params.into_iter().map(|(sym, _)| sym).collect();
                self.block_of(syms, args, body, span)
            }
            None => self.error_node(span),
        }
    }

    pub(super) fn sort(&mut self, name: &'a Name, args: &'a [Expr], span: Span) -> Node {
        let [data, compare] = args else { return self.wrong_count(&name.text, "2", args.len(), span) };
        let data = self.expr(data);
        let element = self.vector(&data, "the first argument of `sort`");
        let Some((params, body)) = self.function(compare, &[element, element], "the comparator of `sort`") else {
            return self.error_node(span);
        };
        let hint = "`compare(a, b)` gives -1, 0 or 1";
        self.expect_with_hint(&body, Types::I32, "the result of a comparator", hint);
        self.node(Head::Sort(params), data.ty, span, vec![data, body])
    }

    pub(super) fn iterate(&mut self, name: &'a Name, args: &'a [Expr], span: Span) -> Node {
        let [init, step] = args else { return self.wrong_count(&name.text, "2", args.len(), span) };
        let init = self.expr(init);
        let Some((params, body)) = self.function(step, &[init.ty], "the step of `iterate`") else {
            return self.error_node(span);
        };
        let wanted = self.con(span, Con::Struct, &[init.ty, Types::BOOL]);
        let hint = "the step gives the next state and whether to go on: `{next, more}`";
        self.expect_with_hint(&body, wanted, "the result of the step of `iterate`", hint);
        self.node(Head::Iterate(params), init.ty, span, vec![init, body])
    }
}
