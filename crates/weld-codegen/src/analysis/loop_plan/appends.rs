//! Conditional appends without a branch:
//!
//! ```text
//! if(c, if(d, merge(b, x), b), b)
//! =>
//! column[len] = x; len += c & d                  where the loop has made room for each of its merges
//! ```
//!
//! `x` and `d` are computed for nothing where the condition does not hold, so they must not fail and cost no more than
//! a jump that nobody foresees.

use std::collections::HashSet;

use weld_core::ir::{Expr, ExprKind, Func, Sym, deep};
use weld_core::ty::{BuilderType, Type};

use super::Params;
use crate::analysis::speculatable;
use crate::layout;

/// What the value, and each further condition, may cost.
const BUDGET: u32 = 12;
/// The most columns that are written for nothing.
const COLUMNS_MAX: usize = 4;

/// Such an append.
pub(crate) struct Append<'e> {
    /// The `if` that it stands for.
    pub(crate) at: &'e Expr,
    pub(crate) builder: Sym,
    /// All must hold; the first is evaluated in any case.
    pub(crate) conds: Vec<&'e Expr>,
    pub(crate) value: &'e Expr,
}

impl<'e> Append<'e> {
    /// The append that an `if` can be, provided that there is room for one more element.
    pub(crate) fn of(at: &'e Expr) -> Option<Append<'e>> {
        let ExprKind::If { cond, on_true, on_false } = &at.kind else { return None };
        let ExprKind::Var(builder) = on_false.kind else { return None };
        let Type::Builder(BuilderType::Appender(element)) = &on_false.ty else { return None };
        if layout::columns(element).len() > COLUMNS_MAX {
            return None;
        }
        let is_builder = |e: &Expr| matches!(e.kind, ExprKind::Var(sym) if sym == builder);
        let (mut conds, mut merge) = (vec![&**cond], &**on_true);
        let value = loop {
            match &merge.kind {
                ExprKind::If { cond, on_true, on_false }
                    if is_builder(on_false) && speculatable(cond, BUDGET).is_some() =>
                {
                    conds.push(cond);
                    merge = on_true;
                }
                ExprKind::Merge { builder, value } if is_builder(builder) => break &**value,
                _ => return None,
            }
        };
        // The lanes of a `simd` value are several elements.
        let is_cheap = value.ty == **element && speculatable(value, BUDGET).is_some();
        is_cheap.then_some(Append { at, builder, conds, value })
    }
}

/// The appends of a loop into its own builders that can be without a branch.
pub(super) fn find<'e>(func: &'e Func, params: &Params<'_>) -> Vec<Append<'e>> {
    let mut search = Search { own: HashSet::from([params.builder]), found: Vec::new() };
    search.visit(&func.body);
    search.found
}

struct Search<'e> {
    /// What the loop's builders, and parts of them, are called. Builders that the body makes have no room.
    own: HashSet<Sym>,
    found: Vec<Append<'e>>,
}

impl<'e> Search<'e> {
    fn visit(&mut self, e: &'e Expr) {
        if let Some(append) = Append::of(e).filter(|append| self.own.contains(&append.builder)) {
            self.found.push(append);
            return;
        }
        if let ExprKind::Let { bindings, body } = &e.kind {
            for binding in bindings {
                deep(|| self.visit(&binding.value));
                if binding.value.ty.is_builder() && self.is_own(&binding.value) {
                    self.own.insert(binding.sym);
                }
            }
            return deep(|| self.visit(body));
        }
        e.each_child(&mut |child| deep(|| self.visit(child)));
    }

    /// Whether a builder is one that the loop was given.
    fn is_own(&self, e: &Expr) -> bool {
        match &e.kind {
            ExprKind::Var(sym) => self.own.contains(sym),
            ExprKind::Field(of, _) | ExprKind::Merge { builder: of, .. } | ExprKind::Let { body: of, .. } => {
                deep(|| self.is_own(of))
            }
            ExprKind::If { on_true, on_false, .. } => deep(|| self.is_own(on_true) && self.is_own(on_false)),
            _ => false,
        }
    }
}
