//! The tree of a text, as written: names are not resolved, nothing is typed.

use weld_core::diag::Span;

use crate::types::Type;

#[derive(Debug)]
pub(crate) struct Module<'a> {
    pub(crate) functions: Vec<Function<'a>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    pub(crate) text: &'a str,
    pub(crate) span: Span,
}

/// A type and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct TypeExpr {
    pub(crate) ty: Type,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub(crate) result: TypeExpr,
    pub(crate) name: Name<'a>,
    pub(crate) params: Vec<(TypeExpr, Name<'a>)>,
    pub(crate) body: Vec<Stmt<'a>>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Stmt<'a> {
    pub(crate) kind: StmtKind<'a>,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum StmtKind<'a> {
    Var { ty: TypeExpr, name: Name<'a>, init: Option<Expr<'a>> },
    Assign { name: Name<'a>, value: Expr<'a> },
    AssignElement { name: Name<'a>, indices: Vec<Expr<'a>>, value: Expr<'a> },
    Call(Expr<'a>),
    For { name: Name<'a>, range: Expr<'a>, step: Expr<'a>, body: Box<Stmt<'a>> },
    If { cond: Expr<'a>, on_true: Box<Stmt<'a>>, on_false: Option<Box<Stmt<'a>>> },
    Return(Expr<'a>),
    Block(Vec<Stmt<'a>>),
}

#[derive(Debug)]
pub(crate) struct Expr<'a> {
    pub(crate) kind: ExprKind<'a>,
    pub(crate) span: Span,
    /// Levels of the tree from here.
    pub(crate) height: u32,
}

#[derive(Debug)]
pub(crate) enum ExprKind<'a> {
    Int(i32),
    Float(f32),
    Name(&'a str),
    Call { name: Name<'a>, args: Vec<Expr<'a>> },
    List(Vec<Expr<'a>>),
    Slice { data: Box<Expr<'a>>, indices: Vec<Expr<'a>> },
    Unary(UnaryOp, Box<Expr<'a>>),
    Binary(BinaryOp, Box<Expr<'a>>, Box<Expr<'a>>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UnaryOp {
    Neg,
    Not,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BinaryOp {
    MatMul,
    Size,
    Mul,
    Div,
    Add,
    Sub,
    Lt,
    Gt,
    Le,
    Ge,
    Eq,
    Ne,
    And,
    Or,
    Range,
}

impl BinaryOp {
    const ALL: [BinaryOp; 15] = [
        BinaryOp::MatMul,
        BinaryOp::Size,
        BinaryOp::Mul,
        BinaryOp::Div,
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Lt,
        BinaryOp::Gt,
        BinaryOp::Le,
        BinaryOp::Ge,
        BinaryOp::Eq,
        BinaryOp::Ne,
        BinaryOp::And,
        BinaryOp::Or,
        BinaryOp::Range,
    ];

    /// The operator that is written so.
    pub(crate) fn of(sign: &str) -> Option<BinaryOp> {
        BinaryOp::ALL.into_iter().find(|op| op.sign() == sign)
    }

    pub(crate) fn sign(self) -> &'static str {
        match self {
            BinaryOp::MatMul => "#",
            BinaryOp::Size => "$",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Lt => "<",
            BinaryOp::Gt => ">",
            BinaryOp::Le => "<=",
            BinaryOp::Ge => ">=",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::And => "&",
            BinaryOp::Or => "|",
            BinaryOp::Range => "...",
        }
    }

    /// How tightly it binds; operators of one level associate to the left.
    pub(crate) fn level(self) -> u8 {
        match self {
            BinaryOp::Range => 1,
            BinaryOp::Or => 2,
            BinaryOp::And => 3,
            BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge | BinaryOp::Eq | BinaryOp::Ne => 5,
            BinaryOp::Add | BinaryOp::Sub => 6,
            BinaryOp::Mul | BinaryOp::Div => 7,
            BinaryOp::Size => 9,
            BinaryOp::MatMul => 10,
        }
    }
}

impl UnaryOp {
    pub(crate) fn sign(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Not => "!",
        }
    }

    /// Its operand holds operators that bind tighter: `-a $ 0` is `-(a $ 0)`, `!a < b` is `!(a < b)`.
    pub(crate) fn level(self) -> u8 {
        match self {
            UnaryOp::Not => 4,
            UnaryOp::Neg => 8,
        }
    }
}
