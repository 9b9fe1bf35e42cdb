//! The tree of a text. Expressions are in one arena, an operand before what uses it, so that no text makes deep
//! recursions.

use std::sync::Arc;

use weld_core::diag::Span;

use crate::spec::Spec;

/// An expression's place in [`Module::exprs`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ExprId(pub(crate) u32);

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) definitions: Vec<Definition>,
    pub(crate) exprs: Vec<Expr>,
}

impl Module {
    pub(crate) fn expr(&self, id: ExprId) -> &Expr {
        &self.exprs[id.0 as usize]
    }
}

/// A name with its place.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: Arc<str>,
    pub(crate) span: Span,
}

/// `let%cd f x = ..`, `let%op f x = ..`
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: Name,
    pub(crate) params: Vec<Param>,
    /// Has `~config`, which is no tensor.
    pub(crate) config: Option<Span>,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Code(Vec<Item>),
    Tensor(ExprId),
}

#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: Name,
    pub(crate) shape: Option<Annotation>,
}

/// The shape of a parameter as it is written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Annotation {
    pub(crate) batch: Vec<Option<u64>>,
    pub(crate) output: Vec<Option<u64>>,
    pub(crate) input: Vec<Option<u64>>,
}

/// A part of a `%cd` code.
#[derive(Debug)]
pub(crate) enum Item {
    Assign(Assign),
    /// `t.forward`, `t.backprop`, `t.zero_grads`
    Command {
        tensor: Name,
        command: Command,
        span: Span,
    },
    /// `let%op name = value in`
    Tensor {
        name: Name,
        value: ExprId,
    },
    /// `let name = value in`: without a gradient.
    Plain {
        name: Name,
        value: ExprId,
    },
    /// `let%cd name params = code in`
    Code {
        name: Name,
        params: Vec<Param>,
        code: Vec<Item>,
    },
    /// The code that is bound to a name, or a definition's, with arguments for its parameters.
    Run {
        name: Name,
        args: Vec<ExprId>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    Forward,
    Backprop,
    ZeroGrads,
}

#[derive(Debug)]
pub(crate) struct Assign {
    pub(crate) target: Target,
    /// The operator's place.
    pub(crate) span: Span,
    pub(crate) init: bool,
    pub(crate) accum: Accum,
    pub(crate) value: ExprId,
    pub(crate) logic: Option<(Logic, Span)>,
}

#[derive(Debug)]
pub(crate) enum Target {
    Name(Name),
    Grad(Name),
    Declare(Declare),
}

/// `"w"`, or `{w; i=[3]; o=[2]}` with its axes.
#[derive(Clone, Debug)]
pub(crate) struct Declare {
    pub(crate) name: Name,
    pub(crate) axes: Option<Annotation>,
}

/// How an assignment puts a value to the old one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accum {
    Set,
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Gate,
    Max,
    Min,
}

/// Which axes of the operands go together.
#[derive(Clone, Debug)]
pub(crate) enum Logic {
    Pointwise,
    Compose,
    Transpose,
    Einsum(Arc<Spec>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unary {
    Identity,
    Relu,
    Exp,
    Log,
    Sqrt,
    Tanh,
    Sin,
    Cos,
    Neg,
    Recip,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    /// `if x > 0 then y else 0`
    Gate,
    Arg1,
    Arg2,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
    /// Of an operation, its operator or name.
    pub(crate) op: Span,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Number {
        value: f64,
        label: Option<char>,
    },
    Literal(Nested),
    Name(Arc<str>),
    Grad(Name),
    Declare {
        declare: Declare,
        init: Option<ExprId>,
    },
    /// In parentheses: in `%cd` a tensor of its own.
    Paren(ExprId),
    Unary(Unary, ExprId),
    Binary(Operator, ExprId, ExprId),
    /// `a ++ "spec"`, `a +* "spec" b`, `a @^+ "spec" b`
    Einsum {
        spec: Arc<Spec>,
        args: Vec<ExprId>,
        max: bool,
    },
    Call {
        name: Name,
        args: Vec<ExprId>,
        config: Option<Vec<String>>,
    },
    /// `let name = value in body`; `tensor` where it is `let%op`.
    Let {
        name: Name,
        value: ExprId,
        body: ExprId,
        tensor: bool,
    },
    /// `fun x y -> body`; `let f x y = body in` binds one.
    Fun(Lambda),
}

/// A function inside of an expression.
#[derive(Debug)]
pub(crate) struct Lambda {
    pub(crate) params: Vec<Param>,
    pub(crate) config: Option<Span>,
    pub(crate) body: ExprId,
}

/// Operators of two operands as they are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operator {
    /// `*`: the tensor product, but pointwise where it is the operation of an assignment.
    Star,
    /// `/` and `**`: only as the operation of an assignment.
    Slash,
    Power,
    Add,
    Sub,
    Gate,
    MulDot,
    DivDot,
    PowDot,
}

impl Operator {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Operator::Star => "*",
            Operator::Slash => "/",
            Operator::Power => "**",
            Operator::Add => "+",
            Operator::Sub => "-",
            Operator::Gate => "-?/",
            Operator::MulDot => "*.",
            Operator::DivDot => "/.",
            Operator::PowDot => "**.",
        }
    }

    /// The operation of an assignment that it is.
    pub(crate) fn built_in(self) -> Option<Binary> {
        Some(match self {
            Operator::Star => Binary::Mul,
            Operator::Slash => Binary::Div,
            Operator::Power => Binary::Pow,
            Operator::Add => Binary::Add,
            Operator::Sub => Binary::Sub,
            Operator::Gate => Binary::Gate,
            Operator::MulDot | Operator::DivDot | Operator::PowDot => return None,
        })
    }
}

impl Accum {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Accum::Set => "",
            Accum::Add => "+",
            Accum::Sub => "-",
            Accum::Mul => "*",
            Accum::Div => "/",
            Accum::Pow => "**",
            Accum::Gate => "?/",
            Accum::Max => "@^",
            Accum::Min => "@-",
        }
    }

    pub(crate) const ALL: [Accum; 9] =
        [Accum::Set, Accum::Add, Accum::Sub, Accum::Mul, Accum::Div, Accum::Pow, Accum::Gate, Accum::Max, Accum::Min];
}

/// A literal's brackets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AxisKind {
    Batch,
    Output,
    Input,
}

/// A literal of several elements: the kind and size of each level, outermost first, and the numbers in the order
/// written.
#[derive(Debug)]
pub(crate) struct Nested {
    pub(crate) levels: Vec<(AxisKind, usize)>,
    pub(crate) numbers: Vec<f64>,
}

/// The functions of one operand.
pub(crate) fn unary_named(name: &str) -> Option<Unary> {
    Some(match name {
        "relu" => Unary::Relu,
        "exp" => Unary::Exp,
        "log" => Unary::Log,
        "sqrt" => Unary::Sqrt,
        "tanh" => Unary::Tanh,
        "sin" => Unary::Sin,
        "cos" => Unary::Cos,
        "id" | "identity" => Unary::Identity,
        "neg" => Unary::Neg,
        "recip" => Unary::Recip,
        _ => return None,
    })
}

/// The operations of assignments that have names besides their operators.
pub(crate) fn binary_named(name: &str) -> Option<Binary> {
    Some(match name {
        "add" => Binary::Add,
        "sub" => Binary::Sub,
        "mul" => Binary::Mul,
        "div" => Binary::Div,
        "pow" | "to_pow_of" => Binary::Pow,
        "relu_gate" => Binary::Gate,
        "arg1" => Binary::Arg1,
        "arg2" => Binary::Arg2,
        _ => return None,
    })
}
