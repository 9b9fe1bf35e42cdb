//! Normalised keys: integers that compare like rows, with the place of the row in their low bits.
//!
//! ```text
//! ORDER BY a DESC NULLS FIRST, b       is null? | 17 - a | b's first eight bytes | batch | row
//! ```
//! A part of the key takes as many bits as its values need that lie between its smallest and its largest, without low
//! bits that are the same in all. What does not fit the key is cut off at its low end ([`Layout::resume`]): rows whose
//! keys are the same are ordered by what is left.

use std::fmt::Debug;
use std::sync::Arc;

use crate::column::Column;
use crate::parallel;
use crate::place::{Place, Places, bits_of, low_bits};
use crate::ranks::Ranks;

/// Strings whose codes would take more bits than this have ranks instead, if these are few.
const RANKED_BITS: u32 = 12;

/// An integer that keys are made in.
pub(crate) trait Key: Copy + Ord + Debug + Send + Sync + 'static {
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
    /// The code of a value is its rank instead, or how many are above it if `downwards`.
    ranks: Option<Arc<Ranks>>,
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
    /// Batches of so many rows, looked at by so many threads.
    Batches(&'a [usize], usize),
    Places(&'a [Place]),
}

impl Rows<'_> {
    /// The ranks of the values of a source, where these are few.
    fn ranks(self, column: &Column, source: Source) -> Option<Ranks> {
        let Rows::Batches(counts, threads) = self else { return None };
        let ranks = parallel::each(parallel::runs(counts, threads), |batches| {
            let (mut ranks, mut values) = (Ranks::new(), Vec::new());
            for batch in batches {
                fill(column, source, batch, counts[batch], None, &mut values);
                match column.nulls(batch) {
                    Some(nulls) => nulls.valid_indices().try_for_each(|row| ranks.add(values[row]))?,
                    None => values.iter().try_for_each(|value| ranks.add(*value))?,
                }
            }
            Some(ranks)
        });
        Some(ranks.into_iter().reduce(|all, ranks| all?.and(ranks?))??.ranked())
    }

    /// What is known of the values of one source.
    fn range(self, column: &Column, source: Source) -> Option<Range> {
        match self {
            Rows::Batches(counts, threads) => {
                let ranges = parallel::each(parallel::runs(counts, threads), |batches| {
                    let mut values = Vec::new();
                    let mut range = None;
                    for batch in batches {
                        fill(column, source, batch, counts[batch], None, &mut values);
                        match column.nulls(batch).filter(|_| source != Source::Null) {
                            Some(nulls) => Range::add(&mut range, nulls.valid_indices().map(|row| values[row])),
                            None => Range::add(&mut range, values.iter().copied()),
                        }
                    }
                    range
                });
                ranges.into_iter().flatten().reduce(Range::and)
            }
            Rows::Places(places) => {
                let mut range = None;
                let places = places.iter().filter(|place| source == Source::Null || !column.is_null(**place));
                Range::add(&mut range, places.map(|place| value(column, source, *place)));
                range
            }
        }
    }
}

/// A value of a row that is not null, or whether it is.
fn value(column: &Column, source: Source, place: Place) -> u64 {
    match source {
        Source::Null => u64::from(column.is_null(place) != column.options.nulls_first),
        Source::Ordinal(number) => column.ordinal(place, number),
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
#[derive(Clone, Copy)]
struct Range {
    min: u64,
    max: u64,
    ones: u64,
    zeros: u64,
}

impl Range {
    fn add(range: &mut Option<Range>, values: impl Iterator<Item = u64>) {
        let mut values = values.peekable();
        let Some(first) = values.peek().copied() else { return };
        let mut all = range.unwrap_or(Range { min: first, max: first, ones: first, zeros: !first });
        for value in values {
            (all.min, all.max) = (all.min.min(value), all.max.max(value));
            (all.ones, all.zeros) = (all.ones | value, all.zeros | !value);
        }
        *range = Some(all);
    }

    fn and(self, other: Range) -> Range {
        Range {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            ones: self.ones | other.ones,
            zeros: self.zeros | other.zeros,
        }
    }

    /// Bits that are not the same in all values.
    fn varying(self) -> u64 {
        self.ones & self.zeros
    }
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
                let Some(range) = rows.range(column, source).filter(|range| range.varying() != 0) else {
                    continue;
                };
                let resume = Start { column: number, part };
                if left == 0 {
                    layout.resume = Some(resume);
                    return layout.placed();
                }
                let mut shared = range.varying().trailing_zeros();
                let mut bits = bits_of((range.max - range.min) >> shared);
                let ranked = column.is_text() && source != Source::Null && bits > RANKED_BITS;
                let ranks = if ranked { rows.ranks(column, source).map(Arc::new) } else { None };
                if let Some(ranks) = &ranks {
                    (shared, bits) = (0, bits_of(ranks.last()));
                }
                let cut = bits.saturating_sub(left);
                let downwards = column.options.descending && source != Source::Null;
                let base = if downwards { range.max } else { range.min };
                let drop = shared + cut;
                layout.parts.push(Part {
                    column: number,
                    source,
                    base,
                    downwards,
                    drop,
                    ranks,
                    bits: bits - cut,
                    shift: 0,
                });
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

    /// Makes the keys of a batch, or what of them is above the lowest so many bits. `values` is room that is used
    /// again.
    pub(crate) fn keys_of<K: Key>(
        &self,
        columns: &[Column],
        batch: usize,
        above: u32,
        keys: &mut [K],
        values: &mut Vec<u64>,
    ) {
        let first = self.places.first(batch);
        keys.iter_mut().zip(first..).for_each(|(key, place)| *key = K::ZERO.with(place, 0));
        for part in self.parts.iter().filter(|part| part.shift + part.bits > above) {
            fill(&columns[part.column], part.source, batch, keys.len(), Some(part.base), values);
            part.put(values, keys);
        }
    }

    /// The keys of these rows.
    pub(crate) fn keys_at<K: Key>(&self, columns: &[Column], places: &[Place]) -> Vec<K> {
        let packed = |place: &Place| K::ZERO.with(self.places.first(place.batch) + place.row as u64, 0);
        let mut keys: Vec<K> = places.iter().map(packed).collect();
        for part in &self.parts {
            let column = &columns[part.column];
            let value = |place: &Place| match part.source {
                Source::Ordinal(_) if column.is_null(*place) => part.base,
                source => value(column, source, *place),
            };
            part.put(&places.iter().map(value).collect::<Vec<u64>>(), &mut keys);
        }
        keys
    }

    /// Where the codes of a whole column are whose only ordinal is in the key, so that its values can be had from
    /// there.
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
        if let Some(ranks) = &self.ranks {
            let last = if self.downwards { ranks.last() } else { 0 };
            pairs.for_each(|(key, value)| *key = key.with(last.abs_diff(ranks.of(*value)) >> self.drop, self.shift));
        } else if self.downwards {
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
