//! Keys that are known some iterations early, so that the memory of a table is asked for before it is needed.
//!
//! A key is early if it follows from the loop's element by operations that cannot fail and cost little beside the cache
//! miss that they spare:
//!
//! ```text
//! for(sel, b, |b, i, j| let m = optlookup(t, lookup(c, j)); ..)      lookup(c, j) is early
//! for(sel, b, |b, i, x| let n = find_row(t, x.$1, ..); ..)           and so is a hash that is known already
//! for(sel, b, |b, i, x| for(row_value(t, x.$1), ..))                 or the row itself
//! for(v, dictmerger, |b, i, x| merge(b, {x.$0, ..}))                 x.$0 is early
//! ```

use weld_core::ir::{Binding, Expr, ExprKind, Func, Iter, Sym, deep};
use weld_core::op::{BinaryOp, Intrinsic, UnaryOp};
use weld_core::opt::can_fail;
use weld_core::ty::{BuilderType, Type};

use super::{FastPath, Inputs, Params};

/// More than two lookups an iteration keep the processor busy anyhow.
const LOOKUPS_MAX: usize = 2;
/// Nor does it have many lines of memory under way: values of more tables are not asked for.
const ROWS_MAX: usize = 4;
/// Iterations between asking for a slot and using it. At half the way its row is asked for.
const DISTANCE: u32 = 24;
/// What an entry takes of a table's directory, about.
pub(crate) const SLOT_BYTES: u32 = 16;
/// Tables that keys index are fetched ahead from so many times the entries that fill the second-level cache with bytes:
/// until then the processor overlaps the waits of iterations by itself, as nothing but the bits decides where to look.
/// TPC-H's lineitem joined with part (200,000 keys) takes 66 ms without and 95 ms with it, with orders (1.5 million) 79
/// and 107.
const DENSE_FACTOR: u32 = 8;

/// A key that can be computed before its iteration.
pub(crate) struct EarlyKey<'e> {
    pub(crate) key: &'e Expr,
    /// What the key needs of the body's own bindings, in order.
    pub(crate) bindings: Vec<&'e Binding>,
    /// Only where this holds may the key be read: what is under a null may be anything.
    pub(crate) valid: Option<Box<EarlyKey<'e>>>,
}

/// A lookup that every iteration does, or whose key is not null, and of which the memory is asked for early.
pub(crate) struct Prefetch<'e> {
    pub(crate) table: Sym,
    /// The type of the table.
    pub(crate) dict: &'e Type,
    pub(crate) known: Known<'e>,
    /// In iterations.
    pub(crate) distance: u32,
    /// Tables of fewer entries stay in the second-level cache.
    pub(crate) entries_min: u32,
    /// The same of dense tables.
    pub(crate) dense_entries_min: u32,
}

/// What is known early of a lookup.
pub(crate) enum Known<'e> {
    Key(EarlyKey<'e>),
    Hash(EarlyKey<'e>),
    /// The row whose values are read, and what a loop over these calls one of them.
    Row(EarlyKey<'e>, Option<Sym>),
}

/// A merge into a dictionary that every iteration does, and of which the keys are hashed a strip at a time.
pub(crate) struct HashAhead<'e> {
    pub(crate) key: EarlyKey<'e>,
    /// Where the dictionary is in the loop's builders: the fields, from the outside in.
    pub(crate) builder: Vec<usize>,
    pub(crate) key_ty: &'e Type,
    pub(crate) value_ty: &'e Type,
    /// Iterations hashed at a time.
    pub(crate) strip: u32,
    /// Smaller tables stay in the second-level cache.
    pub(crate) table_bytes_min: u32,
}

/// The lookups of a loop that are worth asking for early.
pub(super) fn prefetches<'e>(func: &'e Func, params: &Params<'_>, inputs: &Inputs<'_>) -> Vec<Prefetch<'e>> {
    let mut lookups = Vec::new();
    collect(&func.body, &mut Scope::default(), false, &mut lookups);
    lookups.retain(|Lookup { known, .. }| !known.key().uses(params.index) && known.key().uses(params.element));
    if !inputs.allows(FastPath::Prefetches) {
        return Vec::new();
    }
    let is_search = |lookup: &Lookup<'_>| !matches!(lookup.known, Known::Row(..));
    if lookups.iter().filter(|lookup| is_search(lookup)).count() > LOOKUPS_MAX {
        lookups.retain(|lookup| !is_search(lookup));
    }
    lookups.truncate(ROWS_MAX);
    let l2_bytes = inputs.machine.l2_bytes;
    let prefetch = |Lookup { table, dict, known }| Prefetch {
        table,
        dict,
        known,
        distance: DISTANCE,
        entries_min: l2_bytes / SLOT_BYTES,
        dense_entries_min: l2_bytes.saturating_mul(DENSE_FACTOR),
    };
    lookups.into_iter().map(prefetch).collect()
}

/// The merge of a loop whose keys are worth hashing ahead.
pub(super) fn hash_ahead<'e>(func: &'e Func, params: &Params<'e>, inputs: &Inputs<'_>) -> Option<HashAhead<'e>> {
    if !inputs.allows(FastPath::HashAhead) {
        return None;
    }
    let mut bindings = Vec::new();
    let mut body = &*func.body;
    while let ExprKind::Let { bindings: these, body: inner } = &body.kind {
        bindings.extend(these);
        body = inner;
    }
    let (builder, key) = merged_key(body, params.builder)?;
    let mut ty = params.builder_ty;
    for field in &builder {
        ty = ty.fields()?.get(*field)?;
    }
    let Type::Builder(
        BuilderType::DictMerger { key: key_ty, value: value_ty, .. }
        | BuilderType::Numberer { key: key_ty, value: value_ty, .. },
    ) = ty
    else {
        return None;
    };
    let key = EarlyKey { key, bindings: needed(key, &bindings)?, valid: None };
    if key.uses(params.index) || !key.uses(params.element) || key.uses(params.builder) {
        return None;
    }
    let machine = inputs.machine;
    let strip = machine.keys_ahead();
    Some(HashAhead { key, builder, key_ty, value_ty, strip, table_bytes_min: machine.l2_bytes })
}

impl EarlyKey<'_> {
    fn uses(&self, sym: Sym) -> bool {
        self.key.count_uses(sym) > 0
            || self.bindings.iter().any(|binding| binding.value.count_uses(sym) > 0)
            || self.valid.as_ref().is_some_and(|valid| valid.uses(sym))
    }
}

impl Known<'_> {
    fn key(&self) -> &EarlyKey<'_> {
        match self {
            Known::Key(key) | Known::Hash(key) | Known::Row(key, _) => key,
        }
    }
}

/// What is known at a place in a body.
#[derive(Default)]
struct Scope<'e> {
    bindings: Vec<&'e Binding>,
    /// The condition that holds, and what it needs of the bindings.
    valid: Option<(&'e Expr, Vec<&'e Binding>)>,
}

/// A lookup that each iteration does.
struct Lookup<'e> {
    table: Sym,
    dict: &'e Type,
    known: Known<'e>,
}

/// Lookups on every path through a body, but for those of keys that are null. Inside of loops only values of rows count: which
/// rows these are may be known outside.
fn collect<'e>(expr: &'e Expr, scope: &mut Scope<'e>, is_inner: bool, found: &mut Vec<Lookup<'e>>) {
    match &expr.kind {
        ExprKind::Let { bindings, body } => {
            for binding in bindings {
                collect(&binding.value, scope, is_inner, found);
                scope.bindings.push(binding);
            }
            collect(body, scope, is_inner, found);
        }
        ExprKind::If { cond, on_true, .. } => {
            collect(cond, scope, is_inner, found);
            if scope.valid.is_none()
                && let Some(bindings) = validity(cond, &scope.bindings)
            {
                scope.valid = Some((cond, bindings));
                collect(on_true, scope, is_inner, found);
                scope.valid = None;
            }
        }
        ExprKind::Binary(BinaryOp::And | BinaryOp::Or, a, _) => collect(a, scope, is_inner, found),
        // What loops and functions do, they do often enough to fetch for themselves.
        ExprKind::For { iter, func, .. } => {
            let known = found.len();
            iter.each_child(&mut |part| deep(|| collect(part, scope, is_inner, found)));
            if let Iter::Vector(data) = &**iter
                && matches!(data.kind, ExprKind::Intrinsic(Intrinsic::RowValue, _))
                && let Some(Lookup { known: Known::Row(_, element), .. }) = found[known..].last_mut()
            {
                *element = func.params.get(2).map(|(sym, _)| *sym);
            }
            deep(|| collect(&func.body, scope, true, found));
        }
        ExprKind::Iterate { .. } | ExprKind::Sort { .. } => {}
        _ => {
            expr.each_child(&mut |child| deep(|| collect(child, scope, is_inner, found)));
            found.extend(lookup(expr, scope).filter(|lookup| !is_inner || matches!(lookup.known, Known::Row(..))));
        }
    }
}

/// What a condition needs of the bindings, if it is a field of what is known early, as keys have that may be null: most are
/// not, so that each iteration does what follows.
fn validity<'e>(cond: &'e Expr, bindings: &[&'e Binding]) -> Option<Vec<&'e Binding>> {
    needed(cond, bindings).filter(|_| matches!(cond.kind, ExprKind::Field(..)))
}

/// The lookup that an expression is, if the table is there before the body and enough of it is known early.
fn lookup<'e>(expr: &'e Expr, scope: &Scope<'e>) -> Option<Lookup<'e>> {
    let valid = || {
        let (key, bindings) = scope.valid.clone()?;
        Some(Box::new(EarlyKey { key, bindings, valid: None }))
    };
    let early = |key: &'e Expr| needed(key, &scope.bindings).map(|bindings| EarlyKey { key, bindings, valid: valid() });
    let (data, known) = match &expr.kind {
        ExprKind::OptLookup { data, key } | ExprKind::KeyExists { data, key } | ExprKind::Lookup { data, key, .. } => {
            (&**data, Known::Key(early(key)?))
        }
        ExprKind::Intrinsic(Intrinsic::FindRow, args) => (&args[0], Known::Hash(early(&args[1])?)),
        // Other values lie beside the keys.
        ExprKind::Intrinsic(Intrinsic::RowValue, args) if expr.ty.element().is_some() => {
            (&args[0], Known::Row(early(&args[1])?, None))
        }
        _ => return None,
    };
    let (ExprKind::Var(table), Type::Dict(..)) = (&data.kind, &data.ty) else { return None };
    let is_own = scope.bindings.iter().any(|binding| binding.sym == *table);
    (!is_own).then_some(Lookup { table: *table, dict: &data.ty, known })
}

/// The key of the first merge that a body without conditions does, and where its builder is in `b`, from the outside
/// in.
fn merged_key(body: &Expr, b: Sym) -> Option<(Vec<usize>, &Expr)> {
    match &body.kind {
        ExprKind::Merge { builder, value } => {
            let ExprKind::Struct(entry) = &value.kind else { return None };
            let entry_fields = match &builder.ty {
                Type::Builder(BuilderType::DictMerger { .. }) => 2,
                Type::Builder(BuilderType::Numberer { .. }) => 3,
                _ => return None,
            };
            let mut path = Vec::new();
            let mut at = &**builder;
            while let ExprKind::Field(of, index) = &at.kind {
                path.push(*index as usize);
                at = of;
            }
            path.reverse();
            let is_b = matches!(&at.kind, ExprKind::Var(sym) if *sym == b);
            (is_b && entry.len() == entry_fields).then(|| (path, &entry[0]))
        }
        ExprKind::Struct(fields) => fields.iter().find_map(|field| merged_key(field, b)),
        _ => None,
    }
}

/// The bindings that a key needs, if they and the key can be computed early: they are cheap and cannot fail.
fn needed<'e>(key: &'e Expr, scope: &[&'e Binding]) -> Option<Vec<&'e Binding>> {
    let is_early = |expr: &Expr| is_cheap(expr) && !can_fail(expr);
    let needed = bindings_of(key, scope);
    (is_early(key) && needed.iter().all(|binding| is_early(&binding.value))).then_some(needed)
}

/// The bindings that an expression needs, directly or not, in order.
fn bindings_of<'e>(expr: &'e Expr, scope: &[&'e Binding]) -> Vec<&'e Binding> {
    let mut wanted = expr.free_vars();
    let mut needed = Vec::new();
    for binding in scope.iter().rev() {
        if wanted.contains(&binding.sym) {
            wanted.extend(binding.value.free_vars());
            needed.push(*binding);
        }
    }
    needed.reverse();
    needed
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
                // Of texts by code, as those are whose groups are interned while they are streamed.
                | Intrinsic::Intern
        ),
        _ => false,
    };
    let mut all = this;
    expr.each_child(&mut |child| all = all && deep(|| is_cheap(child)));
    all
}
