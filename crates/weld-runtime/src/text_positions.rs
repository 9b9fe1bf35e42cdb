//! Places in text: where a part occurs, where a field begins, what is left without some characters at the ends.

use memchr::{memchr, memmem};

use crate::strings::slice;

/// The byte at which a part occurs first, not before `from`, or -1.
///
/// # Safety
/// The pointers are to as many bytes.
pub(crate) unsafe extern "C" fn find(text: *const u8, len: u64, part: *const u8, part_len: u64, from: i64) -> i64 {
    // SAFETY: by the caller's promise.
    let (text, part) = unsafe { (slice(text, len), slice(part, part_len)) };
    place(find_in(text, part, usize::try_from(from).unwrap_or(0)))
}

/// The byte at which a field begins, or -1 if there are fewer.
///
/// # Safety
/// The pointers are to as many bytes.
pub(crate) unsafe extern "C" fn field_start(
    text: *const u8,
    len: u64,
    separator: *const u8,
    separator_len: u64,
    n: i64,
) -> i64 {
    // SAFETY: by the caller's promise.
    let (text, separator) = unsafe { (slice(text, len), slice(separator, separator_len)) };
    if separator.is_empty() || n < 1 {
        return -1;
    }
    place((1..n).try_fold(0, |start, _| Some(find_in(text, separator, start)? + separator.len())))
}

/// The byte at which the first character begins that is not one of these, or the length.
///
/// # Safety
/// The pointers are to as many bytes.
pub(crate) unsafe extern "C" fn trim_start(text: *const u8, len: u64, dropped: *const u8, dropped_len: u64) -> i64 {
    // SAFETY: by the caller's promise.
    let (text, dropped) = unsafe { (slice(text, len), slice(dropped, dropped_len)) };
    if dropped.is_ascii() {
        let start = text.iter().take_while(|byte| dropped.contains(byte)).count();
        // In what is no UTF-8 something may continue a character of ASCII.
        let continues = text.get(start).is_some_and(|byte| byte & 0xC0 == 0x80);
        return start.saturating_sub(usize::from(continues)) as i64;
    }
    let is_dropped = |character: &&[u8]| characters(dropped).any(|other| other == *character);
    characters(text).take_while(is_dropped).map(<[u8]>::len).sum::<usize>() as i64
}

/// The byte after the last character that is not one of these, or 0.
///
/// # Safety
/// The pointers are to as many bytes.
pub(crate) unsafe extern "C" fn trim_end(text: *const u8, len: u64, dropped: *const u8, dropped_len: u64) -> i64 {
    // SAFETY: by the caller's promise.
    let (text, dropped) = unsafe { (slice(text, len), slice(dropped, dropped_len)) };
    if dropped.is_ascii() {
        return (text.len() - text.iter().rev().take_while(|byte| dropped.contains(byte)).count()) as i64;
    }
    let is_dropped = |character: &&[u8]| characters(dropped).any(|other| other == *character);
    let ends = characters(text).rev().take_while(is_dropped);
    (text.len() - ends.map(<[u8]>::len).sum::<usize>()) as i64
}

fn find_in(text: &[u8], part: &[u8], from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let found = match part {
        [byte] => memchr(*byte, rest),
        _ => memmem::find(rest, part),
    };
    found.map(|at| from + at)
}

fn place(at: Option<usize>) -> i64 {
    at.map_or(-1, |at| at as i64)
}

/// The characters of UTF-8 text: bytes with those that continue them.
pub(crate) fn characters(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.chunk_by(|_, next| next & 0xC0 == 0x80)
}
