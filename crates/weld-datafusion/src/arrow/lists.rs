//! List arrays as columns: the values of lists of scalars, and of lists of fixed sizes inside, lie one after the other. And
//! constant lists as values.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err, internal_err};
use weld_codegen::{Column, ColumnLayout, Layout, Native, Value};
use weld_core::ty::ScalarKind;
use weld_runtime::ColumnAbi;

use super::input::{fixed_kind, fixed_values};
use crate::lower::lists::list;

/// The layout of a list array; what it points to is set in `abi`.
pub(super) fn list_layout(array: &dyn Array, abi: &mut ColumnAbi) -> Result<Layout> {
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

/// The layout that lists of a type have.
pub(super) fn expected_list(ty: &DataType) -> Option<Layout> {
    let found = list(ty)?;
    let (unit, items) = (found.unit, found.kind);
    Some(match ty {
        DataType::List(_) => Layout::List { offsets: ScalarKind::I32, unit, items },
        DataType::LargeList(_) => Layout::List { offsets: ScalarKind::I64, unit, items },
        _ => Layout::FixedList { size: found.size? * unit, items },
    })
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

/// The columns that follow those of a stream, one for each of these arrays that has lists of scalars: which of them have no NULL
/// inside, or nothing if none has.
#[derive(Debug)]
pub(super) struct Wholes {
    rows: usize,
    columns: Vec<Option<BooleanBuffer>>,
    /// Values that nobody reads.
    values: Box<[u8]>,
}

impl Wholes {
    pub(super) fn of(arrays: &[ArrayRef], rows: usize) -> Wholes {
        let lists = arrays.iter().filter(|array| list(array.data_type()).is_some());
        let columns: Vec<_> = lists.map(whole).collect();
        let bytes = if columns.is_empty() { 0 } else { rows.div_ceil(8) };
        Wholes { rows, columns, values: vec![0; bytes].into() }
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = Column<'_>> {
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
pub(crate) fn whole_layout() -> ColumnLayout {
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

/// A constant list, of which an array has one, as the pair that rows have: its values, and whether no NULL is among them.
pub(super) fn constant_list(array: &ArrayRef) -> Result<Value> {
    let ty = array.data_type();
    let Some(of) = list(ty) else { return internal_err!("{ty} is no list of numbers") };
    if array.is_null(0) {
        return Ok(Value::structure([vector(of.kind, Vec::new())?, Value::bool(true)]));
    }
    let mut abi = ColumnAbi::EMPTY;
    let (start, len, data) = match list_layout(array.as_ref(), &mut abi)? {
        Layout::List { offsets, unit, .. } => {
            let (first, next) = match offsets {
                ScalarKind::I32 => {
                    let offsets = array.as_list::<i32>().value_offsets();
                    (offsets[0] as usize, offsets[1] as usize)
                }
                _ => {
                    let offsets = array.as_list::<i64>().value_offsets();
                    (offsets[0] as usize, offsets[1] as usize)
                }
            };
            (first * unit as usize, (next - first) * unit as usize, abi.data)
        }
        Layout::FixedList { size, .. } => (0, size as usize, abi.values),
        _ => return internal_err!("{ty} has no layout of lists"),
    };
    let width = of.kind.bytes();
    let bytes = match len {
        0 => Vec::new(),
        // SAFETY: the list's values lie there in the array, as `list_layout` says.
        _ => unsafe { std::slice::from_raw_parts(data.add(start * width), len * width) }.to_vec(),
    };
    let is_whole = !holds_null(array.as_ref(), 0);
    Ok(Value::structure([vector(of.kind, bytes)?, Value::bool(is_whole)]))
}

/// The vector of scalars with these bytes.
fn vector(kind: ScalarKind, bytes: Vec<u8>) -> Result<Value> {
    fn of<T: Native, const N: usize>(bytes: &[u8], read: fn([u8; N]) -> T) -> Value {
        let values: Vec<T> = bytes.chunks_exact(N).map(|value| read(value.try_into().expect("N bytes"))).collect();
        Value::vector(values)
    }
    Ok(match kind {
        ScalarKind::I16 => of(&bytes, i16::from_ne_bytes),
        ScalarKind::I32 => of(&bytes, i32::from_ne_bytes),
        ScalarKind::I64 => of(&bytes, i64::from_ne_bytes),
        ScalarKind::I128 => of(&bytes, i128::from_ne_bytes),
        ScalarKind::U16 => of(&bytes, u16::from_ne_bytes),
        ScalarKind::U32 => of(&bytes, u32::from_ne_bytes),
        ScalarKind::U64 => of(&bytes, u64::from_ne_bytes),
        ScalarKind::F32 => of(&bytes, f32::from_ne_bytes),
        ScalarKind::F64 => of(&bytes, f64::from_ne_bytes),
        other => return internal_err!("no lists of {other}"),
    })
}
