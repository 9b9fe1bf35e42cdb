//! Programs, from checked program to native code.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use weld_codegen::{CompileError, Cudf, Options, Value};
use weld_core::diag::Diagnostic;
use weld_core::opt::{self, Optimized};
use weld_core::ty::Type;
use weld_core::{Frontend, RuntimeError, RuntimeErrorKind, ir};
use weld_frontend::{Function, Source};
use weld_runtime::memory::Limit;

/// A checked program.
#[derive(Clone, Debug)]
pub struct Program {
    source: Arc<Source>,
    ir: ir::Program,
    cudfs: Vec<Cudf>,
}

/// What is wrong with a text. Prints with the lines that are meant.
#[derive(Clone, Debug)]
pub struct Errors {
    pub diagnostics: Vec<Diagnostic>,
    pub(crate) source: Box<str>,
}

impl Program {
    /// Parses and checks a program. All of a text's errors are found at once, as far as they do not follow from others.
    pub fn parse(source: &str) -> Result<Program, Errors> {
        Program::parse_with(source, &[])
    }

    /// A program that may call these C functions with `cudf`.
    pub fn parse_with(source: &str, cudfs: &[Cudf]) -> Result<Program, Errors> {
        let frontend = Frontend { cudfs: cudfs.iter().map(Cudf::declaration).collect() };
        let ir = frontend.parse_program(source).map_err(|diagnostics| Errors { diagnostics, source: source.into() })?;
        Ok(Program { source: Arc::new(Source::new("program", source)), ir, cudfs: cudfs.to_vec() })
    }

    /// The program of a function of some language.
    pub fn of_function(function: &Function) -> Program {
        Program { source: function.source.clone(), ir: function.program.clone(), cudfs: Vec::new() }
    }

    /// The types of the parameters.
    pub fn params(&self) -> impl Iterator<Item = &Type> {
        self.ir.params.iter().map(|param| &param.ty)
    }

    /// The type of the result.
    pub fn result(&self) -> &Type {
        &self.ir.body.ty
    }

    /// Optimises the program and makes native code of it.
    pub fn compile(&self, options: &Options) -> Result<Compiled, CompileError> {
        let options = Options { cudfs: [&self.cudfs[..], &options.cudfs].concat(), ..options.clone() };
        let program = Optimized::new(self.ir.clone(), &opt::Config::default());
        let code = weld_codegen::compile(program.program(), &options)?;
        Ok(Compiled { source: self.source.clone(), program, options, code, written: OnceLock::new() })
    }
}

/// Native code of a program; it may be run any number of times, by several threads at once.
#[derive(Debug)]
pub struct Compiled {
    source: Arc<Source>,
    program: Optimized,
    options: Options,
    code: Arc<weld_codegen::Compiled>,
    /// Of the program as it was written, if a run has failed: it says with which error.
    written: OnceLock<Result<Arc<weld_codegen::Compiled>, CompileError>>,
}

impl Compiled {
    /// Runs the program. The arguments have the types of its parameters.
    pub fn run(&self, args: &[Value]) -> Result<Value, RuntimeError> {
        self.run_in(&Context::default(), args)
    }

    /// Runs the program within limits.
    pub fn run_in(&self, context: &Context, args: &[Value]) -> Result<Value, RuntimeError> {
        self.program.run(|program| {
            let code = match std::ptr::eq(program, self.program.program()) {
                true => &self.code,
                false => self.written(program)?,
            };
            let limit = Arc::new(Limit::new(context.memory));
            code.run(&Arc::new(weld_runtime::Context::new(limit, context.cancel.clone())), args)
        })
    }

    /// An error of a run as a person reads it, with the line that raised it.
    pub fn show(&self, error: &RuntimeError) -> String {
        let (source, diagnostic) = self.source.diagnostic(error.clone());
        weld_core::diag::render(&[diagnostic], &source.text, &source.name)
    }

    fn written(&self, program: &ir::Program) -> Result<&Arc<weld_codegen::Compiled>, RuntimeError> {
        let code = self.written.get_or_init(|| weld_codegen::compile(program, &self.options));
        let failed =
            |error: &CompileError| RuntimeError::new(RuntimeErrorKind::Internal, program.body.span, error.to_string());
        code.as_ref().map_err(failed)
    }
}

/// What a run may use. Clones share the flag that stops them.
#[derive(Clone, Debug)]
pub struct Context {
    memory: usize,
    cancel: Arc<AtomicBool>,
}

impl Default for Context {
    /// No limits.
    fn default() -> Context {
        Context::with_memory(usize::MAX)
    }
}

impl Context {
    /// At most so many bytes.
    pub fn with_memory(bytes: usize) -> Context {
        Context { memory: bytes, cancel: Arc::default() }
    }

    /// Stops the runs of this context, from any thread: they give the error `Cancelled`.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&weld_core::diag::render(&self.diagnostics, &self.source, "program"))
    }
}

impl std::error::Error for Errors {}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(source: &str) -> Compiled {
        Program::parse(source).unwrap().compile(&Options::default()).unwrap()
    }

    #[test]
    fn types_are_known_before_compiling() {
        let program = Program::parse("|a: i64, b: vec[f32]| {a, sum(b)}").unwrap();
        assert_eq!(Vec::from_iter(program.params().map(Type::to_string)), ["i64", "vec[f32]"]);
        assert_eq!(program.result().to_string(), "{i64,f32}");
    }

    #[test]
    fn the_error_is_the_first_one_of_the_text() {
        let program = compiled("|x: i64| let b = 1L / x; let a = lookup([1L], 9L + x); a + b");
        for _ in 0..2 {
            assert_eq!(program.run(&[Value::i64(0)]).unwrap_err().kind, RuntimeErrorKind::DivisionByZero);
        }
        assert_eq!(program.run(&[Value::i64(-9)]).unwrap().as_i64(), Some(1));
    }

    #[test]
    fn wrong_arguments_are_an_error() {
        let program = compiled("|x: i64| x");
        assert!(program.run(&[]).is_err());
        assert!(program.run(&[Value::f64(1.0)]).is_err());
    }

    #[test]
    fn a_cancelled_context_stops_an_endless_run() {
        let program = compiled("|x: i64| iterate(x, |x| {x + 1L, x != -1L})");
        let context = Context::default();
        context.cancel();
        assert_eq!(program.run_in(&context, &[Value::i64(0)]).unwrap_err().kind, RuntimeErrorKind::Cancelled);
    }

    #[test]
    fn errors_print_with_their_lines() {
        let text = Program::parse("1 +\ntrue").unwrap_err().to_string();
        assert!(text.contains("true"), "{text}");
    }

    #[test]
    fn errors_of_runs_show_their_line() {
        let program = compiled("|x: i64|\n  10L / x");
        let error = program.run(&[Value::i64(0)]).unwrap_err();
        let text = program.show(&error);
        assert!(
            text.contains("division by zero") && text.contains("program:2:3") && text.contains("10L / x"),
            "{text}"
        );
    }

    #[test]
    fn programs_and_values_are_for_all_threads() {
        fn shared<T: Send + Sync + 'static>() {}
        shared::<Program>();
        shared::<Compiled>();
        shared::<Value>();
        shared::<Context>();
        shared::<Errors>();
        shared::<RuntimeError>();
        shared::<CompileError>();
    }

    #[test]
    fn runs_at_once_do_not_disturb_each_other() {
        let text =
            "|v: vec[i64], k: i64| let d = result(for(v, groupbuilder[i64,i64], |b, i, x| merge(b, {x % 7L, x / k})));
            map(sort(tovec(d), |a, b| compare(a.$0, b.$0)), |p| sum(p.$1))";
        let program = Program::parse(text).unwrap().compile(&Options { threads: 2, ..Options::default() }).unwrap();
        let numbers = Value::vector((0..20_000).collect::<Vec<i64>>());
        let wanted = |k: i64| (0..7).map(|key| (key..20_000).step_by(7).map(|x| x / k).sum()).collect::<Vec<i64>>();
        std::thread::scope(|scope| {
            for k in 0..4 {
                let (program, numbers) = (&program, numbers.clone());
                scope.spawn(move || {
                    for _ in 0..20 {
                        match program.run(&[numbers.clone(), k.into()]) {
                            Ok(sums) => assert_eq!(sums.as_slice(), Some(&wanted(k)[..])),
                            Err(error) => assert_eq!((error.kind, k), (RuntimeErrorKind::DivisionByZero, 0)),
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn another_thread_stops_a_run() {
        for threads in [1, 2] {
            let options = Options { threads, ..Options::default() };
            let text = "|n: i64| result(for(rangeiter(0L, n, 1L), merger[i64,+], |b, i, x| merge(b, iterate(x, |y| {y, true}))))";
            let program = Program::parse(text).unwrap().compile(&options).unwrap();
            let context = Context::default();
            let error = std::thread::scope(|scope| {
                let run = scope.spawn(|| program.run_in(&context, &[Value::i64(1_000_000)]));
                context.cancel();
                run.join().unwrap().unwrap_err()
            });
            assert_eq!(error.kind, RuntimeErrorKind::Cancelled);
        }
    }
}
