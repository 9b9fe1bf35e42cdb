//! A column chunk's dictionary, decoded once, as an Arrow array that codes refer to.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::buffer::Buffer;
use bytes::Bytes;

use crate::batch::{Batch, Data, fixed};
use crate::error::{Result, corrupt};
use crate::pool::{Block, BufferPool, Plain};
use crate::target::{Convert, Stored, Target};
use crate::values::Values;

/// The values that a chunk's codes stand for.
#[derive(Debug)]
pub(crate) struct Dictionary {
    values: ArrayRef,
    len: usize,
    width: usize,
    /// The fixed-width values, or the views.
    bytes: Buffer,
    /// What the views point into.
    buffers: Vec<Buffer>,
}

impl Dictionary {
    /// Decodes the content of a dictionary page of `count` values.
    pub(crate) fn decode(
        body: Bytes,
        count: usize,
        target: &Target,
        pool: &Arc<BufferPool>,
        page_max: usize,
    ) -> Result<Self> {
        let smallest = target.plain_len_min();
        if smallest == 0 || count > body.len() / smallest || count > i32::MAX as usize {
            return corrupt(format!("a dictionary of {count} values in {} bytes", body.len()));
        }
        let values = match in_place(&body, count, target)? {
            Some(values) => values,
            None => {
                let mut batch = Batch::values(count, target, None, pool, page_max);
                batch.validity.append_present(count);
                Values::plain(target, body).read(count, target, None, &batch.validity, &mut batch.data, 0)?;
                batch.finish(target.data_type(), None)?
            }
        };
        let data = values.to_data();
        let (bytes, buffers) = match data.buffers() {
            [bytes, buffers @ ..] => (bytes.clone(), buffers.to_vec()),
            [] => return corrupt("a dictionary of booleans"),
        };
        // Absent rows carry code 0, which compiled code may look up before it looks at validity.
        let values = if count > 0 { values } else { placeholder(target)? };
        Ok(Self { values, len: count, width: target.width(), bytes, buffers })
    }

    /// The values as an array; never empty.
    pub(crate) fn values(&self) -> &ArrayRef {
        &self.values
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// An error if any code is out of range.
    pub(crate) fn check(&self, codes: &[u32]) -> Result<()> {
        check_codes(codes, self.len)
    }

    /// Writes the values of checked `codes` to the slots from `at` on.
    pub(crate) fn gather(&self, codes: &[u32], data: &mut Data, at: usize) -> Result<()> {
        self.check(codes)?;
        match data {
            Data::Codes(block) => block.as_mut_slice::<u32>()[at..at + codes.len()].copy_from_slice(codes),
            Data::Views(views) => self.gather_as::<u128>(codes, &mut views.block, at),
            Data::Fixed(block) => match self.width {
                1 => self.gather_as::<u8>(codes, block, at),
                2 => self.gather_as::<u16>(codes, block, at),
                4 => self.gather_as::<u32>(codes, block, at),
                8 => self.gather_as::<u64>(codes, block, at),
                16 => self.gather_as::<u128>(codes, block, at),
                width => {
                    let out = &mut block.as_mut()[at * width..];
                    for (slot, &code) in out.chunks_exact_mut(width).zip(codes) {
                        let from = code as usize * width;
                        slot.copy_from_slice(&self.bytes[from..from + width]);
                    }
                }
            },
            Data::Bits(_) => return corrupt("a dictionary of booleans"),
        }
        Ok(())
    }

    /// Writes the value of `code` to `count` slots from `at` on.
    pub(crate) fn fill(&self, code: u32, count: usize, data: &mut Data, at: usize) -> Result<()> {
        self.check(&[code])?;
        match data {
            Data::Codes(block) => block.as_mut_slice::<u32>()[at..at + count].fill(code),
            Data::Views(views) => self.fill_as::<16>(code, count, &mut views.block, at),
            Data::Fixed(block) => match self.width {
                1 => self.fill_as::<1>(code, count, block, at),
                2 => self.fill_as::<2>(code, count, block, at),
                4 => self.fill_as::<4>(code, count, block, at),
                8 => self.fill_as::<8>(code, count, block, at),
                16 => self.fill_as::<16>(code, count, block, at),
                width => {
                    let value = &self.bytes[code as usize * width..][..width];
                    let out = &mut block.as_mut()[at * width..(at + count) * width];
                    out.chunks_exact_mut(width).for_each(|slot| slot.copy_from_slice(value));
                }
            },
            Data::Bits(_) => return corrupt("a dictionary of booleans"),
        }
        Ok(())
    }

    fn fill_as<const N: usize>(&self, code: u32, count: usize, block: &mut Block, at: usize) {
        let value = self.bytes.as_chunks::<N>().0[code as usize];
        block.as_mut().as_chunks_mut::<N>().0[at..at + count].fill(value);
    }

    fn gather_as<T: Plain>(&self, codes: &[u32], block: &mut Block, at: usize) {
        let out = &mut block.as_mut_slice::<T>()[at..at + codes.len()];
        assert!(self.len * size_of::<T>() <= self.bytes.len());
        let values = self.bytes.as_ptr().cast::<T>();
        for (slot, &code) in out.iter_mut().zip(codes) {
            // SAFETY: `gather` checked that every code is below `len`, and `len` values of this
            // width lie in `bytes` (asserted); the read is unaligned-safe, any bytes are a `Plain`.
            *slot = unsafe { values.add(code as usize).read_unaligned() };
        }
    }
}

/// The page itself as an array, where it holds what Arrow does.
fn in_place(body: &Bytes, count: usize, target: &Target) -> Result<Option<ArrayRef>> {
    let (Stored::Fixed(len), Convert::Same) = (target.stored, target.convert) else { return Ok(None) };
    let aligned = body.as_ptr().addr().is_multiple_of(len.next_power_of_two().min(16));
    if !aligned || count == 0 {
        return Ok(None);
    }
    let values = Buffer::from(body.slice(..count * len));
    Ok(Some(fixed(target.data_type(), count, values, None)?))
}

/// An error if any code is out of range in a dictionary of `len` values, which are fewer than 2^31.
pub(crate) fn check_codes(codes: &[u32], len: usize) -> Result<()> {
    // A code is too large exactly if it has the top bit, or if the difference to the last code does. Unlike a maximum
    // this needs no special instruction.
    let last = (len as u32).wrapping_sub(1);
    let tops = codes.iter().fold(0, |tops, &code| tops | code | last.wrapping_sub(code));
    if tops >> 31 != 0 && !codes.is_empty() {
        return corrupt(format!("a code past a dictionary of {len} values"));
    }
    Ok(())
}

/// One value that no row refers to: the type's zero.
fn placeholder(target: &Target) -> Result<ArrayRef> {
    let data = new_null_array(target.data_type(), 1).to_data();
    let data = data.into_builder().nulls(None).build()?;
    Ok(arrow::array::make_array(data))
}
