//! Definition levels of a flat column, which are its validity bitmap in another wrapping: width-1
//! hybrid runs, whose packed runs are Arrow's bit order already.
//!
//! A batch without nulls never materialises a bitmap.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::util::bit_chunk_iterator::UnalignedBitChunk;
use bytes::Bytes;

use crate::error::{Result, corrupt};
use crate::hybrid::{Hybrid, Piece};
use crate::pool::Plain;

/// The cursor over a page's definition levels.
#[derive(Debug)]
pub(crate) struct Levels(Hybrid);

impl Levels {
    pub(crate) fn new(data: Bytes) -> Result<Self> {
        Ok(Self(Hybrid::new(data, 1)?))
    }

    /// Appends `rows` bits to `validity`; returns how many are set.
    pub(crate) fn read(&mut self, rows: usize, validity: &mut Validity) -> Result<usize> {
        let (mut left, mut present) = (rows, 0);
        while left > 0 {
            let piece = self.0.next(left)?;
            left -= piece.count();
            match piece {
                Piece::Repeat { value: 1, count } => {
                    validity.append_n(count, true);
                    present += count;
                }
                Piece::Repeat { value: 0, count } => validity.append_n(count, false),
                Piece::Repeat { value, .. } => return bad_level(value),
                Piece::Packed { data, start, count } => {
                    let ones = ones(data, start, count);
                    validity.append_packed(data, start, count, ones);
                    present += ones;
                }
            }
        }
        Ok(present)
    }

    /// Passes over `rows` levels; returns how many values they stand for.
    pub(crate) fn skip(&mut self, rows: usize) -> Result<usize> {
        let (mut left, mut present) = (rows, 0);
        while left > 0 {
            let piece = self.0.next(left)?;
            left -= piece.count();
            present += match piece {
                Piece::Repeat { value: value @ 0..=1, count } => value as usize * count,
                Piece::Repeat { value, .. } => return bad_level(value),
                Piece::Packed { data, start, count } => ones(data, start, count),
            };
        }
        Ok(present)
    }

    /// For rows at ascending `offsets` from here: appends their bits to `validity` and the offsets
    /// of their values, where present, to `values`. Returns how many values all levels up to the
    /// last offset stand for.
    pub(crate) fn pick(&mut self, offsets: &[u32], validity: &mut Validity, values: &mut Vec<u32>) -> Result<usize> {
        let Some(&last) = offsets.last() else {
            return Ok(0);
        };
        let end = last as usize + 1;
        let (mut at, mut present, mut done) = (0, 0, 0);
        while at < end {
            let piece = self.0.next(end - at)?;
            let stop = at + piece.count();
            let wanted = offsets[done..].partition_point(|&o| (o as usize) < stop);
            let offsets = &offsets[done..done + wanted];
            match piece {
                Piece::Repeat { value: 1, count } => {
                    validity.append_n(wanted, true);
                    values.extend(offsets.iter().map(|&o| (o as usize - at + present) as u32));
                    present += count;
                }
                Piece::Repeat { value: 0, .. } => validity.append_n(wanted, false),
                Piece::Repeat { value, .. } => return bad_level(value),
                Piece::Packed { data, start, count } => {
                    let mut from = 0;
                    for &o in offsets {
                        let o = o as usize - at;
                        present += ones(data, start + from, o - from);
                        from = o;
                        let bit = start + o;
                        let set = data[bit / 8] >> (bit % 8) & 1 == 1;
                        validity.append_n(1, set);
                        if set {
                            values.push(present as u32);
                        }
                    }
                    present += ones(data, start + from, count - from);
                }
            }
            at = stop;
            done += wanted;
        }
        Ok(present)
    }
}

fn bad_level<T>(value: u32) -> Result<T> {
    corrupt(format!("definition level {value} in a flat column"))
}

fn ones(data: &[u8], start: usize, count: usize) -> usize {
    // The chunk iterator costs more than a short range itself.
    if count <= 16 {
        return (start..start + count).map(|bit| (data[bit / 8] >> (bit % 8) & 1) as usize).sum();
    }
    let bytes = &data[start / 8..(start + count).div_ceil(8)];
    UnalignedBitChunk::new(bytes, start % 8, count).count_ones()
}

/// A validity bitmap under construction; absent until the first null.
#[derive(Debug, Default)]
pub(crate) struct Validity {
    len: usize,
    bits: Option<BooleanBufferBuilder>,
}

impl Validity {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn append_n(&mut self, count: usize, valid: bool) {
        if !valid && count > 0 || self.bits.is_some() {
            self.materialise(count).append_n(count, valid);
        }
        self.len += count;
    }

    fn append_packed(&mut self, data: &[u8], start: usize, count: usize, ones: usize) {
        if ones == count && self.bits.is_none() {
            self.len += count;
        } else {
            self.materialise(count).append_packed_range(start..start + count, data);
            self.len += count;
        }
    }

    fn materialise(&mut self, more: usize) -> &mut BooleanBufferBuilder {
        let len = self.len;
        self.bits.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(len + more);
            bits.append_n(len, true);
            bits
        })
    }

    /// Spreads `present` values that stand at `slots[from..]` to the valid rows from `from` on;
    /// the others become zero.
    pub(crate) fn spread<T: Plain>(&self, slots: &mut [T], from: usize, present: usize) {
        let rows = self.len - from;
        let Some(bits) = &self.bits else { return };
        if present == rows {
            return;
        }
        let slots = &mut slots[from..self.len];
        let mut next = present;
        // From the back, so that nothing is overwritten before it moved: next <= row throughout.
        for row in (0..rows).rev() {
            let valid = bits.get_bit(from + row);
            next -= valid as usize;
            let value = slots[next];
            slots[row] = if valid { value } else { T::default() };
        }
    }

    /// The same for elements of any number of bytes.
    pub(crate) fn spread_bytes(&self, slots: &mut [u8], width: usize, from: usize, present: usize) {
        let rows = self.len - from;
        let Some(bits) = &self.bits else { return };
        if present == rows {
            return;
        }
        let slots = &mut slots[from * width..self.len * width];
        let mut next = present;
        for row in (0..rows).rev() {
            if bits.get_bit(from + row) {
                next -= 1;
                slots.copy_within(next * width..(next + 1) * width, row * width);
            } else {
                slots[row * width..(row + 1) * width].fill(0);
            }
        }
    }

    /// The same for bits: a bitmap of `rows` bits from the dense `bits` of the valid ones.
    pub(crate) fn spread_bits(&self, dense: &BooleanBuffer, from: usize, out: &mut BooleanBufferBuilder) {
        match &self.bits {
            None => out.append_buffer(dense),
            Some(valid) => {
                let mut next = 0;
                for row in from..self.len {
                    let valid = valid.get_bit(row);
                    out.append(valid && dense.value(next));
                    next += valid as usize;
                }
            }
        }
    }

    pub(crate) fn finish(self) -> Option<NullBuffer> {
        let mut bits = self.bits?;
        Some(NullBuffer::new(bits.finish())).filter(|nulls| nulls.null_count() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 valid, 8 packed (0b10110010, low bit first), 3 null.
    fn sample() -> Levels {
        Levels::new(Bytes::copy_from_slice(&[4 << 1, 1, 1 << 1 | 1, 0b1011_0010, 3 << 1, 0])).unwrap()
    }

    const VALID: [bool; 15] = {
        let (t, f) = (true, false);
        [t, t, t, t, f, t, f, f, t, t, f, t, f, f, f]
    };

    #[test]
    fn reads_and_spreads() {
        let mut validity = Validity::default();
        let mut levels = sample();
        assert_eq!(levels.read(4, &mut validity).unwrap(), 4);
        assert!(validity.bits.is_none());
        assert_eq!(levels.read(11, &mut validity).unwrap(), 4);
        let mut slots: Vec<u32> = (1..=8).chain([9; 7]).collect();
        validity.spread(&mut slots, 4, 4);
        assert_eq!(slots, [1, 2, 3, 4, 0, 5, 0, 0, 6, 7, 0, 8, 0, 0, 0]);
        let nulls = validity.finish().unwrap();
        assert_eq!(nulls.iter().collect::<Vec<_>>(), VALID);
    }

    #[test]
    fn picks_any_subset() {
        for set in 0u32..1 << 15 {
            let offsets: Vec<u32> = (0..15).filter(|i| set >> i & 1 == 1).collect();
            let (mut validity, mut values) = (Validity::default(), vec![]);
            let rank = |o: u32| VALID[..o as usize].iter().filter(|v| **v).count() as u32;
            let passed = sample().pick(&offsets, &mut validity, &mut values).unwrap();
            assert_eq!(passed as u32, offsets.last().map_or(0, |&o| rank(o + 1)));
            let expected: Vec<u32> = offsets.iter().filter(|&&o| VALID[o as usize]).map(|&o| rank(o)).collect();
            assert_eq!(values, expected);
            assert_eq!(validity.len(), offsets.len());
        }
    }
}
