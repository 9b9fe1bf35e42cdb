//! Record batches as chunks: pointers into Arrow's buffers, nothing copied.
//!
//! A column without nulls has no validity in its layout, so that the code for it never looks.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, RecordBatch,
    downcast_primitive_array, make_array, make_view, new_null_array,
};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use weld_codegen::{Chunk, Column, ColumnLayout, Layout};
use weld_runtime::ColumnAbi;

use crate::lists::{Wholes, expected_list, list_layout};
use crate::types::fixed_kind;
use crate::{Result, defect};

/// The columns of a batch that a stream reads, with what their chunk points to beside Arrow's buffers.
#[derive(Debug)]
pub struct BatchColumns {
    rows: usize,
    arrays: Vec<ArrayRef>,
    /// For each column the addresses of its string buffers.
    buffers: Vec<Box<[*const u8]>>,
    /// For each column its dictionary's number, or 0.
    dictionaries: Vec<u64>,
    /// Which lists have no NULL inside.
    wholes: Wholes,
}

/// Numbers for the dictionaries of a stream's columns: the same where a batch has the dictionary of the batch before.
#[derive(Debug, Default)]
pub struct DictionaryNumbers {
    /// For each column its last dictionary and that one's number. It is kept so that no other can take its address.
    last: Vec<Option<(ArrayRef, u64)>>,
    count: u64,
}

impl DictionaryNumbers {
    fn of(&mut self, column: usize, array: &ArrayRef) -> u64 {
        if !matches!(array.data_type(), DataType::Dictionary(..)) {
            return 0;
        }
        let values = array.as_any_dictionary().values();
        if self.last.len() <= column {
            self.last.resize(column + 1, None);
        }
        match &self.last[column] {
            Some((last, number)) if Arc::ptr_eq(last, values) => *number,
            _ => {
                self.count += 1;
                self.last[column] = Some((Arc::clone(values), self.count));
                self.count
            }
        }
    }
}

// SAFETY: the addresses are of buffers that `arrays` keeps alive and nobody changes.
unsafe impl Send for BatchColumns {}
// SAFETY: as above.
unsafe impl Sync for BatchColumns {}

impl BatchColumns {
    /// The columns of `batch` at `indices`, and behind them, for each list, whether NULL is inside (see
    /// [`crate::lists`]).
    ///
    /// Fails if an array cannot be made readable. Panics if the batch has no such column.
    pub fn new(batch: &RecordBatch, indices: &[usize]) -> Result<BatchColumns> {
        let mut arrays = Vec::with_capacity(indices.len());
        for &index in indices {
            arrays.push(readable(batch.column(index))?);
        }
        let buffers = arrays.iter().map(|array| string_buffers(array.as_ref())).collect();
        let dictionaries = vec![0; arrays.len()];
        let wholes = Wholes::of(&arrays, batch.num_rows());
        Ok(BatchColumns { rows: batch.num_rows(), arrays, buffers, dictionaries, wholes })
    }

    /// The same for a stream whose batches share dictionaries.
    pub fn of_stream(batch: &RecordBatch, indices: &[usize], numbers: &mut DictionaryNumbers) -> Result<BatchColumns> {
        let mut columns = BatchColumns::new(batch, indices)?;
        for (i, array) in columns.arrays.iter().enumerate() {
            columns.dictionaries[i] = numbers.of(i, array);
        }
        Ok(columns)
    }

    /// The chunk that points to them.
    pub fn chunk(&self) -> Result<Chunk<'_>> {
        let arrays = self.arrays.iter().zip(&self.buffers).zip(&self.dictionaries);
        let columns = arrays.map(|((array, buffers), dictionary)| column(array.as_ref(), buffers, *dictionary));
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        columns.extend(self.wholes.columns());
        Ok(Chunk::new(self.rows, columns))
    }

    /// The arrays, in the order of the indices, as compiled code reads them: dictionaries without nulls among their
    /// values, binary of a fixed width as views.
    pub fn arrays(&self) -> &[ArrayRef] {
        &self.arrays
    }
}

/// The array as compiled code can read it. Dictionaries stay dictionaries, whatever batch they are in, so that their
/// layout is one for all batches: nulls among the values become nulls of the rows.
fn readable(array: &ArrayRef) -> Result<ArrayRef> {
    if let Some(values) = array.as_fixed_size_binary_opt() {
        return Ok(Arc::new(views_of_fixed(values)));
    }
    let DataType::Dictionary(_, of) = array.data_type() else { return Ok(Arc::clone(array)) };
    let dictionary = array.as_any_dictionary();
    if let Some(values) = dictionary.values().as_fixed_size_binary_opt() {
        return readable(&dictionary.with_values(Arc::new(views_of_fixed(values))));
    }
    let values = dictionary.values();
    if matches!(values.data_type(), DataType::Dictionary(..)) {
        return cast(array, of);
    }
    if values.null_count() == 0 && !values.is_empty() {
        return Ok(Arc::clone(array));
    }
    // A null row's code is never looked at.
    let nulls = array.logical_nulls();
    let values = match values.is_empty() {
        true => new_null_array(of, 1),
        false => Arc::clone(values),
    };
    let values = values.to_data().into_builder().nulls(None).build()?;
    let keys = dictionary.keys().to_data().into_builder().nulls(nulls);
    let data = keys.data_type(array.data_type().clone()).add_child_data(values);
    // SAFETY: keys and values are those of a dictionary. What is null is null still, so no other code is looked at; the
    // one of an empty dictionary's rows are all null.
    Ok(make_array(unsafe { data.build_unchecked() }))
}

/// Values of one width as views of them. Their bytes stay where they are.
fn views_of_fixed(array: &FixedSizeBinaryArray) -> BinaryViewArray {
    let width = usize::try_from(array.value_length()).unwrap_or(0).max(1);
    // Offsets of views are taken as signed by some.
    let rows_max = (i32::MAX as usize / width).max(1);
    let bytes = array.values();
    let mut views = Vec::with_capacity(array.len());
    let mut buffers = Vec::new();
    for start in (0..array.len()).step_by(rows_max) {
        let rows = rows_max.min(array.len() - start);
        let number = buffers.len() as u32;
        views.extend((0..rows).map(|row| make_view(array.value(start + row), number, (row * width) as u32)));
        buffers.push(bytes.slice_with_length(start * width, rows * width));
    }
    // SAFETY: a view is inline, or the bytes of its row in the buffer that begins `start` rows into the array's.
    unsafe { BinaryViewArray::new_unchecked(views.into(), buffers, array.nulls().cloned()) }
}

fn string_buffers(array: &dyn Array) -> Box<[*const u8]> {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().data_buffers().iter().map(|buffer| buffer.as_ptr()).collect(),
        DataType::BinaryView => array.as_binary_view().data_buffers().iter().map(|buffer| buffer.as_ptr()).collect(),
        DataType::Dictionary(..) => string_buffers(array.as_any_dictionary().values().as_ref()),
        _ => Box::new([]),
    }
}

/// The layout that columns of a type have, as far as the type tells: what to compile ahead.
pub fn expected_layout(data_type: &DataType) -> Option<ColumnLayout> {
    let layout = match data_type {
        DataType::Boolean => Layout::Bits,
        DataType::Utf8 | DataType::Binary => Layout::Utf8,
        DataType::LargeUtf8 | DataType::LargeBinary => Layout::LargeUtf8,
        DataType::Utf8View | DataType::BinaryView | DataType::FixedSizeBinary(_) => Layout::Utf8View,
        DataType::Dictionary(codes, values) => {
            Layout::Dictionary { codes: fixed_kind(codes)?, values: Box::new(expected_layout(values)?.layout) }
        }
        other => match fixed_kind(other) {
            Some(kind) => Layout::Fixed(kind),
            None => expected_list(other)?,
        },
    };
    Some(ColumnLayout { layout, validity: false })
}

fn column<'a>(array: &'a dyn Array, buffers: &'a [*const u8], dictionary_number: u64) -> Result<Column<'a>> {
    let mut abi = ColumnAbi { dictionary_number, ..ColumnAbi::EMPTY };
    if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
        abi.validity = nulls.validity().as_ptr();
        abi.validity_offset = nulls.offset() as u64;
    }
    let layout = match array.data_type() {
        DataType::Boolean => {
            let values = bits(array.as_boolean());
            (abi.values, abi.bit_offset) = values;
            Layout::Bits
        }
        DataType::Utf8 => {
            let strings = array.as_string::<i32>();
            abi.values = strings.value_offsets().as_ptr().cast();
            abi.data = strings.values().as_ptr();
            Layout::Utf8
        }
        DataType::LargeUtf8 => {
            let strings = array.as_string::<i64>();
            abi.values = strings.value_offsets().as_ptr().cast();
            abi.data = strings.values().as_ptr();
            Layout::LargeUtf8
        }
        DataType::Binary => {
            let strings = array.as_binary::<i32>();
            abi.values = strings.value_offsets().as_ptr().cast();
            abi.data = strings.values().as_ptr();
            Layout::Utf8
        }
        DataType::LargeBinary => {
            let strings = array.as_binary::<i64>();
            abi.values = strings.value_offsets().as_ptr().cast();
            abi.data = strings.values().as_ptr();
            Layout::LargeUtf8
        }
        DataType::BinaryView => {
            abi.values = array.as_binary_view().views().as_ptr().cast();
            abi.buffers = buffers.as_ptr();
            Layout::Utf8View
        }
        DataType::Utf8View => {
            abi.values = array.as_string_view().views().as_ptr().cast();
            abi.buffers = buffers.as_ptr();
            Layout::Utf8View
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => list_layout(array, &mut abi)?,
        DataType::Dictionary(codes, _) => return dictionary_column(array, codes, abi, buffers),
        other => {
            let Some(kind) = fixed_kind(other) else {
                let message = format!("a compiled pipeline was given a column of the type {other}");
                return Err(ArrowError::InvalidArgumentError(message));
            };
            abi.values = first_of(array)?;
            Layout::Fixed(kind)
        }
    };
    // SAFETY: the pointers are of the array's buffers, already advanced to its first row; the array and `buffers` are
    // borrowed for `'a` and Arrow's buffers are immutable.
    Ok(unsafe { Column::from_raw(layout, abi) })
}

fn dictionary_column<'a>(
    array: &'a dyn Array,
    codes: &DataType,
    mut abi: ColumnAbi,
    buffers: &'a [*const u8],
) -> Result<Column<'a>> {
    let dictionary = array.as_any_dictionary();
    let Some(kind) = fixed_kind(codes) else {
        return Err(defect(format_args!("dictionary codes of the type {codes}")));
    };
    abi.values = first_of(dictionary.keys())?;
    abi.entries = dictionary.values().len() as u64;
    let values = column(dictionary.values().as_ref(), buffers, 0)?;
    // SAFETY: as for `Column::from_raw`; Arrow promises that the codes of valid rows are within the values, and
    // `readable` that the values have no nulls.
    Ok(unsafe { Column::dictionary(kind, abi, values) })
}

fn bits(array: &BooleanArray) -> (*const u8, u64) {
    (array.values().values().as_ptr(), array.values().offset() as u64)
}

/// The values of an array of scalars, from its first row on; `None` if it has none.
pub(crate) fn scalars(array: &dyn Array) -> Option<&Buffer> {
    downcast_primitive_array!(
        array => Some(array.values().inner()),
        _ => None
    )
}

/// The address of the first value.
fn first_of(array: &dyn Array) -> Result<*const u8> {
    let values = scalars(array).map(|values| values.as_ptr());
    values.ok_or_else(|| defect(format_args!("no values of the type {}", array.data_type())))
}

/// `$body` with `$values` the array of text or binary that `$array` is; `$other` if it is of another type.
macro_rules! with_bytes {
    ($array:expr, $values:ident => $body:expr, _ => $other:expr) => {{
        use arrow::array::AsArray as _;
        match $array.data_type() {
            arrow::datatypes::DataType::Utf8 => with_bytes!(@ $values = $array.as_string::<i32>(), $body),
            arrow::datatypes::DataType::LargeUtf8 => with_bytes!(@ $values = $array.as_string::<i64>(), $body),
            arrow::datatypes::DataType::Utf8View => with_bytes!(@ $values = $array.as_string_view(), $body),
            arrow::datatypes::DataType::Binary => with_bytes!(@ $values = $array.as_binary::<i32>(), $body),
            arrow::datatypes::DataType::LargeBinary => with_bytes!(@ $values = $array.as_binary::<i64>(), $body),
            arrow::datatypes::DataType::BinaryView => with_bytes!(@ $values = $array.as_binary_view(), $body),
            arrow::datatypes::DataType::FixedSizeBinary(_) => {
                with_bytes!(@ $values = $array.as_fixed_size_binary(), $body)
            }
            _ => $other,
        }
    }};
    (@ $values:ident = $array:expr, $body:expr) => {{
        let $values = $array;
        $body
    }};
}
pub(crate) use with_bytes;

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Int32Array, StringViewArray};
    use arrow::datatypes::Int8Type;
    use weld_core::ty::ScalarKind;

    #[test]
    fn layouts_follow_the_arrays() {
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
        let views: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "a longer string than twelve", "c"]));
        let codes: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::from_iter(["x", "y", "x"]));
        let batch = RecordBatch::try_from_iter([("i", ints), ("v", views), ("d", codes)]).expect("one length");
        let all = BatchColumns::new(&batch, &[0, 1, 2]).expect("readable");
        let layouts = all.chunk().expect("readable").layouts();
        assert_eq!(layouts[0], ColumnLayout { layout: Layout::Fixed(ScalarKind::I32), validity: true });
        assert_eq!(layouts[1], ColumnLayout { layout: Layout::Utf8View, validity: false });
        let values = Box::new(Layout::Utf8);
        assert_eq!(layouts[2].layout, Layout::Dictionary { codes: ScalarKind::I8, values });
        let empty = DictionaryArray::<Int8Type>::from_iter([None::<&str>, None]);
        let values = arrow::array::StringArray::from(vec![None, Some("y")]);
        let keys = arrow::array::Int8Array::from(vec![Some(1), Some(0)]);
        let nulls = DictionaryArray::<Int8Type>::try_new(keys, Arc::new(values)).expect("codes of two entries");
        for (array, valid) in [(empty, [false, false]), (nulls, [true, false])] {
            let array: ArrayRef = Arc::new(array);
            let read = readable(&array).expect("readable");
            assert_eq!(read.data_type(), array.data_type());
            assert_eq!([read.is_valid(0), read.is_valid(1)], valid);
            assert_eq!(read.as_any_dictionary().values().null_count(), 0);
        }
        let mut numbers = DictionaryNumbers::default();
        let mut number =
            |batch: &RecordBatch| BatchColumns::of_stream(batch, &[0, 2], &mut numbers).expect("readable").dictionaries;
        assert_eq!([number(&batch), number(&batch.slice(1, 2))], [[0, 1], [0, 1]], "one dictionary");
        let codes: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::from_iter(["x", "y", "x"]));
        let same: ArrayRef = Arc::clone(batch.column(0));
        let other = RecordBatch::try_from_iter([("i", same), ("v", codes.clone()), ("d", codes)]).expect("one length");
        assert_eq!([number(&other), number(&batch)], [[0, 2], [0, 3]], "only the last one is remembered");
        let tail = BatchColumns::new(&batch.slice(2, 1), &[0]).expect("readable");
        assert!(!tail.chunk().expect("readable").layouts()[0].validity, "no null is left in the slice");
    }
}
