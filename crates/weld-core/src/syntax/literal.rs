//! What number and string tokens say.
//!
//! Suffixes: none `i32`, `c` `i8`, `si` `i16`, `L` `i64`, `LL` `i128`, `u8` .. `u64` as they are called; `f` `f32`,
//! none `f64`. A number that does not fit its type is an error.

use crate::diag::{Diagnostic, Span};
use crate::ir::Literal;

/// An integer literal, negated if a minus sign stands before it (so that the least value can be written).
pub(crate) fn integer(text: &str, negative: bool, span: Span) -> Result<Literal, Diagnostic> {
    let (radix, body) = match text.get(..2) {
        Some("0x" | "0X") => (16, &text[2..]),
        Some("0b" | "0B") => (2, &text[2..]),
        _ => (10, text),
    };
    let length = body.bytes().take_while(|b| (*b as char).is_digit(radix)).count();
    let (digits, suffix) = body.split_at(length);
    if digits.is_empty() {
        return Err(Diagnostic::parse(span, format!("`{text}` has no digits")));
    }
    // Too large for 128 bits is too large for every type.
    let magnitude = u128::from_str_radix(digits, radix).unwrap_or(u128::MAX);
    macro_rules! fit {
        ($variant:ident $ty:ty) => {{
            let value = if negative {
                0i128.checked_sub_unsigned(magnitude).and_then(|v| <$ty>::try_from(v).ok())
            } else {
                <$ty>::try_from(magnitude).ok()
            };
            value.map(Literal::$variant).ok_or(stringify!($ty))
        }};
    }
    let fitted = match suffix {
        "" => fit!(I32 i32),
        "c" | "C" => fit!(I8 i8),
        "si" | "SI" => fit!(I16 i16),
        "l" | "L" => fit!(I64 i64),
        "ll" | "LL" => fit!(I128 i128),
        "u8" => fit!(U8 u8),
        "u16" => fit!(U16 u16),
        "u32" => fit!(U32 u32),
        "u64" => fit!(U64 u64),
        _ => {
            let message = format!("`{suffix}` is no suffix of an integer");
            return Err(Diagnostic::parse(span, message)
                .with_hint("suffixes are c (i8), si (i16), none (i32), L (i64), LL (i128), u8, u16, u32, u64"));
        }
    };
    fitted.map_err(|ty| {
        let sign = if negative { "-" } else { "" };
        let error = Diagnostic::parse(span, format!("the literal {sign}{text} does not fit {ty}"));
        match ty {
            "i32" => error.with_hint("for an i64 write the suffix L"),
            "i64" => error.with_hint("for an i128 write the suffix LL"),
            _ => error,
        }
    })
}

/// A float literal, negated if a minus sign stands before it.
pub(crate) fn float(text: &str, negative: bool, span: Span) -> Result<Literal, Diagnostic> {
    let single = text.strip_suffix(['f', 'F']);
    let digits = single.unwrap_or(text);
    let sign = |value: f64| if negative { -value } else { value };
    let literal = match single {
        Some(_) => digits.parse::<f32>().ok().map(|v| (v.is_finite(), Literal::F32(if negative { -v } else { v }))),
        None => digits.parse::<f64>().ok().map(|v| (v.is_finite(), Literal::F64(sign(v)))),
    };
    match literal {
        Some((true, literal)) => Ok(literal),
        Some((false, _)) => {
            let ty = if single.is_some() { "f32" } else { "f64" };
            Err(Diagnostic::parse(span, format!("the literal {text} does not fit {ty}"))
                .with_hint(format!("infinity is written {ty}[inf]")))
        }
        None => Err(Diagnostic::parse(span, format!("`{text}` is no number"))),
    }
}

/// `f64[inf]`, `f32[-inf]`, `f64[nan]`, `f64[0x7ff8000000000000]` (the bits): floats that decimal digits cannot say.
pub(crate) fn special_float(text: &str, single: bool) -> Option<Literal> {
    if let Some(digits) = text.strip_prefix("0x") {
        return if single {
            u32::from_str_radix(digits, 16).ok().map(|bits| Literal::F32(f32::from_bits(bits)))
        } else {
            u64::from_str_radix(digits, 16).ok().map(|bits| Literal::F64(f64::from_bits(bits)))
        };
    }
    let value = match text {
        "inf" => f64::INFINITY,
        "-inf" => f64::NEG_INFINITY,
        "nan" => f64::NAN,
        _ => return None,
    };
    Some(if single { Literal::F32(value as f32) } else { Literal::F64(value) })
}

/// The bytes of a string token without its quotes.
pub(crate) fn unescape(text: &str, span: Span) -> Result<Vec<u8>, Diagnostic> {
    let mut out = Vec::with_capacity(text.len());
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        match chars.next().map(|(_, c)| c) {
            Some('n') => out.push(b'\n'),
            Some('t') => out.push(b'\t'),
            Some('r') => out.push(b'\r'),
            Some('0') => out.push(0),
            Some('\\') => out.push(b'\\'),
            Some('"') => out.push(b'"'),
            Some('x') => {
                let digits = text.get(at + 2..at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
                match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                    Some(byte) => out.push(byte),
                    None => return Err(Diagnostic::parse(span, "`\\x` takes two hexadecimal digits")),
                }
                chars.nth(1);
            }
            other => {
                let escape = other.map_or_else(String::new, String::from);
                return Err(Diagnostic::parse(span, format!("unknown escape `\\{escape}`"))
                    .with_hint("escapes are \\n \\t \\r \\0 \\\\ \\\" \\xNN"));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(text: &str, negative: bool) -> Result<Literal, String> {
        integer(text, negative, Span::NONE).map_err(|e| e.message)
    }

    #[test]
    fn integers_fit_their_types() {
        assert_eq!(int("2147483647", false), Ok(Literal::I32(i32::MAX)));
        assert_eq!(int("2147483648", true), Ok(Literal::I32(i32::MIN)));
        assert_eq!(int("2147483648", false), Err("the literal 2147483648 does not fit i32".into()));
        assert_eq!(int("128c", true), Ok(Literal::I8(-128)));
        assert_eq!(int("0xffu8", false), Ok(Literal::U8(255)));
        assert_eq!(int("0b101L", false), Ok(Literal::I64(5)));
        assert_eq!(int("1u8", true), Err("the literal -1u8 does not fit u8".into()));
        assert_eq!(int("170141183460469231731687303715884105728LL", true), Ok(Literal::I128(i128::MIN)));
        assert!(int("999999999999999999999999999999999999999999LL", false).is_err());
        assert!(int("0x", false).is_err());
        assert!(int("5q", false).is_err());
    }

    #[test]
    fn strings_unescape() {
        assert_eq!(unescape("a\\n\\x41\\\\\\\"ü\\0", Span::NONE), Ok("a\nA\\\"ü\0".as_bytes().to_vec()));
        assert!(unescape("\\q", Span::NONE).is_err());
        assert!(unescape("\\x4", Span::NONE).is_err());
    }
}
