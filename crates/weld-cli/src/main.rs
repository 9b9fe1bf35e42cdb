//! The `weld` command: SQL through Weld, benchmarks, and tools for programs in Weld's own language and others.
//!
//! `weld tpch run --scale-factor 1` and `weld bench data/ --queries queries/` measure, `weld sql data/` runs queries,
//! `weld explain` shows what becomes of one. One file a subcommand; `benchmark` has those that measure. Errors are one
//! line on standard error; exit code 2 is a wrong command line, 1 is anything else that failed.
#![deny(unsafe_code)]

mod allocator;
mod benchmark;
mod cache;
mod engine;
mod eval;
mod explain;
mod failure;
mod format;
mod output;
mod program;
mod repl;
mod run;
mod session;
mod shell;
mod sql;
mod tables;

use clap::{Parser, Subcommand};
use std::thread::JoinHandle;

use failure::{Failure, Result};

#[derive(Parser)]
#[command(name = "weld", version, about = "SQL and data programs, fused and compiled to native code.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The TPC-H queries, with and without Weld, answers compared
    #[command(subcommand)]
    Tpch(benchmark::Command),
    /// The TPC-DS queries, with and without Weld, answers compared
    #[command(subcommand)]
    Tpcds(benchmark::Command),
    /// H2O.ai's questions on grouping and joins, with and without Weld, answers compared
    #[command(subcommand)]
    H2o(benchmark::Command),
    /// ClickBench's questions over generated data, with and without Weld, answers compared
    #[command(subcommand)]
    Clickbench(benchmark::Command),
    /// Queries of your own over files of your own, with and without Weld, answers compared
    Bench(benchmark::FolderArgs),
    /// SQL over Parquet, CSV and JSON files; a shell when run at a terminal
    Sql(sql::Args),
    /// What becomes of a query or a program: plan, Weld, optimised Weld, LLVM IR, assembly
    Explain(explain::Args),
    /// Machine code that `weld sql` keeps on disk
    #[command(subcommand)]
    Cache(cache::Command),
    /// Run a program of Weld's own language, or a definition in another
    Run(run::Args),
    /// Run programs from JSON lines on standard input, answering each with a line
    Eval(eval::Args),
    /// Weld's own language, an expression at a time
    Repl(repl::Args),
    /// Lay programs of Weld's own language out anew
    Fmt(format::Args),
}

/// What the command runs on. SQL expressions of thousands of terms are planned by recursion; pages that are not reached
/// cost nothing.
const STACK_BYTES: usize = 1 << 30;

fn main() {
    allocator::configure();
    // A panic is a defect, of this project or of a library: one line of error like any other.
    std::panic::set_hook(Box::new(|_| {}));
    let command = std::thread::Builder::new().name("weld".to_owned()).stack_size(STACK_BYTES).spawn(command);
    let result = match command.map(JoinHandle::join) {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(Failure::panic(panic.as_ref())),
        Err(error) => Err(Failure::new(format!("cannot start a thread: {error}"))),
    };
    let code = result.map_or_else(Failure::report, |()| 0);
    // Everything was printed. LLVM's destructors must not run under a thread that still compiles, nor is it waited for.
    signal_hook::low_level::exit(code)
}

fn command() -> Result<()> {
    match Cli::try_parse() {
        Ok(cli) => dispatch(cli.command),
        Err(error) if error.use_stderr() => Err(Failure::usage(&error)),
        // --help and --version.
        Err(text) => output::print(&text.to_string()),
    }
}

fn dispatch(command: Command) -> Result<()> {
    match command {
        Command::Tpch(command) => benchmark::run(benchmark::TPCH, command),
        Command::Tpcds(command) => benchmark::run(benchmark::TPCDS, command),
        Command::H2o(command) => benchmark::run(benchmark::H2O, command),
        Command::Clickbench(command) => benchmark::run(benchmark::CLICKBENCH, command),
        Command::Bench(args) => benchmark::run_folder(&args),
        Command::Sql(args) => sql::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Cache(command) => cache::run(command),
        Command::Run(args) => run::run(args),
        Command::Eval(args) => eval::run(args),
        Command::Repl(args) => repl::run(args),
        Command::Fmt(args) => format::run(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
