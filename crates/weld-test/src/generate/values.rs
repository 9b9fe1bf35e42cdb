//! Random values: zeros, extremes, NaN, empty vectors, and a few ordinary ones.

use weld_core::interp::{Value, scalar};
use weld_core::ir::Literal;
use weld_core::ty::{ScalarKind, Type};

use super::rng::Rng;

pub(super) fn literal(rng: &mut Rng, kind: ScalarKind) -> Literal {
    let small = Literal::I64(rng.below(12) as i64 - 3);
    match rng.below(10) {
        0..=6 => scalar::cast(small, kind),
        7 => extreme(rng, kind),
        8 => scalar::cast(Literal::I64(rng.number() as i64), kind),
        _ if kind.is_float() => scalar::cast(Literal::F64(rng.below(64) as f64 / 8.0 - 2.0), kind),
        _ => scalar::cast(Literal::I64(rng.below(1000) as i64), kind),
    }
}

fn extreme(rng: &mut Rng, kind: ScalarKind) -> Literal {
    if kind.is_float() {
        let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-310, f64::MAX, 0.1, 1e10];
        return scalar::cast(Literal::F64(rng.pick(&values)), kind);
    }
    let top = scalar::cast(Literal::I128(rng.pick(&[i128::MAX, i128::MIN])), kind);
    let minus_one = scalar::cast(Literal::I8(-1), kind);
    let min = Literal::I128(-1i128 << (kind.bits() - 1));
    rng.pick(&[top, minus_one, scalar::cast(min, kind)])
}

/// A value of a type without builders, vectors of about `len` elements.
pub(super) fn value(rng: &mut Rng, ty: &Type, len: usize) -> Value {
    match ty {
        Type::Scalar(kind) => Value::Scalar(literal(rng, *kind)),
        // Short strings lie in their views, with room for twelve bytes; longer ones elsewhere.
        Type::Vec(element) if ty.is_bytes() => {
            let len = rng.pick(&[0, 1, 3, 4, 7, 8, 11, 12, 13, 16, 40]);
            Value::vec((0..len).map(|_| value(rng, element, 0)).collect::<Vec<_>>())
        }
        Type::Vec(element) => {
            let len = if rng.one_in(5) { 0 } else { rng.below(len + 1) };
            Value::vec((0..len).map(|_| value(rng, element, 4)).collect::<Vec<_>>())
        }
        Type::Struct(fields) => Value::structure(fields.iter().map(|field| value(rng, field, len)).collect::<Vec<_>>()),
        Type::Dict(k, v) => {
            let entries: Vec<_> = (0..rng.below(len + 1)).map(|_| (value(rng, k, 3), value(rng, v, 4))).collect();
            Value::dict(entries)
        }
        Type::Simd(_) | Type::Builder(_) => Value::structure([]),
    }
}
