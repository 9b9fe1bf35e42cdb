//! Sizes, indices and conditions: numbers where they are known, else expressions.

use weld_core::ir::{Expr, build};

/// An `i64`, known or not.
#[derive(Clone, Debug)]
pub(crate) enum Int {
    Known(i64),
    Expr(Expr),
}

impl Int {
    pub(crate) fn expr(&self) -> Expr {
        match self {
            Int::Known(value) => build::i64(*value),
            Int::Expr(expr) => expr.clone(),
        }
    }

    pub(crate) fn known(&self) -> Option<i64> {
        match self {
            Int::Known(value) => Some(*value),
            Int::Expr(_) => None,
        }
    }

    pub(crate) fn add(&self, other: &Int) -> Int {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => Int::Known(a.saturating_add(*b)),
            (Int::Known(0), other) | (other, Int::Known(0)) => other.clone(),
            (a, b) => Int::Expr(build::add(a.expr(), b.expr())),
        }
    }

    pub(crate) fn plus(&self, other: i64) -> Int {
        self.add(&Int::Known(other))
    }

    pub(crate) fn sub(&self, other: &Int) -> Int {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => Int::Known(a.saturating_sub(*b)),
            (a, Int::Known(0)) => a.clone(),
            (a, b) => Int::Expr(build::sub(a.expr(), b.expr())),
        }
    }

    pub(crate) fn mul(&self, other: &Int) -> Int {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => Int::Known(a.saturating_mul(*b)),
            (Int::Known(1), other) | (other, Int::Known(1)) => other.clone(),
            (Int::Known(0), _) | (_, Int::Known(0)) => Int::Known(0),
            (a, b) => Int::Expr(build::mul(a.expr(), b.expr())),
        }
    }

    /// Whether both are the same number, as far as that is known.
    pub(crate) fn same(&self, other: &Int) -> bool {
        match (self, other) {
            (Int::Known(a), Int::Known(b)) => a == b,
            (Int::Expr(a), Int::Expr(b)) => a.same_as(b),
            _ => false,
        }
    }

    pub(crate) fn min(&self, other: &Int) -> Int {
        match (self, other) {
            _ if self.same(other) => self.clone(),
            (Int::Known(a), Int::Known(b)) => Int::Known(*a.min(b)),
            (a, b) => Int::Expr(build::min(a.expr(), b.expr())),
        }
    }

    pub(crate) fn max(&self, other: &Int) -> Int {
        match (self, other) {
            _ if self.same(other) => self.clone(),
            (Int::Known(a), Int::Known(b)) => Int::Known(*a.max(b)),
            (a, b) => Int::Expr(build::max(a.expr(), b.expr())),
        }
    }

    /// `self <= other`.
    pub(crate) fn le(&self, other: &Int) -> Cond {
        match (self, other) {
            _ if self.same(other) => Cond::Known(true),
            (Int::Known(a), Int::Known(b)) => Cond::Known(a <= b),
            (a, b) => Cond::Expr(build::le(a.expr(), b.expr())),
        }
    }

    pub(crate) fn lt(&self, other: &Int) -> Cond {
        self.plus(1).le(other)
    }
}

/// A `bool`, known or not.
#[derive(Clone, Debug)]
pub(crate) enum Cond {
    Known(bool),
    Expr(Expr),
}

impl Cond {
    /// Both; the second is looked at where the first holds.
    pub(crate) fn and(self, other: Cond) -> Cond {
        match (self, other) {
            (Cond::Known(true), other) | (other, Cond::Known(true)) => other,
            (Cond::Known(false), _) => Cond::Known(false),
            (Cond::Expr(a), b) => Cond::Expr(build::and(a, b.expr())),
        }
    }

    /// Whether both are the same condition, as far as that is known.
    pub(crate) fn same(&self, other: &Cond) -> bool {
        match (self, other) {
            (Cond::Known(a), Cond::Known(b)) => a == b,
            (Cond::Expr(a), Cond::Expr(b)) => a.same_as(b),
            _ => false,
        }
    }

    pub(crate) fn or(self, other: Cond) -> Cond {
        match (self, other) {
            (Cond::Known(false), other) | (other, Cond::Known(false)) => other,
            (Cond::Known(true), _) => Cond::Known(true),
            (Cond::Expr(a), b) => Cond::Expr(build::or(a, b.expr())),
        }
    }

    pub(crate) fn expr(&self) -> Expr {
        match self {
            Cond::Known(value) => build::bool(*value),
            Cond::Expr(expr) => expr.clone(),
        }
    }

    /// One of two numbers.
    pub(crate) fn choose(&self, a: &Int, b: &Int) -> Int {
        match (self, a, b) {
            (Cond::Known(true), a, _) => a.clone(),
            (Cond::Known(false), _, b) => b.clone(),
            _ if a.same(b) => a.clone(),
            (Cond::Expr(cond), a, b) => Int::Expr(build::select(cond.clone(), a.expr(), b.expr())),
        }
    }
}
