//! The engines that a program is run by. All must give what the interpreter gives for the program as written.

use std::fmt;
use std::sync::Arc;

use weld_codegen::{CompileError, OptLevel, Options};
use weld_core::interp::{self, Limits, Value};
use weld_core::ir::Program;
use weld_core::opt;
use weld_core::{RuntimeError, RuntimeErrorKind};
use weld_runtime::memory::Limit;
use weld_runtime::{Context, MemoryPool};

/// One way of running a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Engine {
    /// Through the optimizer first.
    pub optimised: bool,
    /// Compiled at this level for this many threads; interpreted if `None`.
    pub jit: Option<(OptLevel, usize)>,
}

/// Why there is no result.
#[derive(Clone, PartialEq, Debug)]
pub enum Failure {
    Runtime(RuntimeError),
    /// The compiler has no code for something.
    Unsupported(String),
    /// LLVM failed, or a value could not be converted: a defect.
    Broken(String),
}

impl Engine {
    pub const INTERP: Engine = Engine { optimised: false, jit: None };

    pub const ALL: [Engine; 7] = [
        Engine::INTERP,
        Engine { optimised: true, jit: None },
        Engine { optimised: false, jit: Some((OptLevel::O0, 1)) },
        Engine { optimised: false, jit: Some((OptLevel::O2, 4)) },
        Engine { optimised: true, jit: Some((OptLevel::O0, 4)) },
        Engine { optimised: true, jit: Some((OptLevel::O2, 1)) },
        Engine { optimised: true, jit: Some((OptLevel::O2, 4)) },
    ];

    /// Runs a program. The interpreter alone honours the limit of steps.
    pub fn run(self, program: &Program, args: &[Value], limits: &Limits) -> Result<Value, Failure> {
        self.run_in(program, args, limits, &Arc::new(Limit::new(limits.memory)))
    }

    /// Runs a program; compiled code gets its memory from `pool`.
    pub fn run_in<P: MemoryPool + 'static>(
        self,
        program: &Program,
        args: &[Value],
        limits: &Limits,
        pool: &Arc<P>,
    ) -> Result<Value, Failure> {
        let program = match self.optimised {
            true => opt::Optimized::new(program.clone(), &opt::Config::default()),
            false => opt::Optimized::none(program.clone()),
        };
        if let Some((pass, errors)) = program.report().broken.first() {
            return Err(Failure::Broken(format!("{pass} broke the program: {errors}")));
        }
        // What is no error of a run.
        let mut failure = None;
        let result = program.run(|program| match self.jit {
            None => interp::run_with_host(program, args, limits, &crate::host::call),
            Some((level, threads)) => {
                let context = Arc::new(Context::new(pool.clone(), limits.cancel.clone()));
                run_compiled(program, args, &context, level, threads).map_err(|found| match found {
                    Failure::Runtime(error) => error,
                    other => {
                        failure = Some(other);
                        RuntimeError::new(RuntimeErrorKind::Internal, program.body.span, "not run")
                    }
                })
            }
        });
        match failure {
            Some(failure) => Err(failure),
            None => result.map_err(Failure::Runtime),
        }
    }
}

fn run_compiled(
    program: &Program,
    args: &[Value],
    context: &Arc<Context>,
    level: OptLevel,
    threads: usize,
) -> Result<Value, Failure> {
    // Loops over three elements are split, too, and small programs are cut.
    let is_split = threads > 1;
    let grain = is_split.then_some(1);
    let uncut_nodes = if is_split { 0 } else { usize::MAX };
    let (cudfs, sanitize) = (crate::host::functions(), cfg!(weld_asan));
    let options = Options { level, threads, grain, uncut_nodes, sanitize, cudfs, ..Options::default() };
    let compiled = weld_codegen::compile(program, &options).map_err(|error| match error {
        CompileError::Unsupported { what, .. } => Failure::Unsupported(what),
        CompileError::Llvm(what) => Failure::Broken(what),
    })?;
    let native = |(arg, param): (&Value, &weld_core::ir::Param)| weld_codegen::Value::from_interp(&param.ty, arg);
    let native: Result<Vec<_>, RuntimeError> = args.iter().zip(&program.params).map(native).collect();
    let native = native.map_err(|_| Failure::Unsupported("such arguments".into()))?;
    // Listing a table's entries takes memory too.
    compiled.run(context, &native).and_then(|result| result.to_interp()).map_err(|error| match error.kind {
        RuntimeErrorKind::Internal => Failure::Broken(error.to_string()),
        _ => Failure::Runtime(error),
    })
}

/// The program after the optimizer has run up to the last entry of this pass; `all` for the whole list.
pub fn after_pass(program: &Program, pass: &str) -> Result<Program, String> {
    let known = opt::pass_names();
    if pass != "all" && !known.contains(pass) {
        return Err(format!("no pass is called `{pass}`; there are {known:?}"));
    }
    let stop_after = (pass != "all").then(|| pass.to_string());
    let mut program = program.clone();
    opt::optimize(&mut program, &opt::Config { stop_after, ..opt::Config::default() });
    Ok(program)
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.jit {
            None => f.write_str("interp")?,
            Some((level, threads)) => write!(f, "jit {level:?} {threads} threads")?,
        }
        if self.optimised { f.write_str(", optimised") } else { Ok(()) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Runtime(error) => write!(f, "runtime {error}"),
            Failure::Unsupported(what) => write!(f, "not compiled: {what}"),
            Failure::Broken(what) => write!(f, "broken: {what}"),
        }
    }
}
