//! Types of the language: `int`, `float`, `void`, matrices of any rank, and the implicit `range`.
//!
//! `Display` prints a type as one writes it: `matrix<float>[2,?]`.

use std::fmt;
use std::sync::Arc;

/// The element type of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Elem {
    Int,
    Float,
}

/// A size of a matrix: known, or `?`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dim {
    Known(i64),
    Open,
}

impl Dim {
    pub(crate) fn known(self) -> Option<i64> {
        match self {
            Dim::Known(size) => Some(size),
            Dim::Open => None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    Int,
    Float,
    Void,
    /// Of `a...b`; no variable has it.
    Range,
    Matrix(Elem, Arc<[Dim]>),
    /// Of what was refused already; it fits everything, so that one mistake is reported once.
    Wrong,
}

impl Type {
    pub(crate) fn scalar(elem: Elem) -> Type {
        match elem {
            Elem::Int => Type::Int,
            Elem::Float => Type::Float,
        }
    }

    /// The element type of a scalar seen as an element.
    pub(crate) fn as_elem(&self) -> Option<Elem> {
        match self {
            Type::Int => Some(Elem::Int),
            Type::Float => Some(Elem::Float),
            _ => None,
        }
    }

    pub(crate) fn as_matrix(&self) -> Option<(Elem, &Arc<[Dim]>)> {
        match self {
            Type::Matrix(elem, dims) => Some((*elem, dims)),
            _ => None,
        }
    }

    /// Whether a value of type `self` may go where `wanted` is: the same type, where `?` agrees with every size.
    pub(crate) fn agrees(&self, wanted: &Type) -> bool {
        match (self, wanted) {
            (Type::Wrong, _) | (_, Type::Wrong) => true,
            (Type::Matrix(a, from), Type::Matrix(b, to)) => {
                a == b && from.len() == to.len() && from.iter().zip(to.iter()).all(|(a, b)| joined(*a, *b).is_some())
            }
            (a, b) => a == b,
        }
    }
}

/// The size that two sizes have in common, if they can be equal.
pub(crate) fn joined(a: Dim, b: Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Open, other) | (other, Dim::Open) => Some(other),
        (Dim::Known(x), Dim::Known(y)) => (x == y).then_some(a),
    }
}

/// How many elements a matrix of these sizes has. `None` if that is open or does not fit 64 bits.
pub(crate) fn elements(dims: &[Dim]) -> Option<i64> {
    let known: Option<Vec<i64>> = dims.iter().map(|dim| dim.known()).collect();
    let known = known?;
    // An empty matrix has no elements, however large its other sizes.
    if known.contains(&0) {
        return Some(0);
    }
    known.into_iter().try_fold(1i64, |product, size| product.checked_mul(size))
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Elem::Int => "int",
            Elem::Float => "float",
        })
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Known(size) => write!(f, "{size}"),
            Dim::Open => f.write_str("?"),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Int => f.write_str("int"),
            Type::Float => f.write_str("float"),
            Type::Void => f.write_str("void"),
            Type::Range => f.write_str("range"),
            Type::Wrong => f.write_str("?"),
            Type::Matrix(elem, dims) => {
                write!(f, "matrix<{elem}>[")?;
                for (i, dim) in dims.iter().enumerate() {
                    write!(f, "{}{dim}", if i > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(dims: &[Dim]) -> Type {
        Type::Matrix(Elem::Float, dims.into())
    }

    #[test]
    fn open_sizes_agree_with_all() {
        let open = matrix(&[Dim::Open, Dim::Known(3)]);
        assert!(matrix(&[Dim::Known(2), Dim::Known(3)]).agrees(&open));
        assert!(!matrix(&[Dim::Known(2), Dim::Known(4)]).agrees(&open));
        assert!(!matrix(&[Dim::Known(3)]).agrees(&open));
        assert_eq!(open.to_string(), "matrix<float>[?,3]");
    }

    #[test]
    fn counts_of_elements() {
        assert_eq!(elements(&[Dim::Known(2), Dim::Known(3)]), Some(6));
        assert_eq!(elements(&[Dim::Known(i64::MAX), Dim::Known(0)]), Some(0));
        assert_eq!(elements(&[Dim::Known(i64::MAX), Dim::Known(2)]), None);
        assert_eq!(elements(&[Dim::Open]), None);
    }
}
