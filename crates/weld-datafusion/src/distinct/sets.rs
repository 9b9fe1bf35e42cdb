//! A set of integers for each group: as bits where these take less than hash tables.
//!
//! ```text
//! bits      group 0: 0110..  group 1: 1001..      values in a span that is not much larger than the sets
//! each      group 0: {value}  group 1: {value}    a table for each group, of which there are few
//! narrow    {group | value - base}                one table, a key is one word
//! wide      {group, value}                        or two, where one has not enough bits
//! ```
//! Which it is follows from the values and groups that have come: bits become tables where these are smaller, and tables
//! become bits before they outgrow them.

use super::bits::Bits;
use super::each::Each;
use super::table::{Novelty, Table};

/// Bits that take no more are not made a table: they stay in a core's second-level cache.
const BITS_BYTES: usize = 512 << 10;

/// What a table takes for a value at most, when it has just grown and more than half of it is free.
const TABLE_BYTES: usize = 3 * size_of::<u64>();

/// A table becomes bits when these take at most so many times as much: it would soon have doubled.
const BITS_FACTOR: usize = 2;

/// The smallest and the largest of some values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Span {
    fn of(values: &[u64]) -> Option<Span> {
        let first = *values.first()?;
        let (mut min, mut max) = (first, first);
        for value in values {
            (min, max) = (min.min(*value), max.max(*value));
        }
        Some(Span { min, max })
    }

    fn and(self, other: Span) -> Span {
        Span { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    pub(super) fn width(self) -> u64 {
        self.max - self.min
    }

    /// With so many values more: on both sides, or where there are some.
    pub(super) fn widened(self, by: u64) -> Span {
        let min = self.min.saturating_sub(by / 2);
        Span { min, max: self.max.saturating_add(by - (self.min - min)) }
    }
}

/// A set for each group.
#[derive(Debug)]
pub(super) struct Sets {
    form: Form,
    /// Of the values so far.
    span: Option<Span>,
    groups: usize,
    /// How large bits may be that have grown.
    bits_bytes_max: usize,
    may_repeat: bool,
}

#[derive(Debug)]
enum Form {
    Bits(Bits),
    Each(Each),
    Narrow { table: Table<u64>, packing: Packing, novelty: Novelty, keys: Vec<u64> },
    Wide { table: Table<u128>, novelty: Novelty, keys: Vec<u128> },
}

/// How a group and a value make one word.
#[derive(Clone, Copy, Debug)]
struct Packing {
    base: u64,
    value_bits: u32,
}

impl Packing {
    /// `None` if a word does not do. What it has to spare is shared by groups and values, of which there will be more.
    fn of(span: Span, groups: usize) -> Option<Packing> {
        let bits_of = |largest: u64| u64::BITS - largest.leading_zeros();
        let (value_bits, group_bits) = (bits_of(span.width()), bits_of(groups as u64));
        let spare = 63_u32.checked_sub(value_bits + group_bits)?;
        let value_bits = value_bits + spare / 2;
        let unused = (1 << value_bits) - 1 - span.width();
        Some(Packing { base: span.min.saturating_sub(unused / 2), value_bits })
    }

    fn holds(self, span: Span, groups: usize) -> bool {
        span.min >= self.base
            && (span.max - self.base) >> self.value_bits == 0
            && (groups as u64) >> (63 - self.value_bits) == 0
    }

    fn key(self, group: usize, value: u64) -> u64 {
        (group as u64) << self.value_bits | (value - self.base)
    }

    fn parts(self, key: u64) -> (usize, u64) {
        ((key >> self.value_bits) as usize, (key & ((1 << self.value_bits) - 1)) + self.base)
    }
}

fn wide_key(group: usize, value: u64) -> u128 {
    (group as u128) << 64 | u128::from(value)
}

fn wide_parts(key: u128) -> (usize, u64) {
    ((key >> 64) as usize, key as u64)
}

impl Sets {
    /// If values `may_repeat`, some may be given more than once.
    pub(super) fn new(may_repeat: bool) -> Sets {
        Sets { form: Form::Bits(Bits::new()), span: None, groups: 0, bits_bytes_max: BITS_BYTES, may_repeat }
    }

    /// Adds a value to the set of its group for each pair. There are so many groups by now.
    pub(super) fn add(&mut self, groups: &[u32], values: &[u64], groups_total: usize) {
        let span = match (Span::of(values), self.span) {
            (Some(new), Some(old)) => Some(new.and(old)),
            (new, old) => new.or(old),
        };
        let groups_total = groups_total.max(self.groups);
        if (span, groups_total) != (self.span, self.groups) {
            (self.span, self.groups) = (span, groups_total);
            self.fit();
        }
        match &mut self.form {
            Form::Bits(bits) => return bits.add(groups, values),
            Form::Each(sets) => sets.add(groups, values, groups_total),
            Form::Narrow { table, packing, novelty, keys } => {
                keys.clear();
                keys.extend(groups.iter().zip(values).map(|(group, value)| packing.key(*group as usize, *value)));
                table.add(keys, novelty);
            }
            Form::Wide { table, novelty, keys } => {
                keys.clear();
                keys.extend(groups.iter().zip(values).map(|(group, value)| wide_key(*group as usize, *value)));
                table.add(keys, novelty);
            }
        }
        self.adapt();
    }

    /// Makes room for the span and the groups.
    fn fit(&mut self) {
        let Some(span) = self.span else { return };
        let groups = self.groups;
        match &mut self.form {
            Form::Bits(bits) => {
                let bytes = Bits::bytes_of(span, groups);
                if bytes > self.bits_bytes_max {
                    self.bits_bytes_max = BITS_BYTES.max(bits.len() * TABLE_BYTES);
                }
                if bytes > self.bits_bytes_max {
                    self.form = match Each::suits(groups, bits.len()) {
                        true => each_of(groups, self.may_repeat, |each| bits.for_each(each)),
                        false => packed(span, groups, self.may_repeat, |each| bits.for_each(each)),
                    };
                } else if bits.hold(span) {
                    bits.add_groups(groups);
                } else {
                    bits.widen(span, groups, self.bits_bytes_max);
                }
            }
            Form::Each(sets) if !sets.still_suits(groups) => {
                self.form = packed(span, groups, self.may_repeat, |each| sets.for_each(each));
            }
            Form::Narrow { table, packing, .. } if !packing.holds(span, groups) => {
                let packing = *packing;
                self.form = packed(span, groups, self.may_repeat, |each| {
                    table.keys().map(|key| packing.parts(key)).for_each(|(group, value)| each(group, value));
                });
            }
            Form::Each(_) | Form::Narrow { .. } | Form::Wide { .. } => {}
        }
    }

    /// Makes bits of tables that take more, and a table for each group of one that has many values of each.
    fn adapt(&mut self) {
        let Some(span) = self.span else { return };
        let (table_bytes, values) = match &self.form {
            Form::Bits(_) => return,
            Form::Each(sets) => (sets.bytes(), None),
            Form::Narrow { table, .. } => (table.bytes(), Some(table.len())),
            Form::Wide { table, .. } => (table.bytes(), Some(table.len())),
        };
        let bytes = Bits::bytes_of(span, self.groups);
        if bytes <= BITS_FACTOR * table_bytes {
            let mut bits = Bits::new();
            bits.widen(span, self.groups, bytes);
            self.for_each(|group, value| bits.add_one(group, value));
            // It should not be tables again at once.
            (self.form, self.bits_bytes_max) = (Form::Bits(bits), 2 * bytes);
        } else if values.is_some_and(|values| Each::suits(self.groups, values)) {
            self.form = each_of(self.groups, self.may_repeat, |each| self.for_each(each));
        }
    }

    pub(super) fn for_each(&self, mut each: impl FnMut(usize, u64)) {
        match &self.form {
            Form::Bits(bits) => bits.for_each(each),
            Form::Each(sets) => sets.for_each(each),
            Form::Narrow { table, packing, .. } => {
                table.keys().map(|key| packing.parts(key)).for_each(|(group, value)| each(group, value));
            }
            Form::Wide { table, .. } => {
                table.keys().map(wide_parts).for_each(|(group, value)| each(group, value));
            }
        }
    }

    /// How many values each group has.
    pub(super) fn counts(&self) -> Vec<usize> {
        let mut counts = match &self.form {
            Form::Bits(bits) => bits.counts(),
            Form::Each(sets) => sets.counts(),
            Form::Narrow { .. } | Form::Wide { .. } => {
                let mut counts = vec![0; self.groups];
                self.for_each(|group, _| counts[group] += 1);
                counts
            }
        };
        counts.resize(self.groups, 0);
        counts
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.form {
            Form::Bits(bits) => bits.bytes(),
            Form::Each(sets) => sets.bytes(),
            Form::Narrow { table, keys, .. } => table.bytes() + keys.capacity() * size_of::<u64>(),
            Form::Wide { table, keys, .. } => table.bytes() + keys.capacity() * size_of::<u128>(),
        }
    }
}

/// A table for each group, of what `all` gives.
fn each_of(groups: usize, may_repeat: bool, all: impl FnOnce(&mut dyn FnMut(usize, u64))) -> Form {
    let (mut of, mut values) = (Vec::new(), Vec::new());
    all(&mut |group, value| {
        of.push(group as u32);
        values.push(value);
    });
    let mut sets = Each::new(may_repeat);
    sets.add(&of, &values, groups);
    Form::Each(sets)
}

/// One table of what `all` gives.
fn packed(span: Span, groups: usize, may_repeat: bool, all: impl FnOnce(&mut dyn FnMut(usize, u64))) -> Form {
    let mut novelty = Novelty::new(may_repeat);
    match Packing::of(span, groups) {
        Some(packing) => {
            let (mut table, mut keys) = (Table::new(), Vec::new());
            all(&mut |group, value| keys.push(packing.key(group, value)));
            table.add(&keys, &mut novelty);
            Form::Narrow { table, packing, novelty, keys: Vec::new() }
        }
        None => {
            let (mut table, mut keys) = (Table::new(), Vec::new());
            all(&mut |group, value| keys.push(wide_key(group, value)));
            table.add(&keys, &mut novelty);
            Form::Wide { table, novelty, keys: Vec::new() }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn form(sets: &Sets) -> &'static str {
        match sets.form {
            Form::Bits(_) => "bits",
            Form::Each(_) => "each",
            Form::Narrow { .. } => "narrow",
            Form::Wide { .. } => "wide",
        }
    }

    /// Adds pairs in batches, and compares with sets of the standard library after each.
    fn check(pairs: impl Iterator<Item = (u32, u64)>, forms: &[&str]) {
        let (mut sets, mut expected, mut seen) = (Sets::new(false), BTreeSet::new(), vec!["bits"]);
        let mut partial = Sets::new(true);
        let pairs: Vec<(u32, u64)> = pairs.collect();
        for batch in pairs.chunks(1000) {
            let (groups, values): (Vec<u32>, Vec<u64>) = batch.iter().copied().unzip();
            expected.extend(batch.iter().copied());
            let total = expected.last().map_or(0, |(group, _)| *group as usize + 1);
            sets.add(&groups, &values, total);
            partial.add(&groups, &values, total);
            if seen.last() != Some(&form(&sets)) {
                seen.push(form(&sets));
            }
        }
        let expected: Vec<(u32, u64)> = expected.into_iter().collect();
        let sorted = |sets: &Sets| {
            let mut found = Vec::new();
            sets.for_each(|group, value| found.push((group as u32, value)));
            found.sort_unstable();
            found
        };
        assert_eq!(sorted(&sets), expected);
        let mut found = sorted(&partial);
        assert_eq!(found.len(), partial.counts().into_iter().sum::<usize>());
        found.dedup();
        assert_eq!(found, expected);
        let mut counts = vec![0; sets.counts().len()];
        expected.iter().for_each(|(group, _)| counts[*group as usize] += 1);
        assert_eq!(sets.counts(), counts);
        assert_eq!(seen, forms);
    }

    fn mixed(seed: u64) -> u64 {
        weld_runtime::hash::hash_words(&[seed])
    }

    #[test]
    fn values_that_lie_close_together_are_bits() {
        check((0..20_000).map(|i| ((mixed(i) % 7) as u32, 1_000_000 - i % 500)), &["bits"]);
        check((0..20_000).map(|i| ((i / 20) as u32, mixed(i) % 64)), &["bits"]);
        check(std::iter::empty(), &["bits"]);
        check([(3, u64::MAX), (0, u64::MAX - 1)].into_iter(), &["bits"]);
        check([(3, 0), (0, 1)].into_iter(), &["bits"]);
    }

    #[test]
    fn values_anywhere_are_in_a_table() {
        check((0..20_000).map(|i| ((i % 50) as u32, mixed(i % 3000) >> 16)), &["bits", "narrow"]);
        check((0..20_000).map(|i| ((i % 50) as u32, mixed(i % 3000))), &["bits", "wide"]);
        // The extremes, one after the other.
        let extremes = (0..5000).map(|i| ((i % 50) as u32, if i < 3000 { i * 200_000 } else { u64::MAX - i }));
        check(extremes, &["bits", "narrow", "wide"]);
        // Spans and groups that grow.
        check((0..40_000).map(|i| ((i / 8) as u32, (mixed(i) >> (60 - i / 1000)) + 1)), &["bits", "narrow"]);
    }

    #[test]
    fn few_groups_with_many_values_have_tables_of_their_own() {
        check((0..20_000).map(|i| ((i % 7) as u32, mixed(i % 3000))), &["bits", "wide", "each"]);
        check((0..20_000).map(|i| ((i / 5000) as u32, mixed(i))), &["bits", "each"]);
        // Among them what marks free slots.
        check((0..20_000).map(|i| ((i % 7) as u32, u64::MAX - 1_000_003 * (i % 800))), &["bits", "narrow", "each"]);
        // Then many groups come, of one value each.
        let many = (0..40_000).map(|i| (if i < 20_000 { i % 3 } else { i } as u32, mixed(i) >> 30));
        check(many, &["bits", "narrow", "each", "narrow"]);
    }

    #[test]
    fn a_table_becomes_bits_when_it_is_full() {
        check((0..2_000_000).map(|i| (0, mixed(i) % 16_000_000)), &["bits", "each", "bits"]);
    }
}
