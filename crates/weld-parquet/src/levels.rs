//! Definition levels of a column without repetition, which are its validity bitmap in another wrapping: width-1 hybrid
//! runs, whose packed runs are Arrow's bit order already. Levels of a struct's field are wider: a row has a value where
//! its level is the highest, and packed runs become such bits when they are entered.
//!
//! ```text
//! runs   4 x 1 | packed 0b10110010 | 3 x 0     ->   words 0b000_10110010_1111: one pass, whatever the runs are
//! rows 2, 5 and 8 of these                     ->   bits 1, 1, 1; values number 2, 4 and 5: ones before each row
//! ```
//!
//! Runs are short where nulls are scattered (ten rows with 5 % of nulls, and DuckDB writes a run for each of them), so
//! nothing but [`Levels::decode`] looks at runs: it makes words of bits, and all else counts bits in words. A batch
//! without nulls has no bitmap; a run that covers all rows that are asked for takes no pass at all.

use std::ops::Range;

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use bytes::Bytes;

use crate::bitmap::{Bits, low};
use crate::bitpack;
use crate::error::{Result, corrupt};
use crate::pool::Plain;
use crate::spread::{spread, spread_bytes, spread_word};

/// The cursor over a page's definition levels.
#[derive(Debug)]
pub(crate) struct Levels {
    data: Bytes,
    at: usize,
    /// The level of a row with a value.
    max: u8,
    run: Run,
    /// The current packed run as bits, if levels are wider than that.
    packed: Bits,
    /// The bits of rows among which some are picked, and how many are set before each word.
    bits: Bits,
    ranks: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    Repeat {
        bit: bool,
        left: usize,
    },
    /// From bit `next` of the data on, or of `packed`.
    Packed {
        next: usize,
        left: usize,
    },
}

impl Levels {
    /// Levels of which the highest, that of a value, is `max`.
    pub(crate) fn new(data: Bytes, max: u8) -> Self {
        let run = Run::Repeat { bit: true, left: 0 };
        Self { data, at: 0, max, run, packed: Bits::default(), bits: Bits::default(), ranks: vec![] }
    }

    /// Whether a level takes more than a bit.
    fn is_wide(&self) -> bool {
        self.max > 1
    }

    /// Appends `rows` bits to `validity`; returns how many are set.
    pub(crate) fn read(&mut self, rows: usize, validity: &mut Validity) -> Result<usize> {
        if self.pass_present(rows)? {
            validity.append_present(rows);
            return Ok(rows);
        }
        let from = validity.len;
        self.decode(rows, validity.materialise(rows))?;
        Ok(validity.grown(from))
    }

    /// Passes over `rows` levels; returns how many values they stand for.
    pub(crate) fn skip(&mut self, rows: usize) -> Result<usize> {
        let (mut left, mut present) = (rows, 0);
        while left > 0 {
            if let Run::Repeat { bit, left: run } = &mut self.run
                && *run > 0
            {
                let count = left.min(*run);
                *run -= count;
                left -= count;
                present += if *bit { count } else { 0 };
            } else {
                let now = left.min(WINDOW);
                present += self.decode_apart(now)?;
                left -= now;
            }
        }
        Ok(present)
    }

    /// For rows at ascending `offsets` from here: appends their bits to `validity` and turns the offsets into those of
    /// their values, where present. Returns how many values all levels up to the last offset stand for.
    pub(crate) fn pick(&mut self, offsets: &mut Vec<u32>, validity: &mut Validity) -> Result<usize> {
        let (mut row, mut present) = (0, 0);
        let (mut done, mut kept) = (0, 0);
        while let Some(&first) = offsets.get(done) {
            present += self.skip(first as usize - row)?;
            row = first as usize;
            let wanted = offsets[done..].len().min(WINDOW);
            let wanted = offsets[done..done + wanted].partition_point(|&o| (o as usize) < row + WINDOW);
            let rows = offsets[done + wanted - 1] as usize + 1 - row;
            let window = done..done + wanted;
            if self.pass_present(rows)? {
                // The values follow each other as the rows do.
                let absent = (row - present) as u32;
                for i in window {
                    offsets[kept] = offsets[i] - absent;
                    kept += 1;
                }
                validity.append_present(wanted);
                present += rows;
            } else {
                let ones = self.decode_apart(rows)?;
                let from = validity.len;
                let before = Before { row: row as u32, values: present as u32 };
                let picked = validity.materialise(wanted);
                kept = pick_bits(offsets, window, kept, before, self.bits.words(), &mut self.ranks, picked);
                validity.grown(from);
                present += ones;
            }
            row += rows;
            done += wanted;
        }
        offsets.truncate(kept);
        Ok(present)
    }

    /// Takes the next `rows` levels, at most [`WINDOW`], into `bits`; returns how many are set.
    fn decode_apart(&mut self, rows: usize) -> Result<usize> {
        let mut bits = std::mem::take(&mut self.bits);
        bits.clear();
        let decoded = self.decode(rows, &mut bits);
        self.bits = bits;
        decoded.map(|()| self.bits.ones_from(0))
    }

    /// Passes over `rows` levels if they are known to be present without a look at each.
    fn pass_present(&mut self, rows: usize) -> Result<bool> {
        if let Run::Repeat { left: 0, .. } | Run::Packed { left: 0, .. } = self.run
            && rows > 0
        {
            self.load()?;
        }
        match &mut self.run {
            Run::Repeat { bit: true, left } if *left >= rows => {
                *left -= rows;
                Ok(true)
            }
            _ => Ok(rows == 0),
        }
    }

    /// Appends the next `rows` levels to `bits`.
    fn decode(&mut self, rows: usize, bits: &mut Bits) -> Result<()> {
        let (mut left, wide) = (rows, self.is_wide());
        while left > 0 {
            match &mut self.run {
                Run::Repeat { left: 0, .. } | Run::Packed { left: 0, .. } if wide => self.load()?,
                Run::Repeat { left: 0, .. } | Run::Packed { left: 0, .. } => {
                    let (passed, word, n) = short_runs(&self.data[self.at..], left.min(64));
                    bits.push_word(word, n);
                    left -= n;
                    self.at += passed;
                    if n == 0 {
                        self.load()?;
                    }
                }
                Run::Repeat { bit, left: run } => {
                    let count = left.min(*run);
                    *run -= count;
                    bits.push_n(count, *bit);
                    left -= count;
                }
                Run::Packed { next, left: run } => {
                    let count = left.min(*run);
                    match wide {
                        true => bits.push_bits(&self.packed, *next, count),
                        false => bits.push_packed(&self.data, *next, count),
                    }
                    *next += count;
                    *run -= count;
                    left -= count;
                }
            }
        }
        Ok(())
    }

    /// Enters the next run.
    fn load(&mut self) -> Result<()> {
        let header = varint(&self.data, &mut self.at)?;
        let count = (header >> 1) as usize;
        self.run = if header & 1 == 0 {
            let bit = match self.data.get(self.at) {
                Some(&value) if value <= self.max => value == self.max,
                Some(value) => return corrupt(format!("definition level {value}, where the highest is {}", self.max)),
                None => return corrupt("a run's value is cut off"),
            };
            self.at += 1;
            Run::Repeat { bit, left: count }
        } else if self.is_wide() {
            self.load_wide(count)
        } else {
            // Some writers cut the padding of the last group; what is missing cannot be read.
            let bytes = count.min(self.data.len() - self.at);
            let next = self.at * 8;
            self.at += bytes;
            Run::Packed { next, left: bytes * 8 }
        };
        Ok(())
    }
}

impl Levels {
    /// Enters a packed run of `groups` groups of eight levels, each of several bits. Levels that do not exist are not
    /// told from padding, which is anything.
    fn load_wide(&mut self, groups: usize) -> Run {
        let width = (u8::BITS - self.max.leading_zeros()) as usize;
        // As below, the padding may be missing.
        let bytes = groups.saturating_mul(width).min(self.data.len() - self.at);
        let levels = &self.data[self.at..self.at + bytes];
        let count = bytes * 8 / width;
        let max = u32::from(self.max);
        let mut word = [0; 64];
        self.packed.clear();
        for start in (0..count).step_by(word.len()) {
            let block = &mut word[..(count - start).min(64)];
            bitpack::unpack(levels, width as u8, start, block);
            let bits = block.iter().rev().fold(0, |bits, level| bits << 1 | u64::from(*level == max));
            self.packed.push_word(bits, block.len());
        }
        self.at += bytes;
        Run::Packed { next: 0, left: count }
    }
}

/// Rows picked among at a time: their bits stay in the first-level cache, whatever a run claims to hold.
const WINDOW: usize = 1 << 14;

/// The bits of as many whole runs at the front of `data` as fit into `room` bits, at most 64, as long as their headers
/// take a byte: those of scattered nulls. Returns the bytes passed, the bits and how many they are.
#[inline]
fn short_runs(data: &[u8], room: usize) -> (usize, u64, usize) {
    let (mut at, mut word, mut n) = (0, 0, 0);
    while let Some(&[header, value]) = data.get(at..at + 2).and_then(<[u8]>::first_chunk) {
        let packed = header & 1 == 1;
        let count = if packed { 8 } else { usize::from(header >> 1) };
        // A packed run of one group, or a repetition.
        let short = if packed { header == 3 } else { header < 0x80 && value <= 1 };
        if !short || count > room - n || n == 64 {
            break;
        }
        let bits = if packed { u64::from(value) } else { u64::from(value).wrapping_neg() & low(count) };
        word |= bits << n;
        n += count;
        at += 2;
    }
    (at, word, n)
}

/// What stands before a window of words.
#[derive(Clone, Copy)]
struct Before {
    row: u32,
    values: u32,
}

/// For the offsets in `window`, whose rows stand in `words`: appends their bits to `picked`, and writes the numbers of
/// the values of those that are set to `offsets[kept..]`; returns how many offsets are kept then. `ranks` is scratch.
fn pick_bits(
    offsets: &mut [u32],
    window: Range<usize>,
    kept: usize,
    before: Before,
    words: &[u64],
    ranks: &mut Vec<u32>,
    picked: &mut Bits,
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2") {
        // SAFETY: the CPU has the features.
        return unsafe { pick_bits_bmi(offsets, window, kept, before, words, ranks, picked) };
    }
    pick_bits_portable(offsets, window, kept, before, words, ranks, picked)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,bmi1,bmi2")]
fn pick_bits_bmi(
    offsets: &mut [u32],
    window: Range<usize>,
    kept: usize,
    before: Before,
    words: &[u64],
    ranks: &mut Vec<u32>,
    picked: &mut Bits,
) -> usize {
    pick_bits_portable(offsets, window, kept, before, words, ranks, picked)
}

#[inline(always)]
fn pick_bits_portable(
    offsets: &mut [u32],
    window: Range<usize>,
    mut kept: usize,
    before: Before,
    words: &[u64],
    ranks: &mut Vec<u32>,
    picked: &mut Bits,
) -> usize {
    let mut present = before.values;
    ranks.clear();
    ranks.extend(words.iter().map(|word| {
        let rank = present;
        present += word.count_ones();
        rank
    }));
    for start in window.clone().step_by(64) {
        let stop = (start + 64).min(window.end);
        let mut valid = 0;
        for i in start..stop {
            let row = offsets[i] - before.row;
            let (index, bit) = (row as usize / 64, row % 64);
            let word = words[index];
            let set = word >> bit & 1;
            valid |= set << (i - start);
            // Never ahead of what is read: at most one is kept for each.
            offsets[kept] = ranks[index] + (word & ((1 << bit) - 1)).count_ones();
            kept += set as usize;
        }
        picked.push_word(valid, stop - start);
    }
    kept
}

fn varint(data: &[u8], at: &mut usize) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let Some(&byte) = data.get(*at) else {
            return corrupt("definition levels end early");
        };
        *at += 1;
        value |= ((byte & 0x7f) as u64) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    corrupt("a run header is too long")
}

/// A validity bitmap under construction; absent until the first null may come.
#[derive(Debug, Default)]
pub(crate) struct Validity {
    len: usize,
    nulls: usize,
    bits: Option<Bits>,
}

impl Validity {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn has_nulls(&self) -> bool {
        self.nulls > 0
    }

    /// Appends `count` rows that have values.
    pub(crate) fn append_present(&mut self, count: usize) {
        if let Some(bits) = &mut self.bits {
            bits.push_n(count, true);
        }
        self.len += count;
    }

    fn materialise(&mut self, more: usize) -> &mut Bits {
        self.bits.get_or_insert_with(|| {
            let mut bits = Bits::default();
            bits.reserve(self.len + more);
            bits.push_n(self.len, true);
            bits
        })
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self) {
        (self.len, self.nulls) = (0, 0);
        self.bits = None;
    }

    /// Takes note of the bits that were appended from `from` on; returns how many of them are set.
    fn grown(&mut self, from: usize) -> usize {
        let Some(bits) = &self.bits else { return 0 };
        let present = bits.ones_from(from);
        self.len = bits.len();
        self.nulls += self.len - from - present;
        present
    }

    /// Spreads `present` values that stand at `slots[from..]` to the valid rows from `from` on;
    /// the others become `absent`.
    pub(crate) fn spread<T: Plain>(&self, slots: &mut [T], from: usize, present: usize, absent: T) {
        if let Some(bits) = &self.bits {
            spread(&mut slots[from..self.len], bits, from, present, absent);
        }
    }

    /// The same for elements of any number of bytes; absent ones become zeros.
    pub(crate) fn spread_bytes(&self, slots: &mut [u8], width: usize, from: usize, present: usize) {
        if let Some(bits) = &self.bits {
            spread_bytes(&mut slots[from * width..self.len * width], width, bits, from, present);
        }
    }

    /// The same for bits: a bitmap of the rows from `from` on, from the dense `bits` of the valid ones.
    pub(crate) fn spread_bits(&self, dense: &BooleanBuffer, from: usize, out: &mut BooleanBufferBuilder) {
        let Some(valid) = &self.bits else { return out.append_buffer(dense) };
        let mut source = Bits::default();
        source.push_packed(dense.values(), dense.offset(), dense.len());
        let mut next = 0;
        for row in (from..self.len).step_by(64) {
            let rows = (self.len - row).min(64);
            let mask = valid.word(row) & low(rows);
            let word = spread_word(source.word(next), mask);
            out.append_packed_range(0..rows, &word.to_le_bytes());
            next += mask.count_ones() as usize;
        }
    }

    pub(crate) fn finish(self) -> Option<NullBuffer> {
        let bits = self.bits.filter(|_| self.nulls > 0)?;
        Some(NullBuffer::new(bits.into_buffer()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 valid, 8 packed (0b10110010, low bit first), 3 null.
    fn sample() -> Levels {
        Levels::new(Bytes::copy_from_slice(&[4 << 1, 1, 1 << 1 | 1, 0b1011_0010, 3 << 1, 0]), 1)
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
        validity.spread(&mut slots, 4, 4, 0);
        assert_eq!(slots, [1, 2, 3, 4, 0, 5, 0, 0, 6, 7, 0, 8, 0, 0, 0]);
        let nulls = validity.finish().unwrap();
        assert_eq!(nulls.iter().collect::<Vec<_>>(), VALID);
    }

    #[test]
    fn picks_any_subset() {
        for set in 0u32..1 << 15 {
            let offsets: Vec<u32> = (0..15).filter(|i| set >> i & 1 == 1).collect();
            let (mut validity, mut values) = (Validity::default(), offsets.clone());
            let rank = |o: u32| VALID[..o as usize].iter().filter(|v| **v).count() as u32;
            let passed = sample().pick(&mut values, &mut validity).unwrap();
            assert_eq!(passed as u32, offsets.last().map_or(0, |&o| rank(o + 1)));
            let expected: Vec<u32> = offsets.iter().filter(|&&o| VALID[o as usize]).map(|&o| rank(o)).collect();
            assert_eq!(values, expected);
            assert_eq!(validity.len(), offsets.len());
        }
    }

    struct Rng(u64);

    impl Rng {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % n
        }
    }

    /// Levels up to `max` in runs of both kinds and of all lengths, and what they mean.
    fn random(rng: &mut Rng, rows: usize, max: u8) -> (Levels, Vec<bool>) {
        let mut next = |n: u64| rng.below(n);
        let longest: u64 = [3, 12, 70, 300, 40_000][next(5) as usize];
        let (mut data, mut expected) = (vec![], vec![]);
        while expected.len() < rows {
            let packed = next(3) == 0;
            let count = 1 + next(if packed { longest.div_ceil(8).min(40) } else { longest });
            let mut header = count << 1 | u64::from(packed);
            while header >= 0x80 {
                data.push(header as u8 | 0x80);
                header >>= 7;
            }
            data.push(header as u8);
            if packed {
                let width = u8::BITS - max.leading_zeros();
                for _ in 0..count {
                    let kind = next(4);
                    let levels = [(); 8].map(|()| [0, max, next(u64::from(max) + 1) as u8][kind.min(2) as usize]);
                    let group = levels.iter().rev().fold(0u64, |group, level| group << width | u64::from(*level));
                    data.extend(&group.to_le_bytes()[..width as usize]);
                    expected.extend(levels.map(|level| level == max));
                }
            } else {
                let level = [max, next(u64::from(max) + 1) as u8][next(2) as usize];
                data.push(level);
                expected.extend(std::iter::repeat_n(level == max, count as usize));
            }
        }
        (Levels::new(Bytes::from(data), max), expected)
    }

    /// Reads, skips and picks in turn, whatever the runs are.
    #[test]
    fn every_mixture_of_runs_agrees() {
        for seed in 0..300u64 {
            let mut rng = Rng(seed);
            let rows = [200, 3000, 50_000][seed as usize % 3];
            let (mut levels, expected) = random(&mut rng, rows, [1, 1, 2, 3, 4, 100][seed as usize % 6]);
            let mut next = |n: usize| rng.below(n as u64) as usize;
            let (mut row, mut validity, mut bits) = (0, Validity::default(), vec![]);
            while row < rows {
                let most = [10, 100, 5000, 40_000][next(4)];
                let count = (1 + next(most)).min(rows - row);
                let here = &expected[row..row + count];
                let ones = here.iter().filter(|bit| **bit).count();
                match next(3) {
                    0 => {
                        assert_eq!(levels.read(count, &mut validity).unwrap(), ones);
                        bits.extend(here);
                    }
                    1 => assert_eq!(levels.skip(count).unwrap(), ones),
                    _ => {
                        let every = [1, 2, 10, 3000][next(4)];
                        let mut offsets: Vec<u32> = (0..count as u32).filter(|_| next(every) == 0).collect();
                        let last = offsets.last().map_or(0, |&last| last as usize + 1);
                        let mut rank = 0;
                        let mut ranks = vec![];
                        for &bit in here {
                            ranks.push((bit, rank));
                            rank += u32::from(bit);
                        }
                        let wanted: Vec<(bool, u32)> = offsets.iter().map(|&o| ranks[o as usize]).collect();
                        let passed = levels.pick(&mut offsets, &mut validity).unwrap();
                        assert_eq!(passed, here[..last].iter().filter(|bit| **bit).count());
                        let values: Vec<u32> = wanted.iter().filter(|(bit, _)| *bit).map(|(_, rank)| *rank).collect();
                        assert_eq!(offsets, values);
                        bits.extend(wanted.iter().map(|(bit, _)| bit));
                        levels.skip(count - last).unwrap();
                    }
                }
                assert_eq!(validity.len(), bits.len());
                row += count;
            }
            let has_nulls = validity.has_nulls();
            match validity.finish() {
                Some(nulls) => assert!(has_nulls && nulls.iter().eq(bits.iter().copied())),
                None => assert!(!has_nulls && bits.iter().all(|bit| *bit)),
            }
        }
    }

    /// A run of four billion rows costs no memory, wherever rows are picked from it.
    #[test]
    fn long_runs_are_not_materialised() {
        let data = [0xfe, 0xff, 0xff, 0xff, 0x1f, 0, 0xfe, 0xff, 0xff, 0xff, 0x1f, 1];
        let mut levels = Levels::new(Bytes::copy_from_slice(&data), 1);
        let (mut validity, mut offsets) = (Validity::default(), vec![5, 4_000_000_000, 4_294_967_294]);
        assert_eq!(levels.pick(&mut offsets, &mut validity).unwrap(), 0);
        assert!(offsets.is_empty() && levels.bits.words().len() <= WINDOW / 64);
        let mut offsets = vec![5, 4_000_000_000];
        assert_eq!(levels.pick(&mut offsets, &mut validity).unwrap(), 4_000_000_001);
        assert_eq!(offsets, [5, 4_000_000_000]);
        assert!(levels.skip(1 << 40).is_err());
    }

    #[test]
    fn damage_is_an_error() {
        for data in [&[][..], &[8], &[8, 2], &[0xff; 20], &[0x80], &[3]] {
            let mut levels = Levels::new(Bytes::copy_from_slice(data), 1);
            assert!(levels.read(100, &mut Validity::default()).is_err(), "{data:?}");
            assert!(Levels::new(Bytes::copy_from_slice(data), 1).skip(100).is_err(), "{data:?}");
        }
        // A level above the highest, and runs that are cut off.
        for data in [&[][..], &[8], &[8, 4], &[0xff; 20], &[0x80], &[3], &[3, 0]] {
            let mut levels = Levels::new(Bytes::copy_from_slice(data), 3);
            assert!(levels.read(100, &mut Validity::default()).is_err(), "{data:?}");
        }
    }
}
