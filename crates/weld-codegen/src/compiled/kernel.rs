//! One part of a program as loaded code: emission, LLVM's passes, instruction selection, linking.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use weld_core::diag::Span;
use weld_core::ir::{Literal, build};
use weld_core::ty::ScalarKind;
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_runtime::Run;

use super::Compiled;
use crate::block::{Site, Unit, internal};
use crate::chunk::ColumnLayout;
use crate::emit::{Facts, Parallel, Reuse};
use crate::error::CompileError;
use crate::jit::{Code, Jit};
use crate::options::OptLevel;
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
    fn name(self) -> &'static str {
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
    pub(super) fn build(&self, part: Part<'_>, tier: Tier) -> Result<Arc<Kernel>, CompileError> {
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
    pub(super) fn emit<T>(
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
