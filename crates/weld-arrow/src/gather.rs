//! Rows of a vector by their numbers, as arrays of their own.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, Schema};
use weld_codegen::{ColumnView, Value};
use weld_runtime::StringView;

use crate::memory::fixed_array;
use crate::output::{RowsReader, Slot, field_starts, mismatch};
use crate::types::is_bytes;
use crate::{Result, defect};

/// A vector of structs, the rows of a table.
#[derive(Debug)]
pub struct Gather {
    rows: Value,
    /// The first column of each field.
    starts: Vec<usize>,
    /// Makes arrays of strings.
    reader: RowsReader,
}

impl Gather {
    /// Fails if the value is no vector of structs.
    pub fn new(rows: Value) -> Result<Gather> {
        let starts = field_starts(rows.ty().element())?;
        let reader = RowsReader::new(rows.clone(), Arc::new(Schema::empty()), &[], Vec::new())?;
        Ok(Gather { rows, starts, reader })
    }

    /// How many there are.
    pub fn rows(&self) -> usize {
        self.rows.len().unwrap_or(0)
    }

    /// A column of the rows with these numbers, as an array of the type. Panics if the vector has no such row.
    ///
    /// Fails if the column has another Weld type than stands for that.
    pub fn column(&self, data_type: &DataType, slot: Slot, numbers: &[u32]) -> Result<ArrayRef> {
        let views = self.rows.columns();
        let first = self.starts[slot.field];
        let view = &views[first];
        let nulls = if slot.nullable { nulls(&views[first + 1], numbers)? } else { None };
        let texts = || -> Result<Vec<StringView>> {
            let Some(values) = view.as_views() else { return mismatch(data_type, view) };
            Ok(numbers.iter().map(|&row| values[row as usize]).collect())
        };
        match data_type {
            DataType::Boolean => {
                let values = bits(view, numbers).ok_or_else(|| defect("a column of no bool"))?;
                Ok(Arc::new(BooleanArray::new(values, nulls)))
            }
            _ if is_bytes(data_type) => self.reader.bytes(data_type, &texts()?, nulls),
            _ => fixed(data_type, view, numbers, nulls),
        }
    }
}

fn bits(view: &ColumnView<'_>, numbers: &[u32]) -> Option<BooleanBuffer> {
    let values = view.as_slice::<bool>()?;
    Some(BooleanBuffer::collect_bool(numbers.len(), |index| values[numbers[index] as usize]))
}

/// The nulls of a column, if it has any.
fn nulls(view: &ColumnView<'_>, numbers: &[u32]) -> Result<Option<NullBuffer>> {
    let valid = bits(view, numbers).ok_or_else(|| defect("a validity column is no bool"))?;
    let nulls = NullBuffer::new(valid);
    Ok((nulls.null_count() > 0).then_some(nulls))
}

fn fixed(data_type: &DataType, view: &ColumnView<'_>, numbers: &[u32], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let width = view.ty().as_scalar().map(|kind| kind.bytes());
    let values = match width.filter(|width| data_type.primitive_width() == Some(*width)) {
        Some(1) => pick::<u8>(view, numbers),
        Some(2) => pick::<u16>(view, numbers),
        Some(4) => pick::<u32>(view, numbers),
        Some(8) => pick::<u64>(view, numbers),
        Some(16) => pick::<i128>(view, numbers),
        _ => return mismatch(data_type, view),
    };
    fixed_array(data_type, numbers.len(), values, nulls)
}

/// The values of a column of that width.
fn pick<T: ArrowNativeType>(view: &ColumnView<'_>, numbers: &[u32]) -> Buffer {
    let read = |&row: &u32| {
        assert!((row as usize) < view.rows(), "a table has the rows that it numbers");
        // SAFETY: the column holds `rows` values of T's width, of which this is one; they lie at any multiple of eight
        // bytes if they are wider.
        unsafe { view.data().cast::<T>().add(row as usize).read_unaligned() }
    };
    Buffer::from_vec(numbers.iter().map(read).collect::<Vec<T>>())
}
