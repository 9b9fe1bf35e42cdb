//! `percent_rank`, `cume_dist`, `ntile`: where a row is among those of its window partition.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_plan::windows::WindowUDFExpr;

use crate::chunk::{Chunk, Unit};
use crate::function::{Function, literal};

/// The part of a window partition's rows that come before a row, or not after it; peers are at one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Distribution {
    /// The rows before the first peer, of all others.
    PercentRank,
    /// The rows up to the last peer, of all.
    CumeDist,
}

impl Function for Distribution {
    fn unit(&self) -> Unit {
        Unit::Partition
    }

    fn needs_peers(&self) -> bool {
        true
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let mut places = Vec::with_capacity(chunk.rows());
        let mut partitions = chunk.partitions.iter();
        let mut rows = 0..0;
        for peers in &chunk.peers {
            if peers.start == rows.end {
                rows = partitions.next().cloned().unwrap_or_default();
            }
            let place = match self {
                Distribution::PercentRank => (peers.start - rows.start) as f64 / (rows.len() as f64 - 1.0).max(1.0),
                Distribution::CumeDist => (peers.end - rows.start) as f64 / rows.len() as f64,
            };
            places.extend(std::iter::repeat_n(place, peers.len()));
        }
        Ok(Arc::new(Float64Array::from(places)))
    }
}

/// `ntile`: the number of a row's part of its window partition, which is cut into as many parts. The first ones have a
/// row more than the others where it cannot be cut evenly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiles(u64);

impl Tiles {
    /// `None` if the number of parts is no literal of an integer above 0.
    pub(crate) fn of(call: &WindowUDFExpr) -> Option<Tiles> {
        let parts = literal(call.args().first()?)?;
        match parts.cast_to(&DataType::UInt64) {
            Ok(ScalarValue::UInt64(Some(tiles @ 1..))) if parts.data_type().is_integer() => Some(Tiles(tiles)),
            _ => None,
        }
    }
}

impl Function for Tiles {
    fn unit(&self) -> Unit {
        Unit::Partition
    }

    fn needs_peers(&self) -> bool {
        false
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let mut tiles = Vec::with_capacity(chunk.rows());
        for rows in &chunk.partitions {
            let rows = rows.len() as u64;
            let (least, larger) = (rows / self.0, rows % self.0);
            for tile in 1..=self.0.min(rows) {
                let rows = least + u64::from(tile <= larger);
                tiles.extend(std::iter::repeat_n(tile, rows as usize));
            }
        }
        Ok(Arc::new(UInt64Array::from(tiles)))
    }
}
