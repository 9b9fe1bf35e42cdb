//! Filters and projections: a loop with an appender each.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use weld_core::ir::{Expr, build as ir};
use weld_plans::cannot_fail;

use super::expr::{Scope, lower};
use super::lists::lower_given;
use super::{Block, Lowering, Result, Rows, Slot, Sql, for_each, inner_row, row_struct};

/// Which of `columns` input columns the expressions read.
pub(crate) fn read_by<'a>(columns: usize, exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Vec<bool> {
    fn note(expr: &Arc<dyn PhysicalExpr>, needed: &mut [bool]) {
        if let Some(column) = expr.downcast_ref::<Column>() {
            needed.get_mut(column.index()).into_iter().for_each(|needed| *needed = true);
        }
        expr.children().into_iter().for_each(|child| note(child, needed));
    }
    let mut needed = vec![false; columns];
    exprs.into_iter().for_each(|expr| note(expr, &mut needed));
    needed
}

/// The input columns behind an embedded projection's needed outputs.
pub(crate) fn through_projection(columns: usize, projection: Option<&[usize]>, needed: &[bool]) -> Vec<bool> {
    match projection {
        None => needed.to_vec(),
        Some(projection) => {
            let mut inputs = vec![false; columns];
            for (&input, _) in projection.iter().zip(needed).filter(|(_, needed)| **needed) {
                inputs[input] = true;
            }
            inputs
        }
    }
}

/// The output columns of an embedded projection that are needed.
pub(crate) fn project(columns: &[Option<Sql>], projection: Option<&[usize]>, needed: &[bool]) -> Vec<Option<Sql>> {
    let pick = |(output, needed): (usize, &bool)| {
        let input = projection.map_or(output, |projection| projection[output]);
        if *needed { columns[input].clone() } else { None }
    };
    needed.iter().enumerate().map(pick).collect()
}

/// `result(for(input, appender, |b, i, r| if(predicate, merge(b, r), b)))`.
pub(crate) fn filter(
    lowering: &mut Lowering,
    input: &Rows,
    schema: &Schema,
    predicate: &Arc<dyn PhysicalExpr>,
    projection: Option<&[usize]>,
    needed: &[bool],
) -> Result<Rows> {
    append(lowering, input.data.clone(), "filtered", |block, r| {
        let columns = &input.columns_of(r);
        let predicate = lower(block, &Scope { schema, columns }, predicate)?;
        Ok((Some(predicate.value), project(columns, projection, needed)))
    })
}

/// Which of a projection's expressions are evaluated: those whose values are needed, and those whose errors are.
pub(crate) fn evaluated(exprs: &[Arc<dyn PhysicalExpr>], schema: &Schema, needed: &[bool]) -> Vec<bool> {
    exprs.iter().zip(needed).map(|(expr, needed)| *needed || !cannot_fail(expr, Some(schema))).collect()
}

/// `result(for(input, appender, |b, i, r| merge(b, {..})))`.
pub(crate) fn projection(
    lowering: &mut Lowering,
    input: &Rows,
    schema: &Schema,
    exprs: &[Arc<dyn PhysicalExpr>],
    needed: &[bool],
) -> Result<Rows> {
    append(lowering, input.data.clone(), "projected", |block, r| {
        let scope = Scope { schema, columns: &input.columns_of(r) };
        let output = |(expr, evaluated): (&Arc<dyn PhysicalExpr>, bool)| {
            evaluated.then(|| lower_given(block, &scope, expr)).transpose()
        };
        let evaluated = evaluated(exprs, schema, needed);
        Ok((None, exprs.iter().zip(evaluated).map(output).collect::<Result<_>>()?))
    })
}

/// A loop over `data` that appends the row that `body` makes of an element, where its condition holds.
pub(crate) fn append(
    lowering: &mut Lowering,
    data: Expr,
    name: &str,
    body: impl FnOnce(&mut Block<'_>, &Expr) -> Result<(Option<Expr>, Vec<Option<Sql>>)>,
) -> Result<Rows> {
    let (filled, columns) = append_to(lowering, None, data, inner_row, body)?;
    Ok(Rows { data: lowering.bind(name, ir::result(filled)), columns })
}

/// The rows with the text of what is interned.
pub(crate) fn with_texts(lowering: &mut Lowering, rows: Rows) -> Result<Rows> {
    if !(0..rows.columns.len()).any(|column| rows.is_interned(column)) {
        return Ok(rows);
    }
    let texts = |_: &mut Block<'_>, r: &Expr| Ok((None, rows.columns_of(r)));
    let (filled, columns) = append_to(lowering, None, rows.data.clone(), row_struct, texts)?;
    Ok(Rows { data: lowering.bind("texts", ir::result(filled)), columns })
}

/// [`row_struct`] or [`inner_row`].
pub(crate) type RowForm = fn(Vec<Option<Sql>>) -> (Expr, Vec<Option<Slot>>);

/// The appender of such a loop: `others`, which has rows of the same columns already, or a new one.
pub(crate) fn append_to(
    lowering: &mut Lowering,
    others: Option<Expr>,
    data: Expr,
    row: RowForm,
    body: impl FnOnce(&mut Block<'_>, &Expr) -> Result<(Option<Expr>, Vec<Option<Sql>>)>,
) -> Result<(Expr, Vec<Option<Slot>>)> {
    let mut slots = Vec::new();
    let filled = for_each(&mut lowering.env, data, "r", |block, r| {
        let (cond, outputs) = body(block, &r)?;
        let (row, columns) = row(outputs);
        slots = columns;
        let builder = others.unwrap_or_else(|| ir::appender(row.ty.clone()));
        Ok((builder, move |b: Expr| {
            let merged = ir::merge(b.clone(), row);
            match cond {
                Some(cond) => ir::if_(cond, merged, b),
                None => merged,
            }
        }))
    })?;
    Ok((filled, slots))
}
