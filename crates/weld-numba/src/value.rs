//! Values as they are known when a program is compiled: what exists only then (functions, types), and what stands for a
//! value of the run.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use weld_core::diag::Span;
use weld_core::ir::{Expr, ExprKind, Literal, build};
use weld_core::ty::ScalarKind;
use weld_pysyntax as py;

use crate::module::{Def, Trait};
use crate::store::{CellId, FrameId};
use crate::stream::Stream;
use crate::types::{ObjectTy, Ty, TyArg};

/// A value. Lists and objects are cells, so that names share them.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// A literal, or what is computed of nothing but literals, types and sizes: branches on it are chosen when
    /// compiled.
    Const(Const),
    /// A scalar or a string of the run.
    Data(Expr, Ty),
    None,
    Tuple(Rc<[Value<'a>]>),
    /// Its cell holds `Elements` or an `Appender`.
    List(CellId),
    /// Its cell holds `Fields`.
    Object(CellId, Rc<ObjectTy>),
    Stream(Rc<Stream<'a>>),
    Callable(Callable<'a>),
    Type(Ty),
    /// A trait, of the program or built in.
    Trait(Rc<Trait<'a>>),
    /// An exception that was made but not raised: its class and text.
    Exception(Arc<str>, Arc<str>),
    /// An exception that was caught: the cell of its number, and what it may be.
    Caught(CellId, Rc<[Raised]>),
    /// A variable that has no value yet; reading it is an error.
    Unbound,
    /// What a variable holds where the flag is true.
    Maybe(Expr, Rc<Value<'a>>),
    /// No value so far, and nobody reads it before there is one.
    Nothing,
    /// What a list's cell holds: a vector.
    Elements(Expr, Ty),
    /// What a list's cell holds in a loop that appends to it and reads it: a vector with room for more, and how many of
    /// its elements are the list's.
    Buffer(Expr, Expr, Ty),
    /// What a list's cell holds in a loop that only appends to it, and what a sum is made in: a builder.
    Builder(Expr, Ty),
    /// What an object's cell holds.
    Fields(Rc<[Value<'a>]>),
}

/// A place where an exception is raised that a handler catches.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Raised {
    pub(crate) class: Arc<str>,
    pub(crate) text: Arc<str>,
    pub(crate) span: Span,
}

/// What is known when the program is compiled.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Const {
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Arc<str>),
}

/// What can be called.
#[derive(Clone, Debug)]
pub(crate) enum Callable<'a> {
    /// Definitions of one name, and the frame that they stand in.
    Function(Rc<[Rc<Def<'a>>]>, FrameId),
    Lambda(&'a py::Params, &'a py::Expr, FrameId),
    Builtin(&'static str),
    /// A function of the session.
    Session(Arc<weld_frontend::Function>),
    /// A class and the parameters that are written.
    Class(usize, Rc<[TyArg]>),
    /// A method of a value.
    Method(Rc<Value<'a>>, Arc<str>),
}

impl Const {
    pub(crate) fn ty(&self) -> Ty {
        match self {
            Const::Bool(_) => Ty::BOOL,
            Const::Int(_) => Ty::INT,
            Const::Float(_) => Ty::FLOAT,
            Const::Str(_) => Ty::Str,
        }
    }

    pub(crate) fn expr(&self) -> Expr {
        match self {
            Const::Bool(value) => build::bool(*value),
            Const::Int(value) => build::i64(*value),
            Const::Float(value) => build::f64(*value),
            Const::Str(text) => build::bytes(text.as_bytes()),
        }
    }
}

impl<'a> Value<'a> {
    pub(crate) fn int(value: i64) -> Value<'a> {
        Value::Const(Const::Int(value))
    }

    pub(crate) fn bool(value: bool) -> Value<'a> {
        Value::Const(Const::Bool(value))
    }

    pub(crate) fn scalar(e: Expr) -> Value<'a> {
        let kind = e.ty.as_scalar().unwrap_or(ScalarKind::Bool);
        Value::Data(e, Ty::Scalar(kind))
    }

    pub(crate) fn tuple(parts: impl IntoIterator<Item = Value<'a>>) -> Value<'a> {
        Value::Tuple(parts.into_iter().collect())
    }

    pub(crate) fn builtin(name: &'static str) -> Value<'a> {
        Value::Callable(Callable::Builtin(name))
    }

    /// A scalar or string as an expression.
    pub(crate) fn data(&self) -> Option<Expr> {
        match self {
            Value::Const(value) => Some(value.expr()),
            Value::Data(e, _) => Some(e.clone()),
            _ => None,
        }
    }

    pub(crate) fn const_int(&self) -> Option<i64> {
        match self {
            Value::Const(Const::Int(value)) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn const_bool(&self) -> Option<bool> {
        match self {
            Value::Const(Const::Bool(value)) => Some(*value),
            _ => None,
        }
    }

    /// The same, but no longer known when the program is compiled: what a variable holds.
    pub(crate) fn variable(self) -> Value<'a> {
        match self {
            Value::Const(value) => Value::Data(value.expr(), value.ty()),
            Value::Tuple(parts) => Value::tuple(parts.iter().cloned().map(Value::variable)),
            other => other,
        }
    }

    /// Whether two values are one and the same without a look at what they are when the program runs.
    pub(crate) fn is_same(&self, other: &Value<'a>) -> bool {
        match (self, other) {
            (Value::Const(a), Value::Const(b)) => a == b,
            (Value::Data(a, t), Value::Data(b, u)) => t == u && same_variable(a, b),
            (Value::None, Value::None) | (Value::Unbound, Value::Unbound) | (Value::Nothing, Value::Nothing) => true,
            (Value::List(a), Value::List(b)) => a == b,
            (Value::Object(a, t), Value::Object(b, u)) => a == b && t == u,
            (Value::Stream(a), Value::Stream(b)) => Rc::ptr_eq(a, b),
            (Value::Callable(a), Value::Callable(b)) => a.is_same(b),
            (Value::Type(a), Value::Type(b)) => a == b,
            (Value::Trait(a), Value::Trait(b)) => Rc::ptr_eq(a, b),
            (Value::Exception(a, t), Value::Exception(b, u)) => a == b && t == u,
            (Value::Caught(a, s), Value::Caught(b, t)) => a == b && s == t,
            _ => false,
        }
    }
}

pub(crate) fn same_variable(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Var(a), ExprKind::Var(b)) => a == b,
        (ExprKind::Literal(a), ExprKind::Literal(b)) => a == b,
        (ExprKind::Field(a, i), ExprKind::Field(b, j)) => i == j && same_variable(a, b),
        _ => false,
    }
}

impl<'a> Callable<'a> {
    pub(crate) fn is_same(&self, other: &Callable<'a>) -> bool {
        match (self, other) {
            (Callable::Function(a, f), Callable::Function(b, g)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| Rc::ptr_eq(a, b)) && f == g
            }
            (Callable::Lambda(_, a, f), Callable::Lambda(_, b, g)) => std::ptr::eq(*a, *b) && f == g,
            (Callable::Builtin(a), Callable::Builtin(b)) => a == b,
            (Callable::Session(a), Callable::Session(b)) => Arc::ptr_eq(a, b),
            (Callable::Class(a, t), Callable::Class(b, u)) => a == b && t == u,
            (Callable::Method(a, m), Callable::Method(b, n)) => a.is_same(b) && m == n,
            _ => false,
        }
    }
}

/// The value of a literal of the IR that is an integer.
pub(crate) fn literal_int(e: &Expr) -> Option<i64> {
    match e.kind {
        ExprKind::Literal(Literal::I64(value)) => Some(value),
        _ => None,
    }
}

/// For messages that show what is known of a value.
impl fmt::Display for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Const::Bool(true) => f.write_str("True"),
            Const::Bool(false) => f.write_str("False"),
            Const::Int(value) => write!(f, "{value}"),
            Const::Float(value) => write!(f, "{value}"),
            Const::Str(text) => write!(f, "{text:?}"),
        }
    }
}
