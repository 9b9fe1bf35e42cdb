//! What the intrinsics mean.

use std::cmp::Ordering;

use super::iter::dimensions;
use super::value::{Dictionary, Value, Vector};
use crate::ir::Literal;
use crate::op::{BinaryOp, Intrinsic};
use crate::runtime_error::RuntimeErrorKind;
use crate::ty::Type;

/// Calls an intrinsic. `Internal` if it does not take such arguments.
pub(super) fn call(intrinsic: Intrinsic, args: &[Value]) -> Result<Value, RuntimeErrorKind> {
    const BROKEN: RuntimeErrorKind = RuntimeErrorKind::Internal;
    match (intrinsic, args) {
        (Intrinsic::CheckedAdd, [Value::Scalar(a), Value::Scalar(b)]) => checked(BinaryOp::Add, *a, *b),
        (Intrinsic::CheckedSub, [Value::Scalar(a), Value::Scalar(b)]) => checked(BinaryOp::Sub, *a, *b),
        (Intrinsic::CheckedMul, [Value::Scalar(a), Value::Scalar(b)]) => checked(BinaryOp::Mul, *a, *b),
        (Intrinsic::RoundDiv, [Value::Scalar(a), Value::Scalar(b)]) => round_div(*a, *b),
        (Intrinsic::Magnitude, [Value::Scalar(a)]) => {
            let bits = a.bits();
            Ok(Value::Scalar(super::scalar::cast(Literal::I128(if bits < 0 { !bits } else { bits }), a.kind())))
        }
        (Intrinsic::OrderKey, [Value::Scalar(Literal::F32(v))]) => Ok(Value::i32(order_key_f32(*v))),
        (Intrinsic::OrderKey, [Value::Scalar(Literal::F64(v))]) => Ok(Value::i64(order_key_f64(*v))),
        (Intrinsic::FromOrderKey, [Value::Scalar(Literal::I32(key))]) => {
            Ok(Value::Scalar(Literal::F32(f32::from_bits(magnitude_bits(*key, i32::MAX) as u32))))
        }
        (Intrinsic::FromOrderKey, [Value::Scalar(Literal::I64(key))]) => {
            Ok(Value::Scalar(Literal::F64(f64::from_bits(magnitude_bits(*key, i64::MAX) as u64))))
        }
        (Intrinsic::MayContain, [Value::Dict(dict), key]) => Ok(Value::bool(dict.get(key).is_some())),
        // A key's hash is the number of its row, so that a wrong one finds nothing.
        (Intrinsic::HashKey, [Value::Dict(dict), key]) => Ok(Value::u32(dict.row(key))),
        (Intrinsic::MayContainHashed, [Value::Dict(_), Value::Scalar(Literal::U32(hash))]) => {
            Ok(Value::bool(*hash > 0))
        }
        (Intrinsic::FindRow, [Value::Dict(dict), Value::Scalar(Literal::U32(hash)), key]) => {
            Ok(Value::u32(if *hash == dict.row(key) { *hash } else { 0 }))
        }
        (Intrinsic::RowValue, [Value::Dict(dict), Value::Scalar(Literal::U32(row))]) => {
            dict.value_in_row(*row).cloned().ok_or(BROKEN)
        }
        (Intrinsic::FirstRow, [Value::Dict(dict), Value::Vec(group)]) => Ok(Value::i64(first_row(dict, group))),
        (
            Intrinsic::StartsWith
            | Intrinsic::EndsWith
            | Intrinsic::Contains
            | Intrinsic::Like
            | Intrinsic::Ilike
            | Intrinsic::TrimStart
            | Intrinsic::TrimEnd,
            [text, part],
        ) => {
            let text = text.to_bytes().ok_or(BROKEN)?;
            let part = part.to_bytes().ok_or(BROKEN)?;
            let is_dropped = |character: &[u8]| characters(&part).any(|other| other == character);
            Ok(Value::bool(match intrinsic {
                Intrinsic::TrimStart => {
                    let dropped: usize = characters(&text).take_while(|c| is_dropped(c)).map(<[u8]>::len).sum();
                    return Ok(Value::i64(dropped as i64));
                }
                Intrinsic::TrimEnd => {
                    let all: Vec<&[u8]> = characters(&text).collect();
                    let dropped: usize = all.iter().rev().take_while(|c| is_dropped(c)).map(|c| c.len()).sum();
                    return Ok(Value::i64((text.len() - dropped) as i64));
                }
                Intrinsic::Ilike => like(&folded(&text), &folded(&part)),
                Intrinsic::StartsWith => text.starts_with(&part),
                Intrinsic::EndsWith => text.ends_with(&part),
                Intrinsic::Contains => part.is_empty() || text.windows(part.len()).any(|window| window == part),
                _ => like(&text, &part),
            }))
        }
        (Intrinsic::Find | Intrinsic::FieldStart, [text, part, Value::Scalar(Literal::I64(n))]) => {
            let (text, part) = (text.to_bytes().ok_or(BROKEN)?, part.to_bytes().ok_or(BROKEN)?);
            let found = if intrinsic == Intrinsic::Find {
                find(&text, &part, usize::try_from(*n).unwrap_or(0))
            } else {
                field_start(&text, &part, *n)
            };
            Ok(Value::i64(found.map_or(-1, |at| at as i64)))
        }
        (Intrinsic::IsUtf8, [text]) => {
            let text = text.to_bytes().ok_or(BROKEN)?;
            Ok(Value::bool(std::str::from_utf8(&text).is_ok()))
        }
        (Intrinsic::CharLength, [text]) => {
            let text = text.to_bytes().ok_or(BROKEN)?;
            Ok(Value::i64(character_starts(&text).count() as i64))
        }
        (Intrinsic::CharOffset, [text, Value::Scalar(Literal::I64(n))]) => {
            let text = text.to_bytes().ok_or(BROKEN)?;
            let start = usize::try_from(*n).ok().map(|n| character_starts(&text).nth(n).unwrap_or(text.len()));
            Ok(Value::i64(start.unwrap_or(0) as i64))
        }
        (Intrinsic::Year, [Value::Scalar(Literal::I32(days))]) => Ok(Value::i32(civil(*days).0)),
        (Intrinsic::Month, [Value::Scalar(Literal::I32(days))]) => Ok(Value::i32(civil(*days).1)),
        (Intrinsic::Day, [Value::Scalar(Literal::I32(days))]) => Ok(Value::i32(civil(*days).2)),
        (Intrinsic::NdCount, [Value::Scalar(Literal::I64(len)), lists @ ..]) => {
            let lists: Vec<Vec<i64>> = lists.iter().map(integers).collect::<Option<_>>().ok_or(BROKEN)?;
            let lists: Vec<&[i64]> = lists.iter().map(Vec::as_slice).collect();
            let (_, count) = dimensions(*len, lists.try_into().map_err(|_| BROKEN)?).map_err(|(kind, _)| kind)?;
            Ok(Value::i64(count))
        }
        // The bytes stand for themselves, and zero for none.
        (Intrinsic::Intern, [text]) => Ok(Value::structure([text.clone()])),
        (Intrinsic::Interned, [Value::Struct(fields)]) => match &fields[..] {
            [text @ Value::Vec(_)] => Ok(text.clone()),
            _ => Value::zero(&Type::vec(Type::U8)).ok_or(BROKEN),
        },
        _ => Err(BROKEN),
    }
}

/// The characters of UTF-8 text: bytes with those that continue them.
fn characters(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.chunk_by(|_, next| next & 0xC0 == 0x80)
}

/// Text in which letters of ASCII are lower-case ones, and so are the two other characters whose lower case they are.
fn folded(text: &[u8]) -> Vec<u8> {
    let fold = |character: &[u8]| match character {
        b"\xe2\x84\xaa" => b"k".to_vec(),
        b"\xc5\xbf" => b"s".to_vec(),
        other => other.to_ascii_lowercase(),
    };
    characters(text).flat_map(fold).collect()
}

fn find(text: &[u8], part: &[u8], from: usize) -> Option<usize> {
    (from..=text.len()).find(|at| text[*at..].starts_with(part))
}

fn field_start(text: &[u8], separator: &[u8], n: i64) -> Option<usize> {
    if separator.is_empty() || n < 1 {
        return None;
    }
    (1..n).try_fold(0, |start, _| Some(find(text, separator, start)? + separator.len()))
}

/// How many values the groups before this one have.
fn first_row(dict: &Dictionary, group: &Vector) -> i64 {
    let mut first = 0;
    for (_, values) in dict.iter() {
        match values {
            Value::Vec(values) if values.is_same(group) => return first,
            Value::Vec(values) => first += values.len() as i64,
            _ => {}
        }
    }
    0
}

fn integers(list: &Value) -> Option<Vec<i64>> {
    let Value::Vec(items) = list else { return None };
    items.iter().map(|item| if let Value::Scalar(Literal::I64(n)) = item { Some(*n) } else { None }).collect()
}

macro_rules! checked_on {
    ($op:expr, $a:expr, $b:expr, $($kind:ident)*) => {
        match ($a, $b) {
            $((Literal::$kind(a), Literal::$kind(b)) => match $op {
                BinaryOp::Add => a.checked_add(b),
                BinaryOp::Sub => a.checked_sub(b),
                _ => a.checked_mul(b),
            }
            .map(Literal::$kind)
            .ok_or(RuntimeErrorKind::Overflow),)*
            _ => Err(RuntimeErrorKind::Internal),
        }
    };
}

fn checked(op: BinaryOp, a: Literal, b: Literal) -> Result<Value, RuntimeErrorKind> {
    checked_on!(op, a, b, I8 I16 I32 I64 I128 U8 U16 U32 U64).map(Value::Scalar)
}

fn round_div(a: Literal, b: Literal) -> Result<Value, RuntimeErrorKind> {
    let (x, y) = (a.bits(), b.bits());
    if y == 0 {
        return Err(RuntimeErrorKind::DivisionByZero);
    }
    let quotient = x.checked_div(y).ok_or(RuntimeErrorKind::Overflow)?;
    let rest = (x % y).unsigned_abs();
    // Half away from zero: |rest| >= |y| - |rest|, written so that it cannot overflow.
    let rounded = match rest.cmp(&(y.unsigned_abs() - rest)) {
        Ordering::Less => quotient,
        _ if (x < 0) == (y < 0) => quotient + 1,
        _ => quotient - 1,
    };
    let narrowed = super::scalar::cast(Literal::I128(rounded), a.kind());
    if narrowed.bits() != rounded {
        return Err(RuntimeErrorKind::Overflow);
    }
    Ok(Value::Scalar(narrowed))
}

fn order_key_f32(v: f32) -> i32 {
    let bits = if v == 0.0 { 0 } else { v.to_bits() as i32 };
    if bits < 0 { bits ^ i32::MAX } else { bits }
}

/// The bits of the float that has this order key: those of a negative one are flipped, but for the sign.
fn magnitude_bits<T: PartialOrd + Default + std::ops::BitXor<Output = T>>(key: T, all_but_sign: T) -> T {
    if key < T::default() { key ^ all_but_sign } else { key }
}

fn order_key_f64(v: f64) -> i64 {
    let bits = if v == 0.0 { 0 } else { v.to_bits() as i64 };
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// SQL LIKE. A character is a byte with the UTF-8 continuation bytes after it; a backslash at the end is itself.
fn like(text: &[u8], pattern: &[u8]) -> bool {
    // The usual two-pointer match: on a mismatch go back to the last `%` and let it take one character more.
    let (mut t, mut p) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            None if t == text.len() => return true,
            None => None,
            Some(b'%') => {
                p += 1;
                retry = Some((t, p));
                continue;
            }
            Some(b'_') => (t < text.len()).then(|| (next_character(text, t), p + 1)),
            Some(b'\\') if p + 1 < pattern.len() => (text.get(t) == pattern.get(p + 1)).then_some((t + 1, p + 2)),
            Some(byte) => (text.get(t) == Some(byte)).then_some((t + 1, p + 1)),
        };
        match (step, retry) {
            (Some((text_at, pattern_at)), _) => (t, p) = (text_at, pattern_at),
            (None, Some((from, resume))) if from < text.len() => {
                t = next_character(text, from);
                p = resume;
                retry = Some((t, resume));
            }
            _ => return false,
        }
    }
}

/// Where the characters of UTF-8 text begin.
fn character_starts(text: &[u8]) -> impl Iterator<Item = usize> {
    text.iter().enumerate().filter(|(_, byte)| **byte & 0xC0 != 0x80).map(|(at, _)| at)
}

fn next_character(text: &[u8], at: usize) -> usize {
    let rest = &text[at + 1..];
    at + 1 + rest.iter().take_while(|byte| **byte & 0xC0 == 0x80).count()
}

/// Year, month and day of a number of days since 1970-01-01 (Hinnant's `civil_from_days`: years begin in March).
fn civil(days: i32) -> (i32, i32, i32) {
    let days = i64::from(days) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as i32, month as i32, day as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(-1), (1969, 12, 31));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(10_471), (1998, 9, 2));
        assert_eq!(civil(-719_528), (0, 1, 1));
        assert_eq!(civil(i32::MAX).0, 5_881_580);
        assert_eq!(civil(i32::MIN).0, -5_877_641);
    }

    #[test]
    fn like_patterns() {
        let cases = [
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("abcabd", "%ab_", true),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("héllo", "h_llo", true),
            ("héllo", "h__llo", false),
            ("x\\", "x\\", true),
            ("special packages requests", "%special%requests%", true),
            ("aaa", "%aa%aa%", false),
            ("aaaa", "%aa%aa%", true),
        ];
        for (text, pattern, expected) in cases {
            assert_eq!(like(text.as_bytes(), pattern.as_bytes()), expected, "{text} LIKE {pattern}");
        }
    }

    #[test]
    fn rounding() {
        let div = |a, b| round_div(Literal::I32(a), Literal::I32(b));
        assert_eq!(div(5, 2), Ok(Value::i32(3)));
        assert_eq!(div(-5, 2), Ok(Value::i32(-3)));
        assert_eq!(div(5, -2), Ok(Value::i32(-3)));
        assert_eq!(div(4, 3), Ok(Value::i32(1)));
        assert_eq!(div(5, 3), Ok(Value::i32(2)));
        assert_eq!(div(i32::MIN, -1), Err(RuntimeErrorKind::Overflow));
        assert_eq!(div(1, 0), Err(RuntimeErrorKind::DivisionByZero));
        let wide = |a, b| round_div(Literal::I128(a), Literal::I128(b));
        assert_eq!(wide(i128::MAX, i128::MAX - 1), Ok(Value::Scalar(Literal::I128(1))));
        assert_eq!(wide(1, i128::MIN), Ok(Value::Scalar(Literal::I128(0))));
    }

    #[test]
    fn order_keys() {
        let sorted = [-f64::NAN, f64::NEG_INFINITY, -1.0, -1e-300, 0.0, 1e-300, 2.0, f64::INFINITY, f64::NAN];
        assert!(sorted.windows(2).all(|pair| order_key_f64(pair[0]) < order_key_f64(pair[1])));
        assert_eq!(order_key_f64(-0.0), order_key_f64(0.0));
        assert!(order_key_f32(-f32::NAN) < order_key_f32(f32::NEG_INFINITY));
    }
}
