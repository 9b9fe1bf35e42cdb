//! What variables hold: scalars, and matrices as flat data with a size for each dimension.

use weld_core::ir::{Expr, build};
use weld_core::ty::ScalarKind;
use weld_tensor::{Size, View};

use super::Lower;
use crate::types::{Dim, Elem, Type};

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar(Expr),
    Matrix(Matrix),
}

/// Row-major elements. A size may be known although the type leaves it open.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) elem: Elem,
    pub(crate) data: Expr,
    pub(crate) sizes: Vec<Size>,
}

impl Matrix {
    pub(crate) fn count(&self) -> Size {
        Size::product(&self.sizes)
    }

    pub(crate) fn whole(&self) -> View {
        View::whole(self.data.clone(), &self.sizes)
    }
}

pub(crate) fn scalar_kind(elem: Elem) -> ScalarKind {
    match elem {
        Elem::Int => ScalarKind::I32,
        Elem::Float => ScalarKind::F32,
    }
}

/// The value as a program's result, a branch or a loop holds it, for a variable of type `ty`: the data of a matrix of
/// rank 2 on is followed by the sizes that the type leaves open.
pub(super) fn packed(value: &Value, ty: &Type) -> Vec<Expr> {
    let matrix = match value {
        Value::Scalar(e) => return vec![e.clone()],
        Value::Matrix(matrix) => matrix,
    };
    let dims = ty.as_matrix().map_or(&[][..], |(_, dims)| &dims[..]);
    let open = dims.iter().zip(&matrix.sizes).filter(|(dim, _)| dims.len() > 1 && dim.known().is_none());
    std::iter::once(matrix.data.clone()).chain(open.map(|(_, size)| size.expr())).collect()
}

impl Lower<'_> {
    /// The value whose parts come in the order of [`packed`].
    pub(super) fn unpacked(&mut self, ty: &Type, parts: &mut dyn Iterator<Item = Expr>) -> Value {
        let mut next = || parts.next().unwrap_or_else(|| build::bool(false));
        let Some((elem, dims)) = ty.as_matrix() else { return Value::Scalar(next()) };
        let data = next();
        let size = |dim: &Dim| match dim {
            Dim::Known(size) => Size::known(*size as u64),
            Dim::Open if dims.len() == 1 => Size::open(self.flow.bind("n", build::len(data.clone()))),
            Dim::Open => Size::open(next()),
        };
        let sizes = dims.iter().map(size).collect();
        Value::Matrix(Matrix { elem, data, sizes })
    }
}
