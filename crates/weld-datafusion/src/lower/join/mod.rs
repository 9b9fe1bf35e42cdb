//! Joins: a build loop with a `groupbuilder`, and a probe loop that looks up and merges.
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
//! What depends on the probe side's rows alone comes out while they are streamed (`probe`): pairs of rows, the rows
//! that have a match or have none, rows with a mark. Where rows of the build side come out for themselves, the probe
//! says which of them it has met, by their numbers in the table, and they follow when its last partition has ended
//! (`preserve`).

mod build;
pub(crate) mod node;
pub(crate) mod preserve;
mod probe;
mod unique;

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use weld_core::ir::{Expr, build as ir};
use weld_core::op::Intrinsic;
use weld_core::ty::{ScalarKind, Type};

use super::expr::{Scope, compare, data_type, lower};
use super::operator::read_by;
use super::{Block, Result, Slot, Sql, Unsupported, is_interned};

/// A join, as far as its shape tells that it has a lowering.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    join_type: JoinType,
    left_keys: Vec<Arc<dyn PhysicalExpr>>,
    right_keys: Vec<Arc<dyn PhysicalExpr>>,
    filter: Option<JoinFilter>,
    projection: Option<Vec<usize>>,
    nulls_match: bool,
    /// `NOT IN`: a null key on the probe side leaves nothing.
    null_aware: bool,
    /// Whether DataFusion reads the probe side even if the build side has no rows: that may fail.
    reads_probe: bool,
    left: SchemaRef,
    right: SchemaRef,
}

/// A table that a build pipeline makes: its type, and where the build side's columns are in its rows. The build's
/// result is the table, or a struct of the table and what else there is, in the order of these fields.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) ty: Type,
    pub(crate) columns: Vec<Option<Slot>>,
    /// The least and greatest of each key, which are integers.
    pub(crate) bounds: bool,
    /// The rows whose keys match nothing, since they are null.
    pub(crate) unkeyed: bool,
    /// Whether the probe marks rows of the table.
    pub(crate) marks: bool,
}

impl Table {
    /// The build side's columns whose texts are interned.
    pub(crate) fn interned(&self) -> impl Iterator<Item = usize> + '_ {
        let row = match &self.ty {
            Type::Dict(_, rows) => rows.element(),
            _ => None,
        };
        let columns = self.columns.iter().enumerate();
        let interned = columns.filter(move |(_, slot)| slot.zip(row).is_some_and(|(slot, row)| is_interned(row, slot)));
        interned.map(|(column, _)| column)
    }
}

/// What a table keeps of the build side's columns.
#[derive(Clone, Debug)]
pub(crate) struct BuildColumns {
    /// Those that it has.
    pub(crate) needed: Vec<bool>,
    /// Those of them whose texts are interned: groups are made of them.
    pub(crate) interned: Vec<bool>,
}

impl BuildColumns {
    /// These, as they are.
    pub(crate) fn plain(needed: Vec<bool>) -> BuildColumns {
        BuildColumns { interned: vec![false; needed.len()], needed }
    }
}

impl Join {
    /// Whether rows of the build side come out for themselves, when all of the probe side has been seen.
    pub(crate) fn preserves_build(&self) -> bool {
        use JoinType::*;
        matches!(self.join_type, Left | Full | LeftSemi | LeftAnti | LeftMark)
    }

    /// Whether the probe side is read only if the build side has rows: nothing comes out otherwise.
    pub(crate) fn needs_build_rows(&self) -> bool {
        use JoinType::*;
        !self.reads_probe && !matches!(self.join_type, Right | Full | RightAnti | RightMark)
    }

    pub(crate) fn is_null_aware(&self) -> bool {
        self.null_aware
    }

    /// The expressions that are compared, over the probe side.
    pub(crate) fn probe_keys(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.right_keys
    }

    /// The expressions that are compared, over the build side.
    pub(crate) fn build_keys(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.left_keys
    }

    /// Whether the probe side's rows with null keys matter: they match nulls or, where they match nothing, count all
    /// the same.
    pub(crate) fn sees_null_keys(&self) -> bool {
        self.nulls_match
            || self.null_aware && self.right_keys.iter().any(|key| key.nullable(&self.right).unwrap_or(true))
    }

    /// Whether a row comes out for every pair that matches.
    fn gives_pairs(&self) -> bool {
        use JoinType::*;
        matches!(self.join_type, Inner | Left | Right | Full)
    }

    /// Every expression that reads an input.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let filter = self.filter.as_ref().map(|filter| filter.expression());
        self.left_keys.iter().chain(&self.right_keys).chain(filter)
    }

    /// For each column of the output whether it is of the build side (left), of the probe side (right), or the mark.
    fn outputs(&self) -> Vec<ColumnIndex> {
        use JoinType::*;
        let side = |side, columns: usize| (0..columns).map(move |index| ColumnIndex { index, side });
        let left = side(JoinSide::Left, self.left.fields().len());
        let right = side(JoinSide::Right, self.right.fields().len());
        let mark = side(JoinSide::None, 1);
        let all: Vec<ColumnIndex> = match self.join_type {
            Inner | Left | Right | Full => left.chain(right).collect(),
            LeftSemi | LeftAnti => left.collect(),
            RightSemi | RightAnti => right.collect(),
            LeftMark => left.chain(mark).collect(),
            RightMark => right.chain(mark).collect(),
        };
        match &self.projection {
            None => all,
            Some(projection) => projection.iter().map(|&index| all[index].clone()).collect(),
        }
    }

    /// The probe side's column that an output column is.
    pub(crate) fn probe_column(&self, output: usize) -> Option<usize> {
        self.outputs().get(output).filter(|column| column.side == JoinSide::Right).map(|column| column.index)
    }

    /// The probe side's column that is the whole key, if it is text.
    pub(crate) fn text_probed(&self) -> Option<usize> {
        let [key] = &self.right_keys[..] else { return None };
        let column = key.downcast_ref::<Column>()?.index();
        is_text(self.right.fields().get(column)?.data_type()).then_some(column)
    }

    /// The columns of the build side that these outputs are, if they are text and the table has them.
    pub(crate) fn texts_of_build(&self, outputs: &[usize]) -> Vec<bool> {
        let mut texts = vec![false; self.left.fields().len()];
        let columns = self.outputs();
        for column in outputs.iter().filter_map(|output| columns.get(*output)) {
            if column.side == JoinSide::Left {
                texts[column.index] = is_text(self.left.field(column.index).data_type());
            }
        }
        texts.iter_mut().zip(self.columns_as_keys()).for_each(|(text, key)| *text &= key.is_none());
        texts
    }

    /// The probe side's columns that pairs give.
    pub(crate) fn given_of_probe(&self) -> Vec<bool> {
        let mut given = vec![false; self.right.fields().len()];
        let outputs = self.outputs().into_iter().filter(|column| column.side == JoinSide::Right && self.gives_pairs());
        outputs.for_each(|column| given[column.index] = true);
        given
    }

    /// The columns of the probe side (right) and the build side (left) that the needed outputs come from.
    pub(crate) fn needed(&self, outputs: &[bool]) -> (Vec<bool>, Vec<bool>) {
        let (mut left, mut right) = (vec![false; self.left.fields().len()], vec![false; self.right.fields().len()]);
        let outputs = self.outputs().into_iter().zip(outputs).filter(|(_, needed)| **needed).map(|(column, _)| column);
        let filter = self.filter.iter().flat_map(|filter| filter.column_indices().iter().cloned());
        for column in outputs.chain(filter) {
            match column.side {
                JoinSide::Left => left[column.index] = true,
                JoinSide::Right => right[column.index] = true,
                JoinSide::None => {}
            }
        }
        left.iter_mut().zip(self.columns_as_keys()).for_each(|(needed, key)| *needed &= key.is_none());
        let keys = read_by(right.len(), &self.right_keys);
        (right.iter().zip(keys).map(|(column, key)| *column || key).collect(), left)
    }

    /// The same if all outputs are needed.
    pub(crate) fn needed_for_all(&self) -> (Vec<bool>, Vec<bool>) {
        self.needed(&vec![true; self.outputs().len()])
    }

    /// The columns of the build pipeline's rows that the build loop reads to keep these.
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
            let mut key = lower(block, &scope, expr)?;
            if key.value.ty.as_scalar().is_some_and(ScalarKind::is_float) {
                // The two zeros are one key, and NaNs are told apart by their bits.
                key.value = ir::intrinsic(Intrinsic::OrderKey, [key.value]);
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

    /// For each column of the build side the key that it is. Where rows match, the probe side's key has the same value:
    /// the table need not keep it, and what follows knows it before the table is asked. Not so for floats, whose two
    /// zeros match.
    fn columns_as_keys(&self) -> Vec<Option<usize>> {
        let mut columns = vec![None; self.left.fields().len()];
        if self.nulls_match || !matches!(self.join_type, JoinType::Inner | JoinType::Right) {
            return columns;
        }
        for (index, (left, right)) in self.left_keys.iter().zip(&self.right_keys).enumerate() {
            let Some(column) = left.downcast_ref::<Column>() else { continue };
            let same = match (left.data_type(&self.left), right.data_type(&self.right)) {
                (Ok(left), Ok(right)) => left == right && !left.is_floating(),
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

    /// The join filter over a pair of rows.
    fn residual(&self, block: &mut Block<'_>, left: &[Option<Sql>], right: &[Option<Sql>]) -> Result<Option<Expr>> {
        let Some(filter) = &self.filter else { return Ok(None) };
        let column = |index: &ColumnIndex| match index.side {
            JoinSide::Left => left[index.index].clone(),
            JoinSide::Right => right[index.index].clone(),
            JoinSide::None => None,
        };
        let columns: Vec<Option<Sql>> = filter.column_indices().iter().map(column).collect();
        let scope = Scope { schema: filter.schema(), columns: &columns };
        Ok(Some(lower(block, &scope, filter.expression())?.value))
    }
}

/// Whether the values of a column are text, or other bytes.
fn is_text(data_type: &DataType) -> bool {
    super::types::value_type(data_type).is_ok_and(|ty| ty == Type::vec(Type::U8))
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
