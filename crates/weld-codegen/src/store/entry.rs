//! A kernel as bytes in a file, and back.
//!
//! ```text
//! magic, three lengths, checksum | description | notes: names, costs, places of errors | object
//! ```
//! The description says all that the code depends on. It is compared byte by byte, so no two programs are taken for
//! each other whatever their numbers are. The checksum covers everything, the file's name and the user too.

use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use inkwell::memory_buffer::MemoryBuffer;
use weld_core::diag::Span;
use weld_core::ty::ScalarKind;
use weld_runtime::Status;

use crate::block::Site;
use crate::timing::Size;

const MAGIC: &[u8; 8] = b"weldobj1";
const HEADER: usize = 40;

/// Status of a site where a runtime function notes what went wrong.
const NOTED: u32 = u32::MAX;

/// A kernel before it is linked.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq))]
pub(crate) struct Stored {
    /// What the names of the object's functions begin with.
    pub(crate) prefix: String,
    /// What it took to make.
    pub(crate) cost: Duration,
    /// Of the emitted and of the optimised code.
    pub(crate) sizes: [Size; 2],
    pub(crate) sites: Vec<Site>,
    pub(crate) object: Vec<u8>,
}

impl Stored {
    /// The object for the linker, its functions renamed: names are unique in a process. `None` if the names are not
    /// ours.
    pub(crate) fn object_with(&self, prefix: &str) -> Option<MemoryBuffer<'static>> {
        let (old, new) = (self.prefix.as_bytes(), prefix.as_bytes());
        if old.len() != new.len() {
            return None;
        }
        let mut object = self.object.clone();
        let mut at = 0;
        while let Some(found) = object[at..].windows(old.len()).position(|window| window == old) {
            at += found;
            object[at..at + new.len()].copy_from_slice(new);
            at += new.len();
        }
        Some(MemoryBuffer::create_from_memory_range_copy(&object, "weld"))
    }
}

/// The contents of a file of that name.
pub(super) fn encode(name: &str, user: u32, description: &[u8], stored: &Stored) -> Vec<u8> {
    let notes = notes(stored);
    let parts = [description, &notes, &stored.object];
    let mut bytes = Vec::with_capacity(HEADER + parts.iter().map(|part| part.len()).sum::<usize>());
    bytes.extend(MAGIC);
    parts.iter().for_each(|part| bytes.extend((part.len() as u64).to_le_bytes()));
    bytes.extend([0; 8]);
    parts.iter().for_each(|part| bytes.extend(*part));
    let sum = checksum(name, user, &bytes);
    bytes[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// What a file of that name holds, if it is whole and of this description.
pub(super) fn decode(name: &str, user: u32, description: &[u8], bytes: &[u8]) -> Option<Stored> {
    let mut header = Reader(bytes.get(..HEADER)?);
    if header.take(MAGIC.len())? != MAGIC {
        return None;
    }
    let lengths = [header.length()?, header.length()?, header.length()?];
    let sum = header.u64()?;
    let mut rest = Reader(&bytes[HEADER..]);
    let [found, notes, object] = [rest.take(lengths[0])?, rest.take(lengths[1])?, rest.take(lengths[2])?];
    if !rest.0.is_empty() || found != description || checksum(name, user, bytes) != sum {
        return None;
    }
    let mut notes = Reader(notes);
    let stored = read_notes(&mut notes, object)?;
    notes.0.is_empty().then_some(stored)
}

fn checksum(name: &str, user: u32, bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u32(user);
    hasher.write(name.as_bytes());
    hasher.write(&bytes[..HEADER - 8]);
    hasher.write(&bytes[HEADER..]);
    hasher.finish()
}

fn notes(stored: &Stored) -> Vec<u8> {
    let mut out = Writer(Vec::new());
    out.text(&stored.prefix);
    out.u64(stored.cost.as_nanos() as u64);
    for size in stored.sizes {
        out.u64(size.instructions as u64);
        out.u64(size.blocks as u64);
    }
    out.u64(stored.sites.len() as u64);
    for site in &stored.sites {
        out.u32(site.status.map_or(NOTED, Status::code));
        out.u32(site.span.start);
        out.u32(site.span.end);
        out.u32(u32::from(site.message.is_some()));
        out.text(site.message.as_deref().unwrap_or_default());
        out.u64(site.shown.len() as u64);
        site.shown.iter().for_each(|&kind| out.u32(kind as u32));
    }
    out.0
}

fn read_notes(notes: &mut Reader<'_>, object: &[u8]) -> Option<Stored> {
    let prefix = notes.text()?.to_owned();
    let cost = Duration::from_nanos(notes.u64()?);
    let mut size = || Some(Size { instructions: notes.length()?, blocks: notes.length()? });
    let sizes = [size()?, size()?];
    let mut sites = Vec::new();
    for _ in 0..notes.u64()? {
        let status = match notes.u32()? {
            NOTED => None,
            code => Some(*Status::ALL.get(code as usize)?),
        };
        let span = Span { start: notes.u32()?, end: notes.u32()? };
        let has_message = notes.u32()? == 1;
        let message = notes.text()?;
        let mut shown = Vec::new();
        for _ in 0..notes.u64()? {
            shown.push(*ScalarKind::ALL.get(notes.u32()? as usize)?);
        }
        sites.push(Site { status, span, message: has_message.then(|| message.into()), shown });
    }
    Some(Stored { prefix, cost, sizes, sites, object: object.to_vec() })
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.0.extend(text.as_bytes());
    }
}

/// Bytes that are still to be read; nothing is assumed of them.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.u64()?).ok()
    }

    fn text(&mut self) -> Option<&'a str> {
        let len = self.length()?;
        std::str::from_utf8(self.take(len)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Stored {
        let site = |status, message: Option<&str>, shown| Site {
            status,
            span: Span { start: 3, end: 9 },
            message: message.map(Into::into),
            shown,
        };
        Stored {
            prefix: "weld_1_2_".to_owned(),
            cost: Duration::from_micros(1234),
            sizes: [Size { instructions: 10, blocks: 2 }, Size { instructions: 7, blocks: 1 }],
            sites: vec![
                site(None, None, vec![]),
                site(Some(Status::Raised), Some("no {}, not \u{e9}"), vec![ScalarKind::I128, ScalarKind::F64]),
                site(Some(Status::Overflow), Some(""), vec![]),
            ],
            object: (0..=255).collect(),
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let bytes = encode("one", 7, b"description", &stored());
        assert_eq!(decode("one", 7, b"description", &bytes), Some(stored()));
        assert_eq!(decode("two", 7, b"description", &bytes), None, "of another name");
        assert_eq!(decode("one", 8, b"description", &bytes), None, "of another user");
        assert_eq!(decode("one", 7, b"descriptiom", &bytes), None, "of another description");
        assert_eq!(decode("one", 7, b"descriptio", &bytes), None);
    }

    #[test]
    fn every_bit_counts() {
        let bytes = encode("one", 7, b"description", &stored());
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode("one", 7, b"description", &damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn every_length_counts() {
        let bytes = encode("one", 7, b"description", &stored());
        for len in 0..bytes.len() {
            assert_eq!(decode("one", 7, b"description", &bytes[..len]), None, "{len} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(decode("one", 7, b"description", &longer), None);
    }

    /// Notes of any contents are read or refused, whoever has written them.
    #[test]
    fn damaged_notes_do_not_panic() {
        let whole = notes(&stored());
        for at in 0..whole.len() {
            assert!(read_notes(&mut Reader(&whole[..at]), b"").is_none());
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = read_notes(&mut Reader(&damaged), b"");
            }
        }
    }
}
