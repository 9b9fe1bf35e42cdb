//! Fetching ahead: a loop that looks up a key in each iteration asks for the memory of later iterations' keys early.
//!
//! A lookup in a table that outgrows the caches waits for its slot, then for its row. The processor overlaps the waits
//! of a few iterations by itself, and of many if told which addresses will be needed:
//!
//! ```text
//! for(sel, b, |b,_,j| let m = optlookup(t, lookup(c, j)); ..)
//!   iteration i first:  prefetch the slot of the key of iteration i + 24
//!                       prefetch the row (or the group's values) of the key of iteration i + 12, whose slot is there
//!                       prefetch the text in the row of the key of iteration i + 6
//! ```
//!
//! Where the hash is known already (`find_row(t, x.$1, ..)`), slot and row are found by it; where the row is
//! (`row_value(t, x.$1)`), the values of its group are asked for.
//!
//! Only if the table is large, which is looked at once a loop. On 1.5 million hashed keys that takes a fifth off a
//! probe (75 to 60 ns, `benches/dict.rs`, with the caches shared with other work); a dense table is probed in half the
//! time without it.

use std::collections::HashMap;

use inkwell::IntPredicate;
use inkwell::values::IntValue;
use weld_core::ir::Sym;
use weld_core::ty::may_be_dense;
use weld_runtime::DictOffsets;

use super::{Demand, Emitter, Res, Val, demands, internal};
use crate::analysis::loop_plan::{EarlyKey, Known, Prefetch};
use crate::layout;
use crate::tables::dict::entry_types;
use crate::values::source::Source;

/// Asks for the memory that a key, a hash or a row leads to.
type Fetch<'f, 'c, E> = dyn Fn(&mut E, &Val<'c>) -> Res<()> + 'f;

impl<'c> Emitter<'c, '_> {
    /// Emits the prefetches of iteration `index`; those of the last iterations fetch the last one's again.
    pub(super) fn emit_prefetches(
        &mut self,
        prefetches: &[Prefetch<'_>],
        source: &Source<'c>,
        element: Sym,
        index: IntValue<'c>,
    ) -> Res<()> {
        for prefetch in prefetches {
            let table = self.vars.get(&prefetch.table).ok_or_else(|| internal("a lookup without a table"))?.dict()?;
            let entries = self.load(self.unit.i64_type(), self.offset(table.address, DictOffsets::LEN as u64)?)?;
            self.mark_load(entries, table.lasting)?;
            let (key_ty, value_ty) = entry_types(prefetch.dict)?;
            let mut least = self.i64(prefetch.entries_min.into());
            if may_be_dense(key_ty, value_ty) {
                let is_dense = self.is_dense(table)?;
                least = self.choose_int(is_dense, self.i64(prefetch.dense_entries_min.into()), least)?;
            }
            let large = self.cmp(IntPredicate::UGE, entries.into_int_value(), least)?;
            let (fetch, done) = (self.new_block("fetch"), self.new_block("fetched"));
            self.branch_if(large, fetch, done)?;
            self.at(fetch);
            let early = |e: &mut Self, key: &EarlyKey<'_>, distance: u32, fetch: &Fetch<'_, 'c, Self>| {
                let later = e.add_nw(index, e.i64(distance.into()))?;
                let later = e.umin(later, e.sub(source.count, e.i64(1))?)?;
                let Some(valid) = &key.valid else {
                    let key = e.early_key(key, source, element, later)?;
                    return fetch(e, &key);
                };
                let (there, done) = (e.new_block("there"), e.new_block("fetched"));
                let valid = e.early_key(valid, source, element, later)?.into_int()?;
                e.branch_if(valid, there, done)?;
                e.at(there);
                let key = e.early_key(key, source, element, later)?;
                fetch(e, &key)?;
                e.branch(done)?;
                e.at(done);
                Ok(())
            };
            let types = (key_ty, value_ty);
            let has_texts = layout::has_bytes(key_ty);
            match &prefetch.known {
                Known::Key(key) => {
                    early(self, key, prefetch.distance, &|e, key| e.prefetch_slot(table, key_ty, value_ty, key))?;
                    early(self, key, prefetch.distance / 2, &|e, key| e.prefetch_row(table, key_ty, value_ty, key))?;
                    if has_texts {
                        early(self, key, prefetch.distance / 4, &|e, key| {
                            e.prefetch_texts(table, key_ty, value_ty, key)
                        })?;
                    }
                }
                Known::Hash(hash) => {
                    early(self, hash, prefetch.distance, &|e, hash| {
                        e.prefetch(e.slot_of_hash(table, hash.clone().into_int()?)?)
                    })?;
                    early(self, hash, prefetch.distance / 2, &|e, hash| {
                        e.prefetch_row_of_hash(table, types, hash.clone().into_int()?)
                    })?;
                    if has_texts {
                        early(self, hash, prefetch.distance / 4, &|e, hash| {
                            e.prefetch_texts_of_hash(table, types, hash.clone().into_int()?)
                        })?;
                    }
                }
                Known::Row(row, value) => early(self, row, prefetch.distance, &|e, row| {
                    let demand = match value {
                        Some(value) => e.facts.demands.get(value).cloned().unwrap_or_default(),
                        None => Demand::All,
                    };
                    e.prefetch_values(table, types, row.clone().into_int()?, &demand)
                })?,
            }
            self.branch(done)?;
            self.at(done);
        }
        Ok(())
    }

    /// The key of iteration `index` of a loop with this element.
    pub(super) fn early_key(
        &mut self,
        early: &EarlyKey<'_>,
        source: &Source<'c>,
        element: Sym,
        index: IntValue<'c>,
    ) -> Res<Val<'c>> {
        let needs = key_demands(early);
        let needed = |sym: Sym| needs.get(&sym).cloned().unwrap_or(Demand::All);
        let value = self.source_element(source, index, &needed(element))?;
        self.vars.insert(element, value);
        for binding in &early.bindings {
            let value = self.emit_parts(&binding.value, &needed(binding.sym))?;
            self.vars.insert(binding.sym, value);
        }
        self.emit(early.key)
    }
}

/// What is read of each symbol. A symbol that several parts read is read as a whole.
fn key_demands(early: &EarlyKey<'_>) -> HashMap<Sym, Demand> {
    let mut all = demands(early.key);
    for binding in &early.bindings {
        for (sym, demand) in demands(&binding.value) {
            all.entry(sym).and_modify(|known| *known = Demand::All).or_insert(demand);
        }
    }
    all
}
