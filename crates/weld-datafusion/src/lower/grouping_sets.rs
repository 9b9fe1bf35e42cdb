//! GROUPING SETS, ROLLUP and CUBE: rows are grouped by all keys, and the groups of a set by the keys of a smaller one.
//!
//! `GROUP BY ROLLUP (a, b)` becomes
//! ```weld
//! let groups = result(for(input, dictmerger[{A,B},S,..], ..));
//! let regrouped = result(for(tovec(groups), dictmerger[A,S,..], |b, i, e| merge(b, {e.$0.$0, e.$1})));
//! let total = result(for(tovec(regrouped), merge(dictmerger[bool,S,..], {true, <no rows>}), ..));
//! let states = result(for(tovec(total), for(tovec(regrouped), for(tovec(groups), appender[..], ..), ..), ..));
//! ```
//! DataFusion groups every row once a set. States of groups merge like values, so a set is made of the groups of the
//! smallest set before it that has all of its keys. The bits of a set's id say which keys are null in it, as in
//! DataFusion's `__grouping_id`: the last key is the lowest bit, and above the keys' bits stands the ordinal of a set
//! that is there several times.

use std::collections::HashMap;

use datafusion::physical_plan::aggregates::PhysicalGroupBy;
use weld_core::ir::{Expr, build as ir};
use weld_core::op::MergeOp;
use weld_core::ty::{ScalarKind, Type};

use super::{Lowering, Result, Sql, Unsupported, for_each};

/// Every set is two loops: more than these take too long to compile.
const SETS_MAX: usize = 16;

/// The grouping sets of an aggregate.
#[derive(Clone, Debug)]
pub(crate) struct GroupingSets {
    ids: Vec<u64>,
    keys: usize,
}

/// The groups of one set: a dictionary.
pub(crate) struct Groups {
    /// The keys that are null in the set, a bit each.
    nulls: u64,
    pub(crate) data: Expr,
    /// The keys that it has: their numbers, and whether they may be null.
    kept: Vec<(usize, bool)>,
}

impl GroupingSets {
    pub(crate) fn of(group_by: &PhysicalGroupBy) -> Result<Option<GroupingSets>> {
        if !group_by.has_grouping_set() {
            return Ok(None);
        }
        let keys = group_by.expr().len();
        let unsupported = |why: &str| Unsupported::new("AggregateExec", why);
        if keys == 0 {
            return Err(unsupported("grouping sets without keys"));
        }
        if group_by.groups().len() > SETS_MAX {
            return Err(unsupported("more than 16 grouping sets"));
        }
        let mut seen: HashMap<&[bool], u64> = HashMap::new();
        let mut ids = Vec::new();
        for set in group_by.groups() {
            let nulls = set.iter().fold(0_u64, |bits, is_null| (bits << 1) | u64::from(*is_null));
            let ordinal = seen.entry(set).or_insert(0);
            let above = match *ordinal {
                0 => Some(0),
                ordinal => u32::try_from(keys).ok().and_then(|bits| ordinal.checked_shl(bits)),
            };
            ids.push(nulls | above.ok_or_else(|| unsupported("grouping sets of too many keys"))?);
            *ordinal += 1;
        }
        Ok(Some(GroupingSets { ids, keys }))
    }

    fn bit(&self, key: usize) -> u64 {
        1 << (self.keys - 1 - key)
    }

    /// The keys that are null in a set, without its ordinal.
    fn nulls(&self, id: u64) -> u64 {
        (0..self.keys).map(|key| self.bit(key) & id).sum()
    }

    /// Whether there is a set without keys, which has a group even where there are no rows.
    pub(crate) fn have_total(&self) -> bool {
        self.ids.iter().any(|id| (0..self.keys).all(|key| id & self.bit(key) != 0))
    }

    /// Whether a key is null in one of the sets.
    fn leaves_out(&self, key: usize) -> bool {
        self.ids.iter().any(|id| id & self.bit(key) != 0)
    }

    /// The groups of each set, with its id, made of `groups` by all keys, which may be null as `nullable` says.
    /// `identity` is the state of no rows, which a set without keys starts with.
    pub(crate) fn lower(
        &self,
        lowering: &mut Lowering,
        groups: Expr,
        nullable: &[bool],
        (op, identity): (MergeOp, Expr),
    ) -> Result<Vec<(u64, Groups)>> {
        let kept = nullable.iter().copied().enumerate().collect();
        let mut made = vec![Groups { nulls: 0, data: groups, kept }];
        let mut wanted: Vec<u64> = self.ids.iter().map(|id| self.nulls(*id)).filter(|nulls| *nulls != 0).collect();
        wanted.sort_by_key(|nulls| (nulls.count_ones(), *nulls));
        wanted.dedup();
        for nulls in wanted {
            let holds_it = made.iter().filter(|groups| groups.nulls & !nulls == 0);
            let Some(source) = holds_it.max_by_key(|groups| groups.nulls.count_ones()) else { continue };
            let regrouped = self.regroup(lowering, source, nulls, op.clone(), &identity)?;
            made.push(regrouped);
        }
        let of = |id: &u64| {
            let groups = made.iter().find(|groups| groups.nulls == self.nulls(*id))?;
            Some((*id, Groups { nulls: groups.nulls, data: groups.data.clone(), kept: groups.kept.clone() }))
        };
        Ok(self.ids.iter().filter_map(of).collect())
    }

    fn regroup(
        &self,
        lowering: &mut Lowering,
        source: &Groups,
        nulls: u64,
        op: MergeOp,
        identity: &Expr,
    ) -> Result<Groups> {
        let kept: Vec<_> = source.kept.iter().copied().filter(|(key, _)| nulls & self.bit(*key) == 0).collect();
        let filled = for_each(&mut lowering.env, ir::to_vec(source.data.clone()), "e", |_, e| {
            let keys = source.keys(&e).into_iter().filter(|(key, _)| nulls & self.bit(*key) == 0);
            let mut stored: Vec<Expr> = keys.map(|(_, sql)| sql.interned().stored()).collect();
            let key = match stored.len() {
                0 => ir::bool(true),
                1 => stored.remove(0),
                _ => ir::strct(stored),
            };
            let state = ir::field(e, 1);
            let mut builder = ir::dict_merger(key.ty.clone(), state.ty.clone(), op);
            if kept.is_empty() {
                builder = ir::merge(builder, ir::strct([key.clone(), identity.clone()]));
            }
            Ok((builder, move |b: Expr| ir::merge(b, ir::strct([key, state]))))
        })?;
        Ok(Groups { nulls, data: lowering.bind("regrouped", ir::result(filled)), kept })
    }

    /// The columns of a group's key in the set `id`: all keys, of the types `types`, and the id.
    pub(crate) fn key(&self, id: u64, groups: &Groups, e: &Expr, types: &[Type], id_kind: ScalarKind) -> Vec<Sql> {
        let absent = |ty: &Type| Sql { value: ir::zero(ty), valid: Some(ir::bool(false)) };
        let mut columns: Vec<Sql> = types.iter().map(absent).collect();
        for (key, sql) in groups.keys(e) {
            columns[key] = match self.leaves_out(key) {
                true => Sql { valid: Some(sql.valid()), value: sql.value },
                false => sql,
            };
        }
        columns.push(Sql::required(ir::number(id_kind, i128::from(id))));
        columns
    }
}

impl Groups {
    /// The keys of an entry `e`, with their numbers; a single one is not in a struct.
    fn keys(&self, e: &Expr) -> Vec<(usize, Sql)> {
        let key = ir::field(e.clone(), 0);
        let part = |at| if self.kept.len() == 1 { key.clone() } else { ir::field(key.clone(), at) };
        self.kept.iter().enumerate().map(|(at, (key, nullable))| (*key, Sql::load(part(at), *nullable))).collect()
    }
}
