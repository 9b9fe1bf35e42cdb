//! The syntax tree.

use std::sync::Arc;

use crate::diag::Span;
use crate::ir::Literal;
use crate::op::{BinaryOp, MergeOp, UnaryOp};
use crate::ty::ScalarKind;

/// A parsed source text.
#[derive(Clone, Debug)]
pub struct Module {
    /// The names of types, in the order of the text.
    pub aliases: Vec<Alias>,
    /// The macros, in the order of the text.
    pub macros: Vec<Macro>,
    /// The parameters of the program; none if it is a bare expression.
    pub params: Vec<Param>,
    /// The program's result.
    pub body: Expr,
}

/// An identifier and where it stands.
#[derive(Clone, Debug)]
pub struct Name {
    /// As written.
    pub text: Arc<str>,
    /// Its place.
    pub span: Span,
}

/// `type name = ty;`
#[derive(Clone, Debug)]
pub struct Alias {
    /// What the type is called from there on.
    pub name: Name,
    /// The type.
    pub ty: TypeExpr,
}

/// `macro name(params) = body;`
#[derive(Clone, Debug)]
pub struct Macro {
    /// What it is called by.
    pub name: Name,
    /// Names that stand for the arguments' expressions.
    pub params: Vec<Name>,
    /// What a call is replaced by.
    pub body: Expr,
}

/// A parameter of a lambda.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: Name,
    /// Its type, which the program's parameters need and others may leave open.
    pub ty: Option<TypeExpr>,
}

/// `let name: ty = value;`
#[derive(Clone, Debug)]
pub struct Let {
    /// The name, in scope in the rest of the block.
    pub name: Name,
    /// The type, if it is written.
    pub ty: Option<TypeExpr>,
    /// What the name stands for.
    pub value: Expr,
}

/// An expression without types.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its place.
    pub span: Span,
    /// The height of the tree, for the limit of nesting.
    pub(crate) height: u16,
    /// What it is.
    pub kind: ExprKind,
}

/// The kinds of expressions, as the text has them.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "what a variant says of itself names its fields")]
pub enum ExprKind {
    /// What stands where an error was reported.
    Error,
    /// A number, `true` or `false`.
    Literal(Literal),
    /// `"text"`, or `b"text"` of type `vec[u8]`.
    Bytes { bytes: Arc<[u8]>, unsigned: bool },
    /// A variable, or a macro without arguments.
    Name(Arc<str>),
    /// `let ..; ..; body`
    Block { lets: Vec<Let>, body: Box<Expr> },
    /// `|params| body`
    Lambda { params: Vec<Param>, body: Box<Expr> },
    /// `-x`, `!x`; math functions are calls.
    Unary(UnaryOp, Box<Expr>),
    /// `x + y`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `value: ty`
    Ascribe(Box<Expr>, TypeExpr),
    /// `name(args)`: an operator written as a call, a form such as `if` or `merge`, a macro, an alias of a type.
    Call { name: Name, args: Vec<Expr> },
    /// A function literal called on the spot: `(|x| x + 1)(2)`.
    Apply { func: Box<Expr>, args: Vec<Expr> },
    /// A type called or standing alone: a cast `i64(x)`, a builder `appender[i32]` or `appender[i32](10L)`.
    Make { ty: TypeExpr, args: Option<Vec<Expr>> },
    /// `deserialize[ty](data)`
    Deserialize { ty: TypeExpr, data: Box<Expr> },
    /// `cudf[name,ty](args)`
    CUdf { name: Name, ty: TypeExpr, args: Vec<Expr> },
    /// `{a, b, ..}`
    Struct(Vec<Expr>),
    /// `[a, b, ..]`
    Vector(Vec<Expr>),
    /// `x.$0`
    Field(Box<Expr>, u32),
    /// `@(name:value, ..) expr`
    Annotated(Vec<(Arc<str>, Arc<str>)>, Box<Expr>),
}

/// A type as written, which may leave parts open.
#[derive(Clone, Debug)]
pub struct TypeExpr {
    /// Its place.
    pub span: Span,
    /// What it is.
    pub kind: TypeKind,
}

/// The kinds of types, as the text has them.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// What stands where an error was reported.
    Error,
    /// `?`: to be inferred.
    Infer,
    /// `i64`
    Scalar(ScalarKind),
    /// `simd[T]`
    Simd(Box<TypeExpr>),
    /// `vec[T]`
    Vec(Box<TypeExpr>),
    /// `stream[T]`, for a parameter of the program.
    Stream(Box<TypeExpr>),
    /// `dict[K,V]`
    Dict(Box<TypeExpr>, Box<TypeExpr>),
    /// `{A,B,..}`
    Struct(Vec<TypeExpr>),
    /// The name of a type.
    Alias(Arc<str>),
    /// `appender[T]`
    Appender(Box<TypeExpr>),
    /// `merger[T,op]`
    Merger(Box<TypeExpr>, MergeOp),
    /// `dictmerger[K,V,op]`
    DictMerger(Box<TypeExpr>, Box<TypeExpr>, MergeOp),
    /// `numberer[K,V,op,R]`
    Numberer(Box<TypeExpr>, Box<TypeExpr>, MergeOp, Box<TypeExpr>),
    /// `groupbuilder[K,V]`
    GroupBuilder(Box<TypeExpr>, Box<TypeExpr>),
    /// `vecmerger[T,op]`
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
