//! Keys of 128 bits for which nothing need be known of other rows' values: what fits of the sort keys, each in all of
//! its type's bits.
//!
//! ```text
//! ORDER BY a DESC, s        is a null? | !a | is s null? | s's first seven bytes | s's length, up to eight
//! ```
//! A row with the lesser key comes first. Rows with the same key are equal where [`Prefix::is_exact`] says so, else
//! only the values can tell.

use arrow::compute::SortOptions;
use arrow::datatypes::DataType;

use crate::column::Values;

/// So many bits below a string's bytes hold its length.
const LENGTH_BITS: u32 = 5;
const BYTES_MAX: u32 = 15;
/// Decimals of so many digits at most fit 64 bits.
const SHORT_DIGITS: u8 = 18;

#[derive(Debug)]
pub(crate) struct Prefix {
    parts: Vec<Part>,
    /// Whether there is a part of each sort key.
    is_whole: bool,
}

#[derive(Debug)]
struct Part {
    options: SortOptions,
    kind: Kind,
    bits: u32,
    shift: u32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    /// A code without so many low bits.
    Fixed(u32),
    /// A decimal that is expected to fit 64 bits: those that do not are the least or greatest that do.
    Short,
    /// The first bytes of a string and its length, up to one more.
    Text(u32),
}

impl Prefix {
    /// For sort keys with such values.
    pub(crate) fn of<'a>(keys: impl IntoIterator<Item = (&'a Values, &'a DataType, SortOptions)>) -> Prefix {
        let mut prefix = Prefix { parts: Vec::new(), is_whole: true };
        let mut left = u128::BITS;
        for (values, data_type, options) in keys {
            // A string may go on, so that nothing can come below it.
            let after_text = prefix.parts.last().is_some_and(|part| !matches!(part.kind, Kind::Fixed(0) | Kind::Short));
            if left <= 1 + LENGTH_BITS + u8::BITS || after_text {
                prefix.is_whole = false;
                break;
            }
            left -= 1;
            let (kind, bits) = if values.is_text() {
                let bytes = ((left - LENGTH_BITS) / u8::BITS).min(BYTES_MAX);
                (Kind::Text(bytes), bytes * u8::BITS + LENGTH_BITS)
            } else if matches!(data_type, DataType::Decimal128(digits, _) if *digits <= SHORT_DIGITS) && left >= 64 {
                (Kind::Short, 64)
            } else {
                let drop = values.code_bits().saturating_sub(left);
                (Kind::Fixed(drop), values.code_bits() - drop)
            };
            left -= bits;
            prefix.parts.push(Part { options, kind, bits, shift: left });
        }
        prefix
    }

    /// The keys of the first rows of these values.
    pub(crate) fn keys(&self, values: &[Values], keys: &mut [u128]) {
        keys.fill(0);
        for (part, values) in self.parts.iter().zip(values) {
            let null = u128::from(!part.options.nulls_first) << part.bits << part.shift;
            let valid = u128::from(part.options.nulls_first) << part.bits << part.shift;
            for (row, key) in keys.iter_mut().enumerate() {
                *key |= if values.is_null(row) { null } else { valid | part.code(values, row) << part.shift };
            }
        }
    }

    /// Whether rows with this key are equal.
    pub(crate) fn is_exact(&self, key: u128) -> bool {
        self.is_whole && self.parts.iter().all(|part| part.is_exact(key))
    }

    /// Whether all rows with the same key are equal.
    pub(crate) fn is_always_exact(&self) -> bool {
        self.is_whole && self.parts.iter().all(|part| part.kind == Kind::Fixed(0))
    }
}

impl Part {
    fn mask(&self) -> u128 {
        u128::MAX >> (u128::BITS - self.bits)
    }

    fn code(&self, values: &Values, row: usize) -> u128 {
        let code = values.code(row);
        let code = match self.kind {
            Kind::Fixed(drop) => code >> drop,
            Kind::Short => {
                let value = (code ^ 1 << 127) as i128;
                let short = value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
                u128::from(short as u64 ^ 1 << 63)
            }
            Kind::Text(bytes) => {
                let length = values.text_length(row).min(bytes as usize + 1) as u128;
                code >> (u128::BITS - bytes * u8::BITS) << LENGTH_BITS | length
            }
        };
        if self.options.descending { code ^ self.mask() } else { code }
    }

    fn is_exact(&self, key: u128) -> bool {
        let is_null = (key >> self.shift >> self.bits & 1 == 0) == self.options.nulls_first;
        let code = key >> self.shift & self.mask();
        let code = if self.options.descending { code ^ self.mask() } else { code };
        is_null
            || match self.kind {
                Kind::Fixed(drop) => drop == 0,
                Kind::Short => code != 0 && code != self.mask(),
                Kind::Text(bytes) => code & ((1 << LENGTH_BITS) - 1) <= bytes.into(),
            }
    }
}
