//! Variable-length values as Arrow views, without copying them: a view points into the page.
//!
//! ```text
//! PLAIN                 <len u32> bytes <len u32> bytes ...
//! DELTA_LENGTH          lengths (delta-coded), then all bytes
//! DELTA_BYTE_ARRAY      shared-prefix lengths, suffix lengths, then all suffixes: these are rebuilt
//! ```
//!
//! UTF-8 is validated once over whole stretches of a page, not string by string: a length below 128
//! is four ASCII bytes, so a stretch that includes such lengths is valid exactly if its strings are.

use std::ops::Range;

use arrow::buffer::Buffer;
use bytes::Bytes;

use crate::delta::Delta;
use crate::error::{Result, corrupt};
use crate::pool::Block;

/// A cursor over the variable-length values of a page.
#[derive(Debug)]
pub(crate) enum Strings {
    Plain { body: Bytes, at: usize },
    Lengths { lengths: Box<Delta>, body: Bytes, at: usize },
    Prefixes { prefixes: Box<Delta>, suffixes: Box<Delta>, body: Bytes, at: usize, last: Vec<u8> },
}

/// Views under construction and the buffers that the long ones point into.
#[derive(Debug)]
pub(crate) struct Views {
    pub(crate) block: Block,
    pub(crate) buffers: Vec<Buffer>,
    /// Bytes that this batch may rebuild from prefixes.
    rebuilt_left: usize,
}

impl Views {
    pub(crate) fn new(block: Block, buffers: Vec<Buffer>, rebuilt_max: usize) -> Self {
        Self { block, buffers, rebuilt_left: rebuilt_max }
    }
}

/// The index of the buffer that holds `body`.
fn attach(buffers: &mut Vec<Buffer>, body: &Bytes) -> u32 {
    // The list keeps the page alive, so an equal address is the same page.
    match buffers.last() {
        Some(last) if last.as_ptr() == body.as_ptr() => buffers.len() as u32 - 1,
        _ => {
            buffers.push(Buffer::from(body.clone()));
            buffers.len() as u32 - 1
        }
    }
}

impl Strings {
    pub(crate) fn plain(body: Bytes) -> Self {
        Strings::Plain { body, at: 0 }
    }

    pub(crate) fn lengths(body: Bytes) -> Result<Self> {
        let lengths = Delta::new(body.clone(), 32)?;
        let at = lengths.end()?;
        Ok(Strings::Lengths { lengths: Box::new(lengths), body, at })
    }

    pub(crate) fn prefixes(body: Bytes) -> Result<Self> {
        let prefixes = Delta::new(body.clone(), 32)?;
        let middle = prefixes.end()?;
        let suffixes = Delta::new(body.slice(middle..), 32)?;
        let at = middle + suffixes.end()?;
        Ok(Strings::Prefixes { prefixes: Box::new(prefixes), suffixes: Box::new(suffixes), body, at, last: vec![] })
    }

    /// Writes `count` views to the slots from `from` on.
    pub(crate) fn read(&mut self, count: usize, utf8: bool, views: &mut Views, from: usize) -> Result<()> {
        match self {
            Strings::Plain { body, at } => read_plain(body, at, count, utf8, views, from),
            Strings::Lengths { lengths, body, at } => {
                let start = *at;
                let mut ends = Vec::with_capacity(count);
                for_each_length(lengths, count, |len| {
                    *at = end(*at, len, body.len())?;
                    ends.push(*at as u32);
                    Ok(())
                })?;
                cut(body, start, &ends, utf8, views, from)
            }
            Strings::Prefixes { .. } => {
                let mut out = vec![];
                let mut ends = Vec::with_capacity(count);
                let budget = views.rebuilt_left;
                self.rebuild(count, |value| {
                    out.extend_from_slice(value);
                    ends.push(out.len() as u32);
                    if out.len() > budget {
                        return corrupt("prefixed strings grow past the page limit");
                    }
                    Ok(())
                })?;
                views.rebuilt_left -= out.len();
                cut(&Bytes::from(out), 0, &ends, utf8, views, from)
            }
        }
    }

    /// Writes views of the values at ascending `offsets` from here to the slots from `from` on; stops behind the last.
    pub(crate) fn pick(&mut self, offsets: &[u32], utf8: bool, views: &mut Views, from: usize) -> Result<()> {
        let Some(&last) = offsets.last() else { return Ok(()) };
        let Views { block, buffers, rebuilt_left } = views;
        let mut wanted = block.as_mut_slice::<u128>()[from..from + offsets.len()].iter_mut().zip(offsets);
        match self {
            Strings::Plain { body, at } => {
                let mut here = 0;
                let mut index = None;
                // What is wanted and not yet validated, with what lies between.
                let mut unchecked = *at..*at;
                for (slot, &offset) in wanted {
                    let mut longest = 0;
                    let mut value = plain_value(body, *at)?;
                    for _ in here..offset {
                        longest = longest.max(value.len());
                        value = plain_value(body, value.end)?;
                    }
                    if utf8 && (longest.max(value.len()) >= 128 || value.start - unchecked.end > GAP_MAX) {
                        check_utf8(&body[unchecked])?;
                        unchecked = value.clone();
                    }
                    unchecked.end = value.end;
                    *at = value.end;
                    *slot = view(body, value, buffers, &mut index);
                    here = offset + 1;
                }
                if utf8 { check_utf8(&body[unchecked]) } else { Ok(()) }
            }
            Strings::Lengths { lengths, body, at } => {
                let mut next = wanted.next();
                let mut here = 0;
                let mut index = None;
                for_each_length(lengths, last as usize + 1, |len| {
                    let stop = end(*at, len, body.len())?;
                    if let Some((slot, offset)) = &mut next
                        && **offset == here
                    {
                        if utf8 {
                            check_utf8(&body[*at..stop])?;
                        }
                        **slot = view(body, *at..stop, buffers, &mut index);
                        next = wanted.next();
                    }
                    *at = stop;
                    here += 1;
                    Ok(())
                })
            }
            Strings::Prefixes { .. } => {
                let mut out = vec![];
                let mut ends = Vec::with_capacity(offsets.len());
                let mut next = offsets.iter().peekable();
                let mut here = 0;
                let budget = *rebuilt_left;
                self.rebuild(last as usize + 1, |value| {
                    if next.next_if(|offset| **offset == here).is_some() {
                        out.extend_from_slice(value);
                        ends.push(out.len() as u32);
                        if out.len() > budget {
                            return corrupt("prefixed strings grow past the page limit");
                        }
                    }
                    here += 1;
                    Ok(())
                })?;
                views.rebuilt_left -= out.len();
                cut(&Bytes::from(out), 0, &ends, utf8, views, from)
            }
        }
    }

    /// The next `count` values of a column of `len`-byte values, next to each other.
    pub(crate) fn read_fixed(&mut self, count: usize, len: usize) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(count * len);
        if count > 0 && !matches!(self, Strings::Prefixes { .. }) {
            return corrupt("a page has fewer values than it says");
        }
        self.rebuild(count, |value| match value.len() == len {
            true => {
                out.extend_from_slice(value);
                Ok(())
            }
            false => corrupt(format!("a value of {} bytes among values of {len}", value.len())),
        })?;
        Ok(out)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<()> {
        match self {
            Strings::Plain { body, at } => {
                for _ in 0..count {
                    *at = plain_value(body, *at)?.end;
                }
                Ok(())
            }
            Strings::Lengths { lengths, body, at } => for_each_length(lengths, count, |len| {
                *at = end(*at, len, body.len())?;
                Ok(())
            }),
            Strings::Prefixes { .. } => self.rebuild(count, |_| Ok(())),
        }
    }

    /// Calls `value` with each of the next values of a DELTA_BYTE_ARRAY page.
    fn rebuild(&mut self, count: usize, mut value: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Strings::Prefixes { prefixes, suffixes, body, at, last } = self else {
            return Ok(());
        };
        let mut left = count;
        while left > 0 {
            let now = left.min(CHUNK);
            let (mut shared, mut own) = ([0u32; CHUNK], [0u32; CHUNK]);
            prefixes.read(&mut shared[..now], |v| v as u32)?;
            suffixes.read(&mut own[..now], |v| v as u32)?;
            for (shared, own) in shared[..now].iter().zip(&own[..now]) {
                if *shared as usize > last.len() {
                    return corrupt("a string shares more than its predecessor has");
                }
                let stop = end(*at, *own, body.len())?;
                last.truncate(*shared as usize);
                last.extend_from_slice(&body[*at..stop]);
                *at = stop;
                value(last)?;
            }
            left -= now;
        }
        Ok(())
    }
}

/// Lengths decoded at a time.
const CHUNK: usize = 256;

/// Picked values that are so many bytes apart are validated together with the bytes between: a call for each short
/// string costs more.
const GAP_MAX: usize = 512;

fn for_each_length(lengths: &mut Delta, count: usize, mut f: impl FnMut(u32) -> Result<()>) -> Result<()> {
    let mut left = count;
    while left > 0 {
        let now = left.min(CHUNK);
        let mut buffer = [0u32; CHUNK];
        lengths.read(&mut buffer[..now], |v| v as u32)?;
        buffer[..now].iter().try_for_each(|&len| f(len))?;
        left -= now;
    }
    Ok(())
}

/// `at + len`, inside a body of `body_len`. A length is an i32: negative ones are out of range too.
#[inline]
fn end(at: usize, len: u32, body_len: usize) -> Result<usize> {
    let stop = at + len as usize;
    if len > i32::MAX as u32 || stop > body_len {
        return corrupt("a string reaches past its page");
    }
    Ok(stop)
}

/// Where the PLAIN value at `at` is.
#[inline]
fn plain_value(body: &[u8], at: usize) -> Result<Range<usize>> {
    let Some(len) = body.get(at..at + 4) else {
        return corrupt("a page has fewer strings than it says");
    };
    let start = at + 4;
    let len = u32::from_le_bytes(len.try_into().unwrap_or_default());
    Ok(start..end(start, len, body.len())?)
}

fn read_plain(body: &Bytes, at: &mut usize, count: usize, utf8: bool, views: &mut Views, from: usize) -> Result<()> {
    // Attach on the first long value only: short ones are inside their views.
    let mut index = None;
    let mut checked = *at;
    for slot in &mut views.block.as_mut_slice::<u128>()[from..from + count] {
        let Range { start, end: stop } = plain_value(body, *at)?;
        let len = stop - start;
        let buffer = match index {
            _ if len <= 12 => 0,
            Some(index) => index,
            None => *index.insert(attach(&mut views.buffers, body)),
        };
        if utf8 && len >= 128 {
            // This length's bytes need not be ASCII: validate around them.
            check_utf8(&body[checked..*at])?;
            checked = start;
        }
        *slot = make_view(body, start, stop, buffer);
        *at = stop;
    }
    if utf8 {
        check_utf8(&body[checked..*at])?;
    }
    Ok(())
}

/// The view of `bytes[start..stop]`, which lies in buffer number `buffer`, if it is long.
#[inline(always)]
fn make_view(bytes: &[u8], start: usize, stop: usize, buffer: u32) -> u128 {
    let value = &bytes[start..stop];
    let len = value.len();
    if len > 12 {
        let prefix = u32::from_le_bytes([value[0], value[1], value[2], value[3]]);
        return len as u128 | (prefix as u128) << 32 | (buffer as u128) << 64 | (start as u128) << 96;
    }
    // Sixteen bytes at once, where they are there; those behind the value are cut off.
    let inline = match bytes[start..].first_chunk::<16>() {
        Some(bytes) => u128::from_le_bytes(*bytes) & ((1 << (8 * len)) - 1),
        None => value.iter().rev().fold(0, |inline, &byte| inline << 8 | u128::from(byte)),
    };
    len as u128 | inline << 32
}

/// The view of one value; `index` is that of the buffer, once there is one.
#[inline]
fn view(body: &Bytes, value: Range<usize>, buffers: &mut Vec<Buffer>, index: &mut Option<u32>) -> u128 {
    let buffer = match *index {
        _ if value.len() <= 12 => 0,
        Some(index) => index,
        None => *index.insert(attach(buffers, body)),
    };
    make_view(body, value.start, value.end, buffer)
}

/// Views of adjacent values that start at `start` and end at `ends`.
fn cut(body: &Bytes, start: usize, ends: &[u32], utf8: bool, views: &mut Views, from: usize) -> Result<()> {
    let Some(&last) = ends.last() else {
        return Ok(());
    };
    let ascii = body[start..last as usize].is_ascii();
    if utf8 && !ascii {
        check_utf8(&body[start..last as usize])?;
    }
    let mut index = None;
    let mut at = start;
    let slots = &mut views.block.as_mut_slice::<u128>()[from..from + ends.len()];
    for (slot, &stop) in slots.iter_mut().zip(ends) {
        let value = &body[at..stop as usize];
        // The whole stretch is valid; a value is, if it starts and ends between characters.
        if utf8 && !ascii && value.first().is_some_and(|b| b & 0xc0 == 0x80) {
            return corrupt("a string starts inside a character");
        }
        let buffer = match index {
            _ if value.len() <= 12 => 0,
            Some(index) => index,
            None => *index.insert(attach(&mut views.buffers, body)),
        };
        *slot = make_view(body, at, stop as usize, buffer);
        at = stop as usize;
    }
    Ok(())
}

fn check_utf8(bytes: &[u8]) -> Result<()> {
    simdutf8::basic::from_utf8(bytes).map(drop).or_else(|_| corrupt("a string is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferPool;

    fn plain(values: &[&[u8]]) -> Bytes {
        let mut body = vec![];
        for value in values {
            body.extend((value.len() as u32).to_le_bytes());
            body.extend(*value);
        }
        Bytes::from(body)
    }

    fn read(values: &[&[u8]], utf8: bool) -> Result<()> {
        let block = BufferPool::new(0).take(16 * values.len());
        let mut views = Views::new(block, vec![], 1000);
        Strings::plain(plain(values)).read(values.len(), utf8, &mut views, 0)
    }

    #[test]
    fn utf8_is_judged_string_by_string() {
        let e = "é".as_bytes();
        let long = "ü".repeat(100);
        assert!(read(&[b"a", e, long.as_bytes(), e], true).is_ok());
        // A character cut in two by a string's end, near and far.
        assert!(read(&[&e[..1], &e[1..]], true).is_err());
        assert!(read(&[&long.as_bytes()[..131], &long.as_bytes()[131..]], true).is_err());
        assert!(read(&[&e[..1], &e[1..]], false).is_ok());
    }

    #[test]
    fn picked_utf8_is_judged() {
        let e = "é".as_bytes();
        let (short, long, gap) = ("ü".repeat(40), "ü".repeat(100), "a".repeat(GAP_MAX));
        let pick = |values: &[&[u8]], offsets: &[u32]| {
            let block = BufferPool::new(0).take(16 * offsets.len());
            let mut views = Views::new(block, vec![], 1000);
            Strings::plain(plain(values)).pick(offsets, true, &mut views, 0)
        };
        for between in ["", &short, &long, &gap] {
            let between = between.as_bytes();
            assert!(pick(&[b"a", between, e, between, long.as_bytes(), between, e], &[0, 2, 4, 6]).is_ok());
            for wrong in [&e[..1], &e[1..], &long.as_bytes()[..131]] {
                assert!(pick(&[b"a", between, wrong], &[0, 2]).is_err());
                assert!(pick(&[wrong, between, b"a"], &[0, 2]).is_err());
                assert!(pick(&[b"a", between, wrong, between, b"a"], &[0, 2, 4]).is_err());
                assert!(pick(&[wrong], &[0]).is_err());
            }
            // A length of four bytes that are no characters lies between.
            let other = [0xff_u8; 200];
            assert!(pick(&[b"a", between, &other, between, b"a"], &[0, 4]).is_ok());
        }
    }

    #[test]
    fn views_are_those_of_arrow() {
        let bytes: Vec<u8> = (1..=60).collect();
        for start in 0..60 {
            for stop in start..=60 {
                let arrow = arrow::array::make_view(&bytes[start..stop], 7, start as u32);
                assert_eq!(make_view(&bytes, start, stop, 7), arrow, "{start}..{stop}");
            }
        }
    }

    #[test]
    fn lengths_stay_inside() {
        for len in [1u32, 5, 1 << 31, u32::MAX] {
            let mut body = len.to_le_bytes().to_vec();
            body.extend(b"abcd");
            let mut strings = Strings::plain(Bytes::from(body));
            assert_eq!(strings.skip(1).is_ok(), len == 1);
        }
    }
}
