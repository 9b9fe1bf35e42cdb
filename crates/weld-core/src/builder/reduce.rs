//! The algebra of builders' binops: an identity for every scalar kind, and how two values combine.
//!
//! | binop | identity |
//! |---|---|
//! | `+` | 0 |
//! | `*` | 1 |
//! | `min` | the largest value of the kind, infinity for floats |
//! | `max` | the smallest value of the kind, -infinity for floats |
//! | `&` | all ones, `true` |
//! | `\|`, `^` | zero, `false` |

use super::struct_op;
use crate::interp::{Value, scalar};
use crate::ir::Literal;
use crate::op::{MergeOp, ReduceOp};
use crate::ty::{ScalarKind, Type};

/// The value that changes nothing. `None` if the binop does not take the kind.
pub fn identity(op: ReduceOp, kind: ScalarKind) -> Option<Literal> {
    let arithmetic = kind != ScalarKind::Bool;
    let bitwise = !kind.is_float();
    match op {
        ReduceOp::Add => arithmetic.then(|| Literal::zero(kind)),
        ReduceOp::Mul => arithmetic.then(|| scalar::cast(Literal::I8(1), kind)),
        ReduceOp::Min => arithmetic.then(|| largest(kind)),
        ReduceOp::Max => arithmetic.then(|| smallest(kind)),
        ReduceOp::BitAnd => bitwise.then(|| scalar::cast(Literal::I8(-1), kind)),
        ReduceOp::BitOr | ReduceOp::BitXor => bitwise.then(|| Literal::zero(kind)),
    }
}

fn largest(kind: ScalarKind) -> Literal {
    match kind {
        ScalarKind::Bool => Literal::Bool(true),
        ScalarKind::I8 => Literal::I8(i8::MAX),
        ScalarKind::I16 => Literal::I16(i16::MAX),
        ScalarKind::I32 => Literal::I32(i32::MAX),
        ScalarKind::I64 => Literal::I64(i64::MAX),
        ScalarKind::I128 => Literal::I128(i128::MAX),
        ScalarKind::U8 => Literal::U8(u8::MAX),
        ScalarKind::U16 => Literal::U16(u16::MAX),
        ScalarKind::U32 => Literal::U32(u32::MAX),
        ScalarKind::U64 => Literal::U64(u64::MAX),
        ScalarKind::F32 => Literal::F32(f32::INFINITY),
        ScalarKind::F64 => Literal::F64(f64::INFINITY),
    }
}

fn smallest(kind: ScalarKind) -> Literal {
    match kind {
        ScalarKind::I8 => Literal::I8(i8::MIN),
        ScalarKind::I16 => Literal::I16(i16::MIN),
        ScalarKind::I32 => Literal::I32(i32::MIN),
        ScalarKind::I64 => Literal::I64(i64::MIN),
        ScalarKind::I128 => Literal::I128(i128::MIN),
        ScalarKind::F32 => Literal::F32(f32::NEG_INFINITY),
        ScalarKind::F64 => Literal::F64(f64::NEG_INFINITY),
        unsigned_or_bool => Literal::zero(unsigned_or_bool),
    }
}

/// The binop of two scalars. `None` if it does not take their kind.
pub fn reduce(op: ReduceOp, a: Literal, b: Literal) -> Option<Literal> {
    scalar::binary(op.binary(), a, b).ok()
}

/// The identity of a scalar or a struct of scalars, field by field.
pub fn identity_value(op: &MergeOp, ty: &Type) -> Option<Value> {
    if let MergeOp::Struct(op) = op {
        return struct_op::identity(*op, ty);
    }
    match ty {
        Type::Scalar(kind) => match op {
            MergeOp::All(op) => identity(*op, *kind).map(Value::Scalar),
            MergeOp::Fields(_) | MergeOp::Struct(_) => None,
        },
        Type::Struct(fields) => {
            let fields = fields.iter().enumerate().map(|(i, field)| identity_value(&op.field(i), field));
            fields.collect::<Option<_>>().map(Value::Struct)
        }
        _ => None,
    }
}

/// The binop of two scalars or structs of scalars, field by field.
pub fn combine(op: &MergeOp, a: &Value, b: &Value) -> Option<Value> {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) => match op {
            MergeOp::All(op) => reduce(*op, *a, *b).map(Value::Scalar),
            MergeOp::Fields(_) | MergeOp::Struct(_) => None,
        },
        (Value::Struct(a), Value::Struct(b)) => {
            if let MergeOp::Struct(op) = op {
                return struct_op::combine(*op, a, b);
            }
            let fields = a.iter().zip(b.iter()).enumerate().map(|(i, (a, b))| combine(&op.field(i), a, b));
            fields.collect::<Option<_>>().map(Value::Struct)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_change_nothing() {
        for op in ReduceOp::ALL {
            for kind in ScalarKind::ALL {
                let Some(unit) = identity(op, kind) else { continue };
                for v in [0i8, 1, -1, 100] {
                    let v = scalar::cast(Literal::I8(v), kind);
                    assert_eq!(reduce(op, unit, v), Some(v), "{op:?} {kind}");
                    assert_eq!(reduce(op, v, unit), Some(v), "{op:?} {kind}");
                }
            }
        }
    }
}
