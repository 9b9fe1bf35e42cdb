//! Normalised keys: integers that compare like rows, with the place of the row in their low bits.
//!
//! ```text
//! ORDER BY a DESC NULLS FIRST, b       is null? | 17 - a | b's first eight bytes | batch | row
//! ```
//! A part of the key takes as many bits as its values need that lie between its smallest and its largest, without low bits
//! that are the same in all. What does not fit the key is cut off at its low end ([`Layout::resume`]): rows whose keys are
//! the same are ordered by what is left.

use std::fmt::Debug;

use crate::column::Column;
use crate::place::{Place, Places, bits_of, low_bits};

/// An integer that keys are made in.
pub(crate) trait Key: Copy + Ord + Debug + Send + Sync + 'static {
    const BITS: u32;
    const ZERO: Self;
    fn with(self, code: u64, shift: u32) -> Self;
    /// 64 bits of it from `shift` on.
    fn word(self, shift: u32) -> u64;
    /// The bits that differ.
    fn xor(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    /// How many of the low bits are used.
    fn used(self) -> u32;
    /// The key with other low bits.
    fn with_low(self, bits: u32, low: u64) -> Self;
}

macro_rules! key {
    ($type:ty) => {
        impl Key for $type {
            const BITS: u32 = <$type>::BITS;
            const ZERO: $type = 0;

            fn with(self, code: u64, shift: u32) -> $type {
                self | <$type>::from(code) << shift
            }

            fn word(self, shift: u32) -> u64 {
                (self >> shift) as u64
            }

            fn xor(self, other: $type) -> $type {
                self ^ other
            }

            fn or(self, other: $type) -> $type {
                self | other
            }

            fn used(self) -> u32 {
                <$type>::BITS - self.leading_zeros()
            }

            fn with_low(self, bits: u32, low: u64) -> $type {
                let mask = <$type>::from(low_bits(bits));
                (self & !mask) | (<$type>::from(low) & mask)
            }
        }
    };
}
key!(u64);
key!(u128);

/// What a part of a key is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// Whether the value is null.
    Null,
    /// An ordinal of the value.
    Ordinal(usize),
}

/// Where the parts of the keys of some rows begin.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Start {
    pub(crate) column: usize,
    /// Of the column: whether it is null, then its ordinals.
    part: usize,
}

#[derive(Clone, Debug)]
struct Part {
    column: usize,
    source: Source,
    /// The code of a value is its distance from this, which is the smallest, or the largest if `downwards`.
    base: u64,
    downwards: bool,
    /// Low bits of the distance that are left out: all zeros, unless the part is the last one and does not fit.
    drop: u32,
    bits: u32,
    shift: u32,
}

/// How keys of some rows are made.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    places: Places,
    parts: Vec<Part>,
    /// What is not in the key begins here.
    pub(crate) resume: Option<Start>,
    bits: u32,
}

/// The rows that a layout is for.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// Batches of so many rows.
    Batches(&'a [usize]),
    Places(&'a [Place]),
}

impl Rows<'_> {
    /// Calls `f` with one source's values of all rows, piece by piece.
    fn for_each(self, column: &Column, source: Source, absent: Option<u64>, mut f: impl FnMut(usize, &[u64], bool)) {
        let mut values = Vec::new();
        match self {
            Rows::Batches(batches) => {
                for batch in 0..batches.len() {
                    fill(column, source, batch, batches[batch], absent, &mut values);
                    f(batch, &values, false);
                }
            }
            Rows::Places(places) => {
                let value = |place: &Place| match source {
                    Source::Null => u64::from(column.is_null(*place) != column.options.nulls_first),
                    Source::Ordinal(_) if column.is_null(*place) => absent.unwrap_or(0),
                    Source::Ordinal(number) => column.ordinal(*place, number),
                };
                values.extend(places.iter().map(value));
                f(0, &values, true);
            }
        }
    }
}

fn fill(column: &Column, source: Source, batch: usize, rows: usize, absent: Option<u64>, out: &mut Vec<u64>) {
    match source {
        Source::Ordinal(number) => column.fill(batch, number, absent, out),
        Source::Null => {
            out.clear();
            match column.nulls(batch) {
                Some(nulls) => out.extend(nulls.iter().map(|valid| u64::from(valid == column.options.nulls_first))),
                None => out.resize(rows, u64::from(column.options.nulls_first)),
            }
        }
    }
}

/// What is known of the values of a part.
struct Range {
    min: u64,
    max: u64,
    /// Bits that are not the same in all.
    varying: u64,
}

fn range(column: &Column, source: Source, rows: Rows) -> Option<Range> {
    let (mut min, mut max, mut ones, mut zeros) = (u64::MAX, 0, 0, 0);
    let mut any = false;
    rows.for_each(column, source, None, |batch, values, by_place| {
        let add = |value: u64| {
            (min, max) = (min.min(value), max.max(value));
            (ones, zeros) = (ones | value, zeros | !value);
            any = true;
        };
        let nulls = if source == Source::Null || by_place { None } else { column.nulls(batch) };
        match (nulls, rows) {
            (Some(nulls), _) => nulls.valid_indices().map(|row| values[row]).for_each(add),
            (None, Rows::Places(places)) if source != Source::Null && column.has_nulls => {
                let valid = values.iter().zip(places).filter(|(_, place)| !column.is_null(**place));
                valid.map(|(value, _)| *value).for_each(add);
            }
            (None, _) => values.iter().copied().for_each(add),
        }
    });
    any.then_some(Range { min, max, varying: ones & zeros })
}

impl Layout {
    /// How the keys of `rows` are made, from `start` on, if they may take so many bits.
    pub(crate) fn of(columns: &[Column], rows: Rows, places: Places, start: Start, bits_max: u32) -> Layout {
        let mut layout = Layout { places, parts: Vec::new(), resume: None, bits: 0 };
        let mut left = bits_max - places.bits();
        for (number, column) in columns.iter().enumerate().skip(start.column) {
            let first = if number == start.column { start.part } else { 0 };
            for part in first..column.ordinals() + 1 {
                let source = part.checked_sub(1).map_or(Source::Null, Source::Ordinal);
                if source == Source::Null && !column.has_nulls {
                    continue;
                }
                let Some(range) = range(column, source, rows) else { continue };
                if range.varying == 0 {
                    continue;
                }
                let resume = Start { column: number, part };
                if left == 0 {
                    layout.resume = Some(resume);
                    return layout.placed();
                }
                let shared = range.varying.trailing_zeros();
                let bits = bits_of((range.max - range.min) >> shared);
                let cut = bits.saturating_sub(left);
                let downwards = column.options.descending && source != Source::Null;
                let base = if downwards { range.max } else { range.min };
                let drop = shared + cut;
                layout.parts.push(Part { column: number, source, base, downwards, drop, bits: bits - cut, shift: 0 });
                layout.bits += bits - cut;
                left -= bits - cut;
                if cut > 0 {
                    layout.resume = Some(resume);
                    return layout.placed();
                }
            }
        }
        layout.placed()
    }

    /// Gives the parts their places in the key, from the high end of what is used.
    fn placed(mut self) -> Layout {
        let mut end = self.bits + self.places.bits();
        for part in &mut self.parts {
            end -= part.bits;
            part.shift = end;
        }
        self
    }

    pub(crate) fn places(&self) -> Places {
        self.places
    }

    /// How many bits keys take, with their places.
    pub(crate) fn bits(&self) -> u32 {
        self.bits + self.places.bits()
    }

    /// Appends the keys of a batch.
    pub(crate) fn keys_of<K: Key>(&self, columns: &[Column], batch: usize, rows: usize, keys: &mut Vec<K>) {
        let first = self.places.first(batch);
        let start = keys.len();
        keys.extend((0..rows as u64).map(|row| K::ZERO.with(first + row, 0)));
        let mut values = Vec::new();
        for part in &self.parts {
            fill(&columns[part.column], part.source, batch, rows, Some(part.base), &mut values);
            part.put(&values, &mut keys[start..]);
        }
    }

    /// The keys of these rows.
    pub(crate) fn keys_at<K: Key>(&self, columns: &[Column], places: &[Place]) -> Vec<K> {
        let packed = |place: &Place| K::ZERO.with(self.places.first(place.batch) + place.row as u64, 0);
        let mut keys: Vec<K> = places.iter().map(packed).collect();
        for part in &self.parts {
            let column = &columns[part.column];
            let rows = Rows::Places(places);
            rows.for_each(column, part.source, Some(part.base), |_, values, _| part.put(values, &mut keys));
        }
        keys
    }

    /// Where the codes of a whole column are whose only ordinal is in the key, so that its values can be had from there.
    pub(crate) fn whole(&self, columns: &[Column], number: usize) -> Option<Whole> {
        let column = &columns[number];
        if column.ordinals() != 1 || self.resume.is_some_and(|resume| resume.column <= number) {
            return None;
        }
        let of = |source| self.parts.iter().find(|part| part.column == number && part.source == source);
        let value = of(Source::Ordinal(0))?;
        let null = of(Source::Null);
        Some(Whole {
            base: value.base,
            downwards: value.downwards,
            drop: value.drop,
            mask: low_bits(value.bits),
            shift: value.shift,
            null_shift: null.map(|null| null.shift),
            nulls_first: column.options.nulls_first,
        })
    }
}

impl Part {
    fn put<K: Key>(&self, values: &[u64], keys: &mut [K]) {
        let pairs = keys.iter_mut().zip(values);
        if self.downwards {
            pairs.for_each(|(key, value)| *key = key.with((self.base - value) >> self.drop, self.shift));
        } else {
            pairs.for_each(|(key, value)| *key = key.with((value - self.base) >> self.drop, self.shift));
        }
    }
}

/// Where in the key a column is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    base: u64,
    downwards: bool,
    drop: u32,
    mask: u64,
    shift: u32,
    null_shift: Option<u32>,
    nulls_first: bool,
}

impl Whole {
    pub(crate) fn ordinal<K: Key>(&self, key: K) -> u64 {
        let distance = (key.word(self.shift) & self.mask) << self.drop;
        if self.downwards { self.base - distance } else { self.base + distance }
    }

    pub(crate) fn may_be_null(&self) -> bool {
        self.null_shift.is_some()
    }

    pub(crate) fn is_valid<K: Key>(&self, key: K) -> bool {
        self.null_shift.is_none_or(|shift| (key.word(shift) & 1 == 1) == self.nulls_first)
    }
}
