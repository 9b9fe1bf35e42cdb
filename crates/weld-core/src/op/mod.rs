//! Operators: what `+`, `sqrt`, a builder's binop and the intrinsics are called and which types they take.

mod bound;
mod intrinsic;

use std::fmt;
use std::sync::Arc;

pub use bound::{Bound, Evaluate, fits_64_bits, kind_fits_64_bits};
pub use intrinsic::Intrinsic;

/// Operators of two operands. Both have one type; comparisons and `&& ||` give `bool`, the others that type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "`name` says how each is written")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    BitAnd,
    BitOr,
    BitXor,
    /// Evaluates its right side only when the left is true.
    And,
    /// Evaluates its right side only when the left is false.
    Or,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Min,
    Max,
    Pow,
}

impl BinaryOp {
    /// Each of them, in the order of the variants.
    pub const ALL: [BinaryOp; 19] = [
        BinaryOp::Add,
        BinaryOp::Sub,
        BinaryOp::Mul,
        BinaryOp::Div,
        BinaryOp::Rem,
        BinaryOp::BitAnd,
        BinaryOp::BitOr,
        BinaryOp::BitXor,
        BinaryOp::And,
        BinaryOp::Or,
        BinaryOp::Eq,
        BinaryOp::Ne,
        BinaryOp::Lt,
        BinaryOp::Le,
        BinaryOp::Gt,
        BinaryOp::Ge,
        BinaryOp::Min,
        BinaryOp::Max,
        BinaryOp::Pow,
    ];

    /// As written: an infix sign, or the name of a call (`min`, `max`, `pow`).
    pub fn name(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::Min => "min",
            BinaryOp::Max => "max",
            BinaryOp::Pow => "pow",
        }
    }

    /// Whether it is one of `== != < <= > >=`.
    pub fn is_comparison(self) -> bool {
        matches!(self, BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge)
    }

    /// Gives `bool` whatever its operands are.
    pub fn is_predicate(self) -> bool {
        self.is_comparison() || matches!(self, BinaryOp::And | BinaryOp::Or)
    }
}

/// Operators of one operand; the result has its type. The math functions are for floats, `abs` for signed
/// integers, too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "`name` says how each is written")]
pub enum UnaryOp {
    Neg,
    /// Logical not of a `bool`.
    Not,
    Exp,
    Log,
    Sqrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Erf,
    Log10,
    /// The largest integer that is not larger.
    Floor,
    Ceil,
    /// Toward zero.
    Trunc,
    /// To the nearest integer, halves away from zero.
    Round,
    /// Of floats and signed integers, where that of the least value is itself.
    Abs,
}

impl UnaryOp {
    /// The math functions, which are written as calls.
    pub const FUNCTIONS: [UnaryOp; 19] = [
        UnaryOp::Exp,
        UnaryOp::Log,
        UnaryOp::Sqrt,
        UnaryOp::Sin,
        UnaryOp::Cos,
        UnaryOp::Tan,
        UnaryOp::Asin,
        UnaryOp::Acos,
        UnaryOp::Atan,
        UnaryOp::Sinh,
        UnaryOp::Cosh,
        UnaryOp::Tanh,
        UnaryOp::Erf,
        UnaryOp::Log10,
        UnaryOp::Floor,
        UnaryOp::Ceil,
        UnaryOp::Trunc,
        UnaryOp::Round,
        UnaryOp::Abs,
    ];

    /// As written: a sign, or the name of a call.
    pub fn name(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Not => "!",
            UnaryOp::Exp => "exp",
            UnaryOp::Log => "log",
            UnaryOp::Sqrt => "sqrt",
            UnaryOp::Sin => "sin",
            UnaryOp::Cos => "cos",
            UnaryOp::Tan => "tan",
            UnaryOp::Asin => "asin",
            UnaryOp::Acos => "acos",
            UnaryOp::Atan => "atan",
            UnaryOp::Sinh => "sinh",
            UnaryOp::Cosh => "cosh",
            UnaryOp::Tanh => "tanh",
            UnaryOp::Erf => "erf",
            UnaryOp::Log10 => "log10",
            UnaryOp::Floor => "floor",
            UnaryOp::Ceil => "ceil",
            UnaryOp::Trunc => "trunc",
            UnaryOp::Round => "round",
            UnaryOp::Abs => "abs",
        }
    }
}

/// A commutative operation of one scalar slot of a builder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "each is the binary operator of its name")]
pub enum ReduceOp {
    Add,
    Mul,
    Min,
    Max,
    /// Integers and `bool`; the identity is all ones.
    BitAnd,
    /// Integers and `bool`; the identity is zero.
    BitOr,
    /// Integers and `bool`; the identity is zero.
    BitXor,
}

impl ReduceOp {
    /// Each of them, in the order of the variants.
    pub const ALL: [ReduceOp; 7] = [
        ReduceOp::Add,
        ReduceOp::Mul,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::BitAnd,
        ReduceOp::BitOr,
        ReduceOp::BitXor,
    ];

    /// The operator that combines two values of the slot.
    pub fn binary(self) -> BinaryOp {
        match self {
            ReduceOp::Add => BinaryOp::Add,
            ReduceOp::Mul => BinaryOp::Mul,
            ReduceOp::Min => BinaryOp::Min,
            ReduceOp::Max => BinaryOp::Max,
            ReduceOp::BitAnd => BinaryOp::BitAnd,
            ReduceOp::BitOr => BinaryOp::BitOr,
            ReduceOp::BitXor => BinaryOp::BitXor,
        }
    }
}

/// A binop of a whole struct, which takes part in it as one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StructOp {
    /// `{bool, T}`, where `T` is a byte vector or a float: the lesser of the values that are there. Byte vectors are in
    /// dictmergers only, where there is memory for them.
    ///
    /// Floats are merged as DataFusion's grouped `min` does: from the largest finite number on, and what is not ordered
    /// with a NaN takes its place, so that their order matters.
    Least,
    /// The greater one; floats are merged from the least finite number on.
    Greatest,
    /// `{count, mean, m2}`, or `{count, mean of x, m2 of x, mean of y, m2 of y, c}`, all `f64`: the statistics of the
    /// rows of both, by the method of Welford and Chan, which does not cancel. `m2` is the sum of the squares of the
    /// distances from the mean, `c` that of their products. One row is `{1, x, 0}`, or `{1, x, 0, y, 0, 0}`.
    Moments,
    /// `{bool, A, ..}`: of the structs whose first field holds the first one that is merged, as it is. Fields are
    /// scalars, structs and, in dictmergers, byte vectors.
    First,
    /// The last one.
    Last,
    /// `{bool, K, ..}`: the one with the least second field, the first of equal ones. One with a NaN there, which has
    /// no order, is taken only where there is none before it.
    LeastBy,
    /// The one with the greatest second field, the first of equal ones.
    GreatestBy,
    /// The one with the greatest second field, the last of equal ones.
    LastBy,
}

impl StructOp {
    /// Each of them, in the order of the variants.
    pub const ALL: [StructOp; 8] = [
        StructOp::Least,
        StructOp::Greatest,
        StructOp::Moments,
        StructOp::First,
        StructOp::Last,
        StructOp::LeastBy,
        StructOp::GreatestBy,
        StructOp::LastBy,
    ];

    /// The keyword, as written in a builder's type.
    pub fn name(self) -> &'static str {
        match self {
            StructOp::Least => "least",
            StructOp::Greatest => "greatest",
            StructOp::Moments => "moments",
            StructOp::First => "first",
            StructOp::Last => "last",
            StructOp::LeastBy => "least_by",
            StructOp::GreatestBy => "greatest_by",
            StructOp::LastBy => "last_by",
        }
    }

    /// How the binop takes one of two structs whole, if it does.
    pub fn choice(self) -> Option<Choice> {
        match self {
            StructOp::Least | StructOp::Greatest | StructOp::Moments => None,
            StructOp::First => Some(Choice::First),
            StructOp::Last => Some(Choice::Second),
            StructOp::LeastBy => Some(Choice::SecondIf(BinaryOp::Lt)),
            StructOp::GreatestBy => Some(Choice::SecondIf(BinaryOp::Gt)),
            StructOp::LastBy => Some(Choice::SecondIf(BinaryOp::Ge)),
        }
    }
}

/// Which of two structs is taken that are both there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The one that was merged before.
    First,
    /// The other one.
    Second,
    /// The other one if its second field compares so with that of the first.
    SecondIf(BinaryOp),
}

/// The binop of a builder: one for every scalar in the value, or one a field of a struct.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum MergeOp {
    /// One for every scalar of the value.
    All(ReduceOp),
    /// One for each field of a struct, in order.
    Fields(Arc<[MergeOp]>),
    /// One for the struct as a whole.
    Struct(StructOp),
}

impl MergeOp {
    /// The binop of field `index` of a struct value; that of the struct if its fields have none of their own.
    pub fn field(&self, index: usize) -> MergeOp {
        match self {
            MergeOp::All(op) => MergeOp::All(*op),
            MergeOp::Fields(fields) => fields[index].clone(),
            MergeOp::Struct(op) => MergeOp::Struct(*op),
        }
    }
}

impl fmt::Display for MergeOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeOp::All(op) => f.write_str(op.binary().name()),
            MergeOp::Struct(op) => f.write_str(op.name()),
            MergeOp::Fields(fields) => {
                f.write_str("{")?;
                for (i, op) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{op}")?;
                }
                f.write_str("}")
            }
        }
    }
}
