//! A compiled program and its runs.
//!
//! ```text
//! variants   which code there is, by effort and by layouts       kernel   one part of the program as loaded code
//! stream     one partition's run                                 flat     values on their way in and out
//! loops      how the loops run, as text                          stored   code that is kept on disk
//! ```

mod flat;
mod kernel;
mod loops;
mod stored;
mod stream;
mod variants;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use weld_core::diag::Span;
use weld_core::ir::{Known, Param, Program};
use weld_core::op::fits_64_bits;
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_runtime::{Context, Run, StringView, Threads};

pub(crate) use self::kernel::Kernel;
pub use self::loops::loop_plans;
pub use self::stream::{Rows, Stream};

use self::flat::{FlatWords, finished};
use self::kernel::Part;
use self::stored::Kept;
use crate::analysis::{Demand, demands};
use crate::block::Unit;
use crate::chunk::ColumnLayout;
use crate::error::CompileError;
use crate::layout;
use crate::options::{OptLevel, Options};
use crate::program::{self, StreamProgram};
use crate::store::{self, Keep};
use crate::target;
use crate::tier::{Progress, Slot, Tier, Tiered, Tiers};
use crate::timing::Timing;
use crate::value::Value;

/// What a node of a program takes, with what emission knows of it: the tree is there twice.
const NODE_BYTES: usize = 512;

/// Native code of a program; freed when dropped.
pub struct Compiled {
    program: Program,
    /// Of the program.
    nodes: usize,
    options: Options,
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
    /// Where its code is kept on disk, if it is.
    kept: Option<Kept>,
    compile_nanos: AtomicU64,
}

/// Compiles a program, which the optimizer is done with. What is not supported shows here, except for column layouts,
/// which come with the first chunk or with [`Compiled::prepare`]. With [`Tiers::CheapFirst`] a program with a stream is
/// not compiled before [`Compiled::prepare`] or [`Compiled::prepare_ends`], where what is not supported shows.
pub fn compile(program: &Program, options: &Options) -> Result<Arc<Compiled>, CompileError> {
    compile_keeping(program, options, None)
}

/// The same, with a place on disk for the code of a program with a stream.
pub fn compile_keeping(
    program: &Program,
    options: &Options,
    keep: Option<Keep>,
) -> Result<Arc<Compiled>, CompileError> {
    let compiled = Compiled::new(program, options, keep)?;
    match (&compiled.stream, options.tiers) {
        (Some(_), Tiers::Single) => compiled.ends().map(drop)?,
        (Some(_), Tiers::CheapFirst | Tiers::Alternate) => {}
        (None, _) => compiled.whole().map(drop)?,
    }
    Ok(Arc::new(compiled))
}

/// The level at which LLVM is done in less than a second: with so many nodes in all, of which so many are in no part.
/// What is cut takes 0.15 ms a node at O2, 0.09 at O1, 0.01 at O0; for one function the time grows with the square of
/// its size (500 small loops, 7,000 nodes: 15 s at O2, 6 s at O1, 0.6 s at O0). Queries have a few hundred nodes.
fn affordable(nodes: usize, uncut: usize) -> OptLevel {
    match (nodes, uncut) {
        (0..=5_000, 0..=3_000) => OptLevel::O2,
        (0..=10_000, 0..=5_000) => OptLevel::O1,
        _ => OptLevel::O0,
    }
}

impl Compiled {
    /// A program of which nothing is compiled yet.
    fn new(program: &Program, options: &Options, keep: Option<Keep>) -> Result<Compiled, CompileError> {
        let started = Instant::now();
        let stream = program::split(program)?;
        let nodes = program.body.size();
        let kept = keep.zip(stream.as_ref()).and_then(|(keep, stream)| {
            let description = store::describe(program, stream, options)?;
            Some(Kept { keep, description })
        });
        Ok(Compiled {
            nodes,
            demands: demands(&program.body),
            program: program.clone(),
            options: options.clone(),
            stream,
            threads: (options.threads > 1).then(|| Threads::shared(options.threads)),
            whole: OnceLock::new(),
            ends: Tiered::default(),
            variants: Mutex::default(),
            progress: Progress::default(),
            kept,
            compile_nanos: AtomicU64::new(started.elapsed().as_nanos() as u64),
        })
    }

    /// The program that the code was made of.
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

    /// Whether a stream gives its rows as they come: see [`Stream::rows`].
    pub fn streams_rows(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.rows().is_some())
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

/// Whether a value in flat form is what is known of it.
fn holds(known: Known, words: &[u64]) -> bool {
    match (known, words) {
        (Known::Short, [low, high]) => fits_64_bits(i128::from(*high as i64) << 64 | i128::from(*low)),
        (Known::Bytes(len), [found, _]) => *found == u64::from(len),
        (Known::LongBytes, [found, _]) => (StringView::INLINE_MAX as u64 + 1..=u32::MAX.into()).contains(found),
        _ => false,
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled").field("options", &self.options).finish_non_exhaustive()
    }
}
