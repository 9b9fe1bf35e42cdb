//! Random types.

use weld_core::op::{MergeOp, ReduceOp, StructOp};
use weld_core::ty::{BuilderType, ScalarKind, Type};

use super::rng::Rng;

/// Any scalar, the usual ones more often.
pub(super) fn scalar(rng: &mut Rng) -> ScalarKind {
    match rng.below(20) {
        0..=5 => ScalarKind::I64,
        6..=7 => ScalarKind::I32,
        8..=10 => ScalarKind::F64,
        11 => ScalarKind::Bool,
        _ => rng.pick(&ScalarKind::ALL),
    }
}

/// Any type that a program may take and return.
pub(super) fn value(rng: &mut Rng, depth: usize) -> Type {
    match rng.below(if depth == 0 { 5 } else { 12 }) {
        0..=4 => Type::Scalar(scalar(rng)),
        5..=8 => Type::vec(element(rng, depth - 1)),
        9..=10 => Type::structure((0..1 + rng.below(3)).map(|_| value(rng, depth - 1)).collect::<Vec<_>>()),
        _ => Type::dict(key(rng), dict_value(rng)),
    }
}

fn element(rng: &mut Rng, depth: usize) -> Type {
    if rng.one_in(8) { rng.pick(&[Type::vec(Type::I8), Type::vec(Type::U8)]) } else { value(rng, depth) }
}

/// A dictionary's key.
pub(super) fn key(rng: &mut Rng) -> Type {
    match rng.below(10) {
        0..=5 => Type::Scalar(scalar(rng)),
        6 => rng.pick(&[Type::vec(Type::I8), Type::vec(Type::U8)]),
        7 => Type::vec(Type::Scalar(scalar(rng))),
        8 => Type::structure([Type::Scalar(scalar(rng)), Type::vec(Type::I8)]),
        _ => Type::structure([Type::Scalar(scalar(rng)), Type::Scalar(scalar(rng))]),
    }
}

/// What a dictmerger or a groupbuilder can make.
pub(super) fn dict_value(rng: &mut Rng) -> Type {
    match rng.below(10) {
        0..=1 => Type::vec(Type::Scalar(scalar(rng))),
        2 => Type::vec(element(rng, 1)),
        _ => mergeable(rng),
    }
}

/// Whether a builder makes tables with such values.
pub(super) fn is_dict_value(ty: &Type) -> bool {
    matches!(ty, Type::Vec(_)) || is_mergeable(ty)
}

/// Whether a table may have such keys.
pub(super) fn is_key(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) => true,
        Type::Struct(fields) => fields.iter().all(is_key),
        Type::Vec(element) => is_key(element),
        _ => false,
    }
}

/// A scalar or a struct of scalars.
pub(super) fn mergeable(rng: &mut Rng) -> Type {
    match rng.below(8) {
        0..=4 => Type::Scalar(scalar(rng)),
        // Binops of whole structs take those.
        5 => Type::structure([Type::BOOL, Type::Scalar(scalar(rng)), Type::Scalar(scalar(rng))]),
        _ => Type::structure((0..1 + rng.below(3)).map(|_| Type::Scalar(scalar(rng))).collect::<Vec<_>>()),
    }
}

pub(super) fn is_mergeable(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) => true,
        Type::Struct(fields) => !fields.is_empty() && fields.iter().all(is_mergeable),
        _ => false,
    }
}

/// A binop that takes values of a mergeable type.
pub(super) fn merge_op(rng: &mut Rng, ty: &Type) -> MergeOp {
    match ty {
        Type::Struct(fields) => {
            if let [Type::Scalar(ScalarKind::Bool), key, ..] = &fields[..]
                && rng.one_in(2)
            {
                // Parts of a loop choose otherwise among NaNs, which have no order, than all of it.
                let ops = [StructOp::First, StructOp::Last, StructOp::LeastBy, StructOp::GreatestBy, StructOp::LastBy];
                return MergeOp::Struct(rng.pick(if has_float(key) { &ops[..2] } else { &ops }));
            }
            for op in [ReduceOp::Add, ReduceOp::Max, ReduceOp::BitOr] {
                if rng.one_in(4) && fields.iter().all(|field| takes(op, field)) {
                    return MergeOp::All(op);
                }
            }
            MergeOp::Fields(fields.iter().map(|field| merge_op(rng, field)).collect())
        }
        _ => loop {
            let op = rng.pick(&ReduceOp::ALL);
            if takes(op, ty) {
                return MergeOp::All(op);
            }
        },
    }
}

fn takes(op: ReduceOp, ty: &Type) -> bool {
    match ty {
        Type::Scalar(kind) => weld_core::builder::identity(op, *kind).is_some(),
        Type::Struct(fields) => fields.iter().all(|field| takes(op, field)),
        _ => false,
    }
}

pub(super) fn has_float(ty: &Type) -> bool {
    match ty {
        Type::Scalar(kind) | Type::Simd(kind) => kind.is_float(),
        Type::Vec(element) => has_float(element),
        Type::Dict(key, value) => has_float(key) || has_float(value),
        Type::Struct(fields) => fields.iter().any(has_float),
        Type::Builder(builder) => has_float(&builder.merge_type()),
    }
}

pub(super) fn has_dict(ty: &Type) -> bool {
    match ty {
        Type::Dict(..) => true,
        Type::Vec(element) => has_dict(element),
        Type::Struct(fields) => fields.iter().any(has_dict),
        _ => false,
    }
}

/// A builder whose result has this type, if there is one. A vecmerger needs an initial vector.
pub(super) fn builder_of(rng: &mut Rng, ty: &Type) -> Option<BuilderType> {
    Some(match ty {
        Type::Vec(element) if is_mergeable(element) && rng.one_in(5) => {
            BuilderType::VecMerger { value: element.clone(), op: merge_op(rng, element) }
        }
        Type::Vec(element) => BuilderType::Appender(element.clone()),
        Type::Dict(key, value) => match &**value {
            Type::Vec(element) => BuilderType::GroupBuilder { key: key.clone(), value: element.clone() },
            merged => BuilderType::DictMerger { key: key.clone(), value: value.clone(), op: merge_op(rng, merged) },
        },
        ty if is_mergeable(ty) => BuilderType::Merger { value: ty.clone().into(), op: merge_op(rng, ty) },
        _ => return None,
    })
}
