//! Snappy, one stream or up to three at a time.
//!
//! A stream is a chain: where the next element starts is known only when this one was read, and a
//! copy often reads what was written a moment ago. Two independent streams decoded in turn hide
//! each other's waiting; on dictionary pages of TPC-H that is 1.5 times faster than one by one.
//!
//! ```text
//! <length varint> then elements:   tag & 3 == 0  literal of (tag >> 2) + 1 bytes (60..63: length in 1..4 bytes)
//!                                  1, 2, 4-byte offsets: copy from `offset` bytes back
//! ```
//!
//! Output blocks carry [`SLACK`] bytes behind their end, so that short elements are copied with
//! fixed-size moves and only the position is checked. The input is never read past its end, the
//! output never written past the slack, and nothing unwritten is ever kept: the final position must
//! be the declared length.

use crate::error::{Result, corrupt};

/// Bytes that the output slice must have beyond the decompressed length.
pub(crate) const SLACK: usize = 128;

/// The most input that a step of the fast path looks at.
const INPUT_MARGIN: usize = 66;

/// The decompressed length that a stream declares, and where its elements start.
pub(crate) fn declared_len(input: &[u8]) -> Result<(usize, usize)> {
    let mut value = 0u64;
    for (at, &byte) in input.iter().take(5).enumerate() {
        value |= ((byte & 0x7f) as u64) << (7 * at);
        if byte & 0x80 == 0 {
            return match u32::try_from(value) {
                Ok(len) => Ok((len as usize, at + 1)),
                Err(_) => corrupt("a Snappy length is too large"),
            };
        }
    }
    corrupt("a Snappy stream has no length")
}

/// One stream to decompress: `out` is [`SLACK`] bytes longer than what the page declares.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) out: &'a mut [u8],
}

impl<'a> Job<'a> {
    fn start(self) -> Result<Stream<'a>> {
        let (len, ip) = declared_len(self.input)?;
        if self.out.len() != len + SLACK {
            return corrupt(format!(
                "a page of {} bytes holds a Snappy stream of {len}",
                self.out.len().saturating_sub(SLACK)
            ));
        }
        Ok(Stream { input: self.input, ip, out: self.out, op: 0, len })
    }
}

/// Decompresses one stream.
pub(crate) fn decompress(job: Job<'_>) -> Result<()> {
    job.start()?.finish()
}

/// Decompresses streams in turn, up to three at a time: the first three, and another when one of them ends. More than
/// three do not fit into registers.
pub(crate) fn decompress_together<'a>(jobs: impl IntoIterator<Item = Job<'a>>) -> Result<()> {
    let mut streams = jobs.into_iter().map(Job::start).collect::<Result<Vec<_>>>()?;
    let mut roomy: Vec<&mut Stream<'_>> = streams.iter_mut().collect();
    loop {
        roomy.retain(|stream| stream.is_roomy());
        let begun = match roomy.as_mut_slice() {
            [a, b, c, ..] => {
                run_together([a, b, c]);
                3
            }
            [a, b] => {
                run_together([a, b]);
                2
            }
            [_] | [] => break,
        };
        // Each stands at an element that the fast loop left alone, or at its end.
        for stream in &mut roomy[..begun] {
            if stream.is_roomy() && stream.step_careful().is_none() {
                return bad();
            }
        }
    }
    streams.iter_mut().try_for_each(Stream::finish)
}

/// Advances all streams by the same number of short elements.
fn run_together<const N: usize>(streams: [&mut Stream<'_>; N]) {
    #[cfg(target_arch = "x86_64")]
    if has_wide_moves() {
        // SAFETY: the CPU has the features.
        return unsafe { run_together_wide(streams) };
    }
    run_together_portable(streams);
}

/// The same code, for a CPU that moves 32 bytes at once and shifts without the flags.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn run_together_wide<const N: usize>(streams: [&mut Stream<'_>; N]) {
    run_together_portable(streams);
}

#[inline(always)]
fn run_together_portable<const N: usize>(mut streams: [&mut Stream<'_>; N]) {
    let bounds = streams.each_mut().map(|stream| stream.bounds());
    let mut places = streams.each_mut().map(|stream| stream.place());
    'steps: while (0..N).all(|i| bounds[i].is_roomy(places[i])) {
        let mut next = places;
        for i in 0..N {
            // SAFETY: `is_roomy` is asked of all places before each step, and places come from steps.
            match unsafe { bounds[i].step(places[i]) } {
                Some(place) => next[i] = place,
                None => break 'steps,
            }
        }
        places = next;
    }
    for (stream, place) in streams.iter_mut().zip(places) {
        stream.move_to(place);
    }
}

/// Advances one stream by short elements.
fn run(stream: &mut Stream<'_>) {
    #[cfg(target_arch = "x86_64")]
    if has_wide_moves() {
        // SAFETY: the CPU has the features.
        return unsafe { run_wide(stream) };
    }
    run_portable(stream);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn run_wide(stream: &mut Stream<'_>) {
    run_portable(stream);
}

#[inline(always)]
fn run_portable(stream: &mut Stream<'_>) {
    let bounds = stream.bounds();
    let mut place = stream.place();
    // SAFETY: `is_roomy` is asked before each step, and places come from steps.
    unsafe {
        while bounds.is_roomy(place) {
            let Some(next) = bounds.step(place) else { break };
            place = next;
        }
    }
    stream.move_to(place);
}

#[cfg(target_arch = "x86_64")]
fn has_wide_moves() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2")
}

#[cold]
fn bad() -> Result<()> {
    corrupt("a Snappy stream")
}

struct Stream<'a> {
    input: &'a [u8],
    ip: usize,
    out: &'a mut [u8],
    op: usize,
    len: usize,
}

/// Where a stream stands, in pointers: two of these and their bounds fit into registers.
#[derive(Clone, Copy)]
struct Place {
    ip: *const u8,
    op: *mut u8,
}

/// What a place is compared with.
#[derive(Clone, Copy)]
struct Bounds {
    /// From here on an element might reach past the input.
    ip_stop: *const u8,
    /// The first and the last byte but one of the output, slack not counted.
    out: *mut u8,
    out_stop: *mut u8,
}

impl Bounds {
    /// Whether any short element can be read and written at `place` without looking.
    #[inline(always)]
    fn is_roomy(&self, place: Place) -> bool {
        (place.ip < self.ip_stop) & (place.op < self.out_stop)
    }

    /// Decodes a literal, if there is one, and the copy behind it; `None` leaves both to the careful
    /// path: a rare kind, or damage.
    ///
    /// Streams are made of such pairs. An absent literal is one of no bytes, so nothing branches on
    /// what comes: dictionary pages have no pattern there that a predictor could learn. What
    /// remains is the chain from a tag to the next, two loads a pair.
    ///
    /// # Safety
    /// `is_roomy(place)` holds.
    #[inline(always)]
    unsafe fn step(&self, Place { ip, op }: Place) -> Option<Place> {
        // A roomy place has INPUT_MARGIN = 66 readable bytes at `ip`: a tag, a literal of at
        // most 60 bytes (64 are read), a tag and two bytes of offset. `op` is below the output's
        // end, so SLACK = 128 bytes are writable there: 60 of the literal and then 64 of the copy.
        // The copy's source lies in `out .. op`, as `offset` is at most what was written, and reads
        // end before the end of what may be written. The new `op` is at most 124 past the old one;
        // whether that is past the end is seen before the next step. A tag is a byte, and COPIES has
        // an entry for each.
        // SAFETY: the place is roomy, by the caller's promise, so all of the above holds.
        unsafe {
            let first = *ip as usize;
            let is_literal = first & 3 == 0;
            let literal = if is_literal { (first >> 2) + 1 } else { 0 };
            let copy = if is_literal { ip.add(literal + 1) } else { ip };
            if literal > 60 {
                return None;
            }
            let tag = *copy;
            let entry = *COPIES.get_unchecked(tag as usize);
            let bytes = (tag & 3) as usize;
            let len = (entry & 0xff) as usize;
            let low = u16::from_le(copy.add(1).cast::<u16>().read_unaligned()) as usize;
            let offset = (entry >> 16) as usize | low & ((1 << (8 * bytes)) - 1);
            let to = op.add(literal);
            let written = to.offset_from_unsigned(self.out);
            // Offset 0 wraps to the largest.
            if (offset.wrapping_sub(1) >= written) | (entry == RARE) {
                return None;
            }
            copy32(ip.add(1), op);
            if literal > 32 {
                copy32(ip.add(33), op.add(32));
            }
            let from = to.sub(offset).cast_const();
            if offset < len {
                overlapping(from, to, offset, len);
            } else {
                copy32(from, to);
                if len > 32 {
                    copy32(from.add(32), to.add(32));
                }
            }
            Some(Place { ip: copy.add(1 + bytes), op: to.add(len) })
        }
    }
}

impl Stream<'_> {
    #[inline]
    fn is_roomy(&self) -> bool {
        self.ip + INPUT_MARGIN <= self.input.len() && self.op < self.len
    }

    fn place(&mut self) -> Place {
        Place { ip: self.input[self.ip..].as_ptr(), op: self.out[self.op..].as_mut_ptr() }
    }

    fn bounds(&mut self) -> Bounds {
        let out = self.out.as_mut_ptr();
        Bounds {
            ip_stop: self.input[self.input.len().saturating_sub(INPUT_MARGIN - 1)..].as_ptr(),
            out,
            out_stop: self.out[self.len..].as_mut_ptr(),
        }
    }

    fn move_to(&mut self, place: Place) {
        self.ip = place.ip.addr() - self.input.as_ptr().addr();
        self.op = place.op.addr() - self.out.as_ptr().addr();
    }

    fn finish(&mut self) -> Result<()> {
        while self.ip < self.input.len() && self.op <= self.len {
            run(self);
            if self.ip < self.input.len() && self.op <= self.len && self.step_careful().is_none() {
                return bad();
            }
        }
        if self.op != self.len || self.ip != self.input.len() { bad() } else { Ok(()) }
    }

    /// Decodes one element with every access checked; for the ends of streams and long literals.
    fn step_careful(&mut self) -> Option<()> {
        let tag = *self.input.get(self.ip)?;
        self.ip += 1;
        let extra = |at: usize, bytes: usize| {
            let mut value = [0; 4];
            value[..bytes].copy_from_slice(self.input.get(at..at + bytes)?);
            Some(u32::from_le_bytes(value) as usize)
        };
        if tag & 3 == 0 {
            let mut len = (tag >> 2) as usize;
            if len >= 60 {
                let bytes = len - 59;
                len = extra(self.ip, bytes)?;
                self.ip += bytes;
            }
            len += 1;
            let literal = self.input.get(self.ip..self.ip + len)?;
            if len > self.len.checked_sub(self.op)? {
                return None;
            }
            self.out[self.op..self.op + len].copy_from_slice(literal);
            self.ip += len;
            self.op += len;
            return Some(());
        }
        let (len, offset, bytes) = match tag & 3 {
            1 => {
                let low = extra(self.ip, 1)?;
                ((tag >> 2 & 7) as usize + 4, (tag as usize >> 5) << 8 | low, 1)
            }
            2 => ((tag >> 2) as usize + 1, extra(self.ip, 2)?, 2),
            _ => ((tag >> 2) as usize + 1, extra(self.ip, 4)?, 4),
        };
        self.ip += bytes;
        if offset == 0 || offset > self.op || len > self.len.checked_sub(self.op)? {
            return None;
        }
        for at in self.op..self.op + len {
            self.out[at] = self.out[at - offset];
        }
        self.op += len;
        Some(())
    }
}

/// A tag that is not a short copy: a literal, or a copy with a four-byte offset.
const RARE: u32 = 0;

/// For the tag of a copy: its length, and from bit 16 the high bits of its offset.
static COPIES: [u32; 256] = {
    let mut copies = [RARE; 256];
    let mut tag = 0;
    while tag < 256 {
        let upper = tag as u32 >> 2;
        match tag & 3 {
            1 => copies[tag] = ((upper & 7) + 4) | (upper >> 3) << 24,
            2 => copies[tag] = upper + 1,
            _ => {}
        }
        tag += 1;
    }
    copies
};

/// # Safety
/// 32 bytes are readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn copy32(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise; both halves are read before either is written.
    unsafe {
        let bytes = from.cast::<[u8; 32]>().read_unaligned();
        to.cast::<[u8; 32]>().write_unaligned(bytes);
    }
}

/// A copy that reads what it writes.
///
/// # Safety
/// `from = to - offset` with `0 < offset < len <= 64`, and 64 bytes are writable at `to`.
#[inline(never)]
unsafe fn overlapping(from: *const u8, to: *mut u8, offset: usize, len: usize) {
    // SAFETY: the caller's promise. In order: each move reads at least 16 bytes behind where it
    // writes.
    unsafe {
        if offset < 16 {
            return repeat(from, to, offset, len);
        }
        for at in [0, 16, 32, 48] {
            copy16(from.add(at), to.add(at));
        }
    }
}

/// # Safety
/// 16 bytes are readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn copy16(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise; unaligned accesses.
    unsafe {
        let bytes = from.cast::<[u8; 16]>().read_unaligned();
        to.cast::<[u8; 16]>().write_unaligned(bytes);
    }
}

/// The largest multiple of each distance that is at most 16.
const STRIDES: [u8; 16] = [0, 16, 16, 15, 16, 15, 12, 14, 16, 9, 10, 11, 12, 13, 14, 15];

/// The `offset` bytes at `from`, again and again, as 16 bytes. Doubled rather than picked byte by byte: sixteen
/// remainders took longer than all else of a page of runs.
///
/// # Safety
/// `offset` bytes are readable at `from`, `0 < offset < 16`.
#[inline(always)]
unsafe fn pattern(from: *const u8, offset: usize) -> u128 {
    // SAFETY: the caller's promise: the first and the last bytes of those that there are.
    let mut pattern = unsafe {
        if offset >= 8 {
            let word = |at: usize| u128::from(u64::from_le_bytes(from.add(at).cast::<[u8; 8]>().read_unaligned()));
            word(0) | word(offset - 8) << (8 * (offset - 8))
        } else if offset >= 4 {
            let word = |at: usize| u128::from(u32::from_le_bytes(from.add(at).cast::<[u8; 4]>().read_unaligned()));
            word(0) | word(offset - 4) << (8 * (offset - 4))
        } else {
            let byte = |at: usize| u128::from(*from.add(at)) << (8 * at);
            byte(0) | byte(offset / 2) | byte(offset - 1)
        }
    };
    let mut bits = 8 * offset;
    while bits < 128 {
        pattern |= pattern << bits;
        bits *= 2;
    }
    pattern
}

/// A copy that overlaps itself: `offset` bytes before `to`, again and again, for `len` bytes.
///
/// # Safety
/// `from = to - offset`, `0 < offset < 16`, `len <= 64`, 64 bytes are writable at `to`.
#[inline(always)]
unsafe fn repeat(from: *const u8, to: *mut u8, offset: usize, len: usize) {
    // SAFETY: the first 16 bytes of the pattern are built by reading behind `to` only; then whole
    // repetitions are stored at multiples of `stride`, the last one starting below `len`, so that
    // it ends at most at 64 - 1 + 16 > 64: hence the bound on the last start.
    unsafe {
        let pattern = pattern(from, offset).to_le_bytes();
        let stride = STRIDES[offset] as usize;
        let mut at = 0;
        while at < len {
            if at <= 48 {
                to.add(at).cast::<[u8; 16]>().write_unaligned(pattern);
            } else {
                for i in at..len {
                    *to.add(i) = pattern[i - at];
                }
            }
            at += stride;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ours(input: &[u8], len: usize) -> Result<Vec<u8>> {
        let mut out = vec![0xee; len + SLACK];
        decompress(Job { input, out: &mut out })?;
        out.truncate(len);
        Ok(out)
    }

    #[test]
    fn patterns_repeat_at_every_distance() {
        let bytes: Vec<u8> = (1..=16).collect();
        for (offset, stride) in STRIDES.into_iter().enumerate().skip(1) {
            // SAFETY: there are 16 bytes.
            let found = unsafe { pattern(bytes.as_ptr(), offset) }.to_le_bytes();
            let expected: Vec<u8> = (0..16).map(|i| bytes[i % offset]).collect();
            assert_eq!(found[..], expected, "{offset}");
            assert_eq!(usize::from(stride), 16 - 16 % offset);
        }
    }

    /// Text with long and short matches, near and far.
    fn compressible() -> impl Strategy<Value = Vec<u8>> {
        let piece = (0..4u8, 1..200usize, 0..5usize).prop_map(|(letter, len, kind)| match kind {
            0 => vec![letter; len],
            1 => (0..len).map(|i| (i % 7) as u8 ^ letter).collect(),
            2 => (0..len).map(|i| (i * i * 31 + letter as usize) as u8).collect(),
            3 => (len as u64 * 0x1234_5677).to_le_bytes().repeat(len % 9),
            _ => (0..len as u64).flat_map(|i| (i * 977 + letter as u64).to_le_bytes()).collect(),
        });
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn inverts_the_encoder(data in compressible(), other in compressible()) {
            let a = snap::raw::Encoder::new().compress_vec(&data).unwrap();
            let b = snap::raw::Encoder::new().compress_vec(&other).unwrap();
            prop_assert_eq!(&ours(&a, data.len()).unwrap(), &data);
            let mut out_a = vec![0; data.len() + SLACK];
            let mut out_b = vec![0; other.len() + SLACK];
            let job = |input, out| Job { input, out };
            decompress_together([job(&a, &mut out_a), job(&b, &mut out_b)]).unwrap();
            prop_assert_eq!(&out_a[..data.len()], &data[..]);
            prop_assert_eq!(&out_b[..other.len()], &other[..]);
        }

        #[test]
        fn inverts_the_encoder_of_many(all in prop::collection::vec(compressible(), 0..7)) {
            let inputs: Vec<Vec<u8>> =
                all.iter().map(|data| snap::raw::Encoder::new().compress_vec(data).unwrap()).collect();
            let mut outs: Vec<Vec<u8>> = all.iter().map(|data| vec![0; data.len() + SLACK]).collect();
            let jobs = inputs.iter().zip(&mut outs).map(|(input, out)| Job { input, out });
            decompress_together(jobs).unwrap();
            for (data, out) in all.iter().zip(&outs) {
                prop_assert_eq!(&out[..data.len()], &data[..]);
            }
        }

        /// Damaged streams are rejected exactly when the reference rejects them.
        #[test]
        fn damage_agrees_with_the_reference(data in compressible(), at: usize, byte: u8, cut: usize) {
            let mut input = snap::raw::Encoder::new().compress_vec(&data).unwrap();
            let at = at % input.len();
            input[at] = byte;
            input.truncate(1.max(input.len().saturating_sub(cut % 3 * (cut % 50))));
            let len = declared_len(&input).map_or(0, |(len, _)| len).min(1 << 20);
            let mut expected = vec![0; len];
            let reference = snap::raw::Decoder::new().decompress(&input, &mut expected);
            match (ours(&input, len), reference) {
                (Ok(out), Ok(_)) => prop_assert_eq!(out, expected),
                (Err(_), Err(_)) => {}
                // The reference wants an output slice for a declared length we capped above.
                (ours, theirs) => prop_assert!(false, "{:?} {:?}", ours.is_ok(), theirs.is_ok()),
            }
        }
    }
}
