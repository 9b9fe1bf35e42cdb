//! List arrays as columns: the values of lists of scalars, and of lists of fixed sizes inside, lie one after the other.

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use weld_codegen::Layout;
use weld_core::ty::ScalarKind;
use weld_runtime::ColumnAbi;

use super::input::{fixed_kind, fixed_values};

/// The layout of a list array; what it points to is set in `abi`. A NULL inside a list that is there is an error.
pub(super) fn list_layout(array: &dyn Array, abi: &mut ColumnAbi) -> Result<Layout> {
    if (0..array.len()).any(|row| array.is_valid(row) && holds_null(array, row)) {
        return exec_err!("a list with NULL in it is passed to a function");
    }
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (data, unit, items) = leaf(list.values().as_ref())?;
            (abi.values, abi.data) = (list.value_offsets().as_ptr().cast(), data);
            Ok(Layout::List { offsets: ScalarKind::I32, unit, items })
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (data, unit, items) = leaf(list.values().as_ref())?;
            (abi.values, abi.data) = (list.value_offsets().as_ptr().cast(), data);
            Ok(Layout::List { offsets: ScalarKind::I64, unit, items })
        }
        _ => {
            let (data, size, items) = leaf(array)?;
            abi.values = data;
            Ok(Layout::FixedList { size, items })
        }
    }
}

/// The first scalar of an array, how many of them make an element, and their kind.
fn leaf(array: &dyn Array) -> Result<(*const u8, u64, ScalarKind)> {
    if let DataType::FixedSizeList(_, size) = array.data_type() {
        let (data, unit, items) = leaf(array.as_fixed_size_list().values().as_ref())?;
        return Ok((data, unit * u64::try_from(*size).unwrap_or(0), items));
    }
    let Some(kind) = fixed_kind(array.data_type()) else {
        return exec_err!("a list of {} is passed to a function", array.data_type());
    };
    Ok((fixed_values(array, kind)?, 1, kind))
}

/// Whether anything inside the list of a row is null.
fn holds_null(array: &dyn Array, row: usize) -> bool {
    let (values, range) = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            (list.values(), offsets[row] as usize..offsets[row + 1] as usize)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let offsets = list.value_offsets();
            (list.values(), offsets[row] as usize..offsets[row + 1] as usize)
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            (array.as_fixed_size_list().values(), row * size..(row + 1) * size)
        }
        _ => return false,
    };
    let nested = matches!(values.data_type(), DataType::FixedSizeList(..));
    if values.null_count() == 0 && !nested {
        return false;
    }
    range.into_iter().any(|index| values.is_null(index) || (nested && holds_null(values.as_ref(), index)))
}
