//! Intervals: which are empty, which overlap, in which order they run.
//!
//! A bound is an offset from the first level or from behind the last, so what two bounds have to do with each other
//! depends on the number of levels `n`, as a range of `n`. What holds for every `n` with which the intervals themselves
//! are possible is said when the stencil is compiled; the rest is checked with each domain.

use weld_core::diag::Diagnostic;

use crate::tree::{Block, Bound, Interval, Policy};

/// The numbers of levels for which something holds: from, to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Levels(i64, i64);

const MANY: i64 = 1 << 50;

impl Levels {
    fn and(self, other: Levels) -> Levels {
        Levels(self.0.max(other.0), self.1.min(other.1))
    }

    fn is_none(self) -> bool {
        self.0 > self.1
    }

    fn has(self, other: Levels) -> bool {
        self.0 <= other.0 && other.1 <= self.1
    }
}

/// For which numbers of levels the first bound is below the second.
fn below(a: Bound, b: Bound) -> Levels {
    match (a.from_end, b.from_end) {
        (false, true) => Levels((a.offset - b.offset + 1).max(1), MANY),
        (true, false) => Levels(1, b.offset - a.offset - 1),
        _ if a.offset < b.offset => Levels(1, MANY),
        _ => Levels(1, 0),
    }
}

/// For which numbers of levels the interval has levels and all of them are in the domain.
fn possible(interval: &Interval) -> Levels {
    let inside = |bound: Bound| match bound.from_end {
        true => Levels(-bound.offset, MANY),
        false => Levels(bound.offset, MANY),
    };
    below(interval.start, interval.end).and(inside(interval.start)).and(inside(interval.end))
}

/// The error of an interval that has no levels, however many the domain has.
pub(crate) fn check(interval: &Interval) -> Result<(), Diagnostic> {
    if possible(interval).is_none() {
        let (start, end) = (interval.start.to_string(), interval.end.to_string());
        let what = if interval.start == interval.end { "empty" } else { "reversed" };
        return Err(Diagnostic::ty(interval.span, format!("interval({start}, {end}) is {what}")));
    }
    Ok(())
}

/// Puts the intervals of a computation in the order of the policy; the error of two that overlap.
pub(crate) fn order(blocks: &mut [Block], policy: Policy, levels: Option<i64>) -> Result<(), Diagnostic> {
    for (i, block) in blocks.iter().enumerate() {
        for other in &blocks[..i] {
            let (a, b) = (&other.interval, &block.interval);
            let both = possible(a).and(possible(b));
            let overlap = below(a.start, b.end).and(below(b.start, a.end));
            if !both.is_none() && overlap.has(both) {
                let message = format!("{b} overlaps {a} of the same computation");
                return Err(Diagnostic::ty(b.span, message).with_label(a.span, "this one"));
            }
        }
    }
    let position = |bound: Bound| match (bound.from_end, levels) {
        (false, _) => (0, bound.offset),
        (true, Some(levels)) => (0, levels.saturating_add(bound.offset)),
        (true, None) => (1, bound.offset),
    };
    match policy {
        Policy::Parallel => {}
        Policy::Forward => blocks.sort_by_key(|block| position(block.interval.start)),
        Policy::Backward => blocks.sort_by_key(|block| std::cmp::Reverse(position(block.interval.start))),
    }
    Ok(())
}

/// Whether two intervals of a computation may overlap, or come in another order, for some number of levels.
pub(crate) fn depends_on_levels(a: &Interval, b: &Interval) -> bool {
    let both = possible(a).and(possible(b));
    !below(b.start, a.end).and(both).is_none() && !both.is_none()
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.from_end, self.offset) {
            (true, 0) => f.write_str("None"),
            (_, offset) => write!(f, "{offset}"),
        }
    }
}

impl std::fmt::Display for Interval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "interval({}, {})", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weld_core::diag::Span;

    fn bound(value: Option<i64>) -> Bound {
        match value {
            Some(offset) => Bound { from_end: offset < 0, offset },
            None => Bound { from_end: true, offset: 0 },
        }
    }

    fn interval(start: i64, end: Option<i64>) -> Interval {
        Interval { start: bound(Some(start)), end: bound(end), span: Span::NONE }
    }

    fn overlap(a: Interval, b: Interval) -> bool {
        let block = |interval| Block { policy: Policy::Forward, computation: 0, interval, body: Vec::new() };
        order(&mut [block(a), block(b)], Policy::Forward, None).is_err()
    }

    #[test]
    fn empty_and_reversed() {
        for (start, end) in [(1, Some(1)), (2, Some(1)), (-1, Some(-1)), (-1, Some(-2)), (0, Some(0))] {
            assert!(check(&interval(start, end)).is_err(), "{start} {end:?}");
        }
        for (start, end) in [(0, None), (1, Some(-1)), (-3, None), (-2, Some(5))] {
            assert!(check(&interval(start, end)).is_ok(), "{start} {end:?}");
        }
    }

    #[test]
    fn overlaps() {
        assert!(overlap(interval(0, Some(3)), interval(2, None)));
        assert!(overlap(interval(0, None), interval(1, Some(2))));
        assert!(overlap(interval(-2, None), interval(0, None)));
        assert!(!overlap(interval(0, Some(2)), interval(2, None)));
        assert!(!overlap(interval(0, Some(-1)), interval(-1, None)));
        // Only in a domain of less than 4 levels.
        assert!(!overlap(interval(0, Some(2)), interval(-2, None)));
    }
}
