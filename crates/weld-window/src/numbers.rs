//! Folds of numbers, without a `ScalarValue` a row: `count`, `sum`, `avg`, `min`, `max`.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int64Array, NullBufferBuilder, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::compute;
use arrow::datatypes::{
    ArrowNativeTypeOp, ArrowNumericType, DECIMAL128_MAX_PRECISION, DataType, Date32Type, Date64Type, Decimal128Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::{count, sum};
use datafusion::physical_expr::aggregate::utils::DecimalAverager;
use datafusion::physical_expr::window::WindowExpr;

use crate::aggregate::Aggregate;
use crate::chunk::Chunk;
use crate::fold::{Fold, Frames};
use crate::function::Function;

/// The digits that DataFusion's sum for an average has more than its argument.
const AVERAGE_DIGITS: u8 = 13;

/// The aggregate of values of type `argument` over `frames`; `None` if it is not of those that are computed here.
pub(crate) fn function(aggregate: &Aggregate, argument: &DataType, frames: &Frames) -> Option<Box<dyn Function>> {
    let Aggregate { function, window } = aggregate;
    let kind = function.fun().inner();
    if function.is_distinct() || function.expressions().len() != 1 {
        return None;
    }
    let result = function.field().data_type().clone();
    if kind.is::<count::Count>() {
        let count = Count { window: Arc::clone(window), nulls: None, count: 0, counts: Vec::new() };
        return (result == DataType::Int64).then(|| frames.over(count));
    }
    if std::mem::discriminant(&result) != std::mem::discriminant(argument) {
        return None;
    }
    if kind.is::<sum::Sum>() {
        return total(result, window, frames);
    }
    if kind.is::<Avg>() {
        return average(result, argument, window, frames);
    }
    let better = if kind.is::<Min>() {
        Better::Less
    } else if kind.is::<Max>() {
        Better::Greater
    } else {
        return None;
    };
    extreme(better, result, window, frames)
}

fn total(result: DataType, window: &Arc<dyn WindowExpr>, frames: &Frames) -> Option<Box<dyn Function>> {
    Some(match result {
        DataType::Int64 => frames.over(Sum::<Int64Type, _>::of(window, result, |sum, _| Ok(sum))),
        DataType::UInt64 => frames.over(Sum::<UInt64Type, _>::of(window, result, |sum, _| Ok(sum))),
        DataType::Decimal128(..) => frames.over(Sum::<Decimal128Type, _>::of(window, result, |sum, _| Ok(sum))),
        DataType::Float64 => frames.over(Sum::<Float64Type, _>::of(window, result, |sum, _| Ok(sum))),
        _ => return None,
    })
}

fn average(
    result: DataType,
    argument: &DataType,
    window: &Arc<dyn WindowExpr>,
    frames: &Frames,
) -> Option<Box<dyn Function>> {
    Some(match (&result, argument) {
        (DataType::Float64, _) => {
            frames.over(Sum::<Float64Type, _>::of(window, result, |sum, count| Ok(sum / count as f64)))
        }
        // Of more digits, DataFusion has sums of 256 bits.
        (&DataType::Decimal128(precision, scale), &DataType::Decimal128(digits, sum_scale))
            if digits + AVERAGE_DIGITS <= DECIMAL128_MAX_PRECISION =>
        {
            let averager = DecimalAverager::<Decimal128Type>::try_new(sum_scale, precision, scale).ok()?;
            let average = move |sum, count| averager.avg(sum, i128::from(count));
            frames.over(Sum::<Decimal128Type, _>::of(window, result, average))
        }
        _ => return None,
    })
}

fn extreme(
    better: Better,
    result: DataType,
    window: &Arc<dyn WindowExpr>,
    frames: &Frames,
) -> Option<Box<dyn Function>> {
    macro_rules! of {
        ($type:ty) => {
            frames.over(Extreme::<$type>::of(window, result, better))
        };
    }
    Some(match &result {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::UInt8 => of!(UInt8Type),
        DataType::UInt16 => of!(UInt16Type),
        DataType::UInt32 => of!(UInt32Type),
        DataType::UInt64 => of!(UInt64Type),
        DataType::Decimal128(..) => of!(Decimal128Type),
        DataType::Date32 => of!(Date32Type),
        DataType::Date64 => of!(Date64Type),
        DataType::Timestamp(TimeUnit::Second, _) => of!(TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => of!(TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => of!(TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => of!(TimestampNanosecondType),
        // DataFusion's own accumulators know which of two NaNs is the larger.
        _ => return None,
    })
}

/// The numbers of a chunk that are folded, and what came of them.
struct Column<T: ArrowPrimitiveType> {
    window: Arc<dyn WindowExpr>,
    result: DataType,
    values: PrimitiveArray<T>,
    results: Vec<T::Native>,
    valid: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Column<T> {
    fn of(window: &Arc<dyn WindowExpr>, result: DataType) -> Column<T> {
        let (values, valid) = (no_values(), NullBufferBuilder::new(0));
        Column { window: Arc::clone(window), result, values, results: Vec::new(), valid }
    }

    fn begin(&mut self, chunk: &Chunk) -> Result<()> {
        let argument = argument(&self.window, chunk)?;
        self.values = argument
            .as_primitive_opt::<T>()
            .ok_or_else(|| internal_datafusion_err!("{} of {}", self.window.name(), argument.data_type()))?
            .clone();
        self.results.reserve(chunk.rows());
        Ok(())
    }

    fn give(&mut self, result: Option<T::Native>, rows: usize) {
        self.results.extend(std::iter::repeat_n(result.unwrap_or_default(), rows));
        match result {
            Some(_) => self.valid.append_n_non_nulls(rows),
            None => self.valid.append_n_nulls(rows),
        }
    }

    fn results(&mut self) -> ArrayRef {
        self.values = no_values();
        let results = std::mem::take(&mut self.results);
        let results = PrimitiveArray::<T>::new(results.into(), self.valid.finish());
        Arc::new(results.with_data_type(self.result.clone()))
    }
}

fn no_values<T: ArrowPrimitiveType>() -> PrimitiveArray<T> {
    PrimitiveArray::from_iter_values(std::iter::empty())
}

/// A sum, which wraps around as DataFusion's does, and what is made of it and of the number of its values.
struct Sum<T: ArrowPrimitiveType, R> {
    column: Column<T>,
    sum: T::Native,
    count: u64,
    result: R,
}

impl<T, R> Sum<T, R>
where
    T: ArrowNumericType,
    T::Native: ArrowNativeTypeOp,
    R: Fn(T::Native, u64) -> Result<T::Native>,
{
    fn of(window: &Arc<dyn WindowExpr>, data_type: DataType, result: R) -> Sum<T, R> {
        Sum { column: Column::of(window, data_type), sum: T::Native::ZERO, count: 0, result }
    }

    /// The sum and the number of the values in `rows`, if there are any. The order in which floats are added up is that
    /// of DataFusion's accumulators.
    fn of_rows(&self, rows: Range<usize>) -> Option<(T::Native, u64)> {
        let values = &self.column.values;
        if rows.len() == 1 {
            return values.is_valid(rows.start).then(|| (values.value(rows.start), 1));
        }
        let values = values.slice(rows.start, rows.len());
        Some((compute::sum(&values)?, (values.len() - values.null_count()) as u64))
    }
}

impl<T, R> Fold for Sum<T, R>
where
    T: ArrowNumericType,
    T::Native: ArrowNativeTypeOp,
    R: Fn(T::Native, u64) -> Result<T::Native> + Send,
{
    fn begin(&mut self, chunk: &Chunk) -> Result<()> {
        self.column.begin(chunk)
    }

    fn restart(&mut self, _slides: bool) -> Result<()> {
        (self.sum, self.count) = (T::Native::ZERO, 0);
        Ok(())
    }

    fn enter(&mut self, rows: Range<usize>) -> Result<()> {
        if let Some((sum, count)) = self.of_rows(rows) {
            self.sum = self.sum.add_wrapping(sum);
            self.count += count;
        }
        Ok(())
    }

    fn leave(&mut self, rows: Range<usize>) -> Result<()> {
        if let Some((sum, count)) = self.of_rows(rows) {
            self.sum = self.sum.sub_wrapping(sum);
            self.count -= count;
        }
        Ok(())
    }

    fn give(&mut self, rows: usize) -> Result<()> {
        let result = if self.count == 0 { None } else { Some((self.result)(self.sum, self.count)?) };
        self.column.give(result, rows);
        Ok(())
    }

    fn give_of_nothing(&mut self) -> Result<()> {
        self.column.give(None, 1);
        Ok(())
    }

    fn results(&mut self) -> Result<ArrayRef> {
        Ok(self.column.results())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Better {
    Less,
    Greater,
}

/// The least or the greatest value.
struct Extreme<T: ArrowPrimitiveType> {
    column: Column<T>,
    better: Better,
    slides: bool,
    /// The values, and their rows, that are the extreme once all before them have left; each is better than the next.
    /// Only the first where none leaves.
    candidates: VecDeque<(usize, T::Native)>,
}

impl<T: ArrowPrimitiveType> Extreme<T>
where
    T::Native: ArrowNativeTypeOp,
{
    fn of(window: &Arc<dyn WindowExpr>, data_type: DataType, better: Better) -> Extreme<T> {
        Extreme { column: Column::of(window, data_type), better, slides: false, candidates: VecDeque::new() }
    }

    fn is_better(&self, value: T::Native, other: T::Native) -> bool {
        match self.better {
            Better::Less => value.is_lt(other),
            Better::Greater => value.is_gt(other),
        }
    }
}

impl<T: ArrowPrimitiveType> Fold for Extreme<T>
where
    T::Native: ArrowNativeTypeOp,
{
    fn begin(&mut self, chunk: &Chunk) -> Result<()> {
        self.column.begin(chunk)
    }

    fn restart(&mut self, slides: bool) -> Result<()> {
        self.slides = slides;
        self.candidates.clear();
        Ok(())
    }

    fn enter(&mut self, rows: Range<usize>) -> Result<()> {
        for row in rows.filter(|row| self.column.values.is_valid(*row)) {
            let value = self.column.values.value(row);
            while self.candidates.back().is_some_and(|(_, last)| !self.is_better(*last, value)) {
                self.candidates.pop_back();
            }
            if self.slides || self.candidates.is_empty() {
                self.candidates.push_back((row, value));
            }
        }
        Ok(())
    }

    fn leave(&mut self, rows: Range<usize>) -> Result<()> {
        while self.candidates.front().is_some_and(|(row, _)| *row < rows.end) {
            self.candidates.pop_front();
        }
        Ok(())
    }

    fn give(&mut self, rows: usize) -> Result<()> {
        self.column.give(self.candidates.front().map(|(_, value)| *value), rows);
        Ok(())
    }

    fn give_of_nothing(&mut self) -> Result<()> {
        self.column.give(None, 1);
        Ok(())
    }

    fn results(&mut self) -> Result<ArrayRef> {
        Ok(self.column.results())
    }
}

/// The number of values that are not null.
struct Count {
    window: Arc<dyn WindowExpr>,
    nulls: Option<NullBuffer>,
    count: i64,
    counts: Vec<i64>,
}

impl Count {
    fn of_rows(&self, rows: Range<usize>) -> i64 {
        let nulls = match &self.nulls {
            None => 0,
            Some(nulls) if rows.len() == 1 => usize::from(nulls.is_null(rows.start)),
            Some(nulls) => nulls.slice(rows.start, rows.len()).null_count(),
        };
        (rows.len() - nulls) as i64
    }
}

impl Fold for Count {
    fn begin(&mut self, chunk: &Chunk) -> Result<()> {
        self.nulls = argument(&self.window, chunk)?.logical_nulls();
        self.counts.reserve(chunk.rows());
        Ok(())
    }

    fn restart(&mut self, _slides: bool) -> Result<()> {
        self.count = 0;
        Ok(())
    }

    fn enter(&mut self, rows: Range<usize>) -> Result<()> {
        self.count += self.of_rows(rows);
        Ok(())
    }

    fn leave(&mut self, rows: Range<usize>) -> Result<()> {
        self.count -= self.of_rows(rows);
        Ok(())
    }

    fn give(&mut self, rows: usize) -> Result<()> {
        self.counts.extend(std::iter::repeat_n(self.count, rows));
        Ok(())
    }

    fn give_of_nothing(&mut self) -> Result<()> {
        self.counts.push(0);
        Ok(())
    }

    fn results(&mut self) -> Result<ArrayRef> {
        self.nulls = None;
        Ok(Arc::new(Int64Array::from(std::mem::take(&mut self.counts))))
    }
}

fn argument(window: &Arc<dyn WindowExpr>, chunk: &Chunk) -> Result<ArrayRef> {
    let mut arguments = window.evaluate_args(&chunk.batch)?;
    arguments.pop().ok_or_else(|| internal_datafusion_err!("{} has an argument", window.name()))
}
