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

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{IntValue, PointerValue};
use weld_core::diag::Span;
use weld_core::ir::{Binding, Expr, ExprKind, Func, Sym, build};
use weld_core::op::MergeOp;
use weld_core::ty::{BuilderType, Type};
use weld_runtime::DictOffsets;

use super::few::{Few, GROUPS_MAX};
use super::prehash::MergeAhead;
use super::{Columns, Demand, Emitter, Handle, Res, Val, VecVal, demands, internal, prehash};
use crate::analysis::{allocates, any, speculatable};
use crate::block::Flow;
use crate::tables::codes::Codes;
use crate::values::source::Source;
use crate::values::stream::StreamColumn;

/// Rows of a strip: what they touch stays in the second-level cache.
const STRIP: i64 = 1024;
/// Fewer merged fields leave registers for the key, unless its group follows from codes.
const FIELDS_MIN: usize = 3;
/// A chunk of which every so many-th row is selected is computed as a whole.
const SPREAD_MAX: i64 = 4;
/// What may be computed twice, once for the key and once for the value.
const SHARED_BUDGET: u32 = 4;

/// A loop of this shape.
struct Grouping<'a> {
    bindings: &'a [Binding],
    key: &'a Expr,
    value: &'a Expr,
    /// How many fields are merged.
    fields: usize,
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
    (is_builder && is_flat).then_some(Grouping { bindings, key, value, fields })
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

/// The rows that a loop groups.
enum Rows<'c, 'e> {
    /// Its elements.
    Elements,
    /// Those of a chunk, `data`, that the elements are the numbers of; bound to a symbol.
    Selected { data: Val<'c>, lookup: &'e Binding, ty: &'e Type, len: IntValue<'c>, dense: PointerValue<'c> },
}

impl<'c> Rows<'c, '_> {
    /// What the loop merges, if that can be done group by group.
    fn few<'g>(
        &self,
        grouping: &Grouping<'g>,
        site: &Site<'c, '_>,
        (_, ty, op): (&Type, &Type, &MergeOp),
    ) -> Option<Few<'g>> {
        let Rows::Selected { .. } = self else {
            // Only columns of chunks are read half by half.
            let few = Few::find(grouping.bindings, grouping.value, ty, op)?;
            return (site.chunk().is_some() || !few.has_shorts()).then_some(few);
        };
        // The row is bound; nothing else may be asked of the selection.
        let few = Few::find(&grouping.bindings[1..], grouping.value, ty, op)?;
        let own = [site.syms.0, site.syms.1];
        few.free_vars().iter().all(|sym| !own.contains(sym)).then_some(few)
    }
}

/// The loop at hand.
struct Site<'c, 's> {
    source: &'s Source<'c>,
    base: Option<IntValue<'c>>,
    syms: (Sym, Sym),
    element: &'s Type,
    demand: Demand,
}

impl<'c> Site<'c, '_> {
    /// The columns of the chunk that the loop goes over, and its first row, if it goes over one.
    fn chunk(&self) -> Option<(&[StreamColumn<'c>], IntValue<'c>)> {
        match &self.source.whole_vector()?.columns {
            Columns::Stream { columns, base } => Some((columns, *base)),
            Columns::Dense(_) => None,
        }
    }
}

/// A loop that is known to group rows.
struct Grouped<'a, 'c> {
    grouping: Grouping<'a>,
    site: Site<'c, 'a>,
    rows: Rows<'c, 'a>,
    /// The key, with the bindings that it needs.
    key: Expr,
    /// What can be merged group by group.
    few: Option<Few<'a>>,
    /// What the keys are made of if those are codes, and the chunk's first row.
    codes: Option<(Codes<'c>, IntValue<'c>)>,
    handle: &'a Handle<'c>,
    /// Where the numbers of a strip's groups are kept.
    numbers: PointerValue<'c>,
    span: Span,
}

impl Grouped<'_, '_> {
    /// Those of keys and values, and how values are merged.
    fn types(&self) -> Res<(&Type, &Type, &MergeOp)> {
        match &self.handle.ty {
            BuilderType::DictMerger { key, value, op } => Ok((key, value, op)),
            _ => Err(internal("groups in a builder that is no dictmerger")),
        }
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
        let [(b_sym, _), (i_sym, _), (x_sym, element)] = &func.params[..] else { return Ok(false) };
        let types = (&**key_ty, &**ty, op);
        let demand = self.facts.demands.get(x_sym).cloned().unwrap_or_default();
        let site = Site { source, base, syms: (*i_sym, *x_sym), element, demand };
        let is_wide = grouping.fields >= FIELDS_MIN;
        if !is_wide && !handle.copies_bytes {
            return Ok(false);
        }
        let rows = self.grouped_rows(&grouping, &site)?;
        let few = rows.few(&grouping, &site, types);
        let codes = if handle.copies_bytes { self.codes_of_rows(&rows, &site, &key, handle)? } else { None };
        if !is_wide && codes.is_none() {
            return Ok(false);
        }
        let numbers = self.alloca(STRIP as u64 * 4, "rows")?;
        self.vars.insert(*b_sym, builders.clone());
        let grouped = Grouped { grouping, site, rows, key, few, codes, handle, numbers, span };
        self.strips(source.count, STRIP, span, |e, start, size| {
            let spread = match &grouped.few {
                Some(_) => e.start_spread(&grouped.rows, source.count)?,
                None => None,
            };
            let ahead = match grouped.codes {
                None => e.merge_ahead(builders, func)?,
                Some(_) => None,
            };
            e.find_groups(&grouped, ahead.as_ref(), (start, size), spread)?;
            e.merge_groups(&grouped, (start, size), spread.map(|(is_spread, _)| is_spread))
        })?;
        Ok(true)
    }

    /// Looks for the keys of a strip's rows; the numbers of their groups.
    fn find_groups(
        &mut self,
        grouped: &Grouped<'_, 'c>,
        ahead: Option<&MergeAhead<'c, '_>>,
        (start, size): (IntValue<'c>, IntValue<'c>),
        spread: Option<(IntValue<'c>, PointerValue<'c>)>,
    ) -> Res<()> {
        let Grouped { site, numbers, span, .. } = grouped;
        let i32 = self.unit.ll.i32_type();
        let step = if ahead.is_some() { prehash::STRIP } else { STRIP };
        self.strips(size, step, *span, |e, first, count| {
            let start = e.add_nw(start, first)?;
            let hashed = match ahead {
                Some(ahead) => {
                    let end = e.add_nw(start, count)?;
                    Some((ahead, e.hash_ahead(ahead, site.source, site.syms.1, start, end)?))
                }
                None => None,
            };
            e.gather_loop(count, |e, j| {
                e.hashed = match hashed {
                    Some((ahead, done)) => Some(e.hashed(ahead, done, start, e.add_nw(start, j)?)?),
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
        let Grouped { grouping, site, rows, key, codes, handle, span, .. } = grouped;
        let types = grouped.types()?;
        let i32 = self.unit.ll.i32_type();
        let find = |e: &mut Self| -> Res<IntValue<'c>> {
            if codes.is_none() || matches!(rows, Rows::Elements) {
                e.bind_row(site, start, j)?;
            }
            let value = e.emit(key)?;
            let known = e.known_hash(grouping.key);
            let number = e.row_of_key(handle, types, (&value, known), *span)?;
            Ok(e.b.build_int_truncate(number, i32, "")?)
        };
        let Some((codes, base)) = codes else { return find(self) };
        let row = match rows {
            Rows::Elements => self.add_nw(start, j)?,
            Rows::Selected { .. } => {
                self.bind_row(site, start, j)?;
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
        let Grouped { grouping, site, rows, few, handle, numbers, span, .. } = grouped;
        let (key_ty, ty, op) = grouped.types()?;
        let i32 = self.unit.ll.i32_type();
        let table = self.load_ptr(handle.state)?;
        let entries = self.load_ptr(self.offset(table, DictOffsets::ROWS as u64)?)?;
        let at = |e: &mut Self, number: IntValue<'c>| e.merged_value_ptr(entries, key_ty, ty, number);
        let (each, done) = (self.new_block("each"), self.new_block("merged"));
        if let Some(few) = few {
            let groups = self.load_i64(self.offset(table, DictOffsets::LEN as u64)?)?;
            let strip = Strip { start, size, numbers: *numbers, groups };
            self.merge_strip_of_few(few, rows, site, &strip, is_spread, &at, each)?;
            self.branch(done)?;
        } else {
            self.branch(each)?;
        }
        self.at(each);
        self.gather_loop(size, |e, j| {
            e.bind_row(site, start, j)?;
            for binding in grouping.bindings {
                e.bind(binding)?;
            }
            let number = e.load(i32, e.element_ptr(i32.into(), *numbers, j)?)?.into_int_value();
            let number = e.to_i64(number)?;
            let at = at(e, number)?;
            e.merge_expr_at(ty, op, (at, table), grouping.value, *span)
        })?;
        self.branch(done)?;
        self.at(done);
        Ok(())
    }

    /// Binds the loop's own symbols for row `j` of the strip at `start`.
    fn bind_row(&mut self, site: &Site<'c, '_>, start: IntValue<'c>, j: IntValue<'c>) -> Res<()> {
        let index = self.add_nw(start, j)?;
        let element = self.source_element(site.source, index, &site.demand)?;
        self.vars.insert(site.syms.1, element);
        let number = match site.base {
            Some(base) => self.add(base, index)?,
            None => index,
        };
        self.vars.insert(site.syms.0, Val::int(number));
        Ok(())
    }

    /// The number of the row that the loop's element is.
    fn selected_row(&mut self, site: &Site<'c, '_>) -> Res<IntValue<'c>> {
        let row = self.vars.get(&site.syms.1).cloned().ok_or_else(|| internal("a loop without its element"))?;
        self.to_i64(row.into_int()?)
    }

    fn grouped_rows<'g>(&mut self, grouping: &Grouping<'g>, site: &Site<'c, '_>) -> Res<Rows<'c, 'g>> {
        let Some(first) = grouping.bindings.first() else { return Ok(Rows::Elements) };
        if let ExprKind::Lookup { data, key, checked: false } = &first.value.kind
            && let (ExprKind::Var(_), ExprKind::Cast(of)) = (&data.kind, &key.kind)
            && matches!(of.kind, ExprKind::Var(sym) if sym == site.syms.1)
            && of.ty == Type::I32
        {
            let value = self.emit(data)?;
            let len = self.len_of(&value)?;
            let dense = self.alloca(STRIP as u64 * 4, "groups")?;
            return Ok(Rows::Selected { data: value, lookup: first, ty: &data.ty, len, dense });
        }
        Ok(Rows::Elements)
    }

    /// The codes that the key of each row is made of, if it is, and the chunk's first row in the columns.
    fn codes_of_rows(
        &mut self,
        rows: &Rows<'c, '_>,
        site: &Site<'c, '_>,
        key: &Expr,
        handle: &Handle<'c>,
    ) -> Res<Option<(Codes<'c>, IntValue<'c>)>> {
        let (vec, row, key) = match (rows, &key.kind) {
            (Rows::Elements, _) => (site.source.whole_vector(), site.syms.1, key),
            // The first of the key's bindings is its row.
            (Rows::Selected { data, lookup, .. }, ExprKind::Let { bindings, body }) if matches!(&bindings[..], [row] if row.sym == lookup.sym) => {
                (data.vec().ok(), lookup.sym, &**body)
            }
            _ => return Ok(None),
        };
        let Some(VecVal { columns: Columns::Stream { columns, base }, .. }) = vec else { return Ok(None) };
        let Some(used) = key_columns(key, row, columns.len()) else { return Ok(None) };
        let used: Option<Vec<StreamColumn<'c>>> = used.into_iter().map(|index| columns.get(index).cloned()).collect();
        let Some(used) = used else { return Ok(None) };
        let table = self.load_ptr(handle.state)?;
        Ok(self.key_codes(used, row.0, (table, site.source.count))?.map(|codes| (codes, *base)))
    }

    /// Prepares the groups of all rows of a chunk, zero for those that are not selected. They are kept if the chunk fits a
    /// strip and enough of it is selected that computing all of its values costs less than picking some.
    fn start_spread(
        &mut self,
        rows: &Rows<'c, '_>,
        count: IntValue<'c>,
    ) -> Res<Option<(IntValue<'c>, PointerValue<'c>)>> {
        let Rows::Selected { len, dense, .. } = rows else { return Ok(None) };
        let fits = self.cmp(IntPredicate::ULE, *len, self.i64(STRIP))?;
        let once = self.cmp(IntPredicate::ULE, count, *len)?;
        let most = self.cmp(IntPredicate::UGE, self.mul(count, self.i64(SPREAD_MAX))?, *len)?;
        let is_spread = self.and(self.and(fits, once)?, most)?;
        let bytes = self.choose_int(is_spread, self.mul(*len, self.i64(4))?, self.i64(0))?;
        self.b.build_memset(*dense, 4, self.unit.ll.i8_type().const_zero(), bytes)?;
        Ok(Some((is_spread, *dense)))
    }

    /// Merges a strip group by group, or goes to `each`.
    #[expect(clippy::too_many_arguments, reason = "a loop, a strip and a table")]
    fn merge_strip_of_few(
        &mut self,
        few: &Few<'_>,
        rows: &Rows<'c, '_>,
        site: &Site<'c, '_>,
        strip: &Strip<'c>,
        is_spread: Option<IntValue<'c>>,
        at: &dyn Fn(&mut Self, IntValue<'c>) -> Res<PointerValue<'c>>,
        each: BasicBlock<'c>,
    ) -> Res<()> {
        let (compute, merge) = (self.new_block("few"), self.new_block("exact"));
        let mut worth = self.cmp(IntPredicate::ULE, strip.groups, self.i64(GROUPS_MAX))?;
        if let Some(is_spread) = is_spread {
            worth = self.and(worth, is_spread)?;
        }
        self.branch_if(worth, compute, each)?;
        self.at(compute);
        let (len, numbers) = match rows {
            Rows::Elements => (strip.size, strip.numbers),
            Rows::Selected { len, dense, .. } => (*len, *dense),
        };
        let mut bind = |e: &mut Self, j: IntValue<'c>| match rows {
            Rows::Elements => {
                e.bind_row(site, strip.start, j)?;
                if let Some((columns, base)) = site.chunk() {
                    let row = e.add_nw(base, e.add_nw(strip.start, j)?)?;
                    let row = e.defer_stream_element(columns, site.element, row, &few.demand_of(site.syms.1))?;
                    e.vars.insert(site.syms.1, row);
                }
                Ok(())
            }
            Rows::Selected { data, lookup, ty, .. } => {
                let demand = few.demand_of(lookup.sym);
                let element = e.lookup(data, ty, j, false, &demand, lookup.value.span, true)?;
                e.vars.insert(lookup.sym, element);
                Ok(())
            }
        };
        let (mut exact, found, kept) = self.few_values(few, numbers, len, STRIP as u64, &mut bind)?;
        if is_spread.is_some() {
            // A row that is selected twice is there once.
            exact = self.and(exact, self.cmp(IntPredicate::EQ, found, strip.size)?)?;
        }
        self.branch_if(exact, merge, each)?;
        self.at(merge);
        self.merge_few(few, &kept, numbers, len, strip.groups, &mut bind, at)
    }
}

/// Rows of a loop whose keys have been looked for.
struct Strip<'c> {
    start: IntValue<'c>,
    size: IntValue<'c>,
    numbers: PointerValue<'c>,
    /// How many groups there are in the table.
    groups: IntValue<'c>,
}

/// The columns that `key` is made of, if it is made of nothing but the fields of `row`.
fn key_columns(key: &Expr, row: Sym, columns: usize) -> Option<Vec<usize>> {
    let is_pure = !any(key, &mut |e| matches!(e.kind, ExprKind::CUdf { .. }));
    if !is_pure || key.free_vars().iter().any(|sym| *sym != row) {
        return None;
    }
    let used: Vec<usize> = match demands(key).remove(&row)? {
        Demand::Fields(fields) => (0..fields.len()).filter(|field| fields[*field] != Demand::None).collect(),
        Demand::All => (0..columns).collect(),
        Demand::None => return None,
    };
    Some(used)
}
