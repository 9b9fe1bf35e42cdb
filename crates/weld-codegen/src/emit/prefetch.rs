//! Fetching ahead: a loop that looks up a key in each iteration asks for the memory of later iterations' keys early.
//!
//! A lookup in a table that outgrows the caches waits for its slot, then for its row. The processor overlaps the waits of
//! a few iterations by itself, and of many if told which addresses will be needed:
//!
//! ```text
//! for(sel, b, |b,_,j| let m = optlookup(t, lookup(c, j)); ..)
//!   iteration i first:  prefetch the slot of the key of iteration i + 24
//!                       prefetch the row (or the group's values) of the key of iteration i + 12, whose slot is there
//! ```
//!
//! Only lookups that every iteration does, whose keys follow from the element by operations that cannot fail; and only if
//! the table is large, which is looked at once a loop. On 1.5 million hashed keys that takes a fifth off a probe (75 to 60
//! ns, `benches/dict.rs`, with the caches shared with other work), and it costs a dense table a nanosecond.

use std::collections::HashMap;

use inkwell::IntPredicate;
use inkwell::values::IntValue;
use weld_core::ir::{Binding, Expr, ExprKind, Func, Sym, deep};
use weld_core::op::{BinaryOp, Intrinsic, UnaryOp};
use weld_core::opt::can_fail;
use weld_core::ty::Type;
use weld_runtime::DictOffsets;

use super::{Demand, Emitter, Res, Val, demands};
use crate::tables::dict::entry_types;
use crate::values::DictVal;
use crate::values::source::Source;

/// Iterations between asking for a slot and using it. At half the way its row is asked for.
const AHEAD: i64 = 24;
/// Tables of fewer entries fit into the second-level cache.
const ENTRIES_MIN: i64 = 1 << 15;
/// More than two lookups an iteration keep the processor busy anyhow.
const LOOKUPS_MAX: usize = 2;

/// A lookup that each iteration does.
struct Lookup<'e> {
    table: Sym,
    dict: &'e Type,
    ahead: Ahead<'e>,
}

/// A key that can be computed early.
pub(super) struct Ahead<'e> {
    pub(super) key: &'e Expr,
    /// What the key needs of the body's own bindings, in order.
    pub(super) bindings: Vec<&'e Binding>,
}

impl<'c> Emitter<'c, '_> {
    /// Emits the prefetches of iteration `index`; those of the last iterations, up to `end`, fetch the last one's again.
    pub(super) fn emit_prefetches(
        &mut self,
        source: &Source<'c>,
        func: &Func,
        index: IntValue<'c>,
        end: IntValue<'c>,
    ) -> Res<()> {
        let [_, (i_sym, _), (x_sym, _)] = &func.params[..] else { return Ok(()) };
        let mut found = Vec::new();
        collect(&func.body, &mut Vec::new(), &mut found);
        found.retain(|lookup| {
            self.vars.get(&lookup.table).is_some_and(|table| table.dict().is_ok())
                && !lookup.ahead.uses(*i_sym)
                && lookup.ahead.uses(*x_sym)
        });
        if found.is_empty() || found.len() > LOOKUPS_MAX {
            return Ok(());
        }
        for lookup in found {
            let table = match self.vars.get(&lookup.table) {
                Some(table) => table.dict()?,
                None => continue,
            };
            let entries = self.load(self.unit.i64_type(), self.offset(table.address, DictOffsets::LEN as u64)?)?;
            self.mark_load(entries, table.lasting)?;
            let large = self.cmp(IntPredicate::UGE, entries.into_int_value(), self.i64(ENTRIES_MIN))?;
            let (fetch, done) = (self.new_block("fetch"), self.new_block("fetched"));
            self.branch_if(large, fetch, done)?;
            self.at(fetch);
            for (distance, slot) in [(AHEAD, true), (AHEAD / 2, false)] {
                let later = self.umin(self.add_nw(index, self.i64(distance))?, self.sub(end, self.i64(1))?)?;
                self.prefetch_lookup(source, &lookup, *x_sym, later, table, slot)?;
            }
            self.branch(done)?;
            self.at(done);
        }
        Ok(())
    }

    fn prefetch_lookup(
        &mut self,
        source: &Source<'c>,
        lookup: &Lookup<'_>,
        x_sym: Sym,
        index: IntValue<'c>,
        table: DictVal<'c>,
        slot: bool,
    ) -> Res<()> {
        let key = self.key_ahead(&lookup.ahead, source, x_sym, index)?;
        let (key_ty, value_ty) = entry_types(lookup.dict)?;
        if slot {
            self.prefetch_slot(table, key_ty, value_ty, &key)
        } else {
            self.prefetch_row(table, key_ty, value_ty, &key)
        }
    }

    /// The key of iteration `index`.
    pub(super) fn key_ahead(
        &mut self,
        ahead: &Ahead<'_>,
        source: &Source<'c>,
        x_sym: Sym,
        index: IntValue<'c>,
    ) -> Res<Val<'c>> {
        let needs = ahead.demands();
        let needed = |sym: Sym| needs.get(&sym).cloned().unwrap_or(Demand::All);
        let element = self.source_element(source, index, &needed(x_sym))?;
        self.vars.insert(x_sym, element);
        for binding in &ahead.bindings {
            let value = self.emit_parts(&binding.value, &needed(binding.sym))?;
            self.vars.insert(binding.sym, value);
        }
        self.emit(ahead.key)
    }
}

impl Ahead<'_> {
    pub(super) fn uses(&self, sym: Sym) -> bool {
        self.key.count_uses(sym) > 0 || self.bindings.iter().any(|binding| binding.value.count_uses(sym) > 0)
    }

    /// What is read of each symbol. A symbol that several parts read is read as a whole.
    fn demands(&self) -> HashMap<Sym, Demand> {
        let mut all = demands(self.key);
        for binding in &self.bindings {
            for (sym, demand) in demands(&binding.value) {
                all.entry(sym).and_modify(|known| *known = Demand::All).or_insert(demand);
            }
        }
        all
    }
}

/// Lookups on every path through a body. `scope` are the bindings seen so far.
fn collect<'e>(expr: &'e Expr, scope: &mut Vec<&'e Binding>, found: &mut Vec<Lookup<'e>>) {
    match &expr.kind {
        ExprKind::Let { bindings, body } => {
            for binding in bindings {
                collect(&binding.value, scope, found);
                scope.push(binding);
            }
            collect(body, scope, found);
        }
        ExprKind::If { cond, .. } => collect(cond, scope, found),
        ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, _) => collect(a, scope, found),
        // What loops and functions do, they do often enough to fetch for themselves.
        ExprKind::For { .. } | ExprKind::Iterate { .. } | ExprKind::Sort { .. } => {}
        ExprKind::OptLookup { data, key } | ExprKind::KeyExists { data, key } | ExprKind::Lookup { data, key, .. } => {
            collect(key, scope, found);
            let (ExprKind::Var(table), Type::Dict(..)) = (&data.kind, &data.ty) else { return };
            // A table that the body itself makes is not there yet.
            if scope.iter().any(|binding| binding.sym == *table) {
                return;
            }
            if let Some(bindings) = needed(key, scope) {
                found.push(Lookup { table: *table, dict: &data.ty, ahead: Ahead { key, bindings } });
            }
        }
        _ => expr.each_child(&mut |child| deep(|| collect(child, scope, found))),
    }
}

/// The bindings that a key needs, if they and the key can be computed early: they are cheap and cannot fail.
pub(super) fn needed<'e>(key: &'e Expr, scope: &[&'e Binding]) -> Option<Vec<&'e Binding>> {
    let is_early = |expr: &Expr| is_cheap(expr) && !can_fail(expr);
    if !is_early(key) {
        return None;
    }
    let mut wanted = key.free_vars();
    let mut needed = Vec::new();
    for binding in scope.iter().rev() {
        if wanted.contains(&binding.sym) {
            if !is_early(&binding.value) {
                return None;
            }
            wanted.extend(binding.value.free_vars());
            needed.push(*binding);
        }
    }
    needed.reverse();
    Some(needed)
}

/// Whether an expression is cheap beside the cache miss that knowing it early spares.
fn is_cheap(expr: &Expr) -> bool {
    let this = match &expr.kind {
        ExprKind::Literal(_) | ExprKind::Bytes(_) | ExprKind::Var(_) => true,
        ExprKind::Field(..) | ExprKind::Struct(_) | ExprKind::Cast(_) => true,
        ExprKind::If { .. } | ExprKind::Select { .. } => true,
        ExprKind::Unary(op, _) => matches!(op, UnaryOp::Neg | UnaryOp::Not),
        ExprKind::Binary(op, a, _) => a.ty.as_scalar().is_some() && *op != BinaryOp::Pow,
        ExprKind::Lookup { data, .. } => data.ty.element().is_some(),
        ExprKind::Intrinsic(op, _) => matches!(
            op,
            Intrinsic::RoundDiv
                | Intrinsic::Magnitude
                | Intrinsic::OrderKey
                | Intrinsic::FromOrderKey
                | Intrinsic::Year
                | Intrinsic::Month
                | Intrinsic::Day
        ),
        _ => false,
    };
    let mut all = this;
    expr.each_child(&mut |child| all = all && deep(|| is_cheap(child)));
    all
}
