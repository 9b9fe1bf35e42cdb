//! What statistics do not tell: least and greatest values of columns of tables in memory, which have no statistics of
//! their own, and how many distinct texts columns of files have.
//!
//! Values in memory are read once for each column: two milliseconds for six million values, remembered as long as the
//! table lives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::compute::{max, min};
use arrow::datatypes::{
    DataType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::record_batch::RecordBatch;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;

use crate::distinct::DistinctTexts;

/// When so many columns are remembered, those of tables that are gone are forgotten.
const REMEMBERED_MAX: usize = 1024;

/// What was read of tables.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    known: Mutex<HashMap<Key, Known>>,
    texts: DistinctTexts,
    /// Whether nothing is read.
    unread: bool,
}

/// The address of the column's first array and how many batches and rows there are: the same table as long as that
/// array lives.
type Key = (usize, usize, usize);

#[derive(Debug)]
struct Known {
    first: Weak<dyn Array>,
    range: Option<(f64, f64)>,
}

impl Ranges {
    /// Without any, for estimates while a query runs.
    pub(crate) fn unread() -> Ranges {
        Ranges { unread: true, ..Ranges::default() }
    }

    /// How many distinct texts a column of files has, if the session has read their footers.
    pub(crate) fn distinct_texts(&self, source: &FileScanConfig, column: usize) -> Option<f64> {
        if self.unread { None } else { self.texts.of(source, column) }
    }

    /// The range of a column of the source's output.
    pub(crate) fn of(&self, source: &MemorySourceConfig, column: usize) -> Option<(f64, f64)> {
        let column = source.projection().as_ref().map_or(Some(column), |kept| kept.get(column).copied())?;
        let batches = || source.partitions().iter().flatten();
        let first = batches().next()?.columns().get(column)?;
        if self.unread || !is_counted(first.data_type()) {
            return None;
        }
        let rows = batches().map(RecordBatch::num_rows).sum();
        let key = (Arc::as_ptr(first).cast::<()>() as usize, batches().count(), rows);
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&key).filter(|known| known.first.strong_count() > 0) {
            return known.range;
        }
        let ranges = batches().filter_map(|batch| range(batch.column(column)));
        let range = ranges.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
        let mut known = known();
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, known| known.first.strong_count() > 0);
        }
        known.insert(key, Known { first: Arc::downgrade(first), range });
        range
    }
}

fn is_counted(data_type: &DataType) -> bool {
    data_type.is_integer() || *data_type == DataType::Date32
}

fn range(values: &ArrayRef) -> Option<(f64, f64)> {
    fn of<T: ArrowPrimitiveType>(values: &ArrayRef, position: impl Fn(T::Native) -> f64) -> Option<(f64, f64)> {
        let values = values.as_primitive::<T>();
        Some((position(min(values)?), position(max(values)?)))
    }
    match values.data_type() {
        DataType::Int8 => of::<Int8Type>(values, f64::from),
        DataType::Int16 => of::<Int16Type>(values, f64::from),
        DataType::Int32 => of::<Int32Type>(values, f64::from),
        DataType::Int64 => of::<Int64Type>(values, |value| value as f64),
        DataType::UInt8 => of::<UInt8Type>(values, f64::from),
        DataType::UInt16 => of::<UInt16Type>(values, f64::from),
        DataType::UInt32 => of::<UInt32Type>(values, f64::from),
        DataType::UInt64 => of::<UInt64Type>(values, |value| value as f64),
        DataType::Date32 => of::<Date32Type>(values, f64::from),
        _ => None,
    }
}
