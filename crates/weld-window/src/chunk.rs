//! Rows of whole units, and where their window partitions and peer groups begin.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{concat, partition};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::WindowExpr;

/// What must be known at once to evaluate a function; each contains the ones before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Unit {
    Row,
    Peers,
    Partition,
}

/// Rows one after the other, with nothing of their last unit missing.
pub(crate) struct Chunk {
    pub(crate) batch: RecordBatch,
    /// The rows of each window partition, in order.
    pub(crate) partitions: Vec<Range<usize>>,
    /// The rows of each peer group, in order. None is in two partitions.
    pub(crate) peers: Vec<Range<usize>>,
    /// Whether the first partition has rows in the chunk before.
    pub(crate) continues_partition: bool,
    /// Whether the first peer group has.
    pub(crate) continues_peers: bool,
}

impl Chunk {
    pub(crate) fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Each peer group and whether it is the first of its window partition; the partition may have begun in the chunk
    /// before all the same.
    pub(crate) fn peers_of_partitions(&self) -> impl Iterator<Item = (&Range<usize>, bool)> {
        let mut starts = self.partitions.iter().map(|rows| rows.start).peekable();
        self.peers.iter().map(move |peers| (peers, starts.next_if_eq(&peers.start).is_some()))
    }
}

/// The expressions that tell window partitions and peer groups apart.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    partition_by: Vec<Arc<dyn PhysicalExpr>>,
    order_by: Vec<Arc<dyn PhysicalExpr>>,
}

/// The values of the keys in some rows.
pub(crate) struct KeyValues {
    partition_by: Vec<ArrayRef>,
    order_by: Vec<ArrayRef>,
    rows: usize,
}

impl Keys {
    pub(crate) fn of(window: &dyn WindowExpr) -> Keys {
        let order_by = window.order_by().iter().map(|key| Arc::clone(&key.expr)).collect();
        Keys { partition_by: window.partition_by().to_vec(), order_by }
    }

    pub(crate) fn has_partitions(&self) -> bool {
        !self.partition_by.is_empty()
    }

    /// Whether `window` has the same partitions and the same peers.
    pub(crate) fn are_those_of(&self, window: &dyn WindowExpr) -> bool {
        let Keys { partition_by, order_by } = Keys::of(window);
        partition_by == self.partition_by && order_by == self.order_by
    }

    pub(crate) fn values(&self, batch: &RecordBatch) -> Result<KeyValues> {
        let rows = batch.num_rows();
        let arrays = |exprs: &[Arc<dyn PhysicalExpr>]| -> Result<Vec<ArrayRef>> {
            exprs.iter().map(|expr| expr.evaluate(batch)?.into_array(rows)).collect()
        };
        Ok(KeyValues { partition_by: arrays(&self.partition_by)?, order_by: arrays(&self.order_by)?, rows })
    }
}

impl KeyValues {
    pub(crate) fn partitions(&self) -> Result<Vec<Range<usize>>> {
        ranges(&self.partition_by, self.rows)
    }

    pub(crate) fn peers(&self) -> Result<Vec<Range<usize>>> {
        let keys: Vec<ArrayRef> = self.partition_by.iter().chain(&self.order_by).cloned().collect();
        ranges(&keys, self.rows)
    }

    /// The row where the last unit begins.
    pub(crate) fn last_unit(&self, unit: Unit) -> Result<usize> {
        let units = match unit {
            Unit::Row => return Ok(self.rows),
            Unit::Peers => self.peers()?,
            Unit::Partition => self.partitions()?,
        };
        Ok(units.last().map_or(0, |unit| unit.start))
    }

    pub(crate) fn slice(&self, from: usize, rows: usize) -> KeyValues {
        let slices = |arrays: &[ArrayRef]| arrays.iter().map(|array| array.slice(from, rows)).collect();
        KeyValues { partition_by: slices(&self.partition_by), order_by: slices(&self.order_by), rows }
    }

    /// These rows and then `others`.
    pub(crate) fn then(&self, others: &KeyValues) -> Result<KeyValues> {
        let both = |first: &[ArrayRef], second: &[ArrayRef]| -> Result<Vec<ArrayRef>> {
            first.iter().zip(second).map(|(first, second)| Ok(concat(&[first, second])?)).collect()
        };
        Ok(KeyValues {
            partition_by: both(&self.partition_by, &others.partition_by)?,
            order_by: both(&self.order_by, &others.order_by)?,
            rows: self.rows + others.rows,
        })
    }
}

/// The rows that have the same keys, in order. Nulls are the same, and so is one NaN as another of its bits, as
/// DataFusion's operators have it.
fn ranges(keys: &[ArrayRef], rows: usize) -> Result<Vec<Range<usize>>> {
    Ok(if rows == 0 {
        Vec::new()
    } else if keys.is_empty() {
        std::iter::once(0..rows).collect()
    } else {
        partition(keys)?.ranges()
    })
}
