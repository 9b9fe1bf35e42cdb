//! What comes out while the probe side's rows are streamed: pairs, rows that have a match or none, rows with a mark.
//!
//! ```weld
//! # right semi (with ! anti)               # right mark                              # right outer
//! if(keyexists(table, r.$0),               merge(b, {r.$1, keyexists(table, r.$0)})  let m = optlookup(table, r.$0);
//!    merge(b, {r.$1}), b)                                                            if(m.$0, for(m.$1, b, |b, j, v| ..),
//!                                                                                       merge(b, {r.$1, {0, false}}))
//! ```
//! With a join filter a row has a match if one of those that the table has for its key passes.

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_plan::joins::utils::ColumnIndex;
use weld_core::ir::{Binding, Expr, Func, build as ir};
use weld_core::op::{Intrinsic, MergeOp, ReduceOp};
use weld_core::ty::{ScalarKind, Type};

use super::super::operator::append;
use super::super::{Block, Lowering, Result, Rows, Sql, for_each, inner_row};
use super::preserve::NO_ROW;
use super::{Join, Table, one_key};

impl Join {
    /// The probe loop over the probe side's rows.
    pub(crate) fn lower_probe(
        &self,
        lowering: &mut Lowering,
        input: &Rows,
        table: &Table,
        needed: &[bool],
    ) -> Result<Rows> {
        match self.gives_pairs() {
            true => self.lower_pairs(lowering, input, table, needed),
            false => self.lower_filter(lowering, input, table, needed),
        }
    }

    /// The probe side's rows that have a match, those that have none, or all with a mark.
    fn lower_filter(&self, lowering: &mut Lowering, input: &Rows, table: &Table, needed: &[bool]) -> Result<Rows> {
        let param = lowering.table(table.ty.clone());
        append(lowering, input.data.clone(), "joined", |block, r| {
            let columns = &input.columns_of(r);
            let (parts, matchable) = self.key(block, &self.right, columns, &self.right_keys)?;
            let matched = if self.filter.is_none() {
                ir::key_exists(param, one_key(parts))
            } else {
                let found = Found::new(block, &param, parts);
                let any = self.any_passes(block, table, &found, columns)?;
                found.bound(ir::and(found.hit(), any))
            };
            let matched = matchable.into_iter().fold(matched, |matched, matchable| ir::and(matchable, matched));
            let (keep, mark) = match self.join_type {
                JoinType::RightSemi => (Some(matched), None),
                JoinType::RightAnti => (Some(ir::not(matched)), None),
                _ => (None, Some(Sql::required(block.share("mark", matched)))),
            };
            Ok((keep, self.joined(&[], columns, mark.as_ref(), needed)))
        })
    }

    /// A row for every pair that matches; for the rows of right and full joins that have none, one with nulls.
    fn lower_pairs(&self, lowering: &mut Lowering, input: &Rows, table: &Table, needed: &[bool]) -> Result<Rows> {
        let param = lowering.table(table.ty.clone());
        let numbered = self.preserves_build();
        let mut output = Vec::new();
        let filled = for_each(&mut lowering.env, input.data.clone(), "r", |block, r| {
            let probe = input.columns_of(&r);
            let (parts, matchable) = self.key(block, &self.right, &probe, &self.right_keys)?;
            let found = Found::new(block, &param, parts);
            let mut pair = self.pair(block, table, &found, &probe)?;
            let keeps_all = matches!(self.join_type, JoinType::Right | JoinType::Full);
            if keeps_all {
                pair.build.iter_mut().flatten().for_each(|sql| sql.valid = Some(sql.valid()));
            }
            let number = |number: Expr| numbered.then(|| Sql::required(number));
            let row = |build: &[Option<Sql>], at: Expr| {
                let mut columns = self.joined(build, &probe, None, needed);
                columns.extend(number(at).map(Some));
                inner_row(columns)
            };
            let (merged, slots) = row(&pair.build, found.number(&param, &pair.index));
            output = slots;
            let nothing = keeps_all.then(|| row(&nulls(&pair.build), row_number(NO_ROW)).0);
            let any = match (&nothing, &self.filter) {
                (Some(_), Some(_)) => Some(self.any_passes(block, table, &found, &probe)?),
                _ => None,
            };
            let appender = ir::appender(merged.ty.clone());
            let func = pair.closed(block, &appender, merged);
            Ok((appender, move |b: Expr| {
                let unmatched = nothing.map_or(b.clone(), |row| ir::merge(b.clone(), row));
                let pairs = ir::for_func(ir::over(found.group()), b, func);
                let has_pairs = any.into_iter().fold(found.hit(), ir::and);
                // What follows is copied to every place that merges, so there are few. But the bytes of a text that is
                // NULL are not read.
                let (early, late) = match found.reads_bytes() {
                    true => (matchable, None),
                    false => (None, matchable),
                };
                let has_pairs = late.into_iter().fold(has_pairs, |has_pairs, late| ir::and(late, has_pairs));
                let matched = found.bound(ir::if_(has_pairs, pairs, unmatched.clone()));
                early.into_iter().fold(matched, |matched, matchable| ir::if_(matchable, matched, unmatched.clone()))
            }))
        })?;
        let data = lowering.bind("joined", ir::result(filled));
        Ok(Rows { data, columns: output })
    }

    /// The needed output columns, of the rows of both sides and the mark.
    fn joined(
        &self,
        build: &[Option<Sql>],
        probe: &[Option<Sql>],
        mark: Option<&Sql>,
        needed: &[bool],
    ) -> Vec<Option<Sql>> {
        let column = |(column, needed): (ColumnIndex, &bool)| match column.side {
            _ if !needed => None,
            JoinSide::Left => build[column.index].clone(),
            JoinSide::Right => probe[column.index].clone(),
            JoinSide::None => mark.cloned(),
        };
        self.outputs().into_iter().zip(needed).map(column).collect()
    }

    /// Whether one of the rows that were found passes the join filter.
    pub(super) fn any_passes(
        &self,
        block: &mut Block<'_>,
        table: &Table,
        found: &Found,
        probe: &[Option<Sql>],
    ) -> Result<Expr> {
        let any = for_each(block.env, found.group(), "v", |inner, v| {
            let build = self.build_columns(table, &v, found);
            let residual = self.residual(inner, &build, probe)?.unwrap_or_else(|| ir::bool(true));
            let merger = ir::merger(Type::BOOL, MergeOp::All(ReduceOp::BitOr));
            Ok((merger, move |b: Expr| ir::merge(b, residual)))
        })?;
        Ok(ir::result(any))
    }

    /// The columns of a row of the table, those that are keys included.
    fn build_columns(&self, table: &Table, row: &Expr, found: &Found) -> Vec<Option<Sql>> {
        let mut columns = Rows { data: row.clone(), columns: table.columns.clone() }.columns_of(row);
        for (column, key) in columns.iter_mut().zip(self.columns_as_keys()) {
            if let Some(key) = key {
                *column = Some(Sql::required(found.keys[key].clone()));
            }
        }
        columns
    }

    /// The loop over the rows that were found, as far as it does not depend on what comes of a pair.
    pub(super) fn pair(
        &self,
        block: &mut Block<'_>,
        table: &Table,
        found: &Found,
        probe: &[Option<Sql>],
    ) -> Result<Pair> {
        let row_ty = found.group().ty.element().expect("a table's values are vectors").clone();
        let (j, v) = (block.env.names.fresh("j"), block.env.names.fresh("v"));
        let row = ir::var(v, row_ty.clone());
        let build = self.build_columns(table, &row, found);
        let mut inner = Block::new(block.env);
        let residual = self.residual(&mut inner, &build, probe)?;
        let bindings = inner.bindings;
        Ok(Pair { build, index: ir::var(j, Type::I64), residual, bindings, params: [(j, Type::I64), (v, row_ty)] })
    }
}

/// What a lookup has found for a row: the rows of the build side with its key.
pub(super) struct Found {
    lookup: Binding,
    var: Expr,
    /// The parts of the key.
    keys: Vec<Expr>,
}

impl Found {
    pub(super) fn new(block: &mut Block<'_>, table: &Expr, keys: Vec<Expr>) -> Found {
        let value = ir::opt_lookup(table.clone(), one_key(keys.clone()));
        let sym = block.env.names.fresh("found");
        let var = ir::var(sym, value.ty.clone());
        Found { lookup: Binding { sym, value }, var, keys }
    }

    pub(super) fn hit(&self) -> Expr {
        ir::field(self.var.clone(), 0)
    }

    pub(super) fn group(&self) -> Expr {
        ir::field(self.var.clone(), 1)
    }

    /// Whether a key has a part that is not in the row itself.
    fn reads_bytes(&self) -> bool {
        self.keys.iter().any(|key| key.ty.as_scalar().is_none())
    }

    /// The number of a row in the table, by its place in the group.
    pub(super) fn number(&self, table: &Expr, index: &Expr) -> Expr {
        let first = ir::intrinsic(Intrinsic::FirstRow, [table.clone(), self.group()]);
        ir::cast(ir::add(first, index.clone()), ScalarKind::U32)
    }

    /// `body` with the lookup before it.
    pub(super) fn bound(&self, body: Expr) -> Expr {
        ir::let_in(vec![self.lookup.clone()], body)
    }
}

/// A row of the probe side with a row of the build side that has its key.
pub(super) struct Pair {
    pub(super) build: Vec<Option<Sql>>,
    /// The place of the build side's row in its group.
    pub(super) index: Expr,
    residual: Option<Expr>,
    bindings: Vec<Binding>,
    params: [(weld_core::ir::Sym, Type); 2],
}

impl Pair {
    /// The loop's function, which merges `row` if the join filter passes.
    pub(super) fn closed(self, block: &mut Block<'_>, builder: &Expr, row: Expr) -> Func {
        let b = block.env.names.fresh("b");
        let var = ir::var(b, builder.ty.clone());
        let merged = ir::merge(var.clone(), row);
        let update = self.residual.into_iter().fold(merged, |merged, residual| ir::if_(residual, merged, var.clone()));
        let params = [(b, builder.ty.clone())].into_iter().chain(self.params).collect();
        Func { params, body: Box::new(ir::let_in(self.bindings, update)) }
    }
}

/// A row number as the rows carry it.
pub(super) fn row_number(number: u32) -> Expr {
    ir::number(ScalarKind::U32, number.into())
}

/// Nulls of the same types.
fn nulls(columns: &[Option<Sql>]) -> Vec<Option<Sql>> {
    let null = |sql: &Sql| Sql { value: ir::zero(&sql.clone().interned().value.ty), valid: Some(ir::bool(false)) };
    columns.iter().map(|column| column.as_ref().map(null)).collect()
}
