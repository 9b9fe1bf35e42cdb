//! Hash joins: a build loop with a `groupbuilder`, and a probe loop that looks up and merges.
//!
//! ```weld
//! # build                                                       # probe
//! result(for(left, groupbuilder[i64,{i32}],                     result(for(right, appender[{i64,i32}], |b, i, r|
//!   |b, i, r| merge(b, {r.$0, {r.$1}})))                          let m = optlookup(table, r.$0);
//!                                                                 if(m.$0, for(m.$1, b, |b, j, v| merge(b, {r.$1, v.$0})), b)))
//! ```
//! The table is one value: every partition of the build side fills its own, they are combined, and every partition of
//! the probe side reads the result. So neither side needs to be partitioned by the keys.
//!
//! The rows that come out are pairs of rows (inner joins), or the probe side's rows that have a match or have none (right
//! semi and anti joins): a filter whose condition is `keyexists(table, r.$0)`.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use weld_core::ir::{Expr, build as ir};
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::{ScalarKind, Type};

use super::expr::{Scope, compare, data_type, lower};
use super::operator::{append, project, read_by, through_projection};
use super::{Block, Lowering, Result, Rows, Slot, Sql, Unsupported, for_each, row_struct};

/// A hash join, as far as its shape tells that it has a lowering.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    gives: Gives,
    left_keys: Vec<Arc<dyn PhysicalExpr>>,
    right_keys: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<JoinFilter>,
    projection: Option<Vec<usize>>,
    nulls_match: bool,
    left: SchemaRef,
    right: SchemaRef,
}

/// Which rows a join gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Gives {
    /// A row of each side, for every pair that matches.
    Pairs,
    /// The probe side's rows that have a match.
    Matched,
    /// The probe side's rows that have none; a null key has none.
    Unmatched,
}

/// A table that a build pipeline makes: its type, and where the build side's columns are in its rows.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) ty: Type,
    columns: Vec<Option<Slot>>,
    /// Whether the build's result also carries the least and greatest of each key, which are integers.
    pub(crate) bounds: bool,
}

impl Join {
    pub(crate) fn of(exec: &HashJoinExec) -> Result<Join> {
        let no = |why: &str| Err(Unsupported::new("HashJoinExec", why));
        let gives = match exec.join_type() {
            JoinType::Inner => Gives::Pairs,
            JoinType::RightSemi => Gives::Matched,
            JoinType::RightAnti => Gives::Unmatched,
            other => return no(&format!("a join of the type {other}")),
        };
        if exec.null_aware {
            return no("NOT IN with nulls");
        }
        if exec.fetch().is_some() {
            return no("stops at a limit");
        }
        let (left_keys, right_keys) = exec.on().iter().cloned().unzip();
        Ok(Join {
            gives,
            left_keys,
            right_keys,
            filter: exec.filter().cloned(),
            projection: exec.projection.as_ref().map(|projection| projection.to_vec()),
            nulls_match: exec.null_equality() == NullEquality::NullEqualsNull,
            left: exec.left().schema(),
            right: exec.right().schema(),
        })
    }

    /// Whether rows come out only for rows of the build side.
    pub(crate) fn needs_match(&self) -> bool {
        self.gives != Gives::Unmatched
    }

    /// Every expression that reads an input.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let filter = self.filter.as_ref().map(|filter| filter.expression());
        self.left_keys.iter().chain(&self.right_keys).chain(filter)
    }

    /// The columns of the probe side (right) and the build side (left) that the needed outputs come from.
    /// Key columns of the build side are in the table's keys, not among its columns.
    pub(crate) fn needed(&self, outputs: &[bool]) -> (Vec<bool>, Vec<bool>) {
        let (left, right) = (self.left.fields().len(), self.right.fields().len());
        let mut both = match self.gives {
            Gives::Pairs => through_projection(left + right, self.projection.as_deref(), outputs),
            Gives::Matched | Gives::Unmatched => {
                let mut both = vec![false; left];
                both.extend(through_projection(right, self.projection.as_deref(), outputs));
                both
            }
        };
        if let Some(filter) = &self.filter {
            for index in filter.column_indices() {
                match index.side {
                    JoinSide::Left => both[index.index] = true,
                    JoinSide::Right => both[left + index.index] = true,
                    JoinSide::None => {}
                }
            }
        }
        let probe_columns = both.split_off(left);
        both.iter_mut().zip(self.columns_as_keys()).for_each(|(needed, key)| *needed &= key.is_none());
        let keys = read_by(right, &self.right_keys);
        (probe_columns.iter().zip(keys).map(|(column, key)| *column || key).collect(), both)
    }

    /// The columns of the build pipeline's rows that the build loop reads.
    pub(crate) fn needed_by_build(&self, columns: &[bool]) -> Vec<bool> {
        let keys = read_by(columns.len(), &self.left_keys);
        columns.iter().zip(keys).map(|(column, key)| *column || key).collect()
    }

    /// The parts of the key and, if they are not always there, the condition that a row can match at all.
    fn key(
        &self,
        block: &mut Block<'_>,
        schema: &Schema,
        columns: &[Option<Sql>],
        keys: &[Arc<dyn PhysicalExpr>],
    ) -> Result<(Vec<Expr>, Option<Expr>)> {
        let mut parts = Vec::new();
        let mut matchable: Option<Expr> = None;
        for (index, expr) in keys.iter().enumerate() {
            let scope = Scope { schema, columns };
            let key = lower(block, &scope, expr)?;
            if key.value.ty.as_scalar().is_some_and(ScalarKind::is_float) {
                return Err(Unsupported::new("HashJoinExec", "keys of floats tell NaNs apart by their bits"));
            }
            if self.nulls_match && self.nullable(index)? {
                let valid = block.share("valid", key.valid());
                parts.push(Sql { value: key.value, valid: Some(valid) }.stored());
                continue;
            }
            if let Some(valid) = key.valid {
                matchable = Some(matchable.map_or(valid.clone(), |so_far| ir::and(so_far, valid)));
            }
            parts.push(block.share("key", key.value));
        }
        Ok((parts, matchable))
    }

    /// For each column of the build side the key that it is. Where rows match, the probe side's key has the same value: the
    /// table need not keep it, and what follows knows it before the table is asked.
    fn columns_as_keys(&self) -> Vec<Option<usize>> {
        let mut columns = vec![None; self.left.fields().len()];
        if self.nulls_match || self.gives != Gives::Pairs {
            return columns;
        }
        for (index, (left, right)) in self.left_keys.iter().zip(&self.right_keys).enumerate() {
            let Some(column) = left.downcast_ref::<Column>() else { continue };
            let same = match (left.data_type(&self.left), right.data_type(&self.right)) {
                (Ok(left), Ok(right)) => left == right,
                _ => false,
            };
            if same && let Some(known) = columns.get_mut(column.index()) {
                *known = Some(index);
            }
        }
        columns
    }

    /// Whether a pair of keys may be null on either side.
    fn nullable(&self, index: usize) -> Result<bool> {
        let nullable = |expr: &Arc<dyn PhysicalExpr>, schema: &Schema| {
            expr.nullable(schema).map_err(|error| Unsupported::new(expr, error))
        };
        Ok(nullable(&self.left_keys[index], &self.left)? || nullable(&self.right_keys[index], &self.right)?)
    }

    /// Both sides of a pair of keys must compare as they are.
    fn check_keys(&self) -> Result<()> {
        for (left, right) in self.left_keys.iter().zip(&self.right_keys) {
            let left_type = data_type(&Scope { schema: &self.left, columns: &[] }, left.as_ref())?;
            let right_type = data_type(&Scope { schema: &self.right, columns: &[] }, right.as_ref())?;
            let zero = ir::zero(&super::types::value_type(&left_type)?);
            compare(weld_core::op::BinaryOp::Eq, &left_type, &right_type, zero.clone(), zero)?;
        }
        Ok(())
    }

    /// The build loop over the build side's rows. With `bounds`, and if all keys are integers, the program's result
    /// is `{table, {{key, key}, ..}}` with the least and greatest of each key; otherwise the table.
    pub(crate) fn lower_build(
        &self,
        lowering: &mut Lowering,
        input: &Rows,
        needed: &[bool],
        bounds: bool,
    ) -> Result<(Expr, Table)> {
        self.check_keys()?;
        let mut table_columns = Vec::new();
        let mut with_bounds = false;
        let filled = for_each(&mut lowering.env, input.data.clone(), "r", |block, r| {
            let columns = input.columns_of(&r);
            let (parts, matchable) = self.key(block, &self.left, &columns, &self.left_keys)?;
            let key = block.share("key", one_key(parts));
            let kinds = key_kinds(&key.ty);
            with_bounds = bounds && kinds.is_some();
            let kept = columns.iter().zip(needed).map(|(column, needed)| column.clone().filter(|_| *needed));
            let (row, slots) = row_struct(kept.collect());
            table_columns = slots;
            let table = ir::group_builder(key.ty.clone(), row.ty.clone());
            let entry = ir::strct([key.clone(), row]);
            let (builder, extremes) = match kinds.filter(|_| bounds) {
                None => (table, None),
                Some(_) => {
                    let parts: Vec<Expr> = match key.ty.fields() {
                        None => vec![key],
                        Some(fields) => (0..fields.len()).map(|index| ir::field(key.clone(), index)).collect(),
                    };
                    let extremes = ir::strct(parts.iter().flat_map(|part| [part.clone(), part.clone()]));
                    let ops = parts.iter().flat_map(|_| [MergeOp::All(ReduceOp::Min), MergeOp::All(ReduceOp::Max)]);
                    let merger = ir::merger(extremes.ty.clone(), MergeOp::Fields(ops.collect()));
                    (ir::strct([table, merger]), Some(extremes))
                }
            };
            Ok((builder, move |b: Expr| {
                let merged = match extremes {
                    None => ir::merge(b.clone(), entry),
                    Some(extremes) => ir::strct([
                        ir::merge(ir::field(b.clone(), 0), entry),
                        ir::merge(ir::field(b.clone(), 1), extremes),
                    ]),
                };
                match matchable {
                    None => merged,
                    Some(matchable) => ir::if_(matchable, merged, b),
                }
            }))
        })?;
        let body = if with_bounds {
            let builders = lowering.bind("built", filled);
            ir::strct([ir::result(ir::field(builders.clone(), 0)), ir::result(ir::field(builders, 1))])
        } else {
            ir::result(filled)
        };
        let ty = if with_bounds { body.ty.fields().expect("a struct")[0].clone() } else { body.ty.clone() };
        Ok((body, Table { ty, columns: table_columns, bounds: with_bounds }))
    }

    /// The probe loop over the probe side's rows.
    pub(crate) fn lower_probe(
        &self,
        lowering: &mut Lowering,
        input: &Rows,
        table: &Table,
        needed: &[bool],
    ) -> Result<Rows> {
        self.check_keys()?;
        match self.gives {
            Gives::Pairs => self.lower_pairs(lowering, input, table, needed),
            Gives::Matched | Gives::Unmatched => self.lower_filter(lowering, input, table, needed),
        }
    }

    /// The probe side's rows that have a match, or those that have none.
    fn lower_filter(&self, lowering: &mut Lowering, input: &Rows, table: &Table, needed: &[bool]) -> Result<Rows> {
        let param = lowering.table(table.ty.clone());
        append(lowering, input.data.clone(), "joined", |block, r| {
            let columns = &input.columns_of(r);
            let (parts, matchable) = self.key(block, &self.right, columns, &self.right_keys)?;
            let key = one_key(parts);
            let matched = if self.filter.is_none() {
                ir::key_exists(param, key)
            } else {
                let found = block.env.names.fresh("found");
                let lookup = ir::opt_lookup(param, key);
                let found_var = ir::var(found, lookup.ty.clone());
                let any = for_each(block.env, ir::field(found_var.clone(), 1), "v", |inner, v| {
                    let build = Rows { data: v.clone(), columns: table.columns.clone() }.columns_of(&v);
                    let residual = self.residual(inner, &build, columns)?.unwrap_or_else(|| ir::bool(true));
                    let merger = ir::merger(Type::BOOL, MergeOp::All(ReduceOp::BitOr));
                    Ok((merger, move |b: Expr| ir::merge(b, residual)))
                })?;
                let any = ir::and(ir::field(found_var, 0), ir::result(any));
                ir::let_in(vec![weld_core::ir::Binding { sym: found, value: lookup }], any)
            };
            let matched = matchable.into_iter().fold(matched, |matched, matchable| ir::and(matchable, matched));
            let keep = if self.gives == Gives::Matched { matched } else { ir::not(matched) };
            Ok((Some(keep), project(columns, self.projection.as_deref(), needed)))
        })
    }

    /// A row for every pair that matches.
    fn lower_pairs(&self, lowering: &mut Lowering, input: &Rows, table: &Table, needed: &[bool]) -> Result<Rows> {
        let param = lowering.table(table.ty.clone());
        let Type::Dict(_, matches) = &table.ty else { unreachable!("a table is a dictionary") };
        let row_type = matches.element().expect("a table's values are vectors").clone();
        let mut output = Vec::new();
        let filled = for_each(&mut lowering.env, input.data.clone(), "r", |block, r| {
            let probe_columns = input.columns_of(&r);
            let (parts, matchable) = self.key(block, &self.right, &probe_columns, &self.right_keys)?;
            let found = block.env.names.fresh("found");
            let lookup = ir::opt_lookup(param.clone(), one_key(parts.clone()));
            let found_var = ir::var(found, lookup.ty.clone());
            let (j, v) = (block.env.names.fresh("j"), block.env.names.fresh("v"));
            let mut build_columns =
                Rows { data: param.clone(), columns: table.columns.clone() }.columns_of(&ir::var(v, row_type.clone()));
            for (column, key) in build_columns.iter_mut().zip(self.columns_as_keys()) {
                if let Some(key) = key {
                    *column = Some(Sql { value: parts[key].clone(), valid: None });
                }
            }
            let mut inner = Block::new(block.env);
            let residual = self.residual(&mut inner, &build_columns, &probe_columns)?;
            let both: Vec<Option<Sql>> = build_columns.into_iter().chain(probe_columns).collect();
            let (row, slots) = row_struct(project(&both, self.projection.as_deref(), needed));
            output = slots;
            let appender = ir::appender(row.ty.clone());
            let inner_b = inner.env.names.fresh("b");
            let inner_builder = ir::var(inner_b, appender.ty.clone());
            let merged = ir::merge(inner_builder.clone(), row);
            let update = inner.close(match residual {
                None => merged,
                Some(residual) => ir::if_(residual, merged, inner_builder),
            });
            let params = vec![(inner_b, appender.ty.clone()), (j, Type::I64), (v, row_type)];
            let func = weld_core::ir::Func { params, body: Box::new(update) };
            Ok((appender, move |b: Expr| {
                let matches = ir::over(ir::field(found_var.clone(), 1));
                let matched = ir::if_(ir::field(found_var, 0), ir::for_func(matches, b.clone(), func), b.clone());
                let probe = ir::let_in(vec![weld_core::ir::Binding { sym: found, value: lookup }], matched);
                match matchable {
                    None => probe,
                    Some(matchable) => ir::if_(matchable, probe, b),
                }
            }))
        })?;
        let data = lowering.bind("joined", ir::result(filled));
        Ok(Rows { data, columns: output })
    }

    /// The join filter over a pair of rows.
    fn residual(&self, block: &mut Block<'_>, left: &[Option<Sql>], right: &[Option<Sql>]) -> Result<Option<Expr>> {
        let Some(filter) = &self.filter else { return Ok(None) };
        let column = |index: &datafusion::physical_plan::joins::utils::ColumnIndex| match index.side {
            JoinSide::Left => left[index.index].clone(),
            JoinSide::Right => right[index.index].clone(),
            JoinSide::None => None,
        };
        let columns: Vec<Option<Sql>> = filter.column_indices().iter().map(column).collect();
        let scope = Scope { schema: filter.schema(), columns: &columns };
        Ok(Some(lower(block, &scope, filter.expression())?.value))
    }
}

fn one_key(mut parts: Vec<Expr>) -> Expr {
    if parts.len() == 1 { parts.swap_remove(0) } else { ir::strct(parts) }
}

/// The kinds of a key's parts, if all are integers.
fn key_kinds(key: &Type) -> Option<Vec<ScalarKind>> {
    let parts = match key.fields() {
        Some(fields) => fields.to_vec(),
        None => vec![key.clone()],
    };
    parts.iter().map(|part| part.as_scalar().filter(|kind| kind.is_integer())).collect()
}
