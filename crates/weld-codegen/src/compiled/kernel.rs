//! One part of a program as loaded code: emission, LLVM's passes, instruction selection, linking.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weld_core::diag::Span;
use weld_core::ir::{Expr, Literal, build};
use weld_core::opt::known_lengths;
use weld_core::ty::ScalarKind;
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_runtime::Run;

use super::Compiled;
use crate::analysis::{Parts, Reuse};
use crate::block::{Site, Unit, internal};
use crate::chunk::ColumnLayout;
use crate::emit::{Facts, Parallel};
use crate::error::CompileError;
use crate::jit::{Code, Jit};
use crate::options::{OptLevel, Options};
use crate::program::{self, StreamProgram};
use crate::target;
use crate::tier::Tier;
use crate::timing::{CpuClock, Size, Timing};

/// Loaded code and the places where it can trap.
pub(crate) struct Kernel {
    pub(super) code: Code,
    pub(super) sites: Vec<Site>,
    pub(super) tier: Tier,
    /// Where `process` is among the functions, if it is.
    pub(super) process: usize,
    pub(super) timing: Timing,
    /// What it took to make, perhaps in another process.
    pub(super) cost: Duration,
    pub(super) bytes: usize,
}

/// What a kernel is made of.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    Whole,
    Ends,
    Process(&'a [ColumnLayout]),
    /// The ends and `process` in one: what LLVM does once for every module is a third of making cheap code.
    All(&'a [ColumnLayout]),
}

impl Part<'_> {
    /// The names of the functions, which begin with a prefix of the kernel.
    pub(super) fn functions(self, prefix: &str) -> Vec<String> {
        let names: &[&str] = match self {
            Part::Whole => &["run"],
            Part::Ends => &["init", "finish", "combine"],
            Part::Process(_) => &["process"],
            Part::All(_) => &["init", "finish", "combine", "process"],
        };
        names.iter().map(|name| format!("{prefix}{name}")).collect()
    }

    /// Where `process` is among the functions, if it is.
    pub(super) fn process(self) -> usize {
        if matches!(self, Part::All(_)) { PROCESS } else { 0 }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Part::Whole => "run",
            Part::Ends => "init, finish, combine",
            Part::Process(_) => "process",
            Part::All(_) => "init, finish, combine, process",
        }
    }
}

/// Places of the entry points in a kernel of `Part::Ends` or `Part::All`.
pub(super) const INIT: usize = 0;
pub(super) const FINISH: usize = 1;
pub(super) const COMBINE: usize = 2;
const PROCESS: usize = 3;

impl Compiled {
    /// Code of a part: from disk if it is there, else made anew.
    pub(super) fn build(&self, part: Part<'_>, tier: Tier) -> Result<Arc<Kernel>, CompileError> {
        if let Some(kernel) = self.stored(part, tier) {
            return Ok(kernel);
        }
        let started = Instant::now();
        crate::sanitizer::check(&self.options)?;
        let jit = Jit::shared()?;
        let prefix = jit.fresh_prefix();
        let kernel = self.emit(part, tier, &prefix, |unit, machine, names, mut timing| {
            let mut clock = CpuClock::start();
            let object = target::object(&unit.module, machine)?;
            timing.select = clock.lap();
            let sites = unit.sites.take();
            self.keep(part, tier, &prefix, &timing, &sites, object.as_slice());
            let bytes = object.as_slice().len();
            clock.lap();
            let code = jit.load(object, names)?;
            timing.link = clock.lap();
            let cost = timing.total();
            Ok(Arc::new(Kernel { code, sites, tier, process: part.process(), timing, cost, bytes }))
        });
        self.note_time(started);
        kernel
    }

    /// Notes that something was compiled since then.
    pub(super) fn note_time(&self, started: Instant) {
        self.compile_nanos.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// The effort of LLVM's passes, and of instruction selection.
    pub(super) fn levels(&self, part: Part<'_>, tier: Tier) -> (OptLevel, OptLevel) {
        let (mut passes, mut selection) = (self.options.level, self.options.level);
        if let (Part::Ends, Some(stream)) = (part, &self.stream)
            && !stream.ends_loop()
        {
            // Runs once: not worth what the expensive passes cost, nor careful instruction selection, which takes ten
            // times as long as the fast one.
            passes = passes.min(OptLevel::O1);
            selection = OptLevel::O0;
        }
        if tier == Tier::Cheap {
            passes = OptLevel::O0;
        }
        passes = passes.min(super::affordable(self.nodes, self.parts().uncut));
        (passes, selection.min(passes))
    }

    /// Emits and optimises a part; `then` gets the module and the names of its entry points.
    pub(super) fn emit<T>(
        &self,
        part: Part<'_>,
        tier: Tier,
        prefix: &str,
        then: impl FnOnce(&Unit<'_>, &inkwell::targets::TargetMachine, &[String], Timing) -> Result<T, CompileError>,
    ) -> Result<T, CompileError> {
        let mut clock = CpuClock::start();
        let (passes, selection) = self.levels(part, tier);
        let options = Options { level: passes, ..self.options.clone() };
        let selection = Options { level: selection, ..self.options.clone() };
        let jit = Jit::shared()?;
        let machine = jit.generators.take(&selection)?;
        let ll = inkwell::context::Context::create();
        let mut unit = Unit::new(&ll, "weld", target::machine_of(self.options.cpu));
        self.fill(&mut unit, part, prefix)?;
        let mut timing = Timing::new(part.name(), options.level, selection.level);
        timing.emit = clock.lap();
        timing.emitted = Size::of(&unit.module);
        clock.lap();
        target::optimize(&unit.module, &machine, &options)?;
        timing.passes = clock.lap();
        timing.optimized = Size::of(&unit.module);
        then(&unit, &machine, &part.functions(prefix), timing)
    }

    /// Emits the functions of a part.
    pub(super) fn fill(&self, unit: &mut Unit<'_>, part: Part<'_>, prefix: &str) -> Result<(), CompileError> {
        unit.is_shared = matches!(part, Part::Whole) && self.threads.is_some();
        let facts = self.facts();
        let name = |name: &str| format!("{prefix}{name}");
        match part {
            Part::Whole => program::emit_run(unit, &facts, &name("run"), &self.program),
            Part::Ends => self.emit_ends(unit, &facts, &name),
            Part::Process(layouts) => self.emit_process(unit, &facts, &name, layouts),
            Part::All(layouts) => {
                self.emit_ends(unit, &facts, &name)?;
                self.emit_process(unit, &facts, &name, layouts)
            }
        }
    }

    fn facts(&self) -> Facts {
        Facts {
            demands: self.demands.clone(),
            reuse: Reuse::of(&self.program),
            parts: self.parts(),
            lengths: self.lengths(),
            cudfs: self.options.cudfs.clone(),
            disabled: self.options.disabled.clone(),
            parallel: self.threads.as_ref().map(|_| Parallel { grain: self.options.grain }),
        }
    }

    fn lengths(&self) -> HashMap<*const Expr, u64> {
        match &self.stream {
            Some(stream) => known_lengths(stream.trees()),
            None => known_lengths([&self.program.body]),
        }
    }

    fn parts(&self) -> Parts {
        match &self.stream {
            _ if self.nodes <= self.options.uncut_nodes => Parts::none(self.nodes),
            Some(stream) => Parts::of(stream.trees()),
            None => Parts::of(std::iter::once(&self.program.body)),
        }
    }

    fn emit_ends(&self, unit: &Unit<'_>, facts: &Facts, name: &dyn Fn(&str) -> String) -> Result<(), CompileError> {
        let stream = self.shape()?;
        program::emit_init(unit, facts, &name("init"), &self.program, stream)?;
        program::emit_finish(unit, facts, &name("finish"), &self.program, stream)?;
        program::emit_combine(unit, facts, &name("combine"), stream)
    }

    fn emit_process(
        &self,
        unit: &Unit<'_>,
        facts: &Facts,
        name: &dyn Fn(&str) -> String,
        layouts: &[ColumnLayout],
    ) -> Result<(), CompileError> {
        let stream = self.shape()?;
        let element = self.program.params[stream.param].ty.element().cloned();
        if !element.is_some_and(|element| stream.accepts(&element, layouts)) {
            let what = format!("a stream in columns of the layouts {layouts:?}");
            return Err(CompileError::unsupported(what, self.program.body.span));
        }
        program::emit_process(unit, facts, &name("process"), &self.program, stream, layouts)
    }

    fn shape(&self) -> Result<&StreamProgram, CompileError> {
        self.stream.as_ref().ok_or_else(|| internal("a program without a stream"))
    }
}

impl Kernel {
    /// The error that a status stands for.
    pub(super) fn check(&self, status: u32, run: &mut Run) -> Result<(), RuntimeError> {
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
