//! Lists and structs at the edge of a function: a list of scalars is a vector, nested lists of fixed sizes are one flat
//! vector. A struct is passed as a column for each of its fields, those of structs in it too.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray, BooleanArray, StructArray};
use arrow::compute::{CastOptions, cast_with_options, nullif};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result as QueryResult, exec_err};
use weld_arrow::List;
use weld_core::ir::{Expr, build as ir};
use weld_core::op::Intrinsic;
use weld_core::ty::Type;
use weld_frontend::{Array, Shape};

use crate::lower::lists::{list, sizes};
use crate::lower::types::value_type;
use crate::lower::{Block, Result, Unsupported};

use super::types;

/// The types of the columns that an argument is passed as.
pub(super) fn column_types(ty: &DataType) -> Vec<DataType> {
    match ty {
        DataType::Struct(fields) => fields.iter().flat_map(|field| column_types(field.data_type())).collect(),
        other => vec![other.clone()],
    }
}

/// A struct with its fields, by their places, of the declared types; they are null where it is. Anything else has its
/// type already.
pub(super) fn converted(array: &ArrayRef, declared: &DataType) -> QueryResult<ArrayRef> {
    let (Some(rows), DataType::Struct(fields)) = (array.as_struct_opt(), declared) else {
        return Ok(Arc::clone(array));
    };
    let absent = rows.nulls().map(|nulls| BooleanArray::new(!nulls.inner(), None));
    let mut columns = Vec::with_capacity(fields.len());
    for (column, field) in rows.columns().iter().zip(fields) {
        let column = match &absent {
            Some(absent) => nullif(column, absent)?,
            None => Arc::clone(column),
        };
        let wanted = types::passed(column.data_type(), field.data_type());
        let options = CastOptions { safe: false, ..CastOptions::default() };
        columns.push(match column.data_type() {
            DataType::Struct(_) => converted(&column, field.data_type())?,
            found if *found == wanted => column,
            _ => cast_with_options(&column, &wanted, &options)?,
        });
    }
    let field = |(field, column): (&Arc<Field>, &ArrayRef)| Field::new(field.name(), column.data_type().clone(), true);
    let fields = fields.iter().zip(&columns).map(field).collect();
    Ok(Arc::new(StructArray::try_new(fields, columns, rows.nulls().cloned())?))
}

/// Adds the columns of an argument. NULL inside of a struct is an error.
pub(super) fn add_columns(array: &ArrayRef, name: &str, columns: &mut Vec<ArrayRef>) -> QueryResult<()> {
    let Some(rows) = array.as_struct_opt() else {
        columns.push(Arc::clone(array));
        return Ok(());
    };
    for column in rows.columns() {
        if column.logical_null_count() > rows.null_count() {
            return exec_err!("a struct with NULL in it is passed to {name}");
        }
        add_columns(column, name, columns)?;
    }
    Ok(())
}

/// An argument of its columns.
pub(super) fn passed_columns(
    block: &mut Block<'_>,
    columns: &mut dyn Iterator<Item = Expr>,
    shape: &Shape,
    ty: &DataType,
    name: &str,
) -> Result<Expr> {
    let DataType::Struct(fields) = ty else {
        let value = columns.next().ok_or_else(|| Unsupported::new(name, "it has no column"))?;
        return passed(block, value, shape, ty, name);
    };
    let shapes = parts(shape).filter(|parts| parts.len() == fields.len() && !parts.is_empty());
    let shapes = shapes.ok_or_else(|| Unsupported::new(name, format!("{ty} for {}", shape.described())))?;
    let mut part =
        |(shape, field): (&Shape, &Arc<Field>)| passed_columns(block, columns, shape, field.data_type(), name);
    Ok(ir::strct(shapes.into_iter().zip(fields).map(&mut part).collect::<Result<Vec<_>>>()?))
}

/// The shapes of a struct's fields.
fn parts(shape: &Shape) -> Option<Vec<&Shape>> {
    match shape {
        Shape::Record(parts) => Some(parts.iter().map(|(_, shape)| shape).collect()),
        Shape::Tuple(parts) => Some(parts.iter().collect()),
        _ => None,
    }
}

/// An argument as the function takes it, of the size that it is declared with.
pub(super) fn passed(block: &mut Block<'_>, value: Expr, shape: &Shape, ty: &DataType, name: &str) -> Result<Expr> {
    let (Shape::Array(array), Some(list)) = (shape, list(ty)) else {
        return match value.ty == shape.ty() {
            true => Ok(value),
            false => Err(Unsupported::new(name, format!("{ty} for {}", shape.described()))),
        };
    };
    let value = block.share("list", value);
    let unit = ir::i64(list.unit.max(1) as i64);
    // What the column's type says is checked as well: it holds, and the optimizer learns it.
    let value = match list.size.or(array.sizes[0]) {
        Some(wanted) => {
            let elements = ir::i64(wanted.saturating_mul(list.unit) as i64);
            let message = format!("argument `{name}` has {{0}} elements, not {{1}}");
            let found = ir::div(ir::len(value.clone()), unit.clone());
            let fits = ir::eq(ir::len(value.clone()), elements);
            checked(fits, &message, [found, ir::i64(wanted as i64)], value)
        }
        None => value,
    };
    let value = block.share("list", value);
    let declared = sizes(ty);
    let carried = array.carried().into_iter().map(|axis| match declared.get(axis).copied().flatten() {
        Some(size) => Ok(ir::i64(size as i64)),
        None if axis == 0 => Ok(ir::div(ir::len(value.clone()), unit.clone())),
        None => Err(Unsupported::new(name, format!("{ty}, whose inner lists may differ in size"))),
    });
    let carried = carried.collect::<Result<Vec<Expr>>>()?;
    Ok(if carried.is_empty() { value } else { ir::strct(std::iter::once(value).chain(carried)) })
}

pub(super) fn checked(cond: Expr, message: &str, values: impl IntoIterator<Item = Expr>, value: Expr) -> Expr {
    let zero = ir::zero(&value.ty);
    ir::if_(ir::require(cond, message, values), value, zero)
}

/// The result as the columns of its leaves, whose types are added to `leaves`.
pub(super) fn returned(
    block: &mut Block<'_>,
    value: Expr,
    shape: &Shape,
    ty: &DataType,
    name: &str,
    leaves: &mut Vec<DataType>,
) -> Result<Vec<Expr>> {
    if let DataType::Struct(fields) = ty {
        let parts = parts(shape).ok_or_else(|| Unsupported::new(name, format!("{} as {ty}", shape.described())))?;
        let mut all = Vec::new();
        for (index, (part, field)) in parts.into_iter().zip(fields.iter()).enumerate() {
            all.extend(returned(block, ir::field(value.clone(), index), part, field.data_type(), name, leaves)?);
        }
        return Ok(all);
    }
    leaves.push(ty.clone());
    if let Some(list) = list(ty) {
        return Ok(vec![returned_list(block, value, shape, ty, &list, name)?]);
    }
    if value.ty != value_type(ty)? {
        return Err(Unsupported::new(name, format!("{} as {ty}", shape.described())));
    }
    if value.ty != Type::vec(Type::U8) {
        return Ok(vec![value]);
    }
    // Bytes that a program has made are a string if they are UTF-8.
    let text = block.share("text", value);
    let is_utf8 = ir::intrinsic(Intrinsic::IsUtf8, [text.clone()]);
    Ok(vec![checked(is_utf8, &format!("{name}: the result is no UTF-8"), [], text)])
}

fn returned_list(
    block: &mut Block<'_>,
    value: Expr,
    shape: &Shape,
    ty: &DataType,
    list: &List,
    name: &str,
) -> Result<Expr> {
    let data = match shape {
        Shape::Array(array) => {
            for (index, axis) in array.carried().into_iter().enumerate().filter(|(_, axis)| *axis > 0) {
                if !matches!(sizes(ty).get(axis), Some(Some(_))) {
                    return Err(Unsupported::new(name, format!("{ty}, whose inner lists may differ in size")));
                }
                let _ = index;
            }
            let data = if array.carries_sizes() { ir::field(value.clone(), 0) } else { value.clone() };
            inner_sizes(block, data, &value, array, ty, name)
        }
        _ => value,
    };
    if data.ty != Type::vec(Type::Scalar(list.kind)) {
        return Err(Unsupported::new(name, format!("{} as {ty}", shape.described())));
    }
    let Some(size) = list.size else { return Ok(data) };
    let data = block.share("list", data);
    let elements = ir::i64(size.saturating_mul(list.unit) as i64);
    let fits = ir::eq(ir::len(data.clone()), elements.clone());
    let message = format!("{name}: the result has {{0}} elements, not {{1}}");
    let found = ir::len(data.clone());
    Ok(checked(fits, &message, [found, elements], data))
}

/// The data of an array whose open inner sizes are those that the type declares.
fn inner_sizes(block: &mut Block<'_>, data: Expr, value: &Expr, array: &Array, ty: &DataType, name: &str) -> Expr {
    let declared = sizes(ty);
    let mut data = data;
    for (index, axis) in array.carried().into_iter().enumerate().filter(|(_, axis)| *axis > 0) {
        let Some(Some(size)) = declared.get(axis) else { continue };
        let (found, wanted) = (ir::field(value.clone(), index + 1), ir::i64(*size as i64));
        let message = format!("{name}: the result's size in dimension {axis} is {{0}}, not {{1}}");
        data = block.share("list", data);
        data = checked(ir::eq(found.clone(), wanted.clone()), &message, [found, wanted], data);
    }
    data
}
