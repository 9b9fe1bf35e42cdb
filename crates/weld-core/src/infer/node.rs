//! The tree between syntax and IR: names resolved, macros gone, types still under inference.
//!
//! A node is a head and its children in the order in which the IR visits them; finishing a node looks up its type and
//! puts head and children together.

use std::sync::Arc;

use super::types::Ty;
use crate::diag::Span;
use crate::ir::{Annotations, Binding, Expr, ExprKind, Func, Iter, Literal, Sym};
use crate::op::{BinaryOp, Intrinsic, UnaryOp};
use crate::ty::Type;

pub(super) struct Node {
    pub(super) head: Head,
    pub(super) ty: Ty,
    pub(super) span: Span,
    pub(super) annotations: Annotations,
    pub(super) children: Vec<Node>,
}

impl Node {
    pub(super) fn literal(&self) -> Option<Literal> {
        match self.head {
            Head::Literal(literal) => Some(literal),
            _ => None,
        }
    }
}

/// A function's parameters; its body is the last child.
pub(super) type Params = Vec<(Sym, Ty)>;

pub(super) enum Head {
    /// Something that was complained about.
    Error,
    Literal(Literal),
    Bytes(Arc<[u8]>),
    Var(Sym),
    /// Children: a value for each symbol, then the body.
    Let(Vec<Sym>),
    Unary(UnaryOp),
    Binary(BinaryOp),
    Cast,
    If,
    Select,
    Struct,
    Field(u32),
    Vector,
    Len,
    Lookup,
    OptLookup,
    KeyExists,
    Slice,
    Sort(Params),
    ToVec,
    Update,
    Iterate(Params),
    NewBuilder,
    Merge,
    For(IterHead, Params),
    Result,
    Serialize,
    Deserialize,
    CUdf(Arc<str>),
    Intrinsic(Intrinsic),
    /// With the message, and whether the error is the message alone.
    Assert(Option<Arc<str>>, bool),
    Broadcast,
}

/// What kind of iterator; its expressions are the first children of the loop.
#[derive(Clone, Debug)]
pub(super) enum IterHead {
    Vector,
    Strided,
    Range,
    Simd,
    Fringe,
    Nd,
    Chunks,
    Zip(Vec<IterHead>),
}

/// The IR's kind for a head with finished children. `None` if the children are not as many as the head says, which
/// does not happen.
pub(super) fn assemble(head: Head, params: Vec<(Sym, Type)>, children: Vec<Expr>) -> Option<ExprKind> {
    let mut parts = Parts(children.into_iter());
    let kind = match head {
        Head::Error => return None,
        Head::Literal(literal) => ExprKind::Literal(literal),
        Head::Bytes(bytes) => ExprKind::Bytes(bytes),
        Head::Var(sym) => ExprKind::Var(sym),
        Head::Let(syms) => return parts.block(syms),
        Head::Unary(op) => ExprKind::Unary(op, parts.boxed()?),
        Head::Binary(op) => ExprKind::Binary(op, parts.boxed()?, parts.boxed()?),
        Head::Cast => ExprKind::Cast(parts.boxed()?),
        Head::If => ExprKind::If { cond: parts.boxed()?, on_true: parts.boxed()?, on_false: parts.boxed()? },
        Head::Select => ExprKind::Select { cond: parts.boxed()?, on_true: parts.boxed()?, on_false: parts.boxed()? },
        Head::Struct => ExprKind::Struct(parts.0.collect()),
        Head::Field(index) => ExprKind::Field(parts.boxed()?, index),
        Head::Vector => ExprKind::Vector(parts.0.collect()),
        Head::Len => ExprKind::Len(parts.boxed()?),
        Head::Lookup => ExprKind::Lookup { data: parts.boxed()?, key: parts.boxed()?, checked: true },
        Head::OptLookup => ExprKind::OptLookup { data: parts.boxed()?, key: parts.boxed()? },
        Head::KeyExists => ExprKind::KeyExists { data: parts.boxed()?, key: parts.boxed()? },
        Head::Slice => ExprKind::Slice { data: parts.boxed()?, start: parts.boxed()?, size: parts.boxed()? },
        Head::Sort(_) => ExprKind::Sort { data: parts.boxed()?, compare: Func { params, body: parts.boxed()? } },
        Head::ToVec => ExprKind::ToVec(parts.boxed()?),
        Head::Update => ExprKind::Update { data: parts.boxed()?, index: parts.boxed()?, value: parts.boxed()? },
        Head::Iterate(_) => ExprKind::Iterate { init: parts.boxed()?, step: Func { params, body: parts.boxed()? } },
        Head::NewBuilder => ExprKind::NewBuilder { arg: parts.boxed() },
        Head::Merge => ExprKind::Merge { builder: parts.boxed()?, value: parts.boxed()? },
        Head::For(iter, _) => {
            let iter = Box::new(parts.iter(iter)?);
            ExprKind::For { iter, builder: parts.boxed()?, func: Func { params, body: parts.boxed()? } }
        }
        Head::Result => ExprKind::Result(parts.boxed()?),
        Head::Serialize => ExprKind::Serialize(parts.boxed()?),
        Head::Deserialize => ExprKind::Deserialize(parts.boxed()?),
        Head::CUdf(name) => ExprKind::CUdf { name, args: parts.0.collect() },
        Head::Intrinsic(intrinsic) => ExprKind::Intrinsic(intrinsic, parts.0.collect()),
        Head::Assert(message, raised) => {
            ExprKind::Assert { cond: parts.boxed()?, message, values: parts.0.collect(), raised }
        }
        Head::Broadcast => ExprKind::Broadcast(parts.boxed()?),
    };
    Some(kind)
}

struct Parts(std::vec::IntoIter<Expr>);

impl Parts {
    fn boxed(&mut self) -> Option<Box<Expr>> {
        self.0.next().map(Box::new)
    }

    /// A `let` in normal form: a body that is a `let` is joined.
    fn block(&mut self, syms: Vec<Sym>) -> Option<ExprKind> {
        let mut bindings = Vec::with_capacity(syms.len());
        for sym in syms {
            bindings.push(Binding { sym, value: self.0.next()? });
        }
        let mut body = self.0.next()?;
        if let ExprKind::Let { bindings: inner, body: inner_body } = &mut body.kind {
            bindings.append(inner);
            body = inner_body.take();
        }
        Some(ExprKind::Let { bindings, body: Box::new(body) })
    }

    fn iter(&mut self, head: IterHead) -> Option<Iter> {
        let mut next = || self.0.next();
        Some(match head {
            IterHead::Vector => Iter::Vector(next()?),
            IterHead::Strided => Iter::Strided { data: next()?, start: next()?, end: next()?, stride: next()? },
            IterHead::Range => Iter::Range { start: next()?, end: next()?, stride: next()? },
            IterHead::Simd => Iter::Simd(next()?),
            IterHead::Fringe => Iter::Fringe(next()?),
            IterHead::Nd => Iter::Nd {
                data: next()?,
                start: next()?,
                end: next()?,
                stride: next()?,
                shape: next()?,
                strides: next()?,
            },
            IterHead::Chunks => Iter::Chunks { data: next()?, size: next()? },
            IterHead::Zip(heads) => {
                Iter::Zip(heads.into_iter().map(|head| self.iter(head)).collect::<Option<Vec<Iter>>>()?)
            }
        })
    }
}
