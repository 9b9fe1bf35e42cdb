//! Folds by DataFusion's accumulators, a `ScalarValue` a result.

use std::ops::Range;

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue, internal_datafusion_err};
use datafusion::logical_expr::Accumulator;

use crate::aggregate::{Aggregate, repeated, slices};
use crate::chunk::Chunk;
use crate::fold::Fold;

pub(crate) struct Accumulated {
    aggregate: Aggregate,
    /// Those of the chunk.
    arguments: Vec<ArrayRef>,
    accumulator: Option<Box<dyn Accumulator>>,
    results: Vec<ScalarValue>,
    /// The rows of the chunk that have each of the results.
    rows: Vec<Range<usize>>,
}

impl Accumulated {
    pub(crate) fn of(aggregate: Aggregate) -> Accumulated {
        Accumulated { aggregate, arguments: Vec::new(), accumulator: None, results: Vec::new(), rows: Vec::new() }
    }

    fn accumulator(&mut self) -> Result<&mut Box<dyn Accumulator>> {
        self.accumulator.as_mut().ok_or_else(|| internal_datafusion_err!("a window partition has begun"))
    }

    fn push(&mut self, result: ScalarValue, rows: usize) {
        let start = self.rows.last().map_or(0, |rows| rows.end);
        self.results.push(result);
        self.rows.push(start..start + rows);
    }
}

impl Fold for Accumulated {
    fn begin(&mut self, chunk: &Chunk) -> Result<()> {
        self.arguments = self.aggregate.arguments(chunk)?;
        Ok(())
    }

    fn restart(&mut self, slides: bool) -> Result<()> {
        let function = &self.aggregate.function;
        self.accumulator =
            Some(if slides { function.create_sliding_accumulator()? } else { function.create_accumulator()? });
        Ok(())
    }

    fn enter(&mut self, rows: Range<usize>) -> Result<()> {
        let arguments = slices(&self.arguments, rows);
        self.accumulator()?.update_batch(&arguments)
    }

    fn leave(&mut self, rows: Range<usize>) -> Result<()> {
        let arguments = slices(&self.arguments, rows);
        self.accumulator()?.retract_batch(&arguments)
    }

    fn give(&mut self, rows: usize) -> Result<()> {
        let result = self.accumulator()?.evaluate()?;
        self.push(result, rows);
        Ok(())
    }

    fn give_of_nothing(&mut self) -> Result<()> {
        let function = &self.aggregate.function;
        let result = function.default_value(function.field().data_type())?;
        self.push(result, 1);
        Ok(())
    }

    fn results(&mut self) -> Result<ArrayRef> {
        self.arguments.clear();
        let results = self.aggregate.array(std::mem::take(&mut self.results))?;
        repeated(&results, &std::mem::take(&mut self.rows))
    }
}
