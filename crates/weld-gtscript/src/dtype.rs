//! The types of values, and which type an operation has: NumPy's promotion.
//!
//! Literals and externals are weak, as Python's numbers are beside NumPy's arrays: `float32 field * 0.5` is `float32`,
//! and `int32 field + 1` is `int32`, but `int32 field * 0.5` is `float64`. Where nothing else says, they are 64 bits
//! wide.

use weld_core::ty::{ScalarKind, Type};

/// The type of a field's or a parameter's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dtype {
    Bool,
    Int32,
    Int64,
    Float32,
    Float64,
}

impl Dtype {
    pub fn parse(name: &str) -> Option<Dtype> {
        Some(match name {
            "bool" => Dtype::Bool,
            "int32" => Dtype::Int32,
            "int64" | "int" => Dtype::Int64,
            "float32" => Dtype::Float32,
            "float64" | "float" => Dtype::Float64,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::Int32 => "int32",
            Dtype::Int64 => "int64",
            Dtype::Float32 => "float32",
            Dtype::Float64 => "float64",
        }
    }

    pub fn kind(self) -> ScalarKind {
        match self {
            Dtype::Bool => ScalarKind::Bool,
            Dtype::Int32 => ScalarKind::I32,
            Dtype::Int64 => ScalarKind::I64,
            Dtype::Float32 => ScalarKind::F32,
            Dtype::Float64 => ScalarKind::F64,
        }
    }

    pub fn of_kind(kind: ScalarKind) -> Option<Dtype> {
        Some(match kind {
            ScalarKind::Bool => Dtype::Bool,
            ScalarKind::I32 => Dtype::Int32,
            ScalarKind::I64 => Dtype::Int64,
            ScalarKind::F32 => Dtype::Float32,
            ScalarKind::F64 => Dtype::Float64,
            _ => return None,
        })
    }

    pub fn ty(self) -> Type {
        Type::Scalar(self.kind())
    }

    pub fn is_float(self) -> bool {
        matches!(self, Dtype::Float32 | Dtype::Float64)
    }
}

/// The type of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ty {
    Is(Dtype),
    /// Of constants: takes the width of what it meets.
    WeakInt,
    WeakFloat,
}

impl Ty {
    /// The type where nothing else decides.
    pub fn default(self) -> Dtype {
        match self {
            Ty::Is(dtype) => dtype,
            Ty::WeakInt => Dtype::Int64,
            Ty::WeakFloat => Dtype::Float64,
        }
    }

    /// The type that holds the values of both.
    pub fn join(self, other: Ty) -> Ty {
        use Dtype::{Bool, Float32, Float64, Int32, Int64};
        match (self, other) {
            (a, b) if a == b => a,
            (Ty::WeakInt, Ty::WeakFloat) | (Ty::WeakFloat, Ty::WeakInt) => Ty::WeakFloat,
            (Ty::Is(Bool), other) | (other, Ty::Is(Bool)) => Ty::Is(other.default()),
            (Ty::WeakInt, other) | (other, Ty::WeakInt) => other,
            (Ty::WeakFloat, Ty::Is(Float32)) | (Ty::Is(Float32), Ty::WeakFloat) => Ty::Is(Float32),
            (Ty::WeakFloat, _) | (_, Ty::WeakFloat) => Ty::Is(Float64),
            (Ty::Is(Int32 | Int64), Ty::Is(Int32 | Int64)) => Ty::Is(Int64),
            _ => Ty::Is(Float64),
        }
    }

    /// The type of `+ - * // % **` and unary `-`: booleans count.
    pub fn arithmetic(self) -> Ty {
        if self == Ty::Is(Dtype::Bool) { Ty::Is(Dtype::Int64) } else { self }
    }

    /// The type of `/` and of the functions of floats.
    pub fn floating(self) -> Ty {
        match self {
            Ty::WeakInt => Ty::WeakFloat,
            Ty::Is(Dtype::Bool | Dtype::Int32 | Dtype::Int64) => Ty::Is(Dtype::Float64),
            other => other,
        }
    }

    pub fn is_float(self) -> bool {
        self.default().is_float()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_take_the_width_of_what_they_meet() {
        let is = |dtype| Ty::Is(dtype);
        assert_eq!(Ty::WeakFloat.join(is(Dtype::Float32)), is(Dtype::Float32));
        assert_eq!(Ty::WeakInt.join(is(Dtype::Int32)), is(Dtype::Int32));
        assert_eq!(Ty::WeakFloat.join(is(Dtype::Int32)), is(Dtype::Float64));
        assert_eq!(is(Dtype::Int32).join(is(Dtype::Float32)), is(Dtype::Float64));
        assert_eq!(is(Dtype::Bool).join(Ty::WeakInt), is(Dtype::Int64));
        assert_eq!(is(Dtype::Bool).arithmetic(), is(Dtype::Int64));
        assert_eq!(is(Dtype::Int32).floating(), is(Dtype::Float64));
    }
}
