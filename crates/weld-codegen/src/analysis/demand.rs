//! Which parts of a symbol's value a program reads.

use std::collections::HashMap;

use weld_core::ir::{Expr, ExprKind, Sym, deep};

/// Which parts of a value are read.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) enum Demand {
    #[default]
    None,
    /// By field; fields beyond the end are not read.
    Fields(Vec<Demand>),
    All,
}

impl Demand {
    pub(crate) fn field(&self, index: usize) -> Demand {
        match self {
            Demand::None => Demand::None,
            Demand::All => Demand::All,
            Demand::Fields(fields) => fields.get(index).cloned().unwrap_or_default(),
        }
    }

    fn add(&mut self, path: &[u32]) {
        let Some((&first, rest)) = path.split_first() else {
            *self = Demand::All;
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
            fields[first].add(rest);
        }
    }
}

/// What is read of each symbol. Symbols are bound once, so one walk answers for the whole program.
pub(crate) fn demands(body: &Expr) -> HashMap<Sym, Demand> {
    let mut demands = HashMap::new();
    let mut path = Vec::new();
    collect(body, &mut path, &mut demands);
    demands
}

fn collect(expr: &Expr, path: &mut Vec<u32>, demands: &mut HashMap<Sym, Demand>) {
    match &expr.kind {
        ExprKind::Var(sym) => {
            path.reverse();
            demands.entry(*sym).or_default().add(path);
            path.reverse();
        }
        ExprKind::Field(of, index) => {
            path.push(*index);
            deep(|| collect(of, path, demands));
            path.pop();
        }
        _ => expr.each_child(&mut |child| {
            deep(|| collect(child, &mut Vec::new(), demands));
        }),
    }
}
