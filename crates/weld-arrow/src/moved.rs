//! Columns of rows that no vector of values stands for: those of the input that were moved, by the numbers of their
//! rows, and lists that were made, whose values lie together in a vector of their own.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, FixedSizeListArray, RecordBatch, UInt64Array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use weld_codegen::ColumnView;

use crate::lists::{lists_of, lists_of_fixed};
use crate::memory::{Owned, fixed_array, shared};
use crate::output::{null_array, with_entry};
use crate::types::{List, list};
use crate::{Result, defect};

/// Where the values of such a column are.
#[derive(Debug)]
pub(crate) enum Source {
    /// In this column of the batches.
    Batches(usize),
    /// In a vector, from this value on for the next row.
    Vector { values: Arc<Owned>, next: usize },
}

/// Batches of the input, each with the number of its first row, in order.
pub type Numbered = Vec<(u64, RecordBatch)>;

/// The rows of a column with these numbers, in a type that a scan may have kept in another form.
pub(crate) fn moved(
    ty: &DataType,
    batches: &Numbered,
    column: usize,
    view: &ColumnView<'_>,
    rows: std::ops::Range<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let Some(numbers) = view.as_slice::<i64>() else {
        return Err(defect(format_args!("a row number of the type {}", view.ty())));
    };
    let Some(places) = places(batches, &numbers[rows.clone()], nulls.as_ref())? else {
        return Ok(null_array(ty, rows.len()));
    };
    let array = picked(batches, column, &places)?;
    let array = match nulls.filter(|nulls| nulls.null_count() > 0) {
        // Mostly the rows are null where they come from.
        Some(nulls) if !array.nulls().is_some_and(|own| own.contains(&nulls)) => {
            let rows = nulls.iter().enumerate().map(|(row, is_there)| is_there.then_some(row as u64));
            take(&array, &UInt64Array::from_iter(rows), None)?
        }
        _ => array,
    };
    Ok(if array.data_type() == ty { array } else { cast(&array, ty)? })
}

/// The batch and the row in it of each number; of a null any. Nothing if all are null.
fn places(batches: &Numbered, numbers: &[i64], nulls: Option<&NullBuffer>) -> Result<Option<Vec<(usize, usize)>>> {
    let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
    // Rows are in order, so the next one is mostly in the same batch.
    let mut batch = 0;
    let mut place = |number: i64| {
        let number = u64::try_from(number).ok()?;
        let row_in = |batch: usize| {
            let (first, rows) = batches.get(batch)?;
            number.checked_sub(*first).filter(|row| *row < rows.num_rows() as u64)
        };
        if row_in(batch).is_none() {
            batch = batches.partition_point(|(first, _)| *first <= number).checked_sub(1)?;
        }
        Some((batch, row_in(batch)? as usize))
    };
    let mut place = |number: i64| place(number).ok_or_else(|| defect("rows are numbered that are not there"));
    let Some(first) = (0..numbers.len()).find(|row| !is_null(*row)) else { return Ok(None) };
    let mut last = place(numbers[first])?;
    let mut places = Vec::with_capacity(numbers.len());
    for (row, number) in numbers.iter().enumerate() {
        if !is_null(row) {
            last = place(*number)?;
        }
        places.push(last);
    }
    Ok(Some(places))
}

fn picked(batches: &Numbered, column: usize, places: &[(usize, usize)]) -> Result<ArrayRef> {
    let array = |batch: usize| batches[batch].1.column(column);
    let (first, start) = places[0];
    if places.iter().any(|(batch, _)| *batch != first) {
        let arrays: Vec<&dyn Array> = (0..batches.len()).map(|batch| array(batch).as_ref()).collect();
        return interleaved(&arrays, places).map(with_entry);
    }
    if places.iter().enumerate().all(|(at, (_, row))| *row == start + at) {
        return Ok(array(first).slice(start, places.len()));
    }
    let rows = UInt64Array::from_iter_values(places.iter().map(|(_, row)| *row as u64));
    take(array(first), &rows, None)
}

/// The values at these places. Arrow puts dictionaries together with some values twice, for which there may be too few
/// codes: then they are put together as values.
fn interleaved(arrays: &[&dyn Array], places: &[(usize, usize)]) -> Result<ArrayRef> {
    let ty = arrays[0].data_type();
    match (interleave(arrays, places), ty) {
        (Err(ArrowError::DictionaryKeyOverflowError), DataType::Dictionary(_, entries)) => {
            let values = arrays.iter().map(|array| cast(*array, entries)).collect::<Result<Vec<_>>>()?;
            let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
            cast(&interleave(&values, places)?, ty)
        }
        (interleaved, _) => interleaved,
    }
}

/// The next lists of a column, whose lengths are in `view`; their values share the vector's memory.
pub(crate) fn made(
    ty: &DataType,
    source: &mut Source,
    view: &ColumnView<'_>,
    rows: std::ops::Range<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let (Source::Vector { values, next }, Some(of)) = (source, list(ty)) else {
        return Err(defect(format_args!("a list of the type {ty} is neither moved nor made")));
    };
    let Some(lengths) = view.as_slice::<i64>() else {
        return Err(defect(format_args!("a length of the type {}", view.ty())));
    };
    let lengths = &lengths[rows];
    let total = lengths.iter().sum::<i64>() as usize;
    let buffer = values_of(values, &of, *next, total)?;
    *next += total;
    let unit = of.unit.max(1) as usize;
    let lengths = || lengths.iter().map(|length| *length as usize / unit);
    let leaf = |values, count| fixed_array(&of.items, count, values, None);
    match ty {
        DataType::List(item) => lists_of::<i32>(item, lengths(), leaf(buffer, total)?, nulls),
        DataType::LargeList(item) => lists_of::<i64>(item, lengths(), leaf(buffer, total)?, nulls),
        DataType::FixedSizeList(item, size) => {
            let (buffer, total) = match &nulls {
                Some(nulls) => filled(&of, &buffer, nulls),
                None => (buffer, total),
            };
            let values = lists_of_fixed(item.data_type(), leaf(buffer, total)?)?;
            let rows = nulls.as_ref().map_or_else(|| lengths().len(), NullBuffer::len);
            let list = FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, values, nulls, rows)?;
            Ok(Arc::new(list))
        }
        other => Err(defect(format_args!("{other} is no list"))),
    }
}

/// So many values of a vector, from one on.
fn values_of(values: &Arc<Owned>, of: &List, start: usize, count: usize) -> Result<Buffer> {
    let columns = values.value.columns();
    let view = columns.first().filter(|view| view.ty().as_scalar() == Some(of.kind));
    // SAFETY: the column is the vector's.
    let shared = view.and_then(|view| unsafe { shared(values, view, start..start + count) });
    shared.ok_or_else(|| defect("lists have other values than their lengths say"))
}

/// The values of lists of a fixed size with zeros where a row is not there, and how many there are.
fn filled(of: &List, values: &Buffer, nulls: &NullBuffer) -> (Buffer, usize) {
    let size = (of.size.unwrap_or(0) * of.unit) as usize;
    let bytes = size * of.kind.bytes();
    let mut all = Vec::with_capacity(nulls.len() * bytes);
    let mut next = 0;
    for row in 0..nulls.len() {
        match nulls.is_null(row) {
            true => all.resize(all.len() + bytes, 0),
            false => {
                all.extend_from_slice(&values[next..next + bytes]);
                next += bytes;
            }
        }
    }
    // In memory that is aligned for any kind.
    (Buffer::from_slice_ref(&all), nulls.len() * size)
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, ListArray};
    use arrow::datatypes::Int32Type;
    use weld_codegen::Value;

    use super::*;

    fn batch(first: i32, rows: i32) -> RecordBatch {
        let lists = (first..first + rows).map(|x| Some(vec![Some(x); x as usize % 3]));
        let array: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        RecordBatch::try_from_iter([("l", array)]).expect("one column")
    }

    fn picked(numbers: &[i64], nulls: Option<NullBuffer>) -> Vec<Option<Vec<i32>>> {
        let batches = vec![(0, batch(0, 4)), (4, batch(4, 3).slice(0, 2)), (6, batch(6, 4))];
        let value = Value::vector(numbers.to_vec());
        let array =
            moved(batches[0].1.column(0).data_type(), &batches, 0, &value.columns()[0], 0..numbers.len(), nulls)
                .expect("they are there");
        let lists = array.as_list::<i32>().iter();
        lists.map(|list| Some(list?.as_primitive::<Int32Type>().values().to_vec())).collect()
    }

    #[test]
    fn rows_are_found_by_their_numbers() {
        assert_eq!(picked(&[1, 2, 3], None), [Some(vec![1]), Some(vec![2, 2]), Some(vec![])]);
        assert_eq!(picked(&[7, 9], None), [Some(vec![7]), Some(vec![])]);
        assert_eq!(picked(&[2, 5, 8], None), [Some(vec![2, 2]), Some(vec![5, 5]), Some(vec![8, 8])]);
        let nulls = Some(NullBuffer::from(vec![false, true, true]));
        assert_eq!(picked(&[0, 5, 7], nulls), [None, Some(vec![5, 5]), Some(vec![7])]);
        assert_eq!(picked(&[], None), Vec::<Option<Vec<i32>>>::new());
    }

    #[test]
    fn a_null_needs_no_row_of_the_first_batch() {
        let batches = vec![(0, batch(0, 0)), (0, batch(0, 3)), (3, batch(3, 2))];
        let value = Value::vector(vec![9i64, 1, 4]);
        let nulls = Some(NullBuffer::from(vec![false, true, true]));
        let array = moved(batches[0].1.column(0).data_type(), &batches, 0, &value.columns()[0], 0..3, nulls)
            .expect("they are there");
        let lists: Vec<_> = array.as_list::<i32>().iter().map(|list| list.map(|list| list.len())).collect();
        assert_eq!(lists, [None, Some(1), Some(1)]);
        let value = Value::vector(vec![9i64]);
        let array = moved(
            batches[0].1.column(0).data_type(),
            &batches,
            0,
            &value.columns()[0],
            0..1,
            Some(NullBuffer::new_null(1)),
        )
        .expect("a null");
        assert_eq!((array.len(), array.null_count()), (1, 1));
    }

    #[test]
    fn a_number_without_a_row_is_an_error() {
        let batches = vec![(0, batch(0, 2)), (3, batch(3, 1))];
        for number in [-1, 2, 4] {
            let value = Value::vector(vec![number]);
            assert!(
                moved(batches[0].1.column(0).data_type(), &batches, 0, &value.columns()[0], 0..1, None).is_err(),
                "{number}"
            );
        }
    }
}
