//! DataFusion's own sqllogictest suite: every record gives with Weld what it gives without.
//!
//! ```text
//! weld-sqllogictest                                  every file, batches of 8192 and 3 rows, 4 partitions and 1
//! weld-sqllogictest --file joins --at 3x4            some files, at one setting
//! ```
//!
//! Each file runs twice in this process, on stock DataFusion and on a session with the rule, and the records' outcomes
//! are compared as `docs/semantics.md` promises. The files are those of the crate `datafusion-sqllogictest`; what they
//! read beside is under `data/`. Ends with code 1 if there was a difference.

#![forbid(unsafe_code)]

mod checkout;
mod engine;
mod record;
mod settings;
mod skips;
mod suite;

use std::process::{Command, ExitCode};

use clap::Parser;

use crate::checkout::Checkout;
use crate::settings::Setting;
use crate::suite::Suite;

/// The records need deep stacks: expressions are evaluated by recursion.
const STACK_BYTES: usize = 64 << 20;

/// Where the second process finds the checkout that the first one made.
const CHECKOUT_VARIABLE: &str = "WELD_SQLLOGICTEST_CHECKOUT";

#[derive(Parser)]
struct Args {
    /// Only files whose path has this in it; may be given many times
    #[arg(long = "file", value_name = "TEXT")]
    files: Vec<String>,
    /// Batch size and target partitions, as in 3x4; may be given many times [default: 8192x4, 8192x1, 3x4 and 3x1]
    #[arg(long = "at", value_name = "BATCHxPARTITIONS")]
    settings: Vec<Setting>,
    /// Every Nth file only
    #[arg(long, value_name = "N", default_value = "1")]
    every: usize,
    /// LLVM's effort, as in `SET weld.opt_level`
    #[arg(long, value_name = "LEVEL", default_value = "0")]
    opt_level: u8,
    /// Files that run at the same time
    #[arg(long, value_name = "N", default_value = "2")]
    jobs: usize,
    /// Say how long each file takes
    #[arg(long)]
    times: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let run = || match std::env::var_os(CHECKOUT_VARIABLE) {
        None => in_checkout(),
        Some(_) => compare(&args),
    };
    run().unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// The files name theirs relative to a folder in a checkout of DataFusion, and by a variable: makes the checkout, and
/// runs this program again in that folder.
fn in_checkout() -> std::io::Result<ExitCode> {
    let checkout = Checkout::new()?;
    let status = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(CHECKOUT_VARIABLE, checkout.root())
        .env("ARROW_TEST_DATA", checkout.arrow_test_data())
        .current_dir(checkout.working_folder())
        .status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn compare(args: &Args) -> std::io::Result<ExitCode> {
    let settings = if args.settings.is_empty() { Setting::all() } else { args.settings.clone() };
    let suite = Suite::new(settings, args.opt_level, args.times)?;
    let mut files = suite.files(&args.files)?;
    files = files.into_iter().step_by(args.every.max(1)).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()?;
    let tally = runtime.block_on(suite.run(files, args.jobs));
    print!("{tally}");
    Ok(if tally.differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
