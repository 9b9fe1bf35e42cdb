//! Compiled pipelines of a session: a program that comes again is not optimised and compiled again.
//!
//! The key is the program's text before optimisation and the settings that shape the code.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};
use weld_codegen::{Compiled, OptLevel, Options};
use weld_core::diag::Span;
use weld_core::ir::Program;
use weld_core::opt;

use crate::config::WeldOptions;

/// More pipelines than this are not kept.
const KEPT_MAX: usize = 512;

/// Native code of a pipeline.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) compiled: Arc<Compiled>,
    /// Spent in the optimizer.
    optimize_time: Duration,
}

impl Code {
    /// Spent in the optimizer and in LLVM so far.
    pub(crate) fn compile_time(&self) -> Duration {
        self.optimize_time + self.compiled.compile_time()
    }
}

/// What shapes the code beside the program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Settings {
    opt_level: u8,
    disabled_passes: Vec<String>,
    verify_passes: bool,
}

impl Settings {
    pub(crate) fn of(options: &WeldOptions) -> Settings {
        Settings {
            opt_level: options.opt_level.level(),
            disabled_passes: options.disabled_passes.iter().map(str::to_owned).collect(),
            verify_passes: options.verify_passes,
        }
    }

    /// The program as the compiler gets it.
    pub(crate) fn optimize(&self, program: &Program) -> Program {
        let mut program = program.clone();
        let config = opt::Config {
            disabled: self.disabled_passes.iter().cloned().collect(),
            verify: self.verify_passes,
            ..opt::Config::default()
        };
        opt::optimize(&mut program, &config);
        program
    }

    pub(crate) fn compile(&self, program: &Program) -> Result<Code, String> {
        let start = Instant::now();
        let program = self.optimize(program);
        let optimize_time = start.elapsed();
        let level = match self.opt_level {
            0 => OptLevel::O0,
            1 => OptLevel::O1,
            _ => OptLevel::O2,
        };
        let options = Options { level, ..Options::default() };
        let compiled = weld_codegen::compile(&program, &options).map_err(|error| error.to_string())?;
        Ok(Code { compiled, optimize_time })
    }
}

/// What tells pipelines apart: a program's text, and the places that its errors name, which are those of functions' texts.
type Key = (String, u64, Settings);

fn key(program: &Program, settings: &Settings) -> Key {
    let mut places = DefaultHasher::new();
    program.body.walk(&mut |e| {
        if e.span != Span::NONE {
            e.span.hash(&mut places);
        }
    });
    (program.to_string(), places.finish(), settings.clone())
}

/// The compiled pipelines of a session.
pub(crate) struct CodeCache {
    kept: Mutex<HashMap<Key, Arc<Code>>>,
    /// As many as there are processors.
    slots: Semaphore,
    refuses: Option<Refuses>,
}

/// Which programs do not compile, for tests.
type Refuses = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Default for CodeCache {
    fn default() -> CodeCache {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        CodeCache { kept: Mutex::default(), slots: Semaphore::new(processors), refuses: None }
    }
}

impl CodeCache {
    pub(crate) fn refusing(refuses: impl Fn(&str) -> bool + Send + Sync + 'static) -> CodeCache {
        CodeCache { refuses: Some(Box::new(refuses)), ..CodeCache::default() }
    }

    /// The right to compile, held while compiling; `None` never comes, for nobody closes the semaphore.
    pub(crate) async fn slot(&self) -> Option<SemaphorePermit<'_>> {
        self.slots.acquire().await.ok()
    }

    /// The code of a program that was compiled before.
    pub(crate) fn find(&self, program: &Program, settings: &Settings) -> Option<Arc<Code>> {
        let key = key(program, settings);
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// The code of a program, and whether it was made just now.
    pub(crate) fn code(&self, program: &Program, settings: &Settings) -> Result<(Arc<Code>, bool), String> {
        let key = key(program, settings);
        if let Some(code) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok((Arc::clone(code), false));
        }
        if self.refuses.as_ref().is_some_and(|refuses| refuses(&key.0)) {
            return Err("refused by a test".to_owned());
        }
        // Without the lock: other pipelines compile at the same time.
        let code = Arc::new(settings.compile(program)?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&code));
        Ok((code, true))
    }
}

impl fmt::Debug for CodeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("CodeCache").field("kept", &kept.len()).finish()
    }
}
