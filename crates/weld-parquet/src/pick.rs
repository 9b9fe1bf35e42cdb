//! The values of a page at chosen places, without decoding those between where the encoding lets that be.
//!
//! ```text
//! PLAIN, BYTE_STREAM_SPLIT    each value is where its number says: loads
//! RLE_DICTIONARY              blocks of codes, or single codes where few are wanted; their values then
//! DELTA_*                     all deltas or lengths are added up, wanted values are written
//! ```

use arrow::array::BooleanBufferBuilder;
use bytes::Bytes;

use crate::batch::Data;
use crate::delta::Delta;
use crate::dictionary::Dictionary;
use crate::error::{Result, corrupt};
use crate::levels::Validity;
use crate::pool::{Block, Plain};
use crate::target::{Convert, Stored, Target};
use crate::values::{Values, take};

impl Values {
    /// Writes the values at ascending `offsets` from here to the slots from `at` on, as
    /// [`Self::read`] does, and stops behind the last of them.
    pub(crate) fn pick(
        &mut self,
        offsets: &[u32],
        target: &Target,
        dictionary: Option<&Dictionary>,
        validity: &Validity,
        data: &mut Data,
        at: usize,
    ) -> Result<()> {
        let Some(&last) = offsets.last() else {
            // Bits are appended, for rows without a value too.
            return self.read(0, target, dictionary, validity, data, at);
        };
        let passed = last as usize + 1;
        let len = target.plain_len_min();
        match (&mut *self, &mut *data) {
            (Values::Codes(codes), data) => {
                let Some(dictionary) = dictionary else {
                    return corrupt("codes without a dictionary");
                };
                let mut picked = vec![0; offsets.len()];
                codes.pick(offsets, &mut picked)?;
                dictionary.gather(&picked, data, at)
            }
            (Values::Plain { body, at: from }, Data::Fixed(block)) => {
                let stored = take(body, from, passed, len)?;
                if target.convert == Convert::Same {
                    gather(stored, len, offsets, &mut block.as_mut()[at * len..]);
                } else {
                    let mut picked = vec![0; offsets.len() * len];
                    gather(stored, len, offsets, &mut picked);
                    target.convert.apply(&picked, len, block, at);
                }
                Ok(())
            }
            (Values::Split { body, at: from }, Data::Fixed(block)) => {
                let stored = pick_split(body, *from, passed, len, offsets)?;
                *from += passed;
                target.convert.apply(&stored, len, block, at);
                Ok(())
            }
            (Values::Delta(delta), Data::Fixed(block)) => pick_delta(delta, offsets, target, block, at),
            (Values::Strings(strings), Data::Views(views)) => {
                strings.pick(offsets, target.stored == Stored::Bytes { utf8: true }, views, at)
            }
            (_, Data::Bits(bits)) => {
                let mut dense = BooleanBufferBuilder::new(offsets.len());
                self.pick_bits(offsets, &mut dense)?;
                validity.spread_bits(&dense.finish(), at, bits);
                Ok(())
            }
            _ => {
                let (mut here, mut slot) = (0, at);
                for run in offsets.chunk_by(|a, b| a + 1 == *b) {
                    let start = run[0] as usize;
                    self.skip(start - here, target)?;
                    self.read(run.len(), target, dictionary, validity, data, slot)?;
                    here = start + run.len();
                    slot += run.len();
                }
                Ok(())
            }
        }
    }

    fn pick_bits(&mut self, offsets: &[u32], dense: &mut BooleanBufferBuilder) -> Result<()> {
        let Some(&last) = offsets.last() else {
            return Ok(());
        };
        match self {
            Values::Bits { body, at } => {
                if *at + last as usize >= body.len() * 8 {
                    return corrupt("a page has fewer booleans than it says");
                }
                for &offset in offsets {
                    let bit = *at + offset as usize;
                    dense.append(body[bit / 8] >> (bit % 8) & 1 == 1);
                }
                *at += last as usize + 1;
                Ok(())
            }
            Values::BitRuns(runs) => {
                let mut picked = vec![0; offsets.len()];
                runs.pick(offsets, &mut picked)?;
                picked.iter().for_each(|&bit| dense.append(bit != 0));
                Ok(())
            }
            _ => corrupt("a page of another type than its column"),
        }
    }
}

/// Values of `len` bytes at `offsets`, to the front of `out`.
fn gather(stored: &[u8], len: usize, offsets: &[u32], out: &mut [u8]) {
    match len {
        4 => gather_fixed::<4>(stored, offsets, out),
        8 => gather_fixed::<8>(stored, offsets, out),
        _ => {
            for (slot, &offset) in out.chunks_exact_mut(len).zip(offsets) {
                slot.copy_from_slice(&stored[offset as usize * len..][..len]);
            }
        }
    }
}

/// The same with the width known.
fn gather_fixed<const N: usize>(stored: &[u8], offsets: &[u32], out: &mut [u8]) {
    let values = stored.as_chunks::<N>().0;
    for (slot, &offset) in out.as_chunks_mut::<N>().0.iter_mut().zip(offsets) {
        *slot = values[offset as usize];
    }
}

/// Values of `len` bytes at `offsets` from value `from` on, each put together from its streams. `passed` are to be
/// there.
fn pick_split(body: &Bytes, from: usize, passed: usize, len: usize, offsets: &[u32]) -> Result<Vec<u8>> {
    let total = body.len() / len;
    if passed > total || from > total - passed {
        return corrupt("a page has fewer values than it says");
    }
    let mut out = vec![0; offsets.len() * len];
    match len {
        4 => gather_split::<4>(&body[from..], total, offsets, &mut out),
        8 => gather_split::<8>(&body[from..], total, offsets, &mut out),
        _ => {
            for (k, stream) in body.chunks_exact(total).enumerate() {
                let stream = &stream[from..from + passed];
                for (byte, &offset) in out[k..].iter_mut().step_by(len).zip(offsets) {
                    *byte = stream[offset as usize];
                }
            }
        }
    }
    Ok(out)
}

/// The same with the width known: a value is put together in a register.
fn gather_split<const N: usize>(body: &[u8], total: usize, offsets: &[u32], out: &mut [u8]) {
    let streams: [&[u8]; N] = std::array::from_fn(|k| &body[k * total..]);
    for (value, &offset) in out.as_chunks_mut::<N>().0.iter_mut().zip(offsets) {
        *value = std::array::from_fn(|k| streams[k][offset as usize]);
    }
}

fn pick_delta(delta: &mut Delta, offsets: &[u32], target: &Target, block: &mut Block, at: usize) -> Result<()> {
    let to = at..at + offsets.len();
    match (target.plain_len_min(), target.convert) {
        (4, Convert::Same) => delta.pick(offsets, &mut block.as_mut_slice::<u32>()[to], |v| v as u32),
        (8, Convert::Same) => delta.pick(offsets, &mut block.as_mut_slice::<u64>()[to], |v| v),
        (len, convert) => {
            let mut wide = vec![0; offsets.len()];
            delta.pick(offsets, &mut wide, |v| v)?;
            convert.apply(&stored(&wide, len), len, block, at);
            Ok(())
        }
    }
}

/// The lowest `len` bytes of each number.
pub(crate) fn stored(wide: &[u64], len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(wide.len() * len);
    wide.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()[..len]));
    out
}

/// Where unpacked values are picked from; a power of two.
const WINDOW: usize = 256;

impl Delta {
    /// The values at ascending `offsets` from here, each passed through `narrow`; stops behind the last of them.
    fn pick<T: Plain>(&mut self, offsets: &[u32], out: &mut [T], narrow: impl Fn(u64) -> T) -> Result<()> {
        let mut window = [T::default(); WINDOW];
        let (mut at, mut done) = (0, 0);
        while done < offsets.len() {
            let first = offsets[done] as usize;
            self.skip(first - at)?;
            let near = &offsets[done..offsets.len().min(done + WINDOW)];
            let wanted = near.partition_point(|&o| (o as usize) < first + WINDOW);
            let count = near[wanted - 1] as usize + 1 - first;
            self.read(&mut window[..count], &narrow)?;
            for (slot, &o) in out[done..done + wanted].iter_mut().zip(near) {
                *slot = window[(o as usize - first) % WINDOW];
            }
            at = first + count;
            done += wanted;
        }
        Ok(())
    }
}
