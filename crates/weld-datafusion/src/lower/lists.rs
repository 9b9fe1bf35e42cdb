//! Columns of lists, and of other types for which no Weld value stands, among the columns of a row.
//!
//! ```text
//! a column of lists of numbers    {vec[f32], bool, i64}    its values in place, whether none of them is NULL, the row's number
//! another (structs, texts in lists)                 {i64}    the row's number
//! a dictionary that comes out as it is         {vec[u8], i64}    its entry, and the row's number
//! a list that a function made, or a constant
//!                                      {vec[f32], bool}    its values, and whether none of them is NULL
//! ```
//! Functions read lists of numbers. What only passes through a pipeline is its row's number in the stream: whoever
//! hands the rows out takes the values from the input's arrays. Whether NULLs are inside comes in a column of its own
//! behind the stream's other columns, which is null in the rows of such lists; in batches without any, its code looks
//! at nothing.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use weld_core::ir::{Expr, Func, build as ir};
use weld_core::op::{MergeOp, ReduceOp};
use weld_core::ty::{ScalarKind, Type};

use super::expr::{Scope, data_type, lower};
use super::pipeline::Step;
use super::{Block, Env, Lowering, Result, Rows, Slot, Sql, Unsupported};
use crate::function::call::{Called, lower_function};

pub(crate) use weld_arrow::list;
pub(crate) use weld_arrow::types::{is_nested, is_taken, sizes, streamed_type, whole_types};

/// The Weld type of a column of such a type.
pub(crate) fn column_type(ty: &DataType) -> Type {
    match list(ty) {
        Some(list) => Type::structure([list.ty(), Type::BOOL, Type::I64]),
        None => Type::structure([Type::I64]),
    }
}

/// Whether a value of this type is a list's, as rows carry it.
pub(crate) fn is_list(ty: &Type) -> bool {
    let is_values = |ty: &Type| !ty.is_bytes() && ty.element().is_some_and(|item| item.as_scalar().is_some());
    matches!(ty.fields(), Some([values, Type::Scalar(ScalarKind::Bool), ..]) if is_values(values))
}

/// The rows of a stream with the columns that it does not carry, and with the numbers of the rows:
/// ```weld
/// for(input, appender, |b, i, r| merge(b, {r.$0, {{r.$1.$0, r.$2.$1, i}, r.$1.$1}, {i}}))
/// ```
/// for an integer, a list that may be null, and a struct. As they are if none of the `needed` columns is of such a
/// type, nor one of those that come out (`given`) a dictionary.
pub(crate) fn numbered(lowering: &mut Lowering, schema: &Schema, rows: Rows, needed: &[bool], given: &[bool]) -> Rows {
    let nested = |index: usize| needed[index] && is_nested(schema.field(index).data_type());
    let taken = |index: usize| needed[index] && given[index] && is_taken(schema.field(index).data_type());
    if !(0..needed.len()).any(|index| nested(index) || taken(index)) {
        return rows;
    }
    let names = &mut lowering.env.names;
    let (b, i, r) = (names.fresh("b"), names.fresh("i"), names.fresh("r"));
    let iter = ir::over(rows.data);
    let element = iter.element_type();
    let (row, number) = (ir::var(r, element.clone()), ir::var(i, Type::I64));
    let mut whole = rows.columns.iter().flatten().count();
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (index, slot) in rows.columns.iter().enumerate() {
        let is_read = list(schema.field(index).data_type()).is_some();
        let field = match slot {
            Some(slot) if is_read || taken(index) => {
                let sql = Sql::load(ir::field(row.clone(), slot.field), slot.nullable);
                let mut parts = vec![sql.value];
                if is_read {
                    parts.push(ir::field(ir::field(row.clone(), whole), 1));
                    whole += 1;
                }
                parts.push(number.clone());
                let value = ir::strct(parts);
                Some(match sql.valid {
                    Some(valid) => (ir::strct([value, valid]), true),
                    None => (value, false),
                })
            }
            Some(slot) => Some((ir::field(row.clone(), slot.field), slot.nullable)),
            None => nested(index).then(|| (ir::strct([number.clone()]), false)),
        };
        columns.push(field.map(|(field, nullable)| {
            fields.push(field);
            Slot { field: fields.len() - 1, nullable }
        }));
    }
    let merged = ir::strct(fields);
    let builder = ir::appender(merged.ty.clone());
    let params = vec![(b, builder.ty.clone()), (i, Type::I64), (r, element)];
    let body = Box::new(ir::merge(ir::var(b, builder.ty.clone()), merged));
    let filled = ir::for_func(iter, builder, Func { params, body });
    Rows { data: lowering.bind("numbered", ir::result(filled)), columns }
}

/// Refuses rows with columns of such types, of which `what` keeps the values for longer than a chunk.
pub(crate) fn none_of(rows: &Rows, kept: &[bool], what: &str) -> Result<()> {
    let kept = rows.columns.iter().zip(kept).filter(|(_, kept)| **kept).filter_map(|(slot, _)| *slot);
    match kept.into_iter().any(|slot| carried(rows, slot) != Carried::Value) {
        true => Err(Unsupported::new(what, "it keeps no lists or structs")),
        false => Ok(()),
    }
}

/// How rows carry a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Carried {
    Value,
    /// By the number of its row, the last field.
    Number,
    List,
}

fn carried(rows: &Rows, slot: Slot) -> Carried {
    let field = rows.data.ty.element().and_then(|row| row.fields()).map(|fields| &fields[slot.field]);
    let value = match field {
        Some(Type::Struct(parts)) if slot.nullable => parts.first(),
        other => other,
    };
    match value {
        Some(ty) if is_list(ty) && ty.fields().is_some_and(|parts| parts.len() == 2) => Carried::List,
        Some(ty) if *ty == Type::interned() => Carried::Value,
        Some(Type::Struct(_)) => Carried::Number,
        _ => Carried::Value,
    }
}

/// What a pipeline gives for its rows: the rows, with a number in place of each column that is moved; or, if there are
/// lists that were made, a struct of the rows, which have the lengths of these, and of all values of each of them:
/// ```weld
/// for(rows, {appender[{i64,i64}], appender[f32]}, |b, i, r|
///   let filled = for(r.$1.$0, {b.$1, merger[i64,+]}, |c, j, x| {merge(c.$0, x), merge(c.$1, 1L)});
///   {merge(b.$0, {r.$0, result(filled.$1)}), filled.$0})
/// ```
/// The loop over a list fuses with the one that makes it: it reads it once, so values are counted and nobody asks for a
/// length.
pub(crate) fn given(lowering: &mut Lowering, rows: &Rows) -> Result<(Expr, Vec<Slot>)> {
    let slots: Vec<Slot> = rows.columns.iter().flatten().copied().collect();
    if slots.iter().all(|slot| carried(rows, *slot) == Carried::Value) {
        return Ok((rows.data.clone(), slots));
    }
    let iter = ir::over(rows.data.clone());
    let names = &mut lowering.env.names;
    let (b, i, r) = (names.fresh("b"), names.fresh("i"), names.fresh("r"));
    let element = iter.element_type();
    let row = ir::var(r, element.clone());
    let of = |slot: &Slot| Sql::load(ir::field(row.clone(), slot.field), slot.nullable);
    let is_list = |slot: &&Slot| carried(rows, **slot) == Carried::List;
    let lists: Vec<Expr> = slots.iter().filter(is_list).map(|slot| ir::field(of(slot).value, 0)).collect();
    let values: Vec<Type> = lists.iter().filter_map(|list| list.ty.element().cloned()).collect();
    // The rows have a length for each list.
    let with_lengths = |lengths: &mut dyn Iterator<Item = Expr>| {
        let columns = slots.iter().map(|slot| {
            let Sql { value, valid } = of(slot);
            let value = match carried(rows, *slot) {
                Carried::Value => value,
                Carried::Number => ir::field(value.clone(), value.ty.fields().map_or(0, |parts| parts.len() - 1)),
                Carried::List => return lengths.next().map(|length| stored_length(length, valid)),
            };
            Some((Sql { value, valid: valid.clone() }.stored(), valid.is_some()))
        });
        columns.flatten().collect::<Vec<(Expr, bool)>>()
    };
    let given = with_lengths(&mut std::iter::repeat(ir::i64(0)));
    let slots_given = given.iter().enumerate().map(|(field, (_, nullable))| Slot { field, nullable: *nullable });
    let slots_given = slots_given.collect();
    let given = ir::strct(given.into_iter().map(|(field, _)| field));
    let (builder, body) = if lists.is_empty() {
        let builder = ir::appender(given.ty.clone());
        let merged = ir::merge(ir::var(b, builder.ty.clone()), given);
        (builder, merged)
    } else {
        let builders = std::iter::once(given.ty.clone()).chain(values).map(ir::appender);
        let builder = ir::strct(builders);
        let all = ir::var(b, builder.ty.clone());
        let mut block = Block::new(&mut lowering.env);
        let filled = lists.into_iter().enumerate().map(|(index, list)| {
            let filled = append_counted(block.env, list, ir::field(all.clone(), index + 1));
            block.share("filled", filled)
        });
        let filled: Vec<Expr> = filled.collect();
        let lengths = filled.iter().map(|filled| ir::result(ir::field(filled.clone(), 1)));
        let given = with_lengths(&mut lengths.collect::<Vec<_>>().into_iter());
        let given = ir::strct(given.into_iter().map(|(field, _)| field));
        let parts = filled.into_iter().map(|filled| ir::field(filled, 0));
        let merged = ir::strct(std::iter::once(ir::merge(ir::field(all, 0), given)).chain(parts));
        (builder, block.close(merged))
    };
    let params = vec![(b, builder.ty.clone()), (i, Type::I64), (r, element)];
    let filled = ir::for_func(iter, builder, Func { params, body: Box::new(body) });
    let body = match filled.ty.fields().map(|builders| builders.len()) {
        None => ir::result(filled),
        Some(builders) => {
            let given = lowering.bind("given", filled);
            ir::strct((0..builders).map(|index| ir::result(ir::field(given.clone(), index))))
        }
    };
    Ok((body, slots_given))
}

/// What rows that come out have of a value that [`lower_given`] gives: the number of its row in place of one that is
/// moved.
pub(super) fn given_value(sql: Sql) -> Result<Sql> {
    let Some(parts) = sql.value.ty.fields().map(<[Type]>::len) else { return Ok(sql) };
    if is_list(&sql.value.ty) && parts == 2 {
        return Err(Unsupported::new("aggregate", "of a list that a function makes"));
    }
    Ok(Sql { value: ir::field(sql.value, parts - 1), ..sql })
}

/// A list's length as rows have it: that of an absent one is zero already.
fn stored_length(length: Expr, valid: Option<Expr>) -> (Expr, bool) {
    match valid {
        Some(valid) => (ir::strct([length, valid]), true),
        None => (length, false),
    }
}

/// Appends a list's values; what has been built, with how many they are in a merger.
fn append_counted(env: &mut Env, list: Expr, appender: Expr) -> Expr {
    let builder = ir::strct([appender, ir::merger(Type::I64, MergeOp::All(ReduceOp::Add))]);
    let iter = ir::over(list);
    let (b, i, x) = (env.names.fresh("b"), env.names.fresh("i"), env.names.fresh("x"));
    let (all, item) = (ir::var(b, builder.ty.clone()), iter.element_type());
    let merged = |part: usize, value: Expr| ir::merge(ir::field(all.clone(), part), value);
    let body = ir::strct([merged(0, ir::var(x, item.clone())), merged(1, ir::i64(1))]);
    let params = vec![(b, builder.ty.clone()), (i, Type::I64), (x, item)];
    ir::for_func(iter, builder, Func { params, body: Box::new(body) })
}

/// For each of so many output columns of a pipeline the source's column that it is, if it only passes through.
pub(crate) fn moved(steps: &[Step], columns: usize) -> Vec<Option<usize>> {
    let below = |column: usize, step: &Step| match step {
        Step::Filter { projection: Some(kept), .. } => kept.get(column).copied(),
        Step::Filter { projection: None, .. } => Some(column),
        Step::Project { exprs, .. } => Some(exprs.get(column)?.downcast_ref::<Column>()?.index()),
        Step::Probe { join, .. } => join.probe_column(column),
        Step::Aggregate(_) => None,
    };
    (0..columns).map(|column| steps.iter().rev().try_fold(column, below)).collect()
}

/// A column that a projection gives: a value, or one that it moves, or a list that it makes.
pub(crate) fn lower_given(block: &mut Block<'_>, scope: &Scope<'_>, expr: &Arc<dyn PhysicalExpr>) -> Result<Sql> {
    if expr.is::<Column>() || (expr.is::<ScalarFunctionExpr>() && is_nested(&data_type(scope, expr.as_ref())?)) {
        return lower_nested(block, scope, expr);
    }
    lower(block, scope, expr)
}

/// The value of a column for an expression that reads it: without the number of its row.
pub(crate) fn read(sql: Sql) -> Sql {
    match sql.value.ty.fields() {
        Some([value, Type::Scalar(ScalarKind::I64)]) if value.is_bytes() => {
            Sql { value: ir::field(sql.value, 0), ..sql }
        }
        _ => sql,
    }
}

/// A value of such a type, to be read by a function or moved.
pub(crate) fn lower_nested(block: &mut Block<'_>, scope: &Scope<'_>, expr: &Arc<dyn PhysicalExpr>) -> Result<Sql> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        let sql = scope.columns.get(column.index()).cloned().flatten();
        return sql.ok_or_else(|| Unsupported::new(expr, "the column is not among the input's"));
    }
    let ty = data_type(scope, expr.as_ref())?;
    let Some(to) = list(&ty) else { return Err(Unsupported::new(expr, format!("no Weld type stands for {ty}"))) };
    let constant = Type::structure([to.ty(), Type::BOOL]);
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Ok(match literal.value().is_null() {
            true => Sql { value: ir::zero(&constant), valid: Some(ir::bool(false)) },
            false => block.env.scalar(expr, constant, false),
        });
    }
    if expr.is::<ScalarSubqueryExpr>() {
        return Ok(block.env.scalar(expr, constant, true));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>()
        && reads_alike(&data_type(scope, cast.expr().as_ref())?, &ty)
    {
        return lower_nested(block, scope, cast.expr());
    }
    match expr.downcast_ref::<ScalarFunctionExpr>().and_then(Called::of) {
        Some(called) => lower_function(block, scope, called),
        None => Err(Unsupported::new(expr, "no lowering for this expression of lists")),
    }
}

/// Whether lists of one type have the values of another's, in the same places.
fn reads_alike(from: &DataType, to: &DataType) -> bool {
    let (Some(found), Some(wanted)) = (list(from), list(to)) else { return false };
    let (sizes, wanted_sizes) = (sizes(from), sizes(to));
    found.items == wanted.items
        && sizes[1..] == wanted_sizes[1..]
        && (wanted.size.is_none() || wanted.size == found.size)
}
