//! Vectors that compiled code made, as record batches.
//!
//! Fixed-width columns and short strings in views share the vector's memory, unless it keeps much else. Booleans and
//! validity, a byte each in Weld, are packed. Long strings of a view column stay in the input's buffers where one of
//! them holds the bytes, and are copied otherwise. Lists and structs are in [`super::moved`].

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ByteView, FixedSizeBinaryArray, GenericByteArray, GenericByteViewArray,
    RecordBatch, RecordBatchOptions, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowNativeType, BinaryType, BinaryViewType, ByteArrayType, ByteViewType, DataType, Field, LargeBinaryType,
    LargeUtf8Type, SchemaRef, StringViewType, Utf8Type,
};
use arrow::error::ArrowError;
use weld_codegen::{ColumnView, Value};
use weld_core::ty::Type;
use weld_runtime::StringView;

use crate::memory::{Owned, fixed_array, shared};
use crate::moved::{Numbered, Source, made, moved};
use crate::types::{has_few_codes, is_bytes, is_nested, is_string, is_taken};
use crate::{Result, defect};

/// Where a column lies in the rows of a vector: the field of the row's struct, which is a pair of the value and whether
/// it is there if the column may be null.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Its position in the struct.
    pub field: usize,
    /// Whether the field is such a pair.
    pub nullable: bool,
}

/// A vector of rows, to be handed out as batches.
#[derive(Debug)]
pub struct RowsReader {
    rows: Arc<Owned>,
    schema: SchemaRef,
    /// For each output column its first column in the vector, and whether a validity column follows.
    columns: Vec<(usize, bool)>,
    next: usize,
    /// Buffers that long strings may point into, by address.
    strings: Vec<Buffer>,
    /// Where the values of an output column are, if they are not in the rows.
    nested: Vec<Option<Source>>,
    /// What columns are moved from.
    batches: Numbered,
    /// Output columns that are made of all rows at once, so that batches share their dictionary.
    whole: Vec<Option<ArrayRef>>,
}

impl RowsReader {
    /// Fails if the value is no vector of structs. `slots` says where the schema's columns are in the vector's element
    /// struct; `strings` are the buffers that long strings may point into.
    pub fn new(rows: Value, schema: SchemaRef, slots: &[Slot], strings: Vec<Buffer>) -> Result<RowsReader> {
        RowsReader::moving(rows, schema, slots, strings, &[])
    }

    /// The same of rows with lists. `moved` says of which of the input's columns an output column consists.
    pub fn moving(
        rows: Value,
        schema: SchemaRef,
        slots: &[Slot],
        strings: Vec<Buffer>,
        moved: &[Option<usize>],
    ) -> Result<RowsReader> {
        // Lists that were made follow the rows.
        let mut lists = match rows.ty().fields() {
            Some(fields) => (1..fields.len()).filter_map(|index| rows.field(index)).collect::<VecDeque<_>>(),
            None => VecDeque::new(),
        };
        let rows = rows.field(0).unwrap_or(rows);
        let starts = field_starts(rows.ty().element())?;
        let columns: Vec<(usize, bool)> = slots.iter().map(|slot| (starts[slot.field], slot.nullable)).collect();
        let mut nested = Vec::with_capacity(columns.len());
        for (index, field) in schema.fields().iter().enumerate().take(columns.len()) {
            nested.push(match moved.get(index).copied().flatten() {
                Some(column) if is_taken(field.data_type()) => Some(Source::Batches(column)),
                _ if !is_nested(field.data_type()) => None,
                _ => match lists.pop_front() {
                    Some(values) => Some(Source::Vector { values: Owned::new(values), next: 0 }),
                    None => return Err(defect("lists without values")),
                },
            });
        }
        Ok(RowsReader::of(rows, schema, columns, strings, nested))
    }

    /// The same of rows that a numberer made: the number of each comes first. `slots` are those of the other columns.
    pub fn numbered(
        rows: Value,
        schema: SchemaRef,
        slots: &[Slot],
        strings: Vec<Buffer>,
        moved: &[Option<usize>],
    ) -> Result<RowsReader> {
        let row = rows.ty().element().and_then(|element| element.fields()).and_then(|fields| fields.get(1));
        let starts = field_starts(row)?;
        let others = slots.iter().map(|slot| (1 + starts[slot.field], slot.nullable));
        let columns = std::iter::once((0, false)).chain(others).collect();
        let source = |(field, moved): (&Arc<Field>, &Option<usize>)| match moved {
            Some(column) if is_taken(field.data_type()) => Some(Source::Batches(*column)),
            _ => None,
        };
        let nested = schema.fields().iter().zip(moved).map(source).collect();
        Ok(RowsReader::of(rows, schema, columns, strings, nested))
    }

    fn of(
        rows: Value,
        schema: SchemaRef,
        columns: Vec<(usize, bool)>,
        mut strings: Vec<Buffer>,
        nested: Vec<Option<Source>>,
    ) -> RowsReader {
        strings.sort_by_key(|buffer| buffer.as_ptr() as usize);
        let (rows, batches, whole) = (Owned::new(rows), Vec::new(), Vec::new());
        RowsReader { rows, schema, columns, next: 0, strings, nested, batches, whole }
    }

    /// Gives the batches that rows have numbers of.
    pub fn over(self, batches: Numbered) -> RowsReader {
        RowsReader { batches, ..self }
    }

    /// Rows not handed out yet.
    pub fn rows_left(&self) -> usize {
        self.rows.value.len().unwrap_or(0) - self.next
    }

    /// The next rows, at most `batch_rows_max`; `None` when all have been handed out.
    ///
    /// Fails where a column has another Weld type than stands for the schema's, a [`crate::Defect`], and where text is
    /// too long for its type's offsets.
    pub fn next_batch(&mut self, batch_rows_max: usize) -> Result<Option<RecordBatch>> {
        let total = self.rows.value.len().unwrap_or(0);
        let rows = (total - self.next).min(batch_rows_max);
        if rows == 0 {
            return Ok(None);
        }
        if self.next == 0 {
            self.whole = self.whole_columns(total)?;
        }
        let views = self.rows.value.columns();
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (index, (field, (first, nullable))) in self.schema.fields().iter().zip(&self.columns).enumerate() {
            if let Some(whole) = &self.whole[index] {
                arrays.push(whole.slice(self.next, rows));
                continue;
            }
            let nulls = if *nullable { validity(&views[first + 1], self.next, rows)? } else { None };
            let (view, range) = (&views[*first], self.next..self.next + rows);
            arrays.push(match self.nested.get_mut(index).and_then(Option::as_mut) {
                None => self.array(field.data_type(), view, self.next, rows, nulls)?,
                Some(Source::Batches(column)) => moved(field.data_type(), &self.batches, *column, view, range, nulls)?,
                Some(source) => made(field.data_type(), source, view, range, nulls)?,
            });
        }
        self.next += rows;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?))
    }

    /// The columns of dictionaries with few codes, of all rows.
    fn whole_columns(&self, rows: usize) -> Result<Vec<Option<ArrayRef>>> {
        let views = self.rows.value.columns();
        let mut whole = vec![None; self.columns.len()];
        for (index, (field, (first, nullable))) in self.schema.fields().iter().zip(&self.columns).enumerate() {
            if has_few_codes(field.data_type()) && self.nested.get(index).is_none_or(Option::is_none) {
                let nulls = if *nullable { validity(&views[first + 1], 0, rows)? } else { None };
                // Too many values for one dictionary may be few enough for one a batch.
                whole[index] = self.array(field.data_type(), &views[*first], 0, rows, nulls).ok();
            }
        }
        Ok(whole)
    }

    fn array(
        &self,
        data_type: &DataType,
        view: &ColumnView<'_>,
        start: usize,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        match data_type {
            DataType::Boolean => {
                let Some(values) = view.as_slice::<bool>() else { return mismatch(data_type, view) };
                Ok(Arc::new(BooleanArray::new(packed(&values[start..start + rows]), nulls)))
            }
            _ if is_bytes(data_type) => {
                let Some(values) = view.as_views() else { return mismatch(data_type, view) };
                let values = &values[start..start + rows];
                match data_type {
                    DataType::Utf8View if are_inline(values) => self.inline::<StringViewType>(view, start, rows, nulls),
                    DataType::BinaryView if are_inline(values) => {
                        self.inline::<BinaryViewType>(view, start, rows, nulls)
                    }
                    _ => self.bytes(data_type, values, nulls),
                }
            }
            _ => self.fixed(data_type, view, start, rows, nulls),
        }
    }

    /// Shares the vector's memory, unless it keeps much else.
    fn fixed(
        &self,
        data_type: &DataType,
        view: &ColumnView<'_>,
        start: usize,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        if data_type.primitive_width() != view.ty().as_scalar().map(|kind| kind.bytes()) {
            return mismatch(data_type, view);
        }
        // SAFETY: the column is the vector's.
        let values = unsafe { shared(&self.rows, view, start..start + rows) };
        let Some(values) = values else { return mismatch(data_type, view) };
        fixed_array(data_type, rows, values, nulls)
    }

    /// Strings that lie in their views, which are the same bytes for Weld and Arrow: shared as numbers are.
    fn inline<T: ByteViewType + ?Sized>(
        &self,
        view: &ColumnView<'_>,
        start: usize,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        // SAFETY: the column is the vector's.
        let views = unsafe { shared(&self.rows, view, start..start + rows) };
        let Some(views) = views else { return Err(defect("a column of views has none")) };
        // SAFETY: every view is inline; the bytes of text are of UTF-8 arrays or literals, or a part of them that begins
        // and ends with a character.
        Ok(Arc::new(unsafe {
            GenericByteViewArray::<T>::new_unchecked(ScalarBuffer::new(views, 0, rows), Vec::new(), nulls)
        }))
    }

    /// Text or binary of any kind.
    pub(crate) fn bytes(
        &self,
        data_type: &DataType,
        values: &[StringView],
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        match data_type {
            DataType::Utf8View => Ok(Arc::new(self.views::<StringViewType>(values, nulls))),
            DataType::BinaryView => Ok(Arc::new(self.views::<BinaryViewType>(values, nulls))),
            DataType::Utf8 => strings::<Utf8Type>(values, nulls),
            DataType::LargeUtf8 => strings::<LargeUtf8Type>(values, nulls),
            DataType::Binary => strings::<BinaryType>(values, nulls),
            DataType::LargeBinary => strings::<LargeBinaryType>(values, nulls),
            DataType::Dictionary(_, entries) => {
                // Of views Arrow makes a dictionary without copying what it has seen before.
                let views = if is_string(entries) { DataType::Utf8View } else { DataType::BinaryView };
                Ok(with_entry(cast(&self.bytes(&views, values, nulls)?, data_type)?))
            }
            DataType::FixedSizeBinary(width) => of_one_width(values, *width, nulls),
            other => Err(defect(format_args!("{other} is neither text nor binary"))),
        }
    }

    fn views<T: ByteViewType + ?Sized>(
        &self,
        values: &[StringView],
        nulls: Option<NullBuffer>,
    ) -> GenericByteViewArray<T> {
        let mut buffers: Vec<Buffer> = Vec::new();
        // Which of `self.strings` are among `buffers`, and where.
        let mut shared: Vec<Option<u32>> = vec![None; self.strings.len()];
        let mut copies = Copies::new(COPY_BYTES_MAX);
        let mut views: Vec<u128> = Vec::with_capacity(values.len());
        // Views of copies, and which of the copies.
        let mut to_patch: Vec<(usize, u32)> = Vec::new();
        let mut last_owner = None;
        for value in values {
            if value.len as usize <= StringView::INLINE_MAX {
                views.push(inline_view(value));
                continue;
            }
            // SAFETY: long views point to bytes that the vector, the input's buffers or a table keep alive.
            let bytes = unsafe { value.as_slice() };
            let [a, b, c, d, ..] = value.bytes;
            let prefix = u32::from_le_bytes([a, b, c, d]);
            // Neighbours are mostly of one buffer.
            let owner = last_owner.and_then(|last| self.offset_in(last, bytes)).or_else(|| self.owning_buffer(bytes));
            last_owner = owner.map(|(index, _)| index);
            let (buffer_index, offset) = match owner {
                Some((index, offset)) => {
                    let at = *shared[index].get_or_insert_with(|| {
                        buffers.push(self.strings[index].clone());
                        buffers.len() as u32 - 1
                    });
                    (at, offset)
                }
                None => {
                    let left = values[views.len()..].iter().map(|value| value.len as usize);
                    let left = || left.filter(|len| *len > StringView::INLINE_MAX).sum();
                    let (copy, offset) = copies.push(bytes, left);
                    to_patch.push((views.len(), copy));
                    (0, offset)
                }
            };
            views.push(ByteView { length: value.len, prefix, buffer_index, offset }.as_u128());
        }
        let first = buffers.len() as u32;
        for (index, copy) in to_patch {
            views[index] = ByteView { buffer_index: first + copy, ..ByteView::from(views[index]) }.as_u128();
        }
        buffers.extend(copies.full.into_iter().map(Buffer::from_vec));
        // SAFETY: every view is inline or lies within its buffer; the bytes of text are of UTF-8 arrays or literals, or
        // a part of them that begins and ends with a character.
        unsafe { GenericByteViewArray::new_unchecked(ScalarBuffer::from(views), buffers, nulls) }
    }

    /// The input buffer that holds these bytes, and where.
    fn owning_buffer(&self, bytes: &[u8]) -> Option<(usize, u32)> {
        let address = bytes.as_ptr() as usize;
        let index = self.strings.partition_point(|buffer| buffer.as_ptr() as usize <= address).checked_sub(1)?;
        self.offset_in(index, bytes)
    }

    /// Where they begin in that buffer, if they lie in it.
    fn offset_in(&self, index: usize, bytes: &[u8]) -> Option<(usize, u32)> {
        let buffer = &self.strings[index];
        let offset = (bytes.as_ptr() as usize).checked_sub(buffer.as_ptr() as usize)?;
        if offset + bytes.len() > buffer.len() {
            return None;
        }
        Some((index, u32::try_from(offset).ok()?))
    }
}

/// More is not copied into one buffer: offsets into it have 32 bits, and some readers take them as signed.
const COPY_BYTES_MAX: usize = i32::MAX as usize;

/// Copied strings, in as many buffers as offsets of 32 bits ask for.
struct Copies {
    full: Vec<Vec<u8>>,
    bytes_max: usize,
}

impl Copies {
    fn new(bytes_max: usize) -> Copies {
        Copies { full: Vec::new(), bytes_max }
    }

    /// Copies a string: in which buffer it is, and where. `left` says how many bytes may still come, with these.
    fn push(&mut self, bytes: &[u8], left: impl FnOnce() -> usize) -> (u32, u32) {
        let fits = |last: &Vec<u8>| last.len() + bytes.len() <= self.bytes_max;
        if !self.full.last().is_some_and(fits) {
            // All that may have to be copied, at once; a longer string has a buffer of its own.
            self.full.push(Vec::with_capacity(left().min(self.bytes_max).max(bytes.len())));
        }
        let buffer = self.full.len() as u32 - 1;
        let Some(last) = self.full.last_mut() else { unreachable!("one was just pushed") };
        let offset = last.len() as u32;
        last.extend_from_slice(bytes);
        (buffer, offset)
    }
}

/// Whether no value is longer than what lies in a view.
fn are_inline(values: &[StringView]) -> bool {
    // Without an early end this is a few vector instructions.
    values.iter().fold(0, |longest, value| value.len.max(longest)) as usize <= StringView::INLINE_MAX
}

fn inline_view(value: &StringView) -> u128 {
    let mut bytes = [0u8; 16];
    bytes[..4].copy_from_slice(&value.len.to_le_bytes());
    bytes[4..].copy_from_slice(&value.bytes);
    u128::from_le_bytes(bytes)
}

/// Byte vectors of the same width; under a null is one of any.
fn of_one_width(values: &[StringView], width: i32, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let bytes_each = usize::try_from(width).unwrap_or(0);
    let mut bytes: Vec<u8> = Vec::with_capacity(values.len() * bytes_each);
    for (row, value) in values.iter().enumerate() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            bytes.resize(bytes.len() + bytes_each, 0);
            continue;
        }
        // SAFETY: long views point to bytes that the vector, the input's buffers or a table keep alive.
        let value = unsafe { value.as_slice() };
        if value.len() != bytes_each {
            return Err(defect(format_args!("a value of {} bytes cannot become one of {width}", value.len())));
        }
        bytes.extend_from_slice(value);
    }
    Ok(Arc::new(FixedSizeBinaryArray::try_new(width, Buffer::from_vec(bytes), nulls)?))
}

/// Rows that are all null; dictionaries have an entry.
pub fn null_array(data_type: &DataType, rows: usize) -> ArrayRef {
    with_entry(new_null_array(data_type, rows))
}

/// The same, if a dictionary, with an entry. Of rows that are all null there may be none, over which kernels of Arrow
/// panic.
pub(crate) fn with_entry(array: ArrayRef) -> ArrayRef {
    let Some(dictionary) = array.as_any_dictionary_opt() else { return array };
    match dictionary.values().is_empty() {
        true => dictionary.with_values(new_null_array(dictionary.values().data_type(), 1)),
        false => array,
    }
}

fn strings<T: ByteArrayType>(values: &[StringView], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let total: usize = values.iter().map(|value| value.len as usize).sum();
    if T::Offset::from_usize(total).is_none() {
        return Err(ArrowError::OffsetOverflowError(total));
    }
    let mut bytes = Vec::with_capacity(total);
    for value in values {
        // SAFETY: long views point to bytes that the vector, the input's buffers or a table keep alive.
        bytes.extend_from_slice(unsafe { value.as_slice() });
    }
    let offsets = OffsetBuffer::<T::Offset>::from_lengths(values.iter().map(|value| value.len as usize));
    // SAFETY: the offsets are of whole values; those of text come from UTF-8 arrays or literals, or are a part of them
    // that begins and ends with a character.
    Ok(Arc::new(unsafe { GenericByteArray::<T>::new_unchecked(offsets, Buffer::from_vec(bytes), nulls) }))
}

/// A bit for each byte: eight at a time, by a product that moves their lowest bits side by side.
pub(crate) fn packed(bools: &[bool]) -> BooleanBuffer {
    let bits = |eight: &[bool; 8]| {
        let bytes = u64::from_le_bytes(eight.map(u8::from));
        (bytes.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
    };
    let (eights, rest) = bools.as_chunks::<8>();
    let mut last = [false; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then(|| bits(&last));
    let bytes: Vec<u8> = eights.iter().map(bits).chain(last).collect();
    BooleanBuffer::new(Buffer::from_vec(bytes), 0, bools.len())
}

/// The nulls of a column, if it has any.
fn validity(view: &ColumnView<'_>, start: usize, rows: usize) -> Result<Option<NullBuffer>> {
    let Some(valid) = view.as_slice::<bool>() else { return Err(defect("a validity column is no bool")) };
    let nulls = NullBuffer::new(packed(&valid[start..start + rows]));
    Ok((nulls.null_count() > 0).then_some(nulls))
}

/// The first column of each field of a vector of structs.
pub(crate) fn field_starts(row: Option<&Type>) -> Result<Vec<usize>> {
    let Some(fields) = row.and_then(Type::fields) else {
        return Err(defect("a pipeline's result is no vector of structs"));
    };
    let columns = fields.iter().scan(0, |next, field| {
        let first = *next;
        *next += weld_codegen::layout::columns(field).len();
        Some(first)
    });
    Ok(columns.collect())
}

pub(crate) fn mismatch<T>(data_type: &DataType, view: &ColumnView<'_>) -> Result<T> {
    Err(defect(format_args!("a column of the Weld type {} cannot become {data_type}", view.ty())))
}

/// The buffers that long strings of these arrays point into.
pub fn string_buffers_of(arrays: &[ArrayRef], into: &mut Vec<Buffer>) {
    use arrow::array::{Array, AsArray};
    for array in arrays {
        let array: &dyn Array = array.as_ref();
        match array.data_type() {
            DataType::Utf8View => into.extend(array.as_string_view().data_buffers().iter().cloned()),
            DataType::BinaryView => into.extend(array.as_binary_view().data_buffers().iter().cloned()),
            DataType::Binary => into.push(array.as_binary::<i32>().values().clone()),
            DataType::LargeBinary => into.push(array.as_binary::<i64>().values().clone()),
            DataType::Utf8 => into.push(array.as_string::<i32>().values().clone()),
            DataType::LargeUtf8 => into.push(array.as_string::<i64>().values().clone()),
            DataType::Dictionary(..) => string_buffers_of(&[array.as_any_dictionary().values().clone()], into),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bools_are_packed_in_order() {
        let bools: Vec<bool> = (0..77_u32).map(|row| (row * row + row / 5) % 3 == 0).collect();
        for rows in 0..=bools.len() {
            assert_eq!(packed(&bools[..rows]), BooleanBuffer::from(&bools[..rows]));
        }
    }

    #[test]
    fn copies_stay_within_their_offsets() {
        let mut copies = Copies::new(10);
        let texts = ["four", "five5", "a longer one", "ab", "cd"];
        let places = texts.map(|text| copies.push(text.as_bytes(), || 100));
        assert_eq!(places, [(0, 0), (0, 4), (1, 0), (2, 0), (2, 2)]);
        for (text, (buffer, offset)) in texts.iter().zip(places) {
            assert_eq!(&copies.full[buffer as usize][offset as usize..][..text.len()], text.as_bytes());
        }
    }
}
