//! Sizes and strides: numbers that are known, or products of a number and expressions.

use weld_core::ir::{Expr, build};

/// `known * open[0] * open[1] * ..`; a stride may be 0.
#[derive(Clone, Debug)]
pub struct Size {
    known: u64,
    open: Vec<Expr>,
}

impl Size {
    pub fn known(size: u64) -> Size {
        Size { known: size, open: Vec::new() }
    }

    /// A size that is known at run time only. The expression is used several times: give a variable, or the length of
    /// one.
    pub fn open(size: Expr) -> Size {
        Size { known: 1, open: vec![size] }
    }

    pub fn as_known(&self) -> Option<u64> {
        (self.open.is_empty() || self.known == 0).then_some(self.known)
    }

    pub fn is_zero(&self) -> bool {
        self.known == 0
    }

    pub fn is_one(&self) -> bool {
        self.as_known() == Some(1)
    }

    /// The product. One beyond 64 bits is as large as can be.
    pub fn times(&self, other: &Size) -> Size {
        let open = self.open.iter().chain(&other.open).cloned().collect();
        Size { known: self.known.saturating_mul(other.known), open }
    }

    /// The number of elements of an array.
    pub fn product<'a>(sizes: impl IntoIterator<Item = &'a Size>) -> Size {
        sizes.into_iter().fold(Size::known(1), |product, size| size.times(&product))
    }

    /// Whether the two are equal whatever the expressions give. `false` may be wrong.
    pub fn same(&self, other: &Size) -> bool {
        if self.is_zero() || other.is_zero() {
            return self.is_zero() && other.is_zero();
        }
        let mut rest: Vec<&Expr> = other.open.iter().collect();
        self.known == other.known
            && self.open.len() == rest.len()
            && self.open.iter().all(|e| match rest.iter().position(|other| e.same_as(other)) {
                Some(at) => {
                    rest.swap_remove(at);
                    true
                }
                None => false,
            })
    }

    /// The `i64`.
    pub fn expr(&self) -> Expr {
        let known = build::i64(i64::try_from(self.known).unwrap_or(i64::MAX));
        match self.open.split_first() {
            None => known,
            _ if self.known == 0 => known,
            Some((first, rest)) => {
                let product = rest.iter().fold(first.clone(), |product, e| build::mul(product, e.clone()));
                if self.known == 1 { product } else { build::mul(product, known) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weld_core::ir::Names;
    use weld_core::ty::Type;

    #[test]
    fn products_are_compared_without_their_order() {
        let mut names = Names::default();
        let [n, k] = ["n", "k"].map(|name| Size::open(build::param(&mut names, name, Type::I64)));
        assert!(n.times(&k).same(&k.times(&n)));
        assert!(!n.times(&n).same(&n.times(&k)));
        assert!(Size::known(0).times(&n).same(&Size::known(0)));
        assert_eq!(Size::known(u64::MAX).times(&Size::known(2)).as_known(), Some(u64::MAX));
    }
}
