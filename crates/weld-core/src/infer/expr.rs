//! Expressions that are no calls.

use super::node::{Head, Node};
use super::pending::Pending;
use super::scope::Def;
use super::types::{Con, Shape, Ty, Types};
use super::{DEPTH_MAX, Infer};
use crate::diag::{Diagnostic, Span};
use crate::ir::deep;
use crate::op::{BinaryOp, UnaryOp};
use crate::syntax::tree::{Expr, ExprKind, Let};
use crate::ty::ScalarKind;

impl<'a> Infer<'a> {
    pub(super) fn expr(&mut self, e: &'a Expr) -> Node {
        if self.stopped {
            return self.error_node(e.span);
        }
        if self.depth >= DEPTH_MAX {
            let span = self.span(e.span);
            self.stop(
                span,
                format!("the program is nested too deeply when macros are expanded: more than {DEPTH_MAX} levels"),
            );
            return self.error_node(span);
        }
        self.depth += 1;
        let node = deep(|| self.expr_here(e));
        self.depth -= 1;
        node
    }

    fn expr_here(&mut self, e: &'a Expr) -> Node {
        let span = self.span(e.span);
        match &e.kind {
            ExprKind::Error => self.error_node(span),
            ExprKind::Literal(literal) => {
                self.node(Head::Literal(*literal), Types::scalar(literal.kind()), span, Vec::new())
            }
            ExprKind::Bytes { bytes, unsigned } => {
                let element = if *unsigned { Types::scalar(ScalarKind::U8) } else { self.text_element() };
                let ty = self.con(span, Con::Vec, &[element]);
                self.node(Head::Bytes(bytes.clone()), ty, span, Vec::new())
            }
            ExprKind::Name(name) => self.name(name, span),
            ExprKind::Block { lets, body } => self.block(lets, body, span),
            ExprKind::Lambda { .. } => self.function_as_value(span),
            ExprKind::Unary(op, value) => {
                let value = self.expr(value);
                self.unary(*op, value, span)
            }
            ExprKind::Binary(op, left, right) => {
                let (left, right) = (self.expr(left), self.expr(right));
                self.binary(*op, left, right, span)
            }
            ExprKind::Ascribe(value, ty) => {
                let (value, ty) = (self.expr(value), self.ty(ty));
                self.expect(&value, ty, "this expression");
                value
            }
            ExprKind::Call { name, args } => self.call(name, args, span),
            ExprKind::Apply { func, args } => self.apply(func, args, span),
            ExprKind::Make { ty, args } => {
                let ty = self.ty(ty);
                self.make(ty, args.as_deref(), span)
            }
            ExprKind::Deserialize { ty, data } => {
                let (ty, data) = (self.ty(ty), self.expr(data));
                let bytes = self.con(span, Con::Vec, &[Types::I8]);
                self.expect(&data, bytes, "the argument of `deserialize`");
                self.node(Head::Deserialize, ty, span, vec![data])
            }
            ExprKind::CUdf { name, ty, args } => {
                let ty = self.ty(ty);
                let args = args.iter().map(|arg| self.expr(arg)).collect();
                self.cudf(name, ty, args, span)
            }
            ExprKind::Struct(fields) => {
                let fields: Vec<Node> = fields.iter().map(|field| self.expr(field)).collect();
                let types: Vec<Ty> = fields.iter().map(|field| field.ty).collect();
                let ty = self.con(span, Con::Struct, &types);
                self.node(Head::Struct, ty, span, fields)
            }
            ExprKind::Vector(elements) => {
                let elements: Vec<Node> = elements.iter().map(|element| self.expr(element)).collect();
                let element = self.types.unknown();
                for e in &elements {
                    if !self.types.unify(element, e.ty) {
                        self.odd_element(&elements[0], e);
                    }
                }
                let ty = self.con(span, Con::Vec, &[element]);
                self.node(Head::Vector, ty, span, elements)
            }
            ExprKind::Field(value, index) => {
                let value = self.expr(value);
                self.field(value, *index, span)
            }
            ExprKind::Annotated(entries, value) => {
                let mut node = self.expr(value);
                annotated(&mut node).annotations.extend(entries);
                node
            }
        }
    }

    /// Complains about an element of a vector that is not of the first one's type.
    fn odd_element(&mut self, first: &Node, odd: &Node) {
        let (wanted, found) = (self.types.show(first.ty), self.types.show(odd.ty));
        let message = format!("every element of this vector must be {wanted}, not {found}");
        let mut problem = Diagnostic::ty(odd.span, message).with_label(first.span, wanted).with_label(odd.span, found);
        problem.hint = self.operand_hint(first, odd);
        self.report(problem);
    }

    fn name(&mut self, name: &'a str, span: Span) -> Node {
        match self.find(name) {
            Some(Def::Var { sym, ty }) => self.node(Head::Var(sym), ty, span, Vec::new()),
            Some(Def::Arg { expr, frame }) => self.in_frame(frame, |infer| infer.expr(expr)),
            None if self.aliases.contains_key(name) => {
                let ty = self.alias_named(name);
                self.make(ty, None, span)
            }
            None if self.macros.contains_key(name) => {
                self.error(span, format!("`{name}` is a macro: call it with `{name}(..)`"))
            }
            None => {
                let mut problem = Diagnostic::ty(span, format!("unknown name `{name}`"));
                if let Some(similar) = self.similar(name) {
                    problem = problem.with_hint(format!("there is `{similar}`"));
                }
                self.report(problem);
                self.error_node(span)
            }
        }
    }

    /// The element of a string literal: what its context says, `i8` if that says nothing.
    fn text_element(&mut self) -> Ty {
        let element = self.types.unknown();
        self.texts.push(element);
        element
    }

    fn alias_named(&mut self, name: &str) -> Ty {
        match self.aliases.get(name).copied() {
            Some(ty) => self.ty(ty),
            None => Types::ERROR,
        }
    }

    pub(super) fn function_as_value(&mut self, span: Span) -> Node {
        let hint = "pass it straight to a form or macro that takes a function, or make it a macro";
        self.report(Diagnostic::ty(span, "a function is not a value").with_hint(hint));
        self.error_node(span)
    }

    fn block(&mut self, lets: &'a [Let], body: &'a Expr, span: Span) -> Node {
        let mut syms = Vec::with_capacity(lets.len());
        let mut children = Vec::with_capacity(lets.len() + 1);
        for binding in lets {
            let value = self.expr(&binding.value);
            if let Some(ty) = &binding.ty {
                let ty = self.ty(ty);
                self.expect(&value, ty, &format!("`{}`", binding.name.text));
            }
            let sym = self.names.fresh(&binding.name.text);
            self.bind(&binding.name, Def::Var { sym, ty: value.ty });
            syms.push(sym);
            children.push(value);
        }
        let body = self.expr(body);
        for binding in lets {
            self.unbind(&binding.name);
        }
        self.block_of(syms, children, body, span)
    }

    /// A `let` of these values before a body, or just the body if there are none.
    pub(super) fn block_of(
        &mut self,
        syms: Vec<crate::ir::Sym>,
        mut values: Vec<Node>,
        body: Node,
        span: Span,
    ) -> Node {
        if syms.is_empty() {
            return body;
        }
        let ty = body.ty;
        values.push(body);
        self.node(Head::Let(syms), ty, span, values)
    }

    pub(super) fn unary(&mut self, op: UnaryOp, value: Node, span: Span) -> Node {
        let ty = value.ty;
        if op == UnaryOp::Not {
            // `!` of an unknown is of a `bool`.
            if self.types.is_unknown(ty) {
                self.types.unify(ty, Types::BOOL);
            }
        }
        self.node(Head::Unary(op), ty, span, vec![value])
    }

    pub(super) fn binary(&mut self, op: BinaryOp, left: Node, right: Node, span: Span) -> Node {
        if matches!(op, BinaryOp::And | BinaryOp::Or) {
            let what = format!("an operand of `{}`", op.name());
            self.expect(&left, Types::BOOL, &what);
            self.expect(&right, Types::BOOL, &what);
            return self.node(Head::Binary(op), Types::BOOL, span, vec![left, right]);
        }
        let ty = left.ty;
        if !self.types.unify(left.ty, right.ty) {
            let (l, r) = (self.types.show(left.ty), self.types.show(right.ty));
            let message = format!("`{}` needs two operands of one type, not {l} and {r}", op.name());
            let mut problem =
                Diagnostic::ty(span, message).with_label(left.span, l.clone()).with_label(right.span, r.clone());
            problem.hint = self.operand_hint(&left, &right);
            self.report(problem);
            return self.error_node(span);
        }
        let result = if op.is_comparison() {
            let result = self.types.unknown();
            self.learn(Pending::Compare { operand: ty, result });
            result
        } else {
            ty
        };
        self.node(Head::Binary(op), result, span, vec![left, right])
    }

    pub(super) fn field(&mut self, value: Node, index: u32, span: Span) -> Node {
        let result = self.types.unknown();
        self.learn(Pending::Field { value: value.ty, index, result, span });
        self.node(Head::Field(index), result, span, vec![value])
    }

    /// Which of two operands to convert: the integer if the other is a float, else the literal, else the right one.
    pub(super) fn operand_hint(&mut self, left: &Node, right: &Node) -> Option<String> {
        let is_float = |infer: &mut Self, node: &Node| {
            infer.types.export(node.ty).and_then(|ty| ty.as_scalar()).is_some_and(ScalarKind::is_float)
        };
        let left_literal = matches!(left.head, Head::Literal(_)) && !matches!(right.head, Head::Literal(_));
        let is_simd = |infer: &mut Self, node: &Node| matches!(infer.types.shape(node.ty), Shape::Con(Con::Simd, _));
        let convert_left = match (is_float(self, left), is_float(self, right)) {
            _ if is_simd(self, right) => true,
            _ if is_simd(self, left) => false,
            (true, false) => false,
            (false, true) => true,
            _ => left_literal,
        };
        if convert_left { self.conversion_hint(left, right.ty) } else { self.conversion_hint(right, left.ty) }
    }
}

/// What annotations before an expression are for: the loop, if it is the result of one, as what `sum` and the other
/// macros stand for is.
fn annotated(node: &mut Node) -> &mut Node {
    let is_loop_result = matches!(node.head, Head::Result)
        && matches!(&node.children[..], [builder] if matches!(builder.head, Head::For(..)));
    if is_loop_result { &mut node.children[0] } else { node }
}
