//! Aggregates over frames that move: what rows come to, as they enter at a frame's end and leave at its start.

use std::ops::Range;

use arrow::array::ArrayRef;
use datafusion::common::{Result, internal_datafusion_err};

use crate::chunk::{Chunk, Unit};
use crate::frame::{Bound, Frame};
use crate::function::Function;

/// An aggregate of rows that come and go, and the results that it has given.
pub(crate) trait Fold: Send {
    /// The rows of `chunk` come next. What has entered stays.
    fn begin(&mut self, chunk: &Chunk) -> Result<()>;

    /// There are no rows; `slides` says whether some that enter will leave before the next restart.
    fn restart(&mut self, slides: bool) -> Result<()>;

    /// These rows of the chunk enter, at once: of floats, they are summed up before they are added.
    fn enter(&mut self, rows: Range<usize>) -> Result<()>;

    /// These rows of the chunk, the first of those that are there, leave.
    fn leave(&mut self, rows: Range<usize>) -> Result<()>;

    /// The result is that of the next `rows` rows of the chunk.
    fn give(&mut self, rows: usize) -> Result<()>;

    /// The result of no row is that of the next row of the chunk.
    fn give_of_nothing(&mut self) -> Result<()>;

    /// The results that were given since the chunk began.
    fn results(&mut self) -> Result<ArrayRef>;
}

/// How the frames of rows follow each other.
#[derive(Clone, Debug)]
pub(crate) enum Frames {
    /// From the first row of the window partition to the current one, or to the last of its peers.
    Running(Unit),
    /// Any other.
    Sliding(Frame),
}

impl Frames {
    pub(crate) fn of(frame: Frame) -> Frames {
        match (&frame.start, &frame.end) {
            (Bound::Partition, Bound::Rows(0)) => Frames::Running(Unit::Row),
            (Bound::Partition, Bound::Groups(0)) => Frames::Running(Unit::Peers),
            _ => Frames::Sliding(frame),
        }
    }

    /// `fold` over these frames.
    pub(crate) fn over<F: Fold + 'static>(&self, fold: F) -> Box<dyn Function> {
        match self {
            Frames::Running(unit) => Box::new(Running { fold, unit: *unit }),
            Frames::Sliding(frame) => Box::new(Sliding { fold, frame: frame.clone() }),
        }
    }
}

/// From the first row of the window partition to the current one, or to the last of its peers.
struct Running<F> {
    fold: F,
    unit: Unit,
}

impl<F: Fold> Function for Running<F> {
    fn unit(&self) -> Unit {
        self.unit
    }

    fn needs_peers(&self) -> bool {
        self.unit == Unit::Peers
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let fold = &mut self.fold;
        fold.begin(chunk)?;
        if self.unit == Unit::Row {
            for rows in &chunk.partitions {
                if rows.start > 0 || !chunk.continues_partition {
                    fold.restart(false)?;
                }
                for row in rows.clone() {
                    fold.enter(row..row + 1)?;
                    fold.give(1)?;
                }
            }
            return fold.results();
        }
        for (peers, is_first) in chunk.peers_of_partitions() {
            if is_first && (peers.start > 0 || !chunk.continues_partition) {
                fold.restart(false)?;
            }
            fold.enter(peers.clone())?;
            fold.give(peers.len())?;
        }
        fold.results()
    }
}

/// Any other frame.
struct Sliding<F> {
    fold: F,
    frame: Frame,
}

impl<F: Fold> Function for Sliding<F> {
    fn unit(&self) -> Unit {
        Unit::Partition
    }

    fn needs_peers(&self) -> bool {
        true
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let fold = &mut self.fold;
        fold.begin(chunk)?;
        let frames = self.frame.of_rows(chunk)?;
        let slides = !matches!(self.frame.start, Bound::Partition);
        for rows in &chunk.partitions {
            let frames = frames.get(rows.clone()).ok_or_else(|| internal_datafusion_err!("each row has a frame"))?;
            fold.restart(slides)?;
            let mut last = rows.start..rows.start;
            for frame in frames {
                if frame.is_empty() {
                    // As DataFusion's: all rows leave, so none that is not in a frame has a part in a sum of floats.
                    if !last.is_empty() && slides {
                        fold.leave(last)?;
                    }
                    last = frame.clone();
                    fold.give_of_nothing()?;
                    continue;
                }
                if frame.end > last.end {
                    fold.enter(last.end..frame.end)?;
                }
                if frame.start > last.start {
                    fold.leave(last.start..frame.start)?;
                }
                last = frame.clone();
                fold.give(1)?;
            }
        }
        fold.results()
    }
}
