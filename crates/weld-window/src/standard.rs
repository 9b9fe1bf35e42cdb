//! Window functions that DataFusion's own evaluators compute for a whole window partition at once.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_empty_array};
use arrow::compute::concat;
use datafusion::common::Result;
use datafusion::physical_expr::window::StandardWindowFunctionExpr;
use datafusion::physical_plan::windows::WindowUDFExpr;

use crate::chunk::{Chunk, Unit};
use crate::function::Function;
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
