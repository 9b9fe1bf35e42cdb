//! The set of a join's build keys, as a predicate over the column of the probe side that they are compared with.
//!
//! ```text
//! join on l_orderkey = o_orderkey, build side orders   ->   scan of lineitem: l_orderkey IN keys(57)
//! ```
//!
//! Where the keys are integers that lie close together the set is a bitmap and exact; elsewhere it is a Bloom filter
//! whose blocks are single words (Putze, Sanders, Singler: *Cache-, Hash- and Space-Efficient Bloom Filters*, 2007),
//! which lets about one in a hundred other values pass. Texts are known by a hash of their bytes. A null never passes:
//! it equals no key.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, RecordBatch, StringArrayType};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Schema, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use foldhash::fast::FixedState;

/// Keys further apart than this many values have no bitmap: it would take more than 8 MiB.
const BITMAP_BITS_MAX: u64 = 1 << 26;

/// A bitmap with fewer than one key in so many bits would be larger than a Bloom filter of the keys.
const BITMAP_SPREAD_MAX: u64 = 64;

/// But with so few bits, 512 KiB, it stays in a core's second-level cache, and a look at it takes 0.3 (keys one after
/// the other) to 0.95 nanoseconds (in random order) where one at a Bloom filter takes 3.6, and is never wrong.
const BITMAP_BITS_CACHED: u64 = 1 << 22;

/// Bits of a Bloom filter for each key: with four bits set in one word, about one value in a hundred passes wrongly.
const BLOOM_BITS_PER_KEY: u64 = 16;

/// More keys than this have no Bloom filter: it would not stay in a core's cache, and a look at it costs as much as the
/// join's own.
const BLOOM_KEYS_MAX: u64 = 1 << 21;

/// `$body` with the array as one of its primitive type and with what makes an integer of its values; `None` if they are
/// none.
macro_rules! integers {
    ($array:expr, |$values:ident, $key:ident| $body:expr) => {{
        macro_rules! of {
            ($ty:ty) => {
                of!($ty, |value: <$ty as ArrowPrimitiveType>::Native| Some(value as i64))
            };
            ($ty:ty, $to_key:expr) => {{
                let ($values, $key) = ($array.as_primitive::<$ty>(), $to_key);
                Some($body)
            }};
        }
        match $array.data_type() {
            DataType::Int8 => of!(Int8Type),
            DataType::Int16 => of!(Int16Type),
            DataType::Int32 => of!(Int32Type),
            DataType::Int64 => of!(Int64Type),
            DataType::UInt8 => of!(UInt8Type),
            DataType::UInt16 => of!(UInt16Type),
            DataType::UInt32 => of!(UInt32Type),
            // The `i64` of the same bits.
            DataType::UInt64 => of!(UInt64Type),
            DataType::Date32 => of!(Date32Type),
            DataType::Date64 => of!(Date64Type),
            DataType::Timestamp(TimeUnit::Second, _) => of!(TimestampSecondType),
            DataType::Timestamp(TimeUnit::Millisecond, _) => of!(TimestampMillisecondType),
            DataType::Timestamp(TimeUnit::Microsecond, _) => of!(TimestampMicrosecondType),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => of!(TimestampNanosecondType),
            DataType::Decimal32(..) => of!(Decimal32Type),
            DataType::Decimal64(..) => of!(Decimal64Type),
            DataType::Decimal128(..) => of!(Decimal128Type, |value: i128| i64::try_from(value).ok()),
            _ => None,
        }
    }};
}

/// The key that stands for a text: a hash of its bytes.
pub fn text_key(text: &[u8]) -> i64 {
    FixedState::default().hash_one(text) as i64
}

/// `$body` with the array as one of its type of texts; `None` if it has none.
macro_rules! texts {
    ($array:expr, |$texts:ident| $body:expr) => {
        match $array.data_type() {
            DataType::Utf8 => Some(texts!($array.as_string::<i32>(), $texts, $body)),
            DataType::LargeUtf8 => Some(texts!($array.as_string::<i64>(), $texts, $body)),
            DataType::Utf8View => Some(texts!($array.as_string_view(), $texts, $body)),
            _ => None,
        }
    };
    ($array:expr, $texts:ident, $body:expr) => {{
        let $texts = $array;
        $body
    }};
}

/// Calls `each` with every value that is there; `None` if one is no integer of 64 bits.
pub(crate) fn each_key(values: &dyn Array, each: impl FnMut(i64)) -> Option<()> {
    integers!(values, |values, key| all_keys(values, key, each)?)
}

fn all_keys<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    key: impl Fn(T::Native) -> Option<i64>,
    mut each: impl FnMut(i64),
) -> Option<()> {
    match values.nulls() {
        Some(_) => values.iter().flatten().try_for_each(|value| key(value).map(&mut each)),
        None => values.values().iter().try_for_each(|value| key(*value).map(&mut each)),
    }
}

/// Whether keys of the type, which is no text, have sets.
pub fn has_sets(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date32
            | DataType::Date64
            | DataType::Timestamp(..)
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
    ) || data_type.is_integer()
}

/// A set of integers. Values of other widths, dates, timestamps and decimals are integers, too.
#[derive(Debug)]
pub struct KeySet {
    keys: u64,
    /// The least key.
    min: i64,
    /// The greatest; if it is less than the least, there is no key.
    max: i64,
    /// The least and the greatest text, of which the keys are hashes.
    text_bounds: Option<(String, String)>,
    form: Form,
    /// What the query's memory pool was asked for.
    memory: Option<MemoryReservation>,
}

#[derive(Debug)]
enum Form {
    /// A bit for each value from `min` to `max`.
    Bitmap(Vec<u64>),
    /// A power of two words.
    Bloom(Vec<u64>),
}

/// A [`KeySet`] that is being filled.
#[derive(Debug)]
pub struct KeySetBuilder {
    set: KeySet,
    /// Keys that were not there yet.
    added: u64,
}

impl KeySetBuilder {
    /// For at most `keys` keys between `min` and `max`; `None` if they are too many for a set to pay.
    pub fn new(keys: u64, min: i64, max: i64) -> Option<KeySetBuilder> {
        let spread = max.wrapping_sub(min) as u64;
        let is_near = spread < BITMAP_BITS_CACHED || spread < BITMAP_BITS_MAX && spread / BITMAP_SPREAD_MAX <= keys;
        let form = match is_near {
            _ if min > max => Form::Bitmap(Vec::new()),
            true => Form::Bitmap(vec![0; (spread / 64 + 1) as usize]),
            false if keys <= BLOOM_KEYS_MAX => {
                Form::Bloom(vec![0; (keys * BLOOM_BITS_PER_KEY / 64).next_power_of_two() as usize])
            }
            false => return None,
        };
        Some(KeySetBuilder { set: KeySet { keys, min, max, text_bounds: None, form, memory: None }, added: 0 })
    }

    /// Asks `memory` for what the set takes; `None` if the pool refuses.
    pub fn reserved(mut self, memory: MemoryReservation) -> Option<KeySetBuilder> {
        memory.try_grow(8 * self.set.words().len()).ok()?;
        self.set.memory = Some(memory);
        Some(self)
    }

    /// Adds a key, which must lie between the bounds.
    pub fn insert(&mut self, key: i64) {
        let min = self.set.min;
        let (word, bits) = match &mut self.set.form {
            Form::Bitmap(words) => {
                let distance = key.wrapping_sub(min) as u64;
                (&mut words[(distance / 64) as usize], 1 << (distance % 64))
            }
            Form::Bloom(words) => {
                let (word, bits) = bloom(key, words.len());
                (&mut words[word], bits)
            }
        };
        self.added += u64::from(*word & bits != bits);
        *word |= bits;
    }

    /// The set of the keys that were added.
    pub fn finish(mut self) -> KeySet {
        self.set.keys = self.added;
        self.set
    }
}

impl KeySet {
    /// Whether the value may be a key; exactly so if [`KeySet::is_exact`].
    #[inline]
    pub fn contains(&self, value: i64) -> bool {
        match &self.form {
            Form::Bitmap(words) => in_bitmap(words, self.min, value),
            Form::Bloom(words) => in_bloom(words, value),
        }
    }

    /// Whether only keys pass; else some other values do too.
    pub fn is_exact(&self) -> bool {
        matches!(self.form, Form::Bitmap(_))
    }

    /// How many keys it holds; a few less if it is not exact.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// The least and the greatest key.
    pub fn bounds(&self) -> Option<(i64, i64)> {
        (self.min <= self.max).then_some((self.min, self.max))
    }

    /// The same set, with the least and the greatest of the texts that it is of; without them, if one is not UTF-8.
    pub fn with_text_bounds(self, least: Vec<u8>, greatest: Vec<u8>) -> KeySet {
        let text = |bytes| String::from_utf8(bytes).ok();
        KeySet { text_bounds: text(least).zip(text(greatest)), ..self }
    }

    /// The least and the greatest text, if it is of texts and they are known.
    pub fn text_bounds(&self) -> Option<(&str, &str)> {
        self.text_bounds.as_ref().map(|(least, greatest)| (&**least, &**greatest))
    }

    /// Memory that was reserved for it, in bytes.
    pub fn reserved(&self) -> usize {
        self.memory.as_ref().map_or(0, MemoryReservation::size)
    }

    fn words(&self) -> &[u64] {
        match &self.form {
            Form::Bitmap(words) | Form::Bloom(words) => words,
        }
    }

    /// The verdict on each value of an array; `None` if they are neither integers nor texts.
    pub fn test(&self, values: &dyn Array) -> Option<BooleanArray> {
        let integers = || integers!(values, |values, key| self.test_all(values, key));
        texts!(values, |texts| self.test_texts(texts)).or_else(integers)
    }

    fn test_texts<'a>(&self, texts: impl StringArrayType<'a>) -> BooleanArray {
        let passes = |index| texts.is_valid(index) && self.contains(text_key(texts.value(index).as_bytes()));
        BooleanArray::new(BooleanBuffer::collect_bool(texts.len(), passes), None)
    }

    fn test_all<T: ArrowPrimitiveType>(
        &self,
        values: &PrimitiveArray<T>,
        key: impl Fn(T::Native) -> Option<i64>,
    ) -> BooleanArray {
        let all = values.values();
        // One loop for each form: the form is not looked at again for every value.
        let passed = match &self.form {
            Form::Bitmap(words) => {
                let passes = |value| key(value).is_some_and(|value| in_bitmap(words, self.min, value));
                let word = |values: &[T::Native]| {
                    consecutive_from(values, &key)
                        .filter(|first| *first >= self.min)
                        .map(|first| bits_from(words, first.wrapping_sub(self.min) as u64, values.len()))
                        .unwrap_or_else(|| bits_where(values, passes))
                };
                let words: Vec<u64> = all.chunks(64).map(word).collect();
                BooleanBuffer::new(words.into(), 0, all.len())
            }
            Form::Bloom(words) => BooleanBuffer::collect_bool(all.len(), |index| {
                key(all[index]).is_some_and(|value| in_bloom(words, value))
            }),
        };
        match values.nulls() {
            Some(nulls) => BooleanArray::new(&passed & nulls.inner(), None),
            None => BooleanArray::new(passed, None),
        }
    }
}

/// A bit for each of at most 64 values.
#[inline]
fn bits_where<N: Copy>(values: &[N], passes: impl Fn(N) -> bool) -> u64 {
    values.iter().enumerate().fold(0, |word, (index, value)| word | u64::from(passes(*value)) << index)
}

/// The first of values each of which is one more than the one before, as those of a table's key are that is stored in
/// its order. The bits of such values lie behind each other in a bitmap, too.
#[inline]
fn consecutive_from<N: Copy>(values: &[N], key: impl Fn(N) -> Option<i64>) -> Option<i64> {
    let (first, last) = (key(*values.first()?)?, key(*values.last()?)?);
    let nth = |index: usize| first.wrapping_add(index as i64);
    // Without a way out, so that it is a loop over vectors.
    let all = || values.iter().enumerate().fold(true, |all, (index, value)| all & (key(*value) == Some(nth(index))));
    (last == nth(values.len() - 1) && all()).then_some(first)
}

/// So many bits of a bitmap, at most 64, from the one with a number on; those behind its end are 0.
#[inline]
fn bits_from(words: &[u64], bit: u64, count: usize) -> u64 {
    let word = |index: u64| words.get(index as usize).copied().unwrap_or(0);
    let (index, shift) = (bit / 64, bit % 64);
    let bits = match shift {
        0 => word(index),
        _ => word(index) >> shift | word(index + 1) << (64 - shift),
    };
    bits & u64::MAX >> (64 - count)
}

#[inline]
fn in_bitmap(words: &[u64], min: i64, value: i64) -> bool {
    let distance = value.wrapping_sub(min) as u64;
    words.get((distance / 64) as usize).is_some_and(|word| word >> (distance % 64) & 1 != 0)
}

#[inline]
fn in_bloom(words: &[u64], value: i64) -> bool {
    let (word, bits) = bloom(value, words.len());
    words[word] & bits == bits
}

/// The word of a value among `words`, a power of two, and its four bits there.
#[inline]
fn bloom(value: i64, words: usize) -> (usize, u64) {
    // The finalizer of MurmurHash3.
    let mut hash = value as u64;
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    let bits = 1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63) | 1 << (hash >> 18 & 63);
    ((hash >> 32) as usize & (words - 1), bits)
}

/// `bitmap of 57 keys`
impl fmt::Display for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = if self.is_exact() { "bitmap" } else { "Bloom filter" };
        write!(f, "{form} of {} keys", self.keys)
    }
}

/// `value IN keys`.
#[derive(Debug)]
pub struct KeySetExpr {
    value: Arc<dyn PhysicalExpr>,
    set: Arc<KeySet>,
}

impl KeySetExpr {
    /// `value` is an integer, or text of which [`text_key`] makes one; NULL is no key.
    pub fn new(value: Arc<dyn PhysicalExpr>, set: Arc<KeySet>) -> KeySetExpr {
        KeySetExpr { value, set }
    }

    /// What is looked for.
    pub fn value(&self) -> &Arc<dyn PhysicalExpr> {
        &self.value
    }

    /// What it is looked for in.
    pub fn set(&self) -> &Arc<KeySet> {
        &self.set
    }
}

impl fmt::Display for KeySetExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} IN {}", self.value, self.set)
    }
}

// A set is the same as itself only: comparing two would take as long as making one.
impl PartialEq for KeySetExpr {
    fn eq(&self, other: &KeySetExpr) -> bool {
        Arc::ptr_eq(&self.set, &other.set) && self.value.eq(&other.value)
    }
}

impl Eq for KeySetExpr {}

impl Hash for KeySetExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.set).hash(state);
        self.value.hash(state);
    }
}

impl PhysicalExpr for KeySetExpr {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values: ArrayRef = self.value.evaluate(batch)?.into_array(batch.num_rows())?;
        match self.set.test(values.as_ref()) {
            Some(passed) => Ok(ColumnarValue::Array(Arc::new(passed))),
            None => internal_err!("a set of keys was asked for values of the type {}", values.data_type()),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.value]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(value), true) => Ok(Arc::new(KeySetExpr { value, set: Arc::clone(&self.set) })),
            _ => internal_err!("a set of keys is asked for one value"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Decimal128Array, Float64Array, Int32Array, Int64Array, LargeStringArray, StringArray, StringViewArray,
        UInt64Array,
    };

    fn set(keys: &[i64]) -> KeySet {
        let (min, max) = (*keys.iter().min().unwrap_or(&0), *keys.iter().max().unwrap_or(&-1));
        let mut builder = KeySetBuilder::new(keys.len() as u64, min, max).expect("few keys");
        keys.iter().for_each(|key| builder.insert(*key));
        builder.finish()
    }

    #[test]
    fn near_keys_are_exact() {
        let keys = set(&[-3, 64, 1000]);
        assert!(keys.is_exact());
        for value in -2000..2000 {
            assert_eq!(keys.contains(value), [-3, 64, 1000].contains(&value), "{value}");
        }
        assert!(!keys.contains(i64::MIN) && !keys.contains(i64::MAX));
    }

    #[test]
    fn no_key_contains_nothing() {
        let none = set(&[]);
        assert!(!none.contains(0) && !none.contains(-1) && !none.contains(i64::MAX));
    }

    #[test]
    fn far_keys_all_pass_and_few_others_do() {
        let keys: Vec<i64> =
            (0..10_000).map(|n: i64| n.wrapping_mul(0x5851_f42d_4c95_7f2d)).chain([i64::MIN]).collect();
        let bloom = set(&keys);
        assert!(!bloom.is_exact());
        assert!(keys.iter().all(|key| bloom.contains(*key)));
        let wrong = (1..100_000).filter(|value| bloom.contains(*value)).count();
        assert!(wrong < 3_000, "{wrong} of 100,000 others pass");
    }

    #[test]
    fn keys_that_span_all_integers() {
        let both = set(&[i64::MIN, i64::MAX]);
        assert!(both.contains(i64::MIN) && both.contains(i64::MAX));
        assert!(KeySetBuilder::new(BLOOM_KEYS_MAX + 1, i64::MIN, i64::MAX).is_none());
    }

    #[test]
    fn arrays_are_tested_by_value() {
        let keys = set(&[1, 5]);
        let passed = |array: &dyn Array| keys.test(array).expect("integers").iter().flatten().collect::<Vec<_>>();
        assert_eq!(passed(&Int32Array::from(vec![Some(1), None, Some(5), Some(4)])), [true, false, true, false]);
        assert_eq!(passed(&Int64Array::from(vec![0, 1, 5]).slice(1, 2)), [true, true]);
        assert_eq!(passed(&UInt64Array::from(vec![u64::MAX, 5])), [false, true]);
        let wide = Decimal128Array::from(vec![5, (1i128 << 64) + 5]);
        assert_eq!(passed(&wide), [true, false]);
        assert!(keys.test(&Float64Array::from(vec![1.0])).is_none());
    }

    #[test]
    fn consecutive_values_are_tested_as_others() {
        let keys = set(&[-70, -1, 0, 1, 63, 64, 65, 200, 329, 330]);
        for first in [-400, -71, -70, -69, -8, 0, 1, 100, 327, 329, 330, 331, i64::MIN, i64::MAX - 150] {
            for len in [0, 1, 2, 63, 64, 65, 150] {
                let values: Vec<i64> = (0..len).map(|index| first + index).collect();
                let verdict = keys.test(&Int64Array::from(values.clone())).expect("integers");
                let expected = values.iter().map(|value| keys.contains(*value)).collect::<Vec<_>>();
                assert_eq!(verdict, BooleanArray::from(expected), "{len} values from {first} on");
            }
        }
    }

    #[test]
    fn texts_are_tested_by_their_bytes() {
        let texts = ["", "a", "a text of more than twelve bytes"];
        let keys = set(&texts.map(|text| text_key(text.as_bytes())));
        let values = vec![Some("a"), None, Some("b"), Some("a text of more than twelve bytes"), Some("")];
        let arrays: [&dyn Array; 3] = [
            &StringArray::from(values.clone()),
            &LargeStringArray::from(values.clone()),
            &StringViewArray::from(values),
        ];
        for array in arrays {
            let passed: Vec<bool> = keys.test(array).expect("texts").iter().flatten().collect();
            assert_eq!(passed, [true, false, false, true, true], "{}", array.data_type());
        }
    }
}
