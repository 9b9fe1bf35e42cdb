//! Order and equality of values: `< <= > >= == !=` of the language, and the keys of dictionaries.
//!
//! Structs compare field by field, vectors lexicographically with a shorter prefix less; the first unequal part
//! decides, and if that part is a NaN then nothing but `!=` holds: `{NaN, 1} < {2.0, 0}` is false, `[1.0, NaN] < [2.0]`
//! is true. Keys are ordered totally: -0.0 is 0.0, and all NaNs are one key, the largest.

use std::cmp::Ordering;

use super::value::Value;
use crate::ir::Literal;

/// The order of two values of one type, `None` where a NaN decides or where there is no order.
pub fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) => compare_literals(*a, *b),
        (Value::Vec(a), Value::Vec(b)) => lexicographic(a, b, compare),
        (Value::Struct(a), Value::Struct(b)) => lexicographic(a, b, compare),
        _ => None,
    }
}

/// The order of two scalars of one kind, `None` if one is NaN.
pub fn compare_literals(a: Literal, b: Literal) -> Option<Ordering> {
    match (a, b) {
        (Literal::F32(a), Literal::F32(b)) => a.partial_cmp(&b),
        (Literal::F64(a), Literal::F64(b)) => a.partial_cmp(&b),
        _ => Some(a.bits().cmp(&b.bits())),
    }
}

fn lexicographic(a: &[Value], b: &[Value], order: impl Fn(&Value, &Value) -> Option<Ordering>) -> Option<Ordering> {
    for (a, b) in a.iter().zip(b) {
        match order(a, b) {
            Some(Ordering::Equal) => {}
            decided => return decided,
        }
    }
    Some(a.len().cmp(&b.len()))
}

/// A dictionary key: a value in canonical form (no -0.0, one NaN) under a total order.
#[derive(Clone, Debug)]
pub struct Key(Value);

impl Key {
    /// The key that a value is, the same for -0.0 and 0.0, and for all NaNs.
    pub fn new(value: &Value) -> Key {
        Key(canonical(value))
    }

    /// The value in canonical form.
    pub fn value(&self) -> &Value {
        &self.0
    }
}

fn canonical(value: &Value) -> Value {
    match value {
        Value::Scalar(Literal::F32(v)) => Value::Scalar(Literal::F32(if v.is_nan() { f32::NAN } else { v + 0.0 })),
        Value::Scalar(Literal::F64(v)) => Value::Scalar(Literal::F64(if v.is_nan() { f64::NAN } else { v + 0.0 })),
        Value::Struct(fields) => Value::structure(fields.iter().map(canonical)),
        // Bytes and integers are canonical already: keep sharing them.
        Value::Vec(items) if items.first().is_some_and(needs_canonical) => Value::vec(items.iter().map(canonical)),
        _ => value.clone(),
    }
}

fn needs_canonical(item: &Value) -> bool {
    match item {
        Value::Scalar(literal) => literal.kind().is_float(),
        _ => true,
    }
}

fn total(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) => compare_literals(*a, *b).unwrap_or_else(|| is_nan(*a).cmp(&is_nan(*b))),
        (Value::Vec(a), Value::Vec(b)) => total_lexicographic(a, b),
        (Value::Struct(a), Value::Struct(b)) => total_lexicographic(a, b),
        // Keys of dictionaries are no dictionaries, but the order must be total all the same.
        (Value::Dict(a), Value::Dict(b)) => {
            for ((ka, va), (kb, vb)) in a.iter().zip(b.iter()) {
                let order = total(ka, kb).then_with(|| total(va, vb));
                if order != Ordering::Equal {
                    return order;
                }
            }
            a.len().cmp(&b.len())
        }
        _ => Ordering::Equal,
    }
}

fn total_lexicographic(a: &[Value], b: &[Value]) -> Ordering {
    lexicographic(a, b, |a, b| Some(total(a, b))).unwrap_or(Ordering::Equal)
}

fn is_nan(literal: Literal) -> bool {
    match literal {
        Literal::F32(v) => v.is_nan(),
        Literal::F64(v) => v.is_nan(),
        _ => false,
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        total(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_unequal_part_decides() {
        let a = Value::vec([Value::f64(1.0), Value::f64(f64::NAN)]);
        assert_eq!(compare(&a, &Value::vec([Value::f64(2.0)])), Some(Ordering::Less));
        assert_eq!(compare(&a, &a), None);
        assert_eq!(compare(&Value::vec([]), &a), Some(Ordering::Less));
    }

    #[test]
    fn keys_fold_zeros_and_nans() {
        let key = |v: f64| Key::new(&Value::f64(v));
        assert_eq!(key(-0.0), key(0.0));
        assert_eq!(key(f64::NAN), key(-f64::NAN));
        assert!(key(f64::NAN) > key(f64::INFINITY));
        assert_eq!(*key(-0.0).value(), Value::f64(0.0));
    }
}
