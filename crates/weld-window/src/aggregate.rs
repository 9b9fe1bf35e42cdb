//! Aggregates over frames.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::{Accumulator, EmitTo};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::WindowExpr;

use crate::chunk::{Chunk, Unit};
use crate::frame::{Bound, Frame};
use crate::function::{Function, array_of};
use crate::running;
use crate::text::compacted;

pub(crate) fn function(
    aggregate: AggregateFunctionExpr,
    window: Arc<dyn WindowExpr>,
    frame: Frame,
) -> Box<dyn Function> {
    let aggregate = Aggregate { function: aggregate, window };
    if frame.is_partition() {
        return Box::new(OfPartition { aggregate });
    }
    match (&frame.start, &frame.end) {
        (Bound::Partition, Bound::Rows(0)) => running::function(&aggregate, Unit::Row)
            .unwrap_or_else(|| Box::new(Running { aggregate, unit: Unit::Row, accumulator: None })),
        (Bound::Partition, Bound::Groups(0)) => running::function(&aggregate, Unit::Peers)
            .unwrap_or_else(|| Box::new(Running { aggregate, unit: Unit::Peers, accumulator: None })),
        _ => Box::new(Sliding { aggregate, frame }),
    }
}

/// An aggregate function and the window that it is called over.
pub(crate) struct Aggregate {
    pub(crate) function: AggregateFunctionExpr,
    pub(crate) window: Arc<dyn WindowExpr>,
}

impl Aggregate {
    /// The arguments for the rows of a chunk, of which accumulators may keep parts.
    fn arguments(&self, chunk: &Chunk) -> Result<Vec<ArrayRef>> {
        Ok(self.window.evaluate_args(&chunk.batch)?.iter().map(compacted).collect())
    }

    fn array(&self, results: Vec<ScalarValue>) -> Result<ArrayRef> {
        Ok(compacted(&array_of(results, self.window.field()?.data_type())?))
    }

    /// The result of a frame without rows.
    fn of_nothing(&self) -> Result<ScalarValue> {
        self.function.default_value(self.function.field().data_type())
    }
}

fn slices(arguments: &[ArrayRef], rows: Range<usize>) -> Vec<ArrayRef> {
    arguments.iter().map(|array| array.slice(rows.start, rows.len())).collect()
}

/// One result for each of `ranges`, which follow each other.
fn repeated(results: &ArrayRef, ranges: &[Range<usize>]) -> Result<ArrayRef> {
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

/// From the first row of the window partition to the current one, or to the last of its peers.
struct Running {
    aggregate: Aggregate,
    unit: Unit,
    /// Absent before the first row.
    accumulator: Option<Box<dyn Accumulator>>,
}

impl Function for Running {
    fn unit(&self) -> Unit {
        self.unit
    }

    fn needs_peers(&self) -> bool {
        self.unit == Unit::Peers
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let arguments = self.aggregate.arguments(chunk)?;
        if !chunk.continues_partition {
            self.accumulator = None;
        }
        let rows: Vec<Range<usize>>;
        let steps = match self.unit {
            Unit::Row => {
                rows = (0..chunk.rows()).map(|row| row..row + 1).collect();
                &rows
            }
            _ => &chunk.peers,
        };
        let mut partitions = chunk.partitions.iter().map(|rows| rows.start).peekable();
        let mut results = Vec::with_capacity(steps.len());
        for step in steps {
            if partitions.next_if_eq(&step.start).is_some() && step.start > 0 {
                self.accumulator = None;
            }
            let accumulator = match &mut self.accumulator {
                Some(accumulator) => accumulator,
                none => none.insert(self.aggregate.function.create_accumulator()?),
            };
            accumulator.update_batch(&slices(&arguments, step.clone()))?;
            results.push(accumulator.evaluate()?);
        }
        repeated(&self.aggregate.array(results)?, steps)
    }
}

/// Any other frame: rows enter at its end and leave at its start.
struct Sliding {
    aggregate: Aggregate,
    frame: Frame,
}

impl Function for Sliding {
    fn unit(&self) -> Unit {
        Unit::Partition
    }

    fn needs_peers(&self) -> bool {
        true
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let arguments = self.aggregate.arguments(chunk)?;
        let frames = self.frame.of_rows(chunk)?;
        let mut results = Vec::with_capacity(frames.len());
        for rows in &chunk.partitions {
            let frames = frames.get(rows.clone()).ok_or_else(|| internal_datafusion_err!("each row has a frame"))?;
            let slides = !matches!(self.frame.start, Bound::Partition);
            let mut accumulator = match slides {
                false => self.aggregate.function.create_accumulator()?,
                true => self.aggregate.function.create_sliding_accumulator()?,
            };
            let mut last = rows.start..rows.start;
            for frame in frames {
                if frame.is_empty() {
                    // As DataFusion's: all rows leave, so none that is not in a frame has a part in a sum of floats.
                    if !last.is_empty() && slides {
                        accumulator.retract_batch(&slices(&arguments, last))?;
                    }
                    last = frame.clone();
                    results.push(self.aggregate.of_nothing()?);
                    continue;
                }
                if frame.end > last.end {
                    accumulator.update_batch(&slices(&arguments, last.end..frame.end))?;
                }
                if frame.start > last.start {
                    accumulator.retract_batch(&slices(&arguments, last.start..frame.start))?;
                }
                last = frame.clone();
                results.push(accumulator.evaluate()?);
            }
        }
        self.aggregate.array(results)
    }
}
