//! Window functions that DataFusion's own evaluators compute for a whole window partition, or a frame, at once.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt64Array, new_empty_array, new_null_array};
use arrow::compute::{concat, take};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::window::StandardWindowFunctionExpr;
use datafusion::physical_plan::windows::WindowUDFExpr;

use crate::chunk::{Chunk, Unit};
use crate::frame::Frame;
use crate::function::{Function, array_of};
use crate::text::compacted;

/// The arguments of a function for the rows of a chunk.
fn arguments(call: &WindowUDFExpr, chunk: &Chunk) -> Result<Vec<ArrayRef>> {
    call.expressions().iter().map(|arg| arg.evaluate(&chunk.batch)?.into_array(chunk.rows())).collect()
}

/// `lag`, `lead`, `ntile`, `percent_rank`, `cume_dist`: a call of DataFusion's evaluator for each window partition.
pub(crate) struct Whole {
    call: WindowUDFExpr,
    reads_peers: bool,
}

impl Whole {
    pub(crate) fn of_rows(call: WindowUDFExpr) -> Whole {
        Whole { call, reads_peers: false }
    }

    pub(crate) fn of_peers(call: WindowUDFExpr) -> Whole {
        Whole { call, reads_peers: true }
    }
}

impl Function for Whole {
    fn unit(&self) -> Unit {
        Unit::Partition
    }

    fn needs_peers(&self) -> bool {
        self.reads_peers
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let mut arguments = arguments(&self.call, chunk)?;
        if chunk.partitions.len() > 1 {
            arguments.iter_mut().for_each(|argument| *argument = compacted(argument));
        }
        let mut peers = chunk.peers.as_slice();
        let mut results = Vec::with_capacity(chunk.partitions.len());
        for rows in &chunk.partitions {
            let mut evaluator = self.call.create_evaluator()?;
            results.push(if self.reads_peers {
                let (own, others) = peers.split_at(peers.partition_point(|peers| peers.start < rows.end));
                peers = others;
                let own: Vec<_> = own.iter().map(|peers| peers.start - rows.start..peers.end - rows.start).collect();
                evaluator.evaluate_all_with_rank(rows.len(), &own)?
            } else {
                let slices: Vec<ArrayRef> = arguments.iter().map(|array| array.slice(rows.start, rows.len())).collect();
                evaluator.evaluate_all(&slices, rows.len())?
            });
        }
        match results.as_slice() {
            [] => Ok(new_empty_array(self.call.field()?.data_type())),
            [result] => Ok(Arc::clone(result)),
            results => Ok(compacted(&concat(&results.iter().map(AsRef::as_ref).collect::<Vec<_>>())?)),
        }
    }
}

/// `first_value`, `last_value`, `nth_value`: one of the values of each row's frame.
pub(crate) struct Framed {
    call: WindowUDFExpr,
    frame: Frame,
}

impl Framed {
    pub(crate) fn new(call: WindowUDFExpr, frame: Frame) -> Framed {
        Framed { call, frame }
    }

    /// Whether the value is the frame's first or last, null or not. DataFusion does not say: its evaluator is asked for
    /// the last, and the first, of a value beside a null.
    fn end(&self, values: &ArrayRef) -> Result<Option<End>> {
        let Some(valid) = (0..values.len()).find(|&row| values.is_valid(row)) else { return Ok(None) };
        let (value, null) = (values.slice(valid, 1), new_null_array(values.data_type(), 1));
        let end = match self.call.fun().name() {
            "first_value" => End::First,
            "last_value" => End::Last,
            _ => return Ok(None),
        };
        let beside = match end {
            End::First => concat(&[null.as_ref(), value.as_ref()])?,
            End::Last => concat(&[value.as_ref(), null.as_ref()])?,
        };
        let found = self.call.create_evaluator()?.evaluate(&[beside], &(0..2))?;
        Ok(found.is_null().then_some(end))
    }
}

#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

impl Function for Framed {
    fn unit(&self) -> Unit {
        Unit::Partition
    }

    fn needs_peers(&self) -> bool {
        true
    }

    fn evaluate(&mut self, chunk: &Chunk) -> Result<ArrayRef> {
        let arguments = arguments(&self.call, chunk)?;
        let frames = self.frame.of_rows(chunk);
        if let Some(end) = self.end(&arguments[0])? {
            let rows = frames.iter().map(|frame| match end {
                _ if frame.is_empty() => None,
                End::First => Some(frame.start as u64),
                End::Last => Some(frame.end as u64 - 1),
            });
            return Ok(take(&arguments[0], &UInt64Array::from_iter(rows), None)?);
        }
        let mut evaluator = self.call.create_evaluator()?;
        let results: Vec<ScalarValue> =
            frames.iter().map(|frame| evaluator.evaluate(&arguments, frame)).collect::<Result<_>>()?;
        array_of(results, self.call.field()?.data_type())
    }
}
