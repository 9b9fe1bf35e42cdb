//! Runs files on both engines and adds up what came of it.

use std::fmt;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use datafusion_sqllogictest::{
    TestContext, TestFile, df_value_validator, read_dir_recursive, setup_scratch_dir, value_normalizer,
};
use futures::StreamExt;
use sqllogictest::{Record, Runner, strict_column_validator};
use weld_datafusion::WeldRule;

use crate::engine::{self, Engine, Last};
use crate::record::{Ran, difference};
use crate::settings::Setting;
use crate::skips::Skips;

const FOLDER: &str = "test_files/";

/// How often a file with a difference runs on stock DataFusion again, to see what changes from run to run.
const RUNS_MORE: usize = 2;

pub(crate) struct Suite {
    settings: Vec<Setting>,
    opt_level: u8,
    times: bool,
    skips: Skips,
    /// One for all sessions, so that they share their code.
    rule: Arc<WeldRule>,
}

/// What was run, and what came of it.
#[derive(Clone, Default, Debug)]
pub(crate) struct Tally {
    files: usize,
    records: usize,
    /// Records with an operator that Weld ran.
    compiled: usize,
    fallbacks: usize,
    /// Records that fail on both engines.
    errors: usize,
    skipped: usize,
    /// Records whose outcome on stock DataFusion changes from run to run.
    unstable: usize,
    /// Records for which stock DataFusion does not give what the file expects, at the setting that it was written for.
    unexpected: usize,
    pub(crate) differences: usize,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.files += other.files;
        self.records += other.records;
        self.compiled += other.compiled;
        self.fallbacks += other.fallbacks;
        self.errors += other.errors;
        self.skipped += other.skipped;
        self.unstable += other.unstable;
        self.unexpected += other.unexpected;
        self.differences += other.differences;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { files, records, compiled, fallbacks, errors, skipped, unstable, unexpected, differences } = self;
        writeln!(f, "{files} runs of files, {records} records, {compiled} with a compiled operator")?;
        writeln!(
            f,
            "{errors} fail on both, {fallbacks} fell back, {skipped} skipped, {unstable} differ from run to run"
        )?;
        writeln!(f, "{unexpected} are not as their file expects on stock DataFusion")?;
        writeln!(f, "{differences} differences")
    }
}

impl Suite {
    pub(crate) fn new(settings: Vec<Setting>, opt_level: u8, times: bool) -> Result<Suite> {
        Ok(Suite { settings, opt_level, times, skips: Skips::new(), rule: Arc::default() })
    }

    /// The files of the suite that have one of `parts` in their path, or all.
    pub(crate) fn files(&self, parts: &[String]) -> Result<Vec<PathBuf>> {
        let found = read_dir_recursive(FOLDER).map_err(std::io::Error::other)?;
        let mut files: Vec<TestFile> = found.into_iter().map(|path| TestFile::new(path, &[FOLDER])).collect();
        files.retain(|file| {
            let path = Path::new(FOLDER).join(&file.relative_path).to_string_lossy().into_owned();
            file.is_slt_file() && (parts.is_empty() || parts.iter().any(|part| path.contains(part.as_str())))
        });
        files.sort();
        Ok(files.into_iter().map(|file| file.relative_path).collect())
    }

    pub(crate) async fn run(&self, files: Vec<PathBuf>, jobs: usize) -> Tally {
        let mut all = Tally::default();
        let mut runs = futures::stream::iter(files).map(|file| self.file(file)).buffer_unordered(jobs);
        while let Some(tally) = runs.next().await {
            all.add(&tally);
        }
        all
    }

    /// One file at every setting, one after the other: they write to the same folder.
    async fn file(&self, file: PathBuf) -> Tally {
        let mut all = Tally::default();
        let start = Instant::now();
        for &setting in &self.settings {
            all.add(&self.file_at(&file, setting).await);
        }
        if self.times {
            println!("{:.1} s {}", start.elapsed().as_secs_f64(), file.display());
        }
        all
    }

    async fn file_at(&self, file: &Path, setting: Setting) -> Tally {
        let stock = self.side(file, setting, false).await;
        let weld = self.side(file, setting, true).await;
        let (stock, weld) = match (stock, weld) {
            (Ok(stock), Ok(weld)) => (stock, weld),
            (Err(error), _) | (_, Err(error)) => {
                println!("== {} at {setting}: {error}\n", file.display());
                return Tally { differences: 1, ..Tally::default() };
            }
        };
        let mut tally = Tally { files: 1, records: weld.len(), ..Tally::default() };
        let mut differ = Vec::new();
        for (index, (stock, weld)) in stock.iter().zip(&weld).enumerate() {
            tally.compiled += usize::from(weld.compiled.operators > 0);
            tally.fallbacks += usize::from(weld.compiled.fallbacks > 0);
            tally.errors += usize::from(is_error(stock) && is_error(weld));
            tally.unexpected += usize::from(setting.is_usual() && stock.unexpected.is_some());
            if self.skips.has(file, &weld.sql) {
                tally.skipped += 1;
            } else if let Some(how) = difference(&stock.outcome, &weld.outcome) {
                differ.push((index, how));
            }
        }
        if !differ.is_empty() {
            let again = self.again(file, setting).await;
            let before = differ.len();
            differ.retain(|(index, _)| is_stable(&stock, &again, *index));
            tally.unstable = before - differ.len();
        }
        for (index, how) in &differ {
            let Ran { sql, place, .. } = &weld[*index];
            println!("== {place} at {setting}: {how}\n{sql}\n");
        }
        tally.differences = differ.len();
        tally
    }

    async fn again(&self, file: &Path, setting: Setting) -> Vec<Vec<Ran>> {
        let mut runs = Vec::new();
        for _ in 0..RUNS_MORE {
            runs.extend(self.side(file, setting, false).await);
        }
        runs
    }

    /// All records of a file on one engine.
    async fn side(&self, file: &Path, setting: Setting, weld: bool) -> datafusion::common::Result<Vec<Ran>> {
        setup_scratch_dir(file)?;
        let Some(test) = TestContext::try_new_for_test_file(file).await else { return Ok(Vec::new()) };
        engine::prepare(&test, setting, weld.then_some(&self.rule), self.opt_level)?;
        let last = Last::default();
        let connect = || async { Ok(Engine::new(&test, file.to_owned(), weld, Arc::clone(&last))) };
        let mut runner = Runner::new(connect);
        runner.add_label("Datafusion");
        runner.with_column_validator(strict_column_validator);
        runner.with_normalizer(value_normalizer);
        runner.with_validator(df_value_validator);
        let records = sqllogictest::parse_file(Path::new(FOLDER).join(file));
        let records = records.map_err(|error| datafusion::error::DataFusionError::External(error.into()))?;
        let mut ran = Vec::new();
        for record in records {
            let (sql, place) = match &record {
                Record::Halt { .. } => break,
                Record::Statement { sql, loc, .. } | Record::Query { sql, loc, .. } => (sql.clone(), loc.to_string()),
                _ => (String::new(), String::new()),
            };
            let unexpected = runner.run_async(record).await.err().map(|error| error.to_string());
            let outcome = last.lock().unwrap_or_else(PoisonError::into_inner).take();
            ran.extend(outcome.map(|(outcome, compiled)| Ran { sql, place, outcome, compiled, unexpected }));
        }
        Ok(ran)
    }
}

fn is_error(ran: &Ran) -> bool {
    use crate::record::Outcome;
    matches!(ran.outcome, Outcome::Failed { .. } | Outcome::Broke(_))
}

/// Whether stock DataFusion gave the same every time.
fn is_stable(first: &[Ran], again: &[Vec<Ran>], index: usize) -> bool {
    again.iter().all(|run| {
        let pair = first.get(index).zip(run.get(index));
        pair.is_some_and(|(first, other)| difference(&first.outcome, &other.outcome).is_none())
    })
}
