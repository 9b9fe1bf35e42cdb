//! `for` and its iterators.

use super::Infer;
use super::node::{Head, IterHead, Node};
use super::scope::Def;
use super::types::{Con, Ty, Types};
use crate::diag::Span;
use crate::ir::deep;
use crate::syntax::tree::{Expr, ExprKind, Name};

/// An iterator: its kind, its expressions in order, the type of its elements.
struct IterParts {
    head: IterHead,
    children: Vec<Node>,
    element: Ty,
}

impl<'a> Infer<'a> {
    /// `for(iter, builder, |b, i, x| ..)`
    pub(super) fn for_loop(&mut self, name: &'a Name, args: &'a [Expr], span: Span) -> Node {
        let [iter, builder, func] = args else { return self.wrong_count(&name.text, "3", args.len(), span) };
        let mut iter = self.iter(iter);
        let builder = self.expr(builder);
        let types = [builder.ty, Types::I64, iter.element];
        let Some((params, body)) = self.function(func, &types, "the update of a `for`") else {
            return self.error_node(span);
        };
        self.expect(&body, builder.ty, "the result of the update of a `for`");
        let ty = builder.ty;
        iter.children.push(builder);
        iter.children.push(body);
        self.node(Head::For(iter.head, params), ty, span, iter.children)
    }

    /// An iterator, or an expression that is a vector; macros and their arguments are looked through.
    fn iter(&mut self, e: &'a Expr) -> IterParts {
        match &e.kind {
            ExprKind::Annotated(_, inner) => self.iter(inner),
            ExprKind::Name(name) => match self.find(name) {
                Some(Def::Arg { expr, frame }) => self.in_frame(frame, |infer| deep(|| infer.iter(expr))),
                _ => self.whole(e),
            },
            ExprKind::Call { name, args } => {
                if let Some(definition) = self.macros.get(&*name.text).copied() {
                    let (args, span) = (self.by_name(args), self.span(e.span));
                    let expanded = self.expand(definition, args, span, |infer, body| deep(|| infer.iter(body)));
                    return expanded.unwrap_or_else(|| self.no_iter(e.span));
                }
                self.iter_form(&name.text, args, e)
            }
            _ => self.whole(e),
        }
    }

    fn iter_form(&mut self, name: &str, args: &'a [Expr], e: &'a Expr) -> IterParts {
        let head = match (name, args.len()) {
            ("zip", 1..) => return self.zip(args, e.span),
            ("iter", 1) => IterHead::Vector,
            ("iter", 4) => IterHead::Strided,
            ("rangeiter", 3) => return self.range(args),
            ("simditer", 1) => IterHead::Simd,
            ("fringeiter", 1) => IterHead::Fringe,
            ("nditer", 6) => IterHead::Nd,
            ("chunkiter", 2) => IterHead::Chunks,
            ("zip" | "iter" | "rangeiter" | "simditer" | "fringeiter" | "nditer" | "chunkiter", found) => {
                let wanted = match name {
                    "zip" => "1 or more",
                    "iter" => "1 or 4",
                    "rangeiter" => "3",
                    "nditer" => "6",
                    "chunkiter" => "2",
                    _ => "1",
                };
                let span = self.span(e.span);
                self.wrong_count(name, wanted, found, span);
                return self.no_iter(e.span);
            }
            _ => return self.whole(e),
        };
        let children: Vec<Node> = args.iter().map(|arg| self.expr(arg)).collect();
        let data = &children[0];
        let element = self.vector(data, &format!("the first argument of `{name}`"));
        let span = data.span;
        let wanted = match head {
            IterHead::Nd => self.con(span, Con::Vec, &[Types::I64]),
            _ => Types::I64,
        };
        for child in &children[1..] {
            self.expect(child, wanted, &format!("an argument of `{name}`"));
        }
        let element = match head {
            IterHead::Simd => self.con(span, Con::Simd, &[element]),
            IterHead::Chunks => self.con(span, Con::Vec, &[element]),
            _ => element,
        };
        IterParts { head, children, element }
    }

    fn whole(&mut self, e: &'a Expr) -> IterParts {
        let data = self.expr(e);
        let element = self.vector(&data, "what a `for` iterates over");
        IterParts { head: IterHead::Vector, children: vec![data], element }
    }

    fn zip(&mut self, args: &'a [Expr], span: Span) -> IterParts {
        let (mut heads, mut children, mut elements) = (Vec::new(), Vec::new(), Vec::new());
        for arg in args {
            let part = deep(|| self.iter(arg));
            heads.push(part.head);
            children.extend(part.children);
            elements.push(part.element);
        }
        let span = self.span(span);
        let element = self.con(span, Con::Struct, &elements);
        IterParts { head: IterHead::Zip(heads), children, element }
    }

    fn range(&mut self, args: &'a [Expr]) -> IterParts {
        let children: Vec<Node> = args.iter().map(|arg| self.expr(arg)).collect();
        for child in &children {
            self.expect(child, Types::I64, "an argument of `rangeiter`");
        }
        IterParts { head: IterHead::Range, children, element: Types::I64 }
    }

    fn no_iter(&mut self, span: Span) -> IterParts {
        let node = self.error_node(span);
        IterParts { head: IterHead::Vector, children: vec![node], element: Types::ERROR }
    }
}
