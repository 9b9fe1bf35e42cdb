//! The states of groups: a column for each part of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeBinaryArray, make_array};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, internal_datafusion_err};

/// One part of the states of all groups.
#[derive(Debug)]
pub(super) enum Column {
    /// Scalars of one width; of booleans a byte each.
    Fixed { ty: DataType, width: usize, values: Vec<u8> },
    /// What has no fixed width.
    Bytes { values: Vec<Box<[u8]>>, held: usize },
}

impl Column {
    /// Of no groups. `ty` is that of the column in intermediate states.
    pub(super) fn new(ty: DataType) -> Column {
        match ty {
            DataType::LargeBinary => Column::Bytes { values: Vec::new(), held: 0 },
            DataType::Boolean => Column::Fixed { ty, width: 1, values: Vec::new() },
            ty => Column::Fixed { width: ty.primitive_width().unwrap_or(1), ty, values: Vec::new() },
        }
    }

    /// Adds groups with the state of which an array has one.
    pub(super) fn extend(&mut self, first: &ArrayRef, groups: usize) -> Result<()> {
        let value = self.bytes(first)?;
        let value = value.row(0);
        match self {
            Column::Fixed { values, .. } => (0..groups).for_each(|_| values.extend_from_slice(value)),
            Column::Bytes { values, held } => {
                values.extend((0..groups).map(|_| Box::from(value)));
                *held += value.len() * groups;
            }
        }
        Ok(())
    }

    /// The states of these groups become those of the array's rows.
    pub(super) fn set(&mut self, groups: &[usize], rows: &ArrayRef) -> Result<()> {
        let bytes = self.bytes(rows)?;
        for (row, group) in groups.iter().enumerate() {
            let value = bytes.row(row);
            match self {
                Column::Fixed { width, values, .. } => {
                    values[group * *width..(group + 1) * *width].copy_from_slice(value);
                }
                Column::Bytes { values, held } => {
                    *held = *held + value.len() - values[*group].len();
                    values[*group] = value.into();
                }
            }
        }
        Ok(())
    }

    /// The states of these groups, of which those are null that `nulls` says.
    pub(super) fn get(&self, groups: &[usize], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        match self {
            Column::Fixed { ty: DataType::Boolean, values, .. } => {
                let bits = groups.iter().map(|group| values[*group] != 0).collect();
                Ok(Arc::new(BooleanArray::new(bits, nulls)))
            }
            Column::Fixed { ty, width, values } => {
                let mut picked = MutableBuffer::with_capacity(groups.len() * width);
                for group in groups {
                    picked.extend_from_slice(&values[group * width..(group + 1) * width]);
                }
                let data = arrow::array::ArrayData::builder(ty.clone()).len(groups.len()).nulls(nulls);
                Ok(make_array(data.add_buffer(picked.into()).build()?))
            }
            Column::Bytes { values, .. } => {
                let lengths = groups.iter().map(|group| values[*group].len());
                let offsets = OffsetBuffer::<i64>::from_lengths(lengths);
                let picked: Vec<u8> = groups.iter().flat_map(|group| values[*group].iter().copied()).collect();
                Ok(Arc::new(LargeBinaryArray::try_new(offsets, Buffer::from_vec(picked), nulls)?))
            }
        }
    }

    /// Drops the first groups, and the memory that they took.
    pub(super) fn drop_first(&mut self, groups: usize) {
        match self {
            Column::Fixed { width, values, .. } => *values = values.split_off(groups * *width),
            Column::Bytes { values, held } => {
                *held -= values.iter().take(groups).map(|value| value.len()).sum::<usize>();
                *values = values.split_off(groups);
            }
        }
    }

    /// The memory that it holds.
    pub(super) fn size(&self) -> usize {
        match self {
            Column::Fixed { values, .. } => values.capacity(),
            Column::Bytes { values, held } => values.capacity() * size_of::<Box<[u8]>>() + held,
        }
    }

    /// The values of an array of the column's type.
    fn bytes(&self, rows: &ArrayRef) -> Result<Values> {
        match self {
            Column::Fixed { ty: DataType::Boolean, .. } => {
                let bits = rows.as_boolean_opt().ok_or_else(|| mismatch(rows))?;
                let bytes: Vec<u8> = bits.values().iter().map(u8::from).collect();
                Ok(Values::Fixed(Buffer::from_vec(bytes), 1))
            }
            Column::Fixed { ty, width, .. } => {
                let data = rows.to_data();
                if data.data_type() != ty {
                    return Err(mismatch(rows));
                }
                let buffer = &data.buffers()[0];
                Ok(Values::Fixed(buffer.slice_with_length(data.offset() * width, data.len() * width), *width))
            }
            Column::Bytes { .. } => match cast(rows, &DataType::LargeBinary)?.as_binary_opt::<i64>() {
                Some(bytes) => Ok(Values::Bytes(bytes.clone())),
                None => Err(mismatch(rows)),
            },
        }
    }
}

fn mismatch(rows: &ArrayRef) -> datafusion::common::DataFusionError {
    internal_datafusion_err!("a column of {} is not that of a state", rows.data_type())
}

/// The values of an array as bytes.
enum Values {
    Fixed(Buffer, usize),
    Bytes(LargeBinaryArray),
}

impl Values {
    fn row(&self, row: usize) -> &[u8] {
        match self {
            Values::Fixed(bytes, width) => &bytes[row * width..(row + 1) * width],
            Values::Bytes(values) => values.value(row),
        }
    }
}
