//! Equality up to the names of bound variables; spans and annotations do not count.

use std::collections::HashMap;
use std::mem::discriminant;

use super::{Expr, ExprKind, Func, Iter, Program, Sym, deep};

impl Program {
    /// Whether two programs are the same but for the numbers and names of their symbols, spans and annotations.
    pub fn same_as(&self, other: &Program) -> bool {
        let params = |p: &Program| p.params.iter().map(|p| (p.ty.clone(), p.stream, p.known)).collect::<Vec<_>>();
        let syms = self.params.iter().map(|p| p.sym).zip(other.params.iter().map(|p| p.sym));
        params(self) == params(other) && same(&self.body, &other.body, &mut syms.collect())
    }
}

impl Expr {
    /// Whether two expressions of one program compute the same by the same steps: equal but for the names of the
    /// variables that they bind, spans and annotations.
    pub fn same_as(&self, other: &Expr) -> bool {
        same(self, other, &mut HashMap::new())
    }
}

/// `pairs` maps the symbols bound on the left to those bound on the right.
fn same(a: &Expr, b: &Expr, pairs: &mut HashMap<Sym, Sym>) -> bool {
    if a.ty != b.ty || discriminant(&a.kind) != discriminant(&b.kind) {
        return false;
    }
    let head = match (&a.kind, &b.kind) {
        (ExprKind::Literal(x), ExprKind::Literal(y)) => x == y,
        (ExprKind::Bytes(x), ExprKind::Bytes(y)) => x == y,
        (ExprKind::Var(x), ExprKind::Var(y)) => pairs.get(x).unwrap_or(x) == y,
        (ExprKind::Unary(x, _), ExprKind::Unary(y, _)) => x == y,
        (ExprKind::Binary(x, ..), ExprKind::Binary(y, ..)) => x == y,
        (ExprKind::Field(_, x), ExprKind::Field(_, y)) => x == y,
        (ExprKind::Lookup { checked: x, .. }, ExprKind::Lookup { checked: y, .. }) => x == y,
        (ExprKind::CUdf { name: x, .. }, ExprKind::CUdf { name: y, .. }) => x == y,
        (ExprKind::Intrinsic(x, _), ExprKind::Intrinsic(y, _)) => x == y,
        (ExprKind::Assert { message: x, raised: a, .. }, ExprKind::Assert { message: y, raised: b, .. }) => {
            x == y && a == b
        }
        (ExprKind::Let { bindings: x, .. }, ExprKind::Let { bindings: y, .. }) => {
            pairs.extend(x.iter().zip(y).map(|(x, y)| (x.sym, y.sym)));
            true
        }
        (ExprKind::Sort { compare: x, .. }, ExprKind::Sort { compare: y, .. })
        | (ExprKind::Iterate { step: x, .. }, ExprKind::Iterate { step: y, .. }) => same_params(x, y, pairs),
        (ExprKind::For { iter: i, func: x, .. }, ExprKind::For { iter: j, func: y, .. }) => {
            same_shape(i, j) && same_params(x, y, pairs)
        }
        _ => true,
    };
    head && {
        let (xs, ys) = (a.children(), b.children());
        xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| deep(|| same(x, y, pairs)))
    }
}

fn same_params(a: &Func, b: &Func, pairs: &mut HashMap<Sym, Sym>) -> bool {
    pairs.extend(a.params.iter().zip(&b.params).map(|(x, y)| (x.0, y.0)));
    a.params.len() == b.params.len() && a.params.iter().zip(&b.params).all(|(x, y)| x.1 == y.1)
}

/// Whether two iterators are built alike; their expressions are compared as children.
fn same_shape(a: &Iter, b: &Iter) -> bool {
    match (a, b) {
        (Iter::Zip(x), Iter::Zip(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_shape(x, y)),
        _ => discriminant(a) == discriminant(b),
    }
}
