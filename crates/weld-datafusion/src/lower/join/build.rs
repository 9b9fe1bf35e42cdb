//! The build loop: rows of the build side into a table, and what else their join needs of them.
//!
//! ```weld
//! let built = for(left, {groupbuilder[i64,{i32}], merger[{i64,i64},{min,max}], appender[{i32}]}, |b, i, r|
//!   if(r.$0.$1, {merge(b.$0, {r.$0.$0, {r.$1}}), merge(b.$1, {r.$0.$0, r.$0.$0}), b.$2},
//!               {b.$0, b.$1, merge(b.$2, {r.$1})}));
//! {result(built.$0), result(built.$1), result(built.$2)}
//! ```
//! The least and greatest keys are for the dynamic filter. Texts that rows are grouped by later are interned:
//! `{intern(r.$1)}`. Rows whose keys are null are kept where the join gives rows without a match.

use weld_core::ir::{Expr, build as ir};
use weld_core::op::{MergeOp, ReduceOp};

use super::super::{Lowering, Result, Rows, Sql, for_each, row_struct};
use super::{BuildColumns, Join, Table, key_kinds, one_key};

impl Join {
    /// The program's result, see [`Table`], and the table. `bounds` if those of the keys are wanted, where they are
    /// integers.
    pub(crate) fn lower_build(
        &self,
        lowering: &mut Lowering,
        input: &Rows,
        BuildColumns { needed, interned }: &BuildColumns,
        bounds: bool,
    ) -> Result<(Expr, Table)> {
        let (mut columns, mut with_bounds, mut unkeyed) = (Vec::new(), false, false);
        let filled = for_each(&mut lowering.env, input.data.clone(), "r", |block, r| {
            let inputs = input.columns_of(&r);
            let (parts, matchable) = self.key(block, &self.left, &inputs, &self.left_keys)?;
            let key = block.share("key", one_key(parts));
            let kept = inputs.iter().zip(needed).map(|(column, needed)| column.clone().filter(|_| *needed));
            let kept = kept.zip(interned).map(|(column, interned)| match interned {
                true => column.map(Sql::intern),
                false => column,
            });
            let (row, slots) = row_struct(kept.collect());
            columns = slots;
            let mut builders = vec![ir::group_builder(key.ty.clone(), row.ty.clone())];
            let mut keyed = vec![ir::strct([key.clone(), row.clone()])];
            if bounds && key_kinds(&key.ty).is_some() {
                with_bounds = true;
                let (builder, extremes) = extremes(&key);
                builders.push(builder);
                keyed.push(extremes);
            }
            if matchable.is_some() && self.gives_rows_without_match() {
                unkeyed = true;
                builders.push(ir::appender(row.ty.clone()));
            }
            let (builder, keeps_unkeyed) = (one_or_struct(builders), unkeyed);
            Ok((builder, move |b: Expr| {
                let matched = merge_into(&b, keyed.into_iter().enumerate());
                match matchable {
                    None => matched,
                    Some(matchable) => {
                        let appender = b.ty.fields().map_or(0, |parts| parts.len() - 1);
                        let row = keeps_unkeyed.then_some((appender, row));
                        ir::if_(matchable, matched, merge_into(&b, row.into_iter()))
                    }
                }
            }))
        })?;
        let body = match filled.ty.fields().map(|builders| builders.len()) {
            None => ir::result(filled),
            Some(builders) => {
                let built = lowering.bind("built", filled);
                ir::strct((0..builders).map(|index| ir::result(ir::field(built.clone(), index))))
            }
        };
        let ty = body.ty.fields().map_or(&body.ty, |results| &results[0]).clone();
        let marks = self.preserves_build();
        Ok((body, Table { ty, columns, bounds: with_bounds, unkeyed, marks }))
    }
}

/// A merger for the least and greatest of each part of a key, and what a key merges into it.
fn extremes(key: &Expr) -> (Expr, Expr) {
    let parts: Vec<Expr> = match key.ty.fields() {
        None => vec![key.clone()],
        Some(fields) => (0..fields.len()).map(|index| ir::field(key.clone(), index)).collect(),
    };
    let extremes = ir::strct(parts.iter().flat_map(|part| [part.clone(), part.clone()]));
    let ops = parts.iter().flat_map(|_| [MergeOp::All(ReduceOp::Min), MergeOp::All(ReduceOp::Max)]);
    (ir::merger(extremes.ty.clone(), MergeOp::Fields(ops.collect())), extremes)
}

fn one_or_struct(mut builders: Vec<Expr>) -> Expr {
    if builders.len() == 1 { builders.swap_remove(0) } else { ir::strct(builders) }
}

/// The builder, or struct of builders, with values merged into some of its parts.
fn merge_into(b: &Expr, values: impl Iterator<Item = (usize, Expr)>) -> Expr {
    let Some(parts) = b.ty.fields().map(|parts| parts.len()) else {
        return values.fold(b.clone(), |b, (_, value)| ir::merge(b, value));
    };
    let mut merged: Vec<Expr> = (0..parts).map(|index| ir::field(b.clone(), index)).collect();
    let is_changed = values.fold(false, |_, (index, value)| {
        merged[index] = ir::merge(merged[index].clone(), value);
        true
    });
    if is_changed { ir::strct(merged) } else { b.clone() }
}
