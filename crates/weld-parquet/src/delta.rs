//! DELTA_BINARY_PACKED integers: a first value, then blocks of bit-packed differences.
//!
//! ```text
//! <block size> <miniblocks a block> <count> <first>   then, a block:   <least delta> <widths> <miniblocks>
//! ```
//!
//! Values are produced in small pieces and never before they are asked for, whatever the header
//! claims. Arithmetic wraps, as writers' does.

use bytes::Bytes;

use crate::bitpack;
use crate::error::{Result, corrupt};

/// Differences unpacked at a time; a multiple of eight, so that pieces start on bytes.
const PIECE: usize = 256;

/// A cursor over the values of one sequence.
#[derive(Debug)]
pub(crate) struct Delta {
    data: Bytes,
    at: usize,
    /// Values of a miniblock, miniblocks of a block.
    values_per_mini: usize,
    minis: usize,
    /// The widest delta the column's type allows.
    width_max: u8,
    /// Values not handed out yet.
    left: usize,
    /// Differences not unpacked yet.
    coded_left: usize,
    /// `left` includes the first value, which stands in the header.
    first: bool,
    last: u64,
    least: u64,
    widths: usize,
    mini: usize,
    mini_left: usize,
    /// Unpacked differences, in `narrow` unless `is_wide`.
    narrow: [u32; PIECE],
    wide: [u64; PIECE],
    is_wide: bool,
    piece_len: usize,
    piece_at: usize,
}

impl Delta {
    pub(crate) fn new(data: Bytes, width_max: u8) -> Result<Self> {
        let mut at = 0;
        let block = varint(&data, &mut at)?;
        let minis = varint(&data, &mut at)?;
        let count = varint(&data, &mut at)?;
        let first = zigzag(varint(&data, &mut at)?);
        if minis == 0 || block == 0 || block % minis != 0 || (block / minis) % 8 != 0 || block > 1 << 31 {
            return corrupt(format!("delta blocks of {block} values in {minis} miniblocks"));
        }
        if count > 1 << 32 {
            return corrupt(format!("{count} delta-coded values"));
        }
        Ok(Self {
            data,
            at,
            values_per_mini: (block / minis) as usize,
            minis: minis as usize,
            width_max,
            left: count as usize,
            coded_left: (count as usize).saturating_sub(1),
            first: true,
            last: first,
            least: 0,
            widths: 0,
            mini: minis as usize,
            mini_left: 0,
            narrow: [0; PIECE],
            wide: [0; PIECE],
            is_wide: false,
            piece_len: 0,
            piece_at: 0,
        })
    }

    /// Where the sequence ends, found by walking over its blocks.
    pub(crate) fn end(&self) -> Result<usize> {
        debug_assert!(self.first, "asked before reading");
        let mut at = self.at;
        let mut left = self.left.saturating_sub(1);
        while left > 0 {
            varint(&self.data, &mut at)?;
            let widths = at;
            at += self.minis;
            if at > self.data.len() {
                return corrupt("delta widths are cut off");
            }
            for mini in 0..self.minis {
                if left == 0 {
                    break;
                }
                left -= left.min(self.values_per_mini);
                at += self.values_per_mini / 8 * self.data[widths + mini] as usize;
            }
        }
        if at > self.data.len() {
            return corrupt("delta blocks are cut off");
        }
        Ok(at)
    }

    /// The next `out.len()` values, each passed through `narrow`.
    pub(crate) fn read<T>(&mut self, out: &mut [T], narrow: impl Fn(u64) -> T) -> Result<()> {
        if out.len() > self.left {
            return corrupt("fewer delta-coded values than the page says");
        }
        self.left -= out.len();
        let mut slots = out.iter_mut();
        if self.first
            && let Some(slot) = slots.next()
        {
            self.first = false;
            *slot = narrow(self.last);
        }
        let mut slots = slots.into_slice();
        while !slots.is_empty() {
            if self.piece_at == self.piece_len {
                self.load()?;
            }
            let count = slots.len().min(self.piece_len - self.piece_at);
            let (now, later) = slots.split_at_mut(count);
            let piece = self.piece_at..self.piece_at + count;
            self.last = match self.is_wide {
                true => sum_up(self.last, self.least, self.wide[piece].iter().copied(), now, &narrow),
                false => sum_up(self.last, self.least, self.narrow[piece].iter().map(|d| u64::from(*d)), now, &narrow),
            };
            self.piece_at += count;
            slots = later;
        }
        Ok(())
    }

    /// Passes over `count` values: their differences are added up.
    pub(crate) fn skip(&mut self, mut count: usize) -> Result<()> {
        if count > self.left {
            return corrupt("fewer delta-coded values than the page says");
        }
        self.left -= count;
        if self.first && count > 0 {
            self.first = false;
            count -= 1;
        }
        while count > 0 {
            if self.piece_at == self.piece_len {
                self.load()?;
            }
            let now = count.min(self.piece_len - self.piece_at);
            let piece = self.piece_at..self.piece_at + now;
            let sum = match self.is_wide {
                true => self.wide[piece].iter().fold(0u64, |sum, delta| sum.wrapping_add(*delta)),
                false => self.narrow[piece].iter().map(|delta| u64::from(*delta)).sum(),
            };
            self.last = self.last.wrapping_add(sum).wrapping_add(self.least.wrapping_mul(now as u64));
            self.piece_at += now;
            count -= now;
        }
        Ok(())
    }

    /// Unpacks the next piece: a part of a miniblock, or as many miniblocks of a block as there is room for.
    fn load(&mut self) -> Result<()> {
        if self.mini_left == 0 {
            self.mini += 1;
            if self.mini >= self.minis {
                self.least = zigzag(varint(&self.data, &mut self.at)?);
                self.widths = self.at;
                self.at += self.minis;
                if self.at > self.data.len() {
                    return corrupt("delta widths are cut off");
                }
                self.mini = 0;
            }
            self.mini_left = self.values_per_mini;
        }
        self.is_wide = self.width()? > 32;
        (self.piece_at, self.piece_len) = (0, 0);
        loop {
            self.unpack()?;
            let room = PIECE - self.piece_len;
            let more = self.mini + 1 < self.minis && self.values_per_mini <= room && self.coded_left > 0;
            if self.mini_left > 0 || !more {
                return Ok(());
            }
            self.mini += 1;
            self.mini_left = self.values_per_mini;
            // What is wrong with the next miniblock is an error when it is its turn.
            if !self.width().is_ok_and(|width| width <= 32 || self.is_wide) {
                return Ok(());
            }
        }
    }

    fn width(&self) -> Result<u8> {
        match self.data[self.widths + self.mini] {
            width if width > self.width_max => corrupt(format!("{width} bits of delta in a narrower type")),
            width => Ok(width),
        }
    }

    /// Appends the next values of a miniblock to the piece.
    fn unpack(&mut self) -> Result<()> {
        let width = self.width()?;
        let count = self.mini_left.min(PIECE - self.piece_len).min(self.coded_left);
        let rest = self.data.get(self.at..).unwrap_or_default();
        // The last miniblock may lack its padding, never values that are wanted.
        let count = if width == 0 { count } else { count.min(rest.len() * 8 / width as usize) };
        if count == 0 && self.piece_len == 0 {
            return corrupt("delta blocks are cut off");
        }
        let to = self.piece_len..self.piece_len + count;
        match self.is_wide {
            true => bitpack::unpack64(rest, width, &mut self.wide[to]),
            false => bitpack::unpack(rest, width, 0, &mut self.narrow[to]),
        }
        self.piece_len += count;
        // Cut short (not a multiple of eight), nothing follows: the next piece is an error.
        self.at += (count * width as usize).div_ceil(8);
        self.mini_left -= count;
        self.coded_left -= count;
        Ok(())
    }
}

/// Writes `last` plus the sum of the differences so far for each of them, every one more than `least`; returns the last
/// sum.
#[inline(always)]
fn sum_up<T>(
    mut last: u64,
    least: u64,
    deltas: impl Iterator<Item = u64>,
    out: &mut [T],
    narrow: &impl Fn(u64) -> T,
) -> u64 {
    for (slot, delta) in out.iter_mut().zip(deltas) {
        // In this order there is one addition between a value and the next.
        last = last.wrapping_add(delta.wrapping_add(least));
        *slot = narrow(last);
    }
    last
}

fn varint(data: &[u8], at: &mut usize) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let Some(&byte) = data.get(*at) else {
            return corrupt("a delta header is cut off");
        };
        *at += 1;
        value |= ((byte & 0x7f) as u64) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    corrupt("a delta header's number is too long")
}

fn zigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten values from 100 in steps of 3, in one block of 128 with four miniblocks, width 2.
    fn sample() -> Bytes {
        let mut data = vec![0x80, 1, 4, 10, 0xc8, 1, 2, 2, 0, 0, 0];
        // Deltas are 1 (the least) + 2, packed as 0b10 nine times.
        data.extend([0xaa, 0xaa, 0b10, 0, 0, 0, 0, 0]);
        Bytes::from(data)
    }

    #[test]
    fn reads_in_pieces_and_knows_its_end() {
        let expected: Vec<u64> = (0..10).map(|i| 100 + 3 * i).collect();
        for cut in 0..=10 {
            let mut delta = Delta::new(sample(), 64).unwrap();
            assert_eq!(delta.end().unwrap(), sample().len());
            let mut out = vec![0; 10];
            delta.read(&mut out[..cut], |v| v).unwrap();
            delta.read(&mut out[cut..], |v| v).unwrap();
            assert_eq!(out, expected);
            let mut delta = Delta::new(sample(), 64).unwrap();
            delta.skip(cut).unwrap();
            assert_eq!(delta.left, 10 - cut);
            assert!(delta.read(&mut [0; 11], |v| v).is_err());
        }
    }

    #[test]
    fn every_truncation_is_an_error_or_right() {
        for len in 0..sample().len() {
            let Ok(mut delta) = Delta::new(sample().slice(..len), 64) else {
                continue;
            };
            let _ = delta.end();
            let mut out = [0; 10];
            if delta.read(&mut out, |v| v).is_ok() {
                assert!(len >= 14, "all nine deltas are there");
            }
        }
    }
}
