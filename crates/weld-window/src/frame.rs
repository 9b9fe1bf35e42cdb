//! Frames: for each row, the rows that its result is computed from.

use std::ops::Range;

use arrow::datatypes::Schema;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalSortExpr;

use crate::chunk::Chunk;
use crate::distance::{Distance, End};

/// One end of a frame.
#[derive(Clone, Debug)]
pub(crate) enum Bound {
    /// That of the window partition.
    Partition,
    /// That of the peer group so many groups after the row's own; before, if negative.
    Groups(i64),
    /// So many rows after the current one; before, if negative.
    Rows(i64),
    /// That of the rows whose keys are no further away.
    Values(Distance),
}

/// Both ends are included.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) start: Bound,
    pub(crate) end: Bound,
}

impl Frame {
    /// `None` for distances between values that are not computed here, and where DataFusion's own operators give an
    /// error.
    pub(crate) fn of(frame: &WindowFrame, order: &[PhysicalSortExpr], input: &Schema) -> Option<Frame> {
        if frame.units != WindowFrameUnits::Rows && !ends_after_start(frame) {
            return None;
        }
        let bound = |bound: &WindowFrameBound, is_start: bool| {
            let (distance, sign) = match bound {
                WindowFrameBound::CurrentRow if frame.units == WindowFrameUnits::Rows => return Some(Bound::Rows(0)),
                // Without an order all rows are peers.
                WindowFrameBound::CurrentRow if order.is_empty() => return Some(Bound::Partition),
                WindowFrameBound::CurrentRow => return Some(Bound::Groups(0)),
                WindowFrameBound::Preceding(distance) => (distance, -1),
                WindowFrameBound::Following(distance) => (distance, 1),
            };
            if distance.is_null() {
                return (is_start == (sign < 0)).then_some(Bound::Partition);
            }
            match (frame.units, distance, order) {
                // Its operator for bounded memory takes such a frame for known before the peers of nulls and NaNs are,
                // which it has in it, and gives other values than the one for whole window partitions.
                (WindowFrameUnits::Range, ..) if !is_start && sign < 0 => None,
                (WindowFrameUnits::Range, distance, [key]) => {
                    Distance::of(key, input, distance, sign > 0).map(Bound::Values)
                }
                (WindowFrameUnits::Rows, ScalarValue::UInt64(Some(rows)), _) => {
                    i64::try_from(*rows).ok().map(|rows| Bound::Rows(sign * rows))
                }
                (WindowFrameUnits::Groups, ScalarValue::UInt64(Some(groups)), [_, ..]) => {
                    i64::try_from(*groups).ok().map(|groups| Bound::Groups(sign * groups))
                }
                _ => None,
            }
        };
        Some(Frame { start: bound(&frame.start_bound, true)?, end: bound(&frame.end_bound, false)? })
    }

    /// Whether all rows of a window partition have the same frame.
    pub(crate) fn is_partition(&self) -> bool {
        matches!(self, Frame { start: Bound::Partition, end: Bound::Partition })
    }

    /// Whether it depends on which rows are peers.
    pub(crate) fn has_peers(&self) -> bool {
        matches!(self.start, Bound::Groups(_)) || matches!(self.end, Bound::Groups(_))
    }

    /// The frame of each row of a chunk that has whole window partitions. Starts and ends do not go back within a
    /// partition; a frame without rows ends where it starts.
    pub(crate) fn of_rows(&self, chunk: &Chunk) -> Result<Vec<Range<usize>>> {
        let by_values = |bound: &Bound, end| match bound {
            Bound::Values(distance) => distance.rows(chunk, end),
            _ => Ok(Vec::new()),
        };
        let (starts, ends) = (by_values(&self.start, End::Start)?, by_values(&self.end, End::End)?);
        let mut frames = Vec::with_capacity(chunk.rows());
        let mut peers = chunk.peers.as_slice();
        for partition in &chunk.partitions {
            let (groups, others) = peers.split_at(peers.partition_point(|peers| peers.start < partition.end));
            peers = others;
            for (group, rows) in groups.iter().enumerate() {
                for row in rows.clone() {
                    let start = match self.start {
                        Bound::Partition => partition.start,
                        Bound::Groups(0) => rows.start,
                        Bound::Groups(distance) => {
                            groups.get(moved(group, distance)).map_or(partition.end, |group| group.start)
                        }
                        Bound::Rows(distance) => moved(row, distance).clamp(partition.start, partition.end),
                        Bound::Values(_) => starts[row],
                    };
                    let end = match self.end {
                        Bound::Partition => partition.end,
                        Bound::Groups(0) => rows.end,
                        // The frame ends where the group after its last one starts.
                        Bound::Groups(distance) => groups
                            .get(moved(group, distance.saturating_add(1)))
                            .map_or(partition.end, |group| group.start),
                        Bound::Rows(distance) => {
                            moved(row, distance.saturating_add(1)).clamp(partition.start, partition.end)
                        }
                        Bound::Values(_) => ends[row],
                    };
                    frames.push(start..end.max(start));
                }
            }
        }
        Ok(frames)
    }
}

/// Whether the end is not before the start, so that frames have no ends that DataFusion makes an error of.
fn ends_after_start(frame: &WindowFrame) -> bool {
    match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(start), WindowFrameBound::Preceding(end)) => {
            start.is_null() || is_farther(start, end)
        }
        (WindowFrameBound::Following(start), WindowFrameBound::Following(end)) => {
            end.is_null() || is_farther(end, start)
        }
        (WindowFrameBound::Preceding(_), _) | (_, WindowFrameBound::Following(_)) => true,
        (start, end) => start == end,
    }
}

/// Whether one distance is no less than another, from every value.
fn is_farther(one: &ScalarValue, other: &ScalarValue) -> bool {
    match (one, other) {
        // A month may have more and fewer days than another.
        (ScalarValue::IntervalMonthDayNano(Some(one)), ScalarValue::IntervalMonthDayNano(Some(other))) => {
            one.months >= other.months && one.days >= other.days && one.nanoseconds >= other.nanoseconds
        }
        _ => one >= other,
    }
}

/// `place + distance`, not beyond the numbers' ends.
fn moved(place: usize, distance: i64) -> usize {
    let distance = isize::try_from(distance).unwrap_or(if distance < 0 { isize::MIN } else { isize::MAX });
    place.saturating_add_signed(distance)
}
