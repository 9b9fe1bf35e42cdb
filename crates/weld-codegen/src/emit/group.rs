//! Grouping: a loop that merges every row into one dictionary,
//!
//! ```text
//! for(v, dictmerger[K,{V0,V1,..},op], |b, i, r| let x = ..; merge(b, {key(r), {value0(x), value1(x), ..}}))
//! ```
//!
//! runs in two steps a strip: the keys of all rows are looked for, and the numbers of their rows kept; then the values
//! are computed and merged. One loop for both would take more registers than there are, and a processor that looks some
//! hundred instructions ahead would see two rows at a time instead of six: where a key's row is only known after a chain
//! of hash, slot and comparison, it would wait. With calls that keep registers (`call_seldom`), TPC-H Q1 in memory at SF1 on
//! two threads takes 46 ms instead of 49.5. Asking for the values' columns while keys are looked for made it slower.

use inkwell::values::IntValue;
use weld_core::diag::Span;
use weld_core::ir::{Binding, Expr, ExprKind, Func, Sym, build};
use weld_core::ty::{BuilderType, Type};
use weld_runtime::DictOffsets;

use super::analysis::{allocates, any, speculatable};
use super::iter::Source;
use super::{Emitter, Res, Val};

/// Rows of a strip: what they touch stays in the second-level cache.
const STRIP: i64 = 1024;
/// Fewer merged fields leave registers for the key.
const FIELDS_MIN: usize = 3;
/// What may be computed twice, once for the key and once for the value.
const SHARED_BUDGET: u32 = 4;

/// A loop of this shape.
struct Grouping<'a> {
    bindings: &'a [Binding],
    key: &'a Expr,
    value: &'a Expr,
}

fn find(func: &Func) -> Option<Grouping<'_>> {
    let builder = func.params.first()?.0;
    let (bindings, body) = match &func.body.kind {
        ExprKind::Let { bindings, body } => (&bindings[..], &**body),
        _ => (&[][..], &*func.body),
    };
    let ExprKind::Merge { builder: target, value } = &body.kind else { return None };
    let ExprKind::Struct(entry) = &value.kind else { return None };
    let [key, value] = &entry[..] else { return None };
    let is_builder = matches!(target.kind, ExprKind::Var(sym) if sym == builder);
    let fields = match &value.kind {
        ExprKind::Struct(fields) => fields.len(),
        _ => 1,
    };
    // Lookups have their memory fetched ahead in one loop.
    let is_flat = !allocates(&func.body)
        && !any(&func.body, &mut |e| match &e.kind {
            ExprKind::Iterate { .. } | ExprKind::OptLookup { .. } | ExprKind::KeyExists { .. } => true,
            ExprKind::Lookup { data, .. } => matches!(data.ty, Type::Dict(..)),
            _ => false,
        });
    (is_builder && fields >= FIELDS_MIN && is_flat).then_some(Grouping { bindings, key, value })
}

impl Grouping<'_> {
    /// The key with the bindings that it needs; none if they cost too much to be computed twice.
    fn key_alone(&self) -> Option<Expr> {
        let mut wanted = self.key.free_vars();
        let mut needed: Vec<Binding> = Vec::new();
        for binding in self.bindings.iter().rev() {
            if wanted.contains(&binding.sym) {
                wanted.extend(binding.value.free_vars());
                needed.push(binding.clone());
            }
        }
        needed.reverse();
        let budget = needed.iter().try_fold(SHARED_BUDGET, |budget, binding| match &binding.value.kind {
            // A row: its columns are loaded where they are used.
            ExprKind::Lookup { key, checked: false, .. } => speculatable(key, budget),
            _ => speculatable(&binding.value, budget),
        });
        budget.map(|_| build::let_in(needed, self.key.clone()))
    }
}

impl<'c> Emitter<'c, '_> {
    /// Emits the loop if it groups rows; false if it is something else.
    pub(super) fn emit_grouping(
        &mut self,
        source: &Source<'c>,
        builders: &Val<'c>,
        func: &Func,
        base: Option<IntValue<'c>>,
        span: Span,
    ) -> Res<bool> {
        let (Some(grouping), Val::Builder(handle)) = (find(func), builders) else { return Ok(false) };
        let BuilderType::DictMerger { key: key_ty, value: ty, op } = &handle.ty else { return Ok(false) };
        let Some(key) = grouping.key_alone() else { return Ok(false) };
        let [(b_sym, _), (i_sym, _), (x_sym, _)] = &func.params[..] else { return Ok(false) };
        let types = (&**key_ty, &**ty, op);
        let demand = self.unit.demands.get(x_sym).cloned().unwrap_or_default();
        let numbers = self.alloca(STRIP as u64 * 4, "rows")?;
        let i32 = self.unit.ll.i32_type();
        let count = source.count;
        self.vars.insert(*b_sym, builders.clone());
        self.strips(count, STRIP, span, |e, start, size| {
            let bind = |e: &mut Self, syms: (Sym, Sym), j: IntValue<'c>| -> Res<()> {
                let index = e.add_nw(start, j)?;
                let element = e.source_element(source, index, &demand)?;
                e.vars.insert(syms.1, element);
                let number = match base {
                    Some(base) => e.add(base, index)?,
                    None => index,
                };
                e.vars.insert(syms.0, Val::int(number));
                Ok(())
            };
            e.count_loop(size, |e, j| {
                bind(e, (*i_sym, *x_sym), j)?;
                let key = e.emit(&key)?;
                let number = e.row_of_key(handle, types, (&key, None), span)?;
                let number = e.b.build_int_truncate(number, i32, "")?;
                e.store(e.element_ptr(i32.into(), numbers, j)?, number)?;
                Ok(())
            })?;
            let table = e.load_ptr(handle.state)?;
            let entries = e.load_ptr(e.offset(table, DictOffsets::ROWS as u64)?)?;
            e.count_loop(size, |e, j| {
                bind(e, (*i_sym, *x_sym), j)?;
                for binding in grouping.bindings {
                    e.bind(binding)?;
                }
                let number = e.load(i32, e.element_ptr(i32.into(), numbers, j)?)?.into_int_value();
                let at = e.merged_value_ptr(entries, key_ty, ty, e.to_i64(number)?)?;
                e.merge_expr_at(ty, op, at, grouping.value)
            })
        })?;
        Ok(true)
    }
}
