//! Frames: for each row, the rows that its result is computed from.

use std::ops::Range;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};

use crate::chunk::Chunk;

/// One end of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bound {
    /// That of the window partition.
    Partition,
    /// That of the row's peer group.
    Peers,
    /// So many rows after the current one; before, if negative.
    Rows(i64),
}

/// Both ends are included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) start: Bound,
    pub(crate) end: Bound,
}

impl Frame {
    /// `None` for distances in values and in peer groups, and where DataFusion's own operators give an error.
    pub(crate) fn of(frame: &WindowFrame, is_ordered: bool) -> Option<Frame> {
        let bound = |bound: &WindowFrameBound, is_start: bool| {
            let (distance, sign) = match bound {
                WindowFrameBound::CurrentRow if frame.units == WindowFrameUnits::Rows => return Some(Bound::Rows(0)),
                // Without an order all rows are peers.
                WindowFrameBound::CurrentRow if !is_ordered => return Some(Bound::Partition),
                WindowFrameBound::CurrentRow => return Some(Bound::Peers),
                WindowFrameBound::Preceding(distance) => (distance, -1),
                WindowFrameBound::Following(distance) => (distance, 1),
            };
            if distance.is_null() {
                return (is_start == (sign < 0)).then_some(Bound::Partition);
            }
            match (frame.units, distance) {
                (WindowFrameUnits::Rows, ScalarValue::UInt64(Some(rows))) => {
                    i64::try_from(*rows).ok().map(|rows| Bound::Rows(sign * rows))
                }
                _ => None,
            }
        };
        Some(Frame { start: bound(&frame.start_bound, true)?, end: bound(&frame.end_bound, false)? })
    }

    /// Whether all rows of a window partition have the same frame.
    pub(crate) fn is_partition(self) -> bool {
        self == Frame { start: Bound::Partition, end: Bound::Partition }
    }

    /// Whether it depends on which rows are peers.
    pub(crate) fn has_peers(self) -> bool {
        [self.start, self.end].contains(&Bound::Peers)
    }

    /// The frame of each row of a chunk that has whole window partitions. Starts and ends do not go back within a
    /// partition; a frame without rows ends where it starts.
    pub(crate) fn of_rows(self, chunk: &Chunk) -> Vec<Range<usize>> {
        let mut frames = Vec::with_capacity(chunk.rows());
        let mut partitions = chunk.partitions.iter();
        let mut partition = 0..0;
        for (peers, is_first) in chunk.peers_of_partitions() {
            if is_first {
                partition = partitions.next().cloned().unwrap_or_default();
            }
            for row in peers.clone() {
                let start = match self.start {
                    Bound::Partition => partition.start,
                    Bound::Peers => peers.start,
                    Bound::Rows(distance) => moved(row, distance, &partition),
                };
                let end = match self.end {
                    Bound::Partition => partition.end,
                    Bound::Peers => peers.end,
                    Bound::Rows(distance) => moved(row, distance.saturating_add(1), &partition),
                };
                frames.push(start..end.max(start));
            }
        }
        frames
    }
}

/// `row + distance`, not beyond the partition's ends.
fn moved(row: usize, distance: i64, partition: &Range<usize>) -> usize {
    let distance = isize::try_from(distance).unwrap_or(if distance < 0 { isize::MIN } else { isize::MAX });
    row.saturating_add_signed(distance).clamp(partition.start, partition.end)
}
