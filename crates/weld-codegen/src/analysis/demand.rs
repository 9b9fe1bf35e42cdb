//! Which parts of a symbol's value a program reads.

use std::collections::HashMap;

use weld_core::ir::{Expr, ExprKind, Sym, deep};
use weld_core::op::BinaryOp;
use weld_core::ty::Type;

/// Which parts of a value are read.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) enum Demand {
    #[default]
    None,
    /// By field; fields beyond the end are not read.
    Fields(Vec<Demand>),
    /// A byte vector that is only asked whether it is equal to others: hardly ever by what its view does not hold.
    Equality,
    All,
}

impl Demand {
    pub(crate) fn field(&self, index: usize) -> Demand {
        match self {
            Demand::None => Demand::None,
            Demand::All | Demand::Equality => Demand::All,
            Demand::Fields(fields) => fields.get(index).cloned().unwrap_or_default(),
        }
    }

    fn add(&mut self, path: &[u32], read: Demand) {
        let Some((&first, rest)) = path.split_first() else {
            *self = if *self == Demand::None || *self == read { read } else { Demand::All };
            return;
        };
        if *self == Demand::None {
            *self = Demand::Fields(Vec::new());
        }
        if let Demand::Fields(fields) = self {
            let first = first as usize;
            if fields.len() <= first {
                fields.resize(first + 1, Demand::None);
            }
            fields[first].add(rest, read);
        }
    }
}

/// What `==` and `!=` read of their operands.
pub(crate) fn demand_of_operands(op: BinaryOp, operand: &Type) -> Demand {
    match op {
        BinaryOp::Eq | BinaryOp::Ne if operand.is_bytes() => Demand::Equality,
        _ => Demand::All,
    }
}

/// What is read of each symbol. Symbols are bound once, so one walk answers for the whole program.
pub(crate) fn demands(body: &Expr) -> HashMap<Sym, Demand> {
    let mut demands = HashMap::new();
    let mut path = Vec::new();
    collect(body, &mut path, Demand::All, &mut demands);
    demands
}

fn collect(expr: &Expr, path: &mut Vec<u32>, read: Demand, demands: &mut HashMap<Sym, Demand>) {
    match &expr.kind {
        ExprKind::Var(sym) => {
            path.reverse();
            demands.entry(*sym).or_default().add(path, read);
            path.reverse();
        }
        ExprKind::Field(of, index) => {
            path.push(*index);
            deep(|| collect(of, path, read, demands));
            path.pop();
        }
        _ => {
            let read = match &expr.kind {
                ExprKind::Binary(op, a, _) => demand_of_operands(*op, &a.ty),
                _ => Demand::All,
            };
            expr.each_child(&mut |child| {
                deep(|| collect(child, &mut Vec::new(), read.clone(), demands));
            });
        }
    }
}
