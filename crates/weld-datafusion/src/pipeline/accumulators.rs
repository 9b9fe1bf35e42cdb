//! Accumulators beside compiled groups, DataFusion's and those of distinct values: they are given rows with the numbers
//! of their groups as these come, and their results stand beside the groups when those are handed out. See
//! `lower::accumulated`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use crate::lower::accumulated::{Accumulated, Accumulating, Argument};
use crate::lower::pipeline::Output;

/// The accumulators of a run.
pub(super) struct Accumulation {
    pub(super) of: Arc<Accumulated>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// How many rows they were given, and of how many groups.
    pub(super) rows: usize,
    pub(super) groups: usize,
    /// What they have not been given yet: they take whole batches.
    waiting: BatchCoalescer,
    numbers: Vec<usize>,
    memory: MemoryReservation,
    results: Option<Results>,
}

/// The columns of accumulators for groups that are handed out.
struct Results {
    columns: Vec<ArrayRef>,
    /// The next group.
    next: usize,
}

impl Accumulation {
    /// `None` where compiled code makes all of the output.
    pub(super) fn new(name: &str, output: &Output, context: &TaskContext) -> Result<Option<Accumulation>> {
        let Output::Groups { accumulated: Some(of), .. } = output else { return Ok(None) };
        let batch_rows = context.session_config().batch_size();
        let waiting = BatchCoalescer::new(Arc::clone(&of.numbered), batch_rows);
        // A fair pool gives it a share, as DataFusion's operators, which would spill.
        let memory = MemoryConsumer::new(format!("{name} accumulators")).with_can_spill(true);
        Ok(Some(Accumulation {
            of: Arc::clone(of),
            accumulators: accumulators(of)?,
            rows: 0,
            groups: 0,
            waiting: waiting.with_biggest_coalesce_batch_size(Some(batch_rows / 2)),
            numbers: Vec::new(),
            memory: memory.register(context.memory_pool()),
            results: None,
        }))
    }

    /// Takes rows for the accumulators: the number of each one's group, and arguments.
    pub(super) fn add(&mut self, rows: RecordBatch) -> Result<()> {
        let last = rows.column(0).as_primitive::<Int64Type>().values().iter().max();
        self.groups = self.groups.max(last.map_or(0, |last| *last as usize + 1));
        self.rows += rows.num_rows();
        self.waiting.push_batch(rows)?;
        self.accumulate()
    }

    /// Gives whole batches to the accumulators.
    fn accumulate(&mut self) -> Result<()> {
        while let Some(rows) = self.waiting.next_completed_batch() {
            self.give(&rows)?;
        }
        Ok(())
    }

    fn give(&mut self, rows: &RecordBatch) -> Result<()> {
        self.numbers.clear();
        self.numbers.extend(rows.column(0).as_primitive::<Int64Type>().values().iter().map(|number| *number as usize));
        for (call, accumulator) in self.of.calls.iter().zip(&mut self.accumulators) {
            let (args, filter) = given(call, rows, 1)?;
            match self.of.merges {
                true => accumulator.merge_batch(&args, &self.numbers, self.groups)?,
                false => accumulator.update_batch(&args, &self.numbers, filter, self.groups)?,
            }
        }
        Ok(())
    }

    /// Asks the pool for the memory that the accumulators have taken.
    pub(super) fn reserve(&mut self) -> Result<()> {
        let held: usize = self.accumulators.iter().map(|accumulator| accumulator.size()).sum();
        self.memory.try_resize(held + self.numbers.capacity() * size_of::<usize>())
    }

    /// No more rows come for the groups so far, which are to be handed out. Groups that come then are others.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.waiting.finish_buffered_batch()?;
        self.accumulate()?;
        if self.of.whole && self.groups == 0 {
            self.groups = 1;
            self.give(&RecordBatch::new_empty(Arc::clone(&self.of.numbered)))?;
        }
        let mut columns = Vec::new();
        if self.groups > 0 {
            for accumulator in &mut self.accumulators {
                match self.of.partial {
                    true => columns.extend(accumulator.state(EmitTo::All)?),
                    false => columns.push(accumulator.evaluate(EmitTo::All)?),
                }
            }
        }
        self.results = Some(Results { columns, next: 0 });
        (self.accumulators, self.rows, self.groups) = (accumulators(&self.of)?, 0, 0);
        Ok(())
    }

    /// All groups have been handed out.
    pub(super) fn release(&mut self) {
        if self.results.take().is_some() {
            self.memory.free();
        }
    }

    /// Rows that compiled code made with the columns of accumulators: of groups, or of rows that are groups of their
    /// own.
    pub(super) fn complete(&mut self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let (of, rows) = (Arc::clone(&self.of), batch.num_rows());
        let others = match &mut self.results {
            Some(results) => {
                let first = results.next;
                results.next += rows;
                if results.columns.iter().any(|column| column.len() < results.next) {
                    return Err(internal_datafusion_err!("an accumulator has fewer groups than there are"));
                }
                results.columns.iter().map(|column| column.slice(first, rows)).collect()
            }
            None => self.converted(batch)?,
        };
        let mut columns: Vec<Option<ArrayRef>> = vec![None; schema.fields().len()];
        for (index, column) in of.compiled.iter().zip(batch.columns()) {
            columns[*index] = Some(Arc::clone(column));
        }
        for (index, column) in of.calls.iter().flat_map(|call| call.output.clone()).zip(others) {
            columns[index] = Some(column);
        }
        let columns = columns.into_iter().collect::<Option<Vec<_>>>();
        let columns =
            columns.ok_or_else(|| internal_datafusion_err!("an accumulator has fewer states than declared"))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }

    /// The states of rows that are groups of their own.
    fn converted(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::new();
        for (call, accumulator) in self.of.calls.iter().zip(&self.accumulators) {
            let (args, filter) = given(call, batch, self.of.groups.fields().len())?;
            columns.extend(accumulator.convert_to_state(&args, filter)?);
        }
        Ok(columns)
    }
}

fn accumulators(of: &Accumulated) -> Result<Vec<Box<dyn GroupsAccumulator>>> {
    of.calls.iter().map(|call| call.accumulator(of.partial)).collect()
}

/// The arguments and the filter of a call. Those of all calls are the columns of the batch from `first` on.
fn given<'b>(
    call: &Accumulating,
    batch: &'b RecordBatch,
    first: usize,
) -> Result<(Vec<ArrayRef>, Option<&'b BooleanArray>)> {
    let arg = |arg: &Argument| match arg {
        Argument::Column(index) => Ok(Arc::clone(batch.column(first + index))),
        Argument::Constant(value) => value.to_array_of_size(batch.num_rows()),
    };
    let args = call.args.iter().map(arg).collect::<Result<Vec<_>>>()?;
    Ok((args, call.filter.map(|index| batch.column(first + index).as_boolean())))
}
