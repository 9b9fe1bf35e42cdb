//! `weld tpch` and `weld tpcds`: benchmarks.
//!
//! `weld tpch run` makes the data when it is absent, runs the queries on DataFusion and on DataFusion with Weld in turn,
//! compares every answer and reports the times. With `--cold` each run is the first of a process of its own.

mod cold;
mod files;
mod report;
mod run;
mod suite;
mod tpcds;
mod tpch;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::engine;
use crate::failure::Result;

pub(crate) use suite::Suite;
pub(crate) const TPCH: &Suite = &tpch::SUITE;
pub(crate) const TPCDS: &Suite = &tpcds::SUITE;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the queries on both engines, compare the answers, print the times
    Run(RunArgs),
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// Size of the data: 1 is about 1 GB of raw text
    #[arg(long, short = 's', default_value_t = 1.0, value_parser = scale_factor, value_name = "N")]
    scale_factor: f64,
    /// Folder of the Parquet files, made when absent [default: data/NAME-sf{N}]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Numbers of the queries, such as 1,6 or 1-5,12 [default: all]
    #[arg(long, short = 'q', value_delimiter = ',', value_parser = suite::parse_range, value_name = "LIST")]
    queries: Vec<suite::Range>,
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
        })
    }
}

pub(crate) fn run(suite: &'static Suite, command: Command) -> Result<()> {
    match command {
        Command::Run(args) if args.cold => cold::run(suite, &args),
        Command::Run(args) => run::run(suite, &args),
    }
}

/// Where the files are.
fn folder(suite: &Suite, args: &RunArgs) -> PathBuf {
    args.data.clone().unwrap_or_else(|| PathBuf::from(format!("data/{}-sf{}", suite.name, args.scale_factor)))
}

fn setting(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn scale_factor(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 100_000.0 => Ok(number),
        _ => Err("expected a number above 0, at most 100000".to_owned()),
    }
}
