//! The values of one sort key as they were read, and their order as unsigned integers.
//!
//! A value is one *ordinal* of 64 bits or a few, which compare like the values, the first of them first: `-1_i32` is
//! `0x7fff_ffff`, a decimal one word or two, a string its bytes in groups of eight (`"ab"` is `0x6162_0000_0000_0000`)
//! and then its length, which tells apart what ends in zeros. Floats are in the total order that Arrow's kernels sort
//! by.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{SortOptions, cast, take};
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, IntervalUnit, StringViewType};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;

use crate::place::Place;

/// The values of one batch. Floats are there as their bits.
enum Chunk {
    Bool(BooleanBuffer),
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
    F16(ScalarBuffer<u16>),
    F32(ScalarBuffer<u32>),
    F64(ScalarBuffer<u64>),
    I128(ScalarBuffer<i128>),
    Text(OffsetBuffer<i32>, Buffer),
    LargeText(OffsetBuffer<i64>, Buffer),
    FixedText(usize, Buffer),
    Views(ScalarBuffer<u128>, Vec<Buffer>),
}

/// The values of a sort key in one batch.
pub(crate) struct Values {
    chunk: Chunk,
    nulls: Option<NullBuffer>,
    rows: usize,
    /// What was made for them, beside the array.
    pub(crate) bytes: usize,
}

/// A sort key: its values in all batches.
pub(crate) struct Column {
    pub(crate) options: SortOptions,
    batches: Vec<Values>,
    /// What the entries of dictionaries are cast to before they are taken.
    entries: Option<DataType>,
    /// What makes strings of bytes of values that have no ordinals. These hold nulls and directions already.
    rows: Option<RowConverter>,
    pub(crate) has_nulls: bool,
    /// Whether all decimals so far fit 64 bits.
    is_short: bool,
    longest: usize,
}

impl Column {
    /// A column without values, or why values of this type are not sorted here.
    pub(crate) fn new(data_type: &DataType, options: SortOptions) -> Result<Column, String> {
        let (entries, rows) = match data_type {
            DataType::Dictionary(_, value) if is_plain(value) => {
                let text = matches!(value.as_ref(), DataType::Utf8 | DataType::LargeUtf8);
                (Some(if text { DataType::Utf8View } else { value.as_ref().clone() }), None)
            }
            plain if is_plain(plain) => (None, None),
            other => {
                let field = SortField::new_with_options(other.clone(), options);
                if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
                    return Err(format!("values of type {other} have no order"));
                }
                (None, Some(RowConverter::new(vec![field]).map_err(|error| error.to_string())?))
            }
        };
        let options = if rows.is_some() { SortOptions::default() } else { options };
        Ok(Column { options, batches: Vec::new(), entries, rows, has_nulls: false, is_short: true, longest: 0 })
    }

    /// Whether values are made of what is in an array, rather than read there.
    pub(crate) fn is_made(&self) -> bool {
        self.entries.is_some() || self.rows.is_some()
    }

    /// The entries of a dictionary, if the values are its.
    pub(crate) fn entries(&self, array: &ArrayRef) -> Result<Option<Values>> {
        let Some(to) = &self.entries else { return Ok(None) };
        let entries = cast(array.as_any_dictionary().values(), to)?;
        Ok(Some(Values::of(&entries, 0)?))
    }

    /// The values of an array.
    pub(crate) fn values(&self, array: &ArrayRef) -> Result<Values> {
        let made = if let Some(rows) = &self.rows {
            let binary = rows.convert_columns(std::slice::from_ref(array));
            Arc::new(binary?.try_into_binary()?) as ArrayRef
        } else if let Some(to) = &self.entries {
            // Arrow's cast to views forgets which entries are null.
            let dictionary = array.as_any_dictionary();
            take(&cast(dictionary.values(), to)?, dictionary.keys(), None)?
        } else {
            return Values::of(array, 0);
        };
        Values::of(&made, made.get_array_memory_size())
    }

    /// Takes the values of the next batch; gives what they take in memory beside `array`.
    pub(crate) fn push(&mut self, array: &ArrayRef) -> Result<usize> {
        let values = self.values(array)?;
        let bytes = values.bytes;
        self.has_nulls |= values.nulls.is_some();
        match &values.chunk {
            Chunk::I128(values) => {
                self.is_short = self.is_short && values.iter().all(|value| i64::try_from(*value).is_ok());
            }
            chunk => self.longest = self.longest.max(chunk.longest(values.nulls.as_ref())),
        }
        self.batches.push(values);
        Ok(bytes)
    }

    /// Takes the values of other batches, which come after those that are here.
    pub(crate) fn append(&mut self, other: Column) {
        self.batches.extend(other.batches);
        self.has_nulls |= other.has_nulls;
        self.is_short &= other.is_short;
        self.longest = self.longest.max(other.longest);
    }

    /// Whether values are bytes.
    pub(crate) fn is_text(&self) -> bool {
        self.batches.first().is_some_and(|values| values.chunk.is_text())
    }

    /// How many ordinals a value has.
    pub(crate) fn ordinals(&self) -> usize {
        match self.batches.first().map(|values| &values.chunk) {
            Some(Chunk::I128(_)) if !self.is_short => 2,
            Some(chunk) if chunk.is_text() => self.longest.div_ceil(8) + 1,
            _ => 1,
        }
    }

    /// The word of an ordinal that has this number, of all rows of a batch, and `absent` where there is no value.
    pub(crate) fn fill(&self, batch: usize, number: usize, absent: Option<u64>, out: &mut Vec<u64>) {
        let Values { chunk, nulls, .. } = &self.batches[batch];
        out.clear();
        if chunk.is_text() {
            let length = number == self.longest.div_ceil(8);
            chunk.fill_text(if length { None } else { Some(number * 8) }, nulls.as_ref(), out);
        } else if let Chunk::I128(values) = chunk {
            match (self.is_short, number) {
                (true, _) => out.extend(values.iter().map(|value| signed(*value as i64))),
                (false, 0) => out.extend(values.iter().map(|value| signed((value >> 64) as i64))),
                (false, _) => out.extend(values.iter().map(|value| *value as u64)),
            }
        } else {
            chunk.fill_fixed(out);
        }
        if let (Some(nulls), Some(absent)) = (nulls, absent) {
            out.iter_mut().zip(nulls.iter()).filter(|(_, valid)| !valid).for_each(|(value, _)| *value = absent);
        }
    }

    pub(crate) fn nulls(&self, batch: usize) -> Option<&NullBuffer> {
        self.batches[batch].nulls.as_ref()
    }

    pub(crate) fn is_null(&self, place: Place) -> bool {
        self.nulls(place.batch).is_some_and(|nulls| nulls.is_null(place.row))
    }

    /// One ordinal of a value, which is not null.
    pub(crate) fn ordinal(&self, place: Place, number: usize) -> u64 {
        match &self.batches[place.batch].chunk {
            Chunk::I128(values) => match (self.is_short, number) {
                (true, _) => signed(values[place.row] as i64),
                (false, 0) => signed((values[place.row] >> 64) as i64),
                (false, _) => values[place.row] as u64,
            },
            text if text.is_text() => {
                let bytes = text.bytes(place.row);
                if number == self.longest.div_ceil(8) { bytes.len() as u64 } else { eight(bytes, number * 8) }
            }
            fixed => fixed.ordinal(place.row),
        }
    }

    /// The order of two rows by this key.
    pub(crate) fn compare(&self, a: Place, b: Place) -> Ordering {
        compare(self.options, (&self.batches[a.batch], a.row), (&self.batches[b.batch], b.row))
    }
}

/// The order of a value and another.
pub(crate) fn compare(options: SortOptions, a: (&Values, usize), b: (&Values, usize)) -> Ordering {
    match (a.0.is_null(a.1), b.0.is_null(b.1)) {
        (true, true) => return Ordering::Equal,
        (true, false) if options.nulls_first => return Ordering::Less,
        (false, true) if !options.nulls_first => return Ordering::Less,
        (true, false) | (false, true) => return Ordering::Greater,
        (false, false) => {}
    }
    let order = match (&a.0.chunk, &b.0.chunk) {
        (Chunk::I128(left), Chunk::I128(right)) => left[a.1].cmp(&right[b.1]),
        (left, right) if left.is_text() => left.bytes(a.1).cmp(right.bytes(b.1)),
        (left, right) => left.ordinal(a.1).cmp(&right.ordinal(b.1)),
    };
    if options.descending { order.reverse() } else { order }
}

impl Values {
    fn of(array: &ArrayRef, bytes: usize) -> Result<Values> {
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(Values { chunk: Chunk::of(array.as_ref())?, nulls, rows: array.len(), bytes })
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    pub(crate) fn is_text(&self) -> bool {
        self.chunk.is_text()
    }

    /// A value that is not null as a number of [`Values::code_bits`] bits that compares like it; of a string its first
    /// 16 bytes.
    pub(crate) fn code(&self, row: usize) -> u128 {
        match &self.chunk {
            Chunk::I8(values) => u128::from(values[row] as u8 ^ 1 << 7),
            Chunk::I16(values) => u128::from(values[row] as u16 ^ 1 << 15),
            Chunk::I32(values) => u128::from(values[row] as u32 ^ 1 << 31),
            Chunk::I128(values) => values[row] as u128 ^ 1 << 127,
            text if text.is_text() => {
                let bytes = text.bytes(row);
                u128::from(eight(bytes, 0)) << 64 | u128::from(eight(bytes, 8))
            }
            fixed => fixed.ordinal(row).into(),
        }
    }

    /// How many bits codes take.
    pub(crate) fn code_bits(&self) -> u32 {
        match self.chunk {
            Chunk::Bool(_) => 1,
            Chunk::I8(_) | Chunk::U8(_) => 8,
            Chunk::I16(_) | Chunk::U16(_) | Chunk::F16(_) => 16,
            Chunk::I32(_) | Chunk::U32(_) | Chunk::F32(_) => 32,
            Chunk::I64(_) | Chunk::U64(_) | Chunk::F64(_) => 64,
            _ => 128,
        }
    }

    /// The length of a string.
    pub(crate) fn text_length(&self, row: usize) -> usize {
        self.chunk.bytes(row).len()
    }

    /// Adds the rows whose codes are in `range`, and those without a value if it takes them.
    pub(crate) fn select(&self, range: Range, rows: &mut Vec<u32>) {
        let start = rows.len();
        self.select_roughly(range, rows);
        if let (true, Some((low, high))) = (self.is_text(), range.codes) {
            let mut number = 0;
            rows.retain(|row| {
                number += 1;
                let row = *row as usize;
                number <= start || self.is_null(row) || (low..=high).contains(&self.code(row))
            });
        }
    }

    /// The same, but strings are compared by their first bytes, so that some that are not in the range are added too.
    fn select_roughly(&self, range: Range, rows: &mut Vec<u32>) {
        let null_passes = range.nulls;
        let Some((low, high)) = range.codes else {
            rows.extend((0..self.rows as u32).filter(|row| null_passes && self.is_null(*row as usize)));
            return;
        };
        let nulls = self.nulls.as_ref().map(|nulls| (nulls, null_passes));
        // One comparison a value, of its distance from the lower end.
        macro_rules! within {
            ($values:expr, $type:ty, $code:expr) => {{
                let (low, span) = (low as $type, (high - low) as $type);
                let code = $code;
                passing($values, nulls, |value| <$type>::wrapping_sub(code(value), low) <= span, rows)
            }};
        }
        // The high bits of codes: what lies between the ends of longer codes lies between their high bits.
        let (high_64, high_32) = ((low >> 64, high >> 64), (low >> 96, high >> 96));
        match &self.chunk {
            Chunk::I8(values) => within!(values, u8, |value: i8| value as u8 ^ 1 << 7),
            Chunk::I16(values) => within!(values, u16, |value: i16| value as u16 ^ 1 << 15),
            Chunk::I32(values) => within!(values, u32, |value: i32| value as u32 ^ 1 << 31),
            Chunk::I64(values) => within!(values, u64, signed),
            Chunk::U8(values) => within!(values, u8, |value: u8| value),
            Chunk::U16(values) => within!(values, u16, |value: u16| value),
            Chunk::U32(values) => within!(values, u32, |value: u32| value),
            Chunk::U64(values) => within!(values, u64, |value: u64| value),
            Chunk::F16(values) => within!(values, u64, |value: u16| total_order(value.into(), 16)),
            Chunk::F32(values) => within!(values, u64, |value: u32| total_order(value.into(), 32)),
            Chunk::F64(values) => within!(values, u64, |value: u64| total_order(value, 64)),
            Chunk::I128(values) => within!(values, u128, |value: i128| value as u128 ^ 1 << 127),
            Chunk::Views(views, _) => {
                let (low, high) = high_32;
                let (low, span) = (low as u32, (high - low) as u32);
                let first_four = |view: u128| ((view >> 32) as u32).swap_bytes();
                passing(views, nulls, |view| first_four(view).wrapping_sub(low) <= span, rows);
            }
            chunk => {
                let ordinal = |row: u32| match chunk.is_text() {
                    true => eight(chunk.bytes(row as usize), 0),
                    false => chunk.ordinal(row as usize),
                };
                let (low, high) = if chunk.is_text() { high_64 } else { (low, high) };
                let all: Vec<u32> = (0..self.rows as u32).collect();
                passing(&all, nulls, |row| (low..=high).contains(&ordinal(row).into()), rows);
            }
        }
    }
}

/// Codes from one to another, both included, if any, and whether it takes NULL.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Range {
    pub(crate) codes: Option<(u128, u128)>,
    pub(crate) nulls: bool,
}

/// So many values are looked at before any row is added.
const BLOCK: usize = 32;

/// Adds the numbers of the rows that pass, or have no value if these pass.
fn passing<T: Copy>(values: &[T], nulls: Option<(&NullBuffer, bool)>, pass: impl Fn(T) -> bool, rows: &mut Vec<u32>) {
    for (number, block) in values.chunks(BLOCK).enumerate() {
        let any = block.iter().fold(false, |any, value| any | pass(*value));
        let start = number * BLOCK;
        match nulls {
            _ if !any && !nulls.is_some_and(|(_, null_passes)| null_passes) => {}
            None => {
                let passing = (start as u32..).zip(block).filter(|(_, value)| pass(**value));
                rows.extend(passing.map(|(row, _)| row));
            }
            Some((nulls, null_passes)) => {
                let passes =
                    |(row, value): &(usize, &T)| if nulls.is_valid(*row) { pass(**value) } else { null_passes };
                rows.extend((start..).zip(block).filter(passes).map(|(row, _)| row as u32));
            }
        }
    }
}

/// Whether values of a type have ordinals.
fn is_plain(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal256(..) | DataType::Null => false,
        DataType::Interval(unit) => *unit == IntervalUnit::YearMonth,
        DataType::Boolean | DataType::FixedSizeBinary(_) => true,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        other => other.is_primitive(),
    }
}

fn signed(value: i64) -> u64 {
    value as u64 ^ (1 << 63)
}

/// Bits of a float that compare like its total order: of negative ones all are inverted, of others the sign.
fn total_order(bits: u64, width: u32) -> u64 {
    let sign = 1 << (width - 1);
    let all = u64::MAX >> (64 - width);
    if bits & sign != 0 { bits ^ all } else { bits ^ sign }
}

/// The float whose ordinal this is, as its bits.
pub(crate) fn float_bits(ordinal: u64, width: u32) -> u64 {
    let sign = 1 << (width - 1);
    let all = u64::MAX >> (64 - width);
    if ordinal & sign != 0 { ordinal ^ sign } else { ordinal ^ all }
}

/// Eight bytes from `start` on, as a number that compares like them; zeros where there are none.
fn eight(bytes: &[u8], start: usize) -> u64 {
    let rest = bytes.get(start..).unwrap_or(&[]);
    match rest.first_chunk() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => rest
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
            .checked_shl(64 - 8 * rest.len() as u32)
            .unwrap_or(0),
    }
}

impl Chunk {
    fn of(array: &dyn Array) -> Result<Chunk> {
        let data = array.to_data();
        macro_rules! values {
            () => {
                ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
            };
        }
        fn views<T: ByteViewType>(array: &dyn Array) -> Chunk {
            let array = array.as_byte_view::<T>();
            Chunk::Views(array.views().clone(), array.data_buffers().to_vec())
        }
        Ok(match array.data_type() {
            DataType::Boolean => Chunk::Bool(array.as_boolean().values().clone()),
            DataType::Int8 => Chunk::I8(values!()),
            DataType::Int16 => Chunk::I16(values!()),
            DataType::Int64 | DataType::Date64 | DataType::Time64(_) => Chunk::I64(values!()),
            DataType::Timestamp(..) | DataType::Duration(_) | DataType::Decimal64(..) => Chunk::I64(values!()),
            DataType::UInt8 => Chunk::U8(values!()),
            DataType::UInt16 => Chunk::U16(values!()),
            DataType::UInt32 => Chunk::U32(values!()),
            DataType::UInt64 => Chunk::U64(values!()),
            DataType::Float16 => Chunk::F16(values!()),
            DataType::Float32 => Chunk::F32(values!()),
            DataType::Float64 => Chunk::F64(values!()),
            DataType::Decimal128(..) => Chunk::I128(values!()),
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                Chunk::Text(array.offsets().clone(), array.values().clone())
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                Chunk::LargeText(array.offsets().clone(), array.values().clone())
            }
            DataType::Binary => {
                let array = array.as_binary::<i32>();
                Chunk::Text(array.offsets().clone(), array.values().clone())
            }
            DataType::LargeBinary => {
                let array = array.as_binary::<i64>();
                Chunk::LargeText(array.offsets().clone(), array.values().clone())
            }
            DataType::FixedSizeBinary(width) => {
                let width = usize::try_from(*width).unwrap_or(0);
                let values = data.buffers()[0].slice_with_length(data.offset() * width, data.len() * width);
                Chunk::FixedText(width, values)
            }
            DataType::Utf8View => views::<StringViewType>(array),
            DataType::BinaryView => views::<BinaryViewType>(array),
            // 32-bit integers of any meaning: the others are cast or made rows.
            _ => Chunk::I32(values!()),
        })
    }

    fn is_text(&self) -> bool {
        matches!(self, Chunk::Text(..) | Chunk::LargeText(..) | Chunk::FixedText(..) | Chunk::Views(..))
    }

    /// The bytes of a string. What is garbage under a null may be anything, and is nothing.
    fn bytes(&self, row: usize) -> &[u8] {
        let bytes = match self {
            Chunk::Text(offsets, data) => data.get(offsets[row] as usize..offsets[row + 1] as usize),
            Chunk::LargeText(offsets, data) => data.get(offsets[row] as usize..offsets[row + 1] as usize),
            Chunk::FixedText(width, data) => data.get(row * width..(row + 1) * width),
            Chunk::Views(views, buffers) => return view_bytes(views, row, buffers),
            _ => None,
        };
        bytes.unwrap_or(&[])
    }

    /// The length of the longest string.
    fn longest(&self, nulls: Option<&NullBuffer>) -> usize {
        let widest = match self {
            Chunk::Text(offsets, _) => offsets.lengths().max(),
            Chunk::LargeText(offsets, _) => offsets.lengths().max(),
            Chunk::FixedText(width, _) => Some(*width),
            Chunk::Views(views, _) if nulls.is_none() => views.iter().map(|view| *view as u32 as usize).max(),
            Chunk::Views(views, _) => {
                let valid = |row: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*row));
                (0..views.len()).filter(valid).map(|row| views[row] as u32 as usize).max()
            }
            _ => None,
        };
        widest.unwrap_or(0)
    }

    fn ordinal(&self, row: usize) -> u64 {
        match self {
            Chunk::Bool(values) => u64::from(values.value(row)),
            Chunk::I8(values) => signed(values[row].into()),
            Chunk::I16(values) => signed(values[row].into()),
            Chunk::I32(values) => signed(values[row].into()),
            Chunk::I64(values) => signed(values[row]),
            Chunk::U8(values) => values[row].into(),
            Chunk::U16(values) => values[row].into(),
            Chunk::U32(values) => values[row].into(),
            Chunk::U64(values) => values[row],
            Chunk::F16(values) => total_order(values[row].into(), 16),
            Chunk::F32(values) => total_order(values[row].into(), 32),
            Chunk::F64(values) => total_order(values[row], 64),
            _ => 0,
        }
    }

    fn fill_fixed(&self, out: &mut Vec<u64>) {
        match self {
            Chunk::Bool(values) => out.extend(values.iter().map(u64::from)),
            Chunk::I8(values) => out.extend(values.iter().map(|value| signed((*value).into()))),
            Chunk::I16(values) => out.extend(values.iter().map(|value| signed((*value).into()))),
            Chunk::I32(values) => out.extend(values.iter().map(|value| signed((*value).into()))),
            Chunk::I64(values) => out.extend(values.iter().map(|value| signed(*value))),
            Chunk::U8(values) => out.extend(values.iter().map(|value| u64::from(*value))),
            Chunk::U16(values) => out.extend(values.iter().map(|value| u64::from(*value))),
            Chunk::U32(values) => out.extend(values.iter().map(|value| u64::from(*value))),
            Chunk::U64(values) => out.extend_from_slice(values),
            Chunk::F16(values) => out.extend(values.iter().map(|value| total_order((*value).into(), 16))),
            Chunk::F32(values) => out.extend(values.iter().map(|value| total_order((*value).into(), 32))),
            Chunk::F64(values) => out.extend(values.iter().map(|value| total_order(*value, 64))),
            _ => {}
        }
    }

    /// Eight bytes of each string from `start` on, or its length.
    fn fill_text(&self, start: Option<usize>, nulls: Option<&NullBuffer>, out: &mut Vec<u64>) {
        let rows = match self {
            Chunk::Text(offsets, _) => offsets.len() - 1,
            Chunk::LargeText(offsets, _) => offsets.len() - 1,
            Chunk::FixedText(width, data) => data.len().checked_div(*width).unwrap_or(0),
            Chunk::Views(views, buffers) => {
                match start {
                    None => out.extend(views.iter().map(|view| u64::from(*view as u32))),
                    Some(start) => out.extend((0..views.len()).map(|row| view_eight(views, row, buffers, start))),
                }
                return;
            }
            _ => 0,
        };
        let rows = nulls.map_or(rows, |nulls| nulls.len());
        match start {
            None => out.extend((0..rows).map(|row| self.bytes(row).len() as u64)),
            Some(start) => out.extend((0..rows).map(|row| eight(self.bytes(row), start))),
        }
    }
}

/// So long a text is in its view, after four bytes of length.
const INLINE_MAX: u32 = 12;

fn view_bytes<'a>(views: &'a ScalarBuffer<u128>, row: usize, buffers: &'a [Buffer]) -> &'a [u8] {
    let view = views[row];
    let length = view as u32 as usize;
    if view as u32 <= INLINE_MAX {
        return views.inner().get(row * 16 + 4..row * 16 + 4 + length).unwrap_or(&[]);
    }
    let (buffer, start) = ((view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
    buffers.get(buffer).and_then(|bytes| bytes.get(start..start + length)).unwrap_or(&[])
}

fn view_eight(views: &ScalarBuffer<u128>, row: usize, buffers: &[Buffer], start: usize) -> u64 {
    let view = views[row];
    match start {
        _ if view as u32 > INLINE_MAX => eight(view_bytes(views, row, buffers), start),
        0 => ((view >> 32) as u64).swap_bytes(),
        8 => u64::from(((view >> 96) as u32).swap_bytes()) << 32,
        _ => 0,
    }
}
