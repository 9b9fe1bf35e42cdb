//! Running sums, counts, minima and maxima of numbers, without a `ScalarValue` a row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Date32Type, Date64Type, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::physical_expr::window::WindowExpr;

use crate::aggregate::Aggregate;
use crate::chunk::{Chunk, Unit};
use crate::function::Function;

/// The aggregate over all rows of the window partition up to the current `unit`; `None` if it is not of those that are
/// computed here.
pub(crate) fn function(aggregate: &Aggregate, unit: Unit) -> Option<Box<dyn Function>> {
    let Aggregate { function, window } = aggregate;
    let kind = function.fun().inner();
    if function.is_distinct() {
        return None;
    }
    let result = function.field().data_type().clone();
    let args = function.expressions();
    if kind.is::<Count>() && args.len() == 1 && result == DataType::Int64 {
        return Some(Box::new(RunningCount { window: Arc::clone(window), unit, count: 0 }));
    }
    let fold = if kind.is::<Sum>() {
        Fold::Sum
    } else if kind.is::<Min>() {
        Fold::Min
    } else if kind.is::<Max>() {
        Fold::Max
    } else {
        return None;
    };
    folded(fold, result, window, unit)
}

fn folded(fold: Fold, result: DataType, window: &Arc<dyn WindowExpr>, unit: Unit) -> Option<Box<dyn Function>> {
    macro_rules! running {
        ($type:ty) => {{
            let window = Arc::clone(window);
            Some(Box::new(RunningFold::<$type> {
                window,
                unit,
                result,
                combine: fold.combine(),
                first: fold.first(),
                value: None,
            }))
        }};
    }
    match (&result, fold) {
        (DataType::Int64, _) => running!(Int64Type),
        (DataType::UInt64, _) => running!(UInt64Type),
        (DataType::Decimal128(..), _) => running!(Decimal128Type),
        (DataType::Float64, Fold::Sum) => running!(Float64Type),
        // Sums of other types are sums of these.
        (_, Fold::Sum) => None,
        (DataType::Int8, _) => running!(Int8Type),
        (DataType::Int16, _) => running!(Int16Type),
        (DataType::Int32, _) => running!(Int32Type),
        (DataType::UInt8, _) => running!(UInt8Type),
        (DataType::UInt16, _) => running!(UInt16Type),
        (DataType::UInt32, _) => running!(UInt32Type),
        (DataType::Date32, _) => running!(Date32Type),
        (DataType::Date64, _) => running!(Date64Type),
        (DataType::Timestamp(TimeUnit::Second, _), _) => running!(TimestampSecondType),
        (DataType::Timestamp(TimeUnit::Millisecond, _), _) => running!(TimestampMillisecondType),
        (DataType::Timestamp(TimeUnit::Microsecond, _), _) => running!(TimestampMicrosecondType),
        (DataType::Timestamp(TimeUnit::Nanosecond, _), _) => running!(TimestampNanosecondType),
        // DataFusion's own accumulators know which of two NaNs is the larger.
        _ => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fold {
    /// Wraps around, as DataFusion's does.
    Sum,
    Min,
    Max,
}

impl Fold {
    fn combine<N: ArrowNativeTypeOp>(self) -> fn(N, N) -> N {
        match self {
            Fold::Sum => |all, value| all.add_wrapping(value),
            Fold::Min => |all, value| if value.is_lt(all) { value } else { all },
            Fold::Max => |all, value| if value.is_gt(all) { value } else { all },
        }
    }

    /// What the first value is combined with: a sum of -0.0 alone is 0.0, as DataFusion's.
    fn first<N: ArrowNativeTypeOp>(self) -> Option<N> {
        (self == Fold::Sum).then_some(N::ZERO)
    }
}

/// Goes over the rows of a chunk: `start` where a window partition begins, `add` with each row, `give` with the number
/// of rows that have the result so far.
fn run<S>(
    chunk: &Chunk,
    unit: Unit,
    state: &mut S,
    start: impl Fn(&mut S),
    mut add: impl FnMut(&mut S, usize),
    mut give: impl FnMut(&S, usize),
) {
    if !chunk.continues_partition {
        start(state);
    }
    if unit == Unit::Row {
        for rows in &chunk.partitions {
            if rows.start > 0 {
                start(state);
            }
            for row in rows.clone() {
                add(state, row);
                give(state, 1);
            }
        }
        return;
    }
    for (peers, is_first) in chunk.peers_of_partitions() {
        if is_first && peers.start > 0 {
            start(state);
        }
        peers.clone().for_each(|row| add(state, row));
        give(state, peers.len());
    }
}

struct RunningFold<T: ArrowPrimitiveType> {
    window: Arc<dyn WindowExpr>,
    unit: Unit,
    result: DataType,
    combine: fn(T::Native, T::Native) -> T::Native,
    first: Option<T::Native>,
    /// Of the rows so far; `None` if all of them are null.
    value: Option<T::Native>,
}

impl<T: ArrowPrimitiveType> Function for RunningFold<T>
where
    T::Native: ArrowNativeTypeOp,
{
    fn unit(&self) -> Unit {
        self.unit
    }

    fn needs_peers(&self) -> bool {
        self.unit == Unit::Peers
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let argument = argument(&self.window, chunk)?;
        let column = argument
            .as_primitive_opt::<T>()
            .ok_or_else(|| internal_datafusion_err!("{} of {}", self.window.name(), argument.data_type()))?;
        let mut values = Vec::with_capacity(chunk.rows());
        let mut valid = Vec::with_capacity(chunk.rows());
        let (combine, first) = (self.combine, self.first);
        run(
            chunk,
            self.unit,
            &mut self.value,
            |value| *value = None,
            |value, row| {
                if column.is_valid(row) {
                    let new = column.value(row);
                    *value = Some(value.or(first).map_or(new, |all| combine(all, new)));
                }
            },
            |value, rows| {
                values.extend(std::iter::repeat_n(value.unwrap_or_default(), rows));
                valid.extend(std::iter::repeat_n(value.is_some(), rows));
            },
        );
        let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
        Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(self.result.clone())))
    }
}

struct RunningCount {
    window: Arc<dyn WindowExpr>,
    unit: Unit,
    count: i64,
}

impl Function for RunningCount {
    fn unit(&self) -> Unit {
        self.unit
    }

    fn needs_peers(&self) -> bool {
        self.unit == Unit::Peers
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let nulls = argument(&self.window, chunk)?.logical_nulls();
        let mut counts = Vec::with_capacity(chunk.rows());
        run(
            chunk,
            self.unit,
            &mut self.count,
            |count| *count = 0,
            |count, row| *count += i64::from(nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))),
            |count, rows| counts.extend(std::iter::repeat_n(*count, rows)),
        );
        Ok(Arc::new(Int64Array::from(counts)))
    }
}

fn argument(window: &Arc<dyn WindowExpr>, chunk: &Chunk) -> Result<ArrayRef> {
    let mut arguments = window.evaluate_args(&chunk.batch)?;
    arguments.pop().ok_or_else(|| internal_datafusion_err!("{} has an argument", window.name()))
}
