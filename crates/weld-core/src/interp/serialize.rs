//! The bytes of `serialize`: a header, which is a format version and a tag of the type, then the value.
//!
//! ```text
//! bytes   := 'W' version(=1) type value
//! type    := code of a scalar (below)
//!          | 0x20 type                 vector
//!          | 0x21 type type            dictionary: key, value
//!          | 0x22 count:u32 type*      struct
//! value   := little-endian bytes of a scalar (bool one byte, 0 or 1; i128 sixteen)
//!          | length:u64 value*         vector
//!          | length:u64 (key value)*   dictionary
//!          | value*                    struct
//! ```
//! Scalar codes: bool 0, i8 1, i16 2, i32 3, i64 4, i128 5, u8 6, u16 7, u32 8, u64 9, f32 10, f64 11. All integers are
//! little-endian and nothing is padded. Entries of a dictionary come in any order. Bytes after the value are an error,
//! as is a key that occurs twice.
//!
//! `serialize(5)` is `57 01 03 05 00 00 00`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compare::Key;
use super::memory::{Charge, Meter};
use super::value::{Dictionary, Value, Vector};
use crate::builder::Failure;
use crate::ir::Literal;
use crate::runtime_error::RuntimeErrorKind;
use crate::ty::{ScalarKind, Type};

const VERSION: u8 = 1;
const VECTOR: u8 = 0x20;
const DICTIONARY: u8 = 0x21;
const STRUCT: u8 = 0x22;

const BAD: Failure = (RuntimeErrorKind::BadSerialization, [0, 0]);

/// The version and the tag of a type, with which its values' bytes begin. `None` for SIMD values and builders, which
/// cannot be stored.
pub fn header(ty: &Type) -> Option<Vec<u8>> {
    let mut bytes = vec![b'W', VERSION];
    tag(ty, &mut bytes)?;
    Some(bytes)
}

/// Whether the bytes are a vector of numbers of this type, so that reading them cannot fail.
pub fn holds_numbers(bytes: &[u8], ty: &Type) -> bool {
    let kind = ty.element().and_then(Type::as_scalar).filter(|kind| *kind != ScalarKind::Bool);
    let (Some(kind), Some(header)) = (kind, header(ty)) else { return false };
    let Some((length, values)) = bytes.strip_prefix(&header[..]).and_then(<[u8]>::split_first_chunk::<8>) else {
        return false;
    };
    u64::from_le_bytes(*length).checked_mul(kind.bytes() as u64) == Some(values.len() as u64)
}

fn tag(ty: &Type, bytes: &mut Vec<u8>) -> Option<()> {
    match ty {
        Type::Scalar(kind) => bytes.push(scalar_code(*kind)),
        Type::Vec(element) => {
            bytes.push(VECTOR);
            tag(element, bytes)?;
        }
        Type::Dict(key, value) => {
            bytes.push(DICTIONARY);
            tag(key, bytes)?;
            tag(value, bytes)?;
        }
        Type::Struct(fields) => {
            bytes.push(STRUCT);
            bytes.extend((fields.len() as u32).to_le_bytes());
            for field in fields.iter() {
                tag(field, bytes)?;
            }
        }
        Type::Simd(_) | Type::Builder(_) => return None,
    }
    Some(())
}

/// The code of a scalar in a tag.
pub fn scalar_code(kind: ScalarKind) -> u8 {
    match kind {
        ScalarKind::Bool => 0,
        ScalarKind::I8 => 1,
        ScalarKind::I16 => 2,
        ScalarKind::I32 => 3,
        ScalarKind::I64 => 4,
        ScalarKind::I128 => 5,
        ScalarKind::U8 => 6,
        ScalarKind::U16 => 7,
        ScalarKind::U32 => 8,
        ScalarKind::U64 => 9,
        ScalarKind::F32 => 10,
        ScalarKind::F64 => 11,
    }
}

/// The bytes of a value of this type.
pub fn serialize(value: &Value, ty: &Type) -> Option<Vec<u8>> {
    let mut bytes = header(ty)?;
    write(value, &mut bytes)?;
    Some(bytes)
}

fn write(value: &Value, bytes: &mut Vec<u8>) -> Option<()> {
    match value {
        Value::Scalar(literal) => write_scalar(*literal, bytes),
        Value::Vec(items) => {
            bytes.extend((items.len() as u64).to_le_bytes());
            items.iter().try_for_each(|item| write(item, bytes))?;
        }
        Value::Struct(fields) => fields.iter().try_for_each(|field| write(field, bytes))?,
        Value::Dict(dict) => {
            bytes.extend((dict.len() as u64).to_le_bytes());
            for (key, value) in dict.iter() {
                write(key, bytes)?;
                write(value, bytes)?;
            }
        }
        Value::Simd(_) | Value::Builder(_) => return None,
    }
    Some(())
}

fn write_scalar(literal: Literal, bytes: &mut Vec<u8>) {
    bytes.extend(&literal.bits().to_le_bytes()[..literal.kind().bytes()]);
}

/// The value of bytes that `serialize` made of a value of this type.
pub(super) fn deserialize(bytes: &[u8], ty: &Type, meter: &Arc<Meter>) -> Result<Value, Failure> {
    let header = header(ty).ok_or(BAD)?;
    let mut reader = Reader { rest: bytes.strip_prefix(&*header).ok_or(BAD)?, meter };
    let value = reader.value(ty)?;
    if reader.rest.is_empty() { Ok(value) } else { Err(BAD) }
}

struct Reader<'a> {
    rest: &'a [u8],
    meter: &'a Arc<Meter>,
}

impl Reader<'_> {
    fn value(&mut self, ty: &Type) -> Result<Value, Failure> {
        Ok(match ty {
            Type::Scalar(kind) => Value::Scalar(self.scalar(*kind)?),
            Type::Vec(element) => {
                let mut charge = Charge::new(self.meter);
                let mut items = Vec::new();
                for _ in 0..self.length()? {
                    let item = self.value(element)?;
                    charge.grow(item.footprint())?;
                    items.push(item);
                }
                Value::Vec(Vector::charged(items, charge))
            }
            Type::Struct(fields) => {
                let fields: Result<_, Failure> = fields.iter().map(|field| self.value(field)).collect();
                Value::Struct(fields?)
            }
            Type::Dict(key, value) => {
                let mut charge = Charge::new(self.meter);
                let mut entries = BTreeMap::new();
                for _ in 0..self.length()? {
                    let (key, value) = (self.value(key)?, self.value(value)?);
                    charge.grow(key.footprint() + value.footprint())?;
                    if entries.insert(Key::new(&key), value).is_some() {
                        return Err(BAD);
                    }
                }
                Value::Dict(Dictionary::charged(entries, charge))
            }
            Type::Simd(_) | Type::Builder(_) => return Err(BAD),
        })
    }

    fn scalar(&mut self, kind: ScalarKind) -> Result<Literal, Failure> {
        let mut wide = [0u8; 16];
        wide[..kind.bytes()].copy_from_slice(self.take(kind.bytes())?);
        let bits = i128::from_le_bytes(wide);
        Ok(match kind {
            ScalarKind::Bool if bits > 1 => return Err(BAD),
            ScalarKind::F32 => Literal::F32(f32::from_bits(bits as u32)),
            ScalarKind::F64 => Literal::F64(f64::from_bits(bits as u64)),
            kind => super::scalar::cast(Literal::I128(bits), kind),
        })
    }

    fn length(&mut self) -> Result<u64, Failure> {
        let mut bytes = [0u8; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn take(&mut self, count: usize) -> Result<&[u8], Failure> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(BAD)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(value: Value, ty: Type) {
        let meter = Meter::new(1 << 20);
        let bytes = serialize(&value, &ty).expect("no builders");
        assert_eq!(deserialize(&bytes, &ty, &meter), Ok(value));
        for cut in 0..bytes.len() {
            assert!(deserialize(&bytes[..cut], &ty, &meter).is_err(), "cut at {cut}");
        }
        assert!(deserialize(&[&*bytes, &[0]].concat(), &ty, &meter).is_err());
        assert!(deserialize(&bytes, &Type::vec(ty), &meter).is_err());
    }

    #[test]
    fn round_trips() {
        round_trip(Value::i32(-5), Type::I32);
        round_trip(Value::string("hello"), Type::vec(Type::I8));
        let entry = Value::structure([Value::f64(f64::NAN), Value::bool(true)]);
        let dict = Value::dict([(Value::i64(7), entry.clone()), (Value::i64(-7), entry)]);
        round_trip(dict, Type::dict(Type::I64, Type::structure([Type::F64, Type::BOOL])));
    }

    #[test]
    fn numbers_are_known_to_be_good() {
        let ty = Type::vec(Type::Scalar(ScalarKind::I16));
        let bytes = serialize(&Value::vec([1, 2].map(|x| Value::Scalar(Literal::I16(x)))), &ty).expect("no builders");
        assert!(holds_numbers(&bytes, &ty));
        assert!(!holds_numbers(&bytes[..bytes.len() - 1], &ty) && !holds_numbers(&bytes[..5], &ty));
        assert!(!holds_numbers(&bytes, &Type::vec(Type::I32)) && !holds_numbers(&bytes, &Type::vec(Type::BOOL)));
    }

    #[test]
    fn documented_bytes() {
        assert_eq!(serialize(&Value::i32(5), &Type::I32), Some(vec![0x57, 1, 3, 5, 0, 0, 0]));
    }

    #[test]
    fn huge_lengths_are_refused_promptly() {
        let meter = Meter::new(1 << 16);
        let ty = Type::vec(Type::structure([]));
        let bytes = [header(&ty).expect("no builders"), u64::MAX.to_le_bytes().to_vec()].concat();
        assert_eq!(deserialize(&bytes, &ty, &meter), Err((RuntimeErrorKind::OutOfMemory, [0, 0])));
    }
}
