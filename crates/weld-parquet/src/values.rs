//! The values of one data page, in whatever encoding, read in order or at chosen places.

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use bytes::Bytes;
use parquet::basic::Encoding;

use crate::batch::Data;
use crate::delta::Delta;
use crate::dictionary::Dictionary;
use crate::error::{Result, corrupt, unsupported};
use crate::hybrid_rle::{BLOCK, Decoded, Hybrid, Piece};
use crate::levels::Validity;
use crate::pick::stored;
use crate::strings::Strings;
use crate::target::{Convert, Stored, Target};

/// A cursor over the present values of a page.
#[derive(Debug)]
pub(crate) enum Values {
    /// Codes into the chunk's dictionary.
    Codes(Hybrid),
    Plain {
        body: Bytes,
        at: usize,
    },
    /// BYTE_STREAM_SPLIT: first bytes of all values, then second bytes, ...
    Split {
        body: Bytes,
        at: usize,
    },
    Delta(Box<Delta>),
    /// Booleans, one bit each, or as runs.
    Bits {
        body: Bytes,
        at: usize,
    },
    BitRuns(Hybrid),
    Strings(Strings),
}

impl Target {
    /// The fewest bytes that a PLAIN value takes; zero for bits.
    pub(crate) fn plain_len_min(&self) -> usize {
        match self.stored {
            Stored::Bits => 0,
            Stored::Fixed(len) => len,
            Stored::Bytes { .. } => 4,
        }
    }
}

impl Values {
    pub(crate) fn plain(target: &Target, body: Bytes) -> Self {
        match target.stored {
            Stored::Bits => Values::Bits { body, at: 0 },
            Stored::Fixed(_) => Values::Plain { body, at: 0 },
            Stored::Bytes { .. } => Values::Strings(Strings::plain(body)),
        }
    }

    /// Whether [`Self::new`] has a cursor for values in `encoding`.
    pub(crate) fn check_supported(encoding: Encoding, target: &Target) -> Result<()> {
        let supported = match (encoding, target.stored) {
            (Encoding::PLAIN, _) => true,
            (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, stored) => stored != Stored::Bits,
            (Encoding::RLE, stored) => stored == Stored::Bits,
            (Encoding::BYTE_STREAM_SPLIT, Stored::Fixed(_)) => !matches!(target.convert, Convert::JulianDay(_)),
            (Encoding::DELTA_BINARY_PACKED, Stored::Fixed(4 | 8)) => target.is_integer(),
            (Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY, Stored::Bytes { .. }) => true,
            (Encoding::DELTA_BYTE_ARRAY, Stored::Fixed(_)) => target.is_opaque(),
            _ => false,
        };
        if supported { Ok(()) } else { unsupported(format!("{encoding} of {}", target.data_type())) }
    }

    /// The cursor for a data page's values section.
    pub(crate) fn new(encoding: Encoding, target: &Target, body: Bytes) -> Result<Self> {
        Self::check_supported(encoding, target)?;
        Ok(match (encoding, target.stored) {
            (Encoding::PLAIN, _) => Self::plain(target, body),
            // No values at all: there is not even a width.
            (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, _) if body.is_empty() => {
                Values::Codes(Hybrid::new(body, 0)?)
            }
            (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, Stored::Fixed(_) | Stored::Bytes { .. }) => {
                Values::Codes(Hybrid::new(body.slice(1..), body[0])?)
            }
            (Encoding::RLE, Stored::Bits) => match length_prefixed(&body) {
                Some((runs, _)) => Values::BitRuns(Hybrid::new(runs, 1)?),
                None if body.is_empty() => Values::BitRuns(Hybrid::new(body, 1)?),
                None => return corrupt("boolean runs reach past their page"),
            },
            (Encoding::BYTE_STREAM_SPLIT, Stored::Fixed(len)) => {
                if !body.len().is_multiple_of(len) {
                    return corrupt("split streams of different lengths");
                }
                Values::Split { body, at: 0 }
            }
            (Encoding::DELTA_BINARY_PACKED, Stored::Fixed(len @ (4 | 8))) if target.is_integer() => {
                if body.is_empty() {
                    return Ok(Values::Plain { body, at: 0 });
                }
                Values::Delta(Box::new(Delta::new(body, len as u8 * 8)?))
            }
            (Encoding::DELTA_LENGTH_BYTE_ARRAY, Stored::Bytes { .. }) => Values::Strings(Strings::lengths(body)?),
            (Encoding::DELTA_BYTE_ARRAY, _) => Values::Strings(Strings::prefixes(body)?),
            _ => return unsupported(format!("{encoding} of {}", target.data_type())),
        })
    }

    /// Writes the next `count` values to the slots from `at` on, next to each other. Bits are
    /// appended instead, already spread over the rows of `validity` from `at` on.
    pub(crate) fn read(
        &mut self,
        count: usize,
        target: &Target,
        dictionary: Option<&Dictionary>,
        validity: &Validity,
        data: &mut Data,
        at: usize,
    ) -> Result<()> {
        match (self, data) {
            (Values::Codes(codes), data) => {
                if count == 0 {
                    return Ok(());
                }
                let Some(dictionary) = dictionary else {
                    return corrupt("codes without a dictionary");
                };
                if let Data::Codes(block) = data {
                    let out = &mut block.as_mut_slice::<u32>()[at..at + count];
                    codes.read(out)?;
                    return dictionary.check(out);
                }
                let mut scratch = [0; BLOCK];
                let mut done = 0;
                while done < count {
                    done += match codes.next_block(count - done, &mut scratch)? {
                        Decoded::Run { value, count } => {
                            dictionary.fill(value, count, data, at + done)?;
                            count
                        }
                        Decoded::Codes(count) => {
                            dictionary.gather(&scratch[..count], data, at + done)?;
                            count
                        }
                    };
                }
                Ok(())
            }
            (Values::Plain { body, at: from }, Data::Fixed(block)) => {
                let len = target.plain_len_min();
                let stored = take(body, from, count, len)?;
                target.convert.apply(stored, len, block, at);
                Ok(())
            }
            (Values::Split { body, at: from }, Data::Fixed(block)) => {
                let len = target.plain_len_min();
                let stored = unsplit(body, *from, count, len)?;
                *from += count;
                target.convert.apply(&stored, len, block, at);
                Ok(())
            }
            (Values::Delta(delta), Data::Fixed(block)) => match (target.plain_len_min(), target.convert) {
                (4, Convert::Same) => delta.read(&mut block.as_mut_slice::<u32>()[at..at + count], |v| v as u32),
                (8, Convert::Same) => delta.read(&mut block.as_mut_slice::<u64>()[at..at + count], |v| v),
                (len, convert) => {
                    let mut wide = vec![0; count];
                    delta.read(&mut wide, |v| v)?;
                    convert.apply(&stored(&wide, len), len, block, at);
                    Ok(())
                }
            },
            (Values::Strings(strings), Data::Fixed(block)) => {
                let len = target.plain_len_min();
                target.convert.apply(&strings.read_fixed(count, len)?, len, block, at);
                Ok(())
            }
            (Values::Strings(strings), Data::Views(views)) => {
                strings.read(count, target.stored == Stored::Bytes { utf8: true }, views, at)
            }
            (Values::Bits { body, at: from }, Data::Bits(bits)) => {
                let stop = *from + count;
                if stop > body.len() * 8 {
                    return corrupt("a page has fewer booleans than it says");
                }
                let dense = BooleanBuffer::new(body.clone().into(), *from, count);
                *from = stop;
                validity.spread_bits(&dense, at, bits);
                Ok(())
            }
            (Values::BitRuns(runs), Data::Bits(bits)) => {
                let dense = bit_runs(runs, count)?;
                validity.spread_bits(&dense, at, bits);
                Ok(())
            }
            _ => corrupt("a page of another type than its column"),
        }
    }

    /// Passes over `count` values.
    pub(crate) fn skip(&mut self, count: usize, target: &Target) -> Result<()> {
        match self {
            Values::Codes(codes) | Values::BitRuns(codes) => codes.skip(count),
            Values::Plain { body, at } => take(body, at, count, target.plain_len_min()).map(drop),
            Values::Split { at, .. } | Values::Bits { at, .. } => {
                *at += count;
                Ok(())
            }
            Values::Delta(delta) => delta.skip(count),
            Values::Strings(strings) => strings.skip(count),
        }
    }
}

impl Target {
    /// Whether this crate decodes values, or levels, in `encoding`.
    pub(crate) fn is_decodable(&self, encoding: Encoding) -> bool {
        encoding == Encoding::RLE || Values::check_supported(encoding, self).is_ok()
    }

    /// Stored as FIXED_LEN_BYTE_ARRAY rather than as a number.
    fn is_opaque(&self) -> bool {
        use arrow::datatypes::DataType::{FixedSizeBinary, Float16};
        matches!(self.convert, Convert::BigEndian(_)) || matches!(self.data_type(), FixedSizeBinary(_) | Float16)
    }

    fn is_integer(&self) -> bool {
        !self.data_type().is_floating() && !self.is_opaque()
    }
}

/// The content behind a four-byte length, and what follows it.
pub(crate) fn length_prefixed(body: &Bytes) -> Option<(Bytes, Bytes)> {
    let len = u32::from_le_bytes(body.get(..4)?.try_into().ok()?) as usize;
    let stop = len.checked_add(4).filter(|&stop| stop <= body.len())?;
    Some((body.slice(4..stop), body.slice(stop..)))
}

/// The bytes of the next `count` values of `len` bytes.
pub(crate) fn take<'a>(body: &'a Bytes, at: &mut usize, count: usize, len: usize) -> Result<&'a [u8]> {
    match count.checked_mul(len).and_then(|bytes| body.get(*at..at.checked_add(bytes)?)) {
        Some(stored) => {
            *at += stored.len();
            Ok(stored)
        }
        None => corrupt("a page has fewer values than it says"),
    }
}

/// Values `from .. from + count` of split streams, put together again.
fn unsplit(body: &[u8], from: usize, count: usize, len: usize) -> Result<Vec<u8>> {
    let total = body.len() / len;
    if count > total || from > total - count {
        return corrupt("a page has fewer values than it says");
    }
    let mut out = vec![0; count * len];
    match len {
        4 => unsplit_fixed::<4>(body, total, from, &mut out),
        8 => unsplit_fixed::<8>(body, total, from, &mut out),
        _ => {
            for (i, value) in out.chunks_exact_mut(len).enumerate() {
                for (k, byte) in value.iter_mut().enumerate() {
                    *byte = body[k * total + from + i];
                }
            }
        }
    }
    Ok(out)
}

/// The same with the width known, so that the inner loop is shuffles.
fn unsplit_fixed<const LEN: usize>(body: &[u8], total: usize, from: usize, out: &mut [u8]) {
    let count = out.len() / LEN;
    let streams: [&[u8]; LEN] = std::array::from_fn(|k| &body[k * total + from..k * total + from + count]);
    for (i, value) in out.chunks_exact_mut(LEN).enumerate() {
        for k in 0..LEN {
            value[k] = streams[k][i];
        }
    }
}

fn bit_runs(runs: &mut Hybrid, count: usize) -> Result<BooleanBuffer> {
    let mut dense = BooleanBufferBuilder::new(count);
    let mut left = count;
    while left > 0 {
        match runs.next(left)? {
            Piece::Repeat { value, count } => {
                dense.append_n(count, value != 0);
                left -= count;
            }
            Piece::Packed { data, start, count } => {
                dense.append_packed_range(start..start + count, data);
                left -= count;
            }
        }
    }
    Ok(dense.finish())
}
