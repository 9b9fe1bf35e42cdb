//! Programs in Weld's own language and others: from text and JSON arguments to a JSON result, on either engine.
//!
//! `weld run`, `weld eval`, `weld repl` and `weld explain` all go through [`Settings::evaluate`] or parts of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weld_codegen::{self as native, CompileError, Cudf, FastPath, ForeignHost, Options};
use weld_core::diag::{Diagnostic, Span};
use weld_core::interp::{self, Limits, Value};
use weld_core::ir::{Param, Program};
use weld_core::opt;
use weld_core::{Frontend, RuntimeError, RuntimeErrorKind};
use weld_frontend::{Args as Arguments, Function, Given, Language, Library, Request};
use weld_languages::Weld;
use weld_runtime::Context;
use weld_runtime::memory::Limit;

use crate::failure::{Failure, Result};

/// How programs are optimised and run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Compiled code, or the interpreter
    #[arg(long, default_value = "jit")]
    engine: ProgramEngine,
    /// Threads that parallel loops may use
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    threads: u16,
    #[command(flatten)]
    pub(crate) optimizer: Optimizer,
    /// Bytes that a run may use
    #[arg(long, default_value_t = 4 << 30, value_name = "BYTES")]
    memory_limit: usize,
    /// Seconds after which a run is stopped [default: none, 10 for eval]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    time_limit: Option<u64>,
    #[command(flatten)]
    functions: Functions,
    /// Stops a run when it is set.
    #[arg(skip)]
    interrupt: Arc<AtomicBool>,
}

/// What programs may call beside what the language has.
#[derive(Args, Clone, Debug)]
pub(crate) struct Functions {
    /// A C function that programs may call, such as 'add_five(i64)->i64=libfive.so'; may be given many times
    #[arg(long = "cudf", value_name = "NAME(T, ..)->R=LIBRARY", value_parser = Cudf::load)]
    pub(crate) cudfs: Vec<Cudf>,
}

/// Which of the optimizer's passes run, and which ways of running loops are taken.
#[derive(Args, Clone, Debug)]
pub(crate) struct Optimizer {
    /// Run the program as it is written
    #[arg(long)]
    no_optimize: bool,
    /// Leave this optimizer pass, or this way of running loops, out; may be given many times
    #[arg(long = "disable-pass", value_name = "NAME", value_parser = pass_or_path_name)]
    disabled_passes: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ProgramEngine {
    Jit,
    Interp,
}

/// The name of an optimizer pass, for clap.
pub(crate) fn pass_name(text: &str) -> std::result::Result<String, String> {
    let names = opt::pass_names();
    if names.contains(text) {
        return Ok(text.to_owned());
    }
    Err(format!("the passes are {}", Vec::from_iter(names).join(", ")))
}

/// The name of an optimizer pass or of a way of running loops, for clap.
fn pass_or_path_name(text: &str) -> std::result::Result<String, String> {
    if FastPath::named(text).is_some() {
        return Ok(text.to_owned());
    }
    let paths = FastPath::ALL.map(FastPath::name).join(", ");
    pass_name(text).map_err(|passes| format!("{passes}; the ways of running loops are {paths}"))
}

/// What is to be called, in whatever language.
pub(crate) struct Call<'a> {
    pub(crate) language: &'a dyn Language,
    pub(crate) text: &'a str,
    pub(crate) entry: Option<&'a str>,
    pub(crate) given: Given,
    pub(crate) options: weld_frontend::Options,
}

impl Functions {
    /// A definition of a text.
    pub(crate) fn function(
        &self,
        language: &dyn Language,
        text: &str,
        entry: Option<&str>,
        args: Arguments<'_>,
        options: &weld_frontend::Options,
    ) -> std::result::Result<Function, Vec<Diagnostic>> {
        let library = Library::default();
        let request = Request { entry, args, ..Request::new(text, &library, options) };
        // Weld's programs may call the functions that the command line names.
        let weld = Weld { frontend: self.frontend() };
        let language = if language.names() == weld.names() { &weld } else { language };
        language.compile(&request)
    }

    fn frontend(&self) -> Frontend {
        Frontend { cudfs: self.cudfs.iter().map(Cudf::declaration).collect() }
    }

    /// The text's program as it is written.
    pub(crate) fn checked(&self, source: &str) -> std::result::Result<Program, Vec<Diagnostic>> {
        self.frontend().parse_program(source)
    }
}

impl Optimizer {
    /// Runs the optimizer over the program, up to a pass if one is named.
    pub(crate) fn run(&self, program: &mut Program, stop_after: Option<&str>) {
        if !self.no_optimize {
            opt::optimize(program, &self.config(stop_after));
        }
    }

    /// The program, optimised to be run.
    pub(crate) fn optimized(&self, program: Program) -> opt::Optimized {
        match self.no_optimize {
            true => opt::Optimized::none(program),
            false => opt::Optimized::new(program, &self.config(None)),
        }
    }

    /// The names of what is left out.
    pub(crate) fn disabled_passes(&self) -> &[String] {
        &self.disabled_passes
    }

    fn config(&self, stop_after: Option<&str>) -> opt::Config<'static> {
        let disabled: BTreeSet<String> = self.disabled_passes.iter().cloned().collect();
        opt::Config { disabled, stop_after: stop_after.map(str::to_owned), ..opt::Config::default() }
    }
}

impl Settings {
    /// With this time limit unless another was asked for.
    pub(crate) fn with_default_time_limit(mut self, seconds: u64) -> Settings {
        self.time_limit.get_or_insert(seconds);
        self
    }

    /// Runs stop when this flag is set. Each begins by clearing it.
    pub(crate) fn interrupted_by(self, interrupt: Arc<AtomicBool>) -> Settings {
        Settings { interrupt, ..self }
    }

    /// The function of a call.
    pub(crate) fn function(&self, call: &Call<'_>) -> std::result::Result<Function, Vec<Diagnostic>> {
        let args = Arguments::Given(&call.given.args);
        let function = self.functions.function(call.language, call.text, call.entry, args, &call.options);
        function.map_err(|errors| call.given.explained(errors, call.language))
    }

    /// The text's program as it is written.
    pub(crate) fn checked(&self, source: &str) -> std::result::Result<Program, Vec<Diagnostic>> {
        self.functions.checked(source)
    }

    /// Runs an optimised program.
    pub(crate) fn run(&self, program: &opt::Optimized, args: &[Value]) -> std::result::Result<Value, Diagnostic> {
        let result = self.with_cancel_flag(|cancel| match self.engine {
            ProgramEngine::Interp => {
                let limits = Limits { memory: self.memory_limit, cancel, ..Limits::default() };
                let host = ForeignHost::new(&self.functions.cudfs).map_err(compile_error)?;
                program.run(|program| interp::run_with_host(program, args, &limits, &host))
            }
            ProgramEngine::Jit => program.run(|program| self.run_compiled(program, args, cancel.clone())),
        });
        result.map_err(Diagnostic::from)
    }

    fn run_compiled(
        &self,
        program: &Program,
        args: &[Value],
        cancel: Arc<AtomicBool>,
    ) -> std::result::Result<Value, RuntimeError> {
        let options = Options {
            threads: usize::from(self.threads),
            disabled: FastPath::among(self.optimizer.disabled_passes()),
            cudfs: self.functions.cudfs.clone(),
            ..Options::default()
        };
        let compiled = weld_codegen::compile(program, &options).map_err(compile_error)?;
        let native = |(value, param): (&Value, &Param)| native::Value::from_interp(&param.ty, value);
        let native: std::result::Result<Vec<_>, _> = args.iter().zip(&program.params).map(native).collect();
        let native = native?;
        let context = Arc::new(Context::new(Arc::new(Limit::new(self.memory_limit)), cancel));
        compiled.run(&context, &native)?.to_interp()
    }

    /// Hands `run` a flag that is set when the time is up; an error after that says so.
    fn with_cancel_flag<T>(
        &self,
        run: impl FnOnce(Arc<AtomicBool>) -> std::result::Result<T, RuntimeError>,
    ) -> std::result::Result<T, RuntimeError> {
        let flag = self.interrupt.clone();
        flag.store(false, Ordering::Relaxed);
        let Some(seconds) = self.time_limit else { return run(flag) };
        let timed_out = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (done, is_done) = mpsc::channel::<()>();
            let (alarm, timed_out) = (flag.clone(), &timed_out);
            scope.spawn(move || {
                // The sender is dropped when the run ends, or when it panics.
                if let Err(mpsc::RecvTimeoutError::Timeout) = is_done.recv_timeout(Duration::from_secs(seconds)) {
                    timed_out.store(true, Ordering::Relaxed);
                    alarm.store(true, Ordering::Relaxed);
                }
            });
            let result = run(flag);
            drop(done);
            result.map_err(|error| match error.kind {
                RuntimeErrorKind::Cancelled if timed_out.load(Ordering::Relaxed) => {
                    RuntimeError { message: format!("the time limit of {seconds} s is reached"), ..error }
                }
                _ => error,
            })
        })
    }
}

fn compile_error(error: CompileError) -> RuntimeError {
    let span = match &error {
        CompileError::Unsupported { span, .. } => *span,
        CompileError::Llvm(_) => Span::NONE,
    };
    RuntimeError::new(RuntimeErrorKind::Internal, span, error.to_string())
}

/// How many arguments a program of so many parameters takes.
pub(crate) fn takes(params: usize) -> String {
    let plural = if params == 1 { "" } else { "s" };
    format!("the program takes {params} argument{plural}")
}

/// The language of a file: the one that is named, else that of the end of its name, else Weld's own.
pub(crate) fn language_of(path: &std::path::Path, named: Option<&str>) -> Result<&'static dyn Language> {
    let found = match named {
        Some(name) => weld_languages::by_name(name).ok_or_else(|| unknown_language(name)),
        None => weld_languages::by_file(path)
            .or_else(|| weld_languages::by_name("weld"))
            .ok_or_else(|| unknown_language("weld")),
    };
    found.map_err(Failure::Usage)
}

/// What is wrong with the name of a language.
pub(crate) fn unknown_language(name: &str) -> String {
    let names: Vec<&str> = weld_languages::all().iter().map(|language| language.names()[0]).collect();
    format!("no language is called `{name}`; there are {}", names.join(", "))
}

/// Diagnostics as a person reads them, on standard error.
pub(crate) fn report(diagnostics: &[Diagnostic], source: &str, file_name: &str) -> Failure {
    eprint!("{}", weld_core::diag::render(diagnostics, source, file_name));
    Failure::Reported
}

/// The text of a file; of standard input for `-`.
pub(crate) fn read(path: &std::path::Path) -> Result<String> {
    if path.as_os_str() == "-" {
        return read_input();
    }
    std::fs::read_to_string(path).map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))
}

/// What is on standard input.
pub(crate) fn read_input() -> Result<String> {
    std::io::read_to_string(std::io::stdin())
        .map_err(|error| Failure::new(format!("cannot read standard input: {error}")))
}
