//! One partition's run of a program with a stream: chunks in, rows or a result out.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use weld_core::ty::Type;
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_runtime::{Block, ColumnAbi, Context, Run, Threads};

use super::Compiled;
use super::flat::{FlatWords, finished};
use super::kernel::{COMBINE, FINISH, INIT, Kernel};
use super::variants::has_nulls;
use crate::chunk::{Chunk, ColumnLayout};
use crate::layout;
use crate::program::StreamProgram;
use crate::tier::{Tier, Tiered, Tiers};
use crate::value::{ColumnView, Value};

/// The layouts of a chunk, those that its code was made for, and the code.
struct LastVariant {
    chunk: Vec<ColumnLayout>,
    code: Vec<ColumnLayout>,
    variant: Arc<Tiered>,
    kernel: Arc<Kernel>,
}

impl LastVariant {
    /// Whether the code looks for nulls of which the chunk has none.
    fn is_makeshift(&self) -> bool {
        has_nulls(&self.code) && !has_nulls(&self.chunk)
    }
}

/// One partition's run of a program with a stream.
pub struct Stream {
    compiled: Arc<Compiled>,
    ends: Arc<Kernel>,
    /// That of the last chunk.
    variant: Option<LastVariant>,
    /// A validity for columns that have none where the code wants one.
    ones: Vec<u8>,
    /// Variants that have run: constants of theirs may be in the state.
    used: Vec<Arc<Kernel>>,
    /// How many chunks there were.
    chunks: u64,
    args: Vec<Value>,
    words: FlatWords,
    run: Box<Run>,
    state: FlatWords,
    /// After an error the state is not to be touched any more.
    failed: Option<RuntimeError>,
}

impl Compiled {
    /// Starts one partition's run of a program with a stream: evaluates what stands before the loop over the stream.
    /// `args` are the other parameters in order.
    pub fn stream(self: &Arc<Self>, context: Arc<Context>, args: Vec<Value>) -> Result<Stream, RuntimeError> {
        let Some(shape) = &self.stream else {
            return Err(self.misuse("the program has no stream parameter"));
        };
        let kernel = self.ends().map_err(|error| self.uncompiled(error))?;
        let words = self.check_args(&args, false)?;
        let mut run = Run::new(context);
        let mut state = FlatWords::new(shape.state_bytes.div_ceil(8) as usize);
        type Entry = unsafe extern "C" fn(*mut Run, *const u64, *mut u64) -> u32;
        // SAFETY: `init` was emitted with this signature; the state has the bytes that it was laid out with.
        let status = unsafe {
            let entry: Entry = std::mem::transmute(kernel.code.address(INIT));
            entry(&mut *run, words.as_ptr(), state.as_mut_ptr())
        };
        kernel.check(status, &mut run)?;
        Ok(Stream {
            compiled: self.clone(),
            ends: kernel,
            variant: None,
            ones: Vec::new(),
            used: Vec::new(),
            chunks: 0,
            args,
            words,
            run,
            state,
            failed: None,
        })
    }
}

impl Stream {
    /// Runs the loop over a chunk. The layouts may differ from chunk to chunk: each combination is compiled once, and
    /// of those that differ only in which columns have nulls not more than three.
    ///
    /// Strings that the stream's builders keep are copied, except in [`Stream::rows`].
    pub fn process(&mut self, chunk: &Chunk<'_>) -> Result<(), RuntimeError> {
        self.check_state()?;
        let kernel = self.kernel(chunk)?;
        let started = (kernel.tier == Tier::Cheap).then(Instant::now);
        let columns = self.columns(chunk);
        type Entry = unsafe extern "C" fn(*mut Run, *const u64, *mut u64, u64, *const ColumnAbi) -> u32;
        // SAFETY: `process` was emitted with this signature for these layouts; the columns are valid for their rows.
        let status = unsafe {
            let entry: Entry = std::mem::transmute(kernel.code.address(kernel.process));
            let rows = chunk.rows as u64;
            entry(&mut *self.run, self.words.as_ptr(), self.state.as_mut_ptr(), rows, columns.as_ptr())
        };
        if let Some(started) = started {
            self.compiled.progress.note(chunk.rows, started.elapsed());
        }
        let result = kernel.check(status, &mut self.run);
        self.note(result)
    }

    /// The code for a chunk: that of the last one, if its layouts are the same and there is no better by now.
    fn kernel(&mut self, chunk: &Chunk<'_>) -> Result<Arc<Kernel>, RuntimeError> {
        let number = self.chunks;
        self.chunks += 1;
        let is_known = |last: &LastVariant| {
            last.chunk.iter().eq(chunk.columns.iter().map(|column| column.layout()))
                && !(last.is_makeshift() && self.compiled.has_variant(&last.chunk))
        };
        let known = self.variant.take().filter(is_known);
        let (layouts, code, variant, last) = match known {
            Some(LastVariant { chunk, code, variant, kernel }) => (chunk, code, variant, Some(kernel)),
            None => {
                let layouts = chunk.layouts();
                self.check_nulls(&layouts)?;
                let (code, variant) = self.compiled.variant_for(&layouts);
                (layouts, code, variant, None)
            }
        };
        let alternates = self.compiled.options.tiers == Tiers::Alternate;
        let is_best = |kernel: &Kernel| !alternates && (kernel.tier == Tier::Full || variant.improved().is_none());
        let kernel = match last.filter(|kernel| is_best(kernel)) {
            Some(kernel) => kernel,
            None => {
                let kernel = self.compiled.code_for(&variant, &code, number);
                let kernel = kernel.map_err(|error| self.compiled.uncompiled(error))?;
                self.keep(&kernel);
                kernel
            }
        };
        variant.used.store(true, Ordering::Relaxed);
        let last = LastVariant { chunk: layouts, code, variant, kernel: kernel.clone() };
        last.variant.note(chunk.rows, last.is_makeshift());
        self.variant = Some(last);
        Ok(kernel)
    }

    /// What the code of the last variant is told of the chunk's columns.
    fn columns(&mut self, chunk: &Chunk<'_>) -> Vec<ColumnAbi> {
        let mut columns: Vec<ColumnAbi> = chunk.columns.iter().map(|column| column.abi).collect();
        let Some(LastVariant { code, .. }) = &self.variant else { return columns };
        for (column, layout) in columns.iter_mut().zip(code) {
            if layout.validity && column.validity.is_null() {
                let bytes = chunk.rows.div_ceil(8);
                if self.ones.len() < bytes {
                    self.ones.resize(bytes, u8::MAX);
                }
                // The bitmap is not moved before the next chunk: it is as long as this one needs from the first column
                // on.
                (column.validity, column.validity_offset) = (self.ones.as_ptr(), 0);
            }
        }
        columns
    }

    /// Nulls are an error where the type of a column excludes them.
    fn check_nulls(&self, layouts: &[ColumnLayout]) -> Result<(), RuntimeError> {
        let nullable = self.compiled.nullable_columns();
        let excluded = layouts.iter().zip(nullable).position(|(column, nullable)| column.validity && !nullable);
        match excluded {
            None => Ok(()),
            Some(at) => {
                let message = format!("column {at} of the stream has nulls, which its type excludes");
                let span = self.compiled.program.body.span;
                Err(RuntimeError::new(RuntimeErrorKind::AssertionFailed, span, message))
            }
        }
    }

    /// Keeps code alive whose constants may be in the state.
    fn keep(&mut self, kernel: &Arc<Kernel>) {
        if !self.used.iter().any(|used| Arc::ptr_eq(used, kernel)) {
            self.used.push(kernel.clone());
        }
    }

    /// The best code for what comes after the chunks.
    fn last_ends(&mut self) -> Arc<Kernel> {
        match self.compiled.ends.improved().cloned() {
            Some(better) if !Arc::ptr_eq(&better, &self.ends) => {
                self.keep(&better);
                better
            }
            _ => self.ends.clone(),
        }
    }

    fn check_state(&self) -> Result<(), RuntimeError> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn note(&mut self, result: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    /// Rows appended since the last call, for a program whose body is `result` of an appender loop over the stream, or
    /// a struct that ends with the rows of a numberer that such a loop fills; its result has only the rows that were
    /// not taken. `None` for other programs. Long strings point into the chunks since then, or into arguments. The
    /// run's pool does not count them any more.
    pub fn rows(&mut self) -> Option<Rows> {
        let compiled = self.compiled.clone();
        let (element, offset) = compiled.stream.as_ref()?.rows()?;
        let element = &element;
        if self.failed.is_some() {
            return None;
        }
        let columns = layout::columns(element).len();
        let mut words = Vec::with_capacity(1 + columns);
        let mut owners: Vec<Arc<dyn Any + Send + Sync>> = Vec::new();
        // SAFETY: the appender's state (length, capacity, columns) lies at the offset; it is left empty, and its blocks
        // belong to the result from now on.
        unsafe {
            let state = self.state.as_mut_ptr().cast::<u8>().add(offset as usize).cast::<u64>();
            words.push(state.read());
            self.run.expect_len(words[0]);
            state.write(0);
            state.add(1).write(0);
            for column in 0..columns {
                let slot = state.add(2 + column);
                let block = slot.read() as *mut u8;
                slot.write(0);
                words.push(block as u64);
                if !block.is_null() {
                    let mut block: Block = self.run.detach(block);
                    block.uncount();
                    owners.push(Arc::new(block));
                }
            }
        }
        owners.extend(self.used.iter().map(|kernel| kernel.clone() as Arc<dyn Any + Send + Sync>));
        // SAFETY: the words are a vector in flat form, kept alive by its blocks.
        let value = unsafe { Value::from_flat(Type::vec(element.clone()), words, owners) };
        Some(Rows { value })
    }

    /// Rows that [`Stream::rows`] would give.
    pub fn pending_rows(&self) -> usize {
        let Some((_, offset)) = self.compiled.stream.as_ref().and_then(StreamProgram::rows) else { return 0 };
        // SAFETY: the appender's length lies at the offset.
        unsafe { self.state.as_ptr().cast::<u8>().add(offset as usize).cast::<u64>().read() as usize }
    }

    /// Bytes of memory that the run holds.
    pub fn memory(&self) -> usize {
        self.run.bytes()
    }

    /// What combining large tables may use; they start when it does.
    pub fn set_threads(&mut self, threads: Arc<Threads>) {
        self.run.set_threads(Some(threads));
    }

    /// Merges the builders of another partition's run of the same program into this one's.
    pub fn combine(&mut self, other: Stream) -> Result<(), RuntimeError> {
        self.check_state()?;
        other.check_state()?;
        if !Arc::ptr_eq(&self.compiled, &other.compiled) {
            return Err(self.compiled.misuse("streams of two programs cannot be combined"));
        }
        let Stream { run, mut state, used, ends, .. } = other;
        // What the other built stays alive with this run, before this one's builders refer to it.
        if !self.run.adopt(run) {
            let message = self.run.take_failure().map_or_else(String::new, |failure| failure.message);
            let span = self.compiled.program.body.span;
            return self.note(Err(RuntimeError::new(RuntimeErrorKind::OutOfMemory, span, message)));
        }
        used.iter().for_each(|kernel| self.keep(kernel));
        self.keep(&ends);
        let kernel = self.last_ends();
        type Entry = unsafe extern "C" fn(*mut Run, *const u64, *mut u64, *mut u64) -> u32;
        // SAFETY: `combine` was emitted with this signature; both states were made by `init` of the same program, and
        // all code of a program has one layout of the state.
        let status = unsafe {
            let entry: Entry = std::mem::transmute(kernel.code.address(COMBINE));
            entry(&mut *self.run, self.words.as_ptr(), self.state.as_mut_ptr(), state.as_mut_ptr())
        };
        let result = kernel.check(status, &mut self.run);
        self.note(result)
    }

    /// Evaluates what stands after the loop.
    pub fn finish(mut self) -> Result<Value, RuntimeError> {
        self.check_state()?;
        let kernel = self.last_ends();
        let ty = &self.compiled.program.body.ty;
        let mut out = FlatWords::new(layout::flat_words(ty));
        type Entry = unsafe extern "C" fn(*mut Run, *const u64, *mut u64, *mut u64) -> u32;
        // SAFETY: `finish` was emitted with this signature; the result has the words of its type.
        let status = unsafe {
            let entry: Entry = std::mem::transmute(kernel.code.address(FINISH));
            entry(&mut *self.run, self.words.as_ptr(), self.state.as_mut_ptr(), out.as_mut_ptr())
        };
        // The result may keep the run for long, but not the threads.
        self.run.set_threads(None);
        kernel.check(status, &mut self.run)?;
        Ok(finished(ty, out, self.run, &self.ends, Some(self.used), &self.args))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("run", &self.run).field("failed", &self.failed).finish_non_exhaustive()
    }
}

/// Rows that a stream has appended: a vector that owns its columns, except the bytes of long strings.
#[derive(Debug)]
pub struct Rows {
    value: Value,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.value.len().unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn columns(&self) -> Vec<ColumnView<'_>> {
        self.value.columns()
    }

    /// The rows as a vector; its owners keep the columns alive.
    pub fn value(&self) -> &Value {
        &self.value
    }
}
