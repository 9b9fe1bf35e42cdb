//! A compiled program and its runs.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use weld_core::diag::Span;
use weld_core::ir::Program;
use weld_core::ty::Type;
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_runtime::{Block, ColumnAbi, Context, Run, Threads};

use crate::chunk::{Chunk, ColumnLayout};
use crate::emit::{Demand, Parallel, Site, Unit, demands};
use crate::error::CompileError;
use crate::jit::{Code, Jit};
use crate::layout;
use crate::options::{OptLevel, Options};
use crate::program::{self, StreamProgram};
use crate::target;
use crate::timing::{CpuClock, Size, Timing};
use crate::value::{ColumnView, Value};

/// Native code of a program; freed when dropped.
pub struct Compiled {
    program: Program,
    options: Options,
    /// The highest level worth its time.
    affordable: OptLevel,
    demands: HashMap<weld_core::ir::Sym, Demand>,
    stream: Option<StreamProgram>,
    /// What the parallel loops of `run` use, if there may be any.
    threads: Option<Arc<Threads>>,
    /// `run`, compiled at once for a program without a stream.
    whole: OnceLock<Result<Arc<Kernel>, CompileError>>,
    /// `init`, `finish` and `combine`.
    ends: OnceLock<Result<Arc<Kernel>, CompileError>>,
    /// `process`, for each combination of layouts.
    variants: Mutex<HashMap<Vec<ColumnLayout>, Arc<Variant>>>,
    compile_nanos: AtomicU64,
}

type Variant = OnceLock<Result<Arc<Kernel>, CompileError>>;

/// Loaded code and the places where it can trap.
struct Kernel {
    code: Code,
    sites: Vec<Site>,
    timing: Timing,
}

/// What a kernel is made of.
#[derive(Clone, Copy)]
enum Part<'a> {
    Whole,
    Ends,
    Process(&'a [ColumnLayout]),
}

impl Part<'_> {
    fn name(self) -> &'static str {
        match self {
            Part::Whole => "run",
            Part::Ends => "init, finish, combine",
            Part::Process(_) => "process",
        }
    }
}

/// Compiles a program, which the optimizer is done with. What is not supported shows here, except for column layouts,
/// which come with the first chunk or with [`Compiled::prepare`].
pub fn compile(program: &Program, options: &Options) -> Result<Arc<Compiled>, CompileError> {
    let started = Instant::now();
    let stream = program::split(program)?;
    let compiled = Compiled {
        affordable: affordable(program),
        demands: demands(&program.body),
        program: program.clone(),
        options: options.clone(),
        stream,
        threads: (options.threads > 1).then(|| Threads::shared(options.threads)),
        whole: OnceLock::new(),
        ends: OnceLock::new(),
        variants: Mutex::default(),
        compile_nanos: AtomicU64::new(started.elapsed().as_nanos() as u64),
    };
    if compiled.stream.is_some() { compiled.ends() } else { compiled.whole() }?;
    Ok(Arc::new(compiled))
}

/// The level that a program of this size can have: the time that LLVM's passes take grows faster than the program (500
/// small loops, 7,000 expressions: 15 s at O2, 6 s at O1, 0.6 s at O0). Queries have a few hundred expressions.
fn affordable(program: &Program) -> OptLevel {
    match program.body.size() {
        0..=3_000 => OptLevel::O2,
        3_001..=5_000 => OptLevel::O1,
        _ => OptLevel::O0,
    }
}

impl Compiled {
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Total over everything compiled so far.
    pub fn compile_time(&self) -> Duration {
        Duration::from_nanos(self.compile_nanos.load(Ordering::Relaxed))
    }

    /// What compiling each part took that was compiled so far.
    pub fn timings(&self) -> Vec<Timing> {
        let variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let loops = variants.values().filter_map(|variant| variant.get());
        let kernels = self.whole.get().into_iter().chain(self.ends.get()).chain(loops).flatten();
        kernels.map(|kernel| kernel.timing.clone()).collect()
    }

    /// Runs a program. A stream parameter takes a whole vector.
    pub fn run(&self, context: &Arc<Context>, args: &[Value]) -> Result<Value, RuntimeError> {
        let kernel = self.whole().map_err(|error| self.uncompiled(error))?;
        let words = self.check_args(args, true)?;
        let mut run = Run::new(context.clone());
        run.set_threads(self.threads.clone());
        let ty = &self.program.body.ty;
        let mut out = FlatWords::new(layout::flat_words(ty));
        type Entry = unsafe extern "C" fn(*mut Run, *const u64, *mut u64) -> u32;
        // SAFETY: `run` was emitted with this signature; arguments and result have the words of their types.
        let status = unsafe {
            let entry: Entry = std::mem::transmute(kernel.code.address(0));
            entry(&mut *run, words.as_ptr(), out.as_mut_ptr())
        };
        kernel.check(status, &mut run)?;
        // The result may keep the run for long, but not the threads.
        run.set_threads(None);
        Ok(finished(ty, out, run, &kernel, None, args))
    }

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
            used: Vec::new(),
            args,
            words,
            run,
            state,
            failed: None,
        })
    }

    /// Compiles the loop over the stream for chunks of these layouts, ahead of their arrival.
    pub fn prepare(&self, layouts: &[ColumnLayout]) -> Result<(), CompileError> {
        self.variant(layouts).map(|_| ())
    }

    /// LLVM IR of everything compiled so far, after its passes.
    pub fn llvm_ir(&self) -> String {
        self.print(|unit, _| Ok(unit.module.print_to_string().to_string()))
    }

    /// Assembly of everything compiled so far.
    pub fn assembly(&self) -> String {
        self.print(|unit, machine| target::assembly(&unit.module, machine))
    }

    /// Emits everything that was compiled again, for a look at it.
    fn print(
        &self,
        show: impl Fn(&Unit<'_>, &inkwell::targets::TargetMachine) -> Result<String, CompileError>,
    ) -> String {
        let variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let layouts: Vec<Vec<ColumnLayout>> = variants.keys().cloned().collect();
        drop(variants);
        let mut parts = Vec::new();
        parts.extend(self.whole.get().map(|_| Part::Whole));
        parts.extend(self.ends.get().map(|_| Part::Ends));
        parts.extend(layouts.iter().map(|layouts| Part::Process(layouts)));
        let mut text = String::new();
        for part in parts {
            let shown = self.emit(part, "", |unit, machine, _, _| show(unit, machine));
            text.push_str(&shown.unwrap_or_else(|error| format!("; {error}\n")));
        }
        text
    }

    fn whole(&self) -> Result<Arc<Kernel>, CompileError> {
        self.whole.get_or_init(|| self.build(Part::Whole)).clone()
    }

    fn ends(&self) -> Result<Arc<Kernel>, CompileError> {
        self.ends.get_or_init(|| self.build(Part::Ends)).clone()
    }

    fn variant(&self, layouts: &[ColumnLayout]) -> Result<Arc<Kernel>, CompileError> {
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let variant = match variants.get(layouts) {
            Some(variant) => variant.clone(),
            None => variants.entry(layouts.to_vec()).or_default().clone(),
        };
        // Compile without the lock, so that other partitions go on with what is there.
        drop(variants);
        variant.get_or_init(|| self.build(Part::Process(layouts))).clone()
    }

    fn build(&self, part: Part<'_>) -> Result<Arc<Kernel>, CompileError> {
        let started = Instant::now();
        crate::sanitizer::check(&self.options)?;
        let jit = Jit::shared()?;
        let prefix = jit.fresh_prefix();
        let kernel = self.emit(part, &prefix, |unit, machine, names, mut timing| {
            let mut clock = CpuClock::start();
            let object = target::object(&unit.module, machine)?;
            timing.select = clock.lap();
            let code = jit.load(object, names)?;
            timing.link = clock.lap();
            Ok(Arc::new(Kernel { code, sites: unit.sites.take(), timing }))
        });
        self.compile_nanos.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        kernel
    }

    /// Emits and optimises a part; `then` gets the module and the names of its entry points.
    fn emit<T>(
        &self,
        part: Part<'_>,
        prefix: &str,
        then: impl FnOnce(&Unit<'_>, &inkwell::targets::TargetMachine, &[String], Timing) -> Result<T, CompileError>,
    ) -> Result<T, CompileError> {
        let mut clock = CpuClock::start();
        let mut options = self.options.clone();
        let mut selection = self.options.clone();
        if let (Part::Ends, Some(stream)) = (part, &self.stream)
            && !stream.ends_loop()
        {
            // Runs once: not worth what the expensive passes cost, nor careful instruction selection, which takes ten
            // times as long as the fast one.
            options.level = options.level.min(OptLevel::O1);
            selection.level = OptLevel::O0;
        }
        options.level = options.level.min(self.affordable);
        selection.level = selection.level.min(options.level);
        let machine = target::machine(&selection)?;
        let ll = inkwell::context::Context::create();
        let mut unit = Unit::new(&ll, "weld", target::can_compress(&self.options));
        unit.demands.clone_from(&self.demands);
        unit.cudfs.clone_from(&self.options.cudfs);
        let name = |name: &str| format!("{prefix}{name}");
        let stream = || self.stream.as_ref().ok_or_else(|| crate::emit::internal("a program without a stream"));
        let names = match part {
            Part::Whole => {
                unit.parallel = self.threads.as_ref().map(|_| Parallel { grain: self.options.grain });
                program::emit_run(&unit, &name("run"), &self.program)?;
                vec![name("run")]
            }
            Part::Ends => {
                let stream = stream()?;
                program::emit_init(&unit, &name("init"), &self.program, stream)?;
                program::emit_finish(&unit, &name("finish"), &self.program, stream)?;
                program::emit_combine(&unit, &name("combine"), stream)?;
                vec![name("init"), name("finish"), name("combine")]
            }
            Part::Process(layouts) => {
                let stream = stream()?;
                let element = self.program.params[stream.param].ty.element().cloned();
                if !element.is_some_and(|element| stream.accepts(&element, layouts)) {
                    let what = format!("a stream in columns of the layouts {layouts:?}");
                    return Err(CompileError::unsupported(what, self.program.body.span));
                }
                program::emit_process(&unit, &name("process"), &self.program, stream, layouts)?;
                vec![name("process")]
            }
        };
        let mut timing = Timing::new(part.name(), options.level, selection.level);
        timing.emit = clock.lap();
        timing.emitted = Size::of(&unit.module);
        clock.lap();
        target::optimize(&unit.module, &machine, &options)?;
        timing.passes = clock.lap();
        timing.optimized = Size::of(&unit.module);
        then(&unit, &machine, &names, timing)
    }

    fn check_args(&self, args: &[Value], streams: bool) -> Result<FlatWords, RuntimeError> {
        let params: Vec<&Type> =
            self.program.params.iter().filter(|param| streams || !param.stream).map(|param| &param.ty).collect();
        if params.len() != args.len() {
            let plural = if params.len() == 1 { "" } else { "s" };
            let message = format!("the program takes {} argument{plural}, not {}", params.len(), args.len());
            return Err(self.misuse(message));
        }
        for (i, (ty, arg)) in params.iter().zip(args).enumerate() {
            if *ty != arg.ty() {
                return Err(self.misuse(format!("argument {} is a {}, not a {ty}", i + 1, arg.ty())));
            }
        }
        Ok(FlatWords::from_words(args.iter().flat_map(|arg| arg.words().iter().copied())))
    }

    fn misuse(&self, message: impl Into<String>) -> RuntimeError {
        RuntimeError::new(RuntimeErrorKind::Internal, self.program.body.span, message)
    }

    fn uncompiled(&self, error: CompileError) -> RuntimeError {
        let span = match &error {
            CompileError::Unsupported { span, .. } => *span,
            CompileError::Llvm(_) => Span::NONE,
        };
        RuntimeError::new(RuntimeErrorKind::Internal, span, error.to_string())
    }
}

/// Places of the entry points in a kernel of `Part::Ends`.
const INIT: usize = 0;
const FINISH: usize = 1;
const COMBINE: usize = 2;

impl Kernel {
    /// The error that a status stands for.
    fn check(&self, status: u32, run: &mut Run) -> Result<(), RuntimeError> {
        if status == 0 {
            return Ok(());
        }
        let failure = run.take_failure();
        let Some(site) = self.sites.get(status as usize - 1) else {
            return Err(RuntimeError::new(RuntimeErrorKind::Internal, Span::NONE, "an unknown status"));
        };
        let kind = |status: weld_runtime::Status| {
            RuntimeErrorKind::from_code(status.code()).unwrap_or(RuntimeErrorKind::Internal)
        };
        Err(match (site.status, failure) {
            (Some(status), _) => {
                let mut error = RuntimeError::of(kind(status), site.span, run.detail.map(|word| word as i64));
                if let Some(message) = site.message(run.detail) {
                    error.message = message;
                }
                error
            }
            (None, Some(failure)) => RuntimeError::new(kind(failure.status), site.span, failure.message),
            (None, None) => RuntimeError::new(RuntimeErrorKind::Internal, site.span, "a failure without a reason"),
        })
    }
}

/// The result of a run, kept alive by the run's memory, the code's constants, and the arguments.
fn finished(
    ty: &Type,
    out: FlatWords,
    run: Box<Run>,
    kernel: &Arc<Kernel>,
    more: Option<Vec<Arc<Kernel>>>,
    args: &[Value],
) -> Value {
    let mut owners: Vec<Arc<dyn Any + Send + Sync>> = Vec::new();
    if layout::has_pointers(ty) {
        owners.push(Arc::new(run));
        owners.push(kernel.clone());
        owners.extend(more.into_iter().flatten().map(|kernel| kernel as Arc<dyn Any + Send + Sync>));
        owners.extend(args.iter().flat_map(|arg| arg.owners().iter().cloned()));
    }
    // SAFETY: compiled code has stored a value of the type, which refers to nothing beyond the owners.
    unsafe { Value::from_flat(ty.clone(), out.into_words(), owners) }
}

/// Words in memory aligned as rows with 128-bit values may be.
struct FlatWords {
    storage: Vec<u128>,
    len: usize,
}

impl FlatWords {
    fn new(len: usize) -> FlatWords {
        FlatWords { storage: vec![0; len.div_ceil(2)], len }
    }

    fn from_words(words: impl Iterator<Item = u64>) -> FlatWords {
        let words: Vec<u64> = words.collect();
        let mut flat = FlatWords::new(words.len());
        // SAFETY: the storage has room for `len` words.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), flat.as_mut_ptr(), words.len()) };
        flat
    }

    fn as_ptr(&self) -> *const u64 {
        self.storage.as_ptr().cast()
    }

    fn as_mut_ptr(&mut self) -> *mut u64 {
        self.storage.as_mut_ptr().cast()
    }

    fn into_words(self) -> Vec<u64> {
        // SAFETY: the storage has room for `len` words, all initialised.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len).to_vec() }
    }
}

/// One partition's run of a program with a stream.
pub struct Stream {
    compiled: Arc<Compiled>,
    ends: Arc<Kernel>,
    /// The variant of the last chunk.
    variant: Option<(Vec<ColumnLayout>, Arc<Kernel>)>,
    /// Variants that have run: constants of theirs may be in the state.
    used: Vec<Arc<Kernel>>,
    args: Vec<Value>,
    words: FlatWords,
    run: Box<Run>,
    state: FlatWords,
    /// After an error the state is not to be touched any more.
    failed: Option<RuntimeError>,
}

impl Stream {
    /// Runs the loop over a chunk. The layouts may differ from chunk to chunk: each combination is compiled once.
    ///
    /// Strings that the stream's builders keep are copied, except in [`Stream::rows`].
    pub fn process(&mut self, chunk: &Chunk<'_>) -> Result<(), RuntimeError> {
        self.check_state()?;
        let kernel = self.variant(chunk)?;
        let columns: Vec<ColumnAbi> = chunk.columns.iter().map(|column| column.abi).collect();
        type Entry = unsafe extern "C" fn(*mut Run, *const u64, *mut u64, u64, *const ColumnAbi) -> u32;
        // SAFETY: `process` was emitted with this signature for these layouts; the columns are valid for their rows.
        let status = unsafe {
            let entry: Entry = std::mem::transmute(kernel.code.address(0));
            let rows = chunk.rows as u64;
            entry(&mut *self.run, self.words.as_ptr(), self.state.as_mut_ptr(), rows, columns.as_ptr())
        };
        let result = kernel.check(status, &mut self.run);
        self.note(result)
    }

    fn variant(&mut self, chunk: &Chunk<'_>) -> Result<Arc<Kernel>, RuntimeError> {
        if let Some((layouts, kernel)) = &self.variant
            && layouts.iter().eq(chunk.columns.iter().map(|column| column.layout()))
        {
            return Ok(kernel.clone());
        }
        let layouts = chunk.layouts();
        let kernel = self.compiled.variant(&layouts).map_err(|error| self.compiled.uncompiled(error))?;
        if !self.used.iter().any(|used| Arc::ptr_eq(used, &kernel)) {
            self.used.push(kernel.clone());
        }
        self.variant = Some((layouts, kernel.clone()));
        Ok(kernel)
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

    /// Rows appended since the last call, for a program whose body is `result` of an appender loop over the stream.
    /// `None` for other programs. Long strings point into the chunks since then, or into arguments.
    pub fn rows(&mut self) -> Option<Rows> {
        let compiled = self.compiled.clone();
        let (element, offset) = compiled.stream.as_ref()?.rows()?;
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
            state.write(0);
            state.add(1).write(0);
            for column in 0..columns {
                let slot = state.add(2 + column);
                let block = slot.read() as *mut u8;
                slot.write(0);
                words.push(block as u64);
                if !block.is_null() {
                    let block: Block = self.run.detach(block);
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
        let Stream { run, mut state, used, .. } = other;
        // What the other built stays alive with this run, before this one's builders refer to it.
        if !self.run.adopt(run) {
            let message = self.run.take_failure().map_or_else(String::new, |failure| failure.message);
            let span = self.compiled.program.body.span;
            return self.note(Err(RuntimeError::new(RuntimeErrorKind::OutOfMemory, span, message)));
        }
        for kernel in used {
            if !self.used.iter().any(|mine| Arc::ptr_eq(mine, &kernel)) {
                self.used.push(kernel);
            }
        }
        type Entry = unsafe extern "C" fn(*mut Run, *const u64, *mut u64, *mut u64) -> u32;
        // SAFETY: `combine` was emitted with this signature; both states were made by `init` of the same kernel.
        let status = unsafe {
            let entry: Entry = std::mem::transmute(self.ends.code.address(COMBINE));
            entry(&mut *self.run, self.words.as_ptr(), self.state.as_mut_ptr(), state.as_mut_ptr())
        };
        let result = self.ends.check(status, &mut self.run);
        self.note(result)
    }

    /// Evaluates what stands after the loop.
    pub fn finish(mut self) -> Result<Value, RuntimeError> {
        self.check_state()?;
        let ty = &self.compiled.program.body.ty;
        let mut out = FlatWords::new(layout::flat_words(ty));
        type Entry = unsafe extern "C" fn(*mut Run, *const u64, *mut u64, *mut u64) -> u32;
        // SAFETY: `finish` was emitted with this signature; the result has the words of its type.
        let status = unsafe {
            let entry: Entry = std::mem::transmute(self.ends.code.address(FINISH));
            entry(&mut *self.run, self.words.as_ptr(), self.state.as_mut_ptr(), out.as_mut_ptr())
        };
        // The result may keep the run for long, but not the threads.
        self.run.set_threads(None);
        self.ends.check(status, &mut self.run)?;
        Ok(finished(ty, out, self.run, &self.ends, Some(self.used), &self.args))
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("options", &self.options).finish_non_exhaustive()
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
