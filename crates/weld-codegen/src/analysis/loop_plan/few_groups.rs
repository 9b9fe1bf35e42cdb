//! Aggregation of few groups: values that may be computed for rows that are not merged, and summed up in any order, so
//! that a strip is merged group by group.
//!
//! ```text
//! merge(b, {key, {x.$0, x.$0 * (100 - x.$1), 1}})      integers, or 128-bit decimals whose sums are tried in 64 bits
//! ```

use std::collections::HashSet;

use weld_core::ir::{Binding, Expr, ExprKind, Sym, build};
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::{ScalarKind, Type};

use crate::analysis::narrow::{is_narrowed, is_plain};
use crate::analysis::{Demand, demands};
use crate::chunk::{ColumnLayout, Layout};
use crate::layout;

/// More groups are merged row by row: each takes a pass over the strip.
const GROUPS_MAX: u32 = 8;
/// More fields would take too much of the stack, and longer to compile than such loops run: final aggregates have them.
const FIELDS_MAX: usize = 12;

/// The values that a loop merges.
pub(crate) struct FewGroups<'e> {
    pub(crate) groups_max: u32,
    /// With whether they are narrowed.
    pub(crate) bindings: Vec<(&'e Binding, bool)>,
    pub(crate) fields: Vec<MergedField<'e>>,
}

/// A field of the merged values.
pub(crate) struct MergedField<'e> {
    pub(crate) value: &'e Expr,
    /// In the group's row.
    pub(crate) kind: ScalarKind,
    pub(crate) offset: u64,
    pub(crate) op: ReduceOp,
    /// Whether the values of a strip are kept between computing and merging; others are read again.
    pub(crate) is_kept: bool,
}

impl MergedField<'_> {
    /// Whether it is a decimal that is computed and summed up in 64 bits.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.kind == ScalarKind::I128
    }

    /// The kind that is summed up.
    pub(crate) fn summed(&self) -> ScalarKind {
        if self.is_narrowed() { ScalarKind::I64 } else { self.kind }
    }
}

impl<'e> FewGroups<'e> {
    /// `row` is the symbol of a chunk's row and how its columns are stored, if there is one.
    pub(super) fn find(
        bindings: &'e [Binding],
        value: &'e Expr,
        (ty, op): (&Type, &MergeOp),
        row: Option<(Sym, &[ColumnLayout])>,
    ) -> Option<FewGroups<'e>> {
        let (Type::Struct(types), ExprKind::Struct(values)) = (ty, &value.kind) else { return None };
        let mut narrowed = HashSet::new();
        let mut bound = Vec::with_capacity(bindings.len());
        for binding in bindings {
            let is_narrowed = is_narrowed(&binding.value, &narrowed);
            if is_narrowed {
                narrowed.insert(binding.sym);
            } else if !is_plain(&binding.value, &narrowed) {
                return None;
            }
            bound.push((binding, is_narrowed));
        }
        let mut fields = Vec::new();
        for (i, ((ty, offset), value)) in types.iter().zip(layout::field_offsets(types)).zip(values).enumerate() {
            let (kind, MergeOp::All(op)) = (ty.as_scalar()?, op.field(i)) else { return None };
            let fits = match kind {
                ScalarKind::I128 => op == ReduceOp::Add && is_narrowed(value, &narrowed),
                kind => !kind.is_float() && is_plain(value, &narrowed),
            };
            if !fits {
                return None;
            }
            let is_kept = !is_read_again(value, kind, bindings, row);
            fields.push(MergedField { value, kind, offset, op, is_kept });
        }
        (fields.len() <= FIELDS_MAX).then_some(FewGroups { groups_max: GROUPS_MAX, bindings: bound, fields })
    }

    /// Whether some of them are decimals in 64 bits.
    pub(crate) fn has_narrowed(&self) -> bool {
        self.fields.iter().any(MergedField::is_narrowed)
    }

    fn exprs(&self) -> impl Iterator<Item = &'e Expr> {
        let values = self.fields.iter().map(|field| field.value);
        values.chain(self.bindings.iter().map(|(binding, _)| &binding.value))
    }

    /// The symbols that the values are made of.
    pub(super) fn free_vars(&self) -> HashSet<Sym> {
        self.exprs().flat_map(Expr::free_vars).collect()
    }

    /// The parts of a symbol's value that the values are made of.
    pub(crate) fn demand_of(&self, sym: Sym) -> Demand {
        let all = build::strct(self.exprs().cloned());
        demands(&all).remove(&sym).unwrap_or_default()
    }
}

/// Whether a value is read where it is merged rather than kept: a constant, or what one load gives.
fn is_read_again(value: &Expr, kind: ScalarKind, bindings: &[Binding], row: Option<(Sym, &[ColumnLayout])>) -> bool {
    let (of, index) = match &value.kind {
        ExprKind::Literal(_) => return true,
        ExprKind::Field(of, index) => (of, *index as usize),
        _ => return false,
    };
    let ExprKind::Var(sym) = of.kind else { return false };
    if bindings.iter().any(|binding| binding.sym == sym) {
        return false;
    }
    let column = row.filter(|(row, _)| *row == sym).and_then(|(_, columns)| columns.get(index));
    match column {
        Some(ColumnLayout { layout: Layout::Fixed(stored), .. }) => stored.is_integer() && *stored != ScalarKind::I128,
        _ => kind != ScalarKind::I128,
    }
}
