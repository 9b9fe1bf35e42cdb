//! Record batches as chunks: pointers into Arrow's buffers, nothing copied.
//!
//! A column without nulls has no validity in its layout, so that the code for it never looks.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, RecordBatch,
    make_array, make_view, new_null_array,
};
use arrow::compute::cast;
use arrow::datatypes::{self as types, DataType};
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use weld_codegen::{Chunk, Column, ColumnLayout, Layout, Value};
use weld_core::ir::ExprKind;
use weld_core::opt::Constant;
use weld_core::ty::ScalarKind;
use weld_runtime::ColumnAbi;

use super::lists::{Wholes, constant_list, expected_list, list_layout};
use crate::lower::Sql;
use crate::lower::expr::lower_literal;
use crate::lower::lists::list;

/// The columns of a batch that a stream reads, with what their chunk points to beside Arrow's buffers.
#[derive(Debug)]
pub(crate) struct BatchColumns {
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
pub(crate) struct DictionaryNumbers {
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
    /// The columns of `batch` at `indices`, and behind them those of [`Wholes`].
    pub(crate) fn new(batch: &RecordBatch, indices: &[usize]) -> Result<BatchColumns> {
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
    pub(crate) fn of_stream(
        batch: &RecordBatch,
        indices: &[usize],
        numbers: &mut DictionaryNumbers,
    ) -> Result<BatchColumns> {
        let mut columns = BatchColumns::new(batch, indices)?;
        for (i, array) in columns.arrays.iter().enumerate() {
            columns.dictionaries[i] = numbers.of(i, array);
        }
        Ok(columns)
    }

    pub(crate) fn chunk(&self) -> Result<Chunk<'_>> {
        let arrays = self.arrays.iter().zip(&self.buffers).zip(&self.dictionaries);
        let columns = arrays.map(|((array, buffers), dictionary)| column(array.as_ref(), buffers, *dictionary));
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        columns.extend(self.wholes.columns());
        Ok(Chunk::new(self.rows, columns))
    }

    pub(crate) fn arrays(&self) -> &[ArrayRef] {
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
        return Ok(cast(array, of)?);
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

/// The value of an expression without columns.
pub(crate) fn scalar(expr: &Arc<dyn PhysicalExpr>, nullable: bool) -> Result<Value> {
    let no_columns = RecordBatch::new_empty(Arc::new(types::Schema::empty()));
    let value = match expr.evaluate(&no_columns)? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(_) => return internal_err!("{expr} depends on rows"),
    };
    if list(&value.data_type()).is_some() {
        let constant = constant_list(&value.to_array()?)?;
        return match nullable {
            true => Ok(Value::structure([constant, Value::bool(!value.is_null())])),
            false if value.is_null() => internal_err!("{expr} is null, which its type excludes"),
            false => Ok(constant),
        };
    }
    let Ok(Sql { value, valid }) = lower_literal(&value) else {
        return internal_err!("{expr} has the value {value}, which has no lowering");
    };
    let value = match value.kind {
        ExprKind::Literal(literal) => constant(&Constant::Scalar(literal)),
        ExprKind::Bytes(bytes) => constant(&Constant::Bytes(bytes)),
        // The zero of a string.
        _ => Value::bytes([]),
    };
    if nullable {
        return Ok(Value::structure([value, Value::bool(valid.is_none())]));
    }
    if valid.is_some() {
        return internal_err!("{expr} is null, which its type excludes");
    }
    Ok(value)
}

/// The value of a constant of the query.
pub(crate) fn constant(constant: &Constant) -> Value {
    match constant {
        Constant::Scalar(literal) => Value::scalar(*literal),
        Constant::Bytes(bytes) => Value::bytes(Arc::clone(bytes)),
    }
}

/// The layout that columns of a type have, as far as the type tells: what to compile ahead.
pub(crate) fn expected_layout(data_type: &DataType) -> Option<ColumnLayout> {
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

pub(crate) fn fixed_kind(data_type: &DataType) -> Option<ScalarKind> {
    Some(match data_type {
        DataType::Int8 => ScalarKind::I8,
        DataType::Int16 => ScalarKind::I16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) => ScalarKind::I32,
        DataType::Int64
        | DataType::Date64
        | DataType::Timestamp(..)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Decimal64(..) => ScalarKind::I64,
        DataType::UInt8 => ScalarKind::U8,
        DataType::UInt16 => ScalarKind::U16,
        DataType::UInt32 => ScalarKind::U32,
        DataType::UInt64 => ScalarKind::U64,
        DataType::Float32 => ScalarKind::F32,
        DataType::Float64 => ScalarKind::F64,
        DataType::Decimal128(..) => ScalarKind::I128,
        _ => return None,
    })
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
                return exec_err!("a compiled pipeline was given a column of the type {other}");
            };
            abi.values = fixed_values(array, kind)?;
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
        return internal_err!("dictionary codes of the type {codes}");
    };
    abi.values = fixed_values(dictionary.keys(), kind)?;
    abi.entries = dictionary.values().len() as u64;
    let values = column(dictionary.values().as_ref(), buffers, 0)?;
    // SAFETY: as for `Column::from_raw`; Arrow promises that the codes of valid rows are within the values, and
    // `readable` that the values have no nulls.
    Ok(unsafe { Column::dictionary(kind, abi, values) })
}

fn bits(array: &BooleanArray) -> (*const u8, u64) {
    (array.values().values().as_ptr(), array.values().offset() as u64)
}

/// The address of the first value. Arrays of one width share their representation.
pub(super) fn fixed_values(array: &dyn Array, kind: ScalarKind) -> Result<*const u8> {
    fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> *const u8 {
        array.as_primitive::<T>().values().as_ptr().cast()
    }
    Ok(match (array.data_type(), kind) {
        (DataType::Date32, _) => values::<types::Date32Type>(array),
        (DataType::Date64, _) => values::<types::Date64Type>(array),
        (DataType::Decimal32(..), _) => values::<types::Decimal32Type>(array),
        (DataType::Decimal64(..), _) => values::<types::Decimal64Type>(array),
        (DataType::Decimal128(..), _) => values::<types::Decimal128Type>(array),
        (DataType::Timestamp(unit, _), _) => match unit {
            types::TimeUnit::Second => values::<types::TimestampSecondType>(array),
            types::TimeUnit::Millisecond => values::<types::TimestampMillisecondType>(array),
            types::TimeUnit::Microsecond => values::<types::TimestampMicrosecondType>(array),
            types::TimeUnit::Nanosecond => values::<types::TimestampNanosecondType>(array),
        },
        (DataType::Time32(types::TimeUnit::Second), _) => values::<types::Time32SecondType>(array),
        (DataType::Time32(_), _) => values::<types::Time32MillisecondType>(array),
        (DataType::Time64(types::TimeUnit::Microsecond), _) => values::<types::Time64MicrosecondType>(array),
        (DataType::Time64(_), _) => values::<types::Time64NanosecondType>(array),
        (DataType::Duration(unit), _) => match unit {
            types::TimeUnit::Second => values::<types::DurationSecondType>(array),
            types::TimeUnit::Millisecond => values::<types::DurationMillisecondType>(array),
            types::TimeUnit::Microsecond => values::<types::DurationMicrosecondType>(array),
            types::TimeUnit::Nanosecond => values::<types::DurationNanosecondType>(array),
        },
        (_, ScalarKind::I8) => values::<types::Int8Type>(array),
        (_, ScalarKind::I16) => values::<types::Int16Type>(array),
        (_, ScalarKind::I32) => values::<types::Int32Type>(array),
        (_, ScalarKind::I64) => values::<types::Int64Type>(array),
        (_, ScalarKind::U8) => values::<types::UInt8Type>(array),
        (_, ScalarKind::U16) => values::<types::UInt16Type>(array),
        (_, ScalarKind::U32) => values::<types::UInt32Type>(array),
        (_, ScalarKind::U64) => values::<types::UInt64Type>(array),
        (_, ScalarKind::F32) => values::<types::Float32Type>(array),
        (_, ScalarKind::F64) => values::<types::Float64Type>(array),
        (other, _) => return internal_err!("no values of the type {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Int32Array, StringViewArray};
    use arrow::datatypes::Int8Type;

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
