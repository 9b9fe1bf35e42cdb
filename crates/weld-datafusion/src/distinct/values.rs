//! What stands for values of each type in sets, and arrays of what stands for them.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, AsArray, BinaryViewArray, BooleanArray, make_array, make_view};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::compute;
use arrow::datatypes::{ArrowNativeType, ByteArrayType, ByteViewType, DataType};
use datafusion::common::{Result, internal_err};

use super::codes::Codes;
use super::places::Places;

/// Which rows have a value that is added.
pub(crate) enum Included {
    All,
    Some(BooleanBuffer),
}

impl Included {
    /// Those that are `valid` and for which the filter holds.
    pub(crate) fn of(valid: Option<&NullBuffer>, filter: Option<&BooleanArray>) -> Included {
        let holds = filter.map(|filter| match filter.nulls() {
            Some(valid) => filter.values() & valid.inner(),
            None => filter.values().clone(),
        });
        match (valid.filter(|nulls| nulls.null_count() > 0).map(NullBuffer::inner), holds) {
            (None, None) => Included::All,
            (Some(valid), None) => Included::Some(valid.clone()),
            (None, Some(holds)) => Included::Some(holds),
            (Some(valid), Some(holds)) => Included::Some(valid & &holds),
        }
    }
}

/// How values of a type lie in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// So many bytes each, of at most a word. A bit is flipped so that integers with a sign are in order.
    Word {
        bytes: usize,
        flip: u64,
    },
    /// 128 bits.
    Wide,
    Text,
}

impl Kind {
    /// `None` if there are no sets of the type.
    pub(super) fn of(value_type: &DataType) -> Option<Kind> {
        use DataType::{
            Binary, BinaryView, Date32, Date64, Decimal128, Duration, Float32, Float64, Int8, Int16, Int32, Int64,
            LargeBinary, LargeUtf8, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
        };
        let bytes = value_type.primitive_width().unwrap_or_default();
        Some(match value_type {
            UInt8 | UInt16 | UInt32 | UInt64 | Float32 | Float64 => Kind::Word { bytes, flip: 0 },
            Int8 | Int16 | Int32 | Int64 | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_) => {
                Kind::Word { bytes, flip: 1 << (8 * bytes - 1) }
            }
            Decimal128(..) => Kind::Wide,
            Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => Kind::Text,
            _ => return None,
        })
    }
}

/// What stands for the values of sets.
#[derive(Debug)]
pub(super) struct Values {
    kind: Kind,
    /// The values that are not words.
    codes: Codes,
}

impl Values {
    pub(super) fn new(kind: Kind) -> Values {
        Values { kind, codes: Codes::new() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.codes.bytes()
    }

    /// Whether the next batch may have values for which there are no numbers.
    pub(super) fn are_too_many(&self) -> bool {
        self.codes.len() > (u32::MAX >> 1) as usize
    }

    /// The bits of a value of one word, which is as wide as the word.
    pub(super) fn bits(&self) -> impl Fn(u64) -> u64 + Copy + 'static {
        let flip = match self.kind {
            Kind::Word { flip, .. } => flip,
            Kind::Wide | Kind::Text => 0,
        };
        move |code| code ^ flip
    }

    /// A value of 128 bits.
    pub(super) fn wide(&self, code: u64) -> u128 {
        self.codes.value(code)
    }

    /// Where numbers of an array's values are kept while its slices are added.
    pub(super) fn places(&self, values: &ArrayRef) -> Option<Places> {
        match (self.kind, values.data_type()) {
            (Kind::Text, DataType::Utf8View) => Places::of(values.as_string_view()),
            (Kind::Text, DataType::BinaryView) => Places::of(values.as_binary_view()),
            _ => None,
        }
    }

    /// Appends what stands for the values of the rows that are included. `places` are those of the array.
    pub(super) fn add_codes(
        &mut self,
        values: &ArrayRef,
        included: &Included,
        places: Option<&mut Places>,
        to: &mut Vec<u64>,
    ) -> Result<()> {
        let codes = &mut self.codes;
        match self.kind {
            Kind::Word { bytes, flip } => {
                let data = values.to_data();
                match bytes {
                    1 => words::<u8>(&data, included, to, |value| u64::from(value) ^ flip),
                    2 => words::<u16>(&data, included, to, |value| u64::from(value) ^ flip),
                    4 => words::<u32>(&data, included, to, |value| u64::from(value) ^ flip),
                    _ => words::<u64>(&data, included, to, |value| value ^ flip),
                }
            }
            Kind::Wide => {
                let data = values.to_data();
                let values = &data.buffer::<i128>(0)[..data.len()];
                match included {
                    Included::All => codes.of_values(values.iter().map(|value| *value as u128), to),
                    Included::Some(bits) => codes.of_values(bits.set_indices().map(|row| values[row] as u128), to),
                }
            }
            Kind::Text => match (places, included, values.data_type()) {
                (Some(places), Included::All, DataType::Utf8View) => places.numbers(values.as_string_view(), codes, to),
                (Some(places), Included::All, DataType::BinaryView) => {
                    places.numbers(values.as_binary_view(), codes, to)
                }
                _ => return texts(values, included, codes, to),
            },
        }
        Ok(())
    }

    /// The values that codes stand for.
    pub(super) fn into_array(self, codes: Vec<u64>, value_type: &DataType) -> Result<ArrayRef> {
        let len = codes.len();
        let buffer = match self.kind {
            Kind::Word { bytes, flip } => match bytes {
                1 => buffer(codes, |code| (code ^ flip) as u8),
                2 => buffer(codes, |code| (code ^ flip) as u16),
                4 => buffer(codes, |code| (code ^ flip) as u32),
                _ => buffer(codes, |code| code ^ flip),
            },
            Kind::Wide => buffer(codes, |code| self.codes.value(code) as i128),
            Kind::Text => return into_texts(self.codes.into_bytes(&codes)?, value_type),
        };
        let data = ArrayData::builder(value_type.clone()).len(len).add_buffer(buffer).build()?;
        Ok(make_array(data))
    }
}

fn buffer<T: ArrowNativeType>(codes: Vec<u64>, value: impl Fn(u64) -> T) -> Buffer {
    Buffer::from_vec(codes.into_iter().map(value).collect::<Vec<T>>())
}

fn words<T: ArrowNativeType>(data: &ArrayData, included: &Included, to: &mut Vec<u64>, mut code: impl FnMut(T) -> u64) {
    let values = data.buffer::<T>(0);
    match included {
        Included::All => to.extend(values[..data.len()].iter().map(|value| code(*value))),
        Included::Some(bits) => to.extend(bits.set_indices().map(|row| code(values[row]))),
    }
}

fn texts(values: &ArrayRef, included: &Included, codes: &mut Codes, to: &mut Vec<u64>) -> Result<()> {
    use arrow::datatypes::{BinaryType, BinaryViewType, LargeBinaryType, LargeUtf8Type, StringViewType, Utf8Type};
    match values.data_type() {
        DataType::Utf8View => of_views::<StringViewType>(values, included, codes, to),
        DataType::BinaryView => of_views::<BinaryViewType>(values, included, codes, to),
        DataType::Utf8 => of_bytes::<Utf8Type>(values, included, codes, to),
        DataType::LargeUtf8 => of_bytes::<LargeUtf8Type>(values, included, codes, to),
        DataType::Binary => of_bytes::<BinaryType>(values, included, codes, to),
        DataType::LargeBinary => of_bytes::<LargeBinaryType>(values, included, codes, to),
        other => return internal_err!("no sets of values of type {other}"),
    }
    Ok(())
}

fn of_views<T: ByteViewType>(values: &ArrayRef, included: &Included, codes: &mut Codes, to: &mut Vec<u64>) {
    let values = values.as_byte_view::<T>();
    let text = |row: usize| (values.views()[row], values.value(row).as_ref());
    match included {
        Included::All => codes.of_texts((0..values.len()).map(text), to),
        Included::Some(bits) => codes.of_texts(bits.set_indices().map(text), to),
    }
}

fn of_bytes<T: ByteArrayType>(values: &ArrayRef, included: &Included, codes: &mut Codes, to: &mut Vec<u64>) {
    let values = values.as_bytes::<T>();
    let text = |row: usize| {
        let bytes: &[u8] = values.value(row).as_ref();
        (make_view(bytes, 0, 0), bytes)
    };
    match included {
        Included::All => codes.of_texts((0..values.len()).map(text), to),
        Included::Some(bits) => codes.of_texts(bits.set_indices().map(text), to),
    }
}

/// What was made numbers of values of this type, as the type again.
fn into_texts(bytes: BinaryViewArray, value_type: &DataType) -> Result<ArrayRef> {
    if !value_type.is_string() {
        return Ok(compute::cast(&bytes, value_type)?);
    }
    // SAFETY: all are copies of values of arrays of this type, which are UTF-8.
    let texts = unsafe { bytes.to_string_view_unchecked() };
    Ok(compute::cast(&texts, value_type)?)
}

/// The values of a dictionary's rows, or the same array. An entry may be null, which the array's own nulls do not say.
pub(super) fn plain(values: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Dictionary(_, entries) = values.data_type() else { return Ok(Arc::clone(values)) };
    Ok(compute::cast(values, &as_views(entries).unwrap_or_else(|| *entries.clone()))?)
}

/// The type of views of the same texts. `None` if there are none of the type.
pub(super) fn as_views(value_type: &DataType) -> Option<DataType> {
    match value_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(DataType::Utf8View),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Some(DataType::BinaryView),
        _ => None,
    }
}

/// The same values as another type of decimals or texts, or as they are.
pub(super) fn retyped(values: &ArrayRef, value_type: &DataType) -> Result<ArrayRef> {
    if values.data_type() == value_type {
        return Ok(Arc::clone(values));
    }
    if as_views(value_type).is_some() {
        return Ok(compute::cast(values, value_type)?);
    }
    Ok(make_array(values.to_data().into_builder().data_type(value_type.clone()).build()?))
}
