//! Intrinsics: typed functions that are neither operators nor builders, each with a meaning in the interpreter and a
//! lowering in the compiler. They are called by name: `checked_add(x, y)`.
//!
//! An addition is a variant here with its name and its typing rule; the compiler then points at what is missing.

use crate::ty::{ScalarKind, Type, may_be_dense};

/// The intrinsics, each with its type and its meaning.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Intrinsic {
    /// `(T, T) -> T` for integers `T`: the sum, or the runtime error Overflow.
    CheckedAdd,
    /// `(T, T) -> T` for integers `T`: the difference, or the runtime error Overflow.
    CheckedSub,
    /// `(T, T) -> T` for integers `T`: the product, or the runtime error Overflow.
    CheckedMul,
    /// `(T, T) -> T` for signed integers `T`: the quotient rounded half away from zero. Zero divisor: DivisionByZero.
    RoundDiv,
    /// `(T) -> T` for signed integers `T`: `x` with all bits equal to the sign flipped, so never negative. The `|` of
    /// magnitudes bounds a column: if it is below `2^k`, every value lies in `-2^k ..= 2^k - 1`.
    Magnitude,
    /// `(F) -> i32 | i64` for floats `F` of the same width: an integer that orders as IEEE 754's `totalOrder`, but -0
    /// equals 0. A NaN is largest, or smallest if its sign is set: what DataFusion's comparisons do.
    OrderKey,
    /// `(i32) -> f32`, `(i64) -> f64`: the float of which this is the order key.
    FromOrderKey,
    /// `(dict[K,V], K) -> bool`: false only if the key is absent. May be true for an absent key; the interpreter
    /// answers exactly. A prefilter (Bloom filter, bitmap) before a lookup.
    MayContain,
    /// `(dict[K,vec[V]], vec[V]) -> i64`: where a group that a lookup in the dictionary gave begins, if the values of
    /// all groups are counted, one group after the other. In which order the groups come is left to the engine; a
    /// program may only rely on the numbers being different. Zero for the empty group of a missed `optlookup`, and any
    /// number for vectors from elsewhere.
    FirstRow,
    /// `(dict[K,V], K) -> u32`: the hash by which the table looks for the key, the same for equal keys. This and what
    /// follows from it is for tables that look for keys by hash alone, of which [`may_be_dense`] is false.
    HashKey,
    /// `(dict[K,V], u32) -> bool`: false only if no key of the table has this hash.
    MayContainHashed,
    /// `(dict[K,V], u32, K) -> u32`: the row of a key that has this hash, zero if there is none. Which numbers rows
    /// have is left to the engine. Programs cannot call this or [`Intrinsic::RowValue`] by name: any other number may
    /// lead anywhere.
    FindRow,
    /// `(dict[K,V], u32) -> V`: the value in a row that [`Intrinsic::FindRow`] has found in the table. There is none in
    /// row zero.
    RowValue,
    /// `(vec[i8|u8], same) -> bool`: whether the first starts with the second.
    StartsWith,
    /// `(vec[i8|u8], same) -> bool`: whether the first ends with the second.
    EndsWith,
    /// `(vec[i8|u8], same) -> bool`: whether the second occurs in the first.
    Contains,
    /// `(vec[i8|u8], same) -> bool`: SQL LIKE over UTF-8 text; `%`, `_` (one character) and `\` as the escape.
    Like,
    /// `(vec[i8|u8], same) -> bool`: SQL ILIKE with a pattern of ASCII characters: LIKE of what is left of text and
    /// pattern when letters of ASCII are lower-case ones, the Kelvin sign is `k` and the long s is `s`.
    Ilike,
    /// `(vec[i8|u8], same, i64) -> i64`: the byte at which the second occurs first in the first, not before that byte;
    /// -1 if it does not.
    Find,
    /// `(vec[i8|u8], same, i64) -> i64`: the byte at which the field of that number, counted from 1, begins in text
    /// whose fields are separated by the second; -1 if it has fewer, or if the second is empty.
    FieldStart,
    /// `(vec[i8|u8], same) -> i64`: the byte at which the first character of UTF-8 text begins that is not one of those
    /// of the second; the length of the text if there is none.
    TrimStart,
    /// `(vec[i8|u8], same) -> i64`: the byte after the last character that is not one of those of the second; 0 if
    /// there is none.
    TrimEnd,
    /// `(vec[i8|u8]) -> bool`: whether the bytes are UTF-8.
    IsUtf8,
    /// `(vec[i8|u8]) -> i64`: how many characters UTF-8 text has: its bytes but those that continue a character.
    CharLength,
    /// `(vec[i8|u8], i64) -> i64`: the byte at which a character begins, counted from 0; the length of the text if it
    /// has no more characters, 0 below 0.
    CharOffset,
    /// `(i32) -> i32`: the year of a number of days since 1970-01-01 in the proleptic Gregorian calendar.
    Year,
    /// `(i32) -> i32`: the month, 1 to 12.
    Month,
    /// `(i32) -> i32`: the day of the month, 1 to 31.
    Day,
    /// `(i64, vec[i64], vec[i64], vec[i64], vec[i64], vec[i64]) -> i64`: how many elements an `nditer` gives over data
    /// of that length with those starts, ends, strides, shape and strides in the data, or the runtime error
    /// BadIterator.
    NdCount,
    /// `(vec[u8]) -> {u64}`: what stands for all bytes that are equal to these, and is compared and hashed without a
    /// look at them. It is an address in compiled code, so programs cannot call this or [`Intrinsic::Interned`] by
    /// name.
    Intern,
    /// `({u64}) -> vec[u8]`: the bytes that were interned; none for zero.
    Interned,
}

impl Intrinsic {
    /// Each that programs can call, in the order of the variants.
    pub const ALL: [Intrinsic; 25] = [
        Intrinsic::CheckedAdd,
        Intrinsic::CheckedSub,
        Intrinsic::CheckedMul,
        Intrinsic::RoundDiv,
        Intrinsic::Magnitude,
        Intrinsic::OrderKey,
        Intrinsic::FromOrderKey,
        Intrinsic::MayContain,
        Intrinsic::FirstRow,
        Intrinsic::StartsWith,
        Intrinsic::EndsWith,
        Intrinsic::Contains,
        Intrinsic::Like,
        Intrinsic::Ilike,
        Intrinsic::Find,
        Intrinsic::FieldStart,
        Intrinsic::TrimStart,
        Intrinsic::TrimEnd,
        Intrinsic::IsUtf8,
        Intrinsic::CharLength,
        Intrinsic::CharOffset,
        Intrinsic::Year,
        Intrinsic::Month,
        Intrinsic::Day,
        Intrinsic::NdCount,
    ];

    /// The name by which programs call it.
    pub fn name(self) -> &'static str {
        match self {
            Intrinsic::CheckedAdd => "checked_add",
            Intrinsic::CheckedSub => "checked_sub",
            Intrinsic::CheckedMul => "checked_mul",
            Intrinsic::RoundDiv => "round_div",
            Intrinsic::Magnitude => "magnitude",
            Intrinsic::OrderKey => "order_key",
            Intrinsic::FromOrderKey => "from_order_key",
            Intrinsic::MayContain => "may_contain",
            Intrinsic::FirstRow => "first_row",
            Intrinsic::HashKey => "hash_key",
            Intrinsic::MayContainHashed => "may_contain_hashed",
            Intrinsic::FindRow => "find_row",
            Intrinsic::RowValue => "row_value",
            Intrinsic::StartsWith => "starts_with",
            Intrinsic::EndsWith => "ends_with",
            Intrinsic::Contains => "contains",
            Intrinsic::Like => "like",
            Intrinsic::Ilike => "ilike",
            Intrinsic::Find => "find",
            Intrinsic::FieldStart => "field_start",
            Intrinsic::TrimStart => "trim_start",
            Intrinsic::TrimEnd => "trim_end",
            Intrinsic::IsUtf8 => "is_utf8",
            Intrinsic::CharLength => "char_length",
            Intrinsic::CharOffset => "char_offset",
            Intrinsic::Year => "year",
            Intrinsic::Month => "month",
            Intrinsic::Day => "day",
            Intrinsic::NdCount => "nd_count",
            Intrinsic::Intern => "intern",
            Intrinsic::Interned => "interned",
        }
    }

    /// The type of a call with these arguments, or `None` if it takes others.
    pub fn result_type(self, args: &[Type]) -> Option<Type> {
        match (self, args) {
            (Intrinsic::CheckedAdd | Intrinsic::CheckedSub | Intrinsic::CheckedMul, [a, b]) => {
                (a == b && a.as_scalar()?.is_integer()).then(|| a.clone())
            }
            (Intrinsic::RoundDiv, [a, b]) => (a == b && a.as_scalar()?.is_signed()).then(|| a.clone()),
            (Intrinsic::Magnitude, [a]) => a.as_scalar()?.is_signed().then(|| a.clone()),
            (Intrinsic::OrderKey, [Type::Scalar(ScalarKind::F32)]) => Some(Type::I32),
            (Intrinsic::OrderKey, [Type::Scalar(ScalarKind::F64)]) => Some(Type::I64),
            (Intrinsic::FromOrderKey, [Type::Scalar(ScalarKind::I32)]) => Some(Type::Scalar(ScalarKind::F32)),
            (Intrinsic::FromOrderKey, [Type::Scalar(ScalarKind::I64)]) => Some(Type::Scalar(ScalarKind::F64)),
            (Intrinsic::MayContain, [Type::Dict(key, _), k]) => (**key == *k).then_some(Type::BOOL),
            (
                Intrinsic::HashKey | Intrinsic::MayContainHashed | Intrinsic::FindRow | Intrinsic::RowValue,
                [Type::Dict(key, value), rest @ ..],
            ) => self.of_hashed(key, value, rest),
            (Intrinsic::FirstRow, [Type::Dict(_, values), group]) => {
                (**values == *group && !group.is_bytes() && group.element().is_some()).then_some(Type::I64)
            }
            (
                Intrinsic::StartsWith | Intrinsic::EndsWith | Intrinsic::Contains | Intrinsic::Like | Intrinsic::Ilike,
                [a, b],
            ) => (a == b && a.is_bytes()).then_some(Type::BOOL),
            (Intrinsic::TrimStart | Intrinsic::TrimEnd, [a, b])
            | (Intrinsic::Find | Intrinsic::FieldStart, [a, b, Type::I64]) => {
                (a == b && a.is_bytes()).then_some(Type::I64)
            }
            (Intrinsic::IsUtf8, [a]) => a.is_bytes().then_some(Type::BOOL),
            (Intrinsic::CharLength, [a]) | (Intrinsic::CharOffset, [a, Type::I64]) => a.is_bytes().then_some(Type::I64),
            (Intrinsic::Year | Intrinsic::Month | Intrinsic::Day, [a]) => (*a == Type::I32).then_some(Type::I32),
            (Intrinsic::NdCount, [Type::I64, lists @ ..]) => {
                (lists.len() == 5 && lists.iter().all(|list| list.element() == Some(&Type::I64))).then_some(Type::I64)
            }
            (Intrinsic::Intern, [a]) => (*a == Type::vec(Type::U8)).then(Type::interned),
            (Intrinsic::Interned, [a]) => (*a == Type::interned()).then(|| Type::vec(Type::U8)),
            _ => None,
        }
    }

    /// The type of a call that concerns hashes and rows of a dictionary.
    fn of_hashed(self, key: &Type, value: &Type, rest: &[Type]) -> Option<Type> {
        match (self, rest) {
            _ if may_be_dense(key, value) => None,
            (Intrinsic::HashKey, [k]) => (key == k).then_some(Type::U32),
            (Intrinsic::MayContainHashed, [Type::U32]) => Some(Type::BOOL),
            (Intrinsic::FindRow, [Type::U32, k]) => (key == k).then_some(Type::U32),
            (Intrinsic::RowValue, [Type::U32]) => Some(value.clone()),
            _ => None,
        }
    }

    /// Whether a call can raise a runtime error, so that it may not be moved to where it was not evaluated before.
    pub fn can_fail(self) -> bool {
        matches!(
            self,
            Intrinsic::CheckedAdd
                | Intrinsic::CheckedSub
                | Intrinsic::CheckedMul
                | Intrinsic::RoundDiv
                | Intrinsic::NdCount
        )
    }
}
