//! Frames with distances in values: `RANGE BETWEEN INTERVAL '5' MINUTE PRECEDING AND CURRENT ROW`.
//!
//! The values at the distance from those of all rows are computed at once. Rows are sorted, so the ends of frames are
//! found by a cursor that goes over each window partition once.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::{
    Array, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, Datum, PrimitiveArray, downcast_primitive_array,
};
use arrow::compute::SortOptions;
use arrow::compute::kernels::numeric::{add, sub};
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::physical_expr::PhysicalSortExpr;

use crate::chunk::Chunk;

/// A distance before or after the value of the current row, in the order of the rows.
#[derive(Clone, Debug)]
pub(crate) struct Distance {
    key: PhysicalSortExpr,
    by: ScalarValue,
    is_following: bool,
}

/// An end of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Start,
    End,
}

impl Distance {
    /// `None` for distances and keys that are left to DataFusion's operators: negative ones, decimals, texts.
    pub(crate) fn of(key: &PhysicalSortExpr, input: &Schema, by: &ScalarValue, is_following: bool) -> Option<Distance> {
        let of_key = key.expr.data_type(input).ok()?;
        let is_taken = match (&of_key, by) {
            (DataType::Date32 | DataType::Date64 | DataType::Timestamp(..), ScalarValue::IntervalMonthDayNano(by)) => {
                by.is_some_and(|by| by.months >= 0 && by.days >= 0 && by.nanoseconds >= 0)
            }
            (DataType::Float32 | DataType::Float64, by) => by.data_type() == of_key && is_positive(by)?,
            (of_key, by) => of_key.is_integer() && by.data_type() == *of_key && is_positive(by)?,
        };
        is_taken.then(|| Distance { key: key.clone(), by: by.clone(), is_following })
    }

    /// For each row of a chunk of whole window partitions, the first row of its frame, or the first after it. None goes
    /// back within a partition.
    pub(crate) fn rows(&self, chunk: &Chunk, end: End) -> Result<Vec<usize>> {
        let values = self.key.expr.evaluate(&chunk.batch)?.into_array(chunk.rows())?;
        let values = values.as_ref();
        downcast_primitive_array!(
            values => {
                let keys = Keys { targets: self.targets(values)?, values, options: self.key.options };
                Ok(keys.rows(&chunk.partitions, end, self.is_following))
            }
            other => internal_err!("distances of {other}")
        )
    }

    /// The values at this distance from `values`; none where the type ends before.
    fn targets<T: ArrowPrimitiveType>(&self, values: &PrimitiveArray<T>) -> Result<Vec<Option<T::Native>>> {
        let adds = self.is_following != self.key.options.descending;
        if !adds && values.data_type().is_unsigned_integer() {
            // Unsigned integers end at zero, which is a value.
            let by = self.by.to_array()?;
            let by = by.as_primitive::<T>().value(0);
            let less = |value: &T::Native| Some(value.sub_checked(by).unwrap_or(T::Native::ZERO));
            return Ok(values.values().iter().map(less).collect());
        }
        let by = self.by.to_scalar()?;
        let moved = |values: &dyn Datum| if adds { add(values, &by) } else { sub(values, &by) };
        let typed = |moved: Result<_, ArrowError>| {
            let moved: arrow::array::ArrayRef = moved?;
            moved
                .as_primitive_opt::<T>()
                .cloned()
                .ok_or_else(|| ArrowError::ComputeError(moved.data_type().to_string()))
        };
        if let Ok(moved) = typed(moved(values)) {
            return Ok(moved.values().iter().copied().map(Some).collect());
        }
        let one = |row| typed(moved(&values.slice(row, 1))).ok().map(|moved| moved.value(0));
        Ok((0..values.len()).map(one).collect())
    }
}

/// Whether it is zero or more; `None` if it is no number.
fn is_positive(by: &ScalarValue) -> Option<bool> {
    let order = by.partial_cmp(&ScalarValue::new_zero(&by.data_type()).ok()?)?;
    let is_finite = match by {
        ScalarValue::Float32(by) => by.is_some_and(f32::is_finite),
        ScalarValue::Float64(by) => by.is_some_and(f64::is_finite),
        _ => true,
    };
    Some(is_finite && order.is_ge())
}

/// The keys of the rows, and those that bound the frames.
struct Keys<'a, T: ArrowPrimitiveType> {
    values: &'a PrimitiveArray<T>,
    targets: Vec<Option<T::Native>>,
    options: SortOptions,
}

impl<T: ArrowPrimitiveType> Keys<'_, T> {
    fn rows(&self, partitions: &[Range<usize>], end: End, is_following: bool) -> Vec<usize> {
        let mut rows = Vec::with_capacity(self.values.len());
        for partition in partitions {
            let mut found = partition.start;
            for row in partition.clone() {
                match self.targets[row] {
                    // Nulls are at no distance from values.
                    _ if self.values.is_null(row) => found = self.after(found..partition.end, None, end),
                    None if is_following => found = partition.end,
                    None => {}
                    target => found = self.after(found..partition.end, target, end),
                }
                rows.push(found);
            }
        }
        rows
    }

    /// The first of `rows` that is not before the end of a frame that `target`, which may be null, bounds.
    fn after(&self, mut rows: Range<usize>, target: Option<T::Native>, end: End) -> usize {
        let bound = rows.end;
        rows.find(|&row| match self.order(row, target) {
            Ordering::Less => false,
            Ordering::Equal => end == End::Start,
            Ordering::Greater => true,
        })
        .unwrap_or(bound)
    }

    /// How the key of a row is ordered beside `target`.
    fn order(&self, row: usize, target: Option<T::Native>) -> Ordering {
        let null = if self.options.nulls_first { Ordering::Less } else { Ordering::Greater };
        match (self.values.is_null(row), target) {
            (true, None) => Ordering::Equal,
            (true, Some(_)) => null,
            (false, None) => null.reverse(),
            (false, Some(target)) => {
                let order = self.values.value(row).compare(target);
                if self.options.descending { order.reverse() } else { order }
            }
        }
    }
}
