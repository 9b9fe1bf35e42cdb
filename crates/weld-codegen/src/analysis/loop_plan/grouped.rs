//! Grouping: loops that merge every row into one dictionary,
//!
//! ```text
//! for(v, dictmerger[K,{V0,V1,..},op], |b, i, r| let x = ..; merge(b, {key(r), {value0(x), value1(x), ..}}))
//! ```
//!
//! A strip's keys are looked for first, its values are merged then. That pays where there are enough values for a key's
//! search and the merge of the row before to be in each other's way, or where the key is found by dictionary codes. A
//! numberer appends its rows with the values.

use weld_core::ir::{Binding, Expr, ExprKind, Func, Sym, build};
use weld_core::op::MergeOp;
use weld_core::ty::{BuilderType, Type};

use super::early_keys::{HashAhead, hash_ahead};
use super::few_groups::FewGroups;
use super::{FastPath, Inputs, Params};
use crate::analysis::{Demand, allocates, any, demands, speculatable};
use crate::chunk::{ColumnLayout, Layout};

/// Fewer merged fields leave registers for the key, unless its group follows from codes.
const FIELDS_MIN: usize = 3;
/// What may be computed twice, once for the key and once for the value.
const SHARED_BUDGET: u32 = 4;
/// What a row of a strip touches, about.
const ROW_BYTES: u32 = 512;
/// Columns whose codes a key can be looked up by.
const CODES_MAX: usize = 4;

/// A loop that groups rows.
pub(crate) struct Grouped<'e> {
    /// What keys and values are made of, in order.
    pub(crate) bindings: &'e [Binding],
    /// The key as it stands in the body.
    pub(crate) key: &'e Expr,
    /// The key with those bindings that it needs.
    pub(crate) key_alone: Expr,
    pub(crate) value: &'e Expr,
    /// What a numberer appends.
    pub(crate) row: Option<&'e Expr>,
    pub(crate) rows: Rows<'e>,
    /// How the values of a strip are merged if it belongs to few groups.
    pub(crate) few: Option<FewGroups<'e>>,
    pub(crate) search: KeySearch<'e>,
    /// Rows whose keys are looked for at a time: what they touch stays in the second-level cache.
    pub(crate) strip: u32,
}

/// The rows that a loop groups.
pub(crate) enum Rows<'e> {
    /// Its elements.
    Elements,
    /// Those of a vector that the elements are the numbers of, as the first binding looks them up.
    Selected { lookup: &'e Binding, data: &'e Expr, vector: Sym },
}

/// How a row's group is found.
pub(crate) enum KeySearch<'e> {
    /// By the dictionary codes of these columns, which the key is made of; by its hash for a new combination of them.
    Codes(Vec<usize>),
    /// By its hash; those of a large table are computed some rows ahead.
    HashedAhead(HashAhead<'e>),
    /// By its hash.
    Hashed,
}

/// The parts of such a loop.
struct Parts<'e> {
    bindings: &'e [Binding],
    key: &'e Expr,
    value: &'e Expr,
    row: Option<&'e Expr>,
}

pub(super) fn find<'e>(func: &'e Func, params: &Params<'e>, inputs: &Inputs<'_>) -> Option<Grouped<'e>> {
    let Type::Builder(BuilderType::DictMerger { value: ty, op, .. } | BuilderType::Numberer { value: ty, op, .. }) =
        params.builder_ty
    else {
        return None;
    };
    let parts = parts(func, params)?;
    let key_alone = parts.key_alone()?;
    let fields_of = |value: &Expr| match &value.kind {
        ExprKind::Struct(fields) => fields.len(),
        _ => 1,
    };
    let fields = fields_of(parts.value) + parts.row.map_or(0, fields_of);
    let rows = parts.rows(params);
    let chunk = match &rows {
        Rows::Elements => inputs.chunk.map(<[_]>::to_vec),
        Rows::Selected { vector, .. } => (inputs.chunk_of)(*vector),
    };
    let row = match &rows {
        Rows::Elements => params.element,
        Rows::Selected { lookup, .. } => lookup.sym,
    };
    // What a table knows of codes it keeps from chunk to chunk; other tables are gone too soon.
    let codes = chunk.as_deref().filter(|_| inputs.copies_bytes && inputs.allows(FastPath::KeyCodes));
    let codes = codes.and_then(|chunk| key_codes(key_of_row(&rows, &key_alone)?, row, chunk));
    if fields < FIELDS_MIN && codes.is_none() {
        return None;
    }
    let few = parts.few(&rows, params, (ty, op), chunk.as_deref()).filter(|_| inputs.allows(FastPath::FewGroups));
    let search = match codes {
        Some(codes) => KeySearch::Codes(codes),
        None => hash_ahead(func, params, inputs).map_or(KeySearch::Hashed, KeySearch::HashedAhead),
    };
    let Parts { bindings, key, value, row } = parts;
    let strip = inputs.machine.l2_bytes / ROW_BYTES;
    Some(Grouped { bindings, key, key_alone, value, row, rows, few, search, strip })
}

fn parts<'e>(func: &'e Func, params: &Params<'_>) -> Option<Parts<'e>> {
    let (bindings, body) = match &func.body.kind {
        ExprKind::Let { bindings, body } => (&bindings[..], &**body),
        _ => (&[][..], &*func.body),
    };
    let ExprKind::Merge { builder: target, value } = &body.kind else { return None };
    let ExprKind::Struct(entry) = &value.kind else { return None };
    let (key, value, row) = match &entry[..] {
        [key, value] => (key, value, None),
        [key, value, row] => (key, value, Some(row)),
        _ => return None,
    };
    let is_builder = matches!(target.kind, ExprKind::Var(sym) if sym == params.builder);
    // Lookups have their memory fetched ahead in one loop.
    let is_flat = !allocates(&func.body)
        && !any(&func.body, &mut |e| match &e.kind {
            ExprKind::Iterate { .. } | ExprKind::OptLookup { .. } | ExprKind::KeyExists { .. } => true,
            ExprKind::Lookup { data, .. } => matches!(data.ty, Type::Dict(..)),
            _ => false,
        });
    (is_builder && is_flat).then_some(Parts { bindings, key, value, row })
}

impl<'e> Parts<'e> {
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

    fn rows(&self, params: &Params<'_>) -> Rows<'e> {
        if let Some(lookup) = self.bindings.first()
            && let ExprKind::Lookup { data, key, checked: false } = &lookup.value.kind
            && let (ExprKind::Var(vector), ExprKind::Cast(of)) = (&data.kind, &key.kind)
            && matches!(of.kind, ExprKind::Var(sym) if sym == params.element)
            && of.ty == Type::I32
        {
            return Rows::Selected { lookup, data, vector: *vector };
        }
        Rows::Elements
    }

    /// What the loop merges, if that can be done group by group.
    fn few(
        &self,
        rows: &Rows<'e>,
        params: &Params<'_>,
        (ty, op): (&Type, &MergeOp),
        chunk: Option<&[ColumnLayout]>,
    ) -> Option<FewGroups<'e>> {
        let Rows::Selected { lookup, .. } = rows else {
            // Only columns of chunks are read half by half.
            let few = FewGroups::find(self.bindings, self.value, (ty, op), chunk.map(|chunk| (params.element, chunk)))?;
            return (chunk.is_some() || !few.has_narrowed()).then_some(few);
        };
        // The row is bound; nothing else may be asked of the selection.
        let row = chunk.map(|chunk| (lookup.sym, chunk));
        let few = FewGroups::find(&self.bindings[1..], self.value, (ty, op), row)?;
        let own = [params.index, params.element];
        few.free_vars().iter().all(|sym| !own.contains(sym)).then_some(few)
    }
}

/// The key as an expression over the row, if it needs no other binding.
fn key_of_row<'k>(rows: &Rows<'_>, key_alone: &'k Expr) -> Option<&'k Expr> {
    match (rows, &key_alone.kind) {
        (Rows::Elements, _) => Some(key_alone),
        (Rows::Selected { lookup, .. }, ExprKind::Let { bindings, body }) => {
            matches!(&bindings[..], [row] if row.sym == lookup.sym).then_some(&**body)
        }
        (Rows::Selected { .. }, _) => None,
    }
}

/// The columns that `key` is made of, if those are dictionary-encoded, few, and all that it is made of.
fn key_codes(key: &Expr, row: Sym, chunk: &[ColumnLayout]) -> Option<Vec<usize>> {
    let is_pure = !any(key, &mut |e| matches!(e.kind, ExprKind::CUdf { .. }));
    if !is_pure || key.free_vars().iter().any(|sym| *sym != row) {
        return None;
    }
    let used: Vec<usize> = match demands(key).remove(&row)? {
        Demand::Fields(fields) => (0..fields.len()).filter(|field| fields[*field] != Demand::None).collect(),
        Demand::All | Demand::Equality => (0..chunk.len()).collect(),
        Demand::None => return None,
    };
    let is_encoded =
        |column: &usize| matches!(chunk.get(*column), Some(ColumnLayout { layout: Layout::Dictionary { .. }, .. }));
    (!used.is_empty() && used.len() <= CODES_MAX && used.iter().all(is_encoded)).then_some(used)
}
