//! One partition's run: batches go into compiled code, rows come out.
//!
//! Rows are gathered over a few batches, as DataFusion's filters and joins do, but never while there is nothing to do:
//! what is there goes out when the input keeps waiting, when a limit is reached, and when a batch's worth of rows has
//! come.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, MetricBuilder, RecordOutput};
use futures::{StreamExt, poll};
use weld_arrow::{BatchColumns, DictionaryNumbers, RowsReader};
use weld_codegen::{Stream, Value};
use weld_frontend::Source;
use weld_runtime::Context;

use super::accumulators::Accumulation;
use super::constants::constant;
use super::failure::{Failure, guard, run};
use super::grouping::{Grouping, TableBounds};
use super::held::Held;
use super::preserve::{EndRows, Marks};
use super::pressure::{excess_at_ends, excess_max, excess_of_range, pressure};
use super::radix::{Collected, PARTITIONS, Radix, RangeTable};
use super::slices::Slices;
use super::table::{BuildTable, args};
use crate::code_cache::Code;
use crate::deferred_gate::Early;
use crate::exec::Inner;
use crate::lower::accumulated::Accumulated;
use crate::lower::pipeline::{LoweredPipeline, Output};
use crate::lower::{Arg, Slot};
use crate::memory::{Pressure, QueryMemory};
use crate::pace::Quality;
use crate::stoppable;

/// Rows are handed out once so many input batches went through: fewer, fuller output batches.
const BATCHES_HELD_MAX: usize = 8;

/// One partition's run.
pub(super) struct Run {
    pub(super) inner: Arc<Inner>,
    partition: usize,
    context: Arc<TaskContext>,
    metrics: RunMetrics,
    pub(super) input: Input,
    pub(super) execution: Execution,
    pub(super) held: Held,
    pub(super) out: Out,
    pub(super) groups: Groups,
    end: EndSide,
}

/// What comes in.
pub(super) struct Input {
    /// Absent once it has ended.
    rows: Option<SendableRecordBatchStream>,
    /// Rows that are still to be processed, before any others.
    pub(super) queue: VecDeque<RecordBatch>,
    pub(super) slices: Slices,
    /// What compiled code reads of it.
    columns: Vec<usize>,
    dictionaries: DictionaryNumbers,
}

/// Compiled code and its state.
pub(super) struct Execution {
    pub(super) code: Arc<Code>,
    args: Vec<Value>,
    /// Absent once finished.
    pub(super) stream: Option<Stream>,
    /// Whether the stream has processed nothing yet.
    pub(super) is_fresh: bool,
    pub(super) output: Output,
    pub(super) memory: Arc<QueryMemory>,
    /// As the pool knows the memory.
    name: String,
    /// Whether rows are made though the pool refuses their memory.
    pub(super) exceeds: bool,
    /// The cancellation flag.
    cancel: Arc<AtomicBool>,
}

/// What goes out.
pub(super) struct Out {
    schema: SchemaRef,
    /// Rows to hand out.
    pub(super) reader: Option<RowsReader>,
    /// The memory of the finished stream that they are from.
    finished: Option<Arc<QueryMemory>>,
    batch_rows: usize,
    /// As many rows may still be given.
    rows_left: usize,
    /// Whether this partition's rows are those of this run.
    gives: bool,
}

/// How rows are grouped, if they are.
pub(super) struct Groups {
    pub(super) grouping: Grouping,
    pub(super) bounds: TableBounds,
    /// DataFusion's accumulators of groups, where there are calls that are not compiled.
    pub(super) accumulation: Option<Accumulation>,
    /// Where rows are collected to be grouped range by range of their keys' hashes.
    radix: Option<Radix>,
}

/// The build side whose rows follow those of all partitions.
struct EndSide {
    /// The stream's rows mark its rows, until they follow.
    marked: Option<Arc<BuildTable>>,
    rows: Option<EndRows>,
}

struct RunMetrics {
    baseline: BaselineMetrics,
    input_rows: Count,
    input_batches: Count,
    /// That of the code when the run began.
    quality: Quality,
}

/// What there is to do next.
enum Next {
    Process(RecordBatch),
    /// The input keeps waiting, and there are rows.
    HandOut,
    Finish,
}

impl Run {
    pub(super) async fn start(
        inner: &Arc<Inner>,
        code: &Arc<Code>,
        partition: usize,
        context: &Arc<TaskContext>,
        early: Option<Early>,
    ) -> Result<Run, Failure> {
        let gives = early.as_ref().is_some_and(|early| early.gives);
        if !gives && inner.handover.has_happened() {
            return Err(Failure::Superseded);
        }
        let args = args(inner, partition, context).await?;
        let cancel = stoppable::flag();
        let name = format!("WeldExec[{partition}]");
        let lowered = &inner.pipeline.lowered;
        let memory = memory_of(&name, context, &lowered.output);
        let accumulation = Accumulation::new(&name, &lowered.output, context)?;
        let stream =
            open(code, args.values.clone(), Context::new(memory.clone(), Arc::clone(&cancel)), &lowered.source)?;
        let metrics = RunMetrics {
            baseline: BaselineMetrics::new(&inner.metrics, partition),
            input_rows: MetricBuilder::new(&inner.metrics).counter("input_rows", partition),
            input_batches: MetricBuilder::new(&inner.metrics).counter("input_batches", partition),
            quality: code.quality(),
        };
        Ok(Run {
            partition,
            context: Arc::clone(context),
            metrics,
            input: Input {
                rows: match early {
                    _ if args.no_rows => None,
                    Some(early) => Some(early.rows),
                    None => Some(inner.read(partition, context)?),
                },
                queue: VecDeque::new(),
                slices: Slices::new(args.multiplies),
                columns: lowered.inputs.clone(),
                dictionaries: DictionaryNumbers::default(),
            },
            execution: Execution {
                code: Arc::clone(code),
                args: args.values,
                stream: Some(stream),
                is_fresh: true,
                output: lowered.output.clone(),
                memory,
                name,
                exceeds: false,
                cancel,
            },
            held: Held::new(if lowered.gathers { BATCHES_HELD_MAX } else { 1 }),
            out: Out {
                schema: Arc::clone(inner.properties.eq_properties.schema()),
                reader: None,
                finished: None,
                batch_rows: context.session_config().batch_size(),
                rows_left: inner.pipeline.fetch.unwrap_or(usize::MAX),
                gives,
            },
            groups: Groups {
                grouping: Grouping::new(lowered),
                bounds: TableBounds::new(inner, context),
                accumulation,
                radix: Radix::new(inner, partition, context),
            },
            end: EndSide { marked: args.last.filter(|_| lowered.at_end.is_some()), rows: None },
            inner: Arc::clone(inner),
        })
    }

    /// The next batch of rows.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        loop {
            if let Some(batch) = self.hand_out()? {
                return Ok(Some(batch));
            }
            if self.out.rows_left > 0 && self.execution.stream.is_none() && self.next_range().await? {
                continue;
            }
            if self.out.rows_left > 0
                && self.execution.stream.is_none()
                && let Some(batch) = self.next_end_rows().await?
            {
                return Ok(Some(batch));
            }
            if self.out.rows_left == 0 || self.execution.stream.is_none() {
                self.note_pace();
                return self.give().map(|()| None);
            }
            match self.next_input().await? {
                Next::Process(batch) => {
                    let rows = self.process(batch).await?;
                    self.adapt(rows).await?;
                }
                Next::HandOut
                    if self.groups.accumulation.is_some() && matches!(self.execution.output, Output::Groups { .. }) =>
                {
                    self.accumulate()?;
                }
                Next::HandOut => self.take_rows()?,
                Next::Finish if self.settle() => {}
                Next::Finish => {
                    let compute = self.metrics.baseline.elapsed_compute().clone();
                    let _timer = compute.timer();
                    self.finish()?;
                }
            }
        }
    }

    /// The next rows that are ready.
    fn hand_out(&mut self) -> Result<Option<RecordBatch>, Failure> {
        let compute = self.metrics.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        let rows_max = self.out.batch_rows.min(self.out.rows_left);
        let Some(reader) = self.out.reader.as_mut().filter(|_| rows_max > 0) else { return Ok(None) };
        if let Some(batch) = guard(|| Ok(reader.next_batch(rows_max)?))? {
            let batch = match &mut self.groups.accumulation {
                Some(accumulation) => guard(|| Ok(accumulation.complete(&batch, &self.out.schema)?))?,
                None => batch,
            };
            self.give()?;
            self.out.rows_left -= batch.num_rows();
            return Ok(Some(batch.record_output(&self.metrics.baseline)));
        }
        self.out.reader = None;
        if let Some(memory) = self.out.finished.take() {
            memory.release();
        }
        self.groups.accumulation.iter_mut().for_each(Accumulation::release);
        Ok(None)
    }

    /// Notes what a row took the code, if all of it was of one quality.
    fn note_pace(&self) {
        let code = &self.inner.codes.code;
        if let Some(Ok(code)) = code.get()
            && code.quality() == self.metrics.quality
        {
            let spent = Duration::from_nanos(self.metrics.baseline.elapsed_compute().value() as u64);
            code.pace.note(self.metrics.quality, self.metrics.input_rows.value(), spent);
        }
    }

    /// From now on this partition's rows are those of this run.
    fn give(&mut self) -> Result<(), Failure> {
        if !self.out.gives && !self.inner.handover.may_give(self.partition) {
            return Err(Failure::Superseded);
        }
        self.out.gives = true;
        Ok(())
    }

    /// Whether the rows of this partition may still come from other operators.
    pub(super) fn may_hand_over(&self) -> bool {
        !self.out.gives
    }

    async fn next_input(&mut self) -> Result<Next, Failure> {
        if let Some(batch) = self.input.queue.pop_front() {
            self.input.slices.pause().await;
            return Ok(Next::Process(batch));
        }
        if !self.out.gives && self.inner.handover.has_happened() {
            return Err(Failure::Superseded);
        }
        let Some(input) = &mut self.input.rows else { return Ok(Next::Finish) };
        let batch = if self.execution.stream.as_ref().is_none_or(|stream| stream.pending_rows() == 0) {
            input.next().await
        } else {
            match poll!(input.next()) {
                std::task::Poll::Ready(batch) => batch,
                std::task::Poll::Pending => {
                    // Who feeds the input may only wait for this thread.
                    tokio::task::yield_now().await;
                    match poll!(input.next()) {
                        std::task::Poll::Ready(batch) => batch,
                        std::task::Poll::Pending => return Ok(Next::HandOut),
                    }
                }
            }
        };
        let Some(batch) = batch.transpose()? else {
            // What the input holds is of no use any more.
            self.input.rows = None;
            return Ok(Next::Finish);
        };
        self.metrics.input_rows.add(batch.num_rows());
        self.metrics.input_batches.add(1);
        Ok(Next::Process(batch))
    }

    /// Goes on with other code, or the same from the start.
    pub(super) fn open(&mut self, code: &Arc<Code>, output: Output) -> Result<(), Failure> {
        let (lowered, execution) = (&self.inner.pipeline.lowered, &mut self.execution);
        let is_other = !Arc::ptr_eq(code, &execution.code);
        let args = match is_other.then(|| lowered.ungrouped()).flatten() {
            Some(ungrouped) => with_constants_of(&execution.args, lowered, ungrouped),
            None => execution.args.clone(),
        };
        let memory = memory_of(&execution.name, &self.context, &output);
        let context = Context::new(memory.clone(), Arc::clone(&execution.cancel));
        execution.stream = Some(open(code, args, context, &lowered.source)?);
        (execution.memory, execution.output, execution.is_fresh) = (memory, output, true);
        self.held.restart();
        Ok(())
    }

    /// Goes on with the same code from the start.
    pub(super) fn open_again(&mut self) -> Result<(), Failure> {
        let (code, output) = (self.current_code(), self.execution.output.clone());
        self.open(&code, output)
    }

    /// Processes the first rows of a batch and queues the others; how many those were.
    async fn process(&mut self, batch: RecordBatch) -> Result<usize, Failure> {
        if batch.num_rows() == 0 {
            return Ok(0);
        }
        if self.groups.radix.is_some() {
            let rows = batch.num_rows();
            self.collect(batch).await?;
            return Ok(rows);
        }
        let (slice, rest) = self.input.slices.cut(batch);
        if let Some(rest) = rest {
            self.input.queue.push_front(rest);
        }
        let rows = slice.num_rows();
        match self.process_slice(&slice) {
            Ok(()) => Ok(rows),
            Err(Failure::Refused(error)) => {
                self.recover(slice, Failure::Refused(error)).await?;
                Ok(0)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Keeps a batch until there are enough rows to be put in order, or it is known that they need not be.
    async fn collect(&mut self, batch: RecordBatch) -> Result<(), Failure> {
        let compute = self.metrics.baseline.elapsed_compute().clone();
        let timer = compute.timer();
        let Some(radix) = &mut self.groups.radix else { return Ok(()) };
        let collected = guard(|| Ok(radix.collect(batch)?))?;
        drop(timer);
        match collected {
            Collected::More => Ok(()),
            Collected::Enough => self.process_ranges().await,
            Collected::OneTable => {
                self.input.queue.extend(radix.take());
                self.groups.radix = None;
                Ok(())
            }
        }
    }

    /// The end of the input. Whether there is something to do before the run is finished: rows that were collected are
    /// processed, range by range if there are ranges.
    fn settle(&mut self) -> bool {
        let Some(radix) = &mut self.groups.radix else { return false };
        if radix.ranges.is_some() {
            MetricBuilder::new(&self.inner.metrics).counter("radix_partitions", self.partition).add(PARTITIONS);
            self.execution.stream = None;
        } else {
            self.input.queue.extend(radix.take());
            self.groups.radix = None;
        }
        true
    }

    /// Processes the rows that were collected, one range of hashes after the other.
    async fn process_ranges(&mut self) -> Result<(), Failure> {
        let ranges = self.groups.radix.as_ref().and_then(|radix| radix.ranges.as_ref()).map_or(0, VecDeque::len);
        for range in 0..ranges {
            self.process_range(range)?;
            self.input.slices.pause().await;
        }
        if let Some(radix) = &mut self.groups.radix {
            radix.free();
        }
        Ok(())
    }

    fn process_range(&mut self, range: usize) -> Result<(), Failure> {
        let compute = self.metrics.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        let Some(radix) = &mut self.groups.radix else { return Ok(()) };
        let chunks = guard(|| Ok(radix.chunks(range)?))?;
        let groups = radix.expected_groups(range);
        let Some(range) = radix.ranges.as_mut().and_then(|ranges| ranges.get_mut(range)) else { return Ok(()) };
        let source = &self.inner.pipeline.lowered.source;
        for chunk in chunks {
            let table = match &mut range.table {
                Some(table) => table,
                None => {
                    let memory = QueryMemory::new(&self.execution.name, &self.context, Pressure::Fails);
                    // Once a range's groups are out, no other operators can take over.
                    memory.allow_excess(if self.out.gives { excess_of_range(0) } else { 0 });
                    let context = Context::new(memory.clone(), Arc::clone(&self.execution.cancel)).expecting(groups);
                    let stream = open(&self.execution.code, self.execution.args.clone(), context, source)?;
                    range.table.insert(RangeTable { stream, memory })
                }
            };
            let started = Instant::now();
            guard(|| {
                let columns = BatchColumns::new(&chunk, &(0..chunk.num_columns()).collect::<Vec<_>>())?;
                let chunk = columns.chunk()?;
                run(source, || table.stream.process(&chunk))
            })?;
            self.input.slices.note(chunk.num_rows(), 0, started);
            self.execution.code.improve_if_due(self.inner.rows_left(chunk.num_rows()));
        }
        Ok(())
    }

    /// Goes on to the groups of the next range of hashes; whether there is one.
    async fn next_range(&mut self) -> Result<bool, Failure> {
        if self.groups.radix.as_ref().and_then(|radix| radix.ranges.as_ref()).is_none_or(VecDeque::is_empty) {
            self.groups.radix = None;
            return Ok(false);
        }
        self.input.slices.pause().await;
        self.process_range(0)?;
        let compute = self.metrics.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        let range = self.groups.radix.as_mut().and_then(|radix| radix.ranges.as_mut()?.pop_front());
        if let Some(mut range) = range
            && let Some(table) = range.table.take()
        {
            let excess = if self.out.gives { excess_of_range(table.memory.used()) } else { 0 };
            (self.execution.stream, self.execution.memory) = (Some(table.stream), table.memory);
            self.finish_within(excess)?;
            if let (Some(radix), Some(reader)) = (&mut self.groups.radix, &self.out.reader) {
                radix.note_groups(&range, reader.rows_left());
            }
        }
        Ok(true)
    }

    fn process_slice(&mut self, slice: &RecordBatch) -> Result<(), Failure> {
        let compute = self.metrics.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        let Some(stream) = &mut self.execution.stream else {
            return Err(internal_datafusion_err!("a finished run was given a batch").into());
        };
        let (started, pending) = (Instant::now(), stream.pending_rows());
        self.execution.memory.allow_excess(excess_max(&self.execution.output, self.execution.exceeds, slice));
        let columns = guard(|| {
            let columns = BatchColumns::of_stream(slice, &self.input.columns, &mut self.input.dictionaries)?;
            let chunk = columns.chunk()?;
            run(&self.inner.pipeline.lowered.source, || stream.process(&chunk))?;
            drop(chunk);
            Ok(columns)
        })?;
        let pending_now = stream.pending_rows();
        self.input.slices.note(slice.num_rows(), pending_now - pending, started);
        self.note_grouped(slice.num_rows());
        self.held.count(slice.num_rows());
        self.execution.is_fresh = false;
        self.current_code().improve_if_due(self.inner.rows_left(slice.num_rows()));
        match &self.execution.output {
            Output::Rows(_) if !self.current_code().compiled.streams_rows() => {
                // Code that was not fused, or makes lists, gives its rows at the end: every slice is a run of its own.
                self.held.push(slice.clone(), columns);
                self.finish()?;
                self.held.clear();
                self.open_again()
            }
            Output::Rows(_) => {
                self.held.push(slice.clone(), columns);
                let enough = pending_now >= self.out.batch_rows.min(self.out.rows_left);
                if enough || self.held.is_full() { self.take_rows() } else { Ok(()) }
            }
            Output::Groups { partial, .. } => {
                let partial = *partial;
                let refused = self.hold_for_accumulators((slice, columns), pending_now)?;
                // At first it is asked whether grouping pays, also where one batch makes so many groups.
                let is_large = self.execution.memory.used() > self.groups.bounds.bytes_max && !self.is_asked_next();
                let is_full = is_large || self.execution.memory.excess() > 0;
                match refused {
                    Some(failure) if !partial => Err(failure),
                    None if !partial || !is_full => Ok(()),
                    _ => self.empty_table(),
                }
            }
            Output::Table(_) => Ok(()),
        }
    }

    /// Holds a slice for the accumulators, if there are some, and gives them the `pending` rows if those are enough.
    /// What the pool says if it refuses them the memory that they have taken.
    fn hold_for_accumulators(
        &mut self,
        (slice, columns): (&RecordBatch, BatchColumns),
        pending: usize,
    ) -> Result<Option<Failure>, Failure> {
        if self.groups.accumulation.is_none() {
            return Ok(None);
        }
        self.held.push(slice.clone(), columns);
        if pending < self.out.batch_rows && !self.held.is_full() {
            return Ok(None);
        }
        self.accumulate()?;
        let granted = self.groups.accumulation.as_mut().map_or(Ok(()), Accumulation::reserve);
        Ok(granted.err().map(|error| Failure::Refused(Arc::new(error))))
    }

    /// Gives the rows that have come so far to the accumulators.
    pub(super) fn accumulate(&mut self) -> Result<(), Failure> {
        let (Some(stream), Some(accumulation)) = (&mut self.execution.stream, &mut self.groups.accumulation) else {
            return Ok(());
        };
        let accumulated = guard(|| {
            let rows = stream.rows().ok_or_else(|| internal_datafusion_err!("groups without numbers of their rows"))?;
            let Accumulated { numbered: schema, slots, moved, .. } = &*accumulation.of;
            let (schema, rows) = (Arc::clone(schema), rows.value().clone());
            let (batches, strings) = (self.held.numbered(&schema, moved), self.held.string_buffers());
            let mut reader = RowsReader::numbered(rows, schema, slots, strings, moved)?.over(batches);
            while let Some(batch) = reader.next_batch(usize::MAX)? {
                accumulation.add(batch)?;
            }
            Ok(())
        });
        self.held.clear();
        accumulated
    }

    /// Makes the rows that have come so far ready to be handed out.
    pub(super) fn take_rows(&mut self) -> Result<(), Failure> {
        let (Some(stream), Output::Rows(slots)) = (&mut self.execution.stream, &self.execution.output) else {
            return Ok(());
        };
        let rows =
            guard(|| stream.rows().ok_or_else(|| internal_datafusion_err!("a row pipeline gives no rows").into()))?;
        let strings = self.held.string_buffers();
        self.out.reader = self.read_rows(rows.value().clone(), slots, strings)?;
        self.held.clear();
        Ok(())
    }

    /// A reader of rows that came out, if they are rows to give. Row numbers among them are taken note of.
    fn read_rows(&self, rows: Value, slots: &[Slot], strings: Vec<Buffer>) -> Result<Option<RowsReader>, Failure> {
        guard(|| {
            if let (Some(marks), Some(at_end)) = (self.marks(), &self.inner.pipeline.lowered.at_end) {
                marks.mark(&rows)?;
                if !at_end.gives_pairs {
                    return Ok(None);
                }
            }
            let lowered = &self.inner.pipeline.lowered;
            let is_ungrouped = self.groups.accumulation.is_some() && matches!(self.execution.output, Output::Rows(_));
            let ungrouped = is_ungrouped.then(|| lowered.ungrouped()).flatten();
            let (schema, moved) = match (&self.groups.accumulation, ungrouped) {
                (Some(accumulation), Some(ungrouped)) => (&accumulation.of.states, &ungrouped.moved),
                (Some(accumulation), None) => (&accumulation.of.groups, &lowered.moved),
                (None, _) => (&self.out.schema, &lowered.moved),
            };
            let reader = RowsReader::moving(rows, Arc::clone(schema), slots, strings, moved)?;
            Ok(Some(reader.over(self.held.numbered(schema, moved))))
        })
    }

    fn marks(&self) -> Option<&Marks> {
        self.end.marked.as_ref()?.marks.as_ref()
    }

    /// The next of the rows of the build side that follow those of all partitions.
    async fn next_end_rows(&mut self) -> Result<Option<RecordBatch>, Failure> {
        if self.end.marked.is_none() && self.end.rows.is_none() {
            return Ok(None);
        }
        let compute = self.metrics.baseline.elapsed_compute().clone();
        if let (Some(side), Some(at_end)) = (self.end.marked.take(), &self.inner.pipeline.lowered.at_end) {
            // From now on the others count on this one.
            if !self.out.gives && !self.inner.handover.may_give(self.partition) {
                return Err(Failure::Superseded);
            }
            self.out.gives = true;
            let _timer = compute.timer();
            let partitions = match self.inner.builds().last() {
                Some(build) if build.inner.pipeline.partitions.per_partition => 1,
                _ => self.inner.source().output_partitioning().partition_count(),
            };
            let partition = if partitions == 1 { 0 } else { self.partition };
            self.end.rows = guard(|| Ok(EndRows::of(side, at_end, &self.out.schema, partition, partitions)?))?;
        } else {
            self.input.slices.pause().await;
        }
        let _timer = compute.timer();
        let rows_max = self.out.batch_rows.min(self.out.rows_left);
        let Some(rows) = &mut self.end.rows else { return Ok(None) };
        let Some(batch) = guard(|| Ok(rows.next_batch(rows_max)?))? else {
            self.end.rows = None;
            return Ok(None);
        };
        self.out.rows_left -= batch.num_rows();
        Ok(Some(batch.record_output(&self.metrics.baseline)))
    }

    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        if matches!(self.execution.output, Output::Rows(_)) && self.current_code().compiled.streams_rows() {
            self.take_rows()?;
            self.execution.stream = None;
            return Ok(());
        }
        self.finish_within(excess_at_ends(&self.execution.output, self.execution.memory.used()))
    }

    fn finish_within(&mut self, excess: usize) -> Result<(), Failure> {
        if self.groups.accumulation.is_some() && matches!(self.execution.output, Output::Groups { .. }) {
            self.accumulate()?;
            self.groups.accumulation.as_mut().map_or(Ok(()), |accumulation| guard(|| Ok(accumulation.finish()?)))?;
        }
        let Some(stream) = self.execution.stream.take() else { return Ok(()) };
        self.execution.memory.allow_excess(excess);
        let slots = match &self.execution.output {
            Output::Rows(slots) | Output::Groups { slots, .. } => slots,
            Output::Table(_) => return Err(internal_datafusion_err!("a table is no vector of rows").into()),
        };
        let rows = run(&self.inner.pipeline.lowered.source, || stream.finish())?;
        self.out.finished = Some(Arc::clone(&self.execution.memory));
        self.out.reader = self.read_rows(rows, slots, Vec::new())?;
        Ok(())
    }
}

/// The arguments of a lowered pipeline for another over the same tables and subqueries, whose constants are others.
fn with_constants_of(args: &[Value], lowered: &LoweredPipeline, other: &LoweredPipeline) -> Vec<Value> {
    let shared = args.iter().zip(&lowered.args).filter(|(_, arg)| !matches!(arg, Arg::Constant(_)));
    let constants = other.args.iter().filter_map(|arg| match arg {
        Arg::Constant(value) => Some(constant(value)),
        Arg::Table | Arg::Scalar { .. } => None,
    });
    shared.map(|(value, _)| value.clone()).chain(constants).collect()
}

/// The memory of a run that has this output.
fn memory_of(name: &str, context: &TaskContext, output: &Output) -> Arc<QueryMemory> {
    let memory = QueryMemory::new(name, context, pressure(output));
    memory.allow_excess(excess_at_ends(output, 0));
    memory
}

/// A fresh run of the code.
fn open(code: &Arc<Code>, args: Vec<Value>, context: Context, source: &Source) -> Result<Stream, Failure> {
    run(source, || code.compiled.stream(Arc::new(context), args))
}
