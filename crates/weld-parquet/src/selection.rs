//! Which rows of a row group are wanted.
//!
//! ```
//! use weld_parquet::Selection;
//! use arrow::buffer::BooleanBuffer;
//! let some = Selection::from_mask(&BooleanBuffer::from(vec![true, false, true]));
//! assert_eq!(some, Selection::Rows(vec![0, 2]));
//! assert_eq!(Selection::All(3).len(), 3);
//! ```

use std::ops::Range;

use arrow::buffer::BooleanBuffer;

use crate::error::{Error, Result};

/// The rows of a row group to decode, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Every row; the number says how many there are.
    All(usize),
    /// These rows, strictly ascending.
    Rows(Vec<u32>),
}

/// A part of a selection that lies in one range of rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Span<'a> {
    Range(Range<usize>),
    Rows(&'a [u32]),
}

/// Rows that follow each other are read as a range, where they are at least as many.
const STRETCH: usize = 64;

/// Whether the first [`STRETCH`] of `rows`, which ascend, follow each other.
fn is_stretch(rows: &[u32]) -> bool {
    rows.get(STRETCH - 1).is_some_and(|last| (last - rows[0]) as usize == STRETCH - 1)
}

/// Cuts the first part off ascending `rows`: a long range, or scattered rows.
pub(crate) fn split_stretch(rows: &[u32]) -> (Span<'_>, &[u32]) {
    if !is_stretch(rows) {
        let stop = (STRETCH..rows.len()).step_by(STRETCH).find(|&at| is_stretch(&rows[at..]));
        let (scattered, rest) = rows.split_at(stop.unwrap_or(rows.len()));
        return (Span::Rows(scattered), rest);
    }
    let first = rows[0];
    let mut stop = STRETCH;
    while is_stretch(&rows[stop - 1..]) {
        stop += STRETCH - 1;
    }
    while rows.get(stop).is_some_and(|&row| row - first == stop as u32) {
        stop += 1;
    }
    (Span::Range(first as usize..first as usize + stop), &rows[stop..])
}

impl Selection {
    /// The rows whose bits are set.
    pub fn from_mask(mask: &BooleanBuffer) -> Self {
        let set = mask.count_set_bits();
        if set == mask.len() {
            return Selection::All(set);
        }
        Selection::Rows(mask.set_indices().map(|row| row as u32).collect())
    }

    /// The rows of `ranges`, which ascend and do not overlap, of a row group of `total` rows.
    pub fn from_ranges(total: usize, ranges: impl IntoIterator<Item = Range<usize>>) -> Self {
        let ranges: Vec<_> = ranges.into_iter().collect();
        if ranges.iter().map(Range::len).sum::<usize>() == total {
            return Selection::All(total);
        }
        let mut rows = vec![];
        ranges.into_iter().for_each(|range| rows.extend(range.start as u32..range.end as u32));
        Selection::Rows(rows)
    }

    /// How many rows are selected.
    pub fn len(&self) -> usize {
        match self {
            Selection::All(rows) => *rows,
            Selection::Rows(rows) => rows.len(),
        }
    }

    /// Whether most of the selected rows do not lie in long ranges.
    pub fn is_scattered(&self) -> bool {
        let Selection::Rows(rows) = self else { return false };
        2 * rows.chunks(STRETCH).filter(|rows| is_stretch(rows)).count() < rows.len().div_ceil(STRETCH)
    }

    /// Whether no row is selected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Checks that the rows ascend and lie in a row group of `total` rows.
    pub(crate) fn check(&self, total: usize) -> Result<()> {
        let good = match self {
            Selection::All(rows) => *rows == total,
            Selection::Rows(rows) => {
                rows.is_sorted_by(|a, b| a < b) && rows.last().is_none_or(|&r| (r as usize) < total)
            }
        };
        if good { Ok(()) } else { Err(Error::Usage("a selection does not fit its row group".into())) }
    }

    /// The selected rows in `range`.
    pub(crate) fn within(&self, range: Range<usize>) -> Span<'_> {
        match self {
            Selection::All(_) => Span::Range(range),
            Selection::Rows(rows) => {
                let start = rows.partition_point(|&r| (r as usize) < range.start);
                let len = rows[start..].partition_point(|&r| (r as usize) < range.end);
                Span::Rows(&rows[start..start + len])
            }
        }
    }

    /// The selected rows number `from .. to`, as a span.
    pub(crate) fn nth(&self, positions: Range<usize>) -> Span<'_> {
        match self {
            Selection::All(_) => Span::Range(positions),
            Selection::Rows(rows) => Span::Rows(&rows[positions]),
        }
    }
}

impl Span<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Span::Range(range) => range.len(),
            Span::Rows(rows) => rows.len(),
        }
    }

    /// The first row, if there is any.
    pub(crate) fn first(&self) -> Option<usize> {
        match self {
            Span::Range(range) => Some(range.start).filter(|_| !range.is_empty()),
            Span::Rows(rows) => rows.first().map(|&r| r as usize),
        }
    }

    /// Splits off the part before row `end`.
    pub(crate) fn split_before(self, end: usize) -> (Self, Self) {
        match self {
            Span::Range(r) => {
                let cut = end.clamp(r.start, r.end);
                (Span::Range(r.start..cut), Span::Range(cut..r.end))
            }
            Span::Rows(rows) => {
                let (a, b) = rows.split_at(rows.partition_point(|&r| (r as usize) < end));
                (Span::Rows(a), Span::Rows(b))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_and_the_rows_between() {
        for gaps in 1..200u32 {
            for len in [0, 1, 63, 64, 65, 127, 128, 129, 300, 1000] {
                let rows: Vec<u32> = (0..len).filter(|row| row % gaps != gaps / 2 || row / 300 == 1).collect();
                let (mut rest, mut again) = (&rows[..], vec![]);
                while !rest.is_empty() {
                    let (part, later) = split_stretch(rest);
                    assert!(part.len() > 0 && later.len() == rest.len() - part.len());
                    match part {
                        Span::Range(range) => again.extend(range.map(|row| row as u32)),
                        Span::Rows(rows) => again.extend(rows),
                    }
                    rest = later;
                }
                assert_eq!(again, rows);
            }
        }
    }

    #[test]
    fn scattered_rows() {
        assert!(!Selection::All(1000).is_scattered() && !Selection::Rows(vec![]).is_scattered());
        assert!(!Selection::from_ranges(1000, std::iter::once(100..700)).is_scattered());
        assert!(!Selection::from_ranges(1000, [0..300, 302..700, 900..910]).is_scattered());
        assert!(Selection::Rows((0..1000).filter(|row| row % 3 != 0).collect()).is_scattered());
        assert!(Selection::Rows((0..1000).filter(|row| row % 60 != 0).collect()).is_scattered());
    }
}
