//! Lists and structs at the edge of a function: a list of scalars is a vector, nested lists of fixed sizes are one flat vector.

use arrow::datatypes::DataType;
use weld_arrow::List;
use weld_core::ir::{Expr, build as ir};
use weld_core::op::Intrinsic;
use weld_core::ty::Type;
use weld_frontend::{Array, Shape};

use crate::lower::lists::{list, sizes};
use crate::lower::types::value_type;
use crate::lower::{Block, Result, Unsupported};

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
        let parts: Vec<&Shape> = match shape {
            Shape::Record(parts) => parts.iter().map(|(_, shape)| shape).collect(),
            Shape::Tuple(parts) => parts.iter().collect(),
            _ => return Err(Unsupported::new(name, format!("{} as {ty}", shape.described()))),
        };
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
