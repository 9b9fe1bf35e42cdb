//! Compiled pipelines: a program that comes again is not optimised and compiled again.
//!
//! Programs are known by their fingerprints before optimisation, with the settings that shape the code. The constants
//! of a query are no part of its programs (see `weld_core::opt::lift_constants`), so queries of one shape share their
//! code, and so do pipelines of one query. Code is made with little effort first, unless the settings say otherwise;
//! better code is made beside the runs that it is for.
//!
//! A cache belongs to a session, or to several that were given the same. What was not used for longest goes when there
//! is more code than it may keep, and what calls a function goes with that function; runs keep theirs.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};
use weld_codegen::{CodeFolder, Compiled, FastPath, Keep, OptLevel, Options, Tiers};
use weld_core::ir::{Program, WideHasher};
use weld_core::opt;
use weld_frontend::Source;

use crate::config::{TierChoice, WeldOptions};
use crate::gate::{CompileRate, processors};
use crate::lower::pipeline::LoweredPipeline;
use crate::pace::{Pace, Quality};

/// So much code a session keeps: TPC-DS has some 900 programs, of 30 to 200 KiB each once they are optimised.
const BYTES_MAX: usize = 128 << 20;

/// More programs that were not compiled are not remembered.
const REFUSED_MAX: usize = 1 << 14;

/// Native code of a pipeline.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) compiled: Arc<Compiled>,
    /// The plan for which it was made.
    plan: u64,
    /// Spent in the optimizer.
    optimize_time: Duration,
    pub(crate) pace: Pace,
}

impl Code {
    /// Spent in the optimizer and in LLVM so far.
    pub(crate) fn compile_time(&self) -> Duration {
        self.optimize_time + self.compiled.compile_time()
    }

    pub(crate) fn quality(&self) -> Quality {
        if self.compiled.has_cheap_code() { Quality::Cheap } else { Quality::Optimised }
    }

    /// Makes better code beside the run if the rows still to come, so many, repay it. Code from disk has come again.
    pub(crate) fn improve_if_due(&self, rows_left: Option<u64>) {
        if self.compiled.improvement_pays(rows_left) {
            self.improve(|work| work());
        } else if self.compiled.was_stored() {
            self.improve_what_returns();
        }
    }

    /// Makes better code for a program that has come again, if its runs take long enough: it will come more often.
    fn improve_what_returns(&self) {
        if self.compiled.improvement_pays_when_it_returns() {
            self.improve(weld_codegen::in_background);
        }
    }

    /// Makes better code on a thread of its own, which `run` may make one of low priority.
    fn improve(&self, run: impl FnOnce(Improving) + Send + 'static) {
        let compiled = Arc::clone(&self.compiled);
        let work = move || {
            run(Box::new(move || {
                if let Err(error) = compiled.improve() {
                    log::warn!("a pipeline stays on cheap code: {error}");
                }
            }));
        };
        match tokio::runtime::Handle::try_current() {
            // A runtime that is shut down waits for it: LLVM is not left at work in a process that ends.
            Ok(runtime) => drop(runtime.spawn_blocking(work)),
            Err(_) => work(),
        }
    }
}

/// The making of better code.
type Improving = Box<dyn FnOnce() + Send>;

/// What shapes the code beside the program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Settings {
    opt_level: u8,
    tiers: TierChoice,
    disabled_passes: Vec<String>,
    verify_passes: bool,
}

impl Settings {
    pub(crate) fn of(options: &WeldOptions) -> Settings {
        Settings {
            opt_level: options.opt_level.level(),
            tiers: options.tiers,
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

    /// Those of the passes left out that are ways of running loops.
    pub(crate) fn disabled_paths(&self) -> BTreeSet<FastPath> {
        FastPath::among(&self.disabled_passes)
    }

    pub(crate) fn compile(&self, program: &Program, plan: u64, keep: Option<Keep>) -> Result<Code, String> {
        let start = Instant::now();
        let program = self.optimize(program);
        let optimize_time = start.elapsed();
        let level = match self.opt_level {
            0 => OptLevel::O0,
            1 => OptLevel::O1,
            _ => OptLevel::O2,
        };
        let tiers = match self.tiers {
            TierChoice::Auto if self.opt_level > 0 => Tiers::CheapFirst,
            TierChoice::Auto | TierChoice::Optimised => Tiers::Single,
            TierChoice::Alternate => Tiers::Alternate,
        };
        let options = Options { level, tiers, disabled: self.disabled_paths(), ..Options::default() };
        let compiled = weld_codegen::compile_keeping(&program, &options, keep).map_err(|error| error.to_string())?;
        Ok(Code { compiled, plan, optimize_time, pace: Pace::default() })
    }
}

/// Code by its programs: of one session, or of several that share it, see
/// [`with_weld_sharing`](crate::WeldSessionExt::with_weld_sharing).
pub struct CodeCache {
    kept: Mutex<Kept>,
    bytes_max: usize,
    /// Programs that were not compiled when they came.
    refused: Mutex<HashMap<Key, Refused>>,
    /// Whose turn it is to compile a program.
    turns: Mutex<HashMap<Key, Weak<tokio::sync::Mutex<()>>>>,
    plans: AtomicU64,
    /// As many as there are processors.
    slots: Semaphore,
    refuses: Option<Refuses>,
    pub(crate) rate: CompileRate,
}

/// What a cache holds and has done.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CacheStatistics {
    pub programs: usize,
    /// Of the code and what belongs to it.
    pub bytes: usize,
    /// How often a pipeline's code was known.
    pub hits: u64,
    /// How often it was not, and was compiled.
    pub misses: u64,
    /// Programs that made room for others.
    pub evicted: u64,
}

/// The number of a program and its settings.
type Key = u128;

fn key(lowered: &LoweredPipeline, settings: &Settings) -> Key {
    WideHasher::hash_one((lowered.fingerprint(), settings))
}

/// The functions that a program calls, by their texts.
#[derive(Clone, Debug)]
struct Calls(Box<[Weak<Source>]>);

impl Calls {
    fn of(lowered: &LoweredPipeline) -> Calls {
        Calls(lowered.source.inlined().into_iter().map(Arc::downgrade).collect())
    }

    /// Whether it calls this function, or one that is gone.
    fn calls(&self, function: &Weak<Source>) -> bool {
        self.0.iter().any(|called| called.ptr_eq(function) || called.strong_count() == 0)
    }
}

/// Code that is kept.
struct Entry {
    code: Arc<Code>,
    calls: Calls,
    /// The number of its last use.
    used: u64,
}

#[derive(Default)]
struct Kept {
    codes: HashMap<Key, Entry>,
    uses: u64,
    hits: u64,
    misses: u64,
    evicted: u64,
}

impl Kept {
    fn get(&mut self, key: Key) -> Option<Arc<Code>> {
        self.uses += 1;
        let entry = self.codes.get_mut(&key)?;
        entry.used = self.uses;
        self.hits += 1;
        Some(Arc::clone(&entry.code))
    }

    fn insert(&mut self, key: Key, code: Arc<Code>, calls: Calls) {
        self.uses += 1;
        self.misses += 1;
        self.codes.insert(key, Entry { code, calls, used: self.uses });
    }

    fn bytes(&self) -> usize {
        self.codes.values().map(|entry| entry.code.compiled.bytes()).sum()
    }

    /// Lets go of what was not used for longest until the rest fits.
    fn trim(&mut self, bytes_max: usize) {
        let mut bytes = self.bytes();
        if bytes <= bytes_max {
            return;
        }
        let mut uses: Vec<(u64, Key)> = self.codes.iter().map(|(key, entry)| (entry.used, *key)).collect();
        uses.sort_unstable();
        for (_, key) in uses {
            if bytes <= bytes_max {
                return;
            }
            if let Some(entry) = self.codes.remove(&key) {
                bytes = bytes.saturating_sub(entry.code.compiled.bytes());
                self.evicted += 1;
            }
        }
    }
}

/// A program that was not compiled when it came.
#[derive(Debug)]
struct Refused {
    /// The plan that it came with first.
    plan: u64,
    calls: Calls,
    /// In the operators that ran instead.
    spent: Spent,
    /// Nanoseconds of a row in them, where that was measured.
    of_row: Option<f64>,
    /// Whether somebody compiles it for later runs, or has failed to.
    claimed: bool,
}

/// Time of several plans.
#[derive(Default, Debug)]
struct Spent {
    before: Duration,
    /// The plan that was noted last, and its time so far.
    last: (u64, Duration),
}

impl Spent {
    /// Notes what a plan has spent so far, over all partitions, each of which does so when it ends.
    fn note(&mut self, plan: u64, spent: Duration) {
        if self.last.0 != plan {
            self.before += self.last.1;
            self.last = (plan, Duration::ZERO);
        }
        self.last.1 = self.last.1.max(spent);
    }

    fn total(&self) -> Duration {
        self.before + self.last.1
    }
}

/// Which programs do not compile, for tests.
type Refuses = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Default for CodeCache {
    fn default() -> CodeCache {
        CodeCache::new(BYTES_MAX)
    }
}

impl CodeCache {
    /// A cache that keeps so many bytes of code.
    pub fn new(bytes_max: usize) -> CodeCache {
        CodeCache {
            kept: Mutex::default(),
            bytes_max,
            refused: Mutex::default(),
            turns: Mutex::default(),
            plans: AtomicU64::new(0),
            slots: Semaphore::new(processors()),
            refuses: None,
            rate: CompileRate::default(),
        }
    }

    /// What the cache holds now, and how often it was asked since it was made.
    pub fn statistics(&self) -> CacheStatistics {
        let kept = self.kept();
        let Kept { hits, misses, evicted, .. } = *kept;
        CacheStatistics { programs: kept.codes.len(), bytes: kept.bytes(), hits, misses, evicted }
    }

    pub(crate) fn refusing(refuses: impl Fn(&str) -> bool + Send + Sync + 'static) -> CodeCache {
        CodeCache { refuses: Some(Box::new(refuses)), ..CodeCache::default() }
    }

    /// A number for a plan.
    pub(crate) fn new_plan(&self) -> u64 {
        self.plans.fetch_add(1, Ordering::Relaxed)
    }

    /// The right to compile, held while compiling; `None` never comes, for nobody closes the semaphore.
    pub(crate) async fn slot(&self) -> Option<SemaphorePermit<'_>> {
        self.slots.acquire().await.ok()
    }

    /// Who holds it locked compiles this program; the others wait, and find the code then.
    pub(crate) fn turn(&self, lowered: &LoweredPipeline, settings: &Settings) -> Arc<tokio::sync::Mutex<()>> {
        let key = key(lowered, settings);
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&key).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(key, Arc::downgrade(&turn));
        turn
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The code of a program that was compiled before, if it `is_ready`. If that was for another plan, better code is
    /// made.
    pub(crate) fn find(
        &self,
        lowered: &LoweredPipeline,
        settings: &Settings,
        plan: u64,
        is_ready: impl FnOnce(&Code) -> bool,
    ) -> Option<Arc<Code>> {
        let key = key(lowered, settings);
        let mut kept = self.kept();
        if !is_ready(&kept.codes.get(&key)?.code) {
            return None;
        }
        let code = kept.get(key)?;
        drop(kept);
        if code.plan != plan {
            code.improve_what_returns();
        }
        Some(code)
    }

    /// Whether a program was compiled before.
    pub(crate) fn has(&self, lowered: &LoweredPipeline, settings: &Settings) -> bool {
        self.kept().codes.contains_key(&key(lowered, settings))
    }

    /// Whether a program's code was slower than the operators that it replaces. Better code is made if what the code has
    /// done repays it.
    pub(crate) fn is_slower(&self, lowered: &LoweredPipeline, settings: &Settings) -> bool {
        let key = key(lowered, settings);
        let Some(operators) = self.refused().get(&key).and_then(|refused| refused.of_row) else { return false };
        let code = self.kept().codes.get(&key).map(|entry| Arc::clone(&entry.code));
        let slower = code.filter(|code| code.pace.is_slower(code.quality(), operators));
        slower.inspect(|code| code.improve_what_returns()).is_some()
    }

    /// Notes what a row took the operators that ran, in nanoseconds.
    pub(crate) fn note_operators(&self, lowered: &LoweredPipeline, settings: &Settings, of_row: f64) {
        if let Some(refused) = self.refused().get_mut(&key(lowered, settings)) {
            refused.of_row = Some(of_row);
        }
    }

    /// Whether another process has compiled a program, or this one before.
    pub(crate) fn is_on_disk(
        &self,
        lowered: &LoweredPipeline,
        settings: &Settings,
        folder: Option<&Arc<CodeFolder>>,
    ) -> bool {
        folder.is_some_and(|folder| folder.has(key(lowered, settings)))
    }

    /// What was spent so far in the operators that ran instead of a program that is not compiled, if it has come with
    /// another plan than this; it is remembered from now on.
    pub(crate) fn comes_again(&self, lowered: &LoweredPipeline, settings: &Settings, plan: u64) -> Option<Duration> {
        let mut refused = self.refused();
        if refused.len() >= REFUSED_MAX {
            refused.clear();
        }
        let new = || Refused { plan, calls: Calls::of(lowered), spent: Spent::default(), of_row: None, claimed: false };
        let first = refused.entry(key(lowered, settings)).or_insert_with(new);
        (first.plan != plan).then(|| first.spent.total())
    }

    /// Whether the caller is the one to compile a refused program for later runs.
    pub(crate) fn claim(&self, lowered: &LoweredPipeline, settings: &Settings) -> bool {
        let mut refused = self.refused();
        refused.get_mut(&key(lowered, settings)).is_some_and(|refused| !std::mem::replace(&mut refused.claimed, true))
    }

    /// Notes what was spent in the operators that ran instead.
    pub(crate) fn note_spent(&self, lowered: &LoweredPipeline, settings: &Settings, plan: u64, spent: Duration) {
        if let Some(refused) = self.refused().get_mut(&key(lowered, settings)) {
            refused.spent.note(plan, spent);
        }
    }

    fn refused(&self) -> MutexGuard<'_, HashMap<Key, Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The code of a program, and whether it was made just now, or linked from what is in the folder.
    pub(crate) fn code(
        &self,
        lowered: &LoweredPipeline,
        settings: &Settings,
        plan: u64,
        folder: Option<&Arc<CodeFolder>>,
    ) -> Result<(Arc<Code>, bool), String> {
        let key = key(lowered, settings);
        if let Some(code) = self.kept().get(key) {
            return Ok((code, false));
        }
        let code = self.unkept(lowered, settings, plan, folder)?;
        Ok(self.keep(lowered, settings, code))
    }

    /// Code that nobody finds before it is kept.
    pub(crate) fn unkept(
        &self,
        lowered: &LoweredPipeline,
        settings: &Settings,
        plan: u64,
        folder: Option<&Arc<CodeFolder>>,
    ) -> Result<Arc<Code>, String> {
        if self.refuses.as_ref().is_some_and(|refuses| refuses(&lowered.program.to_string())) {
            return Err("refused by a test".to_owned());
        }
        // Without the lock: other pipelines compile at the same time.
        let keep = folder.map(|folder| Keep::new(Arc::clone(folder), key(lowered, settings)));
        settings.compile(&lowered.program, plan, keep).map(Arc::new)
    }

    /// Keeps the code of a program; what is kept of it, and whether that is this code.
    pub(crate) fn keep(&self, lowered: &LoweredPipeline, settings: &Settings, code: Arc<Code>) -> (Arc<Code>, bool) {
        let key = key(lowered, settings);
        let mut kept = self.kept();
        // Who was faster has given its code to runs, which improve it.
        if let Some(code) = kept.get(key) {
            return (code, false);
        }
        kept.insert(key, Arc::clone(&code), Calls::of(lowered));
        (code, true)
    }

    /// Lets go of what calls a function, which is dropped.
    pub(crate) fn forget(&self, function: &Arc<Source>) {
        let function = Arc::downgrade(function);
        let forgotten: Vec<Entry> = {
            let mut kept = self.kept();
            kept.codes.extract_if(|_, entry| entry.calls.calls(&function)).map(|(_, entry)| entry).collect()
        };
        // Freed without the lock.
        drop(forgotten);
        self.refused().retain(|_, refused| !refused.calls.calls(&function));
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, turn| turn.strong_count() > 0);
    }

    /// Makes room for what has been compiled.
    pub(crate) fn trim(&self) {
        self.kept().trim(self.bytes_max);
    }
}

impl fmt::Debug for CodeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeCache").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_share_the_time_of_their_plan_and_plans_add_theirs() {
        let mut spent = Spent::default();
        for (plan, millis) in [(7, 3), (7, 8), (9, 5), (9, 6)] {
            spent.note(plan, Duration::from_millis(millis));
        }
        assert_eq!(spent.total(), Duration::from_millis(8 + 6));
    }
}
