//! Aggregates over frames.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::WindowExpr;

use crate::accumulated::Accumulated;
use crate::chunk::{Chunk, Unit};
use crate::fold::Frames;
use crate::frame::Frame;
use crate::function::{Function, array_of};
use crate::numbers;
use crate::text::compacted;

pub(crate) fn function(
    aggregate: AggregateFunctionExpr,
    window: Arc<dyn WindowExpr>,
    frame: Frame,
    input: &Schema,
) -> Box<dyn Function> {
    let argument = aggregate.expressions().first().and_then(|argument| argument.data_type(input).ok());
    let aggregate = Aggregate { function: aggregate, window };
    if frame.is_partition() {
        return Box::new(OfPartition { aggregate });
    }
    let frames = Frames::of(frame);
    argument
        .and_then(|argument| numbers::function(&aggregate, &argument, &frames))
        .unwrap_or_else(|| frames.over(Accumulated::of(aggregate)))
}

/// An aggregate function and the window that it is called over.
pub(crate) struct Aggregate {
    pub(crate) function: AggregateFunctionExpr,
    pub(crate) window: Arc<dyn WindowExpr>,
}

impl Aggregate {
    /// The arguments for the rows of a chunk, of which accumulators may keep parts.
    pub(crate) fn arguments(&self, chunk: &Chunk) -> Result<Vec<ArrayRef>> {
        Ok(self.window.evaluate_args(&chunk.batch)?.iter().map(compacted).collect())
    }

    pub(crate) fn array(&self, results: Vec<ScalarValue>) -> Result<ArrayRef> {
        Ok(compacted(&array_of(results, self.window.field()?.data_type())?))
    }
}

pub(crate) fn slices(arguments: &[ArrayRef], rows: Range<usize>) -> Vec<ArrayRef> {
    arguments.iter().map(|array| array.slice(rows.start, rows.len())).collect()
}

/// One result for each of `ranges`, which follow each other.
pub(crate) fn repeated(results: &ArrayRef, ranges: &[Range<usize>]) -> Result<ArrayRef> {
    let rows = ranges.last().map_or(0, |last| last.end);
    if results.len() == rows {
        return Ok(Arc::clone(results));
    }
    let indices = (0u32..).zip(ranges).flat_map(|(index, range)| std::iter::repeat_n(index, range.len()));
    Ok(take(results, &UInt32Array::from_iter_values(indices), None)?)
}

/// Whether DataFusion's accumulator of groups gives what its accumulator of one group does, which its window operators
/// have. For `min` and `max` it does not: of floats, where there is a NaN, and of structs. Statistics are summed up
/// otherwise.
fn groups_agree(function: &AggregateFunctionExpr) -> bool {
    let kind = function.fun().inner();
    let field = function.field();
    let is_extreme = kind.is::<Min>() || kind.is::<Max>();
    let agrees = match field.data_type() {
        _ if function.is_distinct() => false,
        result if result.is_floating() || result.is_nested() || matches!(result, DataType::Dictionary(..)) => {
            !is_extreme
        }
        _ => true,
    };
    agrees
        && (is_extreme || kind.is::<Count>() || kind.is::<Sum>() || kind.is::<Avg>())
        && function.groups_accumulator_supported()
}

/// One result a window partition, as a GROUP BY would have it.
struct OfPartition {
    aggregate: Aggregate,
}

impl Function for OfPartition {
    fn unit(&self) -> Unit {
        Unit::Partition
    }

    fn needs_peers(&self) -> bool {
        false
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let function = &self.aggregate.function;
        let arguments = self.aggregate.arguments(chunk)?;
        let partitions = &chunk.partitions;
        let results = if partitions.len() > 1 && groups_agree(function) {
            let rows = (0..).zip(partitions).flat_map(|(group, rows)| std::iter::repeat_n(group, rows.len()));
            let groups: Vec<usize> = rows.collect();
            let mut accumulator = function.create_groups_accumulator()?;
            accumulator.update_batch(&arguments, &groups, None, partitions.len())?;
            accumulator.evaluate(EmitTo::All)?
        } else {
            let result = |rows: &Range<usize>| {
                let mut accumulator = function.create_accumulator()?;
                accumulator.update_batch(&slices(&arguments, rows.clone()))?;
                accumulator.evaluate()
            };
            self.aggregate.array(partitions.iter().map(result).collect::<Result<_>>()?)?
        };
        repeated(&results, partitions)
    }
}
