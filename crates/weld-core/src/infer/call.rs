//! Calls by name: forms of the language, operators written as calls, intrinsics, macros, aliases of types.

use super::Infer;
use super::node::{Head, Node};
use super::pending::Pending;
use super::scope::{self, Def};
use super::types::{Con, Shape, Ty, Types};
use crate::diag::{Diagnostic, Span};
use crate::op::Intrinsic;
use crate::syntax::advice;
use crate::syntax::tree::{Expr, ExprKind, Name};

impl<'a> Infer<'a> {
    pub(super) fn call(&mut self, name: &'a Name, args: &'a [Expr], span: Span) -> Node {
        match self.find(&name.text) {
            Some(Def::Arg { expr, frame }) => {
                let args = args.iter().map(|arg| self.expr(arg)).collect();
                return self.in_frame(frame, |infer| infer.apply_to(expr, args, span));
            }
            Some(Def::Var { .. }) if !self.is_function(&name.text) => {
                return self.error(span, format!("`{}` is a variable and cannot be called", name.text));
            }
            _ => {}
        }
        if let Some(definition) = self.macros.get(&*name.text).copied() {
            let args = self.by_name(args);
            let node = self.expand(definition, args, span, |infer, body| infer.expr(body));
            return node.unwrap_or_else(|| self.error_node(span));
        }
        if let Some(node) = self.form(name, args, span) {
            return node;
        }
        if let Some(ty) = self.aliases.get(&*name.text).copied() {
            let ty = self.ty(ty);
            return self.make(ty, Some(args), span);
        }
        let mut problem = Diagnostic::ty(self.span(name.span), format!("unknown function `{}`", name.text));
        let similar = || self.similar(&name.text).map(|similar| format!("there is `{similar}`"));
        problem.hint = advice::for_function(&name.text).map(str::to_owned).or_else(similar);
        self.report(problem);
        self.error_node(span)
    }

    fn is_function(&self, name: &str) -> bool {
        self.macros.contains_key(name) || self.aliases.contains_key(name) || scope::is_function(name)
    }

    /// A form of the language, or `None` if there is none of this name.
    fn form(&mut self, name: &'a Name, args: &'a [Expr], span: Span) -> Option<Node> {
        let word = &*name.text;
        if let Some(op) = scope::unary_function(word) {
            return Some(self.with_args(name, args, span, |infer, [value]| infer.unary(op, value, span)));
        }
        if let Some(op) = scope::binary_function(word) {
            return Some(self.with_args(name, args, span, |infer, [a, b]| infer.binary(op, a, b, span)));
        }
        let node = match word {
            "if" => self.with_args(name, args, span, |infer, [cond, a, b]| {
                infer.expect(&cond, Types::BOOL, "the condition of `if`");
                infer.choice(Head::If, cond, a, b, span)
            }),
            "select" => self.with_args(name, args, span, |infer, [cond, a, b]| {
                if !matches!(infer.shape(cond.ty), Shape::Con(Con::Simd, _)) {
                    infer.expect(&cond, Types::BOOL, "the condition of `select`");
                }
                infer.choice(Head::Select, cond, a, b, span)
            }),
            "merge" => self.with_args(name, args, span, |infer, [builder, value]| infer.merge(builder, value, span)),
            "result" => self.with_args(name, args, span, |infer, [builder]| infer.result(builder, span)),
            "lookup" => self.with_args(name, args, span, |infer, [data, key]| {
                let result = infer.types.unknown();
                let (literal, key_span) = (key.literal(), key.span);
                infer.learn(Pending::Lookup { data: data.ty, key: key.ty, literal, result, span: key_span });
                infer.node(Head::Lookup, result, span, vec![data, key])
            }),
            "optlookup" => self.with_args(name, args, span, |infer, [data, key]| {
                let value = infer.dictionary(&data, &key, "optlookup");
                let ty = infer.con(span, Con::Struct, &[Types::BOOL, value]);
                infer.node(Head::OptLookup, ty, span, vec![data, key])
            }),
            "keyexists" => self.with_args(name, args, span, |infer, [data, key]| {
                infer.dictionary(&data, &key, "keyexists");
                infer.node(Head::KeyExists, Types::BOOL, span, vec![data, key])
            }),
            "len" => self.with_args(name, args, span, |infer, [data]| {
                infer.vector(&data, "the argument of `len`");
                infer.node(Head::Len, Types::I64, span, vec![data])
            }),
            "slice" => self.with_args(name, args, span, |infer, [data, start, size]| {
                infer.vector(&data, "the first argument of `slice`");
                infer.expect(&start, Types::I64, "the start of `slice`");
                infer.expect(&size, Types::I64, "the size of `slice`");
                infer.node(Head::Slice, data.ty, span, vec![data, start, size])
            }),
            "tovec" => self.with_args(name, args, span, |infer, [data]| {
                let (key, value) = (infer.types.unknown(), infer.types.unknown());
                let dict = infer.con(span, Con::Dict, &[key, value]);
                infer.expect(&data, dict, "the argument of `tovec`");
                let entry = infer.con(span, Con::Struct, &[key, value]);
                let ty = infer.con(span, Con::Vec, &[entry]);
                infer.node(Head::ToVec, ty, span, vec![data])
            }),
            "update" => self.with_args(name, args, span, |infer, [data, index, value]| {
                let element = infer.vector(&data, "the first argument of `update`");
                infer.expect(&index, Types::I64, "the index of `update`");
                infer.expect(&value, element, "the new element of `update`");
                infer.node(Head::Update, data.ty, span, vec![data, index, value])
            }),
            "serialize" => self.with_args(name, args, span, |infer, [value]| {
                let ty = infer.con(span, Con::Vec, &[Types::I8]);
                infer.node(Head::Serialize, ty, span, vec![value])
            }),
            "broadcast" => self.with_args(name, args, span, |infer, [value]| {
                let ty = infer.con(span, Con::Simd, &[value.ty]);
                infer.node(Head::Broadcast, ty, span, vec![value])
            }),
            "assert" | "require" => self.assert(name, args, span),
            "for" => self.for_loop(name, args, span),
            "iterate" => self.iterate(name, args, span),
            "sort" => self.sort(name, args, span),
            "zip" | "iter" | "simditer" | "fringeiter" | "rangeiter" | "nditer" | "chunkiter" => {
                let message = format!("`{word}` can only stand in the first argument of a `for`");
                self.error(span, message)
            }
            "deserialize" => {
                let hint = "write `deserialize[vec[i64]](data)`, or whatever the type is";
                self.report(Diagnostic::ty(span, "`deserialize` needs a type").with_hint(hint));
                self.error_node(span)
            }
            "cudf" => {
                let hint = "write `cudf[name,i64](args)`, or whatever the type of the result is";
                self.report(Diagnostic::ty(span, "`cudf` needs a name and a type").with_hint(hint));
                self.error_node(span)
            }
            _ => {
                let intrinsic = scope::intrinsic(word)?;
                let args: Vec<Node> = args.iter().map(|arg| self.expr(arg)).collect();
                let types: Vec<Ty> = args.iter().map(|arg| arg.ty).collect();
                match (intrinsic, types.as_slice()) {
                    (Intrinsic::MayContain | Intrinsic::FirstRow, _) => {}
                    // Both of one type, for all others that take two; where not, the typing rule complains.
                    (_, [a, b]) | (Intrinsic::Find | Intrinsic::FieldStart, [a, b, _]) => {
                        self.types.unify(*a, *b);
                    }
                    _ => {}
                }
                let result = self.types.unknown();
                self.learn(Pending::Intrinsic { intrinsic, args: types, result, span });
                self.node(Head::Intrinsic(intrinsic), result, span, args)
            }
        };
        Some(node)
    }

    /// Reads the arguments and goes on if they are as many as they should be.
    pub(super) fn with_args<const N: usize>(
        &mut self,
        name: &Name,
        args: &'a [Expr],
        span: Span,
        f: impl FnOnce(&mut Self, [Node; N]) -> Node,
    ) -> Node {
        let nodes: Vec<Node> = args.iter().map(|arg| self.expr(arg)).collect();
        match <[Node; N]>::try_from(nodes) {
            Ok(nodes) => f(self, nodes),
            Err(nodes) => self.wrong_count(&name.text, &N.to_string(), nodes.len(), span),
        }
    }

    pub(super) fn wrong_count(&mut self, name: &str, wanted: &str, found: usize, span: Span) -> Node {
        let plural = if wanted == "1" { "" } else { "s" };
        // What a form looks like is a matter of syntax.
        let mut problem = Diagnostic::parse(span, format!("`{name}` takes {wanted} argument{plural}, not {found}"));
        problem.hint = scope::usage(name).map(|usage| format!("it is written `{usage}`"));
        self.report(problem);
        self.error_node(span)
    }

    fn choice(&mut self, head: Head, cond: Node, a: Node, b: Node, span: Span) -> Node {
        let ty = a.ty;
        if !self.types.unify(a.ty, b.ty) {
            let (first, second) = (self.types.show(a.ty), self.types.show(b.ty));
            let form = if matches!(head, Head::If) { "if" } else { "select" };
            let message = format!("the branches of `{form}` have different types: {first} and {second}");
            let mut problem = Diagnostic::ty(b.span, message).with_label(a.span, first).with_label(b.span, second);
            problem.hint = self.operand_hint(&a, &b);
            self.report(problem);
            return self.error_node(span);
        }
        self.node(head, ty, span, vec![cond, a, b])
    }

    /// Demands a vector; its element type.
    pub(super) fn vector(&mut self, data: &Node, what: &str) -> Ty {
        if let Some(parts) = self.types.parts(data.ty, &Con::Vec) {
            return parts[0];
        }
        let element = self.types.unknown();
        let vec = self.con(data.span, Con::Vec, &[element]);
        if !self.types.unify(vec, data.ty) {
            let message = format!("{what} must be a vector, not {}", self.types.show(data.ty));
            self.complain(data.span, message);
            return Types::ERROR;
        }
        element
    }

    /// Demands a dictionary with keys of the key's type; the type of its values.
    fn dictionary(&mut self, data: &Node, key: &Node, form: &str) -> Ty {
        let (k, value) = (self.types.unknown(), self.types.unknown());
        let dict = self.con(data.span, Con::Dict, &[k, value]);
        if !self.types.unify(dict, data.ty) {
            let message = format!("`{form}` needs a dictionary, not {}", self.types.show(data.ty));
            self.complain(data.span, message);
            return Types::ERROR;
        }
        self.expect(key, k, "the key of this dictionary");
        value
    }

    /// A merge into a builder, or field by field into a struct of builders.
    fn merge(&mut self, builder: Node, value: Node, span: Span) -> Node {
        if let Shape::Con(Con::Struct, fields) = self.shape(builder.ty) {
            let count = fields.len() as u32;
            if !matches!(self.shape(value.ty), Shape::Con(Con::Struct, values) if values.len() == fields.len()) {
                let message = format!(
                    "what is merged into a struct of {count} builders must be a struct of {count} values, not {}",
                    self.types.show(value.ty)
                );
                return self.error(value.span, message);
            }
            return self.let_in("builders", builder, span, |infer, builders| {
                infer.let_in("values", value, span, |infer, values| {
                    let merged = (0..count).map(|i| {
                        let (builder, value) = (infer.reuse(builders), infer.reuse(values));
                        let builder = infer.field(builder, i, span);
                        let value = infer.field(value, i, span);
                        infer.merge(builder, value, span)
                    });
                    let merged: Vec<Node> = merged.collect();
                    infer.structure(merged, span)
                })
            });
        }
        let hint = self.merge_hint(&builder, &value);
        self.learn(Pending::Merge { builder: builder.ty, value: value.ty, span: value.span, hint });
        self.node(Head::Merge, builder.ty, span, vec![builder, value])
    }

    fn merge_hint(&mut self, builder: &Node, value: &Node) -> Option<String> {
        match self.types.shape(builder.ty) {
            Shape::Con(Con::Appender | Con::Merger(_), parts) => self.conversion_hint(value, parts[0]),
            _ => None,
        }
    }

    /// The result of a builder, or the struct of the results of a struct of builders.
    fn result(&mut self, builder: Node, span: Span) -> Node {
        if let Shape::Con(Con::Struct, fields) = self.shape(builder.ty) {
            let count = fields.len() as u32;
            return self.let_in("builders", builder, span, |infer, builders| {
                let results = (0..count).map(|i| {
                    let builder = infer.reuse(builders);
                    let field = infer.field(builder, i, span);
                    infer.result(field, span)
                });
                let results: Vec<Node> = results.collect();
                infer.structure(results, span)
            });
        }
        let result = self.types.unknown();
        self.learn(Pending::Result { builder: builder.ty, result, span });
        self.node(Head::Result, result, span, vec![builder])
    }

    /// `let name = value; body(name)`; a value that is a variable is used as it is.
    fn let_in(
        &mut self,
        name: &str,
        value: Node,
        span: Span,
        body: impl FnOnce(&mut Self, (crate::ir::Sym, Ty, Span)) -> Node,
    ) -> Node {
        if let Head::Var(sym) = value.head {
            return body(self, (sym, value.ty, value.span));
        }
        let sym = self.names.fresh(name);
        let body = body(self, (sym, value.ty, value.span));
        self.block_of(vec![sym], vec![value], body, span)
    }

    fn reuse(&mut self, (sym, ty, span): (crate::ir::Sym, Ty, Span)) -> Node {
        self.node(Head::Var(sym), ty, span, Vec::new())
    }

    fn structure(&mut self, fields: Vec<Node>, span: Span) -> Node {
        let types: Vec<Ty> = fields.iter().map(|field| field.ty).collect();
        let ty = self.con(span, Con::Struct, &types);
        self.node(Head::Struct, ty, span, fields)
    }

    fn assert(&mut self, name: &'a Name, args: &'a [Expr], span: Span) -> Node {
        let raised = &*name.text == "require";
        let (cond, message, values) = match args {
            [cond] if !raised => (cond, None, &[][..]),
            [cond, message, values @ ..] if values.len() <= 2 => match self.string_literal(message) {
                Some(text) => (cond, Some(text), values),
                None => {
                    return self
                        .error(message.span, format!("the message of `{}` must be a string literal", name.text));
                }
            },
            _ => return self.wrong_count(&name.text, if raised { "2 to 4" } else { "1 to 4" }, args.len(), span),
        };
        let cond = self.expr(cond);
        self.expect(&cond, Types::BOOL, &format!("the condition of `{}`", name.text));
        let mut parts = vec![cond];
        parts.extend(values.iter().map(|value| self.expr(value)));
        self.node(Head::Assert(message, raised), Types::BOOL, span, parts)
    }

    /// The text of a string literal, which may be a macro's argument.
    fn string_literal(&mut self, e: &'a Expr) -> Option<std::sync::Arc<str>> {
        match &e.kind {
            ExprKind::Bytes { bytes, .. } => Some(String::from_utf8_lossy(bytes).into()),
            ExprKind::Name(name) => match self.find(name)? {
                Def::Arg { expr, frame } => self.in_frame(frame, |infer| infer.string_literal(expr)),
                Def::Var { .. } => None,
            },
            _ => None,
        }
    }

    /// A cast or a new builder.
    pub(super) fn make(&mut self, ty: Ty, args: Option<&'a [Expr]>, span: Span) -> Node {
        let args: Option<Vec<Node>> = args.map(|args| args.iter().map(|arg| self.expr(arg)).collect());
        let (con, parts) = match self.types.shape(ty) {
            Shape::Con(con, parts) => (con, parts),
            Shape::Unknown | Shape::Error => return self.error_node(span),
        };
        let name = self.types.show(ty);
        let arg_ty = match con {
            Con::Scalar(_) | Con::Simd => {
                return match <[Node; 1]>::try_from(args.unwrap_or_default()) {
                    Ok(args) => self.node(Head::Cast, ty, span, args.into()),
                    Err(args) => self.wrong_count(&name, "1", args.len(), span),
                };
            }
            Con::Appender => Types::I64,
            Con::Merger(_) => parts[0],
            Con::VecMerger(_) => self.con(span, Con::Vec, &parts),
            Con::DictMerger(_) | Con::Numberer(_) | Con::GroupBuilder => {
                let args = args.unwrap_or_default();
                if !args.is_empty() {
                    return self.wrong_count(&name, "no", args.len(), span);
                }
                return self.node(Head::NewBuilder, ty, span, args);
            }
            Con::Vec | Con::Dict | Con::Struct => {
                return self.error(span, format!("nothing can be converted to {name}"));
            }
        };
        let args = args.unwrap_or_default();
        match args.as_slice() {
            [] => {}
            [arg] => {
                let what = match con {
                    Con::Appender => "the size hint of an appender",
                    Con::Merger(_) => "the initial value of this merger",
                    _ => "the initial vector of this vecmerger",
                };
                self.expect(arg, arg_ty, what);
            }
            more => return self.wrong_count(&name, "at most 1", more.len(), span),
        }
        self.node(Head::NewBuilder, ty, span, args)
    }

    pub(super) fn cudf(&mut self, name: &'a Name, ty: Ty, args: Vec<Node>, span: Span) -> Node {
        let Some(signature) = self.host.cudfs.get(&*name.text).cloned() else {
            let message = format!("no C function `{}` is registered", name.text);
            let hint = "the host program registers the functions that a program may call, with their types";
            self.report(Diagnostic::ty(self.span(name.span), message).with_hint(hint));
            return self.error_node(span);
        };
        if signature.params.len() != args.len() {
            let wanted = signature.params.len();
            return self.error(span, format!("`{}` takes {wanted} arguments, not {}", name.text, args.len()));
        }
        for (arg, wanted) in args.iter().zip(&signature.params) {
            let wanted = self.types.import(wanted);
            self.expect(arg, wanted, &format!("an argument of `{}`", name.text));
        }
        let result = self.types.import(&signature.result);
        if !self.types.unify(ty, result) {
            let message = format!("`{}` returns {}, not {}", name.text, signature.result, self.types.show(ty));
            self.complain(span, message);
        }
        self.node(Head::CUdf(name.text.clone()), result, span, args)
    }
}
