//! List arrays as columns: the values of lists of scalars, and of lists of fixed sizes inside, lie one after the other.
//! And constant lists as values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef};
use arrow::error::ArrowError;
use weld_codegen::{Column, ColumnLayout, Layout, Value};
use weld_core::ty::ScalarKind;
use weld_runtime::ColumnAbi;

use crate::input::scalars;
use crate::types::{fixed_kind, list};
use crate::vectors::vector;
use crate::{Result, defect};

/// The layout of a list array; what it points to is set in `abi`.
pub(crate) fn list_layout(array: &dyn Array, abi: &mut ColumnAbi) -> Result<Layout> {
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (data, unit, items) = leaf(list.values().as_ref())?;
            (abi.values, abi.data) = (list.value_offsets().as_ptr().cast(), data.as_ptr());
            Ok(Layout::List { offsets: ScalarKind::I32, unit, items })
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let (data, unit, items) = leaf(list.values().as_ref())?;
            (abi.values, abi.data) = (list.value_offsets().as_ptr().cast(), data.as_ptr());
            Ok(Layout::List { offsets: ScalarKind::I64, unit, items })
        }
        _ => {
            let (data, size, items) = leaf(array)?;
            abi.values = data.as_ptr();
            Ok(Layout::FixedList { size, items })
        }
    }
}

/// The layout that lists of a type have.
pub(crate) fn expected_list(ty: &DataType) -> Option<Layout> {
    let found = list(ty)?;
    let (unit, items) = (found.unit, found.kind);
    Some(match ty {
        DataType::List(_) => Layout::List { offsets: ScalarKind::I32, unit, items },
        DataType::LargeList(_) => Layout::List { offsets: ScalarKind::I64, unit, items },
        _ => Layout::FixedList { size: found.size? * unit, items },
    })
}

/// The scalars of an array, how many of them make an element, and their kind.
fn leaf(array: &dyn Array) -> Result<(&Buffer, u64, ScalarKind)> {
    if let DataType::FixedSizeList(_, size) = array.data_type() {
        let (data, unit, items) = leaf(array.as_fixed_size_list().values().as_ref())?;
        return Ok((data, unit * u64::try_from(*size).unwrap_or(0), items));
    }
    let (Some(kind), Some(values)) = (fixed_kind(array.data_type()), scalars(array)) else {
        let message = format!("a list of {} is passed to a function", array.data_type());
        return Err(ArrowError::InvalidArgumentError(message));
    };
    Ok((values, 1, kind))
}

/// The columns that follow those of a stream, one for each of these arrays that has lists of scalars: which of them
/// have no NULL inside, or nothing if none has.
#[derive(Debug)]
pub(crate) struct Wholes {
    rows: usize,
    columns: Vec<Option<BooleanBuffer>>,
    /// Values that nobody reads.
    values: Box<[u8]>,
}

impl Wholes {
    pub(crate) fn of(arrays: &[ArrayRef], rows: usize) -> Wholes {
        let lists = arrays.iter().filter(|array| list(array.data_type()).is_some());
        let columns: Vec<_> = lists.map(whole).collect();
        let bytes = if columns.is_empty() { 0 } else { rows.div_ceil(8) };
        Wholes { rows, columns, values: vec![0; bytes].into() }
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = Column<'_>> {
        self.columns.iter().map(|whole| {
            let mut abi = ColumnAbi { values: self.values.as_ptr(), ..ColumnAbi::EMPTY };
            if let Some(whole) = whole {
                debug_assert_eq!(whole.len(), self.rows);
                abi.validity = whole.values().as_ptr();
                abi.validity_offset = whole.offset() as u64;
            }
            // SAFETY: values and validity have a bit for each row, and are borrowed with `self`, which does not change.
            unsafe { Column::from_raw(Layout::Bits, abi) }
        })
    }
}

/// The layout that such a column is expected to have.
pub fn whole_layout() -> ColumnLayout {
    ColumnLayout { layout: Layout::Bits, validity: false }
}

/// Which lists have no NULL inside; `None` if none has one.
fn whole(array: &ArrayRef) -> Option<BooleanBuffer> {
    if !may_hold_null(array.as_ref()) {
        return None;
    }
    let whole = BooleanBuffer::collect_bool(array.len(), |row| array.is_null(row) || !holds_null(array.as_ref(), row));
    (whole.count_set_bits() < whole.len()).then_some(whole)
}

fn values_of(array: &dyn Array) -> Option<&ArrayRef> {
    Some(match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().values(),
        DataType::LargeList(_) => array.as_list::<i64>().values(),
        DataType::FixedSizeList(..) => array.as_fixed_size_list().values(),
        _ => return None,
    })
}

fn may_hold_null(array: &dyn Array) -> bool {
    values_of(array).is_some_and(|values| values.null_count() > 0 || may_hold_null(values.as_ref()))
}

/// Whether anything inside the list of a row is null.
fn holds_null(array: &dyn Array, row: usize) -> bool {
    let Some(values) = values_of(array) else { return false };
    let range = match array.data_type() {
        DataType::List(_) => {
            let offsets = array.as_list::<i32>().value_offsets();
            offsets[row] as usize..offsets[row + 1] as usize
        }
        DataType::LargeList(_) => {
            let offsets = array.as_list::<i64>().value_offsets();
            offsets[row] as usize..offsets[row + 1] as usize
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            row * size..(row + 1) * size
        }
        _ => return false,
    };
    let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
    nulls.is_some_and(|nulls| nulls.slice(range.start, range.len()).null_count() > 0)
        || (may_hold_null(values.as_ref()) && range.into_iter().any(|index| holds_null(values.as_ref(), index)))
}

/// A constant list, of which an array has one, as the pair that rows have: its values, and whether no NULL is among
/// them. A null has no values.
///
/// Fails if it is no list of scalars.
pub fn constant_list(array: &ArrayRef) -> Result<Value> {
    let Some(of) = list(array.data_type()) else {
        return Err(defect(format_args!("{} is no list of numbers", array.data_type())));
    };
    let (range, values) = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (list.value_offsets()[0] as usize..list.value_offsets()[1] as usize, list.values())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (list.value_offsets()[0] as usize..list.value_offsets()[1] as usize, list.values())
        }
        _ => (0..of.size.unwrap_or(0) as usize, array.as_fixed_size_list().values()),
    };
    let (range, is_whole) = if array.is_null(0) { (0..0, true) } else { (range, !holds_null(array.as_ref(), 0)) };
    let (values, unit, _) = leaf(values.as_ref())?;
    let (unit, width) = (unit as usize, of.kind.bytes());
    let count = range.len() * unit;
    let values = values.slice_with_length(range.start * unit * width, count * width);
    let Some(values) = vector(of.kind, &values, count) else {
        return Err(defect(format_args!("no lists of {}", of.kind)));
    };
    Ok(Value::structure([values, Value::bool(is_whole)]))
}

/// The lists with so many elements each, whose scalars are `leaf`.
///
/// Fails if there are more than offsets of the type count.
pub(crate) fn lists_of<O: OffsetSizeTrait>(
    item: &FieldRef,
    lengths: impl Iterator<Item = usize>,
    leaf: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let values = lists_of_fixed(item.data_type(), leaf)?;
    if O::from_usize(values.len()).is_none() {
        return Err(ArrowError::OffsetOverflowError(values.len()));
    }
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, nulls)?))
}

/// The scalars as lists of fixed sizes, if the type is one.
pub(crate) fn lists_of_fixed(data_type: &DataType, leaf: ArrayRef) -> Result<ArrayRef> {
    let DataType::FixedSizeList(item, size) = data_type else { return Ok(leaf) };
    let values = lists_of_fixed(item.data_type(), leaf)?;
    Ok(Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *size, values, None)?))
}
