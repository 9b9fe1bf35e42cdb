//! Grouping: a loop that merges every row into one dictionary,
//!
//! ```text
//! for(v, dictmerger[K,{V0,V1,..},op], |b, i, r| let x = ..; merge(b, {key(r), {value0(x), value1(x), ..}}))
//! ```
//!
//! runs in two steps a strip: the keys of all rows are looked for, and the numbers of their rows kept; then the values
//! are computed and merged. One loop for both would take more registers than there are, and a processor that looks some
//! hundred instructions ahead would see two rows at a time instead of six: where a key's row is only known after a
//! chain of hash, slot and comparison, it would wait. With calls that keep registers (`call_seldom`), TPC-H Q1 in
//! memory at SF1 on two threads takes 46 ms instead of 49.5. Asking for the values' columns while keys are looked for
//! made it slower.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{IntValue, PointerValue};
use weld_core::op::MergeOp;
use weld_core::ty::{BuilderType, Type};
use weld_runtime::DictOffsets;

use super::loops::LoopSite;
use super::prehash::Hashes;
use super::{Columns, Demand, Emitter, Handle, Res, Val, internal};
use crate::analysis::loop_plan::{self, FewGroups, KeySearch, Rows};
use crate::block::Flow;
use crate::tables::codes::Codes;
use crate::values::stream::StreamColumn;

/// A chunk of which every so many-th row is selected is computed as a whole.
const SPREAD_MAX: i64 = 4;

/// A grouped loop, with what is there before it runs.
struct Grouped<'a, 'c> {
    plan: &'a loop_plan::Grouped<'a>,
    site: &'a LoopSite<'a, 'c>,
    /// What is read of the loop's elements.
    demand: Demand,
    /// The rows that the elements are the numbers of, if they are.
    selected: Option<Selected<'c>>,
    /// What the keys are made of if those are codes, and the chunk's first row.
    codes: Option<(Codes<'c>, IntValue<'c>)>,
    handle: &'a Handle<'c>,
    /// Where the numbers of a strip's groups are kept.
    numbers: PointerValue<'c>,
}

/// A vector whose rows are grouped in part.
struct Selected<'c> {
    data: Val<'c>,
    len: IntValue<'c>,
    /// A place for the group of each of its rows.
    dense: PointerValue<'c>,
}

impl<'c> Grouped<'_, 'c> {
    /// Those of keys and values, and how values are merged.
    fn types(&self) -> Res<(&Type, &Type, &MergeOp)> {
        match &self.handle.ty {
            BuilderType::DictMerger { key, value, op } | BuilderType::Numberer { key, value, op, .. } => {
                Ok((key, value, op))
            }
            _ => Err(internal("groups in a builder that makes no dictionary")),
        }
    }

    /// The columns of the chunk that the loop goes over, and its first row, if it goes over one.
    fn chunk(&self) -> Option<(&[StreamColumn<'c>], IntValue<'c>)> {
        match &self.site.source.whole_vector()?.columns {
            Columns::Stream { columns, base } => Some((columns, *base)),
            Columns::Dense(_) => None,
        }
    }

    fn strip_rows(&self) -> i64 {
        self.plan.strip.into()
    }
}

impl<'c> Emitter<'c, '_> {
    pub(super) fn emit_grouped(
        &mut self,
        plan: &loop_plan::Grouped<'_>,
        site: &LoopSite<'_, 'c>,
        handle: &Handle<'c>,
    ) -> Res<()> {
        let demand = self.facts.demands.get(&site.params.element).cloned().unwrap_or_default();
        let selected = self.selected(plan)?;
        let codes = match &plan.search {
            KeySearch::Codes(columns) => Some(self.codes_of_rows(plan, columns, site, selected.as_ref(), handle)?),
            _ => None,
        };
        let numbers = self.alloca(u64::from(plan.strip) * 4, "rows")?;
        self.vars.insert(site.params.builder, site.builders.clone());
        let grouped = Grouped { plan, site, demand, selected, codes, handle, numbers };
        self.strips(site.source.count, plan.strip.into(), site.span, |e, start, size| {
            let spread = match (&plan.few, &grouped.selected) {
                (Some(_), Some(selected)) => Some(e.start_spread(&grouped, selected)?),
                _ => None,
            };
            let hashes = match &plan.search {
                KeySearch::HashedAhead(plan) => Some(e.hashes(plan, site.builders)?),
                _ => None,
            };
            e.find_groups(&grouped, hashes.as_ref(), (start, size), spread)?;
            e.merge_groups(&grouped, (start, size), spread.map(|(is_spread, _)| is_spread))
        })
    }

    /// Looks for the keys of a strip's rows; the numbers of their groups.
    fn find_groups(
        &mut self,
        grouped: &Grouped<'_, 'c>,
        hashes: Option<&Hashes<'c, '_>>,
        (start, size): (IntValue<'c>, IntValue<'c>),
        spread: Option<(IntValue<'c>, PointerValue<'c>)>,
    ) -> Res<()> {
        let Grouped { plan, site, numbers, .. } = grouped;
        let i32 = self.unit.ll.i32_type();
        let step = match &plan.search {
            KeySearch::HashedAhead(hashed) => hashed.strip.into(),
            _ => grouped.strip_rows(),
        };
        self.strips(size, step, site.span, |e, first, count| {
            let start = e.add_nw(start, first)?;
            let hashed = match hashes {
                Some(hashes) => {
                    let end = e.add_nw(start, count)?;
                    Some((hashes, e.hash_ahead(hashes, site, (start, end))?))
                }
                None => None,
            };
            e.gather_loop(count, |e, j| {
                e.hashed = match hashed {
                    Some((hashes, done)) => Some(e.hashed(hashes, done, start, e.add_nw(start, j)?)?),
                    None => None,
                };
                let number = e.find_group(grouped, start, j)?;
                e.hashed = None;
                e.store(e.element_ptr(i32.into(), *numbers, e.add_nw(first, j)?)?, number)?;
                if let Some((is_spread, dense)) = spread {
                    let row = e.selected_row(site)?;
                    let row = e.choose_int(is_spread, row, e.i64(0))?;
                    e.store(e.element_ptr(i32.into(), dense, row)?, number)?;
                }
                Ok(())
            })
        })
    }

    /// The number of the group of row `j` from `start` on.
    fn find_group(&mut self, grouped: &Grouped<'_, 'c>, start: IntValue<'c>, j: IntValue<'c>) -> Res<IntValue<'c>> {
        let Grouped { plan, site, selected, codes, handle, .. } = grouped;
        let types = grouped.types()?;
        let i32 = self.unit.ll.i32_type();
        let find = |e: &mut Self| -> Res<IntValue<'c>> {
            if codes.is_none() || selected.is_none() {
                e.bind_row(grouped, start, j)?;
            }
            let value = e.emit(&plan.key_alone)?;
            let known = e.known_hash(plan.key);
            let number = e.row_of_key(handle, types, (&value, known), site.span)?;
            Ok(e.b.build_int_truncate(number, i32, "")?)
        };
        let Some((codes, base)) = codes else { return find(self) };
        let row = match selected {
            None => self.add_nw(start, j)?,
            Some(_) => {
                self.bind_row(grouped, start, j)?;
                self.selected_row(site)?
            }
        };
        let row = self.add_nw(*base, row)?;
        let asked = self.ask_group(codes, row)?;
        let number = find(self)?;
        self.keep_group(codes, asked, number)
    }

    /// Merges the values of a strip's rows into their groups.
    fn merge_groups(
        &mut self,
        grouped: &Grouped<'_, 'c>,
        (start, size): (IntValue<'c>, IntValue<'c>),
        is_spread: Option<IntValue<'c>>,
    ) -> Res<()> {
        let Grouped { plan, site, handle, numbers, .. } = grouped;
        let (key_ty, ty, op) = grouped.types()?;
        let i32 = self.unit.ll.i32_type();
        let table = self.load_ptr(handle.state)?;
        let entries = self.load_ptr(self.offset(table, DictOffsets::ROWS as u64)?)?;
        let at = |e: &mut Self, number: IntValue<'c>| e.merged_value_ptr(entries, key_ty, ty, number);
        let (each, done) = (self.new_block("each"), self.new_block("merged"));
        if let Some(few) = &plan.few {
            let groups = self.load_i64(self.offset(table, DictOffsets::LEN as u64)?)?;
            self.merge_strip_of_few(few, grouped, &Strip { start, size, groups, is_spread }, &at, each)?;
            if plan.row.is_some() {
                self.gather_loop(size, |e, j| {
                    e.bind_row(grouped, start, j)?;
                    plan.bindings.iter().try_for_each(|binding| e.bind(binding))?;
                    let number = e.load(i32, e.element_ptr(i32.into(), *numbers, j)?)?.into_int_value();
                    e.append_row(grouped, number)
                })?;
            }
            self.branch(done)?;
        } else {
            self.branch(each)?;
        }
        self.at(each);
        self.gather_loop(size, |e, j| {
            e.bind_row(grouped, start, j)?;
            for binding in plan.bindings {
                e.bind(binding)?;
            }
            let number = e.load(i32, e.element_ptr(i32.into(), *numbers, j)?)?.into_int_value();
            let at = at(e, e.to_i64(number)?)?;
            e.merge_expr_at(ty, op, (at, table), plan.value, site.span)?;
            e.append_row(grouped, number)
        })?;
        self.branch(done)?;
        self.at(done);
        Ok(())
    }

    /// Appends the row that is bound, if the builder is a numberer.
    fn append_row(&mut self, grouped: &Grouped<'_, 'c>, number: IntValue<'c>) -> Res<()> {
        let Some(row) = grouped.plan.row else { return Ok(()) };
        let row = self.emit(row)?;
        let number = self.to_i64(number)?;
        self.append_numbered(grouped.handle, number, &row, grouped.site.span)
    }

    /// Binds the loop's own symbols for row `j` of the strip at `start`.
    fn bind_row(&mut self, grouped: &Grouped<'_, 'c>, start: IntValue<'c>, j: IntValue<'c>) -> Res<()> {
        let LoopSite { source, index_base, params, .. } = grouped.site;
        let index = self.add_nw(start, j)?;
        let element = self.source_element(source, index, &grouped.demand)?;
        self.vars.insert(params.element, element);
        let number = match index_base {
            Some(base) => self.add(*base, index)?,
            None => index,
        };
        self.vars.insert(params.index, Val::int(number));
        Ok(())
    }

    /// The number of the row that the loop's element is.
    fn selected_row(&mut self, site: &LoopSite<'_, 'c>) -> Res<IntValue<'c>> {
        let row = self.vars.get(&site.params.element).cloned();
        let row = row.ok_or_else(|| internal("a loop without its element"))?;
        self.to_i64(row.into_int()?)
    }

    fn selected(&mut self, plan: &loop_plan::Grouped<'_>) -> Res<Option<Selected<'c>>> {
        let Rows::Selected { data, .. } = &plan.rows else { return Ok(None) };
        let data = self.emit(data)?;
        let len = self.len_of(&data)?;
        let dense = self.alloca(u64::from(plan.strip) * 4, "groups")?;
        Ok(Some(Selected { data, len, dense }))
    }

    /// The codes that the key of each row is made of, and the chunk's first row in the columns.
    fn codes_of_rows(
        &mut self,
        plan: &loop_plan::Grouped<'_>,
        columns: &[usize],
        site: &LoopSite<'_, 'c>,
        selected: Option<&Selected<'c>>,
        handle: &Handle<'c>,
    ) -> Res<(Codes<'c>, IntValue<'c>)> {
        let vec = match selected {
            Some(selected) => Some(selected.data.vec()?),
            None => site.source.whole_vector(),
        };
        let Some(Columns::Stream { columns: all, base }) = vec.map(|vec| &vec.columns) else {
            return Err(internal("codes of no chunk"));
        };
        let used: Option<Vec<StreamColumn<'c>>> = columns.iter().map(|index| all.get(*index).cloned()).collect();
        let used = used.ok_or_else(|| internal("codes of a column that there is not"))?;
        let row = match &plan.rows {
            Rows::Elements => site.params.element,
            Rows::Selected { lookup, .. } => lookup.sym,
        };
        let table = self.load_ptr(handle.state)?;
        Ok((self.key_codes(used, row.0, (table, site.source.count))?, *base))
    }

    /// Prepares the groups of all rows of a chunk, zero for those that are not selected. They are kept if the chunk
    /// fits a strip and enough of it is selected that computing all of its values costs less than picking some.
    fn start_spread(
        &mut self,
        grouped: &Grouped<'_, 'c>,
        selected: &Selected<'c>,
    ) -> Res<(IntValue<'c>, PointerValue<'c>)> {
        let (count, Selected { len, dense, .. }) = (grouped.site.source.count, selected);
        let fits = self.cmp(IntPredicate::ULE, *len, self.i64(grouped.strip_rows()))?;
        let once = self.cmp(IntPredicate::ULE, count, *len)?;
        let most = self.cmp(IntPredicate::UGE, self.mul(count, self.i64(SPREAD_MAX))?, *len)?;
        let is_spread = self.and(self.and(fits, once)?, most)?;
        let bytes = self.choose_int(is_spread, self.mul(*len, self.i64(4))?, self.i64(0))?;
        self.b.build_memset(*dense, 4, self.unit.ll.i8_type().const_zero(), bytes)?;
        Ok((is_spread, *dense))
    }

    /// Merges a strip group by group, or goes to `each`.
    fn merge_strip_of_few(
        &mut self,
        few: &FewGroups<'_>,
        grouped: &Grouped<'_, 'c>,
        strip: &Strip<'c>,
        at: &dyn Fn(&mut Self, IntValue<'c>) -> Res<PointerValue<'c>>,
        each: BasicBlock<'c>,
    ) -> Res<()> {
        let (compute, merge) = (self.new_block("few"), self.new_block("exact"));
        let mut worth = self.cmp(IntPredicate::ULE, strip.groups, self.i64(few.groups_max.into()))?;
        if let Some(is_spread) = strip.is_spread {
            worth = self.and(worth, is_spread)?;
        }
        self.branch_if(worth, compute, each)?;
        self.at(compute);
        let (len, numbers) = match &grouped.selected {
            None => (strip.size, grouped.numbers),
            Some(selected) => (selected.len, selected.dense),
        };
        let mut bind = |e: &mut Self, j: IntValue<'c>| e.bind_row_of_few(few, grouped, strip.start, j);
        let (mut exact, found, kept) = self.few_values(few, numbers, len, grouped.plan.strip.into(), &mut bind)?;
        if strip.is_spread.is_some() {
            // A row that is selected twice is there once.
            exact = self.and(exact, self.cmp(IntPredicate::EQ, found, strip.size)?)?;
        }
        self.branch_if(exact, merge, each)?;
        self.at(merge);
        self.merge_few(few, &kept, numbers, len, strip.groups, &mut bind, at)
    }

    /// Binds row `j` of a strip that is merged group by group; its columns are loaded where they are used.
    fn bind_row_of_few(
        &mut self,
        few: &FewGroups<'_>,
        grouped: &Grouped<'_, 'c>,
        start: IntValue<'c>,
        j: IntValue<'c>,
    ) -> Res<()> {
        let params = &grouped.site.params;
        match (&grouped.plan.rows, &grouped.selected) {
            (Rows::Selected { lookup, data, .. }, Some(selected)) => {
                let demand = few.demand_of(lookup.sym);
                let row = self.lookup(&selected.data, &data.ty, j, false, &demand, lookup.value.span, true)?;
                self.vars.insert(lookup.sym, row);
            }
            _ => {
                self.bind_row(grouped, start, j)?;
                if let Some((columns, base)) = grouped.chunk() {
                    let row = self.add_nw(base, self.add_nw(start, j)?)?;
                    let demand = few.demand_of(params.element);
                    let row = self.defer_stream_element(columns, params.element_ty, row, &demand)?;
                    self.vars.insert(params.element, row);
                }
            }
        }
        Ok(())
    }
}

/// Rows of a loop whose keys have been looked for.
struct Strip<'c> {
    start: IntValue<'c>,
    size: IntValue<'c>,
    /// How many groups there are in the table.
    groups: IntValue<'c>,
    /// Whether the groups of all rows of a chunk are prepared.
    is_spread: Option<IntValue<'c>>,
}
