//! The syntax tree.

use std::sync::Arc;

use crate::diag::Span;
use crate::ir::Literal;
use crate::op::{BinaryOp, MergeOp, UnaryOp};
use crate::ty::ScalarKind;

/// A parsed source text.
#[derive(Clone, Debug)]
pub struct Module {
    pub aliases: Vec<Alias>,
    pub macros: Vec<Macro>,
    /// The parameters of the program; none if it is a bare expression.
    pub params: Vec<Param>,
    pub body: Expr,
}

/// An identifier and where it stands.
#[derive(Clone, Debug)]
pub struct Name {
    pub text: Arc<str>,
    pub span: Span,
}

/// `type name = ty;`
#[derive(Clone, Debug)]
pub struct Alias {
    pub name: Name,
    pub ty: TypeExpr,
}

/// `macro name(params) = body;`
#[derive(Clone, Debug)]
pub struct Macro {
    pub name: Name,
    pub params: Vec<Name>,
    pub body: Expr,
}

/// A parameter of a lambda.
#[derive(Clone, Debug)]
pub struct Param {
    pub name: Name,
    pub ty: Option<TypeExpr>,
}

/// `let name: ty = value;`
#[derive(Clone, Debug)]
pub struct Let {
    pub name: Name,
    pub ty: Option<TypeExpr>,
    pub value: Expr,
}

#[derive(Clone, Debug)]
pub struct Expr {
    pub span: Span,
    /// The height of the tree, for the limit of nesting.
    pub(crate) height: u16,
    pub kind: ExprKind,
}

#[derive(Clone, Debug)]
pub enum ExprKind {
    /// What stands where an error was reported.
    Error,
    Literal(Literal),
    /// `"text"`, or `b"text"` of type `vec[u8]`.
    Bytes {
        bytes: Arc<[u8]>,
        unsigned: bool,
    },
    Name(Arc<str>),
    Block {
        lets: Vec<Let>,
        body: Box<Expr>,
    },
    Lambda {
        params: Vec<Param>,
        body: Box<Expr>,
    },
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `value: ty`
    Ascribe(Box<Expr>, TypeExpr),
    /// `name(args)`: an operator written as a call, a form such as `if` or `merge`, a macro, an alias of a type.
    Call {
        name: Name,
        args: Vec<Expr>,
    },
    /// A function literal called on the spot: `(|x| x + 1)(2)`.
    Apply {
        func: Box<Expr>,
        args: Vec<Expr>,
    },
    /// A type called or standing alone: a cast `i64(x)`, a builder `appender[i32]` or `appender[i32](10L)`.
    Make {
        ty: TypeExpr,
        args: Option<Vec<Expr>>,
    },
    /// `deserialize[ty](data)`
    Deserialize {
        ty: TypeExpr,
        data: Box<Expr>,
    },
    /// `cudf[name,ty](args)`
    CUdf {
        name: Name,
        ty: TypeExpr,
        args: Vec<Expr>,
    },
    Struct(Vec<Expr>),
    Vector(Vec<Expr>),
    Field(Box<Expr>, u32),
    /// `@(name:value, ..) expr`
    Annotated(Vec<(Arc<str>, Arc<str>)>, Box<Expr>),
}

#[derive(Clone, Debug)]
pub struct TypeExpr {
    pub span: Span,
    pub kind: TypeKind,
}

#[derive(Clone, Debug)]
pub enum TypeKind {
    /// What stands where an error was reported.
    Error,
    /// `?`: to be inferred.
    Infer,
    Scalar(ScalarKind),
    Simd(Box<TypeExpr>),
    Vec(Box<TypeExpr>),
    /// `stream[T]`, for a parameter of the program.
    Stream(Box<TypeExpr>),
    Dict(Box<TypeExpr>, Box<TypeExpr>),
    Struct(Vec<TypeExpr>),
    Alias(Arc<str>),
    Appender(Box<TypeExpr>),
    Merger(Box<TypeExpr>, MergeOp),
    DictMerger(Box<TypeExpr>, Box<TypeExpr>, MergeOp),
    GroupBuilder(Box<TypeExpr>, Box<TypeExpr>),
    VecMerger(Box<TypeExpr>, MergeOp),
}

impl Expr {
    pub(crate) fn error(span: Span) -> Expr {
        Expr { span, height: 1, kind: ExprKind::Error }
    }

    /// Calls `f` with every direct child.
    pub(crate) fn each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            ExprKind::Error | ExprKind::Literal(_) | ExprKind::Bytes { .. } | ExprKind::Name(_) => {}
            ExprKind::Block { lets, body } => {
                lets.iter().for_each(|l| f(&l.value));
                f(body);
            }
            ExprKind::Lambda { body: a, .. }
            | ExprKind::Unary(_, a)
            | ExprKind::Ascribe(a, _)
            | ExprKind::Deserialize { data: a, .. }
            | ExprKind::Field(a, _)
            | ExprKind::Annotated(_, a) => f(a),
            ExprKind::Binary(_, a, b) => {
                f(a);
                f(b);
            }
            ExprKind::Call { args, .. }
            | ExprKind::CUdf { args, .. }
            | ExprKind::Struct(args)
            | ExprKind::Vector(args)
            | ExprKind::Make { args: Some(args), .. } => args.iter().for_each(f),
            ExprKind::Make { args: None, .. } => {}
            ExprKind::Apply { func, args } => {
                f(func);
                args.iter().for_each(f);
            }
        }
    }
}
