//! Comparison of two results: exact, but for floats, which may be reassociated, and for the order of dictionaries.

use weld_core::interp::Value;
use weld_core::ir::Literal;

/// How two results are compared.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Relative tolerance of floats; `None` for the usual one.
    pub tolerance: Option<f64>,
    /// Vectors may come in any order.
    pub unordered: bool,
}

impl Rule {
    pub const USUAL: Rule = Rule { tolerance: None, unordered: false };
    /// Floats must agree but for NaN payloads.
    pub const EXACT: Rule = Rule { tolerance: Some(0.0), unordered: false };

    /// Whether the values are equal under this rule.
    pub fn equal(&self, a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Scalar(a), Value::Scalar(b)) => self.scalars(*a, *b),
            (Value::Simd(a), Value::Simd(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| self.scalars(*a, *b))
            }
            (Value::Vec(a), Value::Vec(b)) if self.unordered => self.unordered(a, b),
            (Value::Vec(a), Value::Vec(b)) => self.all(a, b),
            (Value::Struct(a), Value::Struct(b)) => self.all(a, b),
            (Value::Dict(a), Value::Dict(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b.iter()).all(|((ka, va), (kb, vb))| self.equal(ka, kb) && self.equal(va, vb))
            }
            _ => false,
        }
    }

    fn all(&self, a: &[Value], b: &[Value]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.equal(a, b))
    }

    fn unordered(&self, a: &[Value], b: &[Value]) -> bool {
        let mut rest: Vec<&Value> = b.iter().collect();
        a.len() == b.len()
            && a.iter().all(|a| {
                let found = rest.iter().position(|b| self.equal(a, b));
                found.map(|at| rest.swap_remove(at)).is_some()
            })
    }

    fn scalars(&self, a: Literal, b: Literal) -> bool {
        match (a, b) {
            (Literal::F32(a), Literal::F32(b)) => floats(a.into(), b.into(), self.tolerance.unwrap_or(1e-5)),
            (Literal::F64(a), Literal::F64(b)) => floats(a, b, self.tolerance.unwrap_or(1e-9)),
            _ => a == b,
        }
    }
}

fn floats(a: f64, b: f64, tolerance: f64) -> bool {
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    if a == b {
        return a != 0.0 || a.is_sign_negative() == b.is_sign_negative();
    }
    a.is_finite() && b.is_finite() && (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_close() {
        let equal = |a, b| Rule::USUAL.equal(&Value::f64(a), &Value::f64(b));
        assert!(equal(1.0, 1.0 + 1e-12));
        assert!(!equal(1.0, 1.0 + 1e-6));
        assert!(equal(f64::NAN, -f64::NAN));
        assert!(!equal(0.0, -0.0));
        assert!(!equal(f64::INFINITY, f64::MAX));
    }

    #[test]
    fn unordered_counts_repetitions() {
        let rule = Rule { unordered: true, ..Rule::USUAL };
        let v = |items: [i64; 3]| Value::vec(items.map(Value::i64));
        assert!(rule.equal(&v([1, 2, 2]), &v([2, 1, 2])));
        assert!(!rule.equal(&v([1, 2, 2]), &v([1, 1, 2])));
    }
}
