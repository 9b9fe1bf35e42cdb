//! Which Arrow type a column becomes, and how its stored values turn into that type.
//!
//! ```text
//! INT64, DECIMAL(15, 2)   Decimal128(15, 2) in arrow-rs   ->  Decimal64(15, 2), the bytes as they are
//! FIXED(7), DECIMAL(15,2)                                 ->  Decimal64(15, 2), big-endian bytes turned
//! BYTE_ARRAY, STRING      Utf8                            ->  Utf8View, views into the page
//! INT96                   Timestamp(ns)                   ->  Timestamp(ns), nanoseconds of a Julian day added up
//! ```

use arrow::datatypes::{DataType, TimeUnit};
use parquet::basic::{LogicalType, TimeUnit as StoredUnit, Type};
use parquet::schema::types::ColumnDescriptor;

use crate::error::{Result, unsupported};
use crate::pool::{Block, Plain};

/// The Arrow type to decode a column to, checked to be one that this crate can make of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    data_type: DataType,
    pub(crate) stored: Stored,
    pub(crate) convert: Convert,
    /// The definition level of a value; lower ones are nulls, of the value or of a struct around it.
    pub(crate) max_level: u8,
}

/// The shape of a value in PLAIN encoding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stored {
    Bits,
    /// Little-endian numbers of 4 or 8 bytes, or opaque bytes of any fixed length.
    Fixed(usize),
    Bytes {
        utf8: bool,
    },
}

/// How a fixed-width stored value becomes an Arrow value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Convert {
    /// Same bytes.
    Same,
    /// Low bytes of an INT32: what writers of Int8 .. UInt16 mean.
    Low(usize),
    /// A sign-extended decimal.
    Widen(usize),
    /// A decimal's big-endian bytes to 4, 8 or 16 little-endian ones.
    BigEndian(usize),
    /// INT96: nanoseconds within a Julian day, and the day, to a timestamp.
    JulianDay(TimeUnit),
}

impl Target {
    /// Decodes `column` to `data_type`, when that is supported.
    pub fn new(column: &ColumnDescriptor, data_type: &DataType) -> Result<Self> {
        use DataType as D;
        if column.max_rep_level() > 0 {
            return unsupported(format!("the repeated column {}", column.path()));
        }
        let Ok(max_level) = u8::try_from(column.max_def_level()) else {
            return unsupported(format!("the definition levels of {}", column.path()));
        };
        let len = column.type_length().max(0) as usize;
        let no = || unsupported(format!("{} as {data_type} of {}", column.physical_type(), column.path()));
        let (stored, convert) = match (column.physical_type(), data_type) {
            (Type::BOOLEAN, D::Boolean) => (Stored::Bits, Convert::Same),
            (Type::INT32, D::Int8 | D::UInt8) => (Stored::Fixed(4), Convert::Low(1)),
            (Type::INT32, D::Int16 | D::UInt16) => (Stored::Fixed(4), Convert::Low(2)),
            (Type::INT32, D::Int32 | D::UInt32 | D::Date32 | D::Time32(_)) => (Stored::Fixed(4), Convert::Same),
            (Type::INT64, D::Int64 | D::UInt64 | D::Duration(_)) => (Stored::Fixed(8), Convert::Same),
            (Type::INT64, D::Timestamp(unit, _) | D::Time64(unit)) if unit_agrees(column, unit) => {
                (Stored::Fixed(8), Convert::Same)
            }
            (Type::INT96, D::Timestamp(unit, _)) => (Stored::Fixed(12), Convert::JulianDay(*unit)),
            (Type::FLOAT, D::Float32) => (Stored::Fixed(4), Convert::Same),
            (Type::DOUBLE, D::Float64) => (Stored::Fixed(8), Convert::Same),
            (Type::INT32, decimal) if is_decimal(column, decimal) => match width(decimal) {
                4 => (Stored::Fixed(4), Convert::Same),
                wide => (Stored::Fixed(4), Convert::Widen(wide)),
            },
            (Type::INT64, decimal) if is_decimal(column, decimal) => match width(decimal) {
                8 => (Stored::Fixed(8), Convert::Same),
                16 => (Stored::Fixed(8), Convert::Widen(16)),
                _ => return no(),
            },
            (Type::FIXED_LEN_BYTE_ARRAY, decimal) if is_decimal(column, decimal) => {
                if len == 0 || len > width(decimal) {
                    return no();
                }
                (Stored::Fixed(len), Convert::BigEndian(width(decimal)))
            }
            (Type::FIXED_LEN_BYTE_ARRAY, D::FixedSizeBinary(n)) if *n == len as i32 && len > 0 => {
                (Stored::Fixed(len), Convert::Same)
            }
            (Type::FIXED_LEN_BYTE_ARRAY, D::Float16) if len == 2 => (Stored::Fixed(2), Convert::Same),
            (Type::BYTE_ARRAY, D::Utf8View) => (Stored::Bytes { utf8: true }, Convert::Same),
            (Type::BYTE_ARRAY, D::BinaryView) => (Stored::Bytes { utf8: false }, Convert::Same),
            _ => return no(),
        };
        Ok(Self { data_type: data_type.clone(), stored, convert, max_level })
    }

    /// Whether a row may have no value.
    pub(crate) fn is_nullable(&self) -> bool {
        self.max_level > 0
    }

    /// The narrowest type for `column`, given the type that arrow-rs reads it as.
    pub fn narrowest(column: &ColumnDescriptor, arrow: &DataType) -> Result<Self> {
        let stored_len = match column.physical_type() {
            Type::INT32 => 4,
            Type::INT64 => 8,
            _ => column.type_length().max(0) as usize,
        };
        let narrow = match arrow {
            DataType::Decimal128(p, s) if *p <= 9 && stored_len <= 4 => DataType::Decimal32(*p, *s),
            DataType::Decimal128(p, s) if *p <= 18 && stored_len <= 8 => DataType::Decimal64(*p, *s),
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            other => other.clone(),
        };
        Self::new(column, &narrow)
    }

    /// The type of the decoded values.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Bytes of a decoded fixed-width value.
    pub(crate) fn width(&self) -> usize {
        match (self.stored, self.convert) {
            (_, Convert::Low(to) | Convert::Widen(to) | Convert::BigEndian(to)) => to,
            (_, Convert::JulianDay(_)) => 8,
            (Stored::Fixed(len), Convert::Same) => len,
            (Stored::Bytes { .. }, _) => 16,
            (Stored::Bits, _) => 0,
        }
    }
}

fn width(decimal: &DataType) -> usize {
    decimal.primitive_width().unwrap_or(0)
}

/// Whether `data_type` is a decimal of at most 128 bits with the column's scale, and not too few digits.
fn is_decimal(column: &ColumnDescriptor, data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => {
            column.type_precision() > 0 && *s as i32 == column.type_scale() && *p as i32 >= column.type_precision()
        }
        _ => false,
    }
}

/// Units are read as stored: a column annotated with another unit needs arrow-rs's judgement.
fn unit_agrees(column: &ColumnDescriptor, unit: &TimeUnit) -> bool {
    let stored = match column.logical_type_ref() {
        Some(LogicalType::Timestamp(t)) => t.unit,
        Some(LogicalType::Time(t)) => t.unit,
        Some(_) => return false,
        // Only Arrow's own schema in the file knows; a converted type implies the logical one.
        None => return true,
    };
    matches!(
        (stored, unit),
        (StoredUnit::MILLIS, TimeUnit::Millisecond)
            | (StoredUnit::MICROS, TimeUnit::Microsecond)
            | (StoredUnit::NANOS, TimeUnit::Nanosecond)
    )
}

impl Convert {
    /// Converts whole stored values of `len` bytes into the elements of `out` from `at` on.
    pub(crate) fn apply(self, stored: &[u8], len: usize, out: &mut Block, at: usize) {
        match (self, len) {
            (Convert::Same, _) => {
                let start = at * len;
                out.as_mut()[start..start + stored.len()].copy_from_slice(stored);
            }
            (Convert::Low(1), _) => each(stored, len, out, at, |v| v[0]),
            (Convert::Low(_), _) => each(stored, len, out, at, |v| u16::from_le_bytes([v[0], v[1]])),
            (Convert::Widen(8), _) => each(stored, len, out, at, |v| sign_extended(v) as u64),
            (Convert::Widen(_), _) => each(stored, len, out, at, sign_extended),
            (Convert::BigEndian(4), _) => {
                each_ending(stored, len, out, at, |word, shift| (i64::from_be_bytes(word) << shift >> shift) as u32)
            }
            (Convert::BigEndian(8), _) => {
                each_ending(stored, len, out, at, |word, shift| (i64::from_be_bytes(word) << shift >> shift) as u64)
            }
            (Convert::BigEndian(_), _) => {
                each_ending(stored, len, out, at, |word, shift| (i128::from_be_bytes(word) << shift >> shift) as u128)
            }
            (Convert::JulianDay(TimeUnit::Second), _) => each(stored, len, out, at, timestamp::<86_400>),
            (Convert::JulianDay(TimeUnit::Millisecond), _) => each(stored, len, out, at, timestamp::<86_400_000>),
            (Convert::JulianDay(TimeUnit::Microsecond), _) => each(stored, len, out, at, timestamp::<86_400_000_000>),
            (Convert::JulianDay(TimeUnit::Nanosecond), _) => each(stored, len, out, at, timestamp::<NANOSECONDS_A_DAY>),
        }
    }
}

/// The Julian day on which 1970 began.
const EPOCH: i64 = 2_440_588;
const NANOSECONDS_A_DAY: i64 = 86_400_000_000_000;

/// The timestamp that an INT96 is, in units of which so many are a day. It wraps around as in arrow-rs.
fn timestamp<const UNITS_A_DAY: i64>(value: &[u8]) -> u64 {
    let (Some((nanoseconds, rest)), unit) = (value.split_first_chunk(), NANOSECONDS_A_DAY / UNITS_A_DAY) else {
        return 0;
    };
    let day = rest.first_chunk().map_or(0, |day| i64::from(i32::from_le_bytes(*day)));
    ((day - EPOCH).wrapping_mul(UNITS_A_DAY)).wrapping_add(i64::from_le_bytes(*nanoseconds) / unit) as u64
}

fn each<T: Plain>(stored: &[u8], len: usize, out: &mut Block, at: usize, f: impl Fn(&[u8]) -> T) {
    let out = &mut out.as_mut_slice::<T>()[at..];
    for (slot, value) in out.iter_mut().zip(stored.chunks_exact(len)) {
        *slot = f(value);
    }
}

fn sign_extended(value: &[u8]) -> u128 {
    match value.try_into() {
        Ok(bytes) => i32::from_le_bytes(bytes) as i128 as u128,
        Err(_) => value.try_into().map_or(0, |bytes| i64::from_le_bytes(bytes) as i128 as u128),
    }
}

/// Numbers of `len` bytes, the last of each least. `f` is given the `N` bytes that end with a number, so that all are
/// read as one word, and by how many bits to shift what is before the number out of it.
fn each_ending<T: Plain, const N: usize>(
    stored: &[u8],
    len: usize,
    out: &mut Block,
    at: usize,
    f: impl Fn([u8; N], usize) -> T,
) {
    let shift = (N - len) * 8;
    let mut out = out.as_mut_slice::<T>()[at..].iter_mut();
    // The first of them have fewer bytes before them.
    let first = N.div_ceil(len) - 1;
    for (value, slot) in stored.chunks_exact(len).take(first).zip(&mut out) {
        let mut word = [0; N];
        word[N - len..].copy_from_slice(value);
        *slot = f(word, shift);
    }
    let before = (first + 1) * len - N;
    let words = stored.get(before..).unwrap_or_default().windows(N).step_by(len);
    for (slot, word) in out.zip(words) {
        if let Ok(word) = word.try_into() {
            *slot = f(word, shift);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferPool;

    #[test]
    fn conversions() {
        let mut out = BufferPool::new(0).take(64);
        Convert::BigEndian(8).apply(&[0xff, 0xfe, 0x01, 0x00], 2, &mut out, 1);
        assert_eq!(out.as_slice::<u64>()[1..3], [(-2i64) as u64, 256]);
        for len in 1..=16 {
            let numbers: Vec<i128> = (0..40).map(|i| (i * 37 - 700) >> if len == 1 { 4 } else { 0 }).collect();
            let stored: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()[16 - len..].to_vec()).collect();
            let mut out = BufferPool::new(0).take(41 * 16);
            for count in [0, 1, 2, 17, 40] {
                Convert::BigEndian(16).apply(&stored[..count * len], len, &mut out, 1);
                let read: Vec<i128> = out.as_slice::<u128>()[1..][..count].iter().map(|&n| n as i128).collect();
                assert_eq!(read, numbers[..count], "{len} bytes");
            }
            if len <= 8 {
                Convert::BigEndian(8).apply(&stored, len, &mut out, 0);
                assert!(out.as_slice::<u64>().iter().zip(&numbers).all(|(&read, &n)| i128::from(read as i64) == n));
            }
        }
        Convert::Widen(16).apply(&(-7i32).to_le_bytes(), 4, &mut out, 0);
        assert_eq!(out.as_slice::<u128>()[0], -7i128 as u128);
        Convert::Widen(16).apply(&(-7i64).to_le_bytes(), 8, &mut out, 1);
        assert_eq!(out.as_slice::<u128>()[1], -7i128 as u128);
        Convert::Low(2).apply(&[1, 2, 3, 4, 5, 6, 7, 8], 4, &mut out, 0);
        assert_eq!(out.as_slice::<u16>()[..2], [0x201, 0x605]);
    }
}
