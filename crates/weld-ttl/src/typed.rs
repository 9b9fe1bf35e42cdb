//! The checked tree: names are resolved, every expression has its type, conversions are written out.
//!
//! Scopes are gone: each variable of a function has a number of its own.

use std::sync::Arc;

use weld_core::diag::Span;

use crate::tree::BinaryOp;
use crate::types::Type;

#[derive(Debug)]
pub(crate) struct Module {
    /// Each calls only those before it.
    pub(crate) functions: Vec<Function>,
}

/// A variable of a function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Var(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) span: Span,
    /// The place of the name.
    pub(crate) name_span: Span,
    pub(crate) result: Type,
    /// The first variables.
    pub(crate) params: usize,
    pub(crate) vars: Vec<VarInfo>,
    pub(crate) body: Vec<Stmt>,
    /// What is returned, converted to `result`; nothing from a `void` function.
    pub(crate) value: Option<Expr>,
}

#[derive(Debug)]
pub(crate) struct VarInfo {
    pub(crate) name: String,
    pub(crate) ty: Type,
}

#[derive(Debug)]
pub(crate) enum Stmt {
    Set {
        var: Var,
        value: Expr,
    },
    SetElement {
        var: Var,
        indices: Vec<Expr>,
        value: Expr,
        span: Span,
    },
    /// A call whose result, if there is one, is dropped.
    Call(Expr),
    For {
        var: Var,
        start: Expr,
        end: Expr,
        step: Expr,
        body: Vec<Stmt>,
        span: Span,
    },
    If {
        cond: Expr,
        on_true: Vec<Stmt>,
        on_false: Vec<Stmt>,
    },
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) ty: Type,
    pub(crate) span: Span,
}

/// An index of a slice.
#[derive(Debug)]
pub(crate) enum Index {
    One(Expr),
    Range(Expr, Expr),
}

/// How a value becomes one of another type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Conversion {
    /// Between `?` and sizes: these are checked.
    Sizes,
    /// From one dimension to several with as many elements.
    Shape,
    /// A matrix filled with the integers of a range.
    Count,
    /// A matrix filled with one value.
    Fill,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Int(i32),
    Float(f32),
    Var(Var),
    Call {
        function: usize,
        args: Vec<Expr>,
    },
    /// A function of the session, whatever its language. The arguments are converted to what it takes.
    SessionCall {
        function: Arc<weld_frontend::Function>,
        args: Vec<Expr>,
    },
    List(Vec<Expr>),
    /// All indices are integers.
    Element {
        data: Box<Expr>,
        indices: Vec<Expr>,
    },
    Slice {
        data: Box<Expr>,
        indices: Vec<Index>,
    },
    Neg(Box<Expr>),
    Not(Box<Expr>),
    /// Arithmetic of scalars and matrices, comparisons, logic, `#`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Size {
        data: Box<Expr>,
        dim: Box<Expr>,
    },
    Range(Box<Expr>, Box<Expr>),
    /// `what` is what gets the value: ``the initial value of `m` ``.
    Convert {
        how: Conversion,
        value: Box<Expr>,
        what: String,
    },
    /// Zero, or a matrix of zeros.
    Zero,
    /// Stands for what was refused.
    Wrong,
}

impl Stmt {
    /// The expressions directly in the statement, in the order of the text.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        match self {
            Stmt::Set { value, .. } | Stmt::Call(value) => vec![value],
            Stmt::SetElement { indices, value, .. } => indices.iter().chain([value]).collect(),
            Stmt::For { start, end, step, .. } => vec![start, end, step],
            Stmt::If { cond, .. } => vec![cond],
        }
    }

    /// The statements directly in the statement.
    pub(crate) fn stmts(&self) -> Vec<&Stmt> {
        match self {
            Stmt::For { body, .. } => body.iter().collect(),
            Stmt::If { on_true, on_false, .. } => on_true.iter().chain(on_false).collect(),
            _ => Vec::new(),
        }
    }
}

impl Expr {
    /// The expressions directly in the expression, in the order of the text.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Zero | ExprKind::Wrong => Vec::new(),
            ExprKind::Call { args: items, .. } | ExprKind::SessionCall { args: items, .. } | ExprKind::List(items) => {
                items.iter().collect()
            }
            ExprKind::Element { data, indices } => std::iter::once(&**data).chain(indices).collect(),
            ExprKind::Slice { data, indices } => {
                let parts = indices.iter().flat_map(|index| match index {
                    Index::One(at) => vec![at],
                    Index::Range(start, end) => vec![start, end],
                });
                std::iter::once(&**data).chain(parts).collect()
            }
            ExprKind::Neg(a) | ExprKind::Not(a) | ExprKind::Convert { value: a, .. } => vec![a],
            ExprKind::Binary(_, a, b) | ExprKind::Range(a, b) | ExprKind::Size { data: a, dim: b } => vec![a, b],
        }
    }
}

/// The value of an integer expression of literals, if it has one.
pub(crate) fn constant(e: &Expr) -> Option<i32> {
    weld_core::ir::deep(|| match &e.kind {
        ExprKind::Int(value) => Some(*value),
        ExprKind::Neg(a) => constant(a)?.checked_neg(),
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (constant(a)?, constant(b)?);
            match op {
                BinaryOp::Add => a.checked_add(b),
                BinaryOp::Sub => a.checked_sub(b),
                BinaryOp::Mul => a.checked_mul(b),
                BinaryOp::Div => a.checked_div(b),
                _ => None,
            }
        }
        ExprKind::Size { data, dim } => {
            let (_, dims) = data.ty.as_matrix()?;
            let size = dims.get(usize::try_from(constant(dim)?).ok()?)?.known()?;
            i32::try_from(size).ok()
        }
        _ => None,
    })
}
