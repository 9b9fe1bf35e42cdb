//! A compiled program and its runs.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use weld_core::diag::Span;
use weld_core::ir::{Known, Literal, Param, Program, build};
use weld_core::ty::{ScalarKind, Type};
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_runtime::{Block, ColumnAbi, Context, Run, Threads};

use crate::block::{Site, Unit, internal};
use crate::chunk::{Chunk, ColumnLayout};
use crate::emit::stream::nullable;
use crate::emit::{Demand, Facts, Parallel, Reuse, demands};
use crate::error::CompileError;
use crate::jit::{Code, Jit};
use crate::layout;
use crate::options::{OptLevel, Options};
use crate::program::{self, StreamProgram};
use crate::target;
use crate::tier::{Progress, Slot, Tier, Tiered, Tiers};
use crate::timing::{CpuClock, Size, Timing};
use crate::value::{ColumnView, Value};

/// What a node of a program takes, with what emission knows of it: the tree is there twice.
const NODE_BYTES: usize = 512;

/// Native code of a program; freed when dropped.
pub struct Compiled {
    program: Program,
    /// Of the program.
    nodes: usize,
    options: Options,
    /// The highest level worth its time.
    affordable: OptLevel,
    demands: HashMap<weld_core::ir::Sym, Demand>,
    stream: Option<StreamProgram>,
    /// What the parallel loops of `run` use, if there may be any.
    threads: Option<Arc<Threads>>,
    /// `run`, compiled at once for a program without a stream.
    whole: Slot,
    /// `init`, `finish` and `combine`.
    ends: Tiered,
    /// `process`, for each combination of layouts.
    variants: Mutex<HashMap<Vec<ColumnLayout>, Arc<Tiered>>>,
    /// Of runs on cheap code.
    progress: Progress,
    compile_nanos: AtomicU64,
}

/// Loaded code and the places where it can trap.
pub(crate) struct Kernel {
    code: Code,
    sites: Vec<Site>,
    tier: Tier,
    /// Where `process` is among the functions, if it is.
    process: usize,
    timing: Timing,
    bytes: usize,
}

/// What a kernel is made of.
#[derive(Clone, Copy)]
enum Part<'a> {
    Whole,
    Ends,
    Process(&'a [ColumnLayout]),
    /// The ends and `process` in one: what LLVM does once for every module is a third of making cheap code.
    All(&'a [ColumnLayout]),
}

impl Part<'_> {
    fn name(self) -> &'static str {
        match self {
            Part::Whole => "run",
            Part::Ends => "init, finish, combine",
            Part::Process(_) => "process",
            Part::All(_) => "init, finish, combine, process",
        }
    }
}

/// Compiles a program, which the optimizer is done with. What is not supported shows here, except for column layouts,
/// which come with the first chunk or with [`Compiled::prepare`]. With [`Tiers::CheapFirst`] a program with a stream is
/// not compiled before [`Compiled::prepare`] or [`Compiled::prepare_ends`], where what is not supported shows.
pub fn compile(program: &Program, options: &Options) -> Result<Arc<Compiled>, CompileError> {
    let started = Instant::now();
    let stream = program::split(program)?;
    let nodes = program.body.size();
    let compiled = Compiled {
        nodes,
        affordable: affordable(nodes),
        demands: demands(&program.body),
        program: program.clone(),
        options: options.clone(),
        stream,
        threads: (options.threads > 1).then(|| Threads::shared(options.threads)),
        whole: OnceLock::new(),
        ends: Tiered::default(),
        variants: Mutex::default(),
        progress: Progress::default(),
        compile_nanos: AtomicU64::new(started.elapsed().as_nanos() as u64),
    };
    match (&compiled.stream, options.tiers) {
        (Some(_), Tiers::Single) => compiled.ends().map(drop)?,
        (Some(_), Tiers::CheapFirst | Tiers::Alternate) => {}
        (None, _) => compiled.whole().map(drop)?,
    }
    Ok(Arc::new(compiled))
}

/// The level that a program of this size can have: the time that LLVM's passes take grows faster than the program (500
/// small loops, 7,000 expressions: 15 s at O2, 6 s at O1, 0.6 s at O0). Queries have a few hundred expressions.
fn affordable(nodes: usize) -> OptLevel {
    match nodes {
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
        self.kernels().into_iter().map(|kernel| kernel.timing.clone()).collect()
    }

    /// About the memory that the program and its code take so far.
    pub fn bytes(&self) -> usize {
        let code: usize = self.kernels().iter().map(|kernel| kernel.bytes).sum();
        self.nodes * NODE_BYTES + code
    }

    /// Everything that was compiled so far.
    fn kernels(&self) -> Vec<Arc<Kernel>> {
        let variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kernels: Vec<Arc<Kernel>> = self.whole.get().into_iter().flatten().cloned().collect();
        kernels.extend(self.ends.kernels().cloned());
        for kernel in variants.values().flat_map(|variant| variant.kernels()) {
            // Cheap code of the ends and of the loop may be one.
            if !kernels.iter().any(|known| Arc::ptr_eq(known, kernel)) {
                kernels.push(kernel.clone());
            }
        }
        kernels
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

    /// Whether a stream gives its rows as they come: see [`Stream::rows`].
    pub fn streams_rows(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.rows().is_some())
    }

    /// Compiles the loop over the stream for chunks of these layouts, ahead of their arrival.
    pub fn prepare(&self, layouts: &[ColumnLayout]) -> Result<(), CompileError> {
        let variant = self.variant(layouts);
        if self.options.tiers == Tiers::Single {
            return self.full(&variant, layouts).map(drop);
        }
        if variant.improved().is_none() {
            self.cheap(&variant, layouts)?;
        }
        self.prepare_ends()
    }

    /// Whether the loop over the stream is compiled for chunks of these layouts.
    pub fn is_prepared(&self, layouts: &[ColumnLayout]) -> bool {
        let variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        variants.get(layouts).is_some_and(|variant| variant.kernels().next().is_some())
    }

    /// Compiles what does not depend on layouts.
    pub fn prepare_ends(&self) -> Result<(), CompileError> {
        self.ends().map(drop)
    }

    /// Whether optimised code would repay what it takes to make, if so many rows are still to come: only then is it worth
    /// calling [`Compiled::improve`], and only for the one caller who is told so.
    pub fn improvement_pays(&self, rows_left: Option<u64>) -> bool {
        self.options.tiers == Tiers::CheapFirst
            && self.progress.repays(self.cheap_time(), rows_left)
            && self.claim_improvement()
    }

    /// The same for code that comes again, and will more often.
    pub fn improvement_pays_when_it_returns(&self) -> bool {
        self.progress.repays_when_it_returns(self.cheap_time()) && self.claim_improvement()
    }

    /// Whether there is cheap code to improve and the caller is the one to do it.
    pub fn claim_improvement(&self) -> bool {
        !self.lacking().is_empty() && self.progress.claim()
    }

    /// The variants with cheap code that runs have used, all of them if none has been used yet.
    fn lacking(&self) -> Vec<(Vec<ColumnLayout>, Arc<Tiered>)> {
        let variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let is_used = |variant: &Tiered| variant.used.load(Ordering::Relaxed);
        let any_used = variants.values().any(|variant| is_used(variant));
        let lacking = variants.iter().filter(|(_, variant)| variant.lacks_full() && (!any_used || is_used(variant)));
        lacking.map(|(layouts, variant)| (layouts.clone(), Arc::clone(variant))).collect()
    }

    /// Makes optimised code of all that has cheap code: runs go over to it with their next chunk. After an error they
    /// stay on cheap code, and nobody is asked to try again.
    pub fn improve(&self) -> Result<(), CompileError> {
        for (layouts, variant) in self.lacking() {
            self.full(&variant, &layouts)?;
            if variant.is_mostly_plain() {
                self.add_plain(&layouts)?;
            }
        }
        if self.ends.lacks_full() {
            self.ends.full.get_or_init(|| self.build(Part::Ends, Tier::Full)).clone()?;
        }
        self.progress.reset();
        Ok(())
    }

    /// Makes optimised code for chunks of these layouts without any nulls, which another variant has served so far.
    fn add_plain(&self, layouts: &[ColumnLayout]) -> Result<(), CompileError> {
        let plain = layouts.iter().map(|column| ColumnLayout { layout: column.layout.clone(), validity: false });
        let plain: Vec<ColumnLayout> = plain.collect();
        if !self.has_variant(&plain) {
            // Nobody finds the variant before it has its code.
            let kernel = self.build(Part::Process(&plain), Tier::Full)?;
            let _ = self.variant(&plain).full.set(Ok(kernel));
        }
        Ok(())
    }

    fn has_variant(&self, layouts: &[ColumnLayout]) -> bool {
        self.variants.lock().unwrap_or_else(PoisonError::into_inner).contains_key(layouts)
    }

    /// What the cheap code took to make that has no better yet.
    fn cheap_time(&self) -> Duration {
        let kernels = self.lacking().into_iter().filter_map(|(_, variant)| variant.cheap.get()?.as_ref().ok().cloned());
        kernels.map(|kernel| kernel.timing.total()).sum()
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
        parts.extend(self.ends.kernels().next().map(|_| Part::Ends));
        parts.extend(layouts.iter().map(|layouts| Part::Process(layouts)));
        let mut text = String::new();
        for part in parts {
            let shown = self.emit(part, Tier::Full, "", |unit, machine, _, _| show(unit, machine));
            text.push_str(&shown.unwrap_or_else(|error| format!("; {error}\n")));
        }
        text
    }

    fn whole(&self) -> Result<Arc<Kernel>, CompileError> {
        self.whole.get_or_init(|| self.build(Part::Whole, Tier::Full)).clone()
    }

    /// The best code that there is.
    fn ends(&self) -> Result<Arc<Kernel>, CompileError> {
        if let Some(kernel) = self.ends.improved() {
            return Ok(kernel.clone());
        }
        match self.options.tiers {
            Tiers::CheapFirst => self.ends.cheap.get_or_init(|| self.build(Part::Ends, Tier::Cheap)).clone(),
            Tiers::Single | Tiers::Alternate => {
                self.ends.full.get_or_init(|| self.build(Part::Ends, Tier::Full)).clone()
            }
        }
    }

    fn variant(&self, layouts: &[ColumnLayout]) -> Arc<Tiered> {
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        // Compile without the lock, so that other partitions go on with what is there.
        match variants.get(layouts) {
            Some(variant) => variant.clone(),
            None => variants.entry(layouts.to_vec()).or_default().clone(),
        }
    }

    /// The variant that reads chunks of these layouts, and the layouts that it is made for: they have a validity where the
    /// chunk's have one, and perhaps where those have none.
    ///
    /// Which columns have nulls differs from chunk to chunk, and there are more combinations than can be compiled. So
    /// there are three variants at most of columns that differ in nothing but that: one for the first combination that comes
    /// or is expected, for what that does not cover one where every column that may have nulls has a validity, and one
    /// without any. That comes first where nulls are not expected; otherwise it is made of optimised code, if most rows
    /// turn out to be in chunks without nulls.
    fn variant_for(&self, layouts: &[ColumnLayout]) -> (Vec<ColumnLayout>, Arc<Tiered>) {
        let mut variants = self.variants.lock().unwrap_or_else(PoisonError::into_inner);
        let covers = |known: &[ColumnLayout]| {
            let covers = |(known, here): (&ColumnLayout, &ColumnLayout)| {
                known.layout == here.layout && (known.validity || !here.validity)
            };
            known.len() == layouts.len() && known.iter().zip(layouts).all(covers)
        };
        let alike = |known: &[ColumnLayout]| {
            known.len() == layouts.len() && known.iter().zip(layouts).all(|(a, b)| a.layout == b.layout)
        };
        let validities = |known: &&Vec<ColumnLayout>| known.iter().filter(|column| column.validity).count();
        let chosen = match variants.keys().filter(|known| covers(known)).min_by_key(validities) {
            Some(known) => known.clone(),
            None if variants.keys().any(|known| has_nulls(known) && alike(known)) => self.with_all_validities(layouts),
            None => layouts.to_vec(),
        };
        let variant = variants.entry(chosen.clone()).or_default().clone();
        (chosen, variant)
    }

    /// The layouts with a validity wherever the type of the column allows nulls.
    fn with_all_validities(&self, layouts: &[ColumnLayout]) -> Vec<ColumnLayout> {
        let may_be_null = self.nullable_columns();
        let general = |(at, column): (usize, &ColumnLayout)| {
            let validity = column.validity || may_be_null.get(at).copied().unwrap_or(false);
            ColumnLayout { layout: column.layout.clone(), validity }
        };
        layouts.iter().enumerate().map(general).collect()
    }

    /// For each column of the stream whether its type allows nulls.
    fn nullable_columns(&self) -> Vec<bool> {
        let param = self.stream.as_ref().map(|stream| &self.program.params[stream.param].ty);
        match param.and_then(|ty| ty.element()) {
            Some(Type::Struct(fields)) => fields.iter().map(|field| nullable(field).is_some()).collect(),
            Some(other) => vec![nullable(other).is_some()],
            None => Vec::new(),
        }
    }

    /// How many variants of the loop over the stream there are: see [`Compiled::prepare`].
    pub fn variants(&self) -> usize {
        self.variants.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn full(&self, variant: &Tiered, layouts: &[ColumnLayout]) -> Result<Arc<Kernel>, CompileError> {
        variant.full.get_or_init(|| self.build(Part::Process(layouts), Tier::Full)).clone()
    }

    fn cheap(&self, variant: &Tiered, layouts: &[ColumnLayout]) -> Result<Arc<Kernel>, CompileError> {
        let build = || {
            if self.ends.kernels().next().is_some() {
                return self.build(Part::Process(layouts), Tier::Cheap);
            }
            let kernel = self.build(Part::All(layouts), Tier::Cheap)?;
            // Somebody may have been faster.
            let _ = self.ends.cheap.set(Ok(kernel.clone()));
            Ok(kernel)
        };
        variant.cheap.get_or_init(build).clone()
    }

    /// Code for a chunk, whose number in its run decides when tiers alternate.
    fn code_for(&self, variant: &Tiered, layouts: &[ColumnLayout], chunk: u64) -> Result<Arc<Kernel>, CompileError> {
        match self.options.tiers {
            Tiers::Single => self.full(variant, layouts),
            Tiers::Alternate if chunk % 2 == 1 => self.full(variant, layouts),
            Tiers::Alternate => self.cheap(variant, layouts),
            Tiers::CheapFirst => match variant.improved() {
                Some(kernel) => Ok(kernel.clone()),
                None => self.cheap(variant, layouts),
            },
        }
    }

    fn build(&self, part: Part<'_>, tier: Tier) -> Result<Arc<Kernel>, CompileError> {
        let started = Instant::now();
        crate::sanitizer::check(&self.options)?;
        let jit = Jit::shared()?;
        let prefix = jit.fresh_prefix();
        let kernel = self.emit(part, tier, &prefix, |unit, machine, names, mut timing| {
            let mut clock = CpuClock::start();
            let object = target::object(&unit.module, machine)?;
            timing.select = clock.lap();
            let bytes = object.as_slice().len();
            let code = jit.load(object, names)?;
            timing.link = clock.lap();
            let process = if matches!(part, Part::All(_)) { PROCESS } else { 0 };
            Ok(Arc::new(Kernel { code, sites: unit.sites.take(), tier, process, timing, bytes }))
        });
        self.compile_nanos.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        kernel
    }

    /// Emits and optimises a part; `then` gets the module and the names of its entry points.
    fn emit<T>(
        &self,
        part: Part<'_>,
        tier: Tier,
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
        if tier == Tier::Cheap {
            options.level = OptLevel::O0;
        }
        options.level = options.level.min(self.affordable);
        selection.level = selection.level.min(options.level);
        let jit = Jit::shared()?;
        let machine = jit.generators.take(&selection)?;
        let ll = inkwell::context::Context::create();
        let mut unit = Unit::new(&ll, "weld", target::can_compress(&self.options));
        unit.is_shared = matches!(part, Part::Whole) && self.threads.is_some();
        let facts = self.facts();
        let name = |name: &str| format!("{prefix}{name}");
        let names = match part {
            Part::Whole => {
                program::emit_run(&unit, &facts, &name("run"), &self.program)?;
                vec![name("run")]
            }
            Part::Ends => self.emit_ends(&unit, &facts, &name)?.to_vec(),
            Part::Process(layouts) => vec![self.emit_process(&unit, &facts, &name, layouts)?],
            Part::All(layouts) => {
                let mut names = self.emit_ends(&unit, &facts, &name)?.to_vec();
                names.push(self.emit_process(&unit, &facts, &name, layouts)?);
                names
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

    fn facts(&self) -> Facts {
        Facts {
            demands: self.demands.clone(),
            reuse: Reuse::of(&self.program),
            cudfs: self.options.cudfs.clone(),
            parallel: self.threads.as_ref().map(|_| Parallel { grain: self.options.grain }),
        }
    }

    fn emit_ends(
        &self,
        unit: &Unit<'_>,
        facts: &Facts,
        name: &dyn Fn(&str) -> String,
    ) -> Result<[String; 3], CompileError> {
        let stream = self.shape()?;
        program::emit_init(unit, facts, &name("init"), &self.program, stream)?;
        program::emit_finish(unit, facts, &name("finish"), &self.program, stream)?;
        program::emit_combine(unit, facts, &name("combine"), stream)?;
        Ok([name("init"), name("finish"), name("combine")])
    }

    fn emit_process(
        &self,
        unit: &Unit<'_>,
        facts: &Facts,
        name: &dyn Fn(&str) -> String,
        layouts: &[ColumnLayout],
    ) -> Result<String, CompileError> {
        let stream = self.shape()?;
        let element = self.program.params[stream.param].ty.element().cloned();
        if !element.is_some_and(|element| stream.accepts(&element, layouts)) {
            let what = format!("a stream in columns of the layouts {layouts:?}");
            return Err(CompileError::unsupported(what, self.program.body.span));
        }
        program::emit_process(unit, facts, &name("process"), &self.program, stream, layouts)?;
        Ok(name("process"))
    }

    fn shape(&self) -> Result<&StreamProgram, CompileError> {
        self.stream.as_ref().ok_or_else(|| internal("a program without a stream"))
    }

    fn check_args(&self, args: &[Value], streams: bool) -> Result<FlatWords, RuntimeError> {
        let params: Vec<&Param> = self.program.params.iter().filter(|param| streams || !param.stream).collect();
        if params.len() != args.len() {
            let plural = if params.len() == 1 { "" } else { "s" };
            let message = format!("the program takes {} argument{plural}, not {}", params.len(), args.len());
            return Err(self.misuse(message));
        }
        for (i, (param, arg)) in params.iter().zip(args).enumerate() {
            let ty = &param.ty;
            if ty != arg.ty() {
                return Err(self.misuse(format!("argument {} is a {}, not a {ty}", i + 1, arg.ty())));
            }
            if param.known.is_some_and(|known| !holds(known, arg.words())) {
                return Err(self.misuse(format!("argument {} is not what is known of it", i + 1)));
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

/// Whether columns of these layouts have nulls.
fn has_nulls(layouts: &[ColumnLayout]) -> bool {
    layouts.iter().any(|column| column.validity)
}

/// Whether a value in flat form is what is known of it.
fn holds(known: Known, words: &[u64]) -> bool {
    match (known, words) {
        (Known::Short, [low, high]) => *high == (*low as i64 >> 63) as u64,
        (Known::Bytes(len), [found, _]) => *found == u64::from(len),
        _ => false,
    }
}

/// The message of an assertion with the values that the run has noted.
fn message_of(site: &Site, details: [u64; 2]) -> Option<String> {
    let literal = |(kind, word): (&ScalarKind, u64)| match kind {
        ScalarKind::F32 => Literal::F32(f32::from_bits(word as u32)),
        ScalarKind::F64 => Literal::F64(f64::from_bits(word)),
        ScalarKind::I128 => Literal::I128(i128::from(details[1] as i64) << 64 | i128::from(word)),
        _ => build::literal(*kind, word.into()),
    };
    let values: Vec<Literal> = site.shown.iter().zip(details).map(literal).collect();
    site.message.as_ref().map(|message| weld_core::filled(message, &values))
}

/// Places of the entry points in a kernel of `Part::Ends` or `Part::All`.
const INIT: usize = 0;
const FINISH: usize = 1;
const COMBINE: usize = 2;
const PROCESS: usize = 3;

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
                if let Some(message) = message_of(site, run.detail) {
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

impl Stream {
    /// Runs the loop over a chunk. The layouts may differ from chunk to chunk: each combination is compiled once, and of
    /// those that differ only in which columns have nulls not more than three.
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
                // The bitmap is not moved before the next chunk: it is as long as this one needs from the first column on.
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

    /// Rows appended since the last call, for a program whose body is `result` of an appender loop over the stream.
    /// `None` for other programs. Long strings point into the chunks since then, or into arguments. The run's pool does not
    /// count them any more.
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
        // SAFETY: `combine` was emitted with this signature; both states were made by `init` of the same program, and all
        // code of a program has one layout of the state.
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
