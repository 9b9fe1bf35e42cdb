//! `weld tpch`, `tpcds`, `h2o` and `clickbench` are benchmarks; `weld bench` makes one of anybody's queries.
//!
//! `weld tpch run` makes the data when it is absent, runs the queries on DataFusion and on DataFusion with Weld in
//! turn, compares every answer and reports the times; `weld bench` does so for a folder of files and one of queries.
//! With `--cold` each run is the first of a process of its own.

mod clickbench;
mod cold;
mod files;
mod folder;
mod generated;
mod h2o;
mod hits;
mod random;
mod report;
mod row_groups;
mod run;
mod suite;
mod tpcds;
mod tpch;
mod words;

use clap::{Args, Subcommand, ValueEnum};

use crate::engine;
use crate::failure::Result;

pub(crate) use folder::FolderArgs;
pub(crate) use generated::Generated;
pub(crate) const TPCH: &Generated = &tpch::SUITE;
pub(crate) const TPCDS: &Generated = &tpcds::SUITE;
pub(crate) const H2O: &Generated = &h2o::SUITE;
pub(crate) const CLICKBENCH: &Generated = &clickbench::SUITE;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the queries on both engines, compare the answers, print the times
    Run(generated::RunArgs),
}

/// How the queries are measured.
#[derive(Args)]
struct Options {
    /// Where the tables are while the queries run
    #[arg(long, default_value = "parquet")]
    storage: Storage,
    /// DataFusion's target partitions, and the number of threads [default: the number of cores]
    #[arg(long, short = 'p', value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    partitions: Option<u16>,
    /// Timed runs of each query on each engine, after a first run that is reported apart
    #[arg(long, short = 'i', default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    iterations: u16,
    #[arg(long, default_value = "both")]
    engine: Engines,
    /// Time first runs: each in a process of its own, the engines in turn; answers are not compared
    #[arg(long)]
    cold: bool,
    /// One run, the first, and no more
    #[arg(long, hide = true, conflicts_with = "cold")]
    once: bool,
    /// A setting of the session with Weld, such as weld.compile_min_rows=0; may be given many times
    #[arg(long = "set", value_parser = setting, value_name = "NAME=VALUE")]
    settings: Vec<(String, String)>,
    /// A table for reading, or one JSON object a query
    #[arg(long, default_value = "table")]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Storage {
    /// Files, read and decoded by every run
    Parquet,
    /// Arrow record batches, loaded once
    Memory,
    /// The same, encoded; DataFusion has them as they are
    Weld,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Engines {
    Both,
    Weld,
    Datafusion,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    Table,
    Json,
}

impl Engines {
    fn list(self) -> &'static [engine::Engine] {
        use engine::Engine::{Datafusion, Weld};
        match self {
            Engines::Both => &[Datafusion, Weld],
            Engines::Weld => &[Weld],
            Engines::Datafusion => &[Datafusion],
        }
    }
}

impl std::fmt::Display for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Storage::Parquet => "parquet",
            Storage::Memory => "memory",
            Storage::Weld => "weld",
        })
    }
}

impl Options {
    fn partitions(&self) -> usize {
        self.partitions.map_or_else(engine::default_partitions, usize::from)
    }
}

pub(crate) fn run(benchmark: &Generated, command: Command) -> Result<()> {
    let Command::Run(args) = command;
    measure(&benchmark.suite(&args)?, &args.options)
}

pub(crate) fn run_folder(args: &FolderArgs) -> Result<()> {
    measure(&args.suite()?, &args.options)
}

fn measure(suite: &suite::Suite, options: &Options) -> Result<()> {
    if options.cold { cold::run(suite, options) } else { run::run(suite, options) }
}

fn setting(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}
