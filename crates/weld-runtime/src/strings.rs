//! Searching and comparing byte vectors: what compiled code does not do inline.
//!
//! A LIKE pattern is taken apart once: `PROMO%` is a prefix, `%BRASS` a suffix, `%green%` a search, and
//! `%special%requests%` two searches one behind the other. Only `_` needs the general matcher, which knows characters.
//! Everything else compares bytes: UTF-8 is such that a character's bytes occur nowhere else.

use std::cmp::Ordering;
use std::collections::HashMap;

use memchr::memchr2;
use memchr::memmem::{self, Finder};

use crate::run::Run;
use crate::text_positions::characters;

/// A LIKE pattern, taken apart.
#[derive(Debug)]
pub enum Pattern {
    /// Without wildcards.
    Equals(Box<[u8]>),
    /// `abc%`.
    StartsWith(Box<[u8]>),
    /// `%abc`.
    EndsWith(Box<[u8]>),
    /// `%abc%`.
    Contains(Box<Finder<'static>>),
    /// `first%middle%..%last`: an end, pieces in this order in between, an end.
    Pieces { first: Box<[u8]>, middle: Box<[Finder<'static>]>, last: Box<[u8]> },
    /// With `_`, or with pieces that begin within a character.
    General(Box<[u8]>),
    /// Of text in lower case.
    Folded(Box<Pattern>),
}

impl Pattern {
    /// `%` is any bytes, `_` one character, `\` takes the next byte as it is.
    pub fn like(pattern: &[u8]) -> Pattern {
        let Some(mut pieces) = pieces(pattern) else { return Pattern::General(pattern.into()) };
        let last = pieces.pop().unwrap_or_default();
        if pieces.is_empty() {
            return Pattern::Equals(last.into());
        }
        let first = pieces.remove(0);
        // `%%` is `%`.
        pieces.retain(|piece| !piece.is_empty());
        match (first.as_slice(), pieces.as_slice(), last.as_slice()) {
            (_, [], []) => Pattern::StartsWith(first.into()),
            ([], [], _) => Pattern::EndsWith(last.into()),
            ([], [piece], []) => Pattern::contains(piece),
            _ => Pattern::Pieces {
                middle: pieces.iter().map(|piece| Finder::new(piece).into_owned()).collect(),
                first: first.into(),
                last: last.into(),
            },
        }
    }

    /// LIKE whatever the case of ASCII letters.
    fn ilike(pattern: &[u8]) -> Pattern {
        Pattern::Folded(Box::new(Pattern::like(&folded(pattern))))
    }

    pub fn contains(needle: &[u8]) -> Pattern {
        Pattern::Contains(Box::new(Finder::new(needle).into_owned()))
    }

    /// What every text that matches has somewhere: the longest that is searched for.
    pub fn needle(&self) -> Option<&Finder<'static>> {
        let needle = match self {
            Pattern::Contains(finder) => Some(&**finder),
            Pattern::Pieces { middle, .. } => middle.iter().max_by_key(|finder| finder.needle().len()),
            _ => None,
        };
        needle.filter(|finder| !finder.needle().is_empty())
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        match self {
            Pattern::Equals(bytes) => text == &**bytes,
            Pattern::StartsWith(bytes) => text.starts_with(bytes),
            Pattern::EndsWith(bytes) => text.ends_with(bytes),
            Pattern::Contains(finder) => finder.find(text).is_some(),
            Pattern::Pieces { first, middle, last } => {
                let Some(mut rest) = between(text, first, last) else { return false };
                middle.iter().all(|finder| {
                    let found = finder.find(rest);
                    rest = found.map_or(rest, |at| &rest[at + finder.needle().len()..]);
                    found.is_some()
                })
            }
            Pattern::General(pattern) => matches_characters(text, pattern),
            Pattern::Folded(pattern) => with_folded(text, |text| pattern.matches(text)),
        }
    }
}

/// The text without its beginning and end, if it has them.
///
/// Empty ones are not compared: `memcmp` with AVX-512 reads under a mask, and where nothing is behind the pointer of an
/// empty slice the processor is slow to find that it need not have: 29 % of TPC-H Q13's samples were in it.
fn between<'a>(text: &'a [u8], first: &[u8], last: &[u8]) -> Option<&'a [u8]> {
    let rest = if first.is_empty() { text } else { text.strip_prefix(first)? };
    if last.is_empty() { Some(rest) } else { rest.strip_suffix(last) }
}

/// What stands between the `%` of a pattern, without escapes. `None` if comparing bytes is not enough.
fn pieces(pattern: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut pieces = vec![Vec::new()];
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => pieces.push(Vec::new()),
            b'_' => return None,
            // A backslash at the end is itself.
            b'\\' => pieces.last_mut()?.push(*bytes.next().unwrap_or(byte)),
            byte => pieces.last_mut()?.push(*byte),
        }
    }
    pieces.iter().all(|piece| piece.first().is_none_or(|byte| byte & 0xc0 != 0x80)).then_some(pieces)
}

/// Two pointers; on a mismatch the last `%` takes one character more.
fn matches_characters(text: &[u8], pattern: &[u8]) -> bool {
    let after = |at: usize| {
        let continued = text[at + 1..].iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
        at + 1 + continued
    };
    let (mut t, mut p) = (0, 0);
    let mut last: Option<(usize, usize)> = None;
    loop {
        let matched = match (pattern.get(p), pattern.get(p + 1)) {
            (None, _) if t == text.len() => return true,
            (None, _) => None,
            (Some(b'%'), _) => {
                p += 1;
                last = Some((t, p));
                continue;
            }
            (Some(b'_'), _) => (t < text.len()).then(|| (after(t), p + 1)),
            (Some(b'\\'), Some(byte)) => (text.get(t) == Some(byte)).then_some((t + 1, p + 2)),
            (Some(byte), _) => (text.get(t) == Some(byte)).then_some((t + 1, p + 1)),
        };
        match (matched, last) {
            (Some(next), _) => (t, p) = next,
            (None, Some((from, after_percent))) if from < text.len() => {
                (t, p) = (after(from), after_percent);
                last = Some((t, p));
            }
            _ => return false,
        }
    }
}

/// [`folded`] without memory of its own for what most text is.
fn with_folded(text: &[u8], matches: impl FnOnce(&[u8]) -> bool) -> bool {
    let mut short = [0; 256];
    match short.get_mut(..text.len()) {
        // Bytes with which neither of the two other characters begins are folded one by one.
        Some(lower) if memchr2(KELVIN[0], LONG_S[0], text).is_none() => {
            lower.copy_from_slice(text);
            lower.make_ascii_lowercase();
            matches(lower)
        }
        _ => matches(&folded(text)),
    }
}

/// Characters that are no letters of ASCII, but have one of these as their lower case.
const KELVIN: &[u8] = b"\xe2\x84\xaa";
const LONG_S: &[u8] = b"\xc5\xbf";

/// Text with lower-case letters for those of ASCII, and for the two other characters whose lower case these are: the
/// Kelvin sign and the long s.
fn folded(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() || [KELVIN, LONG_S].iter().all(|character| memmem::find(text, character).is_none()) {
        return text.to_ascii_lowercase();
    }
    let fold = |character| match character {
        KELVIN => &b"k"[..],
        LONG_S => b"s",
        other => other,
    };
    characters(text).flat_map(fold).map(u8::to_ascii_lowercase).collect()
}

/// Patterns that a run has taken apart, by kind and text.
#[derive(Debug, Default)]
pub(crate) struct Patterns(HashMap<(PatternKind, Box<[u8]>), Box<Pattern>>);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum PatternKind {
    Like,
    Ilike,
    Contains,
}

impl Patterns {
    fn get(&mut self, kind: PatternKind, text: &[u8]) -> *const Pattern {
        let pattern = self.0.entry((kind, text.into())).or_insert_with(|| {
            Box::new(match kind {
                PatternKind::Like => Pattern::like(text),
                PatternKind::Ilike => Pattern::ilike(text),
                PatternKind::Contains => Pattern::contains(text),
            })
        });
        &**pattern
    }
}

// ---- what compiled code calls ----

/// A LIKE pattern for [`pattern_matches`]; lives as long as the run.
///
/// # Safety
/// `run` is valid, `bytes` points to `len` bytes.
pub unsafe extern "C" fn pattern_like(run: *mut Run, bytes: *const u8, len: u64) -> *const Pattern {
    // SAFETY: by the caller's promise.
    unsafe { (*run).patterns.get(PatternKind::Like, slice(bytes, len)) }
}

/// An ILIKE pattern of ASCII characters for [`pattern_matches`]; lives as long as the run.
///
/// # Safety
/// `run` is valid, `bytes` points to `len` bytes.
pub unsafe extern "C" fn pattern_ilike(run: *mut Run, bytes: *const u8, len: u64) -> *const Pattern {
    // SAFETY: by the caller's promise.
    unsafe { (*run).patterns.get(PatternKind::Ilike, slice(bytes, len)) }
}

/// A search for [`pattern_matches`]; lives as long as the run.
///
/// # Safety
/// `run` is valid, `bytes` points to `len` bytes.
pub unsafe extern "C" fn pattern_contains(run: *mut Run, bytes: *const u8, len: u64) -> *const Pattern {
    // SAFETY: by the caller's promise.
    unsafe { (*run).patterns.get(PatternKind::Contains, slice(bytes, len)) }
}

/// # Safety
/// `pattern` is valid, `text` points to `len` bytes.
pub unsafe extern "C" fn pattern_matches(pattern: *const Pattern, text: *const u8, len: u64) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { (*pattern).matches(slice(text, len)) }
}

/// LIKE with a pattern that is no constant.
///
/// # Safety
/// The pointers are to as many bytes.
pub unsafe extern "C" fn like(text: *const u8, len: u64, pattern: *const u8, pattern_len: u64) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { matches_characters(slice(text, len), slice(pattern, pattern_len)) }
}

/// ILIKE with a pattern that is no constant.
///
/// # Safety
/// The pointers are to as many bytes.
pub unsafe extern "C" fn ilike(text: *const u8, len: u64, pattern: *const u8, pattern_len: u64) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { matches_characters(&folded(slice(text, len)), &folded(slice(pattern, pattern_len))) }
}

/// Whether a byte vector that is no constant occurs.
///
/// # Safety
/// The pointers are to as many bytes.
pub unsafe extern "C" fn contains(text: *const u8, len: u64, needle: *const u8, needle_len: u64) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { memmem::find(slice(text, len), slice(needle, needle_len)).is_some() }
}

/// Whether a byte vector is UTF-8.
///
/// # Safety
/// The pointer is to as many bytes.
pub unsafe extern "C" fn is_utf8(text: *const u8, len: u64) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { std::str::from_utf8(slice(text, len)).is_ok() }
}

fn continues(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// How many characters UTF-8 text has.
///
/// # Safety
/// The pointer is to as many bytes.
pub unsafe extern "C" fn char_length(text: *const u8, len: u64) -> i64 {
    // SAFETY: by the caller's promise.
    let text = unsafe { slice(text, len) };
    let (words, rest) = text.as_chunks::<8>();
    let mut continuations = rest.iter().filter(|byte| continues(**byte)).count() as u64;
    // Eight counts at a time, each of at most a byte.
    for words in words.chunks(255) {
        let counts: u64 = words.iter().map(|word| continuations_of(u64::from_le_bytes(*word))).sum();
        let pairs = (counts & PAIRS) + (counts >> 8 & PAIRS);
        continuations += pairs.wrapping_mul(1 | 1 << 16 | 1 << 32 | 1 << 48) >> 48;
    }
    (len - continuations) as i64
}

/// The lower of each two bytes.
const PAIRS: u64 = 0x00FF_00FF_00FF_00FF;

/// For each byte of a word, 1 if it continues a character: if its upper bits are 10.
fn continuations_of(word: u64) -> u64 {
    word >> 7 & !(word >> 6) & 0x0101_0101_0101_0101
}

/// The byte at which the character of this number begins, or the length.
///
/// # Safety
/// The pointer is to as many bytes.
pub unsafe extern "C" fn char_offset(text: *const u8, len: u64, n: i64) -> i64 {
    // SAFETY: by the caller's promise.
    let text = unsafe { slice(text, len) };
    let Ok(n) = usize::try_from(n) else { return 0 };
    // Where bytes are characters, the number is the place.
    let ascii = text.iter().take(n).take_while(|byte| byte.is_ascii()).count();
    if ascii == n.min(text.len()) && text.get(n).is_none_or(|byte| !continues(*byte)) {
        return ascii as i64;
    }
    let starts = text.iter().enumerate().skip(ascii).filter(|(_, byte)| !continues(**byte));
    starts.map(|(at, _)| at).nth(n - ascii).unwrap_or(text.len()) as i64
}

/// Whether two byte vectors of one length are equal.
///
/// # Safety
/// Both pointers are to `len` bytes.
pub unsafe extern "C" fn bytes_equal(a: *const u8, b: *const u8, len: u64) -> bool {
    // SAFETY: by the caller's promise.
    len == 0 || unsafe { slice(a, len) == slice(b, len) }
}

/// Negative, zero or positive as the first of two vectors of unsigned bytes is less than, equal to or greater than the
/// second. A prefix is less.
///
/// # Safety
/// The pointers are to as many bytes.
pub unsafe extern "C" fn bytes_compare(a: *const u8, a_len: u64, b: *const u8, b_len: u64) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { slice(a, a_len).cmp(slice(b, b_len)) as i32 }
}

/// [`bytes_compare`] for signed bytes.
///
/// # Safety
/// The pointers are to as many bytes.
pub unsafe extern "C" fn bytes_compare_signed(a: *const u8, a_len: u64, b: *const u8, b_len: u64) -> i32 {
    // SAFETY: by the caller's promise.
    let (a, b) = unsafe { (slice(a, a_len), slice(b, b_len)) };
    let different = a.iter().zip(b).position(|(x, y)| x != y);
    different.map_or(a.len().cmp(&b.len()), |at| (a[at] as i8).cmp(&(b[at] as i8))) as i32
}

/// # Safety
/// If `len` is not zero, the pointer is to as many bytes.
pub(crate) unsafe fn slice<'a>(bytes: *const u8, len: u64) -> &'a [u8] {
    const { assert!(Ordering::Less as i32 == -1 && Ordering::Greater as i32 == 1) };
    if len == 0 {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes, len as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted() {
        let pieces = ["a", "é", "€", "𝄞", "bcdefgh", "", "ü".repeat(9).as_str()].map(str::to_owned);
        for (i, first) in pieces.iter().enumerate() {
            for (n, second) in [1, 2, 7, 300, 3000].into_iter().zip(pieces.iter().cycle().skip(i)) {
                let text = format!("{first}{}{first}", second.repeat(n));
                // SAFETY: the pointer is to the text.
                let count = unsafe { char_length(text.as_ptr(), text.len() as u64) };
                assert_eq!(count, text.chars().count() as i64, "{text}");
            }
        }
    }

    #[test]
    fn patterns_are_taken_apart() {
        assert!(matches!(Pattern::like(b"a\\%c"), Pattern::Equals(b) if *b == *b"a%c"));
        assert!(matches!(Pattern::like(b"PROMO%%"), Pattern::StartsWith(b) if *b == *b"PROMO"));
        assert!(matches!(Pattern::like(b"%BRASS"), Pattern::EndsWith(_)));
        assert!(matches!(Pattern::like(b"%green%"), Pattern::Contains(_)));
        assert!(matches!(Pattern::like(b"%special%requests%"), Pattern::Pieces { .. }));
        assert!(matches!(Pattern::like(b"%"), Pattern::StartsWith(b) if b.is_empty()));
        assert!(matches!(Pattern::like(b"a_c"), Pattern::General(_)));
    }

    /// All short texts and patterns over a small alphabet: taking apart changes no answer.
    #[test]
    fn all_short_patterns_agree_with_the_general_matcher() {
        let words = |alphabet: &[u8], max: u32| -> Vec<Vec<u8>> {
            (0..=max)
                .flat_map(|len| {
                    (0..alphabet.len().pow(len)).map(move |n| (n, len)).collect::<Vec<_>>().into_iter().map(
                        |(n, len)| (0..len).map(|i| alphabet[n / alphabet.len().pow(i) % alphabet.len()]).collect(),
                    )
                })
                .collect()
        };
        let texts = words(b"ab\xc3\xa9", 4);
        for pattern in words(b"ab%_\\\xa9", 4) {
            let apart = Pattern::like(&pattern);
            for text in &texts {
                assert_eq!(apart.matches(text), matches_characters(text, &pattern), "{text:?} LIKE {pattern:?}");
            }
        }
    }

    #[test]
    fn comparisons_know_signs() {
        let compare = |a: &[u8], b: &[u8]| {
            let (a_len, b_len) = (a.len() as u64, b.len() as u64);
            // SAFETY: pointers and lengths of slices.
            unsafe {
                (
                    bytes_compare(a.as_ptr(), a_len, b.as_ptr(), b_len),
                    bytes_compare_signed(a.as_ptr(), a_len, b.as_ptr(), b_len),
                )
            }
        };
        assert_eq!(compare(b"ab", b"abc"), (-1, -1));
        assert_eq!(compare(b"b", b"abc"), (1, 1));
        assert_eq!(compare(b"a\x80", b"a\x7f"), (1, -1));
        assert_eq!(compare(b"", b""), (0, 0));
    }
}
