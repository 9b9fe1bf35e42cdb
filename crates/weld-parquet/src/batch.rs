//! A column's rows under construction, and the Arrow array that they become.

use std::sync::Arc;

use arrow::array::{
    ArrayData, ArrayRef, BinaryViewArray, BooleanArray, BooleanBufferBuilder, DictionaryArray, Int32Array,
    StringViewArray, make_array,
};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Int32Type};

use crate::dictionary::Dictionary;
use crate::error::Result;
use crate::levels::Validity;
use crate::pool::{Block, BufferPool};
use crate::strings::Views;
use crate::target::{Stored, Target};

/// Rows decoded so far: `validity.len()` of them.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) validity: Validity,
    pub(crate) data: Data,
}

#[derive(Debug)]
pub(crate) enum Data {
    Bits(BooleanBufferBuilder),
    /// Dictionary codes, each checked to be in its dictionary.
    Codes(Block),
    Fixed(Block),
    Views(Views),
}

impl Batch {
    /// Room for the codes of `rows` rows.
    pub(crate) fn codes(rows: usize, pool: &Arc<BufferPool>) -> Self {
        Self { validity: Validity::default(), data: Data::Codes(pool.take(rows * 4)) }
    }

    /// Room for the values of `rows` rows; the views of a dictionary keep their buffer numbers.
    pub(crate) fn values(
        rows: usize,
        target: &Target,
        dictionary: Option<&Dictionary>,
        pool: &Arc<BufferPool>,
        rebuilt_max: usize,
    ) -> Self {
        let data = match target.stored {
            Stored::Bits => Data::Bits(BooleanBufferBuilder::new(rows)),
            Stored::Fixed(_) => Data::Fixed(pool.take(rows * target.width())),
            Stored::Bytes { .. } => {
                let buffers = dictionary.map_or_else(Vec::new, |d| d.buffers().to_vec());
                Data::Views(Views::new(pool.take(rows * 16), buffers, rebuilt_max))
            }
        };
        Self { validity: Validity::default(), data }
    }

    /// Moves the `present` values that follow row `from` to the valid rows.
    pub(crate) fn spread(&mut self, target: &Target, from: usize, present: usize) {
        let Self { validity, data } = self;
        match data {
            // Bits are spread while they are appended.
            Data::Bits(_) => {}
            Data::Codes(block) => validity.spread::<u32>(block.as_mut_slice(), from, present, 0),
            Data::Views(views) => validity.spread::<u128>(views.block.as_mut_slice(), from, present, 0),
            Data::Fixed(block) => match target.width() {
                1 => validity.spread::<u8>(block.as_mut_slice(), from, present, 0),
                2 => validity.spread::<u16>(block.as_mut_slice(), from, present, 0),
                4 => validity.spread::<u32>(block.as_mut_slice(), from, present, 0),
                8 => validity.spread::<u64>(block.as_mut_slice(), from, present, 0),
                16 => validity.spread::<u128>(block.as_mut_slice(), from, present, 0),
                width => validity.spread_bytes(block.as_mut(), width, from, present),
            },
        }
    }

    /// The array; codes become a dictionary array over `dictionary`.
    pub(crate) fn finish(self, data_type: &DataType, dictionary: Option<&Dictionary>) -> Result<ArrayRef> {
        let rows = self.validity.len();
        let nulls = self.validity.finish();
        Ok(match (self.data, dictionary) {
            (Data::Bits(mut bits), _) => Arc::new(BooleanArray::new(bits.finish(), nulls)),
            (Data::Codes(block), Some(dictionary)) => {
                let keys = Int32Array::new(block.into_scalars::<i32>(rows), nulls);
                // SAFETY: codes enter a batch only after `Dictionary::check`, absent rows hold
                // code 0, and a dictionary array is never empty.
                Arc::new(unsafe { DictionaryArray::<Int32Type>::new_unchecked(keys, dictionary.values().clone()) })
            }
            (Data::Codes(block), None) => Arc::new(Int32Array::new(block.into_scalars::<i32>(rows), nulls)),
            (Data::Fixed(block), _) => fixed(data_type, rows, block.into_buffer(), nulls)?,
            (Data::Views(views), _) => {
                let slots = views.block.into_scalars::<u128>(rows);
                // SAFETY: `strings` makes every view from a range inside the buffer it names,
                // after validating UTF-8 where the target is text; `gather` copies such views
                // together with their buffers; absent rows are zero, the empty string.
                unsafe {
                    match data_type {
                        DataType::Utf8View => Arc::new(StringViewArray::new_unchecked(slots, views.buffers, nulls)),
                        _ => Arc::new(BinaryViewArray::new_unchecked(slots, views.buffers, nulls)),
                    }
                }
            }
        })
    }
}

/// An array of a fixed-width type.
pub(crate) fn fixed(
    data_type: &DataType,
    rows: usize,
    values: Buffer,
    nulls: Option<arrow::buffer::NullBuffer>,
) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).nulls(nulls).build()?;
    Ok(make_array(data))
}
