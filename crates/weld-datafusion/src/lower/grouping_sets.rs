//! GROUPING SETS, ROLLUP and CUBE: rows are grouped by all keys first, and the groups once more for each set.
//!
//! ```weld
//! let groups = result(for(input, dictmerger[{K1,K2},S,..], ..));
//! let grouped = result(for(tovec(groups), dictmerger[{{K1,bool},{K2,bool},u8},S,..],
//!   |b, i, e| for(ids, b, |b, j, id| merge(b, {{<K1 or null>, <K2 or null>, id}, e.$1}))));
//! let states = result(for(tovec(grouped), for(tovec(groups), appender[..], ..), ..));
//! ```
//! DataFusion groups every row once a set. States of groups merge like values, so the second loop sees each group once
//! a set instead, but for the set of all keys, which ROLLUP and CUBE have: its groups are there already. The bits of a set's id say which keys are null in it, as in DataFusion's `__grouping_id`: the last
//! key is the lowest bit, and above the keys' bits stands the ordinal of a set that is there several times.

use std::collections::HashMap;

use datafusion::physical_plan::aggregates::PhysicalGroupBy;
use weld_core::ir::{Expr, Func, build as ir};
use weld_core::op::MergeOp;
use weld_core::ty::{ScalarKind, Type};

use super::{Block, Lowering, Result, Sql, Unsupported, for_each};

/// The grouping sets of an aggregate over `keys` keys.
#[derive(Clone, Debug)]
pub(crate) struct GroupingSets {
    /// But for the set of all keys.
    ids: Vec<u64>,
    has_whole: bool,
    keys: usize,
}

impl GroupingSets {
    pub(crate) fn of(group_by: &PhysicalGroupBy) -> Result<Option<GroupingSets>> {
        if !group_by.has_grouping_set() {
            return Ok(None);
        }
        let keys = group_by.expr().len();
        if keys == 0 {
            return Err(Unsupported::new("AggregateExec", "grouping sets without keys"));
        }
        let mut seen: HashMap<&[bool], u64> = HashMap::new();
        let id = |set: &Vec<bool>, ordinal: u64| {
            let nulls = set.iter().fold(0_u64, |bits, is_null| (bits << 1) | u64::from(*is_null));
            let ordinal =
                if ordinal == 0 { Some(0) } else { u32::try_from(keys).ok().and_then(|n| ordinal.checked_shl(n)) };
            ordinal.map(|ordinal| nulls | ordinal)
        };
        let mut ids = Vec::new();
        for set in group_by.groups() {
            let ordinal = seen.entry(set).or_insert(0);
            ids.push(
                id(set, *ordinal).ok_or_else(|| Unsupported::new("AggregateExec", "grouping sets of too many keys"))?,
            );
            *ordinal += 1;
        }
        let sets = ids.len();
        ids.retain(|id| *id != 0);
        Ok(Some(GroupingSets { has_whole: ids.len() < sets, ids, keys }))
    }

    fn bit(&self, key: usize) -> u64 {
        1 << (self.keys - 1 - key)
    }

    /// Whether a key is null in one of the sets.
    fn leaves_out(&self, key: usize) -> bool {
        self.ids.iter().any(|id| id & self.bit(key) != 0)
    }

    /// Whether all keys are null in the set: it has a group even where there are no rows.
    fn is_total(&self, id: u64) -> bool {
        (0..self.keys).all(|key| id & self.bit(key) != 0)
    }

    /// Which of the columns of a group's key may be null, the id's included.
    pub(crate) fn nullable(&self, keys: &[bool]) -> Vec<bool> {
        let keys = keys.iter().enumerate().map(|(key, nullable)| *nullable || self.leaves_out(key));
        keys.chain([false]).collect()
    }

    /// Whether the groups of all keys are among the sets.
    pub(crate) fn has_whole(&self) -> bool {
        self.has_whole
    }

    /// The key of a group of all `keys`, as those of the other sets are stored.
    pub(crate) fn whole(&self, keys: Vec<Sql>, id_kind: ScalarKind) -> Vec<Sql> {
        let as_others = |(key, sql): (usize, Sql)| match self.leaves_out(key) {
            true => Sql { valid: Some(sql.valid()), value: sql.value },
            false => sql,
        };
        let keys = keys.into_iter().enumerate().map(as_others);
        keys.chain([Sql::required(ir::number(id_kind, 0))]).collect()
    }

    /// Groups `groups` once more, for each of the other sets. `keys` reads a group's keys; `identity` is the state of no rows, which the
    /// sets without keys start with. Ids are of the kind `id_kind`.
    pub(crate) fn lower(
        &self,
        lowering: &mut Lowering,
        groups: Expr,
        keys: impl Fn(&Expr) -> Vec<Sql>,
        (op, identity): (MergeOp, Expr),
        id_kind: ScalarKind,
    ) -> Result<Expr> {
        let id_type = Type::Scalar(id_kind);
        let number = |id: u64| ir::number(id_kind, i128::from(id));
        let ids = lowering.bind("sets", ir::vector(id_type.clone(), self.ids.iter().map(|id| number(*id))));
        let filled = for_each(&mut lowering.env, ir::to_vec(groups), "e", |block, e| {
            let names = &mut block.env.names;
            let (b, j, id) = (names.fresh("b"), names.fresh("j"), names.fresh("id"));
            let state = ir::field(e.clone(), 1);
            let mut inner = Block::new(block.env);
            let key = self.key(&mut inner, keys(&e), ir::var(id, id_type.clone()), id_kind);
            let mut builder = ir::dict_merger(key.ty.clone(), state.ty.clone(), op);
            for total in self.ids.iter().filter(|id| self.is_total(**id)) {
                let mut nulls: Vec<Expr> = key.ty.fields().unwrap_or_default().iter().map(ir::zero).collect();
                nulls[self.keys] = number(*total);
                builder = ir::merge(builder, ir::strct([ir::strct(nulls), identity.clone()]));
            }
            let merged = ir::merge(ir::var(b, builder.ty.clone()), ir::strct([key, state]));
            let params = vec![(b, builder.ty.clone()), (j, Type::I64), (id, id_type.clone())];
            let body = Func { params, body: Box::new(inner.close(merged)) };
            Ok((builder, move |outer: Expr| ir::for_func(ir::over(ids), outer, body)))
        })?;
        Ok(lowering.bind("grouped", ir::result(filled)))
    }

    /// The key of a group in the set `id`: its keys but for those that are null there, and the id.
    fn key(&self, block: &mut Block<'_>, keys: Vec<Sql>, id: Expr, id_kind: ScalarKind) -> Expr {
        let in_set = |(key, sql): (usize, Sql)| {
            if !self.leaves_out(key) {
                return sql.stored();
            }
            let bit = ir::bit_and(id.clone(), ir::number(id_kind, i128::from(self.bit(key))));
            let is_in = block.share("in", ir::eq(bit, ir::number(id_kind, 0)));
            let valid = match sql.valid {
                Some(valid) => ir::and(is_in, valid),
                None => is_in,
            };
            let valid = block.share("valid", valid);
            let value = if sql.value.ty == Type::BOOL { ir::and(valid.clone(), sql.value) } else { sql.value };
            Sql { value, valid: Some(valid) }.stored()
        };
        let stored: Vec<Expr> = keys.into_iter().enumerate().map(in_set).collect();
        ir::strct(stored.into_iter().chain([id.clone()]))
    }
}
