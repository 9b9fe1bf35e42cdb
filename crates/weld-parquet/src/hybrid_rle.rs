//! The RLE / bit-packed hybrid: runs of one repeated value and runs of packed values.
//!
//! ```text
//! header varint h:  h & 1 == 0  ->  (h >> 1) times the value in the next ceil(width / 8) bytes
//!                   h & 1 == 1  ->  (h >> 1) * 8 values, packed into (h >> 1) * width bytes
//! ```
//!
//! Everything is built on [`Hybrid::next`], which hands out pieces of runs; nothing is ever
//! materialised for a run's claimed length, so a lying header costs nothing.

use bytes::Bytes;

use crate::bitpack;
use crate::error::{Result, corrupt};

/// A cursor over the values of one hybrid sequence.
#[derive(Debug, Clone)]
pub(crate) struct Hybrid {
    data: Bytes,
    at: usize,
    width: u8,
    run: Run,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    Repeat { value: u32, left: usize },
    Packed { start: usize, next: usize, left: usize },
}

/// A part of a run.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    Repeat {
        value: u32,
        count: usize,
    },
    /// Values `start .. start + count` of the packed `data`.
    Packed {
        data: &'a [u8],
        start: usize,
        count: usize,
    },
}

/// What [`Hybrid::next_block`] found.
#[derive(Debug, PartialEq)]
pub(crate) enum Decoded {
    Run { value: u32, count: usize },
    Codes(usize),
}

impl Piece<'_> {
    pub(crate) fn count(&self) -> usize {
        match self {
            Piece::Repeat { count, .. } | Piece::Packed { count, .. } => *count,
        }
    }
}

impl Hybrid {
    pub(crate) fn new(data: Bytes, width: u8) -> Result<Self> {
        if width > 32 {
            return corrupt(format!("bit width {width} of a run-length sequence"));
        }
        let run = Run::Repeat { value: 0, left: 0 };
        Ok(Self { data, at: 0, width, run })
    }

    /// The next one to `max` values, all of one run; `max` is not zero.
    #[inline]
    pub(crate) fn next(&mut self, max: usize) -> Result<Piece<'_>> {
        loop {
            match &mut self.run {
                Run::Repeat { left: 0, .. } | Run::Packed { left: 0, .. } => self.load()?,
                Run::Repeat { value, left } => {
                    let count = max.min(*left);
                    *left -= count;
                    return Ok(Piece::Repeat { value: *value, count });
                }
                Run::Packed { start, next, left } => {
                    let count = max.min(*left);
                    let first = *next;
                    *left -= count;
                    *next += count;
                    let data = &self.data[*start..];
                    return Ok(Piece::Packed { data, start: first, count });
                }
            }
        }
    }

    fn load(&mut self) -> Result<()> {
        let header = self.varint()?;
        let count = (header >> 1) as usize;
        let rest = self.data.len() - self.at;
        self.run = if header & 1 == 0 {
            let bytes = self.width.div_ceil(8) as usize;
            if bytes > rest {
                return corrupt("a run's value is cut off");
            }
            // At most four bytes: fewer than a call of `memcpy` is worth.
            let stored = self.data[self.at..self.at + bytes].iter().rev();
            let value = stored.fold(0, |value, byte| value << 8 | u32::from(*byte));
            self.at += bytes;
            Run::Repeat { value, left: count }
        } else {
            let start = self.at;
            // Some writers cut the padding of the last group; what is missing cannot be read.
            let (values, bytes) = match count.checked_mul(8) {
                Some(values) if self.width == 0 => (values, 0),
                Some(values) if count.saturating_mul(self.width as usize) <= rest => {
                    (values, count * self.width as usize)
                }
                _ if self.width == 0 => return corrupt("a packed run's length overflows"),
                _ => (rest * 8 / self.width as usize, rest),
            };
            self.at += bytes;
            Run::Packed { start, next: 0, left: values }
        };
        Ok(())
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        if let Some(&byte) = self.data.get(self.at)
            && byte < 0x80
        {
            self.at += 1;
            return Ok(byte.into());
        }
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.data.get(self.at) else {
                return corrupt("a run-length sequence ends early");
            };
            self.at += 1;
            value |= ((byte & 0x7f) as u64) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        corrupt("a run header is too long")
    }

    /// The next `out.len()` values.
    pub(crate) fn read(&mut self, mut out: &mut [u32]) -> Result<()> {
        let width = self.width;
        while !out.is_empty() {
            let piece = self.next(out.len())?;
            let count = piece.count();
            match piece {
                // Most runs are short: a fixed number of stores takes less time than a loop. What is too much is
                // overwritten.
                Piece::Repeat { value, count } if count <= SHORT && out.len() >= SHORT => out[..SHORT].fill(value),
                Piece::Repeat { value, count } => out[..count].fill(value),
                Piece::Packed { data, start, count } => bitpack::unpack(data, width, start, &mut out[..count]),
            }
            out = &mut out[count..];
        }
        Ok(())
    }

    /// The next one to `max` values: as codes in `scratch`, or a long run; `max` is not zero.
    pub(crate) fn next_block(&mut self, max: usize, scratch: &mut [u32; BLOCK]) -> Result<Decoded> {
        let room = max.min(BLOCK);
        let mut filled = 0;
        while filled < room {
            if let Run::Repeat { value, left } = &mut self.run
                && (*left).min(max - filled) >= LONG
            {
                if filled > 0 {
                    break;
                }
                let count = max.min(*left);
                *left -= count;
                return Ok(Decoded::Run { value: *value, count });
            }
            let width = self.width;
            match self.run {
                Run::Repeat { left: 0, .. } | Run::Packed { left: 0, .. } => self.load()?,
                _ => match self.next(room - filled)? {
                    Piece::Repeat { value, count } if count <= SHORT && room - filled >= SHORT => {
                        scratch[filled..filled + SHORT].fill(value);
                        filled += count;
                    }
                    Piece::Repeat { value, count } => {
                        scratch[filled..filled + count].fill(value);
                        filled += count;
                    }
                    Piece::Packed { data, start, count } => {
                        bitpack::unpack(data, width, start, &mut scratch[filled..filled + count]);
                        filled += count;
                    }
                },
            }
        }
        Ok(Decoded::Codes(filled))
    }

    pub(crate) fn skip(&mut self, mut count: usize) -> Result<()> {
        while count > 0 {
            count -= self.next(count)?.count();
        }
        Ok(())
    }

    /// The values at ascending `offsets` from here, leaving the cursor behind the last one.
    pub(crate) fn pick(&mut self, offsets: &[u32], out: &mut [u32]) -> Result<()> {
        debug_assert_eq!(offsets.len(), out.len());
        let mut scratch = [0; BLOCK];
        let (mut at, mut done) = (0, 0);
        while done < offsets.len() {
            let first = offsets[done] as usize;
            self.skip(first - at)?;
            // Blocks, so that a dense selection decodes each block once, whatever its runs are.
            let near = &offsets[done..offsets.len().min(done + BLOCK)];
            let wanted = near.partition_point(|&o| (o as usize) < first + BLOCK);
            let (near, slots) = (&near[..wanted], &mut out[done..done + wanted]);
            let count = near[wanted - 1] as usize + 1 - first;
            if wanted * SPARSE > count {
                self.read(&mut scratch[..count])?;
                for (slot, &o) in slots.iter_mut().zip(near) {
                    *slot = scratch[(o as usize - first) % BLOCK];
                }
            } else {
                self.pick_sparse(first, near, slots)?;
            }
            at = first + count;
            done += wanted;
        }
        Ok(())
    }

    /// The same for `offsets` that count from `at` before here, run by run.
    fn pick_sparse(&mut self, mut at: usize, offsets: &[u32], out: &mut [u32]) -> Result<()> {
        let width = self.width;
        let end = offsets.last().map_or(at, |&last| last as usize + 1);
        let mut wanted = out.iter_mut().zip(offsets).peekable();
        while at < end {
            let piece = self.next(end - at)?;
            let stop = at + piece.count();
            while let Some((slot, &o)) = wanted.next_if(|(_, o)| (**o as usize) < stop) {
                *slot = match piece {
                    Piece::Repeat { value, .. } => value,
                    Piece::Packed { data, start, .. } => bitpack::get(data, width, start + o as usize - at),
                };
            }
            at = stop;
        }
        Ok(())
    }
}

/// A run that is worth handling by itself.
const LONG: usize = 64;

/// A short run.
const SHORT: usize = 16;

/// Values unpacked at a time: they stay in the first-level cache.
pub(crate) const BLOCK: usize = 1024;

/// Below one wanted value in this many, values are fetched one by one.
const SPARSE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 x 7, then 8 packed values 0..8 of width 3, then 2 x 1.
    fn sample() -> Hybrid {
        let data = [3 << 1, 7, 1 << 1 | 1, 0x88, 0xc6, 0xfa, 2 << 1, 1];
        Hybrid::new(Bytes::copy_from_slice(&data), 3).unwrap()
    }

    const VALUES: [u32; 13] = [7, 7, 7, 0, 1, 2, 3, 4, 5, 6, 7, 1, 1];

    #[test]
    fn reads_any_split() {
        for cut in 0..=13 {
            let mut out = [0; 13];
            let mut hybrid = sample();
            hybrid.read(&mut out[..cut]).unwrap();
            hybrid.read(&mut out[cut..]).unwrap();
            assert_eq!(out, VALUES);
            let mut hybrid = sample();
            hybrid.skip(cut).unwrap();
            let mut out = vec![0; 13 - cut];
            hybrid.read(&mut out).unwrap();
            assert_eq!(out, VALUES[cut..]);
        }
        assert!(sample().skip(14).is_err());
    }

    #[test]
    fn blocks_and_long_runs() {
        // 5 x 1, 300 x 2, 8 packed, 64 x 3, 63 x 0.
        let data = [5 << 1, 1, 0xd8, 4, 2, 3, 0b10_01_00_11, 0b11_10_01_00, 0x80, 1, 3, 63 << 1, 0];
        let packed = [3, 0, 1, 2, 0, 1, 2, 3];
        let runs = [vec![1; 5], vec![2; 300], packed.to_vec(), vec![3; 64], vec![0; 63]];
        let expected = runs.concat();
        for max in 1..=expected.len() {
            let mut hybrid = Hybrid::new(Bytes::copy_from_slice(&data), 2).unwrap();
            let (mut read, mut scratch) = (vec![], [9; BLOCK]);
            while read.len() < expected.len() {
                let max = max.min(expected.len() - read.len());
                match hybrid.next_block(max, &mut scratch).unwrap() {
                    Decoded::Run { value, count } => {
                        assert!((LONG..=max).contains(&count));
                        read.extend(std::iter::repeat_n(value, count));
                    }
                    Decoded::Codes(count) => {
                        assert!((1..=max).contains(&count));
                        read.extend(&scratch[..count]);
                    }
                }
            }
            assert_eq!(read, expected);
            assert!(hybrid.next_block(1, &mut scratch).is_err());
        }
    }

    #[test]
    fn picks_any_subset() {
        for set in 0u32..1 << 13 {
            let offsets: Vec<u32> = (0..13).filter(|i| set >> i & 1 == 1).collect();
            let mut out = vec![0; offsets.len()];
            sample().pick(&offsets, &mut out).unwrap();
            let expected: Vec<u32> = offsets.iter().map(|&o| VALUES[o as usize]).collect();
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn lies_are_errors_or_cheap() {
        let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2];
        for width in [0, 1, 7, 32] {
            for start in 0..huge.len() {
                let data = Bytes::copy_from_slice(&huge[start..]);
                let mut hybrid = Hybrid::new(data, width).unwrap();
                let _ = hybrid.read(&mut [0; 100]);
                let _ = hybrid.skip(1 << 40);
            }
        }
        assert!(Hybrid::new(Bytes::new(), 33).is_err());
    }
}
