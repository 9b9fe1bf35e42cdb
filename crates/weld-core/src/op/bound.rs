//! How large integers get at most: what lets arithmetic be done in fewer bits than its type has.
//!
//! A [`Bound`] is made beside an expression, from its parts up. Wherever the parts stay below theirs, the whole does:
//!
//! ```text
//! |x + y|, |x - y|              <=  |x| + |y|
//! |x * y|                       <=  |x| * |y|
//! |x / y|, |x % y|, a choice    <=  the larger of |x| and |y|        (where there is a quotient)
//! |-x|                           =  |x|
//! ```
//!
//! How large the values of columns are is known when they are there. Until then they are leaves `L`, of which
//! [`Evaluate`] says what they are: `opt` makes an expression in floats of a bound, which is tested before a loop;
//! `weld-codegen` makes instructions over 64 bits of it, which are executed after a strip of rows. Either must not come
//! out smaller than the exact bound: sums and products saturate or are rounded without falling below the limits that
//! they are compared with.
//!
//! What is measured of a leaf is `magnitude(x)`, the bits of `x` or, if it is negative, of `-x - 1`. Magnitudes are
//! combined by OR; a magnitude `m` promises `|x| <= m + 1`.

use std::rc::Rc;

use super::BinaryOp;
use crate::ir::deep;
use crate::ty::ScalarKind;

/// The largest magnitude of an integer expression over leaves `L`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bound<L> {
    /// What is known later.
    Leaf(L),
    /// So much.
    Constant(u64),
    /// As much as both together.
    Sum(Rc<Bound<L>>, Rc<Bound<L>>),
    /// As much as one times the other.
    Product(Rc<Bound<L>>, Rc<Bound<L>>),
    /// As much as the larger one.
    Larger(Rc<Bound<L>>, Rc<Bound<L>>),
}

/// Turns a bound into something that can be compared with a limit.
pub trait Evaluate<L> {
    /// A number, or what computes one.
    type Value;
    /// Why that cannot be made.
    type Error;

    /// The bound of a leaf.
    fn leaf(&mut self, leaf: &L) -> Result<Self::Value, Self::Error>;
    /// A number.
    fn constant(&mut self, value: u64) -> Result<Self::Value, Self::Error>;
    /// `a + b`, or the largest number.
    fn sum(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// `a * b`, or the largest number.
    fn product(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
    /// The larger of both.
    fn larger(&mut self, a: Self::Value, b: Self::Value) -> Result<Self::Value, Self::Error>;
}

/// Whether an integer fits 64 bits with its sign.
pub fn fits_64_bits(value: i128) -> bool {
    i64::try_from(value).is_ok()
}

/// Whether all integers of a kind fit 64 bits with their sign.
pub fn kind_fits_64_bits(kind: ScalarKind) -> bool {
    kind.is_integer() && (kind.bits() < 64 || kind == ScalarKind::I64)
}

impl<L> Bound<L> {
    /// Of a literal; `None` if it takes more than 64 bits.
    pub fn of_literal(value: i128) -> Option<Bound<L>> {
        fits_64_bits(value).then(|| Bound::Constant(value.unsigned_abs() as u64))
    }

    /// Of the integers of a kind, where these are short enough for the bound to be of use: up to 32 bits.
    pub fn of_kind(kind: ScalarKind) -> Option<Bound<L>> {
        (!kind.is_float() && kind.bits() <= 32).then(|| Bound::Constant(1 << kind.bits()))
    }

    /// Of an operator over operands with these bounds; `None` if nothing follows from them.
    pub fn of_operator(op: BinaryOp, a: Bound<L>, b: Bound<L>) -> Option<Bound<L>> {
        let (a, b) = (Rc::new(a), Rc::new(b));
        Some(match op {
            BinaryOp::Add | BinaryOp::Sub => Bound::Sum(a, b),
            BinaryOp::Mul => Bound::Product(a, b),
            BinaryOp::Div | BinaryOp::Rem | BinaryOp::Min | BinaryOp::Max => Bound::Larger(a, b),
            _ => return None,
        })
    }

    /// Of a value that is one of two.
    pub fn of_choice(a: Bound<L>, b: Bound<L>) -> Bound<L> {
        Bound::Larger(Rc::new(a), Rc::new(b))
    }

    /// The bound as `evaluate` makes it; left operands first.
    pub fn evaluate<E: Evaluate<L>>(&self, evaluate: &mut E) -> Result<E::Value, E::Error> {
        let both =
            |evaluate: &mut E, a: &Bound<L>, b: &Bound<L>| deep(|| Ok((a.evaluate(evaluate)?, b.evaluate(evaluate)?)));
        match self {
            Bound::Leaf(leaf) => evaluate.leaf(leaf),
            Bound::Constant(value) => evaluate.constant(*value),
            Bound::Sum(a, b) => {
                let (a, b) = both(evaluate, a, b)?;
                evaluate.sum(a, b)
            }
            Bound::Product(a, b) => {
                let (a, b) = both(evaluate, a, b)?;
                evaluate.product(a, b)
            }
            Bound::Larger(a, b) => {
                let (a, b) = both(evaluate, a, b)?;
                evaluate.larger(a, b)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Over the numbers themselves.
    struct Numbers<'a>(&'a [u64]);

    impl Evaluate<usize> for Numbers<'_> {
        type Value = u64;
        type Error = Infallible;

        fn leaf(&mut self, leaf: &usize) -> Result<u64, Infallible> {
            Ok(self.0[*leaf])
        }

        fn constant(&mut self, value: u64) -> Result<u64, Infallible> {
            Ok(value)
        }

        fn sum(&mut self, a: u64, b: u64) -> Result<u64, Infallible> {
            Ok(a.saturating_add(b))
        }

        fn product(&mut self, a: u64, b: u64) -> Result<u64, Infallible> {
            Ok(a.saturating_mul(b))
        }

        fn larger(&mut self, a: u64, b: u64) -> Result<u64, Infallible> {
            Ok(a.max(b))
        }
    }

    fn at(bound: &Bound<usize>, leaves: &[i128]) -> u64 {
        let leaves: Vec<u64> = leaves.iter().map(|leaf| leaf.unsigned_abs() as u64).collect();
        match bound.evaluate(&mut Numbers(&leaves)) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    fn holds(result: i128, bound: u64) -> bool {
        bound == u64::MAX || result.unsigned_abs() <= bound.into()
    }

    const VALUES: [i128; 9] =
        [0, 1, -1, 7, -128, u32::MAX as i128, i64::MAX as i128, i64::MIN as i128 + 1, i64::MIN as i128];

    #[test]
    fn results_stay_within_bounds() {
        let mut bounded = Vec::new();
        for op in BinaryOp::ALL {
            let Some(bound) = Bound::of_operator(op, Bound::Leaf(0), Bound::Leaf(1)) else { continue };
            bounded.push(op);
            for (a, b) in VALUES.into_iter().flat_map(|a| VALUES.map(|b| (a, b))) {
                let result = match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div | BinaryOp::Rem if b == 0 => continue,
                    BinaryOp::Div => a / b,
                    BinaryOp::Rem => a % b,
                    BinaryOp::Min => a.min(b),
                    BinaryOp::Max => a.max(b),
                    other => panic!("a bound of {other:?}"),
                };
                assert!(holds(result, at(&bound, &[a, b])), "{a} {} {b}", op.name());
            }
        }
        assert_eq!(bounded.len(), 7);
        let chosen = Bound::of_choice(Bound::Leaf(0), Bound::Leaf(1));
        assert!(VALUES.iter().all(|a| holds(*a, at(&chosen, &[*a, 3])) && holds(3, at(&chosen, &[*a, 3]))));
    }

    #[test]
    fn bounds_follow_from_the_parts() {
        // a * (100 - b), as decimals have it
        let less = Bound::of_operator(BinaryOp::Sub, Bound::Constant(100), Bound::Leaf(1)).expect("of a difference");
        let product = Bound::of_operator(BinaryOp::Mul, Bound::Leaf(0), less).expect("of a product");
        assert_eq!(at(&product, &[1000, -10]), 110_000);
        assert_eq!(at(&product, &[i128::from(i64::MAX), 10]), u64::MAX, "more than there are numbers");
    }

    #[test]
    fn literals_and_kinds_that_fit() {
        for value in VALUES {
            assert_eq!(Bound::of_literal(value), Some(Bound::<()>::Constant(value.unsigned_abs() as u64)));
            assert!(fits_64_bits(value));
        }
        for value in [i64::MAX as i128 + 1, i64::MIN as i128 - 1, i128::MAX, i128::MIN] {
            assert_eq!(Bound::<()>::of_literal(value), None);
            assert!(!fits_64_bits(value));
        }
        assert_eq!(Bound::of_kind(ScalarKind::U32), Some(Bound::<()>::Constant(1 << 32)));
        assert_eq!(Bound::<()>::of_kind(ScalarKind::I64), None);
        assert_eq!(Bound::<()>::of_kind(ScalarKind::F32), None);
        assert!(kind_fits_64_bits(ScalarKind::I64) && kind_fits_64_bits(ScalarKind::U32));
        assert!(!kind_fits_64_bits(ScalarKind::U64) && !kind_fits_64_bits(ScalarKind::F64));
    }
}
