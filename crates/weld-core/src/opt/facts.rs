//! Facts that several passes ask about an expression: can it fail, what does it cost, what is evaluated when.

use std::collections::HashSet;

use crate::interp::serialize;
use crate::ir::typing::holds_builder;
use crate::ir::{Expr, ExprKind, Iter, Literal, build};
use crate::op::{BinaryOp, Intrinsic, UnaryOp};
use crate::ty::{BuilderType, Type};

/// Whether evaluating the expression may raise a runtime error or not end. Running out of memory does not count.
pub fn can_fail(e: &Expr) -> bool {
    let mut fails = false;
    e.walk(&mut |e| fails |= may_raise(e));
    fails
}

/// Whether the expression may be left out: it cannot fail, and it does not take a builder from outside, which would
/// then be used by nobody.
pub(super) fn can_drop(e: &Expr) -> bool {
    !can_fail(e) && !takes_builder(e)
}

fn takes_builder(e: &Expr) -> bool {
    let mut builders = HashSet::new();
    e.walk(&mut |e| {
        if let ExprKind::Var(sym) = e.kind
            && holds_builder(&e.ty)
        {
            builders.insert(sym);
        }
    });
    if !builders.is_empty() {
        e.walk(&mut |e| {
            e.each_bound(&mut |sym| {
                builders.remove(&sym);
            })
        });
    }
    !builders.is_empty()
}

/// Whether this node itself may raise an error, its parts apart.
fn may_raise(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Binary(op @ (BinaryOp::Div | BinaryOp::Rem), _, b) => {
            e.ty.as_scalar().is_none_or(|kind| kind.is_integer()) && !is_safe_divisor(*op, b)
        }
        ExprKind::Lookup { checked, .. } => *checked,
        ExprKind::Slice { .. }
        | ExprKind::Update { .. }
        | ExprKind::Iterate { .. }
        | ExprKind::CUdf { .. }
        | ExprKind::Assert { .. } => true,
        // A constant list of numbers is bytes that are known to be good.
        ExprKind::Deserialize(data) => match &data.kind {
            ExprKind::Bytes(bytes) => !serialize::holds_numbers(bytes, &e.ty),
            _ => true,
        },
        ExprKind::Merge { builder, .. } => matches!(builder.ty, Type::Builder(BuilderType::VecMerger { .. })),
        ExprKind::For { iter, .. } => iter_may_raise(iter),
        ExprKind::Intrinsic(Intrinsic::RoundDiv, args) => !is_safe_divisor(BinaryOp::Div, &args[1]),
        ExprKind::Intrinsic(intrinsic, _) => intrinsic.can_fail(),
        _ => false,
    }
}

fn is_safe_divisor(op: BinaryOp, e: &Expr) -> bool {
    match e.kind {
        ExprKind::Literal(value) => value.bits() != 0 && (op == BinaryOp::Rem || value.bits() != -1),
        _ => false,
    }
}

fn iter_may_raise(iter: &Iter) -> bool {
    match iter {
        Iter::Vector(_) | Iter::Simd(_) | Iter::Fringe(_) => false,
        Iter::Chunks { size, .. } => !is_positive(size),
        Iter::Range { stride, .. } => !is_positive(stride),
        Iter::Strided { .. } | Iter::Nd { .. } => true,
        Iter::Zip(parts) => parts.len() != 1 || parts.iter().any(iter_may_raise),
    }
}

fn is_positive(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Literal(Literal::I64(n)) if n > 0)
}

/// Joins blocks whose body is a block: passes that put a block in the place of a body call this at their end.
pub(super) fn join_blocks(e: &mut Expr) {
    e.rewrite(&mut |e| {
        if let ExprKind::Let { bindings, body } = &mut e.kind
            && matches!(body.kind, ExprKind::Let { .. })
        {
            *e = build::let_in(std::mem::take(bindings), body.take());
        }
    });
}

/// How many of the direct children, from the first, are evaluated exactly once whenever the expression is. The others
/// are branches and the bodies of functions.
pub(super) fn strict_children(e: &Expr) -> usize {
    match &e.kind {
        ExprKind::If { .. } | ExprKind::Binary(BinaryOp::And | BinaryOp::Or, ..) => 1,
        ExprKind::Sort { .. } | ExprKind::Iterate { .. } => 1,
        ExprKind::For { iter, .. } => {
            let mut parts = 1;
            iter.each_child(&mut |_| parts += 1);
            parts
        }
        _ => usize::MAX,
    }
}

/// Whether the children after the strict ones are bodies of functions, evaluated any number of times.
pub(super) fn has_function(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::For { .. } | ExprKind::Sort { .. } | ExprKind::Iterate { .. })
}

/// A variable, a constant, or a field (of a field ..) of a variable: free to repeat anywhere.
pub(super) fn is_trivial(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Literal(_) | ExprKind::Bytes(_) => true,
        _ => is_path(e),
    }
}

/// A variable or a field (of a field ..) of one.
pub(super) fn is_path(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Var(_) => true,
        ExprKind::Field(of, _) => is_path(of),
        _ => false,
    }
}

/// What a call, an allocation or a loop counts as.
const CALL: u32 = 200;

/// About how many simple machine operations the expression takes. Calls, allocations and loops count as hundreds.
pub(super) fn cost(e: &Expr) -> u32 {
    let mut sum = 0u32;
    e.walk(&mut |e| sum = sum.saturating_add(node_cost(e)));
    sum
}

/// Whether it is a call of the runtime that goes over a text, which takes longer than anything else that a row does.
pub fn is_text_call(e: &Expr) -> bool {
    matches!(&e.kind, ExprKind::Intrinsic(_, args) if args[0].ty.is_bytes()) && node_cost(e) >= CALL
}

pub(super) fn node_cost(e: &Expr) -> u32 {
    match &e.kind {
        ExprKind::Literal(_) | ExprKind::Bytes(_) | ExprKind::Var(_) | ExprKind::Let { .. } => 0,
        ExprKind::Field(..) | ExprKind::Struct(_) | ExprKind::Len(_) => 0,
        ExprKind::Binary(op, a, _) => match (op, &a.ty) {
            (_, Type::Vec(_) | Type::Struct(_)) => 20,
            (BinaryOp::Div | BinaryOp::Rem, _) => 20,
            (BinaryOp::Pow, _) => 50,
            _ => 1,
        },
        ExprKind::Unary(UnaryOp::Abs | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Trunc, _) => 1,
        ExprKind::Unary(op, _) if UnaryOp::FUNCTIONS.contains(op) => 20,
        ExprKind::Unary(..) => 1,
        ExprKind::Intrinsic(intrinsic, _) => match intrinsic {
            Intrinsic::CheckedAdd | Intrinsic::CheckedSub | Intrinsic::CheckedMul => 2,
            Intrinsic::Magnitude
            | Intrinsic::OrderKey
            | Intrinsic::FromOrderKey
            | Intrinsic::FirstRow
            | Intrinsic::Interned => 2,
            Intrinsic::RoundDiv => 20,
            Intrinsic::Year | Intrinsic::Month | Intrinsic::Day => 15,
            Intrinsic::HashKey | Intrinsic::RowValue => 10,
            Intrinsic::StartsWith | Intrinsic::EndsWith | Intrinsic::MayContain | Intrinsic::MayContainHashed => 20,
            Intrinsic::FindRow => 50,
            _ => CALL,
        },
        ExprKind::Cast(_) | ExprKind::If { .. } | ExprKind::Select { .. } | ExprKind::Broadcast(_) => 1,
        ExprKind::Merge { .. } => 1,
        ExprKind::Lookup { data, .. } => {
            if matches!(data.ty, Type::Dict(..)) {
                50
            } else {
                1
            }
        }
        ExprKind::OptLookup { .. } | ExprKind::KeyExists { .. } => 50,
        _ => CALL,
    }
}

#[cfg(test)]
mod tests {
    fn can_fail(params: &str, body: &str) -> bool {
        let program = crate::parse_program(&format!("{params} {body}")).expect("parses");
        super::can_fail(&program.body)
    }

    #[test]
    fn what_can_fail() {
        let params = "|v: vec[i64], w: vec[i64], d: dict[i64,i64], s: vec[i8], x: i64, y: i64, u: u8|";
        for body in [
            "x / y",
            "x % y",
            "x / 0L",
            "x / -1L",
            "u % u",
            "lookup(v, x)",
            "lookup(d, x)",
            "slice(v, x, y)",
            "checked_add(x, y)",
            "round_div(x, y)",
            "round_div(x, -1L)",
            "assert(x > y)",
            "iterate(x, |k| {k + 1L, k < y})",
            "deserialize[vec[i64]](s)",
            "result(for(rangeiter(0L, x, y), merger[i64,+], |b, i, k| merge(b, k)))",
            "result(for(rangeiter(0L, x, 0L), merger[i64,+], |b, i, k| merge(b, k)))",
            "result(for(zip(v, w), merger[i64,+], |b, i, r| merge(b, r.$0)))",
            "result(for(iter(v, x, y, 1L), merger[i64,+], |b, i, k| merge(b, k)))",
            "result(for(v, vecmerger[i64,+](w), |b, i, k| merge(b, {i, k})))",
            "if(x > y, {x, lookup(v, x)}, {x, y})",
            "map(v, |k| x / k)",
        ] {
            assert!(can_fail(params, body), "{body}");
        }
    }

    #[test]
    fn what_cannot() {
        let params = "|v: vec[i64], w: vec[i64], d: dict[i64,i64], s: vec[u8], x: i64, f: f64|";
        for body in [
            "x / 3L",
            "x % -1L",
            "round_div(x, 3L)",
            "f / f",
            "f % 0.0",
            "x + x * x",
            "optlookup(d, x)",
            "keyexists(d, x)",
            "len(v)",
            "year(i32(x))",
            "result(for(v, merger[i64,+], |b, i, k| merge(b, k)))",
            "result(for(rangeiter(0L, x, 1L), merger[i64,+], |b, i, k| merge(b, k)))",
            "result(for(v, dictmerger[i64,i64,+], |b, i, k| merge(b, {k, i})))",
        ] {
            assert!(!can_fail(params, body), "{body}");
        }
    }
}
